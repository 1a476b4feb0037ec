"""The command torchkata: reads the command line, calls the tools, prints what they return.

One file for each audience; `shared` holds what they have in common. A command imports its tools when it runs.
"""

import io
import sys

from torchkata.cli import authors, learners, teachers
from torchkata.cli.shared import app, warn
from torchkata.tools.course import skip_rare_formats
from torchkata.tools.errors import CourseError

__all__ = ["app", "main"]

# packages that learning does without, and the extra that brings them
EXTRAS = {
    "jinja2": "classroom",
    "jupytext": "build",
    "nbgrader": "classroom",
    "rapidfuzz": "classroom",
    "sqlalchemy": "classroom",
}

for audience in (learners, teachers, authors):  # in the order of the help
    app.add_typer(audience.commands)


def main() -> None:
    """Run the command; what a user can mend is said in a message, with exit code 2."""
    skip_rare_formats()  # before a command imports nbformat
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without √ or — shows a question mark
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        install = f"pip install 'torchkata[{EXTRAS[error.name]}]'"
        warn(f"This command needs {error.name}, which learning does not. In a checkout: make install. Else: {install}")
        sys.exit(2)
    except Exception as error:
        if not isinstance(error, _mendable()):
            raise
        warn(str(error))
        sys.exit(2)


def _mendable() -> tuple[type[Exception], ...]:
    """Errors that a user can mend. Facts are loaded only for one that has come."""
    from torchkata.facts.collection import FactError

    return CourseError, FactError
