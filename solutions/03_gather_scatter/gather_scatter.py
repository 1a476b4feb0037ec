# %% [markdown]
# # Gather and scatter
#
# Reading and writing by index: two functions that look alike, are easy to mix up, and never broadcast. After this
# chapter you can
#
# - write down the index formula of any gather or scatter call and compute small cases by hand;
# - give an index the right number of dimensions, shape and dtype, and say why gather and scatter never broadcast;
# - recognise duplicate indices as a race, count them, and choose an adding or averaging operation instead;
# - say what the gradient of gather is (scatter_add) and of scatter (gather), and when it is wrong;
# - use the pair where it is really needed: label log-probabilities, smoothed targets, last valid step, segment means,
#   top-p masks.
#
# **40 minutes to read, 106 minutes to practise, 20 points.** You need chapter 2, sections 2.1, 2.2 and 2.4: shape,
# stride, view or copy, `expand`; and what `backward` and `.grad` do.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import subprocess
import sys
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.index_steps import collision_map, gather_scatter_stepper
from torchkata.pictures.nucleus import sort_decide_put_back
from torchkata.verdicts import (
    check,
    incoming_gradient,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)

# %% [markdown]
# ## 3.1 gather: one coordinate is replaced
#
# `t.gather(dim, index)` reads one element of `t` for each number in `index`. The number is a position along `dim`; the
# other coordinate is that of the number itself.
#
# **Predict.** The next cell reads from the same `t` with the same `index`, once along dim 1 and once along dim 0. What
# does it print?

# %% facts=["03-gather-sample"]
t = torch.tensor([[1, 2], [3, 4]])
index = torch.tensor([[0, 0], [1, 0]])

print("dim 1:", t.gather(1, index).tolist())
print("dim 0:", t.gather(0, index).tolist())

# %% [markdown]
# The result always has the shape of `index`. For each position of `index`, gather reads one element of `t`: at that
# same position, except that the coordinate of `dim` is replaced by the number that stands in `index`:
#
#     dim 1:  out[i][j] = t[i][index[i][j]]
#     dim 0:  out[i][j] = t[index[i][j]][j]
#
# So along dim 1 the numbers in `index` name columns, and each row stays in its row. Along dim 0 they name rows, and
# each column stays in its column.
#
# The explorer below goes through this call entry by entry (`input` is our `t`); it opens at the third of four steps.
# The line above the grids is the formula with numbers in it, and the cells that it speaks of are outlined. Press *back*
# and *step*, then choose "gather along dim 0" in the list of examples and do the same. Notice that the outlined cells
# of `index` and `out` always stand in the same place; only the cell of `input` moves, and only along `dim`. A dash
# marks an element that is never read.

# %%
stepper = gather_scatter_stepper()
for _ in range(3):
    stepper.controls["step"].click()
stepper

# %% [markdown]
# **Predict.** Now `a` is 3 × 3, and the index has three rows of *five*. Is that legal? And if the result is overwritten
# with zeros, what happens to `a`?

# %% facts=["03-gather-sample", "03-gather-one-sentence"]
a = torch.arange(1, 10).view(3, 3)
wide = torch.tensor([[1, 1, 1, 1, 1], [2, 0, 1, 2, 0], [1, 2, 0, 0, 2]])

out = a.gather(1, wide)
for row in out.tolist():
    print(row)

out.zero_()
print("a afterwards:", a.tolist())

# %% [markdown]
# Along `dim` the index may have any length; elements are then read several times. The result is a new tensor with the
# shape of `index` and memory of its own. Slices of chapter 2 look into the memory of their base; gather never does, and
# it never changes its input.

# %% [markdown]
# **Predict.** With three dimensions nothing new happens. `x` has shape (3, 4, 5), and `index[1][2][3]` is 2. From which
# place of `x` is `out[1][2][3]` read along dim 0, along dim 1, along dim 2?

# %% facts=["03-gather-index-formula"]
x = torch.arange(60).reshape(3, 4, 5)
index = torch.arange(24).reshape(2, 3, 4) % 3

for dim in range(3):
    out = torch.zeros_like(index)
    for place in product(range(2), range(3), range(4)):  # the last place is (1, 2, 3)
        source = list(place)
        source[dim] = int(index[place])
        out[place] = x[tuple(source)]
    same = torch.equal(out, x.gather(dim, index))
    print(f"dim {dim}: out{list(place)} = x{source}; all entries as in gather: {same}")

# %% [markdown]
# These four lines of loop are the whole definition of gather, for any `dim` and any number of dimensions: copy the
# place, replace one coordinate, read. The page `torch.gather` of the documentation writes the same as three formulas,
# one for each `dim`.

# %% [markdown]
# **Predict.** Along dim 1, can an entry in the first row of `index` ever fetch a number from the second row of `a`?

# %% facts=["03-dim-lanes-independent"]
a = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])

index = torch.tensor([[3, 3], [0, 1], [2, 0]])
print("gather along dim 1: ", a.gather(1, index).tolist())
print("row by row:         ", [a[row][index[row]].tolist() for row in range(3)])

index = torch.tensor([[2, 0, 1, 1]])
print("gather along dim 0: ", a.gather(0, index).tolist())
print("column by column:   ", [a[:, column][index[:, column]].tolist() for column in range(4)])

# %% [markdown]
# No. Each one-dimensional vector along `dim` is a *lane*, and each lane is a small problem of its own: ordinary
# indexing of a vector with a vector. For dim 1 the lanes are the rows; for dim 0 they are the columns, so the index
# names rows. That scatter works in the same lanes will help in section 3.3.

# %% [markdown]
# ## 3.2 Shapes: no broadcasting, ever
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
# One number, not a column: the result has the shape of `index`, and nothing is stretched to fit. An index with one row
# speaks of one row, the first; the other rows are not touched. If every row is meant, the index must have an entry for
# every row. `expand` gives it that shape without copying (section 2.4).

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

print(y.gather(1, torch.tensor([[0, 1, 2, 3, 3, 3]])).tolist())
error_of(lambda: y.gather(1, torch.tensor([[0], [0], [0], [0]])))
error_of(lambda: y.gather(1, torch.tensor([2, 0, 3])))
error_of(lambda: y.gather(1, torch.tensor([[-1]])))
error_of(lambda: y.gather(1, torch.tensor([[4]])))

# %% [markdown]
# All but the first. The rules follow from the formula:
#
# - `index` and `input` have the same number of dimensions: the index supplies all coordinates but one, so none may be
#   missing;
# - apart from `dim`, `index` is nowhere larger than `input`: those coordinates are taken as they are and must exist;
# - along `dim`, `index` may have any length: that coordinate is replaced anyway;
# - the numbers in `index` lie in 0 … size - 1. Ordinary indexing counts -1 from the end; gather does not.

# %% [markdown]
# **Predict.** `labels` holds one column number for each row. What has to be done to `labels` before gather takes it,
# and what to the result, so that one number for each row comes out?

# %% facts=["03-gather-same-ndim"]
scores = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])
labels = torch.tensor([2, 0, 1, 1])

index = labels.unsqueeze(1)
picked = scores.gather(1, index)
print("index", tuple(index.shape), "picked", tuple(picked.shape), "squeezed", tuple(picked.squeeze(1).shape))
print(picked.squeeze(1))

# %% [markdown]
# `unsqueeze(1)` adds the missing dimension, of size 1: one column of indices, one entry for each row. `squeeze(1)`
# takes that dimension away again. Name the dimension: `squeeze()` without a number removes *every* dimension of size 1,
# and with it the batch dimension of a batch of one.

# %% [markdown]
# **Predict.** Which of the dtypes int64, int32, int16, uint8 and float32 may an index have?

# %% facts=["03-index-must-be-long"]
y = torch.arange(12).reshape(3, 4)

for dtype in (torch.int64, torch.int32):
    print(dtype, y.gather(1, torch.tensor([[2]], dtype=dtype)).tolist())

error_of(lambda: y.gather(1, torch.tensor([[2]], dtype=torch.int16)))
error_of(lambda: y.gather(1, torch.tensor([[2]], dtype=torch.uint8)))
error_of(lambda: y.gather(1, torch.tensor([[2.0]])))

# %% [markdown]
# The documentation asks for int64 (a "LongTensor"); torch 2.13 takes int32 as well, for gather and for scatter. All
# other dtypes are refused, small whole numbers too. Labels that were stored as uint8 to save space need `.long()`
# first.

# %% [markdown]
# **Predict.** `torch.gather(y, 1, index, buffer)`: does the result arrive in `buffer`?

# %% facts=["03-gather-signature"]
y = torch.arange(12).reshape(3, 4)
index = torch.tensor([[0, 3]])
buffer = torch.zeros(1, 2, dtype=torch.int64)

error_of(lambda: torch.gather(y, 1, index, buffer))
torch.gather(y, 1, index, out=buffer)
print(buffer.tolist())

# %% [markdown]
# The signature is `gather(input, dim, index, *, sparse_grad=False, out=None)`. What stands after the star is given by
# name only; lists of arguments that put `out` in fourth place are out of date. Section 3.6 shows what `sparse_grad` is
# for.

# %% [markdown]
# **Predict.** gather has a relative that does broadcast, `torch.take_along_dim`: with the index `[[1]]` it returns
# column 1 of every row. What does it return for `[[4]]`, when the columns of `y` are 0, 1, 2, 3?

# %% facts=["03-scatter-gather-no-broadcast"]
y = torch.arange(12).reshape(3, 4)

for column in (1, -1, 4):
    print(f"{column:2}:", torch.take_along_dim(y, torch.tensor([[column]]), 1).flatten().tolist())

# %% [markdown]
# Column 0, without a word. With a `dim`, take_along_dim counts negative indices from the end, as NumPy does, and on
# torch 2.13 it also wraps an index that is too large: with four columns, 4 reads column 0 ([PyTorch issue
# 196106](https://github.com/pytorch/pytorch/issues/196106)). A wrong label, which gather refuses, turns into a
# plausible number. So it is no drop-in replacement: check the range first, or expand the index and stay with gather.

# %% [markdown]
# ### Exercise 3.1 · The label's log-probability, per position
#
# implement · warm-up · 10 min · 2 points
#
# Scoring a text, the policy gradient, distillation: all need one number per position, the log-probability that the
# model gave to the label. A loss function averages it away; here you pick it yourself.
#
# **Contract**
#
# - `out[...] = log_softmax(logits, over the last dimension)[..., labels[...]]` for any number of leading dimensions,
#   none included: (C,) with a 0-d label gives a 0-d result.
# - Right for logits as large as 1e4, and where other classes have a logit of -inf. Dtype and device are those of
#   `logits`; the result is differentiable with respect to `logits`; the arguments are not changed.
# - `labels` may be int64, int32 or uint8. A label outside 0..C-1, negative ones too, raises IndexError, RuntimeError
#   or ValueError.
#
# <details><summary>Hint 1</summary>
#
# What are the shapes of the log-probabilities and of `labels`? What must be added to `labels` so that gather accepts
# them, and what has to go again afterwards?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `log_softmax` over the last dimension; gather along that dimension with labels (as int64) that carry one extra
# dimension of size 1; then remove exactly that dimension.
#
# </details>


