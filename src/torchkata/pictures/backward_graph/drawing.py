"""The graph as a picture and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from torchkata.pictures.backward_graph.graph import FILLED, FREED, KEPT, LEAF, OVERWRITTEN, ROOT, Graph, Node
from torchkata.pictures.backward_graph.layout import Box, Size, layout, place_boxes, ports
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.kit.layers import Layers
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, EDGE, ERROR_INK, GREEN, INK, MARGIN, ORANGE, SKY, SMALL

MAX_NODES = 30
LINE = 12  # points from line to line in a box
LONGEST = 96  # letters in a line of the card


def draw_graph(graph: Graph, program: str, status: str, error: str | None = None) -> Picture:
    """Draw the program and below it the graph; gradients flow down. error is shown in its place on the card."""
    code = [_shortened(line) for line in program.strip().splitlines()]
    refusal = wrap(error or "", 92)
    top = 30 + 14 * len(code) + 14 * len(refusal)
    if len(graph.nodes) > MAX_NODES:
        return _too_many(graph, code)
    plan = layout(graph)
    boxes, height = place_boxes(plan, {node.id: _size(node) for node in graph.nodes}, top + 16)
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


def _size(node: Node) -> Size:
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


def _draw_edges(canvas: Canvas, graph: Graph, plan: Layers, boxes: dict[object, Box]) -> None:
    """Draw an arrow for each edge, over its stops; edges that leave or enter a node together stand side by side."""
    leaving = ports(graph, plan, boxes, 0)
    entering = ports(graph, plan, boxes, 1)
    for number, (start, end) in enumerate(graph.edges):
        points = [(leaving[number], boxes[start][3])]
        for stop in plan.routes[number]:
            left, top, right, bottom = boxes[stop]
            points += [((left + right) / 2, top), ((left + right) / 2, bottom)]
        if plan.routes[number]:
            x, y = zip(*points, strict=True)
            canvas.line(x, y, level=1, cap="projecting")
        canvas.arrow(points[-1], (entering[number], boxes[end][1]))


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
        "Arrows: where gradients go. Rounded: a leaf, filled once it has a .grad. Orange: .grad kept by retain_grad."
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
