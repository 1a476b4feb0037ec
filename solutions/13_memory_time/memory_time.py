# %% [markdown]
# # Where memory and time go
#
# "CUDA out of memory" and "why is my step so slow" are both questions of *when*: when is a tensor freed, and when does
# Python have to wait for the GPU? You can answer both by counting, without a GPU and without a clock. After this
# chapter you can
#
# - say after which operation a step needs the most memory, and what keeps each tensor alive at that moment;
# - explain an out-of-memory error that comes with half of the memory free, and find its cause in a snapshot;
# - trade extra arithmetic for memory by plan rather than by trial and error;
# - find the lines that make Python wait, and say whether a step is bound by Python, by traffic or by arithmetic.
#
# **45 minutes to read, 265 minutes to practise, 20 points.** You need chapters 4, 6 and 11. [Section
# 1.5](../01_backends/backends.ipynb) and Exercise 1.7 counted what fills the memory of a step, [chapter
# 6](../06_hooks/hooks.ipynb) moved the optimizer's step into backward, and [section
# 12.5](../12_language_model/language_model.ipynb) checkpointed a block by hand. This chapter continues from there.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import contextlib
import gc
import inspect
import math
import random
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.cuda import _memory_viz
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.flop_counter import FlopCounterMode

from torchkata.demos import every_warning, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.instruments import misread_blocks
from torchkata.instruments.blocks import BlockCache, blocks_after
from torchkata.instruments.counted_gpt import GPT, Block
from torchkata.instruments.driver import Device
from torchkata.instruments.lanes import in_words
from torchkata.instruments.ledger import Ledger, measured
from torchkata.instruments.misread_blocks import history
from torchkata.instruments.products import ProductCounter
from torchkata.instruments.snapshot import program_at_the_peak, recorded_step, step_on_the_cpu
from torchkata.instruments.virtual_gpu import VirtualGPU
from torchkata.instruments.waits import waits
from torchkata.pictures.cache_blocks import blocks_explorer
from torchkata.pictures.roofline import roofline, roofline_explorer
from torchkata.pictures.step_memory import step_memory_explorer
from torchkata.pictures.two_lanes import gap_every_third, lanes_explorer
from torchkata.verdicts import check, mistake, observe, observe_scenario, observe_value, prediction

# %% [markdown]
# This message ends many people's first day with a large model. The numbers are ours; the words and their order are
# PyTorch's.
#
# > CUDA out of memory. **Tried to allocate** 58.00 MiB. GPU 0 has a **total capacity** of 100.00 MiB of which 42.00 MiB
# > **is free**. Including non-PyTorch memory, **this process has** 58.00 MiB memory **in use**. Of the allocated memory
# > 2.00 MiB is **allocated by PyTorch**, and 56.00 MiB is **reserved by PyTorch but unallocated**. If reserved but
# > unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
#
# Tensors occupy only 2 of the GPU's 100 MiB, and yet PyTorch can't find 58. Which of these numbers do you need in order
# to decide what to do? Section 13.9 comes back to the message, and by then you know what each word means.
#
# ## 13.1 The moment of the peak
#
# The memory of a tensor is its *storage*. A storage stays alive as long as something refers to it: a name, an operation
# that is running, the graph, `.grad`, or the optimizer. Section 1.5 counted what a step keeps. Now we follow the whole
# step and ask how many bytes are alive after each operation. `measured(call)` runs a function under a ledger and
# returns its result, the peak, and what is left. The ledger counts what operations create, not what existed before. You
# will write your own ledger below.
#
# **Predict.** `x` already exists, and each result takes 1 MiB. How many MiB are alive at the peak of
# `x.tanh().tanh().tanh()`, first without a graph and then with one?

# %% facts=["13-saves-result-or-input", "13-getsizeof"]
mib = 2**20
x = torch.rand(512, 512)
w = x.clone().requires_grad_()

for name, tensor in (("without a graph", x), ("with a graph", w)):
    _, peak, left = measured(lambda tensor=tensor: tensor.tanh().tanh().tanh())
    print(f"{name:16} peak {peak / mib:.0f} MiB, left {left / mib:.0f} MiB")

