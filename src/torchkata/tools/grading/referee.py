"""The referee: runs a submission in a sandbox and the author's check cells here, and writes down the marks.

Check cells print and torch's settings belong to the process: one submission at a time in a process. To grade several
at a time, use several processes, each with torch.set_num_threads(1).
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from torchkata.base.chapter import CheckCell, Exercise
from torchkata.base.names import names_of, needed
from torchkata.tools.errors import CourseError
from torchkata.tools.grading import watchdog
from torchkata.tools.grading.chapter import MasterChapter, points_of
from torchkata.tools.grading.records import ExerciseMark, Record, Submission, SubmittedCell
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.grading.sandbox.session import CellReply, Sandbox, SubmissionSession, WorkerLost
from torchkata.tools.grading.stopping import few, how_it_stopped, own_cell, stub_was_left
from torchkata.verdicts import NotSolvedYet, StandIn, WrongAnswer
from torchkata.verdicts.originals import answers_elsewhere

MAX_TEXT = 20_000  # characters of one exercise's verdict
STOPPED = "this check stopped for a reason of its own; your teacher has been told."
TOO_MUCH = "what your answer gives back is too much to be judged."
MISSING = "the answer cell of this exercise is missing."
_one_at_a_time = threading.Lock()


def grade(
    submission: Submission,
    master: MasterChapter,
    sandbox: Sandbox,
    limits: Limits | None = None,
) -> Record:
    """Grade a submission: its cells in the learner's order, each answer followed by its check cells.

    A cell that crashes its process or takes too long is marked; the rest goes on in a fresh process, in which the
    cells that went well are run again.
    Raises CourseError when the sandbox itself fails.
    """
    began = time.monotonic()
    with _one_at_a_time:
        run = _Run(master, sandbox, limits or sandbox.limits)
        marks = run.marks(submission.cells, submission.unjudged)
    seconds = time.monotonic() - began
    waited = sum(run.stages.values())
    points, of = round(sum(mark.points for mark in marks), 4), sum(mark.of for mark in marks)
    return Record(
        student=submission.student,
        chapter=submission.chapter,
        marks=marks,
        notes=[*submission.notes, *run.notes, *(few(run.stopped) if points < of else [])],
        points=points,
        of=of,
        sandboxed=sandbox.enabled,
        digest=submission.digest,
        seconds=round(seconds, 4),
        stages={name: round(s, 4) for name, s in (run.stages | {"judge": seconds - waited}).items()},
        handed_in=submission.handed_in,
        not_limited=run.not_limited,
    )


@dataclass(frozen=True)
class CellVerdict:
    """What a check cell said: the points, the verdict in one line, all that was shown, whether there is an answer."""

    points: float
    line: str
    shown: tuple[str, ...]
    solved_yet: bool = True


@dataclass
class _Said:
    """What the check cells of one exercise said: points by grade id, the verdict in one line, all that was shown.

    `due` are the check cells, each with the place of the cell after which it runs, `left` the seconds that the exercise
    may still take, `stopped` how its answer cell stopped. Where it is not `judged`, no check cell is run. `answers` are
    stand-ins by name, the same for all check cells, which tell by them what the first one said.
    """

    due: list[tuple[int, CheckCell]]
    judged: bool
    points: dict[str, float] = field(default_factory=dict)
    line: str = ""
    shown: list[str] = field(default_factory=list)
    solved_yet: bool = False
    lost: str = ""
    left: float = 0.0
    stopped: str = ""
    answers: dict[str, StandIn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.points = {check.id: 0.0 for _, check in self.due}

    def answered_by(self, names: Collection[str], session: SubmissionSession) -> dict[str, Callable]:
        """Stand-ins for the answers of these names, which the worker runs."""
        for name in names:
            self.answers.setdefault(name, StandIn(name, session)).channel = session
        return {name: self.answers[name] for name in names}

    def complain(self, line: str) -> None:
        self.line = self.line or line
        self.shown.append(line)

    def take(self, check: CheckCell, verdict: CellVerdict) -> None:
        self.points[check.id] = verdict.points
        self.line = self.line or verdict.line
        self.shown += verdict.shown
        self.solved_yet = self.solved_yet or verdict.solved_yet


def run_check(check: CheckCell, space: dict) -> CellVerdict:
    """What a check cell says in a namespace. Raises what it raises, but for its verdicts."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings(), answers_elsewhere():
            warnings.simplefilter("ignore")
            points = points_of(check, space)
    except NotSolvedYet as verdict:
        return CellVerdict(0.0, "not solved yet.", tuple(verdict.lines), solved_yet=False)
    except WrongAnswer as verdict:
        return CellVerdict(0.0, str(verdict).partition(": ")[2], tuple(verdict.lines))
    printed = out.getvalue().splitlines()
    missed = next((line[2:] for line in printed if line.startswith("✗ ")), "") if points < check.points else ""
    return CellVerdict(points, missed, tuple(printed))


