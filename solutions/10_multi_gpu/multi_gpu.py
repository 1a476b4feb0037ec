# %% [markdown]
# # Several devices, several processes
#
# How several processes train one model: who holds what, who waits for whom, and what it looks like when one of them
# does not come. After this chapter you can
#
# - explain data, model and pipeline parallelism by who holds what and who waits for whom, and compute the idle share;
# - start two gloo processes from a notebook or with torchrun, and read a hang or a crash;
# - say what DDP does (broadcast once, average gradients) and what it leaves to you (splitting the data, evaluating,
#   saving, logging);
# - write the pieces by hand: gradient averaging, exact evaluation, accumulation without communication, a ring
#   all-reduce, a backward pass across two processes;
# - say where FSDP2 (`fully_shard`), DTensor and the pipelining module begin.
#
# **55 minutes to read, 170 minutes to practise, 20 points.** You need chapter 4 (`backward` adds into `.grad`),
# chapter 7 (`state_dict`) and the `DataLoader`. No GPU is needed: everything runs on the CPU, on two or three
# processes.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import contextlib
import inspect
import io
import math
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
import torch.distributed.run
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.parallel_apply import parallel_apply
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset

from torchkata.demos import error_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.collectives import collective_explorer
from torchkata.pictures.ring import ring_stepper
from torchkata.pictures.sampler_table import sampler_explorer
from torchkata.pictures.timelines import idle_share, timeline, timeline_explorer
from torchkata.processes import run_on_ranks
from torchkata.verdicts import check, mistake, observe, observe_scenario, observe_value, prediction

# %% [markdown]
# ## 10.1 Worker processes from a notebook
#
# A process is a separate Python with memory of its own. PyTorch starts some with `torch.multiprocessing.spawn`: it
# runs a function `nprocs` times, each time in a new Python.
#
# **Predict.** `mp.spawn(train, args=(2, t), nprocs=2)`: with how many arguments is `train` called? And when each
# child writes into `t`, does the parent see it?

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
# With three: spawn puts the number of the process, its *rank*, in front of `args`. And the parent sees the writing,
# because tensors in `args` travel through shared memory (the page "Multiprocessing package, torch.multiprocessing").
# The guard `if __name__ == "__main__"` is needed, since each child imports the script to find `train`.
#
# **Predict.** A notebook has no script that a child could import. The next cell runs the same program without a file,
# as a notebook's cells are run. What happens?

# %% facts=["10-multiprocessing"]
command = [sys.executable, "-c", program.replace("nprocs=2", "nprocs=1")]
done = subprocess.run(command, capture_output=True, text=True)
for line in done.stderr.splitlines():
    if line.startswith("AttributeError") or "ProcessExitedException:" in line:
        print(line.split("multiprocessing.spawn.")[-1])

# %% [markdown]
# The function travels by its name only, and in the child `__main__` is empty. This course therefore has a helper that
# sends the function itself: `run_on_ranks(function, *args, world=2)` calls `function(rank, world, *args)` in `world`
# fresh processes and returns what they return, by rank. What they print is shown rank by rank.


# %%
def introduce(rank, world, greeting):
    print(greeting, rank, "of", world)
    return 10 * rank


run_on_ranks(introduce, "I am", world=3)

# %% [markdown]
# **Predict.** One of two ranks divides by zero. What do you see?


# %% facts=["10-mp-spawn-passes-rank"]
def divide(rank, world):
    return 1 / (1 - rank)


error_of(lambda: run_on_ranks(divide))

# %% [markdown]
# The exception is raised again in the notebook, with the rank and the line of *your* code. (`mp.spawn` does the same
# for a script, with the child's whole traceback.)

# %% [markdown]
# ## 10.2 Groups, backends, collectives
#
# Processes that want to talk join a *group*: each one calls `dist.init_process_group` with its own rank and the world
# size, the number of processes. `run_on_ranks` has done this for you. Here is what is needed when nobody has; the
# function runs in one process that has joined nothing yet.


# %% facts=["10-init-process-group-required", "10-env-init-needs-master-addr"]
def joins_alone(rank, world):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    error_of(lambda: DistributedDataParallel(nn.Linear(1, 1)))
    error_of(lambda: dist.init_process_group("gloo"))
    error_of(lambda: dist.init_process_group("gloo", rank=0, world_size=1))
    for _ in range(2):  # two groups, one after the other
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        t = torch.tensor([5.0])
        dist.all_reduce(t)
        print("world of", dist.get_world_size(), "gives", t.item())
        dist.destroy_process_group()


_ = run_on_ranks(joins_alone, world=1, backend=None)

# %% [markdown]
# Nothing is found out by itself. Rank, world size and the address where all meet come from the environment variables
# RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun sets them, section 10.7), from arguments, or from a store as
# here. A group of one is enough to try DDP in a unit test, and a group that was destroyed can be set up anew.
#
# **Predict.** Many listings call `init_process_group(rank=0, world_size=2)` in a script that is started once. Who
# starts the second process?


# %% facts=["10-long-listing-rank-zero"]
def only_rank_zero(rank, world):
    with socket.socket() as probe:  # a free port
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    for size in (2, 0):
        try:
            dist.init_process_group("gloo", address, timedelta(seconds=1), world_size=size, rank=0)
        except (dist.DistStoreError, ValueError) as error:
            print(f"world size {size}: {str(error).split('. ')[-1]}")


_ = run_on_ranks(only_rank_zero, world=1, backend=None)

# %% [markdown]
# Nobody: `init_process_group` joins, it does not start. Rank 0 waits for a client that never comes (by default half
# an hour with gloo). World size 0 is what `torch.cuda.device_count()` gives on a machine without GPUs.

# %% [markdown]
# The *backend* carries the messages: "gloo" for CPU tensors, "nccl" for GPUs.


