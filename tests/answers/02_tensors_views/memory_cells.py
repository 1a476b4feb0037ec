# corners: equal values, beyond 2**24, 0-d, empty

import functools
import itertools

import numpy as np
import torch


# %% right: numbers all cells of the storage and looks at them with t's own size, stride and offset
def memory_cells(t):
    count = t.untyped_storage().nbytes() // t.element_size()
    return torch.arange(count).as_strided(t.size(), t.stride(), t.storage_offset())


# %% right: itertools.product over all index tuples
def memory_cells(t):
    out = torch.empty(t.shape, dtype=torch.int64)
    for position in itertools.product(*map(range, t.shape)):
        out[position] = t.storage_offset() + sum(i * s for i, s in zip(position, t.stride()))
    return out


# %% right: meshgrid of index grids times strides
def memory_cells(t):
    cells = torch.full(t.shape, t.storage_offset(), dtype=torch.int64)
    if t.dim():
        grids = torch.meshgrid(*[torch.arange(n) for n in t.shape], indexing="ij")
        for d, grid in enumerate(grids):
            cells += grid * t.stride(d)
    return cells


# %% right: address of every element minus the address of the storage, divided by the element size
def memory_cells(t):
    start, size = t.untyped_storage().data_ptr(), t.element_size()
    out = torch.zeros_like(t, dtype=torch.int64, memory_format=torch.contiguous_format, requires_grad=False)
    for position in itertools.product(*map(range, t.shape)):
        out[position] = (t[position].data_ptr() - start) // size
    return out


# %% right: one arange per dimension, reshaped
def memory_cells(t):
    cells = t.new_full(t.shape, t.storage_offset(), dtype=torch.int64)
    for d in range(t.dim()):
        shape = [1] * t.dim()
        shape[d] = -1
        cells = cells + (torch.arange(t.shape[d]) * t.stride(d)).reshape(shape)
    return cells


# %% right: another name of the parameter, one slice after the other
def memory_cells(tensor):
    if tensor.dim() == 0:
        return torch.tensor(tensor.storage_offset())
    if len(tensor) == 0:
        return torch.empty(tensor.shape, dtype=torch.int64)
    return torch.stack([memory_cells(part) for part in tensor.unbind()])


# %% right: index numbers divided with remainder, last dimension first
def memory_cells(t):
    number = torch.arange(t.numel())
    cells = torch.full_like(number, t.storage_offset())
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        cells += number % max(size, 1) * stride
        number //= max(size, 1)
    return cells.reshape(t.shape)


# %% right: computes in int32
def memory_cells(t):
    cells = torch.tensor(t.storage_offset(), dtype=torch.int32)
    for size, stride in zip(t.shape, t.stride()):
        cells = cells.unsqueeze(-1) + torch.arange(size, dtype=torch.int32) * stride
    return cells.long()


# %% wrong: leaves out storage_offset()
# says: A view does not start at cell 0: add storage_offset().
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def memory_cells(t):
    cells = torch.zeros(t.shape, dtype=torch.int64)
    for position in itertools.product(*map(range, t.shape)):
        cells[position] = sum(i * s for i, s in zip(position, t.stride()))
    return cells


# %% wrong: numbers the elements row by row
# says: You numbered the elements in row-major order of the shape.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def memory_cells(t):
    return torch.arange(t.numel()).reshape(t.shape)


# %% wrong: numbers the elements row by row, from the offset on
# says: You numbered the elements in row-major order of the shape.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def memory_cells(t):
    if t.dim() == 2 and t.stride(0) < t.stride(1):
        return memory_cells(t.t()).t()
    return torch.arange(t.numel()).reshape(t.shape) + t.storage_offset()


# %% wrong: calls contiguous() first and describes the copy
# says: You numbered the elements in row-major order of the shape.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def memory_cells(t):
    t = t.contiguous()
    return torch.arange(t.untyped_storage().nbytes() // t.element_size()).as_strided(
        t.size(), t.stride(), t.storage_offset()
    )


# %% wrong: multiplies by the element size
# says: Cells are counted in elements, not bytes.
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    cells = torch.full(t.shape, t.storage_offset() * t.element_size(), dtype=torch.int64)
    for position in itertools.product(*map(range, t.shape)):
        cells[position] += sum(i * s for i, s in zip(position, t.stride())) * t.element_size()
    return cells


