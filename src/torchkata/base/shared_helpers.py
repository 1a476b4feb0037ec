"""What several check cells of an exercise share is written once, and each check cell is put together before it runs.

    # %% helpers="one-hot"      in the exercise's file: functions, classes, and constants such as sentences and mistakes

In a notebook the helpers that visible tests use are one locked cell above the first check cell. Its first line is the
docstring "What the checks of one-hot share.", by which a kernel knows it. Helpers that only hidden tests use are not
part of it: the build writes them into the hidden tests.

Whoever runs a check cell (a kernel, a command, the one who grades) first writes the helpers that it uses, directly or
through another one, into the cell: right below `with check(...) as test:`, or, where only its hidden tests use them,
right below `### BEGIN HIDDEN TESTS`. So a check cell is one piece of code, wherever it runs.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torchkata.base.marks import HIDDEN, regions, without_hidden_tests
from torchkata.base.names import names_of

INDENT = "    "
TITLE = "What the checks of {} share."
_TITLE = re.compile(re.escape(TITLE).replace(r"\{\}", "(?P<exercise>[a-z0-9-]+)"))
_AnyCell = TypeVar("_AnyCell", bound=Mapping[str, Any])


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
    if title_of(body):
        end = body.pop(0).end_lineno or 0
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


def title_of(body: list[ast.stmt]) -> str | None:
    """The exercise whose helpers a cell with these statements holds, by its first line; None for any other cell."""
    match body[:1]:
        case [ast.Expr(ast.Constant(str(words)))] if found := _TITLE.fullmatch(words):
            return found["exercise"]
    return None


def used_by(check: str, helpers: Iterable[Helper]) -> list[Helper]:
    """The helpers that a check cell uses, directly or through another one; none for a cell that can't be read."""
    helpers, wanted = list(helpers), names_of(check).reads
    while more := {name for one in helpers if one.name in wanted for name in one.reads} - wanted:
        wanted |= more
    return [one for one in helpers if one.name in wanted]


def shown(checks: Iterable[str], helpers: list[Helper]) -> list[Helper]:
    """The helpers that visible tests of any of these check cells use: those of the notebook's helpers cell."""
    used = [one for check in checks for one in used_by(without_hidden_tests(check), helpers)]
    return [one for one in helpers if one in used]


def helpers_cell(exercise: str, helpers: list[Helper]) -> str:
    """The source of a helpers cell as it stands in a notebook."""
    lines = [f'"""{TITLE.format(exercise)}"""', "", *([""] if helpers[0].is_block else [])]
    return "\n".join([*lines, *_one_below_the_other(helpers, around_blocks=2)])


def with_helpers(check: str, helpers: Collection[Helper]) -> str:
    """The source of a check cell with the helpers that it uses; a name that the cell defines itself is its own.

    A cell without its `with` block, or one that Python can't read, comes back as it is: other rules tell of them.
    """
    try:
        tree = ast.parse(check)
    except SyntaxError:
        return check
    own = names_of(check).binds
    helpers = [one for one in helpers if one.name not in own]
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


def whole_checks(cells: Iterable[_AnyCell]) -> list[_AnyCell]:
    """The cells of a notebook without those that hold helpers, and each check cell with the helpers that it uses."""
    helpers: dict[str, list[Helper]] = {}
    found: list[_AnyCell] = []
    for cell in cells:
        meta = cell["metadata"].get("nbgrader") or {}
        if is_helpers(meta):
            helpers[exercise_named(meta["grade_id"])] = helpers_in("".join(cell["source"]))
            continue
        if meta.get("grade") and (own := helpers.get(exercise_named(meta["grade_id"]))):
            cell = type(cell)({**cell, "source": with_helpers("".join(cell["source"]), own)})  # type: ignore[call-arg]
        found.append(cell)
    return found


def is_helpers(meta: Mapping[str, Any]) -> bool:
    """Whether nbgrader's metadata are those of a helpers cell."""
    return not (meta.get("grade") or meta.get("solution")) and str(meta.get("grade_id")).endswith("-helpers")


def exercise_named(grade_id: str) -> str:
    """The exercise to which a check cell or a helpers cell belongs, by its grade id."""
    return re.sub(r"-(check(-\d+)?|helpers)$", "", grade_id)


def _insert(lines: list[str], place: int, helpers: list[Helper]) -> None:
    """Write helpers below the line with this number, and an empty line below them."""
    block = textwrap.indent("\n".join(_one_below_the_other(helpers, around_blocks=1)), INDENT).split("\n")
    while place < len(lines) and not lines[place]:
        del lines[place]
    lines[place:place] = [*block, ""]


def _one_below_the_other(helpers: list[Helper], around_blocks: int) -> list[str]:
    """The lines of helpers, with so many empty ones around functions and classes."""
    lines: list[str] = []
    for before, helper in zip([None, *helpers], helpers, strict=False):
        if before and (helper.is_block or before.is_block):
            lines += [""] * around_blocks
        elif before and helper.apart:
            lines.append("")
        lines += helper.text.split("\n")
    return lines