# %% answer="label-log-prob"
def label_log_prob(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of each position's own label.

    logits: (..., C) floating point; labels: (...) int64, int32 or uint8; returns (...) in the dtype of logits.
    """
    ### BEGIN SOLUTION
    log_probs = logits.log_softmax(-1)
    return log_probs.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    ### END SOLUTION


# %% check="label-log-prob" points=2
"""One log-probability per position, for any leading dimensions; stable; refuses bad labels."""
with check("label-log-prob") as test:

    def pick(table, labels):
        """table[..., y] for the label y of each position, by a plain loop."""
        rows = table.reshape(-1, table.shape[-1])
        picked = [row[int(y)] for row, y in zip(rows, labels.flatten(), strict=True)]
        return torch.stack(picked).reshape(labels.shape)

    def normalised(logits, dim):
        """Logits minus the logarithm of their sum of exponentials (good enough for small numbers)."""
        return logits - logits.exp().sum(dim, keepdim=True).log()

    known = (
        mistake(
            "Gather needs an index with as many dimensions as the input: labels needs one more (of size 1).",
            raises="same number of dimensions",
        ),
        mistake(
            "The size-1 dimension used for gather is still there: remove it at the end.",
            when=lambda seen: seen.value.shape == (*seen.args[1].shape, 1),
        ),
        mistake(
            "Those are the raw logits: they must be normalised (log_softmax) over the classes.",
            gives=pick,
        ),
        mistake(
            "The softmax runs over the wrong dimension: classes are last.",
            when=lambda seen: any(
                seen.looks_like(lambda logits, labels, dim=dim: pick(normalised(logits, dim), labels))
                for dim in range(seen.args[1].dim())
            ),
        ),
        mistake(
            "The sign is wrong: that is the loss (negative log-probability).",
            gives=lambda logits, labels: -pick(normalised(logits, -1), labels),
        ),
        mistake(
            "Those are probabilities, not their logarithms.",
            gives=lambda logits, labels: pick(normalised(logits, -1), labels).exp(),
        ),
    )

    test("logits (4, 3), labels (4,)")
    some_probs = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.4, 0.35, 0.25], [0.7, 0.05, 0.25]])
    some_logits = some_probs.log() + torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    seen = observe(label_log_prob, some_logits, torch.tensor([2, 0, 1, 1])).expecting(*known)
    seen.returns(
        torch.tensor([0.5, 0.1, 0.35, 0.05]).log(),
        mistake(
            "You got a table: indexing the class dimension with all labels pairs every position with every label. "
            "Each position needs its own label only.",
            shape=(4, 4),
        ),
        mistake("That is one number for all positions: each position needs its own (reduction='none').", shape=()),
    )
    seen.leaves_arguments_alone()

    test("logits (2, 5, 7), labels (2, 5)")
    some_logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    some_labels = torch.tensor([[6, 0, 3, 3, 1], [2, 5, 0, 4, 6]])
    seen = observe(label_log_prob, some_logits, some_labels).expecting(*known)
    seen.returns(pick(normalised(some_logits, -1), some_labels))

    test("logits of 1e4: the improbable label has log-probability -10000, not -inf")
    seen = observe(label_log_prob, torch.tensor([[1e4, 0.0, 3.0], [2.0, -5.0, 1e4]]), torch.tensor([1, 2]))
    seen.returns(
        torch.tensor([-1e4, 0.0]),
        mistake(
            "Here log(softmax(x)) underflows: a small probability becomes 0 and its logarithm -inf. Use log_softmax.",
            when=lambda seen: seen.value.tolist() == [-torch.inf, 0.0],
        ),
        mistake(
            "Here exp(1e4) is inf, and what follows is inf or nan. log_softmax subtracts the largest logit first.",
            when=lambda seen: not seen.value.isfinite().all(),
        ),
        mistake(
            "A small number added to the probability, or a bound on the logits, hides how improbable the label is: "
            "{detail}. Use log_softmax.",
            when=lambda seen: -1000 < seen.value[0].item() < -5,
        ),
    )

    ### BEGIN HIDDEN TESTS
    def reference(logits, labels):
        return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)

    squeezed = mistake(
        "A squeeze() without an argument removes every dimension of size 1, a batch of one too: name the dimension.",
        when=lambda seen: seen.value.shape == seen.args[1].squeeze().shape != seen.args[1].shape,
    )
    g = torch.Generator().manual_seed(2)
    for idea, size in [
        ("a batch of one", (1, 3)),
        ("sequences of length one", (4, 1, 5)),
        ("no leading dimension", (5,)),
        ("an empty batch", (0, 3)),
        ("a single class", (4, 1)),
        ("as many positions as classes", (3, 3, 3)),
        ("four dimensions", (2, 3, 2, 5)),
    ]:
        test.hidden(idea)
        some_logits = torch.randn(size, generator=g) + 2
        some_labels = torch.randint(size[-1], size[:-1], generator=g)
        observe(label_log_prob, some_logits, some_labels).expecting(squeezed, *known).returns(reference)

    test.hidden("logits and labels that are not contiguous")
    some_logits = torch.randn(5, 3, 4, generator=g).permute(2, 1, 0)
    some_labels = torch.randint(5, (3, 4), generator=g).t()
    observe(label_log_prob, some_logits, some_labels).expecting(*known).returns(reference)

    test.hidden("float64, float16 and bfloat16 logits keep their dtype")
    for dtype, rtol in ((torch.float64, 1e-10), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
        some_logits = torch.tensor([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]], dtype=dtype)
        seen = observe(label_log_prob, some_logits, torch.tensor([1, 2]))
        seen.returns(reference, rtol=rtol, atol=0)

    test.hidden("a class with logit -inf that is not the label")
    masked = torch.tensor([[0.5, -torch.inf, 1.0], [-torch.inf, -torch.inf, 2.0]], requires_grad=True)
    seen = observe(label_log_prob, masked, torch.tensor([0, 2]))
    seen.returns(
        reference,
        mistake(
            "One-hot times log-probabilities multiplies 0 by -inf where a class is masked: nan. "
            "Pick the value instead of summing products.",
            when=lambda seen: seen.value.isnan().all(),
        ),
    )
    detached = mistake("No gradient reaches the logits.", when=lambda seen: not seen.noted.tracked)
    seen.gives_gradients(reference, detached)

    test.hidden("labels of other integer dtypes")
    for dtype in (torch.int32, torch.uint8):
        some_logits = torch.randn(4, 200, generator=g)
        seen = observe(label_log_prob, some_logits, torch.tensor([3, 199, 0, 150], dtype=dtype))
        seen.returns(
            reference,
            mistake(
                "The index must be int64 for gather: convert labels ({detail}).",
                raises="dtype|tensors used as indices|to be Long|shape of the mask",
            ),
        )
        seen.leaves_arguments_alone()

    test.hidden("labels that do not exist are refused")
    some_logits = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.2, -0.4], [-0.5, 0.1, 0.7]])
    wrong_kind = mistake(
        "A label that does not exist raised another kind of exception: raise IndexError, RuntimeError or ValueError.",
        raises=".",
    )
    for label in (-1, -100, 3, 5):
        skipped = mistake(
            f"Label {label} was accepted: cross_entropy skips it (ignore_index) and gives 0.",
            when=lambda seen: seen.args[1][1] == -100 and seen.value[1] == 0,
        )
        wrapped = mistake(
            f"Label {label} was accepted: ordinary indexing counts negative labels from the end and "
            "take_along_dim wraps them around; gather refuses them.",
            gives=lambda logits, labels: reference(logits, labels % 3),
        )
        seen = observe(label_log_prob, some_logits, torch.tensor([0, label, 2]))  # in the middle: rows on both sides
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Label {label} was accepted, and it must raise.",
            mistakes=[skipped, wrapped, wrong_kind],
        )

    test.hidden("the gradient: one-hot minus softmax, times the incoming gradient")
    for size in ((4, 3), (2, 3, 5)):
        some_logits = torch.randn(size, generator=g, requires_grad=True)
        some_labels = torch.randint(size[-1], size[:-1], generator=g)
        seen = observe(label_log_prob, some_logits, some_labels)
        seen.gives_gradients(reference, detached)
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 3.2 · The last real time step of every sequence
#
# debug · solid · 15 min · 3 points
#
# A recurrent network returns an output for every time step, and a batch is padded to its longest sequence. To
# classify a sequence you want the output of its last real step. Somebody tried: the first attempt raises, the second
# one runs and is wrong, which is worse. Repair it.
#
# **Contract**
#
# - `out[b] = h[b, lengths[b] - 1]`; a sequence of length 0 gives a row of zeros (with zero gradient).
# - Padding (positions >= length) never leaks, in value or gradient; it may hold nan or inf. Only the chosen step gets
#   a gradient.
# - `lengths` is int64 or int32 and is not changed. A length above T or below 0 raises IndexError, RuntimeError or
#   ValueError. The dtype of `h` is kept. T may be 0 (then all lengths are 0), and so may B.
#
# <details><summary>Hint 1</summary>
#
# The output of gather has the shape of its index. Which shape must the index have to bring home D numbers per
# sequence?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The index (B, 1, 1) must be made (B, 1, D), gather does not do it by itself, and at the end dimension 1 alone is
# removed. For length 0 gather needs a legal position: blank that row afterwards by a selection, not a product; or put
# a step of zeros in front of `h`, and every length is a legal position.
#
# </details>


# %% answer="last-valid-step"
def last_step(h: Tensor, lengths: Tensor) -> Tensor:
    """The output of each sequence's last real time step; zeros for a sequence of length 0.

    h: (B, T, D); lengths: (B,) int64 or int32; returns (B, D) in the dtype of h.
    """
    ### BEGIN SOLUTION
    batch, _, features = h.shape
    padded = torch.cat([h.new_zeros(batch, 1, features), h], dim=1)  # a sequence of length n ends at position n
    index = lengths.long()[:, None, None].expand(batch, 1, features)
    return padded.gather(1, index).squeeze(1)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # return h.gather(1, lengths - 1)
    # # RuntimeError: Index tensor must have the same number of dimensions as input tensor
    #
    # # second try: no error any more, but every row of the result has one number instead of D
    # # return h.gather(1, (lengths - 1)[:, None, None]).squeeze()
    ### END GIVEN


# %% check="last-valid-step" points=3
"""The last real step of each sequence, zeros for length 0; nothing leaks from the padding."""
with check("last-valid-step") as test:

    def nan_leaked(where):
        """The sentence for nan that came through a product with a mask."""
        return (
            f"A nan in the padding leaked into the {where}: multiplying by a 0/1 mask does not remove nan "
            "(0 * nan is nan). Select instead."
        )

    def has_nan(seen):
        return seen.value.isnan().any()

    test("h (3, 5, 4), lengths 5, 1, 3")
    some_h = (torch.arange(1.0, 61) * 37 % 61).reshape(3, 5, 4)
    seen = observe(last_step, some_h, torch.tensor([5, 1, 3]))
    seen.returns(
        torch.stack([some_h[0, 4], some_h[1, 0], some_h[2, 2]]),
        mistake(
            "Gather wants an index with as many dimensions as h (3): give lengths two more.",
            raises="same number of dimensions",
        ),
        mistake(
            "Gather does not broadcast: an index of shape (B, 1, 1) fetches one number per sequence, "
            "the first feature. Expand it to (B, 1, D).",
            when=lambda seen: (
                seen.value.flatten().tolist() == [h[0].item() for h in (some_h[0, 4], some_h[1, 0], some_h[2, 2])]
            ),
        ),
        mistake(
            "A length counts, positions start at 0: the last step of a sequence of length n is n - 1.",
            raises="index 5 is out of bounds",
        ),
        mistake(
            "A length counts, positions start at 0: the last step of a sequence of length n is n - 1.",
            when=lambda seen: seen.value[1:].equal(torch.stack([some_h[1, 1], some_h[2, 3]])),
        ),
        mistake("Indexing h[:, lengths - 1] gives (B, B, D): every sequence at every length.", shape=(3, 3, 4)),
        mistake("The time dimension of size 1 is still there: remove it at the end.", shape=(3, 1, 4)),
        mistake(
            "That is the last padded position of all sequences, not each one's own last step.",
            gives=some_h[:, -1],
        ),
        mistake(
            "Those are averages over the valid steps; asked for is the last one.",
            gives=torch.stack([some_h[0].mean(0), some_h[1, 0], some_h[2, :3].mean(0)]),
        ),
        mistake(
            "Those are sums over the valid steps; asked for is the last one.",
            gives=torch.stack([some_h[0].sum(0), some_h[1, 0], some_h[2, :3].sum(0)]),
        ),
    )
    seen.leaves_arguments_alone()

    test("nan in the padding does not reach the result")
    some_h = (torch.arange(1.0, 31) * 7 % 31).reshape(3, 5, 2)
    some_h[0, 2:] = some_h[1, 4:] = some_h[2, 1:] = torch.nan
    seen = observe(last_step, some_h, torch.tensor([2, 4, 1]))
    seen.returns(
        torch.stack([some_h[0, 1], some_h[1, 3], some_h[2, 0]]),
        mistake(nan_leaked("result"), when=has_nan),
    )

    test("length 0 gives zeros")
    some_h = (torch.arange(1.0, 25) * 7 % 29).reshape(3, 4, 2)
    expected_steps = torch.stack([some_h[0, 1], torch.zeros(2), some_h[2, 3]])
    observe(last_step, some_h, torch.tensor([2, 0, 4])).returns(
        expected_steps,
        mistake(
            "Length 0 must give a row of zeros; index -1 silently picked the last position (or raised).", raises="-1"
        ),
        mistake(
            "Length 0 must give a row of zeros; index -1 silently picked the last position (or raised).",
            when=lambda seen: seen.value[1].equal(some_h[1, -1]),
        ),
        mistake(
            "Length 0 must give a row of zeros; a clamped index picked the first position.",
            when=lambda seen: seen.value[1].equal(some_h[1, 0]),
        ),
    )

    test("length 0 gives zeros where its padding is nan, too")
    some_h[1] = torch.nan
    seen = observe(last_step, some_h, torch.tensor([2, 0, 4]))
    seen.returns(expected_steps, mistake(nan_leaked("result"), when=has_nan))

    ### BEGIN HIDDEN TESTS
    def reference(h, lengths):
        steps = [row[n - 1] if n else torch.zeros_like(h[0, 0]) for row, n in zip(h, lengths.tolist(), strict=True)]
        return torch.stack(steps)

    squeezed = mistake(
        "A squeeze() without a dimension also removed a batch (or feature) dimension of size 1: name the dimension.",
        when=lambda seen: seen.value.shape == torch.empty(seen.args[0].shape[::2]).squeeze().shape,
    )
    g = torch.Generator().manual_seed(4)
    for idea, size, lengths in [
        ("a batch of one", (1, 4, 3), [3]),
        ("one feature", (3, 4, 1), [2, 4, 1]),
        ("one time step", (2, 1, 3), [1, 0]),
        ("one of each", (1, 1, 1), [1]),
        ("as many sequences as steps and features", (4, 4, 4), [2, 4, 1, 3]),
    ]:
        test.hidden(idea)
        some_h = torch.randn(size, generator=g)
        observe(last_step, some_h, torch.tensor(lengths)).returns(reference, squeezed)

    test.hidden("an empty batch, and sequences without any step")
    observe(last_step, torch.empty(0, 5, 4), torch.empty(0, dtype=torch.int64)).returns(torch.empty(0, 4))
    observe(last_step, torch.empty(2, 0, 3), torch.tensor([0, 0])).returns(
        torch.zeros(2, 3),
        mistake("Where T is 0 there is no position to read from: all rows are zeros.", stage="raised"),
    )

    test.hidden("int32 lengths")
    some_h = torch.randn(3, 5, 4, generator=g)
    seen = observe(last_step, some_h, torch.tensor([5, 2, 4], dtype=torch.int32))
    seen.returns(reference, mistake("Lengths of dtype int32 must work: convert the index.", stage="raised"))
    seen.leaves_arguments_alone()

    test.hidden("float64 and bfloat16, and h that is not contiguous")
    for dtype in (torch.float64, torch.bfloat16):
        some_h = torch.randn(4, 3, 5, generator=g, dtype=torch.float64).to(dtype).permute(1, 2, 0)
        observe(last_step, some_h, torch.tensor([5, 0, 4])).returns(reference)

    test.hidden("inf in the padding, nan and inf in a chosen step")
    some_h = torch.randn(3, 4, 2, generator=g)
    some_h[0, 3:] = torch.inf
    some_h[1, 2:] = -torch.inf
    some_h[1, 1] = torch.tensor([torch.nan, torch.inf])
    some_h[2] = torch.inf
    observe(last_step, some_h, torch.tensor([3, 2, 0])).returns(
        reference,
        mistake(
            "A nan or inf in the chosen step itself must stay: only the padding is to be ignored.",
            when=lambda seen: seen.value.isfinite().all(),
        ),
        mistake(
            "An inf in the padding leaked into the result: multiplying by a 0/1 mask makes it nan. Select instead.",
            when=lambda seen: seen.value[[0, 2]].isnan().any(),
        ),
    )

    test.hidden("lengths that can't be are refused")
    wrong_kind = mistake(
        "A length that can't be raised another kind of exception: raise IndexError, RuntimeError or ValueError.",
        raises=".",
    )
    for length in (6, -1, -5, 9):  # in the middle, so that a flattened h has rows on both sides
        seen = observe(last_step, torch.randn(3, 5, 3, generator=g), torch.tensor([2, length, 4]))
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Length {length} must raise (clamping or wrapping hides a data error).",
            mistakes=[wrong_kind],
        )

    test.hidden("only the chosen step gets a gradient, whatever the padding holds")
    some_h = torch.randn(4, 5, 3, generator=g)
    for fill in (0.5, torch.nan):
        some_h[0, 2:] = some_h[1] = some_h[2, 3:] = fill
        seen = observe(last_step, some_h.requires_grad_(), torch.tensor([2, 0, 3, 5]))
        seen.returns(reference)
        seen.gives_gradients(
            reference,
            mistake(
                nan_leaked("gradient"),
                when=lambda seen: seen.gradient(0).isnan().any(),
            ),
            because="The gradient must flow to the chosen step: {detail}",
        )
        some_h = some_h.detach()
    ### END HIDDEN TESTS

# %% [markdown]
# ## 3.3 scatter: the same formula on the writing side
#
# **Predict.** `src` holds ten numbers, `index` four. How many of the ten arrive in the target, and where?

# %% facts=["03-scatter-writes-all-of-src", "03-scatter-sample-dim0", "03-scatter-index-formula"]
src = torch.arange(1.0, 11).reshape(2, 5)
index = torch.tensor([[0, 1, 2, 0]])

target = torch.zeros(3, 5).scatter_(0, index, src)
for row in target.tolist():
    print(row)

# %% [markdown]
# Four: the corner of `src` that `index` covers. Each of them stays in its column; only its row comes from `index`. The
# formula is gather's, with the replaced coordinate on the other side of the equals sign:
#
#     gather:    out[i][j] = input[index[i][j]][j]         dim 0, reading
#     scatter_:  self[index[i][j]][j] = src[i][j]          dim 0, writing
#
# The page `torch.Tensor.scatter_` says "writes all values from the tensor src". It means: all values under `index`.
#
# The explorer opens on this call, after two of its four steps. Press *step* and notice that now the outlined cells of
# `index` and `src` stand in the same place, and the cell of `self` moves. The dashes in `src` are the six numbers that
# nobody writes. Then try the example "scatter_ along dim 1", which is the next cell.

# %%
stepper = gather_scatter_stepper()
stepper.controls["example"].value = "scatter_, part of src"
for _ in range(2):
    stepper.controls["step"].click()
stepper

# %% [markdown]
# **Predict.** The same `src` along dim 1, with the index `[[0, 1, 2], [0, 1, 4]]`. Where does the 8 go, and which
# numbers are left out?

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
# Along dim 1 each number stays in its row, and `index` names the column: 8 is `src[1][2]`, `index[1][2]` is 4, so it
# goes to `self[1][4]`. The rows are the lanes again. The last row of the target belongs to no row of `index` and keeps
# its zeros.

# %% [markdown]
# **Predict.** There are two spellings, with and without underscore. Which of the two lines below changes `base`?

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
# `scatter_` writes into the tensor and returns that same tensor; `scatter` copies it first and leaves it alone. A line
# `x.scatter(1, index, src)` that does not use its result does nothing. Either way the result has the shape of `self`,
# not of `index`.

# %% [markdown]
# **Predict.** In place of a tensor `src` both take a number, as the cell above did. How many twos does `torch.zeros(3,
# 5).scatter_(0, torch.tensor([[0, 1]]), 2)` write: two, or two whole rows? And with `[[1]]` along dim 1: one, or column
# 1 of every row?

# %% facts=["03-scatter-sample-value", "03-scatter-gather-no-broadcast"]
index = torch.tensor([[0, 1]])

print(torch.zeros(3, 5).scatter_(0, index, 2).tolist())
print(torch.zeros(3, 5).scatter_(1, torch.tensor([[1]]), 2).tolist())

print(torch.zeros(3, 5).scatter_(0, index, value=2).nonzero().tolist())
error_of(lambda: torch.zeros(3, 5).scatter_(0, index, src=2), lines=1)

# %% [markdown]
# Two, at `[0][0]` and `[1][1]`, and one, at `[0][1]`: there are as many writers as entries in `index`, which is not
# stretched over the target. (The page `torch.Tensor.scatter_` of torch 2.13 mentions "standard broadcasting". There is
# none.) As a keyword the number is called `value`; `src` must be a tensor.

# %% [markdown]
# **Predict.** The target is `torch.zeros(3, 5)`, written along dim 0. Which of these calls are refused?
#
#     index [0, 1]                               src (1, 2)      one dimension
#     index [[0, 1, 0]]                          src (1, 1)      three entries, one number
#     index [[0, 1, 0, 1, 0, 1]]                 src (1, 6)      six columns, the target has five
#     index [[-1, 1]]                            src (1, 2)      the last row?
#     index [[0, 1]]                             src (1, 2)      whole numbers into a float target
#     index [[0, 1], [1, 2], [2, 0], [0, 1]]     src (4, 2)      four rows, the target has three

# %% facts=["03-scatter-size-rules", "03-scatter-gather-no-broadcast", "03-scatter-sample-dim0"]
target = torch.zeros(3, 5)

error_of(lambda: target.scatter(0, torch.tensor([0, 1]), torch.ones(1, 2)))
error_of(lambda: target.scatter(0, torch.tensor([[0, 1, 0]]), torch.ones(1, 1)))
error_of(lambda: target.scatter(0, torch.tensor([[0, 1, 0, 1, 0, 1]]), torch.ones(1, 6)))
error_of(lambda: target.scatter(0, torch.tensor([[-1, 1]]), torch.ones(1, 2)))
error_of(lambda: target.scatter(0, torch.tensor([[0, 1]]), torch.tensor([[1, 1]])))
print(target.scatter(0, torch.tensor([[0, 1], [1, 2], [2, 0], [0, 1]]), torch.ones(4, 2)).tolist())

# %% [markdown]
# Only the last one is legal. The rules are gather's, for three tensors:
#
# - `index`, `self` and `src` have the same number of dimensions;
# - `index` is nowhere larger than `src`: each entry needs a number to write. `src` is not broadcast either;
# - apart from `dim`, `index` is nowhere larger than `self`;
# - the numbers in `index` lie in 0 … size - 1 of `self`, along `dim`;
# - `self` and `src` have the same dtype: nothing is promoted, unlike in `a + b`.
#
# In the last call four numbers of a column go to three cells, so two of them must meet. Here all are 1 and it does not
# matter; section 3.4 is about what happens when it does.

# %% [markdown]
# **Predict.** `index` may be smaller than `src` on the way forward. `leaf` holds ten numbers of which four are written:
# which gradient do the other six get in `backward`?

# %% facts=["03-scatter-writes-all-of-src"]
leaf = torch.arange(1.0, 11).reshape(2, 5).requires_grad_()
index = torch.tensor([[0, 1, 2, 0]])

error_of(lambda: torch.zeros(3, 5).scatter(0, index, leaf).sum().backward())

torch.zeros(3, 5).scatter(0, index, leaf[:1, :4]).sum().backward()
print(leaf.grad.tolist())

# %% [markdown]
# None: `backward` fails, because it is implemented only for a `src` of the same shape as `index`. Cut `src` to that
# shape yourself; then the slice sees to the rest, and the six numbers get the gradient 0 that you would expect.

# %% [markdown]
# ### Exercise 3.3 · Smoothed targets with holes
#
# implement · warm-up · 12 min · 2 points
#
# Losses that compare distributions (distillation, mixup, soft cross entropy) want targets as rows of probabilities,
# with label smoothing, and nothing where a pixel or token is to be ignored. Build them with the writing half of the
# pair.
#
# **Contract**
#
# - The row of a label y holds `smooth / C` everywhere, plus `1 - smooth` at class y, so rows sum to 1. Rows of labels
#   equal to `ignore_index` are all zero; `ignore_index` may lie inside or outside 0..C-1, None means that there is
#   none.
# - `labels` is int64, of any number of dimensions (0-d too), and is not changed. The result has one dimension more,
#   of size C; it is on the device of `labels` and has the given dtype.
# - Any other label outside 0..C-1 raises IndexError, RuntimeError or ValueError.
#
# **Rule.** Use `scatter` or `scatter_`; `F.one_hot` and `torch.eye` are not allowed.
#
# <details><summary>Hint 1</summary>
#
# Which dimension of the result does a label address, and what must index look like so that it has as many dimensions
# as the result?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Start from a tensor filled with `smooth / C`, scatter the label's value along the last dimension with labels as a
# column, then blank the ignored rows. For the ignored rows give scatter a harmless legal index, but not by writing
# into `labels`.
#
# </details>


# %% answer="one-hot-scatter"
def soft_targets(
    labels: Tensor,
    num_classes: int,
    smooth: float = 0.0,
    ignore_index: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Rows of target probabilities: smoothed, and all zero where a label is to be ignored.

    labels: (...) int64; returns (..., num_classes) of the given dtype, on the device of labels.
    """
    ### BEGIN SOLUTION
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    index = labels.masked_fill(ignored, 0).unsqueeze(-1)  # a legal index, whatever ignore_index is
    spread = smooth / num_classes
    targets = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    targets.scatter_(-1, index, 1 - smooth + spread)
    return targets.masked_fill(ignored.unsqueeze(-1), 0)
    ### END SOLUTION


# %% check="one-hot-scatter" points=2
"""Rows sum to 1, ignored rows are zero; wrong labels raise; built by scatter."""
with check("one-hot-scatter") as test:

    def follows_the_rule(seen):
        """Judge that the result was built by scatter."""
        rule = "The result must be built with scatter / scatter_, without one_hot and eye: {detail}"
        seen.avoided("one_hot", "eye", because=rule)
        seen.used("scatter", "scatter_", because=rule)

    def ignored_rows(seen):
        """What the result holds where the label is ignored."""
        return seen.value[seen.args[0] == seen.kwargs["ignore_index"]]

    dimensions = mistake(
        "Scatter needs an index with as many dimensions as the target: labels needs one more (of size 1).",
        raises="same number of dimensions",
    )

    test("labels 2, 0, 1, 2 of 5 classes")
    four_labels = torch.tensor([2, 0, 1, 2])
    plain_rows = torch.tensor([[0.0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    along_rows = "You scattered along dim 0: that marks row y of column 0.. instead of column y of each row."
    seen = observe(soft_targets, four_labels, 5)
    seen.returns(
        plain_rows,
        dimensions,
        mistake(
            along_rows,
            gives=torch.tensor([[1.0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]),
        ),
        mistake(
            along_rows,
            gives=torch.tensor([[0.0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]]),
        ),
        mistake("Classes are the last dimension of the result: {detail}", shape=(5, 4)),
    )
    seen.leaves_arguments_alone()
    follows_the_rule(seen)

    test("smooth = 0.1: every row sums to 1")
    seen = observe(soft_targets, four_labels, 5, smooth=0.1)
    seen.returns(
        torch.where(plain_rows == 1, 0.92, 0.02),
        mistake(
            "You spread the smoothing over the C-1 other classes; here it goes over all C "
            "(the label gets its share too, as in cross_entropy).",
            gives=torch.where(plain_rows == 1, 0.9, 0.025),
        ),
        mistake(
            "The rows must sum to 1: the label gets 1 - smooth on top of smooth / C.",
            when=lambda seen: not seen.value.sum(-1).sub(1).abs().lt(1e-4).all(),
        ),
    )

    test("ignore_index = -100: rows of zeros")
    some_labels = torch.tensor([2, -100, 0, 3])
    seen = observe(soft_targets, some_labels, 4, ignore_index=-100)
    seen.returns(
        torch.tensor([[0.0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]),
        mistake("The ignore_index may lie outside 0..C-1: scatter must never see it.", raises="out of bounds"),
        mistake(
            "The ignored rows carry a 1: the harmless index you used for them must be blanked afterwards.",
            when=lambda seen: ignored_rows(seen).eq(1).any(),
        ),
        mistake(
            "Only the ignored rows are to be blanked; a label of 0 is an ordinary class.",
            gives=torch.tensor([[0.0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]),
        ),
    )
    overwritten = "The tensor labels was changed (the ignored labels were overwritten in place)."
    seen.leaves_arguments_alone(because=overwritten)

    test("ignore_index = 0, a class like any other")
    seen = observe(soft_targets, torch.tensor([2, 0, 1, 0]), 3, ignore_index=0)
    seen.returns(
        torch.tensor([[0.0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]),
        mistake(
            "The rows of ignore_index must be zero where it is a legal class, too. "
            "(Is 0 taken for 'no ignore_index'? Only None means that.)",
            gives=torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]),
        ),
    )
    seen.leaves_arguments_alone(because=overwritten)

    test("ignored and smoothed")
    seen = observe(soft_targets, torch.tensor([-1, 1, 2, -1]), 4, smooth=0.2, ignore_index=-1)
    seen.returns(
        torch.tensor([[0.0, 0, 0, 0], [0.05, 0.85, 0.05, 0.05], [0.05, 0.05, 0.85, 0.05], [0, 0, 0, 0]]),
        mistake(
            "Ignored rows must be zero everywhere, smoothing included.",
            when=lambda seen: ignored_rows(seen).ne(0).any(),
        ),
    )

    ### BEGIN HIDDEN TESTS
    def reference(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
        rows = [
            [smooth / num_classes] * num_classes if y != ignore_index else [0.0] * num_classes for y in labels.flatten()
        ]
        for row, y in zip(rows, labels.flatten().tolist(), strict=True):
            if y != ignore_index:
                row[y] += 1 - smooth
        return torch.tensor(rows, dtype=torch.float64).reshape(*labels.shape, num_classes).to(dtype)

    g = torch.Generator().manual_seed(5)
    pixels = torch.randint(4, (2, 3, 5), generator=g)
    for idea, some_labels, classes, asked in [
        ("labels (B, H, W)", pixels, 4, {"smooth": 0.3}),
        ("labels (B, H, W), one class ignored", pixels, 4, {"smooth": 0.3, "ignore_index": 2}),
        ("labels that are not contiguous", pixels.permute(2, 0, 1), 6, {"smooth": 0.1}),
        ("a 0-d label", torch.tensor(2), 3, {"smooth": 0.1}),
        ("a 0-d label, ignored", torch.tensor(-1), 3, {"ignore_index": -1}),
        ("a single class", torch.tensor([0, 0, -5]), 1, {"smooth": 0.1, "ignore_index": -5}),
        ("all labels ignored", torch.tensor([[7, 7, 7]]), 4, {"smooth": 0.1, "ignore_index": 7}),
        ("ignore_index = C", torch.tensor([3, 0, 2]), 3, {"ignore_index": 3}),
        ("ignore_index = 255", torch.tensor([[255, 20], [0, 255]]), 21, {"smooth": 0.1, "ignore_index": 255}),
        ("an ignore_index that does not occur", torch.tensor([1, 2]), 3, {"smooth": 0.1, "ignore_index": -100}),
        ("everything smoothed away", torch.tensor([1, 3]), 4, {"smooth": 1.0}),
    ]:
        test.hidden(idea)
        seen = observe(soft_targets, some_labels, classes, **asked)
        seen.returns(
            reference,
            dimensions,
            mistake("The ignore_index may lie outside 0..C-1: scatter must never see it.", raises="out of bounds"),
        )
        seen.leaves_arguments_alone()
        follows_the_rule(seen)

    test.hidden("no labels at all")
    for size in ((0,), (2, 0)):
        observe(soft_targets, torch.empty(size, dtype=torch.int64), 3, smooth=0.1).returns(torch.empty(*size, 3))

    test.hidden("other dtypes")
    for dtype, rtol in ((torch.float64, 1e-12), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        seen = observe(soft_targets, torch.tensor([2, -1, 0]), 3, smooth=0.1, ignore_index=-1, dtype=dtype)
        seen.returns(
            reference,
            mistake("The result must have the requested dtype: {detail}", stage="dtype"),
            mistake("The result must have the requested dtype: {detail}", raises="dtype"),
            mistake(
                "This is float32 precision in a float64 tensor: compute in the requested dtype.",
                when=lambda seen: seen.looks_like(reference) and seen.value.dtype == torch.float64,
            ),
            rtol=rtol,
            atol=0,
        )

    test.hidden("labels on another device: the result is there too")
    seen = observe(soft_targets, torch.zeros(2, 3, dtype=torch.int64, device="meta"), 4, smooth=0.1)
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(2, 3, 4, device="meta"),
            mistake("The result must be on the device of labels: {detail}", stage=("raised", "device")),
        )  # (an answer that checks the range raises something else: meta has no values, and it is not judged here)

    test.hidden("other labels outside the classes are refused")
    wrong_kind = mistake(
        "A wrong label raised another kind of exception: raise IndexError, RuntimeError or ValueError.", raises="."
    )
    for label, ignored in (
        (-1, None),
        (3, None),
        (-100, None),
        (9, None),
        (-2, -1),
        (3, -1),
        (3, 255),
        (4, 3),
        (-1, 0),
        (-100, 0),
    ):
        seen = observe(soft_targets, torch.tensor([0, label, 2]), 3, ignore_index=ignored)
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Label {label} was accepted. Clamping or taking the remainder hides wrong labels; "
            "only ignore_index may be outside.",
            mistakes=[wrong_kind],
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 3.4 Two writers, one cell
#
# **Predict.** 1, 2 and 3 are all written to the same cell. Is it guaranteed that 3 stays? And which gradient does each
# of the three get?

# %% facts=["03-scatter-later-overwrites-earlier"]
src = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
index = torch.tensor([[1, 1, 1]])

out = torch.zeros(1, 3).scatter(1, index, src)
assert out[0, 1] in (1.0, 2.0, 3.0)  # this much is promised
print("one of the three stayed:", out.tolist())

out.sum().backward()
print("gradient:", src.grad.tolist())

# %% [markdown]
# What you see is the 3, on a CPU, this time. The page `torch.Tensor.scatter_` promises less: when indices are not
# unique, "one of the values from src will be picked arbitrarily". It is a race between writers, and not only on paper:
# with 131,072 writers to one cell, two threads and `torch.compile`, torch 2.13 kept the last value in some runs and the
# 65,536th in others, where one thread had ended its half.
#
# The gradient is wrong, too, and the page says so: only one number was kept, and yet all three get the gradient of the
# cell.

# %% [markdown]
# **Predict.** Most collisions are not as easy to see. Three rows are scattered along dim 0. In which columns do two
# numbers of `index` meet?

# %%
index = torch.tensor([[0, 1, 2, 0], [0, 2, 2, 1], [0, 1, 0, 2]])
src = torch.arange(1.0, 13).reshape(3, 4)

for row in torch.zeros(3, 5).scatter_(0, index, src).tolist():
    print(row)
collision_map(index, 0, (3, 5))

# %% [markdown]
# In the first three. Lanes along dim 0 are columns, so only numbers in the same *column* of `index` can meet: three
# zeros in the first column, two ones in the second, two twos in the third. The fourth is a permutation of 0, 1, 2: all
# its numbers arrive. The last column of the target belongs to no column of `index`. What stands in the outlined cells
# of the target may be different on another machine; everything else may not.

# %% [markdown]
# **Predict.** So say what you want to happen to duplicates. If 1, 2 and 3 are *added* into one cell, what does each get
# as gradient?

# %% facts=["03-scatter-later-overwrites-earlier"]
src = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
index = torch.tensor([[1, 1, 1]])

out = torch.zeros(1, 3).scatter_add(1, index, src)
print(out.tolist())

out.sum().backward()
print("gradient:", src.grad.tolist())

# %% [markdown]
# `scatter_add_` gives 6, with any number of threads: a sum does not ask who came last. (Sums of floats can still differ
# in the last digits; more in the section "On a GPU".) The gradient is the same as above, and this time it is right:
# each number is in the sum once.

# %% [markdown]
# **Predict.** `scatter_reduce_` offers five ways to combine. A 5 stands in the cell; 1 and 3 arrive. What is "the
# mean"?

# %% facts=["03-scatter-later-overwrites-earlier"]
index = torch.tensor([[0, 0]])
src = torch.tensor([[1.0, 3.0]])

for reduce in ("sum", "prod", "mean", "amax", "amin"):
    with_five = torch.full((1, 2), 5.0).scatter_reduce_(1, index, src, reduce)
    without = torch.full((1, 2), 5.0).scatter_reduce_(1, index, src, reduce, include_self=False)
    print(f"{reduce:5} {with_five.tolist()!s:14} include_self=False: {without.tolist()}")

# %% [markdown]
# (5 + 1 + 3) / 3 = 3. What stood in the cell before takes part, unless you say `include_self=False`; then the mean is
# 2. A target of zeros does not help here: a zero counts as one more number in a mean. The second cell has no writer and
# keeps its 5 in both cases.

# %% [markdown]
# **Predict.** Older code writes `scatter_(…, reduce="add")`. The next two calls differ in one thing: `src` is a tensor
# in the first and a number in the second. Which one still works without complaint?

# %% facts=["03-scatter-reduce-tensor-deprecated"] shows_warning="UserWarning" varies="it names a file of PyTorch"
index = torch.tensor([[2], [3]])
src = torch.full((2, 1), 1.5)

warning_of(lambda: torch.full((2, 4), 2.0).scatter_(1, index, src, reduce="add"))

# %% facts=["03-scatter-reduce-scalar", "03-scatter-reduce-tensor-deprecated"]
index = torch.tensor([[2], [3]])
src = torch.full((2, 1), 1.5)

print("number, add:     ", torch.full((2, 4), 2.0).scatter_(1, index, 1.5, reduce="add").tolist())
print("number, multiply:", torch.full((2, 4), 2.0).scatter_(1, index, 1.5, reduce="multiply").tolist())
print("scatter_add_:    ", torch.full((2, 4), 2.0).scatter_add_(1, index, src).tolist())
error_of(lambda: torch.full((2, 4), 2.0).scatter_(1, index, 1.5, reduce="sum"))
error_of(lambda: torch.full((2, 4), 2.0).scatter_reduce_(1, index, src, "add"))

# %% [markdown]
# The number. With a tensor, `reduce=` is deprecated and will be removed: write `scatter_add_` or `scatter_reduce_`. The
# form with a number is not; its two names are "add" and "multiply", while `scatter_reduce_` says "sum" and "prod".
# Neither knows the other's names.

# %% [markdown]
# ### Exercise 3.4 · Ten index puzzles
#
# predict · warm-up · 12 min · 2 points
#
# Who can read these ten calls in their head finds a wrong index in a code review, not in a loss curve. Predict, then
# let the check run the snippets.
#
# Throughout, `t = torch.tensor([[1, 2], [3, 4]])`, `y = torch.arange(12).reshape(3, 4)` and `L = torch.tensor`.
#
# **Contract**
#
# - Replace each `...`: nested lists for tensors, tuples for shapes, True or False for questions.
# - The check compares each item with what its snippet really returns (for `guaranteed` the documentation decides);
#   every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Write the formula for the call first: which of the coordinates i, j is replaced by `index[i][j]`, and is it on the
# reading or on the writing side?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `gather`: out has the shape of index, and `out[i][j] = t[i][index[i][j]]` for dim 1. `scatter_`:
# `self[i][index[i][j]] = src[i][j]`, only over the shape of index. `scatter_reduce_` counts what was there before,
# unless `include_self=False`.
#
# </details>

# %% answer="predict-gather-scatter"
### BEGIN SOLUTION
answers = {
    "gather_dim1": [[1, 1], [4, 3]],  # t.gather(1, L([[0, 0], [1, 0]]))
    "gather_dim0": [[3, 2]],  # t.gather(0, L([[1, 0]]))
    "no_broadcast": (1, 1),  # y.gather(1, L([[1]])).shape
    "index_twice": (4, 4),  # torch.zeros(4, 3)[:, L([0, 1, 2, 0])].shape
    "minus_one": True,  # does y.gather(1, L([[-1]])) raise?
    "corner": 10.0,  # torch.zeros(3, 5).scatter_(0, L([[0, 1, 2, 0]]), torch.arange(1., 11).reshape(2, 5)).sum()
    "scatter_dim1": [[0, 0, 1], [1, 0, 0]],  # torch.zeros(2, 3).scatter_(1, L([[2], [0]]), 1.)
    "add": [[0, 6, 0]],  # torch.zeros(1, 3).scatter_add_(1, L([[1, 1, 1]]), L([[1., 2., 3.]]))
    "guaranteed": False,  # torch.zeros(1, 3).scatter_(1, L([[1, 1, 1]]), L([[1., 2., 3.]])): is [0, 1] 3 for sure?
    "mean_self": [[3, 5, 5]],  # torch.full((1, 3), 5.).scatter_reduce_(1, L([[0, 0]]), L([[1., 3.]]), "mean")
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "gather_dim1": ...,  # t.gather(1, L([[0, 0], [1, 0]]))
#     "gather_dim0": ...,  # t.gather(0, L([[1, 0]]))
#     "no_broadcast": ...,  # y.gather(1, L([[1]])).shape
#     "index_twice": ...,  # torch.zeros(4, 3)[:, L([0, 1, 2, 0])].shape
#     "minus_one": ...,  # does y.gather(1, L([[-1]])) raise?
#     "corner": ...,  # torch.zeros(3, 5).scatter_(0, L([[0, 1, 2, 0]]), torch.arange(1., 11).reshape(2, 5)).sum()
#     "scatter_dim1": ...,  # torch.zeros(2, 3).scatter_(1, L([[2], [0]]), 1.)
#     "add": ...,  # torch.zeros(1, 3).scatter_add_(1, L([[1, 1, 1]]), L([[1., 2., 3.]]))
#     "guaranteed": ...,  # torch.zeros(1, 3).scatter_(1, L([[1, 1, 1]]), L([[1., 2., 3.]])): is [0, 1] 3 for sure?
#     "mean_self": ...,  # torch.full((1, 3), 5.).scatter_reduce_(1, L([[0, 0]]), L([[1., 3.]]), "mean")
# }
### END GIVEN

# %% check="predict-gather-scatter" points=2
"""Ten predictions about gather and scatter, each compared with what its snippet returns."""
with check("predict-gather-scatter") as test:

    def truths():
        """What the snippets return."""
        t, y, L = torch.tensor([[1, 2], [3, 4]]), torch.arange(12).reshape(3, 4), torch.tensor
        ones_and_more = torch.arange(1.0, 11).reshape(2, 5)
        return {
            "gather_dim1": t.gather(1, L([[0, 0], [1, 0]])),
            "gather_dim0": t.gather(0, L([[1, 0]])),
            "no_broadcast": y.gather(1, L([[1]])).shape,
            "index_twice": torch.zeros(4, 3)[:, L([0, 1, 2, 0])].shape,
            "minus_one": does_raise(lambda: y.gather(1, L([[-1]]))),
            "corner": torch.zeros(3, 5).scatter_(0, L([[0, 1, 2, 0]]), ones_and_more).sum(),
            "scatter_dim1": torch.zeros(2, 3).scatter_(1, L([[2], [0]]), 1.0),
            "add": torch.zeros(1, 3).scatter_add_(1, L([[1, 1, 1]]), L([[1.0, 2.0, 3.0]])),
            "guaranteed": "the behavior is non-deterministic" not in " ".join(torch.Tensor.scatter_.__doc__.split()),
            "mean_self": torch.full((1, 3), 5.0).scatter_reduce_(1, L([[0, 0]]), L([[1.0, 3.0]]), "mean"),
        }

    def does_raise(call):
        """Whether a call raises."""
        try:
            call()
        except (RuntimeError, IndexError):
            return True
        return False

    test("every item is compared with what the call really returns")
    true = truths()
    other_dim = "That is the result for the other dim: dim names the coordinate that index replaces."
    one_each = "gather does not broadcast and its output has the shape of index: one index entry, one output."
    because = {
        "gather_dim1": "out[i][j] = t[i][index[i][j]]: each row of index chooses within the same row of t.",
        "gather_dim0": "out[i][j] = t[index[i][j]][j]: each entry of index chooses a row for its own column.",
        "no_broadcast": one_each,
        "index_twice": "A list of columns is taken from every one of the four rows.",
        "minus_one": "The question is answered by True or False.",
        "corner": "Only the corner of src that index covers is written: four numbers here, 1 to 4.",
        "scatter_dim1": "self[i][index[i][j]] = src[i][j]: row i gets its number in column index[i][j].",
        "add": "All three numbers go to column 1 of the only row, and scatter_add_ adds.",
        "guaranteed": "The question is answered by True or False.",
        "mean_self": "Column 0 gets the mean of what was there and what is written; the others keep what was there.",
    }
    mistakes = {
        "gather_dim1": [([[1, 2], [3, 2]], other_dim)],
        "gather_dim0": [([[2, 1]], other_dim), ([[3, 2], [3, 2]], one_each), ([[3, 4], [1, 2]], one_each)],
        "no_broadcast": [((3, 1), one_each), ((3,), one_each)],
        "index_twice": [
            (
                (4,),
                "Indexing the columns with a list of labels gives all of them for every row: "
                "a table, not one value per row.",
            )
        ],
        "minus_one": [(False, "gather and scatter do not take negative indices (ordinary indexing does): it raises.")],
        "corner": [(55.0, "Only the corner of src that index covers is written: four numbers here.")],
        "scatter_dim1": [([[0, 1, 0], [0, 0, 1]], other_dim), ([[0, 0, 0], [0, 0, 0]], "scatter_ writes into self.")],
        "add": [
            (
                [[0, n, 0]],
                "With a repeated index scatter_ keeps one of the values, it does not add them; scatter_add_ adds.",
            )
            for n in (1, 2, 3)
        ],
        "guaranteed": [
            (
                True,
                "Which duplicate wins is documented as undefined: eager CPU usually keeps the last, "
                "compiled or CUDA code need not.",
            )
        ],
        "mean_self": [([[2, 5, 5]], "include_self defaults to True: the 5 that was there is part of the mean.")],
    }
    test.points = observe_value(answers).predicts(
        {item: prediction(true[item], *mistakes[item], because=because[item]) for item in true},
        points=2,
    )
test.points

# %% [markdown]
# ### Exercise 3.5 · Who writes where? Find the race
#
# measure · solid · 12 min · 2 points
#
# Before you trust a `scatter_`, count how many numbers arrive at each cell of its target. If no cell gets more than
# one, the call is well defined; where two arrive, it is a race.
#
# **Contract**
#
# - Entry c of the result is the number of positions of `index` that `torch.empty(shape).scatter_(dim, index, src)`
#   would write to cell c; the result is int64 of shape `shape`.
# - `index` is int64 or int32. It may be smaller than `shape` in the other dimensions (then only that corner is
#   touched) and longer along `dim`. `dim` may be negative; 0-d and empty indices are legal. `index` is not changed.
# - An index value outside 0..shape[dim]-1 raises IndexError, RuntimeError or ValueError.
#
# <details><summary>Hint 1</summary>
#
# If every position of index carried the number 1, what would you like to happen to two ones that arrive at the same
# cell?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# It is a scatter of ones in which duplicates are *added*. The target starts at zero and has the given shape; src must
# be at least as large as index and have the target's dtype.
#
# </details>


# %% answer="count-writers"
def count_writers(index: Tensor, dim: int, shape: tuple[int, ...]) -> Tensor:
    """How many positions of index a scatter_ along dim writes to each cell of a target of the given shape.

    index: integer tensor (int64 or int32); returns int64 of shape `shape`.
    """
    ### BEGIN SOLUTION
    index = index.long()
    return index.new_zeros(shape).scatter_add_(dim, index, torch.ones_like(index))
    ### END SOLUTION


# %% check="count-writers" points=2
"""The count of writers for every cell of the target; int64; illegal indices raise."""
with check("count-writers") as test:
    test("repeated indices, along dim 1")
    index = torch.tensor([[0, 0, 2], [1, 1, 1], [2, 0, 1]])
    seen = observe(count_writers, index, 1, (3, 3)).expecting(
        mistake(
            "Duplicates overwrote each other: you see whether a cell is written, not how often. Let the ones add up.",
            gives=torch.tensor([[1, 0, 1], [0, 1, 0], [1, 1, 1]]),
        ),
        mistake(
            "All lanes were counted together: every 1-d lane along dim is its own little scatter.",
            when=lambda seen: seen.value.flatten().tolist() == [3, 4, 2],
        ),
        mistake(
            "The counts belong to another dim: index replaces coordinate `dim`, the other coordinates stay.",
            gives=torch.tensor([[1, 2, 0], [1, 1, 2], [1, 0, 1]]),
        ),
        mistake(
            "The cells without a writer must be 0.",
            gives=torch.tensor([[3, 1, 2], [1, 4, 1], [2, 2, 2]]),
        ),
        mistake("Counts are int64: {detail}", stage="dtype"),
    )
    seen.returns(torch.tensor([[2, 0, 1], [0, 3, 0], [1, 1, 1]]))
    seen.leaves_arguments_alone()

    test("no index twice in a row: one writer at most")
    seen = observe(count_writers, torch.tensor([[3, 0, 1], [2, 1, 3]]), 1, (2, 4))
    seen.returns(torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1]]))

    test("dim 0: a (1, 4) index touches a corner of a (3, 5) target")
    corner = torch.tensor([[0, 1, 2, 0]])
    expected = torch.tensor([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    observe(count_writers, corner, 0, (3, 5)).returns(
        expected,
        mistake("The result must have the shape of the target, not of index: {detail}", shape=(1, 4)),
    )

    test("values outside the target are refused")
    for value in (3, -1):
        outside = torch.tensor([[0, value]])
        seen = observe(count_writers, outside, 1, (1, 3))
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Value {value} lies outside the target and must raise (negative values too).",
        )

    ### BEGIN HIDDEN TESTS
    def by_hand(index, dim, shape):
        """Counts with a plain loop."""
        count = torch.zeros(shape, dtype=torch.int64)
        for position in torch.cartesian_prod(*(torch.arange(n) for n in index.shape)).reshape(-1, index.dim()):
            cell = position.tolist()
            cell[dim] = int(index[tuple(position.tolist())])
            count[tuple(cell)] += 1
        return count

    def in_all_lanes(index, dim, shape):
        """Counts as if index were repeated over the other dimensions."""
        return by_hand(index.expand([n if d == dim else shape[d] for d, n in enumerate(index.shape)]), dim, shape)

    corner_only = mistake(
        "Index covers only a corner of the target: lanes outside it receive nothing.", gives=in_all_lanes
    )
    small_src = mistake(
        "The src of a scatter must be at least as large as index, which may be longer than the target along dim.",
        raises="no larger size than src",
    )
    g = torch.Generator().manual_seed(3)
    for idea, shape, dim, size in [
        ("a negative dim", (3, 4), -1, (3, 2)),
        ("an index longer than the target along dim", (2, 3), 0, (5, 3)),
        ("three dimensions", (3, 2, 4), 1, (2, 6, 3)),
        ("one lane of many", (4, 3), 1, (1, 5)),
        ("one dimension", (4,), 0, (7,)),
        ("a negative dim that is not the last", (3, 2, 4), -2, (2, 3, 3)),
    ]:
        test.hidden(idea)
        index = torch.randint(shape[dim], size, generator=g)
        observe(count_writers, index, dim, shape).returns(by_hand(index, dim, shape), corner_only, small_src)

    test.hidden("300 writers to one cell")
    observe(count_writers, torch.zeros(300, dtype=torch.int64), 0, (2,)).returns(
        torch.tensor([300, 0]),
        mistake("A small dtype cannot hold a large count: count in int64.", stage="value"),
    )

    test.hidden("an int32 index that is not contiguous")
    index = torch.tensor([[0, 2], [2, 1], [2, 2]], dtype=torch.int32).t()
    observe(count_writers, index, 1, (2, 3)).returns(by_hand(index, 1, (2, 3)))

    test.hidden("an empty index and a 0-d index")
    observe(count_writers, torch.empty(0, 2, dtype=torch.int64), 0, (3, 2)).returns(
        torch.zeros(3, 2, dtype=torch.int64)
    )
    observe(count_writers, torch.tensor(0), 0, ()).returns(torch.tensor(1))
    observe(count_writers, torch.tensor(0), -1, ()).returns(torch.tensor(1))

    test.hidden("what lies outside along dim is refused, whatever the other dimensions allow")
    for value, rows, shape, dim in (
        (3, [[0, 3]], (2, 5), 0),
        (2, [[0, 2]], (2, 5), -2),
        (4, [[0, 4]], (5, 2), 1),
        (-1, [[0, -1]], (5, 2), 0),
        (-1, [[0], [-1]], (2, 5), 1),  # on a flattened target, this would be a cell of the first row
        (5, [[5], [0]], (2, 5), 1),  # and this one of the second
    ):
        seen = observe(count_writers, torch.tensor(rows), dim, shape)
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Value {value} lies outside the target and must raise (negative values too).",
        )

    test.hidden("50 random indices: no cell has two writers exactly if what was scattered can be gathered back")

    def counts_of_all(answer, indices):
        return [answer(index, 1, (2, 6)) for index in indices]

    def comes_back(index):
        """Whether scattered numbers, all different, are found again by the same index."""
        numbers = torch.arange(1, index.numel() + 1).reshape(index.shape)
        return torch.zeros(2, 6, dtype=torch.int64).scatter(1, index, numbers).gather(1, index).equal(numbers)

    indices = [torch.randint(6, (2, 2), generator=g) for _ in range(50)]
    seen = observe_scenario(counts_of_all, count_writers, indices)
    seen.returns([by_hand(index, 1, (2, 6)) for index in indices])
    seen.that(
        [count.max().item() <= 1 for count in seen.value] == [comes_back(index) for index in indices],
        "A scatter is well defined exactly where no count is above 1.",
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 3.6 · The votes that got lost
#
# fix · solid · 10 min · 2 points
#
# Weighted votes into bins: calibration curves, token counts per expert, energy per atom. This version loses votes:
#
#     weighted_histogram(torch.tensor([0, 1, 1]), torch.tensor([1.0, 2.0, 4.0]), 3)
#     # tensor([1., 4., 0.]): where is the 2?
#
# Repair it.
#
# **Contract**
#
# - `out[b]` is the sum of the weights whose bin is b; empty bins are 0. `bins` and `weights` have equal shapes, of
#   any number of dimensions (0-d too); the result has shape (n,).
# - Dtype and device are those of `weights`: float64 stays float64, integers are summed as integers. The result is
#   differentiable with respect to `weights` (each weight gets the gradient of its bin). The arguments are not
#   changed.
# - A bin outside 0..n-1, negative ones too, raises IndexError, RuntimeError or ValueError. No deprecated call.
#
# <details><summary>Hint 1</summary>
#
# `h[bins] += w` reads `h[bins]`, adds, and writes back. What do the two reads for bin 1 see, and which write
# survives?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You need an operation that adds into its target once per entry, duplicates included. There are several (along dim 0
# of a flat target); the target must have the dtype of `weights`.
#
# </details>


# %% answer="weighted-histogram"
def weighted_histogram(bins: Tensor, weights: Tensor, n: int) -> Tensor:
    """The sum of the weights in each of n bins.

    bins: (...) int64; weights: (...); returns (n,) in the dtype of weights.
    """
    ### BEGIN SOLUTION
    return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # h = torch.zeros(n)
    # h[bins] += weights
    # return h
    ### END GIVEN


# %% check="weighted-histogram" points=2
"""Weights of a bin add up; each gets the gradient of its bin; bad bins raise."""
with check("weighted-histogram") as test:
    lost = (
        "Repeated bins lost weights: `h[bins] += w` (and index_put_ without accumulate) reads once and writes back, "
        "so only one of the weights of a bin survives."
    )
    no_gradient = mistake(
        "No gradient reaches the weights: something on the way cuts the graph, or has no derivative.",
        stage="gradient",
        when=lambda seen: seen.gradient(1) is None,
    )

    test("repeated bins add up; an empty bin is 0")
    seen = observe(weighted_histogram, torch.tensor([3, 1, 0, 1]), torch.tensor([8.0, 2, 1, 4]), 5)
    seen.returns(
        torch.tensor([1.0, 6, 0, 8, 0]),
        mistake(lost, gives=torch.tensor([1.0, 4, 0, 8, 0])),
        mistake(lost, gives=torch.tensor([1.0, 2, 0, 8, 0])),
        mistake("Those are counts; the weights are not used.", gives=torch.tensor([1.0, 2, 0, 1, 0])),
        mistake("The weights of a bin are summed, not averaged.", gives=torch.tensor([1.0, 3, 0, 8, 0])),
        mistake(
            "The mean counts the zero that you started from as well, and asked for is the sum.",
            gives=torch.tensor([0.5, 2, 0, 4, 0]),
        ),
        mistake("There must be n bins, empty ones at the end included: {detail}", stage="shape"),
    )
    seen.leaves_arguments_alone()
    deprecated = [
        message
        for category, message in seen.noted.warned
        if category in ("DeprecationWarning", "FutureWarning") or "deprecated" in message
    ]
    seen.that(
        not deprecated,
        f"A deprecated call was used: {deprecated}.",
        mistake(
            "The call scatter_(..., reduce=) with a tensor is deprecated: "
            "use scatter_add_ / scatter_reduce_ / index_add_.",
            when=lambda seen: any("scatter" in message for message in deprecated),
        ),
        stage="rule",
    )

    test("each weight gets the gradient of its bin")
    some_weights = torch.tensor([8.0, 2, 1, 4], requires_grad=True)
    seen = observe(weighted_histogram, torch.tensor([3, 1, 0, 1]), some_weights, 5)
    bin_gradient = incoming_gradient(torch.zeros(5))
    seen.gives_gradients(
        {1: torch.stack([bin_gradient[3], bin_gradient[1], bin_gradient[0], bin_gradient[1]])}, no_gradient
    )

    test("bins n and -1 raise")
    for bad in (5, -1):
        seen = observe(weighted_histogram, torch.tensor([3, bad, 0]), torch.tensor([8.0, 2, 1]), 5)
        wrapped = mistake(
            f"Bin {bad} was accepted: advanced indexing counts negative bins from the end, "
            "the out-of-range weight ends up in a wrong bin.",
            gives=torch.tensor([1.0, 0, 0, 8, 2]),
            when=lambda seen: seen.args[0][1] == -1,
        )
        dropped = mistake(
            "Weights of out-of-range bins were dropped silently; they must raise.",
            gives=torch.tensor([1.0, 0, 0, 8, 0]),
        )
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            mistakes=[wrapped, dropped],
            because=f"Bin {bad} of 5 must raise IndexError, RuntimeError or ValueError.",
        )

    ### BEGIN HIDDEN TESTS
    def reference(bins, weights, n):
        return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())

    flat = mistake(
        "Arguments bins and weights may have more than one dimension, or none: flatten them first.",
        raises="vector|same number of dimensions|1-d",
    )
    g = torch.Generator().manual_seed(6)
    for idea, bins, weights, n in [
        ("two dimensions", torch.tensor([[0, 2, 2], [1, 0, 2]]), torch.randn(2, 3, generator=g), 4),
        ("a single vote", torch.tensor(2), torch.tensor(0.5), 3),
        ("no votes", torch.empty(0, dtype=torch.int64), torch.empty(0), 3),
        ("one bin", torch.tensor([0, 0, 0]), torch.tensor([0.5, 0.25, 2.0]), 1),
        ("not contiguous", torch.tensor([[0, 2, 2], [1, 0, 2]]).t(), torch.randn(2, 3, generator=g).t(), 4),
        ("weights not contiguous", torch.tensor([[0, 2], [2, 1], [0, 1]]), torch.randn(2, 3, generator=g).t(), 3),
        ("many more bins than votes", torch.tensor([7, 2, 7]), torch.randn(3, generator=g), 100),
    ]:
        test.hidden(idea)
        observe(weighted_histogram, bins, weights, n).returns(reference, flat)

    test.hidden("float64, float16 and integer weights keep their dtype")
    wants_dtype = "The result must have the dtype of weights: {detail}"
    for dtype in (torch.float64, torch.float16, torch.int64, torch.int32):
        some_weights = torch.tensor([2, 1, 4, 9]).to(dtype) / (8 if dtype.is_floating_point else 1)
        observe(weighted_histogram, torch.tensor([1, 1, 0, 1]), some_weights.to(dtype), 3).returns(
            reference,
            mistake(wants_dtype, stage="dtype"),
            mistake(wants_dtype, raises="dtype|scalar type|can't be cast"),
        )

    test.hidden("integers are summed as integers, large ones too; float64 keeps its precision")
    for some_weights in (torch.tensor([2**24, 1, 2, 2**53 + 1]), torch.tensor([1.0, 1e-9, 0.5, 3.0]).double()):
        observe(weighted_histogram, torch.tensor([1, 1, 1, 0]), some_weights, 2).returns(
            reference,
            mistake("The sums went through a dtype of lower precision than that of weights.", stage="value"),
            rtol=1e-14 if some_weights.is_floating_point() else 0,
            atol=0,
        )

    test.hidden("the gradient for 20 votes in 4 bins, in two dimensions")
    some_weights = torch.randn(5, 4, generator=g, dtype=torch.float64).requires_grad_()
    some_bins = torch.randint(4, (5, 4), generator=g)
    seen = observe(weighted_histogram, some_bins, some_weights, 4)
    seen.returns(reference)
    seen.gives_gradients(reference, no_gradient)
    seen.leaves_arguments_alone()

    test.hidden("weights on another device: the sums are there too")
    seen = observe(
        weighted_histogram, torch.zeros(3, dtype=torch.int64, device="meta"), torch.empty(3, device="meta"), 4
    )
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(4, device="meta"),
            mistake("The result must be on the device of weights: {detail}", stage=("raised", "device")),
        )  # (an answer that reads values raises something else: meta has none, and it is not judged here)

    test.hidden("bad bins raise among many dimensions, too")
    for bad in (4, -4, 6):
        some_bins = torch.tensor([[0, 1], [bad, 3]])
        seen = observe(weighted_histogram, some_bins, torch.ones(2, 2), 4)
        seen.raises(IndexError, RuntimeError, ValueError, because=f"Bin {bad} of 4 must raise.")
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 3.7 · Mean per group
#
# implement · solid · 15 min · 3 points
#
# Pooling the atoms of each molecule, the tokens of each document, the clicks of each user: rows that belong together
# are averaged, in one go, with gradients. Graph networks hardly do anything else.
#
# **Contract**
#
# - `out[s]` is the mean of the rows of `values` whose segment is s. A segment without rows gives 0, without nan in
#   value or gradient. Segments need not be sorted. A nan in a row makes the mean of its own segment nan, and of no
#   other.
# - `values` is (N, ...) with any trailing shape, none included; the result is (num_segments, ...) with the dtype and
#   on the device of `values`. The gradient of a row is its segment's gradient divided by the segment's size. The
#   arguments are not changed.
# - A segment number outside 0..num_segments-1 raises IndexError, RuntimeError or ValueError.
#
# **Rule.** No Python loop over rows or segments: the number of operations does not grow with either (it is recorded
# for 5 segments and for 50).
#
# <details><summary>Hint 1</summary>
#
# If every row is added to the row of its segment, what else must be known to turn the sums into means, and what
# happens where it is 0?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two additions by index: one of the rows, one of ones (the sizes); then divide by sizes that are at least 1. With
# `scatter_reduce('mean')` instead, look at `include_self`, and remember that index needs the full shape of values.
#
# </details>


# %% answer="segment-mean"
def segment_mean(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """The mean of the rows of each segment; zeros for a segment without rows.

    values: (N, ...) floating point; segment: (N,) int64; returns (num_segments, ...) in the dtype of values.
    """
    ### BEGIN SOLUTION
    trailing = values.shape[1:]
    sums = values.new_zeros(num_segments, *trailing).index_add(0, segment, values)
    sizes = torch.zeros(num_segments, dtype=torch.int64, device=values.device)
    sizes = sizes.index_add(0, segment, torch.ones_like(segment)).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * len(trailing))
    ### END SOLUTION


# %% check="segment-mean" points=3
"""Means per segment, zeros for empty ones; nan stays in its segment; no loop."""
with check("segment-mean") as test:
    test("six rows, three unsorted segments of different sizes")
    rows = torch.tensor(
        [[1.0, -2, 9], [4, 6, 1], [7, 3, 5], [8, -1, 2], [3, 10, -4], [2, 4, 7]],
    )
    unsorted = torch.tensor([2, 0, 1, 0, 2, 2])
    means = torch.tensor([[6.0, 2.5, 1.5], [7, 3, 5], [2, 4, 4]])
    sizes = torch.tensor([[2.0], [1.0], [3.0]])
    loose_rows = "A scatter without a reduction keeps one row per segment."
    seen = observe(segment_mean, rows, unsorted, 3)
    seen.returns(
        means,
        mistake(
            "The zeros you started from were averaged in: scatter_reduce counts the target's old value "
            "unless include_self=False.",
            gives=means * sizes / (sizes + 1),
        ),
        mistake("Those are sums: divide by the number of rows in the segment.", gives=means * sizes),
        mistake("You divided by the number of all rows, not by each segment's own.", gives=means * sizes / 6),
        mistake("You divided by the number of segments, not by each segment's size.", gives=means * sizes / 3),
        mistake(loose_rows, gives=torch.stack([rows[3], rows[2], rows[5]])),
        mistake(loose_rows, gives=torch.stack([rows[3], rows[2], rows[5]]) / sizes),
        mistake(loose_rows, gives=torch.stack([rows[1], rows[2], rows[0]])),
        mistake(
            "You assumed sorted segments: the same number may come back later, and only its last run was counted.",
            gives=torch.stack([rows[3], rows[2], rows[4:].mean(0)]),
        ),
        mistake(
            "You assumed sorted segments: every run of equal numbers became a segment of its own.",
            gives=torch.stack([rows[0], rows[1], rows[2], rows[3], rows[4:].mean(0)]),
        ),
        mistake(
            "Only the first column was reduced: scatter does not broadcast an (N, 1) index over the columns, it uses "
            "the corner. Expand the index to the shape of values.",
            when=lambda seen: seen.value[:, 0].ne(0).all() and seen.value[:, 1:].eq(0).all(),
        ),
        mistake(
            "Only the first column was reduced: scatter does not broadcast an (N, 1) index over the columns, it uses "
            "the corner. Expand the index to the shape of values.",
            shape=(3, 1),
        ),
        mistake(
            "A scatter needs an index with as many dimensions as values: expand segment to the shape of values.",
            raises="same number of dimensions",
        ),
    )
    seen.leaves_arguments_alone()

    test("segments without rows give 0")
    gaps = torch.tensor([3, 1, 1, 3, 3, 1])
    seen = observe(segment_mean, rows, gaps, 6)
    seen.returns(
        torch.stack(
            [torch.zeros(3), rows[[1, 2, 5]].mean(0), torch.zeros(3), rows[[0, 3, 4]].mean(0), *torch.zeros(2, 3)]
        ),
        mistake(
            "A segment without rows gives 0 / 0: {detail}. Divide by sizes of at least 1.",
            when=lambda seen: not seen.value.isfinite().all(),
        ),
        mistake("Segments without rows must be there too (as zeros): {detail}", stage="shape"),
    )

    test("the gradient of a row is its segment's gradient divided by the size")
    seen = observe(segment_mean, rows.clone().requires_grad_(), gaps, 6)
    upstream = incoming_gradient(torch.zeros(6, 3))
    seen.gives_gradients(
        {0: torch.stack([upstream[s] / 3 for s in gaps.tolist()])},
        mistake(
            "A segment without rows put nan into the gradient: divide by sizes of at least 1.",
            when=lambda seen: seen.gradient(0).isnan().any(),
        ),
        mistake(
            "No gradient reaches the values: something on the way cuts the graph, or has no derivative.",
            when=lambda seen: seen.gradient(0) is None,
        ),
    )

    ### BEGIN HIDDEN TESTS
    def reference(values, segment, num_segments):
        """Means by a loop over the segments."""
        rows_of = [values[segment == s] for s in range(num_segments)]
        return torch.stack([rows.mean(0) if len(rows) else values.new_zeros(values.shape[1:]) for rows in rows_of])

    def slightly_less(seen):
        """Whether all means are a little too near to zero."""
        true = reference(*seen.args)
        return torch.allclose(seen.value, true, rtol=1e-3) and bool((seen.value.abs() <= true.abs()).all())

    g = torch.Generator().manual_seed(7)
    more = torch.rand(6, 2, 3, generator=g) + 0.5
    for idea, some_values, some_segments, count in [
        ("values (N,)", torch.rand(6, generator=g) + 1, [2, 0, 1, 0, 2, 2], 4),
        ("values (N, 2, 3)", more, [2, 0, 1, 0, 2, 2], 4),
        ("values that are not contiguous", more.permute(2, 1, 0), [3, 0, 3], 5),
        ("one segment only", more, [2] * 6, 4),
        ("a single segment", more, [0] * 6, 1),
        ("every row its own segment", more, [5, 1, 4, 0, 3, 2], 6),
        ("a segment that comes back after another one", more, [1, 1, 0, 0, 1, 1], 2),
    ]:
        test.hidden(idea)
        seen = observe(segment_mean, some_values, torch.tensor(some_segments), count)
        seen.returns(reference)
        seen.leaves_arguments_alone()

    test.hidden("no rows at all")
    seen = observe(segment_mean, torch.empty(0, 3), torch.empty(0, dtype=torch.int64), 2)
    seen.returns(torch.zeros(2, 3))

    test.hidden("float64 to its full precision, float16 and bfloat16 kept")
    for dtype, rtol in ((torch.float64, 1e-13), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
        some_values = (torch.rand(7, 3, generator=g, dtype=torch.float64) + 0.5).to(dtype)
        seen = observe(segment_mean, some_values, torch.tensor([2, 0, 1, 0, 2, 2, 4]), 5)
        seen.returns(
            reference,
            mistake("The result must have the dtype of values: {detail}", stage="dtype"),
            mistake("The result must have the dtype of values: {detail}", raises="dtype|scalar type"),
            mistake(
                "Adding a small number to the sizes makes every mean slightly wrong: clamp the sizes instead.",
                when=slightly_less,
            ),
            mistake(
                "This is float32 precision in a float64 tensor: compute in the dtype of values.",
                when=lambda seen: seen.looks_like(reference) and seen.value.dtype == torch.float64,
            ),
            rtol=rtol,
            atol=0,
        )

    test.hidden("a nan row makes its own segment nan, and only that; so does inf")
    for bad in (torch.nan, torch.inf):
        some_values = torch.rand(5, 2, generator=g) + 0.5
        some_values[1] = bad
        seen = observe(segment_mean, some_values, torch.tensor([0, 2, 3, 2, 0]), 5)
        seen.returns(
            reference,
            mistake(
                "A nan that was in the data has disappeared: repair the empty segments, not every nan.",
                when=lambda seen: seen.value.isfinite().all(),
            ),
            mistake(
                "A nan in one segment spoiled the others: 0 * nan is nan, so a product with a 0/1 membership matrix "
                "does not keep segments apart.",
                when=lambda seen: seen.value[0].isnan().all() and seen.value[3].isnan().all(),
            ),
            mistake(
                "A nan or inf in one segment spoiled another: it stays in a running sum, and a difference of two "
                "sums does not take it out again.",
                when=lambda seen: seen.value[3].isnan().all(),
            ),
        )

    test.hidden("segments that do not exist are refused")
    wrong_kind = mistake(
        "A segment that does not exist raised another kind of exception: raise IndexError, RuntimeError or ValueError.",
        raises=".",
    )
    for number in (-1, 4, -4, 7):
        seen = observe(segment_mean, more, torch.tensor([0, 1, number, 1, 3, 0]), 4)
        seen.raises(
            IndexError, RuntimeError, ValueError, because=f"Segment {number} must raise.", mistakes=[wrong_kind]
        )

    test.hidden("the gradient for more dimensions")
    some_segments = torch.tensor([4, 0, 1, 0, 4, 4])
    seen = observe(segment_mean, more.clone().requires_grad_(), some_segments, 6)
    seen.gives_gradients(reference)

    test.hidden("the gradient where the rows of a segment sum to 0")
    cancelling = torch.cat([more[:3], -more[1:2], more[4:]]).requires_grad_()
    seen = observe(segment_mean, cancelling, some_segments, 6)
    seen.returns(reference)
    seen.gives_gradients(
        reference, because="A segment whose rows sum to 0 is not an empty one: ask for its size, not for its sum."
    )

    test.hidden("values on another device: the means are there too")
    seen = observe(segment_mean, torch.empty(3, 2, device="meta"), torch.zeros(3, dtype=torch.int64, device="meta"), 4)
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(4, 2, device="meta"),
            mistake("The result must be on the device of values: {detail}", stage=("raised", "device")),
        )  # (an answer that reads values raises something else: meta has none, and it is not judged here)

    test.hidden("as many operations for 50 segments and 200 rows as for 5 and 20")
    calls = {}
    for count in (5, 50):
        some_segments = torch.randint(count, (4 * count,), generator=g)
        seen = observe(segment_mean, torch.rand(4 * count, 3, generator=g), some_segments, count)
        seen.returns(reference)
        calls[count] = len(seen.op_names())
    seen.that(
        calls[50] == calls[5],
        f"The number of operations grows with the number of segments: {calls[5]} for 5, {calls[50]} for 50. "
        "One indexed addition handles all of them.",
        stage="rule",
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 3.5 A pair of mirrors, with a blind spot
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
# `order[r]` is the place that the number of rank r came from. Reading with it sorts: rank r gets `x[order[r]]`. So
# writing with it undoes the sorting: the number of rank r goes to `order[r]`. Gathering a second time applies the
# permutation twice. Beware of tests with two elements, or with just two of them swapped: there, twice is the same as
# back.

# %% [markdown]
# **Predict.** `scatter_` into zeros undid the gather. Does it always?

# %% facts=["03-scatter-is-inverse-of-gather"]
x = torch.tensor([10, 20, 30])

for index in (torch.tensor([2, 0, 1]), torch.tensor([0, 1, 1])):
    there = x.gather(0, index)
    back = torch.zeros_like(x).scatter_(0, index, there)
    print("index", index.tolist(), "there", there.tolist(), "and back", back.tolist())

# %% [markdown]
# Only when `index` is a permutation along `dim`: then each element is read once, and each cell has one writer. With
# `[0, 1, 1]` nobody reads the 30, and it is lost. (Two writers meet in cell 1, but both bring the same 20.)

# %% [markdown]
# **Predict.** What always holds is a different tie between the two. Which gradient does each of the three numbers in
# `x` get from `x.gather(0, torch.tensor([1, 1, 2])).sum()`? (The cell uses `torch.autograd.grad(output, input)`: it
# returns the gradient that `backward` would add to `.grad`. Its third argument is the gradient that comes in for
# `output`, from whatever is computed with it later.)

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
# An element that was read twice gets both gradients, added; one that was never read gets 0. That is `scatter_add` with
# the same index: the gradient of gather is scatter_add.

# %% [markdown]
# **Predict.** And the other way round: three numbers are scattered into four cells, and 1, 10, 100, 1000 come back as
# the gradients of the cells. What do `src` and the overwritten `base` get?

# %% facts=["03-scatter-writes-gather-reads"]
base = torch.zeros(4, requires_grad=True)
src = torch.tensor([5.0, 6.0, 7.0], requires_grad=True)
index = torch.tensor([3, 0, 2])

incoming = torch.tensor([1.0, 10.0, 100.0, 1000.0])
src_grad, base_grad = torch.autograd.grad(base.scatter(0, index, src), (src, base), incoming)
print("src: ", src_grad.tolist(), "gather of the same:", incoming.gather(0, index).tolist())
print("base:", base_grad.tolist())

# %% [markdown]
# Each number gets the gradient of the cell that it was written to: the gradient of scatter is gather. `base` keeps the
# gradient only where it was not overwritten. Now you can see the blind spot of section 3.4: with three writers in one
# cell, gather hands the gradient of that cell to all three, because `index` does not say whose number stayed.

# %% [markdown]
# **Predict.** The pair meets in classification: gather picks the score of the true class, scatter marks the true class.
# Which shape and dtype does `F.one_hot(labels, 3)` have for four labels, and what happens if `unsqueeze(1)` is
# forgotten in the version with scatter?

# %% facts=["03-scatter-one-hot"]
labels = torch.tensor([2, 0, 1, 1])

marked = torch.zeros(4, 3).scatter_(1, labels.unsqueeze(1), 1.0)
ready = F.one_hot(labels, 3)
print(marked.tolist(), marked.dtype)
print(ready.tolist(), ready.dtype)
error_of(lambda: torch.zeros(4, 3).scatter_(1, labels, 1.0))

# %% [markdown]
# The same rows, but `F.one_hot` returns int64, which has to be converted before it meets floats in a matrix product or
# a loss. The version with scatter has the dtype of its target, and any number in place of 1.

# %% [markdown]
# **Predict.** `scores` has shape (4, 3). Is `scores[:, labels]` another way to pick the label's score in each row?

# %% facts=["03-scatter-writes-gather-reads"]
scores = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])
labels = torch.tensor([2, 0, 1, 1])

print("scores[:, labels]:", tuple(scores[:, labels].shape))
print(scores[:, labels])
print("gather:", scores.gather(1, labels.unsqueeze(1)).squeeze(1))

marked = torch.zeros(4, 3).scatter_(1, labels.unsqueeze(1), 1.0)
print("marked:", (scores * marked).sum(1))

# %% [markdown]
# No: it is a table that pairs every row with every label; what you want is its diagonal. It raises no error, and a mean
# over it looks like a loss. gather picks the four numbers, and a product with the marks finds the same four.

# %% [markdown]
# "Sort, decide, put back" is where people reach for the wrong mirror. Language models sample from the *nucleus*: the
# most probable tokens that together have at least probability p. Who belongs to it is decided by rank, but the mask is
# needed in the order of the tokens.

# %% [markdown]
# **Predict.** Five tokens have the probabilities 0.10, 0.40, 0.05, 0.25 and 0.20; p is 0.8. Which are kept?

# %%
sort_decide_put_back([0.10, 0.40, 0.05, 0.25, 0.20], p=0.8)

# %% [markdown]
# Tokens 1, 3 and 4. Follow token 1 down: it has rank 0, is kept, and the arrow takes the decision back to column 1. The
# arrows of the lower half are those of the upper half turned round, so a tensor that says "where from" when reading
# says "where to" when writing. Notice token 4: the tokens before it have 0.65, less than 0.8, so it is kept, and it is
# the one that carries the sum across p.

# %% [markdown]
# ### Exercise 3.8 · Top-p: sort, decide, put back
#
# implement · long · 20 min · 4 points
#
# Every language model that samples with top-p (nucleus sampling) has these lines: sort the tokens, decide by rank,
# and bring the decision back to the tokens. The last step is where they go wrong.
#
# **Contract**
#
# - Tokens of each row are ranked by probability (softmax over the last dimension), highest first, equal ones in the
#   order of their position. A token is kept exactly if the probabilities of the tokens ranked *before* it sum to less
#   than p. So the smallest leading set with a total of at least p is kept, and always at least one token.
# - `logits` is (..., V) and may contain -inf; the mask has the same shape, in the order of the *tokens* (`mask[...,
#   v]` belongs to `logits[..., v]`). It is bool, on the device of `logits`, without a graph. `logits` is not changed.
# - A p outside (0, 1] raises ValueError.
#
# <details><summary>Hint 1</summary>
#
# After sorting you know which *ranks* are kept. Which tensor knows which token had which rank, and is putting the
# ranks back a reading or a writing job?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# sort returns (values, order): token `order[r]` has rank r. Write the decision for rank r to position `order[r]`;
# that is the inverse permutation. For the decision itself use the cumulative sum *without* the token's own
# probability. (`sort` takes `stable=True` only together with `dim=` as a keyword.)
#
# </details>


# %% answer="nucleus-mask"
def nucleus_mask(logits: Tensor, p: float) -> Tensor:
    """Which tokens belong to the smallest set of most probable tokens whose total probability reaches p.

    logits: (..., V) floating point; returns bool of the same shape. Raises ValueError for p outside (0, 1].
    """
    ### BEGIN SOLUTION
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    before = probs.cumsum(-1) - probs
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, before < p)
    ### END SOLUTION


# %% check="nucleus-mask" points=4
"""A token is kept if those ranked before it sum to less than p; ties go by position."""
with check("nucleus-mask") as test:
    six_probs = torch.tensor([0.1, 0.35, 0.05, 0.3, 0.15, 0.05])
    six_logits = six_probs.log() + 1.5
    not_bool = mistake("The mask must be bool: {detail}", stage="dtype")

    test("probabilities .1 .35 .05 .3 .15 .05 and p = 0.6: .35 and .3 are kept")
    seen = observe(nucleus_mask, six_logits, 0.6)
    seen.returns(
        torch.tensor([False, True, False, True, False, False]),
        not_bool,
        mistake(
            "The mask is still in sorted order: it must be brought back to the order of the tokens.",
            gives=torch.tensor([1, 1, 0, 0, 0, 0]),
        ),
        mistake(
            "You read with the sort order (gather) where you had to write with it (scatter): that applies the "
            "permutation again in place of undoing it.",
            gives=torch.tensor([1, 0, 0, 1, 0, 0]),
        ),
        mistake(
            "The token that carries the sum across p is missing (where the best token alone exceeds p, nothing would "
            "be left): decide by the sum *before* it.",
            gives=torch.tensor([0, 1, 0, 0, 0, 0]),
        ),
        mistake(
            "One token too many: a token whose predecessors already reach p is dropped.",
            gives=torch.tensor([0, 1, 0, 1, 1, 0]),
        ),
        mistake(
            "You summed from the least probable token up.",
            gives=torch.tensor([1, 0, 1, 1, 1, 1]),
        ),
        mistake(
            "Those are the tokens to drop: the most probable ones are kept.",
            gives=torch.tensor([1, 0, 1, 0, 1, 1]),
        ),
        mistake(
            "The sums run over raw logits: turn them into probabilities first.",
            gives=torch.tensor([1, 1, 1, 1, 0, 1]),
        ),
        mistake(
            "The sums run over raw logits: turn them into probabilities first.",
            gives=torch.tensor([1, 1, 1, 0, 1, 1]),
        ),
        mistake(
            "Here p is a probability mass, not a share of the vocabulary.",
            gives=torch.tensor([1, 1, 0, 1, 1, 0]),
        ),
        mistake(
            "Asked for is a mask with one entry per token, not the list of kept tokens: {detail}",
            shape=(2,),
        ),
        mistake(
            "With sort, stable is accepted only when dim is given as a keyword: sort(dim=-1, stable=True, ...).",
            raises=r"sort\(\) takes from 1 to 0",
        ),
    )
    seen.leaves_arguments_alone()

    test("p = 0.7 keeps .15 too, p = 0.3 keeps .35 only")
    seen = observe(nucleus_mask, six_logits, 0.7)
    seen.returns(torch.tensor([False, True, False, True, True, False]))
    seen = observe(nucleus_mask, six_logits, 0.3)
    seen.returns(torch.tensor([False, True, False, False, False, False]))

    test("two rows with different winners")
    two_rows = torch.stack([six_logits, torch.tensor([0.5, 0.05, 0.25, 0.1, 0.05, 0.05]).log() - 0.5])
    each_row = "Each row is its own distribution: softmax, sort and cumsum run over the last dimension."
    seen = observe(nucleus_mask, two_rows, 0.6)
    seen.returns(
        torch.tensor([[False, True, False, True, False, False], [True, False, True, False, False, False]]),
        mistake(each_row, gives=torch.ones(2, 6)),
        mistake(each_row, gives=torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0]])),
        mistake(each_row, gives=torch.tensor([[0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]])),
    )

    test("the best token alone exceeds p: it is kept")
    seen = observe(nucleus_mask, torch.tensor([0.06, 0.9, 0.04]).log(), 0.5)
    seen.returns(torch.tensor([False, True, False]))

    ### BEGIN HIDDEN TESTS
    def reference(logits, p):
        probs, order = logits.detach().double().softmax(-1).sort(dim=-1, descending=True, stable=True)
        return torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, probs.cumsum(-1) - probs < p)

    test.hidden("a sort order that is not its own inverse, and 50 random rows")
    seen = observe(nucleus_mask, torch.tensor([0.2, 0.5, 0.3]).log(), 0.6)
    seen.returns(torch.tensor([False, True, True]))
    g = torch.Generator().manual_seed(8)
    fifty_rows = torch.randn(50, 9, generator=g) * 2
    seen = observe(nucleus_mask, fifty_rows, 0.8)
    seen.returns(reference)

    test.hidden("equal probabilities are ranked by position")
    by_position = mistake(
        "Equal probabilities: they are ranked by position; a threshold on the probability keeps all or none of them, "
        "an unstable sort any.",
        stage="value",
    )
    exactly_p = mistake(
        "A token whose predecessors sum to exactly p is dropped: it is kept for less than p only.",
        when=lambda seen: seen.value.sum() == 3 and seen.args[1] == 0.5,
    )
    for p, kept in ((0.45, 2), (0.5, 2), (0.55, 3)):
        seen = observe(nucleus_mask, torch.full((4,), -0.7), p)
        seen.returns(torch.arange(4) < kept, exactly_p, by_position)
    seen = observe(nucleus_mask, torch.full((2, 64), 1.3), 0.5)
    seen.returns((torch.arange(64) < 32).expand(2, 64), by_position)
    two_levels = torch.tensor([0.125, 0.25, 0.125, 0.25, 0.125, 0.125]).log()
    seen = observe(nucleus_mask, two_levels, 0.6)
    seen.returns(torch.tensor([True, True, False, True, False, False]), by_position)

    test.hidden("tokens of logit -inf")
    masked = torch.tensor([[1.0, -torch.inf, 2.0, 0.0, -torch.inf], [-torch.inf, 3.0, -torch.inf, -torch.inf, 0.0]])
    for p in (0.3, 0.9, 0.97):
        observe(nucleus_mask, masked, p).returns(reference)

    test.hidden("p = 1 keeps all, a tiny p keeps the best token")
    observe(nucleus_mask, two_rows[:, :4], 1.0).returns(torch.ones(2, 4, dtype=torch.bool))
    observe(nucleus_mask, two_rows[:, :4], 1).returns(torch.ones(2, 4, dtype=torch.bool))
    observe(nucleus_mask, two_rows, 1e-6).returns(reference)

    for idea, some_logits in [
        ("a vocabulary of one token", torch.randn(3, 1, generator=g)),
        ("three dimensions", torch.randn(2, 3, 5, generator=g) * 2),
        ("as many rows as tokens", torch.randn(5, 5, generator=g) * 2),
        ("an empty batch", torch.empty(0, 5)),
        ("logits that are not contiguous", (torch.randn(6, 4, generator=g) * 2).t()),
        ("float64", torch.randn(4, 6, generator=g, dtype=torch.float64) * 2),
    ]:
        test.hidden(idea)
        seen = observe(nucleus_mask, some_logits, 0.75)
        seen.returns(
            reference,
            mistake(each_row, gives=lambda logits, p: reference(logits.transpose(0, -1), p).transpose(0, -1)),
        )
        seen.leaves_arguments_alone()

    test.hidden("bfloat16 and float16")
    for dtype in (torch.bfloat16, torch.float16):
        observe(nucleus_mask, torch.tensor([[3.0, 1, 0, -1, 2], [0, 2, 5, 4, 1]], dtype=dtype), 0.8).returns(reference)

    test.hidden("logits that require grad: the mask carries no graph")
    graph = mistake("The mask must not carry a graph.", when=lambda seen: seen.noted.tracked)
    seen = observe(nucleus_mask, two_rows.clone().requires_grad_(), 0.6).expecting(graph)
    seen.returns(reference)
    seen.is_untracked()
    seen.leaves_arguments_alone()

    test.hidden("a p outside (0, 1] is refused")
    for p in (0.0, -0.1, 1.5, 0):
        observe(nucleus_mask, six_logits, p).raises(ValueError, because=f"p = {p} must raise ValueError.")

    test.hidden("logits on another device: the mask is there too")
    seen = observe(nucleus_mask, torch.empty(2, 5, device="meta"), 0.5)
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(2, 5, dtype=torch.bool, device="meta"),
            mistake("The mask must be on the device of logits: {detail}", stage=("raised", "device")),
        )  # (an answer that reads values raises something else: meta has none, and it is not judged here)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 3.6 Where you meet it
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
# Row 1 was looked up twice and gets the sum of both. Looking up is reading by index, so its gradient is adding by
# index. `index_add` is the relative of `scatter_add` for whole rows: its index has one dimension, one number for each
# row of the source. With `scatter_add` the same needs an index of the full shape (3, 2), because nothing is broadcast.

