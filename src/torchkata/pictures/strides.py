"""Which cells of memory a tensor looks at: shape, stride and offset made visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from textwrap import wrap

import torch
from torch import Tensor

from torchkata.pictures.controls import Control, choice, slider, steps, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell, Grid, brackets, grid, position
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CELL, ERROR_INK, FILLS, MARGIN, ORANGE, SKY, UNUSED

MAX_ELEMENTS = 10_000
MAX_DRAWN = 72
STRIP = 24
MAX_CELLS = 48
STRIP_LINE = CELL + 20
STRIP_LEGEND = (
    "In a cell: the place of its element in index order, from 0 (×n: n elements share it). –: not part of it."
)

Op = tuple


@dataclass(frozen=True)
class ViewState:
    """What a chain of operations made of a fresh tensor.

    stride and offset count elements. `cells` holds the number of the storage cell of each element, in index
    order, and `storage` what lies in the storage: the numbers 0, 1, 2, … in the base. `relation` is
    "the same object", "a view of the base" or "a copy". When an operation was refused, `error` is torch's message
    and all else describes the tensor before that operation; `done` counts the operations that went through.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    cells: tuple[int, ...]
    storage_len: int
    contiguous: bool
    copied: bool
    error: str | None
    relation: str
    storage: tuple[int, ...]
    done: int


def view_state(shape: tuple[int, ...], ops: tuple[Op, ...]) -> ViewState:
    """Apply `ops` in turn to a fresh int64 tensor of this shape and say where the elements of the result lie.

    An operation is a tuple of its name and its arguments: ("t",), ("transpose", 0, 1), ("permute", 1, 0),
    ("slice", slice(1, None), slice(None, None, 2)), ("select", dim, index), ("expand", 5, -1, -1),
    ("unsqueeze", dim), ("view", 12), ("reshape", -1), ("unfold", dim, size, step), ("contiguous",),
    ("clone",). What torch says when it refuses one becomes the state's `error`; an operation that is not in this
    list raises ValueError.
    """
    _check_names(ops)
    base = torch.arange(prod(shape)).reshape(shape)
    result, error, done = base, None, 0
    for op in ops:
        try:
            following = _apply(result, op)
        except (RuntimeError, IndexError, TypeError, ValueError) as refusal:
            error = str(refusal)
            break
        if following.numel() > MAX_ELEMENTS:
            error = f"{following.numel()} elements are too many to show: at most {MAX_ELEMENTS}."
            break
        result, done = following, done + 1
    return _describe_tensor(base, result, error, done)


def expression(ops: tuple[Op, ...]) -> str:
    """Write the chain as Python: x.t()[1:, ::2]."""
    return "x" + "".join(_call(op) for op in ops)


def parse_op(name: str, arguments: str) -> Op:
    """Read an operation from its name and the text of its arguments; ValueError says what is wrong with it."""
    parts = [part.strip() for part in arguments.split(",") if part.strip()]
    if name == "slice":
        return (name, *map(_parse_slice, parts))
    return (name, *map(_parse_int, parts))


def state_in_words(state: ViewState, ops: tuple[Op, ...] = (), walked: int | None = None) -> str:
    """Return the state as sentences; `walked` is the number of the element that is pointed at."""
    words = [
        f"{expression(ops[: state.done])} has shape {state.shape}, stride {state.stride} and "
        f"offset {state.offset}; it is {_contiguity(state)} and {_relation(state)}."
    ]
    if walked is not None and walked < len(state.cells):
        words.append(f"{_walk_in_words(state, walked)}.")
    words.append(f"Its elements are in cells {_listed(state.cells)}." if state.cells else "It has no elements.")
    shared = sorted(cell for cell, visits in Counter(state.cells).items() if visits > 1)
    if shared:
        words.append(f"Cells that several elements share: {_listed(shared)}.")
    if state.error:
        words.append(_refusal(state, ops))
    return " ".join(words)


