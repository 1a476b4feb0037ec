"""The learner's own copies of the chapters: put them into the workbook, and write there without losing anything.

Beside the notebooks, .torchkata/ in the workbook keeps the release that each copy was made from, backups, and verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from torchkata.base.places import KEPT, links_in
from torchkata.base.writing import write_whole
from torchkata.tools.course import Chapter, chapters, read_unchecked, side_notebooks
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place, note_version

if TYPE_CHECKING:
    from nbformat import NotebookNode

ASSISTANTS = Path(__file__).with_name("assistants.md")  # how an AI assistant can help without solving
PATIENCE = 10  # seconds that a command waits for another one that writes into the workbook


@dataclass(frozen=True)
class Placed:
    """What happened to a chapter: "copied", "kept", or "outdated" (kept, though a newer release is there)."""

    chapter: Chapter
    state: str


def release_of_copy(chapter: Chapter) -> Path:
    """Where the release is kept that the learner's copy was made from; missing for a copy of unknown origin."""
    return chapter.place.workbook / KEPT / "releases" / f"{chapter.name}.ipynb"


def release_worked_on(chapter: Chapter) -> NotebookNode:
    """The release that the learner's copy was made from; the newest where that is not known.

    Raises CourseError where it cannot be read.
    """
    origin = release_of_copy(chapter)
    return read_unchecked(origin if origin.exists() else chapter.release)


def fill_workbook(place: Place) -> list[Placed]:
    """Copy each released chapter and page that is not in the workbook yet, and a page for AI assistants; a file that is
    there is never touched.

    Raises CourseError when the workbook cannot be written.
    """
    released = [chapter for chapter in [*side_notebooks(place), *chapters(place)] if chapter.release.is_file()]
    with writing(place):
        _put_new(place.workbook / "AGENTS.md", ASSISTANTS.read_bytes())
        _put_new(place.workbook / "CLAUDE.md", b"@AGENTS.md\n")  # reads no AGENTS.md by itself
        return [_place(chapter) for chapter in released]


@contextmanager
def writing(place: Place) -> Iterator[None]:
    """Alone write into the workbook, which is made if need be.

    Raises CourseError when the workbook cannot be written, has a link in what the course keeps there, or another
    command writes there for more than 10 seconds.
    """
    from filelock import FileLock, Timeout  # asyncio comes with it

    folder = place.workbook
    try:
        (folder / KEPT).mkdir(parents=True, exist_ok=True)
        if link := next(links_in(folder), None):
            raise CourseError(f"{link} is a link, which torchkata doesn't write through. Remove it, then try again.")
        with FileLock(folder / KEPT / "lock", timeout=PATIENCE):
            note_version(folder)
            yield
    except Timeout:
        raise CourseError(
            f"Another command is writing into the workbook {folder}. Wait until it has ended, then try again."
        ) from None
    except OSError as error:
        raise CourseError(
            f"The workbook {folder} cannot be written: {error.strerror or error}. Nothing of yours is lost. "
            "Make it a folder on a disk with room, one that you may write to, then try again."
        ) from None


def put(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and what a link leads to. Raises OSError; the old file stays then."""
    write_whole(path.resolve() if path.is_symlink() else path, content)


def put_notebook(path: Path, notebook: NotebookNode) -> None:
    """Write a notebook whole or not at all. Raises OSError; the old file stays then."""
    import nbformat

    put(path, f"{nbformat.writes(notebook)}\n".encode(errors="replace"))  # half a surrogate pair has no bytes


def back_up(chapter: Chapter) -> Path:
    """Copy the learner's notebook, as it is, into the workbook's backups; returns where to. Raises OSError."""
    folder = chapter.place.workbook / KEPT / "backups" / chapter.name
    name = f"{datetime.now():%Y-%m-%d_%H%M%S}"
    taken = {path.stem for path in folder.glob("*.ipynb")}
    free = next(n for n in [name, *(f"{name}-{k}" for k in range(2, 1000))] if n not in taken)
    path = folder / f"{free}.ipynb"
    put(path, chapter.workbook.read_bytes())
    return path


def _place(chapter: Chapter) -> Placed:
    """Copy a chapter's files that are not there yet, and keep the release that they come from."""
    release, origin = chapter.release.read_bytes(), release_of_copy(chapter)
    if chapter.workbook.exists() or chapter.workbook.is_symlink():  # also a link that leads nowhere just now
        outdated = origin.exists() and origin.read_bytes() != release
        return Placed(chapter, "outdated" if outdated else "kept")
    put(origin, release)
    for file in sorted(chapter.release.parent.iterdir()):
        if file.is_file():
            _put_new(chapter.workbook.parent / file.name, file.read_bytes())
    return Placed(chapter, "copied")


def _put_new(path: Path, content: bytes) -> None:
    if not path.exists() and not path.is_symlink():
        put(path, content)
