"""Read the facts of a chapter from its YAML file. A faulty entry is named with its file and its id."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from packaging.version import Version

from torchkata.facts.faults import entry_fault
from torchkata.facts.releases import installed_release, variant_for

DATA = files("torchkata.facts") / "data"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C takes a fourteenth of the time


class FactError(Exception):
    """A fact that does not exist or is faulty; the message names the chapter and the id."""


@dataclass(frozen=True)
class Fact:
    """One belief about PyTorch and what is so, for one release of torch.

    id: chapter number and a short name, such as 03-gather-index-formula.
    belief: what people say.
    verdict: one of VERDICTS in `faults`.
    fact: what holds.
    proof: Python code that runs through if and only if the fact holds.
    trap: a false conclusion that is often drawn; "" for none.
    needs: what the proof asks of the machine, words of NEEDS in `faults`.
    level: "core" (taught in the chapter) or "detail".
    isolated: the proof runs as a script in a process of its own.
    unverified: a part of the fact needs a GPU and has not been run on one yet.
    table: its row in the chapter's closing table, counted from 1; 0 if it is not shown there.
    """

    id: str
    belief: str
    verdict: str
    fact: str
    proof: str
    trap: str
    needs: tuple[str, ...]
    level: str
    isolated: bool
    unverified: bool
    table: int = 0


def chapter_names() -> list[str]:
    """The chapters that have facts, in order: 01_backends, 02_tensors_views, ..."""
    return sorted(file.name.removesuffix(".yaml") for file in DATA.iterdir() if file.name.endswith(".yaml"))


@cache
def load(chapter: str) -> tuple[Fact, ...]:
    """The facts of a chapter, named in full (03_gather_scatter), for the torch that is installed.

    Raises FactError for an unknown chapter and for a faulty entry.
    """
    if chapter not in chapter_names():
        raise FactError(f"There are no facts on {chapter!r}. Chapters with facts: {', '.join(chapter_names())}.")
    return parse((DATA / f"{chapter}.yaml").read_text(encoding="utf-8"), chapter)


def find(fact_id: str) -> Fact:
    """The fact with this id. Raises FactError when there is none."""
    for chapter in chapter_names():
        if chapter.startswith(f"{fact_id[:2]}_"):
            for fact in load(chapter):
                if fact.id == fact_id:
                    return fact
    raise FactError(f"There is no fact with the id {fact_id!r}.")


def entries_in(text: str) -> Any:
    """What a chapter's file says, as it stands there. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=LOADER)


def parse(text: str, chapter: str, release: Version | None = None) -> tuple[Fact, ...]:
    """The facts in the text of a chapter's file, as they are for a release of torch (default: the installed one).

    Raises FactError, naming file and id, at the first fault, in whichever release's part it is.
    """
    release = release or installed_release()
    try:
        entries = entries_in(text)
    except yaml.YAMLError as error:
        raise FactError(f"{chapter}.yaml is not YAML: {error}") from None
    if not isinstance(entries, list):
        raise FactError(f"{chapter}.yaml: the file must be a list of facts")
    facts: list[Fact] = []
    seen: set[str] = set()
    for number, entry in enumerate(entries, 1):
        name = entry.get("id", f"entry {number}") if isinstance(entry, dict) else f"entry {number}"
        fault = entry_fault(entry, chapter, seen)
        if fault:
            raise FactError(f"{chapter}.yaml: {name}: {fault}")
        seen.add(entry["id"])
        facts.append(_fact(variant_for(entry, release)))
    if fault := _table_fault(facts):
        raise FactError(f"{chapter}.yaml: {fault}")
    return tuple(facts)


def _fact(entry: dict) -> Fact:
    return Fact(
        id=entry["id"],
        belief=entry["belief"].strip(),
        verdict=entry["verdict"],
        fact=entry["fact"].strip(),
        proof=entry["proof"],
        trap=entry.get("trap", "").strip(),
        needs=tuple(entry.get("needs", ())),
        level=entry["level"],
        isolated=entry.get("isolated", False),
        unverified=entry.get("unverified", False),
        table=entry.get("table", 0),
    )


def _table_fault(facts: list[Fact]) -> str | None:
    """The rows of the closing table are numbered without a gap."""
    shown = sorted((fact for fact in facts if fact.table), key=lambda fact: fact.table)
    for row, fact in enumerate(shown, 1):
        if fact.table < row:
            return f"{shown[row - 2].id} and {fact.id} both stand in row {fact.table} of the table"
        if fact.table > row:
            return f"{fact.id}: it stands in row {fact.table} of the table, and no fact stands in row {row}"
    return None
