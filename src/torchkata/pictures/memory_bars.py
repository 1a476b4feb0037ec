"""What fills the memory of a training step: parameters, gradients, optimizer state, activations, measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.pictures.controls import choice, notched_slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, MARGIN, ORANGE, PURPLE, SKY

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": torch.optim.Adam,
    "SGD with momentum": partial(torch.optim.SGD, momentum=0.9),
    "SGD": torch.optim.SGD,
}
BATCHES = tuple(2**k for k in range(10))
FILLS = {"parameters": SKY, "gradients": ORANGE, "optimizer": GREEN, "activations": PURPLE}
LEFT, LONGEST, BAR, LINE = 92, 330, 22, 32
FULL = 3_800_000  # bytes of the longest bar: all four with Adam at the largest batch


def memory_bars(batch: int, optimizer: str = "Adam") -> dict[str, int]:
    """Run one training step of Linear(256, 512), ReLU, Linear(512, 10) on the CPU and count bytes.

    Returns "parameters", "gradients", "optimizer" (its state after the step) and "activations": the storages that
    autograd keeps for the backward pass, each once, those of parameters left out.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.enable_grad():
        model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).float()
        stepper = OPTIMIZERS[optimizer](model.parameters(), lr=0.01)
        inputs = torch.zeros(batch, 256, dtype=torch.float32)
        labels = torch.zeros(batch, dtype=torch.int64)
        own = {p.untyped_storage().data_ptr() for p in model.parameters()}
        kept = {}

        def note(saved: Tensor) -> Tensor:
            storage = saved.untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = storage.nbytes()
            return saved.detach()  # saved itself may hold the graph that would hold it

        with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
            loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        stepper.step()
    state = (value for entry in stepper.state.values() for value in entry.values())
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
        "optimizer": sum(value.nbytes for value in state if isinstance(value, Tensor)),
        "activations": sum(kept.values()),
    }


def draw_memory(batch: int, optimizer: str = "Adam") -> Picture:
    """Draw one bar for each part, and all four in one; the scale is the same for every batch and optimizer."""
    parts = memory_bars(batch, optimizer)
    top = 58
    all_at = top + len(parts) * LINE + 8
    canvas = Canvas(LEFT + LONGEST + 100, all_at + BAR + 30)

    canvas.title(f"One training step, batch size {batch}, {optimizer}")
    canvas.note(MARGIN, 38, "Linear(256, 512), ReLU, Linear(512, 10); float32; measured on the CPU")
    boxes: list[Cell] = []
    reached: float = LEFT
    for number, (name, size) in enumerate(parts.items()):
        y, width = top + number * LINE, _width(size)
        canvas.text(LEFT - 8, y + BAR / 2, name, align="right")
        canvas.text(LEFT + width + 6, y + BAR / 2, f"{size:,} bytes")
        if size:
            boxes.append(Cell(LEFT, y, "", FILLS[name], width=width, height=BAR))
            boxes.append(Cell(reached, all_at, "", FILLS[name], width=width, height=BAR))
        reached += width
    canvas.cells(boxes)
    canvas.text(LEFT - 8, all_at + BAR / 2, "together", align="right", weight="bold")
    canvas.text(reached + 6, all_at + BAR / 2, f"{sum(parts.values()):,}", weight="bold")
    note = "optimizer: its state after the step. together: the four bars end to end, in the same order."
    canvas.note(MARGIN, all_at + BAR + 16, note)
    return Picture(canvas, _in_words(batch, optimizer, parts))


def memory_explorer(batch: int = 64) -> Explorer:
    """Build the explorer: a slider for the batch size, a list of optimizers."""
    controls = {
        "batch size": notched_slider("batch size", BATCHES, batch),
        "optimizer": choice("optimizer", OPTIMIZERS, "Adam"),
    }
    return Explorer(
        controls, [["batch size", "optimizer"]], lambda state: draw_memory(state["batch size"], state["optimizer"])
    )


def _width(size: int) -> float:
    return LONGEST * size / FULL


def _in_words(batch: int, optimizer: str, parts: dict[str, int]) -> str:
    sizes = ", ".join(f"{name} {size:,} bytes" for name, size in parts.items())
    return (
        f"One training step with batch size {batch} and {optimizer}: {sizes}; together {sum(parts.values()):,} bytes."
    )
