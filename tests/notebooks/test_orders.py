"""In exercises of the kind order, what is said of an order is true: exactly the orders that don't work have a fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from unittest.mock import patch

import pytest

from tests.notebooks import running
from torchkata.tools.course import chapters
from torchkata.tools.placing import here
from torchkata.verdicts import ordering
from torchkata.verdicts.judging import Seen
from torchkata.verdicts.ordering import Ordering, fault, what_is_out_of_order


def exercises() -> list[tuple[str, str]]:
    """The chapter and the id of each exercise whose check judges orders."""
    files = [path for one in chapters(here()) for path in sorted((one.source.parent / "exercises").glob("*.py"))]
    judging = [path for path in files if ").orders(" in path.read_text(encoding="utf-8")]
    return [(path.parent.parent.name, path.stem.replace("_", "-")) for path in judging]


def orderings(chapter: str, exercise: str) -> dict[str, Ordering]:
    """The items that the check of an exercise judges."""
    judged: dict[str, Ordering] = {}
    solution = running.exercise_cells(chapter, exercise)[0].source
    with patch.object(Seen, "orders", lambda self, items, points: judged.update(items) or float(points)):
        running.grade(chapter, exercise, solution)
    return judged


def orders_of(item: Ordering) -> Iterator[list[str]]:
    """All orders of the needed lines; of each that works, those with one line less, or with one more at any place."""
    for names in map(list, permutations(item.needed)):
        yield names
        if not fault(item, names):
            yield from ([*names[:n], *names[n + 1 :]] for n in range(len(names)))
            more = set(item.lines) - set(names)
            yield from ([*names[:n], one, *names[n:]] for one in sorted(more) for n in range(len(names) + 1))


def untrue(item: Ordering, orders: Iterable[list[str]]) -> list[list[str]]:
    """Those of which the signs say otherwise than the run."""
    return [names for names in orders if bool(fault(item, names)) != bool(what_is_out_of_order(item, names))]


@pytest.mark.parametrize("chapter, exercise", exercises())
def test_what_the_signs_say_of_each_order_is_so(chapter: str, exercise: str):
    items = orderings(chapter, exercise)
    assert items
    for item in items.values():
        assert untrue(item, orders_of(item)) == []


def test_a_sign_that_is_missing_or_untrue_is_noticed():
    item = ordering({"a": "", "b": "", "c": ""}, lambda names: names == ["a", "b", "c"], {"No.": "b a"})
    assert untrue(item, orders_of(item)) == [["a", "c", "b"], ["c", "a", "b"]]
    item = ordering({"a": "", "b": ""}, lambda names: len(names) == 2, {"No.": "b a"})
    assert untrue(item, orders_of(item)) == [["b", "a"]]