# %% [markdown]
# **Predict.** The score of the label, for each row, can be written in at least four ways. All four agree on good data.
# What does each do with a label of -1, and with a class that has been masked with -inf?


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
    print(f"{pick.__name__:18}{pick(scores, good).tolist()}  class masked: {pick(masked, good).tolist()}")

print("with a label of -1:")
for pick in ways[1:]:
    print(f"{pick.__name__:18}{pick(scores, bad).tolist()}")
error_of(lambda: by_gather(scores, bad))

# %% [markdown]
# Only gather refuses -1. Indexing and take_along_dim silently take the last class; the masked sum finds no class at all
# and says 0. With a masked class the sum breaks even for a good label: 0 · -inf is nan, and one nan spoils the row.
# Select; don't multiply by a mask.

# %% [markdown]
# **Predict.** And memory? For 4 rows of 1000 scores, what does each way keep until its backward pass?

# %% facts=["03-scatter-writes-gather-reads"]
scores = torch.zeros(4, 1000, requires_grad=True)
labels = torch.tensor([7, 7, 3, 0])


def kept_by(pick) -> list[str]:
    """What pick(scores, labels) keeps for its backward pass."""
    kept = []

    def note(saved: Tensor) -> Tensor:
        itself = saved.data_ptr() == scores.data_ptr()
        kept.append("scores itself" if itself else f"{tuple(saved.shape)} of {saved.dtype}")
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        pick(scores, labels)
    return kept


