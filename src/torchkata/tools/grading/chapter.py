"""A chapter as grading needs it: what judges its answers, what a submission of it holds, and what changes when either
changes."""

from __future__ import annotations

import ast
import hashlib
import linecache
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from torchkata import __version__
from torchkata.base.chapter import CheckCell, Exercise, exercise_of, exercises_of
from torchkata.base.layout import without_layout
from torchkata.base.names import names_of
from torchkata.base.places import PACKAGE
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.records import Record

if TYPE_CHECKING:
    from nbformat import NotebookNode

JUDGES = (
    "verdicts",
    "processes",
    "base",
    "instruments",
    "tools/grading",
    "tools/course.py",
)  # where marks are decided on
HANDED_OUT = "handed_out"  # pages and tables: other words there change no mark

# ---------------------------------------------------------------- what judges


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
        exercises = tuple(exercises_of(notebook.cells))
        names = {one.id: names_of(one.answer).binds for one in exercises}
        return cls(name, setup, exercises, names, {one.id: one.checks for one in exercises})

    @cached_property
    def _setup_space(self) -> dict:
        space: dict = {"__name__": "__main__"}
        exec(compile(self.setup, "<setup>", "exec", dont_inherit=True), space)
        return space

    def space(self, answers: dict[str, Callable]) -> dict:
        """A fresh namespace for check cells: what the setup binds, and stand-ins for answers."""
        return self._setup_space | answers


def points_of(check: CheckCell, space: dict) -> float:
    """Run a check cell in a namespace; the points that it gives. Raises what the cell raises.

    As in nbgrader, a number on the cell's last line is a share of the points.
    """
    body, last = _code_of(check)
    exec(body, space)
    value: Any = eval(last, space) if last else None
    if type(value) not in (int, float):
        return check.points
    return min(float(value), check.points) if value >= 0 else 0.0


@lru_cache(maxsize=256)
def _code_of(check: CheckCell) -> tuple[CodeType, CodeType | None]:
    """The cell, and its last line where that is an expression."""
    file = f"<check {check.id}>"
    linecache.cache[file] = (len(check.source), None, check.source.splitlines(keepends=True), file)
    tree = ast.parse(check.source)
    value = None
    if isinstance(last := tree.body[-1], ast.Expr):
        tree.body.pop()
        value = compile(ast.Expression(last.value), file, "eval", dont_inherit=True)
    return compile(tree, file, "exec", dont_inherit=True), value


# ---------------------------------------------------------------- what was released


@dataclass(frozen=True)
class Release:
    """The structure by which submissions of a chapter are read.

    Attributes:
        answers: the released source of each answer cell, by exercise, in the chapter's order.
        checks: the released source of each check cell, by grade id.
        unchanged: the sources, without their layout, of all released code cells but the answers.
        demos: those of them that are neither setup nor check cells and bind or change names, which answers may use.
        names: what each answer cell defines, by exercise; names that several of them define are left out.
        digest: changes with the chapter's notebooks and with the code that grades.
        judges: by exercise, what changes with its check cells, hidden tests included, the setup, and the code that
            grades.
    """

    answers: dict[str, str]
    checks: dict[str, str]
    unchanged: frozenset[str]
    demos: frozenset[str]
    names: dict[str, frozenset[str]]
    digest: str
    judges: dict[str, str]


def need_built(chapter: Chapter) -> None:
    """Raises CourseError where the chapter is not built."""
    if not chapter.release.is_file() or not chapter.solution.is_file():
        raise CourseError(f"{chapter.name} is not built here. Run `torchkata build {chapter.number}`, then grade.")


def read_release(chapter: Chapter) -> Release:
    """Read the released notebook of a chapter. Raises CourseError where the chapter is not built."""
    need_built(chapter)
    answers, checks, unchanged = {}, {}, {}
    for cell in read_notebook(chapter.release).cells:
        exercise = exercise_of(cell)
        if exercise and cell.metadata.nbgrader.solution:
            answers[exercise] = cell.source
            continue
        if exercise:
            checks[cell.metadata.nbgrader.grade_id] = cell.source
        if cell.cell_type == "code":
            unchanged[without_layout(cell.source)] = exercise, cell.source
    _, *others = unchanged.items()  # the first code cell is the setup
    demos = frozenset(known for known, (exercise, source) in others if not exercise and names_of(source).makes)
    names, judges = _own_names(answers), _judges(MasterChapter.of(chapter))
    return Release(answers, checks, frozenset(unchanged), demos, names, _digest(chapter), judges)


def judged_by(record: Record, release: Release) -> Record:
    """The record of a submission that was judged now, by the check cells of this release."""
    return replace(record, marks=[replace(m, judged_by=release.judges.get(m.exercise, "")) for m in record.marks])


def _judges(master: MasterChapter) -> dict[str, str]:
    """Of each exercise what changes with what judges it."""
    common = f"{grader_digest()} {master.setup}"
    sources = {exercise: [check.source for check in checks] for exercise, checks in master.checks.items()}
    return {
        exercise: hashlib.sha256("\0".join([common, *own]).encode()).hexdigest() for exercise, own in sources.items()
    }


def _own_names(answers: dict[str, str]) -> dict[str, frozenset[str]]:
    defined = {exercise: names_of(source).binds for exercise, source in answers.items()}
    count = Counter(name for names in defined.values() for name in names)
    return {exercise: frozenset(n for n in names if count[n] == 1) for exercise, names in defined.items()}


def _digest(chapter: Chapter) -> str:
    total = hashlib.sha256(grader_digest().encode())
    for path in (chapter.release, chapter.solution):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@cache
def grader_digest() -> str:
    """Changes with the code that decides on marks, torch's version included."""
    return digest_of(PACKAGE)


def digest_of(package: Path) -> str:
    """The same for a copy of the package."""
    total = hashlib.sha256(f"{__version__} {version('torch')}".encode())
    for path in judging_files(package):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def judging_files(package: Path) -> list[Path]:
    """The source files that decide on marks, in a fixed order."""
    found = [path for judge in JUDGES for path in sorted((package / judge).rglob("*.py")) or [package / judge]]
    return [path for path in found if path.parent.name != HANDED_OUT]
