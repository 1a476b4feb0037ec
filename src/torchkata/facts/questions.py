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

import ast
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchkata.facts.collection import Fact

JUDGED = ("so", "not so", "partly")  # how a belief can be judged
BY_VERDICT = {"holds": "so", "partly": "partly", "outdated": "not so", "wrong": "not so", "opinion": "partly"}
OTHERS = 2


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


@cache
def questions(chapter: str) -> tuple[Question, ...]:
    """A question for each core fact of a chapter, named in full (03_gather_scatter), in their order.

    Raises FactError for an unknown chapter and for a faulty entry.
    """
    from torchkata.facts.collection import DATA, entries_in, load

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


def question_fault(part: object) -> str | None:
    """What is wrong with the part `question` of an entry, or None."""
    if not isinstance(part, dict) or ("says" in part) == ("prints" in part):
        return "question must have either says or prints"
    kind = "prints" if "prints" in part else "says"
    allowed = {kind, "answer", "because"} | ({"others"} if kind == "prints" else set())
    if unknown := sorted(set(part) - allowed):
        return f"unknown field {unknown[0]} in question"
    texts = [part.get(field, "text") for field in (kind, "because")] + [part.get("answer")]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return "question must have an answer, and its fields must be text"
    if kind == "says":
        return None if part["answer"] in JUDGED else f"the answer of question must be one of {', '.join(JUDGED)}"
    return _prints_fault(part)


def _prints_fault(part: dict[str, Any]) -> str | None:
    others = part.get("others")
    others = [one for one in others if isinstance(one, str) and one.strip()] if isinstance(others, list) else []
    if others != part.get("others") or len({part["answer"], *others}) != 1 + OTHERS:
        return f"question must have {OTHERS} others, texts that differ from the answer and from each other"
    try:
        ast.parse(part["prints"])
    except SyntaxError as error:
        return f"the code of question does not compile: {error}"
    return None
