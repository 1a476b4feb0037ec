"""Every exercise accepts every right answer and rejects every wrong one with the promised words; stubs earn nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import running

from torchkata.tools.course import chapters, pages

ANSWERS = Path(__file__).parent / "answers"
CHAPTERS = [chapter.name for chapter in (*chapters(), *pages()) if chapter.source.exists()]
EXERCISES = [(name, exercise) for name in CHAPTERS for exercise in running.exercise_ids(name)]


@dataclass
class Answer:
    kind: str  # "right" or "wrong"
    name: str
    says: list[str]
    hidden: bool  # passes all visible tests
    source: str


def answers_of(chapter: str, exercise: str) -> list[Answer]:
    path = ANSWERS / chapter / f"{exercise.replace('-', '_')}.py"
    if not path.exists():
        return []
    blocks = re.split(r"^# %% ", path.read_text(encoding="utf-8"), flags=re.M)
    return [_answer(block, blocks[0], path) for block in blocks[1:]]


def _answer(block: str, preamble: str, path: Path) -> Answer:
    head, _, source = block.partition("\n")
    kind, _, name = head.partition(": ")
    assert kind in ("right", "wrong"), f"{path.name}: a block begins with 'right: …' or 'wrong: …', not {head!r}"
    says = re.findall(r"^# says: (.*)$", source, re.M)
    hidden = re.search(r"^# caught: hidden$", source, re.M) is not None
    assert says or kind == "right", f"{path.name}, {name}: a wrong answer needs a line '# says: …'"
    return Answer(kind, name, says, hidden, preamble + source)


CASES = [
    pytest.param(chapter, exercise, answer, id=f"{chapter[:2]}-{exercise}-{answer.kind}-{answer.name}")
    for chapter, exercise in EXERCISES
    for answer in answers_of(chapter, exercise)
]


@pytest.mark.parametrize("chapter, exercise, answer", CASES)
def test_answer(marks_of: running.MarksOf, chapter: str, exercise: str, answer: Answer):
    marks = marks_of(chapter, exercise, answer.source)
    full = running.full_points(chapter, exercise)
    if answer.kind == "right":
        assert marks.points == pytest.approx(full), marks.text
        return
    assert marks.points < full, "a wrong answer got full marks"
    assert set(marks.errors) <= {"WrongAnswer"}, marks.errors
    for words in answer.says:
        assert words in marks.text, f"the verdict was:\n{marks.text}"
    if answer.hidden:
        assert running.grade(chapter, exercise, answer.source, hidden=False).points == pytest.approx(full)


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
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
