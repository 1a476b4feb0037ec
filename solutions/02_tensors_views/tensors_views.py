# %% [markdown]
# # Tensors, memory and views
#
# `RuntimeError: view size is not compatible with input tensor's size and stride`. Sooner or later everybody gets this
# error, puts `.contiguous()` in front of `.view()`, and moves on. Months later a slice of one row keeps a batch of 16
# MiB alive, or the "best weights" that were saved turn out to be the last ones. All three have the same cause: a tensor
# is a way of looking at a row of memory cells. After this chapter you can
#
# - say for any tensor where each of its elements is in memory, from shape, stride and offset alone;
# - tell before you run it whether an operation returns a view, the same object or a copy, and prove it with the
#   storage's address;
# - decide between view, reshape, contiguous and clone, and explain why PyTorch refuses a `view`;
# - use stride 0 and overlapping windows to save memory, and know which writes into such views are dangerous;
# - cut, select, drop and reorder without losing positions, ties, gradients or the last element.
#
# **50 minutes to read, 135 minutes to practise, 20 points.** You need Python and the idea of a NumPy array, but not
# chapter 1. One exercise (2.6) takes snapshots of a model's weights, and it helps if you have trained a model once.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import math
import time
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.demos import error_of, results_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.bins import three_bins
from torchkata.pictures.call_path import call_path
from torchkata.pictures.cuts import cut_ruler
from torchkata.pictures.strides import draw_strip, strides_explorer
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
    separation,
)

# %% [markdown]
# Here is that error, from a table that was transposed:

# %%
scores = torch.arange(12).reshape(3, 4)  # three rows of four
error_of(lambda: scores.t().view(12))
print(scores.t().reshape(12).tolist())

# %% [markdown]
# `view` refuses, `reshape` doesn't. What does `reshape` do that `view` must not do? Section 2.2 has the rule. PyTorch
# passes every operation through the stations of this picture, and this chapter is about the last one, the storage:

# %%
call_path("storage")

# %% [markdown]
# ## 2.1 A tensor is a window onto a row of cells
#
# Two tensors that look different can share the same memory. To see how, you need four words.
#
# Memory has no rows and columns. It is one long row of numbered cells, and the *storage* of a tensor is a piece of it.
# The tensor itself is a description of how to read that storage:
#
# - the *dtype* says what is in a cell;
# - the *shape* says how many elements there are along each dimension;
# - the *stride* says, for each dimension, how many cells apart an element and its neighbour along that dimension are;
# - the *storage offset* is the cell where the tensor begins.
#
# **Predict.** `x` is stored row by row in twelve cells, numbered 0 to 11. What are the strides of `x.t()` (the
# transpose), `x[1:]` and `x[:, ::2]`?

# %% facts=["02-storage-and-tensor", "02-stride-and-transpose"]
x = torch.arange(12).reshape(3, 4)
views = {"x": x, "x.t()": x.t(), "x[1:]": x[1:], "x[:, ::2]": x[:, ::2]}

for name, view in views.items():
    place = f"stride {view.stride()}  offset {view.storage_offset()}"
    print(f"{name:10} shape {tuple(view.shape)}  {place}")

# %% [markdown]
# The strides are (1, 4), (4, 1) and (4, 2), and no element was moved. `x.t()` swaps the two sizes and the two strides,
# `x[1:]` begins four cells later, and a step of 2 doubles the stride of its dimension. For every tensor with two
# dimensions
#
#     cell of element [i, j] = offset + i * stride[0] + j * stride[1]
#
# and so on for more dimensions. Here are the four tensors on the strip of cells that they share. The numbers in the
# cells are not values; they count the elements of that tensor in index order.

# %%
draw_strip(views)

# %% [markdown]
# `x.t()` uses all cells, but jumps back and forth; `x[:, ::2]` leaves out every second one.
#
# **Predict.** `lower = x[1:]`, then `lower[0, 0] = -1`. What is in `x`?


