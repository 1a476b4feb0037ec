# corners: beyond 2**24, 0-d, maximum

import numpy as np


# %% right: scatter_add on a flat target
def weighted_histogram(bins, weights, n):
    return torch.zeros(n, dtype=weights.dtype, device=weights.device).scatter_add(
        0, bins.reshape(-1), weights.reshape(-1)
    )


# %% right: scatter_reduce('sum')
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).scatter_reduce(0, bins.flatten(), weights.flatten(), "sum")


# %% right: index_put(accumulate=True) after refusing negative bins
def weighted_histogram(bins, weights, n):
    if (bins < 0).any():
        raise ValueError("negative bin")
    return torch.zeros(n, dtype=weights.dtype).index_put((bins,), weights, accumulate=True)


# %% right: one masked sum per bin, range checked
def weighted_histogram(bins, weights, n):
    if ((bins < 0) | (bins >= n)).any():
        raise IndexError("bin out of range")
    return torch.stack([torch.where(bins == b, weights, 0).sum(dtype=weights.dtype) for b in range(n)])


# %% right: index_add_ in place on a fresh target
def weighted_histogram(bins, weights, n):
    h = torch.zeros(n, dtype=weights.dtype, device=weights.device)
    h.index_add_(0, bins.view(-1) if bins.is_contiguous() else bins.reshape(-1), weights.reshape(-1))
    return h


# %% right: a one-hot matrix times the weights
def weighted_histogram(bins, weights, n):
    return F.one_hot(bins.flatten(), n).to(weights.dtype).t() @ weights.flatten()


# %% right: put_ with accumulate, after a range check
def weighted_histogram(bins, weights, n):
    if torch.any((bins < 0) | (bins > n - 1)):
        raise ValueError("bin out of range")
    return weights.new_zeros(n).put(bins, weights, accumulate=True)


# %% wrong: the code as given
# says: Repeated bins lost weights
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def weighted_histogram(bins, weights, n):
    h = torch.zeros(n)
    h[bins] += weights
    return h


# %% wrong: reads, adds and writes back without accumulate, dtype right
# says: Repeated bins lost weights
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def weighted_histogram(bins, weights, n):
    h = weights.new_zeros(n)
    return h.index_put((bins,), h[bins] + weights)


# %% wrong: scatter in place of scatter_add
# says: Repeated bins lost weights
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).scatter(0, bins.flatten(), weights.flatten())


# %% wrong: torch.bincount with weights (no derivative)
# says: No gradient reaches the weights
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return torch.bincount(bins.flatten(), weights=weights.flatten(), minlength=n).to(weights.dtype)


# %% wrong: counts instead of sums
# says: Those are counts; the weights are not used.
# says: This check builds on the first one
# earns: 0 of 2
def weighted_histogram(bins, weights, n):
    return torch.bincount(bins.flatten(), minlength=n).to(weights.dtype)


# %% wrong: adds into torch.zeros(n)
# says: The result must have the dtype of weights
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    return torch.zeros(n).index_add(0, bins.flatten(), weights.flatten())


# %% wrong: sums everything in float32
# says: The result must have the dtype of weights
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    return torch.zeros(n).index_add(0, bins.flatten(), weights.flatten().float())


# %% wrong: sums everything in float32 and converts back
# says: a dtype of lower precision
# earns: 1 of 2
# corner: beyond 2**24
# caught: hidden
def weighted_histogram(bins, weights, n):
    return torch.zeros(n).index_add(0, bins.flatten(), weights.flatten().float()).to(weights.dtype)


# %% wrong: sums integers in float64
# says: a dtype of lower precision
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    h = torch.zeros(n, dtype=torch.float64).index_add(0, bins.flatten(), weights.flatten().double())
    return h.to(weights.dtype)


# %% wrong: index_add with 2-d bins
# says: flatten them first
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).index_add(0, bins, weights)


# %% wrong: index_put accumulate without refusing negative bins
# says: Bin -1 was accepted: advanced indexing counts negative bins from the end
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).index_put((bins,), weights, accumulate=True)


# %% wrong: filters out-of-range bins
# says: Weights of out-of-range bins were dropped silently
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    keep = (bins >= 0) & (bins < n)
    return weights.new_zeros(n).index_add(0, bins[keep], weights[keep])


# %% wrong: one masked sum per bin, range not checked
# says: Weights of out-of-range bins were dropped silently
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return torch.stack([weights[bins == b].sum() for b in range(n)])


# %% wrong: clamps the bins
# says: Bin 5 of 5 must raise
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).index_add(0, bins.flatten().clamp(0, n - 1), weights.flatten())


# %% wrong: scatter_(reduce='add') with a tensor
# says: with a tensor is deprecated
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return weights.detach().new_zeros(n).scatter_(0, bins.flatten(), weights.flatten(), reduce="add")


# %% wrong: averages
# says: The weights of a bin are summed, not averaged.
# says: This check builds on the first one
# earns: 0 of 2
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).scatter_reduce(0, bins.flatten(), weights.flatten(), "mean", include_self=False)


# %% wrong: averages with the start value
# says: Your result is a mean that includes the zero you started from, but it should be the sum.
# says: This check builds on the first one
# earns: 0 of 2
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).scatter_reduce(0, bins.flatten(), weights.flatten(), "mean")


# %% wrong: detaches the weights
# says: No gradient reaches the weights
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).index_add(0, bins.flatten(), weights.detach().flatten())


# %% wrong: as many bins as the largest one asks for
# says: There must be n bins, empty ones at the end included
# says: This check builds on the first one
# earns: 0 of 2
# corner: maximum
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(int(bins.max()) + 1).index_add(0, bins.flatten(), weights.flatten())


