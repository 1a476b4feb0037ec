"""The norms are what autograd says."""

from functools import partial

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import gradient_bars


def test_gradient_profile():
    state = torch.get_rng_state()
    sigmoid, tanh, relu = (gradient_bars.gradient_profile(name, 8, 0) for name in ("Sigmoid", "Tanh", "ReLU"))
    assert torch.equal(torch.get_rng_state(), state)
    assert sigmoid[-1] / sigmoid[0] > 1000
    assert sigmoid == sorted(sigmoid)
    assert tanh[-1] / tanh[0] < relu[-1] / relu[0] < sigmoid[-1] / sigmoid[0]


def test_gradient_profile_is_what_autograd_says():
    torch.manual_seed(3)
    first, second = nn.Linear(16, 16), nn.Linear(16, 16)
    inner = first(torch.randn(4, 16))
    outer = second(inner.tanh())
    norms = [grad.norm().item() for grad in torch.autograd.grad(outer.tanh().sum(), (inner, outer))]
    assert gradient_bars.gradient_profile("Tanh", 2, 3) == pytest.approx(norms)


GALLERY = drawn.Gallery(
    {
        "bars": partial(gradient_bars.gradient_bars, ("Sigmoid", "Tanh", "ReLU"), 8, 0),
        "one group of bars": partial(gradient_bars.gradient_bars, ("GELU",), 12, 1),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
