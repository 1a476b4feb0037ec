"""How functions, their arguments and their results are written down for another process."""

from __future__ import annotations

import functools
import io
import sys
import types
from collections.abc import Callable

import cloudpickle

from torchkata.base.check_cell import MODULE

CACHED = type(functools.cache(len))
OF_CELLS = ("__main__", MODULE.__name__)

cloudpickle.register_pickle_by_value(MODULE)


def dumps(value: object) -> bytes:
    """What `cloudpickle.loads` reads in another process: functions and classes of notebook cells by their code."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):
    """cloudpickle's, except for two things that answers use and that it can't send.

    A module that can't be imported, but is an attribute of another, travels by its name: `once_differentiable` uses
    `torch._C._functions`, whose types can't be copied. A function of a cell under functools.cache travels by its code.
    """

    def reducer_override(self, value: object) -> object:
        if isinstance(value, types.ModuleType) and value.__name__ not in sys.modules:
            parent, _, name = value.__name__.rpartition(".")
            if value is getattr(_module(parent), name, None):
                return getattr, (_module(parent), name)
        if isinstance(value, CACHED) and (value.__module__ in OF_CELLS or "<locals>" in value.__qualname__):
            return _cached, (value.__wrapped__, value.cache_parameters())
        return super().reducer_override(value)


def _module(name: str) -> object:
    """The module of that name, found without importing anything, or None."""
    if name in sys.modules:
        return sys.modules[name]
    parent, _, last = name.rpartition(".")
    return getattr(_module(parent), last, None) if parent else None


def _cached(function: Callable, parameters: dict) -> Callable:
    """The function with an empty cache of that kind."""
    return functools.lru_cache(**parameters)(function)
