"""When a card comes back: the free spaced repetition scheduler of the package fsrs decides."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def rated(card: dict[str, Any] | None, right: bool, now: datetime) -> dict[str, Any]:
    """The card as it is after an answer; `card` as it was before, None for one that is asked the first time.

    Intervals are days: a card comes once in a session, so there are no steps of minutes.
    """
    from fsrs import Card, Rating, Scheduler

    scheduler = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    before = Card.from_dict(card) if card else Card(card_id=0, due=now)  # type: ignore[arg-type] # one key more
    after, _ = scheduler.review_card(before, Rating.Good if right else Rating.Again, now)
    return {**after.to_dict(), "first": card["first"] if card else now.isoformat()}
