"""workbook/: chapters are copied there once, and what a learner wrote is never touched."""

import json
import os

import pytest

from torchkata.tools.course import CourseError
from torchkata.tools.learning.lab import lab_options
from torchkata.tools.learning.workbook import LEDGER, Placed, fill_workbook


@pytest.fixture
def course(tmp_path):
    (tmp_path / "nbgrader_config.py").touch()
    release(tmp_path, "02_a", "first a")
    release(tmp_path, "03_b", "first b")
    return tmp_path


def release(root, name, text):
    path = root / "notebooks" / name / f"{name[3:]}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def copy_of(root, name):
    return root / "workbook" / name / f"{name[3:]}.ipynb"


def test_chapters_are_copied_with_what_lies_beside_them(course):
    (course / "notebooks" / "03_b" / "data.csv").write_text("1,2")
    assert fill_workbook(course) == [Placed("02_a", "copied"), Placed("03_b", "copied")]
    assert copy_of(course, "02_a").read_text() == "first a"
    assert (course / "workbook" / "03_b" / "data.csv").read_text() == "1,2"
    assert sorted(json.loads((course / "workbook" / LEDGER).read_text())) == ["02_a", "03_b"]


def test_a_changed_copy_is_never_overwritten(course):
    fill_workbook(course)
    copy_of(course, "02_a").write_text("my answers")
    release(course, "02_a", "second a")
    for _ in range(2):
        assert fill_workbook(course) == [Placed("02_a", "outdated"), Placed("03_b", "kept")]
        assert copy_of(course, "02_a").read_text() == "my answers"


def test_a_renamed_folder_makes_room_for_the_new_release(course):
    fill_workbook(course)
    release(course, "02_a", "second a")
    (course / "workbook" / "02_a").rename(course / "workbook" / "my_02_a")
    assert fill_workbook(course)[0] == Placed("02_a", "copied")
    assert copy_of(course, "02_a").read_text() == "second a"
    assert (course / "workbook" / "my_02_a" / "a.ipynb").read_text() == "first a"
    assert fill_workbook(course)[0] == Placed("02_a", "kept")


def test_a_file_beside_a_missing_notebook_is_kept(course):
    (course / "notebooks" / "02_a" / "notes.txt").write_text("theirs")
    (course / "workbook" / "02_a").mkdir(parents=True)
    (course / "workbook" / "02_a" / "notes.txt").write_text("mine")
    fill_workbook(course)
    assert (course / "workbook" / "02_a" / "notes.txt").read_text() == "mine"


def test_a_copy_of_unknown_origin_is_left_alone(course):
    copy_of(course, "02_a").parent.mkdir(parents=True)
    copy_of(course, "02_a").write_text("mine")
    assert fill_workbook(course)[0] == Placed("02_a", "kept")
    assert copy_of(course, "02_a").read_text() == "mine"


def test_a_copy_that_breaks_off_leaves_nothing(course, monkeypatch):
    from pathlib import Path

    class Full:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.stream.close()

        def write(self, content):
            raise OSError(28, "No space left on device")

    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", **more: Full(opened(path, mode)) if "x" in mode else opened(path, mode, **more),
    )
    with pytest.raises(CourseError, match=r"workbook.*No space left on device"):
        fill_workbook(course)
    assert not copy_of(course, "02_a").exists()


def test_a_damaged_ledger_gets_a_message(course):
    fill_workbook(course)
    for text in ("{", "[]"):
        (course / "workbook" / LEDGER).write_text(text)
        with pytest.raises(CourseError, match=r"is damaged\. Delete it"):
            fill_workbook(course)
    (course / "workbook" / LEDGER).unlink()
    assert fill_workbook(course) == [Placed("02_a", "kept"), Placed("03_b", "kept")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_workbook_gets_a_message(course):
    (course / "workbook").mkdir(mode=0o500)
    with pytest.raises(CourseError, match="cannot be written: Permission denied"):
        fill_workbook(course)


def test_a_workbook_that_is_a_file_gets_a_message(course):
    (course / "workbook").write_text("")
    with pytest.raises(CourseError, match="cannot be written"):
        fill_workbook(course)


def test_root_is_allowed_and_others_are_not_asked_for_it(course, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert "--allow-root" in lab_options(course)
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert "--allow-root" not in lab_options(course)
