# %% [markdown]
# # Automatic mixed precision
#
# With half the bits, tensors take half the memory, matrix products are faster on hardware that supports the format, and
# numbers can vanish or explode without an error. After this chapter you can
#
# - predict what float32, float16, bfloat16 and the two 8-bit formats do to a given number, and which of them need loss
#   scaling;
# - predict the dtype of an operation under CPU autocast, and find it out when you aren't sure;
# - say in which dtype backward runs, and write your own Function that respects it;
# - write a training step that accumulates, unscales, clips, skips on inf and updates the scale, in the right order;
# - build the scaler yourself, and measure how much of a gradient a format loses;
# - notice when "mixed precision" silently does nothing, or silently stops the learning.
#
# **65 minutes to read, 190 minutes to practise, 20 points.** You need chapter 4 (what `backward` computes and where
# `.grad` comes from), chapter 5 for one exercise, and an ordinary training loop: model, loss, optimizer. Everything
# runs on the CPU; the one cell that needs a GPU is skipped if you don't have one.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import inspect
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from torchkata.casting import kind_of
from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.low_precision import bfloat16_speedup
from torchkata.pictures.amp_step import amp_step
from torchkata.pictures.dtype_flow import dtype_flow
from torchkata.pictures.gradient_window import window_explorer
from torchkata.pictures.loss_scale import scale_explorer
from torchkata.pictures.number_formats import format_explorer
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    ordering,
    prediction,
    separation,
)

# %% [markdown]
# You want a training loop to run in half the bits. That takes one new line, around the loop:

# %%
torch.manual_seed(0)
lin, x = nn.Linear(4, 1), torch.randn(16, 4)
y = x.sum(1, keepdim=True)
optimizer = torch.optim.SGD(lin.parameters(), lr=0.3)

