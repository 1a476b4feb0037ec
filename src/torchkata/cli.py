"""The command torchkata: reads the command line, calls the tools, prints what they return."""

import io
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from torchkata import __version__, cli_teachers
from torchkata.tools.course import Chapter, CourseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from torchkata.tools.learning.checking import Progress as CheckProgress
    from torchkata.tools.learning.checking import Tell as CheckTell
    from torchkata.tools.learning.outcomes import Verdict
    from torchkata.tools.placing import Place

app = typer.Typer(
    help="A course on how PyTorch really works.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
LEARNERS, TEACHERS, AUTHORS = "For learners", "For teachers", "For authors"  # groups of commands in the help
new = typer.Typer(help="Begin something new: an exercise.", no_args_is_help=True)
app.add_typer(new, name="new", rich_help_panel=AUTHORS)
# packages that learning does without, and the extra that brings them
EXTRAS = {
    "jinja2": "classroom",
    "jupytext": "build",
    "nbgrader": "classroom",
    "rapidfuzz": "classroom",
    "sqlalchemy": "classroom",
}
A_CHECKOUT = "a checkout of the course"
RELOAD = "Is the notebook open in JupyterLab? Choose File, Reload Notebook from Disk."
out = Console()
err = Console(stderr=True)

Chapters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CHAPTER]...", help="03, gather_scatter or 03_gather_scatter; all when left out."),
]


def _mendable() -> tuple[type[Exception], ...]:
    """Errors that a user can mend. Facts are loaded only for one that has come."""
    from torchkata.facts.collection import FactError

    return CourseError, FactError


def main() -> None:
    """Run the command; what a user can mend is said in a message, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without √ or — shows a question mark
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        extra = Text(f"pip install 'torchkata[{EXTRAS[error.name]}]'")
        err.print(
            f"This command needs {error.name}, which learning does not. In a checkout: make install. Else:", extra
        )
        sys.exit(2)
    except Exception as error:
        if not isinstance(error, _mendable()):
            raise
        err.print(Text(str(error)), soft_wrap=True)
        sys.exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"torchkata {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """A course on how PyTorch really works."""


@app.command(
    rich_help_panel=LEARNERS,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    options_metavar="[FOLDER] [OPTIONS]",
)
def lab(context: typer.Context) -> None:
    """Open JupyterLab on your workbook; make it where there is none, in FOLDER or in torchkata/.

    Options of `jupyter lab` are passed on, such as --no-browser.
    """
    from torchkata.tools.learning.lab import need_jupyterlab, start_lab

    named, options = _folder_and_options(context.args)
    need_jupyterlab()
    start_lab(options, _filled(named))


@app.command(rich_help_panel=LEARNERS)
def workbook(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Where to; when left out: yours, else torchkata/.")
    ] = None,
) -> None:
    """Make your workbook, or put new chapters into it, without starting JupyterLab: for VS Code and other editors."""
    out.print(Text(f"Your workbook: {_filled(folder).workbook}"), soft_wrap=True)


def _folder_and_options(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The folder comes first; what follows is JupyterLab's, also the values of its options."""
    if arguments and not arguments[0].startswith("-"):
        return Path(arguments[0]), arguments[1:]
    return None, arguments


def _filled(folder: Path | None) -> "Place":
    """The place of the workbook in a folder, made and filled; what is new in it is said."""
    from torchkata.tools.learning.workbook import fill_workbook
    from torchkata.tools.placing import place_for

    place = place_for(folder)
    placed = fill_workbook(place)
    for one in placed:
        if one.state == "copied":
            out.print(f"New in your workbook: {one.chapter.name}")
    _offer_updates([one.chapter for one in placed if one.state == "outdated"])
    return place


def _offer_updates(outdated: list[Chapter]) -> None:
    if not outdated:
        return
    out.print(f"There are newer releases of: {', '.join(chapter.name for chapter in outdated)}.", soft_wrap=True)
    if sys.stdin.isatty() and typer.confirm("Take them now? Your answers are carried over, and a backup is kept."):
        _update(outdated)
    else:
        out.print("Your copies stay as they are. To take the new ones, with your answers: torchkata update")


def _update(chosen: list[Chapter]) -> bool:
    """Update chapters and say what was done; False when one could not be."""
    from torchkata.tools.learning.update import update

    failed = changed = False
    for chapter in chosen:
        try:
            done = update(chapter)
        except CourseError as error:  # the other chapters can be updated all the same
            err.print(Text(str(error)), soft_wrap=True)
            failed = True
            continue
        if done.state == "current":
            out.print(f"{chapter.name}: up to date")
            continue
        changed = True
        out.print(f"{chapter.name}: {done.state}. Answers carried over: {done.answers}; cells of your own: {done.own}.")
        for note in done.notes:
            out.print(Text(f"  {note}"), soft_wrap=True)
        out.print(Text(f"  Your copy as it was: {done.backup}"), soft_wrap=True)
    if changed:
        out.print(RELOAD)
    return not failed


