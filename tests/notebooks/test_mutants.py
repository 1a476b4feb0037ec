"""Each line of tests/mutants.yaml is about a mutant that there is. `torchkata mutants` tries all mutants."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.notebooks import running
from torchkata.tools.course import chapters
from torchkata.tools.mutants import equivalents
from torchkata.tools.mutating import mutants_of
from torchkata.tools.placing import here

LISTED = equivalents(ROOT)
EXERCISES = [(one.name, exercise) for one in chapters(here()) for exercise in running.exercise_ids(one.name)]


@pytest.mark.parametrize("chapter, exercise", [pair for pair in EXERCISES if pair[1] in LISTED])
def test_each_listed_mutant_is_one(chapter: str, exercise: str):
    found = {one.key for one in mutants_of(running.exercise_cells(chapter, exercise)[0].source)}
    gone = [key for key in LISTED[exercise] if key not in found]
    assert gone == [], "the solution has changed: try its mutants with `torchkata mutants`"


def test_each_exercise_of_the_list_is_one():
    assert set(LISTED) <= {exercise for _, exercise in EXERCISES}
