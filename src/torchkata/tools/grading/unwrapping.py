"""Find the notebook in a submission's folder, whatever browsers, archives and systems made of it: under another name
or ending, in one more folder, in a zip file. It is taken where there is only one; else what is there is named."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from lzma import LZMAError
from pathlib import Path, PurePath

from torchkata.tools.grading.files import Unreadable, read_plain_file
from torchkata.tools.grading.records import ABOUT_FILES
from torchkata.tools.grading.timestamps import TIMESTAMP

MAX_NOTEBOOK = 128 * 2**20  # bytes
MAX_ITEMS = 5_000_000  # of JSON: lists, objects and what stands in them; a notebook with much output has long texts
MAX_FILES = 200  # names looked at in a submission's folder
MAX_LOOKED_INTO = 10  # files of other kinds that are opened
CLEAR = "In JupyterLab, Edit, Clear Outputs of All Cells makes it small. Then save it and hand it in again."
LEFT_BY_SYSTEMS = {"__MACOSX", "Thumbs.db", "desktop.ini"}
BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, LZMAError, RuntimeError, NotImplementedError, EOFError, OSError)


class NoNotebook(Exception):
    """There is no notebook that could be graded; the message says why, as a sentence."""


@dataclass(frozen=True)
class _Found:
    """A notebook: its name, with the folders or the archive around it, and what reads it (raises Unreadable)."""

    name: str
    read: Callable[[], bytes]


def notebook_in(folder: Path, wanted: str, notes: list[str]) -> bytes:
    """The content of the notebook of a submission's folder: the one of the wanted name, else the only one there is.

    Raises NoNotebook.
    """
    names = _names_in(folder)
    found = _choose(folder, wanted, names)
    if found.name != wanted:
        notes.append(f"{ABOUT_FILES[0]} {shown(found.name)} in place of {wanted}.")
    if extra := [name for name in names if name not in (PurePath(found.name).parts[0], TIMESTAMP)]:
        notes.append(f"{ABOUT_FILES[1]}: {listed(extra)}.")
    try:
        content = found.read()
    except Unreadable as error:
        much = f" {CLEAR}" if "larger" in str(error) else ""
        raise NoNotebook(f"The notebook can't be read: {error}.{much}") from None
    if sum(map(content.count, (b"{", b"[", b","))) > MAX_ITEMS:
        raise NoNotebook(f"The notebook can't be read: it holds too much. {CLEAR}")
    return content


def listed(names: list[str]) -> str:
    """Names that a student chose, the first five."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(shown(name) for name in names[:5]) + more


def shown(value: object) -> str:
    """A name or a number that a student chose, short and without control characters."""
    text = str(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"
    short = text if len(text) <= 60 else text[:57] + "..."
    return "".join(char if char.isprintable() else "?" for char in short)


def _names_in(folder: Path) -> list[str]:
    """What a student put into the folder, in order; what systems leave behind everywhere is passed over."""
    for part in (folder.parent, folder):
        if part.is_symlink():
            raise NoNotebook(f"The folder {shown(part.name)} is a symbolic link. Links are not followed.")
    if not folder.is_dir():
        raise NoNotebook(f"There is no folder {folder.name}: nothing was handed in for this chapter.")
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_FILES) if not _left_by_a_system(entry.name))
    except OSError as error:
        raise NoNotebook(f"The folder {folder.name} can't be read: {error.strerror}.") from None


def _left_by_a_system(name: str) -> bool:
    """Whether a name is not a student's: those of hidden files, macOS's "._" copies among them, and the like."""
    return name.startswith(".") or name in LEFT_BY_SYSTEMS


def _choose(folder: Path, wanted: str, names: list[str]) -> _Found:
    if (folder / wanted).is_symlink() or (folder / wanted).exists():
        return _plain(folder, wanted)
    notebooks = [_plain(folder, name) for name in names if _is_notebook_name(name)]
    found = notebooks or list(_wrapped(folder, names))
    named = [one for one in found if PurePath(one.name).name == wanted]
    if len(found) == 1 or len(named) == 1:
        return (found if len(found) == 1 else named)[0]
    there = [one.name for one in found] or [name for name in names if name != TIMESTAMP]
    seen = f"these are there: {listed(there)}" if found else "there is no notebook"
    only = f", only {listed(there)}" if there and not found else ""
    raise NoNotebook(f"{wanted} is missing; {seen}{only}.")


def _plain(folder: Path, name: str) -> _Found:
    return _Found(name, partial(read_plain_file, folder / name, MAX_NOTEBOOK))


def _is_notebook_name(name: str) -> bool:
    return name.lower().endswith(".ipynb")


def _wrapped(folder: Path, names: list[str]) -> Iterator[_Found]:
    """The notebooks that stand under another ending, in a folder below, or in a zip file."""
    others = [name for name in names if name != TIMESTAMP][:MAX_LOOKED_INTO]
    for name in others:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            yield from _notebooks_among(list(_below(folder, path)))
        elif name.lower().endswith(".zip"):
            yield from _notebooks_among(list(_zipped(path)))
        elif _looks_like_one(one := _plain(folder, name)):
            yield one


def _notebooks_among(files: list[_Found]) -> list[_Found]:
    """Those with a notebook's name; where there is none, those that hold one under another ending."""
    return [one for one in files if _is_notebook_name(one.name)] or list(
        filter(_looks_like_one, files[:MAX_LOOKED_INTO])
    )


def _below(folder: Path, top: Path) -> Iterator[_Found]:
    for place, folders, files in islice(os.walk(top), MAX_FILES):
        folders[:] = sorted(name for name in folders if not _left_by_a_system(name))
        for name in sorted(files)[:MAX_FILES]:
            if not _left_by_a_system(name):
                yield _plain(folder, (Path(place) / name).relative_to(folder).as_posix())


def _zipped(path: Path) -> Iterator[_Found]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(read_plain_file(path, MAX_NOTEBOOK)))
    except (Unreadable, *BROKEN_ZIP):
        return
    for name in archive.namelist()[: 10 * MAX_FILES]:
        if not (name.endswith("/") or any(map(_left_by_a_system, PurePath(name).parts))):
            yield _Found(f"{path.name}/{name}", partial(_unzipped, archive, name))


def _unzipped(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as stream:
            content = stream.read(MAX_NOTEBOOK + 1)
    except BROKEN_ZIP as error:
        raise Unreadable(f"the zip file is damaged or locked ({type(error).__name__})") from None
    if len(content) > MAX_NOTEBOOK:
        raise Unreadable(f"it is larger than {MAX_NOTEBOOK // 2**20} MiB")
    return content


def _looks_like_one(file: _Found) -> bool:
    """Whether a file under another ending holds a notebook."""
    try:
        content = file.read()
    except Unreadable:
        return False
    begins = content[:1000].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return begins and (b'"cells"' in content or b'"worksheets"' in content) and b'"nbformat"' in content
