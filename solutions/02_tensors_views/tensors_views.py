# %% [markdown]
# # Tensors, memory and views
#
# `RuntimeError: view size is not compatible with input tensor's size and stride`. Sooner or later everybody meets this
# line, puts `.contiguous()` in front of `.view()`, and goes on. Months later a slice of one row keeps a batch of 16 MiB
# alive, or the "best weights" that were saved turn out to be the last ones. It is the same thing each time: a tensor is
# a way of looking at a row of memory cells. After this chapter you can
#
# - say for any tensor where each of its elements lies in memory, from shape, stride and offset alone;
# - tell before running whether an operation returns a view, the same object or a copy, and prove it with the storage's
# address;
# - decide between view, reshape, contiguous and clone, and say why a `view` is refused;
# - use stride 0 and overlapping windows to save memory, and know which writes into such views are dangerous;
# - cut, select, drop and reorder without losing positions, ties, gradients or the last element.
#
# **50 minutes to read, 135 minutes to practise, 20 points.** You need Python and the idea of a NumPy array; chapter
# 1 is not needed. One exercise (2.6) takes snapshots of a model's weights: there it helps to have trained a model once.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import math
import time
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.demos import error_of, warning_of
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
)

# %% [markdown]
# Here is the line, from a table that was turned around:

# %%
scores = torch.arange(12).reshape(3, 4)  # three rows of four
error_of(lambda: scores.t().view(12))
print(scores.t().reshape(12).tolist())

# %% [markdown]
# `view` refuses, `reshape` doesn't. What does `reshape` do that `view` may not? Section 2.2 has the rule. First, what
# lies at the end of the path that every operation takes:

# %%
call_path("storage")

# %% [markdown]
# ## 2.1 A tensor is a window onto a row of cells
#
# Two tensors that look different can be the same memory. To see it, you need four words.
#
# Memory knows no rows and columns. It is one row of numbered cells, and the *storage* of a tensor is a piece of it. The
# tensor itself is a description of how to look at that storage:
#
# - the *dtype* says what lies in a cell;
# - the *shape* says how many elements there are along each dimension;
# - the *stride* says, for each dimension, how many cells lie between an element and its neighbour along that dimension;
# - the *storage offset* is the cell in which the tensor begins.
#
# **Predict.** `x` lies row by row in twelve cells, numbered 0 to 11. What are the strides of `x.t()` (the transpose),
# `x[1:]` and `x[:, ::2]`?

# %% facts=["02-storage-and-tensor", "02-stride-and-transpose"]
x = torch.arange(12).reshape(3, 4)
views = {"x": x, "x.t()": x.t(), "x[1:]": x[1:], "x[:, ::2]": x[:, ::2]}

for name, view in views.items():
    place = f"stride {view.stride()}  offset {view.storage_offset()}"
    print(f"{name:10} shape {tuple(view.shape)}  {place}")

# %% [markdown]
# Nothing was moved. `x.t()` swaps the two sizes and the two strides, `x[1:]` begins four cells later, and a step of 2
# doubles the stride of its dimension. For every tensor of two dimensions
#
#     cell of element [i, j] = offset + i * stride[0] + j * stride[1]
#
# and so on for more. Here are the four tensors on the one strip of cells that they share. The numbers in the cells are
# not values: they count the elements of that tensor, in index order.

# %%
draw_strip(views)

# %% [markdown]
# `x.t()` uses all cells, but jumps from cell to cell; `x[:, ::2]` leaves every second one out.
#
# **Predict.** `lower = x[1:]`, then `lower[0, 0] = -1`. What is in `x`?


# %% facts=["02-view-shares-storage"]
def same_storage(a, b):
    """Whether two tensors look at the same storage."""
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
# The write shows in `x`, in cell 4. A *view* shares its base's cells, so each sees what is written through the other.
#
# How do you find out? `tensor.data_ptr()` is the address of the tensor's *first element*, here 4 elements of 8 bytes
# further on, so it can't tell you whether memory is shared. The address of the storage says more: if it is equal for
# two tensors that have elements, both look at one storage, though perhaps at different cells of it. If it differs, they
# share nothing that PyTorch has allocated. Memory that comes from NumPy is an exception, which section 2.3 shows.
#
# **By hand.** `x` has 12 elements of int64. How large is the storage of `x`, in bytes, and how large that of `x[1:]`,
# which has 8 elements?

