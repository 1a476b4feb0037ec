"""The archive that Canvas or Moodle gives for an assignment: who handed in which files. Nothing is unpacked but these
files, each to a limit and below one folder."""

from __future__ import annotations

import re
import stat
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from torchkata.tools.collecting.errors import NotTaken
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.unwrapping import BROKEN_ZIP, MAX_FILES, MAX_NOTEBOOK, shown

# the same names as nbgrader's zip_collect is told to expect, in a class folder's README.md
FORMS = {
    "Moodle": re.compile(r"(?P<who>[^/]+?)_(?P<number>\d+)_assignsubmission_file_?/?(?P<file>.+)"),
    "Canvas": re.compile(r"[^/]+?_(?P<who>\d+)_\d+_(?P<file>[^/]+)"),
}
MOST_FILES = 100_000  # in an archive
CHUNK = 2**20


@dataclass
class Handed:
    """What one student handed in. numbers: Moodle's numbers for who has this name; two of them are two students."""

    who: str
    files: dict[str, zipfile.ZipInfo] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)


class Archive:
    """An archive of submissions; a context manager. Raises CourseError where it is none that can be used."""

    def __init__(self, path: Path):
        self.name = path.name
        try:
            self._file = zipfile.ZipFile(path)
        except BROKEN_ZIP as error:
            raise CourseError(f"{path} can't be read: it is a damaged zip file ({error}).") from None
        names = [one.filename for one in self._file.infolist() if not one.is_dir()]
        if len(names) > MOST_FILES:
            raise CourseError(f"{path} holds more than {MOST_FILES} files, so it is no download of an assignment.")
        matching = {lms: sum(bool(form.fullmatch(name)) for name in names) for lms, form in FORMS.items()}
        self._form = FORMS[max(matching, key=lambda lms: matching[lms])]
        if not any(matching.values()):
            raise CourseError(
                f"{path} doesn't hold submissions as Canvas or Moodle name them. In it are: {_some(names)}."
            )

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self) -> tuple[list[Handed], list[tuple[str, NotTaken]]]:
        """Who handed in what, and the names of files that are left out, with why."""
        handed: dict[str, Handed] = {}
        left_out = []
        for info in self._file.infolist():
            if info.is_dir():
                continue
            found = self._form.fullmatch(info.filename)
            if complaint := _complaint(info):
                left_out.append((shown(info.filename), NotTaken(complaint)))
            elif found is None:
                left_out.append((shown(info.filename), NotTaken("Its name doesn't say who handed it in.")))
            else:
                one = handed.setdefault(found["who"], Handed(found["who"]))
                one.files[found["file"]] = info
                one.numbers.add(found.groupdict().get("number", ""))
        return list(handed.values()), left_out

    def unpack(self, handed: Handed, folder: Path) -> None:
        """Write a student's files below the folder. Raises NotTaken where they are too many, too large or damaged."""
        if len(handed.numbers) > 1:
            raise NotTaken(f"Two students are called {handed.who}. Rename one of their folders in the archive.")
        if len(handed.files) > MAX_FILES:
            raise NotTaken(f"These are more than {MAX_FILES} files.")
        room = MAX_NOTEBOOK
        for name, info in handed.files.items():
            path = folder / name
            if not path.is_relative_to(folder):
                raise NotTaken(f"{shown(name)} is an absolute path.")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open(info) as stream, path.open("xb") as written:
                    while chunk := stream.read(CHUNK):
                        room -= len(chunk)
                        if room < 0:
                            raise NotTaken(f"The files unpack to more than {MAX_NOTEBOOK // 2**20} MiB.")
                        written.write(chunk)
            except BROKEN_ZIP as error:
                raise NotTaken(f"{shown(name)} can't be unpacked: it is damaged or locked ({error}).") from None


def _complaint(info: zipfile.ZipInfo) -> str | None:
    """Why a file of an archive is not touched. An LMS makes no such names."""
    path, windows = PurePosixPath(info.filename), PureWindowsPath(info.filename)
    if path.is_absolute() or windows.drive or windows.is_absolute():
        return "Its name is an absolute path."
    if ".." in windows.parts or "\\" in info.filename:
        return "Its name leads out of the archive."
    if stat.S_ISLNK(info.external_attr >> 16):
        return "It is a symbolic link. Links are not followed."
    return None


def _some(names: list[str]) -> str:
    return ", ".join(map(shown, names[:3])) + (", ..." if len(names) > 3 else "") if names else "no files"
