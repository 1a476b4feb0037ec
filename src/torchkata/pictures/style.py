"""The look that all pictures share: fonts, colours by day and in the dark, and sizes in points."""

from __future__ import annotations

FONTS = "DejaVu Sans, Verdana, Arial, Helvetica, sans-serif"
MONOSPACE = "DejaVu Sans Mono, Consolas, Menlo, monospace"

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

# What each colour becomes on a dark page; pictures are drawn by day, and the page gives them these.
DARK = {
    CARD: "#1b1d20",
    EDGE: "#949494",
    INK: "#f2f2f2",
    SOFT_INK: "#c2c2c2",
    ERROR_INK: "#ff9e70",
    CURVE: "#6fbcf0",
    FAINT: "#4a4d52",
    RULE: "#3f4247",
    SKY: "#1d5b84",
    ORANGE: "#80560a",
    GREEN: "#1d6b53",
    PURPLE: "#7a3f60",
    YELLOW: "#6a6210",
    BLANK: "#282b2f",
    UNUSED: "#44474c",
}

TITLE, TEXT, SMALL = 11, 9, 8.25  # font sizes in points; 8.25 points are 11 pixels on screen
CELL = 24
GAP = 14  # between the matrices of a tensor with more than two dimensions
MARGIN: float = 12


def recolouring() -> str:
    """CSS by which each colour of a drawing becomes what a variable says: --tk-0 for the first of DARK, and so on."""
    return "".join(
        f'[{what}="{colour}"]{{{what}:var(--tk-{number},{colour})}}'
        for number, colour in enumerate(DARK)
        for what in ("fill", "stroke")
    )


def dark_colours() -> str:
    """CSS that sets these variables to the colours of a dark page."""
    return ";".join(f"--tk-{number}:{other}" for number, other in enumerate(DARK.values()))
