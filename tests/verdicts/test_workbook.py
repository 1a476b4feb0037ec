"""In a learner's own workbook a check cell runs its hidden tests too, withholds nothing, and tells points and what is
next; elsewhere it does neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.notebooks.running import run_cell
from tests.tools.learning.small_course import SOURCE, as_editors_leave_it, make_course, publish
from torchkata.base.chapter import exercise_of
from torchkata.base.marks import without_hidden_tests
from torchkata.base.remembering import Remembered, digest_of, read_verdicts, remember
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.course import Chapter, chapters, read_unchecked, side_notebooks
from torchkata.tools.placing import here
from torchkata.verdicts import NotSolvedYet, WrongAnswer, at_hand, keeping
from torchkata.verdicts.originals import answers_elsewhere

TWO_PARTS = SOURCE.replace(
    '# %% check="thrice" points=1',
    '''# %% check="thrice" points=2
"""Thrice, once more."""
with check("thrice") as test:
    test("another number")
    observe(thrice, 5).returns(15)

    ### BEGIN HIDDEN TESTS
    def story(answer, x):
        return answer(answer(x))

    for n in (7, 0):
        test.hidden(f"twice, for {n}")
        observe_scenario(story, thrice, n).returns(9 * n)
    ### END HIDDEN TESTS

# %% check="thrice" points=1''',
).replace("observe, observe_value", "observe, observe_scenario, observe_value")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    chapter = make_course(tmp_path_factory.mktemp("course"))
    publish(chapter, TWO_PARTS)
    return chapter


@pytest.fixture
def workbook(course: Chapter, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the workbook; no verdict is remembered in it."""
    folder = course.root / "workbook"
    verdicts = folder / ".torchkata" / "verdicts"
    verdicts.mkdir(parents=True, exist_ok=True)
    for path in verdicts.iterdir():
        path.unlink()
    monkeypatch.setattr(at_hand, "WORKBOOK", folder)
    return folder


def cells_of(chapter: Chapter, exercise: str) -> list[str]:
    """The check cells of an exercise as they are released."""
    cells = [cell for cell in read_unchecked(chapter.release).cells if exercise_of(cell) == exercise]
    return [cell.source for cell in cells[1:]]


@pytest.fixture
def run(course: Chapter, workbook: Path) -> Callable[..., None]:
    """Run an answer and the check cell of its exercise, as it is released."""

    def run_check(exercise: str, answer: str, part: int = 1, check: str = "") -> None:
        space = {"__name__": "__main__"}
        setup = next(cell.source for cell in read_unchecked(course.release).cells if cell.cell_type == "code")
        run_cell(setup, space, "<setup>")
        run_cell(answer, space, "<answer>")
        run_cell(check or cells_of(course, exercise)[part - 1], space, "<check>")

    return run_check


def test_a_tick_means_that_the_hidden_tests_have_passed_too(run, capsys):
    run("twice", "def twice(x):\n    return 2 * x")
    assert capsys.readouterr().out == "✓ twice: 2 tests passed, 2 of 2 points.\n  Next: guess\n"


def test_a_hidden_test_withholds_nothing_in_ones_own_workbook(run, capsys):
    with pytest.raises(WrongAnswer) as caught:
        run("twice", "def twice(x):\n    print('x is', x)\n    return abs(x) * 2")
    assert caught.value.lines[0] == "✗ twice, hidden test: a negative number"
    shown = "\n".join(caught.value.lines)
    assert "twice(-1)" in shown and "expected -2, got 2" in shown
    assert capsys.readouterr().out.splitlines() == ["x is 4", "x is -1"]


def test_an_exception_in_a_hidden_test_is_told_with_message_and_line(run):
    with pytest.raises(WrongAnswer) as caught:
        run("twice", "def twice(x):\n    if x < 0:\n        raise ValueError('too small')\n    return 2 * x")
    shown = "\n".join(caught.value.lines)
    assert "ValueError: too small" in shown and "line 3 of your code, in twice:  raise ValueError('too small')" in shown


