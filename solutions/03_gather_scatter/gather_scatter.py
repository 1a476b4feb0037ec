# %% [markdown]
# # Gather and scatter
#
# This chapter is about reading and writing by index, with two functions that look alike, are easy to confuse, and never
# broadcast. After this chapter you can
#
# - write down the index formula of any gather or scatter call and compute small cases by hand;
# - give an index the right number of dimensions, shape and dtype, and explain why gather and scatter never broadcast;
# - recognise duplicate indices as a race, count them, and choose an adding or averaging operation instead;
# - say what the gradient of gather is (scatter_add) and of scatter (gather), and when it is wrong;
# - use the pair where you really need it: label log-probabilities, smoothed targets, last valid step, segment means,
#   top-p masks.
#
# **55 minutes to read, 106 minutes to practise, 20 points.** You need chapter 2, sections 2.1, 2.2 and 2.4 (shape,
# stride, view or copy, `expand`), and you should know what `backward` and `.grad` do.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import math
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.demos import error_of, results_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.call_path import call_path
from torchkata.pictures.index_steps import collision_map, gather_scatter_stepper
from torchkata.pictures.nucleus import sort_decide_put_back
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    corners,
    incoming_gradient,
    known,
    mistake,
    needs,
    observe,
    observe_scenario,
    observe_value,
    separation,
)

# %% [markdown]
# Six people vote for one of three candidates, and a line of code counts the votes.

# %%
votes = torch.tensor([2, 0, 2, 2, 1, 2])

counts = torch.zeros(3)
counts[votes] += 1
print("counted:", counts.tolist(), "- votes:", len(votes))

# %% [markdown]
# Three of the six votes are gone, without an error. The line looks as if it added 1 for each vote. In fact it writes,
# and four writes went to cell 2. Reading and writing by index follow one formula, and once you know it, you can see
# such a bug coming. Section 3.4 counts the votes again.
#
# In the picture that chapters 1 to 4 share, this chapter is about the kernel: which cells it reads, and which it
# writes.

# %%
call_path("kernel")

# %% [markdown]
# ## 3.1 gather: one coordinate is replaced
#
# From each row of a table you want one number, and the column differs from row to row. That is what gather is for.
# `t.gather(dim, index)` reads one element of `t` for each number in `index`. That number is the coordinate along `dim`;
# the other coordinate is the one that the number itself has in `index`.
#
# **Predict.** The next cell reads from the same `t` with the same `index`, once along dim 1 and once along dim 0. What
# does it print?

# %% facts=["03-gather-sample"]
t = torch.tensor([[1, 2], [3, 4]])
index = torch.tensor([[0, 0], [1, 0]])

print("dim 1:", t.gather(1, index).tolist())
print("dim 0:", t.gather(0, index).tolist())

# %% [markdown]
# The result always has the shape of `index`. For each position of `index`, gather reads one element of `t`. It uses the
# same position, except that the coordinate of `dim` is replaced by the number in `index`:
#
#     dim 1:  out[i][j] = t[i][index[i][j]]
#     dim 0:  out[i][j] = t[index[i][j]][j]
#
# Along dim 1, the numbers in `index` name columns, and each entry reads from its own row. Along dim 0 they name rows,
# and each entry reads from its own column.
#
# The explorer below goes through this call entry by entry (`input` is our `t`); it opens at the third of four steps.
# The line above the grids is the formula with numbers in it, and the cells it refers to are outlined. Press *back* and
# *step*, then choose "gather along dim 0" in the list of examples and do the same. Notice that the outlined cells of
# `index` and `out` are always in the same place. Only the cell of `input` moves, and only along `dim`. A dash marks an
# element that is never read.

# %%
gather_scatter_stepper(done=3)

# %% [markdown]
# **Predict.** Now `a` is 3 × 3, and the index has three rows of *five*. Is that allowed? And if the result is
# overwritten with zeros, what happens to `a`?

# %% facts=["03-gather-sample", "03-gather-one-sentence"]
a = torch.arange(1, 10).view(3, 3)
wide = torch.tensor([[1, 1, 1, 1, 1], [2, 0, 1, 2, 0], [1, 2, 0, 0, 2]])

out = a.gather(1, wide)
for row in out.tolist():
    print(row)

out.zero_()
print("a afterwards:", a.tolist())

# %% [markdown]
# It is allowed, and `a` doesn't change. Along `dim` the index may have any length; some elements are then read several
# times. The result is a new tensor with the shape of `index` and its own memory. A slice, as in chapter 2, shares the
# memory of its base. gather never does, and it never changes its input.

# %% [markdown]
# Three dimensions work the same way. **By hand.** `x` has shape (3, 4, 5), and `index[1][2][3]` is 2. From which place
# of `x` is `out[1][2][3]` read along dim 0, along dim 1, along dim 2?

# %% facts=["03-gather-index-formula"]
x = torch.arange(60).reshape(3, 4, 5)
index = torch.arange(24).reshape(2, 3, 4) % 3


def gathered(x, dim, index):
    """gather, written with a loop."""
    out = torch.zeros_like(index)
    for place in product(*map(range, index.shape)):
        source = list(place)
        source[dim] = int(index[place])
        out[place] = x[tuple(source)]
    return out


