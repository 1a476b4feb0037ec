# %% [markdown]
# # Tensors, memory and views
#
# A tensor is a way of looking at a row of memory cells. Most surprises with tensors come from forgetting that: a write
# that shows up elsewhere, a reshape that is refused, a small slice that keeps a big batch alive. After this chapter you
# can
#
# - say for any tensor where each of its elements lies in memory, from shape, stride and offset alone;
# - tell before running whether an operation returns a view, the same object or a copy, and prove it with the storage's
#   address;
# - decide between view, reshape, contiguous and clone, and read "view size is not compatible …";
# - use stride 0 and overlapping windows to save memory, and know which writes into such views are dangerous;
# - cut, select, drop and reorder without losing positions, ties, gradients or the last element.
#
# **55 minutes to read, 103 minutes to practise, 20 points.** You need Python and the idea of a NumPy array; chapter 1
# is not needed. One exercise (2.4) takes snapshots of a model's weights: there it helps to have trained a model once.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.bins import three_bins
from torchkata.pictures.cuts import cut_ruler
from torchkata.pictures.strides import draw_strip, strides_explorer
from torchkata.verdicts import check, mistake, observe, observe_scenario, observe_value, prediction

# %% [markdown]
# ## 2.1 A tensor is a window onto a row of cells
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
# `x[1:]` and `x[:, ::2]`? Which of the three does not begin in cell 0?

# %% facts=["02-storage-and-tensor", "02-stride-and-transpose"]
x = torch.arange(12).reshape(3, 4)
views = {"x": x, "x.t()": x.t(), "x[1:]": x[1:], "x[:, ::2]": x[:, ::2]}

for name, view in views.items():
    print(f"{name:10} shape {tuple(view.shape)}  stride {view.stride()}  offset {view.storage_offset()}")

# %% [markdown]
# Nothing was moved. `x.t()` swaps the two sizes and the two strides, `x[1:]` begins four cells later, and a step of 2
# doubles the stride of its dimension. For every tensor of two dimensions
#
#     cell of element [i, j] = offset + i * stride[0] + j * stride[1]
#
# and so on for more. Here are the four tensors on the one strip of cells that they share:

# %%
draw_strip(views)

# %% [markdown]
# In the strip, each cell shows which place its element has in that tensor, in index order. `x.t()` uses all cells, but
# jumps from cell to cell; `x[:, ::2]` leaves every second one out.
#
# **Predict.** Is `x[1:].data_ptr() == x.data_ptr()`, that is, do both begin at the same address? And what is in `x`
# after `lower = x[1:]` and `lower[0, 0] = -1`?


# %% facts=["02-view-shares-storage"]
def same_storage(a, b):
    """Whether two tensors look at the same storage."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


lower = x[1:]
print("begin at the same address:", lower.data_ptr() == x.data_ptr())
print("bytes between them:       ", lower.data_ptr() - x.data_ptr())
print("the same storage:         ", same_storage(lower, x))

lower[0, 0] = -1
print("x is now", x.tolist())
print("x.view(2, 6) is now", x.view(2, 6).tolist())

# %% [markdown]
# `tensor.data_ptr()` is the address of the tensor's *first element*, here 4 elements of 8 bytes further on. It can't
# tell you whether memory is shared. The storage's address can, and so does a write: a *view* shares its base's cells,
# so each sees what is written through the other. Below we ask `same_storage` whenever it matters.
#
# **Predict.** `x` has 12 elements of int64. How large is the storage of `x`, in bytes, and how large that of `x[1:]`,
# which has 8 elements?

# %% facts=["02-storage-and-tensor", "02-stride-and-transpose"]
print("storage of x:     ", x.untyped_storage().nbytes(), "bytes")
print("storage of x[1:]: ", x[1:].untyped_storage().nbytes(), "bytes")
print("elements of x[1:]:", x[1:].numel() * x.element_size(), "bytes")
print("strides in torch: ", x.stride(), " in NumPy:", x.numpy().strides)

# %% [markdown]
# A view has no storage of its own, so it is always the whole one that stays alive. And strides count elements in
# PyTorch; NumPy counts bytes, so its numbers are 8 times as large here.
#
# You will still meet `t.storage()` in older code. It works, with a warning:

# %% facts=["02-typed-storage-deprecated"] shows_warning="UserWarning"
warning_of(lambda: x.storage())

# %% [markdown]
# `t.storage()` and everything that is done with it, such as `t.storage().data_ptr()`, will go; `t.untyped_storage()`, a
# flat row of bytes, stays.
#
# **Predict.** One hears: "a transposed tensor is not contiguous; it is spread over several blocks of memory, and
# `contiguous()` merges them." Does the transpose have a storage with other contents than `x`? And its contiguous
# version? (`as_strided` below looks at the storage as one row, in cell order; it comes back in section 2.4.)


# %% facts=["02-contiguous-merges-memory-blocks"]
def cells(t):
    """What lies in a tensor's storage, read as one row from its first cell to its last."""
    return t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0).tolist()


x = torch.arange(12).reshape(3, 4)
turned = x.t()
copied = turned.contiguous()
for name, t in {"x": x, "x.t()": turned, "x.t().contiguous()": copied}.items():
    print(f"{name:18} stride {t.stride()}  shares x's storage: {same_storage(t, x)!s:5}  cells {cells(t)}")

# %% [markdown]
# There is one block, always. *Contiguous* only means that the strides are those of a fresh tensor of this shape:
# walking through the elements in index order (*row-major*: the last index moves fastest) visits neighbouring cells.
# `contiguous()` merges nothing; it writes the elements down a second time, in that order, into a storage of its own.
# `x.t()` and its copy are equal element by element.
#
# **Predict.** The shape is printed like a list. Is it one: does `x.shape == [3, 4]`? And which of `len(x)` and
# `x.numel()` is 12?

