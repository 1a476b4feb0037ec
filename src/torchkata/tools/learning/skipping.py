"""Skipping a chapter: what shows that a learner knows it, and what is noted of that.

Its questions come first, then one exercise in the learner's own notebook. Only when both are passed does the chapter
count as known; what was answered is kept in between, so that the exercise can wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from typing import Any

import yaml

from torchkata.base.chapter import Exercise, exercises_of
from torchkata.facts.questions import Question
from torchkata.tools.course import Chapter, find_chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.deck import changing, read_deck, time_of
from torchkata.tools.learning.review import SECTION, Card, cards_of, need_workbook, right_now, section_of
from torchkata.tools.learning.scheduling import rated
from torchkata.tools.learning.workbook import release_worked_on
from torchkata.tools.placing import Place

DATA = files("torchkata.tools.learning") / "skip.yaml"
TEN = 10  # questions at most
OF_FIVE = 5  # questions, one may be missed


@dataclass(frozen=True)
class Trial:
    """What is asked of a learner who wants to skip a chapter: questions and an exercise. anyway: what to read even
    then, as the cards that ask for it."""

    chapter: Chapter
    cards: list[Card]
    exercise: Exercise
    anyway: list[Card]


@dataclass(frozen=True)
class Answered:
    """The answers to the questions of a chapter. known: since when the chapter is, "" where it isn't yet."""

    asked: str
    right: tuple[str, ...]
    missed: tuple[str, ...]
    known: str = ""

    @property
    def passed(self) -> bool:
        """Whether at most one question in five was missed."""
        return len(self.missed) * OF_FIVE <= len(self.right) + len(self.missed)


@cache
def authors_choice() -> dict[str, dict[str, Any]]:
    """By chapter's name: its `exercise`, and the facts to read `anyway`."""
    return yaml.safe_load(DATA.read_text(encoding="utf-8"))


def trial_of(place: Place, word: str) -> Trial:
    """What is asked to skip the chapter that a word names.

    Raises CourseError where there is no workbook, no such chapter in it, or nothing to skip the chapter with.
    """
    need_workbook(place)
    [chapter] = find_chapters(place, [word])
    cards, choice = asked_to_skip(chapter), authors_choice().get(chapter.name)
    if not (cards and choice):
        raise CourseError(f"{chapter.name} can't be skipped: it has no questions, or no exercise that stands for it.")
    if not chapter.workbook.exists():
        raise CourseError(
            f"{chapter.name} is not in your workbook, where its exercise is to be solved. `torchkata workbook` puts it "
            "there."
        )
    exercise = _exercise_in(chapter, choice["exercise"])
    return Trial(chapter, spread(cards), exercise, [card for card in cards if card.id in choice["anyway"]])


def asked_to_skip(chapter: Chapter) -> list[Card]:
    """The cards on the chapter's facts; one of them takes half a minute, and the others take longer."""
    return [card for card in cards_of([chapter]) if isinstance(card.question, Question)]


def _exercise_in(chapter: Chapter, name: str) -> Exercise:
    """The exercise of the release that the learner works on. Raises CourseError where that has none of this name."""
    for exercise in exercises_of(release_worked_on(chapter).cells):
        if exercise.id == name:
            return exercise
    raise CourseError(
        f"Your copy of {chapter.name} has no exercise {name}: it is of another release. Run `torchkata update "
        f"{chapter.number}` first; your answers stay in it."
    )


def spread(cards: Sequence[Card]) -> list[Card]:
    """Ten cards at most, in the chapter's order: one of each section, then a second one, and so on."""
    by_section: dict[str, list[Card]] = {}
    for card in cards:
        by_section.setdefault(section_of(card)[0], []).append(card)
    taught = {title: group for title, group in by_section.items() if title != cards[0].chapter.title} or by_section
    in_turn = [card for round_ in zip_longest(*taught.values()) for card in round_ if card]
    chosen = in_turn[:TEN]
    return [card for card in cards if card in chosen]


# ---------------------------------------------------------------- what is noted


def known_chapters(place: Place) -> set[str]:
    """The names of the chapters that count as known. Raises CourseError where the file can't be read."""
    deck = read_deck(place.workbook, right_now())
    return {name for name, skip in deck.skips.items() if skip["known"]}


def answered_before(trial: Trial, now: datetime | None = None) -> Answered | None:
    """The answers to a chapter's questions that were enough; None where there are none. Raises CourseError."""
    skip = read_deck(trial.chapter.place.workbook, now or right_now()).skips.get(trial.chapter.name)
    return Answered(skip["asked"], tuple(skip["right"]), tuple(skip["missed"]), skip["known"]) if skip else None


def note_answers(trial: Trial, missed: Sequence[Card], now: datetime | None = None) -> Answered:
    """Keep the answers to all questions, if they are enough. Raises CourseError when the workbook can't be written."""
    now = now or right_now()
    right = tuple(card.id for card in trial.cards if card not in missed)
    given = Answered(now.isoformat(), right, tuple(card.id for card in missed))
    if given.passed:
        with changing(trial.chapter.place, now) as deck:
            deck.skips[trial.chapter.name] = _as_kept(given)
    return given


def note_known(trial: Trial, given: Answered, now: datetime | None = None) -> None:
    """The exercise is solved, too: the chapter is known, and review asks its questions from now on.

    Raises CourseError when the workbook can't be written.
    """
    now = now or right_now()
    with changing(trial.chapter.place, now) as deck:
        name = trial.chapter.name
        deck.skips[name] = _as_kept(given) | {"known": now.isoformat()}
        deck.chapters += [name] if name not in deck.chapters else []
        for card in (*given.right, *given.missed):
            if card not in deck.cards:  # what a review has asked keeps its own time
                deck.cards[card] = rated(None, card in given.right, now)


def _as_kept(given: Answered) -> dict[str, Any]:
    return {"asked": given.asked, "right": list(given.right), "missed": list(given.missed), "known": given.known}


# ---------------------------------------------------------------- in words


def day_of(time: str) -> str:
    """The day of a time, here."""
    return f"{time_of(time).astimezone():%Y-%m-%d}"


def section_of_exercise(trial: Trial) -> str:
    """The title of the section that an exercise practises; the chapter's where that can't be told."""
    title = trial.chapter.title
    with suppress(CourseError):
        for cell in release_worked_on(trial.chapter).cells:
            if cell.get("id") == trial.exercise.place:
                break
            if cell.cell_type == "markdown" and (headings := SECTION.findall(cell.source)):
                title = headings[-1]
    return title
