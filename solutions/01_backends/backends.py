# %% [markdown]
# # Install and backends
#
# Which PyTorch is installed, which device it can use, and in which format it keeps a number: three questions that cost
# many hours when they are asked late. After this chapter you can
#
# - read a report of any machine and name the reason why its GPU is not used;
# - choose a device once, in a way that also works on the next machine, and bring a model and its batches there;
# - predict what float32, float16 and bfloat16 make of a number, and what the default dtype changes;
# - turn "CUDA error: device-side assert triggered" into the label that caused it;
# - say what fills the memory of a training step, and which part of it grows with the batch.
#
# **45 minutes to read, 104 minutes to practise, 20 points.** You need Python, and to have run a training loop once:
# model, loss, `backward()`, `step()`. No GPU is needed.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import math
import os
import re
import subprocess
import sys
import time
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import distribution
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

from torchkata.demos import error_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo, machine_report
from torchkata.pictures.float_bits import float_explorer
from torchkata.pictures.late_error import Call, late_error
from torchkata.pictures.memory_bars import memory_bars, memory_explorer
from torchkata.verdicts import (
    check,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)

assert (torch.ones(1, device="meta") + 1).is_meta  # loads what the device meta needs; section 1.2 is about it

# %% [markdown]
# ## 1.1 Two kinds of facts: built and available
#
# A *build* of PyTorch is the file that an installer brought here. What it was compiled with was settled on another
# machine, long ago. What *this* machine offers is known only when the program runs.
#
# **Predict.** On a build without CUDA (a "CPU build"), which of these four are True?

# %% facts=["01-cudnn-is-available", "01-cudnn-enabled-is-a-switch"] varies="it describes your machine"
print("torch.backends.cuda.is_built()       ", torch.backends.cuda.is_built())
print("torch.backends.cudnn.is_available()  ", torch.backends.cudnn.is_available())
print("torch.backends.cudnn.enabled         ", torch.backends.cudnn.enabled)
print("torch.cuda.is_available()            ", torch.cuda.is_available())

# %% [markdown]
# Only `enabled`. The four answer three different questions:
#
# - *Built with?* `cuda.is_built()` tells what was compiled in. So does `cudnn.is_available()`, whatever its name says:
#   it never looks for a GPU. On a machine without one, a CUDA build answers True to both.
# - *Available?* `torch.cuda.is_available()` looks at the machine: is there a driver, and a device?
# - *Enabled?* `cudnn.enabled` is a switch for you to turn off. It is True by default, also where cuDNN does not exist.
#
# Available implies built, never the reverse. To use cuDNN, all three must be yes, and the tensor must be on the GPU.
#
# **Predict.** There is more than CUDA: MPS (Apple's GPUs), XPU (Intel's), MKL-DNN (fast operations on the CPU; its new
# name is oneDNN). For which of the five can PyTorch be asked all three questions?

# %% facts=["01-cuda-is-built-vs-available"] varies="it describes your machine"
b = torch.backends
asked = {
    "CUDA": (b.cuda.is_built(), torch.cuda.is_available(), None),
    "cuDNN": (b.cudnn.is_available(), None, b.cudnn.enabled),
    "MPS": (b.mps.is_built(), b.mps.is_available(), None),
    "XPU": (torch.version.xpu is not None, torch.xpu.is_available(), None),
    "MKL-DNN": (b.mkldnn.is_available(), None, b.mkldnn.enabled),
}

print(f"{'':9}{'built':9}{'available':11}enabled")
for name, replies in asked.items():
    built, available, enabled = ("–" if answer is None else str(answer) for answer in replies)
    print(f"{name:9}{built:9}{available:11}{enabled}")

# %% [markdown]
# For none of them. A dash means that there is no such question. Devices have no switch; the two libraries (cuDNN,
# MKL-DNN) have one, and their `is_available()` means "built".
#
# When something is wrong, ask all of this at once, and show the answer to whoever helps you. In a terminal `torchkata
# doctor` prints this report and more, with advice.


# %% varies="it describes your machine"
BUILT = ("torch", "build", "cuda_built", "cudnn", "mps_built", "mkldnn")
NOW = ("cuda_available", "cuda_devices", "mps_available", "xpu_available", "cores", "threads", "memory_gib")


def show_report() -> None:
    """What was fixed when this PyTorch was built, and what is known only on this machine."""
    report = asdict(machine_report())
    for title, names in (("fixed when it was built", BUILT), ("known only now", NOW)):
        print(title)
        for name in names:
            print(f"    {name:15} {report[name]}")


show_report()

# %% [markdown]
# A reason why a GPU isn't used stands in the upper part or in the lower part, and the cures differ: another build, or
# something about this machine.
#
# **Predict.** Which of these questions may be asked on a CPU build: `torch.cuda.device_count()`,
# `torch.backends.cudnn.version()`, `torch.cuda.get_device_name(0)`, `torch.cuda.current_device()`?

# %% facts=["01-cuda-available-and-count", "01-cudnn-version-call"] varies="a GPU changes the answers"
print("device_count:   ", torch.cuda.device_count())
print("cudnn.version():", torch.backends.cudnn.version())

