"""What grading runs leave behind for the teacher: a JSON record for each submission, tables, one summary."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from torchkata.tools.grading.files import write_whole
from torchkata.tools.grading.records import NotGradable, Record

Result = Record | NotGradable
COLUMNS = ("chapter", "student", "exercise", "title", "points", "of", "state", "verdict", "sandboxed")


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

    def write_csv(self) -> None:
        """Write marks.csv: a row for each student and exercise; one row without points where there is no mark."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        for result in self.all():
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
        return [(result.chapter, result.student, "", "", "", "", "not graded", result.reason, "")]
    return [
        (
            *(
                result.chapter,
                result.student,
                mark.exercise,
                mark.title,
                f"{mark.points:g}",
                f"{mark.of:g}",
                mark.state,
            ),
            *(mark.verdict.split("\n")[0], "yes" if result.sandboxed else "no"),
        )
        for mark in result.marks
    ]


def plain(value: str) -> str:
    """The value as a spreadsheet must show it: without control characters, and not run as a formula."""
    text = "".join(char if char.isprintable() else " " for char in value).strip()
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
