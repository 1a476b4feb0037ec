# %% [markdown]
# # The training loop
#
# A training loop makes five calls. Each is simple, but most mistakes around them are silent: the loss still goes down,
# just not as far as it could. After this chapter you can
#
# - write and fix the loop: the order of the calls, accumulation, clipping, train and eval mode, a mean over samples;
# - choose a loss and check its inputs: shapes, logits, log-probabilities, labels;
# - put samples of different lengths into one batch with a collate function;
# - configure optimizers: parameter groups, weight decay (coupled or decoupled), state, schedules;
# - fine-tune a model without the classic mistakes, and resume a run as if it had never stopped.
#
# You will also see samplers, workers and splits, and what batch norm and dropout do in training and in evaluation.
#
# **75 minutes to read, 189 minutes to practise, 20 points.** You need chapter 4: leaves, `.grad`, what
# `backward` adds where; and from chapter 7 modules, `state_dict`, train and eval mode.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import copy
import io
import math
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.colors import XKCD_COLORS, to_rgb
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    random_split,
)

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.batch_anatomy import batch_anatomy_explorer
from torchkata.pictures.loop_effects import loop_effects
from torchkata.pictures.loss_curve import LiveCurve
from torchkata.pictures.optimizer_path import optimizer_explorer
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    incoming_gradient,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    separation,
)

# %% [markdown]
# First, some real data. In [a survey in 2010](https://blog.xkcd.com/2010/05/03/color-survey-results/) many thousand
# people named colours, and matplotlib ships 949 of the names with their red, green and blue values. The last word of a
# name often gives the colour's family: "dark olive green" is a green. We keep the names that end in one of eight
# families. We'll train a model to predict the family from the three numbers.

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
# Here is a training program. It runs, and its loss falls in nearly every epoch.

# %%
torch.set_num_threads(1)  # a model this small doesn't need more
torch.manual_seed(0)
loader = DataLoader(TensorDataset(colours, families), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model[2] = nn.Linear(32, len(FAMILIES))  # eight families, not ten

for epoch in range(15):
    for x, y in loader:
        loss = F.cross_entropy(model(x).softmax(1), y)
        loss.backward()
        optimizer.step()
    if epoch % 7 == 0:
        print(f"epoch {epoch:2}: loss of the last batch {loss.item():.1f}")
right = (model(colours).argmax(1) == families).float().mean()
print(f"right: {right:.0%} of the colours it was trained on")

# %% [markdown]
# It gets about 60 % of the colours right. You might be tempted to try a larger model or train for longer, but the model
# isn't the problem. Three of these lines are wrong, and PyTorch warned about none of them. With all three fixed, the
# same model gets more than 90 % right in the same time. You will find one mistake in section 11.1, one in 11.2, and the
# last in 11.7, where we fix the program.
#
# ## 11.1 Five calls and one order
#
# Each iteration clears the gradients, runs the forward pass, computes the loss, runs backward and takes a step. If one
# of these calls is in the wrong place, there is no error.
#
# **Predict.** The weight `w` starts at 0, its gradient is always 1, and the learning rate is 1. What is `w` after three
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


for order in (
    ["zero_grad", "backward", "step"],
    ["backward", "step"],
    ["backward", "zero_grad", "step"],
):
    one, three = weight_after(order, 1), weight_after(order, 3)
    print(f"{', '.join(order):28} after one: {one:4}   after three: {three:4}")

# %% [markdown]
# `backward` *adds* to `.grad` (section 4.3). Without `zero_grad`, the second step uses 1 + 1 and the third 1 + 1 + 1. A
# single iteration doesn't reveal the mistake, because the sum of one gradient is that gradient. And `zero_grad` between
# `backward` and `step` throws away what was just computed, so the model learns nothing. This is the first mistake in
# our program: it never calls `zero_grad`. In a small regression the three orders end like this:


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
for order in (
    ["zero_grad", "backward", "step"],
    ["backward", "step"],
    ["backward", "zero_grad", "step"],
):
    print(f"{', '.join(order):28}{final_loss(order):.2f}")

# %% [markdown]
# The order to remember is **zero_grad, forward, loss, backward, (clip), step**. You may also call `zero_grad` at the
# end, after `step`, but never between `backward` and `step`.
#
# The table below shows which call changes what. It was not written by hand: we ran each call of one iteration and
# compared everything before and after.

# %% facts=["11-loop-order"]
loop_effects()

# %% [markdown]
# Two rows deserve a second look. The forward pass has side effects: in train mode it updates batch norm's running
# statistics, which are buffers, and dropout advances the random number generator. And only `step` changes weights.
# `backward` never touches the optimizer, and the optimizer never sees the loss. They share nothing but `.grad`.
#
# What is in `.grad` after `zero_grad`? And if a parameter's gradient was cleared, does a step with weight decay still
# change the parameter?

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
# Since torch 2.0, `zero_grad` sets `.grad` to None by default (`set_to_none=True`), so code that reads gradients right
# after it must expect None. The next step also differs: `step` skips a parameter whose gradient is None, whereas weight
# decay and momentum still change a parameter whose gradient is zero.
#
# ### When the batch does not fit: accumulate
#
# Adding gradients is also useful. When a batch doesn't fit into memory, you can compute it in parts and take a single
# step. This is called *gradient accumulation*.
#
# **Predict.** We compute the gradient for eight samples, first in one batch and then in parts. Which of the four ways
# below give the gradient of the whole batch?

# %% facts=["11-zero-grad-because-accumulation"]
torch.manual_seed(0)
x, y = torch.randn(8, 3), torch.randn(8, 1)
model = nn.Linear(3, 1)


def difference_to_whole_batch(parts: list[int], share) -> str:
    """Add up gradients over parts of the batch; share(n) is the factor for a part of n samples."""
    model.zero_grad()
    for xs, ys in zip(x.split(parts), y.split(parts), strict=True):
        (share(len(xs)) * F.mse_loss(model(xs), ys)).backward()
    return f"{(model.weight.grad - whole).norm() / whole.norm():.2f}"


F.mse_loss(model(x), y).backward()
whole = model.weight.grad.clone()

equal, unequal = [2, 2, 2, 2], [5, 2, 1]
print("4 parts of 2, losses as they are:   ", difference_to_whole_batch(equal, lambda n: 1))
print("4 parts of 2, each loss / 4:        ", difference_to_whole_batch(equal, lambda n: 1 / 4))
print("parts of 5, 2, 1, each loss / 3:    ", difference_to_whole_batch(unequal, lambda n: 1 / 3))
print("parts of 5, 2, 1, each loss · n / 8:", difference_to_whole_batch(unequal, lambda n: n / 8))

# %% [markdown]
# The second and the fourth way do. The loss of a part is a mean over that part. Adding up four means gives four times
# the mean, so the gradient is four times too large. Dividing by the number of parts is right only if all parts have the
# same size. Dividing each part's *sum* by the number of samples in the whole batch is always right. (Layers that mix
# the samples of a batch, such as batch norm, still see the smaller batches.)
#
# ### When a gradient is too large: clip
#
# Two parameters have the gradients 3 and 4. We call `clip_grad_norm_` three times:

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
# `clip_grad_norm_` treats all gradients as one long vector; here its norm is 5. If the norm exceeds `max_norm`, every
# gradient is scaled in place by the same factor, which preserves the direction. The return value is the norm *before*
# clipping, a number worth logging. Call it between `backward` and `step`. Any earlier and there is nothing to clip; any
# later and the step has already been taken, and in both cases PyTorch says nothing. With accumulation, call it once per
# step, after the last `backward`.
#
# ### Before you train: two numbers to look at
#
# A model that knows nothing gives each of C classes a probability of about 1/C, so its first loss should be about ln C.
# And a model with enough weights can learn a single batch by heart, so its loss on one batch should go to zero. If
# either check fails, there is no point in training longer.

# %% facts=["11-parameters-vs-hyperparameters"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, len(FAMILIES)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = colours[:8], families[:8]

first = F.cross_entropy(model(colours), families).item()
print(f"ln 8 = {math.log(8):.2f}, first loss {first:.2f}")
for step in range(301):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3}: loss of the one batch {loss.item():.3f}")

