"""How verdicts reach the terminal: progress while chapters are checked, tables, and checking again at each save."""

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from torchkata.cli.shared import out, warn
from torchkata.tools.errors import CourseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from torchkata.tools.course import Chapter
    from torchkata.tools.learning.checking import Progress as CheckProgress
    from torchkata.tools.learning.outcomes import Verdict

    Chosen = Mapping[Chapter, Collection[str] | None]  # ids of the exercises of each chapter; None: all of them
    Results = dict[Chapter, list[Verdict] | CourseError]
    LeftOut = list[tuple[Chapter, str]]  # sentences on cells that were not run to their end


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


def watch_chapters(chosen: "Chosen", known: "Results") -> None:
    """Check each chapter again when it is saved, and print what has changed; never ends."""
    from torchkata.tools.learning.checking import saved_chapters

    out.print("Watching the workbook; Ctrl + C ends it.")
    for saved in saved_chapters(chosen):
        results, left_out = run_checks({saved: chosen[saved]})
        verdicts = results[saved]
        out.print(
            f"{datetime.now():%H:%M:%S} {saved.name} was saved.", "" if verdicts != known[saved] else "Nothing changed."
        )
        if verdicts != known[saved]:
            print_checked(saved, verdicts, known[saved])
        print_left_out(left_out)
        known[saved] = verdicts


def print_left_out(told: "LeftOut") -> None:
    """Each sentence on cells that were not run to their end, once."""
    for chapter, sentence in dict.fromkeys(told):
        warn(f"{chapter.name}: {sentence}")


def print_checked(
    chapter: "Chapter", verdicts: "list[Verdict] | CourseError", before: "Sequence[Verdict] | CourseError" = ()
) -> None:
    """A table of verdicts; but for those that are as they were before."""
    if isinstance(verdicts, CourseError):
        warn(str(verdicts))
    elif not verdicts:
        out.print(f"{chapter.name} holds no exercises.")
    else:
        known = [] if isinstance(before, CourseError) else before
        _print_verdicts(chapter, verdicts, [verdict for verdict in verdicts if verdict not in known])


def _print_verdicts(chapter: "Chapter", verdicts: "list[Verdict]", shown: "list[Verdict]") -> None:
    table = Table(
        "exercise", "verdict", Column("points", justify="right", no_wrap=True), box=SIMPLE, title=chapter.title
    )
    for verdict in shown:
        table.add_row(verdict.exercise.id, _told(verdict), f"{verdict.points:g} of {verdict.exercise.points:g}")
    total, full = sum(v.points for v in verdicts), sum(v.exercise.points for v in verdicts)
    if len(verdicts) > 1:
        table.add_section()
        table.add_row("total", "", f"{total:g} of {full:g}")
    out.print(table)


def _told(verdict: "Verdict") -> Text:
    """A verdict's sentence, the test that failed, and a line for each further wrong item."""
    lines = [verdict.line, *verdict.more] + ([f"({verdict.test})"] if verdict.test else [])
    return Text("\n".join(lines))
