"""One exercise of the learner's: give it its stub back, or show the author's solution."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from torchkata.base.chapter import Exercise, exercise_of, exercises_of
from torchkata.base.marks import authors_version
from torchkata.base.remembering import forget
from torchkata.base.ways import Way, ways_file, ways_of
from torchkata.tools.course import Chapter, chapters, find_chapters, read_notebook, read_unchecked, side_notebooks
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.damaged import read_learners
from torchkata.tools.learning.standing import standing
from torchkata.tools.learning.workbook import back_up, put_notebook, release_of_copy, release_worked_on, writing
from torchkata.tools.placing import Place


def find_exercise(word: str, place: Place) -> tuple[Chapter, Exercise]:
    """The exercise with this id (segment-mean) or number (3.4), and its chapter.

    Raises CourseError, naming ids that look alike, when there is none.
    """
    everything = [*side_notebooks(place), *chapters(place)]
    known = [(chapter, exercise) for chapter in everything for exercise in _released(chapter)]
    word = word.strip().lower().removeprefix("exercise ")
    number = re.compile(rf"Exercise {re.escape(word)}(?![\w.])") if re.fullmatch(r"\d+\.\d+", word) else None
    for chapter, exercise in known:
        if exercise.id == word or (number and number.match(exercise.title)):
            return chapter, exercise
    alike = difflib.get_close_matches(word, [exercise.id for _, exercise in known], n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(alike)}?" if alike else ""
    raise CourseError(
        f"There is no exercise {word!r}.{meant} The id of an exercise is in its verdict, its number in its heading."
    )


def find_checkable(words: list[str] | None, place: Place) -> dict[Chapter, set[str] | None]:
    """The chapters that the words name, each with the ids of the exercises that are wanted of it; None for all of them.

    A word names a chapter, a page or an exercise; no words mean all chapters. Raises CourseError for any other word.
    """
    if not words:
        return dict.fromkeys(chapters(place))
    found: dict[Chapter, set[str] | None] = {}
    for word in words:
        try:
            [chapter], exercise = find_chapters(place, [word], with_side_notebooks=True), None
        except CourseError:
            if re.fullmatch(r"\d+", word):
                raise
            chapter, exercise = find_exercise(word, place)
        wanted = found.setdefault(chapter, set())
        if exercise is None or wanted is None:
            found[chapter] = None
        else:
            wanted.add(exercise.id)
    return found


def _released(chapter: Chapter) -> list[Exercise]:
    """The exercises of the release that the learner's copy was made from, and of the newest."""
    found: dict[str, Exercise] = {}
    for path in (release_of_copy(chapter), chapter.release):
        with suppress(CourseError):  # the exercises of other chapters can be found all the same
            found = {exercise.id: exercise for exercise in exercises_of(read_unchecked(path).cells)} | found
    return list(found.values())


def reset(chapter: Chapter, exercise: Exercise) -> bool:
    """Give an exercise its stub back; the old answer stays in a text cell below the exercise. False: it was the stub.

    Raises CourseError when the notebook can't be read or written, or holds no answer cell of the exercise.
    """
    with writing(chapter.place):
        mine = read_learners(chapter)
        stub = _answer(release_worked_on(chapter), exercise.id)
        answer = _answer(mine, exercise.id)
        if stub is None or answer is None:
            raise CourseError(
                f"Your notebook holds no answer cell of {exercise.id}. Run `torchkata update {chapter.number}` first: "
                "it brings missing cells back."
            )
        if answer.source.strip() == stub.source.strip():
            return False
        old = new_markdown_cell(f"Your earlier answer to {exercise.id}:\n\n{fenced(answer.source)}")
        answer.source, answer.outputs, answer.execution_count = stub.source, [], None
        places = [n for n, cell in enumerate(mine.cells) if exercise_of(cell) == exercise.id]
        mine.cells.insert(places[-1] + 1, old)
        back_up(chapter)
        put_notebook(chapter.workbook, mine)
        forget(chapter.place.workbook, exercise.id)
        return True


def solution(chapter: Chapter, exercise: Exercise, peek: bool = False) -> str:
    """The author's solution of an exercise, as Python source; `peek` shows it before the exercise is solved.

    Raises CourseError when it is not solved yet and `peek` is false, or when the course came without solutions.
    """
    if not chapter.solution.exists():
        raise CourseError(f"This copy of the course came without solutions ({chapter.solution} is missing).")
    solved = any(one.exercise.id == exercise.id and one.state == "solved" for one in standing(chapter))
    if not (solved or peek):
        raise CourseError(
            f"{exercise.id} is not solved yet: neither a check cell nor `torchkata check` has said so. "
            "Its hints are folded below the task. "
            f"To see the solution anyway: torchkata solution {exercise.id} --peek"
        )
    if (cell := _answer(read_notebook(chapter.solution), exercise.id)) is None:
        raise CourseError(f"{chapter.solution} holds no solution of {exercise.id}: it is of another release.")
    return f"{authors_version(cell.source)}\n"


def other_ways(chapter: Chapter, exercise: Exercise) -> list[Way]:
    """Other answers than the author's that the course shows to those who may see that."""
    return ways_of(ways_file(chapter.solution.parent, exercise.id))


def _answer(notebook: NotebookNode, exercise: str) -> NotebookNode | None:
    """The last answer cell of an exercise: of copies, that one counts."""
    cells = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and exercise_of(cell) == exercise and cell.metadata.nbgrader.get("solution")
    ]
    return cells[-1] if cells else None


def fenced(source: str, language: str = "python") -> str:
    """A text as a block of code in Markdown, whatever ticks are in it."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{source}\n{fence}"
