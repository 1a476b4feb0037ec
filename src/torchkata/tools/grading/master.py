"""A chapter as the one who grades it needs it: its setup, and for each exercise its names and its check cells."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any

from torchkata.base.names import names_of
from torchkata.tools.course import Chapter, Exercise, exercise_of, exercises_of

if TYPE_CHECKING:
    from nbformat import NotebookNode


@dataclass(frozen=True)
class CheckCell:
    """A check cell: its grade id, its source, the points that it is worth."""

    id: str
    source: str
    points: float

    @cached_property
    def _code(self) -> tuple[CodeType, CodeType | None]:
        """The cell, and its last line where that is an expression."""
        file = f"<check {self.id}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        tree = ast.parse(self.source)
        value = None
        if isinstance(last := tree.body[-1], ast.Expr):
            tree.body.pop()
            value = compile(ast.Expression(last.value), file, "eval", dont_inherit=True)
        return compile(tree, file, "exec", dont_inherit=True), value

    def run(self, space: dict) -> float:
        """Run the cell in a namespace; the points that it gives. Raises what the cell raises.

        As in nbgrader, a number on the cell's last line is a share of the points.
        """
        body, last = self._code
        exec(body, space)
        value: Any = eval(last, space) if last else None
        if type(value) not in (int, float):
            return self.points
        return min(float(value), self.points) if value >= 0 else 0.0


@dataclass(frozen=True)
class MasterChapter:
    """A chapter's structure, from the author's notebook (with hidden tests) or, where there is none, the release.

    Attributes:
        setup: the source of its first code cell.
        exercises: in the chapter's order.
        names: by exercise, the names that the author's answer cell binds.
        checks: by exercise, its check cells in order.
    """

    name: str
    setup: str
    exercises: tuple[Exercise, ...]
    names: dict[str, frozenset[str]]
    checks: dict[str, tuple[CheckCell, ...]]

    @classmethod
    def of(cls, chapter: Chapter) -> MasterChapter:
        """Raises CourseError when the chapter's notebook is missing or can't be read."""
        return cls.from_notebook(chapter.name, chapter.master)

    @classmethod
    def from_notebook(cls, name: str, notebook: NotebookNode) -> MasterChapter:
        setup = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
        names: dict[str, frozenset[str]] = {}
        checks: dict[str, tuple[CheckCell, ...]] = {}
        for cell in notebook.cells:
            exercise = exercise_of(cell)
            if exercise is None:
                continue
            meta = cell.metadata.nbgrader
            if meta.solution:
                names[exercise] = names_of(cell.source).binds
            else:
                check = CheckCell(meta.grade_id, cell.source, float(meta.points))
                checks[exercise] = (*checks.get(exercise, ()), check)
        return cls(name, setup, tuple(exercises_of(notebook)), names, checks)

    @cached_property
    def _setup_space(self) -> dict:
        space: dict = {"__name__": "__main__"}
        exec(compile(self.setup, "<setup>", "exec", dont_inherit=True), space)
        return space

    def space(self, answers: dict[str, Callable]) -> dict:
        """A fresh namespace for check cells: what the setup binds, and stand-ins for answers."""
        return self._setup_space | answers