# %% [markdown]
# This loop can learn. The test takes a minute and may save you a night.
#
# **Now you know.** `backward` adds to `.grad` and `step` reads it. Everything about the order of the calls follows from
# that.

# %% exercise="overfit-one-batch"

# %% [markdown]
# ## 11.2 Losses and what they are given
#
# A loss function takes two tensors and trusts you. Here are predictions of shape (4, 1) and targets of shape (4,). Both
# contain 0, 1, 2, 3.
#
# **Predict.** The model is perfect. Is the loss zero?

# %% facts=["11-mseloss-needs-equal-shapes"] shows_warning="UserWarning"
target = torch.arange(4.0)
perfect = target.reshape(4, 1)

warning_of(lambda: print("MSELoss:", nn.MSELoss()(perfect, target).item()))
print("by hand:", (perfect - target).pow(2).mean().item())
print("shape of the difference:", tuple((perfect - target).shape))
print("equal shapes:", nn.MSELoss()(perfect.squeeze(1), target).item())

# %% [markdown]
# (4, 1) minus (4,) is broadcast to (4, 4), so every prediction is compared with *every* target. The best answer to that
# is the mean of all targets, and this is what such a model learns. MSELoss warns; the same formula written by hand
# doesn't even do that. The accident is common, because a model that ends in `nn.Linear(…, 1)` returns (N, 1).

# %% exercise="broadcast-loss"

# %% [markdown]
# ### Logits, not probabilities
#
# The second mistake in our program was `.softmax(1)` in front of `cross_entropy`. With it, the one-batch test of
# section 11.1 stays above 1.2 however long you wait. *Logits* are the model's outputs before any softmax, which may be
# any real numbers. The logits (100, 0, 0) for three classes are very sure, and right.
#
# **Predict.** What is the cross-entropy of these logits? And what is the cross-entropy of their softmax, the
# probabilities (1, 0, 0)?

# %% facts=["11-crossentropy-takes-logits"]
logits, label = torch.tensor([[100.0, 0.0, 0.0]]), torch.tensor([0])

print(f"of logits:          {F.cross_entropy(logits, label):.2f}")
print(f"after a softmax:    {F.cross_entropy(logits.softmax(1), label):.2f}")
print(f"log(1 + 2/e):       {math.log(1 + 2 / math.e):.2f}")

# %% [markdown]
# `cross_entropy` takes *logits*, which may be any real numbers, and applies a log-softmax itself. With a softmax in
# front, softmax is applied twice. Probabilities lie between 0 and 1, so as logits they can never be further apart than
# 1. The loss therefore can't fall below 0.55 for three classes, or below 1.27 for our eight. The model still learns
# something, which is why nobody notices the mistake.
#
# Cross-entropy is log-softmax followed by the negative log-likelihood loss. But a log-softmax does more than a softmax
# and a logarithm in a row. The logits (0, 200), with label 0, are sure and wrong:

