"""Batch norm on one channel: a batch before and after, and the running statistics step by step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import nan

import torch
from torch import Tensor

from torchkata.pictures.controls import Control, choice, decimal_slider, slider, steps
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell, Plot
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CURVE, FAINT, INK, MARGIN, ORANGE, SKY, SOFT_INK

EPS = 1e-5
LEFT, RIGHT = -12.0, 18.0  # of the axis on which the batch and the output lie
AXIS_AT, AXIS = 76, 510  # points: where the axis begins, and its length
BEFORE, AFTER = 78, 146  # points: the middles of the two strips
PLOTS_AT, HIGH, WIDE = 232, 100, 222
PLOTS = (("running mean", -5, 10), ("running variance", 0, 20))
FEWEST = 10  # forwards that a plot has room for, at least
EARLIER = (5.0, 2.0, 8)  # mean, spread and size of the batches that a layer has seen before
MOST = 20  # forwards that can be made
Stats = tuple[float, float]


def bn_step(x: Tensor, running: Stats, momentum: float, train: bool) -> tuple[Tensor, Stats]:
    """Do what `nn.BatchNorm1d(1)` with weight 1 and bias 0 does to x, of shape (batch,).

    Returns the output and the new running mean and variance. In train mode the output uses the biased variance of the
    batch, while the unbiased one goes into the running variance. ValueError for a single value in train mode.
    """
    if not train:
        return (x - running[0]) / (running[1] + EPS) ** 0.5, running
    if len(x) < 2:
        raise ValueError("Expected more than 1 value per channel when training.")
    mean, variance = x.mean(), x.var(unbiased=False)
    y = (x - mean) / (variance + EPS).sqrt()
    new = (mean.item(), x.var(unbiased=True).item())
    first, second = ((1 - momentum) * old + momentum * value for old, value in zip(running, new, strict=True))
    return y, (first, second)


def batch_of(mean: float, spread: float, size: int) -> Tensor:
    """A batch with exactly this mean and biased standard deviation, spaced like a normal distribution."""
    if size < 2:
        raise ValueError("A batch with a spread has two values or more.")
    places = (torch.arange(size, dtype=torch.float64, device="cpu") + 0.5) / size
    values = torch.special.ndtri(places)
    return (mean + spread * values / values.std(unbiased=False)).float()


def running_stats(x: Tensor, momentum: float, train: bool, earlier: int, forwards: int) -> list[Stats]:
    """The running mean and variance of a new layer, and after each of its forwards.

    The first `earlier` of them are in train mode, with a batch as EARLIER says; then come `forwards` of x in this mode.
    """
    history = [(0.0, 1.0)]
    for batch, training, count in ((batch_of(*EARLIER), True, earlier), (x, train, forwards)):
        for _ in range(count):
            history.append(bn_step(batch, history[-1], momentum, training)[1])
    return history


def draw_batch_norm(x: Tensor, history: Sequence[Stats], momentum: float, train: bool, earlier: int = 0) -> Picture:
    """Draw x and what batch norm makes of it in this mode, and the history of the running statistics.

    history: the running mean and variance before the first forward, after it, and so on. earlier: how many of these
    forwards were those of another batch, as EARLIER says.
    """
    y, _ = bn_step(x, history[-1], momentum, train)
    used = (x.mean().item(), x.var(unbiased=False).item()) if train else history[-1]
    canvas = Canvas(AXIS_AT + AXIS + 40, PLOTS_AT + HIGH + 58)

    canvas.title(f"Batch norm, one channel, {'train' if train else 'eval'} mode")
    canvas.text(MARGIN, 38, _formula(used, train), color=SOFT_INK)
    _draw_strips(canvas, x.tolist(), y.tolist())
    target = (x.mean().item(), x.var(unbiased=True).item())
    for number, (name, low, high) in enumerate(PLOTS):
        lefts = MARGIN + 36 + number * (WIDE + 66)
        values = [stats[number] for stats in history]
        _draw_history(canvas, values, target[number], lefts, (name, low, high), earlier)
    notes = [f"momentum {momentum:g}; the dashed line is the value of this batch (for the variance, the unbiased one)"]
    notes += [f"{_told(earlier)}; the vertical line is where they end"] if earlier else []
    canvas.notes(MARGIN, PLOTS_AT + HIGH + 32, notes)
    return Picture(canvas, _in_words(x, y, used, history, momentum, train, earlier))


def _told(earlier: int) -> str:
    mean, spread, size = EARLIER
    which = "the first forward was" if earlier == 1 else f"the first {earlier} forwards were"
    return f"{which} in train mode, with {size} values of mean {mean:g} and spread {spread:g}"


def _across(value: float) -> float:
    return AXIS_AT + (min(max(value, LEFT), RIGHT) - LEFT) / (RIGHT - LEFT) * AXIS


def _formula(used: Stats, train: bool) -> str:
    whose = "mean and variance of the batch" if train else "the running mean and variance"
    return f"y = (x - {used[0]:.2f}) / sqrt({used[1]:.2f} + eps),  {whose}"


def _draw_strips(canvas: Canvas, before: list[float], after: list[float]) -> None:
    for y, words in ((BEFORE, "batch x"), (AFTER, "output y")):
        canvas.text(AXIS_AT - 10, y, words, align="right", weight="bold")
        canvas.line([AXIS_AT, AXIS_AT + AXIS], [y, y], FAINT)
    ways = [(_across(start), _across(end), nan) for start, end in zip(before, after, strict=True)]
    canvas.line([*chain(*ways)], [BEFORE + 8, AFTER - 8, nan] * len(ways), width=0.6)
    for y, values, fill in ((BEFORE, before, SKY), (AFTER, after, ORANGE)):
        canvas.cells([Cell(_across(value) - 2.5, y - 7, "", fill, width=5, height=14) for value in values])
    for tick in range(int(LEFT), int(RIGHT) + 1, 2):
        canvas.note(_across(tick), AFTER + 20, str(tick), "center")


def _draw_history(
    canvas: Canvas, values: list[float], target: float, left: float, about: tuple[str, int, int], earlier: int
) -> None:
    name, low, high = about
    room = max(FEWEST, len(values) - 1)
    plot = Plot(canvas, left, PLOTS_AT, WIDE, HIGH, low, high)
    canvas.text(left, PLOTS_AT - 14, f"{name}: {values[-1]:.2f}", weight="bold")
    plot.frame()
    for tick in range(low, high + 1, 5):
        plot.tick(tick, str(tick), rule=False)
    across = [left + WIDE * step / room for step in range(len(values))]
    if earlier:
        canvas.line([across[earlier]] * 2, [plot.top, plot.top + HIGH], FAINT, level=2.5)
    plot.curve([left, plot.right], [target, target], INK, 1.2, (0, (5.0, 3.0)))
    plot.curve(across, values, CURVE, 2.4)
    canvas.cells([Cell(across[-1] - 2, plot.down(values[-1]) - 2, "", SKY, width=4, height=4)])
    canvas.note(left, PLOTS_AT + HIGH + 11, "0", "center")
    canvas.note(left + WIDE, PLOTS_AT + HIGH + 11, f"{room} forwards", "right")


def _in_words(
    x: Tensor, y: Tensor, used: Stats, history: Sequence[Stats], momentum: float, train: bool, earlier: int
) -> str:
    mode = "Train" if train else "Eval"
    mean, variance = history[-1]
    return (
        f"{mode} mode, a batch of {len(x)} with mean {x.mean():.2f} and biased variance {x.var(unbiased=False):.2f}. "
        f"{_formula(used, train)}. The output has mean {y.mean() + 0.0:.2f} and variance {y.var(unbiased=False):.2f}; "
        f"it goes from {y.min():.2f} to {y.max():.2f}. After {len(history) - 1} forwards, momentum "
        f"{momentum:g}, the running mean is {mean:.2f}, the running variance {variance:.2f}."
        + f" Of these {_told(earlier)}."
        * bool(earlier)
    ).replace("-0.00", "0.00")


def bn_explorer(steps: int = 0) -> Explorer:
    """Build the explorer: a batch by mean, spread and size, the mode, what the layer has seen, and its forwards.

    steps: forwards in train mode, with a batch as EARLIER says, that the layer has done at the start.
    """

    def draw(state: State) -> Picture:
        x = batch_of(state["batch mean"], state["batch spread"], state["batch size"])
        momentum, train, earlier = state["momentum"], state["mode"] == "train", state["layer"]
        return draw_batch_norm(
            x, running_stats(x, momentum, train, earlier, state["forward"]), momentum, train, earlier
        )

    return Explorer(_controls(steps), ROWS, draw, ahead=AHEAD)


ROWS = (("batch mean", "batch spread"), ("batch size", "momentum"), ("layer", "mode"), ("forward",))
MODES = ("train", "eval")
AHEAD = (
    {"layer": (0, 6), "mode": MODES, "forward": range(MOST + 1)},
    {"layer": [20], "mode": MODES, "forward": (0, 1, 2, 3)},
    {"mode": MODES, "batch mean": range(-5, 11)},
    {"mode": MODES, "batch mean": (-5, 0, 10), "forward": (1, 2, 3, 6)},
    {"mode": MODES, "batch spread": (0.5, 1.0, 3.0)},
    {"mode": MODES, "batch size": (2, 4, 16)},
    {"layer": (0, 6), "momentum": (0.05, 0.2, 0.5, 1.0), "forward": (0, 1, 2, 3)},
)


def _controls(earlier: int) -> dict[str, Control]:
    layers = [(f"{done} forwards done" if done else "new layer", done) for done in sorted({0, 6, 20, earlier})]
    return {
        "batch mean": decimal_slider("batch mean", 5.0, -5.0, 10.0, 0.5),
        "batch spread": decimal_slider("batch spread", 2.0, 0.5, 3.0, 0.25),
        "batch size": slider("batch size", 8, 2, 16),
        "momentum": decimal_slider("momentum", 0.1, 0.05, 1.0, 0.05),
        "layer": choice("layer", layers, earlier, about="what it has seen before this batch", resets={"forward": 0}),
        "mode": choice("mode", MODES, about="of the forwards of this batch"),
        "forward": steps("forward", 0, MOST, back="one back", on="one forward"),
    }