def test_hidden_stories_run_in_the_cells_own_namespace(run, capsys):
    run("thrice", "def thrice(x):\n    return 3 * x")
    assert "3 tests passed" in capsys.readouterr().out
    with pytest.raises(WrongAnswer) as caught:
        run("thrice", "def thrice(x):\n    return 15 // (x == 5)")
    assert caught.value.lines[0] == "✗ thrice, hidden test: twice, for 7"
    frames = [line for line in caught.value.lines if "of your code" in line]
    assert frames == ["    line 2 of your code, in thrice:  return 15 // (x == 5)"], "no line of the check's own"


def test_points_and_parts(run, capsys):
    right = "def thrice(x):\n    return 3 * x"
    run("thrice", right, part=1)
    assert capsys.readouterr().out == "✓ thrice, part 1 of 2: 3 tests passed, 2 of 3 points.\n"
    run("thrice", right, part=2)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "✓ thrice, part 2 of 2: 1 test passed, 3 of 3 points."
    assert told[1].startswith("  Next: "), "from the beginning: nothing comes after it"


def test_other_answers_are_offered_when_all_parts_are_solved(run, monkeypatch):
    offered = []
    monkeypatch.setattr(keeping, "_others", lambda own: offered.append(own.exercise.id) or ())
    right = "def thrice(x):\n    return 3 * x"
    run("thrice", right, part=1)
    assert offered == []
    run("thrice", right, part=2)
    assert offered == ["thrice"]


def test_points_of_predictions(run, capsys):
    run("guess", 'answers = {"a": 1, "b": ...}')
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("✗ b = ...: ") and told[1] == "guess: 1 of 2 items are right, 1.5 of 3 points."
    run("guess", 'answers = {"a": 1, "b": 2}')
    assert capsys.readouterr().out.startswith("✓ guess: 2 of 2 items are right, 3 of 3 points.\n  Next: ")


def test_the_last_one_has_no_next(run, course, workbook, capsys):
    for exercise in ("guess", "thrice"):
        for source in cells_of(course, exercise):
            remember(workbook, Remembered(exercise, digest_of(source), "solved"))
    run("twice", "def twice(x):\n    return 2 * x")
    assert "All exercises of this notebook are solved." in capsys.readouterr().out


def test_a_cell_that_is_not_the_courses_gets_no_tick_and_is_not_remembered(run, course, workbook, capsys):
    edited = cells_of(course, "twice")[0] + "\n# mine"
    run("twice", "def twice(x):\n    return 2 * x", check=edited)
    told = capsys.readouterr().out
    assert told.startswith("twice: 1 test passed.\n  Hidden tests were not run: ") and "✓" not in told
    assert read_verdicts(workbook) == {}


def test_an_editors_layout_changes_no_check_cell(run, course, workbook, capsys):
    [source] = cells_of(course, "twice")
    with pytest.raises(WrongAnswer) as caught:
        run("twice", "def twice(x):\n    return abs(x) * 2", check=as_editors_leave_it(source))
    assert caught.value.lines[0] == "✗ twice, hidden test: a negative number"
    run("twice", "def twice(x):\n    return 2 * x", check=as_editors_leave_it(source))
    assert capsys.readouterr().out.startswith("✓ twice: 2 tests passed, 2 of 2 points.")
    assert read_verdicts(workbook).keys() == {("twice", digest_of(source))}, "as the released cell"


def test_hidden_tests_run_once_where_the_cell_holds_them_itself(run, course, workbook, capsys):
    whole = next(cell.source for cell in course.master.cells if cell.get("id") == "twice-check")
    assert "HIDDEN" in whole
    run("twice", "def twice(x):\n    return 2 * x", check=whole)
    assert capsys.readouterr().out.startswith("✓ twice: 2 tests passed, 2 of 2 points.")
    [kept] = read_verdicts(workbook).values()
    assert kept.hidden and kept.digest == digest_of(cells_of(course, "twice")[0])
    with pytest.raises(WrongAnswer) as caught:
        run("twice", "def twice(x):\n    return abs(x) * 2", check=whole)
    assert "expected -2, got 2" in str(caught.value)


