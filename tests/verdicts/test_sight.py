"""What the profiler tells of operations that no recorder has seen."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from torchkata.verdicts import sight


@pytest.mark.parametrize("told", [True, False], ids=["the profiler tells of it", "the profiler leaves it out"])
def test_what_an_operation_in_python_calls_is_its_work(told: bool):
    """Since torch 2.15 the profiler doesn't tell of an operation that is written in Python."""
    watcher = sight.Sight()
    copying = SimpleNamespace(name="aten::clone", children=[SimpleNamespace(name="aten::copy_", children=[])])
    own = SimpleNamespace(name="kata::own", children=[copying])
    marker = SimpleNamespace(name=f"{watcher._called} kata::own", children=[own if told else copying])
    watcher._look_below([marker], "")
    assert watcher.lost == [sight.unseen("own")]
    assert watcher.called == ["own", "clone", "copy_"]
