"""Where submissions of a chapter come in, and where what was graded goes out: pages, records, gradebook, tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from torchkata.base.marks import authors_version
from torchkata.base.ways import AUTHORS_ANSWER, ways_file, ways_of
from torchkata.base.writing import remove_unfinished, write_whole
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import Release, read_release
from torchkata.tools.grading.handed_out.formgrader import GradedNotebooks
from torchkata.tools.grading.handed_out.gradebook import ChapterBook
from torchkata.tools.grading.handed_out.overview import Overview, overview_of
from torchkata.tools.grading.handed_out.pages import NO_OTHERS, OtherAnswers, feedback_page, overview_page, refusal_page
from torchkata.tools.grading.handed_out.results import Results, lms_csv
from torchkata.tools.grading.handed_out.roster import STUDENTS, differences, one_form, read_roster, some, under_folders
from torchkata.tools.grading.handed_out.the_class import about, class_settings
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import Counted, NotGradable, Record, Submission, same_notebook
from torchkata.tools.grading.timestamps import TIMESTAMP

LOCK = ".torchkata-grade.lock"
GROUP = 20  # records that are entered into the gradebook together
LONGEST_NAME = 200  # bytes
FORMULA = ("=", "+", "-", "@")  # nbgrader's export writes names as they are
TWO_FORMS = (
    "submitted/ holds two folders of this name, one as macOS writes accents and one as others do. Put what belongs to "
    "the student into one of them, and remove the other."
)
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
        self._other_answers = other_answers(chapter) if self._settings.shows_other_answers(chapter) else NO_OTHERS
        self._roster = read_roster(chapter.root / STUDENTS) if (chapter.root / STUDENTS).exists() else {}
        self._notebooks = GradedNotebooks(chapter.master, read_notebook(chapter.release))
        self._title = chapter.title
        self._zone = book.config.get("Exchange", {}).get("timezone", "UTC")  # of the times that nbgrader writes
        self._to_enter: list[Record] = []
        self._handed_in_anew: set[str] = set()  # who had been graded before, with another notebook

    def read(self, name: str) -> Submission | NotGradable:
        """What a student has handed in for the chapter."""
        if complaint := complaint_about(name):
            return NotGradable(name, self.chapter.name, complaint)
        if name in self._twins:
            return NotGradable(name, self.chapter.name, TWO_FORMS)
        try:
            return read_submission(self._submitted(name), name, self.chapter, self.release, self._zone)
        except Exception as error:  # no notebook should get here; if one does, the batch goes on
            return NotGradable(name, self.chapter.name, f"The notebook can't be read: {type(error).__name__}.")

    @cached_property
    def _twins(self) -> set[str]:
        """The folders whose names differ in their Unicode form alone: they are one name to whoever reads them."""
        alike: dict[str, list[str]] = {}
        for name in folders_in(self.chapter):
            alike.setdefault(one_form(name), []).append(name)
        return {name for names in alike.values() if len(names) > 1 for name in names}

    def has_pages(self, student: str) -> bool:
        """Whether the pages of a graded submission are there."""
        return all(page.is_file() for page in (self._autograded(student), self._feedback(student)))

    def hand_out(self, record: Record, submission: Submission) -> None:
        """Write the pages of a graded submission and keep its record; its marks reach the gradebook in groups."""
        student = record.student
        record = replace(record, other_answers=bool(self._other_answers))
        before = self.results.find(student)
        if isinstance(before, Record) and not same_notebook(before.digest, record.digest):
            self._handed_in_anew.add(student)
        write_whole(self._autograded(student), self._notebooks.graded(record, submission))
        if record.handed_in:
            write_whole(self._autograded(student).with_name(TIMESTAMP), f"{record.handed_in} UTC\n")
        self._write_page(record, submission)
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
        """Enter what the gradebook lacks of these students, and the names of the class; bring the pages of all students
        to what the gradebook says now; write the tables of the class and its overview, which is returned.

        The tables are about those who have a folder with the chapter; who else has marks is named in the overview.
        """
        self._enter()
        records = (one for one in self.results.all() if isinstance(one, Record) and one.student in students)
        self.book.enter(self.book.lacking(records))
        folders = folders_in(self.chapter)
        there = {name for name in folders if has_folder(self.chapter, name)}
        roster = under_folders(self._roster, folders)
        self.book.enter_names(roster)
        self.book.assign_penalties()
        counted = self.book.counted()
        graded = self._renew_pages(there, counted)
        self.results.write_csv(there)
        marks = self.book.final_marks()
        for lms, columns in self._settings.columns.items():
            final = [mark for mark in marks if mark.student in there]
            self.results.write(f"{lms}.csv", lms_csv(lms, columns, final, about(self.chapter)))
        gone = ({mark.student for mark in marks} | graded.keys()) - there
        by_hand = {one for one in self._handed_in_anew if one in counted and given_by_a_teacher(counted[one])}
        anew = sorted((by_hand | self.book.to_look_at()) & there)
        timed = sorted(one for one in self.book.timed() & there if not graded.get(one, True))
        notes = [*about_anew(anew), *about_times(timed), *self._about_gone(sorted(gone)), *differences(roster, there)]
        overview = overview_of(self.results.of(there), self.chapter.exercises, notes)
        self.results.write("overview.html", overview_page(self._title, overview))
        return overview

    def _enter(self) -> None:
        self.book.enter(self._to_enter)
        self._to_enter = []

    def _renew_pages(self, there: Collection[str], counted: Mapping[str, Counted]) -> dict[str, bool]:
        """Write the pages anew on which the gradebook or class.yaml says something else now than when they were
        written, of those students who have a folder. By student who has marks, with a folder and without: whether their
        record says when they handed in."""
        graded, shown = {}, bool(self._other_answers)
        for record in self.results.all():
            if isinstance(record, NotGradable):
                continue
            graded[record.student] = bool(record.handed_in)
            now = replace(record, counted=counted.get(record.student), other_answers=shown)
            if record.student in there and record != now:
                self._renew_page(now)
        return graded

    def _renew_page(self, record: Record) -> None:
        submission = self.read(record.student)
        if isinstance(submission, Submission) and same_notebook(submission.digest, record.digest):
            self._write_page(record, submission)
            self.results.keep(record)

    def _write_page(self, record: Record, submission: Submission) -> None:
        address = self._settings.address_of(self.chapter)
        page = feedback_page(self._title, record, submission, address, self._other_answers)
        write_whole(self._feedback(record.student), page)

    def _about_gone(self, students: list[str]) -> list[str]:
        if not students:
            return []
        what = "1 student has" if len(students) == 1 else f"{len(students)} students have"
        return [
            f"{what} marks here and no folder submitted/STUDENT/{self.chapter.name}: {some(students)}. The overview "
            "and the tables leave them out; the gradebook keeps them."
        ]

    def _submitted(self, student: str) -> Path:
        return self.chapter.root / "submitted" / student / self.chapter.name

    def _autograded(self, student: str) -> Path:
        return self.chapter.root / "autograded" / student / self.chapter.name / f"{self.chapter.topic}.ipynb"

    def _feedback(self, student: str) -> Path:
        return self.chapter.root / "feedback" / student / self.chapter.name / f"{self.chapter.topic}.html"


def other_answers(chapter: Chapter) -> OtherAnswers:
    """By exercise, what is shown to those who have solved it: the author's answer and others, each with what it is.

    Raises CourseError where a file of them can't be read.
    """
    folder = chapter.solution.parent
    try:
        others = {
            one.id: [(way.about, way.source) for way in ways_of(ways_file(folder, one.id))] for one in chapter.exercises
        }
    except ValueError as error:
        raise CourseError(f"The other answers of {chapter.name} can't be read: {error}.") from None
    return {one.id: [(AUTHORS_ANSWER, authors_version(one.answer)), *others[one.id]] for one in chapter.exercises}


def given_by_a_teacher(counted: Counted) -> bool:
    """Whether a teacher has given points or written a comment."""
    return bool(counted.by_hand or counted.comments)


def about_anew(students: list[str]) -> list[str]:
    """What to do about students whose points by hand or comments are about an earlier answer; nothing for nobody."""
    if not students:
        return []
    answers = "the answers of 1 student have" if len(students) == 1 else f"the answers of {len(students)} students have"
    return [
        f"Since you gave points or comments by hand, {answers} changed: {some(students)}. What you gave still counts. "
        "Look at it again in Formgrader."
    ]


def about_times(students: list[str]) -> list[str]:
    """What counts for students whose timestamp.txt is gone; nothing for nobody."""
    if not students:
        return []
    have = "1 student has" if len(students) == 1 else f"{len(students)} students have"
    return [f"{have} no {TIMESTAMP} any more: {some(students)}. The time from the one before still counts."]


def folders_in(chapter: Chapter) -> list[str]:
    """The names of the students' folders, in order."""
    return sorted(path.name for path in (chapter.root / "submitted").glob("*") if path.is_dir())


def has_folder(chapter: Chapter, student: str) -> bool:
    """Whether the student's folder holds the chapter, be it as a link that leads nowhere."""
    path = chapter.root / "submitted" / student / chapter.name
    return path.is_symlink() or path.exists()


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
