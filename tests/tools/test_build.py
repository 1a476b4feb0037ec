"""Building: the same bytes twice, only what changed, and errors that leave the old notebooks as they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from tests.plugins.selection import first_alone
from torchkata.base.places import MARK
from torchkata.cli import app
from torchkata.tools.assembling import exercise_file
from torchkata.tools.build import BuildError, build, stale
from torchkata.tools.course import Chapter, course_root
from torchkata.tools.placing import Place

SOURCE = """# %% [markdown]
# # Twice

# %% setup=true
import torch
from torchkata.verdicts import check, observe

# %%
print({"one", "two"} == {"two", "one"}, torch.arange(3))

# %% exercise="twice"
"""
EXERCISE = '''# %% [markdown]
# ### Exercise 98.1 · Twice

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
'''


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A course in a temporary folder with one tiny chapter, built."""
    shutil.copy(course_root() / MARK, tmp_path)
    (tmp_path / "notebooks").mkdir()
    made = Chapter(Place(tmp_path), "98_twice")
    made.exercises_folder.mkdir(parents=True)
    made.source.write_text(SOURCE, encoding="utf-8")
    exercise_file(made, "twice").write_text(EXERCISE, encoding="utf-8")
    build(made)
    return made


def bytes_of(chapter: Chapter) -> tuple[bytes, bytes]:
    return chapter.solution.read_bytes(), chapter.release.read_bytes()


def rewrite(chapter: Chapter, old: str, new: str) -> None:
    text = chapter.source.read_text(encoding="utf-8")
    assert old in text
    chapter.source.write_text(text.replace(old, new), encoding="utf-8")


def test_twice_built_is_the_same_bytes(chapter: Chapter):
    before = bytes_of(chapter)
    assert stale(chapter) is None
    build(chapter)
    assert bytes_of(chapter) == before


def test_the_release_has_no_solution_and_no_outputs(chapter: Chapter):
    text = chapter.release.read_text(encoding="utf-8")
    assert "2 * x" not in text and "NotImplementedError" in text
    assert all(not cell.get("outputs") for cell in json.loads(text)["cells"])


FAILING = {
    "an error": ("1 / 0", "ZeroDivisionError: division by zero"),
    "a warning of what comes": ("import warnings; warnings.warn('soon', FutureWarning)", "FutureWarning: soon"),
    "a deprecation": ("import warnings; warnings.warn('soon', DeprecationWarning)", "DeprecationWarning: soon"),
    "a warning": ("import warnings; warnings.warn('mind this')", "writes to stderr"),
    "an address": ("print(object())", "which differs from run to run"),
    "the name of a folder": ("import tempfile; print(tempfile.mkdtemp(dir='/tmp'))", "which differs from run to run"),
    "the end of Python": ("import os; os._exit(1)", "ended its kernel"),
}
another_cell = pytest.mark.exhaustive("a further cell that can't be built", thorough=True)


@pytest.mark.parametrize("new, words", first_alone(FAILING, another_cell))
def test_a_failing_cell_is_named_and_changes_nothing(chapter: Chapter, new: str, words: str):
    before = bytes_of(chapter)
    rewrite(chapter, "print({", f"{new}\n# print({{")
    with pytest.raises(BuildError) as caught:
        build(chapter)
    message = str(caught.value)
    assert message.startswith("98_twice, cell code-") and words in message
    assert len(message.splitlines()) < 10
    assert bytes_of(chapter) == before


def test_a_changed_source_is_stale(chapter: Chapter):
    rewrite(chapter, "# # Twice", "# # Two times")
    assert stale(chapter) == "the source has changed"
    build(chapter)
    assert stale(chapter) is None


@pytest.mark.parametrize("tree", ["solution", "release"])
@pytest.mark.parametrize("edit", ["source", "output", "drop", "copy", "metadata"])
def test_a_notebook_edited_by_hand_is_noticed(chapter: Chapter, tree: str, edit: str):
    path: Path = getattr(chapter, tree)
    notebook = nbformat.read(path, as_version=4)
    if edit == "source":
        notebook.cells[2].source += "\n# note"
    elif edit == "output":
        notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="other")]
    elif edit == "drop":
        del notebook.cells[2]
    elif edit == "copy":
        notebook.cells.insert(3, nbformat.from_dict(dict(notebook.cells[2], id="copy")))
    else:
        notebook.cells[-1].metadata.nbgrader.points = 99
    nbformat.write(notebook, path)
    reason = stale(chapter)
    assert reason is not None
    assert f"{path.relative_to(chapter.root).as_posix()} was edited by hand at " in reason


def test_a_build_puts_back_what_was_edited_by_hand(chapter: Chapter):
    before = bytes_of(chapter)
    for path in (chapter.solution, chapter.release):
        path.write_text(path.read_text(encoding="utf-8").replace("Twice", "Thrice"), encoding="utf-8")
    assert stale(chapter) is not None
    build(chapter)
    assert stale(chapter) is None and bytes_of(chapter) == before


def test_the_command_builds_only_what_changed(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    run = CliRunner().invoke
    assert run(app, ["build", "--check"]).exit_code == 0
    assert "up to date" in run(app, ["build"]).stdout
    rewrite(chapter, "# # Twice", "# # Two times")
    checked = run(app, ["build", "--check"])
    assert checked.exit_code == 1 and "the source has changed. Run `torchkata build 98`" in checked.stdout
    assert run(app, ["build", "98"]).exit_code == 0
    assert run(app, ["build", "--check"]).exit_code == 0
