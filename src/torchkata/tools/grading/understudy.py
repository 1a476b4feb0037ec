"""The understudy: a process that has loaded torch, and waits outside of the sandbox for its part as the zygote.

To load torch costs as much as marking a dozen submissions. So the process that all judges are forked from forks one
more. bubblewrap makes the sandbox around a shell that waits (the holder); the understudy enters the namespaces of that
shell, and from then on is what a process is that bubblewrap has started.

What it is forked from has the sandbox's environment, not the teacher's, and has seen nothing of the class.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from torchkata.tools.grading import bubblewrap, confine

NUMBER, PEER = struct.Struct("q"), struct.Struct("3i")  # a process; process, user and group
ADDRESS = "TORCHKATA_UNDERSTUDY"  # names the socket on which somebody waits for an understudy
_hired: Hired | None = None


# ------------------------------------------------ the side of the one who starts the run


class Hired:
    """Waits for the understudy, in a folder of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="torchkata-understudy-")
        self.address = str(Path(self._folder.name) / "socket")
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(self.address)
        self._door.listen(1)

    def give(self, handles: list[int], seconds: float) -> int:
        """The number of the process that is the zygote then. Raises OSError where there is none within `seconds`."""
        self._door.settimeout(seconds)
        with self._door.accept()[0] as stage:
            stage.settimeout(seconds)
            socket.send_fds(stage, [b"P"], handles)
            told = stage.recv(NUMBER.size)
            wait_for(PEER.unpack(stage.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0])
        if not told:
            raise OSError("the understudy has ended")
        return NUMBER.unpack(told)[0]

    def close(self) -> None:
        self._door.close()  # an understudy that still waits ends
        self._folder.cleanup()


@contextlib.contextmanager
def hiring() -> Iterator[None]:
    """What is started inside, and forks processes for others, forks an understudy, too (see `wait_for_part`). It gets
    the environment of the sandbox, and looks for modules only where the sandbox shows them. Those forked from it become
    children of this process in the end."""
    global _hired
    environment, path = dict(os.environ), list(sys.path)
    shown = [*map(str, bubblewrap.folders()), "/usr"]
    confine.adopt_orphans()
    _hired = Hired()
    try:
        os.environ.clear()
        os.environ.update(bubblewrap.ENVIRONMENT, **{ADDRESS: _hired.address})
        sys.path[:] = [place for place in path if any(Path(place).is_relative_to(folder) for folder in shown)]
        with contextlib.chdir("/"):
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path


def can_be_hired() -> bool:
    """Whether this machine has what it takes."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and bubblewrap.found() is not None


def wait_for(process: int) -> None:
    with contextlib.suppress(ChildProcessError):  # somebody else has
        os.waitpid(process, 0)


def take_hired() -> Hired | None:
    """The understudy, for the first one who asks: it can play one part."""
    global _hired
    taken, _hired = _hired, None
    return taken


class Holder:
    """A shell behind bubblewrap, whose namespaces can be entered; they, and all in them, end with it."""

    def __init__(self, errors: IO[bytes]):
        read, write = os.pipe()
        with open(read, "rb") as told:
            try:
                self.process = subprocess.Popen(
                    bubblewrap.command(["/bin/sh", "-c", "echo; read _"], "--info-fd", str(write)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    pass_fds=[write],
                    cwd="/",
                )
            finally:
                os.close(write)
            self._told = told.read()

    @contextlib.contextmanager
    def handle(self) -> Iterator[int]:
        """A handle of the shell, when it runs. Raises OSError where it does not."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise OSError("bubblewrap has started nothing")
        handle = os.pidfd_open(json.loads(self._told)["child-pid"])
        try:
            yield handle
        finally:
            os.close(handle)

    def end(self) -> None:
        try:
            self.process.communicate(timeout=5)  # it reads to the end, and goes
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


# ------------------------------------------------ the understudy's own side


def is_wanted() -> bool:
    return ADDRESS in os.environ


def wait_for_part() -> None:
    """Fork the understudy, where one is wanted. It is no child of this process, which would not know it."""
    address = os.environ.pop(ADDRESS, None)
    if address is None:
        return
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        try:
            if os.fork() == 0:
                _play(address)
        finally:
            os._exit(0)


def _play(address: str) -> None:
    stage = socket.socket(socket.AF_UNIX)
    stage.connect(address)
    _, (control, errors, holder), _, _ = socket.recv_fds(stage, 1, 3)  # ValueError where there is no part for it
    confine.close_all_but((stage.fileno(), control, errors, holder))
    for output in (1, 2):
        os.dup2(errors, output)
    confine.enter_namespaces_of(holder)
    os.close(errors)
    os.close(holder)
    os.chdir("/tmp")
    if child := os.fork():  # the first process that is in the new namespace of processes, too
        stage.send(NUMBER.pack(child))
    else:
        stage.close()
        os.setsid()
        from torchkata.tools.grading import zygote

        zygote.main(socket.socket(fileno=control))
