"""What came of a check, and how it is told: raised, printed, or shown as a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torchkata.base.editor import somebody_looks
from torchkata.verdicts.keeping import Nowhere
from torchkata.verdicts.predicting import print_wrong
from torchkata.verdicts.raised import Interrupted, NotSolvedYet, WrongAnswer
from torchkata.verdicts.showing import Card, Part, Place

BUT_HERE = " here; tests that you don't see may follow when it is graded."
IN_NO_WORKBOOK = (
    "\n  torchkata finds no workbook that holds this notebook, so its hidden tests were not run. `torchkata workbook` "
    "makes one, and `torchkata lab` opens it."
)
WAITS = ": this check waits for the first one, which your answer doesn't pass yet"
_told: set[str] = set()  # what is told once


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    Attributes:
        kind: "interrupted", "open" (there is no answer yet), "wrong" or "passed".
        test: in which test it ended, with "test: " or "hidden test: " before its idea.
        sentence, parts: what to tell of a wrong answer.
        running: lines of the learner's own code that were interrupted.
        passed: how many tests or items are right, in words.
        wrong_items: of a prediction exercise, a line for each.
        points: the share that the check gave, where it gives one.
        printed: what the answer has printed unseen, and may be seen now.
        waits: whether the same answer has failed an earlier check of its exercise, which has told that already.
    """

    kind: str
    test: str = ""
    sentence: str = ""
    parts: Sequence[Part] = ()
    running: Sequence[str] = ()
    passed: str = ""
    wrong_items: list[str] = field(default_factory=list)
    points: float | None = None
    printed: str = ""
    waits: bool = False


def tell(exercise: str, outcome: Outcome, keeping: Nowhere, place: Place) -> None:
    """Keep an outcome and tell it. Raises the verdict where it is none that lets a notebook go on."""
    if outcome.kind == "interrupted":
        raise Interrupted(exercise, outcome.test, outcome.running) from None
    if outcome.kind == "open":
        return _tell_open(exercise, outcome, keeping, place)
    if keeping.withholds or not somebody_looks():
        print_wrong(outcome.wrong_items)
    if outcome.kind == "wrong":
        keeping.keep("wrong", outcome.sentence, outcome.points)
        if outcome.waits and somebody_looks():
            return _show(Card("open", exercise, WAITS), place)
        print(outcome.printed, end="")
        wrong = WrongAnswer(exercise, outcome.test, outcome.sentence, outcome.parts)
        raise (wrong.show(place) if somebody_looks() else wrong) from None
    card = keeping.confirmation(outcome.passed, outcome.wrong_items, outcome.points)
    if card is not None:
        _show(card, place)
    elif outcome.points is None:
        place.say(f"✓ {exercise}: {outcome.passed}{_but_here(keeping) if somebody_looks() else '.'}")


def _but_here(keeping: Nowhere) -> str:
    """What follows where hidden tests were not run; the first time with the reason."""
    reason = "" if keeping.is_workbook or IN_NO_WORKBOOK in _told else IN_NO_WORKBOOK
    _told.add(reason)
    return BUT_HERE + reason


def _tell_open(exercise: str, outcome: Outcome, keeping: Nowhere, place: Place) -> None:
    """Who looks at a workbook is told so quietly, and Run All goes on."""
    keeping.keep("open", points=outcome.points)
    if not (keeping.is_workbook and somebody_looks()):
        raise NotSolvedYet(exercise) from None
    card = Card("open", exercise, ": not solved yet")
    place.put(card, card.lines())


def _show(card: Card, place: Place) -> None:
    """As a card for somebody who looks, else as text, where wrong items have been printed already."""
    if somebody_looks():
        place.put(card, card.lines())
    else:
        print("\n".join(replace(card, parts=()).lines()))
