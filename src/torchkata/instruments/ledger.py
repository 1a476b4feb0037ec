"""Bytes alive after each operation: every storage once, with its full size, for as long as anybody holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Ledger(TorchDispatchMode):
    """Counts the storages that operations make inside its `with` block, and those of `known` tensors.

    What an operation takes as an argument without having been made inside was there before and is not counted. A
    storage counts with the size that it has when it is made. The ledger holds no storage alive.

    curve: (name of an operation, bytes alive right after it), in order.
    """

    def __init__(self, *known: Tensor):
        super().__init__()
        self.curve: list[tuple[str, int]] = []
        self._sizes: dict[int, tuple[StorageWeakRef, int]] = {}
        self._older: dict[int, StorageWeakRef] = {}  # held weakly, so that their names are not given to others
        for tensor in known:
            self._count(tensor)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @property
    def peak(self) -> int:
        """The largest number of bytes that were alive right after an operation."""
        return max((size for _, size in self.curve), default=0)

    @property
    def peak_at(self) -> str:
        """The name of the operation after which the peak was reached first; "" if nothing was ever alive."""
        return next((name for name, size in self.curve if size == self.peak and size), "")

    def alive(self) -> dict[int, int]:
        """The bytes of each storage that is counted and alive, by the storage's `_cdata`."""
        self._sizes = {key: (ref, size) for key, (ref, size) in self._sizes.items() if not ref.expired()}
        return {key: size for key, (_, size) in self._sizes.items()}

    def bytes_alive(self) -> int:
        return sum(self.alive().values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note_older(tree_leaves((args, kwargs)))
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves(out):
            if isinstance(value, Tensor):
                self._count(value)
        self.curve.append((func.overloadpacket.__name__, self.bytes_alive()))
        return out

    def _note_older(self, values: Iterable[object]) -> None:
        for value in values:
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                if storage._cdata not in self._sizes:
                    self._older.setdefault(storage._cdata, StorageWeakRef(storage))

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._older and storage._cdata not in self._sizes:
            self._sizes[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())


def measured(call: Callable[[], Any], *known: Tensor) -> tuple[Any, int, int]:
    """Run call() once; returns its result, the peak in bytes, and the bytes alive while the result is held."""
    ledger = Ledger(*known)
    with ledger:
        result = call()
    return result, ledger.peak, ledger.bytes_alive()