# %% facts=["02-storage-and-tensor", "02-stride-and-transpose"]
print("storage of x:     ", x.untyped_storage().nbytes(), "bytes")
print("storage of x[1:]: ", x[1:].untyped_storage().nbytes(), "bytes")
print("elements of x[1:]:", x[1:].numel() * x.element_size(), "bytes")
print("strides in torch: ", x.stride(), " in NumPy:", x.numpy().strides)

# %% [markdown]
# 96 both times. A view has no storage of its own, so it is always the whole one that stays alive. (Strides count
# elements in PyTorch and bytes in NumPy.)
#
# *Contiguous* means that the strides are those of a fresh tensor of this shape: walking through the elements in index
# order (*row-major*: the last index moves fastest) visits neighbouring cells. Along a dimension of size 1 nobody takes
# a step, so its stride doesn't count. Does `contiguous()` put something in order that was scattered? Look at the cells
# themselves. (`as_strided` reads the storage as one row; section 2.4 comes back to it.)


# %% facts=["02-contiguous-merges-memory-blocks"]
def cells(t):
    """What lies in a tensor's storage, read as one row from its first cell to its last."""
    return t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0).tolist()


x = torch.arange(12).reshape(3, 4)
turned = x.t()
copied = turned.contiguous()
for name, t in {"x": x, "x.t()": turned, "x.t().contiguous()": copied}.items():
    shared = "shares" if same_storage(t, x) else "own storage"
    print(f"{name:18} stride {t.stride()}  {shared:11}  cells {cells(t)}")

# %% [markdown]
# There was one block before, and there are two now. `contiguous()` writes the elements down a second time, in index
# order, into a storage of its own. `x.t()` and its copy are equal element by element.
#
# Now play with it. The explorer takes a fresh `x` and up to three operations, and *next element* walks through the
# result in index order, with the sum that leads to each cell.

# %%
strides_explorer()

# %% [markdown]
# Try these, and say before you look what the strides will be:
#
# - `t`, then `view` with the argument `12`: the second is refused. Then `reshape` in its place: notice "a copy".
# - `slice` with `1:, ::2`, then *next element*: the walk begins in cell 4 and takes steps of 2.
# - `unsqueeze` with `0`, then `expand` with `2, -1, -1`: twice as many elements on the same cells, each marked ×2. The
# new dimension has stride 0; section 2.4 is about that.
# - `unfold` with `1, 2, 1`: windows of two that overlap. The inner cells are used twice.
#
# **Now you know.** Shape, stride and offset say where every element lies. A view is another description of the same
# cells.

# %% [markdown]
# ## 2.2 View, same object or copy?
#
# Whether a write shows up elsewhere, and how much memory stays alive, depends on one question: what did that operation
# return? There are three bins. It is *the same object* (`y is x`), *a view* (another tensor on the same storage), or *a
# copy* (a storage of its own).
#
# **Sort them.** `x` is contiguous, of shape (3, 4) and dtype int64. Which bin does each of these go into?
#
# `x[0:2]` · `x.t()` · `x.view(4, 3)` · `x.unsqueeze(0).expand(2, 3, 4)` · `x.unsqueeze(0)` · `x.diagonal()` ·
# `x.detach()` · `x.narrow(1, 1, 2)` · `x.reshape(-1)` · `x.flatten()` · `x.contiguous()` · `x.to(x.dtype)` ·
# `x[[0, 1]]` · `x[x > 3]` · `x + 1` · `x.clone()` · `x.repeat(2, 1)` · `x.t().contiguous()` · `x.t().reshape(-1)` ·
# `x.to(torch.int32)`
#
# (`narrow(1, 1, 2)` is the slice of 2 columns that begins at column 1; `repeat(2, 1)` writes the rows down twice.)

# %% facts=["02-ordinary-ops-return-new-tensors"]
three_bins(torch.arange(12).reshape(3, 4))