# %% facts=["02-view-shares-storage"]
def same_storage(a, b):
    """Whether two tensors use the same storage."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


lower = x[1:]
print("begin at the same address:", lower.data_ptr() == x.data_ptr())
print("bytes between them:       ", lower.data_ptr() - x.data_ptr())
print("the same storage:         ", same_storage(lower, x))
print("x[:1] and x[2:]:          ", same_storage(x[:1], x[2:]), "- without a common cell")

lower[0, 0] = -1
print("x is now", x.tolist())
print("x.view(2, 6) is now", x.view(2, 6).tolist())

# %% [markdown]
# `x[1, 0]`, which is in cell 4, is now -1. A *view* shares the cells of its base, so what you write through one shows
# up in the other.
#
# How do you find out whether two tensors share memory? `tensor.data_ptr()` is the address of the tensor's *first
# element*, here 4 elements of 8 bytes further on, so it can't tell you. The address of the storage says more. If it is
# equal for two tensors that have elements, both use one storage, though perhaps different cells of it. If it differs,
# they share no memory that PyTorch has allocated. Memory that comes from NumPy is an exception, which section 2.3
# shows.
#
# **By hand.** `x` has 12 elements of int64. How large, in bytes, is the storage of `x`? And how large is the storage of
# `x[1:]`, which has 8 elements?

# %% facts=["02-storage-and-tensor", "02-stride-and-transpose"]
print("storage of x:     ", x.untyped_storage().nbytes(), "bytes")
print("storage of x[1:]: ", x[1:].untyped_storage().nbytes(), "bytes")
print("elements of x[1:]:", x[1:].numel() * x.element_size(), "bytes")
print("strides in torch: ", x.stride(), " in NumPy:", x.numpy().strides)

# %% [markdown]
# Both are 96 bytes. A view has no storage of its own, so it keeps the whole storage of its base alive. (Strides count
# elements in PyTorch and bytes in NumPy.)
#
# *Contiguous* means that the strides are those of a fresh tensor of this shape. If you walk through its elements in
# index order (*row-major*: the last index moves fastest), you visit neighbouring cells. The stride of a dimension of
# size 1 is never used. Does `contiguous()` rearrange the existing cells? Look at the cells themselves. (`as_strided`
# reads the storage as one row; section 2.4 explains it.)


# %% facts=["02-contiguous-merges-memory-blocks"]
def cells(t):
    """What is in a tensor's storage, read as one row from its first cell to its last."""
    return t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0).tolist()


x = torch.arange(12).reshape(3, 4)
turned = x.t()
copied = turned.contiguous()
for name, t in {"x": x, "x.t()": turned, "x.t().contiguous()": copied}.items():
    shared = "shares" if same_storage(t, x) else "own storage"
    print(f"{name:18} stride {t.stride()}  {shared:11}  cells {cells(t)}")

# %% [markdown]
# It doesn't. At first there was one storage; now there are two. `contiguous()` writes the elements a second time, in
# index order, into a new storage. `x.t()` and its copy are equal element by element.
#
# Now try it yourself. The explorer takes a fresh `x` and up to three operations. *next element* walks through the
# result in index order and shows the sum that leads to each cell.

# %%
strides_explorer()

# %% [markdown]
# Try these, and before you look, say what the strides will be:
#
# - `t`, then `view` with the argument `12`: the `view` is refused. Then use `reshape` instead and notice "a copy".
# - `slice` with `1:, ::2`, then *next element*: the walk begins in cell 4 and moves 2 cells at a time within a row.
# - `unsqueeze` with `0`, then `expand` with `2, -1, -1`: twice as many elements on the same cells, each marked ×2. The
#   new dimension has stride 0, the subject of section 2.4.
# - `unfold` with `1, 2, 1`: windows of two that overlap. The inner cells are used twice.
#
# **Now you know.** Shape, stride and offset say where every element is. A view is another description of the same
# cells.

# %% [markdown]
# ## 2.2 View, same object or copy?
#
# One question decides whether a write shows up elsewhere and how much memory stays alive: what did that operation
# return? There are three bins. It returned *the same object* (`y is x`), *a view* (another tensor on the same storage),
# or *a copy* (with its own storage).
#
# **Sort them.** `x` is contiguous, of shape (3, 4) and dtype int64. Which bin does each of these go into?
#
# `x[0:2]` · `x.t()` · `x.view(4, 3)` · `x.unsqueeze(0).expand(2, 3, 4)` · `x.unsqueeze(0)` · `x.diagonal()` ·
# `x.detach()` · `x.narrow(1, 1, 2)` · `x.reshape(-1)` · `x.flatten()` · `x.contiguous()` · `x.to(x.dtype)` ·
# `x[[0, 1]]` · `x[x > 3]` · `x + 1` · `x.clone()` · `x.repeat(2, 1)` · `x.t().contiguous()` · `x.t().reshape(-1)` ·
# `x.to(torch.int32)`
#
# (`narrow(1, 1, 2)` is the slice of 2 columns that begins at column 1; `repeat(2, 1)` writes the rows twice.)

# %% facts=["02-ordinary-ops-return-new-tensors"]
three_bins(torch.arange(12).reshape(3, 4))

