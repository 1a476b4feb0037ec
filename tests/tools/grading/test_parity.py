"""The same answer gets the same points from the referee, from its check cells in one process, and from nbgrader."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from tests.notebooks import running
from tests.notebooks.answers import Answer, answers_of
from tests.notebooks.test_answers import CHAPTERS, EXERCISES, SLOW_CHAPTERS
from tests.tools.test_nbgrader import nbgrader
from torchkata.base.places import MARK
from torchkata.tools.course import SIDE_NOTEBOOKS, Chapter, read_notebook
from torchkata.tools.grading.chapter import MasterChapter
from torchkata.tools.grading.records import ExerciseMark, Record, Submission, SubmittedCell
from torchkata.tools.grading.referee import grade
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.grading.sandbox.session import Sandbox
from torchkata.tools.placing import here

ALL = "TORCHKATA_FULL_PARITY" in os.environ  # compare all answers with nbgrader, not a sample: `make bench`
SAMPLE = 3  # submissions of each chapter
ALWAYS = "03_gather_scatter"  # in the sandbox, in a sample too
# by place, the answers to each exercise there: the solution, the stub and the mistake that it is about
FIRST = (0, 1, 2)  # in that chapter; all stubs end in the same way
FEW = (0, 2)
FEWER = (0,)  # in chapters whose checks export, start ranks or compile
ADDRESSES, NUMBERS = re.compile(r"\b0x[0-9a-f]+"), re.compile(r"\d+")
BY_CHANCE = ("peak-ledger",)  # a wrong answer counts by addresses, and chance decides which ones are used again
another_chapter = pytest.mark.exhaustive("a further chapter in the sandbox of torchkata grade", thorough=True)
in_the_sandbox = pytest.mark.exhaustive("a further answer in the sandbox of torchkata grade")
by_nbgrader = pytest.mark.exhaustive("a further chapter graded by nbgrader itself")
one_by_nbgrader = pytest.mark.exhaustive("a chapter graded by nbgrader itself", thorough=True)
# side notebooks are not handed in
GRADED = [(chapter, exercise) for chapter, exercise in EXERCISES if chapter not in SIDE_NOTEBOOKS]


def behind_the_boundary(test: Callable) -> Callable:
    no_linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox for submissions needs Linux")
    no_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap")
    return no_linux(no_bwrap(test))


SOLUTION, STUB = Answer("right", "the solution", ""), Answer("wrong", "the stub", "")


@cache
def all_answers(chapter: str, exercise: str) -> list[Answer]:
    """The solution, the stub, then right and wrong answers, those first that make the exercise's mistake."""
    solution = running.exercise_cells(chapter, exercise)[0].source
    stub = running.stub(chapter, exercise)
    return [replace(SOLUTION, source=solution), replace(STUB, source=stub), *_lessons_first(chapter, exercise)]


def _lessons_first(chapter: str, exercise: str) -> list[Answer]:
    return sorted(answers_of(chapter, exercise), key=lambda answer: not answer.lesson)


# ---------------------------------------------------------------- the referee


class Referee:
    """Grades the answers of a chapter, with one sandbox. The k-th answers of all exercises are one submission."""

    def __init__(self, chapter: str):
        self.chapter = chapter
        self.master = MasterChapter.of(Chapter(here(), chapter))
        self.sandbox = Sandbox(self.master.setup, Limits(submission_seconds=3600))
        self.record = cache(self._record)

    def mark(self, exercise: str, place: int) -> ExerciseMark:
        record = self.record(place)
        assert not record.notes
        return next(mark for mark in record.marks if mark.exercise == exercise)

    def _record(self, place: int) -> Record:
        found = {exercise: all_answers(name, exercise) for name, exercise in EXERCISES if name == self.chapter}
        cells = [
            SubmittedCell(f"answer-{exercise}", exercise, answers[place].source)
            for exercise, answers in found.items()
            if place < len(answers)
        ]
        return grade(Submission("ada", self.chapter, cells), self.master, self.sandbox)


