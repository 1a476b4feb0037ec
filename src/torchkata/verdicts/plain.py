"""Plain data: what an observation may hold, how to copy it faithfully, and how to send it as bytes without pickle.

Plain are None, bool, int, float, complex, str, bytes, `...`, tensors (strided, on the CPU or on meta), dtypes, devices,
and lists, tuples and dicts of plain data. Anything else is noted as `Other`, by the name of its type.

Tensors keep their layout: size, stride, offset, and which of them share a storage. That is how aliasing becomes a fact.
"""

from __future__ import annotations

import base64
import json
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
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
        and not value.is_quantized
        and value.device.type in ("cpu", "meta")
        and value.untyped_storage().nbytes() <= MAX_BYTES
    )


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
        if isinstance(value, dict):
            return {self.copy(k, depth + 1): self.copy(v, depth + 1) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple([self.copy(v, depth + 1) for v in value])
        if isinstance(value, list):
            return [self.copy(v, depth + 1) for v in value]
        if is_plain_tensor(value):
            return self._copy_tensor(value)
        return Other(type(value).__name__)

    def _copy_tensor(self, tensor: Tensor) -> Tensor:
        original = tensor.detach().resolve_conj().resolve_neg()
        storage = original.untyped_storage()
        if storage._cdata not in self._storages:
            self._originals.append(original)
            self._storages[storage._cdata] = (
                storage.clone()
                if storage.device.type == "cpu"
                else torch.UntypedStorage(storage.nbytes(), device=storage.device)
            )
        return tensor_on(self._storages[storage._cdata], layout_of(original) | tracking_of(tensor))


def layout_of(tensor: Tensor) -> dict:
    """dtype, size, stride and offset (in elements) of a tensor."""
    return {
        "dtype": tensor.dtype,
        "size": tuple(tensor.shape),
        "stride": tensor.stride(),
        "offset": tensor.storage_offset(),
    }


def tracking_of(tensor: Tensor) -> dict:
    return {"requires_grad": tensor.requires_grad, "parameter": isinstance(tensor, nn.Parameter)}


def tensor_on(storage: torch.UntypedStorage, layout: dict) -> Tensor:
    """A tensor of the given layout on a storage."""
    empty = torch.empty(0, dtype=layout["dtype"], device=storage.device)
    tensor = empty.set_(storage, layout["offset"], layout["size"], layout["stride"])
    if layout["parameter"]:
        return nn.Parameter(tensor, requires_grad=layout["requires_grad"])
    return tensor.requires_grad_(layout["requires_grad"])


# ---------------------------------------------------------------- bytes


def encode(value: object) -> bytes:
    """Plain data as bytes (JSON; storages as base64). Raises TypeError for anything that is not plain."""
    storages: dict[int, tuple[int, str, str]] = {}
    tree = _to_json(value, storages)
    table = [{"device": device, "bytes": text} for _, device, text in storages.values()]
    return json.dumps({"storages": table, "value": tree}).encode()


@dataclass(frozen=True)
class Caps:
    """What `decode` accepts at most; counted before anything of that size is made.

    Attributes:
        items: JSON values; tensors: tensors and storages; elements: elements of all tensors, 0-strided ones too;
        lists: lists of lists that tolist() would make of all tensors: dimensions of size 1 make many of few elements;
        depth: nesting; odd_keys: dict keys that are not strings, all dicts together (their hashes can be chosen).
    """

    items: int = 2_000_000
    tensors: int = 10_000
    elements: int = 2**25
    lists: int = 2**21
    depth: int = 50
    odd_keys: int = 4096


DEFAULT_CAPS = Caps()


def decode(data: bytes, caps: Caps = DEFAULT_CAPS) -> Any:
    """The inverse of `encode`. Raises ValueError for anything that `encode` does not make or that exceeds the caps."""
    if sum(map(data.count, (b",", b"[", b"{"))) > caps.items:
        raise ValueError("too many items")
    try:
        message = json.loads(data)
        return _Reader(message["storages"], caps).read(message["value"])
    except (KeyError, TypeError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
        raise ValueError(f"not an encoded value: {type(error).__name__}") from error


def _to_json(value: Any, storages: dict) -> object:
    kind = type(value)
    if kind in (type(None), bool, int, str):
        return value
    if isinstance(value, Tensor):
        return ["tensor", _tensor_row(value, storages)]
    if kind is dict:
        if all(type(k) is str for k in value):
            return {k: _to_json(v, storages) for k, v in value.items()}
        return ["dict", [[_to_json(k, storages), _to_json(v, storages)] for k, v in value.items()]]
    if kind in (tuple, list):
        return [kind.__name__, [_to_json(v, storages) for v in value]]
    if kind is Other:
        return ["other", value.type]
    if kind in (float, complex):
        return [kind.__name__, repr(value)]  # exact, with inf and nan
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if value is ...:
        return ["ellipsis", None]
    if kind in (torch.dtype, torch.device):
        return [kind.__name__, str(value)]
    raise TypeError(f"{kind.__name__} is not plain data")


def _tensor_row(tensor: Tensor, storages: dict) -> dict:
    if not is_plain_tensor(tensor):
        raise TypeError("only strided tensors on the CPU or on meta, of limited size, are plain data")
    storage = tensor.detach().untyped_storage()
    if storage._cdata not in storages:
        meta = storage.device.type == "meta"
        text = str(storage.nbytes()) if meta else base64.b64encode(bytes(_as_bytes(storage))).decode()
        storages[storage._cdata] = (len(storages), storage.device.type, text)
    layout = layout_of(tensor) | tracking_of(tensor)
    return layout | {"dtype": str(tensor.dtype), "storage": storages[storage._cdata][0]}


def _as_bytes(storage: torch.UntypedStorage) -> memoryview:
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().data


def _storage(row: dict) -> torch.UntypedStorage:
    if row["device"] == "meta":
        return torch.UntypedStorage(int(row["bytes"]), device="meta")
    if row["device"] != "cpu":
        raise ValueError("not a storage")
    data = base64.b64decode(row["bytes"], validate=True)
    if not data:
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage()


class _Reader:
    """Reads the JSON tree of one message."""

    def __init__(self, storages: list, caps: Caps):
        self._caps = caps
        self._tensors = self._elements = self._lists = self._odd_keys = 0
        self._within(len(storages), caps.tensors, "storages")
        self._storages = [_storage(row) for row in storages]

    @staticmethod
    def _within(number: int, cap: int, what: str) -> None:
        if number > cap:
            raise ValueError(f"too many {what}")

    def read(self, tree: Any, depth: int = 0) -> Any:
        if tree is None or type(tree) in (bool, int, str):
            return tree
        self._within(depth, self._caps.depth, "levels")
        if type(tree) is dict:
            return {k: self.read(v, depth + 1) for k, v in tree.items()}
        kind, body = tree
        if kind == "tensor":
            return self._tensor(body)
        if kind == "dict":
            return {self._key(k, depth): self.read(v, depth + 1) for k, v in body}
        if kind in ("tuple", "list"):
            items = [self.read(v, depth + 1) for v in body]
            return items if kind == "list" else tuple(items)
        if kind == "ellipsis":
            return ...
        return SIMPLE[kind](_text(body))

    def _key(self, tree: object, depth: int) -> object:
        if type(tree) is str:
            return tree
        self._odd_keys += 1
        self._within(self._odd_keys, self._caps.odd_keys, "keys that are no strings")
        return self.read(tree, depth + 1)

    def _tensor(self, row: dict) -> Tensor:
        self._tensors += 1
        self._within(self._tensors, self._caps.tensors, "tensors")
        layout, storage = row | {"dtype": _dtype(row["dtype"])}, self._storages[row["storage"]]
        _check_fits(layout, storage)
        self._elements += math.prod(layout["size"])
        self._within(self._elements, self._caps.elements, "elements")
        self._lists += sum(accumulate(layout["size"][:-1], operator.mul, initial=1))
        self._within(self._lists, self._caps.lists, "dimensions for so many elements")
        return tensor_on(storage, layout)


def _check_fits(layout: dict, storage: torch.UntypedStorage) -> None:
    """Raises ValueError for a layout that reaches out of its storage: torch would silently enlarge the storage."""
    size, stride = layout["size"], layout["stride"]
    numbers = [layout["offset"], *size, *stride]
    few = len(size) == len(stride) <= MAX_DIMS
    if not few or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise ValueError("not a layout")
    last = layout["offset"] + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and (last + 1) * layout["dtype"].itemsize > storage.nbytes():
        raise ValueError("the layout reaches out of its storage")


def _text(body: object) -> str:
    if type(body) is not str:
        raise ValueError("not a text")
    return body


DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def _dtype(text: str) -> torch.dtype:
    if text not in DTYPES:
        raise ValueError("not a dtype")
    return DTYPES[text]


SIMPLE: dict[str, Callable[[str], object]] = {
    "other": Other,
    "float": float,
    "complex": complex,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dtype": _dtype,
    "device": torch.device,
}
