"""Collect what students handed in, from all sources that a teacher names."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from torchkata.tools.collecting.archives import Archive
from torchkata.tools.collecting.errors import NotTaken
from torchkata.tools.collecting.repositories import Found, Repository, clone, notebooks_in, repository_at
from torchkata.tools.collecting.students import Students
from torchkata.tools.collecting.taking import Outcome, stage, take
from torchkata.tools.course import Chapter
from torchkata.tools.course_config import course_config
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import Release, read_release
from torchkata.tools.grading.desk import LOCK
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import NotGradable
from torchkata.tools.grading.timestamps import time_of
from torchkata.tools.grading.unwrapping import NoNotebook, notebook_in

UNFINISHED = ".collecting-"  # how the folder's name begins in which submissions wait
Progress = Callable[[int, int], None]  # sources read, sources in all


@dataclass(frozen=True)
class Order:
    """What to collect. every: the chapters were named, so that one which is missing is told. before: as it was written;
    prefix: what the repositories' names begin with; replace: also what is not newer."""

    chapters: list[Chapter]
    every: bool = False
    before: str | None = None
    prefix: str = ""
    replace: bool = False


@dataclass(frozen=True)
class _Staged:
    source: str
    student: str
    chapter: Chapter
    folder: Path
    when: datetime | None
    notes: list[str] = field(default_factory=list)


def collect(words: list[str], order: Order, progress: Progress = lambda done, total: None) -> list[Outcome]:
    """Bring what these sources hold into submitted/; what became of each, in order.

    A source is a folder of clones, one clone, an address for git, a file with one of these a line, or the zip file of
    an LMS. Raises CourseError where a source can't be used at all, or a time; then nothing has changed.
    """
    root = order.chapters[0].root
    sources = [source for word in words for source in _sources(word)]
    try:
        with FileLock(root / LOCK, timeout=0):
            for left in root.glob(f"{UNFINISHED}*"):  # by a run that was killed
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=root) as folder:
                return _Collecting(order, Path(folder)).work(sources, progress)
    except Timeout:
        raise CourseError("A grading run is at work in this course. Wait for its end, then try again.") from None
    except OSError as error:
        raise CourseError(
            f"{error.filename or root} can't be read or written: {error.strerror or error}. What was collected is "
            "kept. Mend that, then run the same command again."
        ) from None


# ---------------------------------------------------------------- sources


def _sources(word: str) -> Iterator[Repository | Path | Outcome]:
    """The repositories and archives that a word names, and what in a folder is none."""
    path = Path(word).expanduser()
    if repository := repository_at(word):
        yield repository
    elif path.is_dir():
        yield from _in_folder(path)
    elif not path.is_file():
        raise CourseError(f"There is no folder or file {word}, and it is no address for git.")
    elif zipfile.is_zipfile(path):
        yield path
    elif path.suffix.lower() == ".zip":
        raise CourseError(f"{path} is a damaged zip file. Download it again.")
    else:
        yield from _in_list(path)


def _in_folder(folder: Path) -> Iterator[Repository | Outcome]:
    inner = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    found = [None if one.is_symlink() else repository_at(str(one)) for one in inner]
    if not any(found):
        raise CourseError(f"{folder} is no git repository, and there is none in it.")
    for one, repository in zip(inner, found, strict=True):
        what = "a symbolic link. Links are not followed" if one.is_symlink() else "no git repository"
        yield repository or Outcome(one.name, "not taken", f"The folder is {what}.")


def _in_list(path: Path) -> Iterator[Repository]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise CourseError(f"{path} is neither a list of addresses nor a zip file.") from None
    entries = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    entries = [(number, line) for number, line in entries if line and not line.startswith("#")]
    if not entries:
        raise CourseError(f"{path} lists no address.")
    for number, line in entries:
        repository = repository_at(line)
        if repository is None:
            raise CourseError(f"{path}, line {number}: {line[:100]} is neither an address for git nor a clone.")
        yield repository


# ---------------------------------------------------------------- reading and taking


