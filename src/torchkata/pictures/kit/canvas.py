"""A card to draw on: words, boxes, arrows and lines, written as SVG.

A `Canvas` counts in points (1/72 inch) from its upper left corner; y grows downwards. The same strokes give the same
text, on every machine and whatever the learner has set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from torchkata.pictures.kit.cells import Cell
from torchkata.pictures.kit.shapes import Arrow, Box, Cap, Dashes, Join, Line, Marks, Point, Shape, Words, number
from torchkata.pictures.style import CARD, CELL, EDGE, FAINT, FONTS, INK, MARGIN, SMALL, SOFT_INK, TEXT, TITLE

__all__ = ["Canvas", "Cap", "Dashes", "Join"]


class Canvas:
    """A card of width x height points to draw on; `shapes` is what was drawn, in the order of drawing."""

    def __init__(self, width: float, height: float):
        self.width, self.height = width, height
        self.shapes: list[Shape] = []

    def svg(self) -> str:
        """Return the card as one <svg> element: a line for each shape, those of a higher level above."""
        w, h = number(self.width), number(self.height)
        card = (
            f'<rect x="0.5" y="0.5" width="{number(self.width - 1)}" height="{number(self.height - 1)}" '
            f'fill="{CARD}" stroke="{FAINT}"/>'
        )
        shapes = [shape.svg() for shape in sorted(self.shapes, key=lambda shape: shape.level)]
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}pt" height="{h}pt" viewBox="0 0 {w} {h}" '
            f'font-family="{FONTS}" xml:space="preserve">'
        )
        return "\n".join([head, card, *shapes, "</svg>"])

    def text(self, x: float, y: float, words: str, size: float = TEXT, align: str = "left", **look: Any) -> None:
        """Write `words`, vertically centred on y; `align` is left, center or right of x.

        look: color, weight ("bold"), family ("monospace"), level, and came (see Words).
        """
        self.shapes.append(Words(x, y, words, size, align, **look))

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
        for row, line in enumerate(lines):
            self.text(x, y + step * row, line, size, **look)

    def legend(self, y: float, fills: Iterable[tuple[str, str]], step: float) -> None:
        """Explain fills beside one another, each with a small box of it and its words. y: the upper edge."""
        for place, (fill, words) in enumerate(fills):
            left = MARGIN + step * place
            self.cells([Cell(left, y, "", fill, width=16, height=14)])
            self.text(left + 22, y + 7, words, SMALL)

    def ruler(self, x: float, y: float, name: str, count: int) -> None:
        """Number the cells of a row that begins at x, with a name before the numbers."""
        self.note(x - 8, y, name, "right")
        for place in range(count):
            self.note(x + (place + 0.5) * CELL, y, str(place), "center")

    def cells(self, cells: Sequence[Cell]) -> None:
        """Draw boxes with their texts; marked ones get a thick outline and stand above the others."""
        for cell in cells:
            edge, line = (INK, 2.4) if cell.marked else (EDGE, 0.8)
            place = (cell.x, cell.y, cell.width, cell.height)
            self.shapes.append(Box(*place, cell.fill, edge, line, 2 + cell.marked, came=cell.came))
        for cell in cells:
            self._write_in(cell)

    def rounded(
        self, x: float, y: float, width: float, height: float, fill: str, edge: str = EDGE, line: float = 1
    ) -> None:
        """Draw a box with round corners and no words in it."""
        self.shapes.append(Box(x, y, width, height, fill, edge, line, 2, radius=14))

    def arrow(self, start: Point, end: Point, colour: str = SOFT_INK) -> None:
        """Draw a straight arrow."""
        self.shapes.append(Arrow(start, end, colour))

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
        self.shapes.append(Line(list(xs), list(ys), colour, width, level, dashes, cap, join))

    def marks(
        self, xs: Sequence[float], ys: Sequence[float], marker: Literal["o", "+"], size: float, fill: str, edge: float
    ) -> None:
        """Draw a sign at each point: "o", a disc, or "+", a cross."""
        self.shapes.append(Marks(list(xs), list(ys), marker, size, fill, edge))

    def _write_in(self, cell: Cell) -> None:
        x, y = cell.x + cell.width / 2, cell.y + cell.height / 2
        look: dict[str, Any] = {"weight": "bold" if cell.marked else "normal", "came": cell.came}
        if cell.below:
            self.text(x, y - 5.5, cell.text, SMALL, "center", **look)
            self.text(x, y + 5.5, cell.below, SMALL, "center", **look)
        elif cell.text:
            self.text(x, y, cell.text, TEXT if len(cell.text) < 4 else SMALL, "center", **look)
