"""The commands for teachers: the folder of a class, grading, and what is asked about a graded class."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.box import SIMPLE
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from torchkata.cli.shared import OneChapter, out, say

if TYPE_CHECKING:
    from torchkata.tools.collecting.taking import Outcome
    from torchkata.tools.course import Chapter
    from torchkata.tools.grading.batch import Progress as Tell
    from torchkata.tools.grading.batch import Run
    from torchkata.tools.grading.grader import OpenGrader
    from torchkata.tools.grading.handed_out.overview import Overview
    from torchkata.tools.grading.regrading import Regrading

NOTES_SHOWN = 30
MISTAKES_SHOWN = 2  # of each exercise
PAIRS_SHOWN = 30

Students = Annotated[str | None, typer.Option(help="Only these, with commas between them.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="How many are graded at a time; default: one per core.")]
Results = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Results go into DIR/CHAPTER; default: graded.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Grade on the workers of this Dask scheduler, not here.")
]
NoSandbox = Annotated[
    bool, typer.Option("--no-sandbox", help="Run the students' code unprotected, with your own rights.")
]

One = Annotated[
    Path | None,
    typer.Option("--one", metavar="NOTEBOOK", help="Grade only this notebook, or this folder; no gradebook is needed."),
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="With --one: the result goes into FILE.")]
System = Annotated[
    Literal["gradescope", "prairielearn"], typer.Option("--for", help="With --one: who reads the file of --json.")
]

commands = typer.Typer()
command = partial(commands.command, rich_help_panel="For teachers")


@command("course")
def _course(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An empty or a new folder.")],
    gradescope: Annotated[
        str | None, typer.Option(metavar="CHAPTER", help="Make Gradescope's autograder for this chapter instead.")
    ] = None,
) -> None:
    """Create a class folder: all chapters with solutions, nbgrader's settings, and a page on what to do next."""
    from torchkata.tools.class_folder import make_class_folder

    if gradescope is not None:
        return _make_autograder(folder, gradescope)
    count = make_class_folder(folder)
    say(f"{count} files in {folder}. What to do there: {folder / 'README.md'}")


def _make_autograder(folder: Path, word: str) -> None:
    from torchkata.tools.course import find_chapters
    from torchkata.tools.gradescope import make_autograder
    from torchkata.tools.placing import here

    [chapter] = find_chapters(here(), [word])
    say(
        f"Upload {make_autograder(folder, chapter)} as the autograder of an assignment.\n"
        "It contains the solutions and hidden tests: keep it to yourself.\n"
        "Each submission is graded in a container of its own. If bubblewrap works there, student code can't see the "
        "solutions or change marks. If it doesn't, that code has the grader's rights: it can read the solutions and "
        "write its own marks. If so, the test For the teacher, which students can't see, says it."
    )


@command("collect")
def _collect(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="A folder of clones, an address for git, a file with one a line, or the zip file of Canvas or Moodle.",
        ),
    ],
    chapters: Annotated[
        list[str] | None,
        typer.Option("--chapter", metavar="CHAPTER", help="Only this one, such as 03; may be given several times."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="What was committed until then: '2026-01-31 18:00 Europe/Berlin'."),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="What repositories' names begin with, before the student's name.")
    ] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Take also what is not newer. The earlier one goes to replaced/.")
    ] = False,
) -> None:
    """Bring what students handed in into submitted/: from repositories, or from Canvas' or Moodle's zip file."""
    from torchkata.tools.collecting.collect import Order, collect
    from torchkata.tools.course import find_chapters, own_course

    place = own_course("Collecting", "a class folder, which `torchkata course FOLDER` makes")
    with _bars() as bars:
        bar = bars.add_task("Collecting", total=None)
        order = Order(find_chapters(place, chapters), bool(chapters), before, prefix, replace)
        done = collect(sources, order, lambda now, total: bars.update(bar, completed=now, total=total))
    _print_collected(done)
    raise typer.Exit(int(any(one.what == "not taken" for one in done)))


