"""The exercises of a chapter, read from its notebook as it lies on the disk."""

from __future__ import annotations

import json

import pytest

from torchkata.base.chapter import CheckCell, exercise_of, exercises_of, is_checking
from torchkata.base.shared_helpers import helpers_in, whole_checks, with_helpers
from torchkata.tools.course import Chapter, chapters, read_unchecked
from torchkata.tools.placing import here

ANSWER = {"grade_id": "twice", "solution": True, "grade": False}
FIRST = {"grade_id": "twice-check", "solution": False, "grade": True, "points": 2}
SECOND = {"grade_id": "twice-check-2", "solution": False, "grade": True, "points": 1}
HELPERS = {"grade_id": "twice-helpers", "solution": False, "grade": False}
HELPER = "SIZE = 4"
USING = "with check('twice') as test:\n    test(SIZE)"
HIDDEN = "x = 1\n### BEGIN HIDDEN TESTS\ny = 2\n### END HIDDEN TESTS"


def cell(kind: str, *lines: str, nbgrader: dict | None = None, id: str = "") -> dict:
    return {"cell_type": kind, "source": [*lines], "metadata": {"nbgrader": nbgrader} if nbgrader else {}, "id": id}


CELLS = [
    cell("markdown", "# A chapter"),
    cell("code", "import torch"),
    cell("markdown", "### Exercise 3.1 · Twice\n", "Double it.", id="text"),
    cell("code", "def twice(x):\n", "    return 2 * x", nbgrader=ANSWER),
    cell("code", HIDDEN, nbgrader=FIRST),
    cell("code", "z = 3", nbgrader=SECOND),
]


def test_an_exercise_has_its_text_its_answer_and_its_check_cells():
    [one] = exercises_of(CELLS)
    assert (one.id, one.title, one.place) == ("twice", "Exercise 3.1 · Twice", "text")
    assert one.answer == "def twice(x):\n    return 2 * x"
    assert one.checks == (CheckCell("twice-check", HIDDEN, 2.0), CheckCell("twice-check-2", "z = 3", 1.0))
    assert one.points == 3.0 and one.check_ids == ("twice-check", "twice-check-2")


def test_a_check_cell_is_known_by_its_released_source():
    [one] = exercises_of(CELLS)
    assert CheckCell("x", "x = 1\n", 2.0).digest == one.checks[0].digest != one.checks[1].digest
    assert one.check_of(one.checks[1].shown) is one.checks[1] and one.check_of("another") is None
    assert one.checks[0].hidden_tests == "\n\ny = 2\n"


def test_a_check_cell_is_read_with_the_helpers_that_it_uses():
    cells = [*CELLS[:4], cell("code", HELPER, nbgrader=HELPERS), CELLS[4], cell("code", USING, nbgrader=SECOND)]
    [one] = exercises_of(cells)
    assert one.check_ids == ("twice-check", "twice-check-2") and one.points == 3.0
    assert one.checks[0].source == HIDDEN and one.checks[1].written == USING
    assert one.checks[1].source == with_helpers(USING, helpers_in(HELPER)) != USING
    assert one.checks[1].digest == CheckCell("x", one.checks[1].source, 1.0).digest


def test_helpers_are_those_of_their_own_exercise():
    other = ANSWER | {"grade_id": "thrice"}
    check = FIRST | {"grade_id": "thrice-check"}
    cells = [
        cell("code", HELPER, nbgrader=HELPERS),
        cell("code", "", nbgrader=other),
        cell("code", USING, nbgrader=check),
    ]
    [_, one] = exercises_of([*CELLS[:4], *cells])
    assert one.checks[0].source == USING


def test_helpers_that_cannot_be_read_are_an_error_where_a_check_is_read():
    cells = [*CELLS[:4], cell("code", "print(1)", nbgrader=HELPERS), cell("code", USING, nbgrader=FIRST)]
    [one] = exercises_of(cells)
    assert one.points == 2.0
    with pytest.raises(ValueError, match="a helpers cell holds"):
        _ = one.checks[0].source


def test_cells_that_belong_to_an_exercise():
    assert [exercise_of(one) for one in CELLS] == [None, None, None, "twice", "twice", "twice"]
    assert [is_checking(one) for one in CELLS] == [False, False, False, False, True, True]
    helpers = cell("code", HELPER, nbgrader=HELPERS)
    assert exercise_of(helpers) == "twice" and is_checking(helpers)


def test_a_check_cell_without_its_answer_belongs_to_nothing():
    assert exercises_of([CELLS[4]]) == []


@pytest.mark.parametrize("chapter", chapters(here()), ids=lambda chapter: chapter.name)
def test_file_and_notebook_say_the_same(chapter: Chapter):
    plain = json.loads(chapter.release.read_text(encoding="utf-8"))["cells"]
    assert exercises_of(plain) == exercises_of(read_unchecked(chapter.release).cells) != []


@pytest.mark.parametrize("chapter", chapters(here()), ids=lambda chapter: chapter.name)
def test_check_cells_are_put_together_as_everywhere(chapter: Chapter):
    cells = whole_checks(chapter.master.cells)
    whole = {cell.metadata.nbgrader.grade_id: cell.source for cell in cells if is_checking(cell)}
    assert {check.id: check.source for one in chapter.exercises for check in one.checks} == whole != {}