# %% facts=["10-init-process-group-nccl"] varies="a build with NCCL answers in other words, and with a GPU it joins"
def with_nccl(rank, world):
    try:
        a_minute = timedelta(minutes=1)
        dist.init_process_group("nccl", timeout=a_minute, store=dist.HashStore(), rank=0, world_size=1)
        print("nccl: joined")
    except (RuntimeError, ValueError) as error:
        print("nccl:", error)


print("gloo:", dist.is_gloo_available())
_ = run_on_ranks(with_nccl, world=1, backend=None)

# %% [markdown]
# **Predict.** Rank 0 holds 1, rank 1 holds 2, and both call `dist.all_reduce(t)`. What does `t` hold afterwards on
# each of them? And what does the call return?


# %% facts=["10-gloo-two-processes"]
def reduce_all(rank, world):
    t = torch.tensor([rank + 1.0])
    returned = dist.all_reduce(t)
    return f"t = {t.item()}, returned {returned}"


run_on_ranks(reduce_all)

# %% [markdown]
# `all_reduce` *sums*, in place, on every rank, and returns None. It has relatives, called *collectives* because every
# rank of the group must call them. Choose one below and press *step*: who gives what, and who has what afterwards.
# The pieces a0, a1, … come from rank 0, b0, b1, … from rank 1; a sum over the ranks reads a0+b0+c0.

# %%
collective_explorer()

# %% [markdown]
# **Predict.** With three ranks, what does each of them hold after these four?


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
# After `reduce_scatter` each rank holds a different third of the sum; if all then `all_gather` their thirds, that is
# an `all_reduce`. Keep this in mind for section 10.10. `all_gather_object` sends anything that can be pickled.

# %% [markdown]
# ## 10.3 Data parallelism by hand, then DDP
#
# Each rank holds the whole model and gets a part of the batch. Is the average of the parts' gradients the gradient of
# the whole batch?
#
# **Predict.** The loss is a mean over 8 rows. The rows are cut 4 + 4, then 2 + 6.


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
    print(f"{cut} + {8 - cut} rows: the average is the whole:", is_close((first + second) / 2, whole))
    print("           the sum is the whole:    ", is_close(first + second, whole))

# %% [markdown]
# For a mean loss and *equal* parts the average is right. With unequal parts the average of means is not the mean, and
# a sum is wrong in both cases. (Weighted by their numbers of rows, unequal parts would come out right, too.)
#
# So data parallelism takes two lines after `backward`: all_reduce each gradient, divide by the world size.
# `DistributedDataParallel`, DDP for short, does the same while backward is still running.
#
# **Predict.** Four gradients: of the whole batch, of the rank's own half, averaged by hand, and by DDP. Which of them
# are equal, within rounding?


# %% facts=["10-ddp-synchronizes-gradients", "10-ddp-multi-process"]
def four_gradients(rank, world):
    torch.manual_seed(0)
    model, x, y = nn.Linear(3, 1), torch.randn(8, 3), torch.randn(8, 1)
    mine = slice(4 * rank, 4 * rank + 4)
    whole = gradient_of(model, x, y)

    local = gradient_of(model, x[mine], y[mine])
    by_hand = local.clone()
    dist.all_reduce(by_hand)
    by_hand /= world

    by_ddp = gradient_of(DistributedDataParallel(model), x[mine], y[mine])
    return {
        "local = whole": is_close(local, whole),
        "by hand = whole": is_close(by_hand, whole),
        "DDP = by hand": is_close(by_ddp, by_hand),
    }


for rank, facts in enumerate(run_on_ranks(four_gradients)):
    print(f"rank {rank}: {facts}")

# %% [markdown]
# The average by hand, DDP's and that of the whole batch agree; "within rounding", because the additions are done in
# another order. Only the local gradient differs.
#
# **Predict.** The ranks build their models from different seeds, and their local gradients are 2 and 4. After
# `DDP(model)`, are the weights equal? What does `.grad` hold after backward? And after three optimizer steps on
# different data, are the weights still equal?


# %% facts=["10-ddp-replicas-stay-equal", "10-ddp-synchronizes-gradients"]
def everybody_has(t: Tensor) -> bool:
    """Whether all ranks hold the same numbers."""
    copies = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(copies, t.detach().contiguous())
    return all(torch.equal(copy, copies[0]) for copy in copies)


def different_seeds(rank, world):
    torch.manual_seed(rank)
    model = nn.Linear(1, 1, bias=False)
    equal = [everybody_has(model.weight)]
    ddp = DistributedDataParallel(model)
    equal.append(everybody_has(model.weight))

    ddp(torch.tensor([[2.0 * (rank + 1)]])).sum().backward()
    grad = model.weight.grad.item()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ddp(torch.randn(4, 1)).pow(2).mean().backward()
        optimizer.step()
    equal.append(everybody_has(model.weight))
    return {"equal: built, wrapped, trained": equal, "grad": grad}


for rank, facts in enumerate(run_on_ranks(different_seeds)):
    print(f"rank {rank}: {facts}")

# %% [markdown]
# Building DDP broadcasts the parameters of rank 0, once. From then on equal weights, equal gradients and equal
# optimizers keep the replicas equal; parameters are never sent again. Each rank runs its own optimizer. (Buffers, such
# as BatchNorm's running averages, are taken from rank 0 anew at each forward: the option `broadcast_buffers`.)
#
# **Predict.** Each rank passes a batch of 4 rows to `ddp`. How many rows come back? With `DataLoader(batch_size=32)`
# on each rank, how many samples go into an optimizer step?


# %% facts=["10-ddp-does-not-shard-input", "10-ddp-listing-gloo-on-rank-device", "10-ddp-multi-process"]
def what_the_wrapper_is(rank, world):
    model = nn.Linear(3, 1)
    ddp = DistributedDataParallel(model)
    print("rows:", len(ddp(torch.ones(4, 3))), "  keys:", list(ddp.state_dict()), "  device:", ddp.device)
    print("ddp.module is the model:", ddp.module is model)
    error_of(lambda: DistributedDataParallel(nn.Linear(1, 1), device_ids=[rank]))


