"""What students hand in: submissions of a chapter, from all right to damaged, and the points that each must get."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode

from torchkata.base.chapter import Exercise, exercises_of
from torchkata.base.marks import GIVEN, without
from torchkata.tools.course import Chapter, read_notebook

WARN = '__import__("warnings").warn("this may be slow")'
EMPTY_LINE_ON_STDERR = '__import__("sys").stderr.write("\\n")'
LOOP = "while True: pass"


@dataclass
class Submission:
    """A student's notebook, and the points that it must get, by exercise."""

    notebook: NotebookNode
    points: dict[str, float]


@dataclass(frozen=True)
class Task:
    """An exercise together with the author's solution and checks."""

    exercise: Exercise
    solution: str
    checks: str

    @cached_property
    def _tree(self) -> ast.Module:
        return ast.parse(self.solution)

    @property
    def has_items(self) -> bool:
        """Whether the answer is a dict of items, of which each earns its share."""
        return any(judged in self.checks for judged in (".predicts(", ".separates(", ".orders("))

    @property
    def functions(self) -> list[ast.FunctionDef]:
        return [node for node in self._tree.body if isinstance(node, ast.FunctionDef)]

    @property
    def wrong(self) -> str:
        """An answer that is wrong, whatever is asked."""
        names = [node.name for node in self.functions] or [self.items[0]]
        return "\n".join(f'{name} = lambda *args, **kwargs: "wrong"' for name in names)

    def beginning_with(self, line: str) -> str:
        """The solution, with a line put before the first statement of each function."""
        lines = self.solution.splitlines()
        for function in reversed(self.functions):
            first = function.body[1 if ast.get_docstring(function) else 0]
            lines.insert(first.lineno - 1, " " * first.col_offset + line)
        return "\n".join(lines)

    @property
    def items(self) -> tuple[str, list[str]]:
        """The name of the answer that is a dict, and its items."""
        assign = next(node for node in self._tree.body if isinstance(node, ast.Assign))
        return assign.targets[0].id, [key.value for key in assign.value.keys]

    @property
    def one_item_wrong(self) -> str:
        name, items = self.items
        return f'{self.solution}\n{name}["{items[0]}"] = "something else"'


class Classroom:
    """Makes submissions from a chapter's release and its solutions."""

    def __init__(self, chapter: Chapter):
        self._release = read_notebook(chapter.release)
        solution = read_notebook(chapter.solution)
        self.tasks = [_task(exercise, solution) for exercise in exercises_of(solution.cells)]
        self.functions = [task for task in self.tasks if task.functions]

    @property
    def endless_task(self) -> Task:
        """The one whose answer loops forever; each of its few check cells then costs all the time that a cell has."""
        return min(self.functions, key=lambda task: len(task.exercise.check_ids))

    def right(self) -> Submission:
        """All right; one answer warns at each call, one writes to stderr."""
        warns, writes, *_ = self.functions
        noisy = {warns: warns.beginning_with(WARN), writes: writes.beginning_with(EMPTY_LINE_ON_STDERR)}
        return self._submission(noisy)

    def untouched(self) -> Submission:
        """The release as it is."""
        return Submission(copy.deepcopy(self._release), dict.fromkeys([task.exercise.id for task in self.tasks], 0.0))

    def half(self) -> Submission:
        """Every second exercise solved; of dicts of items all but one."""
        answers = {task: task.wrong for task in self.tasks[1::2]}
        of_items = [task for task in self.tasks if task.has_items]
        answers |= {task: task.one_item_wrong for task in of_items}
        submission = self._submission(answers)
        for task in self.tasks[1::2]:
            submission.points[task.exercise.id] = 0.0
        for task in of_items:
            items = len(task.items[1])
            submission.points[task.exercise.id] = task.exercise.points * (items - 1) / items
        return submission

    def damaged(self) -> Submission:
        """Cells deleted, edited, copied and revalued, an exercise each; the other exercises are right."""
        deleted, edited, copied, revalued, lost, *_ = self.functions
        submission = self._submission({deleted: deleted.wrong, edited: edited.wrong})
        submission.points |= {task.exercise.id: 0.0 for task in (deleted, edited, lost)}
        notebook = submission.notebook
        _delete(notebook, deleted.exercise.check_ids)
        _delete(notebook, [lost.exercise.id, *lost.exercise.check_ids])
        for cell in _cells(notebook, edited.exercise.check_ids):
            cell.source = "pass"
            cell.metadata.tags = ["skip-execution"]
        for cell in _cells(notebook, revalued.exercise.check_ids):
            cell.metadata.nbgrader |= {"points": 100, "schema_version": 2}
        (answer,) = _cells(notebook, [copied.exercise.id])
        first = copy.deepcopy(answer)
        first.source, first.id = copied.wrong, "a-copy"
        notebook.cells.insert(notebook.cells.index(answer), first)
        return submission

    def endless(self) -> Submission:
        """One answer loops forever; the others are right."""
        task = self.endless_task
        submission = self._submission({task: task.beginning_with(LOOP)})
        submission.points[task.exercise.id] = 0.0
        return submission

    def _submission(self, answers: dict[Task, str]) -> Submission:
        """The solutions of all exercises in the released notebook, but for those with an answer of their own."""
        submission = self.untouched()
        for task in self.tasks:
            _solve(submission, task, answers.get(task, task.solution))
        return submission


def _task(exercise: Exercise, solution: NotebookNode) -> Task:
    (answer,) = _cells(solution, [exercise.id])
    checks = "\n".join(cell.source for cell in _cells(solution, exercise.check_ids))
    return Task(exercise, without(answer.source, GIVEN), checks)


def _solve(submission: Submission, task: Task, answer: str) -> None:
    (cell,) = _cells(submission.notebook, [task.exercise.id])
    cell.source = answer
    submission.points[task.exercise.id] = task.exercise.points


def _delete(notebook: NotebookNode, grade_ids: Iterable[str]) -> None:
    notebook.cells = [cell for cell in notebook.cells if _grade_id(cell) not in grade_ids]


def _cells(notebook: NotebookNode, grade_ids: Iterable[str]) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if _grade_id(cell) in grade_ids]


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")
