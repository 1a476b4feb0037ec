"""What every picture must keep: words beside the SVG, legible letters, nothing cut off, covered or off the card.

A file that tests a picture names some of it in a `GALLERY`, and has a class made from `Look`. test_same_bytes.py finds
the galleries by that name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from math import isnan
from xml.etree import ElementTree

import torch
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas
from torchkata.pictures.kit.shapes import Box, Line, Marks, Words
from torchkata.pictures.packing import pack, unpack
from torchkata.pictures.show import Picture
from torchkata.pictures.style import DARK

Corners = tuple[float, float, float, float]  # left, top, right, bottom, in points from the upper left
MOST_BYTES = 34_000  # of an explorer's frames, as they stand in a notebook


class Gallery(Mapping[str, Picture]):
    """Pictures by name, each drawn when it is asked for, once."""

    def __init__(self, drawings: Mapping[str, Callable[[], Picture]]):
        self._drawings = dict(drawings)
        self._drawn: dict[str, Picture] = {}

    def __getitem__(self, name: str) -> Picture:
        if name not in self._drawn:
            self._drawn[name] = self._drawings[name]()
        return self._drawn[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._drawings)

    def __len__(self) -> int:
        return len(self._drawings)


class Look:
    """The test of every picture of a gallery; conftest.py runs it for each `name` in it.

    apart: no box stands on another. in_boxes: a text whose middle is in a box is all in it. widest: in points.
    """

    gallery: Gallery
    apart, in_boxes, widest = True, False, 640

    def test_the_picture_keeps_the_rules(self, name):
        assert broken_rules(self.gallery[name], self.apart, self.in_boxes, self.widest) == []


def broken_rules(picture: Picture, apart: bool, in_boxes: bool, widest: float) -> list[str]:
    """Each rule that a picture breaks, with what is wrong."""
    canvas = picture.canvas
    rules = {
        "a picture is one SVG element with words": lambda: check_svg(picture),
        "no text is cut off or covered by another": lambda: check_texts(canvas),
        "a text that is in a box is all in it": lambda: check_texts_in_boxes(canvas) if in_boxes else None,
        "every box stands on the card": lambda: check_boxes(canvas, apart),
        "lines and marks stay on the card": lambda: check_lines(canvas),
        "a card fits into a page": lambda: check_width(canvas, widest),
    }
    broken = []
    for rule, check in rules.items():
        try:
            check()
        except AssertionError as error:
            broken.append(f"{rule}: {error}")
    return broken


def check_svg(picture: Picture) -> None:
    """One SVG element in colours that have one for the dark, words of one line, letters of eleven pixels or more."""
    svg = picture.svg
    assert svg.startswith("<svg") and svg.endswith("</svg>")
    ElementTree.fromstring(svg)
    assert len(picture.alt) > 30 and "\n" not in picture.alt
    points = [float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)]
    assert points and min(points) * 96 / 72 >= 11
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg)) <= {*DARK, "none"}


def texts_of(canvas: Canvas) -> list[tuple[str, Corners]]:
    """The texts with their places."""
    return [
        (shape.words, place_of(shape)) for shape in canvas.shapes if isinstance(shape, Words) if shape.words.strip()
    ]


def check_texts(canvas: Canvas) -> None:
    """No text is cut off or covered by another."""
    texts = texts_of(canvas)
    for words, (left, top, right, bottom) in texts:
        assert left >= 0 and top >= 0 and right <= canvas.width and bottom <= canvas.height, words
    for (one, first), (two, second) in combinations(texts, 2):
        across = min(first[2], second[2]) - max(first[0], second[0])
        down = min(first[3], second[3]) - max(first[1], second[1])
        assert across <= 0.75 or down <= 2.5, f"{one!r} and {two!r} lie on one another"


@cache
def _outline(words: str, size: float, weight: str, family: str) -> Corners:
    """What the words cover when they are written at (0, 0), y upwards, with the space that ends them."""
    font = FontProperties(family=family, weight=weight, size=size)
    width, height, below = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    return 0, -below, width, height - below


def place_of(text: Words) -> Corners:
    """What a text covers on its card."""
    family = {"sans-serif": "DejaVu Sans", "monospace": "DejaVu Sans Mono"}[text.family]
    x0, y0, x1, y1 = _outline(text.words, text.size, text.weight, family)
    left = text.x - {"left": 0, "center": 0.5, "right": 1}[text.align] * (x0 + x1)
    baseline = text.y + 0.36 * text.size
    return left + x0, baseline - y1, left + x1, baseline - y0


def check_texts_in_boxes(canvas: Canvas) -> None:
    """A text whose middle is in a box leaves it on neither side."""
    texts = texts_of(canvas)
    for left, top, right, bottom in boxes_of(canvas):
        for words, (x0, y0, x1, y1) in texts:
            if top < (y0 + y1) / 2 < bottom and left < (x0 + x1) / 2 < right:
                assert x0 >= left and x1 <= right, f"{words!r} leaves its box"


def boxes_of(canvas: Canvas) -> list[Corners]:
    """The corners of all boxes."""
    boxes = [shape for shape in canvas.shapes if isinstance(shape, Box)]
    return [(box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]


def check_boxes(canvas: Canvas, apart: bool = True) -> None:
    """Every box stands on the card and, where they are to stand apart, none on another."""
    boxes = boxes_of(canvas)
    for left, top, right, bottom in boxes:
        assert left >= 0 and top >= 0 and right <= canvas.width and bottom <= canvas.height
    for one, two in combinations(boxes, 2) if apart else ():
        assert min(one[2], two[2]) <= max(one[0], two[0]) or min(one[3], two[3]) <= max(one[1], two[1])


def check_lines(canvas: Canvas) -> None:
    """Every point of a line and every mark lies on the card; nan is where a line is broken."""
    for shape in canvas.shapes:
        if isinstance(shape, Line | Marks):
            for x, y in zip(shape.xs, shape.ys, strict=True):
                assert isnan(x) or isnan(y) or (0 <= x <= canvas.width and 0 <= y <= canvas.height)


def check_width(canvas: Canvas, widest: float) -> None:
    """The card is no wider than a page has room for, in points."""
    assert canvas.width <= widest


class Player:
    """Moves an explorer's controls as a page does; `shown` is the picture of what they say then."""

    def __init__(self, explorer: Explorer):
        self.explorer, self.state = explorer, explorer.start

    @property
    def shown(self) -> Picture:
        return self.explorer.picture(self.state)

    def says(self, name: str) -> object:
        return self.state[name]

    def set(self, name: str, value: object) -> Picture:
        """Move one control."""
        self.state = self.explorer.moved(self.state, name, value)
        return self.shown

    def press(self, name: str, button: str) -> Picture:
        """Press a button of a control that counts steps: "back", "on", "end" or "anew"."""
        control, done = self.explorer.controls[name], self.state[name]
        assert button in control.buttons, f"{name} has no such button"
        last = self.explorer.frame(self.state).limits.get(list(self.explorer.controls).index(name), control.values[-1])
        to = {"back": max(done - 1, 0), "on": min(done + 1, last), "end": last, "anew": 0}[button]
        return self.shown if to == done else self.set(name, to)


def check_explorer(explorer: Explorer) -> None:
    """What every explorer must keep.

    Each control has a label and stands in one row. What is drawn ahead fits into a notebook, opens with the start, and
    each state of it, drawn anew in another order, gives the same bytes; every state can be named by a page.
    """
    check_controls(explorer)
    assert sorted(explorer.controls) == sorted(name for row in explorer.rows for name in row)
    frames = explorer.frames()
    assert next(iter(frames)) == explorer.key(explorer.start)
    packed = pack(frames)
    assert unpack(packed) == frames
    assert len(packed) <= MOST_BYTES, f"{len(frames)} frames take {len(packed)} bytes"
    for key in list(reversed(frames))[:: max(1, len(frames) // 60)]:
        state = explorer.state_of(json.loads(key))
        assert explorer.key(state) == key
        assert explorer.frame(state) == frames[key]


def check_controls(explorer: Explorer) -> None:
    """Each control has a label, or buttons with names."""
    for control in explorer.controls.values():
        assert control.label and (control.kind != "steps" or control.buttons)


@contextmanager
def other_settings() -> Iterator[None]:
    """Settings of torch that a learner may have left on."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), torch.device("meta"):
            yield
    finally:
        torch.set_default_dtype(before)
