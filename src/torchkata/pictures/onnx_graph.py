"""The graph in an ONNX model: operators in layers, what flows between them, and the weights that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, NamedTuple

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.kit.layers import in_layers
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, MARGIN, ORANGE, SKY, SMALL, YELLOW

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

INPUT, OUTPUT = "input", "output"
MAX_NODES = 24

# points: of a box, of an initializer's box, between boxes of a layer, from the end of a label to the next layer
BOX, HELD, BETWEEN, SLOPE = 26, 28, 18, 15
Place = tuple[float, float, float, float]  # left, top, right, bottom
LETTER = 4.8  # points that a letter of the small size takes, at most


class Node(NamedTuple):
    """One box: an operator, or an input or output of the graph (op is "input" or "output", id its tensor's name).

    layer counts from the inputs, 0. initializers: name and sizes of each weight that it reads, such as "2×3"; for a
    constant of few numbers these numbers, such as "= 4, -1".
    """

    id: str
    op: str
    layer: int
    initializers: tuple[tuple[str, str], ...] = ()


class Edge(NamedTuple):
    """A tensor on its way from the node that makes it to one that reads it; shape is written as "batch×3"."""

    src: str
    dst: str
    tensor: str
    shape: str


class GraphLayout(NamedTuple):
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_layout(model: ModelProto) -> GraphLayout:
    """The nodes of the model's graph with their layers, and the edges; each edge leads to a higher layer."""
    graph = model.graph
    weights = {weight.name: _held(weight) for weight in graph.initializer}
    shapes = _shapes(graph)
    made_by = {value.name: f"in {value.name}" for value in graph.input if value.name not in weights}
    readers: list[tuple[str, str, tuple[str, ...]]] = []
    for number, node in enumerate(graph.node):
        name = f"{number} {node.op_type}"
        made_by |= dict.fromkeys(node.output, name)
        readers.append((name, node.op_type, tuple(node.input)))
    readers += [(f"out {value.name}", OUTPUT, (value.name,)) for value in graph.output]

    edges = tuple(
        Edge(made_by[tensor], name, tensor, shapes.get(tensor, "?"))
        for name, _, tensors in readers
        for tensor in dict.fromkeys(tensors)
        if tensor in made_by
    )
    layers = _layers([*dict.fromkeys(made_by.values()), *(name for name, *_ in readers)], edges)
    inputs = [Node(name, INPUT, layers[name]) for tensor, name in made_by.items() if name == f"in {tensor}"]
    others = [
        Node(name, op, layers[name], tuple((t, weights[t]) for t in dict.fromkeys(tensors) if t in weights))
        for name, op, tensors in readers
    ]
    return GraphLayout((*inputs, *others), edges)


def graph_picture(model: ModelProto, title: str) -> Picture:
    """Draw the graph of a model, from its inputs on the left to its outputs on the right."""
    layout = graph_layout(model)
    if len(layout.nodes) > MAX_NODES:
        raise ValueError(f"The graph has {len(layout.nodes)} nodes; the picture has room for {MAX_NODES}.")
    width, height = graph_size(layout)
    canvas = Canvas(max(width + 2 * MARGIN, 500), height + 66)
    canvas.title(title)
    draw_layout(canvas, layout, MARGIN, 36)
    canvas.note(MARGIN, height + 52, LEGEND)
    return Picture(canvas, f"{title}. {graph_in_words(layout)}")


LEGEND = "Blue: operators. Yellow, below them: the weights and constants that they read. On an arrow: the shape."


def graph_in_words(layout: GraphLayout) -> str:
    """One sentence for each node: what it reads, and what it holds."""
    called = {node.id: _label(node) for node in layout.nodes}
    sentences = []
    for node in layout.nodes:
        read = [edge for edge in layout.edges if edge.dst == node.id]
        comes = [f"{edge.tensor} ({edge.shape}) from {called[edge.src]}" for edge in read]
        holds = [f"{name} ({sizes})" for name, sizes in node.initializers]
        said = called[node.id] if node.op not in (INPUT, OUTPUT) else f"{node.op.capitalize()} {called[node.id]}"
        said += f" reads {', '.join(comes)}" * bool(comes)
        said += (" and holds " if comes else " holds ") * bool(holds) + ", ".join(holds)
        sentences.append(said + ".")
    return " ".join(sentences)


def graph_size(layout: GraphLayout) -> tuple[float, float]:
    """The width and height of the drawing in points."""
    places, _ = _places(layout)
    return max(right for _, _, right, _ in places.values()), max(bottom for *_, bottom in places.values())


def draw_layout(canvas: Canvas, layout: GraphLayout, x: float, y: float) -> None:
    """Draw the boxes and arrows with their upper left corner at x, y."""
    places, routes = _places(layout)
    places = {item: (left + x, top + y, right + x, bottom + y) for item, (left, top, right, bottom) in places.items()}
    labelled, lines = set(), []
    for edge, stops in zip(layout.edges, routes, strict=True):
        way = [places[item] for item in (edge.src, *stops, edge.dst)]
        lines += _draw_edge(canvas, edge, way, edge.tensor not in labelled)
        labelled.add(edge.tensor)
    if lines:
        xs, ys = zip(*lines, strict=True)
        canvas.line(xs, ys, level=1, cap="projecting")
    boxes = []
    for node in layout.nodes:
        left, top, right, _ = places[node.id]
        fill = {INPUT: BLANK, OUTPUT: BLANK, "If": ORANGE}.get(node.op, SKY)
        boxes.append(Cell(left, top, "", fill, False, right - left, BOX))
        canvas.text((left + right) / 2, top + BOX / 2, _label(node), SMALL, "center", weight="bold")
        boxes += [
            Cell(left, top + BOX + HELD * i, _short(name, sizes), YELLOW, False, right - left, HELD, below=sizes)
            for i, (name, sizes) in enumerate(node.initializers)
        ]
    canvas.cells(boxes)


Point = tuple[float, float]


def _draw_edge(canvas: Canvas, edge: Edge, way: Sequence[Place], labelled: bool) -> list[Point]:
    """Draw the tip of an arrow and its label; the points of its line, which is flat as far as the label goes."""
    (_, top, right, _), *stops, (end, end_top, *_) = way
    y, label = top + BOX / 2, _label_width(edge.shape) + 6
    points = [(right, y), (right + label, y)]
    for left, stop, stop_right, _ in stops:
        points += [(left, stop + BOX / 2), (stop_right + label, stop + BOX / 2)]
    canvas.arrow(points[-1], (end, end_top + BOX / 2))
    if labelled:
        canvas.note(right + 4, y - 6.5, edge.shape)
    return [*points, (nan, nan)]


def _label(node: Node) -> str:
    return node.id.partition(" ")[2] if node.op in (INPUT, OUTPUT) else node.op


def _held(weight: TensorProto) -> str:
    """The sizes of a weight; a scalar or a list of a few whole numbers is written out."""
    from onnx import TensorProto, numpy_helper

    if weight.dims and (len(weight.dims) > 1 or weight.dims[0] > 4 or weight.data_type != TensorProto.INT64):
        return "×".join(map(str, weight.dims))
    return "= " + ", ".join(f"{number:g}" for number in numpy_helper.to_array(weight).flatten().tolist())


def _short(name: str, sizes: str) -> str:
    if sizes.startswith("="):
        return "constant"  # its name is made up
    return name if len(name) <= 14 else f"…{name[-13:]}"


def _label_width(shape: str) -> float:
    return LETTER * len(shape) + 4


def _shapes(graph: GraphProto) -> dict[str, str]:
    return {value.name: _shape(value) for value in [*graph.value_info, *graph.input, *graph.output]}


def _shape(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return "×".join(_bare(dim.dim_param) or str(dim.dim_value) for dim in dims) or "1 number"


def _bare(name: str) -> str:
    """A dimension's name; a formula such as "((3*batch)//2)" without the brackets around it."""
    return name[1:-1] if name.startswith("(") and name.endswith(")") else name


def _layers(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The length of the longest way to each node; outputs stand in the last layer."""
    layers = dict.fromkeys(names, 0)
    changed = True
    while changed:
        changed = False
        for edge in edges:
            if layers[edge.dst] <= layers[edge.src]:
                layers[edge.dst], changed = layers[edge.src] + 1, True
    reached = {edge.dst for edge in edges}
    for name in names:  # an operator that reads no tensor stands before its first reader
        after = [layers[edge.dst] for edge in edges if edge.src == name]
        if name not in reached and after and not name.startswith("in "):
            layers[name] = min(after) - 1
    last = max(layers.values())
    return {name: last if name.startswith("out ") else layer for name, layer in layers.items()}


def _places(layout: GraphLayout) -> tuple[dict[object, Place], Sequence[Sequence[object]]]:
    """(left, top, right, bottom) of each node and of each stop of a long edge; and the stops of each edge."""
    layers, routes = in_layers(
        {node.id: node.layer for node in layout.nodes}, [(edge.src, edge.dst, edge.tensor) for edge in layout.edges]
    )
    sizes: dict[object, tuple[float, float]] = {node.id: _size(node) for node in layout.nodes}
    heights = [sum(sizes.get(item, (0, BOX))[1] + BETWEEN for item in layer) - BETWEEN for layer in layers]
    shapes: dict[object, str] = {edge.src: edge.shape for edge in layout.edges}
    shapes |= {stop: edge.shape for edge, stops in zip(layout.edges, routes, strict=True) for stop in stops}
    several = [height for layer, height in zip(layers, heights, strict=True) if len(layer) > 1]
    middle = max([BOX, *several]) / 2
    places: dict[object, Place] = {}
    x = 0.0
    for items, height in zip(layers, heights, strict=True):
        y = middle - (height if len(items) > 1 else BOX) / 2  # the boxes of a plain chain stand in one line
        across = max(sizes.get(item, (8, BOX))[0] for item in items)
        for item in items:
            width, down = sizes.get(item, (across, BOX))
            left = x + (across - width) / 2
            places[item] = (left, y, left + width, y + down)
            y += down + BETWEEN
        gap = max([_label_width(shapes[item]) for item in items if item in shapes], default=0)
        x += across + gap + SLOPE
    return places, routes


def _size(node: Node) -> tuple[float, float]:
    words = [_label(node) + " ", *(word for name, sizes in node.initializers for word in (_short(name, sizes), sizes))]
    return max(5.1 * max(map(len, words)) + 8, 34), BOX + HELD * len(node.initializers)
