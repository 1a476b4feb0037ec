"""The course's rules for nbval: what it lets pass and what it fails, cell by cell, on two small notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests import ROOT

CHECK = 'with check("double") as test:\n    test("twice 3 is 6")\n    observe({answer}, 3).returns(6)'
STUB = "def double(x):\n    raise NotImplementedError  # your code here"
VERDICT = "class NotSolvedYet(Exception): ...\n\n\nraise NotSolvedYet('{words}')"


def shown(source: str, output: str, **metadata: object) -> nbformat.NotebookNode:
    """A cell of a solution: its source, and the output that is stored with it."""
    return new_code_cell(source, execution_count=1, outputs=[new_output("stream", text=output)], metadata=metadata)


def graded(source: str) -> nbformat.NotebookNode:
    """A check cell."""
    return new_code_cell(source, metadata={"nbgrader": {"grade": True, "solution": False}})


# each cell with the outcome that it must have
SOLUTION = {
    "the same output": (shown("print(1)", "1\n"), "passed"),
    "another output": (shown("print(2)", "1\n"), "failed"),
    "another output that varies": (shown("print(3)", "1\n", varies="a reason in words"), "passed"),
    "an error in a cell that varies": (shown("1 / 0", "1\n", varies="a reason in words"), "failed"),
    "a check of the solution": (graded("assert True"), "passed"),
    "a solution that is not solved": (graded(VERDICT.format(words="not solved yet")), "failed"),
}
RELEASE = {
    "setup": (new_code_cell("from torchkata.verdicts import check, observe"), "passed"),
    "a demo": (new_code_cell("print(1)"), "passed"),
    "a demo that raises": (new_code_cell("1 / 0"), "failed"),
    "a demo that is not solved yet": (new_code_cell("raise NotImplementedError('not solved yet')"), "failed"),
    "a stub": (new_code_cell(STUB), "passed"),
    "an honest check of a stub": (graded(CHECK.format(answer="double")), "passed"),
    "a check without an answer": (graded(CHECK.format(answer="duble")), "failed"),
    "a check that raises NameError": (graded("duble(3)"), "failed"),
    "a check that passes on the stub": (graded("pass"), "failed"),
    "a stub that is wrong": (graded(CHECK.format(answer="lambda x: x")), "failed"),
    "an error that is no verdict": (graded("raise NotImplementedError('not solved yet')"), "failed"),
    "a verdict in other words": (graded(VERDICT.format(words="wrong")), "failed"),
}
CELLS = SOLUTION | RELEASE


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcome of every cell, from one run of pytest with the course's rules."""
    root = tmp_path_factory.mktemp("course")
    put(root / "solutions", SOLUTION)
    put(root / "notebooks", RELEASE)
    report = root / "report.xml"
    options = ["--nbval", f"--junitxml={report}", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-p", "tests.plugins.notebook_rules", f"--rootdir={root}"]
    command = [sys.executable, "-m", "pytest", *options, "solutions", "notebooks"]
    as_text = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, **as_text)
    assert report.exists(), done.stdout + done.stderr
    found = ["failed" if len(case) else "passed" for case in ElementTree.parse(report).iter("testcase")]
    return dict(zip(CELLS, found, strict=True))


def put(folder: Path, cells: dict) -> None:
    folder.mkdir()
    notebook = new_notebook(cells=[cell for cell, _ in cells.values()])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "small.ipynb")


@pytest.mark.parametrize("cell", CELLS)
def test_outcome(outcomes: dict[str, str], cell: str):
    assert outcomes[cell] == CELLS[cell][1]
