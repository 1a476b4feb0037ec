"""Every exercise accepts every right answer and rejects every wrong one with the promised words and points; stubs earn
nothing."""

from __future__ import annotations

import ast
import re

import pytest
from packaging.specifiers import SpecifierSet

from tests import ROOT
from tests.notebooks import running
from tests.notebooks.answers import CORNERS, Answer, answers_of, corners_of
from tests.versions import RELEASES
from torchkata.facts.releases import installed_release
from torchkata.tools import lock
from torchkata.tools.course import chapters, side_notebooks
from torchkata.tools.placing import here

CHAPTERS = [chapter.name for chapter in (*chapters(here()), *side_notebooks(here())) if chapter.source.exists()]
EXERCISES = [(name, exercise) for name in CHAPTERS for exercise in running.exercise_ids(name)]
# a sample holds of each exercise the solution, the stub, another right answer and those that make its mistake
a_further_one = pytest.mark.exhaustive("a further answer to an exercise", thorough=True)
# exercises whose checks export, start ranks, compile or train; their further answers cost half of all the others, so
# that a sample holds one answer that makes the mistake
SLOW_CHAPTERS = ("09_onnx_export", "10_multi_gpu", "14_compile")
SLOW = ("interp-operator", "unmask-functions", "train-resume", "export-lm", "two-equal-one", "train-it")
a_further_slow_one = pytest.mark.exhaustive("a further answer to an exercise whose check takes a second")
a_further_slow_lesson = pytest.mark.exhaustive("a further mistake whose check takes a second", thorough=True)
# a sample runs the executed notebooks of the solutions, with all of their check cells
a_slow_solution = pytest.mark.exhaustive("a slow solution, which its notebook proves as well", thorough=True)


def _is_slow(chapter: str, exercise: str) -> bool:
    return chapter in SLOW_CHAPTERS or exercise in SLOW


def _marks(chapter: str, exercise: str, answer: Answer, answers: list[Answer]) -> tuple[pytest.MarkDecorator, ...]:
    slow = _is_slow(chapter, exercise)
    lessons = [one for one in answers if one.lesson]
    if answer is next(one for one in answers if one.kind == "right") or answer in (lessons[:1] if slow else lessons):
        return ()
    if not slow:
        return (a_further_one,)
    return (a_further_slow_lesson if answer.lesson else a_further_slow_one,)


CASES = [
    pytest.param(
        chapter,
        exercise,
        answer,
        id=f"{chapter[:2]}-{exercise}-{answer.kind}-{answer.name}",
        marks=_marks(chapter, exercise, answer, answers),
    )
    for chapter, exercise in EXERCISES
    for answers in [answers_of(chapter, exercise)]
    for answer in answers
]


@pytest.mark.parametrize("chapter, exercise, answer", CASES)
def test_answer(marks_of: running.MarksOf, chapter: str, exercise: str, answer: Answer):
    if installed_release() not in SpecifierSet(answer.torch):
        pytest.skip(f"an answer for torch {answer.torch}")
    marks = marks_of(chapter, exercise, answer.source)
    full = running.full_points(chapter, exercise)
    if answer.kind == "right":
        assert marks.points == pytest.approx(full), marks.text
        return
    assert marks.points < full, "a wrong answer got full marks"
    assert set(marks.errors) <= {"WrongAnswer"}, marks.errors
    for words in answer.says:
        assert words in marks.text, f"the verdict was:\n{marks.text}"
    if answer.shown:
        return
    for told in marks.told:
        assert any(words in told for words in answer.says), f"no line '# says: …' has a part of\n{told}"
    assert answer.earns, f"a wrong answer needs a line '# earns: {marks.points:g} of {full:g}'"
    assert (marks.points, full) == pytest.approx(answer.earns, abs=0.01), marks.text
    if answer.hidden or answer.lesson:
        assert marks.visibly is answer.lesson, "hidden: visible tests pass; lesson: visible tests fail"


