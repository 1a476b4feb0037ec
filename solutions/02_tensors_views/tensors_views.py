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

# %% [markdown]
# ### Exercise 2.1 · Strides without running
#
# predict · warm-up · 10 min · 2 points
#
# Whoever can tell the stride of a result without running it knows which lines of a program copy and which do not.
# Replace each `...` by what the snippet next to it gives. All items are about `x = torch.arange(24).reshape(4, 6)`, an
# int64 tensor.
#
# **Contract**
#
# - Strides and offsets count elements. A tuple may also be written as a list.
# - The two `alias` items ask whether both tensors look into the same storage: `True` or `False`.
# - Every right item earns a twelfth of the points.
#
# <details><summary>Hint 1</summary>
#
# Where in the row of 24 memory cells does element [1, 0] of each of these tensors lie, and where [0, 1]? The distance
# to element [0, 0] is the stride.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `t()` swaps the two strides of (6, 1). A step of 2 doubles a stride; starting at row 1 moves the offset by one row.
# expand gives stride 0. Contiguous means: the strides are those that a fresh tensor of this shape would have.
#
# </details>

# %% answer="predict-strides"
# x = torch.arange(24).reshape(4, 6)
### BEGIN SOLUTION
stride_answers = {
    "t_stride": (1, 6),  # x.t().stride()
    "slice_stride": (6, 2),  # x[1:, ::2].stride()
    "slice_offset": 6,  # x[1:, ::2].storage_offset()
    "t_contiguous": False,  # x.t().is_contiguous()
    "cols": False,  # x[:, :3].is_contiguous()
    "rows": True,  # x[:2].is_contiguous()
    "expand": (0, 6, 1),  # x.unsqueeze(0).expand(5, -1, -1).stride()
    "t_copy_stride": (4, 1),  # x.t().contiguous().stride()
    "noop": True,  # x.contiguous() is x
    "alias_reshape": False,  # do x.t().reshape(-1) and x look into the same storage?
    "alias_list": False,  # do x[[0, 1]] and x look into the same storage?
    "infer": (3, 8),  # tuple(x.view(-1, 8).shape)
}
### END SOLUTION
### BEGIN GIVEN
# stride_answers = {
#     "t_stride": ...,  # x.t().stride()
#     "slice_stride": ...,  # x[1:, ::2].stride()
#     "slice_offset": ...,  # x[1:, ::2].storage_offset()
#     "t_contiguous": ...,  # x.t().is_contiguous()
#     "cols": ...,  # x[:, :3].is_contiguous()
#     "rows": ...,  # x[:2].is_contiguous()
#     "expand": ...,  # x.unsqueeze(0).expand(5, -1, -1).stride()
#     "t_copy_stride": ...,  # x.t().contiguous().stride()
#     "noop": ...,  # x.contiguous() is x
#     "alias_reshape": ...,  # do x.t().reshape(-1) and x look into the same storage?
#     "alias_list": ...,  # do x[[0, 1]] and x look into the same storage?
#     "infer": ...,  # tuple(x.view(-1, 8).shape)
# }
### END GIVEN

# %% check="predict-strides" points=2
"""Each item against what its snippet really gives; every right item earns its share."""
with check("predict-strides") as test:
    test("every item is compared with what its snippet gives")
    grid = torch.arange(24).reshape(4, 6)
    storage_of = Tensor.untyped_storage
    in_bytes = "Those are byte strides, as NumPy shows them. torch counts elements."
    as_fresh = "That would be the stride of a fresh tensor of this shape. "
    not_moved = "A slice keeps the strides of its base (times the step): the data did not move."
    test.points = observe_value(stride_answers).predicts(
        {
            "t_stride": prediction(
                grid.t().stride(),
                ((8, 48), in_bytes),
                ((6, 1), "t() copies nothing, so it must swap the strides together with the sizes: (1, 6)."),
                ((4, 1), as_fresh + "t() copies nothing: the data did not move."),
                because="One step down in x.t() is one step to the right in x; one step to the right is one step down.",
            ),
            "slice_stride": prediction(
                grid[1:, ::2].stride(),
                ((3, 1), as_fresh + not_moved),
                ((48, 16), in_bytes),
                ((6, 1), "The next column of the slice is the next but one of x: a step of 2 doubles that stride."),
                because=not_moved,
            ),
            "slice_offset": prediction(
                grid[1:, ::2].storage_offset(),
                (0, "The slice starts at row 1: its first element is memory cell 6, although its index is [0, 0]."),
                (48, "That is an offset in bytes, as NumPy would count. torch counts elements."),
                (1, "The slice starts one row further on, and a row is 6 cells long."),
                because="The offset is the number of the memory cell in which the slice's element [0, 0] lies.",
            ),
            "t_contiguous": prediction(
                grid.t().is_contiguous(),
                because="After t() neighbours in memory are no longer neighbours in the last dimension: "
                "the strides (1, 6) are not row-major for shape (6, 4).",
            ),
            "cols": prediction(
                grid[:, :3].is_contiguous(),
                because="Rows of the slice are 6 cells apart but only 3 long: there are gaps, so it is not contiguous.",
            ),
            "rows": prediction(
                grid[:2].is_contiguous(),
                because="The first two rows lie back to back: slicing leading rows of a contiguous tensor "
                "stays contiguous.",
            ),
            "expand": prediction(
                grid.unsqueeze(0).expand(5, -1, -1).stride(),
                ((24, 6, 1), "expand adds a dimension with stride 0: all five 'copies' are the same memory."),
                because="The new dimension does not move in memory at all; the other two keep their strides.",
            ),
            "t_copy_stride": prediction(
                grid.t().contiguous().stride(),
                (
                    (1, 6),
                    "contiguous() writes the elements down again in row-major order for shape (6, 4): stride (4, 1).",
                ),
                ((6, 1), "Those are x's strides. The copy has shape (6, 4), so its rows are 4 long."),
                because="contiguous() writes the elements down in row-major order for shape (6, 4).",
            ),
            "noop": prediction(
                grid.contiguous() is grid,
                because="For a contiguous tensor contiguous() returns the same object: it is no way to get a copy.",
            ),
            "alias_reshape": prediction(
                storage_of(grid.t().reshape(-1)).data_ptr() == storage_of(grid).data_ptr(),
                because="reshape returns a view when it can and copies when it must. Flattening a transposed matrix "
                "cannot be described by one stride, so it copies.",
            ),
            "alias_list": prediction(
                storage_of(grid[[0, 1]]).data_ptr() == storage_of(grid).data_ptr(),
                because="Indexing with a list (or tensor) copies; only slices and integers give views.",
            ),
            "infer": prediction(
                tuple(grid.view(-1, 8).shape),
                ((4, 8), "-1 is whatever makes 24 elements: 24 / 8 = 3 rows."),
                ((-1, 8), "The -1 is computed: a shape never holds a -1."),
                because="-1 is whatever makes 24 elements.",
            ),
        },
        points=2,
    )
test.points

# %% [markdown]
# ### Exercise 2.2 · Attention heads: one silent bug, one loud one
#
# debug · solid · 15 min · 3 points
#
# Multi-head attention cuts the channels of every position into h heads of D channels each, and glues them together
# again afterwards. The code below has one bug of each kind. `split_heads` is wrong in silence: a model trains with it,
# without an error, and its heads see scrambled channels. `merge_heads` stops on attention's output with "view size is
# not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use
# .reshape(...) instead." Repair both.
#
# **Contract**
#
# - `split_heads(x, h)` turns (B, T, h\*D) into (B, h, T, D). Head k of position t is the block of channels k\*D to
#   (k+1)\*D - 1 of that position: `split_heads(x, h)[b, k, t]` equals `x[b, t, k*D:(k+1)*D]`.
# - `merge_heads(y)` is the inverse: (B, h, T, D) becomes (B, T, h\*D). It may copy.
# - A width that h does not divide raises `ValueError`. Empty batches and sequences work. Gradients flow through both.
# - Both must also cope with inputs that are not contiguous: a third of a fused projection, a transposed (T, B, C)
#   batch.
#
# **Rule.** `split_heads` returns a view: it shares x's storage, whatever x looks like, so that writing into a head
# shows in x.
#
# <details><summary>Hint 1</summary>
#
# `view` reads the elements in their old order and only puts brackets elsewhere. Which two numbers lie next to each
# other in memory: two channels of one position, or one channel of two positions?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# First split the last dimension into (h, D) where it stands, then exchange the dimensions of heads and positions. On
# the way back exchange first; the result is not row-major any more, so merging needs the call that copies when it must.
#
# </details>


