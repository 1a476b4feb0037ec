"""Bits and neighbours agree with torch; the explorer steps from number to number."""

import math
from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import float_bits
from torchkata.pictures.float_bits import FORMATS


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


NUMBERS = (257.0, 70000.0, -1e-8, 0.1, 1 / 3, 65504.0, -65504.0, 0.0, -0.0, math.inf, math.nan, 6e-8, 5e-324)
REFUSED = (-1.2345678901234567e-100, torch.float64, "'abc' is not a number. " * 5)
GALLERY = drawn.Gallery(
    {
        f"{value!r} in {name}": partial(float_bits.draw_bits, value, dtype)
        for value in NUMBERS
        for name, dtype in FORMATS.items()
    }
    | {
        "largest float64": partial(float_bits.draw_bits, torch.finfo(torch.float64).max, torch.float64),
        "refused": partial(float_bits.draw_bits, *REFUSED),
        "walked": partial(float_bits.draw_bits, *REFUSED, -float_bits.FAR),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def test_the_words_say_what_the_picture_shows():
    words = GALLERY["257.0 in bfloat16"].alt
    assert "257 in bfloat16 is stored as 256 (normal); relative error 0.0039." in words
    assert "Sign 0, exponent 10000111, fraction 0000000." in words
    assert "Next below: 255; next above: 258." in words


def test_a_number_and_its_neighbours_on_both_sides():
    far = float_bits.draw_bits(0.0, torch.float16, away=-3)
    assert far.alt.startswith(f"{-(3 * 2.0**-24)!r} in float16") and far.alt.endswith("This is 3 steps below 0.")
    assert float_bits.draw_bits(257.0, torch.bfloat16, away=1).alt.endswith("This is 1 step above 256.")
    lowest, below = (float_bits.draw_bits(-math.inf, torch.float16, away=away) for away in (0, -5))
    assert lowest.svg == below.svg
    assert float_bits.draw_bits(-65504.0, torch.float16, away=-5).alt.endswith("This is 1 step below -65504.")
    assert "below nan" not in float_bits.draw_bits(math.nan, torch.float16, away=-5).alt


@pytest.mark.parametrize(
    ("value", "numbers"),
    [(math.inf, 0), (65504.0, 1), (70000.0, 0), (65472.0, 2), (-math.inf, 2 * 31744), (math.nan, 0)],
)
def test_numbers_above_are_counted(value, numbers):
    assert float_bits.numbers_above(value, torch.float16) == numbers


def test_float_explorer_shows_what_its_controls_say():
    player = drawn.Player(float_bits.float_explorer())
    assert player.shown.svg == float_bits.draw_bits(257.0, torch.bfloat16).svg
    player.set("format", "float16")
    assert player.set("number", "1/3").svg == float_bits.draw_bits(1 / 3, torch.float16).svg


def test_float_explorer_steps_from_number_to_number():
    player = drawn.Player(float_bits.float_explorer())
    assert player.press("step", "on").alt.startswith("258 in bfloat16 is stored as 258")
    player.press("step", "back")
    assert player.press("step", "back").alt.startswith("255 in bfloat16")
    player.set("format", "float16")
    player.set("number", "70000")
    assert player.press("step", "back").alt.startswith("65504 in float16")
    player.press("step", "on")
    assert player.press("step", "on").alt.startswith("70000 in float16 is stored as inf (inf)")
    assert player.set("number", "65504").alt.startswith("65504")
    player.press("step", "on")
    assert player.press("step", "on").alt.startswith("inf in float16 is stored as inf (inf); no error.")


@pytest.mark.parametrize(("control", "value"), [("number", "0.1"), ("format", "float32"), ("example", "1/3")])
def test_steps_are_counted_from_what_was_set_last(control, value):
    player = drawn.Player(float_bits.float_explorer())
    fresh = player.set(control, value).svg
    player.press("step", "on")
    assert player.shown.svg != fresh
    assert player.set(control, value).svg == fresh


@pytest.mark.parametrize("example", float_bits.EXAMPLES)
def test_examples_can_be_chosen_again_and_again(example):
    player = drawn.Player(float_bits.float_explorer("5"))
    for _ in range(2):
        player.set("number", "5")
        assert player.says("example") == float_bits.CHOOSE
        value = float_bits.parse_number(example)
        assert player.set("example", example).svg == float_bits.draw_bits(value, torch.bfloat16).svg
        assert (player.says("number"), player.says("example")) == (example, example)


def test_float_explorer_says_what_is_refused_and_goes_on():
    player = drawn.Player(float_bits.float_explorer())
    refused = player.set("number", "two")
    assert "'two' is not a number" in refused.alt and refused.alt.startswith("257 in bfloat16")
    assert refused.alt.endswith("Shown is 257.")
    assert player.press("step", "on").alt.startswith("258")
    assert "not a number" not in player.set("number", "2").alt


def test_what_can_be_pressed_and_chosen_at_first_is_drawn_ahead():
    explorer = float_bits.float_explorer()
    frames = explorer.frames()
    for moves in ({"step": float_bits.FAR + 30}, {"format": "float16", "step": float_bits.FAR + 3}):
        assert explorer.key(explorer.after(**moves)) in frames
    for example in float_bits.EXAMPLES:
        assert explorer.key(explorer.after(example=example, format="float16", step=float_bits.FAR - 1)) in frames


def test_an_explorer_that_starts_elsewhere_keeps_what_every_explorer_keeps():
    drawn.check_explorer(float_bits.float_explorer("5", "float32"))
