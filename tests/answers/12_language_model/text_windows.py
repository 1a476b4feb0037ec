# corners: maximum, empty

import numpy as np
import torch


def refuse(ids, length):
    if length < 1 or length >= len(ids):
        raise ValueError("no such windows")


# %% right: two unfolds of the text without its last and without its first id
def windows(ids, length):
    refuse(ids, length)
    return ids[:-1].unfold(0, length, 1), ids[1:].unfold(0, length, 1)


# %% right: as_strided with the stride and the offset of ids
def windows(ids, length):
    refuse(ids, length)
    size, s = (len(ids) - length, length), ids.stride(0)
    return ids.as_strided(size, (s, s)), ids.as_strided(size, (s, s), ids.storage_offset() + s)


# %% right: one unfold without its last row, and without its first
def windows(ids, length):
    if length <= 0 or ids.numel() <= length:
        raise ValueError(f"{length} of {ids.numel()}")
    every = ids.unfold(-1, length, 1)
    return every[:-1], every[1:]


# %% right: narrow, and windows taken along a dimension of an unsqueezed text
def windows(tokens, size):
    refuse(tokens, size)
    both = tokens.unsqueeze(0).unfold(1, size + 1, 1)[0]
    return both.narrow(1, 0, size), both.narrow(1, 1, size)


# %% wrong: y is x
# says: y equals x: the target of a position is the NEXT id.
# earns: 0 of 1
# lesson
def windows(ids, length):
    refuse(ids, length)
    x = ids[:-1].unfold(0, length, 1)
    return x, x


# %% wrong: all windows, twice
# says: y equals x: the target of a position is the NEXT id.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    return ids.unfold(0, length, 1), ids.unfold(0, length, 1)


# %% wrong: x and y exchanged
# says: y is shifted the wrong way
# earns: 0 of 1
# lesson
def windows(ids, length):
    refuse(ids, length)
    return ids[1:].unfold(0, length, 1), ids[:-1].unfold(0, length, 1)


# %% wrong: targets two ahead
# says: y is too far on
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    rows = torch.arange(len(ids) - length)[:, None] + torch.arange(length)
    return ids[:-1].unfold(0, length, 1), ids[(rows + 2) % len(ids)]


# %% wrong: y from roll
# says: The last target is the first id of the text, because roll() moves an id from one end to the other.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    return ids.unfold(0, length, 1), ids.roll(-1).unfold(0, length, 1)


# %% wrong: rolled, and cut where it wraps around
# says: does not share the memory of `ids`, because your code made a copy. Return views.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    return ids.unfold(0, length, 1)[:-1], ids.roll(-1).unfold(0, length, 1)[:-1]


# %% wrong: one row too many in x
# says: There must be N - length rows, because each row needs length ids and one more id for the last target.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    return ids.unfold(0, length, 1), ids[1:].unfold(0, length, 1)


# %% wrong: one row too few
# says: There must be N - length rows, because each row needs length ids and one more id for the last target.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = ids[:-1].unfold(0, length + 1, 1) if len(ids) - 1 > length else ids.unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]


# %% wrong: windows that do not overlap
# says: Your windows do not overlap. Row i must start at id i, so that each id appears at every position of a
# earns: 0 of 1
# lesson
def windows(ids, length):
    refuse(ids, length)
    return ids[:-1].unfold(0, length, length), ids[1:].unfold(0, length, length)


# %% wrong: slices stacked in a loop
# says: The windows have their own memory. With length 128 this is 128 times the text. Return views of `ids`.
# earns: 0 of 1
# lesson
def windows(ids, length):
    refuse(ids, length)
    starts = range(len(ids) - length)
    return torch.stack([ids[i : i + length] for i in starts]), torch.stack(
        [ids[i + 1 : i + length + 1] for i in starts]
    )


# %% wrong: contiguous at the end
# says: The windows have their own memory. With length 128 this is 128 times the text. Return views of `ids`.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = ids.unfold(0, length + 1, 1)
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()


# %% wrong: only y is copied
# says: The windows have their own memory. With length 128 this is 128 times the text. Return views of `ids`.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = ids.unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:].clone()


# %% wrong: indexes with a table of places
# says: The windows have their own memory. With length 128 this is 128 times the text. Return views of `ids`.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    rows = torch.arange(len(ids) - length)[:, None] + torch.arange(length)
    return ids[rows], ids[rows + 1]


