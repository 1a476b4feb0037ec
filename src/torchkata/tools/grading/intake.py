"""Read what a student handed in. Whatever has happened to a notebook, the released chapter says what it means:
answers are taken by their exercise's id, the learner's own cells as code, and nothing else is taken."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from torchkata.base.layout import without_layout
from torchkata.base.shared_helpers import exercise_named
from torchkata.tools.course import Chapter
from torchkata.tools.grading.chapter import Release
from torchkata.tools.grading.reaching import suspect_lines
from torchkata.tools.grading.records import NotGradable, Submission, SubmittedCell
from torchkata.tools.grading.timestamps import read_timestamp
from torchkata.tools.grading.unwrapping import NoNotebook, listed, notebook_in, shown

MAX_CODE = 300_000  # characters in all code cells together
MAX_CELLS = 2000

_Taken = tuple[int, SubmittedCell]  # with its place in the notebook


class _Damaged(Exception):
    """A submission that can't be graded; the message says why."""


@dataclass(frozen=True)
class _Cell:
    """A cell as it was handed in, after its fields have been made sure of."""

    kind: str
    source: str
    grade_id: str | None


def read_submission(
    folder: Path, student: str, chapter: Chapter, release: Release, zone: str = "UTC"
) -> Submission | NotGradable:
    """Read the submission in `folder`, which is submitted/STUDENT/CHAPTER. Only its notebook and timestamp are read.

    `zone` is the class's time zone, as in `read_timestamp`.
    """
    notes: list[str] = []
    try:
        content = notebook_in(folder, f"{chapter.topic}.ipynb", notes)
    except NoNotebook as error:
        return NotGradable(student, chapter.name, str(error))
    timestamp, complaint = read_timestamp(folder, zone)
    digest = f"{release.digest}-{hashlib.sha256(f'{timestamp} '.encode() + content).hexdigest()}"
    try:
        cells = _cells_of(_notebook_from(content, notes), notes)
        taken = _taken(cells, release, notes)
    except _Damaged as error:
        return NotGradable(student, chapter.name, str(error), digest)
    notes += complaint + suspect_lines(taken)
    return Submission(student, chapter.name, taken, notes, digest, handed_in=str(timestamp or ""))


# ---------------------------------------------------------------- the file


def _notebook_from(content: bytes, notes: list[str]) -> dict:
    if not content.strip():
        raise _Damaged("The notebook is an empty file.")
    if content.endswith(bytes(4)):  # as no encoding ends a text: the system went down while the file was written
        content = content.rstrip(b"\0")
        notes.append("Zero bytes at the end of the notebook are left out.")
        if not content:
            raise _Damaged("The notebook holds nothing but zero bytes: the computer stopped while it was saved.")
    try:
        notebook = json.loads(content)
    except UnicodeDecodeError:
        raise _Damaged("The notebook is not text: it was saved in another format, or the file is damaged.") from None
    except (ValueError, RecursionError, MemoryError):
        conflict = re.search(rb"^<{7} ", content, re.M)
        why = "it holds the marks of a merge conflict" if conflict else "it is no JSON, perhaps only a part of the file"
        raise _Damaged(f"The notebook can't be read: {why}.") from None
    if not isinstance(notebook, dict):
        raise _Damaged("The file is JSON, but not a notebook.")
    return notebook


def _cells_of(notebook: dict, notes: list[str]) -> list[_Cell]:
    """The cells of a notebook of any format version."""
    raw = notebook.get("cells")
    if not isinstance(raw, list):
        sheets = notebook.get("worksheets")  # formats 2 and 3
        sheets = [sheet for sheet in sheets if isinstance(sheet, dict)] if isinstance(sheets, list) else []
        raw = [cell for sheet in sheets for cell in _as_list(sheet.get("cells"))]
    if not raw:
        raise _Damaged("The notebook holds no cells.")
    if len(raw) > MAX_CELLS:
        raise _Damaged(f"The notebook holds {len(raw)} cells; at most {MAX_CELLS} are read.")
    if notebook.get("nbformat") != 4:
        notes.append(f"The notebook says that its format is {shown(notebook.get('nbformat'))}, not 4.")
    _note_kernel(notebook.get("metadata"), notes)
    cells = [cell for cell in map(_cell, raw) if cell]
    if len(cells) < len(raw):
        notes.append(f"{len(raw) - len(cells)} of {len(raw)} cells can't be read and are ignored.")
    if sum(len(cell.source) for cell in cells if cell.kind == "code") > MAX_CODE:
        raise _Damaged(f"The notebook holds more than {MAX_CODE} characters of code.")
    return cells


def _as_list(value: object) -> list:
    return value if isinstance(value, list) else []


def _note_kernel(metadata: object, notes: list[str]) -> None:
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = spec.get("language", "python") if isinstance(spec, dict) else "python"
    if language != "python":
        notes.append(f"The notebook names a kernel for {shown(language)}; it is graded as Python.")


def _cell(raw: object) -> _Cell | None:
    if not isinstance(raw, dict):
        return None
    source = raw.get("source", raw.get("input", ""))
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    source = source.encode("utf-8", "replace").decode()  # lone surrogates can't be written to any file
    return _Cell("code" if raw.get("cell_type") == "code" else "text", source, _grade_id(raw))


