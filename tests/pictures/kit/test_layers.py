"""Layers are sorted so that few links cross."""

from itertools import combinations

from torchkata.pictures.kit.layers import untangle


def crossings(layers, links):
    place = {item: (number, at) for number, layer in enumerate(layers) for at, item in enumerate(layer)}
    ways = [(place[start], place[end]) for start, end in links]
    return sum(
        one[0][0] == two[0][0] and (one[0][1] - two[0][1]) * (one[1][1] - two[1][1]) < 0
        for one, two in combinations(ways, 2)
    )


def test_what_crosses_is_untangled_and_nothing_is_lost():
    layers = [["a", "b", "c"], ["x", "y", "z"]]
    links = [("a", "z"), ("b", "y"), ("c", "x")]
    assert crossings(layers, links) == 3
    untangle(layers, links)
    assert crossings(layers, links) == 0
    assert [sorted(layer) for layer in layers] == [["a", "b", "c"], ["x", "y", "z"]]


def test_items_without_neighbours_and_single_layers_stay():
    layers = [["a", "b"]]
    untangle(layers, [])
    assert layers == [["a", "b"]]
