"""The order in a graph that is drawn in layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
