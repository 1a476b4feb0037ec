# %% right: exponents by frexp
# `frexp` splits a number into a fraction and a power of two, so the exponent of the scale is a difference, and no
# search is needed. One cast shows whether the largest number rounds to inf; then the scale is halved.
def scale_window(grads, dtype=torch.float16):
    """The shares that are lost, with the scale from two exponents."""
    flat = torch.cat([torch.empty(0), *(g.detach().double().flatten() for g in grads)])
    if not flat.isfinite().all() or not flat.any():
        raise ValueError("there must be a gradient, not all of it zero, and all of it finite")
    flat = flat[flat != 0]
    _, of_format = math.frexp(torch.finfo(dtype).max)
    _, of_largest = math.frexp(flat.abs().max().item())
    scale = math.ldexp(1.0, of_format - of_largest)
    if not (flat * scale).to(dtype).isfinite().all():
        scale /= 2
    lost, lost_scaled = ((flat * s).to(dtype).eq(0).double().mean().item() for s in (1.0, scale))
    return {"lost": lost, "scale": scale, "lost_scaled": lost_scaled}


# %% wrong: casts first and multiplies afterwards
# says: Multiply before casting: what has become 0 stays 0 whatever you multiply it by.
# A scale helps only if you multiply before the number is stored in the small format.
def scale_window(grads, dtype=torch.float16):
    """A scale that comes too late."""
    flat = torch.cat([torch.empty(0), *(g.detach().double().flatten() for g in grads)])
    if not flat.isfinite().all() or not flat.any():
        raise ValueError("there must be a gradient, not all of it zero, and all of it finite")
    flat = flat[flat != 0]
    exponent = 300
    while not (flat.abs().max() * 2.0**exponent).to(dtype).isfinite():
        exponent -= 1
    small = flat.to(dtype)
    lost = small.eq(0).double().mean().item()
    return {
        "lost": lost,
        "scale": 2.0**exponent,
        "lost_scaled": (small.double() * 2.0**exponent).eq(0).double().mean().item(),
    }
