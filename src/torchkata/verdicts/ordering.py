"""Order: judge an order of given lines. Every order that works is right; what betrays a wrong one is named."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torchkata.base.signs import Sign, betrayed, signs_of
from torchkata.verdicts.comparing import show
from torchkata.verdicts.isolation import clean_state


@dataclass(frozen=True)
class Ordering:
    """Lines by their names, what tells the right orders, and what betrays a wrong one; see `ordering`."""

    lines: Mapping[str, str]
    works: Callable[[list[str]], object]
    wrong: Mapping[str, tuple[Sign, ...]]

    @property
    def needed(self) -> list[str]:
        """The names of the lines that belong to the program."""
        signs = [sign for signs in self.wrong.values() for sign in signs]
        return [name for name in self.lines if (name,) not in signs]


def ordering(
    lines: Mapping[str, str], works: Callable[[list[str]], object], wrong: Mapping[str, str | list[str]]
) -> Ordering:
    """Lines that the learner puts in order, by their names.

    Args:
        lines: the code of each line, by its name. An entry may be several lines of code that stay together.
        works: whether a list of these names, each at most once, is a right order. It runs the lines in this order and
            compares what comes out. It may raise, as the lines may in a wrong order: then the order is wrong.
        wrong: what betrays an order that doesn't work, by the sentence on it: names with blanks between them, which
            come in this order, whatever else is between. "clip unscale" betrays an order that clips before it unscales,
            "half" one with a line that doesn't belong to the program. A list has several such signs. The first that
            applies is told. Together with the lines that are missing, the signs must find fault with exactly the orders
            that don't work; tests/notebooks/test_orders.py tries them all.
    """
    found = {sentence: signs_of(signs) for sentence, signs in wrong.items()}
    if strays := {name for signs in found.values() for sign in signs for name in sign} - set(lines):
        raise ValueError(f"no line is called {min(strays)}")
    return Ordering(lines, works, found)


def what_is_out_of_order(item: Ordering, given: object) -> str:
    """Why an order is wrong, in a sentence; "" where it works."""
    names = list(item.lines)
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        return f"Write a list of names, such as {show(names[:2])}."
    for n, name in enumerate(given):
        if name not in names:
            return f"{show(name, 40)} is none of the names, which are {', '.join(names)}."
        if name in given[:n]:
            return f"Your list has {name} twice. Each name may be in it once."
    if _works(item, list(given)):
        return ""
    return fault(item, list(given)) or "In this order, the lines don't do what they should."


def fault(item: Ordering, given: list[str]) -> str:
    """What a list of names, each at most once, lacks, or what betrays it, without running it; "" where nothing does."""
    if missing := [name for name in item.needed if name not in given]:
        return f"Your list lacks {', '.join(missing)}."
    return next((told for told, signs in item.wrong.items() if betrayed(signs, given)), "")


def _works(item: Ordering, given: list[str]) -> bool:
    try:
        with clean_state(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(item.works(given))
    except Exception:  # of any line that runs too early
        return False
