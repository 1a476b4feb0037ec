# %% [markdown]
# # Several devices, several processes
#
# One model and several processes: this chapter shows what each process stores, what it waits for, and what you see when
# one of them is missing. After this chapter you can
#
# - say what DistributedDataParallel (DDP) does, and what it leaves to you: distributing the data, evaluating, saving,
#   logging;
# - write its parts by hand: averaged gradients, exact evaluation, accumulation without communication, a ring
#   all-reduce, a backward pass across two processes;
# - compute why a job on 8 GPUs is only 3 times as fast, and what would help.
#
# You will also see how processes are started from a notebook and with torchrun, what a hang and a crash look like, and
# what `fully_shard`, tensor parallelism and pipelines are for.
#
# **65 minutes to read, 230 minutes to practise, 20 points.** You need chapter 4 (`backward` adds into `.grad`),
# chapter 5 (custom Functions), chapter 7 (`state_dict`) and the `DataLoader`. No GPU is needed: everything runs on the
# CPU, in two or three processes.
#
# Plan two sittings. Sections 10.1 to 10.6 are about getting the right gradients from several processes, and sections
# 10.7 to 10.12 about scripts, about what communication costs, and about models that don't fit on one GPU.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import contextlib
import inspect
import math
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from textwrap import fill

import psutil
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.parallel_apply import parallel_apply
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset

from torchkata.demos import error_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.collectives import collective_explorer
from torchkata.pictures.overlap import overlap
from torchkata.pictures.ring import ring_stepper
from torchkata.pictures.sampler_table import sampler_explorer
from torchkata.pictures.timelines import idle_share, timeline, timeline_explorer
from torchkata.processes import run_on_ranks
from torchkata.verdicts import (
    check,
    mistake,
    noting_operations,
    observe,
    observe_scenario,
    observe_value,
    prediction,
    separation,
)

# %% [markdown]
# Two processes train one model with DDP. There are 48 samples, 24 for each process. The target is a linear function of
# 32 inputs, without noise. The loss is a method of the model.


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self(x), y)


def train(rank, world, loss_of):
    torch.manual_seed(0)
    x = torch.randn(1000, 32)
    y = x @ torch.randn(32, 1)
    mine, new = slice(24 * rank, 24 * rank + 24), slice(48, None)

    ddp = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _step in range(500):
        optimizer.zero_grad()
        loss = loss_of(ddp, x[mine], y[mine])
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}; on new samples {ddp.module.loss(x[new], y[new]).item():.3f}")


_ = run_on_ranks(train, lambda ddp, x, y: ddp.module.loss(x, y))

# %% [markdown]
# There is no error and no warning, and the training loss goes to zero on both ranks. But 48 samples determine 32
# weights, so the loss on new samples should be zero as well. It isn't, because each process has learned only from its
# own 24 samples. You paid for a second GPU, and it did nothing. Section 10.3 returns to this loop and changes one line.
#
# ## 10.1 Processes
#
# A process is a separate Python with its own memory. `torch.multiprocessing.spawn` starts several: it runs a function
# `nprocs` times, each time in a new Python. Here we pass it two arguments, and `train` writes into a tensor how many
# arguments it gets.

# %% facts=["10-mp-spawn-passes-rank", "10-multiprocessing"]
program = """
import torch, torch.multiprocessing as mp

def train(*args):
    rank, world, t = args
    t[rank] = len(args)

if __name__ == "__main__":
    t = torch.zeros(2)
    mp.spawn(train, args=(2, t), nprocs=2)
    print("the parent's tensor:", t.tolist())
"""
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "train.py"
    script.write_text(program)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
print(done.stdout.strip())

# %% [markdown]
# `args` has two entries and `train` gets three arguments, because spawn passes the number of the process, its *rank*,
# as the first. And the parent sees what its children wrote, because tensors in `args` are passed through [shared
# memory](https://docs.pytorch.org/docs/stable/multiprocessing.html). The function is passed by name, and each child
# imports the script to find it. The guard `if __name__ == "__main__"` stops the children from spawning processes in
# turn.
#
# `mp.spawn` starts a fresh Python on every operating system. A `multiprocessing.Process`, or a worker of a
# `DataLoader`, is started in the way that your Python and your system choose, unless you name one:

# %% varies="each Python and each system has its own default"
version = ".".join(map(str, sys.version_info[:2]))
print(f"Python {version} on {sys.platform}: {multiprocessing.get_start_method()}")

# %% [markdown]
# *spawn* is the default on macOS and Windows. On Linux it is *fork* up to Python 3.13: the child begins as a copy of
# its parent, with all variables. From Python 3.14 on it is
# [*forkserver*](https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods): a fresh Python, the
# server, is started once, and each child is forked from that server and not from your program. So it has nothing that
# your program has computed. As with spawn, the function and its arguments are pickled, and the script needs the guard.
#
# A notebook isn't a script that a child could import, so this course has a helper that sends the function itself.
# `run_on_ranks(function, *args, world=2)` calls `function(rank, world, *args)` in `world` fresh processes and returns a
# list of their results, by rank. It shows what they print rank by rank. If a rank raises an exception, the helper
# raises it again in the notebook, with the rank and the line of your code.


# %%
def introduce(rank, world, greeting):
    print(greeting, rank, "of", world)
    return 10 * rank


run_on_ranks(introduce, "I am", world=3)

# %% [markdown]
# **Now you know.** Ranks are separate processes. They run the same code and differ only in one number.
#
# ## 10.2 Groups and collectives
#
# Processes that want to communicate join a *group*: each calls `dist.init_process_group` with its rank and the world
# size, the number of processes. `run_on_ranks` has done this for you. The next cell shows what you need without it. Its
# function runs in one process that hasn't joined any group.


# %% facts=["10-init-process-group-required", "10-env-init-needs-master-addr"]
def joins_alone(rank, world):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    error_of(lambda: DistributedDataParallel(nn.Linear(1, 1)))
    error_of(lambda: dist.init_process_group("gloo"))
    error_of(lambda: dist.init_process_group("gloo", rank=0, world_size=1))

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    t = torch.tensor([5.0])
    dist.all_reduce(t)
    print("world of", dist.get_world_size(), "gives", t.item())


_ = run_on_ranks(joins_alone, world=1, backend=None)

# %% [markdown] facts=["10-init-process-group-nccl", "10-long-listing-rank-zero"]
# `init_process_group` joins a group. It starts no process, and it doesn't guess. Rank, world size and the address where
# all processes meet come from the environment variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun sets
# them, section 10.7), from arguments, or from a store as here, a table that all processes of the group can read. A
# group of one is enough to try DDP in a unit test.
#
# The first argument is the *backend*, which carries the messages: "gloo" for CPU tensors, "nccl" for GPUs. nccl needs a
# CUDA build and a GPU for each process, and raises an error otherwise. `"cpu:gloo,cuda:nccl"` uses one backend for each
# kind of tensor.
#
# **Predict.** `t` is 1 on rank 0 and 2 on rank 1, and both call `dist.all_reduce(t)`. What is `t` afterwards on each
# rank? And what does the call return?