for pick in (by_gather, by_indexing, by_take_along_dim, by_masked_sum):
    print(f"{pick.__name__:18}{', '.join(kept_by(pick))}")

# %% [markdown]
# The first three keep the index: 8 bytes for a row (indexing keeps the row numbers as well). The masked sum keeps the
# mask, one byte for each score, and on the way it makes a product of the full shape. With 50,000 classes that is the
# difference between 8 bytes and 50 kilobytes a row. One surprise: on torch 2.13 gather also holds on to its input,
# though its backward pass needs only the shape. That costs nothing while `scores` is needed anyway; a large temporary
# stays alive until backward, which with indexing it does not.

# %% [markdown]
# **Predict.** The gradient of `table` below has a million numbers. How many of them are not 0, and must the others be
# stored?

# %% facts=["03-gather-signature"]
table = torch.zeros(1000, 1000, requires_grad=True)
index = torch.tensor([[7], [7], [3]])

for sparse_grad in (False, True):
    (grad,) = torch.autograd.grad(table.gather(1, index, sparse_grad=sparse_grad).sum(), table)
    stored = grad.coalesce().values().numel() if grad.is_sparse else grad.numel()
    print(f"sparse_grad={sparse_grad}: {grad.layout}, {stored} numbers stored")

# %% [markdown]
# Three. A gradient has the shape of its tensor, zeros included; with `sparse_grad=True` only the places that were read
# are stored, with their positions. That pays for a few entries out of a very large table, and asks for an optimizer
# that takes sparse gradients, such as `torch.optim.SparseAdam`. `nn.Embedding` has the same switch: `sparse=True`.