print("kept by sin, then exp:", measured(lambda: w.sin().exp().sum())[2] // mib, "MiB")
print("kept by exp, then sin:", measured(lambda: w.exp().sin().sum())[2] // mib, "MiB")

# %% [markdown]
# Two MiB are alive at the peak without a graph, and three with one. Without a graph nothing refers to the earlier
# results, so only the input and the output of the running operation are alive. With a graph, each `tanh` keeps its
# result for backward. What an operation keeps is what the formula of its derivative uses ([section
# 4.7](../04_autograd/autograd.ipynb)); a multiplication by a number keeps no tensor. Count storages, not elements,
# because an expanded tensor has more elements than memory. Both programs of the last two lines keep 1 MiB. In the
# first, `sin` keeps `w`, which existed before, and `exp` keeps its result. In the second, both keep the same tensor.

# %% [markdown]
# Where is the peak of a whole training step? Here are three layers of width 512 with Adam, with four batch sizes. The
# numbers are the most MiB alive in each phase, with parameters and optimizer state included.


# %% facts=["13-peak-after-forward"]
def phases(batch: int) -> list[float]:
    """MiB at the highest point of forward, backward and step."""
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.Tanh())]
    model, data = nn.Sequential(*layers), torch.randn(batch, 512)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(2):  # in the second step the optimizer's state is there
        optimizer.zero_grad()
        state = [v for entry in optimizer.state.values() for v in entry.values()]
        ledger, ends = Ledger(data, *model.parameters(), *state), [0]
        with ledger:
            loss = model(data).square().mean()
            ends.append(len(ledger.curve))
            loss.backward()
            ends.append(len(ledger.curve))
            optimizer.step()
    sizes = [size for _, size in ledger.curve]
    parts = zip(ends, [*ends[1:], len(sizes)], strict=True)
    return [max(sizes[start:stop]) / mib for start, stop in parts]


print("batch   forward  backward  step")
for batch in (8, 64, 512, 2048):
    print(f"{batch:5}   {'   '.join(f'{peak:6.2f}' for peak in phases(batch))}")

# %% [markdown]
# With small batches the peak is in the optimizer's step, so an even smaller batch doesn't help. With large batches it
# is in backward. It is never in forward here, although forward builds up everything that is kept, because backward
# creates a gradient before it frees what it has used.
#
# The explorer shows such a step in stacked columns. Reduce the batch until the peak moves into the optimizer's step.
# Then choose Adam with `foreach`, which works on lists and makes its temporaries for all parameters at once.

# %%
step_memory_explorer()

# %% [markdown]
# Does a GPU agree? We ran the table on an H200 with torch 2.11, and `torch.cuda.max_memory_allocated()` gave the same
# numbers to a hundredth of a MiB. (Wherever this chapter says *on an H200*, we ran it there.) `foreach` is the default
# on a GPU, and `fused=True` makes no temporaries. Two things come on top of what a ledger counts. First, libraries keep
# workspaces: after the first Linear layer, cuBLAS used 65 MiB. Second, a kernel may need memory that no operation
# returns: a step through flash attention took 14 MiB at its peak, of which the ledger saw 8.

# %% [markdown]
# **Predict.** An evaluation loop without `no_grad` runs `y = w.exp().exp().exp()` three times. The name `y` is rebound
# in each iteration. How many MiB are alive at the peak? And how many with `del y` as the last line of the loop?


# %% facts=["13-evaluation-doubles", "13-names-are-free"]
def three_iterations(delete: bool) -> None:
    """The same line three times."""
    for _ in range(3):
        y = w.exp().exp().exp()
        if delete:
            del y


