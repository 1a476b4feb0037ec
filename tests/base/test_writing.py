"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchkata.base import writing
from torchkata.base.writing import OLD, remove_unfinished, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_text_and_bytes_in_folders_that_are_made(tmp_path: Path):
    write_whole(tmp_path / "a" / "b", "ä\n")
    write_whole(tmp_path / "c", b"\xff")
    assert (tmp_path / "a" / "b").read_bytes() == "ä\n".encode() and (tmp_path / "c").read_bytes() == b"\xff"
    assert names(tmp_path) == ["a", "b", "c"]


def test_where_it_fails_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*paths: Path) -> None:
        raise OSError("the disk is full")

    path = tmp_path / "a"
    write_whole(path, "old")
    monkeypatch.setattr(writing.os, "replace", full)
    with pytest.raises(OSError, match="full"):
        write_whole(path, "new")
    assert path.read_text() == "old" and names(tmp_path) == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of Unix")
def test_a_file_keeps_its_permissions(tmp_path: Path):
    usual = tmp_path / "usual"
    usual.write_text("")
    path = tmp_path / "a"
    write_whole(path, "old")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o600)
    write_whole(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_left_behind_goes(tmp_path: Path):
    for name, age in {".new-old": OLD + 60, ".new-young": 0, "other": OLD + 60}.items():
        (tmp_path / name).touch()
        there = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (there, there))
    write_whole(tmp_path / "a", "")
    assert names(tmp_path) == [".new-young", "a", "other"]
    remove_unfinished([tmp_path])
    assert names(tmp_path) == ["a", "other"]
