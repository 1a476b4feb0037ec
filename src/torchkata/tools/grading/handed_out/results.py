"""What grading runs leave behind for the teacher: a JSON record for each submission; tables for a spreadsheet, and for
Canvas and Moodle."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from torchkata.base.writing import write_whole
from torchkata.tools.grading.handed_out.roster import one_form
from torchkata.tools.grading.handed_out.the_class import OF_STUDENT
from torchkata.tools.grading.records import ExerciseMark, NotGradable, Record

Result = Record | NotGradable
COLUMNS = ("chapter", "student", "exercise", "title", "points", "of", "state", "verdict", "sandboxed", "by_hand")
FORMULA = re.compile(r"""((?:^|;\s*|,)["']*)(?=[=+\-@])""")  # where a cell could begin with one
POINTS_POSSIBLE = "    Points Possible"  # Canvas' second line begins with it, spaces included


class Results:
    """The folder of a chapter's results, by default graded/CHAPTER: records/STUDENT.json, marks.csv, run.json."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.csv, self.run = folder / "marks.csv", folder / "run.json"

    def find(self, student: str) -> Result | None:
        """The result of the student's last submission; None where there is none or it can't be read."""
        return _read(self._path(student))

    def keep(self, result: Result) -> None:
        """Write a result; it replaces the student's last one in one step. Raises OSError."""
        write_whole(self._path(result.student), json.dumps(asdict(result), indent=1) + "\n")

    def all(self) -> Iterator[Result]:
        """All results in the folder, by student, read one after the other."""
        found = map(_read, sorted(self.folder.glob("records/*.json")))
        return (result for result in found if result is not None)

    def of(self, students: Collection[str]) -> Iterator[Result]:
        """The results of these students, in the same way."""
        return (result for result in self.all() if result.student in students)

    def write_csv(self, students: Collection[str]) -> None:
        """Write marks.csv for these students: a row for each student and exercise, with the points that count; one row
        without points where there is no mark."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        for result in self.of(students):
            table.writerows([plain(value) for value in row] for row in _rows(result))
        write_whole(self.csv, text.getvalue())

    def write_run(self, summary: dict) -> None:
        """Write run.json: what the last run did."""
        write_whole(self.run, json.dumps(summary, indent=1) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file for the whole class, such as overview.html, in one step."""
        write_whole(self.folder / name, text)

    def _path(self, student: str) -> Path:
        return self.folder / "records" / f"{student}.json"


def _read(path: Path) -> Result | None:
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
        return NotGradable(**data) if "reason" in data else Record.from_json(text)
    except (OSError, ValueError, TypeError):
        return None


def _rows(result: Result) -> list[tuple]:
    if isinstance(result, NotGradable):
        return [(result.chapter, result.student, "", "", "", "", "not graded", result.reason, "", "")]
    sandboxed = "yes" if result.sandboxed else "no"
    return [_row(result, mark, sandboxed) for mark in result.marks]


def _row(record: Record, mark: ExerciseMark, sandboxed: str) -> tuple:
    points, line = (f"{record.points_of(mark):g}", f"{mark.of:g}"), mark.verdict.split("\n")[0]
    by_hand = "yes" if record.given_by_hand(mark) else "no"
    return record.chapter, record.student, mark.exercise, mark.title, *points, mark.state, line, sandboxed, by_hand


def plain(value: str) -> str:
    """The value as a spreadsheet must show it: without control characters, and not run as a formula, whatever character
    it takes for the separator between cells; names in the form in which most systems write them."""
    text = "".join(char if char.isprintable() else " " for char in one_form(value)).strip()
    return FORMULA.sub(r"\1'", text)


# ---------------------------------------------------------------- for Canvas and Moodle


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