# %% [markdown]
# - *Views*: operations whose result shape, stride and offset can always describe. Slices, transposes, a new dimension
# of size 1, a diagonal (stride 5 here), and `expand`, which adds a dimension of stride 0 (section 2.4).
# - *The same object*: a request that is met already. `contiguous()` and `to()` then return their input itself.
# - *Copies*: arithmetic, and whatever picks elements freely. Compare `x[0:2]` with `x[[0, 1]]`: the same rows, but a
# list, an index tensor or a mask could name any rows in any order, and no stride describes that.
# - *It depends*: `reshape(-1)` is a view of `x` and a copy of `x.t()`.
#
# [Tensor Views](https://docs.pytorch.org/docs/stable/tensor_view.html) lists all operations that return views.
#
# ### The rule of view
#
# Back to the line of the opening. The elements of `scores.t()` in index order lie in cells 0, 4, 8, 1, 5, 9 … No single
# stride walks that way. Which shapes can be viewed, then? Two steps decide it:
#
# - *Splitting* a dimension is always possible. Size 6 with stride s becomes (2, 3) with strides (3·s, s).
# - *Merging* two neighbours is possible if one step in the outer is as far as walking through the inner:
# `stride[d] == size[d + 1] * stride[d + 1]`. (Dimensions of size 1 don't count.)
#
# **Predict.** `wide` is the left half of a table: shape (3, 4), strides (8, 1). Which of these two is refused:
# `wide.view(3, 2, 2)` or `wide.view(12)`?

# %% facts=["02-views-allow-any-reshape"]
wide = torch.arange(24).reshape(3, 8)[:, :4]
print("strides", wide.stride(), " split:", wide.view(3, 2, 2).stride())
error_of(lambda: wide.view(12))

every_second = torch.arange(24).reshape(3, 4, 2)[:, :, 0]
print(
    "strides",
    every_second.stride(),
    " merged:",
    every_second.view(12).stride(),
    "contiguous:",
    every_second.is_contiguous(),
)

flat = wide.reshape(12)
print("reshape shares memory:", same_storage(flat, wide))
print("1.0 viewed as int32:  ", torch.tensor([1.0]).view(torch.int32).item())

# %% [markdown]
# The second: 8 is not 4 · 1. `every_second` has strides (8, 2), and 8 is 4 · 2: its rows merge, although it isn't
# contiguous. `reshape` returns a view when it can and silently copies when it must. Use `view` where you count on
# shared memory, since it never copies, and `reshape` where you don't care. One size of either may be -1: it is worked
# out from the others. With a dtype in place of a shape, `view` reads the same bytes as another type and converts
# nothing.
#
# ### Who owns its memory?
#
# **Find the line.** Two of these four lines give a tensor with cells of its own. Which?

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
# `c` and `d`. `=` binds a name and copies nothing. One row is contiguous as it is, so `contiguous()` returns the row
# itself, still a view, and the storage of the batch can't be freed as long as the row lives. Of `x.t()` it makes a
# copy, and `x.t()` stays as it is. For a copy, say `clone()`. It stays in the autograd graph, the record that PyTorch
# keeps for gradients; `detach().clone()` is the copy that stands alone.
#
# ### Writing in place
#
# In-place *methods* end with an underscore. They are not the only writers.
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
# Only `x = x + 1`: it builds a new tensor and leaves the old cells alone. Item assignment, `+=` and its kin, `out=` and
# `inplace=True` write into the same cells. And not every method with an underscore writes data: `requires_grad_()` sets
# a flag, `t_()` swaps sizes and strides.
#
# ### The picture that is contiguous in another order
#
# Images have a layout of their own. In `channels_last` the channels of a pixel are neighbours in memory, which
# convolutions on many processors prefer. Shape and indices stay; only the strides change.

# %%
image = torch.randn(2, 3, 4, 5)  # batch, channels, height, width
last = image.to(memory_format=torch.channels_last)
print("shape", tuple(last.shape), " strides", image.stride(), "->", last.stride())
print("equal:", torch.equal(image, last), " contiguous:", last.is_contiguous(), end=" ")
print(" in its own format:", last.is_contiguous(memory_format=torch.channels_last))
error_of(lambda: last.view(2, -1))

