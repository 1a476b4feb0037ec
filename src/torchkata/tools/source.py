"""Read a chapter's source (jupytext percent format) into a notebook whose cells carry all that nbgrader needs."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter

import jupytext
from nbformat import NotebookNode

from torchkata.base.marks import GIVEN, HIDDEN, SOLUTION, marks_in, regions
from torchkata.base.shared_helpers import is_helpers
from torchkata.tools.assembling import ID, Source, SourceError, assembled, source_of
from torchkata.tools.course import Chapter

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
CELL_KEYS = {"setup", "answer", "helpers", "check", "points", "facts", "varies", "shows_warning", "tags"}


def read_source(chapter: Chapter) -> NotebookNode:
    """The chapter's source as a notebook without outputs, with nbgrader metadata and derived cell ids.

    Raises SourceError for the first mistake of an author.
    """
    return _notebook(assembled(chapter), chapter.source.name)


def notebook_of(text: str, file: str) -> NotebookNode:
    """Like `read_source`, from the text of a source; `file` names it in messages."""
    return _notebook(source_of(text, file), file)


def _notebook(source: Source, file: str) -> NotebookNode:
    notebook = jupytext.reads(source.text, fmt="py:percent")
    if len(source.places) != len(notebook.cells):
        raise SourceError(f"{file}: the file must begin with a cell marker, such as `# %% [markdown]`.")
    for cell, (own_file, line) in zip(notebook.cells, source.places, strict=True):
        where = f"{own_file}, cell at line {line}"
        cell.metadata.pop("lines_to_next_cell", None)
        _check_keys(cell, where)
        _check_regions(cell, where)
        _add_nbgrader(cell, where)
    _number_checks(notebook, file)
    _add_ids(notebook, file)
    notebook.metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC), language_info=NotebookNode(name="python"))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _check_keys(cell: NotebookNode, where: str) -> None:
    if unknown := sorted(set(cell.metadata) - CELL_KEYS):
        raise SourceError(f"{where}: unknown key {unknown[0]!r}. The keys are {', '.join(sorted(CELL_KEYS))}.")
    if "check" in cell.metadata and "points" not in cell.metadata:
        raise SourceError(
            f"{where}: the check cell of {cell.metadata['check']!r} has no points. Add points=… to its line."
        )
    if "points" in cell.metadata and "check" not in cell.metadata:
        raise SourceError(f'{where}: only a check cell has points. Write check="the-id" points=… in its line.')
    for key in ("answer", "helpers", "check"):
        if key in cell.metadata and not ID.fullmatch(str(cell.metadata[key])):
            raise SourceError(f"{where}: {cell.metadata[key]!r} is no id. Use small letters, digits and dashes.")
    if cell.cell_type == "code":
        _check_syntax(cell, where)


def _check_syntax(cell: NotebookNode, where: str) -> None:
    try:
        ast.parse(cell.source)
    except SyntaxError as error:
        raise SourceError(
            f"{where}: {error.msg} (line {error.lineno} of the cell: {(error.text or '').strip()})"
        ) from None


def _check_regions(cell: NotebookNode, where: str) -> None:
    allowed = {SOLUTION: "answer", GIVEN: "answer", HIDDEN: "check"}
    for region, kind in allowed.items():
        begins = [mark.begins for mark in marks_in(cell.source) if mark.kind == region]
        if begins and kind not in cell.metadata:
            raise SourceError(f'{where}: {region} stands outside {kind} cells. Write {kind}="the-id" in its line.')
        if begins != [True, False] * (len(begins) // 2):
            raise SourceError(f"{where}: each `### BEGIN {region}` needs an `### END {region}` after it.")
    if "answer" in cell.metadata and not regions(cell.source, SOLUTION):
        raise SourceError(
            f"{where}: the answer cell {cell.metadata['answer']!r} has no solution region. "
            "Put the solution between `### BEGIN SOLUTION` and `### END SOLUTION`."
        )


def _add_nbgrader(cell: NotebookNode, where: str) -> None:
    meta: dict[str, object] = {"schema_version": 3, "task": False}
    if "answer" in cell.metadata:
        meta |= {"grade": False, "grade_id": cell.metadata.pop("answer"), "locked": False, "solution": True}
    elif "helpers" in cell.metadata:
        grade_id = f"{cell.metadata.pop('helpers')}-helpers"
        meta |= {"grade": False, "grade_id": grade_id, "locked": True, "solution": False}
    elif "check" in cell.metadata:
        meta |= {"grade": True, "grade_id": cell.metadata.pop("check"), "locked": True, "solution": False}
        meta["points"] = cell.metadata.pop("points")
    else:
        return
    if meta["locked"]:
        cell.metadata["jupyter"] = NotebookNode(source_hidden=True)  # JupyterLab folds it to its first line
    cell.metadata["nbgrader"] = NotebookNode(meta)


def _number_checks(notebook: NotebookNode, file: str) -> None:
    """Check cells get grade ids of their own, derived from their exercise: one-hot-check, one-hot-check-2, ..."""
    answers: list[str] = []
    count: Counter[str] = Counter()
    for cell in notebook.cells:
        meta = cell.metadata.get("nbgrader")
        if not meta:
            continue
        if meta.solution:
            if meta.grade_id in answers:
                raise SourceError(f"{file}: the id {meta.grade_id!r} is used by two answer cells. Rename one of them.")
            answers.append(meta.grade_id)
            continue
        if is_helpers(meta):
            continue
        if not answers or meta.grade_id != answers[-1]:
            raise SourceError(
                f"{file}: the check cell of {meta.grade_id!r} does not follow that exercise's answer cell. "
                "Move it behind the answer cell, or mend its id."
            )
        count[meta.grade_id] += 1
        number = count[meta.grade_id]
        meta.grade_id = f"{meta.grade_id}-check" + (f"-{number}" if number > 1 else "")
    if unchecked := [answer for answer in answers if not count[answer]]:
        raise SourceError(f"{file}: the exercise {unchecked[0]!r} has no check cell. Add one behind its answer cell.")


def _add_ids(notebook: NotebookNode, file: str) -> None:
    seen: set[str] = set()
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        name = base = (grade_id or f"{cell.cell_type}-{digest}")[:60]
        number = 1
        while name in seen:
            number += 1
            name = f"{base}-{number}"
        seen.add(name)
        cell.id = name
