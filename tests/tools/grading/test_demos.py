"""Answers that use what the chapter's own demos bind, as they can in a notebook: the same marks as from nbgrader."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest

from tests.tools.grading.sandbox.test_boundary import WHY_NOT
from tests.tools.grading.test_parity import nbgraders_points
from tests.tools.rebinding import REBINDING
from tests.tools.test_nbgrader import nbgrader
from torchkata.base.places import MARK
from torchkata.tools.course import Chapter, course_root, read_notebook
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.grader import grader_of
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import Record
from torchkata.tools.placing import Place
from torchkata.tools.release import released
from torchkata.tools.source import notebook_of

NAME = "97_demos"
EXERCISES = ("halve", "double", "triple")
SOURCE = """# %% [markdown]
# # Demos

# %% setup=true
import torch

from torchkata.verdicts import check, observe

# %%
factor = 1
box = lambda: None

# %%
def times(x, number):
    return x * number * factor

# %%
factor = factor + 1

# %%
print("binds nothing, and must not be run"); 1 / 0
""" + "".join(
    f'''
# %% answer="{name}"
def {name}(x):
    ### BEGIN SOLUTION
    return {value} * x
    ### END SOLUTION

# %% check="{name}" points=2
"""A number."""
with check("{name}") as test:
    test("four")
    observe({name}, 4.0).returns({value} * 4.0)
'''
    + ("\n# %%\nfactor = 5\n" if name == "double" else "")
    for name, value in zip(EXERCISES, (0.5, 2, 3), strict=True)
)
RIGHT = {name: f"def {name}(x): return {value} * x" for name, value in zip(EXERCISES, (0.5, 2, 3), strict=True)}
AWAITED = "import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x\nnumber = await later(2.0)"
HALF = "def halve(x): return x / number"
# answers by exercise; under "own" a cell that the learner added before the first answer
CLASS: dict[str, dict[str, str]] = {
    "takes-demos-names": {  # factor is 2 at first, 5 for the last
        "halve": "half = factor / 4\ndef halve(x): return half * x",
        "double": "def double(x): return times(x, 1)",
        "triple": "def triple(x): return factor * x - 2 * x",
    },
    "through-an-own-cell": RIGHT
    | {"own": f"{AWAITED}\ndef twice(x): return times(x, 1)", "halve": HALF, "double": "double = twice"},
    "own-names-win": RIGHT
    | {
        "own": "factor += 1\ndef times(x, n): return n * x",
        "double": "def double(x): return times(x, 2) if factor == 3 else None",
    },
    **{
        f"rebinds-{name}": RIGHT | {"halve": f"{source}\ndef halve(x): return factor / 4 * x"}
        for name, source in REBINDING.items()
    },
    "no-such-name": RIGHT | {"double": "def double(x): return thrice(x)"},
}


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    """A course with the chapter, in which the whole class has handed in."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(course_root() / MARK, root)
    chapter = Chapter(Place(root), NAME)
    solution = nbformat.writes(notebook_of(SOURCE, "demos.py"))
    for path, text in ((chapter.solution, solution), (chapter.release, released(chapter, solution))):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    for student, answers in CLASS.items():
        hand_in(chapter, student, answers)
    return chapter


def hand_in(chapter: Chapter, student: str, answers: dict[str, str]) -> None:
    notebook = read_notebook(chapter.release)
    for place, cell in reversed(list(enumerate(notebook.cells))):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(grade_id, cell.source)
        if grade_id == EXERCISES[0] and "own" in answers:
            notebook.cells.insert(place, nbformat.v4.new_code_cell(answers["own"]))
    path = chapter.root / "submitted" / student / NAME / chapter.release.name
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


@pytest.fixture(scope="module")
def records(chapter: Chapter) -> dict[str, Record]:
    grader = grader_of(chapter, sandboxed=WHY_NOT is None)
    written = Results(grade_chapter(chapter, grader, sandboxed=WHY_NOT is None).folder).all()
    return {one.student: one for one in written if isinstance(one, Record)}


def test_names_of_demos_are_there(records: dict[str, Record]):
    points = {name: record.points for name, record in records.items()}
    assert points == dict.fromkeys(CLASS, 6.0) | {"no-such-name": 4.0}, list(records.values())


@pytest.mark.exhaustive("demos graded by nbgrader itself", thorough=True)
def test_the_marks_are_nbgraders(chapter: Chapter, records: dict[str, Record], tmp_path: Path):
    ours = {name: {mark.exercise: mark.points for mark in record.marks} for name, record in records.items()}
    another = Chapter(Place(tmp_path / "course"), NAME)
    graded = shutil.ignore_patterns("autograded", "gradebook.db")
    shutil.copytree(chapter.root, another.root, ignore=graded)
    for command in ("generate_assignment", "autograde"):
        said = nbgrader(another.root, command, NAME, "--force")
        assert said.returncode == 0, said.stderr
    assert ours == {name: nbgraders_points(another.root, another, name) for name in CLASS}


def test_nobody_is_noted_for_it(records: dict[str, Record]):
    assert not [note for record in records.values() for note in record.notes]


def test_demos_do_not_stand_in_the_graded_notebook(chapter: Chapter, records: dict[str, Record]):
    text = (chapter.root / "autograded" / "takes-demos-names" / NAME / "demos.ipynb").read_text()
    assert "factor + 1" not in text and "times(x, 1)" in text
