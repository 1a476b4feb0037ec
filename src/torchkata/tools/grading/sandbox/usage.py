"""How long a submission's process could have run and was not let: on a busy machine that is not its own fault."""

from __future__ import annotations

from contextlib import suppress

import psutil


class Usage:
    """A process and all below it, from the last `begin` on.

    Attributes:
        process: its number here; None where that is not known: then nothing is told from being slow.
    """

    def __init__(self, process: int | None):
        self.process = process
        self._ran = self._waited = 0.0

    def begin(self) -> None:
        if self.process is not None:
            self._ran, self._waited = _times(self.process)

    def starved(self, seconds: float) -> float:
        """Seconds, of these that have gone by since `begin`, in which the process was ready to run and no CPU was free.
        What its own processes took from it does not count."""
        if self.process is None or not (family := _family(self.process)):
            return 0.0
        waited = max([_times(self.process)[1] - self._waited, *(_times(one.pid)[1] for one in family[1:])])
        used = sum(map(_cpu_seconds, family)) - self._ran
        return max(0.0, min(waited, seconds - used))


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
