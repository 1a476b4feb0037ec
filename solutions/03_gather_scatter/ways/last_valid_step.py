# %% right: pairs row numbers with positions
# Advanced indexing needs no expanded index. But it takes -1 for the last position, so lengths have to be checked, and
# a sequence of length 0 needs a second step.
def last_step(h, lengths):
    """Row b of the batch at position lengths[b] - 1."""
    n = lengths.long()
    if ((n < 0) | (n > h.shape[1])).any():
        raise ValueError("a length is negative or larger than T")
    if h.shape[1] == 0:
        return h.new_zeros(h.shape[0], h.shape[2])
    picked = h[torch.arange(len(h), device=h.device), (n - 1).clamp(min=0)]
    return picked.masked_fill((n == 0)[:, None], 0)


# %% right: selects with a mask over time
# There is no index: a comparison says which step is the last, and `where` lets nothing else through, not even nan. It
# reads all T steps, as the author's `cat` does, where advanced indexing reads one.
def last_step(h, lengths):
    """The sum over time of h, with zeros in all places but one."""
    if ((lengths < 0) | (lengths > h.shape[1])).any():
        raise ValueError("a length is negative or larger than T")
    last = torch.arange(h.shape[1], device=h.device) == lengths[:, None] - 1
    return torch.where(last[..., None], h, 0).sum(1)


# %% wrong: multiplies by a mask of zeros and ones
# says: nan in the padding leaked into the result
# 0 · nan is nan, and so is 0 · inf. A product with a mask hides padding only if all of the padding is finite.
def last_step(h, lengths):
    """The sum over time of h times a mask."""
    if ((lengths < 0) | (lengths > h.shape[1])).any():
        raise ValueError("a length is negative or larger than T")
    last = torch.arange(h.shape[1], device=h.device) == lengths[:, None] - 1
    return (h * last[..., None]).sum(1)
