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
from torchkata.verdicts import check, mistake, observe_scenario, observe_value, prediction

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

# %% [markdown]
# ### Exercise 10.1 · Who trains on what?
#
# predict · warm-up · 10 min · 2 points
#
# Answer ten questions about two ranks without running anything.
#
#     # "rank 0", "rank 1": the indices that each rank gets
#     # "rank 1, drop_last": the indices of rank 1 with drop_last=True
#     DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)
#
#     # "orders": iterated three times, without set_epoch: how many different orders?
#     sampler = DistributedSampler(range(64), num_replicas=2, rank=0)
#
#     # "all_reduce": the value of t on rank 0 afterwards
#     t = torch.tensor([rank + 1.0])
#     dist.all_reduce(t)
#
#     # "weights equal": are they, on both ranks, after these two lines?
#     torch.manual_seed(rank)
#     ddp = DistributedDataParallel(nn.Linear(3, 1, bias=False))
#
#     # "grad": each entry of .grad afterwards, where the entries of the local gradient
#     # are 1.0 on rank 0 and 2.0 on rank 1
#     loss.backward()
#
#     # "rows": of the result on rank 0, where x has the shape (4, 3) on each rank
#     ddp(x)
#
#     # "key": the first one
#     ddp.state_dict()
#
#     # "global batch": samples that go into one step, on both ranks together
#     DataLoader(dataset, batch_size=32)
#
# **Contract**
#
# - Replace each `...`: lists of indices, numbers, True or False, a string for the key.
# - The check runs two processes and compares; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# What does DistributedSampler do so that both ranks get equally many samples? Does all_reduce average? Does DDP cut the
# batch?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The shares are interleaved, and filled up from the start (or the tail is dropped). all_reduce sums in place, DDP
# averages gradients. DDP broadcasts rank 0's weights when it is built. Nothing is split for you.
#
# </details>

# %% answer="who-trains-on-what"
### BEGIN SOLUTION
answers = {
    "rank 0": [0, 2, 4],
    "rank 1": [1, 3, 0],
    "rank 1, drop_last": [1, 3],
    "orders": 1,
    "all_reduce": 3.0,
    "weights equal": True,
    "grad": 1.5,
    "rows": 4,
    "key": "module.weight",
    "global batch": 64,
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "rank 0": ...,
#     "rank 1": ...,
#     "rank 1, drop_last": ...,
#     "orders": ...,
#     "all_reduce": ...,
#     "weights equal": ...,
#     "grad": ...,
#     "rows": ...,
#     "key": ...,
#     "global batch": ...,
# }
### END GIVEN

# %% check="who-trains-on-what" points=2
"""Each prediction is compared with what two processes do."""
with check("who-trains-on-what") as test:
    test("every item is compared with samplers and two processes")

    def shares(**options):
        """The indices of each of two ranks for 5 samples."""
        samplers = [DistributedSampler(range(5), num_replicas=2, rank=rank, **options) for rank in range(2)]
        return [list(sampler) for sampler in samplers]

    def live(rank, world):
        """What one of two ranks sees."""
        t = torch.tensor([rank + 1.0])
        dist.all_reduce(t)
        torch.manual_seed(rank)
        ddp = DistributedDataParallel(nn.Linear(3, 1, bias=False))
        (ddp(torch.ones(1, 3)) * (rank + 1)).sum().backward()
        (weight,) = ddp.parameters()
        batch = torch.tensor(len(next(iter(DataLoader(range(64), batch_size=32)))))
        dist.all_reduce(batch)
        return {
            "sum": t.item(),
            "weight": weight.detach(),
            "grad": weight.grad[0, 0].item(),
            "rows": len(ddp(torch.ones(4, 3))),
            "key": next(iter(ddp.state_dict())),
            "batch": batch.item(),
        }

    first, second = run_on_ranks(live)
    plain, dropped = shares(shuffle=False), shares(shuffle=False, drop_last=True)
    shuffled = DistributedSampler(range(64), num_replicas=2, rank=0)
    interleaved = "The shares are interleaved (0, 2, 4 and 1, 3, …), not contiguous blocks."
    repeated = "5 samples do not divide by 2: one is repeated so that both ranks take equally many steps."
    averaged = "DDP averages the local gradients: (1 + 2) / 2."
    not_split = (
        "DDP does not split the input (DataParallel does): each rank gets back the rows it put in, and the global "
        "batch is the sum over the ranks."
    )
    test.points = observe_value(answers).predicts(
        {
            "rank 0": prediction(plain[0], ([0, 1, 2], interleaved), because=interleaved),
            "rank 1": prediction(plain[1], ([1, 3], repeated), ([3, 4], interleaved), because=repeated),
            "rank 1, drop_last": prediction(
                dropped[1], because="drop_last cuts the tail instead of repeating samples."
            ),
            "orders": prediction(
                len({tuple(shuffled) for _ in range(3)}),
                because="Without set_epoch the seed is the same each time: one order for ever.",
            ),
            "all_reduce": prediction(
                first["sum"],
                because="all_reduce sums by default; averaging is DDP's doing, for gradients only.",
            ),
            "weights equal": prediction(
                torch.equal(first["weight"], second["weight"]),
                because="DDP broadcasts rank 0's parameters when it is built: different seeds do not matter.",
            ),
            "grad": prediction(first["grad"], because=averaged),
            "rows": prediction(first["rows"], because=not_split),
            "key": prediction(
                first["key"],
                because="The wrapper is a module with one child called `module`: keys start with `module.`.",
            ),
            "global batch": prediction(first["batch"], because=not_split),
        },
        points=2,
    )
test.points

# %% [markdown]
# ### Exercise 10.2 · The accuracy that depends on the number of GPUs
#
# fix · solid · 15 min · 2 points
#
# The same model, the same 11 samples: on one device the accuracy is 7/11, on two it is 7/12, on three something else.
# Repair the evaluation so that it is exact for any number of ranks.
#
# **Contract**
#
# - Called on every rank of the default process group; returns on every rank the accuracy over the whole dataset as a
#   float, each sample counted exactly once, for any length, also one shorter than the number of ranks.
# - `predict` maps a batch (B, ...) of at most `batch_size` samples to B labels.
# - The work is shared: no rank predicts more than ⌈n / world⌉ samples.
# - An empty dataset raises ValueError on every rank.
#
# **Rule** Every rank takes part in every collective, a rank without samples too.
#
# <details><summary>Hint 1</summary>
#
# Which samples does DistributedSampler repeat? Is the mean of two accuracies the accuracy of the union when the shares
# differ in size?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Give rank r the indices range(r, n, world). Count what is correct locally, all_reduce the count (int64), and divide by
# the number of all samples at the end.
#
# </details>


# %% answer="exact-evaluation"
def distributed_accuracy(predict: Callable[[Tensor], Tensor], dataset: Dataset, batch_size: int) -> float:
    """The accuracy over the whole dataset of (x, label) pairs, the same on every rank."""
    ### BEGIN SOLUTION
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("the dataset is empty: there is no accuracy")
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    #
    # sampler = DistributedSampler(dataset, shuffle=False)
    # correct, seen = 0, 0
    # for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
    #     correct += (predict(x) == y).sum()
    #     seen += len(y)
    # acc = correct / seen
    # dist.all_reduce(acc)
    # return (acc / dist.get_world_size()).item()
    ### END GIVEN


# %% check="exact-evaluation" points=2
"""Each sample counts once, on every rank the same float, and the work is shared."""
with check("exact-evaluation") as test:

    class Samples(Dataset):
        """n pairs of a vector and a label."""

        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            if not 0 <= i < self.n:
                raise IndexError(i)
            return torch.tensor([float(i), -1.0]), i % 3

    def plain(got):
        """A number as a float; None stays None, anything else gives its type's name."""
        is_number = isinstance(got, (int, float)) or (isinstance(got, Tensor) and got.numel() == 1)
        return float(got) if is_number else None if got is None else type(got).__name__

    def evaluated(accuracy, world, cases):
        """For each (n, batch size) what each rank got, and how many samples it predicted."""

        def on_rank(rank, world):
            facts = []
            for n, batch_size in cases:
                predicted = []

                def predict(x, predicted=predicted):
                    numbers = x[:, 0].long()
                    predicted.append(len(numbers))
                    wrong = (numbers == 0) | (numbers % 4 == 3) | (numbers > 8)
                    return (numbers + wrong) % 3

                try:
                    got = accuracy(predict, Samples(n), batch_size)
                    refused = False
                except ValueError:
                    if n:
                        raise
                    got, refused = None, True
                facts.append({"got": plain(got), "is float": isinstance(got, float), "refused": refused})
                facts[-1] |= {"predicted": sum(predicted), "largest": max(predicted, default=0)}
            return facts

        return run_on_ranks(on_rank, world=world, stall=1.0 + 0.6 * len(cases))

    def is_right(i):
        """Whether sample i is predicted correctly."""
        return not (i == 0 or i % 4 == 3 or i > 8)

    def accuracy_of(indices):
        """The accuracy over these samples."""
        return sum(map(is_right, indices)) / max(1, len(indices))

    def judge(seen, case, n, batch_size, world):
        """Judge one case on all ranks."""
        got = [facts[case]["got"] for facts in seen.value]
        truth = accuracy_of(range(n))
        near = [isinstance(value, float) and math.isclose(value, truth, rel_tol=1e-6) for value in got]
        padded = [i % n for i in range(math.ceil(n / world) * world)]
        shares = [accuracy_of(range(rank, n, world)) for rank in range(world)]
        blocks = [accuracy_of(part.tolist()) for part in torch.arange(n).tensor_split(world)]

        def all_near(wrong):
            return all(isinstance(v, float) and math.isclose(v, wrong, rel_tol=1e-6) for v in got)

        none = [value is None for value in got]
        seen.that(
            all(near),
            "The result is not the accuracy over the whole dataset.",
            mistake(
                "Only one rank has the right result; all of them need it.",
                when=lambda seen: any(near) or (any(none) and not all(none)),
            ),
            mistake(
                "Repeated samples were counted twice: DistributedSampler pads to equal shares.",
                when=lambda seen: all_near(accuracy_of(padded)),
            ),
            mistake(
                "Samples were left out (drop_last or integer division).",
                when=lambda seen: all_near(accuracy_of(range(n // world * world))),
            ),
            mistake(
                "The ranks' accuracies were averaged although their shares have different sizes.",
                when=lambda seen: all_near(sum(shares) / world) or all_near(sum(blocks) / world),
            ),
            mistake("The function must return the accuracy; it returned nothing.", when=lambda seen: all(none)),
        )
        seen.that(all(facts[case]["is float"] for facts in seen.value), "Return a Python float.", stage="type")
        work = [facts[case]["predicted"] for facts in seen.value]
        seen.that(
            max(work) <= math.ceil(n / world),
            "A rank predicted more than its share of the samples: the work is not shared evenly.",
            mistake(
                "Every rank predicted the whole dataset: the work is not shared.", when=lambda seen: min(work) >= n
            ),
            stage="rule",
        )
        seen.that(sum(work) >= n, "Not every sample was predicted.", stage="rule")
        largest = max(facts[case]["largest"] for facts in seen.value)
        seen.that(largest <= batch_size, "A batch was larger than batch_size.", stage="rule")

    known = [
        mistake(
            "One rank waits in a collective that the other never reaches: every rank must call it, and equally often, "
            "also one without samples.",
            raises="RanksHang",
        ),
    ]

    test("11 samples on 2 ranks: the accuracy that one process would find")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(11, 4)]).expecting(*known)
    judge(seen, 0, 11, 4, 2)

    test("12 samples on 2 ranks: the work is shared")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(12, 5)]).expecting(*known)
    judge(seen, 0, 12, 5, 2)

    ### BEGIN HIDDEN TESTS
    test.hidden("an empty dataset raises ValueError on every rank; then batches of 1, and larger than the share")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(0, 4), (5, 1), (5, 64)]).expecting(
        mistake("An empty dataset must raise ValueError on every rank.", raises="ZeroDivisionError"), *known
    )
    refused = [facts[0]["refused"] for facts in seen.value]
    seen.that(all(refused), "An empty dataset must raise ValueError on every rank.", stage="raised")

    test.hidden("batch sizes of 1 and larger than the share")
    judge(seen, 1, 5, 1, 2)
    judge(seen, 2, 5, 64, 2)

    test.hidden("three ranks")
    seen = observe_scenario(evaluated, distributed_accuracy, 3, [(10, 3), (11, 2)]).expecting(*known)
    judge(seen, 0, 10, 3, 3)
    judge(seen, 1, 11, 2, 3)

    test.hidden("one sample on two ranks: the second has none")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(1, 4)]).expecting(
        mistake(
            "A rank without samples must not divide by zero: it still takes part, with a count of 0.",
            raises="ZeroDivisionError|StopIteration",
        ),
        mistake(
            "A rank without samples must not raise, only an empty dataset does: it takes part, with a count of 0.",
            raises="ValueError",
        ),
        *known,
    )
    judge(seen, 0, 1, 4, 2)
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 10.3 · A hang, and numbers that changed places
#
# debug · solid · 15 min · 2 points
#
# A training script averages its metrics over the ranks. Two symptoms:
#
# 1. Rank 0 logs one metric more ("epoch_time"). The job hangs; the traceback ends in all_reduce.
# 2. On rank 1 `acc` was inserted before `loss`. Nothing hangs, but both curves are nonsense.
#
# **Contract**
#
# - Called on every rank; returns on every rank the same dict, sorted by name: for each name that occurs on *any* rank
#   the mean over the ranks that have it.
# - The order of insertion does not matter. An empty dict on some rank is fine; where all are empty the result is {}.
# - Values are exact to float64: 16777217.0 on all ranks stays itself. nan and inf propagate.
# - The values of the result are plain floats; the argument is left as it is.
#
# <details><summary>Hint 1</summary>
#
# How do the collectives of two ranks find each other: by name, or by the order of the calls?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# First agree on the names: all_gather_object of the keys, or of the whole dict. Sort them, then sum values and counts
# in float64, and divide by the number of ranks that have the name.
#
# </details>


