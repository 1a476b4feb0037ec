"""Channels as grids of numbers."""

from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import feature_maps


def test_feature_maps_refuse_what_they_can_not_draw():
    with pytest.raises(ValueError, match="three dimensions"):
        feature_maps.feature_maps({"flat": torch.ones(3, 4)})


IMAGE = torch.tensor([[[0.0, 1, -2], [3, -10, 0]]])
FEATURES = {"image": IMAGE, "two channels": torch.cat([IMAGE, -IMAGE])}
GALLERY = drawn.Gallery({"features": partial(feature_maps.feature_maps, FEATURES)})


class TestLook(drawn.Look):
    gallery = GALLERY