_ = run_on_ranks(what_the_wrapper_is, world=1)

# %% [markdown]
# Four rows: DDP splits nothing, each rank must bring its own share, and an optimizer step sees 32 samples *per rank*.
# The wrapper is a module with one child, `module`, so every key of its state_dict begins with `module.`; save
# `ddp.module.state_dict()`. Listings with `model.to(rank)` and `device_ids=[rank]` are for GPUs, whatever the
# backend; on the CPU leave both out.
#
# **Predict.** The average runs over a *group*, by default all processes. What is `.grad` when each rank is alone in a
# group of its own?


# %% facts=["10-ddp-process-group-default"]
def groups_of_one(rank, world):
    groups = [dist.new_group([r]) for r in range(world)]  # every rank makes all groups
    grads = []
    for group in (dist.group.WORLD, groups[rank]):
        ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False), process_group=group)
        ddp(torch.tensor([[rank + 1.0]])).sum().backward()
        grads.append(ddp.module.weight.grad.item())
    return grads


run_on_ranks(groups_of_one)

# %% [markdown]
# With all ranks (1 + 2) / 2 on both; alone, each keeps its own. `new_group` must be called by all ranks for all
# groups, also for those to which they don't belong.

# %% [markdown]
# ## 10.4 Data for several ranks
#
# The share of each rank is usually chosen by a `DistributedSampler`. It needs the number of ranks and the own rank,
# and asks the process group if they are not given.
#
# **Predict.** 5 samples, 2 ranks, no shuffling: which indices does rank 1 get?

# %% facts=["10-distributed-sampler-exclusive", "10-sampler-needs-process-group"]
for n, drop_last in ((6, False), (5, False), (5, True)):
    choice = {"shuffle": False, "drop_last": drop_last}
    given = [list(DistributedSampler(range(n), 2, rank, **choice)) for rank in range(2)]
    print(f"{n} samples, drop_last={drop_last!s:5}: {given}")
error_of(lambda: DistributedSampler(range(5)))

# %% [markdown]
# Rank 1 gets 1, 3 and 0: shares are interleaved, and sample 0 comes twice, so that both ranks take equally many
# steps. With `drop_last=True` the tail is left out instead. Either way the shares have equal sizes, but they are
# disjoint *and* complete only when the length divides.
#
# Try other numbers. Repeated samples are marked by the word "again".

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
# One, unless you call `sampler.set_epoch(epoch)` at the start of each epoch. The order comes from the seed and the
# epoch's number: all ranks must draw the same permutation, or their shares would overlap, so the sampler can't just
# draw a new one by itself. And it is the sampler that shuffles; the DataLoader refuses to do it once more.
#
# **Predict.** What happens if you split the data yourself, and rank 0 has one batch more than rank 1?


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
# Rank 0 waits in its third backward for gradients of a rank that is done. That is why the sampler pads. `ddp.join()`
# is the other way out: a rank that has run out of data answers the others' all_reduces with zeros. (The page
# `DistributedDataParallel` describes it under `join`.)
#
# Padding is harmless in training and wrong in evaluation, where a sample that comes twice counts twice.

# %% exercise="who-trains-on-what"

# %% exercise="exact-evaluation"

# %% [markdown]
# ## 10.5 A hang, and a crash
#
# **Predict.** Both ranks add up a loss and an accuracy over the ranks, but rank 1 in another order. The losses are
# 0.5 and 1.5, the accuracies 10 and 20. What comes out?


# %%
def two_metrics(rank, world):
    loss, accuracy = torch.tensor([0.5 + rank]), torch.tensor([10.0 + 10 * rank])
    for t in (loss, accuracy) if rank == 0 else (accuracy, loss):
        dist.all_reduce(t)
    return {"loss": loss.item(), "accuracy": accuracy.item()}


for rank, metrics in enumerate(run_on_ranks(two_metrics)):
    print(f"rank {rank}: {metrics}")

# %% [markdown]
# Nonsense, without an error, and not even the same on both: 0.5 + 20 is rank 0's loss and rank 1's accuracy.
# Collectives find each other by the *order* of the calls. They know nothing of names.
#
# **Predict.** Now rank 1 leaves a call out.


# %%
def one_call_too_few(rank, world):
    t = torch.ones(1)
    if rank == 0:
        dist.all_reduce(t)
    return t.item()


error_of(lambda: run_on_ranks(one_call_too_few, stall=1.0))

# %% [markdown]
# Rank 0 waits in `all_reduce` for a partner that is done. `stall=1.0` tells our helper to give up when no rank has
# used the processor for a second; it then looks where each rank stands and ends them all. The usual cause is a
# collective under an `if` that is not true on all ranks: `if rank == 0`, an empty share, a metric that only one rank
# has.
#
# In real life nobody looks. What ends a hang there is the group's timeout, and a barrier that says who is missing:


# %%
def first_sentence_of(function: Callable[[], object]) -> str:
    """The error that function raises: its type and the first sentence, without the place in C++."""
    try:
        function()
    except Exception as error:
        told = re.sub(r"^\[.*?\]:? ", "", str(error).partition("\n")[0])
        return f"{type(error).__name__}: {told.partition('. ')[0]}"
    return "no error"


def waits_one_second(rank, world):
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        print(first_sentence_of(lambda: dist.all_reduce(torch.ones(1), group=group)))
        print(first_sentence_of(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1))))


_ = run_on_ranks(waits_one_second)

# %% [markdown]
# By default gloo gives up after 30 minutes, nccl after 10. `init_process_group(timeout=…)` sets another time for the
# whole program. `monitored_barrier` exists for gloo only, and it names the rank.
#
# **Predict.** Rank 1 raises, while rank 0 waits for it. Does rank 0 wait for ever?


