"""The sandbox, seen from outside: start it, open a session for a submission, end it.

A `Sandbox` holds one zygote, behind bubblewrap, that has loaded torch and the chapter's setup. A `Session` is a worker
forked from it, and the only channel to it: requests and replies are plain data, capped and timed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import IO, TypeVar

from torchkata.tools.course import CourseError
from torchkata.tools.grading import bubblewrap, wire
from torchkata.tools.grading.limits import Limits
from torchkata.tools.grading.master import bound_names
from torchkata.tools.grading.replies import error_from, names_from, observation_from, with_own_frames
from torchkata.tools.grading.scenarios import scenario_source
from torchkata.tools.grading.usage import Usage
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.plain import Copier, decode, encode
from torchkata.verdicts.standins import StandIn

_T = TypeVar("_T")
CONTROL_FRAME = 2**20
REASON = re.compile(r"bwrap: |\w*(Error|Exception|Killed)\b")
NAMESPACES = (
    "The sandbox needs user namespaces, within bubblewrap too: some systems switch them off "
    "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)."
)
CONTROL_SECONDS = 120.0  # the zygote does nothing that takes long, but may have to wait for a CPU
SLOW = 1.0  # seconds; of a request that took longer it is asked why
LEAST = 0.05  # seconds that are worth to be waited for


class WorkerLost(Exception):
    """A worker ended, did not answer in time, or said something that no honest worker says. It is of no more use.

    Attributes:
        state: "cut off" for a time limit, else "crashed".
    """

    def __init__(self, reason: str, state: str = "crashed"):
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True)
class CellReply:
    """What became of a cell: what it raised (types, message, frames) or None; which of the asked names exist now.

    Where `needs` names something the cell was not run: it takes these names from cells before it.
    """

    error: dict | None
    defined: set[str]
    needs: frozenset[str] = frozenset()


class Sandbox:
    """A place where submissions to one chapter are run; a context manager.

        with Sandbox(setup_source, limits) as sandbox, sandbox.session() as session:
            session.run_cell("def one_hot(labels, num_classes): ...", asks=["one_hot"])

    `enabled=False` runs the same processes without bubblewrap: a submission can then do what its teacher can.
    The sandbox ends with the thread that starts it.
    Starting raises CourseError where bubblewrap is missing or does not work, or the setup cell fails.
    """

    def __init__(self, setup_source: str, limits: Limits | None = None, enabled: bool = True):
        self.enabled, self.limits = enabled, limits or Limits()
        self.filtered = enabled  # whether system calls are refused, where that can be done; all else holds without it
        self._setup = setup_source
        self.known_names = bound_names(setup_source)  # the names that the chapter's setup cell binds
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Sandbox:
        if not hasattr(os, "fork"):
            raise CourseError("Grading needs a system that can fork processes: Linux, or macOS with `--no-sandbox`.")
        with contextlib.ExitStack() as opened:
            self._control, theirs = socket.socketpair()
            opened.enter_context(self._control)
            with theirs:
                self._errors = opened.enter_context(tempfile.TemporaryFile())
                folder = None if self.enabled else opened.enter_context(tempfile.TemporaryDirectory(prefix="grading-"))
                self._process = _start(theirs, self._errors, folder)
            opened.callback(self._end)
            self._wait_until_ready()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def session(self) -> Session:
        """Fork a worker for a submission. Raises CourseError where that fails."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                told = self._order(theirs, do="fork")
            except BaseException:
                ours.close()
                raise
        if told["error"] or told["worker"] is None:
            ours.close()
            raise CourseError(f"A worker could not be started: {told['error'] or 'no reason is known'}. {NAMESPACES}")
        return Session(self, ours, told["worker"], Usage(told["process"]))

    def end_worker(self, number: int) -> int:
        """End a worker and all its processes; its exit code, or minus the number of the signal that ended it."""
        return self._order(do="end", worker=number)["status"]

    def _order(self, sock: socket.socket | None = None, **order: object) -> dict:
        try:
            wire.send(self._control, json.dumps(order).encode(), CONTROL_SECONDS)
            if sock is not None:
                socket.send_fds(self._control, [b"F"], [sock.fileno()])
            told = json.loads(wire.receive(self._control, CONTROL_FRAME, CONTROL_SECONDS))
            return told | {"process": self._process_behind_handle() if told.get("handle") else None}
        except wire.WireError as error:
            raise CourseError(f"The sandbox has ended: {error}.{self._reason()}") from None

    def _process_behind_handle(self) -> int | None:
        """The number that the process whose handle comes with a reply has here."""
        _, handles, _, _ = socket.recv_fds(self._control, 1, 1)
        try:
            with open(f"/proc/self/fdinfo/{handles[0]}") as file:
                fields = dict(line.split(":\t", 1) for line in file.read().splitlines())
            return int(fields["Pid"])
        except (OSError, ValueError, KeyError, IndexError):
            return None
        finally:
            for handle in handles:
                os.close(handle)

    def _wait_until_ready(self) -> None:
        start = {"setup": self._setup, "limits": asdict(self.limits), "confined": self.enabled}
        start["filtered"] = self.filtered
        start["kept"] = bubblewrap.folders_in_tmp() if self.enabled else []
        try:
            wire.send(self._control, json.dumps(start).encode(), CONTROL_SECONDS)
            told = json.loads(wire.receive(self._control, CONTROL_FRAME, self.limits.start_seconds))
        except wire.WireError as error:
            raise CourseError(f"The sandbox did not start: {error}.{self._last_words()}") from None
        if not told["ready"]:
            raise CourseError(f"The sandbox could not load the chapter's setup cell.\n{told['error']}")

    def _reason(self) -> str:
        """The line that says why it has ended, if any; not what torch and others write beside it."""
        said = [line for line in self._last_words().splitlines() if REASON.match(line)]
        return f" {said[-1]}" if said else ""

    def _last_words(self) -> str:
        self._errors.seek(0)
        return "".join(f"\n{line}" for line in self._errors.read().decode(errors="replace").splitlines()[-5:])

    def _end(self) -> None:
        """The zygote ends its workers and itself when the control socket closes; bubblewrap's end is theirs anyway."""
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start(control: socket.socket, errors: IO[bytes], bare: str | None) -> subprocess.Popen:
    """Start the zygote: behind bubblewrap, or bare, in a folder."""
    number = control.fileno()
    command = [sys.executable, "-P", "-s", "-m", "torchkata.tools.grading.zygote", str(number)]
    return subprocess.Popen(
        bubblewrap.command(command) if bare is None else command,
        pass_fds=[number],
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        cwd=bare or "/",
        env=None if bare is None else {**os.environ, **_bare_environment(bare)},
    )


