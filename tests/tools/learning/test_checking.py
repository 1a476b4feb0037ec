"""`torchkata check`: a verdict for every exercise of the learner's workbook, whatever has happened to it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from typer.testing import CliRunner

from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish
from torchkata.cli import app
from torchkata.tools.course import Chapter, CourseError
from torchkata.tools.learning import checking
from torchkata.tools.learning.checking import Verdict, check_chapter, check_chapters, to_run
from torchkata.tools.learning.workbook import fill_workbook


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A course in a temporary folder, with an untouched workbook."""
    made = make_course(tmp_path)
    fill_workbook(tmp_path)
    return made


def verdicts(chapter: Chapter) -> dict[str, Verdict]:
    return {verdict.exercise.id: verdict for verdict in check_chapter(chapter)}


def test_untouched(chapter: Chapter):
    found = verdicts(chapter)
    assert [(v.points, v.line) for v in found.values()] == [(0, "not solved yet.")] * 3


def test_a_stub_is_not_solved_yet_whatever_else_its_cell_does(chapter: Chapter):
    learner_writes(chapter, twice="def twice(x):\n    raise NotImplementedError\n\ntwice(1)")
    assert verdicts(chapter)["twice"].line == "not solved yet."


def test_right_wrong_and_partly_right(chapter: Chapter):
    learner_writes(
        chapter,
        twice="def twice(x):\n    return abs(x) * 2",
        guess='answers = {"a": 1, "b": 3}',
        thrice="def thrice(x): return 3 * x",
    )
    found = verdicts(chapter)
    assert (found["twice"].points, found["guess"].points, found["thrice"].points) == (0, 1.5, 1)
    assert "The values are wrong" in found["twice"].line  # seen by the hidden test only
    assert found["guess"].line == "b = 3: One too many."
    assert found["thrice"].solved and not found["guess"].solved


def test_own_cells_count_and_damage_is_survived(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x):\n    return helper(x)", thrice="def thrice(x) return x")
    answer = next(n for n, cell in enumerate(notebook.cells) if cell.id == "twice")
    notebook.cells.insert(answer, nbformat.v4.new_code_cell("def helper(x):\n    return x + x"))
    notebook.cells = [cell for cell in notebook.cells if "check" not in cell.id and cell.id != "guess"]
    nbformat.write(notebook, chapter.workbook)
    found = verdicts(chapter)
    assert found["twice"].solved
    assert found["guess"].line == "its answer cell is missing from your workbook."
    assert found["thrice"].line == "its cell stopped with SyntaxError: expected ':' (line 1)"


def test_an_edited_check_wins_nothing(chapter: Chapter):
    learner_writes(chapter, **{"twice-check": "pass", "guess-check": "3.0"})
    assert all(v.points == 0 for v in verdicts(chapter).values())


def test_a_copied_answer_counts_where_it_stands_last(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x): return 2 * x")
    copy = dict(notebook.cells[3], id="copy", source="def twice(x): return x")
    notebook.cells.append(nbformat.from_dict(copy))
    nbformat.write(notebook, chapter.workbook)
    assert verdicts(chapter)["twice"].points == 0


def test_what_is_run(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x): return 1")
    notebook.cells.append(nbformat.from_dict(dict(notebook.cells[3], id="copy", source="def twice(x): return 2")))
    run = [cell.source for cell in to_run(chapter.master, notebook).cells]
    assert not any("a demo that nobody changed" in source for source in run)
    checks = [n for n, source in enumerate(run) if source.startswith('"""Twice."""')]
    assert checks == [run.index("def twice(x): return 2") + 1], "once, behind the last copy"
    notebook.cells[2].source = "print('my demo')"
    assert "print('my demo')" in [cell.source for cell in to_run(chapter.master, notebook).cells]


