"""A custom Function as two ways past each other: forward with values, backward with gradients, ctx between them."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, SMALL, UNUSED

WIDTH, HEIGHT, GAP = 140, 40, 40  # points: a box, and between boxes of a row
ROWS = (70, 148, 226)  # the upper edges of the rows


@dataclass(frozen=True)
class Place:
    """A box: its row and column, its name, what is said below it, and whether you write it."""

    row: int
    column: int
    name: str
    below: str
    yours: bool = False


ARGUMENTS = Place(0, 0, "arguments", "tensors, numbers, None")
FORWARD = Place(0, 1, "forward", "recording is off", yours=True)
RESULTS = Place(0, 2, "results", "with the Function's node")
CTX = Place(1, 1, "ctx", "what backward will need")
INCOMING = Place(2, 2, "incoming gradients", "one for each result")
BACKWARD = Place(2, 1, "backward", "must not write into them", yours=True)
OUTGOING = Place(2, 0, "gradients", "one for each argument")
PLACES = (ARGUMENTS, FORWARD, RESULTS, CTX, INCOMING, BACKWARD, OUTGOING)
ARROWS = (
    (ARGUMENTS, FORWARD),
    (FORWARD, RESULTS),
    (FORWARD, CTX),
    (CTX, BACKWARD),
    (INCOMING, BACKWARD),
    (BACKWARD, OUTGOING),
)


def function_contract() -> Picture:
    """Draw what goes in and out of the two methods of a Function."""
    canvas = Canvas(2 * MARGIN + 3 * WIDTH + 2 * GAP, 316)
    canvas.title("What passes through a Function")
    canvas.note(_left(0), ROWS[0] - 16, "apply calls forward, at once")
    canvas.note(_left(2) + WIDTH, ROWS[2] - 16, "the engine calls backward, later", "right")
    canvas.cells([_box(place) for place in PLACES])
    for here, there in ARROWS:
        canvas.arrow(*_between(here, there))
    for number, (fill, words) in enumerate(((ORANGE, "you write it"), (SKY, "values and gradients"), (UNUSED, "kept"))):
        left = MARGIN + 150 * number
        canvas.cells([Cell(left, 288, "", fill, width=16, height=14)])
        canvas.text(left + 22, 295, words, SMALL)
    return Picture(canvas, _in_words())


def _left(column: int) -> float:
    return MARGIN + column * (WIDTH + GAP)


def _box(place: Place) -> Cell:
    fill = ORANGE if place.yours else UNUSED if place is CTX else SKY
    return Cell(_left(place.column), ROWS[place.row], place.name, fill, place.yours, WIDTH, HEIGHT, below=place.below)


def _between(here: Place, there: Place) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where the arrow between two neighbours begins and ends."""
    if here.column == there.column:
        middle = _left(here.column) + WIDTH / 2
        return (middle, ROWS[here.row] + HEIGHT + 3), (middle, ROWS[there.row] - 3)
    middle = ROWS[here.row] + HEIGHT / 2
    right, left = _left(max(here.column, there.column)) - 3, _left(min(here.column, there.column)) + WIDTH + 3
    return ((left, middle), (right, middle)) if here.column < there.column else ((right, middle), (left, middle))


def _in_words() -> str:
    arrows = "; ".join(f"{here.name} to {there.name}" for here, there in ARROWS)
    told = "; ".join(f"{place.name}: {place.below}" for place in PLACES)
    return f"What passes through a Function. Arrows: {arrows}. {told}. You write forward and backward."
