"""timestamp.txt: one meaning, or a note with what was seen and how to write it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from torchkata.tools.grading.timestamps import FORM, read_timestamp


def read(folder: Path, content: str | bytes, zone: str = "UTC") -> tuple[datetime | None, list[str]]:
    (folder / "timestamp.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_timestamp(folder, zone)


HALF_PAST_FOUR = datetime(2026, 1, 10, 16, 30)


@pytest.mark.parametrize(
    "content",
    [
        "2026-01-10 16:30:00 UTC",
        "2026-01-10 16:30:00.000000 UTC\n",  # nbgrader's exchange
        "2026-01-10 16:30:00",  # nbgrader zip_collect
        "2026-01-10T16:30Z",
        "2026-01-10T17:30:00+01:00",  # date -Iseconds
        "2026-01-10 17:30:00 +0100",
        "2026-01-10 17:30:00 Europe/Berlin",
        "Sat, 10 Jan 2026 17:30:00 +0100",  # date -R, and e-mails
        "Sat, 10 Jan 2026 16:30:00 GMT",
        "Sat Jan 10 16:30:00 UTC 2026",  # date -u
        "\ufeff2026-01-10 17:30:00 +0100",
        "2026-01-10 17:30:00 +0100".encode("utf-16"),  # PowerShell
    ],
)
def test_what_has_one_meaning_is_taken(tmp_path: Path, content: str | bytes):
    assert read(tmp_path, content) == (HALF_PAST_FOUR, [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("Sat Jan 10 17:30:00 CET 2026", "CET is not the name of one time zone"),
        ("2026-01-10 17:30:00 PST", "PST is not the name of one time zone"),
        ("2026-01-10 17:30:00 IST", "IST is not the name of one time zone"),
        ("2026-01-10 17:30:00 Europe/Belrin", "Europe/Belrin is not the name of a time zone"),
        ("2026-01-10 17:30:00 ../../etc/passwd", "../../etc/passwd is not the name"),
        ("10.01.2026 17:30", "several ways"),
        ("10/01/2026", "several ways"),
        ("17:30", "no date with a time"),
        ("2026", "no date with a time"),
        ("1", "no date with a time"),
        ("2026-01-10", "no date with a time"),
        ("yesterday", "no date with a time"),
        ("9" * 150, "no date with a time"),
        ("2026-02-30 10:00", "there is no such time"),
        ("9999-12-31 23:59:59 -2300", "there is no such time"),
        ("2026-10-25 02:30 Europe/Berlin", "the clocks were changed"),
        ("2026-03-29 02:30 Europe/Berlin", "the clocks were changed"),
    ],
)
def test_what_has_not_is_quoted(tmp_path: Path, content: str, why: str):
    when, [note] = read(tmp_path, content)
    assert when is None and why in note and f'"{content[:60]}' in note and note.endswith(FORM)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"\xff", b"9" * 10_000, "2026-01-10 17:30 \x1b[31m\u202e".encode()]
)
def test_what_is_no_text_does_no_harm(tmp_path: Path, content: bytes):
    when, [note] = read(tmp_path, content)
    assert when is None and note.startswith("timestamp.txt is ignored") and note.isprintable() and len(note) < 250


def test_abbreviations_are_those_of_the_zone_in_which_nbgraders_exchange_writes(tmp_path: Path):
    berlin = "Europe/Berlin"
    assert read(tmp_path, "Sat Jan 10 17:30:00 CET 2026", berlin) == (HALF_PAST_FOUR, [])
    assert read(tmp_path, "2026-07-10 17:30:00.5 CEST", berlin) == (datetime(2026, 7, 10, 15, 30, 0, 500_000), [])
    hours = [read(tmp_path, f"2026-10-25 02:30:00 {name}", berlin)[0].hour for name in ("CEST", "CET")]
    assert hours == [0, 1]  # the hour that comes twice
    for text in ("2026-07-10 17:30:00 CET", "2026-01-10 17:30:00 EST"):
        assert read(tmp_path, text, berlin)[0] is None


def test_an_empty_file_and_none_say_nothing(tmp_path: Path):
    assert read_timestamp(tmp_path) == read(tmp_path, "\n") == (None, [])


def test_a_link_is_not_read(tmp_path: Path):
    (tmp_path / "timestamp.txt").symlink_to("/etc/hostname")
    assert read_timestamp(tmp_path) == (None, ["timestamp.txt is ignored: it is a symbolic link."])
