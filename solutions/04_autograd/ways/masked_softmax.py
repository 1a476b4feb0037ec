# %% right: an extra column for empty rows
# In an empty row the extra column takes the whole weight of 1, and is then cut off. Every row has an entry to choose,
# so no nan arises. `cat` copies the scores once more.
def masked_softmax(scores, mask):
    """A softmax with one more entry, which only empty rows use."""
    kept = torch.where(mask, scores, -torch.inf)
    is_empty = ~mask.expand(scores.shape).any(-1, keepdim=True)
    sink = torch.where(is_empty, 0.0, -torch.inf).to(scores.dtype)
    return torch.cat([kept, sink], -1).softmax(-1)[..., :-1]


# %% right: -inf by masked_fill, which blanks the gradient too
# In an empty row softmax returns nan, and so does its backward. `where` replaces the first, and the backward of
# masked_fill replaces the second with zeros. Autograd's anomaly mode raises on the way.
def masked_softmax(scores, mask):
    """Softmax over -inf, with the masked places blanked."""
    p = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return torch.where(mask, p, 0.0)


# %% wrong: adds a bias of -inf
# says: The output is right, the gradient is nan
# Addition passes every gradient on, so the nan of an empty row reaches the gradient of the scores.
def masked_softmax(scores, mask):
    """Right values, and a gradient of nan."""
    bias = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    p = (scores + bias).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), p, 0.0)
