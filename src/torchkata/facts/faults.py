"""What can be wrong with an entry of a chapter's YAML file, in words for its author."""

import ast
import re
from typing import Any

from torchkata.facts.releases import holds_fault, variants

VERDICTS = ("holds", "partly", "outdated", "wrong", "opinion")
LEVELS = ("core", "detail")
NEEDS = ("cuda", "cuda2", "multiprocess", "onnx", "torchinfo", "torchvision")
ID = re.compile(r"\d\d(-[a-z0-9]+)+")
REQUIRED = ("id", "belief", "verdict", "fact", "proof", "level")
OPTIONAL = ("trap", "needs", "isolated", "unverified", "table", "holds", "question")
JUDGED = ("so", "not so", "partly")  # how a belief can be judged
OTHERS = 2  # wrong outputs that a question offers


def entry_fault(entry: object, chapter: str, seen: set[str]) -> str | None:
    """What is wrong with an entry of a file, or None."""
    if not isinstance(entry, dict):
        return "not a mapping"
    fault = holds_fault(entry) or next(filter(None, map(_field_fault, variants(entry))), None)
    fault = fault or _id_fault(entry["id"], chapter, seen)
    return fault or next(filter(None, (_proof_fault(variant["proof"]) for variant in variants(entry))), None)


def _field_fault(entry: dict) -> str | None:
    for field in REQUIRED:
        if field not in entry:
            return f"{field} is missing"
    for field, value in entry.items():
        if field not in REQUIRED + OPTIONAL:
            return f"unknown field {field}"
        if field in ("id", "belief", "fact", "proof", "trap") and not (isinstance(value, str) and value.strip()):
            return f"{field} must be text"
        if field in ("isolated", "unverified") and value is not True:
            return f"{field} may only be true; leave it out otherwise"
    if "table" in entry and not (type(entry["table"]) is int and entry["table"] > 0):
        return "table must be the number of a row, counted from 1; leave it out for a fact that is not shown"
    if entry["verdict"] not in VERDICTS:
        return f"unknown verdict {entry['verdict']!r}; one of {', '.join(VERDICTS)}"
    if entry["level"] not in LEVELS:
        return f"unknown level {entry['level']!r}; one of {', '.join(LEVELS)}"
    needs = entry.get("needs", [])
    if not isinstance(needs, list) or not all(need in NEEDS for need in needs):
        return f"needs must be a list of words among {', '.join(NEEDS)}"
    return _question_fault(entry["question"]) if "question" in entry else None


def _id_fault(name: str, chapter: str, seen: set[str]) -> str | None:
    if not ID.fullmatch(name):
        return "the id must be a chapter number and lower-case words, joined by hyphens"
    if name[:2] != chapter[:2]:
        return "the id belongs to another chapter"
    if name in seen:
        return "the id is used twice"
    return None


def _proof_fault(proof: str) -> str | None:
    try:
        tree = ast.parse(proof)
    except SyntaxError as error:
        return f"the proof does not compile: {error}"
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        return "the proof asserts nothing"
    return None


def _question_fault(part: object) -> str | None:
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
