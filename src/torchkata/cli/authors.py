"""The commands for authors: building, beginning an exercise, trying mutants, recording. They work in a checkout."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from torchkata.cli.shared import Chapters, OneChapter, out, say

if TYPE_CHECKING:
    from torchkata.tools.course import Chapter

A_CHECKOUT = "a checkout of the course"
FOR_AUTHORS = "For authors"

commands = typer.Typer()
command = partial(commands.command, rich_help_panel=FOR_AUTHORS)
new = typer.Typer(help="Start something new: an exercise.", no_args_is_help=True)
commands.add_typer(new, name="new", rich_help_panel=FOR_AUTHORS)


@command("build")
def _build(
    chapter: Chapters = None,
    force: Annotated[bool, typer.Option("--force", help="Also build what has not changed.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Build nothing; list what is out of date. Exit code 1 if anything is."),
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

    place = own_course("Building", A_CHECKOUT)
    reasons = {found: stale(found) for found in find_chapters(place, chapter, with_side_notebooks=True)}
    for found, reason in reasons.items():
        if reason is None and not force:
            out.print(f"{found.name}: up to date")
        elif check:
            out.print(f"{found.name}: {reason}. Run `torchkata build {found.number}`.", soft_wrap=True)
        else:
            _build_one(found)
    raise typer.Exit(int(check and any(reasons.values())))


def _write_for_colab(chapter: list[str] | None, folder: Path) -> None:
    from torchkata.tools.colab import write_for_colab
    from torchkata.tools.course import find_chapters
    from torchkata.tools.placing import here

    for path in write_for_colab(find_chapters(here(), chapter, with_side_notebooks=True), folder):
        say(f"written: {path}")


@new.command("exercise")
def _new_exercise(
    chapter: Annotated[str, typer.Argument(help="06, hooks or 06_hooks.")],
    exercise: Annotated[str, typer.Argument(metavar="ID", help="Small letters, digits and dashes: capture-features.")],
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="The exercise before it; default: the last one.")
    ] = None,
) -> None:
    """Start an exercise: write its source, its answers file and its line in the chapter, with TODOs to fill in."""
    from torchkata.tools.course import find_chapters, own_course
    from torchkata.tools.new_exercise import new_exercise

    [found] = find_chapters(own_course("A new exercise", A_CHECKOUT), [chapter])
    for path in new_exercise(found, exercise, after):
        out.print(f"written: {path.relative_to(found.root)}", soft_wrap=True)
    out.print(
        f"Fill in every TODO, re-cut the chapter's points to 20, then: torchkata build {found.number} && "
        f"make test CHAPTER={found.number}",
        soft_wrap=True,
    )


def _build_one(chapter: "Chapter") -> None:
    from torchkata.tools.build import build

    with Progress("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("cells"), console=out) as bars:
        bar = bars.add_task(chapter.name)
        build(chapter, lambda done, total: bars.update(bar, completed=done, total=total))


@command("record")
def _record(chapter: OneChapter) -> None:
    """Record what a chapter's CUDA demos print on this machine."""
    from torchkata.tools.course import find_chapters, own_course
    from torchkata.tools.recordings import record

    for found in find_chapters(own_course("Recording", A_CHECKOUT), [chapter]):
        for path in record(found):
            out.print(f"Recorded {path.parent.name}/{path.name}")


@command("mutants")
def _mutants(
    chapter: OneChapter,
    exercise: Annotated[
        list[str] | None, typer.Argument(metavar="[EXERCISE]...", help="Ids of exercises; all when left out.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also show the mutants that are refused, and what is said of them.")
    ] = False,
) -> None:
    """Change one token of the solutions at a time; list what still earns full points. Exit code 1 if anything does."""
    from torchkata.tools.course import find_chapters, own_course
    from torchkata.tools.mutants import equivalents, mutants_in, try_out

    [found] = find_chapters(own_course("Trying mutants", A_CHECKOUT), [chapter])
    listed = equivalents(found.root)
    mutants = mutants_in(found, exercise or ())
    accepted = right = 0
    for one in try_out(found, mutants):
        is_right = one.told is None and one.mutant.key in listed.get(one.exercise, {})
        right += is_right
        accepted += one.told is None and not is_right
        if verbose or (one.told is None and not is_right):
            what = "as right as the solution" if is_right else one.told or "earns full points"
            say(f"{one.exercise}, line {one.mutant.line}: {what}\n  - {one.mutant.was}\n  + {one.mutant.now}")
    count = sum(map(len, mutants.values()))
    say(f"{count} mutants: {count - accepted - right} refused, {right} as right as the solution, {accepted} accepted")
    raise typer.Exit(int(accepted > 0))
