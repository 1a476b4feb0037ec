"""Python and the GPU in two lanes."""

from functools import partial

from tests.pictures import drawn
from torchkata.instruments.lanes import lanes, totals
from torchkata.pictures.two_lanes import draw_lanes, gap_every_third, lanes_explorer, program

GALLERY = drawn.Gallery(
    {
        "explorer": lambda: lanes_explorer().picture(),
        "gap": gap_every_third,
        "queue of two": partial(draw_lanes, program(30, 2, 0), 2, "A queue of two"),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_numbers_are_those_of_the_lanes():
    sums = totals(lanes(program(8, 6, 1)))
    assert f"Total {sums.total:,.0f} microseconds" in GALLERY["explorer"].alt


def test_reading_every_step_takes_longer_than_never():
    assert totals(lanes(program(8, 6, 1))).total > totals(lanes(program(8, 6, 0))).total
