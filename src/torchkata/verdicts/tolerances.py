"""How far apart two values of one dtype may lie and still count as equal."""

from __future__ import annotations

import torch

# of torch.testing.assert_close: https://docs.pytorch.org/docs/stable/testing.html
RELATIVE_AND_ABSOLUTE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
EXACT = 0.0, 0.0


def tolerances(dtype: torch.dtype, rtol: float | None = None, atol: float | None = None) -> tuple[float, float]:
    """rtol and atol as given, or where one is missing those of the dtype: integers and bools exactly.

    Two values are equal where abs(came - expected) <= atol + rtol * abs(expected).
    """
    if rtol is not None and atol is not None:
        return rtol, atol
    return RELATIVE_AND_ABSOLUTE.get(dtype, EXACT)


def are_known(dtype: torch.dtype) -> bool:
    """Whether the table says all about a dtype: not of float8 and quantized ones."""
    return dtype in RELATIVE_AND_ABSOLUTE or not (dtype.is_floating_point or dtype.is_complex)
