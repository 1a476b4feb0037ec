# corners: zeros, nan, empty


def flattened(grads):
    return torch.cat([g.double().flatten() for g in grads]) if len(grads) else torch.empty(0)


def checked(grads):
    flat = flattened(grads)
    if not flat.numel() or not flat.isfinite().all() or not flat.any():
        raise ValueError("no gradient to measure")
    return flat


def lost(flat, dtype, scale=1.0):
    nonzero = flat[flat != 0]
    return ((nonzero * scale).to(dtype) == 0).double().mean().item()


def largest_scale(amax, dtype):
    k = 300
    while not (amax * 2.0**k).to(dtype).isfinite():
        k -= 1
    return 2.0**k


# %% right: starts from the ratio, corrects by casting
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    amax = flat.abs().max()
    scale = 2.0 ** math.floor(math.log2(torch.finfo(dtype).max / amax.item()))
    if (amax * scale * 2).to(dtype).isfinite():
        scale *= 2
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% right: tries exponents from high to low on the largest entry alone
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    return {"scale": scale, "lost_scaled": lost(flat, dtype, scale), "lost": lost(flat, dtype)}


# %% right: exponents by frexp, checked by one cast; counting in loops
def scale_window(grads, dtype=torch.float16):
    values = [v for g in grads for v in g.flatten().tolist()]
    if not all(map(math.isfinite, values)) or not any(values):
        raise ValueError("nothing to measure")
    values = torch.tensor([v for v in values if v], dtype=torch.float64)
    _, of_max = math.frexp(torch.finfo(dtype).max)
    _, of_amax = math.frexp(values.abs().max().item())
    scale = math.ldexp(1.0, of_max - of_amax)
    if not (values * scale).to(dtype).isfinite().all():
        scale /= 2
    zeros = [int((values * s).to(dtype).count_nonzero()) for s in (1, scale)]
    return {
        "lost": 1 - zeros[0] / len(values),
        "scale": scale,
        "lost_scaled": 1 - zeros[1] / len(values),
    }


# %% right: products by torch.ldexp in float64, an integer scale
def scale_window(grads, dtype=torch.float16):
    flat = checked(list(grads))
    flat = flat[flat.nonzero().squeeze(1)]
    k = -200
    while torch.ldexp(flat, torch.tensor(k + 1)).to(dtype).isinf().sum() == 0:
        k += 1
    shares = [float((torch.ldexp(flat, torch.tensor(e)).to(dtype) == 0).sum() / flat.numel()) for e in (0, k)]
    return {"lost": shares[0], "scale": 2**k, "lost_scaled": shares[1]}


# %% wrong: divides by all entries
# says: Entries that were 0 before are not lost; divide by the number of non-zero ones.
# earns: 0 of 2
# corner: zeros
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)

    def share(s):
        return ((flat != 0) & ((flat * s).to(dtype) == 0)).double().mean().item()

    return {"lost": share(1), "scale": scale, "lost_scaled": share(scale)}


# %% wrong: counts all zeros
# says: Entries that were 0 before are not lost; divide by the number of non-zero ones.
# earns: 0 of 2
# corner: zeros
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)

    def share(s):
        return ((flat * s).to(dtype) == 0).double().mean().item()

    return {"lost": share(1), "scale": scale, "lost_scaled": share(scale)}


# %% wrong: compares with finfo.tiny
# says: Numbers below finfo.tiny are not lost yet: subnormals reach down to about 6e-8 in float16. Cast and look.
# earns: 0 of 2
# lesson
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    flat = flat[flat != 0].abs()
    scale = largest_scale(flat.max(), dtype)
    tiny = torch.finfo(dtype).tiny
    return {
        "lost": (flat < tiny).double().mean().item(),
        "scale": scale,
        "lost_scaled": (flat * scale < tiny).double().mean().item(),
    }


# %% wrong: compares with the smallest subnormal number
# says: The cast rounds exactly half of the smallest number of the dtype to 0
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    flat = flat[flat != 0].abs()
    scale = largest_scale(flat.max(), dtype)
    info = torch.finfo(dtype)
    smallest = info.tiny * info.eps / 2
    return {
        "lost": (flat < smallest).double().mean().item(),
        "scale": scale,
        "lost_scaled": (flat * scale < smallest).double().mean().item(),
    }


