# %% right: the lowest finite number, and zeros afterwards
# softmax never gets a row of -inf, so no nan arises, and the second `masked_fill` makes the weights of hidden keys
# exactly 0. For backward, the weights are kept twice, before and after it; the author's answer keeps them once.
def causal_attention(q, k, v, valid):
    """Attention whose hidden weights are blanked after the softmax."""
    T, D = q.shape[-2:]
    padded = ~valid[:, None, :, None]
    k, v = k.masked_fill(padded, 0.0), v.masked_fill(padded, 0.0)
    hidden = ~torch.ones(T, T, dtype=torch.bool, device=q.device).tril() | ~valid[:, None, None, :]
    scores = (q @ k.transpose(-2, -1) / D**0.5).masked_fill(hidden, torch.finfo(q.dtype).min)
    return scores.softmax(-1).masked_fill(hidden, 0.0) @ v


# %% right: -inf, and nan_to_num on the weights
# A query without keys gets weights of nan, which become 0, and in backward `masked_fill` stops their gradient. The
# weights are kept twice for backward. Autograd's anomaly mode raises on the way, and for a nan in q the result is a row
# of zeros, where the author's is nan.
def causal_attention(q, k, v, valid):
    """Attention whose empty rows are repaired after the softmax."""
    T, D = q.shape[-2:]
    padded = ~valid[:, None, :, None]
    k, v = k.masked_fill(padded, 0.0), v.masked_fill(padded, 0.0)
    keys = torch.ones(T, T, dtype=torch.bool, device=q.device).tril() & valid[:, None, None, :]
    scores = (q @ k.transpose(-2, -1) / D**0.5).masked_fill(~keys, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


# %% wrong: a large negative number instead of -inf
# says: A query without any key must return zeros.
# There is no nan, and queries with a key are right. But for a query without keys all scores are equal again.
def causal_attention(q, k, v, valid):
    """Attention in which a query without keys sees all of them."""
    T, D = q.shape[-2:]
    padded = ~valid[:, None, :, None]
    k, v = k.masked_fill(padded, 0.0), v.masked_fill(padded, 0.0)
    keys = torch.ones(T, T, dtype=torch.bool, device=q.device).tril() & valid[:, None, None, :]
    scores = (q @ k.transpose(-2, -1) / D**0.5).masked_fill(~keys, -1e9)
    return scores.softmax(-1) @ v
