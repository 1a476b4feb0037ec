# %% [markdown]
# # The training loop
#
# Training is five calls in a loop. Each of them is simple, and nearly every mistake around them is silent: the loss
# falls, only not as far as it could. After this chapter you can
#
# - write and repair the loop: the order of the calls, train and eval mode, a mean over samples, uneven batches;
# - choose a loss and check what it is given: shapes, logits, log-probabilities, reductions;
# - set up data: datasets, samplers, collate functions, workers, splits, and shuffling that can be repeated;
# - configure optimizers: parameter groups, weight decay (coupled or decoupled), state, schedules;
# - fine-tune a model without the three classic mistakes, give the script an honest command line, and resume a run as
#   if it had never stopped.
#
# **60 minutes to read, 136 minutes to practise, 20 points.** You need chapter 4: leaves, `.grad`, what `backward`
# adds where; and from chapter 7 modules, `state_dict`, train and eval mode.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import argparse
import contextlib
import copy
import io
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.colors import XKCD_COLORS, to_rgb
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset, random_split

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.batch_anatomy import batch_anatomy_explorer
from torchkata.pictures.loop_effects import loop_effects
from torchkata.pictures.loss_curve import LiveCurve
from torchkata.pictures.optimizer_path import optimizer_explorer
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
# ## 11.1 Five parts and one order
#
# First some real data. In a survey of 2010 many thousand people named colours, and matplotlib ships 949 of the names
# with their red, green and blue. The last word of a name often says the family: "dark olive green" is a green. We
# keep the names that end in one of eight families; a model shall tell the family from the three numbers.

# %%
FAMILIES = ("green", "blue", "pink", "purple", "brown", "yellow", "red", "orange")

names = [name.removeprefix("xkcd:") for name in XKCD_COLORS]
names = [name for name in names if name.split()[-1] in FAMILIES]
colours = torch.tensor([to_rgb("xkcd:" + name) for name in names])
families = torch.tensor([FAMILIES.index(name.split()[-1]) for name in names])

print("colours", tuple(colours.shape), "families", tuple(families.shape))
for name, colour, family in zip(names[:3], colours, families, strict=False):
    print(f"{name:18}{[round(part, 2) for part in colour.tolist()]}  family {family}")
print("of each family:", families.bincount().tolist())

# %% [markdown]
# Below is a whole training program. It has five parts: data, model, loss function, optimizer, iteration. PyTorch
# prescribes none of this; it is a usual way to sort one's thoughts.
#
# **Predict.** There are eight families, and the model has not learnt anything yet. How many per cent of the colours
# does it get right, and how large is its loss, roughly? And how many numbers will be learnt?

# %% facts=["11-five-training-parts", "11-parameters-vs-hyperparameters"]
torch.set_num_threads(1)  # so small a model has no work for more
torch.manual_seed(0)
loader = DataLoader(TensorDataset(colours, families), batch_size=32, shuffle=True)  # data
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, len(FAMILIES)))  # model
loss_function = nn.CrossEntropyLoss()  # loss function
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # optimizer


def report(when: str) -> None:
    with torch.no_grad():
        logits = model(colours)
    right = (logits.argmax(1) == families).float().mean()
    print(f"{when:16} loss {loss_function(logits, families):.1f}, right: {right:.0%}")


report("before training")
for _ in range(15):  # iteration
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
report("afterwards")

print("learnt:", sum(parameter.numel() for parameter in model.parameters()), "numbers")
print("chosen: lr", optimizer.param_groups[0]["lr"], "and batch size", loader.batch_size)

# %% [markdown]
# A model that knows nothing gives each of 8 classes about the probability 1/8, so its loss is about ln 8 = 2.1. If a
# first loss is far from the logarithm of the number of classes, look for a mistake before you train. How often it is
# right is luck: random weights name nearly the same family for every colour, and families are not equally frequent.
#
# What is learnt is in `model.parameters()` and gets gradients. What you choose, the *hyperparameters*, is kept
# elsewhere: the learning rate in the optimizer's `param_groups`, the batch size in the loader. No gradient ever
# reaches them.

# %% [markdown]
# **Predict.** The weight `w` starts at 0, its gradient is always 1, the learning rate is 1. What is `w` after three
# iterations in each of these orders?


# %% facts=["11-loop-order", "11-zero-grad-because-accumulation"]
def weight_after(order: list[str], iterations: int = 3) -> float:
    w = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=1.0)
    for _ in range(iterations):
        for call in order:
            if call == "backward":
                w.sum().backward()
            else:
                getattr(optimizer, call)()
    return w.item()


for order in (["zero_grad", "backward", "step"], ["backward", "step"], ["backward", "zero_grad", "step"]):
    one, three = weight_after(order, 1), weight_after(order, 3)
    print(f"{', '.join(order):28} after one: {one:4}   after three: {three:4}")

# %% [markdown]
# `backward` *adds* to `.grad` (section 4.3). Without `zero_grad` the second step uses 1 + 1 and the third 1 + 1 + 1.
# One iteration alone doesn't show the mistake: the sum of one gradient is that gradient. And `zero_grad` between
# `backward` and `step` throws away what was just computed, so nothing is learnt. Neither raises an error.
#
# **Predict.** A small regression, 50 steps. Which of the three orders end with a loss near zero?


# %% facts=["11-loop-order"]
def final_loss(order: list[str], steps: int = 50) -> float:
    torch.manual_seed(0)
    x = torch.randn(32, 2)
    target = x @ torch.tensor([[1.0], [-2.0]])
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        for call in order:
            if call == "backward":
                F.mse_loss(model(x), target).backward()
            else:
                getattr(optimizer, call)()
    return F.mse_loss(model(x), target).item()


print(f"{'before training':28}{final_loss([], steps=0):.2f}")
for order in (["zero_grad", "backward", "step"], ["backward", "step"], ["backward", "zero_grad", "step"]):
    print(f"{', '.join(order):28}{final_loss(order):.2f}")

# %% [markdown]
# The order to remember: **zero_grad, forward, loss, backward, (clip), step**. `zero_grad` may just as well stand at
# the end, after `step`; it must only not come between `backward` and `step`.

# %% [markdown]
# **Predict.** What is `p.grad` right after `optimizer.zero_grad()`? And does a parameter whose gradient was zeroed
# still change in a step with weight decay?

# %% facts=["11-zero-grad-clears-to-zero"]
p = nn.Parameter(torch.tensor([8.0]))
optimizer = torch.optim.SGD([p], lr=0.5, weight_decay=0.5)

p.sum().backward()
optimizer.zero_grad()
optimizer.step()
print("grad", p.grad, "after the step", p.item())
error_of(lambda: p.grad.abs().sum())

p.sum().backward()
optimizer.zero_grad(set_to_none=False)
optimizer.step()
print("grad", p.grad.item(), "after the step", p.item())

# %% [markdown]
# Since torch 2.0 `zero_grad` sets `.grad` to None; `set_to_none=True` is the default. Code that reads gradients right
# after it must expect None. There is a difference in what follows, too: `step` skips a parameter without a gradient
# altogether, while one with a gradient of zeros is still decayed (and moved by its momentum).

# %% [markdown]
# That `backward` adds is also useful. When a batch doesn't fit into memory, compute it in parts and step once:
# *gradient accumulation*.
#
# **Predict.** Eight samples, in one batch or in parts. Which of the four ways below give the gradient of the whole
# batch?

# %% facts=["11-zero-grad-because-accumulation"]
torch.manual_seed(0)
x, y = torch.randn(8, 3), torch.randn(8, 1)
model = nn.Linear(3, 1)


def difference_to_whole_batch(parts: list[int], share) -> str:
    """Add up gradients over parts of the batch; share(n) is the factor for the mean loss of n samples."""
    model.zero_grad()
    for xs, ys in zip(x.split(parts), y.split(parts), strict=True):
        (share(len(xs)) * F.mse_loss(model(xs), ys)).backward()
    return f"{(model.weight.grad - whole).norm() / whole.norm():.2f}"


F.mse_loss(model(x), y).backward()
whole = model.weight.grad.clone()

print("4 parts of 2, losses as they are:   ", difference_to_whole_batch([2, 2, 2, 2], lambda n: 1))
print("4 parts of 2, each loss / 4:        ", difference_to_whole_batch([2, 2, 2, 2], lambda n: 1 / 4))
print("parts of 5, 2, 1, each loss / 3:    ", difference_to_whole_batch([5, 2, 1], lambda n: 1 / 3))
print("parts of 5, 2, 1, each loss · n / 8:", difference_to_whole_batch([5, 2, 1], lambda n: n / 8))

# %% [markdown]
# The second and the fourth. The loss of a part is a mean over the part. Four means added up are four times the mean,
# so the gradient is four times too large. Dividing by the number of parts is right only if all parts are equally
# large; dividing each part's *sum* by the number of samples in the whole batch is always right. (Layers that mix the
# samples of a batch, such as batch norm, see smaller batches all the same.)

# %% [markdown]
# **Predict.** Two parameters have the gradients 3 and 4. After `clip_grad_norm_(parameters, max_norm=1.0)`: which
# gradients do they have, and what does the call return?

# %% facts=["11-clip-between-backward-and-step"]
a, b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

(3 * a + 4 * b).backward()
returned = nn.utils.clip_grad_norm_([a, b], max_norm=1.0)
print(f"returned {returned:.1f}, gradients {a.grad.item():.1f} and {b.grad.item():.1f}")

returned = nn.utils.clip_grad_norm_([a, b], max_norm=10.0)
print(f"returned {returned:.1f}, gradients {a.grad.item():.1f} and {b.grad.item():.1f}")

a.grad = b.grad = None
print(f"before any backward: returned {nn.utils.clip_grad_norm_([a, b], max_norm=1.0):.1f}")

# %% [markdown]
# All gradients together are one vector, here of length 5. If it is longer than `max_norm`, all are scaled by the same
# factor, in place, so that the direction stays. Returned is the norm from *before*, which is worth logging. Clipping
# belongs between `backward` and `step`: earlier there is nothing to clip, later it comes too late. Neither is an
# error.

# %% [markdown]
# **Predict.** Two epochs with two equal batches each. The weight starts at 0 and is recorded before each step. Does
# the second epoch start at 0 again?

# %% facts=["11-weights-change-between-batches"]
model = nn.Linear(1, 1, bias=False)
nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(2):
    for x in (torch.ones(2, 1), torch.ones(2, 1)):
        print(f"epoch {epoch}: weight {model.weight.item():.3f}")
        optimizer.zero_grad()
        (model(x) - 1).pow(2).mean().backward()
        optimizer.step()

# %% [markdown]
# Nothing is reset. An epoch is only a pass over the data; for the weights it is one unbroken sequence of steps, and
# each batch meets the weights that the batch before has left.
#
# The table below sums up which call changes what. It was not written by hand: each call of one iteration was run,
# with everything compared before and after it.

# %% facts=["11-loop-order"]
loop_effects()

# %% [markdown]
# Two rows deserve a second look. The forward pass is not innocent: in train mode it changes batch norm's running
# statistics, which are buffers (and dropout moves the random numbers on). And only `step` changes weights. `backward`
# knows nothing of the optimizer, the optimizer knows nothing of the loss; `.grad` is all that they share.

# %% [markdown]
# ## 11.2 Losses and their shapes
#
# **Predict.** `F.mse_loss` and `nn.MSELoss()` are twins, a function and a module. What do the three reductions return
# for the errors 1, 2 and 3?

# %% facts=["11-losses-are-modules", "11-loss-vs-cost-function"]
predicted, target = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)

for reduction in ("none", "sum", "mean"):
    print(f"{reduction:6}", nn.MSELoss(reduction=reduction)(predicted, target))
print("twins agree:", nn.MSELoss()(predicted, target) == F.mse_loss(predicted, target))
print("modules:", all(issubclass(loss, nn.Module) for loss in (nn.MSELoss, nn.CrossEntropyLoss, nn.NLLLoss)))

# %% [markdown]
# "none" keeps one value for each element; "mean" is the default. Textbooks sometimes call the value of one sample
# *loss* and that of the whole set *cost*; PyTorch calls everything a loss and averages over the batch.

# %% [markdown]
# **Predict.** Predictions of shape (4, 1) and targets of shape (4,), both 0, 1, 2, 3: a perfect model. Is the loss
# zero?

# %% facts=["11-mseloss-needs-equal-shapes"] shows_warning="UserWarning"
target = torch.arange(4.0)
perfect = target.reshape(4, 1)

warning_of(lambda: print("MSELoss:", nn.MSELoss()(perfect, target).item()))
print("by hand:", (perfect - target).pow(2).mean().item())
print("shape of the difference:", tuple((perfect - target).shape))
print("equal shapes:", nn.MSELoss()(perfect.squeeze(1), target).item())

# %% [markdown]
# (4, 1) minus (4,) is broadcast to (4, 4): every prediction is compared with *every* target. The best answer to that
# is the mean of all targets, and that is what such a model learns. MSELoss warns; the same formula written by hand
# doesn't even do that. A model that ends in `nn.Linear(…, 1)` returns (N, 1), so this is a common accident.

# %% [markdown]
# ### Exercise 11.1 · The regression that learns the mean
#
# debug · warm-up · 12 min · 2 points
#
# A linear layer is to learn a linear relation. There is a warning, the loss stalls at the variance of `y`, and in the
# end every prediction is close to the mean of `y`:
#
#     UserWarning: Using a target size (torch.Size([32])) that is different to the input size (torch.Size([32, 1])).
#     This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.
#
# Find out why, and repair `fit`.
#
# **Contract**
#
# - Each batch makes one SGD step on its mean squared error; the data are visited in order, `epochs` times.
# - `model` maps (B, D) to (B, 1) or to (B,), and `y` is (N,) or (N, 1): all four combinations work, also where the
#   last batch is a single sample, and without any warning.
# - A prediction that really has another number of values than its targets, (B, 3) for instance, raises ValueError.
# - Returns a float: the mean squared error over the *last* epoch, as training met it (each batch before its own
#   step). Every sample counts once.
#
# <details><summary>Hint 1</summary>
#
# What shape has (B, 1) minus (B,)? What does `squeeze()` do to a batch of one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compare the numbers of elements first, then bring the prediction to the target's shape with `reshape` or `view_as`.
# For the result add up loss times batch size, and divide by N.
#
# </details>


# %% answer="broadcast-loss"
def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int, lr: float, batch_size: int) -> float:
    """Train model on (x, y) with SGD; returns the mean squared error per sample of the last epoch.

    x: (N, D); y: (N,) or (N, 1); model maps (B, D) to (B, 1) or (B,).
    """
    ### BEGIN SOLUTION
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            opt.zero_grad()
            prediction = model(xb)
            if prediction.numel() != yb.numel():
                raise ValueError(f"{tuple(prediction.shape)} predictions for {tuple(yb.shape)} targets")
            loss = nn.functional.mse_loss(prediction.reshape(yb.shape), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # opt = torch.optim.SGD(model.parameters(), lr=lr)
    # for _ in range(epochs):
    #     for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
    #         opt.zero_grad()
    #         loss = nn.functional.mse_loss(model(xb), yb)
    #         loss.backward()
    #         opt.step()
    # return loss.item()
    ### END GIVEN


# %% check="broadcast-loss" points=2
"""A linear relation is learned in all four combinations of shapes; the loss per sample is returned."""
with check("broadcast-loss") as test:

    class Outputs(nn.Module):
        """A linear layer whose output has one of several shapes."""

        def __init__(self, kind):
            super().__init__()
            self.kind, self.linear = kind, nn.Linear(2, 3 if kind == "(B, 3)" else 1)
            with torch.no_grad():
                self.linear.weight.copy_(torch.tensor([[0.3, -0.2]]).expand(self.linear.weight.shape))
                self.linear.bias.fill_(0.1)

        def forward(self, x):
            out = self.linear(x)
            if self.kind == "(1,)":
                return out.mean(0)
            return out[:, 0] if self.kind == "(B,)" else out

    def trained(fit, kind, x, y, epochs, lr, batch_size):
        """What fit returns, and the weights and bias afterwards."""
        model = Outputs(kind)
        parameters = list(model.parameters())
        loss = fit(model, x, y, epochs, lr, batch_size)
        same = all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
        facts = {"float": isinstance(loss, float), "same parameters": same}
        return facts | {
            "loss": float(loss) if isinstance(loss, float) else torch.nan,
            "weights": torch.cat([parameter.detach().flatten() for parameter in parameters]),
        }

    def warnings_in(seen):
        """The warnings that came up."""
        return [message for category, message in seen.noted.warned if category == "UserWarning"]

    def predictions_all_alike(seen):
        """Whether the weights have gone to zero, so that every prediction is the bias."""
        return bool(seen["weights"][:2].abs().max() < 0.05)

    broadcast = (
        "The loss still compares every prediction with every target: (B, 1) against (B,) broadcasts to (B, B). "
        "Bring both to one shape."
    )
    flat_model = "A model that returns (B,) or targets (N, 1) must work too."
    known = (
        mistake(flat_model, raises="IndexError|TypeError.*len"),
        mistake(
            "The warning is gone, the broadcast is not: the loss still cannot fall below the variance.",
            when=lambda seen: predictions_all_alike(seen) and not warnings_in(seen),
        ),
        mistake(broadcast, when=predictions_all_alike),
    )

    def judge_type(seen):
        """fit returns a float."""
        seen.that(seen["float"], "Return the loss as a Python float: a tensor has .item() for that.", stage="type")

    def judge_learning(seen):
        """The weights are those of the relation, and the loss is near zero."""
        judge_type(seen)
        learned = torch.allclose(seen["weights"], torch.tensor([2.0, -1.0, 0.5]), atol=1e-2)
        seen.that(seen["same parameters"], "Train the model's own parameters, don't replace them.", stage="aliasing")
        seen.that(learned, f"The relation is not learned: the loss that you return is {seen['loss']:.3g}.", *known)
        seen.that(abs(seen["loss"]) < 1e-2, f"The loss should be near 0 now; you return {seen['loss']:.3g}.")

    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    x = torch.cat([corners, 0.8 * corners, 1.2 * corners])
    y = 2 * x[:, 0] - x[:, 1] + 0.5

    test("a linear relation is learned: the loss goes to 0")
    seen = observe_scenario(trained, fit, "(B, 1)", x, y, 4, 0.4, 4).expecting(*known)
    judge_learning(seen)
    silent = "A warning still comes up: predictions and targets must have the same shape."
    seen.that(not warnings_in(seen), silent, stage="rule")

    for kind, column in [("(B,)", False), ("(B, 1)", True), ("(B,)", True)]:
        targets = y[:, None] if column else y
        test(f"predictions {kind}, targets {'(N, 1)' if column else '(N,)'}")
        seen = observe_scenario(trained, fit, kind, x, targets, 4, 0.4, 4).expecting(*known)
        judge_learning(seen)
        seen.that(not warnings_in(seen), silent, stage="rule")

    ### BEGIN HIDDEN TESTS
    def by_hand(x, y, epochs, lr, batch_size):
        """The losses of all batches, epoch by epoch, their sizes, and the parameters afterwards."""
        w, b = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor(0.1, dtype=torch.float64)
        x, y, found = x.double(), y.flatten().double(), []
        for _ in range(epochs):
            found.append([])
            for xb, yb in zip(x.split(batch_size), y.split(batch_size), strict=True):
                off = xb @ w + b - yb
                found[-1].append((off.square().mean().item(), len(yb)))
                w, b = w - lr * 2 * xb.T @ off / len(yb), b - lr * 2 * off.mean()
        return found, torch.cat([w, b[None]]).float()

    def mean_of(batches):
        """The mean over samples."""
        return sum(loss * size for loss, size in batches) / sum(size for _, size in batches)

    def close(a, b):
        return abs(a - b) < 1e-4 * max(abs(b), 1e-3)

    single = (
        "A last batch of one sample failed or warned: squeeze() without a dimension removes the batch dimension too."
    )
    only_last = (
        "Return the mean over the last epoch, each sample counted once - not the last batch's loss, nor the mean of "
        "batch means."
    )
    uneven = torch.tensor([[0.9, -0.4], [1.3, 0.8], [-0.7, 0.2], [0.1, -1.1], [-1.2, 0.6]])
    uneven = torch.cat([uneven, 0.7 * uneven.flip(1) + 0.1])
    goals = (uneven[:, 0] * uneven[:, 1] + uneven[:, 0] - 0.3) * 2

    def judge_exactly(kind, x, y, epochs, lr, batch_size, *mistakes):
        """Loss and weights are those of a computation by hand, without a warning."""
        seen = observe_scenario(trained, fit, kind, x, y, epochs, lr, batch_size).expecting(*mistakes)
        judge_type(seen)
        found, weights = by_hand(x, y, epochs, lr, batch_size)
        seen.that(
            torch.allclose(seen["weights"], weights, rtol=1e-3, atol=1e-4),
            "The weights after training are not those of SGD on the mean squared error of each batch, in order.",
        )
        means = [loss for loss, _ in found[-1]]
        seen.that(
            close(seen["loss"], mean_of(found[-1])),
            "The weights are right, but the returned value is not the mean over the samples of the last epoch.",
            mistake(
                only_last, when=lambda seen: any(close(seen["loss"], m) for m in (means[-1], sum(means) / len(means)))
            ),
            mistake(
                "That is the mean over all epochs: return the last one's.",
                when=lambda seen: close(seen["loss"], mean_of([batch for epoch in found for batch in epoch])),
            ),
            mistake(
                "That is the sum over the samples, not their mean.",
                when=lambda seen: close(seen["loss"], mean_of(found[-1]) * len(x)),
            ),
        )
        seen.that(not warnings_in(seen), silent, stage="rule")

    test.hidden("the returned value: the mean over the samples of the last epoch")
    judge_exactly("(B, 1)", uneven, goals, 3, 0.1, 4)
    judge_exactly("(B, 1)", uneven, goals, 1, 0.05, 6)

    alone = mistake(single, stage=("raised", "rule"))
    for kind, column in [("(B, 1)", False), ("(B,)", False), ("(B, 1)", True), ("(B,)", True)]:
        targets = goals[:, None] if column else goals
        test.hidden("a last batch of one sample")
        judge_exactly(kind, uneven[:7], targets[:7], 2, 0.1, 3, alone)
        test.hidden("one sample only, in a batch that could hold more")
        judge_exactly(kind, uneven[:1], targets[:1], 2, 0.1, 3, alone)

    for kind, column, size, batch_size in [
        ("(B, 3)", False, 4, 4),
        ("(B, 3)", True, 4, 4),
        ("(B, 3)", False, 3, 3),
        ("(B, 3)", False, 1, 1),
        ("(1,)", False, 4, 4),
        ("(1,)", True, 8, 4),
    ]:
        test.hidden("predictions of another number of values are refused")
        targets = goals[:, None] if column else goals
        seen = observe_scenario(trained, fit, kind, uneven[:size], targets[:size], 1, 0.1, batch_size)
        seen.raises(
            ValueError, because="A prediction of another size must raise ValueError instead of being broadcast."
        )
    ### END HIDDEN TESTS

# %% [markdown]
# **Predict.** For three classes the logits (100, 0, 0) are very sure, and right. What is the cross-entropy? And what
# is it if a softmax comes first, as the last layer of the model?

# %% facts=["11-crossentropy-takes-logits"]
logits, label = torch.tensor([[100.0, 0.0, 0.0]]), torch.tensor([0])

print(f"of logits:          {F.cross_entropy(logits, label):.2f}")
print(f"after a softmax:    {F.cross_entropy(logits.softmax(1), label):.2f}")
print(f"log(1 + 2/e):       {math.log(1 + 2 / math.e):.2f}")

# %% [markdown]
# `cross_entropy` takes *logits*, any real numbers, and applies a log-softmax itself. With a softmax in front there is
# no error, but it is applied twice: probabilities lie between 0 and 1, and as logits they can never be further apart
# than one. For three classes the loss cannot fall below 0.55. The model still learns something, which is why the
# mistake survives.

# %% [markdown]
# **Predict.** The logits (0, 200), and label 0: sure, and wrong. What do the library and the formula -log(softmax(z))
# return?

# %% facts=["11-cross-entropy-is-logsoftmax-nll"]
logits, label = torch.tensor([[0.0, 200.0]]), torch.tensor([0])

print("cross_entropy:            ", F.cross_entropy(logits, label).item())
print("log_softmax, then NLLLoss:", nn.NLLLoss()(logits.log_softmax(1), label).item())
print("-log(softmax):            ", -logits.softmax(1).log()[0, 0].item())

# %% [markdown]
# Cross-entropy is log-softmax followed by the negative log-likelihood loss. But a log-softmax is more than a softmax
# and a logarithm: the softmax of the smaller logit is e^-200, which float32 rounds to 0, and log(0) is -inf. Working
# with logarithms from the start keeps 200 as it is.

# %% [markdown]
# **Predict.** `NLLLoss` has "log" in its name. Does it take the logarithm? What does it return for probabilities?

# %% facts=["11-nll-loss-needs-softmax"]
torch.manual_seed(0)
logits, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])

