"""Positions as angles: the hands of eight pairs at a position, computed in float32 and in bfloat16."""

from __future__ import annotations

import math

import torch

from torchkata.pictures.controls import notched_slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, CURVE, ERROR_INK, INK, MARGIN, SOFT_INK

PAIRS, BASE, ACROSS = 8, 10_000.0, 4
POSITIONS = (0, 1, 2, 10, 100, 255, 256, 257, 258, 1000, 2001, 4000, 4090)
RADIUS, STEP, TOP, WIDTH = 20, 50, 92, 222
HIGH = 2 * (2 * RADIUS + 8) + 38  # of a row of pairs: two dials below each other, and words
EVIDENT = 1.0  # degrees that are called a difference


def angles(position: int, dtype: torch.dtype) -> list[float]:
    """The angle of each pair at a position, in radians: position · base^(-i / PAIRS), position and product in dtype."""
    frequencies = BASE ** (-torch.arange(PAIRS, dtype=torch.float32, device="cpu") / PAIRS)
    return (torch.tensor(position, dtype=dtype, device="cpu") * frequencies.to(dtype)).tolist()


def apart(position: int) -> list[float]:
    """By how many degrees the hands of each pair differ, from 0 to 180."""
    pairs = zip(angles(position, torch.float32), angles(position, torch.bfloat16), strict=True)
    return [abs(math.degrees(math.remainder(one - two, math.tau))) for one, two in pairs]


def draw_dials(position: int) -> Picture:
    """Draw the hands of all pairs: above in float32, below in bfloat16, with the difference in degrees."""
    rounded = int(torch.tensor(position, dtype=torch.bfloat16, device="cpu"))
    rows = PAIRS // ACROSS
    canvas = Canvas(WIDTH, TOP + rows * HIGH)
    title = f"The angles at position {position:,}"
    canvas.title(title)
    told = f"In bfloat16 the position is {rounded:,}."
    canvas.text(MARGIN, 38, told, weight="bold", color=INK if rounded == position else ERROR_INK)
    explained = "Upper dial: float32. Lower dial: bfloat16.", "Angles grow counterclockwise from the right."
    canvas.lines(MARGIN, 54, explained, color=SOFT_INK)
    full, half, off = angles(position, torch.float32), angles(position, torch.bfloat16), apart(position)
    for pair in range(PAIRS):
        row, column = divmod(pair, ACROSS)
        x, y = MARGIN + RADIUS + 4 + column * STEP, TOP + row * HIGH
        canvas.text(x, y, f"pair {pair}", align="center", color=SOFT_INK)
        _dial(canvas, x, y + 12 + RADIUS, full[pair], CURVE)
        _dial(canvas, x, y + 20 + 3 * RADIUS, half[pair], ERROR_INK if off[pair] >= EVIDENT else CURVE)
        evident = off[pair] >= EVIDENT
        colour, weight = (ERROR_INK, "bold") if evident else (SOFT_INK, "normal")
        canvas.text(
            x,
            y + 31 + 4 * RADIUS,
            f"{off[pair]:.0f}° off" if evident else "< 1° off",
            align="center",
            color=colour,
            weight=weight,
        )
    words = "; ".join(
        f"pair {pair}: {math.degrees(one) % 360:.0f} and {math.degrees(two) % 360:.0f}"
        for pair, (one, two) in enumerate(zip(full, half, strict=True))
    )
    return Picture(canvas, f"{title}, in degrees, in float32 and in bfloat16. {told} {words}.")


def dials_explorer() -> Explorer:
    """Build the explorer: a slider over positions."""
    controls = {"position": notched_slider("position", POSITIONS, 257)}
    return Explorer(controls, [["position"]], lambda state: draw_dials(state["position"]))


def _dial(canvas: Canvas, x: float, y: float, angle: float, colour: str) -> None:
    """A clock with one hand; angle 0 points to the right, and angles grow against the clock."""
    canvas.marks([x], [y], "o", 2 * RADIUS, BLANK, 0.8)
    end = [x + (RADIUS - 3) * math.cos(angle)], [y - (RADIUS - 3) * math.sin(angle)]
    canvas.line([x, *end[0]], [y, *end[1]], colour, 2.4, level=5, cap="round")
