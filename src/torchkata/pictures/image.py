"""A card as an image in HTML: its SVG in fewer bytes, with what shapes share written once, and as an address.

What is drawn stays the same, attribute by attribute; that of a group is passed on to the shapes in it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import combinations, groupby
from urllib.parse import quote, unquote

SHAPE = re.compile(r"<(\w+)((?: [\w-]+=\"[^\"]*\")*)(/>|>[^<]*</\w+>)")
ATTRIBUTE = re.compile(r" ([\w-]+)=\"([^\"]*)\"")
RECT = re.compile(r' x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"$')
PASSED_ON = re.compile(r"fill|stroke|stroke-.+|font-.+|text-anchor")  # what shapes take over from the group they are in
ADDRESS, BASE64 = "data:image/svg+xml,", "data:image/svg+xml;base64,"
SOURCE = re.compile(r' src="data:image/svg\+xml(;base64)?,([^"]*)"')
PLAIN = " !$'()*+,/:;<=>?@[]^`{|}"  # what browsers let stand in such an address


def image_html(svg: str, words: str) -> str:
    """Return the SVG as an <img> element with its words as alternative text."""
    return f'<img alt="{escape(words)}" style="max-width: 100%" src="{address(slim(svg))}">'


def svg_in(html: str) -> str:
    """Return the SVG of the <img> element that `image_html` made, or `for_viewers`."""
    data = SOURCE.search(html)
    assert data is not None, "only for a picture"
    text = base64.b64decode(data[2]).decode() if data[1] else unquote(data[2])
    return text.replace("'", '"')


def for_viewers(html: str) -> str:
    """The HTML of a picture with its image as base64: a third longer, but GitHub is known to show that."""
    return SOURCE.sub(f' src="{BASE64}{base64.b64encode(svg_in(html).encode()).decode()}"', html, count=1)


def address(svg: str) -> str:
    """An SVG as the address of an image."""
    text = ADDRESS + quote(svg.replace('"', "'"), safe=PLAIN, encoding="utf-8")
    return re.sub(r"(?:%[89A-F][0-9A-F])+", lambda letters: unquote(letters[0]), text)  # such as × and –


def slim(svg: str) -> str:
    """Return a card in fewer bytes: attributes that shapes share stand at a group."""
    head, card, *shapes, end = svg.split("\n")
    return "".join([head, card, *_grouped([_Shape.read(line) for line in shapes]), end])


@dataclass(frozen=True)
class _Shape:
    name: str
    own: str  # attributes that no group can pass on
    look: tuple[tuple[str, str], ...]
    rest: str

    @staticmethod
    def read(line: str) -> _Shape:
        name, attributes, rest = SHAPE.fullmatch(line).groups()  # type: ignore[union-attr]
        told = [pair for pair in ATTRIBUTE.findall(attributes) if pair[0] != "data-from"]  # which only moves have
        own = "".join(f' {name}="{value}"' for name, value in told if not PASSED_ON.fullmatch(name))
        look = sorted(pair for pair in told if PASSED_ON.fullmatch(pair[0]))
        return _Shape(name, own, tuple(look), rest)

    @property
    def fill(self) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in self.look if pair[0] == "fill")

    @property
    def but_fill(self) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in self.look if pair[0] != "fill")

    @property
    def box(self) -> tuple[str, ...] | None:
        """x, y, width and height of a box with straight corners."""
        place = RECT.fullmatch(self.own) if self.name == "rect" else None
        return place.groups() if place else None

    def bare(self) -> str:
        return f"<{self.name}{self.own}{self.rest}"


def _grouped(shapes: Iterable[_Shape]) -> Iterator[str]:
    """The shapes in their order, but texts of one look, none of which lies on another, brought together."""
    for is_text, run in groupby(shapes, lambda shape: shape.name == "text"):
        together = list(run)
        if is_text:
            looks, fills = [shape.but_fill for shape in together], [shape.fill for shape in together]
            together.sort(key=lambda shape: (looks.index(shape.but_fill), fills.index(shape.fill)))
        for look, alike in groupby(together, lambda shape: shape.but_fill):
            by_fill = groupby(alike, lambda shape: shape.fill)
            yield _in_group(look, [_in_group(fill, list(_drawn(same))) for fill, same in by_fill])


def _drawn(shapes: Iterable[_Shape]) -> Iterator[str]:
    """Shapes of one look without it; boxes that lie beside one another as one path, which is shorter."""
    for is_box, run in groupby(shapes, lambda shape: shape.box is not None):
        if not is_box:
            yield from (shape.bare() for shape in run)
            continue
        boxes = [shape.box for shape in run if shape.box]
        paths = [f"M{x} {y}h{width}v{height}h-{width}z" for x, y, width, height in boxes]
        apart = not any(_overlap(one, two) for one, two in combinations(boxes, 2))
        yield from (f'<path d="{path}"/>' for path in (["".join(paths)] if apart else paths))


def _overlap(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    (x, y, width, height), (left, top, wide, high) = (map(float, box) for box in (one, two))
    return min(x + width, left + wide) - max(x, left) > 0.01 and min(y + height, top + high) - max(y, top) > 0.01


def _in_group(look: tuple[tuple[str, str], ...], parts: list[str]) -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in look)
    if not attributes:
        return "".join(parts)
    if len(parts) == 1:
        return re.sub(r"^<\w+", lambda start: start[0] + attributes, parts[0])
    return f"<g{attributes}>{''.join(parts)}</g>"