print("plain: ", measured(lambda: three_iterations(False))[1] // mib, "MiB")
print("del y: ", measured(lambda: three_iterations(True))[1] // mib, "MiB")

# %% [markdown]
# Six MiB are alive at the peak, and three with `del y`. The name refers to the old result until the new one is
# complete, so two whole graphs are alive at once. For the same reason, `out = model(x); out.sum().backward()` may need
# one more activation at its peak than `model(x).sum().backward()`, namely if the last layer doesn't keep its result,
# because backward can't free what a name refers to.

# %% [markdown]
# **Now you know.** The peak is one moment of a step. Find the operation after which it is reached, then ask what keeps
# each tensor alive at that moment.

# %% exercise="predict-peak"
# %% exercise="peak-ledger"

# %% [markdown]
# In Exercise 1.7 you could use an address (`data_ptr`) to identify a storage, because nothing was freed while you
# counted. Here storages are freed all the time, and an address is used again.
#
# ## 13.2 Who holds it?
#
# A leak is a reference that you have forgotten, in a sum, a list, a view, an error, a hook or a cycle. We call whatever
# has that reference the *holder*.
#
# **Predict.** A loop trains for 20 steps with `backward()` and adds up `total = total + loss`. How many bytes of
# tensors are alive afterwards because of `total`?


# %% facts=["13-total-loss-in-training"]
def summed(train: bool) -> int:
    """Bytes that a sum of twenty losses keeps alive; gradients were there before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    data = torch.randn(32, 64)
    model(data).square().mean().backward()

    def steps():
        total = 0
        for _ in range(20):
            loss = model(data).square().mean()
            if train:
                loss.backward()
            total = total + loss
        return total

    return measured(steps)[2]


print("training with backward():     ", summed(True), "bytes")
print("evaluation without no_grad(): ", summed(False), "bytes")

# %% [markdown]
# Only four bytes are alive, the sum itself. `backward()` has freed what the graphs kept, and only their nodes remain.
# Everybody repeats the advice to add up `loss.item()` and never the loss. It matters for evaluation, where no backward
# runs and everything stays alive.

# %% [markdown]
# To find a holder, watch a storage through a weak reference and remove the suspects one by one.

# %% facts=["13-del-frees", "13-gc-collect-frees", "13-gc-get-objects", "13-slice-keeps-all", "13-contiguous-copies"]
y = w.exp()
watched = StorageWeakRef(y.untyped_storage())
row, result = y[0], y.sum()
del y
print("after del y:     ", "gone" if watched.expired() else "alive")
del row
print("after del row:   ", "gone" if watched.expired() else "alive")
found = [t for t in gc.get_objects() if type(t) is Tensor and t.shape == (512, 512)]
seen = [t for t in found if t.untyped_storage()._cdata == watched.cdata]
print("seen by gc:      ", len(seen))
del found, seen, result
print("after del result:", "gone" if watched.expired() else "alive")

for batch in (4, 1):
    part = torch.ones(batch, 10, 8)[:, 0].contiguous()
    held = part.untyped_storage().nbytes()
    print(f"batch {batch}: shows {part.nbytes} bytes, holds {held}")

# %% [markdown]
# The name, the view and the graph of `result` kept the storage alive, and it was freed when the last of them went. The
# garbage collector wasn't needed, and it couldn't have shown you the holder, because a result that only the graph keeps
# has no Python object. A row keeps everything it was cut from alive. `clone()` copies it, and `contiguous()` copies
# only what isn't already contiguous.
#
# Errors also keep tensors alive. That is why a retry inside the `except` block fails.


# %% facts=["13-caught-error-frees", "13-with-traceback-none"]
def failing() -> None:
    """Raise with a large tensor among the variables."""
    batch = torch.ones(1000)
    references.append(StorageWeakRef(batch.untyped_storage()))
    raise RuntimeError("out of memory")


references: list[StorageWeakRef] = []
try:
    failing()
except RuntimeError as error:
    kept = error
print("error kept:          ", "gone" if references[0].expired() else "alive")
kept.__traceback__ = None
print("without its traceback:", "gone" if references[0].expired() else "alive")

# %% [markdown]
# The exception refers to its traceback, the traceback to its frames, and the frames to their variables. An error that
# was raised from another error, or while another was handled, also refers to that one and so to its traceback.
#
# There is one kind of cycle that the collector can't see, because it runs through the graph.


# %% facts=["13-create-graph-leak"] shows_warning="UserWarning"
def cycle() -> None:
    """A parameter whose gradient has a graph."""
    parameter = torch.ones(100, requires_grad=True)
    references.append(StorageWeakRef(parameter.untyped_storage()))
    (parameter**3).sum().backward(create_graph=True)


warning_of(cycle, lines=1)
gc.collect()
print("after gc.collect():", "gone" if references[-1].expired() else "alive")

# %% [markdown]
# `torch.autograd.grad` creates no such cycle. With `backward(create_graph=True)`, set `.grad` to None afterwards.
#
# **Now you know.** No call frees memory that something still refers to. It is freed when its last holder goes, so look
# for the holder.

# %% exercise="four-leaks"

# %% [markdown]
# ## 13.3 The allocator in between
#
# Freed memory doesn't go back to the driver, because there is a *caching allocator* between your tensors and the
# driver. It gets large pieces from the driver, called *segments*, and cuts them into *blocks*. It keeps a freed block
# for the next tensor. Free neighbours in a segment are merged.
#
# *Allocated* is what tensors occupy, *reserved* is what was taken from the driver. Requests are rounded up to multiples
# of 512 bytes, and small ones share segments of 2 MiB.
#
# **Predict.** A tensor of one number is the first on a GPU. How many bytes are allocated, and how many are reserved?

# %%
stage = blocks_after([("alloc", "x", 4 / mib)], 1)
print("allocated", stage.allocated, "reserved", stage.reserved)

# %% [markdown]
# 512 bytes are allocated and 2 MiB reserved. (Requests of up to 1 MiB count as small.) This is a simulation that
# follows the rules in the allocator's source. On an H200 we compared it with the real allocator in 300 random
# histories, and after each event all segments and blocks were the same.

# %% [markdown]
# The explorer shows segments as rows of blocks. It opens with the trace *in pieces*, which leads to the opening
# message: 58 MiB come and go, 2 MiB are placed there and stay, then 57 are requested. Step through it, then through the
# two traces with an `empty_cache()`.

# %% facts=["13-empty-cache-more-memory"]
blocks_explorer()

# %% [markdown]
# The 2 MiB keep the whole segment of 58 from going back to the driver, and the rest of it is too small by 1. An
# `empty_cache()` before the 2 MiB are placed saves the run. Right before the request that fails it changes nothing,
# because the allocator itself does the same at that point. It also costs time: on an H200 a request of 64 MiB took 5 µs
# from the cache, and 216 µs when the cache was emptied each time. (The message says 58 MiB although the program
# requested 57. It gives what the allocator asked the driver for, and from 10 MiB on this is a multiple of 2 MiB.)
#
# Free memory in pieces that are too small is called *fragmentation*. Two settings help against it. Put them in the
# environment variable PYTORCH_ALLOC_CONF (the message uses its older name) before the process creates its first CUDA
# tensor. `expandable_segments:True` lets a segment grow, so no new contiguous segment is needed, and
# `max_split_size_mb` keeps large blocks from being cut. On an H200 the trace ran through with either of them. A block
# that another *stream* (a second queue of work) may still be using has to wait before it can be used again. The
# simulation leaves all of this out.
#
# **Now you know.** *Allocated* memory is in use; *reserved* memory was taken from the driver. Out of memory with much
# reserved and little allocated means fragmentation, not a shortage.

# %% exercise="caching-allocator"
# %% exercise="fits-and-fails"

# %% [markdown]
# ## 13.4 Reading a snapshot
#
# `torch.cuda.memory._record_memory_history()` switches on a recording, and `_dump_snapshot("step.pickle")` writes what
# the last section drew to a file: the segments with their blocks, and a list of events with stack frames. (The viewer
# at `pytorch.org/memory_viz` draws such a file.) The snapshot below was recorded on an H200. It shows the first step of
# Linear(512, 2048), ReLU, Linear(2048, 512) with Adam and a batch of 1024. Before the recording, forward and backward
# had run once to create the libraries' workspaces.
#
# **Predict.** Which line has the most memory at the peak: `loss.backward()`, `optimizer.step()`, or a line of forward?

# %% facts=["13-snapshot-needs-gpu"]
snapshot = recorded_step()
print(_memory_viz.segsum(snapshot).partition("\n\nLegend")[0])
lines = _memory_viz.trace(snapshot).splitlines()
print("\n".join(["", *lines[2:8], "...", lines[-1], ""]))
print(program_at_the_peak(snapshot))

# %% [markdown]
# `torch.cuda._memory_viz` reads a snapshot on any machine. It draws each large segment with one character per 20 MiB: a
# letter if one block fills them, a star if several blocks do, a digit if they are partly in use (8 for eight tenths)
# and a space if they are free. Below that it lists the events as a program. Its last line should say 24.0 MiB, the sum
# of the recorded blocks at the end. On torch 2.11 to 2.15 that line is wrong, because its counter is also the loop's
# number. Add up the entries yourself.
#
# The last table shows the program with what each line has in memory at the peak. `optimizer.step()` has 24 of 34 MiB.
# In the first step Adam creates its state. Of what forward made, only `out` and the loss are left, because names refer
# to them. The 8 MiB without a frame are gradients, because backward runs in a separate thread, where there is no
# Python.
#
# Why does the summary say that 101 MiB are allocated? It also counts what existed before the recording: 12 MiB of
# parameters and data, and 65 MiB of workspaces, among them the two blocks of 32.

# %% [markdown]
# You don't need a GPU to know this peak. Here is the same step on the CPU, with a ledger around it.

# %%
_, peak, _ = measured(step_on_the_cpu())
print(f"peak on the CPU, by the ledger: {peak:,} bytes")
recorded = snapshot["recorded"]["max_memory_allocated"]
print(f"max_memory_allocated, H200:     {recorded:,} bytes")

# %% [markdown]
# The only difference is that the GPU rounds each block up to 512 bytes.

# %% [markdown]
# **Now you know.** Replay the events up to the peak, and sort by the line that requested the memory.

# %% exercise="peak-owners"

# %% [markdown]
# ## 13.5 Memory for arithmetic
#
# Section 12.5 dropped activations and computed them again. What should you drop, so that a step fits at the lowest
# cost?
#
# **Predict.** 16 equal layers are checkpointed in 2, 4, 8 or 16 segments. Which number needs the least memory?


# %% facts=["13-more-checkpoints-less-memory"]
def peak_with(segments: int) -> float:
    """The peak of a step, in sizes of the input."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(16)]
    model, data = nn.Sequential(*layers), torch.randn(1024, 64, requires_grad=True)

    def step():
        if segments:
            out = checkpoint_sequential(model, segments, data, use_reentrant=False).sum()
            return out.backward()
        return model(data).sum().backward()

    return measured(step)[1] / data.nbytes


for segments in (0, 2, 4, 8, 16):
    peak = peak_with(segments)
    print(f"{segments or 'no':>2} segments: {peak:5.2f} inputs at the peak")

# %% [markdown]
# Four segments need the least. Few segments are long, and in backward everything in a segment is alive again. Many
# segments keep many inputs, and 16 segments keep as much as no checkpointing at all. `checkpoint_sequential` runs its
# last segment without checkpointing, because backward begins there.
#
# **Predict.** Everything is checkpointed. By how much does the arithmetic of a step grow?


# %% facts=["13-checkpoint-costs-a-third"]
def growth(block: nn.Module) -> float:
    """FLOPs of a checkpointed step over those of a plain one."""
    data, flops = torch.randn(32, 64, requires_grad=True), []
    for run in (block, lambda t: checkpoint(block, t, use_reentrant=False)):
        with FlopCounterMode(display=False) as counter:
            run(data).sum().backward()
        flops.append(counter.get_total_flops())
    return flops[1] / flops[0]


plain = [nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)]
for behind in ([], [nn.LayerNorm(64)], [nn.Dropout(0.1)]):
    block = nn.Sequential(*plain, *behind)
    print(f"{growth(block):.3f} for", ", ".join(type(layer).__name__ for layer in block))

# %% [markdown]
# It grows by a sixth or by a third, depending on how the block ends. The usual rule of thumb is a third. The second run
# stops as soon as everything that was kept exists again, so a product at the very end of a block isn't repeated, and
# the first of the three blocks costs a sixth more. If something after the product keeps a tensor for backward, as
# LayerNorm keeps its input and Dropout its mask, the block costs a third more. (Here the input needs a gradient. In a
# first block, whose input needs none, backward is cheaper, so the share is larger.)

# %% [markdown]
# Other ways save memory without recomputing anything, if you do them right.


# %% facts=["13-sum-of-microbatches", "13-inplace-relu"]
def accumulated(parts: int, once: bool) -> float:
    """MiB at the peak of a step in micro-batches; once: one backward, on the summed losses."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    model, data = nn.Sequential(*layers), torch.randn(1024, 64)

    def step():
        total = 0
        for part in data.chunk(parts):
            loss = model(part).square().mean() / parts
            if once:
                total = total + loss
            else:
                loss.backward()
        if once:
            total.backward()

    return measured(step)[1] / mib


print(f"one batch:                          {accumulated(1, False):.2f} MiB")
print(f"8 parts, backward for each:         {accumulated(8, False):.2f} MiB")
print(f"8 parts, backward on summed losses: {accumulated(8, True):.2f} MiB")

for inplace in (False, True):
    pairs = [m for _ in range(4) for m in (nn.Linear(512, 512), nn.ReLU(inplace))]
    model = nn.Sequential(*pairs)
    _, peak, left = measured(lambda model=model: model(x))
    print(f"ReLU(inplace={inplace}): peak {peak // mib} MiB, left {left // mib} MiB")

uncounted = peak_with(4)
with FlopCounterMode(display=False):
    more = peak_with(4) > 1.5 * uncounted
print("4 segments, with FLOPs counted: half as much again:", more)

# %% [markdown]
# Micro-batches help if each has its own `backward()`. An in-place ReLU saves one activation at the peak, but nothing of
# what is left. And measure one thing at a time, because counting FLOPs raises the peak of the run with 4 segments by
# more than half.
#
# **Now you know.** Keep what is small and expensive to compute, drop what is large and cheap, and don't checkpoint the
# last segment.

# %% exercise="checkpoint-plan"

# %% [markdown]
# ## 13.6 Two lanes
#
# Python queues kernels, and the GPU works on them (section 1.4 showed what that means for errors). The time of a step
# is neither the sum nor the maximum of Python's time and the GPU's, because it depends on where Python waits.
#
# **Predict.** A step makes 44 calls that take 6 µs each to queue: 40 kernels of 4 µs, then 4 of 300. How long do three
# steps take? And how long if the last call of each step waits, as `loss.item()` does?

# %%
step = [(6, 4, False)] * 40 + [(6, 300, False)] * 4
reading = [*step[:-1], (6, 300, True)]
for name, calls in (("never waits", step * 3), ("reads the loss", reading * 3)):
    print(f"{name:15}", in_words(calls))

# %% [markdown]
# They take 4,166 and 4,338 µs. Python is blocked for 3,546 µs, and that alone costs nothing, because the GPU works
# meanwhile. The reads cost 86 µs in the second step and in the third, because nothing is queued right after a read, and
# then the GPU gets the short kernels no faster than Python queues them.

# %% [markdown]
# If all kernels are short, reading costs more. Choose a batch of 64, and compare how long the GPU is idle when the loss
# is read in every step and when it is never read.

# %%
lanes_explorer()

# %% [markdown]
# Which lines wait? `waits(call)` counts them on the CPU. It watches Python calls such as `tolist` and also operations,
# and treats each tensor that existed before the call as if it were on the GPU. A TorchDispatchMode alone wouldn't be
# enough, because on the CPU `tolist`, `print`, `cpu` and `numpy` run no operation that it could see. (`waits` has gaps
# of its own: `torch.save` and pickling also read the numbers, and it doesn't count them.)


# %% facts=["13-dispatch-sees-waits", "13-mask-backward-waits", "13-clip-grad-norm-waits", "13-item-always-waits"]
def masked_step() -> None:
    """A loss of the rows that have a target, with its gradients clipped."""
    logits, keep = layer(data), labels != -100
    F.cross_entropy(logits[keep], labels[keep]).backward()
    nn.utils.clip_grad_norm_(layer.parameters(), 1.0)


layer, data, labels = nn.Linear(3, 3), torch.ones(4, 3), torch.tensor([0, -100, 2, 1])
adam = torch.optim.Adam(layer.parameters())
for name, line in {
    "a masked step": masked_step,
    "adam.step()": adam.step,
    "x.tolist()": lambda: x.tolist(),
    "print": lambda: f"{x[0, 0]:.2f}",
    "where": lambda: torch.where(x > 0, x, 0.0),
    "full": lambda: torch.full((3,), 1.0, device=x.device),
    "tensor": lambda: torch.tensor([1.0, 2.0], device=x.device),
}.items():
    print(f"{name:14}", dict(waits(line)[1]) or "waits for nothing")

# %% [markdown]
# A boolean mask waits, because the size of its result depends on numbers, and it waits again in backward.
# `clip_grad_norm_` doesn't wait, because its factor stays a tensor, unless you pass `error_if_nonfinite=True`. Adam's
# step calls `item()` and still doesn't wait, because it keeps its step counter on the CPU for this very reason. But a
# tensor made from Python numbers waits, because they are copied from the CPU to the GPU. `full`, `zeros` and `arange`
# create theirs on the GPU.
#
# On a real GPU, `torch.cuda.set_sync_debug_mode("warn")` names the waits. We tried it on an H200 with 144 lines, each
# after a kernel of 12 ms. It missed two waits, `synchronize()` itself and a copy to the CPU with `non_blocking=True`
# that waited anyway. It was right about all the other lines.
#
# A virtual GPU shows what a real step looks like in two lanes. Its numbers are round and invented: 6 µs a call, 400
# TFLOP/s, 2 TB/s.


# %%
def noted_step(width: int, batch: int) -> VirtualGPU:
    """One step of six layers, on tensors without memory."""
    with torch.device("meta"):
        layers = [m for _ in range(6) for m in (nn.Linear(width, width), nn.GELU())]
        model = nn.Sequential(*layers).bfloat16()
        data = torch.empty(batch, width, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model(data).square().mean().backward()
    optimizer.zero_grad()
    with VirtualGPU() as gpu:
        model(data).square().mean().backward()
        optimizer.step()
    return gpu


for width, batch in ((256, 32), (4096, 16384)):
    calls = noted_step(width, batch).calls
    python, work = (sum(call[n] for call in calls) for n in (0, 1))
    busy = f"Python {python:.0f} µs, GPU {work:,.0f} µs"
    print(f"width {width}, batch {batch}: {busy}\n    {in_words(calls)}")

# %% [markdown]
# The small step is bound by Python, the large one by the GPU. On an H200 the kernels of these two steps took 102 and
# 15,580 µs, and Python needed 1,480 and 2,460 to queue them. The queue has room for 1022 kernels; when it is full,
# Python has to wait. Fewer kernels help if Python is the limit: one step of AdamW on 12 matrices queued 96 kernels one
# by one, 8 with `foreach` and 2 with `fused=True`, in 1,071, 238 and 80 µs.
#
# To time a real step, warm up, synchronize and repeat. (Without synchronize, a product of two matrices of 4096 seemed
# to take 0.2 ms there; it took 2.8.) Or let `torch.utils.benchmark` do all that. It uses one thread unless you say
# otherwise.
#
# **Now you know.** Read numbers late, seldom and together.

# %% exercise="hidden-syncs"
# %% exercise="two-lanes"

# %% [markdown]
# ## 13.7 Arithmetic against traffic
#
# A kernel takes as long as its arithmetic or its memory traffic, whichever is longer. Which one it is depends on the
# number of FLOPs per byte. The number at which a machine changes from one to the other is its *ridge*.
#
# **Predict.** An H100 does 989 TFLOP/s in bfloat16 and moves 3.35 TB/s (data sheet). A matrix of 4096 by 4096 is
# multiplied with 1, 64, 512 or 4096 rows. From how many rows on is arithmetic the limit?

# %%
for rows in (1, 64, 344, 345, 512, 4096):
    flops, moved = 2 * rows * 4096 * 4096, 2 * (2 * rows * 4096 + 4096 * 4096)
    _, bound = roofline(flops, moved, 989e12, 3.35e12)
    print(f"{rows:5} rows: {flops / moved:7.1f} FLOPs for each byte, bound by {bound}")

# %% [markdown]
# Arithmetic is the limit from 345 rows on. The ridge of this machine is 989 / 3.35 = 295 FLOPs per byte. With few rows,
# nearly all traffic is the matrix. Each of its numbers has 2 bytes and takes part in 2 FLOPs per row, so there are
# about as many FLOPs per byte as there are rows. The traffic of the rows themselves moves the limit from 295 to 345.
#
# That is why generating text token by token is bound by memory traffic: on an H200 this product took 13 µs with 1 row,
# 12 with 64, 25 with 512 and 173 with 4096. Operations without a product, such as GELU or a norm, are bound by traffic
# on each of the machines below.

# %%
roofline_explorer()

# %% [markdown]
# FlopCounterMode counts FLOPs without a GPU, but it has limits.


# %% facts=["13-flop-counter-sees-all", "13-six-n-d", "13-freezing-saves-backward"]
def counted_flops(call: Callable[[], object]) -> int:
    """What FlopCounterMode says."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


q = torch.randn(1, 4, 64, 32)
on_meta = q.to("meta")
attention = counted_flops(lambda: F.scaled_dot_product_attention(on_meta, on_meta, on_meta))
print("attention on meta: ", attention)
print("matrix times vector:", counted_flops(lambda: torch.randn(3, 4) @ torch.randn(4)))

trained, frozen = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
frozen.requires_grad_(False)
orders = {"frozen last": (trained, frozen), "frozen first": (frozen, trained)}
for name, pair in orders.items():
    net = nn.Sequential(*pair)
    total = counted_flops(lambda net=net: net(torch.randn(8, 64)).sum().backward())
    print(f"{name}: {total // (2 * 8 * 64 * 64)} products")

# %% [markdown]
# It has formulas for some operations and counts 0 for the others, such as matrix times vector and LSTM. The cell counts
# attention on meta, because on torch 2.13 there is no formula for attention on the CPU; 2.15 has one (the table at the
# end has the proof). The rule "6 FLOPs for each parameter and token" is 2 for forward, 2 for the gradient of the input
# and 2 for that of the weight. A frozen layer after a trained one saves only the last two. (Without a frozen layer, the
# two layers above make 5 products: 2 forward, 2 for the weights and 1 for the input of the second layer.)
#
# This is the network of the next exercise, in which every product is written out.

# %%
print(inspect.getsource(Block))
print(inspect.getsource(GPT))

# %% [markdown]
# **Now you know.** Count before you tune, because fewer FLOPs don't make a kernel faster if it is bound by traffic.

# %% exercise="step-flops"

# %% [markdown]
# ## 13.8 Reading a trace
#
# A profiler's trace is a list of spans. The *self time* of a span is its length minus the spans inside it. The spans
# below are constructed. `torch.profiler` records spans with these names for `linear(x).relu()` on a CPU, and
# `export_chrome_trace` writes a name, a beginning and a length for each, but we made up the times, in round numbers.


# %% facts=["13-profiler-total-adds-up"]
def self_times(spans: list[tuple[str, int, int]]) -> Counter[str]:
    """The time of each name without the spans inside; a span is (name, begin, length)."""
    own: Counter[str] = Counter()
    around: list[tuple[str, int, int]] = []
    for name, begin, length in sorted(spans, key=lambda span: (span[1], -span[2])):
        while around and around[-1][1] + around[-1][2] <= begin:
            around.pop()
        if around:
            own[around[-1][0]] -= length
        own[name] += length
        around.append((name, begin, length))
    return own


spans = [
    ("aten::linear", 0, 60),
    ("aten::t", 3, 6),
    ("aten::transpose", 5, 3),
    ("aten::addmm", 12, 45),
    ("aten::copy_", 16, 9),
    ("aten::relu", 62, 12),
    ("aten::clamp_min", 64, 9),
]
for name, time in self_times(spans).items():
    print(f"{name:15} {time:2} µs itself")
totals = sum(length for _, _, length in spans)
print("they add up to", self_times(spans).total(), "and the totals to", totals)

# %% [markdown]
# The self times add up to the time in which an operation ran, while the totals count `addmm` a second time within
# `linear`. On a GPU a trace has two lanes, and the most useful thing in it is a gap. This trace is constructed. The
# outlined call, a long piece of Python's own work, causes the first gap.

# %%
gap_every_third()

# %% [markdown]
# **Now you know.** A gap in the GPU's lane has its cause in Python's lane above it.
#
# ## On a GPU
#
# The cell repeats three things of this chapter on a real GPU. It creates a tensor of one number, it runs the trace *in
# pieces* in a process that may use 100.5 MiB, and it makes PyTorch warn about the lines that wait and compares them
# with the counts of `waits`. Without a CUDA device it shows what it printed on an H200.


# %% facts=["13-rounded-to-512", "13-item-always-waits"] varies="a CUDA device changes what is shown"
@cuda_demo("13_memory_time")
def pieces_and_waits() -> None:
    """One number, the trace "in pieces" within 100 MiB, and the lines that wait."""

    def numbers() -> str:
        return f"allocated {torch.cuda.memory_allocated()}, reserved {torch.cuda.memory_reserved()}"

    def bytes_of(count: int) -> Tensor:
        return torch.empty(count * mib, dtype=torch.uint8, device="cuda")

    gc.collect()
    torch.cuda.empty_cache()
    one = torch.ones(1, device="cuda")
    print("one number:", numbers())
    del one
    print("freed:     ", numbers())
    torch.cuda.empty_cache()
    print("emptied:   ", numbers())

    total = torch.cuda.get_device_properties("cuda").total_memory
    torch.cuda.set_per_process_memory_fraction(100.5 * mib / total)
    try:
        passing = bytes_of(58)
        del passing
        staying = bytes_of(2)
        print("in pieces: ", numbers())
        try:
            bytes_of(57)
        except torch.OutOfMemoryError as error:
            print(textwrap.fill(str(error).partition("  See documentation")[0], 84))
        del staying
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)

    values = torch.rand(1000, device="cuda")
    loss = values.mean()
    lines = {
        "loss.item()": lambda: loss.item(),
        "print(loss)": lambda: str(loss),
        "values[values > 0.5]": lambda: values[values > 0.5],
        "torch.where(values > 0.5, …)": lambda: torch.where(values > 0.5, values, 0.0),
        "torch.empty(1000).copy_(values)": lambda: torch.empty(1000).copy_(values),
    }
    try:
        for name, line in lines.items():
            line()
            with every_warning() as warned:
                torch.cuda.set_sync_debug_mode("warn")
                line()
                torch.cuda.set_sync_debug_mode("default")
            times = sum("called a synchronizing" in str(one.message) for one in warned)
            print(f"{name:32} warnings: {times}, counted: {waits(line)[1].total()}")
    finally:
        torch.cuda.set_sync_debug_mode("default")