# %% [markdown]
# The `view` fails by the rule above: to merge channels, height and width, the channel would have to be the slowest of
# the three. `flatten(1)` works; it copies. `clone` and element-wise operations keep such a layout.
#
# **Now you know.** What no shape, stride and offset can describe must be a copy. What they can describe may be a view,
# but need not be: `x[[0, 1]]` copies. `view` splits always and merges where one dimension continues the next.

# %% exercise="predict-strides"

# %% exercise="channels-last"

# %% exercise="split-heads"

# %% exercise="view-strides"

# %% exercise="bytes-kept-alive"

# %% [markdown]
# ## 2.3 How data gets in, and as what type
#
# An array and a tensor, or a weight and its snapshot, can be the same cells without your knowing it.
#
# **Predict.** `a` is a NumPy array of float64. After `a[0] = 5`, which of the three tensors show the 5?

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
# `torch.tensor` always copies. `torch.as_tensor` (and `torch.from_numpy`) shares memory with an array, in both
# directions, as long as nothing has to change: another dtype, another device or a Python list need a copy. All of them
# keep the array's dtype, and `tensor` and `as_tensor` let you name another. NumPy makes float64, and that is where
# unexpected doubles come from. The cure is at the source: `torch.as_tensor(array, dtype=torch.float32)`.
#
# The last lines are the exception from section 2.1. PyTorch wraps each array that it is given in a storage that begins
# where the array begins. Two slices of one array become two storages with different addresses, and share cells.
#
# Not every array can be wrapped, and some shouldn't be:

# %% shows_warning="UserWarning"
error_of(lambda: torch.from_numpy(a[::-1]))
error_of(lambda: shared[::-1])

read_only = np.ones(3)
read_only.flags.writeable = False
warning_of(lambda: torch.from_numpy(read_only).zero_(), lines=1)
print("the read-only array:", read_only.tolist())

# %% [markdown]
# NumPy reverses an array by a negative stride, and strides in PyTorch can't be negative. So copy the reversed array
# (`a[::-1].copy()`), or use `tensor.flip(0)`, which also copies. A read-only array, as pandas and memory-mapped files
# give them, is wrapped with one warning, and then PyTorch writes into it all the same.
#
# A bug story. Somebody keeps the weights of the best epoch, in two ways:

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
# place, so the "old" weights are the new ones. (`weight.data` shares the cells as well, and hides writes from autograd;
# section 4.6 shows the harm.) You may meet `_base` in other people's code, where it is taken for the tensor that a view
# looks at. It is a private attribute for autograd's own use, and a detached tensor has none although it shares all its
# cells. So ask for the storage instead.
#
# What type does a number get when you name none?

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
# type that holds it all. `cross_entropy` wants its labels as int64 ("Long") or uint8 ("Byte"). `torch.Tensor(3)`, with
# a capital T, is three uninitialised numbers: whatever lay in memory. Use `torch.tensor(data, dtype=…)`.
#
# Three names that you will find in older code, and that warn or will go:

# %% facts=["02-typed-storage-deprecated", "02-torch-range", "02-tensor-always-copies"] shows_warning="UserWarning"
warning_of(lambda: x.storage())
warning_of(lambda: torch.range(0, 3))
warning_of(lambda: torch.tensor(weight))

# %% [markdown]
# Write `x.untyped_storage()`, a flat row of bytes; `torch.arange(0, 4)`, half open like Python's `range`; and
# `weight.detach().clone()`.
#
# **Now you know.** `torch.tensor` and `clone` copy, `as_tensor` and `detach` share.

# %% exercise="snapshot-weights"

# %% [markdown]
# ## 2.4 Stride 0: many elements, one cell
#
# How can a mask for 32 sentences take the memory of one? By a stride that doesn't move.
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
error_of(lambda: e.__setitem__(slice(None), 1))  # e[:] = 1
e.clone().add_(1)
print("after e.clone().add_(1), b:", b.tolist())

