"""An answer gets the same points from `torchkata check` and from its check cells in a learner's own workbook as its
file in tests/answers says; test_answers.py and test_parity.py hold the same of one process and of `torchkata grade`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import running
from tests.notebooks.answers import Answer, answers_of
from tests.notebooks.test_answers import EXERCISES
from torchkata.base.remembering import KEPT, forget
from torchkata.tools.course import SIDE_NOTEBOOKS, Chapter, SideNotebook, course_root, read_notebook
from torchkata.tools.learning.cell_runner import CellRunner
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.choosing import Cell, checks_of
from torchkata.tools.learning.outcomes import Outcome, verdict_of
from torchkata.tools.learning.standing import standing
from torchkata.tools.placing import Place

PATIENCE = 300.0  # seconds for a cell, on a machine with much else to do
KEEP_NAMES = "kept_names = {*globals(), 'kept_names', 'name'}"
DROP_NAMES = "for name in set(globals()) - kept_names:\n    del globals()[name]"  # of the answer before
ALWAYS = "03_gather_scatter"
a_further_chapter = pytest.mark.exhaustive("a further chapter in torchkata check", thorough=True)
a_further_one = pytest.mark.exhaustive("a further answer in torchkata check")


class Workbook:
    """A learner's workbook of one chapter, with the solutions beside it, and a session in which its cells run."""

    def __init__(self, root: Path, name: str):
        kind = SideNotebook if name in SIDE_NOTEBOOKS else Chapter
        self.chapter: Chapter = kind(Place(root), name)
        for tree in ("solutions", "notebooks"):
            shutil.copytree(course_root() / tree / name, root / tree / name)
        self.folder = root / "workbook"
        (self.folder / KEPT).mkdir(parents=True)
        self.chapter.workbook.parent.mkdir(exist_ok=True)
        self.runner = CellRunner(self.chapter.workbook.parent)
        for source in (running._setup(name), KEEP_NAMES):
            assert self.runner.run(source, PATIENCE).error is None

    @cached_property
    def by_author(self) -> dict[str, list[Cell]]:
        """The check cells that `torchkata check` runs."""
        return checks_of(self.chapter.master)

    @cached_property
    def by_learner(self) -> dict[str, list[Cell]]:
        """The check cells that stand in the learner's notebook: without hidden tests."""
        return checks_of(read_notebook(self.chapter.release))

    def checked(self, exercise: str, answer: str) -> float:
        """The points by `torchkata check`."""
        cells = [Cell(answer, exercise), *self.by_author[exercise]]
        known = next(one for one in self.chapter.exercises if one.id == exercise)
        return verdict_of(known, self._run(cells)).points

    def told(self, exercise: str, answer: str) -> float:
        """The points that the notebook tells, by the verdicts that its check cells leave."""
        forget(self.folder, exercise)
        self._run([Cell(answer, exercise), *self.by_learner[exercise]])
        return next(one.points for one in standing(self.chapter) if one.exercise.id == exercise)

    def _run(self, cells: list[Cell]) -> list[Outcome]:
        self.runner.run(DROP_NAMES, PATIENCE)
        return [Outcome(cell, self.runner.run(cell.source, PATIENCE)) for cell in cells]


@pytest.fixture(scope="module")
def workbook_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Workbook]]:
    """The workbook of a chapter; one at a time."""
    open_one: list[Workbook] = []

    def workbook(name: str) -> Workbook:
        if not open_one or open_one[0].chapter.name != name:
            for other in open_one:
                other.runner.end()
            open_one[:] = [Workbook(tmp_path_factory.mktemp(name), name)]
        return open_one[0]

    yield workbook
    for one in open_one:
        one.runner.end()


def cases() -> Iterator[pytest.ParameterSet]:
    """All answers; of every other exercise a right one always, of those between one that makes its mistake."""
    for number, (chapter, exercise) in enumerate(EXERCISES):
        answers = answers_of(chapter, exercise)
        always = next(one for one in answers if (one.lesson if number % 2 else one.kind == "right"))
        for answer in answers:
            name = f"{chapter[:2]}-{exercise}-{answer.kind}-{answer.name}"
            marks = a_further_one if answer is not always else () if chapter == ALWAYS else a_further_chapter
            yield pytest.param(chapter, exercise, answer, id=name, marks=marks)


def test_an_answer_that_binds_a_demos_name_anew(workbook_of: Callable[[str], Workbook]):
    chapter = workbook_of(ALWAYS).chapter
    notebook = read_notebook(chapter.release)
    solution, _ = running.exercise_cells(chapter.name, "segment-mean")
    answer = next(cell for cell in notebook.cells if cell.id == "segment-mean")
    answer.source = f"votes = votes * 1\n\n{solution.source}"
    nbformat.write(notebook, chapter.workbook)
    [verdict] = check_chapter(chapter, {"segment-mean"})
    assert verdict.solved, verdict.line


@pytest.mark.parametrize("chapter, exercise, answer", list(cases()))
def test_the_points_are_those_of_the_answers_file(
    workbook_of: Callable[[str], Workbook], chapter: str, exercise: str, answer: Answer
):
    full = running.full_points(chapter, exercise)
    earned = answer.earns[0] if answer.earns else full
    workbook = workbook_of(chapter)
    points = {"check": workbook.checked(exercise, answer.source), "notebook": workbook.told(exercise, answer.source)}
    assert points == pytest.approx({"check": earned, "notebook": earned}, abs=0.01)
