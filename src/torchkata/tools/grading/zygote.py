"""The zygote: loads torch and a chapter's setup once, then forks a worker for each submission.

    python -m torchkata.tools.grading.zygote SOCKET

SOCKET is the number of the inherited control socket. The zygote itself never runs a learner's code, and no worker
inherits the control socket.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from types import ModuleType

import torch

from torchkata.tools.grading import confine, wire, worker
from torchkata.tools.grading.limits import MIB, Limits
from torchkata.verdicts import observing

CONTROL_FRAME = MIB


def main(control: socket.socket) -> None:
    """Load, say how that went, then obey: fork a worker, end a worker. Returns when the other side is gone."""
    order = json.loads(wire.receive(control, CONTROL_FRAME))
    limits = Limits(**order["limits"])
    try:
        module = _load(order["setup"], order["confined"])
        _tell(control, ready=True)
    except BaseException:
        _tell(control, ready=False, error=traceback.format_exc(limit=-3))
        return
    _Zygote(control, module, limits, order["confined"], order["kept"]).obey()


def _load(setup: str, confined: bool) -> ModuleType:
    if confine.LINUX:
        confine.adopt_orphans()
        if confined:
            confine.give_up_root()
    sys.path.insert(0, "")  # as in a notebook
    module = worker.notebook_module(setup)
    _warm_up()
    gc.collect()
    gc.freeze()  # so that the collector does not touch, and so copy, the pages that workers share
    return module


def _warm_up() -> None:
    """Do once what every worker would do at first use: imports that torch and a cell with a magic need, a recording."""
    for name in ("IPython.core.inputtransformer2", "torch._dynamo", "torch.distributed.tensor"):
        importlib.import_module(name)

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    observing.run_answer(lambda x: (x * 2).sum(0).t(), (x,), {})


def _tell(control: socket.socket, **message: object) -> None:
    wire.send(control, json.dumps(message).encode())


def _write_line(pipe: int, **message: object) -> None:
    os.write(pipe, json.dumps(message).encode() + b"\n")


class _Zygote:
    def __init__(self, control: socket.socket, module: ModuleType, limits: Limits, confined: bool, kept: list[str]):
        self._control, self._module, self._limits = control, module, limits
        self._confined, self._kept = confined, kept
        self._workers: set[int] = set()

    def obey(self) -> None:
        with contextlib.suppress(wire.Ended):
            while True:
                order = json.loads(wire.receive(self._control, CONTROL_FRAME))
                if order["do"] == "fork":
                    _tell(self._control, **self._fork())
                else:
                    _tell(self._control, status=self._end(order["worker"]))
        for number in list(self._workers):
            self._end(number)

    def _fork(self) -> dict:
        """Fork a worker that speaks over the socket that comes with the order."""
        _, (sock,), _, _ = socket.recv_fds(self._control, 1, 1)
        read, write = os.pipe()
        first = os.fork()
        if first == 0:
            self._in_child(sock, write)
        os.close(sock)
        os.close(write)
        told: dict = {"worker": None if self._confined else first, "error": ""}
        with os.fdopen(read) as pipe:
            for line in pipe:  # ends when the worker is confined, or has failed
                told |= json.loads(line)
        if self._confined:
            os.waitpid(first, 0)
        if told["worker"] is not None:
            self._workers.add(told["worker"])
        return told

    def _in_child(self, sock: int, pipe: int) -> None:
        """Become a worker; in the sandbox, with a step between, whose child is the first of a new process namespace."""
        try:
            confine.close_all_but((sock, pipe))
            if self._confined:
                confine.enter_namespaces()
                if number := os.fork():
                    _write_line(pipe, worker=number)
                    os._exit(0)
            self._confine()
        except BaseException as error:
            _write_line(pipe, error=str(error) or type(error).__name__)
            os._exit(1)
        os.close(pipe)
        try:
            worker.serve(socket.socket(fileno=sock), self._module, self._limits.frame)
        finally:
            os._exit(0)

    def _confine(self) -> None:
        os.setsid()  # a process group reaches across namespaces: kill(0, ...) must not reach the zygote
        if confine.LINUX:
            confine.first_to_go()
        if self._confined:
            confine.own_disk(self._limits.disk, self._kept)
            confine.own_keyring()
            confine.drop_capabilities()
        else:
            os.chdir(tempfile.mkdtemp(dir=os.getcwd()))
        confine.limit_resources(self._limits, count_processes=self._confined)
        if confine.LINUX:
            confine.undebuggable()

    def _end(self, number: int) -> int:
        """End a worker and everything below it. Returns how it ended: its exit code, or minus the signal's number."""
        if number not in self._workers:
            return 0
        self._workers.discard(number)
        ended, status = os.waitpid(number, os.WNOHANG)
        if not ended:
            self._kill(number)
            _, status = os.waitpid(number, 0)
        if not self._confined:
            self._end_orphans()
        return os.waitstatus_to_exitcode(status)

    def _kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._confined:
                os.kill(number, signal.SIGKILL)
            else:
                os.killpg(number, signal.SIGKILL)

    def _end_orphans(self) -> None:
        """End what a worker left behind: on Linux it has become a child of this process."""
        for _ in range(1000):
            try:
                found, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not found:
                for child in _children() - self._workers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)


def _children() -> set[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return {int(number) for number in file.read().split()}
    except OSError:
        return set()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
