"""Graphs are counted, and the compiler is left as it was found."""

import logging

import pytest
import torch
import torch._dynamo

from torchkata.instruments.break_map import OFFENDERS, break_map
from torchkata.instruments.cache_story import STORIES, cache_story
from torchkata.instruments.captured import (
    Counting,
    fresh_compiler,
    graphs_after,
    instruments_used,
    logged,
    settings_changed,
)
from torchkata.instruments.cut import cut_of


def twice(x):
    return x * 2


def sizes(*lengths):
    return [(torch.ones(n),) for n in lengths]


def test_graphs_and_runs_are_counted():
    assert graphs_after(twice, *sizes(5, 5, 6, 7)) == [1, 1, 2, 2]
    with fresh_compiler():
        backend = Counting()
        compiled = torch.compile(twice, backend=backend)
        for args in sizes(5, 5, 6):
            compiled(*args)
    assert (len(backend.graphs), backend.runs) == (2, 3)


def test_the_instruments_that_are_used_are_named():
    with instruments_used() as outer:
        with instruments_used() as inner:
            graphs_after(lambda x: x + 1, (torch.ones(2),))
        cut_of(lambda x: x.exp(), [torch.ones(2, requires_grad=True)], recompute=False)
    graphs_after(lambda x: x + 1, (torch.ones(2),))
    assert (inner, outer) == ({"Counting"}, {"Counting", "cut_of"})
    with instruments_used() as used, fresh_compiler():
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert used == set()


def test_the_compiler_is_left_as_it_was_found():
    config, logger = torch._dynamo.config, logging.getLogger("torch._dynamo")
    before, level = config.get_config_copy(), logger.level
    with pytest.raises(ZeroDivisionError), fresh_compiler():
        config.recompile_limit = 99
        torch.compiler.set_stance("force_eager")
        assert settings_changed() == ["recompile_limit"]
        raise ZeroDivisionError
    assert config.get_config_copy() == before and logger.level == level and settings_changed() == []
    assert graphs_after(twice, *sizes(5, 6)) == [1, 2]  # no stance is left, and no size is remembered


def test_settings_of_the_caller_do_not_count_inside():
    with torch._dynamo.config.patch(specialize_int=True, recompile_limit=1):
        assert graphs_after(lambda x, n: x * n, *[(torch.ones(2), n) for n in (2, 3, 4)]) == [1, 2, 2]
        assert torch._dynamo.config.recompile_limit == 1


def test_the_limit_is_logged_and_not_shown(capfd):
    with fresh_compiler(), logged("torch._dynamo.convert_frame") as messages:
        compiled = torch.compile(lambda x, s: x * len(s), backend="eager")
        for n in range(9):
            compiled(torch.ones(2), "a" * n)
    assert any("recompile_limit" in message for message in messages)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", STORIES)
def test_each_call_makes_or_hits_or_runs_without(name):
    steps = cache_story(name)
    assert len(steps) == len(STORIES[name][2])
    assert all(step.made + step.eager + (step.hit is not None) == 1 for step in steps)
    assert sum(step.made for step in steps) <= 8


def test_what_hits_and_what_fails():
    steps = cache_story("sizes")
    assert [step.made for step in steps[:4]] == [True, False, True, False]
    assert [entry for entry, _ in steps[5].tried] == [2, 1, 0]  # the one that ran last is asked first
    assert [step.eager for step in cache_story("a counter")] == [False] * 8 + [True] * 2


def test_where_a_function_breaks():
    numbers = [graph for _, graph in break_map("print", False, False).lines]
    assert numbers == [None, None, 0, 0, None, 1, 1]
    assert break_map("print", True, False).graphs == 0
    assert break_map("item()", False, False).graphs == 2 and break_map("item()", False, True).graphs == 1
    assert "print" not in OFFENDERS["nothing"] and break_map("print", False, True).error


def test_what_is_kept():
    x = torch.linspace(0.1, 1.0, 300).reshape(100, 3).requires_grad_()
    plain, again = (cut_of(lambda x: x.sin().sin().sin(), [x], recompute) for recompute in (False, True))
    assert (plain.kept, len(plain.forward), len(plain.backward)) == (2400, 3, 6)
    assert (again.kept, len(again.forward), len(again.backward)) == (0, 3, 8)
    assert plain.crosses == ("primals_1", "sin", "sin_1") and again.crosses == ("primals_1",)
    assert x.grad is None