print(f"cross_entropy of logits:        {F.cross_entropy(logits, labels):.3f}")
print(f"nll_loss of log-probabilities:  {F.nll_loss(logits.log_softmax(1), labels):.3f}")
print(f"nll_loss of probabilities:      {F.nll_loss(logits.softmax(1), labels):.3f}")

# %% [markdown]
# It only picks the entry of each true class and changes the sign. Given probabilities it returns minus a probability,
# a negative "loss" which can even be minimised. A loss below zero where none should be is a good alarm.

# %% [markdown]
# **Predict.** Labels are whole numbers. Which of these targets does cross_entropy take for logits of shape (6, 3)?

# %% facts=["11-crossentropy-takes-logits"]
torch.manual_seed(0)
logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])

print(f"int64 labels:        {F.cross_entropy(logits, labels):.3f}")
print(f"class probabilities: {F.cross_entropy(logits, F.one_hot(labels, 3).float()):.3f}")
error_of(lambda: F.cross_entropy(logits, labels.float()))
error_of(lambda: F.cross_entropy(logits, F.one_hot(labels, 3)))
error_of(lambda: F.cross_entropy(logits, labels + 1))

# %% [markdown]
# Labels are int64 and lie in 0 … C - 1. A floating target of the shape of the logits is taken as one probability for
# each class. For two classes, or for several that may be true at once, there is `binary_cross_entropy_with_logits`;
# it, too, takes logits, and *floating* targets of exactly the same shape.

# %% [markdown]
# ### Exercise 11.2 · Cross entropy that survives large logits
#
# implement · solid · 20 min · 3 points
#
# Write the loss of every classifier yourself. The formula, -log softmax(z)[label], takes one line, and that line
# breaks as soon as one logit is 200 above the others.
#
# **Contract**
#
# - The mean of -log p[target], with p = softmax(logits), over the rows whose target is not `ignore_index`. With label
#   smoothing e the target distribution is 1 - e on the target *plus* e / C on every class.
# - A 0-d tensor in the dtype of `logits`, differentiable; exact for logits of any size (1e4, in float32 too). A class
#   whose logit is -inf, and which is not the target, has probability 0: without smoothing, loss and gradient are
#   finite.
# - Ignored rows count neither in the value nor in the gradient, whatever their logits are, nan included. Where no row
#   is left the result is nan.
# - A target outside 0 … C-1 that is not `ignore_index` raises IndexError; shapes other than (N, C) and (N,) raise
#   ValueError; floating targets raise TypeError. The arguments are not changed.
#
# **Rule.** `F.cross_entropy`, `nn.CrossEntropyLoss` and `F.nll_loss` must not run; operations are recorded.
#
# <details><summary>Hint 1</summary>
#
# What does `log(softmax(z))` compute when one logit is 200 above the others? By how many rows do you divide?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Select the rows that count first. Then log p = z - logsumexp(z); logsumexp subtracts the maximum for you. Gather the
# target's entry. Smoothing mixes two losses: 1 - e times that one, e times the mean of -log p over the classes.
#
# </details>


