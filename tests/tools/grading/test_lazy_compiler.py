"""torch's compiler stays unloaded until something needs it, and then all is as ever."""

from __future__ import annotations

import pytest

from tests.fresh_process import said_by

MARKED = """
import sys, torch
from torchkata.tools.grading.lazy_compiler import COMPILER, keep_compiler_unloaded
{keep}
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.Adam([weight])
halves = (torch.ones(3, device="meta") / 2).masked_fill(torch.ones(3, device="meta") > 0, 0)
print(COMPILER in sys.modules, halves.device.type)
"""
COMPILED = """
import inspect, torch._dynamo
optimizer.zero_grad()
function = inspect.getclosurevars(torch.optim.Optimizer.zero_grad).nonlocals["fn"]
print(getattr(function, "__dynamo_disable")._torchdynamo_disable)
"""


@pytest.mark.parametrize(("keep", "loaded"), [("keep_compiler_unloaded()", "False"), ("", "True")])
def test_a_marked_function_does_not_load_the_compiler(keep: str, loaded: str):
    assert said_by(MARKED.format(keep=keep)) == f"{loaded} meta"


@pytest.mark.parametrize("keep", ["keep_compiler_unloaded()", ""])
def test_once_the_compiler_is_there_marked_functions_are_kept_from_it(keep: str):
    assert said_by(MARKED.format(keep=keep) + COMPILED).splitlines()[1:] == ["True"]