# %% facts=["02-shape-is-a-list", "02-size-of-one-dimension", "02-numel"]
print("type:", type(x.shape).__name__, " a tuple:", isinstance(x.shape, tuple))
print("== (3, 4):", x.shape == (3, 4), " == [3, 4]:", x.shape == [3, 4])
print("size(0):", x.size(0), " size(-1):", x.size(-1), " len:", len(x), " numel:", x.numel())
print("numel of a single number:", torch.tensor(5.0).numel())


def change_shape():
    x.shape[0] = 6


error_of(change_shape)

# %% [markdown]
# `torch.Size` is a tuple with a method or two more. It equals a tuple, never a list, so `x.shape == [3, 4]` is a test
# that always fails. It only describes: to get another shape, make another view. `len(x)` is the size of the first
# dimension, `x.numel()` the number of elements (the product of the shape, 1 for a tensor without dimensions), and
# `size(i)` is `shape[i]`.
#
# Now play with it. The explorer takes a fresh `x` and up to three operations, and *next element* walks through the
# result in index order, with the sum that leads to each cell.

# %%
strides_explorer()

# %% [markdown]
# Try these, and say before you look what the strides will be (where you can't run the explorer, take paper and the
# formula above):
#
# - `t`, then `view` with the argument `12`: the second is refused. Then `reshape` in its place: notice "a copy".
# - `slice` with `1:, ::2`, then *next element*: the walk begins in cell 4 and takes steps of 2.
# - `unsqueeze` with `0`, then `expand` with `2, -1, -1`: twice as many elements on the same cells, each marked ×2. The
#   new dimension has stride 0; section 2.4 is about that.
# - `unfold` with `1, 2, 1`: windows of two that overlap. The inner cells are used twice.

# %% [markdown]
# ## 2.2 View, same object or copy?
#
# What an operation returns falls into one of three bins. It is *the same object* (`y is x`), *a view* (another tensor
# on the same storage), or *a copy* (a storage of its own). Two questions decide: `y is x`, and `same_storage(y, x)`.
#
# **Predict.** `x` is contiguous, of shape (3, 4) and dtype int64. Sort these twenty before you run the cell:
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
# - *Views*: whatever can be described by shape, stride and offset alone. Slices, transposes, a new dimension of size 1,
#   a diagonal (stride 5 here), and `expand`, which adds a dimension of stride 0 (section 2.4).
# - *The same object*: a request that is met already. `contiguous()` and `to()` then return their input itself.
# - *Copies*: arithmetic, and whatever picks elements freely. Compare `x[0:2]` with `x[[0, 1]]`: the same rows, but a
#   list, an index tensor or a mask could name any rows in any order, and no stride describes that.
# - *It depends*: `reshape(-1)` is a view of `x` and a copy of `x.t()`.
#
# The page "Tensor Views" of PyTorch's documentation lists all operations that return views.
#
# **Predict.** Which of these are contiguous: `x[1:]`, `x[:, :2]`, `x.t()`, and the transpose of a single row,
# `x[:1].t()`?

# %% facts=["02-transpose-of-contiguous-is-not-contiguous", "02-contiguous-makes-a-copy"]
x = torch.arange(12).reshape(3, 4)
for name, t in {"x[1:]": x[1:], "x[:, :2]": x[:, :2], "x.t()": x.t(), "x[:1].t()": x[:1].t()}.items():
    print(f"{name:10} shape {tuple(t.shape)}  stride {t.stride()}  contiguous: {t.is_contiguous()}")

x.contiguous()[0, 0] = 50  # is this a write into a copy?
print("x.contiguous() is x:", x.contiguous() is x, " x[0, 0] is now", x[0, 0].item())

turned = x.t()
copied = turned.contiguous()
print("x.t().contiguous() shares x's storage:", same_storage(copied, x))
print("x.t() itself is contiguous now:       ", turned.is_contiguous())

# %% [markdown]
# Leading rows lie back to back, a block of columns has gaps. `x[:1].t()` has shape (4, 1): along a dimension of size 1
# nobody ever takes a step, so its stride does not count.
#
# `contiguous()` is no way to get a copy: from a contiguous tensor you get the tensor itself, and a write goes through.
# It is no in-place operation either: `turned` is what it was, and only the returned tensor is contiguous. For a copy,
# say `clone()`.
#
# **Predict.** `view(12)` is refused on `x.t()`. Why, and what does `reshape(12)` do instead?

# %% facts=["02-views-allow-any-reshape", "02-view-flatten-and-infer"]
x = torch.arange(12).reshape(3, 4)
error_of(lambda: x.t().view(12))

flat = x.t().reshape(12)
print("reshape of x.t():", flat.tolist(), " shares memory:", same_storage(flat, x))
print("reshape of x:    ", x.reshape(12).tolist(), " shares memory:", same_storage(x.reshape(12), x))

print("view(-1):", tuple(x.view(-1).shape), " view(-1, 6):", tuple(x.view(-1, 6).shape))
error_of(lambda: x.view(-1, -1))

# %% [markdown]
# The elements of `x.t()` in index order lie in cells 0, 4, 8, 1, 5, 9 … No single stride walks that way, so one
# dimension of 12 can't be a view. This is what "at least one dimension spans across two contiguous subspaces" means.
# `reshape` returns a view when it can and silently copies when it must. Use `view` where you count on shared memory,
# since it never copies, and `reshape` where you don't care.
#
# One size of `view` or `reshape` may be -1: it is worked out from the others. `view(-1)` flattens.
#
# **Predict.** `unsqueeze(1)` gives the same tensor as `view(3, 1, 4)`. Does it also work where `view(12)` failed, on
# `x.t()`?

# %% facts=["02-unsqueeze-like-view"]
column = x.unsqueeze(1)
print("the same values:", torch.equal(column, x.view(3, 1, 4)), " shares memory:", same_storage(column, x))
print("x.t().unsqueeze(0): shape", tuple(x.t().unsqueeze(0).shape), " stride", x.t().unsqueeze(0).stride())

