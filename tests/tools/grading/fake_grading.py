"""A grader that runs nothing: it judges by words in the answers. It imports little: each process of a pool loads it."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from torchkata.tools.errors import CourseError
from torchkata.tools.grading import watchdog
from torchkata.tools.grading.records import ExerciseMark, Record, Submission
from torchkata.tools.grading.sandbox.limits import Limits

NAME = "98_things"
EXERCISES = {"twice": 2.0, "guess": 3.0, "thrice": 1.0}


@contextmanager
def fake_grader(diary: Path, sandboxed: bool = True) -> Iterator:
    """Writes each student's name into a diary, then grades."""

    def grade(submission: Submission) -> Record:
        with diary.open("a") as stream:
            stream.write(f"{submission.student}\n")
        return fake_record(submission, sandboxed)

    yield grade


@contextmanager
def held_grader(diary: Path, victim: int) -> Iterator:
    """As `fake_grader`; a child of the process whose number is `victim` stays at its first submission until that one
    is killed."""

    def grade(submission: Submission) -> Record:
        with diary.open("a") as stream:
            stream.write(f"{submission.student} {os.getppid()}\n")
        while os.getppid() == victim:
            time.sleep(0.05)
        return fake_record(submission)

    yield grade


@contextmanager
def stubborn_grader(folder: Path) -> Iterator:
    """Fails as the first answer says; with "once", or a sandbox with a right answer, only the first time."""

    def grade(submission: Submission) -> Record:
        source = submission.cells[0].source
        met = folder / f"{submission.student}.met"
        if "everything" in source:
            os.kill(os.getppid(), signal.SIGKILL)
        if "kill" in source or ("once" in source and not met.exists()):
            met.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if "sandbox" in source and not ("right" in source and met.exists()):
            met.touch()
            raise CourseError("The sandbox has ended.")
        if "hang" in source:
            time.sleep(600)
        return fake_record(submission)

    yield grade


@contextmanager
def hurried_grader(folder: Path) -> Iterator:
    """Cuts off what is called late when it sees it first, and what is called slow always; notes when who is at work."""

    def grade(submission: Submission) -> Record:
        with (folder / "at-work.txt").open("a") as stream:
            stream.write(f"+{submission.student} ")
            stream.flush()
            time.sleep(0.2)
            stream.write(f"-{submission.student} ")
        record = fake_record(submission)
        met = folder / f"{submission.student}.met"
        if met.exists():
            return record
        met.touch()
        late = {cell.exercise for cell in submission.cells if "late" in cell.source}
        marks = [replace(m, points=0.0, state="cut off") if m.exercise in late else m for m in record.marks]
        return replace(record, marks=marks, points=sum(mark.points for mark in marks))

    yield grade


@contextmanager
def limited_grader(limits: Limits) -> Iterator:
    """Keeps the limits on judging; what an exercise wants to use up stands in its answer."""

    def grade(submission: Submission) -> Record:
        for cell in submission.cells:
            if cell.exercise and cell.exercise not in submission.unjudged:
                with watchdog.judging(cell.exercise, limits):
                    _use_up(cell.source)
        record = fake_record(submission)
        return replace(record, notes=[*record.notes, *submission.unjudged])

    yield grade


def _use_up(what: str) -> None:
    if "cpu" in what:
        sum(itertools.repeat(0))  # one call, which no handler of Python interrupts
    if "clock" in what:
        time.sleep(600)
    if "memory" in what:
        try:
            bytearray(2**34)
        except MemoryError:
            watchdog.out_of_memory()


def closed_grader(error: Exception) -> None:
    """A grader that can't be opened."""
    raise error


def fake_record(submission: Submission, sandboxed: bool = True) -> Record:
    sources = {cell.exercise: cell.source for cell in submission.cells if cell.kind == "answer"}
    marks = [_fake_mark(exercise, of, sources.get(exercise)) for exercise, of in EXERCISES.items()]
    total = sum(mark.points for mark in marks)
    about = {"digest": submission.digest, "handed_in": submission.handed_in, "seconds": 0.01}
    return Record(submission.student, NAME, marks, submission.notes, total, 6.0, sandboxed, **about)


def _fake_mark(exercise: str, of: float, source: str | None) -> ExerciseMark:
    if source is None:
        points, verdict, state = 0.0, "The answer cell is missing.", "missing"
    elif "right" in source:
        points, verdict, state = of, "solved", "solved"
    elif "half" in source:
        points, verdict, state = of / 2, "Half of it is right.\nThis half: a", "partly"
    elif "slow" in source:
        time.sleep(1)
        points, verdict, state = 0.0, "stopped after 30 seconds: does a loop never end?", "cut off"
    elif "lengthy" in source:
        time.sleep(1)
        points, verdict, state = 0.0, "Not so, after a second", "wrong"
    elif "for ever" in source:
        sum(itertools.repeat(0))
    elif "fault" in source:
        raise RuntimeError("a fault of the grader")
    else:
        points, verdict, state = 0.0, f"Not so: {source}", "wrong"
    return ExerciseMark(
        exercise, f"Exercise 98 · {exercise}", {f"{exercise}-check": points}, points, of, verdict, state
    )
