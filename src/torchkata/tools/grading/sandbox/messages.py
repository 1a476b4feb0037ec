"""Plain data (see `torchkata.verdicts.plain`) as bytes, to and from a process that may not be trusted: no pickle.

A message has three parts: a table of storages, the value as MessagePack (https://msgpack.org), and the bytes of the
storages. In the value, what MessagePack has no kind for (tensors, tuples and others) is an extension of it.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

import msgpack
import torch
from torch import Tensor

from torchkata.verdicts.plain import MAX_DIMS, Other, is_parameter, is_plain_tensor, tensor_on, tracked

HEAD = struct.Struct("!II")  # bytes of the table, and of the value
TENSOR, TUPLE, OTHER, COMPLEX, INTEGER, DTYPE, DEVICE, ELLIPSIS = range(8)  # extensions
TEXTS = "surrogatepass"  # a learner's text may hold halves of surrogate pairs
LONGEST_TYPE = 200  # characters of the name of a type


class TooLarge(ValueError):
    """A value whose message nobody accepts."""


@dataclass(frozen=True)
class Caps:
    """What `decode` accepts at most; counted before anything of that size is made.

    Attributes:
        value: bytes of the value without its storages, so that it holds no more items than that;
        tensors: tensors and storages; elements: elements of all tensors, 0-strided ones too;
        lists: lists of lists that tolist() would make of all tensors: dimensions of size 1 make many of few elements;
        depth: nesting; odd_keys: dict keys that are not strings, all dicts together (their hashes can be chosen).
    """

    value: int = 2**22
    tensors: int = 10_000
    elements: int = 2**25
    lists: int = 2**21
    depth: int = 50
    odd_keys: int = 4096


DEFAULT_CAPS = Caps()


def encode(value: object) -> bytes:
    """Plain data as bytes. Raises TypeError for anything that is not plain, TooLarge for what `decode` refuses."""
    writer = _Writer()
    tree = writer.pack(value)
    if len(tree) > DEFAULT_CAPS.value:
        raise TooLarge(f"{len(tree)} bytes without the values of tensors")
    table = _plain.pack(list(map(list, writer.table)))
    return b"".join([HEAD.pack(len(table), len(tree)), table, tree, *writer.parts])


def decode(data: bytes, caps: Caps = DEFAULT_CAPS) -> Any:
    """The inverse of `encode`. Raises ValueError for anything that `encode` does not make or that exceeds the caps."""
    try:
        table, tree = HEAD.unpack_from(data)
        if tree > caps.value or table > caps.value:
            raise ValueError("too many items")
        end = HEAD.size + table + tree
        reader = _Reader(caps)
        reader.take_storages(_unpacked(data[HEAD.size : HEAD.size + table]), data[end:])
        value = reader.unpack(data[HEAD.size + table : end])
        _check_kinds(value, caps.depth)
        return value
    except (KeyError, TypeError, IndexError, AttributeError, RuntimeError, OverflowError, struct.error) as error:
        raise ValueError(f"not an encoded value: {type(error).__name__}") from error


_plain = msgpack.Packer(strict_types=True)  # of what holds no extensions; to make one takes longer than to use it


class _Writer:
    """Writes one message."""

    def __init__(self) -> None:
        self._storages: dict[int, int] = {}
        self._kept: list[Tensor] = []  # so that a storage's identity is not given to another one
        self.table: list[tuple[bool, int]] = []  # of storages: whether it is on meta, and its bytes
        self.parts: list[bytes] = []

    def pack(self, value: object) -> bytes:
        return msgpack.packb(value, default=self._extension, strict_types=True, unicode_errors=TEXTS)

    def _extension(self, value: Any) -> msgpack.ExtType:
        kind = type(value)
        if kind is tuple:
            return msgpack.ExtType(TUPLE, self.pack(list(value)))
        if isinstance(value, Tensor):
            return msgpack.ExtType(TENSOR, _plain.pack(self._row(value)))
        if kind not in AS_TEXT:
            raise TypeError(f"{kind.__name__} is not plain data")
        code, text = AS_TEXT[kind]
        return msgpack.ExtType(code, text(value).encode(errors=TEXTS))

    def _row(self, tensor: Tensor) -> list:
        if not is_plain_tensor(tensor):
            raise TypeError("only strided tensors on the CPU or on meta, of limited size, are plain data")
        return [
            self._place_of(tensor),
            str(tensor.dtype),
            list(tensor.shape),
            list(tensor.stride()),
            tensor.storage_offset(),
            tensor.requires_grad,
            is_parameter(tensor),
        ]

    def _place_of(self, tensor: Tensor) -> int:
        """The place of its storage in the table."""
        storage = tensor.untyped_storage()
        place = self._storages.get(storage._cdata)
        if place is None:
            place = self._storages[storage._cdata] = len(self.table)
            self._kept.append(tensor)
            meta, size = storage.device.type == "meta", storage.nbytes()
            self.table.append((meta, size))
            if size and not meta:
                self.parts.append(ctypes.string_at(storage.data_ptr() or _refuse(), size))
        return place


AS_TEXT: dict[type, tuple[int, Callable[[Any], str]]] = {
    Other: (OTHER, lambda value: value.type[:LONGEST_TYPE]),
    complex: (COMPLEX, repr),
    int: (INTEGER, str),  # beyond 64 bits
    torch.dtype: (DTYPE, str),
    torch.device: (DEVICE, str),
    type(...): (ELLIPSIS, lambda _: ""),
}


class _Reader:
    """Reads one message."""

    def __init__(self, caps: Caps):
        self._caps = caps
        self._storages: list[torch.UntypedStorage] = []
        self._depth = self._tensors = self._elements = self._lists = self._odd_keys = 0

    def unpack(self, data: bytes) -> Any:
        """Each extension in an extension is a call within a call of C, so that all of them count as a level."""
        self._depth += 1
        self._within(self._depth, self._caps.depth, "levels")
        value = _unpacked(data, ext_hook=self._extension, object_pairs_hook=self._dict)
        self._depth -= 1
        return value

    def take_storages(self, table: list, data: bytes) -> None:
        self._within(len(table), self._caps.tensors, "storages")
        place = 0
        for meta, size in table:
            if type(meta) is not bool or type(size) is not int or size < 0:
                raise ValueError("not a storage")
            if meta:
                self._storages.append(torch.UntypedStorage(size, device="meta"))
            else:
                self._storages.append(_storage(data[place : place + size], size))
                place += size
        if place != len(data):
            raise ValueError("bytes that are nobody's")

    @staticmethod
    def _within(number: int, cap: int, what: str) -> None:
        if number > cap:
            raise ValueError(f"too many {what}")

    def _dict(self, pairs: list[tuple]) -> dict:
        self._odd_keys += len([1 for key, _ in pairs if type(key) is not str])
        self._within(self._odd_keys, self._caps.odd_keys, "keys that are no strings")
        return dict(pairs)

    def _extension(self, code: int, data: bytes) -> object:
        if code == TENSOR:
            return self._tensor(*_unpacked(data))
        if code == TUPLE:
            items = self.unpack(data)
            return tuple(items) if type(items) is list else _refuse()
        return FROM_TEXT[code](data.decode(errors=TEXTS))

    def _tensor(
        self, place: int, dtype: str, size: list, stride: list, offset: int, requires_grad: bool, parameter: bool
    ) -> Tensor:
        self._tensors += 1
        self._within(self._tensors, self._caps.tensors, "tensors")
        if type(place) is not int or place < 0 or type(requires_grad) is not bool or type(parameter) is not bool:
            raise ValueError("not a tensor")
        storage = self._storages[place]
        kind = _dtype(dtype)
        _check_fits(storage, kind.itemsize, size, stride, offset)
        self._elements += math.prod(size)
        self._within(self._elements, self._caps.elements, "elements")
        self._lists += sum(accumulate(size[:-1], operator.mul, initial=1))
        self._within(self._lists, self._caps.lists, "dimensions for so many elements")
        return tracked(tensor_on(storage, kind, size, stride, offset), requires_grad, parameter)


def _refuse(*_: object) -> NoReturn:
    raise ValueError("not a kind of plain data")


def _unpacked(data: bytes, ext_hook: Callable[[int, bytes], object] = _refuse, **settings: Any) -> Any:
    """MessagePack as Python's values; extensions are refused where nobody says what they are."""
    return msgpack.unpackb(
        data, ext_hook=ext_hook, strict_map_key=False, unicode_errors=TEXTS, max_array_len=2**20, **settings
    )


