"""`torchkata reset` and `torchkata solution`: one exercise, found by id or number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from tests.tools.learning.small_course import SOURCE, digests, learner_writes, make_course, publish
from torchkata.base.remembering import Remembered, remember
from torchkata.base.ways import ways_file
from torchkata.cli import app
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.exercises import find_exercise, reset, solution
from torchkata.tools.learning.standing import standing
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place, here

TASK = '# %% [markdown]\n# ### Exercise 98.1 · Twice\n# Twice a number.\n\n# %% answer="twice"'


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    made = make_course(tmp_path)
    publish(made, SOURCE.replace('# %% answer="twice"', TASK))
    fill_workbook(Place(tmp_path))
    return made


def found(chapter: Chapter, word: str):
    return find_exercise(word, chapter.place)


def solved(chapter: Chapter, exercise: str) -> None:
    for digest in digests(chapter, exercise):
        remember(chapter.root / "workbook", Remembered(exercise, digest, "solved"))


def test_an_exercise_is_found_by_id_and_by_number(chapter: Chapter):
    assert found(chapter, "twice")[1].id == found(chapter, "98.1")[1].id == "twice"
    with pytest.raises(CourseError, match=r"no exercise 'twise'\. Did you mean twice"):
        found(chapter, "twise")
    for spelled in ("98.1 ", "TWICE", "Exercise 98.1"):
        assert found(chapter, spelled)[1].id == "twice"
    for word in ("98.11", "98.", "98", "", " "):
        with pytest.raises(CourseError, match="There is no exercise"):
            found(chapter, word)


def test_a_chapter_that_cannot_be_read_does_not_hide_the_others(chapter: Chapter):
    other = Chapter(chapter.place, "99_others")
    publish(other, SOURCE)
    other.release.write_text("{")
    assert found(chapter, "98.1")[1].id == "twice"


def test_exercises_of_the_older_and_of_the_newest_release_are_found(chapter: Chapter):
    chapter.release.write_text(chapter.release.read_text().replace("twice", "renamed"))
    assert found(chapter, "twice")[1].id == "twice" and found(chapter, "renamed")[1].id == "renamed"
    assert not reset(*found(chapter, "twice"))
    with pytest.raises(CourseError, match="no answer cell of renamed"):
        reset(*found(chapter, "renamed"))


def test_a_solution_of_another_release_is_told(chapter: Chapter):
    chapter.solution.write_text(chapter.release.read_text().replace("twice", "renamed"))
    with pytest.raises(CourseError, match="holds no solution of twice"):
        solution(*found(chapter, "twice"), peek=True)


def test_every_exercise_of_the_course_has_an_id_and_a_number_of_its_own():
    known = [exercise for chapter in chapters(here()) for exercise in chapter.exercises]
    numbers = {exercise.title.split()[1]: exercise.id for exercise in known}
    assert len(numbers) == len({exercise.id for exercise in known}) == len(known)
    for number, exercise in list(numbers.items())[:: len(numbers) // 4]:
        assert find_exercise(number, here())[1].id == find_exercise(exercise, here())[1].id == exercise


def test_reset_gives_the_stub_back_and_keeps_the_answer_beside_it(chapter: Chapter):
    stub = nbformat.read(chapter.workbook, as_version=4)
    answer = 'def twice(x):\n    """```"""\n    return 2 * x'
    learner_writes(chapter, twice=answer)
    solved(chapter, "twice")
    assert reset(*found(chapter, "twice"))
    cells = nbformat.read(chapter.workbook, as_version=4).cells
    place = next(n for n, cell in enumerate(cells) if cell.id == "twice-check")
    assert cells[place + 1].cell_type == "markdown"
    assert cells[place + 1].source == f"Your earlier answer to twice:\n\n````python\n{answer}\n````"
    del cells[place + 1]
    assert cells == stub.cells
    assert standing(chapter)[0].state == "open"
    assert list((chapter.root / "workbook" / ".torchkata" / "backups").rglob("*.ipynb"))
    assert not reset(*found(chapter, "twice"))


def test_of_copies_the_last_one_is_reset(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x): return 1")
    [answer] = [cell for cell in notebook.cells if cell.id == "twice"]
    notebook.cells.append(nbformat.from_dict(dict(answer, id="copy", source="def twice(x): return 2 * x")))
    nbformat.write(notebook, chapter.workbook)
    assert reset(*found(chapter, "twice"))
    after = {cell.id: cell.source for cell in nbformat.read(chapter.workbook, as_version=4).cells}
    assert after["twice"] == "def twice(x): return 1" and "NotImplementedError" in after["copy"]


def test_reset_explains_what_it_cannot_do(chapter: Chapter):
    notebook = nbformat.read(chapter.workbook, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.id != "twice"]
    nbformat.write(notebook, chapter.workbook)
    with pytest.raises(CourseError, match="Run `torchkata update 98` first"):
        reset(*found(chapter, "twice"))
    chapter.workbook.write_text("<<<<<<< a\n{}\n=======\n{}\n>>>>>>> b\n")
    with pytest.raises(CourseError, match=r"conflict markers\. `torchkata update 98`"):
        reset(*found(chapter, "twice"))
    chapter.workbook.unlink()
    with pytest.raises(CourseError, match="is not in your workbook yet"):
        reset(*found(chapter, "twice"))


def test_a_solution_is_shown_once_it_is_earned_or_asked_for(chapter: Chapter):
    twice = found(chapter, "twice")
    with pytest.raises(CourseError, match="torchkata solution twice --peek"):
        solution(*twice)
    shown = "def twice(x):\n    return 2 * x\n"
    assert solution(*twice, peek=True) == shown
    solved(chapter, "twice")
    assert solution(*twice) == shown
    assert solution(*found(chapter, "guess"), peek=True) == 'answers = {"a": 1, "b": 2}\n'
    chapter.solution.unlink()
    with pytest.raises(CourseError, match="came without solutions"):
        solution(*twice, peek=True)


def test_the_commands(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    run = CliRunner().invoke
    learner_writes(chapter, twice="def twice(x): return 0")
    told = " ".join(run(app, ["reset", "98.1"]).stdout.split())
    assert "twice in 98_things has its stub again" in told and "Reload Notebook from Disk" in told
    assert "already has its stub" in run(app, ["reset", "twice"]).stdout
    assert "return 2 * x" in run(app, ["solution", "twice", "--peek"]).stdout
    assert isinstance(run(app, ["solution", "twice"]).exception, CourseError)


WAYS = """# %% right: adds
# One addition.
def twice(x):
    return x + x


# %% wrong: squares
# says: expected 8
# 2 hides it.
def twice(x):
    return x**2
"""


def test_the_command_shows_other_answers_below_the_authors(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    file = ways_file(chapter.solution.parent, "twice")
    file.parent.mkdir()
    file.write_text(WAYS)
    told = CliRunner().invoke(app, ["solution", "twice", "--peek"]).stdout
    at = [
        told.index(words)
        for words in (
            "return 2 * x",
            "Another right answer: adds. One addition.",
            "return x + x",
            "An easy mistake: squares. 2 hides it.",
            "A check says: “expected 8”",
            "return x**2",
        )
    ]
    assert at == sorted(at)
    assert isinstance(CliRunner().invoke(app, ["solution", "twice"]).exception, CourseError), "not solved yet"


def test_a_terminal_that_knows_ascii_only(chapter: Chapter):
    done = subprocess.run(
        [sys.executable, "-m", "torchkata", "solution", "twice", "--peek"],
        cwd=chapter.root,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "def twice" in done.stdout, done.stderr