# %% [markdown]
# Four. A stride of 0 means: a step along this dimension does not move. The four elements of a row are one cell, so a
# write to one of them is a write to all, and to `b`. `add_`, `mul_`, `copy_` and the assignment `e[:] = 1` notice that
# and refuse. `fill_`, `zero_` and assigning to a part in which no cell comes twice, like the single element here, go
# through without a word. `masked_fill_` warns, once in a process, and does the most harm: in a mask that was expanded,
# one masked column masks all. Make it a rule: `clone()` before you write into something that was expanded.
#
# What does it save? `repeat` makes the same values with memory of its own:

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
# `expand` takes *sizes*, what the result should have; `repeat` takes *multiplicities*, how often. `expand(6, 1)` would
# make the dimension of 3 smaller. In `expand`, -1 means "keep this size"; new dimensions may only be added in front,
# and an existing one must have size 1 or stay as it is.
#
# *Broadcasting* is an `expand` that you don't write. **By hand.** A (3, 1) and a (4,) tensor are added. Which strides
# do the two get on the way? And if you call `.sum().backward()` on the result, what is the gradient at each element of
# the (3, 1) tensor, which was used four times?

# %% facts=["02-expand-is-stride-zero-view"]
column, line = torch.zeros(3, 1, requires_grad=True), torch.zeros(4, requires_grad=True)
wide_column, wide_line = torch.broadcast_tensors(column, line)
print("shapes", tuple(wide_column.shape), " strides", wide_column.stride(), wide_line.stride())

(column + line).sum().backward()
print("gradients", column.grad.tolist(), line.grad.tolist())

# %% [markdown]
# (1, 0) and (0, 1); no operand is copied. The gradient is 4: what is read several times adds up its gradients. The
# mirror image of `expand` is a sum, and chapter 3 meets such pairs again.
#
# Not every function broadcasts. The matrix products have names that don't (two vectors: `dot`, matrix and vector: `mv`,
# two matrices: `mm`) and one that does, `@`:

# %% facts=["02-dot-mv-mm"]
v, M, N, batch = torch.ones(3), torch.ones(2, 3), torch.ones(3, 4), torch.ones(5, 2, 3)
print("dot:", torch.dot(v, v).item(), " mv:", torch.mv(M, v).tolist())
print("mm:", tuple(torch.mm(M, N).shape))
error_of(lambda: torch.mm(batch, N))
print("batch @ N:", tuple((batch @ N).shape))

# %% [markdown]
# Two ways to repeat are easily taken for each other.
#
# **Predict.** `z` is [1, 2, 3]. Which gives `[1, 1, 2, 2, 3, 3]`: `z.repeat(2)` or `z.repeat_interleave(2)`?

# %% facts=["02-repeat-interleave-elementwise", "02-repeat-copies"]
z = torch.tensor([1, 2, 3])
print("repeat:            ", z.repeat(2).tolist())
print("repeat_interleave: ", z.repeat_interleave(2).tolist())
print("a count for each:  ", z.repeat_interleave(torch.tensor([1, 0, 2])).tolist())

# %% [markdown]
# `repeat` strings whole copies together, as `np.tile` does; `repeat_interleave` repeats each element right after
# itself, as `np.repeat` does, and takes a count for each.
#
# Stride 0 is the extreme case. Strides may also be so small that neighbouring rows *overlap*. The general tool is
# `as_strided`, which looks at the storage with any size, stride and offset that you name.
#
# **Predict.** `v` has 7 elements, `w = v.as_strided((3, 3), (2, 1))`: rows of three, each beginning two cells after the
# one before. Which elements of `w` change with `w[0, 2] = 99`?

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
# Two: the last of the first row is the first of the next. `add_` is *not* refused here: PyTorch checks for stride 0,
# not for every overlap. On the machine where this page was made, the cells 2 and 4 got the 10 twice; what happens is
# not defined. Read through overlapping views as much as you like, and `clone()` before you write.
#
# `as_strided` believes you blindly, and starts from what you say: numbers that fit a fresh tensor are wrong for a
# transposed or sliced one. Take them from `x.stride()` and `x.storage_offset()`.
#
# **Now you know.** Where several elements share a cell, reading is free and writing is dangerous.

