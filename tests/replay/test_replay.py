"""`make replay` says what has changed, and only that."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from tests import ROOT
from tests.replay.__main__ import main
from tests.replay.comparing import changes
from tests.replay.trees import Exercise
from torchkata.tools.course import Chapter
from torchkata.tools.placing import Place
from torchkata.tools.source import read_source

CHAPTER = """\
# %% [markdown]
# # Two things

# %% setup=true
from torchkata.verdicts import check, mistake, observe

# %% exercise="twice"

# %% exercise="thrice"
"""
TWICE = """\
# %% [markdown]
# ### Exercise 98.1 · Twice

# %% answer="twice"
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% check="twice" points=2
\"\"\"Twice.\"\"\"
with check("twice") as test:
    test("a number")
    observe(twice, 4).returns(8)
    ### BEGIN HIDDEN TESTS
    test.hidden("a negative number")
    observe(twice, -1).returns(-2)
    ### END HIDDEN TESTS
"""
THRICE = TWICE.replace("wice", "hrice")
ANSWERS = """\
# corners: none

# %% right: adds
def twice(x): return x + x

# %% wrong: adds one
# says: is not
def twice(x): return x + 1

# %% wrong: only positive numbers
# says: is not
def twice(x): return 2 * abs(x)
"""
COUNT = "5 answers compared with"  # three of twice, its solution and its stub


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A course of one chapter in a git repository, all of it committed."""
    package = tmp_path / "src" / "torchkata"
    shutil.copytree(
        ROOT / "src" / "torchkata", package, ignore=shutil.ignore_patterns("__pycache__", "tools", "pictures")
    )
    chapter = Chapter(Place(tmp_path), "98_things")
    put(chapter.source, CHAPTER)
    put(exercise(tmp_path), TWICE)
    put(exercise(tmp_path, "thrice"), THRICE)
    nbformat.write(read_source(chapter), chapter.solution)
    put(answers(tmp_path), ANSWERS)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A course"]):
        git(tmp_path, *command)
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *name, *arguments], cwd=tree, check=True)


def answers(tree: Path) -> Path:
    return tree / "tests" / "answers" / "98_things" / "twice.py"


def exercise(tree: Path, name: str = "twice") -> Path:
    return Chapter(Place(tree), "98_things").exercises_folder / f"{name}.py"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def replayed(tree: Path, *options: str) -> list[dict]:
    """The changes since the last commit, from the report in JSON."""
    file = tree / "report.json"
    assert main(["--against", "HEAD", "--answer", "twice", "--jobs", "1", f"--json={file}", *options], root=tree) == 0
    return json.loads(file.read_text(encoding="utf-8"))["changes"]


def test_nothing_has_changed(tree: Path, capsys: pytest.CaptureFixture):
    assert replayed(tree) == []
    assert COUNT in capsys.readouterr().out
    assert list((tree / "build" / "replay").iterdir()), "the next run knows it"


def test_one_sentence_of_one_answer_is_one_line(tree: Path, capsys: pytest.CaptureFixture):
    told = "    observe(twice, 4).returns(8)\n"
    change(exercise(tree), told, told.replace(")\n", ', mistake("That is one more.", gives=5))\n'))
    (found,) = replayed(tree)
    assert found["exercise"] == "98 twice" and found["cell"] == "twice-check" and not found["of_answer"]
    assert found["answer"] == "wrong: adds one"
    assert found["before"].startswith("0 of 2: ") and "That is one more." not in found["before"]
    assert found["after"] == "0 of 2: That is one more."
    shown = capsys.readouterr().out
    assert "That is one more." in shown and shown.splitlines()[-1].startswith(COUNT) and shown.endswith(": 1 changed\n")


def test_points_and_hidden_tests(tree: Path):
    change(exercise(tree), "observe(twice, -1).returns(-2)", "observe(twice, 1).returns(2)")
    (found,) = replayed(tree)
    assert found["answer"] == "wrong: only positive numbers"
    assert found["before"].startswith("0 of 2, hidden test: ") and found["after"] == "2 of 2"


