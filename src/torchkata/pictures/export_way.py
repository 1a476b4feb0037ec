"""The way of a model into an ONNX file, and of the file into a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torchkata.pictures.kit import Canvas, Cell, Raster
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ORANGE, SKY

TOP = 74  # points: the upper edge of the row
RASTER = Raster(width=82, height=40, gap=34, rows=(TOP,))


@dataclass(frozen=True)
class Station:
    """What a model is at one point of the way; how it gets there, and what below, in a few words each."""

    name: str
    second: str
    by: str
    told: tuple[str, str]
    with_torch: bool = True


WAY = (
    Station("your model", "and an example", "", ("Python: branches,", "loops, anything")),
    Station("operators", "of PyTorch", "capture", ("forward ran once,", "without numbers")),
    Station("operators", "of ONNX", "translate", ("graph and weights,", "simplified")),
    Station("file", ".onnx, .onnx.data", "save", ("no Python, no torch,", "no train or eval")),
    Station("session", "of a runtime", "load", ("arrays in,", "arrays out"), with_torch=False),
)


def export_way() -> Picture:
    """Draw the way: five stations, and between them capture, translate, save and load."""
    bottom = TOP + RASTER.height
    canvas = Canvas(RASTER.across(len(WAY)), bottom + 84)
    canvas.title("From a model to a session")
    canvas.cells([_box(number, station) for number, station in enumerate(WAY)])
    for number, station in enumerate(WAY):
        for line, words in enumerate(station.told):
            canvas.note(RASTER.middle(number), bottom + 16 + 14 * line, words, "center")
    for (number, _), (_, after) in pairwise(enumerate(WAY)):
        canvas.note(RASTER.right(number) + RASTER.gap / 2, TOP - 12, after.by, "center")
        canvas.arrow(*RASTER.between((0, number), (0, number + 1)))
    canvas.legend(bottom + 54, ((SKY, "needs PyTorch"), (ORANGE, "needs only a runtime")), step=140)
    return Picture(canvas, _in_words())


def _box(number: int, station: Station) -> Cell:
    fill = SKY if station.with_torch else ORANGE
    return RASTER.box(0, number, station.name, station.second, fill)


def _in_words() -> str:
    told = [
        f"{station.by + ': ' if station.by else ''}{station.name} {station.second} ({' '.join(station.told)})"
        for station in WAY
    ]
    return "How a model becomes a file and runs. " + "; then ".join(told) + ". Only the last needs no PyTorch."