# %% exercise="padding-mask"

# %% exercise="memory-cells"

# %% exercise="sliding-windows"

# %% [markdown]
# ## 2.5 Cutting: is the number a size, a count or a place?
#
# Cuts are views too, and three functions take the same number to mean three things.
#
# **Predict.** Eight elements are cut by `split([2, 3])` and by `tensor_split([2, 3])`. One of the two is refused; what
# sizes do the parts of the other have?

# %% facts=["02-split-list-length-equals-dim", "02-tensor-split-list-are-indices"]
calls = ["split(3)", "tensor_split(3)", "split([2, 3])", "tensor_split([2, 3])"]
cut_ruler(8, [*calls, "split([2, 3, 3])", "tensor_split([-2])"])

# %% [markdown]
# - `split` takes *sizes*. A list must *sum* to the size of the dimension; [2, 3] sums to 5, so 8 elements can't be cut
#   that way.
# - `tensor_split` takes a *count*, or a list of *places* where to cut: [2, 3] gives `x[:2]`, `x[2:3]`, `x[3:]`. The
# rules are those of slices: negative places count from the end.
#
# That `split(3)` and `tensor_split(3)` agree on 8 elements is an accident. Ten elements tell them apart, and `chunk`
# from both:

# %% facts=["02-chunk", "02-split-int", "02-tensor-split-int-like-split"]
calls = ["split(3)", "tensor_split(3)", "chunk(3)", "chunk(6)", "tensor_split(6)"]
cut_ruler(10, [*calls, "split(99)", "tensor_split([4, 12])"])

# %% [markdown]
# `split(3)` makes parts of 3 and leaves the rest for last. `tensor_split(3)` makes three parts as equal as possible,
# the longer ones first, and always as many as you asked for, empty ones if need be. `chunk(3)` means three parts at
# most: it divides 10 by 3, rounds up to 4 and cuts parts of 4. Therefore `chunk(6)` makes parts of 2 and has five of
# them.

# %% facts=["02-split-returns-tuple-dim0", "02-split-int"]
a = torch.arange(12).reshape(3, 4)
parts = a.split(2)
print(type(parts).__name__, [tuple(part.shape) for part in parts])
print("views:", same_storage(parts[1], a))
print("split(2, dim=1):", [tuple(part.shape) for part in a.split(2, dim=1)])

# %% [markdown]
# All three return a tuple of views, cut along dim 0 if you name no other.
#
# **Now you know.** `split`: sizes. `tensor_split`: a count or places. `chunk`: at most so many.

# %% exercise="predict-cuts"

# %% [markdown]
# ## 2.6 Choosing, dropping, ordering
#
# The last section is about losing things by accident: a shape, a position, the last element, a gradient.
#
# **Predict.** `g` holds 3, -1, 0.5, 2 and -4. How long are `torch.where(g > 0, g, 0.0)` and `g[g > 0]`?

# %% facts=["02-where-removes-elements"]
g = torch.tensor([3.0, -1.0, 0.5, 2.0, -4.0])
print("where:", torch.where(g > 0, g, 0.0).tolist())
print("mask: ", g[g > 0].tolist())

# %% [markdown]
# `torch.where(condition, a, b)` *replaces*: it keeps the shape, takes `a` where the condition is True and `b`
# elsewhere. A boolean mask *removes*: the result has as many elements as the mask has True. (With two dimensions or
# more, a mask of the full shape gives a flat result.)
#
# **Find the mistake.** Element `i` should go, so somebody joins what comes before it and what comes after it:
# `torch.cat([t[:i], t[i + 1 : -1]])`.

# %% facts=["02-cat-remove-ith", "02-cat-removes-by-value"]
t, i = torch.tensor([1, 2, 3, 4, 5]), 2
print("t[i + 1 : -1]:", torch.cat([t[:i], t[i + 1 : -1]]).tolist())
print("t[i + 1 :]:   ", torch.cat([t[:i], t[i + 1 :]]).tolist())
print("with a mask:  ", t[torch.arange(len(t)) != i].tolist())

