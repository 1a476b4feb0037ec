"""The pictures of chapter 07: their states agree with torch, and what they draw can be read."""

import copy
import io
from itertools import combinations

import pytest
import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import batch_norm, checkpoint_layout, state_tree

CALLS = tuple(state_tree.CALLS)
SOME_CALLS = [calls for size in range(len(CALLS) + 1) for calls in combinations(CALLS, size)]


def rows_of(model, calls=()):
    return state_tree.state_tree(state_tree.sample_after(model, calls))


# ---------------------------------------------------------------- the tree


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
    explorer = state_tree.state_explorer(module)
    for call in CALLS:
        explorer.controls[call].click()
    assert drawn.shown(explorer) == state_tree.draw_state(module, CALLS).svg
    assert "Your module after model" in explorer.alt and "0.weight: parameter, shape (64, 3, 7, 7)" in explorer.alt
    assert module.training and module[0].weight.requires_grad and module[0].weight.dtype == torch.float32
    explorer.controls["model"].value = "batch norm"
    assert drawn.shown(explorer) == state_tree.draw_state("batch norm").svg


# ---------------------------------------------------------------- batch norm


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


# ---------------------------------------------------------------- checkpoints


def a_checkpoint(layers=1):
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    rng = torch.get_rng_state()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng, "step": 3}


def test_layout_counts_the_bytes_of_every_tensor():
    checkpoint = a_checkpoint()
    layout = dict(checkpoint_layout.checkpoint_layout(checkpoint))
    assert layout["model/0.weight"] == 36 and layout["model/0.bias"] == 12
    assert layout["optimizer/state/0/exp_avg_sq"] == 36 and layout["optimizer/state/1/step"] == 4
    assert layout["optimizer/param_groups/0/lr"] == 0 and layout["optimizer/param_groups/0/params/1"] == 0
    assert layout["rng"] == checkpoint["rng"].nbytes and layout["step"] == 0
    assert sum(layout.values()) == 48 + 2 * 48 + 2 * 4 + checkpoint["rng"].nbytes


def test_layout_is_the_same_after_a_file():
    checkpoint = a_checkpoint()
    file = io.BytesIO()
    torch.save(checkpoint, file)
    file.seek(0)
    assert checkpoint_layout.checkpoint_layout(torch.load(file)) == checkpoint_layout.checkpoint_layout(checkpoint)


# ---------------------------------------------------------------- drawing


def gallery():
    pictures = {
        "a checkpoint": checkpoint_layout.checkpoint_anatomy(a_checkpoint()),
        "a large checkpoint": checkpoint_layout.checkpoint_anatomy(a_checkpoint(10)),
        "a small checkpoint": checkpoint_layout.checkpoint_anatomy({"step": 3, "notes": {}}),
    }
    large = nn.Transformer(512, 2, 2, 1, 512, batch_first=True)
    for only_saved in (False, True):
        pictures[f"a transformer, {only_saved}"] = state_tree.draw_state(large, (), only_saved)
    pictures["a convolution"] = state_tree.draw_state(nn.Conv2d(256, 512, 7, dtype=torch.bfloat16))
    for model in state_tree.MODELS:
        for calls in ((), CALLS):
            for only_saved in (False, True):
                picture = state_tree.draw_state(model, calls, only_saved)
                pictures[f"{model}, {len(calls)} calls, {only_saved}"] = picture
    return pictures


def batch_norms():
    far = [(0.0, 1.0), *[(10.0, 20.0)] * 12]
    return {
        f"mean {mean}, size {size}, {train}, {len(history)}": batch_norm.draw_batch_norm(
            batch_norm.batch_of(mean, spread, size), history, 0.1, train
        )
        for mean, spread, size in ((5.0, 2.0, 8), (-5.0, 3.0, 16), (10.0, 3.0, 2))
        for history in ([(0.0, 1.0)], far)
        for train in (True, False)
    }


TABLES, CROWDS = gallery(), batch_norms()
GALLERY = TABLES | CROWDS


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(GALLERY[name])


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_or_covered_by_another(name):
    drawn.check_texts(GALLERY[name].figure)


@pytest.mark.parametrize("name", GALLERY)
def test_every_box_stands_on_the_card(name):
    drawn.check_boxes(GALLERY[name].figure, apart=False)


def test_a_table_without_rows_that_are_not_saved():
    picture = state_tree.draw_state("one of each kind", (), True)
    assert "mask" not in picture.alt and "offset" not in picture.alt and "steps: buffer" in picture.alt


def test_the_state_explorer_shows_what_its_controls_say():
    explorer = state_tree.state_explorer()
    controls = explorer.controls
    assert all(control.description for control in controls.values())
    assert drawn.shown(explorer) == state_tree.draw_state("one of each kind").svg
    controls[".double()"].click()
    controls[".eval()"].click()
    controls[".double()"].click()
    assert drawn.shown(explorer) == state_tree.draw_state("one of each kind", (".double()", ".eval()")).svg
    controls["only what is saved"].value = True
    assert drawn.shown(explorer) == state_tree.draw_state("one of each kind", (".double()", ".eval()"), True).svg
    controls["model"].value = "batch norm"
    assert drawn.shown(explorer) == state_tree.draw_state("batch norm", (), True).svg
    controls['.to("meta")'].click()
    controls["build anew"].click()
    assert drawn.shown(explorer) == state_tree.draw_state("batch norm", (), True).svg


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