# %% facts=["11-cross-entropy-is-logsoftmax-nll"]
logits, label = torch.tensor([[0.0, 200.0]]), torch.tensor([0])

print("cross_entropy:            ", F.cross_entropy(logits, label).item())
print("log_softmax, then NLLLoss:", nn.NLLLoss()(logits.log_softmax(1), label).item())
print("-log(softmax):            ", -logits.softmax(1).log()[0, 0].item())

# %% [markdown]
# The softmax of the smaller logit is e^-200, which float32 rounds to 0, and log(0) is -inf. `log_softmax` works with
# logarithms from the start, so the 200 survives.
#
# `NLLLoss` has "log" in its name. Does it take the logarithm?

# %% facts=["11-nll-loss-needs-softmax"]
torch.manual_seed(0)
logits, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])

print(f"cross_entropy of logits:        {F.cross_entropy(logits, labels):.3f}")
print(f"nll_loss of log-probabilities:  {F.nll_loss(logits.log_softmax(1), labels):.3f}")
print(f"nll_loss of probabilities:      {F.nll_loss(logits.softmax(1), labels):.3f}")

# %% [markdown]
# It doesn't. `NLLLoss` picks the entry of each true class and changes its sign. If you pass it probabilities, it
# returns minus a probability, a negative "loss" that can even be minimised. A loss below zero where none should be is a
# good alarm.
#
# Which targets does `cross_entropy` accept for logits of shape (6, 3)?

# %% facts=["11-crossentropy-takes-logits"]
torch.manual_seed(0)
logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])

print(f"int64 labels:        {F.cross_entropy(logits, labels):.3f}")
print(f"uint8 labels:        {F.cross_entropy(logits, labels.to(torch.uint8)):.3f}")
print(f"class probabilities: {F.cross_entropy(logits, F.one_hot(labels, 3).float()):.3f}")
error_of(lambda: F.cross_entropy(logits, labels.int()))
error_of(lambda: F.cross_entropy(logits, labels.float()))
error_of(lambda: F.cross_entropy(logits, F.one_hot(labels, 3)))
error_of(lambda: F.cross_entropy(logits, labels + 1))

# %% [markdown]
# Labels are int64 (or uint8) and lie in 0 … C - 1. A floating-point target with the shape of the logits is read as
# class probabilities. For two classes, or for several classes that may be true at once, use
# `binary_cross_entropy_with_logits`. It also takes logits, and its targets must be *floating-point* and have exactly
# the same shape. The page of
# [CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html) describes all forms,
# with weights, smoothing and ignored labels.
#
# **Now you know.** A loss function broadcasts and computes whatever it is given. Check once, before the first epoch,
# that it gets equal shapes in a regression, and logits and integer labels in a classification.

# %% exercise="cross-entropy-from-logits"

# %% [markdown]
# ## 11.3 Data
#
# A `DataLoader` has three parts. Below, each part prints a line when it is used, for four samples in batches of two.


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
sampler = LoggingSampler(dataset)
loader = DataLoader(dataset, batch_size=2, sampler=sampler, collate_fn=logging_collate)
x, y = next(iter(loader))
print("batch:", tuple(x.shape), x.dtype, y.tolist(), y.dtype)

# %% [markdown]
# The loader draws the indices of a whole batch, then reads the samples one by one, then turns the list of samples into
# a batch. So the *sampler* decides which samples come and in which order, the *dataset* returns the sample for an
# index, and *collate* builds the batch. The default collate function stacks tensors and turns Python integers into
# int64 tensors.
#
# What can you pass as the dataset?


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
# You can pass anything with `__len__` and `__getitem__`, even a list. Inheriting from `Dataset` documents your
# intention, but nothing enforces it. An `IterableDataset` only yields samples; the loader can't shuffle it, because
# there is nothing to index.
#
# How many batches of 64 do 528 colours make?

# %% facts=["11-dataloader-batches", "11-iteration-definition"]
data = TensorDataset(colours, families)

for drop_last in (False, True):
    loader = DataLoader(data, batch_size=64, drop_last=drop_last)
    sizes = [len(x) for x, y in loader]
    print(f"drop_last={drop_last!s:5}  len(loader) {len(loader)}, sizes {sizes}", end=", ")
    print(f"samples {sum(sizes)}")

# %% [markdown]
# The incomplete last batch is kept unless you pass `drop_last=True`. An *iteration* is one batch and one step. An
# *epoch* is one pass over all samples and has `len(loader)` iterations, that is, samples divided by batch size, rounded
# up (or down with `drop_last`). `len(loader.dataset)` is the number of samples.
#
# **Predict.** With `shuffle=True`, does the second epoch have the same order as the first? And does a second loader
# repeat these orders if its generator has the same seed?


