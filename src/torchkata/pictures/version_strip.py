"""A tensor's life in version numbers: which operations kept it, which wrote to it, and what backward finds."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.programs import one_line, run_statement, statements
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, PURPLE, SKY, SMALL, UNUSED

BOX, ROW, END, GAP = 26, 24, 96, 8  # points: height of a box, of a keeper's row, width of the last column, gaps

LEGEND = (
    "A bar is a node that keeps the tensor for backward, with the version that it expects.",
    "Outlined: the tensor has another version by then.",
)


@dataclass(frozen=True)
class Statement:
    """A statement, the version of the watched tensor after it (None: it doesn't exist yet), and whether it wrote."""

    text: str
    version: int | None
    wrote: bool


@dataclass(frozen=True)
class Keeper:
    """A node that kept the watched tensor in statement number `at`, and the version that it expects to find."""

    label: str
    at: int
    expects: int


@dataclass(frozen=True)
class VersionLife:
    """The statements, the nodes that kept the tensor, its version in the end, and what backward says (None: fine)."""

    statements: tuple[Statement, ...]
    keepers: tuple[Keeper, ...]
    version: int
    error: str | None


def version_life(program: str, watch: str) -> VersionLife:
    """Run the program and follow the first tensor that is called `watch`; at the end, run backward from all results.

    ValueError when no statement binds that name to a tensor.
    """
    names: dict[str, object] = {}
    watched: Tensor | None = None
    known: set[Node] = set()
    steps: list[Statement] = []
    keepers: list[Keeper] = []
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, statement in enumerate(statements(program)):
            before = _version(watched)
            run_statement(statement, names)
            if watched is None and isinstance(found := names.get(watch), Tensor):
                watched = found
            after = _version(watched)
            wrote = before is not None and after is not None and after > before
            steps.append(Statement(ast.unparse(statement), after, wrote))
            fresh = _nodes(names) - known
            known |= fresh
            if watched is not None:
                labels = sorted(node.name() for node in fresh if _keeps(node, watched))
                keepers += [Keeper(label, number, watched._version) for label in labels]
        if watched is None:
            raise ValueError(f"no statement binds {watch!r} to a tensor.")
        return VersionLife(tuple(steps), tuple(keepers), watched._version, _backward_error(names))


def _version(x: Tensor | None) -> int | None:
    return None if x is None else x._version


def version_strip(program: str, watch: str) -> Picture:
    """Draw the statements in a row with the tensor's version under each, and below who expects which version."""
    life = version_life(program, watch)
    born = next(number for number, step in enumerate(life.statements) if step.version is not None)
    earlier, steps = life.statements[:born], life.statements[born:]
    widths = [max(5.6 * len(step.text) + 14, 96) for step in steps]
    starts = [MARGIN + sum(widths[:number]) + GAP * number for number in range(len(widths))]
    needed = max([starts[k.at - born] + 5.4 * len(_expectation(k)) + 24 for k in life.keepers] + [0])
    widths[-1] = max(widths[-1], needed - starts[-1])
    end = starts[-1] + widths[-1] + GAP
    top = 36 + 14 * len(earlier)
    rows_at = top + BOX + 32
    canvas = Canvas(max(end + END + MARGIN, 430), rows_at + ROW * len(life.keepers) + 44)

    canvas.title(f"The life of {watch} in version numbers")
    canvas.lines(MARGIN, 36, [step.text for step in earlier], SMALL, family="monospace")
    boxes = [Cell(end, top, "", UNUSED, False, END, BOX)]
    for step, left, width in zip(steps, starts, widths, strict=True):
        boxes.append(Cell(left, top, "", PURPLE if step.wrote else SKY, step.wrote, width, BOX))
        canvas.text(left + width / 2, top + BOX / 2, step.text, SMALL, "center", family="monospace")
        below = f"version {step.version}" + (": a write" if step.wrote else "")
        canvas.text(left + width / 2, top + BOX + 12, below, SMALL, "center", weight="bold" if step.wrote else "normal")
    canvas.text(end + END / 2, top + BOX / 2, "backward", SMALL, "center")
    canvas.text(end + END / 2, top + BOX + 12, f"finds version {life.version}", SMALL, "center")
    for number, keeper in enumerate(life.keepers):
        y = rows_at + ROW * number
        middle = y + (ROW - 6) / 2
        fine = keeper.expects == life.version
        left = starts[keeper.at - born]
        boxes.append(Cell(left, y, "", SKY if fine else ORANGE, not fine, end - left - GAP, ROW - 6))
        canvas.text(left + GAP, middle, _expectation(keeper), SMALL)
        canvas.arrow((end - GAP, middle), (end + GAP, middle))
        canvas.text(end + 14, middle, "fine" if fine else "raises", SMALL, weight="normal" if fine else "bold")
    canvas.cells(boxes)
    canvas.notes(MARGIN, canvas.height - 28, LEGEND)
    return Picture(canvas, _in_words(life, watch))


def _expectation(keeper: Keeper) -> str:
    return f"{keeper.label} expects {keeper.expects}"


def _nodes(names: dict[str, object]) -> set[Node]:
    """All backward nodes that can be reached from the tensors in names."""
    waiting = [x.grad_fn for x in names.values() if isinstance(x, Tensor) and x.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


def _keeps(node: Any, watched: Tensor) -> bool:
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            try:
                value = getattr(node, attribute)
            except RuntimeError:  # overwritten in the statement that made it
                continue
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Tensor) and part.numel() and part.data_ptr() == watched.data_ptr():
                    return True
    return False


def _backward_error(names: dict[str, object]) -> str | None:
    results = [x for x in names.values() if isinstance(x, Tensor) and x.grad_fn is not None]
    if not results:
        return None
    try:
        torch.autograd.backward(results, [torch.ones_like(x) for x in results])
    except RuntimeError as error:
        return one_line(error)
    return None


def _in_words(life: VersionLife, watch: str) -> str:
    words = []
    for step in life.statements:
        state = f"{watch} doesn't exist yet" if step.version is None else f"{watch} has version {step.version}"
        words.append(f"After {step.text}: {state}{', a write' if step.wrote else ''}")
    for keeper in life.keepers:
        outcome = "fine" if keeper.expects == life.version else "raises"
        words.append(
            f"{keeper.label} expects version {keeper.expects} and finds version {life.version} in backward: {outcome}"
        )
    return f"The life of {watch} in version numbers. {'. '.join(words)}."