# %% [markdown]
# - *Views*: operations whose result can always be described by shape, stride and offset. These are slices, transposes,
#   another shape for a contiguous tensor, a new dimension of size 1, a diagonal (stride 5 here), `detach`, which leaves
#   everything as it is, and `expand`, which adds a dimension of stride 0 (section 2.4).
# - *The same object*: a request that is already met. `contiguous()` and `to()` then return their input itself.
# - *Copies*: arithmetic, and everything that picks elements freely. Compare `x[0:2]` with `x[[0, 1]]`. They give the
#   same rows, but a list, an index tensor or a mask could name any rows in any order, and no stride describes that.
# - *It depends*: `reshape(-1)` is a view of `x` and a copy of `x.t()`.
#
# [Tensor Views](https://docs.pytorch.org/docs/stable/tensor_view.html) lists all operations that return views.
#
# ### The rule of view
#
# Back to the error of the opening. In index order, the elements of `scores.t()` are in cells 0, 4, 8, 1, 5, 9 … No
# single stride gives that order. Which shapes can be viewed, then? Two steps decide it:
#
# - *Splitting* a dimension is always possible. Size 6 with stride s becomes (2, 3) with strides (3·s, s).
# - *Merging* two neighbouring dimensions is possible if one step in the outer is as far as walking through the whole
#   inner: `stride[d] == size[d + 1] * stride[d + 1]`. (Dimensions of size 1 don't count.)
#
# **Predict.** `wide` is the left half of a table, with shape (3, 4) and strides (8, 1). `every_second` has the same
# shape, and strides (8, 2). Which of these is refused: `wide.view(3, 2, 2)`, `wide.view(12)` or
# `every_second.view(12)`?

# %% facts=["02-views-allow-any-reshape"]
wide = torch.arange(24).reshape(3, 8)[:, :4]
every_second = torch.arange(24).reshape(3, 4, 2)[:, :, 0]

results_of(
    {
        "wide.view(3, 2, 2).stride()": lambda: wide.view(3, 2, 2).stride(),
        "wide.view(12).stride()": lambda: wide.view(12).stride(),
        "every_second.view(12).stride()": lambda: every_second.view(12).stride(),
    }
)
print("every_second is contiguous:", every_second.is_contiguous())

flat = wide.reshape(12)
print("reshape shares memory:", same_storage(flat, wide))
print("1.0 viewed as int32:  ", torch.tensor([1.0]).view(torch.int32).item())

# %% [markdown]
# Only `wide.view(12)` is refused, because 8 is not 4 · 1. For `every_second`, 8 is 4 · 2, so its rows can be merged
# although it isn't contiguous. `reshape` returns a view when it can and silently copies when it must. Use `view` when
# you depend on shared memory, since it never copies, and `reshape` when you don't care. In both, one size may be -1 and
# is computed from the others. If you pass a dtype instead of a shape, `view` reads the same bytes as another type and
# converts nothing.
#
# ### Who owns its memory?
#
# **Find the line.** Two of these four lines give a tensor with its own cells. Which two?

# %% facts=["02-transpose-of-contiguous-is-not-contiguous", "02-contiguous-makes-a-copy", "02-assignment-needs-clone"]
x = torch.arange(12).reshape(3, 4)
candidates = {
    "a = x": x,
    "b = x[:1].contiguous()": x[:1].contiguous(),
    "c = x[:1].clone()": x[:1].clone(),
    "d = x.t().contiguous()": x.t().contiguous(),
}
for line, t in candidates.items():
    bytes_alive = t.untyped_storage().nbytes()
    print(f"{line:24} shares x's storage: {same_storage(t, x)!s:6} keeps {bytes_alive} bytes alive")

print("x.t() is contiguous:", x.t().is_contiguous(), " one row:", x[:1].is_contiguous())

# %% [markdown]
# The lines for `c` and `d` do. `=` binds a name and copies nothing. One row is already contiguous, so `contiguous()`
# returns the row itself, which is still a view, and the storage of the batch can't be freed while the row is alive. For
# `x.t()` it makes a copy, and `x.t()` itself doesn't change. If you want a copy, call `clone()`. The clone stays in the
# autograd graph, the record that PyTorch keeps for gradients; `detach().clone()` gives you a copy that is independent
# of both the memory and the graph.
#
# ### Writing in place
#
# In-place *methods* end with an underscore. They are not the only operations that write in place.
#
# **Predict.** `tail` is a view of `x`. Which of these six lines don't change `tail`?
#
# `x.fill_(1)` · `x += 1` · `x[2] = -5` · `torch.mul(x, 10, out=x)` · `F.relu(x, inplace=True)` · `x = x + 1`

# %% facts=["02-inplace-ops-end-with-underscore"]
x = torch.zeros(4)
tail = x[2:]

x.fill_(1)
print("x.fill_(1)                 ", tail.tolist())
x += 1
print("x += 1                     ", tail.tolist())
x[2] = -5
print("x[2] = -5                  ", tail.tolist())
torch.mul(x, 10, out=x)
print("torch.mul(x, 10, out=x)    ", tail.tolist())
F.relu(x, inplace=True)
print("F.relu(x, inplace=True)    ", tail.tolist())
x = x + 1
print("x = x + 1                  ", tail.tolist())