# %% answer="split-heads"
### BEGIN SOLUTION
def split_heads(x: Tensor, h: int) -> Tensor:
    """Give each of h heads its block of channels: (B, T, h*D) -> (B, h, T, D), a view of x.

    Raises ValueError when h does not divide the number of channels.
    """
    B, T, C = x.shape
    if C % h:
        raise ValueError(f"{h} heads can't share {C} channels")
    return x.view(B, T, h, C // h).transpose(1, 2)


def merge_heads(y: Tensor) -> Tensor:
    """Put the heads' blocks of channels side by side again: (B, h, T, D) -> (B, T, h*D)."""
    B, h, T, D = y.shape
    return y.transpose(1, 2).reshape(B, T, h * D)


### END SOLUTION
### BEGIN GIVEN
# def split_heads(x: Tensor, h: int) -> Tensor:
#     """Give each of h heads its block of channels: (B, T, h*D) -> (B, h, T, D), a view of x.
#
#     Raises ValueError when h does not divide the number of channels.
#     """
#     raise NotImplementedError  # repair the code below, then delete this line
#     B, T, C = x.shape
#     return x.view(B, h, T, C // h)
#
#
# def merge_heads(y: Tensor) -> Tensor:
#     """Put the heads' blocks of channels side by side again: (B, h, T, D) -> (B, T, h*D)."""
#     raise NotImplementedError  # repair the code below, then delete this line
#     B, h, T, D = y.shape
#     return y.transpose(1, 2).view(B, T, h * D)
### END GIVEN

# %% check="split-heads" points=2
"""split_heads: head k is the k-th block of channels of each position, as a view of x, for any x."""
with check("split-heads") as test:

    def numbered(*shape):
        """The numbers 1, 2, 3, ... in the given shape."""
        return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape)

    test("split: 6 channels, 3 heads: each head gets a block of 2 channels")
    x = numbered(2, 5, 6)
    heads = torch.empty(2, 3, 5, 2)
    for b in range(2):
        for k in range(3):
            for t in range(5):
                heads[b, k, t] = x[b, t, 2 * k : 2 * k + 2]
    not_blocks = mistake(
        "Head k must be one block of D neighbouring channels; you gave it every h-th channel.",
        gives=lambda x, h: torch.stack([x[..., k::h] for k in range(h)], dim=1),
    )
    copied = mistake(
        "split_heads copied the data. Splitting one dimension and swapping two never needs a copy.", stage="aliasing"
    )
    seen = observe(split_heads, x, 3).expecting(not_blocks, copied)
    seen.returns(
        heads,
        mistake(
            "The shape is right, the content is scrambled: viewing (B, T, C) directly as (B, h, T, D) cuts the memory "
            "of *positions*, not of channels. Split the last dimension first, then swap dimensions.",
            gives=x.reshape(2, 3, 5, 2),
        ),
        mistake("The last two dimensions are exchanged: asked for is (B, h, T, D).", shape=(2, 3, 2, 5)),
        mistake("Heads must come before positions: asked for is (B, h, T, D).", shape=(2, 5, 3, 2)),
    )
    seen.shares_memory_with(0)
    seen.leaves_arguments_alone()

    test("split: writing into a head shows in x")

    def write_into_a_head(split_heads, x):
        """Write into channel 1 of head 2 at position 4 of the second example and return x."""
        split_heads(x, 3)[1, 2, 4, 1] = 100.0
        return x

    written = x.clone()
    written[1, 4, 5] = 100.0
    observe_scenario(write_into_a_head, split_heads, x).returns(written)

    test("split: 7 channels can't be shared by 2 heads")
    seen = observe(split_heads, torch.ones(2, 5, 7), 2)
    seen.raises(ValueError, because="A width that is no multiple of h must raise ValueError; {detail}.")

    ### BEGIN HIDDEN TESTS
    def expected_heads(x, h):
        """The blocks of channels, stacked as heads."""
        return torch.stack(x.tensor_split(h, dim=-1), dim=1)

    def fresh_strides(x, h):
        """What you get with the strides that a fresh tensor of x's shape would have."""
        B, T, C = x.shape
        return x.as_strided((B, h, T, C // h), (T * C, C // h, C, 1))

    fresh_only = (
        "It works for a fresh x only: a slice of a fused projection has other strides. Derive strides from x, "
        "or use an operation that does."
    )
    for idea, awkward in [
        ("split: the middle third of a fused (B, T, 3C) projection", numbered(2, 5, 18)[..., 6:12]),
        ("split: a batch that was transposed from (T, B, C)", numbered(5, 2, 6).transpose(0, 1)),
        ("split: every second position", numbered(2, 10, 6)[:, ::2]),
        ("split: every second channel", numbered(2, 5, 12)[..., ::2]),
        ("split: one example, expanded to a batch", numbered(1, 5, 6).expand(2, 5, 6)),
    ]:
        test.hidden(idea)
        seen = observe(split_heads, awkward, 3).expecting(
            mistake(fresh_only, gives=fresh_strides), mistake(fresh_only, raises="view size is not compatible"), copied
        )
        seen.returns(expected_heads)
        seen.shares_memory_with(0)

    ambiguous = mistake("-1 cannot be inferred for an empty tensor: compute the sizes.", raises="ambiguous")
    for idea, shape, h in [
        ("split: one head", (2, 5, 6), 1),
        ("split: heads of one channel", (2, 5, 6), 6),
        ("split: one position", (2, 1, 6), 3),
        ("split: an empty batch", (0, 5, 6), 3),
        ("split: an empty sequence", (2, 0, 6), 3),
    ]:
        test.hidden(idea)
        seen = observe(split_heads, numbered(*shape), h).expecting(copied)
        seen.returns(expected_heads, ambiguous)
        if 0 not in shape:
            seen.shares_memory_with(0)

    test.hidden("split: float64 and int64")
    for x in (numbered(2, 5, 6).double(), torch.arange(60).reshape(2, 5, 6)):
        seen = observe(split_heads, x, 2).expecting(copied)
        seen.returns(expected_heads)
        seen.shares_memory_with(0)

    test.hidden("split: gradients come back to the right channels")
    seen = observe(split_heads, numbered(2, 5, 6).requires_grad_(), 3).expecting(copied)
    seen.shares_memory_with(0)
    seen.gives_gradients(
        expected_heads, mistake("The gradient does not flow back correctly: {detail}", stage="gradient")
    )
    ### END HIDDEN TESTS

# %% check="split-heads" points=1
"""merge_heads: the heads' blocks side by side again, for any y."""
with check("split-heads") as test:

    def numbered(*shape):
        """The numbers 1, 2, 3, ... in the given shape."""
        return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape)

    test("merge: a fresh (B, h, T, D) tensor, as attention produces it")
    heads = numbered(2, 3, 5, 2)
    merged = torch.empty(2, 5, 6)
    for b in range(2):
        for t in range(5):
            for k in range(3):
                merged[b, t, 2 * k : 2 * k + 2] = heads[b, k, t]
    not_viewable = mistake(
        "view cannot express the merged dimensions: after the transpose, heads and channels of one position do not lie "
        "in one run. Copy explicitly (contiguous, or reshape, which copies when it must).",
        raises="view size is not compatible",
    )
    seen = observe(merge_heads, heads).expecting(not_viewable)
    seen.returns(
        merged,
        mistake(
            "merge_heads put the blocks back in the wrong order: exchange the dimensions before flattening.",
            gives=heads.reshape(2, 5, 6),
        ),
        mistake(
            "Head k must be one block of D neighbouring channels; you gave it every h-th channel.",
            gives=torch.stack([merged[..., i] for i in (0, 2, 4, 1, 3, 5)], dim=-1),
        ),
        mistake("One dimension too many: the heads' blocks form one row of h*D channels.", shape=(2, 5, 3, 2)),
    )
    seen.leaves_arguments_alone()

    test("merge: the heads of x give x back")
    x = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    heads = torch.tensor(
        [
            [[[1.0, 2], [5, 6], [9, 10]], [[3, 4], [7, 8], [11, 12]]],
            [[[13, 14], [17, 18], [21, 22]], [[15, 16], [19, 20], [23, 24]]],
        ]
    )
    observe(merge_heads, heads).expecting(not_viewable).returns(x)

    test("merge: a tensor that is not contiguous")
    heads = numbered(3, 2, 5, 2).transpose(0, 1)
    merged = torch.empty(2, 5, 6)
    for b in range(2):
        for t in range(5):
            for k in range(3):
                merged[b, t, 2 * k : 2 * k + 2] = heads[b, k, t]
    observe(merge_heads, heads).expecting(not_viewable).returns(merged)

    ### BEGIN HIDDEN TESTS
    def side_by_side(y):
        """The heads' blocks, concatenated."""
        return torch.cat(y.unbind(1), dim=-1)

    ambiguous = mistake("-1 cannot be inferred for an empty tensor: compute the sizes.", raises="ambiguous")
    for idea, y in [
        ("merge: a view, as split_heads returns it", numbered(2, 5, 3, 2).transpose(1, 2)),
        ("merge: every second channel of larger heads", numbered(2, 3, 5, 4)[..., ::2]),
        ("merge: one head", numbered(2, 1, 5, 6)),
        ("merge: heads of one channel", numbered(2, 6, 5, 1)),
        ("merge: one position", numbered(2, 3, 1, 2)),
        ("merge: an empty batch", numbered(0, 3, 5, 2)),
        ("merge: an empty sequence", numbered(2, 3, 0, 2)),
        ("merge: float64", numbered(2, 3, 5, 2).double()),
        ("merge: int64", torch.arange(60).reshape(2, 3, 5, 2)),
    ]:
        test.hidden(idea)
        observe(merge_heads, y).returns(side_by_side, not_viewable, ambiguous)

    test.hidden("merge: gradients come back to the right heads")
    seen = observe(merge_heads, numbered(2, 3, 5, 2).requires_grad_())
    seen.gives_gradients(side_by_side, mistake("The gradient does not flow back correctly: {detail}", stage="gradient"))
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 2.3 · One row kept, the whole batch alive
#
# measure · solid · 12 min · 2 points
#
# A cache that should hold 4 KiB per batch fills the memory all the same:
#
#     cache = []
#     for batch in loader:                       # batch: (4096, 1024) float32, 16 MiB
#         cache.append(batch[:1].contiguous())   # "4 KiB each", and yet 16 MiB more with every batch
#
# Write the instrument that shows it, and the repair.
#
# **Contract**
#
# - `bytes_kept(*tensors)`: the sizes in bytes of all *distinct storages* behind the tensors, summed. Views of one
#   storage count once, also when they begin at different places. No tensors: 0. No deprecated API.
# - `compact(t)`: t itself when its storage is no larger than t.numel() * t.element_size() bytes; otherwise a tensor
#   with equal shape, dtype and values whose storage is no larger than that. It stays in the autograd graph.
# - Neither function changes its arguments.
#
# <details><summary>Hint 1</summary>
#
# `batch[:1]` is contiguous already. What does contiguous() return then, and to which storage does that belong?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Ask every tensor for its untyped_storage(). Its address makes a good dict key, its nbytes() the value. To compact,
# compare that size with what the elements need, and copy explicitly only if it is larger.
#
# </details>


# %% answer="bytes-kept-alive"
def bytes_kept(*tensors: Tensor) -> int:
    """The bytes of memory that these tensors keep alive together: the sizes of their distinct storages, summed."""
    ### BEGIN SOLUTION
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    ### END SOLUTION


def compact(t: Tensor) -> Tensor:
    """t itself when its storage holds no more bytes than its elements need, else a copy with such a storage."""
    ### BEGIN SOLUTION
    return t.clone() if t.untyped_storage().nbytes() > t.numel() * t.element_size() else t
    ### END SOLUTION


# %% check="bytes-kept-alive" points=1
"""bytes_kept: the sizes of the distinct storages, in bytes."""
with check("bytes-kept-alive") as test:
    test("bytes_kept: pieces of a (64, 32) float32 batch, which has 8192 bytes")

    def measured(bytes_kept, batch, other, third):
        """What bytes_kept says of several sets of tensors."""
        return {
            "one row": bytes_kept(batch[:1]),
            "two pieces": bytes_kept(batch[:1], batch[10:13]),
            "two pieces that begin alike": bytes_kept(batch[:1], batch[:4]),
            "one tensor twice": bytes_kept(batch, batch),
            "two batches": bytes_kept(batch[:1], other),
            "two batches of one size": bytes_kept(batch, third[3:5]),
        }

    batches = torch.ones(64, 32), torch.ones(16, 32), torch.ones(64, 32)
    seen = observe_scenario(measured, bytes_kept, *batches).expecting(
        mistake("Asked for are bytes, not elements.", when=lambda seen: seen["one row"] in (32, 2048)),
        mistake(
            "You counted the elements of the tensors. A view of one row keeps the whole storage alive.",
            when=lambda seen: seen["one row"] == 128,
        ),
        mistake(
            "data_ptr() is where a *view* begins: two views of one storage with different offsets look different. "
            "Use the storage's address.",
            when=lambda seen: seen["two pieces"] == 16384 and seen["two pieces that begin alike"] == 8192,
        ),
        mistake(
            "Two tensor objects can share one storage: distinct tensors is not distinct storages.",
            when=lambda seen: seen["two pieces that begin alike"] == 16384 and seen["one tensor twice"] == 8192,
        ),
        mistake(
            "A storage shared by several of the tensors was counted more than once.",
            when=lambda seen: seen["two pieces"] == 16384 and seen["one tensor twice"] == 16384,
        ),
        mistake(
            "Two storages of the same size are still two storages.",
            when=lambda seen: seen["two batches"] == 10240 and seen["two batches of one size"] == 8192,
        ),
    )
    seen.returns(
        {
            "one row": 8192,
            "two pieces": 8192,
            "two pieces that begin alike": 8192,
            "one tensor twice": 8192,
            "two batches": 8192 + 2048,
            "two batches of one size": 2 * 8192,
        }
    )
    seen.leaves_arguments_alone()
    deprecated = "Tensor.storage() is deprecated (TypedStorage): use untyped_storage()."
    seen.avoided("storage", because=deprecated)
    seen.warned_nothing()

    ### BEGIN HIDDEN TESTS
    numbers = torch.arange(12.0).reshape(4, 3)
    for idea, tensors, size in [
        ("no tensor at all", (), 0),
        ("a transposed tensor", (numbers.t(),), 48),
        ("an expanded row", (torch.ones(1, 3).expand(5, 3),), 12),
        ("an empty tensor", (torch.empty(0, 3),), 0),
        ("an empty slice", (numbers[:0],), 48),
        ("0-d tensors", (numbers[2, 1], torch.tensor(1.0, dtype=torch.float64)), 48 + 8),
        ("int8 and complex", (torch.ones(5, dtype=torch.int8), torch.ones(3, dtype=torch.complex64)), 5 + 24),
        ("the same bytes as another dtype", (numbers, numbers.view(torch.int16)), 48),
        (
            "three views of one tensor, two of another",
            (numbers[1:], batches[1], numbers, batches[1][2:], numbers[2]),
            2096,
        ),
        ("tensors that require grad", (torch.ones(4, requires_grad=True), torch.ones(2, requires_grad=True)), 24),
    ]:
        test.hidden("bytes_kept: " + idea)
        seen = observe(bytes_kept, *tensors)
        seen.returns(size)
        seen.leaves_arguments_alone()
        seen.avoided("storage", because=deprecated)
    ### END HIDDEN TESTS

# %% check="bytes-kept-alive" points=1
"""compact: a copy with a small storage where that saves memory, else t itself; gradients pass."""
with check("bytes-kept-alive") as test:

    def report(compact, t):
        """What compact returns, and whether that is t itself."""
        result = compact(t)
        return {"result": result, "is t": result is t}

    def first_row(compact, batch):
        """Compact a view of one row."""
        return report(compact, batch[:1])

    def whole_batch(compact, batch):
        """Compact a tensor that fills its storage."""
        return report(compact, batch)

    keep_equal = mistake(
        "The result of compact must keep shape, dtype and values: {detail}", stage=("type", "shape", "dtype")
    )
    nothing_to_gain = mistake(
        "Nothing to gain here: the tensor already fills its storage (or is smaller than a copy would be), "
        "return it as it is.",
        when=lambda seen: seen["is t"] is False,
    )
    batch = torch.arange(64 * 32).reshape(64, 32) / 7

    test("compact: one row of a (64, 32) batch needs 128 bytes")
    seen = observe_scenario(first_row, compact, batch).expecting(
        keep_equal,
        mistake(
            "contiguous() returns the same tensor when it is contiguous already, whole storage and all: "
            "that does not free anything. Copy explicitly (clone).",
            when=lambda seen: seen["is t"] and "contiguous" in seen.op_names(),
        ),
        mistake(
            "The row itself came back, and with it the whole storage. A copy is needed here.",
            when=lambda seen: seen["is t"],
        ),
    )
    seen.returns(
        {"result": batch[:1], "is t": False},
        because="The result of compact must keep shape, dtype and values: {detail}",
    )
    still = seen["result"].untyped_storage().nbytes()
    seen.that(still <= 128, f"The compacted tensor still keeps {still} bytes alive.", stage="aliasing")
    seen.leaves_arguments_alone()

    test("compact: the whole batch comes back as it is")
    seen = observe_scenario(whole_batch, compact, batch)
    seen.returns({"result": batch, "is t": True}, keep_equal, nothing_to_gain)
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    def parts_of(batch):
        """Views of a (64, 32) batch and tensors made from it, by what they are."""
        return {
            "three columns": batch[:, :3],
            "a row of columns that are apart": batch[5, ::4],
            "all but the first element": batch.flatten()[1:],
            "an empty slice": batch[:0],
            "a single element": batch[3, 4],
            "a short expanded row of a large batch": batch[:1].expand(5, 32),
            "a single float64 element": batch.double()[3, 4],
            "int8 rows": batch.to(torch.int8)[2:],
            "all but the first of the int8 elements": batch.to(torch.int8).flatten()[1:],
            "complex numbers, every other one": torch.complex(batch, -batch)[::2],
            "a transposed batch": batch.t(),
            "a batch seen as four, permuted": batch.view(4, 16, 32).permute(2, 0, 1),
            "a row expanded a thousand times": batch[:1].expand(1000, 32),
            "a column expanded, with a storage of its own": batch[:, :1].clone().expand(64, 2),
            "a 0-d tensor": batch.sum(),
        }

    def compact_part(compact, batch, name):
        """Compact one of the parts."""
        return report(compact, parts_of(batch)[name])

    keep_expanded = mistake(
        "The expanded tensor needs fewer bytes than its copy would: return it as it is.",
        when=lambda seen: seen["is t"] is False,
    )
    copy_here = mistake(
        "t itself came back, though its storage is larger than its elements need: copy here.",
        when=lambda seen: seen["is t"] is True,
    )
    for name, part in parts_of(batch).items():
        test.hidden(f"compact: {name}")
        room = part.numel() * part.element_size()
        fills = part.untyped_storage().nbytes() <= room
        advice = copy_here if not fills else keep_expanded if "expanded" in name else nothing_to_gain
        seen = observe_scenario(compact_part, compact, batch, name)
        seen.returns({"result": part, "is t": fills}, keep_equal, advice)
        still = seen["result"].untyped_storage().nbytes()
        seen.that(still <= room, "The compacted tensor still keeps more bytes alive than it needs.", stage="aliasing")
        seen.leaves_arguments_alone()

    left = "The copy left the autograd graph: clone keeps it, detach / torch.tensor do not."
    for idea, part in [
        ("compact: gradients pass through", batch[:2]),
        ("compact: the gradient of a single element passes through", batch[3, 4]),
    ]:
        test.hidden(idea)
        seen = observe(compact, part.requires_grad_()).expecting(
            mistake(left, stage="gradient", when=lambda seen: seen.gradient(0) is None)
        )
        seen.gives_gradients(lambda t: t * 1.0)
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 2.4 · The best weights that were never kept
#
# fix · warm-up · 8 min · 2 points
#
# Keeping the best weights of a training run is a few lines in every training loop. In this one `best` holds the *last*
# weights when the loop has ended:
#
#     best_loss, best = float("inf"), None
#     for epoch in range(20):
#         loss = train_one_epoch(model)
#         if loss < best_loss:
#             best_loss, best = loss, snapshot(model)
#
# Repair `snapshot`.
#
# **Contract**
#
# - The snapshot holds everything that `model.state_dict()` holds (parameters and persistent buffers, with the same
#   keys, values, dtypes and devices), as copies: later training, in-place writes or `load_state_dict` on the model do
#   not change them.
# - The copies don't require grad and hold no graph. The model itself is not changed; `model.load_state_dict(snapshot)`
#   restores it.
# - Two snapshots are independent of each other.
#
# <details><summary>Hint 1</summary>
#
# An optimizer step writes into the parameters in place. Which of detach, dict(...), contiguous, clone still see the
# same memory afterwards?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# state_dict() already detaches; what is missing is a copy of each entry's data.
#
# </details>


# %% answer="snapshot-weights"
def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """Copies of everything in the model's state_dict, untouched by what happens to the model later."""
    ### BEGIN SOLUTION
    return {name: value.clone() for name, value in model.state_dict().items()}
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # return {name: value.detach() for name, value in model.state_dict().items()}
    ### END GIVEN


# %% check="snapshot-weights" points=2
"""The snapshot is a full copy that training leaves alone, and taking it leaves the model alone."""
with check("snapshot-weights") as test:

    def small_model():
        """A model with batch norm, a float64 parameter and a buffer that is not persistent."""
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        model.register_parameter("scale", nn.Parameter(torch.tensor([0.1, 0.7], dtype=torch.float64)))
        model.register_buffer("scratch", torch.ones(2), persistent=False)
        return model

    def train_a_step(model):
        """Change every parameter in place, as an optimizer does, and the statistics of batch norm."""
        model.train()
        with torch.no_grad():
            model(torch.arange(15.0).reshape(5, 3) / 10)
            for parameter in model.parameters():
                parameter.sub_(0.25)

    def noted(tensors):
        """The dtypes and values of a dict of tensors at this moment."""
        return {name: [tensor.dtype, tensor.tolist()] for name, tensor in tensors.items()}

    def condition_of(model):
        """What a snapshot must not change."""
        return {
            "values": noted(model.state_dict()),
            "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
            "gradients": noted({name: p.grad for name, p in model.named_parameters() if p.grad is not None}),
            "training": [module.training for module in model.modules()],
        }

    def memory_of(model):
        """Its parameters and buffers, with the addresses of their data."""
        return [(tensor, tensor.data_ptr()) for tensor in [*model.parameters(), *model.buffers()]]

    def moved(memory, model):
        """Whether a parameter or buffer is another object than before, or its data lie elsewhere."""
        pairs = zip(memory, memory_of(model), strict=True)
        return any(old is not new or place != now for (old, place), (new, now) in pairs)

    def through_training(snapshot):
        """Take a snapshot, train a step, and look at both."""
        model = small_model()
        before, memory = condition_of(model), memory_of(model)
        taken = snapshot(model)
        entries = taken.values() if isinstance(taken, dict) else [taken]
        if no_tensors := [type(entry).__name__ for entry in entries if not isinstance(entry, Tensor)]:
            return {"no tensors": no_tensors}
        after, replaced = condition_of(model), moved(memory, model)
        at_first = noted(taken)
        train_a_step(model)
        return {"before": before, "after": after, "replaced": replaced, "at first": at_first, "later": noted(taken)}

    def left_alone(seen):
        """Judge that taking the snapshot did not change the model."""
        changed = [name for name, old in seen["before"].items() if seen["after"][name] != old]
        changed += ["parameters or buffers got other memory"] * seen["replaced"]
        seen.that(
            not changed, f"Taking the snapshot changed the model itself: {', '.join(changed)}.", stage="arguments"
        )

    test("a training step leaves the snapshot alone")
    seen = observe_scenario(through_training, snapshot)
    odd = ", ".join(dict.fromkeys(seen.value.get("no tensors", [])))
    seen.that(not odd, f"The snapshot must be a dict from names to tensors; found: {odd}.", stage="type")
    wanted, taken = seen["before"]["values"], seen["at first"]
    missing = ", ".join(name for name in wanted if name not in taken)
    seen.that(
        not missing,
        f"Entries are missing: {missing}.",
        mistake(
            f"Buffers are missing ({missing}): a model with batch norm is not restored by its parameters alone.",
            when=lambda seen: "1.running_mean" not in seen["at first"] and "0.weight" in seen["at first"],
        ),
    )
    for name, (kept, values) in wanted.items():
        came = taken[name][0]
        seen.that(came == kept, f"A snapshot must keep dtypes: {name} is {kept}, got {came}.", stage="dtype")
        seen.that(taken[name][1] == values, f"Entry {name} was not copied as it is: the values or shapes differ.")
    overwritten = ", ".join(name for name in taken if taken[name] != seen["later"][name])
    seen.that(
        not overwritten,
        "The snapshot changed when the model was trained: it holds other names for the same memory, not copies "
        f"({overwritten}).",
        stage="aliasing",
    )
    left_alone(seen)

    def back_again(snapshot):
        """Take a snapshot, train, load the snapshot: the model's output before and after."""
        model, batch = small_model().eval(), torch.arange(6.0).reshape(2, 3)
        before = model(batch).tolist()
        taken = snapshot(model)
        train_a_step(model)
        extra = [name for name in taken if name not in model.state_dict()]
        if not extra:
            model.load_state_dict(taken)
        return {"extra": extra, "before": before, "after": model.eval()(batch).tolist()}

    test("load_state_dict(snapshot) brings the old outputs back")
    seen = observe_scenario(back_again, snapshot)
    extra = ", ".join(seen["extra"])
    seen.that(
        not extra,
        f"Keys that state_dict() does not have: {extra}. Non-persistent buffers do not belong in it.",
        stage="shape",
    )
    seen.that(seen["before"] == seen["after"], "Loading the snapshot does not bring the old outputs back.")

    ### BEGIN HIDDEN TESTS
    def after_a_backward(snapshot):
        """A snapshot of a model with gradients, a frozen and an eval part: what is tracked, what changed."""
        model = small_model()
        model(torch.arange(15.0).reshape(5, 3)).square().sum().backward()
        model[0].weight.requires_grad_(False)
        model[1].eval()
        before, memory = condition_of(model), memory_of(model)
        taken = snapshot(model)
        return {
            "tracked": [name for name, value in taken.items() if value.requires_grad or value.grad_fn is not None],
            "before": before,
            "after": condition_of(model),
            "replaced": moved(memory, model),
        }

    test.hidden("no gradients, no graph in the snapshot")
    seen = observe_scenario(after_a_backward, snapshot)
    tracked = ", ".join(seen["tracked"])
    seen.that(
        not tracked,
        f"A snapshot that requires grad keeps the graph (and its memory) alive: {tracked}.",
        stage="gradient",
    )

    test.hidden("gradients, frozen parameters and modes of the model stay")
    left_alone(seen)

    def two_snapshots(snapshot):
        """Two snapshots with training in between; the first is loaded, the second overwritten."""
        model = small_model()
        first = snapshot(model)
        first_before = noted(first)
        train_a_step(model)
        second, trained = snapshot(model), noted(model.state_dict())
        second_before, first_after = noted(second), noted(first)
        model.load_state_dict(first)
        second_after = noted(second)
        for value in second.values():
            value.zero_()
        return {
            "first": [first_before, first_after],
            "trained": trained,
            "second": [second_before, second_after],
            "loaded": noted(model.state_dict()),
        }

    test.hidden("two snapshots are independent of each other, and of load_state_dict")
    seen = observe_scenario(two_snapshots, snapshot)
    (first, first_later), (second, second_later) = seen["first"], seen["second"]
    seen.that(second == seen["trained"], "The second snapshot does not hold the model's later weights.")
    seen.that(first == first_later, "A later snapshot changed an earlier one.", stage="aliasing")
    seen.that(second == second_later, "load_state_dict on the model changed the snapshot.", stage="aliasing")
    seen.that(first == seen["loaded"], "Writing into the snapshot changed the model.", stage="aliasing")

    def on_another_device(snapshot):
        """The devices of a snapshot of a model on the meta device."""
        return [str(value.device) for value in snapshot(nn.BatchNorm1d(2, device="meta")).values()]

    test.hidden("a model on another device (here: meta)")
    observe_scenario(on_another_device, snapshot).returns(
        ["meta"] * 5,
        because="The copies must stay on the devices of the originals.",
    )
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 2.5 · One write, all rows
#
# fix · warm-up · 8 min · 2 points
#
# A batch of sequences of different lengths needs a mask that says which positions are real. This one was meant to save
# memory; for lengths [3, 1, 2] every row comes out as [True, False, False], without an error or a warning. Repair it.
#
# **Contract**
#
# - `mask[b, t]` is True exactly where t < lengths[b].
# - `T=None` means the largest length (0 for an empty batch). A length above T gives a full row, 0 an empty one.
# - The result is bool, lives on the device of `lengths` and owns its memory: writing `mask[0, 0]` changes that element
#   only, and nothing in another mask.
# - `lengths` (int64 or int32) is not changed.
#
# <details><summary>Hint 1</summary>
#
# How many memory cells does the expanded mask have, and which of them does `mask[1, 1:] = False` write?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Either give every row its own memory before writing, or compute the mask in one comparison of positions (one row) with
# lengths (one column).
#
# </details>


# %% answer="padding-mask"
def padding_mask(lengths: Tensor, T: int | None = None) -> Tensor:
    """Which positions of each sequence are real: (B,) integer lengths -> (B, T) bool."""
    ### BEGIN SOLUTION
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, device=lengths.device) < lengths[:, None]
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # T = T if T is not None else int(lengths.max())
    # mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)  # saves memory
    # for i, n in enumerate(lengths):
    #     mask[i, n:] = False
    # return mask
    ### END GIVEN


