"""What a class and its gradebook are when a chapter is graded again: dates, points by hand, comments, names, folders.

One class is graded, then its teacher changes all sorts of things, then it is graded again: nothing is judged anew, and
pages, tables and overview say what the gradebook says.
"""

from __future__ import annotations

import csv
import json
import shutil
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.tools.grading import classroom
from tests.tools.grading.classroom import folder_of, hand_in
from tests.tools.grading.fake_grading import NAME, fake_grader
from tests.tools.grading.handed_out.test_feedback import Page
from tests.tools.grading.handed_out.test_gradebook import look
from torchkata.base.ways import ways_file
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.batch import Run, grade_chapter, students_of
from torchkata.tools.grading.handed_out.the_class import SETTINGS

RIGHT = {"twice": "right", "guess": "right", "thrice": "right"}
MAC, USUAL = unicodedata.normalize("NFD", "Jos\u00e9"), "Jos\u00e9"
# as a spreadsheet with German settings writes it: a mark in front, semicolons, rows of nothing, one twice
STUDENTS = f"""\ufeffID;First name;last_name;email;lms_user_id
ada;Ada;Lovelace;ada@example.org;17
{USUAL};Jos\u00e9;P\u00e9rez;;4
ada;Ada;Lovelace;ada@example.org;17
moved;Max;Moved;;5
idle;Ida;Idle;;6
;;;;
;;;;
"""


@dataclass
class Graded:
    """A class after its second grading, and what was seen on the way."""

    chapter: Chapter
    first: Run
    again: Run
    written: dict[str, bool] = field(default_factory=dict)  # by student: whether the page was written the second time
    third: dict[str, bool] = field(default_factory=dict)  # the same for a third run, before which nothing was changed

    def page(self, student: str) -> str:
        return Page(page_of(self.chapter, student).read_text(encoding="utf-8")).text

    def table(self, name: str) -> list[dict[str, str]]:
        text = (self.again.folder / name).read_text(encoding="utf-8")
        return list(csv.DictReader(text.splitlines()))

    def points(self) -> dict[str, str]:
        return {row["Username"]: row["Three things"] for row in self.table("moodle.csv")}


def page_of(chapter: Chapter, student: str) -> Path:
    return chapter.root / "feedback" / student / NAME / "things.html"


def grade(chapter: Chapter) -> Run:
    return grade_chapter(chapter, partial(fake_grader, chapter.root / "diary.txt"))


def graded_once(folder: Path) -> tuple[Chapter, Run]:
    chapter = classroom.course(folder)
    config = chapter.root / "nbgrader_config.py"
    settings = "c.LateSubmissionPlugin.penalty_method = 'zero'\nc.Exchange.timezone = 'Europe/Berlin'\n"
    config.write_text(f"{config.read_text()}\n{settings}")
    (chapter.root / "students.csv").write_text(STUDENTS, encoding="utf-8")
    for student in ("ada", "bob", "late", "extended", "moved", MAC, "gone", "unsure"):
        hand_in(chapter, student, **RIGHT)
    hand_in(chapter, "bob", twice="no", guess="half")
    times = {"ada": "Sat Jan 10 17:30:00 CET 2026", "late": "2026-01-10 18:30:00 +0100"}
    times |= {"extended": "2026-01-12T12:00Z", "unsure": "10.01.2026 17:30"}
    for student, text in times.items():
        (folder_of(chapter, student) / "timestamp.txt").write_text(text)
    with look(chapter) as book:
        book.find_assignment(NAME).duedate = datetime(2026, 1, 10, 17)  # UTC
        book.db.commit()
    return chapter, grade(chapter)


def change(chapter: Chapter) -> None:
    """What a teacher does before the class is graded again."""
    with look(chapter) as book:
        book.find_submission(NAME, "extended").extension = timedelta(days=7)
        book.find_grade("twice-check", "things", NAME, "bob").manual_score = 1.25
        book.find_grade("guess-check", "things", NAME, "bob").extra_credit = 0.5
        book.find_comment("twice", "things", NAME, "bob").manual_comment = "<b>Nearly</b>: think of \u22121."
        book.db.commit()
    shutil.move(folder_of(chapter, "moved").parent, folder_of(chapter, "Moved").parent)
    shutil.rmtree(folder_of(chapter, "gone").parent)


def times(chapter: Chapter) -> dict[str, int]:
    return {page.parts[-3]: page.stat().st_mtime_ns for page in chapter.root.glob("feedback/*/*/*.html")}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graded]:
    chapter, first = graded_once(tmp_path_factory.mktemp("class"))
    change(chapter)
    seen = [times(chapter)]
    again = grade(chapter)
    seen.append(times(chapter))
    grade(chapter)
    seen.append(times(chapter))
    written, third = ({s: new[s] != old.get(s) for s in new} for old, new in pairwise(seen))
    yield Graded(chapter, first, again, written, third)


