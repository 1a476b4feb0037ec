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


def after(mean, spread, size, history, train):
    return batch_norm.draw_batch_norm(batch_norm.batch_of(mean, spread, size), history, 0.1, train)


FAR = [(0.0, 1.0), *[(10.0, 20.0)] * 12]
GALLERY = drawn.Gallery(
    {
        f"mean {mean}, size {size}, {train}, {len(history)}": partial(after, mean, spread, size, history, train)
        for mean, spread, size in ((5.0, 2.0, 8), (-5.0, 3.0, 16), (10.0, 3.0, 2))
        for history in ([(0.0, 1.0)], FAR)
        for train in (True, False)
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def test_the_batch_norm_explorer_goes_forward_in_the_chosen_mode():
    explorer = batch_norm.bn_explorer(steps=2)
    controls = explorer.controls
    assert all(control.description for control in controls.values())
    layer = nn.BatchNorm1d(1)
    x = batch_norm.batch_of(5.0, 2.0, 8)
    for _ in range(2):
        layer(x[:, None])
    trained = f"running mean is {layer.running_mean.item():.2f}, the running variance {layer.running_var.item():.2f}"
    assert "After 2 forwards" in explorer.alt and trained in explorer.alt
    controls["mode"].value = "eval"
    controls["one forward"].click()
    assert "After 3 forwards" in explorer.alt and trained in explorer.alt
    drawn.shown(explorer)
    controls["new layer"].click()
    assert "After 0 forwards" in explorer.alt and "running mean is 0.00, the running variance 1.00" in explorer.alt
