"""What a recorder can't see: threads, other processes, and operations below the modes that record.

A recorder's modes belong to one thread, and code that digs can lift them. torch's own profiler counts operations in
all threads, below all modes, and marks those that a mode has seen; Python's audit events tell of threads and processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch._C import _autograd as autograd
from torch._C import _profiler as profiler

BEGUN = {
    "_thread.start_new_thread": "a thread was started",
    **dict.fromkeys(("os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"), "a process was started"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "pty.spawn"), "a process was started"),
}
MARK = "PythonDispatchMode"  # the profiler's event for what a mode has seen
END, KNOWN = "torchkata: end", "torchkata: known"  # events of our own
_watching: Sight | None = None
_listens = False


class Sight:
    """What happened out of sight.

    Attributes:
        lost: in words; nothing where all could be seen.
        called: the names of operations above the modes, which take them apart before a recorder sees them.
    """

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.called: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, whatever a recorder of this thread can't see is noted."""
        global _watching
        _listen()
        _start_counting()
        _watching = self
        try:
            yield
        finally:
            _watching = None
            self._look_at(_counted())

    @staticmethod
    def known() -> AbstractContextManager:
        """Inside, torch itself lifts the modes."""
        return profiler._RecordFunctionFast(KNOWN)

    def note(self, what: str) -> None:
        if what not in self.lost:
            self.lost.append(what)

    def _look_at(self, events: list[Any]) -> None:
        if not events or events[-1].name != END:
            self.note("the profiler that counts operations was stopped")
        for event in events:
            self._look_below(event, "")

    def _look_below(self, event: Any, outermost: str) -> None:
        if event.name in (MARK, KNOWN):
            return
        space, _, name = event.name.partition("::")
        if is_operation := name.isidentifier() and space.isidentifier():
            outermost = outermost or name
            if name not in self.called:
                self.called.append(name)
        for child in event.children:
            self._look_below(child, outermost)
        if is_operation and not event.children and _computes(space, name):
            self.note(f"`{outermost}` ran where no recorder sees it")


class Unwatched(Sight):
    """In the place of a Sight where nobody watches."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        yield

    @staticmethod
    def known() -> AbstractContextManager:
        return nullcontext()


def _listen() -> None:
    """Hear of threads and processes that are begun. Python lets nobody take the listener away."""
    global _listens
    if not _listens:
        sys.addaudithook(_heard)
        _listens = True


def _heard(event: str, _: tuple) -> None:
    if _watching is not None and event in BEGUN:
        _watching.note(BEGUN[event])


def _start_counting() -> None:
    if autograd._profiler_enabled():  # somebody has left it on
        autograd._disable_profiler()
    _be_quiet()
    kinds = {torch.autograd.ProfilerActivity.CPU}
    everywhere = profiler._ExperimentalConfig(profile_all_threads=True)
    state = torch.autograd.ProfilerState.KINETO
    settings = torch.autograd.ProfilerConfig(state, *[False] * 5, everywhere)  # type: ignore[call-arg, arg-type]
    autograd._prepare_profiler(settings, kinds)
    autograd._enable_profiler(settings, kinds)


@cache
def _be_quiet() -> None:
    """The profiler's library tells on stderr that it starts; it asks for its level once."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")


def _counted() -> list[Any]:
    """The events since the start, with an end of our own, if nobody has stopped the count."""
    with profiler._RecordFunctionFast(END):
        pass
    return autograd._disable_profiler().experimental_event_tree()


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
