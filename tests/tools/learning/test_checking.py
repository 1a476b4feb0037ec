"""`torchkata check`: a verdict for every exercise of the learner's workbook, whatever has happened to it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from typer.testing import CliRunner

from tests.plugins.selection import first_alone
from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish, read
from tests.tools.rebinding import REBINDING
from torchkata.cli import app
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning import cell_runner, checking
from torchkata.tools.learning.checking import check_chapter, check_chapters
from torchkata.tools.learning.choosing import to_run
from torchkata.tools.learning.exercises import find_checkable, solution
from torchkata.tools.learning.outcomes import Verdict
from torchkata.tools.learning.standing import standing
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A course in a temporary folder, with an untouched workbook."""
    made = make_course(tmp_path)
    fill_workbook(Place(tmp_path))
    return made


def verdicts(chapter: Chapter) -> dict[str, Verdict]:
    return {verdict.exercise.id: verdict for verdict in check_chapter(chapter)}


def test_untouched(chapter: Chapter):
    found = verdicts(chapter)
    assert [(v.points, v.line) for v in found.values()] == [(0, "not solved yet.")] * 3


def test_a_stub_is_not_run(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    learner_writes(
        chapter, twice=RIGHT["twice"], thrice="def thrice(x):\n    raise   NotImplementedError # your code here\n"
    )
    ran: list[str] = []
    found = check_chapter(chapter, progress=lambda *told: ran.append(told[3]))
    assert [one.state for one in found] == ["solved", "open", "open"]
    assert ran == ["", "twice", "twice", "guess", "thrice", ""], "the setup, an answer and its check, two stubs"
    learner_writes(chapter, twice="def twice(x):\n    raise NotImplementedError  # your code here")
    monkeypatch.setattr(checking, "_Run", None)
    assert {(one.points, one.line) for one in check_chapter(chapter)} == {(0, "not solved yet.")}
    assert {(one.points, one.state) for one in standing(chapter)} == {(0, "open")}, "not what was solved before"


def test_an_answer_below_the_stub_counts(chapter: Chapter):
    notebook = read(chapter)
    place = next(n for n, cell in enumerate(notebook.cells) if cell.id == "twice")
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(RIGHT["twice"]))
    nbformat.write(notebook, chapter.workbook)
    assert [one.state for one in check_chapter(chapter)] == ["solved", "open", "open"]


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


def told(chapter: Chapter) -> list[str]:
    """What a check says besides its verdicts."""
    notes: list[str] = []
    check_chapter(chapter, tell=lambda _, note: notes.append(note))
    return notes


def test_what_no_verdict_says_is_told(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x):\n    return helper(x)")
    notebook.cells.insert(1, nbformat.v4.new_code_cell("import lacking\ndef helper(x): return x + x"))
    for cell in notebook.cells:
        if cell.id in ("guess", "thrice"):
            cell.metadata.pop("nbgrader")
    nbformat.write(notebook, chapter.workbook)
    beside = chapter.workbook.with_name("things (Ada's conflicted copy 2026-01-10).ipynb")
    beside.write_text("{}")
    chapter.workbook.with_name("things-Copy1.ipynb").write_text("{}")
    copies, lost, stopped = told(chapter)
    assert f"Beside things.ipynb lies {beside.name}. " in copies
    assert lost.startswith("2 answer cells are missing") and "`torchkata update 98` brings them back" in lost
    why = "ModuleNotFoundError: No module named 'lacking' (line 1): 'import lacking'."
    assert stopped.startswith(f"A cell outside the exercises stopped with {why}")


def test_zero_bytes_behind_the_notebook_do_no_harm(chapter: Chapter):
    learner_writes(chapter, thrice="def thrice(x): return 3 * x")
    with chapter.workbook.open("ab") as file:
        file.write(bytes(4096))
    assert verdicts(chapter)["thrice"].solved and told(chapter) == []


