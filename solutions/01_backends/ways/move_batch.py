# %% right: tree_map
# PyTorch's own helper also moves the tensors in a deque or a defaultdict; the author's answer leaves a deque as it is
# and raises for a defaultdict. A torch.Size comes back as a plain tuple, and `torch.utils._pytree` is a private module.
def move(batch, device):
    """The batch with `to` applied to the tensors among its leaves."""
    from torch.utils._pytree import tree_map

    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, Tensor) else leaf, batch)


# %% right: refills shallow copies
# A shallow copy has the type of the original, so no constructor of a dict or list is called, and a defaultdict keeps
# its default. Each dict and list is filled twice, and a tuple, which can't be refilled, still needs two cases.
def move(batch, device):
    """The batch, with dicts and lists copied and then refilled."""
    import copy

    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple):
        items = (move(item, device) for item in batch)
        return batch._make(items) if hasattr(batch, "_make") else type(batch)(items)
    if isinstance(batch, (dict, list)):
        moved = copy.copy(batch)
        for key in moved if isinstance(moved, dict) else range(len(moved)):
            moved[key] = move(moved[key], device)
        return moved
    return batch


# %% wrong: writes into the batch that was passed in
# says: You wrote the moved tensors into the caller's own structure. Build a new one.
# The result is right. But if the data set keeps this dict, its tensors are now on the device and stay in its memory.
def move(batch, device):
    """The same dicts, with other tensors in them."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        for key, value in batch.items():
            batch[key] = move(value, device)
        return batch
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
