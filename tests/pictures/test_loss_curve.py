"""Curves of losses, their axis, and the place in the notebook where they grow."""

import math
from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import loss_curve
from torchkata.pictures.image import slim, svg_in
from torchkata.pictures.loss_curve import LiveCurve, draw_losses, scale


@pytest.mark.parametrize("largest", [1e-7, 0.03, 0.99, 1.0, 1.01, 2.3, 47.0, 1e9])
def test_the_scale_holds_the_largest_value_and_has_few_marks(largest):
    top, step = scale([largest, 0.0, math.nan, math.inf])
    assert largest <= top * (1 + 1e-9) and top <= 2 * largest
    assert round(top / step) == pytest.approx(top / step) and 2 <= round(top / step) <= 6


def test_the_scale_of_nothing():
    assert scale([]) == scale([math.nan, 0.0]) == (1.0, 0.5)


def test_a_live_curve_collects_and_says_at_the_end(capsys):
    curve = LiveCurve(2, "training", "validation")
    curve.add(training=1.5, validation=torch.tensor(1.0))
    assert capsys.readouterr().out == ""
    curve.add(validation=1.25, training=0.5)
    assert capsys.readouterr().out.startswith("Loss after 2 of 2 epochs. training: first 1.5, last 0.5")
    assert curve.losses == {"training": [1.5, 0.5], "validation": [1.0, 1.25]}
    assert (curve.lowest("training"), curve.lowest("validation")) == (0.5, 1.0)


def test_a_live_curve_wants_each_loss_by_name():
    with pytest.raises(ValueError, match="training, validation is needed; given: training"):
        LiveCurve(2, "training", "validation").add(training=1.0)


def test_in_a_notebook_one_place_is_drawn_anew(monkeypatch):
    import IPython

    shown = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda bundle, **options: shown.append((bundle, options)))
    curve = LiveCurve(2, "loss")
    curve.add(loss=2.0)
    curve.note = "half done"
    curve.add(loss=1.0)
    assert "half done" in curve.picture().svg
    (first, of_first), (second, of_second) = shown
    assert of_first["display_id"] == of_second["display_id"]
    assert (of_first["update"], of_second["update"]) == (False, True)
    assert svg_in(first["text/html"]) != svg_in(second["text/html"]) == slim(curve.picture().svg)
    assert "last 1" in second["text/html"]


SOME = {"training": [2.5, 1.2, math.nan, 0.3], "validation": [2.0, 1.0, math.inf, 1e-3]}
MANY = {"a": [1 / n for n in range(1, 101)], "b": [2 / n for n in range(1, 101)], "c": [0.1] * 100}
GALLERY = drawn.Gallery(
    {
        "no losses": partial(draw_losses, {"training": [], "validation": []}, 20),
        "one": partial(draw_losses, {"training": [2.5]}, 1),
        "some": partial(draw_losses, SOME, 25),
        "many": partial(draw_losses, MANY, 100),
        "with a note": partial(draw_losses, SOME, 18, "round", "59 min 59 s so far, about 119 min 59 s left"),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "training: first 2.5, last 0.3, lowest 0.3." in GALLERY["some"].alt


def test_a_long_curve_is_drawn_whole():
    picture = loss_curve.draw_losses({"train": [1.0] * 50, "valid": [2.0] * 50}, 50)
    drawn.check_svg(picture)
