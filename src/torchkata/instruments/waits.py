"""Which calls would make Python wait for a GPU? Counted on the CPU, by what is called and by what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

# what reads numbers on the CPU without an operation that a dispatch mode could see
READS = frozenset(
    ["tolist", "numpy", "__array__", "cpu", "__repr__", "__str__", "__format__", "__reduce_ex__", "__deepcopy__"]
)
# operations whose result is a Python number, or a tensor whose SIZE depends on numbers
NEEDS_NUMBERS = frozenset(
    [
        "_local_scalar_dense",
        "nonzero",
        "masked_select",
        "_unique2",
        "unique_dim",
        "unique_consecutive",
        "equal",
        "allclose",
        "bincount",
        "is_nonzero",
        "masked_scatter",
        "masked_scatter_",
        "to_sparse",
        "_to_sparse",
    ]
)
NAMES = {"_local_scalar_dense": "item"}


def waits(call: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """Run call() once; returns its result, and how often it would have waited for a GPU, by kind.

    On the CPU nothing really waits. Not seen are copies into a tensor that lies on the CPU, and what reads memory
    behind torch's back, such as pickle.
    """
    seen: Counter[str] = Counter()
    with _Calls(seen), _Operations(seen):
        result = call()
    return result, seen


class _Calls(TorchFunctionMode):
    """Counts the calls that read numbers; what happens inside them is not counted again."""

    def __init__(self, seen: Counter[str]):
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = self._kind(func, args, kwargs or {})
        if kind is None:
            return func(*args, **(kwargs or {}))
        if kind:
            self.seen[kind] += 1
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return func(*args, **(kwargs or {}))

    @staticmethod
    def _kind(func: Any, args: Any, kwargs: dict[str, Any]) -> str | None:
        """The kind of wait, "" for a call that waits only on the CPU, None for what `_Operations` should look at."""
        name = getattr(func, "__name__", "")
        if name == "one_hot":  # its check of the range reads numbers on the CPU only
            return "" if len(args) > 1 or "num_classes" in kwargs else name
        if name == "to" and any(_names_the_cpu(value) for value in (*args[1:], *kwargs.values())):
            return "to cpu"
        if name in ("tensor", "as_tensor", "asarray") and _names_the_cpu(kwargs.get("device")):
            return name if any(isinstance(value, Tensor) for value in args[:1]) else None
        return name if name in READS else None


def _names_the_cpu(value: object) -> bool:
    """Whether a device is named in words. A torch.device is what torch's own functions pass on, from another tensor."""
    return isinstance(value, str) and value.partition(":")[0] == "cpu"


class _Operations(TorchDispatchMode):
    """Counts the operations that need numbers on the CPU."""

    def __init__(self, seen: Counter[str]):
        super().__init__()
        self.seen = seen

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = self._kind(func.overloadpacket.__name__, args, kwargs or {})
        if kind:
            self.seen[kind] += 1
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _kind(name: str, args: Any, kwargs: dict[str, Any]) -> str:
        if name in NEEDS_NUMBERS:
            return NAMES.get(name, name)
        if name == "repeat_interleave" and kwargs.get("output_size") is None:
            return name
        masks = _masks(args) if name.startswith(("index", "_index_put")) else []
        if masks and name == "index":
            return "x[mask]"
        # one number for all places is a masked_fill, which waits for nothing
        if masks and (len(masks) > 1 or args[2].numel() != 1):
            return "x[mask] = tensor"
        return ""


def _masks(args: Any) -> list[Tensor]:
    indices = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else []
    return [i for i in indices if isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8)]