for dim in range(3):
    source = [1, 2, 3]
    source[dim] = int(index[1, 2, 3])
    same = torch.equal(gathered(x, dim, index), x.gather(dim, index))
    print(f"dim {dim}: out[1, 2, 3] = x{source}; the loop does what gather does: {same}")

# %% [markdown]
# It is read from `x[2][2][3]`, `x[1][2][3]` and `x[1][2][2]`. The four lines of the loop are the whole definition of
# gather, for any `dim` and any number of dimensions: copy the position, replace one coordinate, read. The page
# [`torch.gather`](https://docs.pytorch.org/docs/stable/generated/torch.gather.html) writes the same as three formulas,
# one for each `dim`.
#
# Along dim 1, an entry in the first row of `index` can never read a number from the second row. Compare:

# %% facts=["03-dim-lanes-independent"]
a = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])

index = torch.tensor([[3, 3], [0, 1], [2, 0]])
print("gather along dim 1: ", a.gather(1, index).tolist())
print("row by row:         ", [a[row][index[row]].tolist() for row in range(3)])

index = torch.tensor([[2, 0, 1, 1]])
print("gather along dim 0: ", a.gather(0, index).tolist())
print("column by column:   ", [a[:, column][index[:, column]].tolist() for column in range(4)])

# %% [markdown]
# Each one-dimensional vector along `dim` is a *lane*, and each lane is a separate small problem, the ordinary indexing
# of a vector with a vector. For dim 1 the lanes are the rows; for dim 0 they are the columns, so the index names rows.
#
# **Now you know.** gather copies the position, replaces the coordinate of `dim`, and reads. The result has the shape of
# `index`.
#
# ## 3.2 Shapes: gather and scatter don't broadcast
#
# gather has rules for shapes, for values and for dtypes. The worst mistake breaks none of them and raises no error at
# all.
#
# **Predict.** You want column 1 of every row of `y`, which has shape (3, 4), and write `y.gather(1,
# torch.tensor([[1]]))`. Which shape does the result have?

# %% facts=["03-scatter-gather-no-broadcast"]
y = torch.arange(12).reshape(3, 4)
index = torch.tensor([[1]])

picked = y.gather(1, index)
print(tuple(picked.shape), picked.tolist())

picked = y.gather(1, index.expand(3, 1))
print(tuple(picked.shape), picked.tolist())

# %% [markdown]
# The result is one number, not a column. It has the shape of `index`, because gather doesn't expand the index to fit.
# An index with one row addresses one row, the first, and the other rows are not read. To read from every row, the index
# must have an entry for every row. `expand` gives it that shape without copying (section 2.4).

# %% [markdown]
# **Predict.** Which of these five calls are refused? `y` still has shape (3, 4).
#
#     y.gather(1, torch.tensor([[0, 1, 2, 3, 3, 3]]))        six columns
#     y.gather(1, torch.tensor([[0], [0], [0], [0]]))        four rows
#     y.gather(1, torch.tensor([2, 0, 3]))                   one dimension
#     y.gather(1, torch.tensor([[-1]]))                      the last column?
#     y.gather(1, torch.tensor([[4]]))                       columns are 0, 1, 2, 3

# %% facts=["03-gather-size-limit", "03-gather-same-ndim", "03-scatter-gather-no-broadcast"]
y = torch.arange(12).reshape(3, 4)

results_of(
    {
        "six columns": lambda: y.gather(1, torch.tensor([[0, 1, 2, 3, 3, 3]])),
        "four rows": lambda: y.gather(1, torch.tensor([[0], [0], [0], [0]])),
        "one dimension": lambda: y.gather(1, torch.tensor([2, 0, 3])),
        "the last column?": lambda: y.gather(1, torch.tensor([[-1]])),
        "column 4": lambda: y.gather(1, torch.tensor([[4]])),
        "an empty index": lambda: y.gather(1, torch.tensor([], dtype=torch.int64)),
    }
)

# %% [markdown]
# All but the first are refused. The rules follow from the formula:
#
# - `index` and `input` have the same number of dimensions, because the index supplies all coordinates but one, and none
#   may be missing (only an index without any entries is accepted, as the last line shows);
# - apart from `dim`, `index` is nowhere larger than `input`, because those coordinates are used as they are and must
#   exist;
# - along `dim`, `index` may have any length, because that coordinate is replaced;
# - the numbers in `index` are in 0 … size - 1. Ordinary indexing counts -1 from the end, but gather doesn't.
#
# In the most common use, `labels` contains one column number for each row, and you want one score for each row.

# %% facts=["03-gather-same-ndim"]
scores = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])
labels = torch.tensor([2, 0, 1, 1])

index = labels.unsqueeze(1)
picked = scores.gather(1, index)
flat = picked.squeeze(1)
print("index", tuple(index.shape), "picked", tuple(picked.shape), "squeezed", tuple(flat.shape))
print(flat)

# %% [markdown]
# `unsqueeze(1)` adds the missing dimension, of size 1, so that the index is one column with one entry for each row.
# `squeeze(1)` removes that dimension again. Name the dimension, because `squeeze()` without a number removes *every*
# dimension of size 1, and with it the batch dimension of a batch of one.

# %% [markdown]
# Labels that are stored as small integers to save space run into another rule:

