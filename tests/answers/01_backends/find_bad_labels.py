# corners: empty, beyond 2**24, maximum

import torch

ALLOWED = (torch.int64, torch.uint8)


def checked(labels):
    if labels.dtype not in ALLOWED:
        raise TypeError(f"int64 or uint8 labels, not {labels.dtype}")
    return labels.long()


# %% right: nonzero as tuple, stacked; isin(arange)
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    good = torch.isin(wide, torch.tensor([*range(num_classes), ignore_index]))
    places = torch.nonzero(~good, as_tuple=True)
    return torch.stack(places, 1) if places and labels.dim() else torch.zeros((~good).sum(), 0, dtype=torch.long)


# %% right: Python loops, unravelled positions
def bad_labels(labels, num_classes, ignore_index=-100):
    checked(labels)
    rows = []
    for number, label in enumerate(labels.reshape(-1).tolist()):
        if label != ignore_index and label not in range(num_classes):
            row = []
            for size in reversed(labels.shape):
                number, place = divmod(number, size)
                row.insert(0, place)
            rows.append(row)
    return torch.tensor(rows, dtype=torch.int64).view(-1 if labels.dim() and rows else len(rows), labels.dim())


# %% right: argwhere on the clamped comparison, under no_grad
@torch.no_grad()
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    outside = wide.clamp(0, num_classes - 1) != wide
    return torch.argwhere(outside.logical_and(wide.ne(ignore_index)))


# %% right: fills the ignored places first
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels).clone()
    wide[wide == ignore_index] = 0
    return ((wide < 0) | (wide > num_classes - 1)).nonzero(as_tuple=False)


# %% wrong: flags ignore_index as bad
# says: You reported labels equal to ignore_index: cross_entropy skips them, they are good.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return ((wide < 0) | (wide >= num_classes)).nonzero()


# %% wrong: checks the upper bound only
# says: Negative labels other than ignore_index are also out of bounds: -1 does not mean 'last class' here.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return ((wide >= num_classes) & (wide != ignore_index)).nonzero()


# %% wrong: checks the lower bound only
# says: Labels that are too large are also out of bounds.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return ((wide < 0) & (wide != ignore_index)).nonzero()


# %% wrong: compares with -100 in place of ignore_index
# says: -100 is only the default: which label is skipped is decided by the argument ignore_index.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide >= num_classes)) & (wide != -100)).nonzero()


# %% wrong: -100 is good besides ignore_index
# says: -100 is only the default: which label is skipped is decided by the argument ignore_index.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide >= num_classes)) & (wide != -100) & (wide != ignore_index)).nonzero()


# %% wrong: an ignore_index inside the range is bad
# says: ignore_index may lie inside the range as well: then that label is skipped, and it is good.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    inside = (wide >= 0) & (wide < num_classes)
    return (~(inside ^ (wide == ignore_index))).nonzero()


# %% wrong: uses `> num_classes`
# says: With num_classes = C the last legal label is C-1; you let C pass.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
# corner: maximum
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide > num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: classes begin at 1
# says: Label 0 is the first class: it is good.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide <= 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: returns positions in the flattened tensor
# says: Positions must be coordinates in the shape of the labels (one column per dimension)
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels).flatten()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: a vector of positions
# says: With one dimension there is one column: the result has shape (n, 1).
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels).flatten()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero().flatten()


# %% wrong: returns the bad values
# says: You returned the bad values; asked for are their positions.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return labels[((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)]


# %% wrong: returns the mask
# says: You returned a mask; asked for are the positions where it is true.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return ((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)


# %% wrong: returns the good positions
# says: You reported the good labels; asked for are the bad ones.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return ((wide >= 0) & (wide < num_classes) | (wide == ignore_index)).nonzero()


# %% wrong: a tuple of index tensors
# says: give one tensor per dimension; stack them as columns.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return torch.where(((wide < 0) | (wide >= num_classes)) & (wide != ignore_index))


# %% wrong: one column per bad label
# says: Your result has one column for each bad label, but it must have one row for each.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero().t()


# %% wrong: stops at the first bad label
# says: You returned the first bad position only.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()[:1]


# %% wrong: None where nothing is bad
# says: Your function returned None.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    found = (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()
    return found if len(found) else None


# %% wrong: short-cuts with labels.min() and labels.max()
# says: labels.min()/max() of an empty tensor raises: an empty batch has no bad labels.
# earns: 1 of 2
# corner: empty
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    if wide.min() >= 0 and wide.max() < num_classes:
        return torch.empty(0, labels.dim(), dtype=torch.int64)
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: compares a uint8 tensor with Python numbers outside its range
# says: uint8 labels: a Python number that does not fit into uint8 wraps around in the comparison
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    checked(labels)
    return (((labels < 0) | (labels >= num_classes)) & (labels != ignore_index)).nonzero()


