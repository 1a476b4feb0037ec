"""What the cells of an exercise came to, and the verdict that follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torchkata.base.chapter import Exercise
from torchkata.tools.learning.cell_runner import CellError, CellResult
from torchkata.tools.learning.choosing import Cell

CELL_TIMEOUT = 30  # seconds for one cell, as in nbgrader_config.py
TOO_LONG = f"stopped after more than {CELL_TIMEOUT} seconds: does a loop never end?"
VERDICTS = ("WrongAnswer", "NotSolvedYet")
INTERRUPTS = ("KeyboardInterrupt", "Interrupted")


@dataclass(frozen=True)
class Verdict:
    """What became of one exercise: points earned, and the verdict in one line.

    Attributes:
        test: the test that failed, as its check cell names it.
        more: the sentences on further wrong items of a prediction exercise.
        details: all that the check cells said, as a notebook shows it.
        is_open: whether there is no answer yet.
    """

    exercise: Exercise
    points: float
    line: str
    test: str = ""
    more: tuple[str, ...] = ()
    details: tuple[str, ...] = field(default=(), compare=False)  # they say which exercise is next
    is_open: bool = False

    @property
    def state(self) -> str:
        """One of remembering.STATES; an exercise that is solved in part is "wrong"."""
        return "solved" if self.solved else "open" if self.is_open else "wrong"

    @property
    def solved(self) -> bool:
        return self.points >= self.exercise.points


@dataclass(frozen=True)
class Outcome:
    """A cell that was to run, and what it came to; `lost`: how it ended Python."""

    cell: Cell
    result: CellResult = field(default_factory=CellResult)
    lost: str = ""

    @property
    def points(self) -> float:
        """The points that a check cell gave; as in nbgrader, a number on its last line is a share of them."""
        full = self.cell.points
        if self.lost or self.result.error or full is None:
            return 0.0
        share = full if self.result.number is None else self.result.number
        return min(share, full) if share >= 0 else 0.0

    @property
    def took_too_long(self) -> bool:
        """Whether it had to be stopped."""
        return self.lost == TOO_LONG or self._error_name in INTERRUPTS

    @property
    def is_open(self) -> bool:
        """Whether a check cell found no answer yet."""
        return self._error_name == "NotSolvedYet"

    @property
    def _error_name(self) -> str:
        return self.result.error.name if self.result.error else ""


def without_answer(exercise: Exercise) -> list[Outcome]:
    """What an exercise's stub and its check cells come to; nothing is run."""
    said = f"{exercise.id}: not solved yet."
    result = CellResult(error=CellError("NotSolvedYet", said, (said,)))
    checks = [Outcome(Cell(check.source, exercise.id, check.points), result) for check in exercise.checks]
    return [Outcome(Cell(exercise.answer, exercise.id)), *checks]


def verdict_of(exercise: Exercise, outcomes: list[Outcome]) -> Verdict:
    checks = [one for one in outcomes if one.cell.exercise == exercise.id and one.cell.is_check]
    if not checks:
        return Verdict(exercise, 0.0, "its answer cell is missing from your workbook.", is_open=True)
    points = round(sum(one.points for one in checks), 2)
    answer = next(one for one in outcomes if one.cell.exercise == exercise.id and not one.cell.is_check)
    lines = [line for one in checks for line in complaints(one)]
    if not points and not any(one.is_open for one in checks) and (failure := _failure(answer)):
        lines.insert(0, failure)
    details = [line for one in (answer, *checks) for line in _details(one)]
    if points >= exercise.points:
        return Verdict(exercise, points, "solved", details=tuple(details))
    items = [line for one in checks if not one.result.error for line in complaints(one)]
    more = items[1:] if items[:1] == lines[:1] else items
    line, is_open = lines[0] if lines else "not solved.", all(one.is_open for one in checks)
    return Verdict(exercise, points, line, _test(checks), tuple(more), tuple(details), is_open)


def _failure(answer: Outcome) -> str:
    """How the answer cell itself stopped, if it did: then its check can only say that something is missing."""
    error = answer.result.error
    if answer.lost or error is None:
        return answer.lost
    return TOO_LONG if error.name in INTERRUPTS else f"its cell stopped with {how_it_stopped(error)}"


def how_it_stopped(error: CellError) -> str:
    """What a cell raised, and in which of its lines: ImportError: cannot import name 'x' (line 2)."""
    message = _first_line(re.sub(r"\([^()]*, line", "(line", error.message))
    told = ": ".join(part for part in (error.name, message) if part)
    places = [found[1] for line in error.lines if (found := re.match(r" *line (\d+), in <module>", line))]
    return f"{told} (line {places[0]})" if places and "(line " not in message else told


def note_on_own_cell(cell: Outcome) -> str:
    """That a cell outside the exercises stopped, and with what; empty where it didn't, or ran for too long."""
    error = cell.result.error
    if cell.cell.exercise or error is None or error.name in INTERRUPTS:
        return ""
    first = next(iter(cell.cell.source.strip().splitlines()), "")
    return (
        f"A cell outside the exercises stopped with {how_it_stopped(error)}: {first[:60]!r}. Answers that need what it "
        "defines fail."
    )


def complaints(check: Outcome) -> list[str]:
    """What a check cell finds wrong: one sentence, or of a prediction exercise one for each wrong item."""
    error = check.result.error
    if check.lost:
        return [check.lost]
    if error is None:
        return re.findall(r"^✗ (.*)$", check.result.printed, re.M)
    if error.name in INTERRUPTS:
        return [TOO_LONG]
    line = _first_line(error.message).removeprefix(f"{check.cell.exercise}: ")
    return [line if error.name in VERDICTS else f"{error.name}: {line}"]


def _test(checks: list[Outcome]) -> str:
    """The first test that failed, from the verdict's heading: "✗ segment-mean, test: an empty segment"."""
    for one in checks:
        if one.result.error and one.result.error.name not in ("NotSolvedYet", *INTERRUPTS):
            heading = (one.result.error.lines or ("",))[0]
            return heading.partition(", ")[2] if heading.startswith("✗ ") else ""
    return ""


def _details(one: Outcome) -> list[str]:
    if one.lost:
        return [one.lost]
    told = one.result.printed.splitlines() if one.cell.is_check else []
    return told + list(one.result.error.lines if one.result.error else ())


def _first_line(message: str) -> str:
    return (message.splitlines() or [""])[0]
