"""The order in a graph that is drawn in layers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple


class Layers(NamedTuple):
    """A graph in layers: in each its items, and the stops at which longer edges pass through; for each edge the stops
    between its two ends."""

    layers: Sequence[Sequence[object]]
    routes: Sequence[Sequence[object]]


def in_layers(depth: Mapping[Any, int], edges: Iterable[tuple[object, object, Hashable]]) -> Layers:
    """Order a graph in layers. depth: the layer of each item. edges: (start, end, name), each to a deeper layer; edges
    of one name share their stops."""
    layers: list[list[object]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for item, level in depth.items():
        layers[level].append(item)
    routes: list[list[object]] = []
    links: list[tuple[object, object]] = []
    for start, end, name in edges:
        stops: list[object] = []
        for level in range(depth[start] + 1, depth[end]):
            stop = (name, level)
            if stop not in layers[level]:
                layers[level].append(stop)
            stops.append(stop)
        routes.append(stops)
        links += pairwise([start, *stops, end])
    untangle(layers, links)
    return Layers(layers, routes)


def untangle(layers: list[list[object]], links: Iterable[tuple[object, object]]) -> None:
    """Sort each layer by where the neighbours of its items stand, there and back a few times, so that few links cross.

    Each link leads from an item to one in the next layer.
    """
    before: dict[object, list[object]] = {}
    after: dict[object, list[object]] = {}
    for start, end in links:
        before.setdefault(end, []).append(start)
        after.setdefault(start, []).append(end)
    for neighbours, order in ((before, layers[1:]), (after, layers[-2::-1])) * 3:
        place = {item: at for layer in layers for item, at in _shares(layer)}
        for layer in order:
            middle = {item: _mean([place[n] for n in neighbours.get(item, [item])]) for item in layer}
            layer.sort(key=middle.__getitem__)
            place |= _shares(layer)


def _shares(layer: Sequence[object]) -> list[tuple[object, float]]:
    """Each item of a layer and where it stands in it, from 0 to 1."""
    return [(item, (number + 0.5) / len(layer)) for number, item in enumerate(layer)]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
