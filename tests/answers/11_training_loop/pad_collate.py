import torch
from torch import nn


def refuse(batch):
    if not batch:
        raise ValueError("an empty batch")
    if len({(sequence.shape[1:], sequence.dim(), sequence.dtype) for sequence, _ in batch}) != 1:
        raise ValueError("samples of different kinds")


def with_parts(batch, pad_value, **parts):
    """The right result with other parts in it."""
    refuse(batch)
    length = torch.tensor([len(s) for s, _ in batch])
    first, longest = batch[0][0], max(len(s) for s, _ in batch)
    x = torch.full((len(batch), longest, *first.shape[1:]), pad_value, dtype=first.dtype)
    for n, (s, _) in enumerate(batch):
        x[n, : len(s)] = s
    found = {"x": x, "mask": torch.arange(longest)[None] < length[:, None], "length": length}
    found["label"] = torch.tensor([label for _, label in batch])
    return found | parts


# corners: zeros, empty, maximum, beyond 2**24


# %% right: pad_sequence, the mask from the lengths
def pad_collate(batch, pad_value=0):
    if len(batch) == 0:
        raise ValueError("an empty batch")
    sequences, labels = [s for s, _ in batch], [y for _, y in batch]
    for s in sequences:
        if s.dtype is not sequences[0].dtype or s.shape[1:] != sequences[0].shape[1:]:
            raise ValueError("samples of different kinds")
        if s.ndim != sequences[0].ndim:
            raise ValueError("samples of different kinds")
    x = nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=pad_value)
    length = torch.as_tensor([s.size(0) for s in sequences], dtype=torch.long)
    mask = torch.arange(x.shape[1]).unsqueeze(0).expand(len(batch), -1) < length.unsqueeze(1)
    return dict(x=x, mask=mask, length=length, label=torch.LongTensor(labels))


# %% right: a block of padding behind each sequence, then stack
def pad_collate(batch, pad_value=0):
    refuse(batch)
    longest = max(len(s) for s, _ in batch)
    rows, masks = [], []
    for s, _ in batch:
        rest = s.new_full((longest - len(s), *s.shape[1:]), pad_value)
        rows.append(torch.cat([s, rest]))
        masks.append(torch.tensor([True] * len(s) + [False] * len(rest), dtype=torch.bool))
    label = torch.tensor([y for _, y in batch], dtype=torch.int64)
    length = torch.stack([mask.sum() for mask in masks])
    return {"label": label, "length": length, "mask": torch.stack(masks), "x": torch.stack(rows)}


# %% right: a subclass of ValueError, masked assignment, other names
class BatchError(ValueError):
    pass


def pad_collate(samples, pad_value=0):
    batch = samples[:]
    try:
        refuse(batch)
    except ValueError as error:
        raise BatchError from error
    length = torch.tensor([s.shape[0] for s, _ in batch])
    mask = torch.arange(max(length.tolist())).repeat(len(batch), 1) < length[:, None]
    x = torch.empty((*mask.shape, *batch[0][0].shape[1:]), dtype=batch[0][0].dtype).fill_(pad_value)
    x[mask] = torch.cat([s for s, _ in batch])
    return {"x": x, "mask": mask, "length": length, "label": torch.tensor([int(y) for _, y in batch])}


# %% wrong: the mask is read off the values
# says: You computed the mask from the values (x != pad_value), but real data may contain that value. Compute it
# earns: 0 of 2
# corner: zeros
# lesson
def pad_collate(batch, pad_value=0):
    mask = with_parts(batch, pad_value)["x"] != pad_value
    return with_parts(batch, pad_value, mask=mask.flatten(2).any(2) if mask.dim() > 2 else mask)


# %% wrong: the mask is inverted
# says: The mask must be True on real steps.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value, mask=~with_parts(batch, pad_value)["mask"])


# %% wrong: the mask as float
# says: The mask must be a bool tensor of shape (N, T).
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value, mask=with_parts(batch, pad_value)["mask"].float())


# %% wrong: torch.zeros
# says: The dtype changed, because torch.zeros makes float32. Use new_full or new_zeros of a sample.
# earns: 0 of 2
# lesson
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    x = torch.zeros(right["x"].shape)
    x[right["mask"]] = right["x"][right["mask"]].float()
    x[~right["mask"]] = pad_value
    return right | {"x": x}


# %% wrong: ignores pad_value
# says: The padding is not pad_value.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, 0)


# %% wrong: cuts to the shortest
# says: You cut the sequences to the length of the shortest.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    shortest = int(right["length"].min())
    return right | {"x": right["x"][:, :shortest], "mask": right["mask"][:, :shortest]}


# %% wrong: pads in front
# says: Real steps must come first, and the padding after them.
# earns: 0 of 2
# lesson
def pad_collate(batch, pad_value=0):
    x = with_parts([(s.flip(0), y) for s, y in batch], pad_value)["x"].flip(1)
    return with_parts(batch, pad_value, x=x)


