"""The commands for learners: their workbook, their answers, what they have read."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.table import Column, Table
from rich.text import Text

from torchkata.cli.shared import Chapters, OneChapter, out, say, warn
from torchkata.tools.errors import CourseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchkata.tools.course import Chapter
    from torchkata.tools.learning.outcomes import Verdict
    from torchkata.tools.learning.update import Updated
    from torchkata.tools.placing import Place

RELOAD = "Is the notebook open in JupyterLab? Choose File, Reload Notebook from Disk."
OneExercise = Annotated[str, typer.Argument(metavar="EXERCISE", help="Its id or number: one-hot or 3.4.")]

commands = typer.Typer()
command = partial(commands.command, rich_help_panel="For learners")


@command(
    "lab",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    options_metavar="[FOLDER] [OPTIONS]",
)
def _lab(context: typer.Context) -> None:
    """Open your workbook in JupyterLab. If there is none yet, create it in FOLDER or in torchkata/.

    Options of `jupyter lab` are passed on, such as --no-browser.
    """
    from torchkata.tools.learning.lab import need_jupyterlab, start_lab

    named, options = _folder_and_options(context.args)
    need_jupyterlab()
    start_lab(options, _filled(named))


@command("workbook")
def _workbook(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="Where; when left out: yours, else torchkata/."),
    ] = None,
) -> None:
    """Create your workbook, or add new chapters to it, without JupyterLab: for VS Code and other editors."""
    say(f"Your workbook: {_filled(folder).workbook}")


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


def _offer_updates(outdated: "list[Chapter]") -> None:
    if not outdated:
        return
    say(f"There are newer releases of: {', '.join(chapter.name for chapter in outdated)}.")
    if sys.stdin.isatty() and typer.confirm("Take them now? Your answers are carried over, and a backup is kept."):
        _update_all(outdated)
    else:
        out.print("Your copies stay as they are. To take the new ones, with your answers: torchkata update")


def _update_all(chosen: "list[Chapter]") -> bool:
    """Update chapters and say what was done; False when one could not be."""
    from torchkata.tools.learning.copies import about_copies
    from torchkata.tools.learning.update import update

    for chapter in chosen:
        for note in about_copies(chapter):
            warn(f"{chapter.name}: {note}")
    return _tell_each((chapter, partial(update, chapter)) for chapter in chosen)


def _tell_each(steps: "Iterable[tuple[Chapter, Callable[[], Updated]]]") -> bool:
    """Take each step and say what it did to a chapter; False when one could not be taken."""
    failed = changed = False
    current: list[str] = []
    for chapter, step in steps:
        try:
            done = step()
        except CourseError as error:  # the other chapters can be updated all the same
            warn(str(error))
            failed = True
            continue
        if done.state == "current":
            current.append(chapter.name)
            continue
        changed = True
        say(f"{chapter.name}: {done.state}. Answers carried over: {done.answers}; cells of your own: {done.own}.")
        for note in done.notes:
            say(f"  {note}")
        say(f"  Your copy as it was: {done.backup}")
    if len(current) == 1:
        say(f"{current[0]} is up to date.")
    elif current:
        say(f"{'The other' if changed or failed else 'All'} {len(current)} notebooks are up to date.")
    if changed:
        say(RELOAD)
    return not failed


@command("update")
def _update(
    chapter: Chapters = None,
    solved: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="NOTEBOOK",
            help="Put the answers in this notebook, from Colab or Kaggle, into your workbook. A folder means each "
            "notebook in it. May be repeated.",
        ),
    ] = None,
) -> None:
    """Bring your chapters up to the newest release, with your answers in them, and repair damaged copies."""
    from torchkata.tools.course import find_chapters
    from torchkata.tools.placing import here

    if solved:
        _bring(solved, chapter)
        return
    chosen, missing = find_chapters(here(), chapter, with_side_notebooks=True), []
    if chapter is None:
        missing = [one.name for one in chosen if not one.workbook.exists() and one.release.is_file()]
        chosen = [one for one in chosen if one.workbook.exists()]
        if not chosen:
            raise CourseError("There is no workbook yet. Run `torchkata lab`: it makes one and opens it.")
    done = _update_all(chosen)
    if missing:
        say(f"Not in your workbook yet: {', '.join(missing)}. `torchkata lab` puts it there.")
    if not done:
        raise typer.Exit(2)


def _bring(solved: list[Path], chapter: list[str] | None) -> None:
    """Put what was written into notebooks elsewhere into the learner's copies, and say what was done."""
    from torchkata.tools.course import find_chapters
    from torchkata.tools.learning.elsewhere import chapters_solved
    from torchkata.tools.learning.update import bring
    from torchkata.tools.placing import here

    if chapter:
        raise CourseError("A notebook tells its chapter itself: after --from, leave the chapter out.")
    found = chapters_solved(solved, find_chapters(here(), with_side_notebooks=True))
    if missing := [chapter.name for chapter, _ in found if not chapter.workbook.exists()]:
        raise CourseError(f"Not in your workbook yet: {', '.join(missing)}. `torchkata lab` puts it there.")
    if not _tell_each((chapter, partial(bring, chapter, notebook)) for chapter, notebook in found):
        raise typer.Exit(2)