# %%
def one_raises(rank, world):
    if rank == 1:
        raise ValueError("this batch is broken")
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError:
        print("RuntimeError in all_reduce: the connection to rank 1 is gone")
        raise


def one_dies(rank, world):
    if rank == 1:
        os._exit(3)  # as if the system had killed it
    dist.barrier()


error_of(lambda: run_on_ranks(one_raises))
error_of(lambda: run_on_ranks(one_dies))
print("processes left:", len(multiprocessing.active_children()))

# %% [markdown]
# No: when a process ends, its connections close, and the others fail in their next collective, with a message about
# the network. So of several errors look for the one that is *not* about a connection; it is the cause. `run_on_ranks`
# shows that one, and leaves no process behind. With nccl, a GPU may wait for a dead partner until the timeout.

# %% exercise="reduce-metrics"

# %% [markdown]
# ## 10.6 When the gradients travel
#
# DDP starts sending during backward: as soon as a *bucket* of gradients is complete, its all_reduce begins, while
# autograd works on the layers below. Adding up several micro-batches before a step would then send the gradients each
# time. `ddp.no_sync()` keeps it silent.
#
# **Predict.** In each backward the local gradient is 1 on rank 0 and 2 on rank 1. What does `.grad` hold after one
# backward under `no_sync`, and after another one without?


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


for rank, (silent, loud, backward_only) in enumerate(run_on_ranks(silent_then_loud)):
    print(f"rank {rank}: silent {silent}, then loud {loud}; no_sync around backward only: {backward_only}")

# %% [markdown]
# Under `no_sync` each rank keeps its own. The next ordinary backward averages everything that has piled up: (2 + 4) /
# 2. The last number shows a trap: around backward alone `no_sync` does nothing, because DDP prepares the sending in
# *forward*.
#
# **Predict.** A model has two branches, and each forward uses only the first. What does DDP say to that?


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
# The first step passes, the second one complains: the bucket still waits for a gradient that never came. With
# `find_unused_parameters=True` DDP looks through the graph after each forward and counts an unused parameter as
# zeros: here each branch gets half of the gradient that one rank had for it. Averaging by hand has to do the same.

# %% exercise="average-gradients"

# %% exercise="accumulate-no-sync"

# %% [markdown]
# ## 10.7 Running a script: torchrun
#
# Outside of notebooks the processes are started by `torchrun`, which is short for `python -m torch.distributed.run`.
# It starts the script several times and sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each.

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
print(line + "\\n", end="", flush=True)                # as one piece, since all ranks write to one terminal
dist.barrier()
os._exit(0)                                            # gloo's threads can disturb an ordinary end of Python
"""

scripts = tempfile.TemporaryDirectory()
# the ranks talk within this machine, and each computes with one thread
loopback = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo", "OMP_NUM_THREADS": "1"}


def torchrun(source: str, *options: str, module: str = "run", more: tuple[str, ...] = ()) -> subprocess.Popen:
    """Start torchrun with these options on a script with this source; `more` are the script's own options."""
    script = Path(tempfile.mkdtemp(dir=scripts.name)) / "script.py"
    script.write_text(source)
    command = [sys.executable, "-m", f"torch.distributed.{module}", *options, str(script), *more]
    environment = os.environ | loopback
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


output, _ = torchrun(ddp_script, "--standalone", "--nproc-per-node=2", more=("--epochs=4",)).communicate()
print("\n".join(sorted(output.splitlines())))

# %% [markdown]
# On a command line: `torchrun --standalone --nproc-per-node=2 script.py --epochs=4`. The script itself has no word
# about where it runs, so it serves for one process and for a hundred. On GPUs it would add
# `torch.cuda.set_device(local)`: LOCAL_RANK counts the processes of one machine, RANK those of all machines.
#
# **Predict.** `torchrun --nproc-per-node=2 --dataset=x main.py`, and `python --nproc-per-node=2 main.py`: who rejects
# what?

# %% facts=["10-nproc-is-python-argument"]
said = io.StringIO()
with contextlib.suppress(SystemExit), contextlib.redirect_stderr(said):
    torch.distributed.run.parse_args(["--nproc-per-node=2", "--dataset=x", "main.py"])
print("torchrun:", said.getvalue().strip().splitlines()[-1].partition("error: ")[2])

done = subprocess.run([sys.executable, "--nproc-per-node=2", "main.py"], capture_output=True, text=True)
print("python:  ", done.stderr.splitlines()[0])

# %% [markdown]
# `--nproc-per-node` belongs to the launcher and stands before the script; all that follows the script's name is the
# script's own.
#
# Older tutorials start `torch.distributed.launch` instead:

# %% facts=["10-launch-py-deprecated"]
plain_script = "import os, sys\nprint('options', sys.argv[1:], 'LOCAL_RANK', os.environ['LOCAL_RANK'])"
old = torchrun(plain_script, "--nproc-per-node=1", "--master-port=0", module="launch", more=("--epochs=4",))
output, messages = old.communicate()
print(output.strip())
print(re.search(r"FutureWarning: .*", messages)[0])

# %% [markdown]
# The old launcher also passed `--local-rank` to the script; many a script still has such an option and waits for it.
# With torchrun read `os.environ["LOCAL_RANK"]`.
#
# For a debugger none of this is needed. One process, with the five variables set by hand (in your editor's launch
# configuration, say), is a world of one:


# %% facts=["10-launch-json-hardcoded-path"]
def without_launcher(rank, world):
    with socket.socket() as probe:  # a free port
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo")
    print("world size:", dist.get_world_size())


_ = run_on_ranks(without_launcher, world=1, backend=None)

