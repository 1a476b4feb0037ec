"""Segments as rows of blocks."""

from functools import partial

import pytest

from tests.pictures import drawn
from torchkata.pictures.cache_blocks import TRACES, NotATrace, blocks_explorer, cache_blocks, trace_of

GALLERY = drawn.Gallery(
    {
        f"{name} {count}": partial(cache_blocks, trace_of(text), count)
        for name, text in TRACES.items()
        for count in (0, 3, 8)
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


@pytest.mark.parametrize("text", ["", "a", "a 0", "a 3, a 4", "free b", "A 3", "a -3", "a 1e9"])
def test_a_text_that_is_no_trace_is_refused(text):
    with pytest.raises(NotATrace):
        trace_of(text)


def test_a_trace_is_read():
    assert trace_of("a 30, free a,empty, b 0.5") == [
        ("alloc", "a", 30),
        ("free", "a"),
        ("empty_cache",),
        ("alloc", "b", 0.5),
    ]


def test_a_text_of_ones_own_is_drawn_or_refused():
    player = drawn.Player(blocks_explorer())
    player.set("events", "a 30, free a")
    assert player.says("trace") == "your own"
    assert "segment" in player.press("event", "on").alt
    assert "These events can't be read" in player.set("events", "nonsense (").alt


def test_the_last_event_of_the_opening_finds_no_room():
    assert "Out of memory" in GALLERY["in pieces 8"].alt
    assert "Out of memory" not in GALLERY["emptied early 8"].alt
