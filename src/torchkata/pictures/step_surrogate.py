"""A step, and the gradient that is chosen for it: forward curve, gradient curve, and what gradcheck would expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from matplotlib.lines import Line2D
from torch import Tensor
from torch.autograd import Function

from torchkata.pictures.controls import choice, decimal_slider, on_change, slider
from torchkata.pictures.show import Explorer, Picture
from torchkata.pictures.style import BLANK, CURVE, ERROR_INK, INK, MARGIN, RULE, SMALL, SOFT_INK, Canvas, Cell

STEPS = ("sign", "round", "quantise")
SURROGATES = ("identity", "clipped identity", "tanh")
LEFT, RIGHT = -2.0, 2.0
POINTS = 400
FORWARD, GRADIENT = CURVE, ERROR_INK  # both dark on the card; the curves also differ in their dashes and places


def surrogate_curves(
    name: str, surrogate: str, steepness: float, xs: Sequence[float], levels: int = 4
) -> tuple[list[float], list[float], list[float]]:
    """Return forward values, the gradients that backward returns for an incoming 1, and difference quotients at xs.

    name: "sign" (of 0: 1), "round", or "quantise" to `levels` equally spaced values from -1 to 1. surrogate: whose
    derivative backward takes: "identity", "clipped identity" (clamp to -1..1) or "tanh" (of steepness * x).
    Other words, or fewer than 2 levels, raise ValueError.
    """
    step, lent = _step(name, levels), _surrogate(surrogate, steepness)

    class Stepped(Function):
        @staticmethod
        def forward(x):
            return step(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                return torch.autograd.grad(lent(x), x, grad_output)[0]

    with torch.enable_grad():
        x = torch.tensor(xs, dtype=torch.float64, device="cpu", requires_grad=True)
        out = Stepped.apply(x)
        (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
    with torch.no_grad():
        quotient = (step(x + 1e-6) - step(x - 1e-6)) / 2e-6
    return out.tolist(), grad.tolist(), quotient.tolist()


def _step(name: str, levels: int) -> Callable[[Tensor], Tensor]:
    if name == "sign":
        return lambda x: torch.where(x >= 0, 1.0, -1.0).to(x.dtype)
    if name == "round":
        return torch.round
    if name == "quantise" and levels >= 2:
        half = (levels - 1) / 2
        return lambda x: torch.round((x.clamp(-1, 1) + 1) * half) / half - 1
    raise ValueError(f"{name!r} with {levels} levels is none of {', '.join(STEPS)} (quantise: at least 2 levels).")


def _surrogate(name: str, steepness: float) -> Callable[[Tensor], Tensor]:
    if name == "identity":
        return lambda x: x * 1
    if name == "clipped identity":
        return lambda x: x.clamp(-1, 1)
    if name == "tanh":
        return lambda x: torch.tanh(steepness * x)
    raise ValueError(f"{name!r} is none of {', '.join(SURROGATES)}.")


WIDTH, PLOT, HIGH = 536, 360, 130  # of the card; of the two plots
PLOT_AT, UPPER, LOWER = MARGIN + 34, 64, 232


def draw_surrogate(name: str, surrogate: str, steepness: float, levels: int = 4) -> Picture:
    """Draw the step above, and below it the gradient that backward gives and the derivative of the step itself."""
    xs = _places()
    forward, gradient, quotient = surrogate_curves(name, surrogate, steepness, xs, levels)
    lent = _surrogate(surrogate, steepness)(torch.tensor(xs, dtype=torch.float64, device="cpu")).tolist()
    title = _title(name, surrogate, steepness, levels)
    canvas = Canvas(WIDTH, LOWER + HIGH + 52)
    canvas.title(title)

    upper = _Plot(canvas, UPPER, -2.4, 2.4)
    upper.frame("forward", (-2, -1, 0, 1, 2))
    upper.curve(xs, lent, SOFT_INK, (0, (1.0, 2.5)), 1.4)
    for part_x, part_y in _level_parts(xs, forward):
        upper.curve(part_x, part_y, FORWARD, "solid", 2.4)
    top = max(1.3, 1.12 * max(gradient))
    lower = _Plot(canvas, LOWER, -0.16 * top, top)
    lower.frame("gradient that leaves backward when 1 comes in", (0, 1) if top < 4 else (0, 1, round(max(gradient))))
    lower.curve(xs, gradient, GRADIENT, "solid", 2.4)
    lower.curve(xs, quotient, INK, (0, (5.0, 3.0)), 1.4)
    for tick in range(int(LEFT), int(RIGHT) + 1):
        canvas.text(lower.across(tick), LOWER + HIGH + 10, str(tick), SMALL, "center", color=SOFT_INK)
    _legend(canvas, UPPER, [("solid", 2.4, FORWARD, "the step"), ((0, (1.0, 2.5)), 1.4, SOFT_INK, "the surrogate")])
    expected = ((0, (5.0, 3.0)), 1.4, INK, "gradcheck expects")
    _legend(canvas, LOWER, [("solid", 2.4, GRADIENT, "backward"), expected])
    passed = 100 * sum(value > 0.01 for value in gradient) / len(gradient)
    note = f"Between -2 and 2 the gradient is above 0.01 in {passed:.0f} % of the range; its largest value is "
    note += f"{max(gradient):.2f}."
    canvas.text(MARGIN, LOWER + HIGH + 32, note, SMALL, color=SOFT_INK)
    words = f"{title}. Forward takes the values {_listed(forward)}. The gradient that leaves backward is "
    words += f"{_some(xs, gradient)}. The derivative of the step, which gradcheck expects, is 0 there. {note}"
    return Picture(canvas.figure, words)


class _Plot:
    """A frame with room for curves; x goes from LEFT to RIGHT, y from low to high."""

    def __init__(self, canvas: Canvas, top: float, low: float, high: float):
        self.canvas, self.top, self.low, self.high = canvas, top, low, high

    def across(self, x: float) -> float:
        return PLOT_AT + (x - LEFT) / (RIGHT - LEFT) * PLOT

    def down(self, y: float) -> float:
        return self.top + (self.high - y) / (self.high - self.low) * HIGH

    def frame(self, name: str, ticks: Sequence[int]) -> None:
        self.canvas.cells([Cell(PLOT_AT, self.top, "", BLANK, width=PLOT, height=HIGH)])
        self.canvas.text(PLOT_AT, self.top - 12, name, weight="bold")
        for tick in ticks:
            self.canvas.text(PLOT_AT - 6, self.down(tick), str(tick), SMALL, "right", color=SOFT_INK)
            self._line([PLOT_AT, PLOT_AT + PLOT], [self.down(tick)] * 2, RULE, "solid", 0.6, 2.5)

    def curve(self, xs: Sequence[float], ys: Sequence[float], colour: str, dashes, width: float) -> None:
        down = [min(max(self.down(y), self.top), self.top + HIGH) for y in ys]
        self._line([self.across(x) for x in xs], down, colour, dashes, width, 3)

    def _line(self, xs: Sequence[float], ys: Sequence[float], colour: str, dashes, width: float, level: float) -> None:
        _add_line(self.canvas, xs, ys, colour, dashes, width, level)


def _add_line(canvas: Canvas, xs, ys, colour: str, dashes, width: float, level: float) -> None:
    """Draw a line; every setting is said here, so that the learner's own settings don't reach it."""
    caps = {"dash_capstyle": "butt", "solid_capstyle": "butt", "dash_joinstyle": "round", "solid_joinstyle": "round"}
    line = Line2D(xs, ys, color=colour, linewidth=width, linestyle=dashes, marker="none", zorder=level, **caps)
    line.set_antialiased(True)
    canvas.axes.add_line(line)


def _legend(canvas: Canvas, top: float, lines: Sequence[tuple]) -> None:
    for number, (dashes, width, colour, words) in enumerate(lines):
        y = top + 12 + 17 * number
        _add_line(canvas, [PLOT_AT + PLOT + 10, PLOT_AT + PLOT + 30], [y, y], colour, dashes, width, 3)
        canvas.text(PLOT_AT + PLOT + 35, y, words, SMALL)


def _places() -> list[float]:
    """Return places that avoid those where the steps jump."""
    width = (RIGHT - LEFT) / POINTS
    return [round(LEFT + (number + 0.37) * width, 6) for number in range(POINTS)]


def _level_parts(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[list[float], list[float]]]:
    """Cut a curve where it jumps."""
    parts: list[tuple[list[float], list[float]]] = []
    for x, y in zip(xs, ys, strict=True):
        if not parts or parts[-1][1][-1] != y:
            parts.append(([], []))
        parts[-1][0].append(x)
        parts[-1][1].append(y)
    return parts


def _title(name: str, surrogate: str, steepness: float, levels: int) -> str:
    step = f"quantise to {levels} levels" if name == "quantise" else name
    lent = f"tanh({steepness:g} x)" if surrogate == "tanh" else surrogate
    return f"{step}, with the gradient of {lent}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value + 0.0:.4g}" for value in sorted(set(values)))


def _some(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Name the value at a few places."""
    named = []
    for place in (-1.5, -0.5, 0.0, 0.5, 1.5):
        nearest = min(range(len(xs)), key=lambda number: abs(xs[number] - place))
        named.append(f"{ys[nearest]:.2f} near x = {place:g}")
    return ", ".join(named)


def surrogate_explorer() -> Explorer:
    """Build the explorer: which step, how many levels, which surrogate, how steep."""
    controls = _controls()

    def draw() -> Picture:
        return draw_surrogate(
            controls["function"].value,
            controls["surrogate"].value,
            controls["steepness"].value,
            controls["levels"].value,
        )

    explorer = Explorer(controls, ROWS, draw)
    on_change(controls.values(), explorer.refresh)
    return explorer


ROWS = (("function", "levels"), ("surrogate", "steepness"))


def _controls() -> dict:
    return {
        "function": choice("function", STEPS),
        "levels": slider("levels (quantise)", 4, 2, 9, about="how many values quantise has"),
        "surrogate": choice("surrogate", SURROGATES, "tanh"),
        "steepness": decimal_slider("steepness (tanh)", 2.0, 0.5, 8.0, 0.5, about="how steep tanh is at 0"),
    }
