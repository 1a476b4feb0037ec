"""The sandbox, seen from outside: open a session for a submission, end it.

A `Sandbox` has a branch of a zygote, which has loaded torch and the chapter's setup behind bubblewrap. A
`SubmissionSession` is a worker forked from that, and the only channel to it: requests and replies are plain data,
capped and timed.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from torchkata.base.names import names_of
from torchkata.base.system import how_it_ended
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.sandbox import bubblewrap, wire
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.grading.sandbox.messages import DEFAULT_CAPS, Caps, decode, encode
from torchkata.tools.grading.sandbox.replies import error_from, names_from, observation_from, parameters_of
from torchkata.tools.grading.sandbox.scenarios import scenario_source
from torchkata.tools.grading.sandbox.unlimited import unlimited
from torchkata.tools.grading.sandbox.usage import Usage
from torchkata.tools.grading.sandbox.zygotes import BranchClient, SharedZygote
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.plain import Copier
from torchkata.verdicts.standins import StandIn

_T = TypeVar("_T")
SLOW = 1.0  # seconds; of a request that took longer it is asked why
LEAST = 0.05  # seconds that are worth to be waited for
OF_A_CELL = Caps(tensors=0, elements=0, lists=0, depth=8, odd_keys=0)  # of the reply to it; its bytes are few too


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


@dataclass(frozen=True)
class _NewWorker:
    """A worker that nobody has used yet: the socket to it, and what the branch has said of it, if that was heard: its
    number there, None where it could not be forked; the number of its process here; what went wrong, and why no system
    calls are refused, in words."""

    sock: socket.socket
    is_heard_of: bool = False
    number: int | None = None
    process: int | None = None
    error: str = ""
    unfiltered: str | None = None

    @property
    def is_well(self) -> bool:
        """Whether it waits for a request; it says nothing by itself, so what could be read is the end."""
        return self.number is not None and not select.select([self.sock], [], [], 0)[0]


class Sandbox:
    """A place where submissions to one chapter are run; a context manager.

        with Sandbox(setup_source, limits) as sandbox, sandbox.session() as session:
            session.run_cell("def one_hot(labels, num_classes): ...", asks=["one_hot"])

    `enabled=False` runs the same processes without bubblewrap: a submission can then do what its teacher can.
    `branch` is the part of a zygote that other sandboxes have parts of too; without it the sandbox starts a zygote of
    its own, which ends with the thread that starts it. Then starting raises CourseError as `SharedZygote.branch` does.
    """

    def __init__(
        self, setup_source: str, limits: Limits | None = None, enabled: bool = True, branch: BranchClient | None = None
    ):
        self.enabled, self.limits, self._branch = enabled, limits or Limits(), branch
        self.filtered = enabled  # whether system calls are refused, where that can be done; all else holds without it
        self._setup = setup_source
        self.known_names = names_of(setup_source).binds  # the names that the chapter's setup cell binds
        self._open = contextlib.ExitStack()
        self._ahead: _NewWorker | None = None  # asked for before there is a submission for it

    def __enter__(self) -> Sandbox:
        with contextlib.ExitStack() as opened:
            if self._branch is None:
                zygote = SharedZygote(self._setup, self.limits, self.enabled, self.filtered)
                self._branch = opened.enter_context(opened.enter_context(zygote).branch())
            opened.enter_context(self._branch.control)
            opened.callback(self._forget_worker)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def session(self) -> SubmissionSession:
        """A worker for a submission. The next one is forked while this one works, so that nobody waits for it. Raises
        CourseError where forking fails."""
        if self._ahead is None:
            self._ask_for_worker()
        elif not self._heard_of_worker().is_well:  # the submission before may have taken what it needed
            self._ahead.sock.close()
            self._ask_for_worker()
        worker, self._ahead = self._heard_of_worker(), None
        if worker.number is None:
            worker.sock.close()
            raise CourseError(
                f"A worker could not be started: {worker.error or 'no reason is known'}. {bubblewrap.NAMESPACES}"
            )
        try:
            self._ask_for_worker()
        except BaseException:
            worker.sock.close()
            raise
        not_limited = unlimited(self.enabled, worker.unfiltered, worker.process is not None)
        return SubmissionSession(self, worker.sock, worker.number, Usage(worker.process), not_limited)

    def end_worker(self, number: int) -> int:
        """End a worker and all its processes; its exit code, or minus the number of the signal that ended it."""
        branch = self._open_branch()
        branch.send(do="end", worker=number)
        if self._ahead is not None:
            self._heard_of_worker()  # answers come in the order of what was asked
        return branch.answer()["status"]

    def _forget_worker(self) -> None:
        """The branch ends the worker that waits, when it ends itself."""
        if self._ahead is not None:
            self._ahead.sock.close()
            self._ahead = None

    def _open_branch(self) -> BranchClient:
        assert self._branch is not None  # the sandbox is open
        return self._branch

    def _ask_for_worker(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._open_branch().send(theirs, do="fork")
            except BaseException:
                ours.close()
                raise
        self._ahead = _NewWorker(ours)

    def _heard_of_worker(self) -> _NewWorker:
        """The worker that was asked for, when the branch has said how that went."""
        branch, worker = self._open_branch(), self._ahead
        assert worker is not None
        if not worker.is_heard_of:
            told = branch.answer()
            process = self._process_behind_handle(branch.control) if told["handle"] else None
            self._ahead = worker = _NewWorker(
                worker.sock, True, None if told["error"] else told["worker"], process, told["error"], told["unfiltered"]
            )
        return worker

    @staticmethod
    def _process_behind_handle(control: socket.socket) -> int | None:
        """The number that the process whose handle comes with a reply has here."""
        _, handles, _, _ = socket.recv_fds(control, 1, 1)
        try:
            with open(f"/proc/self/fdinfo/{handles[0]}") as file:
                fields = dict(line.split(":\t", 1) for line in file.read().splitlines())
            return int(fields["Pid"])
        except (OSError, ValueError, KeyError, IndexError):
            return None
        finally:
            for handle in handles:
                os.close(handle)


class SubmissionSession:
    """A worker, and the channel to it (see `torchkata.verdicts.standins.Channel`).

    `allow(seconds)` sets how long the worker may keep us waiting from now on, all replies together. Where it needs
    longer, the time does not count in which it was ready to run and the machine was busy with others, up to a multiple
    of `seconds` (Limits.patience). Every method that asks the worker raises WorkerLost.

    Attributes:
        waited: seconds spent waiting for replies.
        uncounted: those of them that don't count.
        left: seconds that the worker may still take.
        not_limited: what is not limited for it on this machine, in sentences.
    """

    def __init__(
        self, sandbox: Sandbox, sock: socket.socket, worker: int, usage: Usage, not_limited: Collection[str] = ()
    ):
        self._sandbox, self._sock, self._worker, self._usage = sandbox, sock, worker, usage
        self.not_limited = [*not_limited]
        self._number = 0
        self._sources: list[str] = []
        self._lost: WorkerLost | None = None
        self.waited = self.uncounted = 0.0
        self.allow(sandbox.limits.exercise_seconds)

    def __enter__(self) -> SubmissionSession:
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
        request = {"do": "cell", "source": source, "asks": asked, "lendable": offered, "lends": sorted(lends)}

        def read(reply: bytes) -> CellReply:
            return _cell_reply(_fields(reply, {"error", "defined", "needs"}, OF_A_CELL), {*asked}, {*offered})

        return self._exchange(encode(request), read, self._sandbox.limits.cell_frame)

    def observe(self, name: str, args: list, kwargs: dict, recorded: bool = True) -> Observation:
        known = parameters_of(name, self._sources) | kwargs.keys()
        return self._observation(known, do="observe", answer=name, args=args, kwargs=kwargs, recorded=recorded)

    def value(self, name: str) -> Observation:
        return self._observation((), do="value", answer=name)

    def scenario(self, scenario: Callable, args: tuple, recorded: bool) -> Observation:
        """Raises ScenarioError, too, for a scenario that can't travel."""
        source = scenario_source(scenario, self._sandbox.known_names)
        answers = [[place, arg.__name__] for place, arg in enumerate(args) if isinstance(arg, StandIn)]
        plain = Copier().copy([None if isinstance(arg, StandIn) else arg for arg in args])
        what = {"source": source, "scenario": scenario.__name__, "args": plain, "answers": answers}
        return self._observation(scenario.__code__.co_varnames, do="scenario", **what, recorded=recorded)

    def kill(self) -> int | None:
        """End the worker and all its processes; how it ended (see `Sandbox.end_worker`), None if that was before."""
        if self._worker < 0:
            return None
        self._sock.close()
        number, self._worker = self._worker, -1
        return self._sandbox.end_worker(number)

    def close(self) -> None:
        self.kill()

    def _exchange(self, question: bytes, read: Callable[[bytes], _T], most: int) -> _T:
        """What is read of the reply, of so many bytes at most, to an encoded request. Reading takes time too, which
        counts."""
        if self._lost is not None:
            raise self._lost
        self._number += 1
        number = wire.LENGTH.pack(self._number)
        began = time.monotonic()
        try:
            if self.left <= 0:
                raise wire.TooSlow("no time is left")
            wire.send(self._sock, number + question, self.left)
            left = self.left - (time.monotonic() - began)
            deadline = wire.Deadline(max(left, 1e-3), lambda: self._more_time(began), self._watch_memory)
            reply = wire.receive(self._sock, most, deadline)
            if not reply.startswith(number):
                raise ValueError("a reply that nobody asked for")
            return read(reply[len(number) :])
        except (wire.WireError, KeyError, ValueError, MemoryError) as error:
            raise self._give_up(error) from None
        finally:
            spent = time.monotonic() - began
            if spent > SLOW:
                self._more_time(began)
            self.waited += spent
            self.left -= spent

    def _observation(self, parameters: Collection[str], **request: object) -> Observation:
        def read(reply: bytes) -> Observation:
            return observation_from(_fields(reply, {"noted"})["noted"], self._sources, parameters)

        return self._exchange(encode(request), read, self._sandbox.limits.frame)

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

    def _watch_memory(self) -> None:
        """The kernel limits each process; together they may have no more than one of them. Raises TooMuch."""
        if self._usage.memory() > self._sandbox.limits.memory:
            raise wire.TooMuch("its processes took too much memory together")

    def _give_up(self, error: Exception) -> WorkerLost:
        status = self.kill()
        if isinstance(error, wire.TooSlow):
            self._lost = WorkerLost("it took too long", "cut off")
        elif isinstance(error, wire.TooMuch):
            self._lost = WorkerLost(str(error))
        elif isinstance(error, wire.Ended):
            self._lost = WorkerLost(f"its process ended ({how_it_ended(status)})")
        else:
            self._lost = WorkerLost(f"what it sent back can't be used: {error}")
        return self._lost


def _fields(reply: bytes, names: set[str], caps: Caps = DEFAULT_CAPS) -> dict:
    """The fields of a reply, which are these and no others."""
    fields = decode(reply, caps)
    if type(fields) is not dict or fields.keys() != names:
        raise ValueError("not the fields of a reply")
    return fields


def _cell_reply(fields: dict, asked: set[str], offered: set[str]) -> CellReply:
    needs = frozenset(names_from(fields["needs"]) & offered)
    return CellReply(error_from(fields["error"]), names_from(fields["defined"]) & asked, needs)
