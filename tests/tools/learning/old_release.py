"""A release of the course from before its chapters were revised (commit 367e230, 2026-11-23), as a learner has it who
solved all of it: kept small, without the text of check cells and hints.

To keep another one: python -m tests.tools.learning.old_release CHECKOUT, with all of it built.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from torchkata.base.chapter import exercise_of
from torchkata.base.marks import authors_version
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.learning.news import HINTS
from torchkata.tools.learning.workbook import release_of_copy
from torchkata.tools.placing import Place

KEPT = Path(__file__).with_name("old_release.json.xz")


@dataclass(frozen=True)
class OldChapter:
    """A chapter of that release, and by exercise what its author answered."""

    name: str
    release: NotebookNode
    answers: dict[str, str]

    def put(self, chapter: Chapter, learners: NotebookNode) -> None:
        """Make the learner's copy of a chapter this one, and note that it came from this release."""
        for path, notebook in ((chapter.workbook, learners), (release_of_copy(chapter), self.release)):
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, path)


def old_chapters() -> list[OldChapter]:
    kept = json.loads(lzma.decompress(KEPT.read_bytes()))
    return [OldChapter(name, _notebook(one["cells"]), one["answers"]) for name, one in kept.items()]


def _notebook(kept: list[list[Any]]) -> NotebookNode:
    cells = []
    for kind, name, source, meta in kept:
        cell = (new_code_cell if kind == "code" else new_markdown_cell)(source, id=name)
        if meta:
            cell.metadata.nbgrader = NotebookNode(meta)
        cells.append(cell)
    return new_notebook(cells=cells)


def keep(checkout: Path) -> None:
    """Write down the release that is built in a checkout."""
    made = {}
    for chapter in chapters(Place(checkout)):
        release, solution = (nbformat.read(path, as_version=4) for path in (chapter.release, chapter.solution))
        cells = [
            [cell.cell_type, cell.id, _short(cell), dict(cell.metadata.get("nbgrader", {}))] for cell in release.cells
        ]
        answers = {
            exercise_of(cell): authors_version(cell.source)
            for cell in solution.cells
            if cell.metadata.get("nbgrader", {}).get("solution")
        }
        made[chapter.name] = {"cells": cells, "answers": answers}
    text = json.dumps(made, ensure_ascii=False).encode()
    KEPT.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def _short(cell: NotebookNode) -> str:
    if cell.metadata.get("nbgrader", {}).get("grade"):
        return ""
    return re.sub(r"\n{3,}", "\n\n", HINTS.sub("", cell.source)) if cell.cell_type == "markdown" else cell.source


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