# %% check="padding-mask" points=2
"""True where t < lengths[b]; bool; every element has its own memory; lengths stay as they are."""
with check("padding-mask") as test:
    test("lengths 3, 1 and 2 give three different rows")
    three = torch.tensor([3, 1, 2])
    real = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]]).bool()
    one_row = (
        "All rows are the same: after expand they are one row of memory, so every write hit all of them. "
        "Give each row its own memory before writing."
    )
    elementwise = (
        "Positions and lengths were compared elementwise: for B == T that silently gives a (T,) result, else it "
        "raises. The lengths must be a column (B, 1)."
    )
    seen = observe(padding_mask, three).expecting(mistake("The mask must be bool: {detail}", stage="dtype"))
    seen.returns(
        real,
        mistake(one_row, gives=torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0]])),
        mistake(
            "Position t belongs to the sequence when t < length; you counted one too many.",
            gives=torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1]]),
        ),
        mistake(elementwise, shape=(3,)),
        mistake("The mask is (T, B): sequences belong in rows.", gives=torch.tensor([[1, 1, 1], [1, 0, 1], [1, 0, 0]])),
        mistake("True marks the real positions, not the padding.", gives=~real),
        mistake(
            "The rows end with the real positions; padding comes after them.",
            gives=torch.tensor([[1, 1, 1], [0, 0, 1], [0, 1, 1]]),
        ),
    )
    seen.leaves_arguments_alone()

    test("T is given: longer than all, or shorter than some; a length of 0")
    lengths = torch.tensor([4, 0, 2])
    long = torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]).bool()
    t_ignored = mistake("T was given, but the mask has as many columns as the largest length.", shape=(3, 4))
    observe(padding_mask, lengths, 6).returns(long, t_ignored)
    observe(padding_mask, lengths, 3).returns(torch.tensor([[1, 1, 1], [0, 0, 0], [1, 1, 0]]).bool(), t_ignored)

    test("equal lengths: writing one element changes that element only")
    shared_cell = mistake(
        "The values are right, but several elements share one memory cell (a stride is 0): "
        "a caller's write would change many rows.",
        stage="aliasing",
    )
    seen = observe(padding_mask, torch.tensor([2, 2, 2]), 4).expecting(shared_cell)
    seen.returns(torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]).bool())
    seen.owns_its_memory()

    ### BEGIN HIDDEN TESTS
    def mask_of_lists(lengths, T=None):
        """The mask from nested lists."""
        numbers = lengths.tolist()
        T = max(numbers, default=0) if T is None else T
        return torch.tensor([[t < n for t in range(T)] for n in numbers], dtype=torch.bool).reshape(len(numbers), T)

    no_maximum = mistake(
        "An empty batch has no maximum: T=None must give shape (0, 0).",
        raises=r"max\(\)|out of bounds for dimension 0 with size 0",
        when=lambda seen: seen.args[1] is None,
    )
    zero_is_none = mistake(
        "T=0 is not T=None: asked for is a mask without columns.", shape=(2, 2), when=lambda seen: seen.args[1] == 0
    )
    empty = torch.empty(0, dtype=torch.int64)
    for idea, lengths, T in [
        ("an empty batch without T", empty, None),
        ("an empty batch with T", empty, 4),
        ("an empty int32 batch", empty.int(), None),
        ("one sequence", torch.tensor([3]), None),
        ("one sequence that is cut", torch.tensor([5]), 2),
        ("T = 0", torch.tensor([2, 1]), 0),
        ("nothing but empty sequences", torch.tensor([0, 0]), None),
        ("int32 lengths", torch.tensor([1, 4, 2, 2], dtype=torch.int32), None),
        ("every second one of many lengths", torch.tensor([3, 9, 1, 9, 4, 9])[::2], 5),
        ("as many sequences as positions", torch.tensor([2, 4, 1, 3]), 4),
        ("a single column", torch.tensor([1, 0, 3]), 1),
    ]:
        test.hidden(idea)
        seen = observe(padding_mask, lengths, T).expecting(shared_cell, zero_is_none)
        seen.returns(mask_of_lists, no_maximum)
        seen.owns_its_memory()
        seen.leaves_arguments_alone()

    def two_masks(padding_mask, lengths):
        """Two masks of the same lengths; the first is overwritten before the second is made."""
        first = padding_mask(lengths, 3)
        first.logical_not_()
        second = padding_mask(lengths, 3)
        return {"first": first, "second": second}

    test.hidden("two masks of the same lengths, the first overwritten before the second is made")
    observe_scenario(two_masks, padding_mask, three).returns(
        {"first": ~real, "second": real},
        mistake("The two masks share their memory: each call must make a mask of its own.", stage="value"),
    )

    wrong_device = "The result is on the wrong device: build the mask on the device of lengths."

    def judge_device(seen, device):
        """Judge the result's device. Code that reads a tensor's values can't run on meta: it may raise."""
        mixed = "expected device" in seen.error_text or "same device" in seen.error_text
        if mixed or "meta" not in seen.error_text:
            seen.returns(device, mistake(wrong_device, when=lambda seen: mixed or not seen.error_text))

    def device_of_mask(padding_mask, lengths):
        """The device of the mask."""
        return padding_mask(lengths, 5).device.type

    def device_by_default(padding_mask, lengths):
        """The device of the mask when tensors are made on meta unless someone names another device."""
        with torch.device("meta"):
            return padding_mask(lengths, 5).device.type

    test.hidden("lengths on another device than the default one")
    on_meta = torch.empty(3, dtype=torch.int64, device="meta")
    judge_device(observe_scenario(device_of_mask, padding_mask, on_meta), "meta")
    judge_device(observe_scenario(device_by_default, padding_mask, torch.tensor([4, 0, 2])), "cpu")
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 2.6 · Where does every element live?
#
# implement · solid · 12 min · 2 points
#
# Write down for each element of a tensor the memory cell in which it lies. With such a map two questions of daily work
# become one line each: do two tensors share a cell, and is a tensor contiguous?
#
# **Contract**
#
# - Entry [i, j, ...] of the result is the number of the storage cell in which t[i, j, ...] lies, counted from the
#   beginning of the *storage* in elements of t's dtype. The result is int64 and has t's shape.
# - It works for every strided CPU tensor: slices, transposes, expanded and overlapping views, 0-d and empty tensors,
#   any dtype, with or without requires_grad. t is not changed.
#
# **Rule.** The values of t are never read: shape, strides and offset say where everything lives.
#
# <details><summary>Hint 1</summary>
#
# t[0, 0, ...] lies in cell storage_offset(). How far is it from there to t[1, 0, ...]?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# cell = offset + i\*stride(0) + j\*stride(1) + ...: one arange per dimension, reshaped so that they broadcast against
# each other.
#
# </details>