# %% answer="cross-entropy-from-logits"
def cross_entropy(logits: Tensor, target: Tensor, *, label_smoothing: float = 0.0, ignore_index: int = -100) -> Tensor:
    """The mean cross entropy of the rows that are not ignored.

    logits: (N, C) floating point; target: (N,) int64; returns a 0-d tensor in the dtype of logits.
    """
    ### BEGIN SOLUTION
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(f"expected (N, C) and (N,), got {tuple(logits.shape)} and {tuple(target.shape)}")
    if target.is_floating_point():
        raise TypeError("targets are class indices")
    kept = target != ignore_index
    logits, target = logits[kept], target[kept]
    if ((target < 0) | (target >= logits.shape[1])).any():
        raise IndexError("a target is none of the classes")
    log_p = logits - logits.logsumexp(1, keepdim=True)
    losses = -log_p.gather(1, target[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    return losses.mean()
    ### END SOLUTION


# %% check="cross-entropy-from-logits" points=2
"""Value and gradient of the plain loss: random, large and masked logits, ignored rows."""
with check("cross-entropy-from-logits") as test:

    def each(logits, target, ignore_index=-100):
        """The losses of the rows that count, one by one (good enough for small numbers)."""
        rows = [(row, y) for row, y in zip(logits, target.tolist(), strict=True) if y != ignore_index]
        return torch.stack([row.exp().sum().log() - row[y] for row, y in rows])

    def plain(logits, target, ignore_index=-100):
        """Their mean."""
        return each(logits, target, ignore_index).mean()

    library = ("cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward", "nll_loss2d")
    own = "That is the library's loss: build it from logsumexp, gather and mean."
    gradient = (
        "The gradient is wrong (or nan) although the value is right: did you detach something, or multiply -inf by 0?"
    )
    changed = "The arguments must stay as they are: logits or targets were changed in place."
    ignored_mean = "Ignored rows must neither count in the sum nor in the divisor."
    known = (
        mistake("The softmax is applied twice, or missing.", gives=lambda z, y: plain(z.softmax(1), y)),
        mistake(
            "The softmax is applied twice, or missing.",
            gives=lambda z, y: -z.gather(1, y[:, None]).mean(),
        ),
        mistake(
            "The logarithm is missing: that is the mean probability of the labels.",
            gives=lambda z, y: -z.softmax(1).gather(1, y[:, None]).mean(),
        ),
        mistake("The sign is wrong: the loss is -log p, which is never negative.", gives=lambda z, y: -plain(z, y)),
        mistake("That is the sum over the rows; asked for is their mean.", gives=lambda z, y: each(z, y).sum()),
        mistake("Those are the losses of the rows; asked for is their mean.", gives=each),
        mistake(
            "The softmax runs over the wrong dimension: classes are in dimension 1.",
            gives=lambda z, y: -z.softmax(0).gather(1, y[:, None]).log().mean(),
        ),
    )

    test("random logits (5, 3): the value, then the gradient")
    some_logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    seen = observe(cross_entropy, some_logits, torch.tensor([2, 0, 1, 1, 2])).expecting(*known)
    seen.returns(plain)
    seen.avoided(*library, because=own)
    seen.gives_gradients(plain, because=gradient)
    seen.leaves_arguments_alone(because=changed)

    test("logits of 1e4 and of -1e4")
    some_logits = torch.tensor([[1e4, 0.0, 3.0], [2.0, -5.0, 1e4]], requires_grad=True)
    unstable = mistake(
        "The result is inf, nan or a bounded number for large logits: log(softmax(z)) or exp(z) overflows or "
        "underflows. Work with logsumexp (or subtract the maximum).",
        when=lambda seen: not (seen.value.isfinite().all() and seen.value > 2000),
    )
    seen = observe(cross_entropy, some_logits, torch.tensor([1, 2]))
    seen.returns(torch.tensor(5000.0), unstable)
    wanted = torch.tensor([[0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]) * incoming_gradient(torch.tensor(0.0))
    seen.gives_gradients({0: wanted}, because=gradient)
    some_logits = torch.tensor([[1.0, 3.0, 0.5, 1.5]])
    seen = observe(cross_entropy, some_logits - 1e4, torch.tensor([2]))
    seen.returns(plain(some_logits, torch.tensor([2])), unstable, rtol=1e-3, atol=1e-3)

    test("ignored rows")
    some_logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    counted = mistake(ignored_mean, gives=lambda z, y: each(z, y).sum() / len(y))
    as_class_0 = mistake(ignored_mean, gives=lambda z, y: plain(z, y.clamp(min=0)))
    refused = mistake("A target of -100 (ignore_index) is not an error: leave its row out ({detail}).", stage="raised")
    seen = observe(cross_entropy, some_logits, torch.tensor([2, -100, 1, -100, 0]))
    seen.expecting(counted, as_class_0, refused, *known).returns(plain, because=ignored_mean)
    seen.gives_gradients(plain, because=gradient)
    seen.leaves_arguments_alone(because=changed)

    ### BEGIN HIDDEN TESTS
    def reference(logits, target, label_smoothing=0.0, ignore_index=-100):
        kept = target != ignore_index
        rows = logits[kept].double()
        log_p = rows - rows.logsumexp(1, keepdim=True)
        losses = -log_p[torch.arange(len(log_p)), target[kept]]
        if label_smoothing:
            losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
        return losses.mean().to(logits.dtype)

    g = torch.Generator().manual_seed(3)
    masked = "A class with logit -inf must simply have probability 0."
    test.hidden("masked classes: a logit of -inf")
    some_logits = torch.tensor([[0.5, -torch.inf, 1.0], [-torch.inf, -torch.inf, 2.0]], requires_grad=True)
    seen = observe(cross_entropy, some_logits, torch.tensor([2, 2]))
    seen.returns(reference, because=masked)
    seen.gives_gradients(reference, because=gradient)

    test.hidden("ignored rows may hold nan, inf or huge logits")
    some_logits = torch.randn(6, 3, generator=g)
    some_logits[1, 0], some_logits[2], some_logits[4, 1], some_logits[5] = torch.nan, 1e30, torch.inf, -torch.inf
    some_logits.requires_grad_()
    poisoned = "What stands in an ignored row (nan, inf, huge numbers) reaches the {}: select the rows that count."
    seen = observe(cross_entropy, some_logits, torch.tensor([1, -100, -100, 2, -100, -100]))
    seen.returns(reference, because=poisoned.format("value"))
    seen.gives_gradients(reference, because=poisoned.format("gradient"))

    test.hidden("no row is left")
    for size, labels in (((3, 4), [-100, -100, -100]), ((1, 2), [-100]), ((0, 3), [])):
        seen = observe(cross_entropy, torch.randn(size, generator=g), torch.tensor(labels, dtype=torch.int64))
        seen.returns(torch.tensor(torch.nan), because="With no row left the mean is nan, as in PyTorch.")

    test.hidden("another ignore_index")
    for ignore_index in (-1, 255, 1, 0):
        some_logits = torch.randn(6, 3, generator=g).requires_grad_()
        some_labels = torch.tensor([1, ignore_index, 2, 0, ignore_index, 2])
        seen = observe(cross_entropy, some_logits, some_labels, ignore_index=ignore_index)
        seen.returns(reference, because=ignored_mean)
        seen.gives_gradients(reference, because=gradient)

    test.hidden("one row, one class, as many rows as classes, layouts that are not contiguous")
    for size in ((1, 4), (5, 1), (3, 3), (7, 2)):
        some_logits = torch.randn(size, generator=g).requires_grad_()
        seen = observe(cross_entropy, some_logits, torch.randint(size[1], size[:1], generator=g)).expecting(*known)
        seen.returns(reference)
        seen.avoided(*library, because=own)
        seen.gives_gradients(reference, because=gradient)
    spread = torch.randint(3, (4, 2), generator=g)[:, 0]
    observe(cross_entropy, torch.randn(3, 4, generator=g).t(), spread).returns(reference)

    test.hidden("other dtypes")
    for dtype, rtol in ((torch.float64, 1e-12), (torch.bfloat16, 4e-2), (torch.float16, 1e-2)):
        some_logits = torch.randn(6, 4, generator=g).mul(2).to(dtype).requires_grad_()
        seen = observe(cross_entropy, some_logits, torch.tensor([1, 3, -100, 0, 2, 1]))
        seen.returns(reference, rtol=rtol, atol=rtol / 10)
        seen.gives_gradients(reference, because=gradient, rtol=rtol * 2, atol=rtol / 10)

    test.hidden("the loss of a sure and right prediction is 0")
    some_logits = torch.tensor([[1e4, 0.0], [-3e4, 500.0]], requires_grad=True)
    seen = observe(cross_entropy, some_logits, torch.tensor([0, 1]))
    seen.returns(torch.tensor(0.0), rtol=0.0, atol=1e-6)
    seen.gives_gradients(reference, because=gradient)
    ### END HIDDEN TESTS

# %% check="cross-entropy-from-logits" points=1
"""Label smoothing over all classes, and targets and shapes that must be refused."""
with check("cross-entropy-from-logits") as test:

    def mixed(logits, target, label_smoothing, on_target=1.0, on_others=1.0, classes=0):
        """The smoothed loss row by row, with other shares of e for the target and for the other classes."""
        total = 0.0
        for row, y in zip(logits, target.tolist(), strict=True):
            minus_log_p, n = row.exp().sum().log() - row, len(row) + classes
            for c in range(len(row)):
                e = label_smoothing / n
                total += ((1 - label_smoothing) + on_target * e if c == y else on_others * e) * minus_log_p[c]
        return total / len(target)

    library = ("cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward", "nll_loss2d")
    own = "That is the library's loss: build it from logsumexp, gather and mean."
    gradient = "The gradient is wrong (or nan) although the value is right: did you detach something?"
    all_classes = (
        "Label smoothing mixes with the uniform distribution over ALL classes: e / C each, also on the target."
    )

    test("label smoothing 0.3")
    some_logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(4)).requires_grad_()
    seen = observe(cross_entropy, some_logits, torch.tensor([2, 0, 1, 1]), label_smoothing=0.3)
    seen.returns(
        mixed,
        mistake("Nothing was smoothed.", gives=lambda z, y, label_smoothing: mixed(z, y, 0.0)),
        mistake(all_classes, gives=lambda z, y, label_smoothing: mixed(z, y, label_smoothing, 0.0, 1.0, -1)),
        mistake(all_classes, gives=lambda z, y, label_smoothing: mixed(z, y, label_smoothing, 0.0, 1.0)),
        mistake("The smoothed loss is wrong: the target gets 1 - e, and then every class e / C.", stage="value"),
    )
    seen.avoided(*library, because=own)
    seen.gives_gradients(mixed, because=gradient)

    ### BEGIN HIDDEN TESTS
    def reference(logits, target, label_smoothing=0.0, ignore_index=-100):
        kept = target != ignore_index
        rows = logits[kept].double()
        log_p = rows - rows.logsumexp(1, keepdim=True)
        losses = -log_p[torch.arange(len(log_p)), target[kept]]
        if label_smoothing:
            losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
        return losses.mean().to(logits.dtype)

    g = torch.Generator().manual_seed(5)
    test.hidden("smoothing, with ignored rows and another ignore_index")
    for e, ignore_index in ((0.1, -100), (0.25, -1), (1.0, 7)):
        some_logits = torch.randn(5, 4, generator=g).requires_grad_()
        some_labels = torch.tensor([3, ignore_index, 0, 2, ignore_index])
        seen = observe(cross_entropy, some_logits, some_labels, label_smoothing=e, ignore_index=ignore_index)
        seen.returns(reference, because="With smoothing, too, ignored rows count nowhere; or the shares are wrong.")
        seen.avoided(*library, because=own)
        seen.gives_gradients(reference, because=gradient)
    seen = observe(cross_entropy, torch.randn(2, 3, generator=g), torch.tensor([-100, -100]), label_smoothing=0.5)
    seen.returns(torch.tensor(torch.nan), because="With no row left the mean is nan, as in PyTorch.")

    test.hidden("smoothing with large logits, with nan in an ignored row")
    some_logits = torch.tensor([[1e4, -2.0, 3.0], [torch.nan, 1.0, torch.inf], [1.0, 300.0, 2.0]], requires_grad=True)
    seen = observe(cross_entropy, some_logits, torch.tensor([1, -100, 1]), label_smoothing=0.5)
    seen.returns(reference, because="Large logits, or nan in an ignored row, spoil the smoothed loss.")
    seen.gives_gradients(reference, because=gradient)

    test.hidden("smoothing keeps the dtype")
    some_logits = torch.randn(4, 3, generator=g, dtype=torch.float64).requires_grad_()
    seen = observe(cross_entropy, some_logits, torch.tensor([0, 2, 1, 1]), label_smoothing=0.2)
    seen.returns(reference, rtol=1e-12, atol=0.0)

    test.hidden("targets that are none of the classes")
    no_class = "A target outside the classes must raise IndexError (a negative one would silently count from the end)."
    for label, options in [
        (3, {}),
        (4, {}),
        (255, {}),
        (-1, {}),
        (-3, {}),
        (-4, {"label_smoothing": 0.1}),
        (3, {"label_smoothing": 0.1}),
        (-100, {"ignore_index": -1}),
        (-2, {"ignore_index": -1}),
    ]:
        labels = [0, label, 2] if label % 2 else [0, 1, label]
        seen = observe(cross_entropy, torch.randn(3, 3, generator=g), torch.tensor(labels), **options)
        seen.raises(IndexError, because=no_class)

    test.hidden("shapes other than (N, C) and (N,)")
    refused = "Wrong shapes raise ValueError, floating targets TypeError."
    for size, labels in [
        ((3,), 1),
        ((3,), [1]),
        ((3,), [0, 1, 1]),
        ((4, 3), [1]),
        ((4, 3), [1, 2, 0]),
        ((4, 3), [1, 2, 0, 1, 1]),
        ((1, 3), 1),
        ((4, 3), [[1], [2], [0], [1]]),
        ((1, 3), [[1]]),
        ((4, 3), [[1, 2, 0, 1]]),
        ((2, 3, 2), [1, 0]),
        ((2, 3, 2), [[1, 0], [2, 1]]),
    ]:
        seen = observe(cross_entropy, torch.randn(size, generator=g), torch.tensor(labels))
        seen.raises(ValueError, because=refused)

    test.hidden("floating targets")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        seen = observe(cross_entropy, torch.randn(3, 3, generator=g), torch.tensor([0, 2, 1], dtype=dtype))
        seen.raises(TypeError, because=refused)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 11.3 Data
#
# **Predict.** A sampler, a dataset and a collate function each note when they are used. Four samples, batches of two:
# in which order are the notes?


# %% facts=["11-sampler-and-dataset-roles"]
class LoggingSampler(SequentialSampler):
    def __iter__(self):
        for index in super().__iter__():
            print(f"sampler: index {index}")
            yield index


class LoggingDataset(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        print(f"dataset: sample {index}")
        return colours[index], int(families[index])


def logging_collate(samples):
    print(f"collate: {len(samples)} samples, each a {type(samples[0]).__name__}")
    return torch.utils.data.default_collate(samples)


dataset = LoggingDataset()
loader = DataLoader(dataset, batch_size=2, sampler=LoggingSampler(dataset), collate_fn=logging_collate)
x, y = next(iter(loader))
print("batch:", tuple(x.shape), x.dtype, y.tolist(), y.dtype)

# %% [markdown]
# Indices are drawn for a whole batch, then the samples are read one by one, then the list of samples becomes a batch.
# So the *sampler* decides which samples come and in which order, the *dataset* answers an index, and *collate* builds
# the batch. The default collate stacks tensors and makes int64 tensors of Python's whole numbers; all that a sample
# holds is collated item by item.

# %% [markdown]
# **Predict.** 528 colours, batches of 64. How many batches has an epoch, and how large is the last one?

# %% facts=["11-dataloader-batches", "11-iteration-definition"]
data = TensorDataset(colours, families)

for drop_last in (False, True):
    loader = DataLoader(data, batch_size=64, drop_last=drop_last)
    sizes = [len(x) for x, y in loader]
    print(f"drop_last={drop_last!s:5}  len(loader) {len(loader)}, sizes {sizes}, samples {sum(sizes)}")

# %% [markdown]
# The incomplete last batch is kept unless `drop_last=True`. An *iteration* is one batch and one step. An *epoch* is
# one pass over all samples and has `len(loader)` iterations: samples divided by batch size, rounded up (with
# `drop_last`, down). `len(loader.dataset)` is the number of samples.

# %% [markdown]
# **Predict.** With `shuffle=True`, is the order of the second epoch that of the first? And in a second loader with a
# generator of the same seed?


# %% facts=["11-shuffle-each-epoch"]
def orders(seed: int, epochs: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(range(8), batch_size=8, shuffle=True, generator=generator)
    return [batch.tolist() for _ in range(epochs) for batch in loader]


for order in orders(seed=0, epochs=3):
    print(order)
print("again, from the same seed:", orders(seed=0, epochs=3) == orders(seed=0, epochs=3))

# %% [markdown]
# Each pass over the loader draws a new permutation, in which every sample occurs once. With a generator of its own
# the loader's order depends on nothing else; without one it is seeded from the global random numbers, and one dropout
# layer more in your model changes the order of the data. Note that `next(iter(loader))` begins a new epoch each time.

# %% [markdown]
# **Predict.** Which of these will a DataLoader take: a list, a class of your own without a base class, a `Dataset`
# without `__len__`, a stream that has no indices at all?


# %% facts=["11-custom-dataset-must-inherit", "11-dataset-is-torchvision-class"]
class Tens:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return 10 * index


class WithoutLength(Dataset):
    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


for data in ([5, 6, 7], Tens(), Stream()):
    print(f"{type(data).__name__:8}{[batch.tolist() for batch in DataLoader(data, batch_size=2)]}")

error_of(lambda: DataLoader(WithoutLength(), shuffle=True))
error_of(lambda: DataLoader(Stream(), shuffle=True))
error_of(lambda: Dataset()[0])

# %% [markdown]
# Anything with `__len__` and `__getitem__` will do; a list is a dataset. Inheriting from `Dataset` is recommended,
# since it says what is meant, but nothing enforces it. An `IterableDataset` only yields samples; it can't be shuffled
# by the loader, because there is nothing to index. The datasets of torchvision are further examples, no condition.

# %% [markdown]
# **Predict.** 80, 10 and 10 per cent of 528 colours, split at random. How many are in each part, and is any colour in
# two parts?


# %% facts=["11-train-valid-test-split"]
def split() -> list:
    return random_split(range(528), [0.8, 0.1, 0.1], generator=torch.Generator().manual_seed(0))


train, valid, test = split()
print("sizes", len(train), len(valid), len(test))
print("in two parts:", len(train) + len(valid) + len(test) - len({*train, *valid, *test}))
print("the same split again:", list(split()[2]) == list(test))

# %% [markdown]
# What doesn't divide evenly is dealt out from the first part on. Give `random_split` a generator: a split that
# differs from run to run lets the model meet yesterday's test data in today's training. For the same reason means and
# other statistics for preparing data are computed on the training part alone.

# %% [markdown]
# ### Samples of different length
#
# **Predict.** The names of colours as sequences of letters, one number for each letter. What does the default collate
# make of them?

# %%
words = ("red", "green", "pink")
letters = [(torch.tensor([ord(letter) - 96 for letter in word]), number) for number, word in enumerate(words)]


def as_tuples(samples: list) -> tuple:
    return tuple(zip(*samples, strict=True))


error_of(lambda: next(iter(DataLoader(letters, batch_size=3))))
x, y = next(iter(DataLoader(letters, batch_size=3, collate_fn=as_tuples)))
print([len(word) for word in x], y)

# %% [markdown]
# It can only stack what has one shape. A `collate_fn` of your own gets the list of samples and may return anything:
# here tuples of tensors as they are. To compute with the batch as one tensor, shorter samples are *padded* to the
# longest one of the batch, and a mask says which steps are real. The mask must come from the lengths: a value in the
# data may equal the padding.
#
# The explorer shows which samples come together, and what that costs. Sort the lengths in the text field and watch
# how much less is padded; then shuffle.

# %%
batch_anatomy_explorer()

# %% [markdown]
# ### Exercise 11.3 · Batches of sequences of different length
#
# implement · solid · 15 min · 2 points
#
# Sentences and recordings differ in length, and the default collate function can't stack them. Write one that fills
# them up to a common length and says which steps are real.
#
# **Contract**
#
# - Each sample is a pair (sequence of shape (T_i, ...), label). Returns a dict with exactly these tensors: `x`
#   (N, T, ...), where T is the longest of the batch; `mask` (N, T), bool; `length` (N,), int64; `label` (N,), int64.
# - Real steps come first, the rest of `x` is `pad_value`. `mask` is True on real steps, also where the data happen to
#   equal `pad_value`. `x` has the dtype of the samples: int64 stays int64.
# - Sequences of length 0 are allowed, also if all of them are. The samples are not changed, and the result shares no
#   memory with them.
# - An empty batch, and samples that differ in dtype or in a dimension other than the first, raise ValueError.
#
# <details><summary>Hint 1</summary>
#
# Can you find out afterwards which zeros are padding? What dtype does `torch.zeros` have?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The lengths first; then `new_full((N, T, *rest), pad_value)` of the first sequence; copy row by row; and the mask is
# `torch.arange(T) < length[:, None]`.
#
# </details>


# %% answer="pad-collate"
def pad_collate(batch: list[tuple[Tensor, int]], pad_value: float = 0) -> dict[str, Tensor]:
    """A padded batch with its mask; x: (N, T, ...), mask: (N, T) bool, length and label: (N,) int64."""
    ### BEGIN SOLUTION
    if not batch:
        raise ValueError("an empty batch")
    sequences = [sequence for sequence, _ in batch]
    first = sequences[0]
    if any(s.shape[1:] != first.shape[1:] or s.dtype != first.dtype for s in sequences):
        raise ValueError("the samples differ in dtype or in a dimension other than the first")
    length = torch.tensor([len(sequence) for sequence in sequences])
    longest = int(length.max())
    x = first.new_full((len(batch), longest, *first.shape[1:]), pad_value)
    for row, sequence in zip(x, sequences, strict=True):
        row[: len(sequence)] = sequence
    label = torch.tensor([label for _, label in batch])
    return {"x": x, "mask": torch.arange(longest) < length[:, None], "length": length, "label": label}
    ### END SOLUTION


# %% check="pad-collate" points=2
"""Padding, mask, lengths and labels; dtypes are kept; nothing of the samples is changed or shared."""
with check("pad-collate") as test:

    def padded(batch, pad_value=0):
        """The batch as it should be, number by number."""
        sequences, labels = zip(*batch, strict=True)
        longest = max(len(s) for s in sequences)
        x = torch.empty(len(batch), longest, *sequences[0].shape[1:], dtype=sequences[0].dtype)
        mask = torch.empty(len(batch), longest, dtype=torch.bool)
        for n, sequence in enumerate(sequences):
            for t in range(longest):
                x[n, t] = sequence[t] if t < len(sequence) else pad_value
                mask[n, t] = t < len(sequence)
        lengths = torch.tensor([len(s) for s in sequences])
        return {"x": x, "mask": mask, "length": lengths, "label": torch.tensor(labels)}

    def same(a, b):
        """Whether two tensors have the same shape and values."""
        close = isinstance(a, Tensor) and a.shape == b.shape
        return close and bool(((a == b) | ((a != a) & (b != b))).all())

    def moved(wanted):
        """The batch with the padding in front."""
        return torch.stack([x[m.argsort(stable=True)] for x, m in zip(wanted["x"], wanted["mask"], strict=True)])

    def part(seen, key):
        """A part of the result, or None."""
        return seen.value.get(key) if isinstance(seen.value, dict) else None

    def mistakes_for(wanted, pad_value):
        """What may be wrong, for a batch as it should be."""
        x, mask = wanted["x"], wanted["mask"]
        from_values = x != pad_value
        while from_values.dim() > 2:
            from_values = from_values.any(-1)
        return (
            mistake(
                "Return a dict with exactly x, mask, length and label: {detail}.",
                when=lambda seen: not isinstance(seen.value, dict) or set(seen.value) != set(wanted),
            ),
            mistake("The mask must be True on real steps.", when=lambda seen: same(part(seen, "mask"), ~mask)),
            mistake(
                "The mask was read off the values (x != pad_value): real data may contain that value. "
                "Build it from the lengths.",
                when=lambda seen: same(part(seen, "mask"), from_values) and not same(from_values, mask),
            ),
            mistake(
                "The mask is a bool tensor of shape (N, T).",
                when=lambda seen: part(seen, "mask").dtype != torch.bool or part(seen, "mask").shape != mask.shape,
                stage=("dtype", "type"),
            ),
            mistake(
                "The dtype changed: torch.zeros is float32 - use new_full / new_zeros of a sample.",
                when=lambda seen: part(seen, "x").dtype != x.dtype,
                stage="dtype",
            ),
            mistake(
                "Sequences were cut to the shortest one.",
                when=lambda seen: same(part(seen, "x"), x[:, : wanted["length"].min()]) and not mask.all(),
            ),
            mistake(
                "Real steps come first, padding after them.",
                when=lambda seen: same(part(seen, "x"), moved(wanted)) and not same(moved(wanted), x),
            ),
            mistake(
                "The padding is not pad_value.",
                when=lambda seen: (
                    part(seen, "x").shape == x.shape
                    and same(part(seen, "x")[mask], x[mask])
                    and not same(part(seen, "x"), x)
                ),
                stage="value",
            ),
            mistake(
                "The mask of row i is True on its first length[i] steps, and only there.",
                when=lambda seen: same(part(seen, "x"), x) and not same(part(seen, "mask"), mask),
                stage="value",
            ),
            mistake(
                "Lengths and labels are int64 tensors of shape (N,).",
                when=lambda seen: any(
                    not isinstance(part(seen, key), Tensor)
                    or part(seen, key).dtype != torch.int64
                    or part(seen, key).shape != wanted[key].shape
                    for key in ("length", "label")
                ),
            ),
        )

    shares = "The result shares memory with a sample, or a sample was changed."

    def judge(batch, *mistakes, **options):
        """The result is the padded batch; the samples are as before, in memory of their own."""
        wanted = padded(batch, **options)
        seen = observe(pad_collate, batch, **options)
        seen.expecting(*mistakes, *mistakes_for(wanted, options.get("pad_value", 0)))
        seen.returns(wanted)
        seen.leaves_arguments_alone(because=shares)
        samples = [sequence.untyped_storage()._cdata for sequence, _ in next(iter(seen.noted.arguments.values()))]
        own = seen.value["x"].untyped_storage()._cdata not in samples or not seen.value["x"].numel()
        seen.that(own, shares, stage="aliasing")

    def sequence(length, *rest, dtype=torch.float32, start=1):
        """Numbers from start on, none of them 0."""
        count = torch.Size((length, *rest)).numel()
        return torch.arange(start, start + count).reshape(length, *rest).to(dtype)

    test("three lengths, two features for each step")
    judge([(sequence(3, 2), 1), (sequence(5, 2, start=20), 0), (sequence(2, 2, start=50), 2)])

    test("token ids, another pad value")
    ids = [sequence(2, dtype=torch.int64), sequence(4, dtype=torch.int64, start=7)]
    judge([(ids[0], 3), (ids[1], -1)], pad_value=-100)
    judge([(ids[1], 3), (ids[0], 5)])

    test("real steps that equal the pad value")
    judge([(torch.tensor([4, 0, 0]), 0), (torch.tensor([0, 9, 7, 0, 0]), 1)])
    judge([(torch.tensor([[1.0, 1.0], [2.0, 1.0]]), 0), (torch.tensor([[1.0, 1.0]]), 1)], pad_value=1.0)

    ### BEGIN HIDDEN TESTS
    allowed = mistake("A sequence of length 0 must be allowed.", stage=("raised", "shape", "value", "dtype"))
    test.hidden("sequences of length 0")
    judge([(sequence(0, 3), 1), (sequence(2, 3), 0)], allowed)
    judge([(sequence(2), 1), (sequence(0), 0), (sequence(1), 5)], allowed, pad_value=-1)
    judge([(sequence(0, 3), 1), (sequence(0, 3), 0)], allowed)
    judge([(sequence(0, dtype=torch.int64), 4)], allowed)

    test.hidden("a single sample, samples of one length: memory of their own")
    judge([(sequence(3, 2), 7)])
    judge([(sequence(4, dtype=torch.int64), 2)], pad_value=9)
    judge([(sequence(3, 2), 0), (sequence(3, 2, start=10), 1)])

    test.hidden("other dtypes and more dimensions")
    judge([(sequence(2, 2, 3, dtype=torch.float64), 0), (sequence(1, 2, 3, dtype=torch.float64), 1)], pad_value=-0.1)
    judge([(torch.tensor([True, False, True]), 0), (torch.tensor([True]), 1)])
    judge([(torch.tensor([False, True, False]), 0), (torch.tensor([False]), 1)], pad_value=True)
    judge([(sequence(1, 2, dtype=torch.uint8), 0), (sequence(3, 2, dtype=torch.uint8), 2**40)], pad_value=255)
    judge([(sequence(2, dtype=torch.bfloat16), 0), (sequence(1, dtype=torch.bfloat16), 1)], pad_value=torch.inf)
    judge([(sequence(1), 0), (sequence(2), 1)], pad_value=torch.nan)
    judge([(sequence(5, 3).t(), 0), (sequence(8, 5)[::4], 1)])
    judge([(sequence(2, 0), 0), (sequence(3, 0), 1)])

    invalid = "An empty batch, other trailing dimensions or other dtypes must raise ValueError."
    for idea, parts in [
        ("an empty batch", []),
        ("trailing dimensions that differ", [sequence(3, 2), sequence(2, 4)]),
        ("trailing dimensions that differ", [sequence(3, 2), sequence(2, 1)]),
        ("trailing dimensions that differ", [sequence(2, 1), sequence(3, 2)]),
        ("trailing dimensions that differ", [sequence(2, 3), sequence(2, 3), sequence(2)]),
        ("trailing dimensions that differ", [sequence(3), sequence(2, 3)]),
        ("trailing dimensions that differ", [sequence(3), sequence(3, 1)]),
        ("trailing dimensions that differ", [sequence(2, 2, 3), sequence(2, 1, 3)]),
        ("trailing dimensions that differ", [sequence(2, 2, 3), sequence(2, 2, 1)]),
        ("trailing dimensions that differ", [sequence(2, 3, 2), sequence(2, 2, 3)]),
        ("trailing dimensions that differ", [sequence(0, 5), sequence(3, 2)]),
        ("dtypes that differ", [sequence(3), sequence(2, dtype=torch.int64)]),
        ("dtypes that differ", [sequence(3, dtype=torch.int64), sequence(2, dtype=torch.int64), sequence(1)]),
        ("dtypes that differ", [sequence(3), sequence(2, dtype=torch.float64)]),
        ("dtypes that differ", [sequence(3), sequence(0, dtype=torch.float64)]),
    ]:
        test.hidden(idea)
        seen = observe(pad_collate, [(part, n) for n, part in enumerate(parts)])
        seen.raises(ValueError, because=invalid)

    def loaded(pad_collate, samples, batch_size):
        """The batches of a DataLoader that collates with the answer."""
        return list(DataLoader(samples, batch_size=batch_size, collate_fn=pad_collate))

    test.hidden("through a DataLoader")
    samples = [(sequence(n, 2, start=10 * n + 1), n) for n in (3, 1, 4, 2, 5)]
    seen = observe_scenario(loaded, pad_collate, samples, 2)
    seen.returns([padded(samples[:2]), padded(samples[2:4]), padded(samples[4:])])
    ### END HIDDEN TESTS

# %% [markdown]
# ### Workers are processes
#
# `num_workers` says how many processes read the data: with 0, the default, the main process does it itself; with 1
# there is already a second process. The next cell writes a small script and runs it, so that the processes are not
# mixed up with those of this notebook.
#
# **Predict.** Two workers read four samples in batches of two, for two epochs. In which order do the batches arrive,
# and who has read which? The dataset draws noise from a generator of its own, made in `__init__`, and from torch's
# global one: which of the two repeats itself? And how often does each number of a stream arrive?

# %% facts=["11-dataloader-num-workers"]
SCRIPT = """
import os, random, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

class Noisy(Dataset):
    def __init__(self):
        self.own = random.Random(0)
    def __len__(self):
        return 4
    def __getitem__(self, index):
        noise = self.own.randrange(100), torch.randint(100, ()).item()
        return index, get_worker_info().id, os.getpid(), *noise

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))

def new_generator(worker):
    get_worker_info().dataset.own = random.Random(torch.initial_seed())

if __name__ == "__main__":
    torch.manual_seed(0)
    for name, init in (("as it is:", None), ("with worker_init_fn:", new_generator)):
        print(name)
        loader = DataLoader(Noisy(), batch_size=2, num_workers=2, worker_init_fn=init)
        for epoch in range(2):
            for index, worker, pid, own, torchs in loader:
                where = "main process" if os.getpid() in pid.tolist() else f"worker {worker[0]}"
                print(f"epoch {epoch}, samples {index.tolist()}, {where}:",
                      f"own {own.tolist()!s:9} torch's {torchs.tolist()}")
    print("stream:", list(DataLoader(Stream(), batch_size=None, num_workers=2)))
"""


def run_script(text: str, *arguments: str) -> subprocess.CompletedProcess:
    """Write the text to a file, train.py, and run it as a script of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-X", "utf8", path, *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)


print(run_script(SCRIPT).stdout.strip())

# %% [markdown]
# Workers take turns, a batch each, and the loader hands the batches out in order, whoever is faster: with the same
# seeds the result is the same. It depends on the *number* of workers, though, since that decides who draws what.
#
# Each worker is a copy of the process, made anew for each epoch (unless `persistent_workers=True`). torch's,
# Python's and NumPy's global generators are seeded afresh in each worker, from the loader's seed and the worker's
# number. A generator that you keep in the dataset is copied like everything else: both workers draw the same
# "random" numbers, and in the next epoch once more. So all that augmentation does is repeat itself.
# `worker_init_fn` is called in each worker at its start; there one can make a new generator from the worker's seed.
# A stream is copied, too: it arrives once from each worker unless its `__iter__` asks `get_worker_info()` for its
# share.

# %% [markdown]
# **Predict.** The class of a dataset is defined in a cell of a notebook. Does a worker find it? A process can be
# started in two ways: *fork* copies the running process, *spawn* starts a fresh Python. The program below is handed
# to Python as a string; like a notebook, it isn't a file that could be imported.

# %% facts=["11-dataloader-num-workers"]
AS_IN_A_NOTEBOOK = """
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return index * index

for method in ("fork", "spawn"):
    try:
        loader = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context=method)
        print(f"{method:6}", [batch.tolist() for batch in loader])
    except RuntimeError as error:
        print(f"{method:6} RuntimeError:", str(error).partition("(")[0] + "... exited unexpectedly")
"""

done = subprocess.run([sys.executable, "-c", AS_IN_A_NOTEBOOK], capture_output=True, text=True, timeout=120)
print(done.stdout.strip())
if "Can't get attribute 'Squares'" in done.stderr:
    print("       in the worker: AttributeError: Can't get attribute 'Squares' ...")

# %% [markdown]
# A forked worker has everything that the notebook has. A spawned one gets the dataset in pickled form, and a pickle
# holds only the *name* of a class; the fresh Python looks it up and finds nothing. On macOS and Windows spawn is the
# usual way, and from Python 3.14 on Linux doesn't fork by default either. So put datasets that workers shall read
# into a file, import them, and in scripts keep the main program under `if __name__ == "__main__":`, since a spawned
# worker imports the script once more. A collate function must be importable as well: a lambda can't be pickled.

# %% [markdown]
# ## 11.4 Evaluate
#
# An evaluation loop looks like a training loop with three lines fewer. What can be wrong in it? The model below is
# trained for a few epochs; then its dropout is switched on, and it is evaluated in several ways.
#
# **Predict.** The loss over all 528 colours, computed twice in train mode and twice in eval mode, without a graph.
# Which of the four numbers agree? And does an evaluation change the model?

# %% facts=["11-dropout-scales-data"]
torch.manual_seed(0)
body = nn.Linear(3, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.0)
model = nn.Sequential(*body, nn.Linear(32, len(FAMILIES)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(5):
    for x, y in DataLoader(TensorDataset(colours, families), batch_size=64, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
model[3].p = 0.5

for training in (True, False):
    model.train(training)
    mean_before = model[1].running_mean.clone()
    with torch.no_grad():
        first, second = F.cross_entropy(model(colours), families), F.cross_entropy(model(colours), families)
    moved = not torch.equal(mean_before, model[1].running_mean)
    mode = "train mode:" if training else "eval mode:"
    print(f"{mode:12}twice the same loss: {first == second}, batch norm's statistics moved: {moved}")

# %% [markdown]
# In train mode half of the hidden numbers are dropped, others each time, and batch norm looks at the other samples of
# the batch. And it writes: evaluating in train mode *changes the model*, `no_grad` or not. `model.eval()` switches
# both off. It doesn't switch off the graph; that is what `no_grad` is for, and neither replaces the other.

# %% [markdown]
# **Predict.** The colours sorted by how large their loss is, in batches of 500: one of 500, one of 28. Is the mean of
# the two batch losses the mean loss?

# %% facts=["11-loss-vs-cost-function"]
model.eval()
with torch.no_grad():
    each = F.cross_entropy(model(colours), families, reduction="none")
    hardest_last = each.argsort()
    losses, total, count = [], 0.0, 0
    for x, y in DataLoader(TensorDataset(colours[hardest_last], families[hardest_last]), batch_size=500):
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item())
        total, count = total + loss.item() * len(y), count + len(y)

print("batch losses:      ", [round(loss, 1) for loss in losses])
print(f"mean of the batches {sum(losses) / len(losses):.1f}")
print(f"mean of the samples {total / count:.1f}")
print(f"in one go           {each.mean():.1f}")

# %% [markdown]
# The 28 samples of the small batch count as much as the other 500. Multiply each batch's mean by its number of
# samples, and divide by the number of all samples at the end. (If a loss has weights for classes, or ignores labels,
# its mean divides by something else, and so must you.)

# %% [markdown]
# **Predict.** `total += loss` instead of `total += loss.item()`, without `no_grad`. What does `total` hold on to
# after three batches?

# %%
x, y = colours[:64], families[:64]
total = 0.0
for batch in range(3):
    total = total + F.cross_entropy(model(x), y)
    nodes, to_visit = set(), [total.grad_fn]
    while to_visit:
        node = to_visit.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            to_visit += [parent for parent, _ in node.next_functions]
    print(f"after batch {batch + 1}: a {type(total).__name__}, its graph has {len(nodes)} nodes")

with torch.no_grad():
    total = F.cross_entropy(model(x), y).item()
print("with no_grad and item():", type(total).__name__)

# %% [markdown]
# The graphs of all batches, with all that they have saved. Memory grows with every batch, until it is full.
# `torch.no_grad()` records nothing, and `.item()` makes a Python number. (On a GPU `item()` waits for the device;
# there, add up detached tensors and call it once, at the end.)

# %% [markdown]
# **Predict.** A frozen batch norm layer is kept in eval mode while the rest trains. An evaluation function calls
# `model.eval()` at its start and `model.train()` at its end. What has it changed? And if the loss raises in between?

# %%
model.train()
model[1].eval()


def flags() -> list[bool]:
    return [module.training for module in model]


print("before:                  ", flags())
model.eval()
model.train()
print("eval(), then train():    ", flags())

model[1].eval()


def interrupted_evaluation() -> None:
    model.eval()
    F.cross_entropy(model(colours[:4]), families[:3])
    model.train()


error_of(interrupted_evaluation, lines=1)
print("after the error:         ", flags())

# %% [markdown]
# `train()` sets the flag of *every* submodule; the frozen layer is thawed and drifts in the next epoch. And after an
# error the model stays in eval mode, so that training goes on without dropout. The flags that were there before have
# to be remembered one by one and put back in a `finally`.

# %% [markdown]
# ### Exercise 11.4 · Six faults in an evaluation loop
#
# fix · solid · 15 min · 2 points
#
# This loop runs, and its numbers look plausible. Six things are wrong with it. Repair `evaluate`.
#
# **Contract**
#
# - `loader` is any iterable of pairs (inputs, labels), a generator perhaps; `loss_fn(outputs, labels)` averages over
#   its batch. Returns loss and accuracy *per sample* over the whole loader, two Python floats, whatever the batch
#   sizes are.
# - The model runs in eval mode and no graph is recorded. No parameter, gradient or buffer changes.
# - Afterwards every submodule has the training flag that it had before (a frozen batch norm stays in eval mode), also
#   when something in the loop raises; that exception goes on to the caller. Gradients are recorded as before, too.
# - A loader without a sample raises ValueError.
#
# <details><summary>Hint 1</summary>
#
# How do the layers that behave differently in training know that this is an evaluation? Which batch counts too much
# in a mean of batch means?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Remember the flag of every module, then `model.eval()` and `torch.no_grad()`. Add up loss times len(y) and the
# number of hits, and divide by the number of samples. Restore the flags one by one in `finally`.
#
# </details>


# %% answer="evaluate-loop"
def evaluate(
    model: nn.Module, loader: Iterable[tuple[Tensor, Tensor]], loss_fn: Callable[[Tensor, Tensor], Tensor]
) -> tuple[float, float]:
    """Mean loss and accuracy per sample of a classifier; model maps (B, ...) to logits (B, C), labels are (B,)."""
    ### BEGIN SOLUTION
    flags = [(module, module.training) for module in model.modules()]
    loss, hits, count = 0.0, 0, 0
    try:
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                out = model(x)
                loss += loss_fn(out, y).item() * len(y)
                hits += (out.argmax(1) == y).sum().item()
                count += len(y)
    finally:
        for module, training in flags:
            module.training = training
    if not count:
        raise ValueError("the loader holds no sample")
    return loss / count, hits / count
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # losses, accs = [], []
    # for x, y in loader:
    #     out = model(x)
    #     losses.append(loss_fn(out, y))
    #     accs.append((out.argmax(1) == y).float().mean())
    # return sum(losses) / len(losses), sum(accs) / len(accs)
    ### END GIVEN


# %% check="evaluate-loop" points=2
"""Loss and accuracy per sample, in eval mode, without a graph; afterwards all is as before."""
with check("evaluate-loop") as test:

    class Notes(list):
        """A list that a copy of its owner shares."""

        def __deepcopy__(self, memo):
            return self

    class Classifier(nn.Module):
        """Batch norm, dropout and a linear layer with fixed weights; notes how it is run."""

        def __init__(self):
            super().__init__()
            self.norm, self.drop, self.last = nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3)
            self.body = nn.Sequential(self.norm, self.drop)
            self.runs = []
            with torch.no_grad():
                self.norm.running_mean.copy_(torch.tensor([0.25, -0.5, 0.0]))
                self.norm.running_var.copy_(torch.tensor([0.25, 1.0, 4.0]))
                self.last.weight.copy_(torch.tensor([[1.0, -0.5, 0.25], [-0.75, 0.5, 1.0], [0.5, 1.0, -0.5]]))
                self.last.bias.copy_(torch.tensor([0.1, 0.0, -0.2]))

        def forward(self, x):
            out = self.last(self.body(x))
            training = any(module.training for module in self.modules())
            self.runs.append({"training": training, "graph": out.requires_grad})
            if len(x) == 13:
                raise ArithmeticError("thirteen samples")
            return out

    def flags_of(model):
        """The training flag of every module, by name."""
        return {name: module.training for name, module in model.named_modules()}

    def state_of(model):
        """Copies of parameters, their flags and gradients, and of buffers."""
        found = {}
        for name, p in model.named_parameters():
            found[name] = [p.detach().clone(), p.requires_grad, None if p.grad is None else p.grad.clone()]
        return found | {name: [buffer.clone(), False, None] for name, buffer in model.named_buffers()}

    def same_state(a, b):
        """Whether nothing has changed."""
        for name, (values, flag, grad) in a.items():
            now, now_flag, now_grad = b[name]
            same_grad = now_grad is None if grad is None else now_grad is not None and torch.equal(grad, now_grad)
            if not (torch.equal(values, now) and flag == now_flag and same_grad):
                return False
        return True

    def failing(batches):
        """A loader that raises at its end."""
        yield from batches
        raise LookupError("no more batches")

    def loss_of(kind):
        """A loss function that averages over its batch, or raises."""

        def loss_fn(out, y):
            if kind == "raises":
                raise ZeroDivisionError("a loss that can't be computed")
            if kind == "squares":
                return (out[:, 0] - y).square().mean()
            return (out.logsumexp(1) - out.gather(1, y[:, None])[:, 0]).mean()

        return loss_fn

    def evaluated(evaluate, batches, modes, kind="list", loss="cross entropy", may_raise=False):
        """Evaluate a classifier whose modules are in the given modes; what came, and what is different afterwards."""
        model = Classifier()
        model.runs = Notes()
        for name, module in model.named_modules():
            module.training = modes.get(name, modes["all"])
        model.last.weight.grad = torch.full((3, 3), 0.5)
        model.norm.weight.requires_grad_(False)
        pairs = {"list": list, "generator": iter, "fails": failing}[kind]([tuple(pair) for pair in batches])
        flags, state, raised, came = flags_of(model), state_of(model), "nothing", None
        try:
            came = evaluate(model, pairs, loss_of(loss))
        except Exception as error:
            if not may_raise:
                raise
            raised = type(error).__name__
        recording = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        is_pair = isinstance(came, (tuple, list)) and len(came) == 2
        return {
            "raised": raised,
            "pair": is_pair,
            "floats": is_pair and all(isinstance(value, float) for value in came),
            "values": [float(value) for value in came] if is_pair and all(isinstance(v, float) for v in came) else [],
            "runs": list(model.runs),
            "before": flags,
            "after": flags_of(model),
            "recording": recording,
            "same state": same_state(state, state_of(model)),
        }

    everything = {"all": True}
    left_in_eval = "The model is still in eval mode afterwards: the next epoch trains without dropout."
    thawed = (
        "model.train() at the end switched on what was in eval mode before: the whole model, or a frozen layer. "
        "Restore each flag."
    )

    def judge_flags(seen, *mistakes):
        """Flags and recording are as before."""
        before, after = seen["before"], seen["after"]
        seen.that(
            before == after,
            "A training flag is not the one from before. Restore the flag of each module.",
            *mistakes,
            mistake(left_in_eval, when=lambda seen: not any(after.values())),
            mistake(thawed, when=lambda seen: all(after.get(name) for name in before if before[name])),
            stage="arguments",
        )
        seen.that(seen["recording"], "Afterwards no gradients are recorded any more.", *mistakes, stage="arguments")

    def judge_run(seen):
        """Two floats came, from a run in eval mode without a graph."""
        seen.that(seen["pair"], "Return two numbers: the loss and the accuracy.", stage="type")
        seen.that(
            seen["floats"],
            "Return Python floats; tensors keep their storage (and their graph) alive.",
            stage="type",
        )
        seen.that(
            len(seen["runs"]) > 0, "The model never ran. A generator can be gone through only once.", stage="rule"
        )
        seen.that(
            not any(run["training"] for run in seen["runs"]),
            "Dropout or batch norm ran in train mode: the numbers depend on chance or on the other samples of the "
            "batch.",
            stage="rule",
        )
        seen.that(
            not any(run["graph"] for run in seen["runs"]),
            "A graph was recorded: memory grows with every batch. Use no_grad.",
            stage="rule",
        )

    def near(a, b):
        return len(a) == len(b) and all(abs(x - y) < 2e-4 for x, y in zip(a, b, strict=True))

    batch_means = "Mean of batch means: the smaller last batch counts too much."
    x = ((torch.arange(150) * 37 % 101) / 50 - 1).reshape(50, 3)
    y = torch.tensor([int(digit) for digit in "01111020000111102000011110200001222001110222200111"])

    test("50 samples in batches of 32 and 18")
    batches = [(x[:32], y[:32]), (x[32:], y[32:])]
    seen = observe_scenario(evaluated, evaluate, batches, everything)
    judge_run(seen)
    for place, name, wanted, of_means in ((0, "loss", 1.21235, 1.39612), (1, "accuracy", 0.58, 0.46528)):
        seen.that(
            abs(seen["values"][place] - wanted) < 2e-4,
            f"The {name} is {wanted:.4f} here, and you return {seen['values'][place]:.4f}.",
            mistake(batch_means, when=lambda seen, p=place, m=of_means: abs(seen["values"][p] - m) < 2e-4),
        )

    test("afterwards the flags are as before, for a model in train mode and for one in eval mode")
    judge_flags(seen)
    seen = observe_scenario(evaluated, evaluate, batches, {"all": False})
    judge_run(seen)
    judge_flags(seen)

    ### BEGIN HIDDEN TESTS
    def expected(batches, loss):
        """Loss and accuracy over all samples at once."""
        model = Classifier().eval()
        inputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
        with torch.no_grad():
            out = model(inputs)
            value = loss_of(loss)(out, labels)
        return [value.item(), (out.argmax(1) == labels).float().mean().item()]

    def cut(*sizes):
        """Batches of these sizes, in order."""
        places = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
        return [(x[a:b], y[a:b]) for a, b in pairwise(places)]

    test.hidden("a frozen batch norm stays frozen")
    for modes in (
        {"all": True, "norm": False},
        {"all": True, "body": False, "norm": False, "drop": False},
        {"all": False, "last": True},
        {"all": True, "": False},
        {"all": False, "": True, "drop": True},
    ):
        seen = observe_scenario(evaluated, evaluate, cut(20, 7), modes)
        judge_run(seen)
        judge_flags(seen)

    for idea, sizes, kind, loss in [
        ("a generator, which has no length", (10, 10, 3), "generator", "cross entropy"),
        ("batches of very different size", (1, 40, 2, 7), "list", "cross entropy"),
        ("another loss", (5, 12, 1), "generator", "squares"),
        ("a single sample", (1,), "list", "cross entropy"),
        ("one batch", (50,), "list", "cross entropy"),
    ]:
        test.hidden(idea)
        some_batches = cut(*sizes)
        seen = observe_scenario(evaluated, evaluate, some_batches, everything, kind, loss)
        seen.expecting(mistake("The loader may be a generator, which has no len().", raises="has no len"))
        judge_run(seen)
        single = [expected([batch], loss) for batch in some_batches]
        of_means = [sum(values) / len(single) for values in zip(*single, strict=True)]
        seen.that(
            near(seen["values"], expected(some_batches, loss)),
            "Loss or accuracy is not the mean over the samples.",
            mistake(
                batch_means,
                when=lambda seen, m=of_means: any(abs(a - b) < 1e-4 for a, b in zip(seen["values"], m, strict=True)),
            ),
        )
        judge_flags(seen)
        seen.that(
            seen["same state"],
            "A parameter, a gradient or a buffer of the model has changed: an evaluation leaves all of them alone.",
            stage="arguments",
        )

    exception = mistake("After an exception the flags were not restored: use finally.", stage="arguments")
    for idea, modes, sizes, kind, loss, raised in [
        ("a loss that raises", everything, (8, 8, 8), "list", "raises", "ZeroDivisionError"),
        ("a loss that raises", {"all": True, "norm": False}, (8, 8), "generator", "raises", "ZeroDivisionError"),
        ("a model that raises", everything, (8, 13), "list", "cross entropy", "ArithmeticError"),
        ("a loader that raises", everything, (8, 9), "fails", "cross entropy", "LookupError"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(evaluated, evaluate, cut(*sizes), modes, kind, loss, True)
        lost = "An exception of the loss, the model or the loader must go on to the caller."
        seen.that(seen["raised"] == raised, lost, stage="raised")
        judge_flags(seen, exception)

    test.hidden("an empty loader")
    for kind in ("list", "generator"):
        seen = observe_scenario(evaluated, evaluate, [], everything, kind, "cross entropy", True)
        empty = "An empty loader must raise ValueError instead of dividing by zero."
        seen.that(seen["raised"] == "ValueError", empty, stage="raised")
        judge_flags(seen, exception)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 11.5 Optimizers
#
# **Predict.** A parameter at 0, learning rate 0.1, and a gradient of 0.01 or of 5. How far does the first step of SGD
# go, and how far that of Adam?


# %% facts=["11-optimizer-from-parameters"]
def first_step(optimizer_class, gradient: float, **options) -> float:
    p = nn.Parameter(torch.zeros(1))
    optimizer = optimizer_class([p], **options)
    p.grad = torch.tensor([gradient])
    optimizer.step()
    return p.item()


for gradient in (0.01, 5.0):
    sgd, adam = first_step(torch.optim.SGD, gradient, lr=0.1), first_step(torch.optim.Adam, gradient, lr=0.1)
    print(f"gradient {gradient:4}: SGD {sgd:7.4f}, Adam {adam:7.4f}")
print(f"SGD without lr, gradient 5: {first_step(torch.optim.SGD, 5.0):.4f}")

# %% [markdown]
# A step of SGD is -lr · gradient. Adam divides by the root of a running mean of squared gradients; in the first step
# that is the gradient's own size, and what is left is its sign. So a learning rate for Adam is a *distance*, about
# how far a weight may move in a step, and one for SGD is a factor. The same number means different things to the two,
# and multiplying the loss by 100 changes SGD's step but hardly Adam's. Without `lr` both take 1e-3.

# %% [markdown]
# **Predict.** SGD on w², from w = 1, fifty steps. For which of the rates 0.001, 0.1, 0.9 and 1.1 does it arrive?

# %% facts=["11-learning-rate-controls-step"]
for lr in (0.001, 0.1, 0.9, 1.1):
    w = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([w], lr=lr)
    for _ in range(50):
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()
    print(f"lr {lr:5}: |w| = {abs(w.item()):.1g}")

# %% [markdown]
# Each step multiplies w by 1 - 2·lr. That shrinks as long as lr is below 1; a small rate is safe but slow, and just
# above the limit everything explodes. With several weights the *steepest* direction sets the limit, and the flat ones
# have to live with it.
#
# The explorer shows this on a bowl whose curvature is 1 along x and c along y, with its minimum at (1, 1). It opens
# with SGD, c = 10 and a rate just below the limit 2/c = 0.2. Move the rate up one notch: it diverges. Then choose
# Adam and a rate of 0.1, and look at its first step, which goes equally far in both directions. Last, go back to SGD
# and keep the rate of 0.1: a momentum of 0.5 arrives much sooner. With a weight decay of 0.5, too, the path ends
# nearer to the origin than the minimum is.

# %% facts=["11-learning-rate-controls-step", "11-optimizer-from-parameters"]
optimizer_explorer()

# %% [markdown]
# **Predict.** Two groups of parameters, one with a learning rate of its own. Then `optimizer.defaults["lr"]` is set
# to 9, and the second group's rate to 0.25. All gradients are 1. How far do the parameters move?

# %% facts=["11-optimizer-param-groups", "11-optimizer-defaults"]
a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([{"params": [a], "lr": 0.1}, {"params": [b]}], lr=0.5, momentum=0.9)

for group in optimizer.param_groups:
    print({key: group[key] for key in ("lr", "momentum", "weight_decay")}, "parameters:", len(group["params"]))

optimizer.defaults["lr"] = 9.0
optimizer.param_groups[1]["lr"] = 0.25
a.grad, b.grad = torch.ones(1), torch.ones(1)
optimizer.step()
print(f"a {a.item():.2f}, b {b.item():.2f}")

# %% [markdown]
# The settings in use stand in the groups, one dictionary each. `defaults` is only the template that fills in what a
# group didn't say when it was *added*; changing it later changes nothing for the groups that are there. To change a
# rate during training write to `param_groups[i]["lr"]`; that is what schedulers do.

# %% [markdown]
# **Predict.** Momentum remembers earlier gradients. With momentum 0.5 and gradients of 1, what is remembered after
# one, two and three steps? And may a parameter be added to a second group?

# %% facts=["11-optimizer-state", "11-optimizer-step-and-add-group"]
p = nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([p], lr=1.0, momentum=0.5)
print("before the first step:", dict(optimizer.state))
for _ in range(3):
    p.grad = torch.ones(1)
    optimizer.step()
    print("buffer", optimizer.state[p]["momentum_buffer"].item(), " p", p.item())

error_of(lambda: optimizer.add_param_group({"params": [p], "lr": 0.1}))
optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.1})
print("rates of the groups:", [group["lr"] for group in optimizer.param_groups])

# %% [markdown]
# `optimizer.state` holds a dictionary for each parameter, empty until its first step. Momentum is one running buffer,
# 0.5 · buffer + gradient, not a list of gradients; Adam has two such buffers and a step count. The key is the
# parameter *object*. That is why an optimizer built before a layer is replaced goes on training the old layer
# (section 11.7).

# %% [markdown]
# **Predict.** The state of an optimizer with lr 0.5 is loaded into a new one with lr 0.001. Which rate holds?

# %% facts=["11-optimizer-state-dict"]
old_p, new_p = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
old = torch.optim.SGD([old_p], lr=0.5, momentum=0.9)
old_p.grad = torch.ones(1)
old.step()

state = old.state_dict()
print("state:       ", state["state"])
print("param_groups:", [{key: group[key] for key in ("lr", "momentum", "params")} for group in state["param_groups"]])

new = torch.optim.SGD([new_p], lr=0.001, momentum=0.9)
new.load_state_dict(state)
print("lr", new.param_groups[0]["lr"], "buffer", new.state[new_p]["momentum_buffer"])

# %% [markdown]
# The old one: settings are saved and loaded together with the state. Set a new rate *after* loading. Parameters are
# told apart by their number in the order of the groups, not by name, so the new optimizer must get the same
# parameters in the same order; another order of equal shapes is not noticed.

# %% [markdown]
# **Predict.** `StepLR(optimizer, step_size=2, gamma=0.1)`, four epochs: which rate does each use? Who counts the
# epochs?

# %% facts=["11-optimizer-step-count"] shows_warning="UserWarning"
p = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([p], lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)

for epoch in range(4):
    print(f"epoch {epoch}: lr {optimizer.param_groups[0]['lr']:.2f}, scheduler.last_epoch {scheduler.last_epoch}")
    p.grad = torch.ones(1)
    optimizer.step()
    scheduler.step()

print("optimizer counts:", hasattr(optimizer, "_step_count"), " scheduler counts:", hasattr(scheduler, "_step_count"))

late = torch.optim.SGD([p], lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(late, step_size=2)
warning_of(scheduler.step, lines=1)

# %% [markdown]
# A scheduler writes `lr` into the groups each time its `step` is called. Whether that is once an epoch or once a
# batch is your decision, and the numbers in its arguments are counted in that unit: a warm-up of 500 *batches* that
# is stepped once an epoch warms up for 500 epochs. It belongs after `optimizer.step()`; the other order skips the
# first rate, hence the warning. The count is the scheduler's; an optimizer has no `_step_count` (Adam keeps a "step"
# for each parameter in its state). A scheduler has a `state_dict`, too.

# %% [markdown]
# ### Exercise 11.5 · Ten lines of every training script
#
# predict · warm-up · 12 min · 2 points
#
# Five small experiments, ten questions. Write down what you expect, without running anything.
#
# 1. A weight `w` is 0, the loss is `2 * w` (so its gradient is 2), the optimizer `SGD([w], lr=0.5)`. What is `w`
#    after *two* iterations that call `zero_grad`, `backward`, `step`; or only `backward`, `step`; or `backward`,
#    `zero_grad`, `step`? And what is `w.grad` right after `opt.zero_grad()`, when a backward pass came before it?
# 2. `DataLoader(data, batch_size=128)` with 1000 samples: how many batches has an epoch, how large is the last one?
# 3. `Adam([p], lr=0.1)`, p is 0 and its gradient 500: what is p after the first step?
# 4. `opt = SGD([p], lr=0.1)`, then `opt.defaults["lr"] = 9.0`; p is 0 and its gradient 1: what is p after one step?
# 5. `F.cross_entropy(logits, torch.tensor([0]))` for the logits `[[1000., 0.]]`; and what if somebody applies
#    `softmax` to the logits first?
#
# **Contract**
#
# - Replace each `...` by a number; where there is no number, by `"none"`. Two decimals suffice.
# - The check runs the experiments and compares; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Does backward() overwrite `.grad` or add to it? What does Adam divide the gradient by in its first step?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Without zero_grad the second gradient is 2 + 2; zeroing before step leaves nothing to step with; since torch 2.0
# zero_grad sets None. Adam's first step has size lr whatever the gradient. The softmax of the logits lies in [0, 1],
# so the second softmax, the one inside cross_entropy, can never be sure.
#
# </details>

# %% answer="predict-the-loop"
### BEGIN SOLUTION
answers = {
    "zero-backward-step": -2.0,  # w after two iterations in this order
    "backward-step": -3.0,  # without zero_grad
    "backward-zero-step": 0.0,  # zero_grad between backward and step
    "grad after zero_grad": "none",  # w.grad
    "batches": 8,  # batches of an epoch
    "last batch": 104,  # samples in the last batch
    "first Adam step": -0.1,  # p after the first step
    "lr via defaults": -0.1,  # p after one step
    "loss of a perfect logit": 0.0,  # cross_entropy of the logits
    "softmax twice": 0.31,  # cross_entropy of their softmax
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "zero-backward-step": ...,  # w after two iterations in this order
#     "backward-step": ...,  # without zero_grad
#     "backward-zero-step": ...,  # zero_grad between backward and step
#     "grad after zero_grad": ...,  # w.grad
#     "batches": ...,  # batches of an epoch
#     "last batch": ...,  # samples in the last batch
#     "first Adam step": ...,  # p after the first step
#     "lr via defaults": ...,  # p after one step
#     "loss of a perfect logit": ...,  # cross_entropy of the logits
#     "softmax twice": ...,  # cross_entropy of their softmax
# }
### END GIVEN

# %% check="predict-the-loop" points=2
"""Each item against a run of the experiment; every right item earns its share."""
with check("predict-the-loop") as test:

    def after_two(*order):
        """w after two iterations that make these calls in this order."""
        w = nn.Parameter(torch.tensor(0.0))
        opt = torch.optim.SGD([w], lr=0.5)
        for _ in range(2):
            loss = 2 * w
            for call in order:
                {"zero": opt.zero_grad, "backward": loss.backward, "step": opt.step}[call]()
        return w.item()

    def after_one(make_optimizer, gradient, change=None):
        """p after one step of an optimizer."""
        p = nn.Parameter(torch.tensor(0.0))
        opt = make_optimizer([p], lr=0.1)
        opt.defaults.update(change or {})
        p.grad = torch.tensor(gradient)
        opt.step()
        return p.item()

    def grad_after_zero_grad():
        """What .grad holds when a backward pass is followed by zero_grad."""
        w = nn.Parameter(torch.tensor(0.0))
        (2 * w).backward()
        torch.optim.SGD([w], lr=0.5).zero_grad()
        return "none" if w.grad is None else w.grad.item()

    def number_in(guess):
        """A number, 0-d tensor or text as a float; "none" for None; nan for anything else."""
        if guess is None or (isinstance(guess, str) and guess.strip().lower() == "none"):
            return "none"
        if isinstance(guess, Tensor) and guess.numel() == 1 and guess.device.type == "cpu":
            guess = guess.tolist() if guess.dim() == 0 else guess.flatten().tolist()[0]
        if isinstance(guess, bool) or not isinstance(guess, (int, float, str)):
            return torch.nan
        try:
            return float(guess)
        except (ValueError, OverflowError):
            return torch.nan

    def means(guess, truth):
        """Whether a guess says the same as the truth, to two decimals."""
        came = number_in(guess)
        if "none" in (came, truth):
            return came == truth
        return came == truth or abs(came - truth) < 0.0051

    test("every item is compared with a live run")
    batches = [len(batch) for batch in DataLoader(range(1000), batch_size=128)]
    logits, label = torch.tensor([[1000.0, 0.0]]), torch.tensor([0])
    last = "The incomplete last batch is kept by default: 7 * 128 = 896, then one batch of 104."
    truths = {
        "zero-backward-step": (
            after_two("zero", "backward", "step"),
            "One SGD step is w - lr * grad: -1 per iteration here.",
        ),
        "backward-step": (
            after_two("backward", "step"),
            "backward() adds to .grad: without zero_grad the second step uses 2 + 2.",
        ),
        "backward-zero-step": (
            after_two("backward", "zero", "step"),
            "zero_grad between backward and step throws the gradient away: nothing is learned.",
        ),
        "grad after zero_grad": (
            grad_after_zero_grad(),
            "zero_grad() sets .grad to None (set_to_none=True is the default), not to zeros.",
        ),
        "batches": (len(batches), last),
        "last batch": (batches[-1], last),
        "first Adam step": (
            after_one(torch.optim.Adam, 500.0),
            "Adam divides by the root of the second moment: the first step is about lr, however large the gradient.",
        ),
        "lr via defaults": (
            after_one(torch.optim.SGD, 1.0, {"lr": 9.0}),
            "optimizer.defaults is only the template for new groups; the rate in use is param_groups[i]['lr'].",
        ),
        "loss of a perfect logit": (
            F.cross_entropy(logits, label).item(),
            "cross_entropy takes logits: with 1000 against 0 the label has probability 1, and -log 1 is 0.",
        ),
        "softmax twice": (
            F.cross_entropy(logits.softmax(1), label).item(),
            "cross_entropy wants logits: after a softmax the inputs are in [0, 1], and with 2 classes the loss cannot "
            "fall below log(1 + 1/e) = 0.31.",
        ),
    }
    seen = observe_value(answers)
    came = seen.value if isinstance(seen.value, dict) else {}
    signs = "A step goes against the gradient, which is positive here: the result is negative."
    items = {}
    for name, (truth, sentence) in truths.items():
        spelt = came[name] if name in came and means(came[name], truth) else truth
        turned = [(-truth, signs)] if isinstance(truth, float) and truth < 0 else []
        items[name] = prediction(spelt, *turned, because=sentence)
    test.points = seen.predicts(items, points=2)

    ### BEGIN HIDDEN TESTS
    test.hidden("the truth does not depend on random numbers")
    shuffled = DataLoader(range(1000), batch_size=128, shuffle=True, generator=torch.Generator().manual_seed(7))
    seen.that([len(batch) for batch in shuffled] == batches, "Shuffling changes no batch's size.")
    ### END HIDDEN TESTS
test.points

# %% [markdown]
# ## 11.6 Regularisation
#
# **Predict.** A weight of 20, gradient 0, learning rate 0.1, weight decay 0.5. What is left of it after one step of
# SGD, of Adam and of AdamW?

# %% facts=["11-weight-decay-modifies-gradient"]
for optimizer_class in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
    after = []
    for weight in (20.0, 2000.0):
        w = nn.Parameter(torch.tensor([weight]))
        optimizer = optimizer_class([w], lr=0.1, weight_decay=0.5)
        w.grad = torch.zeros(1)
        optimizer.step()
        after.append(round(w.item(), 2))
    print(f"{optimizer_class.__name__:6} 20 becomes {after[0]}, 2000 becomes {after[1]}; grad still {w.grad.item()}")

# %% [markdown]
# SGD and Adam add weight_decay · w to the gradient (inside `step`; `.grad` stays as it was). For SGD that shrinks the
# weight by the factor 1 - lr · weight_decay. Adam then divides the sum by its own size, and what remains is a step of
# about lr, for 20 as for 2000: the decay doesn't depend on the weight any more. AdamW leaves the gradient alone and
# shrinks the weight directly; its decay is *decoupled*. The same number for `weight_decay` does something quite
# different in Adam and AdamW, and AdamW's default isn't zero but 0.01.

# %% [markdown]
# **Predict.** AdamW gets all parameters of a model with a linear layer and a layer norm. Which parameters shrink?

# %% facts=["11-weight-decay-modifies-gradient"]
model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
for parameter in model.parameters():
    nn.init.ones_(parameter)
    parameter.grad = torch.zeros_like(parameter)

torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5).step()
for name, parameter in model.named_parameters():
    print(f"{name:9} {[round(value, 2) for value in parameter.flatten().tolist()]}")

# %% [markdown]
# All of them. A large weight may mean an overfitted model, but the scale of a norm layer has its natural value at 1,
# not at 0, and a bias doesn't make a function steeper. So it is usual to put biases and norm layers into a group with
# `weight_decay=0`. Nobody does it for you.

# %% [markdown]
# ### Exercise 11.6 · Decay the weights, not the norms
#
# implement · solid · 15 min · 2 points
#
# Weight decay pulls every parameter of its group to zero. For the scales of a normalisation layer and for biases that
# makes no sense, and so most training scripts begin with a function such as this one.
#
# **Contract**
#
# - Returns a list of two parameter groups for an optimizer, dicts with `params` and `weight_decay`: first the
#   parameters that are decayed, with `weight_decay`; then the others, with 0.0.
# - Not decayed are parameters with fewer than two dimensions, and all parameters that belong to a normalisation
#   layer, whatever their shape: LayerNorm, GroupNorm, RMSNorm, batch norm, instance norm, and classes derived from
#   these.
# - Any other parameter goes by its dimensions, a bare `nn.Parameter` of a custom module too.
# - Only trainable parameters, each object once (tied weights!), in the order of `model.parameters()`. `params` is a
#   list, perhaps an empty one. The model is not changed.
#
# <details><summary>Hint 1</summary>
#
# Does the name tell what a parameter is - what is `1.weight` in an nn.Sequential? How often does a tied weight turn
# up when you walk through the modules?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Collect the ids of all parameters that norm modules own (`modules()`, and `parameters(recurse=False)` of each). Then
# one pass over `model.parameters()`: skip what does not require grad, and sort by `ndim < 2` or the id in the set.
#
# </details>


# %% answer="weight-decay-groups"
def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two parameter groups: those that are decayed, and those that are not (norms, and less than two dimensions)."""
    ### BEGIN SOLUTION
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)  # batch and instance norm
    norms = [module for module in model.modules() if isinstance(module, kinds)]
    of_norms = {id(p) for norm in norms for p in norm.parameters(recurse=False)}
    decayed, others = [], []
    for p in model.parameters():
        if p.requires_grad:
            (others if p.ndim < 2 or id(p) in of_norms else decayed).append(p)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    ### END SOLUTION


# %% check="weight-decay-groups" points=2
"""Which parameter is in which group, for norms, biases, tied, bare and frozen parameters."""
with check("weight-decay-groups") as test:

    class Mixed(nn.Module):
        """A tied embedding, norms of every kind, bare parameters, a frozen layer."""

        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(5, 4)
            self.parts = nn.ModuleList(
                [nn.GroupNorm(2, 4), nn.RMSNorm(4), nn.BatchNorm1d(4), nn.InstanceNorm1d(4, affine=True)]
            )
            self.wide = nn.LayerNorm((3, 4))
            self.scale, self.mix = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(2, 4))
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.head = nn.Linear(4, 5)
            self.head.weight = self.emb.weight

    def model_of(kind):
        """One of the models, all of its parameters filled with 1."""
        if kind == "sequential":
            model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        else:
            model = Mixed()
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(1.0)
        return model

    def described(groups, names):
        """The groups with names in place of parameters."""
        found = []
        for group in groups:
            params = group.get("params")
            is_list = isinstance(params, (list, tuple))
            own = [names.get(id(p), "unknown") for p in params] if is_list else []
            facts = {"kind": type(params).__name__, "list": is_list, "names": own}
            decay = group.get("weight_decay")
            found.append(facts | {"decay": decay if isinstance(decay, (int, float)) else None})
        return found

    def state_of(model):
        """What must not change: values, flags and objects of the parameters, modes of the modules."""
        values = [(p.detach().clone(), p.requires_grad) for p in model.parameters()]
        return values, [(id(p), id(p.grad)) for p in model.parameters()], [m.training for m in model.modules()]

    def same_state(a, b):
        """Whether the model is as before."""
        same = len(a[0]) == len(b[0]) and a[1:] == b[1:]
        return same and all(torch.equal(x[0], y[0]) and x[1] == y[1] for x, y in zip(a[0], b[0], strict=True))

    def examined(decay_groups, model, weight_decay, times=1):
        """The groups of a model, by the names of the parameters."""
        names = {id(p): name for name, p in model.named_parameters()}
        before = state_of(model)
        for _ in range(times):
            groups = decay_groups(model, weight_decay)
        is_pair = isinstance(groups, (list, tuple)) and [isinstance(g, dict) for g in groups] == [True, True]
        same = same_state(before, state_of(model))
        return {"pair": is_pair, "groups": described(groups, names) if is_pair else [], "same": same}

    def grouped(decay_groups, kind, weight_decay):
        """The groups of one of the models."""
        return examined(decay_groups, model_of(kind), weight_decay)

    def stepped(decay_groups, kind):
        """One step of SGD with zero gradients: what has become of the parameters."""
        model = model_of(kind)
        optimizer = torch.optim.SGD(decay_groups(model, 0.5), lr=0.5)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        return {name: p.detach().flatten()[0].item() for name, p in model.named_parameters()}

    def judge(seen, decayed, others, weight_decay, norms_2d=()):
        """The two groups hold these parameters, in this order."""
        seen.that(seen["pair"], "Return a list of two dicts, each with params and weight_decay.", stage="type")
        first, second = seen["groups"]
        kinds = {first["kind"], second["kind"]}
        seen.that(
            first["list"] and second["list"],
            "The params of a group must be a list.",
            mistake(
                "A generator is empty after the first use; the groups must hold lists.",
                when=lambda seen: kinds & {"generator", "filter", "map"},
            ),
            stage="type",
        )
        names, known = first["names"] + second["names"], [*decayed, *others]
        own = "The groups must hold the model's own parameters: no copies, no names, no pairs."
        seen.that("unknown" not in names, own, stage="type")
        tied = "A tied weight is listed twice; the optimizer would refuse it (or step it twice)."
        seen.that(len(set(names)) == len(names), tied)
        seen.that(set(names) <= set(known), "Frozen parameters do not belong in the groups.")
        seen.that(set(names) >= set(known), "Parameters that belong to no known layer type were lost.")
        turned = set(first["names"]) == set(others) and set(second["names"]) == set(decayed)
        in_order = "The decayed group comes first, parameters in the order of model.parameters()."
        seen.that(not turned or decayed == others, in_order)
        extra = set(first["names"]) - set(decayed)
        seen.that(
            not extra,
            "Names do not tell: in a Sequential a norm layer is called '1'. Ask the module's type.",
            mistake(
                "A LayerNorm over two dimensions has a 2-D weight; it is still a norm layer.",
                when=lambda seen: extra & set(norms_2d) and all(n in norms_2d or n.endswith(".mix") for n in extra),
            ),
            mistake(
                "All parameters of a norm layer stay without decay, also those that a class derived from GroupNorm, "
                "batch norm or instance norm has added.",
                when=lambda seen: all(name.endswith(".mix") for name in extra),
            ),
            mistake(
                "Biases (and other 1-D parameters) must not be decayed.",
                when=lambda seen: any("bias" in name or "scale" in name for name in extra),
            ),
        )
        seen.that(
            set(first["names"]) == set(decayed),
            "A parameter with two or more dimensions that belongs to no norm layer must be decayed, whatever its name.",
        )
        seen.that([first["names"], second["names"]] == [decayed, others], in_order)
        seen.that(
            [first["decay"], second["decay"]] == [weight_decay, 0.0],
            "The first group's weight_decay must be the given one, and the second group's 0.0.",
        )
        seen.that(
            seen["same"], "The model was changed: a parameter, its flag or the mode of a module.", stage="arguments"
        )

    test("Linear and LayerNorm in a Sequential")
    seen = observe_scenario(grouped, decay_groups, "sequential", 0.25)
    judge(seen, ["0.weight", "3.weight"], ["0.bias", "1.weight", "1.bias", "3.bias"], 0.25)

    test("a tied embedding, norms of every kind, bare parameters, a frozen layer")
    seen = observe_scenario(grouped, decay_groups, "mixed", 0.125)
    of_parts = [f"parts.{n}.{name}" for n in range(4) for name in ("weight", "bias") if (n, name) != (1, "bias")]
    rest = ["scale", *of_parts, "wide.weight", "wide.bias", "head.bias"]
    judge(seen, ["mix", "emb.weight"], rest, 0.125, norms_2d=["wide.weight", "wide.bias"])

    test("an optimizer takes the groups; with zero gradients only the weights shrink")
    seen = observe_scenario(stepped, decay_groups, "sequential")
    shrunk = [name for name, value in seen.value.items() if value != 1.0]
    seen.that(shrunk == ["0.weight", "3.weight"], f"After a step with zero gradients these have changed: {shrunk}.")

    ### BEGIN HIDDEN TESTS
    def custom_model():
        """Norms in custom modules, names that mislead, a layer that is used twice."""

        class Scaled(nn.LayerNorm):
            """A class derived from a norm layer."""

        def mixing(kind, *options):
            """A norm layer of a class derived from `kind`, with a parameter of two dimensions more."""

            class Mixing(kind):
                def __init__(self):
                    super().__init__(*options)
                    self.mix = nn.Parameter(torch.ones(2, 2))

            return Mixing()

        class NormalNoise(nn.Module):
            """No norm layer, in spite of its name."""

            def __init__(self):
                super().__init__()
                self.norm_bias = nn.Parameter(torch.ones(3, 3))
                self.temperature = nn.Parameter(torch.tensor(1.0))

        class Custom(nn.Module):
            """Norms in custom modules, names that mislead, a layer that is used twice."""

            def __init__(self):
                super().__init__()
                self.bias = nn.Parameter(torch.ones(2, 3, 4))
                self.a = Scaled((2, 3))
                self.noise = NormalNoise()
                self.norm = nn.Linear(3, 3)
                self.again = self.norm
                self.conv = nn.Conv2d(2, 3, 3)
                self.table = nn.ModuleDict({"b2": nn.BatchNorm2d(3), "b3": nn.BatchNorm3d(2), "s": nn.SyncBatchNorm(2)})
                self.inst = nn.Sequential(
                    nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm3d(2, affine=True), nn.PReLU()
                )
                self.deep = nn.Sequential(nn.Sequential(nn.RMSNorm((2, 2)), nn.BatchNorm1d(3, affine=False)))
                self.frozen_norm = nn.LayerNorm((2, 2)).requires_grad_(False)
                self.thin = nn.LayerNorm(3, bias=False)
                self.lstm = nn.LSTM(2, 2)
                self.mixing = nn.ModuleList(
                    [mixing(nn.GroupNorm, 1, 2), mixing(nn.BatchNorm2d, 2), mixing(nn.InstanceNorm1d, 2)]
                )

        return Custom()

    def other_grouped(decay_groups, kind, weight_decay, times):
        """The groups of one of some other models."""
        if kind == "no norm":
            model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Tanh(), nn.Linear(3, 1, bias=False))
        elif kind == "frozen":
            model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)).requires_grad_(False)
        elif kind == "only norms":
            model = nn.Sequential(nn.LayerNorm((2, 3)), nn.GroupNorm(1, 2)).eval()
        elif kind == "a norm":
            model = nn.LayerNorm((3, 2))
        elif kind == "no parameter":
            model = nn.ReLU()
        else:
            model = custom_model()
        return examined(decay_groups, model, weight_decay, times)

    both = ["0.weight", "0.bias", "1.weight", "1.bias"]
    for idea, kind, decayed, others, norms_2d in [
        ("no norm, no bias: the second group is empty", "no norm", ["0.weight", "2.weight"], [], []),
        ("everything frozen: both groups are empty", "frozen", [], [], []),
        ("nothing but norms: the first group is empty", "only norms", [], both, ["0.weight", "0.bias"]),
        ("the model is a norm", "a norm", [], ["weight", "bias"], ["weight", "bias"]),
        ("no parameter at all", "no parameter", [], [], []),
    ]:
        test.hidden(idea)
        for weight_decay, times in ((0.1, 1), (0.0, 2)):
            seen = observe_scenario(other_grouped, decay_groups, kind, weight_decay, times)
            judge(seen, decayed, others, weight_decay, norms_2d)

    test.hidden("custom modules, scalars, names that mislead, called twice")
    decayed = ["bias", "noise.norm_bias", "norm.weight", "conv.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0"]
    others = ["a.weight", "a.bias", "noise.temperature", "norm.bias", "conv.bias"]
    others += [f"table.{n}.{name}" for n in ("b2", "b3", "s") for name in ("weight", "bias")]
    others += ["inst.0.weight", "inst.0.bias", "inst.1.weight", "inst.1.bias", "inst.2.weight"]
    others += ["deep.0.0.weight", "thin.weight", "lstm.bias_ih_l0", "lstm.bias_hh_l0"]
    others += [f"mixing.{n}.{name}" for n in (0, 1) for name in ("weight", "bias", "mix")] + ["mixing.2.mix"]
    seen = observe_scenario(other_grouped, decay_groups, "custom", 0.05, 2)
    judge(seen, decayed, others, 0.05, norms_2d=["a.weight", "a.bias", "deep.0.0.weight"])
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 11.7 · Which weight decay is it?
#
# measure · solid · 15 min · 2 points
#
# Somebody hands you a function that builds an optimizer, and you can't see which one. Does its weight decay go
# through the gradient, as in Adam, or directly to the weight, as in AdamW? Find out by an experiment.
#
# **Contract**
#
# - `make_optimizer(parameters)` builds an adaptive optimizer over a list of parameters of any shape and float dtype:
#   one that divides by the size of the gradient from the first step on, such as Adam, NAdam, Adamax, RMSprop or
#   Adagrad. It may be called several times.
# - Returns True if the decay is decoupled (the weight shrinks by a fixed proportion, whatever the gradients are) and
#   False if it is added to the gradient. An optimizer that does not decay at all raises ValueError.
# - lr and weight_decay may be anything from 1e-4 to 0.5. The result does not depend on amsgrad, eps and the like.
#
# **Rule.** Decide by stepping the optimizer, not by its class, its name, its defaults or its source.
#
# <details><summary>Hint 1</summary>
#
# With a zero gradient, how large is the first step of Adam for a weight of 1, and for a weight of 1000?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two parameters of very different size, in float64 (a proportion of 1e-8 is lost in float32), with gradients of
# zeros, one step; compare the *relative* changes. Decoupled: equal proportions. In the gradient: the division makes
# the absolute steps equal.
#
# </details>


