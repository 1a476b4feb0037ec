"""Who calls whom when a custom Function runs: the calls in order, and the node that hangs on the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from torchkata.pictures.controls import choice, switch
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, ERROR_INK, GREEN, MARGIN, ORANGE, SKY, UNUSED

CALLS = ("apply", "forward")
RETURNS = ("right", "too few", "float64")
K = 3.0  # the k that is passed; the default is 1

YOU, APPLY, ENGINE, BACKWARD = "your code", "apply", "the engine", "backward"


@dataclass(frozen=True)
class Event:
    """One line of the log: who acts (`where`), and what happens."""

    where: str
    what: str


@dataclass(frozen=True)
class CallLog:
    """What happened in order; the node on the results (None: no node); x.grad with its dtype; torch's refusal."""

    events: tuple[Event, ...]
    node: str | None
    grad: float | None
    error: str | None


def call_log(
    x_grad: bool = True,
    k_given: bool = False,
    call: str = "apply",
    second_output_used: bool = False,
    materialize: bool = True,
    returns: str = "right",
    grad_mode: bool = True,
) -> CallLog:
    """Run a Function with two results, 10 * k * x and 100 * x at x = 1, and its backward pass; note each call.

    x_grad: does x require grad? k_given: is k = 3 passed, or its default 1 used? call: "apply" or "forward".
    second_output_used: is the second result a part of what is differentiated? materialize: what
    ctx.set_materialize_grads gets. returns: what backward returns: "right", "too few" values or a "float64" gradient.
    grad_mode: False runs the forward pass under torch.no_grad. Other words raise ValueError.
    """
    if call not in CALLS or returns not in RETURNS:
        raise ValueError(f"call is one of {', '.join(CALLS)}; returns is one of {', '.join(RETURNS)}.")
    events: list[Event] = []

    def note(where: str, what: str) -> None:
        events.append(Event(where, what))

    two = _function(note, call, materialize, returns)
    x = torch.tensor(1.0, dtype=torch.float32, device="cpu", requires_grad=x_grad)
    given = (x, K) if k_given else (x,)  # in order: apply takes keywords only since torch 2.13
    note(YOU, f"Two.{call}(x{f', {K}' if k_given else ''}){'' if grad_mode else ' under no_grad'}")
    with torch.set_grad_enabled(grad_mode):
        first, second = getattr(two, call)(*given)
    node = type(first.grad_fn).__name__ if first.grad_fn is not None else None
    note(*_hung(call, node))

    with torch.enable_grad():
        result = first + second if second_output_used else first
    note(YOU, f"{'(first + second)' if second_output_used else 'first'}.backward()")
    error = _refusal(result.backward)
    if error or x.grad is None:
        note(ENGINE, "RuntimeError")
    else:
        note(ENGINE, f"x.grad = {x.grad.item()}, {_name(x.grad.dtype)}")
    return CallLog(tuple(events), node, None if x.grad is None else x.grad.item(), error)


def _refusal(act: Callable[[], None]) -> str | None:
    """What torch says where it refuses, in one line."""
    try:
        act()
    except RuntimeError as refusal:
        return str(refusal).partition("\n")[0]
    return None


def _function(note: Callable[[str, str], None], call: str, materialize: bool, returns: str) -> type[Function]:
    """Make the Function whose methods note that they are called."""

    class Two(Function):
        @staticmethod
        def forward(x: Tensor, k: float = 1.0) -> tuple[Tensor, Tensor]:
            mode = "on" if torch.is_grad_enabled() else "off"
            caller = APPLY if call == "apply" else YOU
            note(caller, f"calls forward(x={x.item()}, k={k}): grad mode {mode}, x.requires_grad {x.requires_grad}")
            return 10 * k * x, 100 * x

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            x, k = inputs
            first, second = output
            note(APPLY, f"calls setup_context: inputs ({x.item()}, {k}), output ({first.item()}, {second.item()})")
            ctx.k = k
            ctx.set_materialize_grads(materialize)

        @staticmethod
        def backward(ctx: Any, g_first: Tensor, g_second: Tensor | None) -> Any:
            note(ENGINE, f"calls backward(ctx, g_first={_gradient(g_first)}, g_second={_gradient(g_second)})")
            grad = 10 * ctx.k * g_first
            if g_second is not None:
                grad = grad + 100 * g_second
            if returns == "too few":
                note(BACKWARD, f"returns {grad.item()} alone, and nothing for k")
                return grad
            if returns == "float64":
                grad = grad.double()
            note(BACKWARD, f"returns ({grad.item()}, None), {_name(grad.dtype)}")
            return grad, None

    return Two


