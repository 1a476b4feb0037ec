"""The two files in which a teacher describes the class. Both lie beside nbgrader_config.py: class.yaml has the columns
for an LMS and the site's address; students.csv is the list of students, as `nbgrader db student import` reads it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import yaml

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError

SETTINGS = "class.yaml"
DEFAULTS = Path(__file__).parent / SETTINGS
STUDENTS = "students.csv"
NAMES = ("first_name", "last_name", "email", "lms_user_id")  # what it may say of a student
OF_CHAPTER = ("chapter", "number", "topic", "title")
OF_STUDENT = ("student", "first_name", "last_name", "email", "lms_user_id", "points", "of", "percent")
LMS = ("canvas", "moodle")

Roster = dict[str, dict[str, str | None]]  # what students.csv says, by student

# ---------------------------------------------------------------- class.yaml


@dataclass(frozen=True)
class ClassSettings:
    """Columns by LMS (heading and template of the values), and the address of a chapter on the site, where known."""

    columns: dict[str, dict[str, str]]
    site: str | None = None

    def address_of(self, chapter: Chapter) -> str | None:
        """Where students read the chapter; None where that is not known."""
        return self.site.format(**about(chapter)) if self.site else None


def class_settings(root: Path) -> ClassSettings:
    """The settings of the class in this folder; what they leave out is as in the file that comes with this package.

    Raises CourseError, with what to mend, where they can't be read.
    """
    said = _read(DEFAULTS)
    if (root / SETTINGS).is_file():
        said |= _read(root / SETTINGS)
    if unknown := set(said) - {*LMS, "site"}:
        raise CourseError(
            f"{SETTINGS}: {', '.join(map(str, unknown))} is not known. Known are canvas, moodle and site."
        )
    columns = {lms: _columns(lms, said.get(lms)) for lms in LMS}
    site = said.get("site")
    if site is not None:
        _need_known("site", str(site), OF_CHAPTER)
        if not str(site).startswith(("https://", "http://")):
            raise CourseError(f"{SETTINGS}: site must be an address that begins with https:// or http://.")
    return ClassSettings(columns, None if site is None else str(site))


def about(chapter: Chapter) -> dict[str, str]:
    """What templates may say of a chapter."""
    return {"chapter": chapter.name, "number": chapter.number, "topic": chapter.topic, "title": chapter.title}


def _read(path: Path) -> dict:
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CourseError(f"{path} can't be read: {' '.join(str(error).split())}") from None
    if said is not None and not isinstance(said, dict):
        raise CourseError(f"{path} must hold names and values, such as `canvas:` with its columns below.")
    return said or {}


def _columns(lms: str, said: object) -> dict[str, str]:
    if not isinstance(said, dict) or not said:
        raise CourseError(f'{SETTINGS}: {lms} needs columns, such as `SIS Login ID: "{{student}}"`.')
    columns = {str(heading): "" if value is None else str(value) for heading, value in said.items()}
    for heading, value in columns.items():
        _need_known(f"{lms}, a heading", heading, OF_CHAPTER)
        _need_known(f"{lms}, {heading}", value, OF_CHAPTER + OF_STUDENT)
    return columns


def _need_known(where: str, template: str, known: tuple[str, ...]) -> None:
    try:
        fields = [(name, spec, how) for _, name, spec, how in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise CourseError(f"{SETTINGS}: {where}: {template!r} can't be read: {error}.") from None
    if wrong := [name for name, spec, how in fields if name not in known or spec or how]:
        names = ", ".join(f"{{{name}}}" for name in known)
        raise CourseError(f"{SETTINGS}: {where}: {{{wrong[0]}}} can't be filled in. These can: {names}.")


# ---------------------------------------------------------------- students.csv


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
        raise CourseError(f"{path} has no column id. Its columns are id, {', '.join(NAMES)}; only id must be there.")
    if not cells["id"]:
        raise CourseError(f"{path}, line {number}: the id is empty. It is the name of the student's folder.")
    return cells["id"], {name: cells[name] or None for name in NAMES if name in cells}
