"""Bring the learner's copy of a chapter up to the newest release, with all that they wrote; mend a damaged copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from torchkata.base.chapter import is_checking
from torchkata.base.layout import without_layout
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.damaged import read_sides
from torchkata.tools.learning.elsewhere import written_there
from torchkata.tools.learning.merging import Merged, merge
from torchkata.tools.learning.workbook import back_up, put, put_notebook, release_of_copy, writing


@dataclass(frozen=True)
class Updated:
    """What became of a copy: "updated" (to a newer release), "mended" (of the same one) or "current" (left alone).

    answers: how many were carried over; own: how many cells of the learner's own were kept; notes: what else to know.
    """

    chapter: Chapter
    state: str
    answers: int = 0
    own: int = 0
    notes: tuple[str, ...] = ()
    backup: Path | None = None


def update(chapter: Chapter) -> Updated:
    """Make the learner's copy of a chapter the newest release with their answers and cells in it, after backing it up.

    A copy of the newest release is left alone unless answer or check cells of it are missing, copied, moved or changed
    in kind. Raises CourseError when the copy can't be read or the workbook can't be written; it stays as it is then.
    """
    with writing(chapter.place):
        sides = read_sides(chapter)
        release, origin = read_notebook(chapter.release), release_of_copy(chapter)
        newer = not origin.exists() or origin.read_bytes() != chapter.release.read_bytes()
        if not newer and not sides.in_conflict and _whole(sides.notebooks[0], release):
            return Updated(chapter, "current")
        merged = merge(_readable(origin), sides.notebooks, release)
        if not newer and not sides.in_conflict:
            merged.notes.insert(
                0, "Answer and check cells were missing, copied or moved. They are back in their places."
            )
        if sides.note:
            merged.notes.insert(0, sides.note)
        return _written(chapter, "updated" if newer else "mended", merged)


def bring(chapter: Chapter, other: NotebookNode) -> Updated:
    """Put what was written into another notebook of the chapter, as on Colab, into the learner's copy, which becomes
    the newest release as well. Where both answer an exercise, the copy's answer stays and the other one stands below.

    Raises CourseError as `update` does.
    """
    with writing(chapter.place):
        mine, release = read_sides(chapter).notebooks, read_notebook(chapter.release)
        base = _readable(release_of_copy(chapter))
        merged = merge(base, [*mine, written_there(other, base or release, release)], release)
        if _sources(merged.notebook) == _sources(mine[0]):
            return Updated(chapter, "current")
        return _written(chapter, "updated", merged)


def _written(chapter: Chapter, state: str, merged: Merged) -> Updated:
    """Put a merged notebook in the place of the learner's, after backing that up. Raises OSError."""
    backup = back_up(chapter)
    put_notebook(chapter.workbook, merged.notebook)
    put(release_of_copy(chapter), chapter.release.read_bytes())
    return Updated(chapter, state, merged.answers, merged.own, tuple(merged.notes), backup)


def _sources(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells]


def _readable(origin: Path) -> NotebookNode | None:
    """The release that a copy was made from; None where it is missing or damaged."""
    try:
        return read_notebook(origin)
    except CourseError:
        return None


def _whole(mine: NotebookNode, release: NotebookNode) -> bool:
    """Whether the answer and check cells are those of the release, in its order, whatever the layout of the checks."""
    return _graded(mine) == _graded(release)


def _graded(notebook: NotebookNode) -> list[tuple[object, str, str]]:
    return [
        (
            cell.metadata.nbgrader.get("grade_id"),
            cell.cell_type,
            without_layout(cell.source) if is_checking(cell) else "",
        )
        for cell in notebook.cells
        if "nbgrader" in cell.metadata
    ]
