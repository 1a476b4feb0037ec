"""The tree agrees with the module; the explorer makes calls on copies."""

import copy
from functools import partial
from itertools import combinations

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import state_tree

CALLS = tuple(state_tree.CALLS)


SOME_CALLS = [calls for size in range(len(CALLS) + 1) for calls in combinations(CALLS, size)]


def rows_of(model, calls=()):
    return state_tree.state_tree(state_tree.sample_after(model, calls))


@pytest.mark.parametrize("calls", SOME_CALLS, ids="".join)
@pytest.mark.parametrize("model", state_tree.MODELS)
def test_the_tree_agrees_with_the_module(model, calls):
    module = state_tree.sample_after(model, calls)
    rows = state_tree.state_tree(module)
    state = module.state_dict()
    assert [row.path for row in rows if row.saved] == list(state)
    assert [row.path for row in rows if row.listed] == [name for name, _ in module.named_parameters()]
    assert [row.path for row in rows if row.kind.startswith("buffer")] == [name for name, _ in module.named_buffers()]
    assert [row.path for row in rows if row.kind == "module"] == [name for name, _ in module.named_modules()]
    for row in rows:
        if row.saved:
            value = state[row.path]
            assert row.shape == tuple(value.shape)
            assert row.dtype == str(value.dtype).removeprefix("torch.") and row.device == value.device.type


@pytest.mark.parametrize("model", state_tree.MODELS)
def test_who_follows_the_calls(model):
    for before, after in zip(rows_of(model), rows_of(model, CALLS), strict=True):
        if before.kind == "module":
            assert "train mode" in before.mode and "eval mode" in after.mode
        elif before.kind.startswith("plain"):
            assert after == before
        else:
            assert after.device == "meta" and after.dtype == before.dtype.replace("float32", "float64")
            assert not after.trainable


def test_one_of_each_kind():
    rows = rows_of("one of each kind")
    assert {row.kind for row in rows} == set(state_tree.FILLS)
    kinds = {row.path: row.kind for row in rows}
    assert kinds["hidden[0]"] == "plain list" and kinds["gates.0"] == "parameter"
    assert kinds["mask"] == "buffer (non-persistent)" and kinds["offset"] == "plain tensor"


def test_a_tied_weight_is_saved_twice_and_listed_once_until_it_moves_to_another_kind_of_device():
    second = {row.path: row for row in rows_of("tied embedding", (".double()",))}["out.weight"]
    assert second.saved and not second.listed and second.shared_with == "embed.weight"
    moved = {row.path: row for row in rows_of("tied embedding", ('.to("meta")',))}["out.weight"]
    assert moved.listed and not moved.shared_with


def test_a_tree_of_any_module_leaves_it_alone():
    module = nn.Transformer(8, 2, 1, 1, 8, batch_first=True)
    module.nothing = None
    before = copy.deepcopy(module.state_dict())
    rows = state_tree.state_tree(module)
    assert [row.path for row in rows if row.saved] == list(before)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_samples_draw_no_random_numbers():
    state = torch.get_rng_state()
    for model in state_tree.MODELS:
        rows_of(model)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_explorer_opens_a_module_of_your_own_and_leaves_it_alone():
    module = nn.Sequential(nn.Conv2d(3, 64, 7), nn.BatchNorm2d(64))
    player = drawn.Player(state_tree.state_explorer(module))
    for call in CALLS:
        player.set(call, True)
    assert player.shown.svg == state_tree.draw_state(module, CALLS).svg
    words = player.shown.alt
    assert "Your module after model" in words and "0.weight: parameter, shape (64, 3, 7, 7)" in words
    assert module.training and module[0].weight.requires_grad and module[0].weight.dtype == torch.float32
    assert player.set("model", "batch norm").svg == state_tree.draw_state("batch norm").svg


def test_what_is_at_hand_of_a_module_of_your_own():
    explorer = state_tree.state_explorer(nn.Linear(2, 3))
    drawn.check_explorer(explorer)
    frames = explorer.frames()
    for move in (*CALLS, state_tree.SAVED):
        assert explorer.key({**explorer.start, move: True}) in frames


def a_transformer(only_saved):
    return state_tree.draw_state(nn.Transformer(512, 2, 2, 1, 512, batch_first=True), (), only_saved)


def a_convolution():
    return state_tree.draw_state(nn.Conv2d(256, 512, 7, dtype=torch.bfloat16))


GALLERY = drawn.Gallery(
    {f"a transformer, {only_saved}": partial(a_transformer, only_saved) for only_saved in (False, True)}
    | {"a convolution": a_convolution}
    | {
        f"{model}, {len(calls)} calls, {only_saved}": partial(state_tree.draw_state, model, calls, only_saved)
        for model in state_tree.MODELS
        for calls in ((), CALLS)
        for only_saved in (False, True)
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def test_a_table_without_rows_that_are_not_saved():
    picture = state_tree.draw_state("one of each kind", (), True)
    assert "mask" not in picture.alt and "offset" not in picture.alt and "steps: buffer" in picture.alt


def test_the_state_explorer_shows_what_its_controls_say():
    player = drawn.Player(state_tree.state_explorer())
    assert player.shown.svg == state_tree.draw_state("one of each kind").svg
    player.set(".double()", True)
    player.set(".eval()", True)
    assert player.shown.svg == state_tree.draw_state("one of each kind", (".double()", ".eval()")).svg
    only_saved = state_tree.draw_state("one of each kind", (".double()", ".eval()"), True)
    assert player.set("only what is saved", True).svg == only_saved.svg
    assert player.set("model", "batch norm").svg == state_tree.draw_state("batch norm", (), True).svg
    moved = player.set('.to("meta")', True)
    assert moved.svg == state_tree.draw_state("batch norm", ('.to("meta")',), True).svg
    assert player.set('.to("meta")', False).svg == state_tree.draw_state("batch norm", (), True).svg


@pytest.mark.parametrize("model", state_tree.MODELS)
def test_the_order_of_the_calls_makes_no_difference(model):
    assert rows_of(model, CALLS) == rows_of(model, CALLS[::-1])