# %% wrong: the scale is max / amax
# says: The scale must be a power of two (multiplying by it changes no digits).
# earns: 0 of 2
# lesson
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = (torch.finfo(dtype).max / flat.abs().max()).item()
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: the exponent by log2, never tested by casting
# says: the rounding of the cast allows a little more than finfo.max.
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = 2.0 ** math.floor(math.log2(torch.finfo(dtype).max / flat.abs().max().item()))
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: rounds the exponent
# says: With this scale the largest entry becomes inf.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = 2.0 ** math.ceil(math.log2(torch.finfo(dtype).max / flat.abs().max().item()))
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: half of the largest scale
# says: A larger power of two still fits.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype) / 2
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: casts first, then multiplies
# says: Multiply before casting: what has become 0 stays 0 whatever you multiply it by.
# earns: 0 of 2
# lesson
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    nonzero = flat[flat != 0]
    scale = largest_scale(flat.abs().max(), dtype)
    after = nonzero.to(dtype).double() * scale
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": (after == 0).double().mean().item()}


# %% wrong: averages the shares of the tensors
# says: Average over all entries, not over tensors of different size.
# says: The share `lost` is wrong.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    parts = [g.double().flatten() for g in grads if g.any()]

    def share(s):
        return sum(lost(p, dtype, s) for p in parts) / len(parts)

    return {"lost": share(1.0), "scale": scale, "lost_scaled": share(scale)}


# %% wrong: products in float32
# says: s * g overflowed in float32 before the cast; form the product in float64.
# earns: 0 of 2
# lesson
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads).float()
    k = 300
    while not (flat * 2.0**k).to(dtype).isfinite().all():
        k -= 1
    return {"lost": lost(flat, dtype), "scale": 2.0**k, "lost_scaled": lost(flat, dtype, 2.0**k)}


# %% wrong: shares in float32, the scale in float64
# says: s * g overflowed in float32 before the cast; form the product in float64.
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    nonzero = flat[flat != 0].float()
    step = min(scale, 2.0**100)
    after = (nonzero * step).clamp(-1, 1) * min(scale / step, 1.0)
    return {
        "lost": lost(flat, dtype),
        "scale": scale,
        "lost_scaled": (after.to(dtype) == 0).double().mean().item(),
    }


# %% wrong: no checks
# says: Empty, all-zero or non-finite gradients must raise ValueError.
# earns: 1 of 2
# corner: empty
def scale_window(grads, dtype=torch.float16):
    flat = flattened(grads)
    if not flat.any() or not flat.isfinite().all():
        return {"lost": 0.0, "scale": 1.0, "lost_scaled": 0.0}
    scale = largest_scale(flat.abs().max(), dtype)
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: lets nan pass
# says: Empty, all-zero or non-finite gradients must raise ValueError.
# earns: 1 of 2
# corner: nan
def scale_window(grads, dtype=torch.float16):
    flat = flattened(grads)
    if not flat.any() or flat.isinf().any():
        raise ValueError("no")
    flat = flat[~flat.isnan()]
    scale = largest_scale(flat.abs().max(), dtype)
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: the scale is never below 1
# says: The scale may be below 1: large gradients need scaling down.
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = max(1.0, largest_scale(flat.abs().max(), dtype))
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: the largest entry without abs
# says: The largest MAGNITUDE decides: a large negative entry also overflows.
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.max(), dtype)
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: float16 whatever is asked for
# says: A larger power of two still fits.
# says: A larger power of two still fits: the rounding of the cast allows a little more
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    dtype = torch.float16
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: changes the gradients
# says: Your code changed what the caller passed in: the values in grads[0] are no longer the same
# says: Your code changed what the caller passed in: grads was changed
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    result = {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}
    for g in grads:
        g.mul_(2.0)
    return result


# %% wrong: tensors in place of floats
# says: The numbers must be finite Python floats; these are not: lost, lost_scaled.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    nonzero = flat[flat != 0]
    shares = [((nonzero * s).to(dtype) == 0).float().mean() for s in (1.0, scale)]
    return {"lost": shares[0], "scale": scale, "lost_scaled": shares[1]}


