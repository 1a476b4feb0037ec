"""What a learner reads in a terminal: lines that end between words, however narrow it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish
from torchkata.cli import main
from torchkata.cli.shared import err, out
from torchkata.tools.course import Chapter
from torchkata.tools.doctor import examine
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place

WIDTHS = (60, 80, 120)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = (
    ["solution", "thrice"],
    ["solution", "thrice", "--peek"],
    ["solution", "thrise"],
    ["check", "97"],
    ["check", "--json", "--watch"],
    ["reset", "thrice"],
    ["reset", "thrice"],
    ["update"],
    ["review"],
    ["review", "--exercise"],
    ["skip", "97"],
    ["doctor"],
)


@pytest.fixture
def chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chapter:
    made = make_course(tmp_path)
    long = "    return 3 * sum([" + "x, " * 40 + "]) / 40"
    publish(made, SOURCE.replace("    return 3 * x", long))
    fill_workbook(Place(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "LINES": "25"}.items():  # as in a terminal
        monkeypatch.setenv(name, value)
    found = [replace(one, value=one.value.replace(str(tmp_path), "/kata")) for one in examine()]
    monkeypatch.setattr("torchkata.tools.doctor.examine", lambda: found)
    return made


def shown(words: list[str], width: int, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.argv", ["torchkata", *words])
    for console in (out, err):
        monkeypatch.setattr(console, "width", width)
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr()
    return ESCAPES.sub("", told.out + told.err)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_is_broken_in_two(
    chapter: Chapter, width: int, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    answer = {"thrice": "def thrice(x):\n    return x"}
    for words in COMMANDS:
        learner_writes(chapter, **answer)
        wide = shown(words, 1000, capsys, monkeypatch).split()
        learner_writes(chapter, **answer)
        narrow = shown(words, width, capsys, monkeypatch)
        too_long = [line for line in narrow.split("\n") if len(line.rstrip()) > width and len(line.split()) > 1]
        assert set(narrow.split()) == set(wide) and not too_long, words