# %% [markdown]
# ## On a GPU
#
# What section 3.4 could only quote can be seen on a GPU. Without a CUDA device the next cells print one line, and the
# output that was recorded on another machine where there is one.
#
# **Predict.** A million numbers are written to four cells, twenty times over. How many different results do you expect,
# on the CPU and on the GPU, from `scatter_`, from `scatter_add_` with floats and from `scatter_add_` with whole
# numbers?


# %% facts=["03-scatter-later-overwrites-earlier"] varies="a CUDA device changes what is shown"
@cuda_demo("03_gather_scatter")
def twenty_races() -> None:
    """Count the different results of the same call."""
    n = 1_000_000
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(4, (n,), generator=generator)
    whole, real = torch.arange(n), torch.rand(n, generator=generator)
    for device in ("cpu", "cuda"):
        for method, numbers in (("scatter_", whole), ("scatter_add_", real), ("scatter_add_", whole)):
            where, src = index.to(device), numbers.to(device)
            results = set()
            for _ in range(20):
                target = torch.zeros(4, dtype=src.dtype, device=device)
                results.add(tuple(getattr(target, method)(0, where, src).tolist()))
            print(f"{device:4}  {method:12}  {src.dtype!s:13}  different results: {len(results)}")


twenty_races()

# %% [markdown]
# On a GPU thousands of threads write at the same time, and nothing says in which order they arrive. For `scatter_` the
# order decides which number stays. For a sum of floats it decides how the sum is rounded, since (a + b) + c and a + (b
# + c) may differ in the last digit. A sum of whole numbers doesn't depend on the order at all.

