"""torch's compiler finds what a scenario uses while the scenario runs, and nobody does afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType

import pytest

from torchkata.base.check_cell import MODULE
from torchkata.verdicts.findable import found_by_the_compiler

CELL = """
import math

secret = 42

def unused(): return secret

def once(x): return math.floor(x)

def twice(x): return once(x) + once(x)

class Model:
    def forward(self, x): return twice(x)

def story(answer, x):
    def later(): return Model().forward(x)
    return answer(later)
"""


@pytest.fixture
def story() -> FunctionType:
    space: dict = {"__name__": MODULE.__name__}
    exec(CELL, space)
    return space["story"]


def found() -> set[str]:
    return {name for name in vars(sys.modules["check_cell"]) if not name.startswith("__")}


def test_what_a_scenario_uses_is_found_while_it_runs(story: Callable):
    with found_by_the_compiler(story):
        assert found() == {"Model", "twice", "once", "math"}
        assert MODULE.Model is story.__globals__["Model"]
    assert found() == set() and MODULE.__name__ == "check_cell"


def test_nothing_is_found_after_a_scenario_that_fails(story: Callable):
    with pytest.raises(ZeroDivisionError), found_by_the_compiler(story):
        story(lambda later: 1 / 0, 1)
    assert found() == set()