# %% [markdown]
# `unsqueeze` inserts one dimension of size 1 and touches no other, so it works on any strides and never copies. `view`
# restates the whole shape, can merge and split dimensions, and is refused when the strides don't allow it.
#
# **Predict.** Of a (3, 4) batch of int64 you keep one row, "made contiguous so that it has its own memory". How many
# bytes stay alive?

# %%
batch = torch.arange(12).reshape(3, 4)
row = batch[:1]

print("row.contiguous() is row:", row.contiguous() is row)
print("kept alive by row.contiguous():", row.contiguous().untyped_storage().nbytes(), "bytes")
print("kept alive by row.clone():     ", row.clone().untyped_storage().nbytes(), "bytes")

# %% [markdown]
# One row is contiguous as it is, so it remains a view, and the storage of the batch can't be freed as long as the row
# lives. `clone()` of the row keeps 4 elements of 8 bytes.
#
# **Predict.** Three names: `b = a`, `c = a.clone()`, and `a` itself. Which of them see `a[0] = 7`?

# %% facts=["02-assignment-needs-clone"]
a = torch.zeros(3)
b = a
c = a.clone()
a[0] = 7
print("b is a:", b is a, " b:", b.tolist(), " c:", c.tolist())

w = torch.ones(2, requires_grad=True)
print("clone() requires grad:         ", w.clone().requires_grad)
print("detach().clone() requires grad:", w.detach().clone().requires_grad)

# %% [markdown]
# `=` binds a name and copies nothing. `clone()` copies, which costs memory: write it where you need independent data,
# not out of habit. It also stays in the autograd graph, the record that PyTorch keeps for gradients: gradients flow
# back through the copy. `detach().clone()` is the copy that stands alone.
#
# **Predict.** "In-place operations end with an underscore." `tail` is a view of `x`. Which of these six lines change
# `tail`?
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
# The first five; only the sixth, `x = x + 1`, builds a new tensor and leaves the old cells alone. The underscore marks
# in-place *methods*. Item assignment, `+=` and its kin, `out=` and `inplace=True` write into the same cells without
# one. And not every method with an underscore writes data: `requires_grad_()` sets a flag, `t_()` swaps sizes and
# strides.

# %% exercise="predict-strides"

# %% exercise="split-heads"

# %% exercise="bytes-kept-alive"

# %% [markdown]
# ## 2.3 How data gets in, and as what type
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

numbers = [1.0, 2.0]
from_list = torch.as_tensor(numbers)
numbers[0] = 9.0
print("as_tensor of a list:     ", from_list.tolist())
print("as_tensor(made) is made: ", torch.as_tensor(made) is made)

# %% [markdown]
# `torch.tensor` always copies. `torch.as_tensor` (and `torch.from_numpy`) shares memory with an array, in both
# directions, as long as nothing has to change: another dtype, another device or a Python list need a copy. All of them
# keep the array's dtype unless you name another. NumPy makes float64, and that is where unexpected doubles come from.
#
# **Predict.** `torch.tensor` copies tensors too. Does the copy of a tensor that requires grad require grad as well?

# %% facts=["02-tensor-always-copies"] shows_warning="UserWarning"
source = torch.ones(3, requires_grad=True)
copies = []
warning_of(lambda: copies.append(torch.tensor(source)))
print("requires grad:", copies[0].requires_grad, " shares memory:", same_storage(copies[0], source))

# %% [markdown]
# It does not, and PyTorch would rather that you say so: `source.detach().clone()`.
#
# **Predict.** Two snapshots of a weight before a training step: `weight.detach()` and `weight.detach().clone()`. What
# do they show after the step?

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

# %% [markdown]
# `detach()` gives another tensor on the same cells, without gradient tracking. The optimizer writes into those cells in
# place, so the "old" weights are the new ones.
#
# **Predict.** What is `torch.Tensor(3)`, with a capital T, and what `torch.tensor(3)`? And the dtypes made from
# `[1, 2]`?

# %% facts=["02-legacy-tensor-constructors"]
print("shape of torch.Tensor(3):", tuple(torch.Tensor(3).shape), " of torch.tensor(3):", tuple(torch.tensor(3).shape))
print("torch.Tensor([1, 2]):", torch.Tensor([1, 2]).dtype, " torch.tensor([1, 2]):", torch.tensor([1, 2]).dtype)
print("torch.LongTensor([1.7]):", torch.LongTensor([1.7]).tolist(), " torch.tensor([1.7]):", torch.tensor([1.7]).dtype)

# %% [markdown]
# `torch.Tensor(3)` is three uninitialised numbers: whatever lay in memory. These legacy constructors take a bare int as
# a size and force their own type on the data (`LongTensor` just cut 1.7 down to 1). Use `torch.tensor(data, dtype=…)`.
#
# **Predict.** What dtype does each of these lists get: `[1]`, `[1.5]`, `[1, 2.5, True]`, `[1j]`? And how many dtypes
# does torch have?

# %% facts=["02-usual-dtypes", "02-nine-dtypes", "02-tensor-like-ndarray-with-gpu"]
for data in ([1], [1.5], [1, 2.5, True], [1j]):
    print(f"{data!s:15} {torch.tensor(data).dtype}")
print("device:", torch.tensor([1]).device, " dtype of a layer's weight:", nn.Linear(2, 2).weight.dtype)

dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
print(len(dtypes), "dtypes; floats of 8 bits:", sorted(str(d) for d in dtypes if "float8" in str(d)))

logits, labels = torch.zeros(2, 3), torch.tensor([0, 2], dtype=torch.int32)
error_of(lambda: F.cross_entropy(logits, labels))
print("with int64 labels:", F.cross_entropy(logits, labels.long()).dtype)