# %% [markdown]
# **Predict.** `torch.use_deterministic_algorithms(True)` asks for the same result each time. Which of these calls
# become slower, and which are refused?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("03_gather_scatter")
def deterministic_mode() -> None:
    """Time a few calls in both modes; or say that they are refused."""
    n = 1_000_000
    index = torch.randint(1000, (n,), device="cuda")
    values = torch.rand(n, device="cuda")
    target = torch.zeros(1000, device="cuda")
    x = torch.rand(1000, device="cuda", requires_grad=True)
    calls = {
        "scatter": lambda: target.scatter(0, index, values),
        "scatter_add": lambda: target.scatter_add(0, index, values),
        "scatter_reduce, mean": lambda: target.scatter_reduce(0, index, values, "mean"),
        "scatter_reduce, prod": lambda: target.scatter_reduce(0, index, values, "prod"),
        "index_add": lambda: target.index_add(0, index, values),
        "gather and backward": lambda: torch.autograd.grad(x.gather(0, index).sum(), x),
        "cumsum": lambda: values.cumsum(0),
    }

    def verdict(call) -> str:
        try:
            call()
        except RuntimeError:
            return "refused"
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            call()
        end.record()
        end.synchronize()
        return f"{start.elapsed_time(end) / 10:.3f} ms"

    print(f"{'':22}{'as usual':>12}{'deterministic':>16}")
    for name, call in calls.items():
        usual = verdict(call)
        torch.use_deterministic_algorithms(True)
        try:
            strict = verdict(call)
        finally:
            torch.use_deterministic_algorithms(False)
        print(f"{name:22}{usual:>12}{strict:>16}")


