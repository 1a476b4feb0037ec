# %% right: asks for each token's rank and gathers
# The argsort of an order is its inverse: reading with it does what writing with the order does, for one more sort.
def nucleus_mask(logits, p):
    """Reads the decision for each token at the token's rank."""
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    keep = probs.cumsum(-1) - probs < p
    return keep.gather(-1, order.argsort(-1))


# %% right: no sort, but a comparison of each token with each other
# The total of all tokens ahead of this one, by a table of V × V. That is too much for a vocabulary of 50,000, and it
# says the definition in two lines.
def nucleus_mask(logits, p):
    """Keeps a token if the tokens ahead of it have less than p together."""
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    probs = logits.detach().softmax(-1)
    mine, other = probs[..., :, None], probs[..., None, :]
    place = torch.arange(logits.shape[-1], device=logits.device)
    ahead = (other > mine) | ((other == mine) & (place < place[:, None]))
    return (other * ahead).sum(-1) < p


# %% wrong: gathers with the sort order
# says: You read with the sort order (gather) where you had to write with it (scatter)
# An order and its inverse are equal only for some rows, such as a row that is sorted already.
def nucleus_mask(logits, p):
    """Reads where it has to write."""
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return (probs.cumsum(-1) - probs < p).gather(-1, order)
