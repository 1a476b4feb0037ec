"""Submissions with the very same cells get the same marks, and nobody gets anything else of another's record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tools.grading.test_boundary import WHY_NOT
from tests.tools.grading.test_referee import LIMITS, SOURCE, answers, submission
from torchkata.tools.grading.alike import Alike
from torchkata.tools.grading.grader import ChapterGrader
from torchkata.tools.grading.master import MasterChapter
from torchkata.tools.grading.records import ExerciseMark, Record, Submission, SubmittedCell
from torchkata.tools.grading.sandbox import Sandbox
from torchkata.tools.source import notebook_of

ANSWER = SubmittedCell("answer", "double", "def double(x): return 2 * x")
MINE = Submission("ada", "01_small", [ANSWER], ["late"], "release-mine")


class Grading:
    """Grades anything; how often is part of the points."""

    def __init__(self, state: str = "solved", note: str = ""):
        self.state, self.note, self.count = state, note, 0

    def __call__(self, submission: Submission) -> Record:
        self.count += 1
        mark = ExerciseMark("double", "Double", {"double-check": 1.0}, 1.0, 2.0, "said", self.state)
        notes = [*submission.notes, *filter(None, [self.note])]
        whose = submission.student, submission.chapter
        return Record(*whose, [mark], notes, self.count, 2.0, True, submission.digest, 3.0, {"judge": 1.0})


def test_the_same_cells_are_graded_once_and_each_record_is_of_its_own_student():
    grading = Grading()
    alike = Alike(grading)
    first = alike.grade(MINE)
    yours = alike.grade(replace(MINE, student="bob", notes=[], digest="release-yours"))
    assert grading.count == 1 and first.student == "ada" and first.seconds == 3.0
    assert yours == replace(first, student="bob", notes=[], digest="release-yours", seconds=0.0, stages={})


OTHERS = {
    "another text": replace(MINE, cells=[replace(ANSWER, source=ANSWER.source + " ")]),
    "an own cell": replace(MINE, cells=[replace(ANSWER, kind="own", exercise=None)]),
    "another exercise": replace(MINE, cells=[replace(ANSWER, exercise="triple")]),
    "a cell more": replace(MINE, cells=[ANSWER, replace(ANSWER, kind="own", exercise=None, source="1")]),
    "the cell twice": replace(MINE, cells=[ANSWER, ANSWER]),
    "nothing": replace(MINE, cells=[]),
    "an exercise that is not judged": replace(MINE, unjudged=["double"]),
    "cells that read the same in a row": replace(
        MINE, cells=[replace(ANSWER, exercise="doubledef", source=ANSWER.source.removeprefix("def"))]
    ),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_other_cells_are_graded(other: Submission):
    grading = Grading()
    alike = Alike(grading)
    alike.grade(MINE)
    assert alike.grade(other).points == 2


def test_a_demo_is_no_cell_of_ones_own():
    """It runs only where an answer needs its names."""
    grading = Grading()
    alike = Alike(grading)
    for kind in ("own", "demo"):
        alike.grade(replace(MINE, cells=[SubmittedCell(kind, None, "x = 1"), ANSWER]))
    assert grading.count == 2


@pytest.mark.parametrize("grading", [Grading("cut off"), Grading("crashed"), Grading(note="Look at it by hand.")])
def test_what_went_wrong_is_no_pattern_for_others(grading: Grading):
    alike = Alike(grading)
    assert [alike.grade(replace(MINE, student=student)).points for student in ("ada", "bob")] == [1, 2]


def test_the_latest_are_kept():
    grading = Grading()
    alike = Alike(grading, most=2)
    own = {name: replace(MINE, cells=[replace(ANSWER, source=name)]) for name in "abc"}
    for name in "abacab":  # c takes the place of b, which takes that of c
        alike.grade(own[name])
    assert grading.count == 4
    assert len(alike._known) == 2


def test_a_grader_runs_the_same_cells_once(monkeypatch: pytest.MonkeyPatch):
    sessions: list[int] = []
    honest = Sandbox.session
    monkeypatch.setattr(Sandbox, "session", lambda self: sessions.append(1) or honest(self))
    master = MasterChapter.from_notebook("01_small", notebook_of(SOURCE.lstrip(), "small.py"))
    one, other = submission(*answers()), submission(*answers(double="def double(x): return x"))
    with ChapterGrader(master, WHY_NOT is None, LIMITS)() as grade:
        records = [
            grade(replace(handed_in, student=name)) for name, handed_in in (("a", one), ("b", other), ("c", one))
        ]
    assert len(sessions) == 2
    assert [record.student for record in records] == ["a", "b", "c"]
    assert records[0].marks == records[2].marks != records[1].marks
