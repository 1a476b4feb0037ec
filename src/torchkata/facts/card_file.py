"""Files of review cards that are no facts: what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

from torchkata.facts.collection import FactError, entries_in


class Named(Protocol):
    """A card."""

    @property
    def id(self) -> str:
        """Unique in its file; begins with the number of the chapter."""
        ...


Card = TypeVar("Card", bound=Named)
Entry = dict[str, Any]


def cards_in(
    text: str, file: str, fault: Callable[[Entry], str | None], made: Callable[[Entry], Card]
) -> tuple[Card, ...]:
    """The cards in the text of a file. Raises FactError, naming the entry, at the first fault."""
    found: list[Card] = []
    for entry in entries_in(text):
        twice = entry.get("id") in {card.id for card in found}
        if wrong := "the id is used twice" if twice else fault(entry):
            raise FactError(f"{file}: {entry.get('id', f'entry {len(found) + 1}')}: {wrong}")
        found.append(made(entry))
    return tuple(found)


def fault_of_texts(entry: Entry, texts: Collection[str]) -> str | None:
    """What is wrong with the fields that must be text, and with the fact that the card belongs to; None for nothing."""
    if not all(isinstance(entry[field], str) and entry[field].strip() for field in texts):
        return f"{', '.join(sorted(texts))} must be text"
    if entry["id"][:2] != entry["fact"][:2]:
        return "its fact belongs to another chapter"
    return None


def of_chapter(cards: tuple[Card, ...], chapter: str) -> tuple[Card, ...]:
    """The cards of a chapter, named in full (03_gather_scatter)."""
    return tuple(card for card in cards if card.id[:2] == chapter[:2])
