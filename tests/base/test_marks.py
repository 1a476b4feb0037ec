"""The marks in an author's cells: what a learner gets of an answer cell and of a check cell, and what is kept back."""

from __future__ import annotations

import pytest

from torchkata.base.marks import (
    GIVEN,
    HIDDEN,
    SOLUTION,
    STUB,
    authors_version,
    hidden_tests,
    learners_version,
    marks_in,
    regions,
    without,
    without_hidden_tests,
)

ANSWER = """\
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


def rest():
    return 1"""
BEGUN = f"""{ANSWER}
### BEGIN GIVEN
# return x

#     + 1
### END GIVEN"""
CHECK = """\
with check("twice") as test:
    observe(twice, 1).returns(2)

    ### BEGIN HIDDEN TESTS
    for number in (3, 4):

        observe(twice, number).returns(2 * number)
    ### END HIDDEN TESTS
"""


def test_regions():
    [one] = regions(CHECK, HIDDEN)
    assert (one.first, one.last, one.indent) == (4, 8, "    ")
    assert one.text.split("\n")[0] == "    for number in (3, 4):" and one.text.endswith("number)")
    assert regions(CHECK, SOLUTION) == [] and len(regions(ANSWER + "\n" + ANSWER, SOLUTION)) == 2


@pytest.mark.parametrize(
    "source", ["### BEGIN GIVEN\n1", "1\n### END GIVEN", "### BEGIN GIVEN \n### END GIVEN", "x ### BEGIN GIVEN"]
)
def test_half_a_pair_is_no_region(source: str):
    assert regions(source, GIVEN) == [] and without(source, GIVEN) == source


def test_all_marks_are_told_of():
    found = [(mark.begins, mark.kind, mark.line) for mark in marks_in("### END GIVEN\n\n  ### BEGIN SOLUTION")]
    assert found == [(False, GIVEN, 1), (True, SOLUTION, 3)]


def test_a_learner_gets_a_stub_or_what_is_given():
    head, tail = "def twice(x):\n", "\n\n\ndef rest():\n    return 1"
    assert learners_version(ANSWER) == f"{head}    {STUB}{tail}"
    assert learners_version(BEGUN) == f"{head}return x\n\n    + 1{tail}"
    assert learners_version("x = 1\n") == "x = 1\n"


def test_an_author_as_a_learner():
    written = "def twice(x):\n    return 2 * x\n\n\ndef rest():\n    return 1"
    assert authors_version(ANSWER) == authors_version(BEGUN) == written


def test_hidden_tests_keep_their_lines():
    assert without_hidden_tests(CHECK) == "\n".join(CHECK.split("\n")[:3]).rstrip()
    lines = hidden_tests(CHECK).split("\n")
    assert lines[:4] == [""] * 4 and lines[4] == "for number in (3, 4):" and "    " + lines[6] == CHECK.split("\n")[6]
    assert hidden_tests(ANSWER) == ""
