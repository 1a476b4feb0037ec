"""What can go wrong on a rank, as it is told in the notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchkata.processes.frames import Frame, innermost_own, waits_in

UNSENT = "the function, or something that it uses, can't be sent to another process"
EVERYBODY = {  # what there is to say where all ranks wait in the same call
    "send": "send: it returns only when the partner receives. Let one of them receive first, or use isend",
    "recv": "recv: each waits for a message, and nobody sends one",
}


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
        self.waiting = {rank: waits_in(stack) for rank, stack in stacks.items()}
        idle = "stands still" if seconds is None else "is at work"
        told = [f"rank {rank} {f'waits in {name}' if name else idle}" for rank, name in self.waiting.items()]
        told += [f"rank {rank} is done" for rank in finished]
        begin = "nothing moves any more" if seconds is None else f"not done after {seconds:g} seconds"
        message, known = f"{begin}: {', '.join(told)}", self._known(finished)
        first, *others = stacks
        own = {rank: innermost_own(stack) for rank, stack in stacks.items()}
        others_own = [(rank, frame) for rank in others if (frame := own[rank])]
        frames = [*stacks[first], *(replace(one, function=f"{one.function}, rank {rank}") for rank, one in others_own)]
        super().__init__(first, _names(type(self)), ". ".join(filter(None, [message, known])), frames)
        lines = [f"  rank {rank}, {frame}" for rank, frame in own.items() if frame]
        self.args = ("\n".join([message, *lines, *([f"  {known}"] if known else [])]),)

    def _known(self, finished: Sequence[int]) -> str:
        """A sentence on ranks that do all the same and so can't get on."""
        [name, *others] = {*self.waiting.values()}
        if others or finished or len(self.waiting) < 2 or name not in EVERYBODY:
            return ""
        return f"{'Both' if len(self.waiting) == 2 else 'All'} ranks are in {EVERYBODY[name]}"


def _without_places(message: str) -> str:
    """gloo's messages name a line of its source and the addresses of processes, which differ each time."""
    return re.sub(
        r"\[(?:\d+(?:\.\d+){3}|[\da-f]*:[\da-f:]+)\]:\d+",
        "another rank",
        re.sub(r"^\[\S*/gloo/\S+:\d+\] ", "", message),
    )


def _names(kind: type) -> list[str]:
    return [t.__name__ for t in kind.__mro__ if issubclass(t, BaseException)]
