"""What is asked of a learner about a fact when they review: the part `question` of a fact in its YAML file.

    question:
      says: batch.to(device), on a line of its own, moves batch.
      answer: not so
      because: …                          (only where belief and fact do not answer it)

    question:
      prints: |
        print(torch.zeros(2, 5).t().stride())
      answer: (1, 5)
      others: ["(2, 1)", "(5, 1)"]        two outputs that people expect

A fact without this part is asked by its belief.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from torchkata.facts.collection import DATA, Fact, entries_in, load
from torchkata.facts.faults import JUDGED

BY_VERDICT = {"holds": "so", "partly": "partly", "outdated": "not so", "wrong": "not so", "opinion": "partly"}


@dataclass(frozen=True)
class Question:
    """One question about a fact.

    says: the belief to be judged, or "" where `code` is given, whose output is asked for; the code may use torch, nn
    and numpy. choices: the three answers that are offered; answer: the right one. because: what holds.
    """

    fact: Fact
    says: str
    code: str
    choices: tuple[str, ...]
    answer: str
    because: str
    folded = "proof"  # what `shown` is, in a word
    runs = "run the proof"

    @property
    def id(self) -> str:
        return self.fact.id

    @property
    def asks(self) -> str:
        """The question, in words: the belief, or what is asked about the code."""
        return self.says or "What does this print?"

    @property
    def shown_title(self) -> str:
        """What `shown` is, in words."""
        return f"Proof {self.fact.id}"

    @property
    def shown(self) -> str:
        """The code that explains the answer."""
        return self.fact.proof.rstrip()


@cache
def questions(chapter: str) -> tuple[Question, ...]:
    """A question for each core fact of a chapter, named in full (03_gather_scatter), in their order.

    Raises FactError for an unknown chapter and for a faulty entry.
    """
    facts = load(chapter)
    entries = entries_in((DATA / f"{chapter}.yaml").read_text(encoding="utf-8"))
    asked = {entry["id"]: entry.get("question") for entry in entries}
    return tuple(question_of(fact, asked[fact.id]) for fact in facts if fact.level == "core")


def question_of(fact: Fact, part: dict[str, Any] | None) -> Question:
    """The question about a fact; `part` is free of faults, or None for the belief as it is."""
    if part is None:
        return Question(fact, fact.belief, "", JUDGED, BY_VERDICT[fact.verdict], fact.fact)
    because = part.get("because", "").strip() or _holds(fact)
    if "prints" in part:
        choices = tuple(sorted([part["answer"], *part["others"]]))
        return Question(fact, "", part["prints"].rstrip(), choices, part["answer"], because)
    return Question(fact, part["says"].strip(), "", JUDGED, part["answer"], because)


def _holds(fact: Fact) -> str:
    """A belief that holds is half of the answer."""
    return f"{fact.belief} {fact.fact}" if fact.verdict == "holds" else fact.fact