# %% facts=["10-gloo-two-processes"]
def reduce_all(rank, world):
    t = torch.tensor([rank + 1.0])
    returned = dist.all_reduce(t)
    return f"t = {t.item()}, returned {returned}"


run_on_ranks(reduce_all)

# %% [markdown]
# `all_reduce` *sums* in place on every rank, so `t` is 3 on both, and it returns None. To get a mean, divide by the
# world size.
#
# `all_reduce` is one of several *collectives*, so called because every rank of the group must call them. The picture
# starts before an `all_reduce`. Press *step* until nothing changes, then choose another collective. The pieces a0, a1,
# … come from rank 0, and b0, b1, … from rank 1; a0+b0+c0 is a sum over the ranks.

# %%
collective_explorer()

# %% [markdown]
# Here are four of them in code, on three ranks with the values 0 1 2, 10 11 12 and 20 21 22:


# %%
def four_collectives(rank, world):
    mine = torch.arange(3) + 10 * rank

    from_one = mine.clone()
    dist.broadcast(from_one, src=1)

    everybody = [torch.zeros_like(mine) for _ in range(world)]
    dist.all_gather(everybody, mine)

    piece = torch.zeros(1, dtype=torch.int64)
    dist.reduce_scatter(piece, list(mine.chunk(world)))

    names = [None] * world
    dist.all_gather_object(names, "abc"[rank] * (rank + 1))

    print("broadcast", from_one.tolist(), " all_gather", torch.stack(everybody).tolist())
    print("reduce_scatter", piece.tolist(), " all_gather_object", names)


_ = run_on_ranks(four_collectives, world=3)

# %% [markdown]
# After `reduce_scatter` each rank has a different third of the sum. If the ranks then `all_gather` their thirds, the
# result is an `all_reduce`. Sections 10.9 and 10.12 build on this. `all_gather_object` accepts anything that can be
# pickled.
#
# **Now you know.** A collective is a call that all ranks make. It writes its result into tensors that you pass.
#
# ## 10.3 Data parallelism, and DDP
#
# In data parallelism each rank has the whole model and gets a part of the batch.
#
# **Predict.** The loss is a mean over 8 rows. We compute the gradients of two parts and average them. Is the average
# the gradient of the whole batch, for 4 + 4 rows and for 2 + 6 rows?


