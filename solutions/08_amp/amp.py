# %% [markdown]
# # Automatic mixed precision
#
# Half the bits, less memory, more speed, and numbers that vanish or explode when nobody looks. After this chapter you
# can
#
# - predict what float32, float16, bfloat16 and the two 8-bit formats do to a given number, and which of them need loss
#   scaling;
# - predict the dtype of an operation under CPU and under CUDA autocast, and find it out when unsure;
# - write a training step that accumulates, unscales, clips, skips on inf and updates the scale, in the right order;
# - build the scaler yourself, and measure how much of a gradient a format loses;
# - replace the deprecated names, and notice when "mixed precision" silently does nothing.
#
# **45 minutes to read, 149 minutes to practise, 20 points.** You need chapter 4 (what `backward` computes and where
# `.grad` comes from) and an ordinary training loop: model, loss, optimizer. Section 8.4 uses a hook of chapter 6.
# Everything runs on the CPU; what needs a GPU stands near the end and is skipped without one.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
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
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.dtype_flow import dtype_flow
from torchkata.pictures.gradient_window import window_explorer
from torchkata.pictures.loss_scale import scale_explorer
from torchkata.pictures.number_formats import format_explorer
from torchkata.verdicts import check, mistake, observe, observe_scenario, observe_value, prediction

# %% [markdown]
# ## 8.1 Number formats
#
# float16 and bfloat16 both have 16 bits. **Predict.** Which of these four numbers survive in float16, at least roughly?
# Which in bfloat16?

# %%
print(f"{'':>12}{'float16':>12}{'bfloat16':>12}")
for value in (300000.0, 2e-9, 513.0, 4097.0):
    print(f"{value:12g}{torch.tensor(value).half():12g}{torch.tensor(value).bfloat16():12g}")

# %% [markdown]
# float16 loses the two that are far from 1: the large one becomes inf (*overflow*), the small one 0 (*underflow*). Of
# the other two it has 513, and 4096 in place of 4097. bfloat16 keeps all four, and only roughly: 513 becomes 512. The
# sixteen bits are spent differently. *Exponent* bits buy range, *fraction* bits buy digits; float16 has 5 and 10 of
# them, bfloat16 8 and 7.
#
# The explorer draws a number in one format: its bits, its neighbours, and, below, how far each format reaches. Type a
# number, choose a format. Try 1 in bfloat16 and add 1/512 to it; 65519 and 65520 in float16; then 1e-8 in float16, and
# move *scale* up to 2^16: the mark moves into the bar.

# %%
format_explorer("1e-8", "fp16")

# %% [markdown]
# The grid of a format follows from the two counts of bits. **Predict.** Which of the formats below has float32's
# largest number, nearly? Which has float16's spacing?


# %%
def limits(exponent_bits: int, fraction_bits: int) -> tuple[float, ...]:
    """The largest, the smallest normal and the smallest positive number, and the spacing above 1."""
    bias = 2 ** (exponent_bits - 1) - 1
    spacing = 2.0**-fraction_bits
    return (2 - spacing) * 2.0**bias, 2.0 ** (1 - bias), 2.0 ** (1 - bias) * spacing, spacing


layouts = {"float32": (8, 23), "tf32": (8, 10), "bfloat16": (8, 7), "float16": (5, 10)}
layouts |= {"float8_e5m2": (5, 2), "float8_e4m3fn": (4, 3)}

print(f"{'':14}bits  {'largest':>9}{'normal from':>13}{'positive from':>15}{'above 1':>10}{'torch: largest':>16}")
for name, bits in layouts.items():
    largest, normal, positive, spacing = limits(*bits)
    info = torch.finfo(getattr(torch, name)) if name != "tf32" else None
    numbers = f"{largest:9.3g}{normal:13.2g}{positive:15.2g}{spacing:10.2g}"
    print(f"{name:14}{bits[0]}+{bits[1]:<3} {numbers}{format(info.max, '16.3g') if info else 'no dtype':>16}")

# %% [markdown]
# Three with 8 exponent bits reach 3.4e38. tf32 and float16 share the spacing, 1/1024 just above 1. tf32 is no dtype: it
# is how NVIDIA's matrix units may read float32 numbers, with float32's range and float16's digits.
#
# Below "normal from" the spacing stops shrinking. These numbers are called *subnormal*: they have fewer and fewer
# digits, but they are not 0 yet. In float16 they reach down to 6e-8, a thousand times below `torch.finfo(...).tiny`.
#
# The last line breaks the rule. float8_e4m3fn gives up inf (`fn`: finite, with nan) and uses those patterns for
# numbers, up to 448.

# %% [markdown]
# **Predict.** Casting is then a division, a rounding and a multiplication. Does this function agree with PyTorch's cast
# for every number that we try?


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
    print(f"{name:12} the same: {torch.equal(by_hand, by_torch)}; became 0: {gone}; became inf: {infinite}")

# %% [markdown]
# It does. The spacing grows with the number: it doubles from one power of two to the next. So a format keeps a certain
# number of *digits*, whatever the size: 11 binary digits in float16, 8 in bfloat16, counting the leading 1.
#
# **Predict.** We add 1 to a running sum again and again, until it doesn't change any more. Where does it stop, in
# float16 and in bfloat16?

