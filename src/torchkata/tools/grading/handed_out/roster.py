"""The class's list of students, students.csv: the same file that `nbgrader db student import` takes."""

from __future__ import annotations

import csv
from pathlib import Path

from torchkata.tools.course import CourseError

FILE = "students.csv"
COLUMNS = ("first_name", "last_name", "email", "lms_user_id")

Roster = dict[str, dict[str, str | None]]


def read_roster(path: Path) -> Roster:
    """Names, e-mail and LMS id of students, by id; empty cells are None. Other columns are left alone.

    Raises CourseError, with what to mend, where the file can't be read.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8 with commas between the columns"
        raise CourseError(f"{path} can't be read: {reason}. Save it as CSV (UTF-8), then try again.") from None
    return dict(_student(path, number, row) for number, row in enumerate(rows, 2))


def _student(path: Path, number: int, row: dict) -> tuple[str, dict[str, str | None]]:
    cells = {(key or "").strip(): (value or "").strip() for key, value in row.items() if not isinstance(value, list)}
    if "id" not in cells:
        raise CourseError(f"{path} has no column id. Its columns are id, {', '.join(COLUMNS)}; only id must be there.")
    if not cells["id"]:
        raise CourseError(f"{path}, line {number}: the id is empty. It is the name of the student's folder.")
    return cells["id"], {name: cells[name] or None for name in COLUMNS if name in cells}