# %% answer="reduce-metrics"
def reduce_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """For every name that some rank has, the mean over the ranks that have it; sorted by name."""
    ### BEGIN SOLUTION
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    #
    # out = {}
    # for name, value in metrics.items():
    #     t = torch.tensor(value)
    #     dist.all_reduce(t)
    #     out[name] = (t / dist.get_world_size()).item()
    # return out
    ### END GIVEN


# %% check="reduce-metrics" points=2
"""All ranks get the same means, whatever each of them has and in whatever order."""
with check("reduce-metrics") as test:

    def plain(value):
        """A number as a float, anything else by its type's name."""
        is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
        return float(value) if is_number else type(value).__name__

    def reduced(reduce, cases):
        """What each rank got in each case, a list of one dict a rank."""

        def on_rank(rank, world):
            facts = []
            for case in cases:
                given = dict(case[rank])
                got = reduce(given)
                unchanged = repr(given) == repr(case[rank])
                facts.append({"got": None, "kinds": None, "unchanged": unchanged})
                if isinstance(got, dict):
                    kinds = sorted({type(value).__name__ for value in got.values()})
                    facts[-1] |= {"got": {name: plain(value) for name, value in got.items()}, "kinds": kinds}
            return facts

        return run_on_ranks(on_rank, world=len(cases[0]), stall=1.0 + 0.6 * len(cases))

    def mean_of(values):
        """Their mean in float64."""
        return sum(values) / len(values)

    def like(got, expected):
        """Whether the numbers agree, nan with nan."""
        return (
            isinstance(got, dict)
            and set(got) == set(expected)
            and all(
                isinstance(got[name], float)
                and (math.isclose(got[name], value, rel_tol=1e-12) or (math.isnan(value) and math.isnan(got[name])))
                for name, value in expected.items()
            )
        )

    def judge(seen, case, given):
        """Judge what all ranks got for these dicts."""
        facts = [one[case] for one in seen.value]
        got = [one["got"] for one in facts]
        names = sorted({name for one in given for name in one})
        values = {name: [one[name] for one in given if name in one] for name in names}
        truth = {name: mean_of(found) for name, found in values.items()}
        right = [like(one, truth) for one in got]
        are_dicts = [isinstance(one, dict) for one in got]
        seen.that(all(are_dicts) or any(right), "Return a dict on every rank.", stage="type")
        seen.that(
            all(right) or not any(right),
            "All ranks need the result.",
            mistake(
                "A rank left out a metric that only another rank has: the result is the same on all ranks.",
                when=lambda seen: all(set(own) <= set(one) for one, own in zip(got, given, strict=True)) and any(given),
            ),
        )

        def all_like(wrong):
            return all(like(one, wrong) for one in got)

        places = [[one[name] for one in given for name in list(one)[k : k + 1]] for k in range(max(map(len, given)))]
        mixed = all(
            like(one, {name: mean_of(places[k]) for k, name in enumerate(own)})
            for one, own in zip(got, given, strict=True)
        )
        rounded = {name: torch.tensor(found, dtype=torch.float32).mean().item() for name, found in values.items()}
        missing = set(truth) - {name for one in got for name in one}
        seen.that(
            all(right),
            "The result is not the mean over the ranks that have the metric.",
            mistake(
                "Values of different metrics were added: collectives match by order, not by name. Sort the names.",
                when=lambda seen: mixed,
            ),
            mistake(
                "The values were summed, not averaged.",
                when=lambda seen: all_like({name: sum(found) for name, found in values.items()}),
            ),
            mistake(
                "A metric that only some ranks have must be divided by their number, not by the world size.",
                when=lambda seen: all_like({name: sum(found) / len(given) for name, found in values.items()}),
            ),
            mistake("Metrics that not every rank has were dropped.", when=lambda seen: bool(missing)),
            mistake(
                "float32 cannot hold the value: use float64 (torch.tensor(x) is float32).",
                when=lambda seen: all_like(rounded),
            ),
        )
        ordered = all(list(one["got"]) == names and set(one["kinds"]) <= {"float"} for one in facts)
        seen.that(ordered, "The result must be sorted by name, as plain floats.", stage="type")
        seen.that(all(one["unchanged"] for one in facts), "The argument was changed.", stage="arguments")

    known = [
        mistake(
            "The ranks made different numbers of collective calls: one waits for a partner that never comes. "
            "Agree on the names first.",
            raises="RanksHang",
        ),
        mistake(
            "The ranks handed tensors of different sizes to one collective. Agree on the names first.",
            raises="RankDied|[Ss]ize",
        ),
        mistake("A rank may have a name that another has not.", raises="KeyError"),
    ]

    test("the same names on both ranks")
    given = [{"acc": 0.5, "loss": 3.0}, {"acc": 0.75, "loss": 2.0}]
    seen = observe_scenario(reduced, reduce_metrics, [given]).expecting(*known)
    judge(seen, 0, given)

    test("on rank 1 acc was inserted before loss")
    given = [{"loss": 3.0, "acc": 0.5}, {"acc": 0.75, "loss": 2.0}]
    seen = observe_scenario(reduced, reduce_metrics, [given]).expecting(*known)
    judge(seen, 0, given)

    test("an extra metric on rank 0")
    given = [{"acc": 0.5, "epoch_time": 12.0, "loss": 3.0}, {"acc": 0.75, "loss": 2.0}]
    seen = observe_scenario(reduced, reduce_metrics, [given]).expecting(*known)
    judge(seen, 0, given)

    ### BEGIN HIDDEN TESTS
    test.hidden("different metrics everywhere, the same number of them (and five more cases in the same run)")
    different = [{"a": 1.0, "loss": 2.0}, {"b": 4.0, "loss": 8.0}]
    on_one = [{}, {"loss": 2.5, "acc": 0.25}]
    nowhere = [{}, {}]
    precise = [{"tokens": 16777217.0, "third": 1 / 3}, {"tokens": 16777217.0, "third": 1 / 7}]
    bounds = [{"x": float("nan"), "y": 1.0, "z": float("inf")}, {"x": 1.0, "y": float("-inf"), "z": 2.0}]
    whole = [{"steps": 7, "zeta": -3}, {"steps": 4, "alpha": 0.0}]
    cases = [different, on_one, nowhere, precise, bounds, whole]
    seen = observe_scenario(reduced, reduce_metrics, cases).expecting(*known)
    judge(seen, 0, different)

    test.hidden("empty on one rank; empty on all")
    judge(seen, 1, on_one)
    judge(seen, 2, nowhere)

    test.hidden("float64, nan and inf; integers")
    judge(seen, 3, precise)
    judge(seen, 4, bounds)
    judge(seen, 5, whole)

    test.hidden("three ranks")
    three = [{"loss": 1.0, "acc": 0.5}, {"acc": 0.125, "lr": 0.01}, {"lr": 0.04, "loss": 4.5, "acc": 0.25}]
    seen = observe_scenario(reduced, reduce_metrics, [three]).expecting(*known)
    judge(seen, 0, three)
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 10.4 · DDP's gradient step by hand
#
# implement · solid · 20 min · 3 points
#
# Every rank has run backward on its own share of the batch. Make the gradients what DistributedDataParallel would have
# left there.
#
# **Contract**
#
# - Called on every rank after a local backward: every trainable parameter's `.grad` becomes the mean over the ranks,
#   the same on all of them.
# - A parameter that got no gradient on some rank (a branch that was not used there) counts as zeros on that rank.
#   Afterwards every trainable parameter has a gradient on every rank.
# - Frozen parameters keep `.grad` None. No parameter is changed. The dtype of each gradient is kept.
# - With one rank nothing changes. Gradients need not be contiguous.
#
# **Rule** torch.nn.parallel is not used.
#
# <details><summary>Hint 1</summary>
#
# What does all_reduce compute by default? If rank 1 skips the collective for a parameter that it did not use, which
# call of rank 1 will meet rank 0's?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Walk all trainable parameters in the same order on every rank. Where grad is None put zeros_like. all_reduce, then
# divide by the world size.
#
# </details>


