"""The source of a scenario: what has to travel so that it can run beside the learner's code, and nothing more."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Set
from functools import lru_cache
from types import CodeType, FunctionType

from torchkata.base.names import names_of

Definition = ast.FunctionDef | ast.ClassDef


class ScenarioError(ValueError):
    """An author's scenario that can't run beside the learner's code; the message says why."""


def scenario_source(scenario: Callable, known: Set[str]) -> str:
    """The source of a function of a check cell and of the other functions and classes of that cell that it uses.

    `known` are names that are there on the other side: those of the chapter's first code cell.
    Raises ScenarioError for a scenario that uses anything else of the check cell, which may hold expected values.
    """
    if not isinstance(scenario, FunctionType) or scenario.__closure__ or scenario.__name__ == "<lambda>":
        raise ScenarioError("a scenario must be a function with a name, and defined outside of other functions")
    file = scenario.__code__.co_filename
    cell = _Cell("".join(linecache.getlines(file)), file, scenario.__globals__)
    needed = cell.needed_by(scenario, known)
    return _source_of(tuple(sorted(needed, key=lambda node: node.lineno)))


@lru_cache(maxsize=256)
def _source_of(nodes: tuple[Definition, ...]) -> str:
    return "\n\n".join(map(ast.unparse, nodes))


class _Cell:
    """A check cell: its source as a tree, and its names as they are bound at this moment."""

    def __init__(self, source: str, file: str, space: dict):
        self._file, self._space = file, space
        self._definitions = _definitions(source)

    def needed_by(self, scenario: FunctionType, known: Set[str]) -> list[Definition]:
        found = [self._definition(scenario.__name__, scenario)]
        for node in found:  # grows while it is gone through
            for name in sorted(_names_in(node)):
                if name not in self._space or name in known:
                    continue
                other = self._definition(name, self._space[name])
                if other not in found:
                    found.append(other)
        return found

    def _definition(self, name: str, value: object) -> Definition:
        code: CodeType | None = getattr(value, "__code__", None)
        same_file = isinstance(value, type) or (code is not None and code.co_filename == self._file)
        nodes = [node for node in self._definitions if node.name == name] if same_file else []
        if code is not None:
            nodes = [node for node in nodes if _first_line(node) == code.co_firstlineno]
        if not nodes:
            raise ScenarioError(f"a scenario uses {name}, which is neither its argument nor a function of its cell")
        return nodes[-1]


@lru_cache(maxsize=64)
def _definitions(source: str) -> list[Definition]:
    return list(_top_level(ast.parse(source)))


def _top_level(tree: ast.AST) -> Iterator[Definition]:
    """Functions and classes of a cell, in its with, for and if blocks too, but not inside of each other."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield node
        else:
            yield from _top_level(node)


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


@lru_cache(maxsize=1024)
def _names_in(node: Definition) -> frozenset[str]:
    """The names that a definition reads from outside."""
    return names_of(ast.unparse(node)).reads