# %% facts=["01-cuda-get-device-name"] varies="a GPU changes the answers"
for question in (lambda: torch.cuda.get_device_name(0), torch.cuda.current_device):
    if torch.cuda.is_available():
        print(question())
    else:
        error_of(question)

# %% [markdown]
# The first two: counting is safe everywhere, and no version is None. A question about *the* GPU has no answer where
# there is none, so it raises: ask `is_available()` first.
#
# ### The version
#
# **Predict.** The version is 2.13 or newer. Three ways to ask whether it is at least 2.9; which of them says False?

# %% facts=["01-torch-version-string"]
print("torch.__version__ >= (2, 9):    ", torch.__version__ >= (2, 9))
print('torch.__version__ >= "2.9":     ', torch.__version__ >= "2.9")
print('str(torch.__version__) >= "2.9":', str(torch.__version__) >= "2.9")
print("type:", type(torch.__version__).__name__, " a str:", isinstance(torch.__version__, str))

# %% [markdown] facts=["01-doc-is-for-2-3"]
# The third compares text, letter by letter, and "1" comes before "9". `torch.__version__` is a `TorchVersion`: a string
# that compares itself as a version, also with tuples. It matters, because notes age: since PyTorch 2.3, for instance,
# `torch.load` has become strict about what it reads, and `torch.accelerator` (section 1.2) and a new ONNX exporter have
# come.

# %% [markdown] facts=["01-cuda-toolkit-must-be-installed", "01-torch-version-cuda"]
# ### Which CUDA number is which
#
# Three numbers are called "the CUDA version", and they may all differ:
#
# - `torch.version.cuda`: with which CUDA this PyTorch was built. Its libraries come with the wheel. None on a CPU
#   build.
# - the number in the corner of `nvidia-smi`: the newest CUDA that the *driver* can serve. It may well be larger.
# - `nvcc --version`: the *toolkit*, a set of compilers, if one is installed at all. PyTorch uses it only to compile
#   extensions.
#
# So a GPU needs a driver and a CUDA build of PyTorch. It does not need a toolkit.

# %% [markdown]
# ### Why the installer took a CPU build
#
# A wheel's version may end in a tag that names its build: `2.13.0+cpu`, `2.13.0+cu130` (CUDA 13.0). What does pip make
# of the tag?
#
# **Predict.** `2.13.0+cpu` is installed, and a project asks for `torch==2.13.0` because it needs a GPU. Does pip
# install anything? And which of the three offers at the end does pip take, if it is given all of them?

# %% facts=["01-conda-main-only-cpu-build"]
print('"==2.13.0" is satisfied by 2.13.0+cpu:', "2.13.0+cpu" in SpecifierSet("==2.13.0"))

offers = [Version("2.13.0+cpu"), Version("2.13.0+cu130"), Version("2.13.0")]
print("from old to new:", " < ".join(map(str, sorted(offers))))

# %% [markdown]
# Nothing is installed: any build will do for `==2.13.0`, and one is there. And of the three offers pip takes the last
# in this order, `2.13.0+cu130`: a tag counts as newer than no tag. (`Version` and `SpecifierSet` are pip's own rules,
# from the library `packaging`.) That explains how builds come about:
#
# - Without any option, pip asks PyPI. For Linux on Intel and AMD processors PyPI has a CUDA build, for Windows and
#   macOS it has none.
# - With `--index-url https://download.pytorch.org/whl/cu130` pip asks only that index; `/cpu` in place of `/cu130`
#   holds the CPU builds.
# - With `--extra-index-url …/whl/cpu` it asks both. No index has priority: the newest version wins, and `2.13.0+cpu`
#   counts as newer than the CUDA build `2.13.0` of PyPI.
# - If a CPU build is there already, it stays. Uninstall it first.

# %% [markdown] facts=["01-conda-pytorch-channel-ended", "01-conda-main-only-cpu-build"]
# conda once had a channel `pytorch`, and the order of the channels decided which build came. That channel ended with
# PyTorch 2.5 ([the announcement](https://github.com/pytorch/pytorch/issues/138506)); old instructions with `-c pytorch`
# stop there. Today it is pip, or the channel conda-forge. There conda looks for a driver on the machine *where it
# runs*: on a login node without a GPU, or while a container is built, it finds none and silently takes a CPU build,
# which has no tag `+cpu`. `conda install -c conda-forge "pytorch=*=cuda*"` asks for the other kind.
#
# `import torch` works with either build. So ask the build itself; the tag is only a habit of some wheels:

# %% facts=["01-torch-version-cuda", "01-conda-main-only-cpu-build"] varies="it describes your build"
print("built for:   ", torch.version.cuda or torch.version.hip or "the CPU only")
print("tag:         ", torch.__version__.partition("+")[2] or "none")
print("installed by:", (distribution("torch").read_text("INSTALLER") or "unknown").strip())

