# corners: 0-d, empty

import itertools

import torch


# %% right: Python loops with += 1
def count_writers(index, dim, shape):
    count = torch.zeros(shape, dtype=torch.int64)
    for position in itertools.product(*map(range, index.shape)):
        cell = list(position)
        value = int(index[position])
        if dim < 0 and index.dim():
            d = dim + index.dim()
        else:
            d = dim
        if cell:
            if not 0 <= value < shape[d]:
                raise IndexError(value)
            cell[d] = value
        count[tuple(cell)] += 1
    return count


# %% right: the scalar form of scatter_ with reduce='add'
def count_writers(index, dim, shape):
    return torch.zeros(shape, dtype=torch.int64).scatter_(dim, index.long(), 1, reduce="add")


# %% wrong: scatter_ in place of an adding scatter
# says: Duplicates overwrote each other
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def count_writers(index, dim, shape):
    index = index.long()
    return torch.zeros(shape, dtype=torch.int64).scatter_(dim, index, torch.ones_like(index))


# %% wrong: bincount over all lanes
# says: All lanes were counted together
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def count_writers(index, dim, shape):
    return torch.bincount(index.flatten(), minlength=shape[dim])


# %% wrong: starts from torch.ones
# says: The cells without a writer must be 0.
# says: This check builds on the first one
# earns: 0 of 2
def count_writers(index, dim, shape):
    index = index.long()
    return torch.ones(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))


# %% wrong: counts along the other dimension
# says: The counts belong to another dim
# says: This check builds on the first one
# earns: 0 of 2
def count_writers(index, dim, shape):
    index = index.long()
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(1 - dim, index, torch.ones_like(index))


# %% wrong: result shaped like index
# says: The result must have the shape of the target, not of index
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def count_writers(index, dim, shape):
    index = index.long()
    if dim == 1:
        return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))
    return torch.ones_like(index)


# %% wrong: float counts
# says: Counts are int64
# says: This check builds on the first one
# earns: 0 of 2
def count_writers(index, dim, shape):
    index = index.long()
    return torch.zeros(shape).scatter_add_(dim, index, torch.ones(index.shape))


# %% wrong: takes the remainder of the index
# says: is outside the target and must raise (so must negative values).
# earns: 1 of 2
def count_writers(index, dim, shape):
    index = index.long() % shape[dim] if shape else index.long()
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))


# %% wrong: broadcasts index over the other dimensions
# says: Index covers only a corner of the target
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    if index.dim() == 2 and index.shape[0] == 1 and dim == 1 and shape[0] > 1:
        index = index.expand(shape[0], -1)
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))


# %% right: index_put_(accumulate=True) with index grids
def count_writers(index, dim, shape):
    index = index.long()
    if index.dim() == 0:
        return torch.ones(shape, dtype=torch.int64)
    if ((index < 0) | (index >= shape[dim])).any():
        raise IndexError("outside the target")
    grids = list(torch.meshgrid(*[torch.arange(size) for size in index.shape], indexing="ij"))
    grids[dim] = index
    count = torch.zeros(shape, dtype=torch.int64)
    return count.index_put_(tuple(grids), torch.ones_like(index), accumulate=True)


# %% right: compares index with all positions and sums, placed in the corner
def count_writers(index, dim, shape):
    if index.dim() == 0:
        return torch.tensor(1)
    if ((index < 0) | (index >= shape[dim])).any():
        raise ValueError("outside the target")
    lanes = index.movedim(dim, -1)
    counts = (lanes[..., None] == torch.arange(shape[dim])).sum(-2).movedim(-1, dim)
    result = torch.zeros(shape, dtype=torch.int64)
    result[tuple(slice(size) for size in counts.shape)] = counts
    return result


# %% right: scatter_reduce_ onto zeros
def count_writers(index, dim, shape):
    index = index.to(torch.int64)
    ones = torch.ones(index.shape, dtype=torch.int64)
    return torch.zeros(tuple(shape), dtype=torch.int64).scatter_reduce_(dim, index, ones, "sum")


