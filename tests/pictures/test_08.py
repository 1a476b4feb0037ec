"""The pictures of chapter 08: their states agree with torch, and the drawings are readable."""

import hashlib
import math
import os
import subprocess
import sys
from functools import cache, partial

import pytest
import torch
from torch import nn

from tests import ROOT
from tests.pictures import drawn
from torchkata.pictures import dtype_flow, gradient_window, loss_scale, number_formats
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


# ---------------------------------------------------------------- number formats


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


# ---------------------------------------------------------------- dtypes that flow


def net_of_four():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))


def test_dtype_trace():
    net = net_of_four()
    trace = dtype_flow.dtype_trace(net, torch.ones(2, 4))
    assert [stage.node for stage in trace] == ["x", "Linear", "LayerNorm", "ReLU", "Linear", "mse_loss"]
    assert [stage.forward for stage in trace] == ["float32", *["bfloat16"] * 4, "float32"]
    assert [stage.backward for stage in trace] == ["float32", *["bfloat16"] * 4, "float32"]
    assert {(stage.weight, stage.weight_grad) for stage in trace} == {("", ""), ("float32", "float32")}
    assert all(parameter.grad is None for parameter in net.parameters())


def test_dtype_trace_asks_torch():
    trace = dtype_flow.dtype_trace(
        nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), torch.ones(2, 4), "cpu", torch.float16
    )
    assert [stage.forward for stage in trace] == ["float32", "float16", "float16", "float32"]


# ---------------------------------------------------------------- the window of a format

GRADS = [torch.tensor([1e-8, 0.0, -1e-6, 2.0]), torch.tensor([[3e-9], [-70000.0]])]


def test_window_counts_entries_that_are_not_zero():
    assert gradient_window.window(GRADS, 1.0, torch.float16) == (2 / 5, 1 / 5)
    assert gradient_window.window(GRADS, 2.0**16, torch.float16) == (0, 2 / 5)
    assert gradient_window.window(GRADS, 2.0**-20, torch.float16) == (3 / 5, 0)
    assert gradient_window.window(GRADS, 1.0, torch.bfloat16) == (0, 0)


# ---------------------------------------------------------------- the scale


@pytest.mark.parametrize(("growth", "backoff", "interval"), [(2.0, 0.5, 3), (4.0, 0.25, 5), (2.0, 0.5, 1)])
def test_the_scale_moves_as_that_of_torch(growth, backoff, interval):
    events = loss_scale.random_events(0.2, 200, 1)
    assert 20 < sum(events) < 60
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    settings = {"growth_factor": growth, "backoff_factor": backoff, "growth_interval": interval}
    scaler = torch.amp.GradScaler("cpu", **settings)
    scales = []
    for event in events:
        scaler.scale(torch.zeros(1)).detach()
        weight.grad = torch.tensor([math.inf if event else 0.0])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert loss_scale.simulate_scale(events, 65536.0, growth, backoff, interval) == scales


def test_the_scale_stays_a_float32_number():
    assert loss_scale.simulate_scale([False] * 200, interval=1)[-1] == 2.0**127


def test_events_follow_the_seed():
    assert loss_scale.random_events(0.3, 50, 1) == loss_scale.random_events(0.3, 50, 1)
    assert loss_scale.random_events(0.3, 50, 1) != loss_scale.random_events(0.3, 50, 2)
    assert not any(loss_scale.random_events(0.0, 50, 1))


# ---------------------------------------------------------------- how they look


def gallery():
    """By name: what draws a picture. Nothing is drawn before a test asks."""
    drawings = {}
    for name, (number, fmt, other, power) in EXAMPLES.items():
        numbers = (parse_number(number), power, parse_number(other) if other else None)
        drawings[name] = partial(draw_format, fmt, *numbers)
    for fmt in FORMATS:
        for value in (-1.2345678901234567e-30, FORMATS[fmt].largest):
            drawings[f"{value} in {fmt}"] = partial(draw_format, fmt, value)
    for fmt, value in (("fp32", -math.inf), ("e4m3fn", -math.inf), ("tf32", math.nan), ("bf16", 0.0), ("fp16", 6e-8)):
        drawings[f"{value} in {fmt}"] = partial(draw_format, fmt, value)
    drawings["refused"] = partial(
        draw_format, "fp32", -1.2345678901e-30, 32, 1.2345678901e30, "'abc' is no number. " * 5
    )
    drawings["flow"] = lambda: dtype_flow.dtype_flow(net_of_four(), torch.ones(2, 4))
    for fmt, power in (("fp16", -8), ("fp16", 0), ("fp16", 40), ("bf16", 16), ("e5m2", 16)):
        drawings[f"window {fmt} {power}"] = partial(gradient_window.draw_window, GRADS, power, fmt)
    events = loss_scale.random_events(0.02, 400, 0)
    drawings["scale"] = partial(loss_scale.draw_scale, events, interval=20, about="A setting.")
    drawings["scale, only down"] = partial(loss_scale.draw_scale, [True] * 100)
    drawings["scale, only up"] = partial(loss_scale.draw_scale, [False] * 800, 8.0, interval=1)
    return drawings


GALLERY = gallery()


@cache
def picture(name):
    return GALLERY[name]()


def fingerprint():
    return hashlib.sha256("".join(picture(name).svg for name in GALLERY).encode()).hexdigest()


ELSEWHERE = """
import sys
sys.path.insert(0, {root!r})
from matplotlib import rcParams
rcParams.update({{"font.size": 20, "lines.linewidth": 5, "lines.antialiased": False, "lines.marker": "o"}})
rcParams.update({{"lines.dash_capstyle": "round", "lines.scale_dashes": False, "patch.linewidth": 5}})
rcParams.update({{"lines.solid_capstyle": "round", "svg.hashsalt": "x", "savefig.bbox": "tight"}})
rcParams.update({{"lines.solid_joinstyle": "bevel", "lines.dash_joinstyle": "bevel"}})
from tests.pictures.test_08 import fingerprint
print(fingerprint())
"""


