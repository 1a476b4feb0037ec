"""Check the learner's chapters: run the answers of a workbook with the chapter's check cells, collect the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
from nbformat import NotebookNode

from torchkata.base.chapter import Exercise, exercises_of
from torchkata.base.remembering import Remembered, end, forget, read_verdicts, remember
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.cell_runner import CellRunner, RunnerLost, end_all
from torchkata.tools.learning.choosing import Cell, as_released, to_run
from torchkata.tools.learning.copies import about_copies
from torchkata.tools.learning.damaged import read_learners
from torchkata.tools.learning.outcomes import (
    CELL_TIMEOUT,
    TOO_LONG,
    Outcome,
    Verdict,
    complaints,
    note_on_own_cell,
    verdict_of,
    without_answer,
)
from torchkata.tools.learning.workbook import release_worked_on

Progress = Callable[[Chapter, int, int, str], None]  # chapter, cells done, cells in all, what runs
Tell = Callable[[Chapter, str], None]  # chapter, a sentence that belongs to none of its exercises


def check_chapters(
    chapters: Mapping[Chapter, Collection[str] | None],
    jobs: int = 2,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> list[list[Verdict] | CourseError]:
    """The verdicts of several chapters, some of them at a time; for one that can't be checked, the error.

    For each chapter the ids of the exercises that are wanted; None for all.
    """
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(lambda one: _checked(one, chapters[one], progress, tell), chapters))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()  # else their cells would be waited for
            raise


def _checked(
    chapter: Chapter, only: Collection[str] | None, progress: Progress | None, tell: Tell | None
) -> list[Verdict] | CourseError:
    try:
        return check_chapter(chapter, only, progress, tell)
    except CourseError as error:
        return error


def check_chapter(
    chapter: Chapter,
    only: Collection[str] | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> list[Verdict]:
    """The verdict on every exercise of a chapter in the workbook, or on those with the ids in `only`; with hidden tests
    where the solutions are at hand.

    The setup cell, the answers and the cells that the learner added or changed are run; of the other demos those that
    bind a name which these read. An exercise that still has its stub is open without a run of its check cells, and
    where all have, nothing is run. The cells run in the notebook's folder, and the verdicts are remembered in the
    workbook. Raises CourseError when the workbook lacks the chapter or can't be read.
    """
    if only and not wanted_of(chapter, only):
        raise CourseError(f"{chapter.name} holds no {' or '.join(only)} any more. Run `torchkata update` first.")
    return check_notebook(chapter, read_learners(chapter), only, progress, tell)


def check_notebook(
    chapter: Chapter,
    learner: NotebookNode,
    only: Collection[str] | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
    start: Callable[[], CellRunner] | None = None,
) -> list[Verdict]:
    """Like `check_chapter`, for a learner's notebook that has been read.

    start: gives the runner to begin with, a fresh one or one that has the chapter's setup cell run ahead.
    """
    wanted, stubs = wanted_of(chapter, only), stubs_in(chapter, learner)
    outcomes = [one for exercise in wanted if exercise.id in stubs for one in without_answer(exercise)]
    if any(exercise.id not in stubs for exercise in wanted):
        answered = None if only is None else set(only) - stubs
        run = _Run(chapter, progress, tell, start)
        try:
            cells = to_run(chapter.master, learner, answered)
            outcomes += run.through([cell for cell in cells if not (cell.is_check and cell.exercise in stubs)])
        finally:
            run.end()
    verdicts = [verdict_of(exercise, outcomes) for exercise in wanted]
    if tell:
        for note in _notes(chapter, outcomes, verdicts):
            tell(chapter, note)
    with suppress(OSError, CourseError):  # the verdicts count, also where they cannot be kept
        _remember(chapter, outcomes, [verdict for verdict in verdicts if verdict.exercise.id not in stubs])
        _forget_answers(chapter, stubs & {verdict.exercise.id for verdict in verdicts})
    return verdicts


def wanted_of(chapter: Chapter, only: Collection[str] | None) -> list[Exercise]:
    """The exercises of a chapter, or those with the ids in `only`."""
    return [exercise for exercise in chapter.exercises if only is None or exercise.id in only]


def stubs_in(chapter: Chapter, learner: NotebookNode) -> set[str]:
    """The exercises that still have the stub of the release that the learner works on; none where that is not known."""
    try:
        return as_released(release_worked_on(chapter), learner)
    except CourseError:
        return set()


def _notes(chapter: Chapter, outcomes: list[Outcome], verdicts: list[Verdict]) -> list[str]:
    """What no verdict says: own cells that stopped where something is not solved, answer cells that are not there,
    copies beside the notebook."""
    there = {one.cell.exercise for one in outcomes}
    lost = [verdict.exercise.id for verdict in verdicts if verdict.exercise.id not in there]
    notes = about_copies(chapter)
    if lost:
        cells = "1 answer cell is" if len(lost) == 1 else f"{len(lost)} answer cells are"
        notes.append(
            f"{cells} missing, or no longer marked as such. `torchkata update {chapter.number}` brings them back, with "
            "the answers that it finds in other cells."
        )
    if not all(verdict.solved for verdict in verdicts):
        notes += [note for one in outcomes if (note := note_on_own_cell(one))]
    return notes


# ------------------------------------------------ running them


class _Run:
    """The cells of one chapter on their way through a runner, and through fresh ones where they end it."""

    def __init__(
        self,
        chapter: Chapter,
        progress: Progress | None,
        tell: Tell | None,
        start: Callable[[], CellRunner] | None = None,
    ):
        self._chapter, self._progress, self._tell = chapter, progress, tell
        self._runner: CellRunner | None = start() if start else CellRunner(chapter.workbook.parent)
        self._replay: list[Cell] = []  # what went well; run again in a fresh runner
        self._deadly: set[str] = set()  # exercises whose answer ended a runner
        self._over: dict[str, str] = {}  # exercises of which nothing more is run, and why

    def through(self, cells: list[Cell]) -> list[Outcome]:
        """Run the cells; whatever one does to Python, the next one is run."""
        outcomes: list[Outcome] = []
        for n, cell in enumerate(cells):
            if self._progress:
                self._progress(self._chapter, n, len(cells), cell.exercise)
            outcomes.append(self._outcome(cell))
            is_last = all(other.exercise != cell.exercise for other in cells[n + 1 :])
            if is_last and cell.exercise in self._deadly:
                self._leave_behind(cell.exercise)
        if self._progress:
            self._progress(self._chapter, len(cells), len(cells), "")
        return outcomes

    def end(self) -> None:
        """End the runner; the next cell gets a fresh one."""
        if self._runner:
            self._runner.end()
            end(self._chapter.place.workbook, self._runner.pid)  # how it ended is told here
            self._runner = None

    def _outcome(self, cell: Cell) -> Outcome:
        if cell.exercise in self._over:
            return Outcome(cell, lost=self._over[cell.exercise])
        try:
            outcome = Outcome(cell, self._ready().run(cell.source, _patience()))
        except RunnerLost as lost:
            self.end()
            outcome = Outcome(cell, lost=TOO_LONG if lost.hung else f"your answer ended Python ({lost}).")
            self._deadly |= {cell.exercise} - {""}
            self._say_left_out(cell, lost)
        if cell.exercise and (outcome.took_too_long or (outcome.lost and not cell.is_check)):
            self._over[cell.exercise] = outcome.lost or TOO_LONG
        if not (outcome.lost or cell.is_check):
            self._replay.append(cell)
        return outcome

    def _ready(self) -> CellRunner:
        """A runner in which the cells before have run. Raises RunnerLost where even that ended it."""
        while self._runner is None:
            self._runner = CellRunner(self._chapter.workbook.parent)
            for cell in list(self._replay):
                try:
                    self._runner.run(cell.source, _patience())
                except RunnerLost as lost:
                    self._replay.remove(cell)
                    self._say_left_out(cell, lost)
                    self.end()
                    break
        return self._runner

    def _say_left_out(self, cell: Cell, lost: RunnerLost) -> None:
        """Of a cell that belongs to no exercise, no verdict tells it."""
        if self._tell and not cell.exercise:
            how = f"ran for more than {CELL_TIMEOUT} seconds" if lost.hung else f"ended Python ({lost})"
            first = next(iter(cell.source.strip().splitlines()), "")
            named = f"A cell outside the exercises {how} and was left out: {first[:60]!r}."
            self._tell(self._chapter, f"{named} Answers that need what it defines fail.")

    def _leave_behind(self, exercise: str) -> None:
        """Go on without an answer that ended Python: it is not run again for the exercises that follow."""
        self._replay = [cell for cell in self._replay if cell.exercise != exercise]
        self.end()


def _patience() -> float:
    """Seconds for a cell: up to four times as many where other programs keep the processors busy, so that a right
    answer is not cut off for their sake."""
    busy = psutil.getloadavg()[0] / (psutil.cpu_count() or 1)
    return CELL_TIMEOUT * min(4.0, max(1.0, busy))


def _remember(chapter: Chapter, outcomes: list[Outcome], verdicts: list[Verdict]) -> None:
    """Keep what each check cell said, under the digest that its released version has in the learner's notebook."""
    workbook, released = chapter.place.workbook, exercises_of(release_worked_on(chapter).cells)
    checks_of = {exercise.id: exercise.checks for exercise in released}
    for verdict in verdicts:
        exercise = verdict.exercise.id
        forget(workbook, exercise)
        digests = [check.digest for check in checks_of.get(exercise, ())]
        checks = [one for one in outcomes if one.cell.exercise == exercise and one.cell.is_check]
        hidden = chapter.solution.exists()
        if len(digests) == len(checks):
            for digest, one in zip(digests, checks, strict=True):
                remember(workbook, _remembered(one, exercise, digest, hidden))
        elif verdict.solved:  # the learner's copy is of another release, in which all of it is solved too
            for digest in digests:
                remember(workbook, Remembered(exercise, digest, "solved", hidden=hidden))


def _forget_answers(chapter: Chapter, stubs: set[str]) -> None:
    """Drop verdicts on answers that are stubs again. That a stub was checked in the notebook is remembered."""
    workbook = chapter.place.workbook
    answered = {name for (name, _), verdict in read_verdicts(workbook).items() if verdict.state != "open"}
    for exercise in answered & stubs:
        forget(workbook, exercise)


def _remembered(check: Outcome, exercise: str, digest: str, hidden: bool) -> Remembered:
    line = next(iter(complaints(check)), "")
    state = "open" if check.is_open else "solved" if check.points else "wrong"
    return Remembered(exercise, digest, state, line, check.points, hidden)
