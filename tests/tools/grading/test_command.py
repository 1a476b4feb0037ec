"""`torchkata grade` as a teacher runs it: the real check cells on real answers, what is printed, exit codes."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from tests.tools.grading import classroom
from tests.tools.grading.classroom import hand_in
from tests.tools.grading.fake_grading import NAME
from torchkata import cli
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError

RIGHT = {
    "twice": "def twice(x):\n    return x + x",
    "guess": 'answers = {"a": 1, "b": 2}',
    "thrice": "def thrice(x): return 3 * x",
}
NO_BUBBLEWRAP = "bubblewrap is not installed: apt-get install bubblewrap"


@pytest.fixture
def chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chapter:
    monkeypatch.chdir(tmp_path)
    return classroom.course(tmp_path)


def grade(*arguments: str):
    return CliRunner().invoke(cli.app, ["grade", "98", "--jobs", "1", *arguments])


def grade_one(submitted: Path, *arguments: str):
    file, *others = arguments
    given = ["grade", "98", "--no-sandbox", "--one", str(submitted), "--json", file, *others]
    return CliRunner().invoke(cli.app, given)


def scores(chapter: Chapter) -> dict[str, float]:
    with Gradebook(f"sqlite:///{chapter.root / 'gradebook.db'}", "torchkata") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(NAME)}


def test_without_a_sandbox(chapter: Chapter):
    hand_in(chapter, "ada", **RIGHT)
    hand_in(
        chapter,
        "bob",
        **RIGHT | {"twice": "def twice(x):\n    return abs(x) * 2", "guess": 'answers = {"a": 1, "b": 3}'},
    )
    hand_in(chapter, "cyd")
    result = grade("--no-sandbox")
    assert result.exit_code == 0, result.output
    assert "3 graded (3 now, 0 before and unchanged), 0 not gradable, 0 cut off." in result.output
    assert "3 of them without a sandbox" in result.output
    assert scores(chapter) == {"ada": 6.0, "bob": 2.5, "cyd": 0.0}
    rows = list(csv.DictReader((chapter.root / "graded" / NAME / "marks.csv").open(newline="")))
    assert [(r["exercise"], r["points"], r["state"]) for r in rows if r["student"] == "bob"] == [
        ("twice", "0", "wrong"),
        ("guess", "1.5", "partly"),
        ("thrice", "1", "solved"),
    ]
    page = (chapter.root / "feedback" / "bob" / NAME / "things.html").read_text()
    assert "hidden test: a negative number" in page  # its idea; not its data
    assert "observe(twice, -1)" not in page and "returns(-2)" not in page
    assert "b = 3: One too many." in page
    for words in ("most frequent mistakes", "1 of 3", "2 of 3", "1 × b = 3: One too many."):
        assert words in result.output
    overview = (chapter.root / "graded" / NAME / "overview.html").read_text()
    assert "One too many." in overview and "observe(twice" not in overview and "returns(-2)" not in overview
    assert "3 before and unchanged" in grade("--no-sandbox").output


def test_one_notebook_for_a_system_that_hands_out_its_own_marks(chapter: Chapter, tmp_path: Path):
    wrong = RIGHT | {"twice": "def twice(x):\n    return abs(x) * 2", "guess": 'answers = {"a": 1, "b": 3}'}
    path = hand_in(chapter, "bob", **wrong)
    (path.parent / "notes.txt").touch()
    (chapter.root / "gradebook.db").unlink()
    result = grade_one(path.parent, "results.json")
    assert result.exit_code == 0 and "2.5 of 6 points: results.json" in result.output, result.output
    found = json.loads(Path("results.json").read_text())
    twice, guess, thrice, teachers = found["tests"]
    assert found["score"] == 2.5 and [one["score"] for one in (twice, guess, thrice)] == [0, 1.5, 1]
    assert [one["max_score"] for one in (twice, guess, thrice)] == [2, 3, 1] and thrice["output"] == "Solved."
    assert "hidden test: a negative number" in twice["output"] and "One too many." in guess["output"]
    assert "returns(-2)" not in json.dumps(found) and {one["visibility"] for one in (twice, guess, thrice)} == {
        "visible"
    }
    assert "notes.txt" in teachers["output"] and teachers["visibility"] == "hidden" and "score" not in teachers
    assert not (chapter.root / "gradebook.db").exists() and not (chapter.root / "feedback").exists()

    result = grade_one(path, "results.json", "--for", "prairielearn")
    found = json.loads(Path("results.json").read_text())
    assert found["gradable"] and found["score"] == pytest.approx(2.5 / 6) and len(found["tests"]) == 3

    (tmp_path / "empty.ipynb").touch()
    for system, words in (("gradescope", "output"), ("prairielearn", "message")):
        result = grade_one(tmp_path / "empty.ipynb", "results.json", "--for", system)
        found = json.loads(Path("results.json").read_text())
        assert result.exit_code == 0 and found[words].startswith("Not graded: The notebook is an empty file")
        assert "score" in found or found["gradable"] is False


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--one", "a.ipynb"], "belong together"),
        (["--json", "a.json"], "belong together"),
        (["--one", "a.ipynb", "--json", "a.json", "--force"], "only --json, --for and --no-sandbox"),
    ],
)
def test_options_of_one_notebook_that_do_not_fit(chapter: Chapter, arguments: list[str], words: str):
    result = CliRunner().invoke(cli.app, ["grade", "98", *arguments])
    assert result.exit_code == 2 and words in " ".join(result.output.split())


@pytest.mark.skipif(shutil.which("bwrap") is None, reason=NO_BUBBLEWRAP)
def test_with_the_sandbox(chapter: Chapter):
    hand_in(chapter, "ada", **RIGHT)
    hand_in(chapter, "eve", b"{")
    result = grade()
    assert result.exit_code == 1, result.output
    assert "eve: not graded. The notebook can't be read" in result.output
    assert "without a sandbox" not in result.output
    assert scores(chapter) == {"ada": 6.0}


def test_only_some_students_and_another_folder(chapter: Chapter):
    hand_in(chapter, "ada", **RIGHT)
    hand_in(chapter, "bob", **RIGHT)
    (chapter.root / "submitted" / "bob" / NAME / "torch.py").touch()
    result = grade("--no-sandbox", "--students", "bob,", "--out", "elsewhere")
    assert result.exit_code == 0 and "1 graded (1 now" in result.output
    assert "bob: Other files are ignored: torch.py." in result.output
    assert scores(chapter) == {"bob": 6.0} and Path("elsewhere", NAME, "marks.csv").is_file()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["grade", "97"], "There is no chapter '97'"),
        (["grade", "98"], "Put the submissions into submitted/STUDENT/CHAPTER"),
        (["grade", "98", "--students", "joe"], "submitted/ holds no folder of joe"),
        (["grade", "98", "--one", "no.ipynb", "--json", "a.json", "--no-sandbox"], "There is no notebook no.ipynb"),
    ],
)
def test_errors_are_one_message_and_exit_code_2(chapter: Chapter, arguments, words, monkeypatch, capsys):
    if "joe" in arguments:
        hand_in(chapter, "ada")
    monkeypatch.setattr(sys, "argv", ["torchkata", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said


def test_no_control_characters_reach_the_terminal(chapter: Chapter):
    folder = hand_in(chapter, "ada", **RIGHT).parent
    (folder / "a\x1b[31mb").touch()
    hand_in(chapter, "b\x1b[31mob", **RIGHT)
    result = grade("--no-sandbox")
    assert result.exit_code == 1 and "\x1b[31m" not in result.output
    assert "b?[31mob: not graded." in result.output


def test_stopping_it_is_said(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    def stopped(*arguments):
        raise KeyboardInterrupt

    hand_in(chapter, "ada")
    monkeypatch.setattr("torchkata.tools.grading.batch.students_of", stopped)
    result = grade("--no-sandbox")
    assert isinstance(result.exception, CourseError) and "goes on from there" in str(result.exception)


def test_lines_that_reach_for_the_grader_are_shown_first(chapter: Chapter):
    (hand_in(chapter, "ada", **RIGHT).parent / "notes.txt").touch()
    hand_in(chapter, "bob", **RIGHT | {"twice": "import ctypes\n" + RIGHT["twice"]})
    result = grade("--no-sandbox")
    assert result.exit_code == 0 and scores(chapter) == {"ada": 6.0, "bob": 6.0}
    shown = [line for line in result.output.splitlines() if line.startswith(("ada:", "bob:"))]
    assert shown == [
        "bob: Look at this line (answer to twice): import ctypes",
        "ada: Other files are ignored: notes.txt.",
    ]
    for place in ("feedback/bob", "graded/98_things/marks.csv"):
        page = chapter.root / place
        texts = [page] if page.is_file() else page.rglob("*.html")
        assert not [text for text in texts if "Look at this" in text.read_text()]
    assert "Look at this line" in next((chapter.root / "autograded" / "bob").rglob("*.ipynb")).read_text()


LOOP = """def twice(x):
    total = 0
    for step in range(2):
        if step < 2 and x != 0:
            total = total + x * 1
        else:
            total = total + 0
    return total
