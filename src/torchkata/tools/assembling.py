"""Put a chapter's source together: what is read, with each exercise's file in the place of its line.

solutions/06_hooks/hooks.py                         prose, demos, and a line for each exercise:
                                                    # %% exercise="capture-features"
solutions/06_hooks/exercises/capture_features.py    one exercise whole: task, answer cell, helpers, check cells

Of the helpers those that visible tests use become one cell; those that only hidden tests use are written into these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from torchkata.base.chapter import file_name
from torchkata.base.names import names_of
from torchkata.base.shared_helpers import Helper, helpers_cell, helpers_in, shown, with_helpers
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError

CELL = re.compile(r"# %%( |$)")
EXERCISE_LINE = re.compile(r'# %% exercise="([^"]*)"$')
PART = re.compile(r'# %%.* ?\b(answer|helpers|check)="([^"]*)"')
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class SourceError(CourseError):
    """A mistake in a chapter's source; the message names the file, the line and the mend."""


@dataclass
class Source:
    """The text of a chapter, and where each of its cells stands: (name of the file, number of the line)."""

    text: str = ""
    places: list[tuple[str, int]] = field(default_factory=list)

    def add(self, line: str, file: str, number: int) -> None:
        if CELL.match(line):
            self.places.append((file, number))
        self.text += line

    def add_cell(self, text: str, file: str, number: int) -> None:
        """Add a whole cell, which begins with its own line; `number` is that line's in the file."""
        self.places.append((file, number))
        self.text += text


@dataclass(frozen=True)
class Part:
    """A cell of an exercise's file: its kind (text, answer, helpers or check), its source with the cell's own line,
    and the number of that line."""

    kind: str
    text: str
    line: int


def exercise_file(chapter: Chapter, exercise: str) -> Path:
    """The file that holds an exercise of the chapter, whether it is there or not."""
    return chapter.exercises_folder / file_name(exercise)


def source_of(text: str, file: str) -> Source:
    """A source that is one text; `file` names it in messages."""
    source = Source()
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        source.add(line, file, number)
    return source


def assembled(chapter: Chapter) -> Source:
    """The chapter's whole source.

    Raises SourceError for an exercise without its line, a line without its file, an exercise that stands twice or in
    the chapter's own file, a file that holds anything but its one exercise, and any other file among them.
    """
    source, used = Source(), []
    for number, line in enumerate(_lines(chapter.source), 1):
        where = f"{chapter.source.name}, line {number}"
        if found := EXERCISE_LINE.match(line.rstrip("\n")):
            if found[1] in used:
                raise SourceError(f"{where}: the exercise {found[1]!r} stands here a second time. Delete the line.")
            used.append(found[1])
            _add_exercise(source, chapter, found[1], where)
            continue
        if found := PART.match(line):
            raise SourceError(
                f"{where}: {found[1]} cells stand in a file of their own. Move the exercise {found[2]!r} to "
                f'exercises/{file_name(found[2])} and write `# %% exercise="{found[2]}"` here.'
            )
        source.add(line, chapter.source.name, number)
    _look_for_strays(chapter, used)
    return source


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def _add_exercise(source: Source, chapter: Chapter, exercise: str, where: str) -> None:
    if not ID.fullmatch(exercise):
        raise SourceError(f"{where}: {exercise!r} is no id. Use small letters, digits and dashes.")
    path = exercise_file(chapter, exercise)
    if not path.is_file():
        raise SourceError(f"{where}: exercises/{path.name} is missing. Write it, or delete the line.")
    file, lines = f"exercises/{path.name}", _lines(path)
    _check_cells([line.rstrip("\n") for line in lines], exercise, file)
    parts = exercise_parts("".join(lines))
    checks = [part.text for part in parts if part.kind == "check"]
    helpers: list[Helper] = []
    in_sight: list[Helper] = []
    for part in parts:
        text = part.text
        try:
            if part.kind == "helpers":
                helpers = helpers_in(part.text)
                in_sight = shown(checks, helpers)
                text = f'# %% helpers="{exercise}"\n{helpers_cell(exercise, in_sight)}\n\n' if in_sight else ""
            if part.kind == "check":
                _refuse_helpers_names(part.text, helpers)
                text = with_helpers(part.text, [one for one in helpers if one not in in_sight])
        except ValueError as error:
            raise SourceError(f"{file}, cell at line {part.line}: {error}") from None
        if text:
            source.add_cell(text, file, part.line)


def _refuse_helpers_names(check: str, helpers: list[Helper]) -> None:
    """Raises ValueError for a check cell that defines a helper's name itself."""
    if both := names_of(check).binds & {one.name for one in helpers}:
        raise ValueError(f"the cell defines {min(both)}, which is a helper's name. Rename or delete one of them.")


def exercise_parts(text: str) -> list[Part]:
    """The cells of an exercise's file, in order."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if CELL.match(line)]
    parts = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        found = PART.match(lines[start])
        parts.append(Part(found[1] if found else "text", "".join(lines[start:end]), start + 1))
    return parts


def _check_cells(lines: list[str], exercise: str, file: str) -> None:
    """An exercise's file holds its text, its answer cell, its helpers if there are any, and its check cells, in this
    order, and nothing else."""
    text, *parts = [line for line in lines if CELL.match(line)] or [""]
    if text != "# %% [markdown]" or lines[0] != text:
        raise SourceError(f"{file}: the file must begin with the exercise's text: `# %% [markdown]`.")
    kinds = [found.groups() if (found := PART.match(line)) else (line, "") for line in parts]
    if kinds[:1] != [("answer", exercise)]:
        raise SourceError(f'{file}: behind the text comes the answer cell, `# %% answer="{exercise}"`.')
    for number, (kind, name) in enumerate(kinds[1:]):
        if (number, kind, name) == (0, "helpers", exercise):
            continue
        if kind == "helpers":
            raise SourceError(
                f'{file}: helpers stand in one cell, `# %% helpers="{exercise}"`, right behind the answer cell. '
                f'Move those of `helpers="{name}"` there.'
            )
        if (kind, name) != ("check", exercise):
            raise SourceError(
                f'{file}: behind the answer cell come check cells of {exercise!r} alone, not `{kind}="{name}"`.'
                if name
                else f"{file}: behind the answer cell come check cells alone, not `{kind}`."
            )


def _look_for_strays(chapter: Chapter, used: list[str]) -> None:
    expected = {file_name(exercise) for exercise in used}
    found = chapter.exercises_folder.iterdir() if chapter.exercises_folder.is_dir() else ()
    for path in sorted(found):
        if path.name in expected or path.name == "__pycache__":
            continue
        exercise = path.stem.replace("_", "-")
        if path.suffix == ".py" and ID.fullmatch(exercise):
            raise SourceError(
                f'exercises/{path.name} stands nowhere in {chapter.source.name}. Write `# %% exercise="{exercise}"` '
                "where it belongs, or delete the file."
            )
        raise SourceError(f"exercises/{path.name} is no exercise. Delete it, or move it elsewhere.")
