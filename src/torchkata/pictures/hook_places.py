"""One call of one layer, forward and backward, and the places where hooks stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torchkata.pictures.kit import Canvas, Cell, Raster
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY

RASTER = Raster(width=98, height=38, gap=16, rows=(64, 138, 202), clear=2)


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
    canvas = Canvas(RASTER.across(5), 292)
    canvas.title("Where hooks stand")
    forward, backward, weight = RASTER.rows
    canvas.note(MARGIN, forward - 18, "forward, from left to right")
    canvas.note(RASTER.right(4), backward - 18, "backward, from right to left", "right")
    canvas.note(RASTER.right(1), weight + RASTER.height / 2, "and the gradients of parameters:", "right")
    canvas.cells([_box(place) for place in (*FORWARD, *BACKWARD, *WEIGHT)])
    for way in (FORWARD, BACKWARD, WEIGHT):
        for here, there in pairwise(way):
            canvas.arrow(*RASTER.between((here.row, here.column), (there.row, there.column)))
    canvas.arrow(*RASTER.between((1, 2), (2, 2)))
    canvas.legend(264, ((SKY, "the layer and its tensors"), (ORANGE, "hooks: functions of yours")), step=200)
    return Picture(canvas, _in_words())


def _box(place: Place) -> Cell:
    fill = ORANGE if place.hook else SKY
    return RASTER.box(place.row, place.column, place.name, place.below, fill)


def _in_words() -> str:
    ways = ("Forward", FORWARD), ("Backward", BACKWARD), ("Of the weight, from backward on", WEIGHT)
    told = [f"{name}: {', '.join(_told(place) for place in way)}." for name, way in ways]
    return "One call of a layer, and where hooks are attached. " + " ".join(told)


def _told(place: Place) -> str:
    return f"{place.name}, a hook, gets {place.below}" if place.hook else place.name
