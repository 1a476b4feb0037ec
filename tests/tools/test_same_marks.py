"""Whatever a learner's cells name, import, compile or leave switched on: a right answer gets its points in a kernel,
from `torchkata check`, from `torchkata grade` and from nbgrader."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from tests.tools.grading.sandbox.test_boundary import WHY_NOT
from tests.tools.grading.test_parity import nbgraders_points
from tests.tools.test_nbgrader import nbgrader
from torchkata.base.places import MARK
from torchkata.tools.course import Chapter, course_root, read_notebook
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.grader import grader_of
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import Record
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.placing import Place
from torchkata.tools.release import released
from torchkata.tools.source import notebook_of

NAME = "96_left_behind"
RIGHT = "def {name}(work, x):\n    return work(x) * 2"
SHADOWED = ("list", "range", "str", "set", "any", "sorted", "tuple", "len", "int", "float", "dict", "sum", "max", "abs")
COURSES = ("observe", "observe_scenario", "mistake", "test", "corners", "known", "prediction", "nn", "F", "Tensor")
# by exercise: a cell of the learner's own before the answer, the answer, and perhaps a cell between it and its checks
LEARNERS = {
    "magics": (
        "%matplotlib inline\nimport numpy as np\nimport matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 72",
        "def {name}(work, x):\n    return work(x) * int(np.float64(2.0))",
    ),
    "magics-in-it": ("%autosave 60", "%pylab inline\n" + RIGHT),
    "awaits": ("import asyncio\nlater = asyncio.create_task(asyncio.sleep(0, 2))", "number = await later\n" + RIGHT),
    "last-value": ("2.0", "number = _\ndef {name}(work, x):\n    return work(x) * number"),
    "compiled": ("", "@torch.compile(backend='eager')\n" + RIGHT),
    "one-graph": ("", "@torch.compile(backend='eager', fullgraph=True)\n" + RIGHT),
    "conditional": (
        "",
        "def twofold(y):\n    return y * 2\n\ndef {name}(work, x):\n    y = work(x)\n"
        "    return torch.cond(y.sum() > 0, lambda y: twofold(y), lambda y: y + y, (y,))",
    ),
    "scripted": (
        "def doubled(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\nby_script = torch.jit.script(doubled)",
        "def {name}(work, x):\n    return by_script(work(x))",
    ),
    "traced": (
        "by_trace = torch.jit.trace(lambda x: x * 2, torch.ones(2))",
        "def {name}(work, x):\n    return by_trace(work(x))",
    ),
    "own-check": ("def check(name, got, expected):\n    assert got == expected", RIGHT + "\n\ncheck('two', 2, 2)"),
    "own-names": ("check = " + " = ".join(COURSES) + " = 1", RIGHT),
    "shadowed": ("\n".join(f"{name} = [1, 2]" for name in SHADOWED), RIGHT),
    "star": ("from torch import *", RIGHT),
    "settings": (
        "torch.autograd.set_detect_anomaly(True)\ntorch.set_default_dtype(torch.float64)\ntorch.set_num_threads(2)\n"
        "torch.use_deterministic_algorithms(True)\ntorch.set_default_device('meta')\ntorch.set_grad_enabled(False)",
        RIGHT,
    ),
    "split": ("", "import math", RIGHT),
    "stub-left": ("", "def {name}(work, x):\n    raise NotImplementedError", RIGHT),
    "helper-below": (
        "",
        "def {name}(work, x):\n    return doubled_below(work(x))",
        "def doubled_below(y):\n    return y * 2",
    ),
    "futures": (
        "from __future__ import annotations",
        "def {name}(work: Undefined, x: Undefined):\n    return work(x) * 2",
    ),
}
CHECK = '''
# %% check="{name}" points=1
"""Twice."""
with check("{name}") as test:
    test("a model, which the answer calls")

    def scaled(x, weight):
        return torch.mul(x, weight)

    def story(answer, x):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.tensor(1.0))

            def forward(self, x):
                steps = sorted(str(step) for step in list(range(int(len((1, 2))))))
                return scaled(x, self.weight) * sum(set(map(float, steps)))

        layer = Layer()
        result = answer(layer, x)
        result.sum().backward()
        return [result.detach(), layer.weight.grad, any([max(1, abs(-2)) == 2])]

    seen = observe_scenario(story, {name}, torch.tensor([1.0, 2.0]))
    seen.returns([torch.tensor([2.0, 4.0]), torch.tensor(6.0), True])
'''
SOURCE = """# %% [markdown]
# # Left behind