# %% answer="memory-cells"
def memory_cells(t: Tensor) -> Tensor:
    """The number of the storage cell of each element of t, in elements: int64, same shape as t."""
    ### BEGIN SOLUTION
    cells = torch.tensor(t.storage_offset())
    for size, stride in zip(t.shape, t.stride(), strict=True):
        cells = cells.unsqueeze(-1) + torch.arange(size) * stride
    return cells
    ### END SOLUTION


# %% check="memory-cells" points=2
"""The storage cell of each element, in elements; int64; the values of t are not read."""
with check("memory-cells") as test:
    t = torch.tensor([[7.0, 30, 12, 25], [3, 41, 18, 9], [50, 22, 6, 33]])
    row_by_row = (
        "You numbered the elements in row-major order of the shape. "
        "That is only right for a fresh tensor; strides decide."
    )
    in_bytes = "Cells are counted in elements, not bytes."
    paired = "Strides and dimensions are paired the wrong way round: stride(d) belongs to dimension d."
    known = [
        mistake(
            "You returned values of t. They happen to equal the cell numbers for an arange; "
            "look at strides and offset.",
            gives=lambda t: t,
        ),
        mistake("Cell numbers are int64: {detail}", stage="dtype"),
    ]

    test("a fresh 3x4 tensor")
    seen = observe(memory_cells, t).expecting(*known)
    seen.returns(
        torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        mistake(in_bytes, gives=torch.tensor([[0, 4, 8, 12], [16, 20, 24, 28], [32, 36, 40, 44]])),
        mistake(paired, gives=torch.tensor([[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14]])),
        mistake(
            "You went down the columns: in a fresh tensor the cells of one row are neighbours.",
            gives=torch.tensor([[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]),
        ),
        mistake("The first cell has number 0.", gives=torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])),
    )
    seen.leaves_arguments_alone()

    test("its transpose")
    seen = observe(memory_cells, t.t()).expecting(*known)
    seen.returns(
        torch.tensor([[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]),
        mistake(row_by_row, gives=torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])),
        mistake(paired, gives=torch.tensor([[0, 1, 2], [4, 5, 6], [8, 9, 10], [12, 13, 14]])),
    )

    test("a slice that begins at row 1, column 1")
    seen = observe(memory_cells, t[1:, 1:3]).expecting(*known)
    no_offset = "A view does not start at cell 0: add storage_offset()."
    seen.returns(
        torch.tensor([[5, 6], [9, 10]]),
        mistake(no_offset, gives=torch.tensor([[0, 1], [4, 5]])),
        mistake(row_by_row, gives=torch.tensor([[0, 1], [2, 3]])),
        mistake(row_by_row, gives=torch.tensor([[5, 6], [7, 8]])),
        mistake(in_bytes, gives=torch.tensor([[20, 21], [24, 25]])),
        mistake(in_bytes, gives=torch.tensor([[20, 24], [36, 40]])),
    )

    test("expanded rows and columns: several elements in one cell")
    own_cells = mistake(
        "In an expanded tensor many elements share a cell (stride 0): they must get the same number.",
        when=lambda seen: seen.value.unique().numel() == seen.value.numel(),
    )
    seen = observe(memory_cells, torch.tensor([8.0, 5, 9]).expand(4, 3)).expecting(*known)
    seen.returns(torch.tensor([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), own_cells)
    flags = torch.tensor([[True], [False], [True]])
    seen = observe(memory_cells, flags.expand(3, 2)).expecting(*known)
    seen.returns(torch.tensor([[0, 0], [1, 1], [2, 2]]), own_cells)

    test("a permuted 3-d tensor")
    permuted = (torch.arange(12.0) + 40).reshape(2, 2, 3).permute(2, 0, 1)
    observe(memory_cells, permuted).expecting(*known).returns(
        torch.tensor([[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]]),
        mistake(row_by_row, gives=torch.tensor([[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]])),
    )

    ### BEGIN HIDDEN TESTS
    def cell_by_cell(t):
        """Offset plus strides, one element at a time."""
        cells = torch.full(t.shape, t.storage_offset())
        for position in torch.cartesian_prod(*map(torch.arange, t.shape)).reshape(-1, t.dim()).tolist():
            cells[tuple(position)] += sum(i * s for i, s in zip(position, t.stride(), strict=True))
        return cells

    row, many = torch.arange(12.0) * 3 + 20, torch.arange(24.0) * 2 + 50
    for idea, view in [
        ("three overlapping windows", row.unfold(0, 4, 3)),
        ("a diagonal", row.view(3, 4).diagonal(1)),
        ("one dimension, every third element from the second on", row[1::3]),
        ("a channels_last image", many.view(2, 3, 2, 2).to(memory_format=torch.channels_last)),
        ("five dimensions, permuted", many.view(2, 3, 1, 2, 2).permute(4, 2, 0, 3, 1)),
        ("complex numbers, with an offset", torch.complex(row, row).view(3, 4)[1:, ::2]),
        ("int8", (torch.arange(12, dtype=torch.int8) + 50).view(4, 3)[2:].t()),
        ("half the bytes of each number, with an offset", row.view(torch.int16)[5:9]),
        ("a tensor that requires grad", row.view(3, 4)[:, 1:].requires_grad_()),
        ("a square tensor, transposed", many[:9].clone().view(3, 3).t()),
    ]:
        test.hidden(idea)
        seen = observe(memory_cells, view).expecting(*known)
        seen.returns(cell_by_cell)
        seen.leaves_arguments_alone()

    test.hidden("0-d with an offset")
    observe(memory_cells, row[7]).returns(
        torch.tensor(7),
        mistake("A 0-d tensor lives in one cell, storage_offset(): the result is 0-d too.", shape=(1,)),
        mistake(no_offset, gives=torch.tensor(0)),
    )

    test.hidden("empty shapes")
    for empty in (torch.empty(0), torch.empty(2, 0, 3), row.view(3, 4)[1:1]):
        observe(memory_cells, empty).returns(torch.empty(empty.shape, dtype=torch.int64))

    test.hidden("values that tell nothing: all equal, and nobody reads them")
    for view in (torch.ones(4, 3).t()[1:], torch.ones(3, 4)[:, 2], torch.ones(3).expand(2, 3)):
        seen = observe(memory_cells, view)
        seen.returns(cell_by_cell)
        readers = ", ".join(dict.fromkeys(name for name, _ in seen.reads))
        seen.that(
            not readers, f"The values of t were read: {readers}. Shape, strides and offset are enough.", stage="rule"
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 2.7 · Overlapping windows without copying
#
# implement · long · 18 min · 3 points
#
# Moving averages, frames of a sound, patches of a long sequence: all begin with windows that overlap. Copied, they cost
# `size` times the memory; with the right strides they cost nothing.
#
# **Contract**
#
# - `out[..., i, j] == x[..., i * step + j]`: (..., T) becomes (..., n, size), with n = (T - size) // step + 1 windows.
#   An incomplete last window is left out. Any number of leading dimensions stays as it is.
# - The result is a view of x, whatever x looks like (contiguous or not, with an offset, expanded): a later write to x
#   shows in every window that contains the element.
# - size < 1, step < 1 or size > T raises `ValueError`.
# - Gradients flow: an element's gradient is the sum over all windows that contain it.
#
# **Rule.** Nothing may be copied: no operation may read the elements of x (stack, cat, gather, index, clone, contiguous
# and the like).
#
# <details><summary>Hint 1</summary>
#
# Going from one window to the next, and from one element of a window to the next: how many memory cells does each step
# move, in terms of x.stride(-1)?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The last dimension becomes two, with strides (step \* s, s), where s is x's own last stride; all leading strides and
# the offset stay. One Tensor method does exactly this along a chosen dimension; the general tool takes size, stride and
# offset.
#
# </details>


# %% answer="sliding-windows"
def windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """All windows of `size` neighbours along the last dimension, `step` apart: (..., T) -> (..., n, size), a view of x.

    Raises ValueError for size < 1, step < 1 or size > T.
    """
    ### BEGIN SOLUTION
    if not 1 <= size <= x.shape[-1] or step < 1:
        raise ValueError(f"no windows of {size} with step {step} in {x.shape[-1]} elements")
    return x.unfold(-1, size, step)
    ### END SOLUTION


# %% check="sliding-windows" points=3
"""Window i begins at i * step; a view of x for any x; illegal sizes and steps raise; gradients add up."""
with check("sliding-windows") as test:

    def one_by_one(x, size, step=1):
        """The windows of a 1-d x, element by element."""
        count = (len(x) - size) // step + 1
        rows = [[x[i * step + j].item() for j in range(size)] for i in range(count)]
        return torch.tensor(rows, dtype=x.dtype).reshape(count, size)

    def spread(x, size, step=1):
        """The elements of a window are step apart, windows begin one apart."""
        count = (len(x) - size) // step + 1
        return torch.tensor([[x[i + j * step].item() for j in range(size)] for i in range(count)])

    not_copied = [
        mistake(
            "What comes back from NumPy has neither x's storage nor x's graph: stay with PyTorch's views.",
            stage="aliasing",
            when=lambda seen: "numpy" in seen.op_names(),
        ),
        mistake(
            "The windows were copied ({detail}). With the right strides they can overlap in the same memory.",
            stage="aliasing",
        ),
        mistake(
            "The view does not belong to the autograd graph: gradients must flow to x.",
            stage="gradient",
            when=lambda seen: not seen.noted.tracked,
        ),
    ]
    for step in (1, 2, 3, 4):
        test(f"windows of 4 in ten numbers, step {step}")
        seen = observe(windows, torch.arange(10, 20), 4, step).expecting(*not_copied)
        seen.returns(
            one_by_one,
            mistake(
                "One window is missing: there are (T - size) // step + 1 of them.",
                gives=lambda x, size, step: one_by_one(x, size, step)[:-1],
            ),
            mistake(
                "step was ignored: windows start every `step` elements.",
                gives=lambda x, size, step: one_by_one(x, size),
                stage=("shape", "value"),
            ),
            mistake(
                "step spreads the elements inside a window; it should move the window.",
                gives=spread,
                stage=("shape", "value"),
            ),
            mistake(
                "Your windows do not overlap: consecutive windows start `step` apart, not `size`.",
                gives=lambda x, size, step: one_by_one(x, size, size),
                stage=("shape", "value"),
            ),
            mistake(
                "Each window is a column: asked for is (n, size), one window in each row.",
                gives=lambda x, size, step: one_by_one(x, size, step).t(),
            ),
        )
        seen.shares_memory_with(0)
        seen.leaves_arguments_alone()

    test("a (2, 3, 8) batch, size 3, step 2")
    batch = torch.arange(100, 148).reshape(2, 3, 8)
    seen = observe(windows, batch, 3, 2).expecting(*not_copied)
    seen.returns(
        torch.stack([torch.stack([one_by_one(line, 3, 2) for line in lines]) for lines in batch]),
        mistake("Leading dimensions must stay as they are: {detail}", stage="shape"),
    )
    seen.shares_memory_with(0)

    test("a later write to x shows in every window that contains the element")

    def write_after(windows, x):
        """Take windows, write into x, return the windows."""
        out = windows(x, 3)
        x[2] = 77
        return out

    observe_scenario(write_after, windows, torch.tensor([5, 6, 8, 9, 4])).returns(
        torch.tensor([[5, 6, 77], [6, 77, 9], [77, 9, 4]])
    )

    ### BEGIN HIDDEN TESTS
    def by_slices(x, size, step=1):
        """The windows as stacked slices."""
        return torch.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], dim=-2)

    def fresh_strides(x, size, step=1):
        """What you get with the strides that a fresh tensor of x's shape would have."""
        count = (x.shape[-1] - size) // step + 1
        return x.as_strided((*x.shape[:-1], count, size), (*torch.empty(x.shape).stride()[:-1], step, 1))

    def row_strides(x, size, step=1):
        """What you get when only the last stride is taken to be 1."""
        count = (x.shape[-1] - size) // step + 1
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step, 1))

    def from_cell_0(x, size, step=1):
        """What you get when x is taken to begin at the start of its storage."""
        count, s = (x.shape[-1] - size) // step + 1, x.stride(-1)
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * s, s), 0)

    fresh_only = (
        "It works for a fresh tensor only: you computed the strides from the shape. "
        "A transposed or sliced x has its own: use x.stride()."
    )
    at_start = mistake(
        "The windows begin at the start of the storage, not at x's first element: keep x.storage_offset().",
        gives=from_cell_0,
        stage="value",
    )
    numbers = torch.arange(60) * 3 + 1
    for idea, x, size, step in [
        ("a transposed matrix", numbers.reshape(10, 6).t(), 4, 2),
        ("a slice with an offset", numbers[7:20], 5, 3),
        ("every second element", numbers[1::2], 4, 1),
        ("columns out of the middle of a matrix", numbers.reshape(6, 10)[1:4, 2:9], 3, 2),
        ("an expanded row", numbers[:8].expand(3, 8), 3, 2),
        ("one number, expanded", numbers[4:5].expand(6), 3, 1),
        ("a permuted 3-d tensor", numbers.reshape(3, 5, 4).permute(2, 0, 1), 2, 2),
        ("size = T", numbers[:7], 7, 3),
        ("size = 1", numbers[:7], 1, 2),
        ("a step larger than the tensor", numbers[:7], 3, 9),
        ("steps larger than the windows", numbers[:13], 2, 5),
        ("an incomplete last window", numbers[:12], 4, 3),
        ("a last window that just fits", numbers[:13], 4, 3),
        ("bool", numbers[:9] % 2 == 0, 4, 2),
        ("float64, four dimensions", torch.arange(48.0, dtype=torch.float64).reshape(2, 1, 3, 8), 3, 1),
        ("an empty batch", torch.empty(0, 8), 3, 2),
    ]:
        test.hidden(idea)
        seen = observe(windows, x, size, step).expecting(*not_copied)
        seen.returns(
            by_slices,
            mistake(fresh_only, gives=fresh_strides, stage="value"),
            mistake(fresh_only, gives=row_strides, stage="value"),
            at_start,
        )
        seen.shares_memory_with(0)
        readers = ", ".join(
            dict.fromkeys(name for name, _ in seen.reads if name != "set_")
        )  # set_ only takes a storage
        seen.that(
            not readers,
            f"The windows were copied ({readers}). With the right strides they can overlap in the same memory.",
            stage="rule",
        )

    test.hidden("step is 1 when it is not given")
    observe(windows, numbers[:7], 3).returns(by_slices)

    for size, step in [(0, 1), (-1, 1), (8, 1), (3, 0), (3, -1), (8, 0)]:
        test.hidden("sizes and steps that make no sense")
        seen = observe(windows, numbers[:7], size, step)
        seen.raises(ValueError, because=f"size={size} and step={step} for T = 7 must raise ValueError.")
    test.hidden("sizes and steps that make no sense, with leading dimensions")
    seen = observe(windows, batch, 9)
    seen.raises(ValueError, because="size=9 for a (2, 3, 8) tensor must raise ValueError: T is its last dimension.")

    for idea, x in [
        ("gradients: every window passes its own on", torch.arange(9.0, requires_grad=True)),
        ("gradients of a batch", torch.arange(18.0).reshape(2, 9).requires_grad_()),
        ("gradients of a transposed leaf", torch.arange(18.0).reshape(9, 2).t().requires_grad_()),
    ]:
        test.hidden(idea)
        seen = observe(windows, x, 4, 2).expecting(*not_copied)
        seen.gives_gradients(by_slices)
        seen.shares_memory_with(0)
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 2.8 · Where are the cuts?
#
# predict · warm-up · 8 min · 2 points
#
# Batches, heads and devices get their share by cutting, and a cut that means something else than you think often raises
# no error. Replace each `...` by what the snippet next to it gives, with `v = torch.arange(10)` and
# `sizes(parts) = [len(p) for p in parts]`.
#
# **Contract**
#
# - A list may also be written as a tuple. `split_3_3` asks for `True` or `False`.
# - Every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# For each call: is the number a size, a count, or a position to cut at?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# split: sizes. tensor_split: an int is a count, a list holds cut positions, which follow slicing rules. chunk: at most
# that many parts, all of size ceil(10 / n) but the last.
#
# </details>

