"""What a process does to itself, on Linux, before it runs code that nobody has read: own namespaces, own small disk,
no capabilities, limits. All of it can't be undone from inside."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import resource
import socket
import struct
import sys
from collections.abc import Iterable
from functools import cache

from torchkata.tools.grading.sandbox.limits import Limits

LINUX = sys.platform == "linux"
NOBODY = 65533  # a user id that owns nothing

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x8000000, 0x10000000, 0x20000000
CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8914, 1
MS_NOSUID, MS_NODEV, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 2, 4, 4096, 8192, 16384, 1 << 18
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 24, 36, 38
CAPABILITY_VERSION = 0x20080522
KEYCTL = {"x86_64": 250, "aarch64": 219}
JOIN_SESSION_KEYRING = 1
SHOWN_OF_PROC = ("cpuinfo", "meminfo")


def _call(name: str, *args: object) -> None:
    """Call a function of libc. Raises OSError where it fails."""
    if getattr(_libc(), name)(*args) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def give_up_root() -> None:
    """As root: become a user who owns nothing; for everyone: no capabilities, no debugging by others of this user."""
    if os.getuid() == 0:
        with contextlib.suppress(OSError):  # in a container that knows no other user
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    drop_capabilities()
    _call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Processes below this one whose parents end become children of this one."""
    _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def enter_namespaces() -> None:
    """New namespaces of users, mounts and System V IPC for this process, and of processes for its next child."""
    _enter(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)


def own_network() -> None:
    """A network for this process and those below it that reaches nobody else, not even those beside it."""
    _enter(CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # a new loopback device is switched off
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    drop_capabilities()
    undebuggable()


def _enter(kinds: int) -> None:
    """Enter a new namespace of users, in which this one stays who he is, and further kinds of namespaces in it."""
    user, group = os.getuid(), os.getgid()
    _call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # else the maps could not be written
    _call("unshare", CLONE_NEWUSER | kinds)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def no_more_namespaces() -> None:
    """No new namespace of users below this one: inside of it a process would have capabilities again, and could mount a
    disk of any size or the control groups of this machine."""
    with open("/proc/sys/user/max_user_namespaces", "w") as file:  # counts for the namespace of this process only
        file.write("0")


def own_disk(size: int, files: int, kept: Iterable[str]) -> None:
    """A fresh /tmp and /dev/shm of `size` bytes and `files` files each, and a /proc that shows this process only.

    `kept` are folders in the old /tmp that are to be seen in the new one: there Python or this package may live.
    """
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    handles = {folder: os.open(folder, os.O_PATH) for folder in kept}
    _mount_tmpfs("/tmp", size, files)
    for folder, handle in handles.items():
        os.makedirs(folder)
        _mount(f"/proc/self/fd/{handle}", folder, None, MS_BIND | MS_REC)
        os.close(handle)
    _cover_proc()
    _mount_tmpfs("/dev/shm", size, files)
    os.makedirs("/tmp/work")
    os.chdir("/tmp/work")


def _cover_proc() -> None:
    shown = "/dev/shm"  # where it is put together
    _mount_tmpfs(shown, 65536, 100)
    os.mkdir(f"{shown}/self")
    _mount(os.path.realpath("/proc/self"), f"{shown}/self", None, MS_BIND)
    for name in SHOWN_OF_PROC:
        open(f"{shown}/{name}", "w").close()
        _mount(f"/proc/{name}", f"{shown}/{name}", None, MS_BIND)
    _mount(shown, "/proc", None, MS_MOVE)


def _mount_tmpfs(place: str, size: int, files: int) -> None:
    _mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},nr_inodes={files},mode=0700")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [text and text.encode() for text in (source, target, kind, options)]
    _call("mount", *texts[:3], ctypes.c_ulong(flags), texts[3])


def drop_capabilities() -> None:
    """No capabilities, now and after any exec."""
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with contextlib.suppress(OSError):  # ends with the first number that is no capability, or without the right to it
        for capability in range(64):
            _call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def own_keyring() -> None:
    """A fresh session keyring: the kernel's keyrings outlive processes and would be shared."""
    number = KEYCTL.get(platform.machine())
    if number is not None:
        with contextlib.suppress(OSError):  # kernels without keyrings
            _call("syscall", number, JOIN_SESSION_KEYRING, None)


def limit_resources(limits: Limits, count_processes: bool) -> None:
    """Limits that the kernel holds for this process and those below it. Processes are counted by user: outside of a
    namespace of users that would count the teacher's own."""
    seconds = int(limits.submission_seconds) + 60
    wanted = {
        "RLIMIT_AS": mapped() + limits.memory,
        "RLIMIT_FSIZE": limits.disk,
        "RLIMIT_CPU": seconds,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_MEMLOCK": 0,
    }
    if count_processes:
        wanted["RLIMIT_NPROC"] = limits.processes
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            _lower(kind, value)


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS knows some limits by name only
        resource.setrlimit(kind, (value, value))


def mapped() -> int:
    """Bytes that this process has mapped."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 8 * 2**30


def first_to_go() -> None:
    """When memory runs out, the kernel ends this process before any other."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def close_all_but(kept: Iterable[int]) -> None:
    """Close all open files but these, and let 0, 1 and 2 be /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)  # closed with the rest
    for number in (0, 1, 2):
        os.dup2(null, number)
    start = 3
    for number in sorted(kept):
        os.closerange(start, number)
        start = number + 1
    os.closerange(start, max(os.sysconf("SC_OPEN_MAX"), 4096))


def undebuggable() -> None:
    """No other process of this user may look into this one."""
    _call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