# %% [markdown]
# A tensor resembles a NumPy array that can also live on a GPU: one device, one dtype for all elements; mixed input is
# promoted to one that holds them all. Floats become float32 and integers int64, the usual types of data and of class
# labels. Labels can't have just any integer type: `cross_entropy` wants int64 ("Long") or uint8 ("Byte"). The old list
# of nine dtypes (float16/32/64, uint8, int8/16/32/64, bool) is long outdated: bfloat16, complex, 8-bit floats and many
# special ones have come since. Few operations exist for the rarer ones.
#
# **Predict.** Old advice: "`Found dtype Double but expected Float`? Cast with `.double()`." `g` is float32. What dtypes
# have `torch.where(g > 0.5, 0.0, g)`, the same with `g.double()`, and `F.mse_loss(g, g.double())`? And what does a
# layer say to a double?

# %% facts=["02-cast-double-avoids-dtype-error"]
g = torch.tensor([0.1, 0.9])
print("where(g > 0.5, 0.0, g):         ", torch.where(g > 0.5, 0.0, g).dtype)
print("where(g > 0.5, 0.0, g.double()):", torch.where(g > 0.5, 0.0, g.double()).dtype)
print("mse_loss of float and double:   ", F.mse_loss(g, g.double()).dtype)
error_of(lambda: nn.Linear(2, 1)(g.double()))

# %% [markdown]
# The cast once helped with rules that are gone: a Python number no longer turns `where` into a double, and `mse_loss`
# accepts a mixture. Today `.double()` *makes* the next dtype error. The cure is at the source: give data the dtype of
# the model, most often with `torch.as_tensor(array, dtype=torch.float32)`.
#
# **Predict.** Three attempts to switch gradient tracking on for a tensor that exists: `x.requires_grad()`,
# `x.requires_grad_ = True` and `x.requires_grad_()`. Which one works?

# %% facts=["02-requires-grad-is-not-a-method"]
x = torch.zeros(3)
error_of(lambda: x.requires_grad())

y = torch.zeros(3)
y.requires_grad_ = True
print("after y.requires_grad_ = True:", y.requires_grad)

x.requires_grad_()
print("after x.requires_grad_():     ", x.requires_grad)

# %% [markdown]
# `requires_grad` is a bool, and a bool can't be called. `requires_grad_` is the in-place method. Assigning to it raises
# nothing and does nothing but hide the method behind an attribute of this one tensor. (`y.requires_grad = True` would
# have worked.)
#
# Two small facts about making numbers. **Predict.** How many elements has `torch.range(0, 3)`? And is the second
# argument of `torch.normal(5.0, 2.0, …)` the variance or the standard deviation?

# %% facts=["02-torch-range"] shows_warning="UserWarning"
numbers = []
warning_of(lambda: numbers.append(torch.range(0, 3)))
print("torch.range(0, 3): ", numbers[0].tolist())
print("torch.arange(0, 3):", torch.arange(0, 3).tolist())

# %% facts=["02-rand-normal-add"]
generator = torch.Generator().manual_seed(0)
uniform = torch.rand(20_000, generator=generator)
normal = torch.normal(5.0, 2.0, (20_000,), generator=generator)

print("rand lies in [0, 1):", bool(uniform.min() >= 0), bool(uniform.max() < 1), f" mean {uniform.mean():.1f}")
print(f"normal: mean {normal.mean():.1f}, standard deviation {normal.std():.1f}")
print("add with alpha:", torch.add(torch.ones(2), torch.ones(2), alpha=10).tolist())

# %% [markdown]
# `torch.range` includes its end, makes floats, and will be removed; `torch.arange` is half open like Python's `range`,
# and makes integers from integers. `torch.normal` takes the standard deviation. `torch.add(a, b, alpha=s)` is a + s·b;
# alpha is a keyword argument.

# %% exercise="snapshot-weights"

# %% [markdown]
# ## 2.4 Stride 0: many elements, one cell
#
# `expand` repeats a dimension of size 1 without repeating any data.
#
# **Predict.** `b = torch.zeros(3, 1)` and `e = b.expand(3, 4)`. What is the stride of `e`? How many elements of `e`
# change with `e[0, 0] = 9`? And what does `e.add_(1)` do?

# %% facts=["02-expand-is-stride-zero-view", "02-expand-inplace-writes"]
b = torch.zeros(3, 1)
e = b.expand(3, 4)
print("shape", tuple(e.shape), " stride", e.stride(), " shares b's storage:", same_storage(e, b))

e[0, 0] = 9
print("after e[0, 0] = 9, e:", e.tolist())
print("after e[0, 0] = 9, b:", b.tolist())
error_of(lambda: e.add_(1))
e.fill_(7)
print("after e.fill_(7), b: ", b.tolist())
e.clone().add_(1)
print("after e.clone().add_(1), b:", b.tolist())

# %% [markdown]
# A stride of 0 means: a step along this dimension does not move. The four elements of a row are one cell, so a write to
# one of them is a write to all, and to `b`. `add_`, `mul_` and `copy_` notice that and refuse. `fill_` and `zero_` go
# through without a word, and so does assigning to a part in which no cell comes twice, like the single element here.
# Make it a rule: `clone()` before you write into something that was expanded.
#
# **Predict.** `z` has three int64 elements. How many bytes of storage are behind `z.expand(6, 3)`, and behind
# `z.repeat(6, 1)`? Why are the arguments not the same?

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
# `expand` takes *sizes*, what the result shall have; `repeat` takes *multiplicities*, how often. `expand(6, 1)` would
# make the dimension of 3 smaller. `repeat` owns its memory, so writing into it is safe, and costs six times as much.
#
# **Predict.** Which of these four are refused: `b.expand(-1, 4)`, `b.expand(2, -1, 4)`, `b.expand(-1, 3, 4)`, and
# `torch.ones(3, 2).expand(6, 2)`?

# %% facts=["02-expand-minus-one", "02-expand-only-size-one", "02-expand-as"]
b = torch.zeros(3, 1)
print("expand(-1, 4):   ", tuple(b.expand(-1, 4).shape), "stride", b.expand(-1, 4).stride())
print("expand(2, -1, 4):", tuple(b.expand(2, -1, 4).shape), "stride", b.expand(2, -1, 4).stride())
error_of(lambda: b.expand(-1, 3, 4))
error_of(lambda: torch.ones(3, 2).expand(6, 2))

