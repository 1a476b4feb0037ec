"""The scale moves as that of a GradScaler."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import loss_scale


@pytest.mark.parametrize(("growth", "backoff", "interval"), [(2.0, 0.5, 3), (4.0, 0.25, 5), (2.0, 0.5, 1)])
def test_the_scale_moves_as_that_of_torch(growth, backoff, interval):
    events = loss_scale.random_events(0.2, 200, 1)
    assert 20 < sum(events) < 60
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    settings = {"growth_factor": growth, "backoff_factor": backoff, "growth_interval": interval}
    scaler = torch.amp.GradScaler("cpu", **settings)
    scales = []
    for event in events:
        scaler.scale(torch.zeros(1)).detach()
        weight.grad = torch.tensor([math.inf if event else 0.0])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert loss_scale.simulate_scale(events, 65536.0, growth, backoff, interval) == scales


def test_the_scale_stays_a_float32_number():
    assert loss_scale.simulate_scale([False] * 200, interval=1)[-1] == 2.0**127


def test_events_follow_the_seed():
    assert loss_scale.random_events(0.3, 50, 1) == loss_scale.random_events(0.3, 50, 1)
    assert loss_scale.random_events(0.3, 50, 1) != loss_scale.random_events(0.3, 50, 2)
    assert not any(loss_scale.random_events(0.0, 50, 1))


EVENTS = loss_scale.random_events(0.02, 400, 0)
GALLERY = drawn.Gallery(
    {
        "scale": partial(loss_scale.draw_scale, EVENTS, interval=20, about="A setting."),
        "scale, only down": partial(loss_scale.draw_scale, [True] * 100),
        "scale, only up": partial(loss_scale.draw_scale, [False] * 800, 8.0, interval=1),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "skipped: 100 of 100 steps; lowest 2^-84, last 2^-84" in GALLERY["scale, only down"].alt


def test_scale_explorer_shows_what_its_controls_say():
    player = drawn.Player(loss_scale.scale_explorer())
    values = {"probability": 0.1, "growth_interval": 7, "seed": 3, "growth_factor": 4.0, "backoff_factor": 0.25}
    for name, value in {**values, "iterations": 200}.items():
        player.set(name, value)
    about = "inf with probability 0.10; growth × 4 after 7 good iterations in a row; backoff × 0.25"
    events = loss_scale.random_events(0.1, 200, 3)
    assert player.shown.svg == loss_scale.draw_scale(events, 4.0, 0.25, 7, about).svg


def test_often_an_inf_and_a_long_interval_is_drawn_ahead():
    player = drawn.Player(loss_scale.scale_explorer())
    player.set("probability", 0.3)
    player.set("growth_interval", 200)
    assert player.explorer.key(player.state) in player.explorer.frames()