deterministic_mode()

# %% [markdown]
# The page `torch.use_deterministic_algorithms` lists, for CUDA: `scatter` with a tensor `src`, `scatter_add_`,
# `index_add`, `scatter_reduce` with "sum" or "mean" and the backward pass of `gather` get a deterministic way of
# working; `scatter_reduce` with "prod" and `cumsum` of floats are refused. "Deterministic" means the same result in
# each run. It doesn't make `scatter_` with duplicates correct: which number stays is then always the same one, but
# still not one that you chose.

# %% [markdown]
# **Predict.** On the CPU, gather refuses the index 9 for a vector of four numbers at once, with a clear message. And on
# a GPU, which of the three lines below raises: gather, the sum after it, or `torch.cuda.synchronize`?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("03_gather_scatter")
def blamed_late() -> None:
    """Run an illegal gather in a process of its own, since no CUDA call works in that process afterwards."""
    code = """
import torch
y = torch.arange(4.0, device="cuda")
index = torch.tensor([9], device="cuda")
calls = {"gather": lambda: y.gather(0, index), "sum": lambda: y.sum(), "synchronize": torch.cuda.synchronize}
for name, call in calls.items():
    try:
        call()
        print(f"{name:12} returns")
    except RuntimeError as error:
        print(f"{name:12} raises:", str(error).splitlines()[0])
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    print(child.stdout.strip() or "the process printed nothing")


blamed_late()

# %% [markdown]
# The CPU can't look at the index without waiting for the GPU, so gather starts its kernel and returns. The kernel finds
# the illegal index and stops with a "device-side assert", and a later CUDA call, which has done nothing wrong, reports
# it (section 1.5). After that no CUDA call works in the process; the demo therefore runs in a process of its own. Check
# labels on the CPU, or run once with `CUDA_LAUNCH_BLOCKING=1`.

# %% [markdown]
# **Predict.** A (64, 512, 1024) tensor is gathered with one index for each time step, (64, 512, 1), brought to the full
# shape by `expand` or by `repeat`. How much memory does each of the two indices take?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("03_gather_scatter")
def index_memory() -> None:
    """Memory of an expanded and of a repeated index, and the peak while gather runs."""
    mib = 2**20
    h = torch.rand(64, 512, 1024, device="cuda")
    steps = torch.randint(512, (64, 512, 1), device="cuda")
    for name, full in (("expand", lambda: steps.expand(-1, -1, 1024)), ("repeat", lambda: steps.repeat(1, 1, 1024))):
        before = torch.cuda.memory_allocated()
        index = full()
        taken = torch.cuda.memory_allocated() - before
        torch.cuda.reset_peak_memory_stats()
        out = h.gather(1, index)
        peak = torch.cuda.max_memory_allocated() - before
        print(f"{name}: index {taken / mib:.0f} MiB, at the peak of gather {peak / mib:.0f} MiB")
        del index, out


index_memory()

# %% [markdown]
# An expanded index has stride 0 (section 2.4): 1024 columns look at one and the same cell, and it takes no memory of
# its own. The repeated one holds 64 · 512 · 1024 numbers of 8 bytes, 256 MiB, twice as much as the float32 data that it
# points into. The peak counts the index, the result (128 MiB) and whatever gather itself needs.

# %% [markdown]
# ## Folklore, checked
#
# What people say about gather and scatter, and what is so. Each row unfolds its proof: a few lines that run through
# only if the statement on the right holds.

# %%
folklore(
    "03_gather_scatter",
    ids=[
        "03-scatter-writes-all-of-src",
        "03-scatter-later-overwrites-earlier",
        "03-scatter-reduce-tensor-deprecated",
        "03-scatter-is-inverse-of-gather",
        "03-gather-signature",
        "03-index-must-be-long",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of PyTorch,
# and raises if it does not.

# %%
prove("03-scatter-writes-all-of-src")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - `torch.gather` and `torch.Tensor.scatter_`: the formulas for three dimensions, and the warning about indices that
#   are not unique;
# - `torch.Tensor.scatter_add_`, `torch.Tensor.scatter_reduce_` and `torch.Tensor.index_add_`: what to use when
#   duplicates count;
# - `torch.take_along_dim`: the relative that broadcasts (read section 3.2 again before you use it);
# - `torch.nn.functional.one_hot` and `torch.nn.Embedding`, with its option `sparse`;
# - the note "Reproducibility" and the page `torch.use_deterministic_algorithms`: which operations depend on the order
#   of threads.
