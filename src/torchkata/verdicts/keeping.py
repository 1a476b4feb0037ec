"""A check in a learner's own workbook: it is remembered there, and where the course is at hand, it has its hidden
tests, its points, and a next exercise. Elsewhere there is nothing of all this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchkata.base.marks import without_hidden_tests
from torchkata.base.remembering import Remembered, begin, died, digest_of, end, remember
from torchkata.base.ways import AUTHORS_ANSWER
from torchkata.verdicts import at_hand
from torchkata.verdicts.originals import answers_are_here
from torchkata.verdicts.showing import Card, Folded, Part, notice

NOT_THE_CELL = (
    "this check cell is not the one of the course at hand. Has it been edited, or is your notebook of another release? "
    "In a terminal, `torchkata check` runs them all, and `torchkata update` brings the new release."
)


class Nowhere:
    """Of a check that runs in no workbook: a student's in a class, or one that is graded."""

    is_workbook = False

    @property
    def withholds(self) -> bool:
        """Whether a learner is kept from the data of hidden tests."""
        return True

    @property
    def hidden_tests(self) -> str:
        """The hidden tests of the check cell, where they are at hand."""
        return ""

    @property
    def whole(self) -> str:
        """The check cell as its author wrote it, where that is at hand."""
        return ""

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def keep(self, state: str, line: str = "", points: float | None = None) -> None: ...

    def confirmation(self, passed: str, wrong: list[str], points: float | None) -> Card | None:
        """The verdict on a check that was passed, where more can be said than that."""
        self.keep("solved", points=points)
        return None


@dataclass(frozen=True)
class InWorkbook(Nowhere):
    """Of a check in a workbook. digest: of the check cell as it is released; own: None where the course came without
    solutions."""

    workbook: Path
    exercise: str
    digest: str
    own: at_hand.OwnCheck | None
    is_workbook = True

    @property
    def withholds(self) -> bool:
        return self.own is None

    @property
    def whole(self) -> str:
        return self.own.cell.source if self.own and self.own.cell else ""

    @property
    def hidden_tests(self) -> str:
        return self.own.cell.hidden_tests if self.own and self.own.cell else ""

    def begin(self) -> None:
        """Say in whose check Python ended the last time, and note that this one begins."""
        for exercise in died(self.workbook):
            notice(
                f"The last check of {exercise} has no verdict: Python ended in the middle of it. Your answer ended it, "
                "used up the memory, or the kernel was restarted. Run the cell of your answer again before its check."
            )
        begin(self.workbook, self.exercise, self.digest)

    def end(self) -> None:
        end(self.workbook)

    def keep(self, state: str, line: str = "", points: float | None = None) -> None:
        hidden = self.own is not None
        remember(self.workbook, Remembered(self.exercise, self.digest, state, line, points, hidden))

    def confirmation(self, passed: str, wrong: list[str], points: float | None) -> Card | None:
        if self.own and not self.own.cell:
            return Card("part", self.exercise, f": {passed}", f"Hidden tests were not run: {NOT_THE_CELL}")
        self.keep("solved", points=points)
        return _points_and_next(self.own, passed, wrong, points) if self.own else None


def keeping_of(exercise: str, source: str) -> Nowhere:
    """What is kept of a check whose cell has this source."""
    if not (at_hand.WORKBOOK and answers_are_here()):
        return Nowhere()
    shown = without_hidden_tests(source)
    own = at_hand.own_check(exercise, shown)
    digest = own.cell.digest if own and own.cell else digest_of(shown)
    return InWorkbook(at_hand.WORKBOOK, exercise, digest, own)


def _points_and_next(own: at_hand.OwnCheck, passed: str, wrong: list[str], points: float | None) -> Card:
    """The verdict with points, and what comes next. points: the share that the check gave, if it gives one."""
    assert own.cell
    exercise = own.exercise
    earned, all_of_them = own.standing()
    number, parts = own.part
    about = (f", part {number} of {parts}" if parts > 1 else "") + f": {passed}"
    told = f"{earned:g} of {exercise.points:g} point{'s' * (exercise.points != 1)}"
    if points is not None and points < own.cell.points:
        return Card("part", exercise.id, about, parts=tuple(Part("", f"✗ {line}") for line in wrong), points=told)
    following = own.next_exercise() if all_of_them else None
    link = (following.title or following.id, f"{own.file}#cell-id={following.place}") if following else None
    last = "All exercises of this notebook are solved." if all_of_them and not following else ""
    return Card("right", exercise.id, about, last, points=told, link=link, folded=_others(own) if all_of_them else ())


def _others(own: at_hand.OwnCheck) -> tuple[Folded, ...]:
    """The author's answer, and others, for somebody who has found one."""
    others = (Folded(way.about, way.source) for way in own.ways())
    return (Folded(AUTHORS_ANSWER, own.authors_answer), *others)