@pytest.mark.parametrize("own", ["def check(name, got, expected):\n    assert got == expected", "check = observe = 1"])
def test_own_names_are_not_the_checks(chapter: Chapter, own: str):
    notebook = learner_writes(chapter, twice="def twice(x):\n    return x + x", thrice="def thrice(x): return 3 * x")
    notebook.cells.insert(2, nbformat.v4.new_code_cell(own))
    nbformat.write(notebook, chapter.workbook)
    found = verdicts(chapter)
    assert (found["twice"].points, found["thrice"].points) == (2, 1), found["twice"].line


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


def test_a_busy_machine_gives_cells_more_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    for load, seconds in [(0.5, 30), (2, 30), (4, 60), (40, 120)]:
        monkeypatch.setattr(psutil, "getloadavg", lambda load=load: (load, 0, 0))
        assert checking._patience() == seconds


def test_progress_is_told_cell_by_cell(chapter: Chapter):
    told: list[tuple] = []
    learner_writes(chapter, guess=RIGHT["guess"])
    check_chapter(chapter, {"guess"}, lambda *one: told.append(one))
    assert told == [(chapter, 0, 3, ""), (chapter, 1, 3, "guess"), (chapter, 2, 3, "guess"), (chapter, 3, 3, "")]


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
    run = [cell.source for cell in to_run(chapter.master, notebook)]
    assert not any("a demo that nobody changed" in source for source in run)
    checks = [n for n, source in enumerate(run) if source.startswith('"""Twice."""')]
    assert checks == [run.index("def twice(x): return 2") + 1], "once, behind the last copy"
    notebook.cells[2].source = "print('my demo')"
    assert "print('my demo')" in [cell.source for cell in to_run(chapter.master, notebook)]


def test_cells_between_an_answer_and_its_check_are_run_before_that(chapter: Chapter):
    notebook = learner_writes(chapter, twice="def twice(x): return x * two")
    place = next(n for n, cell in enumerate(notebook.cells) if cell.source.startswith('"""Twice."""'))
    for source in ("two = 2", "unused = 1"):
        notebook.cells.insert(place, nbformat.v4.new_code_cell(source))
    for only, between in ((None, ["unused = 1", "two = 2"]), ({"twice"}, ["two = 2"])):
        run = [cell.source for cell in to_run(chapter.master, notebook, only)]
        begins = run.index("def twice(x): return x * two")
        assert run[begins + 1 : begins + 1 + len(between)] == between
        assert run[begins + 1 + len(between)].startswith('"""Twice."""')


def test_an_endless_loop_is_stopped(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "CELL_TIMEOUT", 2)
    learner_writes(chapter, twice="def twice(x):\n    while True: pass", thrice="def thrice(x):\n    return 3 * x")
    found = verdicts(chapter)
    assert "does a loop never end?" in found["twice"].line
    assert found["thrice"].solved


