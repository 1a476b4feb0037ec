"""What a recorder can't see: threads, other processes, and operations below the modes that record.

A recorder's modes belong to one thread, code that digs can lift them, and an operation or a class of tensors of
somebody's own does work that no mode sees. torch's own profiler counts operations in all threads, below all modes; the
recorder marks there which ones it has seen. Python's audit events tell of threads and processes.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache
from typing import Any

import torch
from torch import distributed, library
from torch._C import _autograd as autograd
from torch._C import _profiler as profiler

Listener = Callable[[str, tuple], None]  # gets an audit event of Python's and what it tells
BEGUN = {
    "_thread.start_new_thread": "a thread was started",
    **dict.fromkeys(("os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"), "a process was started"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "pty.spawn"), "a process was started"),
}
# of operations that are torch's own; what an operation of another namespace calls is not known
TORCHS = frozenset(["aten", "c10d", "mkldnn", "quantized", "sparse"])
# a kernel of such an operation, of a kind that torch itself does not add late
ADDED = re.compile(rf"({'|'.join(sorted(TORCHS))})/.*/(?!Meta$|FuncTorch|Sparse)")
_watching: Sight | None = None
_listeners: list[Listener] = []
_listens = False


def unseen(operation: str) -> str:
    """That an operation of this name, or what it called, was not recorded."""
    return f"`{operation}` ran where no recorder sees it"


class Sight:
    """What happened out of sight.

    Attributes:
        lost: in words; nothing where all could be seen.
        called: the names of operations above the modes, which take them apart before a recorder sees them.
    """

    def __init__(self, spaces: frozenset[str] = frozenset()) -> None:
        """`spaces`: if given, only operations of these namespaces count as lost. A backend of torch.distributed has
        threads of its own, in which it computes."""
        self.lost: list[str] = []
        self.called: list[str] = []
        self._spaces = spaces
        token = secrets.token_hex(8)  # a learner's code can have events of any name, but does not know these
        names = (f"torchkata: {what} {token}" for what in ("begin", "end", "seen", "called", "known"))
        self._begin, self._end, self._seen, self._called, self._known = names

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, whatever a recorder of this thread can't see is noted."""
        global _watching
        _listen()
        _start_counting(self._begin)
        _watching = self
        try:
            yield
        finally:
            _watching = None
            self._look_at(_counted(self._end))

    def seen(self, whole: bool, operation: str = "") -> AbstractContextManager:
        """Inside, an operation of this name runs that a recorder notes: the whole of it, or only that it is called."""
        return profiler._RecordFunctionFast(self._seen if whole else f"{self._called} {operation}")

    def known(self) -> AbstractContextManager:
        """Inside, torch itself lifts the modes."""
        return profiler._RecordFunctionFast(self._known)

    def note(self, what: str) -> None:
        if what not in self.lost:
            self.lost.append(what)

    def _look_at(self, events: list[Any]) -> None:
        if not {self._begin, self._end} <= {event.name for event in events}:
            self.note("the profiler that counts operations was stopped")
        if _kernels_from_python() - _kernels_of_torch:
            self.note("an operation of torch was replaced")
        self._look_below(events, "")
        if distributed.is_available() and distributed.is_initialized() and _past_the_dispatcher(events):
            self.note("messages were sent past torch.distributed's operations")

    def _look_below(self, events: Iterable[Any], outermost: str) -> None:
        for event in events:
            if event.name.startswith(self._called):
                self._look_at_called(event, outermost)
            elif event.name not in (self._seen, self._known):
                self._look_at_operation(event, outermost)

    def _look_at_called(self, event: Any, outermost: str) -> None:
        """Since torch 2.15 the profiler leaves out the operation itself where it is written in Python."""
        operation = event.name.removeprefix(self._called).strip()
        space, _, name = operation.partition("::")
        if space not in TORCHS:
            outermost = outermost or operation
            if name not in self.called:
                self.called.append(name)
        for child in event.children:
            self._look_below(child.children if child.name == operation else [child], outermost)

    def _look_at_operation(self, event: Any, outermost: str) -> None:
        space, _, name = event.name.partition("::")
        if is_operation := name.isidentifier() and space.isidentifier():
            outermost = outermost or event.name
            if name not in self.called:
                self.called.append(name)
        self._look_below(event.children, outermost)
        if is_operation and not event.children and _computes(space, name):
            space, _, name = outermost.partition("::")
            if not self._spaces or space in self._spaces:
                self.note(unseen(name))