other = torch.ones(3, 4, dtype=torch.int64)
print("expand_as(other):", tuple(b.expand_as(other).shape), b.expand_as(other).dtype)

# %% [markdown]
# In `expand`, -1 means "keep this size" (in `view` it means "work it out"). New dimensions may only be added in front,
# and a new one has no size to keep. An existing dimension must have size 1 or stay as it is: no stride runs through
# three rows and then begins again. `x.expand_as(other)` is `x.expand(other.size())`: only the shape of `other` matters,
# not its dtype.
#
# *Broadcasting* is an `expand` that you don't write. **Predict.** A (3, 1) and a (4,) tensor are added: what strides do
# the operands get on the way? And do `torch.dot`, `torch.mv` and `torch.mm` broadcast as well?

# %% facts=["02-dot-mv-mm"]
column, line = torch.broadcast_tensors(torch.zeros(3, 1), torch.zeros(4))
print("shapes", tuple(column.shape), tuple(line.shape), " strides", column.stride(), line.stride())

v = torch.tensor([1.0, 2.0, 3.0])
M, N, batch = torch.ones(2, 3), torch.ones(3, 4), torch.ones(5, 2, 3)
print("dot:", torch.dot(v, v).item(), " mv:", torch.mv(M, v).tolist(), " mm:", tuple(torch.mm(M, N).shape))
error_of(lambda: torch.dot(M, M))
error_of(lambda: torch.mv(v, v))
error_of(lambda: torch.mm(batch, N))
print("batch @ N:", tuple((batch @ N).shape), " v @ v:", (v @ v).item())

# %% [markdown]
# Both operands are expanded to (3, 4) with a stride of 0, so no operand is copied. The products named after their
# operands (vectors: `dot`, matrix and vector: `mv`, two matrices: `mm`) take exactly those, unlike `numpy.dot`. `@`,
# that is `torch.matmul`, covers all cases and broadcasts over batches.
#
# **Predict.** Which gives `[1, 1, 2, 2, 3, 3]`: `z.repeat(2)` or `z.repeat_interleave(2)`? Which of them is
# `np.repeat`?

# %% facts=["02-repeat-interleave-elementwise", "02-repeat-copies"]
z = torch.tensor([1, 2, 3])
print("repeat:           ", z.repeat(2).tolist(), "   np.tile:  ", np.tile([1, 2, 3], 2).tolist())
print("repeat_interleave:", z.repeat_interleave(2).tolist(), "   np.repeat:", np.repeat([1, 2, 3], 2).tolist())
print("z.repeat(4, 2):   ", tuple(z.repeat(4, 2).shape))
error_of(lambda: torch.ones(2, 3).repeat(2))

# %% [markdown]
# `repeat` strings whole copies together, as `np.tile` does; `repeat_interleave` repeats each element right after
# itself, as `np.repeat` does. `repeat` wants a number for each dimension at least; further ones make new leading
# dimensions.
#
# **Predict.** `y` is a 2×2 matrix. What shape has `y.repeat_interleave(2)`, without a dim?

# %% facts=["02-repeat-interleave-flattens", "02-repeat-interleave-tensor-repeats", "02-repeat-interleave-output-size"]
y = torch.tensor([[1, 2], [3, 4]])
counts = torch.tensor([1, 2])
print("no dim:          ", y.repeat_interleave(2).tolist())
print("dim=1:           ", y.repeat_interleave(2, dim=1).tolist())
print("counts [1, 2]:   ", y.repeat_interleave(counts, dim=0).tolist())
print("one count for all:", y.repeat_interleave(torch.tensor([2]), dim=0).tolist())
error_of(lambda: y.repeat_interleave(torch.tensor([1, 2, 3]), dim=0))
error_of(lambda: y.repeat_interleave([1, 2], dim=0), lines=1)
print("output_size=3:   ", y.repeat_interleave(counts, dim=0, output_size=3).tolist())
error_of(lambda: y.repeat_interleave(counts, dim=0, output_size=4))

# %% [markdown]
# Without `dim` the input is flattened, and so is the result. The counts may be a tensor with one number for each slice
# (one number serves for all), but no Python list. `output_size` is no wish: it must be the true total. You name it on a
# GPU, where PyTorch would otherwise have to wait for the counts in order to know how large a result to allocate.
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
# Nine elements on seven cells; the last of each row is the first of the next. `add_` is *not* refused here: PyTorch
# checks for stride 0, not for every overlap. On the machine where this page was made, the cells 2 and 4 got the 10
# twice; what happens is not defined. Read through overlapping views as much as you like, and `clone()` before you
# write.
#
# `as_strided` believes you blindly, and starts from what you say: numbers that fit a fresh tensor are wrong for a
# transposed or sliced one. Take them from `x.stride()` and `x.storage_offset()`.

# %% exercise="padding-mask"

# %% exercise="memory-cells"

# %% exercise="sliding-windows"

# %% [markdown]
# ## 2.5 Cutting: is the number a size, a count or a place?
#
# **Predict.** What sizes have the parts of eight elements after `split(3)`, `tensor_split(3)`, `split([2, 3])` and
# `tensor_split([2, 3])`? One of the four is refused.

# %% facts=["02-split-list-length-equals-dim", "02-tensor-split-list-are-indices"]
calls = ["split(3)", "tensor_split(3)", "split([2, 3])", "tensor_split([2, 3])"]
cut_ruler(8, [*calls, "split([2, 3, 3])", "tensor_split([-2])"])

# %% [markdown]
# - `split` takes *sizes*. A list must *sum* to the size of the dimension (its length is the number of parts); [2, 3]
#   sums to 5, so 8 elements can't be cut so.
# - `tensor_split` takes a *count*, or a list of *places* where to cut: [2, 3] gives `x[:2]`, `x[2:3]`, `x[3:]`. The
#   rules are those of slices: negative places count from the end.
#
# That `split(3)` and `tensor_split(3)` agree on 8 elements is an accident. **Predict** both for 10 elements, and
# `chunk(3)`. How many parts does `chunk(6)` give?

