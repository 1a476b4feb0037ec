"""Where the course lies, and where its learner works: two folders, which are told apart here and nowhere else.

A course is a folder with notebooks/, solutions/ and nbgrader_config.py: a checkout, a class folder of a teacher's, or
the one in the installed package. A workbook is a folder that holds `.torchkata`, and may lie anywhere. That of a
checkout or class folder is its workbook/; to any other belongs the course of the package that runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

KEPT = ".torchkata"  # in the workbook: what the course keeps beside the learner's notebooks
MARK = "nbgrader_config.py"
BESIDE = "workbook"  # the workbook of a checkout or class folder, in it
MOST_BELOW = 2000  # files and folders that are looked at for a workbook below
PACKAGE = Path(__file__).resolve().parents[1]
PACKED = PACKAGE / "course"  # in an installed package: notebooks/ and solutions/; missing where a checkout is installed


def course_of_package() -> Path:
    """The course that came with this package, or the checkout that it was installed from in place."""
    return PACKED if PACKED.is_dir() else PACKAGE.parents[1]


def is_course(folder: Path) -> bool:
    """Whether a folder is a checkout, a class folder or the course of a package. Raises OSError."""
    return (folder / MARK).is_file() and (folder / "notebooks").is_dir()


def is_workbook(folder: Path) -> bool:
    """Whether a folder is a learner's workbook. Raises OSError."""
    return (folder / KEPT).is_dir()


def links_in(workbook: Path) -> Iterator[Path]:
    """The links in what the course keeps in a workbook, itself included. The course makes none: through those of a
    stranger it would write elsewhere."""
    kept = workbook / KEPT
    if kept.is_symlink():
        yield kept
    for folder, folders, files in os.walk(kept):
        yield from (path for path in map(Path(folder).joinpath, [*folders, *files]) if path.is_symlink())


def upwards(folder: Path) -> Iterator[Path]:
    """A folder and those above it, the nearest first."""
    yield from (folder, *folder.parents)


def workbook_with(folder: Path) -> Path | None:
    """The workbook that holds a folder, or None."""
    try:
        return next((one for one in upwards(folder) if is_workbook(one)), None)
    except OSError:
        return None


def workbook_below(folder: Path) -> Path | None:
    """The only workbook at most two levels below a folder; None where there is none, or several."""
    found: list[Path] = []
    below = islice((one for pattern in ("*", "*/*") for one in folder.glob(pattern)), MOST_BELOW)
    try:
        for one in below:
            if is_workbook(one) and not any(outer in one.parents for outer in found):
                found.append(one)
    except OSError:  # a folder that may not be read
        return None
    return found[0] if len(found) == 1 else None


def course_of(workbook: Path) -> Path:
    """The course that a workbook belongs to; one that lies in another belongs to the same. Raises OSError."""
    beside = workbook.parent
    if workbook.name == BESIDE and is_course(beside):
        return beside
    return course_of(beside) if is_workbook(beside) else course_of_package()


def solutions_for(workbook: Path) -> Path | None:
    """The solutions of the course that a workbook belongs to, which hold the hidden tests; None where it came without
    them."""
    try:
        folder = course_of(workbook) / "solutions"
        return folder if folder.is_dir() else None
    except OSError:
        return None
