"""Chapters that are checked again at each save: only what changed is run, in a process that has been waiting for it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress

from nbformat import NotebookNode

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.cell_runner import CellRunner
from torchkata.tools.learning.checking import Progress, Tell, check_notebook, stubs_in, wanted_of
from torchkata.tools.learning.choosing import Cell, setup_of, to_run
from torchkata.tools.learning.damaged import read_learners
from torchkata.tools.learning.outcomes import Verdict

PAUSE = 0.1  # seconds between two looks at the files


class Watched:
    """A chapter, or some exercises of it, that is checked again and again.

    A new one takes its notebook for checked. So it is made before the first check, whose `verdicts` it is given then:
    what is saved in between is run again.
    """

    def __init__(self, chapter: Chapter, only: Collection[str] | None):
        self.chapter, self._only = chapter, only
        self.saved = saved_state(chapter)
        self.verdicts: list[Verdict] = []
        self._ran: dict[str, list[Cell]] = {}  # by exercise, when it was last checked
        with suppress(CourseError):  # the first check says so
            self._ran = self._cells_of(read_learners(chapter))

    def check(self, spare: Spare, progress: Progress | None = None, tell: Tell | None = None) -> list[str]:
        """Run the exercises whose cells have changed, or that have no verdict; returns their ids.

        Raises CourseError when the notebook can't be read.
        """
        learner = read_learners(self.chapter)
        cells, verdicts = self._cells_of(learner), {verdict.exercise.id: verdict for verdict in self.verdicts}
        changed = [name for name in cells if cells[name] != self._ran.get(name) or name not in verdicts]
        if changed:
            new = check_notebook(self.chapter, learner, changed, progress, tell, lambda: spare.take(self.chapter))
            verdicts |= {verdict.exercise.id: verdict for verdict in new}
        self._ran, self.verdicts = cells, [verdicts[name] for name in cells]
        return changed

    def _cells_of(self, learner: NotebookNode) -> dict[str, list[Cell]]:
        """The cells that each exercise runs; none for a stub."""
        stubs, master = stubs_in(self.chapter, learner), self.chapter.master
        names = [exercise.id for exercise in wanted_of(self.chapter, self._only)]
        return {name: [] if name in stubs else to_run(master, learner, {name}) for name in names}


class Spare:
    """A runner that loads torch and runs a chapter's setup cell before anybody asks for it."""

    def __init__(self) -> None:
        self._chapter: Chapter | None = None
        self._runner: CellRunner | None = None

    def prepare(self, chapter: Chapter) -> None:
        """Have one for this chapter; a spare for another one is ended."""
        if self._chapter == chapter and self._runner and self._runner.is_alive:
            return
        self.end()
        self._chapter, self._runner = chapter, CellRunner(chapter.workbook.parent)
        self._runner.run_ahead(setup_of(chapter.master))

    def take(self, chapter: Chapter) -> CellRunner:
        """The one that was prepared for this chapter, or a new one."""
        self.prepare(chapter)
        assert self._runner
        runner, self._runner = self._runner, None
        return runner

    def end(self) -> None:
        """End the runner that nobody took."""
        if self._runner:
            self._runner.end()
            self._runner = None


def saves(watched: Collection[Watched], pause: float = PAUSE) -> Iterator[Watched]:
    """Yield a chapter each time its notebook has been saved, once two looks at the file see the same; never ends."""
    looked = {one: one.saved for one in watched}
    while True:
        time.sleep(pause)
        for one, before in looked.items():
            looked[one] = now = saved_state(one.chapter)
            if now == before != one.saved:
                one.saved = now
                yield one


def last_saved(watched: Collection[Watched]) -> Watched:
    """The chapter whose notebook was saved last."""
    return max(watched, key=lambda one: one.saved)


def saved_state(chapter: Chapter) -> tuple[int, int]:
    """When the notebook was last written, in nanoseconds, and its size; zeros where it is missing for a moment."""
    try:
        found = chapter.workbook.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
