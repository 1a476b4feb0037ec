"""A module as its registry sees it: every tensor on it, what kind it is, who trains, saves and moves it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchkata.pictures.controls import Control, Value, choice, switch
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, GREEN, MARGIN, ORANGE, SKY, SMALL, SOFT_INK, UNUSED, YELLOW

FILLS = {
    "module": BLANK,
    "parameter": SKY,
    "buffer": GREEN,
    "buffer (non-persistent)": YELLOW,
    "plain tensor": UNUSED,
    "plain list": ORANGE,
}
LINE, INDENT, BADGE = 22, 8, 120  # points: height of a row, shift of a level, width of the box with the kind
MOST, LONGEST = 40, 20  # rows that are drawn, letters of a name
COLUMNS = {
    "what it is": 132,
    "shape": 260,
    "dtype": 324,
    "device": 378,
    "requires grad": 416,
    "parameters()": 488,
    "state_dict()": 560,
}
WIDTH = 630


@dataclass(frozen=True)
class Row:
    """One tensor of a module, or a module in it (kind "module").

    path: its name in the module; a list's element is written layers[0]. kind: a key of FILLS. listed: it is in
    parameters() under this name. saved: it has an entry in state_dict(). shared_with: the path of an earlier row that
    is the same tensor, or "". mode: "train" or "eval" for a module, else "". For a module shape, dtype and device are
    empty and `trainable`, `listed` and `saved` False.
    """

    path: str
    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    trainable: bool = False
    listed: bool = False
    saved: bool = False
    shared_with: str = ""
    mode: str = ""


def state_tree(module: nn.Module) -> list[Row]:
    """List the module, the modules in it and all their tensors, those in plain lists too; nothing is changed.

    The paths of the saved rows are the keys of `state_dict()`, in its order.
    """
    rows: list[Row] = []
    seen: dict[int, str] = {}
    _add_module(module, "", rows, seen)
    return rows


def _add_module(module: nn.Module, path: str, rows: list[Row], seen: dict[int, str]) -> None:
    prefix = f"{path}." if path else ""
    mode = "train" if module.training else "eval"
    rows.append(Row(path, "module", mode=f"{type(module).__name__.lstrip('_')}, {mode} mode"))
    for name, parameter in module._parameters.items():
        _add_tensor(parameter, prefix + name, "parameter", rows, seen)
    for name, buffer in module._buffers.items():
        kept = name not in module._non_persistent_buffers_set
        _add_tensor(buffer, prefix + name, "buffer" if kept else "buffer (non-persistent)", rows, seen)
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            _add_tensor(value, prefix + name, "plain tensor", rows, seen)
        elif isinstance(value, list | tuple) and not name.startswith("_"):
            for inner, tensor in _tensors_in(value):
                _add_tensor(tensor, prefix + name + inner, "plain list", rows, seen)
    for name, child in module._modules.items():
        if child is not None:
            _add_module(child, prefix + name, rows, seen)


def _tensors_in(values: Sequence) -> Iterator[tuple[str, Tensor]]:
    for number, value in enumerate(values):
        if isinstance(value, Tensor):
            yield f"[{number}]", value
        elif isinstance(value, nn.Module):
            yield from ((f"[{number}].{name}", tensor) for name, tensor in value.state_dict(keep_vars=True).items())


def _add_tensor(tensor: Tensor | None, path: str, kind: str, rows: list[Row], seen: dict[int, str]) -> None:
    if tensor is None:
        return
    first = seen.setdefault(id(tensor), path)
    rows.append(
        Row(
            path=path,
            kind=kind,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=tensor.device.type,
            trainable=tensor.requires_grad,
            listed=kind == "parameter" and first == path,
            saved=kind in ("parameter", "buffer"),
            shared_with="" if first == path else first,
        )
    )


class _Sample(nn.Module):
    """One of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 3))
        self.frozen = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.mean = nn.Buffer(torch.zeros(3))
        self.mask = nn.Buffer(torch.ones(3, 3), persistent=False)
        self.steps = nn.Buffer(torch.tensor(0))
        self.scale = torch.ones(3)
        self.offset = torch.zeros(3, requires_grad=True)
        self.hidden = [nn.Parameter(torch.zeros(2))]
        self.gates = nn.ParameterList([torch.zeros(2)])


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        table = torch.zeros(10, 4, device="cpu", dtype=torch.float32)
        self.embed = nn.Embedding.from_pretrained(table, freeze=False)
        self.out = _linear(4, 10)
        self.out.weight = self.embed.weight


