"""How a number is stored: the bits of a floating point format, and the numbers next to it that the format has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

import torch

from torchkata.pictures.controls import Value, choice, steps, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, ERROR_INK, GREEN, MARGIN, ORANGE, SKY, SMALL

FORMATS = {str(dtype)[6:]: dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
EXAMPLES = ("257", "70000", "1e-8", "0.1", "1/3")
CHOOSE = "choose"  # stands in the list of examples beside a number that is none of them
ROWS = (("example",), ("number", "format"), ("step",))
FAR = 128  # numbers that the buttons reach on each side
NEAR, NEAR_START = range(-2, 4), range(-4, 33)  # steps drawn ahead: of every example, and of what is shown first

INTEGERS = {16: torch.int16, 32: torch.int32, 64: torch.int64}
ROW = 32  # bits in a row of the picture
WIDTH = 2 * MARGIN + ROW * 17
LINE_LENGTH = 92  # letters in a line of a refusal


@dataclass(frozen=True)
class FloatBits:
    """What becomes of a number in a format.

    sign, exponent and fraction are texts of 0 and 1; kind is normal, subnormal, zero, inf or nan. stored is the
    number that the bits stand for, below and above are its neighbours in the format, and rel_error is
    abs(stored - value) / abs(value).
    """

    sign: str
    exponent: str
    fraction: str
    kind: str
    stored: float
    rel_error: float
    below: float
    above: float


def float_bits(value: float, dtype: torch.dtype) -> FloatBits:
    """Store value in a tensor of this floating point dtype and look at its bits."""
    exponent_bits, fraction_bits = layout(dtype)
    pattern = _pattern(value, dtype)
    text = f"{pattern:0{1 + exponent_bits + fraction_bits}b}"
    sign, exponent, fraction = text[0], text[1 : 1 + exponent_bits], text[1 + exponent_bits :]
    stored = _value(pattern, dtype)
    below, above = _neighbours(pattern, dtype)
    kind = _kind(exponent, fraction)
    return FloatBits(sign, exponent, fraction, kind, stored, relative_error(value, stored), below, above)


def layout(dtype: torch.dtype) -> tuple[int, int]:
    """Return how many bits the exponent and the fraction of a format have."""
    info = torch.finfo(dtype)
    fraction = round(-math.log2(info.eps))
    return info.bits - 1 - fraction, fraction


def parse_number(text: str) -> float:
    """Read 257, 1e-8, inf, nan or a quotient such as 1/3; ValueError says what is wrong."""
    numerator, slash, denominator = text.partition("/")
    try:
        value = float(numerator)
        return value / float(denominator) if slash else value
    except ZeroDivisionError:
        raise ValueError(f"{text.strip()} divides by zero.") from None
    except ValueError:
        raise ValueError(f"{text.strip()!r} is not a number: write 257, 1e-8, 1/3, inf or nan.") from None


def bits_in_words(value: float, dtype: torch.dtype) -> str:
    """Return what the picture shows as sentences."""
    state = float_bits(value, dtype)
    words = [
        f"{plain(value)} in {_name(dtype)} is stored as {plain(state.stored)} ({state.kind}); {_error(state)}.",
        f"Sign {state.sign}, exponent {state.exponent}, fraction {state.fraction}.",
    ]
    if state.kind in ("normal", "subnormal"):
        words.append(f"{_product(state, dtype)}.")
    if state.kind == "nan":
        words.append("It has no neighbours.")
    else:
        words.append(f"Next below: {plain(state.below)}; next above: {plain(state.above)}.")
    return " ".join(words)


def draw_bits(value: float, dtype: torch.dtype, refusal: str = "", away: int = 0) -> Picture:
    """Draw the bits in their three groups, what they say, and the stored number between its neighbours.

    away: instead of the value, the number that stands so many numbers above (negative: below) what is stored for it.
    """
    value, walked = _walked(value, dtype, away)
    state = float_bits(value, dtype)
    sayings = _sayings(state, dtype)
    bits_top = 78
    saying_top = bits_top + -(-torch.finfo(dtype).bits // ROW) * 32 + 8
    line_top = saying_top + 14 * len(sayings) + 10
    has_line = math.isfinite(state.stored)
    bottom = line_top + (84 if has_line else 0)
    refused = wrap(refusal, LINE_LENGTH)
    canvas = Canvas(WIDTH, bottom + 14 * len(refused) + 4)

    canvas.title(f"{plain(value)} in {_name(dtype)}")
    if walked:
        canvas.note(WIDTH - MARGIN, MARGIN + 6, walked, "right")
    canvas.text(MARGIN, 38, f"stored: {plain(state.stored)} ({state.kind}); {_error(state)}")
    draw_groups(canvas, state, bits_top)
    canvas.lines(MARGIN, saying_top, sayings)
    if has_line:
        draw_line(canvas, value, state, line_top)
    canvas.lines(MARGIN, bottom, refused, color=ERROR_INK)
    words = [bits_in_words(value, dtype), f"This is {walked}." if walked else "", refusal]
    return Picture(canvas, " ".join(word for word in words if word))


def _walked(value: float, dtype: torch.dtype, away: int) -> tuple[float, str]:
    """Return the number so many numbers away from what is stored for a value, and where that is, in words."""
    pattern = _pattern(value, dtype)
    stored = _value(pattern, dtype)
    place, last = _place(pattern, dtype)
    done = min(max(place + away, -last), last) - place
    if done == 0 or math.isnan(stored):
        return value, ""
    how_far = f"{abs(done)} step{'' if abs(done) == 1 else 's'}"
    return _neighbour(pattern, dtype, done), f"{how_far} {'above' if done > 0 else 'below'} {plain(stored)}"


def float_explorer(number: str = "257", dtype: str = "bfloat16") -> Explorer:
    """Build the explorer: a number, a format, and steps to the next number below and above."""
    anew = {"step": FAR}
    controls = {
        "example": choice(
            "example",
            [CHOOSE, *EXAMPLES],
            number if number in EXAMPLES else CHOOSE,
            about="a number to begin with",
            resets=anew,
            sets={example: {"number": example} for example in EXAMPLES},
        ),
        "number": text_field(
            "number", number, about="a number, such as 1/3 or 1e-8", resets={"example": CHOOSE, **anew}
        ),
        "format": choice("format", FORMATS, dtype, resets=anew),
        "step": steps("step", FAR, 2 * FAR, back="next below", on="next above", anew=""),
    }

    def draw(state: State) -> Picture:
        value, refusal = read_number(state["number"], number)
        return draw_bits(value, FORMATS[state["format"]], refusal, state["step"] - FAR)

    def limits(state: State) -> dict[str, int]:
        value, _ = read_number(state["number"], number)
        return {"step": FAR + min(numbers_above(value, FORMATS[state["format"]]), FAR)}

    return Explorer(controls, ROWS, draw, limits, _ahead(controls["example"].values))


def _ahead(examples: Sequence[str]) -> list[dict[str, Iterable[Value]]]:
    return [
        {"step": [FAR + step for step in NEAR_START]},
        {"example": examples, "format": list(FORMATS), "step": [FAR + step for step in NEAR]},
    ]


def read_number(text: str, instead: str, verb: str = "Shown") -> tuple[float, str]:
    """Return the number that a text says; if it says none, the one to take instead, and a refusal."""
    try:
        return parse_number(text), ""
    except ValueError as problem:
        return parse_number(instead), f"{problem} {verb} is {instead}."


def relative_error(value: float, stored: float) -> float:
    """Return abs(stored - value) / abs(value), 0 where both are the same, also for 0 and inf."""
    if value == stored:
        return 0.0
    if math.isnan(value):
        return math.nan
    return abs(stored - value) / abs(value)


def plain(value: float) -> str:
    """Write a number as Python does, whole ones of moderate size without .0."""
    return f"{value:.0f}" if abs(value) < 1e15 and value == int(value) else repr(value)


def draw_groups(canvas: Canvas, state: FloatBits, top: float) -> None:
    """Draw one box for each bit, coloured and labelled by its group."""
    groups = (("sign", state.sign, SKY), ("exponent", state.exponent, ORANGE), ("fraction", state.fraction, GREEN))
    total = sum(len(bits) for _, bits, _ in groups)
    size = (WIDTH - 2 * MARGIN) / ROW if total >= ROW else 24
    boxes, place, free = [], 0, MARGIN
    for name, bits, fill in groups:
        label = name if len(bits) == 1 else f"{name}: {len(bits)} bits"
        x = max(MARGIN + place * size, free)
        canvas.note(x, top - 12, label)
        free = x + 5 * len(label) + 6
        for bit in bits:
            row, column = divmod(place, ROW)
            boxes.append(Cell(MARGIN + column * size, top + row * 32, bit, fill, width=size))
            place += 1
    canvas.cells(boxes)


def draw_line(canvas: Canvas, value: float, state: FloatBits, top: float) -> None:
    """Draw the stored number between its neighbours, to scale, and where the number that was asked for lies."""
    middle, reach = WIDTH / 2, 190
    sides = {"below": state.below, "above": state.above}
    there = {side: number != state.stored for side, number in sides.items()}  # the end of a format without inf has one
    gaps = [abs(number - state.stored) for side, number in sides.items() if there[side] and math.isfinite(number)]

    def place(number: float) -> float:
        if math.isfinite(number):
            return middle + (number - state.stored) / max(gaps) * reach
        return middle + math.copysign(reach, number)

    y = top + 34
    canvas.arrow((MARGIN, y), (WIDTH - MARGIN, y))
    low = place(state.below) if there["below"] else middle - reach
    high = place(state.above) if there["above"] else middle + reach
    marks = [
        Cell(x - 2, y - 8, "", BLANK, False, 4, 16) for x, side in ((low, "below"), (high, "above")) if there[side]
    ]
    canvas.cells([Cell(middle - 2, y - 8, "", GREEN, True, 4, 16), *marks])
    canvas.note(middle, y + 18, "stored", "center")
    canvas.text(middle, y + 30, plain(state.stored), SMALL, "center", weight="bold")
    for side, x in (("below", min(low, middle - 130)), ("above", max(high, middle + 130))):
        canvas.note(x, y + 18, f"next {side}" if there[side] else f"none {side}", "center")
        if there[side]:
            canvas.text(x, y + 30, plain(sides[side]), SMALL, "center")
    if math.isfinite(value):
        asked = min(max(place(value), low), high)
        canvas.text(asked, y - 28, f"asked for: {plain(value)}", SMALL, "center")
        canvas.arrow((asked, y - 22), (asked, y - 9))


def _pattern(value: float, dtype: torch.dtype) -> int:
    """Return the bits of the stored value as a whole number that is not negative."""
    bits = torch.finfo(dtype).bits
    stored = torch.tensor(value, dtype=torch.float64, device="cpu").to(dtype)
    return int(stored.view(INTEGERS[bits]).item()) & ((1 << bits) - 1)


def _value(pattern: int, dtype: torch.dtype) -> float:
    """Return the number that a pattern of bits stands for."""
    bits = torch.finfo(dtype).bits
    signed = pattern - (1 << bits) if pattern >> (bits - 1) else pattern
    return torch.tensor(signed, dtype=INTEGERS[bits], device="cpu").view(dtype).to(torch.float64).item()


def numbers_above(value: float, dtype: torch.dtype) -> int:
    """Return how many numbers of a format lie above what it stores for a value, infinity included."""
    place, last = _place(_pattern(value, dtype), dtype)
    return max(last - place, 0) if abs(place) <= last else 0


def _neighbours(pattern: int, dtype: torch.dtype) -> tuple[float, float]:
    """Return the next smaller and the next larger number; infinities are the last ones; nan has only itself."""
    return _neighbour(pattern, dtype, -1), _neighbour(pattern, dtype, 1)


def _neighbour(pattern: int, dtype: torch.dtype, away: int) -> float:
    """Return the number that stands so many numbers above a pattern's; that of infinity is the last one."""
    place, last = _place(pattern, dtype)
    if abs(place) > last:
        return math.nan
    there = min(max(place + away, -last), last)
    return _value(there if there >= 0 else (1 << sum(layout(dtype))) - there, dtype)


