# %% [markdown]
# # The training loop
#
# Training is five calls in a loop. Each of them is simple, and nearly every mistake around them is silent: the loss
# falls, only not as far as it could. After this chapter you can
#
# - write and repair the loop: the order of the calls, accumulation, clipping, train and eval mode, a mean over
#   samples;
# - choose a loss and check what it is given: shapes, logits, log-probabilities, labels;
# - put samples of different lengths into one batch with a collate function;
# - configure optimizers: parameter groups, weight decay (coupled or decoupled), state, schedules;
# - fine-tune a model without the classic mistakes, and resume a run as if it had never stopped.
#
# You will also see samplers, workers and splits, and what batch norm and dropout do in training and in
# evaluation.
#
# **75 minutes to read, 189 minutes to practise, 20 points.** You need chapter 4: leaves, `.grad`, what
# `backward` adds where; and from chapter 7 modules, `state_dict`, train and eval mode.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import argparse
import copy
import io
import math
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
    prediction,
)

# %% [markdown]
# First some real data. In [a survey of 2010](https://blog.xkcd.com/2010/05/03/color-survey-results/) many thousand
# people named colours, and matplotlib ships 949 of the names with their red, green and blue. The last word of a name
# often says the family: "dark olive green" is a green. We keep the names that end in one of eight families. A model
# is to tell the family from the three numbers.

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
# And here is a training program. It runs, and its loss falls in nearly every epoch.

# %%
torch.set_num_threads(1)  # so small a model has no work for more
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
# About six in ten. Somebody might now try a larger model, or more epochs. But three of these lines are wrong, and
# with the three repaired the same model gets more than nine in ten right, in the same time. PyTorch warned of none of
# them. You will find one in section 11.1, one in 11.2, and the last in 11.7, where the program is repaired.
#
# ## 11.1 Five calls and one order
#
# The loop has five calls: clear the gradients, forward, loss, backward, step. Put one in the wrong place, and nothing
# complains.
#
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


for order in (
    ["zero_grad", "backward", "step"],
    ["backward", "step"],
    ["backward", "zero_grad", "step"],
):
    one, three = weight_after(order, 1), weight_after(order, 3)
    print(f"{', '.join(order):28} after one: {one:4}   after three: {three:4}")

# %% [markdown]
# `backward` *adds* to `.grad` (section 4.3). Without `zero_grad` the second step uses 1 + 1 and the third 1 + 1 + 1.
# One iteration alone doesn't show the mistake: the sum of one gradient is that gradient. And `zero_grad` between
# `backward` and `step` throws away what was just computed, so nothing is learnt. That is the first fault of our
# program: it has no `zero_grad`. In a small regression the three orders end like this:


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
# The order to remember: **zero_grad, forward, loss, backward, (clip), step**. `zero_grad` may just as well stand at
# the end, after `step`; it must only not come between `backward` and `step`.
#
# The table below says which call changes what. It was not written by hand: each call of one iteration was run, and
# everything was compared before and after.

# %% facts=["11-loop-order"]
loop_effects()

# %% [markdown]
# Two rows deserve a second look. The forward pass is not innocent: in train mode it changes batch norm's running
# statistics, which are buffers, and dropout moves the random numbers on. And only `step` changes weights. `backward`
# knows nothing of the optimizer, the optimizer knows nothing of the loss; `.grad` is all that they share.
#
# What does `zero_grad` leave in `.grad`? And does a parameter whose gradient was cleared still move in a step with
# weight decay?

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
# after it must expect None. What follows differs, too: `step` skips a parameter without a gradient altogether, while
# one with a gradient of zeros is still decayed, and moved by its momentum.
#
# ### When the batch does not fit: accumulate
#
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
# The second and the fourth. The loss of a part is a mean over the part. Four means added up are four times the mean,
# so the gradient is four times too large. Dividing by the number of parts is right only if all parts are equally
# large; dividing each part's *sum* by the number of samples in the whole batch is always right. (Layers that mix the
# samples of a batch, such as batch norm, see smaller batches all the same.)
#
# ### When a gradient is too large: clip
#
# Two parameters have the gradients 3 and 4. `clip_grad_norm_` is called three times:

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
# error. With accumulation it stands once, after the last `backward` of the step.
#
# ### Before you train: two numbers to look at
#
# A model that knows nothing gives each of C classes about the probability 1/C, so its first loss should be about ln
# C. And a model with enough weights can learn a single batch by heart, so on one batch the loss should go to zero. If
# either fails, there is no point in training longer.

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
# This loop can learn. Run the same test with `.softmax(1)` put back, and the loss stays above 1.2, however long you
# wait. It takes a minute to see that, and may save a night.
#
# **Now you know.** `.grad` is a place where `backward` adds and `step` reads. Everything about the order of the calls
# follows from that.