@pytest.fixture(scope="module")
def referee_of() -> Iterator[Callable[[str], Referee]]:
    """The referee of a chapter; each is started once."""
    with ExitStack() as running_ones:

        @cache
        def started(chapter: str) -> Referee:
            one = Referee(chapter)
            running_ones.enter_context(one.sandbox)
            return one

        yield started


def _marks(chapter: str, place: int) -> tuple[pytest.MarkDecorator, ...]:
    if place not in (FIRST if chapter == ALWAYS else FEWER if chapter in SLOW_CHAPTERS else FEW):
        return (in_the_sandbox,)
    return () if chapter == ALWAYS else (another_chapter,)


@behind_the_boundary
@pytest.mark.parametrize(
    "chapter, exercise, place",
    [
        pytest.param(
            chapter,
            exercise,
            place,
            id=f"{chapter[:2]}-{exercise}-{answer.kind}-{answer.name}",
            marks=_marks(chapter, place),
        )
        for chapter, exercise in GRADED
        for place, answer in enumerate([SOLUTION, STUB, *_lessons_first(chapter, exercise)])
    ],
)
def test_referee(
    referee_of: Callable[[str], Referee],
    marks_of: running.MarksOf,
    chapter: str,
    exercise: str,
    place: int,
):
    mark = referee_of(chapter).mark(exercise, place)
    here = marks_of(chapter, exercise, all_answers(chapter, exercise)[place].source)
    assert mark.points == pytest.approx(here.points, abs=1e-3), f"{mark.verdict}\n\nin one process:\n{here.text}"
    assert mark.state in (("solved",) if mark.points == mark.of else ("wrong", "partly", "not solved"))
    if mark.state != "solved":
        first_line = mark.verdict.split("\n")[0]
        by_chance = NUMBERS if exercise in BY_CHANCE else ADDRESSES
        assert by_chance.sub("…", first_line) in by_chance.sub("…", here.text)


# ---------------------------------------------------------------- nbgrader


def packed(chapter: str) -> dict[str, dict[str, str]]:
    """Submissions by student, each with an answer to every exercise; together they hold all answers."""
    answers = {exercise: all_answers(chapter, exercise) for name, exercise in EXERCISES if name == chapter}
    number = max(map(len, answers.values()))
    chosen = range(number) if ALL else [round(k * (number - 1) / (SAMPLE - 1)) for k in range(SAMPLE)]
    return {
        f"student{k:02d}": {exercise: found[k % len(found)].source for exercise, found in answers.items()}
        for k in chosen
    }


def hand_in(root: Path, chapter: Chapter, student: str, answers: dict[str, str]) -> None:
    """Hand in the answers; without the chapter's demos, which nbgrader would run each time."""
    notebook = read_notebook(chapter.release)
    setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
    notebook.cells = [setup, *(cell for cell in notebook.cells if "nbgrader" in cell.metadata)]
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(grade_id, cell.source)
    folder = root / "submitted" / student / chapter.name
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / chapter.release.name)


def nbgraders_points(root: Path, chapter: Chapter, student: str) -> dict[str, float]:
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "torchkata") as book:
        grades = book.find_submission_notebook(chapter.topic, chapter.name, student).grades
        points = {one.name: one.auto_score for one in grades}
    return {exercise.id: sum(points[check] for check in exercise.check_ids) for exercise in chapter.exercises}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=one_by_nbgrader if name == "03_gather_scatter" else by_nbgrader)
        for name in CHAPTERS
        if name not in SIDE_NOTEBOOKS
    ],
)
def test_nbgrader(name: str, tmp_path: Path, marks_of: running.MarksOf):
    chapter = Chapter(here(), name)
    shutil.copy(chapter.root / MARK, tmp_path)
    shutil.copytree(chapter.solution.parent, tmp_path / "solutions" / name)
    submissions = packed(name)
    for student, answers in submissions.items():
        hand_in(tmp_path, chapter, student, answers)
    for command in ("generate_assignment", "autograde"):
        said = nbgrader(tmp_path, command, name)
        assert said.returncode == 0, said.stderr
    for student, answers in submissions.items():
        points = {exercise: marks_of(name, exercise, source).points for exercise, source in answers.items()}
        assert nbgraders_points(tmp_path, chapter, student) == pytest.approx(points, abs=1e-3), student
