"""Solutions with one token changed: of each exercise one is tried here, which must be refused or listed as right.
`torchkata mutants` tries them all."""

from __future__ import annotations

import hashlib
from functools import cache

import pytest

from tests import ROOT
from tests.notebooks import running
from torchkata.tools.course import chapters
from torchkata.tools.mutants import equivalents
from torchkata.tools.mutating import Mutant, mutants_of
from torchkata.tools.placing import here

EXERCISES = [(one.name, exercise) for one in chapters(here()) for exercise in running.exercise_ids(one.name)]
LISTED = equivalents(ROOT)


@cache
def mutants(chapter: str, exercise: str) -> list[Mutant]:
    return mutants_of(running.exercise_cells(chapter, exercise)[0].source)


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_each_listed_mutant_is_one(chapter: str, exercise: str):
    keys = {one.key for one in mutants(chapter, exercise)}
    gone = [key for key in LISTED.get(exercise, {}) if key not in keys]
    assert gone == [], "the solution has changed: try its mutants with `torchkata mutants`"


def test_each_exercise_of_the_list_is_one():
    assert set(LISTED) <= {exercise for _, exercise in EXERCISES}


@pytest.mark.exhaustive("a solution with one token changed", thorough=True)
@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_a_mutant_is_refused(marks_of: running.MarksOf, chapter: str, exercise: str):
    mutant = min(mutants(chapter, exercise), key=lambda one: hashlib.sha256(repr(one.key).encode()).digest())
    full = running.full_points(chapter, exercise)
    points = 0.0
    try:
        points = marks_of(chapter, exercise, mutant.source).points
    except Exception as error:  # the answer cell itself raised
        assert error.__traceback__ is not None
    assert points < full or mutant.key in LISTED.get(exercise, {}), f"full points for\n{mutant.now}"
