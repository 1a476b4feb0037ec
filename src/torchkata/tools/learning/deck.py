"""The learner's cards: when each comes back, in one small file of the workbook that nothing else writes.

A card has an id: that of a fact, or `exercise:` and that of an exercise. What can't be read of the file is kept aside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from torchkata.base.places import KEPT
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.workbook import put, writing
from torchkata.tools.placing import Place

FILE = "review.json"
TOLERANCE = timedelta(minutes=5)  # by which clocks are set right
EXERCISE = "exercise:"


@dataclass
class Deck:
    """What is known of the cards; times are ISO 8601 with their zone.

    cards: by id, a card of fsrs as its to_dict gives it, and when it was `first` asked. chapters: that the learner says
    to have read. attempts: by exercise's id, when a repetition was begun. gone: cards that are known to have no fact.
    skips: by chapter, the cards that were answered `right` and `missed` to skip it, when it was `asked`, and since when
    it is `known`, "" while its exercise isn't solved. damaged: what is wrong with the file, or "". ahead: how many
    cards were answered later than now.
    """

    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    chapters: list[str] = field(default_factory=list)
    attempts: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    skips: dict[str, dict[str, Any]] = field(default_factory=dict)
    damaged: str = ""
    ahead: int = 0

    def due(self, card: str, now: datetime) -> bool:
        """Whether a card that was asked before is to be asked again."""
        return card in self.cards and time_of(self.cards[card]["due"]) <= now


def time_of(text: str) -> datetime:
    """The time that an ISO 8601 text names; one without a zone is taken as UTC. Raises ValueError and TypeError."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def read_deck(workbook: Path, now: datetime) -> Deck:
    """The cards of a workbook; of a damaged file what can be read. Nothing is written.

    Raises CourseError where the file is there and may not be read.
    """
    try:
        text = (workbook / KEPT / FILE).read_bytes()
    except FileNotFoundError:
        return Deck()
    except OSError as error:
        raise CourseError(f"{workbook / KEPT / FILE} cannot be read: {error.strerror or error}.") from None
    deck = _parsed(text)
    deck.ahead = _take_back(deck, now)
    return deck


@contextmanager
def changing(place: Place, now: datetime) -> Iterator[Deck]:
    """The cards, to be changed, alone; they are written at the end, unless there is an error.

    A damaged file is copied aside before. Raises CourseError when the workbook cannot be written.
    """
    with writing(place):
        path = place.workbook / KEPT / FILE
        deck = read_deck(place.workbook, now)
        if deck.damaged:
            aside = _free(path, now)
            put(aside, path.read_bytes())
            deck.damaged += f" It is kept as {aside}."
        yield deck
        kept = {name: getattr(deck, name) for name in ("cards", "chapters", "attempts", "gone", "skips")}
        put(path, (json.dumps({"version": 1, **kept}, indent=1) + "\n").encode())


def counted(number: int) -> str:
    """A number of cards in words."""
    return "1 card" if number == 1 else f"{number} cards"


def _free(path: Path, now: datetime) -> Path:
    """A name beside the file for what it holds now."""
    names = (f"review-damaged-{now:%Y-%m-%d}{suffix}.json" for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _parsed(text: bytes) -> Deck:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Deck(damaged="The file with your review cards was damaged, so all of them begin anew.")
    kinds = {"cards": _is_card, "attempts": _is_time, "skips": _is_skip}
    parts = [_good(found, name, dict, is_good) for name, is_good in kinds.items()]
    lists = [_good(found, name, list, lambda one: isinstance(one, str)) for name in ("chapters", "gone")]
    (cards, bad), (attempts, bad_attempts), (skips, bad_skips) = parts
    (chapters, bad_chapters), (gone, bad_gone) = lists
    deck = Deck(cards, chapters, attempts, gone, skips)
    if bad + bad_attempts + bad_chapters + bad_gone + bad_skips:
        kept, lost = counted(len(cards)), counted(bad)
        deck.damaged = f"The file with your review cards was damaged: {kept} could be read, {lost} to begin anew."
    return deck


def _good(found: dict, name: str, kind: type, is_good: Callable[[Any], bool]) -> tuple[Any, int]:
    """The good entries of a part of the file, and how many others there are; a part that is no `kind` is one."""
    part = found.get(name, kind())
    kept: Any = kind()
    if isinstance(part, dict) and kind is dict:
        kept = {key: one for key, one in part.items() if is_good(one)}
    elif isinstance(part, list) and kind is list:
        kept = [one for one in part if is_good(one)]
    else:
        return kept, 1
    return kept, len(part) - len(kept)


def _is_card(card: Any) -> bool:
    try:
        numbers = (card["stability"], card["difficulty"])
        times = (card["due"], card["last_review"], card["first"])
        return card["state"] in (1, 2, 3) and all(map(_is_time, times)) and all(map(_is_positive, numbers))
    except (KeyError, TypeError):
        return False


def _is_skip(skip: Any) -> bool:
    try:
        times, lists = (skip["asked"], skip["known"] or skip["asked"]), (skip["right"], skip["missed"])
    except (KeyError, TypeError):
        return False
    cards = [card for names in lists if isinstance(names, list) for card in names]
    return (
        all(map(_is_time, times))
        and all(isinstance(names, list) for names in lists)
        and all(isinstance(card, str) for card in cards)
    )


def _is_positive(number: Any) -> bool:
    return isinstance(number, (int, float)) and math.isfinite(number) and number > 0


def _is_time(text: Any) -> bool:
    try:
        time_of(text)
    except (ValueError, TypeError):
        return False
    return True


def _take_back(deck: Deck, now: datetime) -> int:
    """Cards that were answered at a time to come, by this clock, count as answered now; their intervals stay."""
    ahead = [card for card in deck.cards.values() if time_of(card["last_review"]) > now + TOLERANCE]
    for card in ahead:
        interval = time_of(card["due"]) - time_of(card["last_review"])
        card["last_review"], card["due"] = now.isoformat(), (now + interval).isoformat()
        card["first"] = min(time_of(card["first"]), now).isoformat()
    return len(ahead)
