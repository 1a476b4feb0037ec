"""Which global names a cell takes from cells before it: that tells which of the chapter's demos have to be run."""

from __future__ import annotations

import ast
import dis
from collections.abc import Collection
from functools import lru_cache
from types import CodeType

READS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
BINDS = ("STORE_NAME", "STORE_GLOBAL")


def names_taken(code: CodeType, among: Collection[str]) -> set[str]:
    """Those of the names that a cell with this code reads before it binds them, its functions included."""
    wanted = _mentioned(code) & set(among)  # tells most cells apart, and costs next to nothing
    if not wanted:
        return set()
    read, bound = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in BINDS:
            bound.add(step.argval)
        elif step.opname in READS and step.argval not in bound:
            read.add(step.argval)
    return wanted & (read | (_read_inside(code) - bound))


@lru_cache(maxsize=1024)
def names_taken_by(source: str, among: frozenset[str]) -> frozenset[str]:
    """The same for the source of a cell of the chapter."""
    return frozenset(names_taken(compile(source, "<demo>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), among))


def _mentioned(code: CodeType) -> set[str]:
    """The names of globals and of attributes."""
    return {*code.co_names}.union(*map(_mentioned, _inner(code)))


def _read_inside(code: CodeType) -> set[str]:
    """The global names that functions and classes of the cell read."""
    found = set()
    for inner in _inner(code):
        found |= {step.argval for step in dis.get_instructions(inner) if step.opname in READS} | _read_inside(inner)
    return found


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