# %% answer="decoupled-or-not"
def is_decoupled(make_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> bool:
    """Whether the weight decay of an adaptive optimizer acts on the weight directly, not through the gradient."""
    ### BEGIN SOLUTION
    sizes = (1.0, 1000.0)
    weights = [nn.Parameter(torch.tensor(size, dtype=torch.float64)) for size in sizes]
    optimizer = make_optimizer(weights)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    small, large = (1 - weight.item() / size for weight, size in zip(weights, sizes, strict=True))
    if small == large == 0:
        raise ValueError("this optimizer does not decay")
    return abs(small / large - 1) < 0.01
    ### END SOLUTION


# %% check="decoupled-or-not" points=2
"""Adam and AdamW are told apart by an experiment, and so are others, whatever their settings."""
with check("decoupled-or-not") as test:

    def measured(is_decoupled, name, lr, weight_decay, options=None, wrapped=False):
        """The verdict on an optimizer, and what was done with it: steps, kinds of gradients, dtypes."""
        grads, dtypes = [], []

        class Wrapped(torch.optim.Optimizer):
            """An optimizer that hands its steps on to another one."""

            def __init__(self, params, inner):
                super().__init__(params, {})
                self.inner = inner

            def step(self, closure=None):
                return self.inner.step(closure)

        def noting(optimizer, args, kwargs):
            for p in (p for group in optimizer.param_groups for p in group["params"]):
                if len(grads) < 1000:
                    grads.append("none" if p.grad is None else "some" if p.grad.any().item() else "zero")
                    dtypes.append(str(p.dtype))

        def make_optimizer(parameters):
            parameters = list(parameters)
            kind = getattr(torch.optim, name)
            optimizer = kind(parameters, lr=lr, weight_decay=weight_decay, **(options or {}))
            optimizer.register_step_pre_hook(noting)
            return Wrapped(parameters, optimizer) if wrapped else optimizer

        raised, found = None, None
        try:
            found = is_decoupled(make_optimizer)
        except ValueError:
            raised = "ValueError"
        facts = {"bool": isinstance(found, bool), "value": found if isinstance(found, bool) else None}
        return facts | {"raised": raised, "grads": sorted(set(grads)), "dtypes": sorted(set(dtypes))}

    by_none = mistake(
        "A parameter without gradient is skipped, decay included: give it a zero gradient.",
        when=lambda seen: seen["grads"] == ["none"],
    )
    by_gradient = mistake(
        "With a non-zero gradient the decay drowns in the step. Set the gradient to zero (not to None).",
        when=lambda seen: "some" in seen["grads"],
    )

    test("Adam and AdamW")
    adam = observe_scenario(measured, is_decoupled, "Adam", 0.1, 0.1)
    adamw = observe_scenario(measured, is_decoupled, "AdamW", 0.1, 0.1)
    for seen in (adam, adamw):
        seen.that(
            seen["bool"] or seen["raised"] is not None,
            "Return True or False, a Python bool.",
            mistake("NumPy's and torch's booleans are not Python's: convert them with bool().", stage="rule"),
            stage="type",
        )
    adamw.that(
        [adam["value"], adamw["value"]] != [True, False],
        "True and False are exchanged.",
    )
    for seen, decoupled, name in (
        (adam, False, "Adam adds its decay to the gradient"),
        (adamw, True, "AdamW's is decoupled"),
    ):
        came = "raised ValueError" if seen["raised"] else f"returned {seen['value']}"
        seen.that(
            seen["value"] is decoupled,
            f"{name}, and you {came}.",
            by_none,
            by_gradient,
            mistake("One weight of one size cannot tell the two apart.", when=lambda seen: seen["value"] is True),
        )

    ### BEGIN HIDDEN TESTS
    by_class = (
        "You asked for the class or a default: Adam(decoupled_weight_decay=True) is decoupled too, and wrappers hide "
        "the class."
    )
    threshold = (
        "A fixed threshold on the step fails for other lr and weight_decay: compare two weights with each other."
    )

    def judge(sentence, decoupled, *arguments):
        """The verdict is right, and it came from stepping."""
        seen = observe_scenario(measured, is_decoupled, *arguments)
        seen.expecting(mistake(by_class, raises="AttributeError|KeyError"))
        seen.that(bool(seen["grads"]), by_class, stage="rule")
        rounded = mistake(
            "A proportion of 1e-8 is lost in float32: make the experiment in float64.",
            when=lambda seen: arguments[1] * arguments[2] < 1e-6 and "torch.float32" in seen["dtypes"],
        )
        seen.that(seen["value"] is decoupled, sentence, rounded)

    test.hidden("the same behind a wrapper class")
    for name, decoupled in (("Adam", False), ("AdamW", True)):
        judge(by_class, decoupled, name, 0.1, 0.1, {}, True)

    test.hidden("decoupled_weight_decay=True, other members of the family")
    for name in ("Adam", "NAdam"):
        for decoupled in (True, False):
            judge(by_class, decoupled, name, 0.1, 0.1, {"decoupled_weight_decay": decoupled})
            judge(threshold, decoupled, name, 0.02, 0.3, {"decoupled_weight_decay": decoupled}, True)

    test.hidden("other lr and weight_decay")
    for lr, weight_decay in ((0.5, 0.5), (0.01, 0.01), (0.5, 1e-4), (1e-4, 0.5), (1e-4, 1e-4)):
        judge(threshold, True, "AdamW", lr, weight_decay)
        judge(threshold, False, "Adam", lr, weight_decay)

    test.hidden("other adaptive optimizers and settings")
    for name, decoupled, options in [
        ("RMSprop", False, {}),
        ("RMSprop", False, {"momentum": 0.9, "centered": True}),
        ("Adagrad", False, {}),
        ("Adamax", False, {}),
        ("Adam", False, {"amsgrad": True, "betas": (0.5, 0.9)}),
        ("AdamW", True, {"amsgrad": True, "betas": (0.5, 0.9)}),
        ("Adam", False, {"eps": 1e-5}),
        ("AdamW", True, {"eps": 1e-5}),
        ("Adam", False, {"maximize": True, "foreach": True}),
        ("AdamW", True, {"maximize": True, "foreach": True}),
    ]:
        judge(threshold, decoupled, name, 0.05, 0.2, options)
        judge(threshold, decoupled, name, 0.002, 0.05, options, True)

    test.hidden("no decay at all")
    for name, lr in (("Adam", 0.1), ("AdamW", 0.1), ("AdamW", 1e-4), ("RMSprop", 0.01), ("Adagrad", 0.5)):
        seen = observe_scenario(measured, is_decoupled, name, lr, 0.0)
        missing = "An optimizer that does not decay must raise ValueError."
        seen.expecting(mistake(missing, stage="raised"))
        seen.that(seen["raised"] == "ValueError", missing, stage="value")
    ### END HIDDEN TESTS

# %% [markdown]
# **Predict.** `nn.Dropout(0.25)` on 100,000 ones. Which values come out, how often, and what is their mean? And in
# eval mode?

# %% facts=["11-dropout-scales-data"]
torch.manual_seed(0)
dropout = nn.Dropout(0.25)
ones = torch.ones(100_000)

out = dropout(ones)
print("train: values", [round(value, 4) for value in out.unique().tolist()])
print(f"       zeros {(out == 0).float().mean():.0%}, mean {out.mean():.1f}")

dropout.eval()
print("eval:  unchanged:", torch.equal(dropout(ones), ones))

# %% [markdown]
# A quarter becomes 0, the others are multiplied by 1 / 0.75, so that the *expectation* stays. That is why nothing has
# to be scaled in eval mode, where dropout does nothing at all. In the original paper it was the other way round: no
# scaling in training, a factor of 1 - p at test time. Code that does both scales twice.

# %% [markdown]
# **Predict.** 20,000 numbers from a very skewed distribution go through batch norm. Afterwards they have mean 0 and
# variance 1. Is that a normal distribution?

# %% facts=["11-batchnorm-gives-standard-normal"]
generator = torch.Generator().manual_seed(0)
skewed = -torch.rand(20_000, 1, generator=generator).log()
normal = torch.randn(20_000, 1, generator=generator)

for name, data in (("skewed", skewed), ("normal", normal)):
    y = nn.BatchNorm1d(1)(data).detach()
    mean, skewness = abs(y.mean().item()), abs((y**3).mean().item())
    print(f"{name}: mean {mean:.2f}, variance {y.var():.2f}, skewness {skewness:.1f}, smallest {y.min():.0f}")

# %% [markdown]
# Mean and variance are shifted and scaled; the shape of the distribution stays. No value of the skewed numbers lies
# below -1, where a normal sample goes down to -4. (Its learnt weight and bias can change mean and variance again.)

# %% [markdown]
# **Predict.** The batch (0, 2) goes through batch norm, with `momentum=1.0`, so that the running statistics are those
# of this batch alone. What comes out in train mode, and what for the same batch in eval mode afterwards?

# %% facts=["11-batchnorm-gives-standard-normal"]
bn = nn.BatchNorm1d(1, momentum=1.0)
batch = torch.tensor([[0.0], [2.0]])

print("train:", [round(value, 2) for value in bn(batch).flatten().tolist()])
print("running mean", bn.running_mean.item(), "running variance", bn.running_var.item())
bn.eval()
print("eval: ", [round(value, 2) for value in bn(batch).flatten().tolist()])
bn.train()
error_of(lambda: bn(torch.tensor([[5.0]])))

# %% [markdown]
# In train mode the batch is normalised with its own, *biased* variance (divided by n, here 1); in eval mode with the
# running one, into which the *unbiased* variance is collected (divided by n - 1, here 2). For large batches that
# makes no difference. For small ones the two modes are two different functions, and a model that is good in training
# can be bad in eval mode. One value per channel has no variance; a last batch of a single sample ends the training
# with this error, which `drop_last=True` prevents.

# %% [markdown]
# **Predict.** All weights in front of a batch norm layer are multiplied by 100. How does its output change?

# %% facts=["11-batchnorm-benefits"]
torch.manual_seed(0)
linear, bn = nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3)
x = torch.randn(64, 4)

