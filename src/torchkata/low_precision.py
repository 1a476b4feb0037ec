"""Whether low precision pays on the processor at hand."""

from __future__ import annotations

from functools import cache
from time import perf_counter

import torch

REPEATS = 5


@cache
def bfloat16_speedup() -> float:
    """Return how many times faster a matrix product is in bfloat16 than in float32 on this machine's CPU.

    It is measured once, on one thread and in a few milliseconds, and below 1 where bfloat16 is slower: a processor
    without instructions for bfloat16 (on Intel's and AMD's: AVX512_BF16 or AMX) needs about 50 times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _seconds(torch.float32) / _seconds(torch.bfloat16)
    finally:
        torch.set_num_threads(threads)


def _seconds(dtype: torch.dtype) -> float:
    """The shortest time of a few products of (256 x 128) and (128 x 256)."""
    left, right = torch.ones(256, 128, dtype=dtype), torch.ones(128, 256, dtype=dtype)
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        left @ right
        times.append(perf_counter() - start)
    return min(times)
