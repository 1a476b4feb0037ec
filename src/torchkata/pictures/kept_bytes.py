"""What attention keeps for its backward pass, by length: with all weights, and by the fused kernel. Measured."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, SOFT_INK

HEADS, DIM = 4, 64
LENGTHS = (256, 512, 1024, 2048)
KERNELS = {"plain": (SDPBackend.MATH, ORANGE), "fused": (SDPBackend.FLASH_ATTENTION, SKY)}
LEFT, LONGEST, BAR, WIDTH, TOP = MARGIN + 42, 150, 18, 270, 92
MB = 1e6


def kept_bytes(length: int, kernel: str) -> int:
    """Run attention over `length` positions on the CPU; the bytes of all storages that are kept for backward.

    kernel: "plain" or "fused". Float32, HEADS heads of DIM, no mask; inputs and output count where they are kept.
    """
    with torch.enable_grad():
        q, k, v = (
            torch.zeros(1, HEADS, length, DIM, dtype=torch.float32, device="cpu", requires_grad=True) for _ in "qkv"
        )
        kept = {}

        def note(saved: Tensor) -> Tensor:
            storage = saved.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return saved.detach()

        with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved), sdpa_kernel(KERNELS[kernel][0]):
            out = F.scaled_dot_product_attention(q, k, v)
        del out
    return sum(kept.values())


def kept_bars(lengths: Sequence[int] = LENGTHS) -> Picture:
    """Draw two bars for each length: the plain kernel's and the fused one's, on one scale."""
    found = {length: {kernel: kept_bytes(length, kernel) for kernel in KERNELS} for length in lengths}
    most = max(size for sizes in found.values() for size in sizes.values())
    step = 2 * BAR + 14
    canvas = Canvas(WIDTH, TOP + len(lengths) * step + 4)
    title = "Kept for the backward pass"
    canvas.title(title)
    canvas.text(MARGIN, 38, f"{HEADS} heads of {DIM}, float32; measured on the CPU", color=SOFT_INK)
    for place, (kernel, (_, fill)) in enumerate(KERNELS.items()):
        canvas.cells([Cell(MARGIN + 110 * place, 53, "", fill, width=16, height=14)])
        canvas.text(MARGIN + 110 * place + 22, 60, f"{kernel} kernel")
    canvas.text(LEFT - 8, TOP - 10, "length", align="right", color=SOFT_INK)
    for row, (length, sizes) in enumerate(found.items()):
        y = TOP + row * step
        canvas.text(LEFT - 8, y + BAR, f"{length:,}", align="right", weight="bold")
        for place, (kernel, size) in enumerate(sizes.items()):
            width, top = LONGEST * size / most, y + place * BAR
            canvas.cells([Cell(LEFT, top, "", KERNELS[kernel][1], width=width, height=BAR)])
            canvas.text(LEFT + width + 6, top + BAR / 2, f"{size / MB:.1f} MB")
    told = "; ".join(
        f"{length:,} positions: " + ", ".join(f"{kernel} {size / MB:.1f} MB" for kernel, size in sizes.items())
        for length, sizes in found.items()
    )
    return Picture(canvas, f"{title}, by the length of the sequence, for {HEADS} heads of {DIM} in float32. {told}.")