# %%
for dtype in (torch.float16, torch.bfloat16):
    total = torch.zeros((), dtype=dtype)
    while total + 1 != total:
        total += 1
    print(f"{str(dtype)[6:]:9} stops at {total.item():g}")

# %% [markdown]
# At 2048 and at 256: there the neighbours are 2 apart, and 2049 and 257 don't exist. They lie half-way between two
# numbers of the format, and such a case goes to the *even* one: the one whose last fraction bit is 0. Here that is the
# lower one.
#
# **Predict.** The same happens to a weight. It is 1, and a hundred training steps each want to add 0.001. What do they
# reach in each format?

# %% facts=["08-lower-precision-dtypes"]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    weight = torch.ones((), dtype=dtype)
    for _ in range(100):
        weight += 0.001
    print(f"{str(dtype)[6:]:9} {weight.item():.4f}")

# %% [markdown]
# In bfloat16 nothing happens at all: just above 1 its numbers are 1/128 apart, and every single step is rounded away.
# That is a *lost update*, and the reason why mixed precision keeps the weights in float32 and computes only *with*
# copies in 16 bits. (float16 rounds each step of 0.001 to 1/1024: nearly right.)
#
# **Predict.** 65504 is the largest number of float16. What becomes of 65519 and 65520? And of 1000 and inf in the two
# 8-bit formats?

# %% facts=["08-scaling-prevents-underflow"]
print("float16:      ", torch.tensor([65519.0, 65520.0]).half().tolist())
print("float8_e5m2:  ", torch.tensor([1000.0, 100000.0, torch.inf]).to(torch.float8_e5m2).tolist())
print("float8_e4m3fn:", torch.tensor([1000.0, 100000.0, torch.inf]).to(torch.float8_e4m3fn).tolist())
print("sum of 1000 times 100 in float16:", torch.full((1000,), 100.0).half().sum().item())

eighth = torch.ones(2).to(torch.float8_e4m3fn)
error_of(lambda: eighth + eighth)

# %% [markdown]
# 65520 is the middle between 65504 and what would come next, 65536; from there on it is inf. A sum gets there quickly,
# even if every number in it is small. float8_e4m3fn has no inf and *saturates*: even inf becomes 448, and nobody
# notices. Both 8-bit formats are for storing numbers and for special matrix products; they can't even be added.
#
# The small end matters more for training. Gradients are often tiny, and what is 0 in float16 can't be repaired
# afterwards. bfloat16 has float32's range: it rounds a gradient coarsely, but doesn't lose it. Keep this in mind for
# section 8.5.

# %% exercise="format-limits"

# %% [markdown]
# ## 8.2 What autocast does
#
# `torch.autocast` is a region in which operations choose their precision themselves. **Predict.** After `y = lin(x)`
# in such a region: which dtype has `y`, `relu(y)`, `mse_loss(y, x)`, and `lin.weight`?

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
# Four answers. A matrix product runs in bfloat16. `relu` keeps the dtype that comes in. A loss runs in float32. And
# bfloat16 plus float32 gives float32, as it does everywhere. The weights are what they were, and after the region so is
# the layer; `model.half()` is another thing, it converts them.

# %% [markdown]
# How does it do that? Let us record it. A `TorchDispatchMode` sees every operation that PyTorch really runs, after
# autocast has had its say. **Predict.** How many operations does `lin(x)` make, and how many the second `lin(y)`?


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
    print("lin(y)")
    lin(y)
    print("mse_loss(y, x)")
    F.mse_loss(y, x)
    print("y.exp()")
    y.exp()

# %% [markdown]
# Five, and two. Autocast puts casts (`_to_copy`) in front of an operation, nothing else: here one each for input,
# weight and bias. `t` turns the weight around, and `addmm` is the product. For `mse_loss` autocast casts in the other
# direction. Before `exp` it does nothing. (`detach` belongs to autograd, which keeps the result for backward.)
#
# The second `lin` needs no cast. `y` has the right dtype already, and the cast weights were kept: inside a region
# autocast remembers the copies of parameters, until the outermost region ends. What that does to a loop that stands in
# one region as a whole, section 8.4 shows.

# %% [markdown]
# So there are four kinds of operations: lower precision, float32, promote to the widest, and leave alone. Which
# operation is of which kind? The log tells. **Predict** for each line.

# %%
y = torch.ones(4, 4, dtype=torch.bfloat16)
x = torch.ones(4, 4)
calls = {
    "x @ x": lambda: x @ x,
    "F.conv1d": lambda: F.conv1d(x[None], x[:, :, None]),
    "F.gelu(y)": lambda: F.gelu(y),
    "y.mean()": lambda: y.mean(),
    "y.log_softmax(-1)": lambda: y.log_softmax(-1),
    "F.layer_norm(y, (4,))": lambda: F.layer_norm(y, (4,)),
    "F.l1_loss(y, y)": lambda: F.l1_loss(y, y),
    "F.huber_loss(y, y)": lambda: F.huber_loss(y, y),
    "y.prod()": lambda: y.prod(),
    "torch.stack([y, x])": lambda: torch.stack([y, x]),
}
for name, call in calls.items():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(f"{name:22} {str(call().dtype)[6:]}")

