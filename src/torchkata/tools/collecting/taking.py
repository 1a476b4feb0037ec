"""Put a notebook that was handed in where nbgrader and `torchkata grade` look for it.

What was there before stays, unless this one is newer. It is never deleted: it moves to replaced/.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from torchkata.tools.collecting.errors import NotTaken
from torchkata.tools.course import Chapter
from torchkata.tools.grading.desk import folders_in
from torchkata.tools.grading.handed_out.roster import one_form
from torchkata.tools.grading.timestamps import TIMESTAMP, read_timestamp
from torchkata.tools.grading.unwrapping import NoNotebook, notebook_in

REPLACED = "replaced"
What = Literal["new", "newer", "the same", "kept", "not taken"]


@dataclass(frozen=True)
class Outcome:
    """What became of one submission, or of a source without one. handed_in: UTC, naive."""

    source: str
    what: What
    why: str = ""
    student: str = ""
    chapter: str = ""
    handed_in: datetime | None = None


def stage(folder: Path, chapter: Chapter, content: bytes, when: datetime | None) -> None:
    """Write a submission into a new folder. The time is in nbgrader's own form."""
    folder.mkdir(parents=True)
    if when is not None:
        (folder / TIMESTAMP).write_text(f"{when:%Y-%m-%d %H:%M:%S} UTC\n", encoding="utf-8")
    (folder / f"{chapter.topic}.ipynb").write_bytes(content)


def take(staged: Path, chapter: Chapter, student: str, zone: str, replace: bool) -> tuple[What, str]:
    """Move a staged submission to submitted/STUDENT/CHAPTER, unless an earlier one stays; what was done, and why.

    `zone` is the class's time zone, as in `read_timestamp`; with `replace` an earlier one never stays. Raises NotTaken.
    """
    target = _folder_for(chapter, student)
    for place in (target.parent, target):
        if place.is_symlink():
            raise NotTaken(f"{place.relative_to(chapter.root)} is a symbolic link. Links are not followed.")
    if not target.exists() or not any(target.iterdir()):
        return _move(staged, target, "new", "")
    if _notebook(staged, chapter) == _notebook(target, chapter):
        return "the same", ""
    ours, theirs = (read_timestamp(folder, zone)[0] for folder in (staged, target))
    if not replace and (why := _not_newer(ours, theirs)):
        return "kept", f"{why} --replace takes this one."
    aside = _free(chapter.root / REPLACED / target.parent.name / chapter.name, theirs)
    aside.parent.mkdir(parents=True, exist_ok=True)
    target.rename(aside)
    return _move(staged, target, "newer", f"The earlier one is in {aside.relative_to(chapter.root).as_posix()}.")


def _not_newer(ours: datetime | None, theirs: datetime | None) -> str:
    """Why a submission doesn't take the place of an earlier one; "" where it does."""
    if theirs is None:
        return f"Another notebook is there, without a {TIMESTAMP}, so that nothing says which is newer."
    if ours is None:
        return "Another notebook is there, and nothing says when this one was handed in."
    return "" if ours > theirs else f"The notebook that is there was handed in at {theirs} UTC, which is not earlier."


def _move(staged: Path, target: Path, what: What, why: str) -> tuple[What, str]:
    if target.exists():  # and empty
        target.rmdir()
    target.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(target)
    return what, why


def _folder_for(chapter: Chapter, student: str) -> Path:
    """The student's folder as it is already called, if macOS or another system wrote the accents in another way."""
    name = next((name for name in folders_in(chapter) if one_form(name) == one_form(student)), student)
    return chapter.root / "submitted" / name / chapter.name


def _notebook(folder: Path, chapter: Chapter) -> bytes | None:
    try:
        return notebook_in(folder, f"{chapter.topic}.ipynb", [])
    except NoNotebook:
        return None


def _free(folder: Path, when: datetime | None) -> Path:
    """A name in the folder that is not used yet, by the time of what goes there."""
    name = f"{when or datetime.now(UTC):%Y-%m-%d_%H.%M.%S}"
    names = [name, *(f"{name}_{number}" for number in range(2, 1000))]
    return next(folder / one for one in names if not (folder / one).exists())
