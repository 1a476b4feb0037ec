"""Nothing that a learner names breaks a check, and the learner's names stay the learner's: in an IPython shell, as in a
kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

SETUP = """
import math, sys
import torch
import torch.nn.functional as F
from torchkata.verdicts import check, mistake, observe, observe_scenario
"""
CHECK = """
'''A check cell.'''
with check("names") as test:
    test("visible")
    seen = observe(answer, torch.tensor([math.pi, sys.maxsize * 0.0]))
    seen.returns(F.relu(torch.tensor([math.pi, 0.0])), mistake("All zero.", when=lambda seen: not seen.value.any()))
    def story(answer, x):
        return answer(x) * int(math.sqrt(4))
    observe_scenario(story, answer, torch.tensor([-1.0])).returns(torch.tensor([0.0]))
test.points
"""
HOSTILE = """
def check(*args): return 1 / 0
observe = mistake = observe_scenario = None
math = sys = F = torch = int = "mine"
def test(x): return x.clamp(min=0)
def answer(x): return test(x)
"""
HELPERS = '''"""What the checks of shared share."""

low = mistake("Too low.", when=lambda seen: seen.value < limit)
limit = 3


def twice(x):
    return x * 2


def story(answer, x):
    """Call it with twice x."""
    return answer(twice(x))
'''
SHARING = """
with check("shared") as test:
    test("visible")
    observe(answer, 2).returns(twice(2), low)
    observe_scenario(story, answer, 3).returns(12)
"""
RUN = """
import contextlib, io, json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for line in sys.stdin:
    shell.reset()
    told = []
    for cell in json.loads(line):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            done = shell.run_cell(cell)
        told += [*out.getvalue().splitlines(), type(done.error_in_exec).__name__]
    print(json.dumps(told), flush=True)
