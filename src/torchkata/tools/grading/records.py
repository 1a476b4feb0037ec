"""What goes into a grading run and what comes out of it, as plain data that is read and written as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

STATES = ("solved", "partly", "wrong", "not solved", "cut off", "crashed", "missing")
ABOUT_FILES = ("The notebook is named", "Other files are ignored")  # beginnings of notes on names of files
OWN_CELL = "A cell of the learner's own"  # beginning of a note on one that stopped or was left out
UNTRIED = ("not solved", "missing")  # states of an exercise that a student left as it was


@dataclass(frozen=True)
class SubmittedCell:
    """One code cell of a notebook that is run: an answer to an exercise, a cell that the learner added or changed, or,
    where these need its names, a demo that the learner left as it was.

    An answer's check cells run right after it, but for those that stand `later`: by grade id, the number of cells in
    between, which run first.
    """

    kind: str  # "answer", "own" or "demo"
    exercise: str | None  # the exercise's id for an answer, else None
    source: str
    later: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Submission:
    """What a student handed in for a chapter: the cells to run, in the learner's order, each exercise at most once.

    `notes` tell the teacher in words what was unusual. `digest` changes with the notebook, the chapter and the grader;
    its part behind the dash with the notebook alone. `handed_in` is when that was, in UTC (2026-03-01 12:00:00); empty
    where it is not known.
    `unjudged` are exercises and own cells ("cell 3", counted from 0) whose judging has already ended a process: they
    are not judged again.
    """

    student: str
    chapter: str
    cells: list[SubmittedCell]
    notes: list[str] = field(default_factory=list)
    digest: str = ""
    unjudged: list[str] = field(default_factory=list)
    handed_in: str = ""

    @property
    def answers(self) -> dict[str, str]:
        """By exercise the code of its answer: of its cell, and of own cells between that and its last check cell."""
        found = {}
        for n, cell in enumerate(self.cells):
            if cell.exercise is not None:
                between = self.cells[n + 1 : n + 1 + max(cell.later.values(), default=0)]
                own = [one.source for one in between if one.kind == "own"]
                found[cell.exercise] = "\n\n".join([cell.source, *own])
        return found

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Submission:
        data = json.loads(text)
        return cls(**data | {"cells": [SubmittedCell(**cell) for cell in data["cells"]]})


def same_notebook(one: str, other: str) -> bool:
    """Whether two digests of submissions are of the same notebook, whatever the chapter and the grader were."""
    return one.partition("-")[2] == other.partition("-")[2] != ""


@dataclass(frozen=True)
class NotGradable:
    """A submission that could not be graded, and why, in words. This is not a zero: no mark is given or changed."""

    student: str
    chapter: str
    reason: str
    digest: str = ""


@dataclass(frozen=True)
class ExerciseMark:
    """What became of one exercise.

    Attributes:
        checks: points of each check cell, by its grade id; they sum to `points`.
        of: the points that the exercise is worth.
        verdict: the sentence for the learner; the first line stands alone, further lines give details.
        state: one of STATES. "cut off" is a time limit, "crashed" a process that ended, "missing" a deleted answer.
        judged_by: changes with the exercise's check cells and the grader; empty where that is not known.
    """

    exercise: str
    title: str
    checks: dict[str, float]
    points: float
    of: float
    verdict: str
    state: str
    judged_by: str = ""

    @property
    def cut_off(self) -> bool:
        """Whether a time limit or a crash kept the exercise from being judged to its end."""
        return self.state in ("cut off", "crashed")


@dataclass(frozen=True)
class Counted:
    """What the gradebook says of a submission where that is not just its automatic points.

    Attributes:
        points: what counts: points given by hand are in it, the penalty is taken off.
        by_hand: the points of check cells that a teacher gave or added to, by grade id.
        comments: the teacher's, by exercise.
        penalty: the points that handing in late costs.
    """

    points: float
    by_hand: dict[str, float] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    penalty: float = 0.0


@dataclass(frozen=True)
class Record:
    """The marks of one submission: one for every exercise of the chapter, in the chapter's order.

    Attributes:
        sandboxed: whether the learner's code ran behind the boundary.
        seconds: wall time of the grading; `stages` holds the seconds of its parts by name.
        final: false for the first run of a submission that was cut off: it is run once more, alone.
        handed_in: when that was, as in Submission.
        counted: what the gradebook said when the student's page was written last; None where `points` is what counts.
        other_answers: whether that page shows other answers to the exercises that are solved.
        not_limited: what was not limited while it ran, on the machine where it ran, in sentences for the teacher.
    """

    student: str
    chapter: str
    marks: list[ExerciseMark]
    notes: list[str]
    points: float
    of: float
    sandboxed: bool
    digest: str
    seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    final: bool = True
    handed_in: str = ""
    counted: Counted | None = None
    not_limited: list[str] = field(default_factory=list)
    other_answers: bool = False

    @property
    def final_points(self) -> float:
        """What counts."""
        return self.points if self.counted is None else self.counted.points

    def points_of(self, mark: ExerciseMark) -> float:
        """What counts for one exercise, before a penalty for being late."""
        if self.counted is None or not self.given_by_hand(mark):
            return mark.points
        return round(sum(self.counted.by_hand.get(check, points) for check, points in mark.checks.items()), 4)

    def given_by_hand(self, mark: ExerciseMark) -> bool:
        """Whether a teacher gave points of the exercise, or added some."""
        return self.counted is not None and not self.counted.by_hand.keys().isdisjoint(mark.checks)

    def in_short(self) -> Record:
        """The record with those marks only that a run still speaks of at its end, so that a large class fits into
        memory: the ones that were cut off, without what was shown."""
        kept = [replace(mark, verdict="", checks={}) for mark in self.marks if mark.cut_off]
        return replace(self, marks=kept, stages={})

    @property
    def out_of_time(self) -> bool:
        """Whether a time limit kept any of its exercises from being judged to its end."""
        return any(mark.state == "cut off" for mark in self.marks)

    @property
    def cut_off(self) -> bool:
        """Whether that is so of any of its exercises."""
        return any(mark.cut_off for mark in self.marks)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        try:
            data = json.loads(text)
            counted = Counted(**data["counted"]) if data.get("counted") else None
            return cls(**data | {"marks": [ExerciseMark(**mark) for mark in data["marks"]], "counted": counted})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a record: {error}") from None
