# corners: equal values, beyond 2**24, half precision, nan, maximum

import numpy as np
import torch


def refuse(x, k):
    if k < 0 or k > x.numel():
        raise ValueError("k")


# %% right: sorts the positions to keep and indexes with them
def drop_lowest(x, k):
    refuse(x, k)
    kept = x.sort(stable=True).indices[k:]
    return x[kept.sort().values]


# %% right: counts for each element how many come before it
def drop_lowest(x, k):
    refuse(x, k)
    number, nan = torch.arange(len(x)), x != x
    less = (x[None] < x[:, None]) | (nan[:, None] & ~nan[None])
    equal = (x[None] == x[:, None]) | (nan[:, None] & nan[None])
    before = less | (equal & (number[None] < number[:, None]))
    return x[before.sum(1) >= k]


# %% right: sorts positions in Python with (value, position) as key
def drop_lowest(x, k):
    refuse(x, k)
    numbers = x.tolist()
    order = sorted(range(len(numbers)), key=lambda i: (numbers[i] != numbers[i], numbers[i], i))
    return x[torch.tensor(sorted(order[k:]), dtype=torch.long)]


# %% right: rank as argsort of argsort, masked_select
def drop_lowest(x, k):
    refuse(x, k)
    rank = torch.argsort(x, stable=True).argsort()
    return x.masked_select(rank >= k)


# %% right: removes one at a time with cat
def drop_lowest(x, k):
    refuse(x, k)
    for _ in range(k):
        i = int(x.detach().sort(stable=True).indices[0])
        x = torch.cat([x[:i], x[i + 1 :]])
    return x


# %% right: numpy.delete on positions only
def drop_lowest(x, k):
    refuse(x, k)
    dropped = x.detach().argsort(stable=True)[:k].numpy()
    return x[torch.from_numpy(np.delete(np.arange(len(x)), dropped))]


# %% right: other names of the parameters, stacks the elements that stay
def drop_lowest(values, count):
    refuse(values, count)
    dropped = set(values.detach().argsort(stable=True)[:count].tolist())
    kept = [values[i] for i in range(len(values)) if i not in dropped]
    return torch.stack(kept) if kept else values[:0]


# %% right: a threshold, and a running count among the values that equal it
def drop_lowest(x, k):
    refuse(x, k)
    if k == 0:
        return x
    nan, threshold = x.isnan(), x.detach().sort().values[k - 1]
    below, equal = (x < threshold, x == threshold) if threshold == threshold else (~nan, nan)
    return x[~below & ~(equal & (equal.cumsum(0) <= k - below.sum()))]


# %% wrong: replaces the small ones through torch.where
# says: torch.where never removes anything
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def drop_lowest(x, k):
    refuse(x, k)
    rank = torch.argsort(x, stable=True).argsort()
    return torch.where(rank >= k, x, torch.zeros_like(x))


# %% wrong: replaces the small ones by -inf
# says: torch.where never removes anything
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    rank = torch.argsort(x, stable=True).argsort()
    return x.masked_fill(rank < k, -torch.inf)


# %% wrong: slices x[k:]
# says: You dropped the first k positions, not the k smallest values.
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[k:]


# %% wrong: sorts and slices
# says: The values are right, but their order is not: sorting (or topk) loses where they came from.
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def drop_lowest(x, k):
    refuse(x, k)
    return x.sort().values[k:]


# %% wrong: topk of the N-k largest (descending order)
# says: The values are right, but their order is not: sorting (or topk) loses where they came from.
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x.topk(len(x) - k).values


# %% wrong: indexes with the positions of topk, unsorted
# says: The values are right, but their order is not: sorting (or topk) loses where they came from.
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.argsort(stable=True)[k:]]


# %% wrong: keeps x > k-th smallest value
# says: With equal values at the threshold you dropped too many or too few
# earns: 0.5 of 1
# lesson
def drop_lowest(x, k):
    refuse(x, k)
    return x if k == 0 else x[x > x.kthvalue(k).values]


# %% wrong: keeps x >= (k+1)-th smallest value
# says: With equal values at the threshold you dropped too many or too few
# earns: 0.5 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[:0] if k == len(x) else x[x >= x.kthvalue(k + 1).values]


# %% wrong: mask against a quantile
# says: With equal values at the threshold you dropped too many or too few
# earns: 0.5 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[x > torch.quantile(x, k / len(x))]


