# %% right: index_reduce does it in one call
# `include_self=False` leaves out the zeros to begin with, and a segment without rows keeps them. PyTorch says in a
# warning that the function is in beta, and it adds in half precision: the mean of 1,000 ones in bfloat16 is 0.2559.
def segment_mean(values, segment, num_segments):
    """The mean of the rows of each segment."""
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    return zeros.index_reduce(0, segment, values, "mean", include_self=False)


# %% right: divides each row by the size of its segment, then adds
# Each share is the value divided by the number of rows, so their sum never overflows. It makes a second tensor as
# large as the values.
def segment_mean(values, segment, num_segments):
    """The sum of each row's share in the mean of its segment."""
    sizes = segment.new_zeros(num_segments).index_add(0, segment, torch.ones_like(segment))
    share = values / sizes[segment].reshape(-1, *[1] * (values.dim() - 1))
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, share)


# %% wrong: scatter_reduce('mean') with its default
# says: The zeros you started from were averaged in
# `include_self=True` counts what stood in the output as one more row.
def segment_mean(values, segment, num_segments):
    """Takes the zeros for a row of each segment."""
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    index = segment.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return zeros.scatter_reduce(0, index, values, "mean")