# %% answer="predict-cuts"
# v = torch.arange(10)
### BEGIN SOLUTION
cut_answers = {
    "split_4": [4, 4, 2],  # sizes(v.split(4))
    "tsplit_4": [3, 3, 2, 2],  # sizes(v.tensor_split(4))
    "chunk_4": [3, 3, 3, 1],  # sizes(v.chunk(4))
    "chunk_6": [2, 2, 2, 2, 2],  # sizes(v.chunk(6))
    "split_3_7": [3, 7],  # sizes(v.split([3, 7]))
    "tsplit_3_7": [3, 4, 3],  # sizes(v.tensor_split([3, 7]))
    "split_3_3": True,  # does v.split([3, 3]) raise?
    "tsplit_2_20": [2, 8, 0],  # sizes(v.tensor_split([2, 20]))
    "interleave": [0, 0, 1, 1, 2, 2],  # v[:3].repeat_interleave(2).tolist()
    "repeat": [0, 1, 2, 0, 1, 2],  # v[:3].repeat(2).tolist()
}
### END SOLUTION
### BEGIN GIVEN
# cut_answers = {
#     "split_4": ...,  # sizes(v.split(4))
#     "tsplit_4": ...,  # sizes(v.tensor_split(4))
#     "chunk_4": ...,  # sizes(v.chunk(4))
#     "chunk_6": ...,  # sizes(v.chunk(6))
#     "split_3_7": ...,  # sizes(v.split([3, 7]))
#     "tsplit_3_7": ...,  # sizes(v.tensor_split([3, 7]))
#     "split_3_3": ...,  # does v.split([3, 3]) raise?
#     "tsplit_2_20": ...,  # sizes(v.tensor_split([2, 20]))
#     "interleave": ...,  # v[:3].repeat_interleave(2).tolist()
#     "repeat": ...,  # v[:3].repeat(2).tolist()
# }
### END GIVEN

