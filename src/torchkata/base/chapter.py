"""The exercises of a chapter, read from the cells of its notebook as plain JSON: of a solution, a release or a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from torchkata.base.layout import without_layout
from torchkata.base.marks import hidden_tests, without_hidden_tests
from torchkata.base.remembering import digest_of
from torchkata.base.shared_helpers import Helper, exercise_named, helpers_in, is_helpers, with_helpers

HEADING = "### Exercise"

Cell = Mapping[str, Any]


def file_name(exercise: str) -> str:
    """The name of an exercise's file, among the sources, the other answers and the tests' answers."""
    return f"{exercise.replace('-', '_')}.py"


@dataclass(frozen=True)
class CheckCell:
    """A check cell: its grade id, its source as it stands in the notebook, and the points that it is worth.

    helpers: the source of its exercise's helpers cell; empty where there is none.
    """

    id: str
    written: str
    points: float
    helpers: str = ""

    @cached_property
    def source(self) -> str:
        """The cell with the helpers that it uses. Raises ValueError for a helpers cell that holds anything else."""
        return with_helpers(self.written, _helpers_in(self.helpers)) if self.helpers else self.written

    @cached_property
    def digest(self) -> str:
        """What tells the cell from others, the same for an author's cell and for its released copy."""
        return digest_of(self.shown)

    @cached_property
    def shown(self) -> str:
        """The cell as it is released, with the helpers that it uses."""
        return without_hidden_tests(self.source)

    @property
    def hidden_tests(self) -> str:
        """Its hidden tests alone, on the lines on which they stand in the source; empty where it has none."""
        return hidden_tests(self.source)


@dataclass(frozen=True)
class Exercise:
    """An exercise of a chapter.

    Attributes:
        id: the grade id of its answer cell.
        title: the heading of its text; empty where it has none.
        place: the id of the cell with that heading.
        answer: the source of its answer cell.
        checks: its check cells, in order.
    """

    id: str
    title: str = ""
    place: str = ""
    answer: str = ""
    checks: tuple[CheckCell, ...] = ()

    @property
    def points(self) -> float:
        return sum((check.points for check in self.checks), 0.0)

    @property
    def check_ids(self) -> tuple[str, ...]:
        """The grade ids of its check cells, in order."""
        return tuple(check.id for check in self.checks)

    def check_of(self, shown: str) -> CheckCell | None:
        """The check cell that a learner's is, by its source without hidden tests and in whatever layout; None for a
        cell that was edited, or is of another release."""
        wanted = without_layout(shown)
        return next((check for check in self.checks if without_layout(check.shown) == wanted), None)


def exercises_of(cells: Iterable[Cell]) -> list[Exercise]:
    """The exercises in these cells, in order: each helpers or check cell belongs to the answer cell before it."""
    found: list[Exercise] = []
    title = place = helpers = ""
    for cell in cells:
        meta, source = nbgraders(cell), "".join(cell["source"])  # in a file, a list of lines
        if cell["cell_type"] == "markdown" and source.startswith(HEADING):
            title, place = source.splitlines()[0].removeprefix("### "), cell.get("id", "")
        elif meta.get("solution"):
            found.append(Exercise(meta["grade_id"], title, place, source))
            helpers = ""
        elif is_helpers(meta):
            helpers = source
        elif meta.get("grade") and found:
            check = CheckCell(meta["grade_id"], source, float(meta["points"]), helpers)
            found[-1] = replace(found[-1], checks=(*found[-1].checks, check))
    return found


def exercise_of(cell: Cell) -> str | None:
    """The id of the exercise that an answer, helpers or check cell belongs to; None for any other cell."""
    meta = nbgraders(cell)
    if not meta:
        return None
    return meta["grade_id"] if meta.get("solution") else exercise_named(meta["grade_id"])


def is_checking(cell: Cell) -> bool:
    """Whether a cell is a check cell, or holds what check cells share: these are the course's, never a learner's."""
    meta = nbgraders(cell)
    return bool(meta.get("grade")) or is_helpers(meta)


def nbgraders(cell: Cell) -> Mapping[str, Any]:
    """What nbgrader notes in a cell's metadata; empty for a cell that belongs to no exercise."""
    return cell["metadata"].get("nbgrader") or {}


@lru_cache(maxsize=32)
def _helpers_in(source: str) -> list[Helper]:
    """Once for all check cells of an exercise."""
    return helpers_in(source)
