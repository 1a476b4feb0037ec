"""The cache of a compiled function, where a function breaks, and what crosses the cut."""

from functools import partial

from tests.pictures import drawn
from torchkata.instruments.cache_story import cache_story
from torchkata.pictures.compile_breaks import breaks_explorer, draw_breaks
from torchkata.pictures.compile_cache import asked_before, cache_explorer, draw_cache
from torchkata.pictures.compile_cut import cut_explorer, draw_cut

GALLERY = drawn.Gallery(
    {
        "cache": lambda: cache_explorer().picture(),
        "before": partial(draw_cache, "numbers", 0),
        "modes": partial(draw_cache, "dtypes and modes", 5),
        "full": partial(draw_cache, "a counter", 9),
        "breaks": lambda: breaks_explorer().picture(),
        "refused": partial(draw_breaks, "if on data", True, True),
        "cut": lambda: cut_explorer().picture(),
        "gelu": partial(draw_cut, "gelu written out", True),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_one_that_ran_last_is_asked_first():
    assert asked_before(cache_story("sizes"), 5) == [1, 0]
    assert asked_before(cache_story("sizes"), 7) == [3, 2, 1, 0]


def test_the_words_say_what_happened():
    assert "entry 0: ✗ tensor 'x' size mismatch" in draw_cache("sizes", 3).alt
    assert "without a compiler" in draw_cache("a counter", 9).alt
    assert "0 graphs" in draw_breaks("print", True, False).alt
    assert "2,400 bytes" in draw_cut("three sines", False).alt
