"""How far a learner has come, as the start page shows it: a row for each chapter, and the next step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from nbformat import NotebookNode

from torchkata.base.chapter import Exercise
from torchkata.base.remembering import Remembered, read_verdicts
from torchkata.tools.course import Chapter, read_unchecked
from torchkata.tools.learning.deck import counted
from torchkata.tools.learning.review import PAGE, count_due
from torchkata.tools.learning.skipping import known_chapters
from torchkata.tools.learning.standing import ExerciseStanding, standing_in
from torchkata.tools.learning.workbook import release_worked_on

MINUTES = re.compile(r"\*\*(\d+) minutes to read, (\d+) minutes to practise, (\d+) points")
LATER = "To see your progress here, open this page with `torchkata lab` or `make lab`."
FRESH = "As of the last checks, when this page was opened; close it and open it again to see newer ones."


@dataclass(frozen=True)
class Heading:
    """What a chapter says of itself at its top; numbers are "" where it doesn't."""

    title: str
    read: str = ""
    practise: str = ""
    points: str = ""


@dataclass
class _Shown:
    """A chapter as the page shows it: its heading, its cells, and where the learner stands in it."""

    chapter: Chapter
    heading: Heading
    cells: list[NotebookNode] = field(default_factory=list)
    stands: list[ExerciseStanding] = field(default_factory=list)
    known: bool = False  # it was skipped


def contents_markdown(chapters: Sequence[Chapter]) -> str:
    """The table of chapters as it is released: without progress."""
    shown = [_Shown(chapter, _heading(read_unchecked(chapter.release), chapter)) for chapter in chapters]
    rows = [(_link(one), one.heading.points, *_minutes(one.heading)) for one in shown]
    return _table(("chapter", "points", "to read", "to practise"), rows) + f"\n\n{LATER}"


def progress_markdown(chapters: Sequence[Chapter], start: Chapter | None = None) -> str:
    """The table of chapters with a bar and its words for each, the sum, and the next step.

    From the remembered verdicts alone, nothing is run. A chapter that can't be read has its row without a bar. `start`
    is the start page, whose own exercise is the first step.
    """
    verdicts = read_verdicts(chapters[0].place.workbook) if chapters else {}
    skipped = _skipped(chapters)
    shown = [_shown(chapter, verdicts) for chapter in chapters]
    for one in shown:
        one.known = one.chapter.name in skipped
    warm_up = _shown(start, verdicts).stands if start else []
    rows = [(_link(one), *_progress(one), *_minutes(one.heading)) for one in shown]
    table = _table(("chapter", "progress", "done", "to read", "to practise"), rows)
    return f"{_next_step(shown, warm_up)}{_review(shown)}\n\n{table}\n\n{_sum(shown)} {FRESH}"


def _shown(chapter: Chapter, verdicts: dict[tuple[str, str], Remembered]) -> _Shown:
    """A chapter that can't be read is named by its folder."""
    shown = _Shown(chapter, Heading(chapter.topic))
    with suppress(Exception):  # damage of any kind must not keep the page from opening
        release = release_worked_on(chapter)
        shown.heading, shown.cells = _heading(release, chapter), release.cells
        shown.stands = standing_in(release, verdicts)
    return shown


def _skipped(chapters: Sequence[Chapter]) -> set[str]:
    """The names of the chapters that count as known."""
    with suppress(Exception):  # damage of any kind must not keep the page from opening
        return known_chapters(chapters[0].place)
    return set()


def _progress(shown: _Shown) -> tuple[str, str]:
    stands = shown.stands
    full, earned = sum(s.exercise.points for s in stands), sum(s.points for s in stands)
    if not full:
        return "", ""
    solved = sum(s.state == "solved" for s in stands)
    points = f"{earned:g} of {full:g} points"
    bar = f'<progress value="{earned:g}" max="{full:g}" title="{points}"></progress>'
    return bar, f"{'known; ' if shown.known else ''}{points}, {solved} of {len(stands)} exercises"


def _sum(shown: list[_Shown]) -> str:
    everything = [s for one in shown for s in one.stands]
    earned, full = sum(s.points for s in everything), sum(s.exercise.points for s in everything)
    return f"In all {earned:g} of {full:g} points."


def _next_step(shown: list[_Shown], warm_up: list[ExerciseStanding]) -> str:
    """The start page's exercise for who has checked nothing yet; then the first exercise not solved of the chapter last
    worked on, else of the chapters after it, else of all. A chapter that is known is passed over."""
    known = [one for one in shown if one.stands]
    if not known:
        return "**Next:** open the first chapter."
    last = [max(s.when for s in one.stands) for one in known]
    if any(last):
        begin, verb = last.index(max(last)), "go on"
    elif any(s.state != "solved" for s in warm_up):
        return "**Next:** solve the exercise above, on this page."
    else:
        begin, verb = 0, "your first exercise is solved. Begin" if warm_up else "begin"
    for one in known[begin:] + known[:begin]:
        for stands in () if one.known else one.stands:
            if stands.state != "solved":
                return f"**Next:** {verb} with {_exercise_link(one, stands.exercise)} in chapter {one.chapter.number}."
    done = "All exercises are solved." if all(map(_is_solved, known)) else "Every chapter is solved or known."
    return f"**{done}** The chapters' last sections say where to read on."


def _is_solved(shown: _Shown) -> bool:
    return all(stands.state == "solved" for stands in shown.stands)


def _review(shown: list[_Shown]) -> str:
    """How many cards are due, where any are, with a link."""
    begun = [one.chapter.name for one in shown if any(s.when for s in one.stands)]
    with suppress(Exception):  # damage of any kind must not keep the page from opening
        place = shown[0].chapter.place
        if (place.workbook / PAGE).exists() and (due := count_due(place, begun)):
            return f"\n\n**Review:** {counted(due)} due. [Open the review page]({PAGE})."
    return ""


# ---------------------------------------------------------------- chapters and their places


def _heading(release: NotebookNode, chapter: Chapter) -> Heading:
    """Read from the first cell; a chapter without a title is named by its folder."""
    text = release.cells[0].source
    title = re.search(r"^# (.+)$", text, re.M)
    numbers = MINUTES.search(text)
    return Heading(title[1] if title else chapter.topic, *(numbers.groups() if numbers else ()))


def _minutes(heading: Heading) -> tuple[str, str]:
    return (f"{heading.read} min", f"{heading.practise} min") if heading.read else ("", "")


def _place(chapter: Chapter) -> str:
    """Where the learner's copy lies, seen from the start page."""
    return chapter.place_in_workbook.as_posix()


def _link(shown: _Shown) -> str:
    return f"[{shown.chapter.number} {_plain(shown.heading.title)}]({_place(shown.chapter)})"


def _exercise_link(shown: _Shown, exercise: Exercise) -> str:
    """A link to the cell with the exercise's text, by its id: links to headings that aren't ASCII don't arrive."""
    return f"[{_plain(exercise.title)}]({_place(shown.chapter)}#cell-id={_text_cell(shown, exercise)})"


def _text_cell(shown: _Shown, exercise: Exercise) -> str:
    """The id of the cell before the answer cell; of the answer cell where that can't be told."""
    ids = [cell.get("id", "") for cell in shown.cells]
    place = ids.index(exercise.id) if exercise.id in ids else 0
    return ids[place - 1] if place > 0 else exercise.id


def _plain(text: str) -> str:
    """Text that can neither end a link nor a column."""
    return re.sub(r"([\[\]|])", r"\\\1", text)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
