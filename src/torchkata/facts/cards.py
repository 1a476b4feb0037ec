"""All that a review asks about a chapter."""

from __future__ import annotations

from torchkata.facts.orders import Order, orders
from torchkata.facts.pairs import Pair, pairs
from torchkata.facts.questions import Question, questions

Asked = Question | Pair | Order


def asked_in(chapter: str) -> list[Asked]:
    """The cards of a chapter, named in full (03_gather_scatter): those on its facts first.

    Raises FactError for an unknown chapter and for a faulty entry.
    """
    return [*questions(chapter), *pairs(chapter), *orders(chapter)]


def judged(asked: Asked, given: str) -> tuple[bool, str, str]:
    """Whether an answer is right ("" is none), what is right, in a few words, and why, in a sentence or two."""
    if not isinstance(asked, Order):
        return given == asked.answer, asked.answer, asked.because
    if not given:
        return False, "you gave no order", asked.because
    if fault := asked.fault(given):
        return False, "this order doesn't work", fault
    return True, "this order works", asked.because