# %% facts=["03-index-must-be-long"]
y = torch.arange(12).reshape(3, 4)

for dtype in (torch.int64, torch.int32):
    print(dtype, y.gather(1, torch.tensor([[2]], dtype=dtype)).tolist())

error_of(lambda: y.gather(1, torch.tensor([[2]], dtype=torch.int16)))
error_of(lambda: y.gather(1, torch.tensor([[2]], dtype=torch.uint8)))
error_of(lambda: y.gather(1, torch.tensor([[2.0]])))

# %% [markdown]
# An index is int64 (the documentation says "LongTensor") or, in torch 2.13, int32. All other dtypes are refused,
# including small integer types. Such labels need `.long()` first.
#
# A related function, `torch.take_along_dim`, does broadcast. With the index `[[1]]` it returns column 1 of every row.
#
# **Predict.** What does it return for `[[4]]`, when the columns of `y` are 0, 1, 2, 3?

# %% facts=["03-scatter-gather-no-broadcast"]
y = torch.arange(12).reshape(3, 4)

for column in (1, -1, 4):
    print(f"{column:2}:", torch.take_along_dim(y, torch.tensor([[column]]), 1).flatten().tolist())

# %% [markdown]
# It returns column 0, without a warning. If you pass a `dim`, take_along_dim counts negative indices from the end, as
# NumPy does, and on torch 2.13 it also wraps an index that is too large: with four columns, 4 reads column 0 ([a known
# fault](https://github.com/pytorch/pytorch/issues/196106)). A wrong label, which gather refuses, turns into a plausible
# number. So take_along_dim can't simply replace gather. Check the range first, or expand the index and use gather.

# %% [markdown]
# **Now you know.** An index has as many dimensions as its input and one entry for each number that you want. Name the
# dimension when you squeeze.

# %% exercise="label-log-prob"

# %% exercise="last-valid-step"

# %% [markdown]
# ## 3.3 scatter: the same formula on the writing side
#
# Now the other direction. scatter takes numbers from `src` and writes each to a place that `index` names.
#
# **Predict.** `src` contains ten numbers, `index` four. How many of the ten arrive in the target, and where?

# %% facts=["03-scatter-writes-all-of-src", "03-scatter-sample-dim0", "03-scatter-index-formula"]
src = torch.arange(1.0, 11).reshape(2, 5)
index = torch.tensor([[0, 1, 2, 0]])

target = torch.zeros(3, 5).scatter_(0, index, src)
for row in target.tolist():
    print(row)

# %% [markdown]
# Four arrive, from the corner of `src` that `index` covers. Each of them stays in its column, and only its row comes
# from `index`. The formula is gather's, with the replaced coordinate on the other side of the equals sign:
#
#     gather:    out[i][j] = input[index[i][j]][j]         dim 0, reading
#     scatter_:  self[index[i][j]][j] = src[i][j]          dim 0, writing
#
# The explorer opens on this call, after two of its four steps. Press *step* and notice that now the outlined cells of
# `index` and `src` are in the same place, and the cell of `self` moves. The dashes in `src` are the six numbers that
# are never written.

# %%
gather_scatter_stepper("scatter_, part of src", done=2)

# %% [markdown]
# **By hand.** The same `src` along dim 1, with the index `[[0, 1, 2], [0, 1, 4]]`. Draw the 3 × 5 target. Where does
# the 8 go, and which numbers are left out?

# %% facts=["03-scatter-index-formula", "03-scatter-sample-dim0", "03-dim-lanes-independent"]
src = torch.arange(1.0, 11).reshape(2, 5)
index = torch.tensor([[0, 1, 2], [0, 1, 4]])

target = torch.zeros(3, 5).scatter_(1, index, src)
for row in target.tolist():
    print(row)

by_hand = torch.zeros(3, 5)
for i, j in product(range(2), range(3)):
    by_hand[i][index[i, j]] = src[i, j]
print("the formula gives the same:", torch.equal(target, by_hand))

# %% [markdown]
# Along dim 1 each number stays in its row, and `index` names the column. The 8 is `src[1][2]`, and `index[1][2]` is 4,
# so it goes to `self[1][4]`. The numbers 4, 5, 9 and 10 are left out, because `index` doesn't cover them. The lanes are
# again the rows. The last row of the target belongs to no row of `index` and keeps its zeros.

# %% [markdown]
# There are two spellings, with and without an underscore:

# %% facts=["03-scatter-inplace-variant"]
base = torch.zeros(2, 4)
index = torch.tensor([[3], [0]])

result = base.scatter(1, index, 5.0)
print("result:        ", result.tolist())
print("after scatter: ", base.tolist())

result = base.scatter_(1, index, 5.0)
print("after scatter_:", base.tolist())
print("the result is base itself:", result is base)

# %% [markdown]
# `scatter_` writes into the tensor and returns that same tensor; `scatter` copies the tensor first and leaves it alone.
# A line `x.scatter(1, index, src)` whose result is not used does nothing. In both cases the result has the shape of
# `self`, not of `index`.

# %% [markdown]
# Both also accept a number instead of a tensor `src`.
#
# **Predict.** How many twos does `torch.zeros(3, 5).scatter_(0, torch.tensor([[0, 1]]), 2)` write: two, or two whole
# rows?