"""


def test_near_copies_are_listed_and_nothing_is_written(chapter: Chapter):
    hand_in(chapter, "ada", twice=LOOP)
    hand_in(chapter, "bob", twice=LOOP.replace("total", "my_sum").replace("step", "k"))
    hand_in(chapter, "cyd", **RIGHT)
    hand_in(chapter, "eve", b"{")
    before = sorted(chapter.root.rglob("*"))
    result = CliRunner().invoke(cli.app, ["similar", "98"])
    assert result.exit_code == 0, result.output
    assert "ada and bob: twice 100%" in result.output and "This is a hint, no proof" in result.output
    assert sorted(chapter.root.rglob("*")) == before and scores(chapter) == {}


def test_the_files_for_an_lms_use_names_and_columns_of_the_class(chapter: Chapter):
    hand_in(chapter, "ada", **RIGHT)
    (chapter.root / "students.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\n")
    (chapter.root / "class.yaml").write_text('moodle:\n  Username: "{student}"\n  "{topic}": "{points}/{of}"\n')
    assert grade("--no-sandbox").exit_code == 0
    folder = chapter.root / "graded" / NAME
    assert (folder / "moodle.csv").read_text() == "Username,things\nada,6/6\n"
    assert '"Lovelace, Ada",,ada,,6\n' in (folder / "canvas.csv").read_text()


def test_settings_that_can_not_be_used_stop_it_before_anything_is_graded(chapter: Chapter):
    hand_in(chapter, "ada", **RIGHT)
    (chapter.root / "class.yaml").write_text("site: here\n")
    result = grade("--no-sandbox")
    assert isinstance(result.exception, CourseError) and not (chapter.root / "graded").exists()