# %% wrong: scatter_reduce_('sum') onto ones (include_self)
# says: The cells without a writer must be 0.
# says: This check builds on the first one
# earns: 0 of 2
def count_writers(index, dim, shape):
    ones = torch.ones(shape, dtype=torch.int64)
    return ones.scatter_reduce_(dim, index.long(), torch.ones_like(index).long(), "sum")


# %% wrong: a src of the target's shape, too small for a long index
# says: The src of a scatter must be at least as large as index
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    ones = torch.ones(shape, dtype=torch.int64)
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index.long(), ones)


# %% wrong: int32 counts
# says: Counts are int64
# says: This check builds on the first one
# earns: 0 of 2
def count_writers(index, dim, shape):
    return torch.zeros(shape, dtype=torch.int32).scatter_add_(
        dim, index.long(), torch.ones_like(index, dtype=torch.int32)
    )


# %% wrong: the dtype of the counts is that of index
# says: Counts are int64
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    return torch.zeros(shape, dtype=index.dtype).scatter_add_(dim, index.long(), torch.ones_like(index))


# %% wrong: drops what lies outside
# says: is outside the target and must raise (so must negative values).
# earns: 1 of 2
def count_writers(index, dim, shape):
    index = index.long()
    inside = (index >= 0) & (index < shape[dim]) if shape else torch.ones_like(index)
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(
        dim, index.clamp(0, (shape or (1,))[dim] - 1), inside.long()
    )


# %% wrong: counts from the end for negative values
# says: Value -1 is outside the target
# earns: 1 of 2
def count_writers(index, dim, shape):
    index = index.long()
    index = torch.where(index < 0, index + (shape or (1,))[dim], index)
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))


# %% wrong: writes the wrapped values into index
# says: Your code changed what the caller passed in: the values in index are no longer the same
# earns: 1 of 2
def count_writers(index, dim, shape):
    result = torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index.long(), torch.ones_like(index).long())
    index.fill_(0)
    return result


# %% wrong: whether any cell has a writer
# says: Duplicates overwrote each other
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def count_writers(index, dim, shape):
    return torch.zeros(shape, dtype=torch.int64).scatter_(dim, index.long(), 1)


# %% wrong: fails for a 0-d index
# says: Index may have any number of dimensions
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < shape[dim]:
        raise ValueError("outside")
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))


# %% wrong: two dimensions only
# says: Index may have any number of dimensions
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    count = torch.zeros(shape, dtype=torch.int64)
    for i in range(index.shape[0]):
        for j in range(index.shape[1]):
            value = int(index[i, j])
            if not 0 <= value < shape[dim]:
                raise IndexError(value)
            if dim % 2 == 0:
                count[value, j] += 1
            else:
                count[i, value] += 1
    return count


# %% right: the gradient of gather
def count_writers(index, dim, shape):
    x = torch.zeros(shape, requires_grad=True)
    return torch.autograd.grad(x.gather(dim, index.long()).sum(), x)[0].long()


# %% right: bincount on a flattened target, range checked
def count_writers(index, dim, shape):
    index = index.long()
    size = shape[dim] if len(shape) else 1
    if index.numel() and (index.min() < 0 or index.max() >= size):
        raise ValueError("index")
    if index.dim() == 0:
        return torch.ones((), dtype=torch.int64)
    grids = list(torch.meshgrid(*[torch.arange(n) for n in index.shape], indexing="ij"))
    grids[dim] = index
    flat = torch.zeros_like(index)
    for g, n in zip(grids, shape):
        flat = flat * n + g
    total = 1
    for n in shape:
        total *= n
    return torch.bincount(flat.reshape(-1), minlength=total).reshape(shape)


# %% right: a sparse tensor
def count_writers(index, dim, shape):
    index = index.to(torch.int64)
    if index.dim() == 0:
        if index.item() != 0:
            raise IndexError
        return torch.tensor(1)
    if ((index < 0) | (index >= shape[dim])).any():
        raise IndexError
    places = [g.reshape(-1) for g in torch.meshgrid(*[torch.arange(n) for n in index.shape], indexing="ij")]
    places[dim] = index.reshape(-1)
    ones = torch.ones(index.numel(), dtype=torch.int64)
    return torch.sparse_coo_tensor(torch.stack(places), ones, tuple(shape)).to_dense()


