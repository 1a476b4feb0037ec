"""Read a learner's notebook whatever has happened to it: tell a conflict's sides apart, explain other damage."""

from __future__ import annotations

import re
from datetime import datetime

import nbformat
from nbformat import NotebookNode

from torchkata.tools.course import Chapter, CourseError, read_notebook

MARKER = re.compile(r"^<{7}( |$)", re.M)
CONFLICT = re.compile(
    r"^<{7}[^\n]*\n(?P<ours>.*?)(?:^\|{7}[^\n]*\n.*?)?^={7}\n(?P<theirs>.*?)^>{7}[^\n]*\n?", re.M | re.S
)


def read_sides(chapter: Chapter) -> list[NotebookNode]:
    """The learner's notebook; where git's conflict markers stand in it, each side that can be read, ours first.

    Raises CourseError, with what to do, when nothing can be read.
    """
    text = _text_of(chapter)
    if not MARKER.search(text):
        return [read_learners(chapter)]
    sides = [CONFLICT.sub(lambda found, side=side: found[side], text) for side in ("ours", "theirs")]
    readable = [notebook for side in sides if (notebook := _parsed(side))]
    if not readable:
        raise CourseError(_advice(chapter, "git's conflict markers stand in it, and neither side is a notebook"))
    return readable


def read_learners(chapter: Chapter) -> NotebookNode:
    """The learner's notebook. Raises CourseError, with what to do, when it cannot be read."""
    if MARKER.search(_text_of(chapter)):
        raise CourseError(
            f"{chapter.workbook} holds git's conflict markers. `torchkata update {chapter.number}` puts the two sides "
            "together and keeps the file as it is among the backups."
        )
    try:
        return read_notebook(chapter.workbook)
    except CourseError as error:
        raise CourseError(_advice(chapter, str(error).partition(" notebook: ")[2])) from None


def _text_of(chapter: Chapter) -> str:
    try:
        return chapter.workbook.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise CourseError(
            f"{chapter.name} is not in your workbook yet. Run `torchkata lab`: it puts the chapters there."
        ) from None
    except OSError as error:
        raise CourseError(f"{chapter.workbook} cannot be read: {error.strerror}.") from None


def _parsed(text: str) -> NotebookNode | None:
    try:
        return nbformat.reads(text, as_version=4)
    except Exception:  # nbformat raises many kinds, from JSON to schema errors
        return None


def _advice(chapter: Chapter, reason: str) -> str:
    path = chapter.workbook
    checkpoint = path.parent / ".ipynb_checkpoints" / f"{path.stem}-checkpoint.ipynb"
    advice = (
        f"{path} is not a readable notebook: {reason}\nIt stays as it is. To go on with a fresh copy, rename it and "
        "run `torchkata lab`; what you wrote can be copied over from it with a text editor."
    )
    if checkpoint.exists():
        saved = datetime.fromtimestamp(checkpoint.stat().st_mtime)
        advice += f"\nJupyterLab kept a copy at {saved:%Y-%m-%d %H:%M}: {checkpoint}. Put it in the place of the other."
    return advice
