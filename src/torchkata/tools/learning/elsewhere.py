"""Notebooks that were solved outside the workbook, as on Colab or Kaggle: found, told apart by the exercises in them,
and reduced to what the learner wrote."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from torchkata.tools.colab import INSTALLING
from torchkata.tools.course import Chapter, first_line
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.damaged import parsed
from torchkata.tools.learning.merging import is_answer


def chapters_solved(paths: Iterable[Path], known: list[Chapter]) -> list[tuple[Chapter, NotebookNode]]:
    """The chapter of each notebook, and the notebook. A folder means the notebooks in it that belong to the course.

    Raises CourseError for a file that is not there, is no notebook, or holds no exercise of the course; also for a
    folder without such a notebook.
    """
    found = []
    for path in paths:
        notebooks = sorted(path.glob("*.ipynb")) if path.is_dir() else [path]
        ours = [pair for one in notebooks if (pair := _chapter_of(one, known))]
        if not ours:
            raise CourseError(f"{path} holds no exercise of the course, so there is nothing to take from it.")
        found += ours
    return found


def written_there(notebook: NotebookNode, base: NotebookNode, release: NotebookNode) -> NotebookNode:
    """A notebook in which only answers and cells of the learner's own differ from the release that their copy came from
    (base), or else from the newest one. Colab keeps a cell's id in its metadata."""
    texts = {cell.id: cell for cell in [*release.cells, *base.cells]}
    result = deepcopy(notebook)
    for cell in result.cells:
        if (told := cell.metadata.get("id")) in texts or told == INSTALLING:
            cell.id = told
        if cell.id in texts and not is_answer(cell):
            cell.source = texts[cell.id].source
    result.cells = [cell for cell in result.cells if cell.id != INSTALLING]
    return result


def _chapter_of(path: Path, known: list[Chapter]) -> tuple[Chapter, NotebookNode] | None:
    """The chapter that a notebook has the most answer cells of, and the notebook; None where it has none."""
    try:
        notebook = parsed(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise CourseError(f"{path} does not exist.") from None
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # nbformat raises many kinds, from JSON to schema errors
        raise CourseError(f"{path} is not a readable notebook: {first_line(error)}") from None
    answered = {cell.metadata.nbgrader.grade_id for cell in notebook.cells if is_answer(cell)}
    shared = {chapter: len(answered & {exercise.id for exercise in chapter.exercises}) for chapter in known}
    chapter = max(known, key=shared.__getitem__)
    return (chapter, notebook) if shared[chapter] else None
