# %% right: allclose without an absolute tolerance
# `allclose` compares with `rtol * |element|` and treats equal infinities as close; `equal_nan` does the same for nan.
# The default `atol` must be set to 0, otherwise 1e-30 would fit float16, where it becomes 0.
def smallest_float(x, rtol):
    """The first format in which allclose finds no difference."""
    if not x.is_floating_point():
        raise TypeError(f"only real floating tensors, not {x.dtype}")
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        back = wide.to(dtype).double()
        if torch.allclose(back, wide, rtol=rtol, atol=0.0, equal_nan=True):
            return dtype
    return torch.float64


# %% right: divides, and looks for an error that is too large
# 0 / 0 and inf - inf are nan, and no nan is larger than `rtol`, so zeros, infinities and nan need no special case. The
# quotient is rounded, so an error exactly at the limit can be judged differently from the author's product.
def smallest_float(x, rtol):
    """The first format without a relative error above rtol."""
    if not x.is_floating_point():
        raise TypeError(f"only real floating tensors, not {x.dtype}")
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        relative = (wide.to(dtype).double() - wide).abs() / wide.abs()
        if not (relative > rtol).any():
            return dtype
    return torch.float64


# %% wrong: compares the precision of the format with rtol
# says: You decided by machine epsilon without looking at the numbers
# `eps` describes the format and not the numbers. 0.5 is exact in float16 even for `rtol` 0, and 70,000 becomes inf in
# float16, whatever `rtol` is.
def smallest_float(x, rtol):
    """The first format with a machine epsilon of at most rtol."""
    if not x.is_floating_point():
        raise TypeError(f"only real floating tensors, not {x.dtype}")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        if torch.finfo(dtype).eps <= rtol:
            return dtype
    return torch.float64
