"""Hooks in the order in which they fire, in one forward and one backward pass that are really run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchkata.pictures.controls import choice, steps, switch
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, CELL, GREEN, MARGIN, ORANGE, PURPLE, SKY, SOFT_INK, UNUSED, YELLOW


class Event(NamedTuple):
    """One call of one hook.

    phase: "forward" or "backward". node: the name of the module or tensor that the hook hangs on. kind: a key of
    KINDS. shape: that of the tensor that the hook is about (see ABOUT); None when it is given None in its place.
    """

    phase: str
    node: str
    kind: str
    shape: tuple[int, ...] | None


KINDS = {
    "pre": "forward pre-hook",
    "forward": "forward hook",
    "backward_pre": "full backward pre-hook",
    "backward": "full backward hook",
    "tensor": "tensor hook",
    "accumulate": "post-accumulate hook",
}
ABOUT = {
    "pre": "args[0]",
    "forward": "output",
    "backward_pre": "grad_output[0]",
    "backward": "grad_input[0]",
    "tensor": "grad",
    "accumulate": "tensor.grad",
}
SHORT = {
    "pre": "pre",
    "forward": "fwd",
    "backward_pre": "bpre",
    "backward": "bwd",
    "tensor": "grad",
    "accumulate": "acc",
}
FILLS = {
    "pre": YELLOW,
    "forward": SKY,
    "backward_pre": PURPLE,
    "backward": ORANGE,
    "tensor": GREEN,
    "accumulate": BLANK,
}
OPENING = {"forward": "pre", "backward": "backward_pre"}  # the kind of hook that opens what this kind closes

# points: width of the lanes' names, from event to event, of a box, from lane to lane
LEFT, SLOT, BOX, LANE = 64, 30.5, 28, 30
FEWEST = 14  # columns, so that the words have room
MOST = 29  # events of a model


def hook_timeline(model_id: str, x_requires_grad: bool, hooks: Iterable[str], no_grad: bool) -> list[Event]:
    """Hang hooks on a little model, run it forward and backward once, and return the calls in order.

    model_id: a key of MODELS. hooks: which kinds to hang on, keys of KINDS; module hooks hang on every module, tensor
    hooks on the weights, on x and on y, the output, where those require grad, post-accumulate hooks on the leaves
    among them. Nothing but the events is left behind: no warning, no change of the random numbers.
    """
    hooks = set(hooks)
    if unknown := hooks - set(KINDS):
        raise ValueError(f"{sorted(unknown)} are none of {', '.join(KINDS)}.")
    net = MODELS[model_id]()
    x = torch.zeros(1, 2, dtype=torch.float32, device="cpu", requires_grad=x_requires_grad)
    events: list[Event] = []
    for name, module in net.named_modules():
        _hook_module(module, name.rpartition(".")[2] or "net", hooks, events)
    leaves: dict[str, Tensor] = {_short(name): weight for name, weight in net.named_parameters()}
    if x_requires_grad:
        leaves["x"] = x
    for name, leaf in leaves.items():
        _hook_tensor(leaf, name, hooks, events)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a plain x makes full backward hooks warn
        with torch.set_grad_enabled(not no_grad):
            y = net(x)
        if y.requires_grad:
            _hook_tensor(y, "y", hooks - {"accumulate"}, events)
            with torch.enable_grad():
                y.sum().backward()
    return events


@lru_cache(maxsize=128)
def _fired(model_id: str, x_requires_grad: bool, hooks: frozenset[str], no_grad: bool) -> tuple[Event, ...]:
    return tuple(hook_timeline(model_id, x_requires_grad, hooks, no_grad))


@lru_cache
def lanes(model_id: str) -> tuple[list[str], list[str]]:
    """The names of a model's modules, outermost first, and of the tensors in the order y, weights, x."""
    net = MODELS[model_id]()
    modules = [name.rpartition(".")[2] or "net" for name, _ in net.named_modules()]
    return modules, ["y", *(_short(name) for name, _ in net.named_parameters()), "x"]


def event_in_words(event: Event) -> str:
    """Say which hook it is and what it is given: full backward hook of a, grad_input[0]: shape (1, 2)."""
    about = ABOUT[event.kind].replace("tensor", event.node)
    return f"{KINDS[event.kind]} of {event.node}; {about}: " + (
        "None" if event.shape is None else f"shape {event.shape}"
    )


