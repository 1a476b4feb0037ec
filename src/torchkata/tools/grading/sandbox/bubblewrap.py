"""The command line of bubblewrap: what the sandbox shows of this machine, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from torchkata.base.places import PACKAGE, PACKED
from torchkata.tools.course import course_root
from torchkata.tools.errors import CourseError

INSTALL = (
    "Install bubblewrap (Debian and Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`). "
    "`--no-sandbox` grades without it: then submissions can read and change whatever you can."
)
NAMESPACES = (
    "The sandbox needs user namespaces, within bubblewrap too: some systems switch them off "
    "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)."
)
TRIES = (
    "from torchkata.tools.grading.sandbox.inside import confine\n"
    "confine.give_up_root()\nconfine.own_network()\nconfine.enter_namespaces()"
)
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr, or folders, beside it
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "learner",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",  # torch is forked: it must have no threads
    "PYTHONPATH": str(PACKAGE.parent),
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",  # for torch.compile; they are larger than a file may be
}


def program() -> str:
    """Where bubblewrap is. Raises CourseError where it is missing."""
    if sys.platform != "linux":
        raise CourseError("The sandbox for submissions needs Linux. `--no-sandbox` grades without it.")
    place = shutil.which("bwrap")
    if place is None:
        raise CourseError(f"The sandbox for submissions needs bubblewrap, which is not here. {INSTALL}")
    return place


def command(inner: list[str]) -> list[str]:
    """The command that runs `inner` in the sandbox. Raises CourseError where that can't be."""
    return [
        program(),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *_user(),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"),
        *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *_shown(),
        *("--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"),
        *("--dev-bind", "/dev/null", "/dev/zero"),  # mapped, that would be memory that no limit counts
        *_bound(folders()),
        *_without_solutions(),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
        *inner,
    ]


def try_out() -> None:
    """Raises CourseError where nothing could be run in the sandbox: where bubblewrap is missing or does not work, or
    where a worker could have no namespaces of its own in it."""
    tried = subprocess.run(
        command([sys.executable, "-P", "-s", "-c", TRIES]),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if tried.returncode:
        last = next(iter(tried.stderr.strip().splitlines()[-1:]), "it gives no reason")
        raise CourseError(f"The sandbox for submissions does not work here: {last.rstrip('.')}. {NAMESPACES}")


def _user() -> list[str]:
    """Root keeps the right to become a user who owns nothing, which the zygote does first; see confine.give_up_root."""
    if os.getuid() == 0:
        return ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return ["--unshare-user", "--cap-drop", "ALL"]


def _shown() -> list[str]:
    """The system's programs and libraries."""
    words = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _bound(folders: list[Path]) -> list[str]:
    """Folders in their own places. Those above them are empty but for that, and can be passed through by anyone."""
    above = sorted({parent for folder in folders for parent in folder.parents} - {Path("/"), Path("/tmp")})
    words = [word for parent in above for word in ("--perms", "0755", "--dir", str(parent))]
    return words + [word for folder in folders for word in ("--ro-bind", str(folder), str(folder))]


def _without_solutions() -> list[str]:
    """An installed package brings the course, which submissions must not see: an empty folder lies over it."""
    if not PACKED.is_dir():
        return []
    return ["--perms", "0555", "--tmpfs", str(PACKED), "--remount-ro", str(PACKED)]


def folders() -> list[Path]:
    """The folders of Python, its environment and this package. Raises CourseError where they hold the course."""
    wanted = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), PACKAGE}
    outer = [f for f in wanted if not any(f != g and f.is_relative_to(g) for g in wanted)]
    shown = sorted(f for f in outer if not f.is_relative_to("/usr"))
    course = _course()
    for folder in (*shown, Path("/usr")):
        if course is not None and course.is_relative_to(folder):
            raise CourseError(
                f"The course lies in {folder}, which submissions can read while they are graded. Move it elsewhere."
            )
    return shown


def folders_in_tmp() -> list[str]:
    """Those of them that lie in /tmp, which each worker gets a fresh one of."""
    return [str(folder) for folder in folders() if folder.is_relative_to("/tmp")]


def _course() -> Path | None:
    """The folder of the course that is graded; None for the one in the package, which is hidden."""
    try:
        root = course_root()
    except CourseError:
        return None
    return None if root == PACKED else root
