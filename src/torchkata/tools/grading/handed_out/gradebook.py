"""Marks into nbgrader's gradebook, so that formgrader, `nbgrader export` and manual grading go on working."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from nbformat.v4 import new_notebook
from nbgrader.api import (
    Assignment,
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
from sqlalchemy import make_url
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import selectinload

from torchkata.tools.course import Chapter
from torchkata.tools.course_config import course_config
from torchkata.tools.errors import CourseError
from torchkata.tools.generating import NotGenerated, generate_assignment
from torchkata.tools.grading.handed_out.results import FinalMark
from torchkata.tools.grading.handed_out.the_class import NAMES, Roster
from torchkata.tools.grading.records import Record

T = TypeVar("T")
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

    def final_marks(self) -> list[FinalMark]:
        """What counts for each student who has handed the chapter in, by student."""
        return self._patiently(self._final_marks)

    # ------------------------------------------------------------ opening

    def _open(self) -> Gradebook:
        with _with_scripts_of_this_python():  # a new gradebook asks the command alembic for its version
            try:
                return Gradebook(self.course.db_url, self.course.course_id)
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

    def _enter_all(self, records: list[Record]) -> None:
        db = self.book.db
        with db.no_autoflush:  # one visit to the database for all that are new
            all_submitted = list(self._submitted([record.student for record in records]))
        db.flush()
        pairs = zip(records, all_submitted, strict=True)
        late = [record.student for record, submitted in pairs if self._enter(record, submitted)]
        db.commit()
        for student in late:
            self._assign_late_penalty(student)

    def _enter(self, record: Record, submitted: SubmittedAssignment) -> bool:
        """Enter one record; whether nbgrader has to look at a penalty for being late."""
        notebook = next(one for one in submitted.notebooks if one.notebook_id == self.notebook_id)
        if record.handed_in:
            submitted.timestamp = datetime.fromisoformat(record.handed_in)
        grades = {grade.cell_id: grade for grade in notebook.grades}
        for check, points in points_of(record).items():
            _give(grades[self.grade_cells[check]], points)
        comments = {comment.cell_id: comment for comment in notebook.comments}
        for mark in record.marks:
            unanswered = mark.state in ("not solved", "missing")
            comments[self.solution_cells[mark.exercise]].auto_comment = "No response." if unanswered else None
        return submitted.total_seconds_late > 0 or notebook.late_submission_penalty is not None

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

    def _assign_late_penalty(self, student: str) -> None:
        from nbgrader.preprocessors import AssignLatePenalties  # takes as long; few classes need it

        names = {"notebook": self.chapter.topic, "assignment": self.chapter.name, "student": student}
        step = AssignLatePenalties(config=self.config, log=QUIET)
        step.preprocess(new_notebook(), {"nbgrader": names | {"db_url": self.course.db_url}})

    def _patiently(self, action: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return action()
            except DatabaseError as error:
                if hasattr(self, "book"):
                    self.book.db.rollback()
                if "locked" not in str(error.orig):
                    raise CourseError(self._complaint(str(error.orig))) from None
                if time.monotonic() > deadline:
                    raise CourseError(self._complaint("another program has locked it")) from None
                time.sleep(0.2)

    def _complaint(self, reason: str) -> str:
        return (
            f"The gradebook {make_url(self.course.db_url).database} can't be used: {reason}. What was graded is kept. "
            "Mend that (close formgrader and other programs that use the gradebook), then run the same command again."
        )


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
