"""One exercise graded anew after its check was mended: whose marks change is said first, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.tools.grading import classroom
from tests.tools.grading.classroom import hand_in
from tests.tools.grading.fake_grading import NAME, fake_grader
from tests.tools.grading.test_command import RIGHT
from torchkata import cli
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.desk import results_of
from torchkata.tools.grading.records import Record, Submission, SubmittedCell
from torchkata.tools.grading.regrading import Regrading, only, regrade

MENDED = ("observe(twice, -1).returns(-2)", "observe(twice, 5).returns(10)")  # abs(x) * 2 becomes right


@pytest.fixture
def chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chapter:
    monkeypatch.chdir(tmp_path)
    return classroom.course(tmp_path)


@pytest.fixture
def grader(tmp_path: Path):
    return partial(fake_grader, tmp_path / "diary.txt")


def mend(chapter: Chapter, before: str = MENDED[0], after: str = MENDED[1]) -> None:
    text = chapter.solution.read_text()
    assert before in text
    chapter.solution.write_text(text.replace(before, after))
    chapter.__dict__.pop("master", None)


def records(chapter: Chapter) -> dict[str, Record]:
    return {one.student: one for one in results_of(chapter).all()}


def files(chapter: Chapter) -> dict[str, bytes]:
    places = ("graded", "feedback", "autograded", "gradebook.db")
    paths = [path for place in places for path in [chapter.root / place, *chapter.root.glob(f"{place}/**/*")]]
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def worse(chapter: Chapter, student: str) -> None:
    """As if the old check had given no points for twice."""
    results, record = results_of(chapter), records(chapter)[student]
    first, *others = record.marks
    lost = replace(first, points=0.0, checks={"twice-check": 0.0}, verdict="No.", state="wrong")
    results.keep(replace(record, marks=[lost, *others], points=record.points - first.points))


def test_points_change_in_this_exercise_alone(chapter: Chapter, grader):
    hand_in(chapter, "ada", twice="right", guess="half", thrice="right")
    hand_in(chapter, "bob", twice="right")
    grade_chapter(chapter, grader)
    worse(chapter, "ada")
    mend(chapter)
    found = regrade(Chapter(chapter.place, NAME), "twice", grader, lambda found: True)
    assert [(one.student, one.before.points, one.after.points) for one in found.changes] == [("ada", 0.0, 2.0)]
    assert len(found.marks) == 2 and found.left_out == {} and found.others_changed == []
    ada = records(chapter)["ada"]
    assert [mark.points for mark in ada.marks] == [2.0, 1.5, 1.0] and ada.points == 4.5
    assert "4.5 of 6 points" in (chapter.root / "feedback" / "ada" / NAME / "things.html").read_text()
    assert not grade_chapter(Chapter(chapter.place, NAME), grader).graded  # they speak of the mended chapter


def test_a_teacher_who_says_no_keeps_everything(chapter: Chapter, grader):
    hand_in(chapter, "ada", twice="right")
    grade_chapter(chapter, grader)
    worse(chapter, "ada")
    before = files(chapter)
    found = regrade(chapter, "twice", grader, lambda found: False)
    assert len(found.changes) == 1 and found.overview is None and files(chapter) == before


def test_what_was_handed_in_anew_is_left_to_a_whole_grading(chapter: Chapter, grader):
    for student in ("ada", "bob", "cyd"):
        hand_in(chapter, student, twice="right")
    grade_chapter(chapter, grader)
    hand_in(chapter, "bob", twice="right", guess="right")
    hand_in(chapter, "cyd", b"{")
    found = regrade(chapter, "twice", grader, lambda found: True)
    assert [one.student for one in found.marks] == ["ada"] and sorted(found.left_out) == ["bob", "cyd"]
    assert {run.student for run in grade_chapter(chapter, grader).graded} == {"bob"}


def test_another_changed_check_is_told_and_graded_later(chapter: Chapter, grader):
    hand_in(chapter, "ada", twice="right")
    grade_chapter(chapter, grader)
    mend(chapter)
    mend(chapter, "observe(thrice, 4).returns(12)", "observe(thrice, 5).returns(15)")
    found = regrade(Chapter(chapter.place, NAME), "twice", grader, lambda found: True)
    assert found.others_changed == ["thrice"]
    assert len(grade_chapter(Chapter(chapter.place, NAME), grader).graded) == 1


def test_it_runs_what_stands_before_and_judges_the_one():
    cells = [
        SubmittedCell("answer", "twice", "a"),
        SubmittedCell("demo", None, "b"),
        SubmittedCell("answer", "guess", "c"),
        SubmittedCell("answer", "thrice", "d"),
    ]
    taken = only("guess", Submission("ada", NAME, cells)).cells
    assert [(cell.kind, cell.exercise) for cell in taken] == [("own", None), ("demo", None), ("answer", "guess")]
    cells[2] = replace(cells[2], later={"guess-check": 1})
    assert len(only("guess", Submission("ada", NAME, cells)).cells) == 4


def test_errors(chapter: Chapter, grader):
    def agree(found: Regrading) -> bool:
        return True

    with pytest.raises(CourseError, match=r"no exercise 'once'\. It has: twice, guess, thrice"):
        regrade(chapter, "once", grader, agree)
    with pytest.raises(CourseError, match="Nothing of 98_things is graded yet"):
        regrade(chapter, "twice", grader, agree)


@pytest.mark.parametrize(("answer", "points"), [("y\n", 6.0), ("n\n", 4.0)])
def test_the_command_asks(chapter: Chapter, answer: str, points: float):
    hand_in(chapter, "ada", **RIGHT | {"twice": "def twice(x):\n    return abs(x) * 2"})
    run = partial(CliRunner().invoke, cli.app)
    how = ["--jobs", "1", "--no-sandbox"]
    assert run(["grade", "98", *how]).exit_code == 0
    mend(chapter)
    result = run(["regrade", "98", "twice", *how], input=answer)
    assert "twice: other points for 1, the same for 0." in result.output, result.output
    assert "Write these marks?" in result.output
    assert records(chapter)["ada"].points == points
    assert result.exit_code == (0 if points == 6.0 else 1)
