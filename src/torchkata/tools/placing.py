"""Which course and which workbook a command works on, by the folder in which it was started."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from torchkata import __version__
from torchkata.base.places import (
    BESIDE,
    KEPT,
    MARK,
    PACKAGE,
    PACKED,
    course_of,
    course_of_package,
    is_course,
    is_workbook,
    upwards,
)
from torchkata.tools.errors import CourseError

USUAL = "torchkata"  # the workbook that `torchkata lab` makes below a folder that is none
NOTED = "version"  # in a workbook's .torchkata: the newest torchkata that has written there


@dataclass(frozen=True)
class Place:
    """A course and a workbook. own: the workbook where that is not workbook/ in the course's folder."""

    root: Path
    own: Path | None = None

    @property
    def workbook(self) -> Path:
        """The folder with the learner's own copies. Raises CourseError where a command must be told which."""
        if self.own is None and self.root == PACKED:
            raise CourseError(
                "There is no workbook here. Change to yours, or make one in this folder: torchkata lab (or, without "
                "JupyterLab: torchkata workbook)."
            )
        return self.own or self.root / BESIDE

    @property
    def has_workbook(self) -> bool:
        """Whether a command need not be told which workbook."""
        return self.own is not None or self.root != PACKED


def here(start: Path | None = None) -> Place:
    """The place of a command that was started in `start` (default: the working folder).

    The nearest workbook or course above it counts; else a workbook of the usual name below it; else the course of this
    package, without a workbook where that is packed. Raises CourseError where there is none, and where another version
    of torchkata is asked for.
    """
    folder = _resolved(start)
    try:
        place = next(filter(None, (_at(one) for one in upwards(folder))), None) or _at(folder / USUAL)
        if place is None and is_course(course_of_package()):
            place = Place(course_of_package())
    except OSError as error:
        raise CourseError(f"{error.filename or folder} cannot be looked into: {error.strerror or error}.") from None
    if place is None:
        raise CourseError(
            f"No course here: neither {folder} nor a folder above it holds {MARK} and notebooks/, and this torchkata "
            "was installed without them. Change to the folder of the course and try again."
        )
    _need_one_version(place)
    return place


def place_for(folder: Path | None) -> Place:
    """The place of a workbook that may have to be made: in `folder`, or without one where we are, else in torchkata/.

    A folder that holds a course stands for its workbook/. Raises CourseError where the folder holds something else,
    is no folder, or lies in a workbook; nothing is changed.
    """
    if folder is None:
        where = here()
        if where.has_workbook:
            return where
        folder = Path.cwd() / USUAL
    folder = _resolved(folder.expanduser())
    try:
        place = _at(folder)
        if place is None:
            _need_room_for_a_workbook(folder)
            place = Place(course_of_package(), folder)
    except OSError as error:
        raise CourseError(f"{folder} cannot be a workbook: {error.strerror or error}. Name another folder.") from None
    _need_one_version(place)
    return place


def need_empty(folder: Path) -> None:
    """Raises CourseError for a folder that holds something, names with a dot left aside, and OSError for a file."""
    if folder.exists() and (held := sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))):
        few = ", ".join(held[:3]) + (", ..." if len(held) > 3 else "")
        raise CourseError(f"{folder} holds other things already ({few}). Name an empty folder, or one to be made.")


def note_version(workbook: Path) -> None:
    """Note in a workbook that this torchkata has written there. Raises OSError."""
    path = workbook / KEPT / NOTED
    if _noted(workbook) != __version__:
        path.write_text(f"{__version__}\n", encoding="utf-8")


def _resolved(folder: Path | None) -> Path:
    try:
        return (folder or Path.cwd()).resolve()
    except FileNotFoundError:
        raise CourseError("The folder that you are in no longer exists. Change to the folder of the course.") from None


def _at(folder: Path) -> Place | None:
    """The place that a folder itself makes, if any."""
    if is_workbook(folder):
        root = course_of(folder)
        return Place(root, None if folder == root / BESIDE else folder)
    return Place(folder) if is_course(folder) else None


def _need_room_for_a_workbook(folder: Path) -> None:
    if outer := next((one for one in folder.parents if is_workbook(one)), None):
        raise CourseError(f"{folder} lies in the workbook {outer}. Name a folder outside of it, or leave the name out.")
    need_empty(folder)


# ---------------------------------------------------------------- versions


def _need_one_version(place: Place) -> None:
    """Raises CourseError where a checkout is another torchkata than the one that runs, or a newer one has written into
    the workbook: its releases would be taken back."""
    ours = Version(__version__)
    checkout = place.root / "src" / "torchkata" / "__init__.py"
    if (found := _version_in(checkout)) and checkout.parent.resolve() != PACKAGE and found != ours:
        raise CourseError(
            f"{place.root} is torchkata {found}, but the one that runs is torchkata {ours} in {PACKAGE}. "
            "Run the torchkata in its .venv, or change to another folder."
        )
    if place.has_workbook and (noted := _version(_noted(place.workbook))) and noted > ours:
        raise CourseError(
            f"The workbook {place.workbook} is of torchkata {noted}, and this is torchkata {ours} in {PACKAGE}. "
            "Take the newer one: pip install --upgrade torchkata (in a checkout: git pull)."
        )


def _version_in(module: Path) -> Version | None:
    with suppress(OSError, UnicodeDecodeError):
        if found := re.search(r'^__version__ = "(.+)"', module.read_text(encoding="utf-8"), re.M):
            return _version(found[1])
    return None


def _noted(workbook: Path) -> str:
    """The version noted in a workbook; "" for none."""
    with suppress(OSError, UnicodeDecodeError):
        return (workbook / KEPT / NOTED).read_text(encoding="utf-8").strip()
    return ""


def _version(text: str) -> Version | None:
    """None for what is no version: a note that was damaged counts as none."""
    with suppress(InvalidVersion):
        return Version(text)
    return None