"""
Outcomes = Callable[..., list[str]]
_numbers = count()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen]:
    env = dict(os.environ, IPYTHONDIR=str(tmp_path_factory.mktemp("ipython")))
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@pytest.fixture
def outcomes(shell: subprocess.Popen) -> Outcomes:
    """What an IPython shell without names prints and raises, cell by cell. What one test calls its exercise, no other
    one does."""
    number = next(_numbers)

    def run(*cells: str) -> list[str]:
        assert shell.stdin and shell.stdout
        own = [cell.replace('"names"', f'"names-{number}"').replace("shared", f"shared-{number}") for cell in cells]
        shell.stdin.write(json.dumps(own) + "\n")
        shell.stdin.flush()
        return [line.replace(f"-{number}", "") for line in json.loads(shell.stdout.readline())]

    return run


def test_whatever_a_learner_names_the_check_runs_and_the_names_stay(outcomes: Outcomes):
    mine = "assert math == sys == F == torch == int == 'mine' and observe is mistake is None"
    told = outcomes(SETUP, HOSTILE, CHECK, CHECK, mine, "assert test.__name__ == 'test'", "check()")
    assert told[:2] == ["NoneType", "NoneType"]
    assert told[2:6] == ["✓ names: 1 test passed.", "NoneType"] * 2
    assert told[6:8] == ["NoneType", "NoneType"] and told[-1] == "ZeroDivisionError"


def test_nothing_of_a_check_cell_is_left(outcomes: Outcomes):
    left = "print(sorted(set(globals()) - before))"
    answer = "def answer(x): return x.clamp(min=0)"
    assert outcomes(SETUP, answer, "before = {*globals(), 'before', '__doc__'}", CHECK, left)[-2] == "[]"


def test_an_answer_can_not_borrow_from_the_check_cell(outcomes: Outcomes):
    told = outcomes(SETUP, "def answer(x): return story(lambda x: x.clamp(min=0), x)", CHECK)
    assert "name 'story' is not defined" in "\n".join(told) and told[-1] == "WrongAnswer"


def test_a_wrong_answer_is_told_that_its_names_are_not_the_checks(outcomes: Outcomes):
    told = "\n".join(outcomes(SETUP, HOSTILE + "def answer(x): return x * 0", CHECK))
    assert "All zero." in told
    assert "Your code names something `F`, `check`, `int` and others; the checks use their own." in told


def test_the_first_cell_alone_says_what_names_mean(outcomes: Outcomes):
    own = "import cmath as math"
    assert outcomes(SETUP, own, HOSTILE, CHECK, "del check, torch", CHECK).count("✓ names: 1 test passed.") == 2


def test_what_torch_exchanges_itself_is_not_the_learners_doing(outcomes: Outcomes):
    told = outcomes(SETUP, "torch.set_default_dtype(torch.float64)\ndef answer(x): return x.clamp(min=0)", CHECK)
    assert told[2:] == ["✓ names: 1 test passed.", "NoneType"]


def test_without_names_taken_nothing_is_told(outcomes: Outcomes):
    told = outcomes(SETUP, "input = 3\ndef answer(x): return x * 0", CHECK)
    assert not any("names something" in line for line in told)


def test_ipythons_own_open_is_no_name_of_the_learner(outcomes: Outcomes):
    opens = CHECK.replace("observe(", "open, observe(", 1)
    assert opens != CHECK
    told = outcomes(SETUP, "def answer(x): return x * 0", opens)
    assert "All zero." in "\n".join(told)
    assert not any("names something" in line for line in told)


def test_the_value_of_the_last_line_is_the_cells(outcomes: Outcomes):
    """From it nbgrader reads a share of the points."""
    share = CHECK.replace("\ntest.points", "\n    test.points = 1.5\ntest.points")
    assert outcomes(SETUP, "def answer(x): return x.clamp(min=0)", share, "print(_)")[-2] == "1.5"


def test_an_answer_that_was_merged_with_its_check_stays(outcomes: Outcomes):
    told = outcomes(SETUP, "def answer(x): return x.clamp(min=0)\n" + CHECK, "print(answer(torch.ones(1)))")
    assert told[1:] == ["✓ names: 1 test passed.", "NoneType", "tensor([1.])", "NoneType"]


def test_a_check_cell_below_a_magic_runs(outcomes: Outcomes):
    told = outcomes(SETUP, "def answer(x): return x.clamp(min=0)", "%%time\n" + CHECK.lstrip())
    assert "✓ names: 1 test passed." in told


def test_helpers_stand_in_the_check_cell_and_nowhere_else(outcomes: Outcomes):
    own = "limit = twice = story = low = 'mine'\ndef answer(x): return 2 * x if twice == 'mine' else 0"
    told = outcomes(SETUP, own, HELPERS, SHARING, "assert limit == twice == story == low == 'mine'")
    assert told == ["NoneType"] * 3 + ["✓ shared: 1 test passed.", "NoneType", "NoneType"]


def test_a_mistake_among_the_helpers_speaks(outcomes: Outcomes):
    told = outcomes(SETUP, "def answer(x): return x", HELPERS, SHARING)
    assert any("Too low." in line for line in told) and told[-1] == "WrongAnswer"


def test_what_a_scenario_of_the_helpers_stumbles_over_is_not_the_learners_line(outcomes: Outcomes):
    told = "\n".join(outcomes(SETUP, "def answer(x):\n    return [] + x if x > 2 else 2 * x", HELPERS, SHARING))
    assert "line 2 of your code, in answer" in told and "twice" not in told.partition("of your code")[2]


def test_who_lacks_the_helpers_cell_is_told_which_cell_to_run(outcomes: Outcomes):
    told = "\n".join(outcomes(SETUP, "def answer(x): return 2 * x", SHARING))
    assert "name 'twice' is not defined. Run the cell “What the checks of shared share” first" in told


def test_who_has_not_run_the_answer_is_told_that(outcomes: Outcomes):
    told = "\n".join(outcomes(SETUP, SHARING.replace("twice(2)", "4"), HELPERS, SHARING))
    assert told.count("name 'answer' is not defined. Run the cell of your answer first") == 2


def test_a_check_cell_of_a_release_in_which_it_held_its_helpers_keeps_them(outcomes: Outcomes):
    held = SHARING.replace("as test:", "as test:\n    def twice(x):\n        return 2 * x + 0\n")
    told = outcomes(SETUP, "def answer(x): return 2 * x", HELPERS, held)
    assert told[-2:] == ["✓ shared: 1 test passed.", "NoneType"]


def test_a_helpers_cell_with_something_else_in_it_is_a_cell_like_any_other(outcomes: Outcomes):
    told = outcomes(SETUP, "def answer(x): return 2 * x", HELPERS + "print(twice(4))", SHARING)
    assert told[2:] == ["8", "NoneType", "✓ shared: 1 test passed.", "NoneType"]


def test_an_interrupt_is_the_learners(outcomes: Outcomes):
    told = "\n".join(outcomes(SETUP, "def answer(x):\n    raise KeyboardInterrupt", CHECK))
    assert "Interrupted. Your code was still running:" in told and "line 2 of your code, in answer" in told


def test_check_cells_run_in_a_script_too(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("\n".join([SETUP, "def answer(x): return 2 * x", HELPERS, SHARING]), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "✓ shared: 1 test passed.\n", done.stderr
