"""Which course and which workbook a command works on; where it refuses, nothing has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.learning.lab_server import released_course
from torchkata import __version__
from torchkata.base import places
from torchkata.base.places import KEPT, course_of, course_of_package, solutions_for
from torchkata.tools import placing
from torchkata.tools.class_folder import make_class_folder
from torchkata.tools.course import chapters, find_chapters, own_course
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place, here, place_for

BWRAP = shutil.which("bwrap")


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The course of a package that is installed as a wheel, with one chapter."""
    folder = released_course(tmp_path / "site-packages", "03_gather_scatter")
    (folder / "solutions").mkdir()
    for module in (places, placing):
        monkeypatch.setattr(module, "PACKED", folder)
    monkeypatch.setattr("torchkata.tools.course.PACKED", folder)
    return folder


def workbook(folder: Path, version: str = "") -> Path:
    (folder / KEPT).mkdir(parents=True)
    if version:
        (folder / KEPT / "version").write_text(version, encoding="utf-8")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


# ---------------------------------------------------------------- where we are


def test_in_a_checkout_its_own_workbook(tmp_path: Path):
    course = released_course(tmp_path / "course", "03_gather_scatter")
    assert here(course) == here(course / "notebooks") == Place(course)
    inner = workbook(course / "workbook")
    assert here(inner) == here(inner / "03_gather_scatter") == Place(course)
    assert Place(course).workbook == inner


def test_in_a_workbook_that_lies_elsewhere_the_course_of_the_package(tmp_path: Path, packed: Path):
    mine = workbook(tmp_path / "mine")
    place = here(mine / "03_gather_scatter")
    assert place == Place(packed, mine) and place.workbook == mine
    [chapter] = chapters(place)
    assert chapter.workbook == mine / "03_gather_scatter" / "gather_scatter.ipynb"
    assert solutions_for(mine) == packed / "solutions"


def test_the_nearest_one_counts(tmp_path: Path, packed: Path):
    course = released_course(tmp_path / "course", "03_gather_scatter")
    other = workbook(course / "another")
    assert here(other) == Place(packed, other)
    assert here(course / "notebooks") == Place(course)


def test_a_workbook_of_the_usual_name_is_found_from_the_folder_above(tmp_path: Path, packed: Path):
    mine = workbook(tmp_path / "torchkata")
    assert here(tmp_path) == Place(packed, mine)


def test_elsewhere_there_is_a_course_and_no_workbook(tmp_path: Path, packed: Path):
    place = here(tmp_path)
    assert place == Place(packed) and not place.has_workbook
    with pytest.raises(CourseError, match="There is no workbook here"):
        _ = place.workbook
    with pytest.raises(CourseError, match="There is no workbook here"):
        _ = chapters(place)[0].workbook


def test_a_workbook_called_workbook_without_a_course_beside_it(tmp_path: Path, packed: Path):
    mine = workbook(tmp_path / "workbook")
    assert course_of(mine) == packed
    assert here(mine) == Place(packed, mine)


def test_a_course_without_solutions_has_none(tmp_path: Path, packed: Path):
    course = released_course(tmp_path / "course", "03_gather_scatter")
    assert solutions_for(workbook(course / "workbook")) is None


def test_a_package_without_its_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(placing, "course_of_package", lambda: tmp_path / "nowhere")
    with pytest.raises(CourseError, match="No course here"):
        here(tmp_path)


def test_what_is_written_is_never_the_package(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match=r"Grading works in a class folder\. Change to it"):
        own_course("Grading", "a class folder")
    course = released_course(tmp_path / "course", "03_gather_scatter")
    monkeypatch.chdir(course)
    assert own_course("Grading", "a class folder") == Place(course)


# ---------------------------------------------------------------- making one


