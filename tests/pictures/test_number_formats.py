"""Numbers are cast as torch casts them, in formats that torch has."""

import math
from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import number_formats
from torchkata.pictures.float_bits import float_bits, parse_number
from torchkata.pictures.number_formats import EXAMPLES, FORMATS, decode, draw_format

DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "e5m2": torch.float8_e5m2,
    "e4m3fn": torch.float8_e4m3fn,
}


EDGES = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    65504.0,
    65519.0,
    65520.0,
    1e-8,
    448.0,
    464.0,
    480.0,
    61439.0,
    61440.0,
]


EDGES += [2.0**-24, 2.0**-25, 2.0**-25 * 1.001, 2.0**-149, 2.0**-133, 2.0**-9, 2.0**-10, 2.0**-16, 3.4e38, -1 / 3]


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("fmt", DTYPES)
def test_a_number_is_cast_as_torch_casts_it(fmt):
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(3000, generator=generator) * torch.randint(-150, 127, (3000,), generator=generator).exp2()
    near = torch.randn(3000, generator=generator) * torch.randint(-26, 18, (3000,), generator=generator).exp2()
    values = torch.cat([wide, near, torch.tensor(EDGES)])
    stored = values.to(DTYPES[fmt]).double().tolist()
    for value, expected in zip(values.tolist(), stored, strict=True):
        assert same(decode(fmt, value).bits.stored, expected), (value, expected)


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "e5m2", "e4m3fn"])
def test_every_pattern_means_what_torch_says_and_is_cast_to_itself(fmt):
    chosen = FORMATS[fmt]
    width = chosen.exponent_bits + chosen.fraction_bits
    integers = {15: torch.int16, 7: torch.uint8}[width]
    patterns = torch.arange(2**width, dtype=integers)
    for pattern, value in enumerate(patterns.view(DTYPES[fmt]).double().tolist()):
        assert same(chosen.value(pattern), value), pattern
        assert math.isnan(value) or chosen.pattern(value) == chosen.pattern(-value) == pattern


@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
def test_bits_and_neighbours_are_those_of_chapter_01(fmt):
    for value in (1.0, -257.0, 65504.0, 65520.0, 1e-8, 6e-5, 0.0, math.inf, -math.inf, 0.10000000149011612):
        assert decode(fmt, value).bits == float_bits(value, DTYPES[fmt]), value


@pytest.mark.parametrize("fmt", DTYPES)
def test_limits_are_those_of_finfo(fmt):
    info = torch.finfo(DTYPES[fmt])
    assert (FORMATS[fmt].largest, FORMATS[fmt].smallest_normal) == (info.max, info.smallest_normal)
    assert FORMATS[fmt].spacing(1.0) == info.eps


def test_tf32_has_the_range_of_float32_and_the_digits_of_float16():
    for value in (1 / 3, 2049.0, 1.0009765625, 65519.0 / 2, -0.1):
        assert decode("tf32", value).bits.stored == decode("fp16", value).bits.stored
    assert decode("tf32", 70000.0).bits.stored == 70016.0
    assert decode("tf32", 1e-38).fate == "rounded"
    assert decode("tf32", 3.4e38).fate == "rounded"


@pytest.mark.parametrize(
    ("fmt", "value", "fate"),
    [
        ("fp16", 1.0, "exact"),
        ("fp16", 2049.0, "rounded"),
        ("fp16", 65519.0, "rounded"),
        ("fp16", 65520.0, "overflow"),
        ("fp16", 1e-8, "underflow"),
        ("fp16", math.inf, "exact"),
        ("fp16", math.nan, "nan"),
        ("e4m3fn", 500.0, "rounded"),
        ("e4m3fn", 1000.0, "saturated"),
        ("e4m3fn", -math.inf, "saturated"),
        ("bf16", 1e39, "overflow"),
    ],
)
def test_fates(fmt, value, fate):
    assert decode(fmt, value).fate == fate


def test_sums_lose_what_lies_below_half_a_step():
    assert number_formats.add("bf16", 1.0, 1 / 512).bits.stored == 1.0
    assert number_formats.add("fp16", 2048.0, 1.0).bits.stored == 2048.0
    assert number_formats.add("fp16", 2046.0, 1.0).bits.stored == 2047.0


def an_example(name):
    number, fmt, other, power = EXAMPLES[name]
    return draw_format(fmt, parse_number(number), power, parse_number(other) if other else None)


