"""The marks in the cells that an author writes: `### BEGIN …` and `### END …`, each on a line of its own.

SOLUTION       in an answer cell: the author's answer. A learner gets a stub in its place,
GIVEN          or, where the answer cell has this too, the code between these marks, which is commented out.
HIDDEN TESTS   in a check cell: what is run where the course is at hand, and not released.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

SOLUTION, GIVEN, HIDDEN = KINDS = ("SOLUTION", "GIVEN", "HIDDEN TESTS")
STUB = "raise NotImplementedError  # your code here"
_MARK = re.compile(rf" *### (BEGIN|END) ({'|'.join(KINDS)})")


@dataclass(frozen=True)
class Mark:
    """A mark: whether it begins or ends a region, of which kind, and on which line, counted from 1."""

    begins: bool
    kind: str
    line: int


@dataclass(frozen=True)
class Region:
    """A pair of marks; first and last are their lines, counted from 1; text stands between them, indent before the
    first."""

    first: int
    last: int
    indent: str
    text: str


def marks_in(source: str) -> Iterator[Mark]:
    """All marks of a cell, paired or not."""
    for number, line in enumerate(source.split("\n"), 1):
        if found := _MARK.fullmatch(line):
            yield Mark(found[1] == "BEGIN", found[2], number)


def regions(source: str, kind: str) -> list[Region]:
    """The regions of a kind, in order; a mark without its other half makes none."""
    lines, found, first = source.split("\n"), [], 0
    for mark in (mark for mark in marks_in(source) if mark.kind == kind):
        if mark.begins:
            first = first or mark.line
        elif first:
            indent = lines[first - 1].partition("#")[0]
            found.append(Region(first, mark.line, indent, "\n".join(lines[first : mark.line - 1])))
            first = 0
    return found


def without(source: str, kind: str) -> str:
    """The source without its regions of a kind, marks included."""
    lines = source.split("\n")
    for region in reversed(regions(source, kind)):
        del lines[region.first - 1 : region.last]
    return "\n".join(lines)


def learners_version(source: str) -> str:
    """The source of an answer cell as it is released: with the stub, or the code that the exercise gives."""
    given = regions(source, GIVEN)
    rest = without(source, GIVEN).rstrip("\n") if given else source
    lines = rest.split("\n")
    for region in reversed(regions(rest, SOLUTION)):
        lines[region.first - 1 : region.last] = [_uncommented(given[0]) if given else region.indent + STUB]
    return "\n".join(lines)


def authors_version(source: str) -> str:
    """The source of an answer cell as its author would write it as a learner: without marks and given code."""
    rest = without(source, GIVEN)
    marks = {mark.line for mark in marks_in(rest) if mark.kind == SOLUTION}
    return "\n".join(line for n, line in enumerate(rest.split("\n"), 1) if n not in marks).strip("\n")


def without_hidden_tests(source: str) -> str:
    """The source of a check cell as it is released."""
    return without(source, HIDDEN).rstrip("\n")


def hidden_tests(source: str) -> str:
    """The hidden tests of a check cell alone, on the lines on which they stand in it; empty where it has none."""
    found = regions(source, HIDDEN)
    return "\n" * found[0].first + textwrap.dedent(found[0].text) + "\n" if found else ""


def _uncommented(given: Region) -> str:
    text = given.text.rstrip("\n")
    return "\n".join(re.sub(rf"^{given.indent}# ?", given.indent, line).rstrip() for line in text.split("\n"))
