"""gather and scatter, entry by entry: which element each entry of the index reads and which it writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from textwrap import wrap
from typing import Any

import torch
from torch import Tensor

from torchkata.pictures.controls import Control, choice, slider, steps, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell, Grid, brackets, grid
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, CELL, ERROR_INK, GREEN, MARGIN, ORANGE, PURPLE, SKY, UNUSED

Shape = tuple[int, ...]
OPS = ("gather", "scatter_", "scatter_add_")
MAX_ENTRIES = 48
MAX_SIZE = 5


@dataclass(frozen=True)
class Step:
    """What one entry of the index does.

    The entry at `index_pos` holds `index_value`; the call reads source element `read` and writes target element
    `write`. `note` says what it means where other steps write the same element.
    """

    index_pos: tuple[int, ...]
    index_value: int
    read: tuple[int, ...]
    write: tuple[int, ...]
    note: str


def index_steps(
    op: str,
    dim: int,
    index: list,
    other_shape: tuple[int, ...],
    source_shape: tuple[int, ...] | None = None,
) -> list[Step] | str:
    """Return one step for each entry of the index, in index order, or torch's message when it refuses the call.

    op: "gather", "scatter_" or "scatter_add_". index: a nested list. other_shape: the shape of the tensor that is
    read (gather) or written (scatter_, scatter_add_). source_shape: the shape of scatter's src; without it, the
    index's own. An op of another name raises ValueError.
    """
    if op not in OPS:
        raise ValueError(f"{op!r} is none of {', '.join(OPS)}.")
    try:
        entries = torch.tensor(index)
        _run(op, dim, entries, other_shape, source_shape)
    except (RuntimeError, IndexError, ValueError, TypeError) as refusal:
        return str(refusal)
    places = _places(entries.shape)
    values = entries.flatten().tolist()
    moved = [_replace(place, dim, value) for place, value in zip(places, values, strict=True)]
    reads, writes = (moved, places) if op == "gather" else (places, moved)
    steps = []
    for number, (place, value) in enumerate(zip(places, values, strict=True)):
        others = tuple(n for n, write in enumerate(writes) if write == writes[number] and n != number)
        steps.append(Step(place, value, reads[number], writes[number], _note(op, others)))
    return steps


def formula(op: str, step: Step) -> str:
    """Write the step as an assignment: out[1][2] = input[1][0]."""
    if op == "gather":
        return f"out{brackets(step.write)} = input{brackets(step.read)}"
    sign = "+=" if op == "scatter_add_" else "="
    return f"self{brackets(step.write)} {sign} src{brackets(step.read)}"


def writer_counts(index: list | Tensor, dim: int, shape: tuple[int, ...]) -> Tensor:
    """Return how many entries of the index write to each element of a target of this shape, as int64.

    ValueError with torch's message when scatter_ refuses the call.
    """
    steps = index_steps("scatter_", dim, index.tolist() if isinstance(index, Tensor) else index, shape)
    if isinstance(steps, str):
        raise ValueError(steps)
    counts = torch.zeros(shape, dtype=torch.int64)
    for step in steps:
        counts[step.write] += 1
    return counts


def collision_map(index: list | Tensor, dim: int, shape: tuple[int, ...]) -> Picture:
    """Draw the target of a scatter along dim with the number of writers in each cell."""
    counts = writer_counts(index, dim, shape)
    layout = grid(shape, MARGIN, 52)
    canvas = Canvas(max(layout.width, 330) + 2 * MARGIN, 52 + layout.height + 42)
    canvas.title(f"Writers per cell, scatter along dim {dim}")
    numbers = counts.flatten().tolist()
    canvas.cells([_count_cell(count, x, y) for count, (x, y) in zip(numbers, layout.places, strict=True)])
    for label in layout.slab_labels:
        canvas.note(*label)
    legend = ("–: nobody writes. Outlined: more than one writer;", "which value scatter_ keeps there is undefined.")
    canvas.notes(MARGIN, layout.height + 66, legend, step=13)
    contested = [f"{brackets(place)} has {counts[place]}" for place in _places(shape) if counts[place] > 1]
    words = f"Target of shape {tuple(shape)}, scatter along dim {dim}; writers per cell: {counts.tolist()}."
    conclusion = f" More than one writer: {', '.join(contested)}." if contested else " No cell has two writers."
    return Picture(canvas, words + conclusion)


def draw_steps(
    op: str,
    dim: int,
    index: list,
    other_shape: tuple[int, ...],
    done: int,
    source_shape: tuple[int, ...] | None = None,
) -> Picture:
    """Draw index, source and target side by side after `done` steps; the last of them is outlined in all three.

    The source holds 1, 2, 3, … in index order, scatter's target zeros. A refused call shows torch's message.
    """
    steps = index_steps(op, dim, index, other_shape, source_shape)
    title = f"{op} along dim {dim}"
    if isinstance(steps, str):
        return draw_refusal(title, steps)
    done = min(done, len(steps))
    panels = _panels(op, steps, done, index, other_shape, source_shape)
    lines = _step_in_words(op, steps, done)
    top = 104
    canvas = Canvas(_across(panels), top + max(_layout(panel, 0, top).height for panel in panels) + 34)
    canvas.title(title)
    canvas.text(MARGIN, 40, lines[0], weight="bold")
    canvas.lines(MARGIN, 56, lines[1:], step=16)
    x = MARGIN
    for panel in panels:
        _draw_panel(canvas, panel, x, top)
        x += _panel_width(panel)
    canvas.note(MARGIN, canvas.height - 12, LEGENDS[op])
    seen = "; ".join(f"{panel.name} of shape {panel.shape}: {_nested(panel)}" for panel in panels)
    return Picture(canvas, f"{title}, {'; '.join(lines)}. Then {seen}. –: never read or written.")


def draw_refusal(title: str, message: str) -> Picture:
    """Draw a card that says why there is nothing to show."""
    lines = wrap(message.partition("\n")[0], 90)
    canvas = Canvas(520, 52 + 15 * len(lines))
    canvas.title(f"{title}: refused")
    canvas.lines(MARGIN, 42, lines, step=15, color=ERROR_INK)
    return Picture(canvas, f"{title}: refused. {' '.join(lines)}")


def gather_scatter_stepper(example: str = "", done: int = 0) -> Explorer:
    """Build the explorer: choose a call or write one, then go through its index entry by entry.

    Args:
        example: the call that it opens with, by its name in the list of examples; "" for the first.
        done: so many entries of its index are gone through when it opens.

    Raises:
        ValueError: there is no such example.
    """
    if example and example not in PRESETS:
        raise ValueError(f"example is one of {', '.join(PRESETS)}, or empty; not {example!r}")
    return Explorer(_controls(example or next(iter(PRESETS)), done), ROWS, _of, _limits, AHEAD)


@dataclass(frozen=True)
class Call:
    """A call to step through; the fields are those of `index_steps`."""

    op: str
    dim: int
    index: list[Any]
    other_shape: tuple[int, ...]
    source_shape: tuple[int, ...] | None = None


PRESETS = {
    "gather along dim 1": Call("gather", 1, [[0, 0], [1, 0]], (2, 2)),
    "gather along dim 0": Call("gather", 0, [[0, 0], [1, 0]], (2, 2)),
    "gather, index longer along dim": Call("gather", 1, [[0, 1, 2, 1, 0], [2, 2, 0, 0, 1], [1, 0, 2, 2, 2]], (3, 3)),
    "gather, index covers a corner": Call("gather", 1, [[1]], (3, 4)),
    "scatter_, part of src": Call("scatter_", 0, [[0, 1, 2, 0]], (3, 5), (2, 5)),
    "scatter_ along dim 1": Call("scatter_", 1, [[0, 1, 2], [0, 1, 4]], (3, 5), (2, 5)),
    "scatter_, three writers for a cell": Call("scatter_", 1, [[1, 1, 1]], (1, 3)),
    "scatter_add_, three writers for a cell": Call("scatter_add_", 1, [[1, 1, 1]], (1, 3)),
    "refused: index out of range": Call("gather", 1, [[0, -1]], (3, 4)),
    "refused: one dimension too few": Call("gather", 1, [0, 2, 1], (3, 4)),
}

ROWS = (("example",), ("operation", "dim"), ("index",), ("shape", "src shape"), ("step",))
AHEAD = (
    {"example": PRESETS, "step": range(16)},
    {"example": PRESETS, "operation": OPS, "step": range(16)},
    {"example": PRESETS, "dim": range(3), "step": range(16)},
    {"example": PRESETS, "operation": OPS, "dim": range(3)},
)

LEGENDS = {
    "gather": "input contains 1, 2, 3, … · –: never read",
    "scatter_": "src contains 1, 2, 3, …, self zeros · –: never read or written · ×n: n writers so far",
    "scatter_add_": "src contains 1, 2, 3, …, self zeros · –: never read or written · ×n: n writers so far",
}


def _controls(example: str, done: int) -> dict[str, Control]:
    texts, anew = {name: _spelled(call) for name, call in PRESETS.items()}, {"step": 0}
    now = texts[example]
    return {
        "example": choice("example", PRESETS, example, "a call to begin with", wide=True, resets=anew, sets=texts),
        "operation": choice("operation", OPS, now["operation"], resets=anew),
        "dim": slider("dim", now["dim"], 0, 2, resets=anew),
        "index": text_field("index", now["index"], about="a table such as [[0, 1], [1, 0]]", wide=True, resets=anew),
        "shape": text_field(
            "shape: input, self", now["shape"], about="the shape of input or self, such as 2, 3", resets=anew
        ),
        "src shape": text_field(
            "shape: src", now["src shape"], "as index", "the shape of src, such as 2, 3", resets=anew
        ),
        "step": steps("step", min(done, MAX_ENTRIES), MAX_ENTRIES, end="all", anew=""),
    }


def _spelled(call: Call) -> dict[str, Any]:
    """What the controls say for a call."""
    return {
        "operation": call.op,
        "dim": call.dim,
        "index": json.dumps(call.index),
        "shape": ", ".join(map(str, call.other_shape)),
        "src shape": ", ".join(map(str, call.source_shape or ())),
    }


def _of(state: State) -> Picture:
    try:
        call = _read_call(state)
    except ValueError as problem:
        return draw_refusal("This call", str(problem))
    return draw_steps(call.op, call.dim, call.index, call.other_shape, state["step"], call.source_shape)


def _limits(state: State) -> dict[str, int]:
    """As many steps as the index has entries; none for a call that is refused."""
    try:
        call = _read_call(state)
    except ValueError:
        return {"step": 0}
    found = index_steps(call.op, call.dim, call.index, call.other_shape, call.source_shape)
    return {"step": 0 if isinstance(found, str) else len(found)}


def _read_call(state: State) -> Call:
    """Return the call that the controls spell; ValueError says which text can't be read or is too large to draw."""
    try:
        index = json.loads(state["index"])
        entries = torch.tensor(index)
    except (ValueError, TypeError, RuntimeError) as problem:
        raise ValueError(f"index: write a table such as [[0, 1], [1, 0]] ({problem}).") from None
    if entries.numel() > MAX_ENTRIES:
        raise ValueError(f"index: at most {MAX_ENTRIES} entries; these are {entries.numel()}.")
    other_shape = _read_shape("shape of input or self", state["shape"])
    source = state["src shape"].strip()
    source_shape = _read_shape("shape of src", source) if source else None
    return Call(state["operation"], state["dim"], index, other_shape, source_shape)