# %% [markdown]
# **Predict.** Four reports, made up after real cases; all four machines were meant to use a GPU. What is wrong with
# each?
#
# | | `torch.version.cuda` | CUDA available | cards | driver's CUDA | `CUDA_VISIBLE_DEVICES` |
# |---|---|---|---|---|---|
# | laptop | None | False | 1 | 13.0 | – |
# | container | 13.0 | False | – | – | – |
# | old server | 13.0 | False | 4 | 12.4 | – |
# | cluster node | 13.0 | False | 4 | 13.0 | `""` |
#
# <details><summary>Answers</summary>
#
# The laptop has a CPU build, and no driver can make up for that. In the container there is no driver (a container gets
# it from outside, when it is started with GPUs). The old server's driver is too old for a build for CUDA 13. On the
# cluster node an empty variable hides all cards; section 1.7 is about it.
#
# </details>
#
# Read a report in this order: first the build, then driver and card, then the environment.

# %% [markdown]
# The exercise turns this order into a function.

# %% exercise="read-env-report"

# %% [markdown]
# ## 1.2 A device is a label
#
# **Predict.** Which of these four raise on a machine without a GPU?
#
#     torch.device("cuda:7")
#     torch.device("gpu")
#     torch.device("meta")
#     torch.zeros(1, device="cuda")

# %% facts=["01-device-strings", "01-device-index-out-of-range"] varies="a GPU changes the answers"
print(repr(torch.device("cuda:7")))
error_of(lambda: torch.device("gpu"))
print(repr(torch.device("meta")))

if torch.cuda.is_available():
    print(torch.zeros(1, device="cuda").device)
else:
    error_of(lambda: torch.zeros(1, device="cuda"))

# %% [markdown]
# The second and the fourth. A `torch.device` is a label: a type, and an index or None. Making one asks nobody whether
# that device exists, so `cuda:7` is fine everywhere. Only the spelling is checked, and "gpu" is no type; graphics cards
# of NVIDIA and AMD are both called "cuda". The error comes when memory is wanted there.
#
# **Predict.** `device = torch.device("cuda")` stands at the top of a program. Where is `torch.ones(2)` created after
# that line? And which of the labels below equal `torch.device("cuda:0")`?

# %% facts=["01-device-object-moves-nothing", "01-cuda-vs-cuda0-identical", "01-device-types-only-cpu-and-cuda"]
device = torch.device("cuda")
print("torch.ones(2) is on", torch.ones(2).device)

print(f"\n{'written':9}{'type':7}{'index':7}equals cuda:0")
for written in ("cpu", "cuda", "cuda:0", "cuda:7", "mps", "xpu", "meta"):
    device = torch.device(written)
    print(f"{written:9}{device.type:7}{device.index!s:7}{device == torch.device('cuda:0')}")

# %% [markdown]
# A label moves nothing. And labels are compared part by part: "cuda" has no index, it means *the current* CUDA device,
# and so it is not equal to `cuda:0`, even where both lead to the same card. The `.device` of a CUDA tensor always has
# its index. The test `x.device == torch.device("cuda")` is therefore never true; ask `x.is_cuda` or `x.device.type`.
#
# The CPU has its own form of this. **Predict.** Is a tensor that was made on `"cpu:0"` on the device
# `torch.device("cpu:0")`?

# %% facts=["01-cuda-vs-cuda0-identical"]
x = torch.ones(2, device="cpu:0")
print("x.device:", x.device, "  equals cpu:0:", x.device == torch.device("cpu:0"))

# %% [markdown]
# No: a CPU tensor says `cpu`, without an index. The device of a tensor is *concrete*, in the form that PyTorch itself
# uses. To compare labels, first bring them into that form.
#
# One label is special. **Predict.** How much memory does this matrix take, and what is in its corner?

# %% facts=["01-device-types-only-cpu-and-cuda"]
huge = torch.empty(100_000, 100_000, device="meta")
product = huge @ huge.T
print("product:", tuple(product.shape), product.dtype, product.device)
error_of(lambda: product[0, 0].item())

# %% [markdown]
# None, and nothing. A tensor on the device `meta` has shape, dtype and device, but no data; 40 GB of float32 cost
# nothing, and operations on it only work out shapes. It exists in every build, and so it serves in this chapter as "the
# other device": whatever is said about moving to a GPU can be tried with it.
#
# Now choose a device. **Predict.** Which of these two ways finds an Apple or an Intel GPU?

# %% facts=["01-device-choice-idiom"] varies="a GPU changes the answers"
old_way = torch.device("cuda" if torch.cuda.is_available() else "cpu")

if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")

print("old way:", old_way, "  portable way:", device, "  a tensor made there:", torch.ones(1, device=device).device)

# %% [markdown]
# The second. An *accelerator* is whatever the machine has besides the CPU: cuda, mps, xpu and others (page
# `torch.accelerator`). The old way is still right where CUDA and the CPU are all you care about. Either way choose
# once, at the top, and hand `device` on. Everything below it then works without a device's name in it.
#
# `current_accelerator()` tells what was *built*, without an index; that is why `is_available()` is asked before. The
# index is `torch.accelerator.current_device_index()`.

# %% exercise="resolve-device"

# %% [markdown]
# ## 1.3 Tensors return, modules change
#
# **Predict.** After these two lines, where are `x` and `model.weight`?