class _Collecting:
    def __init__(self, order: Order, folder: Path):
        self._order, self._folder = order, folder
        self._root = order.chapters[0].root
        config = course_config(self._root)
        self._zone = config.get("Exchange", {}).get("timezone", "UTC")
        self._before = None if order.before is None else time_of(order.before, self._zone)
        self._students = Students.of_class(self._root, order.prefix)
        self._releases: dict[str, Release] = {}
        self._count = 0
        self._outcomes: list[Outcome] = []

    def work(self, sources: list[Repository | Path | Outcome], progress: Progress) -> list[Outcome]:
        if any(isinstance(source, Path) for source in sources):
            self._need_one_chapter()
        staged: list[_Staged] = []
        for number, source in enumerate(sources):
            progress(number, len(sources))
            if isinstance(source, Outcome):
                self._outcomes.append(source)
            elif source in sources[:number]:
                self._leave(source.shown if isinstance(source, Repository) else source.name, "It was named twice.")
            elif isinstance(source, Repository):
                staged += self._from_repository(source)
            else:
                staged += self._from_archive(source)
        progress(len(sources), len(sources))
        for one in staged:
            self._take(one, [other for other in staged if other is not one])
        return self._outcomes

    def _need_one_chapter(self) -> None:
        if len(self._order.chapters) != 1:
            raise CourseError("An LMS's archive is of one assignment. Say which chapter it is: --chapter 03")
        if self._before is not None:
            raise CourseError("--before is for repositories: an LMS's archive doesn't say when a file was handed in.")

    def _new_folder(self) -> Path:
        self._count += 1
        return self._folder / str(self._count)

    def _leave(self, source: str, why: str, student: str = "", chapter: str = "") -> None:
        self._outcomes.append(Outcome(source, "not taken", why, student, chapter))

    def _from_repository(self, repository: Repository) -> Iterator[_Staged]:
        student = ""
        try:
            student = self._students.with_repository(repository.name, repository.owner)
            bare = self._new_folder()
            clone(repository, bare)
            for chapter, found in notebooks_in(bare, self._order.chapters, self._before, self._order.every):
                if isinstance(found, Found):
                    yield from self._stage(repository.shown, student, chapter, found.content, found.when)
                else:
                    self._leave(repository.shown, str(found), student, chapter.name)
        except NotTaken as error:
            self._leave(repository.shown, str(error), student)

    def _from_archive(self, path: Path) -> Iterator[_Staged]:
        [chapter] = self._order.chapters
        with Archive(path) as archive:
            handed, left_out = archive.read()
            for name, error in left_out:
                self._leave(f"{path.name}: {name}", str(error))
            for one in handed:
                source, student = f"{path.name}: {one.who}", ""
                try:
                    student = self._students.in_lms(one.who)
                    unpacked = self._new_folder()
                    notes: list[str] = []
                    archive.unpack(one, unpacked)
                    content = notebook_in(unpacked, f"{chapter.topic}.ipynb", notes)
                except (NotTaken, NoNotebook) as error:
                    self._leave(source, str(error), student, chapter.name)
                else:
                    yield from self._stage(source, student, chapter, content, None, notes)

    def _stage(
        self,
        source: str,
        student: str,
        chapter: Chapter,
        content: bytes,
        when: datetime | None,
        notes: list[str] | None = None,
    ) -> Iterator[_Staged]:
        """A submission in a folder of its own; an untouched notebook is none."""
        if content == chapter.release.read_bytes():
            if self._order.every:
                self._leave(source, "The notebook is as it was handed out.", student, chapter.name)
            return
        folder = self._new_folder()
        stage(folder, chapter, content, when)
        said = read_submission(folder, student, chapter, self._release(chapter))
        damaged = [f"It can't be graded: {said.reason}"] if isinstance(said, NotGradable) else []
        future = ["Its commit says a time that is still to come."] if when and when > _now() else []
        yield _Staged(source, student, chapter, folder, when, [*(notes or []), *damaged, *future])

    def _release(self, chapter: Chapter) -> Release:
        if chapter.name not in self._releases:
            self._releases[chapter.name] = read_release(chapter)
        return self._releases[chapter.name]

    def _take(self, one: _Staged, others: list[_Staged]) -> None:
        twins = [o.source for o in others if (o.student, o.chapter) == (one.student, one.chapter)]
        if twins:
            why = f"{', '.join(twins)} holds this chapter of the same student. Name only one of them."
            return self._leave(one.source, why, one.student, one.chapter.name)
        try:
            what, why = take(one.folder, one.chapter, one.student, self._zone, self._order.replace)
        except NotTaken as error:
            return self._leave(one.source, str(error), one.student, one.chapter.name)
        told = " ".join(filter(None, [why, *one.notes]))
        self._outcomes.append(Outcome(one.source, what, told, one.student, one.chapter.name, one.when))


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
