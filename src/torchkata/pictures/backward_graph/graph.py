"""What autograd recorded behind a tensor, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

ROOT, OP, LEAF = "root", "op", "leaf"
FILLED, KEPT, EMPTY, NONE = "filled", "kept", "empty", "-"
FREED = "freed"
OVERWRITTEN = "overwritten"


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
