"""What a formula keeps for its backward pass: one box a storage, with its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, MARGIN, ORANGE, SKY, SOFT_INK

WIDEST = 400  # points for the formula that keeps most
NARROWEST = 84  # points for a box, so that its words fit
HEIGHT, LINE, TOP = 34, 72, 62
MADE = "made on the way"
RESULT = "the result"


@dataclass(frozen=True)
class Kept:
    """One storage that is kept: whose it is, its size, and how many saved tensors lie in it."""

    owner: str
    nbytes: int
    tensors: int


def kept_storages(function: Callable[..., Tensor], inputs: Mapping[str, Tensor]) -> tuple[Kept, ...]:
    """Run function(*inputs.values()) and list the storages of the tensors that it saves for backward.

    `owner` is the name of an input, "the result", or "made on the way". What a Function keeps as an attribute of
    its ctx is not seen. A storage counts in full, also where a view of it is saved.
    """
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.detach())  # the tensor itself may hold the graph, which holds what this returns
        return tensor.detach()

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*inputs.values())

    owners = {_storage(result): RESULT} | {_storage(tensor): name for name, tensor in inputs.items()}
    order = list(dict.fromkeys(map(_storage, saved)))
    sizes = {_storage(tensor): tensor.untyped_storage().nbytes() for tensor in saved}
    counts = {storage: sum(_storage(tensor) == storage for tensor in saved) for storage in order}
    return tuple(Kept(owners.get(storage, MADE), sizes[storage], counts[storage]) for storage in order)


def saved_for_backward(formulas: Mapping[str, Callable[..., Tensor]], inputs: Mapping[str, Tensor]) -> Picture:
    """Draw for each formula the storages that it keeps of these inputs, as boxes whose width is their size."""
    kept = {name: kept_storages(function, inputs) for name, function in formulas.items()}
    largest = max((sum(box.nbytes for box in boxes) for boxes in kept.values()), default=0) or 1
    bottom = TOP + len(kept) * LINE - (LINE - HEIGHT)
    sums_at = MARGIN + max(WIDEST, max((len(boxes) for boxes in kept.values()), default=0) * (NARROWEST + 4)) + 14
    canvas = Canvas(sums_at + 130, bottom + 16)

    canvas.title("Kept until the backward pass")
    for row, (name, boxes) in enumerate(kept.items()):
        y = TOP + row * LINE
        canvas.text(MARGIN, y - 10, name, family="monospace")
        canvas.cells(_boxes(boxes, y, largest))
        if not boxes:
            canvas.text(MARGIN, y + HEIGHT / 2, "nothing", color=SOFT_INK)
        canvas.text(sums_at, y + HEIGHT / 2 - 6, f"{_total(boxes)} bytes", weight="bold")
        canvas.note(sums_at, y + HEIGHT / 2 + 7, _counted(boxes))
    return Picture(canvas, f"Kept until the backward pass. {' '.join(map(_in_words, kept, kept.values()))}")


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _boxes(boxes: tuple[Kept, ...], y: float, largest: int) -> list[Cell]:
    cells, x = [], MARGIN
    for box in boxes:
        width = max(WIDEST * box.nbytes / largest - 4, NARROWEST)
        fill = ORANGE if box.owner == MADE else GREEN if box.owner == RESULT else SKY
        times = f", saved {box.tensors}×" if box.tensors > 1 else ""
        cells.append(Cell(x, y, box.owner, fill, width=width, height=HEIGHT, below=f"{box.nbytes} bytes{times}"))
        x += width + 4
    return cells


def _total(boxes: tuple[Kept, ...]) -> int:
    return sum(box.nbytes for box in boxes)


def _counted(boxes: tuple[Kept, ...]) -> str:
    return f"{_number(sum(box.tensors for box in boxes), 'tensor')} in {_number(len(boxes), 'storage')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _in_words(name: str, boxes: tuple[Kept, ...]) -> str:
    parts = "; ".join(
        f"{box.owner}, {box.nbytes} bytes" + (f", saved {box.tensors} times" if box.tensors > 1 else "")
        for box in boxes
    )
    return f"{name} keeps {_total(boxes)} bytes: {_counted(boxes)}{f' ({parts})' if parts else ''}."
