"""The course of a learner's own workbook: a check cell's hidden tests, its points, and what comes next.

Read from the executed solutions as they lie on the disk: nothing here is known to a copy that lies in no
workbook, as a student's in a class does.
"""

from __future__ import annotations

import json
import linecache
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torchkata.base.chapter import CheckCell, Exercise, exercises_of
from torchkata.base.editor import folder_here, workbook_here
from torchkata.base.marks import authors_version
from torchkata.base.places import solutions_for
from torchkata.base.remembering import earned, read_verdict
from torchkata.base.ways import Way, ways_file, ways_of

WORKBOOK = workbook_here()  # asked for once, before a learner's code can change the folder
_HERE = folder_here().name if WORKBOOK else ""


@dataclass(frozen=True)
class OwnCheck:
    """A check cell that runs in its learner's own workbook, with the course at hand.

    solution: the chapter's executed solution. cell: as its author wrote it; None for one that was edited, or is of
    another release than the course at hand.
    """

    workbook: Path
    solution: Path
    chapter: list[Exercise]
    exercise: Exercise
    cell: CheckCell | None

    @property
    def file(self) -> str:
        """The name of the chapter's notebook."""
        return self.solution.name

    @property
    def authors_answer(self) -> str:
        return authors_version(self.exercise.answer)

    def ways(self) -> list[Way]:
        """Other answers that are shown once the exercise is solved."""
        return ways_of(ways_file(self.solution.parent, self.exercise.id))

    @property
    def part(self) -> tuple[int, int]:
        """Which of the exercise's check cells it is, and of how many."""
        return self.exercise.checks.index(self.cell) + 1, len(self.exercise.checks)

    def standing(self) -> tuple[float, bool]:
        """The points earned in its exercise, and whether these are all, by the verdicts remembered."""
        return _standing(self.exercise, self.workbook)

    def next_exercise(self) -> Exercise | None:
        """The next one of the chapter that is not solved, after this one, else from the beginning."""
        place = self.chapter.index(self.exercise)
        others = self.chapter[place + 1 :] + self.chapter[:place]
        return next((one for one in others if not _standing(one, self.workbook)[1]), None)


def source_of(file: str) -> str:
    """The source of the cell that runs under this file name."""
    return "".join(linecache.getlines(file))


def own_check(exercise: str, shown: str) -> OwnCheck | None:
    """The check cell of an exercise that runs in its learner's own workbook, by its source without hidden tests; None
    elsewhere, and where the course came without solutions."""
    folder = solutions_for(WORKBOOK) if WORKBOOK else None
    path = _notebook_with(folder, exercise) if folder else None
    if not (WORKBOOK and path):
        return None
    try:
        chapter = _exercises(path, path.stat().st_mtime_ns)
        found = next((one for one in chapter if one.id == exercise), None)
        return OwnCheck(WORKBOOK, path, chapter, found, found.check_of(shown)) if found else None
    except (OSError, ValueError):  # the file has gone, or its helpers can't be read
        return None


def standing_of(exercise: str) -> bool:
    """Whether an exercise is solved in the learner's own workbook, as far as the course at hand can tell."""
    folder = solutions_for(WORKBOOK) if WORKBOOK else None
    path = _notebook_with(folder, exercise) if folder else None
    if not (WORKBOOK and path):
        return False
    found = [one for one in _exercises(path, path.stat().st_mtime_ns) if one.id == exercise]
    return bool(found) and _standing(found[0], WORKBOOK)[1]


def solution_of(solutions: Path, exercise: str) -> str | None:
    """The author's answer to an exercise, without marks and given code; None where the solutions don't hold it."""
    if (path := _notebook_with(solutions, exercise)) is None:
        return None
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return next((authors_version(one.answer) for one in exercises_of(cells) if one.id == exercise), None)


def _standing(exercise: Exercise, workbook: Path) -> tuple[float, bool]:
    """The points earned, and whether these are all, by the verdicts remembered."""
    found = [(read_verdict(workbook, exercise.id, check.digest), check.points) for check in exercise.checks]
    points = round(sum(earned(verdict, full) for verdict, full in found), 2)
    return points, points >= exercise.points


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
        return exercises_of(json.loads(path.read_text(encoding="utf-8"))["cells"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
