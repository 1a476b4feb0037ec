"""The repositories of students, which are strangers' data.

Each is cloned without its working tree, even if it is on this disk, because git's copy has neither the hooks nor the
settings of the original. In the copy, files are read out of commits: nothing is checked out, no link is followed, no
submodule entered.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from torchkata.tools.collecting.errors import NotTaken
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.unwrapping import MAX_NOTEBOOK, listed

ADDRESS = re.compile(r"(https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+", re.A)
PROTOCOLS = "file:git:http:https:ssh"  # others start programs
PATIENCE = 300  # seconds for one command
OTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")
LINK, SUBMODULE = "120000", "160000"


@dataclass(frozen=True)
class Repository:
    """Where git finds it, what it is called, whose account it belongs to where its address says so."""

    address: str
    name: str
    owner: str | None = None

    @property
    def shown(self) -> str:
        return without_password(self.address) if ADDRESS.fullmatch(self.address) else Path(self.address).name


@dataclass(frozen=True)
class Found:
    """A notebook in a commit: its content, and when the commit was made that last changed it (UTC, naive)."""

    content: bytes
    when: datetime


@dataclass(frozen=True)
class _File:
    mode: str
    blob: str
    size: int
    path: str


def repository_at(word: str) -> Repository | None:
    """The repository that an address or a folder names; None for what is neither."""
    if ADDRESS.fullmatch(word):
        parts = [part for part in re.split(r"[/:]", word.removesuffix("/")) if part]
        return Repository(word, parts[-1].removesuffix(".git"), parts[-2] if len(parts) > 2 else None)
    folder = Path(word).expanduser()
    if is_repository(folder):
        return Repository(str(folder.resolve()), folder.resolve().name.removesuffix(".git"))
    return None


def is_repository(folder: Path) -> bool:
    """Whether a folder is a clone, with its files or bare. A .git that leads elsewhere makes none."""
    for place in (folder / ".git", folder):
        if place.is_dir() and not place.is_symlink() and (place / "HEAD").is_file() and (place / "objects").is_dir():
            return True
    return False


def clone(repository: Repository, folder: Path) -> None:
    """Copy it into the folder, bare. Raises NotTaken where git can't; CourseError where git is not here."""
    options = ["--bare", "--no-local", "--single-branch", "--no-tags", "--template=", "--quiet"]
    try:
        _git("clone", *options, "--", repository.address, str(folder))
    except NotTaken as error:
        raise NotTaken(f"git can't copy the repository: {error}") from None


def notebooks_in(
    folder: Path, chapters: list[Chapter], before: datetime | None, every: bool
) -> Iterator[tuple[Chapter, Found | NotTaken]]:
    """The notebooks of these chapters in a bare clone, as of the latest commit at or before that time (UTC, naive).

    A chapter that is not there is told with `every`, else passed over. Raises NotTaken where there is none of them.
    """
    tip = _tip(folder, before)
    files = _files_in(folder, tip)
    none = True
    for chapter in chapters:
        wanted = f"{chapter.topic}.ipynb"
        named = [file for file in files if PurePosixPath(file.path).name == wanted]
        if named or every:
            none = False
            try:
                yield chapter, _read(folder, tip, _choose(named, chapter, files))
            except NotTaken as error:
                yield chapter, error
    if none:
        raise NotTaken(f"No chapter's notebook is in it{_instead(files)}.")


def _tip(folder: Path, before: datetime | None) -> str:
    limit = [] if before is None else [f"--min-age={int(before.replace(tzinfo=UTC).timestamp())}"]
    try:
        found = _git("rev-list", "-1", *limit, "HEAD", folder=folder).decode().strip()
    except NotTaken:
        raise NotTaken("The repository has no commit on the branch that its HEAD names.") from None
    if not found:
        raise NotTaken(f"No commit was made until {before:%Y-%m-%d %H:%M:%S} UTC.")
    return found


def _files_in(folder: Path, tip: str) -> list[_File]:
    """The files of a commit; hidden folders, where editors and torchkata keep copies, are passed over."""
    found = []
    for line in _git("ls-tree", "-r", "-l", "-z", "--full-tree", tip, folder=folder).split(b"\0")[:-1]:
        about, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
        mode, _, blob, size = about.split()
        if not any(part.startswith(".") for part in path.split("/")):
            found.append(_File(mode, blob, int(size) if size.isdecimal() else 0, path))
    return found


def _choose(named: list[_File], chapter: Chapter, files: list[_File]) -> _File:
    """Of the files with the notebook's name the one in the chapter's folder, else the only one there is."""
    in_folder = [file for file in named if PurePosixPath(file.path).parent.name == chapter.name]
    found = in_folder or named
    if not found:
        raise NotTaken(f"{chapter.topic}.ipynb is not in it{_instead(files)}.")
    if len(found) > 1:
        raise NotTaken(f"{chapter.topic}.ipynb is in it {len(found)} times: {listed([file.path for file in found])}.")
    [file] = found
    if file.mode == LINK:
        raise NotTaken(f"{listed([file.path])} is a symbolic link. Links are not followed.")
    if file.size > MAX_NOTEBOOK:
        raise NotTaken(f"{listed([file.path])} is larger than {MAX_NOTEBOOK // 2**20} MiB.")
    return file


def _instead(files: list[_File]) -> str:
    notebooks = [file.path for file in files if file.path.endswith(".ipynb")]
    said = f"; these notebooks are: {listed(notebooks)}" if notebooks else ""
    return said + ("; submodules are not looked into" if any(file.mode == SUBMODULE for file in files) else "")


def _read(folder: Path, tip: str, file: _File) -> Found:
    said = _git("rev-list", "-1", "--timestamp", tip, "--", file.path, folder=folder)
    when = datetime.fromtimestamp(int(said.split()[0]), UTC).replace(tzinfo=None)
    return Found(_git("cat-file", "blob", file.blob, folder=folder), when)


def _git(*words: str, folder: Path | None = None) -> bytes:
    """What a git command prints. Raises NotTaken, with its complaint, where it fails; CourseError without git."""
    where = [] if folder is None else [f"--git-dir={folder}"]
    command = ["git", "-c", f"core.hooksPath={os.devnull}", "--literal-pathspecs", *where, *words]
    own = {name: value for name, value in os.environ.items() if name not in OTHER_REPOSITORY}
    safe = {"GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            env=own | safe,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            start_new_session=True,  # without a terminal, ssh asks for no password
        )
    except FileNotFoundError:
        raise CourseError("Repositories need git, which is not here. Install it: https://git-scm.com") from None
    except subprocess.TimeoutExpired:
        raise NotTaken(f"it took longer than {PATIENCE} seconds.") from None
    if done.returncode:
        raise NotTaken(_complaint(done.stderr.decode("utf-8", "replace")))
    return done.stdout


def _complaint(said: str) -> str:
    lines = [line.partition(": ")[2] for line in said.splitlines() if line.startswith(("fatal: ", "error: "))]
    line = lines[0] if lines else (said.splitlines() or ["it gives no reason"])[-1]
    return f"{without_password(line).rstrip('.')}."


def without_password(text: str) -> str:
    """A text without the name and password that an address in it may hold."""
    return re.sub(r"//[^/@\s]*@", "//", text)
