"""The way of one operation, x + y, from the line of Python to the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, SKY, UNUSED

WIDTH, HEIGHT, GAP, TOP = 92, 38, 26, 62  # points: a box, between two boxes, the upper edge of the row


@dataclass(frozen=True)
class Station:
    """A station of the way: its name, and what happens there in a few words, in two lines."""

    name: str
    does: tuple[str, str]


WAY = (  # in the order in which a call goes through them
    Station("Python", ("x + y becomes", "torch.add(x, y)")),
    Station("dispatcher", ("reads the labels:", "device, dtype")),
    Station("autograd", ("notes how to go", "back to x and y")),
    Station("kernel", ("computes, on", "that device")),
    Station("storage", ("the bytes in", "memory")),
)


def call_path(lit: str = "") -> Picture:
    """Draw the way of x + y. lit: the station that is filled (Python, dispatcher, autograd, kernel or storage), or "".

    Raises ValueError for another name.
    """
    names = [station.name for station in WAY]
    if lit and lit not in names:
        raise ValueError(f"lit is one of {', '.join(names)}, or empty; not {lit!r}")
    canvas = Canvas(2 * MARGIN + len(WAY) * WIDTH + (len(WAY) - 1) * GAP, TOP + HEIGHT + 52)
    canvas.title("The way of x + y" + (f": {lit}" if lit else ""))
    canvas.note(MARGIN, TOP - 20, "one line of Python, and what PyTorch does about it")
    canvas.cells([_box(number, station, station.name == lit) for number, station in enumerate(WAY)])
    for number, station in enumerate(WAY):
        for line, words in enumerate(station.does):
            canvas.note(_left(number) + WIDTH / 2, TOP + HEIGHT + 16 + 14 * line, words, "center")
        if number:
            middle = TOP + HEIGHT / 2
            canvas.arrow((_left(number) - GAP + 3, middle), (_left(number) - 3, middle))
    return Picture(canvas, _in_words(lit))


def _left(number: int) -> float:
    return MARGIN + number * (WIDTH + GAP)


def _box(number: int, station: Station, lit: bool) -> Cell:
    return Cell(_left(number), TOP, station.name, SKY if lit else UNUSED, lit, WIDTH, HEIGHT)


def _in_words(lit: str) -> str:
    stations = "; ".join(f"{station.name}: {' '.join(station.does)}" for station in WAY)
    words = f"The way of x + y through PyTorch, in five stations. {stations}."
    return words + (f" Marked: {lit}." if lit else "")