with torch.no_grad():
    before = bn(linear(x))
    linear.weight.mul_(100)
    print(f"largest change: {(bn(linear(x)) - before).abs().max():.3f}")

# %% [markdown]
# Not at all, up to the small eps in the root. Much is said in favour of batch norm: larger learning rates, careless
# initial weights, less dropout. These are rules of thumb. Behind them is one exact fact: the output doesn't depend on
# the scale of the weights in front. A bias in front of it is useless, too, since the mean is subtracted.

# %% [markdown]
# **Predict.** A linear model with 15 weights is fitted to 20 samples, 300 times to new random data, with and without
# a ridge penalty. Which fits differ more from one another? Which are closer to the true weights on average?

# %% facts=["11-regularisation-reduces-variance"]
generator = torch.Generator().manual_seed(0)
true_weights = torch.randn(15, generator=generator)


def fit(ridge: float) -> Tensor:
    x = torch.randn(20, 15, generator=generator)
    y = x @ true_weights + torch.randn(20, generator=generator)
    return torch.linalg.solve(x.T @ x + ridge * torch.eye(15), x.T @ y)


for ridge in (0.0, 5.0):
    fits = torch.stack([fit(ridge) for _ in range(300)])
    bias = (fits.mean(0) - true_weights).square().sum()
    print(f"ridge {ridge}: variance of the fits {fits.var(0).sum():.1f}, squared bias {bias:.1f}")

