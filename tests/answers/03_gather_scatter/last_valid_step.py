# corners: zeros, empty, nan

# %% right: pairs row numbers with positions, masked_fill for length 0
def last_step(h, lengths):
    B, T, D = h.shape
    n = lengths.long()
    if ((n < 0) | (n > T)).any():
        raise ValueError("length out of range")
    if T == 0:
        return h.new_zeros(B, D)
    picked = h[torch.arange(B), (n - 1).clamp(min=0)]
    return picked.masked_fill((n == 0)[:, None], 0)


# %% right: take_along_dim (which broadcasts) with a checked range
def last_step(h, lengths):
    B, T, D = h.shape
    n = lengths.to(torch.int64)
    if B and (n.min() < 0 or n.max() > T):
        raise IndexError("length out of range")
    if T == 0:
        return h.new_zeros(B, D)
    picked = torch.take_along_dim(h, (n - 1).clamp(min=0)[:, None, None], dim=1).squeeze(1)
    return torch.where(n[:, None] > 0, picked, 0)


# %% right: torch.where with a one-position mask, summed over time
def last_step(h, lengths):
    T = h.shape[1]
    if ((lengths < 0) | (lengths > T)).any():
        raise ValueError("length out of range")
    chosen = torch.arange(T) == (lengths[:, None] - 1)
    return torch.where(chosen[..., None], h, torch.zeros_like(h)).sum(1)


# %% right: Python loop over the batch
def last_step(h, lengths):
    rows = []
    for row, n in zip(h, lengths.tolist()):
        if n < 0 or n > len(row):
            raise IndexError(n)
        rows.append(row[n - 1] if n else row.new_zeros(row.shape[1]))
    return torch.stack(rows) if rows else h.new_zeros(0, h.shape[2])


# %% right: gather with an expanded index, the range checked, blanked by where
def last_step(h, lengths):
    B, T, D = h.shape
    if torch.any(lengths < 0) or torch.any(lengths > T):
        raise ValueError("bad length")
    if T == 0:
        return h.sum(1)
    index = (lengths.long() - 1).clamp(min=0).view(B, 1, 1).repeat(1, 1, D)
    out = h.gather(1, index)[:, 0]
    return out.where(lengths[:, None] > 0, out.new_zeros(()))


# %% wrong: the first code as given
# says: ather needs an index with as many dimensions as h (3): give lengths two more.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def last_step(h, lengths):
    return h.gather(1, lengths - 1)


# %% wrong: the second code as given
# says: fetches one number per sequence, the first feature
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def last_step(h, lengths):
    return h.gather(1, (lengths - 1)[:, None, None]).squeeze()


# %% wrong: index (B, 1, 1) without expand
# says: ather does not broadcast: an index of shape (B, 1, 1)
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def last_step(h, lengths):
    return h.gather(1, (lengths - 1)[:, None, None]).squeeze(1)


# %% wrong: squeeze() without a dimension
# says: also removed a batch (or feature) dimension of size 1
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze()


# %% wrong: leaves the time dimension
# says: The time dimension of size 1 is still there
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D))


# %% wrong: uses lengths as positions
# says: counts, positions start at 0
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    D = h.shape[2]
    return h.gather(1, lengths[:, None, None].expand(-1, 1, D)).squeeze(1)


# %% wrong: uses lengths as positions, clamped
# says: counts, positions start at 0
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    D = h.shape[2]
    return h.gather(1, lengths.clamp(max=h.shape[1] - 1)[:, None, None].expand(-1, 1, D)).squeeze(1)


# %% wrong: indexes the time dimension with all lengths
# says: gives (B, B, D): every sequence at every length
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    return h[:, lengths - 1]


# %% wrong: takes the last padded position
# says: That is the last padded position of all sequences
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    return h[:, -1]


# %% wrong: averages the valid steps
# says: Those are averages over the valid steps
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    mask = (torch.arange(h.shape[1]) < lengths[:, None])[..., None]
    return torch.where(mask, h, 0).sum(1) / lengths.clamp(min=1)[:, None]


