# corners: empty, equal values, maximum, zeros

import torch


# %% right: allocates (B, T) and writes row by row
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if lengths.numel() else 0
    mask = torch.zeros(len(lengths), T, dtype=torch.bool, device=lengths.device)
    for i, n in enumerate(lengths):
        mask[i, :n] = True
    return mask


# %% right: builds the rows on the CPU and moves the mask
def padding_mask(lengths, T=None):
    numbers = lengths.tolist()
    if T is None:
        T = max(numbers, default=0)
    mask = torch.ones(len(numbers), T, dtype=torch.bool)
    for i, n in enumerate(numbers):
        mask[i, n:] = False
    return mask.to(lengths.device)


# %% right: keeps expand but clones before the loop
def padding_mask(lengths, T=None):
    if T is None:
        T = int(max(lengths)) if len(lengths) > 0 else 0
    mask = torch.ones(1, T, dtype=torch.bool, device=lengths.device).expand(len(lengths), T).clone()
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask


# %% right: counts positions with cumsum
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if lengths.numel() else 0
    positions = torch.ones(len(lengths), T, dtype=torch.int64, device=lengths.device).cumsum(1)
    return positions <= lengths.unsqueeze(1)


# %% right: lengths as column, arange as row
def padding_mask(lengths, T=None):
    T = (int(lengths.max()) if lengths.numel() else 0) if T is None else T
    return lengths.view(-1, 1) > torch.arange(T).to(lengths.device).view(1, -1)


# %% right: nested lists
def padding_mask(lengths, T=None):
    T = max(lengths.tolist(), default=0) if T is None else T
    rows = [[t < n for t in range(T)] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=lengths.device).reshape(len(lengths), T)


# %% right: other names of the parameters
def padding_mask(counts, width=None):
    if width is None:
        width = max(counts.tolist(), default=0)
    return counts.reshape(-1, 1) > torch.arange(width, device=counts.device)


# %% right: rows out of a triangle
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.amax()) if len(lengths) else 0
    triangle = torch.ones(T + 1, T, dtype=torch.bool, device=lengths.device).tril(-1)
    return triangle[lengths.clamp(max=T).long()]


# %% right: positions and lengths as float32
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, dtype=torch.float32, device=lengths.device) < lengths.float()[:, None]


# %% wrong: the code as given
# says: All rows are the same: after expand they are one row of memory, so every write hit all of them.
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def padding_mask(lengths, T=None):
    T = T if T is not None else int(lengths.max())
    mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask


# %% wrong: clones after the loop
# says: All rows are the same
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def padding_mask(lengths, T=None):
    T = T if T is not None else int(lengths.max())
    mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask.clone()


# %% wrong: contiguous() after the loop
# says: All rows are the same
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = T if T is not None else int(lengths.max())
    mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)
    for i, n in enumerate(lengths):
        mask[i, n:] = False
    return mask.contiguous()


# %% wrong: compares with <=
# says: Position t belongs to the sequence when t < length; you counted one too many.
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return torch.arange(T) <= lengths[:, None]


# %% wrong: compares positions with lengths elementwise
# says: Positions and lengths were compared elementwise
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return torch.arange(T) < lengths


# %% wrong: puts positions in rows
# says: The mask is (T, B): sequences belong in rows.
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return torch.arange(T)[:, None] < lengths


# %% wrong: marks the padding
# says: True marks the real positions, not the padding.
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return torch.arange(T) >= lengths[:, None]


# %% wrong: pads on the left
# says: The rows end with the real positions; padding comes after them.
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return torch.arange(T).flip(0) < lengths[:, None]


# %% wrong: returns float
# says: The mask must be bool: expected torch.bool, got torch.float32
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return (torch.arange(T) < lengths[:, None]).float()


# %% wrong: ignores T
# says: T was given, but the mask has as many columns as the largest length.
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max())
    return torch.arange(T) < lengths[:, None]


# %% wrong: never more than the largest length
# says: T was given, but the mask has as many columns as the largest length.
# says: This check builds on the first one
# earns: 0 of 1
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else min(T, int(lengths.max()))
    return torch.arange(T) < lengths[:, None]


# %% wrong: returns an expanded row when all lengths are equal
# says: The values are right, but several elements share one memory cell (a stride is 0)
# earns: 0.5 of 1
# corner: equal values
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    if len(lengths.unique()) == 1:
        return (torch.arange(T) < lengths[0]).expand(len(lengths), T)
    return torch.arange(T) < lengths[:, None]