# %% facts=["01-tensor-to-returns-new", "01-module-to-is-inplace"]
x = torch.ones(2)
model = nn.Linear(2, 2)

x.to("meta")
result = model.to("meta")

print("x:", x.device, "  model.weight:", model.weight.device, "  the same module:", result is model)
print('x.to("cpu") is x:', x.to("cpu") is x)

# %% [markdown]
# `Tensor.to` returns a tensor and leaves `x` where it is; here the result was dropped. If there is nothing to do, it
# returns `x` itself. `Module.to` changes the module: its parameters and buffers are moved, and the module is returned.
# So `x = x.to(device)` needs its assignment, for each batch and its labels too; `model.to(device)` does not.
#
# **Predict.** `torch.randn(3, 1).to(device)`, or `torch.randn(3, 1, device=device)`: is there a difference? The next
# cell lists the operations that run.


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

with OperationLog() as log:
    torch.randn(3, 1, device="meta")
print("made there:      ", log.names)

# %% [markdown]
# The first makes the tensor on the CPU and copies it. With a large tensor in a training loop you pay for that in each
# step. Inside `forward`, make new tensors where they are needed: `torch.zeros(…, device=x.device, dtype=x.dtype)`,
# `torch.zeros_like(x)` or `x.new_zeros(…)`.
#
# **Predict.** This model has three tensors of two numbers. Which of them move with `.to("meta")`?


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
for name in ("weight", "shift", "factor"):
    print(f"{name:7} is on {getattr(model, name).device}")

error_of(lambda: model(torch.ones(2, device="meta")))

# %% [markdown]
# A module knows its parameters and its buffers. A tensor in a plain attribute it does not know, and it stays behind.
# Everything that meets in one operation must be in one place: inputs, labels, an initial state, a mask. So the forward
# pass is refused; nothing follows the model by itself.
#
# Two notes. A single number, a tensor without dimensions on the CPU, may meet tensors of any device. And do not lean on
# the error while you practise with `meta`: in torch 2.13 a bare `torch.mm` of a CPU matrix and a meta matrix is not
# refused, and returns numbers that mean nothing. Look at `.device`.

# %% exercise="move-batch"

# %% exercise="fix-hidden-cpu-tensors"

# %% [markdown]
# ## 1.4 How a number is stored
#
# **Predict.** float16 and bfloat16 both have 16 bits. What do they make of 257, 70000, 1e-8 and 0.1? (One of the eight
# results is infinite, one is zero, one is exact.)

# %% facts=["01-bf16-range-versus-precision"]
print(f"{'':8}{'float16':>18}{'bfloat16':>25}")
for number in (257.0, 70000.0, 1e-8, 0.1):
    x = torch.tensor(number)
    print(f"{number:<8g}{x.half().item():>18}{x.bfloat16().item():>25}")

# %% [markdown]
# Range and precision are bought separately. float16 spends its bits on digits: 257 is exact and 0.1 nearly right, but
# it ends at 65504, and what is too small becomes 0. bfloat16 spends them on range: 70000 and 1e-8 survive, with two or
# three digits, and between 256 and 512 it has only the even numbers.
#
# The explorer shows how. A floating point number has three groups of bits: the *sign*, the *exponent* (which power of
# two) and the *fraction* (where between this power of two and the next). It opens with 257 in bfloat16. Press *next
# above* a few times and watch the fraction count; then change the format to float16, which has room for 257. (The error
# is measured against Python's own number, which is a float64; so float64 shows none, not even for 0.1.)

# %%
float_explorer()

# %% [markdown]
# Try these:
#
# - 70000 in float16, then *next below*: you arrive at 65504, the last finite number.
# - 1e-8 in float16 is 0. *next above* gives the smallest number that float16 has. It is *subnormal*: the exponent is at
#   its end, so the leading 1 is given up and with it, bit by bit, the precision.
# - 1/3 in float16, bfloat16 and float32: the same row 0101…, rounded at different places.
#
# **Predict.** From the number of exponent and fraction bits alone: how far is it from 1 to the next number (`eps`), and
# what is the smallest normal number?

# %% facts=["01-float-format-bit-table"]
print(f"{'':10}{'sign':>5}{'exponent':>10}{'fraction':>10}{'eps':>11}{'smallest normal':>18}{'max':>11}")
for dtype, exponent, fraction in ((torch.float32, 8, 23), (torch.float16, 5, 10), (torch.bfloat16, 8, 7)):
    info = torch.finfo(dtype)
    assert info.bits == 1 + exponent + fraction
    assert info.eps == 2.0**-fraction
    assert info.smallest_normal == 2.0 ** (2 - 2 ** (exponent - 1))
    name = str(dtype).removeprefix("torch.")
    print(f"{name:10}{1:5}{exponent:10}{fraction:10}{info.eps:11.3g}{info.smallest_normal:18.3g}{info.max:11.3g}")