def _place(pattern: int, dtype: torch.dtype) -> tuple[int, int]:
    """Return where a pattern's number stands among the numbers of its format, 0 at zero, and where infinity does.

    Without the sign bit, patterns read as whole numbers stand in the order of the numbers that they mean.
    """
    exponent_bits, fraction_bits = layout(dtype)
    sign_bit = 1 << (exponent_bits + fraction_bits)
    last = (1 << exponent_bits) - 1 << fraction_bits  # the pattern of infinity
    return (sign_bit - pattern if pattern & sign_bit else pattern), last


def _kind(exponent: str, fraction: str) -> str:
    if "0" not in exponent:
        return "nan" if "1" in fraction else "inf"
    if "1" in exponent:
        return "normal"
    return "subnormal" if "1" in fraction else "zero"


def _name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


def _error(state: FloatBits) -> str:
    if math.isnan(state.rel_error):
        return "not a number"
    return "no error" if state.rel_error == 0 else f"relative error {state.rel_error:.2g}"


def _powers(state: FloatBits, dtype: torch.dtype) -> tuple[int, int, float]:
    """Return the bias, the power of two and the factor before it, of a normal or subnormal number."""
    bias = 2 ** (layout(dtype)[0] - 1) - 1
    rest = int(state.fraction, 2) / 2 ** len(state.fraction)
    if state.kind == "normal":
        return bias, int(state.exponent, 2) - bias, 1 + rest
    return bias, 1 - bias, rest


