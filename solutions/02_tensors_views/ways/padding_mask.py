# %% right: rows of a triangle
# Row n of this triangle has n ones, so the mask is a lookup. The triangle takes (T + 1) × T bytes, however small the
# batch is.
def padding_mask(lengths, T=None):
    """Row n of the triangle for a sequence of length n."""
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    triangle = torch.ones(T + 1, T, dtype=torch.bool, device=lengths.device).tril(-1)
    return triangle[lengths.clamp(max=T).long()]


# %% right: keeps the loop, and clones what was expanded
# This changes the given code least: after `clone`, each row has its own memory. The loop reads every length from the
# device, one after the other; the author's comparison reads none.
def padding_mask(lengths, T=None):
    """A mask written row by row."""
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    mask = torch.ones(1, T, dtype=torch.bool, device=lengths.device).expand(len(lengths), T).clone()
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask


# %% wrong: clones after the loop
# says: All rows are the same
# At that point all writes have already gone into one row of memory, and `clone` copies that row for each sequence.
def padding_mask(lengths, T=None):
    """Copies the rows when it is too late."""
    T = T if T is not None else int(lengths.max())
    mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask.clone()
