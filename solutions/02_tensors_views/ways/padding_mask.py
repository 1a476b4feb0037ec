# %% right: rows of a triangle
# Row n of this triangle has n ones: the mask is a lookup. The triangle takes T × T bytes, whatever the batch is.
def padding_mask(lengths, T=None):
    """Row n of the triangle for a sequence of length n."""
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    triangle = torch.ones(T + 1, T, dtype=torch.bool, device=lengths.device).tril(-1)
    return triangle[lengths.clamp(max=T).long()]


# %% right: keeps the loop, and clones what was expanded
# The smallest change to the given code: after `clone` each row has memory of its own. The loop reads each length from
# the device, which a comparison doesn't.
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
# By then each write has gone into the one row that there is.
def padding_mask(lengths, T=None):
    """Copies the rows when it is too late."""
    T = T if T is not None else int(lengths.max())
    mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask.clone()
