"""The way of a model into an ONNX file, and of the file into a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, SMALL

WIDTH, HEIGHT, GAP, TOP = 82, 40, 34, 74  # points: a box, between two boxes, the upper edge of the row


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
    canvas = Canvas(2 * MARGIN + len(WAY) * WIDTH + (len(WAY) - 1) * GAP, TOP + HEIGHT + 84)
    canvas.title("From a model to a file, and on")
    canvas.cells([_box(number, station) for number, station in enumerate(WAY)])
    for number, station in enumerate(WAY):
        for line, words in enumerate(station.told):
            canvas.note(_left(number) + WIDTH / 2, TOP + HEIGHT + 16 + 14 * line, words, "center")
    for (number, _), (_, after) in pairwise(enumerate(WAY)):
        middle, right = TOP + HEIGHT / 2, _left(number) + WIDTH
        canvas.note(right + GAP / 2, TOP - 12, after.by, "center")
        canvas.arrow((right + 3, middle), (right + GAP - 3, middle))
    for number, (fill, words) in enumerate(((SKY, "needs PyTorch"), (ORANGE, "needs a runtime only"))):
        left, low = MARGIN + 140 * number, TOP + HEIGHT + 54
        canvas.cells([Cell(left, low, "", fill, width=16, height=14)])
        canvas.text(left + 22, low + 7, words, SMALL)
    return Picture(canvas, _in_words())


def _left(number: int) -> float:
    return MARGIN + number * (WIDTH + GAP)


def _box(number: int, station: Station) -> Cell:
    fill = SKY if station.with_torch else ORANGE
    return Cell(_left(number), TOP, station.name, fill, False, WIDTH, HEIGHT, below=station.second)


def _in_words() -> str:
    told = [
        f"{station.by + ': ' if station.by else ''}{station.name} {station.second} ({' '.join(station.told)})"
        for station in WAY
    ]
    return "The way of a model into a file, and on. " + "; then ".join(told) + ". Only the last needs no PyTorch."
