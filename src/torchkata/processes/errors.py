"""What can go wrong on a rank, as it is told in the notebook."""

from __future__ import annotations

import linecache
import re
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LIBRARIES = tuple(
    {
        *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parents[1]),
    }
)


_PLUMBING = ("wrapper", "_wrapped_call_impl", "_call_impl")  # names of torch that tell nothing


@dataclass(frozen=True)
class Frame:
    """A line of code that was running on a rank."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The line's text, without indentation; empty when it is not known here."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def is_own(self) -> bool:
        """Whether it is neither Python's, torch's nor this package's."""
        return not self.file.startswith((*_LIBRARIES, "<frozen", "<string>"))

    def __str__(self) -> str:
        return f"line {self.line} of {self.function}: {self.source}"


class RankError(RuntimeError):
    """The function raised an exception on a rank.

    Attributes:
        rank: the rank that it happened on.
        types: names of the exception's classes, the most special one first.
        frames: the lines of the caller's own code that it went through, outermost first.
    """

    def __init__(self, rank: int, types: Sequence[str], message: str, frames: Sequence[Frame] = ()):
        self.rank, self.types, self.frames = rank, list(types), [frame for frame in frames if frame.is_own]
        self.told = _without_places(message)
        super().__init__("\n".join([f"rank {rank}: {types[0]}: {self.told}", *(f"  {f}" for f in self.frames)]))


class RankDied(RankError):
    """The process of a rank ended in the middle: it called os._exit, was killed or crashed in native code."""

    def __init__(self, rank: int, how: str):
        super().__init__(rank, _names(type(self)), how)
        self.args = (f"rank {rank}'s process {how}",)


class RanksHang(RankError, TimeoutError):
    """Ranks waited for something that did not come; they have been ended.

    Attributes:
        waiting: for each rank that was not done the function of torch.distributed that it was in, or "".
    """

    def __init__(self, stacks: Mapping[int, Sequence[Frame]], finished: Sequence[int], seconds: float | None):
        """stacks: the stack of each rank that was not done, outermost first."""
        self.waiting = {rank: _waits_in(stack) for rank, stack in stacks.items()}
        told = [f"rank {rank} {f'waits in {name}' if name else 'is at work'}" for rank, name in self.waiting.items()]
        told += [f"rank {rank} is done" for rank in finished]
        begin = "nothing moves any more" if seconds is None else f"not done after {seconds:g} seconds"
        message = f"{begin}: {', '.join(told)}"
        first = next(iter(stacks))
        super().__init__(first, _names(type(self)), message, stacks[first])
        lines = {rank: [frame for frame in stack if frame.is_own][-1:] for rank, stack in stacks.items()}
        self.args = ("\n".join([message, *(f"  rank {rank}, {own[0]}" for rank, own in lines.items() if own)]),)


def _without_places(message: str) -> str:
    """gloo's messages name a line of its source and the addresses of processes, which differ each time."""
    return re.sub(
        r"\[(?:\d+(?:\.\d+){3}|[\da-f]*:[\da-f:]+)\]:\d+",
        "another rank",
        re.sub(r"^\[\S*/gloo/\S+:\d+\] ", "", message),
    )


def _names(kind: type) -> list[str]:
    return [t.__name__ for t in kind.__mro__ if issubclass(t, BaseException)]


def _waits_in(stack: Sequence[Frame]) -> str:
    """The outermost function of torch that the innermost own line called; "wait" has no frame, for it is native."""
    own = max((i for i, frame in enumerate(stack) if frame.is_own), default=None)
    if own is None:
        return ""
    called = [frame.function for frame in stack[own + 1 :] if frame.function not in _PLUMBING]
    return called[0] if called else "wait" * (".wait(" in stack[own].source)
