"""What exports to ONNX take apart, and how. torch 2.13 works this out anew for each, and changes 600 operations one by
one, there and back; here an export goes on from what the one before it found."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


def keep_decompositions(replace: Callable[[Any, str, Any], None]) -> None:
    """For as long as torch's operations and their decompositions stay as they are.

    replace: puts a function in the place of that which a module has under this name.
    """
    from torch.export import exported_program
    from torch.onnx._internal.exporter import _decomp

    for module, name, kept in (
        (_decomp, "create_onnx_friendly_decomposition_table", _kept),
        (exported_program, "_split_decomp_table_to_cia_and_python_decomp", _kept),
        (exported_program, "_override_composite_implicit_decomp", _replayed),
    ):
        replace(module, name, kept(getattr(module, name)))


@functools.cache
def _kept(make: Callable) -> Callable:
    """A function that makes one table or several: asked the same again, it gives copies."""
    asked: list[Any] = []
    made: list[Any] = []

    @functools.wraps(make)
    def make_once(of: Any) -> Any:
        now = [copy.copy(of), *_registered()]
        if asked != now:
            made[:] = [make(of)]
            asked[:] = now
        (tables,) = made
        return tuple(map(copy.copy, tables)) if isinstance(tables, tuple) else copy.copy(tables)

    return make_once


def _registered() -> list[Any]:
    """What decides how operations are taken apart: somebody may register more of it between two exports."""
    import torch
    from torch._decomp import decomposition_table

    names = {name: list(getattr(torch.ops, name)) for name in torch.ops._dir}
    of_torch = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return [names, of_torch, decomposition_table.copy()]


class _Change(NamedTuple):
    """What an export that was asked to take an operation apart in this way made of its kernels, and its rule for
    tensors without numbers."""

    asked: Callable
    before: dict
    kernels: dict
    rule: Callable


@functools.cache
def _replayed(override: Callable) -> Callable:
    """The change of operations, noted where it is made for the first time."""
    from torch._subclasses.fake_impls import op_implementations_dict as rules

    changes: dict[Any, _Change] = {}

    def is_known(operation: Any, asked: Callable) -> bool:
        change = changes.get(operation)
        known = change and change.asked is asked and change.before == operation.py_kernels
        return bool(known) and operation not in rules

    @contextlib.contextmanager
    def change_some(operations: list) -> Iterator[None]:
        own = [operation.py_kernels for operation in operations]
        try:
            for operation in operations:
                operation.py_kernels = changes[operation].kernels.copy()
                operation._dispatch_cache.clear()
                rules[operation] = changes[operation].rule
            yield
        finally:
            for operation, kernels in zip(operations, own, strict=True):
                operation.py_kernels = kernels
                operation._dispatch_cache.clear()
                rules.pop(operation, None)

    @contextlib.contextmanager
    @functools.wraps(override)
    def override_again(decompositions: dict) -> Iterator[None]:
        known = [operation for operation, asked in decompositions.items() if is_known(operation, asked)]
        others = {operation: decompositions[operation] for operation in decompositions.keys() - known}
        before = {operation: operation.py_kernels.copy() for operation in others if operation not in rules}
        with override(others), change_some(known):
            for operation, kernels in before.items():
                during = operation.py_kernels.copy(), rules[operation]
                changes[operation] = _Change(others[operation], kernels, *during)
            yield

    return override_again