# %% [markdown]
# Lower precision: matrix products and convolutions. Float32: losses, and a few like `prod`. Promoted: `stack`. All
# others keep what they get, `mean`, `log_softmax` and `layer_norm` included. If you have read otherwise: that was
# about GPUs. Section 8.3 shows both.
#
# bfloat16 autocast runs on any CPU. Whether it is faster there is another question: without units for bfloat16 in the
# processor it may be slower than float32.

# %% [markdown]
# Three things stay outside. **Predict.** Which of these five lines give bfloat16?

# %% facts=["08-float64-and-integers-untouched", "08-out-of-place-ops-only"]
double, whole = torch.ones(4, 4, dtype=torch.float64), torch.ones(4, 4, dtype=torch.int64)
a, b, c = torch.ones(4, 4), torch.ones(4, 4), torch.ones(4, 4)

with torch.autocast("cpu", dtype=torch.bfloat16):
    print("float64 @ float64  ", (double @ double).dtype)
    print("int64 @ int64      ", (whole @ whole).dtype)
    print("a.addmm(b, c)      ", a.addmm(b, c).dtype)
    print("a.addmm_(b, c)     ", a.addmm_(b, c).dtype)
    print("torch.mm, with out=", torch.mm(b, c, out=torch.empty(4, 4)).dtype)
    error_of(lambda: a.addmm_(b @ c, c))
    error_of(lambda: double @ b)

# %% [markdown]
# One. Autocast never touches float64 and integers, and it leaves operations alone that write into a tensor that is
# there already: in-place ones, and those with `out=`. The two errors follow: `b @ c` is bfloat16 and has to meet a
# float32 `c` that nobody casts; and with `double` only `b` is cast, which fits no better.

# %% exercise="autocast-dtypes"

# %% [markdown]
# ### Names, old and new, and switches that do nothing
#
# **Predict.** On a machine without a GPU somebody writes `torch.autocast("cuda")`. What happens?

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
# A warning, and then everything runs in float32. The device type says *whose* operations are meant; there are regions
# for the CPU and for other accelerators, too, and the argument has no default. A dtype that autocast can't use has the
# same effect: a warning, and the region does nothing. On a machine with a GPU `autocast("cuda")` is silent, and what is
# computed on the CPU stays float32 all the same.

# %% [markdown]
# float16 has a companion, the *gradient scaler*: it multiplies the loss, so that small gradients don't become 0
# (section 8.5). bfloat16 doesn't need it. **Predict.** Two names from old tutorials, and the new one without an
# argument. Which of the three is usable on the CPU?

# %% facts=["08-gradscaler-class-names"] shows_warning="FutureWarning" varies="CUDA changes what is shown"
warning_of(lambda: torch.cpu.amp.autocast())
warning_of(lambda: torch.cuda.amp.GradScaler())

print()
if torch.cuda.is_available():
    scaler = torch.amp.GradScaler()
else:
    warning_of(lambda: torch.amp.GradScaler())
    scaler = torch.amp.GradScaler(enabled=False)  # what it makes of itself
print("without an argument:", scaler.is_enabled(), scaler.scale(torch.tensor(3.0)).item())

scaler = torch.amp.GradScaler("cpu")
print('GradScaler("cpu"):  ', scaler.is_enabled(), scaler.scale(torch.tensor(3.0)).item())

# %% [markdown] facts=["08-gradscaler-no-arguments"]
# The first, as long as it exists: everything in `torch.cuda.amp` and `torch.cpu.amp` is deprecated (`FutureWarning`).
# The other two mean CUDA, `torch.amp.GradScaler()` without saying so; without CUDA it warns, and then scales nothing.
# So name the device, always: `torch.autocast("cpu", …)` and `torch.amp.GradScaler("cpu")`.

# %% [markdown]
# **Predict.** And the dtype? Which one does a region take when you name none?

# %% facts=["08-autocast-cuda-without-scaler"]
for device in ("cpu", "cuda"):
    print(f"{device:5} {torch.get_autocast_dtype(device)}")

# %% [markdown]
# CUDA takes float16, the CPU bfloat16. So `torch.autocast("cuda")` without a dtype and without a scaler runs, and loses
# every gradient below 3e-8. Name the dtype, too: bfloat16 where the GPU has it
# (`torch.cuda.is_bf16_supported(including_emulation=False)`; without the argument it is True as well where bfloat16 is
# only emulated, and slow), otherwise float16 together with a scaler.

# %% exercise="modern-amp-setup"

# %% [markdown]
# ### Leaving the region
#
# **Predict.** `h` was made inside a region. After it, `h` goes into a layer with float32 weights. What happens?

# %% facts=["08-autocast-selects-dtype"]
torch.manual_seed(0)
lin, x = nn.Linear(4, 4), torch.randn(2, 4)

with torch.autocast("cpu", dtype=torch.bfloat16):
    h = lin(x)
    with torch.autocast("cpu", enabled=False):
        error_of(lambda: lin(h))
        print("disabled, h.float():", lin(h.float()).dtype)
    print("enabled, h.float(): ", lin(h.float()).dtype)