# %% facts=["03-scatter-sample-value", "03-scatter-gather-no-broadcast"]
index = torch.tensor([[0, 1]])

print(torch.zeros(3, 5).scatter_(0, index, 2).tolist())
print(torch.zeros(3, 5).scatter_(1, torch.tensor([[1]]), 2).tolist())

print(torch.zeros(3, 5).scatter_(0, index, value=2).nonzero().tolist())
error_of(lambda: torch.zeros(3, 5).scatter_(0, index, src=2), lines=1)

# %% [markdown]
# It writes two, at `[0][0]` and `[1][1]`. scatter writes once per entry in `index`, and `index` is not expanded to the
# target. As a keyword argument the number is called `value`; `src` must be a tensor.
#
# **Find the legal one.** The target is `torch.zeros(3, 5)`, written along dim 0. Five of these calls are refused.
#
#     A   index [0, 1]                               src (1, 2)      one dimension
#     B   index [[0, 1, 0]]                          src (1, 1)      three entries, one number
#     C   index [[0, 1], [1, 2], [2, 0], [0, 1]]     src (4, 2)      four rows, the target has three
#     D   index [[0, 1, 0, 1, 0, 1]]                 src (1, 6)      six columns, the target has five
#     E   index [[-1, 1]]                            src (1, 2)      the last row?
#     F   index [[0, 1]]                             src (1, 2)      whole numbers into a float target

# %% facts=["03-scatter-size-rules", "03-scatter-gather-no-broadcast", "03-scatter-sample-dim0"]
target = torch.zeros(3, 5)

calls = {
    "A": ([0, 1], torch.ones(1, 2)),
    "B": ([[0, 1, 0]], torch.ones(1, 1)),
    "C": ([[0, 1], [1, 2], [2, 0], [0, 1]], torch.ones(4, 2)),
    "D": ([[0, 1, 0, 1, 0, 1]], torch.ones(1, 6)),
    "E": ([[-1, 1]], torch.ones(1, 2)),
    "F": ([[0, 1]], torch.tensor([[1, 1]])),
}
for name, (index, src) in calls.items():
    results_of({name: partial(target.scatter, 0, torch.tensor(index), src)})

# %% [markdown]
# C is legal. The rules are gather's, for three tensors:
#
# - `index`, `self` and `src` have the same number of dimensions;
# - `index` is nowhere larger than `src`, because each entry needs a number to write. `src` is not broadcast either;
# - apart from `dim`, `index` is nowhere larger than `self`;
# - the numbers in `index` are in 0 … size - 1 of `self`, along `dim`;
# - `self` and `src` have the same dtype, because nothing is promoted, unlike in `a + b`.
#
# In C, four numbers of a column go to three cells, so two of them must meet. Here all are 1 and it doesn't matter.
# Section 3.4 is about what happens when it does.
#
# `index` may be smaller than `src` in forward, but not in backward:

# %% facts=["03-scatter-writes-all-of-src"]
leaf = torch.arange(1.0, 11).reshape(2, 5).requires_grad_()
index = torch.tensor([[0, 1, 2, 0]])

error_of(lambda: torch.zeros(3, 5).scatter(0, index, leaf).sum().backward())

torch.zeros(3, 5).scatter(0, index, leaf[:1, :4]).sum().backward()
print(leaf.grad.tolist())

# %% [markdown]
# `backward` is implemented only for a `src` of the same shape as `index`. Slice `src` to that shape yourself. Then the
# backward of the slice takes care of the rest, and the six numbers that were never written get the gradient 0.
#
# **Now you know.** scatter copies the position, replaces the coordinate of `dim`, and writes. Cells that `index`
# doesn't name keep their old value.

# %% exercise="one-hot-scatter"

# %% [markdown]
# ## 3.4 Two writers, one cell
#
# Back to the votes, four of which named the same cell.
#
# **Predict.** 1, 2 and 3 are all written to the same cell. Is it guaranteed that the 3 stays? And which gradient does
# each of the three get?

# %% facts=["03-scatter-later-overwrites-earlier"]
src = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
index = torch.tensor([[1, 1, 1]])

out = torch.zeros(1, 3).scatter(1, index, src)
assert out[0, 1] in (1.0, 2.0, 3.0)  # this much is promised
print("one of the three stayed:", out.tolist())

out.sum().backward()
print("gradient:", src.grad.tolist())

# %% [markdown]
# It isn't guaranteed, even if you see nothing but the 3 on your CPU. The page
# [`torch.Tensor.scatter_`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_.html) promises less:
# when indices are not unique, "one of the values from src will be picked arbitrarily". The writers race, and with many
# of them on several threads, or on a GPU, another one can win.
#
# The gradient is also wrong, as the page says: two of the three numbers had no influence on the result, so their
# gradients should be 0.
#
# If two runs of your program differ for such a reason, try `torch.use_deterministic_algorithms(True)`. On a GPU,
# `scatter`, `scatter_add_`, `index_add` and `scatter_reduce` with "sum" or "mean" then use a slower method with a fixed
# order, while "prod", `torch.histc` and `torch.bincount` with weights raise. [Its
# page](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html) lists all operations of
# both kinds. The same number then wins in each run, but the gradients of the others are just as wrong.
#
# Most collisions are not as easy to see.
#
# **Predict.** Three rows are scattered along dim 0. In which columns do two numbers of `index` meet?

