# corners: second name, 0-d, empty

import io

import numpy as np
import torch


def bytes_kept(*tensors):
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def compact(t):
    if t.untyped_storage().nbytes() <= t.numel() * t.element_size():
        return t
    return t.clone()


# %% right: a set of storage handles; compact through a fresh tensor
def bytes_kept(*tensors):
    seen, total = set(), 0
    for t in tensors:
        storage = t.untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            total += storage.nbytes()
    return total


def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return torch.empty(t.shape, dtype=t.dtype, device=t.device).copy_(t)


# %% right: a set of (address, size) pairs; an arithmetic copy
def bytes_kept(*tensors):
    return sum(size for _, size in {(t.untyped_storage().data_ptr(), t.untyped_storage().size()) for t in tensors})


def compact(t):
    return t * torch.ones((), dtype=t.dtype) if t.untyped_storage().nbytes() > t.nbytes else t


# %% right: clone with contiguous_format
def compact(t):
    needed = t.numel() * t.dtype.itemsize
    return t if len(t.untyped_storage()) <= needed else t.clone(memory_format=torch.contiguous_format)


# %% right: copies once more, through cat
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return torch.cat([t.reshape(-1)]).reshape(t.shape)


# %% right: a result that is a view of a fresh storage of the right size
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return torch.stack([t]).squeeze(0)


# %% wrong: adds up numel * element_size
# says: You counted the elements of the tensors. A view of one row keeps the whole storage alive.
# earns: 1 of 2
# lesson
def bytes_kept(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


# %% wrong: adds up Tensor.nbytes
# says: You counted the elements of the tensors.
# earns: 1 of 2
def bytes_kept(*tensors):
    return sum(t.nbytes for t in tensors)


# %% wrong: counts shared storages repeatedly
# says: A storage shared by several of the tensors was counted more than once.
# earns: 1 of 2
# lesson
def bytes_kept(*tensors):
    return sum(t.untyped_storage().nbytes() for t in tensors)


# %% wrong: distinguishes by the tensors' data_ptr()
# says: You told views of one storage apart by where they begin.
# earns: 1 of 2
# lesson
def bytes_kept(*tensors):
    return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


# %% wrong: distinguishes by storage and offset
# says: You told views of one storage apart by where they begin.
# earns: 1 of 2
def bytes_kept(*tensors):
    keys = {(t.untyped_storage().data_ptr(), t.storage_offset()): t.untyped_storage() for t in tensors}
    return sum(storage.nbytes() for storage in keys.values())


# %% wrong: distinguishes by Python object
# says: Two tensor objects can share one storage: distinct tensors is not distinct storages.
# earns: 1 of 2
# corner: second name
def bytes_kept(*tensors):
    return sum({id(t): t.untyped_storage().nbytes() for t in tensors}.values())


# %% wrong: a set of tensors
# says: Two tensor objects can share one storage
# earns: 1 of 2
def bytes_kept(*tensors):
    return sum(t.untyped_storage().nbytes() for t in set(tensors))


# %% wrong: a set of sizes
# says: Two storages of the same size are still two storages.
# earns: 1 of 2
def bytes_kept(*tensors):
    return sum({t.untyped_storage().nbytes() for t in tensors})


# %% wrong: counts elements
# says: Asked for are bytes, not elements.
# earns: 1 of 2
def bytes_kept(*tensors):
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // t.element_size() for t in tensors}
    return sum(storages.values())


# %% wrong: counts the elements of each tensor
# says: Asked for are bytes, not elements.
# earns: 1 of 2
def bytes_kept(*tensors):
    return sum(t.numel() for t in tensors)


# %% wrong: takes four bytes for every element
# says: You counted the elements of the tensors.
# earns: 1 of 2
def bytes_kept(*tensors):
    return 4 * sum(t.numel() for t in tensors)


# %% wrong: storage elements times four
# says: An element does not always have four bytes
# earns: 1 of 2
# caught: hidden
def bytes_kept(*tensors):
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // t.element_size() * 4 for t in tensors}
    return sum(sizes.values())


# %% wrong: uses the deprecated .storage()
# says: Tensor.storage() is deprecated (TypedStorage): use untyped_storage().
# earns: 1 of 2
def bytes_kept(*tensors):
    return sum({t.storage().data_ptr(): t.storage().nbytes() for t in tensors}.values())


# %% wrong: the largest storage only
# says: Your function returned the largest storage, but it must add up all storages.
# earns: 1 of 2
def bytes_kept(*tensors):
    return max((t.untyped_storage().nbytes() for t in tensors), default=0)


# %% wrong: fails without tensors
# says: Without tensors the answer is 0
# earns: 1 of 2
# corner: empty
# caught: hidden
def bytes_kept(*tensors):
    first, *rest = tensors
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in (first, *rest)}
    return sum(storages.values())


# %% wrong: a tensor in place of an int
# says: expected an int, got a tensor
# earns: 1 of 2
def bytes_kept(*tensors):
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return torch.tensor(list(storages.values())).sum()


# %% wrong: compacts with contiguous()
# says: contiguous() returns the same tensor when it is contiguous already
# earns: 1 of 2
# lesson
def compact(t):
    return t.contiguous()


# %% wrong: returns the row as it is
# says: The row itself came back, and with it the whole storage.
# earns: 1 of 2
def compact(t):
    return t


# %% wrong: clones in any case
# says: Nothing to gain here: the tensor already fills its storage
# earns: 1 of 2
def compact(t):
    return t.clone()