# %% [markdown]
# `eps` is 2 to the power of minus the fraction bits; the smallest normal number is 2 to the power of 2 - 2^(exponent
# bits - 1). The three `assert` lines say so, and they passed. bfloat16 has the exponent of float32: it is a float32
# rounded to its first 16 bits.
#
# And which format do you get when you don't ask? **Predict.** The default dtype is set to float64. Which of the lines
# below print float64?

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
# The default is float32, and it concerns floating point numbers that are *made* and that no one gave a dtype. Whole
# numbers stay int64; what exists already stays as it is, a NumPy array that is wrapped too. (A division of whole
# numbers makes floating point numbers, so it follows.) The default is one setting for the whole program: other people's
# modules see it as well. Giving `dtype=` is safer.
#
# Two exercises follow. The first looks back at sections 1.1 to 1.4; the second is about formats alone.

# %% exercise="predict-devices-and-dtypes"

# %% exercise="smallest-float"

# %% [markdown]
# ## 1.5 Errors that arrive late
#
# **Predict.** Three classes: 0, 1 and 2. Which of the labels 5, -1 and -100 does `F.cross_entropy` refuse?

# %% facts=["01-negative-target-out-of-bounds", "01-rerun-on-cpu-for-clear-error"]
logits = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]])

error_of(lambda: F.cross_entropy(logits, torch.tensor([5, 0])))
error_of(lambda: F.cross_entropy(logits, torch.tensor([-1, 0])))
print(f"with -100: {F.cross_entropy(logits, torch.tensor([-100, 0])):.4f}")
print(f"second row: {F.cross_entropy(logits[1:], torch.tensor([0])):.4f}")

# %% [markdown]
# 5 and -1. The label -100 is skipped without a word: it is the default of `ignore_index`, and the mean is taken over
# the other rows. No negative label means "the last class". Other operations are as clear on the CPU:

# %% facts=["01-rerun-on-cpu-for-clear-error", "01-negative-target-out-of-bounds"]
error_of(lambda: torch.zeros(2, 3).gather(1, torch.tensor([[5]])))
error_of(lambda: torch.zeros(2, 3).gather(1, torch.tensor([[-1]])))
error_of(lambda: F.one_hot(torch.tensor([-1, 0])))
error_of(lambda: F.one_hot(torch.tensor([5, 0]), num_classes=3))

# %% [markdown]
# On the CPU an operation has finished when its line has finished, and it checks indices itself: the error stands at the
# line that is wrong, and often names the number. On a GPU Python only *queues* the work and goes on. The GPU finds the
# bad label later. By then Python is somewhere else, and the error is reported at the line where Python notices.
#
# **Predict.** In the picture Python queues four calls. The first is `cross_entropy`, which makes the loss from a bad
# label; `item()` is the first that needs a number from the GPU. Which line is blamed?

# %% facts=["01-async-error-points-at-wrong-line"]
calls = [
    Call("loss", work=4, faulty=True),
    Call("double", work=2),
    Call("backward", work=3),
    Call("item", work=1, waits=True),
]
late_error(calls)

# %% [markdown]
# The last one, which has done nothing wrong. "Where Python notices" is any later call that talks to the GPU; at the
# latest it is one that waits. After such an error, no CUDA call works in the process, not even a correct one.
#
# The cure is a variable of the environment, `CUDA_LAUNCH_BLOCKING=1`: Python waits for every call.

# %% facts=["01-cuda-launch-blocking"]
late_error(calls, blocking=True)

# %% [markdown]
# Now the right line is blamed, and everything is slow, since Python and the GPU no longer work side by side. The
# variable is read when CUDA starts; setting it after the error, in the same process, is too late.
#
# Here is the same training step as a program. On the CPU first. **Predict.** Which line is blamed, and is the label
# named?

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
    environment = {**os.environ, "CUDA_LAUNCH_BLOCKING": "0", **environment}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, device], env=environment, capture_output=True, text=True, timeout=120
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
# The line with the bad label, and the label. Now the same program on a GPU, as usual and with the variable set, each
# in a fresh process. (Without a CUDA device the cell prints one line and nothing is lost: the picture above says what
# to expect.)


# %% facts=["01-async-error-points-at-wrong-line", "01-cuda-launch-blocking"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def blamed_on_a_gpu() -> None:
    """The line that is blamed on a GPU, as usual and with CUDA_LAUNCH_BLOCKING=1."""
    print("as usual")
    blame("cuda")
    print("with CUDA_LAUNCH_BLOCKING=1")
    blame("cuda", CUDA_LAUNCH_BLOCKING="1")


blamed_on_a_gpu()

# %% [markdown]
# The recipe for "CUDA error: device-side assert triggered":
#
# 1. Don't trust the line. Start a fresh process.
# 2. Run the same batch on the CPU: `model.to("cpu")`, and the batch too. Usually the error now names the index.
# 3. If that takes too long, run with `CUDA_LAUNCH_BLOCKING=1`.

# %% [markdown] facts=["01-copy-forces-sync"]
# Which calls wait, apart from `item()`? Copying to the CPU (`.cpu()`, `.tolist()`, `copy_` into a CPU tensor),
# printing, and `if` on a tensor: all of them need the numbers. A copy with `non_blocking=True` need not wait, and a
# copy from GPU to GPU is only queued. To wait on purpose there are `torch.cuda.synchronize()` and the portable
# `torch.accelerator.synchronize()`. Whoever times a GPU needs them: without, the clock measures the queueing.