@app.command(rich_help_panel=LEARNERS)
def update(chapter: Chapters = None) -> None:
    """Bring your copies up to the newest release, with your answers in them; mend copies that are damaged."""
    from torchkata.tools.course import find_chapters

    chosen, missing = find_chapters(chapter, with_pages=True), []
    if chapter is None:
        missing = [one.name for one in chosen if not one.workbook.exists() and one.release.is_file()]
        chosen = [one for one in chosen if one.workbook.exists()]
        if not chosen:
            raise CourseError("There is no workbook yet. Run `torchkata lab`: it makes one and opens it.")
    done = _update(chosen)
    if missing:
        out.print(f"Not in your workbook yet: {', '.join(missing)}. `torchkata lab` puts it there.", soft_wrap=True)
    if not done:
        raise typer.Exit(2)


@app.command(rich_help_panel=LEARNERS)
def reset(
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="Its id or number: one-hot or 3.4.")],
) -> None:
    """Begin an exercise anew: its answer cell gets the stub back, and your answer stays as a text below it."""
    from torchkata.tools.learning.exercises import find_exercise
    from torchkata.tools.learning.exercises import reset as reset_exercise

    chapter, found = find_exercise(exercise)
    if reset_exercise(chapter, found):
        out.print(
            f"{found.id} in {chapter.name} is as it was at the beginning. Your answer stands below its check cell."
        )
        out.print(RELOAD)
    else:
        out.print(f"{found.id} is as it was at the beginning already.")


@app.command(rich_help_panel=LEARNERS)
def solution(
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="Its id or number: one-hot or 3.4.")],
    peek: Annotated[bool, typer.Option("--peek", help="Show it though the exercise is not solved yet.")] = False,
) -> None:
    """Show the author's solution of an exercise that you have solved."""
    from rich.syntax import Syntax

    from torchkata.tools.learning.exercises import find_exercise
    from torchkata.tools.learning.exercises import solution as solution_of

    chapter, found = find_exercise(exercise)
    text = solution_of(chapter, found, peek)
    out.print(f"{found.title} ({chapter.name})")
    out.print(
        Syntax(text, "python", background_color="default", word_wrap=True) if out.is_terminal else Text(text),
        soft_wrap=True,
    )


@app.command(rich_help_panel=LEARNERS)
def report(
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="Its id or number: one-hot or 3.4.")],
) -> None:
    """Write down all that is needed to judge a verdict that you doubt: to be sent to those who make the course."""
    from torchkata.tools.learning.exercises import find_exercise
    from torchkata.tools.learning.report import report as write_report

    chapter, found = find_exercise(exercise)
    with out.status("Running your answer ..."):
        text, path = write_report(chapter, found)
    out.print(Text(text), soft_wrap=True)
    out.print(
        Text(f"Saved as {path}. Look it through, say there why you doubt the verdict, and send it."), soft_wrap=True
    )


@app.command(rich_help_panel=LEARNERS)
def doctor() -> None:
    """Report what this machine and this installation have, and what to do about what is missing."""
    from torchkata.tools.doctor import examine

    findings = examine()
    table = Table(show_header=False, box=None)
    for finding in findings:
        table.add_row(finding.what, Text(finding.value), "" if finding.state == "good" else finding.state)
    out.print(table)
    for finding in findings:
        if finding.advice:
            out.print(Text(f"\n{finding.what}: {finding.advice}"), soft_wrap=True)
    broken = any(finding.state == "broken" for finding in findings)
    out.print("\nThe course cannot run like this." if broken else "\nThe course can run here.")
    raise typer.Exit(int(broken))


