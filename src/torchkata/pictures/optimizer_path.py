"""The path that an optimizer takes down a bowl, and whether it arrives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from torchkata.pictures.controls import Control, choice, decimal_slider, notched_slider, slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, ERROR_INK, FAINT, MARGIN, ORANGE, RULE, SMALL

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
RADII = (0.5, 1, 1.75, 2.75, 4, 5.5, 7.5)  # of the contour lines along x
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
    """Where a point of the plane lies on the card, to a tenth of a point."""
    return round(LEFT + (point[0] - XS[0]) * UNIT, 1), round(TOP + (YS[1] - point[1]) * UNIT, 1)


def _draw_map(canvas: Canvas, points: Sequence[Point], curvature: float) -> None:
    canvas.text(LEFT, TOP - 12, "the path", weight="bold")
    canvas.cells([Cell(LEFT, TOP, "", BLANK, width=MAP_WIDE, height=MAP_HIGH)])
    for run in _contours(curvature):
        _draw_run(canvas, run, FAINT, 0.8, 2.5)
    signs: Sequence[tuple[Point, Literal["+", "o"]]] = ((MINIMUM, "+"), ((0.0, 0.0), "o"))
    for place, sign in signs:
        x, y = _place(place)
        canvas.marks([x], [y], sign, 8, BLANK, 1.4)
    for run in _runs(points):
        _draw_run(canvas, run, PATH, 1.4, 3)
    seen = dict.fromkeys(_place(point) for point in points if _is_inside(point))
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


@lru_cache(maxsize=32)
def _contours(curvature: float) -> Sequence[Sequence[Point]]:
    """The contour lines of the bowl, as far as they lie in the map."""
    turns = [2 * math.pi * turn / 60 for turn in range(61)]
    flat, (x, y) = math.sqrt(curvature), MINIMUM
    rings = ([(x + r * math.cos(turn), y + r * math.sin(turn) / flat) for turn in turns] for r in RADII)
    return [run for ring in rings for run in _runs(ring)]


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    """What of the line through the points lies in the map, piece by piece."""
    runs: list[list[Point]] = []
    for start, end in pairwise(points):
        piece = _cut(start, end)
        if piece and runs and math.dist(runs[-1][-1], piece[0]) < 1e-9:
            runs[-1].append(piece[1])
        elif piece:
            runs.append(list(piece))
    return runs


def _draw_run(canvas: Canvas, run: Sequence[Point], colour: str, width: float, level: float) -> None:
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
    names = ("optimizer", "lr", "steps", "curvature", "momentum", "weight decay")
    return Explorer(_controls(), ROWS, lambda state: draw_path(*(state[name] for name in names)), ahead=AHEAD)


ROWS = (("optimizer", "lr"), ("momentum", "weight decay"), ("steps", "curvature"))
AHEAD = (
    {"optimizer": OPTIMIZERS, "lr": RATES},
    {"lr": [0.1], "momentum": (0.25, 0.5, 0.75, 0.9)},
    {"momentum": (0.5, 0.9)},
    {"optimizer": OPTIMIZERS, "lr": (0.1, 0.19), "weight decay": [0.5]},
    {"weight decay": [1.0]},
    {"steps": (1, 5, 10, 60)},
    {"curvature": (5, 20)},
)


def _controls() -> dict[str, Control]:
    steeper = "how much steeper the bowl is along y than along x"
    return {
        "optimizer": choice("optimizer", OPTIMIZERS),
        "lr": notched_slider("lr", RATES, 0.19, about="the learning rate"),
        "momentum": decimal_slider("momentum (SGD)", 0.0, 0.0, 0.95, 0.05),
        "weight decay": decimal_slider("weight decay", 0.0, 0.0, 1.0, 0.1),
        "steps": slider("steps", 30, 1, 60),
        "curvature": slider("curvature c", 10, 1, 20, about=steeper),
    }
