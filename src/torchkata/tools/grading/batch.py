"""A grading run over a class: what is new or changed is graded, everything that is done is kept at once.

Nothing that stops a run loses a mark. A result is written in one step as soon as it is there; what the gradebook lacks
is found by comparing it with the results, at the start of the next run too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeGuard

from torchkata import __version__
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import judged_by
from torchkata.tools.grading.cluster import Cluster
from torchkata.tools.grading.desk import Desk, at_desk, folders_in, has_folder
from torchkata.tools.grading.grader import OpenGrader
from torchkata.tools.grading.handed_out.overview import Overview
from torchkata.tools.grading.handed_out.roster import one_form
from torchkata.tools.grading.pool import Pool
from torchkata.tools.grading.records import NotGradable, Record, Submission

PATIENCE = 900  # seconds for one submission, when its own limits have not ended it

Progress = Callable[[int, int], None]  # submissions done, submissions in all
OpenPool = Callable[[], Pool | Cluster]


@dataclass
class Run:
    """What a run did. `graded` and `kept` hold the records of this run's students, in short, `refused` what can't be
    graded."""

    chapter: str
    folder: Path  # of the results
    graded: list[Record] = field(default_factory=list)
    kept: list[Record] = field(default_factory=list)
    refused: list[NotGradable] = field(default_factory=list)
    overview: Overview | None = None  # of all results in the folder

    @property
    def records(self) -> list[Record]:
        return sorted(self.graded + self.kept, key=lambda record: record.student)

    @property
    def cut_off(self) -> list[Record]:
        return [record for record in self.records if record.cut_off]

    def summary(self) -> dict:
        """The run as JSON-ready data."""
        return {
            "chapter": self.chapter,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "grader": __version__,
            "graded": [record.student for record in self.graded],
            "kept": [record.student for record in self.kept],
            "cut_off": [record.student for record in self.cut_off],
            "not_graded": {refusal.student: refusal.reason for refusal in self.refused},
            "about_the_class": list(self.overview.notes) if self.overview else [],
            "not_sandboxed": [record.student for record in self.records if not record.sandboxed],
            "not_limited": sorted({said for record in self.records for said in record.not_limited}),
        }


def grade_chapter(
    chapter: Chapter,
    open_grader: OpenGrader,
    *,
    students: list[str] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    out: Path | None = None,
    force: bool = False,
    sandboxed: bool = True,
    progress: Progress = lambda done, total: None,
) -> Run:
    """Grade the submissions of a chapter that are new or changed since the last run; all of them with `force`.

    Args:
        open_grader: gives each of the `jobs` processes its grader; must be picklable.
        scheduler: the address of a Dask scheduler; its workers grade in place of the processes here.
        students: only these; all that handed something in when left out.
        out: folder for the results, which go into out/CHAPTER; default graded.
        sandboxed: whether the grader runs behind the boundary; what was graded without it is then graded again.

    Raises CourseError as `at_desk` does; what was graded until then is kept, and the next run goes on from there.
    """
    with at_desk(chapter, out) as desk:
        names = students_of(chapter, students)
        return _Grading(desk, force, sandboxed, progress).work(names, pool_of(open_grader, jobs, scheduler))


def pool_of(open_grader: OpenGrader, jobs: int, scheduler: str | None) -> OpenPool:
    """Opens graders at work: so many processes here, or the workers of a Dask scheduler at this address."""
    return partial(Cluster, open_grader, scheduler) if scheduler else partial(Pool, open_grader, jobs, PATIENCE)


def students_of(chapter: Chapter, wanted: list[str] | None = None) -> list[str]:
    """The names of the folders in submitted/ that hold the chapter, in order; of the wanted ones all.

    Raises CourseError where there is none, or where a wanted one has no folder.
    """
    folder, there = chapter.root / "submitted", folders_in(chapter)
    if not folder.is_dir():
        raise CourseError(f"There is no folder {folder}. Put the submissions into submitted/STUDENT/CHAPTER.")
    named, known = {one_form(name): name for name in wanted or []}, set(map(one_form, there))
    if unknown := [name for form, name in named.items() if form not in known]:
        raise CourseError(f"submitted/ holds no folder of {', '.join(unknown)}.")
    found = [name for name in there if (one_form(name) in named if wanted else has_folder(chapter, name))]
    if not found:
        raise CourseError(f"Nobody has handed in {chapter.name}: submitted/ holds no folder STUDENT/{chapter.name}.")
    return found


class _Grading:
    """One run: which submissions are new, and what becomes of them."""

    def __init__(self, desk: Desk, force: bool, sandboxed: bool, progress: Progress):
        self._desk, self._force, self._sandboxed, self._progress = desk, force, sandboxed, progress
        self.run = Run(desk.chapter.name, desk.results.folder)
        self._total = 0

    def work(self, names: list[str], open_pool: OpenPool) -> Run:
        self._total = len(names)
        self._tell()
        with open_pool() as pool:
            for submission, result in pool.grade(self._new(names)):
                self._finish(submission, first_try(result))
                self._tell()
            for record in [record for record in self.run.graded if not record.final]:
                self._once_more(record, pool)
        self.run.overview = self._desk.finish({record.student for record in self.run.records})
        self._desk.results.write_run(self.run.summary())
        return self.run

    def _once_more(self, first: Record, pool: Pool | Cluster) -> None:
        """Grade a submission again that was cut off, alone: perhaps others were in its way. What it earns now counts,
        and nothing that it had earned is lost."""
        submission = self._desk.read(first.student)
        if isinstance(submission, NotGradable):  # it was taken away meanwhile
            return
        self.run.graded.remove(first)
        for again, result in pool.grade([submission]):
            better = isinstance(result, Record) and result.points >= first.points
            self._finish(again, result if better else replace(first, final=True))

    def _tell(self) -> None:
        self._progress(len(self.run.graded) + len(self.run.kept) + len(self.run.refused), self._total)

    def _new(self, names: list[str]) -> Iterator[Submission]:
        """The submissions to grade; those that can't be graded, or are graded already, are dealt with here."""
        for name in names:
            submission = self._desk.read(name)
            known = self._desk.results.find(name)
            if isinstance(submission, NotGradable):
                self._refuse(submission)
            elif self._force or not self._is_current(known, submission):
                yield submission
            else:
                self.run.kept.append(known.in_short())
            self._tell()

    def _is_current(self, known: Record | NotGradable | None, submission: Submission) -> TypeGuard[Record]:
        if not isinstance(known, Record) or known.digest != submission.digest:
            return False
        return known.final and (known.sandboxed or not self._sandboxed) and self._desk.has_pages(known.student)

    def _finish(self, submission: Submission, result: Record | NotGradable) -> None:
        if isinstance(result, NotGradable):
            return self._refuse(result)
        record = judged_by(result, self._desk.release)
        self._desk.hand_out(record, submission)
        self.run.graded.append(record.in_short() if record.final else record)

    def _refuse(self, refusal: NotGradable) -> None:
        self.run.refused.append(refusal)
        self._desk.refuse(refusal)


def first_try(result: Record | NotGradable) -> Record | NotGradable:
    """The result of a first run: not the final one where a time limit had a part in it."""
    return replace(result, final=False) if isinstance(result, Record) and result.out_of_time else result
