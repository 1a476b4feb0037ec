"""A check cell and the learner's code live in one namespace, the notebook's; here their names are kept apart.

While an answer runs, the names that the check cell has bound are taken away, and what they replaced is back: the
learner's own helper of the same name works, and a reference that the check computes can't be borrowed. After the check
cell they are gone for good.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType

import torch

_MISSING = object()
_open: CellNames | None = None


class CellNames:
    """The names of one check cell, from the moment when its frame is entered."""

    def __init__(self, space: dict, used: set[str]):
        self.space = space
        self._before = dict(space)
        self.give_meaning(used)

    def give_meaning(self, used: set[str]) -> None:
        """Names whose meaning is fixed get it, where the check cell has not bound them itself."""
        known = _known_names()
        for name in used & self._before.keys() & known.keys():
            if self.space.get(name) is self._before[name]:
                self.space[name] = known[name]

    def bound(self) -> dict[str, object]:
        """What the check cell has bound so far."""
        return {k: v for k, v in self.space.items() if self._before.get(k, _MISSING) is not v}

    def take_away(self, names: dict[str, object]) -> None:
        """Put back what these names stood for before the check cell, or nothing."""
        for name in names:
            if name in self._before:
                self.space[name] = self._before[name]
            else:
                self.space.pop(name, None)


def open_cell(space: dict, code: CodeType) -> None:
    """A check cell with this code begins in this namespace."""
    global _open
    _open = CellNames(space, _names_used(code))


def go_on_with(code: CodeType) -> None:
    """The check cell goes on with this code."""
    if _open is not None:
        _open.give_meaning(_names_used(code))


def _names_used(code: CodeType) -> set[str]:
    """The global names (and attributes) that a cell and the functions in it use."""
    inner = [_names_used(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names}.union(*inner)


@cache
def _known_names() -> dict[str, object]:
    """Names whose meaning is fixed: Python's own, torch's usual ones, and those that check cells are written with."""
    own = sys.modules["torchkata.verdicts"]
    of_torch = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "Tensor": torch.Tensor}
    public = {name: value for name, value in vars(builtins).items() if not name.startswith("_")}
    return public | of_torch | {name: getattr(own, name) for name in own.__all__}


def close_cell(keep: object) -> None:
    """The check cell ends: all its names go, but for those that stand for `keep`."""
    global _open
    if _open is not None:
        _open.take_away({k: v for k, v in _open.bound().items() if v is not keep})
        _open = None


@contextmanager
def learners_names() -> Iterator[None]:
    """Inside, the namespace holds the learner's names only."""
    if _open is None:
        yield
        return
    cell, bound = _open, _open.bound()
    cell.take_away(bound)
    try:
        yield
    finally:
        cell.space.update(bound)


def with_own_names(scenario: Callable) -> Callable:
    """A scenario that keeps the names of its check cell, also where `learners_names` has taken them away."""
    if _open is None or not isinstance(scenario, FunctionType) or scenario.__globals__ is not _open.space:
        return scenario
    space = dict(_open.space)
    for name, value in _open.bound().items():
        if isinstance(value, FunctionType) and value.__globals__ is _open.space:
            space[name] = _moved(value, space)
    return _moved(scenario, space)


def _moved(function: FunctionType, space: dict) -> FunctionType:
    moved = FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    moved.__kwdefaults__ = function.__kwdefaults__
    return moved