# %%
index = torch.tensor([[0, 1, 2, 0], [0, 2, 2, 1], [0, 1, 0, 2]])
src = torch.arange(1.0, 13).reshape(3, 4)

for row in torch.zeros(3, 5).scatter_(0, index, src).tolist():
    print(row)
collision_map(index, 0, (3, 5))

# %% [markdown]
# They meet in the first three columns. Lanes along dim 0 are columns, so only numbers in the same *column* of `index`
# can meet, and only its fourth column has three different ones. The last column of the target belongs to no column of
# `index`. The values in the outlined cells of the target may be different on another machine; all others may not.

# %% [markdown]
# So choose what should happen to duplicates. If 1, 2 and 3 are *added* into one cell, none is lost:

# %% facts=["03-scatter-later-overwrites-earlier"]
src = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
index = torch.tensor([[1, 1, 1]])

out = torch.zeros(1, 3).scatter_add(1, index, src)
print(out.tolist())

out.sum().backward()
print("gradient:", src.grad.tolist())

# %% [markdown]
# A sum doesn't depend on who came last, so `scatter_add_` gives this result with any number of threads. (Sums of floats
# can still differ in the last digits.) The gradient is the same as above, and this time it is right, because each
# number is in the sum once.
#
# Now let's count the votes again. `counts[votes] += 1` reads six numbers from three cells, adds 1 to each, and writes
# six numbers back. All six were read before the first was written, so four writers put the same number, 1, into one
# cell. Here are four ways to add instead:

# %%
print("counts[votes] reads:", torch.zeros(3)[votes].tolist())
ones = torch.ones(len(votes), requires_grad=True)
print("scatter_add:", torch.zeros(3).scatter_add(0, votes, ones).tolist())
print("index_add:  ", torch.zeros(3).index_add(0, votes, ones).tolist())
print("index_put:  ", torch.zeros(3).index_put((votes,), ones, accumulate=True).tolist())
weighted = torch.bincount(votes, weights=ones)
print("bincount:   ", weighted.tolist())
error_of(lambda: weighted.sum().backward())

# %% [markdown]
# For a vector, all four agree. `bincount` is the shortest way to count and needs no target, but it has no gradient.
# `index_add` adds whole rows: its index has one dimension, with one number for each row of the source. `index_put` with
# `accumulate=True` is what `counts[votes] += 1` was meant to be, and takes the indices that you would put between
# square brackets. `scatter_add` takes an index of the shape of the source, with a place for each single number.
#
# `scatter_reduce_` offers five ways to combine. **By hand.** A cell contains 5, and 1 and 3 arrive. What is "the mean"?

# %% facts=["03-scatter-later-overwrites-earlier"]
index = torch.tensor([[0, 0]])
src = torch.tensor([[1.0, 3.0]])

for reduce in ("sum", "prod", "mean", "amax", "amin"):
    with_five = torch.full((1, 2), 5.0).scatter_reduce_(1, index, src, reduce)
    without = torch.full((1, 2), 5.0).scatter_reduce_(1, index, src, reduce, include_self=False)
    print(f"{reduce:5} {with_five.tolist()!s:14} include_self=False: {without.tolist()}")

whole = torch.zeros(1, 1, dtype=torch.int64)
one_and_two = torch.tensor([[1, 2]])
mean = whole.scatter_reduce(1, index, one_and_two, "mean", include_self=False)
print("mean of the whole numbers 1 and 2:", mean.tolist())
tied = torch.tensor([[2.0, 2.0]], requires_grad=True)
torch.zeros(1, 1).scatter_reduce(1, index, tied, "amax").sum().backward()
print("gradient of amax for equal numbers:", tied.grad.tolist())

# %% [markdown]
# It is (5 + 1 + 3) / 3, because the old value of the cell counts unless you pass `include_self=False`. Starting from
# zeros doesn't help, because a zero is one more number in the mean. The second cell has no writer, so it keeps its 5 in
# either case. Two details in the last lines are easy to miss: a mean of integers is rounded down, and "amax" splits the
# gradient equally between numbers that are equally large.

# %% [markdown]
# Older code uses `scatter_(…, reduce="add")`. With a tensor this is deprecated:

# %% facts=["03-scatter-reduce-tensor-deprecated"] shows_warning="UserWarning" varies="it names a file of PyTorch"
index = torch.tensor([[2], [3]])
src = torch.full((2, 1), 1.5)

warning_of(lambda: torch.full((2, 4), 2.0).scatter_(1, index, src, reduce="add"))

# %% facts=["03-scatter-reduce-scalar", "03-scatter-reduce-tensor-deprecated"]
index = torch.tensor([[2], [3]])
src = torch.full((2, 1), 1.5)

twos = torch.full((2, 4), 2.0)

print("number, add:     ", twos.clone().scatter_(1, index, 1.5, reduce="add").tolist())
print("number, multiply:", twos.clone().scatter_(1, index, 1.5, reduce="multiply").tolist())
print("scatter_add_:    ", twos.clone().scatter_add_(1, index, src).tolist())
error_of(lambda: twos.scatter_(1, index, 1.5, reduce="sum"))
error_of(lambda: twos.scatter_reduce_(1, index, src, "add"))

