"""One training step in mixed precision, as a way around: where numbers are wide and where they are narrow."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell, Raster
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ORANGE, SKY

RASTER = Raster(width=100, height=40, gap=22, rows=(70, 164))


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
    Place(1, 1, "inspect, clip", "float32, true"),
    Place(1, 0, "optimizer.step", "float32"),
)
PARTS = {
    "autocast": ("copies", "products", "loss"),
    "backward": ("products", "backward", ".grad"),
    "scale": ("loss × scale", "unscale_", "optimizer.step"),
    "between": (".grad", "unscale_", "inspect, clip"),
}


def places_lit(lit: str) -> tuple[str, ...]:
    """The names of the places that belong to a part of the step; ValueError for an unknown part."""
    if lit and lit not in PARTS:
        raise ValueError(f"lit is one of {', '.join(PARTS)}, or empty; not {lit!r}")
    return PARTS.get(lit, ())


def amp_step(lit: str = "") -> Picture:
    """Draw one training step; lit is "", or the part with thick outlines: autocast, backward, scale or between."""
    thick = places_lit(lit)
    canvas = Canvas(RASTER.across(5), 268)
    canvas.title("One training step in mixed precision" + (f": {lit}" if lit else ""))
    upper, lower = RASTER.rows
    canvas.note(RASTER.left(1), upper - 22, "autocast region: the inputs of each operation are cast")
    canvas.line([RASTER.left(1), RASTER.right(3)], [upper - 12] * 2)
    canvas.note(RASTER.right(4), lower + RASTER.height + 14, "back through the same casts", "right")
    canvas.cells([_box(place, place.name in thick) for place in WAY])
    for here, there in zip(WAY, WAY[1:] + WAY[:1], strict=True):
        canvas.arrow(*RASTER.between((here.row, here.column), (there.row, there.column)))
    canvas.legend(238, ((SKY, "float32: kept, added up"), (ORANGE, "16 bits: multiplied")), step=180)
    return Picture(canvas, _in_words(lit))


def _box(place: Place, marked: bool) -> Cell:
    fill = ORANGE if place.narrow else SKY
    return RASTER.box(place.row, place.column, place.name, place.numbers, fill, marked)


def _in_words(lit: str) -> str:
    way = "; ".join(f"{place.name}: {place.numbers}" for place in WAY)
    words = f"One training step in mixed precision, as a loop. {way}; and back to the weights."
    words += " Copies, products and loss are in the autocast region."
    return words + (f" Marked: {', '.join(places_lit(lit))}." if lit else "")
