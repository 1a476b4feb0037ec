"""The inside of a worker process: join the group, run the function, report, stay until everybody is done."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from dataclasses import astuple
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle
import torch
import torch.distributed as dist

from torchkata.processes.frames import Frame
from torchkata.processes.meeting import meeting_place
from torchkata.processes.sending import dumps

GROUP_TIMEOUT = timedelta(minutes=10)
MAX_PRINTED = 10_000  # characters of a rank's output that are kept
MAX_MESSAGE = 2_000  # characters of an error's message
MAX_FRAMES = 12


def work(rank: int, world: int, folder: str, connection: Connection, backend: str | None) -> None:
    """Run one rank. Messages to the notebook: ("ready",), then ("returned", pickled value) or ("raised", types,
    message, frames as (file, line, function)). Messages from it: the function and its arguments; then leave."""
    _detach()
    with (Path(folder) / f"printed-{rank}").open("w", encoding="utf-8", buffering=1) as printed:
        sys.stdout = sys.stderr = _Limited(printed)
        _allow_a_look(Path(folder) / f"trace-{rank}")
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
        if backend:
            _join(rank, world, Path(folder) / "store", backend)
        connection.send(("ready",))
        reply = _call(connection.recv_bytes(), rank, world)
        with contextlib.suppress(OSError):
            connection.send(reply)
            if reply[0] == "returned":
                connection.recv()  # who is done stays in the group until all are done
    os._exit(0)  # gloo's threads can abort a process that ends in the ordinary way


def _detach() -> None:
    """A process group of its own, so that it and its children can be ended together; silence outside of Python; and an
    end when the notebook's process ends."""
    multiprocessing.current_process().daemon = False  # a rank may have children: DataLoader's workers
    if hasattr(os, "setsid"):
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupting is the notebook's business
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    threading.Thread(target=_end_with_notebook, daemon=True).start()


def _end_with_notebook() -> None:
    from multiprocessing import parent_process

    notebook = parent_process()
    assert notebook is not None  # a rank is started by the notebook's process
    notebook.join()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _allow_a_look(path: Path) -> None:
    """Let the notebook see, by a signal, where this process is."""
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file=path.open("w", encoding="utf-8"), all_threads=False)


def _join(rank: int, world: int, store: Path, backend: str) -> None:
    if backend == "gloo":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    place = meeting_place(store, world, GROUP_TIMEOUT) if backend == "gloo" else dist.FileStore(str(store), world)
    dist.init_process_group(backend, store=place, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)


def _call(sent: bytes, rank: int, world: int) -> tuple:
    try:
        function, args = cloudpickle.loads(sent)
        value = function(rank, world, *args)
    except BaseException as error:  # SystemExit too
        return _described(error)
    try:
        return "returned", dumps(value)
    except Exception as error:
        told = f"what the function returned can't be sent back: {error}"
        return "raised", ["TypeError", "Exception", "BaseException"], told, []


def _described(error: BaseException) -> tuple:
    types = [t.__name__ for t in type(error).__mro__ if issubclass(t, BaseException)]
    walked = [Frame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in traceback.walk_tb(error.__traceback__)]
    frames = [astuple(frame) for frame in walked if frame.is_own]
    try:
        message = str(error)
    except Exception:  # an exception of the learner's own
        message = "its message can't be read"
    return "raised", types, message[:MAX_MESSAGE], frames[-MAX_FRAMES:]


class _Limited(io.TextIOBase):
    """Passes the first characters on, and says where it cuts."""

    def __init__(self, target: io.TextIOBase):
        self._target, self._room = target, MAX_PRINTED

    def write(self, text: str) -> int:
        if self._room > 0:
            self._target.write(text[: self._room])
            self._room -= len(text)
            if self._room <= 0:
                self._target.write("\n... (more output is not shown)\n")
        return len(text)

    def flush(self) -> None:
        self._target.flush()