# %% [markdown]
# Before the exercise a trap on the CPU. **Predict.** Labels may be stored as uint8, which holds 0 to 255. Is 255 ≥ 300?

# %%
labels = torch.tensor([255], dtype=torch.uint8)
print("uint8:", (labels >= 300).tolist(), "  int64:", (labels.long() >= 300).tolist())

# %% [markdown]
# In torch 2.13 it is: the number 300 is brought to uint8 first, where it wraps around to 44 ([PyTorch issue
# 101653](https://github.com/pytorch/pytorch/issues/101653)). Convert to int64 before you compare with a number that may
# not fit.

# %% exercise="find-bad-labels"

# %% [markdown]
# ## 1.6 What fills the memory, what takes the time
#
# A training step keeps four things: the parameters, their gradients, the state of the optimizer, and the *activations*:
# what autograd keeps from the forward pass because the backward pass needs it.
#
# **Predict.** You halve the batch of a model that is trained with Adam. Which of the four become smaller?
#
# First count, with paper and pencil, for Linear(256, 512), ReLU, Linear(512, 10) with cross-entropy, in float32:

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
# Now measure. The function runs one training step and counts the bytes of real tensors:

# %% facts=["01-memory-is-params-plus-intermediates"]
for batch in (64, 128):
    print(f"batch of {batch}:", ", ".join(f"{name} {size:,}" for name, size in memory_bars(batch).items()))

# %% [markdown]
# As counted (Adam has besides a step counter of 4 bytes for each of the four parameter tensors). Only the activations
# depend on the batch; gradients and optimizer state have the size of the parameters. Move the slider, and change the
# optimizer:

# %% facts=["01-memory-is-params-plus-intermediates"]
memory_explorer()

# %% [markdown]
# In this small model what depends on the parameters weighs most. In a deep network with long inputs the activations
# often do, and then a smaller batch helps. When parameters, gradients and optimizer state alone don't fit, no batch
# size does.
#
# **Predict.** Does Adam's state exist before the first `step()`? Does `backward()` need it?

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
# No, and no: it is made in the first `step()`. So a program may run out of memory there, after a forward and a backward
# pass that fitted. SGD with momentum keeps one number for each parameter, plain SGD none.
#
# **Predict.** Do the parameters themselves ever depend on the input?

# %% facts=["01-params-fixed-after-init"]
conv = nn.Conv2d(3, 8, 3)
for side in (8, 64):
    conv(torch.ones(2, 3, side, side))
    print(f"Conv2d after images of {side} x {side}:", sum(p.numel() for p in conv.parameters()), "parameters")

lazy = nn.LazyLinear(5)
print("LazyLinear before its first input:", type(lazy.weight).__name__)
lazy(torch.ones(2, 7))
print("LazyLinear after it:              ", tuple(lazy.weight.shape))

# %% [markdown]
# In ordinary modules they are fixed when the module is built. Lazy modules wait for their first input and take the size
# from it; after that they are fixed too.
#
# And time? **Predict.** Which of these layers has more parameters, and which takes more arithmetic? (Operations are
# counted on `meta`, with shapes alone. A FLOP is one addition or multiplication of floating point numbers.)


# %% facts=["01-param-count-vs-flops", "01-mobilenet-more-params-less-compute"]
def parameters_and_flops(layer: nn.Module, *shape: int) -> str:
    with FlopCounterMode(display=False) as counter:
        layer.to("meta")(torch.empty(shape, device="meta"))
    count = sum(p.numel() for p in layer.parameters())
    return f"{count:12,} parameters {counter.get_total_flops():14,} FLOPs"


linear = nn.Linear(4096, 4096, bias=False, device="meta")
conv = nn.Conv2d(64, 64, 3, padding=1, bias=False, device="meta")
print("linear, 4096 to 4096  ", parameters_and_flops(linear, 1, 4096))
print("conv 3x3, 64 to 64    ", parameters_and_flops(conv, 1, 64, 56, 56))

wide = nn.Conv2d(64, 128, 3, padding=1, bias=False)
depthwise = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
separable = nn.Sequential(depthwise, nn.Conv2d(64, 128, 1, bias=False))
print("conv 3x3, 64 to 128   ", parameters_and_flops(wide, 1, 64, 56, 56))
print("the same, separable   ", parameters_and_flops(separable, 1, 64, 56, 56))

# %% [markdown]
# The linear layer has 455 times the parameters of the convolution, and the convolution takes 7 times the arithmetic: it
# uses each of its numbers at 56 · 56 places. So a count of parameters says how much memory a model needs, and little
# about time.
#
# Nor is one traded for the other. The last line is the building block of MobileNet: a 3x3 convolution for each channel
# by itself, then a 1x1 convolution that mixes the channels. Both numbers fall, by the same factor of 8.4. (Time is a
# third thing: memory must be read and written too.)

# %% exercise="training-memory"