# %% answer="average-gradients"
def average_gradients(model: nn.Module) -> None:
    """Replace every trainable parameter's gradient by its mean over the ranks, in place of what DDP does."""
    ### BEGIN SOLUTION
    world = dist.get_world_size()
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        dist.all_reduce(grad)
        parameter.grad = grad / world
    ### END SOLUTION


# %% check="average-gradients" points=3
"""Every trainable parameter has the mean gradient on every rank; parameters stay as they are."""
with check("average-gradients") as test:

    def numbers(shape, k, rank):
        """Values without symmetry; those of parameter k on a rank."""
        count = torch.arange(math.prod(shape), dtype=torch.float64)
        return ((count * 7 + 3 * k + 5 * rank) % 11 + k / 4 - 3 * rank).reshape(shape)

    def branches(dtype, rank=9):
        """A model with a frozen part and branches that not every batch uses; its weights tell the rank."""
        layers = {name: nn.Linear(3, 2, bias=False) for name in ("a", "frozen", "b", "c")}
        model = nn.ModuleDict(layers).to(dtype)
        model["frozen"].requires_grad_(False)
        with torch.no_grad():
            for k, parameter in enumerate(model.parameters()):
                parameter.copy_(numbers((2, 3), k, rank))
        return model

    def averaged(average, world, cases):
        """For each case (dtype, the branches that each rank has used, strided) the gradients on each rank."""

        def on_rank(rank, world):
            made = []
            build = DistributedDataParallel.__init__
            DistributedDataParallel.__init__ = lambda *args, **kwargs: (made.append(1), build(*args, **kwargs))[1]
            facts = []
            for dtype, used, strided in cases:
                model = branches(dtype, rank)
                for k, (name, parameter) in enumerate(model.named_parameters()):
                    if name[0] in used[rank] and name != "frozen.weight":
                        grad = numbers((2, 3), k, rank).to(dtype)
                        parameter.grad = grad.t().contiguous().t() if strided else grad
                average(model)
                grads = {name: parameter.grad for name, parameter in model.named_parameters()}
                weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
                trainable = [parameter.requires_grad for parameter in model.parameters()]
                facts.append({"grads": grads, "weights": weights, "trainable": trainable})
            return {"cases": facts, "ddp": len(made)}

        return run_on_ranks(on_rank, world=world, stall=1.0 + 0.7 * len(cases))

    def close(came, expected):
        """Whether two gradients agree within rounding."""
        return isinstance(came, Tensor) and came.shape == expected.shape and torch.allclose(came.double(), expected)

    def judge(seen, case, dtype, used):
        """Judge one case on all ranks."""
        world = len(used)
        seen.that(
            not any(one["ddp"] for one in seen.value),
            "Write it with collectives, without DistributedDataParallel.",
            stage="rule",
        )
        facts = [one["cases"][case] for one in seen.value]
        names = ["a.weight", "frozen.weight", "b.weight", "c.weight"]
        start = {name: [numbers((2, 3), k, rank) for rank in range(world)] for k, name in enumerate(names)}
        mean_start = sum(start["a.weight"]) / world
        kept = [close(one["weights"][name], start[name][rank]) for rank, one in enumerate(facts) for name in names]
        seen.that(
            all(kept),
            "A parameter was changed: only gradients are to be averaged.",
            mistake(
                "The parameters were averaged, not the gradients.",
                when=lambda seen: all(close(one["weights"]["a.weight"], mean_start) for one in facts),
            ),
        )
        local = {
            name: [numbers((2, 3), k, rank) if name[0] in used[rank] else None for rank in range(world)]
            for k, name in enumerate(names)
        }
        frozen = [one["grads"]["frozen.weight"] is None for one in facts]
        seen.that(all(frozen), "Frozen parameters must keep .grad None.")
        seen.that(
            all(one["trainable"] == [True, False, True, True] for one in facts),
            "requires_grad must stay as it is on every parameter.",
        )
        for name in ("a.weight", "b.weight", "c.weight"):
            parts = local[name]
            total = sum(part for part in parts if part is not None)
            users = sum(part is not None for part in parts)
            came = [one["grads"][name] for one in facts]

            def all_close(wrong, came=came):
                """Whether every gradient that is there is this one."""
                return all(close(grad, wrong) for grad in came if grad is not None)

            none = [grad is None for grad in came]
            others = [part for other in ("a.weight", "b.weight", "c.weight") for part in local[other] if other != name]
            sums = [own + other for own in parts for other in others if own is not None and other is not None]
            mixed = [wrong / by for wrong in sums for by in (1, 2, world)]
            seen.that(
                not any(none) and all_close(total / world),
                f"The gradient of {name} is not the mean over the ranks.",
                mistake(
                    "The gradients were summed: all_reduce adds. Divide by the world size.",
                    when=lambda seen, total=total, users=users: users == world and all_close(total),
                ),
                mistake(
                    "The divisor is fixed to 2: use dist.get_world_size().",
                    when=lambda seen, total=total: world > 2 and all_close(total / 2),
                ),
                mistake(
                    "A rank without gradient counts as zeros: the divisor is the world size, not the number of ranks "
                    "that used the parameter.",
                    when=lambda seen, total=total, users=users, none=none: (
                        users < world and not any(none) and all_close(total / users)
                    ),
                ),
                mistake(
                    "A parameter that was unused on one rank has no gradient there afterwards: the ranks would drift "
                    "apart.",
                    when=lambda seen, total=total, none=none: any(none) and all_close(total / world),
                ),
                mistake(
                    "A rank skipped the collective of a parameter without gradient: its next call met another "
                    "parameter of the other rank. Every rank must take part for every trainable parameter.",
                    when=lambda seen, came=came, mixed=mixed: any(close(g, m) for g in came for m in mixed),
                ),
                mistake(
                    "The gradients are still those of each rank alone: nothing was averaged.",
                    when=lambda seen, came=came, parts=parts: all(
                        close(grad, part) for grad, part in zip(came, parts, strict=True) if part is not None
                    ),
                ),
            )
            kinds = {grad.dtype for grad in came}
            seen.that(kinds == {dtype}, f"The gradients must keep their dtype, {dtype}.", stage="dtype")

    skipped = (
        "A rank skipped the collective of a parameter without gradient (or more than that), and the other waits for "
        "ever. Every rank must take part for every trainable parameter."
    )
    known = [
        mistake(skipped, raises="RanksHang"),
        mistake("A gradient can be None: that rank did not use the parameter.", raises="NoneType"),
        mistake(
            "The ranks handed different amounts of data to one collective. What stands in for a missing gradient needs "
            "the shape and the dtype of its parameter.",
            raises="RankDied|preamble|nbytes|Connection (closed|reset)|[Ss]ize",
        ),
    ]

    test("the ranks have used different branches")
    used = ["ab", "ac"]
    seen = observe_scenario(averaged, average_gradients, 2, [(torch.float32, used, False)]).expecting(*known)
    judge(seen, 0, torch.float32, used)

    test("two ranks: the mean of the local gradients; parameters untouched")
    used = ["abc", "abc"]
    seen = observe_scenario(averaged, average_gradients, 2, [(torch.float32, used, False)]).expecting(*known)
    judge(seen, 0, torch.float32, used)

    ### BEGIN HIDDEN TESTS
    test.hidden("three ranks")
    everything, some = ["abc", "abc", "abc"], ["a", "abc", "ab"]
    cases = [(torch.float32, everything, False), (torch.float32, some, False)]
    seen = observe_scenario(averaged, average_gradients, 3, cases).expecting(*known)
    judge(seen, 0, torch.float32, everything)
    judge(seen, 1, torch.float32, some)

    test.hidden("a world of one")
    seen = observe_scenario(averaged, average_gradients, 1, [(torch.float32, ["abc"], False)]).expecting(*known)
    judge(seen, 0, torch.float32, ["abc"])

    def trained(average):
        """Weights after three steps on shares of a batch."""

        def on_rank(rank, world):
            model = branches(torch.float32)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
            x = numbers((8, 3), 1, 0).float()[rank::world]
            for _ in range(3):
                optimizer.zero_grad()
                (model["c"](x) * model["a"](x)).square().mean().backward()
                average(model)
                optimizer.step()
            return {name: parameter.detach() for name, parameter in model.named_parameters()}

        return run_on_ranks(on_rank, stall=2.5)

    test.hidden("float64; gradients that are not contiguous")
    cases = [(torch.float64, ["ac", "abc"], False), (torch.float32, ["ab", "cb"], True)]
    seen = observe_scenario(averaged, average_gradients, 2, cases).expecting(*known)
    judge(seen, 0, torch.float64, cases[0][1])
    judge(seen, 1, torch.float32, cases[1][1])

    test.hidden("three steps of SGD give what one process would get on the whole batch")
    seen = observe_scenario(trained, average_gradients).expecting(*known)
    alone = branches(torch.float32)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.01, momentum=0.5)
    x = numbers((8, 3), 1, 0).float()
    for _ in range(3):
        optimizer.zero_grad()
        (alone["c"](x) * alone["a"](x)).square().mean().backward()
        alone["b"].weight.grad = torch.zeros_like(alone["b"].weight)
        optimizer.step()
    for name, parameter in alone.named_parameters():
        found = [weights[name] for weights in seen.value]
        equal = all(torch.allclose(weight, parameter.detach(), rtol=1e-3, atol=1e-4) for weight in found)
        seen.that(equal and torch.equal(*found), f"After three steps {name} is not what one process would have got.")
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 10.5 · Accumulate without talking
#
# implement · solid · 15 min · 2 points
#
# Three micro-batches, one optimizer step: only the last backward needs to talk to the other ranks.
#
# **Contract**
#
# - One step of the optimizer on the mean loss of this rank's micro-batches (all of equal size): on all ranks together
#   the same as training on everybody's data at once. Afterwards all ranks have the same weights.
# - The gradients are synchronised exactly once (the check counts what DDP sends).
# - Gradients from before the call play no part. After the call DDP works as before.
# - Returns the mean of the local losses as a float.
# - One micro-batch is allowed; none raises ValueError.
#
# <details><summary>Hint 1</summary>
#
# When does DDP decide that this backward will communicate: in forward or in backward? Which of the micro-batches must
# communicate?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For all but the last micro-batch put forward *and* backward inside ddp.no_sync(), the last one outside. Divide each
# loss by the number of micro-batches. zero_grad before.
#
# </details>