# %% wrong: clones every view
# says: t itself came back, though its storage is larger
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t.clone() if t._is_view() else t


# %% wrong: clones whenever the sizes differ
# says: The expanded tensor needs fewer bytes than its copy would: return it as it is.
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t.clone() if t.untyped_storage().nbytes() != t.numel() * t.element_size() else t


# %% wrong: counts elements against bytes
# says: Nothing to gain here
# earns: 1 of 2
def compact(t):
    return t.clone() if t.untyped_storage().nbytes() > t.numel() else t


# %% wrong: takes four bytes an element
# says: t itself came back, though its storage is larger
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t.clone() if t.untyped_storage().nbytes() > 4 * t.numel() else t


# %% wrong: copies only what is at most half of its storage
# says: t itself came back, though its storage is larger
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t.clone() if t.untyped_storage().nbytes() >= 2 * t.nbytes else t


# %% wrong: judges by the offset
# says: The row itself came back
# earns: 1 of 2
def compact(t):
    return t.clone() if t.storage_offset() else t


# %% wrong: copies into a buffer that is larger than needed and returns a view of it
# says: The compacted tensor still keeps 256 bytes alive.
# earns: 1 of 2
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    buffer = torch.empty(2 * t.numel(), dtype=t.dtype)
    out = buffer[: t.numel()].view(t.shape)
    return out.copy_(t)


# %% wrong: another view of the same storage
# says: The compacted tensor still keeps 8192 bytes alive.
# earns: 1 of 2
def compact(t):
    return t if t.untyped_storage().nbytes() <= t.nbytes else t.view(t.shape)


# %% wrong: compacts to a flat tensor
# says: The result of compact must keep shape, dtype and values: result: expected shape (1, 32), got (32,)
# earns: 1 of 2
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return t.flatten().clone()


# %% wrong: through Python lists, which forget the dtype
# says: The result of compact must keep shape, dtype and values
# earns: 1 of 2
# caught: hidden
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return torch.tensor(t.tolist()).reshape(t.shape)


# %% wrong: detaches on the way
# says: The copy left the autograd graph: clone keeps it, detach / torch.tensor do not.
# earns: 1 of 2
# caught: hidden
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return t.detach().clone()


# %% wrong: through NumPy
# says: The copy left the autograd graph
# earns: 1 of 2
# caught: hidden
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return torch.from_numpy(np.array(t.numpy(), copy=True))


# %% wrong: saves and loads, which keeps the storage
# says: The compacted tensor still keeps 8192 bytes alive.
# earns: 1 of 2
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    return torch.load(file)


# %% wrong: moves t to a new storage
# says: You gave the caller's tensor another storage
# earns: 1 of 2
def compact(t):
    return t.set_(t.clone()) if t.untyped_storage().nbytes() > t.nbytes else t


# %% wrong: distinguishes by address and dtype
# says: A storage that is seen as two dtypes
# earns: 1 of 2
# caught: hidden
def bytes_kept(*tensors):
    storages = {(t.untyped_storage().data_ptr(), t.dtype): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


# %% wrong: makes a single element anew, in the default dtype
# says: hidden test: compact: a single float64 element
# says: The result of compact must keep shape, dtype and values
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return t.clone() if t.dim() else torch.tensor(t.item())


# %% wrong: makes a single element anew, outside the graph
# says: hidden test: compact: the gradient of a single element passes through
# says: The copy left the autograd graph
# earns: 1 of 2
# caught: hidden
def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    return t.clone() if t.dim() else torch.tensor(t.item(), dtype=t.dtype)


# %% wrong: does not bother about a few bytes
# says: t itself came back, though its storage is larger than its elements need
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t.clone() if t.untyped_storage().nbytes() > t.nbytes + 3 else t


# %% wrong: decides by the tensor of which t is a view
# says: t itself came back, though its storage is larger
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t.clone() if t._base is not None and t._base.nbytes > t.nbytes else t


# %% wrong: a copy with room to grow
# says: The compacted tensor still keeps more bytes alive than it needs.
# earns: 1 of 2
# caught: hidden
def compact(t):
    if t.untyped_storage().nbytes() <= t.numel() * t.element_size():
        return t
    room = t.new_empty(t.numel() + (t.dtype != torch.float32))
    return room[: t.numel()].view(t.shape).copy_(t)


# %% wrong: t * 1 as a copy
# says: Your copy of a bool tensor is int64
# earns: 1 of 2
# caught: hidden
def compact(t):
    return t * 1 if t.untyped_storage().nbytes() > t.numel() * t.element_size() else t


# %% wrong: works out where the storage begins from where the view does
# says: The data_ptr() of a tensor without elements is 0
# earns: 1 of 2
# corner: empty
# caught: hidden
def bytes_kept(*tensors):
    starts = {t.data_ptr() - t.storage_offset() * t.element_size(): t.untyped_storage().nbytes() for t in tensors}
    return sum(starts.values())


# %% wrong: hands out the copy that it has made of the same cells before
# says: The second call returned the copy of the first
# earns: 1 of 2
# caught: hidden
copies = {}


def compact(t):
    if t.untyped_storage().nbytes() <= t.nbytes:
        return t
    cells = t.data_ptr(), t.shape, t.stride(), t.dtype
    if cells not in copies:
        copies[cells] = t.clone()
    return copies[cells]


# %% wrong: gives t itself another storage
# says: You gave the caller's tensor another storage
# earns: 1 of 2
def compact(t):
    if t.untyped_storage().nbytes() > t.nbytes:
        t.data = t.data.clone()
    return t
