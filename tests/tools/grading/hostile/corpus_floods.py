"""Floods: of time, memory, processes, disk, output and results. Each is bounded by itself, too."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack


@attack()
def endless_loop(it: HandIn):
    """Loops for ever in an answer."""
    it.answer_one("", "while True: pass")


@attack()
def endless_cell(it: HandIn):
    """Loops for ever in an answer cell, and catches every interrupt."""
    it.answer_one("while True:\n    try:\n        while True: pass\n    except BaseException: pass")


@attack()
def long_sleep(it: HandIn):
    """Sleeps for hours in a cell of its own."""
    it.own_cell("import time\ntime.sleep(36000)", before=it.rest[0])


@attack()
def deaf_computation(it: HandIn):
    """Computes in C for years, where no signal handler of Python is ever run."""
    it.answer_one("import re", "re.match(r'(a+)+$', 'a' * 60 + 'b')")


@attack(nbgrader_safe=False)
def many_slow_answers(it: HandIn):
    """Takes a little less than the limit of an exercise in each of them, so that they sum up."""
    it.answer_all("import time\ntime.sleep(3)", "time.sleep(60)")
    for place in range(3):
        it.own_cell(f"import time; time.sleep(3)  # {place}", before=it.rest[-1])
    it.unsure.add(it.last.exercise.id)


@attack(nbgrader_safe=False)
def memory_flood(it: HandIn):
    """Takes memory until none is left, in its process and in children."""
    it.answer_one(
        """
        import os
        def fill():
            kept = []
            try:
                for _ in range(64):
                    kept.append(bytearray(64 * 2**20))
            except MemoryError:
                pass
            return kept
        def flood():
            for _ in range(3):
                if os.fork() == 0:
                    try:
                        fill()
                    finally:
                        os._exit(0)
            return len(fill())
        """,
        "return flood()",
    )


@attack(nbgrader_safe=False)
def memory_that_is_shared(it: HandIn):
    """Takes memory that several processes share, which no limit of a process counts."""
    it.answer_one(
        """
        import mmap, os, time
        def flood():
            for _ in range(12):
                if os.fork() == 0:
                    try:
                        held = mmap.mmap(os.open("/dev/zero", os.O_RDWR) if _ % 2 else -1, 400 * 2**20)
                        held[::4096] = bytes(len(held) // 4096)
                        time.sleep(600)
                    finally:
                        os._exit(0)
            time.sleep(600)
        """,
        "flood()",
    )


@attack(nbgrader_safe=False)
def memory_of_torch(it: HandIn):
    """Lets torch allocate terabytes, and touch a few gigabytes."""
    it.answer_all("", "torch.ones(2**33, dtype=torch.uint8)\nreturn torch.empty(2**42)")


@attack(nbgrader_safe=False)
def short_children(it: HandIn):
    """Never ends, and lets short children take the time."""
    it.answer_one(
        """
        import os, time
        def flood():
            while True:
                for _ in range(8):
                    if os.fork() == 0:
                        sum(range(10**5))
                        os._exit(0)
                for _ in range(8):
                    os.wait()
        """,
        "flood()",
    )


@attack(nbgrader_safe=False)
def fork_bomb(it: HandIn):
    """Forks, and its children fork, 300 processes in all; they stay."""
    it.answer_one(
        """
        import os, time
        def bomb():
            end = time.monotonic() + 20
            for _ in range(300):
                try:
                    if os.fork() == 0:
                        while time.monotonic() < end:
                            time.sleep(1)
                        os._exit(0)
                except OSError:
                    time.sleep(0.01)
        """,
        "bomb()",
    )


@attack(nbgrader_safe=False)
def thread_bomb(it: HandIn):
    """Starts a thousand threads that stay."""
    it.answer_one(
        """
        import threading, time
        def bomb():
            for _ in range(1000):
                threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        """,
        "bomb()",
    )


@attack(nbgrader_safe=False)
def disk_flood(it: HandIn):
    """Writes files until the disk is full, one of them with a hole of a terabyte."""
    it.answer_one(
        """
        import os, pathlib
        def flood():
            for place in (".", "/tmp", "/dev/shm", "/var/tmp"):
                try:
                    with open(f"{place}/@TOKEN-hole", "wb") as file:
                        file.truncate(2**40)
                except OSError:
                    pass
                for number in range(16):
                    try:
                        pathlib.Path(place, f"@TOKEN-{number}").write_bytes(bytes(16 * 2**20))
                    except OSError:
                        pass
        """,
        "flood()",
    )


@attack(nbgrader_safe=False)
def many_small_files(it: HandIn):
    """Makes 30,000 empty files and folders in folders."""
    it.answer_one(
        """
        import os, pathlib
        def flood():
            try:
                for number in range(30_000):
                    pathlib.Path(f"@TOKEN-{number}").touch()
            except OSError:
                pass
            for _ in range(500):
                try:
                    os.mkdir("deep")
                    os.chdir("deep")
                except OSError:
                    break
        """,
        "flood()",
    )


@attack(nbgrader_safe=False)
def output_flood(it: HandIn):
    """Prints a hundred million characters, in cells, in answers and past Python."""
    it.answer_all(
        """
        import os, sys
        def flood():
            for _ in range(100):
                print("@TOKEN " * 2**14)
                sys.stderr.write("x" * 2**17)
            for _ in range(100):
                os.write(1, b"y" * 2**17)
                os.write(2, b"y" * 2**17)
        flood()
        """,
        "flood()",
    )


@attack(nbgrader_safe=False)
def open_files(it: HandIn):
    """Opens files and sockets until none can be opened any more, and keeps them."""
    it.answer_one(
        """
        import os, socket
        kept = []
        def flood():
            try:
                for _ in range(5000):
                    kept.append(os.open("/dev/null", os.O_RDONLY))
                    kept.append(socket.socket())
            except OSError:
                pass
        """,
        "flood()",
    )


@attack(nbgrader_safe=False)
def huge_results(it: HandIn):
    """Returns results that are large only when they are looked at: expanded tensors, shared and nested lists."""
    bodies = [
        "return torch.zeros(1).expand(2**40)",
        "return torch.empty(2**45, device='meta')",
        "return [[0] * 1000] * 10**6",
        "x = []\nfor _ in range(60):\n    x = [x, x]\nreturn x",
        "return 'x' * 2**28",
        "return 10**10**6",
    ]
    for task, body in zip(it.rest, bodies, strict=False):
        if task.functions:
            inner = "\n".join(f"    {line}" for line in body.splitlines())
            it.answer(task, f"def {task.functions[0].name}(*args, **kwargs):\n{inner}")


@attack(nbgrader_safe=False)
def endless_results(it: HandIn):
    """Returns results without an end: lists in themselves, deep nesting, iterators that never stop."""
    bodies = [
        "x = []\nx.append(x)\nreturn x",
        "x = []\nfor _ in range(10**5):\n    x = [x]\nreturn x",
        "x = {}\nx[0] = x\nreturn x",
        "class Endless(list):\n    def __iter__(self):\n        while True: yield 1\nreturn Endless()",
        "return (0 for _ in iter(int, 1))",
    ]
    for task, body in zip([task for task in it.rest if task.functions], bodies, strict=False):
        inner = "\n".join(f"    {line}" for line in body.splitlines())
        it.answer(task, f"def {task.functions[0].name}(*args, **kwargs):\n{inner}")


@attack()
def costly_items(it: HandIn):
    """Answers with tensors of many million elements that take no memory, which judging would have to write out."""
    task = next(task for task in it.tasks if task.has_items)
    name, items = task.items
    it.answer(task, f"{name} = {{item: torch.zeros(1).expand(3_000_000) for item in {items!r}}}")


@attack()
def costly_messages(it: HandIn):
    """Raises exceptions with messages of millions of characters, a thousand classes and a deep traceback."""
    it.answer_all(
        """
        kind = ValueError
        for number in range(500):
            kind = type("K" * 1000 + str(number), (kind,), {})
        def deep(n):
            if n:
                deep(n - 1)
            raise kind("a" * 10**7)
        """,
        "deep(300)",
    )


@attack()
def huge_source(it: HandIn):
    """Hands in answers whose source takes long to compile: nesting, and a number of a million digits."""
    functions = [task for task in it.rest if task.functions]
    it.answer(functions[0], "x = " + "(" * 150 + ")" * 150)
    it.answer(functions[1], "x = " + "-" * 50_000 + "1")
    it.answer(functions[2], "x = " + "9" * 50_000)
    it.answer(functions[3], "x = '" + "a" * 100_000 + "'\n" + "[" * 90 + "]" * 90)


@attack()
def dimensions_for_the_judge(it: HandIn):
    """Sends tensors of one number and very many dimensions, of which the judge would make a list for each element and
    dimension."""
    task = next(task for task in it.tasks if task.has_items)
    name, items = task.items
    huge = "torch.zeros(1).expand(2**17, *[1] * 62)"
    it.answer(task, f"import torch\n{name} = {{item: {huge} for item in {items!r}}}")
    it.earned[task.exercise.id] = 0.0
