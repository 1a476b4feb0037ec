# %% right: vector_norm
# At 0, PyTorch's norm takes 0 for its derivative. Like the author's answer, this computes the differences of all
# pairs, N · N · D numbers.
def pairwise_distance(x):
    """The norms of all differences."""
    return torch.linalg.vector_norm(x[:, None] - x[None, :], dim=-1)


# %% right: masked_fill before and after the root
# These are the two selections of the author's answer: before the root the zeros become 1, and after it they become 0
# again.
def pairwise_distance(x):
    """The roots of all sums that are not 0."""
    squares = (x[:, None] - x).square().sum(-1)
    zero = squares == 0
    return squares.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


# %% wrong: selects after the root
# says: Selecting or replacing after the root can't undo it; the zeros must not reach it.
# The value that isn't selected gets the gradient 0, and 0 times infinity is nan.
def pairwise_distance(x):
    """Right values, and a gradient of nan."""
    squares = (x[:, None] - x).square().sum(-1)
    return torch.where(squares > 0, squares.sqrt(), 0.0)
