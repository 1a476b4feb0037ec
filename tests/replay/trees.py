"""A tree of the course, this one or that of a commit, and the exercises and answers in it."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests.notebooks.answers import sources_in
from torchkata.base.chapter import file_name
from torchkata.base.marks import learners_version
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.course import SIDE_NOTEBOOKS, Chapter, SideNotebook
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place
from torchkata.tools.source import read_source

NEEDED = ("src/torchkata", "solutions", "tests/answers")  # what is taken of a commit
SOLUTION, STUB = "the solution", "the stub"


class CannotReplay(CourseError):
    """What was asked for can't be compared; the message says why."""


@dataclass(frozen=True)
class Exercise:
    """An exercise of a tree: its chapter's setup cell, its check cells (id, source with helpers, points), and its
    answers by kind and name."""

    chapter: str
    name: str
    setup: str
    cells: tuple[tuple[str, str, float], ...]
    answers: dict[str, str] = field(hash=False)

    @property
    def title(self) -> str:
        return f"{self.chapter[:2] if self.chapter not in SIDE_NOTEBOOKS else self.chapter} {self.name}"

    def with_answers_of(self, other: Exercise) -> Exercise:
        """Itself, with the answers that only the other tree has."""
        return replace(self, answers={**other.answers, **self.answers})

    def with_answers_named(self, words: str) -> Exercise:
        """Itself, with the answers that have these words in their names."""
        return replace(self, answers={name: source for name, source in self.answers.items() if words in name})


Exercises = dict[tuple[str, str], Exercise]  # by chapter and id


def exercises_of(root: Path, *, built: bool, chapter: str = "") -> Exercises:
    """The exercises in a tree, of one chapter where it is named ("06", "06_hooks" or "start").

    built: read them from the notebooks, which every commit holds, and not from their sources, whose form may change.
    Raises CannotReplay where there are no answers, and SourceError where a source is faulty.
    """
    folder = root / "tests" / "answers"
    if not folder.is_dir():
        raise CannotReplay("that commit has no tests/answers: it is too old to be replayed")
    found = {}
    for name in sorted(one.name for one in folder.iterdir() if one.name != "__pycache__"):
        if not chapter or name == chapter or name.startswith(f"{chapter}_"):
            known = (SideNotebook if name in SIDE_NOTEBOOKS else Chapter)(Place(root), name)
            found |= {(name, one.name): one for one in _exercises(known, built)}
    return found


def _exercises(chapter: Chapter, built: bool) -> Iterator[Exercise]:
    if built and not chapter.solution.exists():
        raise CannotReplay(f"that commit has no built solution of {chapter.name}: it is too old to be replayed")
    notebook = nbformat.read(chapter.solution, as_version=4) if built else read_source(chapter)
    setup = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for answer, checks in _parts(notebook):
        name = answer.metadata.nbgrader.grade_id
        cells = tuple((cell.metadata.nbgrader.grade_id, cell.source, cell.metadata.nbgrader.points) for cell in checks)
        path = chapter.root / "tests" / "answers" / chapter.name / file_name(name)
        answers = {SOLUTION: answer.source, STUB: learners_version(answer.source)}
        yield Exercise(chapter.name, name, setup, cells, answers | (sources_in(path) if path.exists() else {}))


def _parts(notebook: NotebookNode) -> list[tuple[NotebookNode, list[NotebookNode]]]:
    """Each answer cell, with its check cells."""
    parts: list[tuple[NotebookNode, list[NotebookNode]]] = []
    for cell in whole_checks(notebook.cells):
        if meta := cell.metadata.get("nbgrader"):
            if meta.solution:
                parts.append((cell, []))
            else:
                parts[-1][1].append(cell)
    return parts


# ---------------------------------------------------------------- git


def usual_commit(root: Path) -> str:
    """The last release; where there is none, what stood before the last commit."""
    tagged = _git(root, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    return tagged.stdout.decode().strip() if tagged.returncode == 0 else "HEAD^"


def name_of(root: Path, commit: str) -> str:
    """A commit in words, such as "4ae3b1c A gate for links". Raises CannotReplay for one that is not there."""
    found = _git(root, "log", "-1", "--format=%h %s", commit, "--")
    if found.returncode:
        raise CannotReplay(f"git knows no commit {commit!r}: {found.stderr.decode().strip()}")
    return found.stdout.decode().strip()


def unpack(root: Path, commit: str, folder: Path) -> None:
    """Write what a commit holds of the course into a folder. Raises CannotReplay where it holds none."""
    packed = _git(root, "archive", "--format=tar", commit, *NEEDED)
    if packed.returncode:
        raise CannotReplay(f"{commit} is too old to be replayed: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
