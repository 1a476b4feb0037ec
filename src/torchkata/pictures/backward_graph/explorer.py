"""Lines of Python whose graph is shown: as they are, after some rounds, and with controls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from torchkata.pictures.backward_graph.drawing import draw_graph
from torchkata.pictures.backward_graph.graph import Graph, graph_of
from torchkata.pictures.controls import Control, choice, steps, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.programs import BACKWARD, FORWARD, RETAIN, Action, Session, replay
from torchkata.pictures.show import Picture

PRESETS = {
    "4.1 one weight, one input": (
        "w = torch.tensor([1., 2., 3.], requires_grad=True)\n"
        "x = torch.tensor([10., 20., 30.])\n"
        "y = ((w * x) + 1).sum()",
        "",
    ),
    "4.1 a result that is used twice": (
        "a = torch.tensor([1., 2.], requires_grad=True)\nb = a.exp()\nc = b * b\nd = (c + b).sum()",
        "",
    ),
    "4.2 a conversion is recorded": (
        "w = torch.ones(2, requires_grad=True)\nh = w.double()\np = nn.Parameter(h * 2)\nloss = (h * p).sum()",
        "",
    ),
    "4.3 an intermediate result": (
        "A = torch.ones(2, requires_grad=True)\nB = 2 * A\nC = B.norm()",
        "",
    ),
    "4.3 a layer": (
        "layer = nn.Linear(3, 1)\nx = torch.tensor([[1., 2., 3.]], requires_grad=True)\nloss = layer(x).mean()",
        "",
    ),
    "4.4 three outputs and a vector": (
        "w = torch.ones(3, requires_grad=True)\ny = w * torch.tensor([1., 10., 100.])",
        "0, 1, 0",
    ),
    "4.5 nothing kept: backward twice": (
        "w = torch.ones(3, requires_grad=True)\ns = (w + 1).sum()",
        "",
    ),
    "4.5 a total that grows": (
        "w = torch.tensor([.5, 1.5], requires_grad=True)\n"
        "x = torch.tensor([1., 2.])\n"
        "total = 0.\n"
        "for _ in range(3):\n"
        "    total = total + (w * x).sum()",
        "",
    ),
    "4.6 detach": (
        "w = torch.ones(2, requires_grad=True)\n"
        "v = torch.ones(2, requires_grad=True)\n"
        "h = w * 3\n"
        "d = h.detach()\n"
        "loss = (d * v).sum()",
        "",
    ),
    "4.7 a write in place": (
        "w = torch.zeros(3, requires_grad=True)\nh = w.sigmoid()\nh.mul_(2)\nloss = h.sum()",
        "",
    ),
    "4.8 a gradient as a result": (
        "x = torch.tensor(2., requires_grad=True)\n"
        "y = x.sin()\n"
        "(g,) = torch.autograd.grad(y, x, create_graph=True)\n"
        "loss = g * g",
        "",
    ),
}

MOST_ROUNDS, MOST_PASSES, MOST_LINES = 5, 3, 20
ROWS = (
    ("example",),
    ("program",),
    ("left out",),
    ("next line",),
    ("gradient", "retain_grad"),
    ("backward", "forward"),
)
AHEAD: tuple[Mapping[str, Iterable[str | int]], ...] = (
    {"example": PRESETS, "forward": range(4), "backward": range(3)},
    {"forward": range(1, MOST_ROUNDS + 1), "backward": range(2)},
    {"example": PRESETS, "left out": range(3)},
    {"next line": ("z = (y * w).sum()",), "forward": range(1, 3), "backward": range(3)},
    {"example": ("4.3 an intermediate result",), "retain_grad": ("B",), "forward": range(1, 3), "backward": range(3)},
    {"example": ("4.1 a result that is used twice",), "retain_grad": ("b", "c", "b, c"), "backward": range(2)},
    {"example": ("4.5 nothing kept: backward twice",), "backward": range(MOST_PASSES + 1)},
)


def graph_picture(program: str, rounds: int = 0, retain: Sequence[str] = (), gradient: str = "") -> Picture:
    """Run the program and draw its graph; with rounds, after so many times forward and backward.

    retain: names on which retain_grad is called in each round. gradient: the vector for backward, as text.
    """
    one_round = [(FORWARD,), *((RETAIN, name) for name in retain), (BACKWARD,)]
    session = replay(program, one_round * rounds or [(FORWARD,)], gradient)
    story = f"after {_times(rounds, 'forward and backward')}" if rounds and not session.error else ""
    return _picture_of(session, program, story, session.error)


def graph_explorer(example: str = next(iter(PRESETS))) -> Explorer:
    """Build the explorer: lines to edit, names for retain_grad, and buttons that record and walk the graph."""
    return Explorer(_controls(example), ROWS, _of, _limits, AHEAD)


def _controls(example: str) -> dict[str, Control]:
    program, gradient = PRESETS[example]
    once: dict[str, Any] = {"forward": 1, "backward": 0}
    fresh = {**once, "left out": 0, "next line": "", "retain_grad": ""}
    sets = {name: {"program": lines, "gradient": vector} for name, (lines, vector) in PRESETS.items()}
    left_out = steps("lines left out", 0, MOST_LINES, back="put it back", on="remove last line", anew="", resets=once)
    return {
        "example": choice("example", PRESETS, example, "lines to begin with", wide=True, resets=fresh, sets=sets),
        "program": text_field(
            "program",
            program,
            about="lines of Python; backward starts at the last result",
            wide=True,
            rows=5,
            resets={**once, "left out": 0},
        ),
        "left out": left_out,
        "next line": text_field(
            "next line", if_empty="z = (y * w).sum()", about="Enter adds it to the lines above", wide=True, resets=once
        ),
        "gradient": text_field("gradient", gradient, "none", "what backward is given; empty: nothing", resets=once),
        "retain_grad": text_field(
            "retain_grad on", "", "none", "names of results; it is called after each forward", resets=once
        ),
        "backward": steps("backward", 0, MOST_PASSES, back="", on="backward", anew=""),
        "forward": steps("forward", 1, MOST_ROUNDS, back="", on="forward", resets={"backward": 0}),
    }


def _of(state: State) -> Picture:
    program, problem = _program(state)
    if not state["forward"]:
        return draw_graph(Graph((), ()), program, "No graph", "Nothing has run yet: press forward.")
    actions = _actions(state)
    session = _session(program, actions, state["gradient"])
    problems = (session.error, problem, _unknown(_named(state), session))
    error = "; ".join(one for one in problems if one)
    return _picture_of(session, program, _story(actions, session), error)


def _limits(state: State) -> dict[str, int]:
    """Earlier rounds have one backward each, so a new one begins only after a backward, and not after two."""
    program, _ = _program(state)
    forward, backward = state["forward"], state["backward"]
    limits = {"left out": min(len(_lines(state)), MOST_LINES), "forward": forward, "backward": 0}
    if not forward:
        return {**limits, "forward": 1}
    session = _session(program, _actions(state), state["gradient"])
    if backward and session.passes < 2:
        limits["forward"] = min(forward + 1, MOST_ROUNDS)
    return {**limits, "backward": backward if backward and session.error else MOST_PASSES}


def _lines(state: State) -> list[str]:
    return str(state["program"]).rstrip().splitlines()


def _program(state: State) -> tuple[str, str | None]:
    """The lines that are left and the next one, and why that can't be added, or None."""
    lines = _lines(state)
    program = "\n".join(lines[: max(0, len(lines) - state["left out"])])
    line = state["next line"].strip()
    longer = f"{program}\n{line}".strip("\n")
    error = _session(longer, ((FORWARD,),), "").error if line else None
    if error and not _session(program, ((FORWARD,),), "").error:
        return program, f"not added: {error}"
    return longer, None


