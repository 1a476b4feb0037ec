"""What the cache of one compiled function does, call by call: which entry is hit, what is made, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, fx, nn

from torchkata.instruments.captured import fresh_compiler, reasons, recompiles


@dataclass(frozen=True)
class Step:
    """One call. Exactly one of made, eager and `hit is not None` is so.

    call: in words. tried: (entry, the first guard that failed) in the order in which they were asked; of a call that
    compiles or runs without a compiler. hit: the entry that ran. made: whether a new entry was made; eager: whether it
    ran without a compiler.
    """

    call: str
    tried: tuple[tuple[int, str], ...]
    hit: int | None
    made: bool
    eager: bool


class _Counter(nn.Module):
    """A module that counts its steps in an int."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, x: Tensor) -> Tensor:
        self.step += 1
        return x * 2


def _times(x: Tensor, s: object) -> Tensor:
    return x * s  # type: ignore[operator]


def _twice(x: Tensor) -> Tensor:
    return x * 2


def _branch(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 6 else x * 3


Calls = tuple[tuple[str, Callable[[Callable[..., Any]], object]], ...]


def _of_size(*sizes: int) -> Calls:
    return tuple((f"size {n}", lambda f, n=n: f(torch.ones(n))) for n in sizes)


def _with_number(*numbers: object) -> Calls:
    return tuple((f"s = {s!r}", lambda f, s=s: f(torch.ones(4), s)) for s in numbers)


def _without_grad(f: Callable[..., Any]) -> object:
    with torch.no_grad():
        return f(torch.ones(4))


_MODES: Calls = (
    ("float32", lambda f: f(torch.ones(4))),
    ("float64", lambda f: f(torch.ones(4).double())),
    ("float32 again", lambda f: f(torch.ones(4))),
    ("requires grad", lambda f: f(torch.ones(4, requires_grad=True))),
    ("under no_grad", _without_grad),
    ("float64 again", lambda f: f(torch.ones(4).double())),
)
STORIES: dict[str, tuple[str, Callable[[], Callable[..., Any]], Calls]] = {
    "sizes": ("x * 2", lambda: _twice, _of_size(5, 5, 6, 7, 1, 0, 9)),
    "numbers": ("x * s", lambda: _times, _with_number(2, 3, 4, 0.5, 0.25, 2)),
    "dtypes and modes": ("x * 2", lambda: _twice, _MODES),
    "an if on the size": ("x * 2 if x.shape[0] > 6 else x * 3", lambda: _branch, _of_size(5, 6, 7, 8, 20, 4)),
    "a counter": ("self.step += 1; x * 2", _Counter, _of_size(*[4] * 10)),
}


class _Entries:
    """A backend that knows which of its graphs ran."""

    def __init__(self) -> None:
        self.made, self.ran = 0, list[int]()

    def __call__(self, graph: fx.GraphModule, examples: list) -> Callable[..., Any]:
        number = self.made
        self.made += 1

        def run(*args: object) -> Any:
            self.ran.append(number)
            return graph(*args)

        return run


@cache
def cache_story(name: str) -> tuple[Step, ...]:
    """The steps of one of the STORIES, as they are on this torch."""
    _, make, calls = STORIES[name]
    return _steps(make(), calls)


def _steps(function: Callable[..., Any], calls: Sequence[tuple[str, Callable]]) -> tuple[Step, ...]:
    steps, entries = [], _Entries()
    with fresh_compiler(), recompiles() as log:
        compiled = torch.compile(function, backend=entries)
        for words, call in calls:
            made, ran = entries.made, len(entries.ran)
            log.clear()
            call(compiled)
            is_new, hits = entries.made > made, entries.ran[ran:]
            hit = hits[0] if hits and not is_new else None
            steps.append(Step(words, _tried(reasons(log)), hit, is_new, not hits))
    return tuple(steps)


def _tried(told: list[str]) -> tuple[tuple[int, str], ...]:
    parts = [part for text in told for part in text.split("; ")]
    found = [re.match(r"\d+/(\d+): (.*)", part) for part in parts]
    return tuple((int(one[1]), _without_address(one[2].strip())) for one in found if one)


def _without_address(reason: str) -> str:
    """A guard on a type names the address of the type, which differs from run to run."""
    return re.sub(r"___check_type_id\((\w+), \d+\), type=<class '(\w+)'>", r"type(\1) is \2", reason)
