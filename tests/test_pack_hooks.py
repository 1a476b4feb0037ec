"""A pack hook of the course keeps a detached tensor: with the tensor itself, an output would hold its own graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

HOOKS = "saved_tensors_hooks"


def returned(function: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    """What it returns; of an `or` the last part."""
    if isinstance(function, ast.Lambda):
        values = [function.body]
    else:
        values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
    return [value.values[-1] if isinstance(value, ast.BoolOp) else value for value in values]


def pack_hooks(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.Lambda]:
    """The functions that are given to saved_tensors_hooks first; those with a name are looked up in the file."""
    named = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.args and ast.unparse(call.func).endswith(f".{HOOKS}"):
            pack = call.args[0]
            name = pack.attr if isinstance(pack, ast.Attribute) else pack.id if isinstance(pack, ast.Name) else None
            if isinstance(pack, ast.Lambda):
                yield pack
            elif name in named:
                yield named[name]


def keeps_the_graph(source: str) -> list[int]:
    """The lines of pack hooks that return what they are given."""
    return [
        pack.lineno
        for pack in pack_hooks(ast.parse(source))
        if any(isinstance(value, ast.Name) and value.id == pack.args.args[-1].arg for value in returned(pack))
    ]


def sources() -> list[Path]:
    files = [file for folder in ("solutions", "src") for file in sorted((ROOT / folder).rglob("*.py"))]
    return [file for file in files if HOOKS in file.read_text(encoding="utf-8")]


def test_pack_hooks_return_detached_tensors():
    found = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in sources()}
    assert len(found) > 5
    assert {name: lines for name, source in found.items() if (lines := keeps_the_graph(source))} == {}


@pytest.mark.parametrize(
    ("pack", "problems"),
    [
        ("lambda t: t", 1),
        ("lambda t: kept.append(t) or t", 1),
        ("lambda t: t.detach()", 0),
        ("lambda t: kept.append(t.detach()) or kept[-1]", 0),
        ("itself", 1),
        ("film.itself", 1),
        ("detached", 0),
    ],
)
def test_a_hook_that_returns_what_it_is_given_is_found(pack: str, problems: int):
    source = f"""
def itself(tensor):
    return tensor

def detached(tensor):
    return tensor.detach()

torch.autograd.graph.{HOOKS}({pack}, lambda t: t)
"""
    assert len(keeps_the_graph(source)) == problems