def test_each_tree_runs_with_its_own_package(tree: Path):
    change(
        tree / "src" / "torchkata" / "verdicts" / "raised.py",
        'self.lines = [f"{exercise}: not solved yet."]',
        'self.lines = [f"{exercise}: open."]',
    )
    (found,) = replayed(tree)
    assert found["answer"] == "the stub"
    assert found["before"] == "0 of 2 (NotSolvedYet): twice: not solved yet."
    assert found["after"] == "0 of 2 (NotSolvedYet): twice: open."


def test_new_gone_and_rewritten_answers(tree: Path, capsys: pytest.CaptureFixture):
    change(answers(tree), "right: adds", "right: adds it twice")
    change(answers(tree), "return x + 1", "return x + x")
    change(answers(tree), "def twice(x): return 2 * abs(x)", "# a note\ndef twice(x): return 2 * abs(x)")
    change(exercise(tree), "observe(twice, -1).returns(-2)", "observe(twice, 1).returns(2)")
    found = {one["answer"]: one for one in replayed(tree)}
    assert {name: one["of_answer"] for name, one in found.items()} == {
        "right: adds it twice": "new",
        "right: adds": "gone",
        "wrong: adds one": "rewritten",
        "wrong: only positive numbers": "",
    }
    assert found["right: adds it twice"]["before"] == "2 of 2", "what that commit would have said of it"
    assert found["wrong: adds one"]["after"] == "2 of 2"
    assert "1 changed; 1 gone; 1 new; 1 rewritten" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["Pair at [127.0.0.1]:{} is closed", "<object at 0x7f0{}>", "/tmp/run-{}/a.txt"])
def test_what_differs_from_run_to_run_is_no_change(words: str):
    one = Exercise("98_things", "twice", "", (), {"wrong: a": "x = 1"})
    before, after = (
        {"wrong: a": [{"cell": "c", "of": 1.0, "points": 0.0, "error": "", "hidden": False, "says": words.format(n)}]}
        for n in (101, 202)
    )
    assert not list(changes(one, one, before, after))


def test_a_new_exercise_is_named(tree: Path, capsys: pytest.CaptureFixture):
    put(exercise(tree, "four_times"), THRICE.replace("thrice", "four-times", 1).replace('"thrice"', '"four-times"'))
    exercise(tree, "thrice").unlink()
    change(Chapter(Place(tree), "98_things").source, '"thrice"', '"four-times"')
    assert main(["--against", "HEAD", "--answer", "t", "--jobs", "1", "--fail"], root=tree) == 1
    assert "new exercises: 98 four-times; gone exercises: 98 thrice" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--against", "no-such-commit"], "git knows no commit 'no-such-commit'"),
        (["--against", "HEAD", "--chapter", "77"], "chapter '77'"),
    ],
)
def test_what_is_not_there(tree: Path, capsys: pytest.CaptureFixture, options: list[str], words: str):
    assert main(options, root=tree) == 2
    assert words in capsys.readouterr().err


def test_a_commit_that_is_too_old(tree: Path, capsys: pytest.CaptureFixture):
    git(tree, "rm", "-q", "-r", "--cached", "tests")
    git(tree, "commit", "-q", "-m", "Without answers")
    assert main(["--against", "HEAD"], root=tree) == 2
    assert "HEAD is too old to be replayed: " in capsys.readouterr().err


def test_an_answer_that_ends_python(tree: Path, capsys: pytest.CaptureFixture):
    change(answers(tree), "return x + 1", "import os; print('farewell', file=__import__('sys').stderr); os._exit(7)")
    assert main(["--against", "HEAD", "--answer", "adds one", "--jobs", "1"], root=tree) == 2
    told = capsys.readouterr().err
    assert "98 twice in " in told and "Python ended with code 7" in told
