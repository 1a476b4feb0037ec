"""One training step in mixed precision, as a way around: where numbers are wide and where they are narrow."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, SMALL

WIDTH, HEIGHT, GAP = 100, 40, 22  # points: a box, and between boxes of a row
ROWS = (70, 164)  # the upper edges of the two rows


@dataclass(frozen=True)
class Place:
    """A place on the way: its row and column, its name, what its numbers are, and whether they have 16 bits."""

    row: int
    column: int
    name: str
    numbers: str
    narrow: bool = False


WAY = (  # in the order in which a step goes through them
    Place(0, 0, "weights", "float32"),
    Place(0, 1, "copies", "16 bits", narrow=True),
    Place(0, 2, "products", "16 bits", narrow=True),
    Place(0, 3, "loss", "float32"),
    Place(0, 4, "loss × scale", "float32"),
    Place(1, 4, "backward", "16 bits", narrow=True),
    Place(1, 3, ".grad", "float32, scaled"),
    Place(1, 2, "unscale_", "float32, true"),
    Place(1, 1, "look, clip", "float32, true"),
    Place(1, 0, "optimizer.step", "float32"),
)
PARTS = {
    "autocast": ("copies", "products", "loss"),
    "backward": ("products", "backward", ".grad"),
    "scale": ("loss × scale", "unscale_", "optimizer.step"),
    "between": (".grad", "unscale_", "look, clip"),
}


def places_lit(lit: str) -> tuple[str, ...]:
    """The names of the places that belong to a part of the step; ValueError for an unknown part."""
    if lit and lit not in PARTS:
        raise ValueError(f"lit is one of {', '.join(PARTS)}, or empty; not {lit!r}")
    return PARTS.get(lit, ())


def amp_step(lit: str = "") -> Picture:
    """Draw one training step; lit is "", or the part with thick outlines: autocast, backward, scale or between."""
    thick = places_lit(lit)
    canvas = Canvas(2 * MARGIN + 5 * WIDTH + 4 * GAP, 268)
    canvas.title("One training step in mixed precision" + (f": {lit}" if lit else ""))
    canvas.note(_left(1), ROWS[0] - 22, "the region of autocast: casts, each in front of an operation")
    canvas.line([_left(1), _left(3) + WIDTH], [ROWS[0] - 12] * 2)
    canvas.note(_left(4) + WIDTH, ROWS[1] + HEIGHT + 14, "through the same casts, the other way", "right")
    canvas.cells([_box(place, place.name in thick) for place in WAY])
    for here, there in zip(WAY, WAY[1:] + WAY[:1], strict=True):
        canvas.arrow(*_between(here, there))
    for number, (fill, words) in enumerate(((SKY, "float32: kept, added up"), (ORANGE, "16 bits: multiplied"))):
        left = MARGIN + 180 * number
        canvas.cells([Cell(left, 238, "", fill, width=16, height=14)])
        canvas.text(left + 22, 245, words, SMALL)
    return Picture(canvas, _in_words(lit))


def _left(column: int) -> float:
    return MARGIN + column * (WIDTH + GAP)


def _box(place: Place, marked: bool) -> Cell:
    fill = ORANGE if place.narrow else SKY
    return Cell(_left(place.column), ROWS[place.row], place.name, fill, marked, WIDTH, HEIGHT, below=place.numbers)


def _between(here: Place, there: Place) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where the arrow between two neighbours begins and ends."""
    if here.column == there.column:  # from row to row
        middle = _left(here.column) + WIDTH / 2
        down = (middle, ROWS[0] + HEIGHT + 3), (middle, ROWS[1] - 3)
        return down if here.row == 0 else (down[1], down[0])
    middle = ROWS[here.row] + HEIGHT / 2
    right, left = _left(max(here.column, there.column)) - 3, _left(min(here.column, there.column)) + WIDTH + 3
    return ((left, middle), (right, middle)) if here.column < there.column else ((right, middle), (left, middle))


def _in_words(lit: str) -> str:
    way = "; ".join(f"{place.name}: {place.numbers}" for place in WAY)
    words = f"One training step in mixed precision, as a way around. {way}; and back to the weights."
    words += " Copies, products and loss stand in the region of autocast."
    return words + (f" Marked: {', '.join(places_lit(lit))}." if lit else "")