def _read_shape(name: str, text: str) -> tuple[int, ...]:
    words = text.strip("()[] ").replace(",", " ").split()
    fine = 1 <= len(words) <= 3 and all(word.isdecimal() and 1 <= int(word) <= MAX_SIZE for word in words)
    if not fine:
        raise ValueError(f"{name}: write one to three sizes from 1 to {MAX_SIZE}, such as 3, 5; not {text!r}.")
    return tuple(map(int, words))


def _run(op: str, dim: int, entries: Tensor, other_shape: Shape, source_shape: Shape | None) -> None:
    """Do the call on real tensors, so that torch itself says whether it is legal."""
    other = torch.zeros(other_shape)
    if op == "gather":
        other.gather(dim, entries)
    else:
        getattr(other, op)(dim, entries, torch.zeros(source_shape or entries.shape))


def _replace(place: tuple[int, ...], dim: int, value: int) -> tuple[int, ...]:
    moved = list(place)
    moved[dim] = value
    return tuple(moved)


def _note(op: str, others: tuple[int, ...]) -> str:
    if not others:
        return ""
    outcome = "added" if op == "scatter_add_" else "undefined which one stays"
    return f"{len(others) + 1} writers: {outcome}"


def _places(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


@dataclass(frozen=True)
class _Panel:
    """One of the three grids: the text, second line, fill and outline of each element, in index order."""

    name: str
    shape: tuple[int, ...]
    texts: list[str]
    below: list[str]
    fills: list[str]
    marked: tuple[int, ...] | None


def _panels(
    op: str, steps: list[Step], done: int, index: list[Any], other_shape: Shape, source_shape: Shape | None
) -> list[_Panel]:
    index_shape = tuple(torch.tensor(index).shape)
    gather = op == "gather"
    source_shape = other_shape if gather else source_shape or index_shape
    target_shape = index_shape if gather else other_shape
    now = steps[done - 1] if done else None
    reads = {step.read for step in steps}
    sources = dict(zip(_places(source_shape), range(1, prod(source_shape) + 1), strict=True))
    source_texts = [str(value) if place in reads else "–" for place, value in sources.items()]
    source_fills = [GREEN if place in reads else UNUSED for place in sources]
    entries = [str(step.index_value) for step in steps]
    return [
        _Panel(
            "index", index_shape, entries, [""] * len(entries), [SKY] * len(entries), now.index_pos if now else None
        ),
        _Panel(
            "input" if gather else "src",
            source_shape,
            source_texts,
            [""] * len(source_texts),
            source_fills,
            now.read if now else None,
        ),
        _target_panel(op, steps, done, target_shape, sources, now.write if now else None),
    ]


def _target_panel(
    op: str, steps: list[Step], done: int, shape: Shape, sources: dict[Shape, int], marked: Shape | None
) -> _Panel:
    ever = {step.write for step in steps}
    written: dict[tuple[int, ...], list[int]] = {}
    for step in steps[:done]:
        written.setdefault(step.write, []).append(sources[step.read])
    texts, below, fills = [], [], []
    for place in _places(shape):
        values = written.get(place, [])
        if place not in ever:
            texts.append("–")
        elif not values:
            texts.append("" if op == "gather" else "0")
        else:
            texts.append("?" if op == "scatter_" and len(values) > 1 else str(sum(values)))
        below.append(f"×{len(values)}" if len(values) > 1 else "")
        fills.append(UNUSED if place not in ever else PURPLE if len(values) > 1 else ORANGE if values else BLANK)
    return _Panel("out" if op == "gather" else "self", shape, texts, below, fills, marked)


def _step_in_words(op: str, steps: list[Step], done: int) -> list[str]:
    if not done:
        return [f"step 0 of {len(steps)}: nothing done yet", "each entry of index makes one assignment"]
    step = steps[done - 1]
    lines = [f"step {done} of {len(steps)}: {formula(op, step)}"]
    lines.append(f"because index{brackets(step.index_pos)} is {step.index_value}")
    return [*lines, f"self{brackets(step.write)} has {step.note}"] if step.note else lines


def _layout(panel: _Panel, x: float, y: float) -> Grid:
    """Stack the matrices of a panel on top of one another."""
    return grid(panel.shape, x, y, max_width=CELL * (panel.shape or (1,))[-1])


def _panel_width(panel: _Panel) -> float:
    return max(_layout(panel, 0, 0).width, 5.6 * len(_heading(panel))) + 28


def _across(panels: list[_Panel]) -> float:
    return max(2 * MARGIN + sum(map(_panel_width, panels)) - 28, 470)


def _heading(panel: _Panel) -> str:
    return f"{panel.name}, shape {panel.shape}"


def _draw_panel(canvas: Canvas, panel: _Panel, x: float, y: float) -> None:
    layout = _layout(panel, x, y)
    canvas.note(x, y - 12, _heading(panel))
    parts = zip(_places(panel.shape), layout.places, panel.texts, panel.below, panel.fills, strict=True)
    canvas.cells(
        [
            Cell(left, top, text, fill, marked=place == panel.marked, below=below)
            for place, (left, top), text, below, fill in parts
        ]
    )
    for label in layout.slab_labels:
        canvas.note(*label)


def _nested(panel: _Panel) -> str:
    """Write the panel's texts as nested lists."""
    cells = [(text + " " + below).strip() or "empty" for text, below in zip(panel.texts, panel.below, strict=True)]
    for size in reversed(panel.shape[1:]):
        cells = ["[" + ", ".join(cells[i : i + size]) + "]" for i in range(0, len(cells), size)]
    return "[" + ", ".join(cells) + "]"


def _count_cell(count: int, x: float, y: float) -> Cell:
    fill = UNUSED if count == 0 else PURPLE if count > 1 else ORANGE
    return Cell(x, y, str(count) if count else "–", fill, marked=count > 1)
