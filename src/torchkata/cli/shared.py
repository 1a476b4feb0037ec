"""What the commands of all audiences share: the application that they join, both consoles, and arguments."""

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
    """Print text as it is, one line for each of its lines: a path in it can be copied, a bracket is no markup."""
    out.print(Text(text), soft_wrap=True)


def warn(text: str) -> None:
    """Like `say`, on stderr."""
    err.print(Text(text), soft_wrap=True)


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