error_of(lambda: lin(h))

# %% [markdown]
# Nothing is cast back when a region ends: results keep the dtype that they have. A region with `enabled=False` is a
# hole in the region around it, and inside it the same is true. Whoever wants real float32 needs both: the hole, and
# `.float()` on what comes in. `.float()` alone is undone by the next matrix product.

# %% exercise="mixed-region-error"

# %% [markdown]
# ## 8.3 Two tables, not one
#
# The documentation has two tables of operations, one for CUDA and one for the CPU. They differ, and you can look at
# the CUDA one without a GPU: a `FakeTensorMode` runs operations for shapes and dtypes only, without any numbers, and
# autocast casts there as it does on a device. The function below asks which of the four kinds an operation is of.


# %%
def kind_of(device: str, call, *shapes: tuple[int, ...]) -> str:
    """Give call float32, 16-bit and mixed tensors under autocast, and judge by what comes out."""
    low, full = torch.get_autocast_dtype(device), torch.float32

    def result(first: torch.dtype, other: torch.dtype) -> torch.dtype:
        dtypes = (first, *[other] * (len(shapes) - 1))
        given = zip(shapes, dtypes, strict=True)
        return call(*(torch.ones(shape, dtype=dtype, device=device) for shape, dtype in given)).dtype

    torch.set_autocast_enabled(device, True)
    try:
        with FakeTensorMode() if device == "cuda" else nullcontext():
            if result(full, full) is low:
                return "lower"
            if result(low, low) is full:
                return "float32"
            with suppress(RuntimeError):
                return "promotes" if len(shapes) > 1 and result(low, full) is full else "keeps"
            return "keeps"  # and refuses mixed ones
    except RuntimeError:
        return "refused"
    finally:
        torch.set_autocast_enabled(device, False)
        torch.clear_autocast_cache()


# %% [markdown]
# **Predict.** A sum of bfloat16 numbers on the CPU stays bfloat16. And a sum of float16 numbers on CUDA?

# %% facts=["08-linear-conv-lower-reductions-float32", "08-cuda-float32-list-pointwise", "08-cuda-promote-list"]
square, row = (4, 4), (4,)
calls = {
    "matmul": (torch.matmul, square, square),
    "mv": (torch.mv, square, row),
    "conv1d": (F.conv1d, (1, 4, 8), (2, 4, 3)),
    "prelu": (F.prelu, square, (1,)),
    "relu": (torch.relu, square),
    "mean": (torch.mean, square),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), square),
    "sum": (torch.sum, square),
    "exp": (torch.exp, square),
    "softmax": (lambda x: x.softmax(-1), square),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), square),
    "prod": (torch.prod, square),
    "mse_loss": (F.mse_loss, square, square),
    "cross_entropy": (F.cross_entropy, square, square),
    "binary_cross_entropy": (F.binary_cross_entropy, square, square),
    "add": (torch.add, square, square),
    "cat": (lambda x, y: torch.cat([x, y]), square, square),
    "tensordot": (lambda x, y: torch.tensordot(x, y, 1), square, square),
    "dot": (torch.dot, row, row),
}
print(f"{'':22}{'CPU':10}CUDA")
for name, call in calls.items():
    on_cpu, on_cuda = kind_of("cpu", *call), kind_of("cuda", *call)
    print(f"{name:22}{on_cpu:10}{on_cuda:10}{'' if on_cpu == on_cuda else '<- differ'}".rstrip())

# %% [markdown] facts=["08-cuda-float16-list", "08-cpu-bfloat16-list", "08-cpu-promote-list"]
# "lower": float32 goes in, 16 bits come out. "float32": 16 bits go in, float32 comes out. "keeps": as it comes, so a
# `relu` after a `linear` is in 16 bits. "promotes": one 16-bit and one float32 argument give float32.
#
# On both devices products and convolutions are lower, losses float32. On CUDA, reductions and exponentials go to
# float32 as well (`sum`, `exp`, `softmax`, `layer_norm`), because float16 overflows so early; `mean` and `batch_norm`
# are exceptions and keep. On the CPU these all keep. `mv` is missing on the CPU's list, `tensordot` is a plain product
# there, and `dot` refuses mixed arguments.

# %% [markdown]
# One line says "refused". **Predict.** Why would CUDA's autocast refuse a loss?

# %% facts=["08-cuda-float32-list-losses"]
torch.set_autocast_enabled("cuda", True)
try:
    with FakeTensorMode():
        p = torch.ones(3, device="cuda", dtype=torch.float16)
        error_of(lambda: F.binary_cross_entropy(p, p))
        print("with logits:", F.binary_cross_entropy_with_logits(p, p).dtype)
finally:
    torch.set_autocast_enabled("cuda", False)
    torch.clear_autocast_cache()

# %% [markdown]
# It is about the gradient. `binary_cross_entropy` takes a probability p, and its gradient with respect to p is as large
# as 1/p. If p is float16, that gradient has to be float16, too, whatever the loss itself is computed in.
#
# **Predict.** The CPU doesn't refuse. A logit of -13.8 has the probability 1e-6, and the label says 1. What gradient
# does the logit get, in one step and in two? It should be -1.

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
# The loss is fine both times, and float32. On the way back 1/p = 1e6 doesn't fit into float16 and becomes inf. The
# version with logits never needs 1/p. Use it on every device.
#
# **Predict.** The three recurrent cells multiply matrices. Does CPU autocast run them in bfloat16?