# %% wrong: takes the offset in bytes
# says: Cells are counted in elements, not bytes.
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    cells = torch.full(t.shape, t.storage_offset() * t.element_size(), dtype=torch.int64)
    for position in itertools.product(*map(range, t.shape)):
        cells[position] += sum(i * s for i, s in zip(position, t.stride()))
    return cells


# %% wrong: pairs the last stride with the first dimension
# says: Strides and dimensions are paired the wrong way round: stride(d) belongs to dimension d.
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    cells = torch.full(t.shape, t.storage_offset(), dtype=torch.int64)
    for position in itertools.product(*map(range, t.shape)):
        cells[position] += sum(i * s for i, s in zip(position, reversed(t.stride())))
    return cells


# %% wrong: returns the values
# says: You returned values of t.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def memory_cells(t):
    return t.long()


# %% wrong: returns the values as they are
# says: You returned values of t.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def memory_cells(t):
    return t.clone()


# %% wrong: returns floats
# says: Cell numbers are int64: expected torch.int64, got torch.float32
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    cells = torch.full(t.shape, float(t.storage_offset()))
    for d in range(t.dim()):
        shape = [1] * t.dim()
        shape[d] = -1
        cells = cells + (torch.arange(t.shape[d]) * t.stride(d)).reshape(shape)
    return cells


# %% wrong: in t's own dtype
# says: Cell numbers are int64
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    cells = torch.arange(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype)
    return cells.as_strided(t.size(), t.stride(), t.storage_offset())


# %% wrong: counts from 1
# says: The first cell has number 0.
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    count = t.untyped_storage().nbytes() // t.element_size()
    return torch.arange(1, count + 1).as_strided(t.size(), t.stride(), t.storage_offset())


# %% wrong: gives a 0-d tensor one dimension
# says: A 0-d tensor lives in one cell, storage_offset(): the result is 0-d too.
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def memory_cells(t):
    if t.dim() == 0:
        return torch.tensor([t.storage_offset()])
    return torch.arange(t.untyped_storage().nbytes() // t.element_size()).as_strided(
        t.size(), t.stride(), t.storage_offset()
    )


# %% wrong: 0-d lives in cell 0
# says: A view does not start at cell 0: add storage_offset().
# earns: 1 of 2
# caught: hidden
def memory_cells(t):
    if t.dim() == 0:
        return torch.tensor(0)
    return torch.arange(t.untyped_storage().nbytes() // t.element_size()).as_strided(
        t.size(), t.stride(), t.storage_offset()
    )


# %% wrong: gives every element of an expanded tensor its own cell
# says: In an expanded tensor many elements share a cell (stride 0): they must get the same number.
# earns: 1 of 2
def memory_cells(t):
    if 0 in t.stride():
        t = torch.empty(t.shape)
    return torch.arange(t.untyped_storage().nbytes() // t.element_size()).as_strided(
        t.size(), t.stride(), t.storage_offset()
    )


# %% wrong: reads t's values on the way
# says: The values of t were read
# earns: 1 of 2
# caught: hidden
def memory_cells(t):
    t = t + 0 if t.numel() < 0 else t
    t.sum()
    return torch.arange(t.untyped_storage().nbytes() // t.element_size()).as_strided(
        t.size(), t.stride(), t.storage_offset()
    )


# %% wrong: makes its zeros from t's values
# says: The values of t were read
# earns: 1 of 2
# caught: hidden
def memory_cells(t):
    cells = (t.detach().bool() & False).long() + t.storage_offset()
    for d in range(t.dim()):
        shape = [1] * t.dim()
        shape[d] = -1
        cells = cells + (torch.arange(t.shape[d]) * t.stride(d)).reshape(shape)
    return cells


# %% wrong: writes the numbers into t and looks them up
# says: Your code changed what the caller passed in: the values in t are no longer the same
# earns: 1 of 2
def memory_cells(t):
    storage = torch.tensor([], dtype=t.dtype).set_(t.untyped_storage())
    storage.copy_(torch.arange(len(storage)))
    return t.long()