# %% facts=["11-shuffle-each-epoch"]
def orders(seed: int, epochs: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(range(8), batch_size=8, shuffle=True, generator=generator)
    return [batch.tolist() for _ in range(epochs) for batch in loader]


for order in orders(seed=0, epochs=3):
    print(order)
print("again, from the same seed:", orders(seed=0, epochs=3) == orders(seed=0, epochs=3))

# %% [markdown]
# Each pass over the loader draws a new permutation, in which every sample occurs once. The second loader repeats the
# same permutations. A loader with its own generator depends on nothing else. Without one, the loader is seeded from the
# global random numbers, so adding a dropout layer to your model changes the order of the data. Note that
# `next(iter(loader))` begins a new epoch each time.
#
# Splits need a generator for the same reason. Here we split 528 samples into 80, 10 and 10 per cent:


# %% facts=["11-train-valid-test-split"]
def split() -> list:
    return random_split(range(528), [0.8, 0.1, 0.1], generator=torch.Generator().manual_seed(0))


train, valid, test = split()
print("sizes", len(train), len(valid), len(test))
print("samples in two parts:", len(train) + len(valid) + len(test) - len({*train, *valid, *test}))
print("the same split again:", list(split()[2]) == list(test))

# %% [markdown]
# Samples that are left over by rounding go to the first parts, one each. If the split differs from run to run, today's
# training data include some of yesterday's test data. And compute means and other statistics for preparing data on the
# training part alone.
#
# ### Samples of different length
#
# The names of colours are sequences of letters. The default collate can't stack them:

# %%
words = ("red", "green", "pink")
tensors = [torch.tensor([ord(letter) - 96 for letter in word]) for word in words]
letters = [(tensor, number) for number, tensor in enumerate(tensors)]


def as_tuples(samples: list) -> tuple:
    return tuple(zip(*samples, strict=True))


error_of(lambda: next(iter(DataLoader(letters, batch_size=3))))
x, y = next(iter(DataLoader(letters, batch_size=3, collate_fn=as_tuples)))
print([len(word) for word in x], y)

# %% [markdown]
# Your own `collate_fn` gets the list of samples and may return anything; here it returns tuples of unchanged tensors.
# To compute with the batch as one tensor, you *pad* shorter samples to the length of the longest sample in the batch,
# and a mask says which steps are real. Compute the mask from the lengths, because a value in the data may equal the
# padding.
#
# The explorer shows which samples share a batch, and how much padding that costs. Sort the lengths in the text field
# and watch the padding shrink; then shuffle.

# %%
batch_anatomy_explorer()

# %% exercise="pad-collate"

# %% [markdown]
# ### Workers are processes
#
# `num_workers` is the number of processes that read the data. With 0, the default, the main process reads the data
# itself; with 1 there is already a second process. The next cell writes a small script and runs it, so that its
# processes don't mix with those of this notebook. Two workers read four samples in batches of two, for two epochs. The
# dataset draws noise from two sources: its own generator, made in `__init__`, and torch's global one.
#
# **Predict.** Which of the two kinds of noise repeats itself? And how often does each number of the stream arrive?

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
    """Write the text to a file, train.py, and run it as a separate script."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-X", "utf8", path, *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)


print(run_script(SCRIPT).stdout.strip())

# %% [markdown]
# Each worker is a process of its own with its own copy of the dataset, and is created again for each epoch (unless
# `persistent_workers=True`). Each worker seeds the global generators of torch, Python and NumPy afresh. But a generator
# that you store in the dataset is copied like everything else, so both workers draw the same "random" numbers, and draw
# them again in the next epoch: the augmentation repeats itself. To prevent this, pass a `worker_init_fn`. Each worker
# calls it when it starts, and it can make a new generator from the worker's seed. A stream is copied in the same way,
# so its data arrive once from each worker, unless its `__iter__` asks `get_worker_info()` for its share.
#
# Workers take turns, one batch each, and the loader returns the batches in order, whichever worker is faster. With the
# same seeds *and the same number of workers* the result is the same.
#
# Can a worker find a class that you defined in a notebook? Python can start a process in three ways: *fork* copies the
# running process, *spawn* starts a fresh Python, and *forkserver* forks a small server process that was itself started
# fresh. The program below is passed to Python as a string. Like a notebook, it isn't a file that Python could import.

# %% facts=["11-dataloader-num-workers"]
AS_IN_A_NOTEBOOK = """
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return index * index

for method in ("fork", "spawn", "forkserver"):
    try:
        loader = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context=method)
        print(f"{method:10}", [batch.tolist() for batch in loader])
    except RuntimeError as error:
        told = str(error).partition("(")[0]
        print(f"{method:10} RuntimeError: {told}... exited unexpectedly")
