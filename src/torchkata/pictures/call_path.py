"""The way of one operation, x + y, from the line of Python to the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Raster
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, SKY, UNUSED

TOP = 62  # points: the upper edge of the row
RASTER = Raster(width=92, height=38, gap=26, rows=(TOP,))


@dataclass(frozen=True)
class Station:
    """A station of the way: its name, and what happens there in a few words, in two lines."""

    name: str
    does: tuple[str, str]


WAY = (  # in the order in which a call goes through them
    Station("Python", ("x + y becomes", "torch.add(x, y)")),
    Station("dispatcher", ("picks by device,", "layout and modes")),
    Station("autograd", ("records the way", "back to x and y")),
    Station("kernel", ("computes, with a", "loop for the dtype")),
    Station("storage", ("the bytes in", "memory")),
)


def call_path(lit: str = "") -> Picture:
    """Draw the way of x + y. lit: the station that is filled (Python, dispatcher, autograd, kernel or storage), or "".

    Raises ValueError for another name.
    """
    names = [station.name for station in WAY]
    if lit and lit not in names:
        raise ValueError(f"lit is one of {', '.join(names)}, or empty; not {lit!r}")
    bottom = TOP + RASTER.height
    canvas = Canvas(RASTER.across(len(WAY)), bottom + 52)
    canvas.title("The path of x + y" + (f": {lit}" if lit else ""))
    canvas.note(MARGIN, TOP - 20, "one line of Python, and what PyTorch does with it")
    for number, station in enumerate(WAY):
        fill = SKY if station.name == lit else UNUSED
        canvas.cells([RASTER.box(0, number, station.name, fill=fill, marked=station.name == lit)])
    for number, station in enumerate(WAY):
        for line, words in enumerate(station.does):
            canvas.note(RASTER.middle(number), bottom + 16 + 14 * line, words, "center")
        if number:
            canvas.arrow(*RASTER.between((0, number - 1), (0, number)))
    return Picture(canvas, _in_words(lit))


def _in_words(lit: str) -> str:
    stations = "; ".join(f"{station.name}: {' '.join(station.does)}" for station in WAY)
    words = f"The path of x + y through PyTorch, in five stations. {stations}."
    return words + (f" Marked: {lit}." if lit else "")
