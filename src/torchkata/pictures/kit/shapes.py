"""What a card holds: words, boxes, lines, arrows and signs; each writes itself as one line of SVG.

Places and sizes are in points from the card's upper left corner; y grows downwards. Colours stand as attributes, so
that a page in the dark can give them others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

from torchkata.pictures.style import FONTS, INK, MONOSPACE

Dashes = Literal["solid"] | tuple[float, tuple[float, ...]]  # an offset, then the lengths of dashes and gaps, in widths
Cap = Literal["butt", "projecting", "round"]
Join = Literal["miter", "round", "bevel"]
Point = tuple[float, float]

ANCHORS = {"left": "", "center": "middle", "right": "end"}
FAMILIES = {"sans-serif": FONTS, "monospace": MONOSPACE}
HEAD, HALF_HEAD = 3.6, 1.8  # an arrow's head: its length and half of its width


@dataclass(frozen=True)
class Words:
    """A line of words; y is their middle, `align` says what x is of them: left, center or right.

    came: how far away it stood before, in x and y: a page that moves from another picture to this one shows its way.
    """

    x: float
    y: float
    words: str
    size: float
    align: str
    color: str = INK
    weight: str = "normal"
    family: str = "sans-serif"
    level: float = 4
    came: Point | None = None

    def svg(self) -> str:
        look = _given(
            ("text-anchor", ANCHORS[self.align]),
            ("font-weight", self.weight if self.weight != "normal" else ""),
            ("font-family", FAMILIES[self.family] if self.family != "sans-serif" else ""),
            ("data-from", _way(self.came)),
        )
        place = f'x="{number(self.x)}" y="{number(self.y + 0.36 * self.size)}"'
        return f'<text {place} font-size="{number(self.size)}" fill="{self.color}"{look}>{escape(self.words)}</text>'


@dataclass(frozen=True)
class Box:
    """A box; `radius` rounds its corners; `came` as in Words."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    edge: str
    line: float
    level: float
    radius: float = 0
    came: Point | None = None

    def svg(self) -> str:
        corners = _given(("rx", number(self.radius) if self.radius else ""), ("data-from", _way(self.came)))
        return (
            f'<rect x="{number(self.x)}" y="{number(self.y)}" width="{number(self.width)}" '
            f'height="{number(self.height)}"{corners} fill="{self.fill}" stroke="{self.edge}" '
            f'stroke-width="{number(self.line)}"/>'
        )


@dataclass(frozen=True)
class Line:
    """A line through points; nan breaks it."""

    xs: Sequence[float]
    ys: Sequence[float]
    colour: str
    width: float
    level: float
    dashes: Dashes = "solid"
    cap: Cap = "butt"
    join: Join = "round"

    def svg(self) -> str:
        look = _given(
            ("stroke-dasharray", self._dash_lengths()),
            ("stroke-linecap", {"butt": "", "projecting": "square", "round": "round"}[self.cap]),
            ("stroke-linejoin", "" if self.join == "miter" else self.join),
        )
        path = " ".join(_path(run) for run in _runs(self.xs, self.ys))
        return f'<path d="{path}" fill="none" stroke="{self.colour}" stroke-width="{number(self.width)}"{look}/>'

    def _dash_lengths(self) -> str:
        if self.dashes == "solid":
            return ""
        return " ".join(number(length * self.width) for length in self.dashes[1])


@dataclass(frozen=True)
class Arrow:
    """A straight arrow with a filled head."""

    start: Point
    end: Point
    colour: str
    level: float = 1

    def svg(self) -> str:
        (x, y), (to_x, to_y) = self.start, self.end
        length = math.hypot(to_x - x, to_y - y) or 1
        along, across = (to_x - x) / length, (to_y - y) / length
        base = to_x - HEAD * along, to_y - HEAD * across
        wings = [(base[0] - side * HALF_HEAD * across, base[1] + side * HALF_HEAD * along) for side in (1, -1)]
        head = _path([wings[0], self.end, wings[1]])
        return (
            f'<path d="{_path([self.start, base])} {head}Z" fill="{self.colour}" stroke="{self.colour}" '
            'stroke-width="1"/>'
        )


@dataclass(frozen=True)
class Marks:
    """A sign at each point: "o" a disc, "+" a cross; `size` is its width."""

    xs: Sequence[float]
    ys: Sequence[float]
    marker: Literal["o", "+"]
    size: float
    fill: str
    edge: float
    level: float = 3.5

    def svg(self) -> str:
        signs = "".join(self._sign(x, y) for x, y in zip(self.xs, self.ys, strict=True))
        fill = self.fill if self.marker == "o" else "none"
        return f'<path d="{signs}" fill="{fill}" stroke="{INK}" stroke-width="{number(self.edge)}"/>'

    def _sign(self, x: float, y: float) -> str:
        r = self.size / 2
        if self.marker == "o":
            around = f"{number(r)} {number(r)} 0 1 0"
            return f"M{number(x - r)} {number(y)}a{around} {number(2 * r)} 0a{around} {number(-2 * r)} 0"
        return _path([(x - r, y), (x + r, y)]) + _path([(x, y - r), (x, y + r)])


Shape = Words | Box | Line | Arrow | Marks


def number(value: float, digits: int = 2) -> str:
    """A number as SVG writes it, rounded, without needless zeros."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def _path(points: Sequence[Point]) -> str:
    """Lines from point to point; of points in a row on one straight line only the ends are kept."""
    long = len(points) > 20
    rounded = [(number(x, 1 if long else 2), number(y, 1 if long else 2)) for x, y in points]
    kept: list[tuple[str, str]] = []
    for point in rounded:
        if kept and point == kept[-1]:
            continue
        if len(kept) > 1 and _in_a_row(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    if len(kept) == 1:
        kept *= 2
    if long:
        return "M{} {}".format(*kept[0]) + "".join(_step(start, end) for start, end in pairwise(kept))
    return "M" + "L".join(f"{x} {y}" for x, y in kept)


def _step(start: tuple[str, str], end: tuple[str, str]) -> str:
    """The line from one point to the next, told by how far it goes: many lines of a curve go alike."""
    right, down = (number(float(to) - float(at), 1) for at, to in zip(start, end, strict=True))
    if down == "0":
        return f"h{right}"
    return f"v{down}" if right == "0" else f"l{right} {down}"


def _in_a_row(one: tuple[str, str], two: tuple[str, str], three: tuple[str, str]) -> bool:
    """Whether the second of three points lies between the others on a level or an upright line."""
    for axis in (0, 1):
        if one[axis] == two[axis] == three[axis]:
            a, b, c = (float(point[1 - axis]) for point in (one, two, three))
            return (a - b) * (b - c) > 0
    return False


def _runs(xs: Sequence[float], ys: Sequence[float]) -> list[list[Point]]:
    runs: list[list[Point]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(x) or math.isnan(y):
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if run]


def _way(came: Point | None) -> str:
    return f"{number(came[0])} {number(came[1])}" if came else ""


def _given(*attributes: tuple[str, str]) -> str:
    return "".join(f' {name}="{value}"' for name, value in attributes if value)
