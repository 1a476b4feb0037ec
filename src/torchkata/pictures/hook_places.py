"""One call of one layer, forward and backward, and the places where hooks stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, SMALL

WIDTH, HEIGHT, GAP = 98, 38, 16  # points: a box, and between boxes of a row
ROWS = (64, 138, 202)  # the upper edges of the three rows


@dataclass(frozen=True)
class Place:
    """A place on the way: its row and column, its name, and what stands below it (of a hook: what it is given)."""

    row: int
    column: int
    name: str
    below: str = ""
    hook: bool = False


FORWARD = (
    Place(0, 0, "x"),
    Place(0, 1, "forward pre-hook", "(module, args)", hook=True),
    Place(0, 2, "forward", "weight @ x + bias"),
    Place(0, 3, "forward hook", "(module, args, output)", hook=True),
    Place(0, 4, "y"),
)
BACKWARD = (
    Place(1, 4, "gradient of y"),
    Place(1, 3, "backward pre-hook", "(module, grad_output)", hook=True),
    Place(1, 2, "backward", "of the layer"),
    Place(1, 1, "backward hook", "(…, grad_input, …)", hook=True),
    Place(1, 0, "gradient of x"),
)
WEIGHT = (  # goes on from backward
    Place(2, 2, "its weight"),
    Place(2, 3, "tensor hook", "(grad)", hook=True),
    Place(2, 4, "post-accumulate", "(tensor), after .grad", hook=True),
)


def hook_places() -> Picture:
    """Draw the call of a layer and its six kinds of hook."""
    canvas = Canvas(2 * MARGIN + 5 * WIDTH + 4 * GAP, 292)
    canvas.title("Where hooks stand")
    canvas.note(MARGIN, ROWS[0] - 18, "forward, from left to right")
    canvas.note(_left(4) + WIDTH, ROWS[1] - 18, "backward, from right to left", "right")
    canvas.note(_left(1) + WIDTH, ROWS[2] + HEIGHT / 2, "and the gradients of parameters:", "right")
    canvas.cells([_box(place) for place in (*FORWARD, *BACKWARD, *WEIGHT)])
    for way in (FORWARD, BACKWARD, WEIGHT):
        for here, there in pairwise(way):
            canvas.arrow(*_between(here, there))
    middle = _left(2) + WIDTH / 2
    canvas.arrow((middle, ROWS[1] + HEIGHT + 3), (middle, ROWS[2] - 3))
    for number, (fill, words) in enumerate(((SKY, "the layer and its tensors"), (ORANGE, "hooks: functions of yours"))):
        left = MARGIN + 200 * number
        canvas.cells([Cell(left, 264, "", fill, width=16, height=14)])
        canvas.text(left + 22, 271, words, SMALL)
    return Picture(canvas, _in_words())


def _left(column: int) -> float:
    return MARGIN + column * (WIDTH + GAP)


def _box(place: Place) -> Cell:
    fill = ORANGE if place.hook else SKY
    return Cell(_left(place.column), ROWS[place.row], place.name, fill, False, WIDTH, HEIGHT, below=place.below)


def _between(here: Place, there: Place) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where the arrow between two neighbours of a row begins and ends."""
    middle = ROWS[here.row] + HEIGHT / 2
    right, left = _left(max(here.column, there.column)) - 2, _left(min(here.column, there.column)) + WIDTH + 2
    return ((left, middle), (right, middle)) if here.column < there.column else ((right, middle), (left, middle))


def _in_words() -> str:
    ways = ("Forward", FORWARD), ("Backward", BACKWARD), ("Of the weight, from backward on", WEIGHT)
    told = [f"{name}: {', '.join(_told(place) for place in way)}." for name, way in ways]
    return "One call of a layer, and where hooks stand. " + " ".join(told)


def _told(place: Place) -> str:
    return f"{place.name}, a hook, gets {place.below}" if place.hook else place.name
