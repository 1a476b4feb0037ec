"""Curves of losses that grow while a model is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count

from torchkata.pictures.kit import Canvas, Plot
from torchkata.pictures.kit.canvas import Dashes
from torchkata.pictures.show import Picture, show_growing
from torchkata.pictures.style import CURVE, ERROR_INK, INK, MARGIN, SMALL

WIDE, HIGH = 380, 170
LEFT, TOP = MARGIN + 40, 44
LOOKS: tuple[tuple[str, float, Dashes], ...] = (
    (CURVE, 2.2, "solid"),
    (ERROR_INK, 1.8, (0, (5.0, 2.0))),
    (INK, 1.8, (0, (1.0, 2.0))),
)
NUMBERS = count()


def scale(values: Sequence[float]) -> tuple[float, float]:
    """Return the top of an axis from 0 for these values, and the distance of its marks: 1, 2 or 5 times a power of 10.

    Values that are not finite don't count; without any the top is 1.
    """
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    if largest <= 0:
        return 1.0, 0.5
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(step for step in (0.2 * power, 0.5 * power, power, 2 * power, 5 * power) if largest <= 5 * step)
    return math.ceil(largest / step - 1e-9) * step, step


def draw_losses(losses: Mapping[str, Sequence[float]], epochs: int, unit: str = "epoch", note: str = "") -> Picture:
    """Draw the losses of the epochs (or other units) that are over. The axis has room for all of them;
    a note is written below it.

    A value that is not finite breaks its curve and is named below it.
    """
    done = max((len(values) for values in losses.values()), default=0)
    top, step = scale([value for values in losses.values() for value in values])
    canvas = Canvas(LEFT + WIDE + 110, TOP + HIGH + 46)
    title = f"Loss after {done} of {epochs} {unit}s"
    canvas.title(title)
    plot = Plot(canvas, LEFT, TOP, WIDE, HIGH, 0, top)
    plot.frame()
    for mark in range(round(top / step) + 1):
        plot.tick(mark * step, f"{mark * step:g}")
    for epoch in sorted({1, *range(max(1, math.ceil(epochs / 8)), epochs + 1, max(1, math.ceil(epochs / 8)))}):
        if epoch != 1 or epochs < 16:
            canvas.note(_across(epoch, epochs), TOP + HIGH + 10, str(epoch), "center")
    canvas.note(LEFT + WIDE / 2, TOP + HIGH + 26, unit, "center")
    if note:
        canvas.note(canvas.width - MARGIN, TOP + HIGH + 26, note, "right")

    words = []
    for number, (name, values) in enumerate(losses.items()):
        colour, width, dashes = LOOKS[number % len(LOOKS)]
        y = TOP + 12 + 44 * number
        canvas.line([plot.right + 10, plot.right + 34], [y, y], colour, width, dashes=dashes)
        canvas.text(LEFT + WIDE + 40, y, name, SMALL)
        if values:
            canvas.note(LEFT + WIDE + 40, y + 14, f"now {_number(values[-1])}")
        for xs, ys in _runs(values, epochs):
            plot.curve(xs, ys, colour, width, dashes)
        words.append(_in_words(name, values))
    return Picture(canvas, f"{title}. {' '.join(words)}")


def _across(epoch: int, epochs: int) -> float:
    return LEFT + 8 + (epoch - 1) / max(epochs - 1, 1) * (WIDE - 16)


def _runs(values: Sequence[float], epochs: int) -> list[tuple[list[float], list[float]]]:
    """Cut a curve where a value is not finite; a single point becomes a short dash."""
    runs: list[tuple[list[float], list[float]]] = [([], [])]
    for epoch, value in enumerate(values, 1):
        if math.isfinite(value):
            runs[-1][0].append(_across(epoch, epochs))
            runs[-1][1].append(value)
        elif runs[-1][0]:
            runs.append(([], []))
    return [([xs[0] - 3, *xs], [ys[0], *ys]) if len(xs) == 1 else (xs, ys) for xs, ys in runs if xs]


def _number(value: float) -> str:
    return f"{value:.2g}"


def _in_words(name: str, values: Sequence[float]) -> str:
    if not values:
        return f"{name}: nothing yet."
    finite = [value for value in values if math.isfinite(value)]
    lowest = f", lowest {_number(min(finite))}" if finite else ""
    return f"{name}: first {_number(values[0])}, last {_number(values[-1])}{lowest}."


class LiveCurve:
    """Losses by epoch, drawn anew in one place of the notebook with each `add`; a script prints the words at the end.

    epochs: how many there will be. names: of the curves. unit: what is counted, if not epochs. The text in `note` is
    written below the curves the next time that they are drawn.
    """

    def __init__(self, epochs: int, *names: str, unit: str = "epoch"):
        self.epochs, self.unit, self.note = epochs, unit, ""
        self.losses: dict[str, list[float]] = {name: [] for name in names}
        self._place, self._shown = f"torchkata-loss-curve-{next(NUMBERS)}", False

    def add(self, **losses: float) -> None:
        """Take the losses of one more epoch, one for each name, and draw."""
        if set(losses) != set(self.losses):
            raise ValueError(f"One loss each for {', '.join(self.losses)} is needed; given: {', '.join(losses)}.")
        for name, loss in losses.items():
            self.losses[name].append(float(loss))
        self._draw(last=len(next(iter(self.losses.values()))) >= self.epochs)

    def lowest(self, name: str) -> float:
        """The lowest loss so far."""
        return min(self.losses[name])

    def picture(self) -> Picture:
        return draw_losses(self.losses, self.epochs, self.unit, self.note)

    def _draw(self, last: bool) -> None:
        show_growing(self.picture, self._place, first=not self._shown, last=last)
        self._shown = True
