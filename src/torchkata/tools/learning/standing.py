"""Where a learner stands: the verdicts remembered in the workbook, exercise by exercise. Nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchkata.base.remembering import Remembered, digest_of, read_verdicts
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.course import Chapter, Exercise, exercise_of, exercises_of
from torchkata.tools.learning.workbook import release_worked_on

if TYPE_CHECKING:
    from nbformat import NotebookNode


@dataclass(frozen=True)
class ExerciseStanding:
    """One exercise: state "solved", "wrong" (or solved in part) or "open" (not solved yet, or never checked).

    points: earned so far. line: the last verdict's sentence. when: of the last check, ISO 8601, "" for never.
    """

    exercise: Exercise
    state: str
    points: float
    line: str = ""
    when: str = ""


def standing(chapter: Chapter) -> list[ExerciseStanding]:
    """Every exercise of the release that the learner works on. Raises CourseError where no release is to be found."""
    return standing_in(release_worked_on(chapter), read_verdicts(chapter.place.workbook))


def standing_in(release: NotebookNode, verdicts: dict[tuple[str, str], Remembered]) -> list[ExerciseStanding]:
    """Every exercise of a release, by the verdicts that are remembered."""
    checks = checks_in(release)
    return [_stands(exercise, checks.get(exercise.id, []), verdicts) for exercise in exercises_of(release)]


def checks_in(release: NotebookNode) -> dict[str, list[tuple[str, float]]]:
    """The check cells of each exercise in a release, in order: digest and points."""
    found: dict[str, list[tuple[str, float]]] = {}
    for cell in whole_checks(release.cells):
        if (exercise := exercise_of(cell)) and cell.metadata.nbgrader.grade:
            found.setdefault(exercise, []).append((digest_of(cell.source), float(cell.metadata.nbgrader.points)))
    return found


def _stands(
    exercise: Exercise, checks: list[tuple[str, float]], verdicts: dict[tuple[str, str], Remembered]
) -> ExerciseStanding:
    found = [(verdicts.get((exercise.id, digest)), full) for digest, full in checks]
    points = round(sum(_points(verdict, full) for verdict, full in found), 2)
    known = [verdict for verdict, _ in found if verdict]
    when = max((verdict.when for verdict in known), default="")
    if points >= exercise.points:
        return ExerciseStanding(exercise, "solved", points, "solved", when)
    tried = points > 0 or any(verdict.state == "wrong" for verdict in known)
    line = next((verdict.line for verdict in known if verdict.line and verdict.state != "solved"), "")
    return ExerciseStanding(exercise, "wrong" if tried else "open", points, line, when)


def _points(verdict: Remembered | None, full: float) -> float:
    if verdict is None or verdict.state != "solved":
        return 0.0
    return full if verdict.points is None else min(max(verdict.points, 0.0), full)
