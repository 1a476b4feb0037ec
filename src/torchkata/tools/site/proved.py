"""Each fact as the website tells it: for every group of torch's releases what holds, and on which one it was run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from packaging.version import Version

from torchkata.facts.collection import DATA, Fact, chapter_names, entries_in, parse
from torchkata.tools import lock

NEEDS_A_GPU = {"cuda", "cuda2"}


@dataclass(frozen=True)
class Variant:
    """A fact as it is for some releases of torch: `releases` is a version specifier, or "" for all."""

    releases: str
    fact: Fact


@dataclass(frozen=True)
class Told:
    """A fact and all its variants; that of the locked release comes first."""

    chapter: str
    variants: tuple[Variant, ...]

    @property
    def fact(self) -> Fact:
        return self.variants[0].fact

    @property
    def proved_on(self) -> str:
        """The release of torch on which the proof runs at each change of the course; "" where it needs a GPU."""
        return "" if NEEDS_A_GPU & set(self.fact.needs) else lock.TORCH


@cache
def told(chapter: str) -> tuple[Told, ...]:
    """The facts of a chapter. Raises FactError for a faulty entry."""
    text = (DATA / f"{chapter}.yaml").read_text(encoding="utf-8")
    locked = Version(lock.TORCH)
    changed = {entry["id"]: list(entry["holds"]) for entry in entries_in(text) if "holds" in entry}
    now = parse(text, chapter, locked)
    by_release: dict[Version, dict[str, Fact]] = {}

    def variant(name: str, key: str) -> Variant:
        release = _release_in(key)
        if release not in by_release:
            by_release[release] = {fact.id: fact for fact in parse(text, chapter, release)}
        return Variant(key, by_release[release][name])

    def variants(fact: Fact) -> tuple[Variant, ...]:
        found = [variant(fact.id, key) for key in changed.get(fact.id, ())]
        return tuple(sorted(found, key=lambda v: v.fact != fact)) or (Variant("", fact),)

    return tuple(Told(chapter, variants(fact)) for fact in now)


def _release_in(specifier: str) -> Version:
    """The release that belongs to a specifier and is the locked one or the first after it; else the last before it."""
    from packaging.specifiers import SpecifierSet

    locked, wanted = Version(lock.TORCH), SpecifierSet(specifier)
    known = [Version(f"2.{minor}.{micro}") for minor in range(99) for micro in range(3)]
    before, after = ([one for one in known if (one >= locked) is late and one in wanted] for late in (False, True))
    return after[0] if after else before[-1]


def all_told() -> list[Told]:
    """The facts of all chapters, in order."""
    return [fact for chapter in chapter_names() for fact in told(chapter)]