"""

command = [sys.executable, "-c", AS_IN_A_NOTEBOOK]
done = subprocess.run(command, capture_output=True, text=True, timeout=120)
print(done.stdout.strip())
if "Can't get attribute 'Squares'" in done.stderr:
    print("           in the worker: AttributeError: Can't get attribute 'Squares' ...")

# %% varies="each Python and each system has its own default"
version = ".".join(map(str, sys.version_info[:2]))
print(f"Python {version} on {sys.platform}: {multiprocessing.get_start_method()}")

# %% [markdown]
# A forked worker has everything that the notebook has. The other two get the dataset in pickled form, and a pickle
# contains only the *name* of a class; the fresh Python looks the name up and finds nothing. The last line says which of
# the three your Python uses if you don't choose one; on Linux that changed with Python 3.14 ([section
# 10.1](../10_multi_gpu/multi_gpu.ipynb)), so a notebook that worked may fail after an update. Therefore put datasets
# for workers into a file and import them. In scripts, keep the main program under `if __name__ == "__main__":`, because
# such a worker imports the script again. A collate function must also be importable, since a lambda can't be pickled.
# ([Multi-process data loading](https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading))
#
# **Now you know.** The sampler chooses the indices, the dataset returns the sample for each index, and collate makes
# the batch. Workers do this in processes of their own, each with a copy of the dataset.
#
# ## 11.4 Evaluate
#
# An evaluation loop looks like a training loop without `zero_grad`, `backward` and `step`. We train the model below for
# a few epochs and then turn on its dropout. Then we compute its loss over all 528 colours twice in train mode and twice
# in eval mode, without a graph.
#
# **Predict.** Which of the four losses agree? And does an evaluation change the model?

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
        first = F.cross_entropy(model(colours), families)
        second = F.cross_entropy(model(colours), families)
    moved = not torch.equal(mean_before, model[1].running_mean)
    mode = "train mode:" if training else "eval mode:"
    same = first == second
    print(f"{mode:12}twice the same loss: {same}, batch norm's statistics moved: {moved}")

# %% [markdown]
# The two losses agree only in eval mode. In train mode, dropout zeroes a different half of the hidden activations each
# time. Batch norm normalises with the statistics of the batch, which is the same here, but it also updates its running
# statistics, so evaluating in train mode *changes the model*, with or without `no_grad`. `model.eval()` turns off
# dropout and these updates. It doesn't turn off the graph; `no_grad` does that, and neither replaces the other.
#
# The second question is how to average. We sort the colours by their loss and cut them into batches of 500, which gives
# one batch of 500 and one of 28.

# %% facts=["11-loss-vs-cost-function"]
model.eval()
with torch.no_grad():
    each = F.cross_entropy(model(colours), families, reduction="none")
    hardest_last = each.argsort()
    losses, total, count = [], 0.0, 0
    sorted_set = TensorDataset(colours[hardest_last], families[hardest_last])
    for x, y in DataLoader(sorted_set, batch_size=500):
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item())
        total, count = total + loss.item() * len(y), count + len(y)

print("batch losses:      ", [round(loss, 1) for loss in losses])
print(f"mean of the batches {sum(losses) / len(losses):.1f}")
print(f"mean of the samples {total / count:.1f}")
print(f"in one go           {each.mean():.1f}")

# %% [markdown]
# In the mean of the batches, the 28 samples of the small batch count as much as the other 500. Multiply each batch's
# mean by its number of samples, and divide by the number of all samples at the end. (If a loss has class weights or
# ignores labels, its mean divides by something else, and so must you.)
#
# What does `total` keep alive after three batches, if you write `total += loss` instead of `total += loss.item()`?

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
# It keeps the graphs of all batches, with everything they have saved for backward. Memory grows with every batch until
# it is full. Under `torch.no_grad()` no graph is recorded, and `.item()` returns a Python number. (On a GPU, `item()`
# waits for the device, so add up detached tensors there and call it once at the end.)
#
# Many evaluation functions call `model.eval()` at the start and `model.train()` at the end. In this model, a frozen
# batch norm layer is in eval mode while the rest trains:

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
# `train()` sets the flag of *every* submodule, so the frozen layer is unfrozen and drifts in the next epoch. And after
# an error the model stays in eval mode, so training continues without dropout. To be safe, remember the flag of each
# module and restore the flags in a `finally` block.
#
# **Now you know.** An honest evaluation needs `eval()`, `no_grad` and a mean over samples, and it restores the flags.

# %% exercise="evaluate-loop"

# %% [markdown]
# ## 11.5 Optimizers
#
# A parameter is 0, the learning rate is 0.1, and the gradient is 0.01 or 5.
#
# **Predict.** How far does the first step of SGD move the parameter, and how far does Adam's?


# %% facts=["11-optimizer-from-parameters"]
def first_step(optimizer_class, gradient: float, **options) -> float:
    p = nn.Parameter(torch.zeros(1))
    optimizer = optimizer_class([p], **options)
    p.grad = torch.tensor([gradient])
    optimizer.step()
    return p.item()


for gradient in (0.01, 5.0):
    sgd = first_step(torch.optim.SGD, gradient, lr=0.1)
    adam = first_step(torch.optim.Adam, gradient, lr=0.1)
    print(f"gradient {gradient:4}: SGD {sgd:7.4f}, Adam {adam:7.4f}")
print(f"SGD without lr, gradient 5: {first_step(torch.optim.SGD, 5.0):.4f}")

# %% [markdown]
# A step of SGD is -lr · gradient. Adam divides a running mean of the gradients by the root of a running mean of their
# squares. In the first step both are as large as the gradient itself, so only the sign remains. A learning rate for
# Adam is therefore a *distance*, about how far a weight may move in a step, whereas a learning rate for SGD is a
# factor. The same number means different things to the two, and multiplying the loss by 100 changes SGD's step but
# hardly Adam's.
#
# How large may the factor be? We run fifty steps of SGD on w², starting at w = 1:

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
# Each step multiplies w by 1 - 2·lr. This shrinks w as long as lr is below 1. A small rate is safe but slow, and just
# above the limit everything explodes. With several weights, the direction with the largest *curvature* sets the limit
# for all the others.
#
# The explorer shows this on a bowl whose curvature is 1 along x and c along y, with its minimum at (1, 1). It opens
# with SGD, c = 10 and a rate just below the limit 2/c = 0.2. Move the rate up one notch, and SGD diverges. Then choose
# Adam with a rate of 0.1, and look at its first step, which goes equally far in both directions. Last, go back to SGD
# with a rate of 0.1: with a momentum of 0.5 it arrives much sooner. With a weight decay of 0.5 the path ends between
# the minimum and the origin.

# %% facts=["11-learning-rate-controls-step", "11-optimizer-from-parameters"]
optimizer_explorer()

# %% [markdown]
# ### Where the settings are
#
# Here are two groups of parameters, one with its own learning rate. All gradients are 1. Then we change two settings:

# %% facts=["11-optimizer-param-groups", "11-optimizer-defaults"]
a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([{"params": [a], "lr": 0.1}, {"params": [b]}], lr=0.5, momentum=0.9)

for group in optimizer.param_groups:
    settings = {key: group[key] for key in ("lr", "momentum", "weight_decay")}
    print(settings, "parameters:", len(group["params"]))

optimizer.defaults["lr"] = 9.0
optimizer.param_groups[1]["lr"] = 0.25
a.grad, b.grad = torch.ones(1), torch.ones(1)
optimizer.step()
print(f"a {a.item():.2f}, b {b.item():.2f}")

# %% [markdown]
# `a` moved by 0.1 and `b` by 0.25; the 9 had no effect. The optimizer uses the settings in `param_groups`, a list with
# one dictionary per group. `defaults` is only a template: it fills in what a group didn't specify when it was *added*.
# To change a rate during training, write to `param_groups[i]["lr"]`, which is also what schedulers do.
#
# An optimizer stores what it remembers in `state`, here with a momentum of 0.5:

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
# `optimizer.state` maps each parameter to a dictionary, which is empty until the parameter's first step. SGD's momentum
# is one buffer, updated to 0.5 · buffer + gradient; Adam has two buffers and a step count. The key is the parameter
# *object*. Keep that in mind for section 11.7.
#
# **Predict.** We load the state of an optimizer with lr 0.5 into a new optimizer with lr 0.001. Which rate does the new
# optimizer use?

# %% facts=["11-optimizer-state-dict"]
old_p, new_p = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
old = torch.optim.SGD([old_p], lr=0.5, momentum=0.9)
old_p.grad = torch.ones(1)
old.step()

state = old.state_dict()
print("state:       ", state["state"])
print(
    "param_groups:",
    [{key: group[key] for key in ("lr", "momentum", "params")} for group in state["param_groups"]],
)

new = torch.optim.SGD([new_p], lr=0.001, momentum=0.9)
new.load_state_dict(state)
print("lr", new.param_groups[0]["lr"], "buffer", new.state[new_p]["momentum_buffer"])

# %% [markdown]
# It uses the old rate, because settings are saved and loaded together with the state. Set a new rate *after* loading.
# Parameters are identified by their position in the groups, not by name, so the new optimizer must get the same
# parameters in the same order. If you swap two parameters of equal shape, PyTorch doesn't notice.
#
# ### Schedules
#
# Here is `StepLR(optimizer, step_size=2, gamma=0.1)` over four epochs:

# %% shows_warning="UserWarning"
p = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([p], lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)

for epoch in range(4):
    print(f"epoch {epoch}: lr {optimizer.param_groups[0]['lr']:.2f}")
    p.grad = torch.ones(1)
    optimizer.step()
    scheduler.step()

late = torch.optim.SGD([p], lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(late, step_size=2)
warning_of(scheduler.step, lines=1)

# %% [markdown]
# A scheduler writes `lr` into the groups each time you call its `step`. You decide whether that happens once per epoch
# or once per batch, and the scheduler's arguments count in that unit: a warm-up of 500 *batches* that you step once per
# epoch takes 500 epochs. Call it after `optimizer.step()`; the other order skips the first rate, which is what the
# warning says. ([How to adjust learning
# rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate))
#
# **Now you know.** An optimizer is a list of groups with settings, and a memory for each parameter object. It updates
# the parameters it was given, and nothing else.

# %% exercise="loops-apart"

# %% [markdown]
# ## 11.6 Regularisation
#
# A weight of 20, or of 2000, has a gradient of 0. The learning rate is 0.1 and the weight decay 0.5.
#
# **Predict.** What is the weight after one step of SGD, of Adam and of AdamW?

# %% facts=["11-weight-decay-modifies-gradient"]
for optimizer_class in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
    after = []
    for weight in (20.0, 2000.0):
        w = nn.Parameter(torch.tensor([weight]))
        optimizer = optimizer_class([w], lr=0.1, weight_decay=0.5)
        w.grad = torch.zeros(1)
        optimizer.step()
        after.append(round(w.item(), 2))
    changes = f"20 becomes {after[0]}, 2000 becomes {after[1]}"
    print(f"{optimizer_class.__name__:6} {changes}; grad still {w.grad.item()}")

# %% [markdown]
# SGD and Adam add weight_decay · w to the gradient (inside `step`; `.grad` doesn't change). For SGD that shrinks the
# weight by the factor 1 - lr · weight_decay. Adam then divides the sum by its own size, and what remains is a step of
# about lr for 20 and for 2000 alike, so the decay no longer depends on the weight. AdamW leaves the gradient alone and
# shrinks the weight directly; its decay is *decoupled* ([Loshchilov and Hutter,
# 2019](https://arxiv.org/abs/1711.05101)). The same `weight_decay` does something quite different in Adam and AdamW,
# and AdamW's default isn't zero but 0.01.
#
# Which parameters shrink if you give AdamW all parameters of a model with a linear layer and a layer norm?

# %% facts=["11-weight-decay-modifies-gradient"]
model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
for parameter in model.parameters():
    nn.init.ones_(parameter)
    parameter.grad = torch.zeros_like(parameter)

torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5).step()
for name, parameter in model.named_parameters():
    print(f"{name:9} {[round(value, 2) for value in parameter.flatten().tolist()]}")

# %% [markdown]
# All of them shrink. But the natural value of a norm layer's scale is 1, not 0, and a bias doesn't make a function
# steeper. So it is usual to put biases and norm layers into a group with `weight_decay=0`. PyTorch doesn't do this for
# you.

# %% exercise="weight-decay-groups"

# %% exercise="decoupled-or-not"

# %% [markdown]
# ### Dropout
#
# We apply `nn.Dropout(0.25)` to 100,000 ones:

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
# A quarter becomes 0, and the others are multiplied by 1 / 0.75, so that the *expectation* stays the same. That is why
# eval mode needs no scaling: dropout does nothing there. The original paper did it the other way round, with no scaling
# in training and a factor of 1 - p at test time. Code that does both scales twice.
#
# ### Batch norm
#
# Batch norm shifts and scales the values of each channel to mean 0 and variance 1. It keeps the shape of their
# distribution, so "normalised" does not mean normally distributed.
#
# **Predict.** The batch (0, 2) goes through batch norm with `momentum=1.0`, so the running statistics are those of this
# batch alone. What comes out in train mode? And what comes out for the same batch in eval mode afterwards?

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
# In train mode, the batch is normalised with its own *biased* variance (divided by n, here 1). In eval mode it is
# normalised with the running variance, which collects the *unbiased* variance (divided by n - 1, here 2). For large
# batches the difference is negligible. For small batches the two modes are two different functions, and a model that is
# good in training can be bad in eval mode. A single value per channel has no variance, so training stops with this
# error if the last batch is a single sample; `drop_last=True` prevents that.
#
# **Now you know.** `weight_decay` has two meanings, and dropout and batch norm have two modes. Ask which meaning and
# which mode you have.
#
# ## 11.7 Fine-tuning
#
# To fine-tune a trained model, you give it a new last layer, the *head*, for new classes. You load the weights, replace
# the head and build the optimizer. The order matters, and each wrong order fails in its own way. The checkpoint below
# has 1000 classes, and you need 5.


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
# If you replace the head *before* loading, the sizes don't fit, and `load_state_dict` says so, even with `strict=False`
# (section 7.6). If you set `out_features`, nothing happens. It is only a number that the layer stores at construction
# and shows in its repr. `weight` does the work, and it is still 1000 × 8. Only a new layer makes a new head.
#
# **Predict.** As in our program, we build an optimizer and then replace the head. After a training step, which of the
# two heads has changed?

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
    gradient = part.weight.grad is not None
    changed = not torch.equal(part.weight, before[name])
    print(f"{name}: gradient {gradient!s:6} changed {changed}")

# %% [markdown]
# Neither head has changed. The new head gets gradients, but no optimizer uses them. The optimizer still has the old
# head, which gets no gradients. The body does train, so the loss falls a little and nothing looks broken.
# `optimizer.zero_grad()` doesn't know the new head either, so the head's gradients add up unnoticed. Build the
# optimizer last.
#
# That was the third mistake. Here is our first program again, with one fix after the other:


# %% facts=["11-loop-order", "11-crossentropy-takes-logits", "11-finetune-order-of-steps"]
def right_after(*fixes: str) -> str:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(colours, families), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model[2] = nn.Linear(32, len(FAMILIES))
    if "optimizer last" in fixes:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(15):
        for x, y in loader:
            if "zero_grad" in fixes:
                optimizer.zero_grad()
            outputs = model(x) if "logits" in fixes else model(x).softmax(1)
            F.cross_entropy(outputs, y).backward()
            optimizer.step()
    return f"{(model(colours).argmax(1) == families).float().mean():.0%}"


print("none:                             ", right_after())
print("zero_grad:                        ", right_after("zero_grad"))
print("zero_grad, logits:                ", right_after("zero_grad", "logits"))
print(
    "zero_grad, logits, optimizer last:",
    right_after("zero_grad", "logits", "optimizer last"),
)

# %% [markdown]
# Look at the middle rows. The first two fixes gained *nothing*, the score even fell, and yet both were right. If you
# judged a fix by its score alone, you would have undone them. Find out what a line does, and keep it if it does the
# right thing.
#
# ### Freezing
#
# To freeze the body, you can call `requires_grad_(False)` or set the learning rate of its group to 0. In each case, are
# its gradients computed? Is momentum stored? Do the weights change? And does batch norm's running mean?


# %% facts=["11-freeze-by-requires-grad-or-zero-lr"]
def freeze_and_step(by_flag: bool) -> list[bool]:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    head = nn.Linear(2, 1)
    if by_flag:
        body.requires_grad_(False)
    groups = [
        {"params": body.parameters(), "lr": 0.1 if by_flag else 0.0},
        {"params": head.parameters()},
    ]
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
# The weights stay the same in both cases. But with lr = 0 all the work is still done, and the collected momentum jumps
# into the weights when you raise the rate later. And *neither* way freezes batch norm's statistics, because they are
# buffers that the forward pass updates. A frozen body needs `requires_grad_(False)` **and** batch norm in eval mode,
# and you must put batch norm back into eval mode after each `model.train()`.
#
# The other common way is to train everything, with a much smaller rate for the body:

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
sizes = [sum(p.numel() for p in group["params"]) for group in optimizer.param_groups]
rates = [group["lr"] for group in optimizer.param_groups]
print("two rates:", list(zip(rates, sizes, strict=True)))

# %% [markdown]
# A new layer requires a gradient even if you froze the model before. Training only the head is called *linear probing*.
# It is cheap, and with few parameters it overfits little. Which way is better depends on how much data you have and how
# different it is from the old data; try both. Each parameter must be in exactly one group. A parameter in no group is
# not trained, and PyTorch doesn't tell you.
#
# **Now you know.** Load, replace and freeze first. Build the optimizer last, from the parameters the model has then.

# %% exercise="fine-tune-head"

# %% [markdown]
# ## 11.8 The same run twice
#
# Here is the same small training with five seeds, and then with the first seed again. The seed determines the initial
# weights and the order of the data.

# %% facts=["11-shuffle-each-epoch", "11-train-valid-test-split"]
everything = TensorDataset(colours, families)
dice = torch.Generator().manual_seed(0)
train_set, valid_set = random_split(everything, [428, 100], generator=dice)
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
# The same seed gives the same result on the same machine. PyTorch doesn't promise this across versions and platforms.
# And the five numbers show how much is luck: if your new idea gains less than the difference between two seeds, one run
# of each proves nothing.
#
# A seed at the start is not enough for a run that is interrupted. Below we run two epochs, save a checkpoint and run
# two more epochs, and compare the result with four epochs in one go.
#
# **Predict.** Which of the five parts of the checkpoint can you leave out if the weights must agree exactly?


# %% facts=["11-optimizer-state-dict"]
def run(epochs: int, checkpoint: dict | None = None, forget: str = "nothing") -> dict:
    """Train for some epochs, from the start or from a checkpoint; return a checkpoint."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.2))
    model = nn.Sequential(body, nn.Linear(16, len(FAMILIES)))
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
    ours, wanted = run(2, half, forget)["model"], in_one_go["model"]
    same = all(torch.equal(ours[name], weight) for name, weight in wanted.items())
    print(f"forgotten: {forget:18} the same weights as in one go: {same}")

