"""How far a learner has come, as the start page shows it: a row for each chapter, and the next step."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchkata.tools.course import Chapter, Exercise
from torchkata.tools.learning.standing import ExerciseStanding, standing
from torchkata.tools.learning.workbook import release_of_copy

MINUTES = re.compile(r"\*\*(\d+) minutes to read, (\d+) minutes to practise, (\d+) points")
LATER = "Progress shows when you open this page in `make lab`."
FRESH = "As of the last checks, when this page was opened; close it and open it again to see newer ones."


@dataclass(frozen=True)
class Heading:
    """What a chapter says of itself at its top; numbers are "" where it doesn't."""

    title: str
    read: str = ""
    practise: str = ""
    points: str = ""


def contents_markdown(chapters: Sequence[Chapter]) -> str:
    """The table of chapters as it is released: without progress."""
    headings = {chapter: _heading(chapter) for chapter in chapters}
    rows = [(_link(chapter, heading), heading.points, *_minutes(heading)) for chapter, heading in headings.items()]
    return _table(("chapter", "points", "to read", "to practise"), rows) + f"\n\n{LATER}"


def progress_markdown(chapters: Sequence[Chapter], start: Chapter | None = None) -> str:
    """The table of chapters with a bar and its words for each, the sum, and the next step.

    From the remembered verdicts alone, nothing is run. A chapter that can't be read has its row without a bar. `start`
    is the start page, whose own exercise is the first step.
    """
    standings = {chapter: _standing_of(chapter) for chapter in chapters}
    headings = {chapter: _heading(chapter) for chapter in chapters}
    rows = [
        (_link(chapter, heading), *_progress(standings[chapter]), *_minutes(heading))
        for chapter, heading in headings.items()
    ]
    table = _table(("chapter", "progress", "done", "to read", "to practise"), rows)
    return f"{_next_step(standings, _standing_of(start) if start else [])}\n\n{table}\n\n{_sum(standings)} {FRESH}"


def _standing_of(chapter: Chapter) -> list[ExerciseStanding]:
    try:
        return standing(chapter)
    except Exception:  # damage of any kind must not keep the page from opening
        return []


def _progress(stands: list[ExerciseStanding]) -> tuple[str, str]:
    full, earned = sum(s.exercise.points for s in stands), sum(s.points for s in stands)
    if not full:
        return "", ""
    solved = sum(s.state == "solved" for s in stands)
    points = f"{earned:g} of {full:g} points"
    bar = f'<progress value="{earned:g}" max="{full:g}" title="{points}"></progress>'
    return bar, f"{points}, {solved} of {len(stands)} exercises"


def _sum(standings: dict[Chapter, list[ExerciseStanding]]) -> str:
    everything = [s for stands in standings.values() for s in stands]
    earned, full = sum(s.points for s in everything), sum(s.exercise.points for s in everything)
    return f"In all {earned:g} of {full:g} points."


def _next_step(standings: dict[Chapter, list[ExerciseStanding]], warm_up: list[ExerciseStanding]) -> str:
    """The start page's exercise for who has checked nothing yet; then the first exercise not solved of the chapter last
    worked on, else of the chapters after it, else of all."""
    chapters = [chapter for chapter, stands in standings.items() if stands]
    if not chapters:
        return "**Next:** open the first chapter."
    last = {chapter: max(s.when for s in standings[chapter]) for chapter in chapters}
    if any(last.values()):
        begin, verb = chapters.index(max(chapters, key=last.__getitem__)), "go on"
    elif any(s.state != "solved" for s in warm_up):
        return "**Next:** solve the exercise above, on this page."
    else:
        begin, verb = 0, "your first exercise is solved. Begin" if warm_up else "begin"
    for chapter in chapters[begin:] + chapters[:begin]:
        for stands in standings[chapter]:
            if stands.state != "solved":
                return f"**Next:** {verb} with {_exercise_link(chapter, stands.exercise)} in chapter {chapter.number}."
    return "**All exercises are solved.** The chapters' last sections say where to read on."


# ---------------------------------------------------------------- chapters and their places


def _heading(chapter: Chapter) -> Heading:
    """Read from the first cell; a chapter without one is named by its folder."""
    first = next(iter(_cells(chapter)), {}).get("source", "")
    text = first if isinstance(first, str) else "".join(first)
    title = re.search(r"^# (.+)$", text, re.M)
    numbers = MINUTES.search(text)
    return Heading(title[1] if title else chapter.topic, *(numbers.groups() if numbers else ()))


def _minutes(heading: Heading) -> tuple[str, str]:
    return (f"{heading.read} min", f"{heading.practise} min") if heading.read else ("", "")


def _place(chapter: Chapter) -> str:
    """Where the learner's copy lies, seen from the start page."""
    return chapter.workbook.relative_to(chapter.root / "workbook").as_posix()


def _link(chapter: Chapter, heading: Heading) -> str:
    return f"[{chapter.number} {_plain(heading.title)}]({_place(chapter)})"


def _exercise_link(chapter: Chapter, exercise: Exercise) -> str:
    """A link to the cell with the exercise's text, by its id: links to headings that aren't ASCII don't arrive."""
    return f"[{_plain(exercise.title)}]({_place(chapter)}#cell-id={_text_cell(chapter, exercise)})"


def _text_cell(chapter: Chapter, exercise: Exercise) -> str:
    """The id of the cell before the answer cell; of the answer cell where that can't be told."""
    ids = [cell.get("id") for cell in _cells(chapter)]
    place = ids.index(exercise.id) if exercise.id in ids else 0
    return ids[place - 1] if place > 0 else exercise.id


def _cells(chapter: Chapter) -> list[dict[str, Any]]:
    """The cells of the release that the learner's copy comes from, else of the newest; none where it is damaged."""
    copied_from = release_of_copy(chapter)
    try:
        release = copied_from if copied_from.exists() else chapter.release
        cells = json.loads(release.read_text(encoding="utf-8"))["cells"]
        return [cell for cell in cells if isinstance(cell, dict)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _plain(text: str) -> str:
    """Text that can neither end a link nor a column."""
    return re.sub(r"([\[\]|])", r"\\\1", text)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