def draw_state(state: ViewState, ops: tuple[Op, ...] = (), walked: int | None = None) -> Picture:
    """Draw the storage as a strip of cells, and the tensor as a grid of what it sees in them."""
    strip_top = 96
    grid_top = strip_top + max(1, -(-min(state.storage_len, MAX_CELLS) // STRIP)) * STRIP_LINE + 30
    layout = grid(state.shape, MARGIN, grid_top, STRIP * CELL)
    bottom = max(y for _, y in layout.places[:MAX_DRAWN]) + CELL if layout.places else grid_top
    refusal = wrap(_refusal(state, ops), 100)
    canvas = Canvas(2 * MARGIN + STRIP * CELL, bottom + 20 + 14 * len(refusal))

    canvas.title(expression(ops[: state.done]))
    canvas.text(MARGIN, 38, f"shape {state.shape} · stride {state.stride} · offset {state.offset}")
    canvas.text(MARGIN, 54, f"{_contiguity(state)}; {_relation(state)}")
    if walked is not None and walked < len(state.cells):
        canvas.text(MARGIN, 70, _walk_in_words(state, walked))
    canvas.note(MARGIN, strip_top - 8, _strip_caption(state))
    _draw_storage(canvas, state, strip_top, walked)
    canvas.note(MARGIN, grid_top - 12, _grid_caption(state))
    _draw_elements(canvas, state, layout, walked)
    canvas.lines(MARGIN, bottom + 16, refusal, color=ERROR_INK)
    return Picture(canvas, state_in_words(state, ops, walked))


def draw_strip(views: dict[str, Tensor]) -> Picture:
    """Draw tensors that share one storage: for each a strip of its cells, with those coloured that it looks at.

    views: by the name to show. ValueError when they do not share one storage, or when it has over 24 cells.
    """
    length = _common_storage(views)
    facts = {n: f"shape {tuple(x.shape)}, stride {x.stride()}, offset {x.storage_offset()}" for n, x in views.items()}
    left = MARGIN + 10 + 6.5 * max(map(len, views))
    top, line = 64, CELL + 10
    facts_at = left + length * CELL + 12
    bottom = top + len(views) * line
    canvas = Canvas(facts_at + 5.3 * max(map(len, facts.values())) + MARGIN, bottom + 24)

    canvas.title(f"One storage of {length} cells, seen through {len(views)} tensors")
    canvas.ruler(left, top - 12, "cell", length)
    for row, (name, view) in enumerate(views.items()):
        y = top + row * line
        canvas.text(left - 8, y + CELL / 2, name, align="right", weight="bold")
        canvas.cells(_strip_cells(view, length, left, y, FILLS[row % len(FILLS)]))
        canvas.text(facts_at, y + CELL / 2, facts[name])
    canvas.note(MARGIN, bottom + 8, STRIP_LEGEND)
    words = [f"{name}: {facts[name]}; its elements are in cells {_listed(_cells_of(x))}." for name, x in views.items()]
    return Picture(canvas, f"One storage of {length} cells, seen through {len(views)} tensors. {' '.join(words)}")


CHOICES = {
    "nothing": "",
    "t": "",
    "transpose": "0, 1",
    "permute": "1, 0",
    "slice": "1:, ::2",
    "select": "0, 1",
    "expand": "2, -1, -1",
    "unsqueeze": "0",
    "view": "-1",
    "reshape": "-1",
    "unfold": "1, 2, 1",
    "contiguous": "",
    "clone": "",
}


ROWS = (
    ("size 0", "size 1", "size 2"),
    ("operation 1", "arguments 1"),
    ("operation 2", "arguments 2"),
    ("operation 3", "arguments 3"),
    ("element",),
)
OFTEN = ("t", "slice", "expand", "unsqueeze", "unfold")
SPLIT = {"operation 1": ("t",), "operation 2": ("view", "reshape"), "arguments 2": ("12",)}
TWICE = {"operation 1": ("unsqueeze",), "operation 2": ("expand",)}
AHEAD: tuple[Mapping[str, Iterable[str | int]], ...] = (
    {"operation 1": CHOICES, "element": range(12)},
    {"operation 1": OFTEN, "operation 2": CHOICES},
    {"size 0": range(1, 5), "size 1": range(1, 7)},
    {"size 0": (2, 3, 4), "size 1": (2, 4, 6), "size 2": (1, 2)},
    {"size 0": range(1, 5), "operation 1": OFTEN},
    {"size 1": (2, 4, 6), "operation 1": OFTEN},
    {**SPLIT, "element": (0, 1, 2, 11)},
    {**TWICE, "element": range(24)},
    {**TWICE, "operation 3": ("contiguous", "reshape")},
)


def strides_explorer() -> Explorer:
    """Build the explorer: a base shape, up to three operations, and a walk through the elements."""
    return Explorer(_controls(), ROWS, _of, _limits, AHEAD)


def _controls() -> dict[str, Control]:
    anew = {"element": 0}
    controls = {
        "size 0": slider("size 0", 3, 1, 4, resets=anew),
        "size 1": slider("size 1", 4, 1, 6, resets=anew),
        "size 2": slider("size 2 (0: none)", 0, 0, 2, about="0: x has two dimensions", resets=anew),
    }
    for number in (1, 2, 3):
        name, arguments = f"operation {number}", f"arguments {number}"
        sets = {op: {arguments: suggested} for op, suggested in CHOICES.items()}
        controls[name] = choice(name, CHOICES, "nothing", resets=anew, sets=sets)
        controls[arguments] = text_field(arguments, about="as you would write them between the brackets", resets=anew)
    controls["element"] = steps(
        "element", 0, MAX_DRAWN - 1, on="next element", end="last element", anew="first element"
    )
    return controls


def _of(state: State) -> Picture:
    seen, ops = _seen(state)
    return draw_state(seen, ops, state["element"])


def _limits(state: State) -> dict[str, int]:
    seen, _ = _seen(state)
    return {"element": min(max(len(seen.cells), 1), MAX_DRAWN) - 1}


def _seen(state: State) -> tuple[ViewState, tuple[Op, ...]]:
    """What the controls spell: the tensor, and the operations as far as they can be read."""
    sizes = (state["size 0"], state["size 1"], state["size 2"])
    chain = tuple((state[f"operation {number}"], state[f"arguments {number}"]) for number in (1, 2, 3))
    return _tried(sizes if sizes[2] else sizes[:2], chain)


@lru_cache(maxsize=512)
def _tried(shape: tuple[int, ...], chain: tuple[tuple[str, str], ...]) -> tuple[ViewState, tuple[Op, ...]]:
    ops, problem = _read_ops(chain)
    seen = view_state(shape, ops)
    return (replace(seen, error=problem) if problem and not seen.error else seen), ops


def _read_ops(chain: Sequence[tuple[str, str]]) -> tuple[tuple[Op, ...], str | None]:
    """Return the operations up to the first whose arguments can't be read, and what is wrong with those."""
    ops = []
    for number, (name, arguments) in enumerate(chain, start=1):
        if name == "nothing":
            continue
        try:
            ops.append(parse_op(name, arguments))
        except ValueError as problem:
            return tuple(ops), f"arguments {number}: {problem}"
    return tuple(ops), None


def _check_names(ops: tuple[Op, ...]) -> None:
    known = set(CHOICES) - {"nothing"}
    for name, *_ in ops:
        if name not in known:
            raise ValueError(f"{name!r} is none of the operations {', '.join(sorted(known))}.")


def _apply(x: Tensor, op: Op) -> Tensor:
    name, *arguments = op
    if name == "slice":
        return x[tuple(arguments)]
    return getattr(x, name)(*arguments)


def _call(op: Op) -> str:
    name, *arguments = op
    if name == "slice":
        return f"[{', '.join(map(_subscript, arguments))}]"
    return f".{name}({', '.join(map(str, arguments))})"


def _subscript(part: slice | int) -> str:
    if isinstance(part, int):
        return str(part)
    start, stop, step = ("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
    return f"{start}:{stop}" + (f":{step}" if step else "")


def _parse_slice(text: str) -> slice | int:
    if ":" not in text:
        return _parse_int(text)
    bounds = [_parse_int(bound) if bound.strip() else None for bound in text.split(":")]
    if len(bounds) > 3:
        raise ValueError(f"{text!r} has more than two colons; a slice is start:stop:step.")
    return slice(*bounds)


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} is not a whole number.") from None


def _describe_tensor(base: Tensor, result: Tensor, error: str | None, done: int) -> ViewState:
    shares = result.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    return ViewState(
        shape=tuple(result.shape),
        stride=result.stride(),
        offset=int(result.storage_offset()),
        cells=_cells_of(result),
        storage_len=_storage_of(result).numel(),
        contiguous=result.is_contiguous(),
        copied=not shares,
        error=error,
        relation="the same object" if result is base else "a view of the base" if shares else "a copy",
        storage=tuple(_storage_of(result).tolist()),
        done=done,
    )


def _storage_of(x: Tensor) -> Tensor:
    """Return all cells of x's storage as a tensor of one dimension."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


def _cells_of(x: Tensor) -> tuple[int, ...]:
    """Return the number of the storage cell of each element of x, in index order."""
    numbers = torch.arange(_storage_of(x).numel())
    return tuple(numbers.as_strided(x.shape, x.stride(), x.storage_offset()).flatten().tolist())


def _contiguity(state: ViewState) -> str:
    return "contiguous" if state.contiguous else "not contiguous"


def _relation(state: ViewState) -> str:
    if state.copied:
        return f"a copy: it has a storage of its own with {state.storage_len} cells"
    return state.relation if state.relation != "the same object" else "the base itself: the same object"


def _refusal(state: ViewState, ops: tuple[Op, ...]) -> str:
    if state.error is None:
        return ""
    refused = f"{expression(ops[: state.done + 1])} is refused: " if state.done < len(ops) else ""
    return refused + state.error.partition("\n")[0]


def _walk_in_words(state: ViewState, walked: int) -> str:
    """Say which cell the element lies in, with the sum that leads there."""
    index = position(walked, state.shape)
    steps = "".join(f" + {i} * {stride}" for i, stride in zip(index, state.stride, strict=True))
    return f"Element {brackets(index) or '[]'} is in cell {state.offset}{steps} = {state.cells[walked]}"


def _listed(numbers: Sequence[int]) -> str:
    """List up to 24 numbers."""
    shown = ", ".join(map(str, numbers[:STRIP]))
    return shown + (f" and {len(numbers) - STRIP} more" if len(numbers) > STRIP else "")


def _draw_storage(canvas: Canvas, state: ViewState, top: float, walked: int | None) -> None:
    """Draw the contents of all cells; below: – when the tensor does not see the cell, ×n when n elements do."""
    visits = Counter(state.cells)
    here = state.cells[walked] if walked is not None and walked < len(state.cells) else None
    boxes = []
    for cell, content in enumerate(state.storage[:MAX_CELLS]):
        x, y = MARGIN + (cell % STRIP) * CELL, top + (cell // STRIP) * STRIP_LINE
        fill = ORANGE if cell == here else SKY if visits[cell] else UNUSED
        boxes.append(Cell(x, y, str(content), fill, marked=cell == here))
        below = _below(visits[cell], cell == here)
        if below:
            canvas.note(x + CELL / 2, y + CELL + 8, below, "center")
    canvas.cells(boxes)


def _below(visits: int, here: bool) -> str:
    if visits == 0:
        return "–"
    return ("▲" if here else "") + (f"×{visits}" if visits > 1 else "")


def _draw_elements(canvas: Canvas, state: ViewState, layout: Grid, walked: int | None) -> None:
    boxes = []
    for number, (cell, (x, y)) in enumerate(zip(state.cells, layout.places, strict=True)):
        if number < MAX_DRAWN:
            fill = ORANGE if number == walked else SKY
            boxes.append(Cell(x, y, str(state.storage[cell]), fill, marked=number == walked))
    canvas.cells(boxes)
    slab = prod(state.shape[-2:])
    for number, label in enumerate(layout.slab_labels):
        if number * slab < len(boxes):
            canvas.note(*label)


def _strip_caption(state: ViewState) -> str:
    if not state.storage:
        return "the storage has no cells"
    owner = "the storage of the copy" if state.copied else "the storage of the base"
    last = min(state.storage_len, MAX_CELLS) - 1
    more = f" (of {state.storage_len})" if state.storage_len > MAX_CELLS else ""
    return f"{owner}: the values in its cells 0 to {last}{more}"


def _grid_caption(state: ViewState) -> str:
    if not state.cells:
        return "the tensor has no elements"
    more = f" (the first {MAX_DRAWN} of {len(state.cells)} elements)" if len(state.cells) > MAX_DRAWN else ""
    return f"the tensor: its value at each index{more}"


def _common_storage(views: dict[str, Tensor]) -> int:
    """Return the number of cells of the storage that all the tensors share."""
    starts = {(x.untyped_storage().data_ptr(), x.dtype) for x in views.values()}
    if len(starts) != 1:
        raise ValueError("draw_strip draws tensors that share one storage and one dtype; these do not.")
    length = _storage_of(next(iter(views.values()))).numel()
    if length > STRIP:
        raise ValueError(f"draw_strip has room for {STRIP} cells; this storage has {length}.")
    return length


def _strip_cells(view: Tensor, length: int, x: float, y: float, fill: str) -> list[Cell]:
    places: dict[int, list[int]] = {}
    for number, cell in enumerate(_cells_of(view)):
        places.setdefault(cell, []).append(number)
    boxes = []
    for cell in range(length):
        numbers = places.get(cell, [])
        text = "–" if not numbers else str(numbers[0]) if len(numbers) == 1 else f"×{len(numbers)}"
        boxes.append(Cell(x + cell * CELL, y, text, fill if numbers else UNUSED))
    return boxes
