"""Positions as angles in two dtypes: the hands against torch, and which positions bfloat16 doesn't have."""

import math
from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures.angle_dials import BASE, PAIRS, POSITIONS, angles, apart, dials_explorer, draw_dials

GALLERY = drawn.Gallery(
    {
        "explorer": lambda: dials_explorer().picture(),
        "start": partial(draw_dials, 0),
        "far": partial(draw_dials, 4090),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 224  # as wide as a small phone


@pytest.mark.parametrize("position", POSITIONS)
def test_float32_has_the_angles_and_bfloat16_those_of_its_own_numbers(position):
    exact = [position * BASE ** (-2 * pair / (2 * PAIRS)) for pair in range(PAIRS)]
    with drawn.other_settings():
        full, half = angles(position, torch.float32), angles(position, torch.bfloat16)
    assert full == pytest.approx(exact, rel=1e-6)
    low = [
        torch.tensor(position).bfloat16() * torch.tensor(BASE ** (-pair / PAIRS)).bfloat16() for pair in range(PAIRS)
    ]
    assert half == [one.item() for one in low]


def test_the_difference_is_the_angle_between_the_hands():
    assert apart(257)[0] == pytest.approx(math.degrees(1), abs=0.01)  # 257 is 256 in bfloat16
    assert apart(256)[0] == 0 and max(apart(0)) == 0
    assert all(0 <= off <= 180 for position in POSITIONS for off in apart(position))


def test_the_words_tell_the_position_that_is_left():
    assert "In bfloat16 the position is 256." in GALLERY["explorer"].alt
    assert "pair 0: 325 and 268" in GALLERY["explorer"].alt
    assert "In bfloat16 the position is 4,096." in GALLERY["far"].alt


def test_the_explorer():
    drawn.check_explorer(dials_explorer())
