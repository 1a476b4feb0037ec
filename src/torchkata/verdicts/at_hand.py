"""The course of a learner's own workbook: a check cell's hidden tests, its points, and what comes next.

Read from the executed solutions as they lie on the disk: nothing here is known to a copy that lies in no
workbook, as a student's in a class does.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torchkata.base.marks import authors_version, hidden_tests, without_hidden_tests
from torchkata.base.places import solutions_for, workbook_here
from torchkata.base.remembering import Remembered, digest_of, read_verdict
from torchkata.base.shared_helpers import whole_checks

WORKBOOK = workbook_here()  # asked for once, before a learner's code can change the folder
_HERE = Path.cwd().name if WORKBOOK else ""


@dataclass(frozen=True)
class CheckCell:
    """One check cell as its author wrote it; digest: of its released source."""

    source: str
    digest: str
    points: float

    @property
    def hidden_tests(self) -> str:
        """Its hidden tests alone, on the lines on which they stand in the cell; empty where it has none."""
        return hidden_tests(self.source)


@dataclass(frozen=True)
class Exercise:
    """An exercise of a chapter; place: the id of the cell with its text, file: the notebook's name."""

    id: str
    title: str
    place: str
    file: str
    checks: tuple[CheckCell, ...]

    @property
    def points(self) -> float:
        return sum(check.points for check in self.checks)

    def check_of(self, digest: str) -> CheckCell | None:
        """The check cell whose released source has this digest; None for a cell that was edited, or is of another
        release."""
        return next((check for check in self.checks if check.digest == digest), None)

    def standing(self, workbook: Path) -> tuple[float, bool]:
        """The points earned, and whether these are all, by the verdicts remembered."""
        found = [(read_verdict(workbook, self.id, check.digest), check.points) for check in self.checks]
        points = round(sum(_earned(verdict, full) for verdict, full in found), 2)
        return points, points >= self.points


@dataclass(frozen=True)
class OwnCheck:
    """A check cell that runs in its learner's own workbook, with the course at hand.

    cell: as its author wrote it; None for one that was edited, or is of another release than the course at hand.
    """

    workbook: Path
    chapter: list[Exercise]
    exercise: Exercise
    cell: CheckCell | None

    @property
    def part(self) -> tuple[int, int]:
        """Which of the exercise's check cells it is, and of how many."""
        return self.exercise.checks.index(self.cell) + 1, len(self.exercise.checks)

    def next_exercise(self) -> Exercise | None:
        """The next one of the chapter that is not solved, after this one, else from the beginning."""
        place = self.chapter.index(self.exercise)
        others = self.chapter[place + 1 :] + self.chapter[:place]
        return next((one for one in others if not one.standing(self.workbook)[1]), None)


def source_of(file: str) -> str:
    """The source of the cell that runs under this file name."""
    return "".join(linecache.getlines(file))


def own_check(exercise: str, digest: str) -> OwnCheck | None:
    """The check cell of an exercise that runs in its learner's own workbook; None elsewhere, and where the course
    came without solutions."""
    folder = solutions_for(WORKBOOK) if WORKBOOK else None
    path = _notebook_with(folder, exercise) if folder else None
    if not (WORKBOOK and path):
        return None
    try:
        chapter = _exercises(path, path.stat().st_mtime_ns)
    except OSError:
        return None
    found = next((one for one in chapter if one.id == exercise), None)
    return OwnCheck(WORKBOOK, chapter, found, found.check_of(digest)) if found else None


def standing_of(exercise: str) -> bool:
    """Whether an exercise is solved in the learner's own workbook, as far as the course at hand can tell."""
    folder = solutions_for(WORKBOOK) if WORKBOOK else None
    path = _notebook_with(folder, exercise) if folder else None
    if not (WORKBOOK and path):
        return False
    found = [one for one in _exercises(path, path.stat().st_mtime_ns) if one.id == exercise]
    return bool(found) and found[0].standing(WORKBOOK)[1]


def solution_of(solutions: Path, exercise: str) -> str | None:
    """The author's answer to an exercise, without marks and given code; None where the solutions don't hold it."""
    if (path := _notebook_with(solutions, exercise)) is None:
        return None
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("solution") and meta.get("grade_id") == exercise:
            return authors_version("".join(cell["source"]))
    return None


def _earned(verdict: Remembered | None, full: float) -> float:
    if verdict is None or verdict.state != "solved":
        return 0.0
    return full if verdict.points is None else min(max(verdict.points, 0.0), full)


@lru_cache(maxsize=128)
def _notebook_with(solutions: Path, exercise: str) -> Path | None:
    """The solution that holds an exercise; that of the chapter whose folder this is is looked at first."""
    for path in sorted(solutions.glob("*/*.ipynb"), key=lambda path: (path.parent.name != _HERE, path)):
        with suppress(OSError, ValueError):
            if f'"grade_id": "{exercise}"' in path.read_text(encoding="utf-8"):
                return path
    return None


@lru_cache(maxsize=32)
def _exercises(path: Path, saved: int) -> list[Exercise]:
    """The exercises of a solution; none for a file that is no notebook."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return list(_found_in(whole_checks(cells), path.name))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _found_in(cells: list[dict], file: str) -> Iterator[Exercise]:
    text: dict = {}
    found: dict = {}
    for cell in cells:
        meta = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "markdown":
            text = cell
        elif meta.get("solution"):
            if found:
                yield Exercise(**found)
            place = text.get("id", "")
            found = {
                "id": meta["grade_id"],
                "title": _title(text) or meta["grade_id"],
                "place": place,
                "file": file,
                "checks": (),
            }
        elif meta.get("grade") and found:
            source = "".join(cell["source"])
            check = CheckCell(source, digest_of(without_hidden_tests(source)), float(meta["points"]))
            found["checks"] = (*found["checks"], check)
    if found:
        yield Exercise(**found)


def _title(text: dict) -> str:
    first = "".join(text.get("source", "")).partition("\n")[0]
    return first.removeprefix("### ") if first.startswith("### Exercise") else ""
