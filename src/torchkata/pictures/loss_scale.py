"""How the scale of a GradScaler moves when some iterations meet an inf."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence

from torchkata.pictures.controls import Value, choice, decimal_slider, slider
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ERROR_INK, FAINT, INK, MARGIN

LARGEST = 3.4028234663852886e38  # of float32: the scale does not grow beyond it
LEFT, LENGTH, FULL = 46, 520, 150  # points: where the axis begins, how long and how high the picture is
ROWS = (("probability", "growth_interval"), ("growth_factor", "backoff_factor"), ("iterations", "seed"))
AHEAD: tuple[Mapping[str, Iterable[Value]], ...] = (  # what is drawn before it is asked for
    {"probability": (0.0, 0.01, 0.02, 0.05, 0.1, 0.3)},
    {"growth_interval": (1, 2, 5, 10, 20, 50, 100, 200)},
    {"probability": [0.3], "growth_interval": [200]},
    {"growth_factor": (2.0, 4.0, 8.0)},
    {"backoff_factor": (0.5, 0.25, 0.125)},
    {"iterations": (200, 400, 800)},
    {"seed": range(2)},
)


def simulate_scale(
    events: Sequence[bool], init: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
) -> list[float]:
    """Return the scale after each iteration; an event says whether the iteration met an inf."""
    scale, good, scales = init, 0, []
    for event in events:
        good = 0 if event else good + 1
        if event:
            scale *= backoff
        elif good == interval:
            good = 0
            if scale * growth <= LARGEST:
                scale *= growth
        scales.append(scale)
    return scales


def random_events(probability: float, iterations: int, seed: int) -> list[bool]:
    """Return for each iteration whether it meets an inf, each with the same probability."""
    chance = random.Random(seed)
    return [chance.random() < probability for _ in range(iterations)]


def draw_scale(
    events: Sequence[bool], growth: float = 2.0, backoff: float = 0.5, interval: int = 2000, about: str = ""
) -> Picture:
    """Draw the scale over the iterations, in powers of two, with a mark below for each step that was skipped."""
    scales = [65536.0, *simulate_scale(events, 65536.0, growth, backoff, interval)]
    powers = [math.log2(scale) for scale in scales]
    low, high = math.floor(min(powers)) - 1, math.ceil(max(powers)) + 1
    base = 66 + FULL
    canvas = Canvas(LEFT + LENGTH + MARGIN + 12, base + 70)
    skipped = sum(events)

    canvas.title("The scale over the iterations")
    summary = f"skipped: {skipped} of {len(events)} steps; lowest 2^{min(powers):g}, last 2^{powers[-1]:g}"
    canvas.text(MARGIN, 38, summary)

    def y(power: float) -> float:
        return base - (power - low) / (high - low) * FULL

    step = max(1, math.ceil((high - low) / 8))
    for mark in range(low, high + 1, step):
        canvas.line([LEFT, LEFT + LENGTH], [y(mark), y(mark)], FAINT, 0.8, level=1, join="miter")
        canvas.note(LEFT - 6, y(mark), f"2^{mark}", "right")
    xs, ys = [_x(0, events)], [y(powers[0])]
    for iteration, power in enumerate(powers[1:], 1):
        xs += [_x(iteration, events)] * 2
        ys += [ys[-1], y(power)]
    canvas.line(xs, ys, INK, 1.6, join="miter")
    _draw_iterations(canvas, events, base)
    canvas.note(MARGIN, base + 46, "iteration; a short stroke below the axis: a skipped step")
    if about:
        canvas.note(MARGIN, base + 60, about)
    return Picture(canvas, f"The scale over {len(events)} iterations, from 2^16: {summary}. {about}".strip())


def _x(iteration: float, events: Sequence[bool]) -> float:
    return LEFT + iteration / len(events) * LENGTH


def _draw_iterations(canvas: Canvas, events: Sequence[bool], base: float) -> None:
    """Below the axis at `base`: a stroke for each step that was skipped, and the numbers of some iterations."""
    marks = [_x(iteration, events) for iteration, event in enumerate(events, 1) if event]
    canvas.line(
        [place for mark in marks for place in (mark, mark, math.nan)],
        [base + 8, base + 18, math.nan] * len(marks),
        ERROR_INK,
        1.2,
        join="miter",
    )
    for share in range(5):
        iteration = len(events) * share // 4
        canvas.note(_x(iteration, events), base + 28, str(iteration), "center")


def scale_explorer() -> Explorer:
    """Build the simulator: how often an inf comes, and the four settings of the scaler."""
    controls = {
        "probability": decimal_slider(
            "chance of inf", 0.02, 0.0, 0.3, 0.01, about="how likely an inf is in an iteration"
        ),
        "growth_interval": slider("interval", 20, 1, 200, about="growth_interval of the GradScaler"),
        "growth_factor": choice("growth", [2.0, 4.0, 8.0], about="growth_factor of the GradScaler"),
        "backoff_factor": choice("backoff", [0.5, 0.25, 0.125], about="backoff_factor of the GradScaler"),
        "iterations": slider("iterations", 400, 100, 800, 100),
        "seed": slider("seed", 0, 0, 9),
    }

    def draw(state: State) -> Picture:
        events = random_events(state["probability"], state["iterations"], state["seed"])
        about = (
            f"inf with probability {state['probability']:.2f}; growth × {state['growth_factor']:g} after "
            f"{state['growth_interval']} good iterations in a row; backoff × {state['backoff_factor']:g}"
        )
        return draw_scale(events, state["growth_factor"], state["backoff_factor"], state["growth_interval"], about)

    return Explorer(controls, ROWS, draw, ahead=AHEAD)
