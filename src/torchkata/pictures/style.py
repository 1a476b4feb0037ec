"""The look that all pictures share: the settings of matplotlib, colours, and sizes in points."""

from __future__ import annotations

from typing import Any

RC: dict[Any, Any] = {  # matplotlib's types list every key by name
    "svg.hashsalt": "torchkata",
    "svg.fonttype": "none",
    "svg.image_inline": True,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "text.usetex": False,
    "text.parse_math": False,
    "path.simplify": False,
    "path.sketch": None,
    "path.effects": [],
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "savefig.edgecolor": "auto",
    "savefig.transparent": False,
}

CARD = "#fcfcf9"
EDGE = "#767676"
INK = "#1a1a1a"
SOFT_INK = "#4d4d4d"
ERROR_INK = "#9c2f00"  # also the second curve of a chart
CURVE = "#00598f"  # a blue that stands out as a line, which that of cells does not
FAINT = "#c4c4c4"  # the edge of a card, lines that may be overlooked
RULE = "#d0d0d0"  # the lines behind a curve

# Fills for cells. The hues are those of Okabe and Ito, which people with any colour vision tell apart.
SKY = "#8fcdf0"
ORANGE = "#f2b83d"
GREEN = "#7fd1b5"
PURPLE = "#e0adc8"
YELLOW = "#f4ea80"
BLANK = "#ffffff"
UNUSED = "#e6e6e6"
FILLS = (SKY, ORANGE, GREEN, PURPLE)

TITLE, TEXT, SMALL = 11, 9, 8  # font sizes in points; 8 points are 10.7 pixels on screen
CELL = 24
GAP = 14  # between the matrices of a tensor with more than two dimensions
MARGIN: float = 12
