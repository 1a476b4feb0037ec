"""`torchkata check --watch`: a save runs what it changed, and nothing else, in a process that is ready."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish, read
from torchkata.cli import app
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning import cell_runner
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.watching import Spare, Watched, saves
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place

OWN = "def twofold(x):\n    return x * 2"
ANSWERS = {"twice": "def twice(x):\n    return twofold(x)", "thrice": "def thrice(x):\n    return 3 * x"}


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A workbook with two answers; the first uses a cell of the learner's own."""
    made = make_course(tmp_path)
    fill_workbook(Place(tmp_path))
    notebook = learner_writes(made, **ANSWERS)
    notebook.cells.insert(2, nbformat.v4.new_code_cell(OWN))
    nbformat.write(notebook, made.workbook)
    return made


@pytest.fixture
def spare() -> Iterator[Spare]:
    one = Spare()
    yield one
    one.end()


def write_own(chapter: Chapter, source: str) -> None:
    notebook = read(chapter)
    notebook.cells[2].source = source
    nbformat.write(notebook, chapter.workbook)


def test_what_changed_is_run(chapter: Chapter, spare: Spare):
    watched = Watched(chapter, None)
    watched.verdicts = check_chapter(chapter)
    assert [one.state for one in watched.verdicts] == ["solved", "open", "solved"]
    assert watched.check(spare) == []
    learner_writes(chapter, thrice="def thrice(x):\n    return x")
    assert watched.check(spare) == ["thrice"]
    assert [one.state for one in watched.verdicts] == ["solved", "open", "wrong"]
    write_own(chapter, OWN.replace("2", "4"))
    assert watched.check(spare) == ["twice"], "which uses that cell"
    write_own(chapter, OWN)
    learner_writes(chapter, guess='answers = {"a": 1, "b": 2}')
    assert watched.check(spare) == ["twice", "guess"]
    assert watched.verdicts[:2] == check_chapter(chapter)[:2]


def test_a_notebook_that_cannot_be_read_is_said_and_forgotten(chapter: Chapter, spare: Spare):
    watched, whole = Watched(chapter, None), chapter.workbook.read_bytes()
    watched.verdicts = check_chapter(chapter)
    chapter.workbook.write_bytes(whole[:100])
    with pytest.raises(CourseError, match="not a readable notebook"):
        watched.check(spare)
    chapter.workbook.write_bytes(whole)
    assert watched.check(spare) == []


def test_the_setup_cell_has_run_before_anybody_asks(chapter: Chapter, spare: Spare, monkeypatch: pytest.MonkeyPatch):
    publish(chapter, SOURCE.replace("import torch\n", "import torch\nopen('begun', 'a').write('once')\n"))
    watched = Watched(chapter, {"thrice"})
    spare.prepare(chapter)
    begun = chapter.workbook.parent / "begun"
    patience = time.monotonic() + 120
    while not begun.exists():
        assert time.monotonic() < patience
        time.sleep(0.05)
    monkeypatch.setattr(cell_runner, "subprocess", None)  # no further process
    assert watched.check(spare) == ["thrice"]
    assert watched.verdicts[0].solved and begun.read_text() == "once"


def test_a_spare_that_has_ended_is_replaced(chapter: Chapter, spare: Spare):
    spare.prepare(chapter)
    assert spare._runner
    spare._runner.end()
    watched = Watched(chapter, {"thrice"})
    watched.check(spare)
    assert watched.verdicts[0].solved


def test_a_save_is_noticed_also_one_during_the_first_check(chapter: Chapter):
    watched = Watched(chapter, None)
    learner_writes(chapter, twice="def twice(x): return 1")
    seen = saves([watched], pause=0.01)
    assert next(seen) is watched
    threading.Timer(0.1, lambda: learner_writes(chapter, twice="def twice(x): return 12")).start()
    assert next(seen) is watched


def test_the_command(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)

    def one_save(watched: list[Watched]) -> Iterator[Watched]:
        learner_writes(chapter, thrice="def thrice(x):\n    return x")
        yield from watched
        learner_writes(chapter, thrice="def thrice(x):\n    return x # no other verdict")
        yield from watched
        raise KeyboardInterrupt

    monkeypatch.setattr("torchkata.tools.learning.watching.saves", one_save)
    said = CliRunner().invoke(app, ["check", "--watch"]).output
    begun, watched = said.split("Watching the workbook")
    assert "twice" in begun and "twice" not in watched, "but what changed"
    assert watched.count("Checked thrice in") == 2 and watched.count("0 of 1") == 1


def test_json(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    learner_writes(chapter, thrice="def thrice(x):\n    return x")
    done = CliRunner().invoke(app, ["check", "--json"])
    [told] = json.loads(done.stdout)["chapters"]
    assert done.exit_code == 1
    assert (told["chapter"], told["title"], told["notes"]) == ("98_things", "Three things", [])
    assert [(one["id"], one["state"], one["points"], one["of"]) for one in told["exercises"]] == [
        ("twice", "solved", 2, 2),
        ("guess", "open", 0, 3),
        ("thrice", "wrong", 0, 1),
    ]
    assert told["exercises"][2]["test"] == "test: a number" and told["exercises"][1]["verdict"] == "not solved yet."
    chapter.workbook.unlink()
    done = CliRunner().invoke(app, ["check", "--json"])
    assert "not in your workbook yet" in json.loads(done.stdout)["chapters"][0]["error"] and done.exit_code == 2
    refused = CliRunner().invoke(app, ["check", "--json", "--watch"])
    assert "Choose one of them" in str(refused.exception)