def test_only_what_is_new_is_judged(graded: Graded):
    assert [record.student for record in graded.again.graded] == ["Moved"]
    assert len((graded.chapter.root / "diary.txt").read_text().split()) == 8 + 1


# ---------------------------------------------------------------- dates


def test_penalties_follow_due_dates_and_extensions(graded: Graded):
    points = graded.points()
    assert (points["ada"], points["late"], points["extended"]) == ("6", "0", "6")
    with look(graded.chapter) as book:
        late = {name: book.find_submission(NAME, name).late_submission_penalty for name in ("late", "extended")}
        assert book.find_submission(NAME, "ada").timestamp == datetime(2026, 1, 10, 16, 30)
    assert late == {"late": 6.0, "extended": 0.0}
    record = json.loads((graded.first.folder / "records" / "extended.json").read_text())
    assert record["counted"] is None and record["points"] == 6.0


def test_a_date_that_could_be_several_is_named(graded: Graded):
    [note] = next(record.notes for record in graded.again.records if record.student == "unsure")
    assert '"10.01.2026 17:30"' in note and graded.points()["unsure"] == "6"


def test_the_page_says_what_being_late_costs(graded: Graded):
    assert "0 of 6 points" in graded.page("late") and "6 points, less 6 for handing in late." in graded.page("late")
    assert "6 of 6 points" in graded.page("extended") and "late" not in graded.page("extended")


def test_an_extension_without_a_due_date_makes_nobody_late(tmp_path: Path):
    chapter, _ = graded_once(tmp_path)
    with look(chapter) as book:
        book.find_assignment(NAME).duedate = None
        book.find_submission(NAME, "late").extension = timedelta(days=1)
        book.db.commit()
    assert grade(chapter).overview.median == 6.0
    config = chapter.root / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}\n{PLUGIN}")
    with look(chapter) as book:
        book.find_assignment(NAME).duedate = datetime(2026, 1, 1)
        book.db.commit()
    with pytest.raises(CourseError, match=r"Strict, which nbgrader_config\.py names, stopped with ZeroDivisionError"):
        grade(chapter)


PLUGIN = """
from nbgrader.plugins import LateSubmissionPlugin

class Strict(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 1 / 0

c.AssignLatePenalties.plugin_class = Strict
"""

# ---------------------------------------------------------------- points by hand


def test_points_by_hand_and_comments_are_on_the_page(graded: Graded):
    page = graded.page("bob")
    assert "3.25 of 6 points" in page and "<b>Nearly</b>: think of \u22121." in page
    assert "Your teacher gave 1.25 of 2 points. The checks gave 0." in page
    assert "Your teacher gave 2 of 3 points. The checks gave 1.5." in page
    assert page.count("Your teacher gave") == 2 and "Your teacher" not in graded.page("ada")


def test_the_tables_say_the_same(graded: Graded):
    rows = [(row["points"], row["by_hand"]) for row in graded.table("marks.csv") if row["student"] == "bob"]
    assert rows == [("1.25", "yes"), ("2", "yes"), ("0", "no")]
    assert graded.points()["bob"] == "3.25"


def test_only_pages_that_say_something_new_are_written(graded: Graded):
    assert {student for student, new in graded.written.items() if new} == {"Moved", "bob", "extended"}
    assert not any(graded.third.values())


# ---------------------------------------------------------------- names and folders


def test_who_has_no_folder_any_more_is_named_and_left_out(graded: Graded):
    there = {"Moved", MAC, "ada", "bob", "extended", "late", "unsure"}
    assert {row["student"] for row in graded.table("marks.csv")} == {unicodedata.normalize("NFC", s) for s in there}
    assert set(graded.points()) == {unicodedata.normalize("NFC", student) for student in there}
    assert graded.again.overview.graded == len(there)
    [note] = [note for note in graded.again.overview.notes if "no folder" in note]
    assert note.startswith(f"2 students have marks here and no folder submitted/STUDENT/{NAME}: gone, moved.")
    assert note in (graded.again.folder / "overview.html").read_text()


def test_a_name_in_another_unicode_form_is_the_same_student(graded: Graded):
    assert {"Username": USUAL, "Email address": "", "Three things": "6"} in graded.table("moodle.csv")
    with look(graded.chapter) as book:
        students = {student.id: (student.last_name, student.score) for student in book.students}
    assert students[MAC] == ("P\u00e9rez", 6.0) and USUAL not in students


