"""The way around a step in mixed precision: each part that can be lit is marked, and said in words."""

import pytest

from tests.pictures import drawn
from torchkata.pictures import amp_step

GALLERY = drawn.Gallery(
    {"plain": amp_step.amp_step} | {part: lambda part=part: amp_step.amp_step(part) for part in amp_step.PARTS}
)


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True


@pytest.mark.parametrize("part", amp_step.PARTS)
def test_what_is_lit_is_on_the_way(part):
    lit = amp_step.places_lit(part)
    assert set(lit) <= {place.name for place in amp_step.WAY}
    assert f"Marked: {', '.join(lit)}." in GALLERY[part].alt


def test_without_a_part_nothing_is_marked():
    assert amp_step.places_lit("") == ()
    assert "Marked" not in GALLERY["plain"].alt
    assert "weights: float32; copies: 16 bits" in GALLERY["plain"].alt


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="lit is one of autocast, backward, scale, between"):
        amp_step.amp_step("step")
