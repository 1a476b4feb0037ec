"""The course's rules for nbval: what it lets pass and what it fails, cell by cell, on two small notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
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
# these with the outcome that they have where torch is not the locked release; on the locked one all fail
OTHER_TORCH = {
    "the operation is named": (
        shown("print('mm: self must be a matrix, got 3-D tensor')", "self must be a matrix\n"),
        "passed",
    ),
    "new dtypes": (shown("print('48 dtypes; float8')", "46 dtypes; float8\n"), "passed"),
    "the rest of a line with new dtypes": (shown("print('48 dtypes; float9')", "46 dtypes; float8\n"), "failed"),
    "another error": (shown("print('mm: sizes differ')", "self must be a matrix\n"), "failed"),
    "another number": (shown("print(47)", "46\n"), "failed"),
    "a table of facts": (shown("folklore = print\nfolklore(2)", "1\n"), "failed"),
    "the table of facts": (shown("folklore(2)", "1\n"), "passed"),
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
    """The outcome of every cell, from one run of pytest with the course's rules, on the locked torch."""
    trees = {"solutions": {**SOLUTION, **OTHER_TORCH}, "notebooks": RELEASE}
    return run(tmp_path_factory.mktemp("course"), trees, locked_torch=version("torch"))


@pytest.fixture(scope="module")
def outcomes_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same where torch is not the locked release."""
    return run(tmp_path_factory.mktemp("elsewhere"), {"solutions": {**SOLUTION, **OTHER_TORCH}}, locked_torch="1.0")


def run(root: Path, trees: dict[str, dict], locked_torch: str) -> dict[str, str]:
    for name, cells in trees.items():
        put(root / name, cells)
    (root / "locked.py").write_text(f"from torchkata.tools import lock\n\nlock.TORCH = {locked_torch!r}\n")
    report = root / "report.xml"
    options = ["--nbval", f"--junitxml={report}", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "locked"]
    options += ["-p", "tests.plugins.notebook_rules", f"--rootdir={root}"]
    command = [sys.executable, "-m", "pytest", *options, *trees]
    as_text = {"capture_output": True, "text": True, "timeout": 300}
    paths = os.pathsep.join([str(ROOT), str(root)])
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": paths}, **as_text)
    assert report.exists(), done.stdout + done.stderr
    found = ["failed" if len(case) else "passed" for case in ElementTree.parse(report).iter("testcase")]
    return dict(zip([name for cells in trees.values() for name in cells], found, strict=True))


def put(folder: Path, cells: dict) -> None:
    folder.mkdir()
    notebook = new_notebook(cells=[cell for cell, _ in cells.values()])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "small.ipynb")


@pytest.mark.parametrize("cell", CELLS)
def test_outcome(outcomes: dict[str, str], cell: str):
    assert outcomes[cell] == CELLS[cell][1]


@pytest.mark.parametrize("cell", OTHER_TORCH)
def test_the_locked_torch_is_compared_strictly(outcomes: dict[str, str], cell: str):
    assert outcomes[cell] == "failed"


@pytest.mark.parametrize("cell", [*SOLUTION, *OTHER_TORCH])
def test_outcome_on_another_torch(outcomes_elsewhere: dict[str, str], cell: str):
    assert outcomes_elsewhere[cell] == {**SOLUTION, **OTHER_TORCH}[cell][1]
