"""torch as it was: what an answer has replaced in torch is put back before the next check, which needs the real one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import is_
from pathlib import Path
from types import FunctionType
from typing import cast

import torch
import torch.utils.data
from torch import Tensor, nn
from torch.nn import functional

_TORCH = str(Path(torch.__file__).parent)
_SPECIAL = ("__init__", "__call__", "__iter__", "__getattr__", "__setattr__", "__torch_function__")


def _owners() -> dict[str, object]:
    kinds = {
        f"{package.__name__}.{name}": kind
        for package in (nn, torch.optim, torch.utils.data)
        for name, kind in vars(package).items()
        if isinstance(kind, type)
    }
    bases = {
        f"{base.__module__}.{base.__name__}": base
        for kind in kinds.values()
        for base in kind.__mro__
        if base not in kinds.values() and base.__module__.startswith("torch.")
    }
    return (
        kinds
        | bases
        | {
            "torch": torch,
            "torch.Tensor": Tensor,
            "torch.autograd": torch.autograd,
            "torch.autograd.Function": torch.autograd.Function,
            "torch.nn.functional": functional,
        }
    )


def _counts(name: str) -> bool:
    if name == "Storage":  # torch itself exchanges it with the default dtype
        return False
    return not name.startswith("_") or name in _SPECIAL


def _parts(owner: object) -> dict[str, object]:
    """The functions, methods and classes of a module or class, by name."""
    return {
        name: value
        for name, value in vars(owner).items()
        if _counts(name) and (callable(value) or isinstance(value, (property, classmethod, staticmethod)))
    }


@dataclass
class _Original:
    """An owner as it was, or as torch itself has changed it since then."""

    where: str
    owner: object
    parts: dict[str, object] = field(init=False)
    everything: dict[str, object] = field(init=False)

    def __post_init__(self) -> None:
        self._note()

    def _note(self) -> None:
        self.parts, self.everything = _parts(self.owner), dict(vars(self.owner))

    @property
    def is_unchanged(self) -> bool:
        """Quickly, for this is asked thousands of times: whether the same things are there in the same order, so that
        none has to be looked up."""
        now = vars(self.owner)
        return len(now) == len(self.everything) and all(map(is_, now.values(), self.everything.values()))

    def put_back(self) -> list[str]:
        """Put back what has been replaced; its names. What then differs is torch's own work, and is the original."""
        now, found = vars(self.owner), []
        for name, original in self.parts.items():
            if now.get(name) is not original and not _wraps(now.get(name), original):
                setattr(self.owner, name, original)
                found.append(f"{self.where}.{name}")
        if isinstance(self.owner, type):
            for name in _hides_inherited(self.owner, now.keys() - self.everything.keys()):
                delattr(self.owner, name)
                found.append(f"{self.where}.{name}")
        self._note()
        return found


_ORIGINALS = [_Original(where, owner) for where, owner in _owners().items()]
_SPACES = [vars(original.owner) for original in _ORIGINALS]


def _at_a_glance() -> list[tuple]:
    """What shows whether something has been replaced, by an object that does not equal everything. This is asked twice
    of each scenario."""
    return [(*space.values(),) for space in _SPACES]


_glance = _at_a_glance()


@contextmanager
def answers_elsewhere() -> Iterator[None]:
    """Inside, answers run in other processes: nobody can have replaced anything here, so nobody looks for it."""
    global _answers_here
    _answers_here = False
    try:
        yield
    finally:
        _answers_here = True


_answers_here = True


def answers_are_here() -> bool:
    """Whether the answers run in this process: they don't where submissions are graded."""
    return _answers_here


def put_back_torch() -> list[str]:
    """Put back what has been replaced in torch; its names."""
    if not _answers_here:
        return []
    return [name for original in _ORIGINALS if not original.is_unchanged for name in original.put_back()]


def put_back_what_shows() -> list[str]:
    """The same where it shows at a glance that something has been replaced."""
    global _glance
    if not _answers_here or _at_a_glance() == _glance:
        return []
    found = put_back_torch()
    _glance = _at_a_glance()
    return found


class Asked:
    """Those parts of torch that a piece of code may ask by these names: few enough to be looked at after each call."""

    def __init__(self, names: Iterable[str]):
        self._parts: list[tuple[dict, str, object]] = [
            (vars(original.owner), name, original.everything.get(name, _ABSENT))
            for original in _ORIGINALS
            for name in set(names)
            if name in original.everything or original.owner in (Tensor, nn.Module)
        ]

    def put_back(self) -> list[str]:
        """Put back what has been replaced, if one of these parts is; its names."""
        if all(now.get(name, _ABSENT) is original for now, name, original in self._parts):
            return []
        replaced = put_back_torch()
        # what still differs is torch's own work, such as the step that it wraps when the first SGD is made
        self._parts = [(now, name, now.get(name, _ABSENT)) for now, name, _ in self._parts]
        return replaced


_ABSENT = object()


def _wraps(now: object, original: object) -> bool:
    """Whether torch itself has only wrapped the original, as torch._dynamo does some functions when it is first
    imported. A function of torch's under another one's name is no wrapper."""
    if not isinstance(now, FunctionType) or not now.__code__.co_filename.startswith(_TORCH):
        return False
    return "<locals>" in now.__qualname__ or inspect.unwrap(now) is inspect.unwrap(cast(Callable, original))


def _hides_inherited(owner: type, new: set[str]) -> list[str]:
    """Those of the names, new in the class, that hide what it inherits."""
    inherited = {name for base in owner.__mro__[1:-1] for name in vars(base) if _counts(name)}
    # torch wraps AdamW's step, which that inherits, when the first AdamW is made
    return [name for name in new & inherited if not _wraps(getattr(owner, name), getattr(super(owner, owner), name))]