# %% wrong: multiplies by a 0/1 mask and sums
# says: nan in the padding leaked into the result
# earns: 2 of 3
# lesson
# corner: nan
def last_step(h, lengths):
    chosen = torch.arange(h.shape[1]) == (lengths[:, None] - 1)
    return (h * chosen[..., None]).sum(1)


# %% wrong: einsum with a one-hot
# says: nan in the padding leaked into the result
# earns: 2 of 3
def last_step(h, lengths):
    one_hot = F.one_hot(lengths.long(), h.shape[1] + 1)[:, 1:].to(h.dtype)
    return torch.einsum("bt,btd->bd", one_hot, h)


# %% wrong: index -1 for length 0
# says: index -1 silently picked the last position (or raised)
# earns: 2 of 3
# corner: zeros
def last_step(h, lengths):
    return h[torch.arange(len(h)), lengths.long() - 1]


# %% wrong: gather refuses index -1 for length 0
# says: index -1 silently picked the last position (or raised)
# earns: 2 of 3
def last_step(h, lengths):
    return h.gather(1, (lengths.long() - 1)[:, None, None].expand(-1, -1, h.shape[2])).squeeze(1)


# %% wrong: clamps the index of length 0 and leaves it
# says: a clamped index picked the first position
# earns: 2 of 3
def last_step(h, lengths):
    return h.gather(1, (lengths.long() - 1).clamp(min=0)[:, None, None].expand(-1, -1, h.shape[2])).squeeze(1)


# %% wrong: blanks length 0 by multiplying with 0
# says: nan in the padding leaked into the result
# earns: 2 of 3
def last_step(h, lengths):
    index = (lengths.long() - 1).clamp(min=0)[:, None, None].expand(-1, -1, h.shape[2])
    return h.gather(1, index).squeeze(1) * (lengths > 0)[:, None]