class _Run:
    """The grading of one submission."""

    def __init__(self, master: MasterChapter, sandbox: Sandbox, limits: Limits):
        self._master, self._sandbox, self._limits = master, sandbox, limits
        self._left = limits.submission_seconds
        self._began = time.process_time()
        self._losses = 0
        self._went_well: list[SubmittedCell] = []
        self._demos: list[SubmittedCell] = []  # those that stand before the cell that runs, and have not been run
        self._said: dict[str, _Said] = {}  # by exercise, of those whose answer has been run
        self._defined: set[str] = set()  # those names of answers that exist now
        self._session: SubmissionSession | None = None
        self.notes: list[str] = []
        self.not_limited: list[str] = []
        self.stopped: list[str] = []  # notes on own cells that stopped: they may be why an answer fails
        self.stages = {"fork": 0.0, "cells": 0.0, "observe": 0.0, "end": 0.0}

    def marks(self, cells: list[SubmittedCell], unjudged: Collection[str]) -> list[ExerciseMark]:
        try:
            for number, cell in enumerate(cells):
                name = cell.exercise or f"cell {number}"
                if cell.kind == "demo":
                    self._demos.append(cell)
                elif cell.exercise is None:
                    with watchdog.judging(name, self._limits):
                        self._run_own(cell, self._demos, judged=name not in unjudged)
                elif cell.exercise in self._master.checks:
                    due = [(number + cell.later.get(one.id, 0), one) for one in self._master.checks[cell.exercise]]
                    self._said[cell.exercise] = _Said(due, judged=name not in unjudged)
                    with watchdog.judging(name, self._limits):
                        self._run_answer(cell, self._said[cell.exercise])
                for exercise, said in self._said.items():
                    if any(place == number for place, _ in said.due):
                        with watchdog.judging(exercise, self._limits):
                            self._judge_due(exercise, said, number)
        finally:
            self._end_session()
        return [_mark(exercise, self._said.get(exercise.id)) for exercise in self._master.exercises]

    def _run_own(self, cell: SubmittedCell, before: Sequence[SubmittedCell], judged: bool = True) -> None:
        whose = "A demo of the chapter" if cell.kind == "demo" else own_cell(cell.source)
        try:
            if not judged:
                raise WorkerLost("what it sends back can't be read")
            reply = self._run_cell(cell, self._limits.exercise_seconds, before)
        except WorkerLost as lost:
            self.notes.append(readable(f"{whose} was left out: {lost}."))
            return
        if reply.error and cell.kind != "demo":
            self.stopped.append(readable(f"{whose} stopped with {how_it_stopped(reply.error, cell.source)}."))

    def _run_answer(self, cell: SubmittedCell, said: _Said) -> None:
        try:
            reply = self._run_cell(cell, self._limits.exercise_seconds, self._demos)
        except WorkerLost as lost:
            self._note_loss(said, lost, f"the answer cell was not finished: {lost}.")
            return
        assert self._session is not None  # it has just replied
        said.left = self._session.left
        said.stopped = _stopped(reply, cell)

    def _judge_due(self, exercise: str, said: _Said, number: int) -> None:
        """Run the check cells of an exercise that follow the cell with this number."""
        names = self._master.names[exercise]
        lacks = bool(names - self._defined)
        if lacks:
            said.line = said.line or said.stopped
        for check in [one for place, one in said.due if place == number]:
            said.judged &= time.process_time() - self._began < self._limits.judge_total_seconds
            if said.judged and said.left > 0:
                said.left = self._judge(check, said, self._defined & names, said.left)
        if any(place > number for place, _ in said.due):
            return
        if not said.judged:
            self._note_loss(said, WorkerLost(TOO_MUCH), TOO_MUCH)
            self.notes.append(f"What the answer to {exercise} gives back is too much to be judged. Look at it by hand.")
        if said.stopped and not lacks:
            said.shown.append(said.stopped)

    def _judge(self, check: CheckCell, said: _Said, defined: set[str], left: float) -> float:
        """Run a check cell; the seconds that are left to the exercise."""
        try:
            session = self._ready(left)
        except WorkerLost as lost:
            self._note_loss(said, lost, f"this check could not be run: {lost}.")
            return 0.0
        try:
            with self._spending(session, "observe"):
                said.take(check, run_check(check, self._master.space(said.answered_by(defined, session))))
        except WorkerLost as lost:
            self._drop_session()
            self._note_loss(said, lost, f"your code did not get through this check: {lost}.")
        except CourseError:  # the sandbox has failed: that is nobody's mark
            raise
        except Exception as error:
            if isinstance(error, MemoryError):
                watchdog.out_of_memory()
            said.complain(STOPPED)
            said.solved_yet = True
            self.notes.append(
                readable(
                    f"The check {check.id} stopped with {type(error).__name__}: {error}. Please look at it by hand."
                )
            )
        return session.left

    # ------------------------------------------------ the worker

    def _run_cell(
        self,
        cell: SubmittedCell,
        seconds: float,
        before: Sequence[SubmittedCell] = (),
    ) -> CellReply:
        """Run a cell; where it needs names of the demos before it, these first."""
        sources, known = [demo.source for demo in before], self._sandbox.known_names
        lendable = set().union(*(names_of(source).makes for source in sources)) - known
        session = self._ready(seconds)
        try:
            with self._spending(session, "cells"):
                reply = session.run_cell(cell.source, self._asked(), lendable, self._lent_by(cell))
        except WorkerLost:
            self._drop_session()
            raise
        if reply.needs:
            for demo in [before[k] for k in needed(reply.needs, sources, known)]:
                self._demos.remove(demo)
                self._run_own(demo, ())
            return self._run_cell(cell, seconds)
        self._went_well.append(cell)
        self._defined = reply.defined
        return reply

    def _asked(self) -> set[str]:
        """The names of the answers that have been run, or run now."""
        return set().union(*(self._master.names[exercise] for exercise in self._said))

    def _lent_by(self, cell: SubmittedCell) -> frozenset[str]:
        return names_of(cell.source).binds if cell.kind == "demo" else frozenset()

    def _ready(self, seconds: float) -> SubmissionSession:
        """A session that may take so many seconds, in which the cells that went well have run. Raises WorkerLost."""
        if self._left <= 0 or sum(self.stages.values()) > self._limits.submission_seconds * self._limits.patience:
            raise WorkerLost(f"the {self._limits.submission_seconds:g} seconds for a submission are over", "cut off")
        if self._session is None:
            self._session = self._new_session()
        self._session.allow(min(seconds, self._left))
        return self._session

    def _new_session(self) -> SubmissionSession:
        if self._losses > self._limits.losses:
            raise WorkerLost("processes of this submission ended too often")
        began = time.monotonic()
        session = self._sandbox.session()
        self.not_limited = session.not_limited
        self.stages["fork"] += time.monotonic() - began
        session.allow(self._left)
        try:
            with self._spending(session, "cells"):
                for cell in self._went_well:
                    session.run_cell(cell.source, lends=self._lent_by(cell))
        except WorkerLost:
            self._losses += 1
            raise
        return session

    def _drop_session(self) -> None:
        self._losses += 1
        self._end_session()

    def _end_session(self) -> None:
        if self._session is not None:
            began = time.monotonic()
            self._session.close()
            self._session = None
            self.stages["end"] += time.monotonic() - began

    @contextlib.contextmanager
    def _spending(self, session: SubmissionSession, stage: str) -> Iterator[None]:
        """What is waited for the session inside belongs to a stage, and as far as it counts it is no longer left."""
        waited, uncounted = session.waited, session.uncounted
        try:
            yield
        finally:
            waited = session.waited - waited
            self.stages[stage] += waited
            self._left -= waited - (session.uncounted - uncounted)

    @staticmethod
    def _note_loss(said: _Said, lost: WorkerLost, line: str) -> None:
        said.complain(line)
        said.lost = said.lost or lost.state
        said.solved_yet = True


