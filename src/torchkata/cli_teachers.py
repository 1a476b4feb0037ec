"""The commands for teachers: read the command line, call the tools, print what they return."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from torchkata.tools.course import Chapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchkata.tools.grading.batch import Progress as Tell
    from torchkata.tools.grading.batch import Run
    from torchkata.tools.grading.handed_out.overview import Overview
    from torchkata.tools.grading.regrading import Regrading

NOTES_SHOWN = 30
MISTAKES_SHOWN = 2  # of each exercise
PAIRS_SHOWN = 30
out = Console()


def course(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An empty one, or one to be made.")]) -> None:
    """Make the folder of a class: all chapters with their solutions, nbgrader's settings, a page on how to go on."""
    from torchkata.tools.class_folder import make_class_folder

    count = make_class_folder(folder)
    out.print(Text(f"{count} files in {folder}. What to do there: {folder / 'README.md'}"), soft_wrap=True)


def grade(
    chapter: Annotated[str, typer.Argument(help="03, gather_scatter or 03_gather_scatter.")],
    students: Annotated[str | None, typer.Option(help="Only these, with commas between them.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Graded at a time; default: one a core.")] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Results go into DIR/CHAPTER; default graded.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Grade also what has not changed.")] = False,
    exercise: Annotated[
        str | None,
        typer.Option("--regrade", metavar="EXERCISE", help="Grade one exercise anew; shows whose marks change first."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --regrade: write the marks without asking.")] = False,
    similar: Annotated[
        bool, typer.Option("--similar", help="Grade nothing; list answers that are near copies of each other.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Grade on the workers of this Dask scheduler, not here.")
    ] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run the students' code unprotected, with your own rights.")
    ] = False,
) -> None:
    """Grade the submissions of a chapter: submitted/STUDENT/CHAPTER into gradebook, feedback/ and graded/."""
    from torchkata.tools.course import find_chapters, own_course

    [found] = find_chapters([chapter], own_course("Grading", "a class folder, which `torchkata course FOLDER` makes"))
    names = [name.strip() for name in students.split(",") if name.strip()] if students is not None else None
    if similar:
        return _list_similar(found, names)
    from torchkata.tools.grading.grader import grader_of, sharing
    from torchkata.tools.grading.pool import get_ready, usable_cores

    grader, jobs = grader_of(found, sandboxed=not no_sandbox), jobs or usable_cores()
    if scheduler is None:  # the processes that grade load torch while this one loads nbgrader
        get_ready()
    with nullcontext(grader) if scheduler else sharing(grader) as opener:
        from torchkata.tools.grading.batch import grade_chapter
        from torchkata.tools.grading.regrading import regrade

        if exercise is not None:
            work = partial(regrade, found, exercise, opener)
            where = {"students": names, "jobs": jobs, "scheduler": scheduler, "out": out_folder}
            return _regrade(partial(work, **where), found, yes)
        with _bars() as bars:
            run = grade_chapter(
                found,
                opener,
                students=names,
                jobs=jobs,
                scheduler=scheduler,
                out=out_folder,
                force=force,
                sandboxed=not no_sandbox,
                progress=_telling(bars, found),
            )
    _print_run(run)
    raise typer.Exit(int(bool(run.refused or run.cut_off)))


def _bars() -> Progress:
    times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"))
    return Progress("{task.description}", BarColumn(), MofNCompleteColumn(), *times, console=out)


def _telling(bars: Progress, chapter: Chapter) -> "Tell":
    """What tells the bars how far a run is."""
    bar = bars.add_task("Getting ready", total=None)
    return lambda done, total: bars.update(bar, description=chapter.name, completed=done, total=total)


def _print_run(run: "Run") -> None:
    from torchkata.tools.grading.reaching import LOOK

    if run.overview is not None:
        _print_overview(run.overview)
    out.print(
        f"{len(run.records)} graded ({len(run.graded)} now, {len(run.kept)} before and unchanged), "
        f"{len(run.refused)} not gradable, {len(run.cut_off)} cut off."
    )
    for refusal in run.refused:
        _say(f"{refusal.student}: not graded. {refusal.reason}")
    for record in run.cut_off:
        ended = ", ".join(f"{mark.exercise} {mark.state}" for mark in record.marks if mark.cut_off)
        _say(f"{record.student}: {ended}")
    noted = [f"{record.student}: {note}" for record in run.records for note in record.notes]
    noted.sort(key=lambda note: LOOK not in note)
    for note in noted[:NOTES_SHOWN]:
        _say(note)
    if len(noted) > NOTES_SHOWN:
        out.print(f"... and {len(noted) - NOTES_SHOWN} more notes in the records.")
    if unprotected := sum(not record.sandboxed for record in run.records):
        out.print(f"{unprotected} of them without a sandbox: their code could have changed marks.")
    _say(f"Marks: {run.folder / 'marks.csv'}")
    _say(f"The class: {run.folder / 'overview.html'}")


def _print_overview(overview: "Overview") -> None:
    """The class as a table: how many solved each exercise, and what most of the others read."""
    if not overview.graded:
        return
    table = Table("exercise", Column("solved", justify="right"), "most frequent mistakes", box=SIMPLE)
    for one in overview.exercises:
        mistakes = "\n".join(f"{count} × {_printable(text)}" for text, count in one.mistakes[:MISTAKES_SHOWN])
        table.add_row(_title(one.title), f"{one.solved} of {overview.graded}", Text(mistakes))
    out.print(table)


def _title(title: str) -> Text:
    return Text(title.removeprefix("Exercise "))


def _regrade(work: "Callable[..., Regrading]", chapter: Chapter, yes: bool) -> None:
    """See whose marks change; then write them, or leave everything as it was."""
    with _bars() as bars:

        def agree(found: "Regrading") -> bool:
            bars.stop()
            _print_changes(found)
            return bool(found.marks) and (yes or typer.confirm("Write these marks?", default=False))

        found = work(agree, progress=_telling(bars, chapter))
    if found.overview is None:
        out.print("Nothing was written.")
        raise typer.Exit(1)
    _print_overview(found.overview)
    out.print(
        f"{found.exercise}: {len(found.marks)} marks written, {len(found.changes)} with other points than before."
    )
    raise typer.Exit(int(bool(found.left_out)))


def _print_changes(found: "Regrading") -> None:
    """Whose points change and how, what is left out, and what else changed in the chapter."""
    table = Table("student", Column("before", justify="right"), Column("now", justify="right"), "why now", box=SIMPLE)
    for one in found.changes:
        why = one.after.verdict.partition("\n")[0]
        table.add_row(Text(one.student), f"{one.before.points:g}", f"{one.after.points:g}", Text(_printable(why)))
    if found.changes:
        out.print(table)
    same = len(found.marks) - len(found.changes)
    out.print(f"{found.exercise}: other points for {len(found.changes)}, the same for {same}.")
    for student, reason in sorted(found.left_out.items()):
        _say(f"{student}: left as it was; {reason}")
    if found.others_changed:
        names = ", ".join(found.others_changed)
        _say(f"What judges {names} changed too. A plain `torchkata grade` grades everything anew.")


def _list_similar(chapter: Chapter, names: list[str] | None) -> None:
    from torchkata.tools.grading.similar import pairs_of_class

    pairs = pairs_of_class(chapter, names)
    for pair in pairs[:PAIRS_SHOWN]:
        alike = ", ".join(f"{exercise} {ratio:.0%}" for exercise, ratio in pair.alike.items())
        _say(f"{pair.one} and {pair.other}: {alike}")
    if len(pairs) > PAIRS_SHOWN:
        out.print(f"... and {len(pairs) - PAIRS_SHOWN} more pairs.")
    out.print(
        f"{len(pairs)} pairs with near copies, whatever their names and comments. This is a hint, no proof: read both "
        "answers. No mark was changed.",
        soft_wrap=True,
    )


def _say(text: str) -> None:
    out.print(Text(_printable(text)), soft_wrap=True)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