# %% check="predict-cuts" points=2
"""Each item against what its snippet really gives; every right item earns its share."""
with check("predict-cuts") as test:
    test("every item is compared with what its snippet gives")
    ten = torch.arange(10)

    def sizes(parts):
        """How long the parts are."""
        return [len(part) for part in parts]

    def refuses(sizes_given):
        """Whether split raises for these sizes."""
        try:
            ten.split(sizes_given)
        except RuntimeError:
            return True
        return False

    swapped = "A list means sizes for split and cut positions for tensor_split; you swapped them."
    repeating = (
        "repeat tiles the whole tensor (numpy.tile); repeat_interleave repeats each element in place (numpy.repeat)."
    )
    a_size = "split's integer is the size of each part, not the number of parts."
    a_count = "tensor_split's integer is the number of parts; the first 10 % 4 of them get one element more."
    a_ceil = "chunk(n) uses parts of size ceil(10 / n) until the elements are used up: the last one is smaller."
    test.points = observe_value(cut_answers).predicts(
        {
            "split_4": prediction(
                sizes(ten.split(4)),
                ([3, 3, 2, 2], a_size),
                ([3, 3, 3, 1], a_size),
                because="Parts of size 4 are cut off until the elements are used up: the last one is smaller.",
            ),
            "tsplit_4": prediction(
                sizes(ten.tensor_split(4)),
                ([4, 4, 2], a_count),
                (
                    [2, 2, 2, 4],
                    "tensor_split gives the extra elements to the first parts, one each; "
                    "it is split whose last part is smaller.",
                ),
                because=a_count,
            ),
            "chunk_4": prediction(
                sizes(ten.chunk(4)),
                ([4, 4, 2], "chunk's integer is a number of parts, not their size."),
                because=a_ceil,
            ),
            "chunk_6": prediction(
                sizes(ten.chunk(6)),
                (
                    [2, 2, 2, 2, 1, 1],
                    "chunk(6) needs parts of size ceil(10 / 6) = 2, and five of them are enough: "
                    "chunk may return fewer parts than asked for.",
                ),
                ([6, 4], "chunk's integer is a number of parts, not their size."),
                because="chunk(n) uses parts of size ceil(10 / n) until the elements are used up.",
            ),
            "split_3_7": prediction(
                sizes(ten.split([3, 7])), ([3, 4, 3], swapped), because="For split a list means sizes."
            ),
            "tsplit_3_7": prediction(
                sizes(ten.tensor_split([3, 7])),
                ([3, 7], swapped),
                because="The parts are v[:3], v[3:7] and v[7:].",
            ),
            "split_3_3": prediction(
                refuses([3, 3]),
                because="The list given to split must sum to the size of the dimension "
                "(its length is the number of parts): it raises.",
            ),
            "tsplit_2_20": prediction(
                sizes(ten.tensor_split([2, 20])),
                because="Cut positions follow slicing rules: v[:2], v[2:20], v[20:], the last one empty.",
            ),
            "interleave": prediction(ten[:3].repeat_interleave(2), because=repeating),
            "repeat": prediction(ten[:3].repeat(2), because=repeating),
        },
        points=2,
    )
