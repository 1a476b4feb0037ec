"""A course of one small chapter in a temporary folder, for tests of what a learner does."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat

from torchkata.base.chapter import exercises_of
from torchkata.base.places import MARK
from torchkata.tools.course import Chapter, course_root
from torchkata.tools.learning.workbook import release_worked_on
from torchkata.tools.placing import Place
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


def make_course(root: Path) -> Chapter:
    """Its chapter: a solution that is not executed, and its release."""
    shutil.copy(course_root() / MARK, root)
    chapter = Chapter(Place(root), "98_things")
    publish(chapter, SOURCE)
    return chapter


def publish(chapter: Chapter, source: str) -> None:
    """Release a chapter from this source, in the place of an earlier release."""
    solution = nbformat.writes(notebook_of(source, "things.py"))
    for path, text in [(chapter.solution, solution), (chapter.release, released(chapter, solution))]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    chapter.__dict__.pop("master", None)


def read(chapter: Chapter) -> nbformat.NotebookNode:
    """The learner's notebook."""
    return nbformat.read(chapter.workbook, as_version=4)


def learner_writes(chapter: Chapter, **answers: str) -> nbformat.NotebookNode:
    notebook = read(chapter)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in answers:
            cell.source = answers[grade_id]
    nbformat.write(notebook, chapter.workbook)
    return notebook


def as_editors_leave_it(source: str) -> str:
    """A code cell with other ends of lines, blanks behind them, other quotes, and calls over several lines."""
    other = source.replace('"', "'").replace("'''", '"""').replace("observe(", "observe(\n        ")
    return "  \r\n".join(other.split("\n")) + "\r\n"


def digests(chapter: Chapter, exercise: str) -> list[str]:
    """What tells the check cells of an exercise apart in the learner's notebook."""
    found = exercises_of(release_worked_on(chapter).cells)
    return [check.digest for one in found if one.id == exercise for check in one.checks]
