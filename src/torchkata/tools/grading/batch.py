"""A grading run over a class: what is new or changed is graded, everything that is done is kept at once.

Nothing that stops a run loses a mark. A result is written in one step as soon as it is there; what the gradebook lacks
is found by comparing it with the results, at the start of the next run too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeGuard

from filelock import FileLock, Timeout

from torchkata import __version__
from torchkata.tools.course import Chapter, CourseError, read_notebook
from torchkata.tools.grading.autograded import Frame
from torchkata.tools.grading.cluster import Cluster
from torchkata.tools.grading.feedback import feedback_page, refusal_page
from torchkata.tools.grading.files import remove_unfinished, write_whole
from torchkata.tools.grading.gradebook import ChapterBook
from torchkata.tools.grading.intake import read_submission, read_timestamp
from torchkata.tools.grading.pool import OpenGrader, Pool
from torchkata.tools.grading.records import NotGradable, Record, Submission
from torchkata.tools.grading.released import Release, read_release
from torchkata.tools.grading.results import Results

LOCK = ".torchkata-grade.lock"
GROUP = 20  # records that are entered into the gradebook together
PATIENCE = 900  # seconds for one submission, when its own limits have not ended it
LONGEST_NAME = 200  # bytes
FORMULA = ("=", "+", "-", "@")  # nbgrader's export writes names as they are
NOT_IN_NAMES = set('\\/:*?"<>|,;[]{}')  # they break file names, file patterns or nbgrader's CSV export

Progress = Callable[[int, int], None]  # submissions done, submissions in all


@dataclass
class Run:
    """What a run did. `graded` and `kept` hold the records of this run's students, `refused` what can't be graded."""

    chapter: str
    folder: Path  # of the results
    graded: list[Record] = field(default_factory=list)
    kept: list[Record] = field(default_factory=list)
    refused: list[NotGradable] = field(default_factory=list)

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
            "not_sandboxed": [record.student for record in self.records if not record.sandboxed],
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

    Raises CourseError where another run is at work, the disk is full, the gradebook can't be used or Ctrl + C was
    pressed; what was graded until then is kept, and the next run goes on from there.
    """
    release = read_release(chapter)
    open_pool = partial(Cluster, open_grader, scheduler) if scheduler else partial(Pool, open_grader, jobs, PATIENCE)
    try:
        with FileLock(chapter.root / LOCK, timeout=0), ChapterBook(chapter) as book:
            results = (out or chapter.root / "graded") / chapter.name
            pages = (p for place in ("autograded", "feedback") for p in chapter.root.glob(f"{place}/*/{chapter.name}"))
            remove_unfinished([results, results / "records", *pages])
            desk = _Desk(chapter, release, book, Results(results))
            names = students_of(chapter, students)
            return desk.work(names, open_pool, force, sandboxed, progress)
    except Timeout:
        raise CourseError("Another grading run is at work in this course. Wait for its end, then try again.") from None
    except KeyboardInterrupt:
        raise CourseError("Stopped. What was graded is kept; the same command goes on from there.") from None
    except OSError as error:
        raise CourseError(
            f"A result can't be written: {error.strerror or error} ({error.filename or chapter.root}). "
            "What was graded is kept. Mend that, then run the same command again."
        ) from None


def students_of(chapter: Chapter, wanted: list[str] | None = None) -> list[str]:
    """The names of the folders in submitted/ that hold the chapter, in order; of the wanted ones all.

    Raises CourseError where there is none, or where a wanted one has no folder.
    """
    folder = chapter.root / "submitted"
    try:
        there = sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError:
        raise CourseError(f"There is no folder {folder}. Put the submissions into submitted/STUDENT/CHAPTER.") from None
    if unknown := [name for name in wanted or [] if name not in there]:
        raise CourseError(f"submitted/ holds no folder of {', '.join(unknown)}.")
    found = wanted or [name for name in there if os.path.lexists(folder / name / chapter.name)]
    if not found:
        raise CourseError(f"Nobody has handed in {chapter.name}: submitted/ holds no folder STUDENT/{chapter.name}.")
    return sorted(set(found))


