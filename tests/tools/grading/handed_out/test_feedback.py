"""The page that a student gets back, and what the teacher reads: marks.csv and the records."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.tools.grading import classroom
from tests.tools.grading.fake_grading import NAME, fake_record
from torchkata.tools.grading.handed_out import pages
from torchkata.tools.grading.handed_out.pages import feedback_page, refusal_page
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import NotGradable, Record, Submission, SubmittedCell

SCRIPT = "</code></pre></section><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;"


class Page(HTMLParser):
    """The tags and the text of a page; fails on a tag that does not close."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def graded(student: str = "ada", **answers: str) -> tuple[Record, Submission]:
    submission = Submission(student, NAME, [SubmittedCell("answer", e, s) for e, s in answers.items()])
    return fake_record(submission), submission


def page_of(record: Record, submission: Submission) -> Page:
    return Page(feedback_page("Three things", record, submission))


def test_code_verdicts_and_points_are_shown():
    page = page_of(*graded(twice="def twice(x):\n    return right", guess="half", thrice="no"))
    for words in (
        *("Three things", "ada", "3.5 of 6 points", "Exercise 98 · twice", "2 of 2", "1.5 of 3", "0 of 1"),
        *("def twice(x):\n    return right", "Solved.", "Half of it is right.", "This half: a", "Not so: no"),
    ):
        assert words in page.text


def test_the_page_names_what_was_left_out_and_what_stopped_and_nothing_of_the_teachers():
    record, submission = graded(twice="no")
    stopped = "A cell of the learner's own ('import x') stopped with ImportError (line 1)."
    notes = ["Other files are ignored: my_utils.py.", stopped, "Look at this line (an own cell): import ctypes", "hm"]
    page = page_of(replace(record, notes=notes), submission)
    assert "About your notebook" in page.text and "Other files are ignored: my_utils.py." in page.text
    assert "A cell of your own ('import x') stopped with ImportError (line 1)." in page.text
    assert "ctypes" not in page.text and "hm" not in page.text
    assert "About your notebook" not in page_of(record, submission).text


def test_everything_from_a_learner_is_escaped():
    record, submission = graded(SCRIPT, twice=SCRIPT, guess=f"half {SCRIPT}")
    hostile = [replace(mark, verdict=f"{SCRIPT}\n{SCRIPT}") for mark in record.marks]
    page = page_of(replace(record, marks=hostile, notes=[SCRIPT]), submission)
    assert page.text.count(SCRIPT) == 1 + 1 + 3 + 2 + 2 * 3  # title, name, summary, two answers, three verdicts
    assert "script" not in page.tags and "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_a_refusal_says_why_and_is_no_zero():
    text = refusal_page("Three things", NotGradable("ada", NAME, f"The notebook is an empty file. {SCRIPT}"))
    page = Page(text)
    assert "could not be graded" in page.text and "The notebook is an empty file." in page.text
    assert "No points were given or taken away" in page.text and SCRIPT in page.text
    assert "script" not in page.tags and "0 of" not in page.text


def test_no_test_is_shown(tmp_path: Path):
    """The page knows the record and the submission only: nothing of a check cell can come into it."""
    chapter = classroom.unknown_course(tmp_path)
    checks = [cell.source for cell in chapter.master.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    lines = {line.strip() for check in checks for line in check.splitlines() if len(line.strip()) > 8}
    page = page_of(*graded(twice="no", guess="half"))
    assert len(lines) > 8
    assert not [line for line in lines if line in page.text]


def test_the_page_needs_nothing_else_and_follows_the_systems_colours():
    text = feedback_page("Three things", *graded(twice="no"))
    assert "color-scheme: light dark" in text and "default-src 'none'" in text
    assert "http:" not in text and "https:" not in text and "src=" not in text.replace("default-src", "")


def test_long_answers_are_cut():
    record, submission = graded(twice="#" * 10 * pages.MAX_SHOWN)
    record = replace(record, marks=[replace(mark, verdict="!" * 10 * pages.MAX_SHOWN) for mark in record.marks])
    assert len(feedback_page("Three things", record, submission)) < 6 * pages.MAX_SHOWN


def test_null_bytes_and_directions_do_no_harm():
    page = page_of(*graded(twice="a\x00b \u202e c"))
    assert "b \u202e c" in page.text


# ---------------------------------------------------------------- records and CSV


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "out" / "here")


def test_records_come_back(results: Results):
    record, _ = graded(twice="right", guess="half")
    refusal = NotGradable("bob", NAME, "The notebook is an empty file.", "digest")
    results.keep(record)
    results.keep(refusal)
    assert results.find("ada") == record and results.find("bob") == refusal and results.find("eve") is None
    assert list(results.all()) == [record, refusal]
    results.keep(replace(refusal, student="ada"))
    assert isinstance(results.find("ada"), NotGradable)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"student": "ada"}', '{"reason": 1, "x": 2}', '{"marks": 7}']
)
def test_damaged_records_are_none(results: Results, text: str):
    path = results.folder / "records" / "ada.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert results.find("ada") is None and list(results.all()) == []


def test_the_csv_has_a_row_for_each_student_and_exercise(results: Results):
    results.keep(graded("ada", twice="right", guess="half", thrice='"no", he said')[0])
    results.keep(NotGradable("bob", NAME, "The notebook is an empty file."))
    results.write_csv(["ada", "bob"])
    rows = list(csv.DictReader(results.csv.open(newline="")))
    assert [(row["student"], row["exercise"], row["points"], row["of"], row["state"]) for row in rows] == [
        ("ada", "twice", "2", "2", "solved"),
        ("ada", "guess", "1.5", "3", "partly"),
        ("ada", "thrice", "0", "1", "wrong"),
        ("bob", "", "", "", "not graded"),
    ]
    assert rows[1]["verdict"] == "Half of it is right."
    assert rows[2]["verdict"] == 'Not so: "no", he said'
    assert rows[3]["verdict"] == "The notebook is an empty file."


@pytest.mark.parametrize("formula", ["=HYPERLINK(1)", "+1", "-1", "@x", "\t=1", "\r=1", "\x00=1"])
def test_no_formula_reaches_a_spreadsheet(results: Results, formula: str):
    record, _ = graded("ada")
    results.keep(replace(record, marks=[replace(record.marks[0], verdict=formula)]))
    results.write_csv(["ada"])
    [row] = csv.DictReader(results.csv.open(newline=""))
    assert row["verdict"] == "'" + formula.strip("\t\r\x00")


def test_the_record_is_json_for_other_programs(results: Results):
    results.keep(graded("ada", twice="right")[0])
    data = json.loads((results.folder / "records" / "ada.json").read_text())
    assert (data["student"], data["points"], data["of"], data["sandboxed"]) == ("ada", 2.0, 6.0, True)
    assert data["marks"][0]["checks"] == {"twice-check": 2.0}
