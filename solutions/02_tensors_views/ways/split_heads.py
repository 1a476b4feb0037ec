# %% right: unflatten names the split
# `unflatten` says which dimension is taken apart, so the batch and the positions don't have to be repeated. Merging is
# `flatten`, which copies where it must, as reshape does.
def split_heads(x, h):
    """A view with a dimension for the heads before that of the positions."""
    if x.shape[-1] % h:
        raise ValueError(f"{h} heads can't share {x.shape[-1]} channels")
    return x.unflatten(-1, (h, x.shape[-1] // h)).transpose(1, 2)


def merge_heads(y):
    """The blocks of the heads side by side."""
    return y.transpose(1, 2).flatten(2)


# %% right: as_strided and cat
# The strides that view and transpose work out are computed here. It works for every x, contiguous or not, because
# they come from x's own strides. To merge, `cat` always copies, even where the author's reshape returns a view.
def split_heads(x, h):
    """A view made from x's own strides."""
    batch, positions, channels = x.shape
    if channels % h:
        raise ValueError(f"{h} heads can't share {channels} channels")
    width = channels // h
    b, t, c = x.stride()
    return x.as_strided((batch, h, positions, width), (b, width * c, t, c), x.storage_offset())


def merge_heads(y):
    """The heads' blocks, copied one after the other."""
    return torch.cat(y.unbind(1), dim=-1)


# %% wrong: reshape in place of view
# says: The shape is right, the content is scrambled
# In `merge_heads`, reshape is what the error message suggests, and it is right there. In `split_heads` it is as wrong
# as view: both keep the numbers in their old order, so a head gets a part of the positions instead of a part of the
# channels.
def split_heads(x, h):
    """Cuts positions and channels in the wrong places."""
    batch, positions, channels = x.shape
    if channels % h:
        raise ValueError(f"{h} heads can't share {channels} channels")
    return x.reshape(batch, h, positions, channels // h)


def merge_heads(y):
    """As its author wrote it."""
    batch, h, positions, width = y.shape
    return y.transpose(1, 2).reshape(batch, positions, h * width)
