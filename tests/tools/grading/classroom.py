"""A small course with submissions, for the tests of grading: built once, copied for each test."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests.tools.grading.fake_grading import NAME
from tests.tools.learning.small_course import SOURCE
from torchkata.base.places import MARK
from torchkata.tools.course import Chapter, course_root
from torchkata.tools.grading.handed_out.gradebook import ChapterBook
from torchkata.tools.placing import Place, here
from torchkata.tools.release import released
from torchkata.tools.source import notebook_of


def course(folder: Path) -> Chapter:
    """A course with one built chapter of three exercises (6 points) and an empty gradebook that knows it."""
    chapter = unknown_course(folder)
    (folder / "gradebook.db").write_bytes(gradebook())
    return chapter


def unknown_course(folder: Path) -> Chapter:
    """The same course before its first grading: there is no gradebook."""
    shutil.copy(course_root() / MARK, folder)
    chapter = Chapter(Place(folder), NAME)
    for path, text in zip((chapter.solution, chapter.release), _notebooks(), strict=True):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    return chapter


@cache
def _notebooks() -> tuple[str, str]:
    solution = nbformat.writes(notebook_of(SOURCE, "things.py"))
    return solution, released(Chapter(here(), NAME), solution)


@cache
def gradebook() -> bytes:
    with tempfile.TemporaryDirectory() as folder, ChapterBook(unknown_course(Path(folder))):
        return (Path(folder) / "gradebook.db").read_bytes()


def folder_of(chapter: Chapter, student: str) -> Path:
    return chapter.root / "submitted" / student / chapter.name


def blank(chapter: Chapter, **answers: str) -> NotebookNode:
    """The released notebook with these answers."""
    notebook = nbformat.read(chapter.release, as_version=4)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(grade_id, cell.source)
    return notebook


def hand_in(chapter: Chapter, student: str, notebook: NotebookNode | str | bytes | None = None, **answers: str) -> Path:
    """Put a submission where nbgrader would collect it: a notebook, any bytes, or the release with these answers."""
    path = folder_of(chapter, student) / f"{chapter.topic}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    if notebook is None or isinstance(notebook, NotebookNode):
        notebook = nbformat.writes(notebook or blank(chapter, **answers))
    path.write_bytes(notebook if isinstance(notebook, bytes) else notebook.encode())
    return path