# %% facts=["02-chunk", "02-split-int"]
calls = ["split(3)", "tensor_split(3)", "chunk(3)", "chunk(6)", "tensor_split(6)"]
cut_ruler(10, [*calls, "split(99)", "tensor_split([4, 12])"])

# %% [markdown]
# `split(3)` makes parts of 3 and leaves the rest for last. `tensor_split(3)` makes three parts as equal as possible,
# the longer ones first. `chunk(3)` means three parts at most: it divides 10 by 3, rounds up to 4 and cuts parts of 4.
# Therefore `chunk(6)` makes parts of 2 and has five of them. A place beyond the end is allowed, and its part is empty.
#
# **Predict.** "If k divides the size, `tensor_split(x, k)` is `split(x, k)`." Eight elements, k = 2: is it? When do the
# two agree?


# %% facts=["02-tensor-split-int-like-split", "02-tensor-split-int"]
def sizes(parts):
    """The length of each part."""
    return [len(part) for part in parts]


eight, nine = torch.arange(8), torch.arange(9)
print("8 elements, 2:  split", sizes(eight.split(2)), " tensor_split", sizes(eight.tensor_split(2)))
print("9 elements, 3:  split", sizes(nine.split(3)), " tensor_split", sizes(nine.tensor_split(3)))
print("7 elements, 3:  split", sizes(nine[:7].split(3)), " tensor_split", sizes(nine[:7].tensor_split(3)))
print("2 elements, 3:  split", sizes(nine[:2].split(3)), " tensor_split", sizes(nine[:2].tensor_split(3)))

# %% [markdown]
# For `split` the number is a size, for `tensor_split` a count: parts of 2 against 2 parts. With nine elements and 3 it
# is the same. `tensor_split` always gives as many parts as you asked for, empty ones if need be.
#
# **Predict.** What type do the parts come in, and what does a write into a part do to the whole?

# %% facts=["02-split-returns-tuple-dim0", "02-split-int"]
a = torch.arange(12).reshape(3, 4)
for method in ("split", "tensor_split", "chunk"):
    parts = getattr(a, method)(2)
    shapes = [tuple(part.shape) for part in parts]
    print(f"{method:12} {type(parts).__name__}  shapes {shapes}  views: {same_storage(parts[1], a)}")
print("split(2, dim=1):", [tuple(part.shape) for part in a.split(2, dim=1)])

a.split(2)[1][0, 0] = -1
print("a:", a.tolist())
error_of(lambda: a.split(2).append(a))

# %% [markdown]
# All three return a tuple of views, cut along dim 0 if you name no other. A tuple can't be appended to; write
# `list(x.split(2))` if you must.
#
# **Predict.** The cutting places may also come in a tensor. Which of these does `tensor_split` take: `[1, 6]` as int64,
# as int32, as a (1, 2) matrix, and the 0-d tensor 3?

# %% facts=["02-tensor-split-index-tensor-rules", "02-tensor-split-int"]
x = torch.arange(8)
print("[1, 6] as int64:", sizes(x.tensor_split(torch.tensor([1, 6]))))
print("the 0-d tensor 3:", sizes(x.tensor_split(torch.tensor(3))))
error_of(lambda: x.tensor_split(torch.tensor([1, 6], dtype=torch.int32)))
error_of(lambda: x.tensor_split(torch.tensor([[1, 6]])))

# %% [markdown]
# It must be int64 and have no dimension (a count) or one (places), and it must be on the CPU even if `x` is not:
# PyTorch needs the numbers themselves in order to build the views.

# %% exercise="predict-cuts"

# %% [markdown]
# ## 2.6 Choosing, dropping, ordering
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
# **Predict.** Everything outside the band from -1 to 2 shall become 0. Is that `torch.clamp(g, -1, 2)`?

# %% facts=["02-where-band-filter"]
filtered = torch.where(g > 2, 0.0, g)
filtered = torch.where(filtered < -1, 0.0, filtered)
print("two wheres:", filtered.tolist())
inside = (g >= -1) & (g <= 2)
print("one mask:  ", torch.where(inside, g, 0.0).tolist(), " equals g * inside:", torch.equal(filtered, g * inside))
print("clamp:     ", torch.clamp(g, -1, 2).tolist())

chained = torch.where(g > 2.5, 0.0, g)
print("band 1 to 2.5, others 0:              ", torch.where(chained < 1, 0.0, chained).tolist())
print("too high becomes 0, too low becomes -9:", torch.where(chained < 1, -9.0, chained).tolist())

# %% [markdown]
# `clamp` moves values to the nearer bound; the filter sets them to 0. A chained `where` looks at what the first one
# left. When 0 lies outside the band, as it does for 1 to 2.5, the second `where` catches the zeros of the first one
# too. That does no harm as long as both put in the same number; in the last line 3.0, which was too high, ends as "too
# low". One mask made from the original `g` has no such trap. (`g * inside` does the same for finite numbers; infinity
# times 0 is nan.)
#
# **Predict.** `t` holds 1, 2, 3 and 2. What does `(t == 2).nonzero()` return, the values or the places? In what shape?

# %% facts=["02-nonzero-finds-value-index"]
t = torch.tensor([1.0, 2.0, 3.0, 2.0])
print("nonzero():              ", (t == 2).nonzero().tolist())
print("nonzero(as_tuple=True): ", [places.tolist() for places in (t == 2).nonzero(as_tuple=True)])

computed = torch.tensor([0.1, 0.5], dtype=torch.float64) + 0.2
print("computed == 0.3:        ", (computed == 0.3).tolist())
print("isclose:                ", torch.isclose(computed, torch.tensor(0.3, dtype=torch.float64)).tolist())

