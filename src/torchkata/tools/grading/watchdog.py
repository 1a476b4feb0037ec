"""Limits of the process that judges: whatever a submission sends, judging one exercise of it comes to an end.

The kernel holds the limits and ends the process. Which exercise or own cell that was, the process has noted where its
parent can read it; the parent starts a new one, which leaves that out.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from ctypes import Array, c_char

from torchkata.tools.grading.sandbox.limits import Limits

NOTE_SIZE = 200  # bytes
OUT_OF_MEMORY = 77  # exit code
# how a process ends when it reaches a limit, or a library fails at something that nobody should have sent
BY_ITS_TASK = {
    OUT_OF_MEMORY,
    *(-int(getattr(signal, f"SIG{name}", 0)) for name in ("PROF", "ALRM", "XCPU", "SEGV", "BUS", "ABRT", "FPE", "ILL")),
}
_note: Array[c_char] | None = None  # shared with the parent; without it there are no limits


def end_with(pipe: int) -> None:
    """The kernel ends this process when nobody holds the other end of the pipe any more, even if this process is busy
    and will not look. A signal at the end of the parent would be of no use: the parent of graders is the server that
    forks them, and it stays as long as they do."""
    import fcntl

    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)  # SIGIO, which nobody handles
    if select.select([pipe], [], [], 0)[0]:  # it has been let go already
        os.kill(os.getpid(), signal.SIGKILL)


def keep_note(note: Array[c_char]) -> None:
    """From now on the judging of each exercise is limited in this process; `note`, shared memory, says which it is."""
    global _note
    _note = note


@contextlib.contextmanager
def judging(what: str, limits: Limits) -> Iterator[None]:
    """Inside, this process has the CPU time, the time and the memory that judging an exercise, or reading what an own
    cell came to, may take."""
    if _note is None:
        yield
        return
    _note.value = what.encode()[:NOTE_SIZE]
    before = _limit_memory(limits.judge_memory)
    signal.setitimer(signal.ITIMER_PROF, limits.judge_seconds)  # CPU time; nobody handles the signal, so it ends this
    signal.setitimer(signal.ITIMER_REAL, limits.judge_wall_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _put_back_memory(before)
        _note.value = b""


def out_of_memory() -> None:
    """End this process, where its judging is limited: who knows what is left of its state."""
    if _note is not None:
        os._exit(OUT_OF_MEMORY)


def being_judged(note: Array[c_char]) -> str:
    """What the process of this note was judging when it ended; empty where it was between two of them."""
    return note.value.decode(errors="replace")


def _limit_memory(size: int) -> tuple[int, int]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    wanted = mapped + size
    if before[0] == resource.RLIM_INFINITY or wanted < before[0]:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, before[1]))
    return before


def _put_back_memory(before: tuple[int, int]) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, before)
