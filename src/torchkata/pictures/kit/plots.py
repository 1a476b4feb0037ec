"""A frame with an axis, for curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchkata.pictures.kit.canvas import Canvas, Dashes
from torchkata.pictures.kit.cells import Cell
from torchkata.pictures.style import BLANK, RULE


@dataclass(frozen=True)
class Plot:
    """A frame on a canvas; y goes from `low` at its lower edge to `high` at its upper one."""

    canvas: Canvas
    left: float
    top: float
    width: float
    height: float
    low: float
    high: float

    @property
    def right(self) -> float:
        return self.left + self.width

    def frame(self) -> None:
        """Draw the empty frame."""
        self.canvas.cells([Cell(self.left, self.top, "", BLANK, width=self.width, height=self.height)])

    def down(self, y: float) -> float:
        """Where a value of y stands on the canvas; what is outside of the frame is brought to its edge."""
        return self.top + (self.high - min(max(y, self.low), self.high)) / (self.high - self.low) * self.height

    def tick(self, y: float, name: str, rule: bool = True) -> None:
        """Write a name left of the frame, and draw a thin line through the frame."""
        self.canvas.note(self.left - 6, self.down(y), name, "right")
        if rule:
            self.canvas.line([self.left, self.right], [self.down(y)] * 2, RULE, 0.6, level=2.5)

    def curve(
        self, xs: Sequence[float], ys: Sequence[float], colour: str, width: float, dashes: Dashes = "solid"
    ) -> None:
        """Draw a curve; xs are places on the canvas, ys values."""
        self.canvas.line(xs, [self.down(y) for y in ys], colour, width, dashes=dashes)