# %% wrong: contiguous at the beginning
# says: does not share the memory of `ids`, because your code made a copy. Return views.
# earns: 0 of 1
# caught: hidden
def windows(ids, length):
    refuse(ids, length)
    both = ids.contiguous().unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]


# %% wrong: as_strided with stride 1
# says: For `ids` with a stride your values are wrong. The stride of a view is not always 1.
# earns: 0 of 1
# caught: hidden
def windows(ids, length):
    refuse(ids, length)
    size = len(ids) - length, length
    return ids.as_strided(size, (1, 1)), ids[1:].as_strided(size, (1, 1))


# %% wrong: as_strided with offset 0 and 1
# says: `ids` may start anywhere in its storage, and storage_offset counts elements of the storage, not ids.
# earns: 0 of 1
# caught: hidden
def windows(ids, length):
    refuse(ids, length)
    size, s = (len(ids) - length, length), ids.stride(0)
    return ids.as_strided(size, (s, s)), ids.as_strided(size, (s, s), s)


# %% wrong: as_strided with stride 1, offset 0 and 1
# says: For `ids` with a stride your values are wrong. The stride of a view is not always 1.
# earns: 0 of 1
# caught: hidden
def windows(ids, length):
    refuse(ids, length)
    size = len(ids) - length, length
    return ids.as_strided(size, (1, 1), 0), ids.as_strided(size, (1, 1), 1)


# %% wrong: windows in columns
# says: Your windows are columns. Each window is a row, so x and y are (N - length, length).
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = ids.unfold(0, length + 1, 1).t()
    return both[:-1], both[1:]


# %% wrong: one target for each window
# says: Each position has a target, so y must have the shape of x. Your y has one target for a whole window.
# earns: 0 of 1
# lesson
def windows(ids, length):
    refuse(ids, length)
    return ids.unfold(0, length, 1)[:-1], ids[length:]


# %% wrong: x keeps the last target
# says: x and y are (N - length, length)
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = ids.unfold(0, length + 1, 1)
    return both, both[:, 1:]


# %% wrong: one tensor of both
# says: This is the wrong kind of result
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    return ids.unfold(0, length + 1, 1)


# %% wrong: always int64
# says: x and y must have the dtype of the ids:
# earns: 0 of 1
# caught: hidden
def windows(ids, length):
    refuse(ids, length)
    both = ids.long().unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]


# %% wrong: windows of NumPy
# says: does not share the memory of `ids`, because your code made a copy. Return views.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(ids.numpy(force=True).copy(), length + 1))
    return both[:, :-1], both[:, 1:]


# %% wrong: no check of the lengths
# says: A length below 1, or a text that is too short for it, must raise ValueError.
# earns: 0 of 1
# caught: hidden
# corner: empty
def windows(ids, length):
    both = ids.unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]


# %% wrong: an empty table where the text is as long as a window
# says: If N = length, the last position has no target and there is no row, so this must raise ValueError.
# earns: 0 of 1
# caught: hidden
# corner: empty
def windows(ids, length):
    if length < 1 or length > len(ids):
        raise ValueError("no such windows")
    return ids[:-1].unfold(0, length, 1) if len(ids) > length else ids[:0].reshape(0, length), ids[1:].unfold(
        0, length, 1
    ) if len(ids) > length else ids[:0].reshape(0, length)


# %% wrong: refuses the one row
# says: A single row must work, and so must a length of 1:
# earns: 0 of 1
# caught: hidden
# corner: maximum
def windows(ids, length):
    if length < 1 or len(ids) < length + 2:
        raise ValueError("no such windows")
    both = ids.unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]


# %% wrong: refuses length 1
# says: A single row must work, and so must a length of 1:
# earns: 0 of 1
# caught: hidden
def windows(ids, length):
    if length <= 1 or len(ids) <= length:
        raise ValueError("no such windows")
    both = ids.unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]


# %% wrong: takes the writes for itself
# says: Your code changed the text. Leave `ids` as it is.
# earns: 0 of 1
def windows(ids, length):
    refuse(ids, length)
    both = ids.unfold(0, length + 1, 1)
    ids.sub_(ids.min())
    return both[:, :-1], both[:, 1:]


# %% right: windows of NumPy on the same memory
def windows(ids, length):
    refuse(ids, length)
    both = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(ids.numpy(), length + 1, writeable=True))
    return both[:, :-1], both[:, 1:]