# %% exercise="overfit-one-batch"

# %% [markdown]
# ## 11.2 Losses and what they are given
#
# A loss function takes two tensors and trusts you. Here are predictions of shape (4, 1) and targets of shape (4,),
# both 0, 1, 2, 3.
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
# (4, 1) minus (4,) is broadcast to (4, 4): every prediction is compared with *every* target. The best answer to that
# is the mean of all targets, and that is what such a model learns. MSELoss warns; the same formula written by hand
# doesn't even do that. A model that ends in `nn.Linear(…, 1)` returns (N, 1), so this is a common accident.

# %% exercise="broadcast-loss"

# %% [markdown]
# ### Logits, not probabilities
#
# The second fault of our program was `.softmax(1)` in front of `cross_entropy`. For three classes the logits (100, 0,
# 0) are very sure, and right.
#
# **Predict.** What is the cross-entropy of these logits? And what is it of their softmax, the probabilities (1, 0,
# 0)?

# %% facts=["11-crossentropy-takes-logits"]
logits, label = torch.tensor([[100.0, 0.0, 0.0]]), torch.tensor([0])

print(f"of logits:          {F.cross_entropy(logits, label):.2f}")
print(f"after a softmax:    {F.cross_entropy(logits.softmax(1), label):.2f}")
print(f"log(1 + 2/e):       {math.log(1 + 2 / math.e):.2f}")

# %% [markdown]
# `cross_entropy` takes *logits*, any real numbers, and applies a log-softmax itself. With a softmax in front it is
# applied twice: probabilities lie between 0 and 1, and as logits they can never be further apart than one. For three
# classes the loss cannot fall below 0.55, for our eight not below 1.27. The model still learns something, which is
# why the mistake survives.
#
# Cross-entropy is log-softmax followed by the negative log-likelihood loss. But a log-softmax is more than a softmax
# and a logarithm. The logits (0, 200), with label 0, are sure and wrong:

# %% facts=["11-cross-entropy-is-logsoftmax-nll"]
logits, label = torch.tensor([[0.0, 200.0]]), torch.tensor([0])

print("cross_entropy:            ", F.cross_entropy(logits, label).item())
print("log_softmax, then NLLLoss:", nn.NLLLoss()(logits.log_softmax(1), label).item())
print("-log(softmax):            ", -logits.softmax(1).log()[0, 0].item())

# %% [markdown]
# The softmax of the smaller logit is e^-200, which float32 rounds to 0, and log(0) is -inf. Working with logarithms
# from the start keeps 200 as it is.
#
# `NLLLoss` has "log" in its name. Does it take the logarithm?

# %% facts=["11-nll-loss-needs-softmax"]
torch.manual_seed(0)
logits, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])

print(f"cross_entropy of logits:        {F.cross_entropy(logits, labels):.3f}")
print(f"nll_loss of log-probabilities:  {F.nll_loss(logits.log_softmax(1), labels):.3f}")
print(f"nll_loss of probabilities:      {F.nll_loss(logits.softmax(1), labels):.3f}")

