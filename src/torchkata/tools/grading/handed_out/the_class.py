"""class.yaml, in which a teacher describes the class: the columns for an LMS, the site's address, and whether feedback
shows other answers. It lies beside nbgrader_config.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import yaml

from torchkata.tools.course import Chapter, chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.handed_out.roster import NAMES
from torchkata.tools.placing import Place

SETTINGS = "class.yaml"
DEFAULTS = Path(__file__).parent / SETTINGS
OF_CHAPTER = ("chapter", "number", "topic", "title")
OF_STUDENT = ("student", *NAMES, "points", "of", "percent")
LMS = ("canvas", "moodle")
KNOWN = {*LMS, "site", "other_answers"}


@dataclass(frozen=True)
class ClassSettings:
    """Columns by LMS (heading and template of the values), and the address of a chapter on the site, where known.

    other_answers: the numbers of the chapters whose feedback pages show the author's answer and others to the exercises
        that the student has solved.
    """

    columns: dict[str, dict[str, str]]
    site: str | None = None
    other_answers: frozenset[str] = frozenset()

    def address_of(self, chapter: Chapter) -> str | None:
        """Where students read the chapter; None where that is not known."""
        return self.site.format(**about(chapter)) if self.site else None

    def shows_other_answers(self, chapter: Chapter) -> bool:
        """Whether feedback on the chapter shows other answers to the exercises that are solved."""
        return chapter.number in self.other_answers


def class_settings(root: Path) -> ClassSettings:
    """The settings of the class in this folder; what they leave out is as in the file that comes with this package.

    Raises CourseError, with what to mend, where they can't be read.
    """
    said = _read(DEFAULTS)
    if (root / SETTINGS).is_file():
        said |= _read(root / SETTINGS)
    if unknown := set(said) - KNOWN:
        raise CourseError(
            f"{SETTINGS}: {', '.join(map(str, unknown))} is not known. Known are {', '.join(sorted(KNOWN))}."
        )
    columns = {lms: _columns(lms, said.get(lms)) for lms in LMS}
    site = said.get("site")
    if site is not None:
        _need_known("site", str(site), OF_CHAPTER)
        if not str(site).startswith(("https://", "http://")):
            raise CourseError(f"{SETTINGS}: site must be an address that begins with https:// or http://.")
    others = _numbers(said.get("other_answers"), {chapter.number for chapter in chapters(Place(root))})
    return ClassSettings(columns, None if site is None else str(site), others)


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


def _numbers(said: object, known: set[str]) -> frozenset[str]:
    """Chapters by number; YAML reads 03 as the number 3."""
    numbers = [str(one).zfill(2) for one in said] if isinstance(said, list) else []
    if not isinstance(said, list) or not known.issuperset(numbers):
        known_ones = ", ".join(sorted(known))
        raise CourseError(f"{SETTINGS}: other_answers must be a list of chapters, such as [{known_ones}].")
    return frozenset(numbers)


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