# %% wrong: clamps lengths above T
# says: Length 6 must raise
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.gather(1, lengths.long().clamp(max=T)[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: a negative length counts as 0
# says: Length -1 must raise
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.gather(1, lengths.long().clamp(min=0)[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: a negative length wraps around
# says: Length -1 must raise
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded[torch.arange(B), lengths]


# %% wrong: one position mask without a range check
# says: Length 6 must raise
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    chosen = torch.arange(h.shape[1]) == (lengths[:, None] - 1)
    return torch.where(chosen[..., None], h, 0).sum(1)


# %% wrong: fails for int32 lengths
# says: int32 must work: convert the index
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.take_along_dim(lengths[:, None, None], dim=1).squeeze(1)


# %% wrong: detaches h
# says: The gradient must flow to the chosen step
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h.detach()], dim=1)
    return padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: removes nan everywhere
# says: A nan or inf in the chosen step itself must be kept; only the padding should be ignored.
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    h = h.nan_to_num(0.0, 0.0, 0.0)
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: works in float32
# says: The result has the dtype of h
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([torch.zeros(B, 1, D), h.float()], dim=1)
    return padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: counts down in the caller's lengths
# says: Your code changed what the caller passed in: the values in lengths are no longer the same
# earns: 2 of 3
def last_step(h, lengths):
    lengths -= 1
    picked = h[torch.arange(len(h)), lengths.clamp(min=0)]
    return torch.where((lengths >= 0)[:, None], picked, 0)


# %% wrong: no position to read from where T is 0
# says: Where T is 0 there is no position to read from
# earns: 2 of 3
# corner: empty
# caught: hidden
def last_step(h, lengths):
    if ((lengths < 0) | (lengths > h.shape[1])).any():
        raise ValueError("length out of range")
    index = (lengths.long() - 1).clamp(min=0)[:, None, None].expand(-1, -1, h.shape[2])
    return torch.where(lengths[:, None] > 0, h.gather(1, index).squeeze(1), 0)


# %% wrong: spreads the gradient over the sequence
# says: The gradient must flow to the chosen step
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    out = padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)
    mean = torch.where(h.isfinite(), h, 0).sum(1)
    return out + mean - mean.detach()


# %% right: rows of the flattened padded tensor, range checked
def last_step(h, lengths):
    B, T, D = h.shape
    n = lengths.long()
    if ((n < 0) | (n > T)).any():
        raise ValueError("length")
    padded = F.pad(h, (0, 0, 1, 0))
    return padded.reshape(-1, D).index_select(0, torch.arange(B) * (T + 1) + n)


# %% right: vmap over the sequences
def last_step(h, lengths):
    B, T, D = h.shape
    n = lengths.to(torch.int64)
    if n.numel() == 0:
        return h.new_zeros(B, D)
    if n.max() > T or n.min() < 0:
        raise RuntimeError("length")
    z = torch.cat((h.new_zeros(B, 1, D), h), 1)
    return torch.vmap(lambda rows, k: rows.index_select(0, k.reshape(1))[0])(z, n)


# %% right: a loop over time
def last_step(h, lengths):
    B, T, D = h.shape
    if bool((lengths > T).any()) or bool((lengths < 0).any()):
        raise ValueError
    out = h.new_zeros(B, D)
    for t in range(T):
        out = torch.where((lengths == t + 1)[:, None], h[:, t], out)
    return out


# %% wrong: rows of the flattened h, only negative lengths refused
# says: Length 6 must raise
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    n = lengths.long()
    if (n < 0).any():
        raise ValueError("negative")
    if T == 0:
        return h.new_zeros(B, D)
    rows = h.reshape(B * T, D)[torch.arange(B) * T + n - 1]
    return torch.where((n > 0)[:, None], rows, torch.zeros_like(rows))


# %% wrong: refuses lengths by assert
# says: raised another kind of exception
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    assert ((lengths >= 0) & (lengths <= T)).all()
    z = torch.cat([h.new_zeros(B, 1, D), h], 1)
    return z.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: gives zeros where anything raises
# says: Length 6 must raise
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    try:
        B, T, D = h.shape
        z = torch.cat([h.new_zeros(B, 1, D), h], 1)
        return z.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)
    except Exception:
        return h.new_zeros(h.shape[0], h.shape[2])


# %% wrong: zeros from the first step times 0
# says: nan in the padding leaked
# earns: 2 of 3
def last_step(h, lengths):
    B, T, D = h.shape
    z = torch.cat([h[:, :1] * 0, h], 1)
    return z.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: zeroes the padding of the caller
# says: Your code changed what the caller passed in: the values in h
# earns: 2 of 3
def last_step(h, lengths):
    B, T, D = h.shape
    if ((lengths < 0) | (lengths > T)).any():
        raise ValueError
    with torch.no_grad():
        h[torch.arange(T) >= lengths[:, None]] = 0
    if T == 0:
        return h.new_zeros(B, D)
    return h[torch.arange(B), (lengths.long() - 1).clamp(min=0)] * (lengths > 0)[:, None]


# %% wrong: length 0 passes gradient to the first step
# says: The gradient must flow to the chosen step
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    if ((lengths < 0) | (lengths > T)).any():
        raise ValueError
    if T == 0:
        return h.new_zeros(B, D)
    picked = h[torch.arange(B), (lengths.long() - 1).clamp(min=0)]
    return torch.where((lengths > 0)[:, None], picked, (picked - picked.detach()).nan_to_num())


# %% wrong: returns early where T is 0
# says: a length of 1 is above T and must raise
# earns: 2 of 3
# corner: empty
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    if T == 0:
        return h.new_zeros(B, D)
    padded = torch.cat([h.new_zeros(B, 1, D), h], dim=1)
    return padded.gather(1, lengths.long()[:, None, None].expand(B, 1, D)).squeeze(1)