# %% [markdown]
# With a tensor, use `scatter_add_` or `scatter_reduce_`. The form with a number is not deprecated. (Its two operations
# are called "add" and "multiply"; `scatter_reduce_` calls them "sum" and "prod".)
#
# The sums are computed in the dtype of the target. In half precision that goes wrong without an error as soon as the
# sum is so large that adding one more number no longer changes it. Here 1,000 ones are added in bfloat16 and in
# float32.

# %%
ones = torch.ones(1000, dtype=torch.bfloat16)
cell = torch.zeros(1000, dtype=torch.int64)

print("in bfloat16:", torch.zeros(1, dtype=torch.bfloat16).index_add(0, cell, ones))
print("in float32: ", torch.zeros(1).index_add(0, cell, ones.float()))

# %% [markdown]
# The bfloat16 sum gets stuck at the first number whose successor is 2 away: 256 + 1 is rounded back to 256. So add in
# float32, and convert the result if you need to.
#
# **Now you know.** Two writers to one cell race, and the gradient is wrong. Choose whether to add, average or take the
# largest, and write that.

# %% exercise="indices-apart"

# %% exercise="count-writers"

# %% exercise="weighted-histogram"

# %% exercise="segment-mean"

# %% [markdown]
# ## 3.5 Each is the gradient of the other
#
# You sorted something, made a decision for each rank, and want the answers in the old order.
#
# **Predict.** `sorted_x` is `x`, sorted; `order` says where each number came from. Which of the two, gather or scatter,
# brings the numbers back to their old places?

# %% facts=["03-scatter-is-inverse-of-gather"]
x = torch.tensor([30, 10, 20])
sorted_x, order = x.sort()

print("sorted:", sorted_x.tolist(), "order:", order.tolist())
print("x gathered with order:     ", x.gather(0, order).tolist())
print("sorted, scattered with it: ", torch.zeros_like(x).scatter_(0, order, sorted_x).tolist())
print("sorted, gathered with it:  ", sorted_x.gather(0, order).tolist())

# %% [markdown]
# scatter does. `order[r]` is the place that the number of rank r came from. Reading with `order` sorts, because rank r
# gets `x[order[r]]`. So writing with it undoes the sorting, because the number of rank r goes to `order[r]`. A second
# gather applies the permutation a second time. Beware of tests with two elements, or with only two of them swapped,
# because there applying it twice is the same as undoing it.

# %% [markdown]
# `scatter_` into zeros undid the gather. Does it always do that?

# %% facts=["03-scatter-is-inverse-of-gather"]
x = torch.tensor([10, 20, 30])

for index in (torch.tensor([2, 0, 1]), torch.tensor([0, 1, 1])):
    there = x.gather(0, index)
    back = torch.zeros_like(x).scatter_(0, index, there)
    print("index", index.tolist(), "there", there.tolist(), "and back", back.tolist())

# %% [markdown]
# It does only if `index` is a permutation along `dim`, because then each element is read once, and each cell has one
# writer. With `[0, 1, 1]` the 30 is never read, so it is lost.
#
# gather and scatter are connected in another way, and that connection has nothing to do with permutations. (The cell
# uses `torch.autograd.grad(output, input)`, which returns the gradient that `backward` would add to `.grad`. Its third
# argument is the gradient that comes in for `output`, from whatever is computed with it later.)
#
# **Predict.** Which gradient does each of the three numbers in `x` get from `x.gather(0, torch.tensor([1, 1,
# 2])).sum()`?

# %% facts=["03-scatter-is-inverse-of-gather", "03-scatter-writes-gather-reads"]
x = torch.tensor([10.0, 20.0, 30.0], requires_grad=True)
index = torch.tensor([1, 1, 2])

(grad,) = torch.autograd.grad(x.gather(0, index).sum(), x)
print("of the sum:", grad.tolist())

incoming = torch.tensor([1.0, 10.0, 100.0])
(grad,) = torch.autograd.grad(x.gather(0, index), x, incoming)
print("of 1, 10, 100 coming in:", grad.tolist())
print("scatter_add of the same:", torch.zeros(3).scatter_add(0, index, incoming).tolist())

# %% [markdown]
# The gradients are 0, 2 and 1. An element that was read twice gets the sum of both gradients, and one that was never
# read gets 0. That is `scatter_add` with the same index, so the gradient of gather is scatter_add.

# %% [markdown]
# **By hand.** Now the reverse. The target has four cells. 5, 6 and 7 are scattered into cells 3, 0 and 2, and 1, 10,
# 100, 1000 come back as the gradients of the cells. Which gradients do `src` and the overwritten `base` get?

# %% facts=["03-scatter-writes-gather-reads"]
base = torch.zeros(4, requires_grad=True)
src = torch.tensor([5.0, 6.0, 7.0], requires_grad=True)
index = torch.tensor([3, 0, 2])

incoming = torch.tensor([1.0, 10.0, 100.0, 1000.0])
src_grad, base_grad = torch.autograd.grad(base.scatter(0, index, src), (src, base), incoming)
print("src: ", src_grad.tolist(), "gather of the same:", incoming.gather(0, index).tolist())
print("base:", base_grad.tolist())

