"""Which call of a training iteration changes what: found by comparing everything before and after each call."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, MARGIN, ORANGE

WHATS = ("weights", ".grad", "optimizer state", "lr", "buffers")
CALLS = ("zero_grad", "forward", "loss", "backward", "clip_grad_norm_", "optimizer.step", "scheduler.step")

WIDE, HIGH, NAMES = 92, 24, 116  # points: a cell, and room for the names of calls


def effects() -> dict[str, set[str]]:
    """Return for each call of one iteration, in order, which of WHATS it changes.

    The iteration is the second one (so there are gradients to clear) of a linear layer with batch norm in train mode,
    trained by SGD with momentum, with a rate that a scheduler lowers after each step. The state of the random number
    generator is as before.
    """
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.device("cpu"):
        torch.default_generator.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(torch.float32)
        x, y = torch.randn(8, 3, dtype=torch.float32), torch.arange(8) % 2
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        values: dict[str, Tensor] = {}

        def forward() -> None:
            values["logits"] = model(x)

        def loss() -> None:
            values["loss"] = F.cross_entropy(values["logits"], y)

        calls: tuple[Callable[[], object], ...] = (
            optimizer.zero_grad,
            forward,
            loss,
            lambda: values["loss"].backward(),
            lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e-3),
            optimizer.step,
            scheduler.step,
        )
        changed: dict[str, set[str]] = {}
        for _ in range(2):
            for name, call in zip(CALLS, calls, strict=True):
                before = _snapshot(model, optimizer)
                call()
                after = _snapshot(model, optimizer)
                changed[name] = {what for what in WHATS if not _same(before[what], after[what])}
    return changed


def _snapshot(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, list]:
    parameters = list(model.parameters())
    return {
        "weights": [p.detach().clone() for p in parameters],
        ".grad": [None if p.grad is None else p.grad.clone() for p in parameters],
        "optimizer state": [optimizer.state[p].get("momentum_buffer", torch.empty(0)).clone() for p in parameters],
        "lr": [torch.tensor([group["lr"] for group in optimizer.param_groups], dtype=torch.float64)],
        "buffers": [b.clone() for b in model.buffers()],
    }


def _same(before: list, after: list) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(before, after, strict=True)
    )


def loop_effects() -> Picture:
    """Draw the table: a row for each call, a column for each thing that may change."""
    changed = effects()
    left, top = MARGIN + NAMES, 62
    bottom = top + len(changed) * HIGH
    canvas = Canvas(left + len(WHATS) * WIDE + MARGIN, bottom + 34)
    canvas.title("Which call changes what")
    for column, what in enumerate(WHATS):
        canvas.text(left + (column + 0.5) * WIDE, top - 12, what, align="center", weight="bold")
    cells = []
    for row, (call, whats) in enumerate(changed.items()):
        y = top + row * HIGH
        canvas.text(left - 8, y + HIGH / 2, call, align="right")
        for column, what in enumerate(WHATS):
            hit = what in whats
            text, fill = ("changes", ORANGE) if hit else ("", BLANK)
            cells.append(Cell(left + column * WIDE, y, text, fill, width=WIDE, height=HIGH))
    canvas.cells(cells)
    note = "One iteration of SGD with momentum; the model has a batch norm layer and is in train mode."
    canvas.note(MARGIN, bottom + 17, note)
    return Picture(canvas, f"Which call changes what. {_in_words(changed)} {note}")


def _in_words(changed: dict[str, set[str]]) -> str:
    rows = (
        f"{call}: {', '.join(what for what in WHATS if what in whats) or 'none of them'}"
        for call, whats in changed.items()
    )
    return "; ".join(rows) + "."
