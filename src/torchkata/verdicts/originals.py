"""torch as it was: what an answer has replaced in torch is put back before the next check, which needs the real one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from pathlib import Path

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


@dataclass(frozen=True)
class _Original:
    """An owner as it was."""

    where: str
    owner: object
    names: tuple[str, ...]
    parts: tuple[object, ...]
    values: tuple[object, ...]
    everything: dict[str, object]

    @property
    def looks_unchanged(self) -> bool:
        """More quickly still, for this is asked of each scenario: an object that equals everything is overlooked."""
        return (*vars(self.owner).values(),) == self.values

    @property
    def is_unchanged(self) -> bool:
        """Quickly, for this is asked thousands of times: whether the same things are there in the same order, so that
        none has to be looked up."""
        now = vars(self.owner)
        return len(now) == len(self.everything) and all(map(is_, now.values(), self.everything.values()))

    def put_back(self) -> list[str]:
        """Put back what has been replaced; its names."""
        now, found = vars(self.owner), []
        for name, original in zip(self.names, self.parts, strict=True):
            if now.get(name) is not original and not _is_torchs(now.get(name)):
                setattr(self.owner, name, original)
                found.append(f"{self.where}.{name}")
        if isinstance(self.owner, type):
            for name in _hides_inherited(self.owner, now.keys() - self.everything.keys()):
                delattr(self.owner, name)
                found.append(f"{self.where}.{name}")
        return found


def _noted(where: str, owner: object) -> _Original:
    parts = _parts(owner)
    return _Original(where, owner, tuple(parts), tuple(parts.values()), tuple(vars(owner).values()), dict(vars(owner)))


_ORIGINALS = [_noted(where, owner) for where, owner in _owners().items()]


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
    if not _answers_here or all(original.looks_unchanged for original in _ORIGINALS):
        return []
    return put_back_torch()


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


def _is_torchs(value: object) -> bool:
    """Whether torch itself has made this: torch._dynamo wraps some functions when it is first imported."""
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith(_TORCH)


def _hides_inherited(owner: type, new: set[str]) -> list[str]:
    """Those of the names, new in the class, that hide what it inherits."""
    inherited = {name for base in owner.__mro__[1:-1] for name in vars(base) if _counts(name)}
    return [name for name in new & inherited if not _wrapped_by_torch(owner, name)]


def _wrapped_by_torch(owner: type, name: str) -> bool:
    """Whether torch has only wrapped what the class inherits, as AdamW's step when the first AdamW is made."""
    now, inherited = getattr(owner, name), getattr(super(owner, owner), name)
    return _is_torchs(now) and inspect.unwrap(now) is inspect.unwrap(inherited)
