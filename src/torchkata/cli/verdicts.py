"""How verdicts reach the terminal: progress, tables or JSON, and checking again at each save."""

import json
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from torchkata.cli.shared import out, say, warn
from torchkata.tools.errors import CourseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from torchkata.tools.course import Chapter
    from torchkata.tools.learning.checking import Progress as CheckProgress
    from torchkata.tools.learning.outcomes import Verdict
    from torchkata.tools.learning.watching import Spare, Watched

    Chosen = Mapping[Chapter, Collection[str] | None]  # ids of the exercises of each chapter; None: all of them
    Results = dict[Chapter, list[Verdict] | CourseError]
    LeftOut = list[tuple[Chapter, str]]  # sentences on cells that were not run to their end

WATCHING = "Watching the workbook; Ctrl + C ends it."


def run_checks(chosen: "Chosen") -> "tuple[Results, LeftOut]":
    """Check exercises of chapters, with a line of progress; the verdicts by chapter, and what was left out."""
    from torchkata.tools.learning.checking import check_chapters

    left_out: LeftOut = []
    with _progress_line() as progress:
        results = check_chapters(chosen, progress=progress, tell=lambda *told: left_out.append(told))
    return dict(zip(chosen, results, strict=True)), left_out


@contextmanager
def _progress_line() -> "Iterator[CheckProgress]":
    """One line for each chapter that is being checked, gone when it is done; none where nobody looks on."""
    columns = "{task.description}", BarColumn(20), MofNCompleteColumn(), "{task.fields[what]}", TimeElapsedColumn()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bars:
        tasks: dict[Chapter, TaskID] = {}

        def show(chapter: "Chapter", done: int, total: int, what: str) -> None:
            if chapter not in tasks:
                tasks[chapter] = bars.add_task(chapter.name, total=total, what=what)
            bars.update(tasks[chapter], completed=done, total=total, what=what, visible=done < total)

        yield show


def watch_chapters(watched: "Collection[Watched]") -> None:
    """Check again what changed in a chapter when it is saved. A terminal shows its table anew, any other output gets
    what changed. Never ends."""
    from torchkata.tools.learning.watching import Spare, last_saved, saves

    spare = Spare()
    spare.prepare(last_saved(watched).chapter)
    out.print(WATCHING)
    try:
        for saved in saves(watched):
            _check_saved(saved, spare)
            spare.prepare(saved.chapter)
    finally:
        spare.end()


def _check_saved(saved: "Watched", spare: "Spare") -> None:
    left_out: LeftOut = []
    before, begun = saved.verdicts, time.monotonic()
    try:
        with _progress_line() as progress:
            changed = saved.check(spare, progress, lambda *told: left_out.append(told))
    except CourseError as error:
        warn(str(error))
        return
    if out.is_terminal:
        out.clear()
        print_checked(saved.chapter, saved.verdicts)
    elif saved.verdicts != before:
        print_checked(saved.chapter, saved.verdicts, before)
    print_left_out(left_out)
    checked = ", ".join(changed) if len(changed) < 4 else f"{len(changed)} exercises"
    did = f"Checked {checked} in {time.monotonic() - begun:.1f} s." if changed else "Nothing changed."
    say(f"{datetime.now():%H:%M:%S} {saved.chapter.name} was saved. {did}")
    if out.is_terminal:
        out.print(WATCHING)


def print_left_out(told: "LeftOut") -> None:
    """Each sentence on cells that were not run to their end, once."""
    for chapter, sentence in dict.fromkeys(told):
        warn(f"{chapter.name}: {sentence}")


def print_checked(
    chapter: "Chapter", verdicts: "list[Verdict] | CourseError", before: "Sequence[Verdict]" = ()
) -> None:
    """A table of verdicts; but for those that are as they were before."""
    if isinstance(verdicts, CourseError):
        warn(str(verdicts))
    elif not verdicts:
        out.print(f"{chapter.name} holds no exercises.")
    else:
        _print_verdicts(chapter, verdicts, [verdict for verdict in verdicts if verdict not in before])


def _print_verdicts(chapter: "Chapter", verdicts: "list[Verdict]", shown: "list[Verdict]") -> None:
    table = Table(
        Column("exercise", no_wrap=True),
        "verdict",
        Column("points", justify="right", no_wrap=True),
        box=SIMPLE,
        title=chapter.title,
    )
    for verdict in shown:
        table.add_row(verdict.exercise.id, _told(verdict), f"{verdict.points:g} of {verdict.exercise.points:g}")
    total, full = sum(v.points for v in verdicts), sum(v.exercise.points for v in verdicts)
    if len(verdicts) > 1:
        table.add_section()
        table.add_row("total", "", f"{total:g} of {full:g}")
    out.print(table)


def print_json(results: "Results", left_out: "LeftOut") -> None:
    """The verdicts as JSON, on stdout alone: a list of chapters, each with its exercises or with why it has none."""
    told = [_chapter_told(chapter, verdicts, left_out) for chapter, verdicts in results.items()]
    print(json.dumps({"chapters": told}, indent=2))


def _chapter_told(
    chapter: "Chapter", verdicts: "list[Verdict] | CourseError", left_out: "LeftOut"
) -> dict[str, object]:
    notes = [sentence for one, sentence in dict.fromkeys(left_out) if one == chapter]
    if isinstance(verdicts, CourseError):
        return {"chapter": chapter.name, "error": str(verdicts), "notes": notes}
    exercises = [
        {
            "id": verdict.exercise.id,
            "title": verdict.exercise.title,
            "state": verdict.state,
            "points": verdict.points,
            "of": verdict.exercise.points,
            "verdict": verdict.line,
            "more": verdict.more,
            "test": verdict.test,
        }
        for verdict in verdicts
    ]
    return {"chapter": chapter.name, "title": chapter.title, "exercises": exercises, "notes": notes}


def _told(verdict: "Verdict") -> Text:
    """A verdict's sentence, the test that failed, and a line for each further wrong item."""
    lines = [verdict.line, *verdict.more] + ([f"({verdict.test})"] if verdict.test else [])
    return Text("\n".join(lines))
