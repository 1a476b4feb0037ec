"""The way of a call through torch.compile: what is done in each call, and what only when no entry of the cache fits."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell, Raster
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, UNUSED

RASTER = Raster(width=118, height=38, gap=48, rows=(62, 150))


@dataclass(frozen=True)
class Station:
    """A station of the way: its name, what happens there in two lines, and its place: row and column."""

    name: str
    does: tuple[str, str]
    place: tuple[int, int]


WAY = (
    Station("call", ("your function,", "with its arguments"), (0, 0)),
    Station("guards", ("does an entry of", "the cache still fit?"), (0, 1)),
    Station("callable", ("runs, with the inputs", "of this call"), (0, 2)),
    Station("graph", ("Python runs once and", "calls are written down"), (1, 1)),
    Station("backend", ("turns the graph", "into a callable"), (1, 2)),
)
ARROWS = (((0, 0), (0, 1)), ((0, 1), (0, 2)), ((0, 1), (1, 1)), ((1, 1), (1, 2)), ((1, 2), (0, 2)))
ALWAYS, ONCE = "in every call", "only if no entry fits"


def compile_way(lit: str = "") -> Picture:
    """Draw the way. lit: the station that is filled (call, guards, callable, graph or backend), or "".

    Raises ValueError for another name.
    """
    names = [station.name for station in WAY]
    if lit and lit not in names:
        raise ValueError(f"lit is one of {', '.join(names)}, or empty; not {lit!r}")
    bottom = RASTER.rows[1] + RASTER.height
    canvas = Canvas(RASTER.across(3), bottom + 74)
    canvas.title("A call of a compiled function" + (f": {lit}" if lit else ""))
    canvas.cells([_box(station, lit) for station in WAY])
    for station in WAY:
        row, column = station.place
        y = (RASTER.rows[0] - 26, bottom + 14)[row]
        for line, words in enumerate(station.does):
            canvas.note(RASTER.middle(column), y + 13 * line, words, "center")
    for here, there in ARROWS:
        canvas.arrow(*RASTER.between(here, there))
    between = (RASTER.rows[0] + RASTER.height + RASTER.rows[1]) / 2
    canvas.note(RASTER.right(1) + RASTER.gap / 2, RASTER.rows[0] + 8, "yes", "center")
    canvas.note(RASTER.middle(1) + 8, between, "no")
    canvas.note(RASTER.middle(2) + 8, between, "a new entry")
    canvas.legend(bottom + 54, ((SKY, ALWAYS), (ORANGE, ONCE)), step=140)
    return Picture(canvas, _in_words(lit))


def _box(station: Station, lit: str) -> Cell:
    fill = SKY if station.place[0] == 0 else ORANGE
    if lit and station.name != lit:
        fill = UNUSED
    return RASTER.box(*station.place, station.name, fill=fill, marked=station.name == lit)


def _in_words(lit: str) -> str:
    told = {row: "; ".join(f"{one.name}: {' '.join(one.does)}" for one in WAY if one.place[0] == row) for row in (0, 1)}
    words = f"A call of a compiled function. {ALWAYS[0].upper()}{ALWAYS[1:]}: {told[0]}. {ONCE[0].upper()}{ONCE[1:]}: "
    return f"{words}{told[1]}, which becomes a new entry." + (f" Marked: {lit}." if lit else "")


def ring_of_kernels() -> Picture:
    """Draw why a result with two readers ends its kernel: exp is read by matmul, and both of them by add."""
    raster = Raster(width=96, height=38, gap=52, rows=(46, 122))
    bottom = raster.rows[1] + raster.height
    canvas = Canvas(raster.across(3), bottom + 62)
    canvas.title("exp and add can't be one kernel")
    canvas.cells(
        [
            raster.box(0, 0, "exp", "elementwise", SKY, marked=True),
            raster.box(1, 1, "matmul", "not elementwise", UNUSED),
            raster.box(0, 2, "add", "elementwise", SKY, marked=True),
        ]
    )
    canvas.arrow(*raster.between((0, 0), (0, 2)))
    middle, upper, lower = raster.middle(1), raster.rows[0] + raster.height, raster.rows[1]
    canvas.arrow((raster.middle(0), upper + 4), (middle - 24, lower - 4))
    canvas.arrow((middle + 24, lower - 4), (raster.middle(2), upper + 4))
    lines = (
        "matmul needs the result of exp, so it must come after the kernel that has exp.",
        "add needs the result of matmul, so it must come before that kernel ends.",
    )
    canvas.notes(MARGIN, bottom + 22, lines)
    words = "exp is read by matmul and by add, and add also reads matmul. "
    return Picture(canvas, f"exp and add can't be one kernel: {words}{' '.join(lines)}")