# %% wrong: gives at least one column
# says: the mask has no column then
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    mask = torch.arange(T, device=lengths.device) < lengths[:, None]
    return mask if T else torch.zeros(len(lengths), 1, dtype=torch.bool)


# %% wrong: calls lengths.max() on an empty batch
# says: An empty batch has no maximum: T=None must give shape (0, 0).
# earns: 0.5 of 1
# corner: empty
# caught: hidden
def padding_mask(lengths, T=None):
    T = int(lengths.max()) if T is None else T
    return torch.arange(T, device=lengths.device) < lengths[:, None]


# %% wrong: takes T=0 for None
# says: T=0 is not T=None: asked for is a mask without columns.
# earns: 0.5 of 1
# corner: zeros
# caught: hidden
def padding_mask(lengths, T=None):
    T = T or (int(lengths.max()) if len(lengths) else 0)
    return torch.arange(T, device=lengths.device) < lengths[:, None]


# %% wrong: turns lengths into a column in place
# says: Your code changed what the caller passed in: lengths.shape was
# earns: 0.5 of 1
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, device=lengths.device) < lengths.unsqueeze_(1)


# %% wrong: clamps the lengths in place
# says: Your code changed what the caller passed in: lengths was changed
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, device=lengths.device) < lengths.clamp_(max=T)[:, None]


# %% wrong: builds the mask on the CPU
# says: The result is on the wrong device
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T) < lengths[:, None]


# %% wrong: writes row by row on the CPU
# says: The result is on the wrong device
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    mask = torch.zeros(len(lengths), T, dtype=torch.bool)
    for i, n in enumerate(lengths):
        mask[i, :n] = True
    return mask


# %% wrong: nested lists without a device
# says: The result is on the wrong device
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    T = max(lengths.tolist(), default=0) if T is None else T
    rows = [[t < n for t in range(T)] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(lengths), T)


# %% wrong: views a length as an int64
# says: Lengths may be int32 as well
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    lengths = lengths.view(torch.int64)
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, device=lengths.device) < lengths[:, None]


# %% wrong: a view of one buffer for all masks
# says: The two masks share their memory.
# earns: 0.5 of 1
# caught: hidden
buffer = torch.zeros(64, 4096, dtype=torch.bool)


def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    if lengths.device.type == "meta":
        return torch.empty(len(lengths), T, dtype=torch.bool, device="meta")
    return buffer[: len(lengths), :T].copy_(torch.arange(T, device="cpu") < lengths[:, None])


# %% wrong: hands a mask out again that it has made before
# says: The two masks share their memory.
# earns: 0.5 of 1
# caught: hidden
made = {}


def padding_mask(lengths, T=None):
    if lengths.device.type == "meta":
        return torch.empty(len(lengths), T, dtype=torch.bool, device="meta")
    numbers = tuple(lengths.tolist())
    if (numbers, T) not in made:
        width = max(numbers, default=0) if T is None else T
        made[numbers, T] = torch.arange(width, device=lengths.device) < lengths[:, None]
    return made[numbers, T]


# %% wrong: expands one row of ones when no sequence is padded
# says: several elements share one memory cell
# earns: 0.5 of 1
# corner: maximum
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    if lengths.device.type != "meta" and len(lengths) and bool((lengths >= T).all()):
        return torch.ones(1, T, dtype=torch.bool, device=lengths.device).expand(len(lengths), -1)
    return torch.arange(T, device=lengths.device) < lengths[:, None]


# %% wrong: positions in uint8
# says: Positions or lengths were converted to a dtype that is too narrow.
# earns: 0.5 of 1
# corner: maximum
# caught: hidden
def padding_mask(lengths, T=None):
    T = int(lengths.max() if len(lengths) else 0) if T is None else T
    return torch.arange(T, device=lengths.device).to(torch.uint8) < lengths[:, None]


# %% wrong: positions and lengths as int16
# says: Positions or lengths were converted to a dtype that is too narrow.
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, dtype=torch.int16, device=lengths.device) < lengths.to(torch.int16)[:, None]


# %% wrong: positions and lengths as float16
# says: Positions or lengths were converted to a dtype that is too narrow.
# earns: 0.5 of 1
# caught: hidden
def padding_mask(lengths, T=None):
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, device=lengths.device).half() < lengths.half()[:, None]