# %% [markdown]
# Only `x = x + 1` leaves `tail` alone, because it creates a new tensor and doesn't touch the old cells. Item
# assignment, `+=` and similar operators, `out=` and `inplace=True` write into the same cells. And not every method with
# an underscore writes data: `requires_grad_()` sets a flag, `t_()` swaps sizes and strides.
#
# ### `channels_last`: contiguous in another order
#
# A batch of images can be stored in a special layout, `channels_last`. The channels of a pixel are then neighbours in
# memory, which is faster for convolutions on many processors. Shape and indices stay the same, and only the strides
# change.

# %%
image = torch.randn(2, 3, 4, 5)  # batch, channels, height, width
last = image.to(memory_format=torch.channels_last)
print("shape", tuple(last.shape), " strides", image.stride(), "->", last.stride())
print("equal:", torch.equal(image, last), " contiguous:", last.is_contiguous(), end=" ")
print(" in its own format:", last.is_contiguous(memory_format=torch.channels_last))
error_of(lambda: last.view(2, -1))

# %% [markdown]
# The `view` fails by the rule above, because merging channels, height and width needs strides in which the channel is
# the slowest of the three. `flatten(1)` works, because it copies. `clone` and element-wise operations keep such a
# layout.
#
# **Now you know.** A result that no shape, stride and offset can describe must be a copy. A result that they can
# describe may be a view, but need not be; `x[[0, 1]]`, for example, is a copy. `view` can always split a dimension, and
# it can merge two if one continues the other.

# %% exercise="predict-strides"

# %% exercise="channels-last"

# %% exercise="split-heads"

# %% exercise="view-strides"

# %% exercise="bytes-kept-alive"

# %% [markdown]
# ## 2.3 How data gets in, and as what type
#
# An array and a tensor, or a weight and its snapshot, can share the same cells without your knowing it.
#
# **Predict.** `a` is a NumPy array of float64. After `a[0] = 5`, in which of the three tensors do you see the 5?

# %% facts=["02-as-tensor-shares-numpy", "02-tensor-always-copies"]
a = np.zeros(3)
made = torch.tensor(a)
shared = torch.as_tensor(a)
converted = torch.as_tensor(a, dtype=torch.float32)

a[0] = 5
shared[1] = 6
print("torch.tensor(a):         ", made.tolist(), made.dtype)
print("torch.as_tensor(a):      ", shared.tolist(), shared.dtype)
print("as_tensor(a, float32):   ", converted.tolist(), converted.dtype)
print("the array:               ", a.tolist())

last_two = torch.from_numpy(a[1:])
last_two[0] = 7
print("after last_two[0] = 7:   ", shared.tolist())
print("same_storage:            ", same_storage(shared, last_two))

# %% [markdown]
# Only `torch.as_tensor(a)` shows it. `torch.tensor` always copies. `torch.as_tensor` (like `torch.from_numpy`) shares
# memory with an array, in both directions, as long as nothing has to be converted; another dtype, another device or a
# Python list needs a copy. All of them keep the array's dtype, and `tensor` and `as_tensor` let you name another. NumPy
# creates float64, and that is where unexpected doubles come from. Prevent them at the source with
# `torch.as_tensor(array, dtype=torch.float32)`.
#
# The last lines of the output are the exception from section 2.1. PyTorch wraps each array that it gets in a storage
# that begins where the array begins. Two slices of one array become two storages with different addresses that share
# cells.
#
# Not every array can be wrapped, and some arrays shouldn't be:

# %% shows_warning="UserWarning"
error_of(lambda: torch.from_numpy(a[::-1]))
error_of(lambda: shared[::-1])

read_only = np.ones(3)
read_only.flags.writeable = False
warning_of(lambda: torch.from_numpy(read_only).zero_(), lines=1)
print("the read-only array:", read_only.tolist())

# %% [markdown]
# NumPy reverses an array with a negative stride, and strides in PyTorch can't be negative. So copy the reversed array
# (`a[::-1].copy()`), or use `tensor.flip(0)`, which also copies. pandas and memory-mapped files may give you read-only
# arrays. PyTorch warns once when it wraps such an array, and then writes into it anyway.
#
# Here is a bug from practice. Somebody keeps the weights of the best epoch, in two ways:

# %% facts=["02-detach-does-not-copy"]
weight = torch.ones(3, requires_grad=True)
detached = weight.detach()
snapshot = weight.detach().clone()

