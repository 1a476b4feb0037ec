"""What is not limited on this machine while submissions run, in sentences for a teacher: `torchkata doctor` says it,
and so does every record.

The limits themselves are in `limits.py`. Control groups are not used: a kernel that limits memory by them asks for a
part of its tree that this user may write to, which few machines hand out, and none on which this could be tried.
"""

from __future__ import annotations

import sys

from torchkata.tools.grading.sandbox import wire

NO_SANDBOX = (
    "Without the sandbox a submission has your rights: it can read and change your files, use the network, fill your "
    "disk, and start any number of processes."
)
NOT_LINUX = (
    "This is not Linux: neither the memory of a submission nor the time and memory for judging what it returns is "
    "limited reliably."
)
WATCHED = (
    f"The memory of all processes of a submission together is measured {1 / wire.WATCH:g} times a second, so it can "
    "exceed its limit for a moment."
)
UNWATCHED = (
    "Only the memory of each process of a submission is limited, not that of all of them together: this needs Linux "
    "5.3 or newer."
)
UNFILTERED = (
    "System calls are not filtered: a submission can reach parts of the kernel that no exercise needs, and can hold "
    "memory that nobody counts. To change that: {}."
)
IN_SOCKETS = "All submissions that are graded at the same time share one limit on open files on their way in sockets."


def unlimited(sandboxed: bool, unfiltered: str | None, watched: bool) -> list[str]:
    """What is not limited for submissions that run here, behind the boundary or without it.

    Args:
        unfiltered: what has to be done before system calls can be refused; None where they are.
        watched: whether the kernel gives a handle by which a submission's processes can be measured.
    """
    if sys.platform != "linux":
        return [NO_SANDBOX, NOT_LINUX]
    together = WATCHED if watched else UNWATCHED
    if not sandboxed:
        return [NO_SANDBOX, together]
    return [together, *([UNFILTERED.format(unfiltered)] if unfiltered else []), IN_SOCKETS]
