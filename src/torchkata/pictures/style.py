"""The look that all pictures share: an opaque light card, colours, fonts, and cells with numbers in them.

A `Canvas` counts in points (1/72 inch) from its upper left corner; y grows downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

RC = {
    "svg.hashsalt": "torchkata",
    "svg.fonttype": "none",
    "svg.image_inline": True,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "text.usetex": False,
    "text.parse_math": False,
    "path.simplify": False,
    "path.sketch": None,
    "path.effects": [],
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "savefig.edgecolor": "auto",
    "savefig.transparent": False,
}

CARD = "#fcfcf9"
EDGE = "#767676"
INK = "#1a1a1a"
SOFT_INK = "#4d4d4d"
ERROR_INK = "#9c2f00"  # also the second curve of a chart
CURVE = "#00598f"  # a blue that stands out as a line, which that of cells does not
FAINT = "#c4c4c4"  # the edge of a card, lines that may be overlooked
RULE = "#d0d0d0"  # the lines behind a curve

# Fills for cells. The hues are those of Okabe and Ito, which people with any colour vision tell apart.
SKY = "#8fcdf0"
ORANGE = "#f2b83d"
GREEN = "#7fd1b5"
PURPLE = "#e0adc8"
YELLOW = "#f4ea80"
BLANK = "#ffffff"
UNUSED = "#e6e6e6"
FILLS = (SKY, ORANGE, GREEN, PURPLE)

TITLE, TEXT, SMALL = 11, 9, 8  # font sizes in points; 8 points are 10.7 pixels on screen
CELL = 24
GAP = 14  # between the matrices of a tensor with more than two dimensions
MARGIN = 12


@dataclass(frozen=True)
class Cell:
    """One box of a grid: where it stands, what is written in it (`below`: a second line), its fill and outline."""

    x: float
    y: float
    text: str
    fill: str = BLANK
    marked: bool = False
    width: float = CELL
    height: float = CELL
    below: str = ""


class Canvas:
    """A card of width x height points to draw on."""

    def __init__(self, width: float, height: float):
        self.height = height
        self.figure = Figure(figsize=(width / 72, height / 72), facecolor=CARD, edgecolor=FAINT, linewidth=1)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)

    def text(self, x: float, y: float, words: str, size: float = TEXT, align: str = "left", **look) -> None:
        """Write `words`, vertically centred on y; `align` is left, center or right of x."""
        look = {"color": INK, "family": "sans-serif", "parse_math": False, "zorder": 4} | look
        baseline = y + 0.36 * size  # not left to matplotlib: its answer hangs on the machine's font files
        self.axes.text(x, baseline, words, size=size, ha=align, va="baseline", **look)

    def title(self, words: str) -> None:
        self.text(MARGIN, MARGIN + 6, words, TITLE, weight="bold")

    def cells(self, cells: Sequence[Cell]) -> None:
        """Draw boxes with their texts; marked ones get a thick outline and stand above the others."""
        for marked in (False, True):
            group = [cell for cell in cells if cell.marked is marked]
            if group:
                self._boxes(group, edge=INK if marked else EDGE, line=2.4 if marked else 0.8, level=2 + marked)
        for cell in cells:
            self._write_in(cell)

    def arrow(self, start: tuple[float, float], end: tuple[float, float], colour: str = SOFT_INK) -> None:
        """Draw an arrow; every setting is said here, so that the learner's own settings don't reach it."""
        self.axes.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", color=colour, linewidth=1, mutation_scale=9, shrinkA=0, shrinkB=0
            )
        )

    def _write_in(self, cell: Cell) -> None:
        x, y = cell.x + cell.width / 2, cell.y + cell.height / 2
        weight = "bold" if cell.marked else "normal"
        if cell.below:
            self.text(x, y - 5.5, cell.text, SMALL, "center", weight=weight)
            self.text(x, y + 5.5, cell.below, SMALL, "center", weight=weight)
        elif cell.text:
            self.text(x, y, cell.text, TEXT if len(cell.text) < 4 else SMALL, "center", weight=weight)

    def _boxes(self, cells: Sequence[Cell], edge: str, line: float, level: int) -> None:
        corners = [
            ((c.x, c.y), (c.x + c.width, c.y), (c.x + c.width, c.y + c.height), (c.x, c.y + c.height)) for c in cells
        ]
        fills = [c.fill for c in cells]
        self.axes.add_collection(
            PolyCollection(corners, facecolors=fills, edgecolors=edge, linewidths=line, zorder=level),
            autolim=False,
        )


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
