"""Which tensors would lie in the CPU's memory, if a run on the CPU were one on a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves


class Host:
    """Remembers storages that would lie on the CPU; every other one is taken to lie on the GPU."""

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}  # held weakly, so that their names are not given to others

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in self._storages

    def holds_all(self, tensors: Iterable[Tensor]) -> bool:
        return all(tensor in self for tensor in tensors)

    def take(self, result: object) -> None:
        """The tensors in a result lie on the CPU."""
        for tensor in tensors_in(result):
            if tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                self._storages[storage._cdata] = StorageWeakRef(storage)

    def drop(self, result: object) -> None:
        """The tensors in a result lie on the GPU."""
        for tensor in tensors_in(result):
            if tensor in self:
                del self._storages[tensor.untyped_storage()._cdata]


def tensors_in(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def names_the_cpu(device: Any) -> bool:
    """Whether a device is the CPU in words. A torch.device is what another tensor says, which would be on the GPU."""
    return isinstance(device, str) and device.partition(":")[0] == "cpu"
