"""Graders at work side by side: processes that take submissions and give back records, whatever happens to them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait

from torchkata.tools.errors import CourseError
from torchkata.tools.grading import watchdog
from torchkata.tools.grading.grader import OpenGrader, Sharing
from torchkata.tools.grading.judge import Lost, Note, Process, Start, fork
from torchkata.tools.grading.records import NotGradable, Record, Submission

ATTEMPTS = 2


@dataclass
class _Worker:
    process: Process
    pipe: Connection
    note: Note
    task: Submission | None = None
    deadline: float = 0.0


class Pool:
    """`jobs` processes, each with its own grader; a context manager that ends them all.

    Attributes:
        patience: seconds after which a process that has not answered is ended. Graders keep their own, shorter limits.
        start: how a process is started.
    """

    def __init__(self, open_grader: OpenGrader, jobs: int, patience: float, start: Start = fork):
        self.open_grader, self.jobs, self.patience, self.start = open_grader, jobs, patience, start
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

        A submission whose process ends or doesn't answer is tried once more, then it is not gradable. Where judging an
        exercise ended the process, or it ends in that for a second time, the rest is graded without the exercise.
        Raises CourseError where a grader can't be opened.
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
                    attempts[task.student] += not reply.by_its_task
                    again = attempts[task.student] < ATTEMPTS
                    if reply.judged not in ("", *task.unjudged) and (reply.by_its_task or not again):
                        ahead.appendleft(replace(task, unjudged=[*task.unjudged, reply.judged]))
                        continue
                    if again:
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
        ours, theirs = Pipe()
        with self._opener() as open_grader:
            process, note = self.start(theirs, open_grader)
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
            self._drop(worker, Lost(""))
            by_its_task = worker.process.exitcode in watchdog.BY_ITS_TASK
            return Lost("its process ended without a result", watchdog.being_judged(worker.note), by_its_task)
        return self._drop(worker, reply) if isinstance(reply, Lost) else reply

    def _drop(self, worker: _Worker, reply: Lost) -> Lost:
        self.workers.remove(worker)
        _end(worker)
        return reply


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.task:
        worker.process.kill()
    worker.process.join(5)
    if worker.process.exitcode is None:
        worker.process.kill()
        worker.process.join()


def refusal(task: Submission, reason: object) -> NotGradable:
    """The result of a submission that the grader itself failed at."""
    return NotGradable(task.student, task.chapter, f"The grader failed: {reason}.")
