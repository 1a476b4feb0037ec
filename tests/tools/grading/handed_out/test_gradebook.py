"""Marks in nbgrader's gradebook: read back with nbgrader's own commands, kept through everything that goes wrong."""

from __future__ import annotations

import csv
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.utils import determine_grade

from tests.tools.grading import classroom
from tests.tools.grading.classroom import folder_of, hand_in
from tests.tools.grading.fake_grading import NAME, fake_record
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import read_release
from torchkata.tools.grading.handed_out import gradebook
from torchkata.tools.grading.handed_out.formgrader import GradedNotebooks, summary
from torchkata.tools.grading.handed_out.gradebook import ChapterBook, points_of
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import Record, Submission, SubmittedCell


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return classroom.course(tmp_path)


def record_of(student: str, **answers: str) -> Record:
    cells = [SubmittedCell("answer", exercise, source) for exercise, source in answers.items()]
    return fake_record(Submission(student, NAME, cells))


def nbgrader(chapter: Chapter, *arguments: str) -> str:
    """Run an nbgrader command in the course; what it prints."""
    scripts = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.pathsep.join([scripts, os.environ["PATH"]])}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=chapter.root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def look(chapter: Chapter) -> Gradebook:
    return Gradebook(f"sqlite:///{chapter.root / 'gradebook.db'}", "torchkata")


def grades(chapter: Chapter, student: str) -> dict[str, tuple]:
    with look(chapter) as book:
        found = book.find_submission(NAME, student).notebooks[0].grades
        return {grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade) for grade in found}


def test_marks_arrive(chapter: Chapter):
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada", twice="right", guess="half", thrice="no"), record_of("bob", guess="right")])
    assert grades(chapter, "ada") == {
        "twice-check": (2.0, None, False),
        "guess-check": (1.5, None, False),
        "thrice-check": (0.0, None, False),
    }
    with look(chapter) as book:
        submission = book.find_submission(NAME, "bob")
        assert (submission.score, submission.max_score, submission.needs_manual_grade) == (3.0, 6.0, False)
        assert {c.name: c.auto_comment for c in submission.notebooks[0].comments} == {
            "twice": "No response.",
            "guess": None,
            "thrice": "No response.",
        }


def test_nbgrader_exports_them(chapter: Chapter):
    ada = replace(record_of("ada", twice="right", guess="half"), handed_in="2026-03-01 12:00:00")
    with ChapterBook(chapter) as book:
        book.enter([ada, record_of("Bob Ö", guess="no")])
    nbgrader(chapter, "export", "--to=grades.csv")
    rows = {row["student_id"]: row for row in csv.DictReader((chapter.root / "grades.csv").open())}
    assert {name: (row["raw_score"], row["max_score"]) for name, row in rows.items()} == {
        "ada": ("3.5", "6.0"),
        "Bob Ö": ("0.0", "6.0"),
    }
    assert rows["ada"]["timestamp"].startswith("2026-03-01 12:00:00")


def test_a_new_gradebook_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")  # as when .venv/bin/torchkata is started without activating .venv
    chapter = classroom.unknown_course(tmp_path)
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada", twice="right")])
    assert os.environ["PATH"] == "/nowhere"
    assert grades(chapter, "ada")["twice-check"] == (2.0, None, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gradebook.db",
        "nbgrader_config.py",
        "notebooks",
        "solutions",
    ]


def test_the_assignment_is_the_one_nbgrader_makes(chapter: Chapter):
    before = sqlite3.connect(chapter.root / "gradebook.db").execute("select name, checksum, source from source_cell")
    ours = sorted(before.fetchall())
    nbgrader(chapter, "generate_assignment", NAME, "--force")
    after = sqlite3.connect(chapter.root / "gradebook.db").execute("select name, checksum, source from source_cell")
    assert sorted(after.fetchall()) == ours


def test_entering_twice_changes_nothing(chapter: Chapter):
    records = [record_of("ada", twice="right"), record_of("bob")]
    for _ in range(2):
        with ChapterBook(chapter) as book:
            book.enter(records)
    connection = sqlite3.connect(chapter.root / "gradebook.db")
    counts = [connection.execute(f"select count(*) from {t}").fetchone()[0] for t in ("student", "grade", "comment")]
    assert counts == [2, 6, 6]


