"""Marks into nbgrader's gradebook, so that formgrader, `nbgrader export` and manual grading go on working."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nbgrader.api import (
    Assignment,
    Base,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import make_url, or_, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import selectinload

from torchkata.base.places import MARK
from torchkata.tools.course import Chapter
from torchkata.tools.course_config import course_config
from torchkata.tools.errors import CourseError
from torchkata.tools.generating import NotGenerated, generate_assignment
from torchkata.tools.grading.handed_out.results import FinalMark
from torchkata.tools.grading.handed_out.roster import NAMES, Roster
from torchkata.tools.grading.records import Counted, Record

if TYPE_CHECKING:
    from nbgrader.plugins import LateSubmissionPlugin

T = TypeVar("T")
OF_ANOTHER_VERSION = re.compile(r"no such (column|table)|has no column|does not exist")  # what databases say of it
MOST_NAMES = 500  # in one question to a database: some allow no more than 999 values
PATIENCE = 60  # seconds to wait for a gradebook that another program has locked
QUIET = logging.getLogger("torchkata.gradebook")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class ChapterBook:
    """The gradebook, for one chapter; a context manager. Only one process at a time should write with it.

    Every method raises CourseError where the gradebook is locked for longer than `patience` seconds or can't be
    written. What was entered before stays.
    """

    def __init__(self, chapter: Chapter, patience: float = PATIENCE):
        self.chapter, self.patience = chapter, patience
        self.config = course_config(chapter.root)
        self.course = CourseDirectory(config=self.config)

    def __enter__(self) -> ChapterBook:
        self.book = self._patiently(self._open)
        try:
            if self._patiently(self._known_checks) != self._checks():
                self._generate()
            self._patiently(self._learn_ids)
        except BaseException:
            self.book.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.book.close()

    def lacking(self, records: Iterable[Record]) -> list[Record]:
        """Those of the records whose points are not in the gradebook."""
        entered = self._patiently(self._entered)
        return [record for record in records if entered.get(record.student) != points_of(record)]

    def enter(self, records: list[Record]) -> None:
        """Enter the points of some submissions, all of them or none. Entering twice changes nothing.

        Points that a teacher gave by hand stay; where the points beside them change, nbgrader asks for a second look.
        """
        self._patiently(lambda: self._enter_all(records))

    def enter_names(self, roster: Roster) -> None:
        """Enter what a class's list says of its students, as `nbgrader db student import` does."""
        self._patiently(lambda: self._enter_names(roster))

    def assign_penalties(self) -> None:
        """Set the penalties for being late by what the gradebook says now: due date, extensions, points."""
        self._patiently(lambda: self._assign_penalties(None))

    def final_marks(self) -> list[FinalMark]:
        """What counts for each student who has handed the chapter in, by student."""
        return self._patiently(self._final_marks)

    def timed(self) -> set[str]:
        """The students of whom it is known when they handed in."""
        return self._patiently(self._timed)

    def to_look_at(self) -> set[str]:
        """The students with points by hand beside which the automatic points have changed since they were given."""
        return self._patiently(self._to_look_at)

    def counted(self) -> dict[str, Counted]:
        """What counts for those students whose automatic points are not all there is, by student."""
        return self._patiently(self._counted)

    # ------------------------------------------------------------ opening

    def _open(self) -> Gradebook:
        with _with_scripts_of_this_python():  # a new gradebook asks the command alembic for its version
            try:
                return _with_its_tables(Gradebook(self.course.db_url, self.course.course_id))
            except FileNotFoundError:
                raise CourseError(
                    "A new gradebook needs the command alembic, which is not here. It comes with nbgrader: "
                    "pip install alembic"
                ) from None

    def _checks(self) -> dict[str, tuple[float, str]]:
        """Points and source of the chapter's check cells, by grade id."""
        cells = [cell for cell in self.chapter.master.cells if cell.metadata.get("nbgrader", {}).get("grade")]
        return {cell.metadata.nbgrader.grade_id: (cell.metadata.nbgrader.points, cell.source) for cell in cells}

    def _notebook(self) -> Notebook | None:
        named = self.book.db.query(Notebook).join(Assignment)
        return named.filter(Assignment.name == self.chapter.name, Notebook.name == self.chapter.topic).one_or_none()

    def _known_checks(self) -> dict[str, tuple[float, str]]:
        if (notebook := self._notebook()) is None:
            return {}
        sources = {cell.name: cell.source for cell in notebook.source_cells}
        return {cell.name: (cell.max_score, sources.get(cell.name, "")) for cell in notebook.grade_cells}

    def _generate(self) -> None:
        """Let nbgrader note the chapter in the gradebook, as `nbgrader generate_assignment` does; no file changes."""
        self.book.db.rollback()
        with tempfile.TemporaryDirectory() as folder, _with_scripts_of_this_python():
            place = Path(folder) / self.course.source_directory / self.chapter.name
            place.mkdir(parents=True)
            shutil.copy(self.chapter.solution, place)
            config = course_config(self.chapter.root)
            config.CourseDirectory.root, config.CourseDirectory.db_url = folder, self.course.db_url
            try:
                generate_assignment(config, self.chapter.name)
            except NotGenerated as complaint:
                raise CourseError(f"nbgrader can't put {self.chapter.name} into the gradebook: {complaint}") from None

    def _learn_ids(self) -> None:
        notebook = self._notebook()
        assert notebook is not None  # nbgrader has noted it
        self.assignment_id, self.notebook_id = notebook.assignment_id, notebook.id
        self.grade_cells = {cell.name: cell.id for cell in notebook.grade_cells}
        self.solution_cells = {cell.name: cell.id for cell in notebook.solution_cells}
        self.book.db.rollback()

    # ------------------------------------------------------------ reading and writing

    def _entered(self) -> dict[str, dict[str, float | None]]:
        rows = (
            self.book.db.query(SubmittedAssignment.student_id, BaseCell.name, Grade.auto_score)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .join(BaseCell, BaseCell.id == Grade.cell_id)
            .filter(SubmittedNotebook.notebook_id == self.notebook_id)
            .all()
        )
        self.book.db.rollback()
        found: dict[str, dict[str, float | None]] = {}
        for student, check, points in rows:
            found.setdefault(student, {})[check] = points
        return found

    def _enter_names(self, roster: Roster) -> None:
        db = self.book.db
        known = {student.id: student for student in db.query(Student).all()}
        for name, said in roster.items():
            if name not in known:
                db.add(Student(id=name, **said))
            for field, value in said.items():
                if name in known and getattr(known[name], field) != value:
                    setattr(known[name], field, value)
        db.commit()

    def _final_marks(self) -> list[FinalMark]:
        numbers = SubmittedAssignment.score, SubmittedAssignment.max_score, SubmittedAssignment.late_submission_penalty
        found = (
            self.book.db.query(Student, *numbers)
            .join(SubmittedAssignment, SubmittedAssignment.student_id == Student.id)
            .filter(SubmittedAssignment.assignment_id == self.assignment_id)
        )
        marks = [
            FinalMark(student.id, {name: getattr(student, name) for name in NAMES}, max(0.0, score - (late or 0.0)), of)
            for student, score, of, late in found
        ]
        self.book.db.rollback()
        return sorted(marks, key=lambda mark: mark.student)

    def _timed(self) -> set[str]:
        of_chapter = self.book.db.query(SubmittedAssignment.student_id).filter_by(assignment_id=self.assignment_id)
        found = {student for (student,) in of_chapter.filter(SubmittedAssignment.timestamp.isnot(None))}
        self.book.db.rollback()
        return found

    def _to_look_at(self) -> set[str]:
        joined = self.book.db.query(SubmittedAssignment.student_id).join(
            SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id
        )
        grades = joined.join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        given = grades.filter(Grade.manual_score.isnot(None), Grade.needs_manual_grade)
        found = {student for (student,) in given.filter(SubmittedNotebook.notebook_id == self.notebook_id)}
        self.book.db.rollback()
        return found

    def _counted(self) -> dict[str, Counted]:
        db, of_chapter = self.book.db, SubmittedNotebook.notebook_id == self.notebook_id
        joined = db.query(SubmittedAssignment.student_id).join(
            SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id
        )
        grades = joined.join(Grade, Grade.notebook_id == SubmittedNotebook.id).join(
            BaseCell, BaseCell.id == Grade.cell_id
        )
        given = or_(Grade.manual_score.isnot(None), Grade.extra_credit.isnot(None))
        said = joined.join(Comment, Comment.notebook_id == SubmittedNotebook.id)
        comments = said.join(BaseCell, BaseCell.id == Comment.cell_id).filter(of_chapter, Comment.manual_comment != "")
        late = joined.filter(of_chapter, SubmittedNotebook.late_submission_penalty > 0)
        by_hand: dict[str, dict[str, float]] = defaultdict(dict)
        for student, check, points in grades.filter(of_chapter, given).add_columns(BaseCell.name, Grade.score):
            by_hand[student][check] = points
        told: dict[str, dict[str, str]] = defaultdict(dict)
        for student, exercise, comment in comments.add_columns(BaseCell.name, Comment.manual_comment):
            told[student][exercise] = comment
        penalties = dict(late.add_columns(SubmittedNotebook.late_submission_penalty).all())
        db.rollback()
        students = {*by_hand, *told, *penalties}
        points = {mark.student: round(mark.points, 4) for mark in self._final_marks()} if students else {}
        return {
            one: Counted(points[one], by_hand[one], told[one], round(penalties.get(one, 0.0), 4)) for one in students
        }

    def _enter_all(self, records: list[Record]) -> None:
        db = self.book.db
        with db.no_autoflush:  # one visit to the database for all that are new
            all_submitted = list(self._submitted([record.student for record in records]))
        db.flush()
        for record, submitted in zip(records, all_submitted, strict=True):
            self._enter(record, submitted)
        db.commit()
        self._assign_penalties([record.student for record in records])

    def _enter(self, record: Record, submitted: SubmittedAssignment) -> None:
        notebook = self._notebook_of(submitted)
        if record.handed_in:
            submitted.timestamp = datetime.fromisoformat(record.handed_in)
        grades = {grade.cell_id: grade for grade in notebook.grades}
        for check, points in points_of(record).items():
            _give(grades[self.grade_cells[check]], points)
        comments = {comment.cell_id: comment for comment in notebook.comments}
        for mark in record.marks:
            unanswered = mark.state in ("not solved", "missing")
            comments[self.solution_cells[mark.exercise]].auto_comment = "No response." if unanswered else None

    def _notebook_of(self, submitted: SubmittedAssignment) -> SubmittedNotebook:
        return next(one for one in submitted.notebooks if one.notebook_id == self.notebook_id)

    def _assign_penalties(self, students: Collection[str] | None) -> None:
        """Set the penalties of these students, by default of all: as nbgrader does when it grades."""
        db = self.book.db
        of_chapter = db.query(SubmittedAssignment).filter_by(assignment_id=self.assignment_id)
        all_submitted = of_chapter.options(selectinload(SubmittedAssignment.notebooks)).all()
        wanted = [one for one in all_submitted if students is None or one.student_id in students]
        plugin = None
        for submitted in wanted:
            notebook, penalty, seconds = self._notebook_of(submitted), None, _seconds_late(submitted)
            if seconds > 0:
                plugin = plugin or self._penalty_plugin()
                penalty = self._penalty(plugin, submitted.student_id, notebook.score, seconds)
            if notebook.late_submission_penalty != penalty:
                notebook.late_submission_penalty = penalty
        db.commit()

    def _penalty_plugin(self) -> LateSubmissionPlugin:
        """What the course's settings name for it."""
        from nbgrader.preprocessors import AssignLatePenalties  # takes long; few classes need it

        step = AssignLatePenalties(config=self.config, log=QUIET)
        step.init_plugin()
        return step.plugin_inst

    def _penalty(self, plugin: LateSubmissionPlugin, student: str, score: float, seconds: float) -> float | None:
        """The points that handing in so late costs: at least none, at most all."""
        try:
            penalty = plugin.late_submission_penalty(student, score, seconds)
            return None if penalty is None else float(min(max(penalty, 0.0), score))
        except Exception as error:  # a plugin is the teacher's own code
            raise CourseError(
                f"The penalty for handing in late can't be told: {type(plugin).__name__}, which {MARK} names, stopped "
                f"with {type(error).__name__}: {error}. What was graded is kept."
            ) from None

    def _submitted(self, students: list[str]) -> Iterator[SubmittedAssignment]:
        """The students' submissions in the gradebook, with all that is noted of them; new ones where there are none."""
        db = self.book.db
        notebooks = selectinload(SubmittedAssignment.notebooks)
        at_once = notebooks.selectinload(SubmittedNotebook.grades), notebooks.selectinload(SubmittedNotebook.comments)
        of_chapter = db.query(SubmittedAssignment).filter_by(assignment_id=self.assignment_id).options(*at_once)
        for start in range(0, len(students), MOST_NAMES):
            names = students[start : start + MOST_NAMES]
            known = {student.id for student in db.query(Student).filter(Student.id.in_(names))}
            db.add_all(Student(id=name) for name in names if name not in known)
            found = {one.student_id: one for one in of_chapter.filter(SubmittedAssignment.student_id.in_(names))}
            yield from (found.get(name) or self._new_submission(name) for name in names)

    def _new_submission(self, student: str) -> SubmittedAssignment:
        """It mirrors the chapter's cells, as nbgrader's do."""
        submitted = SubmittedAssignment(assignment_id=self.assignment_id, student_id=student)
        notebook = SubmittedNotebook(notebook_id=self.notebook_id)
        notebook.grades = [Grade(cell_id=cell) for cell in self.grade_cells.values()]
        notebook.comments = [Comment(cell_id=cell) for cell in self.solution_cells.values()]
        submitted.notebooks = [notebook]
        self.book.db.add(submitted)
        return submitted

    def _patiently(self, action: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return action()
            except DatabaseError as error:
                if hasattr(self, "book"):
                    self.book.db.rollback()
                if OF_ANOTHER_VERSION.search(str(error.orig)):
                    raise CourseError(self._of_another_version(str(error.orig))) from None
                if "locked" not in str(error.orig):
                    raise CourseError(self._complaint(str(error.orig))) from None
                if time.monotonic() > deadline:
                    raise CourseError(self._complaint("another program has locked it")) from None
                time.sleep(0.2)

    def _of_another_version(self, reason: str) -> str:
        return (
            f"The gradebook {make_url(self.course.db_url).database} was made by an older nbgrader ({reason}). Run "
            "`nbgrader db upgrade` in this folder: it keeps a copy beside it. Then run the same command again."
        )

    def _complaint(self, reason: str) -> str:
        return (
            f"The gradebook {make_url(self.course.db_url).database} can't be used: {reason}. What was graded is kept. "
            "Mend that (close formgrader and other programs that use the gradebook), then run the same command again."
        )


def _with_its_tables(book: Gradebook) -> Gradebook:
    """The gradebook, after asking for each column that nbgrader writes. Raises DatabaseError where one is missing."""
    try:
        for table in Base.metadata.sorted_tables:
            book.db.execute(select(table).limit(1))
        book.db.rollback()
    except BaseException:
        book.close()
        raise
    return book


def _seconds_late(submitted: SubmittedAssignment) -> float:
    """How late it was handed in; an extension counts, and nobody is late where there is no due date."""
    return submitted.total_seconds_late if submitted.assignment.duedate else 0.0


def points_of(record: Record) -> dict[str, float]:
    """The points of every check cell, by grade id."""
    return {check: points for mark in record.marks for check, points in mark.checks.items()}


def _give(grade: Grade, points: float) -> None:
    changed = grade.auto_score != points
    grade.auto_score = points
    grade.needs_manual_grade = grade.manual_score is not None and (changed or bool(grade.needs_manual_grade))


@contextmanager
def _with_scripts_of_this_python() -> Iterator[None]:
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
