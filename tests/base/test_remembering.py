"""Verdicts are remembered in a workbook, and nowhere else; progress is read from them without running anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish
from torchkata.base.remembering import KEPT, Remembered, begin, died, digest_of, end, forget, read_verdicts, remember
from torchkata.tools.course import Chapter
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.standing import standing
from torchkata.tools.learning.update import update
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    made = make_course(tmp_path)
    fill_workbook(Place(tmp_path))
    return made


def run_all(chapter: Chapter) -> nbformat.NotebookNode:
    """Run the learner's notebook in its folder, past errors, as they would cell by cell."""
    notebook = nbformat.read(chapter.workbook, as_version=4)
    place = {"metadata": {"path": str(chapter.workbook.parent)}}
    return NotebookClient(notebook, timeout=60, allow_errors=True, resources=place).execute()


def stands(chapter: Chapter) -> dict[str, tuple[str, float]]:
    return {one.exercise.id: (one.state, one.points) for one in standing(chapter)}


ANSWERS = {"twice": "def twice(x): return abs(x) * 2", "guess": 'answers = {"a": 1, "b": 3}', "thrice": "thrice = 3"}


def test_what_check_cells_say_in_a_notebook_is_remembered(chapter: Chapter):
    assert stands(chapter) == {"twice": ("open", 0), "guess": ("open", 0), "thrice": ("open", 0)}
    learner_writes(chapter, **ANSWERS)
    run_all(chapter)
    assert stands(chapter) == {"twice": ("wrong", 0), "guess": ("wrong", 1.5), "thrice": ("wrong", 0)}
    lines = {one.exercise.id: one.line for one in standing(chapter)}
    assert "thrice is not a function" in lines["thrice"] or "int" in lines["thrice"]
    assert all(one.when for one in standing(chapter))


def test_the_notebook_and_check_say_the_same(chapter: Chapter):
    learner_writes(chapter, **ANSWERS)
    run_all(chapter)
    said = {one.exercise.id: (one.state, one.points, one.line) for one in standing(chapter)}
    assert said["twice"][0] == "wrong"  # wrong for negative numbers: only the hidden test sees it
    (chapter.root / "workbook" / KEPT / "verdicts").rename(chapter.root / "workbook" / KEPT / "verdicts before")
    check_chapter(chapter)
    assert {one.exercise.id: (one.state, one.points, one.line) for one in standing(chapter)} == said
    kept = read_verdicts(chapter.root / "workbook").values()
    assert len(kept) == 3 and all(verdict.hidden for verdict in kept)


def test_an_update_keeps_the_verdicts_of_checks_that_are_the_same(chapter: Chapter):
    learner_writes(chapter, twice="def twice(x): return 2 * x", thrice="def thrice(x): return 3 * x")
    run_all(chapter)
    publish(chapter, SOURCE.replace("observe(thrice, 4).returns(12)", "observe(thrice, 5).returns(15)"))
    update(chapter)
    assert stands(chapter) == {"twice": ("solved", 2), "guess": ("open", 0), "thrice": ("open", 0)}


