"""A check cell and the learner's code live in one namespace, the notebook's; here their names are kept apart.

While an answer runs, the names that the check cell has bound are taken away, and what they replaced is back: the
learner's own helper of the same name works, and a reference that the check computes can't be borrowed. After the check
cell they are gone for good.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from types import CodeType, FunctionType

import torch

_MISSING = object()
_open: CellNames | None = None
_first_cell: dict[str, object] = {}  # what the chapter's first cell imports
_lent: dict[str, object] = {}  # what stood for the names that were lent to the check cell that runs
_kept: tuple[CellNames, dict[str, object]] | None = None  # the check cell that ran last, and the names left to it


class CellNames:
    """The names of one check cell, from the moment when its frame is entered."""

    def __init__(self, space: dict):
        self.space = space
        self._before = dict(space) | _lent
        self._renamed = set(_lent)
        self._codes: list[CodeType] = []

    def run(self, code: CodeType) -> None:
        """The cell runs this code: names whose meaning is fixed get it, where the cell has not bound them itself."""
        self._codes.append(code)
        known = _known_names() | _first_cell
        for name in _names_used(code) & self._before.keys() & known.keys():
            before = self._before[name]
            if before is not known[name] and self.space.get(name) is before:
                self.space[name] = known[name]
                self._renamed.add(name)

    @property
    def taken(self) -> list[str]:
        """Names that the check cell uses and that the learner has given to something else."""
        renamed = {name for name in self._renamed if not _is_ipythons(self._before.get(name))}
        return sorted(renamed & set().union(*map(_globals_used, self._codes))) if renamed else []

    def bound(self) -> dict[str, object]:
        """What the check cell has bound so far."""
        return {k: v for k, v in self.space.items() if self._before.get(k, _MISSING) is not v}

    def take_away(self, names: dict[str, object]) -> None:
        """Put back what these names stood for before the check cell, or nothing."""
        for name in names:
            _put(self.space, name, self._before.get(name, _MISSING))


def _is_ipythons(value: object) -> bool:
    """Whether IPython has put this into the notebook's namespace, as it does with an `open` of its own."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "IPython"


def open_cell(space: dict, code: CodeType) -> None:
    """A check cell with this code begins in this namespace."""
    global _open
    _open = CellNames(space)
    _open.run(code)


def go_on_with(code: CodeType) -> None:
    """The check cell goes on with this code."""
    if _open is not None:
        _open.run(code)


def _names_used(code: CodeType) -> set[str]:
    """The global names (and attributes) that a cell and the functions in it use."""
    inner = [_names_used(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names}.union(*inner)


@lru_cache(maxsize=256)
def _globals_used(code: CodeType) -> frozenset[str]:
    """The global names alone; it takes longer to tell them from attributes."""
    inner = [_globals_used(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    own = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    return frozenset(own.union(*inner))


@cache
def _known_names() -> dict[str, object]:
    """Names whose meaning is fixed: Python's own, torch's usual ones, and those that check cells are written with."""
    own = sys.modules["torchkata.verdicts"]
    of_torch = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "Tensor": torch.Tensor}
    public = {name: value for name, value in vars(builtins).items() if not name.startswith("_")}
    return public | of_torch | {name: getattr(own, name) for name in own.__all__}


def close_cell(keep: object) -> CellNames | None:
    """The check cell ends: all its names go, but for those that stand for `keep`, which the cell still reads."""
    global _open, _kept
    if _open is None:
        return None
    closed, bound, _open = _open, _open.bound(), None
    closed.take_away({k: v for k, v in bound.items() if v is not keep})
    _kept = closed, {k: v for k, v in bound.items() if v is keep}
    return closed


def learn(space: dict, imported: set[str]) -> None:
    """These names, as they are now, are what check cells mean by them."""
    _first_cell.update({name: space[name] for name in imported & space.keys()})


def lend(space: dict, words: set[str]) -> None:
    """Before a check cell with these words runs: names of a fixed meaning have it, its first line included."""
    known = _known_names() | _first_cell
    for name in words & known.keys() & (space.keys() | _first_cell.keys()):
        if space.get(name, _MISSING) is not known[name]:
            _lent[name] = space.get(name, _MISSING)
            space[name] = known[name]


def take_back(space: dict) -> None:
    """After a check cell: what the learner's names stood for before it, they stand for again."""
    global _kept
    if _kept is not None:
        _kept[0].take_away(_kept[1])
        _kept = None
    known = _known_names() | _first_cell
    for name, before in _lent.items():
        if space.get(name) is known[name]:
            _put(space, name, before)
    _lent.clear()


def _put(space: dict, name: str, value: object) -> None:
    if value is _MISSING:
        space.pop(name, None)
    else:
        space[name] = value


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
