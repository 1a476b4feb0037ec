"""How a learner's cell stopped, in the words that its learner and the teacher read."""

from __future__ import annotations

import re
import sys

from torchkata.tools.grading.records import OWN_CELL

MAX_MESSAGE = 300  # characters of an error's message
MOST = 5  # own cells that a record names
PLACE = re.compile(r" \([^()]*, line (\d+)\)$")  # in the message of a SyntaxError: the name that the cell has inside
PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
OF_A_STUB = "NotImplementedError"


def how_it_stopped(error: dict, source: str) -> str:
    """What a cell with this source raised, and in which of its lines: ImportError: cannot import name 'x' (line 2).

    `error` is what a `CellReply` says of it. Of a syntax error it says in which Python: the learner's may be newer.
    """
    message = next(iter(error["message"].splitlines()), "")[:MAX_MESSAGE]
    told = ": ".join(part for part in (error["types"][0], PLACE.sub(rf" (line \1, in {PYTHON})", message)) if part)
    line = None if PLACE.search(message) else _line(error["frames"], source)
    return told if line is None else f"{told} (line {line})"


def stub_was_left(error: dict) -> bool:
    """Whether it is what the stub of an exercise raises, which a learner may leave as it is."""
    return error["types"][0] == OF_A_STUB


def own_cell(source: str) -> str:
    """The note on a cell of the learner's own, by its first line, as far as its subject."""
    first = next(iter(source.strip().splitlines()), "")[:60]
    return f"{OWN_CELL} ({first!r})"


def few(notes: list[str]) -> list[str]:
    """The first of the notes, and how many more there are."""
    more = len(notes) - MOST
    return notes if more <= 0 else [*notes[:MOST], f"{more} more cells of the learner's own stopped."]


def _line(frames: list[list], source: str) -> int | None:
    """The line of the cell itself from which the error came; None where that is not known for sure."""
    lines = source.splitlines()
    for line, where, code in frames[:1]:
        if where == "<module>" and 0 < line <= len(lines) and lines[line - 1].strip() == code:
            return line
    return None