def test_a_student_is_named_in_any_unicode_form(graded: Graded):
    assert students_of(graded.chapter, [USUAL, "ada", "ada"]) == [MAC, "ada"]


def test_who_is_not_in_the_list_and_who_has_no_folder(graded: Graded):
    first, second = graded.first.overview.notes
    assert first.startswith("students.csv does not know bob, extended, gone, late, unsure:")
    assert second == "1 of the students in students.csv has handed in nothing here: idle."
    assert "2 of the students in students.csv have handed in nothing here: idle, moved." in graded.again.overview.notes
    assert "does not know Moved, bob" in " ".join(graded.again.overview.notes)


def test_two_folders_in_two_unicode_forms_are_refused(tmp_path: Path):
    chapter = classroom.course(tmp_path)
    for student in (MAC, USUAL, "ada"):
        hand_in(chapter, student, **RIGHT)
    run = grade(chapter)
    if len(list((chapter.root / "submitted").iterdir())) < 3:
        pytest.skip("this file system knows one form alone")
    assert {refusal.student for refusal in run.refused} == {MAC, USUAL}
    assert "two folders of this name" in run.refused[0].reason and len(run.graded) == 1


# ---------------------------------------------------------------- other answers

WAY = """# %% right: adds
# It adds x to itself.
def twice(x):
    return x + x
"""


def test_other_answers_are_shown_below_solved_exercises_of_the_chapters_that_the_teacher_names(tmp_path: Path):
    chapter = classroom.course(tmp_path)
    way = ways_file(chapter.solution.parent, "twice")
    way.parent.mkdir()
    way.write_text(WAY)
    hand_in(chapter, "ada", **RIGHT)
    hand_in(chapter, "bob", **RIGHT | {"twice": "no", "guess": "half"})
    settings = chapter.root / SETTINGS
    grade(chapter)
    assert "author's answer" not in page_of(chapter, "ada").read_text()

    settings.write_text("other_answers: [98]\n")
    grade(chapter)
    ada, bob = (Page(page_of(chapter, student).read_text()).text for student in ("ada", "bob"))
    assert "Another right answer: adds. It adds x to itself." in ada and "return x + x" in ada
    assert "return 2 * x" in ada and "SOLUTION" not in ada and ada.count("The author's answer") == 3
    assert "return x + x" not in bob and "return 2 * x" not in bob and bob.count("The author's answer") == 1
    shown = times(chapter)
    grade(chapter)
    assert times(chapter) == shown, "nothing new, nothing written"

    way.write_text("# %% right: adds\n")
    with pytest.raises(CourseError, match=r"other answers of 98_things can't be read: twice\.py: .* needs a kind"):
        grade(chapter)
    settings.unlink()
    grade(chapter)
    assert "author's answer" not in page_of(chapter, "ada").read_text()
    assert len((chapter.root / "diary.txt").read_text().split()) == 2, "nobody is judged anew"


# ---------------------------------------------------------------- handed in again


def test_who_hands_in_again_after_the_teacher_gave_points_or_comments(tmp_path: Path):
    chapter = classroom.course(tmp_path)
    for student in ("ada", "bob", "cyd"):
        hand_in(chapter, student, twice="no", guess="half")
    (folder_of(chapter, "ada") / "timestamp.txt").write_text("2026-01-31 16:30:00 UTC")
    assert grade(chapter).overview.notes == ()
    with look(chapter) as book:
        book.find_grade("twice-check", "things", NAME, "ada").manual_score = 1.25
        book.find_comment("twice", "things", NAME, "bob").manual_comment = "Think of \u22121."
        book.db.commit()
    assert grade(chapter).overview.notes == ()
    (folder_of(chapter, "ada") / "timestamp.txt").unlink()
    for student in ("ada", "bob", "cyd"):
        hand_in(chapter, student, twice="right", guess="half")
    (note, times), (next_time, _) = grade(chapter).overview.notes, grade(chapter).overview.notes
    assert times == "1 student has no timestamp.txt any more: ada. The time from the one before still counts."
    assert note.startswith(
        "Since you gave points or comments by hand, the answers of 2 students have changed: ada, bob"
    )
    assert "the answers of 1 student have changed: ada. What you gave still counts" in next_time
    with look(chapter) as book:
        assert {student.id: student.score for student in book.students} == {"ada": 2.75, "bob": 3.5, "cyd": 3.5}
        assert book.find_submission(NAME, "ada").timestamp == datetime(2026, 1, 31, 16, 30)
    assert "Think of \u22121." in page_of(chapter, "bob").read_text(encoding="utf-8")
    assert "Your teacher gave 1.25 of 2 points. The checks gave 2." in Page(page_of(chapter, "ada").read_text()).text