# %% [markdown]
# Places. Without `as_tuple=True` they come as a matrix with a row for each hit and a column for each dimension; with
# it, as one index tensor for each dimension, ready for indexing. Ask computed floats with `isclose`, not with `==`.
#
# **Predict.** Element `i` shall go: `torch.cat([t[:i], t[i+1:-1]])`. What remains of [1, 2, 3, 4, 5] for i = 2?

# %% facts=["02-cat-remove-ith", "02-cat-removes-by-value"]
t, i = torch.tensor([1, 2, 3, 4, 5]), 2
print("t[i + 1 : -1]:", torch.cat([t[:i], t[i + 1 : -1]]).tolist())
print("t[i + 1 :]:   ", torch.cat([t[:i], t[i + 1 :]]).tolist())
print("with a mask:  ", t[torch.arange(len(t)) != i].tolist())

t = torch.tensor([4, 2, 7, 2])
print("[4, 2, 7, 2] without place 2:", torch.cat([t[:2], t[3:]]).tolist(), " without the value 2:", t[t != 2].tolist())

# %% [markdown]
# [1, 2, 4]: a slice that ends at -1 leaves the last element out, so two elements are gone. Cutting and joining removes
# by *position*. By *value* you remove with a mask, which handles no, one or many occurrences.
#
# **Predict.** Does `x.sort()` sort `x` itself, as `list.sort` does? What does
# `x.sort(-1, descending=True, stable=True)` say?

# %% facts=["02-sort-returns-pair"]
x = torch.tensor([3.0, 1.0, 2.0])
values, indices = x.sort()
print("x:", x.tolist(), " values:", values.tolist(), " indices:", indices.tolist())

restored = torch.empty_like(values)
restored[indices] = values
print("x[indices] is sorted:", torch.equal(x[indices], values), " and the way back:", restored.tolist())

error_of(lambda: x.sort(-1, descending=True, stable=True))
print("by keyword:", x.sort(dim=-1, descending=True, stable=True).values.tolist())

# %% [markdown]
# `sort` returns a named pair (values, indices) and leaves `x` alone. The values have forgotten where they came from;
# the indices know: `x[indices]` reads in sorted order, and `restored[indices] = values` puts everything back. Keep the
# pair whenever a position matters. With `stable=True` equal values keep their order, and then `dim` must be given by
# keyword; the message does not help you to find that out.
#
# **Predict.** `topk(2)` of a 2×3 matrix: two numbers, or two in each row? In what order?

# %% facts=["02-topk-descending"]
x = torch.tensor([[1.0, 9.0, 3.0], [7.0, 2.0, 8.0]])
values, indices = x.topk(2)
print("largest:", values.tolist(), " at", indices.tolist())
print("largest=False:", x.topk(1, largest=False).values.tolist())
print("sorted=False, as a set:", sorted(torch.arange(20.0).topk(5, sorted=False).values.tolist()))

tied = torch.tensor([5.0, 1.0, 5.0, 5.0])
first = tied.sort(descending=True, stable=True).indices[:2]
print("tied:", tied.topk(2).values.tolist(), " the first two of the equal ones by a stable sort:", first.tolist())

# %% [markdown]
# Along one dimension, the last if you name none, in descending order; with `sorted=False` in any order. Which of
# several equal elements `topk` picks is not promised. If it matters, use a stable sort.
#
# **Predict.** To keep the largest 4 of every 256 numbers of each sample, someone writes `k = numel // batch * 4 // 256`
# and calls `topk` along the last dimension. For which data is that right?


# %% facts=["02-topk-sample-k"]
def largest_indices(data):
    """The places of the largest 4/256 of the numbers of each sample."""
    k = data.numel() // data.shape[0] * 4 // 256
    return data.abs().topk(k, dim=-1).indices


generator = torch.Generator().manual_seed(0)
data = torch.randn(2, 100, 16, generator=generator)
print("(3, 256):", tuple(largest_indices(torch.randn(3, 256, generator=generator)).shape))
error_of(lambda: largest_indices(data))
print("(2, 100, 16), flattened:", tuple(largest_indices(data.flatten(1)).shape))

# %% [markdown]
# For two dimensions only. With more, `k` counts all numbers of a sample (25 here) while `topk` sees one row of 16.
# `flatten(1)` first.
#
# **Predict.** Is `torch.quantile(x, 75)` the 75th percentile? And can `np.percentile` be part of a loss?

# %% facts=["02-percentile-needs-numpy"]
x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
q = torch.quantile(x, 0.75)
q.backward()
print("torch.quantile(x, 0.75):", q.item(), " gradient:", x.grad.tolist())
print("np.percentile(x, 75) of the detached x:", float(np.percentile(x.detach().numpy(), 75)))

error_of(lambda: torch.quantile(x, 75))
error_of(lambda: np.percentile(x, 75))

# %% [markdown]
# `torch.quantile` takes q between 0 and 1, runs on any device, and has gradients: 3.25 lies a quarter of the way from 3
# to 4, so 3 gets 0.75 and 4 gets 0.25. NumPy wants an array, and arrays have no gradients. Up to PyTorch 2.13
# `torch.quantile` refused more than 2**24 elements; use `torch.kthvalue` or `torch.sort` there.
#
# **Predict.** The largest absolute value in each row of a (64, 128, 768) tensor, as a column: what shapes do these two
# ways give?

# %% facts=["02-rowwise-absmax"]
x = torch.randn(64, 128, 768, generator=torch.Generator().manual_seed(0))
values, indices = x.view(-1, 768).abs().max(1)
column = x.abs().amax(dim=-1, keepdim=True)
print("view and max:", tuple(values.shape), " as a column:", tuple(values.unsqueeze(1).shape))
print("amax, keepdim:", tuple(column.shape), " the same numbers:", torch.equal(column.view(-1), values))
print("largest after dividing:", (x / column).abs().max().item())

