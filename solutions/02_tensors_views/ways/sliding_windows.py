# %% right: as_strided with x's own strides
# `unfold` does the same inside: the last dimension keeps x's last stride, and the windows start `step` times that
# apart. as_strided checks that the view stays inside the storage, but not that the strides make sense.
def windows(x, size, step=1):
    """A view of all windows, by its strides."""
    if not 1 <= size <= x.shape[-1] or step < 1:
        raise ValueError(f"no windows of {size} with step {step} in {x.shape[-1]} elements")
    count = (x.shape[-1] - size) // step + 1
    *leading, last = x.stride()
    return x.as_strided((*x.shape[:-1], count, size), (*leading, step * last, last), x.storage_offset())


# %% right: takes all windows and keeps every step-th
# A slice with a step is a view of a view, and costs nothing but a new stride.
def windows(x, size, step=1):
    """Every step-th window."""
    if not 1 <= size <= x.shape[-1] or step < 1:
        raise ValueError(f"no windows of {size} with step {step} in {x.shape[-1]} elements")
    return x.unfold(-1, size, 1)[..., ::step, :]


# %% wrong: stacks slices
# says: The windows were copied
# Each slice is a view, but `stack` copies them all into a new tensor, about size / step times as large as x.
def windows(x, size, step=1):
    """Copies of all windows."""
    if not 1 <= size <= x.shape[-1] or step < 1:
        raise ValueError(f"no windows of {size} with step {step} in {x.shape[-1]} elements")
    return torch.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], dim=-2)
