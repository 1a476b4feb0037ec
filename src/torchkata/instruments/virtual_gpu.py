"""A real step as calls for two lanes: what Python would queue, and how long an invented GPU would work on it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from torchkata.instruments.lanes import Call

# operations that only describe memory in another way, or reserve some: no kernel runs
NO_KERNEL = frozenset(
    [
        "view",
        "t",
        "transpose",
        "expand",
        "_unsafe_view",
        "unsqueeze",
        "squeeze",
        "detach",
        "permute",
        "slice",
        "select",
        "split",
        "unbind",
        "as_strided",
        "alias",
        "lift_fresh",
        "empty",
        "empty_like",
        "_record_function_enter_new",
        "_record_function_exit",
    ]
)


class VirtualGPU(TorchDispatchMode):
    """Notes a call (launch, work, waits), in microseconds, for each operation inside its `with` block.

    work is the longer of arithmetic and traffic, and at least `shortest`. The defaults are round, invented numbers:
    6 µs to queue, 400 TFLOP/s, 2 TB/s. names: of the operations, one for each call.
    """

    def __init__(self, launch: float = 6.0, flops: float = 400e12, bandwidth: float = 2e12, shortest: float = 2.0):
        super().__init__()
        self.launch, self.flops, self.bandwidth, self.shortest = launch, flops, bandwidth, shortest
        self.calls: list[Call] = []
        self.names: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            self._note(name, 0.0, True)
        elif name not in NO_KERNEL:
            formula = flop_registry.get(func.overloadpacket)
            flops = formula(*args, **kwargs, out_val=out) if formula else 0
            moved = sum(t.nbytes for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor))
            self._note(name, max(self.shortest, 1e6 * flops / self.flops, 1e6 * moved / self.bandwidth), False)
        return out

    def _note(self, name: str, work: float, waits: bool) -> None:
        self.names.append(name)
        self.calls.append((self.launch, work, waits))
