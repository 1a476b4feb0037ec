# %% [markdown]
# # Install and backends
#
# A script runs on your laptop. On the machine with the GPU it stops with *Expected all tensors to be on the same
# device*. Or it runs, but doesn't use the GPU at all. Hours can go by before somebody asks the right one of three
# questions: where is this tensor, in which format are its numbers stored, and which build of PyTorch is this? After
# this chapter you can
#
# - choose a device once, in a way that also works on the next machine, and move a model and its batches there;
# - predict what float32, float16 and bfloat16 do to a number, and what the default dtype changes;
# - turn "CUDA error: device-side assert triggered" into the label that caused it;
# - say what fills the memory of a training step, and which part of it grows with the batch;
# - read a report about any machine and say why its GPU is not used.
#
# **55 minutes to read, 104 minutes to practise, 20 points.** You need Python, and you should have run a training loop
# once: model, loss, `backward()`, `step()`. You don't need a GPU.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it. Then click on the grey line below it, the check cell, and
# also run that. It tells you at once whether your answer is right, and if not, what is wrong and why.

# %% setup=true
import gc
import math
import os
import re
import subprocess
import sys
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from torch import Tensor, nn
from torch.torch_version import TorchVersion
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from torchkata.demos import error_of, results_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo, machine_report
from torchkata.pictures.call_path import call_path
from torchkata.pictures.float_bits import float_explorer
from torchkata.pictures.late_error import Call, late_error
from torchkata.pictures.memory_bars import memory_bars, memory_explorer
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    separation,
)

# %% [markdown]
# Here is that error without a GPU. The model is moved to a device called `meta`, which every PyTorch has (section 1.1
# explains it), and its input is created there. The message differs a little from that of a GPU.


# %% facts=["01-all-operands-same-device", "01-module-to-is-inplace"]
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.ones(2))
        self.factor = torch.ones(2)

    def forward(self, x):
        return self.factor * (self.weight * x + self.shift)


model = Scale().to("meta")
error_of(lambda: model(torch.ones(2, device="meta")))

# %% [markdown]
# Besides the input, three tensors take part, and one of them was not moved. Which one, and why? Section 1.2 has the
# answer, and in Exercise 1.3 you fix a larger model that has this fault and two related ones.
#
# To see where the error comes from, follow one operation on its way down through PyTorch. Chapters 1 to 4 each
# highlight a part of this picture.

# %%
call_path("dispatcher")

# %% [markdown]
# The *dispatcher* looks at the devices of the tensors, at their layout (dense or sparse) and at what is switched on,
# such as autograd or autocast. From these it picks the *kernel*, the compiled code for that device. It doesn't look at
# the dtype; inside the kernel, the dtype decides which version of the loop runs. Here the kernel got tensors from two
# devices and refused. This chapter is about the labels.
#
# ## 1.1 A device is a label
#
# Nearly every program names a device at the top, as if that were a switch. It does less than that.
#
# **Predict.** Which of these four raise on a machine without a GPU?
#
#     torch.device("cuda:7")
#     torch.device("gpu")
#     torch.device("meta")
#     torch.zeros(1, device="cuda")

# %% facts=["01-device-strings", "01-device-index-out-of-range"] varies="a GPU changes the answers"
results_of(
    {
        'torch.device("cuda:7")': lambda: torch.device("cuda:7"),
        'torch.device("gpu")': lambda: torch.device("gpu"),
        'torch.device("meta")': lambda: torch.device("meta"),
        'torch.zeros(1, device="cuda")': lambda: torch.zeros(1, device="cuda"),
    }
)

# %% [markdown]
# The second and the fourth line raise. A `torch.device` is a label that consists of a type and an index (or None).
# Creating one doesn't check whether that device exists, so `cuda:7` is fine everywhere. PyTorch checks only the
# spelling, and "gpu" is not a type; graphics cards from both NVIDIA and AMD are called "cuda". The error comes when you
# allocate memory there.
#
# **Predict.** A program has `device = torch.device("cuda")` at the top. Where does `torch.ones(2)` create its tensor
# after that line?

# %% facts=["01-device-object-moves-nothing", "01-cuda-vs-cuda0-identical", "01-device-types-only-cpu-and-cuda"]
device = torch.device("cuda")
print("torch.ones(2) is on", torch.ones(2).device)

print(f"\n{'written':9}{'type':7}{'index':7}equals cuda:0")
for written in ("cpu", "cuda", "cuda:0", "cuda:7", "mps", "xpu", "meta"):
    device = torch.device(written)
    print(f"{written:9}{device.type:7}{device.index!s:7}{device == torch.device('cuda:0')}")

# %% [markdown]
# It creates the tensor on the CPU, because a label doesn't move anything.
#
# The table shows that labels are compared part by part. "cuda" has no index and means *the current* CUDA device, so it
# is not equal to `cuda:0`, even when both refer to the same card. The `.device` of a tensor on a GPU always has an
# index. The test `x.device == torch.device("cuda")` is therefore never true; use `x.is_cuda` or `x.device.type`. The
# CPU has a similar case:

# %% facts=["01-cuda-vs-cuda0-identical"]
x = torch.ones(2, device="cpu:0")
print("x.device:", x.device, "  equals cpu:0:", x.device == torch.device("cpu:0"))