# %% [markdown]
# `max(dim)` returns a pair (values, indices) without the dimension, so you need `unsqueeze` to divide by it.
# `amax(dim, keepdim=True)` returns just the values and keeps the dimension with size 1, ready for broadcasting.
#
# **Predict.** The smallest quarter of the values shall go. Which of the four ways are right, and which keep the order?

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
# exercise below wants it exact.
#
# A last remark on names. **Predict.** "Every operation exists as a function and as a method, with the same meaning."
# Which of these names are functions of `torch`, which are methods?

# %% facts=["02-function-method-equivalence"]
for name in ("sum", "gather", "view", "expand", "scatter_", "cat", "stack", "from_numpy"):
    print(f"{name:11} torch.{name}: {hasattr(torch, name)!s:6} Tensor.{name}: {hasattr(torch.Tensor, name)}")

a, b = torch.tensor([1, 2, 3]), torch.zeros(3, dtype=torch.int64)
print("the same:", torch.equal(a.where(a > 1, b), torch.where(a > 1, a, b)))

# %% [markdown]
# Many exist twice, but not all; and `a.where(condition, b)` begins with the values, `torch.where(condition, a, b)` with
# the condition.

# %% exercise="drop-lowest"

# %% [markdown]
# ## On a GPU
#
# Five things that only a CUDA device can show. Without one, each cell says that it was skipped.
#
# **Predict.** `torch.as_tensor(array, device="cuda")` names a device: does the tensor still share memory with the
# array?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("02_tensors_views")
def array_to_gpu():
    a = np.zeros(3)
    ways = {
        "as_tensor(a, device='cuda')": torch.as_tensor(a, device="cuda"),
        "from_numpy(a).to('cuda')": torch.from_numpy(a).to("cuda"),
    }
    a[0] = 5
    for name, t in ways.items():
        print(f"{name:28} {t.tolist()}")


array_to_gpu()

# %% [markdown]
# It can't: the array lies in the memory of the CPU. Another device is always a copy, and the 5 does not show.
#
# **Predict.** `repeat_interleave` with counts on the GPU must know the length of its result before it can allocate it.
# Which of the two calls makes the CPU wait for the GPU (a *synchronization*)?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("02_tensors_views")
def repeat_without_waiting():
    x = torch.arange(1000, device="cuda")
    counts = torch.arange(1000, device="cuda") % 4
    total = int(counts.sum())
    x.repeat_interleave(counts)  # the first call loads kernels; the profile should not show that
    for name, options in {"without output_size": {}, "with output_size": {"output_size": total}}.items():
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            x.repeat_interleave(counts, **options)
        waits = sum(event.name.endswith("StreamSynchronize") for event in profiled.events())
        print(f"{name:20} waits for the GPU: {waits}")


repeat_without_waiting()

# %% [markdown]
# Without `output_size` the sum of the counts has to travel from the GPU to the CPU first, and the CPU waits for it.
# With it, nothing has to be asked, and the CPU goes on to launch the next operations.
#
# **Predict.** `x` is on the GPU. On which device must the places for `tensor_split` be?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("02_tensors_views")
def places_for_tensor_split():
    x = torch.arange(8, device="cuda")
    places = torch.tensor([1, 6])
    print("places on the CPU:", [len(part) for part in x.tensor_split(places)])
    error_of(lambda: x.tensor_split(places.to("cuda")))


places_for_tensor_split()

# %% [markdown]
# On the CPU: shapes, strides and offsets are numbers of the CPU, also for a tensor whose cells lie on the GPU.
#
# **Predict.** Both lines below read and write one GiB. Is transposing on the way slower than copying straight through?


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
# `clone` reads and writes neighbouring cells. The transposed copy reads or writes cells that lie 64 KiB apart, while
# memory delivers whole lines of neighbouring cells; as a rule only a part of a line is used before it is replaced, and
# fewer useful bytes arrive in a second. That is why the order in memory matters although the elements are the same.
#
# **Predict.** Which of `np.percentile` and `torch.quantile` takes a tensor on the GPU?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("02_tensors_views")
def percentile_on_gpu():
    x = torch.arange(5.0, device="cuda")
    error_of(lambda: np.percentile(x, 75))
    print("torch.quantile:", torch.quantile(x, 0.75).item(), "on", x.device.type)


percentile_on_gpu()

# %% [markdown]
# NumPy knows only the CPU's memory. `torch.quantile` runs where the tensor is.

# %% [markdown]
# ## Folklore, checked
#
# What is said about tensors and their memory, the verdict, and what holds; each row can be unfolded to its proof.

# %%
folklore(
    "02_tensors_views",
    ids=[
        "02-contiguous-merges-memory-blocks",
        "02-requires-grad-is-not-a-method",
        "02-typed-storage-deprecated",
        "02-split-list-length-equals-dim",
        "02-split-returns-tuple-dim0",
        "02-tensor-split-int-like-split",
        "02-shape-is-a-list",
        "02-nine-dtypes",
        "02-where-removes-elements",
        "02-torch-range",
        "02-dot-mv-mm",
        "02-rand-normal-add",
        "02-function-method-equivalence",
        "02-percentile-needs-numpy",
        "02-cast-double-avoids-dtype-error",
    ],
)

# %% [markdown]
# `prove` runs the proof of a row here and now; put another row's id in its place:

# %%
prove("02-where-removes-elements")

# %% [markdown]
# ## Where to read on
#
# In PyTorch's documentation:
#
# - *Tensor Views*: the list of all operations that return views, and what it means for `reshape`, `flatten` and
#   `contiguous`.
# - *Tensor Attributes*: dtype, device, layout and memory format; which dtypes are promoted to which.
# - *torch.Storage*: untyped storages, and what is left of the typed ones.
# - *Broadcasting semantics*: when two shapes fit together.
# - *torch.Tensor.expand* and *torch.as_strided*: the views of section 2.4, with their warnings about writing.
# - *torch.tensor_split*, *torch.split*, *torch.chunk*: the three cutters.
# - *torch.sort*, *torch.topk*, *torch.quantile*: ties, stability and interpolation.
#
# The next chapter is about reading and writing by index: gather and scatter.