def _product(state: FloatBits, dtype: torch.dtype) -> str:
    _, power, factor = _powers(state, dtype)
    sign = "-" if state.sign == "1" else "+"
    return f"stored = {sign} {factor:.10g} × 2^{power}"


def _sayings(state: FloatBits, dtype: torch.dtype) -> list[str]:
    """Say what exponent and fraction mean and how the number is made of them."""
    if state.kind == "nan":
        return ["exponent: all ones; fraction: not all zeros: that means nan, not a number"]
    if state.kind == "inf":
        largest = state.below if state.sign == "0" else state.above
        return [
            "exponent: all ones; fraction: all zeros: that means infinity",
            f"the last finite number on this side is {plain(largest)}",
        ]
    if state.kind == "zero":
        return ["exponent and fraction: all zeros: that means 0; the sign bit is still there"]
    bias, power, factor = _powers(state, dtype)
    exponent, fraction = int(state.exponent, 2), int(state.fraction, 2)
    lead = 1 if state.kind == "normal" else 0
    how = f"{exponent} - {bias}" if lead else f"all zeros: subnormal, the smallest power, 1 - {bias}"
    return [
        f"exponent: {how} = {power}",
        f"fraction: {lead} + {fraction} / 2^{len(state.fraction)} = {factor:.10g}",
        f"{_product(state, dtype)}",
    ]
