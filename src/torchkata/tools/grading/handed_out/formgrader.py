"""The graded notebook as formgrader shows it: the learner's code, the check cells, our verdicts as outputs."""

from __future__ import annotations

import json
import re

from nbformat import NotebookNode

from torchkata.base.chapter import exercise_of
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.grading.records import ABOUT_FILES, ExerciseMark, Record, Submission

NAMES = {"not solved": "NotSolvedYet", "wrong": "WrongAnswer", "cut off": "TooLong"}


class GradedNotebooks:
    """The cells of a chapter that belong to its exercises, with nbgrader's metadata and the hidden tests.

    `solution` and `release` are the chapter's built notebooks.
    """

    def __init__(self, solution: NotebookNode, release: NotebookNode):
        metadata = {cell.metadata.nbgrader.grade_id: cell.metadata for cell in release.cells if exercise_of(cell)}
        self.kernelspec = release.metadata.kernelspec
        self.answers: dict[str, dict] = {}  # metadata, by exercise
        self.checks: dict[str, list[tuple[str, dict]]] = {}  # source and metadata of each check cell, by exercise
        for cell in whole_checks(solution.cells):
            if exercise := exercise_of(cell):
                own = metadata[cell.metadata.nbgrader.grade_id]
                if cell.metadata.nbgrader.solution:
                    self.answers[exercise] = own
                else:
                    self.checks.setdefault(exercise, []).append((cell.source, own))

    def graded(self, record: Record, submission: Submission) -> str:
        """The text of a graded notebook: the learner's cells in their order, each answer with its check cells."""
        marks = {mark.exercise: mark for mark in record.marks}
        cells = [summary(record)]
        for cell in submission.cells:
            if cell.kind == "own":
                cells.append(_code(cell.source))
            elif cell.exercise is not None:
                cells += self._exercise(marks.pop(cell.exercise), cell.source)
        for mark in marks.values():
            cells += self._exercise(mark, "# The answer cell is missing.")
        for number, made in enumerate(cells):
            made["id"] = f"cell-{number}"
        metadata = {"kernelspec": self.kernelspec}
        return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}) + "\n"

    def _exercise(self, mark: ExerciseMark, source: str) -> list[dict]:
        verdict = f"{mark.points:g} of {mark.of:g} points\n{mark.verdict}\n"
        answer = _code(source, self.answers[mark.exercise], [_printed(verdict)])
        cells = [_markdown(f"### {mark.title}"), answer]
        for text, metadata in self.checks[mark.exercise]:
            points = mark.checks[metadata["nbgrader"]["grade_id"]]
            cells.append(_code(text, metadata, _outputs(mark, points, metadata["nbgrader"]["points"])))
        return cells


def _outputs(mark: ExerciseMark, points: float, of: float) -> list[dict]:
    """Outputs from which nbgrader reads the same points: nothing for all of them, a number, or an error."""
    if points >= of:
        return []
    line = mark.verdict.split("\n")[0]  # all of it stands below the answer
    if points > 0:
        return [
            _printed(f"{line}\n"),
            {"output_type": "execute_result", "data": {"text/plain": repr(points)}, "execution_count": 1}
            | {"metadata": {}},
        ]
    name = NAMES.get(mark.state, mark.state.capitalize())
    return [{"output_type": "error", "ename": name, "evalue": line, "traceback": [line]}]


def summary(record: Record) -> dict:
    """The first cell: the points and what was unusual, without the student's name. Formgrader grades blindly, so what
    files are called is left out: students put their names there. It stands in the record."""
    named = re.compile(re.escape(record.student), re.IGNORECASE)
    notes = [named.sub("…", note) for note in record.notes if not note.startswith(ABOUT_FILES)]
    lines = [f"{record.points:g} of {record.of:g} points", *notes]
    return _markdown("\n".join(["```", *(line.replace("`", "'") for line in lines), "```"]))


def _printed(text: str) -> dict:
    return {"output_type": "stream", "name": "stdout", "text": text}


def _markdown(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str, metadata: dict | None = None, outputs: list[dict] | None = None) -> dict:
    return {
        "cell_type": "code",
        "execution_count": 1 if outputs else None,
        "metadata": metadata or {},
        "outputs": outputs or [],
        "source": source,
    }
