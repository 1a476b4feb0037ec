"""Lists of names that put lines in an order that works."""

from __future__ import annotations

import pytest

from torchkata.verdicts import NotSolvedYet, WrongAnswer, check, observe_value, ordering
from torchkata.verdicts.ordering import fault

LINES = {"two": "x = 2", "add": "x += 3", "double": "x *= 2", "note": "noted = True", "none": "x = None"}


def works(names):
    space: dict = {}
    exec("\n".join(LINES[name] for name in names), space)
    return (space["x"], space["noted"]) == (10, True)


ADDED = {
    "x is doubled before 3 is added.": "double add",
    "x is set to 2 at the end.": ["add two", "double two"],
    "Nobody can add to None.": "none",
}
ITEM = ordering(LINES, works, ADDED)
RIGHT = ["two", "add", "note", "double"]


def orders(lists) -> float:
    with check("an-exercise") as test:
        test("orders")
        test.points = observe_value(lists).orders({"sum": ITEM, "again": ITEM}, points=2)
    return test.points


@pytest.mark.parametrize("given", [RIGHT, tuple(RIGHT), ["note", "two", "add", "double"]])
def test_every_order_that_works_is_right(given):
    assert orders({"sum": given, "again": given}) == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["two", "double", "add", "note"], "x is doubled before 3 is added."),
        (["note", "add", "two", "double"], "x is set to 2 at the end."),  # and raises
        (["two", "add", "double", "note", "none"], "Nobody can add to None."),
        (["two", "note"], "Your list lacks add, double."),
        ([], "Your list lacks two, add, double, note."),
        (["two", "add", "double", "two"], "Your list has two twice. Each name may be in it once."),
        (["two", "plus"], "'plus' is none of the names, which are two, add, double, note, none."),
        (["x" * 10_000], "'xxx"),
        ([["two"], "add"], "Write a list of names, such as ['two', 'add']."),
        ("two, add, double", "Write a list of names, such as ['two', 'add']."),
        ({"two", "add"}, "Write a list of names, such as ['two', 'add']."),
        (None, "Write a list of names, such as ['two', 'add']."),
        (..., "There is no order yet: write yours in place of the `...`."),
    ],
)
def test_each_fault_has_its_sentence_and_costs_its_share(given, sentence, capsys):
    assert orders({"sum": given, "again": RIGHT}) == 1
    assert f": {sentence}" in capsys.readouterr().out


def test_what_works_is_right_whatever_the_signs_say():
    item = ordering(LINES, works, ADDED | {"The note comes first.": "two note"})
    assert fault(item, RIGHT)
    assert observe_value({"sum": RIGHT}).orders({"sum": item}, points=1) == 1


def test_a_wrong_order_that_no_sign_betrays_is_wrong(capsys):
    item = ordering(LINES, works, {})
    with pytest.raises(WrongAnswer), check("an-exercise") as test:
        test("orders")
        observe_value({"sum": ["two", "double", "add", "note", "none"]}).orders({"sum": item}, points=1)


def test_a_sign_with_an_unknown_name_is_the_authors_mistake():
    with pytest.raises(ValueError, match="no line is called halve"):
        ordering(LINES, works, {"x is halved.": "two halve"})


def test_open_orders_and_no_orders():
    with pytest.raises(NotSolvedYet):
        orders({"sum": ..., "again": ...})
    with pytest.raises(WrongAnswer, match="None of the items"):
        orders({"sum": [], "again": None})
    with pytest.raises(WrongAnswer, match="must be a dict from item names to orders"):
        orders(RIGHT)
