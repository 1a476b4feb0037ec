"""Noting operations within a scenario, on a rank for one, where no recorder is at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from torchkata.verdicts.sight import Sight, Unwatched

Note = Callable[[OpOverload, tuple, Any], None]  # gets an operation, its arguments and what it gave


@contextmanager
def noting(note: Note) -> Iterator[list[str]]:
    """Inside, `note` gets each operation of this thread. Yields a list that holds afterwards what happened where no
    operation can be noted, in words: in other threads, in other processes, below torch's modes.

    Not for a scenario whose operations are recorded anyway: there can be one such watch at a time.
    """
    sight = Sight() if torch.autograd.kineto_available() else Unwatched()
    with sight.watching(), _Noting(note, sight):
        yield sight.lost


class _Noting(TorchDispatchMode):
    def __init__(self, note: Note, sight: Sight):
        super().__init__()
        self._note, self._sight = note, sight

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: OpOverload, types: object, args: tuple = (), kwargs: dict | None = None) -> Any:
        with self._sight.seen(whole=True):
            out = func(*args, **(kwargs or {}))
        self._note(func, args, out)
        return out
