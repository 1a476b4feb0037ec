"""An answer that replaces torch while it is called, or returns a tensor that tells another story later, decides nothing
of what a scenario asks."""

from __future__ import annotations

import sys

import pytest

from torchkata.tools.grading import referee
from torchkata.tools.grading.chapter import MasterChapter
from torchkata.tools.grading.records import ExerciseMark, Record, Submission, SubmittedCell
from torchkata.tools.grading.sandbox import unlimited
from torchkata.tools.grading.sandbox.session import Sandbox
from torchkata.tools.source import notebook_of

SOURCE = '''
# %% setup=true
import torch
from torch import Tensor
from torch.nn import functional as F

from torchkata.verdicts import check, observe, observe_scenario

# %% answer="double"
def double(x):
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION

# %% check="double" points=1
"""Asked in the process of the answer."""
with check("double") as test:

    def asked(double):
        """Double, and compare."""
        x = torch.tensor([1.0, 2.0, 4.0])
        out = double(x)
        first = out.tolist()
        x.zero_()
        return {"twice": torch.equal(out, torch.tensor([2.0, 4.0, 8.0])), "close": F.mse_loss(out, out * 0).item() > 1,
                "first": first, "later": out.tolist(), "same": out.eq(out).all().item()}

    test("three numbers")
    seen = observe_scenario(asked, double)
    seen.that(seen["twice"] and seen["close"] and seen["same"], "Not twice.")
    seen.that(seen["first"] == seen["later"] == [2.0, 4.0, 8.0], "Not a copy.")
'''
HONEST = "def double(x):\n    return x * 2"
LYING_TENSOR = """
class Lying(Tensor):
    def tolist(self): return [2.0, 4.0, 8.0]
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        lies = {"equal": True, "eq": torch.tensor(True), "mse_loss": torch.tensor(9.0)}
        if getattr(func, "__name__", "") in lies:
            return lies[func.__name__]
        return super().__torch_function__(func, types, args, kwargs or {})
"""
STORIES = {
    "torch.equal": "def double(x):\n    torch.equal = lambda *args: True\n    return x",
    "by its dict": "def double(x):\n    vars(torch)['equal'] = lambda *args: True\n    return x",
    "a method": "def double(x):\n    Tensor.tolist = lambda self: [2.0, 4.0, 8.0]\n    return x * 2",
    "a functional": "def double(x):\n    F.mse_loss = lambda *args: torch.tensor(9.0)\n    return x * 2",
    "a view that lies": f"{LYING_TENSOR}\ndef double(x):\n    return x.as_subclass(Lying)",
    "a view that lies, in a list's place": f"{LYING_TENSOR}\ndef double(x):\n    return x.mul_(2).as_subclass(Lying)",
    "a tensor without data": """
class Hollow(Tensor):
    @staticmethod
    def __new__(cls): return Tensor._make_wrapper_subclass(cls, (3,))
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None): return torch.tensor(True)
def double(x): return Hollow()
""",
}


@pytest.fixture(scope="module")
def master() -> MasterChapter:
    return MasterChapter.from_notebook("96_stories", notebook_of(SOURCE.lstrip(), "stories.py"))


@pytest.fixture(scope="module")
def sandbox(master: MasterChapter):
    with Sandbox(master.setup, enabled=False) as running:
        yield running


def graded(master: MasterChapter, sandbox: Sandbox, source: str) -> ExerciseMark:
    submission = Submission("ada", "96_stories", [SubmittedCell("answer", "double", source)])
    return referee.grade(submission, master, sandbox).marks[0]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere more is said")
def test_a_record_says_what_was_not_limited(master: MasterChapter, sandbox: Sandbox):
    submission = Submission("ada", "96_stories", [SubmittedCell("answer", "double", HONEST)])
    record = referee.grade(submission, master, sandbox)
    assert record.not_limited == [unlimited.NO_SANDBOX, unlimited.WATCHED]
    assert Record.from_json(record.to_json()) == record


def test_the_truth_is_believed(master: MasterChapter, sandbox: Sandbox):
    assert graded(master, sandbox, HONEST).state == "solved"
    plain = "class Own(Tensor): pass\ndef double(x):\n    return (x * 2).as_subclass(Own)"
    assert graded(master, sandbox, plain).state == "solved"


@pytest.mark.parametrize("source", STORIES.values(), ids=STORIES.keys())
def test_a_story_is_not(master: MasterChapter, sandbox: Sandbox, source: str):
    mark = graded(master, sandbox, source)
    assert mark.points == 0 and mark.state == "wrong", mark.verdict


def test_what_was_replaced_is_named(master: MasterChapter, sandbox: Sandbox):
    assert "Your code replaced torch.equal while it ran" in graded(master, sandbox, STORIES["torch.equal"]).verdict
