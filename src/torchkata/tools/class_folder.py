"""Make the folder in which a teacher runs a class: release, sources, settings, notes, a page on how to go on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from torchkata import __version__
from torchkata.base.places import MARK, course_of_package, is_course
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import need_empty

README = Path(__file__).parent / "grading" / "handed_out" / "class_folder.md"
SETTINGS = README.with_name("class.yaml")
TEACHING = ("docs/plans.md", "docs/notes.md")
PATTERNS = (
    "notebooks/*/*",
    "solutions/*/*.py",
    "solutions/*/*.ipynb",
    "solutions/*/exercises/*.py",
    "solutions/*/ways/*.py",
    MARK,
    *TEACHING,
)


def make_class_folder(folder: Path) -> int:
    """Copy the course of this package into a folder that is empty or not there yet; returns how many files came.

    Raises CourseError, and changes nothing, where the folder holds something; also where it cannot be written.
    """
    course, folder = course_of_package(), folder.expanduser().resolve()
    if not is_course(course):
        raise CourseError("This torchkata was installed without its course. Install it anew: pip install torchkata")
    try:
        need_empty(folder)
        files = list(_files(course))
        for file in files:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(course / file, target)
        shutil.copyfile(SETTINGS, folder / SETTINGS.name)
        text = README.read_text(encoding="utf-8").replace("VERSION", __version__)
        (folder / "README.md").write_text(text, encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{folder} cannot be written: {error.strerror or error}. Name another folder.") from None
    return len(files)


def _files(course: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from (path.relative_to(course) for path in sorted(course.glob(pattern)) if path.is_file())