pieces_and_waits()

# %% [markdown]
# In the recorded run 139 GiB were free. The program was stopped by its limit, which the message names: "100.50 MiB
# allowed". The warnings and `waits` agree on which lines wait. Printing one number waits 8 times; `waits` counts the
# call once.
#
# ## 13.9 Back to the message
#
# > Tried to allocate 58.00 MiB. … total capacity of 100.00 MiB of which 42.00 MiB is free. … 2.00 MiB is allocated by
# > PyTorch, and 56.00 MiB is reserved by PyTorch but unallocated.
#
# | what you see | what it is | what to do |
# |---|---|---|
# | allocated near the total | too much is alive at the peak | find the peak (section 13.1), checkpoint (section 13.5) |
# | much reserved but unallocated | fragmentation | expandable segments, or `empty_cache()` in time (section 13.3) |
# | allocated grows from step to step | a forgotten holder | look for the holder (section 13.2) |
# | one request larger than total minus allocated | a single tensor is too large | cut the operation into parts |
#
# In our message 2 of 100 MiB are allocated and 56 are reserved but unallocated, so the second row applies.
#
# `nvidia-smi` shows more than what is reserved. On an H200 it showed 612 MiB for a process that had reserved 2, because
# the CUDA context and the code of kernels are also on the GPU. "This process has … memory in use" also counts them.
#
# ## Folklore, checked
#
# The table lists what people say about memory and time, and whether it is true. Each row has a proof that you can
# expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("13_memory_time")

# %%
prove("13-evaluation-doubles")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html): asynchronous execution and memory
#   management;
# - [Understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html): how to record a
#   snapshot;
# - [`torch.utils.checkpoint`](https://docs.pytorch.org/docs/stable/checkpoint.html);
# - [`torch.profiler`](https://docs.pytorch.org/docs/stable/profiler.html).
#
# **Next:** chapter 14, [torch.compile: captured, guarded, broken](../14_compile/compile.ipynb).
