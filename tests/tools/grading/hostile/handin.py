"""What the corpus is made of: attacks, each of which fills in a submission; and the submission that is filled in."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from textwrap import dedent

from tests.notebooks import running
from tests.tools.submissions import Classroom, Task
from torchkata.base.marks import without_hidden_tests
from torchkata.tools.course import Chapter
from torchkata.tools.grading.chapter import MasterChapter
from torchkata.tools.placing import here

CHAPTER = Chapter(here(), "03_gather_scatter")
MASTER = MasterChapter.of(CHAPTER)


@dataclass(frozen=True)
class Attack:
    """One kind of hostile or damaged submission.

    Attributes:
        name: its function's name.
        kind: the group that it belongs to, the name of its module.
        tries: in a line what it tries.
        nbgrader_safe: whether nbgrader, without a sandbox, may run it: what it does stays inside of its course.
        limit: an exercise that it wins although it should not: a limit of grading that is known and documented.
    """

    name: str
    kind: str
    tries: str
    fill: Callable[[HandIn], None]
    nbgrader_safe: bool = True
    limit: str = ""


CORPUS: list[Attack] = []


def attack(nbgrader_safe: bool = True, limit: str = "") -> Callable:
    """Makes a function that fills in a `HandIn` part of the corpus; its docstring says in a line what it tries."""

    def note(fill: Callable[[HandIn], None]) -> Callable[[HandIn], None]:
        kind = fill.__module__.rpartition("corpus_")[2]
        CORPUS.append(Attack(fill.__name__, kind, fill.__doc__, fill, nbgrader_safe, limit))
        return fill

    return note


@dataclass(frozen=True)
class Surroundings:
    """What an attack may know and reach for: the course, and things that betray that it got out.

    Attributes:
        course: the folder of the course.
        token: a word that stands in everything that an attack leaves behind: files, processes, sockets.
        port: of a server on the loopback interface that nobody may reach.
    """

    course: Path
    token: str
    port: int


class HandIn:
    """A submission while an attack fills it in. The first and the last exercise with a function are solved honestly,
    all others are as released.

    Attributes:
        notebook: the released notebook as JSON data.
        earned: the points that the submission has earned, by exercise.
        unsure: exercises that may get less than that, since the submission spoils its own answers.
        refused: whether the submission is one that can't be graded.
    """

    def __init__(self, student: str, around: Surroundings):
        self.student, self.around = student, around  # an attack may make another name of it
        self.notebook: dict = json.loads(CHAPTER.release.read_text(encoding="utf-8"))
        self.content: bytes | None = None  # in place of the notebook
        self.files: dict[str, bytes] = {}  # beside the notebook
        self.links: dict[str, str] = {}
        self.tasks = tasks()
        self.earned = {task.exercise.id: 0.0 for task in self.tasks}
        self.unsure: set[str] = set()
        self.refused = False
        with_functions = [task for task in self.tasks if task.functions]
        self.first, self.last = with_functions[0], with_functions[-1]
        self.solve(self.first, self.last)

    @property
    def folder(self) -> Path:
        return self.around.course / "submitted" / self.student / CHAPTER.name

    @cached_property
    def rest(self) -> list[Task]:
        """The exercises that are not solved honestly."""
        return [task for task in self.tasks if task not in (self.first, self.last)]

    # ------------------------------------------------ cells

    def cell(self, grade_id: str) -> dict:
        return next(cell for cell in self.notebook["cells"] if _grade_id(cell) == grade_id)

    def checks(self, tasks: Iterable[Task] | None = None) -> list[dict]:
        return [self.cell(check) for task in tasks or self.tasks for check in task.exercise.check_ids]

    def place(self, cell: dict) -> int:
        return self.notebook["cells"].index(cell)

    def solve(self, *tasks: Task) -> None:
        for task in tasks:
            self.answer(task, task.solution)
            self.earned[task.exercise.id] = task.exercise.points

    def answer(self, task: Task, source: str) -> None:
        self.cell(task.exercise.id)["source"] = source

    def answer_all(self, setup: str, body: str = "return None") -> None:
        """Answer all of the rest by `setup`, and by functions (or a dict of items) of this body."""
        for task in self.rest:
            self.answer(task, wrong_answer(task, setup, body))

    def answer_one(self, setup: str, body: str = "return None") -> None:
        """Answer one of the rest so, and leave the others unsolved."""
        self.answer(self.rest[0], wrong_answer(self.rest[0], setup, body))

    def own_cell(self, source: str, before: Task | None = None) -> None:
        """Add a cell before an answer; by default before all of them."""
        cell = {"cell_type": "code", "execution_count": None, "id": "own", "metadata": {}, "outputs": []}
        place = self.place(self.cell((before or self.tasks[0]).exercise.id))
        cell["id"] = f"own-{place}"
        self.notebook["cells"].insert(place, cell | {"source": self._filled(source)})

    # ------------------------------------------------ files

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{CHAPTER.topic}.ipynb"
        content = self.content
        if content is None:
            for cell in self.notebook.get("cells", []):
                if isinstance(cell, dict) and isinstance(cell.get("source"), str):
                    cell["source"] = self._filled(cell["source"])
            content = json.dumps(self.notebook).encode()
        if path.name not in self.links:
            path.write_bytes(content)
        for name, content in self.files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(self._filled(content.decode("latin1")).encode("latin1"))
        for name, target in self.links.items():
            (self.folder / name).symlink_to(self._filled(target))

    def _filled(self, text: str) -> str:
        """The text with what the attack knows about its surroundings: COURSE, TOKEN, PORT."""
        known = {"@COURSE": str(self.around.course), "@TOKEN": self.around.token, "@PORT": str(self.around.port)}
        for word, value in known.items():
            text = text.replace(word, value)
        return text


def wrong_answer(task: Task, setup: str, body: str) -> str:
    """A cell that runs `setup` and answers with functions (or items) of this body; it sees `args`, `kwargs`."""
    inner = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    lines = [dedent(setup).strip(), f"def attacking(*args, **kwargs):\n{inner}"]
    if task.has_items:
        return "\n".join([*lines, f"{task.items[0]} = attacking()"])
    return "\n".join([*lines, *(f"{function.name} = attacking" for function in task.functions)])


@cache
def tasks() -> list[Task]:
    """The exercises of the chapter, with their solutions and checks."""
    return Classroom(CHAPTER).tasks


@cache
def hidden_calls(task: Task) -> tuple[set[int], float]:
    """By number, the calls of an answer that hidden tests make, when it fails the first one of each check cell; and the
    points of the check cells without hidden calls."""
    numbers, points, calls = set(), 0.0, 0
    for cell in running.exercise_cells(CHAPTER.name, task.exercise.id)[1]:
        visible, whole = (_calls(task, source) for source in (without_hidden_tests(cell.source), cell.source))
        calls += visible
        if whole > visible:
            calls += 1
            numbers.add(calls)
        else:
            points += cell.metadata.nbgrader.points
    return numbers, points


def _calls(task: Task, check: str) -> int:
    """How often a check cell calls the answer, if it is right."""
    name, calls = task.functions[0].name, []
    counting = f"{task.solution}\nits_answer = {name}\ndef {name}(*args, **kwargs):\n    note_a_call(1)\n"
    space: dict = {"__name__": "__main__", "note_a_call": calls.append}  # names that no check cell binds
    with contextlib.redirect_stdout(io.StringIO()):
        for source in (MASTER.setup, f"{counting}    return its_answer(*args, **kwargs)", check):
            running.run_cell(source, space, "<visible>")
    return len(calls)


def right(student: str, around: Surroundings) -> HandIn:
    """An honest student: all right."""
    handed_in = HandIn(student, around)
    handed_in.solve(*handed_in.tasks)
    return handed_in


def half_right(student: str, around: Surroundings) -> HandIn:
    """An honest student: half of the exercises right, the others wrong; of the items of a dict one is wrong."""
    handed_in = HandIn(student, around)
    for number, task in enumerate(handed_in.tasks):
        if task.has_items:
            items = len(task.items[1])
            handed_in.answer(task, task.one_item_wrong)
            handed_in.earned[task.exercise.id] = task.exercise.points * (items - 1) / items
        elif number % 2:
            handed_in.answer(task, task.wrong)
            handed_in.earned[task.exercise.id] = 0.0
        else:
            handed_in.solve(task)
    return handed_in


def _grade_id(cell: dict) -> str | None:
    return cell["metadata"].get("nbgrader", {}).get("grade_id")
