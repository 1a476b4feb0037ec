# %% right: numbers all cells and looks at them the way t does
# No arithmetic: a tensor that holds its own addresses is viewed with t's size, stride and offset. It makes a tensor as
# long as the storage, which may be much larger than t.
def memory_cells(t):
    """The numbers of the cells, seen through t's own view."""
    count = t.untyped_storage().nbytes() // t.element_size()
    return torch.arange(count).as_strided(t.size(), t.stride(), t.storage_offset())


# %% right: asks each slice
# A slice is a view with an offset of its own, so the last thing that is left of each is its offset. It takes a call for
# each element.
def memory_cells(t):
    """The offsets of all elements."""
    if t.dim() == 0:
        return torch.tensor(t.storage_offset())
    if len(t) == 0:
        return torch.empty(t.shape, dtype=torch.int64)
    return torch.stack([memory_cells(part) for part in t.unbind()])


# %% wrong: numbers the elements row by row
# says: You numbered the elements in row-major order of the shape.
# That is where the elements of a fresh tensor lie. A view says with its strides where its own are.
def memory_cells(t):
    """The order in which the elements are printed."""
    return torch.arange(t.numel()).reshape(t.shape)
