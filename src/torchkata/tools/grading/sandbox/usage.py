"""What a submission's processes use together: the time for which they could have run and were not let, which on a busy
machine is not their own fault, and their memory."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

SIGCHLD = 17  # on Linux, the only system whose /proc is read here


class Usage:
    """A process and all below it, from the last `begin` on.

    Attributes:
        process: its number here; None where that is not known: then nothing is told from being slow.
    """

    def __init__(self, process: int | None):
        self.process = process
        self._ran = self._waited = self._ended = 0.0
        self._shared = _own_memory(process) if process is not None else 0  # with what it was forked from

    def begin(self) -> None:
        if self.process is not None:
            self._ran, self._waited = _times(self.process)
            self._ended = _of_ended(self.process)

    def starved(self, seconds: float) -> float:
        """Seconds, of these that have gone by since `begin`, in which the process was ready to run and no CPU was free.
        What its own processes took from it does not count, nor what those took that have ended."""
        if self.process is None or not (family := _family(self.process)):
            return 0.0
        waited = max([_times(self.process)[1] - self._waited, *(_times(one.pid)[1] for one in family[1:])])
        if any(_forgets_ended(one.pid) for one in family):
            return 0.0  # nobody knows what those took
        used = sum(_cpu_seconds(one) + _of_ended(one.pid) for one in family) - self._ran - self._ended
        return max(0.0, min(waited, seconds - used))

    def memory(self) -> int:
        """Bytes of memory that all its processes hold together, beyond what the first one held when it began."""
        if self.process is None:
            return 0
        return sum(max(0, _own_memory(one.pid) - self._shared) for one in _family(self.process))


def can_watch() -> bool:
    """Whether the kernel gives handles of processes, by which it is known here which process to measure."""
    with suppress(OSError, AttributeError):
        os.close(os.pidfd_open(os.getpid()))
        return True
    return False


def _family(process: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        first = psutil.Process(process)
        return [first, *first.children(recursive=True)]
    return []


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0


def _times(process: int) -> tuple[float, float]:
    """Seconds for which the first thread of a process has run, and for which it has waited to run."""
    try:
        with open(f"/proc/{process}/schedstat", "rb", buffering=0) as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def _of_ended(process: int) -> float:
    """Seconds that the children of a process took which have ended."""
    with suppress(psutil.Error):
        times = psutil.Process(process).cpu_times()
        return times.children_user + times.children_system
    return 0.0


def _forgets_ended(process: int) -> bool:
    """Whether a process ignores the end of its children: then the kernel counts nowhere what they took."""
    try:
        with open(f"/proc/{process}/status", "rb", buffering=0) as file:
            ignored = next(line for line in file.read().splitlines() if line.startswith(b"SigIgn:"))
    except (OSError, StopIteration):
        return False
    return bool(int(ignored.split()[1], 16) >> (SIGCHLD - 1) & 1)


def _own_memory(process: int) -> int:
    """Bytes of memory that a process holds and that lie in no file of a disk: as if nothing were shared with others."""
    try:
        with open(f"/proc/{process}/status", "rb", buffering=0) as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))
