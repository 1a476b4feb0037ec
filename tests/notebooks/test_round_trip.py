"""Every observation of every check cell crosses as bytes and comes back, and the verdicts stay the same."""

from __future__ import annotations

import re

import pytest

from tests.notebooks import running
from tests.notebooks.answers import Answer
from tests.notebooks.test_answers import CASES, EXERCISES
from torchkata import verdicts
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.plain import decode, encode


@pytest.fixture
def crossings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send each observation through bytes; the sizes of what crossed."""
    sizes: list[int] = []

    def through_bytes(noted: Observation) -> Observation:
        data = encode(noted.as_plain())
        sizes.append(len(data))
        return Observation(**decode(data))

    monkeypatch.setattr(verdicts, "_cross", through_bytes)
    return sizes


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_solutions_get_the_same_marks(chapter: str, exercise: str, crossings: list[int]):
    solution = running.exercise_cells(chapter, exercise)[0].source
    marks = running.grade(chapter, exercise, solution)
    assert marks.points == pytest.approx(running.full_points(chapter, exercise)), marks.text
    assert crossings


@pytest.mark.parametrize("chapter, exercise, answer", CASES)
def test_answers_get_the_same_verdict(
    chapter: str, exercise: str, answer: Answer, marks_of: running.MarksOf, monkeypatch: pytest.MonkeyPatch
):
    here = marks_of(chapter, exercise, answer.source)
    monkeypatch.setattr(verdicts, "_cross", lambda noted: Observation(**decode(encode(noted.as_plain()))))
    there = running.grade(chapter, exercise, answer.source)
    assert (there.points, comparable(there.text)) == (here.points, comparable(here.text))


def comparable(text: str) -> str:
    """A verdict without what differs from run to run: names of temporary folders, and where the recursion limit
    happens to be hit."""
    lines = re.sub(r"\btmp\w{8}\b", "tmp", text).splitlines()
    endless = "RecursionError" in text
    return "\n".join(line for line in lines if not (endless and line.startswith("    ")))
