"""students.csv, the list of a class: read as nbgrader's `db student import` and as spreadsheets write it, and compared
with the folders of those who handed something in."""

from __future__ import annotations

import codecs
import csv
import io
import unicodedata
from collections.abc import Collection, Iterator
from itertools import zip_longest
from pathlib import Path

from torchkata.tools.errors import CourseError

STUDENTS = "students.csv"
NAMES = ("first_name", "last_name", "email", "lms_user_id")  # what it may say of a student
SEPARATORS = ",;\t"
MOST_NAMED = 10

Roster = dict[str, dict[str, str | None]]  # what the list says, by student


def read_roster(path: Path, wanted: tuple[str, ...] = NAMES) -> Roster:
    """What the wanted columns say of each student, by id; empty cells are None. Other columns are left alone, and empty
    rows.

    Raises CourseError, with what to mend, where the file can't be read or says two things of one student.
    """
    table = _table(path)
    number, heading = next(table, (1, []))
    columns = [name.strip().casefold().replace(" ", "_") for name in heading]
    if "id" not in columns:
        found = f"Its first line is: {', '.join(heading)[:100]}. " if heading else ""
        raise CourseError(
            f"{path} has no column id. {found}The columns are id, {', '.join(NAMES)}; only id must be there."
        )
    roster: Roster = {}
    known: dict[str, tuple[str, int]] = {}  # the id as it was first written, and in which line
    for number, cells in table:
        if not any(cells):
            continue
        if any(cells[len(columns) :]):
            raise CourseError(
                f"{path}, line {number}: there are more cells than columns. Put a name that holds a comma into quotes."
            )
        row = dict(zip_longest(columns, cells[: len(columns)], fillvalue=""))
        name, said = _student(path, number, row, wanted)
        written, line = known.setdefault(one_form(name), (name, number))
        if roster.setdefault(written, said) != said:
            raise CourseError(
                f"{path} says two things of the student {name}, in lines {line} and {number}. Keep one of them."
            )
    return roster


def _table(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of the file with their line numbers, cells without the space around them."""
    try:
        text = _text(path.read_bytes())
        first, _, rest = text.partition("\n")
        if first.strip().lower().startswith("sep="):  # Excel's own way to name the separator
            return _rows(rest, first.strip()[4:5], 2)
        return _rows(text, _separator(first), 1)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8 with commas between the columns"
        raise CourseError(f"{path} can't be read: {reason}. Save it as CSV (UTF-8), then try again.") from None


def _text(content: bytes) -> str:
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # Excel's "Unicode text"
    return content.decode("utf-16" if utf_16 else "utf-8-sig")


def _separator(heading: str) -> str:
    try:
        return csv.Sniffer().sniff(heading, SEPARATORS).delimiter
    except csv.Error:  # one column
        return ","


def _rows(text: str, separator: str, first: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator or ",")
    return iter([(first - 1 + reader.line_num, [cell.strip() for cell in row]) for row in reader])


def _student(
    path: Path, number: int, cells: dict[str, str], wanted: tuple[str, ...]
) -> tuple[str, dict[str, str | None]]:
    if not cells["id"]:
        raise CourseError(f"{path}, line {number}: the id is empty. It is the name of the student's folder.")
    return cells["id"], {name: cells[name] or None for name in wanted if name in cells}


# ---------------------------------------------------------------- the list and the folders


def one_form(name: str) -> str:
    """A name in the form in which names are compared: macOS writes é as two characters, most others as one."""
    return unicodedata.normalize("NFC", name)


def under_folders(roster: Roster, folders: Collection[str]) -> Roster:
    """The same list; a student whose folder writes the id in another Unicode form stands under the folder's name."""
    names = {one_form(folder): folder for folder in folders}
    return {names.get(one_form(student), student): said for student, said in roster.items()}


def differences(roster: Roster, folders: Collection[str]) -> list[str]:
    """Who has a folder and is not in the list, and the other way round, in sentences; nothing without a list."""
    if not roster:
        return []
    unknown, absent = sorted(set(folders) - set(roster)), sorted(set(roster) - set(folders))
    told = []
    if unknown:
        told.append(f"{STUDENTS} does not know {some(unknown)}: there is a folder of this name, and no such id.")
    if absent:
        have = "has" if len(absent) == 1 else "have"
        told.append(f"{len(absent)} of the students in {STUDENTS} {have} handed in nothing here: {some(absent)}.")
    return told


def some(names: list[str]) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
