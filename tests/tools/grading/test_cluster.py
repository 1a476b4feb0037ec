"""Grading on a Dask cluster: a scheduler and workers as processes of their own, all on 127.0.0.1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests import ROOT
from tests.tools.grading import classroom
from tests.tools.grading.classroom import hand_in
from tests.tools.grading.fake_grading import closed_grader, fake_grader, held_grader, stubborn_grader
from tests.tools.grading.sandbox.test_boundary import WHY_NOT
from tests.tools.grading.test_batch import scores, students
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading import cluster
from torchkata.tools.grading.batch import Run, grade_chapter
from torchkata.tools.grading.grader import grader_of
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import Record

pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'torchkata[cluster]'")

QUICK = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0",
    "PYTHONPATH": str(ROOT),
}


class Machines:
    """A scheduler and its workers."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._scheduler_file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen] = []
        self.workers: list[subprocess.Popen] = []
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(self._scheduler_file))
        wait_until(lambda: self._scheduler_file.exists() and self._scheduler_file.read_text())
        self.address = json.loads(self._scheduler_file.read_text())["address"]

    def start_workers(self, count: int) -> None:
        """Let there be so many workers or more, with one thread and no process that would start them anew."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder))
        while len(self.workers) < count:
            self.workers.append(self._start("worker", self.address, *options))
        wait_until(lambda: len(self._known()) == len(self.workers))

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"]
        with (self._folder / "log.txt").open("a") as log:
            process = subprocess.Popen(command, env={**os.environ, **QUICK}, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def _known(self) -> dict:
        import distributed

        with distributed.Client(self.address, set_as_default=False) as client:
            return client.nthreads()


ZYGOTE = "torchkata.tools.grading.sandbox.inside.zygote"


def wait_until(so: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


a_further_fault = pytest.mark.exhaustive("a further fault of a cluster", thorough=True)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("machines"))
    yield machines
    machines.end()


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return classroom.course(tmp_path)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary.txt"
    path.touch()
    return path


def sandbox_processes(machines: Machines) -> list[psutil.Process]:
    """Those of the workers alone: other tests of this run grade in sandboxes at the same time."""
    workers = [psutil.Process(worker.pid) for worker in machines.workers if worker.poll() is None]
    found = [process for worker in workers for process in worker.children(recursive=True)]
    return [process for process in found if ZYGOTE in command_of(process)]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it ended while the others were looked at
        return []


def marks_in(run: Run) -> dict[str, tuple]:
    """The marks that a run has written, and the digests of the submissions, by student."""
    records = [one for one in Results(run.folder).all() if isinstance(one, Record)]
    assert records and all(one.marks for one in records)
    return {one.student: (one.marks, one.digest) for one in records}


@pytest.mark.exhaustive("a class on a cluster", thorough=True)
def test_the_cluster_gives_the_marks_that_this_machine_gives(chapter: Chapter, machines: Machines, tmp_path: Path):
    hand_in(chapter, "ada", twice="def twice(x):\n    return x + x", guess='answers = {"a": 1, "b": 3}')
    hand_in(chapter, "bob", twice="def twice(x):\n    return abs(2 * x)")
    hand_in(chapter, "cyd", twice="import os\nos._exit(3)")
    hand_in(chapter, "dan", b"{")
    machines.start_workers(2)
    grader = grader_of(chapter, sandboxed=WHY_NOT is None)
    there = grade_chapter(chapter, grader, scheduler=machines.address, sandboxed=WHY_NOT is None)
    here = grade_chapter(chapter, grader, out=tmp_path / "here", sandboxed=WHY_NOT is None)
    assert marks_in(there) == marks_in(here) and scores(chapter)["ada"] == 3.5
    assert [refusal.student for refusal in there.refused] == ["dan"]
    wait_until(lambda: not sandbox_processes(machines))  # the workers keep no sandbox


@a_further_fault
def test_the_submissions_of_a_worker_that_is_killed_are_graded_by_another(
    chapter: Chapter, machines: Machines, diary: Path
):
    names = [f"s{number:02d}" for number in range(12)]
    for name in names:
        hand_in(chapter, name, twice="wrong", guess="right")
    machines.start_workers(2)
    victim = machines.workers[0]

    def begun() -> dict[str, list[str]]:
        """Who has been begun, by which processes."""
        lines = [line.split() for line in diary.read_text().splitlines()]
        return {name: [pid for student, pid in lines if student == name] for name, _ in lines}

    def kill_in_the_middle(done: int, total: int) -> None:
        if done == 4:
            wait_until(lambda: [str(victim.pid)] in begun().values())
            victim.kill()
            victim.wait()

    grader = partial(held_grader, diary, victim.pid)
    run = grade_chapter(chapter, grader, scheduler=machines.address, progress=kill_in_the_middle)
    assert victim.poll() is not None
    assert sorted(students(run.graded)) == names and not run.refused
    assert scores(chapter) == dict.fromkeys(names, 3.0)
    twice = [name for name, by in begun().items() if len(by) > 1]
    assert sorted(begun()) == names and len(twice) == 1, "the one that the victim held, and no other, ran again"
    rows = [line.split(",")[1] for line in (run.folder / "marks.csv").read_text().splitlines()[1:]]
    assert Counter(rows) == dict.fromkeys(names, 3)
    assert grade_chapter(chapter, grader).graded == []


@a_further_fault
def test_a_submission_that_ends_every_worker_is_not_gradable_and_takes_no_other_with_it(
    chapter: Chapter, machines: Machines, tmp_path: Path
):
    hand_in(chapter, "a-kill", twice="everything")
    hand_in(chapter, "a-less", twice="kill")
    for number in range(4):
        hand_in(chapter, f"b{number}", twice="right")
    machines.start_workers(5)  # two end, then two more
    run = grade_chapter(chapter, partial(stubborn_grader, tmp_path), scheduler=machines.address)
    reasons = {refusal.student: refusal.reason for refusal in run.refused}
    assert set(reasons) == {"a-kill", "a-less"}
    assert "each worker that had it ended" in reasons["a-kill"]
    assert "its process ended without a result, 2 times" in reasons["a-less"]
    assert scores(chapter) == {f"b{number}": 2.0 for number in range(4)}


@a_further_fault
def test_a_fault_of_the_grader_and_a_sandbox_that_fails_stop_nothing(
    chapter: Chapter, machines: Machines, tmp_path: Path
):
    hand_in(chapter, "ada", twice="fault")
    hand_in(chapter, "bob", twice="sandbox")
    hand_in(chapter, "cyd", twice="right")
    hand_in(chapter, "dan", twice="right, after a sandbox that fails")
    machines.start_workers(2)
    run = grade_chapter(chapter, partial(stubborn_grader, tmp_path), scheduler=machines.address)
    assert {refusal.student: refusal.reason for refusal in run.refused} == {
        "ada": "The grader failed: RuntimeError: a fault of the grader.",
        "bob": "The grader failed: The sandbox has ended, 2 times. Run the command again.",
    }
    assert scores(chapter) == {"cyd": 2.0, "dan": 2.0}


@a_further_fault
def test_a_worker_that_can_not_grade_stops_the_run(
    chapter: Chapter, machines: Machines, diary: Path, monkeypatch: pytest.MonkeyPatch
):
    hand_in(chapter, "ada", twice="right")
    machines.start_workers(1)
    for error, words in ((CourseError("install bubblewrap"), "install bubblewrap"), (ValueError(7), "ValueError: 7")):
        with pytest.raises(CourseError, match=f"A worker of the cluster can't grade.*{words}"):
            grade_chapter(chapter, partial(closed_grader, error), scheduler=machines.address)
    monkeypatch.setattr(cluster, "grader_digest", lambda: "another")
    with pytest.raises(CourseError, match="another version of torchkata or torch"):
        grade_chapter(chapter, partial(fake_grader, diary), scheduler=machines.address)
    assert scores(chapter) == {} and not diary.read_text()


@a_further_fault
def test_a_cluster_without_workers(chapter: Chapter, diary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """None at the start; or all of them end in the middle."""
    for number in range(4):
        hand_in(chapter, f"s{number}", twice="lengthy")
    empty = Machines(tmp_path)
    try:
        with pytest.raises(CourseError, match=r"has no workers\. Start some: dask worker tcp://127"):
            grade_chapter(chapter, partial(fake_grader, diary), scheduler=empty.address)
        empty.start_workers(1)
        monkeypatch.setattr(cluster, "SILENCE", 3.0)
        with pytest.raises(CourseError, match="has no workers"):
            grade_chapter(
                chapter,
                partial(fake_grader, diary),
                scheduler=empty.address,
                progress=lambda done, total: done == 2 and empty.workers[0].kill(),
            )
    finally:
        empty.end()
    run = grade_chapter(chapter, partial(fake_grader, diary))
    assert students(run.kept) == ["s0", "s1"] or len(run.kept) == 2
    assert scores(chapter) == dict.fromkeys(students(run.records), 0.0) and len(run.records) == 4


@a_further_fault
def test_a_scheduler_that_ends_in_the_middle(
    chapter: Chapter, diary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cluster, "CONNECT", 2)
    for number in range(4):
        hand_in(chapter, f"s{number}", twice="lengthy", guess="right")
    own = Machines(tmp_path)
    try:
        own.start_workers(1)
        with pytest.raises(CourseError, match=r"has gone\..*the same command goes on from there"):
            grade_chapter(
                chapter,
                partial(fake_grader, diary),
                scheduler=own.address,
                progress=lambda done, total: done == 2 and own.scheduler.kill(),
            )
    finally:
        own.end()
    run = grade_chapter(chapter, partial(fake_grader, diary))
    assert len(run.kept) == 2 and scores(chapter) == {f"s{number}": 3.0 for number in range(4)}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://127.0.0.1:1", "127.0.0.1:port"])
def test_no_scheduler_there(chapter: Chapter, diary: Path, address: str, monkeypatch: pytest.MonkeyPatch):
    hand_in(chapter, "ada", twice="right")
    monkeypatch.setattr(cluster, "CONNECT", 1)
    with pytest.raises(CourseError, match=f"No Dask scheduler answers at {address}"):
        grade_chapter(chapter, partial(fake_grader, diary), scheduler=address)


def test_what_to_install_is_said(chapter: Chapter, diary: Path, monkeypatch: pytest.MonkeyPatch):
    hand_in(chapter, "ada", twice="right")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CourseError, match=r"pip install 'torchkata\[cluster\]'"):
        grade_chapter(chapter, partial(fake_grader, diary), scheduler="tcp://127.0.0.1:1")