def _print_collected(outcomes: "list[Outcome]") -> None:
    """What became of each submission, as a table; those that were not taken, and notes, below it as sentences."""
    table = Table("student", "chapter", "handed in (UTC)", "what was done", box=SIMPLE)
    for one in outcomes:
        if one.what != "not taken":
            table.add_row(Text(_printable(one.student)), one.chapter, str(one.handed_in or "unknown"), one.what)
    if table.row_count:
        out.print(table)
    for one in outcomes:
        if one.why:
            chapter = f", {one.chapter}" if one.chapter else ""
            _say(f"{one.source}{chapter}: {'not taken. ' if one.what == 'not taken' else ''}{one.why}")
    counts: Counter[str] = Counter(one.what for one in outcomes)
    out.print(", ".join(f"{counts[what]} {what}" for what in ("new", "newer", "the same", "kept", "not taken")) + ".")


@command("grade")
def _grade(
    chapter: OneChapter,
    students: Students = None,
    jobs: Jobs = None,
    results: Results = None,
    force: Annotated[bool, typer.Option("--force", help="Grade also what has not changed.")] = False,
    scheduler: Scheduler = None,
    no_sandbox: NoSandbox = False,
    one: One = None,
    into: Json = None,
    system: System = "gradescope",
) -> None:
    """Grade the submissions of a chapter: submitted/STUDENT/CHAPTER into gradebook, feedback/ and graded/."""
    found = _chapter_of_class(chapter)
    if one is not None or into is not None:
        if one is None or into is None:
            raise typer.BadParameter("--one NOTEBOOK and --json FILE belong together.")
        if students or jobs or results or scheduler or force:
            raise typer.BadParameter("With --one, only --json, --for and --no-sandbox can be given.")
        return _grade_one(found, one, into, system, not no_sandbox)
    with _grader(found, not no_sandbox, scheduler) as opener:
        from torchkata.tools.grading.batch import grade_chapter

        with _bars() as bars:
            run = grade_chapter(
                found,
                opener,
                students=_names(students),
                jobs=_jobs(jobs),
                scheduler=scheduler,
                out=results,
                force=force,
                sandboxed=not no_sandbox,
                progress=_telling(bars, found),
            )
    _print_run(run)
    raise typer.Exit(int(bool(run.refused or run.cut_off)))


def _grade_one(chapter: "Chapter", submitted: Path, file: Path, system: str, sandboxed: bool) -> None:
    from torchkata.base.writing import write_whole
    from torchkata.tools.grading.handed_out.autograders import SYSTEMS
    from torchkata.tools.grading.records import NotGradable
    from torchkata.tools.grading.single import grade_single

    with _grader(chapter, sandboxed, None) as opener:
        result = grade_single(chapter, submitted, opener)
    write_whole(file, f"{json.dumps(SYSTEMS[system](result), indent=1)}\n")
    if isinstance(result, NotGradable):
        _say(f"Not graded: {result.reason}")
    else:
        _say(f"{result.points:g} of {result.of:g} points: {file}")


@command("regrade")
def _regrade(
    chapter: OneChapter,
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="Its id: one-hot.")],
    students: Students = None,
    jobs: Jobs = None,
    results: Results = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write the marks without asking.")] = False,
    scheduler: Scheduler = None,
    no_sandbox: NoSandbox = False,
) -> None:
    """Grade one exercise again after its check was mended. Shows whose marks change, then asks."""
    found = _chapter_of_class(chapter)
    with _grader(found, not no_sandbox, scheduler) as opener, _bars() as bars:
        from torchkata.tools.grading.regrading import regrade

        def agree(change: "Regrading") -> bool:
            bars.stop()
            _print_changes(change)
            return bool(change.marks) and (yes or typer.confirm("Write these marks?", default=False))

        done = regrade(
            found,
            exercise,
            opener,
            agree,
            students=_names(students),
            jobs=_jobs(jobs),
            scheduler=scheduler,
            out=results,
            progress=_telling(bars, found),
        )
    if done.overview is None:
        out.print("Nothing was written.")
        raise typer.Exit(1)
    _print_overview(done.overview)
    out.print(f"{done.exercise}: {len(done.marks)} marks written, {len(done.changes)} with other points than before.")
    raise typer.Exit(int(bool(done.left_out)))


