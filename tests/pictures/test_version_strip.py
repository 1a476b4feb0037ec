"""The versions of a tensor, and who expects which."""

from functools import partial

import pytest

from tests.pictures import drawn
from torchkata.pictures import version_strip

LIFE = "w = torch.zeros(3, requires_grad=True)\nh = w.sigmoid()\nk = h.sin()\nh.mul_(2)\nm = h.sin()"


def test_the_life_of_a_tensor():
    life = version_strip.version_life(LIFE, "h")
    assert [step.version for step in life.statements] == [None, 0, 0, 1, 1]
    assert [step.wrote for step in life.statements] == [False, False, False, True, False]
    assert [(k.label, k.at, k.expects) for k in life.keepers] == [
        ("SigmoidBackward0", 1, 0),
        ("SinBackward0", 2, 0),
        ("SinBackward0", 4, 1),
    ]
    assert life.version == 1 and "is at version 1; expected version 0" in life.error


def test_a_harmless_write():
    life = version_strip.version_life("w = torch.ones(2, requires_grad=True)\nh = w * 2\nh.add_(1)", "h")
    assert life.version == 1 and life.keepers == () and life.error is None


def test_a_write_through_detach_counts_and_one_through_data_does_not():
    base = "w = torch.ones(2, requires_grad=True)\nh = w.exp()\n"
    assert version_strip.version_life(base + "h.detach().mul_(2)", "h").version == 1
    assert version_strip.version_life(base + "h.data.mul_(2)", "h").version == 0


def test_a_name_that_is_never_bound():
    with pytest.raises(ValueError, match="binds 'z'"):
        version_strip.version_life(LIFE, "z")


HARMLESS = "w = torch.ones(2, requires_grad=True)\nh = w * 2\nh.add_(1)"
GALLERY = drawn.Gallery(
    {
        "life": partial(version_strip.version_strip, LIFE, "h"),
        "harmless": partial(version_strip.version_strip, HARMLESS, "h"),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True