# %% [markdown]
# The device of a CPU tensor is `cpu`, without an index. The device of a tensor is always *concrete*, in the form that
# PyTorch itself uses. Before you compare labels, convert them to that form.
#
# One label is special.

# %% facts=["01-device-types-only-cpu-and-cuda"]
huge = torch.empty(100_000, 100_000, device="meta")
product = huge @ huge.T
print("product:", tuple(product.shape), product.dtype, product.device)
error_of(lambda: product[0, 0].item())

# %% [markdown]
# A tensor on the device `meta` has a shape, a dtype and a device, but no data. These 40 GB of float32 cost nothing, and
# operations on them compute shapes and nothing else. In the picture at the beginning, the kernels for `meta` compute
# shapes, and there is no storage below them, that is, no memory with numbers in it. Because every build has `meta`,
# this chapter uses it as "the other device". With it you can find out where tensors end up, which shapes come out and
# which operations are refused. You can't test values or speed, and modules are moved in a different way (section 1.2).
#
# Now let's choose a device.

# %% facts=["01-device-choice-idiom"] varies="a GPU changes the answers"
old_way = torch.device("cuda" if torch.cuda.is_available() else "cpu")

if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")

made = torch.ones(1, device=device)
print("old way:", old_way, "  portable way:", device, "  a tensor made there:", made.device)

# %% [markdown]
# An *accelerator* is whatever the machine has besides the CPU: cuda, mps (Apple), xpu (Intel) and others; see
# [`torch.accelerator`](https://docs.pytorch.org/docs/stable/accelerator.html). The old way is still right if CUDA and
# the CPU are all you care about. Either way, choose once, at the top, and pass `device` along.
#
# `current_accelerator()` returns the accelerator that this PyTorch was *built* for, without an index. It doesn't know
# whether the machine has one, so the code asks `is_available()` first.
#
# **Now you know.** A device is a name. Only when you create a tensor there do you get memory on that device, or an
# error.

# %% exercise="resolve-device"

# %% [markdown]
# ## 1.2 Tensors return, modules change
#
# Tensors and modules both have a method `.to(device)`, but the two do different things. Confusing them is the most
# common cause of the error above.
#
# **Predict.** After `x.to("meta")` and `model.to("meta")`, where are `x` and `model.weight`?

# %% facts=["01-tensor-to-returns-new", "01-module-to-is-inplace"]
x = torch.ones(2)
model = nn.Linear(2, 2)

x.to("meta")
result = model.to("meta")

print("x:", x.device, "  model.weight:", model.weight.device, "  the same module:", result is model)
print('x.to("cpu") is x:', x.to("cpu") is x)

model = nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
weight = model.weight
kept = model.double().weight is weight
print("double: still the same Parameter:", kept, " Adam's average:", end=" ")
print(optimizer.state[weight]["exp_avg"].dtype)
print("meta:   still the same Parameter:", model.to("meta").weight is weight)

# %% [markdown]
# `x` is still on the CPU, and `model.weight` is on `meta`. `Tensor.to` returns a tensor and leaves `x` where it is, and
# here nobody kept the result. If there is nothing to do, it returns `x` itself. `Module.to` changes the module: it
# moves the parameters and buffers and returns the module itself. So you need the assignment in `x = x.to(device)`, for
# each batch and also for its labels, but not for `model.to(device)`.
#
# The last two lines of the output matter for an optimizer, which keeps the Parameter objects that it was given.
# `Module.to` usually keeps those objects and [puts new data into
# them](https://docs.pytorch.org/docs/stable/future_mod.html), so an optimizer created earlier still trains the model.
# But it doesn't convert the state that the optimizer already has, so Adam's averages stayed float32. `meta` is an
# exception: there the module gets new Parameters, which an older optimizer doesn't have. So move the model first, and
# create the optimizer afterwards.
#
# Back to the model of the opening. What did `.to("meta")` move?

# %% facts=["01-module-to-is-inplace", "01-all-operands-same-device"]
model = Scale().to("meta")
for name in ("weight", "shift", "factor"):
    print(f"{name:7} is on {getattr(model, name).device}")


class OwnTo(nn.Module):
    def to(self, *args, **kwargs):
        raise RuntimeError("this is never called")


nn.Sequential(OwnTo()).to("meta")

there, number = torch.ones(2, device="meta"), torch.tensor(2.0)
print("there * number is on", (there * number).device)
error_of(lambda: torch.stack([there.sum(), number]))

# %% [markdown]
# A module knows its parameters and its *buffers* (tensors that move with the module and aren't trained), but not a
# tensor in a plain attribute, so `factor` was not moved. As a rule, all tensors in one operation must be on one device
# (inputs, labels, an initial state, a mask), and only what is registered follows the model.
# `self.register_buffer("factor", …)` registers `factor`, and `persistent=False` keeps it out of the checkpoint.
# Overriding `to` so that it also moves `factor` doesn't solve the problem, because a parent module never calls the `to`
# of its children, as the cell shows.
#
# There are exceptions. The line before the error shows the most common one: a CPU tensor without dimensions, that is, a
# single number, may be an operand of an *elementwise* operation such as `*`, `+` or `torch.where` on any device. (An
# index in square brackets may also be on the CPU.) Other operations refuse such a number. For example, you get this
# error if you `torch.stack` losses from two devices. And don't rely on the error while you practise with `meta`: in
# torch
# 2.13, a bare `torch.mm` of a CPU matrix and a meta matrix is not refused and returns meaningless numbers. Check
# `.device` instead.
#
# **Change one line.** The next cell lists the operations that PyTorch runs when a new tensor should be on another
# device. How would you write the line in the block so that only one operation is left?


