"""`torchkata collect` on the archives of Canvas and Moodle, with names from students.csv, and on those that attack."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from tests.tools.collecting.test_repositories import answered, collect
from tests.tools.grading.classroom import folder_of
from tests.tools.grading.test_command import RIGHT
from tests.tools.grading.test_intake import zipped
from torchkata.tools.collecting import archives
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError

ADA = "Ada Lovelace_4001_assignsubmission_file_/"


def archive(files: dict[str, str | bytes | zipfile.ZipInfo], name: str = "all.zip") -> str:
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as file:
        for path, text in files.items():
            file.writestr(path, text)
    return name


def taken(chapter: Chapter) -> dict[str, str]:
    found = chapter.root.glob("submitted/*/98_things/things.ipynb")
    return {path.parts[-3]: path.read_text() for path in found}


def test_canvas(chapter: Chapter):
    one, two = answered(chapter, **RIGHT), answered(chapter, thrice=RIGHT["thrice"])
    files = {
        "lovelaceada_17_4001_things.ipynb": one,
        "hoppergrace_LATE_18_4002_things-1.ipynb": two,
        "kaybo_20_4004_things.ipynb.json": two,
        "kimlee_21_4005_home_work_1.zip": zipped(**{"things.ipynb": one.encode()}),
        "kimlee_21_4006_notes.pdf": "",
        "poejoe_22_4007_notes.pdf": "",
        "whoknows_99_4008_things.ipynb": one,
    }
    rows = "ada,17\ngrace,18\nbo,20\nlee,21\njoe,22\n"
    (chapter.root / "students.csv").write_text(f"id,lms_user_id\n{rows}")
    result = collect(archive(files), "--chapter", "98")
    assert taken(chapter) == {"ada": one, "grace": two, "bo": two, "lee": one}
    assert "all.zip: 21, 98_things: The notebook is named home_work_1.zip/things.ipynb in" in result.output
    assert "all.zip: 22, 98_things: not taken. things.ipynb is missing; there is no notebook, only notes.pdf." in (
        result.output
    )
    assert "students.csv has no student whose id, lms_user_id, or first and last name is in the name 99." in (
        result.output
    )
    assert result.exit_code == 1 and "4 new" in result.output
    assert not list(chapter.root.glob("submitted/*/*/timestamp.txt"))
    again = collect(archive({**files, "lovelaceada_17_4001_things.ipynb": two}), "--chapter", "98")
    assert "3 the same, 1 kept" in again.output and "--replace takes this one." in again.output
    assert taken(chapter)["ada"] == one
    collect("all.zip", "--chapter", "98", "--replace")
    assert taken(chapter)["ada"] == two and len(list(chapter.root.glob("replaced/ada/*/*/things.ipynb"))) == 1


def test_moodle(chapter: Chapter):
    one = answered(chapter, **RIGHT)
    files = {
        f"{ADA}things.ipynb": one,
        f"{ADA}Bo Kay_4003_assignsubmission_file_/things.ipynb": one,  # a folder that Ada made
        "José María Ñ_4002_assignsubmission_file/my things.ipynb": one,
        "Lee Kim_4005_assignsubmission_file_/things.ipynb": one,
        "Lee Kim_4006_assignsubmission_file_/things.ipynb": one,
        "Lee Kim_4006_assignsubmission_onlinetext_/onlinetext.html": one,
    }
    rows = "ada,Ada,Lovelace\njose,José María,Ñ\nbo,Bo,Kay\nlee,Lee,Kim\n"
    (chapter.root / "students.csv").write_text(f"id,first_name,last_name\n{rows}", encoding="utf-8")
    result = collect(archive(files), "--chapter", "98")
    assert taken(chapter) == {"ada": one, "jose": one}
    assert "all.zip: Lee Kim, lee" not in result.output
    assert "Two students are called Lee Kim. Rename one of their folders in the archive." in result.output
    assert "onlinetext.html: not taken. Its name doesn't say who handed it in." in result.output


def test_what_attacks_is_left_out_and_the_others_come_in(
    chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(archives, "MAX_NOTEBOOK", 2**20)
    one = answered(chapter, **RIGHT)
    link = zipfile.ZipInfo("Eve E_5_assignsubmission_file_/things.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    files = {
        f"{ADA}things.ipynb": one,
        f"/{ADA}x.ipynb": one,
        f"{ADA}../../../escaped.ipynb": one,
        f"{ADA}..\\escaped.ipynb": one,
        "C:/Bo Kay_9_assignsubmission_file_/x.ipynb": one,
        f"Flo F_6_assignsubmission_file_/{tmp_path}/escaped.ipynb": one,
        "Big B_7_assignsubmission_file_/things.ipynb": "0" * (2**20 + 1),
    }
    archive(files)
    with zipfile.ZipFile("all.zip", "a") as file:
        file.writestr(link, "/etc/passwd")
    result = collect("all.zip", "--chapter", "98")
    assert taken(chapter) == {"Ada Lovelace": one}
    assert "1 new" in result.output and "7 not taken" in result.output
    assert result.output.count("Its name is an absolute path.") == 2
    assert result.output.count("Its name leads out of the archive.") == 2
    for words in ("It is a symbolic link.", "is an absolute path.", "The files unpack to more than 1 MiB."):
        assert words in result.output, words
    assert not list(tmp_path.rglob("escaped.ipynb"))


@pytest.mark.parametrize(
    ("files", "words", "sentence"),
    [
        (
            {"a.txt": ""},
            ["--chapter", "98"],
            "as Canvas or Moodle name them. In it are: a.txt.",
        ),
        ({f"{ADA}a": ""}, ["--chapter", "98", "--before", "2026-01-01 00:00"], "--before is for repositories"),
    ],
)
def test_an_archive_that_can_not_be_used(chapter: Chapter, files: dict, words: list[str], sentence: str):
    with pytest.raises(CourseError) as told:
        collect(archive(files), *words)
    assert sentence in str(told.value) and not folder_of(chapter, "ada").exists()
