"""Bytes that attention keeps, measured: with all weights, and without."""

import pytest

from tests.pictures import drawn
from torchkata.pictures.kept_bytes import DIM, HEADS, kept_bars, kept_bytes

GALLERY = drawn.Gallery({"bars": kept_bars})


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 280


def test_the_plain_kernel_keeps_the_weights_and_the_fused_one_a_number_for_each_query():
    for length in (128, 256):
        whole = HEADS * length * DIM * 4
        with drawn.other_settings():
            plain, fused = kept_bytes(length, "plain"), kept_bytes(length, "fused")
        assert plain == pytest.approx(3 * whole + HEADS * length * length * 4, abs=100)
        assert fused == pytest.approx(4 * whole + HEADS * length * 4, abs=100)


def test_the_words_have_the_numbers():
    assert "512 positions: plain 5.8 MB, fused 2.1 MB" in GALLERY["bars"].alt