with torch.autocast("cpu", dtype=torch.bfloat16):  # the new line
    for _ in range(5):
        loss = F.mse_loss(lin(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first = lin.weight[0, 0].item()
        print(f"loss {loss.item():.4f}; afterwards the first weight is {first:7.4f}")

# %% [markdown]
# The weights change, but the loss doesn't. There is no error and no warning; without the new line the loss falls to
# 0.12. So which numbers did `lin` multiply by, if not its weights? Section 8.4 answers that, and in Exercise 8.6 you
# fix such a loop.
#
# Here is what the step should look like, which is also the plan of the chapter. *Weights, losses and the optimizer stay
# in float32; matrix products run in 16 bits.* Follow the arrows once around.

# %%
amp_step()

# %% [markdown]
# ## 8.1 Number formats
#
# There are two ways to spend sixteen bits, and your choice decides which gradients survive. Here are four numbers in
# both formats.

# %%
print(f"{'':>12}{'float16':>12}{'bfloat16':>12}")
for value in (300000.0, 2e-9, 513.0, 4097.0):
    print(f"{value:12g}{torch.tensor(value).half():12g}{torch.tensor(value).bfloat16():12g}")

# %% [markdown]
# float16 loses the two numbers that are far from 1: the large number becomes inf (*overflow*), the small number 0
# (*underflow*). Of the other two it keeps 513 exactly and rounds 4097 to 4096. bfloat16 keeps all four, but roughly:
# 513 becomes 512.
#
# *Exponent* bits buy range, *fraction* bits buy digits. float16 has 5 and 10 of them, bfloat16 8 and 7; float32 has 8
# and 23. One more bit is the sign.
#
# The explorer shows a number in one format: its bits, its neighbours, and, below, how far each format reaches. Type a
# number and choose a format. Try 1 in bfloat16 and add 1/512 to it; 65519 and 65520 in float16; then 1e-8 in float16,
# and move *scale* up to 2^16 until the mark moves into the bar.

# %%
format_explorer("1e-8", "fp16")

# %% [markdown]
# With e exponent bits and f fraction bits, the largest number is (2 - 2^-f) · 2^(2^(e-1) - 1), and just above 1 the
# numbers are 2^-f apart. **By hand.** float8_e5m2 has 5 exponent bits and 2 fraction bits, as its name says. What is
# its largest number, and what comes after 1? Work both out, then compare with its line in the table.


# %%
def limits(exponent_bits: int, fraction_bits: int) -> tuple[float, ...]:
    """The largest, the smallest normal and the smallest positive number; the spacing above 1."""
    bias = 2 ** (exponent_bits - 1) - 1
    spacing = 2.0**-fraction_bits
    return (2 - spacing) * 2.0**bias, 2.0 ** (1 - bias), 2.0 ** (1 - bias) * spacing, spacing


layouts = {"float32": (8, 23), "tf32": (8, 10), "bfloat16": (8, 7), "float16": (5, 10)}
layouts |= {"float8_e5m2": (5, 2), "float8_e4m3fn": (4, 3)}

columns = f"{'largest':>9}{'normal from':>13}{'positive from':>15}{'above 1':>10}"
print(f"{'':14}bits  {columns}{'torch: largest':>16}")
for name, bits in layouts.items():
    largest, normal, positive, spacing = limits(*bits)
    of_torch = "no dtype" if name == "tf32" else f"{torch.finfo(getattr(torch, name)).max:.3g}"
    numbers = f"{largest:9.3g}{normal:13.2g}{positive:15.2g}{spacing:10.2g}"
    print(f"{name:14}{bits[0]}+{bits[1]:<3} {numbers}{of_torch:>16}")

# %% [markdown]
# The largest number is (2 - 1/4) · 2^15 = 57344, and after 1 comes 1.25.
#
# Three formats with 8 exponent bits reach 3.4e38. tf32 and float16 have the same spacing, 1/1024 just above 1. tf32 is
# not a dtype. It describes how NVIDIA's matrix units may read float32 numbers: with float32's range and float16's
# digits.
#
# Below "normal from" the spacing stops shrinking. These numbers are called *subnormal*: they have fewer and fewer
# digits, but they are not 0 yet. In float16 they reach down to 6e-8, a thousand times below `torch.finfo(...).tiny`.
#
# The last line breaks the rule. float8_e4m3fn gives up inf (`fn`: finite, with nan) and uses those bit patterns for
# numbers, up to 448.
#
# A cast does no more than this: it divides by the spacing at that size, rounds, multiplies, and gives inf beyond the
# largest number. On ten thousand numbers this agrees with torch:


# %%
def cast_by_hand(values: Tensor, exponent_bits: int, fraction_bits: int) -> Tensor:
    """Round float64 values to the grid of a format (one with an inf)."""
    largest, normal, *_ = limits(exponent_bits, fraction_bits)
    size = values.abs().clamp(min=normal)  # below, the spacing stays what it is
    spacing = torch.exp2(torch.log2(size).floor() - fraction_bits)
    rounded = (values / spacing).round() * spacing  # halves go to the even multiple of spacing
    return torch.where(rounded.abs() > largest, rounded.sign() * torch.inf, rounded)


torch.manual_seed(0)
values = (torch.randn(10_000) * torch.exp2(torch.randint(-30, 20, (10_000,)))).double()
for name in ("float16", "bfloat16", "float8_e5m2"):
    by_torch = values.to(getattr(torch, name)).double()
    by_hand = cast_by_hand(values, *layouts[name])
    gone, infinite = (by_torch == 0).sum(), by_torch.isinf().sum()
    same = torch.equal(by_hand, by_torch)
    print(f"{name:12} the same: {same}; became 0: {gone}; became inf: {infinite}")

# %% [markdown]
# The spacing doubles from one power of two to the next. So a format keeps a certain number of *digits*, whatever the
# size: 11 binary digits in float16, 8 in bfloat16, counting the leading 1.
#
# **Predict.** You add 1 to a running sum again and again. It stops where the neighbours are 2 apart, because the format
# no longer contains the next whole number. At which number does it stop in float16, and at which in bfloat16?

# %%
for dtype in (torch.float16, torch.bfloat16):
    total = torch.zeros((), dtype=dtype)
    while total + 1 != total:
        total += 1
    print(f"{str(dtype)[6:]:9} stops at {total.item():g}")

# %% [markdown]
# The sum stops at 2^11 in float16 and at 2^8 in bfloat16. 2049 and 257 are half-way between two numbers of their
# format, and half-way cases are rounded to the *even* neighbour, whose last fraction bit is 0. Here that is the lower
# neighbour. ([Section 15.6](../15_attention/attention.ipynb) shows what this does to the positions of a text.)
#
# **Predict.** The same can happen to a weight. The weight is 1, and each of a hundred training steps wants to add
# 0.001. Just above 1 the numbers of bfloat16 are 1/128 apart. What is the weight in bfloat16 at the end?

# %% facts=["08-lower-precision-dtypes"]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    weight = torch.ones((), dtype=dtype)
    for _ in range(100):
        weight += 0.001
    print(f"{str(dtype)[6:]:9} {weight.item():.4f}")

# %% [markdown]
# The weight is still 1, because every single step is rounded away. This is called a *lost update*, and it is why mixed
# precision keeps the weights in float32 and only computes with 16-bit copies of them. (float16 rounds each step of
# 0.001 to 1/1024, which is nearly right.)
#
# This is what happens at the ends of a format:

# %% facts=["08-scaling-prevents-underflow"]
print("float16:      ", torch.tensor([65519.0, 65520.0]).half().tolist())
print("sum of 1000 times 100 in float16:", torch.full((1000,), 100.0).half().sum().item())
large = torch.tensor([1000.0, 100000.0, torch.inf])
print("float8_e5m2:  ", large.to(torch.float8_e5m2).tolist())
print("float8_e4m3fn:", large.to(torch.float8_e4m3fn).tolist())

eighth = torch.ones(2).to(torch.float8_e4m3fn)
error_of(lambda: eighth + eighth)

# %% [markdown]
# 65504 is float16's largest number. 65520 is half-way between it and what would come next, 65536; from there on,
# numbers become inf. A sum gets there quickly, even if every number in it is small. float8_e4m3fn has no inf and
# *saturates*: even inf becomes 448, without any warning (before torch 2.13 it became nan). Both 8-bit formats are for
# storing numbers and for special matrix products. You can't even add them.
#
# **Now you know.** float16 has many digits and a short range, which ends at 65504 and at 6e-8. bfloat16 has a long
# range and few digits: it rounds a gradient, but doesn't lose it. Neither format is good enough for the weights.

# %% exercise="format-limits"

# %% [markdown]
# ## 8.2 What autocast does
#
# Matrix products benefit from 16 bits; sums, losses and weights don't. You could write the casts yourself, one by one.
# Or you use `torch.autocast`, a region in which PyTorch chooses the precision of each operation.

# %%
amp_step(lit="autocast")

# %% facts=["08-lower-precision-dtypes", "08-autocast-selects-dtype"]
torch.manual_seed(0)
lin, x = nn.Linear(4, 4), torch.randn(2, 4)

with torch.autocast("cpu", dtype=torch.bfloat16):
    y = lin(x)
    print("lin(x)      ", y.dtype)
    print("relu(y)     ", torch.relu(y).dtype)
    print("mse_loss    ", F.mse_loss(y, x).dtype)
    print("y + x       ", (y + x).dtype)
print("lin.weight  ", lin.weight.dtype)
print("lin(x) after", lin(x).dtype)

# %% [markdown]
# A matrix product runs in bfloat16. `relu` keeps the dtype of its input. A loss runs in float32. And bfloat16 plus
# float32 gives float32, as it does everywhere. The weights don't change, and after the region the layer works in
# float32 again. `model.half()` is something else: it converts the weights.
#
# How does autocast do that? A `TorchDispatchMode` sees every operation that PyTorch really runs, after autocast has
# changed the inputs. Let's print them.


# %% facts=["08-autocast-selects-dtype"]
class OpLog(TorchDispatchMode):
    """Print each operation that runs, with the dtypes of its tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        taken = ", ".join(str(a.dtype)[6:] for a in args if isinstance(a, Tensor))
        given = str(out.dtype)[6:] if isinstance(out, Tensor) else "..."
        print(f"  {func.overloadpacket.__name__:17} {taken:26} -> {given}")
        return out


with torch.autocast("cpu", dtype=torch.bfloat16), OpLog():
    print("y = lin(x)")
    y = lin(x)

# %% [markdown]
# Autocast puts casts (`_to_copy`) in front of an operation and does nothing else. Here it casts the input, the weight
# and the bias. `t` transposes the weight, and `addmm` is the product. Autocast keeps the copies that it has made of
# *parameters* until the outermost region ends.
#
# **Predict.** In the same region we now call `lin(y)`, the same layer on its own output `y`. How many casts does this
# call need?

# %% facts=["08-autocast-selects-dtype"]
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = lin(x)
    with OpLog():
        print("lin(y)")
        lin(y)
        print("mse_loss(y, x)")
        F.mse_loss(y, x)
        print("y.exp()")
        y.exp()

# %% [markdown]
# It needs none. `y` already has the right dtype, and the copies of weight and bias are still there from the first call.
# Section 8.4 comes back to these copies. For `mse_loss`, autocast casts up to float32. Before `exp`, on the CPU, it
# does nothing. (`detach` belongs to autograd, which keeps the result for backward.)
#
# So there are four kinds of operations on the CPU:
#
# | kind | for example | what goes in | what comes out |
# |---|---|---|---|
# | lower precision | `@`, `F.linear`, `F.conv1d` | float32 | bfloat16 |
# | float32 | losses, `prod` | bfloat16 | float32 |
# | promote | `cat`, `stack` | bfloat16 and float32 | float32 |
# | all others: keep | `relu`, `gelu`, `mean`, `sum`, `softmax`, `layer_norm` | bfloat16 | bfloat16 |
#
# bfloat16 autocast runs on any CPU, but it saves time only if the processor has instructions for bfloat16. Many laptops
# don't have them (they are called AVX512_BF16 on Intel and AMD, and AMX on Intel), and there a matrix product takes
# about 50 times as long as in float32. `bfloat16_speedup` runs one small product in both formats and compares:

# %% varies="the speed is that of your processor"
print(f"In bfloat16, a matrix product is {bfloat16_speedup():.2g} times as fast as in float32.")

# %% [markdown]
# Autocast replaces float32 inputs by copies in another dtype, and only where the result is a new tensor.
#
# **Find the line.** Which of these five gives bfloat16?

# %% facts=["08-float64-and-integers-untouched", "08-out-of-place-ops-only"]
double, whole = torch.ones(4, 4, dtype=torch.float64), torch.ones(4, 4, dtype=torch.int64)
a, b, c = torch.ones(4, 4), torch.ones(4, 4), torch.ones(4, 4)

with torch.autocast("cpu", dtype=torch.bfloat16):
    print("float64 @ float64  ", (double @ double).dtype)
    print("int64 @ int64      ", (whole @ whole).dtype)
    print("torch.mm, with out=", torch.mm(b, c, out=torch.empty(4, 4)).dtype)
    print("a.addmm_(b, c)     ", a.addmm_(b, c).dtype)
    print("a.addmm(b, c)      ", a.addmm(b, c).dtype)
    error_of(lambda: a.addmm_(b @ c, c))
    error_of(lambda: double @ b)

# %% [markdown]
# Only `a.addmm(b, c)` gives bfloat16. Autocast doesn't cast float64 and integers, and it ignores operations that write
# into an existing tensor (in-place operations, and those with `out=`). The two errors below it follow from the same
# rule. In the first, `b @ c` is bfloat16 and is multiplied by a float32 `c` that nothing casts. In the second, only `b`
# is cast, so bfloat16 meets float64.

# %% exercise="autocast-apart"

# %% [markdown]
# ### Settings that switch it off
#
# Some settings switch a region off and only warn, and in a long log you easily miss a warning.

# %% facts=["08-autocast-gpu-only", "08-lower-precision-dtypes"] shows_warning="UserWarning" varies="a GPU changes it"
a = torch.ones(2, 2)


def region(device: str, dtype: torch.dtype) -> None:
    with torch.autocast(device, dtype=dtype):
        print(f"autocast({device!r}, dtype={dtype}):", (a @ a).dtype)


region("cpu", torch.bfloat16)
if torch.cuda.is_available():
    region("cuda", torch.float16)
else:
    warning_of(lambda: region("cuda", torch.float16))
warning_of(lambda: region("cpu", torch.float64))
error_of(lambda: torch.autocast(dtype=torch.float16))

# %% [markdown]
# Without a GPU, `torch.autocast("cuda")` warns, and everything runs in float32. The device type says for which device's
# operations autocast is on. There are regions for the CPU and for other accelerators, and the argument has no default.
# A dtype that autocast doesn't support also gives only a warning, and everything runs in float32. On a machine with a
# GPU `autocast("cuda")` is silent, and what you compute on the CPU is still float32.
#
# float16 needs a *gradient scaler*, which multiplies the loss so that small gradients don't become 0 (section 8.5).
# bfloat16 doesn't need it. The scaler also has older names, and its own default device:

# %% facts=["08-gradscaler-class-names"] shows_warning="FutureWarning" varies="CUDA changes what is shown"
warning_of(lambda: torch.cpu.amp.autocast())
warning_of(lambda: torch.cuda.amp.GradScaler())

print()
if torch.cuda.is_available():
    scaler = torch.amp.GradScaler()
else:
    warning_of(lambda: torch.amp.GradScaler())
    scaler = torch.amp.GradScaler(enabled=False)  # without CUDA, the same as without an argument
print("without an argument:", scaler.is_enabled(), scaler.scale(torch.tensor(3.0)).item())

scaler = torch.amp.GradScaler("cpu")
print('GradScaler("cpu"):  ', scaler.is_enabled(), scaler.scale(torch.tensor(3.0)).item())

# %% [markdown] facts=["08-gradscaler-no-arguments"]
# Everything in `torch.cuda.amp` and `torch.cpu.amp` is deprecated (`FutureWarning`). `torch.amp.GradScaler()` means
# CUDA without saying so; without CUDA it warns, and then scales nothing. So always name the device:
# `torch.autocast("cpu", …)` and `torch.amp.GradScaler("cpu")`.
#
# The dtype also has defaults, and the function that asks which dtype a GPU supports has a trap in its own default:

# %% facts=["08-autocast-cuda-without-scaler"]
for device in ("cpu", "cuda"):
    print(f"{device:5} {torch.get_autocast_dtype(device)}")
print("is_bf16_supported", inspect.signature(torch.cuda.is_bf16_supported))

# %% [markdown]
# The default is float16 on CUDA and bfloat16 on the CPU. So `torch.autocast("cuda")` without a dtype and without a
# scaler runs, and loses every gradient that is *computed* in float16 and is below 3e-8, half of float16's smallest
# number. (The `.grad` of a weight is float32, but the product behind it was computed in float16; section 8.4 shows
# this.) So also name the dtype: bfloat16 if the GPU computes in it, otherwise float16 together with a scaler.
#
# `torch.cuda.is_bf16_supported()` doesn't answer that. According to its source, it also returns True if a GPU can only
# create a bfloat16 tensor, as older cards such as the T4 can, where products in bfloat16 are emulated and slow. (We had
# no GPU without these units to show it.) Ask `torch.cuda.is_bf16_supported(including_emulation=False)`.

# %% exercise="modern-amp-setup"

# %% [markdown]
# ### Leaving the region
#
# In the next cell, `h` is made inside a region and goes into a layer with float32 weights: once after the region, and
# once inside it in a *hole*, that is, a region with `enabled=False`.

# %% facts=["08-autocast-selects-dtype"]
torch.manual_seed(0)
lin, x = nn.Linear(4, 4), torch.randn(2, 4)

with torch.autocast("cpu", dtype=torch.bfloat16):
    h = lin(x)
    with torch.autocast("cpu", enabled=False):
        error_of(lambda: lin(h))
        print("in the hole, h.float():", lin(h.float()).dtype)
    print("around it, h.float():  ", lin(h.float()).dtype)
error_of(lambda: lin(h))

# %% [markdown]
# PyTorch casts nothing back when a region ends, so results keep their dtype. And `.float()` alone is undone by the next
# matrix product. If you want real float32 you need both: the hole, and `.float()` on its inputs.
#
# The copies of the weights also need care. Autocast looks up a copy by the weight alone, whatever dtype the copy has.
# If a layer has been used in a float16 region, it still uses its float16 copies in a bfloat16 region inside that one,
# and raises an error. `torch.autocast("cpu", torch.bfloat16, cache_enabled=False)` opens a region without copies.
#
# **Now you know.** Autocast casts the inputs of an operation, according to a list, and keeps its copies of weights
# until the outermost region ends. Name device and dtype; leave a region with `.float()`. (A compiled function notices
# whether autocast is on, and is compiled again: see [chapter 14](../14_compile/compile.ipynb).)

# %% exercise="mixed-region-error"

# %% [markdown]
# ## 8.3 Two tables, not one
#
# You test on the CPU and train on a GPU. Each has its own list of operations, and for that reason alone a model can
# behave differently on the two.
#
# **Predict.** CUDA's default is float16, which ends at 65504. e^12 is 162,755. Which of `relu`, `exp` and `sum` would
# you run in float32 there, although bfloat16 on the CPU doesn't need it?

# %% facts=["08-linear-conv-lower-reductions-float32", "08-cuda-float32-list-pointwise", "08-cuda-promote-list"]
square, row = (4, 4), (4,)
calls = {
    "matmul": (torch.matmul, square, square),
    "mv": (torch.mv, square, row),
    "conv1d": (F.conv1d, (1, 4, 8), (2, 4, 3)),
    "relu": (torch.relu, square),
    "mean": (torch.mean, square),
    "sum": (torch.sum, square),
    "exp": (torch.exp, square),
    "softmax": (lambda x: x.softmax(-1), square),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), square),
    "prod": (torch.prod, square),
    "cross_entropy": (F.cross_entropy, square, square),
    "binary_cross_entropy": (F.binary_cross_entropy, square, square),
    "add": (torch.add, square, square),
    "cat": (lambda x, y: torch.cat([x, y]), square, square),
    "dot": (torch.dot, row, row),
}
print(f"{'':22}{'CPU':10}CUDA")
for name, call in calls.items():
    on_cpu, on_cuda = kind_of("cpu", *call), kind_of("cuda", *call)
    print(f"{name:22}{on_cpu:10}{on_cuda:10}{'' if on_cpu == on_cuda else '<- differ'}".rstrip())

# %% [markdown] facts=["08-cuda-float16-list", "08-cpu-bfloat16-list", "08-cpu-promote-list"]
# You'd run `exp` and `sum` in float32, because their results can be much larger than their inputs. CUDA lists
# reductions and exponentials under float32 (`sum`, `exp`, `softmax`, `layer_norm`); `mean` is an exception and keeps
# its dtype. On the CPU all of these keep. `mv` is missing from the CPU's list, and `dot` refuses mixed arguments there.
# On both devices, matmul and convolutions run in lower precision and most losses in float32.
#
# This needed no GPU. `kind_of`, from `torchkata.casting`, calls an operation with float32, 16-bit and mixed arguments,
# and looks at the dtype of the result. For CUDA it does so under a `FakeTensorMode`, which runs operations for their
# shapes and dtypes only, without any numbers. Autocast casts there as it does on a device. The lists change between
# versions, so use `kind_of` for any call that you want to know about.
#
# One line of the table says "refused". This is the error:

# %% facts=["08-cuda-float32-list-losses"]
# what torch.autocast("cuda") does, without looking for a GPU
torch.set_autocast_enabled("cuda", True)
try:
    with FakeTensorMode():
        p = torch.ones(3, device="cuda", dtype=torch.float16)
        error_of(lambda: F.binary_cross_entropy(p, p))
        print("with logits:", F.binary_cross_entropy_with_logits(p, p).dtype)
finally:
    torch.set_autocast_enabled("cuda", False)

# %% [markdown]
# The reason is the gradient. `binary_cross_entropy` takes a probability p, and its gradient with respect to p can be as
# large as 1/p. If p is float16, that gradient must also be float16, whatever dtype the loss itself is computed in.
#
# **Predict.** The CPU doesn't refuse. A logit of -13.8 has the probability p = 1e-6, and the label says 1. The gradient
# at the logit should be (-1/p) · p(1 - p), nearly -1. Which factor doesn't fit into float16, and what gradient does the
# logit get?

# %% facts=["08-cuda-float32-list-losses"]
label = torch.ones(1, dtype=torch.float16)
losses = {
    "sigmoid, then binary_cross_entropy": lambda z: F.binary_cross_entropy(z.sigmoid(), label),
    "binary_cross_entropy_with_logits  ": lambda z: F.binary_cross_entropy_with_logits(z, label),
}
for name, loss_of in losses.items():
    logit = torch.tensor([-13.8], dtype=torch.float16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = loss_of(logit)
    loss.backward()
    print(f"{name}: loss {loss.item():.1f} ({str(loss.dtype)[6:]}), gradient {logit.grad.item():g}")

# %% [markdown]
# -1/p = -1e6 doesn't fit and becomes -inf. So the logit's gradient is infinite, while the loss looks fine both times.
# The version with logits never needs 1/p. Use it on every device.
#
# In forward, the most common failure of this kind is a mask:

# %%
mask = torch.tensor([False, True, False])
q, k = torch.ones(1, 4), torch.ones(3, 4)

with torch.autocast("cpu", dtype=torch.float16):
    scores = q @ k.t()  # float16, as a product is
    error_of(lambda: scores.masked_fill(mask, -1e9))

# %% [markdown]
# **Change one argument** of `masked_fill`, so that it works in float16, in bfloat16 and in float32.

# %%
with torch.autocast("cpu", dtype=torch.float16):
    lowest = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    print("finfo(...).min:", lowest.tolist(), lowest.softmax(-1).tolist())
    print("-inf:          ", scores.masked_fill(mask, -torch.inf).softmax(-1).tolist())

# %% [markdown] facts=["08-cpu-float32-list-still-valid"]
# `-torch.inf` fits into each format, and so does `torch.finfo(scores.dtype).min`. (They differ when a whole row is
# masked: with -inf its softmax is nan.)
#
# **Now you know.** CUDA protects float16 by moving sums, exponentials and losses to float32; the CPU moves only a few
# operations. Ask `kind_of`, not your memory, and keep numbers like 1e-9 and -1e9 out of 16-bit code.

# %% [markdown]
# ## 8.4 Backward and step under autocast
#
# You usually call `backward` after the region, when autocast is off. So what decides its precision? The answer explains
# why your own Function may fail under autocast, and why the loss at the beginning of the chapter stood still.

# %%
amp_step(lit="backward")

# %% [markdown]
# **Predict.** `h` is the bfloat16 output of a Linear. Which dtype does a hook on `h` see? And in which dtype do the two
# matrix products of backward run, those for `x` and for the weight, whose gradients end in float32?

# %% facts=["08-backward-dtype-follows-forward"]
torch.manual_seed(0)
lin, x = nn.Linear(4, 4), torch.randn(2, 4, requires_grad=True)

with torch.autocast("cpu", dtype=torch.bfloat16):
    h = lin(x)
    h.register_hook(lambda grad: print("  hook on h:", grad.dtype))
    loss = F.mse_loss(h, torch.zeros(2, 4))
with OpLog():
    loss.backward()
print("lin.weight.grad:", lin.weight.grad.dtype)
print("x.grad:         ", x.grad.dtype)

# %% [markdown]
# The hook sees bfloat16, because a gradient has the dtype of its tensor, and both products run in bfloat16. Read the
# log from the top. The gradient of the loss is float32. The cast in front of `mse_loss` also has a backward, which
# casts to bfloat16. Then come the two `mm`. At the end, backward goes through the casts of weight, bias and `x`, and
# only there the gradients become float32 again. The graph was recorded *with* its casts, so backward doesn't depend on
# a region, and it makes no difference whether you call it inside this region or after it. (Only inside a region of
# *another* dtype are its products cast once more.)
#
# The figure shows this for a small net, with forward to the right and backward to the left.

# %%
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
dtype_flow(net, torch.randn(2, 4))

# %% [markdown]
# That a `.grad` is float32 doesn't tell you how many digits it was computed with, or what was lost on the way.
#
# ### What it saves
#
# What forward keeps for backward is now in 16 bits. Does it always take fewer bytes?
#
# **Predict.** We run a net of 262,912 parameters, once with 8 rows and once with 4096. In which case does mixed
# precision keep *more* than float32?


# %%
def kept_for_backward(rows: int, low: bool) -> int:
    """The bytes that forward keeps for backward, the parameters themselves left out."""
    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
    sizes = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would hold its own graph (section 1.5)

    saving = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
    with saving, torch.autocast("cpu", torch.bfloat16, enabled=low):
        net(torch.ones(rows, 256))
    own = {p.untyped_storage().data_ptr() for p in net.parameters()}
    return sum(size for place, size in sizes.items() if place not in own)


for rows in (8, 4096):
    plain, mixed = kept_for_backward(rows, False), kept_for_backward(rows, True)
    print(f"{rows:4} rows: float32 {plain / 1024:7.0f} KiB, mixed {mixed / 1024:7.0f} KiB")

# %% [markdown]
# Mixed precision keeps more with 8 rows, because the bfloat16 copy of the second weight, 256 KiB, outweighs everything
# else. (The first layer keeps no weight: its input needs no gradient.) What becomes smaller is the memory for large
# batches and long sequences, not that for the model: weights, gradients and the optimizer's state stay in float32. The
# other gain is speed, if the processor has units for these formats. Section 8.2 measured yours; the cell under "On a
# GPU" measures a GPU if you have one.
#
# ### A Function of your own
#
# In chapter 5 you wrote `backward` yourself. Here is such a Function for xᵀx. Its gradient is x (g + gᵀ), and gradcheck
# passes. Under autocast it fails:


# %%
class Gram(torch.autograd.Function):
    """x.T @ x for a matrix x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.t() @ x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return x @ (g + g.t())


x = torch.randn(3, 2, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    gram = Gram.apply(x)
print(gram.dtype)
error_of(lambda: gram.sum().backward())

# %% [markdown]
# Inside a Function nothing is recorded, so the casts in `forward` weren't recorded either. `backward` therefore gets a
# bfloat16 `g` and the float32 `x` that it saved, and runs after the region, where nothing casts. Two decorators fix
# this: `custom_fwd` stores the autocast state in which forward runs, and `custom_bwd` restores that state for backward.


# %%
class SafeGram(torch.autograd.Function):
    """x.T @ x for a matrix x, in or out of autocast."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        return Gram.forward(ctx, x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return Gram.backward(ctx, g)


with torch.autocast("cpu", dtype=torch.bfloat16):
    gram = SafeGram.apply(x)
gram.sum().backward()
print("forward", gram.dtype, "and the gradient of x", x.grad.dtype)

# %% exercise="linear-under-autocast"

# %% [markdown]
# ### The loss that stood still
#
# Now back to the loss at the beginning of the chapter, which stayed at 3.1807. In section 8.2 the second `lin(y)`
# needed no cast, because autocast had kept its copy of the weights. It keeps them until the *outermost* region ends.
# `step` changes the float32 weights, but not a copy that was made before.
#
# **Predict.** Here are four loops, with an `outer` region around the whole loop and an `inner` region around each
# forward pass. `low` is a bfloat16 region, `nullcontext` is none. Which two learn?

# %% facts=["08-autocast-wraps-forward-only"]
low = partial(torch.autocast, "cpu", torch.bfloat16)
loops = {
    "a region for each iteration": (nullcontext, low),
    "one region around the loop": (low, nullcontext),
    "both": (low, low),
    "both, the inner without cache": (low, partial(low, cache_enabled=False)),
}

for name, (outer, inner) in loops.items():
    torch.manual_seed(0)
    lin, x = nn.Linear(4, 1), torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    optimizer = torch.optim.SGD(lin.parameters(), lr=0.3)
    print(f"{name:30}", end="")
    with outer():
        for _ in range(5):
            with inner():
                loss = F.mse_loss(lin(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"{loss.item():8.4f}", end="")
    print()

# %% [markdown]
# The first and the last learn. The cache isn't emptied when an inner region ends. You get the loop `both` if your
# trainer has already opened a region that you don't see. `cache_enabled=False` keeps no copies at all.
# `torch.clear_autocast_cache()` throws the copies away, so it also works, if you call it after every step.
#
# **Now you know.** Backward follows the casts that forward recorded; your own Functions need `custom_fwd` and
# `custom_bwd`. Open a region for each forward pass and its loss, and leave `step` outside.

# %% exercise="stale-autocast"

# %% [markdown]
# ## 8.5 Loss scaling
#
# float16 ends at 6e-8, and gradients are often smaller. Here is a net of eleven Linear layers with sigmoids between
# them, and the share of zeros in the gradient of each layer's weights.

# %% facts=["08-scaling-prevents-underflow", "08-autocast-cuda-without-scaler"]
torch.manual_seed(0)
x, target = torch.randn(64, 32), torch.randn(64, 1)


def deep_net_after_backward(dtype: torch.dtype, scale: float) -> nn.Sequential:
    torch.manual_seed(1)
    layers = [layer for _ in range(10) for layer in (nn.Linear(32, 32), nn.Sigmoid())]
    net = nn.Sequential(*layers, nn.Linear(32, 1))
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32):
        loss = F.mse_loss(net(x), target)
    (loss * scale).backward()
    return net


print("zeros in the gradient of each layer, to the nearest quarter")
for dtype, scale in (
    (torch.float32, 1),
    (torch.bfloat16, 1),
    (torch.float16, 1),
    (torch.float16, 65536),
):
    net = deep_net_after_backward(dtype, scale)
    zeros = [(layer.weight.grad == 0).float().mean().item() for layer in net[::2]]
    quarters = [f"{round(share * 4) * 25:3}%" for share in zeros]
    print(f"{str(dtype)[6:]:9} scale {scale:5}: {' '.join(quarters)}")

# %% [markdown]
# In float16 without a scale, the gradients of the first layers are zero. These layers don't learn, and there is no
# error and no warning. The loss can still fall, since the last layers learn. The last line shows the fix: the loss was
# multiplied by 65536.
#
# **By hand.** A gradient of 1e-8 becomes 0 in float16. Multiply the loss by 65536: backward is linear, so this gradient
# becomes 65536 times larger. How large is it then, does it survive, and what do you get if you divide it in float32
# again?


# %% facts=["08-scaling-prevents-underflow"]
def gradient(scale: float, dtype: torch.dtype) -> Tensor:
    w = torch.ones(1, dtype=dtype, requires_grad=True)
    loss = (w * torch.tensor([1e-4], dtype=dtype)).float() * 1e-4
    (loss * scale).sum().backward()
    return w.grad


for scale, dtype in ((1, torch.float16), (65536, torch.float16), (1, torch.bfloat16)):
    grad = gradient(scale, dtype)
    divided = grad.float().item() / scale
    name = str(dtype).removeprefix("torch.")
    print(f"{name:9} scale {scale:5}: .grad {grad.item():8.3g}, divided in float32 {divided:.2g}")

# %% [markdown]
# It is 6.6e-4, which is far from the end of the format, so it survives. Divided by 65536 it is 1e-8 again. A power of
# two changes no digits. bfloat16 gets it right without any scale.
#
# The explorer shows the gradients of the deep net, computed in float32, and float16's window over them. Gradients to
# the left of the window become 0, gradients to the right of it inf. Move the scale, which shifts the histogram. How far
# can you go until the largest gradients leave the window on the right?

# %%
net = deep_net_after_backward(torch.float32, 1)
window_explorer([layer.weight.grad for layer in net[::2]])

# %% exercise="scale-window"

# %% [markdown]
# ### One step by hand
#
# You don't know the right scale in advance, and it changes during training. So take a large scale and check whether a
# gradient became inf. If so, skip the step and use a smaller scale. In the picture these are the two boxes with the
# scale, and the step:

# %%
amp_step(lit="scale")

# %% [markdown]
# **Complete the table** in your head, then run the cell. The weight is 1, the learning rate 0.1; the gradient of the
# loss is 3, then inf.
#
# | iteration | `.grad` after backward | unscaled | weight | scale |
# |---|---|---|---|---|
# | 1 | 196608 | 3 | ? | 65536 |
# | 2 | inf | ? | ? | ? |

# %% facts=["08-step-unscales-first", "08-step-skips-on-inf"]
w, scale = torch.ones(1, requires_grad=True), 65536.0

for factor in (3.0, torch.inf):
    w.grad = None
    loss = (w * factor).sum()
    (loss * scale).backward()
    print("after backward:", w.grad.item(), end="; ")

    w.grad /= scale  # unscale
    print("unscaled:", w.grad.item(), end="; ")
    if w.grad.isfinite().all():
        with torch.no_grad():
            w -= 0.1 * w.grad  # what SGD does
    else:
        scale *= 0.5  # skip the step, and be more careful
    print(f"weight: {w.item():.1f}; scale: {scale:g}")

# %% [markdown]
# That is the algorithm, except that the scale must also grow again, which comes below. The weight becomes 0.7, as in
# ordinary training, because the gradient is unscaled before the step; so you can keep your learning rate. A skipped
# step leaves the weights as they are.
#
# `torch.amp.GradScaler` has a method for each part: `scale(loss)`, `unscale_(optimizer)`, `step(optimizer)` and
# `update()`. The numbers are the same:

# %% facts=["08-step-unscales-first", "08-step-skips-on-inf"]
w = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.1)
scaler = torch.amp.GradScaler("cpu")

for factor in (3.0, torch.inf):
    optimizer.zero_grad()
    loss = (w * factor).sum()
    scaler.scale(loss).backward()
    print("after backward:", w.grad.item(), end="; ")

    scaler.unscale_(optimizer)
    print("unscaled:", w.grad.item(), end="; ")
    scaler.step(optimizer)
    scaler.update()
    print(f"weight: {w.item():.1f}; scale: {scaler.get_scale():g}")

# %% [markdown]
# You can leave out `unscale_`, because `step` does it if you haven't. `step` calls `optimizer.step()` only if all
# gradients of this optimizer are finite. A skipped step now and then is normal, above all in the first iterations. If
# your learning rate schedule counts steps, it also counts the skipped ones unless you check: if the scale is smaller
# after `update()`, the step was skipped.
#
# `update` also makes the scale grow: `growth_interval` good iterations *in a row* double it; an inf halves it and
# restarts the count.
#
# **Predict.** With `growth_interval=3`, in which iterations does the scale change, if there is an inf in the sixth of
# nine?

# %% facts=["08-update-adapts-scale"]
w = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.1)
scaler = torch.amp.GradScaler("cpu", growth_interval=3)

scales = []
for iteration in range(1, 10):
    optimizer.zero_grad()
    scaler.scale((w * (torch.inf if iteration == 6 else 1)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale() / 65536)
print("times 65536:", scales)

fresh = torch.amp.GradScaler("cpu")
print("by default:")
for name, value in fresh.state_dict().items():
    print(f"    {name:15} {value}")

# %% [markdown]
# The scale changes after the third, the sixth and the ninth iteration. By default it takes 2000 good ones to double. So
# the scale stays close to the upper end of float16: it grows until something overflows, goes back one step, and tries
# again later. The count is part of the state, so put the scaler's `state_dict()` into your checkpoint.
#
# In the simulator, infs happen at random. Try a high probability with a long interval: where does the scale end up?

# %%
scale_explorer()

# %% [markdown]
# With infs that often, the scale falls and falls, because it has no lower limit. If you see this in a training run,
# don't look for a better setting of the scaler; look for the inf.
#
# The scaler notices if you forget `scale`, `step` or `update`.

# %% facts=["08-update-adapts-scale", "08-training-loop-sample"]
w = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
error_of(lambda: scaler.step(optimizer))

scaler.scale(w.sum()).backward()
error_of(scaler.update)
scaler.step(optimizer)
error_of(lambda: scaler.step(optimizer))

# %% [markdown]
# It can't notice if you call `loss.backward()` instead of `scaler.scale(loss).backward()` after the scaler was used
# once. `step` still divides by 65536, and with SGD the net learns next to nothing.
#
# Here is the whole loop. On a GPU it runs in the same way, if you change the name of the device.

# %% facts=["08-training-loop-sample"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
x = torch.randn(64, 4)
target = x.sum(1, keepdim=True)

for iteration in range(61):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.mse_loss(model(x), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if iteration in (0, 1, 10, 60):
        print(f"iteration {iteration:2}: loss {loss.item():.1f}, scale {scaler.get_scale():g}")

# %% [markdown]
# 65536 is too large for these gradients: the first step is skipped, and iteration 1 begins with the same weights and
# the same loss. The scaler is meant to work this way.
#
# With bfloat16 the same loop needs no scaler. To write both in one program, use `GradScaler("cpu", enabled=dtype is
# torch.float16)`. If the scaler is not enabled, `scale` returns the loss unchanged, and `step` calls `optimizer.step`.
#
# **Now you know.** Scaling the loss shifts all gradients into float16's window. The scaler tries out how large the
# scale may be and skips each step that overflows. A skipped step raises nothing: you notice it only because the scale
# is smaller afterwards.

# %% [markdown]
# ## 8.6 Between backward and step
#
# Between `scaler.scale(loss).backward()` and `scaler.step` the gradients are in *scaled units*. If you look at them,
# clip them or compute with them, unscale them first. If you forget it, there is no error.

# %%
amp_step(lit="between")

# %% [markdown]
# **Predict.** Gradients are clipped to norm 1, the learning rate is 1, the scale 65536. How far does the weight move if
# `unscale_` comes before clipping, and how far if you forget it?


# %% facts=["08-unscale-before-inspecting"]
def distance_moved(unscale_first: bool) -> float:
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.randn(5, 3) * 10).sum()).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(f"norm before clipping {norm.item():9.3g}", end="; ")
    return (model.weight.detach() - before).norm().item()


for unscale_first in (True, False):
    print(f"unscale first: {unscale_first!s:5}", end="; ")
    print(f"moved {distance_moved(unscale_first):.1g}")

# %% [markdown]
# The weight moves by 1 if you unscale first, and by 1/65536 if you forget it, because the scaled gradient is clipped to
# norm 1 and then `step` divides it. `step` remembers whether `unscale_` was called and doesn't divide again. If a
# gradient is inf, the norm is inf or nan, and `step` skips as before, because `unscale_` has already found the inf.
#
# ### Accumulation
#
# You can split a large batch into small pieces: `backward` adds to `.grad`, and the optimizer steps once for each
# group. You can add scaled gradients as you add any others, provided that all have the same scale.

# %% facts=["08-unscale-before-inspecting"]
torch.manual_seed(0)
model = nn.Linear(3, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
x, target = torch.randn(4, 2, 3), torch.randn(4, 2, 1)

F.mse_loss(model(x), target).backward()
print("the whole batch:  ", [f"{g:.3f}" for g in model.weight.grad.flatten().tolist()])

optimizer.zero_grad()
for piece, wanted in zip(x, target, strict=True):
    scaler.scale(F.mse_loss(model(piece), wanted) / len(x)).backward()
scaler.unscale_(optimizer)
print("four pieces:      ", [f"{g:.3f}" for g in model.weight.grad.flatten().tolist()])

scaler.scale(F.mse_loss(model(x[0]), target[0])).backward()
error_of(lambda: scaler.unscale_(optimizer))

# %% [markdown]
# So call `unscale_`, `step` and `update` once, after the group. `update` may change the scale, and `unscale_` after
# each piece would add scaled gradients to unscaled ones (the second call raises). Divide each loss by the number of
# pieces, since you want the gradient of a mean and `backward` adds.

# %% exercise="accumulate-and-clip"

# %% [markdown]
# ### A gradient penalty
#
# Some losses contain a gradient, for example its norm as a penalty. `torch.autograd.grad` returns that gradient, but
# `unscale_` reaches only the `.grad` of an optimizer's parameters. **By hand.** The loss is w², w is 3, and the penalty
# is |2w|. What should `w.grad` be for loss plus penalty? And what does it become if you don't divide the first gradient
# by the scale?

# %% facts=["08-grad-penalty-scaled"]
w = nn.Parameter(torch.tensor([3.0]))
optimizer = torch.optim.SGD([w], lr=0.1)
scaler = torch.amp.GradScaler("cpu")

loss = (w**2).sum()
(scaled,) = torch.autograd.grad(scaler.scale(loss), w, create_graph=True)
print("scaled:", scaled.item(), " divided:", (scaled / scaler.get_scale()).item())

for name, grad in (("divided", scaled / scaler.get_scale()), ("not divided", scaled)):
    penalty = grad.norm()
    optimizer.zero_grad()
    scaler.scale(loss + penalty).backward(retain_graph=True)
    true = w.grad.item() / scaler.get_scale()
    print(f"{name:11} penalty {penalty.item():8g}, w.grad without the scale: {true:g}")

# %% [markdown]
# `w.grad` should be 2w + 2 = 8. Without the division the penalty counts 65536 times too much. Divide by `get_scale()`
# yourself, compute the penalty from the unscaled gradient, add it to the loss, and scale the sum.
#
# Why scale the first gradient at all, if you divide it at once? Because its backward may run in float16, where small
# gradients become 0.

# %% exercise="penalty-under-scaling"

# %% [markdown]
# ### Several losses, several optimizers
#
# Here are two optimizers and one scaler; the gradients of the second model contain an inf. The scaler checks the
# gradients of each optimizer separately, but there is only one scale.
#
# **Predict.** Which weights change, and what happens to the scale?

# %% facts=["08-multiple-losses-and-optimizers"]
first, second = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
optimizers = [torch.optim.SGD([first], lr=0.1), torch.optim.SGD([second], lr=0.1)]
scaler = torch.amp.GradScaler("cpu")

loss_a = (2 * first + second).sum()
loss_b = (3 * first + torch.inf * second).sum()
scaler.scale(loss_a).backward()
scaler.scale(loss_b).backward()
scale = scaler.get_scale()
print("unscaled gradients:", first.grad.item() / scale, second.grad.item() / scale)

for optimizer in optimizers:
    scaler.step(optimizer)
scaler.update()
print(f"weights: {first.item():.1f} and {second.item():.1f}; scale: {scaler.get_scale():g}")

# %% [markdown]
# Only the first weight changes, and the scale is halved. Call `scale` on every loss, `step` on every optimizer, and
# `update` once, at the end of the iteration. You need one scaler for everything, because the gradients of both losses
# are added in the same `.grad`, so they must have the same scale.
#
# **Now you know** the whole order, for one iteration:
#
#     for optimizer in optimizers: optimizer.zero_grad()
#     for each piece of the batch:
#         with torch.autocast(device, dtype=dtype):
#             loss = loss_fn(model(piece), target) / number of pieces
#         scaler.scale(loss).backward()
#     scaler.unscale_(optimizer)          only if you look at the gradients
#     clip, log norms, …
#     scaler.step(optimizer)              for each optimizer
#     scaler.update()                     once

# %% exercise="scaler-by-hand"

# %% exercise="amp-in-order"

# %% [markdown]
# ## 8.7 Threads and processes
#
# Your model may also run in threads that you didn't start, for example in a server or in `nn.DataParallel`. A region
# doesn't reach them.


# %% facts=["08-dataparallel-threads-autocast"]
def look(where: str) -> None:
    print(f"{where:12}", torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))


with torch.autocast("cpu", dtype=torch.float16):
    look("main thread")
    thread = threading.Thread(target=look, args=("new thread",))
    thread.start()
    thread.join()

# %% [markdown]
# In the new thread autocast is off, and the dtype is the default. A function that runs in another thread needs its own
# region, for example as a decorator: `@torch.autocast("cpu", dtype=torch.float16)`.
#
# `nn.DataParallel` starts a thread for each GPU. According to its source it enters autocast there for you, but passes
# on whether autocast is on, but not its dtype, so a bfloat16 region becomes CUDA's default, float16, in the workers.
# (It takes two GPUs to see that.)
#
# **Now you know.** The state of autocast belongs to a thread. With one process for each GPU (chapter 10) there is
# nothing to pass on; each process enters its own region.

# %% [markdown]
# ## On a GPU
#
# On a GPU you can see which precision is faster there, and by how much. The cell runs a transformer layer forward and
# backward in four precisions and prints time and peak memory. Without a GPU it shows a recorded run. No exercise needs
# it.


# %% varies="a CUDA device changes what is shown"
@cuda_demo("08_amp")
def speed_and_memory() -> None:
    """Time and peak memory of forward and backward through a transformer layer."""
    before = torch.get_float32_matmul_precision()
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, device="cuda")
    x = torch.randn(8, 512, 1024, device="cuda")

    def steps(count: int, dtype: torch.dtype) -> None:
        for _ in range(count):
            layer.zero_grad()
            with torch.autocast("cuda", dtype=dtype, enabled=dtype is not torch.float32):
                loss = layer(x).float().pow(2).mean()
            loss.backward()
        torch.cuda.synchronize()

    for name, dtype, precision in (
        ("float32", torch.float32, "highest"),
        ("float32 as tf32", torch.float32, "high"),
        ("float16", torch.float16, "highest"),
        ("bfloat16", torch.bfloat16, "highest"),
    ):
        torch.set_float32_matmul_precision(precision)
        try:
            steps(5, dtype)
            torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            steps(20, dtype)
            milliseconds = (time.perf_counter() - start) / 20 * 1000
        finally:
            torch.set_float32_matmul_precision(before)
        peak = torch.cuda.max_memory_allocated() / 2**20
        print(f"{name:16} {milliseconds:8.2f} ms, peak {peak:6.0f} MiB")


speed_and_memory()

# %% [markdown]
# In the recorded run tf32, which changes only how float32 products are computed, is about as fast as autocast. Only
# autocast, with its 16 bits, saves memory.
#
# ## Folklore, checked
#
# This table lists what people say about mixed precision, and what is true. Each row unfolds its proof: a few lines that
# run without an error only if the statement on the right holds.

# %%
folklore("08_amp")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("08-backward-dtype-follows-forward")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [Automatic Mixed Precision package](https://docs.pytorch.org/docs/stable/amp.html), `torch.amp`: the regions, the
#   scaler, and the [op references](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference) with the tables
#   for CUDA and CPU;
# - [Automatic Mixed Precision examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html): accumulation,
#   clipping, gradient penalty, several models and losses, DataParallel, and autocast with custom Functions;
# - the recipe [Automatic Mixed Precision](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) of the
#   tutorials: the same loop with timings;
# - [`torch.finfo`](https://docs.pytorch.org/docs/stable/type_info.html): the numbers of section 8.1 for every floating
#   point dtype;
# - the note [Numerical accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html) and, in the note
#   [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html), the parts on TensorFloat-32 and on reduced
#   precision reductions.
#
# **Next:** chapter 9, [ONNX export](../09_onnx_export/onnx_export.ipynb).
