"""Run the exercises of a chapter in this process: answers in, points and verdicts out."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import time
from dataclasses import dataclass, field
from functools import cache

from torchkata.tools.course import Chapter, course_root
from torchkata.tools.source import exercise_of, read_source
from torchkata.tools.stubs import learners_version, without_hidden_tests


@dataclass
class Marks:
    """What the check cells of an exercise said: points earned, all text shown, whether a hidden test spoke."""

    points: float = 0.0
    text: str = ""
    errors: list[BaseException] = field(default_factory=list)


@cache
def chapter_source(name: str):
    return read_source(Chapter(course_root(), name))


def exercise_cells(name: str, exercise: str):
    """The answer cell and the check cells of an exercise."""
    cells = [cell for cell in chapter_source(name).cells if exercise_of(cell) == exercise]
    return cells[0], cells[1:]


def exercise_ids(name: str) -> list[str]:
    return [e for cell in chapter_source(name).cells if (e := exercise_of(cell)) and cell.metadata.nbgrader.solution]


def full_points(name: str, exercise: str) -> float:
    return sum(cell.metadata.nbgrader.points for cell in exercise_cells(name, exercise)[1])


def stub(name: str, exercise: str) -> str:
    return learners_version(exercise_cells(name, exercise)[0].source)


@cache
def _setup(name: str):
    return next(cell.source for cell in chapter_source(name).cells if cell.metadata.get("setup"))


def grade(name: str, exercise: str, answer: str, hidden: bool = True) -> Marks:
    """Run an answer's source and then the check cells of its exercise, as a kernel would."""
    space: dict = {"__name__": "__main__"}
    run_cell(_setup(name), space, f"<{name} setup>")
    marks = Marks()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run_cell(answer, space, f"<answer {exercise}>")
        for cell in exercise_cells(name, exercise)[1]:
            source = cell.source if hidden else without_hidden_tests(cell.source)
            try:
                value = run_cell(source, space, f"<check {cell.id}>")
                marks.points += value if isinstance(value, float) else cell.metadata.nbgrader.points
            except Exception as error:
                marks.errors.append(error)
                print("\n".join(getattr(error, "lines", [repr(error)])))
    marks.text = out.getvalue()
    return marks


def check_seconds(name: str, exercise: str, answer: str) -> float:
    """Wall time of the check cells of an exercise for an answer, in seconds."""
    space: dict = {"__name__": "__main__"}
    run_cell(_setup(name), space, f"<{name} setup>")
    run_cell(answer, space, f"<answer {exercise}>")
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in exercise_cells(name, exercise)[1]:
            run_cell(cell.source, space, f"<check {cell.id}>")
    return time.perf_counter() - start


def run_cell(source: str, space: dict, file: str) -> object:
    """Run a cell in a namespace; the value of its last line where that is an expression."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), space)
    return eval(compile(ast.Expression(last.value), file, "eval"), space) if last else None