# %% [markdown]
# No. It picks the entry of each true class and changes the sign. Given probabilities it returns minus a probability,
# a negative "loss" which can even be minimised. A loss below zero where none should be is a good alarm.
#
# Which targets does `cross_entropy` take for logits of shape (6, 3)?

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
# Labels are int64 (or uint8) and lie in 0 … C - 1. A floating target of the shape of the logits is taken as one
# probability for each class. For two classes, or for several that may be true at once, there is
# `binary_cross_entropy_with_logits`; it, too, takes logits, and *floating* targets of exactly the same shape. The
# page of [CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html) has all
# forms, with weights, smoothing and ignored labels.
#
# **Now you know.** A loss broadcasts and computes whatever it is given. Equal shapes for a regression, logits and
# whole numbers for a classification: check it once, before the first epoch.

# %% exercise="cross-entropy-from-logits"

# %% [markdown]
# ## 11.3 Data
#
# A `DataLoader` is three parts in a row. Below, each of them notes when it is used, for four samples in batches of
# two.


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
# Indices are drawn for a whole batch, then the samples are read one by one, then the list of samples becomes a batch.
# So the *sampler* decides which samples come and in which order, the *dataset* answers an index, and *collate* builds
# the batch. The default collate stacks tensors and makes int64 tensors of Python's whole numbers.
#
# What may stand in the dataset's place?


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
# Anything with `__len__` and `__getitem__`; a list is a dataset. Inheriting from `Dataset` says what is meant, but
# nothing enforces it. An `IterableDataset` only yields samples; the loader can't shuffle it, because there is nothing
# to index.
#
# How many batches are 528 colours in batches of 64?

# %% facts=["11-dataloader-batches", "11-iteration-definition"]
data = TensorDataset(colours, families)

for drop_last in (False, True):
    loader = DataLoader(data, batch_size=64, drop_last=drop_last)
    sizes = [len(x) for x, y in loader]
    print(f"drop_last={drop_last!s:5}  len(loader) {len(loader)}, sizes {sizes}", end=", ")
    print(f"samples {sum(sizes)}")

# %% [markdown]
# The incomplete last batch is kept unless `drop_last=True`. An *iteration* is one batch and one step. An *epoch* is
# one pass over all samples and has `len(loader)` iterations: samples divided by batch size, rounded up (with
# `drop_last`, down). `len(loader.dataset)` is the number of samples.
#
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
#
# Splits need a generator for the same reason. These are 80, 10 and 10 per cent of 528:


# %% facts=["11-train-valid-test-split"]
def split() -> list:
    return random_split(range(528), [0.8, 0.1, 0.1], generator=torch.Generator().manual_seed(0))


train, valid, test = split()
print("sizes", len(train), len(valid), len(test))
print("in two parts:", len(train) + len(valid) + len(test) - len({*train, *valid, *test}))
print("the same split again:", list(split()[2]) == list(test))

# %% [markdown]
# What doesn't divide evenly is dealt out from the first part on. A split that differs from run to run lets the model
# meet yesterday's test data in today's training. And means and other statistics for preparing data are computed on
# the training part alone.
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
# A `collate_fn` of your own gets the list of samples and may return anything: here tuples of tensors as they are. To
# compute with the batch as one tensor, shorter samples are *padded* to the longest one of the batch, and a mask says
# which steps are real. The mask must come from the lengths: a value in the data may equal the padding.
#
# The explorer shows which samples come together, and what that costs. Sort the lengths in the text field and watch
# how much less is padded; then shuffle.

# %%
batch_anatomy_explorer()

# %% exercise="pad-collate"