# %% [markdown]
# ### A crash under torchrun
#
# **Predict.** Rank 1 raises at once; rank 0 has work for another ten minutes. When does torchrun end, with which exit
# code, and what becomes of rank 0?

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
launcher = torchrun(crash_script, "--standalone", "--nproc-per-node=2")
output, messages = launcher.communicate(timeout=300)
print("exit code:", launcher.returncode)
print("rank 1:", re.search(r"ValueError: .*", messages)[0])
print("root cause: rank", re.search(r"Root Cause.*?rank +: (\d)", messages, re.S)[1])
pids = [int(line.split()[1]) for line in output.splitlines()]
print("started:", len(pids), " still running:", sum(psutil.pid_exists(pid) for pid in pids))

# %% [markdown]
# At once, with exit code 1: the launcher watches its processes, and when one fails it ends the others. At the end of
# its log stands a table with the "Root Cause", the rank that failed first, and its exit code. Begin reading there. (A
# negative exit code is a signal: -9 is often the system's way of saying that memory ran out.)
#
# ### Several machines
#
# On several machines torchrun is started once on each. They meet at a *rendezvous*: one address that all of them
# know. Here two launchers on loopback addresses play two machines, with two processes each.
#
# **Predict.** Which RANK and which LOCAL_RANK do the four processes get?

# %%
meeting_script = """
import os, torch, torch.distributed as dist

dist.init_process_group("gloo")
t = torch.ones(1)
dist.all_reduce(t)
where = " ".join(f"{name} {os.environ[name]}" for name in ("RANK", "GROUP_RANK", "LOCAL_RANK", "WORLD_SIZE"))
print(f"{where}: all_reduce of ones gives {t.item()}\\n", end="", flush=True)
dist.barrier()
os._exit(0)
"""
with socket.socket() as probe:  # a free port
    probe.bind(("127.0.0.1", 0))
    meeting_point = f"127.0.0.1:{probe.getsockname()[1]}"
options = ["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={meeting_point}"]
options += ["--rdzv-id=kata", "--local-addr=127.0.0.1"]
machines = [torchrun(meeting_script, *options) for _ in range(2)]
lines = [line for machine in machines for line in machine.communicate(timeout=300)[0].splitlines()]
print("\n".join(sorted(lines)))

# %% [markdown]
# RANK counts through, LOCAL_RANK begins at 0 on each machine (and picks the GPU there), GROUP_RANK is the machine. The
# same command is typed on both; the rendezvous decides which of them is machine 0. Real machines name one of themselves
# in `--rdzv-endpoint`, with a port that is open between them. If a machine is lost, the rest fails as in section 10.5;
# with `--max-restarts` torchrun starts all anew, and the script must go on from its last checkpoint.
#
# ### Saving and loading
#
# All ranks hold the same weights, so one of them saves. **Predict.** Rank 0 needs half a second to write. What does
# rank 1 find when it loads the file right away?


# %%
def save_and_load(rank, world, path, waiting):
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    if rank == 0:
        time.sleep(0.5)  # a large model
        torch.save(ddp.module.state_dict(), path)
    if waiting:
        dist.barrier()
    return list(torch.load(path, map_location="cpu")) if Path(path).exists() else "no file"


with tempfile.TemporaryDirectory() as folder:
    for waiting in (False, True):
        print(f"barrier: {waiting!s:5}", run_on_ranks(save_and_load, f"{folder}/{waiting}.pt", waiting))

# %% [markdown]
# Nothing, or worse: half a file, or the one of last week. The barrier stands outside of the `if`, since all ranks
# must call it. The keys carry no `module.`, because `ddp.module` was saved, and `map_location` keeps eight ranks from
# loading onto the GPU that rank 0 saved from. What if rank 0 can't write at all? Then it raises and never reaches the
# barrier; that is for the exercise.

# %% exercise="rank-zero-save"

# %% [markdown]
# ## 10.8 What DDP sends
#
# DDP doesn't send parameter by parameter; it packs gradients into buckets. A *communication hook* replaces its
# all_reduce, and so it can look at them. This one writes down what it gets and hands on to the library's own hook.
#
# **Predict.** Three layers of 640,000 weights (2.4 MiB) each, and buckets of at most 4 MiB. Which layer's gradients
# are sent first? Does the batch size matter?


# %% facts=["10-ddp-synchronizes-gradients"]
def look_at_buckets(rank, world):
    model = nn.Sequential(*[nn.Linear(800, 800, bias=False) for _ in range(3)])
    names = {id(p): name for name, p in model.named_parameters()}
    ddp = DistributedDataParallel(model, bucket_cap_mb=4)
    sent = []

    def look(state, bucket):
        layers = [names[id(p)] for p in bucket.parameters()]
        sent.append(f"{layers}, {bucket.buffer().numel()} numbers")
        return allreduce_hook(dist.group.WORLD, bucket)

    ddp.register_comm_hook(None, look)
    ddp(torch.ones(1, 800)).sum().backward()  # in the first backward DDP learns the order, then it packs anew
    for batch in (1, 64):
        sent.clear()
        ddp(torch.ones(batch, 800)).sum().backward()
        if rank == 0:
            print(f"batch of {batch}:", *sent, sep="\n    ")


_ = run_on_ranks(look_at_buckets)

# %% [markdown]
# The last layer comes first, since backward begins there. The volume is that of the trainable parameters, whatever
# the batch: this is why larger batches per rank make the communication cheaper in proportion. A hook may also send
# something smaller; the library has hooks for float16 and bfloat16 (the page "DDP Communication Hooks"). With a hook
# of your own nobody divides by the world size for you.

# %% exercise="communicated-bytes"

# %% [markdown]
# ## 10.9 Model and pipeline parallelism
#
# A model that is too large for one device is cut. The simplest cut is by layers: the first half here, the second
# there. PyTorch moves nothing between devices by itself. The next cell shows it with *fake* tensors, which have a
# device but no data, so that two GPUs can be tried anywhere.

