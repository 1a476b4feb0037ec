"""Marks for an LMS, the teacher's settings for it, and the class's list of students."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.tools.grading import classroom
from tests.tools.grading.fake_grading import NAME
from tests.tools.grading.handed_out.test_gradebook import look, nbgrader, record_of
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.handed_out.gradebook import ChapterBook
from torchkata.tools.grading.handed_out.results import FinalMark, lms_csv, plain
from torchkata.tools.grading.handed_out.roster import read_roster
from torchkata.tools.grading.handed_out.the_class import SETTINGS, about, class_settings

ADA = {"first_name": "Ada", "last_name": "Lovelace", "email": "ada@example.org", "lms_user_id": "17"}
MARKS = [FinalMark("ada", ADA, 3.5, 6.0), FinalMark("bob", {}, 0.0, 6.0)]


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return classroom.course(tmp_path)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_canvas_by_default(chapter: Chapter):
    columns = class_settings(chapter.root).columns["canvas"]
    assert rows(lms_csv("canvas", columns, MARKS, about(chapter))) == [
        ["Student", "ID", "SIS Login ID", "Section", "Three things"],
        ["    Points Possible", "", "", "", "6"],
        ["Lovelace, Ada", "17", "ada", "", "3.5"],
        ["", "", "bob", "", "0"],
    ]


def test_moodle_by_default(chapter: Chapter):
    columns = class_settings(chapter.root).columns["moodle"]
    assert rows(lms_csv("moodle", columns, MARKS, about(chapter))) == [
        ["Username", "Email address", "Three things"],
        ["ada", "ada@example.org", "3.5"],
        ["bob", "", "0"],
    ]


def test_columns_are_the_teachers(chapter: Chapter):
    (chapter.root / SETTINGS).write_text(
        'canvas:\n  ID: "{lms_user_id}"\n  "{topic} (1234)": "{percent} of {number}"\n'
    )
    settings = class_settings(chapter.root)
    assert rows(lms_csv("canvas", settings.columns["canvas"], MARKS[:1], about(chapter)))[::2] == [
        ["ID", "things (1234)"],
        ["17", "58.33 of 98"],
    ]
    assert "Username" in settings.columns["moodle"] and settings.address_of(chapter) is None


def test_the_sites_address(chapter: Chapter):
    (chapter.root / SETTINGS).write_text("site: https://example.org/{chapter}/{topic}.html\n")
    assert class_settings(chapter.root).address_of(chapter) == f"https://example.org/{NAME}/things.html"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("canvas: [", "can't be read"),
        ("- a", "must hold names and values"),
        ("blackboard:\n  a: b", "blackboard is not known"),
        ("canvas:", "canvas needs columns"),
        ('canvas:\n  a: "{mark}"', "{mark} can't be filled in"),
        ('canvas:\n  a: "{points.real}"', "can't be filled in"),
        ('canvas:\n  a: "{points"', "can't be read"),
        ('canvas:\n  "{points}": "a"', "can't be filled in"),
        ("site: example.org", "begins with https"),
        ("other_answers: yes", "other_answers must be a list of chapters, such as [98]"),
        ("other_answers: [98, 07]", "other_answers must be a list of chapters, such as [98]"),
    ],
)
def test_what_can_not_be_used_is_said(chapter: Chapter, text: str, words: str):
    (chapter.root / SETTINGS).write_text(text)
    with pytest.raises(CourseError) as said:
        class_settings(chapter.root)
    assert words in str(said.value) and SETTINGS in str(said.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ValueError: ;=1+1;@SUM(1)", "ValueError: ;'=1+1;'@SUM(1)"),  # where ; stands between cells
        ('a; "=1"', 'a; "\'=1"'),
        ("a,+1", "a,'+1"),
        ("a\t-1", "a -1"),
        ("expected 3, -1; got 2", "expected 3, -1; got 2"),
    ],
)
def test_no_part_of_a_value_becomes_a_formula(value: str, shown: str):
    assert plain(value) == shown


@pytest.mark.parametrize("formula", ["=HYPERLINK(1)", "+1", "@x"])
def test_no_formula_reaches_a_spreadsheet(formula: str):
    text = lms_csv("moodle", {"Name": "{first_name}"}, [FinalMark("ada", {"first_name": formula}, 1.0, 2.0)], {})
    assert rows(text)[1] == [f"'{formula}"]


# ---------------------------------------------------------------- students.csv and the gradebook

STUDENTS = "id,first_name,last_name,email,lms_user_id,group\nada,Ada,Lovelace,ada@example.org,17,b\nzoe,Zoë,,,,\n"


def test_names_are_those_that_nbgrader_imports(chapter: Chapter, tmp_path: Path):
    path = tmp_path / "students.csv"
    path.write_text(STUDENTS, encoding="utf-8-sig")
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada", twice="right"), record_of("bob")])
        book.enter_names(read_roster(path))
        assert book.final_marks()[0] == FinalMark("ada", ADA, 2.0, 6.0)
    ours = names(chapter)
    path.write_text(STUDENTS, encoding="utf-8")
    nbgrader(chapter, "db", "student", "import", str(path))
    assert names(chapter) == ours == {"ada": tuple(ADA.values()), "bob": (None,) * 4, "zoe": ("Zoë", None, None, None)}


def names(chapter: Chapter) -> dict[str, tuple]:
    with look(chapter) as book:
        return {one.id: tuple(getattr(one, name) for name in ADA) for one in book.students}


@pytest.mark.parametrize(
    "content",
    [
        "id,first_name\nada,Ada\nbob,\n",
        "\ufeffid;first_name\r\nada;Ada\r\nbob;\r\n;\r\n",  # Excel in half of Europe
        "sep=;\nid;first_name\nada;Ada\nbob;\n",
        "ID\tFirst name\nada\tAda\n\t\nbob\n",
        'id,"first_name",\nada,Ada,\n,,\nbob,,\nada,Ada,\n',
        "id;first_name\nada;Ada\nbob;\n".encode("utf-16"),  # Excel's Unicode text
    ],
)
def test_lists_as_spreadsheets_write_them(tmp_path: Path, content: str | bytes):
    path = tmp_path / "students.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert {student: said.get("first_name") for student, said in read_roster(path).items()} == {
        "ada": "Ada",
        "bob": None,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no column id"),
        (b"name\nada\n", "no column id. Its first line is: name"),
        (b"id,email\n,a@b\n", "line 2: the id is empty"),
        (b"id\n\xff\n", "UTF-8"),
        (b"id,email\nada,a@b\n\nada,c@d\n", "two things of the student ada, in lines 2 and 4"),
        ("id,email\nJos\u00e9,a@b\nJose\u0301,c@d\n".encode(), "two things of the student"),
        (b"id,last_name\nada,Lovelace, Countess\n", "line 2: there are more cells than columns"),
    ],
)
def test_a_list_that_can_not_be_used_is_said(tmp_path: Path, content: bytes, words: str):
    (tmp_path / "students.csv").write_bytes(content)
    with pytest.raises(CourseError, match=words):
        read_roster(tmp_path / "students.csv")


def test_points_given_by_hand_and_penalties_count(chapter: Chapter):
    with ChapterBook(chapter) as book:
        book.enter([record_of("ada", twice="right", guess="half")])
    with look(chapter) as book:
        book.find_grade("twice-check", "things", NAME, "ada").manual_score = 1.25
        book.find_submission_notebook("things", NAME, "ada").late_submission_penalty = 0.5
        book.db.commit()
    with ChapterBook(chapter) as book:
        assert [(mark.points, mark.of) for mark in book.final_marks()] == [(2.25, 6.0)]
