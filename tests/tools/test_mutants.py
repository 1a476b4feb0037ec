"""Mutants of a solution: which there are, that each is tried in a process of its own with limits, and what is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from torchkata.cli import app
from torchkata.tools import mutants
from torchkata.tools.course import Chapter, course_root, find_chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.mutating import Mutant, mutants_of
from torchkata.tools.placing import here

CELL = '''def answer(x: Tensor, k: int = 1) -> Tensor:
    """Twice x, plus 1."""
    before = 3
    ### BEGIN SOLUTION
    {}
    ### END SOLUTION
    return before + 1
'''


def changed(line: str) -> set[str]:
    return {one.now for one in mutants_of(CELL.format(line))}


CHANGES = {
    "return x < 1": {"return x <= 1", "return x >= 1", "return x < 2", "return x < 0"},
    "return x is None": {"return x is not None"},
    "return x in y": {"return x not in y"},
    "return x + y": {"return x - y", "return x"},
    "x += y": {"x -= y", "x = y", "pass"},
    "return x and not y": {"return x or not y", "return not y", "return x", "return x and y"},
    "return -x": {"return x"},
    "return x.sum(True)": {"return x.sum(False)", "return x.mean(True)", "return x.sum()", "return x"},
    'return g(x, "sum")': {'return g(x, "mean")', 'return g("sum", x)', "return g(x)", 'return g("sum")', "return x"},
    "return x.detach()": {"return x", "return x.clone()"},
    "return g(x, dim=0)": {"return g(x)", "return g(dim=0)", "return g(x, dim=1)", "return g(x, dim=-1)"},
    "return torch.relu(x)": {"return x"},
    "return x[1:]": {"return x[:]", "return x[2:]", "return x[0:]"},
    "return a if x else b": {"return a", "return b"},
    "if x: y = 2.0": {"if False: y = 2.0", "if True: y = 2.0", "if x: pass", "if x: y = 4.0"},
    "with g(): x": {"if True: x"},
    "return [x for x in y if x]": {"return [x for x in y if True]"},
    'raise ValueError("1 is too many")': {'raise Exception("1 is too many")', "pass"},
}


@pytest.mark.parametrize("line", CHANGES)
def test_the_changes_of_a_line(line: str):
    assert changed(line) >= CHANGES[line]


@pytest.mark.parametrize("line", ["x  # 1 + 1", '"""1 + 1"""', "y: Literal[1, 2] = x"])
def test_what_is_no_code_is_left_alone(line: str):
    assert changed(line) <= {"pass", "pass  # 1 + 1"}


def test_each_mutant_is_another_cell_with_the_rest_as_it_was():
    found = mutants_of(CELL.format("return x + 2"))
    assert len({one.source for one in found}) == len(found) > 3
    assert all(one.line == 5 and one.was == "return x + 2" for one in found)
    assert all(one.source == CELL.format(one.now) for one in found)


EXERCISE = "one-hot-scatter"
ENDLESS, GREEDY, GONE = "while True: pass", "b = bytes(2**36)", "os._exit(3)"


@pytest.fixture(scope="module")
def chapter() -> Chapter:
    return find_chapters(here(), ["03"])[0]


def test_a_mutant_that_does_not_end_is_ended(chapter: Chapter):
    """So is one that wants all memory, or ends its process; the next one is tried all the same."""
    [exercise] = chapter.exercises[:1]
    right = mutants.mutants_in(chapter, [exercise.id])[exercise.id][0].source
    sources = [f"{right}\nimport os\n{code}" for code in (ENDLESS, GREEDY, GONE, "raise KeyError('this')")]
    tried = mutants.try_out(chapter, {exercise.id: [Mutant(1, "", "", source) for source in sources]})
    assert [one.told for one in tried] == ["ended by SIGPROF", "MemoryError", "ended by itself", "KeyError: 'this'"]


def test_an_exercise_that_is_not_there(chapter: Chapter):
    with pytest.raises(CourseError, match="has no exercise nothing: "):
        mutants.mutants_in(chapter, ["nothing"])


@pytest.mark.parametrize("why, code", [({}, 1), ({("b", "c"): "the same"}, 0)])
def test_the_command_lists_what_is_accepted(monkeypatch: pytest.MonkeyPatch, why: dict, code: int):
    """A listed one is no fault."""

    def try_out(chapter: Chapter, found: dict) -> Iterator[mutants.Tried]:
        yield mutants.Tried(EXERCISE, Mutant(2, "a", "b", ""), "Wrong.")
        yield mutants.Tried(EXERCISE, Mutant(3, "b", "c", ""), None)

    monkeypatch.setattr(mutants, "try_out", try_out)
    monkeypatch.setattr(mutants, "equivalents", lambda root: {EXERCISE: why})
    done = CliRunner().invoke(app, ["mutants", "03", EXERCISE])
    assert done.exit_code == code
    assert (f"{EXERCISE}, line 3: earns full points\n  - b\n  + c\n" in done.stdout) is (code == 1)
    assert "line 2" not in done.stdout


def test_the_listed_ones_have_a_reason():
    listed = mutants.equivalents(Path(course_root()))
    assert all(why.endswith(".") for found in listed.values() for why in found.values())