# %% facts=["10-model-parallel-idea", "10-labels-on-output-device"]
with FakeTensorMode():
    first, second = torch.empty(10, 10, device="cuda:0"), torch.empty(5, 10, device="cuda:1")
    h = torch.relu(F.linear(torch.empty(20, 10, device="cuda:0"), first))
    error_of(lambda: F.linear(h, second))

    out = F.linear(h.to("cuda:1"), second)
    print("with h.to('cuda:1'): the output is on", out.device)
    for device in ("cpu", "cuda:0", "cuda:1"):
        labels = torch.empty(20, 5, device=device)
        print(f"labels on {device:7}", first_sentence_of(partial(F.mse_loss, out, labels)))

# %% [markdown]
# Activations must be moved by hand, and the labels belong where the output is. (Real tensors raise a RuntimeError
# with the same words.) Backward needs no care: autograd takes each gradient back to the device that its tensor came
# from, and one optimizer may hold parameters of several devices.
#
# **Predict.** Four devices hold a quarter of the layers each. Which share of the time is each of them idle? And if
# the batch is cut into 16 micro-batches that follow one another?

# %% facts=["10-model-parallel-idle", "10-pipeline-overlaps-next-minibatch", "10-model-parallel-is-slower"]
print(f"by layers, one batch:         {idle_share(timeline('by layers', 4, 1)):.0%} idle")
for micro_batches in (1, 4, 16):
    share = idle_share(timeline("GPipe", 4, micro_batches))
    formula = 3 / (micro_batches + 3)
    print(f"pipeline, {micro_batches:2} micro-batches:   {share:.0%} idle; (p - 1) / (m + p - 1) = {formula:.0%}")

# %% [markdown]
# Only one of four works at a time, so cutting by layers makes nothing faster: it makes it *possible*, and the copies
# come on top. A pipeline sends the next micro-batch while the following stage computes. Its micro-batches are parts
# of one batch: their gradients are added up, and there is one optimizer step at the end, so the numbers stay those of
# the whole batch.
#
# See who waits for whom. Blocks with F are forward, those with B backward; the number is the micro-batch.

# %%
timeline_explorer()

# %% [markdown]
# Across processes the activation is a message. `dist.send` and `dist.recv` are *point to point*: one rank sends, one
# receives, the others do something else.


# %% facts=["10-model-parallel-splits-model"]
def both_halves() -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList([nn.Linear(3, 4), nn.Linear(4, 1)])


def forward_on_two(rank, world):
    x = torch.arange(6.0).view(2, 3)
    whole = both_halves()
    half = whole[rank]  # this process uses one half only
    if rank == 0:
        dist.send(half(x).detach(), dst=1)
        return None
    h = torch.empty(2, 4)
    dist.recv(h, src=0)
    return torch.equal(half(h), whole[1](whole[0](x)))


print("rank 1 has the result of the whole model:", run_on_ranks(forward_on_two)[1])

# %% [markdown]
# The graph does not travel with the message. For backward the gradient has to be sent the other way by hand, and that
# is the exercise. The module `torch.distributed.pipelining` does it all, micro-batches included.
#
# **Predict.** A batch of 8, four micro-batches: which sizes does each stage see? And are the gradients those of the
# whole model?


# %% facts=["10-pipeline-overlaps-next-minibatch", "10-model-parallel-splits-model"]
def with_gpipe(rank, world):
    torch.manual_seed(1)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    whole, half = both_halves(), both_halves()[rank]
    F.mse_loss(whole[1](whole[0](x)), y).backward()

    sizes = []
    half.register_forward_hook(lambda module, args, output: sizes.append(len(args[0])))
    stage = PipelineStage(half, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=F.mse_loss)
    schedule.step(x) if rank == 0 else schedule.step(target=y)
    return sizes[-4:], is_close(half.weight.grad, whole[rank].weight.grad)


for rank, (sizes, same) in enumerate(run_on_ranks(with_gpipe)):
    print(f"stage {rank}: batches of {sizes}, gradient as in the whole model: {same}")

# %% [markdown]
# There is another cut, *inside* the layers. **Predict.** Each device holds half of a layer's weight. Must it wait for
# the other?

# %% facts=["10-model-parallel-idle"]
torch.manual_seed(0)
x, weight = torch.randn(5, 8), torch.randn(12, 8)
shards = [x @ part.T for part in weight.chunk(2)]  # each device computes 6 of the 12 outputs
print("two halves side by side are the layer:", is_close(torch.cat(shards, 1), x @ weight.T))

# %% [markdown]
# No: both need the same `x` and compute different outputs at the same time. This is *tensor parallelism*. It keeps
# all devices busy, but talks in every layer, so it wants fast connections: usually the GPUs of one machine.
#
# The kinds are combined. A model on two GPUs can be wrapped in DDP, with `device_ids` left out: DDP then leaves the
# placing to the model.

# %% [markdown] facts=["10-ddp-with-model-parallel"]
# With `device_ids` DDP raises ValueError for a model that lives on two devices, and DataParallel can't wrap one at
# all.

# %% exercise="two-stage-backward"

# %% [markdown]
# ## 10.10 All-reduce as a ring
#
# How is `all_reduce` itself made? If everybody sent the whole tensor to everybody, each rank would send world − 1
# copies. In a *ring* each talks to its right neighbour only, and sends one chunk per step.
#
# **Predict.** Four ranks, and the tensor cut into four chunks. How many steps until each rank owns *one* chunk that
# is complete, and how many until everybody has all?
#
# Go through it with the slider. Below each chunk stand the ranks whose numbers are in it.

# %%
ring_stepper()

# %% [markdown]
# After 3 steps rank r owns the complete chunk r + 1 (modulo 4): that was a reduce_scatter. Three more steps of
# passing on what is complete, an all_gather, and all have all. Each rank has sent 6 chunks, 6/4 of the tensor; in
# general 2 (world − 1) / world of it, less than two tensors however many ranks there are.

# %%
for world in (2, 4, 8, 64):
    print(f"{world:2} ranks: sent per rank, in tensors: {2 * (world - 1) / world:.2f} in a ring, {world - 1} otherwise")