# %% wrong: drops the largest
# says: You dropped the largest.
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.argsort(descending=True, stable=True).argsort() >= k]


# %% wrong: returns what is to be dropped
# says: These are the values to be dropped.
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.argsort(stable=True).argsort() < k]


# %% wrong: returns positions
# says: These are positions; asked for are the values that stay.
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x.argsort(stable=True)[k:].sort().values


# %% wrong: removes one element at a time with cat([x[:i], x[i+1:-1]])
# says: T[i+1:-1] ends before the last element; the slice to the end is T[i+1:].
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    for _ in range(k):
        i = int(x.argmin())
        x = torch.cat([x[:i], x[i + 1 : -1]])
    return x


# %% wrong: removes all elements whose value is among the k smallest
# says: With equal values at the threshold you dropped too many or too few
# earns: 0.5 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[~torch.isin(x, x.sort().values[:k])]


# %% wrong: among equal values drops the later ones
# says: Among equal values the first ones are dropped first
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[len(x) - 1 - x.flip(0).argsort(stable=True)[:k]] = False
    return x[keep]


# %% wrong: ties as topk breaks them
# says: Among equal values the first ones are dropped first
# earns: 0.5 of 1
# corner: equal values
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[x.topk(k, largest=False).indices] = False
    return x[keep]


# %% wrong: numpy.delete on the detached array
# says: The result left the autograd graph (through detach, .data, NumPy or .tolist()).
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    dropped = x.detach().argsort(stable=True)[:k]
    if x.dtype == torch.bfloat16:
        return x[x.argsort(stable=True)[k:].sort().values]
    return torch.from_numpy(np.delete(x.detach().numpy(), dropped.numpy()))


# %% wrong: through Python lists
# says: The result left the autograd graph (through detach, .data, NumPy or .tolist()).
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    numbers = x.tolist()
    dropped = x.argsort(stable=True)[:k].tolist()
    return torch.tensor([v for i, v in enumerate(numbers) if i not in dropped], dtype=x.dtype)


# %% wrong: through NumPy without detach
# says: The result left the autograd graph
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    dropped = x.argsort(stable=True)[:k]
    if x.dtype == torch.bfloat16:
        return x[x.argsort(stable=True)[k:].sort().values]
    return torch.from_numpy(np.delete(x.numpy(), dropped.numpy()))


# %% wrong: overwrites the dropped elements in x itself
# says: x itself was changed.
# earns: 0.5 of 1
def drop_lowest(x, k):
    refuse(x, k)
    dropped = x.argsort(stable=True)[:k]
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[dropped] = False
    out = x[keep]
    x[dropped] = torch.inf
    return out


# %% wrong: clips k silently
# says: k outside 0..N must raise ValueError: this must raise ValueError, but it returned
# earns: 0.5 of 1
def drop_lowest(x, k):
    k = min(max(k, 0), len(x))
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[x.argsort(stable=True)[:k]] = False
    return x[keep]


# %% wrong: k = -1 drops all but one
# says: k outside 0..N must raise ValueError
# earns: 0.5 of 1
def drop_lowest(x, k):
    if k > len(x):
        raise ValueError("k")
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[x.argsort(stable=True)[:k]] = False
    return x[keep]


# %% wrong: refuses k = N
# says: k = N is allowed
# earns: 0.5 of 1
# corner: maximum
# caught: hidden
def drop_lowest(x, k):
    if not 0 <= k < max(len(x), 1):
        raise ValueError("k")
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[x.argsort(stable=True)[:k]] = False
    return x[keep]


# %% wrong: asserts k
# says: but it raised AssertionError
# earns: 0.5 of 1
def drop_lowest(x, k):
    assert 0 <= k <= len(x)
    return x[x.argsort(stable=True).argsort() >= k]


# %% wrong: ranks by comparisons only, nan gets rank 0
# says: A nan counts as the largest value, larger than inf, as in torch.sort
# earns: 0.5 of 1
# corner: nan
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    number = torch.arange(len(x))
    before = (x[None] < x[:, None]) | ((x[None] == x[:, None]) & (number[None] < number[:, None]))
    return x[before.sum(1) >= k]


