"""Grade one exercise anew after its check was mended, and say whose marks change before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.batch import Progress, first_try, pool_of
from torchkata.tools.grading.desk import Desk, at_desk
from torchkata.tools.grading.grader import OpenGrader
from torchkata.tools.grading.handed_out.overview import Overview
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.handed_out.roster import one_form
from torchkata.tools.grading.records import ExerciseMark, NotGradable, Record, Submission, same_notebook

Agree = Callable[["Regrading"], bool]
NEW = "handed in anew or graded by another version: the next `torchkata grade` grades it whole"


@dataclass(frozen=True)
class Change:
    """One student's mark of the exercise, as it was and as it is now, and whether it came about in the sandbox."""

    student: str
    before: ExerciseMark
    after: ExerciseMark
    sandboxed: bool

    @property
    def of_points(self) -> bool:
        """Whether the points are others, not only the words."""
        return self.before.points != self.after.points


@dataclass
class Regrading:
    """What grading an exercise anew found. `left_out` says by student why a mark stays as it is; `others_changed`
    names exercises whose checks changed too, and which are not graded here."""

    exercise: str
    marks: list[Change] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    others_changed: list[str] = field(default_factory=list)
    overview: Overview | None = None  # of the class, once the marks are written

    @property
    def changes(self) -> list[Change]:
        """The marks with other points than before, by student."""
        return sorted((one for one in self.marks if one.of_points), key=lambda one: one.student)


def regrade(
    chapter: Chapter,
    exercise: str,
    open_grader: OpenGrader,
    agree: Agree,
    *,
    students: list[str] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    out: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Regrading:
    """Grade one exercise of all graded submissions anew, and write the marks if `agree` says so of what was found.

    `exercise` is an id; the other parameters are those of `grade_chapter`. Raises CourseError as that does, for an
    exercise that the chapter lacks, and where nothing has been graded yet.
    """
    known = [one.id for one in chapter.exercises]
    if exercise not in known:
        raise CourseError(f"{chapter.name} has no exercise {exercise!r}. It has: {', '.join(known)}.")
    with at_desk(chapter, out) as desk:
        records = _graded(desk.results, students)
        if not records:
            raise CourseError(f"Nothing of {chapter.name} is graded yet. Run `torchkata grade {chapter.number}` first.")
        work = _Regrade(desk, exercise, records)
        with pool_of(open_grader, jobs, scheduler)() as pool:
            work.judge(pool.grade, progress)
        if agree(work.found):
            work.write()
        return work.found


def _graded(results: Results, students: list[str] | None) -> dict[str, Record]:
    found = [one for one in results.all() if isinstance(one, Record)]
    named = {one_form(student) for student in students or []}
    return {one.student: one for one in found if students is None or one_form(one.student) in named}


class _Regrade:
    """The marks of one exercise, judged anew."""

    def __init__(self, desk: Desk, exercise: str, records: dict[str, Record]):
        self._desk, self._exercise, self._records = desk, exercise, records
        self.found = Regrading(exercise, others_changed=self._others_changed())

    def judge(self, grade: Callable, progress: Progress) -> None:
        """Judge the exercise alone, in each submission; what was cut off runs once more, alone."""
        progress(0, len(self._records))
        again: list[Submission] = []
        for submission, result in grade(self._submissions()):
            result = first_try(result)
            if isinstance(result, Record) and not result.final:
                again.append(submission)
            else:
                self._note(submission.student, result)
            progress(len(self.found.marks) + len(self.found.left_out), len(self._records))
        for submission in again:
            for one, result in grade([submission]):
                self._note(one.student, result)

    def write(self) -> None:
        """Write the new marks: records, pages, gradebook, tables."""
        for mark in self.found.marks:
            submission = self._as_graded(mark.student)
            if submission is None:
                self.found.left_out[mark.student] = NEW
            else:
                self._desk.hand_out(self._renewed(mark, submission), submission)
        self.found.overview = self._desk.finish([])

    def _submissions(self) -> Iterator[Submission]:
        for student in self._records:
            submission = self._as_graded(student)
            if submission is None:
                self.found.left_out[student] = NEW
            else:
                yield only(self._exercise, submission)

    def _as_graded(self, student: str) -> Submission | None:
        """The student's submission, where it still is what the record speaks of."""
        submission = self._desk.read(student)
        if isinstance(submission, NotGradable):
            return None
        return submission if same_notebook(submission.digest, self._records[student].digest) else None

    def _note(self, student: str, result: Record | NotGradable) -> None:
        before = _mark(self._records[student], self._exercise)
        if isinstance(result, NotGradable):
            self.found.left_out[student] = result.reason
        elif before is not None and (after := _mark(result, self._exercise)) is not None:
            judged_by = self._desk.release.judges[self._exercise]
            self.found.marks.append(Change(student, before, replace(after, judged_by=judged_by), result.sandboxed))

    def _renewed(self, change: Change, submission: Submission) -> Record:
        """The record with the new mark; it speaks of this release where all its marks do."""
        record = self._records[change.student]
        marks = [change.after if one.exercise == self._exercise else one for one in record.marks]
        judges = self._desk.release.judges
        current = all(one.judged_by == judges.get(one.exercise) for one in marks) and len(marks) == len(judges)
        return replace(
            record,
            marks=marks,
            points=round(sum(one.points for one in marks), 4),
            of=sum(one.of for one in marks),
            sandboxed=record.sandboxed and change.sandboxed,
            digest=submission.digest if current else record.digest,
            handed_in=submission.handed_in,
        )

    def _others_changed(self) -> list[str]:
        judges = self._desk.release.judges
        stale = {m.exercise for r in self._records.values() for m in r.marks if m.judged_by != judges.get(m.exercise)}
        return [one for one in judges if one in stale and one != self._exercise]


def only(exercise: str, submission: Submission) -> Submission:
    """The submission as far as this exercise needs it: other answers are run, but not judged; what follows its check
    cells is left out."""
    ends = [
        n + max(one.later.values(), default=0) for n, one in enumerate(submission.cells) if one.exercise == exercise
    ]
    cells = [
        replace(cell, kind="own", exercise=None) if cell.kind == "answer" and cell.exercise != exercise else cell
        for cell in submission.cells[: max(ends, default=-1) + 1]
    ]
    return replace(submission, cells=cells)


def _mark(record: Record, exercise: str) -> ExerciseMark | None:
    return next((mark for mark in record.marks if mark.exercise == exercise), None)