# %% [markdown]
# **Predict.** In each step every rank sends to the right and receives from the left. What happens if all of them call
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
# `send` returns when the partner receives, and the partner is busy sending. `isend` and `irecv` return at once with a
# handle; start both, then wait for both.

# %% exercise="ring-all-reduce"

# %% exercise="predict-communication"

# %% [markdown]
# ## 10.11 DataParallel, and what comes after DDP
#
# `nn.DataParallel` is older than DDP and looks easier: one process, one line. Here is what its forward does, each
# time:

# %% facts=["10-dataparallel-threads", "10-dataparallel-slower-than-ddp"]
source = inspect.getsource(nn.DataParallel.forward)
print("forward calls:", re.findall(r"self\.(scatter|replicate|parallel_apply|gather)\(", source))
print("by threads:", "threading.Thread" in inspect.getsource(parallel_apply))
print("keys:", list(nn.DataParallel(nn.Linear(2, 1)).state_dict()))
advice = " ".join(nn.DataParallel.__doc__.split())
print("docstring:", re.search(r"It is recommended to use .*? instead of this class", advice)[0])

# %% [markdown]
# In every step the batch is scattered, the whole model is copied to each GPU, threads that share one GIL compute, and
# the outputs are gathered on the first GPU, where the loss then sits. Its own docstring advises against it, even on a
# single machine. So: not for new code. When you meet an old checkpoint, strip the `module.` from its keys.

# %% [markdown] facts=["10-dataparallel-is-convenient-enough", "10-dataparallel-loss-on-first-gpu"]
# "It is convenient enough" is an opinion. What can be said: using it gives no deprecation warning, its outputs are
# gathered on the first GPU, which has more to hold than the others, and a script for torchrun is only a few lines
# longer.

# %% [markdown]
# **Predict.** A model that doesn't fit on one GPU: does DDP help? Which of these grow with the batch: parameters,
# gradients, Adam's state, the activations saved for backward?

# %% facts=["10-data-parallel-cannot-shrink-state"]
model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
parameters = {p.data_ptr() for p in model.parameters()}
for batch in (10, 30):
    saved = {}

    def note(t: Tensor, saved=saved) -> Tensor:
        saved[t.data_ptr()] = t.numel() * t.element_size()
        return t

    x = torch.ones(batch, 64)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        loss = model(x).sum()
    loss.backward()
    activations = sum(size for pointer, size in saved.items() if pointer not in parameters)
    gradients = sum(p.grad.numel() * p.grad.element_size() for p in model.parameters())
    print(f"batch {batch}: activations {activations} bytes, gradients {gradients} bytes")

# %% [markdown]
# Only the activations grow. DDP lets each rank take a smaller batch, but parameters, gradients and optimizer state
# are on every rank in full. To split those, the state itself must be *sharded*.
#
# **Predict.** `fully_shard` (FSDP2) on two ranks, a layer with an 8 × 8 weight. What does each rank hold between the
# steps? What happens to the weight during forward?


# %% facts=["10-data-parallel-cannot-shrink-state"]
def with_fully_shard(rank, world):
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    plain, layer = nn.Linear(8, 8), nn.Linear(8, 8)
    layer.load_state_dict(plain.state_dict())
    fully_shard(layer, mesh=init_device_mesh("cpu", (world,)))
    held, during = tuple(layer.weight.to_local().shape), []
    layer.register_forward_hook(lambda module, args, output: during.append(tuple(module.weight.shape)))

    mine = x.chunk(world)[rank]
    plain(x).pow(2).mean().backward()
    layer(mine).pow(2).mean().backward()
    whole = layer.weight.grad.full_tensor()  # a collective: all ranks call it
    return {
        "held": held,
        "used in forward": during[0],
        "gradient held": tuple(layer.weight.grad.to_local().shape),
        "gradient as on one device": is_close(whole, plain.weight.grad),
    }


for rank, facts in enumerate(run_on_ranks(with_fully_shard)):
    print(f"rank {rank}: {facts}")

# %% [markdown]
# Half of the rows. Before forward the ranks all_gather the full weight and drop it afterwards; after backward a
# reduce_scatter leaves each rank with the averaged gradient of its own rows, and its optimizer steps those only.
# Together that is an all_reduce again, in two halves, with the weights as small as possible in between. Apply it to
# each block of a model and then to the whole, so that only one block is in full size at a time (the tutorial "Getting
# Started with Fully Sharded Data Parallel (FSDP2)").
#
# A sharded parameter is a `DTensor`: a tensor that knows the mesh of devices that it lives on and how it is placed
# there, `Shard(0)` (cut into rows) or `Replicate()`. Operations on DTensors do the communication that they need. With
# other placements the same layer becomes tensor parallel (`torch.distributed.tensor.parallel`).


# %%
def with_dtensor(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    weight = torch.arange(32.0).view(8, 4)
    sharded = distribute_tensor(weight, mesh, [Shard(0)])
    x = distribute_tensor(torch.ones(2, 4), mesh, [Replicate()])
    y = x @ sharded.T
    return {
        "weight": (tuple(sharded.shape), tuple(sharded.to_local().shape)),
        "y": (tuple(y.shape), tuple(y.to_local().shape)),
        "y is placed": str(y.placements[0]),
        "right": torch.equal(y.full_tensor(), torch.ones(2, 4) @ weight.T),
    }


for rank, facts in enumerate(run_on_ranks(with_dtensor)):
    print(f"rank {rank}: {facts}")

# %% [markdown]
# Two more tools that you may meet. `ZeroRedundancyOptimizer` splits only the optimizer's state: each rank updates a
# part of the parameters and broadcasts it. And `SyncBatchNorm` takes its statistics over all ranks' batches together.
#
# **Predict.** `nn.SyncBatchNorm.convert_sync_batchnorm(model)`: does it change the model, or return a new one?


# %% facts=["10-convert-sync-batchnorm", "10-data-parallel-cannot-shrink-state"]
def adam_state(rank, world):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.1)
    ddp(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return sum(state["exp_avg"].numel() for state in optimizer.optim.state.values())


print("averages held by each rank, of 40:", run_on_ranks(adam_state))

net, bare = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)), nn.BatchNorm2d(2)
converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
print("in a model:", type(net[1]).__name__, "- the same model is returned:", converted is net)
converted = nn.SyncBatchNorm.convert_sync_batchnorm(bare)
print("a bare layer:", type(bare).__name__, "- returned:", type(converted).__name__)