def _draw_events(canvas: Canvas, events: Sequence[Event], places: list[tuple[float, float]], chosen: int) -> None:
    """Number the events where they stand; a bar leads from the begin of a call to its end."""
    canvas.cells(_bars(events, places))
    canvas.cells(
        [
            Cell(x, y, str(number + 1), FILLS[event.kind], number == chosen, width=BOX, below=SHORT[event.kind])
            for number, (event, (x, y)) in enumerate(zip(events, places, strict=True))
        ]
    )


def draw_timeline(
    model_id: str, x_requires_grad: bool, hooks: Iterable[str], no_grad: bool, chosen: int = 0
) -> Picture:
    """Draw the events as numbered boxes in lanes, forward from left to right, below it backward from right to left.

    chosen: the number, from 0, of the event that is outlined and told in words.
    """
    events = _fired(model_id, x_requires_grad, frozenset(hooks), no_grad)
    modules, tensors = lanes(model_id)
    forward = [event for event in events if event.phase == "forward"]
    backward = [event for event in events if event.phase == "backward"]
    columns = max(len(forward), len(backward), FEWEST)
    top = 92
    middle = top + len(modules) * LANE + 36
    bottom = middle + (len(modules) + len(tensors)) * LANE if backward else middle
    canvas = Canvas(LEFT + columns * SLOT + MARGIN, bottom + 40)

    canvas.title(_title(model_id, x_requires_grad, no_grad))
    canvas.text(MARGIN, 40, EXPRESSIONS[model_id], color=SOFT_INK)
    if events:
        words = f"event {chosen + 1} of {len(events)}: {event_in_words(events[chosen])}"
        canvas.text(MARGIN, 58, words, weight="bold")
    _draw_lanes(canvas, "forward →", modules, top)
    if backward:
        _draw_lanes(canvas, "← backward", modules + tensors, middle)
    else:
        canvas.note(MARGIN, middle - 12, _why_no_backward(no_grad))
    start = columns - len(forward) if backward else 0
    stands = [(start + n, top, modules.index(event.node)) for n, event in enumerate(forward)]
    rows = modules + tensors
    stands += [(columns - 1 - n, middle, rows.index(event.node)) for n, event in enumerate(backward)]
    _draw_events(canvas, events, [(LEFT + column * SLOT, y + lane * LANE) for column, y, lane in stands], chosen)
    for line, kinds in enumerate((list(KINDS)[:3], list(KINDS)[3:])):
        legend = " · ".join(f"{SHORT[kind]}: {KINDS[kind]}" for kind in kinds)
        canvas.note(MARGIN, bottom + 14 + 13 * line, legend)
    return Picture(canvas, _in_words(model_id, x_requires_grad, no_grad, events, chosen))


ROWS = (
    ("model", "x requires grad", "no_grad"),
    tuple(KINDS.values())[:3],
    tuple(KINDS.values())[3:],
    ("event",),
)
SETTINGS = ("model", "x requires grad", "no_grad")


def hook_explorer() -> Explorer:
    """Build the explorer: choose a model, the kinds of hook and the two switches, and go through the events."""
    anew = {"event": 0}
    controls = {
        "model": choice("model", MODELS, resets=anew),
        "x requires grad": switch("x requires grad", True, resets=anew),
        "no_grad": switch("no_grad", False, resets=anew),
        **{name: switch(name, True, resets=anew) for name in KINDS.values()},
        "event": steps("event", 0, MOST - 1, on="next event", end="last event"),
    }
    return Explorer(controls, ROWS, _of, _limits, tuple(_ahead()))


def _of(state: State) -> Picture:
    model, grad, hooks, no_grad = _settings(state)
    return draw_timeline(model, grad, hooks, no_grad, state["event"])


def _limits(state: State) -> dict[str, int]:
    return {"event": max(0, len(_fired(*_settings(state))) - 1)}


def _settings(state: State) -> tuple[str, bool, frozenset[str], bool]:
    model, grad, no_grad = (state[name] for name in SETTINGS)
    return model, grad, frozenset(kind for kind, name in KINDS.items() if state[name]), no_grad


def _ahead() -> Iterator[Mapping[str, Iterable[Any]]]:
    """All events with all kinds of hook; each model with each choice of kinds; the events of one kind alone."""
    both, names = (True, False), tuple(KINDS.values())
    yield {"model": MODELS, "x requires grad": both, "event": range(MOST)}
    yield {"model": MODELS, "x requires grad": both, "no_grad": (True,)}
    yield {name: both for name in names}
    for name in names:
        yield {"model": MODELS, "x requires grad": both, name: (False,)}
        yield {other: (other == name,) for other in names} | {"event": range(MOST)}


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = _linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(self.a(x))