# %% [markdown]
# ## 1.7 Which of several GPUs?
#
# **Predict.** A job was started with `CUDA_VISIBLE_DEVICES=3` and reports a crash on `cuda:0`. Which card is that?

# %% facts=["01-cuda-visible-devices-env", "01-visible-devices-before-import"]
code = """
import os
import torch

for value in ("3", "2,0", "", "-1", "0,-1,2"):
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    print(f"{value!r:9} leaves the cards {torch.cuda._parse_visible_devices()}")
print("CUDA has been started:", torch.cuda.is_initialized())
"""
run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
print(run.stdout.strip())

# %% [markdown]
# Card number 3. The variable selects *and renumbers*: the process sees the cards of the list, in this order, and counts
# them from 0. An empty value hides all of them, and so does -1: reading stops at the first entry that names no card.
# (`_parse_visible_devices` is PyTorch's own reader, a private function; it doesn't look whether the cards exist.)
#
# The cell also shows when the variable is read. It was changed *after* `import torch`, five times, and each change
# counted: the import does not start CUDA. The deadline is the first call that does. Setting it in the shell, before
# Python starts, is still the safest habit.
#
# **Predict.** Two ways to write `with`: `torch.device("meta")` and `torch.cuda.device(0)`. Which of them changes where
# `torch.ones(2)` is made?

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
# The first: it is the default device for everything that is made in the block. `torch.cuda.device(d)` only selects
# which card the word "cuda" means; a plain `torch.ones(2)` stays on the CPU. On a CPU build there is nothing to select,
# and it raises.
#
# `torch.cuda.set_device(d)` selects a card until further notice. Its own documentation discourages it, in favour of
# `CUDA_VISIBLE_DEVICES` or the block. Programs that run one process for each GPU (chapter 10) call it all the same,
# once at their start; the portable form is `torch.accelerator.set_device_index(d)`.

# %% [markdown]
# ## On a GPU
#
# What this chapter says about GPUs, to be tried on one. Without a CUDA device each of the next cells prints one line,
# and this chapter comes with no recording of what they print elsewhere. No exercise needs them: read on, or run them
# when you have a GPU at hand.
#
# **Predict.** Which lines of the report of section 1.1 differ on a machine with a GPU?


# %% facts=["01-torch-version-cuda", "01-cudnn-version-call"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def report_with_a_gpu() -> None:
    """The report of section 1.1, and the number in the corner of nvidia-smi."""
    show_report()
    try:
        corner = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=60).stdout
    except OSError:
        corner = ""
    found = re.search(r"CUDA[^:|]*Version: *([\d.]+)", corner)
    print("nvidia-smi:", f"CUDA {found[1]}" if found else "says nothing of CUDA")


report_with_a_gpu()

# %% [markdown]
# The number of `nvidia-smi` is that of the driver, `build` is that of the wheel. They need not agree.
#
# **Predict.** Which of the two comparisons is True? And does a card that doesn't exist raise when it is named, or when
# memory is wanted there?


# %% facts=["01-cuda-vs-cuda0-identical", "01-device-index-out-of-range"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def labels_on_a_gpu() -> None:
    """Compare the device of a CUDA tensor with labels; allocate on a card that does not exist."""
    x = torch.zeros(1, device="cuda")
    print("x.device:", x.device)
    print("equals cuda:", x.device == torch.device("cuda"))
    print("equals cuda with the current index:", x.device == torch.device("cuda", torch.cuda.current_device()))
    error_of(lambda: torch.zeros(1, device=f"cuda:{torch.cuda.device_count()}"), lines=1)


labels_on_a_gpu()

# %% [markdown]
# The second comparison: the device of a tensor has its index, the label "cuda" has none (section 1.2). And the error
# comes with the memory.
#
# **Predict.** `CUDA_VISIBLE_DEVICES=-1` is set at three moments. Which of the three hides the card?


# %% facts=["01-visible-devices-before-import", "01-cuda-visible-devices-env"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def too_late_to_hide() -> None:
    """Hide all cards before the import, after it, and after CUDA has started; each in a process of its own."""
    hide = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'"
    count = "print(torch.cuda.device_count(), 'cards,', 'available:', torch.cuda.is_available())"
    programs = {
        "before the import": (hide, "import torch", count),
        "after the import": ("import torch", hide, count),
        "after the first CUDA call": ("import torch", "torch.zeros(1, device='cuda')", hide, count),
    }
    for moment, lines in programs.items():
        run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)
        print(f"{moment:26} {run.stdout.strip() or 'raised an error'}")


too_late_to_hide()

# %% [markdown]
# The first two, for the deadline is the first CUDA call (section 1.7).
#
# **Predict.** A product of two matrices of 4096 by 4096, in four formats. Which is slowest? And what does the clock
# show if nobody waits for the GPU? (TF32 is a way to multiply float32 matrices with fewer digits.)


