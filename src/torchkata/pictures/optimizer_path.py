"""The path that an optimizer takes down a bowl, and whether it arrives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Explorer, Picture
from torchkata.pictures.style import BLANK, ERROR_INK, FAINT, MARGIN, ORANGE, RULE, SMALL
from torchkata.pictures.widgets import choice, decimal_slider, notched_slider, slider

OPTIMIZERS = ("SGD", "Adam", "AdamW")
START, MINIMUM = (-2.0, 2.0), (1.0, 1.0)
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.19, 0.21, 0.3, 0.5, 1.0)

Point = tuple[float, float]


def path(
    opt: str,
    lr: float,
    steps: int,
    start: Point,
    curvature: float,
    momentum: float = 0.0,
    wd: float = 0.0,
    minimum: Point = (0.0, 0.0),
) -> list[Point]:
    """Return the points that an optimizer visits on a bowl, the start first: steps + 1 of them.

    The bowl is ((x - x0)² + curvature · (y - y0)²) / 2 around `minimum`. opt: "SGD", "Adam" or "AdamW", as torch.optim
    has them; momentum is for SGD alone (Adam keeps betas 0.9 and 0.999). Another word raises ValueError.
    """
    if opt not in OPTIMIZERS:
        raise ValueError(f"{opt!r} is none of {', '.join(OPTIMIZERS)}.")
    axes = zip(start, minimum, (1.0, curvature), strict=True)
    return list(zip(*(_along(opt, lr, steps, *axis, momentum, wd) for axis in axes), strict=True))


def _along(
    opt: str, lr: float, steps: int, w: float, lowest: float, curvature: float, momentum: float, wd: float
) -> list[float]:
    """The same for one coordinate: both axes of the bowl are independent."""
    first = second = 0.0
    visited = [w]
    for step in range(1, steps + 1):
        gradient = curvature * (w - lowest)
        if opt == "AdamW":
            w *= 1 - lr * wd
        else:
            gradient += wd * w
        if opt == "SGD":
            first = momentum * first + gradient
            w -= lr * first
        else:
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient * gradient
            root = math.sqrt(second) / math.sqrt(1 - 0.999**step) + 1e-8
            w -= lr / (1 - 0.9**step) * first / root
        visited.append(w)
    return visited


def verdict(points: Sequence[Point], minimum: Point = (0.0, 0.0)) -> str:
    """Say "converges" (the steps have become short), "diverges" (further off, with longer steps) or "not there yet"."""
    first, last = math.dist(points[0], points[1]), math.dist(points[-2], points[-1])
    if math.dist(points[-1], minimum) > math.dist(points[0], minimum) and last > first:
        return "diverges"
    return "converges" if last < 0.05 * first else "not there yet"


UNIT, LEFT, TOP = 46, MARGIN + 4, 62
XS, YS = (-3.0, 2.5), (-1.2, 3.2)  # the part of the plane that is shown
MAP_WIDE, MAP_HIGH = (XS[1] - XS[0]) * UNIT, (YS[1] - YS[0]) * UNIT
CURVE_LEFT, CURVE_WIDE = LEFT + MAP_WIDE + 56, 210
LOW, HIGH = -4, 2  # powers of ten on the axis of the distance
PATH = ERROR_INK


def draw_path(opt: str, lr: float, steps: int, curvature: float, momentum: float, wd: float) -> Picture:
    """Draw the path over contour lines, and the distance to the minimum after each step on a scale of powers of ten."""
    points = path(opt, lr, steps, START, curvature, momentum, wd, MINIMUM)
    word = verdict(points, MINIMUM)
    canvas = Canvas(CURVE_LEFT + CURVE_WIDE + MARGIN, TOP + MAP_HIGH + 50)
    title = f"{_called(opt, lr, momentum, wd)}: {word}"
    canvas.title(title)
    _draw_map(canvas, points, curvature)
    distances = [math.dist(point, MINIMUM) for point in points]
    _draw_distances(canvas, distances)
    end = f"After {steps} steps at ({points[-1][0]:.3g}, {points[-1][1]:.3g}), "
    end += f"distance from the minimum {distances[-1]:.2g}."
    legend = "+ is the minimum (1, 1); the ring is the origin, to which decay pulls."
    canvas.note(MARGIN, TOP + MAP_HIGH + 15, legend)
    canvas.text(MARGIN, TOP + MAP_HIGH + 34, end, SMALL)
    first = [b - a for a, b in zip(*points[:2], strict=True)]
    words = (
        f"{title}. A bowl whose curvature is 1 along x and {curvature:g} along y, with its minimum at (1, 1). The path "
    )
    words += f"starts at (-2, 2); its first step is ({first[0]:.3g}, {first[1]:.3g}). {end}"
    return Picture(canvas, words)


def _called(opt: str, lr: float, momentum: float, wd: float) -> str:
    options = [f"lr {lr:g}"]
    if momentum and opt == "SGD":
        options.append(f"momentum {momentum:g}")
    if wd:
        options.append(f"weight decay {wd:g}")
    return f"{opt}, {', '.join(options)}"


def _place(point: Point) -> Point:
    return LEFT + (point[0] - XS[0]) * UNIT, TOP + (YS[1] - point[1]) * UNIT


def _draw_map(canvas: Canvas, points: Sequence[Point], curvature: float) -> None:
    canvas.text(LEFT, TOP - 12, "the path", weight="bold")
    canvas.cells([Cell(LEFT, TOP, "", BLANK, width=MAP_WIDE, height=MAP_HIGH)])
    for radius in (0.5, 1, 1.75, 2.75, 4, 5.5, 7.5):
        turns = [2 * math.pi * turn / 120 for turn in range(121)]
        ring = [
            (MINIMUM[0] + radius * math.cos(turn), MINIMUM[1] + radius * math.sin(turn) / math.sqrt(curvature))
            for turn in turns
        ]
        _draw_pieces(canvas, ring, FAINT, 0.8, 2.5)
    for place, sign in ((MINIMUM, "+"), ((0.0, 0.0), "o")):
        x, y = _place(place)
        canvas.marks([x], [y], sign, 8, BLANK, 1.4)
    _draw_pieces(canvas, points, PATH, 1.4, 3)
    seen = [_place(point) for point in points if _is_inside(point)]
    canvas.marks([x for x, _ in seen], [y for _, y in seen], "o", 4, ORANGE, 0.8)
    taken = [_place(MINIMUM), _place((0.0, 0.0))]
    for number, point in enumerate(points[:10]):
        x, y = _place(point)
        x, y = x + 8, y - 8
        inside = LEFT + 6 < x < LEFT + MAP_WIDE - 8 and TOP + 6 < y < TOP + MAP_HIGH - 6
        if inside and all(abs(x - a) > 13 or abs(y - b) > 13 for a, b in taken):
            canvas.text(x, y, str(number), SMALL, "center")
            taken.append((x, y))


def _draw_distances(canvas: Canvas, distances: Sequence[float]) -> None:
    canvas.text(CURVE_LEFT, TOP - 12, "distance from the minimum", weight="bold")
    canvas.cells([Cell(CURVE_LEFT, TOP, "", BLANK, width=CURVE_WIDE, height=MAP_HIGH)])

    def down(distance: float) -> float:
        power = min(max(math.log10(max(distance, 1e-12)), LOW), HIGH)
        return TOP + (HIGH - power) / (HIGH - LOW) * MAP_HIGH

    for power in range(LOW, HIGH + 1):
        y = down(10.0**power)
        name = f"{10.0**power:g}" if power > -4 else "0.0001"
        canvas.note(CURVE_LEFT - 5, y, name, "right")
        canvas.line([CURVE_LEFT, CURVE_LEFT + CURVE_WIDE], [y, y], RULE, 0.6, 2.5)
    steps = len(distances) - 1
    across = [CURVE_LEFT + 6 + step / steps * (CURVE_WIDE - 12) for step in range(steps + 1)]
    canvas.line(across, [down(distance) for distance in distances], PATH, 1.4)
    canvas.note(CURVE_LEFT + CURVE_WIDE / 2, TOP + MAP_HIGH + 26, "step", "center")
    for step in sorted({0, steps // 2, steps}):
        canvas.note(across[step], TOP + MAP_HIGH + 10, str(step), "center")


def _is_inside(point: Point) -> bool:
    return XS[0] < point[0] < XS[1] and YS[0] < point[1] < YS[1]


def _draw_pieces(canvas: Canvas, points: Sequence[Point], colour: str, width: float, level: float) -> None:
    """Draw what of the line through the points lies in the map."""
    run: list[Point] = []
    for start, end in pairwise(points):
        piece = _cut(start, end)
        if piece and run and math.dist(run[-1], piece[0]) < 1e-9:
            run.append(piece[1])
            continue
        _draw_run(canvas, run, colour, width, level)
        run = list(piece or [])
    _draw_run(canvas, run, colour, width, level)


def _draw_run(canvas: Canvas, run: Sequence[Point], colour: str, width: float, level: float) -> None:
    if run:
        xs, ys = zip(*map(_place, run), strict=True)
        canvas.line(xs, ys, colour, width, level)


def _cut(start: Point, end: Point) -> tuple[Point, Point] | None:
    """The part of a straight line that lies in the map, or None."""
    enter, leave = 0.0, 1.0
    for a, b, (low, high) in zip(start, end, (XS, YS), strict=True):
        way = b - a
        if way == 0:
            if not low <= a <= high:
                return None
            continue
        near, far = sorted(((low - a) / way, (high - a) / way))
        enter, leave = max(enter, near), min(leave, far)
    if enter >= leave:
        return None
    at = [_between(start, end, share) for share in (enter, leave)]
    return at[0], at[1]


def _between(start: Point, end: Point, share: float) -> Point:
    """A point of a straight line, in the map: rounding counts when the line is a billion times longer than the map."""
    x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
    return min(max(x, XS[0]), XS[1]), min(max(y, YS[0]), YS[1])


def optimizer_explorer() -> Explorer:
    """Build the explorer: optimizer, learning rate, momentum, weight decay, steps, ratio of the curvatures."""
    controls = _controls()

    def draw() -> Picture:
        names = ("optimizer", "lr", "steps", "curvature", "momentum", "weight_decay")
        return draw_path(*(controls[name].value for name in names))

    return Explorer(controls, ROWS, draw).following()


ROWS = (("optimizer", "lr"), ("momentum", "weight_decay"), ("steps", "curvature"))


def _controls() -> dict[str, Any]:
    rates = [(f"{rate:g}", rate) for rate in RATES]
    return {
        "optimizer": choice("optimizer", OPTIMIZERS),
        "lr": notched_slider("lr", rates, 0.19, about="the learning rate"),
        "momentum": decimal_slider("momentum (SGD)", 0.0, 0.0, 0.95, 0.05),
        "weight_decay": decimal_slider("weight decay", 0.0, 0.0, 1.0, 0.1),
        "steps": slider("steps", 30, 1, 60),
        "curvature": slider("curvature ratio c", 10, 1, 20, about="how much steeper the bowl is along y than along x"),
    }
