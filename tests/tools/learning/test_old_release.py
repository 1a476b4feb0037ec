"""Who solved the whole course before its chapters were revised gets today's with all that they wrote."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.notebooks import running
from tests.tools.learning.old_release import OldChapter, old_chapters
from tests.tools.learning.small_course import read
from torchkata.base.chapter import exercise_of, exercises_of
from torchkata.base.marks import authors_version
from torchkata.tools.course import Chapter, course_root, read_notebook
from torchkata.tools.learning.update import Updated, update
from torchkata.tools.learning.workbook import release_of_copy
from torchkata.tools.placing import Place

OLD = {old.name: old for old in old_chapters()}
GONE = {
    "01_backends": ["predict-devices-and-dtypes"],
    "02_tensors_views": ["predict-cuts"],
    "03_gather_scatter": ["predict-gather-scatter"],
    "04_autograd": ["predict-leaves"],
    "05_custom_functions": ["audit-tensor", "interp-table", "predict-function-calls"],
    "06_hooks": ["hook-firing-order"],
    "07_modules_state_dict": ["registered-or-not"],
    "08_amp": ["autocast-dtypes"],
    "09_onnx_export": ["fixed-or-dynamic"],
    "10_multi_gpu": ["who-trains-on-what"],
    "11_training_loop": ["argparse-config", "predict-the-loop"],
}
# answers that are worth less than all points today, and what they get: items are asked that were not
LESS = {"format-limits": 0.2}
REMARK = "\n\nMy remark"


def solved(old: OldChapter) -> NotebookNode:
    """The old release as its learner left it: all solved, a scratch cell below each answer, a remark in each third
    text."""
    made, cells = deepcopy(old.release), []
    for n, cell in enumerate(made.cells):
        cells.append(cell)
        name = exercise_of(cell)
        if name and cell.metadata.nbgrader["solution"]:
            cell.source = old.answers[name]
            cells.append(new_code_cell(f"scratch = '{name}'"))
        elif cell.cell_type == "markdown" and n % 3 == 0:
            cell.source += f"{REMARK} {n}"
    made.cells = [*cells, new_markdown_cell("My notes at the end")]
    return made


# a sample holds the one with other given code and the one whose exercises moved and went
SAMPLE = ("05_custom_functions", "08_amp")
further = pytest.mark.exhaustive("a further chapter of the old release", thorough=True)


@pytest.fixture(params=[name if name in SAMPLE else pytest.param(name, marks=further) for name in OLD])
def old(request: pytest.FixtureRequest) -> OldChapter:
    return OLD[request.param]


@pytest.fixture
def chapter(old: OldChapter, tmp_path: Path) -> Chapter:
    made = Chapter(Place(course_root(), tmp_path / "workbook"), old.name)
    old.put(made, solved(old))
    return made


@pytest.fixture
def done(chapter: Chapter) -> Updated:
    return update(chapter)


def test_all_that_was_written_comes_along(old: OldChapter, chapter: Chapter, done: Updated):
    cells, before = read(chapter).cells, solved(old).cells
    answers = {exercise_of(cell): cell.source for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")}
    own = [cell.source for cell in cells if "nbgrader" not in cell.metadata]
    for name, answer in old.answers.items():
        assert answer in own if name in GONE.get(old.name, []) else answers[name] == answer
    whole = "\n".join(own)
    remarks = [cell.source.partition(REMARK)[2] for cell in before if REMARK in cell.source]
    assert remarks and all(whole.count(f"{REMARK}{rest}\n") == 1 for rest in remarks)
    assert own[-1] == "My notes at the end"
    assert done.answers == len(old.answers) - len(GONE.get(old.name, []))


def test_scratch_cells_stay_below_their_answers(old: OldChapter, chapter: Chapter, done: Updated):
    cells = read(chapter).cells
    for name in old.answers:
        place = next(n for n, cell in enumerate(cells) if cell.source == f"scratch = '{name}'")
        assert cells[place - 1].source == old.answers[name]


def test_the_rest_is_todays_release(chapter: Chapter, done: Updated):
    """Its cells in their order, new exercises as stubs; what a learner sees of the old release is what they changed."""
    release = read_notebook(chapter.release)
    graded = [cell for cell in read(chapter).cells if "nbgrader" in cell.metadata]
    assert [cell.id for cell in graded] == [cell.id for cell in release.cells if "nbgrader" in cell.metadata]
    stubs = {cell.id: cell.source for cell in release.cells}
    known = OLD[chapter.name].answers
    new = [cell for cell in graded if exercise_of(cell) not in known or cell.metadata.nbgrader.grade]
    assert [cell.source for cell in new] == [stubs[cell.id] for cell in new]
    old_texts = {cell.source for cell in OLD[chapter.name].release.cells if cell.source} - set(stubs.values())
    assert not [cell.source for cell in read(chapter).cells if cell.source in old_texts]
    assert update(chapter).state == "current"


def test_what_came_and_what_went_is_said(old: OldChapter, chapter: Chapter, done: Updated):
    told = "\n".join(done.notes)
    for name in GONE.get(old.name, []):
        assert f"{name} is no longer in this chapter. Your answer stays" in told
    come = [one.id for one in exercises_of(read(chapter).cells) if one.id not in old.answers]
    assert ("New, to be solved: " in told) == bool(come) and all(f"{name} (" in told for name in come)
    assert ("what is given has changed" in told) == any(name in LESS for name in old.answers)


def test_answers_are_still_right(old: OldChapter, marks_of: running.MarksOf):
    """Those that are today's solutions are judged by tests/notebooks/test_answers.py."""
    for name, answer in old.answers.items():
        if name in GONE.get(old.name, []) or answer == _todays(old.name, name):
            continue
        full = running.full_points(old.name, name)
        assert marks_of(old.name, name, answer).points == pytest.approx(LESS.get(name, full)), name


def test_without_its_record_a_copy_keeps_as_much(old: OldChapter, chapter: Chapter):
    release_of_copy(chapter).unlink()
    done = update(chapter)
    cells = read(chapter).cells
    answers = {exercise_of(cell): cell.source for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")}
    kept = {name: answer for name, answer in old.answers.items() if name not in GONE.get(old.name, [])}
    assert answers | kept == answers
    texts = [cell.source for cell in cells]
    assert all(old.answers[name] in texts for name in GONE.get(old.name, []))
    assert all(f"scratch = '{name}'" in texts for name in old.answers)
    assert "missing" not in "".join(done.notes)


def _todays(chapter: str, exercise: str) -> str:
    source = running.exercise_cells(chapter, exercise)[0].source
    return authors_version(source)