# %% answer="accumulate-no-sync"
def ddp_step(
    ddp: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    micro_batches: Sequence[tuple[Tensor, Tensor]],
) -> float:
    """One optimizer step on the mean loss of the micro-batches (x, y), with one synchronisation; returns that mean."""
    ### BEGIN SOLUTION
    if not micro_batches:
        raise ValueError("no micro-batches: there is nothing to learn from")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, start=1):
        is_last = number == len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total
    ### END SOLUTION


# %% check="accumulate-no-sync" points=2
"""One synchronisation, one step, the weights of training on everybody's data at once."""
with check("accumulate-no-sync") as test:

    def share(rank, world, count):
        """The micro-batches of a rank: pairs of (2, 3) and (2, 1), no two alike."""
        batches = []
        for k in range(count):
            numbers = torch.arange(8.0) + 3 * k + 7 * rank + 1
            x = (numbers[:6] * 5 % 13 / 8 - 0.6).reshape(2, 3)
            batches.append((x, (numbers[6:] * 3 % 7 / 4 - 0.4).reshape(2, 1)))
        return batches

    def model():
        """A linear layer with fixed weights."""
        layer = nn.Linear(3, 1)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[0.5, -0.25, 0.75]]))
            layer.bias.fill_(0.125)
        return layer

    def squared_error(out, y):
        """The mean squared error."""
        return (out - y).square().mean()

    def stepped(step, cases):
        """For each case (micro-batches, old gradients, calls) what each rank got, sent and has afterwards."""

        def on_rank(rank, world):
            facts = []
            for count, old, calls in cases:
                noted = {"sent": 0, "steps": 0, "backward": False}

                def arrives(grad, noted=noted):
                    noted["backward"] = True

                def send(state, bucket, noted=noted):
                    noted["sent"] += 1
                    future = dist.all_reduce(bucket.buffer() / world, async_op=True).get_future()
                    return future.then(lambda done: done.value()[0])

                class Counting(torch.optim.SGD):
                    def step(self, closure=None, noted=noted):
                        noted["steps"] += 1
                        return super().step(closure)

                ddp = DistributedDataParallel(model())
                ddp.register_comm_hook(None, send)
                for parameter in ddp.parameters():
                    parameter.register_hook(arrives)
                optimizer = Counting(ddp.parameters(), lr=0.25, momentum=0.5)
                if old:
                    for parameter in ddp.parameters():
                        parameter.grad = torch.full_like(parameter, 1.5)
                try:
                    got = [step(ddp, optimizer, squared_error, share(rank, world, count)) for _ in range(calls)]
                except ValueError:
                    if count:
                        raise
                    got = ["ValueError"]
                noted |= {"got": got, "types": [type(one).__name__ for one in got]}
                noted["weights"] = torch.cat([p.detach().reshape(-1) for p in ddp.parameters()])
                facts.append(dict(noted))
                if count:
                    squared_error(ddp(torch.ones(2, 3)), torch.ones(2, 1)).backward()
                facts[-1]["sent later"] = noted["sent"] - facts[-1]["sent"]
            return facts

        return run_on_ranks(on_rank, stall=1.0 + 0.5 * len(cases))

    def trained(count, calls, factor=1.0):
        """Weights and losses of one process that has everybody's data; losses are (call, rank, micro-batch)."""
        layer = model()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.25, momentum=0.5)
        batches = [share(rank, 2, count) for rank in range(2)]
        losses = []
        for _ in range(calls):
            optimizer.zero_grad()
            each = [[squared_error(layer(x), y) for x, y in own] for own in batches]
            (factor * sum(map(sum, each)) / (2 * count)).backward()
            losses.append([[loss.item() for loss in own] for own in each])
            optimizer.step()
        return torch.cat([p.detach().reshape(-1) for p in layer.parameters()]), losses

    def judge(seen, case, count, calls, known=()):
        """Judge one case on both ranks."""
        facts = [one[case] for one in seen.value]
        sent, steps = [one["sent"] for one in facts], [one["steps"] for one in facts]
        seen.that(
            min(sent) > 0,
            "The gradients were never synchronised and the ranks drift apart: the last micro-batch ran under no_sync "
            "too, or you called ddp.module, which bypasses DDP.",
            mistake("No backward pass ran.", when=lambda seen: not any(one["backward"] for one in facts)),
            stage="rule",
        )
        seen.that(
            steps == [calls, calls],
            "The optimizer must step once in a call.",
            mistake("The optimizer never stepped.", when=lambda seen: max(steps) == 0),
            mistake(
                "The optimizer stepped before all micro-batches were in.", when=lambda seen: max(steps) == calls * count
            ),
            stage="rule",
        )
        wanted, losses = trained(count, calls)
        weights = [one["weights"] for one in facts]

        def all_like(wrong):
            return all(torch.allclose(found, wrong, rtol=1e-4, atol=1e-5) for found in weights)

        seen.that(
            all_like(wanted),
            "The weights are not those of training on everybody's data at once.",
            *known,
            mistake(
                "The step is k times too large: divide each loss by the number of micro-batches.",
                when=lambda seen: count > 1 and all_like(trained(count, calls, factor=count)[0]),
            ),
            mistake("The ranks have different weights afterwards.", when=lambda seen: not torch.equal(*weights)),
        )
        seen.that(
            sent == [calls, calls],
            "Gradients were synchronised more than once in a call.",
            mistake(
                "Gradients were synchronised for every micro-batch: correct, but k times the traffic. Use no_sync for "
                "all but the last, around forward and backward (DDP prepares the synchronisation in forward).",
                when=lambda seen: max(sent) == calls * count,
            ),
            stage="rule",
        )
        for rank, one in enumerate(facts):
            means = [sum(losses[call][rank]) / count for call in range(calls)]
            right = set(one["types"]) == {"float"} and all(
                math.isclose(got, mean, rel_tol=1e-4) for got, mean in zip(one["got"], means, strict=True)
            )
            seen.that(right, "Return the mean of the micro-batch losses as a float.")

    hangs = mistake(
        "A rank waits in a backward or a collective that the other never reaches: all ranks must make the same calls.",
        raises="RanksHang",
    )

    test("three micro-batches: one synchronisation, the weights of training on the whole batch")
    seen = observe_scenario(stepped, ddp_step, [(3, False, 1)]).expecting(hangs)
    judge(seen, 0, 3, 1)

    test("a single micro-batch")
    seen = observe_scenario(stepped, ddp_step, [(1, False, 1)]).expecting(hangs)
    judge(seen, 0, 1, 1)

    ### BEGIN HIDDEN TESTS
    cases = [(2, True, 1), (0, False, 1), (3, False, 2)]
    stale = mistake("Gradients from before the call leaked in: zero_grad first.", when=lambda seen: True)

    test.hidden("old gradients are present (in the same run: no micro-batches, and two steps in a row)")
    seen = observe_scenario(stepped, ddp_step, cases).expecting(
        mistake("No micro-batches must raise ValueError.", raises="IndexError|ZeroDivisionError|UnboundLocalError"),
        hangs,
    )
    judge(seen, 0, 2, 1, known=[stale])

    test.hidden("no micro-batches")
    refused = [one[1]["got"] == ["ValueError"] for one in seen.value]
    seen.that(all(refused), "No micro-batches must raise ValueError.", stage="raised")
    steps = [one[1]["steps"] for one in seen.value]
    seen.that(max(steps) == 0, "Without micro-batches the optimizer must not step.", stage="rule")

    test.hidden("two steps in a row with momentum")
    judge(seen, 2, 3, 2)

    test.hidden("an ordinary backward afterwards is synchronised")
    later = [one[case]["sent later"] for one in seen.value for case in (0, 2)]
    seen.that(min(later) > 0, "After the step DDP no longer synchronises: the switch for no_sync was not restored.")
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 10.6 · Save once, load everywhere
#
# fix · solid · 15 min · 2 points
#
# Two ranks write one file at the same time, and a third may read it half written. Repair the saving so that it is safe,
# also when the disk is full.
#
# **Contract**
#
# - Called on every rank with the same path. Rank 0 alone writes the bare model's state_dict, with no "module." in
#   front of its keys.
# - Every rank returns what it has loaded from the file, never before rank 0 has finished writing. An older file at the
#   path must not be mistaken for the new one.
# - If writing fails on rank 0, *every* rank raises: rank 0 its own exception, the others RuntimeError. Nobody hangs.
#
# **Rule** torch.save is called on rank 0 only.
#
# <details><summary>Hint 1</summary>
#
# How does rank 1 know that the file is complete? And how, that there will be none?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Rank 0 saves inside try, and then broadcasts a status (None or the text of the error) that all ranks receive; that
# broadcast is the barrier. Then raise or load.
#
# </details>