# %% wrong: widens the labels for one of the comparisons only
# says: uint8 labels: a Python number that does not fit into uint8 wraps around in the comparison
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide >= num_classes)) & (labels != ignore_index)).nonzero()


# %% wrong: accepts int32, bool and float labels
# says: cross_entropy takes int64 or uint8 class indices; torch.int32 must raise TypeError.
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = labels.long()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: accepts every whole number
# says: cross_entropy takes int64 or uint8 class indices; torch.int32 must raise TypeError.
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise TypeError(labels.dtype)
    wide = labels.long()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: refuses uint8
# says: cross_entropy takes labels of dtype uint8 as well
# earns: 1 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.dtype != torch.int64:
        raise TypeError(labels.dtype)
    return (((labels < 0) | (labels >= num_classes)) & (labels != ignore_index)).nonzero()


# %% wrong: raises ValueError for other dtypes
# says: cross_entropy takes int64 or uint8 class indices
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.dtype not in ALLOWED:
        raise ValueError(labels.dtype)
    wide = labels.long()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: asks cross_entropy whether anything is bad
# says: Your function must report all bad labels, while cross_entropy itself stops at the first one:
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    return torch.nn.functional.cross_entropy(torch.zeros(*labels.shape, num_classes), labels)


# %% wrong: a list of positions
# says: expected a tensor, got a list
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero().tolist()


# %% wrong: overwrites the ignored labels
# says: The labels belong to the caller: they must stay as they are.
# earns: 1 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    wide[wide == ignore_index] = 0
    return ((wide < 0) | (wide >= num_classes)).nonzero()


# %% right: NumPy
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"no class indices: {labels.dtype}")
    table = labels.numpy().astype("int64")
    bad = ~((table >= 0) & (table < num_classes) | (table == ignore_index))
    return torch.from_numpy(np.asarray(bad)).nonzero()


# %% right: asks cross_entropy label by label
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"no class indices: {labels.dtype}")
    bad = torch.zeros(labels.numel(), dtype=torch.bool)
    for i, label in enumerate(labels.reshape(-1, 1).long()):
        try:
            F.cross_entropy(torch.zeros(1, num_classes), label, ignore_index=ignore_index)
        except IndexError:
            bad[i] = True
    return bad.reshape(labels.shape).nonzero()


# %% wrong: nothing comes back
# says: Your function returned None, but it must return the positions.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    print((labels >= num_classes).nonzero())


# %% wrong: the last class is too large
# says: With num_classes = C the last legal label is C-1: it is good.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = labels.long()
    return (((wide < 0) | (wide >= num_classes - 1)) & (wide != ignore_index)).nonzero()


# %% wrong: takes the absolute value
# says: Fewer positions came out than there are bad labels: expected shape (4, 1), got (3, 1).
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = labels.long()
    return ((wide.abs() >= num_classes) & (wide != ignore_index)).nonzero()


# %% wrong: column by column
# says: These are the positions, but not in the order of the elements, row by row.
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"no class indices: {labels.dtype}")
    wide = labels.long()
    rows = (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()
    return rows[rows[:, -1].argsort(stable=True)] if rows.numel() else rows


# %% wrong: positions in 32 bits
# says: Positions are int64, as from nonzero: expected torch.int64, got torch.int32.
# says: This check builds on the first one
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = labels.long()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero().int()


# %% wrong: huge labels are cut to 32 bits
# says: A huge label was cut to 32 bits
# earns: 1 of 2
# corner: beyond 2**24
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"no class indices: {labels.dtype}")
    wide = labels.int()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: the last position twice where there are many
# says: More positions came out than there are bad labels:
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    bad = (wide < 0) | (wide >= num_classes)
    found = (bad & (wide != ignore_index)).nonzero()
    return torch.cat([found, found[-1:]]) if len(found) > 3 else found


# %% wrong: a single label counts as a row of one
# says: A 0-d label has no coordinates: a bad one gives shape (1, 0), a good one (0, 0).
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = torch.atleast_1d(checked(labels))
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: an ignore_index next to the last class is a label
# says: You reported labels equal to ignore_index: cross_entropy skips them, they are good.
# earns: 1 of 2
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels)
    bad = (wide < 0) | (wide >= num_classes)
    return (bad & ((wide != ignore_index) | (wide == num_classes))).nonzero()


# %% wrong: compares in float32
# says: A label next to ignore_index was taken for ignore_index itself
# earns: 1 of 2
# corner: beyond 2**24
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels).float()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()


# %% wrong: compares in float64
# says: A label next to ignore_index was taken for ignore_index itself
# earns: 1 of 2
# corner: beyond 2**24
# caught: hidden
def bad_labels(labels, num_classes, ignore_index=-100):
    wide = checked(labels).double()
    return (((wide < 0) | (wide >= num_classes)) & (wide != ignore_index)).nonzero()
