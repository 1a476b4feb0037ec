"""Which dtype flows between the layers of a net under autocast, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, MARGIN, SKY, SMALL, SOFT_INK, UNUSED

GAP, LEAST, HEIGHT = 52, 56, 30  # points: between boxes, the least width of a box, its height


@dataclass(frozen=True)
class Stage:
    """A stage of the net: the dtypes of what it gives forward, of the gradient there, of its weights and theirs.

    weight and weight_grad are "" for a stage without parameters.
    """

    node: str
    forward: str
    backward: str
    weight: str = ""
    weight_grad: str = ""


def dtype_trace(net: nn.Sequential, x: Tensor, device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> list[Stage]:
    """Run net and a mean squared error under autocast, and backward outside of it; x is the first, the loss the last.

    The gradients of the parameters are None afterwards.
    """
    x = x.detach().clone().requires_grad_()
    names, values = ["x"], [x]
    gradients: dict[int, torch.dtype] = {}

    def note(name: str, value: Tensor) -> Tensor:
        number = len(values)
        names.append(name)
        values.append(value)
        value.register_hook(lambda gradient: gradients.__setitem__(number, gradient.dtype))
        return value

    with torch.enable_grad(), torch.autocast(device, dtype=dtype):
        value = x
        for layer in net:
            value = note(type(layer).__name__, layer(value))
        note("mse_loss", F.mse_loss(value, torch.zeros_like(value)))
    values[-1].backward()
    gradients[0] = _gradient(x).dtype

    weights = [next(layer.parameters(), None) for layer in net]
    kept = [("", "") if w is None else (_name(w.dtype), _name(_gradient(w).dtype)) for w in [None, *weights, None]]
    net.zero_grad(set_to_none=True)
    return [
        Stage(name, _name(value.dtype), _name(gradients[number]), *kept[number])
        for number, (name, value) in enumerate(zip(names, values, strict=True))
    ]


def dtype_flow(net: nn.Sequential, x: Tensor, device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> Picture:
    """Draw the stages as boxes, with the dtype that goes forward above and that of the gradient below."""
    stages = dtype_trace(net, x, device, dtype)
    widths = [max(LEAST, 5.6 * len(stage.node) + 8) for stage in stages]
    canvas = Canvas(2 * MARGIN + sum(widths) + GAP * (len(stages) - 1), 190)
    canvas.title(f"dtypes under autocast to {_name(dtype)}")
    canvas.text(MARGIN, 38, "above: the output of each stage; below: its gradient in backward", SMALL)

    top, left = 78, float(MARGIN)
    boxes = []
    for number, (stage, width) in enumerate(zip(stages, widths, strict=True)):
        fill = GREEN if stage.node == "mse_loss" else SKY if stage.weight else UNUSED
        boxes.append(Cell(left, top, "", fill, width=width, height=HEIGHT))
        canvas.text(left + width / 2, top + HEIGHT / 2, stage.node, SMALL, "center", weight="bold")
        if stage.weight:
            for line, words in enumerate(("weight", stage.weight, ".grad", stage.weight_grad)):
                look = {"color": SOFT_INK} if line % 2 == 0 else {}
                canvas.text(left + width / 2, top + HEIGHT + 16 + 13 * line, words, SMALL, "center", **look)
        if number + 1 < len(stages):
            start, end = left + width + 4, left + width + GAP - 4
            _label(canvas, (start + end) / 2, top - 3, stage.forward)
            canvas.arrow((start, top + 9), (end, top + 9))
            canvas.arrow((end, top + HEIGHT - 9), (start, top + HEIGHT - 9))
            _label(canvas, (start + end) / 2, top + HEIGHT + 3, stage.backward)
        left += width + GAP
    canvas.cells(boxes)
    last = stages[-1]
    canvas.note(MARGIN, 178, f"the loss is {last.forward}; bold: 16 bits; .grad: the gradient of the weight")
    return Picture(canvas, _in_words(stages, dtype))


def _gradient(x: Tensor) -> Tensor:
    assert x.grad is not None  # backward has been run
    return x.grad


def _label(canvas: Canvas, x: float, y: float, name: str) -> None:
    canvas.text(x, y, name, SMALL, "center", weight="bold" if name.endswith("16") else "normal")


def _name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


def _in_words(stages: list[Stage], dtype: torch.dtype) -> str:
    words = [f"A net under autocast to {_name(dtype)}, stage by stage."]
    for stage in stages:
        weight = f"; weight {stage.weight}, its gradient {stage.weight_grad}" if stage.weight else ""
        words.append(f"{stage.node}: forward {stage.forward}, gradient {stage.backward}{weight}.")
    return " ".join(words)
