"""A custom Function as two ways past each other: forward with values, backward with gradients, ctx between them."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell, Raster
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ORANGE, SKY, UNUSED

RASTER = Raster(width=140, height=40, gap=40, rows=(70, 148, 226))


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
    canvas = Canvas(RASTER.across(3), 316)
    canvas.title("What passes through a Function")
    canvas.note(RASTER.left(0), RASTER.rows[0] - 16, "apply calls forward, at once")
    canvas.note(RASTER.right(2), RASTER.rows[2] - 16, "the engine calls backward, later", "right")
    canvas.cells([_box(place) for place in PLACES])
    for here, there in ARROWS:
        canvas.arrow(*RASTER.between((here.row, here.column), (there.row, there.column)))
    canvas.legend(288, ((ORANGE, "you write it"), (SKY, "values and gradients"), (UNUSED, "kept")), step=150)
    return Picture(canvas, _in_words())


def _box(place: Place) -> Cell:
    fill = ORANGE if place.yours else UNUSED if place is CTX else SKY
    return RASTER.box(place.row, place.column, place.name, place.below, fill, place.yours)


def _in_words() -> str:
    arrows = "; ".join(f"{here.name} to {there.name}" for here, there in ARROWS)
    told = "; ".join(f"{place.name}: {place.below}" for place in PLACES)
    return f"What passes through a Function. Arrows: {arrows}. {told}. You write forward and backward."
