"""The way of a call through torch.compile, and why two kernels can't be one: drawn, and said in words."""

import pytest

from tests.pictures import drawn
from torchkata.pictures import compile_way

NAMES = [station.name for station in compile_way.WAY]
GALLERY = drawn.Gallery(
    {"plain": compile_way.compile_way, "ring": compile_way.ring_of_kernels}
    | {name: lambda name=name: compile_way.compile_way(name) for name in NAMES}
)


class TestLook(drawn.Look):
    gallery = GALLERY


@pytest.mark.parametrize("name", NAMES)
def test_what_is_lit_is_said(name):
    assert f"Marked: {name}." in GALLERY[name].alt
    assert "Marked" not in GALLERY["plain"].alt


def test_what_runs_in_each_call_and_what_once():
    always, once = GALLERY["plain"].alt.split("Only if no entry fits: ")
    assert [name for name in NAMES if f"{name}: " in always] == ["call", "guards", "callable"]
    assert [name for name in NAMES if f"{name}: " in once] == ["graph", "backend"]


def test_an_unknown_station_is_refused():
    with pytest.raises(ValueError, match="lit is one of call, guards, callable, graph, backend"):
        compile_way.compile_way("cache")
