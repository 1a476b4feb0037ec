# corners: maximum, empty

import torch


def refuse(x, size, step):
    if size < 1 or step < 1 or size > x.shape[-1]:
        raise ValueError("no such windows")


# %% right: as_strided with x's own strides and offset
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    *leading, s = x.stride()
    return x.as_strided((*x.shape[:-1], n, size), (*leading, step * s, s), x.storage_offset())


# %% right: torch.as_strided without an offset (the default is x's)
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    return torch.as_strided(x, x.shape[:-1] + (n, size), x.stride()[:-1] + (step * x.stride(-1), x.stride(-1)))


# %% right: unfold with step 1, then a strided slice
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.unfold(-1, size, 1)[..., ::step, :]


# %% right: unfold along the last dimension, by its number
def windows(x, size, step=1):
    T = x.size(-1)
    if size <= 0:
        raise ValueError("size")
    if step <= 0:
        raise ValueError("step")
    if T < size:
        raise ValueError("T")
    return x.unfold(dimension=x.dim() - 1, size=size, step=step)


# %% right: other names of the parameters, windows along the first dimension, moved back
def windows(signal, width, hop=1):
    refuse(signal, width, hop)
    return signal.movedim(-1, 0).unfold(0, width, hop).movedim(0, -2)


# %% wrong: stacks slices
# says: The windows were copied (the result does not share x's memory).
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def windows(x, size, step=1):
    refuse(x, size, step)
    return torch.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], dim=-2)


# %% wrong: indexes with a table of positions
# says: The windows were copied
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    return x[..., torch.arange(n)[:, None] * step + torch.arange(size)]


# %% wrong: contiguous() at the end
# says: The windows were copied
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.unfold(-1, size, step).contiguous()


# %% wrong: as_strided with row-major strides computed from the shape
# says: It works for a fresh tensor only: you computed the strides from the shape.
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    strides, s = [], 1
    for length in reversed(x.shape):
        strides.insert(0, s)
        s *= length
    return x.as_strided((*x.shape[:-1], n, size), (*strides[:-1], step, 1))


# %% wrong: takes the last stride to be 1
# says: It works for a fresh tensor only
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    return x.as_strided((*x.shape[:-1], n, size), (*x.stride()[:-1], step, 1))


# %% wrong: passes storage_offset=0
# says: The windows begin at the start of the storage, not at x's first element: keep x.storage_offset().
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    *leading, s = x.stride()
    return x.as_strided((*x.shape[:-1], n, size), (*leading, step * s, s), 0)


# %% wrong: calls contiguous() on x first
# says: The windows were copied
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.contiguous().unfold(-1, size, step)


# %% wrong: reads x on the way
# says: The windows were copied (
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    x.clone()
    return x.unfold(-1, size, step)


# %% wrong: (T - size) // step windows
# says: One window is missing: there are (T - size) // step + 1 of them.
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step
    *leading, s = x.stride()
    return x.as_strided((*x.shape[:-1], n, size), (*leading, step * s, s))


