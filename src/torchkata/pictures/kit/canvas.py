"""A card to draw on: words, boxes, arrows and lines. Only here and in show.py do pictures meet matplotlib.

A `Canvas` counts in points (1/72 inch) from its upper left corner; y grows downwards. Every setting of what is drawn is
said here, so that the learner's own settings don't reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from torchkata.pictures.kit.cells import Cell
from torchkata.pictures.style import CARD, CELL, EDGE, FAINT, INK, MARGIN, SMALL, SOFT_INK, TEXT, TITLE

Dashes = Literal["solid"] | tuple[float, tuple[float, ...]]  # an offset, then the lengths of dashes and gaps
Cap = Literal["butt", "projecting", "round"]
Join = Literal["miter", "round", "bevel"]


class Canvas:
    """A card of width x height points to draw on."""

    def __init__(self, width: float, height: float):
        self.height = height
        self.figure = Figure(figsize=(width / 72, height / 72), facecolor=CARD, edgecolor=FAINT, linewidth=1)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)

    def text(self, x: float, y: float, words: str, size: float = TEXT, align: str = "left", **look: Any) -> None:
        """Write `words`, vertically centred on y; `align` is left, center or right of x."""
        given: dict[str, Any] = {"color": INK, "family": "sans-serif", "parse_math": False, "zorder": 4} | look
        baseline = y + 0.36 * size  # not left to matplotlib: its answer hangs on the machine's font files
        self.axes.text(x, baseline, words, size=size, ha=align, va="baseline", **given)

    def title(self, words: str) -> None:
        self.text(MARGIN, MARGIN + 6, words, TITLE, weight="bold")

    def note(self, x: float, y: float, words: str, align: str = "left") -> None:
        """Write what explains the picture: small and in a softer colour."""
        self.text(x, y, words, SMALL, align, color=SOFT_INK)

    def notes(self, x: float, y: float, lines: Iterable[str], step: float = 14) -> None:
        """Write notes below one another, the first at y."""
        self.lines(x, y, lines, SMALL, step, color=SOFT_INK)

    def lines(
        self, x: float, y: float, lines: Iterable[str], size: float = TEXT, step: float = 14, **look: Any
    ) -> None:
        """Write lines below one another, the first at y."""
        for number, line in enumerate(lines):
            self.text(x, y + step * number, line, size, **look)

    def ruler(self, x: float, y: float, name: str, count: int) -> None:
        """Number the cells of a row that begins at x, with a name before the numbers."""
        self.note(x - 8, y, name, "right")
        for number in range(count):
            self.note(x + (number + 0.5) * CELL, y, str(number), "center")

    def cells(self, cells: Sequence[Cell]) -> None:
        """Draw boxes with their texts; marked ones get a thick outline and stand above the others."""
        for marked in (False, True):
            group = [cell for cell in cells if cell.marked is marked]
            if group:
                self._boxes(group, edge=INK if marked else EDGE, line=2.4 if marked else 0.8, level=2 + marked)
        for cell in cells:
            self._write_in(cell)

    def rounded(
        self, x: float, y: float, width: float, height: float, fill: str, edge: str = EDGE, line: float = 1
    ) -> None:
        """Draw a box with round corners and no words in it."""
        shape = "round,pad=0,rounding_size=14"
        box = FancyBboxPatch(
            (x, y), width, height, shape, facecolor=fill, edgecolor=edge, linewidth=line, linestyle="solid", zorder=2
        )
        self.axes.add_patch(box)

    def arrow(self, start: tuple[float, float], end: tuple[float, float], colour: str = SOFT_INK) -> None:
        """Draw a straight arrow."""
        self.axes.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", color=colour, linewidth=1, mutation_scale=9, shrinkA=0, shrinkB=0
            )
        )

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        colour: str = SOFT_INK,
        width: float = 1,
        level: float = 3,
        dashes: Dashes = "solid",
        cap: Cap = "butt",
        join: Join = "round",
    ) -> None:
        """Draw a line through points; nan breaks it. What has a higher level lies above."""
        with rc_context({"lines.scale_dashes": True}):  # the one setting that a line asks for whatever it is given
            line = Line2D(
                xs,
                ys,
                color=colour,
                linewidth=width,
                linestyle=dashes,
                marker="none",
                antialiased=True,
                dash_capstyle=cap,
                solid_capstyle=cap,
                dash_joinstyle=join,
                solid_joinstyle=join,
                zorder=level,
            )
        self.axes.add_line(line)

    def marks(self, xs: Sequence[float], ys: Sequence[float], marker: str, size: float, fill: str, edge: float) -> None:
        """Draw a sign at each point: a marker of matplotlib, such as "o" or "+"."""
        marks = Line2D(
            xs,
            ys,
            linestyle="none",
            marker=marker,
            markersize=size,
            markeredgecolor=INK,
            markeredgewidth=edge,
            markerfacecolor=fill,
            fillstyle="full",
            antialiased=True,
            zorder=3.5,
        )
        self.axes.add_line(marks)

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
        boxes = PolyCollection(corners, facecolors=fills, edgecolors=edge, linewidths=line, zorder=level)
        self.axes.add_collection(boxes, autolim=False)
