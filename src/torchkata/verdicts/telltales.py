"""Which tests of a check cell ask for operations: in those alone they are recorded, which takes longer than most
answers do.

A test asks where its own lines name what tells of operations, or read a name that stands for something which does: a
helper, a scenario, a mistake. A test that has observed what such a test goes on from asks, too. `Seen` raises where it
is asked for operations that were not recorded.
"""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple

# the last one takes the recorder away for a while, and raises where there is none
TELL_OF_OPERATIONS = frozenset(["ops", "op_names", "reads", "used", "avoided", "in_sight", "_pop_mode_temporarily"])
OBSERVES = frozenset(["observe", "observe_scenario"])
RULE = "rule"  # the stage at which what the recorder can't see counts, too
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers")

_Statement = ast.stmt | ast.ExceptHandler


class Asks(NamedTuple):
    """Whether a test asks for operations, and whether any test of its cell does."""

    here: bool
    in_cell: bool


NOBODY_ASKS = Asks(here=False, in_cell=False)


class _Part(NamedTuple):
    """A statement, and what its words say: the names that it binds and reads, whether it names what tells of
    operations, and whether it judges by a rule."""

    statement: _Statement
    binds: set[str]
    reads: set[str]
    tells: bool
    is_rule: bool


_Meanings = dict[str, list[_Part]]  # of names: what binds them


@dataclass
class _Test:
    """The statements of a test, from its first line on."""

    first_line: int
    parts: list[_Part] = field(default_factory=list)
    asks: bool = False


@dataclass
class _Source:
    """What is known of a source file: whether it names what tells of operations at all, and its tests in order; the
    first of these is what stands above all of them."""

    asks: bool
    tests: list[_Test]


_known: dict[str, tuple[list[str], _Source]] = {}  # by file, with its lines


def asks_for_operations(frame: FrameType) -> Asks:
    """Whether the test that runs in this frame, of a check cell, asks for operations. So, too, where the cell's source
    is not known. Of any other file, all counts."""
    file = frame.f_code.co_filename
    lines = linecache.getlines(file)
    if not lines:
        return Asks(True, True)
    if file not in _known or _known[file][0] != lines:
        _known[file] = lines, _look_at("".join(lines))
    _, source = _known[file]
    line = _line_of_cell(frame)
    if not source.asks or line is None:
        return Asks(source.asks, source.asks)
    return Asks([test for test in source.tests if test.first_line <= line][-1].asks, True)


def _line_of_cell(frame: FrameType | None) -> int | None:
    """The line that runs in the cell itself, below all functions of its file."""
    file = frame and frame.f_code.co_filename
    while frame and (frame.f_code.co_name != "<module>" or frame.f_code.co_filename != file):
        frame = frame.f_back
    return frame.f_lineno if frame else None


def _look_at(source: str) -> _Source:
    parts = [_part(statement) for statement in _statements(ast.parse(source).body)]
    if not any(part.tells for part in parts):
        return _Source(False, [])
    tests = [_Test(0)]
    meanings: _Meanings = defaultdict(list)
    for part in parts:
        if _begins_test(part.statement):
            tests.append(_Test(part.statement.lineno))
        if not isinstance(part.statement, _DEFINES):
            tests[-1].parts.append(part)
        for name in part.binds:
            meanings[name].append(part)
    for test in tests:
        test.asks = any(part.tells or part.is_rule for part in _reached(test.parts, meanings))
    for asking in [test for test in tests if test.asks]:
        bound = set().union(*(part.binds for part in asking.parts))
        from_others = set().union(*(part.reads for part in asking.parts)) - bound
        for test in tests:
            test.asks = test.asks or not from_others.isdisjoint(_observed(test.parts, meanings))
    return _Source(True, tests)


def _statements(body: Iterable[_Statement]) -> Iterator[_Statement]:
    """The statements that run when a cell runs, in order: of loops and other blocks the heads, then what is in them."""
    for node in body:
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.ExceptHandler))]
        if isinstance(node, _DEFINES) or not inner:
            yield node
            continue
        parts = {name: [] if name in _BLOCKS else value for name, value in ast.iter_fields(node)}
        yield ast.copy_location(type(node)(**parts), node)
        yield from _statements(inner)


def _part(statement: _Statement) -> _Part:
    binds, reads, tells, is_rule = set[str](), set[str](), False, False
    for node in ast.walk(statement):
        match node:
            case ast.Name(name, ast.Load()):
                reads.add(name)
            case ast.Name(name, ast.Store()):
                binds.add(name)
            case ast.Attribute(attr=name):
                tells |= name in TELL_OF_OPERATIONS
            case ast.Constant(value):
                is_rule |= value == RULE
    return _Part(statement, {statement.name} if isinstance(statement, _DEFINES) else binds, reads, tells, is_rule)


def _begins_test(statement: _Statement) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Name("test") | ast.Attribute(ast.Name("test"), "hidden"))):
            return True
    return False


def _reached(parts: list[_Part], meanings: _Meanings) -> Iterator[_Part]:
    """These statements, and all that the names in them stand for."""
    found, known = list(parts), set[str]()
    for part in found:  # grows while it is gone through
        yield part
        for name in part.reads - known:
            known.add(name)
            found += meanings.get(name, [])


def _observed(parts: list[_Part], meanings: _Meanings) -> set[str]:
    """The names that these statements give to what was observed."""
    observing = [one for one in parts if any(OBSERVES & part.reads for part in _reached([one], meanings))]
    return set().union(*(one.binds for one in observing))
