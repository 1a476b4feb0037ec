"""An answer that replaces torch while it is called, or returns a tensor that tells another story later, decides nothing
of what a scenario asks; and none chooses what a page says of a hidden test."""

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


# ---------------------------------------------------------------- data of hidden tests

HIDDEN = '''
# %% answer="secret"
def secret(x):
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION

# %% check="secret" points=1
"""Everything that a page can say of a hidden test."""
with check("secret") as test:

    def told(secret, x):
        """What a scenario gives back."""
        return secret(x)

    ### BEGIN HIDDEN TESTS
    test.hidden("not to be told")
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    seen = observe(secret, x)
    seen.returns(torch.tensor([2.0, 4.0, 8.0])).leaves_arguments_alone().owns_its_memory().warned_nothing()
    seen.gives_gradients(lambda x: x * 2)
    seen.avoided("eye", "sin").used("mul")
    observe_scenario(told, secret, x).returns(torch.tensor([2.0, 4.0, 8.0]))
    observe(secret, torch.tensor([])).raises(ValueError)
    ### END HIDDEN TESTS
'''

MANY = ", ".join(f"n{number}=0" for number in range(60))
ROADS = {
    "values": "def secret(x): return x * {k}",
    "shape": "def secret(x): return torch.zeros(0, {k}, 1)",
    "items of a list": "def secret(x): return [0] * {k}",
    "a key": "def secret(x): return {{'k{k}': x}}",
    "a number": "def secret(x): return {k}",
    "a text": "def secret(x): return 'k{k}'",
    "a class": "def secret(x): return type('K{k}', (), {{}})()",
    "an exception's class": "def secret(x): raise type('K{k}', (ValueError,), {{}})",
    "an exception's message": "def secret(x): raise ValueError('k{k}')",
    "a function's name": "def k{k}(): raise ValueError\ndef secret(x): k{k}()",
    "a line": "def secret(x):\n" + "    \n" * 3 + "    if {k} == 3: raise ValueError\n    raise ValueError",
    "printed": "def secret(x): print('k{k}')",
    "the message of a warning": "import warnings\ndef secret(x):\n    warnings.warn('k{k}')\n    return x * 2",
    "a warning's class": (
        "import warnings\ndef secret(x):\n    warnings.warn('', type('K{k}', (UserWarning,), {{}}))\n    return x * 2"
    ),
    "where an argument was changed": "def secret(x):\n    out = x * 2\n    x.data[{k} - 3] = 9.0\n    return out",
    "a parameter's name": (
        f"def secret(x): return (x * 2).detach() + 0 * x\ndef many({MANY}): pass\nimport inspect\n"
        "secret.__signature__ = inspect.Signature([inspect.Parameter('n{k}', inspect.Parameter.POSITIONAL_ONLY)])"
    ),
    "one of very many parameters": (
        f"def secret(x, {MANY}): return (x * 2).detach() + 0 * x\nimport inspect\n"
        "secret.__signature__ = inspect.Signature([inspect.Parameter('n{k}', inspect.Parameter.POSITIONAL_ONLY)])"
    ),
    "a gradient": "def secret(x): return (x * 2).detach() + {k} * (x - x.detach())",
    "the message of a backward pass": """
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): raise ValueError("k{k}")
secret = Fn.apply
""",
    "an operation": (
        "schema = '(Tensor x) -> Tensor'\n"
        "pick = torch.library.custom_op('stories::k{k}', lambda x: x * 1, mutates_args=(), schema=schema)\n"
        "def secret(x): return (x * 2).detach() + 0 * pick(x.detach()) + 2 * (x - x.detach()).sin()"
    ),
    "a story's result": "def secret(x): return x * 2 if x.requires_grad else x * {k}",
    "what it replaced": "def secret(x):\n    torch.equal = lambda *a: {k}\n    return x * 2",
    "how it was refused": (
        "def secret(x):\n    if not len(x): raise type('K{k}', (KeyError,), {{}})('k{k}')\n    return x * 2"
    ),
}


@pytest.fixture(scope="module")
def hidden(master: MasterChapter) -> MasterChapter:
    setup, _, _ = SOURCE.lstrip().partition("# %% answer")
    return MasterChapter.from_notebook("95_hidden", notebook_of(setup + HIDDEN.lstrip(), "hidden.py"))


@pytest.mark.parametrize("source", ROADS.values(), ids=ROADS.keys())
def test_a_page_says_nothing_of_a_hidden_test_that_an_answer_can_choose(hidden, sandbox: Sandbox, source: str):
    said = set()
    for secret in (3, 5):
        cells = [SubmittedCell("answer", "secret", source.format(k=secret))]
        mark = referee.grade(Submission("ada", "95_hidden", cells), hidden, sandbox).marks[0]
        assert mark.points == 0 and mark.state == "wrong", mark.verdict
        said.add(mark.verdict)
    assert len(said) == 1
