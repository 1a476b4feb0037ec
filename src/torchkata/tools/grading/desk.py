"""Where submissions of a chapter come in, and where what was graded goes out: pages, records, gradebook, tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from torchkata.base.writing import remove_unfinished, write_whole
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import Release, read_release
from torchkata.tools.grading.handed_out.formgrader import GradedNotebooks
from torchkata.tools.grading.handed_out.gradebook import ChapterBook
from torchkata.tools.grading.handed_out.overview import Overview, overview_of
from torchkata.tools.grading.handed_out.pages import feedback_page, overview_page, refusal_page
from torchkata.tools.grading.handed_out.results import Results, lms_csv
from torchkata.tools.grading.handed_out.the_class import STUDENTS, about, class_settings, read_roster
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import NotGradable, Record, Submission

LOCK = ".torchkata-grade.lock"
GROUP = 20  # records that are entered into the gradebook together
LONGEST_NAME = 200  # bytes
FORMULA = ("=", "+", "-", "@")  # nbgrader's export writes names as they are
NOT_IN_NAMES = set('\\/:*?"<>|,;[]{}')  # they break file names, file patterns or nbgrader's CSV export


@contextmanager
def at_desk(chapter: Chapter, out: Path | None = None) -> Iterator[Desk]:
    """The desk of a chapter, for one run at a time; results go into out/CHAPTER, by default graded/CHAPTER.

    Raises CourseError where another run is at work, the disk is full, a file of the teacher's or the gradebook can't
    be used, or Ctrl + C was pressed; what was handed out until then is kept.
    """
    release = read_release(chapter)
    try:
        with FileLock(chapter.root / LOCK, timeout=0), ChapterBook(chapter) as book:
            results = results_of(chapter, out)
            pages = (p for place in ("autograded", "feedback") for p in chapter.root.glob(f"{place}/*/{chapter.name}"))
            remove_unfinished([results.folder, results.folder / "records", *pages])
            yield Desk(chapter, release, book, results)
    except Timeout:
        raise CourseError("Another grading run is at work in this course. Wait for its end, then try again.") from None
    except KeyboardInterrupt:
        raise CourseError("Stopped. What was graded is kept; the same command goes on from there.") from None
    except OSError as error:
        raise CourseError(
            f"A result can't be written: {error.strerror or error} ({error.filename or chapter.root}). "
            "What was graded is kept. Mend that, then run the same command again."
        ) from None


def results_of(chapter: Chapter, out: Path | None = None) -> Results:
    """The results of a chapter, in out/CHAPTER, by default graded/CHAPTER."""
    return Results((out or chapter.root / "graded") / chapter.name)


class Desk:
    """Reads one submission at a time and hands out one result at a time; see `at_desk`."""

    def __init__(self, chapter: Chapter, release: Release, book: ChapterBook, results: Results):
        self.chapter, self.release, self.book, self.results = chapter, release, book, results
        self._settings = class_settings(chapter.root)
        self._roster = read_roster(chapter.root / STUDENTS) if (chapter.root / STUDENTS).exists() else {}
        self._notebooks = GradedNotebooks(chapter.master, read_notebook(chapter.release))
        self._title = chapter.title
        self._to_enter: list[Record] = []

    def read(self, name: str) -> Submission | NotGradable:
        """What a student has handed in for the chapter."""
        if complaint := complaint_about(name):
            return NotGradable(name, self.chapter.name, complaint)
        try:
            return read_submission(self._submitted(name), name, self.chapter, self.release)
        except Exception as error:  # no notebook should get here; if one does, the batch goes on
            return NotGradable(name, self.chapter.name, f"The notebook can't be read: {type(error).__name__}.")

    def has_pages(self, student: str) -> bool:
        """Whether the pages of a graded submission are there."""
        return all(page.is_file() for page in (self._autograded(student), self._feedback(student)))

    def hand_out(self, record: Record, submission: Submission) -> None:
        """Write the pages of a graded submission and keep its record; its marks reach the gradebook in groups."""
        student = record.student
        write_whole(self._autograded(student), self._notebooks.graded(record, submission))
        if record.handed_in:
            write_whole(self._autograded(student).with_name("timestamp.txt"), f"{record.handed_in} UTC\n")
        address = self._settings.address_of(self.chapter)
        write_whole(self._feedback(student), feedback_page(self._title, record, submission, address))
        self.results.keep(record)  # comes last: from here on the submission counts as graded
        self._to_enter = [*(one for one in self._to_enter if one.student != student), record]  # the last one counts
        if len(self._to_enter) >= GROUP:
            self._enter()

    def refuse(self, refusal: NotGradable) -> None:
        """Write the page of a submission that can't be graded, and keep why."""
        if not complaint_about(refusal.student):
            write_whole(self._feedback(refusal.student), refusal_page(self._title, refusal))
            self.results.keep(refusal)

    def finish(self, students: Collection[str]) -> Overview:
        """Enter what the gradebook lacks of these students, and the names of the class; write the tables of the class
        and its overview, which is returned."""
        self._enter()
        records = (one for one in self.results.all() if isinstance(one, Record) and one.student in students)
        self.book.enter(self.book.lacking(records))
        self.book.enter_names(self._roster)
        self.results.write_csv()
        marks = self.book.final_marks()
        for lms, columns in self._settings.columns.items():
            self.results.write(f"{lms}.csv", lms_csv(lms, columns, marks, about(self.chapter)))
        overview = overview_of(self.results.all(), self.chapter.exercises)
        self.results.write("overview.html", overview_page(self._title, overview))
        return overview

    def _enter(self) -> None:
        self.book.enter(self._to_enter)
        self._to_enter = []

    def _submitted(self, student: str) -> Path:
        return self.chapter.root / "submitted" / student / self.chapter.name

    def _autograded(self, student: str) -> Path:
        return self.chapter.root / "autograded" / student / self.chapter.name / f"{self.chapter.topic}.ipynb"

    def _feedback(self, student: str) -> Path:
        return self.chapter.root / "feedback" / student / self.chapter.name / f"{self.chapter.topic}.html"


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
