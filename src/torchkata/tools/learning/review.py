"""What a learner is asked when they review: ten cards of the chapters that they have read; what is noted of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from torchkata.facts.cards import Asked, asked_in
from torchkata.facts.collection import chapter_names
from torchkata.tools.course import Chapter, chapters, read_unchecked
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.deck import EXERCISE, Deck, changing, counted, read_deck, time_of
from torchkata.tools.learning.scheduling import rated
from torchkata.tools.learning.standing import standing
from torchkata.tools.learning.workbook import release_worked_on
from torchkata.tools.placing import Place

SECTION = re.compile(r"^## (.+)$", re.M)
TEN = 10  # cards of a round, and new ones of a day: about five minutes
PAGE = "review.ipynb"


@dataclass(frozen=True)
class Card:
    """A question of a chapter."""

    chapter: Chapter
    question: Asked

    @property
    def id(self) -> str:
        return self.question.id


@dataclass(frozen=True)
class Round:
    """The cards to be asked now, the chapters that the learner has read, and sentences on what was found."""

    cards: list[Card]
    read: list[Chapter]
    notes: list[str]


def right_now() -> datetime:
    return datetime.now(UTC)


def begin(place: Place, now: datetime | None = None, read: Sequence[Chapter] = ()) -> Round:
    """What is to be asked now; `read`: chapters that the learner says to have read, which is noted.

    Raises CourseError when the workbook is missing or cannot be written.
    """
    now = now or right_now()
    need_workbook(place)
    with changing(place, now) as deck:
        deck.chapters += [chapter.name for chapter in read if chapter.name not in deck.chapters]
        notes = [note for note in (deck.damaged, _clock_note(deck), _gone_note(deck)) if note]
    have_read = [chapter for chapter in chapters(place) if chapter.name in deck.chapters or was_begun(chapter)]
    return Round(chosen(cards_of(have_read), deck, now), have_read, notes)


def answered(place: Place, card: str, right: bool, now: datetime | None = None) -> datetime:
    """Note the answer to a card; when it comes back. Raises CourseError when the workbook cannot be written."""
    now = now or right_now()
    with changing(place, now) as deck:
        deck.cards[card] = rated(deck.cards.get(card), right, now)
    return time_of(deck.cards[card]["due"])


def count_due(place: Place, read: Collection[str], now: datetime | None = None) -> int:
    """How many cards the next round has, where the chapters with these names were begun; nothing is written."""
    now = now or right_now()
    deck = read_deck(place.workbook, now)
    names = {*read, *deck.chapters}
    return len(chosen(cards_of([chapter for chapter in chapters(place) if chapter.name in names]), deck, now))


def need_workbook(place: Place) -> None:
    """Raises CourseError where there is no workbook yet."""
    if not place.workbook.is_dir():
        raise CourseError("There is no workbook yet. Run `torchkata lab`: it makes one and opens it.")


def was_begun(chapter: Chapter) -> bool:
    """Whether a check of the chapter was run."""
    with suppress(CourseError):
        return any(stands.when or stands.state == "solved" for stands in standing(chapter))
    return False


def cards_of(read: Sequence[Chapter]) -> list[Card]:
    """The cards of these chapters, those on facts first in each; a chapter of a teacher's own may have none."""
    known = [chapter for chapter in read if chapter.name in chapter_names()]
    return [Card(chapter, question) for chapter in known for question in asked_in(chapter.name)]


def chosen(cards: Sequence[Card], deck: Deck, now: datetime) -> list[Card]:
    """Ten cards at most: those that are due, the longest first, then new ones, ten a day."""
    due = sorted((card for card in cards if deck.due(card.id, now)), key=lambda card: deck.cards[card.id]["due"])
    today = sum(time_of(card["first"]).date() == now.date() for card in deck.cards.values())
    new = [card for card in cards if card.id not in deck.cards][: max(0, TEN - today)]
    return (due + new)[:TEN]


def section_of(card: Card) -> tuple[str, str]:
    """Where the chapter teaches it: the section's title and a link, seen from the workbook's top.

    Only solutions say which cell teaches a fact; without them it is the chapter.
    """
    path, title, place = card.chapter.place_in_workbook.as_posix(), card.chapter.title, ""
    with suppress(CourseError):
        for cell in read_unchecked(card.chapter.solution).cells:
            if cell.cell_type == "markdown" and (headings := SECTION.findall(cell.source)):
                title, place = headings[-1], cell.id
            if card.question.fact.id in cell.metadata.get("facts", []):
                there = {one.get("id") for one in release_worked_on(card.chapter).cells}
                return title, f"{path}#cell-id={place}" if place in there else path
    return card.chapter.title, path


def _clock_note(deck: Deck) -> str:
    if not deck.ahead:
        return ""
    return (
        f"Answered at a time that is still to come, by this machine's clock: {counted(deck.ahead)}. They count as "
        "answered now; if the clock is wrong, set it."
    )


def _gone_note(deck: Deck) -> str:
    """Cards that this release does not have, told once."""
    known = {question.id for name in chapter_names() for question in asked_in(name)}
    gone = sorted(card for card in deck.cards if card not in known and not card.startswith(EXERCISE))
    new, deck.gone = [card for card in gone if card not in deck.gone], gone
    return f"Left out, because this release does not have them: {counted(len(new))}, kept in your file." if new else ""