@app.command(rich_help_panel=LEARNERS)
def facts(
    chapter: Chapters = None,
    id: Annotated[list[str] | None, typer.Option(help="Only the fact with this id; may be repeated.")] = None,
) -> None:
    """Run the proofs of the facts and print a table per chapter; exit code 1 when one no longer holds."""
    from torchkata.tools.proofs import choose, run_proofs, skip_reasons, summarise

    chosen = choose(chapter or [], id or [])
    with out.status("Running the proofs ..."):
        results = run_proofs(fact for chapter_facts in chosen.values() for fact in chapter_facts)
    table = Table(Column("chapter", no_wrap=True), box=SIMPLE)
    for title in ("facts", "core", "passed", "skipped", "failed", "seconds"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, chapter_facts in chosen.items():
        table.add_row(*summarise(name, chapter_facts, results))
    out.print(table)
    if reasons := skip_reasons(results.values()):
        out.print(f"Skipped: {reasons}")
    failed = [fact for group in chosen.values() for fact in group if results[fact.id].state == "failed"]
    for fact in failed:
        out.print(Text(f"\n{fact.id} no longer holds: {fact.fact}\n{results[fact.id].detail.rstrip()}"))
    raise typer.Exit(int(bool(failed)))


@app.command(rich_help_panel=LEARNERS)
def check(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHAPTER|EXERCISE]...",
            help="A chapter (03 or gather_scatter) or an exercise (3.4 or segment-mean); all chapters when left out.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever a notebook is saved.")] = False,
) -> None:
    """Check your answers: a verdict and the points for every exercise. Exit code 0 only when all is solved."""
    from torchkata.tools.learning.checking import check_chapters
    from torchkata.tools.learning.exercises import find_checkable
    from torchkata.tools.learning.hiding import hiding_notes

    chosen = find_checkable(what)
    for note in hiding_notes(next(iter(chosen)).place.workbook) if chosen else ():
        err.print(Text(note), soft_wrap=True)
    left_out: list[tuple[Chapter, str]] = []
    with _progress_line() as progress:
        results = check_chapters(chosen, progress=progress, tell=_into(left_out))
    for checked, verdicts in zip(chosen, results, strict=True):
        _print_checked(checked, verdicts)
    _print_left_out(left_out)
    if watch:
        _watch(chosen, dict(zip(chosen, results, strict=True)))
    if any(isinstance(verdicts, CourseError) for verdicts in results):
        raise typer.Exit(2)
    found = [verdict for verdicts in results if not isinstance(verdicts, CourseError) for verdict in verdicts]
    raise typer.Exit(int(not all(verdict.solved for verdict in found)))


@app.command(rich_help_panel=LEARNERS)
def review(
    chapter: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHAPTER]...", help="Chapters that you have read: 03 or gather_scatter."),
    ] = None,
    exercise: Annotated[
        bool, typer.Option("--exercise", help="Offer an exercise that you solved more than three weeks ago.")
    ] = False,
) -> None:
    """Ten questions about what you have read, in five minutes; they come back when you are about to forget."""
    from torchkata.tools.course import find_chapters
    from torchkata.tools.placing import here

    place = here()
    if exercise:
        _repeat_exercise(place)
        return
    from torchkata.tools.learning.review import begin
    from torchkata.tools.learning.review_terminal import run_session

    read = find_chapters(chapter, place) if chapter else []
    session = begin(place, read=read)
    for note in session.notes:
        err.print(Text(note), soft_wrap=True)
    if not session.read:
        raise CourseError("No check of a chapter was run yet. Name a chapter that you have read: torchkata review 03")
    if not session.cards:
        out.print("No card is due. Come back tomorrow, or name a further chapter that you have read.")
        return
    run_session(place, session, out, out.input)


def _repeat_exercise(place: "Place") -> None:
    from torchkata.tools.learning.again import repeat

    found, notes = repeat(place)
    for note in notes:
        out.print(Text(note), soft_wrap=True)
    if found is None:
        out.print("No exercise is due: each is offered three weeks after it was solved.")
        return
    begun = "You have begun" if found.begun else "Once more, with a fresh stub:"
    out.print(Text(f"{begun} {found.exercise.title or found.exercise.id} ({found.chapter.name})."), soft_wrap=True)
    out.print(Text(f"Open {found.path}. Your old answer stays in its chapter."), soft_wrap=True)


@contextmanager
def _progress_line() -> "Iterator[CheckProgress]":
    """One line for each chapter that is being checked, gone when it is done; none where nobody looks on."""
    columns = "{task.description}", BarColumn(20), MofNCompleteColumn(), "{task.fields[what]}", TimeElapsedColumn()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bars:
        tasks: dict[Chapter, TaskID] = {}

        def show(chapter: Chapter, done: int, total: int, what: str) -> None:
            if chapter not in tasks:
                tasks[chapter] = bars.add_task(chapter.name, total=total, what=what)
            bars.update(tasks[chapter], completed=done, total=total, what=what, visible=done < total)

        yield show


def _watch(
    chosen: "Mapping[Chapter, Collection[str] | None]", known: "dict[Chapter, list[Verdict] | CourseError]"
) -> None:
    """Check each chapter again when it is saved, and print what has changed; never ends."""
    from torchkata.tools.learning.checking import check_chapters, saved_chapters

    out.print("Watching the workbook; Ctrl + C ends it.")
    for saved in saved_chapters(chosen):
        left_out: list[tuple[Chapter, str]] = []
        with _progress_line() as progress:
            [verdicts] = check_chapters({saved: chosen[saved]}, progress=progress, tell=_into(left_out))
        out.print(
            f"{datetime.now():%H:%M:%S} {saved.name} was saved.", "" if verdicts != known[saved] else "Nothing changed."
        )
        if verdicts != known[saved]:
            _print_checked(saved, verdicts, known[saved])
        _print_left_out(left_out)
        known[saved] = verdicts


