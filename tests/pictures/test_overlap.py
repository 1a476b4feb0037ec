"""What a step computes, what it sends meanwhile, and how long it waits."""

from functools import partial

import pytest

from tests.pictures import drawn
from torchkata.pictures.overlap import overlap, waiting

EXPOSED = (0.01, 0.03, [(0.02, 0.05), (0.05, 0.08)])
HIDDEN = (0.04, 0.1, [(0.07, 0.08), (0.1, 0.1)])


def test_a_step_waits_from_the_end_of_backward_to_the_last_arrival():
    assert waiting(EXPOSED) == pytest.approx(0.05)
    assert waiting(HIDDEN) == 0


GALLERY = drawn.Gallery(
    {
        "exposed and hidden": partial(overlap, {"few samples": EXPOSED, "many samples": HIDDEN}),
        "one": partial(overlap, {"few samples": EXPOSED}),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_is_drawn():
    alt = GALLERY["exposed and hidden"].alt
    assert "few samples: computes 30.0 ms, waits 50.0 ms; 2 buckets travel from 20.0 ms to 80.0 ms" in alt
    assert "many samples: computes 100.0 ms, waits 0.0 ms" in alt
