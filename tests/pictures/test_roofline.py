"""Arithmetic against traffic."""

from functools import partial

import pytest

from tests.pictures import drawn
from torchkata.pictures.roofline import MACHINES, cost, draw_roofline, roofline

GALLERY = drawn.Gallery(
    {
        "few rows": partial(draw_roofline, MACHINES[0], "product", 1, 2),
        "many rows": partial(draw_roofline, MACHINES[0], "product", 4096, 2),
        "norm": partial(draw_roofline, MACHINES[2], "LayerNorm", 64, 4),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


@pytest.mark.parametrize(
    ("rows", "bound"), [(1, "traffic"), (344, "traffic"), (345, "arithmetic"), (4096, "arithmetic")]
)
def test_the_ridge_of_an_h100_lies_at_345_rows(rows, bound):
    assert roofline(*cost("product", rows, 2), MACHINES[0].half, MACHINES[0].bandwidth)[1] == bound


def test_the_longer_of_two_decides():
    assert roofline(10, 1, 5, 1) == (2, "arithmetic") and roofline(1, 10, 1, 2) == (5, "traffic")


def test_what_has_no_product_is_bound_by_traffic():
    assert "bound by traffic" in GALLERY["norm"].alt and "bound by arithmetic" in GALLERY["many rows"].alt
