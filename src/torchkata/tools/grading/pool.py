"""Graders at work side by side: processes that take submissions and give back records, whatever happens to them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from ctypes import Array, c_char
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from torchkata.tools.errors import CourseError
from torchkata.tools.grading import watchdog
from torchkata.tools.grading.grader import Grade, OpenGrader, Sharing
from torchkata.tools.grading.records import NotGradable, Record, Submission

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOAD = ["torchkata.tools.grading.preload"]
ATTEMPTS = 2
LIMITED = sys.platform == "linux"  # where the kernel can end a process that judges for too long


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


@dataclass(frozen=True)
class Lost:
    """The answer of a grader that is of no more use; `judged` is the exercise whose judging went beyond its limits."""

    reason: str
    judged: str = ""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    note: Array[c_char]  # which exercise the process is judging
    task: Submission | None = None
    deadline: float = 0.0


class Pool:
    """`jobs` processes, each with its own grader; a context manager that ends them all.

    Attributes:
        patience: seconds after which a process that has not answered is ended. Graders keep their own, shorter limits.
    """

    def __init__(self, open_grader: OpenGrader, jobs: int, patience: float):
        self.open_grader, self.jobs, self.patience = open_grader, jobs, patience
        self.workers: list[_Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            _end(worker)

    def grade(self, submissions: Iterable[Submission]) -> Iterator[tuple[Submission, Record | NotGradable]]:
        """Grade submissions, some at a time; yields each with its result, in the order in which they are done.

        A submission whose process ends or doesn't answer is tried once more, then it is not gradable; where the limits
        on judging an exercise ended it, without that exercise. Raises CourseError where a grader can't be opened.
        """
        waiting = iter(submissions)
        ahead: deque[Submission] = deque()
        attempts: Counter[str] = Counter()
        while True:
            self._occupy(ahead, waiting)
            if not (busy := [worker for worker in self.workers if worker.task]):
                return
            ahead.extend(islice(waiting, max(0, self.jobs - len(ahead))))  # read while the graders are at work
            done, failure = [], None
            for worker, reply in self._replies(busy):
                task, worker.task = worker.task, None
                assert task is not None  # the worker is busy
                if isinstance(reply, CourseError):
                    failure = reply
                    continue
                if isinstance(reply, Lost):
                    if reply.judged and reply.judged not in task.unjudged:
                        ahead.appendleft(replace(task, unjudged=[*task.unjudged, reply.judged]))
                        continue
                    attempts[task.student] += 1
                    if attempts[task.student] < ATTEMPTS:
                        ahead.appendleft(task)
                        continue
                    reply = f"{reply.reason}, {ATTEMPTS} times. Run the command again"
                done.append((task, reply if isinstance(reply, Record) else refusal(task, reply)))
            if failure is None:
                self._occupy(ahead, waiting)  # before anyone spends time on the results
            yield from done
            if failure is not None:
                raise failure

    def _occupy(self, ahead: deque[Submission], waiting: Iterator[Submission]) -> None:
        """Give idle graders something to do."""
        while sum(worker.task is not None for worker in self.workers) < self.jobs:
            task = ahead.popleft() if ahead else next(waiting, None)
            if task is None:
                return
            self._give(task)

    def _give(self, task: Submission) -> None:
        worker = next((worker for worker in self.workers if worker.task is None), None) or self._start()
        worker.task, worker.deadline = task, time.monotonic() + self.patience
        with suppress(OSError):  # the process may have ended: its pipe says so when the replies are read
            worker.pipe.send(task)

    def _start(self) -> _Worker:
        ours, theirs = _context().Pipe()
        note = _context().RawArray(c_char, watchdog.NOTE_SIZE)
        with self._opener() as open_grader:
            process = _context().Process(target=_work, args=(theirs, open_grader, note, dict(os.environ)), daemon=False)
            process.start()
        theirs.close()
        self.workers.append(_Worker(process, ours, note))
        return self.workers[-1]

    def _opener(self) -> AbstractContextManager[OpenGrader]:
        """What the next process calls."""
        opener = self.open_grader
        return opener.for_one_process() if isinstance(opener, Sharing) else nullcontext(opener)

    def _replies(self, busy: list[_Worker]) -> Iterator[tuple[_Worker, object]]:
        """Wait for answers; Lost is the answer of a process that ended or was too late."""
        soonest = min(worker.deadline for worker in busy)
        ready = wait([worker.pipe for worker in busy], timeout=max(0.0, soonest - time.monotonic()))
        for worker in busy:
            if worker.pipe in ready:
                yield worker, self._receive(worker)
            elif time.monotonic() >= worker.deadline:
                yield worker, self._drop(worker, Lost(f"no answer within {self.patience:g} seconds"))

    def _receive(self, worker: _Worker) -> object:
        try:
            reply = worker.pipe.recv()
        except (EOFError, OSError):
            reply = Lost("its process ended without a result")
        return self._drop(worker, reply) if isinstance(reply, Lost) else reply

    def _drop(self, worker: _Worker, reply: Lost) -> Lost:
        self.workers.remove(worker)
        _end(worker)
        judged = watchdog.exercise_that_ended(worker.process.exitcode, worker.note) if LIMITED else ""
        return replace(reply, judged=judged)


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.task:
        worker.process.kill()
    worker.process.join(5)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def refusal(task: Submission, reason: object) -> NotGradable:
    """The result of a submission that the grader itself failed at."""
    return NotGradable(task.student, task.chapter, f"The grader failed: {reason}.")


def _work(pipe: Connection, open_grader: OpenGrader, note: Array[c_char], environment: dict[str, str]) -> None:
    """What a process does: grade what comes through the pipe until it is closed."""
    os.environ.clear()  # what it was forked from may have another one
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl + C is for the main process, which then closes the pipe
    parent = multiprocessing.parent_process()
    if LIMITED and parent is not None:
        watchdog.end_with(parent.sentinel)
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
            pipe.send(graded(grade, pipe.recv()))


def graded(grade: Grade, submission: Submission) -> Record | Lost | str:
    """The record; Lost where the grader is of no more use; a text where it failed at this submission."""
    try:
        return grade(submission)
    except CourseError as error:  # the sandbox has failed: a fresh one may not
        return Lost(str(error).rstrip("."))
    except Exception as error:  # a fault of the grader: the teacher hears of it, the batch goes on
        return f"{type(error).__name__}: {error}"
