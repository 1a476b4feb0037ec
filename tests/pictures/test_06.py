"""The pictures of chapter 06: their states agree with torch, and what they draw can be read."""

import warnings
from collections import Counter
from itertools import product

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import feature_maps, gradient_bars, hook_timeline, old_hook

KINDS = frozenset(hook_timeline.KINDS)


def fired(model_id, x_requires_grad=True, hooks=KINDS, no_grad=False):
    return hook_timeline.hook_timeline(model_id, x_requires_grad, hooks, no_grad)


def nodes(events, kind):
    return [event.node for event in events if event.kind == kind]


# ---------------------------------------------------------------- the timeline


@pytest.mark.parametrize(("x_requires_grad", "count"), [(True, 19), (False, 17)])
def test_two_layers_with_all_kinds(x_requires_grad, count):
    events = fired("two layers", x_requires_grad)
    assert len(events) == count
    assert nodes(events, "pre") == ["net", "a", "b"]
    assert nodes(events, "forward") == ["a", "b", "net"]
    assert nodes(events, "backward_pre") == ["net", "b", "a"]
    assert nodes(events, "tensor") == ["y", "b.weight", "a.weight"] + ["x"] * x_requires_grad
    assert nodes(events, "accumulate") == ["b.weight", "a.weight"] + ["x"] * x_requires_grad


def test_a_plain_x_lets_containers_close_first():
    assert nodes(fired("two layers"), "backward") == ["b", "a", "net"]
    assert nodes(fired("two layers", False), "backward") == ["net", "b", "a"]
    assert nodes(fired("nested"), "backward") == ["c", "b", "a", "block", "net"]
    assert nodes(fired("nested", False), "backward") == ["net", "c", "block", "b", "a"]


def test_a_layer_used_twice_has_one_gradient():
    events = fired("one layer used twice")
    assert nodes(events, "forward") == ["a", "a", "net"]
    assert nodes(events, "backward") == ["a", "a", "net"]
    assert nodes(events, "tensor").count("a.weight") == nodes(events, "accumulate").count("a.weight") == 1


@pytest.mark.parametrize("model_id", hook_timeline.MODELS)
def test_under_no_grad_nothing_fires_in_backward(model_id):
    events = fired(model_id, no_grad=True)
    assert {event.phase for event in events} == {"forward"}
    assert events == [event for event in fired(model_id) if event.phase == "forward"]


@pytest.mark.parametrize("x_requires_grad", [True, False])
@pytest.mark.parametrize("model_id", hook_timeline.MODELS)
def test_each_kind_alone_fires_as_often_as_among_all(model_id, x_requires_grad):
    every = fired(model_id, x_requires_grad)
    for kind in KINDS:
        alone = fired(model_id, x_requires_grad, {kind})
        assert Counter(alone) == Counter(event for event in every if event.kind == kind)


def test_without_backward_hooks_on_modules_x_comes_before_the_weight():
    """The node that such hooks put before a layer delays x; the chapter says so."""
    assert nodes(fired("nested", hooks={"tensor"}), "tensor") == ["y", "c.weight", "b.weight", "x", "a.weight"]
    assert nodes(fired("two layers", hooks={"tensor"}), "tensor") == ["y", "b.weight", "x", "a.weight"]
    assert nodes(fired("two layers", hooks={"tensor", "backward"}), "tensor") == ["y", "b.weight", "a.weight", "x"]


def test_shapes():
    shapes = {(event.node, event.kind): event.shape for event in fired("two layers")}
    assert shapes["a", "pre"] == shapes["a", "backward"] == shapes["x", "tensor"] == (1, 2)
    assert shapes["a", "forward"] == shapes["a", "backward_pre"] == shapes["b", "backward"] == (1, 3)
    assert shapes["b.weight", "tensor"] == shapes["b.weight", "accumulate"] == (1, 3)
    plain = {(event.node, event.kind): event.shape for event in fired("two layers", False)}
    assert plain["net", "backward"] is plain["a", "backward"] is None
    assert plain["b", "backward"] == (1, 3)


def test_a_timeline_leaves_no_trace():
    state = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            assert len(fired("nested", False)) == 27
            assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)


def test_an_unknown_kind_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="'backwards'"):
        fired("two layers", hooks={"backwards"})


# ---------------------------------------------------------------- old and full hook


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


# ---------------------------------------------------------------- gradient norms, feature maps


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


def test_feature_maps_refuse_what_they_can_not_draw():
    with pytest.raises(ValueError, match="three dimensions"):
        feature_maps.feature_maps({"flat": torch.ones(3, 4)})


# ---------------------------------------------------------------- drawing


def gallery():
    image = torch.tensor([[[0.0, 1, -2], [3, -10, 0]]])
    pictures = {
        "old and full hook": old_hook.old_and_full_hook(3, 4, 5),
        "bars": gradient_bars.gradient_bars(("Sigmoid", "Tanh", "ReLU"), 8, 0),
        "one group of bars": gradient_bars.gradient_bars(("GELU",), 12, 1),
        "features": feature_maps.feature_maps({"image": image, "two channels": torch.cat([image, -image])}),
        "no hooks": hook_timeline.draw_timeline("two layers", True, (), False),
    }
    for model_id, grad, no_grad in product(hook_timeline.MODELS, (True, False), (True, False)):
        events = fired(model_id, grad, KINDS, no_grad)
        longest = max(range(len(events)), key=lambda n: len(hook_timeline.event_in_words(events[n])))
        name = f"{model_id}, {grad}, {no_grad}"
        pictures[name] = hook_timeline.draw_timeline(model_id, grad, KINDS, no_grad, longest)
    return pictures


GALLERY = gallery()


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(GALLERY[name])


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_or_covered_by_another(name):
    drawn.check_texts(GALLERY[name].figure)


@pytest.mark.parametrize("name", GALLERY)
def test_every_cell_stands_on_the_card_and_none_on_another(name):
    drawn.check_boxes(GALLERY[name].figure)


def test_explorer_shows_what_its_controls_say():
    explorer = hook_timeline.hook_explorer()
    controls = explorer.controls
    assert all(control.description for control in controls.values())
    assert drawn.shown(explorer) == hook_timeline.draw_timeline("nested", True, KINDS, False, 0).svg
    controls["model"].value = "two layers"
    assert drawn.shown(explorer) == hook_timeline.draw_timeline("two layers", True, KINDS, False, 0).svg
    controls["model"].value = "nested"
    controls["x requires grad"].value = False
    controls["tensor hook"].value = False
    for _ in range(2):
        controls["next event"].click()
    kinds = KINDS - {"tensor"}
    assert drawn.shown(explorer) == hook_timeline.draw_timeline("nested", False, kinds, False, 2).svg
    for _ in range(3):
        controls["back"].click()
    assert "Event 23 is the post-accumulate hook of a.weight" in explorer.alt
    controls["no_grad"].value = True
    assert "No hooks in backward." in explorer.alt and "Event 1 is" in explorer.alt


def test_explorer_without_any_hook():
    explorer = hook_timeline.hook_explorer()
    for name in hook_timeline.KINDS.values():
        explorer.controls[name].value = False
    explorer.controls["next event"].click()
    assert "No hooks in forward. No hooks in backward." in explorer.alt
    drawn.shown(explorer)
