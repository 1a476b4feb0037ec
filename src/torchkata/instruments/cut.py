"""Where torch.compile cuts a joint graph into forward and backward, and what crosses the cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import (  # type: ignore[import-untyped]  # functorch tells no types
    default_partition,
    make_boxed_func,
    min_cut_rematerialization_partition,
)
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd

from torchkata.instruments.captured import fresh_compiler, note_use


@dataclass(frozen=True)
class Cut:
    """What the two halves are, for one run.

    kept: bytes that the forward graph hands to the backward graph; every storage once, and none of an input.
    forward, backward: the graphs' calls, by name. crosses: what the forward graph hands over, by name; an input is a
    primal.
    """

    kept: int
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    crosses: tuple[str, ...]


def cut_of(fn: Callable[..., Tensor], inputs: Sequence[Tensor], recompute: bool) -> Cut:
    """Compile fn with AOTAutograd, run it forward and backward once, and say where it was cut.

    recompute: cut by the min-cut, which computes again what is cheap; else by torch's default partition.
    """
    note_use("cut_of")
    halves: dict[str, tuple[str, ...]] = {}
    kept: dict[int, int] = {}

    def forward(graph: fx.GraphModule, examples: list) -> Callable:
        halves["forward"], halves["crosses"] = _calls(graph), _handed_over(graph)

        def run(*args: Any) -> Any:
            outs = graph(*args)
            inside = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
            storages = [t.untyped_storage() for t in outs[1:] if isinstance(t, Tensor)]
            kept.update({one.data_ptr(): one.nbytes() for one in storages if one.data_ptr() not in inside})
            return outs

        return make_boxed_func(run)

    def backward(graph: fx.GraphModule, examples: list) -> Callable:
        halves["backward"] = _calls(graph)
        return make_boxed_func(graph.forward)

    partition = min_cut_rematerialization_partition if recompute else default_partition
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
    with fresh_compiler():
        backend = aot_autograd(fw_compiler=forward, bw_compiler=backward, partition_fn=partition)
        torch.compile(fn, backend=backend)(*leaves).sum().backward()
    return Cut(sum(kept.values()), **halves)


def _calls(graph: fx.GraphModule) -> tuple[str, ...]:
    return tuple(node.name for node in graph.graph.nodes if node.op == "call_function")


def _handed_over(graph: fx.GraphModule) -> tuple[str, ...]:
    """The names of the outputs after the first, which is the function's result."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return tuple(dict.fromkeys(node.name for node in output.args[0][1:] if isinstance(node, fx.Node)))