class _Desk:
    """Where submissions come in and results go out, one at a time."""

    def __init__(self, chapter: Chapter, release: Release, book: ChapterBook, results: Results):
        self.chapter, self.release, self.book, self.results = chapter, release, book, results
        self.frame = Frame(chapter.master, read_notebook(chapter.release))
        self.title = chapter.title
        self.run = Run(chapter.name, results.folder)
        self.to_enter: list[Record] = []

    def work(
        self,
        names: list[str],
        open_pool: Callable[[], Pool | Cluster],
        force: bool,
        sandboxed: bool,
        progress: Progress,
    ) -> Run:
        done = partial(self._tell, progress, len(names))
        done()
        with open_pool() as pool:
            for submission, result in pool.grade(self._new(names, force, sandboxed, done)):
                self._finish(submission, _first(result))
                done()
            for record in [record for record in self.run.graded if not record.final]:
                self._once_more(record, pool)
        self.book.enter(self.book.lacking(self.run.records))
        self.results.write_csv()
        self.results.write_run(self.run.summary())
        return self.run

    def _once_more(self, first: Record, pool: Pool | Cluster) -> None:
        """Grade a submission again that was cut off, alone: perhaps others were in its way. What it earns now counts,
        and nothing that it had earned is lost."""
        submission = self._read(first.student)
        if isinstance(submission, NotGradable):  # it was taken away meanwhile
            return
        self.run.graded.remove(first)
        for again, result in pool.grade([submission]):
            better = isinstance(result, Record) and result.points >= first.points
            self._finish(again, result if better else replace(first, final=True))

    def _tell(self, progress: Progress, total: int) -> None:
        progress(len(self.run.graded) + len(self.run.kept) + len(self.run.refused), total)

    def _new(self, names: list[str], force: bool, sandboxed: bool, done: Callable[[], None]) -> Iterator[Submission]:
        """The submissions to grade; those that can't be graded, or are graded already, are dealt with here."""
        for name in names:
            submission = self._read(name)
            known = self.results.find(name)
            if isinstance(submission, NotGradable):
                self._refuse(submission)
            elif force or not self._is_current(known, submission, sandboxed):
                yield submission
            else:
                self.run.kept.append(known)
            done()

    def _read(self, name: str) -> Submission | NotGradable:
        if complaint := complaint_about(name):
            return NotGradable(name, self.chapter.name, complaint)
        try:
            return read_submission(self._submitted(name), name, self.chapter, self.release)
        except Exception as error:  # no notebook should get here; if one does, the batch goes on
            return NotGradable(name, self.chapter.name, f"The notebook can't be read: {type(error).__name__}.")

    def _is_current(
        self, known: Record | NotGradable | None, submission: Submission, sandboxed: bool
    ) -> TypeGuard[Record]:
        if not isinstance(known, Record) or known.digest != submission.digest:
            return False
        pages = (self._autograded(known.student), self._feedback(known.student))
        return known.final and (known.sandboxed or not sandboxed) and all(page.is_file() for page in pages)

    def _finish(self, submission: Submission, result: Record | NotGradable) -> None:
        if isinstance(result, NotGradable):
            return self._refuse(result)
        write_whole(self._autograded(result.student), self.frame.graded(result, submission))
        if when := read_timestamp(self._submitted(result.student))[0]:
            write_whole(self._autograded(result.student).with_name("timestamp.txt"), f"{when} UTC\n")
        write_whole(self._feedback(result.student), feedback_page(self.title, result, submission))
        self.results.keep(result)  # comes last: from here on the submission counts as graded
        self.run.graded.append(result)
        self.to_enter.append(result)
        if len(self.to_enter) >= GROUP:
            self.book.enter(self.to_enter)
            self.to_enter = []

    def _refuse(self, refusal: NotGradable) -> None:
        self.run.refused.append(refusal)
        if not complaint_about(refusal.student):
            write_whole(self._feedback(refusal.student), refusal_page(self.title, refusal))
            self.results.keep(refusal)

    def _submitted(self, student: str) -> Path:
        return self.chapter.root / "submitted" / student / self.chapter.name

    def _autograded(self, student: str) -> Path:
        return self.chapter.root / "autograded" / student / self.chapter.name / f"{self.chapter.topic}.ipynb"

    def _feedback(self, student: str) -> Path:
        return self.chapter.root / "feedback" / student / self.chapter.name / f"{self.chapter.topic}.html"


def _first(result: Record | NotGradable) -> Record | NotGradable:
    """The result of a first run: not the final one where a time limit had a part in it."""
    return replace(result, final=False) if isinstance(result, Record) and result.out_of_time else result


def complaint_about(name: str) -> str | None:
    """Why a folder's name can't be a student's name in the gradebook, its CSV export and file names; None if it can."""
    if not name.isprintable() or NOT_IN_NAMES & set(name) or name != name.strip():
        return f"The folder's name can't be a student's name. Rename it, without {' '.join(sorted(NOT_IN_NAMES))}."
    if name.startswith("."):
        return "The folder's name begins with a dot, so that it is easily overlooked. Rename it."
    if name.startswith(FORMULA):
        return f"The folder's name begins with {name[0]}, which makes a formula of it in a table. Rename it."
    if len(os.fsencode(name)) > LONGEST_NAME:
        return "The folder's name is too long for a student's name. Rename it."
    return None
