# %% right: asks for each token's rank and gathers
# argsort turns the order into its inverse, the rank of each token, and each token reads the decision at its rank. The
# author's answer writes with the order instead, which saves this second sort.
def nucleus_mask(logits, p):
    """Reads the decision for each token at the token's rank."""
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    wide = torch.promote_types(logits.dtype, torch.float32)
    probs, order = logits.detach().softmax(-1, dtype=wide).sort(dim=-1, descending=True, stable=True)
    keep = probs.cumsum(-1) - probs < p
    return keep.gather(-1, order.argsort(-1))


# %% right: compares each token with every other instead of sorting
# A table of V × V adds up the tokens that are ahead of each token. It states the definition in two lines, but for a
# vocabulary of 50,000 the table has 2.5 billion entries for every row.
def nucleus_mask(logits, p):
    """Keeps a token if the tokens ahead of it have less than p together."""
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    probs = logits.detach().softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
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
    wide = torch.promote_types(logits.dtype, torch.float32)
    probs, order = logits.detach().softmax(-1, dtype=wide).sort(dim=-1, descending=True, stable=True)
    return (probs.cumsum(-1) - probs < p).gather(-1, order)
