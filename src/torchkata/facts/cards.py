"""All that a review asks about a chapter."""

from __future__ import annotations

from torchkata.facts.pairs import Pair, pairs
from torchkata.facts.questions import Question, questions

Asked = Question | Pair


def asked_in(chapter: str) -> list[Asked]:
    """The cards of a chapter, named in full (03_gather_scatter): those on its facts first.

    Raises FactError for an unknown chapter and for a faulty entry.
    """
    return [*questions(chapter), *pairs(chapter)]
