"""Make the learner's version of a chapter with nbgrader's own generate_assignment."""

from __future__ import annotations

import tempfile
from pathlib import Path

from torchkata.tools.course import Chapter
from torchkata.tools.course_config import course_config
from torchkata.tools.errors import CourseError
from torchkata.tools.generating import NotGenerated, generate_assignment


def released(chapter: Chapter, solution: str) -> str:
    """The text of the released notebook for the text of a solution. Works in a temporary course; writes nothing else.

    Raises CourseError with nbgrader's own complaint.
    """
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        source = course / "solutions" / chapter.name / f"{chapter.topic}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(solution, encoding="utf-8", newline="\n")
        _generate(chapter, course)
        return (course / "notebooks" / chapter.name / source.name).read_text(encoding="utf-8")


def _generate(chapter: Chapter, course: Path) -> None:
    config = course_config(chapter.root)
    config.CourseDirectory.root = str(course)
    config.SaveCells.enabled = False  # no gradebook
    try:
        generate_assignment(config, chapter.name, no_database=True)
    except NotGenerated as complaint:
        raise CourseError(f"{chapter.name}: nbgrader can't release it. {complaint}") from None