optimizer = torch.optim.SGD([weight], lr=0.5)
(weight * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
optimizer.step()

print("weight:          ", weight.tolist())
print("detach():        ", detached.tolist(), " shares memory:", same_storage(detached, weight))
print("detach().clone():", snapshot.tolist())
base = weight[1:]._base
print("_base:           ", base is weight, "for a slice,", detached._base, "for detach()")

# %% [markdown]
# `detach()` gives another tensor on the same cells, without gradient tracking. The optimizer writes into those cells in
# place, so the "old" weights are the new ones. (`weight.data` also shares the cells, and hides writes from autograd;
# section 4.6 shows the harm.) In other people's code you may find `_base` used as the tensor that a view was made from.
# It is a private attribute that autograd uses, and a detached tensor has none although it shares all its cells. So
# compare storages instead.
#
# Which dtype does a number get if you don't name one?

# %% facts=["02-usual-dtypes", "02-legacy-tensor-constructors"]
for data in ([1], [1.5], [1, 2.5, True], [1j]):
    print(f"torch.tensor({data})".ljust(30), torch.tensor(data).dtype)

print(
    "torch.Tensor(3), a legacy constructor: shape",
    tuple(torch.Tensor(3).shape),
    " torch.Tensor([1, 2]):",
    torch.Tensor([1, 2]).dtype,
)

logits, labels = torch.zeros(2, 3), torch.tensor([0, 2], dtype=torch.int32)
error_of(lambda: F.cross_entropy(logits, labels))

# %% [markdown]
# Floats become float32 and integers int64, the usual types of data and of class labels; mixed input is promoted to one
# type that can represent all of it. `cross_entropy` needs its labels as int64 ("Long") or uint8 ("Byte").
# `torch.Tensor(3)`, with a capital T, is three uninitialised numbers, that is, whatever was in memory. Use
# `torch.tensor(data, dtype=…)`.
#
# Three calls from older code now warn, and two of them will be removed:

# %% facts=["02-typed-storage-deprecated", "02-torch-range", "02-tensor-always-copies"] shows_warning="UserWarning"
warning_of(lambda: x.storage())
warning_of(lambda: torch.range(0, 3))
warning_of(lambda: torch.tensor(weight))

# %% [markdown]
# Write `x.untyped_storage()`, which is a flat row of bytes; `torch.arange(0, 4)`, which leaves out the end like
# Python's `range`; and `weight.detach().clone()`.
#
# **Now you know.** `torch.tensor` and `clone` copy, `as_tensor` and `detach` share.

# %% exercise="snapshot-weights"

# %% [markdown]
# ## 2.4 Stride 0: many elements, one cell
#
# How can a mask for 32 sentences take the memory of one? With a stride of 0.
#
# `expand` repeats a dimension of size 1 without repeating any data.
#
# **Predict.** `b = torch.zeros(3, 1)` and `e = b.expand(3, 4)`. How many elements of `e` change with `e[0, 0] = 9`?

# %% facts=["02-expand-is-stride-zero-view", "02-expand-inplace-writes"] shows_warning="UserWarning"
b = torch.zeros(3, 1)
e = b.expand(3, 4)
print("shape", tuple(e.shape), " stride", e.stride(), " shares b's storage:", same_storage(e, b))

e[0, 0] = 9
print("after e[0, 0] = 9, e:", e.tolist())
print("after e[0, 0] = 9, b:", b.tolist())
error_of(lambda: e.add_(1))
e.fill_(7)
print("after e.fill_(7), b: ", b.tolist())
first_column = torch.tensor([[True, False, False, False]])
warning_of(lambda: e.masked_fill_(first_column, 5), lines=1)
print("after masked_fill_ of one column, e[0]:", e[0].tolist())
error_of(lambda: e.__setitem__(slice(None), torch.ones(4)))  # e[:] = torch.ones(4)
e.clone().add_(1)
print("after e.clone().add_(1), b:", b.tolist())

# %% [markdown]
# Four elements change. A stride of 0 means that a step along this dimension moves nowhere. The four elements of a row
# are one cell, so a write to one of them is a write to all of them, and to `b`. `add_`, `mul_`, `copy_` and the
# assignment of a tensor notice this and refuse (so does `e[:] = 1` in torch 2.13, but not in 2.15). `fill_`, `zero_`
# and an assignment to a part in which no cell occurs twice, like the single element here, go through without a warning.
# `masked_fill_` warns only once per process and does the most harm: in an expanded mask, one masked column masks all.
# Make it a rule to call `clone()` before you write into something that was expanded.
#
# How much memory does it save? `repeat` makes the same values in new memory:

# %% facts=["02-expand-versus-repeat", "02-repeat-copies"]
z = torch.tensor([1, 2, 3])
expanded, repeated = z.expand(6, 3), z.repeat(6, 1)
print("equal values:", torch.equal(expanded, repeated))
print("expand:", expanded.untyped_storage().nbytes(), "bytes, stride", expanded.stride())
print("repeat:", repeated.untyped_storage().nbytes(), "bytes, stride", repeated.stride())
error_of(lambda: z.expand(6, 1))

repeated[0, 0] = 99
print("z after a write into repeated:", z.tolist(), " the next row:", repeated[1].tolist())

# %% [markdown]
# `expand` takes *sizes*, those of the result; `repeat` takes *multiplicities*, how often each dimension is repeated.
# `expand(6, 1)` would make the dimension of 3 smaller. In `expand`, -1 means "keep this size". New dimensions can only
# be added in front, and an existing one must have size 1 or keep its size.
#
# *Broadcasting* is an `expand` that you don't write. **By hand.** A (3, 1) and a (4,) tensor are added. Which strides
# do the two have once they are expanded? And if you call `.sum().backward()` on the result, what is the gradient at
# each element of the (3, 1) tensor, which was used four times?

# %% facts=["02-expand-is-stride-zero-view"]
column, line = torch.zeros(3, 1, requires_grad=True), torch.zeros(4, requires_grad=True)
wide_column, wide_line = torch.broadcast_tensors(column, line)
print("shapes", tuple(wide_column.shape), " strides", wide_column.stride(), wide_line.stride())

(column + line).sum().backward()
print("gradients", column.grad.tolist(), line.grad.tolist())

# %% [markdown]
# The strides are (1, 0) and (0, 1), and neither operand is copied. The gradient is 4: if an element is used several
# times, its gradients add up. The backward of `expand` is a sum, and chapter 3 has more such pairs.
#
# Not every function broadcasts. Three matrix products don't (`dot` for two vectors, `mv` for a matrix and a vector,
# `mm` for two matrices), and `@` does:

# %% facts=["02-dot-mv-mm"]
v, M, N, batch = torch.ones(3), torch.ones(2, 3), torch.ones(3, 4), torch.ones(5, 2, 3)
print("dot:", torch.dot(v, v).item(), " mv:", torch.mv(M, v).tolist())
print("mm:", tuple(torch.mm(M, N).shape))
error_of(lambda: torch.mm(batch, N))
print("batch @ N:", tuple((batch @ N).shape))

# %% [markdown]
# There are two ways to repeat, and they are easily confused.
#
# **Predict.** `z` is [1, 2, 3]. Which gives `[1, 1, 2, 2, 3, 3]`: `z.repeat(2)` or `z.repeat_interleave(2)`?

# %% facts=["02-repeat-interleave-elementwise", "02-repeat-copies"]
z = torch.tensor([1, 2, 3])
print("repeat:            ", z.repeat(2).tolist())
print("repeat_interleave: ", z.repeat_interleave(2).tolist())
print("a count for each:  ", z.repeat_interleave(torch.tensor([1, 0, 2])).tolist())

# %% [markdown]
# `z.repeat_interleave(2)` does. `repeat` puts whole copies one after the other, like `np.tile`. `repeat_interleave`
# repeats each element right after itself, like `np.repeat`, and also accepts a separate count for each element.
#
# Stride 0 is the extreme case. Strides may also be so small that neighbouring rows *overlap*. The general tool is
# `as_strided`, which reads the storage with any size, stride and offset that you name.
#
# **Predict.** `v` has 7 elements. `w = v.as_strided((3, 3), (2, 1))` has rows of three, each of which begins two cells
# after the one before. Which elements of `w` change with `w[0, 2] = 99`?

# %% varies="PyTorch does not define what an in-place operation does to cells that several elements share"
v = torch.arange(7)
w = v.as_strided((3, 3), (2, 1))
print(w.tolist())
w[0, 2] = 99
print("after w[0, 2] = 99:", w.tolist())

v = torch.arange(7)
v.as_strided((3, 3), (2, 1)).add_(10)
print("v after add_(10) through the overlapping rows:", v.tolist())

# %% [markdown]
# Two elements change, because the last element of the first row is also the first element of the next. PyTorch does
# *not* refuse `add_` here, because it checks for stride 0 and not for every overlap. On the machine where this page was
# built, cells 2 and 4 got the 10 twice, but the result is undefined. Read through overlapping views as much as you
# like, and `clone()` before you write.
#
# `as_strided` trusts you blindly and ignores the tensor's own strides, so numbers that fit a fresh tensor are wrong for
# a transposed or sliced one. Take them from `x.stride()` and `x.storage_offset()`.
#
# **Now you know.** Where several elements share a cell, reading is free and writing is dangerous.

# %% exercise="padding-mask"

# %% exercise="memory-cells"

# %% exercise="sliding-windows"

# %% [markdown]
# ## 2.5 Cutting: is the number a size, a count or a place?
#
# Parts that you cut from a tensor are also views. Three functions cut, and each takes the same number to mean something
# else.
#
# **Predict.** Eight elements are cut with `split([2, 3])` and with `tensor_split([2, 3])`. One of the two is refused.
# Which sizes do the parts of the other have?

# %% facts=["02-split-list-length-equals-dim", "02-tensor-split-list-are-indices"]
calls = ["split(3)", "tensor_split(3)", "split([2, 3])", "tensor_split([2, 3])"]
cut_ruler(8, [*calls, "split([2, 3, 3])", "tensor_split([-2])"])

# %% [markdown]
# - `split` takes *sizes*. A list must *sum* to the size of the dimension; [2, 3] sums to 5, so 8 elements can't be cut
#   that way.
# - `tensor_split` takes a *count*, or a list of *places* where to cut: [2, 3] gives `x[:2]`, `x[2:3]`, `x[3:]`, so the
#   sizes are 2, 1 and 5. The rules are those of slices, and negative places count from the end.
#
# On 8 elements, `split(3)` and `tensor_split(3)` give the same parts by accident. On ten elements they differ from each
# other, and from `chunk(3)`:

# %% facts=["02-chunk", "02-split-int", "02-tensor-split-int-like-split"]
calls = ["split(3)", "tensor_split(3)", "chunk(3)", "chunk(6)", "tensor_split(6)"]
cut_ruler(10, [*calls, "split(99)", "tensor_split([4, 12])"])

# %% [markdown]
# `split(3)` makes parts of 3 and leaves the rest for last. `tensor_split(3)` makes three parts as equal as possible,
# the longer ones first. It always makes as many parts as you asked for, even if some are empty. `chunk(3)` makes three
# parts at most: it divides 10 by 3, rounds up to 4 and cuts parts of 4. `chunk(6)` therefore makes parts of 2, and only
# five of them.

# %% facts=["02-split-returns-tuple-dim0", "02-split-int"]
a = torch.arange(12).reshape(3, 4)
parts = a.split(2)
print(type(parts).__name__, [tuple(part.shape) for part in parts])
print("views:", same_storage(parts[1], a))
print("split(2, dim=1):", [tuple(part.shape) for part in a.split(2, dim=1)])

# %% [markdown]
# All three return a tuple of views and cut along dim 0 by default.
#
# **Now you know.** `split` takes sizes, `tensor_split` takes a count or places, and `chunk` takes a maximum count.

# %% exercise="cuts-apart"

# %% [markdown]
# ## 2.6 Choosing, dropping, ordering
#
# The last section is about losing things by accident: a shape, a position, the last element, a gradient.
#
# **Predict.** `g` contains 3, -1, 0.5, 2 and -4. How long are `torch.where(g > 0, g, 0.0)` and `g[g > 0]`?

# %% facts=["02-where-removes-elements"]
g = torch.tensor([3.0, -1.0, 0.5, 2.0, -4.0])
print("where:", torch.where(g > 0, g, 0.0).tolist())
print("mask: ", g[g > 0].tolist())

# %% [markdown]
# The first has 5 elements and the second has 3. `torch.where(condition, a, b)` *replaces*: it keeps the shape, takes
# `a` where the condition is True and `b` elsewhere. A boolean mask *removes*: the result has as many elements as the
# mask has True. (With two dimensions or more, a mask of the full shape gives a flat result.)
#
# **Find the mistake.** Element `i` should be removed, so somebody concatenates what comes before it and what comes
# after it: `torch.cat([t[:i], t[i + 1 : -1]])`.

# %% facts=["02-cat-remove-ith", "02-cat-removes-by-value"]
t, i = torch.tensor([1, 2, 3, 4, 5]), 2
print("t[i + 1 : -1]:", torch.cat([t[:i], t[i + 1 : -1]]).tolist())
print("t[i + 1 :]:   ", torch.cat([t[:i], t[i + 1 :]]).tolist())
print("with a mask:  ", t[torch.arange(len(t)) != i].tolist())

t = torch.tensor([4, 2, 7, 2])
print("[4, 2, 7, 2] without place 2:", torch.cat([t[:2], t[3:]]).tolist())
print("without the value 2:", t[t != 2].tolist())

# %% [markdown]
# A slice that ends at -1 leaves out the last element, so two elements are gone. Cutting and concatenating removes by
# *position*. To remove by *value*, use a mask, which works however often the value occurs.
#
# `sort` returns two things, and people tend to throw away the second:

# %% facts=["02-sort-returns-pair"]
x = torch.tensor([3.0, 1.0, 2.0])
values, indices = x.sort()
print("x:", x.tolist(), " values:", values.tolist(), " indices:", indices.tolist())

restored = torch.empty_like(values)
restored[indices] = values
print("x[indices] is sorted:", torch.equal(x[indices], values))
print("the way back:", restored.tolist())

# %% [markdown]
# `x` itself is not sorted. The sorted values no longer tell you where they came from, but the indices do: `x[indices]`
# reads in sorted order, and `restored[indices] = values` puts everything back. `topk` returns the same kind of pair,
# largest first. PyTorch doesn't promise which of several equal elements comes first; if that matters, use `sort(dim=-1,
# stable=True)`.
#
# The next cell finds the largest absolute value of each row and divides the row by it:

# %% facts=["02-rowwise-absmax"]
x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
print("max(1):          ", tuple(x.abs().max(1).values.shape))
error_of(lambda: x / x.abs().max(1).values)
print("amax, keepdim:   ", tuple(x.abs().amax(dim=1, keepdim=True).shape))
print("largest afterwards:", (x / x.abs().amax(dim=1, keepdim=True)).abs().amax(1).tolist())

# %% [markdown]
# `max(dim)` drops the dimension, so the result doesn't broadcast against the rows. With a square matrix it does
# broadcast, but against the columns, which is worse. `keepdim=True` keeps the dimension with size 1.
#
# A percentile can be part of a loss:

# %% facts=["02-percentile-needs-numpy"]
x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
q = torch.quantile(x, 0.75)
q.backward()
print("torch.quantile(x, 0.75):", q.item(), " gradient:", x.grad.tolist())
error_of(lambda: np.percentile(x, 75))

# %% [markdown]
# `torch.quantile` takes q between 0 and 1, runs on any device, and has gradients: 3.25 is a quarter of the way from 3
# to 4, so 3 gets 0.75 and 4 gets 0.25. NumPy needs an array, and arrays have no gradients.
#
# **Which is right?** The smallest quarter of the values should be removed, and the others should keep their order.

# %% facts=["02-drop-lowest-quarter"]
x = torch.tensor([5.0, 1.0, 8.0, 3.0, 7.0, 2.0, 6.0, 4.0])
quarter = len(x) // 4
print("x[quarter:]:     ", x[quarter:].tolist())
print("sort and slice:  ", x.sort().values[quarter:].tolist())
print("topk:            ", x.topk(len(x) - quarter).values.tolist())
print("quantile as mask:", x[x > torch.quantile(x, 0.25)].tolist())

# %% [markdown]
# Only the mask is right. The first line drops the first *positions*. Sorting and `topk` drop the right values but lose
# the order. The mask has a weakness: it drops every value that equals the threshold. With other lengths, or with equal
# values, it may drop more than a quarter. The exercise requires the exact number.
#
# **Now you know.** Before you select or sort, ask what the call keeps: the shape, the order, the positions, the
# gradient.

# %% exercise="drop-lowest"

# %% [markdown]
# ## On a GPU
#
# The order in memory also costs time, because a transposed copy reads or writes cells that are far apart. This cell
# measures it. Without a GPU it shows a recorded run, in which the transposed copy took nearly four times as long.


# %% varies="a CUDA device changes what is shown"
@cuda_demo("02_tensors_views")
def order_of_memory():
    x = torch.zeros(2**14, 2**14, device="cuda")  # 1 GiB of float32
    for name, copy in {"x.clone()": x.clone, "x.t().contiguous()": x.t().contiguous}.items():
        copy()  # the first call allocates
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            copy()
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - start) / 10
        print(f"{name:20} {seconds * 1000:.2f} ms, {2 * x.nbytes / seconds / 1e9:.0f} GB/s")


