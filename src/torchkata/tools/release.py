"""Make the learner's version of a chapter with nbgrader's own generate_assignment."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat

from torchkata.tools.course import Chapter, SideNotebook
from torchkata.tools.course_config import course_config
from torchkata.tools.errors import CourseError
from torchkata.tools.generating import NotGenerated, generate_assignment
from torchkata.tools.website import page_of


def released(chapter: Chapter, solution: str) -> str:
    """The text of the released notebook for the text of a solution: where the website is known, a chapter's first cell
    leads to its page there. Works in a temporary course; writes nothing else.

    Raises CourseError with nbgrader's own complaint.
    """
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        source = course / "solutions" / chapter.name / f"{chapter.topic}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(solution, encoding="utf-8", newline="\n")
        _generate(chapter, course)
        text = (course / "notebooks" / chapter.name / source.name).read_text(encoding="utf-8")
    page = "" if isinstance(chapter, SideNotebook) else page_of(chapter)
    return _leading_to(page, text) if page else text


def _leading_to(page: str, text: str) -> str:
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells[0].source += f"\n\nThis chapter is also [on the website]({page}), to read without installing."
    return f"{nbformat.writes(notebook)}\n"


def _generate(chapter: Chapter, course: Path) -> None:
    config = course_config(chapter.root)
    config.CourseDirectory.root = str(course)
    config.SaveCells.enabled = False  # no gradebook
    try:
        generate_assignment(config, chapter.name, no_database=True)
    except NotGenerated as complaint:
        raise CourseError(f"{chapter.name}: nbgrader can't release it. {complaint}") from None
