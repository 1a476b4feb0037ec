"""Which calls would make Python wait for a GPU? Counted on the CPU, by what is called and by what runs.

What counts was compared with an H200 and torch 2.11, line by line: a line waits if it comes back only when a kernel
that was queued before it has ended.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from torchkata.instruments.host import Host, names_the_cpu, tensors_in

# what reads numbers on the CPU without an operation that a dispatch mode could see
READS = frozenset(["tolist", "numpy", "__array__", "__dlpack__", "cpu", "__repr__", "__str__", "__format__"])
# what makes a tensor of numbers
FROM_NUMBERS = frozenset(["tensor", "as_tensor", "asarray"])
# what returns a copy on another device
MOVES = frozenset(["to", "cpu", "cuda", "as_tensor", "asarray"])
# operations whose result is a Python number, or a tensor whose SIZE depends on numbers, or that look for errors
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
        "to_sparse",
        "_to_sparse",
        "_linalg_check_errors",
        "_linalg_svd",
        "_linalg_eigh",
        "linalg_lstsq",
    ]
)
NAMES = {"_local_scalar_dense": "item"}
QUIET = ""  # the call waits for nothing on a GPU, whatever it reads on the CPU


def waits(call: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """Run call() once; returns its result, and how often it would have waited for a GPU, by kind.

    On the CPU nothing really waits. Tensors from before the call are taken to lie on the GPU. On the CPU lie those that
    the call makes without a device or on "cpu", what `cpu()` returns, and what is computed from such tensors alone;
    reading these waits for nothing, and copying between the two does. `torch.device("cpu")` is the CPU for what the
    call has made, and for what was there before the place where it is. Not seen is what reads memory behind torch's
    back, such as pickle.
    """
    seen: Counter[str] = Counter()
    with _Calls(seen), _Operations(seen):
        result = call()
    return result, seen


class _Calls(TorchFunctionMode):
    """Counts the calls that read numbers or copy between CPU and GPU; what happens inside them isn't counted again."""

    def __init__(self, seen: Counter[str]):
        super().__init__()
        self.seen = seen
        self.host, self.made = Host(), Host()  # `made`: on the GPU, during the call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, tensors = getattr(func, "__name__", ""), tensors_in((args, kwargs))
        if name == "__get__" and func == Tensor.device.__get__:
            return self._device_of(args[0])
        caller = sys._getframe(1).f_globals.get("__name__", "")
        lies_on_cpu = self._lies_on_cpu(name, args, kwargs, tensors, caller)
        is_copy = bool(tensors) and lies_on_cpu != self.host.holds_all(tensors)
        kind, times = self._kind(name, args, kwargs, tensors, lies_on_cpu)
        if name == "item" and caller.startswith("torch.optim"):  # optimizers keep their step counters on the CPU
            kind = QUIET
        if kind is None:
            result = func(*args, **kwargs)
        else:
            self.seen.update({kind: times} if kind else {})
            with torch._C.DisableTorchFunction(), _disable_current_modes():
                result = func(*args, **kwargs)
                if is_copy and name in MOVES:  # on one device they may return the tensor itself
                    result = result.clone()
        (self.host.take if lies_on_cpu else self.host.drop)(result)
        if not lies_on_cpu:
            self.made.take([new for new in tensors_in(result) if not any(_shares(new, old) for old in tensors)])
        return result

    def _device_of(self, tensor: Tensor) -> torch.device:
        """The GPU is told by "cpu:0", so that x.device can be told from torch.device("cpu")."""
        with torch._C.DisableTorchFunction():
            device = tensor.device
        return torch.device("cpu", 0) if device == torch.device("cpu") and tensor not in self.host else device

    def _lies_on_cpu(self, name: str, args: Any, kwargs: dict[str, Any], tensors: list[Tensor], caller: str) -> bool:
        """Whether the result would lie on the CPU."""
        device = _device(name, args, kwargs)
        if isinstance(device, torch.device) and tensors and caller.startswith("torch."):
            return self.host.holds_all(tensors)  # torch brings tensors together where they are already
        if isinstance(device, Tensor):
            return device in self.host
        if isinstance(device, torch.device):  # what was there before may be brought to where it is already
            is_new = any(tensor in self.host or tensor in self.made for tensor in tensors)
            return is_new and device == torch.device("cpu") and not kwargs.get("non_blocking")
        if device is not None:  # a copy that nobody has waited for can't be read yet
            return names_the_cpu(device) and not kwargs.get("non_blocking")
        if name == "cpu" or (name in ("copy_", "__setitem__", "fill_") and args[0] in self.host):
            return True
        return name != "cuda" and self.host.holds_all(tensors)

    def _kind(
        self, name: str, args: Any, kwargs: dict[str, Any], tensors: list[Tensor], lies_on_cpu: bool
    ) -> tuple[str | None, int]:
        """The kind of wait and how often it happens; None for what `_Operations` should look at."""
        blocking = not kwargs.get("non_blocking")
        on_cpu = self.host.holds_all(tensors)
        if name in FROM_NUMBERS:
            return self._kind_of_new(name, args, kwargs, lies_on_cpu)
        if not tensors:
            return None, 0
        if name in ("to", "cuda") and on_cpu:
            return "to the GPU" if blocking and not lies_on_cpu else QUIET, 1
        if on_cpu:
            return QUIET, 0
        if name == "to" and lies_on_cpu:
            return "to cpu", 1
        if name in READS:
            return name, 1
        if name in ("copy_", "__setitem__", "fill_") and lies_on_cpu:
            return "copy to cpu", 1
        if name == "copy_" and args[1] in self.host:
            return "copy to the GPU" if blocking else QUIET, 1
        if name == "one_hot":  # its check of the range reads numbers on the CPU only
            return QUIET if len(args) > 1 or "num_classes" in kwargs else name, 1
        if name in ("quantile", "nanquantile"):  # likewise
            return QUIET, 0
        if name in ("__getitem__", "__setitem__"):
            return self._kind_of_index(*args[1:]), 1
        if name == "new_tensor":
            return name, 1
        if name in ("masked_fill", "masked_fill_") and not self.host.holds_all(tensors[2:]):
            return "masked_fill with a tensor", 1
        if name == "where" and any(tensor in self.host for tensor in tensors):
            return "where with a tensor on the cpu", 1
        return None, 0

    def _kind_of_new(self, name: str, args: Any, kwargs: dict[str, Any], lies_on_cpu: bool) -> tuple[str | None, int]:
        """A tensor from numbers, from a list with tensors, each of which is read, or from a tensor."""
        data = args[0] if args else kwargs.get("data")
        on_gpu = [tensor for tensor in tensors_in(data) if tensor not in self.host]
        if isinstance(data, Tensor) and not (on_gpu and lies_on_cpu):
            return None, 0
        if on_gpu:
            return name, len(on_gpu)
        return (QUIET, 0) if lies_on_cpu else (name, 1)

    def _kind_of_index(self, index: Any, value: Any = None) -> str | None:
        """x[index], or x[index] = value. What lies on the CPU goes to the GPU first, and Python waits for that."""
        parts = index if isinstance(index, tuple) else (index,)
        masks = [part for part in parts if isinstance(part, Tensor) and _is_mask(part)]
        places = [part for part in parts if isinstance(part, Tensor) and part.ndim and not _is_mask(part)]
        if any(isinstance(part, list) or type(part).__module__ == "numpy" for part in parts):
            return "x[list]"
        if any(part in self.host for part in places):
            return "x[index on cpu]"
        is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value in self.host)
        if is_number and (places or (isinstance(value, Tensor) and value.ndim)):
            return "x[index] = number"
        if masks and isinstance(value, Tensor) and not is_number:
            return "x[mask] = tensor"
        # places that are known on the CPU are not asked for
        return QUIET if masks and self.host.holds_all(masks) else None


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
        if name == "histc" and len(args) < 4:  # without bounds it looks for them
            return name
        if name in ("linspace", "logspace") and tensors_in(args):
            return name
        masks = _masks(args) if name.startswith(("index", "_index_put")) else []
        if masks and name == "index":
            return "x[mask]"
        # one number for all places is a masked_fill, which waits for nothing
        if masks and (len(masks) > 1 or args[2].numel() != 1):
            return "x[mask] = tensor"
        return ""


def _device(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """The device that a call names; None if it names none. `to(other)` says it by a tensor."""
    if name == "to":
        named = [v for v in (*args[1:2], kwargs.get("device")) if isinstance(v, (str, torch.device, Tensor))]
        return named[0] if named else None
    return kwargs.get("device")


def _shares(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors lie in one storage."""
    both = one.layout is torch.strided and other.layout is torch.strided
    return both and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def _masks(args: Any) -> list[Tensor]:
    indices = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else []
    return [i for i in indices if isinstance(i, Tensor) and _is_mask(i)]


def _is_mask(index: Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)
