"""What goes wrong around a grading run: processes are killed, the disk is full, the gradebook is locked.

No mark is lost and none counts twice; the command that is run again goes on where the first one ended.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from nbgrader.api import Gradebook

from tests import ROOT
from tests.tools.grading import classroom
from tests.tools.grading.classroom import hand_in
from tests.tools.grading.fake_grading import NAME, fake_grader
from tests.tools.grading.sandbox.test_zygotes import namespace
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading import batch, desk
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.handed_out.gradebook import ChapterBook
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import Record

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox for submissions needs Linux")
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap")

a_further_fault = pytest.mark.exhaustive("a further process that is killed or disk that is full", thorough=True)

STUDENTS = [f"s{number}" for number in range(8)]
TWICE = "import time\ndef twice(x):\n    time.sleep(0.3)\n    return 2 * x"
THRICE = {True: "def thrice(x): return 3 * x", False: "def thrice(x): return x"}
DUE = {name: {"twice": 2.0, "guess": 1.5, "thrice": float(n % 2 == 0)} for n, name in enumerate(STUDENTS)}


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A course in which each student has handed in two right answers or three, one of them slow, no two alike."""
    (tmp_path / "course").mkdir()
    chapter = classroom.course(tmp_path / "course")
    for number, name in enumerate(STUDENTS):
        own = {
            "twice": f"# by {name}\n{TWICE}",
            "guess": 'answers = {"a": 1, "b": 5}',
            "thrice": THRICE[number % 2 == 0],
        }
        hand_in(chapter, name, **own)
    return chapter


def start(chapter: Chapter, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "torchkata", "grade", NAME, "--jobs", "2", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=chapter.root, start_new_session=True, **pipes)


def results(chapter: Chapter) -> dict[str, Record]:
    return {one.student: one for one in Results(chapter.root / "graded" / NAME).all() if isinstance(one, Record)}


def marks(record: Record) -> dict[str, float]:
    return {mark.exercise: mark.points for mark in record.marks}


def in_the_gradebook(chapter: Chapter) -> dict[str, list[float | None]]:
    """By student the points of each check cell, over all submissions of that student."""
    found: dict[str, list] = {}
    with Gradebook(f"sqlite:///{chapter.root / 'gradebook.db'}", "torchkata") as book:
        for submission in book.assignment_submissions(NAME):
            points = [grade.auto_score for notebook in submission.notebooks for grade in notebook.grades]
            found.setdefault(submission.student.id, []).extend(points)
    return found


def assert_all_is_there_once(chapter: Chapter) -> None:
    assert {name: marks(record) for name, record in results(chapter).items()} == DUE
    assert {name: Counter(points) for name, points in in_the_gradebook(chapter).items()} == {
        name: Counter(due.values()) for name, due in DUE.items()
    }


# ---------------------------------------------------------------- killed


def worker(command: psutil.Process) -> psutil.Process | None:
    """A process in which a student's code runs: below the branch of a job, which is below the zygote."""
    above = {one.pid: one.ppid() for one in _in_sandbox(command)}
    return next((psutil.Process(one) for one, parent in above.items() if above.get(parent) in above), None)


def branch(command: psutil.Process) -> psutil.Process | None:
    one = worker(command)
    return one and one.parent()


def zygote(command: psutil.Process) -> psutil.Process | None:
    one = branch(command)
    return one and one.parent()


def grader(command: psutil.Process) -> psutil.Process | None:
    """A process that runs check cells: what all of them are forked from is the command's child."""
    inside = _in_sandbox(command)
    outside = [child for child in command.children() if child.name() != "bwrap" and child not in inside]
    forked = [one for child in outside for one in child.children()]
    return forked[0] if forked and worker(command) else None


def _in_sandbox(command: psutil.Process) -> list[psutil.Process]:
    """The zygote, its branches, and the processes below."""
    found = []
    for process in command.children(recursive=True):
        with suppress(psutil.Error, OSError):
            if process.name() not in ("bwrap", "sh") and namespace(process) != namespace(command):
                found.append(process)
    return found


