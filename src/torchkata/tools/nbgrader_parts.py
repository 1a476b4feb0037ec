"""Preprocessors that nbgrader_config.py adds to nbgrader's own steps: release, autograde, feedback."""

from __future__ import annotations

import html
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from traitlets import Unicode

from torchkata.base.chapter import exercise_of
from torchkata.base.marks import GIVEN, learners_version, regions, without_hidden_tests
from torchkata.base.shared_helpers import is_helpers
from torchkata.tools.missing import with_notice

RELEASED = ("nbgrader", "tags", "deletable", "editable", "jupyter")
VERDICTS = ("WrongAnswer", "NotSolvedYet")


class GivenCode(ClearSolutions):
    """Like ClearSolutions; an answer cell with a GIVEN region gets that code in place of the stub."""

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        if not regions(cell.source, GIVEN):
            return super()._replace_solution_region(cell, language)
        cell.source = learners_version(cell.source)
        return True


class NoticeOfMissing(NbGraderPreprocessor):
    """The setup cell, the first code cell, says what it imports, and what to do where torchkata is missing. JupyterLab
    folds it to its first line."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        setup = next((cell for cell in nb.cells if cell.cell_type == "code"), None)
        if setup is not None:
            setup.source = with_notice(setup.source)
            setup.metadata["jupyter"] = NotebookNode(source_hidden=True)
        return nb, resources


class ReleaseMetadata(NbGraderPreprocessor):
    """Of a notebook's metadata the kernelspec is released, of a cell's what nbgrader and JupyterLab need."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb.metadata = NotebookNode(kernelspec=nb.metadata.kernelspec)
        for cell in nb.cells:
            cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k in RELEASED})
        return nb, resources


class MasterMetadata(NbGraderPreprocessor):
    """Student cells keep their source and nothing else: metadata and type come from the released notebook.

    So copied cells, changed points, tags, flags or schema versions neither stop a batch nor win anything. Of several
    cells with one grade id the last one counts, as in nbgrader's own DeduplicateIds. Deleted check cells come back
    behind their answer cell; where that is gone too, at the end (nbgrader's add_missing_cells fails there). What the
    check cells of an exercise share comes above the first of them, wherever it was.
    """

    release_directory = Unicode("notebooks", help="Folder of the released chapters").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        info = resources["nbgrader"]
        path = Path(self.release_directory) / info["assignment"] / f"{info['notebook']}.ipynb"
        master = nbformat.read(path, as_version=4)
        known = {cell.metadata.nbgrader.grade_id: cell for cell in master.cells if "nbgrader" in cell.metadata}
        for cell in reversed(nb.cells):
            self._clean(cell, known)
        for cell in known.values():
            if cell.metadata.nbgrader.grade:
                self._restore(deepcopy(cell), nb)
        nb.cells = [cell for cell in nb.cells if not _is_helpers(cell)]
        for cell in filter(_is_helpers, master.cells):
            self._put_above_checks(deepcopy(cell), nb)
        nb.metadata = NotebookNode(kernelspec=master.metadata.kernelspec)
        return nb, resources

    @staticmethod
    def _clean(cell: NotebookNode, known: dict[str, NotebookNode]) -> None:
        meta = cell.metadata.get("nbgrader")
        grade_id = meta.get("grade_id") if isinstance(meta, dict) else None
        cell.metadata = NotebookNode()
        master = known.pop(grade_id, None) if isinstance(grade_id, str) else None
        if master is None:
            return
        cell.metadata = nbformat.from_dict(dict(master.metadata))
        if cell.cell_type != master.cell_type:
            cell.cell_type = master.cell_type
            for key in ("outputs", "execution_count", "attachments"):
                cell.pop(key, None)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None

    @staticmethod
    def _restore(check: NotebookNode, nb: NotebookNode) -> None:
        same = [n for n, cell in enumerate(nb.cells) if exercise_of(cell) == exercise_of(check)]
        nb.cells.insert(same[-1] + 1 if same else len(nb.cells), check)

    @staticmethod
    def _put_above_checks(helpers: NotebookNode, nb: NotebookNode) -> None:
        exercise = exercise_of(helpers)
        first = next(n for n, cell in enumerate(nb.cells) if exercise_of(cell) == exercise and not is_answer(cell))
        nb.cells.insert(first, helpers)


class FoldChecks(NbGraderPreprocessor):
    """Formgrader shows verdicts right below the answer that they speak of, then the check cells, folded.

    It works on what formgrader shows, not on a file, and leaves all other pages alone.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        if "submission_id" not in resources:  # formgrader's pages have it; feedback must not get unfolded hidden tests
            return nb, resources
        answers = {exercise_of(cell): cell for cell in nb.cells if is_answer(cell)}
        for cell in nb.cells:
            if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
                if answer := answers.get(exercise_of(cell)):
                    _move_outputs(cell, answer)
                _fold(cell)
        return nb, resources


def is_answer(cell: NotebookNode) -> bool:
    """Whether a cell is a learner's answer to an exercise."""
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _is_helpers(cell: NotebookNode) -> bool:
    return is_helpers(cell.metadata.get("nbgrader", {}))


def _move_outputs(check: NotebookNode, answer: NotebookNode) -> None:
    """What a check cell says goes below the answer, where that does not say it already."""
    said = "\n".join(map(_text_of, answer.outputs))
    answer.outputs += [one for one in check.outputs if _text_of(one).strip() and _text_of(one).strip() not in said]


def _text_of(output: NotebookNode) -> str:
    if output.output_type == "error":
        return output.evalue
    return output.get("text", "")


def _fold(check: NotebookNode) -> None:
    """Make a check cell text that unfolds."""
    code = html.escape(check.source).replace("\n", "&#10;")  # one line: Markdown inside would begin at an empty one
    check.source = f"<details><summary>Check code</summary><pre>{code}</pre></details>"
    check.cell_type = "markdown"
    for key in ("outputs", "execution_count"):
        check.pop(key, None)


class HideTests(NbGraderPreprocessor):
    """Feedback shows neither the source of hidden tests nor tracebacks through them; verdicts stay."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = without_hidden_tests(cell.source)
            for output in cell.get("outputs", []):
                if output.output_type == "error" and output.ename not in VERDICTS:
                    output.traceback = [": ".join(filter(None, [output.ename, output.evalue]))]
        return cell, resources
