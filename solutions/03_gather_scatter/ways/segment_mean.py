# %% right: index_reduce does it in one call
# `include_self=False` leaves out the zeros that the output starts with, and a segment without rows keeps them. It
# runs in float32, because for half precision values of one dimension index_reduce would also count the rows in half
# precision. PyTorch warns that the function is in beta.
def segment_mean(values, segment, num_segments):
    """The mean of the rows of each segment."""
    wide = torch.promote_types(values.dtype, torch.float32)
    zeros = values.new_zeros(num_segments, *values.shape[1:], dtype=wide)
    means = zeros.index_reduce(0, segment, values.to(wide), "mean", include_self=False)
    return means.to(values.dtype)


# %% right: divides each row by the size of its segment, then adds
# Each share is the value divided by the number of rows, so ten rows of 1e38 have a mean, where the author's sum
# overflows. The shares are a second tensor as large as the values, and they are added in the dtype of the values: in
# bfloat16 the mean of 1,000 ones is 0.5.
def segment_mean(values, segment, num_segments):
    """The sum of each row's share in the mean of its segment."""
    sizes = segment.new_zeros(num_segments).index_add(0, segment, torch.ones_like(segment))
    share = values / sizes[segment].reshape(-1, *[1] * (values.dim() - 1))
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, share)


# %% wrong: scatter_reduce('mean') with its default
# says: The zeros you started from were averaged in
# By default `include_self` is True, so the zero that the output starts with counts as one more row of each segment.
def segment_mean(values, segment, num_segments):
    """Takes the zeros for a row of each segment."""
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    index = segment.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return zeros.scatter_reduce(0, index, values, "mean")
