"""The course as data: where it lies, its chapters, their exercises and points, read from the files themselves."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchkata.base.chapter import Exercise, exercises_of
from torchkata.base.places import PACKED
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place, here

if TYPE_CHECKING:  # loaded where a notebook is read: the processes that grade read none
    from nbformat import NotebookNode

CHAPTER_FOLDER = re.compile(r"(\d\d)_([a-z0-9_]+)")
SIDE_NOTEBOOKS = ("start", "gallery", "review")


@dataclass(frozen=True)
class Chapter:
    """One chapter: `name` is its folder's name (03_gather_scatter), `topic` the name of its files (gather_scatter).

    place: the course and the workbook to which it belongs.
    """

    place: Place
    name: str

    @property
    def root(self) -> Path:
        """The folder of the course."""
        return self.place.root

    @property
    def number(self) -> str:
        return self.name[:2]

    @property
    def topic(self) -> str:
        return self.name[3:]

    @property
    def source(self) -> Path:
        return self.root / "solutions" / self.name / f"{self.topic}.py"

    @property
    def exercises_folder(self) -> Path:
        """The folder with a file for each of the chapter's exercises."""
        return self.source.parent / "exercises"

    @property
    def solution(self) -> Path:
        return self.source.with_suffix(".ipynb")

    @property
    def release(self) -> Path:
        return self.root / "notebooks" / self.name / f"{self.topic}.ipynb"

    @property
    def place_in_workbook(self) -> Path:
        return Path(self.name, f"{self.topic}.ipynb")

    @property
    def workbook(self) -> Path:
        return self.place.workbook / self.place_in_workbook

    @cached_property
    def master(self) -> NotebookNode:
        """The notebook that says what the chapter is: the solution where it is there, else the release."""
        return read_notebook(self.solution if self.solution.exists() else self.release)

    @property
    def title(self) -> str:
        return next(
            (line[2:] for line in self.master.cells[0].source.splitlines() if line.startswith("# ")),
            self.name,
        )

    @property
    def exercises(self) -> list[Exercise]:
        return exercises_of(self.master.cells)


class SideNotebook(Chapter):
    """A notebook beside the chapters: built and released like them, but without a number and without marks. In the
    workbook it lies at the top."""

    @property
    def number(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        return self.name

    @property
    def place_in_workbook(self) -> Path:
        return Path(f"{self.name}.ipynb")


def course_root(start: Path | None = None) -> Path:
    """The folder that holds the course: the nearest one above `start` (default: the working folder), that of the
    workbook which holds it, or the one that came with this package.

    Raises CourseError when there is none.
    """
    return here(start).root


def own_course(what: str, instead: str) -> Place:
    """The place of a course that may be written to: a checkout or a class folder.

    Raises CourseError where there is only the one in the package; `what` and `instead` say for which command, and what
    to do.
    """
    place = here()
    if place.root == PACKED:
        raise CourseError(f"{what} works in {instead}. Change to it and try again.")
    return place


def chapters(place: Place) -> list[Chapter]:
    """All chapters that have a source or a release, in order."""
    names = {p.parent.name for kind in ("solutions/*/*.py", "notebooks/*/*.ipynb") for p in place.root.glob(kind)}
    return [Chapter(place, name) for name in sorted(names) if CHAPTER_FOLDER.fullmatch(name)]


def side_notebooks(place: Place) -> list[SideNotebook]:
    """The side notebooks that have a source or a release: the start page, the gallery, the review page."""
    found = [SideNotebook(place, name) for name in SIDE_NOTEBOOKS]
    return [one for one in found if one.source.exists() or one.release.exists()]


def is_named(word: str, chapter: str) -> bool:
    """Whether a word names the chapter with this name: 03_gather_scatter is also 03, 3 or gather_scatter."""
    number, _, topic = chapter.partition("_")
    return word.strip("/") in (chapter, number, number.lstrip("0"), topic or chapter)


def find_chapters(place: Place, words: list[str] | None = None, with_side_notebooks: bool = False) -> list[Chapter]:
    """The chapters that the words name (03, gather_scatter or 03_gather_scatter); all of them for no words.

    With `with_side_notebooks` a word may also name one of these (start), and no words mean them and the chapters.
    Raises CourseError for a word that names none, listing those that there are.
    """
    known = [*chapters(place), *(side_notebooks(place) if with_side_notebooks else ())]
    found = []
    for word in words or [chapter.name for chapter in known]:
        match = [chapter for chapter in known if is_named(word, chapter.name)]
        if not match:
            raise CourseError(f"There is no chapter {word!r}. The chapters are: {', '.join(c.name for c in known)}.")
        found += [chapter for chapter in match if chapter not in found]
    return found


def skip_rare_formats() -> None:
    """Keep jsonschema, which nbformat imports, from loading two packages for checks of formats that no notebook has.

    The first builds 39 parsers for IRIs, for nearly a second; the second brings all of arrow, for durations. This holds
    for the whole process, and only if it is called before nbformat is imported: jsonschema imports both wherever they
    are installed, and has no option for it. Without them it leaves these checks out. What is loaded already stays.
    """
    for name in ("rfc3987_syntax", "isoduration"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type] # typeshed does not know None here


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook (format 4). Raises CourseError, naming the file, when it is missing or not a notebook."""
    skip_rare_formats()
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise CourseError(f"{path} does not exist.") from None
    except Exception as error:  # nbformat raises many kinds, from JSON to schema errors
        raise CourseError(f"{path} is not a readable notebook: {first_line(error)}") from None


def read_unchecked(path: Path) -> NotebookNode:
    """Like `read_notebook`, for a notebook of the course's own: without nbformat's validation, which takes ten times as
    long."""
    skip_rare_formats()
    from nbformat import v4

    try:
        return v4.reads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(f"{path} does not exist.") from None
    except Exception as error:  # what is damaged fails anywhere
        raise CourseError(f"{path} is not a readable notebook: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """The first line of an error's message; its type where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
