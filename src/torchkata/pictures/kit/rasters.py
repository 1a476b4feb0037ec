"""Boxes of one size in rows and columns, and the arrows between them."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit.cells import Cell
from torchkata.pictures.kit.shapes import Point
from torchkata.pictures.style import MARGIN, SKY

CLEAR = 3  # points between a box and an arrow below or above it


@dataclass(frozen=True)
class Raster:
    """Where boxes of one size stand: `gap` between columns, `rows` the upper edges of the rows, `clear` between a box
    and an arrow beside it. All in points."""

    width: float
    height: float
    gap: float
    rows: tuple[float, ...]
    clear: float = CLEAR

    def across(self, columns: int) -> float:
        """How wide a card with so many columns is."""
        return 2 * MARGIN + columns * self.width + (columns - 1) * self.gap

    def left(self, column: int) -> float:
        return MARGIN + column * (self.width + self.gap)

    def right(self, column: int) -> float:
        return self.left(column) + self.width

    def middle(self, column: int) -> float:
        return self.left(column) + self.width / 2

    def box(self, row: int, column: int, text: str, below: str = "", fill: str = SKY, marked: bool = False) -> Cell:
        return Cell(self.left(column), self.rows[row], text, fill, marked, self.width, self.height, below)

    def between(self, here: tuple[int, int], there: tuple[int, int]) -> tuple[Point, Point]:
        """Where the arrow from a box to its neighbour begins and ends; both are given by row and column."""
        (row, column), (row_there, column_there) = here, there
        if column == column_there:
            upper, lower = sorted((row, row_there))
            x = self.middle(column)
            ends = (x, self.rows[upper] + self.height + CLEAR), (x, self.rows[lower] - CLEAR)
            return ends if row == upper else ends[::-1]
        y = self.rows[row] + self.height / 2
        first, last = sorted((column, column_there))
        ends = (self.right(first) + self.clear, y), (self.left(last) - self.clear, y)
        return ends if column == first else ends[::-1]
