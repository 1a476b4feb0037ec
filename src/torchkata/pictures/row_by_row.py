"""A vector times a Jacobian: what backward delivers for a given vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, CELL, GREEN, MARGIN, ORANGE, SKY

WIDE = 34  # points: width of a cell


@dataclass(frozen=True)
class VjpState:
    """The vector, the Jacobian (a row for each output), their product, and the rows that have a share in it."""

    v: tuple[float, ...]
    jacobian: tuple[tuple[float, ...], ...]
    delivered: tuple[float, ...]
    rows: tuple[int, ...]


def vjp_state(jacobian: Sequence[Sequence[float]], v: Sequence[float]) -> VjpState:
    """Multiply v by the Jacobian; ValueError when v has not one number for each row."""
    if len(jacobian) != len(v) or not len(v):
        raise ValueError(f"v needs one number for each of the {len(jacobian)} rows; it has {len(v)}.")
    matrix, vector = torch.tensor(jacobian, dtype=torch.float64), torch.tensor(v, dtype=torch.float64)
    return VjpState(
        tuple(vector.tolist()),
        tuple(map(tuple, matrix.tolist())),
        tuple((vector @ matrix).tolist()),
        tuple(vector.nonzero().flatten().tolist()),
    )


def row_by_row(jacobian: Sequence[Sequence[float]], v: Sequence[float]) -> Picture:
    """Draw v, the Jacobian and the row that backward delivers; rows of J that v weights are outlined."""
    state = vjp_state(jacobian, v)
    m, n = len(state.v), len(state.delivered)
    top = 76
    v_at = MARGIN
    j_at = v_at + m * WIDE + 74
    d_at = j_at + n * WIDE + 40
    canvas = Canvas(max(d_at + n * WIDE + MARGIN, 430), top + m * CELL + 42)
    canvas.title(f"backward with v = {_row(state.v)}")
    middle = top + m * CELL / 2 - CELL / 2
    cells = [
        Cell(v_at + i * WIDE, middle, f"{x:g}", ORANGE if x else BLANK, bool(x), WIDE) for i, x in enumerate(state.v)
    ]
    for i, row in enumerate(state.jacobian):
        used = i in state.rows
        canvas.note(j_at - 6, top + (i + 0.5) * CELL, f"output {i}", "right")
        cells += [
            Cell(j_at + j * WIDE, top + i * CELL, f"{x:g}", SKY if used else BLANK, used, WIDE)
            for j, x in enumerate(row)
        ]
    cells += [Cell(d_at + j * WIDE, middle, f"{x:g}", GREEN, True, WIDE) for j, x in enumerate(state.delivered)]
    canvas.cells(cells)
    canvas.text(v_at, middle - 12, "v", weight="bold")
    canvas.text(j_at, top - 28, "J", weight="bold")
    canvas.text(d_at, middle - 12, "delivered", weight="bold")
    canvas.text(d_at - 20, middle + CELL / 2, "=", align="center", weight="bold")
    for j in range(n):
        canvas.note(j_at + (j + 0.5) * WIDE, top - 12, f"w[{j}]", "center")
    legend = "J: a row for each output, a column for each input. Outlined: rows with a weight other than 0."
    canvas.note(MARGIN, top + m * CELL + 24, legend)
    return Picture(canvas, _in_words(state))


def _row(numbers: Sequence[float]) -> str:
    return "[" + ", ".join(f"{x:g}" for x in numbers) + "]"


def _in_words(state: VjpState) -> str:
    rows = "; ".join(f"row {i}: {_row(row)}" for i, row in enumerate(state.jacobian))
    used = ", ".join(f"{state.v[i]:g} times row {i}" for i in state.rows) or "no row"
    return f"v = {_row(state.v)} times the Jacobian with {rows}. Delivered: {used}, which is {_row(state.delivered)}."