def test_an_answer_for_some_releases_names_them():
    """It runs on the locked release, and there is a supported one on which it doesn't."""
    limits = {answer.torch for one in EXERCISES for answer in answers_of(*one)} - {""}
    locked = re.search(r"^torch==(\S+)", (ROOT / lock.ALL).read_text(encoding="utf-8"), re.M)[1]
    for limit in limits:
        assert locked in SpecifierSet(limit), f"# torch: {limit}"
        assert not all(release in SpecifierSet(limit) for release in RELEASES), f"# torch: {limit} can go"


SOLUTIONS = [
    pytest.param(*one, id="-".join(one), marks=(a_slow_solution,) if _is_slow(*one) else ()) for one in EXERCISES
]


@pytest.mark.parametrize("chapter, exercise", SOLUTIONS)
def test_solution_gets_full_marks(marks_of: running.MarksOf, chapter: str, exercise: str):
    solution = running.exercise_cells(chapter, exercise)[0].source
    marks = marks_of(chapter, exercise, solution)
    assert marks.points == pytest.approx(running.full_points(chapter, exercise)), marks.text


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_stub_is_not_solved_yet(marks_of: running.MarksOf, chapter: str, exercise: str):
    marks = marks_of(chapter, exercise, running.stub(chapter, exercise))
    assert marks.points == 0
    assert set(marks.errors) == {"NotSolvedYet"}, marks.text


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_enough_answers(chapter: str, exercise: str):
    kinds = [answer.kind for answer in answers_of(chapter, exercise)]
    assert kinds.count("wrong") >= 4 and kinds.count("right") >= 2, (
        f"{kinds.count('wrong')} wrong, {kinds.count('right')} right"
    )


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_lessons_and_corners_are_there(chapter: str, exercise: str):
    wrong = [answer for answer in answers_of(chapter, exercise) if answer.kind == "wrong"]
    assert any(answer.lesson for answer in wrong), "which wrong answer is the mistake that the exercise is about?"
    corners = corners_of(chapter, exercise)
    assert corners is not None, "the answers' file needs a line '# corners: zeros, nan' or '# corners: none'"
    assert set(corners) <= set(CORNERS)
    assert set(corners) == {answer.corner for answer in wrong} - {""}, "each class has an answer that misses it"


def _giving_nothing(source: str) -> str:
    """An answer whose functions and methods do nothing and return None; "" for one that has none."""
    tree = ast.parse(source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found = [node for one in (tree, *classes) for node in one.body if isinstance(node, ast.FunctionDef)]
    emptied = [one for one in found if one.name == "__call__" or not one.name.startswith("__")]
    for one in emptied:
        one.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree)) if emptied else ""


NOTHING_GIVEN = [
    pytest.param(chapter, exercise, marks=[a_further_slow_one] if chapter in SLOW_CHAPTERS or exercise in SLOW else [])
    for chapter, exercise in EXERCISES
]
# classes that stand in the answer cell but are not what is asked for, and an answer that calls its own methods
NOT_ASKED_FOR, OWN_ERROR = ("verify-passed",), ("micrograd",)


@pytest.mark.parametrize("chapter, exercise", NOTHING_GIVEN)
def test_what_gives_nothing_is_told_so_in_a_sentence(marks_of: running.MarksOf, chapter: str, exercise: str):
    """Not with what Python says of None where a check's own code stumbles over it."""
    answer = _giving_nothing(running.exercise_cells(chapter, exercise)[0].source)
    if not answer or exercise in NOT_ASKED_FOR:
        return
    marks = marks_of(chapter, exercise, answer)
    assert set(marks.errors) == {"WrongAnswer"} and marks.points < running.full_points(chapter, exercise)
    for told in marks.told:
        assert "NoneType" not in told or exercise in OWN_ERROR
        assert not told.startswith("Your code raised") or exercise in OWN_ERROR
