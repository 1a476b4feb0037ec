"""Tensors without numbers, with which an export runs a model: torch 2.13 makes a second one of each that it wants to
remember, to see whether it comes out alike. With sizes that may change that is a fifth of an export."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def look_at_one_of_a_kind(replace: Callable[[Any, str, Any], None]) -> None:
    """Let torch make the second one for the first tensor of a kind only.

    replace: puts a function in the place of that which a module or a class has under this name.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    name = "_get_output_info_for_cache_entry"
    replace(FakeTensorMode, name, _looking_once(getattr(FakeTensorMode, name)))


@functools.cache
def _looking_once(note: Callable) -> Callable:
    alike: set[tuple] = set()

    @functools.wraps(note)
    def note_quickly(mode: Any, state: object, key: object, func: object, args: Any, kwargs: Any, output: Any) -> Any:
        kind = _kind(mode, func, output)
        if kind in alike:
            mode._output_from_cache_entry = lambda *_: output  # what torch then compares is the same
            try:
                return note(mode, state, key, func, args, kwargs, output)
            finally:
                del mode._output_from_cache_entry
        noted = note(mode, state, key, func, args, kwargs, output)  # raises where they differ
        if kind is not None:
            alike.add(kind)
        return noted

    return note_quickly


def _kind(mode: Any, func: Any, output: Any) -> tuple | None:
    """All but sizes, which decides what the second one will be; None where sizes do, too: some are not known at all."""
    import torch

    if not isinstance(output, torch.Tensor) or (mode.shape_env and mode.shape_env.unbacked_symint_counter):
        return None
    own = output.dtype, output.device, output.layout, output.requires_grad, output.is_conj(), output.is_neg()
    return own, torch._C._dispatch_key_set(output), getattr(func, "is_view", False), torch.is_inference_mode_enabled()
