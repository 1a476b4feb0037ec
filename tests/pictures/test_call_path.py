"""The way of x + y: each station can be lit, and is said in words."""

import pytest

from tests.pictures import drawn
from torchkata.pictures import call_path

NAMES = [station.name for station in call_path.WAY]
GALLERY = drawn.Gallery(
    {"plain": call_path.call_path} | {name: lambda name=name: call_path.call_path(name) for name in NAMES}
)


class TestLook(drawn.Look):
    gallery = GALLERY


@pytest.mark.parametrize("name", NAMES)
def test_what_is_lit_is_said(name):
    assert f"Marked: {name}." in GALLERY[name].alt


def test_without_a_station_nothing_is_marked():
    assert "Marked" not in GALLERY["plain"].alt
    assert "dispatcher: picks by device, layout and modes; " in GALLERY["plain"].alt


def test_an_unknown_station_is_refused():
    with pytest.raises(ValueError, match="lit is one of Python, dispatcher, autograd, kernel, storage"):
        call_path.call_path("C++")
