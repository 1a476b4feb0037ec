"""What the deprecated backward hook reports as grad_input, and what the full one does: in the graph of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CELL, MARGIN, ORANGE, PURPLE, SKY, UNUSED

INDENT, BOX, LINE, COLUMN = 20, 130, 34, 300  # points

LEGEND = (
    "In a box: a tensor or a node, and the shape of the gradient there. Its inputs: below it, a step to the right.",
    "old [1]: grad_input[1] of the old hook. full [0]: grad_input[0] of the full hook.",
)


@dataclass(frozen=True)
class Place:
    """One place of the graph through which a gradient goes, and which hooks report that gradient.

    depth: how many edges from the output. name: of a tensor, or of an autograd node. shape: of the gradient there.
    old, full: its number in the grad_input of the deprecated and of the full hook; None when it is not in it.
    """

    depth: int
    name: str
    shape: tuple[int, ...]
    old: int | None = None
    full: int | None = None


def graph_places(layer: nn.Module, x: Tensor) -> list[Place]:
    """Walk the graph of layer(x) from the output back and note the gradient at each place, as it is really computed."""
    x = x.detach().requires_grad_()
    names = {id(parameter): name for name, parameter in layer.named_parameters()} | {id(x): "x"}
    y = layer(x)
    found: list[tuple[int, str, object]] = []

    def walk(node: Any, depth: int) -> None:
        leaf = getattr(node, "variable", None)
        found.append((depth, node.name() if leaf is None else names[id(leaf)], node))
        for after, _ in node.next_functions:
            if after is not None:
                walk(after, depth + 1)

    walk(y.grad_fn, 0)
    shapes: dict[int, tuple[int, ...]] = {}

    def watch(number: int, node: Any) -> None:
        node.register_prehook(lambda gradients: shapes.update({number: tuple(gradients[0].shape)}))

    for number, (_, _, node) in enumerate(found):
        watch(number, node)
    y.sum().backward()
    inputs = [number for number, (depth, _, _) in enumerate(found) if depth == 1]
    return [
        Place(
            depth,
            name,
            shapes[number],
            inputs.index(number) if number in inputs else None,
            0 if name == "x" else None,
        )
        for number, (depth, name, _) in enumerate(found)
    ]


def old_and_full_hook(size_in: int, size_out: int, batch: int) -> Picture:
    """Draw the graph of a Linear layer for a batch and for one vector, with what each kind of hook reports."""
    columns = {}
    for title, shape in ((f"a batch, input ({batch}, {size_in})", (batch, size_in)), _vector(size_in)):
        layer = nn.utils.skip_init(nn.Linear, size_in, size_out, device="cpu", dtype=torch.float32)
        columns[title] = graph_places(layer, torch.zeros(shape))
    top = 84
    bottom = top + max(map(len, columns.values())) * LINE
    canvas = Canvas(len(columns) * COLUMN + MARGIN, bottom + 40)
    canvas.title(f"Linear({size_in}, {size_out}): gradients on their way back, from the output at the top")
    for number, (title, places) in enumerate(columns.items()):
        left = MARGIN + number * COLUMN
        canvas.text(left, 46, title, weight="bold")
        canvas.note(left, 66, f"the old hook is on the last node, {places[0].name}")
        canvas.cells([_box(place, left, top + row * LINE) for row, place in enumerate(places)])
        for row, place in enumerate(places):
            words = _reported(place)
            x = left + place.depth * INDENT + BOX + 8
            canvas.text(x, top + row * LINE + CELL / 2, words, weight="bold" if words else "normal")
    canvas.notes(MARGIN, bottom + 12, LEGEND, step=13)
    return Picture(canvas, _in_words(columns))


def _vector(size: int) -> tuple[str, tuple[int, ...]]:
    return f"one vector, input ({size},)", (size,)


def _reported(place: Place) -> str:
    words = [f"{kind} [{number}]" for kind, number in (("old", place.old), ("full", place.full)) if number is not None]
    return " and ".join(words)


def _box(place: Place, left: float, y: float) -> Cell:
    old, full = place.old is not None, place.full is not None
    fill = PURPLE if old and full else ORANGE if old else SKY if full else UNUSED
    x = left + place.depth * INDENT
    return Cell(x, y, place.name, fill, marked=place.depth == 0, width=BOX, height=CELL + 4, below=str(place.shape))


def _in_words(columns: dict[str, list[Place]]) -> str:
    words = ["The graph of a Linear layer, from its output back, with the shape of the gradient at each place."]
    for title, places in columns.items():
        listed = []
        for place in places:
            reported = _reported(place)
            listed.append(f"{place.name} {place.shape}" + (f", reported by {reported}" if reported else ""))
        words.append(f"For {title}: {'; '.join(listed)}.")
    return " ".join(words)