def _storage(data: bytes, size: int) -> torch.UntypedStorage:
    if len(data) != size:
        raise ValueError("a storage that is cut off")
    if not data:
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage()


def _check_fits(storage: torch.UntypedStorage, itemsize: int, size: list, stride: list, offset: int) -> None:
    """Raises ValueError for a layout that reaches out of its storage: torch would silently enlarge the storage."""
    if type(size) is not list or type(stride) is not list or not len(size) == len(stride) <= MAX_DIMS:
        raise ValueError("not a layout")
    for number in (offset, *size, *stride):
        if type(number) is not int or not 0 <= number < 2**63:
            raise ValueError("not a layout")
    last = offset + sum(map(operator.mul, size, stride)) - sum(stride)
    if 0 not in size and (last + 1) * itemsize > storage.nbytes():
        raise ValueError("the layout reaches out of its storage")


def _check_kinds(value: object, depth: int) -> None:
    """Raises ValueError for what MessagePack knows and plain data does not, points in time, and for deep nesting."""
    level: list = [value]
    for _ in range(depth):
        deeper: list = []
        for one in level:
            kind = type(one)
            if kind is list or kind is tuple:
                deeper += one
            elif kind is dict:
                deeper += one.values()
                deeper += [key for key in one if type(key) is not str]
            elif kind is msgpack.Timestamp:
                _refuse()
        if not deeper:
            return
        level = deeper
    raise ValueError("too many levels")


DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def _dtype(text: str) -> torch.dtype:
    if text not in DTYPES:
        raise ValueError("not a dtype")
    return DTYPES[text]


def _other(text: str) -> Other:
    return Other(text) if len(text) <= LONGEST_TYPE else _refuse()


FROM_TEXT: dict[int, Callable[[str], object]] = {
    OTHER: _other,
    COMPLEX: complex,
    INTEGER: int,
    DTYPE: _dtype,
    DEVICE: torch.device,
    ELLIPSIS: lambda text: _refuse() if text else ...,
}