# %% [markdown]
# The penalised fits vary far less, at the price of a bias: they are all a little too small. "Regularisation reduces
# variance" is the textbook's view, and here it can be seen. Whether the trade is a good one depends on the data.

# %% [markdown]
# ## 11.7 Fine-tuning
#
# A trained model is given a new last layer, the *head*, for new classes. Load, replace the head, build the optimizer:
# the order matters, and each wrong order fails in a way of its own.
#
# **Predict.** The checkpoint has 1000 classes, you need 5. What happens if the head is replaced *before* loading? And
# what if you set `out_features = 5` instead?


# %% facts=["11-finetune-order-of-steps"]
def make_net(classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, classes))


checkpoint = make_net(1000).state_dict()
error_of(lambda: make_net(5).load_state_dict(checkpoint), lines=2)

net = make_net(1000)
net.load_state_dict(checkpoint)
net[2].out_features = 5
print(net[2], "gives", tuple(net(torch.ones(1, 4)).shape))

net[2] = nn.Linear(8, 5)
print(net[2], "gives", tuple(net(torch.ones(1, 4)).shape))

# %% [markdown]
# The sizes don't fit, and that is good: `load_state_dict` says so. (`strict=False` doesn't help; it forgives missing
# names, not wrong shapes.) And `out_features` is only a number that the layer remembers of its construction and shows
# in its repr. The work is done by `weight`, which is still 1000 × 8. Nothing but a new layer makes a new head.

# %% [markdown]
# **Predict.** An optimizer is built, then the head is replaced. After a training step, which of the two heads has
# changed?

# %% facts=["11-finetune-order-of-steps"]
torch.manual_seed(0)
net = make_net(10)
old_head = net[2]
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1)
net[2] = nn.Linear(8, 5)


def one_step() -> None:
    optimizer.zero_grad()
    F.cross_entropy(net(torch.ones(3, 4)), torch.tensor([0, 1, 2])).backward()
    optimizer.step()


parts = {"body": net[0], "old head": old_head, "new head": net[2]}
before = {name: part.weight.detach().clone() for name, part in parts.items()}
one_step()
for name, part in parts.items():
    print(f"{name}: gradient {part.weight.grad is not None!s:6} changed {not torch.equal(part.weight, before[name])}")

# %% [markdown]
# Neither: the new head gets gradients that no optimizer uses, and the optimizer holds an old head that gets none. The
# body is trained, and the loss falls a little, so that nothing looks broken. And `optimizer.zero_grad()` doesn't know
# the new head either; its gradients add up unseen. Build the optimizer last.

# %% [markdown]
# **Predict.** To freeze the body one can set `requires_grad_(False)`, or give its group the learning rate 0. Are its
# gradients computed? Is momentum stored? Do weights change? And batch norm's running mean?


# %% facts=["11-freeze-by-requires-grad-or-zero-lr"]
def freeze_and_step(by_flag: bool) -> list[bool]:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    head = nn.Linear(2, 1)
    if by_flag:
        body.requires_grad_(False)
    groups = [{"params": body.parameters(), "lr": 0.1 if by_flag else 0.0}, {"params": head.parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.1)
    weight, mean = body[0].weight, body[1].running_mean
    weight_before, mean_before = weight.clone(), mean.clone()
    head(body(torch.randn(8, 2) + 3)).sum().backward()
    optimizer.step()
    moved = [not torch.equal(weight, weight_before), not torch.equal(mean, mean_before)]
    return [weight.grad is not None, weight in optimizer.state, *moved]


print(f"{'':16}{'gradient':>10}{'momentum':>10}{'weight moves':>14}{'mean moves':>12}")
for way, by_flag in (("lr = 0", False), ("requires_grad", True)):
    gradient, momentum, weight_moves, mean_moves = freeze_and_step(by_flag)
    print(f"{way:16}{gradient!s:>10}{momentum!s:>10}{weight_moves!s:>14}{mean_moves!s:>12}")

# %% [markdown]
# The weights stay in both cases. With lr = 0 all the work is done all the same, and the momentum that is collected
# jumps into the weights when the rate is raised later. And *neither* freezes batch norm's statistics: these are
# buffers, written in the forward pass. Frozen means `requires_grad_(False)` **and** batch norm in eval mode, again
# after each `model.train()`.

# %% [markdown]
# **Predict.** A small convolutional net with 64 channels, its head replaced, everything else frozen. Which share of
# its parameters is still trained?

# %% facts=["11-finetune-keeps-extractor", "11-finetune-small-lr-group"]
net = nn.Sequential(
    *(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    nn.Linear(64, 10),
)
net.requires_grad_(False)
net[-1] = nn.Linear(64, 5)
trained = sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)
total = sum(parameter.numel() for parameter in net.parameters())
print(f"head only: {trained} of {total} parameters, {trained / total:.1%}")

net.requires_grad_(True)
groups = [{"params": net[:-1].parameters(), "lr": 1e-3}, {"params": net[-1].parameters()}]
optimizer = torch.optim.SGD(groups, lr=1e-1)
print("two rates:", [(group["lr"], sum(p.numel() for p in group["params"])) for group in optimizer.param_groups])

# %% [markdown]
# A new layer requires a gradient, whatever was frozen before. Training the head alone is called *linear probing*: few
# parameters, little to overfit, cheap. The other usual way is to train everything, the body with a much smaller rate
# through a group of its own. Which is better is a question of how much data there is and how far it is from the old;
# try both. Each parameter must be in exactly one group: one in none is not trained, and nobody says so.

# %% [markdown] facts=["11-torchvision-modules"]
# Trained models for images come from torchvision, a package of its own, with datasets and transforms. Its
# documentation asks for `resnet18(weights=ResNet18_Weights.DEFAULT)`; `pretrained=True`, which many tutorials still
# have, is deprecated since torchvision 0.13. The weights object also has the transforms that belong to the model: use
# these and no others, or the body sees pictures of a kind that it never met.

# %% [markdown]
# ### Exercise 11.8 · New head, old body, right optimizer
#
# fix · long · 20 min · 3 points
#
# A network that somebody else has trained is to learn other classes. `prepare` runs, training runs, and the accuracy
# stays where it was. Three classic mistakes are in it. Repair it.
#
# **Contract**
#
# - `model`, a `Backbone`, and `state`, the state dict of another one, have the *old* number of classes. Afterwards
#   the body holds the weights and statistics of `state`, and `model.fc` is a fresh Linear layer, none of whose
#   weights and biases are old ones, with `num_classes` outputs, on the body's device and in its dtype. The names of
#   all parameters stay.
# - Returns an SGD optimizer with momentum 0.9 over exactly those parameters that the model has now and that are
#   trained: the body's with `lr_body`, the head's with `lr_head`.
# - `lr_body == 0` means a frozen body: it gets no gradients and is not in the optimizer, and its batch-norm
#   statistics and its outputs stay what they are, also in train mode, whatever calls of `model.train()` and
#   `model.eval()` follow.
# - `state` is not changed and shares no memory with the model. It must fit completely: a key too many or too few, or
#   another shape, raises RuntimeError.
#
# <details><summary>Hint 1</summary>
#
# Which parameter objects did the optimizer collect, and which ones does the model have after you replaced the head?
# What does setting `out_features` change?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Load strictly, then replace `model.fc`, then build the optimizer from two groups. For `lr_body == 0`:
# `requires_grad_(False)` for the body, leave it out of the optimizer, and make its batch norm refuse train mode; an
# instance may have a `train` of its own.
#
# </details>


# %% answer="fine-tune-head"
class Backbone(nn.Module):
    """A small network: a body with batch norm, and a head."""

    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x))