t = torch.tensor([4, 2, 7, 2])
print("[4, 2, 7, 2] without place 2:", torch.cat([t[:2], t[3:]]).tolist())
print("without the value 2:", t[t != 2].tolist())

# %% [markdown]
# A slice that ends at -1 leaves the last element out, so two elements are gone. Cutting and joining removes by
# *position*; by *value* you remove with a mask, which handles no, one or many occurrences.
#
# `sort` returns two things, and the second is the one that people lose:

# %% facts=["02-sort-returns-pair"]
x = torch.tensor([3.0, 1.0, 2.0])
values, indices = x.sort()
print("x:", x.tolist(), " values:", values.tolist(), " indices:", indices.tolist())

restored = torch.empty_like(values)
restored[indices] = values
print("x[indices] is sorted:", torch.equal(x[indices], values))
print("the way back:", restored.tolist())

# %% [markdown]
# `x` itself is not sorted. The values have forgotten where they came from; the indices know: `x[indices]` reads in
# sorted order, and `restored[indices] = values` puts everything back. `topk` returns the same kind of pair, largest
# first. Which of several equal elements it picks is not promised; if it matters, use `sort(dim=-1, stable=True)`.
#
# The largest absolute value of each row, to divide by it:

# %% facts=["02-rowwise-absmax"]
x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
print("max(1):          ", tuple(x.abs().max(1).values.shape))
error_of(lambda: x / x.abs().max(1).values)
print("amax, keepdim:   ", tuple(x.abs().amax(dim=1, keepdim=True).shape))
print("largest afterwards:", (x / x.abs().amax(dim=1, keepdim=True)).abs().amax(1).tolist())

# %% [markdown]
# `max(dim)` drops the dimension, so the result doesn't broadcast against the rows (or, worse, with a square matrix, it
# does, against the columns). `keepdim=True` keeps it with size 1.
#
# A percentile can be part of a loss:

# %% facts=["02-percentile-needs-numpy"]
x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
q = torch.quantile(x, 0.75)
q.backward()
print("torch.quantile(x, 0.75):", q.item(), " gradient:", x.grad.tolist())
error_of(lambda: np.percentile(x, 75))

# %% [markdown]
# `torch.quantile` takes q between 0 and 1, runs on any device, and has gradients: 3.25 lies a quarter of the way from 3
# to 4, so 3 gets 0.75 and 4 gets 0.25. NumPy wants an array, and arrays have no gradients.
#
# **Which is right?** The smallest quarter of the values should go, and the order of the others should stay.

# %% facts=["02-drop-lowest-quarter"]
x = torch.tensor([5.0, 1.0, 8.0, 3.0, 7.0, 2.0, 6.0, 4.0])
quarter = len(x) // 4
print("x[quarter:]:     ", x[quarter:].tolist())
print("sort and slice:  ", x.sort().values[quarter:].tolist())
print("topk:            ", x.topk(len(x) - quarter).values.tolist())
print("quantile as mask:", x[x > torch.quantile(x, 0.25)].tolist())

# %% [markdown]
# The first drops the first *positions*. Sorting and `topk` drop the right values but lose the order; only the mask
# keeps it. The mask has a weakness of its own: with equal values at the threshold it drops too many or too few. The
# exercise wants it exact.
#
# **Now you know.** Ask of each such call: does it keep the shape, the order, the positions, the gradient?

# %% exercise="drop-lowest"

# %% [markdown]
# ## On a GPU
#
# The order in memory also costs time: a transposed copy reads or writes cells that lie far apart. The cell times it.
# Without a GPU it shows a recorded run, in which the transposed copy took nearly four times as long.


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
# `view size is not compatible …` says: these dimensions can't be merged, because one doesn't continue the other. Before
# you write `.contiguous()`, ask whether you want the copy that it makes.
#
# ## Folklore, checked
#
# What is said about tensors and their memory, the verdict, and what holds; each row can be unfolded to its proof.

# %%
folklore("02_tensors_views")

# %% [markdown]
# `prove` runs the proof of a row here and now; put another row's id in its place:

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
# - [`torch.Storage`](https://docs.pytorch.org/docs/stable/storage.html): untyped storages, and what is left of the
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