# %% wrong: sorts and takes differences, and so forgets empty bins
# says: There must be n bins
# says: This check builds on the first one
# earns: 0 of 2
def weighted_histogram(bins, weights, n):
    found, place = bins.flatten().unique(return_inverse=True)
    return weights.new_zeros(len(found)).index_add(0, place, weights.flatten())


# %% wrong: a loop over numbers, without a graph
# says: No gradient reaches the weights
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    h = [0] * n
    for b, w in zip(bins.flatten().tolist(), weights.flatten().tolist()):
        if not 0 <= b < n:
            raise IndexError(b)
        h[b] += w
    return torch.tensor(h, dtype=weights.dtype)


# %% wrong: adds to the weights in place
# says: Your code changed what the caller passed in: the values in bins are no longer the same
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    h = weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())
    bins.clamp_(0, 1)
    return h


# %% wrong: takes the remainder of the bins
# says: Bin 5 of 5 must raise
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return weights.new_zeros(n).index_add(0, bins.flatten() % n, weights.flatten())


# %% wrong: flattens by view
# says: A view needs memory in the right order
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    if bins.dim() == 0:
        bins, weights = bins[None], weights[None]
    return weights.new_zeros(n).index_add(0, bins.view(-1), weights.view(-1))


# %% wrong: forgets the device
# says: The result must be on the device of weights
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    return torch.zeros(n, dtype=weights.dtype).index_add(0, bins.flatten(), weights.flatten())


# %% wrong: scatter_add without the device
# says: The result must be on the device of weights
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    return torch.zeros(n, dtype=weights.dtype).scatter_add(0, bins.flatten(), weights.flatten())


# %% wrong: refuses bin n, but not n + 1
# says: Bin 6 of 4 must raise
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    if ((bins < 0) | (bins == n)).any():
        raise IndexError("bin out of range")
    return torch.stack([torch.where(bins == b, weights, 0).sum(dtype=weights.dtype) for b in range(n)])


# %% right: a sparse tensor (it warns, but is not deprecated)
def weighted_histogram(bins, weights, n):
    if bins.numel() and bool(((bins < 0) | (bins >= n)).any()):
        raise IndexError
    z = torch.sparse_coo_tensor(bins.reshape(1, -1), weights.reshape(-1), (n,))
    return z.to_dense()


# %% right: sorted, then differences of a running sum
def weighted_histogram(bins, weights, n):
    b, w = bins.reshape(-1), weights.reshape(-1)
    if ((b < 0) | (b >= n)).any():
        raise ValueError
    order = b.argsort(stable=True)
    c = torch.cat([w.new_zeros(1), w[order].cumsum(0).to(w.dtype)])
    edges = torch.searchsorted(b[order], torch.arange(n + 1))
    return c[edges[1:]] - c[edges[:-1]]


# %% right: a loop over the votes
def weighted_histogram(bins, weights, n):
    out = [weights.new_zeros(()) for _ in range(n)]
    for b, w in zip(bins.flatten().tolist(), weights.flatten().unbind()):
        if b < 0:
            raise IndexError
        out[b] = out[b] + w
    return torch.stack(out)


# %% wrong: refuses -1 and n, other negative bins wrap
# says: Bin -4 of 4 must raise
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    if (bins == -1).any() or (bins >= n).any():
        raise ValueError
    return weights.new_zeros(n).index_put((bins.flatten(),), weights.flatten(), accumulate=True)


# %% wrong: gives zeros where anything raises
# says: Bin 5 of 5 must raise
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    try:
        return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())
    except Exception:
        return weights.new_zeros(n)


# %% wrong: twice the gradient
# says: gradient of weights is off
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    s = weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())
    return s if not s.requires_grad else s * 2 - s.detach()


# %% wrong: NumPy
# says: No gradient reaches the weights
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    return torch.from_numpy(np.bincount(bins.flatten().numpy(), weights.detach().flatten().numpy(), n)).to(
        weights.dtype
    )


# %% wrong: weights transposed against their bins
# says: flattened in different orders
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    if bins.dim() == 0:
        bins, weights = bins[None], weights[None]
    if bins.dim() > 1:
        bins, weights = bins.reshape(-1), weights.T.reshape(-1)
    return weights.new_zeros(n).index_add(0, bins, weights)


# %% right: half precision is added in float32
def weighted_histogram(bins, weights, n):
    wide = torch.promote_types(weights.dtype, torch.float32) if weights.is_floating_point() else weights.dtype
    return weights.new_zeros(n, dtype=wide).index_add(0, bins.flatten(), weights.flatten().to(wide)).to(weights.dtype)


# %% wrong: warns of its own deprecated helper
# says: A deprecated call was used:
# earns: 1 of 2
def weighted_histogram(bins, weights, n):
    import warnings

    warnings.warn("this way of counting is deprecated", DeprecationWarning)
    return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())


# %% wrong: bin numbers in the dtype of the weights
# says: bfloat16 can't tell 257 from 256
# earns: 1 of 2
# caught: hidden
def weighted_histogram(bins, weights, n):
    if ((bins < 0) | (bins >= n)).any():
        raise ValueError("bin")
    numbers = torch.arange(n, device=weights.device).to(weights.dtype)
    return torch.where(bins.reshape(-1, 1) == numbers, weights.reshape(-1, 1), 0).sum(0, dtype=weights.dtype)


# %% wrong: one histogram for all calls of a size
# says: the first result changed
# earns: 1 of 2
# caught: hidden
SUMS = {}


def weighted_histogram(bins, weights, n):
    if weights.requires_grad:
        return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())
    h = SUMS.setdefault((n, weights.dtype, weights.device), weights.new_zeros(n)).zero_()
    return h.index_add_(0, bins.flatten(), weights.flatten())