def _actions(state: State) -> tuple[Action, ...]:
    """What the buttons have done: rounds of forward and backward, and what came after the last forward."""
    recorded: tuple[Action, ...] = ((FORWARD,), *((RETAIN, name) for name in _named(state)))
    before = (*recorded, (BACKWARD,)) * (state["forward"] - 1)
    return (*before, *recorded, *([(BACKWARD,)] * state["backward"]))


def _named(state: State) -> list[str]:
    return str(state["retain_grad"]).replace(",", " ").split()


@lru_cache(maxsize=4)  # a state asks for three, some of them twice; each holds the tensors of a learner's program
def _session(program: str, actions: tuple[Action, ...], gradient: str) -> Session:
    return replay(program, actions, gradient)


def _unknown(names: Sequence[str], session: Session) -> str | None:
    """What is wrong with the names for retain_grad, or None."""
    results = [name for name, tensor in session.tensors.items() if tensor.grad_fn is not None]
    strange = [name for name in names if name not in results]
    if not strange:
        return None
    named = ", ".join(results) or "none"
    return f"retain_grad: {', '.join(strange)} is not a result with a grad_fn; the results are: {named}"


def _story(actions: Sequence[Action], session: Session) -> str:
    rounds = actions.count((FORWARD,))
    if session.passes:
        return f"forward {_times(rounds)}, then backward {_times(session.passes)} through this graph"
    if session.error and actions[-1] == (BACKWARD,):
        return f"forward {_times(rounds)}, then backward raised"
    return "forward: the graph is recorded" if rounds == 1 else f"forward {_times(rounds)}: a new graph"


def _times(number: int, what: str = "") -> str:
    words = {1: "once", 2: "twice"}.get(number, f"{number} times")
    return f"{what} {words}".strip()


def _picture_of(session: Session, program: str, story: str, error: str | None) -> Picture:
    if session.root is None:
        empty = Graph((), (), tuple(n for n, t in session.tensors.items() if not t.requires_grad))
        return draw_graph(empty, program, "No graph", error or "No line gives a tensor with a grad_fn.")
    named = f"Backward graph of {session.root_name or 'the last line'}"
    graph = graph_of(session.root, session.tensors)
    return draw_graph(graph, program, f"{named}, {story}" if story else named, error)