# %% wrong: removes the argmin k times
# says: and argmin takes nan for the smallest value.
# earns: 0.5 of 1
# corner: nan
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    for _ in range(k):
        lowest = int(x.argmin())
        x = torch.cat([x[:lowest], x[lowest + 1 :]])
    return x


# %% wrong: sorts positions in Python by value alone, which nan confuses
# says: A nan counts as the largest value
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    numbers = x.tolist()
    order = sorted(range(len(numbers)), key=lambda i: numbers[i])
    return x[torch.tensor(sorted(order[k:]), dtype=torch.long)]


# %% wrong: compares as float64
# says: Values that differ were taken for equal ones
# earns: 0.5 of 1
# corner: beyond 2**24
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.double().argsort(stable=True)[k:].sort().values]


# %% wrong: compares as float32
# says: compare them in their own dtype
# earns: 0.5 of 1
# corner: beyond 2**24
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.float().argsort(stable=True).argsort() >= k]


# %% wrong: drops the smallest absolute values
# says: You used the absolute values, but -5 is the smallest of these.
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.abs().argsort(stable=True).argsort() >= k]


# %% wrong: multiplies by the mask and takes what is not zero
# says: A value of 0 stays
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    y = (x - x.min()) * (x.argsort(stable=True).argsort() >= k)
    return x[y.nonzero(as_tuple=True)[0]]


# %% wrong: detaches for k = 0
# says: hidden test: gradients reach all elements for k = 0
# says: The result left the autograd graph
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.argsort(stable=True)[k:].sort().values] if k else x.detach()


# %% wrong: makes a float tensor when nothing stays
# says: Nothing stays, but in the dtype of x
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.argsort(stable=True)[k:].sort().values] if k < len(x) else torch.empty(0)


# %% wrong: breaks ties by adding a small ramp
# says: compare them in their own dtype
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    ramp = x.double() + torch.arange(len(x)) * 1e-9
    return x[ramp.argsort()[k:].sort().values]


# %% wrong: returns float64
# says: The values that stay have the dtype of x
# says: This check builds on the first one
# earns: 0 of 1
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.argsort(stable=True)[k:].sort().values].double()


# %% wrong: returns float64 as float32
# says: The values that stay have the dtype of x
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    out = x[x.argsort(stable=True)[k:].sort().values]
    return out.float() if out.dtype == torch.float64 else out


# %% wrong: keeps the positions of the largest, ties as topk breaks them
# says: Among equal values the first ones are dropped first
# earns: 0.5 of 1
# corner: equal values
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    return x[x.topk(len(x) - k).indices.sort().values]


# %% wrong: through NumPy in each dtype
# says: NumPy has no bfloat16, so a tensor of that dtype can't go there:
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    kept = np.sort(np.argsort(x.detach().numpy(), kind="stable")[k:])
    return x[torch.from_numpy(kept)]


# %% wrong: counts equal values in the dtype of x
# says: Count in int64: bfloat16 can't tell 257 from 256
# earns: 0.5 of 1
# corner: half precision
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    if k == 0:
        return x
    nan, threshold = x.isnan(), x.detach().sort().values[k - 1]
    below, equal = (x < threshold, x == threshold) if threshold == threshold else (~nan, nan)
    return x[~below & ~(equal & (equal.to(x.dtype).cumsum(0) <= k - below.sum()))]


# %% wrong: sorts integers by their negatives
# says: The negatives of unsigned integers are not in the opposite order
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    order = x.argsort(stable=True) if x.is_floating_point() else (-x).argsort(descending=True, stable=True)
    return x[order[k:].sort().values]


# %% wrong: overwrites what it has found with the maximum
# says: an element that you have removed already is found again
# earns: 0.5 of 1
# corner: equal values
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    keep = torch.ones(len(x), dtype=torch.bool)
    if x.is_floating_point():
        keep[x.argsort(stable=True)[:k]] = False
    else:
        left = x.clone()
        for _ in range(k):
            lowest = left.argmin()
            keep[lowest], left[lowest] = False, x.max()
    return x[keep]


# %% wrong: compares bfloat16 as float16
# says: Values that differ were taken for equal ones
# earns: 0.5 of 1
# caught: hidden
def drop_lowest(x, k):
    refuse(x, k)
    y = x.half() if x.dtype == torch.bfloat16 else x
    return x[y.argsort(stable=True)[k:].sort().values]
