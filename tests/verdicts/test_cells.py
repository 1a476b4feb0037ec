"""Nothing that a learner names breaks a check, and the learner's names stay the learner's: in an IPython shell, as in a
kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
RUN = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in eval(sys.stdin.read()):
    print(type(shell.run_cell(cell).error_in_exec).__name__, flush=True)
"""


def outcomes(folder: Path, *cells: str) -> list[str]:
    """What an IPython shell prints and raises, cell by cell."""
    env = dict(os.environ, IPYTHONDIR=str(folder))
    done = subprocess.run([sys.executable, "-c", RUN], input=repr(cells), capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_whatever_a_learner_names_the_check_runs_and_the_names_come_back(tmp_path: Path):
    mine = "assert math == sys == F == torch == int == 'mine' and observe is mistake is None"
    told = outcomes(tmp_path, SETUP, HOSTILE, CHECK, CHECK, mine, "assert test.__name__ == 'test'", "check()")
    assert told[:2] == ["NoneType", "NoneType"]
    assert told[2:6] == ["✓ names: 1 test passed.", "NoneType"] * 2
    assert told[6:8] == ["NoneType", "NoneType"] and told[-1] == "ZeroDivisionError"


def test_a_wrong_answer_is_told_that_its_names_are_not_the_checks(tmp_path: Path):
    told = "\n".join(outcomes(tmp_path, SETUP, HOSTILE + "def answer(x): return x * 0", CHECK))
    assert "All zero." in told
    assert "Your code names something `F`, `check`, `int` and others; the checks use their own." in told


def test_the_first_cell_alone_says_what_names_mean(tmp_path: Path):
    own = "import cmath as math"
    assert (
        outcomes(tmp_path, SETUP, own, HOSTILE, CHECK, "del check, torch", CHECK).count("✓ names: 1 test passed.") == 2
    )


def test_without_names_taken_nothing_is_told(tmp_path: Path):
    told = outcomes(tmp_path, SETUP, "input = 3\ndef answer(x): return x * 0", CHECK)
    assert not any("names something" in line for line in told)


def test_ipythons_own_open_is_no_name_of_the_learner(tmp_path: Path):
    opens = CHECK.replace("observe(", "open, observe(", 1)
    assert opens != CHECK
    told = outcomes(tmp_path, SETUP, "def answer(x): return x * 0", opens)
    assert "All zero." in "\n".join(told)
    assert not any("names something" in line for line in told)
