"""What PyTorch and onnxruntime make of other sizes."""

import warnings
from functools import partial

import pytest
import torch

from tests.pictures import drawn

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from torchkata.pictures import onnx_models
from torchkata.pictures.onnx_models import DIFFERENT, EQUAL, REFUSED, compare, exported, onnx_explorer, onnx_picture

LINEAR, CNN, BRANCH, VIEW, LOOP = onnx_models.SAMPLES


def test_the_branch_is_wrong_for_one_and_two_rows_only():
    verdicts = [compare(BRANCH, True, False, rows, 1).verdict for rows in range(1, onnx_models.LARGEST + 1)]
    assert verdicts == [DIFFERENT] * 2 + [EQUAL] * (onnx_models.LARGEST - 2)
    assert compare(BRANCH, True, False, 2, 1)[1:3] == ("shape (2, 1): 3, 6", "shape (2, 1): 2, 4")


@pytest.mark.parametrize("sample", [LINEAR, CNN])
def test_a_dynamic_batch_is_right_for_every_size_and_a_fixed_one_is_refused(sample):
    for rows in range(1, onnx_models.LARGEST + 1):
        assert compare(sample, True, False, rows, 1).verdict == EQUAL
        outcome = compare(sample, False, False, rows, 1)
        assert outcome.verdict == (EQUAL if rows == 4 else REFUSED)
    assert outcome.runtime.startswith("InvalidArgument: Got invalid dimensions")


def test_view_with_a_number_refuses_in_both_or_gives_four_rows():
    refused = compare(VIEW, True, False, 1, 1)
    assert refused.verdict == REFUSED and refused.pytorch.startswith("RuntimeError: shape '[4, -1]' is invalid")
    for rows in (2, 4, 8):
        outcome = compare(VIEW, True, False, rows, 1)
        assert outcome.verdict == EQUAL and outcome.runtime.startswith("shape (4, ")


def test_the_loop_keeps_its_three_steps():
    assert compare(LOOP, True, False, 7, 3).verdict == EQUAL
    assert [compare(LOOP, True, False, 2, steps).verdict for steps in (2, 4)] == [REFUSED, REFUSED]
    export = exported(LOOP, True, True)
    assert export.proto is None and "static shape of 3" in export.refusal
    assert compare(LOOP, True, True, 2, 4)[2:] == ("there is no file", REFUSED)


def test_only_large_weights_go_outside():
    assert exported(CNN, True, False).outside == (1, 2 * 144 * 4)
    assert exported(LINEAR, True, False).outside == (0, 0)
    assert "model.onnx.data with 1 of its weights, 1152 bytes" in onnx_picture(CNN).alt
    assert "model.onnx.data" not in onnx_picture(CNN, external=False).alt


def test_nothing_is_left_behind():
    exported.cache_clear()
    onnx_models.model_of.cache_clear()
    torch.manual_seed(3)
    before, filters = torch.get_rng_state(), list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught, torch.device("meta"):
        warnings.simplefilter("always")
        assert compare(LINEAR, True, False, 3, 1).verdict == EQUAL
    assert not caught
    assert torch.equal(torch.get_rng_state(), before)
    assert warnings.filters == filters


CASES = {
    "linear": (LINEAR,),
    "cnn, one file": (CNN, True, False, False, 3),
    "branch": (BRANCH,),
    "view refused": (VIEW, True, False, True, 1),
    "view": (VIEW, True, False, True, 8),
    "loop": (LOOP,),
    "loop, other length": (LOOP, True, False, True, 2, 8),
    "loop, dynamic time": (LOOP, True, True),
    "fixed": (LINEAR, False),
}


GALLERY = drawn.Gallery({name: partial(onnx_picture, *case) for name, case in CASES.items()})


class TestLook(drawn.Look):
    gallery = GALLERY


@pytest.mark.parametrize("case", CASES)
def test_drawn_again_it_is_the_same(case):
    assert GALLERY[case].svg == onnx_picture(*CASES[case]).svg


def test_the_card_says_the_verdict_in_words():
    words = onnx_picture(BRANCH, rows=2).alt
    assert "PyTorch: shape (2, 1): 3, 6; onnxruntime: shape (2, 1): 2, 4. DIFFERENT, and no error." in words
    assert "Mul reads x (batch×1) from x" in words


def test_the_explorer_follows_its_controls():
    player = drawn.Player(onnx_explorer())
    assert "DIFFERENT" in player.shown.alt
    words = player.set("rows", 3).alt
    assert "DIFFERENT" not in words and "(3, 1)" in words
    plain = player.shown.svg
    assert "dynamic: batch." in player.set("dynamic time", True).alt  # the branch has no time
    assert player.set("steps", 6).svg == plain
    assert "dynamic: nothing." in player.set("dynamic batch", False).alt
    player.set("dynamic batch", True)
    assert "The export is refused" in player.set("model", LOOP).alt
    player.set("dynamic time", False)
    words = player.set("steps", 5).alt
    assert "(3, 5)" in words and "Refused" in words
    player.set("model", CNN)
    assert "with all weights" in player.set("external data", False).alt


def test_the_explorer_opens_with_what_it_is_told():
    assert onnx_explorer(VIEW, 8).svg == onnx_picture(VIEW, rows=8, steps=6).svg
