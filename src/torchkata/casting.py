"""Asks autocast what it does with an operation, on the CPU and, without a GPU, on CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode


def kind_of(device: str, call: Callable[..., Tensor], *shapes: tuple[int, ...]) -> str:
    """Give call float32, 16-bit and mixed tensors of these shapes under autocast, and judge by the dtype of what comes.

    device: "cpu" or "cuda". Returns "lower" (float32 goes in, 16 bits come out), "float32" (16 bits go in, float32
    comes out), "promotes" (mixed arguments give float32), "keeps" (the dtype that goes in) or "refused" (call raises
    on arguments of one dtype).
    """
    low, full = torch.get_autocast_dtype(device), torch.float32

    def result(first: torch.dtype, other: torch.dtype) -> torch.dtype:
        dtypes = (first, *[other] * (len(shapes) - 1))
        given = zip(shapes, dtypes, strict=True)
        return call(*(torch.ones(shape, dtype=dtype, device=device) for shape, dtype in given)).dtype

    with _region(device):
        try:
            if result(full, full) is low:
                return "lower"
            if result(low, low) is full:
                return "float32"
        except RuntimeError:
            return "refused"
        try:
            return "promotes" if len(shapes) > 1 and result(low, full) is full else "keeps"
        except RuntimeError:
            return "keeps"  # and takes no mixed ones


@contextmanager
def _region(device: str) -> Iterator[None]:
    """Autocast is on for the device; CUDA's operations run for shapes and dtypes only, so that no GPU is needed."""
    before = torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, True)
    try:
        with FakeTensorMode() if device == "cuda" else nullcontext():
            yield
    finally:
        torch.set_autocast_enabled(device, before)
        torch.clear_autocast_cache()
