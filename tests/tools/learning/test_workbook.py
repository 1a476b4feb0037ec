"""workbook/: chapters are copied there once, and what a learner wrote is never touched."""

import os
from pathlib import Path

import pytest

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning import workbook
from torchkata.tools.learning.lab import lab_options
from torchkata.tools.learning.workbook import fill_workbook, release_of_copy, writing
from torchkata.tools.placing import Place


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


def placed(root):
    return [(one.chapter.name, one.state) for one in fill_workbook(Place(root))]


def copy_of(root, name):
    return root / "workbook" / name / f"{name[3:]}.ipynb"


def test_chapters_are_copied_with_what_lies_beside_them(course):
    (course / "notebooks" / "03_b" / "data.csv").write_text("1,2")
    assert placed(course) == [("02_a", "copied"), ("03_b", "copied")]
    assert copy_of(course, "02_a").read_text() == "first a"
    assert (course / "workbook" / "03_b" / "data.csv").read_text() == "1,2"
    assert release_of_copy(Chapter(Place(course), "03_b")).read_text() == "first b"


def test_a_changed_copy_is_never_overwritten(course):
    fill_workbook(Place(course))
    copy_of(course, "02_a").write_text("my answers")
    release(course, "02_a", "second a")
    for _ in range(2):
        assert placed(course) == [("02_a", "outdated"), ("03_b", "kept")]
        assert copy_of(course, "02_a").read_text() == "my answers"


def test_a_renamed_folder_makes_room_for_the_new_release(course):
    fill_workbook(Place(course))
    release(course, "02_a", "second a")
    (course / "workbook" / "02_a").rename(course / "workbook" / "my_02_a")
    assert placed(course)[0] == ("02_a", "copied")
    assert copy_of(course, "02_a").read_text() == "second a"
    assert (course / "workbook" / "my_02_a" / "a.ipynb").read_text() == "first a"
    assert placed(course)[0] == ("02_a", "kept")


def test_a_file_beside_a_missing_notebook_is_kept(course):
    (course / "notebooks" / "02_a" / "notes.txt").write_text("theirs")
    (course / "workbook" / "02_a").mkdir(parents=True)
    (course / "workbook" / "02_a" / "notes.txt").write_text("mine")
    fill_workbook(Place(course))
    assert (course / "workbook" / "02_a" / "notes.txt").read_text() == "mine"


def test_a_copy_of_unknown_origin_is_left_alone(course):
    copy_of(course, "02_a").parent.mkdir(parents=True)
    copy_of(course, "02_a").write_text("mine")
    assert placed(course)[0] == ("02_a", "kept")
    assert copy_of(course, "02_a").read_text() == "mine"


def test_a_copy_that_breaks_off_leaves_nothing(course, monkeypatch):
    def full(path, content):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CourseError, match=r"workbook.*No space left on device"):
        fill_workbook(Place(course))
    left = {path.name for path in (course / "workbook").rglob("*")}
    assert not [name for name in left if "a.ipynb" in name or name.startswith(".new-")]


def test_a_page_for_assistants_is_written_once(course):
    place = Place(course)
    fill_workbook(place)
    page, pointer = place.workbook / "AGENTS.md", place.workbook / "CLAUDE.md"
    assert "don't solve" in page.read_text(encoding="utf-8") and pointer.read_text() == "@AGENTS.md\n"
    page.write_text("")
    pointer.unlink()
    pointer.symlink_to(course / "nowhere.md")
    fill_workbook(place)
    assert page.read_text() == "" and pointer.is_symlink()


def test_pages_lie_at_the_top(course):
    release(course, "start", "welcome")
    path = course / "notebooks" / "start"
    (path / "rt.ipynb").rename(path / "start.ipynb")
    assert placed(course)[0] == ("start", "copied")
    assert (course / "workbook" / "start.ipynb").read_text() == "welcome"


def test_commands_take_turns(course, monkeypatch):
    monkeypatch.setattr(workbook, "PATIENCE", 0.1)
    with writing(Place(course)), pytest.raises(CourseError, match="Another command is writing"), writing(Place(course)):
        pass


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_workbook_gets_a_message(course):
    (course / "workbook").mkdir(mode=0o500)
    with pytest.raises(CourseError, match="cannot be written: Permission denied"):
        fill_workbook(Place(course))


def test_a_workbook_that_is_a_file_gets_a_message(course):
    (course / "workbook").write_text("")
    with pytest.raises(CourseError, match="cannot be written"):
        fill_workbook(Place(course))


def test_root_is_allowed_and_others_are_not_asked_for_it(course, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert "--allow-root" in lab_options(Place(course))
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert "--allow-root" not in lab_options(Place(course))
