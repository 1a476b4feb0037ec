"""The notebook's side: start the ranks, send the function, collect what comes back, leave nothing behind."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from torchkata.base.system import how_it_ended
from torchkata.processes.errors import UNSENT, RankDied, RankError, RanksHang
from torchkata.processes.frames import Frame

START_SECONDS = 300.0  # for starting Python and torch on a slow machine
GRACE_SECONDS = 1.0  # for the other ranks to end after one has failed
LOOK_SECONDS = 0.1
IS_FORKED = sys.platform != "win32"  # from one process that has torch loaded
PRELOAD = ["torchkata.processes.first_use"]
ECHO = re.compile(r"[Cc]onnection (closed|reset)|gloo/transport|Broken pipe")  # what a rank says when another has gone


@dataclass
class _Rank:
    number: int
    process: BaseProcess
    connection: Connection
    ready: bool = False
    reply: tuple = ()  # empty until it comes

    @property
    def is_at_work(self) -> bool:
        return not self.reply

    @property
    def pid(self) -> int:
        assert self.process.pid is not None  # it has been started
        return self.process.pid


@dataclass
class _Run:
    """One function on its way through all ranks."""

    ranks: list[_Rank]
    folder: Path
    sent: bytes
    timeout: float
    stall: float | None
    began: float = field(default_factory=time.monotonic)
    failed: float | None = None


def run_on_ranks(
    function: Callable,
    *args: object,
    world: int = 2,
    timeout: float = 60.0,
    stall: float | None = None,
    backend: str | None = "gloo",
) -> list:
    """Run `function(rank, world, *args)` in `world` fresh processes that have joined one process group.

    Functions and classes of notebook cells travel with cloudpickle. What the ranks print is shown when they have
    ended, rank by rank. No process outlives the call, whatever happens.

    Args:
        function: called on each rank; what it returns must be picklable.
        args: passed on to every rank.
        world: how many ranks.
        timeout: seconds that the function may take, not counting the start of the processes.
        stall: also give up as soon as no rank has used the processor for so many seconds (or only by threads in the
            background for five times as long): a hang is then seen sooner.
        backend: of `torch.distributed.init_process_group` ("gloo" on CPUs, "nccl" on GPUs); None joins no group.

    Returns:
        What each rank returned, by rank.

    Raises:
        RankError: the function raised on a rank. Where several ranks fail, the one is told that is not just the echo
            of another's end.
        RankDied: the process of a rank ended.
        RanksHang: they were not done in time, or nothing moved any more.
        ValueError: world is less than 1.
        TypeError: the function or an argument can't be sent to another process.
    """
    if world < 1:
        raise ValueError(f"world must be at least 1, got {world}")
    sent = _pickled(function, args)
    with tempfile.TemporaryDirectory(prefix="torchkata-ranks-", ignore_cleanup_errors=True) as folder:
        ranks = []
        try:
            for number in range(world):
                ranks.append(_start(number, world, folder, backend))
            run = _Run(ranks, Path(folder), sent, timeout, stall)
            _collect(run)
            return _results(run)
        finally:
            _end(ranks)
            _show_printed(Path(folder), world)


def _pickled(function: Callable, args: tuple) -> bytes:
    from torchkata.processes.sending import dumps

    try:
        return dumps((function, args))
    except Exception as error:
        raise TypeError(f"{UNSENT}: {error}") from error


# ------------------------------------------------ starting and ending


def get_ready() -> None:
    """Start the process from which ranks are forked; it loads torch in the background. Does nothing the second time."""
    if IS_FORKED:
        from multiprocessing import forkserver

        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)
        forkserver.ensure_running()


def _start(number: int, world: int, folder: str, backend: str | None) -> _Rank:
    from torchkata.processes.worker import work

    get_ready()
    context = multiprocessing.get_context("forkserver") if IS_FORKED else multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(number, world, folder, there, backend), daemon=True)
    with _without_main(), _as_no_daemon():
        process.start()
    there.close()
    return _Rank(number, process, here)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep multiprocessing from running the caller's script again in the new process."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _as_no_daemon() -> Iterator[None]:
    """multiprocessing forbids children to daemons, such as Dask's workers: they could stay behind. Ranks end by
    themselves when their parent does."""
    own = multiprocessing.current_process()
    kept, own.daemon = own.daemon, False
    try:
        yield
    finally:
        own.daemon = kept


def _end(ranks: list[_Rank]) -> None:
    for rank in ranks:
        if rank.process.is_alive() and rank.reply and rank.reply[0] == "returned":
            with contextlib.suppress(OSError):
                rank.connection.send(None)  # you may leave
    for rank in ranks:
        if rank.reply and rank.reply[0] == "returned":
            rank.process.join(GRACE_SECONDS)
        _kill(rank)
        rank.process.join()
        rank.connection.close()


def _kill(rank: _Rank) -> None:
    """End a rank and the processes that it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(rank.pid, signal.SIGKILL)
    if rank.process.is_alive():
        rank.process.kill()


# ------------------------------------------------ while they run


