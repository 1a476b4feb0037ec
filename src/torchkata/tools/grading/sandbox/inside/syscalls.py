"""The system calls that a submission is refused: what no exercise needs, and what reaches far into the kernel."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any

REFUSED = (
    # namespaces and mounts
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at"),
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
    # memory that no limit counts; see SHARED
    *("memfd_create", "memfd_secret", "shmget"),
    # parts of the kernel in which holes are found again and again
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
)
# families of sockets that are allowed: for names, for the own loopback device, and to ask which devices there are
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
SHARED = 0x21  # flags of mmap: memory that lies in no file and that several processes share


def missing() -> str | None:
    """What has to be installed before system calls can be refused; None where all is there."""
    try:
        import pyseccomp  # noqa: F401
    except ImportError:
        return "pip install pyseccomp"
    except (RuntimeError, OSError):  # pyseccomp is there, the library that it calls is not
        return "install libseccomp (Debian and Ubuntu: apt-get install libseccomp2)"
    return None


def refuse() -> None:
    """Refuse these system calls to this process and all below it, for good. Does nothing where `missing()` says why."""
    if missing() is None:
        _filter().load()


@cache
def _filter() -> Any:
    """Made once, in the process that the workers are forked from."""
    import pyseccomp

    made = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in REFUSED:
        _add(pyseccomp, made, name)
    for family in {*range(NETLINK)} - {UNIX, INET, INET6}:
        _add(pyseccomp, made, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    _add(pyseccomp, made, "socket", pyseccomp.Arg(0, pyseccomp.GT, NETLINK))  # as those of virtual machines
    _add(pyseccomp, made, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, SHARED, SHARED))
    return made


def _add(pyseccomp: ModuleType, made: Any, name: str, *conditions: Any) -> None:
    with suppress(OSError):  # a call that this machine, or an older library, does not know
        made.add_rule(pyseccomp.ERRNO(errno.EPERM), name, *conditions)


def get_ready() -> None:
    """Make the filter, so that no process has to that is forked from this one."""
    if missing() is None:
        _filter()