# %% facts=["08-cuda-float16-rnn-cells"]
torch.manual_seed(0)
x = torch.randn(2, 3)
with torch.autocast("cpu", dtype=torch.bfloat16):
    print("RNNCell ", nn.RNNCell(3, 3)(x).dtype)
    print("GRUCell ", nn.GRUCell(3, 3)(x).dtype)
    print("LSTMCell", nn.LSTMCell(3, 3)(x)[0].dtype)

# %% [markdown] facts=["08-cpu-float32-list-still-valid"]
# One of three. All of them are on CUDA's list of lower precision. Tables like these change between versions; asking, as
# `kind_of` does, takes a second. The CPU's float32 list is long, too: three-dimensional pooling, some padding, most of
# `torch.linalg` and all of `torch.fft`.

# %% [markdown]
# ## 8.4 Backward under autocast
#
# `backward` is usually called after the region, where autocast is off. **Predict.** A hook on `h`, the output of a
# Linear under autocast: which dtype has the gradient that it sees? And the gradient of the weight?

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
# bfloat16, and float32. Read the log from the top: the gradient of the loss is float32; the cast in front of `mse_loss`
# has a backward, too, and it casts to bfloat16; both `mm` run in bfloat16; at the end the casts of weight, bias and `x`
# are gone through backwards, and only there float32 appears again. The graph was recorded *with* its casts, so backward
# doesn't need to know of any region.
#
# The figure shows this for a small net: forward to the right, backward to the left.

# %%
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
dtype_flow(net, torch.randn(2, 4))

# %% [markdown]
# A `.grad` in float32 says nothing about how many digits it was computed with, nor about what was lost on the way.
#
# **Predict.** The documentation recommends to leave the region before `backward`. Does it make a difference to the
# gradients?


# %% facts=["08-autocast-wraps-forward-only"]
def weight_gradient(inside: bool) -> Tensor:
    torch.manual_seed(0)
    lin, x = nn.Linear(4, 4), torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.mse_loss(lin(x), x)
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    return lin.weight.grad


print("the same gradients:", torch.equal(weight_gradient(True), weight_gradient(False)))

# %% [markdown]
# Not here. The recorded operations have their dtypes. It is a recommendation all the same: a custom Function (chapter
# 5) that multiplies matrices in its own `backward` does so under whatever is switched on at that moment.
# (`torch.amp.custom_fwd` and `torch.amp.custom_bwd` tie its backward to its forward.)
#
# **Predict.** So the whole training loop, `optimizer.step()` included, may as well stand in one region. May it?


