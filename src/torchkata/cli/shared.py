"""What the commands of all audiences share: the application that they join, both consoles, and arguments."""

from textwrap import wrap
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from torchkata import __version__

app = typer.Typer(
    help="A course on how PyTorch really works.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

A_CHAPTER = "03, gather_scatter or 03_gather_scatter"
OneChapter = Annotated[str, typer.Argument(metavar="CHAPTER", help=f"{A_CHAPTER}.")]
Chapters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CHAPTER]...", help=f"{A_CHAPTER}; all when left out."),
]


def say(text: str) -> None:
    """Print text as it is, brackets too. A terminal's lines end between words, and a path that is longer than a line
    stays whole, so that it can be copied; any other output gets one line for each line."""
    _print(out, text)


def warn(text: str) -> None:
    """Like `say`, on stderr."""
    _print(err, text)


def _print(console: Console, text: str) -> None:
    lines = text.split("\n")
    if console.is_terminal:
        lines = [part for line in lines for part in _wrapped(line, console.width)]
    console.print(Text("\n".join(lines)), soft_wrap=True)


def _wrapped(line: str, width: int) -> list[str]:
    """Lines with the indent of the first."""
    indent = line[: len(line) - len(line.lstrip())]
    return wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [line]


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