def _bare_environment(folder: str) -> dict[str, str]:
    wanted = ("MPLBACKEND", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    return {name: bubblewrap.ENVIRONMENT[name] for name in wanted} | {"TMPDIR": folder}


class Session:
    """A worker, and the channel to it (see `torchkata.verdicts.standins.Channel`).

    `allow(seconds)` sets how long the worker may keep us waiting from now on, all replies together. Where it needs
    longer, the time does not count in which it was ready to run and the machine was busy with others, up to a multiple
    of `seconds` (Limits.patience). Every method that asks the worker raises WorkerLost.

    Attributes:
        waited: seconds spent waiting for replies.
        uncounted: those of them that don't count.
        left: seconds that the worker may still take.
    """

    def __init__(self, sandbox: Sandbox, sock: socket.socket, worker: int, usage: Usage):
        self._sandbox, self._sock, self._worker, self._usage = sandbox, sock, worker, usage
        self._number = 0
        self._sources: list[str] = []
        self._lost: WorkerLost | None = None
        self.waited = self.uncounted = 0.0
        self.allow(sandbox.limits.exercise_seconds)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def allow(self, seconds: float) -> None:
        self.left = self._allowed = seconds
        self._before = self.waited, self.uncounted
        self._usage.begin()

    def run_cell(
        self, source: str, asks: Iterable[str] = (), lendable: Iterable[str] = (), lends: Iterable[str] = ()
    ) -> CellReply:
        """Run a cell in the learner's namespace.

        Args:
            asks: the names whose existence afterwards is of interest.
            lendable: names that demos could bind; a cell that needs one of them is not run (see CellReply).
            lends: the names that the cell binds, where it is a demo itself.
        """
        asked, offered = sorted(asks), sorted(lendable)
        self._sources.append(source)
        reply = self._ask(do="cell", source=source, asks=asked, lendable=offered, lends=sorted(lends))
        return self._checked(
            lambda: CellReply(
                error_from(reply["error"]),
                names_from(reply["defined"]) & {*asked},
                frozenset(names_from(reply["needs"]) & {*offered}),
            )
        )

    def observe(self, name: str, args: list, kwargs: dict) -> Observation:
        return self._observation(do="observe", answer=name, args=args, kwargs=kwargs)

    def value(self, name: str) -> Observation:
        return self._observation(do="value", answer=name)

    def scenario(self, scenario: Callable, args: tuple, recorded: bool) -> Observation:
        """Raises ScenarioError, too, for a scenario that can't travel."""
        source = scenario_source(scenario, self._sandbox.known_names)
        answers = [[place, arg.__name__] for place, arg in enumerate(args) if isinstance(arg, StandIn)]
        plain = Copier().copy([None if isinstance(arg, StandIn) else arg for arg in args])
        what = {"source": source, "scenario": scenario.__name__, "args": plain, "answers": answers}
        return self._observation(do="scenario", **what, recorded=recorded)

    def kill(self) -> int | None:
        """End the worker and all its processes; how it ended (see `Sandbox.end_worker`), None if that was before."""
        if self._worker < 0:
            return None
        self._sock.close()
        number, self._worker = self._worker, -1
        return self._sandbox.end_worker(number)

    def close(self) -> None:
        self.kill()

    def _observation(self, **request: object) -> Observation:
        reply = self._ask(**request)
        return self._checked(lambda: with_own_frames(observation_from(reply["noted"]), self._sources))

    def _ask(self, **request: object) -> dict:
        if self._lost is not None:
            raise self._lost
        self._number += 1
        data = encode({"id": self._number, **request})
        began = time.monotonic()
        try:
            if self.left <= 0:
                raise wire.TooSlow("no time is left")
            wire.send(self._sock, data, self.left)
            left = self.left - (time.monotonic() - began)
            deadline = wire.Deadline(max(left, 1e-3), lambda: self._more_time(began))
            reply = decode(wire.receive(self._sock, self._sandbox.limits.frame, deadline))
            if type(reply) is not dict or reply.get("id") != self._number:
                raise ValueError("a reply that nobody asked for")
            return reply
        except (wire.WireError, ValueError, MemoryError) as error:
            raise self._give_up(error) from None
        finally:
            spent = time.monotonic() - began
            if spent > SLOW:
                self._more_time(began)
            self.waited += spent
            self.left -= spent

    def _more_time(self, began: float) -> float:
        """The seconds of a request, begun then, that don't count, as far as they are not known yet."""
        waited, uncounted = self._before
        so_far = self.waited - waited + time.monotonic() - began
        if self._worker < 0 or so_far >= self._allowed * self._sandbox.limits.patience:
            return 0.0
        more = self._usage.starved(so_far) - (self.uncounted - uncounted)
        if more < LEAST:
            return 0.0
        self.uncounted += more
        self.left += more
        return more

    def _checked(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except (KeyError, ValueError) as error:
            raise self._give_up(error) from None

    def _give_up(self, error: Exception) -> WorkerLost:
        status = self.kill()
        if isinstance(error, wire.TooSlow):
            self._lost = WorkerLost("it took too long", "cut off")
        elif isinstance(error, wire.Ended):
            self._lost = WorkerLost(f"its process ended ({_how(status)})")
        else:
            self._lost = WorkerLost(f"what it sent back can't be used: {error}")
        return self._lost


def _how(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
