"""A histogram of gradients, and which of them a format loses at a given scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from torchkata.pictures.controls import choice, slider
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.number_formats import FORMATS
from torchkata.pictures.show import Picture
from torchkata.pictures.style import INK, MARGIN, ORANGE, PURPLE, SKY, SMALL

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "e5m2": torch.float8_e5m2}
LOWEST, HIGHEST = -60, 30  # the axis, in powers of two
SLOT, LEFT, FULL = 6, 24, 110  # points: a power of two, where the axis begins, the highest bar
WIDTH = LEFT + (HIGHEST - LOWEST) * SLOT + MARGIN + 12
ROWS = (("scale", "format"),)


def window(grads: Sequence[Tensor], scale: float, dtype: torch.dtype) -> tuple[float, float]:
    """Return which shares of the entries that are not 0 become 0 and inf when scale times the gradients is cast."""
    entries = _entries(grads)
    cast = (entries * scale).to(dtype).double()
    return (cast == 0).double().mean().item(), cast.isinf().double().mean().item()


def draw_window(grads: Sequence[Tensor], power: int, fmt: str = "fp16") -> Picture:
    """Draw how many entries of 2^power times the gradients lie in each power of two, and the window of the format."""
    lost, infinite = window(grads, 2.0**power, DTYPES[fmt])
    counts = _counts(grads)
    chosen = FORMATS[fmt]
    low, high = math.log2(chosen.smallest) - 1, math.log2(chosen.largest)
    top, base = 96, 96 + FULL
    canvas = Canvas(WIDTH, base + 58)

    canvas.title(f"Gradients × 2^{power}, and what {fmt} keeps")
    shares = f"become 0: {lost:.1%}; kept: {1 - lost - infinite:.1%}; become inf: {infinite:.1%}"
    canvas.text(MARGIN, 38, shares)
    boxes = []
    for exponent in sorted(counts):
        place = exponent + power
        if not LOWEST <= place < HIGHEST:
            continue
        height = max(1, round(counts[exponent] / max(counts.values()) * FULL))
        fill = ORANGE if place < low else PURPLE if place > high else SKY
        boxes.append(Cell(_x(place), base - height, "", fill, width=SLOT, height=height))
    canvas.cells(boxes)
    canvas.line([_x(LOWEST), _x(HIGHEST)], [base, base], width=0.8, level=2, join="miter")
    for place in range(LOWEST, HIGHEST + 1, 10):
        canvas.note(_x(place), base + 10, f"2^{place}", "center")
    _draw_edges(canvas, low, high, top, base)
    words = "size of an entry; the height of a bar is the number of entries in that power of two"
    canvas.note(MARGIN, base + 30, words)
    words = "left of the window entries become 0, right of it inf"
    canvas.note(MARGIN, base + 44, words)
    return Picture(canvas, _in_words(counts, power, fmt, shares))


def window_explorer(grads: Sequence[Tensor], power: int = 0, fmt: str = "fp16") -> Explorer:
    """Build the explorer: a scale and a format for these gradients."""
    kept = [_entries(grads)]
    controls = {
        "scale": slider("scale: 2 ^", power, -8, 30, about="the gradients are multiplied by this power of two first"),
        "format": choice("format", DTYPES, fmt),
    }

    def draw(state: State) -> Picture:
        return draw_window(kept, state["scale"], state["format"])

    return Explorer(controls, ROWS, draw, ahead=[{"format": DTYPES, "scale": range(-8, 31, 3)}])


def _entries(grads: Sequence[Tensor]) -> Tensor:
    """Return the magnitudes of all entries that are not 0, as float64."""
    entries = torch.cat([grad.detach().cpu().double().flatten() for grad in grads]).abs()
    return entries[entries > 0]


def _counts(grads: Sequence[Tensor]) -> dict[int, int]:
    """Return how many entries lie in each power of two: from 2^k up to, but without, 2^(k + 1)."""
    powers, counts = (torch.frexp(_entries(grads)).exponent - 1).unique(return_counts=True)
    return dict(zip(powers.tolist(), counts.tolist(), strict=True))


def _x(place: float) -> float:
    return LEFT + (place - LOWEST) * SLOT


def _draw_edges(canvas: Canvas, low: float, high: float, top: float, base: float) -> None:
    """Draw the window as a bracket over the bars, with its edges where they are on the axis."""
    left, right = _x(max(low, LOWEST)), _x(min(high, HIGHEST))
    y = top - 14
    canvas.line([left, right], [y, y], INK, 1.6, level=5, join="miter")
    for place, x in ((low, left), (high, right)):
        if LOWEST < place < HIGHEST:
            canvas.line([x, x], [y, base], INK, 1.6, level=5, join="miter")
    canvas.text((left + right) / 2, y - 9, "window", SMALL, "center", weight="bold")


def _in_words(counts: Mapping[int, int], power: int, fmt: str, shares: str) -> str:
    smallest, largest = min(counts) + power, max(counts) + power
    return (
        f"Gradients times 2^{power} in {fmt}: {shares}. "
        f"Their sizes lie from about 2^{smallest} to 2^{largest + 1}; {fmt} keeps what is larger than "
        f"2^{math.log2(FORMATS[fmt].smallest) - 1:.0f} and at most {FORMATS[fmt].largest:.6g}."
    )
