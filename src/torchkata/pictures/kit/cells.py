"""A box with words in it, and how the elements of a tensor stand side by side as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torchkata.pictures.style import BLANK, CELL, GAP


@dataclass(frozen=True)
class Cell:
    """One box of a grid: where it stands, what is written in it (`below`: a second line), its fill and outline.

    came: how far away it stood before, in x and y, if it moves here.
    """

    x: float
    y: float
    text: str
    fill: str = BLANK
    marked: bool = False
    width: float = CELL
    height: float = CELL
    below: str = ""
    came: tuple[float, float] | None = None


@dataclass(frozen=True)
class Grid:
    """Where the elements of a tensor stand on a canvas: `places` lists (x, y) in index order."""

    places: list[tuple[float, float]]
    slab_labels: list[tuple[float, float, str]]
    width: float
    height: float


def grid(shape: Sequence[int], x: float, y: float, max_width: float = 520) -> Grid:
    """Lay out a tensor: one row, or matrices (slabs) side by side; what is too wide is wrapped at max_width."""
    rows, columns = (1, 1, *shape)[-2:]
    leading = tuple(shape[:-2])
    slabs = prod(leading)
    per_line = max(1, int(max_width // CELL))
    lines = -(-columns // per_line)
    row_height = lines * CELL + (6 if lines > 1 else 0)
    label_height = 14 if leading else 0
    slab_width, slab_height = min(columns, per_line) * CELL, rows * row_height + label_height
    abreast = max(1, int((max_width + GAP) // (slab_width + GAP)))

    places, labels = [], []
    for slab in range(slabs):
        left = x + (slab % abreast) * (slab_width + GAP)
        top = y + (slab // abreast) * (slab_height + GAP) + label_height
        if leading:
            labels.append((left, top - 7, brackets(position(slab, leading))))
        for row in range(rows):
            for column in range(columns):
                line, place = divmod(column, per_line)
                places.append((left + place * CELL, top + row * row_height + line * CELL))
    width = min(abreast, slabs) * (slab_width + GAP) - GAP
    height = -(-slabs // abreast) * (slab_height + GAP) - GAP
    return Grid(places, labels, max(width, 0), max(height, 0))


def position(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of element `number` (in index order) of a tensor of this shape."""
    index = []
    for size in reversed(shape):
        number, place = divmod(number, size)
        index.append(place)
    return tuple(reversed(index))


def brackets(index: Sequence[int]) -> str:
    """Write an index as the course does: [1][2]."""
    return "".join(f"[{i}]" for i in index)