# %% [markdown]
# You can't leave out any of them. Without the optimizer's state, momentum starts from zero. Without the scheduler's,
# the rate falls too late. Without the state of the random numbers, dropout drops other activations. Without the state
# of the loader's generator, the last two epochs repeat the order of the first two. A resumed run that forgets one of
# these isn't wrong, but it is a different run. The note
# [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html) lists what else can differ.
# `torch.use_deterministic_algorithms(True)` makes operations that can't promise the same result raise an error.
#
# **Now you know.** A run has five states: weights, optimizer, schedule, random numbers and the place in the data. Save
# copies of all of them.

# %% exercise="train-resume"

# %% [markdown]
# ## 11.9 All of it together
#
# Here is a training run as you would leave it: part of the data held out, a seed, a schedule, the mode set for each
# part of an epoch, losses averaged over samples, and the best weights kept. The curve is redrawn after each epoch while
# the cell runs.
#
# **Predict.** Two curves will appear. The training loss on 428 colours is averaged over the batches of an epoch, and
# each batch's loss is computed *before* its step. The validation loss on the other 100 colours, which the model never
# trains on, is computed at the end of the epoch. The rate is high, so the model learns most in the first epoch. Which
# curve starts lower?


# %% varies="the curve grows in its place while the cell runs"
def fit_colours(epochs: int, lr: float, batch_size: int, seed: int) -> tuple[nn.Module, LiveCurve]:
    """Train a model on the colours; return it with its best weights, and its loss curves."""
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, generator=order)
    body = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(64, len(FAMILIES)))
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
# The *validation* curve starts lower. The model improves all through an epoch, so on average the training loss comes
# from a model that is half an epoch older. You can compare the two only later, when the model hardly changes within an
# epoch. (With dropout the training loss is higher for a second reason.)
#
# Which colours does the model get wrong? Here are the three whose label got the lowest probability:

