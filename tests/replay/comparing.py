"""Two trees' outcomes side by side: what has changed, in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.replay.recording import Outcomes
from tests.replay.trees import Exercise

MISSING = "there is no such cell"
BY_CHANCE = re.compile(r"0x[0-9a-f]+|(?<=\]:)\d+|/tmp/[\w./-]+")  # addresses, ports of ranks, temporary files
REWRITTEN, NEW, GONE = "rewritten", "new", "gone"


@dataclass(frozen=True)
class Change:
    """A check cell that says something else of an answer: before and after, in words.

    of_answer: "" for an answer that is the same in both trees; else what became of it.
    """

    exercise: str
    answer: str
    of_answer: str
    cell: str
    before: str
    after: str


def changes(old: Exercise, new: Exercise, before: Outcomes, after: Outcomes) -> Iterator[Change]:
    """Of an exercise that is in both trees, cell by cell. Both outcomes are of the answers of both trees."""
    for name, cells in after.items():
        became = _of_answer(name, old, new)
        earlier, later = ({one["cell"]: one for one in found} for found in (before[name], cells))
        for cell in [*later, *(one for one in earlier if one not in later)]:
            if _lasting(earlier.get(cell)) != _lasting(later.get(cell)) or became in (NEW, GONE):
                yield Change(new.title, name, became, cell, _in_words(earlier.get(cell)), _in_words(later.get(cell)))


def _lasting(outcome: dict | None) -> dict | None:
    """An outcome without what differs from run to run."""
    return outcome and {**outcome, "says": BY_CHANCE.sub("…", outcome["says"])}


def _of_answer(name: str, old: Exercise, new: Exercise) -> str:
    if name not in old.answers:
        return NEW
    if name not in new.answers:
        return GONE
    return "" if _is_same_code(old.answers[name], new.answers[name]) else REWRITTEN


def _is_same_code(one: str, other: str) -> bool:
    """Whether nothing but comments differs, such as the notes of what the answer earns."""
    return one == other or ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


def _in_words(outcome: dict | None) -> str:
    """Such as "0 of 2, hidden test: You counted the padding."."""
    if outcome is None:
        return MISSING
    points = f"{outcome['points']:g} of {outcome['of']:g}"
    if not outcome["says"]:
        return points
    where = ", hidden test" if outcome["hidden"] else ""
    error = f" ({outcome['error']})" if outcome["error"] not in ("", "WrongAnswer") else ""
    return f"{points}{where}{error}: {outcome['says']}"