# %% facts=["01-randn-to-device-creates-there"]
class OperationLog(TorchDispatchMode):
    """Note the name of each operation that PyTorch runs."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


with OperationLog() as log:
    torch.randn(3, 1).to("meta")
print("made, then moved:", log.names)

# %% [markdown]
# Name the device in the call that creates the tensor:

# %% facts=["01-randn-to-device-creates-there"]
with OperationLog() as log:
    torch.randn(3, 1, device="meta")
print("made there:", log.names)

# %% [markdown]
# The first version creates the tensor on the CPU and then copies it, and in a training loop it does so in every step.
# Inside `forward`, create new tensors where they are needed: `torch.zeros(…,
# device=x.device, dtype=x.dtype)`, `torch.zeros_like(x)` or `x.new_zeros(…)`.
#
# **Now you know.** Assign what `Tensor.to` returns; register what should move with a module; create new tensors where
# the input is.

# %% exercise="move-batch"

# %% exercise="fix-hidden-cpu-tensors"

# %% [markdown]
# ## 1.3 How a number is stored
#
# The other part of a tensor's label is its dtype. It decides how many bytes a number takes, which kernel runs, and
# which numbers can be represented at all.
#
# Here are four numbers in the two 16-bit formats:

# %% facts=["01-bf16-range-versus-precision"]
print(f"{'':8}{'float16':>18}{'bfloat16':>25}")
for number in (257.0, 70000.0, 1e-8, 0.1):
    x = torch.tensor(number)
    print(f"{number:<8g}{x.half().item():>18}{x.bfloat16().item():>25}")

# %% [markdown]
# One float16 result is infinite, one is zero, and one is exact. The exponent bits decide the range, the fraction bits
# the precision, and the two share 16 bits. float16 spends them on precision: 257 is exact and 0.1 is nearly right, but
# the range ends at 65504, and numbers that are too small become 0. bfloat16 spends them on range: 70000 and 1e-8
# survive with two or three digits, but between 256 and 512 it has only the even numbers.
#
# A floating point number has three groups of bits: the *sign*, the *exponent* (which power of two) and the *fraction*
# (where between this power of two and the next). The explorer opens with 257 in bfloat16. Press *next above* a few
# times and watch the fraction count. Then change the format to float16, which can represent 257. (The error is measured
# against Python's own number, which is a float64.)

# %%
float_explorer()

# %% [markdown]
# Try these:
#
# - 70000 in float16, then *next below*: you get 65504, the largest finite number.
# - 1e-8 in float16 is 0. *next above* gives the smallest positive number of float16. It is *subnormal*: the exponent
#   can't get any smaller, so the number has no leading 1, and it loses precision bit by bit.
# - 1/3 in float16, bfloat16 and float32: the same pattern 0101…, rounded at different places.
#
# **By hand.** With f fraction bits, the next number after 1 is 1 + 2^-f, and the distance between the two is called
# `eps`. bfloat16 has 7 fraction bits. What is its `eps`? If you add 0.001 to a bfloat16 weight of 1 a hundred times,
# how many of these steps change it?

# %% facts=["01-float-format-bit-table"]
print(f"{'':10}{'exponent':>10}{'fraction':>10}{'eps':>11}{'smallest normal':>18}{'max':>11}")
for dtype, exponent, fraction in (
    (torch.float32, 8, 23),
    (torch.float16, 5, 10),
    (torch.bfloat16, 8, 7),
):
    info = torch.finfo(dtype)
    assert info.eps == 2.0**-fraction
    assert info.smallest_normal == 2.0 ** (2 - 2 ** (exponent - 1))
    name = str(dtype).removeprefix("torch.")
    numbers = f"{info.eps:11.3g}{info.smallest_normal:18.3g}{info.max:11.3g}"
    print(f"{name:10}{exponent:10}{fraction:10}{numbers}")

weight = torch.tensor(1.0, dtype=torch.bfloat16)
for _ in range(100):
    weight += 0.001
print("after 100 steps of 0.001:", weight.item())

# %% [markdown]
# `eps` is 1/128, and none of the steps changes the weight, because each is smaller than half of `eps` and is rounded
# away. (The exponent bits determine the smallest normal number, 2 to the power of 2 - 2^(exponent bits - 1).) bfloat16
# has as many exponent bits as float32, so a bfloat16 number is a float32 rounded to its first 16 bits. Chapter 8 builds
# on this.
#
# Which format do you get if you don't ask for one?
#
# **Predict.** The default dtype is set to float64. Which of the lines below print float64?

# %% facts=["01-default-dtype-float32", "01-factories-follow-default-dtype"]
before = torch.tensor(1.5)
array = np.zeros(2, dtype=np.float32)
makers = {
    "torch.tensor(1.5)": lambda: torch.tensor(1.5),
    "torch.zeros(2)": lambda: torch.zeros(2),
    "torch.arange(3.0)": lambda: torch.arange(3.0),
    "nn.Linear(2, 2).weight": lambda: nn.Linear(2, 2).weight,
    "torch.tensor([1, 2])": lambda: torch.tensor([1, 2]),
    "torch.tensor([1, 2]) / 2": lambda: torch.tensor([1, 2]) / 2,
    "torch.from_numpy(array)": lambda: torch.from_numpy(array),
    "before": lambda: before,
}

usual = {name: make().dtype for name, make in makers.items()}
torch.set_default_dtype(torch.float64)
try:
    for name, make in makers.items():
        print(f"{name:26}{usual[name]!s:15} -> {make().dtype}")
finally:
    torch.set_default_dtype(torch.float32)

error_of(lambda: torch.set_default_dtype(torch.int64))

# %% [markdown]
# The default dtype applies to floating point numbers that are *newly created* without a `dtype`; normally it is
# float32. Whole numbers stay int64. Tensors that already exist keep their dtype, and so does a NumPy array that you
# wrap. (A division of whole numbers creates floating point numbers, so it uses the default.) The default is one setting
# for the whole program and also affects other people's modules. It is safer to pass `dtype=`.
#
# **Now you know.** Exponent bits decide the range, fraction bits the precision. If you don't ask for a dtype, you get
# float32.

# %% exercise="moves-apart"

# %% exercise="smallest-float"

# %% [markdown]
# ## 1.4 Errors that arrive late
#
# A class label in the batch is wrong, and the GPU blames a line that has nothing to do with it. If you know why, you
# can find that class label in minutes.
#
# Let's start on the CPU.
#
# **Predict.** There are three classes, 0, 1 and 2. Which of the labels 5, -1 and -100 does `F.cross_entropy` refuse?

# %% facts=["01-negative-target-out-of-bounds", "01-rerun-on-cpu-for-clear-error"]
logits = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]])


def loss_of(labels: list[int]) -> str:
    return f"loss {F.cross_entropy(logits[-len(labels) :], torch.tensor(labels)):.4f}"


results_of(
    {
        "labels 5, 0": lambda: loss_of([5, 0]),
        "labels -1, 0": lambda: loss_of([-1, 0]),
        "labels -100, 0": lambda: loss_of([-100, 0]),
        "the second row alone, label 0": lambda: loss_of([0]),
        "labels -100, -100": lambda: loss_of([-100, -100]),
    }
)

# %% [markdown]
# It refuses 5 and -1; no negative label means "the last class". The label -100 is the default of `ignore_index`. Its
# row is skipped silently and the mean is taken over the other rows, which is why the third loss is that of the second
# row alone. If no other row is left, the result is nan.
#
# On the CPU an operation checks its indices, and it has finished before Python goes on to the next line. So the
# traceback ends at the faulty line, and the message often gives the number. On a GPU Python only *queues* the work and
# goes on. When the GPU finds the bad label, Python is already somewhere else, and the error is reported at the line
# where Python notices it.
#
# **Predict.** In the picture, Python queues four calls. The first is `cross_entropy`, which computes the loss from a
# bad label; `item()` is the first that needs a number from the GPU. Which line is blamed?

# %% facts=["01-async-error-points-at-wrong-line"]
calls = [
    Call("loss", work=4, faulty=True),
    Call("double", work=2),
    Call("backward", work=3),
    Call("item", work=1, waits=True),
]
late_error(calls)

# %% [markdown]
# The last line is blamed, although it did nothing wrong. Python may notice the error in any later call that talks to
# the GPU, and at the latest in one that waits for it. After such an error no CUDA call works in this process any more,
# not even a correct one.
#
# The remedy is an environment variable. With `CUDA_LAUNCH_BLOCKING=1`, Python waits for every call.

# %% facts=["01-cuda-launch-blocking"]
late_error(calls, blocking=True)

# %% [markdown]
# Now the right line is blamed, but everything is slow, because Python and the GPU no longer work at the same time. The
# variable is read when CUDA starts, so setting it after the error, in the same process, is too late.
#
# Alternatively, run the batch on the CPU. The next cell runs the training step as a separate program, and the error
# names the line and the label at once:

# %% facts=["01-rerun-on-cpu-for-clear-error"]
PROGRAM = """
import sys, torch, torch.nn.functional as F
device = sys.argv[1]
logits = torch.zeros(4, 3, device=device, requires_grad=True)
labels = torch.tensor([0, 2, 5, 1], device=device)
loss = F.cross_entropy(logits, labels)
double = loss * 2
double.backward()
print(double.item())
"""


def blame(device: str, **environment: str) -> None:
    """Run PROGRAM in a process of its own; print the line that is blamed and the error."""
    plain = {"PYTHON_COLORS": "0", "CUDA_LAUNCH_BLOCKING": "0"}
    environment = {**os.environ, **plain, **environment}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, device],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    places = re.findall(r'File "<string>", line (\d+)', run.stderr)
    errors = re.findall(r"^[\w.]*Error: .*", run.stderr, re.MULTILINE)
    asserts = re.findall(r"Assertion .* failed", run.stderr)
    print("blamed:", PROGRAM.splitlines()[int(places[0]) - 1] if places else "no line")
    print("error: ", errors[-1] if errors else "none")
    if asserts:
        print("kernel:", asserts[0])


blame("cpu")

# %% [markdown]
# The recipe for "CUDA error: device-side assert triggered":
#
# 1. Don't trust the line. Start a fresh process.
# 2. Run the same batch on the CPU: move the model with `model.to("cpu")`, and move the batch. Usually the error now
#    names the index.
# 3. If that takes too long, run with `CUDA_LAUNCH_BLOCKING=1`.

# %% [markdown] facts=["01-copy-forces-sync"]
# Which calls wait, apart from `item()`? All calls that need values, or whose result has a size that depends on values:
# `.cpu()`, `.tolist()`, printing, `if` on a tensor, `nonzero()`, `x[mask]`, `unique()`. A copy from ordinary CPU memory
# to the GPU also waits, but a copy from *pinned* memory (which the system promises not to move) with
# `non_blocking=True` need not. To wait on purpose, call `torch.accelerator.synchronize()`. If you time a GPU, call it
# before you read the clock, because otherwise you measure only the queueing. (The list follows the documentation.)
#
# One trap on the CPU, before the exercise: labels may be stored as uint8, which can represent 0 to 255. Is 255 ≥ 300?

# %%
labels = torch.tensor([255], dtype=torch.uint8)
print("uint8:", (labels >= 300).tolist(), "  int64:", (labels.long() >= 300).tolist())

# %% [markdown]
# In torch 2.13, a uint8 of 255 counts as at least 300, because 300 is first converted to uint8, where it wraps around
# to 44 ([a known issue](https://github.com/pytorch/pytorch/issues/101653)). Convert to int64 before you compare
# with a number that may not fit.
#
# **Now you know.** A GPU's error names the line where Python noticed. The CPU's error names the line that met the bad
# value.

# %% exercise="find-bad-labels"

# %% [markdown]
# ## 1.5 What fills the memory, what takes the time
#
# "Out of memory: reduce the batch size." This helps only if what fills the memory depends on the batch.
#
# A training step keeps four things in memory: the parameters, their gradients, the state of the optimizer, and the
# *activations*, which are what autograd keeps from the forward pass for the backward pass.
#
# **By hand.** Count the first three, with paper and pencil, for Linear(256, 512), ReLU, Linear(512, 10) with
# cross-entropy and Adam, in float32, for a batch of 64. For the activations, guess which tensors backward needs. Which
# of the four become smaller if you halve the batch?

# %% facts=["01-memory-is-params-plus-intermediates"]
batch = 64
numbers = 256 * 512 + 512 + 512 * 10 + 10  # weight and bias, twice
kept = {
    "the batch, input of the first layer": batch * 256 * 4,
    "after ReLU, input of the second layer": batch * 512 * 4,
    "logarithms of the probabilities": batch * 10 * 4,
    "the labels, int64": batch * 8,
    "the number of labels, for the mean": 4,
}

print(f"{4 * numbers:9,}  parameters: {numbers:,} numbers of 4 bytes")
print(f"{4 * numbers:9,}  gradients: the same")
print(f"{8 * numbers:9,}  Adam: two numbers for each parameter")
print(f"{sum(kept.values()):9,}  activations:")
for what, size in kept.items():
    print(f"           {size:9,}  {what}")

# %% [markdown]
# Only the activations become smaller. Now let's measure. This function runs one training step and counts the bytes of
# real tensors:

# %% facts=["01-memory-is-params-plus-intermediates"]
for batch in (64, 128):
    bars = [f"{name} {size:,}" for name, size in memory_bars(batch).items()]
    print(f"batch of {batch}:", ", ".join(bars))

# %% [markdown]
# The measurement agrees with the count. (Adam also keeps a step counter of 4 bytes for each of the four parameter
# tensors.) Move the slider, and change the optimizer:

# %% facts=["01-memory-is-params-plus-intermediates"]
memory_explorer()

# %% [markdown]
# In this small model, most of the memory depends on the parameters. In a deep network with long inputs the activations
# often take the most, and then a smaller batch helps. If parameters, gradients and optimizer state don't fit by
# themselves, no batch size does.
#
# On a GPU, the message of an out-of-memory error gives two sums. *Allocated* memory is in your tensors, and *reserved*
# memory is what PyTorch has taken from the driver, including the blocks that it keeps for the next tensors ([how memory
# is managed](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)). [Chapter
# 13](../13_memory_time/memory_time.ipynb) reads the whole message, and finds the moment at which a step needs the most.
#
# How can you see what autograd keeps? Give it two functions. PyTorch calls the first with each tensor that is saved and
# keeps what it returns. When the backward pass needs the tensor, PyTorch calls the second, which undoes what the first
# did.


# %%
def show(saved: Tensor) -> Tensor:
    """Print what is saved, and keep the same numbers in a tensor without a history."""
    size = saved.untyped_storage().nbytes()
    print(f"saved: {tuple(saved.shape)}, {saved.nbytes} bytes in a storage of {size}")
    return saved.detach()


rows = torch.ones(100, 6)[:4]
layers = nn.Sequential(nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 3))
with torch.autograd.graph.saved_tensors_hooks(show, lambda kept: kept):
    layers(rows)
    print("batch norm")
    nn.BatchNorm1d(6)(rows)

# %% [markdown]
# Autograd saves the input of the first layer, the output of ReLU, the same tensor again because the second layer also
# needs it, and last that layer's weight, transposed, which is needed to pass the gradient on. A batch norm saves its
# input, its weight, its running mean and variance, the mean of the batch, and 1 divided by its standard deviation. A
# *storage* is the piece of memory that contains a tensor's numbers. The four rows are a slice, so they keep the storage
# of all hundred rows alive (chapter 2).
#
# Why does `show` return `saved.detach()`, which has the same storage, and not simply `saved`? `exp` saves its own
# output. Here is `exp` with both kinds of hook. There is no backward pass, and afterwards nothing uses the output any
# more:


# %%
def stays_in_memory(pack: Callable[[Tensor], Tensor]) -> bool:
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        output = torch.ones(3, requires_grad=True).exp()
    remembered = weakref.ref(output)
    del output
    gc.collect()
    return remembered() is not None


print("the hook returns saved:         ", stays_in_memory(lambda saved: saved))
print("the hook returns saved.detach():", stays_in_memory(lambda saved: saved.detach()))

# %% [markdown]
# The output refers to its graph (`output.grad_fn`), and the graph now refers to that same output. Python's garbage
# collector doesn't see this cycle, since half of it is in C++. If an operation of the forward pass saves its own
# output, as `exp` and ReLU do, a hook that returns `saved` therefore leaks the graph with all that it keeps, unless a
# backward pass follows. A detached tensor has no graph, so there is no cycle.
#
# **Predict.** Adam keeps two numbers for each parameter. Do they exist after the first `backward()`?

# %% facts=["01-momentum-used-in-backward"]
model = nn.Linear(256, 512)
optimizer = torch.optim.Adam(model.parameters())


def state_bytes() -> int:
    return sum(value.nbytes for entry in optimizer.state.values() for value in entry.values())


print("at the start:  ", state_bytes())
model(torch.ones(1, 256)).sum().backward()
print("after backward:", state_bytes())
optimizer.step()
print("after step:    ", state_bytes(), " parameters:", sum(p.nbytes for p in model.parameters()))

# %% [markdown]
# No, they are created in the first `step()`. So a program may run out of memory there, after a forward and a backward
# pass that fitted. SGD with momentum keeps one number for each parameter, and plain SGD keeps none.
#
# Does the number of parameters tell you how long a layer takes? Here are two layers, with the arithmetic counted on
# `meta`, from shapes alone. (A FLOP is one addition or multiplication of floating point numbers.)
#
# **Predict.** Which needs more arithmetic, the linear layer with 17 million parameters or the convolution with 37
# thousand?


# %% facts=["01-param-count-vs-flops"]
def parameters_and_flops(layer: nn.Module, *shape: int) -> str:
    with FlopCounterMode(display=False) as counter:
        layer.to("meta")(torch.empty(shape, device="meta"))
    count = sum(p.numel() for p in layer.parameters())
    return f"{count:12,} parameters {counter.get_total_flops():14,} FLOPs"


linear = nn.Linear(4096, 4096, bias=False, device="meta")
conv = nn.Conv2d(64, 64, 3, padding=1, bias=False, device="meta")
print("linear, 4096 to 4096  ", parameters_and_flops(linear, 1, 4096))
print("conv 3x3, 64 to 64    ", parameters_and_flops(conv, 1, 64, 56, 56))

# %% [markdown]
# The convolution needs 7 times as much, because it uses each of its numbers at 56 · 56 places. The number of parameters
# tells you how much memory the parameters, their gradients and the optimizer need, but little about time.
#
# **Now you know.** The size of parameters, gradients and optimizer state depends on the model; only the activations
# grow with the batch.

# %% exercise="training-memory"

# %% [markdown]
# ## 1.6 Which of several GPUs?
#
# On a shared machine you are told to use "card 3". There is an environment variable for that, and there are two ways to
# get it wrong.
#
# **Predict.** A job was started with `CUDA_VISIBLE_DEVICES=3` and reports a crash on `cuda:0`. Which card is that?

# %% facts=["01-cuda-visible-devices-env", "01-visible-devices-before-import"]
code = """
import os
import torch