def prepare(
    model: Backbone, state: Mapping[str, Tensor], num_classes: int, lr_body: float, lr_head: float
) -> torch.optim.Optimizer:
    """Load the pre-trained weights, give the model a new head, and build the optimizer for fine-tuning."""
    ### BEGIN SOLUTION
    model.load_state_dict(state)
    old = model.fc.weight
    model.fc = nn.Linear(model.fc.in_features, num_classes, device=old.device, dtype=old.dtype)
    groups = [{"params": list(model.fc.parameters()), "lr": lr_head}]
    if lr_body == 0:
        model.body.requires_grad_(False)
        model.body.eval()
        model.body.train = lambda mode=True: model.body  # model.train() asks each child
    else:
        groups.append({"params": list(model.body.parameters()), "lr": lr_body})
    return torch.optim.SGD(groups, lr=lr_head, momentum=0.9)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # opt = torch.optim.SGD(model.parameters(), lr=lr_body, momentum=0.9)
    # model.fc.out_features = num_classes
    # model.load_state_dict(state, strict=False)
    # return opt
    ### END GIVEN


# %% check="fine-tune-head" points=2
"""The body is loaded, the head is new, and both are trained, each at its own rate."""
with check("fine-tune-head") as test:

    def network(classes, seed, dtype=torch.float32):
        """A network with weights and statistics that come from a seed."""

        class Network(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
                self.fc = nn.Linear(16, classes)

            def forward(self, x):
                return self.fc(self.body(x))

        model, g = Network().to(dtype), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for t in model.state_dict().values():
                if t.is_floating_point():
                    t.copy_(torch.rand(t.shape, generator=g) + 0.25)
        return model

    def described(optimizer, model):
        """The parameters of an optimizer by name, with their settings."""
        facts = {"SGD": isinstance(optimizer, torch.optim.SGD), "rates": {}, "strangers": 0, "twice": 0, "other": []}
        names = {id(p): name for name, p in model.named_parameters()}
        for group in optimizer.param_groups if facts["SGD"] else []:
            for p in group["params"]:
                name = names.get(id(p))
                facts["strangers"] += name is None
                facts["twice"] += name in facts["rates"]
                facts["rates"][str(name)] = [float(group["lr"]), float(group["momentum"])]
            settings = {"dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False}
            facts["other"] += [key for key, usual in settings.items() if group[key] != usual]
        return facts

    def first_step(model, optimizer, x):
        """Parameters before and after a step, and their gradients."""
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.zero_grad()
        model(x).square().mean().backward()
        grads = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        after = {name: p.detach().clone() for name, p in model.named_parameters()}
        return {"before": before, "grads": grads, "after": after}

    def prepared(prepare, old, classes, lr_body, lr_head, dtype, x):
        """What has become of model, state and optimizer; then one step of training."""
        model, pretrained = network(old, 1, dtype), network(old, 2, dtype)
        names = list(dict(model.named_parameters()))
        state = {name: t.clone() for name, t in pretrained.state_dict().items()}
        old_rows = torch.cat([model.fc.weight.detach().clone(), state["fc.weight"]])
        old_fc = model.fc
        old_biases = torch.cat([model.fc.bias.detach().clone(), state["fc.bias"]])
        optimizer = prepare(model, state, classes, lr_body, lr_head)
        torch.set_grad_enabled(True)
        fc, now = model.fc, model.state_dict()
        facts = {"linear": isinstance(fc, nn.Linear), "names": names == list(dict(model.named_parameters()))}
        if not (facts["linear"] and facts["names"]):
            return facts
        rows, biases = fc.weight.detach().double(), fc.bias.detach().double()
        facts |= {
            "out_features": fc.out_features,
            "shapes": [tuple(fc.weight.shape), tuple(fc.bias.shape)],
            "dtypes": [fc.weight.dtype, fc.bias.dtype],
            "flags": [p.requires_grad for p in model.parameters()],
            "same fc": fc is old_fc,
            "old rows": rows.shape[1] == 16 and bool((rows[:, None] == old_rows.double()).all(2).any()),
            "old biases": bool(torch.isin(biases, old_biases.double()).any()),
            "loaded": all(torch.equal(now[k], t) for k, t in pretrained.state_dict().items() if k.startswith("body")),
            "optimizer": described(optimizer, model),
            "stats": None,
            "step": None,
        }
        places = {t.data_ptr() for t in state.values()}
        facts["shared"] = any(t.data_ptr() in places for t in now.values())
        if facts["optimizer"]["SGD"] and fc.weight.shape == (classes, 16) and fc.weight.dtype == dtype:
            model.train()
            facts["step"] = first_step(model, optimizer, x.to(dtype))
            facts["stats"] = [model.body[1].num_batches_tracked.item(), model.body[1].training]
        same_keys = list(state) == list(pretrained.state_dict())
        facts["state"] = same_keys and all(torch.equal(state[k], t) for k, t in pretrained.state_dict().items())
        return facts

    size = mistake(
        "Loading after replacing the head fails on its shape: load first.",
        raises="size mismatch|Error\\(s\\) in loading",
    )

    def judge(old, classes, lr_body, lr_head, dtype=torch.float32):
        """Everything about a model whose body and head are trained."""
        x = ((torch.arange(48) * 29 % 53) / 26 - 1).reshape(8, 6)
        seen = observe_scenario(prepared, prepare, old, classes, lr_body, lr_head, dtype, x).expecting(size)
        seen.that(seen["linear"], "model.fc must be a Linear layer.", stage="type")
        seen.that(seen["names"], "The names of the parameters must stay as they were.", stage="rule")
        seen.that(
            seen["shapes"] == [(classes, 16), (classes,)],
            "The weights of model.fc have not the shapes that the new classes ask for.",
            mistake(
                "Setting out_features changes a number in the repr, not the weight: make a new Linear.",
                when=lambda seen: seen["out_features"] == classes,
            ),
            stage="shape",
        )
        body = "The new head must have the body's dtype and device."
        seen.that(seen["dtypes"] == [dtype, dtype], body, stage="dtype")
        seen.that(seen["loaded"], "The body does not hold the pre-trained weights.")
        copied = "The head must be fresh, not a slice of the old one."
        seen.that(not seen["old rows"] and not seen["old biases"], copied, stage="aliasing")
        seen.that(not seen["same fc"], "model.fc is still the old layer: make a new Linear.", stage="aliasing")
        optimizer = seen["optimizer"]
        seen.that(optimizer["SGD"], "Return a torch.optim.SGD optimizer.", stage="type")
        seen.that(
            not optimizer["strangers"],
            "The optimizer still holds the parameters of the head you replaced: build it after replacing.",
        )
        wanted = {f"body.{n}.{kind}": lr_body for n in (0, 1) for kind in ("weight", "bias")}
        wanted |= {"fc.weight": lr_head, "fc.bias": lr_head}
        rates = optimizer["rates"]
        seen.that(all(name in rates for name in wanted), "Some trainable parameters are in no group.")
        seen.that(all(seen["flags"]), "With a rate above 0 body and head are trained: all must require grad.")
        seen.that(not optimizer["twice"], "A parameter is in two groups.")
        exchanged = "The rates are exchanged or missing: body lr_body, head lr_head."
        seen.that(all(rates[name][0] == lr for name, lr in wanted.items()), exchanged)
        seen.that(
            all(momentum == 0.9 for _, momentum in rates.values()) and not optimizer["other"],
            "The momentum must be 0.9 for all parameters, and the other settings the usual ones.",
        )
        step = seen["step"]
        for name, lr in wanted.items():
            before, grad, after = step["before"][name], step["grads"][name], step["after"][name]
            moved = grad is not None and torch.allclose(before - lr * grad, after, rtol=1e-4, atol=1e-6)
            seen.that(moved, "The first step of training does not move a parameter by its rate times its gradient.")
        return seen

    test("5 classes become 3: shapes, loaded body, both parts are trained at their own rate")
    seen = judge(5, 3, 0.01, 0.5)

    ### BEGIN HIDDEN TESTS
    test.hidden("the batch norm of a body that is trained goes on learning")
    seen.that(
        seen["stats"] == [1, True],
        "With a rate above 0 the body is not frozen: its batch norm must follow model.train().",
        stage="rule",
    )

    test.hidden("the checkpoint stays as it is, and shares no memory with the model")
    seen.that(not seen["shared"], "The model's tensors share memory with the checkpoint.", stage="aliasing")
    seen.that(seen["state"], "The checkpoint was changed.", stage="arguments")

    test.hidden("more classes, as many classes, a single class: the head is fresh")
    for old, classes in ((4, 7), (4, 4), (3, 1), (1, 2)):
        seen = judge(old, classes, 0.25, 0.125)
        seen.that(seen["state"], "The checkpoint was changed.", stage="arguments")

    test.hidden("a body in float64")
    judge(5, 3, 0.01, 0.5, torch.float64)

    def elsewhere(prepare, lr_body):
        """The devices of a head whose body lies on another device than the CPU; meta will do."""
        model = network(4, 1).to("meta")
        prepare(model, {name: t.clone() for name, t in model.state_dict().items()}, 3, lr_body, 0.1)
        return [p.device.type for p in model.fc.parameters()]

    test.hidden("a body on another device")
    for lr_body in (0.1, 0.0):
        seen = observe_scenario(elsewhere, prepare, lr_body)
        on_device = "The new head must have the body's dtype and device."
        seen.that(seen.value == ["meta", "meta"], on_device, stage="device")

    def misfitting(prepare, kind, lr_body):
        """Prepare with a checkpoint that does not fit; what was raised."""
        model, state = network(4, 1), dict(network(4, 2).state_dict())
        if kind == "other classes":
            state = dict(network(3, 2).state_dict())
        elif kind == "no statistics":
            del state["body.1.running_mean"]
        elif kind == "no bias":
            del state["body.0.bias"]
        elif kind == "no head":
            state = {name: t for name, t in state.items() if name.startswith("body")}
        elif kind == "one key more":
            state["body.3.weight"] = torch.ones(2)
        elif kind == "a head of another model":
            state["classifier.weight"] = state.pop("fc.weight")
        elif kind == "other names":
            state = {f"module.{name}": t for name, t in state.items()}
        elif kind == "another width":
            state["body.0.weight"] = torch.ones(16, 5)
        elif kind == "a transposed head":
            state["fc.weight"] = state["fc.weight"].t()
        try:
            prepare(model, state, 3, lr_body, 0.1)
        except RuntimeError:
            return "RuntimeError"
        return "nothing"

    test.hidden("a checkpoint that does not fit is refused")
    strict = (
        "strict=False hides a checkpoint that does not fit: load strictly (before replacing the head, so that the "
        "shapes agree)."
    )
    kinds = ["no statistics", "no bias", "no head", "one key more", "a head of another model", "other names"]
    kinds += ["other classes", "another width", "a transposed head"]
    for n, kind in enumerate(kinds):
        seen = observe_scenario(misfitting, prepare, kind, 0.1 * (n % 2))
        seen.expecting(mistake(strict, stage="raised")).that(seen.value == "RuntimeError", strict)
    ### END HIDDEN TESTS

# %% check="fine-tune-head" points=1
"""With lr_body = 0 nothing of the body moves: no gradients, no statistics, no outputs."""
with check("fine-tune-head") as test:

    def network(classes, seed, dtype=torch.float32):
        """A network with weights and statistics that come from a seed."""

        class Network(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
                self.fc = nn.Linear(16, classes)

            def forward(self, x):
                return self.fc(self.body(x))

        model, g = Network().to(dtype), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for t in model.state_dict().values():
                if t.is_floating_point():
                    t.copy_(torch.rand(t.shape, generator=g) + 0.25)
        return model

    def frozen(prepare, classes, actions, x, dtype=torch.float32):
        """Prepare with a frozen body, then switch modes, run and train; what has moved."""
        model, pretrained = network(4, 1, dtype), network(4, 2, dtype).eval()
        x = x.to(dtype)
        state = {name: t.clone() for name, t in pretrained.state_dict().items()}
        optimizer = prepare(model, state, classes, 0, 0.25)
        torch.set_grad_enabled(True)
        fc = model.fc
        facts = {"ready": isinstance(optimizer, torch.optim.SGD) and isinstance(fc, nn.Linear)}
        facts["ready"] = facts["ready"] and fc.weight.shape == (classes, 16) and fc.weight.dtype == dtype
        facts["ready"] = facts["ready"] and fc.bias is not None
        if not facts["ready"]:
            return facts
        names = {id(p): name for name, p in model.named_parameters()}
        facts["in optimizer"] = [names.get(id(p), "unknown") for g in optimizer.param_groups for p in g["params"]]
        facts["settings"] = [[float(g["lr"]), float(g["momentum"])] for g in optimizer.param_groups if g["params"]]
        facts |= {"gradients": [], "off": 0.0, "head off": 0.0, "frozen head": False}
        with torch.no_grad():
            features = pretrained.body(x)
        for action in actions:
            if action in ("train", "eval"):
                getattr(model, action)()
                continue
            out = model(x)
            with torch.no_grad():
                facts["off"] = max(facts["off"], (out - F.linear(features, fc.weight, fc.bias)).abs().max().item())
            if action == "step":
                facts["frozen head"] |= not (out.requires_grad and fc.weight.requires_grad and fc.bias.requires_grad)
                if facts["frozen head"]:
                    break
                optimizer.zero_grad()
                out.square().mean().backward()
                got = [name for name, p in model.named_parameters() if p.grad is not None]
                facts["gradients"] += [name for name in got if name.startswith("body")]
                before, grad = fc.weight.detach().clone(), fc.weight.grad.clone()
                optimizer.step()
                if action == actions[-1] and actions.count("step") == 1:
                    facts["head off"] = (before - 0.25 * grad - fc.weight.detach()).abs().max().item()
        now, then = model.state_dict(), pretrained.state_dict()
        same = {name: name in now and torch.equal(now[name], t) for name, t in then.items() if name.startswith("body")}
        facts["moved"] = [name for name, is_same in same.items() if not is_same]
        facts["state"] = all(torch.equal(state[name], t) for name, t in then.items() if name in state)
        return facts | {"state": facts["state"] and len(state) == len(then)}

    def judge(classes, actions, dtype=torch.float32):
        """A frozen body does not move, whatever is done."""
        x = ((torch.arange(48) * 29 % 53) / 26 - 1).reshape(8, 6)
        seen = observe_scenario(frozen, prepare, classes, actions, x, dtype)
        seen.expecting(
            mistake("Loading after replacing the head fails on its shape: load first.", raises="size mismatch")
        )
        seen.that(
            seen["ready"],
            "The head is not ready: an SGD optimizer and a Linear layer with the new number of outputs are asked for.",
        )
        seen.that(
            not seen["gradients"],
            "A rate of 0 alone still computes gradients (and momentum): requires_grad_(False).",
            stage="gradient",
        )
        statistics = (
            "The frozen body drifts: batch norm updates its statistics in train mode whatever requires_grad says."
        )
        seen.that(
            not any(name.endswith(("running_mean", "running_var", "tracked")) for name in seen["moved"]), statistics
        )
        seen.that(not seen["moved"], "A parameter of the frozen body is not the one of the checkpoint (any more).")
        seen.that(
            seen["off"] < 1e-4,
            "The outputs of the frozen body are not those that it has in eval mode, with the checkpoint's statistics.",
        )
        seen.that(not seen["frozen head"], "The head must require grad: it is what is trained.", stage="gradient")
        seen.that(
            sorted(seen["in optimizer"]) == ["fc.bias", "fc.weight"],
            "The optimizer of a frozen body holds the parameters of the new head, and nothing else.",
        )
        seen.that(
            seen["settings"] == [[0.25, 0.9]] * len(seen["settings"]),
            "The head is trained with lr_head and momentum 0.9.",
        )
        seen.that(seen["head off"] < 1e-5, "The first step does not move the head by its rate times its gradient.")
        seen.that(seen["state"], "The checkpoint was changed.", stage="arguments")

    test("model.train(), then a step: nothing of the body moves, no gradients for it")
    judge(3, ["train", "step"])

    ### BEGIN HIDDEN TESTS
    test.hidden("a forward right after prepare, before any call of train()")
    judge(3, ["forward"])
    judge(3, ["step"])

    test.hidden("many switches between train() and eval()")
    judge(5, ["train", "step", "eval", "forward", "train", "step", "train", "forward", "eval", "eval", "step"])
    judge(4, ["eval", "forward", "train", "forward", "forward", "step", "step"])

    test.hidden("a frozen body in float64")
    judge(2, ["train", "step"], torch.float64)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 11.8 A script with options
#
# In a script the hyperparameters come from the command line. Python's module for that is `argparse`.
#
# **Predict.** `--amp` is declared with `type=bool`. What is `args.amp` after `--amp False`?

# %% facts=["11-argparse-add-argument"]
parser = argparse.ArgumentParser(prog="train.py")
parser.add_argument("--file-dir", required=True, help="folder with the data")
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--epochs", default=10)
parser.add_argument("--amp", type=bool, default=True)

args = parser.parse_args(["--file-dir", "data", "--lr", "1e-2", "--epochs", "20", "--amp", "False"])
print(args)
print("bool('False') is", bool("False"))

# %% [markdown]
# True. `type` is any function that is called with the *text*, and `bool` of a text is True unless it is empty.
# Without a `type` the text stays a text: `epochs` is `'20'`, which fails much later, in `range`. A dash in the name
# of an option becomes an underscore in `args`.

# %% [markdown]
# **Predict.** A switch with `action="store_true"`, and one with `BooleanOptionalAction`. Which of the four command
# lines are refused, and how does a refusal end the program?

# %% facts=["11-argparse-store-true", "11-argparse-add-argument"]
parser = argparse.ArgumentParser(prog="train.py")
parser.add_argument("--file-dir", required=True)
parser.add_argument("--resume", action="store_true")
parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)


def try_line(line: str) -> None:
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            args = parser.parse_args(line.split())
        print(f"{line:34} resume {args.resume}, amp {args.amp}")
    except SystemExit as stop:
        print(f"{line:34} exits with {stop.code}: {message.getvalue().splitlines()[-1]}")


try_line("--file-dir data")
try_line("--file-dir data --resume --no-amp")
try_line("--file-dir data --resume True")
try_line("--resume")

# %% [markdown]
# A switch takes no value: it is True when it is there. `BooleanOptionalAction` also makes the `--no-` form, which is
# the honest way to switch off what is on by default. A wrong command line prints the usage and raises `SystemExit`
# with status 2, before anything is loaded or deleted. For testing, `parse_args` takes a list of words instead of
# reading `sys.argv`.

# %% [markdown]
# **Predict.** Someone writes in a README: start it with `python -m --train`. Does that work? What are the two ways
# that do?

# %% facts=["11-python-m-command"]
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "main.py").write_text("import sys; print(sys.argv[1:])", encoding="utf-8")
    for words in (["-m", "--train"], ["main.py", "--train"], ["-m", "main", "--train"]):
        done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=60)
        error = "No module named" in done.stderr and "No module named --train"
        print(f"python {' '.join(words):16}", done.stdout.strip() or error)

# %% [markdown]
# After `-m` stands the name of a module, without `.py`; what follows belongs to the program. `-m` also puts the
# current folder on the path from which modules are imported, while `python folder/main.py` puts the script's own
# folder there.

# %% [markdown]
# ### Exercise 11.9 · --amp False switches AMP on
#
# fix · warm-up · 12 min · 2 points
#
# A training script reads its options, and nearly every value is wrong: `--amp False` switches AMP on, `--lr 0.1` is a
# text, `--layers 128` a list of letters, and in a notebook the script stops because of options that nobody gave. Repair
# `parse_config`; `Config` may stay as it is.
#
# **Contract**
#
# - Parses exactly `argv`, a sequence of words, and returns a `Config`, with values of the types that stand in
#   `Config` and with its defaults.
# - The options: `--data-dir` (required), `--lr` (a float), `--epochs` (an int, 1 or more), `--amp` and `--no-amp`
#   (default: on), `--layers 128 64 32` (one or more ints), `--resume PATH`. Where an option is given twice, the last
#   one counts.
# - An unknown option, a missing `--data-dir`, a word that is no number and epochs below 1 end the program with status
#   2: SystemExit, as argparse does it.
# - Two calls never return the same list of layers.
#
# <details><summary>Hint 1</summary>
#
# What is `bool("False")`? And what does `list("128")` give?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `type=float` and `type=int`; `nargs="+"` together with `type=int`; `action=argparse.BooleanOptionalAction`;
# `required=True`; `p.error(...)` for the epochs; and hand `argv` to `parse_args`.
#
# </details>


# %% answer="argparse-config"
@dataclass
class Config:
    """The settings of a training run."""

    data_dir: str
    lr: float = 1e-3
    epochs: int = 10
    amp: bool = True
    layers: list[int] = field(default_factory=lambda: [64, 64])
    resume: str | None = None


