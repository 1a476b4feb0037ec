"""Run the exercises of a chapter in this process: answers in, points and verdicts out."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import linecache
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from unittest.mock import patch

from tests.fresh_process import said_by
from tests.notebooks.crossing import through_bytes
from torchkata.base.chapter import exercise_of
from torchkata.base.check_cell import MODULE
from torchkata.base.marks import learners_version
from torchkata.base.names import names_of
from torchkata.base.shared_helpers import whole_checks
from torchkata.base.writing import write_whole
from torchkata.tools.assembling import EXERCISE_LINE
from torchkata.tools.course import SIDE_NOTEBOOKS, Chapter, SideNotebook
from torchkata.tools.grading.sandbox.scenarios import scenario_source
from torchkata.tools.placing import here
from torchkata.tools.source import read_source
from torchkata.verdicts import asking, observing


@dataclass
class Marks:
    """What the check cells of an exercise said: points earned, all text shown, names of the exceptions raised, and of
    each cell that was not passed the first sentence (of a prediction exercise the sentences on its items). `visibly`:
    a test that can be read in the notebook has failed."""

    points: float = 0.0
    text: str = ""
    errors: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    visibly: bool = False


# an answer that torch's compiler takes for part of an older `__main__` where other answers ran before it
ALONE = re.compile("^# alone$", re.M)
MarksOf = Callable[[str, str, str], Marks]  # of a chapter, an exercise and the source of an answer


@cache
def chapter_source(name: str):
    return read_source(_chapter(name))


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(json.dumps([name, chapter_source(name).cells]).encode()).hexdigest()


def _chapter(name: str) -> Chapter:
    kind = SideNotebook if name in SIDE_NOTEBOOKS else Chapter
    return kind(here(), name)


@cache
def exercise_cells(name: str, exercise: str):
    """The answer cell and the check cells of an exercise, these with the helpers that they use."""
    cells = [cell for cell in whole_checks(chapter_source(name).cells) if exercise_of(cell) == exercise]
    return cells[0], cells[1:]


def exercise_ids(name: str) -> list[str]:
    """In the order of the chapter; read from its lines, since each run of the tests asks for all of them."""
    lines = _chapter(name).source.read_text(encoding="utf-8").splitlines()
    return [found[1] for line in lines if (found := EXERCISE_LINE.match(line))]


def full_points(name: str, exercise: str) -> float:
    return sum(cell.metadata.nbgrader.points for cell in exercise_cells(name, exercise)[1])


def stub(name: str, exercise: str) -> str:
    return learners_version(exercise_cells(name, exercise)[0].source)


@cache
def _setup(name: str):
    return next(cell.source for cell in chapter_source(name).cells if cell.metadata.get("setup"))


def grade(name: str, exercise: str, answer: str) -> Marks:
    """Run an answer's source and then the check cells of its exercise, as a kernel would. All observations cross to the
    judging side as bytes, as under `torchkata grade`, and must come back as they were; scenarios must be able to go."""
    module = ModuleType("__main__")
    space = vars(module)
    run_cell(_setup(name), space, f"<{name} setup>")
    marks = Marks()
    out = io.StringIO()
    with contextlib.redirect_stdout(out), _crossing(name, space), _as_main(module):
        run_cell(answer, space, f"<answer {exercise}>")
        for cell in exercise_cells(name, exercise)[1]:
            before = len(out.getvalue())
            try:
                value = run_cell(cell.source, space | {"__name__": MODULE.__name__}, f"<check {cell.id}>")
                marks.points += value if isinstance(value, float) else cell.metadata.nbgrader.points
                if isinstance(value, float) and value < cell.metadata.nbgrader.points:
                    marks.told.append(out.getvalue()[before:])
                    marks.visibly = True
            except Exception as error:
                marks.errors.append(type(error).__name__)
                lines = getattr(error, "lines", [repr(error)])
                marks.told += [line.strip() for line in lines[1:2]]
                marks.visibly |= ", hidden test: " not in lines[0]
                print("\n".join(lines))
    marks.text = out.getvalue()
    return marks


@contextlib.contextmanager
def _crossing(name: str, space: dict) -> Iterator[None]:
    """Inside, what is asked in a chapter's checks, and what comes back, can cross to another process. `space` has the
    answers, by their names."""
    run, known = observing.run_scenario, _names_of_setup(name)

    def run_what_can_go(scenario: FunctionType, args: tuple, recorded: bool) -> observing.Observation:
        scenario_source(scenario, known)
        answers = [arg for arg in args if observing.is_answer(arg)]
        assert all(any(arg is own for own in space.values()) for arg in answers), "an argument can't go to a scenario"
        return run(scenario, args, recorded)

    with patch.object(asking, "_cross", through_bytes), patch.object(observing, "run_scenario", run_what_can_go):
        yield


@cache
def _names_of_setup(name: str) -> frozenset[str]:
    return frozenset(names_of(_setup(name)).binds)


@contextlib.contextmanager
def _as_main(module: ModuleType) -> Iterator[None]:
    """Inside, this module is `__main__`, in which torch's compiler looks up what the functions of a notebook use."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.modules["__main__"] = before


def remembering(folder: Path) -> MarksOf:
    """`grade`, with what it found kept in a folder."""

    def marks_of(name: str, exercise: str, answer: str) -> Marks:
        key = json.dumps([_digest(name), exercise, answer])
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        if path.exists():
            return Marks(**json.loads(path.read_text(encoding="utf-8")))
        marks = (_grade_alone if ALONE.search(answer) else grade)(name, exercise, answer)
        write_whole(path, json.dumps(asdict(marks)))
        return marks

    return marks_of


def _grade_alone(name: str, exercise: str, answer: str) -> Marks:
    """`grade`, in a process of its own."""
    lines = (
        "import dataclasses, json; from tests.notebooks.running import grade",
        f"print(json.dumps(dataclasses.asdict(grade({name!r}, {exercise!r}, {answer!r}))))",
    )
    return Marks(**json.loads(said_by("\n".join(lines)).splitlines()[-1]))


def check_seconds(name: str, exercise: str, answer: str) -> float:
    """Wall time of the check cells of an exercise for an answer, in seconds."""
    space: dict = {"__name__": "__main__"}
    run_cell(_setup(name), space, f"<{name} setup>")
    run_cell(answer, space, f"<answer {exercise}>")
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in exercise_cells(name, exercise)[1]:
            run_cell(cell.source, dict(space), f"<check {cell.id}>")
    return time.perf_counter() - start


def run_cell(source: str, space: dict, file: str) -> object:
    """Run a cell in a namespace; the value of its last line where that is an expression."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    statements, value = compiled(source, file)
    exec(statements, space)
    return eval(value, space) if value else None


@lru_cache(maxsize=100)
def compiled(source: str, file: str) -> tuple[CodeType, CodeType | None]:
    """A cell's statements, and its last line where that is an expression; a check cell is run on many answers."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    statements = compile(tree, file, "exec", dont_inherit=True)
    return statements, compile(ast.Expression(last.value), file, "eval", dont_inherit=True) if last else None
