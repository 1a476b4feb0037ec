"""The process that judges dies at each step of an exercise, and of an own cell: that costs this exercise only."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.grading.sandbox.test_boundary import WHY_NOT
from tests.tools.grading.test_cluster import Machines
from torchkata.tools.grading.chapter import MasterChapter
from torchkata.tools.grading.cluster import Cluster
from torchkata.tools.grading.grader import ChapterGrader, Grade
from torchkata.tools.grading.pool import Pool
from torchkata.tools.grading.records import Record, Submission, SubmittedCell
from torchkata.tools.grading.sandbox import session
from torchkata.tools.grading.sandbox.limits import MIB, Limits
from torchkata.tools.source import notebook_of
from torchkata.verdicts import judging

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits on judging are the kernel's")

SETUP = "# %% setup=true\nimport torch\n\nfrom torchkata.verdicts import check, observe\n"
EXERCISE = '''
# %% answer="e{0}"
def e{0}(x):
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION

# %% check="e{0}" points=1
"""The same."""
with check("e{0}") as test:
    test("a word")
    observe(e{0}, "{0}").returns("{0}")
'''
DEATHS = {
    "SEGV": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "KILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "time": lambda: sum(iter(int, 1)),
    "memory": lambda: bytearray(2**33),
}
WORD = "dies of {}"


def master() -> MasterChapter:
    notebook = notebook_of(SETUP + "".join(EXERCISE.format(number) for number in range(8)), "deaths.py")
    return MasterChapter.from_notebook("97_deaths", notebook)


@dataclass(frozen=True)
class DyingGrader:
    """A grader that dies where it reads a reply, or compares a result, that holds such a word."""

    grader: ChapterGrader

    @contextmanager
    def __call__(self) -> Iterator[Grade]:
        session.decode = dying(session.decode)
        judging.difference = dying(judging.difference, "compared, it ")
        with self.grader() as grade:
            yield grade


def dying(function: Callable, when: str = "") -> Callable:
    def instead(value: object, *more: object) -> object:
        for name, die in DEATHS.items():
            word = when + WORD.format(name)
            if word == value or (isinstance(value, bytes) and word.encode() in value and b"compared" not in value):
                die()
        return function(value, *more)

    return instead


def submission() -> Submission:
    """Exercises whose judging ends the judge, when their replies are read or when their results are compared; four that
    are right; and an own cell whose reply ends it."""
    told = [WORD.format(name) for name in ("SEGV", "KILL", "memory")] + [f"compared, it {WORD.format('time')}"]
    answers = [f"def e{number}(x): return {word!r}" for number, word in enumerate(told)]
    answers += [f"def e{number}(x): return x" for number in range(4, 8)]
    own = SubmittedCell("own", None, f"raise ValueError({WORD.format('SEGV')!r})")
    cells = [SubmittedCell("answer", f"e{number}", source) for number, source in enumerate(answers)]
    return Submission("ada", "97_deaths", [own, *cells])


@pytest.fixture(scope="module")
def grader() -> DyingGrader:
    limits = Limits(judge_seconds=1, judge_memory=256 * MIB)
    return DyingGrader(ChapterGrader(master(), WHY_NOT is None, limits))


def assert_only_those_are_lost(record: object) -> None:
    assert isinstance(record, Record), record
    assert {mark.exercise: mark.points for mark in record.marks} == {f"e{n}": float(n > 3) for n in range(8)}
    [about_the_cell] = [note for note in record.notes if "learner's own" in note]
    assert "can't be read" in about_the_cell
    assert sum("Look at it by hand" in note for note in record.notes) == 3, record.notes


def test_on_one_machine(grader: DyingGrader):
    with Pool(grader, 1, patience=600) as pool:
        [(_, record)] = pool.grade([submission()])
    assert_only_those_are_lost(record)


@pytest.mark.exhaustive("a judge that dies on a cluster", thorough=True)
def test_on_a_cluster(grader: DyingGrader, tmp_path: Path):
    pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'torchkata[cluster]'")
    machines = Machines(tmp_path)
    try:
        machines.start_workers(1)
        with Cluster(grader, machines.address) as cluster:
            [(_, record)] = cluster.grade([submission()])
        assert machines.workers[0].poll() is None
    finally:
        machines.end()
    assert_only_those_are_lost(record)
