"""What the old and the full backward hook report."""

from functools import partial

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import old_hook


@pytest.mark.parametrize(
    ("layer", "shape", "old", "full"),
    [
        (nn.Linear(3, 4), (5, 3), [(4,), (5, 3), (3, 4)], [(5, 3)]),
        (nn.Linear(3, 4), (3,), [(1, 4)], [(3,)]),
        (nn.Linear(3, 4, bias=False), (5, 3), [(5, 3), (3, 4)], [(5, 3)]),
        (nn.Conv2d(2, 3, 3), (4, 2, 5, 5), [(4, 2, 5, 5), (3, 2, 3, 3), (3,)], [(4, 2, 5, 5)]),
        (nn.ReLU(), (5, 3), [(5, 3)], [(5, 3)]),
    ],
)
def test_hook_shapes(layer, shape, old, full):
    x = torch.ones(shape)
    assert old_hook.hook_shapes(layer, x, "old") == old
    assert len(layer._backward_hooks) == 0
    layer._is_full_backward_hook = None  # the two kinds can't be mixed on one module
    assert old_hook.hook_shapes(layer, x, "full") == full
    assert len(layer._backward_hooks) == 0 and not x.requires_grad


@pytest.mark.parametrize("shape", [(5, 3), (3,), (2, 5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_drawn_places_are_those_that_the_hooks_report(shape, bias):
    x = torch.ones(shape)
    places = old_hook.graph_places(nn.Linear(3, 4, bias=bias), x)
    for kind in ("old", "full"):
        reported = {getattr(place, kind): place.shape for place in places if getattr(place, kind) is not None}
        assert [reported[n] for n in range(len(reported))] == old_hook.hook_shapes(nn.Linear(3, 4, bias=bias), x, kind)
    assert {"x", "weight"} <= {place.name for place in places}


GALLERY = drawn.Gallery({"old and full hook": partial(old_hook.old_and_full_hook, 3, 4, 5)})


class TestLook(drawn.Look):
    gallery = GALLERY