class _ListMistake(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = _linear(4, 3)
        self.layers = [_linear(3, 3), _linear(3, 3)]
        self.last = _linear(3, 1)


class _Average(nn.Module):
    """A running average of the weights of a model that is kept out of the registry on purpose, in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.source = [_linear(3, 2)]
        self.weight = nn.Buffer(torch.zeros(2, 3))
        self.bias = nn.Buffer(torch.zeros(2))
        self.updates = nn.Buffer(torch.tensor(0))


def _linear(inputs: int, outputs: int) -> nn.Module:
    """A layer of zeros, for which no random numbers are drawn."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs, device="cpu", dtype=torch.float32)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def _batch_norm_net() -> nn.Module:
    net = nn.Sequential()
    net.add_module("fc", _linear(4, 3))
    net.add_module("norm", nn.BatchNorm1d(3))
    net.add_module("head", _linear(3, 1))
    return net


MODELS: dict[str, Callable[[], nn.Module]] = {
    "one of each kind": _Sample,
    "batch norm": _batch_norm_net,
    "tied embedding": _Tied,
    "layers in a Python list": _ListMistake,
    "average of another model": _Average,
}
YOURS = "your module"
CALLS: dict[str, Callable[[nn.Module], object]] = {
    ".double()": lambda module: module.double(),
    '.to("meta")': lambda module: module.to("meta"),
    ".eval()": lambda module: module.eval(),
    ".requires_grad_(False)": lambda module: module.requires_grad_(False),
}


def sample_after(model: str | nn.Module, calls: Sequence[str] = ()) -> nn.Module:
    """Build a sample, one of MODELS, or copy a module, and make some of CALLS on it."""
    if isinstance(model, nn.Module):
        module = copy.deepcopy(model)
    else:
        with torch.device("cpu"):
            module = MODELS[model]()
    for call in calls:
        CALLS[call](module)
    return module


def draw_state(model: str | nn.Module, calls: Sequence[str] = (), only_saved: bool = False) -> Picture:
    """Draw the rows of a sample, or of any module, after some calls; `only_saved` keeps those of the state_dict.

    Only the first MOST rows are drawn; the module itself is not changed.
    """
    module = sample_after(model, calls)
    title = model if isinstance(model, str) else YOURS
    rows = state_tree(module)
    if only_saved:
        rows = [row for row in rows if row.saved]
    left_out = len(rows) - MOST
    rows = rows[:MOST]
    notes = [f"and {left_out} rows more"] if left_out > 0 else []
    notes += [f"{row.path} is the same tensor as {row.shared_with}" for row in rows if row.shared_with]
    top = 80
    canvas = Canvas(WIDTH, top + len(rows) * LINE + 28 + 14 * len(notes))

    canvas.title(f"What the module contains: {title}" + ("; only what is saved" if only_saved else ""))
    canvas.text(MARGIN, 40, "after model" + "".join(calls) if calls else "as it was built", color=SOFT_INK)
    for name, x in COLUMNS.items():
        canvas.text(x, top - 14, name, SMALL, weight="bold")
    canvas.text(MARGIN, top - 14, "name", SMALL, weight="bold")
    badges = []
    for number, row in enumerate(rows):
        y = top + number * LINE
        _write_row(canvas, row, y + LINE / 2, tree=not only_saved)
        if row.kind != "module":
            badges.append(Cell(COLUMNS["what it is"], y + 2, row.kind, FILLS[row.kind], width=BADGE, height=LINE - 4))
    canvas.cells(badges)
    bottom = top + len(rows) * LINE + 14
    canvas.notes(MARGIN, bottom, [_totals(module), *notes])
    return Picture(canvas, _in_words(title, calls, only_saved, rows, module))


def _write_row(canvas: Canvas, row: Row, y: float, tree: bool) -> None:
    depth = row.path.partition("[")[0].count(".") + (row.path != "") if tree else 0
    x = MARGIN + depth * INDENT
    name = row.path.rpartition(".")[2] if tree and row.kind != "plain list" else row.path
    room = max(LONGEST - round(1.5 * depth), 4)
    if len(name) > room:
        name = f"{name[: room - 1]}…" if tree else f"…{name[1 - room :]}"
    if row.kind == "module":
        canvas.text(x, y, name or "model", weight="bold")
        canvas.note(COLUMNS["what it is"], y, row.mode)
        return
    canvas.text(x, y, name)
    entries = (
        ("shape", str(row.shape)),
        ("dtype", row.dtype),
        ("device", row.device),
        ("requires grad", "yes" if row.trainable else "no"),
        ("parameters()", "yes" if row.listed else "once, above" if _again(row) else "–"),
        ("state_dict()", "yes" if row.saved else "–"),
    )
    for column, words in entries:
        canvas.text(COLUMNS[column], y, words, SMALL)


def _again(row: Row) -> bool:
    """It is a parameter that parameters() lists under an earlier name."""
    return row.kind == "parameter" and bool(row.shared_with)


def _totals(module: nn.Module) -> str:
    rows = state_tree(module)
    return (
        f"{len(list(module.parameters()))} in parameters(), {len(module.state_dict())} in state_dict(), "
        f"{sum(row.kind.startswith('plain') for row in rows)} not registered"
    )


def _in_words(model: str, calls: Sequence[str], only_saved: bool, rows: list[Row], module: nn.Module) -> str:
    called = f" after model{''.join(calls)}" if calls else ""
    listed = "; ".join(_row_in_words(row) for row in rows)
    saved = " Only what is saved:" if only_saved else ""
    return f"{model[0].upper()}{model[1:]}{called}.{saved} {listed}. Together: {_totals(module)}."


def _row_in_words(row: Row) -> str:
    if row.kind == "module":
        return f"{row.path or 'model'}: {row.mode}"
    saved = "saved" if row.saved else "not saved"
    grad = "requires grad" if row.trainable else "doesn't require grad"
    same = f", the same tensor as {row.shared_with}" if row.shared_with else ""
    return f"{row.path}: {row.kind}, shape {row.shape}, {row.dtype} on {row.device}, {grad}, {saved}{same}"


def state_explorer(module: nn.Module | None = None) -> Explorer:
    """Build the explorer: choose a sample, switch calls on, and see which rows follow.

    module: one of your own, which is then among the choices and comes first; the calls are made on copies of it.
    """

    def draw(state: State) -> Picture:
        name = state["model"]
        shown = module if module is not None and name == YOURS else name
        return draw_state(shown, [call for call in CALLS if state[call]], state[SAVED])

    models = list(MODELS) if module is None else [YOURS, *MODELS]
    return Explorer(_controls(models), ROWS, draw, ahead=None if module is None else OWN_AHEAD)


SAVED = "only what is saved"
ROWS = (("model", SAVED), tuple(CALLS))
OWN_AHEAD: list[Mapping[str, Sequence[Value]]] = [  # a copy of one's own module may be large: each call alone
    {"model": list(MODELS), SAVED: (False, True), **{call: (False, True) for call in CALLS}},
    *[{name: [True]} for name in (SAVED, *CALLS)],
]


def _controls(models: list[str]) -> dict[str, Control]:
    return {
        "model": choice("model", models, about="built anew, without calls", resets=dict.fromkeys(CALLS, False)),
        SAVED: switch(SAVED, False, "only the entries of the state_dict"),
        **{name: switch(name, False, f"call {name} on the model") for name in CALLS},
    }