# %% wrong: supposes at most two dimensions
# says: The tensor may have any number of dimensions
# earns: 1 of 2
def memory_cells(t):
    rows, columns = (1, len(t)) if t.dim() == 1 else t.shape[:2]
    cells = torch.full((rows, columns), t.storage_offset(), dtype=torch.int64)
    for i in range(rows):
        for j in range(columns):
            cells[i, j] += i * t.stride(0) + j * t.stride(-1)
    return cells


# %% wrong: numbers as many cells as t has elements
# says: A view may lie anywhere in its storage
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    return torch.arange(t.numel()).as_strided(t.size(), t.stride(), t.storage_offset())


# %% wrong: searches the storage for each value
# says: The third row got the cell of the first, which has the same value.
# earns: 1 of 2
# corner: equal values
def memory_cells(t):
    row = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage()).tolist()
    return torch.tensor([row.index(v) for v in t.flatten().tolist()]).reshape(t.shape)


# %% wrong: column-major
# says: You went down the columns
# says: This check builds on the first one
# earns: 0 of 2
def memory_cells(t):
    if t.dim() < 2:
        return torch.arange(t.numel()).reshape(t.shape) + t.storage_offset()
    return torch.arange(t.numel()).reshape(t.shape[::-1]).t()


# %% wrong: floats for an empty tensor
# says: Cell numbers are int64
# earns: 1 of 2
# corner: empty
# caught: hidden
def memory_cells(t):
    if t.numel() == 0:
        return torch.empty(t.shape)
    return torch.arange(1000).as_strided(t.shape, t.stride(), t.storage_offset())


# %% wrong: switches requires_grad off on the way
# says: Your code changed what the caller passed in: t was changed
# earns: 1 of 2
# caught: hidden
def memory_cells(t):
    t.requires_grad_(False)
    return torch.arange(1000).as_strided(t.shape, t.stride(), t.storage_offset())


# %% wrong: the offset from addresses, four bytes an element
# says: The offset is off
# earns: 1 of 2
# caught: hidden
def memory_cells(t):
    offset = (t.data_ptr() - t.untyped_storage().data_ptr()) // 4 if t.numel() else 0
    return torch.arange(1000).as_strided(t.shape, t.stride(), offset)


# %% wrong: meshgrid, which has nothing to do for no dimension
# says: A 0-d tensor has no dimension and lives in one cell
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def memory_cells(t):
    grids = torch.meshgrid(*[torch.arange(n) * s for n, s in zip(t.shape, t.stride())], indexing="ij")
    return torch.stack(grids).sum(0) + t.storage_offset()


# %% wrong: nothing for an empty tensor
# says: An empty tensor has no cells; the result has its shape:
# earns: 1 of 2
# corner: empty
# caught: hidden
def memory_cells(t):
    if t.numel() == 0:
        return torch.empty(0, dtype=torch.int64)
    cells = torch.full(t.shape, t.storage_offset(), dtype=torch.int64)
    if t.dim():
        grids = torch.meshgrid(*[torch.arange(n) for n in t.shape], indexing="ij")
        for d, grid in enumerate(grids):
            cells += grid * t.stride(d)
    return cells


# %% wrong: positions times strides as a product of floats
# says: Your cell numbers went through float32
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def memory_cells(t):
    positions = torch.ones(t.shape).nonzero().float()
    cells = positions @ torch.tensor(t.stride(), dtype=torch.float32) + t.storage_offset()
    return cells.long().reshape(t.shape)


# %% wrong: hands a table out again that it has made before
# says: The second call returned the tensor of the first
# earns: 1 of 2
# caught: hidden
@functools.lru_cache
def cells_of(shape, stride, offset):
    cells = torch.tensor(offset)
    for size, s in zip(shape, stride):
        cells = cells.unsqueeze(-1) + torch.arange(size) * s
    return cells


def memory_cells(t):
    return cells_of(t.shape, t.stride(), t.storage_offset())


# %% wrong: asks NumPy for the strides
# says: NumPy has no bfloat16
# earns: 1 of 2
# caught: hidden
def memory_cells(t):
    a = t.detach().numpy()
    cells = np.full(a.shape, t.storage_offset())
    for d, stride in enumerate(a.strides):
        shape = [1] * a.ndim
        shape[d] = -1
        cells = cells + np.arange(a.shape[d]).reshape(shape) * (stride // a.itemsize)
    return torch.as_tensor(cells)