def parse_config(argv: Sequence[str]) -> Config:
    """The settings that the words of a command line ask for; ends the program (status 2) if they make no sense."""
    ### BEGIN SOLUTION
    p = argparse.ArgumentParser()
    p.add_argument("--data-dir", required=True)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--layers", type=int, nargs="+", default=[64, 64])
    p.add_argument("--resume")
    options = p.parse_args(argv)
    if options.epochs < 1:
        p.error("--epochs must be 1 or more")
    return Config(**vars(options))
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # p = argparse.ArgumentParser()
    # p.add_argument("--data_dir")
    # p.add_argument("--lr", default=1e-3)
    # p.add_argument("--epochs", default=10)
    # p.add_argument("--amp", type=bool, default=True)
    # p.add_argument("--layers", type=list, default=[64, 64])
    # p.add_argument("--resume", default=None)
    # return Config(**vars(p.parse_args()))
    ### END GIVEN


# %% check="argparse-config" points=2
"""Values of the right type from exactly this command line; what makes no sense stops with status 2."""
with check("argparse-config") as test:

    def kind_of(value):
        """The type of a setting; for a list the types of its items."""
        return [type(item).__name__ for item in value] if isinstance(value, list) else type(value).__name__

    def parsed(parse_config, argv):
        """What parse_config makes of a command line: types and values, or how it ended the program."""
        told, before = io.StringIO(), sys.argv
        sys.argv = ["train.py", "--data-dir", "from-sys-argv"]
        try:
            with contextlib.redirect_stderr(told):
                config = parse_config(argv)
        except SystemExit as stop:
            return {"exit": stop.code if isinstance(stop.code, int) else 1, "told": told.getvalue()[:2000]}
        finally:
            sys.argv = before
        names = ("data_dir", "lr", "epochs", "amp", "layers", "resume")
        values = {name: getattr(config, name, "missing") for name in names}
        kinds = {name: kind_of(value) for name, value in values.items()}
        return {"exit": None, "told": "", "kind": type(config).__name__, "kinds": kinds, "values": values}

    def layers_of_two(parse_config, argv):
        """Change the layers of a first result, then parse the same command line again."""
        with contextlib.redirect_stderr(io.StringIO()):
            first = parse_config(list(argv))
            first.layers.append(7)
            second = parse_config(list(argv))
        return {"same": first.layers is second.layers, "second": list(second.layers)}

    def used_sys_argv(seen):
        """Whether the words of sys.argv turn up."""
        return "from-sys-argv" in seen["told"] or (seen["exit"] is None and "from-sys-argv" in seen["values"].values())

    known = (
        mistake("parse_args() without argument reads sys.argv, not argv.", when=used_sys_argv),
        mistake(
            "The option is spelt --data-dir; argparse turns the dash into data_dir.",
            when=lambda seen: "--data_dir" in seen["told"],
        ),
    )
    list_of_ints = (
        "--layers takes one or more ints: nargs='+' with type=int (type=list turns '128' into ['1', '2', '8'])."
    )

    def shown(kind):
        """A type in words, where it is one of the usual types."""
        if isinstance(kind, list):
            return "a list"
        names = {"str": "a text", "int": "an int", "float": "a float", "bool": "a bool", "NoneType": "None"}
        return names.get(kind, "of another type")

    def judge(seen, *mistakes, defaults=False, **expected):
        """A Config came, with values of these types; where the defaults are meant, all else has its default."""
        expected = {"data_dir": "photos", **expected}
        ended = "This command line makes sense, and it ended the program."
        seen.that(seen["exit"] is None, ended, *known, *mistakes, stage="raised")
        seen.that(seen["kind"] == "Config", "Return a Config, with the values in it.", *known, stage="type")
        rest = {"lr": 1e-3, "epochs": 10, "amp": True, "layers": [64, 64], "resume": None}
        for name, value in ({**rest, **expected} if defaults else expected).items():
            came, kind = seen["values"][name], seen["kinds"][name]
            if name == "layers" and kind != "tuple":
                seen.that(kind == kind_of(value), list_of_ints, stage="type")
            as_asked = kind == kind_of(value)
            seen.that(
                as_asked or isinstance(value, bool) or (defaults and came is None),
                f"A value has the wrong type: {name} is {shown(kind)}, not {shown(kind_of(value))}.",
                *known,
                stage="type",
            )
            is_default = defaults and name not in expected
            default = "Without options the values must be the defaults of Config (amp is on)."
            sentence = default if is_default else f"The value of {name} is not the one of the command line."
            seen.that(as_asked and came == value, sentence, *known, *mistakes)

    test("--data-dir photos, and the defaults for the rest")
    judge(observe_scenario(parsed, parse_config, ["--data-dir", "photos"]), defaults=True)

    test("--data-dir photos --lr 0.05 --epochs 3 --resume last.pt")
    words = ["--data-dir", "photos", "--lr", "0.05", "--epochs", "3", "--resume", "last.pt"]
    judge(observe_scenario(parsed, parse_config, words), lr=0.05, epochs=3, resume="last.pt", defaults=True)

    test("--data-dir photos --layers 128 64 32")
    words = ["--data-dir", "photos", "--layers", "128", "64", "32"]
    seen = observe_scenario(parsed, parse_config, words)
    judge(seen, mistake(list_of_ints, stage=("raised", "value")), layers=[128, 64, 32], defaults=True)

    test("--amp and --no-amp")
    takes_text = observe_scenario(parsed, parse_config, ["--data-dir", "photos", "--amp", "False"])
    any_text = mistake(
        "bool('False') is True: any text switches it on. Use a switch: --amp / --no-amp.",
        when=lambda seen: takes_text["exit"] is None and takes_text["values"]["amp"] is True,
    )
    for word, on in (("--no-amp", False), ("--amp", True)):
        switch = mistake(f"{word} must switch amp {'on' if on else 'off'}.", stage=("raised", "value"))
        judge(observe_scenario(parsed, parse_config, ["--data-dir", "photos", word]), any_text, switch, amp=on)

    ### BEGIN HIDDEN TESTS
    def judge_refused(words, sentence):
        """The program ended with status 2."""
        seen = observe_scenario(parsed, parse_config, words)
        other = mistake(sentence + " Another exception came.", stage="raised")
        seen.expecting(*known, other).that(seen["exit"] == 2, sentence, stage="value")

    test.hidden("without --data-dir")
    for words in ([], ["--lr", "0.1", "--epochs", "4"], ["--data-dir"]):
        judge_refused(words, "Without --data-dir the program must stop with status 2.")

    test.hidden("unknown options and words")
    for words in (["--batch-size", "3"], ["--verbose"], ["slow"], ["--lr", "0.1", "0.2"]):
        judge_refused(
            ["--data-dir", "photos", *words], "Unknown options must be refused (parse_known_args lets typos pass)."
        )

    test.hidden("words that are no numbers, values where none is meant")
    for words in (
        ["--lr", "fast"],
        ["--epochs", "many"],
        ["--epochs", "2.5"],
        ["--layers", "12", "wide"],
        ["--layers", "12.5"],
        ["--layers", "12,13"],
        ["--lr"],
        ["--resume"],
    ):
        judge_refused(
            ["--data-dir", "photos", *words], "A word that is no number (or is missing) must be refused with status 2."
        )
    for words in (["--amp", "False"], ["--amp=False"], ["--amp", "on"]):
        judge_refused(["--data-dir", "photos", *words], "--amp is a switch: a value after it must be refused.")

    test.hidden("epochs below 1")
    for words in (
        ["--epochs", "0"],
        ["--epochs", "-3"],
        ["--epochs=-1", "--lr", "1"],
        ["--epochs", "2", "--epochs", "0"],
    ):
        judge_refused(["--data-dir", "photos", *words], "Epochs below 1 must be refused with status 2.")
    judge(observe_scenario(parsed, parse_config, ["--data-dir", "photos", "--epochs", "1"]), epochs=1)

    test.hidden("--layers without a number")
    for words in (["--layers"], ["--layers", "--amp"]):
        judge_refused(["--data-dir", "photos", *words], list_of_ints)

    test.hidden("the layers of two results are independent")
    shared = "Two calls returned the same list object: changing one config changes the other."
    for words, wanted in (
        (["--data-dir", "photos"], [64, 64]),
        (["--data-dir", "photos", "--layers", "5", "6"], [5, 6]),
    ):
        seen = observe_scenario(layers_of_two, parse_config, words)
        seen.expecting(mistake(list_of_ints, raises="SystemExit"))
        seen.that(not seen["same"] and seen["second"] == wanted, shared, stage="aliasing")

    test.hidden("an option that is given twice: the last one counts")
    words = ["--data-dir", "a", "--lr", "3", "--layers", "1", "2", "--amp", "--epochs", "4", "--no-amp", "--lr=0.25"]
    words += ["--layers", "8", "--data-dir=photos", "--epochs", "6", "--resume", "a", "--resume", "b.pt"]
    twice = mistake("Where an option is given twice, the last one counts.", stage=("type", "value"))
    for some_words in (words, tuple(words)):
        seen = observe_scenario(parsed, parse_config, some_words).expecting(twice)
        judge(seen, lr=0.25, epochs=6, amp=False, layers=[8], resume="b.pt")
    judge(observe_scenario(parsed, parse_config, ["--no-amp", "--data-dir", "photos", "--amp"]), amp=True)

    test.hidden("one layer, whole numbers for the rate")
    seen = observe_scenario(parsed, parse_config, ["--layers", "16", "--lr", "2", "--data-dir", "photos"])
    judge(seen, lr=2.0, layers=[16], defaults=True)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 11.9 The same run twice
#
# **Predict.** The same small training, with five seeds, and once more with the first. The seed decides about the
# initial weights and the order of the data. By how much do the five results differ?


# %% facts=["11-shuffle-each-epoch", "11-train-valid-test-split"]
everything = TensorDataset(colours, families)
train_set, valid_set = random_split(everything, [428, 100], generator=torch.Generator().manual_seed(0))
valid_x, valid_y = next(iter(DataLoader(valid_set, batch_size=100)))


def right_after_training(seed: int) -> int:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, len(FAMILIES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(8):
        for x, y in DataLoader(train_set, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        return (model(valid_x).argmax(1) == valid_y).sum().item()


print("right of 100, seeds 0 to 4:", [right_after_training(seed) for seed in range(5)])
print("seed 0 again:              ", right_after_training(0))

# %% [markdown]
# The same seed gives the same result on the same machine. Across versions and platforms PyTorch doesn't promise it.
# And the five numbers show how much is luck: if your new idea brings less than the difference between two seeds, one
# run each proves nothing.

# %% [markdown]
# A seed at the start is not enough for a run that is interrupted. **Predict.** Two epochs, a checkpoint, two more
# epochs; compared with four epochs in one go. Which of the five things below must be in the checkpoint for the
# weights to agree exactly?


# %% facts=["11-optimizer-state-dict"]
def run(epochs: int, checkpoint: dict | None = None, forget: str = "nothing") -> dict:
    """Train for some epochs, from the start or from a checkpoint; return a checkpoint."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, len(FAMILIES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
    order = torch.Generator().manual_seed(0)
    loader = DataLoader(train_set, batch_size=64, shuffle=True, generator=order)

    stateful = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    if checkpoint is not None:
        for name, part in stateful.items():
            if name != forget:
                part.load_state_dict(checkpoint[name])
        if forget != "random numbers":
            torch.set_rng_state(checkpoint["random numbers"])
        if forget != "order of the data":
            order.set_state(checkpoint["order of the data"])

    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        scheduler.step()
    saved = {name: copy.deepcopy(part.state_dict()) for name, part in stateful.items()}
    return saved | {"random numbers": torch.get_rng_state(), "order of the data": order.get_state()}


in_one_go, half = run(4), run(2)
for forget in ("nothing", *half):
    resumed = run(2, half, forget)
    same = all(torch.equal(resumed["model"][name], weight) for name, weight in in_one_go["model"].items())
    print(f"forgotten: {forget:18} the same weights as in one go: {same}")

# %% [markdown]
# All five. Without the optimizer the momentum starts from zero; without the scheduler the rate falls too late;
# without the state of the random numbers dropout drops others; without that of the loader's generator the epochs come
# in the order of the first two again. A resumed run that forgets one of them isn't wrong, but it is another run. The
# note "Reproducibility" in PyTorch's documentation lists what else can differ;
# `torch.use_deterministic_algorithms(True)` makes operations that can't promise the same result raise an error.

# %% [markdown]
# ## 11.10 All of it together
#
# Here is the training of section 11.1 once more, as you would leave it: a part of the data kept aside, a seed, a
# schedule, the mode switched for each part of an epoch, losses averaged over samples, the best weights kept. The
# curve is drawn anew after each epoch while the cell runs.
#
# **Predict.** Two curves will appear: the loss on the 428 colours that are trained on, and on the 100 others, which
# the model never sees in training. Which one lies lower after the first epoch?


# %% varies="the curve grows in its place while the cell runs"
def fit_colours(epochs: int, lr: float, batch_size: int, seed: int) -> tuple[nn.Module, LiveCurve]:
    """Train a model on the colours; return it with its best weights, and the curves of its losses."""
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, generator=order)
    model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(FAMILIES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))
    curve = LiveCurve(epochs, "training", "validation")
    best_loss, best_weights = math.inf, None

    for _ in range(epochs):
        model.train()
        summed = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
            optimizer.step()
            scheduler.step()
            summed += loss.item() * len(y)

        model.eval()
        with torch.no_grad():
            valid_loss = F.cross_entropy(model(valid_x), valid_y).item()
        if valid_loss < best_loss:
            best_loss, best_weights = valid_loss, copy.deepcopy(model.state_dict())
        curve.add(training=summed / len(train_set), validation=valid_loss)

    model.load_state_dict(best_weights)
    return model, curve


model, curve = fit_colours(epochs=25, lr=0.01, batch_size=32, seed=0)

# %% [markdown]
# That of the *other* colours. The training loss is averaged over an epoch in which the model was getting better all
# the time, the validation loss is computed at its end; half an epoch lies between the two. Only later, when the model
# hardly changes within an epoch, can they be compared. (With dropout the training loss is higher for a second
# reason.)
#
# **Predict.** Which kinds of colours will the model get wrong?

# %%
model.eval()
with torch.no_grad():
    probabilities = model(valid_x).softmax(1)
said = probabilities.argmax(1)
print(f"right: {(said == valid_y).sum()} of {len(valid_y)}, lowest validation loss {curve.lowest('validation'):.1f}")

wrong = (said != valid_y).nonzero().flatten()
for number in wrong[probabilities[wrong, valid_y[wrong]].argsort()][:3].tolist():
    print(f"{names[valid_set.indices[number]]!r}: the model says {FAMILIES[said[number]]}")

# %% [markdown]
# Always look at some mistakes, the worst first. These are two-coloured names, in which the last word is not the whole
# truth: the labels are doubtful, not the model. No number could have told you that.

# %% [markdown]
# ### The same as a script
#
# A script gets its settings from `argparse`, and a progress bar from a package such as rich. **Predict.** In a
# terminal the bar moves. What will it do here, where the script's output goes into a pipe?

# %% facts=["11-five-training-parts", "11-argparse-store-true"]
TRAINING_SCRIPT = """
import argparse, sys, torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

def parse(argv=None):
    parser = argparse.ArgumentParser(description="Tell a ring from what lies in it.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args(argv)

def main(args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    x = torch.randn(1000, 2)
    data = TensorDataset(x, (x.norm(dim=1) > 1.2).float())
    train, valid = random_split(data, [0.8, 0.2])
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    loss_function = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    columns = "epochs", BarColumn(20), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.1f}")
    console = Console(force_terminal=sys.stdout.isatty())
    with Progress(*columns, console=console, disable=not args.progress) as bar:
        task = bar.add_task("", total=args.epochs, loss=float("nan"))
        for _ in range(args.epochs):
            summed = 0.0
            for inputs, targets in DataLoader(train, batch_size=32, shuffle=True):
                optimizer.zero_grad()
                loss = loss_function(model(inputs), targets)
                loss.backward()
                optimizer.step()
                summed += loss.item() * len(targets)
            bar.update(task, advance=1, loss=summed / len(train))

    model.eval()
    inputs, targets = valid[:]
    with torch.no_grad():
        right = ((model(inputs) > 0) == targets.bool()).float().mean()
    print(f"right on the validation part: over 90%: {right > 0.9}")

if __name__ == "__main__":
    main(parse())
"""

print(run_script(TRAINING_SCRIPT, "--epochs", "15", "--lr", "0.02").stdout)

# %% [markdown]
# rich writes the bar once, at the end, when nobody can watch it, so log files stay short; `--no-progress` leaves it
# out. The functions `parse` and `main` and the last two lines make the file importable: for a test, for a notebook,
# and for workers that are spawned.

# %% [markdown]
# ## On a GPU
#
# Without a CUDA device the next cells print one line, and the output that was recorded on another machine where there
# is one.
#
# **Predict.** One epoch over 4096 pictures that take some time to load. Which helps more: two workers, or pinned
# memory and `non_blocking=True`?


# %% facts=["11-dataloader-num-workers"] varies="a CUDA device changes what is shown"
@cuda_demo("11_training_loop")
def where_the_time_goes() -> None:
    """Time one epoch with and without workers, and with and without pinned memory."""
    code = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, index):
        picture = torch.full((3, 64, 64), index / 4096)
        for _ in range(20):
            picture = picture.sin()  # stands for decoding and augmenting
        return picture, index % 10

def epoch(model, loader, non_blocking):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=non_blocking)), y.cuda(non_blocking=non_blocking))
        loss.backward()
    torch.cuda.synchronize()

if __name__ == "__main__":
    torch.set_num_threads(1)
    layers = nn.Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    model = nn.Sequential(*layers).cuda()
    for workers in (0, 2):
        for pinned in (False, True):
            loader = DataLoader(Slow(), batch_size=128, num_workers=workers, pin_memory=pinned,
                                persistent_workers=workers > 0)
            epoch(model, loader, pinned)
            start = time.perf_counter()
            epoch(model, loader, pinned)
            print(f"workers {workers}, pinned {pinned!s:5} {time.perf_counter() - start:.2f} s")
"""
    done = run_script(code)
    print(done.stdout.strip() or done.stderr.strip()[-500:])


where_the_time_goes()

# %% [markdown]
# Workers load the next batches while the GPU computes; that is the large gain wherever loading is slow. Pinned memory
# lets the copy to the GPU overlap with computing, which matters once loading is no longer what everything waits for.
# Measure the second epoch, and call `torch.cuda.synchronize()` before you look at the clock.

# %% [markdown]
# **Predict.** `loss.item()` is called in every step, for the log. What does it cost, and why?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("11_training_loop")
def item_in_every_step() -> None:
    """Steps per second with item() in each step and with a sum on the device."""
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(20))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 512, device="cuda")
    for every_step in (True, False):
        for measured in (False, True):
            total = 0.0 if every_step else torch.zeros((), device="cuda")
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                total += loss.item() if every_step else loss.detach()
            torch.cuda.synchronize()
            if measured:
                name = "item() in every step" if every_step else "a sum on the device"
                print(f"{name:22} {200 / (time.perf_counter() - start):.0f} steps a second")


item_in_every_step()

# %% [markdown]
# `item()` needs the number, so it waits until the GPU has finished everything queued before (section 1.5); meanwhile
# nothing new is queued. Add up on the device, and ask once in a while.

# %% [markdown]
# **Predict.** 200 small parameters, one step of Adam: in a loop over the parameters, with `foreach=True`, and with
# `fused=True`. How much faster is the fastest?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("11_training_loop")
def three_ways_to_step() -> None:
    """Time Adam's step for 200 parameters in its three implementations."""
    ways = {"a loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    for name, options in ways.items():
        parameters = [nn.Parameter(torch.randn(100, 100, device="cuda")) for _ in range(200)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer = torch.optim.Adam(parameters, lr=1e-3, **options)
        for _ in range(3):
            optimizer.step()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(20):
            optimizer.step()
        end.record()
        end.synchronize()
        print(f"{name:8} {start.elapsed_time(end) / 20:.2f} ms a step")


three_ways_to_step()

# %% [markdown]
# The loop starts several kernels for each parameter. `foreach` handles lists of tensors with few kernels, `fused`
# does the whole update in one or a few. On CUDA PyTorch takes `foreach` by itself where it can; the page
# `torch.optim` says how the choice is made.

# %% [markdown]
# ## Folklore, checked
#
# What people say about training, and what is so. Each row unfolds its proof: a few lines that run through only if the
# statement on the right holds.

# %% facts=["11-parser-module", "11-dataloader-signature"]
folklore(
    "11_training_loop",
    ids=[
        "11-parser-module",
        "11-python-m-command",
        "11-dataloader-signature",
        "11-optimizer-step-count",
        "11-iteration-definition",
        "11-zero-grad-clears-to-zero",
        "11-nll-loss-needs-softmax",
        "11-weight-decay-modifies-gradient",
        "11-torchvision-modules",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

# %%
prove("11-weight-decay-modifies-gradient")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - `torch.optim`: parameter groups, the algorithms, "How to adjust learning rate";
# - `torch.utils.data`: samplers, collate functions, "Multi-process data loading", and what is said there about random
#   numbers in workers;
# - `torch.nn.CrossEntropyLoss` and `torch.nn.NLLLoss`: the formulas, with weights, smoothing and ignored labels;
# - `torch.nn.BatchNorm1d`: which variance is used where;
# - the notes "Reproducibility" and "Frequently Asked Questions" (why memory grows: sums of losses that keep their
#   graph).
#
# And in Python's: `argparse`, with its tutorial, and `multiprocessing`, "Contexts and start methods".
