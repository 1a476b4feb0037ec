# %% right: scaled_dot_product_attention
# The bias is its mask. x is divided by the root of T beforehand, because `scale=1 / math.sqrt(T)` would make T a
# constant of the graph. It saves no memory here: two tables of T × T are kept for backward, as by the author's answer.
def attend(x):
    """x (T, D) -> (T, D): causal attention of x to itself, with a penalty for distance."""
    T = x.shape[0]
    place = torch.arange(T)
    distance = place[:, None] - place
    bias = torch.where(distance < 0, -math.inf, -0.5 * distance).to(x.dtype)
    queries, keys = (x / math.sqrt(T))[None], x[None]
    return F.scaled_dot_product_attention(queries, keys, keys, attn_mask=bias, scale=1.0)[0]


# %% wrong: builds a nested list
# says: There is a graph for each length: something made a constant of T.
# The loops are over Python numbers, so they run while the function is compiled, and the list is a constant for one T.
def attend(x):
    """Causal attention for the length that it was compiled with."""
    T = x.shape[0]
    rows = [[-0.5 * (i - j) if j <= i else -math.inf for j in range(T)] for i in range(T)]
    scores = x @ x.t() / math.sqrt(T) + torch.tensor(rows)
    return scores.softmax(-1) @ x
