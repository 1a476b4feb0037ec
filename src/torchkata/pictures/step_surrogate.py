"""A step, and the gradient that is chosen for it: forward curve, gradient curve, and what gradcheck would expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from torchkata.pictures.controls import choice, decimal_slider, slider
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Plot
from torchkata.pictures.kit.canvas import Dashes
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CURVE, ERROR_INK, INK, MARGIN, SMALL, SOFT_INK

STEPS = ("sign", "round", "quantise")
SURROGATES = ("identity", "clipped identity", "tanh")
LEFT, RIGHT = -2.0, 2.0
POINTS = 400
Curve = tuple[list[float], list[float]]  # places on the card, left to right, and values
Look = tuple[str, float, Dashes]  # colour, width and dashes of a curve; the colours are dark on the card
STEP: Look = (CURVE, 2.4, "solid")
LENT: Look = (SOFT_INK, 1.4, (0, (1.0, 2.5)))
LEAVES: Look = (ERROR_INK, 2.4, "solid")
EXPECTED: Look = (INK, 1.4, (0, (5.0, 3.0)))


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
        def forward(x: Tensor) -> Tensor:
            return step(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
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
    curves = _drawn_curves(
        name, surrogate, steepness if surrogate == "tanh" else 1.0, levels if name == "quantise" else 4
    )
    title = _title(name, surrogate, steepness, levels)
    canvas = Canvas(WIDTH, LOWER + HIGH + 52)
    canvas.title(title)

    upper = _plot(canvas, UPPER, -2.4, 2.4, "forward", (-2, -1, 0, 1, 2))
    _draw(upper, curves.lent, LENT)
    for part in curves.forward:
        _draw(upper, part, STEP)
    ticks = (0, 1) if curves.top < 4 else (0, 1, round(curves.largest))
    lower = _plot(canvas, LOWER, curves.bottom, curves.top, "gradient that leaves backward when 1 comes in", ticks)
    _draw(lower, curves.gradient, LEAVES)
    _draw(lower, curves.quotient, EXPECTED)
    for tick in range(int(LEFT), int(RIGHT) + 1):
        canvas.note(_across(tick), LOWER + HIGH + 10, str(tick), "center")
    _legend(canvas, UPPER, {"the step": STEP, "the surrogate": LENT})
    _legend(canvas, LOWER, {"backward": LEAVES, "gradcheck expects": EXPECTED})
    canvas.note(MARGIN, LOWER + HIGH + 32, curves.note)
    return Picture(canvas, f"{title}. {curves.words} {curves.note}")


@dataclass(frozen=True)
class Curves:
    """What is drawn of a step and a surrogate: curves as places across and values; and what is said of them."""

    forward: list[Curve]
    lent: Curve
    gradient: Curve
    quotient: Curve
    largest: float
    note: str
    words: str

    @property
    def top(self) -> float:
        """Where the axis of the gradients ends."""
        return max(1.3, 1.12 * self.largest)

    @property
    def bottom(self) -> float:
        """Where the axis of the gradients begins."""
        return -0.16 * self.top


@cache
def _drawn_curves(name: str, surrogate: str, steepness: float, levels: int) -> Curves:
    xs = _places()
    across = list(map(_across, xs))
    forward, gradient, quotient = surrogate_curves(name, surrogate, steepness, xs, levels)
    lent = _surrogate(surrogate, steepness)(torch.tensor(xs, dtype=torch.float64, device="cpu")).tolist()
    largest = max(gradient)
    passed = 100 * sum(value > 0.01 for value in gradient) / len(gradient)
    note = f"Between -2 and 2 the gradient is above 0.01 in {passed:.0f} % of the range; its largest value is "
    words = f"Forward takes the values {_listed(forward)}. The gradient that leaves backward is "
    words += f"{_some(xs, gradient)}. The derivative of the step, which gradcheck expects, is 0 there."
    return Curves(
        [_thinned(*part, 0.0) for part in _level_parts(across, forward)],
        _thinned(across, lent, 0.004),
        _thinned(across, gradient, 0.001 * max(1.0, largest)),
        _thinned(across, quotient, 0.0),
        largest,
        f"{note}{largest:.2f}.",
        words,
    )


def _thinned(xs: list[float], ys: list[float], off: float) -> Curve:
    """Keep the ends, and of the points between them those without which a straight line would be off by more."""
    if len(xs) < 3:
        return xs, ys
    slope = (ys[-1] - ys[0]) / (xs[-1] - xs[0])
    away = [abs(y - ys[0] - slope * (x - xs[0])) for x, y in zip(xs, ys, strict=True)]
    middle = away.index(max(away))
    if away[middle] <= off + 1e-9:
        return [xs[0], xs[-1]], [ys[0], ys[-1]]
    left, right = _thinned(xs[: middle + 1], ys[: middle + 1], off), _thinned(xs[middle:], ys[middle:], off)
    return left[0] + right[0][1:], left[1] + right[1][1:]


def _across(x: float) -> float:
    return PLOT_AT + (x - LEFT) / (RIGHT - LEFT) * PLOT


def _plot(canvas: Canvas, top: float, low: float, high: float, name: str, ticks: Sequence[int]) -> Plot:
    """Draw a frame with a heading and ticks."""
    plot = Plot(canvas, PLOT_AT, top, PLOT, HIGH, low, high)
    plot.frame()
    canvas.text(PLOT_AT, top - 12, name, weight="bold")
    for tick in ticks:
        plot.tick(tick, str(tick))
    return plot


def _draw(plot: Plot, curve: Curve, look: Look) -> None:
    across, values = curve
    plot.curve(across, values, *look)


def _legend(canvas: Canvas, top: float, curves: Mapping[str, Look]) -> None:
    for number, (words, (colour, width, dashes)) in enumerate(curves.items()):
        y = top + 12 + 17 * number
        canvas.line([PLOT_AT + PLOT + 10, PLOT_AT + PLOT + 30], [y, y], colour, width, dashes=dashes)
        canvas.text(PLOT_AT + PLOT + 35, y, words, SMALL)


def _places() -> list[float]:
    """Return places that avoid those where the steps jump."""
    width = (RIGHT - LEFT) / POINTS
    return [round(LEFT + (number + 0.37) * width, 6) for number in range(POINTS)]


def _level_parts(xs: Sequence[float], ys: Sequence[float]) -> list[Curve]:
    """Cut a curve where it jumps."""
    parts: list[Curve] = []
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


ROWS = (("function", "levels"), ("surrogate", "steepness"))


def surrogate_explorer() -> Explorer:
    """Build the explorer: which step, how many levels, which surrogate, how steep."""
    controls = {
        "function": choice("function", STEPS),
        "levels": slider("levels (quantise)", 4, 2, 9, about="how many values quantise has"),
        "surrogate": choice("surrogate", SURROGATES, "tanh"),
        "steepness": decimal_slider("steepness (tanh)", 2.0, 0.5, 8.0, 0.5, about="how steep tanh is at 0"),
    }

    def draw(state: State) -> Picture:
        return draw_surrogate(state["function"], state["surrogate"], state["steepness"], state["levels"])

    return Explorer(controls, ROWS, draw)
