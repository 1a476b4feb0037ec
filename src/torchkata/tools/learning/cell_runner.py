"""A process in which cells run one after the other, whatever they do to it.

A kernel and jupyter_client would do the same, but a kernel starts a second later, and a learner waits for the verdict.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from torchkata.base.system import how_it_ended

WORKER = "torchkata.tools.learning.cell_worker"
START_SECONDS = 300.0  # for Python and torch on a slow machine
GRACE_SECONDS = 5.0  # after an interrupt, before the process is ended
LOOK_SECONDS = 0.2
CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")  # signals that native code ends with
_open: set[CellRunner] = set()


@dataclass(frozen=True)
class CellError:
    """What a cell raised: the class's name, the message, and the lines that a notebook would show."""

    name: str
    message: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellResult:
    """What running a cell came to. number: the value of its last line, where that is a number."""

    printed: str = ""
    number: float | None = None
    error: CellError | None = None


class RunnerLost(Exception):
    """The process is gone, in the middle of a cell. The message says how; `hung` whether it had to be ended."""

    def __init__(self, how: str, hung: bool = False):
        super().__init__(how)
        self.hung = hung


class CellRunner:
    """A process that runs cells in a folder. It starts at once and loads torch while its owner does other things."""

    def __init__(self, folder: Path):
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl + C is the command's business
        )
        _open.add(self)
        self._replies: queue.Queue[str] = queue.Queue()
        self._fresh = True
        self._ahead = ""
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def run_ahead(self, source: str) -> None:
        """Begin a cell without waiting for it. The next cell to `run` has to be this one."""
        self._send(source)
        self._ahead = source

    def run(self, source: str, seconds: float) -> CellResult:
        """Run a cell for at most so many seconds; then it is interrupted.

        Raises RunnerLost when the process has ended, or had to be ended because no interrupt reached it.
        """
        assert self._ahead in ("", source)
        if not self._ahead:
            self._send(source)
        self._ahead = ""
        patience = seconds + (START_SECONDS if self._fresh else 0.0)
        self._fresh = False
        reply = self._wait(patience)
        if reply is None:
            self._interrupt()
            reply = self._wait(GRACE_SECONDS)
        if reply is None:
            self.end()
            raise RunnerLost(f"stopped after {seconds:g} seconds", hung=True)
        error = reply["error"]
        told = CellError(error["name"], error["message"], tuple(error["lines"])) if error else None
        return CellResult(reply["printed"], reply["number"], told)

    def end(self) -> None:
        """End the process and all that it started."""
        _open.discard(self)
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._replies.put(line)

    def _send(self, source: str) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):  # its end shows when the reply is waited for
            self._process.stdin.write(json.dumps(source) + "\n")
            self._process.stdin.flush()

    def _wait(self, seconds: float) -> dict | None:
        """The next reply, or None after so many seconds. Raises RunnerLost."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ended = self._process.poll() is not None
            with contextlib.suppress(queue.Empty):
                return json.loads(self._replies.get(timeout=min(left, LOOK_SECONDS)))
            if ended:
                self.end()
                raise RunnerLost(_how(self._process.returncode))
        return None

    def _interrupt(self) -> None:
        if sys.platform != "win32":  # where there is no such signal, the process is ended
            with contextlib.suppress(OSError):
                self._process.send_signal(signal.SIGINT)


def end_all() -> None:
    """End all runners, in the middle of their cells."""
    for runner in list(_open):
        runner.end()


def _how(code: int) -> str:
    """The end of a process in words, with what it may come from."""
    ended = how_it_ended(code)
    if ended == "signal SIGKILL":
        return f"{ended}: out of memory?"
    crashed = any(ended == f"signal {name}" for name in CRASHES)
    return f"{ended}: native code crashed" if crashed else ended