def test_outside_of_a_workbook_nothing_is_kept(chapter: Chapter, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    notebook = nbformat.read(chapter.release, as_version=4)
    place = {"metadata": {"path": str(tmp_path / "elsewhere")}}
    NotebookClient(notebook, timeout=60, allow_errors=True, resources=place).execute()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert read_verdicts(chapter.root / "workbook") == {}


DAMAGED = [
    "",
    "{",
    "[]",
    "{}",
    '{"exercise": "e", "digest": "d", "state": "great"}',
    '{"exercise": "e", "digest": 3, "state": "open"}',
    '{"exercise": "e", "digest": "d", "state": "solved", "points": "many"}',
    '{"exercise": "e", "digest": "d", "state": "open", "x": 1}',
    '{"exercise": "e", "digest": "d", "state": "solved", "points": NaN}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_verdict_counts_as_none(tmp_path: Path, text: str):
    folder = tmp_path / KEPT / "verdicts"
    folder.mkdir(parents=True)
    (folder / "e-d.json").write_text(text)
    remember(tmp_path, Remembered("f", "0", "solved", points=1.5))
    assert [(v.exercise, v.points) for v in read_verdicts(tmp_path).values()] == [("f", 1.5)]


def test_forgetting_spares_exercises_with_longer_names(tmp_path: Path):
    (tmp_path / KEPT).mkdir()
    for name, digest in [("sum", "1"), ("sum", "2"), ("sum-by-key", "1")]:
        remember(tmp_path, Remembered(name, digest, "solved"))
    forget(tmp_path, "sum")
    assert set(read_verdicts(tmp_path)) == {("sum-by-key", "1")}


def test_a_workbook_that_cannot_be_written_is_passed_over(tmp_path: Path):
    (tmp_path / KEPT).mkdir()
    (tmp_path / KEPT / "verdicts").write_text("a file where the folder should be")
    remember(tmp_path, Remembered("e", "d", "solved"))
    assert read_verdicts(tmp_path) == {}


def test_the_digest_is_that_of_the_stripped_source():
    assert digest_of("\ncheck\n\n") == digest_of("check") != digest_of("check ")[:11]


def test_reading_progress_does_not_load_torch(chapter: Chapter):
    code = (
        "import sys, json; from pathlib import Path; from torchkata.tools.course import Chapter;"
        "from torchkata.tools.learning.standing import standing; from torchkata.tools.placing import Place;"
        f"found = standing(Chapter(Place(Path({str(chapter.root)!r})), {chapter.name!r}));"
        "print(json.dumps([len(found), 'torch' in sys.modules]))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [3, False]


def run_in_a_kernel(chapter: Chapter, *sources: str) -> list[str]:
    """What these cells print or raise in a kernel of their own, in the chapter's folder."""
    place = {"metadata": {"path": str(chapter.workbook.parent)}}
    cells = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with suppress(DeadKernelError):
        NotebookClient(cells, timeout=60, allow_errors=True, resources=place).execute()
    return ["".join(out.get("text", "") + out.get("evalue", "") for out in cell.outputs) for cell in cells.cells]


def test_the_next_check_says_that_python_ended_in_the_last_one(chapter: Chapter):
    notebook = nbformat.read(chapter.workbook, as_version=4)
    setup, check = notebook.cells[1].source, {cell.id: cell.source for cell in notebook.cells}
    remember(chapter.root / "workbook", Remembered("twice", digest_of(check["twice-check"]), "solved"))
    run_in_a_kernel(chapter, setup, "def twice(x): __import__('os')._exit(1)", check["twice-check"])
    assert stands(chapter)["twice"] == ("solved", 2), "nobody has noticed yet"
    *_, told = run_in_a_kernel(chapter, setup, "thrice = lambda x: 3 * x", check["thrice-check"])
    assert told.startswith("The last check of twice has no verdict: Python ended in the middle of it.")
    assert stands(chapter)["twice"] == ("wrong", 0) and stands(chapter)["thrice"] == ("solved", 1)
    *_, told = run_in_a_kernel(chapter, setup, "thrice = lambda x: 3 * x", check["thrice-check"])
    assert told.startswith("✓ thrice")


def test_a_check_that_is_still_at_it_has_not_died(tmp_path: Path):
    (tmp_path / KEPT).mkdir()
    begin(tmp_path, "e", "d")
    assert died(tmp_path) == []
    end(tmp_path)
    assert list((tmp_path / KEPT / "running").iterdir()) == []
    note = tmp_path / KEPT / "running" / "4194399.json"
    note.write_text('["e", "d", 1.5]')
    (tmp_path / KEPT / "running" / f"{os.getpid()}.json").write_text('["f", "d", 1.5]')  # an earlier one's number
    (tmp_path / KEPT / "running" / "7.json").write_text("{")
    assert sorted(died(tmp_path)) == ["e", "f"] and died(tmp_path) == []


@pytest.mark.parametrize("name", ["../../traversed", "a/b", "", "*", "x" * 200, 3, ["e"]])
def test_a_note_of_a_strangers_names_no_file(tmp_path: Path, name: object):
    workbook = tmp_path / "in" / "workbook"
    (workbook / KEPT / "running").mkdir(parents=True)
    (workbook / KEPT / "verdicts").mkdir()
    for number, note in enumerate(([name, "d", 1.5], ["e", name, 1.5])):
        (workbook / KEPT / "running" / f"{4194300 + number}.json").write_text(json.dumps(note))
    before = {*tmp_path.rglob("*")}
    assert died(workbook) == []
    assert {*tmp_path.rglob("*")} <= before


@pytest.mark.parametrize("place", ["verdicts", "running", "verdicts/e-d.json", "running/PROCESS.json"])
def test_nothing_is_written_through_a_link(tmp_path: Path, place: str):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("theirs")
    link = tmp_path / KEPT / place.replace("PROCESS", str(os.getpid()))
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "theirs" / ("file" if link.suffix else ""))
    remember(tmp_path, Remembered("e", "d", "solved"))
    begin(tmp_path, "e", "d")
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["file"]
    assert (tmp_path / "theirs" / "file").read_text() == "theirs"
