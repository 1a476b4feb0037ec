"""Marks as Canvas and Moodle import them: canvas.csv and moodle.csv, in the columns that class.yaml names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torchkata.tools.grading.handed_out.class_settings import OF_STUDENT
from torchkata.tools.grading.handed_out.results import plain

POINTS_POSSIBLE = "    Points Possible"  # Canvas' second line begins with it, spaces included


@dataclass(frozen=True)
class FinalMark:
    """What counts for a student in the gradebook: points given by hand included, penalties for being late taken off.

    `names` holds first_name, last_name, email and lms_user_id, as far as they are known.
    """

    student: str
    names: Mapping[str, str | None]
    points: float
    of: float

    def fields(self) -> dict[str, str]:
        """What templates may say of it."""
        known = {name: self.names.get(name) or "" for name in OF_STUDENT}
        percent = 100 * self.points / self.of if self.of else 0.0
        numbers = {"points": self.points, "of": self.of, "percent": percent}
        return known | {name: f"{round(value, 2):g}" for name, value in numbers.items()} | {"student": self.student}


def lms_csv(lms: str, columns: Mapping[str, str], marks: Iterable[FinalMark], about: Mapping[str, str]) -> str:
    """The text of a file for an LMS ("canvas" or "moodle"): one line for each student.

    `columns` are headings with templates of values, `about` is what templates may say of the chapter.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([plain(heading.format(**about)) for heading in columns])
    rows = [{**about, **mark.fields()} for mark in marks]
    if lms == "canvas" and rows:
        table.writerow(_points_possible(columns, rows[0]["of"]))
    table.writerows([plain(value.format(**row).strip(" ,")) for value in columns.values()] for row in rows)
    return text.getvalue()


def _points_possible(columns: Mapping[str, str], of: str) -> list[str]:
    """Canvas' line of the points that can be had, below the headings."""
    _, *others = columns.values()
    return [POINTS_POSSIBLE, *(of if "{points}" in value else "" for value in others)]
