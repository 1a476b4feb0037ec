"""What Canvas, Moodle and home folders give comes in as docs/collecting.md and the page in a class folder say."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import textwrap
import zipfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import nbformat
import pytest

from tests import ROOT
from tests.tools.grading import classroom
from tests.tools.grading.classroom import blank, hand_in
from tests.tools.grading.fake_grading import NAME, fake_grader
from tests.tools.grading.handed_out.test_gradebook import look, nbgrader
from tests.tools.grading.test_intake import zipped
from torchkata.tools.course import Chapter
from torchkata.tools.grading.batch import Run, grade_chapter
from torchkata.tools.grading.timestamps import read_timestamp

PAGE = (ROOT / "docs" / "collecting.md").read_text(encoding="utf-8")
IN_CLASS = (ROOT / "src/torchkata/tools/grading/handed_out/class_folder.md").read_text(encoding="utf-8")
needs_a_shell = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return classroom.course(tmp_path)


def pattern_for(lms: str) -> str:
    """The line for nbgrader_config.py, which both texts show."""
    [line] = re.findall(rf"# {lms}\n    (c\..*)", PAGE)
    assert f"{line}    # {lms}\n" in IN_CLASS
    return line


def collected(chapter: Chapter, lms: str, names: dict[str, dict[str, str]], students: str) -> Run:
    """Grade what stands in an LMS's archive: by name the answers in a notebook, which may be in a zip file."""
    config = chapter.root / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}\n{pattern_for(lms)}\n")
    archive = chapter.root / "downloaded" / NAME / "archive" / "submissions.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for name, answers in names.items():
            text = nbformat.writes(blank(chapter, **answers))
            file.writestr(name, zipped(**{"things.ipynb": text.encode()}) if name.endswith(".zip") else text)
    nbgrader(chapter, "zip_collect", NAME)
    (chapter.root / "students.csv").write_text(students)
    return grade_chapter(chapter, partial(fake_grader, chapter.root / "diary.txt"))


def table(run: Run, name: str) -> list[list[str]]:
    return list(csv.reader((run.folder / name).read_text(encoding="utf-8").splitlines()))


def test_canvas(chapter: Chapter):
    names = {
        "lovelaceada_17_4001_things.ipynb": {"twice": "right"},
        "hoppergrace_LATE_18_4002_things-1.ipynb": {"guess": "half"},  # handed in twice, late
        "o_harascarlett_19_4003_things (2).ipynb": {"thrice": "right"},
        "kaybo_20_4004_things.ipynb.json": {"thrice": "right"},
        "kimlee_21_4005_home_work_1.zip": {"twice": "right"},
        "kimlee_21_4006_notes.pdf": {},
    }
    students = "id,first_name,last_name,email,lms_user_id\n17,Ada,Lovelace,,17\n18,Grace,Hopper,,18\n19,S,O'Hara,,19\n"
    students += "20,Bo,Kay,,20\n21,Lee,Kim,,21\n"
    run = collected(chapter, "Canvas", names, students)
    assert run.overview.notes == () and not run.refused
    assert table(run, "canvas.csv")[2:] == [
        ["Lovelace, Ada", "17", "17", "", "2"],
        ["Hopper, Grace", "18", "18", "", "1.5"],
        ["O'Hara, S", "19", "19", "", "1"],
        ["Kay, Bo", "20", "20", "", "1"],
        ["Kim, Lee", "21", "21", "", "2"],
    ]


def test_moodle(chapter: Chapter):
    names = {
        "Ada Lovelace_4001_assignsubmission_file_/things.ipynb": {"twice": "right"},
        "José María Ñ_4002_assignsubmission_file/my things.ipynb": {"guess": "half"},
        "Bo Kay_4003_assignsubmission_file_/98_things/things.ipynb.txt": {"thrice": "right"},
    }
    students = "id;email\nAda Lovelace;ada@x.org\nJosé María Ñ;jose@x.org\nBo Kay;bo@x.org\n"
    run = collected(chapter, "Moodle", names, students)
    assert run.overview.notes == () and not run.refused
    assert sorted(row[1:] for row in table(run, "moodle.csv")[1:]) == [
        ["ada@x.org", "2"],
        ["bo@x.org", "1"],
        ["jose@x.org", "1.5"],
    ]


def commands(beginning: str) -> str:
    """The block of the page that begins so, for the small chapter of these tests."""
    [block] = [b for b in re.findall(r"(?:^    .*\n)+", PAGE, re.M) if b.strip().startswith(beginning)]
    return textwrap.dedent(block).replace("03_gather_scatter", NAME).replace("gather_scatter", "things")


@needs_a_shell
def test_home_folders(chapter: Chapter):
    saved = datetime(2026, 1, 31, 16, 30, tzinfo=UTC)
    for student in ("ada", "bob"):
        path = chapter.root / "home" / student / "torchkata" / NAME / "things.ipynb"
        path.parent.mkdir(parents=True)
        shutil.copy(hand_in(chapter, student), path)
        os.utime(path, (0, saved.timestamp()))
    (chapter.root / "home" / "idle").mkdir()
    shutil.rmtree(chapter.root / "submitted")
    script = commands("for home in").replace("/home/*/", f"{chapter.root}/home/*/")
    subprocess.run(["bash", "-ec", script], cwd=chapter.root, check=True, env=os.environ | {"TZ": "Europe/Berlin"})
    found = {path.parts[-3]: read_timestamp(path.parent) for path in chapter.root.glob("submitted/*/*/things.ipynb")}
    assert found == dict.fromkeys(("ada", "bob"), (saved.replace(tzinfo=None), []))


@needs_a_shell
def test_the_line_that_writes_a_timestamp(chapter: Chapter):
    folder = hand_in(chapter, "ada").parent
    line = commands("date -u")
    assert line.replace("/ada/", "/STUDENT/").replace(NAME, "03_gather_scatter") in IN_CLASS
    subprocess.run(["bash", "-ec", line], cwd=chapter.root, check=True, env=os.environ | {"TZ": "Asia/Kolkata"})
    when, notes = read_timestamp(folder)
    assert notes == [] and when is not None


def test_the_forms_of_a_timestamp_that_the_page_shows(tmp_path: Path):
    rows = re.search(r"\| what may be in it .*?\n\n", PAGE, re.S)[0]
    shown = re.findall(r"`(\d{4}-[^`]+|[A-Z][a-z]{2},? [^`]+)`", rows)
    for text in shown:
        (tmp_path / "timestamp.txt").write_text(text)
        assert read_timestamp(tmp_path) == (datetime(2026, 1, 31, 16, 30), []), text
    assert len(shown) == 5


def test_the_due_date_as_the_page_gives_it(chapter: Chapter):
    command = re.search(r"nbgrader (db assignment add) \S+ (--duedate) \"(.+)\"", PAGE)
    words, option, date = command.groups()
    nbgrader(chapter, *words.split(), NAME, option, date)
    with look(chapter) as book:
        assert book.find_assignment(NAME).duedate == datetime(2026, 1, 31, 18)