# %%
model.eval()
with torch.no_grad():
    probabilities = model(valid_x).softmax(1)
said = probabilities.argmax(1)
right, lowest = (said == valid_y).sum(), curve.lowest("validation")
print(f"right: {right} of {len(valid_y)}, lowest validation loss {lowest:.1f}")

wrong = (said != valid_y).nonzero().flatten()
for number in wrong[probabilities[wrong, valid_y[wrong]].argsort()][:3].tolist():
    print(f"{names[valid_set.indices[number]]!r}: the model says {FAMILIES[said[number]]}")

# %% [markdown]
# Always look at some mistakes, the worst first. These names contain two colours, and the last word is only part of the
# truth. So the labels are doubtful, not the model, and no number could have told you that.
#
# ## On a GPU
#
# The cell times an epoch over 4096 pictures that take some time to load, with and without workers and with and without
# pinned memory. Without a GPU it shows a recorded run. No exercise needs it.


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
        x, y = (t.cuda(non_blocking=non_blocking) for t in (x, y))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
    torch.cuda.synchronize()

if __name__ == "__main__":
    torch.set_num_threads(1)
    body = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(body, nn.Linear(64, 10)).cuda()
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
# Workers load the next batches while the GPU computes. With pinned memory, the copy to the GPU can overlap with
# computing, which matters once loading is no longer the bottleneck. (In the recorded run, pinning without workers only
# costs time.) Time the second epoch, and call `torch.cuda.synchronize()` before you read the clock.
#
# ## Folklore, checked
#
# These are common beliefs about training and what we found. Each row unfolds a proof: a few lines that run without an
# error only if the statement on the right is true.

# %% facts=["11-dataloader-signature"]
folklore("11_training_loop")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("11-weight-decay-modifies-gradient")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): parameter groups, the algorithms, schedules;
# - [torch.utils.data](https://docs.pytorch.org/docs/stable/data.html): samplers, collate functions, workers, and random
#   numbers in workers;
# - [`torch.nn.BatchNorm1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html): which variance
#   is used where;
# - the notes [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html) and [Frequently Asked
#   Questions](https://docs.pytorch.org/docs/stable/notes/faq.html) (why memory grows: sums of losses that keep their
#   graph).
#
# Elsewhere: Andrej Karpathy's [A Recipe for Training Neural Networks](https://karpathy.github.io/2019/04/25/recipe/),
# on the order in which to look for mistakes.
#
# **Next:** chapter 12, [A small language model, by hand](../12_language_model/language_model.ipynb).