@command("check")
def _check(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHAPTER|EXERCISE]...",
            help="A chapter (03 or gather_scatter) or an exercise (3.4 or segment-mean); all chapters when left out.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: check what you changed whenever you save a notebook.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Check your answers: a verdict and points for each exercise. The exit code is 0 only if all are solved."""
    from torchkata.cli.verdicts import print_checked, print_json, print_left_out, run_checks, watch_chapters
    from torchkata.tools.learning.exercises import find_checkable
    from torchkata.tools.learning.hiding import hiding_notes
    from torchkata.tools.learning.watching import Watched
    from torchkata.tools.placing import here

    if watch and as_json:
        raise CourseError("--json prints one answer and --watch never ends. Choose one of them.")
    place = here()
    chosen = find_checkable(what, place)
    for note in hiding_notes(place.workbook) if chosen else ():
        warn(note)
    watched = [Watched(chapter, only) for chapter, only in chosen.items()] if watch else []
    results, left_out = run_checks(chosen)
    if as_json:
        print_json(results, left_out)
    else:
        for checked, verdicts in results.items():
            print_checked(checked, verdicts)
        print_left_out(left_out)
    for one in watched:
        found = results[one.chapter]
        one.verdicts = [] if isinstance(found, CourseError) else found
    if watched:
        watch_chapters(watched)
    if any(isinstance(verdicts, CourseError) for verdicts in results.values()):
        raise typer.Exit(2)
    found = [one for verdicts in results.values() if not isinstance(verdicts, CourseError) for one in verdicts]
    raise typer.Exit(int(not all(verdict.solved for verdict in found)))


@command("solution")
def _solution(
    exercise: OneExercise,
    peek: Annotated[bool, typer.Option("--peek", help="Show it even if you have not solved the exercise.")] = False,
) -> None:
    """Show the author's solution of an exercise that you have solved, and other answers to compare yours with."""
    from torchkata.tools.learning.exercises import find_exercise, other_ways, solution
    from torchkata.tools.placing import here

    chapter, found = find_exercise(exercise, here())
    text = solution(chapter, found, peek)
    say(f"{found.title} ({chapter.name})")
    _show_code(text)
    for way in other_ways(chapter, found):
        say(way.about)
        _show_code(f"{way.source}\n")


def _show_code(text: str) -> None:
    from rich.syntax import Syntax

    if out.is_terminal:
        out.print(Syntax(text, "python", background_color="default", word_wrap=True))
    else:
        say(text)


@command("reset")
def _reset(exercise: OneExercise) -> None:
    """Start an exercise again. Its answer cell gets the stub back; your answer is kept as text below it."""
    from torchkata.tools.learning.exercises import find_exercise, reset
    from torchkata.tools.placing import here

    chapter, found = find_exercise(exercise, here())
    if reset(chapter, found):
        say(f"{found.id} in {chapter.name} has its stub again. Your answer is kept as text below its check cell.")
        say(RELOAD)
    else:
        say(f"{found.id} already has its stub: there is no answer to take away.")


