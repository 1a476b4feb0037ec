"""A joint graph, cut into forward and backward: the calls of both halves, and what crosses the cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from torchkata.instruments.cut import Cut, cut_of
from torchkata.pictures.controls import choice
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, MARGIN, ORANGE, SKY

WIDTH, TOP, ROW, BOX, COLUMNS = 600, 74, 26, 68, 8


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Sequence[tuple[int, ...]]]] = {
    "three sines": (lambda x: x.sin().sin().sin(), [(100, 3)]),
    "exp": (lambda x: x.exp(), [(100, 3)]),
    "relu(x @ w) @ v": (lambda x, w, v: torch.relu(x @ w) @ v, [(64, 32), (32, 128), (128, 32)]),
    "gelu written out": (_gelu, [(64, 128)]),
}
CUTS = {"default partition": False, "min-cut": True}


@cache
def _cut(name: str, recompute: bool) -> Cut:
    function, shapes = FUNCTIONS[name]
    return cut_of(function, [torch.full(shape, 0.5, requires_grad=True) for shape in shapes], recompute)


def draw_cut(name: str, recompute: bool) -> Picture:
    """Draw the two halves of one of the FUNCTIONS."""
    cut = _cut(name, recompute)
    rows = [
        (list(cut.forward), SKY, "forward"),
        (list(cut.crosses), GREEN, "crosses"),
        (list(cut.backward), ORANGE, "backward"),
    ]
    heights = [max(1, -(-len(names) // COLUMNS)) for names, _, _ in rows]
    canvas = Canvas(WIDTH, TOP + sum(heights) * ROW + 3 * 24 + MARGIN)
    canvas.title(f"{name}: {cut.kept:,} bytes are kept besides inputs")
    operations = f"{len(cut.forward)} operations forward, {len(cut.backward)} backward"
    canvas.note(MARGIN, 48, f"{operations}. A primal is an input of the function.")
    y = float(TOP)
    titles = {"forward": "forward", "crosses": "kept for backward", "backward": "backward"}
    for (names, fill, what), height in zip(rows, heights, strict=True):
        canvas.text(MARGIN, y + 8, titles[what], weight="bold")
        y += 20
        for number, one in enumerate(names):
            row, column = divmod(number, COLUMNS)
            canvas.cells([Cell(MARGIN + column * (BOX + 4), y + row * ROW, one, fill, width=BOX, height=ROW - 4)])
        y += height * ROW + 4
    told = f"Forward: {', '.join(cut.forward)}. Backward: {', '.join(cut.backward)}. Kept: {', '.join(cut.crosses)}"
    return Picture(canvas, f"{name}: {cut.kept:,} bytes kept, {operations}. {told}.")


def cut_explorer() -> Explorer:
    """Build the explorer: a function, and how its joint graph is cut."""
    controls = {
        "function": choice("function", list(FUNCTIONS), "three sines"),
        "cut": choice("cut by", list(CUTS.items()), False),
    }
    return Explorer(controls, [["function", "cut"]], lambda state: draw_cut(state["function"], state["cut"]))
