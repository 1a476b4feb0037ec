"""The zygote: loads torch and a chapter's setup once, then forks a branch of itself for each job, which forks a worker
for each submission.

    python -m torchkata.tools.grading.sandbox.inside.zygote SOCKET

SOCKET is the number of the inherited control socket; each branch gets one of its own. Zygote and branches never run a
learner's code, and no worker inherits a control socket.
"""

from __future__ import annotations

import contextlib
import gc
import glob
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType

from torchkata.tools.grading.sandbox import wire
from torchkata.tools.grading.sandbox.inside import confine, syscalls
from torchkata.tools.grading.sandbox.limits import MIB, Limits

CONTROL_FRAME = MIB
HELD_UP = 0.1  # seconds after which the end of a killed process is held up by others


def main(control: socket.socket) -> None:
    """Load, say how that went, then fork branches. Returns when the other side is gone."""
    order = json.loads(wire.receive(control, CONTROL_FRAME))
    limits = Limits(**order["limits"])
    try:
        module = _load(order["setup"], order["confined"])
        _tell(control, ready=True)
    except BaseException:
        _tell(control, ready=False, error=traceback.format_exc(limit=-3))
        return
    _branch_out(control, partial(_Branch, module, limits, order["confined"], order["kept"], order["filtered"]))


def _branch_out(control: socket.socket, branch: Callable[[socket.socket], _Branch]) -> None:
    """Fork a branch at each order; it speaks over the socket that comes with the order. Returns when all have ended."""
    with contextlib.suppress(wire.Ended):
        while True:
            wire.receive(control, CONTROL_FRAME)  # there is one order only
            _, (sock,), _, _ = socket.recv_fds(control, 1, 1)
            _forget_ended(os.WNOHANG)
            if os.fork() == 0:
                _become(branch, control, socket.socket(fileno=sock))
            os.close(sock)
    _forget_ended(0)


def _forget_ended(options: int) -> None:
    """Take note of branches that have ended; without WNOHANG, of all when they have."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _become(branch: Callable[[socket.socket], _Branch], root: socket.socket, own: socket.socket) -> None:
    """Be a branch until its job is done."""
    root.close()
    try:
        try:
            obeying = branch(own)
        except OSError as error:
            return _tell(own, error=str(error))
        _tell(own, error="")
        obeying.obey()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _load(setup: str, confined: bool) -> ModuleType:
    if confined:
        syscalls.get_ready()  # the library is found by a user who may read more than the one that follows
    if confine.LINUX and confined:
        confine.give_up_root()
    import torch._dynamo  # noqa: F401 # any optimizer loads it

    from torchkata.tools.grading.sandbox.inside import worker

    sys.path.insert(0, "")  # as in a notebook
    module = worker.notebook_module(setup)
    gc.freeze()  # else each worker would copy the pages of all that is loaded here, to collect none of it
    return module


def _tell(control: socket.socket, **message: object) -> None:
    wire.send(control, json.dumps(message).encode())


def _write_line(pipe: int, **message: object) -> None:
    os.write(pipe, json.dumps(message).encode() + b"\n")


class _Branch:
    """The zygote of one job."""

    def __init__(
        self,
        module: ModuleType,
        limits: Limits,
        confined: bool,
        kept: list[str],
        filtered: bool,
        control: socket.socket,
    ):
        self._control, self._module, self._limits = control, module, limits
        self._confined, self._kept, self._filtered = confined, kept, filtered
        self._unfiltered = syscalls.missing() if filtered else "nobody asked for it"
        self._workers: set[int] = set()
        if confine.LINUX:
            confine.adopt_orphans()
            if confined:
                confine.own_network()

    def obey(self) -> None:
        with contextlib.suppress(wire.Ended):
            while True:
                order = json.loads(wire.receive(self._control, CONTROL_FRAME))
                if order["do"] == "fork":
                    self._tell_of_worker(self._fork())
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
        told: dict = {"worker": None if self._confined else first, "error": "", "unfiltered": self._unfiltered}
        with os.fdopen(read) as pipe:
            for line in pipe:  # ends when the worker is confined, or has failed
                told |= json.loads(line)
        if self._confined:
            os.waitpid(first, 0)
        if told["worker"] is not None:
            self._workers.add(told["worker"])
        return told

    def _tell_of_worker(self, told: dict) -> None:
        """Beside the worker's number, which means nothing outside of these namespaces, goes a handle of the process."""
        handle = None
        with contextlib.suppress(OSError, AttributeError):  # an old kernel, another system
            handle = os.pidfd_open(told["worker"]) if told["worker"] is not None else None
        _tell(self._control, **told, handle=handle is not None)
        if handle is not None:
            try:
                socket.send_fds(self._control, [b"H"], [handle])
            except OSError:  # too many files are on their way: the kernel counts those of all workers together
                self._control.send(b"H")
            os.close(handle)

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
            from torchkata.tools.grading.sandbox.inside import worker

            worker.serve(socket.socket(fileno=sock), self._module, self._limits.frame)
        finally:
            os._exit(0)

    def _confine(self) -> None:
        os.setsid()  # a process group reaches across namespaces: kill(0, ...) must not reach the zygote
        if confine.LINUX:
            confine.first_to_go()
        if self._confined:
            confine.no_more_namespaces()
            confine.own_disk(self._limits.disk, self._limits.files, self._kept)
            confine.own_keyring()
            confine.drop_capabilities()
        else:
            os.chdir(tempfile.mkdtemp(dir=os.getcwd()))
        confine.limit_resources(self._limits, count_processes=self._confined)
        if confine.LINUX:
            confine.undebuggable()
        if self._filtered:
            syscalls.refuse()

    def _end(self, number: int) -> int:
        """End a worker and everything below it. Returns how it ended: its exit code, or minus the signal's number."""
        if number not in self._workers:
            return 0
        self._workers.discard(number)
        ended, status = os.waitpid(number, os.WNOHANG)
        if not ended:
            self._kill(number)
            status = self._wait_for(number)
        if not self._confined:
            self._end_orphans()
        return os.waitstatus_to_exitcode(status)

    def _wait_for(self, number: int) -> int:
        """The status of a worker that has been killed. A process below it that traces it can hold up its end: then all
        of them are killed."""
        with _end_of(number) as ended:
            while not (found := os.waitpid(number, os.WNOHANG))[0]:
                if not ended(HELD_UP):
                    for child in _below(number):
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(child, signal.SIGKILL)
        return found[1]

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
                for child in _children(os.getpid()) - self._workers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)


@contextlib.contextmanager
def _end_of(number: int) -> Iterator[Callable[[float], bool]]:
    """Waits for the end of a child, at most so many seconds; False where that is not known to have come."""
    try:
        handle = os.pidfd_open(number)
    except (OSError, AttributeError):  # an old kernel, another system
        yield _not_known
        return
    ending = select.poll()
    ending.register(handle, select.POLLIN)
    try:
        yield lambda seconds: bool(ending.poll(seconds * 1000))
    finally:
        os.close(handle)


def _not_known(seconds: float) -> bool:
    time.sleep(seconds / 10)
    return False


def _below(number: int) -> set[int]:
    """The children of a process, their children and so on."""
    found = _children(number)
    return found.union(*map(_below, found))


def _children(number: int) -> set[int]:
    """The children of all threads of a process."""
    found = set()
    for path in glob.glob(f"/proc/{number}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            found |= {int(child) for child in file.read().split()}
    return found


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # else Python would take apart all that is loaded, while the command waits