def kill_in_the_middle(chapter: Chapter, whom: Callable) -> tuple[subprocess.Popen, list[psutil.Process]]:
    """Start grading, and kill that process while the third submission or a later one is being graded."""
    command = start(chapter)
    process = psutil.Process(command.pid)
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and command.poll() is None:
        with suppress(psutil.Error):
            if len(results(chapter)) >= 2 and (victim := whom(process)):
                below = process.children(recursive=True)
                victim.kill()
                return command, below
        time.sleep(0.005)
    command.kill()
    pytest.fail(f"nobody to kill: {command.communicate()[0]}")


@needs_linux
@needs_bwrap
@a_further_fault
def test_a_killed_worker_costs_what_it_was_doing_and_is_named(chapter: Chapter):
    command, _ = kill_in_the_middle(chapter, worker)
    said = command.communicate(timeout=100)[0]
    off = {name: record for name, record in results(chapter).items() if marks(record) != DUE[name]}
    assert len(off) <= 1 and set(results(chapter)) == set(STUDENTS), said
    for name, record in off.items():
        [mark] = [mark for mark in record.marks if mark.points != DUE[name][mark.exercise]]
        assert mark.state == "crashed" and mark.points == 0 and "SIGKILL" in mark.verdict
        assert command.returncode == 1 and f"{name}: {mark.exercise} crashed" in said
        again = start(chapter, "--force", "--students", name)
        assert again.wait(100) == 0, again.communicate()[0]
    assert_all_is_there_once(chapter)


@a_further_fault
@needs_linux
@needs_bwrap
@pytest.mark.parametrize("whom", [branch, zygote, grader])
def test_a_killed_sandbox_or_grader_costs_nothing(chapter: Chapter, whom: Callable):
    command, _ = kill_in_the_middle(chapter, whom)
    said = command.communicate(timeout=100)[0]
    assert command.returncode == 0, said
    assert_all_is_there_once(chapter)


@a_further_fault
@needs_linux
@needs_bwrap
def test_a_killed_command_leaves_no_process_and_goes_on_later(chapter: Chapter):
    command, below = kill_in_the_middle(chapter, lambda process: worker(process) and process)
    assert command.wait(100) == -signal.SIGKILL
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    before = {name: record.seconds for name, record in results(chapter).items()}
    assert 2 <= len(before) < len(STUDENTS)
    again = start(chapter)
    said = again.communicate(timeout=100)[0]
    assert again.returncode == 0 and f"{len(before)} before and unchanged" in said
    assert_all_is_there_once(chapter)
    assert {name: results(chapter)[name].seconds for name in before} == before, "graded twice"


# ---------------------------------------------------------------- a full disk

ON_A_SMALL_DISK = """
import json, os, shutil, sys
from functools import partial
from pathlib import Path
sys.path.insert(0, {checkout!r})
from tests.tools.grading import test_faults as faults
from torchkata.tools.placing import Place

def main():
    course, disk = Path({course!r}), Path({disk!r})
    chapter = faults.Chapter(Place(disk / "course"), faults.NAME)
    told = []
    for left in {sizes}:
        shutil.copytree(course, chapter.root)
        fill(disk, left)
        try:
            faults.graded_by_words(chapter)
            told.append("")
        except faults.CourseError as error:
            told.append(str(error))
        (disk / "filler").unlink()
        faults.graded_by_words(chapter)
        told.append({{name: sorted(points) for name, points in faults.in_the_gradebook(chapter).items()}})
        told.append({{name: record.points for name, record in faults.results(chapter).items()}})
        told.append(sorted(path.name for path in chapter.root.rglob(".new-*")))
        shutil.rmtree(chapter.root)
    print(json.dumps(told))

def fill(disk, left):
    with open(disk / "filler", "wb") as file:
        space = os.statvfs(disk)
        file.write(bytes(max(0, space.f_bavail * space.f_frsize - left)))

if __name__ == "__main__":
    main()
"""


def graded_by_words(chapter: Chapter) -> batch.Run:
    """Grade with a grader that runs nothing; it finds the word "right" in an answer."""
    return grade_chapter(chapter, partial(fake_grader, Path("/dev/null")))


