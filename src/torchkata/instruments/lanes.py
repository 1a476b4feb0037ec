"""When Python queues work for a GPU, when it waits, and when the GPU works: two lanes on one line of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Call = tuple[float, float, bool]  # launch, work, waits


@dataclass(frozen=True)
class Span:
    """One call: Python stands still from held_from to begins, queues until queued, and waits until goes_on; the GPU
    works from starts to ends (both None where the call has no work)."""

    held_from: float
    begins: float
    queued: float
    goes_on: float
    starts: float | None
    ends: float | None


@dataclass(frozen=True)
class Totals:
    """total: when both are done. idle: of the GPU between its first and its last kernel. stalled: of Python."""

    total: float
    idle: float
    stalled: float


def lanes(calls: Sequence[Call], depth: float = math.inf) -> list[Span]:
    """Where each call lies. Kernels run one at a time, in order; at most `depth` are queued and not finished."""
    now = free = 0.0
    ends: list[float] = []
    spans: list[Span] = []
    for launch, work, waits in calls:
        held_from = now
        pending = [end for end in ends if end > now]
        if len(pending) >= depth:
            now = pending[len(pending) - int(depth)]
        begins, queued = now, now + launch
        starts = ended = None
        if work:
            starts = max(queued, free)
            ended = free = starts + work
            ends.append(free)
        now = max(queued, free) if waits else queued
        spans.append(Span(held_from, begins, queued, now, starts, ended))
    return spans


def totals(spans: Sequence[Span]) -> Totals:
    """The sums of a program."""
    busy = [(s.starts, s.ends) for s in spans if s.starts is not None and s.ends is not None]
    gaps = sum(after[0] - before[1] for before, after in pairwise(busy))
    stalled = sum((s.begins - s.held_from) + (s.goes_on - s.queued) for s in spans)
    total = max([spans[-1].goes_on if spans else 0, *(end for _, end in busy)], default=0)
    return Totals(total, gaps, stalled)


def in_words(calls: Sequence[Call], depth: float = math.inf) -> str:
    """What a program comes to: when it is over, how long the GPU is idle, how long Python stands still."""
    sums = totals(lanes(calls, depth))
    return f"over after {sums.total:,.0f}, GPU idle for {sums.idle:,.0f}, Python stands still for {sums.stalled:,.0f}"