order_of_memory()

# %% [markdown]
# ## Back to the beginning
#
# `view size is not compatible …` means that these dimensions can't be merged, because one doesn't continue the other.
# Before you write `.contiguous()`, ask whether you want the copy that it makes.
#
# ## Folklore, checked
#
# The table lists what people say about tensors and their memory, and whether it is true. You can expand each row to see
# its proof.

# %%
folklore("02_tensors_views")

# %% [markdown]
# `prove` runs the proof of a row on your machine. Try it with another row's id:

# %%
prove("02-where-removes-elements")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [Tensor Views](https://docs.pytorch.org/docs/stable/tensor_view.html): the list of all operations that return views,
#   and what it means for `reshape`, `flatten` and `contiguous`;
# - [Tensor Attributes](https://docs.pytorch.org/docs/stable/tensor_attributes.html): dtype, device, layout and memory
#   format; which dtypes are promoted to which;
# - [`torch.Storage`](https://docs.pytorch.org/docs/stable/storage.html): untyped storages, and what remains of the
#   typed ones;
# - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html): when two shapes fit
#   together;
# - [`torch.Tensor.expand`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html) and
#   [`torch.as_strided`](https://docs.pytorch.org/docs/stable/generated/torch.as_strided.html): the views of section
#   2.4, with their warnings about writing;
# - [`torch.tensor_split`](https://docs.pytorch.org/docs/stable/generated/torch.tensor_split.html),
#   [`torch.split`](https://docs.pytorch.org/docs/stable/generated/torch.split.html),
#   [`torch.chunk`](https://docs.pytorch.org/docs/stable/generated/torch.chunk.html): the three cutters;
# - [`torch.sort`](https://docs.pytorch.org/docs/stable/generated/torch.sort.html),
#   [`torch.topk`](https://docs.pytorch.org/docs/stable/generated/torch.topk.html),
#   [`torch.quantile`](https://docs.pytorch.org/docs/stable/generated/torch.quantile.html): ties, stability and
#   interpolation.
#
# **Next:** chapter 3, [Gather and scatter](../03_gather_scatter/gather_scatter.ipynb).
