"""What the old and the full backward hook report."""

import warnings
from functools import partial

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import old_hook

REGISTER = {"old": "register_backward_hook", "full": "register_full_backward_hook"}


def hook_shapes(layer: nn.Module, x: torch.Tensor, kind: str) -> list[tuple[int, ...] | None]:
    """Run layer(x) forward and backward; the shapes in the grad_input of a hook of this kind: "old" or "full"."""
    shapes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old hook warns in forward
        getattr(layer, REGISTER[kind])(lambda module, grads, _: shapes.extend(grad.shape for grad in grads))
        layer(x.detach().requires_grad_()).sum().backward()
    return [tuple(shape) for shape in shapes]


@pytest.mark.parametrize("shape", [(5, 3), (3,), (2, 5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_drawn_places_are_those_that_the_hooks_report(shape, bias):
    x = torch.ones(shape)
    places = old_hook.graph_places(nn.Linear(3, 4, bias=bias), x)
    for kind in ("old", "full"):
        reported = {getattr(place, kind): place.shape for place in places if getattr(place, kind) is not None}
        assert [reported[n] for n in range(len(reported))] == hook_shapes(nn.Linear(3, 4, bias=bias), x, kind)
    assert {"x", "weight"} <= {place.name for place in places}


GALLERY = drawn.Gallery({"old and full hook": partial(old_hook.old_and_full_hook, 3, 4, 5)})


class TestLook(drawn.Look):
    gallery = GALLERY