test.points

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
error_of(lambda: torch.quantile(torch.zeros(2**24 + 1), 0.5))

# %% [markdown]
# `torch.quantile` takes q between 0 and 1, runs on any device, and has gradients: 3.25 lies a quarter of the way from 3
# to 4, so 3 gets 0.75 and 4 gets 0.25. NumPy wants an array, and arrays have no gradients. `torch.quantile` takes at
# most 2**24 elements; beyond that there are `torch.kthvalue` and `torch.sort`.
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

# %% [markdown]
# ### Exercise 2.9 · Drop the k smallest, keep the order
#
# implement · solid · 12 min · 2 points
#
# Pruning weights, trimming outliers, dropping the easiest samples of a batch: k values have to go, and the rest must
# stay in its place.
#
# **Contract**
#
# - `drop_lowest(x, k)` returns the 1-d tensor x without its k smallest values, the others in their original order: (N,)
#   becomes (N - k,).
# - Exactly k elements go. Among equal values the ones that come first are dropped first; nan counts as the largest
#   value.
# - Dtype and device stay, x is not changed, gradients reach the kept elements and only those.
# - k = 0 keeps everything, k = N gives an empty tensor; k < 0 or k > N raises `ValueError`.
#
# <details><summary>Hint 1</summary>
#
# Which tools give you the *positions* of the smallest values, not only the values? And what does a tool that returns a
# sorted copy do to the order?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A stable argsort names the k positions to drop. Turn them into a boolean mask over x (or sort the positions to keep)
# and index with it; `torch.where` with a fill value only replaces.
#
# </details>


