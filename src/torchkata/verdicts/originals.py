"""torch as it was: what an answer has replaced in torch is put back before the next check, which needs the real one."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

_TORCH = str(Path(torch.__file__).parent)
_SPECIAL = ("__init__", "__call__", "__getattr__", "__setattr__", "__torch_function__")


def _owners() -> dict[str, object]:
    layers = {f"torch.nn.{name}": kind for name, kind in vars(nn).items() if isinstance(kind, type)}
    return layers | {
        "torch": torch,
        "torch.Tensor": Tensor,
        "torch.autograd": torch.autograd,
        "torch.autograd.Function": torch.autograd.Function,
        "torch.nn.functional": functional,
    }


def _counts(name: str) -> bool:
    return not name.startswith("_") or name in _SPECIAL


def _parts(owner: object) -> dict[str, object]:
    """The functions, methods and classes of a module or class, by name."""
    return {
        name: value
        for name, value in vars(owner).items()
        if _counts(name) and (callable(value) or isinstance(value, (property, classmethod, staticmethod)))
    }


_ORIGINALS = [(name, owner, _parts(owner), frozenset(vars(owner))) for name, owner in _owners().items()]


def put_back_torch() -> list[str]:
    """Put back what has been replaced in torch; its names."""
    found = []
    for where, owner, parts, names in _ORIGINALS:
        now = vars(owner)
        for name, original in parts.items():
            if now.get(name) is not original and not _is_torchs(now.get(name)):
                setattr(owner, name, original)
                found.append(f"{where}.{name}")
        if isinstance(owner, type):
            for name in _hides_inherited(owner, now.keys() - names):
                delattr(owner, name)
                found.append(f"{where}.{name}")
    return found


def _is_torchs(value: object) -> bool:
    """Whether torch itself has made this: torch._dynamo wraps some functions when it is first imported."""
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith(_TORCH)


def _hides_inherited(owner: type, new: set[str]) -> list[str]:
    """Those of the names, new in the class, that hide what it inherits."""
    return [name for name in new if _counts(name) and any(name in vars(base) for base in owner.__mro__[1:-1])]