ODD = (("fp32", -math.inf), ("e4m3fn", -math.inf), ("tf32", math.nan), ("bf16", 0.0), ("fp16", 6e-8))
NUMBERS = [(fmt, value) for fmt in FORMATS for value in (-1.2345678901234567e-30, FORMATS[fmt].largest)]
REFUSED = ("fp32", -1.2345678901e-30, 32, 1.2345678901e30, "'abc' is no number. " * 5)
GALLERY = drawn.Gallery(
    {name: partial(an_example, name) for name in EXAMPLES}
    | {f"{value} in {fmt}": partial(draw_format, fmt, value) for fmt, value in (*NUMBERS, *ODD)}
    | {"refused": partial(draw_format, *REFUSED)}
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_largest_number_of_a_format_without_inf_has_no_neighbour_above():
    for value, none, there in ((1000.0, "none above", "next below"), (-448.0, "none below", "next above")):
        texts = [text for text, _ in drawn.texts_of(draw_format("e4m3fn", value).canvas)]
        assert none in texts and there in texts and none.replace("none", "next") not in texts
        assert [texts.count(number) for number in ("448", "416", "-448", "-416")].count(1) == 2


def test_the_words_tell_what_the_picture_shows():
    assert "underflow: becomes 0" in GALLERY["1e-8 in fp16"].alt
    assert "rounded to 0.000655174255" in GALLERY["1e-8 in fp16, scaled by 2^16"].alt
    assert "65519 in fp16: rounded to 65504" in GALLERY["65519 in fp16"].alt
    assert "overflow: becomes inf" in GALLERY["65520 in fp16"].alt
    assert "1 + 0.001953125 = 1 in bf16: a lost update" in GALLERY["1 + 1/512 in bf16"].alt
    assert "saturated: becomes 448" in GALLERY["1000 in e4m3fn"].alt
    assert "Next below: 416; none above." in GALLERY["1000 in e4m3fn"].alt
    assert "None below; next above: -416." in draw_format("e4m3fn", -448.0).alt
    assert "Next below: 65472; next above: inf." in GALLERY["65519 in fp16"].alt


def test_format_explorer_shows_what_its_controls_say():
    player = drawn.Player(number_formats.format_explorer())
    assert player.shown.svg == draw_format("fp16", 1e-8).svg
    assert player.set("scale", 16).svg == draw_format("fp16", 1e-8, 16).svg
    player.set("number", "1/3")
    player.set("format", "tf32")
    assert player.set("add", "1e-8").svg == draw_format("tf32", 1 / 3, 16, 1e-8).svg
    assert player.set("add", " ").svg == draw_format("tf32", 1 / 3, 16).svg


@pytest.mark.parametrize("example", EXAMPLES)
def test_format_explorer_shows_its_examples(example):
    player = drawn.Player(number_formats.format_explorer("5", "bf16", "7", 3))
    assert player.says("example") == "choose"
    assert player.set("example", example).svg == GALLERY[example].svg
    assert player.says("example") == example


@pytest.mark.parametrize(("control", "value"), [("number", "5"), ("format", "e5m2"), ("add", "7"), ("scale", -3)])
def test_what_is_no_example_any_more_says_so_and_the_example_can_be_chosen_again(control, value):
    player = drawn.Player(number_formats.format_explorer())
    assert player.says("example") == "1e-8 in fp16"
    assert player.set(control, value).svg != GALLERY["1e-8 in fp16"].svg
    assert player.says("example") == "choose"
    assert player.set("example", "1e-8 in fp16").svg == GALLERY["1e-8 in fp16"].svg


def test_format_explorer_says_what_is_refused_and_goes_on():
    player = drawn.Player(number_formats.format_explorer("5", "bf16", "7"))
    refused = player.set("number", "five").alt
    assert "'five' is not a number" in refused and refused.startswith("5 in bf16")
    assert refused.endswith("Shown is 5.")
    refused = player.set("add", "1/0").alt
    assert "divides by zero" in refused and "5 + 7 = 12" in refused
    assert "'five' is not a number" in refused and refused.endswith("Added is 7.")
    player.set("number", "6")
    assert player.set("add", "").svg == draw_format("bf16", 6.0).svg


def test_without_a_number_to_add_at_the_start_zero_is_added_for_one_that_is_refused():
    refused = drawn.Player(number_formats.format_explorer("5", "bf16")).set("add", "x").alt
    assert "5 + 0 = 5" in refused and refused.endswith("Added is 0.")


def test_the_examples_and_every_fourth_scale_are_drawn_ahead():
    explorer = number_formats.format_explorer("1e-8", "fp16")
    frames = explorer.frames()
    assert all(explorer.key(explorer.after(scale=power)) in frames for power in range(-32, 33, 4))
    assert all(explorer.key(explorer.after(example=example)) in frames for example in EXAMPLES)


def test_an_explorer_that_starts_elsewhere_keeps_what_every_explorer_keeps():
    drawn.check_explorer(number_formats.format_explorer("-1/3", "fp32", "1e-7", 5))