# %% [markdown]
# ### Workers are processes
#
# `num_workers` says how many processes read the data: with 0, the default, the main process does it itself; with 1
# there is already a second process. The next cell writes a small script and runs it, so that the processes are not
# mixed up with those of this notebook. Two workers read four samples in batches of two, for two epochs. The dataset
# draws noise from a generator of its own, made in `__init__`, and from torch's global one.
#
# **Predict.** Which of the two noises repeats itself? And how often does each number of the stream arrive?

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
# Each worker is a copy of the process, made anew for each epoch (unless `persistent_workers=True`). The global
# generators of torch, Python and NumPy are seeded afresh in each worker. A generator that you keep in the dataset is
# copied like everything else: both workers draw the same "random" numbers, and in the next epoch once more, so the
# augmentation repeats itself. `worker_init_fn` is called in each worker at its start; there one can make a new
# generator from the worker's seed. A stream is copied, too: it arrives once from each worker unless its `__iter__`
# asks `get_worker_info()` for its share.
#
# Workers take turns, a batch each, and the loader hands the batches out in order, whoever is faster. With the same
# seeds *and the same number of workers* the result is the same.
#
# Does a worker find a class that you defined in a notebook? A process can be started in three ways: *fork* copies the
# running process, *spawn* starts a fresh Python, and *forkserver* forks a small server process, which was started
# fresh. The program below is handed to Python as a string; like a notebook, it isn't a file that could be imported.

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

# %% [markdown]
# A forked worker has everything that the notebook has. The two others get the dataset in pickled form, and a pickle
# holds only the *name* of a class; the fresh Python looks it up and finds nothing. macOS and Windows spawn by default.
# Linux forks up to Python 3.13 and uses forkserver [from 3.14
# on](https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods), so a notebook that worked
# fails after an update of Python. So put datasets that workers read into a file and import them, and in scripts keep
# the main program under `if __name__ == "__main__":`, since such a worker imports the script once more. A collate
# function must be importable as well: a lambda can't be pickled. ([Multi-process data
# loading](https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading))
#
# **Now you know.** The sampler says which, the dataset answers one index, collate makes the batch; workers do it in
# copies of your process.
#
# ## 11.4 Evaluate
#
# An evaluation loop looks like a training loop with three lines fewer. The model below is trained for a few epochs;
# then its dropout is switched on. Its loss over all 528 colours is computed twice in train mode and twice in eval
# mode, without a graph.
#
# **Predict.** Which of the four numbers agree? And does an evaluation change the model?

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
# In train mode half of the hidden numbers are dropped, others each time, and batch norm normalises with the other
# samples of the batch. And it writes: evaluating in train mode *changes the model*, `no_grad` or not. `model.eval()`
# switches both off. It doesn't switch off the graph; that is what `no_grad` is for, and neither replaces the other.
#
# Next, the mean. The colours are sorted by their loss and cut into batches of 500: one of 500, one of 28.

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
# The 28 samples of the small batch count as much as the other 500. Multiply each batch's mean by its number of
# samples, and divide by the number of all samples at the end. (If a loss has weights for classes, or ignores labels,
# its mean divides by something else, and so must you.)
#
# `total += loss` instead of `total += loss.item()`: what does `total` hold on to after three batches?

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
#
# Many evaluation functions call `model.eval()` at their start and `model.train()` at their end. Here a frozen batch
# norm layer was kept in eval mode while the rest trained:

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
#
# **Now you know.** An honest evaluation needs `eval()`, `no_grad`, a mean over samples, and the flags put back.

# %% exercise="evaluate-loop"

# %% [markdown]
# ## 11.5 Optimizers
#
# A parameter stands at 0, the learning rate is 0.1, and its gradient is 0.01 or 5.
#
# **Predict.** How far does the first step of SGD go, and how far that of Adam?


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
# A step of SGD is -lr · gradient. Adam divides by the root of a running mean of squared gradients; in the first step
# that is the gradient's own size, and what is left is its sign. So a learning rate for Adam is a *distance*, about
# how far a weight may move in a step, and one for SGD is a factor. The same number means different things to the two,
# and multiplying the loss by 100 changes SGD's step but hardly Adam's.
#
# How large may the factor be? SGD on w², from w = 1, fifty steps:

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
# and keep the rate of 0.1: a momentum of 0.5 arrives much sooner. With a weight decay of 0.5 the path ends nearer to
# the origin than the minimum is.

