"""nbgrader's own generate_assignment, whose complaint becomes an error."""

from __future__ import annotations

import logging
from typing import Any

from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config


class NotGenerated(Exception):
    """nbgrader could not do it; the message is what it said."""


def generate_assignment(config: Config, assignment: str, **options: Any) -> None:
    """Run nbgrader's generate_assignment in the course of the settings; options are those of the converter.

    Raises NotGenerated.
    """
    log, complaints = logging.Logger("torchkata.generating"), _LastLines()
    log.addHandler(complaints)
    try:
        course = CourseDirectory(config=config, assignment_id=assignment)
        GenerateAssignment(coursedir=course, config=config, log=log, **options).start()
    except Exception as error:  # nbgrader raises many kinds
        raise NotGenerated(" ".join(complaints.lines) or str(error)) from None


class _LastLines(logging.Handler):
    """Keeps the last line of each message that is logged as an error."""

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().strip().splitlines()[-1])
