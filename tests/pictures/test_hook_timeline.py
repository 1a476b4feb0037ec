"""Hooks fire in the order in which they are drawn."""

import warnings
from collections import Counter
from functools import partial
from itertools import product

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import hook_timeline

KINDS = frozenset(hook_timeline.KINDS)


def fired(model_id, x_requires_grad=True, hooks=KINDS, no_grad=False):
    return hook_timeline.hook_timeline(model_id, x_requires_grad, hooks, no_grad)


def nodes(events, kind):
    return [event.node for event in events if event.kind == kind]


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


def with_the_longest_event(model_id, grad, no_grad):
    events = fired(model_id, grad, KINDS, no_grad)
    longest = max(range(len(events)), key=lambda n: len(hook_timeline.event_in_words(events[n])))
    return hook_timeline.draw_timeline(model_id, grad, KINDS, no_grad, longest)


CASES = list(product(hook_timeline.MODELS, (True, False), (True, False)))
GALLERY = drawn.Gallery(
    {"no hooks": partial(hook_timeline.draw_timeline, "two layers", True, (), False)}
    | {", ".join(map(str, case)): partial(with_the_longest_event, *case) for case in CASES}
)


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 656


def test_explorer_shows_what_its_controls_say():
    player = drawn.Player(hook_timeline.hook_explorer())
    assert player.shown.svg == hook_timeline.draw_timeline("nested", True, KINDS, False, 0).svg
    assert player.set("model", "two layers").svg == hook_timeline.draw_timeline("two layers", True, KINDS, False).svg
    for name, value in {"model": "nested", "x requires grad": False, "tensor hook": False}.items():
        player.set(name, value)
    for _ in range(2):
        player.press("event", "on")
    kinds = KINDS - {"tensor"}
    assert player.shown.svg == hook_timeline.draw_timeline("nested", False, kinds, False, 2).svg
    assert player.press("event", "back").svg == hook_timeline.draw_timeline("nested", False, kinds, False, 1).svg
    last = player.press("event", "end")
    assert "Event 23 is the post-accumulate hook of a.weight" in last.alt
    assert player.press("event", "on").svg == last.svg
    assert "Event 1 is" in player.press("event", "anew").alt
    player.press("event", "end")
    without = player.set("no_grad", True).alt
    assert "No hooks in backward." in without and "Event 1 is" in without


@pytest.mark.parametrize("name", hook_timeline.KINDS.values())
def test_each_kind_can_be_left_out(name):
    player = drawn.Player(hook_timeline.hook_explorer())
    player.press("event", "end")
    kinds = {kind for kind, other in hook_timeline.KINDS.items() if other != name}
    assert player.set(name, False).svg == hook_timeline.draw_timeline("nested", True, kinds, False, 0).svg


def test_there_is_a_step_for_every_event():
    counts = [len(fired(model, grad)) for model in hook_timeline.MODELS for grad in (True, False)]
    assert max(counts) == hook_timeline.MOST


def test_explorer_without_any_hook():
    player = drawn.Player(hook_timeline.hook_explorer())
    for name in hook_timeline.KINDS.values():
        player.set(name, False)
    empty = player.shown
    assert "No hooks in forward. No hooks in backward." in empty.alt
    assert player.press("event", "on").svg == empty.svg
