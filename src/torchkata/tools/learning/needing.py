"""Which cells an answer needs: those that bind names which it reads, and those that these need in turn."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Names:
    """The names that a cell binds or changes at its top level, and the global names that it reads anywhere. `known`:
    whether the cell could be read: one with a magic hides what it does."""

    binds: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    known: bool = True


@cache
def names_of(source: str) -> Names:
    """The names of a cell."""
    try:
        table = symtable.symtable(source, "<cell>", "exec")
    except (SyntaxError, ValueError):
        return Names(known=False)
    bound = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    reads = set(_read(table)) - vars(builtins).keys()
    return Names(frozenset(bound | set(_changed(ast.parse(source)))), frozenset(reads))


def needed(wanted: Collection[str], cells: Sequence[str], given: Collection[str] = ()) -> set[int]:
    """Which of these cells (sources) have to run so that the wanted names are there, but for those that are given. A
    cell that can't be read may bind anything, and has to run too."""
    names, found = [names_of(source) for source in cells], set()
    missing = set(wanted) - set(given)
    while more := {n for n, one in enumerate(names) if n not in found and (one.binds & missing or not one.known)}:
        found |= more
        missing |= {name for n in more for name in names[n].reads} - set(given)
    return found


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    at_top = table.get_type() == "module"
    for one in table.get_symbols():
        if one.is_referenced() and (at_top or one.is_global()):
            yield one.get_name()
    for inner in table.get_children():
        yield from _read(inner)


def _changed(node: ast.AST) -> Iterator[str]:
    """Names whose attributes or items the cell's own lines set: `settings.size = 3`."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        base: ast.expr = node
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        if isinstance(base, ast.Name):
            yield base.id
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        for inner in ast.iter_child_nodes(node):
            yield from _changed(inner)