def _stopped(reply: CellReply, cell: SubmittedCell) -> str:
    """That an answer cell stopped, and with what; empty where it ran to its end."""
    if reply.error is None or stub_was_left(reply.error):
        return ""
    return f"Your cell stopped with {how_it_stopped(reply.error, cell.source)}."


def _mark(exercise: Exercise, said: _Said | None) -> ExerciseMark:
    if said is None:
        checks = dict.fromkeys(exercise.check_ids, 0.0)
        return ExerciseMark(exercise.id, exercise.title, checks, 0.0, exercise.points, MISSING, "missing")
    points = round(sum(said.points.values()), 4)
    line = "solved" if points >= exercise.points else said.line
    verdict = readable("\n".join([line, *said.shown]))
    state = _state(said, points, exercise.points)
    return ExerciseMark(exercise.id, exercise.title, said.points, points, exercise.points, verdict, state)


def _state(said: _Said, points: float, of: float) -> str:
    if points >= of:
        return "solved"
    if said.lost:
        return said.lost
    if points > 0:
        return "partly"
    return "wrong" if said.solved_yet else "not solved"


def readable(text: str) -> str:
    """The text without control characters, invisible marks and broken surrogates, of limited length: what a learner's
    code says is shown to others."""
    if len(text) <= MAX_TEXT and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    kept = "".join(c for c in text[:MAX_TEXT] if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    return kept if len(text) <= MAX_TEXT else kept + "\n…"
