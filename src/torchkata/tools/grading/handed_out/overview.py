"""What a class made of a chapter: for each exercise how many solved it, and which mistakes were made most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from torchkata.base.chapter import Exercise
from torchkata.tools.grading.records import UNTRIED, ExerciseMark, NotGradable, Record

GROUPS = ("solved", "partly", "wrong", "not tried")


@dataclass(frozen=True)
class ExerciseOverview:
    """One exercise of a class.

    Attributes:
        counts: how many students belong to each of GROUPS; "wrong" includes what was cut off.
        mistakes: the first sentences of verdicts with how many students read them, most frequent first.
    """

    exercise: str
    title: str
    counts: dict[str, int]
    mistakes: tuple[tuple[str, int], ...]

    @property
    def solved(self) -> int:
        return self.counts["solved"]


@dataclass(frozen=True)
class Overview:
    """A chapter of a class: `graded` submissions, `refused` ones that could not be graded, the median of the points
    that count (None where nothing is graded), its exercises in order; `notes` say what is odd about the class's folders
    and its list of students."""

    graded: int
    refused: int
    median: float | None
    of: float
    exercises: tuple[ExerciseOverview, ...]
    notes: tuple[str, ...] = ()

    @property
    def hardest(self) -> ExerciseOverview | None:
        """The exercise that the fewest solved, of those that somebody tried and did not solve."""
        tried = [one for one in self.exercises if one.counts["partly"] or one.counts["wrong"]]
        return min(tried, key=lambda one: one.solved, default=None)


def overview_of(
    results: Iterable[Record | NotGradable], exercises: Sequence[Exercise], notes: Sequence[str] = ()
) -> Overview:
    """Count what a class did in these exercises of a chapter."""
    counts: dict[str, Counter[str]] = {exercise.id: Counter() for exercise in exercises}
    sentences: dict[str, Counter[str]] = {exercise.id: Counter() for exercise in exercises}
    points, refused = [], 0
    for result in results:
        if isinstance(result, NotGradable):
            refused += 1
            continue
        points.append(result.final_points)
        for mark in result.marks:
            if mark.exercise in counts:
                counts[mark.exercise][_group(mark)] += 1
                sentences[mark.exercise].update(_mistake(mark))
    rows = tuple(_row(exercise, counts[exercise.id], sentences[exercise.id]) for exercise in exercises)
    total = sum(exercise.points for exercise in exercises)
    return Overview(len(points), refused, median(points) if points else None, total, rows, tuple(notes))


def _row(exercise: Exercise, counts: Counter[str], sentences: Counter[str]) -> ExerciseOverview:
    mistakes = sorted(sentences.items(), key=lambda item: (-item[1], item[0]))
    return ExerciseOverview(exercise.id, exercise.title, {name: counts[name] for name in GROUPS}, tuple(mistakes))


def _group(mark: ExerciseMark) -> str:
    if mark.state in ("solved", "partly"):
        return mark.state
    return "not tried" if mark.state in UNTRIED else "wrong"


def _mistake(mark: ExerciseMark) -> list[str]:
    if _group(mark) not in ("partly", "wrong"):
        return []
    return [mark.verdict.partition("\n")[0] or mark.state]