# %% wrong: refuses sequences of length 0
# says: A sequence of length 0 must be allowed.
# earns: 1 of 2
# caught: hidden
# corner: empty
def pad_collate(batch, pad_value=0):
    if any(len(s) == 0 for s, _ in batch):
        raise ValueError("an empty sequence")
    return with_parts(batch, pad_value)


# %% wrong: at least one step
# says: A sequence of length 0 must be allowed.
# earns: 1 of 2
# caught: hidden
# corner: empty
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    if right["x"].shape[1] == 0:
        x = torch.full((len(batch), 1, *right["x"].shape[2:]), pad_value, dtype=right["x"].dtype)
        return right | {"x": x, "mask": torch.zeros(len(batch), 1, dtype=torch.bool)}
    return right


# %% wrong: a single sample is passed through
# says: The result shares memory with a sample, or a sample was changed.
# earns: 1 of 2
# caught: hidden
# corner: maximum
def pad_collate(batch, pad_value=0):
    if len(batch) == 1:
        return with_parts(batch, pad_value, x=batch[0][0][None])
    return with_parts(batch, pad_value)


# %% wrong: pads the samples in place
# says: The result shares memory with a sample, or a sample was changed.
# earns: 1 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    for s, _ in batch:
        s += 1
    return right


# %% wrong: no checks
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    first, longest = batch[0][0], max(len(s) for s, _ in batch)
    x = first.new_full((len(batch), longest, *first.shape[1:]), pad_value)
    for n, (s, _) in enumerate(batch):
        x[n, : len(s)] = s
    length = torch.tensor([len(s) for s, _ in batch])
    label = torch.tensor([y for _, y in batch])
    return {"x": x, "mask": torch.arange(longest) < length[:, None], "length": length, "label": label}


# %% wrong: the dtypes are not compared
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    return with_parts([(s.to(batch[0][0].dtype), y) for s, y in batch], pad_value)


# %% wrong: the last dimension only is compared
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    if not batch or len({(s.shape[1:][-1:], s.dim(), s.dtype) for s, _ in batch}) != 1:
        raise ValueError("different")
    shape = max((s.shape[1:] for s, _ in batch), key=lambda shape: shape.numel())
    return with_parts([(s.expand(len(s), *shape), y) for s, y in batch], pad_value)


# %% wrong: a sequence of another kind is compared only where it has steps
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    if not batch:
        raise ValueError("an empty batch")
    kind = next((s for s, _ in batch if len(s)), batch[0][0])
    return with_parts([(s if len(s) else kind[:0], y) for s, y in batch], pad_value)


# %% wrong: nothing for an empty batch
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
# corner: empty
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value) if batch else {}


# %% wrong: lengths as float
# says: Lengths and labels must be int64 tensors of shape (N,).
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value, length=torch.tensor([float(len(s)) for s, _ in batch]))


# %% wrong: labels as a column
# says: Lengths and labels must be int64 tensors of shape (N,).
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value, label=torch.tensor([[y] for _, y in batch]))


# %% wrong: labels as a list
# says: Lengths and labels must be int64 tensors of shape (N,).
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value, label=[y for _, y in batch])


# %% wrong: labels in int32
# says: Lengths and labels must be int64 tensors of shape (N,).
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value, label=torch.tensor([y % 2**31 for _, y in batch], dtype=torch.int32))


# %% wrong: the longest sequence comes first
# says: The samples are in a different order. Row i of every tensor belongs to sample i of the batch.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(sorted(batch, key=lambda pair: -len(pair[0])), pad_value)


# %% wrong: time comes first
# says: Time comes first; x is (N, T, ...)
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    return right | {"x": right["x"].transpose(0, 1)}


# %% wrong: a tuple
# says: expected a dict
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return tuple(with_parts(batch, pad_value).values())


# %% wrong: no lengths
# says: missing: length
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    del right["length"]
    return right


# %% right: the mask is padded like the data
def pad_collate(batch, pad_value=0):
    ones = [torch.ones(len(s), dtype=torch.bool) for s, _ in batch]
    refuse(batch)
    mask = nn.utils.rnn.pad_sequence(ones, batch_first=True)
    return with_parts(batch, pad_value, mask=mask, length=mask.sum(1))


# %% wrong: nothing is returned
# says: Return a dict with exactly x, mask, length and label: expected a dict, got None.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    with_parts(batch, pad_value)


# %% wrong: another name for the mask
# says: Return a dict with exactly x, mask, length and label: missing: mask
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    right["padding"] = right.pop("mask")
    return right


# %% wrong: one thing more in the dict
# says: Return a dict with exactly x, mask, length and label: not asked for: pad_value.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    return with_parts(batch, pad_value) | {"pad_value": pad_value}


# %% wrong: the mask goes one step too far
# says: The mask of row i must be True on its first length[i] steps, and only there.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    return right | {"mask": torch.arange(right["x"].shape[1]) <= right["length"][:, None]}