RIGHT = {
    "twice": "def twice(x):\n    return 2 * x",
    "guess": 'answers = {"a": 1, "b": 2}',
    "thrice": "def thrice(x):\n    return 3 * x",
}
a_further_ending = pytest.mark.exhaustive("a further way to end Python", thorough=True)
ENDINGS = {
    "exit in a call": ("twice", "import os\ndef twice(x):\n    os._exit(1)", "(exit code 1)"),
    "exit in the cell": ("twice", "import os\nos._exit(0)", "(exit code 0)"),
    "exit in the last exercise": ("thrice", "import os\ndef thrice(x):\n    os._exit(3)", "(exit code 3)"),
    "killed": (
        "twice",
        "import os\ndef twice(x):\n    os.kill(os.getpid(), 9)",
        "(signal SIGKILL: out of memory?)",
    ),
    "crash": ("guess", "import ctypes; ctypes.string_at(0)", "(signal SIGSEGV: native code crashed)"),
    "a hang that no interrupt reaches": (
        "twice",
        "import itertools\ndef twice(x):\n    return sum(itertools.repeat(0))",
        "does a loop never end?",
    ),
    "a thread that ends Python later": (
        "twice",
        "import os, threading, time\nthreading.Timer(0.5, os._exit, [4]).start()\ndef twice(x):\n    time.sleep(1.9)",
        "(exit code 4)",
    ),
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("exercise, answer, words", first_alone(ENDINGS, a_further_ending))
def test_an_answer_that_ends_python_costs_its_own_exercise_only(
    chapter: Chapter, exercise: str, answer: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checking, "CELL_TIMEOUT", 2)
    monkeypatch.setattr(cell_runner, "GRACE_SECONDS", 1.0)
    learner_writes(chapter, **RIGHT | {exercise: answer})
    found = verdicts(chapter)
    assert found[exercise].points == 0 and words in found[exercise].line
    assert "Python" in found[exercise].line or "loop" in found[exercise].line
    assert all(found[other].solved for other in RIGHT if other != exercise)
    stands = {one.exercise.id: one.state for one in standing(chapter)}
    assert stands == {other: "wrong" if other == exercise else "solved" for other in RIGHT}


def test_after_an_end_the_learners_cells_are_there_again(chapter: Chapter):
    learner_writes(chapter, twice=RIGHT["twice"], guess="import os; os._exit(1)")
    notebook = learner_writes(chapter, thrice="def thrice(x):\n    return twice(x) + own(x)")
    notebook.cells.insert(2, nbformat.v4.new_code_cell("def own(x):\n    return x"))
    notebook.cells.insert(3, nbformat.v4.new_code_cell("import os; os._exit(1)"))
    nbformat.write(notebook, chapter.workbook)
    told: list[str] = []
    found = check_chapter(chapter, tell=lambda _, sentence: told.append(sentence))
    assert [verdict.solved for verdict in found] == [True, False, True]
    assert len(told) == 1, "of the answer its verdict tells it"
    assert "ended Python (exit code 1) and was left out: 'import os; os._exit(1)'" in told[0]


def test_the_command_says_which_cell_was_left_out(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    notebook = learner_writes(chapter, **RIGHT)
    notebook.cells.insert(2, nbformat.v4.new_code_cell("import os; os._exit(3)"))
    nbformat.write(notebook, chapter.workbook)
    done = CliRunner().invoke(app, ["check", "98"])
    assert done.exit_code == 0
    assert done.output.count("98_things: A cell outside the exercises ended Python (exit code 3) and was left out") == 1


DEMO = """# %%
def of_a_demo(x):
    return base * x

# %%
base = 2

"""


def test_a_demo_runs_where_an_answer_uses_its_names(chapter: Chapter):
    publish(chapter, SOURCE.replace("# %%\nprint", DEMO + "# %%\nprint", 1))
    chapter.workbook.unlink()
    fill_workbook(chapter.place)
    learner_writes(
        chapter, twice="def twice(x):\n    return of_a_demo(x)", thrice="def thrice(base):\n    return 3 * base"
    )
    found = verdicts(chapter)
    assert found["twice"].solved and found["thrice"].solved
    learner_writes(chapter, twice="def twice(x):\n    return 2 * x")
    assert not any("base = 2" in cell.source for cell in to_run(chapter.master, read(chapter)))


REBOUND = """# %%
box = lambda: None
factor = 2

"""


def rebound(chapter: Chapter, **answers: str) -> nbformat.NotebookNode:
    """The learner's notebook of a chapter with a demo that binds `factor` and `box`."""
    publish(chapter, SOURCE.replace("# %%\nprint", REBOUND + "# %%\nprint", 1))
    chapter.workbook.unlink()
    fill_workbook(chapter.place)
    return learner_writes(chapter, **answers)


@pytest.mark.parametrize("begins", REBINDING.values(), ids=REBINDING)
def test_a_demo_is_run_where_an_answer_binds_its_names_anew(chapter: Chapter, begins: str):
    learner = rebound(chapter, twice=f"{begins}\ndef twice(x):\n    return factor * x")
    for only in (None, {"twice"}):
        assert "factor = 2" in to_run(chapter.master, learner, only)[1].source


def test_a_demo_is_run_where_a_later_answer_binds_its_names(chapter: Chapter):
    rebound(
        chapter,
        twice="factor = factor * 1\ndef twice(x):\n    return factor * x",
        thrice="factor = 3\ndef thrice(x):\n    return factor * x",
    )
    found = verdicts(chapter)
    assert found["twice"].solved and found["thrice"].solved


def test_one_exercise_runs_with_what_it_needs_and_nothing_else(chapter: Chapter):
    notebook = learner_writes(
        chapter, twice=RIGHT["twice"], thrice="def thrice(x):\n    return twice(x) + rest.part(x)"
    )
    for own in (
        "def identity(x):\n    return x",
        "import types\nrest = types.SimpleNamespace()",
        "rest.part = identity",
    ):
        notebook.cells.insert(-2, nbformat.v4.new_code_cell(own))
    notebook.cells.insert(-2, nbformat.v4.new_code_cell("raise SystemExit  # not needed"))
    nbformat.write(notebook, chapter.workbook)
    run = [cell.exercise for cell in to_run(chapter.master, notebook, {"thrice"})]
    assert run == ["", "twice", "", "", "", "thrice", "thrice"]
    [verdict] = check_chapter(chapter, {"thrice"})
    assert verdict.solved
    assert [one.state for one in standing(chapter)] == ["open", "open", "solved"]


def test_a_verdict_names_the_test_and_all_wrong_items(chapter: Chapter):
    publish(chapter, SOURCE.replace('items = {"a"', 'items = {"c": prediction(3), "d": prediction(4), "a"'))
    learner_writes(chapter, twice="def twice(x):\n    return abs(x) * 2", guess="answers = dict(a=1, b=3, c=3, d=5)")
    found = verdicts(chapter)
    assert found["twice"].test == "hidden test: a negative number"
    assert found["guess"].line.startswith("d = 5: ") and found["guess"].more == ("b = 3: One too many.",)
    assert any(("Twice" not in line and "asked" in line) or "✗" in line for line in found["twice"].details)


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


def test_the_command_checks_one_exercise(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    publish(
        chapter,
        SOURCE.replace('# %% answer="thrice"', '# %% [markdown]\n# ### Exercise 98.3 · Thrice\n\n# %% answer="thrice"'),
    )
    chapter.workbook.unlink()
    fill_workbook(chapter.place)
    monkeypatch.chdir(chapter.root)
    learner_writes(chapter, **RIGHT)
    for word in ("thrice", "98.3"):
        done = CliRunner().invoke(app, ["check", word])
        assert done.exit_code == 0 and "1 of 1" in done.stdout and "twice" not in done.stdout
    assert find_checkable(["98.3", "twice"], chapter.place) == {chapter: {"thrice", "twice"}}
    assert find_checkable(["98.3", "98"], chapter.place) == find_checkable(None, chapter.place) == {chapter: None}


def test_solution_opens_for_what_check_has_found_solved(chapter: Chapter):
    learner_writes(chapter, twice=RIGHT["twice"])
    check_chapter(chapter)
    assert "return 2 * x" in solution(chapter, chapter.exercises[0])
    visible = SOURCE[SOURCE.index('# %% check="twice"') : SOURCE.index('# %% answer="guess"')]
    split = visible.replace("points=2", "points=1")
    publish(chapter, SOURCE.replace(visible, split + split))  # a newer release, with two check cells
    check_chapter(chapter)
    assert "return 2 * x" in solution(chapter, chapter.exercises[0])


@pytest.mark.parametrize(
    "words, message",
    [
        (["check", "97"], "There is no chapter '97'"),
        (["check", "thrise"], "Did you mean thrice"),
        (["check"], "not in your workbook yet"),
        (["update"], "There is no workbook yet. Run `torchkata lab`"),
    ],
)
def test_the_command_explains(chapter: Chapter, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch):
    chapter.workbook.unlink()
    monkeypatch.chdir(chapter.root)
    result = CliRunner().invoke(app, words)
    assert result.exit_code != 0
    assert message in f"{result.exception} {result.output}".replace("\n", " ")


def test_an_answer_without_output_wins_nothing(chapter: Chapter):
    answer = "import sys\nsys.stdout = None\ndef twice(x):\n    return 'wrong'"
    learner_writes(chapter, twice=answer, thrice="def thrice(x): return 3 * x")
    found = verdicts(chapter)
    assert found["twice"].points == 0 and found["twice"].line != "solved"


def test_one_unreadable_chapter_does_not_stop_the_others(chapter: Chapter):
    other = Chapter(chapter.place, "99_others")
    publish(other, SOURCE)
    readable, broken = check_chapters({chapter: None, other: None})
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