# %% [markdown]
# `src` gets 1000, 1 and 100, because each number gets the gradient of the cell that it was written to. So the gradient
# of scatter is gather. `base` keeps only the 10, in the one cell that was not overwritten. Now you can see why the
# gradients in section 3.4 were wrong. If three writers share one cell, gather gives the gradient of that cell to all
# three, because `index` doesn't say whose number stayed.

# %% [markdown]
# Classification uses both: gather picks the score of the true class, and scatter marks the true class.

# %% facts=["03-scatter-one-hot"]
labels = torch.tensor([2, 0, 1, 1])

marked = torch.zeros(4, 3).scatter_(1, labels.unsqueeze(1), 1.0)
ready = F.one_hot(labels, 3)
print(marked.tolist(), marked.dtype)
print(ready.tolist(), ready.dtype)
error_of(lambda: torch.zeros(4, 3).scatter_(1, labels, 1.0))

# %% [markdown]
# `F.one_hot` gives the same rows, but as int64, which has to be converted before it can be combined with floats in a
# matrix product or a loss. The version with scatter has the dtype of its target, and can write any number instead of 1.
#
# **Find the bug.** `scores` has shape (4, 3). Somebody picks the label's score in each row with `scores[:, labels]`. It
# runs. Why is a loss computed from it wrong?

# %% facts=["03-scatter-writes-gather-reads"]
scores = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])
labels = torch.tensor([2, 0, 1, 1])

print("scores[:, labels]:", tuple(scores[:, labels].shape))
print(scores[:, labels])
print("gather:", scores.gather(1, labels.unsqueeze(1)).squeeze(1))

marked = torch.zeros(4, 3).scatter_(1, labels.unsqueeze(1), 1.0)
print("marked:", (scores * marked).sum(1))

# %% [markdown]
# The result is a table that pairs every row with every label, and only its diagonal is what you want. It raises no
# error, and a mean over it looks like a loss. gather picks the four numbers, and a product with the marks gives the
# same four.
#
# "Sort, decide, put back" is where it is easy to choose the wrong one of the two. Language models sample from the
# *nucleus*, the most probable tokens that together have at least probability p. Rank decides which tokens belong to it,
# but the mask is needed in the order of the tokens.
#
# **By hand.** Five tokens have the probabilities 0.10, 0.40, 0.05, 0.25 and 0.20; p is 0.8. Which tokens are kept?

# %%
sort_decide_put_back([0.10, 0.40, 0.05, 0.25, 0.20], p=0.8)

# %% [markdown]
# Tokens 1, 3 and 4 are kept. Follow token 1 down: it has rank 0, is kept, and the arrow takes the decision back to
# column 1. The arrows of the lower half are those of the upper half reversed, so reading with `order` sorts, and
# writing with the same `order` undoes the sorting. Notice token 4. The tokens before it have 0.65, less than 0.8, so it
# is kept, and with it the sum passes p.

# %% [markdown]
# **Now you know.** If you read with `order` to sort, write with the same `order` to undo the sorting. The gradient of
# gather is scatter_add; the gradient of scatter is gather, provided that no two writers met.

# %% exercise="nucleus-mask"

# %% [markdown]
# ## 3.6 Where you meet it
#
# Other functions use the same formula under other names. Which one you choose decides whether a mistake is noticed, and
# how much memory is kept.
#
# **Predict.** An embedding looks up the rows 1, 1 and 3. The gradients that come back for the three are (1, 2), (10,
# 20) and (100, 200). What is the gradient of the weight?

# %% facts=["03-scatter-writes-gather-reads"]
embedding = nn.Embedding(5, 2)
ids = torch.tensor([1, 1, 3])
incoming = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])

embedding(ids).backward(incoming)
print(embedding.weight.grad.tolist())

by_hand = torch.zeros(5, 2).index_add(0, ids, incoming)
print("index_add gives the same:", torch.equal(embedding.weight.grad, by_hand))

# %% [markdown]
# Row 1 was looked up twice and gets the sum, (11, 22). Row 3 gets (100, 200), and all others get 0. Looking up is
# reading by index, so its gradient is adding by index.
#
# You can write the score of the label, for each row, in at least four ways. All four agree on good data.
#
# **Predict.** Which of these four notices a label of -1, and which one breaks if a class is masked with -inf?


# %% facts=["03-scatter-writes-gather-reads"]
def by_gather(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.gather(1, labels.unsqueeze(1)).squeeze(1)


def by_indexing(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[torch.arange(len(labels)), labels]


def by_take_along_dim(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.take_along_dim(labels.unsqueeze(1), 1).squeeze(1)


def by_masked_sum(scores: Tensor, labels: Tensor) -> Tensor:
    return (scores * (labels.unsqueeze(1) == torch.arange(scores.shape[1]))).sum(1)


scores = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
masked = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, -torch.inf]])
good, bad = torch.tensor([2, 0]), torch.tensor([2, -1])

ways = (by_gather, by_indexing, by_take_along_dim, by_masked_sum)
for pick in ways:
    whole, part = pick(scores, good).tolist(), pick(masked, good).tolist()
    print(f"{pick.__name__:18}{whole}  class masked: {part}")

