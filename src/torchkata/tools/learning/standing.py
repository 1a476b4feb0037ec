"""Where a learner stands: the verdicts remembered in the workbook, exercise by exercise. Nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchkata.base.chapter import Exercise, exercises_of
from torchkata.base.remembering import Remembered, earned, read_verdicts
from torchkata.tools.course import Chapter
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
    return [_stands(exercise, verdicts) for exercise in exercises_of(release.cells)]


def _stands(exercise: Exercise, verdicts: dict[tuple[str, str], Remembered]) -> ExerciseStanding:
    found = [(verdicts.get((exercise.id, check.digest)), check.points) for check in exercise.checks]
    points = round(sum(earned(verdict, full) for verdict, full in found), 2)
    known = [verdict for verdict, _ in found if verdict]
    when = max((verdict.when for verdict in known), default="")
    if points >= exercise.points:
        return ExerciseStanding(exercise, "solved", points, "solved", when)
    tried = points > 0 or any(verdict.state == "wrong" for verdict in known)
    line = next((verdict.line for verdict in known if verdict.line and verdict.state != "solved"), "")
    return ExerciseStanding(exercise, "wrong" if tried else "open", points, line, when)