def test_where_submissions_are_graded_nothing_changes(run, workbook, capsys):
    right, wrong = "def twice(x):\n    return 2 * x", "def twice(x):\n    return abs(x) * 2"
    with answers_elsewhere():
        run("twice", right)
        assert capsys.readouterr().out == "✓ twice: 1 test passed.\n"
        hidden = 'with check("twice") as test:\n    test.hidden("negative")\n    observe(twice, -1).returns(-2)'
        with pytest.raises(WrongAnswer, match="the values differ") as caught:
            run("twice", wrong, check=hidden)
    assert not any("asked" in line for line in caught.value.lines)
    assert read_verdicts(workbook) == {}


def test_where_the_course_is_not_at_hand_nothing_changes(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "workbook" / ".torchkata").mkdir(parents=True)
    monkeypatch.setattr(at_hand, "WORKBOOK", tmp_path / "workbook")
    run("twice", "def twice(x):\n    return abs(x) * 2")
    assert capsys.readouterr().out == "✓ twice: 1 test passed.\n"


def test_a_stub_is_open(run, workbook):
    with pytest.raises(NotSolvedYet):
        run("twice", "def twice(x):\n    raise NotImplementedError")
    assert [verdict.state for verdict in read_verdicts(workbook).values()] == ["open"]


def test_damaged_solutions_count_as_none(tmp_path, monkeypatch):
    monkeypatch.setattr(at_hand, "WORKBOOK", tmp_path / "workbook")
    path = tmp_path / "solutions" / "98_things" / "things.ipynb"
    path.parent.mkdir(parents=True)
    for text in ("", "{", '"grade_id": "x"', '{"cells": [{"source": 3, "grade_id": "x"}]}', '["grade_id": "x"]'):
        path.write_text(text)
        at_hand._notebook_with.cache_clear()
        assert at_hand.own_check("x", "0") is None


def test_solutions_with_helpers_that_cannot_be_read_count_as_none(tmp_path, monkeypatch):
    monkeypatch.setattr(at_hand, "WORKBOOK", tmp_path / "workbook")
    path = tmp_path / "solutions" / "98_things" / "things.ipynb"
    path.parent.mkdir(parents=True)
    kinds = {"x": {"solution": True}, "x-helpers": {}, "x-check": {"grade": True, "points": 1}}
    cells = [
        {"cell_type": "code", "source": "print(1)", "metadata": {"nbgrader": kind | {"grade_id": name}}}
        for name, kind in kinds.items()
    ]
    path.write_text(json.dumps({"cells": cells}))
    at_hand._notebook_with.cache_clear()
    assert at_hand.own_check("x", "0") is None


@pytest.mark.parametrize("chapter", [*chapters(here()), *side_notebooks(here())], ids=lambda chapter: chapter.name)
def test_every_released_check_cell_is_found_with_its_hidden_tests(chapter: Chapter):
    own = at_hand._exercises(chapter.solution, 0)
    found = {(one.id, check.digest): check for one in own for check in one.checks}
    released = [
        cell
        for cell in whole_checks(read_unchecked(chapter.release).cells)
        if cell.metadata.get("nbgrader", {}).get("grade")
    ]
    masters = {cell.id: cell for cell in whole_checks(read_unchecked(chapter.solution).cells)}
    for cell in released:
        check = found[exercise_of(cell), digest_of(cell.source)]
        assert check.points == cell.metadata.nbgrader.points
        source = masters[cell.id].source
        assert bool(check.hidden_tests) is (source != without_hidden_tests(source))
        compile(check.hidden_tests, "<hidden>", "exec")
        for number, line in enumerate(check.hidden_tests.splitlines()):
            assert line.strip() == source.splitlines()[number].strip() or not line.strip()