def _past_the_dispatcher(events: list[Any]) -> bool:
    """Whether gloo has begun a collective, where torch.distributed's operations have asked for none."""
    every = list(events)
    for event in every:  # grows while it is gone through
        every += event.children
    asked, begun = [{e.name for e in every if e.name.startswith(space)} for space in ("c10d::", "gloo:")]
    messages = {"c10d::send", "c10d::recv_", "c10d::recv_any_source_", "gloo:send", "gloo:recv", "gloo:recvAnySource"}
    return bool(begun - messages) and not asked - messages


class Unwatched(Sight):
    """In the place of a Sight where nobody watches."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        yield

    def seen(self, whole: bool, operation: str = "") -> AbstractContextManager:
        return nullcontext()

    def known(self) -> AbstractContextManager:
        return nullcontext()


def _listen() -> None:
    """Hear of threads and processes that are begun. Python lets nobody take the listener away."""
    global _listens
    if not _listens:
        sys.addaudithook(_heard)
        _listens = True


def _heard(event: str, told: tuple) -> None:
    if _watching is not None and event in BEGUN:
        _watching.note(BEGUN[event])
    for listener in _listeners:
        listener(event, told)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside, `listener` gets each audit event of Python's, of all threads."""
    _listen()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _start_counting(begin: str) -> None:
    """Count from an event of this name on."""
    if autograd._profiler_enabled():  # somebody has left it on
        autograd._disable_profiler()
    _be_quiet()
    kinds = {torch.autograd.ProfilerActivity.CPU}
    everywhere = profiler._ExperimentalConfig(profile_all_threads=True)
    state = torch.autograd.ProfilerState.KINETO
    settings = torch.autograd.ProfilerConfig(state, *[False] * 5, everywhere)  # type: ignore[call-arg, arg-type]
    autograd._prepare_profiler(settings, kinds)
    autograd._enable_profiler(settings, kinds)
    with profiler._RecordFunctionFast(begin):
        pass


@cache
def _be_quiet() -> None:
    """The profiler's library tells on stderr that it starts; it asks for its level once."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")


def _counted(end: str) -> list[Any]:
    """The events since the start, with a last one of this name."""
    with profiler._RecordFunctionFast(end):
        pass
    return autograd._disable_profiler().experimental_event_tree()


@lru_cache(maxsize=1)
def _kernels_among(_: int) -> set[str]:
    """The kernels that torch's own operations have got from Python. To look for them takes a millisecond: it is done
    again when the number of all such kernels has changed."""
    return {name for name in library._impls if ADDED.match(name)}


def _kernels_from_python() -> set[str]:
    return _kernels_among(len(library._impls))


_kernels_of_torch = _kernels_from_python()


@cache
def _computes(space: str, name: str) -> bool:
    """Whether an operation that calls no other one makes values: not one that is put together of others, a view, or
    memory that nobody has written to yet."""
    packet = getattr(getattr(torch.ops, space), name, None)
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet else []
    known = [one for one in overloads if torch._C._dispatch_has_kernel(one.name())]
    composite = "CompositeImplicitAutograd"
    put_together = any(torch._C._dispatch_has_kernel_for_dispatch_key(one.name(), composite) for one in known)
    return not put_together and not any(one.is_view for one in known) and "empty" not in name