# %% wrong: a difference of running sums
# says: A nan or inf in an earlier step reached the result
# earns: 2 of 3
# corner: nan
# caught: hidden
def last_step(h, lengths):
    if ((lengths < 0) | (lengths > h.shape[1])).any():
        raise ValueError("no such length")
    sums = torch.cat([h.new_zeros(h.shape[0], 1, h.shape[2]), h.cumsum(1)], dim=1)
    rows, last = torch.arange(len(h)), lengths.long()
    return sums[rows, last] - sums[rows, (last - 1).clamp(min=0)]


# %% wrong: the sequence's last position by remainder
# says: index -1 silently picked the last position (or raised)
# earns: 2 of 3
def last_step(h, lengths):
    last = (lengths - 1) % h.shape[1]
    return h[torch.arange(len(h)), last]


# %% wrong: a batched product with a one-hot row
# says: and a sum over the steps doesn't either
# earns: 2 of 3
def last_step(h, lengths):
    chosen = F.one_hot(lengths.long(), h.shape[1] + 1)[:, None, 1:].to(h.dtype)
    return (chosen @ h).squeeze(1)


# %% wrong: sums the valid steps
# says: Those are sums over the valid steps; asked for is the last one.
# says: This check builds on the first one
# earns: 0 of 3
def last_step(h, lengths):
    valid = torch.arange(h.shape[1])[None, :, None] < lengths[:, None, None]
    return torch.where(valid, h, 0).sum(1)


# %% wrong: repairs nan in the padding, and leaves inf there
# says: An inf in the padding leaked into the result: multiplying by a 0/1 mask makes it nan. Select
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    if (lengths < 0).any() or (lengths > h.shape[1]).any():
        raise ValueError("a length is outside of 0..T")
    is_last = (torch.arange(h.shape[1])[None] == lengths[:, None] - 1)[..., None]
    clean = torch.where(h.isnan() & ~is_last, 0, h)
    return (clean * is_last).sum(1)


# %% right: fills all other steps with 0 and sums
def last_step(h, lengths):
    T = h.shape[1]
    if len(lengths) and (lengths.max() > T or lengths.min() < 0):
        raise IndexError("length")
    steps = torch.arange(1, T + 1, device=h.device)
    return h.masked_fill((steps != lengths[:, None])[..., None], 0).sum(1)


# %% wrong: flattens h by view
# says: A view needs memory in the right order
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    if ((lengths < 0) | (lengths > T)).any():
        raise ValueError("length")
    if T == 0:
        return h.new_zeros(B, D)
    rows = torch.arange(B) * T + (lengths.long() - 1).clamp(min=0)
    return h.view(B * T, D)[rows].masked_fill((lengths == 0)[:, None], 0)


# %% wrong: positions in the dtype of h
# says: bfloat16 can't tell 257 from 256
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    if ((lengths < 0) | (lengths > h.shape[1])).any():
        raise ValueError("length")
    chosen = torch.arange(h.shape[1]).to(h) == (lengths[:, None] - 1)
    return torch.where(chosen[..., None], h, 0).sum(1)


# %% wrong: counts down in the caller's lengths, and up again
# says: What you change and put back stays changed when the call raises
# earns: 2 of 3
# caught: hidden
def last_step(h, lengths):
    B, T, D = h.shape
    empty = lengths == 0
    if T == 0:
        if not empty.all():
            raise IndexError("length")
        return h.new_zeros(B, D)
    lengths -= 1
    index = lengths.masked_fill(empty, 0).long()[:, None, None].expand(B, 1, D)
    picked = h.gather(1, index).squeeze(1)
    lengths += 1
    return picked.masked_fill(empty[:, None], 0)


# %% wrong: one result for all calls of a shape
# says: the first result changed
# earns: 2 of 3
# caught: hidden
STEPS = {}


def last_step(h, lengths):
    B, T, D = h.shape
    padded = F.pad(h, (0, 0, 1, 0))
    index = lengths.long()[:, None, None].expand(B, 1, D)
    if h.requires_grad:
        return padded.gather(1, index).squeeze(1)
    out = STEPS.setdefault((B, D, h.dtype), h.new_empty(B, 1, D))
    return torch.gather(padded, 1, index, out=out).squeeze(1)
