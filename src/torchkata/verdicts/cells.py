"""Check cells in a kernel: each runs in a namespace of its own, as it does where submissions are graded.

An AST transformer of IPython's puts a call in the place of a check cell. The call writes the exercise's helpers into
the cell and runs it with the chapter's imports and the learner's answers; what the cell binds is gone afterwards. So a
learner's names and those of a check cell never meet. A helpers cell is noted, not run.

Elsewhere, as in a script, a check cell is code like any other.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from torchkata.base.editor import shell_here
from torchkata.base.shared_helpers import helpers_in, name_of, title_of, with_helpers
from torchkata.verdicts import names

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

_CALL = "_torchkata_runs_this_cell"
_FILE = "<check of {}>"
_helpers: dict[str, str] = {}  # by exercise: the source of its helpers cell
_taken: dict[str, list[str]] = {}  # by file of a check cell: see `names.taken`


def watch() -> None:
    """From now on, in a kernel, run check cells apart."""
    if (shell := shell_here()) is None:
        return

    def after(result: ExecutionResult) -> None:
        if result.success and result.info:
            names.learn(shell.user_ns, _imported(result.info.raw_cell or ""))

    shell.events.register("post_run_cell", after)
    shell.ast_transformers.append(_CheckCells(shell))


def _imported(source: str) -> set[str]:
    """The names that the first cell of a chapter imports; none for any other cell."""
    with suppress(SyntaxError):
        if "torchkata.verdicts" in source:
            found = [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
            known = {alias.asname or alias.name.partition(".")[0] for node in found for alias in node.names}
            return known if "check" in known else set()
    return set()


class _CheckCells:
    """Puts a call in the place of a check cell, and of a helpers cell."""

    def __init__(self, shell: InteractiveShell):
        self._shell = shell

    def visit(self, tree: ast.Module) -> ast.Module:
        if (exercise := title_of(tree.body)) and all(map(name_of, tree.body[1:])):
            return self._calling(partial(_note_helpers, exercise), tree, slice(0, len(tree.body)))
        if frame := _frame_in(tree.body):
            exercise, place = frame
            return self._calling(partial(self._run, exercise), tree, place)
        return tree

    def _calling(self, action: Callable[[str], object], tree: ast.Module, place: slice) -> ast.Module:
        """A cell that calls this action in place of these statements, with its own source."""

        def call() -> object:
            self._shell.user_ns.pop(_CALL, None)
            return action(_source_of(sys._getframe(1).f_code.co_filename) or ast.unparse(tree))

        self._shell.user_ns[_CALL] = call
        calling = ast.parse(f"{_CALL}()").body
        for node in calling:
            ast.increment_lineno(node, tree.body[place][0].lineno - 1)
        return ast.Module([*tree.body[: place.start], *calling, *tree.body[place.stop :]], tree.type_ignores)

    def _run(self, exercise: str, source: str) -> object:
        whole, file = with_helpers(source, helpers_in(_helpers.get(exercise, ""))), _FILE.format(exercise)
        linecache.cache[file] = (len(whole), None, whole.splitlines(keepends=True), file)
        learners = {k: v for k, v in self._shell.user_ns.items() if v is not self._shell.user_ns_hidden.get(k)}
        _taken[file] = names.taken(whole, learners)
        return _value_of(whole, file, names.space_for_checks(learners))


def _frame_in(body: list[ast.stmt]) -> tuple[str, slice] | None:
    """The exercise of a check cell, and which of its statements are the check: the frame and the expressions below."""
    for start, node in enumerate(body):
        match node:
            case ast.With([ast.withitem(ast.Call(ast.Name("check"), [ast.Constant(str(exercise))]))]):
                more = (n for n, one in enumerate(body[start + 1 :], start + 1) if not isinstance(one, ast.Expr))
                return exercise, slice(start, next(more, len(body)))
    return None


def _value_of(source: str, file: str, space: dict) -> object:
    """Run the check in a cell; the value of its last line where that is an expression, as of `test.points`."""
    tree, value = ast.parse(source), None
    frame = _frame_in(tree.body)
    tree.body = tree.body[frame[1]] if frame else tree.body
    if isinstance(last := tree.body[-1], ast.Expr):
        tree.body.pop()
        value = compile(ast.Expression(last.value), file, "eval", dont_inherit=True)
    exec(compile(tree, file, "exec", dont_inherit=True), space)
    return eval(value, space) if value else None


def _source_of(file: str) -> str:
    return "".join(linecache.getlines(file))


def _note_helpers(exercise: str, source: str) -> None:
    _helpers[exercise] = source


def names_taken(file: str) -> list[str]:
    """Names that the check cell of this file uses and that the learner has given to something else."""
    return _taken.get(file, [])


def lacks_helpers(exercise: str) -> bool:
    """Whether no helpers cell of this exercise has run here."""
    return exercise not in _helpers