def _linear(size_in: int, size_out: int) -> nn.Linear:
    """A layer without bias whose weights are zeros: no random numbers are drawn for them."""
    layer = nn.utils.skip_init(nn.Linear, size_in, size_out, bias=False, device="cpu", dtype=torch.float32)
    nn.init.zeros_(layer.weight)
    return layer


def _two_layers() -> nn.Module:
    net = nn.Sequential()
    net.add_module("a", _linear(2, 3))
    net.add_module("b", _linear(3, 1))
    return net


def _nested() -> nn.Module:
    net = nn.Sequential()
    net.add_module("block", _two_layers())
    net.add_module("c", _linear(1, 4))
    return net


MODELS: dict[str, Callable[[], nn.Module]] = {
    "nested": _nested,
    "two layers": _two_layers,
    "one layer used twice": _Twice,
}
EXPRESSIONS = {
    "two layers": "net = Sequential(a, b);  y = net(x);  y.sum().backward()",
    "nested": "net = Sequential(block, c), block = Sequential(a, b);  y = net(x);  y.sum().backward()",
    "one layer used twice": "net computes a(a(x));  y = net(x);  y.sum().backward()",
}


def _hook_module(module: nn.Module, name: str, hooks: set[str], events: list[Event]) -> None:
    def note(phase: str, kind: str, about: tuple[Any, ...]) -> None:
        shape = None if about[0] is None else tuple(about[0].shape)
        events.append(Event(phase, name, kind, shape))

    if "pre" in hooks:
        module.register_forward_pre_hook(lambda module, args: note("forward", "pre", args))
    if "forward" in hooks:
        module.register_forward_hook(lambda module, args, output: note("forward", "forward", (output,)))
    if "backward_pre" in hooks:
        module.register_full_backward_pre_hook(lambda module, grads: note("backward", "backward_pre", tuple(grads)))
    if "backward" in hooks:
        module.register_full_backward_hook(lambda module, grads, outer: note("backward", "backward", tuple(grads)))


def _hook_tensor(tensor: Tensor, name: str, hooks: set[str], events: list[Event]) -> None:
    def note(kind: str, gradient: Tensor) -> None:
        events.append(Event("backward", name, kind, tuple(gradient.shape)))

    if "tensor" in hooks:
        tensor.register_hook(lambda gradient: note("tensor", gradient))
    if "accumulate" in hooks:
        tensor.register_post_accumulate_grad_hook(lambda tensor: note("accumulate", tensor.grad))


def _short(parameter: str) -> str:
    """The name of a parameter without the containers of its layer."""
    return ".".join(parameter.split(".")[-2:])


def _draw_lanes(canvas: Canvas, heading: str, names: list[str], top: float) -> None:
    canvas.note(MARGIN, top - 12, heading)
    for row, name in enumerate(names):
        canvas.text(LEFT - 10, top + row * LANE + CELL / 2, name, align="right")


def _bars(events: Sequence[Event], places: list[tuple[float, float]]) -> list[Cell]:
    """A bar between the two hooks that open and close a module."""
    bars: list[Cell] = []
    opened: dict[tuple[str, str | None], int] = {}
    for number, event in enumerate(events):
        if event.kind in OPENING.values():
            opened[event.node, event.kind] = number
        start = opened.pop((event.node, OPENING.get(event.kind)), None)
        if start is not None:
            left, right = sorted((places[start][0], places[number][0]))
            y = places[number][1] + CELL / 2
            bars.append(Cell(left + BOX, y - 3, "", UNUSED, width=right - left - BOX, height=6))
    return bars


def _title(model_id: str, x_requires_grad: bool, no_grad: bool) -> str:
    plain = "x requires grad" if x_requires_grad else "x does not require grad"
    return f"{model_id[0].upper()}{model_id[1:]}; {plain}{'; under no_grad' if no_grad else ''}"


def _why_no_backward(no_grad: bool) -> str:
    if no_grad:
        return "Nothing was recorded, so there is no backward pass."
    return "No hook of a kind that fires in backward is chosen."


def _in_words(model_id: str, x_requires_grad: bool, no_grad: bool, events: Sequence[Event], chosen: int) -> str:
    words = [f"{_title(model_id, x_requires_grad, no_grad)}."]
    for phase in ("forward", "backward"):
        listed = [f"{n} {SHORT[e.kind]} of {e.node}" for n, e in enumerate(events, start=1) if e.phase == phase]
        words.append(f"Hooks in {phase}, in order: {', '.join(listed)}." if listed else f"No hooks in {phase}.")
    if events:
        words.append(f"Event {chosen + 1} is the {event_in_words(events[chosen])}.")
    return " ".join(words)
