"""Where the boxes of a graph stand and where its arrows touch them. Gradients flow down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from torchkata.pictures.backward_graph.graph import Graph
from torchkata.pictures.kit.layers import Layers, in_layers
from torchkata.pictures.style import MARGIN

BETWEEN = 26  # points between boxes, and between layers for the arrows
Size = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


def layout(graph: Graph) -> Layers:
    """Put each node one layer below the lowest of the nodes that send to it, and long edges on stops between."""
    return in_layers(_depths(graph), [(start, end, number) for number, (start, end) in enumerate(graph.edges)])


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


def place_boxes(plan: Layers, sizes: Mapping[object, Size], top: float) -> tuple[dict[object, Box], float]:
    """The box of each node, whose sizes are given, and of each stop; and where the lowest layer ends."""
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


def ports(graph: Graph, plan: Layers, boxes: dict[object, Box], side: int) -> dict[int, float]:
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
