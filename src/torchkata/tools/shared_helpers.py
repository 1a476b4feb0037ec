"""What several check cells of an exercise share stands once in its file; each check cell gets what it uses.

    # %% helpers="one-hot"      behind the answer cell: functions, classes, and constants such as sentences and mistakes

A check cell stands alone in a notebook. So the build writes into it, in their order, the helpers that it uses, directly
or through another one: right below `with check(...) as test:`, or, where only its hidden tests use them, right below
`### BEGIN HIDDEN TESTS`, so that a release does not show them.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from torchkata.base.marks import HIDDEN, regions, without_hidden_tests
from torchkata.base.names import names_of

INDENT = "    "


@dataclass(frozen=True)
class Helper:
    """One definition of a helpers cell.

    text: with the comments above it; reads: the names that it takes from outside; is_block: a function or a class;
    apart: whether an empty line stands above it.
    """

    name: str
    text: str
    reads: frozenset[str]
    is_block: bool
    apart: bool


def helpers_in(source: str) -> list[Helper]:
    """The helpers of a helpers cell, in order. Raises ValueError, with the mend, for anything else in it."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(f"{error.msg} (line {error.lineno} of the cell: {(error.text or '').strip()})") from None
    found: list[Helper] = []
    lines, end = source.split("\n"), 0
    for node in body:
        name, line = name_of(node), lines[node.lineno - 1]
        if name is None:
            raise ValueError(f"a helpers cell holds functions, classes and `name = …` alone, not `{line}`. Move it.")
        if name in {helper.name for helper in found}:
            raise ValueError(f"the helper {name} is defined twice. Delete or rename one of them.")
        last = node.end_lineno or node.lineno
        above = [line for line in lines[end : last - 1] if not line.startswith("# %%")]
        text = "\n".join([*above, lines[last - 1]]).strip("\n")
        is_block = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        apart = is_block or above[:1] == [""]
        found.append(Helper(name, text, names_of(text).reads, is_block, apart))
        end = last
    return found


def name_of(node: ast.stmt) -> str | None:
    """The name that a function, a class or an assignment to one name defines; None for any other statement."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def used_by(check: str, helpers: Iterable[Helper]) -> list[Helper]:
    """The helpers that a check cell uses, directly or through another one; none for a cell that can't be read."""
    helpers, wanted = list(helpers), names_of(check).reads
    while more := {name for one in helpers if one.name in wanted for name in one.reads} - wanted:
        wanted |= more
    return [one for one in helpers if one.name in wanted]


def with_helpers(check: str, helpers: Collection[Helper]) -> str:
    """The source of a check cell with the helpers that it uses.

    Raises ValueError for a cell that defines a helper's name itself. A cell without its `with` block, or one that
    Python can't read, comes back as it is: other rules tell of them.
    """
    try:
        tree = ast.parse(check)
    except SyntaxError:
        return check
    if both := names_of(check).binds & {one.name for one in helpers}:
        raise ValueError(f"the cell defines {min(both)}, which is a helper's name. Rename or delete one of them.")
    frame = next((node.lineno for node in tree.body if isinstance(node, ast.With)), None)
    if frame is None:
        return check
    visible = used_by(without_hidden_tests(check), helpers)
    hidden = [one for one in used_by(check, helpers) if one not in visible]
    lines = check.split("\n")
    if hidden:
        _insert(lines, regions(check, HIDDEN)[0].first, hidden)
    if visible:
        _insert(lines, frame, visible)
        if visible[0].is_block:
            lines.insert(frame, "")
    return "\n".join(lines)


def _insert(lines: list[str], place: int, helpers: list[Helper]) -> None:
    """Write helpers below the line with this number, and an empty line below them."""
    block: list[str] = []
    for before, helper in zip([None, *helpers], helpers, strict=False):
        if before and (helper.apart or before.is_block):
            block.append("")
        block += textwrap.indent(helper.text, INDENT).split("\n")
    while place < len(lines) and not lines[place]:
        del lines[place]
    lines[place:place] = [*block, ""]
