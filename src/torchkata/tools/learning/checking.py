"""Check the learner's chapters: run the answers of a workbook with the chapter's check cells, collect the verdicts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from torchkata.remembering import Remembered, forget, remember
from torchkata.tools.course import Chapter, CourseError, Exercise, exercise_of, workbook_of
from torchkata.tools.learning.damaged import read_learners
from torchkata.tools.learning.standing import checks_in
from torchkata.tools.learning.workbook import release_worked_on

CELL_TIMEOUT = 30  # seconds for one cell, as in nbgrader_config.py
TOO_LONG: dict[str, Any] = {  # the output of a cell that was cut off
    "ename": "TooLong",
    "evalue": f"stopped after {CELL_TIMEOUT} seconds: does a loop never end?",
    "traceback": [],
}
VERDICTS = ("WrongAnswer", "NotSolvedYet")
STOPPED = ("KeyboardInterrupt", "Interrupted", TOO_LONG["ename"])


@dataclass(frozen=True)
class Verdict:
    """What became of one exercise: points earned, and the verdict in one line."""

    exercise: Exercise
    points: float
    line: str

    @property
    def solved(self) -> bool:
        return self.points >= self.exercise.points


def check_chapters(chapters: list[Chapter], jobs: int = 2) -> list[list[Verdict] | CourseError]:
    """The verdicts of several chapters, some of them at a time; for one that can't be checked, the error."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(_checked, chapters))
        except KeyboardInterrupt:
            for kernel in psutil.Process().children():  # else their cells would be waited for
                kernel.kill()
            raise


def _checked(chapter: Chapter) -> list[Verdict] | CourseError:
    try:
        return check_chapter(chapter)
    except CourseError as error:
        return error


def check_chapter(chapter: Chapter) -> list[Verdict]:
    """The verdict on every exercise of a chapter in the workbook, with hidden tests where the solutions are at hand.

    The setup cell, the answers and the cells that the learner added or changed are run, unchanged demos are not.
    The cells run in the notebook's folder, and the verdicts are remembered in the workbook. Raises CourseError when the
    workbook lacks the chapter or can't be read.
    """
    notebook = to_run(chapter.master, read_learners(chapter))
    place = {"metadata": {"path": str(chapter.workbook.parent)}}
    client = NotebookClient(
        notebook, timeout=CELL_TIMEOUT, allow_errors=True, interrupt_on_timeout=True, resources=place
    )
    client.error_on_timeout = TOO_LONG
    client.on_cell_executed = note_failure
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    client.store_widget_state = False
    try:
        client.execute()
        died = ""
    except DeadKernelError:
        died = "an answer ended the kernel before this check could run."
    verdicts = [_verdict(exercise, notebook, died) for exercise in chapter.exercises]
    with suppress(OSError, CourseError):  # the verdicts count, also where they cannot be kept
        _remember(chapter, notebook)
    return verdicts