# %% setup=true
import torch
from torch import nn

from torchkata.verdicts import check, observe_scenario
"""
POINTS = dict.fromkeys(LEARNERS, 2.0)


def defined(name: str) -> str:
    return name.replace("-", "_")


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    """A course with the chapter, which one learner has solved, in a workbook and handed in."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(course_root() / MARK, root)
    chapter = Chapter(Place(root), NAME)
    right = "\n".join(RIGHT.splitlines()).replace("    return", "    ### BEGIN SOLUTION\n    return")
    source = SOURCE
    for name in LEARNERS:
        answer = f'\n# %% answer="{name}"\n{right}\n    ### END SOLUTION\n'
        check = CHECK.replace('"{name}"', f'"{name}"')
        source += (answer + check * 2).replace("{name}", defined(name))
    solution = nbformat.writes(notebook_of(source, "left_behind.py"))
    for path, text in ((chapter.solution, solution), (chapter.release, released(chapter, solution))):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    for path in (chapter.workbook, root / "submitted" / "ada" / NAME / chapter.release.name):
        path.parent.mkdir(parents=True)
        nbformat.write(with_learners_cells(chapter), path)
    (root / "workbook" / ".torchkata").mkdir()
    return chapter


def with_learners_cells(chapter: Chapter) -> nbformat.NotebookNode:
    notebook = read_notebook(chapter.release)
    for place, cell in reversed(list(enumerate(notebook.cells))):
        if own := LEARNERS.get(cell.metadata.get("nbgrader", {}).get("grade_id")):
            name = defined(cell.metadata.nbgrader.grade_id)
            before, answer, *between = (source.replace("{name}", name) for source in own)
            cell.source = answer
            notebook.cells[place + 1 : place + 1] = map(nbformat.v4.new_code_cell, between)
            notebook.cells.insert(place, nbformat.v4.new_code_cell(before))
    return notebook


@pytest.fixture(scope="module")
def graded(chapter: Chapter) -> Record:
    grader = grader_of(chapter, sandboxed=WHY_NOT is None)
    [record] = Results(grade_chapter(chapter, grader, sandboxed=WHY_NOT is None).folder).all()
    assert isinstance(record, Record)
    return record


def test_check(chapter: Chapter):
    verdicts = check_chapter(chapter)
    assert {one.exercise.id: one.points for one in verdicts} == POINTS, [one.line for one in verdicts]


def test_grade(graded: Record):
    assert {mark.exercise: mark.points for mark in graded.marks} == POINTS, [mark.verdict for mark in graded.marks]


def test_a_kernel(chapter: Chapter):
    """In the workbook, with its hidden tests at hand."""
    cells = [cell for cell in read_notebook(chapter.workbook).cells if cell.cell_type == "code"]
    manager, client = start_new_kernel(cwd=str(chapter.workbook.parent))
    try:
        replies = [client.execute_interactive(cell.source, allow_stdin=False, timeout=60) for cell in cells]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    failed = {
        cell.source: reply["content"]["evalue"]
        for cell, reply in zip(cells, replies, strict=True)
        if reply["content"]["status"] != "ok"
    }
    assert failed == {}


@pytest.mark.exhaustive("what learners leave behind, graded by nbgrader itself", thorough=True)
def test_nbgrader(chapter: Chapter, tmp_path: Path):
    another = Chapter(Place(tmp_path / "course"), NAME)
    shutil.copytree(chapter.root, another.root, ignore=shutil.ignore_patterns("autograded", "graded", "gradebook.db"))
    for command in ("generate_assignment", "autograde"):
        said = nbgrader(another.root, command, NAME, "--force")
        assert said.returncode == 0, said.stderr
    assert nbgraders_points(another.root, another, "ada") == POINTS
