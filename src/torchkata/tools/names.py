"""The names that a piece of code binds, and those that it reads from the module's scope."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_bound(tree: ast.AST) -> set[str]:
    """Names that a piece of code binds, in its with and for blocks too, but not inside its functions and lambdas; of
    a comprehension's names only those of `:=` are bound around it."""
    names: set[str] = set()
    stack = list(ast.iter_child_nodes(tree))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        if isinstance(node, _COMPREHENSIONS):
            names |= {one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr)}
        elif not isinstance(node, ast.Lambda):
            stack += ast.iter_child_nodes(node)
    return names


def global_names(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[ast.Name]:
    """The names that are read from the module's scope, functions and lambdas followed into; `bound`: names that are
    not the module's."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound:
        yield node
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        inner = bound | {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        if isinstance(node, ast.FunctionDef):
            inner |= names_bound(node)
        hints = [arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]
        around = [*getattr(node, "decorator_list", []), getattr(node, "returns", None)]
        outside = [*node.args.defaults, *node.args.kw_defaults, *hints, *around]
        for child in filter(None, outside):
            yield from global_names(child, bound)
        for child in node.body if isinstance(node.body, list) else [node.body]:
            yield from global_names(child, inner)
        return
    if isinstance(node, _COMPREHENSIONS):
        bound = bound | {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    for child in ast.iter_child_nodes(node):
        yield from global_names(child, bound)


def names_read(tree: ast.AST) -> set[str]:
    """The names that a piece of code reads from the module's scope, in its functions too."""
    return {node.id for node in global_names(tree)}
