"""Make the autograder of one chapter for Gradescope: a folder, and the zip file of it that is uploaded there.

It holds all that is needed but the packages from PyPI: the course's own package, a class folder with this chapter,
setup.sh, which Gradescope runs once, and run_autograder, which it runs for each submission.
"""

from __future__ import annotations

import shutil
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from torchkata.base.places import MARK, PACKAGE, PACKED
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import need_empty

SCRIPTS = Path(__file__).parent / "grading" / "handed_out"
EXTRA = "classroom"


def make_autograder(folder: Path, chapter: Chapter) -> Path:
    """Write the autograder of a chapter into a folder that is empty or not there yet; the zip file beside it.

    Raises CourseError, and changes nothing, where the folder or the zip file holds something; also where they can't be
    written.
    """
    folder = folder.expanduser().resolve()
    archive = folder.with_name(f"{folder.name}.zip")
    try:
        need_empty(folder)
        if archive.exists():
            raise CourseError(f"{archive} is there already. Move it away, or name another folder.")
        _copy_class(chapter, folder / "class")
        shutil.copytree(PACKAGE, folder / "package" / PACKAGE.name, ignore=_left_out)
        (folder / "requirements.txt").write_text(requirements(), encoding="utf-8")
        for script, name in (("gradescope_setup.sh", "setup.sh"), ("gradescope_run.sh", "run_autograder")):
            text = (SCRIPTS / script).read_text(encoding="utf-8").replace("CHAPTER", chapter.name)
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
            (folder / name).chmod(0o755)
        shutil.make_archive(str(folder), "zip", folder)
    except OSError as error:
        raise CourseError(f"{folder} cannot be written: {error.strerror or error}. Name another folder.") from None
    return archive


def requirements() -> str:
    """What torchkata asks for in order to grade, in the versions that are installed here."""
    asked = [Requirement(text) for text in requires("torchkata") or []]
    needed = {one.name for one in asked if one.marker is None or one.marker.evaluate({"extra": EXTRA})}
    return "".join(f"{name}=={Version(version(name)).public}\n" for name in sorted(needed, key=str.lower))


def _copy_class(chapter: Chapter, folder: Path) -> None:
    for file in (chapter.root / MARK, chapter.release, chapter.solution):
        target = folder / file.relative_to(chapter.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Of the package what no grader needs, and the course that comes with it."""
    return {name for name in names if name == "__pycache__" or Path(folder, name) == PACKED}
