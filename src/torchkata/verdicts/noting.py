"""Noting within a scenario what no recorder notes: operations on a rank, calls of Python's functions, files, and
whether an answer needs what an operation gives."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from torchkata.verdicts.sight import BEGUN, Sight, Unwatched, listening

Note = Callable[[OpOverload, tuple, Any], None]  # gets an operation, its arguments and what it gave
NoteCall = Callable[[str, str], None]  # gets the module of a function that is called, and its name


@contextmanager
def noting_operations(note: Note, spaces: frozenset[str] = frozenset()) -> Iterator[list[str]]:
    """Inside, `note` gets each operation of this thread. Yields a list that holds afterwards what happened where no
    operation can be noted, in words: in other threads, in other processes, below torch's modes. If `spaces` are given,
    it is about operations of these namespaces alone.

    Not for a scenario whose operations are recorded anyway: there can be one such watch at a time.
    """
    sight = Sight(spaces) if torch.autograd.kineto_available() else Unwatched()
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


def needs(names: Collection[str], answer: Callable[..., Tensor], *args: object) -> bool:
    """Whether an answer returns another tensor, or raises, when the ATen operations of these names give other values.

    To depend on an operation is not enough for that: `made + 0 * asked` and `made + asked - asked` stay as they are.
    """
    plain = answer(*args)
    plain = plain.clone() if isinstance(plain, Tensor) else plain  # both calls may return the same memory
    try:
        with _Changing(names):
            return not torch.equal(plain, answer(*args))
    except Exception:  # of the answer's own, over values that it doesn't expect
        return True


class _Changing(TorchDispatchMode):
    def __init__(self, names: Collection[str]):
        super().__init__()
        self._names = names

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: OpOverload, types: object, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in self._names:
            _ = out.logical_not_() if out.dtype == torch.bool else out.mul_(2).add_(1)
        return out


@contextmanager
def noting_calls(note: NoteCall) -> Iterator[list[str]]:
    """Inside, `note` gets each function, of Python's or built in, that this thread calls. Torch's functions it gets
    with the module that they stand in, whatever globals they are given. Yields a list that holds afterwards, in words,
    that somebody stopped it.

    Of other threads it knows nothing: a check that uses it judges `in_sight`, too, which sees work of torch there.
    """

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            named = frame.f_globals.get("__name__", "")
            note(_module_of(frame.f_code.co_filename) or named, frame.f_code.co_name)
        elif event == "c_call":
            note(getattr(function, "__module__", None) or "", function.__name__)

    stopped: list[str] = []
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield stopped
    finally:
        if sys.getprofile() is not profile:
            stopped.append("the calls of functions were noted no more")
        sys.setprofile(before)


@cache
def _module_of(file: str) -> str:
    """The name of torch's module in this file; "" for any other file."""
    folder = Path(torch.__file__).parent
    path = Path(file)
    if not path.is_relative_to(folder):
        return ""
    return ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")


@dataclass
class Events:
    """What Python told of: the files that were opened, as the system knows them, and in words what was begun."""

    opened: list[tuple[int, int]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    def has_opened(self, path: str) -> bool:
        """Whether this file, which is still there, was opened, by whatever name, or through a descriptor."""
        return _identity(path) in self.opened

    @property
    def processes(self) -> list[str]:
        """Of what was begun: the processes."""
        return [what for what in self.begun if "process" in what]


def _identity(file: str | bytes | int) -> tuple[int, int]:
    """What the system knows a file by, given its path or a descriptor."""
    known = os.stat(file)
    return known.st_dev, known.st_ino


@contextmanager
def noting_events() -> Iterator[Events]:
    """Inside, files that are opened, and threads and processes that are begun, are noted, whichever thread does it.
    Code can't take the listener away. Of what a process opens, or a library that isn't Python, it knows nothing."""
    events = Events()

    def note(event: str, told: tuple) -> None:
        if event == "open":
            with suppress(OSError, ValueError):  # there is no such file yet
                events.opened.append(_identity(told[0]))
        elif event in BEGUN and BEGUN[event] not in events.begun:
            events.begun.append(BEGUN[event])

    with listening(note):
        yield events