def test_by_default_it_is_made_below(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    place = place_for(None)
    assert place == Place(packed, tmp_path / "torchkata")
    fill_workbook(place)
    assert place_for(None) == here() == place
    assert find_chapters(here(), ["03"])[0].workbook.exists()
    monkeypatch.chdir(place.workbook / "03_gather_scatter")
    assert place_for(None) == place


def test_a_folder_that_is_named(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    for name in ("new", "empty", "a/b"):
        place = place_for(Path(name))
        assert place == Place(packed, tmp_path / name)
        fill_workbook(place)
        assert place_for(Path(name)) == place
    course = released_course(tmp_path / "course", "03_gather_scatter")
    assert place_for(course) == Place(course)


@pytest.mark.parametrize(
    "name, told",
    [
        ("photos", r"photos holds other things already \(a.jpg, b.jpg\)\. Name an empty folder"),
        ("photos/a.jpg", "Not a directory"),
        ("mine/inner", "lies in the workbook .*mine"),
    ],
)
def test_a_folder_that_cannot_be_one(tmp_path: Path, packed: Path, name: str, told: str):
    (tmp_path / "photos").mkdir()
    for photo in ("a.jpg", "b.jpg"):
        (tmp_path / "photos" / photo).touch()
    workbook(tmp_path / "mine")
    before = tree(tmp_path)
    with pytest.raises(CourseError, match=told):
        place_for(tmp_path / name)
    assert tree(tmp_path) == before


def test_the_default_folder_holds_something_else(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchkata").mkdir()
    (tmp_path / "torchkata" / "notes.txt").touch()
    with pytest.raises(CourseError, match=r"torchkata holds other things already \(notes.txt\)"):
        place_for(None)


def test_a_class_folder_wants_an_empty_folder(tmp_path: Path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(CourseError, match="holds other things already"):
        make_class_folder(tmp_path)
    with pytest.raises(CourseError, match="cannot be written: Not a directory"):
        make_class_folder(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(BWRAP is None, reason="needs bubblewrap: apt-get install bubblewrap")
@pytest.mark.parametrize("words", [("workbook", "."), ("workbook", "mine"), ("lab", "mine"), ("course", "class")])
def test_a_read_only_folder(tmp_path: Path, words: tuple[str, ...]):
    outer = [str(BWRAP), "--dev-bind", "/", "/", "--ro-bind", str(tmp_path), str(tmp_path), "--chdir", str(tmp_path)]
    told = subprocess.run([*outer, sys.executable, "-m", "torchkata", *words], capture_output=True, text=True)
    assert told.returncode == 2, told.stderr
    assert "cannot be written: Read-only file system" in told.stderr and len(told.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- versions


def test_a_workbook_notes_the_version(tmp_path: Path, packed: Path):
    place = place_for(tmp_path / "mine")
    fill_workbook(place)
    note = place.workbook / KEPT / "version"
    assert note.read_text(encoding="utf-8") == f"{__version__}\n"
    note.write_text("0.0.1\n", encoding="utf-8")
    fill_workbook(here(place.workbook))
    assert note.read_text(encoding="utf-8") == f"{__version__}\n"


@pytest.mark.parametrize("kind", ["elsewhere", "checkout"])
def test_a_workbook_of_a_newer_torchkata(tmp_path: Path, packed: Path, kind: str, monkeypatch: pytest.MonkeyPatch):
    course = released_course(tmp_path / "course", "03_gather_scatter")
    mine = workbook({"elsewhere": tmp_path / "mine", "checkout": course / "workbook"}[kind], "99.1")
    before = tree(tmp_path)
    told = rf"workbook {mine} is of torchkata 99\.1, and this is torchkata {__version__}"
    with pytest.raises(CourseError, match=told):
        here(mine)
    with pytest.raises(CourseError, match=told):
        place_for(mine)
    monkeypatch.chdir(mine)
    with pytest.raises(CourseError, match=told):
        find_chapters(here(), ["03"])
    assert tree(tmp_path) == before


@pytest.mark.parametrize("noted", ["", "0.0.1", "gibberish", __version__])
def test_an_older_or_damaged_note_is_no_hindrance(tmp_path: Path, packed: Path, noted: str):
    mine = workbook(tmp_path / "mine", noted)
    assert here(mine).workbook == mine


def checkout(folder: Path, version: str) -> Path:
    course = released_course(folder, "03_gather_scatter")
    module = course / "src" / "torchkata" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text(f'"""A course."""\n\n__version__ = "{version}"\n', encoding="utf-8")
    return course


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
def test_a_checkout_of_another_torchkata(tmp_path: Path, version: str):
    course = checkout(tmp_path / "course", version)
    for call in (here, place_for):
        with pytest.raises(CourseError, match=rf"is torchkata {version}, but the one that runs is"):
            call(course)
    assert not (course / "workbook").exists()


def test_a_checkout_of_the_same_version(tmp_path: Path):
    course = checkout(tmp_path / "course", __version__)
    assert here(course) == Place(course)
    assert here(course_of_package()).root == course_of_package()


@pytest.mark.parametrize("command", [("workbook",), ("check", "03"), ("update",)])
def test_the_command_says_it_in_a_sentence(tmp_path: Path, command: tuple[str, ...]):
    mine = workbook(tmp_path / "mine", "99.1")
    environment = {**os.environ, "COLUMNS": "200"}
    told = subprocess.run(
        [sys.executable, "-m", "torchkata", *command], cwd=mine, env=environment, capture_output=True, text=True
    )
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1 and "is of torchkata 99.1" in told.stderr
    assert len(tree(mine)) == 2