# %% facts=["01-bf16-faster-on-gpu", "01-copy-forces-sync"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def formats_against_the_clock() -> None:
    """Time a matrix product in four formats, with and without waiting for the GPU."""

    def milliseconds(a: Tensor, wait: bool) -> float:
        for _ in range(5):
            a @ a
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            a @ a
        if wait:
            torch.cuda.synchronize()
        taken = (time.perf_counter() - start) / 20 * 1000
        torch.cuda.synchronize()
        return taken

    before = torch.get_float32_matmul_precision()
    print(f"{'':16}{'waited for':>14}{'only queued':>14}")
    for name, dtype, precision in (
        ("float32", torch.float32, "highest"),
        ("float32 as TF32", torch.float32, "high"),
        ("bfloat16", torch.bfloat16, "highest"),
        ("float16", torch.float16, "highest"),
    ):
        torch.set_float32_matmul_precision(precision)
        try:
            a = torch.rand(4096, 4096, device="cuda").to(dtype)
            print(f"{name:16}{milliseconds(a, True):11.3f} ms{milliseconds(a, False):11.3f} ms")
        finally:
            torch.set_float32_matmul_precision(before)


formats_against_the_clock()

# %% [markdown]
# The right column is the time to put a product into the queue; it has nothing to do with the product. In the left one
# compare each format with float32. bfloat16 gains on cards with units for it, as float16 does; older cards only imitate
# it.
#
# **Predict.** The bars of section 1.6, asked of the GPU: how much is allocated after the model is made, after backward,
# after `step()`? Which of these numbers change with the batch?


# %% facts=["01-memory-is-params-plus-intermediates"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def memory_on_a_gpu() -> None:
    """Bytes allocated on the GPU in the course of a training step; the first line warms up."""
    for batch in (64, 64, 128):
        start = torch.cuda.memory_allocated()

        def taken(start: int = start) -> int:
            return torch.cuda.memory_allocated() - start

        model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        print(f"batch {batch}: model {taken():,}", end="")
        x, y = torch.zeros(batch, 256, device="cuda"), torch.zeros(batch, dtype=torch.int64, device="cuda")
        loss = F.cross_entropy(model(x), y)
        print(f", after forward {taken():,}", end="")
        loss.backward()
        print(f", after backward {taken():,}", end="")
        optimizer.step()
        print(f", after step {taken():,} bytes")
        del model, optimizer, x, y, loss


memory_on_a_gpu()

# %% [markdown]
# Compare the second line with the third; in the first, libraries may also take working space that they keep.
# `memory_allocated` counts in pieces of 512 bytes, so expect numbers a little above the bars. After backward the
# activations are no longer needed, and the gradients are there.
#
# **Predict.** A result is copied to the CPU while the GPU is still at work. Which of the two copies returns at once?


# %% facts=["01-copy-forces-sync"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def copies_that_wait() -> None:
    """Time until a copy to the CPU returns, and until the GPU has finished."""
    a = torch.rand(8192, 8192, device="cuda")
    ordinary, pinned = torch.empty(8192, 8192), torch.empty(8192, 8192, pin_memory=True)
    for name, target, non_blocking in (("copy_", ordinary, False), ("copy_, non_blocking", pinned, True)):
        a @ a
        torch.cuda.synchronize()
        start = time.perf_counter()
        target.copy_(a @ a, non_blocking=non_blocking)
        returned = time.perf_counter() - start
        torch.cuda.synchronize()
        finished = time.perf_counter() - start
        print(f"{name:22} returns after {returned * 1000:7.2f} ms, the GPU is ready after {finished * 1000:7.2f} ms")


copies_that_wait()

# %% [markdown]
# The second: with `non_blocking=True` and *pinned* memory (which the system promises not to move) a copy is only
# queued. A copy into ordinary memory waits. Without waiting yourself, don't read the target: the numbers may not be
# there yet.

# %% [markdown]
# ## Folklore, checked
#
# What people say about installing, devices and number formats, and what is so. Each row unfolds its proof: a few lines
# that run through only if the statement on the right holds.

# %%
folklore(
    "01_backends",
    ids=[
        "01-doc-is-for-2-3",
        "01-conda-pytorch-channel-ended",
        "01-conda-main-only-cpu-build",
        "01-cuda-toolkit-must-be-installed",
        "01-cudnn-enabled-is-a-switch",
        "01-device-object-moves-nothing",
        "01-device-types-only-cpu-and-cuda",
        "01-visible-devices-before-import",
        "01-memory-is-params-plus-intermediates",
        "01-momentum-used-in-backward",
        "01-mobilenet-more-params-less-compute",
        "01-bf16-range-versus-precision",
        "01-bf16-faster-on-gpu",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of PyTorch,
# and raises if it does not.

# %%
prove("01-device-object-moves-nothing")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - "Get Started" on pytorch.org: the command that installs the build you want;
# - `torch.backends`: the questions of section 1.1, and more switches;
# - `torch.accelerator`, and the section on `torch.device` of the page "Tensor Attributes";
# - "Meta device";
# - "CUDA semantics": asynchronous execution, how memory is managed, the variables of the environment;
# - `torch.finfo` and the page "Numerical accuracy";
# - `torch.autograd.graph.saved_tensors_hooks`, for a look at what autograd keeps.
#
# On conda-forge's pages: "NVIDIA CUDA packages".