def _hung(call: str, node: str | None) -> tuple[str, str]:
    if call == "apply":
        return APPLY, f"attaches the node {node} to both results" if node else "attaches no node to the results"
    return YOU, f"first has the node {node}: recorded as ordinary code" if node else "nothing was recorded: no node"


def _gradient(gradient: Tensor | None) -> str:
    return "None" if gradient is None else str(gradient.item())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


WHERE_AT, WHAT_AT, GRAPH_AT = MARGIN + 18, MARGIN + 84, 446
LINE, TOP = 21, 66
LINES = 8  # the longest log; the card keeps its size while one switches
BOX, BOX_HEIGHT = 60, 30
WIDTH = GRAPH_AT + 178


def draw_call_log(log: CallLog) -> Picture:
    """Draw the log as a list, and beside it x, the node and the two results."""
    refusal = wrap(log.error or "", 96)
    canvas = Canvas(WIDTH, TOP + LINES * LINE + 18 + 14 * 2)
    canvas.title("Who calls whom")
    canvas.note(WHERE_AT, TOP - 22, "who")
    canvas.note(WHAT_AT, TOP - 22, "does what")
    for number, event in enumerate(log.events):
        y = TOP + number * LINE
        canvas.note(MARGIN, y, str(number + 1))
        canvas.text(WHERE_AT, y, event.where, weight="bold")
        canvas.text(WHAT_AT, y, event.what)
    canvas.lines(MARGIN, TOP + LINES * LINE + 12, refusal, color=ERROR_INK)
    _draw_graph(canvas, log)
    return Picture(canvas, _in_words(log))


def _draw_graph(canvas: Canvas, log: CallLog) -> None:
    """Draw x below, the node in the middle, the results above: as the engine walks, from the results to x."""
    middle, left = GRAPH_AT + 83, GRAPH_AT
    top, node_at, x_at = TOP + 2, TOP + 62, TOP + 122
    canvas.note(GRAPH_AT, TOP - 22, "what the engine sees")
    ordinary = log.node is not None and not log.node.startswith("Two")
    results = [Cell(left + 12, top, "first", SKY, width=BOX, height=BOX_HEIGHT)]
    results.append(Cell(left + 94, top, "second", SKY, width=BOX, height=BOX_HEIGHT))
    words, fill = (log.node, BLANK if ordinary else ORANGE) if log.node else ("no node", UNUSED)
    if ordinary:
        nodes = [
            Cell(left, node_at, words, fill, width=80, height=BOX_HEIGHT),
            Cell(left + 86, node_at, words, fill, width=80, height=BOX_HEIGHT),
        ]
    else:
        nodes = [Cell(left + 28, node_at, words, fill, width=110, height=BOX_HEIGHT)]
    grad = "x.grad: none" if log.grad is None else f"x.grad: {log.grad}"
    x = Cell(left + 28, x_at, "x = 1.0", GREEN, width=110, height=BOX_HEIGHT, below=grad)
    canvas.cells([*results, *nodes, x])
    if log.node is None:
        return
    for number, result in enumerate(results):
        across = result.x + BOX / 2
        end = across if ordinary else middle + (-20, 20)[number]
        canvas.arrow((across, top + BOX_HEIGHT), (end, node_at))
    for node in nodes:
        start = node.x + node.width / 2
        canvas.arrow((start, node_at + BOX_HEIGHT), (start if not ordinary else middle + (start - middle) / 3, x_at))


def _in_words(log: CallLog) -> str:
    lines = " ".join(f"{number}. {event.where}: {event.what}." for number, event in enumerate(log.events, 1))
    error = f" The error: {log.error}" if log.error else ""
    node = f"The node on the results: {log.node}." if log.node else "The results have no node."
    return f"Who calls whom. {lines} {node}{error}"


ROWS = (
    ("call", "backward returns"),
    ("x requires grad", "grad mode", "pass k"),
    ("use the second result", "materialize_grads"),
)


def call_log_explorer() -> Explorer:
    """Build the explorer: switches for the call, for what is used, and for what backward returns."""
    controls = {
        "call": choice("call", CALLS, about="which method of the Function is called"),
        "backward returns": choice("backward returns", RETURNS),
        "x requires grad": switch("x requires grad", True),
        "grad mode": switch("grad mode on", True),
        "pass k": switch(f"pass k = {K} (default 1.0)", False),
        "use the second result": switch("use the second result", False),
        "materialize_grads": switch("materialize_grads", True, "zeros instead of None for an unused result"),
    }

    def draw(state: State) -> Picture:
        log = call_log(
            x_grad=state["x requires grad"],
            k_given=state["pass k"],
            call=state["call"],
            second_output_used=state["use the second result"],
            materialize=state["materialize_grads"],
            returns=state["backward returns"],
            grad_mode=state["grad mode"],
        )
        return draw_call_log(log)

    return Explorer(controls, ROWS, draw)
