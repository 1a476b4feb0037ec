"""The zygote, seen from outside: started once for all jobs on this machine; each job gets a branch of it. This module
loads no torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from torchkata.tools.errors import CourseError
from torchkata.tools.grading.sandbox import bubblewrap, wire
from torchkata.tools.grading.sandbox.limits import Limits

CONTROL_FRAME = 2**20
CONTROL_SECONDS = 120.0  # the zygote does nothing that takes long, but may have to wait for a CPU
REASON = re.compile(r"bwrap: |\w*(Error|Exception|Killed)\b")


@dataclass(frozen=True)
class BranchClient:
    """A judge's connection to its branch: the socket over which the branch gets its orders, and the file with what the
    zygote wrote to stderr. `multiprocessing` can send it to another process when that one starts."""

    control: socket.socket
    errors: Path

    def send(self, sock: socket.socket | None = None, **order: object) -> None:
        """Send an order, with a socket if there is one. Raises CourseError where the zygote is gone."""
        with self._told_why():
            wire.send(self.control, json.dumps(order).encode(), CONTROL_SECONDS)
            if sock is not None:
                socket.send_fds(self.control, [b"F"], [sock.fileno()])

    def answer(self) -> dict:
        """The answer to the oldest order that has none yet. Raises CourseError where the zygote is gone."""
        with self._told_why():
            return json.loads(wire.receive(self.control, CONTROL_FRAME, CONTROL_SECONDS))

    @contextlib.contextmanager
    def _told_why(self) -> Iterator[None]:
        try:
            yield
        except (wire.WireError, OSError) as error:
            raise CourseError(f"The sandbox has ended: {error}.{_reason(self.errors)}") from None


class SharedZygote:
    """Starts a zygote, behind bubblewrap, which loads torch and a chapter's setup; a context manager that ends it.

    It loads in the background. What keeps it from starting is told when the first branch is asked for: `branch` raises
    CourseError where bubblewrap is missing or does not work, or the setup cell fails.

    `enabled=False` starts the same processes without bubblewrap. `filtered` says whether system calls are refused,
    where that can be done. The zygote ends with the thread that starts it.
    """

    def __init__(self, setup: str, limits: Limits, enabled: bool = True, filtered: bool = True):
        self._limits, self._enabled = limits, enabled
        self._start_order = {
            "setup": setup,
            "limits": asdict(limits),
            "confined": enabled,
            "filtered": filtered and enabled,
        }
        self._open = contextlib.ExitStack()
        self._ready = False
        self._failure: CourseError | None = None
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> SharedZygote:
        if not hasattr(os, "fork"):
            raise CourseError("Grading needs a system that can fork processes: Linux, or macOS with `--no-sandbox`.")
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="torchkata-zygote-"))
        self._errors = Path(folder) / "errors.txt"
        self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        self._end()
        self._open.close()

    @contextlib.contextmanager
    def branch(self) -> Iterator[BranchClient]:
        """A branch for a job. Inside, it can be sent to another process; then this one lets go of it."""
        self._wait_until_ready()
        try:
            ours = self._new_branch()
        except wire.WireError:  # the zygote is gone: killed, perhaps
            ours = self._branch_of_a_new_zygote()
        with ours:
            yield BranchClient(ours, self._errors)

    def _new_branch(self) -> socket.socket:
        """The socket of a new branch. Raises WireError where the zygote is gone, CourseError where it has no branch."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                wire.send(self._control, b"branch", CONTROL_SECONDS)
                socket.send_fds(self._control, [b"F"], [theirs.fileno()])
            told = json.loads(wire.receive(ours, CONTROL_FRAME, CONTROL_SECONDS))
            if told["error"]:
                raise CourseError(f"The sandbox could not be started: {told['error']}. {bubblewrap.NAMESPACES}")
            return ours
        except OSError as error:
            ours.close()
            raise wire.Ended(str(error)) from None
        except BaseException:
            ours.close()
            raise

    def _branch_of_a_new_zygote(self) -> socket.socket:
        self._end()
        self._begin()
        self._wait_until_ready()
        try:
            return self._new_branch()
        except wire.WireError as error:
            raise CourseError(f"The sandbox has ended: {error}.{_reason(self._errors)}") from None

    def _begin(self) -> None:
        self._ready, self._failure, self.process = False, None, None
        self._control, theirs = socket.socketpair()
        with self._errors.open("wb") as stream:
            try:
                with theirs:
                    self.process = _start(theirs, stream, None if self._enabled else self._errors.parent)
                kept = bubblewrap.folders_in_tmp() if self._enabled else []
                wire.send(self._control, json.dumps(self._start_order | {"kept": kept}).encode(), CONTROL_SECONDS)
            except CourseError as error:
                self._failure = error
            except wire.WireError:
                pass  # it has ended; the reason is told when it is waited for

    def _wait_until_ready(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._ready:
            return
        try:
            told = json.loads(wire.receive(self._control, CONTROL_FRAME, self._limits.start_seconds))
        except wire.WireError as error:
            raise CourseError(f"The sandbox did not start: {error}.{_last_words(self._errors)}") from None
        if not told["ready"]:
            raise CourseError(f"The sandbox could not load the chapter's setup cell.\n{told['error']}")
        self._ready = True

    def _end(self) -> None:
        """The zygote ends itself when its control socket closes; bubblewrap's end is that of all below it."""
        self._control.close()
        if self.process is None:
            return
        try:
            self.process.wait(5 if self._ready else 0)  # while it loads, it does not look
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _reason(errors: Path) -> str:
    """The line that says why it has ended, if any; not what torch and others write beside it."""
    said = [line for line in _last_words(errors).splitlines() if REASON.match(line)]
    return f" {said[-1]}" if said else ""


def _last_words(errors: Path) -> str:
    with contextlib.suppress(OSError):  # its folder goes with the process that started it
        return "".join(f"\n{line}" for line in errors.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
    return ""


def _start(control: socket.socket, errors: IO[bytes], bare: Path | None) -> subprocess.Popen:
    """Start the zygote: behind bubblewrap, or bare, in a folder."""
    number = control.fileno()
    command = [sys.executable, "-P", "-s", "-m", "torchkata.tools.grading.sandbox.inside.zygote", str(number)]
    return subprocess.Popen(
        bubblewrap.command(command) if bare is None else command,
        pass_fds=[number],
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        cwd=bare or "/",
        env=None if bare is None else {**os.environ, **_bare_environment(bare)},
    )


def _bare_environment(folder: Path) -> dict[str, str]:
    of_the_sandbox = {"PATH", "HOME", "USER", "LANG"}
    wanted = {name: value for name, value in bubblewrap.ENVIRONMENT.items() if name not in of_the_sandbox}
    return wanted | {"TMPDIR": str(folder)}