def test_an_endless_loop_and_a_dead_kernel(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "CELL_TIMEOUT", 12)
    learner_writes(chapter, twice="def twice(x):\n    while True: pass", thrice="def thrice(x):\n    return 3 * x")
    found = verdicts(chapter)
    assert "does a loop never end?" in found["twice"].line
    assert found["thrice"].solved
    learner_writes(chapter, twice="def twice(x):\n    return 2 * x", guess="import os; os._exit(1)")
    found = verdicts(chapter)
    assert found["twice"].solved
    assert found["guess"].points == 0 and "ended the kernel" in found["thrice"].line


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"cells": 3}'])
def test_a_broken_notebook_gets_a_message(chapter: Chapter, broken: str, monkeypatch: pytest.MonkeyPatch):
    chapter.workbook.write_text(broken, encoding="utf-8")
    with pytest.raises(CourseError, match="is not a readable notebook"):
        check_chapter(chapter)


def test_the_command(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    run = CliRunner().invoke
    first = run(app, ["check"])
    assert first.exit_code == 1
    assert "not solved yet" in first.stdout and "0 of 6" in first.stdout
    learner_writes(
        chapter,
        twice="def twice(x): return x + x",
        guess='answers = {"a": 1, "b": 2}',
        thrice="thrice = lambda x: x * 3",
    )
    done = run(app, ["check", "98"])
    assert done.exit_code == 0 and "6 of 6" in done.stdout


@pytest.mark.parametrize(
    "words, message", [(["check", "97"], "There is no chapter '97'"), (["check"], "not in your workbook yet")]
)
def test_the_command_explains(chapter: Chapter, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch):
    chapter.workbook.unlink()
    monkeypatch.chdir(chapter.root)
    result = CliRunner().invoke(app, words)
    assert result.exit_code != 0
    assert message in f"{result.exception} {result.output}".replace("\n", " ")


HIDDEN_FAILURES = {
    "a loop in C": "import itertools\ndef twice(x):\n    return sum(itertools.repeat(0))",
    "no output": "import sys\nsys.stdout = None\ndef twice(x):\n    return 'wrong'",
}


@pytest.mark.parametrize("answer", HIDDEN_FAILURES.values(), ids=HIDDEN_FAILURES)
def test_a_failure_that_leaves_no_error_wins_nothing(chapter: Chapter, answer: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "CELL_TIMEOUT", 12)
    learner_writes(chapter, twice=answer, thrice="def thrice(x): return 3 * x")
    found = verdicts(chapter)
    assert found["twice"].points == 0 and found["twice"].line != "solved"


def test_one_unreadable_chapter_does_not_stop_the_others(chapter: Chapter):
    other = Chapter(chapter.root, "99_others")
    publish(other, SOURCE)
    readable, broken = check_chapters([chapter, other])
    assert [verdict.points for verdict in readable] == [0, 0, 0]
    assert "not in your workbook yet" in str(broken)


SLOW = """\
import time
from pathlib import Path
Path("begun").touch()
time.sleep(11)
Path("ended").touch()
"""
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
from torchkata.cli import app
app(["check"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal of Unix")
def test_ctrl_c_does_not_wait_for_the_cells(chapter: Chapter):
    learner_writes(chapter, twice=SLOW)
    command = subprocess.Popen([sys.executable, "-c", INTERRUPTIBLE], cwd=chapter.root)
    folder = chapter.workbook.parent
    while not (folder / "begun").exists():
        assert command.poll() is None
        time.sleep(0.1)
    kernels = psutil.Process(command.pid).children()
    command.send_signal(signal.SIGINT)
    assert command.wait() != 0 and not (folder / "ended").exists()
    assert kernels and not any(kernel.is_running() for kernel in kernels)


def test_watching_notices_a_save(chapter: Chapter):
    saves = checking.saved_chapters([chapter], pause=0.01)
    threading.Timer(0.2, lambda: learner_writes(chapter, twice="def twice(x): return 1")).start()
    assert next(saves) == chapter