def _grade_id(raw: dict) -> str | None:
    """The exercise or check that a cell says it belongs to: from its metadata, where they are lost from its cell id."""
    metadata = raw.get("metadata")
    own = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    found = [own.get("grade_id") if isinstance(own, dict) else None, raw.get("id")]
    return next((one for one in found if isinstance(one, str)), None)


# ---------------------------------------------------------------- what is taken


def _taken(cells: list[_Cell], release: Release, notes: list[str]) -> list[SubmittedCell]:
    """The cells to run: answers by exercise id, the code cells that the learner added or changed, and the demos."""
    chosen = _chosen(cells, release, notes)
    taken: list[_Taken] = []
    for number, cell in enumerate(cells):
        if cell.grade_id is not None and chosen.get(cell.grade_id) == number:
            taken.append((number, SubmittedCell("answer", cell.grade_id, cell.source)))
        elif cell.kind == "code" and cell.grade_id not in release.checks and _is_own(cell, release):
            taken.append((number, SubmittedCell("own", None, cell.source)))
        elif cell.kind == "code" and without_layout(cell.source) in release.demos:
            taken.append((number, SubmittedCell("demo", None, cell.source)))
    for exercise in release.answers:
        if exercise not in chosen:
            taken = _with_answer_elsewhere(exercise, taken, release, notes)
    if not any(cell.kind == "answer" for _, cell in taken):
        raise _Damaged("No cell belongs to an exercise of this chapter: this is another notebook, or its ids are lost.")
    _note_checks(cells, release, notes)
    return _with_later_checks(taken, cells, release)


def _is_own(cell: _Cell, release: Release) -> bool:
    return bool(cell.source.strip()) and without_layout(cell.source) not in release.unchanged


def _chosen(cells: list[_Cell], release: Release, notes: list[str]) -> dict[str, int]:
    """Where the answer to each exercise stands: of several cells with one id the last code cell, else the last."""
    chosen = {}
    for exercise in release.answers:
        found = [number for number, cell in enumerate(cells) if cell.grade_id == exercise]
        if not found:
            continue
        chosen[exercise] = max(found, key=lambda number: (cells[number].kind == "code", number))
        if len(found) > 1:
            notes.append(f"{exercise}: {len(found)} cells bear its id; the last one counts as the answer.")
        if cells[chosen[exercise]].kind != "code":
            notes.append(f"{exercise}: the answer cell is no longer a code cell; its text is taken as code.")
    order = [exercise for exercise, _ in sorted(chosen.items(), key=lambda item: item[1])]
    if order != [exercise for exercise in release.answers if exercise in chosen]:
        notes.append("The answers stand in another order than in the chapter.")
    return chosen


def _note_checks(cells: list[_Cell], release: Release, notes: list[str]) -> None:
    handed_in = {cell.grade_id: cell.source for cell in cells if cell.grade_id in release.checks}
    changed = [
        name for name, source in handed_in.items() if without_layout(source) != without_layout(release.checks[name])
    ]
    if changed:
        notes.append(
            f"Check cells were changed or are of another release (the chapter's own ones are run): {listed(changed)}."
        )
    if deleted := [name for name in release.checks if name not in handed_in]:
        notes.append(f"Check cells were deleted (the chapter's own ones are run): {listed(deleted)}.")


def _with_answer_elsewhere(exercise: str, taken: list[_Taken], release: Release, notes: list[str]) -> list[_Taken]:
    """The same cells, where the answer cell of an exercise is gone but another cell defines the answer: a cell of the
    learner's own becomes the answer; behind the answer to another exercise, with which it was merged, it is an empty
    cell."""
    names = release.names[exercise]
    defining = [k for k, (_, cell) in enumerate(taken) if names and all(_defines(cell, name) for name in names)]
    if not defining:
        notes.append(f"{exercise}: its answer cell is missing.")
        return taken
    number, cell = taken[defining[-1]]
    place = "a cell of the learner's own" if cell.kind == "own" else f"the cell of {cell.exercise}"
    notes.append(f"{exercise}: its answer cell is missing, but {place} defines the answer.")
    both = [SubmittedCell("answer", exercise, cell.source)]
    if cell.kind == "answer":
        both = [cell, SubmittedCell("answer", exercise, "")]
    return [*taken[: defining[-1]], *((number, one) for one in both), *taken[defining[-1] + 1 :]]


def _with_later_checks(taken: list[_Taken], cells: list[_Cell], release: Release) -> list[SubmittedCell]:
    """The cells, each answer with its check cells that stand further below: those in between are run before them, as
    in a notebook."""
    found = []
    for k, (number, cell) in enumerate(taken):
        later = {}
        for check in release.checks if cell.kind == "answer" else ():
            if exercise_named(check) == cell.exercise:
                place = next((n for n, one in enumerate(cells) if n > number and one.grade_id == check), number)
                between = [n for n, _ in taken[k + 1 :] if n < place]
                if between and between[-1] > number:  # else an answer that was merged with this one
                    later[check] = len(between)
        found.append(replace(cell, later=later))
    return found


def _defines(cell: SubmittedCell, name: str) -> bool:
    return cell.kind != "demo" and re.search(rf"^(def|class) +{name}\b|^{name} *[:=]", cell.source, re.M) is not None
