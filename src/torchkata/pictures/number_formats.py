"""What becomes of a number in the formats of mixed precision, and how far each of them reaches.

The picture of chapter 01 (`float_bits`) asks torch; this one computes, so that it can show tf32 and the 8-bit formats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import wrap

import torch

from torchkata.pictures.controls import Value, choice, slider, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.float_bits import (
    LINE_LENGTH,
    WIDTH,
    FloatBits,
    draw_groups,
    draw_line,
    plain,
    read_number,
    relative_error,
)
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ERROR_INK, INK, MARGIN, ORANGE, SKY, SMALL, SOFT_INK

EXAMPLES = {
    "1e-8 in fp16": ("1e-8", "fp16", "", 0),
    "1e-8 in fp16, scaled by 2^16": ("1e-8", "fp16", "", 16),
    "65519 in fp16": ("65519", "fp16", "", 0),
    "65520 in fp16": ("65520", "fp16", "", 0),
    "1 + 1/512 in bf16": ("1", "bf16", "1/512", 0),
    "2048 + 1 in fp16": ("2048", "fp16", "1", 0),
    "1000 in e4m3fn": ("1000", "e4m3fn", "", 0),
    "1/3 in tf32": ("1/3", "tf32", "", 0),
}
CHOOSE = "choose"  # stands in the list of examples beside settings that are none of them
ROWS = (("example",), ("number", "format"), ("add", "scale"))

LOWEST, HIGHEST = -46, 40  # the axis of the ranges, in powers of ten
RANGES_LEFT, RANGE_ROW = 70, 20


@dataclass(frozen=True)
class Format:
    """A format with a sign bit, exponent bits and fraction bits; without an inf it saturates at its largest number."""

    exponent_bits: int
    fraction_bits: int
    has_inf: bool = True

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def last(self) -> int:
        """The pattern of the largest number, without the sign bit."""
        ones = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        return ones - 1 if self.has_inf else ones + (1 << self.fraction_bits) - 2

    @property
    def largest(self) -> float:
        return self.value(self.last)

    @property
    def smallest(self) -> float:
        return self.value(1)

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    def value(self, pattern: int) -> float:
        """Return the number that a pattern without sign bit stands for."""
        exponent, fraction = divmod(pattern, 1 << self.fraction_bits)
        if pattern > self.last:
            return math.inf if self.has_inf and not fraction and pattern == self.last + 1 else math.nan
        lead = 1 if exponent else 0
        return (lead + fraction / 2**self.fraction_bits) * 2.0 ** (max(exponent, 1) - self.bias)

    def spacing(self, value: float) -> float:
        """Return how far apart the numbers of this format are at a value."""
        exponent = math.frexp(max(abs(value), self.smallest_normal))[1] - 1
        return 2.0 ** (exponent - self.fraction_bits)

    def pattern(self, value: float) -> int:
        """Return the pattern, without sign bit, of the number that a value is cast to; halves go to the even one."""
        if math.isnan(value):
            return (1 << (self.exponent_bits + self.fraction_bits)) - 1
        if abs(value) > 2.0 ** (self.bias + 2):
            return self.last + self.has_inf
        spacing = self.spacing(value)
        exponent = round(math.log2(spacing)) + self.fraction_bits + self.bias
        pattern = ((exponent - 1) << self.fraction_bits) + round(abs(value) / spacing)
        return min(pattern, self.last + self.has_inf)


FORMATS = {
    "fp32": Format(8, 23),
    "tf32": Format(8, 10),
    "fp16": Format(5, 10),
    "bf16": Format(8, 7),
    "e5m2": Format(5, 2),
    "e4m3fn": Format(4, 3, has_inf=False),
}

AHEAD: tuple[Mapping[str, Iterable[Value]], ...] = (  # what is drawn before it is asked for
    {"scale": range(-32, 33, 4)},
    {"format": FORMATS},
    {"example": EXAMPLES},
)


@dataclass(frozen=True)
class Number:
    """What becomes of a number in a format.

    bits: as in chapter 01, with what is stored and its neighbours. ulp: how far apart the numbers of the format are
    there (nan for inf and nan). fate: exact, rounded, underflow, overflow, saturated or nan.
    """

    bits: FloatBits
    ulp: float
    fate: str


def decode(fmt: str, value: float) -> Number:
    """Cast a number, as a float32 number, to a format and say what became of it."""
    chosen = FORMATS[fmt]
    single = torch.tensor(value, dtype=torch.float32, device="cpu").item()
    negative = math.copysign(1, single) < 0
    pattern = chosen.pattern(single)
    place = -pattern if negative else pattern
    stored = math.copysign(chosen.value(pattern), single)
    width = chosen.exponent_bits + chosen.fraction_bits
    text = f"{pattern:0{width}b}"
    if math.isnan(value):
        below = above = math.nan
    else:
        end = chosen.last + chosen.has_inf
        below, above = (_signed(chosen, min(max(place + step, -end), end)) for step in (-1, 1))
    bits = FloatBits(
        sign="1" if negative else "0",
        exponent=text[: chosen.exponent_bits],
        fraction=text[chosen.exponent_bits :],
        kind=_kind(chosen, pattern),
        stored=stored,
        rel_error=relative_error(value, stored),
        below=below,
        above=above,
    )
    ulp = chosen.spacing(stored) if math.isfinite(stored) else math.nan
    return Number(bits, ulp, _fate(value, stored))


def add(fmt: str, one: float, other: float) -> Number:
    """Cast two numbers, add them, and cast the sum."""
    return decode(fmt, decode(fmt, one).bits.stored + decode(fmt, other).bits.stored)


def format_in_words(fmt: str, value: float, power: int = 0, other: float | None = None) -> str:
    """Return what the picture shows as sentences."""
    chosen, state = FORMATS[fmt], decode(fmt, value * 2.0**power)
    words = [
        f"{_asked(value, power)} in {fmt}: {_verdict(state)}.",
        f"Sign {state.bits.sign}, exponent {state.bits.exponent}, fraction {state.bits.fraction}.",
    ]
    if math.isfinite(state.bits.stored):
        words.append(f"{_neighbour(state.bits, 'below').capitalize()}; {_neighbour(state.bits, 'above')}.")
    if other is not None:
        words.append(_sum_in_words(fmt, value * 2.0**power, other) + ".")
    words.append(
        f"{fmt} reaches from {_short(chosen.smallest)} (normal numbers from {_short(chosen.smallest_normal)}) "
        f"to {_short(chosen.largest)}."
    )
    return " ".join(words)


def draw_format(fmt: str, value: float, power: int = 0, other: float | None = None, refusal: str = "") -> Picture:
    """Draw the bits of value * 2^power in a format, its neighbours, and the ranges of all formats with a mark."""
    scaled = value * 2.0**power
    state = decode(fmt, scaled)
    has_line = math.isfinite(state.bits.stored)
    lines = [_verdict(state)] + ([_sum_in_words(fmt, scaled, other)] if other is not None else [])
    bits_top = 64 + 14 * len(lines)
    line_top = bits_top + 42
    ranges_top = line_top + (94 if has_line else 10)
    bottom = ranges_top + 34 + RANGE_ROW * len(FORMATS) + 44
    refused = wrap(refusal, LINE_LENGTH)
    canvas = Canvas(WIDTH, bottom + 14 * len(refused) + 4)

    canvas.title(f"{_asked(value, power)} in {fmt}")
    canvas.lines(MARGIN, 38, lines)
    draw_groups(canvas, state.bits, bits_top)
    if has_line:
        # chapter 01's line writes numbers in full; of those that are not short only six digits are wanted here
        draw_line(canvas, _rounded(scaled), _with_short_numbers(state.bits), line_top)
    _draw_ranges(canvas, fmt, scaled, ranges_top)
    canvas.lines(MARGIN, bottom, refused, color=ERROR_INK)
    words = format_in_words(fmt, value, power, other)
    return Picture(canvas, f"{words} {refusal}" if refusal else words)


def format_explorer(number: str = "1e-8", fmt: str = "fp16", other: str = "", power: int = 0) -> Explorer:
    """Build the explorer: a number, a format, a second number to add, and a scale."""
    known = {settings: example for example, settings in EXAMPLES.items()}
    own = {"example": CHOOSE}
    controls = {
        "example": choice(
            "example",
            [CHOOSE, *EXAMPLES],
            known.get((number, fmt, other, power), CHOOSE),
            about="numbers to begin with",
            wide=True,
            sets={
                example: dict(zip(("number", "format", "add", "scale"), settings, strict=True))
                for example, settings in EXAMPLES.items()
            },
        ),
        "number": text_field("number", number, about="a number, such as 1/3 or 1e-8", resets=own),
        "format": choice("format", FORMATS, fmt, resets=own),
        "add": text_field("add this", other, if_empty="nothing", about="a number that is added", resets=own),
        "scale": slider(
            "scale: 2 ^", power, -32, 32, about="the number is multiplied by this power of two first", resets=own
        ),
    }

    def draw(state: State) -> Picture:
        value, refusal = read_number(state["number"], number)
        added, refusals = None, [refusal]
        if state["add"].strip():
            added, refusal = read_number(state["add"], other or "0", "Added")
            refusals.append(refusal)
        return draw_format(state["format"], value, state["scale"], added, " ".join(filter(None, refusals)))

    return Explorer(controls, ROWS, draw, ahead=AHEAD)


def _signed(chosen: Format, place: int) -> float:
    return math.copysign(chosen.value(abs(place)), place)


def _kind(chosen: Format, pattern: int) -> str:
    value = chosen.value(pattern)
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf"
    if value >= chosen.smallest_normal:
        return "normal"
    return "subnormal" if value else "zero"


def _fate(value: float, stored: float) -> str:
    if math.isnan(value):
        return "nan"
    if value == stored:
        return "exact"
    if math.isinf(stored):
        return "overflow"
    if stored == 0:
        return "underflow"
    if math.isinf(value) or abs(value - stored) / abs(value) > 0.5:
        return "saturated"
    return "rounded"


def _neighbour(bits: FloatBits, side: str) -> str:
    """Name the neighbour on a side; a format without inf has none beyond its largest number."""
    number = bits.below if side == "below" else bits.above
    return f"none {side}" if number == bits.stored else f"next {side}: {_short(number)}"


def _verdict(state: Number) -> str:
    stored, error = _short(state.bits.stored), f"relative error {state.bits.rel_error:.2g}"
    subnormal = ", subnormal: fewer digits" if state.bits.kind == "subnormal" else ""
    return {
        "exact": f"exact: {stored}{subnormal}",
        "rounded": f"rounded to {stored}, {error}{subnormal}",
        "underflow": "underflow: becomes 0",
        "overflow": f"overflow: becomes {stored}",
        "saturated": f"saturated: becomes {stored}, the end of this format",
        "nan": "not a number",
    }[state.fate]


def _sum_in_words(fmt: str, value: float, other: float) -> str:
    first, total = decode(fmt, value).bits.stored, add(fmt, value, other).bits.stored
    words = f"{_short(first)} + {_short(decode(fmt, other).bits.stored)} = {_short(total)} in {fmt}"
    return f"{words}: a lost update" if total == first and other != 0 and math.isfinite(first) else words


def _asked(value: float, power: int) -> str:
    return _short(value) if power == 0 else f"{_short(value)} × 2^{power}"


def _rounded(value: float) -> float:
    """Return a number with nine significant digits: enough for every float32 number."""
    return float(f"{value:.9g}")


def _short(value: float) -> str:
    return plain(_rounded(value)) if math.isfinite(value) else str(value)


def _with_short_numbers(bits: FloatBits) -> FloatBits:
    numbers = (_rounded(bits.stored), bits.rel_error, _rounded(bits.below), _rounded(bits.above))
    return FloatBits(bits.sign, bits.exponent, bits.fraction, bits.kind, *numbers)


def _draw_ranges(canvas: Canvas, fmt: str, value: float, top: float) -> None:
    """Draw one bar for each format on an axis of powers of ten, subnormal numbers lower, and a line at the value."""
    right = WIDTH - MARGIN - 8

    def place(number: float) -> float:
        share = (math.log10(number) - LOWEST) / (HIGHEST - LOWEST)
        return RANGES_LEFT + share * (right - RANGES_LEFT)

    first = top + 28
    bottom = first + RANGE_ROW * len(FORMATS)
    boxes = []
    for row, (name, chosen) in enumerate(FORMATS.items()):
        y, here = first + row * RANGE_ROW, name == fmt
        canvas.text(RANGES_LEFT - 10, y + 7, name, align="right", weight="bold" if here else "normal")
        low, middle, high = place(chosen.smallest), place(chosen.smallest_normal), place(chosen.largest)
        boxes.append(Cell(low, y + 7, "", ORANGE, here, middle - low, 7))
        boxes.append(Cell(middle, y, "", SKY, here, high - middle, 14))
    canvas.cells(boxes)
    for power in range(-40, 41, 10):
        x = place(10.0**power)
        canvas.cells([Cell(x - 0.4, bottom, "", SOFT_INK, width=0.8, height=4)])
        canvas.note(x, bottom + 12, f"1e{power}" if power else "1", "center")
    words = "range of each format; full height: normal numbers, half height: subnormal ones"
    canvas.note(MARGIN, bottom + 28, words)
    size = abs(value)
    if size == 0 or not math.isfinite(size) or not LOWEST <= math.log10(size) <= HIGHEST:
        canvas.text(MARGIN, top + 12, f"{_short(value)} is not on this axis", SMALL)
        return
    x = place(size)
    canvas.line([x, x], [top + 20, bottom], INK, 1.6, level=5, join="miter")
    canvas.text(min(max(x, 80), WIDTH - 80), top + 12, f"here: {_short(size)}", SMALL, "center", weight="bold")
