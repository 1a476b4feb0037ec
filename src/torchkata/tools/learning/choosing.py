"""Which cells of a learner's notebook are run to check it, and in which order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nbformat import NotebookNode

from torchkata.base.chapter import Exercise, exercises_of, is_checking, nbgraders
from torchkata.base.layout import without_layout
from torchkata.base.names import names_of, needed
from torchkata.tools.missing import without_notice


@dataclass(frozen=True)
class Cell:
    """A cell to run: the learner's own (no exercise), an answer, or a check cell, which has points."""

    source: str
    exercise: str = ""
    points: float | None = None

    @property
    def is_check(self) -> bool:
        return self.points is not None


def to_run(master: NotebookNode, learner: NotebookNode, only: Collection[str] | None = None) -> list[Cell]:
    """The cells to run: the chapter's setup, then the learner's own cells and answers in their order. The chapter's
    check cells run where the learner's stand; those that are not below their answer any more, right after it. Of an
    answer cell that was copied, the last copy counts.

    With `only` (exercises' ids) the answers of these, and the cells before their check cells that they need.
    """
    checks, setup = checks_of(master), setup_of(master)
    written, demos = _written(master, learner, checks)
    chosen = [n for n, cell in written.items() if only is None or cell.exercise in only]
    places = {n: _places_of_checks(written[n].exercise, n, master, learner) for n in chosen}
    run = set(chosen)
    for n in chosen if only is not None else ():
        run |= _before(max(places[n], default=n), written, _reads(written[n], checks))
    cells = {n: written[n] for n in run} | _lacking({n: written[n] for n in run}, setup, demos)
    found = {n: [cell] for n, cell in cells.items()}
    for n in chosen:
        for place, check in zip(places[n], checks.get(cells[n].exercise, []), strict=True):
            found.setdefault(place, []).append(check)
    return [Cell(setup), *(cell for place in sorted(found) for cell in found[place])]


def setup_of(master: NotebookNode) -> str:
    """The source of a chapter's setup cell."""
    return next(cell.source for cell in master.cells if cell.cell_type == "code")


def as_released(release: NotebookNode, learner: NotebookNode) -> set[str]:
    """The exercises whose answer cell is the stub that was released, and that have no cell of the learner's own between
    it and their check cells. Whatever else is in the notebook, these check cells find no answer.

    Every stub of the course binds all names that its check cells ask for (a test), so that no cell before it answers.
    """
    exercises = {one.id: one for one in exercises_of(release.cells)}
    last = {_answer_id(cell): n for n, cell in enumerate(learner.cells)}
    return {name for name, one in exercises.items() if name in last and _is_stub(one, last[name], learner)}


def _is_stub(exercise: Exercise, place: int, learner: NotebookNode) -> bool:
    source = learner.cells[place].source
    if source != exercise.answer and without_layout(source) != without_layout(exercise.answer):
        return False
    ids = [nbgraders(cell).get("grade_id") for cell in learner.cells]
    end = max((n for n, name in enumerate(ids) if name in exercise.check_ids), default=place)
    between = learner.cells[place + 1 : end]
    return not any(cell.cell_type == "code" and cell.source.strip() and not is_checking(cell) for cell in between)


def checks_of(master: NotebookNode) -> dict[str, list[Cell]]:
    """The check cells of a chapter by exercise, each with the helpers that it uses."""
    return {
        one.id: [Cell(check.source, one.id, check.points) for check in one.checks] for one in exercises_of(master.cells)
    }


def _places_of_checks(exercise: str, answer: int, master: NotebookNode, learner: NotebookNode) -> list[int]:
    """Where the check cells of an exercise stand below its answer, which has this place; else that place."""
    ids = next((one.check_ids for one in exercises_of(master.cells) if one.id == exercise), ())
    below = [(n, nbgraders(cell).get("grade_id")) for n, cell in enumerate(learner.cells) if n > answer]
    return [next((n for n, name in below if name == wanted), answer) for wanted in ids]


def _written(
    master: NotebookNode, learner: NotebookNode, checks: dict[str, list[Cell]]
) -> tuple[dict[int, Cell], dict[int, Cell]]:
    """By place in the notebook: the cells that the learner wrote or changed, and the chapter's demos."""
    released = {without_layout(without_notice(cell.source)) for cell in master.cells if "nbgrader" not in cell.metadata}
    last = {_answer_id(cell): n for n, cell in enumerate(learner.cells) if _answer_id(cell) in checks}
    written: dict[int, Cell] = {}
    demos: dict[int, Cell] = {}
    for n, cell in enumerate(learner.cells):
        if cell.cell_type != "code" or is_checking(cell):
            continue
        exercise = _answer_id(cell) or ""
        if last.get(exercise) == n:
            written[n] = Cell(cell.source, exercise)
        else:
            (demos if without_layout(without_notice(cell.source)) in released else written)[n] = Cell(cell.source)
    return written, demos


def _reads(answer: Cell, checks: dict[str, list[Cell]]) -> set[str]:
    return {name for cell in [answer, *checks.get(answer.exercise, [])] for name in names_of(cell.source).reads}


def _lacking(cells: dict[int, Cell], setup: str, demos: dict[int, Cell]) -> dict[int, Cell]:
    """The demos that bind names which these cells take from before, and neither the setup nor a cell before binds."""
    chosen: set[int] = set()
    given = names_of(setup).binds
    for n in sorted(cells):
        names = names_of(cells[n].source)
        chosen |= _before(n, demos, names.reads, given)
        given |= names.binds
    return {n: demos[n] for n in chosen}


def _before(place: int, cells: dict[int, Cell], wanted: Collection[str], given: Collection[str] = ()) -> set[int]:
    """Which cells before a place have to run so that the wanted names are there."""
    places = [n for n in cells if n < place]
    return {places[k] for k in needed(wanted, [cells[n].source for n in places], given)}


def _answer_id(cell: NotebookNode) -> str | None:
    meta = cell.metadata.get("nbgrader", {})
    return meta["grade_id"] if cell.cell_type == "code" and meta.get("solution") else None
