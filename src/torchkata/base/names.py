"""Which names a cell binds, and which it takes from the cells before it.

Python's own symbol tables say which names a cell binds and reads, in all its scopes. They don't say in which order. So
a name that a cell both binds and reads counts as taken from before, unless it is plain that the cell binds it first: it
does no harm to run one cell too many.
"""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from torchkata.base.magics import without_magics

_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_INLINED = sys.version_info >= (3, 12)  # a comprehension's names stand in the table of the scope around it (PEP 709)
_NOTES = "__conditional_annotations__"  # what Python 3.14 binds beside a variable's annotation
_UNREADABLE = (ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Names:
    """The names of a cell.

    Attributes:
        binds: names that it binds, in its functions those that these declare global.
        changes: names whose attributes or items its own lines set: `settings.size = 3`.
        reads: names that it takes from the cells before it, names of Python's own included.
        known: whether this is all: a magic hides what it does, `from … import *` what it binds, and a cell that is no
            Python whatever it is meant to do.
    """

    binds: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    known: bool = True

    @property
    def makes(self) -> frozenset[str]:
        """The names that are not what they were after the cell has run."""
        return self.binds | self.changes


@lru_cache(maxsize=4096)
def names_of(source: str) -> Names:
    """The names of a cell with this source."""
    try:
        return _names_in(source)
    except SyntaxError:
        return replace(_with_magics(source), known=False)
    except _UNREADABLE:
        return Names(known=False)


def _with_magics(source: str) -> Names:
    try:
        return _names_in(without_magics(source))
    except (SyntaxError, *_UNREADABLE):
        return Names()


def _names_in(source: str) -> Names:
    tree = ast.parse(source)
    if _INLINED and any(isinstance(node, _Plainer.changes) for node in ast.walk(tree)):
        source = ast.unparse(_Plainer().visit(tree))
        tree = ast.parse(source)
    table = symtable.symtable(source, "<cell>", "exec")
    binds, changes = frozenset(_bound(table)), frozenset(_changed(tree))
    reads = frozenset([*_referenced(table), *_redone(tree)])
    if reads & binds:
        reads -= _bound_first(tree.body, table)
    stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))
    return Names(binds, changes, reads, known=not stars)


class _Plainer(ast.NodeTransformer):
    """The same names in words that each Python's symbol tables take alike: comprehensions as generator expressions,
    which have always a table of their own, and what is awaited without `await`."""

    changes = (ast.ListComp, ast.SetComp, ast.DictComp, ast.Await)

    def visit_Await(self, node: ast.Await) -> ast.expr:
        self.generic_visit(node)
        return node.value

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def needed(wanted: Collection[str], cells: Sequence[str], given: Collection[str] = ()) -> list[int]:
    """Which of these cells (sources) have to run so that the wanted names are there, but for those that are given; in
    order.

    These are the cells that bind or change the names, and those that these need in turn. A cell that can't be read may
    bind anything, and has to run too.
    """
    names, found = [names_of(source) for source in cells], set()
    missing = set(wanted) - set(given)
    while more := {n for n, one in enumerate(names) if n not in found and (one.makes & missing or not one.known)}:
        found |= more
        missing |= {name for n in more for name in names[n].reads} - set(given)
    return sorted(found)


# ------------------------------------------------ by symbol tables: what is bound and read at all


def _bound(table: symtable.SymbolTable, at_top: bool = True) -> Iterator[str]:
    for one in table.get_symbols():
        is_bound = (one.is_assigned() or one.is_imported()) and one.get_name() != _NOTES
        if is_bound and (at_top or one.is_declared_global()):
            yield one.get_name()
    for inner in table.get_children():
        yield from _bound(inner, at_top=False)


def _referenced(table: symtable.SymbolTable) -> Iterator[str]:
    """A class looks outside for its own names too, as long as it has not bound them; a function that binds a global
    name may do so by `name += 1`."""
    looks_outside = table.get_type() in ("module", "class")
    for one in table.get_symbols():
        outside = one.is_global() or (looks_outside and not one.is_free())
        is_read = (one.is_referenced() and outside) or one.is_declared_global()
        if is_read and one.get_name() != _NOTES:
            yield one.get_name()
    for inner in table.get_children():
        yield from _referenced(inner)


# ------------------------------------------------ by the tree: what needs an object that is there, and what comes first


def _redone(node: ast.AST) -> Iterator[str]:
    """Names in `name += 1` and `del name`."""
    for part in _at_top(node):
        if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            yield part.target.id
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Del):
            yield part.id


def _changed(tree: ast.AST) -> Iterator[str]:
    """Names in `name.size = 3` and `name[0].size = 3`."""
    for part in _at_top(tree):
        if isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load):
            base: ast.expr = part
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name):
                yield base.id


def _bound_first(body: list[ast.stmt], table: symtable.SymbolTable) -> set[str]:
    """The names that a cell plainly binds before anything in it could read them."""
    inner = [(scope.get_lineno(), set(_referenced(scope))) for scope in table.get_children()]
    first: set[str] = set()
    read: set[str] = set()
    for node in _in_order(body):
        reads = {*_loaded(node), *_redone(node)}
        lines = range(_first_line(node), (node.end_lineno or node.lineno) + 1)
        inside = set().union(*(names for line, names in inner if line in lines))
        defines = isinstance(node, (*_DEFINING, ast.ClassDef))  # what its functions read, they read later
        first |= _plainly_bound(node) - read - (reads if defines else reads | inside)
        read |= reads | inside
    return first


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a cell, with those inside of `with` and `for`; the heads of these as assignments."""
    for node in body:
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                names = [item.optional_vars] if item.optional_vars else []
                yield ast.copy_location(ast.Assign(names, item.context_expr), item.context_expr)
            yield from _in_order(node.body)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield ast.copy_location(ast.Assign([node.target], node.iter), node.iter)
            yield from _in_order([*node.body, *node.orelse])
        else:
            yield node


def _plainly_bound(node: ast.stmt) -> set[str]:
    if isinstance(node, (*_DEFINING, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value):
        return {part.id for part in _at_top(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return set()


def _loaded(node: ast.AST) -> Iterator[str]:
    return (part.id for part in _at_top(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))


def _at_top(node: ast.AST) -> Iterator[ast.AST]:
    """What of a tree runs when the cell runs, not when its functions are called."""
    yield node
    parts: Iterable[ast.AST | None] = ast.iter_child_nodes(node)
    if isinstance(node, _DEFINING):
        parts = [*node.decorator_list, node.args, node.returns]
    elif isinstance(node, ast.Lambda):
        parts = [node.args]
    elif isinstance(node, _COMPREHENSIONS):
        parts = [node.generators[0].iter]
    for part in filter(None, parts):
        yield from _at_top(part)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