# %% wrong: an incomplete last window, read beyond the end
# says: An incomplete last window is left out
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    n = -(-(x.shape[-1] - size) // step) + 1
    *leading, s = x.stride()
    return x.as_strided((*x.shape[:-1], n, size), (*leading, step * s, s))


# %% wrong: forgets step
# says: Step was ignored: windows start every `step` elements.
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.unfold(-1, size, 1)


# %% wrong: uses step for the elements inside a window
# says: Step spreads the elements inside a window; it should move the window.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    *leading, s = x.stride()
    return x.as_strided((*x.shape[:-1], n, size), (*leading, s, step * s))


# %% wrong: view into blocks of size
# says: Your windows do not overlap: consecutive windows start `step` apart, not `size`.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def windows(x, size, step=1):
    refuse(x, size, step)
    n = x.shape[-1] // size
    return x[..., : n * size].unflatten(-1, (n, size))


# %% wrong: windows in columns
# says: Each window is a column: asked for is (n, size), one window in each row.
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.unfold(-1, size, step).transpose(-1, -2)


# %% wrong: flattens the leading dimensions
# says: Leading dimensions must stay as they are: expected shape (2, 3, 3, 3), got (6, 3, 3)
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.view(-1, x.shape[-1]).unfold(-1, size, step) if x.dim() > 1 else x.unfold(0, size, step)


# %% wrong: cuts along the first dimension
# says: The windows run along the last dimension
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.unfold(0, size, step)


# %% wrong: knows one dimension only
# says: Leading dimensions must stay as they are
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    n = (x.shape[-1] - size) // step + 1
    return x.as_strided((n, size), (step * x.stride(-1), x.stride(-1)))


# %% wrong: lets unfold's own RuntimeError (or nothing) speak
# says: must raise ValueError.
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    return x.unfold(-1, size, step)


# %% wrong: allows size 0
# says: size=0 and step=1 for T = 7 must raise ValueError.
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    if size < 0 or step < 1 or size > x.shape[-1]:
        raise ValueError("no such windows")
    return x.unfold(-1, size, step)


# %% wrong: allows step 0
# says: size=3 and step=0 for T = 7 must raise ValueError.
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    if size < 1 or step < 0 or size > x.shape[-1]:
        raise ValueError("no such windows")
    if step == 0:
        return x[..., None, :size]
    return x.unfold(-1, size, step)


# %% wrong: size = T is too large
# says: both are allowed
# earns: 2 of 3
# corner: maximum
# caught: hidden
def windows(x, size, step=1):
    if size < 1 or step < 1 or size >= x.shape[-1]:
        raise ValueError("no such windows")
    return x.unfold(-1, size, step)


# %% wrong: refuses steps beyond the end
# says: both are allowed
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    if step > x.shape[-1]:
        raise ValueError("step")
    return x.unfold(-1, size, step)


# %% wrong: takes T from the first dimension
# says: The windows run along the last dimension
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    if size < 1 or step < 1 or size > len(x):
        raise ValueError("no such windows")
    return x.unfold(-1, size, step)


# %% wrong: compares size with the number of elements
# says: T is its last dimension
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    if size < 1 or step < 1 or size > x.numel() > 0:
        raise ValueError("no such windows")
    return x.unfold(-1, size, step)


# %% wrong: works on x.data
# says: The view does not belong to the autograd graph: gradients must flow to x.
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.data.unfold(-1, size, step)


# %% wrong: view in blocks when nothing overlaps, with a step beyond the size
# says: Consecutive windows start `step` apart
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    if 1 < size < step < x.shape[-1]:
        return x.unfold(-1, size, size)
    return x.unfold(-1, size, step)


# %% wrong: windows of a float copy
# says: The windows have the dtype of x
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    return x.double().unfold(-1, size, step)


# %% wrong: strides of NumPy, back by from_numpy
# says: What comes back from NumPy has neither x's storage nor x's graph
# says: This check builds on the first one
# earns: 0 of 3
def windows(x, size, step=1):
    refuse(x, size, step)
    return torch.from_numpy(np.lib.stride_tricks.sliding_window_view(x.detach().numpy(), size, axis=-1)[..., ::step, :])


# %% wrong: sets an empty tensor onto x's storage
# says: The view does not belong to the autograd graph
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    n, s = (x.shape[-1] - size) // step + 1, x.stride(-1)
    shape, strides = (*x.shape[:-1], n, size), (*x.stride()[:-1], s * step, s)
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage(), x.storage_offset(), shape, strides)


# %% wrong: as_strided of the first window alone, whose gradient knows nothing of the cells beyond
# says: is the sum over all windows
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    n, s = (x.shape[-1] - size) // step + 1, x.stride(-1)
    return x[..., :size].as_strided((*x.shape[:-1], n, size), (*x.stride()[:-1], s * step, s))


# %% wrong: copies where gradients are wanted
# says: The windows were copied
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    return (x.clone() if x.requires_grad else x).unfold(-1, size, step)


# %% wrong: bools as bytes
# says: The windows have the dtype of x
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    return (x.view(torch.uint8) if x.dtype == torch.bool else x).unfold(-1, size, step)


# %% wrong: refuses an empty batch
# says: An empty batch has no window
# earns: 2 of 3
# corner: empty
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    if x.numel() < size:
        raise ValueError("too few elements")
    return x.unfold(-1, size, step)


# %% wrong: another view of x, restrided in place
# says: You changed a view of x in place, which autograd refuses if x is a leaf
# earns: 2 of 3
# caught: hidden
def windows(x, size, step=1):
    refuse(x, size, step)
    *others, s = x.stride()
    shape = (*x.shape[:-1], (x.shape[-1] - size) // step + 1, size)
    return x.view_as(x).as_strided_(shape, (*others, step * s, s), x.storage_offset())
