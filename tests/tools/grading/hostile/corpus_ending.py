"""Ending, stopping and locking: one's own process, its parents, the grader and what it needs."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack


@attack()
def exit_at_once(it: HandIn):
    """Ends its process in an answer cell, when an exercise before is earned and one behind is still to be judged."""
    it.answer_one("import os\nos._exit(0)")


@attack()
def exit_in_the_check(it: HandIn):
    """Ends its process when the check calls the answers."""
    it.answer_all("import os", "os._exit(0)")


@attack()
def polite_exits(it: HandIn):
    """Raises SystemExit, KeyboardInterrupt and GeneratorExit in cells and answers; exits by `exit` and `quit`."""
    endings = ["raise SystemExit", "raise KeyboardInterrupt", "raise GeneratorExit", "__import__('sys').exit(3)"]
    for task, ending in zip(it.rest, endings * 2, strict=False):
        body = task.functions and f"def {task.functions[0].name}(*args, **kwargs):\n    {ending}\n"
        it.answer(task, body or ending)
    it.own_cell("raise SystemExit", before=it.rest[1])


@attack(nbgrader_safe=False)
def crashes(it: HandIn):
    """Ends its process by a segmentation fault, an abort, a stack overflow and signals."""
    ways = [
        "__import__('ctypes').string_at(0)",
        "os.abort()",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "(sys.setrecursionlimit(10**9), deep(0))",
        "os.kill(os.getpid(), signal.SIGSEGV)",
    ]
    functions = [task for task in it.rest if task.functions]
    for task, way in zip(functions, ways, strict=False):
        it.answer(
            task,
            f"""
import os, signal, sys
def deep(n):
    return [deep(n + 1)]
def {task.functions[0].name}(*args, **kwargs):
    {way}
""",
        )


@attack(nbgrader_safe=False)
def kills(it: HandIn):
    """Kills its parent, its group, the first process and everyone whom it may send a signal to."""
    it.answer_one(
        """
        import os, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        def kill():
            for number in (os.getppid(), os.getpgrp(), 1, -1, 0):
                for name in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
                    for send in (os.kill, os.killpg):
                        try:
                            send(number, name)
                        except OSError:
                            pass
        kill()
        """,
        "kill()",
    )


@attack(nbgrader_safe=False)
def stops(it: HandIn):
    """Stops itself and its parents by SIGSTOP, so that nobody answers."""
    it.answer_one(
        """
        import os, signal
        def stop():
            for number in (os.getppid(), -1, os.getpid()):
                try:
                    os.kill(number, signal.SIGSTOP)
                except OSError:
                    pass
            os.kill(os.getpid(), signal.SIGSTOP)
        """,
        "stop()",
    )


@attack(nbgrader_safe=False)
def stopped_by_a_child(it: HandIn):
    """Has a child that stops it for good while it answers."""
    it.answer_one(
        """
        import os, signal, time
        def stopped():
            if os.fork() == 0:
                while True:
                    os.kill(os.getppid(), signal.SIGSTOP)
                    time.sleep(0.01)
            time.sleep(100)
        """,
        "stopped()",
    )


@attack(nbgrader_safe=False)
def locks(it: HandIn):
    """Takes the locks of gradebook and grading run, and keeps them."""
    it.answer_one(
        """
        import fcntl, glob, os, sqlite3
        kept = []
        for path in ("@COURSE/.torchkata-grade.lock", "@COURSE/gradebook.db"):
            try:
                kept.append(open(path, "r+"))
                fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
        try:
            book = sqlite3.connect("@COURSE/gradebook.db", timeout=1)
            book.execute("begin exclusive")
            if os.fork() == 0:
                import time
                time.sleep(60)
        except Exception:
            pass
        """
    )


@attack(nbgrader_safe=False)
def everything_closed(it: HandIn):
    """Closes all files and sockets of its process, then goes on."""
    it.answer_all("import os", "os.closerange(0, 4096)\nreturn None")


@attack(nbgrader_safe=False)
def outliving_child(it: HandIn):
    """Leaves a process that has cut all ties, ignores signals, and starts itself anew when it is ended."""
    it.answer_one(
        """
        import os, signal, subprocess, sys, time
        code = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(60)"
        def leave():
            subprocess.Popen([sys.executable, "-c", code, "@TOKEN"], start_new_session=True)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.closerange(0, 4096)
                    time.sleep(60)
                os._exit(0)
        leave()
        """
    )


@attack(nbgrader_safe=False)
def no_end(it: HandIn):
    """Refuses to end: ignores signals, restarts in exit handlers, keeps threads alive that are waited for."""
    it.answer_one(
        """
        import atexit, os, signal, threading, time
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        atexit.register(time.sleep, 100)
        class Late:
            def __del__(self): time.sleep(100)
        late = Late()
        threading.Thread(target=time.sleep, args=(100,)).start()
        """,
        "raise SystemExit",
    )


@attack(nbgrader_safe=False)
def traced_by_its_child(it: HandIn):
    """Lets a child trace it that holds it up when it ends."""
    it.answer_one(
        """
        import ctypes, os, time
        libc = ctypes.CDLL(None)
        libc.prctl(4, 1, 0, 0, 0)
        libc.prctl(0x59616D61, -1, 0, 0, 0)
        if os.fork() == 0:
            libc.ptrace(0x4206, 1, 0, 0x40)
            time.sleep(600)
        time.sleep(0.5)
        """
    )