@command("similar")
def _similar(chapter: OneChapter, students: Students = None) -> None:
    """List answers that are near copies of each other, as a hint. Runs and grades nothing."""
    from torchkata.tools.grading.similar import pairs_of_class

    pairs, too_long = pairs_of_class(_chapter_of_class(chapter), _names(students))
    for student, exercise in too_long:
        _say(f"{student}: the answer to {exercise} is too long to be compared. Look at it.")
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


def _chapter_of_class(word: str) -> "Chapter":
    """The chapter that the word names, in the class folder where the command was started."""
    from torchkata.tools.course import find_chapters, own_course

    place = own_course("Grading", "a class folder, which `torchkata course FOLDER` makes")
    [found] = find_chapters(place, [word])
    return found


@contextmanager
def _grader(chapter: "Chapter", sandboxed: bool, scheduler: str | None) -> "Iterator[OpenGrader]":
    """What opens graders of a chapter; here, the processes that grade begin to load torch at once."""
    from torchkata.tools.grading.grader import grader_of, sharing
    from torchkata.tools.grading.judge import get_ready

    grader = grader_of(chapter, sandboxed=sandboxed)
    if scheduler is not None:
        yield grader
        return
    get_ready()
    with sharing(grader) as shared:
        yield shared


def _jobs(wanted: int | None) -> int:
    from torchkata.base.system import usable_cores

    return wanted or usable_cores()


def _names(students: str | None) -> list[str] | None:
    """The names in a list with commas; None where nobody is named, which means all."""
    return None if students is None else [name.strip() for name in students.split(",") if name.strip()]


def _bars() -> Progress:
    times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"))
    return Progress("{task.description}", BarColumn(), MofNCompleteColumn(), *times, console=out)


def _telling(bars: Progress, chapter: "Chapter") -> "Tell":
    """What tells the bars how far a run is."""
    bar = bars.add_task("Getting ready", total=None)
    return lambda done, total: bars.update(bar, description=chapter.name, completed=done, total=total)


def _print_run(run: "Run") -> None:
    from torchkata.tools.grading.reaching import LOOK
    from torchkata.tools.grading.records import OWN_CELL

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
    noted.sort(key=lambda note: (LOOK not in note, OWN_CELL in note))  # the least of them last
    for note in noted[:NOTES_SHOWN]:
        _say(note)
    if len(noted) > NOTES_SHOWN:
        out.print(f"... and {len(noted) - NOTES_SHOWN} more notes in the records.")
    if unprotected := sum(not record.sandboxed for record in run.records):
        out.print(f"{unprotected} of them without a sandbox: their code could have changed marks.")
    _say(f"Marks: {run.folder / 'marks.csv'}")
    _say(f"The class: {run.folder / 'overview.html'}")


def _print_overview(overview: "Overview") -> None:
    """The class as a table: how many solved each exercise, and what most of the others read; what is odd about it."""
    if overview.graded:
        _print_exercises(overview)
    for note in overview.notes:
        _say(note)


def _print_exercises(overview: "Overview") -> None:
    table = Table("exercise", Column("solved", justify="right"), "most frequent mistakes", box=SIMPLE)
    for one in overview.exercises:
        mistakes = "\n".join(f"{count} × {_printable(text)}" for text, count in one.mistakes[:MISTAKES_SHOWN])
        table.add_row(_title(one.title), f"{one.solved} of {overview.graded}", Text(mistakes))
    out.print(table)


def _title(title: str) -> Text:
    return Text(title.removeprefix("Exercise "))


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


def _say(text: str) -> None:
    """Print text that may hold what a student wrote."""
    say(_printable(text))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