# %% facts=["10-data-parallel-idea"]
def gradient_of(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the mean loss with respect to the first parameter."""
    module.zero_grad()
    F.mse_loss(module(x), y).backward()
    return next(module.parameters()).grad.clone()


def is_close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-6)


torch.manual_seed(0)
model, x, y = nn.Linear(3, 1), torch.randn(8, 3), torch.randn(8, 1)
whole = gradient_of(model, x, y)
for cut in (4, 2):
    first, second = gradient_of(model, x[:cut], y[:cut]), gradient_of(model, x[cut:], y[cut:])
    average = (first + second) / 2
    print(f"{cut} + {8 - cut} rows: the average is the whole:", is_close(average, whole))
    print("           the sum is the whole:    ", is_close(first + second, whole))

# %% [markdown]
# The average is right for a mean loss and *equal* parts. For unequal parts, the average of the means is not the mean of
# all rows. The sum is wrong in both cases.
#
# So data parallelism takes two lines after `backward`: all_reduce each gradient, and divide it by the world size.
# `DistributedDataParallel`, DDP for short, does the same while backward is still running.
#
# **Predict.** The ranks build their models from different seeds. Are the weights equal on both ranks after
# `DistributedDataParallel(model)`? And are they equal after three steps on different data?


# %% facts=["10-ddp-replicas-stay-equal", "10-ddp-synchronizes-gradients", "10-ddp-multi-process"]
def same_everywhere(t: Tensor) -> bool:
    """Whether all ranks hold the same numbers."""
    copies = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(copies, t.detach().contiguous())
    return all(torch.equal(copy, copies[0]) for copy in copies)


def different_seeds(rank, world):
    torch.manual_seed(0)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    torch.manual_seed(rank + 1)
    model = nn.Linear(3, 1)
    equal = [same_everywhere(model.weight)]
    ddp = DistributedDataParallel(model)
    equal.append(same_everywhere(model.weight))

    mine = slice(4 * rank, 4 * rank + 4)
    whole, local = gradient_of(model, x, y), gradient_of(model, x[mine], y[mine])
    by_hand = local.clone()
    dist.all_reduce(by_hand)
    by_hand /= world
    by_ddp = gradient_of(ddp, x[mine], y[mine])
    print("the gradient of the whole batch: local", is_close(local, whole), end="  ")
    print("by hand", is_close(by_hand, whole), "  DDP", is_close(by_ddp, whole))

    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ddp(torch.randn(4, 3)).pow(2).mean().backward()
        optimizer.step()
    equal.append(same_everywhere(model.weight))
    print("weights equal when built, wrapped, trained:", *equal)


_ = run_on_ranks(different_seeds)

# %% [markdown]
# They are equal both times. When you build DDP, it broadcasts the parameters of rank 0, once. From then on, equal
# weights, equal gradients and equal optimizers keep the copies of the model equal, and DDP never sends parameters
# again. Each rank runs its own optimizer. (Buffers, such as BatchNorm's running averages, are copied from rank 0 again
# at each forward; the option `broadcast_buffers` controls this.)
#
# **Predict.** Each rank passes a batch of 4 rows to `ddp`. How many rows does it get back? With
# `DataLoader(batch_size=32)` on each of two ranks, how many samples does an optimizer step use?


# %% facts=["10-ddp-does-not-shard-input", "10-ddp-listing-gloo-on-rank-device", "10-ddp-multi-process"]
def what_the_wrapper_is(rank, world):
    model = nn.Linear(3, 1)
    ddp = DistributedDataParallel(model)
    print("rows:", len(ddp(torch.ones(4, 3))), "  keys:", list(ddp.state_dict()))
    if rank == 0:
        print("ddp.module is the model:", ddp.module is model)
        error_of(lambda: DistributedDataParallel(nn.Linear(1, 1), device_ids=[rank]))


_ = run_on_ranks(what_the_wrapper_is)

# %% [markdown]
# It gets four rows back, because DDP splits nothing. Each rank must load its own share, and an optimizer step uses 32
# samples *per rank*, here 64. The wrapper is a module with one child, `module`, so every key of its state_dict starts
# with `module.`; save `ddp.module.state_dict()` instead. Code with `model.to(rank)` and `device_ids=[rank]` is for
# GPUs; leave both out on the CPU.
#
# **Find the line.** Which line of the loop at the top of the chapter bypasses the wrapper?

# %% facts=["10-ddp-synchronizes-gradients"]
_ = run_on_ranks(train, lambda ddp, x, y: F.mse_loss(ddp(x), y))

# %% [markdown]
# `ddp.module.loss(x, y)` does. The wrapper doesn't have the model's methods, so the loop calls those of the bare model,
# and the forward of DDP never runs. That forward is where DDP prepares to average in the backward that follows; without
# it, each rank keeps its local gradients. It is the same mistake as `layer.forward(x)` in chapter 6: you must call the
# object that does the work. Call `ddp(x)` and compute the loss outside, or let the model's `forward` return the loss.
# If you are in doubt, call `same_everywhere` after some steps.
#
# **Now you know.** DDP copies rank 0's weights once, and averages gradients in each backward that follows its own
# forward. Everything else is your job.
#
# ## 10.4 Data for several ranks
#
# Usually a `DistributedSampler` chooses the share of each rank. It needs the number of ranks and its own rank, and asks
# the process group if you don't pass them.
#
# **Predict.** There are 5 samples and 2 ranks, without shuffling. Which indices does rank 1 get?

# %% facts=["10-distributed-sampler-exclusive", "10-sampler-needs-process-group"]
for n, drop_last in ((6, False), (5, False), (5, True)):
    choice = {"shuffle": False, "drop_last": drop_last}
    given = [list(DistributedSampler(range(n), 2, rank, **choice)) for rank in range(2)]
    print(f"{n} samples, drop_last={drop_last!s:5}: {given}")

# %% [markdown]
# Rank 1 gets 1, 3 and 0. The shares are interleaved, and sample 0 comes twice, so that both ranks take the same number
# of steps. With `drop_last=True` the sampler drops the tail instead. Either way the shares have equal sizes, but they
# are disjoint *and* complete only if the number of samples is a multiple of the number of ranks. A repeated sample does
# no harm in training. In evaluation it is wrong, because the sample counts twice.
#
# Try other numbers. The word "again" marks repeated samples.

# %%
sampler_explorer()

# %% [markdown]
# **Predict.** `shuffle` is True by default. In three epochs, how many different orders does a rank see?

# %% facts=["10-sampler-set-epoch"]
data = TensorDataset(torch.arange(64))
for reminded in (False, True):
    sampler = DistributedSampler(data, num_replicas=2, rank=1)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    orders = set()
    for epoch in range(3):
        if reminded:
            sampler.set_epoch(epoch)
        orders.add(tuple(torch.cat([numbers for (numbers,) in loader]).tolist()))
    print(f"set_epoch called: {reminded!s:5}  different orders: {len(orders)}")

error_of(lambda: DataLoader(data, shuffle=True, sampler=sampler))

# %% [markdown]
# It sees only one order, unless you call `sampler.set_epoch(epoch)` at the start of each epoch. All ranks must draw the
# same permutation, or their shares would overlap. The sampler therefore computes the permutation from the seed and the
# epoch's number, and a sampler that isn't told the epoch stays at 0. Because the sampler shuffles, the DataLoader
# refuses `shuffle=True`.
#
# **Now you know.** A sampler makes the shares equal by repeating or dropping samples, and needs `set_epoch` to change
# their order.

# %% exercise="ranks-apart"

# %% exercise="exact-evaluation"

# %% [markdown]
# ## 10.5 A hang, and a crash
#
# The worst mistake with collectives raises no error.
#
# **Predict.** Both ranks sum a loss and an accuracy over the ranks, but rank 1 does it in the opposite order. The
# losses are 0.5 and 1.5, the accuracies 10 and 20. What does each rank get?


# %%
def two_metrics(rank, world):
    loss, accuracy = torch.tensor([0.5 + rank]), torch.tensor([10.0 + 10 * rank])
    for t in (loss, accuracy) if rank == 0 else (accuracy, loss):
        dist.all_reduce(t)
    return {"loss": loss.item(), "accuracy": accuracy.item()}


for rank, metrics in enumerate(run_on_ranks(two_metrics)):
    print(f"rank {rank}: {metrics}")

# %% [markdown]
# They get nonsense, without an error, and not even the same nonsense: 0.5 + 20 is rank 0's loss plus rank 1's accuracy.
# Collectives are matched by the *order* of the calls, because they have no names. The rest of this section follows from
# that.
#
# In the next cell the order is the same, but one rank makes fewer calls. The data was split by hand, and rank 0 has one
# batch more.


# %% facts=["10-ddp-does-not-shard-input"]
def uneven(rank, world, joining):
    ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    batches = [torch.ones(1, 1)] * (3 - rank)
    with ddp.join() if joining else contextlib.nullcontext():
        for batch in batches:
            ddp(batch).sum().backward()
    return len(batches)


error_of(lambda: run_on_ranks(uneven, False, stall=1.0))
print("with join:", run_on_ranks(uneven, True))

# %% [markdown]
# Rank 0 waits in its third backward for the gradients of a rank that has already finished. `stall=1.0` tells our helper
# to give up when no rank has used the processor for a second; it then reports the line where each rank is. The usual
# causes are uneven shares, and a collective under an `if` that is not true on all ranks, such as `if rank == 0` or a
# metric that only one rank has. The sampler repeats samples to avoid uneven shares. `ddp.join()` is another solution: a
# rank that has run out of data answers the others' all_reduces with zeros.
#
# In a real job nobody reports this for you. To look yourself, run `py-spy dump --pid …` on each rank (`pip install
# py-spy`); it prints the line that a running Python process is executing. A hang ends with the group's timeout, by
# default 30 minutes with gloo and 10 with nccl; `init_process_group(timeout=…)` sets another. With nccl, PyTorch can
# then write the last collectives of each rank into files, which a script compares. This [flight
# recorder](https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html) is turned on by [variables named
# TORCH_NCCL_…](https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html). Only gloo has a barrier
# that says which rank is missing:


# %%
def first_sentence_of(function: Callable[[], object]) -> str:
    """The error that function raises: its type and the first sentence, without the place in C++."""
    try:
        function()
    except Exception as error:
        told = re.sub(r"^\[.*?\]:? ", "", str(error).partition("\n")[0])
        told = f"{type(error).__name__}: {told.partition('. ')[0]}"
        return fill(told, 80, subsequent_indent="    ")
    return "no error"


def waits_one_second(rank, world):
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        print(first_sentence_of(lambda: dist.all_reduce(torch.ones(1), group=group)))
        print(first_sentence_of(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1))))


_ = run_on_ranks(waits_one_second)

# %% [markdown]
# **Predict.** Rank 1 raises an exception while rank 0 waits for it. Does rank 0 wait forever?


# %%
def one_raises(rank, world):
    if rank == 1:
        raise ValueError("this batch is broken")
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        print("all_reduce ended with", type(error).__name__)
        raise


error_of(lambda: run_on_ranks(one_raises))

# %% [markdown]
# It doesn't. When a process ends, its connections close, and the other ranks fail in their next collective with a
# message about the network. So if you see several errors, look for the one that is *not* about a connection, because it
# is the cause. (With nccl, a GPU may wait for a dead partner until the timeout.)
#
# | what you see | what has happened | where to look |
# |---|---|---|
# | numbers that can't be, no error | calls met in different orders | a loop over a dict or a set, an `if` by rank |
# | nothing moves; a timeout | a rank leaves a call out | an `if` around a collective, uneven shares |
# | errors about connections | another rank has ended | the log of the rank that failed first |
#
# **Now you know.** Every rank must make the same calls in the same order. If it doesn't, you get nonsense, a hang or a
# broken connection.

# %% exercise="reduce-metrics"

# %% [markdown]
# ## 10.6 When the gradients travel
#
# DDP starts sending during backward. As soon as a *bucket* of gradients is complete, its all_reduce starts, while
# autograd works on the layers below. If you accumulate several micro-batches before a step, the gradients need to be
# sent only once. `ddp.no_sync()` stops DDP from sending.
#
# **Predict.** In each backward the local gradient is 1 on rank 0 and 2 on rank 1. What is `.grad` after one backward
# under `no_sync`, and after a second backward without it?


# %% facts=["10-ddp-synchronizes-gradients"]
def silent_then_loud(rank, world):
    ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    x = torch.tensor([[rank + 1.0]])
    with ddp.no_sync():
        ddp(x).sum().backward()
    grads = [ddp.module.weight.grad.item()]
    ddp(x).sum().backward()
    grads.append(ddp.module.weight.grad.item())

    ddp.zero_grad()
    loss = ddp(x).sum()  # forward outside of no_sync
    with ddp.no_sync():
        loss.backward()
    grads.append(ddp.module.weight.grad.item())
    return grads


for rank, (silent, loud, alone) in enumerate(run_on_ranks(silent_then_loud)):
    print(f"rank {rank}: silent {silent}, then loud {loud}; no_sync around backward only: {alone}")

# %% [markdown]
# Under `no_sync` each rank keeps its own gradient, 1 or 2. The next ordinary backward averages the accumulated
# gradients, 2 and 4, so both ranks have 3. The last number shows a trap: `no_sync` around backward alone does nothing,
# because DDP prepares to send in *forward* (section 10.3).
#
# DDP also decides early which gradients it waits for. The model below has two branches and uses one of them in each
# forward.


# %%
class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False)

    def forward(self, x: Tensor, second: bool = False) -> Tensor:
        return self.second(x) if second else self.first(x)


def unused_branch(rank, world):
    x = torch.ones(1, 2)
    ddp = DistributedDataParallel(TwoBranches())
    for step in range(2):
        print(f"step {step}:", first_sentence_of(lambda: ddp(x).sum().backward()))

    ddp = DistributedDataParallel(TwoBranches(), find_unused_parameters=True)
    ddp(x, second=rank == 1).sum().backward()  # each rank uses another branch
    print("gradients:", {name: p.grad.tolist() for name, p in ddp.module.named_parameters()})


_ = run_on_ranks(unused_branch)

# %% [markdown]
# The first step passes and the second raises an error, because the bucket still waits for a gradient that never came.
# With `find_unused_parameters=True`, DDP searches the graph after each forward and counts the gradient of an unused
# parameter as zeros. Here each branch gets half of the gradient that one rank computed for it. If you average by hand,
# you must do the same.
#
# **Now you know.** DDP decides in its forward whether it averages, and which gradients. It sends them during backward.

# %% exercise="average-gradients"

# %% exercise="accumulate-no-sync"

# %% [markdown]
# ## 10.7 Running a script: torchrun
#
# *If you read this chapter in two sittings, start the second here.*
#
# Outside notebooks, you start the processes with `torchrun`, which is short for `python -m torch.distributed.run`. It
# starts the script several times and sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process.
# The next cell does `torchrun --standalone --nproc-per-node=2 script.py --epochs=4`:

# %% facts=["10-env-init-needs-master-addr", "10-init-process-group-required"]
ddp_script = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")                        # everything comes from the environment
rank, world, local = dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"]
ddp = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
ddp(torch.tensor([[rank + 1.0]])).sum().backward()
gradient = ddp.module.weight.grad.item()
line = f"rank {rank} of {world}, LOCAL_RANK {local}, options {sys.argv[1:]}, gradient {gradient}"
print(line + "\\n", end="", flush=True)       # as one piece, since all ranks write to one terminal
dist.barrier()
os._exit(0)      # only needed in a notebook: gloo's threads can disturb an ordinary end of Python
"""
scripts = tempfile.TemporaryDirectory()
# ranks talk within this machine and compute with one thread; what they print has no colours
loopback = {
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    "OMP_NUM_THREADS": "1",
    "PYTHON_COLORS": "0",
}


def torchrun(
    source: str,
    *options: str,
    module: str = "run",
    more: tuple = (),
) -> subprocess.CompletedProcess:
    """Run torchrun with these options on a script; `more` are the script's own options."""
    script = Path(tempfile.mkdtemp(dir=scripts.name)) / "script.py"
    script.write_text(source)
    command = [sys.executable, "-m", f"torch.distributed.{module}", *options, str(script), *more]
    environment = os.environ | loopback
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


done = torchrun(ddp_script, "--standalone", "--nproc-per-node=2", more=("--epochs=4",))
print("\n".join(sorted(done.stdout.splitlines())))

# %% [markdown]
# Options before the script's name are for the launcher, and options after it are for the script. The script says
# nothing about where it runs, so it works for one process and for a hundred. On GPUs you would add
# `torch.cuda.set_device(local)`.
#
# On several machines, you run the same command on each. They meet at an address that all of them know:
#
#     torchrun --nnodes=2 --nproc-per-node=2 \
#         --rdzv-backend=c10d --rdzv-endpoint=HOST:PORT --rdzv-id=JOB script.py
#
# RANK counts across all machines. LOCAL_RANK, which picks the GPU, starts at 0 on each machine:
#
# | variable | machine 0 | machine 0 | machine 1 | machine 1 |
# |---|---|---|---|---|
# | RANK | 0 | 1 | 2 | 3 |
# | LOCAL_RANK | 0 | 1 | 0 | 1 |
# | WORLD_SIZE | 4 | 4 | 4 | 4 |
#
# To use a debugger, you don't need a launcher. Set the five variables by hand, with RANK=0 and WORLD_SIZE=1, and start
# the script as one process.
#
# Older tutorials use `torch.distributed.launch`. With it, the script gets one more option:

# %% facts=["10-launch-py-deprecated"]
plain_script = """
import os, sys
print('options', sys.argv[1:], 'LOCAL_RANK', os.environ['LOCAL_RANK'])
"""
options = ("--nproc-per-node=1", "--master-port=0")
old = torchrun(plain_script, *options, module="launch", more=("--epochs=4",))
print(old.stdout.strip())
print(re.search(r"FutureWarning: .*", old.stderr)[0])

# %% [markdown]
# The old launcher also passed `--local-rank` to the script, and many scripts still expect it. With torchrun, read
# `os.environ["LOCAL_RANK"]`.
#
# ### A crash under torchrun
#
# Rank 1 raises an exception immediately, while rank 0 has work for another ten minutes. The launcher watches both.

# %%
crash_script = """
import os, sys, time, torch.distributed as dist

dist.init_process_group("gloo")
print(f"pid {os.getpid()}\\n", end="", flush=True)
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("this batch is broken")
time.sleep(600)
"""
done = torchrun(crash_script, "--standalone", "--nproc-per-node=2")
print("exit code:", done.returncode)
print("rank 1:", re.search(r"ValueError: .*", done.stderr)[0])
print("root cause: rank", re.search(r"Root Cause.*?rank +: (\d)", done.stderr, re.S)[1])
pids = [int(line.split()[1]) for line in done.stdout.splitlines()]
print("started:", len(pids), " still running:", sum(psutil.pid_exists(pid) for pid in pids))

# %% [markdown]
# When one process fails, torchrun ends the others immediately. Its log ends with a table that names the "Root Cause":
# the rank that failed first, and its exit code. Start reading there. (A negative exit code is a signal. -9 often means
# that the system ran out of memory.) With `--max-restarts`, torchrun restarts all ranks, and the script must continue
# from its last checkpoint; see [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html).
#
# ### Saving and loading
#
# All ranks have the same weights, so only one of them saves. Here rank 0 needs half a second to write. First rank 1
# loads the file right away; then both do the same with a barrier in between.


# %%
def save_and_load(rank, world, folder):
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    for waiting in (False, True):
        path = Path(folder) / f"{waiting}.pt"
        if rank == 0:
            time.sleep(0.5)  # a large model
            torch.save(ddp.module.state_dict(), path)
        if waiting:
            dist.barrier()
        found = list(torch.load(path, map_location="cpu")) if path.exists() else "no file"
        print(f"barrier: {waiting!s:5}  finds {found}")


with tempfile.TemporaryDirectory() as folder:
    run_on_ranks(save_and_load, folder)

# %% [markdown]
# Without the barrier, rank 1 finds no file, or worse, half a file or last week's file. The barrier is outside the `if`,
# because all ranks must call it. The keys don't start with `module.`, because we saved `ddp.module`, and `map_location`
# prevents eight ranks from all loading onto the GPU that rank 0 saved from.
#
# **Now you know.** torchrun tells each process its rank, and ends all processes when one fails. One rank writes a file,
# and the others wait until they know that it has.

# %% exercise="rank-zero-save"

# %% [markdown]
# ## 10.8 What DDP sends
#
# DDP doesn't send each gradient by itself; it packs gradients into buckets. A [communication
# hook](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html) replaces DDP's all_reduce, so it can inspect the
# buckets. The hook below records what it gets and starts the all_reduce itself. It must not wait, or nothing would
# overlap with backward. So it returns a *future*, an object that will hold the result later. With `async_op=True` a
# collective returns a handle at once. `handle.get_future()` is the future of the sum, and `.then(f)` makes the future
# of what `f` returns for that sum.
#
# A bucket contains whole gradients, and is closed as soon as it has *reached* its cap.
#
# **Predict.** There are three layers with 640,000 weights (2.4 MiB) each, and `bucket_cap_mb=4`. How many buckets does
# DDP send, with which layers, and which bucket is sent first? Does the batch size matter?


# %% facts=["10-ddp-synchronizes-gradients"]
def look_at_buckets(rank, world):
    model = nn.Sequential(*[nn.Linear(800, 800, bias=False) for _ in range(3)])
    names = {id(p): name for name, p in model.named_parameters()}
    ddp = DistributedDataParallel(model, bucket_cap_mb=4)
    sent = []

    def look(state, bucket):
        layers = [names[id(p)] for p in bucket.parameters()]
        sent.append(f"{layers}, {bucket.buffer().nbytes / 2**20:.2f} MiB")
        sums = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return sums.then(lambda arrived: arrived.value()[0] / world)

    ddp.register_comm_hook(None, look)
    # in the first backward DDP learns the order, then it packs anew
    ddp(torch.ones(1, 800)).sum().backward()
    for batch in (1, 64):
        sent.clear()
        ddp(torch.ones(batch, 800)).sum().backward()
        if rank == 0:
            print(f"batch of {batch}:", *sent, sep="\n    ")
    x, y = torch.ones(64, 800), torch.zeros(64, 800)
    through_the_hook, alone = gradient_of(ddp, x, y), gradient_of(model, x, y)
    if rank == 0:  # all ranks have the same rows, so the mean is each rank's own gradient
        print("the hook makes a mean:", is_close(through_the_hook, alone))


_ = run_on_ranks(look_at_buckets)

# %% [markdown]
# DDP sends two buckets, and the first is larger than its cap: one gradient leaves it below 4 MiB, so it takes a second.
# (By default the cap is 25 MiB, and 1 MiB for the first bucket, so that sending starts early.) The last layers come
# first, because backward starts there.
#
# The batch size doesn't matter, because the amount of data is that of the trainable parameters. Larger batches on each
# rank therefore make communication relatively cheaper. A hook can also send something smaller; PyTorch has hooks for
# float16 and bfloat16. If you register your own hook, it must also divide by the world size.
#
# **Now you know.** In each step DDP gives all_reduce as many bytes as the trainable parameters have, in buckets, last
# layers first. Section 10.9 shows how many of them travel.

# %% exercise="communicated-bytes"

# %% [markdown]
# ## 10.9 All-reduce as a ring
#
# How does `all_reduce` itself work? If every rank sent the whole tensor to every other rank, each would send world − 1
# copies. In a *ring*, each rank sends only to its right neighbour, one chunk per step.
#
# Press *step* to go through it. Below each chunk you see the ranks whose numbers are in it. After how many steps does
# each of four ranks have *one* complete chunk, and after how many steps do all ranks have everything?

# %%
ring_stepper()

# %% [markdown]
# After 3 steps rank r has the complete chunk r + 1 (modulo 4); this was a reduce_scatter. In three more steps, an
# all_gather, the ranks pass on the complete chunks, and then every rank has everything. Each rank has sent 6 chunks,
# 6/4 of the tensor. In general it sends 2 (world − 1) / world of the tensor: 1.0 tensors with 2 ranks, 1.75 with 8,
# 1.97 with 64, and always less than two.
#
# In code, the messages are *point to point*: `dist.send` sends to one rank, and `dist.recv` receives from one rank.
#
# **Predict.** In each step every rank sends to the right and receives from the left. What happens if all ranks call
# `dist.send` first and `dist.recv` afterwards?


# %%
def everybody_sends_first(rank, world, patiently):
    right, left = (rank + 1) % world, (rank - 1) % world
    mine, other = torch.full((1_000_000,), float(rank)), torch.empty(1_000_000)
    if patiently:
        sending, receiving = dist.isend(mine, right), dist.irecv(other, left)
        sending.wait()
        receiving.wait()
    else:
        dist.send(mine, right)
        dist.recv(other, left)
    return other[0].item()


error_of(lambda: run_on_ranks(everybody_sends_first, False, stall=1.0))
print("isend and irecv:", run_on_ranks(everybody_sends_first, True))

# %% [markdown]
# They hang. `send` returns when the partner receives, but the partner is also busy sending. `isend` and `irecv` return
# a handle at once, so start both, then wait for both. Don't write into the tensors until you have waited.
#
# **Now you know.** A ring all-reduce is a reduce_scatter followed by an all_gather. Each rank sends less than two
# tensors, however many ranks there are.

# %% exercise="ring-all-reduce"

# %% [markdown]
# ## 10.10 Why 8 GPUs are only 3 times as fast
#
# Two numbers describe a connection. Its *latency* is the time that even an empty message takes, and its *bandwidth* is
# the number of bytes per second. A message takes latency + bytes / bandwidth. Here are both for two processes on this
# machine, measured with an all_reduce of one number and of 40 MB.


# %% varies="times differ from run to run"
def measure(rank, world):
    def seconds(n: int) -> float:
        t, times = torch.zeros(n), []
        for _ in range(10):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(t)
            times.append(time.perf_counter() - start)
        return min(times)  # the one that was disturbed least

    return seconds(1), seconds(10_000_000)


small, large = run_on_ranks(measure)[0]
# each rank sends 2 (2 - 1) / 2 = 1 tensor, of 4 bytes a number
bandwidth = 40_000_000 / (large - small)
print(f"latency {small * 1e3:.2f} ms, bandwidth {bandwidth / 1e9:.1f} GB/s")
print(f"in the time of one latency {small * bandwidth / 1e3:.0f} kB could have travelled")

# %% [markdown]
# Now consider a real job. A model has 100 million parameters, so 400 MB of float32 gradients. One GPU computes 0.15 ms
# forward and 0.30 ms backward for each sample, and takes batches of 256. You rent 8 GPUs and give each an eighth of the
# batch, and training becomes only 3 times as fast. Why?
#
# We model a step as follows. DDP sends a bucket when backward has filled it and the connection is free, and a ring
# all_reduce of the bucket takes 2 (world − 1) messages of 1/world of its size. The step ends when backward is done
# *and* the last bucket has arrived. (We leave out the optimizer.) The GPUs are connected by PCIe, at about 25 GB/s.


# %%
def one_step(samples, world=8, megabytes=400, gb_per_s=25, latency=20e-6, bucket_mb=25):
    """In seconds: when forward and backward end, and from when to when each bucket travels."""
    forward, backward = samples * 0.15e-3, samples * 0.30e-3
    buckets = math.ceil(megabytes / bucket_mb)
    each = 2 * (world - 1) * (latency + megabytes * 1e6 / buckets / world / (gb_per_s * 1e9))
    sends, free = [], 0.0
    for k in range(1, buckets + 1):
        start = max(free, forward + backward * k / buckets)
        free = start + each
        sends.append((start, free))
    return forward, forward + backward, sends


def speedup(samples, world=8, **changes):
    """Samples a second, compared with one GPU."""
    _, computed, sends = one_step(samples, world, **changes)
    return world * samples / max(computed, sends[-1][1]) * 0.45e-3


print(f"8 GPUs with 32 samples each: {speedup(32):.1f} times as fast")
overlap({"32 samples on each GPU": one_step(32), "128 samples on each GPU": one_step(128)})

# %% [markdown]
# An eighth of the batch takes an eighth of the computing time, 14.4 ms, but a step takes 37.9 ms. The size of the
# gradients is the same as before: 1.75 · 400 MB at 25 GB/s take 28 ms, and the latencies of 16 buckets add 4.5 ms.
# Backward can hide only what fits into its 9.6 ms. With 128 samples on each GPU, backward takes 38.4 ms and hides
# everything except the last bucket.
#
# **Predict.** We go back to 32 samples on each GPU. Does each of these changes help or hurt: a connection with twice
# the bandwidth, gradients sent in bfloat16, buckets of 1 MB, a single bucket? And are 64 GPUs 8 times as fast as 8?

# %%
jobs = {
    "as it is": {},
    "twice the bandwidth": {"gb_per_s": 50},
    "gradients in bfloat16": {"megabytes": 200},
    "buckets of 1 MB": {"bucket_mb": 1},
    "one bucket of 400 MB": {"bucket_mb": 400},
    "NVLink, 250 GB/s": {"gb_per_s": 250},
    "Ethernet, 10 Gbit/s": {"gb_per_s": 1.25},
    "64 GPUs": {"world": 64},
    "128 samples each": {"samples": 128},
}
for name, changes in jobs.items():
    print(f"{name:24}{speedup(**{'samples': 32} | changes):5.1f} times as fast as one GPU")

# %% [markdown]
# Half the bytes help about as much as twice the bandwidth; fewer bytes also need fewer buckets. Small buckets hurt,
# because each megabyte pays the latency 14 times. One large bucket also hurts, because it can leave only when backward
# is over. That is why DDP has buckets, and why they are neither small nor large. 64 GPUs are not 8 but 4 times as fast
# as 8, because each bucket now takes 126 messages instead of 14. (That is why nccl also uses trees.) Over plain
# Ethernet, 8 GPUs are slower than one.
#
# The cheapest change is in the last line. The computing time grows with the samples on each GPU, but the communication
# time doesn't:
#
# > Communication is hidden, roughly, while bytes · 2 (world − 1) / world / bandwidth is less than the time of backward.
#
# With more samples on each GPU, the gradients have more time to travel. Several micro-batches under `no_sync` send them
# less often. But both make the batch larger, which changes the training, so reconsider the learning rate and the number
# of steps.
#
# Communication isn't the only suspect. All ranks wait for the slowest rank, and work that isn't divided takes as long
# as before. If logging, or evaluation on rank 0, takes 5% of a step on one GPU, 8 GPUs can't be more than 1 / (0.05 +
# 0.95 / 8) = 5.9 times as fast. Three small experiments tell you which it is:
#
# | experiment | what it tells |
# |---|---|
# | train on one batch that is already on the device | steps get shorter: the DataLoader was the bottleneck |
# | all steps under `no_sync()` | steps get shorter: communication isn't hidden |
# | one GPU alone, with 32 samples instead of 256 | not 8 times shorter: small batches leave a GPU half empty |
#
# NVIDIA's page on [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) explains how to
# measure the bandwidth of all_reduce, with the same factor.
#
# **Now you know.** A step takes the time to compute plus the time to send whatever isn't hidden. The first grows with
# the batch on each GPU, the second with the model.

# %% exercise="predict-communication"

# %% [markdown]
# ## 10.11 Cutting the model by layers
#
# If a model is too large for one device, you cut it. The simplest way is to cut by layers, with the first half on one
# device and the second half on another. PyTorch moves nothing between devices by itself. The next cell shows this with
# *fake* tensors, which have a device but no data, so you can try two GPUs on any machine.

# %% facts=["10-model-parallel-idea", "10-labels-on-output-device"]
# a machine with one GPU refuses a second one
other = "cpu" if torch.cuda.device_count() == 1 else "cuda:1"
with FakeTensorMode():
    first, second = torch.empty(10, 10, device="cuda:0"), torch.empty(5, 10, device=other)
    h = torch.relu(F.linear(torch.empty(20, 10, device="cuda:0"), first))
    error_of(lambda: F.linear(h, second))

    out = F.linear(h.to(other), second)
    print(f"with h.to({other!r}): the output is on", out.device)
    for device in dict.fromkeys(("cpu", "cuda:0", other)):
        labels = torch.empty(20, 5, device=device)
        print(f"labels on {device:7}", first_sentence_of(partial(F.mse_loss, out, labels)))

# %% [markdown]
# You must move the activations yourself, and the labels must be on the device of the output. (Real tensors raise a
# RuntimeError with the same words.) You don't have to do anything for backward, because autograd takes each gradient
# back to the device that its tensor came from.
#
# **Predict.** Four devices have a quarter of the layers each. How much faster is a step than on one device that could
# hold the whole model? And how much faster is it if the batch is cut into 16 micro-batches that follow one another,
# first all forward and then all backward (a schedule called *GPipe*)? Each of p devices is then idle for a share (p -
# 1) / (m + p - 1) of the time, with m micro-batches.

# %% facts=["10-model-parallel-idle", "10-pipeline-overlaps-next-minibatch", "10-model-parallel-is-slower"]
share = idle_share(timeline("by layers", 4, 1))
print(f"by layers, one batch:       {share:.0%} idle, {4 * (1 - share):.1f} times as fast")
for micro_batches in (1, 4, 16):
    share = idle_share(timeline("GPipe", 4, micro_batches))
    gained = f"{share:.0%} idle, {4 * (1 - share):.1f} times"
    formula = f"(p - 1) / (m + p - 1) is {3 / (micro_batches + 3):.0%}"
    print(f"pipeline, {micro_batches:2} micro-batches: {gained}; {formula}")

# %% [markdown]
# A step isn't faster at all, because only one of the four devices works at a time, and the copies cost extra time.
# Cutting by layers makes nothing faster; it makes large models *possible*. In a pipeline, a stage starts on the next
# micro-batch while the following stage computes the previous one. With 16 micro-batches it is 3.4 times as fast. The
# micro-batches are parts of one batch: their gradients are added up, and there is one optimizer step at the end, so the
# result is that of the whole batch.
#
# The picture shows which device waits for which. Blocks with F are forward, blocks with B are backward, and the number
# is the micro-batch.

# %%
timeline_explorer()

# %% [markdown] facts=["10-model-parallel-splits-model"]
# Across processes the activation is a message, sent with `dist.send` and received into an empty tensor. The graph isn't
# sent, so the tensor that rank 1 receives is a leaf. For backward you must send the gradient the other way yourself,
# and that is the exercise. The module
# [`torch.distributed.pipelining`](https://docs.pytorch.org/docs/stable/distributed.pipelining.html) does all of this,
# including micro-batches.
#
# **Now you know.** If a model is cut into p stages, the stages are idle for (p − 1) / (m + p − 1) of the time with m
# micro-batches. Use many micro-batches.

# %% exercise="two-stage-backward"

# %% [markdown]
# ## 10.12 When one GPU is too small
#
# A smaller batch on each rank makes only the activations smaller. Here is the memory that a rank needs for everything
# else, in float32 with Adam, if each rank stores everything (as with DDP) and if each stores only its part:

# %% facts=["10-data-parallel-cannot-shrink-state"]
parameters = 7e9
kept = {"weights": 4, "gradients": 4, "Adam's two averages": 8}  # bytes a parameter
gib = parameters * sum(kept.values()) / 2**30
for world in (2, 8, 64):
    share = gib / world
    print(f"{world:2} ranks: {gib:.0f} GiB on each with DDP, {share:4.1f} GiB if all is divided")

# %% [markdown]
# With DDP the eighth GPU stores the same as the first. To divide it, the state itself must be *sharded*: `fully_shard`
# (FSDP2) gives each rank a part of each parameter, of its gradient and of the optimizer's state. But a layer needs its
# whole weight to compute. The next cell has three layers with 8 × 8 weights, on two ranks. Before each layer computes,
# rank 0 notes how much it has of all three weights.


# %% facts=["10-data-parallel-cannot-shrink-state"]
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def held(weight: Tensor) -> tuple:
    """The shape of what this rank holds of a weight."""
    return tuple((weight.to_local() if isinstance(weight, DTensor) else weight).shape)


class Block(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        self.note()
        return super().forward(x)


def with_fully_shard(rank, world):
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    whole = nn.Sequential(*[nn.Linear(8, 8) for _ in range(3)])
    model = nn.Sequential(*[Block(8, 8) for _ in range(3)])
    model.load_state_dict(whole.state_dict())
    notes = []
    for block in model:
        block.note = lambda: notes.append([held(layer.weight) for layer in model])
        fully_shard(block, mesh=init_device_mesh("cpu", (world,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))

    whole(x).pow(2).mean().backward()
    model(x.chunk(world)[rank]).pow(2).mean().backward()
    gradient = model[0].weight.grad.full_tensor()  # a collective: all ranks call it
    if rank == 0:
        for number, shapes in enumerate(notes):
            print(f"layer {number} computes: {shapes}")
        print("a gradient held:", tuple(model[0].weight.grad.to_local().shape), end="  ")
        print("as on one device:", is_close(gradient, whole[0].weight.grad))


_ = run_on_ranks(with_fully_shard)

# %% [markdown]
# Rank 0 has half of the rows of each weight, and only the layer that is computing has all its rows. Before it computes,
# the ranks all_gather its weight, and afterwards they drop what isn't theirs. In backward they gather it again, and a
# reduce_scatter gives each rank the averaged gradient of its own rows; its optimizer updates only those. This sends one
# and a half times as much as DDP. Section 10.10 tells you when that is hidden.
#
# Apply `fully_shard` to each block and then to the whole model, as here. The module that you wrap last, the root, keeps
# its own weights gathered after forward, because backward needs them immediately. If you wrap only the whole model, all
# of it is root, so every weight is there in full size from its forward to the end of its backward. [Getting Started
# with Fully Sharded Data Parallel](https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html) continues from
# here.
#
# A sharded parameter is a [`DTensor`](https://docs.pytorch.org/docs/stable/distributed.tensor.html), a tensor that
# stores on which devices it is and how it is cut. With other cuts it also supports one more kind of parallelism,
# *inside* the layers. The next cell plays two devices, each of which computes half of a layer's outputs:

# %% facts=["10-model-parallel-idle"]
torch.manual_seed(0)
x, weight = torch.randn(5, 8), torch.randn(12, 8)
shards = [x @ part.T for part in weight.chunk(2)]  # each device computes 6 of the 12 outputs
print("two halves side by side are the layer:", is_close(torch.cat(shards, 1), x @ weight.T))

# %% [markdown]
# Both devices need the same `x` and compute at the same time, so no device is idle. But this *tensor parallelism*
# communicates in every layer, forward and backward, and nothing hides that. It needs fast connections, usually between
# the GPUs of one machine.
#
# Finally there is [`nn.DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), which
# is older than DDP and needs one process and one line. The next cell shows the steps of its forward and what its
# documentation says:

# %% facts=["10-dataparallel-threads", "10-dataparallel-slower-than-ddp", "10-dataparallel-is-convenient-enough"]
source = inspect.getsource(nn.DataParallel.forward)
print("forward calls:", re.findall(r"self\.(scatter|replicate|parallel_apply|gather)\(", source))
print("by threads:", "threading.Thread" in inspect.getsource(parallel_apply))
print("keys:", list(nn.DataParallel(nn.Linear(2, 1)).state_dict()))
advice = " ".join(nn.DataParallel.__doc__.split())
advice = re.search(r"It is recommended to use .*? instead of this class", advice)[0]
print(fill(f"docstring: {advice}", 90))

# %% [markdown] facts=["10-dataparallel-loss-on-first-gpu", "10-ddp-with-model-parallel", "10-rpc-across-machines"]
# In every step it scatters the batch, copies the whole model to each GPU, and gathers the outputs on the first GPU,
# where the loss is then computed; the threads in between share one GIL (Python's lock, which lets only one thread run
# Python code at a time). Don't use it in new code. If you have an old checkpoint, strip `module.` from its keys.
#
# | tool | a rank holds | it sends | when |
# |---|---|---|---|
# | DDP | everything | gradients, once a step | the model fits on one GPU |
# | `fully_shard` | its part of everything | weights twice, gradients once | it doesn't fit; try this next |
# | tensor parallelism | a part of each layer | activations, in every layer | single layers are too large; one machine |
# | pipeline | some of the layers | activations between stages | slow connections, between machines |
# | `nn.DataParallel` | a copy for each step | the model, inputs, outputs | old code only |
#
# You can combine them: tensor parallelism within a machine, a pipeline or `fully_shard` between machines. DDP also
# accepts a model that is spread over two GPUs; leave out `device_ids` then. `torch.distributed.rpc`, which old texts
# recommend, is in maintenance mode.
#
# **Now you know.** DDP divides the batch and copies everything else. `fully_shard` also divides everything else, at the
# price of more messages.

# %% exercise="sharded-linear"

# %% [markdown]
# ## On a GPU
#
# The first cell needs one GPU, for a world of one with nccl; without a GPU it shows a recorded run. The second needs
# two, and measures what section 10.10 computes. No exercise needs a GPU.


# %% facts=["10-init-process-group-nccl"] varies="a CUDA device changes what is shown"
@cuda_demo("10_multi_gpu")
def nccl_alone() -> None:
    """One process with nccl: all_reduce, a CPU tensor, and a DDP step."""

    def alone(rank, world):
        torch.cuda.set_device(rank)
        t = torch.tensor([5.0], device="cuda")
        dist.all_reduce(t)
        print("all_reduce in a world of one:", t.item())
        print("a CPU tensor:", first_sentence_of(lambda: dist.all_reduce(torch.ones(1))))

        ddp = DistributedDataParallel(nn.Linear(3, 1).cuda(), device_ids=[rank])
        ddp(torch.ones(4, 3, device="cuda")).mean().backward()
        print("DDP:", ddp.device, "gradient on", ddp.module.weight.grad.device)

    run_on_ranks(alone, world=1, backend="nccl")


nccl_alone()


# %% varies="a CUDA device changes what is shown"
@cuda_demo("10_multi_gpu")
def ddp_on_two() -> None:
    """How much faster a DDP training is with two GPUs, for a small and a large batch on each."""
    if torch.cuda.device_count() < 2:
        print("One CUDA device here: this demo needs two.")
        return

    def train(rank, world, samples):
        torch.cuda.set_device(rank)
        torch.manual_seed(0)
        layers = [layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
        ddp = DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[rank])
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
        x = torch.randn(samples, 2048, device="cuda")
        for steps in (5, 50):  # the first round warms up
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                optimizer.zero_grad()
                ddp(x).pow(2).mean().backward()
                optimizer.step()
            torch.cuda.synchronize()
        return world * 50 * samples / (time.perf_counter() - start)

    for samples in (64, 4096):
        on_gpus = partial(run_on_ranks, train, samples, backend="nccl", timeout=120)
        one, two = min(on_gpus(world=1)), min(on_gpus(world=2))
        print(f"{samples} samples on each GPU: two are {two / one:.2f} times as fast as one")


ddp_on_two()

# %% [markdown]
# nccl can't send CPU tensors. With two GPUs, compare the two batches: 16 million parameters make 64 MiB of gradients,
# whatever the batch size.
#
# ## Folklore, checked
#
# These are common beliefs about several GPUs and processes and what we found. Each row unfolds a proof: a few lines
# that run without an error only if the statement on the right is true.

# %%
folklore("10_multi_gpu")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("10-convert-sync-batchnorm")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [Distributed communication package](https://docs.pytorch.org/docs/stable/distributed.html): backends, all
# collectives, and debugging with `TORCH_DISTRIBUTED_DEBUG`;
# - the note [Distributed Data Parallel](https://docs.pytorch.org/docs/stable/notes/ddp.html): how the buckets work;
# - [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html): all options, several machines, restarts;
# - [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html), [tensor
# parallelism](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html) and [distributed
# optimizers](https://docs.pytorch.org/docs/stable/distributed.optim.html): when one GPU is too small.
#
# The [Ultra-Scale Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook) by Hugging Face measures what
# all this costs on hundreds of GPUs.
#
# **Next:** chapter 11, [The training loop](../11_training_loop/training_loop.ipynb).