# %% wrong: the mask ends one step too early
# says: The mask of row i must be True on its first length[i] steps, and only there.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    return right | {"mask": torch.arange(right["x"].shape[1]) < right["length"][:, None] - 1}


# %% wrong: the batch is sorted in place
# says: The result shares memory with a sample, or a sample was changed.
# earns: 1 of 2
def pad_collate(batch, pad_value=0):
    right = with_parts(batch, pad_value)
    batch.sort(key=lambda pair: -len(pair[0]))
    return right


# %% wrong: the pad value is made a whole number
# says: The padding is not pad_value.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    return with_parts(batch, round(pad_value) if abs(pad_value) < 1 else pad_value)


# %% wrong: IndexError for an empty batch
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    batch[0]
    return with_parts(batch, pad_value)


# %% wrong: a tensor full of the pad value as float, cast back
# says: The ids went through float32 and lost their last digit. Make x in the dtype of the samples.
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def pad_collate(batch, pad_value=0):
    if not batch or len({(s.dtype, s.shape[1:]) for s, _ in batch}) > 1:
        raise ValueError("nothing to collate, or samples of several kinds")
    length = torch.tensor([len(s) for s, _ in batch])
    first = batch[0][0]
    x = torch.full((len(batch), int(length.max()), *first.shape[1:]), float(pad_value)).to(first.dtype)
    for row, (s, _) in zip(x, batch, strict=True):
        row[: len(s)] = s
    mask = torch.arange(x.shape[1]) < length[:, None]
    return {"x": x, "mask": mask, "length": length, "label": torch.tensor([label for _, label in batch])}


# %% wrong: F.pad for two dimensions only
# says: Your code raised RuntimeError: Padding length should be less than or equal to two times the input
# says: A step may be a single number, so that a sequence is (T,), or a tensor of any shape:
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    if not batch:
        raise ValueError("empty")
    xs, ys = zip(*batch, strict=True)
    if any(x.shape[1:] != xs[0].shape[1:] or x.dtype != xs[0].dtype for x in xs):
        raise ValueError("differ")
    lengths = torch.tensor([len(x) for x in xs])
    longest = int(lengths.max())
    x = torch.stack([torch.nn.functional.pad(x, (0, 0, 0, longest - len(x)), value=pad_value) for x in xs])
    return {"x": x, "mask": torch.arange(longest) < lengths[:, None], "length": lengths, "label": torch.tensor(ys)}


# %% wrong: F.pad of the last dimension
# says: The sequences still differ in shape after padding, so they can't be stacked: time is their FIRST
# says: The sequences still differ in shape after padding, so they can't be stacked: time is their FIRST
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    if not batch:
        raise ValueError("empty")
    xs, ys = zip(*batch, strict=True)
    if any(x.shape[1:] != xs[0].shape[1:] or x.dtype != xs[0].dtype for x in xs):
        raise ValueError("differ")
    lengths = torch.tensor([len(x) for x in xs])
    longest = int(lengths.max())
    x = torch.stack([torch.nn.functional.pad(x, (0, longest - len(x)), value=pad_value) for x in xs])
    return {"x": x, "mask": torch.arange(longest) < lengths[:, None], "length": lengths, "label": torch.tensor(ys)}


# %% wrong: pad_sequence, with assertions
# says: An empty batch, different trailing dimensions or different dtypes must raise ValueError.
# earns: 1 of 2
# caught: hidden
def pad_collate(batch, pad_value=0):
    assert batch
    xs, ys = zip(*batch, strict=True)
    assert all(x.shape[1:] == xs[0].shape[1:] and x.dtype == xs[0].dtype for x in xs)
    lengths = torch.tensor([len(x) for x in xs])
    x = torch.nn.utils.rnn.pad_sequence(list(xs), batch_first=True, padding_value=pad_value)
    return {"x": x, "mask": torch.arange(x.shape[1]) < lengths[:, None], "length": lengths, "label": torch.tensor(ys)}


# %% wrong: one step too many in the mask
# says: The mask of row i must be True on its first length[i] steps, and only there.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    if not batch:
        raise ValueError("empty")
    xs, ys = zip(*batch, strict=True)
    if any(x.shape[1:] != xs[0].shape[1:] or x.dtype != xs[0].dtype for x in xs):
        raise ValueError("differ")
    lengths = torch.tensor([len(x) for x in xs])
    x = torch.nn.utils.rnn.pad_sequence(list(xs), batch_first=True, padding_value=pad_value)
    return {"x": x, "mask": torch.arange(x.shape[1]) <= lengths[:, None], "length": lengths, "label": torch.tensor(ys)}


# %% wrong: a mask for each number
# says: The mask has one value per step, not one per number. Compute it from the lengths.
# earns: 0 of 2
def pad_collate(batch, pad_value=0):
    found = with_parts(batch, pad_value)
    mask = found["mask"].reshape(*found["mask"].shape, *[1] * (found["x"].dim() - 2))
    return found | {"mask": mask.expand(found["x"].shape).clone()}
