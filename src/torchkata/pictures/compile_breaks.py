"""The lines of a function with the graph that each of them stands in."""

from __future__ import annotations

from torchkata.instruments.break_map import OFFENDERS, break_map
from torchkata.pictures.controls import choice, switch
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ERROR_INK, FILLS, MARGIN

WIDTH, TOP, ROW, BOX, MOST_LINES = 470, 74, 24, 66, 8


def draw_breaks(offender: str, in_loop: bool, fullgraph: bool) -> Picture:
    """Draw a function with one of the OFFENDERS in it, with a box for each line that stands in a graph."""
    found = break_map(offender, in_loop, fullgraph)
    count = f"{found.graphs} graph{'s' * (found.graphs != 1)}"
    canvas = Canvas(WIDTH, TOP + MOST_LINES * ROW + MARGIN)
    canvas.title(count if not found.error else "An error, because the function can't be captured whole")
    if found.error:
        canvas.text(MARGIN, 48, f"✗ {found.error}", color=ERROR_INK)
    else:
        why = "The whole function is left to Python." if not found.graphs else "Lines without a box are left to Python."
        canvas.note(MARGIN, 48, why)
    for number, (line, graph) in enumerate(found.lines):
        y = TOP + number * ROW
        if graph is not None:
            fill = FILLS[graph % len(FILLS)]
            canvas.cells([Cell(MARGIN, y, f"graph {graph + 1}", fill, width=BOX, height=ROW - 4)])
        canvas.text(MARGIN + BOX + 12, y + (ROW - 4) / 2, line.replace(" ", "\N{NO-BREAK SPACE}"), family="monospace")
    told = "; ".join(f"{line.strip()}: {'Python' if one is None else f'graph {one + 1}'}" for line, one in found.lines)
    return Picture(canvas, f"{found.error or count}. The lines of the function: {told}.")


def breaks_explorer() -> Explorer:
    """Build the explorer: a line that may break, whether it stands in a loop, and fullgraph."""
    controls = {
        "line": choice("a line with", list(OFFENDERS), "print"),
        "loop": switch("in a for loop", False),
        "fullgraph": switch("fullgraph=True", False),
    }
    return Explorer(
        controls,
        [["line"], ["loop", "fullgraph"]],
        lambda state: draw_breaks(state["line"], state["loop"], state["fullgraph"]),
    )
