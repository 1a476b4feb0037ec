"""Build chapters: source → executed solution → release.

Building twice gives the same bytes on any machine: cell ids are derived, outputs hold no addresses, paths or times,
and a cell that prints one fails the build. An executed solution remembers digests of its source and of each of its
cells, so that a changed source and a hand-edited notebook are noticed without running anything.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from torchkata.base.writing import write_whole
from torchkata.pictures.image import for_viewers
from torchkata.pictures.page import without_scripts
from torchkata.tools.assembling import assembled
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.release import released
from torchkata.tools.source import read_source

CELL_TIMEOUT = 120  # seconds; a cell of a chapter takes under 10 on a small machine
WARNINGS_ARE_ERRORS = (
    "import warnings\n"
    "for _category in (DeprecationWarning, FutureWarning):\n"
    "    warnings.simplefilter('error', _category)\n"
    "del _category, warnings"
)
UNSTABLE = re.compile(r"\b0x[0-9a-f]{6,}|ipykernel_\d+|/tmp/|/home/|/Users/|/root/|[A-Z]:\\\\Users", re.I)

Progress = Callable[[int, int], None]


class BuildError(CourseError):
    """A chapter can't be built; the message names the chapter, the cell and the error."""


def stale(chapter: Chapter) -> str | None:
    """Why a chapter needs a build, in words; None when its notebooks are what its source makes.

    Raises SourceError for a mistake in the source.
    """
    source = read_source(chapter)
    if not chapter.solution.exists() or not chapter.release.exists():
        return "not built yet"
    solution = read_notebook(chapter.solution)
    stamp = solution.metadata.get("torchkata", {})
    if stamp.get("source") != _digest_of_source(chapter):
        return "the source has changed"
    if edited := _edited_cell(source, solution, stamp):
        return f"{_relative(chapter.solution, chapter)} was edited by hand at {edited}"
    if edited := _edited_release(chapter, solution):
        return f"{_relative(chapter.release, chapter)} was edited by hand at {edited}"
    return None


def build(chapter: Chapter, progress: Progress = lambda done, total: None) -> None:
    """Build a chapter's solution and release. On any error the old notebooks stay as they are.

    Raises SourceError or BuildError.
    """
    notebook = read_source(chapter)
    execute(notebook, chapter, progress)
    for cell in notebook.cells:
        _check_outputs(cell, chapter)
    notebook.metadata["torchkata"] = NotebookNode(source=_digest_of_source(chapter), cells=_digests(notebook))
    text = nbformat.writes(notebook) + "\n"
    release = released(chapter, text)
    write_whole(chapter.solution, text)
    write_whole(chapter.release, release)


def execute(notebook: NotebookNode, chapter: Chapter, progress: Progress) -> None:
    """Run all cells in a fresh kernel, with deprecation and future warnings as errors; store normalised outputs."""
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=CELL_TIMEOUT, resources={"metadata": {"path": folder}})
        client.store_widget_state = False
        client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]  # else each kernel warns about its loopback sockets
        with client.setup_kernel():
            notebook.cells.append(nbformat.v4.new_code_cell(WARNINGS_ARE_ERRORS))
            client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1, store_history=False)
            notebook.cells.pop()
            for index, cell in enumerate(notebook.cells):
                progress(index, len(notebook.cells))
                _execute_cell(client, cell, index, chapter)
    progress(len(notebook.cells), len(notebook.cells))
    notebook.metadata.pop("widgets", None)
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        cell.outputs = _normalised(cell.outputs, number)


def _execute_cell(client: NotebookClient, cell: NotebookNode, index: int, chapter: Chapter) -> None:
    try:
        client.execute_cell(cell, index)
    except CellExecutionError as error:
        raise BuildError(f"{_place(chapter, cell)} failed.\n  {error.ename}: {_few_lines(error.evalue)}") from None
    except CellTimeoutError:
        raise BuildError(f"{_place(chapter, cell)} took more than {CELL_TIMEOUT} seconds.") from None
    except DeadKernelError:
        raise BuildError(f"{_place(chapter, cell)} ended its kernel.") from None


def _few_lines(text: str) -> str:
    return "\n  ".join(text.strip().splitlines()[:6])


def _place(chapter: Chapter, cell: NotebookNode) -> str:
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"{chapter.name}, cell {cell.id} ({first.strip()[:60]})"


# ---------------------------------------------------------------- outputs


def _normalised(outputs: list[NotebookNode], number: int) -> list[NotebookNode]:
    """Outputs that are the same on each run: streams merged, pictures without scripts, as most viewers show them.

    Nobody runs these here: who opens a built notebook sees the picture, and the website has one script for all.
    """
    merged: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and merged and merged[-1].get("name") == output.name:
            merged[-1].text += output.text
            continue
        if output.output_type in ("display_data", "execute_result"):
            if (html := output.data.get("text/html", "")).startswith('<div class="torchkata-picture"'):
                output.data["text/html"] = for_viewers(without_scripts(html))
            output.pop("transient", None)
        if output.output_type == "execute_result":
            output.execution_count = number
        merged.append(output)
    return merged


def _check_outputs(cell: NotebookNode, chapter: Chapter) -> None:
    for output in cell.get("outputs", []):
        if output.get("name") == "stderr":
            raise BuildError(f"{_place(chapter, cell)} writes to stderr:\n  {_few_lines(output.text)}")
        if found := UNSTABLE.search(json.dumps(output)):
            raise BuildError(
                f"{_place(chapter, cell)} shows {found[0]!r}, which differs from run to run. "
                "Print something that is the same everywhere."
            )


# ---------------------------------------------------------------- digests


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _digest_of_source(chapter: Chapter) -> str:
    return _digest(assembled(chapter).text)


def _digests(notebook: NotebookNode) -> dict[str, str]:
    return {cell.id: _digest({k: v for k, v in cell.items() if k != "id"}) for cell in notebook.cells}


def _edited_cell(source: NotebookNode, solution: NotebookNode, stamp: dict) -> str | None:
    expected, found = stamp.get("cells", {}), _digests(solution)
    ids = [cell.id for cell in source.cells]
    for cell_id in ids:
        if cell_id not in found:
            return f"cell {cell_id}, which is missing"
        if found[cell_id] != expected.get(cell_id):
            return f"cell {cell_id}"
    return next((f"cell {cell_id}, which the source does not have" for cell_id in found if cell_id not in ids), None)


def _edited_release(chapter: Chapter, solution: NotebookNode) -> str | None:
    wanted = released(chapter, chapter.solution.read_text(encoding="utf-8"))
    text = chapter.release.read_text(encoding="utf-8")
    if wanted == text:
        return None
    cells, expected = read_notebook(chapter.release).cells, nbformat.reads(wanted, as_version=4).cells
    if [c.get("id") for c in cells] != [c.id for c in expected]:
        return "its list of cells"
    return next((f"cell {a.id}" for a, b in zip(cells, expected, strict=True) if a != b), "its metadata")


def _relative(path: Path, chapter: Chapter) -> str:
    return path.relative_to(chapter.root).as_posix()