# %% facts=["11-learning-rate-controls-step", "11-optimizer-from-parameters"]
optimizer_explorer()

# %% [markdown]
# ### Where the settings are
#
# Two groups of parameters, one with a learning rate of its own. All gradients are 1. Then two settings are changed:

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
# `a` moved by 0.1 and `b` by 0.25; the 9 had no effect. The settings in use stand in `param_groups`, one dictionary
# each. `defaults` is only the template that fills in what a group didn't say when it was *added*. To change a rate
# during training write to `param_groups[i]["lr"]`; that is what schedulers do.
#
# What an optimizer remembers stands in `state`, here for a momentum of 0.5:

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
# 0.5 · buffer + gradient; Adam has two such buffers and a step count. The key is the parameter *object*. Keep that in
# mind for section 11.7.
#
# **Predict.** The state of an optimizer with lr 0.5 is loaded into a new one with lr 0.001. Which rate holds?

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
# The old one: settings are saved and loaded together with the state. Set a new rate *after* loading. Parameters are
# told apart by their number in the order of the groups, not by name, so the new optimizer must get the same
# parameters in the same order; another order of equal shapes is not noticed.
#
# ### Schedules
#
# `StepLR(optimizer, step_size=2, gamma=0.1)`, four epochs:

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
# A scheduler writes `lr` into the groups each time its `step` is called. Whether that is once an epoch or once a
# batch is your decision, and the numbers in its arguments are counted in that unit: a warm-up of 500 *batches* that
# is stepped once an epoch warms up for 500 epochs. It belongs after `optimizer.step()`; the other order skips the
# first rate, hence the warning. ([How to adjust learning
# rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate))
#
# **Now you know.** An optimizer is a list of groups with settings and a memory for each parameter object. It moves
# what it was given at its birth, and nothing else.

# %% exercise="predict-the-loop"

# %% [markdown]
# ## 11.6 Regularisation
#
# A weight of 20, or of 2000, gets a gradient of 0. The learning rate is 0.1, the weight decay 0.5.
#
# **Predict.** What is left of it after one step of SGD, of Adam and of AdamW?

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
# SGD and Adam add weight_decay · w to the gradient (inside `step`; `.grad` stays as it was). For SGD that shrinks the
# weight by the factor 1 - lr · weight_decay. Adam then divides the sum by its own size, and what remains is a step of
# about lr, for 20 as for 2000: the decay doesn't depend on the weight any more. AdamW leaves the gradient alone and
# shrinks the weight directly; its decay is *decoupled* ([Loshchilov and Hutter,
# 2019](https://arxiv.org/abs/1711.05101)). The same number for `weight_decay` does something quite different in Adam
# and AdamW, and AdamW's default isn't zero but 0.01.
#
# Which parameters shrink, if AdamW gets all of a model with a linear layer and a layer norm?

# %% facts=["11-weight-decay-modifies-gradient"]
model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
for parameter in model.parameters():
    nn.init.ones_(parameter)
    parameter.grad = torch.zeros_like(parameter)

torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5).step()
for name, parameter in model.named_parameters():
    print(f"{name:9} {[round(value, 2) for value in parameter.flatten().tolist()]}")

# %% [markdown]
# All of them. But the scale of a norm layer has its natural value at 1, not at 0, and a bias doesn't make a function
# steeper. So it is usual to put biases and norm layers into a group with `weight_decay=0`. PyTorch doesn't do it for
# you.

# %% exercise="weight-decay-groups"

# %% exercise="decoupled-or-not"