for value in ("3", "2,0", "", "-1", "0,-1,2", "0,0"):
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    print(f"{value!r:9} leaves the cards {torch.cuda._parse_visible_devices()}")
print("CUDA has been started:", torch.cuda.is_initialized())
"""
command = [sys.executable, "-c", code]
run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
print(run.stdout.strip())

# %% [markdown]
# It is card number 3. The variable selects *and renumbers*: the process sees the listed cards, in this order, and
# counts them from 0. An empty value hides all cards, and so does -1, because reading stops at the first entry that
# names no card. If a card is named twice, all cards are hidden. (`_parse_visible_devices` is PyTorch's own reader, a
# private function. It doesn't check whether the cards exist.) On a machine with different cards, CUDA counts the
# fastest first; set `CUDA_DEVICE_ORDER=PCI_BUS_ID` for the order of `nvidia-smi`. Clusters use names such as `GPU-8f…`
# instead of numbers.
#
# When is the variable read? The cell changed it *after* `import torch`, six times, and PyTorch's reader followed each
# time, because it reads the variable anew. CUDA itself reads it only once, when it starts, and the import doesn't start
# CUDA. But `torch.cuda.is_available()` may start it, and most programs begin with that call. According to its source,
# it asks CUDA itself, which then reads the variable once and for all, and `is_initialized()` still says False
# afterwards. (The cell at the end of the chapter tried this on a GPU, and after that call it was too late to set the
# variable.) So set the variable in the shell, before Python starts.
#
# These two `with` blocks look alike:

# %% facts=["01-cuda-device-context-manager"] varies="a GPU changes the answers"
with torch.device("meta"):
    print("inside torch.device:     ", torch.ones(2).device)
print("after it:                ", torch.ones(2).device)


def select_card() -> None:
    with torch.cuda.device(0):
        print("inside torch.cuda.device:", torch.ones(2).device)


if torch.cuda.is_available():
    select_card()
else:
    error_of(select_card)

# %% [markdown] facts=["01-set-device-discouraged"]
# A block with `torch.device(d)` sets where new tensors are created. `torch.cuda.device(d)` only selects which card the
# word "cuda" means, so a plain `torch.ones(2)` stays on the CPU. A CPU build has no card to select, so there it raises.
#
# [`torch.cuda.set_device(d)`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_device.html) selects a card
# until further notice. Its documentation recommends `CUDA_VISIBLE_DEVICES` instead. Programs that run one process per
# GPU (chapter 10) still call it once, when they start.
#
# **Now you know.** `CUDA_VISIBLE_DEVICES` selects and renumbers cards. Set it before Python starts.
#
# ## 1.7 Is it the build, or the machine?
#
# The machine has a GPU, and PyTorch doesn't use it. Either the build or the machine is the reason, and the remedies
# differ.
#
# A *build* of PyTorch is the file that an installer put on this machine; pip's files are called *wheels*. What it can
# do was decided when it was compiled, on another machine, long ago. What *this* machine offers is known only when the
# program runs.

# %% varies="it describes your machine"
BUILT = ("torch", "build", "cuda_built", "cudnn", "mps_built", "mkldnn")
NOW = (
    "cuda_available",
    "cuda_devices",
    "mps_available",
    "xpu_available",
    "cores",
    "threads",
    "memory_gib",
)


def show_report() -> None:
    """What was fixed when this PyTorch was built, and what is known only on this machine."""
    report = asdict(machine_report())
    for title, names in (("fixed when it was built", BUILT), ("known only now", NOW)):
        print(title)
        for name in names:
            print(f"    {name:15} {report[name]}")


show_report()

# %% [markdown]
# In a terminal, `torchkata doctor` prints this and more, with advice. **Find the line.** One of the next four lines
# asks neither about your machine nor about the build. Which one?

# %% facts=["01-cudnn-is-available", "01-cudnn-enabled-is-a-switch"] varies="it describes your machine"
print("torch.backends.cuda.is_built()       ", torch.backends.cuda.is_built())
print("torch.backends.cudnn.is_available()  ", torch.backends.cudnn.is_available())
print("torch.backends.cudnn.enabled         ", torch.backends.cudnn.enabled)
print("torch.cuda.is_available()            ", torch.cuda.is_available())

# %% [markdown]
# It is `enabled`, a switch that you can turn off and that is True by default, even if there is no cuDNN. `is_built()`
# tells you what was compiled in, and so does `cudnn.is_available()`, despite its name. Only `torch.cuda.is_available()`
# checks the machine for a driver and a device. Built does not imply available.

# %% facts=["01-cuda-is-built-vs-available", "01-cuda-available-and-count"] varies="it describes your machine"
print("built for:   ", torch.version.cuda or torch.version.hip or "the CPU only")
print("tag:         ", torch.__version__.partition("+")[2] or "none")
print("at least 2.9:", torch.__version__ >= (2, 9), "  as text:", str(torch.__version__) >= "2.9")
print("cards:       ", torch.cuda.device_count())
print("kernels for: ", *(torch.cuda.get_arch_list() or ["no GPU"]))
if torch.cuda.is_available():
    print("this card:   ", "sm_{}{}".format(*torch.cuda.get_device_capability()))

# %% [markdown] facts=["01-torch-version-string"]
# `device_count()` raises on no machine; without a GPU it returns 0. `torch.__version__` compares as a version, also
# with tuples; as text, "2.13" comes before "2.9".
#
# The last lines of the cell are about an error that you can get although CUDA is available: *no kernel image is
# available for execution on the device*. A build contains machine code for some generations of cards only, and
# [`torch.cuda.get_arch_list()`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.get_arch_list.html) lists
# them: `sm_90` is for cards of capability 9.0. Code runs on cards with the [same first number and an equal or larger
# second one](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility). If your card fits
# none of them, you need another build.

# %% [markdown] facts=["01-cuda-toolkit-must-be-installed", "01-torch-version-cuda"]
# Three numbers are called "the CUDA version", and all three may differ:
#
# - `torch.version.cuda`: the CUDA version that this PyTorch was built with. Its libraries come with the wheel. It is
#   None on a CPU build.
# - the number in the corner of `nvidia-smi`: the newest CUDA that the *driver* supports. It may well be larger.
# - `nvcc --version`: the *toolkit*, a set of compilers, if one is installed at all. PyTorch uses it only to compile
# extensions.
#
# So a GPU needs a driver and a CUDA build of PyTorch. It does not need a toolkit.
#
# ### Why the installer took a CPU build
#
# A wheel's version may end in a tag that names its build: `2.13.0+cpu`, `2.13.0+cu130` (CUDA 13.0).
#
# **Predict.** `2.13.0+cpu` is installed, and a project asks for `torch==2.13.0` because it needs a GPU. Does pip
# install anything?

# %% facts=["01-conda-main-only-cpu-build"]
print('"==2.13.0" is satisfied by 2.13.0+cpu:', "2.13.0+cpu" in SpecifierSet("==2.13.0"))

offers = [Version("2.13.0+cpu"), Version("2.13.0+cu130"), Version("2.13.0")]
print("from old to new:", " < ".join(map(str, sorted(offers))))

# %% [markdown] facts=["01-conda-pytorch-channel-ended", "01-conda-main-only-cpu-build"]
# pip installs nothing, because any build satisfies `==2.13.0`, and one is already installed. Uninstall it first. If pip
# finds several builds, it takes the newest, and a version with a tag counts as newer than the same version without.
# (`Version` and `SpecifierSet` are pip's own rules.) So:
#
# - Without any option, pip asks PyPI, which has a CUDA build for Linux and none for Windows and macOS.
# - `--index-url https://download.pytorch.org/whl/cu130` asks only that index; `/cpu` has the CPU builds.
# - `--extra-index-url …/whl/cpu` asks both, and `2.13.0+cpu` wins over PyPI's CUDA build.
# - conda: use the channel conda-forge; the old channel `pytorch` ended with 2.5 ([the
#   announcement](https://github.com/pytorch/pytorch/issues/138506)). conda looks for a driver on the machine *where it
#   runs*. A login node usually has none, so conda takes a CPU build, without a tag. `"pytorch=*=cuda*"` asks for a CUDA
#   build.
#
# **Four stories.** All four machines were meant to use a GPU. What is wrong with each?
#
# | machine | `torch.version.cuda` | CUDA available | cards | driver's CUDA | `CUDA_VISIBLE_DEVICES` |
# |---|---|---|---|---|---|
# | laptop | None | False | 1 | 13.0 | – |
# | container | 13.0 | False | – | – | – |
# | old server | 13.0 | False | 4 | 12.4 | – |
# | cluster node | 13.0 | False | 4 | 13.0 | `""` |
#
# <details><summary>Answers</summary>
#
# The laptop has a CPU build, which can't use a GPU whatever the driver is. The container has no driver (a container
# gets it from outside, when it is started with GPUs). The old server's driver is too old for a build for CUDA 13. On
# the cluster node, an empty variable hides all cards.
#
# </details>
#
# **Now you know.** First check the version and the build, then driver, card and environment. The exercise uses this
# order.

# %% exercise="read-env-report"

# %% [markdown]
# ## On a GPU
#
# Two claims of this chapter need a GPU: which line is blamed (section 1.4), and when it is too late to hide a card
# (section 1.6). Without a GPU the cell shows a recorded run. No exercise needs it.


# %% facts=["01-async-error-points-at-wrong-line", "01-visible-devices-before-import"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def blamed_and_hidden() -> None:
    """The line that is blamed, as usual and blocking; the cards that are left when hidden."""
    blame("cuda")
    blame("cuda", CUDA_LAUNCH_BLOCKING="1")

    hide = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'"
    count = "print(torch.cuda.device_count(), 'cards')\ntorch.zeros(1, device='cuda')"
    programs = {
        "before the import": (hide, "import torch", count),
        "after the import": ("import torch", hide, count),
        "after is_available()": ("import torch; torch.cuda.is_available()", hide, count),
        "after the first tensor": ("import torch; torch.zeros(1, device='cuda')", hide, count),
    }
    for moment, lines in programs.items():
        command = [sys.executable, "-c", "\n".join(lines)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        made = "and a tensor" if run.returncode == 0 else "and no tensor"
        print(f"hidden {moment:23}", run.stdout.strip(), made)


blamed_and_hidden()

# %% [markdown]
# In the recorded run, `double = loss * 2` is blamed first, and with `CUDA_LAUNCH_BLOCKING=1` the faulty line is blamed.
# After `is_available()`, the variable changes only the count: PyTorch reads it again and reports 0 cards, but CUDA has
# already read it, so the tensor is still created.
#
# ## Back to the beginning
#
# When you read *Expected all tensors to be on the same device* now, print `.device` of every tensor in that line, find
# the one that no module knows, and register it. If a program silently stays on the CPU, check the build first, then the
# machine.
#
# ## Folklore, checked
#
# The table lists what people say about installing, devices and number formats, and whether it is true. Each row has a
# proof that you can expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("01_backends")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it doesn't.

# %%
prove("01-device-object-moves-nothing")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [Get Started](https://pytorch.org/get-started/locally/): the command that installs the build you want;
# - [`torch.backends`](https://docs.pytorch.org/docs/stable/backends.html): the questions of section 1.7, and more
#   switches;
# - [`torch.accelerator`](https://docs.pytorch.org/docs/stable/accelerator.html), and the section on
#   [`torch.device`](https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device) of the page "Tensor
#   Attributes";
# - [Meta device](https://docs.pytorch.org/docs/stable/meta.html);
# - [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html): asynchronous execution, how memory is
#   managed, environment variables;
# - [`torch.finfo`](https://docs.pytorch.org/docs/stable/type_info.html) and the page [Numerical
#   accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html);
# - [`torch.autograd.graph.saved_tensors_hooks`](https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.saved_tensors_hooks),
#   to see what autograd keeps.
#
# On conda-forge's pages: [NVIDIA CUDA packages](https://conda-forge.org/docs/user/cuda/).
#
# **Next:** chapter 2, [Tensors, memory and views](../02_tensors_views/tensors_views.ipynb).
