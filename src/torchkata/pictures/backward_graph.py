"""The graph that autograd recorded: nodes, leaves, what is kept for backward, and where gradients are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from textwrap import wrap
from typing import Any

from torch import Tensor

from torchkata.pictures.controls import Control, choice, steps, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.kit.layers import untangle
from torchkata.pictures.programs import BACKWARD, FORWARD, RETAIN, Action, Session, replay
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, EDGE, ERROR_INK, GREEN, INK, MARGIN, ORANGE, SKY, SMALL

ROOT, OP, LEAF = "root", "op", "leaf"
FILLED, KEPT, EMPTY, NONE = "filled", "kept", "empty", "-"
FREED = "freed"
OVERWRITTEN = "overwritten"
MAX_NODES = 30
LINE = 12  # points from line to line in a box
BETWEEN = 26  # points between boxes, and between layers for the arrows
LONGEST = 96  # letters in a line of the card


@dataclass(frozen=True)
class Node:
    """One backward node.

    label is its name ("MulBackward0"); kind is root, op or leaf (AccumulateGrad). name is what Python calls its
    result, or the leaf ("" for unnamed). grad is "filled" (a leaf's .grad), "kept" (by retain_grad), "empty" or, for
    results without a name, "-"; value is that gradient in writing. keeps lists what it keeps for backward.
    """

    id: int
    label: str
    kind: str
    grad: str
    name: str = ""
    value: str = ""
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """The nodes that can be reached from a tensor, its own first, and the edges in the direction of gradients.

    unrecorded names the tensors that do not require grad, unreached the tracked ones that lie elsewhere.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    unrecorded: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()


def graph_of(t: Tensor, names: dict[str, Tensor]) -> Graph:
    """Walk the graph behind t over next_functions. names: the tensors that have a name. Touches no gradient."""
    found = [t.grad_fn] if t.grad_fn is not None else []
    numbers = {node: number for number, node in enumerate(found)}
    edges = []
    for node in found:  # grows while it is walked
        for following, _ in node.next_functions:
            if following is None:
                continue
            if following not in numbers:
                numbers[following] = len(found)
                found.append(following)
            edges.append((numbers[node], numbers[following]))
    nodes = tuple(_describe(number, node, names) for number, node in enumerate(found))
    shown = {name for node in nodes for name in node.name.split(", ")}
    tracked = {name: x.requires_grad for name, x in names.items()}
    return Graph(
        nodes,
        tuple(edges),
        tuple(name for name, yes in tracked.items() if not yes),
        tuple(name for name, yes in tracked.items() if yes and name not in shown),
    )


@dataclass(frozen=True)
class Layout:
    """Layers from top to bottom; in each, from left to right, ids of nodes, and edges that only pass through.

    routes lists, for each edge of the graph, the stops between its two ends.
    """

    layers: tuple[tuple[object, ...], ...]
    routes: tuple[tuple[object, ...], ...]


def layout(graph: Graph) -> Layout:
    """Put each node one layer below the lowest of the nodes that send to it, and long edges on stops between."""
    depth = _depths(graph)
    layers: list[list[object]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in graph.nodes:
        layers[depth[node.id]].append(node.id)
    routes: list[tuple[object, ...]] = []
    links: list[tuple[object, object]] = []
    for number, (start, end) in enumerate(graph.edges):
        stops = [("stop", number, level) for level in range(depth[start] + 1, depth[end])]
        for stop in stops:
            layers[stop[2]].append(stop)
        routes.append(tuple(stops))
        links += pairwise([start, *stops, end])
    untangle(layers, links)
    return Layout(tuple(map(tuple, layers)), tuple(routes))


def draw_graph(graph: Graph, program: str, status: str, error: str | None = None) -> Picture:
    """Draw the program and below it the graph; gradients flow down. error is shown in its place on the card."""
    code = [_shortened(line) for line in program.strip().splitlines()]
    refusal = wrap(error or "", 92)
    top = 30 + 14 * len(code) + 14 * len(refusal)
    if len(graph.nodes) > MAX_NODES:
        return _too_many(graph, code)
    plan = layout(graph)
    boxes, height = _place_boxes(graph, plan, top + 16)
    width = max([right for _, _, right, _ in boxes.values()] + [430.0]) + MARGIN
    notes = _notes(graph)
    lines = max(5.3 * max(map(len, [*code, ""])), 6.6 * len(status))
    canvas = Canvas(max(width, lines + 2 * MARGIN, 500), height + 14 * len(notes) + 14)

    canvas.title(status)
    canvas.lines(MARGIN, 36, map(_indented, code), SMALL, family="monospace")
    canvas.lines(MARGIN, 36 + 14 * len(code), refusal, SMALL, color=ERROR_INK)
    _draw_edges(canvas, graph, plan, boxes)
    for node in graph.nodes:
        _draw_node(canvas, node, boxes[node.id])
    canvas.notes(MARGIN, height + 6, notes)
    return Picture(canvas, graph_in_words(graph, code, status, error))


def graph_in_words(graph: Graph, code: Sequence[str], status: str, error: str | None = None) -> str:
    """The picture as sentences: one for each node."""
    called = _called(graph)
    sentences = [f"{status}, for the lines: {'; '.join(code)}."]
    if error:
        sentences.append(f"{error.rstrip('.')}.")
    for node in graph.nodes:
        details = _details(node)
        targets = [called[end] for start, end in graph.edges if start == node.id]
        said = called[node.id] + (f" ({'; '.join(details)})" if details else "")
        sentences.append(f"{said} sends to {', '.join(targets)}." if targets else f"{said}.")
    return " ".join([*sentences, *(f"{note}." for note in _notes(graph)[:-1])])


def graph_picture(program: str, rounds: int = 0, retain: Sequence[str] = (), gradient: str = "") -> Picture:
    """Run the program and draw its graph; with rounds, after so many times forward and backward.

    retain: names on which retain_grad is called in each round. gradient: the vector for backward, as text.
    """
    one_round = [(FORWARD,), *((RETAIN, name) for name in retain), (BACKWARD,)]
    session = replay(program, one_round * rounds or [(FORWARD,)], gradient)
    story = f"after {_times(rounds, 'forward and backward')}" if rounds and not session.error else ""
    return _picture_of(session, program, story, session.error)


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
    return f"retain_grad: {', '.join(strange)} is no result with a grad_fn; these are: {', '.join(results) or 'none'}"


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


def _describe(number: int, node: Any, names: dict[str, Tensor]) -> Node:
    label = node.name().rpartition("::")[2]
    leaf = getattr(node, "variable", None)
    if leaf is not None:
        called = _names_of(names, lambda x: x is leaf) or ("not named",)
        filled = leaf.grad is not None
        value = _written(leaf.grad) if filled else "None"
        return Node(number, label, LEAF, FILLED if filled else EMPTY, ", ".join(called), value)
    called = _names_of(names, lambda x: x.grad_fn is node)
    kind = OP if number else ROOT
    keeps = _keeps(node, names)
    retained = [names[name].grad for name in called if names[name].retains_grad]
    if not called:
        return Node(number, label, kind, NONE, keeps=keeps)
    if not retained or retained[0] is None:
        return Node(number, label, kind, EMPTY, ", ".join(called), "None" if retained else "", keeps)
    return Node(number, label, kind, KEPT, ", ".join(called), _written(retained[0]), keeps)


def _names_of(names: dict[str, Tensor], fits: Callable[[Tensor], bool]) -> tuple[str, ...]:
    return tuple(name for name, x in names.items() if fits(x))


def _keeps(node: Any, names: dict[str, Tensor]) -> tuple[str, ...]:
    """What the node keeps for backward, by name where it has one."""
    kept: dict[str, None] = {}
    for attribute in dir(node):
        if not attribute.startswith("_saved_"):
            continue
        try:
            value = getattr(node, attribute)
        except RuntimeError as refusal:
            kept[OVERWRITTEN if "inplace operation" in str(refusal) else FREED] = None
            continue
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Tensor):
                kept[_name_kept(part, attribute, names)] = None
    return tuple(kept)


def _name_kept(part: Tensor, attribute: str, names: dict[str, Tensor]) -> str:
    if attribute in ("_saved_result", "_saved_output"):
        return "its result"
    same = _names_of(names, lambda x: x.numel() > 0 and x.data_ptr() == part.data_ptr())
    for fits in (lambda x: x.shape == part.shape and x.grad_fn is part.grad_fn, lambda x: x.shape == part.shape):
        for name in same:
            if fits(names[name]):
                return name
    if same:
        return f"a view of {same[0]}"
    if part.dim() == 0 and not part.requires_grad:
        try:
            return f"{part.item():g}"
        except RuntimeError:  # a number such as the 2 of w * 2 can't be read while a TorchDispatchMode is on
            return "a number"
    return "an unnamed result" if part.requires_grad else "an unnamed tensor"


def _written(t: Tensor) -> str:
    """A gradient with up to four numbers as text, else its shape."""
    if t.numel() > 4:
        return f"of shape {tuple(t.shape)}"

    def write(part: Any) -> str:
        return f"[{', '.join(map(write, part))}]" if isinstance(part, list) else f"{part:.4g}"

    return write(t.detach().tolist())


def _depths(graph: Graph) -> dict[int, int]:
    """The length of the longest path from the first node to each node."""
    incoming = Counter(end for _, end in graph.edges)
    following: dict[int, list[int]] = {}
    for start, end in graph.edges:
        following.setdefault(start, []).append(end)
    depth = {node.id: 0 for node in graph.nodes}
    ready = [node.id for node in graph.nodes if not incoming[node.id]]
    for start in ready:  # grows while it is walked
        for end in following.get(start, []):
            depth[end] = max(depth[end], depth[start] + 1)
            incoming[end] -= 1
            if not incoming[end]:
                ready.append(end)
    return depth


Box = tuple[float, float, float, float]


def _place_boxes(graph: Graph, plan: Layout, top: float) -> tuple[dict[object, Box], float]:
    """(left, top, right, bottom) of each node and of each stop, and where the lowest layer ends."""
    sizes: dict[object, tuple[float, float]] = {node.id: _size(node) for node in graph.nodes}
    widths = [sum(sizes.get(item, (8, 0))[0] + BETWEEN for item in layer) - BETWEEN for layer in plan.layers]
    middle = MARGIN + max([*widths, 406]) / 2
    boxes, y = {}, top
    for layer, width in zip(plan.layers, widths, strict=True):
        height = max(sizes.get(item, (8, 0))[1] for item in layer)
        x = middle - width / 2
        for item in layer:
            across, down = sizes.get(item, (8, height))
            boxes[item] = (x, y, x + across, y + (down if item in sizes else height))
            x += across + BETWEEN
        y += height + BETWEEN
    return boxes, y - (BETWEEN - 12 if plan.layers else 0)


def _size(node: Node) -> tuple[float, float]:
    lines = [node.label + "  ", *_details(node)]
    return max(5.2 * max(map(len, lines)) + 14, 96), LINE * len(lines) + 10


def _details(node: Node) -> list[str]:
    """The lines under a node's label."""
    if node.kind == LEAF:
        return [f"leaf: {node.name}", f".grad {node.value}"]
    lines = ["backward starts here"] if node.kind == ROOT else []
    lines += [f"result: {node.name}"] if node.name else []
    lines += [_keeping(node.keeps)] if node.keeps else []
    if node.grad == KEPT:
        lines.append(f".grad kept: {node.value}")
    elif node.value:
        lines.append("retain_grad: .grad None")
    return lines


def _keeping(keeps: tuple[str, ...]) -> str:
    if FREED in keeps:
        return "what it kept is freed"
    return "what it keeps was overwritten" if OVERWRITTEN in keeps else f"keeps {', '.join(keeps)}"


def _draw_node(canvas: Canvas, node: Node, box: Box) -> None:
    left, top, right, bottom = box
    spoiled = OVERWRITTEN in node.keeps
    if node.kind == LEAF:
        look = (GREEN, INK, 2) if node.grad == FILLED else (BLANK, EDGE, 1)
        canvas.rounded(left + 1, top + 1, right - left - 2, bottom - top - 2, *look)
    else:
        fill = ORANGE if node.grad == KEPT else SKY
        canvas.cells([Cell(left, top, "", fill, node.kind == ROOT, right - left, bottom - top)])
    middle = (left + right) / 2
    for number, line in enumerate([node.label, *_details(node)]):
        weight = "bold" if not number or (spoiled and line.startswith("what")) else "normal"
        canvas.text(middle, top + 11 + LINE * number, line, SMALL, "center", weight=weight)


def _draw_edges(canvas: Canvas, graph: Graph, plan: Layout, boxes: dict[object, Box]) -> None:
    """Draw an arrow for each edge, over its stops; edges that leave or enter a node together stand side by side."""
    leaving = _ports(graph, plan, boxes, 0)
    entering = _ports(graph, plan, boxes, 1)
    for number, (start, end) in enumerate(graph.edges):
        points = [(leaving[number], boxes[start][3])]
        for stop in plan.routes[number]:
            left, top, right, bottom = boxes[stop]
            points += [((left + right) / 2, top), ((left + right) / 2, bottom)]
        if plan.routes[number]:
            x, y = zip(*points, strict=True)
            canvas.line(x, y, level=1, cap="projecting")
        canvas.arrow(points[-1], (entering[number], boxes[end][1]))


def _ports(graph: Graph, plan: Layout, boxes: dict[object, Box], side: int) -> dict[int, float]:
    """Where each edge touches its start (side 0) or end (side 1): spread, in the order of their other ends."""
    groups: dict[int, list[int]] = {}
    for number, edge in enumerate(graph.edges):
        groups.setdefault(edge[side], []).append(number)

    def other(number: int) -> float:
        stops = plan.routes[number]
        item = (stops[0] if side == 0 else stops[-1]) if stops else graph.edges[number][1 - side]
        return boxes[item][0] + boxes[item][2]

    ports = {}
    for node, numbers in groups.items():
        left, _, right, _ = boxes[node]
        step = min(24, (right - left) / (len(numbers) + 1))
        for place, number in enumerate(sorted(numbers, key=other)):
            ports[number] = (left + right) / 2 + step * (place - (len(numbers) - 1) / 2)
    return ports


def _called(graph: Graph) -> dict[int, str]:
    """What a sentence calls each node: its label, with a number where several have it."""
    many = Counter(node.label for node in graph.nodes if node.kind != LEAF)
    count: Counter[str] = Counter()
    called = {}
    for node in graph.nodes:
        if node.kind == LEAF:
            called[node.id] = f"AccumulateGrad of {node.name}"
            continue
        count[node.label] += 1
        called[node.id] = node.label + (f" no. {count[node.label]}" if many[node.label] > 1 else "")
    return called


def _notes(graph: Graph) -> list[str]:
    notes = []
    if graph.unrecorded:
        notes += _listed("Not recorded (does not require grad): ", graph.unrecorded)
    if graph.unreached:
        notes += _listed("Recorded, but not part of this graph: ", graph.unreached)
    legend = (
        "Arrows: the way of gradients. Rounded: a leaf, filled once it has a .grad. Orange: .grad kept by retain_grad."
    )
    return [*notes, legend]


def _listed(words: str, names: tuple[str, ...]) -> list[str]:
    return wrap(words + ", ".join(names), LONGEST)


def _indented(line: str) -> str:
    """The line with spaces in front that SVG doesn't swallow."""
    bare = line.lstrip()
    return "\u00a0" * (len(line) - len(bare)) + bare


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST else line[: LONGEST - 2] + " …"


def _too_many(graph: Graph, code: list[str]) -> Picture:
    words = f"This graph has {len(graph.nodes)} nodes; the picture has room for {MAX_NODES}."
    canvas = Canvas(520, 60)
    canvas.title("Too large to draw")
    canvas.text(MARGIN, 42, words, color=ERROR_INK)
    return Picture(canvas, f"{words} The lines: {'; '.join(code)}.")
