"""What is written down for another process: modules that can't be imported travel by name, others by their content."""

from __future__ import annotations

import functools
import sys
import types

import cloudpickle
import pytest
import torch
from torch.autograd.function import once_differentiable

from torchkata.processes import run_on_ranks
from torchkata.processes.sending import dumps


def test_a_backward_under_once_differentiable_travels():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g

    def gradient(rank, world):
        x = torch.ones(2, requires_grad=True)
        Doubled.apply(x).sum().backward()
        return x.grad.tolist()

    assert run_on_ranks(gradient, backend=None) == [[2.0, 2.0]] * 2


def test_a_module_that_is_only_an_attribute_travels_by_name(monkeypatch: pytest.MonkeyPatch):
    assert "torch._C._functions" not in sys.modules
    assert cloudpickle.loads(dumps(torch._C._functions)) is torch._C._functions
    outer, inner = types.ModuleType("tests.outer"), types.ModuleType("tests.outer.inner")
    monkeypatch.setattr(sys.modules["tests"], "outer", outer, raising=False)
    outer.inner = inner
    assert cloudpickle.loads(dumps([inner, outer])) == [inner, outer]


@pytest.mark.parametrize("name", ["made_here", "torch.made_here", "torch._C._functions", "nowhere.made.here"])
def test_a_module_that_is_nowhere_travels_by_its_content(name: str):
    made = types.ModuleType(name)
    made.value = 3
    came = cloudpickle.loads(dumps(made))
    assert (came is made, came.__name__, came.value) == (False, name, 3)


@pytest.mark.parametrize("module", ["__main__", "check_cell"])
def test_a_cached_function_of_a_cell_travels_by_its_code(module: str):
    lines = (
        "import functools\n@functools.lru_cache(maxsize=9)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)"
    )
    cell: dict = {"__name__": module}
    exec(lines, cell)
    assert run_on_ranks(lambda rank, world: cell["fib"](40 + rank), backend=None) == [102334155, 165580141]
    came = cloudpickle.loads(dumps(cell["fib"]))
    assert came is not cell["fib"] and came.cache_parameters() == {"maxsize": 9, "typed": False}


def test_a_cached_function_that_can_be_imported_travels_by_name():
    assert cloudpickle.loads(dumps(cached_here)) is cached_here


@functools.cache
def cached_here() -> None:
    """Nothing."""


def test_a_function_of_a_check_cell_travels_by_its_code_while_it_can_be_imported(monkeypatch: pytest.MonkeyPatch):
    cell: dict = {"__name__": "check_cell"}
    exec("def twice(x): return x * 2", cell)
    monkeypatch.setattr(sys.modules["check_cell"], "twice", cell["twice"], raising=False)
    came = cloudpickle.loads(dumps(cell["twice"]))
    assert came is not cell["twice"] and came(2) == 4
