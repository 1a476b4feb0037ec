"""A process that judges: how it is started, what it does, and how it ends."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from ctypes import Array, c_char
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Protocol

from torchkata.tools.errors import CourseError
from torchkata.tools.grading import watchdog
from torchkata.tools.grading.grader import Grade, OpenGrader
from torchkata.tools.grading.records import Record, Submission

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOAD = ["torchkata.tools.grading.preload"]
LIMITED = sys.platform == "linux"  # where the kernel can end a process that judges for too long

Note = Array[c_char]  # shared memory in which the process says what it is judging


@dataclass(frozen=True)
class Lost:
    """The answer of a grader that is of no more use.

    Attributes:
        judged: what its process was judging when it ended, an exercise or an own cell.
        by_its_task: whether that ended it; else somebody else may have.
    """

    reason: str
    judged: str = ""
    by_its_task: bool = False


class Process(Protocol):
    """What is asked of a process from outside, as of one of multiprocessing's."""

    @property
    def exitcode(self) -> int | None: ...

    def kill(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...


Start = Callable[[Connection, OpenGrader], tuple[Process, Note]]  # with its end of a pipe


# ---------------------------------------------------------------- forked


@cache
def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def get_ready() -> None:
    """Let the process that all graders are forked from begin to load torch, in the background. Needed by nothing, saves
    time."""
    if _context().get_start_method() == "forkserver":
        forkserver.ensure_running()


def fork(pipe: Connection, open_grader: OpenGrader) -> tuple[Process, Note]:
    """A process that is forked from one which has loaded torch."""
    note = _context().RawArray(c_char, watchdog.NOTE_SIZE)
    process = _context().Process(target=_forked, args=(pipe, open_grader, note, dict(os.environ)), daemon=False)
    process.start()
    return process, note


def _forked(pipe: Connection, open_grader: OpenGrader, note: Note, environment: dict[str, str]) -> None:
    os.environ.clear()  # what it was forked from may have another one
    os.environ.update(environment)
    parent = multiprocessing.parent_process()
    assert parent is not None
    _work(pipe, open_grader, parent.sentinel, note)


# ---------------------------------------------------------------- a program


class _Program:
    """A program that ends with the process that has started it."""

    def __init__(self, process: subprocess.Popen, lifeline: int):
        self._process, self._lifeline = process, lifeline

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    def join(self, timeout: float | None = None) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
            os.close(self._lifeline)


def start_program(pipe: Connection, open_grader: OpenGrader) -> tuple[Process, Note]:
    """A process that is started anew: multiprocessing starts none in a daemon, as Dask's workers are."""
    with tempfile.TemporaryFile() as noted, tempfile.TemporaryFile() as opening:
        noted.truncate(watchdog.NOTE_SIZE)
        opening.write(pickle.dumps(open_grader))
        opening.seek(0)
        theirs, ours = os.pipe()
        files = [pipe.fileno(), opening.fileno(), theirs, noted.fileno()]
        command = [sys.executable, "-P", "-c", f"from {__name__} import main\nmain{tuple(files)}"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(command, pass_fds=files, stdin=subprocess.DEVNULL, env=environment)
        os.close(theirs)
        return _Program(process, ours), _note_in(noted.fileno())


def _note_in(file: int) -> Note:
    return (c_char * watchdog.NOTE_SIZE).from_buffer(mmap.mmap(file, watchdog.NOTE_SIZE))


def main(pipe: int, opening: int, lifeline: int, noted: int) -> None:
    """What the program does, with these open files."""
    with os.fdopen(opening, "rb") as file:
        open_grader = pickle.load(file)
    _work(Connection(pipe), open_grader, lifeline, _note_in(noted))


# ---------------------------------------------------------------- at work


def _work(pipe: Connection, open_grader: OpenGrader, lifeline: int, note: Note) -> None:
    """Grade what comes through the pipe until it is closed, or nobody holds the other end of the lifeline any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl + C is for the main process, which then closes the pipe
    if LIMITED:
        watchdog.end_with(lifeline)
        watchdog.keep_note(note)
    try:
        with open_grader() as grade:
            _answer_all(pipe, grade)
    except CourseError as error:
        pipe.send(error)
    except Exception as error:  # no grader can be had: the whole run must say so
        pipe.send(CourseError(f"The grader can't start. {type(error).__name__}: {error}"))


def _answer_all(pipe: Connection, grade: Grade) -> None:
    with suppress(EOFError, OSError):  # the main process has closed the pipe, or has ended
        while True:
            pipe.send(_graded(grade, pipe.recv()))


def _graded(grade: Grade, submission: Submission) -> Record | Lost | str:
    """The record; Lost where the grader is of no more use; a text where it failed at this submission."""
    try:
        return grade(submission)
    except CourseError as error:  # the sandbox has failed: a fresh one may not
        return Lost(str(error).rstrip("."))
    except Exception as error:  # a fault of the grader: the teacher hears of it, the batch goes on
        return f"{type(error).__name__}: {error}"
