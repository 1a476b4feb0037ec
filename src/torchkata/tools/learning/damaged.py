"""Read a learner's notebook whatever has happened to it: tell a conflict's sides apart, explain other damage."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_raw_cell

from torchkata.tools.course import Chapter, first_line
from torchkata.tools.errors import CourseError

CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MARKER = re.compile(r"^<{7}( |$)", re.M)
CONFLICT = re.compile(
    r"^<{7}[^\n]*\n(?P<ours>.*?)(?:^\|{7}[^\n]*\n.*?)?^={7}\n(?P<theirs>.*?)^>{7}[^\n]*\n?", re.M | re.S
)


@dataclass(frozen=True)
class Sides:
    """A learner's notebook; of one with git's conflict markers each side that can be read, ours first."""

    notebooks: list[NotebookNode]
    in_conflict: bool = False

    @property
    def note(self) -> str:
        """What to tell of the conflict; "" where there was none."""
        if not self.in_conflict:
            return ""
        if len(self.notebooks) > 1:
            return "Two versions of it were in conflict. Both are in it now."
        return "Of two versions in conflict one could not be read: only the other is in it now. The backup holds both."


def read_sides(chapter: Chapter) -> Sides:
    """The learner's notebook, or the two sides of a conflict.

    Raises CourseError, with what to do, when nothing can be read.
    """
    text = _text_of(chapter)
    if not MARKER.search(text):
        return Sides([_read(chapter, text)])
    readable = []
    for side in ("ours", "theirs"):
        with suppress(Exception):
            readable.append(parsed(_one_side(text, side)))
    if not readable:
        raise CourseError(_advice(chapter, "git's conflict markers stand in it, and neither side is a notebook"))
    return Sides(readable, in_conflict=True)


def read_learners(chapter: Chapter) -> NotebookNode:
    """The learner's notebook. Raises CourseError, with what to do, when it cannot be read."""
    text = _text_of(chapter)
    if MARKER.search(text):
        raise CourseError(
            f"{chapter.workbook} holds git's conflict markers. `torchkata update {chapter.number}` puts the two sides "
            "together and keeps the file as it is among the backups."
        )
    return _read(chapter, text)


def _one_side(text: str, side: str) -> str:
    return CONFLICT.sub(lambda found: found[side], text)


def _text_of(chapter: Chapter) -> str:
    try:
        text = chapter.workbook.read_text(encoding="utf-8-sig")
        return text.rstrip("\0")  # where the system went down while the file was written
    except FileNotFoundError:
        raise CourseError(
            f"{chapter.name} is not in your workbook yet. Run `torchkata lab`: it puts the chapters there."
        ) from None
    except OSError as error:
        raise CourseError(f"{chapter.workbook} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CourseError(_advice(chapter, "it is not text in UTF-8")) from None


def _read(chapter: Chapter, text: str) -> NotebookNode:
    try:
        return parsed(text)
    except Exception as error:  # nbformat raises many kinds, from JSON to schema errors
        raise CourseError(_advice(chapter, first_line(error))) from None


def parsed(text: str) -> NotebookNode:
    """The notebook in a text, in which each cell has what its kind needs. Raises whatever nbformat raises."""
    with warnings.catch_warnings(action="ignore"):  # of cells without ids, or with one id for two
        return _mended(nbformat.reads(text, as_version=4))


def _mended(notebook: NotebookNode) -> NotebookNode:
    """A notebook in which each cell has what its kind needs: other programs leave out or invent parts, and nbformat
    reads them all the same. What a learner wrote stays."""
    for cell in notebook.cells:
        if cell.get("cell_type") not in ("code", "markdown", "raw"):
            cell.cell_type = "raw"
        if not isinstance(cell.get("source"), str):
            cell.source = ""
        if cell.cell_type == "code":
            cell.setdefault("execution_count", None)
            cell.outputs = [out for out in cell.get("outputs") or [] if isinstance(out, dict)]
        else:
            cell.pop("outputs", None)
            cell.pop("execution_count", None)
        if "id" in cell and not (isinstance(cell.id, str) and CELL_ID.fullmatch(cell.id)):
            del cell["id"]
        meta = cell.metadata.get("nbgrader")
        if not (isinstance(meta, dict) and isinstance(meta.get("grade_id"), str)):
            cell.metadata.pop("nbgrader", None)
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        notebook.nbformat, notebook.nbformat_minor = 4, 5  # the first with ids
    for cell in notebook.cells:
        cell.setdefault("id", new_raw_cell("").id)
    return notebook


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