# %% wrong: a tuple
# says: Return a dict with the keys lost, scale and lost_scaled.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    return lost(flat, dtype), scale, lost(flat, dtype, scale)


# %% wrong: lets -inf pass
# says: Empty, all-zero or non-finite gradients must raise ValueError.
# earns: 1 of 2
def scale_window(grads, dtype=torch.float16):
    flat = torch.cat([g.double().flatten() for g in grads]) if len(grads) else torch.empty(0)
    flat = flat[flat != 0]
    if not len(flat) or flat.isnan().any() or flat.max() == math.inf:
        raise ValueError
    largest, scale = flat.abs().max().clamp(max=3e38), 2.0**300
    while (largest * scale).to(dtype).isinf():
        scale /= 2
    lost = [((flat * s).to(dtype) == 0).double().mean().item() for s in (1.0, scale)]
    return {"lost": lost[0], "scale": scale, "lost_scaled": lost[1]}


# %% wrong: the share that is kept
# says: A share says how much is lost; yours says how much is kept.
# says: Numbers below finfo.tiny are not lost yet: subnormals reach down to about 6e-8
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = torch.cat([g.double().flatten() for g in grads]) if len(grads) else torch.empty(0)
    flat = flat[flat != 0]
    if not len(flat) or not flat.isfinite().all():
        raise ValueError
    scale = 2.0**300
    while (flat * scale).to(dtype).isinf().any():
        scale /= 2
    kept = [((flat * s).to(dtype) != 0).double().mean().item() for s in (1.0, scale)]
    return {"lost": kept[0], "scale": scale, "lost_scaled": kept[1]}


# %% wrong: after scaling, subnormal numbers count as lost
# says: Numbers below finfo.tiny are not lost yet
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = torch.cat([g.double().flatten() for g in grads]) if len(grads) else torch.empty(0)
    flat = flat[flat != 0]
    if not len(flat) or not flat.isfinite().all():
        raise ValueError
    scale = 2.0**300
    while (flat * scale).to(dtype).isinf().any():
        scale /= 2
    lost = (flat.to(dtype) == 0).double().mean().item()
    small = ((flat * scale).abs() < torch.finfo(dtype).tiny).double().mean().item()
    return {"lost": lost, "scale": scale, "lost_scaled": small}


# %% wrong: the share of all entries
# says: Entries that were 0 before are not lost; divide by the number of non-zero ones.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)

    def share(s):
        x = flat * s
        return ((x.to(dtype) == 0) & (flat != 0)).double().mean().item()

    s = largest_scale(flat.abs().max(), dtype)
    return {"lost": share(1.0), "scale": s, "lost_scaled": share(s)}


# %% wrong: torch.finfo's smallest normal number
# says: Numbers below finfo.tiny are not lost yet: subnormals reach down to about 6e-8 in float16. Cast and
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    nonzero = flat[flat != 0]

    def share(s):
        return ((nonzero * s).abs() < torch.finfo(dtype).tiny).double().mean().item()

    s = largest_scale(flat.abs().max(), dtype)
    return {"lost": share(1.0), "scale": s, "lost_scaled": share(s)}


# %% wrong: half of the largest scale, to be safe
# says: A larger power of two still fits.
# earns: 0 of 2
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype) / 2
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}


# %% wrong: compares with the smallest number of the dtype
# says: You compared with the smallest number of the dtype.
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = largest_scale(flat.abs().max(), dtype)
    nonzero, least = flat[flat != 0].abs(), torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps

    def below(scale):
        return (nonzero * scale < least).double().mean().item()

    return {"lost": below(1.0), "scale": scale, "lost_scaled": below(scale)}


# %% wrong: begins at 2**200 and only goes down
# says: A larger power of two still fits.
# earns: 1 of 2
# caught: hidden
def scale_window(grads, dtype=torch.float16):
    flat = checked(grads)
    scale = 2.0**200
    while not (flat * scale).to(dtype).isfinite().all():
        scale /= 2
    return {"lost": lost(flat, dtype), "scale": scale, "lost_scaled": lost(flat, dtype, scale)}
