"""Make the learner's version of a chapter with nbgrader's own generate_assignment."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory

from torchkata.tools.course import Chapter, CourseError
from torchkata.tools.course_config import course_config


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
    directory = CourseDirectory(config=config, assignment_id=chapter.name)
    log = logging.getLogger("torchkata.release")
    messages = _Messages()
    log.handlers, log.propagate = [messages], False
    converter = GenerateAssignment(coursedir=directory, config=config, log=log, no_database=True)
    try:
        converter.start()
    except Exception as error:
        raise CourseError(f"{chapter.name}: nbgrader can't release it. {messages.text() or error}") from None


class _Messages(logging.Handler):
    """Keeps what nbgrader logs as errors, for the message."""

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage().strip().splitlines()[-1])

    def text(self) -> str:
        return " ".join(self._lines)
