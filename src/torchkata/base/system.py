"""What is asked of the system about processes: how one ended, and how many can run at a time."""

from __future__ import annotations

import os
import signal


def how_it_ended(code: int | None) -> str:
    """The end of a process in words, by its exit code: "exit code 3", "signal SIGKILL"."""
    if code is None or code >= 0:
        return f"exit code {code}"
    known = {one.value: one.name for one in signal.Signals}
    return f"signal {known.get(-code, -code)}"


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