def note_failure(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
    """A hook for nbclient: a cell that failed shows an error, also where it could not say so itself. A call that an
    interrupt does not reach, or a kernel that cannot print any more, would else pass for a cell without faults."""
    told = execute_reply["content"]
    if told["status"] == "error" and not any(out.output_type == "error" for out in cell.outputs):
        wanted = {key: told.get(key) or "" for key in ("ename", "evalue")}
        cell.outputs.append(new_output("error", **wanted, traceback=[wanted["evalue"]]))


def saved_chapters(chapters: list[Chapter], pause: float = 0.5) -> Iterator[Chapter]:
    """Yield a chapter each time its workbook notebook is saved; never ends. `pause`: seconds between two looks."""
    times = {chapter: _saved_at(chapter) for chapter in chapters}
    while True:
        time.sleep(pause)
        for chapter, before in list(times.items()):
            times[chapter] = _saved_at(chapter)
            if times[chapter] != before:
                yield chapter


def _saved_at(chapter: Chapter) -> int:
    """When the notebook was last written, in nanoseconds; 0 where it is missing for a moment."""
    try:
        return chapter.workbook.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def to_run(master: NotebookNode, learner: NotebookNode) -> NotebookNode:
    """The cells to run: the chapter's setup, then the learner's own cells and answers in their order, each answer
    followed by the chapter's check cells. Of an answer cell that was copied, the last copy counts.
    """
    checks = checks_of(master)
    unchanged = {cell.source.strip() for cell in master.cells if "nbgrader" not in cell.metadata}
    last = {_answer_id(cell): n for n, cell in enumerate(learner.cells) if _answer_id(cell) in checks}
    cells = [new_code_cell(next(cell.source for cell in master.cells if cell.cell_type == "code"))]
    for n, cell in enumerate(learner.cells):
        exercise = _answer_id(cell)
        if exercise is not None and last.get(exercise) == n:
            cells.append(new_code_cell(cell.source, metadata={"answer": exercise}))
            cells += checks[exercise]
        elif cell.cell_type == "code" and not _is_check(cell) and cell.source.strip() not in unchanged:
            cells.append(new_code_cell(cell.source))
    return new_notebook(cells=cells, metadata={"kernelspec": master.metadata.kernelspec})


def checks_of(master: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The check cells of a chapter by exercise, each a bare cell with `check` and `points` in its metadata."""
    checks: dict[str, list[NotebookNode]] = {}
    for cell in master.cells:
        if (exercise := exercise_of(cell)) and _is_check(cell):
            points = float(cell.metadata.nbgrader.points)
            bare = new_code_cell(cell.source, metadata={"check": exercise, "points": points})
            checks.setdefault(exercise, []).append(bare)
    return checks


def _answer_id(cell: NotebookNode) -> str | None:
    meta = cell.metadata.get("nbgrader", {})
    return meta["grade_id"] if cell.cell_type == "code" and meta.get("solution") else None


def _is_check(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def _checks_in(notebook: NotebookNode, exercise: Exercise) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.metadata.get("check") == exercise.id]


def _remember(chapter: Chapter, notebook: NotebookNode) -> None:
    """Keep what each check cell said, under the digest that its released version has in the learner's notebook."""
    workbook, released = workbook_of(chapter.root), checks_in(release_worked_on(chapter))
    for exercise in chapter.exercises:
        forget(workbook, exercise.id)
        digests = [digest for digest, _ in released.get(exercise.id, [])]
        checks = _checks_in(notebook, exercise)
        if len(digests) == len(checks):  # else the learner's copy is of another release
            for digest, cell in zip(digests, checks, strict=True):
                remember(workbook, _remembered(cell, exercise, digest, hidden=chapter.solution.exists()))


def _remembered(cell: NotebookNode, exercise: Exercise, digest: str, hidden: bool) -> Remembered:
    points, line = points_of(cell), _complaint(cell, exercise) or ""
    state = "open" if _is_open(cell) or cell.execution_count is None else "solved" if points else "wrong"
    return Remembered(exercise.id, digest, state, line, points, hidden)


def _verdict(exercise: Exercise, notebook: NotebookNode, died: str) -> Verdict:
    checks = _checks_in(notebook, exercise)
    if not checks:
        return Verdict(exercise, 0.0, "its answer cell is missing from your workbook.")
    points = sum(points_of(cell) for cell in checks)
    lines = [line for cell in checks if (line := _complaint(cell, exercise))]
    if not points and not any(map(_is_open, checks)) and (failure := _failure_of(exercise, notebook)):
        lines.insert(0, failure)
    if any(cell.execution_count is None for cell in checks):
        lines.append(died)
    return Verdict(exercise, round(points, 2), lines[0] if lines else "solved")


def _is_open(check: NotebookNode) -> bool:
    """Whether a check cell found no answer yet."""
    return any(out.get("ename") == "NotSolvedYet" for out in check.outputs)


def _failure_of(exercise: Exercise, notebook: NotebookNode) -> str | None:
    """How the answer cell itself stopped, if it did: then its check can only say that something is missing."""
    outputs = (out for cell in notebook.cells if cell.metadata.get("answer") == exercise.id for out in cell.outputs)
    if (error := next((out for out in outputs if out.output_type == "error"), None)) is None:
        return None
    if error.ename in STOPPED:
        return TOO_LONG["evalue"]
    message = re.sub(r"\([^()]*\.py, line", "(line", error.evalue)
    return f"its cell stopped with {error.ename}: {(message.splitlines() or [''])[0]}"


def points_of(check: NotebookNode) -> float:
    """The points that a check cell gave, read from its outputs as nbgrader does."""
    if check.execution_count is None or any(out.output_type == "error" for out in check.outputs):
        return 0.0
    results = [out.data.get("text/plain", "") for out in check.outputs if out.output_type == "execute_result"]
    try:
        return float(results[0])
    except (IndexError, ValueError):
        return check.metadata.points


def _complaint(check: NotebookNode, exercise: Exercise) -> str | None:
    for out in check.outputs:
        if out.output_type == "error":
            if out.ename in STOPPED:
                return TOO_LONG["evalue"]
            line = (out.evalue.splitlines() or [""])[0].removeprefix(f"{exercise.id}: ")
            return line if out.ename in VERDICTS else f"{out.ename}: {line}"
        if out.output_type == "stream" and (found := re.search(r"^✗ (.*)$", out.text, re.M)):
            return found[1]
    return None