# %% answer="drop-lowest"
def drop_lowest(x: Tensor, k: int) -> Tensor:
    """x without its k smallest values, in the original order: (N,) -> (N - k,).

    Raises ValueError when k is not in 0..N.
    """
    ### BEGIN SOLUTION
    if not 0 <= k <= len(x):
        raise ValueError(f"can't drop {k} of {len(x)} elements")
    keep = torch.ones_like(x, dtype=torch.bool)
    keep[x.argsort(stable=True)[:k]] = False
    return x[keep]
    ### END SOLUTION


# %% check="drop-lowest" points=2
"""Exactly the k smallest values go, the first of equal ones first; order, dtype and gradients stay."""
with check("drop-lowest") as test:
    test("4, 1, 3, 2, 5 without the 2 smallest")
    five = torch.tensor([4.0, 1, 3, 2, 5])
    seen = observe(drop_lowest, five, 2)
    seen.returns(
        torch.tensor([4.0, 3, 5]),
        mistake(
            "torch.where never removes anything: the dropped elements were replaced, the length stayed. "
            "Index with a mask instead.",
            when=lambda seen: seen.value.shape == (5,) and seen.value[[0, 2, 4]].tolist() == [4, 3, 5],
        ),
        mistake("You dropped the first k positions, not the k smallest values.", gives=torch.tensor([3, 2, 5])),
        mistake(
            "The values are right, their order is not: sorting (or topk) forgets where they came from. "
            "Keep the positions.",
            stage="value",
            when=lambda seen: sorted(seen.value.tolist()) == [3, 4, 5],
        ),
        mistake("You dropped the largest.", when=lambda seen: sorted(seen.value.tolist()) == [1, 2, 3]),
        mistake("T[i+1:-1] ends before the last element; the slice to the end is T[i+1:].", gives=torch.tensor([4, 3])),
        mistake("These are the values to be dropped.", when=lambda seen: sorted(seen.value.tolist()) == [1, 2]),
        mistake("These are positions; asked for are the values that stay.", gives=torch.tensor([0, 2, 4])),
    )
    seen.leaves_arguments_alone(mistake("x itself was changed.", stage="arguments"))

    test("equal values at the threshold: exactly k elements go")
    ties = (
        "With equal values at the threshold you dropped too many or too few: a comparison with a threshold "
        "(or removing by value) cannot tell equal elements apart."
    )
    observe(drop_lowest, torch.tensor([5.0, 2, 2, 3, 1]), 2).returns(
        torch.tensor([5.0, 2, 3]), mistake(ties, stage="shape")
    )

    for k in (-1, 6):
        test(f"k = {k} of five elements")
        seen = observe(drop_lowest, five, k)
        seen.raises(ValueError, because="k outside 0..N must raise ValueError: {detail}.")

    ### BEGIN HIDDEN TESTS
    def by_sorting(x, k):
        """Sorts the positions in Python, with nan at the end, and indexes with those that stay."""
        key = {i: (1, 0, i) if value != value else (0, value, i) for i, value in enumerate(x.tolist())}
        return x[torch.tensor(sorted(sorted(key, key=key.get)[k:]), dtype=torch.int64)]

    def later_first(x, k):
        """The same, but among equal values the later ones are dropped first."""
        return by_sorting(x.flip(0), k).flip(0)

    not_first = (
        "Among equal values the first ones are dropped first; your sort is not stable or breaks ties the other way."
    )

    def has_ties(seen):
        """Whether some of the values were equal."""
        return len(seen.args[0].unique()) < len(seen.args[0])

    known = [
        mistake(not_first, gives=later_first, stage="value", when=has_ties),
        mistake(ties, stage="shape", when=has_ties),
    ]
    g = torch.Generator().manual_seed(9)
    twelve = torch.randn(12, generator=g)
    for idea, x, k in [
        ("which of the equal values went", torch.tensor([2.0, 1, 2, 3, 2, 4]), 2),
        ("many equal values", torch.randint(3, (40,), generator=g).float(), 17),
        ("two equal values, the threshold above both", torch.tensor([2.0, 7, 2, 5]), 2),
        ("k = 0", twelve, 0),
        ("k = 1", twelve, 1),
        ("k = N - 1", twelve, 11),
        ("k = N", twelve, 12),
        ("k = N, int64", torch.tensor([3, 1, 2]), 3),
        ("an empty tensor", torch.empty(0), 0),
        ("int64, with negative numbers", torch.tensor([-3, 8, -7, 0, 5]), 3),
        ("int64 that float32 can't hold", torch.tensor([2**24 + 1, 2**24, 7]), 2),
        ("float64 that float32 can't hold", torch.tensor([1 + 1e-12, 1.0, 3.0], dtype=torch.float64), 1),
        ("bfloat16", torch.tensor([2.0, -1.0, 0.5], dtype=torch.bfloat16), 1),
        ("not contiguous", torch.randn(8, 3, generator=g)[:, 1], 3),
        ("infinities", torch.tensor([1.0, -torch.inf, torch.inf, 0.0, -torch.inf]), 3),
    ]:
        test.hidden(idea)
        seen = observe(drop_lowest, x, k).expecting(*known)
        seen.returns(by_sorting, rtol=0.0, atol=0.0)
        seen.leaves_arguments_alone(mistake("x itself was changed.", stage="arguments"))

    nan_is_largest = mistake(
        "A nan counts as the largest value (as in torch.sort); comparisons with nan are always False: {detail}",
        stage=("shape", "value"),
    )
    for values, k in [([torch.nan, 1, 2], 2), ([2, torch.nan, 1, torch.inf], 3), ([3, torch.nan, 1, torch.nan, 2], 4)]:
        test.hidden("nan is the largest value")
        observe(drop_lowest, torch.tensor(values), k).returns(by_sorting, nan_is_largest)

    left_graph = "The result left the autograd graph (through NumPy, .tolist() or .data)."
    for idea, values, k in [
        ("gradients reach the kept elements and only those", [0.5, -1.0, 2.0, 1.5, -0.5], 2),
        ("gradients reach all elements for k = 0", [0.5, -1.0, 2.0], 0),
        ("gradients tell which of the equal values went", [5.0, 2, 2, 3, 1], 2),
        ("gradients of a hundred equal values", [2.0] * 100, 37),
        ("gradients tell which nan went", [torch.nan, 1, torch.nan, 2, torch.nan], 3),
    ]:
        test.hidden(idea)
        seen = observe(drop_lowest, torch.tensor(values, requires_grad=True), k)
        seen.expecting(
            mistake(left_graph, raises="requires grad"),
            mistake(left_graph, stage="gradient", when=lambda seen: not seen.noted.tracked),
            mistake(
                not_first,
                stage="gradient",
                when=lambda seen: has_ties(seen) and bool(seen.noted.gradients),
            ),
        )
        seen.returns(by_sorting)
        seen.gives_gradients(by_sorting)
    ### END HIDDEN TESTS

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
# NumPy knows only the CPU's memory. `torch.quantile` runs where the tensor is, and its limit of 2**24 elements is the
# same there.

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
