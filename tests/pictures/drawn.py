"""What every picture must keep: words beside the SVG, legible letters, nothing cut off, covered or off the card.

A file that tests a picture names some of it in a `GALLERY`, and has a class made from `Look`. test_same_bytes.py finds
the galleries by that name.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox

from torchkata.pictures.show import Explorer, Picture

Box = tuple[float, float, float, float]


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
    """The tests of every picture of a gallery; conftest.py runs them for each `name` in it.

    apart: no box stands on another. in_boxes: a text whose middle is in a box is all in it. widest: in points.
    """

    gallery: Gallery
    apart, in_boxes, widest = True, False, 640

    def test_a_picture_is_one_svg_element_with_words(self, name):
        check_svg(self.gallery[name])

    def test_no_text_is_cut_off_or_covered_by_another(self, name):
        figure = self.gallery[name].figure
        texts = check_texts(figure)
        if self.in_boxes:
            check_texts_in_boxes(figure, texts)

    def test_every_box_stands_on_the_card(self, name):
        check_boxes(self.gallery[name].figure, self.apart)

    def test_lines_and_marks_stay_on_the_card(self, name):
        check_lines(self.gallery[name].figure)

    def test_a_card_fits_into_a_page(self, name):
        assert self.gallery[name].figure.get_size_inches()[0] * 72 <= self.widest


def check_svg(picture: Picture) -> None:
    """One SVG element, the same at any time, with words of one line and letters of ten pixels or more."""
    svg = picture.svg
    assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
    assert "dc:date" not in svg
    assert len(picture.alt) > 30 and "\n" not in picture.alt
    points = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    assert points and min(points) * 96 / 72 >= 10


def check_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """No text is cut off or covered by another. Returns the texts with their places in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [(t.get_text(), t.get_window_extent(renderer)) for t in figure.axes[0].texts if t.get_text().strip()]
    for words, box in texts:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, words
    for (one, first), (two, second) in combinations(texts, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= 1 or down <= 3.5, f"{one!r} and {two!r} lie on one another"
    return texts


def check_texts_in_boxes(figure: Figure, texts: Sequence[tuple[str, Bbox]]) -> None:
    """A text whose middle is in a box leaves it on neither side."""
    scale, height = figure.dpi / 72, figure.bbox.y1
    for left, top, right, bottom in boxes_of(figure):
        for words, box in texts:
            middle = (height - (box.y0 + box.y1) / 2) / scale
            centre = (box.x0 + box.x1) / 2 / scale
            if top < middle < bottom and left < centre < right:
                assert box.x0 / scale >= left and box.x1 / scale <= right, f"{words!r} leaves its box"


def boxes_of(figure: Figure) -> list[Box]:
    """The corners of all boxes in points from the upper left: (left, top, right, bottom)."""
    axes = figure.axes[0]
    corners = [path.vertices for cells in axes.collections for path in cells.get_paths()]
    rounded = [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    return [(*points.min(0), *points.max(0)) for points in corners] + [
        (p.get_x(), p.get_y(), p.get_x() + p.get_width(), p.get_y() + p.get_height()) for p in rounded
    ]


def check_boxes(figure: Figure, apart: bool = True) -> None:
    """Every box stands on the card and, where they are to stand apart, none on another."""
    width, height = figure.get_size_inches() * 72
    boxes = boxes_of(figure)
    for left, top, right, bottom in boxes:
        assert left >= 0 and top >= 0 and right <= width and bottom <= height
    for one, two in combinations(boxes, 2) if apart else ():
        assert min(one[2], two[2]) <= max(one[0], two[0]) or min(one[3], two[3]) <= max(one[1], two[1])


def check_lines(figure: Figure) -> None:
    """Every point of a line and every mark lies on the card; nan is where a line is broken."""
    width, height = figure.get_size_inches() * 72
    for line in figure.axes[0].lines:
        for x, y in zip(*line.get_data(), strict=True):
            assert not (x < 0 or x > width or y < 0 or y > height)


def check_controls(explorer: Explorer, rows: Sequence[Sequence[str]] | None = None) -> None:
    """Each control has a description and, where the rows are given, stands in one of them."""
    assert all(control.description for control in explorer.controls.values())
    if rows is not None:
        assert sorted(explorer.controls) == sorted(name for row in rows for name in row)


def check_moves(explorer: Explorer, values: Mapping[str, object]) -> None:
    """Each control has a description, and each of these values changes the picture."""
    check_controls(explorer)
    before = shown(explorer)
    for control, value in values.items():
        explorer.controls[control].value = value
        after = shown(explorer)
        assert after != before, control
        before = after


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


def shown(explorer: Explorer) -> str:
    """The SVG that is in the explorer's image now; its words must be there too."""
    image = explorer.image.value
    assert f'alt="{html.escape(explorer.alt)}"' in image
    assert explorer.words.value == html.escape(explorer.alt)
    return base64.b64decode(re.search(r"base64,([^\"]+)", image).group(1)).decode()
