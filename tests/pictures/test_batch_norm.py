"""A step is what the layer does; the explorer goes forward in the chosen mode."""

from functools import partial

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import batch_norm


@pytest.mark.parametrize("momentum", [0.1, 0.5, 1.0])
def test_bn_step_is_what_the_layer_does(momentum):
    layer = nn.BatchNorm1d(1, momentum=momentum)
    running = (0.0, 1.0)
    for step in range(5):
        x = batch_norm.batch_of(2.0 * step - 3, 0.5 + step / 2, 4 + step)
        y, running = batch_norm.bn_step(x, running, momentum, True)
        torch.testing.assert_close(y, layer(x[:, None])[:, 0], atol=1e-5, rtol=1e-5)
        assert running == pytest.approx((layer.running_mean.item(), layer.running_var.item()), rel=1e-5)
    layer.eval()
    y, same = batch_norm.bn_step(x, running, momentum, False)
    torch.testing.assert_close(y, layer(x[:, None])[:, 0], atol=1e-5, rtol=1e-5)
    assert same == running


def test_a_batch_has_the_mean_and_spread_that_it_says():
    for size in range(2, 17):
        x = batch_norm.batch_of(-4.5, 2.5, size)
        assert len(x) == size
        assert x.mean().item() == pytest.approx(-4.5, abs=1e-5)
        assert x.std(unbiased=False).item() == pytest.approx(2.5, rel=1e-5)


def test_single_values_are_refused_in_train_mode_only():
    one = torch.tensor([3.0])
    with pytest.raises(ValueError, match="more than 1 value"):
        batch_norm.bn_step(one, (0.0, 1.0), 0.1, True)
    assert batch_norm.bn_step(one, (3.0, 1.0), 0.1, False)[0].item() == 0
    with pytest.raises(ValueError, match="two values"):
        batch_norm.batch_of(0.0, 1.0, 1)


def after(mean, spread, size, history, train, earlier=0):
    return batch_norm.draw_batch_norm(batch_norm.batch_of(mean, spread, size), history, 0.1, train, earlier)


FAR = [(0.0, 1.0), *[(10.0, 20.0)] * 40]
GALLERY = drawn.Gallery(
    {
        f"mean {mean}, size {size}, {train}, {len(history)}": partial(after, mean, spread, size, history, train)
        for mean, spread, size in ((5.0, 2.0, 8), (-5.0, 3.0, 16), (10.0, 3.0, 2))
        for history in ([(0.0, 1.0)], FAR)
        for train in (True, False)
    }
    | {
        "the earlier batches alone": partial(after, 5.0, 2.0, 8, FAR[:7], True, 6),
        "after earlier batches": partial(after, -5.0, 2.0, 8, FAR, False, 20),
        "after one earlier batch": partial(after, -5.0, 2.0, 8, FAR[:3], False, 1),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def said(layer):
    return f"running mean is {layer.running_mean.item():.2f}, the running variance {layer.running_var.item():.2f}"


def test_the_batch_norm_explorer_goes_forward_in_the_chosen_mode():
    player = drawn.Player(batch_norm.bn_explorer(steps=2))
    layer = nn.BatchNorm1d(1)
    for _ in range(2):
        layer(batch_norm.batch_of(5.0, 2.0, 8)[:, None])
    assert "After 2 forwards" in player.shown.alt and said(layer) in player.shown.alt
    player.set("mode", "eval")
    words = player.press("forward", "on").alt
    assert "After 3 forwards" in words and said(layer) in words
    words = player.set("layer", 0).alt
    assert "After 0 forwards" in words and "running mean is 0.00, the running variance 1.00" in words


def test_another_batch_goes_on_from_what_the_layer_has_seen():
    player = drawn.Player(batch_norm.bn_explorer(steps=6))
    player.set("batch mean", -3.0)
    player.press("forward", "on")
    words = player.press("forward", "on").alt
    layer = nn.BatchNorm1d(1)
    for mean in (*[5.0] * 6, *[-3.0] * 2):
        layer(batch_norm.batch_of(mean, 2.0, 8)[:, None])
    assert "After 8 forwards" in words and said(layer) in words
    assert "Of these the first 6 forwards were in train mode, with 8 values of mean 5 and spread 2." in words
    assert "After 7 forwards" in player.press("forward", "back").alt
    assert "After 6 forwards" in player.press("forward", "anew").alt


@pytest.mark.parametrize("steps", [0, 6])
def test_the_explorer_keeps_what_every_explorer_keeps(steps):
    drawn.check_explorer(batch_norm.bn_explorer(steps))
