"""Has the answer that is being checked passed the first check of its exercise? Later checks ask this before they send
a learner back there, and before they tell a learner a second time that something is wrong."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SENDS_BACK = "FIRST_CHECK_FIRST"  # a check cell with this name in it is never the first one


@dataclass
class _First:
    """The first check that ran of an exercise. answers: references to the objects that it was run on."""

    source: str
    answers: Sequence[Callable[[], object]]
    outcome: str = ""  # "passed" or "wrong", say

    def met(self, answers: Sequence[object]) -> bool:
        return any(ref() is answer for ref in self.answers for answer in answers)


_first: dict[str, _First] = {}  # by exercise
_at_work: list[object] = []  # the answers of the check that runs now


def begin(exercise: str, source: str, answers: Sequence[object]) -> None:
    """A check cell with this source begins, on these answers."""
    _at_work[:] = answers
    known = _first.get(exercise)
    if SENDS_BACK not in source and (known is None or known.source == source or not known.met(answers)):
        _first[exercise] = _First(source, [_reference_to(answer) for answer in answers])


def end(exercise: str, source: str, outcome: str) -> None:
    """It has ended. outcome: the kind of what came of it; "" for an error of the check's own."""
    _at_work.clear()
    known = _first.get(exercise)
    if known is not None and known.source == source:
        known.outcome = outcome


def has_failed_before(exercise: str, source: str) -> bool:
    """Whether the answers of the check that runs now, which has this source, have failed the first one of the exercise,
    and this is a later one."""
    known = _first.get(exercise)
    return known is not None and known.source != source and known.outcome == "wrong" and known.met(_at_work)


def is_passed() -> bool:
    """Whether the answers of the check that runs now have passed the first one."""
    return any(known.outcome == "passed" and known.met(_at_work) for known in _first.values())


def _reference_to(answer: object) -> Callable[[], object]:
    """A weak one: an answer that its learner has replaced is not kept."""
    try:
        return weakref.ref(answer)
    except TypeError:  # a dict of predictions, say: its exercise has one check
        return lambda: None
