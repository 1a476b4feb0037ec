"""Later checks send a learner back to the first one only where this answer has not passed it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.notebooks.running import run_cell
from torchkata.verdicts import FIRST_CHECK_FIRST, WrongAnswer, check, observe

FIRST = """
with check("one-more") as test:
    test("1 gives 2")
    observe(one_more, 1).returns(2)
"""
LATER = FIRST.replace("returns(2)", "returns(2, FIRST_CHECK_FIRST)")
CORNER = FIRST.replace("1 gives 2", "nothing is asked for").replace("returns(2)", "returns(3)")


def told(cell: str, answer: Callable) -> str:
    """The first sentence of a check cell on an answer; "" where it passes."""
    space = {"check": check, "observe": observe, "FIRST_CHECK_FIRST": FIRST_CHECK_FIRST, "one_more": answer}
    try:
        run_cell(cell, space, f"<cell {hash(cell)}>")
    except WrongAnswer as wrong:
        return wrong.lines[1].strip()
    return ""


def right_once() -> Callable:
    results = iter([2])
    return lambda x: next(results, 0)


BACK = "This check builds on the first one, which doesn't pass yet. Fix that first."
FALSE_HERE = "The values are wrong: expected 2, got 0."


@pytest.mark.parametrize(
    "cells, sentence",
    [
        ([LATER], BACK),
        ([FIRST, LATER], FALSE_HERE),
        ([FIRST, CORNER, LATER], FALSE_HERE),
        ([CORNER, FIRST, LATER], BACK),  # the first one that runs counts
    ],
)
def test_who_has_passed_the_first_check_is_not_sent_back_to_it(cells: list[str], sentence: str):
    answer = right_once() if FIRST in cells else lambda x: 0
    assert [told(cell, answer) for cell in cells][-1] == sentence


def test_another_answer_has_not_passed_it():
    assert told(FIRST, lambda x: 2) == ""
    assert told(LATER, lambda x: 0) == BACK


def test_an_answer_that_failed_it_since_is_sent_back():
    answer = right_once()
    assert told(FIRST, answer) == ""
    assert told(FIRST, answer) == FALSE_HERE
    assert told(LATER, answer) == BACK
