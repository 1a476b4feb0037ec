"""The pictures of chapter 01: float formats, the late error, memory of a training step."""

import hashlib
import html
import math
import os
import subprocess
import sys

import pytest
import torch

from tests import ROOT
from tests.pictures import drawn
from torchkata.pictures import float_bits, late_error, memory_bars
from torchkata.pictures.float_bits import FORMATS
from torchkata.pictures.late_error import Call

CALLS = (Call("loss", 4, faulty=True), Call("double", 2), Call("backward", 3), Call("item", 1, waits=True))

# ---------------------------------------------------------------- float formats: states


def every_value(dtype):
    """All numbers of a 16-bit format by pattern, as torch reads them."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).double()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_bits_agree_with_torch_on_every_37th_pattern(dtype):
    values = every_value(dtype)
    exponent, fraction = float_bits.layout(dtype)
    for place in range(0, 2**16, 37):
        pattern, value = place - 2**15 & 0xFFFF, values[place].item()
        state = float_bits.float_bits(value, dtype)
        if math.isnan(value):
            assert state.kind == "nan" and math.isnan(state.stored) and math.isnan(state.below)
            continue
        text = f"{pattern:016b}"
        assert (state.sign, state.exponent, state.fraction) == (
            text[0],
            text[1 : 1 + exponent],
            text[1 + exponent :],
        )
        assert len(state.fraction) == fraction
        assert state.stored == value and state.rel_error == 0
        up = torch.nextafter(torch.tensor(value, dtype=dtype), torch.tensor(math.inf, dtype=dtype)).item()
        down = torch.nextafter(torch.tensor(value, dtype=dtype), torch.tensor(-math.inf, dtype=dtype)).item()
        assert (state.below, state.above) == (down, up)


@pytest.mark.parametrize("dtype", FORMATS.values(), ids=str)
def test_the_bits_make_the_number(dtype):
    exponent_bits, fraction_bits = float_bits.layout(dtype)
    bias = 2 ** (exponent_bits - 1) - 1
    for value in (257.0, -0.1, 1 / 3, 65504.0, 1.5e-5, torch.finfo(dtype).tiny / 4, torch.finfo(dtype).max):
        state = float_bits.float_bits(value, dtype)
        lead = 1 if state.kind == "normal" else 0
        factor = lead + int(state.fraction, 2) / 2**fraction_bits
        power = (int(state.exponent, 2) if lead else 1) - bias
        assert (-1) ** int(state.sign) * math.ldexp(factor, power) == state.stored
        assert state.stored == torch.tensor(value, dtype=dtype).item()
        assert state.below < state.stored < state.above


@pytest.mark.parametrize(
    ("value", "dtype", "stored", "kind"),
    [
        (257.0, torch.bfloat16, 256.0, "normal"),
        (257.0, torch.float16, 257.0, "normal"),
        (70000.0, torch.float16, math.inf, "inf"),
        (-70000.0, torch.float16, -math.inf, "inf"),
        (70000.0, torch.bfloat16, 70144.0, "normal"),
        (1e-8, torch.float16, 0.0, "zero"),
        (6e-8, torch.float16, 2.0**-24, "subnormal"),
        (0.1, torch.float64, 0.1, "normal"),
        (1e300, torch.float32, math.inf, "inf"),
    ],
)
def test_known_numbers(value, dtype, stored, kind):
    state = float_bits.float_bits(value, dtype)
    assert (state.stored, state.kind) == (stored, kind)


def test_relative_error():
    assert float_bits.float_bits(257.0, torch.bfloat16).rel_error == 1 / 257
    assert float_bits.float_bits(1e-8, torch.float16).rel_error == 1
    assert float_bits.float_bits(70000.0, torch.float16).rel_error == math.inf
    assert float_bits.float_bits(math.inf, torch.float16).rel_error == 0
    assert float_bits.float_bits(0.0, torch.float16).rel_error == 0


def test_the_neighbours_at_the_ends():
    zero, minus_zero = (float_bits.float_bits(value, torch.float16) for value in (0.0, -0.0))
    assert (zero.below, zero.above) == (minus_zero.below, minus_zero.above) == (-(2.0**-24), 2.0**-24)
    assert (zero.sign, minus_zero.sign) == ("0", "1")
    infinite = float_bits.float_bits(math.inf, torch.float16)
    assert (infinite.below, infinite.above) == (65504.0, math.inf)
    assert float_bits.float_bits(-math.inf, torch.float16).above == -65504.0


@pytest.mark.parametrize(
    ("text", "value"), [("257", 257.0), (" 1/3 ", 1 / 3), ("1e-8", 1e-8), ("-inf", -math.inf), ("6/4", 1.5)]
)
def test_numbers_are_read(text, value):
    assert float_bits.parse_number(text) == value


@pytest.mark.parametrize(
    ("text", "message"), [("abc", "not a number"), ("", "not a number"), ("1/0", "divides by zero")]
)
def test_what_is_no_number_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        float_bits.parse_number(text)


def test_the_default_dtype_and_device_do_not_matter():
    usual = float_bits.float_bits(0.1, torch.float16)
    with torch.device("meta"):
        assert float_bits.float_bits(0.1, torch.float16) == usual


# ---------------------------------------------------------------- the late error: states


def test_as_usual_the_waiting_line_is_blamed():
    line = late_error.time_line(CALLS)
    assert [step.name for step in line.steps] == ["loss", "double", "backward", "item"]
    assert line.blamed == 3
    assert [step.queued_at for step in line.steps] == [0, 1, 2, 3]
    assert line.steps[-1].left_at == line.steps[0].ends == 5


def test_blocking_blames_the_faulty_line():
    line = late_error.time_line(CALLS, blocking=True)
    assert [step.name for step in line.steps] == ["loss"] and line.blamed == 0
    assert line.steps[0].left_at == line.steps[0].ends == 5


def test_after_the_fault_the_gpu_does_nothing():
    for step in late_error.time_line(CALLS).steps[1:]:
        assert step.starts is None


def test_a_call_after_the_fault_notices_it_without_waiting():
    calls = [Call("loss", 1, faulty=True), Call("a", 1), Call("b", 1), Call("c", 1)]
    line = late_error.time_line(calls)
    assert line.steps[line.blamed].name == "b"


def test_without_a_fault_nobody_is_blamed_and_work_goes_in_order():
    line = late_error.time_line([Call("a", 3), Call("b", 2), Call("item", 1, waits=True), Call("c", 1)])
    assert line.blamed is None
    assert [(step.starts, step.ends) for step in line.steps] == [(1, 4), (4, 6), (6, 7), (8, 9)]
    assert [step.left_at for step in line.steps] == [1, 2, 7, 8]


# ---------------------------------------------------------------- memory: states


def test_memory_as_counted_by_hand():
    parameters = 4 * (256 * 512 + 512 + 512 * 10 + 10)
    for batch in (1, 64, 128):
        activations = batch * (4 * (256 + 512 + 10) + 8) + 4
        assert memory_bars.memory_bars(batch) == {
            "parameters": parameters,
            "gradients": parameters,
            "optimizer": 2 * parameters + 4 * 4,
            "activations": activations,
        }


def test_memory_of_other_optimizers():
    with_momentum = memory_bars.memory_bars(2, "SGD with momentum")
    assert with_momentum["optimizer"] == with_momentum["parameters"]
    assert memory_bars.memory_bars(2, "SGD")["optimizer"] == 0


def test_measuring_leaves_the_learners_settings_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    usual = memory_bars.memory_bars(8)
    assert torch.equal(torch.rand(2), expected)
    with torch.no_grad(), torch.device("meta"):
        assert memory_bars.memory_bars(8) == usual


# ---------------------------------------------------------------- drawing


def gallery():
    numbers = (257.0, 70000.0, -1e-8, 0.1, 1 / 3, 65504.0, -65504.0, 0.0, -0.0, math.inf, math.nan, 6e-8, 5e-324)
    pictures = {
        f"{value!r} in {name}": float_bits.draw_bits(value, dtype)
        for value in numbers
        for name, dtype in FORMATS.items()
    }
    return pictures | {
        "largest float64": float_bits.draw_bits(torch.finfo(torch.float64).max, torch.float64),
        "refused": float_bits.draw_bits(-1.2345678901234567e-100, torch.float64, "'abc' is not a number. " * 5),
        "late": late_error.late_error(CALLS),
        "late, blocking": late_error.late_error(CALLS, blocking=True),
        "late, no fault": late_error.late_error([Call("a", 3), Call("item", 1, waits=True)]),
        "late, noticed": late_error.late_error([Call("a", 1, faulty=True), *(Call(name, 1) for name in "bcd")]),
        **{f"memory {batch}": memory_bars.draw_memory(batch) for batch in (1, 64, 512)},
        "memory of SGD": memory_bars.draw_memory(512, "SGD"),
        "memory with momentum": memory_bars.draw_memory(512, "SGD with momentum"),
    }


GALLERY = gallery()


FINGERPRINT = """
import hashlib, sys
from matplotlib import rcParams
rcParams.update({{"font.size": 20, "lines.linewidth": 5, "savefig.facecolor": "red", "svg.hashsalt": "x"}})
sys.path.insert(0, {root!r})
from tests.pictures.test_01 import GALLERY
print(hashlib.sha256("".join(picture.svg for picture in GALLERY.values()).encode()).hexdigest())
"""


def test_another_process_with_its_own_settings_draws_the_same_bytes():
    script = FINGERPRINT.format(root=str(ROOT))
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
    )
    here = hashlib.sha256("".join(picture.svg for picture in GALLERY.values()).encode()).hexdigest()
    assert run.stdout.strip() == here


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(GALLERY[name])


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_or_covered_by_another(name):
    drawn.check_texts(GALLERY[name].figure)


@pytest.mark.parametrize("name", GALLERY)
def test_every_box_stands_on_the_card(name):
    drawn.check_boxes(GALLERY[name].figure, apart=False)


def test_the_words_say_what_the_picture_shows():
    words = GALLERY["257.0 in bfloat16"].alt
    assert "257 in bfloat16 is stored as 256 (normal); relative error 0.0039." in words
    assert "Sign 0, exponent 10000111, fraction 0000000." in words
    assert "Next below: 255; next above: 258." in words
    assert "The error is reported at item." in GALLERY["late"].alt
    assert "The error is reported at loss." in GALLERY["late, blocking"].alt
    assert "activations 199,684 bytes" in GALLERY["memory 64"].alt


def test_float_explorer_shows_what_its_controls_say():
    explorer = float_bits.float_explorer()
    explorer.controls["format"].value = "float16"
    explorer.controls["number"].value = "1/3"
    assert drawn.shown(explorer) == float_bits.draw_bits(1 / 3, torch.float16).svg


def test_float_explorer_steps_from_number_to_number():
    explorer = float_bits.float_explorer()
    explorer.controls["next above"].click()
    assert explorer.alt.startswith("258 in bfloat16 is stored as 258")
    explorer.controls["next below"].click()
    explorer.controls["next below"].click()
    assert explorer.alt.startswith("255 in bfloat16")
    explorer.controls["format"].value = "float16"
    explorer.controls["number"].value = "70000"
    explorer.controls["next below"].click()
    assert explorer.alt.startswith("65504 in float16")
    explorer.controls["next above"].click()
    explorer.controls["next above"].click()
    assert explorer.alt.startswith("inf in float16 is stored as inf (inf); no error.")


@pytest.mark.parametrize("example", float_bits.EXAMPLES)
def test_examples_can_be_chosen_again_and_again(example):
    explorer = float_bits.float_explorer("5")
    for _ in range(2):
        explorer.controls["number"].value = "5"
        explorer.controls["example"].value = example
        value = float_bits.parse_number(example)
        assert drawn.shown(explorer) == float_bits.draw_bits(value, torch.bfloat16).svg


def test_float_explorer_says_what_is_refused_and_goes_on():
    explorer = float_bits.float_explorer()
    explorer.controls["number"].value = "two"
    assert "'two' is not a number" in html.unescape(explorer.words.value)
    assert explorer.alt.startswith("257 in bfloat16")
    explorer.controls["next above"].click()
    assert explorer.alt.startswith("258") and "not a number" not in explorer.alt


def test_memory_explorer_shows_what_its_controls_say():
    explorer = memory_bars.memory_explorer()
    explorer.controls["batch size"].value = 128
    explorer.controls["optimizer"].value = "SGD"
    assert drawn.shown(explorer) == memory_bars.draw_memory(128, "SGD").svg


def test_every_control_has_a_description():
    for explorer in (float_bits.float_explorer(), memory_bars.memory_explorer()):
        assert all(control.description for control in explorer.controls.values())