def test_more_students_than_one_question_to_the_database_may_name(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torchkata.tools.grading.handed_out.gradebook.MOST_NAMES", 2)
    records = [record_of(f"s{number}", twice="right") for number in range(5)]
    with ChapterBook(chapter) as book:
        book.enter(records[2:3])
        book.enter(records)
        assert not book.lacking(records)


def test_what_the_gradebook_lacks(chapter: Chapter):
    ada, bob = record_of("ada", twice="right"), record_of("bob")
    with ChapterBook(chapter) as book:
        assert book.lacking([ada, bob]) == [ada, bob]
        book.enter([ada])
        assert book.lacking([ada, bob]) == [bob]
        better = record_of("ada", twice="right", thrice="right")
        assert book.lacking([better]) == [better]


def test_points_given_by_hand_stay(chapter: Chapter):
    record = record_of("ada", twice="no", guess="right")
    with ChapterBook(chapter) as book:
        book.enter([record])
    with look(chapter) as book:
        book.find_grade("twice-check", "things", NAME, "ada").manual_score = 1.25
        book.db.commit()
    with ChapterBook(chapter) as book:
        book.enter([record])
        assert grades(chapter, "ada")["twice-check"] == (0.0, 1.25, False)
        book.enter([record_of("ada", twice="right", guess="right")])
    assert grades(chapter, "ada")["twice-check"] == (2.0, 1.25, True)  # the teacher is asked to look again
    with look(chapter) as book:
        assert book.find_submission(NAME, "ada").score == 4.25


def test_late_submissions_get_the_penalty_that_the_course_sets(chapter: Chapter):
    config = chapter.root / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    with look(chapter) as book:
        book.find_assignment(NAME).duedate = datetime(2026, 3, 1)
        book.db.commit()
    days = {"ada": "2026-02-28 12:00:00", "late": "2026-03-28 12:00:00"}
    with ChapterBook(chapter) as book:
        book.enter([replace(record_of(student, twice="right"), handed_in=day) for student, day in days.items()])
    with look(chapter) as book:
        penalties = {s: book.find_submission(NAME, s).late_submission_penalty for s in ("ada", "late")}
    assert penalties == {"ada": 0.0, "late": 2.0}


def test_a_changed_chapter_is_noted(chapter: Chapter):
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada")])
    text = chapter.solution.read_text().replace('"points": 3', '"points": 4')
    chapter.solution.write_text(text)
    with ChapterBook(Chapter(chapter.place, NAME)):
        pass
    with look(chapter) as book:
        assert book.find_submission(NAME, "ada").max_score == 7.0


def test_a_removed_exercise_is_refused_with_nbgraders_reason(chapter: Chapter):
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada")])
    notebook = read_notebook(chapter.solution)
    notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("thrice")]
    nbformat.write(notebook, chapter.solution)
    with pytest.raises(CourseError, match="Cannot add or remove cells"), ChapterBook(Chapter(chapter.place, NAME)):
        pass
    assert grades(chapter, "ada")["thrice-check"][0] == 0.0


# ---------------------------------------------------------------- faults


@pytest.fixture
def impatient(chapter: Chapter) -> Chapter:
    """A course whose gradebook waits a tenth of a second, not five, for a lock."""
    config = chapter.root / "nbgrader_config.py"
    url = f"sqlite:///{chapter.root / 'gradebook.db'}?timeout=0.1"
    config.write_text(config.read_text() + f"\nc.CourseDirectory.db_url = {url!r}\n")
    return chapter


def lock(chapter: Chapter) -> sqlite3.Connection:
    other = sqlite3.connect(chapter.root / "gradebook.db", isolation_level=None, check_same_thread=False)
    other.execute("begin exclusive")
    return other


def test_a_locked_gradebook_ends_in_a_message_and_no_half_marks(impatient: Chapter, caplog, capfd):
    with ChapterBook(impatient, patience=0.3) as book:
        other = lock(impatient)
        with pytest.raises(CourseError, match=r"another program has locked it.*run the same command again"):
            book.enter([record_of("ada", twice="right")])
        with pytest.raises(CourseError, match="another program has locked it"):
            book.lacking([])
        other.execute("rollback")
        book.enter([record_of("ada", twice="right"), record_of("bob")])
    assert grades(impatient, "ada")["twice-check"][0] == 2.0
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_a_gradebook_that_is_locked_from_the_start(impatient: Chapter):
    other = lock(impatient)
    with pytest.raises(CourseError, match="another program has locked it"), ChapterBook(impatient, patience=0.3):
        pass
    other.close()


def test_a_lock_that_goes_away_is_waited_for(impatient: Chapter, monkeypatch: pytest.MonkeyPatch):
    with ChapterBook(impatient, patience=60) as book:
        other = lock(impatient)
        monkeypatch.setattr(gradebook.time, "sleep", lambda seconds: other.execute("rollback"))
        book.enter([record_of("ada", twice="right")])
    assert grades(impatient, "ada")["twice-check"][0] == 2.0


def test_a_damaged_gradebook(chapter: Chapter):
    (chapter.root / "gradebook.db").write_bytes(b"I am no database at all" * 100)
    with pytest.raises(CourseError, match="can't be used: file is not a database"), ChapterBook(chapter):
        pass


