"""What every picture must keep: words beside the SVG, legible letters, nothing cut off, covered or off the card."""

from __future__ import annotations

import base64
import html
import re
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox

from torchkata.pictures.show import Explorer, Picture

Box = tuple[float, float, float, float]


def check_svg(picture: Picture) -> None:
    """One SVG element, the same at any time, with words of one line and letters of ten pixels or more."""
    assert picture.svg.startswith("<svg") and picture.svg.rstrip().endswith("</svg>")
    assert "dc:date" not in picture.svg
    assert len(picture.alt) > 30 and "\n" not in picture.alt
    points = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", picture.svg)]
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


def shown(explorer: Explorer) -> str:
    """The SVG that is in the explorer's image now; its words must be there too."""
    image = explorer.image.value
    assert f'alt="{html.escape(explorer.alt)}"' in image
    assert explorer.words.value == html.escape(explorer.alt)
    return base64.b64decode(re.search(r"base64,([^\"]+)", image).group(1)).decode()
