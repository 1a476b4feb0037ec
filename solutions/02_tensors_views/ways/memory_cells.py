# %% right: a view of all cell numbers
# A tensor of all cell numbers, 0, 1, 2, and so on, is viewed with t's size, strides and offset, so the numbers need
# no arithmetic. The result keeps a number for every cell of the storage, which may have many more cells than t has
# elements.
def memory_cells(t):
    """The numbers of the cells, seen through t's own view."""
    count = t.untyped_storage().nbytes() // t.element_size()
    return torch.arange(count).as_strided(t.size(), t.stride(), t.storage_offset())


# %% right: takes t apart and reads the offset of each element
# Every slice is a view with its own offset. A single element has no dimension left, so its offset is its cell. It
# makes at least one call for each element, where the author's loop runs once for each dimension.
def memory_cells(t):
    """The offsets of all elements."""
    if t.dim() == 0:
        return torch.tensor(t.storage_offset())
    if len(t) == 0:
        return torch.empty(t.shape, dtype=torch.int64)
    return torch.stack([memory_cells(part) for part in t.unbind()])


# %% wrong: numbers the elements row by row
# says: You numbered the elements in row-major order of the shape.
# This is right for a fresh tensor. Where the elements of a view are stored depends on its strides and its offset.
def memory_cells(t):
    """The order in which the elements are printed."""
    return torch.arange(t.numel()).reshape(t.shape)
