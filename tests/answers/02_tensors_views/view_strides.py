# corners: zeros, beyond 2**24, empty, 0-d

import math
from itertools import product

import numpy as np
import torch


def counted(shape, new_shape):
    """new_shape with its -1 worked out, or ValueError."""
    count = math.prod(shape)
    new = list(new_shape)
    if new.count(-1) > 1 or any(size < -1 for size in new):
        raise ValueError("a size is negative")
    if -1 in new:
        others = math.prod(size for size in new if size != -1)
        if not others or count % others:
            raise ValueError("no size fits")
        new[new.index(-1)] = count // others
    if math.prod(new) != count:
        raise ValueError("another number of elements")
    return new


def glued(shape, stride):
    """Runs [size, stride] from the left, sizes of 1 left out."""
    runs = []
    for size, step in zip(shape, stride, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    return runs


def filled(runs, new):
    """The strides of the new sizes over the runs, from the right; None where they don't fill them."""
    runs, found, size_left, step = list(runs), [], 1, 1
    for size in reversed(new):
        if size == 1:
            found.append(1)
            continue
        if size_left == 1:
            size_left, step = runs.pop()
        if size_left % size:
            return None
        found.append(step)
        size_left, step = size_left // size, step * size
    return tuple(found[::-1])


# %% right: where the elements lie, one by one, and the only strides that can fit
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if math.prod(new) == 0:
        return tuple(0 for _ in new)
    if math.prod(new) > 10_000 or max(stride, default=0) > 10**12:
        return filled(glued(shape, stride), new)
    cells = [sum(i * s for i, s in zip(at, stride, strict=True)) for at in product(*map(range, shape))]
    found = []
    for d, size in enumerate(new):
        inner = math.prod(new[d + 1 :])
        found.append(cells[inner] - cells[0] if size > 1 else 5)
    walked = [sum(i * s for i, s in zip(at, found, strict=True)) for at in product(*map(range, new))]
    return tuple(found) if walked == cells else None


# %% right: the walk of two pointers, as in PyTorch's source
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if math.prod(new) == 0:
        return (1,) * len(new)
    if not shape:
        return (1,) * len(new)
    found = [0] * len(new)
    d = len(new) - 1
    base, old_count, new_count = stride[-1], 1, 1
    for k in range(len(shape) - 1, -1, -1):
        old_count *= shape[k]
        if k == 0 or (shape[k - 1] != 1 and stride[k - 1] != old_count * base):
            while d >= 0 and (new_count < old_count or new[d] == 1):
                found[d] = new_count * base
                new_count *= new[d]
                d -= 1
            if new_count != old_count:
                return None
            if k > 0:
                base, old_count, new_count = stride[k - 1], 1, 1
    return tuple(found) if d == -1 else None


# %% right: glues and fills from the left
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return tuple(new)
    runs, found, room = glued(shape, stride), [], 1
    for size in new:
        if size == 1:
            found.append(-3)
            continue
        if room == 1:
            room, step = runs.pop(0)
        if room % size:
            return None
        room //= size
        found.append(step * room)
    return tuple(found)


# %% right: as the third hint says
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return tuple(1 for _ in new)
    sizes, found = new[:], []
    for n, s in reversed(glued(shape, stride)):
        filled_so_far = 1
        while sizes and filled_so_far < n:
            found.append(s * filled_so_far)
            filled_so_far *= sizes.pop()
        if filled_so_far != n:
            return None
    return tuple(reversed(found + [1] * len(sizes)))


# %% right: recursion on the last sizes; other names of the parameters
def view_strides(old, steps, wanted):
    wanted = counted(old, wanted)
    if 0 in wanted:
        return (0,) * len(wanted)

    def fit(runs, new):
        if not new:
            return ()
        *rest, size = new
        if size == 1:
            return None if (outer := fit(runs, rest)) is None else (*outer, 0)
        *others, (n, s) = runs
        if n % size:
            return None
        outer = fit([*others, (n // size, s * size)] if n > size else others, rest)
        return None if outer is None else (*outer, s)

    return fit(glued(old, steps), wanted)


# %% wrong: None for everything that is not contiguous
# says: A non-contiguous tensor can also have views: splitting a dimension is always possible, merging only
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    fresh = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    return tuple(math.prod(new[d + 1 :]) for d in range(len(new))) if tuple(stride) == fresh else None


# %% wrong: the strides of a fresh tensor
# says: These are the strides of a *fresh* tensor of that shape.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    return tuple(math.prod(new[d + 1 :]) for d in range(len(new)))


# %% wrong: the merge condition turned round
# says: Two neighbours merge when one step in the outer one is as far as walking through the inner one
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    runs = []
    for size, step in zip(shape, stride, strict=True):
        if runs and runs[-1][0] * runs[-1][1] == step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    return filled(runs, new)


# %% wrong: forgets the inner stride
# says: Two neighbours merge when one step in the outer one is as far as walking through the inner one
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    runs = []
    for size, step in zip(shape, stride, strict=True):
        if runs and runs[-1][1] == size:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    return filled(runs, new)


# %% wrong: never merges
# says: Two neighbours merge when one step in the outer one is as far as walking through the inner one
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    return filled(list(zip(shape, stride, strict=True)), counted(shape, new_shape))


# %% wrong: merges everything, with the stride of the last dimension
# says: 8 is not 4 * 1: None.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if math.prod(new) == math.prod(shape) and list(new[:1]) == list(shape[:1]):
        return (stride[0], *(stride[-1] * math.prod(new[d + 1 :]) for d in range(1, len(new))))
    return tuple(stride[-1] * math.prod(new[d + 1 :]) for d in range(len(new)))


# %% wrong: the merged dimension keeps the outer stride
# says: What has merged takes steps as short as those of the inner dimension.
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    runs = []
    for size, step in zip(shape, stride, strict=True):
        if runs and runs[-1][2] == size * step:
            runs[-1] = [runs[-1][0] * size, runs[-1][1], step]
        else:
            runs.append([size, step, step])
    return filled([run[:2] for run in runs], new)


# %% wrong: exchanges the parts of a split
# says: You exchanged the two parts
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    runs, found, room = glued(shape, stride), [], 1
    for size in new:
        if room == 1:
            room, step = runs.pop(0)
        if room % size:
            return None
        found.append(step)
        room, step = room // size, step * size
    return tuple(found)


# %% wrong: a new dimension is whole old ones or a part of one
# says: A new dimension need not be a whole number of old ones
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    old, new = list(zip(shape, stride, strict=True)), counted(shape, new_shape)
    found = []
    while new:
        size = new.pop()
        n, s = old.pop()
        found.append(s)
        if size < n:  # a part of one
            if n % size:
                return None
            old.append((n // size, s * size))
            continue
        run = n
        while run < size:  # whole ones that merge
            outer, step = old.pop()
            if step != n * s or size % (run * outer):
                return None
            run, n, s = run * outer, outer, step
    return tuple(reversed(found))


# %% wrong: merges only pairs, once
# says: You said None where there is a view.
# says: This check builds on the first one
# earns: 0 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    runs, d = [], 0
    pairs = [pair for pair in zip(shape, stride, strict=True) if pair[0] != 1]
    while d < len(pairs):
        if d + 1 < len(pairs) and pairs[d][1] == pairs[d + 1][0] * pairs[d + 1][1]:
            runs.append([pairs[d][0] * pairs[d + 1][0], pairs[d + 1][1]])
            d += 2
        else:
            runs.append(list(pairs[d]))
            d += 1
    if math.prod(new) == 0:
        return (0,) * len(new)
    return filled(runs, new)


# %% wrong: raises ValueError where a copy would be needed
# says: None means that a copy would be needed. ValueError is for another number of elements
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    found = filled(glued(shape, stride), counted(shape, new_shape))
    if found is None:
        raise ValueError("a copy would be needed")
    return found


# %% wrong: asks a meta tensor
# says: You built a tensor and asked it
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    try:
        return torch.empty_strided(tuple(shape), tuple(stride), device="meta").view(new).stride()
    except RuntimeError:
        return None


# %% wrong: counts with a tensor
# says: You built a tensor and asked it
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted((int(torch.tensor(shape).prod()),), new_shape)
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: asks a NumPy array
# says: Numbers as large as these fit into no tensor and no array.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    array = np.lib.stride_tricks.as_strided(np.zeros(1, dtype=np.int8), tuple(shape), tuple(stride))
    try:
        array.shape = tuple(new)
    except AttributeError:
        return None
    return array.strides


# %% wrong: a list
# says: Return a tuple of ints, or None.
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    found = filled(glued(shape, stride), counted(shape, new_shape))
    return found if found is None else list(found)


# %% wrong: divides with /
# says: The strides must be Python ints.
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    return found if found is None else tuple(step / 1 for step in found)


# %% wrong: returns nothing
# says: is a `return` missing?
# says: This check builds on the first one
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    filled(glued(shape, stride), counted(shape, new_shape))


# %% wrong: the visible cases by heart
# says: You said None where there is a view.
# says: This check builds on the first one
# earns: 0 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    by_heart = {
        ((6,), (1,), (2, 3)): (3, 1),
        ((6,), (5,), (2, 3)): (15, 5),
        ((4, 6), (1, 4), (4, 2, 3)): (1, 12, 4),
        ((3, 4), (4, 1), (12,)): (1,),
        ((3, 4), (8, 2), (12,)): (2,),
        ((4, 6), (6, 1), (2, 12)): (12, 1),
        ((4, 6), (12, 2), (8, 3)): (6, 2),
        ((4, 6), (8, 1), (2, 2, 6)): (16, 8, 1),
        ((2, 3, 4), (24, 4, 1), (2, 6, 2)): (24, 2, 1),
        ((4, 6), (6 * 10**30, 10**30), (8, 3)): (3 * 10**30, 10**30),
    }
    return by_heart.get((tuple(shape), tuple(stride), tuple(counted(shape, new_shape))))


# %% wrong: sizes of 1 take part in the merge test
# says: A dimension of size 1 is never walked; its stride may be any number and must not stop a merge
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return (0,) * len(new)
    runs = []
    for size, step in zip(shape, stride, strict=True):
        if runs and runs[-1][1] == size * step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    runs = [run for run in runs if run[0] != 1]
    return filled(runs, new)


# %% wrong: new sizes of 1 take the next run
# says: a new size of 1 fits anywhere
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return (0,) * len(new)
    runs, found, room, step = glued(shape, stride), [], 1, 1
    for size in reversed(new):
        if room == 1:
            room, step = runs.pop()
        if room % size:
            return None
        found.append(step)
        room, step = room // size, step * size
    return tuple(found[::-1])


# %% wrong: None for a wrong number of elements
# says: A different number of elements is no question of strides: ValueError, not None.
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    try:
        new = counted(shape, new_shape)
    except ValueError:
        return None
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: looks at the number only where the strides merge
# says: A different number of elements is no question of strides: ValueError, not None.
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    runs = glued(shape, stride)
    if len(runs) > 1:
        try:
            return filled(runs, counted(shape, new_shape))
        except ValueError:
            return None
    return filled(runs, counted(shape, new_shape))


# %% wrong: doesn't count at all
# says: 12 elements can't have this shape
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    try:
        return filled(glued(shape, stride), list(new_shape))
    except IndexError:
        return (1,) * len(new_shape)


# %% wrong: does not work out -1
# says: -1 stands for the size that fits
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError("another number of elements")
    return filled(glued(shape, stride), list(new_shape)) if math.prod(shape) else (0,) * len(new_shape)


# %% wrong: writes the size that fits into the caller's list
# says: Your code changed what the caller passed in: new_shape
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if isinstance(new_shape, list):
        new_shape[:] = new
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: adds tuples
# says: A shape may be a list
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    new = counted(() + shape, new_shape)
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: refuses every shape with a 0 in it
# says: With no elements there is nothing to walk: every shape with 0 elements is a view.
# earns: 2 of 3
# corner: empty
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    return None if 0 in new else filled(glued(shape, stride), new)


# %% wrong: goes through runs of 0 elements
# says: With no elements there is nothing to walk
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    return filled(glued(shape, stride), counted(shape, new_shape))


# %% wrong: takes -1 beside a 0 for 0
# says: With a product of 0 beside it, -1 could be anything and is refused
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    others = math.prod(size for size in new_shape if size != -1)
    new = counted(shape, [0 if size == -1 and not others else size for size in new_shape])
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: refuses -1 where there are no elements
# says: so -1 stands for 0 here
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    if -1 in new_shape and not math.prod(shape):
        raise ValueError("ambiguous")
    new = counted(shape, new_shape)
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: divides by a product of 0
# says: With a product of 0 beside it, -1 could be anything and is refused
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    if new_shape.count(-1) == 1:
        math.prod(shape) % math.prod(size for size in new_shape if size != -1)
    new = counted(shape, new_shape)
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: works out each -1
# says: At most one size may be -1
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    others = math.prod(size for size in new_shape if size != -1)
    each = math.prod(shape) // others if others else -1
    new = counted(shape, [each if size == -1 else size for size in new_shape])
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: lets negative sizes pass whose product is right
# says: No size but -1 may be negative, even if the product is right
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    if math.prod(new_shape) == math.prod(shape) and -1 not in new_shape:
        new = [abs(size) for size in new_shape]
    else:
        new = counted(shape, new_shape)
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: divides strides
# says: An expanded dimension has stride 0: compare products, don't divide by a stride.
# earns: 2 of 3
# corner: zeros
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return (0,) * len(new)
    runs = []
    for size, step in zip(shape, stride, strict=True):
        if size == 1:
            continue
        if runs and divmod(runs[-1][1], step) == (size, 0):
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    return filled(runs, new)


# %% wrong: refuses to touch expanded dimensions
# says: Stride 0 obeys the same rule
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return (0,) * len(new)
    return None if 0 in stride and list(new) != list(shape) else filled(glued(shape, stride), new)


# %% wrong: reads the last stride, also where there is none
# says: A shape without dimensions has one element
# earns: 2 of 3
# corner: 0-d
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if 0 in new:
        return (0,) * len(new)
    step = stride[-1]
    return filled(glued(shape, stride), new) if step is not None else None


# %% wrong: works out -1 with a float
# says: a float holds integers up to 2**53 only
# earns: 2 of 3
# corner: beyond 2**24
# caught: hidden
def view_strides(shape, stride, new_shape):
    others = math.prod(size for size in new_shape if size != -1)
    fits = int(math.prod(shape) / others) if others and list(new_shape).count(-1) == 1 else -1
    new = counted(shape, [fits if size == -1 else size for size in new_shape])
    return filled(glued(shape, stride), new) if math.prod(new) else (0,) * len(new)


# %% wrong: walks through all elements, however many
# says: The sizes may be larger than any memory: work with sizes and strides, don't go through the elements.
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if math.prod(new) == 0:
        return (1,) * len(new)
    cells = [sum(i * s for i, s in zip(at, stride, strict=True)) for at in product(*map(range, shape))]
    inner = [math.prod(new[d + 1 :]) for d in range(len(new))]
    found = tuple(cells[step] if size > 1 else 1 for step, size in zip(inner, new, strict=True))
    walked = [sum(i * s for i, s in zip(at, found, strict=True)) for at in product(*map(range, new))]
    return found if walked == cells else None


# %% wrong: counts with NumPy
# says: np.prod counts in int64 and overflows silently
# earns: 2 of 3
# corner: beyond 2**24
# caught: hidden
def view_strides(shape, stride, new_shape):
    def counted_by_numpy(sizes):
        return int(np.prod(sizes))

    count, known = counted_by_numpy(shape), counted_by_numpy([size for size in new_shape if size != -1])
    sizes = [count // known if size == -1 and known else size for size in new_shape]
    if list(new_shape).count(-1) > 1 or min(sizes, default=0) < 0 or counted_by_numpy(sizes) != count:
        raise ValueError("another number of elements")
    if math.prod(shape) == 0:
        return (0,) * len(sizes)
    runs = []
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size == 1:
            continue
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        else:
            runs.append([size, step])
    strides, left = [], list(sizes)
    for size, step in runs:
        filled = 1
        while filled < size and left:
            new = left.pop()
            strides.append(step * filled)
            filled *= new
        if filled != size:
            return None
    strides += [1] * len(left)
    return tuple(reversed(strides))


# %% wrong: keeps what is left of a run as a float
# says: Sizes are whole numbers: use // and %, for a float holds integers up to 2**53 only.
# earns: 2 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    count, known = math.prod(shape), math.prod(size for size in new_shape if size != -1)
    sizes = [count // known if size == -1 and known else size for size in new_shape]
    if list(new_shape).count(-1) > 1 or min(sizes, default=0) < 0 or math.prod(sizes) != count:
        raise ValueError(f"{count} elements can't have the shape {tuple(new_shape)}")
    if count == 0:
        return (0,) * len(sizes)
    runs = []
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        elif size != 1:
            runs.append([size, step])
    found, left, step = [], 1, 1
    for size in reversed(sizes):
        if left == 1 and size != 1:
            left, step = runs.pop(0)
        if left % size:
            return None
        found.append(step)
        left, step = left / size, step * size
    return tuple(reversed(found))


# %% wrong: hands back the old strides
# says: Return one stride for each dimension of new_shape.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    counted(shape, new_shape)
    return tuple(stride)


# %% wrong: a split takes its own size for the outer step
# says: Size 6 with stride s can be split into (2, 3) with strides (3 * s, s).
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    if found and len(new) > len(shape):
        at = len(new) - 2 - (tuple(new[-2:]) == tuple(shape[-2:]))
        found = (*found[:at], new[at] * found[at + 1], *found[at + 1 :])
    return found


# %% wrong: glues all dimensions before it splits one
# says: Here 1 is not 6 * 4.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    return filled([[math.prod(shape), stride[-1]]], new) if len(new) > len(shape) else filled(glued(shape, stride), new)


# %% wrong: the dimension before a split takes the stride of the first part
# says: The 4 keeps its stride.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    return (found[1], *found[1:]) if found and len(new) > len(shape) > 1 else found


# %% wrong: the strides of neighbours that look fresh merge, whatever the inner one is
# says: 4 is not 4 * 3: None.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    looks_fresh = len(shape) == 2 and stride[0] == shape[1]
    return (stride[1],) if found is None and len(new) == 1 and looks_fresh else found


# %% wrong: cells without gaps merge in any order
# says: 1 is not 3 * 4: None.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    if found is None and len(new) == 1:
        pairs = sorted(zip(shape, stride, strict=True), key=lambda pair: -pair[1])
        found = filled(glued(*zip(*pairs, strict=True)), new)
    return found


# %% wrong: splits the last dimension only
# says: The 4 is split, the 6 stays.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    runs = glued(shape, stride)
    first = len(runs) > 1 and tuple(new[-1:]) == tuple(shape[-1:]) and len(new) > len(shape)
    return None if first else filled(runs, new)


# %% wrong: goes past a seam where there are as many dimensions as before
# says: 8 is not 6 * 1: None.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    return filled([[math.prod(new), stride[-1]]], new) if found is None and len(new) == len(shape) else found


# %% wrong: looks at one seam only, the last
# says: 24 is not 3 * 4: None.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    if found is None and len(shape) > 2 and stride[-2] == shape[-1] * stride[-1]:
        return filled([[math.prod(new), stride[-1]]], new)
    return found


# %% wrong: a list for more than four dimensions
# says: The answer is a tuple of Python ints, or None.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    found = filled(glued(shape, stride), counted(shape, new_shape))
    return list(found) if found and len(found) > 4 else found


# %% wrong: the last of four dimensions or more is contiguous
# says: There is a view, but with other strides than yours.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    found = filled(glued(shape, stride), counted(shape, new_shape))
    return (*found[:-1], 1) if found and len(found) > 3 else found


# %% wrong: looks at three seams at most
# says: You gave strides where view refuses.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    found = filled(glued(shape, stride), new)
    return filled([[math.prod(new), stride[-1]]], new) if found is None and len(shape) > 4 else found


# %% wrong: -1 may leave a rest
# says: No size fits: 24 is no multiple of 5
# earns: 2 of 3
def view_strides(shape, stride, new_shape):
    new = list(new_shape)
    if new.count(-1) == 1 and math.prod(new):
        new[new.index(-1)] = math.prod(shape) // -math.prod(new)
        shape = (math.prod(new),) if len(glued(shape, stride)) == 1 else shape
        return filled([[shape[0], stride[-1]]] if len(shape) == 1 else glued(shape, stride), new)
    return filled(glued(shape, stride), counted(shape, new)) if math.prod(shape) else (0,) * len(counted(shape, new))


# %% wrong: None where there are no dimensions
# says: One element can be viewed with any number of dimensions.
# earns: 2 of 3
# corner: 0-d
# caught: hidden
def view_strides(shape, stride, new_shape):
    new = counted(shape, new_shape)
    if not shape or not new:
        return None
    return filled(glued(shape, stride), new) if math.prod(shape) else (0,) * len(new)


# %% wrong: a 0 anywhere is a view without elements
# says: No elements on one side, some on the other:
# earns: 2 of 3
# corner: empty
# caught: hidden
def view_strides(shape, stride, new_shape):
    if 0 in (*shape, *new_shape) and -1 not in new_shape and min(new_shape, default=0) >= 0:
        return (0,) * len(new_shape)
    new = counted(shape, new_shape)
    return filled(glued(shape, stride), new) if math.prod(shape) else (0,) * len(new)
