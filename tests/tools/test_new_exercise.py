"""A new exercise: what is written, that nothing is overwritten, and that the gates are red until it is filled in."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks import gates
from tests.notebooks.answers import CORNERS
from tests.notebooks.sharing import problems_of_helpers
from torchkata.base.places import MARK
from torchkata.tools.assembling import assembled
from torchkata.tools.course import Chapter, course_root
from torchkata.tools.errors import CourseError
from torchkata.tools.new_exercise import ANSWERS, new_exercise
from torchkata.tools.placing import Place
from torchkata.tools.source import read_source


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """Chapter 03 alone, in a course of its own."""
    own, root = Chapter(Place(tmp_path), "03_gather_scatter"), course_root()
    shutil.copytree(Chapter(Place(root), own.name).source.parent, own.source.parent)
    shutil.copytree(Chapter(Place(root), own.name).release.parent, own.release.parent)
    shutil.copy(root / MARK, tmp_path)
    return own


def exercises(chapter: Chapter) -> list[str]:
    return re.findall(r'^# %% answer="(.*)"$', assembled(chapter).text, re.M)


def test_the_skeleton_has_every_part_and_the_gates_are_red(chapter: Chapter):
    before = exercises(chapter)
    written = new_exercise(chapter, "my-exercise")
    assert exercises(chapter) == [*before, "my-exercise"]
    assert all(re.search(r"\bTODO\b", path.read_text(encoding="utf-8")) for path in written[:2])
    notebook = read_source(chapter)
    assert gates.exercise_form(notebook) == []  # the form is right from the start
    assert gates.waist(notebook) == []
    assert problems_of_helpers(written[0].read_text(encoding="utf-8")) == []
    assert gates.numbering(notebook, 3) == []
    assert gates.points_sum(notebook) == ["the points sum to 22, not 20"]


def test_the_answers_have_the_form_of_answers():
    assert re.findall(r"^# %% (right|wrong): ", ANSWERS, re.M).count("wrong") >= 4
    assert set(re.findall(r"^# corner: (.*)$", ANSWERS, re.M)) <= set(CORNERS)
    assert "# lesson\n" in ANSWERS


def test_it_stands_where_it_is_wanted(chapter: Chapter):
    first, *rest = exercises(chapter)
    new_exercise(chapter, "my-exercise", after=first)
    assert exercises(chapter) == [first, "my-exercise", *rest]
    assert "### Exercise 3.2 · " in (chapter.exercises_folder / "my_exercise.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name, after, words",
    [
        ("My Exercise", None, "is no id"),
        ("3-d", None, "is no id"),
        ("one-hot-scatter", None, "exists. Choose another id"),
        ("my-exercise", "no-such", "has no exercise 'no-such'"),
    ],
)
def test_what_is_in_the_way_is_told_and_nothing_is_written(chapter: Chapter, name: str, after: str, words: str):
    before = {path: path.read_bytes() for path in chapter.root.rglob("*") if path.is_file()}
    with pytest.raises(CourseError, match=words):
        new_exercise(chapter, name, after)
    assert before == {path: path.read_bytes() for path in chapter.root.rglob("*") if path.is_file()}


def test_the_command(chapter: Chapter):
    command = [sys.executable, "-m", "torchkata", "new", "exercise", "03", "my-exercise"]
    told = subprocess.run(command, cwd=chapter.root, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "written: solutions/03_gather_scatter/exercises/my_exercise.py" in told.stdout
    again = subprocess.run(command, cwd=chapter.root, capture_output=True, text=True)
    assert again.returncode == 2 and "Choose another id" in again.stderr