print("with a label of -1:")
results_of({pick.__name__: partial(pick, scores, bad) for pick in ways})

# %% [markdown]
# Only gather refuses -1. Indexing and take_along_dim silently use the last class; the masked sum finds no class at all
# and returns 0. If a class is masked, the sum breaks even for a good label, because 0 · -inf is nan, and one nan makes
# the whole sum nan.

# %% [markdown]
# What about memory? For 4 rows of 1000 scores, here is what each way keeps until its backward pass:

# %% facts=["03-scatter-writes-gather-reads"]
scores = torch.zeros(4, 1000, requires_grad=True)
labels = torch.tensor([7, 7, 3, 0])


def kept_by(pick) -> list[str]:
    """What pick(scores, labels) keeps for its backward pass."""
    kept = []

    def note(saved: Tensor) -> Tensor:
        itself = saved.data_ptr() == scores.data_ptr()
        kept.append("scores itself" if itself else f"{tuple(saved.shape)} of {saved.dtype}")
        return saved.detach()

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        pick(scores, labels)
    return kept


for pick in (by_gather, by_indexing, by_take_along_dim, by_masked_sum):
    print(f"{pick.__name__:18}{', '.join(kept_by(pick))}")

# %% [markdown]
# The first three keep the index, 8 bytes per row (indexing also keeps the row numbers). The masked sum keeps the mask,
# one byte per score. With 50,000 classes that is the difference between 8 bytes and 50 kilobytes per row. On torch
# 2.13, gather and take_along_dim also keep their input, although backward needs only its shape. A large temporary then
# stays in memory until backward, which doesn't happen with indexing.
#
# Last, here is the gradient of a table with a million numbers, of which three were read:

# %% facts=["03-gather-signature"]
table = torch.zeros(1000, 1000, requires_grad=True)
index = torch.tensor([[7], [7], [3]])

for sparse_grad in (False, True):
    (grad,) = torch.autograd.grad(table.gather(1, index, sparse_grad=sparse_grad).sum(), table)
    stored = grad.coalesce().values().numel() if grad.is_sparse else grad.numel()
    print(f"sparse_grad={sparse_grad}: {grad.layout}, {stored} numbers stored")

# %% [markdown]
# A gradient has the shape of its tensor, zeros included. With `sparse_grad=True`, only the places that were read are
# stored, with their positions. This pays off when you read a few entries of a very large table, and it requires an
# optimizer that accepts sparse gradients, such as `torch.optim.SparseAdam`. `nn.Embedding` has the same switch,
# `sparse=True`.
#
# **Now you know.** Select; don't multiply by a mask. And prefer the way that refuses a wrong label.
#
# ## On a GPU
#
# On a GPU, thousands of threads write at the same time. The cell writes a million numbers to four cells, twenty times,
# and counts the different results. Without a GPU it shows a recorded run. No exercise needs it. (Check labels on the
# CPU, because a GPU reports an illegal index late, at another line, as section 1.4 showed.)


# %% facts=["03-scatter-later-overwrites-earlier"] varies="a CUDA device changes what is shown"
@cuda_demo("03_gather_scatter")
def twenty_races() -> None:
    """Count the different results of the same call."""
    n = 1_000_000
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(4, (n,), generator=generator)
    whole, real = torch.arange(n), torch.rand(n, generator=generator)
    for device in ("cpu", "cuda"):
        for method, numbers in (
            ("scatter_", whole),
            ("scatter_add_", real),
            ("scatter_add_", whole),
        ):
            where, src = index.to(device), numbers.to(device)
            results = set()
            for _ in range(20):
                target = torch.zeros(4, dtype=src.dtype, device=device)
                results.add(tuple(getattr(target, method)(0, where, src).tolist()))
            print(f"{device:4}  {method:12}  {src.dtype!s:13}  different results: {len(results)}")


twenty_races()

# %% [markdown]
# In the recorded run, all twenty sums of floats were different, because a float sum depends on the order of its
# additions. The sums of integers agreed. `scatter_` itself had three different results.
#
# ## Folklore, checked
#
# The table lists what people say about gather and scatter, and whether it is true. Each row has a proof that you can
# expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("03_gather_scatter")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it doesn't.

# %%
prove("03-scatter-writes-all-of-src")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [`torch.gather`](https://docs.pytorch.org/docs/stable/generated/torch.gather.html) and
#   [`torch.Tensor.scatter_`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_.html): the formulas
#   for three dimensions, and the warning about indices that are not unique;
# - [`torch.Tensor.scatter_add_`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_add_.html),
#   [`torch.Tensor.scatter_reduce_`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_reduce_.html)
#   and [`torch.Tensor.index_add_`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html): what
#   to use when duplicates count;
# - [`torch.take_along_dim`](https://docs.pytorch.org/docs/stable/generated/torch.take_along_dim.html): the related
#   function that broadcasts (read section 3.2 again before you use it);
# - [`torch.nn.functional.one_hot`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html) and
#   [`torch.nn.Embedding`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html), with its option
#   `sparse`;
# - the note [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html) and the page
#   [`torch.use_deterministic_algorithms`](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html):
#   which operations depend on the order of threads.
#
# **Next:** chapter 4, [Autograd and leaf tensors](../04_autograd/autograd.ipynb).