# %% [markdown]
# Layers inside a model are replaced in it; a bare layer can't be, so only the returned value is converted. Always
# write `model = nn.SyncBatchNorm.convert_sync_batchnorm(model)`, before wrapping it in DDP.

# %% [markdown] facts=["10-rpc-across-machines"]
# Old texts send you to `torch.distributed.rpc` for models on several machines. It still works, but it is in
# maintenance mode. Begin with DDP while the model fits on one GPU; go to `fully_shard` when it does not; add tensor
# parallelism within a machine and pipelining between machines when that is not enough.

# %% exercise="sharded-linear"

# %% [markdown]
# ## On a GPU
#
# Without a CUDA device the next cells print one line, and the output that was recorded on another machine where there
# is one. With one GPU the first of them runs; the others need two.
#
# **Predict.** A world of one with nccl: does all_reduce do anything? And may a group with the backend "cpu:gloo,
# cuda:nccl" reduce tensors of both devices?


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

# %% [markdown]
# nccl has no way for CPU tensors. A group that is made with `init_process_group("cpu:gloo,cuda:nccl")`, or with no
# backend named at all, carries both.
#
# **Predict.** The same batch per GPU, on one and on two: how many times as many samples a second?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("10_multi_gpu")
def ddp_on_two() -> None:
    """Samples a second of a DDP training with one and with two GPUs."""
    if torch.cuda.device_count() < 2:
        print("One CUDA device here: this demo needs two.")
        return

    def train(rank, world):
        torch.cuda.set_device(rank)
        torch.manual_seed(0)
        layers = [layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
        ddp = DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[rank])
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
        x = torch.randn(1024, 2048, device="cuda")
        for steps in (5, 50):  # the first round warms up
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                optimizer.zero_grad()
                ddp(x).pow(2).mean().backward()
                optimizer.step()
            torch.cuda.synchronize()
        return world * 50 * len(x) / (time.perf_counter() - start)

    one = min(run_on_ranks(train, world=1, backend="nccl", timeout=120))
    two = min(run_on_ranks(train, world=2, backend="nccl", timeout=120))
    print(f"1 GPU: {one:.0f} samples a second; 2 GPUs: {two:.0f}, {two / one:.2f} times as many")


ddp_on_two()

# %% [markdown] facts=["10-toy-model-parallel-training"]
# Less than twice as many: the gradients of 16 million parameters travel in each step, mostly hidden behind backward.
#
# **Predict.** A chain of matrix products on one GPU, or with every second one on another GPU: which takes longer? And
# where does DataParallel leave the loss?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("10_multi_gpu")
def layers_on_two() -> None:
    """Naive model parallelism against one GPU; the loss of DataParallel; memory of DDP and fully_shard."""
    if torch.cuda.device_count() < 2:
        print("One CUDA device here: this demo needs two.")
        return

    def seconds(second_device: str) -> float:
        a = torch.randn(2048, 2048, device="cuda:0") / 45
        b = torch.randn(2048, 2048, device=second_device) / 45
        for repeats in (3, 100):  # the first round warms up
            x = torch.randn(2048, 2048, device="cuda:0")
            torch.cuda.synchronize(0)
            start = time.perf_counter()
            for _ in range(repeats):  # each step depends on the one before
                x = ((x @ a).to(second_device) @ b).to("cuda:0")
            torch.cuda.synchronize(0)
        return time.perf_counter() - start

    print(f"on two GPUs {seconds('cuda:1') / seconds('cuda:0'):.2f} times as long as on one")
    wrapper = nn.DataParallel(nn.Linear(4, 4).cuda())
    print("DataParallel leaves its output on", wrapper(torch.ones(8, 4).cuda()).device)

    def peak(rank, world, sharding):
        torch.cuda.set_device(rank)
        model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(8)]).cuda()
        if sharding:
            for layer in model:
                fully_shard(layer)
            fully_shard(model)
        else:
            model = DistributedDataParallel(model, device_ids=[rank])
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(8, 4096, device="cuda")).sum().backward()
        optimizer.step()
        return torch.cuda.memory_allocated() / 2**20

    for name, sharding in (("DDP", False), ("fully_shard", True)):
        held = run_on_ranks(peak, sharding, backend="nccl", timeout=120)
        print(f"{name}: {max(held):.0f} MiB held on each GPU after a step with Adam")


layers_on_two()

# %% [markdown]
# ## Folklore, checked
#
# What people say about several GPUs and processes, and what is so. Each row unfolds its proof: a few lines that run
# through only if the statement on the right holds.

# %%
folklore("10_multi_gpu")

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

# %%
prove("10-visible-devices-typo")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - "Distributed communication package - torch.distributed": backends, initialisation, all collectives, and debugging
#   with `TORCH_DISTRIBUTED_DEBUG`;
# - "DistributedDataParallel" and the note "Distributed Data Parallel", which tells how the buckets work;
# - "torchrun (Elastic Launch)": all options of the launcher, and restarts;
# - "torch.utils.data", with `DistributedSampler`;
# - "torch.distributed.fsdp.fully_shard", "torch.distributed.tensor", "Pipeline Parallelism": when one GPU is too small;
# - "DDP Communication Hooks" and "Distributed Optimizers": sending less, and holding less.