def _collect(run: _Run) -> None:
    """Wait until every rank has a reply, or until there is a reason to stop."""
    stalled = _Stillness(run.stall or math.inf)
    while at_work := [rank for rank in run.ranks if rank.is_at_work]:
        wait([rank.connection for rank in at_work], LOOK_SECONDS)  # of an empty list it would wait in vain
        for rank in at_work:
            _listen(run, rank)
        now = time.monotonic()
        if run.failed is not None and now - run.failed > GRACE_SECONDS:
            return
        if run.failed is None:
            _look_at_clock(run, now, stalled)


def _listen(run: _Run, rank: _Rank) -> None:
    try:
        while rank.is_at_work and rank.connection.poll():
            message = rank.connection.recv()
            if message == ("ready",):
                rank.ready = True
                _send_when_all_are_ready(run)
            else:
                rank.reply = message
    except (EOFError, OSError):
        rank.process.join(GRACE_SECONDS)
        rank.reply = ("died", f"ended with {how_it_ended(rank.process.exitcode)}")
    if rank.reply and rank.reply[0] != "returned" and run.failed is None:
        run.failed = time.monotonic()


def _send_when_all_are_ready(run: _Run) -> None:
    if all(rank.ready for rank in run.ranks):
        run.began = time.monotonic()
        for rank in run.ranks:
            with contextlib.suppress(OSError):
                rank.connection.send_bytes(run.sent)


def _look_at_clock(run: _Run, now: float, stalled: _Stillness) -> None:
    if not all(rank.ready for rank in run.ranks):
        if now - run.began > START_SECONDS:
            raise TimeoutError(f"the processes did not start within {START_SECONDS:g} seconds")
        return
    at_work = [rank for rank in run.ranks if rank.is_at_work]
    if at_work and now - run.began > run.timeout:
        raise _hang(run, at_work, run.timeout)
    if at_work and stalled.noticed([rank.pid for rank in at_work], now):
        raise _hang(run, at_work, None)


class _Stillness:
    """Notices that processes neither compute nor wait for the processor or the disk; or, for five times as long, that
    only their helper threads do: gloo can leave one that runs in circles."""

    def __init__(self, seconds: float):
        self._limits = (seconds, 5 * seconds)  # for all threads, for main threads only
        self._pause = max(LOOK_SECONDS, seconds / 10)  # between two looks
        self._since, self._used = [0.0, 0.0], [-math.inf, -math.inf]
        self._next_look: float | None = None

    def noticed(self, pids: list[int], now: float) -> bool:
        if math.isinf(self._limits[0]) or not self._is_time_to_look(now):
            return False
        *used, asleep = self._usage(pids)
        for k, limit in enumerate(self._limits):
            if not asleep or abs(used[k] - self._used[k]) > 0.1 * limit:
                self._since[k], self._used[k] = now, used[k]
        return any(now - since > limit for since, limit in zip(self._since, self._limits, strict=True))

    def _is_time_to_look(self, now: float) -> bool:
        """Not at each message of a rank: a look walks through all processes of the machine, and most functions are done
        before the first one."""
        is_time = self._next_look is not None and now >= self._next_look
        if is_time or self._next_look is None:
            self._next_look = now + self._pause
        return is_time

    @staticmethod
    def _usage(pids: list[int]) -> tuple[float, float, bool]:
        """Seconds of CPU that the processes with their children, and their main threads, have used; and whether all
        these are asleep."""
        import psutil

        used, by_main, asleep = 0.0, 0.0, True
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                for one in [process, *process.children(recursive=True)]:
                    times = {thread.id: thread.user_time + thread.system_time for thread in one.threads()}
                    used += sum(times.values())
                    by_main += times.get(one.pid, 0.0)
                    asleep = asleep and one.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_ZOMBIE)
        return used, by_main, asleep


def _hang(run: _Run, at_work: list[_Rank], seconds: float | None) -> RanksHang:
    stacks = {rank.number: _stack(run, rank) for rank in at_work}
    return RanksHang(stacks, [rank.number for rank in run.ranks if not rank.is_at_work], seconds)


def _stack(run: _Run, rank: _Rank) -> list[Frame]:
    """Where a rank is, outermost first; empty where the system has no signals for that."""
    path = run.folder / f"trace-{rank.number}"
    if not path.exists():
        return []
    with contextlib.suppress(ProcessLookupError):
        os.kill(rank.pid, signal.SIGUSR1)
    text, before, deadline = "", None, time.monotonic() + 2.0
    while (text != before or not text) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        before, text = text, path.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', text, re.M)
    return [Frame(file, int(line), name) for file, line, name in reversed(found)]


# ------------------------------------------------ afterwards


def _results(run: _Run) -> list:
    if errors := [error for rank in run.ranks if (error := _error(rank))]:
        raise next((e for e in errors if not ECHO.search(e.told)), errors[0])
    import cloudpickle

    return [cloudpickle.loads(rank.reply[1]) for rank in run.ranks]


def _error(rank: _Rank) -> RankError | None:
    match rank.reply:
        case ("raised", types_, message, frames):
            return RankError(rank.number, types_, message, [Frame(*frame) for frame in frames])
        case ("died", how):
            return RankDied(rank.number, how)
    return None


def _show_printed(folder: Path, world: int) -> None:
    for rank in range(world):
        path = folder / f"printed-{rank}"
        if path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                print(f"rank {rank} │ {line}")