@command("review")
def _review(
    chapter: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHAPTER]...", help="Chapters that you have read: 03 or gather_scatter."),
    ] = None,
    exercise: Annotated[
        bool, typer.Option("--exercise", help="Offer an exercise that you solved more than three weeks ago.")
    ] = False,
) -> None:
    """Answer ten questions about what you have read. They come back when you are about to forget."""
    from torchkata.tools.course import find_chapters
    from torchkata.tools.placing import here

    place = here()
    if exercise:
        _repeat_exercise(place)
        return
    from torchkata.tools.learning.review import begin
    from torchkata.tools.learning.review_terminal import run_round

    read = find_chapters(place, chapter) if chapter else []
    this_round = begin(place, read=read)
    for note in this_round.notes:
        warn(note)
    if not this_round.read:
        raise CourseError("No check of a chapter was run yet. Name a chapter that you have read: torchkata review 03")
    if not this_round.cards:
        out.print("No card is due. Come back tomorrow, or name a further chapter that you have read.")
        return
    run_round(place, this_round, out, out.input)


def _repeat_exercise(place: "Place") -> None:
    from torchkata.tools.learning.again import repeat

    found, notes = repeat(place)
    for note in notes:
        say(note)
    if found is None:
        out.print("No exercise is due: each is offered three weeks after it was solved.")
        return
    begun = "You have begun" if found.begun else "Once more, with a fresh stub:"
    say(f"{begun} {found.exercise.title or found.exercise.id} ({found.chapter.name}).")
    say(f"Open {found.path}. Your old answer stays in its chapter.")


@command("skip")
def _skip(chapter: OneChapter) -> None:
    """Show in about ten minutes that you know a chapter: answer its questions, and solve one exercise."""
    from torchkata.tools.learning.skip_terminal import run_trial
    from torchkata.tools.learning.skipping import trial_of
    from torchkata.tools.placing import here

    trial = trial_of(here(), chapter)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CourseError("`torchkata skip` asks questions and waits for your answers. Run it in a terminal.")
    known = run_trial(trial, out, out.input, lambda: _verdict_on(trial.exercise.id, trial.chapter))
    raise typer.Exit(int(not known))


def _verdict_on(exercise: str, chapter: "Chapter") -> "Verdict":
    """Check one exercise as `torchkata check` does, and show the verdict where there is an answer."""
    from torchkata.cli.verdicts import print_checked, print_left_out, run_checks

    results, left_out = run_checks({chapter: {exercise}})
    if isinstance(found := results[chapter], CourseError):
        raise found
    if not found[0].is_open:
        print_checked(chapter, found)
    print_left_out(left_out)
    return found[0]


@command("report")
def _report(exercise: OneExercise) -> None:
    """Write a report on a verdict that you doubt, to send to the authors of the course."""
    from torchkata.tools.learning.exercises import find_exercise
    from torchkata.tools.learning.report import report, where_to_send
    from torchkata.tools.placing import here

    chapter, found = find_exercise(exercise, here())
    with out.status("Running your answer ..."):
        text, path = report(chapter, found)
    say(text)
    say(f"Saved as {path}. Look it through, say there why you doubt the verdict, and {where_to_send()}.")


@command("facts")
def _facts(
    chapter: Chapters = None,
    id: Annotated[list[str] | None, typer.Option(help="Only the fact with this id; may be repeated.")] = None,
) -> None:
    """Run the proofs of the facts, a chapter at a time. The exit code is 1 if one no longer holds."""
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


@command("doctor")
def _doctor() -> None:
    """Check this machine and this installation, and say how to get what is missing."""
    from torchkata.tools.doctor import examine

    findings = examine()
    longest = max(len(finding.what) for finding in findings)
    for finding in findings:
        state = "" if finding.state == "good" else f"  {finding.state}"
        say(f" {finding.what:{longest}}  {finding.value}{state}")
    for finding in findings:
        if finding.advice:
            say(f"\n{finding.what}: {finding.advice}")
    broken = any(finding.state == "broken" for finding in findings)
    out.print("\nThe course cannot run like this." if broken else "\nThe course can run here.")
    raise typer.Exit(int(broken))