# %% wrong: bincount on a flattened target, only large values refused
# says: Value -1 is outside the target
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    size = shape[dim] if len(shape) else 1
    if index.numel() and index.max() >= size:
        raise ValueError("index")
    if index.dim() == 0:
        return torch.ones((), dtype=torch.int64)
    grids = list(torch.meshgrid(*[torch.arange(n) for n in index.shape], indexing="ij"))
    grids[dim] = index
    flat = torch.zeros_like(index)
    for g, n in zip(grids, shape):
        flat = flat * n + g
    total = 1
    for n in shape:
        total *= n
    return torch.bincount(flat.reshape(-1), minlength=total).reshape(shape)


# %% wrong: bincount on a flattened target, range not checked
# says: is outside the target and must raise (so must negative values).
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    if index.dim() == 0:
        return torch.ones((), dtype=torch.int64)
    grids = list(torch.meshgrid(*[torch.arange(n) for n in index.shape], indexing="ij"))
    grids[dim] = index
    flat = torch.zeros_like(index)
    for g, n in zip(grids, shape):
        flat = flat * n + g
    total = 1
    for n in shape:
        total *= n
    return (
        torch.zeros(total, dtype=torch.int64)
        .index_add(0, flat.reshape(-1), torch.ones(flat.numel(), dtype=torch.int64))
        .reshape(shape)
    )


# %% wrong: counts in uint8, converted back
# says: A small dtype cannot hold a large count
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    return (
        torch.zeros(shape, dtype=torch.uint8)
        .scatter_add_(dim, index.long(), torch.ones(index.shape, dtype=torch.uint8))
        .long()
    )


# %% wrong: one target for every shape, never emptied
# says: is still in the target: start from a new one
# earns: 1 of 2
_T = {}


def count_writers(index, dim, shape):
    t = _T.setdefault(tuple(shape), torch.zeros(shape, dtype=torch.int64))
    return t.scatter_add_(dim, index.long(), torch.ones_like(index.long()))


# %% wrong: asks an empty index for its smallest value
# says: An empty index is legal, and nobody writes
# earns: 1 of 2
# corner: empty
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    if index.min() < 0:
        raise ValueError("outside")
    return torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, torch.ones_like(index))


# %% wrong: bincount over all lanes, given to each of them
# says: All lanes were counted together
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def count_writers(index, dim, shape):
    count = torch.bincount(index.flatten(), minlength=shape[dim])
    sizes = [1] * len(shape)
    sizes[dim] = -1
    return count.reshape(sizes).expand(shape).clone()


# %% wrong: bincount of the index on the flattened target
# says: You counted the entries of index as positions in the flattened target
# says: This check builds on the first one
# earns: 0 of 2
def count_writers(index, dim, shape):
    cells = math.prod(shape)
    return torch.bincount(index.flatten(), minlength=cells)[:cells].reshape(shape)


# %% wrong: reads, adds one and writes back
# says: Duplicates overwrote each other
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def count_writers(index, dim, shape):
    count = index.new_zeros(shape)
    return count.scatter_(dim, index, count.gather(dim, index) + 1)


# %% wrong: counts in bfloat16, converted back
# says: A small dtype cannot hold a large count
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    ones = torch.ones(index.shape, dtype=torch.bfloat16)
    return torch.zeros(shape, dtype=torch.bfloat16).scatter_add_(dim, index, ones).long()


# %% wrong: counts in float16, converted back
# says: A small dtype cannot hold a large count
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    ones = torch.ones(index.shape, dtype=torch.float16)
    return torch.zeros(shape, dtype=torch.float16).scatter_add_(dim, index, ones).long()


# %% wrong: counts in int16, converted back
# says: A small dtype cannot hold a large count
# earns: 1 of 2
# caught: hidden
def count_writers(index, dim, shape):
    index = index.long()
    ones = torch.ones(index.shape, dtype=torch.int16)
    return torch.zeros(shape, dtype=torch.int16).scatter_add_(dim, index, ones).long()
