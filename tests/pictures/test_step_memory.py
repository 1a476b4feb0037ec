"""Memory over a training step, by kind."""

from functools import partial

from tests.pictures import drawn
from torchkata.instruments.step_film import memory_film, peak_of
from torchkata.pictures.step_memory import COLUMNS, columns, step_memory, step_memory_explorer

GALLERY = drawn.Gallery(
    {
        "large batch": partial(step_memory, 1024),
        "small batch": partial(step_memory, 16, 4, "SGD"),
        "explorer": lambda: step_memory_explorer().picture(),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def test_the_columns_hold_the_peak():
    for batch in (16, 1024):
        film = memory_film(batch)
        shown = columns(film)
        assert len(shown) == sum(COLUMNS.values())
        assert max(frame.total for frame in shown) == film[peak_of(film)].total


def test_the_words_tell_where_the_peak_is():
    assert "Peak: 7.51 MiB, after mul in backward" in GALLERY["large batch"].alt
    assert "in the optimizer's step" in step_memory(16).alt