def _into(told: list[tuple[Chapter, str]]) -> "CheckTell":
    return lambda chapter, sentence: told.append((chapter, sentence))


def _print_left_out(told: list[tuple[Chapter, str]]) -> None:
    """Each sentence on cells that were not run to their end, once."""
    for chapter, sentence in dict.fromkeys(told):
        err.print(Text(f"{chapter.name}: {sentence}"), soft_wrap=True)


def _print_checked(
    chapter: Chapter, verdicts: "list[Verdict] | CourseError", before: "Sequence[Verdict] | CourseError" = ()
) -> None:
    """A table of verdicts; but for those that are as they were before."""
    if isinstance(verdicts, CourseError):
        err.print(Text(str(verdicts)), soft_wrap=True)
    elif not verdicts:
        out.print(f"{chapter.name} holds no exercises.")
    else:
        known = [] if isinstance(before, CourseError) else before
        _print_verdicts(chapter, verdicts, [verdict for verdict in verdicts if verdict not in known])


def _print_verdicts(chapter: Chapter, verdicts: "list[Verdict]", shown: "list[Verdict]") -> None:
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


for teachers_command in (cli_teachers.course, cli_teachers.grade):
    app.command(rich_help_panel=TEACHERS)(teachers_command)


@app.command(rich_help_panel=AUTHORS)
def build(
    chapter: Chapters = None,
    force: Annotated[bool, typer.Option("--force", help="Build also what has not changed.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Build nothing; say what is out of date, with exit code 1.")
    ] = False,
    colab: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Build nothing; write the release into OUT, each with a cell that installs."),
    ] = None,
) -> None:
    """Build the executed solutions and the released notebooks from the chapters' sources."""
    if colab is not None:
        _write_for_colab(chapter, colab)
        return
    from torchkata.tools.build import stale
    from torchkata.tools.course import find_chapters, own_course

    root = own_course("Building", A_CHECKOUT)
    reasons = {found: stale(found) for found in find_chapters(chapter, root, with_pages=True)}
    for found, reason in reasons.items():
        if reason is None and not force:
            out.print(f"{found.name}: up to date")
        elif check:
            out.print(f"{found.name}: {reason}. Run `torchkata build {found.number}`.", soft_wrap=True)
        else:
            _build(found)
    raise typer.Exit(int(check and any(reasons.values())))


def _write_for_colab(chapter: list[str] | None, folder: Path) -> None:
    from torchkata.tools.colab import write_for_colab
    from torchkata.tools.course import find_chapters

    for path in write_for_colab(find_chapters(chapter, with_pages=True), folder):
        out.print(Text(f"written: {path}"), soft_wrap=True)


@new.command("exercise")
def exercise_(
    chapter: Annotated[str, typer.Argument(help="06, hooks or 06_hooks.")],
    exercise: Annotated[str, typer.Argument(metavar="ID", help="Small letters, digits and dashes: capture-features.")],
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="The exercise before it; default: the last one.")
    ] = None,
) -> None:
    """Begin an exercise: write its source, its answers file and its line in the chapter, with TODOs to be filled."""
    from torchkata.tools.course import find_chapters, own_course
    from torchkata.tools.new_exercise import new_exercise

    [found] = find_chapters([chapter], own_course("A new exercise", A_CHECKOUT))
    for path in new_exercise(found, exercise, after):
        out.print(f"written: {path.relative_to(found.root)}", soft_wrap=True)
    out.print(
        f"Fill in every TODO, re-cut the chapter's points to 20, then: torchkata build {found.number} && "
        f"make test CHAPTER={found.number}",
        soft_wrap=True,
    )


def _build(chapter: Chapter) -> None:
    from torchkata.tools.build import build

    with Progress("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("cells"), console=out) as bars:
        bar = bars.add_task(chapter.name)
        build(chapter, lambda done, total: bars.update(bar, completed=done, total=total))


@app.command(rich_help_panel=AUTHORS)
def record(chapter: Annotated[str, typer.Argument(help="03, gather_scatter or 03_gather_scatter.")]) -> None:
    """Record what a chapter's CUDA demos print on this machine."""
    from torchkata.tools.course import find_chapters, own_course
    from torchkata.tools.recordings import record as record_demos

    for found in find_chapters([chapter], own_course("Recording", A_CHECKOUT)):
        for path in record_demos(found):
            out.print(f"Recorded {path.parent.name}/{path.name}")