# %% facts=["08-autocast-wraps-forward-only"]
def losses(in_one_region: bool) -> list[float]:
    torch.manual_seed(0)
    lin, x, y = nn.Linear(4, 1), torch.randn(16, 4), torch.randn(16, 1)
    optimizer, found = torch.optim.SGD(lin.parameters(), lr=0.1), []
    with torch.autocast("cpu", dtype=torch.bfloat16) if in_one_region else nullcontext():
        for _ in range(5):
            with nullcontext() if in_one_region else torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.mse_loss(lin(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found


for name, in_one_region in (("a region for each iteration", False), ("one region for all", True)):
    print(f"{name:28}", *(f"{loss:.4f}" for loss in losses(in_one_region)))

# %% [markdown]
# No. The loss stands still, without an error or a warning. `step` changes the float32 weights, but autocast goes on
# with the bfloat16 copies that it made in the first iteration; it throws them away when the outermost region ends. So:
# a region for each forward pass and its loss, and `step` outside of it. Whether `backward` stands inside matters less.

# %% [markdown]
# ## 8.5 Loss scaling
#
# Now float16 and its small gradients. **Predict.** The loss below has a true gradient of 1e-4 · 1e-4 = 1e-8. What is
# `w.grad` in float16? And when the loss is multiplied by 65536 first?


# %% facts=["08-scaling-prevents-underflow"]
def gradient(scale: float, dtype: torch.dtype) -> Tensor:
    w = torch.ones(1, dtype=dtype, requires_grad=True)
    loss = (w * torch.tensor([1e-4], dtype=dtype)).float() * 1e-4
    (loss * scale).sum().backward()
    return w.grad


for scale, dtype in ((1, torch.float16), (65536, torch.float16), (1, torch.bfloat16)):
    grad = gradient(scale, dtype)
    divided = grad.float().item() / scale
    print(f"{str(dtype)[6:]:9} scale {scale:5}: .grad {grad.item():8.3g}, divided in float32 {divided:.2g}")

# %% [markdown]
# 0, and nothing that comes later can undo that. Backward is linear: a loss that is 65536 times larger has gradients
# that are 65536 times larger, at every place of the net. They fit into float16, and the division at the end is done in
# float32. A power of two changes no digits. bfloat16 has it right without any of this.
#
# **Predict.** A net of eleven Linear layers with sigmoids between them. Gradients shrink on the way back (chapter 6 had
# a picture of that). In which layers are they lost in float16?

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
for dtype, scale in ((torch.float32, 1), (torch.bfloat16, 1), (torch.float16, 1), (torch.float16, 65536)):
    net = deep_net_after_backward(dtype, scale)
    zeros = [(layer.weight.grad == 0).float().mean().item() for layer in net[::2]]
    quarters = [f"{round(share * 4) * 25:3}%" for share in zeros]
    print(f"{str(dtype)[6:]:9} scale {scale:5}: {' '.join(quarters)}")

# %% [markdown]
# In the first layers, all of them: these layers don't learn, and no error and no warning says so. The loss can still
# fall, since the last layers learn.
#
# The explorer below has the gradients of this net, computed in float32, and float16's window over them. What is left of
# the window becomes 0, what is right of it inf. Move the scale: it shifts the histogram. How far can you go until the
# largest gradients leave the window on the right?

# %%
net = deep_net_after_backward(torch.float32, 1)
window_explorer([layer.weight.grad for layer in net[::2]])

# %% [markdown]
# ### One step by hand
#
# Nobody knows the right scale in advance, and it changes during training. So: take a large one, look whether a gradient
# became inf, and if so, skip the step and take a smaller one. **Predict** the printed numbers of both iterations; the
# gradient is 3, then inf. The weight is 1, the learning rate 0.1.

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
# That is all of it. The step is that of ordinary training: the learning rate knows nothing of the scale. A step that is
# skipped leaves the weights as they are.
#
# `torch.amp.GradScaler` has a method for each part: `scale(loss)`, `unscale_(optimizer)`, `step(optimizer)` and
# `update()`. **Predict.** Are the numbers the same?

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
# They are. `unscale_` may be left out: `step` does it if nobody has. It calls `optimizer.step()` only if the gradients
# of this optimizer are all finite. A skipped step now and then is normal, above all in the first iterations. If a
# learning rate schedule counts steps, it counts skipped ones too, unless you look: a scale that is smaller after
# `update()` tells that the step was skipped.
#
# `update` also makes the scale grow. **Predict.** With `growth_interval=3`: the scale after each of nine iterations,
# if the sixth one meets an inf?

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
print("by default: ", fresh.state_dict())

# %% [markdown]
# Three good iterations *in a row* double the scale, an inf halves it and starts the count again. By default it takes
# 2000 good ones. So the scale keeps knocking at the upper end of float16: it grows until something overflows, goes back
# one step, and tries again later. The count is part of the state, and `state_dict()` belongs into a checkpoint.
#
# The simulator lets infs happen at random. Try a high probability with a long interval: where does the scale end up?

# %%
scale_explorer()

# %% [markdown]
# With infs that often it falls and falls: the scale has no floor. If you see this in a training run, don't look for a
# better setting of the scaler; look for the inf.
#
# **Predict.** What if one of the calls is forgotten: no `scale`, no `step`, or no `update`?

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
# Each of them is noticed. What is not noticed: `loss.backward()` instead of `scaler.scale(loss).backward()` after the
# scaler was used once. `step` still divides by 65536, and with SGD the net learns next to nothing.
#
# The whole loop, then. It runs on the CPU as it does on a GPU, with the device's name changed. **Predict.** The loss is
# about 3 in the beginning. Does the first iteration take its step?

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
# It doesn't: 65536 is too much for these gradients, the first step is skipped, and iteration 1 begins with the same
# weights and the same loss. That is how it is meant to be.
#
# With bfloat16 the same loop needs no scaler. One way to write both is `GradScaler("cpu", enabled=dtype is
# torch.float16)`: a scaler that is not enabled hands the loss through, and its `step` is `optimizer.step`.

# %% exercise="scale-window"

# %% [markdown]
# ## 8.6 Between backward and step
#
# Between `scaler.scale(loss).backward()` and `scaler.step` the gradients are in *scaled units*. Whoever looks at them,
# clips them or computes with them has to unscale first.
#
# **Predict.** Gradients are clipped to norm 1, the learning rate is 1. How far does the weight move when `unscale_`
# comes before clipping, and how far when it is forgotten?


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
# The scaled gradient is clipped to norm 1, and then `step` divides it by 65536. No error, no warning: a net that hardly
# learns. `step` remembers that `unscale_` was called and doesn't divide again. If a gradient is inf, the norm is inf or
# nan, and `step` skips as before: `unscale_` has seen it.

# %% [markdown]
# ### Accumulation
#
# A large batch in small pieces: `backward` adds to `.grad`, and the optimizer steps once for each group. Scaled
# gradients may be added like all others. **Predict.** Where do `unscale_`, `step` and `update` belong: after each
# piece, or after the group?

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
# After the group. All pieces of a group need the same scale, and `update` may change it. `unscale_` after each piece
# would add scaled gradients to unscaled ones; the second call says so. And each loss is divided by the number of
# pieces, since the gradient of a mean is wanted and `backward` adds.

# %% exercise="accumulate-and-clip"

# %% [markdown]
# ### A gradient penalty
#
# Some losses contain a gradient, for instance its norm as a penalty. `torch.autograd.grad` returns it, and no optimizer
# knows of it. **Predict.** The loss is w², w is 3. What does `autograd.grad` return for the scaled loss, and which
# method of the scaler takes the scale out again?

# %% facts=["08-grad-penalty-scaled"]
w = nn.Parameter(torch.tensor([3.0]))
optimizer = torch.optim.SGD([w], lr=0.1)
scaler = torch.amp.GradScaler("cpu")

loss = (w**2).sum()
(scaled,) = torch.autograd.grad(scaler.scale(loss), w, create_graph=True)
print("scaled:", scaled.item(), " divided:", (scaled / scaler.get_scale()).item())

for name, grad in (("divided", scaled / scaler.get_scale()), ("not divided", scaled)):
    penalty = grad.norm()  # true value: |2 w| = 6, and its derivative is 2
    optimizer.zero_grad()
    scaler.scale(loss + penalty).backward(retain_graph=True)
    print(f"{name:11} penalty {penalty.item():8g}, w.grad without the scale: {w.grad.item() / scaler.get_scale():g}")

# %% [markdown]
# No method: `unscale_` reaches only the `.grad` of an optimizer's parameters. Divide by `get_scale()` yourself, then
# form the penalty from true numbers, add it to the loss, and scale the sum. The right derivative is 2w + 2 = 8; without
# the division the penalty counts 65536 times too much.
#
# Why scale the first gradient at all, if it is divided at once? Because backward may run in float16 in between.

# %% exercise="penalty-under-scaling"

# %% [markdown]
# ### Several losses, several optimizers
#
# **Predict.** Two optimizers, one scaler. The gradients of the second model contain an inf. Which of the models is
# updated, and what happens to the scale?

# %% facts=["08-multiple-losses-and-optimizers"]
first, second = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
optimizers = [torch.optim.SGD([first], lr=0.1), torch.optim.SGD([second], lr=0.1)]
scaler = torch.amp.GradScaler("cpu")

loss_a = (2 * first + second).sum()
loss_b = (3 * first + torch.inf * second).sum()
scaler.scale(loss_a).backward()
scaler.scale(loss_b).backward()
print("unscaled gradients:", first.grad.item() / scaler.get_scale(), second.grad.item() / scaler.get_scale())

for optimizer in optimizers:
    scaler.step(optimizer)
scaler.update()
print(f"weights: {first.item():.1f} and {second.item():.1f}; scale: {scaler.get_scale():g}")

# %% [markdown]
# The first. `scale` is called on every loss and `step` on every optimizer; each optimizer looks at its own gradients.
# `update` is called once, at the end of the iteration, and any inf of any optimizer makes the scale smaller. One scaler
# for all: the gradients of both losses are added in the same `.grad`, so they need the same unit.
#
# All in one place, for one iteration:
#
#     for optimizer in optimizers: optimizer.zero_grad()
#     for each piece of the batch:
#         with torch.autocast(device, dtype=dtype):
#             loss = loss_fn(model(piece), target) / number of pieces
#         scaler.scale(loss).backward()
#     scaler.unscale_(optimizer)          only if somebody looks at the gradients
#     clip, log norms, …
#     scaler.step(optimizer)              for each optimizer
#     scaler.update()                     once

# %% exercise="scaler-by-hand"

# %% [markdown]
# ## 8.7 Threads and processes
#
# **Predict.** A thread is started inside a float16 region. Is autocast on in the thread, and with which dtype?


# %% facts=["08-dataparallel-threads-autocast"]
def look(where: str) -> None:
    print(f"{where:12}", torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))


with torch.autocast("cpu", dtype=torch.float16):
    look("main thread")
    thread = threading.Thread(target=look, args=("new thread",))
    thread.start()
    thread.join()

# %% [markdown]
# It is off, and the dtype is the default one: the state of autocast belongs to a thread. A function that runs in
# another thread needs a region of its own, for example as a decorator: `@torch.autocast("cpu", dtype=torch.float16)`.
#
# `nn.DataParallel` starts a thread for each GPU, and it enters autocast there for you, but it hands on only *that* it
# was on: a bfloat16 region becomes CUDA's default, float16, in the workers. With one process for each GPU (chapter 10)
# there is nothing to hand on; each process enters its own region.

# %% [markdown]
# ## On a GPU
#
# The following cells were written without a GPU at hand, and there is no recording of what they print. Without a CUDA
# device each prints one line. No exercise needs them.
#
# **Predict.** The loop of section 8.5 on a GPU: which dtype have the output of the model and the loss?


# %% facts=["08-amp-loop-on-gpu"] varies="a CUDA device changes what is shown"
@cuda_demo("08_amp")
def loop_on_a_gpu() -> None:
    """The loop of section 8.5 with "cuda" in place of "cpu"."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.randn(64, 4, device="cuda")
    target = x.sum(1, keepdim=True)
    for iteration in range(61):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(x)
            loss = F.mse_loss(output, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if iteration % 20 == 0:
            dtypes = f"output {output.dtype}, loss {loss.dtype}"
            print(f"iteration {iteration:2}: loss {loss.item():.2f}, scale {scaler.get_scale():g}, {dtypes}")


loop_on_a_gpu()

# %% [markdown]
# float16 and float32, as the CUDA table says.
#
# **Predict.** Forward and backward of a transformer layer in four precisions. How much faster do you expect 16 bits to
# be, and does the memory shrink to a half?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("08_amp")
def speed_and_memory() -> None:
    """Time and peak memory of forward and backward through a transformer layer."""
    before = torch.get_float32_matmul_precision()
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, device="cuda")
    x = torch.randn(8, 512, 1024, device="cuda")

    def step(dtype: torch.dtype) -> None:
        layer.zero_grad()
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not torch.float32):
            loss = layer(x).float().pow(2).mean()
        loss.backward()

    for name, dtype, precision in (
        ("float32", torch.float32, "highest"),
        ("float32 as tf32", torch.float32, "high"),
        ("float16", torch.float16, "highest"),
        ("bfloat16", torch.bfloat16, "highest"),
    ):
        torch.set_float32_matmul_precision(precision)
        try:
            for _ in range(5):
                step(dtype)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            for _ in range(20):
                step(dtype)
            torch.cuda.synchronize()
            milliseconds = (time.perf_counter() - start) / 20 * 1000
        finally:
            torch.set_float32_matmul_precision(before)
        print(f"{name:16} {milliseconds:8.2f} ms, peak {torch.cuda.max_memory_allocated() / 2**20:6.0f} MiB")


speed_and_memory()

# %% [markdown]
# What is saved for backward is in 16 bits, and takes half of the memory. The weights stay in float32, and copies of
# them in 16 bits come on top. The speed comes from matrix units that know these formats; where a processor has no such
# units, CPU or GPU, bfloat16 can be slower than float32.
#
# **Predict.** The deep sigmoid net of section 8.5, trained on a GPU for some steps in float16 without a scaler, with a
# scaler, and in bfloat16. In which of the three do the weights of the first layer change?


# %% facts=["08-scaling-prevents-underflow"] varies="a CUDA device changes what is shown"
@cuda_demo("08_amp")
def underflow_for_real() -> None:
    """Train in three ways; report the zeros in the gradient by layer and how far the first layer moved."""
    for name, dtype, scaled in (
        ("float16, no scaler", torch.float16, False),
        ("float16, scaler", torch.float16, True),
        ("bfloat16", torch.bfloat16, False),
    ):
        torch.manual_seed(0)
        layers = [layer for _ in range(10) for layer in (nn.Linear(32, 32), nn.Sigmoid())]
        net = nn.Sequential(*layers, nn.Linear(32, 1)).cuda()
        x, target = torch.randn(64, 32, device="cuda"), torch.randn(64, 1, device="cuda")
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-16)
        scaler = torch.amp.GradScaler("cuda", enabled=scaled)
        before = net[0].weight.detach().clone()
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=dtype):
                loss = F.mse_loss(net(x), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        zeros = [f"{(layer.weight.grad == 0).float().mean().item():.0%}" for layer in net[::2]]
        moved = (net[0].weight - before).abs().max().item()
        print(f"{name:19} zeros {' '.join(zeros)}; first layer moved by {moved:.1g}")


underflow_for_real()

# %% [markdown]
# Without a scaler the gradients of the first layers are 0, and Adam, which would make even a tiny gradient count, has
# nothing to work with.
#
# With two GPUs there is one thing more to see: the dtype that DataParallel's workers use in a bfloat16 region.


# %% facts=["08-dataparallel-threads-autocast"] varies="a CUDA device changes what is shown"
@cuda_demo("08_amp")
def dtype_in_the_workers() -> None:
    """The dtype of DataParallel's output in a bfloat16 region; it needs two GPUs."""
    if torch.cuda.device_count() < 2:
        print("This needs two CUDA devices: skipped.")
        return
    model = nn.DataParallel(nn.Linear(4, 4).cuda())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        print(model(torch.randn(8, 4, device="cuda")).dtype)


dtype_in_the_workers()

# %% [markdown]
# ## Folklore, checked
#
# What people say about mixed precision, and what is so. Each row unfolds its proof: a few lines that run through only
# if the statement on the right holds.

# %%
folklore(
    "08_amp",
    ids=[
        "08-cpu-bfloat32",
        "08-cpu-float32-list-changed",
        "08-cpu-float32-list-removed-functions",
        "08-grad-penalty-scaled",
        "08-gradscaler-class-names",
        "08-backward-dtype-follows-forward",
        "08-autocast-wraps-forward-only",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

# %%
prove("08-backward-dtype-follows-forward")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - `torch.amp`, "Automatic Mixed Precision package": the regions, the scaler, and the op references with the tables for
#   CUDA and CPU;
# - "Automatic Mixed Precision examples": accumulation, clipping, gradient penalty, several models and losses,
#   DataParallel, and autocast with custom Functions;
# - the recipe "Automatic Mixed Precision" of the tutorials: the same loop with timings;
# - `torch.finfo`: the numbers of section 8.1 for every floating point dtype;
# - the note "Numerical accuracy" and, in the note "CUDA semantics", the parts on TensorFloat-32 and on reduced
#   precision reductions.
