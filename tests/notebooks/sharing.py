"""What check cells of one exercise share stands in its helpers cell, and only that stands there."""

from __future__ import annotations

import ast
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from torchkata.base.names import names_of
from torchkata.base.shared_helpers import Helper, helpers_in, name_of, used_by
from torchkata.tools.assembling import exercise_parts

SENTENCE = 3  # a text of so many words or more is a sentence
IMPURE = ("observe", "rand", "seed", "generator")  # what such a call gives depends on where it stands


@dataclass(frozen=True)
class Definition:
    """A function, a class or a constant in the `with` block of a check cell, without indentation.

    reads: the names that it takes from outside; says: whether it is code or text that has an author, and not a plain
    value such as the input of a test; first, last: its lines in the cell, counted from 1.
    """

    name: str
    text: str
    reads: frozenset[str]
    says: bool
    first: int
    last: int


def problems_of_helpers(text: str) -> list[str]:
    """What is wrong with the helpers of an exercise, for the text of its file."""
    helpers, checks = parts_of(text)
    cells_of = Counter(one.name for check in checks for one in used_by(check, helpers))
    problems = [f"no check cell uses the helper {one.name}: delete it" for one in helpers if not cells_of[one.name]]
    problems += [
        f"one check cell alone uses the helper {one.name}: define it there"
        for one in helpers
        if cells_of[one.name] == 1
    ]
    return problems + [
        f"{name} is defined alike in two check cells: define it once, in the helpers cell"
        for name in repeated(helpers, checks)
    ]


def parts_of(text: str) -> tuple[list[Helper], list[str]]:
    """The helpers and the check cells of an exercise's file."""
    parts = exercise_parts(text)
    helpers = [one for part in parts if part.kind == "helpers" for one in helpers_in(part.text)]
    return helpers, [part.text for part in parts if part.kind == "check"]


def repeated(helpers: list[Helper], checks: list[str]) -> dict[str, Definition]:
    """The definitions that stand alike in two check cells (or in one and among the helpers) and mean the same there, by
    name; with them plain values that they read.

    Left out: a name that means something else in another check cell, or elsewhere in the same one; what reads a name
    that a check cell binds for itself.
    """
    found, bound = _alike(helpers, checks), {name for check in checks for name in _bindings(check)}
    own = {helper.name for helper in helpers}
    while gone := [name for name, one in found.items() if one.reads & bound - own - {"test", name} - found.keys()]:
        for name in gone:
            del found[name]
    wanted = {name for name, one in found.items() if one.says}
    while more := {read for name in wanted for read in found[name].reads & found.keys()} - wanted:
        wanted |= more
    return {name: one for name, one in found.items() if name in wanted}


def _alike(helpers: list[Helper], checks: list[str]) -> dict[str, Definition]:
    """The first of the definitions that stand in two places in the same words, by name."""
    written: dict[str, list[Definition]] = defaultdict(list)
    places: Counter[str] = Counter()
    for check in checks:
        for one in definitions(check):
            written[one.name].append(one)
        places.update(_bindings(check))
    shared = {helper.name: helper.text for helper in helpers}
    return {
        name: same[0]
        for name, same in written.items()
        if len(same) + (name in shared) > 1
        and len(same) == places[name]
        and len({one.text for one in same} | {shared.get(name, same[0].text)}) == 1
    }


def definitions(check: str) -> Iterator[Definition]:
    """The definitions in the `with` block of a check cell that could stand anywhere in it."""
    lines = check.split("\n")
    for node in _block(check):
        if (name := name_of(node)) is None:
            continue
        says = isinstance(node, (ast.FunctionDef, ast.ClassDef)) or _has_sentence(node)
        if isinstance(node, ast.Assign) and _depends_on_its_place(node):
            continue
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        last = node.end_lineno
        while lines[first - 2].strip().startswith("# "):
            first -= 1
        text = textwrap.dedent("\n".join(lines[first - 1 : last]))
        yield Definition(name, text, names_of(text).reads, says, first, last)


def _block(check: str) -> list[ast.stmt]:
    return next((node.body for node in ast.parse(check).body if isinstance(node, ast.With)), [])


def _bindings(check: str) -> Counter[str]:
    """How many statements of a check cell bind each name."""
    return Counter(name for node in _block(check) for name in names_of(ast.unparse(node)).binds)


def _has_sentence(node: ast.AST) -> bool:
    texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return any(len(text.split()) >= SENTENCE for text in texts)


def _depends_on_its_place(node: ast.Assign) -> bool:
    calls = (ast.unparse(one.func).lower() for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(word in call for call in calls for word in IMPURE)
