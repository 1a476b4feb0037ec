"""`torchkata report`: a verdict in doubt, told so that somebody else can judge it, without the learner's name."""

from __future__ import annotations

import getpass
from email.message import Message
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.tools.learning.small_course import learner_writes, make_course
from torchkata.base.chapter import Exercise
from torchkata.cli import app
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.report import report, where_to_send
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place


@pytest.fixture
def chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chapter:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "ada")
    monkeypatch.setattr(getpass, "getuser", lambda: "lovelace")
    root = tmp_path / "ada" / "course"
    root.mkdir(parents=True)
    made = make_course(root)
    fill_workbook(Place(root))
    return made


ANSWER = """\
def twice(x):  # by lovelace, in C:\\Users\\ada\\notes
    raise ValueError(open.__doc__ and "/home/ada/data, HERE/lovelaces/ada")"""


def test_a_report_has_all_and_names_nobody(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    learner_writes(chapter, twice=ANSWER.replace("HERE", str(chapter.root)))
    done = CliRunner().invoke(app, ["report", "twice"])
    assert done.exit_code == 0, done.output
    [path] = (chapter.root / "workbook" / "reports").iterdir()
    text = path.read_text()
    for part in ("0 of 2 points", "def twice(x):  # by USER, in ~\\notes", "Your code raised ValueError", "asked:"):
        assert part in text
    assert 'raise ValueError(open.__doc__ and "~/data, COURSE/lovelaces/ada")' in text
    for part in ("torchkata 0", "torch 2", "Python 3", "release of 98_things: ", "test: a number"):
        assert part in text
    assert str(chapter.root.parent) not in text and "lovelace," not in text
    assert text.strip() in done.stdout
    assert f"{where_to_send()}." in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("urls", "where"),
    [
        ("Issues, https://github.com/a/b/issues", "at https://github.com/a/b/issues/new?template=verdict.yml"),
        ("Homepage, https://example.org", "send it to whoever gave you the course"),
    ],
)
def test_a_report_says_where_it_goes(monkeypatch: pytest.MonkeyPatch, urls: str, where: str):
    said = Message()
    said["Project-URL"] = urls
    monkeypatch.setattr("torchkata.tools.learning.report.metadata", lambda package: said)
    assert where_to_send().endswith(where)


def test_a_name_that_is_a_word_of_the_chapter_stays(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "twice")
    text, _ = report(chapter, chapter.exercises[0])
    assert "def twice(x):" in text


def test_no_report_is_overwritten(chapter: Chapter):
    first, second = (report(chapter, chapter.exercises[2])[1] for _ in range(2))
    assert first != second and first.read_text() == second.read_text()
    with pytest.raises(CourseError, match="holds no gone any more"):
        report(chapter, Exercise("gone"))
