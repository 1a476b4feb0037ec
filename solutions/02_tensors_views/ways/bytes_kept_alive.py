# %% right: copies into a new tensor instead of cloning
# The clone of a transposed tensor may be transposed in memory too. A new empty tensor is always stored row by row,
# whatever the strides of t are, and `copy_` into it stays in the autograd graph.
def bytes_kept(*tensors):
    """The sizes of all storages, each counted once."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def compact(t):
    """t, or its elements in memory of their own."""
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return torch.empty(t.shape, dtype=t.dtype, device=t.device).copy_(t)


# %% wrong: tells storages apart by the tensors' data_ptr()
# says: You told views of one storage apart by where they begin.
# Two views of one storage may begin in different places. Then this counts the storage twice.
def bytes_kept(*tensors):
    """Counts a storage once for each place where a view begins."""
    return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def compact(t):
    """As its author wrote it."""
    return t.clone() if t.untyped_storage().nbytes() > t.numel() * t.element_size() else t
