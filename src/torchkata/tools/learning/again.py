"""An exercise once more, weeks after it was solved: a fresh stub in a notebook of its own.

It lies in again/ in the workbook, which is a workbook in itself: its check cells judge with all tests, and their
verdicts leave the learner's progress alone, as the old answer stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from torchkata.base.chapter import Exercise, exercise_of
from torchkata.base.places import KEPT
from torchkata.base.remembering import forget, read_verdicts
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.choosing import to_run
from torchkata.tools.learning.deck import EXERCISE, Deck, changing, time_of
from torchkata.tools.learning.review import need_workbook, right_now
from torchkata.tools.learning.scheduling import rated
from torchkata.tools.learning.standing import ExerciseStanding, standing, standing_in
from torchkata.tools.learning.workbook import put_notebook, release_worked_on
from torchkata.tools.placing import Place

FOLDER = "again"
REST = timedelta(weeks=3)  # that a solved exercise is left alone at least
PATIENCE = timedelta(weeks=1)  # after which a repetition that was begun counts as not solved


@dataclass(frozen=True)
class Repetition:
    """An exercise that is offered once more, and the notebook with its stub; begun: it was offered before."""

    chapter: Chapter
    exercise: Exercise
    path: Path
    begun: bool = False


def repeat(place: Place, now: datetime | None = None) -> tuple[Repetition | None, list[str]]:
    """The exercise to solve once more, its notebook written, or None; and sentences on those that were begun before.

    Raises CourseError when the workbook is missing or cannot be written.
    """
    now = now or right_now()
    need_workbook(place)
    with changing(place, now) as deck:
        notes = [deck.damaged] if deck.damaged else []
        notes += settle(place, deck, now)
        solved = list(_solved(place))
        for chapter, stands in solved:
            if stands.exercise.id in deck.attempts and (path := _last(chapter, stands.exercise)).exists():
                return Repetition(chapter, stands.exercise, path, begun=True), notes
        if not (found := _offered(solved, deck, now)):
            return None, notes
        chapter, stands = found
        return _begin(chapter, stands, deck, now), notes


def settle(place: Place, deck: Deck, now: datetime) -> list[str]:
    """Give the scheduler the results of repetitions that have come to an end; a sentence for each."""
    notes = []
    for chapter in chapters(place):
        for stands in _standing_again(chapter) if deck.attempts else ():
            name = stands.exercise.id
            if name not in deck.attempts:
                continue
            solved = stands.state == "solved"
            if solved or now - time_of(deck.attempts[name]) > PATIENCE:
                card = f"{EXERCISE}{name}"
                deck.cards[card] = rated(deck.cards.get(card), solved, now)
                del deck.attempts[name]
                notes.append(f"{name}: {'solved once more' if solved else 'not solved in a week; it comes back soon'}.")
    return notes


def _begin(chapter: Chapter, stands: ExerciseStanding, deck: Deck, now: datetime) -> Repetition:
    folder = _folder(chapter)
    try:
        (folder.parent / KEPT).mkdir(parents=True, exist_ok=True)
        forget(folder.parent, stands.exercise.id)
    except OSError as error:
        raise CourseError(f"{folder.parent} cannot be written: {error.strerror or error}.") from None
    path = next(path for path in _names(chapter, stands.exercise) if not path.exists())
    put_notebook(path, _notebook(chapter, stands))
    deck.attempts[stands.exercise.id] = now.isoformat()
    return Repetition(chapter, stands.exercise, path)


def _notebook(chapter: Chapter, stands: ExerciseStanding) -> NotebookNode:
    """The exercise alone, with the cells that it needs; the stub in its answer cell."""
    release, name = release_worked_on(chapter), stands.exercise.id
    wanted = {cell.source for cell in to_run(release, release, {name})}
    places = [n for n, cell in enumerate(release.cells) if exercise_of(cell) == name]
    text = places[0] - 1
    places += [n for n, cell in enumerate(release.cells) if not exercise_of(cell) and cell.source in wanted]
    if text >= 0 and release.cells[text].cell_type == "markdown":
        places.append(text)
    head = (
        f"# Once more: {stands.exercise.title or name}\n\nYou solved this on {stands.when[:10]}. Solve it again "
        f"without looking; your answer of then stands in [chapter {chapter.number}]"
        f"(../../{chapter.place_in_workbook.as_posix()})."
    )
    release.cells = [new_markdown_cell(head), *(release.cells[n] for n in sorted(set(places)))]
    return release


def _solved(place: Place) -> Iterator[tuple[Chapter, ExerciseStanding]]:
    for chapter in chapters(place):
        with suppress(CourseError):
            yield from ((chapter, stands) for stands in standing(chapter) if stands.state == "solved" and stands.when)


def _offered(
    solved: list[tuple[Chapter, ExerciseStanding]], deck: Deck, now: datetime
) -> tuple[Chapter, ExerciseStanding] | None:
    """The one that was solved, or is due, the longest."""

    def since(stands: ExerciseStanding) -> datetime | None:
        card = f"{EXERCISE}{stands.exercise.id}"
        if card in deck.cards:
            return time_of(deck.cards[card]["due"]) if deck.due(card, now) else None
        when = time_of(stands.when)
        return when if now - when >= REST else None

    ready = [(time, number) for number, (_, stands) in enumerate(solved) if (time := since(stands))]
    return solved[min(ready)[1]] if ready else None


def _standing_again(chapter: Chapter) -> list[ExerciseStanding]:
    with suppress(CourseError):
        return standing_in(release_worked_on(chapter), read_verdicts(_folder(chapter).parent))
    return []


def _folder(chapter: Chapter) -> Path:
    """By the chapter's name: check cells look for their hidden tests by that of their folder first."""
    return chapter.place.workbook / FOLDER / chapter.name


def _names(chapter: Chapter, exercise: Exercise) -> Iterator[Path]:
    yield _folder(chapter) / f"{exercise.id}.ipynb"
    yield from (_folder(chapter) / f"{exercise.id}-{number}.ipynb" for number in range(2, 1000))


def _last(chapter: Chapter, exercise: Exercise) -> Path:
    """The newest notebook of a repetition."""
    there = [path for path in _names(chapter, exercise) if path.exists()]
    return there[-1] if there else next(_names(chapter, exercise))
