"""Functions on several ranks: results, errors, hangs, deaths; and nothing stays behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from jupyter_client.manager import KernelManager
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from tests.notebooks import running
from torchkata.processes import RankDied, RankError, RanksHang, run_on_ranks
from torchkata.processes.frames import Frame, waits_in
from torchkata.processes.running import LOOK_SECONDS, _Stillness
from torchkata.verdicts import NotSolvedYet, WrongAnswer


def ranks_alive() -> list[psutil.Process]:
    """Worker processes of this process: children of its fork server. A process that has ended and that nobody has asked
    for yet (a zombie, which another test's file may leave) is no server."""
    servers = [p for p in psutil.Process().children() if any("forkserver" in part for part in command_line(p))]
    return [child for server in servers for child in server.children(recursive=True)]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # ended, or a zombie
        return []


@pytest.fixture(autouse=True)
def nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert ranks_alive() == []
    assert list(tmp_path.glob("torchkata-ranks-*")) == []


def total(rank: int, world: int, start: float) -> tuple[float, int, int]:
    t = torch.tensor([start + rank])
    dist.all_reduce(t)
    return t.item(), rank, world


@pytest.mark.parametrize("world, expected", [(1, 10.0), (2, 21.0), (3, 33.0)])
def test_each_rank_gets_its_number_and_the_group_works(world: int, expected: float):
    assert run_on_ranks(total, 10.0, world=world) == [(expected, rank, world) for rank in range(world)]


def test_closures_classes_tensors_and_modules_travel():
    class Doubling(nn.Module):
        def forward(self, x):
            return x * 2

    scale = torch.tensor([3.0])

    def story(rank, world, model):
        return {"y": model(scale * (rank + 1)), "model": DistributedDataParallel(nn.Linear(2, 1)).module}

    first, second = run_on_ranks(story, Doubling())
    assert first["y"].item() == 6.0 and second["y"].item() == 12.0
    torch.testing.assert_close(first["model"].weight, second["model"].weight)


def test_each_call_starts_afresh():
    def spoils(rank, world):
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        os.environ["SPOILED"] = "yes"

    run_on_ranks(spoils)
    clean = run_on_ranks(lambda r, w: (torch.get_default_dtype(), torch.is_grad_enabled(), "SPOILED" in os.environ))
    assert clean == [(torch.float32, True, False)] * 2


def test_what_was_used_before_the_fork_started_no_thread():
    threads = "psutil.Process().num_threads()"
    program = (
        "import psutil, torch._dynamo, torchkata.processes.worker\n"
        f"before = {threads}\nimport torchkata.processes.first_use as first\nfirst.use()\nprint({threads} - before)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (told.stdout, told.returncode) == ("0\n", 0), told


@pytest.mark.parametrize("built", [True, False], ids=["CUDA build", "CPU build"])
def test_what_any_optimizer_needs_is_loaded_before_the_fork(built):
    program = (
        f"import sys, torch\ntorch.backends.cuda.is_built = lambda: {built}\nimport torchkata.processes.first_use\n"
        "print('torch._dynamo' in sys.modules, torch.cuda.is_initialized())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert told.stdout == "True False\n", told


def test_what_ranks_print_is_shown_rank_by_rank(capsys):
    def speaks(rank, world):
        print("here is", rank)
        print("trouble", file=sys.stderr)
        os.write(1, b"native noise\n")

    run_on_ranks(speaks)
    assert capsys.readouterr().out.splitlines() == [
        *("rank 0 │ here is 0", "rank 0 │ trouble", "rank 1 │ here is 1", "rank 1 │ trouble")
    ]


def test_a_flood_of_output_is_cut(capsys):
    run_on_ranks(lambda rank, world: print("x" * 10_000_000), world=1)
    out = capsys.readouterr().out
    assert 9_000 < len(out) < 11_000 and out.endswith("(more output is not shown)\n")


def test_a_flood_of_frames_or_words_is_cut():
    def for_ever(rank, world):
        for_ever(rank, world)

    def talks(rank, world):
        raise ValueError("x" * 1_000_000)

    for function in (for_ever, talks):
        with pytest.raises(RankError) as caught:
            run_on_ranks(function, world=1)
        assert len(str(caught.value)) < 4_000


def test_what_a_rank_can_not_send_back_is_told():
    with pytest.raises(RankError, match="what the function returned can't be sent back"):
        run_on_ranks(lambda rank, world: (i for i in range(3)), world=1)


def test_a_rank_may_have_children():
    def loads(rank, world):
        return len(list(DataLoader(range(4), num_workers=1)))

    def computes(rank, world):
        busy = "import time; end = time.process_time() + 1.5\nwhile time.process_time() < end: pass"
        return subprocess.run([sys.executable, "-c", busy], check=True).returncode

    assert run_on_ranks(loads) == [4, 4]
    assert run_on_ranks(computes, world=1, stall=0.5) == [0]


def test_the_rank_that_failed_is_told_not_those_that_lost_it():
    def fails(rank, world):
        if rank == 1:
            raise KeyError("weight")
        dist.barrier()

    with pytest.raises(RankError) as caught:
        run_on_ranks(fails)
    assert caught.value.rank == 1 and caught.value.types[:2] == ["KeyError", "LookupError"]
    assert re.search(r"rank 1: KeyError: 'weight'\n  line \d+ of fails: raise KeyError", str(caught.value))


@pytest.mark.parametrize(
    "ends, how",
    [
        (lambda: os._exit(3), "rank 1's process ended with exit code 3"),
        (lambda: os.kill(os.getpid(), 9), "rank 1's process ended with signal SIGKILL"),
        (lambda: os.abort(), "rank 1's process ended with signal SIGABRT"),
        (lambda: os.kill(os.getpid(), 35), "rank 1's process ended with signal 35"),
    ],
    ids=["exit", "kill", "abort", "signal without a name"],
)
def test_a_rank_that_dies_is_told(ends, how: str):
    def dies(rank, world):
        if rank == 1:
            ends()
        dist.barrier()

    with pytest.raises(RankDied, match=how):
        run_on_ranks(dies)


def test_leaving_by_sys_exit_is_an_error_of_that_rank():
    with pytest.raises(RankError, match="rank 0: SystemExit: 2"):
        run_on_ranks(lambda rank, world: sys.exit(2), world=1)


@pytest.mark.parametrize("limits", [{"timeout": 1.0}, {"stall": 1.0}], ids=["timeout", "stall"])
def test_a_hang_names_who_waits_where(limits):
    def one_waits(rank: int, world: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(1))

    with pytest.raises(RanksHang) as caught:
        run_on_ranks(one_waits, **limits)
    assert caught.value.waiting == {0: "all_reduce"} and isinstance(caught.value, TimeoutError)
    begin = "not done after 1 seconds" if "timeout" in limits else "nothing moves any more"
    assert str(caught.value).startswith(f"{begin}: rank 0 waits in all_reduce, rank 1 is done\n  rank 0, line ")
    assert str(caught.value).endswith("of one_waits: dist.all_reduce(torch.ones(1))")


def test_a_hang_is_seen_behind_a_thread_that_runs_in_circles():
    def waits(rank: int, world: int) -> None:
        if rank == 0:
            dist.irecv(torch.empty(4), 1)  # whose handle nobody keeps
            dist.irecv(torch.empty(4), 1).wait()
        else:
            dist.recv(torch.empty(4), 0)

    with pytest.raises(RanksHang) as caught:
        run_on_ranks(waits, stall=0.5, timeout=300)
    assert caught.value.waiting == {0: "irecv", 1: "recv"}


def test_ranks_that_all_send_get_a_sentence_of_their_own():
    def sends_first(rank: int, world: int) -> None:
        mine, other = torch.ones(1_000_000), torch.empty(1_000_000)
        dist.send(mine, 1 - rank)
        dist.recv(other, 1 - rank)

    with pytest.raises(RanksHang) as caught:
        run_on_ranks(sends_first, stall=0.5)
    assert caught.value.waiting == {0: "send", 1: "send"}
    sentence = "Both ranks are in send: it returns only when the partner receives."
    assert sentence in caught.value.told and sentence in str(caught.value).splitlines()[3]
    told = [str(frame) for frame in caught.value.frames]
    assert [re.sub(r"\d+", "N", line, count=1) for line in told] == [
        "line N of sends_first: dist.send(mine, 1 - rank)",
        "line N of sends_first, rank 1: dist.send(mine, 1 - rank)",
    ]


HANDLES = {
    "work = dist.all_reduce(t, async_op=True)\nwork.wait()": "all_reduce",
    "a, b = dist.isend(t, 1), dist.irecv(t, 1)\nb.wait()": "irecv",
    "a, b = dist.isend(t, 1), dist.irecv(t, 1)\na.wait()": "isend",
    "for work in [dist.isend(t, 1), dist.irecv(t, 1)]:\n    work.wait()": "isend or irecv",
    "works = dist.batch_isend_irecv(ops)\nfor work in works:\n    work.wait()": "batch_isend_irecv",
    "begin(t)\nhandle.wait()": "an operation that it began before",
}


@pytest.mark.parametrize("source, name", HANDLES.items(), ids=HANDLES.values())
def test_a_handle_is_told_by_what_began_it(source: str, name: str, tmp_path: Path):
    path = tmp_path / "story.py"
    path.write_text(f"def story(t):\n{textwrap.indent(source, '    ')}\n")
    assert waits_in([Frame(str(path), source.count("\n") + 2, "story")]) == name


ELSEWHERE = """
import re
import torch
import torch.distributed as dist
from torch import nn
from torchkata.processes import RankError, run_on_ranks

def one_reduces(rank, world):
    if rank == 0:
        dist.all_reduce(torch.ones(1))

def breaks(rank, world):
    block = nn.Linear(2, 2)
    for _ in range(8):
        block = nn.Sequential(block)
    block(torch.ones(3))

print(torch.__file__)
for story in (one_reduces, breaks):
    try:
        run_on_ranks(story, stall=1.0)
    except RankError as error:
        print(error)
        print("own:", [frame.function for frame in error.frames])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="makes a link")
@pytest.mark.exhaustive("torch that lies elsewhere", thorough=True)
def test_own_lines_are_told_where_torch_lies_elsewhere(tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "torch").symlink_to(Path(torch.__file__).parent)
    script = tmp_path / "script.py"
    script.write_text(ELSEWHERE)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "other")}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=200)
    place, *told = done.stdout.splitlines()
    assert place.startswith(str(tmp_path)), done.stderr
    assert told[:2] == [
        "nothing moves any more: rank 0 waits in all_reduce, rank 1 is done",
        "  rank 0, line 10 of one_reduces: dist.all_reduce(torch.ones(1))",
    ]
    assert told[2] == "own: ['one_reduces']" and told[-1] == "own: ['breaks']"


def test_what_gloo_says_is_told_without_addresses():
    place = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] "
    message = f"{place}Read error [127.0.0.1]:28069: Connection reset by peer"
    assert RankError(1, ["RuntimeError"], message).told == "Read error another rank: Connection reset by peer"
    assert RankError(1, ["ValueError"], "[a/b.py:3] bad [1]:2x").told == "[a/b.py:3] bad [1]:2x"


def test_work_is_no_stall():
    def works(rank, world):
        end = time.process_time() + 1.0
        while time.process_time() < end:
            pass
        dist.barrier()
        return rank

    assert run_on_ranks(works, stall=0.5) == [0, 1]


def test_ranks_are_looked_at_now_and_then_not_at_each_of_their_messages(monkeypatch: pytest.MonkeyPatch):
    looks: list[list[int]] = []
    monkeypatch.setattr(_Stillness, "_usage", lambda self, pids: (looks.append(pids), (1.0, 1.0, True))[1])
    stalled = _Stillness(seconds=10 * LOOK_SECONDS)
    messages = [stalled.noticed([7], 50 + k * LOOK_SECONDS / 20) for k in range(19)]
    assert not any(messages) and not looks, "a function that is done by then costs no look"
    told = [stalled.noticed([7], 50 + k * 1.01 * LOOK_SECONDS) for k in range(1, 14)]
    assert len(looks) == 13
    assert told == [False] * 10 + [True] * 3, "so long without a sign, from the first look on"
    patient = _Stillness(seconds=40 * LOOK_SECONDS)
    assert not any(patient.noticed([7], 50 + k * LOOK_SECONDS) for k in range(1, 5))
    assert len(looks) == 13, "who may stand still for long is looked at less often"


def test_nothing_is_waited_for_when_all_have_answered(monkeypatch: pytest.MonkeyPatch):
    """Waiting for no connection at all takes its whole time-out."""
    waited_for = []
    monkeypatch.setattr(
        "torchkata.processes.running.wait",
        lambda ranks, seconds: waited_for.append(list(ranks)) or wait(ranks, seconds),
    )
    assert run_on_ranks(lambda rank, world: rank) == [0, 1]
    assert waited_for and all(waited_for)


def test_children_of_a_rank_end_with_it():
    def leaves_a_child(rank, world):
        return subprocess.Popen(["sleep", "600"]).pid

    for pid in run_on_ranks(leaves_a_child):
        deadline = time.monotonic() + 10
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "the rank's child is still there"
            time.sleep(0.05)


def _runs(process: int) -> bool:
    """One that has ended may stay in the table of processes until somebody asks for its exit code."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    return False


def test_ranks_end_when_the_notebook_is_killed(tmp_path: Path):
    script = tmp_path / "notebook.py"
    script.write_text(
        textwrap.dedent("""
        import os, time
        from torchkata.processes import run_on_ranks
        def sleeps(rank, world):
            open(f"{os.environ['PIDS']}/{rank}", "w").write(str(os.getpid()))
            time.sleep(600)
        run_on_ranks(sleeps, timeout=600)
        """)
    )
    pids = tmp_path / "pids"
    pids.mkdir()
    notebook = subprocess.Popen([sys.executable, script], env={**os.environ, "PIDS": str(pids)})
    deadline = time.monotonic() + 120
    while len(found := [p for p in pids.iterdir() if p.read_text()]) < 2:
        assert time.monotonic() < deadline and notebook.poll() is None
        time.sleep(0.1)
    ranks = [int(path.read_text()) for path in found]
    notebook.kill()
    notebook.wait()
    while any(map(_runs, ranks)):
        assert time.monotonic() < deadline, "a rank outlived the notebook"
        time.sleep(0.1)


def test_functions_of_cells_run_and_an_interrupt_ends_them(tmp_path: Path):
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        said: list[str] = []

        def note(message):
            content = message["content"]
            said.append(content.get("text", "") + "\n".join(content.get("traceback", [])))

        run = "from torchkata.processes import run_on_ranks\nimport os, time\n"
        cell = "def f(rank, world):\n    return world - rank\nprint(run_on_ranks(f))"
        client.execute_interactive(run + cell, output_hook=note, timeout=120)
        assert "[2, 1]" in "".join(said)
        client.execute_interactive(
            "def g(rank, world):\n    return 1 / rank\nrun_on_ranks(g)", output_hook=note, timeout=60
        )
        shown = re.sub(r"\x1b\[[0-9;]*m", "", "".join(said))
        assert "rank 0: ZeroDivisionError: division by zero" in shown and "line 2 of g: return 1 / rank" in shown
        begun = f"    open(f'{tmp_path}/{{rank}}', 'w').close()\n"
        # a failing cell would take the next request with it, were that sent soon enough
        sleepers = f"def h(rank, world):\n{begun}    time.sleep(600)\nrun_on_ranks(h, timeout=600)"
        client.execute(sleepers, stop_on_error=False)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < deadline, "the ranks did not begin"
            time.sleep(0.1)
        manager.interrupt_kernel()
        client.get_shell_msg(timeout=60)
        ranks = "import psutil\nprint('left', [len(c.children()) for c in psutil.Process().children()])"
        client.execute_interactive(ranks, output_hook=note, timeout=60)
        assert re.search(r"left \[(0(, )?)+\]", "".join(said))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_script_is_not_run_again(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "from torchkata.processes import run_on_ranks\nprint('begin')\n"
        "def f(rank, world):\n    return rank\nprint(run_on_ranks(f))\n"
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert out.stdout.splitlines() == ["begin", "[0, 1]"] and not out.stderr


def in_a_daemon(connection) -> None:
    connection.send(run_on_ranks(lambda rank, world: rank))


def test_a_daemon_may_start_ranks_too():
    here, there = multiprocessing.Pipe()
    daemon = multiprocessing.get_context("spawn").Process(target=in_a_daemon, args=(there,), daemon=True)
    daemon.start()
    there.close()
    assert here.poll(120) and here.recv() == [0, 1]
    daemon.join()


def test_bad_requests_are_told():
    with pytest.raises(ValueError, match="world must be at least 1, got 0"):
        run_on_ranks(total, 1.0, world=0)
    with pytest.raises(TypeError, match="can't be sent to another process"):
        run_on_ranks(total, threading.Lock())
    with pytest.raises(RankError, match="TypeError"):
        run_on_ranks(total)


def test_without_a_group():
    assert run_on_ranks(lambda rank, world: dist.is_initialized(), backend=None) == [False, False]


CHECK = """
def on_ranks(answer):
    def rank_story(rank, world):
        return answer(rank)
    return run_on_ranks(rank_story, stall=1.0)

with check("an-exercise") as test:
    test("two ranks")
    observe_scenario(on_ranks, answer).returns([0, 1])
"""


LOCKED = "import threading\nlock = threading.Lock()\ndef answer(rank):\n    with lock: return rank"


@pytest.mark.parametrize(
    "answer, verdict, words",
    [
        ("def answer(rank): raise NotImplementedError", NotSolvedYet, "not solved yet"),
        ("def answer(rank):\n    return 1 / rank", WrongAnswer, r"ZeroDivisionError: division by zero \(on rank 0\)"),
        ("def answer(rank):\n    return 1 / rank", WrongAnswer, "line 2 of your code, in answer: return 1 / rank"),
        ("def answer(rank):\n    if rank: dist.barrier()", WrongAnswer, "rank 1 waits in barrier, rank 0 is done"),
        (LOCKED, WrongAnswer, "something that your code uses can't be sent there. Create such an object inside the"),
        (LOCKED, WrongAnswer, "found: TypeError: the function, or .* to another process: cannot pickle '_thread.lock'"),
    ],
    ids=["stub", "error", "line", "hang", "not sent", "why not"],
)
def test_a_verdict_tells_what_happened_on_a_rank(answer: str, verdict: type, words: str):
    space: dict = {"__name__": "__main__"}
    setup = "import torch.distributed as dist\nfrom torchkata.processes import run_on_ranks\n"
    running.run_cell(setup + "from torchkata.verdicts import check, observe_scenario", space, "<setup>")
    running.run_cell(answer, space, "<answer>")
    with pytest.raises(verdict) as caught:
        running.run_cell(CHECK, space, "<check>")
    assert re.search(words, " ".join(" ".join(caught.value.lines).split()))


def test_frames_of_libraries_are_not_the_callers_own():
    assert not Frame(torch.__file__, 1, "f").is_own and not Frame(re.__file__, 1, "f").is_own
    assert Frame("/tmp/ipykernel_1/2.py", 1, "f").is_own