# %% [markdown]
# ### Dropout
#
# `nn.Dropout(0.25)` on 100,000 ones:

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
#
# ### Batch norm
#
# Batch norm shifts and scales the numbers of each channel to mean 0 and variance 1. The shape of their distribution
# stays, so "normalised" does not mean normally distributed.
#
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
#
# **Now you know.** `weight_decay` has two meanings, and dropout and batch norm have two modes. Ask which one you
# have.
#
# ## 11.7 Fine-tuning
#
# A trained model is given a new last layer, the *head*, for new classes. Load, replace the head, build the optimizer:
# the order matters, and each wrong order fails in a way of its own. The checkpoint below has 1000 classes, and you
# need 5.


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
# Replace the head *before* loading, and the sizes don't fit; `load_state_dict` says so. (`strict=False` doesn't help;
# it forgives missing names, not wrong shapes.) Set `out_features`, and nothing happens: it is only a number that the
# layer remembers of its construction and shows in its repr. The work is done by `weight`, which is still 1000 × 8.
# Nothing but a new layer makes a new head.
#
# **Predict.** An optimizer is built, then the head is replaced, as in our program. After a training step, which of
# the two heads has changed?

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
# Neither: the new head gets gradients that no optimizer uses, and the optimizer holds an old head that gets none. The
# body is trained, and the loss falls a little, so that nothing looks broken. And `optimizer.zero_grad()` doesn't know
# the new head either; its gradients add up unseen. Build the optimizer last.
#
# That was the third fault. Here is the program of the beginning once more, with one repair after the other:


# %% facts=["11-loop-order", "11-crossentropy-takes-logits", "11-finetune-order-of-steps"]
def right_after_repairs(*repairs: str) -> str:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(colours, families), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model[2] = nn.Linear(32, len(FAMILIES))
    if "optimizer last" in repairs:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(15):
        for x, y in loader:
            if "zero_grad" in repairs:
                optimizer.zero_grad()
            outputs = model(x) if "logits" in repairs else model(x).softmax(1)
            F.cross_entropy(outputs, y).backward()
            optimizer.step()
    return f"{(model(colours).argmax(1) == families).float().mean():.0%}"


print("none:                             ", right_after_repairs())
print("zero_grad:                        ", right_after_repairs("zero_grad"))
print("zero_grad, logits:                ", right_after_repairs("zero_grad", "logits"))
print(
    "zero_grad, logits, optimizer last:",
    right_after_repairs("zero_grad", "logits", "optimizer last"),
)

# %% [markdown]
# Look at the middle rows. The first two repairs brought *nothing*, although both were right. Whoever judges a repair
# by the score alone would have taken them back. Find out what a line does, and keep it if it does the right thing.
#
# ### Freezing
#
# To freeze the body one can set `requires_grad_(False)`, or give its group the learning rate 0. Are its gradients
# computed? Is momentum stored? Do weights change? And batch norm's running mean?


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
# The weights stay in both cases. With lr = 0 all the work is done all the same, and the momentum that is collected
# jumps into the weights when the rate is raised later. And *neither* freezes batch norm's statistics: these are
# buffers, written in the forward pass. Frozen means `requires_grad_(False)` **and** batch norm in eval mode, again
# after each `model.train()`.
#
# The other usual way is to train everything, the body with a much smaller rate:

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
# A new layer requires a gradient, whatever was frozen before. Training the head alone is called *linear probing*: few
# parameters, little to overfit, cheap. Which way is better depends on how much data there is and how far it is from
# the old; try both. Each parameter must be in exactly one group: one in none is not trained, and nothing tells you.
#
# **Now you know.** Load, replace, freeze, and build the optimizer last, from the parameters that the model has then.

# %% exercise="fine-tune-head"

# %% [markdown]
# ## 11.8 The same run twice
#
# The same small training, with five seeds, and once more with the first. The seed decides about the initial weights
# and the order of the data.

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
# The same seed gives the same result on the same machine. Across versions and platforms PyTorch doesn't promise it.
# And the five numbers show how much is luck: if your new idea brings less than the difference between two seeds, one
# run each proves nothing.
#
# A seed at the start is not enough for a run that is interrupted. Below are two epochs, a checkpoint and two more
# epochs, compared with four epochs in one go.
#
# **Predict.** Which of the five things in the checkpoint may be left out, if the weights are to agree exactly?


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
# None. Without the optimizer the momentum starts from zero; without the scheduler the rate falls too late; without
# the state of the random numbers dropout drops others; without that of the loader's generator the epochs come in the
# order of the first two again. A resumed run that forgets one of them isn't wrong, but it is another run. The note
# [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html) lists what else can differ;
# `torch.use_deterministic_algorithms(True)` makes operations that can't promise the same result raise an error.
#
# **Now you know.** A run is five states: weights, optimizer, schedule, random numbers, place in the data. Save all of
# them, as copies.

