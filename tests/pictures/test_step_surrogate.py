"""Steps are flat, and the gradient is that of the surrogate."""

from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import step_surrogate
from torchkata.pictures.step_surrogate import draw_surrogate, surrogate_curves

XS = step_surrogate._places()


@pytest.mark.parametrize("levels", range(2, 10))
@pytest.mark.parametrize("name", step_surrogate.STEPS)
def test_a_step_is_flat_wherever_it_is_drawn(name, levels):
    forward, _, quotient = surrogate_curves(name, "identity", 1.0, XS, levels)
    assert set(quotient) == {0.0}
    assert len(set(forward)) == {"sign": 2, "round": 5, "quantise": levels}[name]


def test_forward_values():
    xs = [-1.7, -0.4, 0.0, 0.4, 0.6, 1.7]
    assert surrogate_curves("sign", "identity", 1, xs)[0] == [-1, -1, 1, 1, 1, 1]
    assert surrogate_curves("round", "identity", 1, xs)[0] == [-2, 0, 0, 0, 1, 2]
    assert surrogate_curves("quantise", "identity", 1, xs, 3)[0] == [-1, 0, 0, 0, 1, 1]
    four = surrogate_curves("quantise", "identity", 1, [-5.0, -0.5, 0.5, 5.0], 4)[0]
    assert four == pytest.approx([-1, -1 / 3, 1 / 3, 1])


@pytest.mark.parametrize("name", step_surrogate.STEPS)
def test_gradients_are_those_of_the_surrogate(name):
    xs = [-1.5, -0.25, 0.0, 0.75, 1.5]
    assert surrogate_curves(name, "identity", 3, xs)[1] == [1] * 5
    assert surrogate_curves(name, "clipped identity", 3, xs)[1] == [0, 1, 1, 1, 0]
    slopes = [3 * (1 - torch.tanh(torch.tensor(3 * x, dtype=torch.float64)).item() ** 2) for x in xs]
    assert surrogate_curves(name, "tanh", 3, xs)[1] == pytest.approx(slopes)


@pytest.mark.parametrize("words", [("step", "tanh", 4), ("sign", "relu", 4), ("quantise", "tanh", 1)])
def test_unknown_steps_and_surrogates_are_told(words):
    name, surrogate, levels = words
    with pytest.raises(ValueError, match="none of"):
        surrogate_curves(name, surrogate, 1.0, [0.5], levels)


SHOWN = (
    ("sign", "tanh", 8.0),
    ("sign", "tanh", 0.5),
    ("round", "identity", 1.0),
    ("quantise", "clipped identity", 1.0),
)
GALLERY = drawn.Gallery({", ".join(map(str, words)): partial(draw_surrogate, *words) for words in SHOWN})


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "2.00 near x = 0" in draw_surrogate("sign", "tanh", 2.0).alt


def test_surrogate_explorer_shows_what_its_controls_say():
    player = drawn.Player(step_surrogate.surrogate_explorer())
    assert player.shown.svg == draw_surrogate("sign", "tanh", 2.0).svg
    player.set("function", "quantise")
    player.set("levels", 7)
    assert player.set("steepness", 4.5).svg == draw_surrogate("quantise", "tanh", 4.5, 7).svg
    assert player.set("surrogate", "clipped identity").svg == draw_surrogate("quantise", "clipped identity", 4.5, 7).svg


@pytest.mark.parametrize("surrogate", step_surrogate.SURROGATES)
def test_few_points_draw_the_same_curve(surrogate):
    curves = step_surrogate._drawn_curves("sign", surrogate, 8.0, 4)
    _, gradient, _ = surrogate_curves("sign", surrogate, 8.0, XS)
    places, values = curves.gradient
    assert len(places) < 100
    for x, expected in zip(map(step_surrogate._across, XS), gradient, strict=True):
        right = max(1, next(k for k, place in enumerate(places) if place >= x))
        share = (x - places[right - 1]) / (places[right] - places[right - 1])
        assert values[right - 1] + share * (values[right] - values[right - 1]) == pytest.approx(expected, abs=0.009)


def test_every_state_is_drawn_ahead():
    assert len(step_surrogate.surrogate_explorer().frames()) == 3 * 8 * 3 * 16
