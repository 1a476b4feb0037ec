"""What one changed token of a solution earns: the mutants of exercises, and those that their checks accept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from nbformat import NotebookNode

from torchkata.base.chapter import exercise_of
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.mutating import Mutant, mutants_of
from torchkata.tools.source import read_source

WORKER = "torchkata.tools.mutant_worker"


@dataclass(frozen=True)
class Tried:
    """A mutant of an exercise, and what was said of it: None where it earned full points."""

    exercise: str
    mutant: Mutant
    told: str | None


def equivalents(root: Path) -> dict[str, dict[tuple[str, str], str]]:
    """The mutants that are right answers, by exercise: from (was, now) to why."""
    listed = yaml.safe_load((root / "tests" / "mutants.yaml").read_text(encoding="utf-8"))
    return {
        exercise: {(one["was"], one["now"]): one["why"] for one in found} for exercise, found in (listed or {}).items()
    }


@cache
def _cells(chapter: Chapter) -> list[NotebookNode]:
    return list(whole_checks(read_source(chapter).cells))


def mutants_in(chapter: Chapter, only: Sequence[str] = ()) -> dict[str, list[Mutant]]:
    """The mutants of each exercise of a chapter, or of those with these ids.

    Raises CourseError for an id that it lacks.
    """
    solutions = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in _cells(chapter)
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    if unknown := set(only) - set(solutions):
        raise CourseError(f"{chapter.name} has no exercise {min(unknown)}: {', '.join(solutions)}")
    return {exercise: mutants_of(solutions[exercise]) for exercise in only or solutions}


def try_out(chapter: Chapter, mutants: Mapping[str, Sequence[Mutant]]) -> Iterator[Tried]:
    """Run the check cells of these exercises on each of their mutants, in another process.

    Raises CourseError where a solution itself does not earn full points, where the process ends early, and on Windows.
    """
    if not hasattr(os, "fork"):
        raise CourseError("torchkata mutants forks a process for each mutant, which Windows can't: run it on Linux.")
    cells = {exercise: [cell for cell in _cells(chapter) if exercise_of(cell) == exercise] for exercise in mutants}
    order = {
        "setup": next(cell.source for cell in _cells(chapter) if cell.metadata.get("setup")),
        "exercises": [
            {
                "answers": [answer.source, *(one.source for one in mutants[exercise])],
                "checks": [[check.source, check.metadata.nbgrader.points] for check in checks],
            }
            for exercise, (answer, *checks) in cells.items()
        ],
    }
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, _worker(Path(folder)) as worker:
        assert worker.stdin and worker.stdout
        worker.stdin.write(json.dumps(order) + "\n")
        worker.stdin.flush()
        for exercise, found in mutants.items():
            for mutant in (None, *found):
                if not (line := worker.stdout.readline()):
                    raise CourseError(f"{exercise}: the process that tries mutants ended with code {worker.wait()}")
                told = json.loads(line)
                if mutant:
                    yield Tried(exercise, mutant, told)
                elif told is not None:
                    raise CourseError(f"{exercise}: the solution itself does not earn full points: {told}")


def _worker(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", WORKER],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