# %% exercise="train-resume"

# %% [markdown]
# ## 11.9 All of it together
#
# Here is a training as you would leave it: a part of the data kept aside, a seed, a schedule, the mode switched for
# each part of an epoch, losses averaged over samples, the best weights kept. The curve is drawn anew after each epoch
# while the cell runs.
#
# **Predict.** Two curves will appear. The loss on the 428 colours that are trained on is averaged over the batches of
# an epoch, each taken *before* its step; the loss on the 100 others, which the model never sees in training, is
# computed when the epoch is over. The rate is high, so the model learns most in the first epoch. Which curve begins
# lower?


# %% varies="the curve grows in its place while the cell runs"
def fit_colours(epochs: int, lr: float, batch_size: int, seed: int) -> tuple[nn.Module, LiveCurve]:
    """Train a model on the colours; return it, with its best weights, and its losses' curves."""
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
# That of the *other* colours. The model was getting better all through the epoch, so on average the training loss is
# half an epoch older than the validation loss. Only later, when the model hardly changes within an epoch, can they be
# compared. (With dropout the training loss is higher for a second reason.)
#
# Which colours does the model get wrong? Here are the three with the least probability for their label:

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
# Always look at some mistakes, the worst first. These are two-coloured names, in which the last word is not the whole
# truth: the labels are doubtful, not the model. No number could have told you that.
#
# In a script the settings come from the command line, with Python's
# [argparse](https://docs.python.org/3/howto/argparse.html). One trap is worth a cell:

# %% facts=["11-argparse-add-argument", "11-argparse-store-true"]
parser = argparse.ArgumentParser(prog="train.py")
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--amp", type=bool, default=True)
parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)

print(parser.parse_args(["--lr", "1e-2", "--amp", "False", "--no-compile"]))
print("bool('False') is", bool("False"))

# %% [markdown]
# `type` is any function that is called with the *text*, and `bool` of a text is True unless it is empty: `--amp
# False` switches AMP on. `BooleanOptionalAction` makes the honest pair `--compile` and `--no-compile`.
#
# ## On a GPU
#
# The cell times an epoch over 4096 pictures that take some time to load, with and without workers, with and without
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
# Workers load the next batches while the GPU computes. Pinned memory lets the copy to the GPU overlap with computing,
# which matters once loading is no longer what everything waits for. Measure the second epoch, and call
# `torch.cuda.synchronize()` before you look at the clock.
#
# ## Folklore, checked
#
# What people say about training, and what was found. Each row unfolds its proof: a few lines that run through only if
# the statement on the right holds.

# %% facts=["11-dataloader-signature"]
folklore("11_training_loop")

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
# - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): parameter groups, the algorithms, schedules;
# - [torch.utils.data](https://docs.pytorch.org/docs/stable/data.html): samplers, collate functions, workers, and what
#   is said there about random numbers in workers;
# - [`torch.nn.BatchNorm1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html): which variance
#   is used where;
# - the notes [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html) and [Frequently Asked
#   Questions](https://docs.pytorch.org/docs/stable/notes/faq.html) (why memory grows: sums of losses that keep their
#   graph).
#
# And elsewhere: Andrej Karpathy's [A Recipe for Training Neural
# Networks](https://karpathy.github.io/2019/04/25/recipe/), on the order in which to look for mistakes.
#
# **Next:** chapter 12, [A small language model, by hand](../12_language_model/language_model.ipynb).
