"""Plain data: what an observation may hold, and how to copy it faithfully.

Plain are None, bool, int, float, complex, str, bytes, `...`, tensors (strided, on the CPU or on meta), dtypes, devices,
and lists, tuples and dicts of plain data. Anything else is noted as `Other`, by the name of its type.

Tensors keep their layout: size, stride, offset, and which of them share a storage. That is how aliasing becomes a fact.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

MAX_DIMS = 64  # torch's own limit
MAX_BYTES = 64 * 2**20  # no exercise needs more; a larger storage is noted as Other


@dataclass(frozen=True)
class Other:
    """Stands for a value that is not plain data: only the name of its type is known."""

    type: str


MAX_DEPTH = 20  # levels of lists, tuples and dicts
ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), torch.dtype, torch.device, Other)
ATOM_TYPES = frozenset(ATOMS)


def is_plain_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether a tensor can be described by a storage and strides and is small enough to be copied."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and not value.is_nested
        and not value.is_quantized
        and (value.is_cpu or value.is_meta)
        and value.untyped_storage().nbytes() <= MAX_BYTES
    )


def _elsewhere(value: object) -> str:
    """Where a tensor lies that is neither on the CPU nor on meta, in words; "" for all else."""
    if isinstance(value, Tensor) and not (value.is_cpu or value.is_meta):
        return f" on {value.device.type}"
    return ""


class Copier:
    """Copies plain data. Tensors copied by one Copier share storages exactly where their originals do."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._originals: list[Tensor] = []  # kept alive, so that a storage's identity is not given to another one

    def copy(self, value: object, depth: int = 0) -> Any:
        """A deep copy of plain data; what is not plain becomes Other, and so does what is nested too deeply, in itself
        perhaps. Tensors become leaves that keep requires_grad."""
        if type(value) in ATOM_TYPES:
            return value
        if depth > MAX_DEPTH:
            return Other(type(value).__name__)
        if isinstance(value, dict):  # by dict's own methods: a class of the learner's may have others
            return {self.copy(k, depth + 1): self.copy(v, depth + 1) for k, v in dict.items(value)}
        if isinstance(value, tuple):
            return tuple([self.copy(v, depth + 1) for v in tuple.__iter__(value)])
        if isinstance(value, list):
            return [self.copy(v, depth + 1) for v in list.__iter__(value)]
        if type(value) is not Tensor and is_own_class(type(value)):
            return self.copy(_plain_or_other(value), depth)
        if is_plain_tensor(value):
            return self._copy_tensor(value)
        return Other(type(value).__name__ + _elsewhere(value))

    def _copy_tensor(self, tensor: Tensor) -> Tensor:
        original = tensor.detach().resolve_conj().resolve_neg()
        storage = original.untyped_storage()
        known = self._storages.get(storage._cdata)
        if known is None:
            self._originals.append(original)
            if _fills(original, storage):
                copy = original.clone()
                self._storages[storage._cdata] = copy.untyped_storage()
                return tracked(copy, tensor.requires_grad, is_parameter(tensor))
            known = self._storages[storage._cdata] = (
                storage.clone()
                if storage.device.type == "cpu"
                else torch.UntypedStorage(storage.nbytes(), device=storage.device)
            )
        copy = tensor_on(known, original.dtype, original.shape, original.stride(), original.storage_offset())
        return tracked(copy, tensor.requires_grad, is_parameter(tensor))


def _fills(tensor: Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether a storage holds a tensor's elements in order and nothing else, as most do: then torch's clone does all in
    less time. Not where the tensor is of another class, such as a learner's own: a clone would be, too."""
    if type(tensor) is not Tensor or storage.device.type != "cpu" or not tensor.is_contiguous():
        return False
    return 0 < tensor.numel() * tensor.element_size() == storage.nbytes()


def taken(value: Any, depth: int = 0) -> Any:
    """A value with its tensors as torch's own: one of another class could tell another story each time that it is
    asked. Raises TypeError for a tensor of a class that torch can't take off it."""
    kind = type(value)
    if kind in ATOM_TYPES or kind is Tensor or kind is nn.Parameter or depth > MAX_DEPTH:
        return value
    if kind is dict:
        return _with(value, {key: taken(one, depth + 1) for key, one in value.items()})
    if kind is tuple or kind is list:
        return _with(value, kind([taken(one, depth + 1) for one in value]))
    return _plain_tensor(value) if is_own_class(type(value)) else value


def _with(value: Any, new: Any) -> Any:
    """The very value, unless one of its items is another one now."""
    pairs = zip(value.values(), new.values(), strict=True) if type(value) is dict else zip(value, new, strict=True)
    return value if all(old is now for old, now in pairs) else new


def _plain_tensor(value: Tensor) -> Tensor:
    kind = type(value)
    if kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
        raise TypeError(f"a tensor of the class {kind.__name__}, which says itself what it holds, can't be judged")
    with torch._C.DisableTorchFunctionSubclass():
        return _as_subclass(value, Tensor)


def is_own_class(kind: type) -> bool:
    """Whether it is a class of tensors that is not one of torch's: those that stand in torch under their names."""
    if not issubclass(kind, Tensor):
        return False
    module = sys.modules.get(kind.__module__) if kind.__module__.startswith("torch.") else None
    return module is None or vars(module).get(kind.__qualname__) is not kind


def _plain_or_other(value: Any) -> Tensor | Other:
    try:
        return _plain_tensor(value)
    except TypeError:
        return Other(type(value).__name__)


_as_subclass = Tensor.as_subclass  # as it is before a learner's code runs


def all_plain(values: Iterable[object]) -> bool:
    """Whether the tensors among these are of torch's own classes."""
    return all(type(value) in (Tensor, nn.Parameter) for value in values if isinstance(value, Tensor))


def is_parameter(tensor: Tensor) -> bool:
    return type(tensor) is not Tensor and isinstance(tensor, nn.Parameter)


def tensor_on(
    storage: torch.UntypedStorage, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], offset: Any
) -> Tensor:
    """A tensor of the given layout (in elements) on a storage."""
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)


def tracked(tensor: Tensor, requires_grad: bool, parameter: bool) -> Tensor:
    """A new tensor as a leaf that requires grad or not, as a parameter if it is to be one."""
    if parameter:
        return nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor
