"""One zygote for all jobs: each has a branch of its own, which reaches nobody else's; one that ends is replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.tools.grading import classroom
from tests.tools.grading.classroom import hand_in
from tests.tools.grading.sandbox.test_boundary import (
    LEAVE,
    LIMITS,
    LOOK,
    SETUP,
    needs_bubblewrap,
    run,
    wait_for,
)
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.grader import grader_of, sharing
from torchkata.tools.grading.sandbox.inside import confine
from torchkata.tools.grading.sandbox.session import Sandbox
from torchkata.tools.grading.sandbox.zygotes import SharedZygote

needs_linux = pytest.mark.skipif(not confine.LINUX, reason="looks at processes as Linux shows them")


def zygotes() -> set[psutil.Process]:
    """Those of this process that are in a sandbox, and no other zygote."""
    found = set()
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):  # it ends meanwhile
            above = psutil.Process(one.ppid())
            apart = namespace(above) == namespace(psutil.Process()) or above.name() == "bwrap"
            runs = one.name().startswith("python") and one.status() != psutil.STATUS_ZOMBIE
            if runs and namespace(one) != namespace(psutil.Process()) and apart:
                found.add(one)
    return found


def at_work(zygote: psutil.Process) -> list[psutil.Process]:
    """Its branches that haven't ended."""
    return [one for one in zygote.children() if one.status() != psutil.STATUS_ZOMBIE]


def namespace(process: psutil.Process) -> str:
    return os.readlink(f"/proc/{process.pid}/ns/pid")


@pytest.fixture(scope="module")
def zygote() -> Iterator[SharedZygote]:
    with SharedZygote(SETUP, LIMITS) as running:
        yield running


@pytest.fixture
def two(zygote: SharedZygote) -> Iterator[tuple[Sandbox, Sandbox]]:
    """The sandboxes of two jobs."""
    with ExitStack() as stack:
        yield tuple(_sandbox(stack, zygote) for _ in range(2))


def _sandbox(stack: ExitStack, zygote: SharedZygote, enabled: bool = True) -> Sandbox:
    branch = stack.enter_context(zygote.branch())
    return stack.enter_context(Sandbox(SETUP, LIMITS, enabled, branch))


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    chapter = classroom.course(tmp_path)
    for number in range(6):
        hand_in(chapter, f"s{number}", twice="import time\ndef twice(x):\n    time.sleep(0.3)\n    return 2 * x")
    return chapter


# ---------------------------------------------------------------- sharing


@needs_linux
@needs_bubblewrap
def test_two_jobs_share_one_zygote(chapter: Chapter):
    """Both are at work at the same time, each in a branch of its own."""
    others, seen = zygotes(), []

    def look(done: int, total: int) -> None:
        if 2 <= done < total:
            seen.append([len(one.children()) for one in zygotes() - others])

    with sharing(grader_of(chapter)) as grader:
        run = grade_chapter(chapter, grader, jobs=2, progress=look)
    assert [record.points for record in run.graded] == [2.0] * 6 and not run.refused
    assert seen and all(branches == [2] for branches in seen), seen
    assert zygotes() == others


# ---------------------------------------------------------------- apart

LISTEN = """
import socket
inet, abstract = socket.socket(), socket.socket(socket.AF_UNIX)
inet.bind(("127.0.0.1", 47111)), inet.listen()
abstract.bind(chr(0) + "of-one-branch"), abstract.listen()
"""
CONNECT = """
def probe():
    import socket
    reached = []
    for kind, address in ((socket.AF_INET, ("127.0.0.1", 47111)), (socket.AF_UNIX, chr(0) + "of-one-branch")):
        with socket.socket(kind) as one:
            try:
                one.connect(address)
                reached.append(kind.name)
            except OSError:
                pass
    return reached
"""


@needs_bubblewrap
def test_a_branch_does_not_reach_the_network_of_another(two: tuple[Sandbox, Sandbox]):
    with two[0].session() as one, two[1].session() as other:
        assert one.run_cell(LISTEN).error is None
        assert run(one, CONNECT) == ["AF_INET", "AF_UNIX"]  # its own it does reach
        assert run(other, CONNECT) == []


KILL = """
def probe():
    import ctypes, signal
    reached = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in [-1, *range(2, 5000)]:
        try:
            os.kill(number, signal.SIGTERM)
            reached.append(number)
        except OSError:
            pass
    return reached, [p for p in os.listdir("/proc") if p.isdigit()]
"""


@needs_bubblewrap
def test_a_branch_does_not_reach_the_processes_of_another(two: tuple[Sandbox, Sandbox]):
    with two[0].session() as one, two[1].session() as other:
        assert run(one, "def probe(): return 1") == 1
        reached, shown = run(other, KILL, recorded=False)  # else the profiler has a thread, whose number it reaches
        assert [number for number in reached if number > 0] == [] and shown == []
        assert run(one, "def probe(): return 2") == 2
    with two[0].session() as again:
        assert run(again, "def probe(): return 3") == 3


@needs_bubblewrap
def test_a_branch_sees_nothing_that_another_leaves(two: tuple[Sandbox, Sandbox]):
    with two[0].session() as one, two[1].session() as other:
        one.run_cell(LEAVE)
        assert run(other, LOOK) == ["torch.float32"]


@needs_linux
@needs_bubblewrap
def test_a_branch_has_no_rights_and_can_not_be_looked_into(two: tuple[Sandbox, Sandbox], zygote: SharedZygote):
    [root] = zygotes()
    assert wait_for(lambda: len(at_work(root)) == 2)  # those of the test before have ended
    for one in (root, *at_work(root)):
        status = Path(f"/proc/{one.pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
        assert fields["NoNewPrivs"] == "1"
        assert os.stat(f"/proc/{one.pid}/mem").st_uid != int(fields["Uid"].split()[0])  # his others can't look into it
    networks = {os.readlink(f"/proc/{one.pid}/ns/net") for one in (root, *at_work(root))}
    assert len(networks) == 3


# ---------------------------------------------------------------- the worker that waits


@needs_linux
@needs_bubblewrap
def test_the_next_worker_is_forked_while_this_one_works(two: tuple[Sandbox, Sandbox]):
    with two[0].session() as session:
        assert run(session, "def probe(): return 1") == 1
        waiting = two[0]._heard_of_worker().process
        assert waiting is not None and waiting != session._usage.process
    with two[0].session() as session:
        assert session._usage.process == waiting
        assert run(session, "def probe(): return 2") == 2


@needs_linux
@needs_bubblewrap
def test_a_waiting_worker_that_is_killed_costs_nothing(two: tuple[Sandbox, Sandbox]):
    with two[0].session():
        waiting = psutil.Process(two[0]._heard_of_worker().process)
    waiting.kill()
    assert wait_for(lambda: not two[0]._ahead.is_well)
    with two[0].session() as session:
        assert run(session, "def probe(): return 1") == 1


@needs_bubblewrap
def test_a_worker_that_could_not_be_forked_ahead_is_asked_for_again(two: tuple[Sandbox, Sandbox]):
    with two[0].session():
        waiting = two[0]._heard_of_worker()
        two[0]._ahead = replace(waiting, number=None, error="Resource temporarily unavailable")
    with two[0].session() as session:
        assert run(session, "def probe(): return 1") == 1


# ---------------------------------------------------------------- its end


@needs_bubblewrap
def test_a_zygote_that_is_killed_is_started_anew():
    others = zygotes()
    with SharedZygote(SETUP, LIMITS) as zygote, ExitStack() as stack:
        before = _sandbox(stack, zygote)
        with before.session() as session:
            assert run(session, "def probe(): return 1") == 1
        zygote.process.kill()
        assert wait_for(lambda: not zygotes() - others)
        with pytest.raises(CourseError, match="The sandbox has ended"), before.session() as session:
            run(session, "def probe(): return 1")
        with _sandbox(stack, zygote).session() as session:
            assert run(session, "def probe(): return 2") == 2


@needs_linux
@needs_bubblewrap
def test_a_run_whose_zygote_is_killed_loses_no_mark(chapter: Chapter):
    others, killed = zygotes(), []

    def kill_once(done: int, total: int) -> None:
        if done == 2 and not killed:
            killed.extend(zygotes() - others)
            killed[0].kill()

    with sharing(grader_of(chapter)) as grader:
        run = grade_chapter(chapter, grader, jobs=2, progress=kill_once)
    assert len(killed) == 1 and [record.points for record in run.graded] == [2.0] * 6 and not run.refused


@needs_linux
def test_a_branch_ends_with_its_job_and_all_with_the_zygote():
    with SharedZygote(SETUP, LIMITS, enabled=False) as zygote, ExitStack() as stack:
        root = psutil.Process(zygote.process.pid)
        with zygote.branch() as branch, Sandbox(SETUP, LIMITS, False, branch) as first:
            [one] = root.children()
            first.session()  # stays open
        assert wait_for(lambda: one.status() == psutil.STATUS_ZOMBIE)
        _sandbox(stack, zygote, enabled=False)
        [other] = root.children()
        assert other.pid != one.pid  # and the first one was taken note of
    assert not root.is_running() and not other.is_running()


@needs_bubblewrap
def test_without_namespaces_there_is_no_branch(monkeypatch: pytest.MonkeyPatch):
    without = ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    monkeypatch.setattr("torchkata.tools.grading.sandbox.bubblewrap._user", lambda: without)
    with SharedZygote(SETUP, LIMITS) as zygote, pytest.raises(CourseError, match=r"unshare: .*needs user namespaces"):
        zygote.branch().__enter__()


@needs_linux
def test_what_others_write_to_stderr_is_no_reason():
    with SharedZygote(SETUP, LIMITS, enabled=False) as zygote, zygote.branch() as branch:
        branch.errors.write_text("UserWarning: old\n  a line of torch\nMemoryError: none is left\n")
        psutil.Process(zygote.process.pid).children()[0].kill()
        with pytest.raises(CourseError) as caught, Sandbox(SETUP, LIMITS, False, branch) as broken:
            broken.session()
    assert str(caught.value).endswith(". MemoryError: none is left") and "torch" not in str(caught.value)
