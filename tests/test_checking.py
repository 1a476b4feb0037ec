"""`torchkata check`: a verdict for every exercise of the learner's workbook, whatever has happened to it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from torchkata.cli import app
from torchkata.tools.course import MARK, Chapter, CourseError, course_root
from torchkata.tools.learning import checking
from torchkata.tools.learning.checking import Verdict, check_chapter
from torchkata.tools.release import released
from torchkata.tools.source import notebook_of

SOURCE = '''# %% [markdown]
# # Three things

# %% setup=true
import torch
from torchkata.verdicts import check, observe, observe_value, prediction

# %%
print("a demo that nobody changed"); raise SystemExit("an unchanged demo is not run")

# %% answer="twice"
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% check="twice" points=2
"""Twice."""
with check("twice") as test:
    test("a number")
    observe(twice, 4).returns(8)
    ### BEGIN HIDDEN TESTS
    test.hidden("a negative number")
    observe(twice, -1).returns(-2)
    ### END HIDDEN TESTS

# %% answer="guess"
### BEGIN SOLUTION
answers = {"a": 1, "b": 2}
### END SOLUTION
### BEGIN GIVEN
# answers = {"a": ..., "b": ...}
### END GIVEN

# %% check="guess" points=3
"""Guesses."""
with check("guess") as test:
    test("items")
    items = {"a": prediction(1), "b": prediction(2, (3, "One too many."))}
    test.points = observe_value(answers).predicts(items, points=3)
test.points

# %% answer="thrice"
def thrice(x):
    ### BEGIN SOLUTION
    return 3 * x
    ### END SOLUTION

# %% check="thrice" points=1
"""Thrice."""
with check("thrice") as test:
    test("a number")
    observe(thrice, 4).returns(12)
'''


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A course in a temporary folder: its solution (not executed), its release, and an untouched workbook."""
    shutil.copy(course_root() / MARK, tmp_path)
    made = Chapter(tmp_path, "98_things")
    solution = nbformat.writes(notebook_of(SOURCE, "things.py"))
    release = released(made, solution)
    for path, text in [(made.solution, solution), (made.release, release), (made.workbook, release)]:
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    return made


def learner_writes(chapter: Chapter, **answers: str) -> nbformat.NotebookNode:
    notebook = nbformat.read(chapter.workbook, as_version=4)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in answers:
            cell.source = answers[grade_id]
    nbformat.write(notebook, chapter.workbook)
    return notebook


def verdicts(chapter: Chapter) -> dict[str, Verdict]:
    return {verdict.exercise.id: verdict for verdict in check_chapter(chapter)}


def test_untouched(chapter: Chapter):
    found = verdicts(chapter)
    assert [(v.points, v.line) for v in found.values()] == [(0, "not solved yet.")] * 3


def test_right_wrong_and_partly_right(chapter: Chapter):
    learner_writes(
        chapter,
        twice="def twice(x):\n    return abs(x) * 2",
        guess='answers = {"a": 1, "b": 3}',
        thrice="def thrice(x): return 3 * x",
    )
    found = verdicts(chapter)
    assert (found["twice"].points, found["guess"].points, found["thrice"].points) == (0, 1.5, 1)
    assert "The values are wrong" in found["twice"].line  # seen by the hidden test only
    assert found["guess"].line == "b = 3: One too many."
    assert found["thrice"].solved and not found["guess"].solved


def test_own_cells_count_and_damage_is_survived(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x):\n    return helper(x)", thrice="def thrice(x): return (")
    answer = next(n for n, cell in enumerate(notebook.cells) if cell.id == "twice")
    notebook.cells.insert(answer, nbformat.v4.new_code_cell("def helper(x):\n    return x + x"))
    notebook.cells = [cell for cell in notebook.cells if "check" not in cell.id and cell.id != "guess"]
    nbformat.write(notebook, chapter.workbook)
    found = verdicts(chapter)
    assert found["twice"].solved
    assert found["guess"].line == "its answer cell is missing from your workbook."
    assert "Run the cell of your answer first" in found["thrice"].line


def test_an_edited_check_wins_nothing(chapter: Chapter):
    learner_writes(chapter, **{"twice-check": "pass", "guess-check": "3.0"})
    assert all(v.points == 0 for v in verdicts(chapter).values())


def test_a_copied_answer_counts_where_it_stands_last(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x): return 2 * x")
    copy = dict(notebook.cells[3], id="copy", source="def twice(x): return x")
    notebook.cells.append(nbformat.from_dict(copy))
    nbformat.write(notebook, chapter.workbook)
    assert verdicts(chapter)["twice"].points == 0


def test_an_endless_loop_and_a_dead_kernel(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "CELL_TIMEOUT", 4)
    learner_writes(chapter, twice="def twice(x):\n    while True: pass", thrice="def thrice(x):\n    return 3 * x")
    found = verdicts(chapter)
    assert "does a loop never end?" in found["twice"].line
    assert found["thrice"].solved
    learner_writes(chapter, twice="def twice(x):\n    return 2 * x", guess="import os; os._exit(1)")
    found = verdicts(chapter)
    assert found["twice"].solved
    assert found["guess"].points == 0 and "ended the kernel" in found["thrice"].line


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"cells": 3}', "<<<<<<< mine\n{}\n=======\n{}\n>>>>>>> theirs"])
def test_a_broken_notebook_gets_a_message(chapter: Chapter, broken: str, monkeypatch: pytest.MonkeyPatch):
    chapter.workbook.write_text(broken, encoding="utf-8")
    with pytest.raises(CourseError, match="is not a readable notebook"):
        check_chapter(chapter)


def test_the_command(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    run = CliRunner().invoke
    first = run(app, ["check"])
    assert first.exit_code == 1
    assert "not solved yet" in first.stdout and "0 of 6" in first.stdout
    learner_writes(
        chapter,
        twice="def twice(x): return x + x",
        guess='answers = {"a": 1, "b": 2}',
        thrice="thrice = lambda x: x * 3",
    )
    done = run(app, ["check", "98"])
    assert done.exit_code == 0 and "6 of 6" in done.stdout


@pytest.mark.parametrize(
    "words, message", [(["check", "97"], "There is no chapter '97'"), (["check"], "not in your workbook yet")]
)
def test_the_command_explains(chapter: Chapter, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch):
    chapter.workbook.unlink()
    monkeypatch.chdir(chapter.root)
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, CourseError)
    assert message in str(result.exception)


def test_watching_notices_a_save(chapter: Chapter):
    saves = checking.saved_chapters([chapter], pause=0.01)
    threading.Timer(0.2, lambda: learner_writes(chapter, twice="def twice(x): return 1")).start()
    assert next(saves) == chapter