# %% answer="rank-zero-save"
def save_and_reload(ddp: DistributedDataParallel, path: str) -> dict[str, Tensor]:
    """Save the wrapped model once; on every rank return the state_dict that was loaded from the file."""
    ### BEGIN SOLUTION
    error = None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except Exception as caught:
            error = caught
    status = [None if error is None else f"{type(error).__name__}: {error}"]
    dist.broadcast_object_list(status, src=0)
    if error is not None:
        raise error
    if status[0] is not None:
        raise RuntimeError(f"rank 0 could not save: {status[0]}")
    return torch.load(path, weights_only=True)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    #
    # torch.save(ddp.state_dict(), path)  # every rank writes the same file
    # return torch.load(path)  # … while another may still be writing
    ### END GIVEN


# %% check="rank-zero-save" points=2
"""One writer; every rank returns the finished file's content, or raises."""
with check("rank-zero-save") as test:

    def model(shift):
        """A small model; shift tells one from another."""
        net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        with torch.no_grad():
            for k, parameter in enumerate(net.parameters()):
                parameter.copy_((torch.arange(parameter.numel()) * 5 % 7 / 4 + k + shift).reshape(parameter.shape))
        return net

    def saved(save, world, is_full, is_old):
        """What each rank got, who wrote and read when; on a full disk saving fails, and an old file may be there."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.pt")
            if is_old:
                torch.save(model(9.0).state_dict(), path)

            def on_rank(rank, world):
                noted = {"writes": 0, "reads": 0, "early": False}
                write, read, done = torch.save, torch.load, os.path.join(folder, "done")
                storages = (torch.UntypedStorage, torch.TypedStorage)

                def slow_save(content, target, *args, **kwargs):
                    if isinstance(content, storages):  # a tensor that is sent as an object
                        return write(content, target, *args, **kwargs)
                    noted["writes"] += 1
                    if is_full:
                        raise OSError(28, "No space left on device")
                    if rank == 0:
                        time.sleep(0.4)
                    write(content, target, *args, **kwargs)
                    if rank == 0:
                        with open(done, "w"):
                            pass

                def noting_load(source, *args, **kwargs):
                    early = not os.path.exists(done)
                    content = read(source, *args, **kwargs)
                    if not isinstance(content, storages):
                        noted["reads"] += 1
                        noted["early"] = noted["early"] or early
                    return content

                torch.save, torch.load = slow_save, noting_load
                ddp = DistributedDataParallel(model(0.5))
                try:
                    got = save(ddp, path)
                except Exception as error:
                    if not is_full:
                        raise
                    noted["raised"] = [kind.__name__ for kind in type(error).__mro__]
                    got = None
                finally:
                    torch.save, torch.load = write, read
                bare = None
                if rank == 0 and os.path.exists(path):
                    try:
                        bare = list(read(path, weights_only=True))
                    except Exception:  # something else than tensors
                        bare = ["not a state_dict"]
                state = None
                if isinstance(got, dict):
                    state = {str(key): value if isinstance(value, Tensor) else None for key, value in got.items()}
                return noted | {"got": state, "in file": bare}

            return run_on_ranks(on_rank, world=world, stall=2.0)

    early = (
        "A rank loaded before the file was complete: the others must wait for rank 0 (barrier, or a broadcast of its "
        "status)."
    )

    def judge(seen, world):
        """Judge a saving that can succeed."""
        facts = seen.value
        wanted = model(0.5).state_dict()
        writes = [one["writes"] for one in facts]
        seen.that(
            writes == [1] + [0] * (world - 1),
            "torch.save must be called once, on rank 0.",
            mistake(
                "Every rank wrote the file; two writers can tear it. Only rank 0 writes.",
                when=lambda seen: all(writes),
            ),
            mistake("Nobody called torch.save.", when=lambda seen: not any(writes)),
            stage="rule",
        )
        seen.that(
            list(facts[0]["in file"] or []) == list(wanted),
            "The file must hold the bare model's state_dict.",
            mistake(
                "The keys begin with 'module.': save ddp.module.state_dict().",
                when=lambda seen: str((facts[0]["in file"] or [""])[0]).startswith("module."),
            ),
        )
        seen.that(not any(one["early"] for one in facts), early)
        not_loaded = "Every rank must return what it read from the file."
        seen.that(all(one["got"] is not None for one in facts), not_loaded, stage="type")
        seen.that(all(one["reads"] for one in facts), not_loaded, stage="rule")
        for one in facts:
            got = one["got"]
            same = list(got) == list(wanted) and all(
                isinstance(got[key], Tensor) and torch.equal(got[key], wanted[key]) for key in wanted
            )
            seen.that(same, "What a rank returned is not what was saved.")

    known = [
        mistake(
            "A rank waits in a collective that the other never reaches: barrier must be called on all ranks.",
            raises="RanksHang",
        ),
        mistake(early, raises="FileNotFoundError|PytorchStreamReader|EOFError|BadZipFile|failed finding central"),
    ]

    test("rank 0 is slow: the others wait; one writer")
    seen = observe_scenario(saved, save_and_reload, 2, False, False).expecting(*known)
    judge(seen, 2)

    ### BEGIN HIDDEN TESTS
    test.hidden("an older file at the path; three ranks")
    seen = observe_scenario(saved, save_and_reload, 3, False, True).expecting(*known)
    judge(seen, 3)

    test.hidden("the disk is full: every rank raises, nobody hangs")
    seen = observe_scenario(saved, save_and_reload, 2, True, True).expecting(
        mistake(
            "Rank 0 failed to write and left; the others wait for it. Tell them: broadcast the outcome.",
            raises="RanksHang",
        ),
    )
    raised = [one.get("raised", []) for one in seen.value]
    seen.that(all(raised), "A failed save must raise on every rank.", stage="raised")
    seen.that("OSError" in raised[0], "Rank 0 must raise the exception that stopped the writing.", stage="raised")
    seen.that("RuntimeError" in raised[1], "The other ranks must raise RuntimeError.", stage="raised")
    writes = [one["writes"] for one in seen.value]
    seen.that(writes[1] == 0, "torch.save must be called on rank 0 only, also when it fails there.", stage="rule")
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 10.7 · What does DDP really send?
#
# measure · solid · 20 min · 2 points
#
# Build the instrument: a communication hook that sees every bucket of gradients on its way to the other ranks, counts
# its bytes, and can send it in a smaller format. Then predict before you measure: does the number change with the batch
# size, with frozen layers, under no_sync?
#
# **Contract**
#
# - Wraps `model` in DDP with a communication hook and returns `(ddp, meter)`. `meter` is a dict with "bytes", the bytes
#   that this rank has handed to all_reduce so far, and "calls", the number of all_reduces. Both grow during training.
# - With `dtype` given (such as torch.bfloat16) each bucket is sent in that dtype and converted back; the meter counts
#   what is sent.
# - In every case `.grad` ends as the float32 *mean* over the ranks (within the rounding of dtype).
#
# **Rule** The bytes are measured in the hook, not computed from the number of parameters.
#
# <details><summary>Hint 1</summary>
#
# Once a communication hook is registered, who divides by the world size? What must the hook return: a tensor, or a
# promise of one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `ddp.register_comm_hook(state, hook)`. In `hook(state, bucket)` take bucket.buffer(), divide by the world size,
# convert, and count numel × element_size. `dist.all_reduce(t, async_op=True).get_future()` is the promise (its value is
# a list of one tensor); its `.then(…)` gives another one, for the result converted back.
#
# </details>


# %% answer="communicated-bytes"
def meter_ddp(model: nn.Module, dtype: torch.dtype | None = None) -> tuple[DistributedDataParallel, dict[str, int]]:
    """DDP around the model, and a meter {"bytes": …, "calls": …} of what this rank hands to all_reduce."""
    ### BEGIN SOLUTION
    ddp = DistributedDataParallel(model)
    meter = {"bytes": 0, "calls": 0}

    def hook(state: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        buffer = bucket.buffer()
        sent = (buffer / dist.get_world_size()).to(dtype or buffer.dtype)
        meter["bytes"] += sent.numel() * sent.element_size()
        meter["calls"] += 1
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda done: done.value()[0].to(buffer.dtype))

    ddp.register_comm_hook(None, hook)
    return ddp, meter
    ### END SOLUTION


# %% check="communicated-bytes" points=2
"""The meter counts what is sent, and the gradients end as float32 means."""
with check("communicated-bytes") as test:

    def network(sizes, frozen):
        """Linear layers of these sizes with fixed weights; the first ones frozen."""
        net = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))
        with torch.no_grad():
            for k, parameter in enumerate(net.parameters()):
                numbers = torch.arange(parameter.numel()) * 7 % 11 / 16 - 0.3 + k / 32
                parameter.copy_(numbers.reshape(parameter.shape) / math.sqrt(sizes[0]))
        for layer in net[:frozen]:
            layer.requires_grad_(False)
        return net

    def batch(rank, rows, width):
        """A batch of a rank."""
        return (torch.arange(rows * width) * 5 % 13 / 8 - 0.7 + rank / 2).reshape(rows, width)

    def measured(build, world, dtype, cases):
        """For each case (sizes, frozen layers, rows, backward passes, silent ones) the meter and the gradients."""

        def on_rank(rank, world):
            sizes_sent = []
            for place in (dist, dist.distributed_c10d):
                kept = place.all_reduce

                def counted(tensor, *args, kept=kept, **kwargs):
                    sizes_sent.append(tensor.numel() * tensor.element_size())
                    return kept(tensor, *args, **kwargs)

                place.all_reduce = counted
            facts = []
            for sizes, frozen, rows, passes, silent in cases:
                model = network(sizes, frozen)
                pair = build(model) if dtype is None else build(model, dtype)
                if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], dict)):
                    return [{"kind": type(pair).__name__}]
                ddp, meter = pair
                if not isinstance(ddp, DistributedDataParallel):
                    return [{"kind": type(ddp).__name__}]
                first = dict(meter)
                sizes_sent.clear()
                steps = []
                for number in range(passes + silent):
                    ddp.zero_grad()
                    with ddp.no_sync() if number >= passes else contextlib.nullcontext():
                        ddp(batch(rank, rows, sizes[0])).square().mean().backward()
                    steps.append(dict(meter))
                    if number == passes - 1:
                        grads = [parameter.grad for parameter in model.parameters()]
                        grads = [None if grad is None else grad.clone() for grad in grads]
                facts.append({"kind": None, "first": first, "steps": steps, "grads": grads})
                facts[-1] |= {"sent": sum(sizes_sent), "all_reduces": len(sizes_sent)}
            return facts

        return run_on_ranks(on_rank, world=world, stall=2.0 + 0.5 * len(cases))

    def judge(seen, case, given, world, dtype):
        """Judge one case on all ranks."""
        sizes, frozen, rows, passes, silent = given
        seen.that(
            all(one[0]["kind"] is None for one in seen.value),
            "Return the pair (ddp, meter): a DistributedDataParallel and a dict.",
            stage="type",
        )
        facts = [one[case] for one in seen.value]
        net = network(sizes, frozen)
        torch.stack([net(batch(rank, rows, sizes[0])).square().mean() for rank in range(world)]).mean().backward()
        wanted = [parameter.grad for parameter in net.parameters()]
        loose = 1e-4 if dtype is None else 0.03
        scale = max(grad.abs().max().item() for grad in wanted if grad is not None)

        def near(grads, factor):
            return all(
                (came is None and truth is None)
                or (
                    isinstance(came, Tensor)
                    and truth is not None
                    and torch.allclose(came.float(), truth * factor, rtol=loose, atol=loose * scale)
                )
                for came, truth in zip(grads, wanted, strict=True)
            )

        right = [near(one["grads"], 1) for one in facts]
        seen.that(
            all(right),
            "The gradients are not the mean over the ranks.",
            mistake(
                "The gradients are sums: with a hook of your own DDP no longer divides by the world size.",
                when=lambda seen: all(near(one["grads"], world) for one in facts),
            ),
            mistake(
                "The gradients are too small: they were divided by the world size twice.",
                when=lambda seen: all(near(one["grads"], 1 / world) for one in facts),
            ),
            mistake(
                "The gradients differ between the ranks: the hook must all_reduce.",
                when=lambda seen: any(
                    a is not None and b is not None and not torch.equal(a, b)
                    for a, b in zip(facts[0]["grads"], facts[1]["grads"], strict=True)
                ),
            ),
        )
        kinds = {grad.dtype for one in facts for grad in one["grads"] if grad is not None}
        seen.that(kinds == {torch.float32}, "The gradients must come back in float32.", stage="dtype")
        numbers = sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)
        everything = sum(parameter.numel() for parameter in net.parameters())
        width = 4 if dtype is None else torch.empty(0, dtype=dtype).element_size()
        keyed = all(
            set(step) >= {"bytes", "calls"} and all(type(step[key]) in (int, float) for key in ("bytes", "calls"))
            for one in facts
            for step in (one["first"], *one["steps"])
        )
        seen.that(keyed, 'The meter must have the entries "bytes" and "calls", numbers.', stage="type")
        sent = [step["bytes"] for step in facts[0]["steps"]]
        calls = [step["calls"] for step in facts[0]["steps"]]
        by_parameters = (
            "The number came from the parameters: frozen layers are not sent, nothing is sent under no_sync, and "
            "without a backward the meter stays 0."
        )
        seen.that(
            facts[0]["first"]["bytes"] == 0 and facts[0]["first"]["calls"] == 0,
            "Before the first backward pass the meter must be 0.",
            mistake(by_parameters, when=lambda seen: facts[0]["first"]["bytes"] > 0),
        )
        growing = [numbers * width * min(k + 1, passes) for k in range(passes + silent)]
        seen.that(
            all([step["bytes"] for step in one["steps"]] == growing for one in facts),
            "The meter does not count the bytes that were handed to all_reduce.",
            mistake(
                f"The meter counts the float32 buffer although {str(dtype).removeprefix('torch.')} was sent: count "
                "what you hand to all_reduce.",
                when=lambda seen: (
                    dtype is not None and sent[0] == 4 * numbers and facts[0]["sent"] < 4 * passes * numbers
                ),
            ),
            mistake(
                "The dtype was ignored: nothing was sent in the smaller format.",
                when=lambda seen: dtype is not None and sent[0] == 4 * numbers,
            ),
            mistake(
                "The meter must keep growing over several steps: bytes and calls count every all_reduce once (this "
                "small model fits into one bucket).",
                when=lambda seen: passes > 1 and sent[0] == sent[passes - 1] == numbers * width,
            ),
            mistake("Count bytes, not numbers.", when=lambda seen: sent[0] == numbers),
            mistake(
                "The meter stayed 0: the hook must be registered, and must write into the very dict that you return.",
                when=lambda seen: sent[-1] == 0,
            ),
            mistake(
                "The bytes of all parameters were counted for each bucket: count the bucket that is sent.",
                when=lambda seen: numbers >= 10_000 and sent[-1] > growing[-1],
            ),
            mistake(
                "Count what this rank hands over, not what all ranks hand over together.",
                when=lambda seen: sent[0] == world * numbers * width,
            ),
            mistake(
                by_parameters,
                when=lambda seen: sent[0] == everything * width > numbers * width or sent[-1] > sent[passes - 1],
            ),
        )
        on_the_wire = [one["sent"] for one in facts]
        seen.that(
            all(got in (0, growing[-1]) for got in on_the_wire),
            "The meter counts something else than what was handed to all_reduce.",
            mistake(
                "The dtype was ignored: nothing was sent in the smaller format.",
                when=lambda seen: dtype is not None and on_the_wire[0] == 4 * numbers * passes,
            ),
            stage="rule",
        )
        recorded = facts[0]["all_reduces"] or calls[-1]  # 0 where dist.all_reduce was not the way
        seen.that(
            calls == sorted(calls) and calls[0] >= 1 and calls[passes - 1] >= passes and calls[-1] == recorded,
            'The entry "calls" must count every all_reduce once.',
        )
        if numbers < 10_000:
            seen.that(calls[passes - 1] == passes, "This small model fits into one bucket: one call a backward pass.")

    known = [
        mistake(
            "DDP wants the hook's second parameter to be called `bucket`: define it as hook(state, bucket).",
            raises="KeyError: 'bucket'",
        ),
        mistake(
            "The hook must return a torch.futures.Future holding the tensor.",
            raises="[Ff]uture|callback must be|comm.?hook.*return|py::cast|Unable to cast|expected.*got|SIG[AS]",
        ),
        mistake("A rank waits in a collective that the other never reaches.", raises="RanksHang"),
    ]

    test("float32: 4 bytes per trainable parameter and pass; gradients averaged; silent under no_sync")
    given = ([3, 4, 2], 0, 5, 2, 1)
    seen = observe_scenario(measured, meter_ddp, 2, None, [given]).expecting(*known)
    judge(seen, 0, given, 2, None)

    test("bfloat16: half of it, gradients back in float32")
    seen = observe_scenario(measured, meter_ddp, 2, torch.bfloat16, [given]).expecting(*known)
    judge(seen, 0, given, 2, torch.bfloat16)

    ### BEGIN HIDDEN TESTS
    test.hidden("frozen layers are not sent; the batch size plays no part")
    cases = [([3, 4, 2, 3], 1, 2, 1, 0), ([3, 4, 2, 3], 2, 9, 2, 1), ([300, 600, 500], 0, 1, 2, 0)]
    seen = observe_scenario(measured, meter_ddp, 2, None, cases).expecting(*known)
    judge(seen, 0, cases[0], 2, None)
    judge(seen, 1, cases[1], 2, None)

    test.hidden("a model of several buckets")
    judge(seen, 2, cases[2], 2, None)

    test.hidden("three ranks, float16, five passes")
    given = ([4, 3, 3], 0, 3, 5, 1)
    seen = observe_scenario(measured, meter_ddp, 3, torch.float16, [given]).expecting(*known)
    judge(seen, 0, given, 3, torch.float16)
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 10.8 · Backward across two processes
#
# implement · long · 25 min · 2 points
#
# A model is too large for one device. Rank 0 holds its first half, rank 1 the second, and a graph of autograd ends
# where its process ends. Let activations travel forward and gradients back, so that both halves learn as one.
#
# **Contract**
#
# - Called on two ranks. Rank 0 holds the first part of the model and `inputs`, a list of `n_micro` tensors; its
#   `targets` is None. Rank 1 holds the second part and `targets`, a list too; its `inputs` is None.
# - `hidden` is the shape of the float32 activation of one micro-batch between the two parts.
# - Afterwards each rank's `.grad` is that of the mean loss over all micro-batches, the numbers of the undivided model.
#   Old gradients are cleared first. Nobody steps: no weight changes.
# - Rank 1 returns the mean loss as a float, rank 0 returns None.
#
# **Rule** Only messages between two ranks: `send`, `recv`, `isend`, `irecv`. No collectives, no
# torch.distributed.pipelining.
#
# <details><summary>Hint 1</summary>
#
# What is the gradient of the loss with respect to the received tensor, and who needs it? How does rank 0 start a
# backward in the middle of the graph?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Rank 0: forward all micro-batches, send each detached activation; then for each receive a gradient and call
# activation.backward(gradient). Rank 1: receive, requires_grad_(), loss / n_micro, backward, send received.grad.
#
# </details>


# %% answer="two-stage-backward"
def pipeline_step(
    stage: nn.Module,
    inputs: list[Tensor] | None,
    targets: list[Tensor] | None,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    hidden: tuple[int, ...],
    n_micro: int,
) -> float | None:
    """Gradients of the mean loss in both halves of a model; rank 1 returns that loss.

    inputs: n_micro tensors on rank 0; targets: n_micro tensors on rank 1; hidden: the shape that travels, float32.
    """
    ### BEGIN SOLUTION
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = []
        for x in inputs:
            activations.append(stage(x))
            dist.send(activations[-1].detach(), dst=1)
        for activation in activations:
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        return None
    losses, gradients = [], []
    for y in targets:
        received = torch.empty(hidden)
        dist.recv(received, src=0)
        received.requires_grad_()
        loss = loss_fn(stage(received), y) / n_micro
        loss.backward()
        losses.append(loss.item())
        gradients.append(received.grad)
    for gradient in gradients:
        dist.send(gradient, dst=0)
    return sum(losses)
    ### END SOLUTION


# %% check="two-stage-backward" points=2
"""Both ranks end with the gradients of the undivided model; only messages between two ranks."""
with check("two-stage-backward") as test:

    def numbers(shape, k):
        """Values between -0.6 and 0.7; no two k give the same."""
        return ((torch.arange(math.prod(shape)) * 7 + 3 * k) % 11 / 8 - 0.6).reshape(shape)

    def halves(hidden):
        """The two parts of a model with fixed weights; the activation has `hidden[-1]` features."""
        first, second = nn.Linear(3, hidden[-1]), nn.Linear(hidden[-1], 2)
        with torch.no_grad():
            for k, parameter in enumerate([*first.parameters(), *second.parameters()]):
                parameter.copy_(numbers(parameter.shape, k + 2))
        return nn.Sequential(first, nn.Tanh()), second

    def micro_batches(hidden, n_micro, call):
        """Inputs and targets of one call."""
        at = 20 * call
        inputs = [numbers((*hidden[:-1], 3), at + k) for k in range(n_micro)]
        return inputs, [numbers((*hidden[:-1], 2), at + 5 + 2 * k) for k in range(n_micro)]

    def squared_error(out, y):
        """The mean squared error."""
        return (out - y).square().mean()

    class Messages(TorchDispatchMode):
        """Notes what torch.distributed does other than sending and receiving."""

        def __init__(self):
            super().__init__()
            self.others = []

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            if "c10d" in operation.namespace and operation.name().split("::")[1] not in (
                "send",
                "recv_",
                "recv_any_source_",
            ):
                self.others.append(operation.name())
            return operation(*args, **(kwargs or {}))

    def both_ranks(step, cases):
        """For each case (hidden, n_micro, old gradients, calls) what each rank has afterwards."""

        def on_rank(rank, world):
            facts = []
            for hidden, n_micro, old, calls in cases:
                stage = halves(hidden)[rank]
                before = [parameter.detach().clone() for parameter in stage.parameters()]
                for parameter in stage.parameters():
                    parameter.grad = torch.full_like(parameter, 1.5) if old else None
                with Messages() as messages:
                    for call in range(calls):
                        inputs, targets = micro_batches(hidden, n_micro, call)
                        own = (inputs, None) if rank == 0 else (None, targets)
                        got = step(stage, *own, squared_error, hidden, n_micro)
                after = [parameter.detach() for parameter in stage.parameters()]
                others = messages.others + ["pipelining"] * ("torch.distributed.pipelining" in sys.modules)
                facts.append({"got": got if isinstance(got, float) else None, "nothing": got is None, "others": others})
                facts[-1]["grads"] = [parameter.grad for parameter in stage.parameters()]
                facts[-1]["unchanged"] = all(map(torch.equal, before, after))
            return facts

        return run_on_ranks(on_rank, timeout=30, stall=1.0 + 0.6 * len(cases))

    def close(came, wanted):
        """Whether these gradients, one for each parameter, are those."""
        return all(
            isinstance(a, Tensor) and a.shape == b.shape and (a - b).norm() <= 1e-4 * b.norm() + 1e-6
            for a, b in zip(came, wanted, strict=True)
        )

    def judge(seen, number, case, *known):
        """Judge one case on both ranks."""
        hidden, n_micro, _, calls = case
        first, second = halves(hidden)
        inputs, targets = micro_batches(hidden, n_micro, calls - 1)
        activations = [first(x) for x in inputs]
        losses = [squared_error(second(h), y) for h, y in zip(activations, targets, strict=True)]
        mean = sum(losses) / n_micro
        wanted = [torch.autograd.grad(mean, list(part.parameters()), retain_graph=True) for part in (first, second)]
        arrived = torch.autograd.grad(mean, activations, retain_graph=True)
        ones = [torch.ones_like(h) for h in activations]

        def continued(chosen, starts):
            """The gradients of the first part for a backward that starts in these activations."""
            return torch.autograd.grad(chosen, list(first.parameters()), starts, retain_graph=True)

        facts = [one[number] for one in seen.value]
        seen.that(
            not any(one["others"] for one in facts),
            "Only point-to-point messages are allowed here.",
            mistake(
                "torch.distributed.pipelining does all of this by itself; here you write the messages.",
                when=lambda seen: any("pipelining" in one["others"] for one in facts),
            ),
            stage="rule",
        )
        seen.that(all(one["unchanged"] for one in facts), "A weight was changed: nobody steps here.")
        front, back = facts[0]["grads"], facts[1]["grads"]
        stale = "Old gradients leaked in, or were cleared between micro-batches."
        seen.that(
            close(back, wanted[1]),
            "Rank 1's gradients are not those of the undivided model.",
            *known,
            mistake(
                "The gradients are n_micro times too large: the loss is the mean over all micro-batches.",
                when=lambda seen: n_micro > 1 and close(back, [n_micro * grad for grad in wanted[1]]),
            ),
            mistake(
                "Rank 1's parameters have no gradient: its loss needs a backward, and .grad must be filled.",
                when=lambda seen: all(grad is None for grad in back),
            ),
            mistake(
                stale,
                when=lambda seen: any(
                    close(back, torch.autograd.grad(loss / by, list(second.parameters()), retain_graph=True))
                    for loss in losses
                    for by in (1, n_micro)
                ),
            ),
        )
        seen.that(
            close(front, wanted[0]),
            "Rank 1 is right, rank 0 is not: its backward was started with something else than the gradient received "
            "for that very micro-batch (ones, another one's gradient), or cleared in between.",
            *known,
            mistake(
                "Rank 0's parameters got no gradient: backward must be continued there with the gradient that rank 1 "
                "sends back.",
                when=lambda seen: all(grad is None or not grad.any() for grad in front),
            ),
            mistake(
                "Rank 1 is right, rank 0 is not: its backward was started with ones instead of the gradient that rank "
                "1 sends back.",
                when=lambda seen: any(
                    close(front, continued(activations, [one / by for one in ones])) for by in (1, n_micro)
                ),
            ),
            mistake(
                "Rank 1 is right, rank 0 is not: the gradients were matched with the micro-batches in reverse order.",
                when=lambda seen: n_micro > 1 and close(front, continued(activations, arrived[::-1])),
            ),
            mistake(
                "Rank 1 is right, rank 0 is not: its gradients were cleared between micro-batches, only one is left.",
                when=lambda seen: any(
                    close(front, continued([h], [start])) for h, start in zip(activations, arrived, strict=True)
                ),
            ),
            mistake(
                "Rank 1 is right, rank 0 is not: its gradients were divided by n_micro once more. The gradient that "
                "arrives is already that of the mean.",
                when=lambda seen: n_micro > 1 and close(front, [grad / n_micro for grad in wanted[0]]),
            ),
        )
        loss = facts[1]["got"]
        seen.that(
            facts[0]["nothing"] and loss is not None and math.isclose(loss, mean.item(), rel_tol=1e-4),
            "Rank 1 returns the mean loss as a float, rank 0 None.",
        )

    known = [
        mistake(
            "One rank waits for a message that the other sends only later (or never): both must follow one order of "
            "messages.",
            raises="RanksHang",
        ),
        mistake(
            "The received tensor must require grad (as a leaf) before it goes through the second stage, and the loss "
            "needs a backward; otherwise its .grad is None.",
            raises="got <class 'NoneType'>|differentiated Tensors (does not require|appears to not)",
        ),
        mistake(
            "Rank 0 calls backward on something without a graph: send a detached copy, but keep the activation itself.",
            raises="element 0 of tensors does not require grad.*on rank 0",
        ),
        mistake(
            "An activation is not a single number: its backward needs the gradient that arrived, "
            "activation.backward(gradient).",
            raises="grad can be implicitly created only for scalar outputs",
        ),
        mistake(
            "Rank 0 has no targets and rank 1 no inputs: each of them is None there.",
            raises="'NoneType' object is not|NoneType' has no len",
        ),
        mistake(
            "A rank wrote to itself or listened to itself: the partner of rank 0 is rank 1, that of rank 1 is rank 0.",
            raises="Pair is not connected|Connection closed|SIGSEGV|not be the same as the rank",
        ),
        mistake(
            "A process ended in the middle. The buffer that receives must have the size of what is sent.",
            raises="SIGABRT",
        ),
    ]

    test("one micro-batch: the gradients of the undivided model on both ranks")
    case = ((2, 4), 1, False, 1)
    seen = observe_scenario(both_ranks, pipeline_step, [case]).expecting(*known)
    judge(seen, 0, case)

    test("four micro-batches")
    case = ((2, 4), 4, False, 1)
    seen = observe_scenario(both_ranks, pipeline_step, [case]).expecting(*known)
    judge(seen, 0, case)

    ### BEGIN HIDDEN TESTS
    cases = [((3, 5), 2, True, 1), ((64, 4096), 3, False, 1), ((2, 3, 4), 3, False, 2)]
    stale = mistake("Old gradients leaked in, or were cleared between micro-batches.", when=lambda seen: True)

    test.hidden("old gradients on both ranks")
    seen = observe_scenario(both_ranks, pipeline_step, cases).expecting(*known)
    judge(seen, 0, cases[0], stale)

    test.hidden("large activations")
    judge(seen, 1, cases[1])

    test.hidden("two calls in a row; activations of three dimensions")
    judge(seen, 2, cases[2])
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 10.9 · All-reduce as a ring
#
# implement · long · 35 min · 3 points
#
# If every rank sent its whole tensor to everybody, the traffic would grow with the number of ranks. In a ring each rank
# talks to its two neighbours only, and sends less than two tensors, however many ranks there are. Write it.
#
# **Contract**
#
# - Called on every rank with a tensor of equal shape and dtype. Afterwards `t` holds, in place, the sum over the ranks.
# - For any world size, 1 included; any number of elements (fewer than ranks, not divisible, none); any shape; any
#   layout, non-contiguous too. Other memory is not touched.
# - Each rank sends to rank + 1 and receives from rank - 1 (modulo the world size), and sends at most 2 (world - 1)
#   chunks of numel / world elements each; one element of padding per chunk is allowed.
# - The result is bit-identical on all ranks.
#
# **Rule** Point-to-point messages only: `send`, `recv`, `isend`, `irecv`, `batch_isend_irecv`. The check counts what is
# sent and to whom.
#
# <details><summary>Hint 1</summary>
#
# After world - 1 steps of passing and adding *one* chunk each, which rank owns which complete chunk? How does everybody
# then get all of them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Cut the flattened tensor into `world` chunks. First phase (reduce-scatter): in step s send chunk rank - s and add what
# comes in to chunk rank - s - 1. Second phase (all-gather): in step s send chunk rank + 1 - s and overwrite chunk
# rank - s. Start every receive (irecv) before you wait for the send.
#
# </details>


# %% answer="ring-all-reduce"
def ring_all_reduce(t: Tensor) -> None:
    """Replace t, on every rank, by the sum over all ranks, with messages between neighbours only."""
    ### BEGIN SOLUTION
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1 or t.numel() == 0:
        return
    flat = t.detach().reshape(-1).clone()
    chunks = flat.tensor_split(world)

    def pass_on(sent: int) -> Tensor:
        """Send one chunk to the right and return what comes from the left: the chunk before it."""
        received = torch.empty_like(chunks[(sent - 1) % world])
        arriving = dist.irecv(received, src=(rank - 1) % world)
        leaving = dist.isend(chunks[sent % world], dst=(rank + 1) % world)
        arriving.wait()
        leaving.wait()
        return received

    for step in range(world - 1):
        chunks[(rank - step - 1) % world].add_(pass_on(rank - step))
    for step in range(world - 1):
        chunks[(rank - step) % world].copy_(pass_on(rank + 1 - step))
    t.copy_(flat.reshape(t.shape))
    ### END SOLUTION


# %% check="ring-all-reduce" points=3
"""The sum in place on all ranks; messages go to the right neighbour only, one chunk at a time."""
with check("ring-all-reduce") as test:

    def tensor_of(case, rank):
        """The tensor of a rank: a view into a larger one that is filled with sevens elsewhere."""
        shape, dtype, layout = case
        size, between = math.prod(shape), 2 if layout == "strided" else 1
        base = torch.full((between * size + 5,), 7, dtype=dtype)
        t = base[2 : 2 + between * size : between]
        t = t.view(shape[::-1]).t() if layout == "transposed" else t.view(shape)
        count = torch.arange(size, dtype=torch.int64)
        if dtype.is_floating_point:
            values = (count % 89) * (0.37 + 0.1 * rank) + rank * rank / 3 + 0.25
        else:
            values = count * (10**rank) + 2**60 + rank
        t.copy_(values.reshape(shape))
        return base, t

    class Messages(TorchDispatchMode):
        """Notes what is sent, to whom, and what torch.distributed does other than sending and receiving."""

        def __init__(self):
            super().__init__()
            self.sent, self.others = [], []

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            if "c10d" in operation.namespace:
                name = operation.name().split("::")[1]
                if name == "send":
                    self.sent += [(args[2], part.numel() * part.itemsize) for part in args[0]]
                elif name not in ("recv_", "recv_any_source_"):
                    self.others.append(name)
            return operation(*args, **(kwargs or {}))

    def reduced(all_reduce, world, cases):
        """For each case (shape, dtype, layout) what each rank has afterwards, and what it sent."""

        def on_rank(rank, world):
            facts = []
            for case in cases:
                base, t = tensor_of(case, rank)
                layout = (t.shape, t.stride(), t.storage_offset())
                place, outside = base.as_strided(*layout), torch.ones_like(base, dtype=torch.bool)
                outside.as_strided(*layout).fill_(False)
                with Messages() as messages:
                    all_reduce(t)
                result = place.flatten()
                facts.append({"to": sorted({to for to, _ in messages.sent}), "others": messages.others})
                facts[-1]["sizes"] = [size for _, size in messages.sent]
                facts[-1]["outside"] = bool((base[outside] == 7).all())
                facts[-1]["sum"] = result.sum().item()
                facts[-1]["t"] = result if len(result) < 1000 else result[::997]
            return facts

        return run_on_ranks(on_rank, world=world, timeout=30, stall=1.0 + 0.4 * len(cases))

    def judge(seen, number, case, world):
        """Judge one case on all ranks."""
        facts = [one[number] for one in seen.value]
        shape, dtype, _ = case
        n, chunk = math.prod(shape), math.ceil(math.prod(shape) / world)
        start = [tensor_of(case, rank)[1].flatten() for rank in range(world)]
        thin = slice(None) if n < 1000 else slice(None, None, 997)
        wanted = sum(start)[thin]
        came = [one["t"] for one in facts]
        near = 16 * torch.finfo(dtype).eps if dtype.is_floating_point else 0
        right = torch.stack([torch.isclose(one, wanted, rtol=near, atol=0) for one in came])
        partial = torch.stack(came)[~right] < 0.97 * wanted.expand_as(right)[~right]
        untouched = [torch.equal(one, own[thin]) for one, own in zip(came, start, strict=True)]
        seen.that(
            not any(one["others"] for one in facts),
            "Only point-to-point messages are allowed.",
            stage="rule",
        )
        seen.that(
            bool(right.all()),
            "The result is wrong in places: the chunk indices of the two phases do not fit together.",
            mistake(
                "t itself must change (also if it is not contiguous): work on a copy and copy back into t.",
                when=lambda seen: n > 0 and all(untouched),
            ),
            mistake(
                "The last elements are wrong: the number of elements is not divisible by the world size.",
                when=lambda seen: n % world != 0 and bool(right[:, : n // world * world].all()),
            ),
            mistake(
                "Each rank has only one complete chunk: the second phase (all-gather) is missing.",
                when=lambda seen: right.sum(0).tolist() == [1] * n and bool(partial.all()),
            ),
            mistake(
                "The sum does not arrive on every rank: some have it, others do not.",
                when=lambda seen: bool(right.all(1).any()),
            ),
        )
        seen.that(all(one["outside"] for one in facts), "Memory outside of t was changed.", stage="aliasing")
        seen.that(
            all(set(one["to"]) <= {(rank + 1) % world} for rank, one in enumerate(facts)),
            "Messages went to other ranks than the right neighbour.",
            stage="rule",
        )
        most = 2 * (world - 1) * max(chunk, n / world + 1) * dtype.itemsize
        seen.that(
            max(sum(one["sizes"]) for one in facts) <= most,
            "Too much was sent: 2 (world - 1) chunks of numel / world elements are enough.",
            mistake(
                "Too much was sent: whole tensors travelled around the ring. Send one chunk per step.",
                when=lambda seen: all(set(one["sizes"]) == {n * dtype.itemsize} for one in facts),
            ),
            stage="rule",
        )
        same = [torch.equal(one["t"], came[0]) and one["sum"] == facts[0]["sum"] for one in facts]
        seen.that(all(same), "The ranks' results differ in their last bits: every rank must get the same bytes.")

    known = [
        mistake(
            "The ranks wait for each other for ever. Gloo's send returns only when the partner receives: when every "
            "rank sends first, everybody is sending. Post isend and irecv together, then wait for both.",
            raises="RanksHang.* in send",
        ),
        mistake(
            "The ranks wait for each other for ever: some message has no partner, or nobody waits for it. Every rank "
            "makes the same steps: one isend to the right and one irecv from the left, then wait() for both.",
            raises="RanksHang",
        ),
        mistake(
            "A process ended in the middle: a message was larger than the buffer that received it. In a step, what you "
            "send and what your right neighbour receives is the same chunk.",
            raises="SIGABRT",
        ),
        mistake(
            "A rank wrote to itself or listened to itself. The neighbours are (rank + 1) % world and "
            "(rank - 1) % world.",
            raises="Pair is not connected|Connection closed|SIGSEGV|not be the same as the rank",
        ),
        mistake(
            "t need not be contiguous, and parts of it that are not can be neither viewed flat nor sent: work on a "
            "contiguous copy and copy back into t.",
            raises="contiguous",
        ),
        mistake(
            "The number of elements need not be divisible by the world size.",
            raises=r"shape '\[[-\d]+, [-\d]+\]' is invalid for input of size",
        ),
        mistake(
            "A chunk is missing: torch.chunk and split can return fewer pieces than there are ranks. tensor_split "
            "always returns that many, empty ones too.",
            raises="IndexError",
        ),
    ]

    test("two ranks, 8 numbers")
    case = ((8,), torch.float32, "plain")
    seen = observe_scenario(reduced, ring_all_reduce, 2, [case]).expecting(*known)
    judge(seen, 0, case, 2)

    test("three ranks, 12 numbers")
    case = ((12,), torch.float32, "plain")
    seen = observe_scenario(reduced, ring_all_reduce, 3, [case]).expecting(*known)
    judge(seen, 0, case, 3)

    test("three ranks, 10 numbers")
    case = ((10,), torch.float32, "plain")
    seen = observe_scenario(reduced, ring_all_reduce, 3, [case]).expecting(*known)
    judge(seen, 0, case, 3)

    ### BEGIN HIDDEN TESTS
    sizes = {
        "a hundred thousand numbers": ((100_003,), torch.float32, "plain"),
        "two dimensions": ((3, 7), torch.float64, "plain"),
        "transposed": ((5, 3), torch.float32, "transposed"),
        "every second element of a larger tensor": ((11,), torch.float32, "strided"),
        "integers": ((4, 2, 4), torch.int64, "plain"),
        "no dimension": ((), torch.float32, "plain"),
        "fewer elements than ranks": ((2,), torch.float32, "plain"),
        "five elements": ((5,), torch.float32, "plain"),
        "empty": ((0, 3), torch.float32, "plain"),
        "after the empty one": ((9,), torch.float32, "plain"),
    }
    test.hidden("four ranks: many elements, few and none; other shapes, dtypes and layouts")
    seen = observe_scenario(reduced, ring_all_reduce, 4, list(sizes.values())).expecting(*known)
    for number, (idea, case) in enumerate(sizes.items()):
        test.hidden(f"four ranks: {idea}")
        judge(seen, number, case, 4)

    test.hidden("a world of one")
    cases = [((4,), torch.float32, "plain"), ((0,), torch.float32, "plain"), ((3, 2), torch.float32, "transposed")]
    seen = observe_scenario(reduced, ring_all_reduce, 1, cases).expecting(
        mistake("World size 1 (or an empty tensor) must simply return.", raises=".")
    )
    for number, case in enumerate(cases):
        judge(seen, number, case, 1)
    ### END HIDDEN TESTS

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
