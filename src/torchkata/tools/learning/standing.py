"""Where a learner stands: the verdicts remembered in the workbook, exercise by exercise. Nothing is run."""

from __future__ import annotations

from dataclasses import dataclass

import nbformat
from nbformat import NotebookNode

from torchkata.remembering import Remembered, digest_of, read_verdicts
from torchkata.tools.course import Chapter, CourseError, Exercise, exercise_of, exercises_of
from torchkata.tools.learning.workbook import release_of_copy, workbook_of


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
    release = _release(chapter)
    verdicts = read_verdicts(workbook_of(chapter.root))
    return [_stands(exercise, _checks(release, exercise.id), verdicts) for exercise in exercises_of(release)]


def checks_of_copy(chapter: Chapter, exercise: str) -> list[tuple[str, float]]:
    """The check cells of an exercise in the release that the learner works on, in order: digest and points."""
    return _checks(_release(chapter), exercise)


def _checks(release: NotebookNode, exercise: str) -> list[tuple[str, float]]:
    return [
        (digest_of(cell.source), float(cell.metadata.nbgrader.points))
        for cell in release.cells
        if exercise_of(cell) == exercise and cell.metadata.nbgrader.grade
    ]


def _release(chapter: Chapter) -> NotebookNode:
    """Read without nbformat's validation, which takes ten times as long."""
    copied_from = release_of_copy(chapter)
    path = copied_from if copied_from.exists() else chapter.release
    try:
        return nbformat.v4.reads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"The release of {chapter.name} cannot be read: {error}.") from None


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