def test_another_process_with_its_own_settings_draws_the_same_bytes():
    script = ELSEWHERE.format(root=str(ROOT))
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.strip() == fingerprint()


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(picture(name))


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_or_covered_by_another(name):
    drawn.check_texts(picture(name).figure)


@pytest.mark.parametrize("name", GALLERY)
def test_every_box_stands_on_the_card(name):
    drawn.check_boxes(picture(name).figure)


@pytest.mark.parametrize("name", GALLERY)
def test_a_card_fits_into_a_page(name):
    assert picture(name).figure.get_size_inches()[0] * 72 <= 640


def test_the_largest_number_of_a_format_without_inf_has_no_neighbour_above():
    for value, none, there in ((1000.0, "none above", "next below"), (-448.0, "none below", "next above")):
        texts = [text for text, _ in drawn.check_texts(draw_format("e4m3fn", value).figure)]
        assert none in texts and there in texts and none.replace("none", "next") not in texts
        assert [texts.count(number) for number in ("448", "416", "-448", "-416")].count(1) == 2


def test_the_words_tell_what_the_picture_shows():
    assert "underflow: becomes 0" in picture("1e-8 in fp16").alt
    assert "rounded to 0.000655174255" in picture("1e-8 in fp16, scaled by 2^16").alt
    assert "65519 in fp16: rounded to 65504" in picture("65519 in fp16").alt
    assert "overflow: becomes inf" in picture("65520 in fp16").alt
    assert "1 + 0.001953125 = 1 in bf16: a lost update" in picture("1 + 1/512 in bf16").alt
    assert "saturated: becomes 448" in picture("1000 in e4m3fn").alt
    assert "Next below: 416; none above." in picture("1000 in e4m3fn").alt
    assert "None below; next above: -416." in draw_format("e4m3fn", -448.0).alt
    assert "Next below: 65472; next above: inf." in picture("65519 in fp16").alt
    assert "Linear: forward bfloat16, gradient bfloat16; weight float32" in picture("flow").alt
    assert "become 0: 40.0%; kept: 40.0%; become inf: 20.0%" in picture("window fp16 0").alt
    assert "skipped: 100 of 100 steps; lowest 2^-84, last 2^-84" in picture("scale, only down").alt


# ---------------------------------------------------------------- the explorers


def test_format_explorer_shows_what_its_controls_say():
    explorer = number_formats.format_explorer()
    assert drawn.shown(explorer) == draw_format("fp16", 1e-8).svg
    explorer.controls["scale"].value = 16
    assert drawn.shown(explorer) == draw_format("fp16", 1e-8, 16).svg
    explorer.controls["number"].value = "1/3"
    explorer.controls["format"].value = "tf32"
    explorer.controls["add"].value = "1e-8"
    assert drawn.shown(explorer) == draw_format("tf32", 1 / 3, 16, 1e-8).svg
    explorer.controls["add"].value = " "
    assert drawn.shown(explorer) == draw_format("tf32", 1 / 3, 16).svg


@pytest.mark.parametrize("example", EXAMPLES)
def test_format_explorer_shows_its_examples(example):
    explorer = number_formats.format_explorer("5", "bf16", "7", 3)
    explorer.controls["example"].value = example
    assert drawn.shown(explorer) == picture(example).svg
    assert explorer.controls["example"].value == "choose"


def test_format_explorer_says_what_is_refused_and_goes_on():
    explorer = number_formats.format_explorer("5", "bf16", "7")
    explorer.controls["number"].value = "five"
    assert "'five' is not a number" in explorer.alt and explorer.alt.startswith("5 in bf16")
    explorer.controls["add"].value = "1/0"
    assert "divides by zero" in explorer.alt and "5 + 7 = 12" in explorer.alt
    explorer.controls["number"].value, explorer.controls["add"].value = "6", ""
    assert drawn.shown(explorer) == draw_format("bf16", 6.0).svg


def test_window_explorer_shows_what_its_controls_say():
    explorer = gradient_window.window_explorer(GRADS)
    assert drawn.shown(explorer) == gradient_window.draw_window(GRADS, 0).svg
    explorer.controls["scale"].value = 12
    explorer.controls["format"].value = "bf16"
    assert drawn.shown(explorer) == gradient_window.draw_window(GRADS, 12, "bf16").svg


def test_scale_explorer_shows_what_its_controls_say():
    explorer = loss_scale.scale_explorer()
    values = {"probability": 0.1, "growth_interval": 7, "seed": 3, "growth_factor": 4.0, "backoff_factor": 0.25}
    for name, value in {**values, "iterations": 200}.items():
        explorer.controls[name].value = value
    about = "inf with probability 0.10; growth × 4 after 7 good iterations in a row; backoff × 0.25"
    events = loss_scale.random_events(0.1, 200, 3)
    assert drawn.shown(explorer) == loss_scale.draw_scale(events, 4.0, 0.25, 7, about).svg


EXPLORERS = {
    number_formats.format_explorer: number_formats.ROWS,
    lambda: gradient_window.window_explorer(GRADS): gradient_window.ROWS,
    loss_scale.scale_explorer: loss_scale.ROWS,
}


def test_every_control_has_a_description_and_stands_in_a_row():
    for build, rows in EXPLORERS.items():
        controls = build().controls
        assert all(control.description for control in controls.values())
        assert sorted(controls) == sorted(name for row in rows for name in row)
