"""A scenario, the check's own code, as it runs beside a learner's: after each of its calls torch is as it was, and what
came back is a plain tensor. What an answer replaces in torch, or says itself, then decides nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from torchkata.base.check_cell import MODULE
from torchkata.verdicts.originals import Asked
from torchkata.verdicts.plain import taken

_TAKE = "_torchkata_takes"


class Questions:
    """The source of a scenario, made ready to be run in a namespace.

    Attributes:
        code: the source, with each call in it watched.
    """

    def __init__(self, source: str, file: str):
        tree, asked = _made_ready(source)
        # new code each time: torch.compile keeps with a code object what it knows of the namespace that it ran in
        self.code: CodeType = compile(tree, file, "exec", dont_inherit=True)
        self._take = _Taking(asked)

    @property
    def replaced(self) -> list[str]:
        """The names of what calls have replaced in torch, as far as the code has run."""
        return self._take.replaced

    def space(self, names: dict) -> dict:
        """A namespace of these names, for the code, as of a check cell."""
        return names | {"__name__": MODULE.__name__, _TAKE: self._take}


@lru_cache(maxsize=64)
def _made_ready(source: str) -> tuple[ast.Module, Asked]:
    """The source with each call in it watched, and the parts of torch that it may ask. A check asks the same scenario
    of many arguments."""
    tree = ast.parse(source)
    names = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    asked = Asked(names)
    return ast.fix_missing_locations(_Calls().visit(tree)), asked


class _Taking:
    """Takes what a call came back with, and puts torch back. Functions of a scenario may be sent to other processes,
    the ranks of an exercise; there it only takes."""

    def __init__(self, asked: Asked):
        self._asked = asked
        self.replaced: list[str] = []

    def __call__(self, value: Any) -> Any:
        self.replaced += self._asked.put_back()
        return taken(value)

    def __reduce__(self) -> tuple:
        return _taking_elsewhere, ()


def _taking_elsewhere() -> Callable[[Any], Any]:
    return taken


class _Calls(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name(_TAKE, ast.Load()), [node], []), node)