def test_a_gradebook_of_an_older_nbgrader(chapter: Chapter):
    """Of version 0.5.5, which wrote gradebook_of_0.5.5.sql: its dump, with an assignment that has a due date."""
    path = chapter.root / "gradebook.db"
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.executescript(Path(__file__).with_name("gradebook_of_0.5.5.sql").read_text())
    with pytest.raises(CourseError) as said, ChapterBook(chapter):
        pass
    assert f"The gradebook {path} was made by an older nbgrader" in str(said.value)
    assert "Run `nbgrader db upgrade`" in str(said.value) and "formgrader" not in str(said.value)
    nbgrader(chapter, "db", "upgrade")
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada", twice="right")])
    with look(chapter) as book:
        assert book.find_assignment(NAME).duedate == datetime(2026, 1, 31, 18)
        assert book.find_submission(NAME, "ada").score == 2.0


def test_a_full_disk(chapter: Chapter):
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada", twice="right")])
        connection = book.book.db.connection()
        pages = connection.exec_driver_sql("pragma page_count").scalar()
        connection.exec_driver_sql(f"pragma max_page_count = {pages}")
        with pytest.raises(CourseError, match="database or disk is full"):
            book.enter([record_of(f"student {number}") for number in range(200)])
        connection = book.book.db.connection()
        connection.exec_driver_sql("pragma max_page_count = 1000000")
        book.enter([record_of("student 0", thrice="right")])
    with look(chapter) as book:
        assert {student.id for student in book.students} == {"ada", "student 0"}
        assert (book.find_submission(NAME, "ada").score, book.find_submission(NAME, "student 0").score) == (2.0, 1.0)


# ---------------------------------------------------------------- the graded notebook


@pytest.fixture
def graded(chapter: Chapter):
    """The graded notebook of a submission with these answers, and its record."""

    def make(change=lambda notebook: None, **answers: str):
        notebook = classroom.blank(chapter, **answers)
        change(notebook)
        hand_in(chapter, "ada", notebook)
        submission = read_submission(folder_of(chapter, "ada"), "ada", chapter, read_release(chapter))
        record = fake_record(submission)
        text = GradedNotebooks(chapter.master, read_notebook(chapter.release)).graded(record, submission)
        made = nbformat.reads(text, as_version=4)
        nbformat.validate(made)
        return made, record

    return make


def test_nbgrader_reads_the_same_points_from_the_graded_notebook(graded):
    for answers in ({"twice": "right", "guess": "half"}, {"guess": "right", "thrice": "no"}, {"twice": "half"}):
        notebook, record = graded(**answers)
        cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
        read = {cell.metadata.nbgrader.grade_id: determine_grade(cell)[0] for cell in cells}
        assert read == points_of(record)


def test_the_graded_notebook_shows_code_verdicts_and_notes(graded):
    def delete(notebook):
        notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("thrice")]
        notebook.cells.insert(0, nbformat.v4.new_code_cell("import mine"))

    notebook, _ = graded(delete, twice="no", guess="half")
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert sources[0] == "import mine" and "# The answer cell is missing." in sources
    assert any("### BEGIN HIDDEN TESTS" in source for source in sources)
    assert "thrice: its answer cell is missing." in notebook.cells[0].source
    errors = [out.evalue for cell in notebook.cells for out in cell.get("outputs", []) if out.output_type == "error"]
    assert errors == ["Not so: no", "The answer cell is missing."]


def test_formgrader_and_nbgraders_feedback_take_it(chapter: Chapter, graded):
    _, record = graded(twice="x = '<script>alert(1)</script>'", guess="half")
    submission = read_submission(folder_of(chapter, "ada"), "ada", chapter, read_release(chapter))
    path = chapter.root / "autograded" / "ada" / NAME / "things.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(GradedNotebooks(chapter.master, read_notebook(chapter.release)).graded(record, submission))
    with ChapterBook(chapter) as book:
        book.enter([record])
    nbgrader(chapter, "generate_feedback", NAME)
    page = (chapter.root / "feedback" / "ada" / NAME / "things.html").read_text()
    assert "1.5" in page and "Half of it is right." in page
    assert "<script>alert(1)" not in page


def test_notes_stay_inside_the_summary(graded):
    _, record = graded()
    lines = summary(replace(record, notes=["```", "<script>"]))["source"].splitlines()
    assert lines[0] == lines[-1] == "```"
    assert not any("```" in line for line in lines[1:-1])


def test_a_missing_alembic_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    chapter = classroom.unknown_course(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(CourseError, match="pip install alembic"), ChapterBook(chapter):
        pass