@a_further_fault
@needs_linux
@needs_bwrap
def test_a_full_disk(tmp_path: Path):
    """The whole course lies on a disk that is full: at once, after some results, while the gradebook is written."""
    (tmp_path / "course").mkdir()
    (tmp_path / "disk").mkdir()
    chapter = classroom.course(tmp_path / "course")
    for name in STUDENTS:
        hand_in(chapter, name, twice="right", guess="half")
    sizes = (0, 12_000, 40_000, 100_000, 160_000)
    places = {"checkout": str(ROOT), "course": str(chapter.root), "disk": str(tmp_path / "disk")}
    program = tmp_path / "program.py"
    program.write_text(ON_A_SMALL_DISK.format(sizes=sizes, **places))
    small_disk = ["bwrap", "--dev-bind", "/", "/", "--size", str(8 * 2**20), "--tmpfs", str(tmp_path / "disk")]
    said = subprocess.run([*small_disk, sys.executable, str(program)], capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    errors, gradebooks, points, litter = (told[k::4] for k in range(4))
    assert all("No space left on device" in error or "disk is full" in error for error in errors), errors
    assert gradebooks == [{name: [0.0, 1.5, 2.0] for name in STUDENTS}] * len(sizes)
    assert points == [dict.fromkeys(STUDENTS, 3.5)] * len(sizes)
    assert litter == [[]] * len(sizes)


# ---------------------------------------------------------------- a locked gradebook


@a_further_fault
def test_a_gradebook_that_another_program_keeps_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The lock is taken while submissions are graded, and is held on to."""
    chapter = classroom.course(tmp_path)
    (tmp_path / "diary.txt").touch()
    monkeypatch.setattr(desk, "ChapterBook", partial(ChapterBook, patience=1))
    monkeypatch.setattr(desk, "GROUP", 3)
    config = chapter.root / "nbgrader_config.py"
    url = f"sqlite:///{chapter.root / 'gradebook.db'}?timeout=0.1"
    config.write_text(config.read_text() + f"\nc.CourseDirectory.db_url = {url!r}\n")
    for name in STUDENTS:
        hand_in(chapter, name, twice="right", guess="lengthy", thrice="right")
    locked: list[sqlite3.Connection] = []

    def lock_after_four() -> None:
        while len(results(chapter)) < 4:
            time.sleep(0.01)
        locked.append(sqlite3.connect(chapter.root / "gradebook.db", isolation_level=None, check_same_thread=False))
        locked[0].execute("begin exclusive")

    thread = threading.Thread(target=lock_after_four)
    thread.start()
    grader_of_words = partial(fake_grader, tmp_path / "diary.txt")
    with pytest.raises(CourseError, match="another program has locked it"):
        grade_chapter(chapter, grader_of_words)
    thread.join()
    kept = set(results(chapter))
    assert 4 <= len(kept) < len(STUDENTS)
    locked[0].close()
    assert set(in_the_gradebook(chapter)) < kept
    run = grade_chapter(chapter, grader_of_words)
    assert {record.student for record in run.kept} == kept
    assert Counter((tmp_path / "diary.txt").read_text().split())[min(kept)] == 1
    assert in_the_gradebook(chapter) == {name: [2.0, 0.0, 1.0] for name in STUDENTS}


@a_further_fault
@needs_linux
@needs_bwrap
def test_a_lock_that_goes_away_is_waited_for(chapter: Chapter):
    command = start(chapter)
    while len(results(chapter)) < 2:
        assert command.poll() is None
        time.sleep(0.01)
    other = sqlite3.connect(chapter.root / "gradebook.db", isolation_level=None)
    other.execute("begin exclusive")
    while len(results(chapter)) < len(STUDENTS):
        assert command.poll() is None
        time.sleep(0.05)
    assert in_the_lock(other) == 0, "nothing is entered past the lock"
    other.execute("rollback")
    other.close()
    said = command.communicate(timeout=100)[0]
    assert command.returncode == 0, said
    assert_all_is_there_once(chapter)


def in_the_lock(connection: sqlite3.Connection) -> int:
    return connection.execute("select count(*) from submitted_assignment").fetchone()[0]
