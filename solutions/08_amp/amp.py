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

# %% [markdown]
# ### Exercise 8.1 · What survives the cast?
#
# predict · warm-up · 10 min · 2 points
#
# Ten questions about four formats. `fp16(v)` stands for `torch.tensor(v).to(torch.float16)`; `bf16`, `e5m2` and `e4m3`
# stand for `torch.bfloat16`, `torch.float8_e5m2` and `torch.float8_e4m3fn`. The two subtractions are done in the format
# itself, as in `bf16(1) - 0.001`.
#
# **Contract**
#
# - Replace each `...`: the number that is really stored, written in full (`math.inf` is one, too), or True or False.
# - The check casts on your PyTorch and compares exactly; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# For each format: how many exponent bits (range) and how many fraction bits (spacing of neighbours at that size)?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# fp16: max 65504, spacing 2 above 2048, smallest positive about 6e-8. bf16: range of float32, but only 8 significant
# bits: spacing 2 above 256, 1/128 just above 1 and 1/256 just below. e5m2 has inf (max 57344); e4m3fn has none and
# saturates at 448 in this torch.
#
# </details>

# %% answer="format-limits"
### BEGIN SOLUTION
survivors = {
    "fp16(70000)": math.inf,
    "fp16(1e-8)": 0.0,
    "fp16(2049)": 2048.0,
    "bf16(70000)": 70144.0,
    "bf16(257)": 256.0,
    "bf16(1e-8) == 0": False,
    "bf16(1) - 0.001": 1.0,
    "fp16(1) - 0.001 < 1": True,
    "e5m2(61440)": math.inf,
    "e4m3(500)": 448.0,
}
### END SOLUTION
### BEGIN GIVEN
# survivors = {
#     "fp16(70000)": ...,
#     "fp16(1e-8)": ...,
#     "fp16(2049)": ...,
#     "bf16(70000)": ...,
#     "bf16(257)": ...,
#     "bf16(1e-8) == 0": ...,
#     "bf16(1) - 0.001": ...,
#     "fp16(1) - 0.001 < 1": ...,
#     "e5m2(61440)": ...,
#     "e4m3(500)": ...,
# }
### END GIVEN

# %% check="format-limits" points=2
"""Each item against a real cast; every right item earns its share."""
with check("format-limits") as test:
    test("every item is compared with what the cast gives")

    def cast(value, dtype):
        """The number that a format stores."""
        return torch.tensor(value).to(dtype).item()

    def in_words(text):
        """A number or True or False that was written as a string; anything else as it is."""
        if not isinstance(text, str):
            return text
        text = text.strip().removeprefix("math.")
        if text in ("True", "False"):
            return text == "True"
        with suppress(ValueError):
            return float(text)
        return text

    bf16_one, fp16_one = torch.tensor(1.0, dtype=torch.bfloat16), torch.tensor(1.0, dtype=torch.float16)
    fp16_range = "fp16 ends at 65504; above (from 65520 on, after rounding) it is inf."
    fp16_underflow = (
        "The smallest positive fp16 number is about 6e-8; 1e-8 is below half of it and becomes 0. That is what loss "
        "scaling is for."
    )
    fp16_integers = "fp16 has 11 significant bits: odd integers above 2048 do not exist."
    bf16_range = (
        "bf16 has the exponent of float32: neither 70000 nor 1e-8 leaves its range. That is why it needs no GradScaler."
    )
    bf16_precision = (
        "bf16 has 8 significant bits: neighbours of 257 are 256 and 258, near 70000 they are 512 apart. The cast takes "
        "the nearer one, and the even one where both are equally near."
    )
    lost_update = (
        "Just below 1 bf16 moves in steps of 1/256: a step of 0.001 is lost entirely. This is why weights stay in "
        "float32."
    )
    fp8 = (
        "e5m2 has an inf above 57344 (61440 rounds up); e4m3fn has no inf: the cast saturates at 448 (in this torch; "
        "older ones gave nan)."
    )
    seen = observe_value(survivors)
    if isinstance(seen.noted.result, dict):
        seen.noted.result.update({name: in_words(given) for name, given in seen.noted.result.items()})
    test.points = seen.predicts(
        {
            "fp16(70000)": prediction(cast(70000.0, torch.float16), because=fp16_range),
            "fp16(1e-8)": prediction(cast(1e-8, torch.float16), because=fp16_underflow),
            "fp16(2049)": prediction(
                cast(2049.0, torch.float16),
                because=fp16_integers + " 2049 lies half-way between 2048 and 2050; the one whose last bit is 0 wins.",
            ),
            "bf16(70000)": prediction(cast(70000.0, torch.bfloat16), (math.inf, bf16_range), because=bf16_precision),
            "bf16(257)": prediction(cast(257.0, torch.bfloat16), because=bf16_precision),
            "bf16(1e-8) == 0": prediction(cast(1e-8, torch.bfloat16) == 0, because=bf16_range),
            "bf16(1) - 0.001": prediction((bf16_one - 0.001).item(), because=lost_update),
            "fp16(1) - 0.001 < 1": prediction(
                (fp16_one - 0.001).item() < 1,
                because="fp16 just below 1 has spacing 1/2048, so 0.001 does survive (rounded).",
            ),
            "e5m2(61440)": prediction(cast(61440.0, torch.float8_e5m2), because=fp8),
            "e4m3(500)": prediction(cast(500.0, torch.float8_e4m3fn), because=fp8),
        },
        points=2,
    )
test.points

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
# autocast remembers the copies of parameters, until the outermost region ends.

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

# %% [markdown]
# ### Exercise 8.2 · Which dtype comes out?
#
# predict · warm-up · 10 min · 2 points
#
# A small program under CPU autocast, and twelve expressions in it. Which dtype has each of them? Answer before you run
# it.
#
#     lin, x, e = nn.Linear(4, 4), torch.randn(4, 4), torch.eye(4)
#     d = x.double()
#     t = torch.arange(4)
#     with torch.autocast("cpu", dtype=torch.bfloat16):
#         y = lin(x)
#         ...  # here: the first ten expressions
#     F.mse_loss(y, x).backward()
#     ...  # here: lin.weight and its gradient
#
# **Contract**
#
# - Replace each `...` by a dtype, such as `torch.bfloat16`, or by its name, such as `"bfloat16"` or `"bf16"`.
# - The check runs the program and compares; every right item earns a twelfth of the points.
#
# <details><summary>Hint 1</summary>
#
# Is the op on a list of autocast (lower precision, or float32), or does it simply keep the dtype of its input? And is
# it the CPU table you have in mind?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Lower precision: matrix products of float32 inputs. Float32 on CPU: most losses, `prod`, but not `sum` or `softmax`.
# Everything else keeps or promotes; in-place ops and float64 are left alone; parameters and their gradients stay
# float32.
#
# </details>

# %% answer="autocast-dtypes"
### BEGIN SOLUTION
dtypes = {
    "lin(x)": torch.bfloat16,
    "relu(y)": torch.bfloat16,
    "y + x": torch.float32,
    "y.sum()": torch.bfloat16,
    "y.softmax(-1)": torch.bfloat16,
    "F.mse_loss(y, x)": torch.float32,
    "F.cross_entropy(y, t)": torch.float32,
    "torch.cat([y, x])": torch.float32,
    "d @ d": torch.float64,
    "x.addmm_(x, e)": torch.float32,
    "lin.weight": torch.float32,
    "lin.weight.grad": torch.float32,
}
### END SOLUTION
### BEGIN GIVEN
# dtypes = {
#     "lin(x)": ...,
#     "relu(y)": ...,
#     "y + x": ...,
#     "y.sum()": ...,
#     "y.softmax(-1)": ...,
#     "F.mse_loss(y, x)": ...,
#     "F.cross_entropy(y, t)": ...,
#     "torch.cat([y, x])": ...,
#     "d @ d": ...,
#     "x.addmm_(x, e)": ...,
#     "lin.weight": ...,
#     "lin.weight.grad": ...,
# }
### END GIVEN

# %% check="autocast-dtypes" points=2
"""Each item against what the program really gives; every right item earns its share."""
with check("autocast-dtypes") as test:
    test("every item is compared with what the program gives")
    lin, x, e = nn.Linear(4, 4), torch.randn(4, 4), torch.eye(4)
    d, t = x.double(), torch.arange(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = lin(x)
        came = {
            "lin(x)": y,
            "relu(y)": torch.relu(y),
            "y + x": y + x,
            "y.sum()": y.sum(),
            "y.softmax(-1)": y.softmax(-1),
            "F.mse_loss(y, x)": F.mse_loss(y, x),
            "F.cross_entropy(y, t)": F.cross_entropy(y, t),
            "torch.cat([y, x])": torch.cat([y, x]),
            "d @ d": d @ d,
            "x.addmm_(x, e)": x.clone().addmm_(x, e),
        }
    F.mse_loss(y, x).backward()
    came |= {"lin.weight": lin.weight, "lin.weight.grad": lin.weight.grad}

    linear = "Linear is the textbook case: float32 inputs are cast to bfloat16 and so is the result."
    keeps = "relu is on no list: it keeps the dtype of its input, here the bfloat16 result of lin."
    promotes = (
        "A bfloat16 tensor and a float32 tensor give float32: ordinary type promotion (cat is even on autocast's "
        "promote list)."
    )
    cuda_table = (
        "That is the CUDA table: there sum and softmax go to float32. On CPU they keep the dtype of their input."
    )
    keeps_input = "On CPU sum and softmax keep the dtype of their input, here the bfloat16 result of lin."
    losses = "mse_loss and cross_entropy are on the float32 list, so that the loss keeps range and precision."
    weights = (
        "autocast casts copies of the weights on the way into the op; the parameter and its gradient stay float32."
    )
    sentences = {
        "lin(x)": linear,
        "relu(y)": keeps,
        "y + x": promotes,
        "y.sum()": keeps_input,
        "y.softmax(-1)": keeps_input,
        "F.mse_loss(y, x)": losses,
        "F.cross_entropy(y, t)": losses,
        "torch.cat([y, x])": promotes,
        "d @ d": "autocast never touches float64 or integer tensors.",
        "x.addmm_(x, e)": "In-place and out= variants are not autocast: they must write into the float32 tensor that "
        "exists.",
        "lin.weight": weights,
        "lin.weight.grad": weights,
    }
    known = {"y.sum()": [(torch.float32, cuda_table)], "y.softmax(-1)": [(torch.float32, cuda_table)]}
    short = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
    short |= {"half": "float16", "float": "float32", "double": "float64"}

    def in_full(given):
        """The full name of a dtype that was written as a string; anything else as it is."""
        if not isinstance(given, str):
            return given
        given = given.strip().removeprefix("torch.")
        return short.get(given, given)

    seen = observe_value(dtypes)
    if isinstance(seen.noted.result, dict):
        seen.noted.result.update({name: in_full(given) for name, given in seen.noted.result.items()})
    test.points = seen.predicts(
        {
            name: prediction(tensor.dtype, *known.get(name, []), because=sentences[name])
            for name, tensor in came.items()
        },
        points=2,
    )
test.points

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
# every gradient below 3e-8. Name the dtype, too: bfloat16 where the GPU has it (`torch.cuda.is_bf16_supported()`),
# otherwise float16 together with a scaler.

# %% [markdown]
# ### Exercise 8.3 · Old AMP names that silently do nothing
#
# fix · warm-up · 12 min · 2 points
#
# Every training script has a few lines like these. They give two kinds of warnings, and on a laptop without CUDA they
# compute in float32 without a word. Repair them, for both kinds of devices.
#
# **Contract**
#
# - `make_amp(device, dtype=None)` returns a pair: `autocast`, a function without arguments, and a
#   `torch.amp.GradScaler`. `device` is `"cpu"` or `"cuda"`; an index as in `"cuda:1"` is allowed.
# - Every call of `autocast()` gives a fresh context manager for that device type; such regions may be nested.
# - dtype None means bfloat16 where the device supports it (the CPU does), else float16.
# - The scaler belongs to the device type and is enabled for float16 only.
# - `dtype=torch.float32` switches autocast off (the scaler is disabled, too). Any dtype but float16, bfloat16 and
#   float32 raises ValueError.
# - `"cuda"` without CUDA: `make_amp` raises RuntimeError and says so. Ask `torch.cuda.is_available()` and
#   `torch.cuda.is_bf16_supported()`.
# - No warning is issued.
#
# <details><summary>Hint 1</summary>
#
# Which argument tells `torch.amp.GradScaler` where it works, and what is its default? Which of the two 16-bit formats
# needs loss scaling?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `device_type = device.split(":")[0]`; decide the dtype (`torch.cuda.is_bf16_supported()` for cuda);
# `torch.autocast(device_type, dtype=..., enabled=...)` in a function,
# `torch.amp.GradScaler(device_type, enabled=dtype is torch.float16)`.
#
# </details>


# %% answer="modern-amp-setup"
def make_amp(
    device: str, dtype: torch.dtype | None = None
) -> tuple[Callable[[], AbstractContextManager], torch.amp.GradScaler]:
    """A function that gives autocast regions for a device, and the scaler that belongs to them."""
    ### BEGIN SOLUTION
    device_type = device.split(":")[0]
    if device_type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"{device} was asked for, but CUDA is not available here")
    if dtype is None:
        low = device_type == "cpu" or torch.cuda.is_bf16_supported()
        dtype = torch.bfloat16 if low else torch.float16
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"autocast knows float16 and bfloat16, and float32 for off; not {dtype}")

    def autocast() -> AbstractContextManager:
        if dtype is torch.float32:
            return torch.autocast(device_type, enabled=False)
        return torch.autocast(device_type, dtype=dtype)

    return autocast, torch.amp.GradScaler(device_type, enabled=dtype is torch.float16)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # scaler = torch.cuda.amp.GradScaler()
    # autocast = lambda: torch.cuda.amp.autocast()
    # return autocast, scaler
    ### END GIVEN


# %% check="modern-amp-setup" points=2
"""The region's dtype, the scaler that goes with it, and what must be refused."""
with check("modern-amp-setup") as test:

    def on_machine(cuda, bf16):
        """Patches that let torch.cuda answer as on a machine with two GPUs, or with none."""
        answers = {"is_available": cuda, "is_bf16_supported": bf16, "device_count": 2 * cuda}
        patches = ExitStack()
        for name, answer in answers.items():
            patches.enter_context(mock.patch.object(torch.cuda, name, lambda *args, _answer=answer, **kwargs: _answer))
        return patches

    def unpacked(made):
        """A pair's two parts and a note about its kind; no pair gives (None, None, its kind)."""
        if isinstance(made, (tuple, list)) and len(made) == 2:
            kinds = [
                "callable" if callable(made[0]) else type(made[0]).__name__,
                "GradScaler" if isinstance(made[1], torch.amp.GradScaler) else type(made[1]).__name__,
            ]
            return (*made, kinds)
        return None, None, [type(made).__name__]

    def about_scaler(scaler):
        """Whether a scaler is on, where it works, and what it makes of a loss of 1."""
        on = scaler.is_enabled()
        facts = {"on": on, "device": scaler._device if on else "", "scaled": 0.0}
        if on and scaler._device == "cpu":
            facts["scaled"] = scaler.scale(torch.ones(())).item()
        return facts

    def on_cpu(make_amp, *wish):
        """The dtype of a product inside, nested and after the region, and what the scaler is."""
        with on_machine(cuda=False, bf16=False):
            autocast, scaler, kinds = unpacked(make_amp(*wish))
            if kinds != ["callable", "GradScaler"]:
                return {"kinds": kinds}
            a, facts = torch.ones(2, 2), {"kinds": kinds}
            with autocast():
                facts["inside"] = str((a @ a).dtype)
                facts["on"] = torch.is_autocast_enabled("cpu")
            facts["after"] = str((a @ a).dtype)
            return facts | {"scaler": about_scaler(scaler)}

    one_region = mistake(
        "The first part must be a function without arguments that gives a context manager, not one context manager.",
        raises="TypeError.*__call__.*func",
    )
    no_op = "Nothing was autocast on this device: the context belongs to another device type, or is switched off."
    deprecated = mistake(
        "FutureWarning: torch.cuda.amp.* is deprecated; use torch.amp.GradScaler(device) and "
        "torch.autocast(device_type=...).",
        when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
    )
    scaler_fp16 = (
        "float16 without an enabled GradScaler: small gradients underflow. (GradScaler() without a device means cuda "
        "and disables itself elsewhere.)"
    )
    scaler_bf16 = "bfloat16 has the range of float32: a scaler is needed for float16 only."

    def judge_kinds(seen):
        """A function and a GradScaler came back."""
        seen.expecting(deprecated, one_region)
        kinds = seen["kinds"]
        seen.that(len(kinds) == 2, f"Return the pair (autocast, scaler), not a value of type {kinds[0]}.", stage="type")
        seen.that(
            kinds[0] == "callable",
            f"The first part must be a function that gives a context manager; yours is of type {kinds[0]}.",
            stage="type",
        )
        seen.that(
            kinds[1] == "GradScaler",
            "The second part must be a torch.amp.GradScaler (disabled where none is needed); yours is of type "
            f"{kinds[1]}.",
            stage="type",
        )

    def judge_cpu(seen, dtype):
        """The region computes in the given dtype, and the scaler is on for float16 only."""
        judge_kinds(seen)
        seen.that(seen["inside"] != "torch.float32", no_op, stage="dtype")
        seen.that(seen["inside"] == dtype, f"A product inside must be {dtype}; it was {seen['inside']}.", stage="dtype")
        seen.that(seen["after"] == "torch.float32", "Autocast is still on after the region.", stage="dtype")
        judge_scaler(seen, "cpu" if dtype == "torch.float16" else "")

    def judge_scaler(seen, device):
        """The scaler is on, for this device; or off, where device is empty."""
        if device:
            seen.that(seen["scaler"]["on"] and seen["scaler"]["device"] == device, scaler_fp16)
            seen.that(device != "cpu" or seen["scaler"]["scaled"] > 1, "The scaler does not scale a loss.")
        else:
            seen.that(not seen["scaler"]["on"], scaler_bf16)

    test("make_amp('cpu'): bfloat16, no scaling, no warning")
    seen = observe_scenario(on_cpu, make_amp, "cpu")
    judge_cpu(seen, "torch.bfloat16")
    seen.warned_nothing()

    test("make_amp('cpu', torch.float16): the scaler works")
    seen = observe_scenario(on_cpu, make_amp, "cpu", torch.float16)
    judge_cpu(seen, "torch.float16")
    seen.warned_nothing()

    def refused(make_amp, cuda, *wish):
        """How a wish is refused: [the exception's kinds, its message], or what came in its place."""
        with on_machine(cuda=cuda, bf16=cuda):
            try:
                made = make_amp(*wish)
            except NotImplementedError:
                raise
            except Exception as error:
                return [[kind.__name__ for kind in type(error).__mro__], str(error)]
        return ["returned", type(made).__name__]

    def judge_no_cuda(seen):
        """RuntimeError, with the word CUDA in its message."""
        kinds, message = seen.expecting(deprecated).value
        seen.that(
            kinds != "returned",
            '"cuda" was asked for but is not available: raise RuntimeError instead of quietly computing in float32.',
            stage="raised",
        )
        seen.that("RuntimeError" in kinds, f"This must raise RuntimeError; it raised {kinds[0]}.", stage="raised")
        seen.that("cuda" in message.lower(), "The message must say that CUDA is missing.", stage="raised")
        seen.warned_nothing(mistake("Refuse before anything is built: {detail}", stage="rule"))

    test("make_amp('cuda') on a machine without CUDA")
    judge_no_cuda(observe_scenario(refused, make_amp, False, "cuda"))
    judge_no_cuda(observe_scenario(refused, make_amp, False, "cuda", torch.float16))

    ### BEGIN HIDDEN TESTS
    def on_gpu(make_amp, bf16, *wish):
        """What the region sets for CUDA, on a machine that pretends to have two GPUs."""
        with on_machine(cuda=True, bf16=bf16):
            autocast, scaler, kinds = unpacked(make_amp(*wish))
            if kinds != ["callable", "GradScaler"]:
                return {"kinds": kinds}
            with autocast():
                inside = [torch.is_autocast_enabled("cuda"), str(torch.get_autocast_dtype("cuda"))]
            return {
                "kinds": kinds,
                "inside": inside,
                "after": torch.is_autocast_enabled("cuda"),
                "scaler": about_scaler(scaler),
            }

    def judge_gpu(seen, dtype, words):
        """The region is on with this dtype, and the scaler is on for float16 only."""
        judge_kinds(seen)
        on, chosen = seen["inside"]
        seen.that(on, no_op, stage="dtype")
        seen.that(chosen == dtype, words, stage="dtype")
        seen.that(not seen["after"], "Autocast is still on after the region.", stage="dtype")
        judge_scaler(seen, "cuda" if dtype == "torch.float16" else "")
        seen.warned_nothing()

    ask_gpu = "Ask the GPU: bfloat16 where torch.cuda.is_bf16_supported(), float16 only where it is not."
    index = mistake(
        "A device with an index ('cuda:1') must be accepted; take its type for autocast and scaler.",
        when=lambda seen: bool(seen.error_text) or not seen["inside"][0] or seen["scaler"]["device"] == "cuda:1",
    )
    test.hidden("a GPU with bfloat16 and one without")
    judge_gpu(observe_scenario(on_gpu, make_amp, True, "cuda"), "torch.bfloat16", ask_gpu)
    judge_gpu(
        observe_scenario(on_gpu, make_amp, False, "cuda").expecting(
            mistake(ask_gpu, raises="does not support bfloat16")
        ),
        "torch.float16",
        ask_gpu,
    )
    own_dtype = "The dtype that the caller asked for was not taken."
    for wish in (torch.float16, torch.bfloat16):
        judge_gpu(observe_scenario(on_gpu, make_amp, True, "cuda", wish), str(wish), own_dtype)

    test.hidden("a device with an index")
    judge_gpu(
        observe_scenario(on_gpu, make_amp, True, "cuda:1", torch.float16).expecting(index), "torch.float16", own_dtype
    )
    judge_gpu(observe_scenario(on_gpu, make_amp, False, "cuda:1").expecting(index), "torch.float16", ask_gpu)
    judge_gpu(observe_scenario(on_gpu, make_amp, True, "cuda:0").expecting(index), "torch.bfloat16", ask_gpu)
    judge_no_cuda(observe_scenario(refused, make_amp, False, "cuda:1", torch.bfloat16).expecting(index))
    judge_cpu(observe_scenario(on_cpu, make_amp, "cpu:0", torch.float16).expecting(index), "torch.float16")

    def many_regions(make_amp, *wish):
        """Two regions, one in the other, twice; and a gradient. What is on after each step."""
        with on_machine(cuda=False, bf16=False):
            autocast, _, kinds = unpacked(make_amp(*wish))
            if kinds != ["callable", "GradScaler"]:
                return {"kinds": kinds}
            lin, x, on = nn.Linear(2, 2), torch.ones(2, 2), []
            for _ in range(2):
                with autocast():
                    on.append(torch.is_autocast_enabled("cpu"))
                    with autocast():
                        on.append(torch.is_autocast_enabled("cpu"))
                        out = lin(x)
                    on.append(torch.is_autocast_enabled("cpu"))
                on.append(torch.is_autocast_enabled("cpu"))
            out.sum().backward()
            return {"kinds": kinds, "on": on, "dtypes": [str(out.dtype), str(lin.weight.grad.dtype)]}

    test.hidden("fresh regions, one inside the other; a gradient afterwards")
    reused = "autocast() must give a new context each time, usable again and nested."
    seen = observe_scenario(many_regions, make_amp, "cpu").expecting(
        mistake(reused, raises="generator|reentrant|args|func|enter|context")
    )
    judge_kinds(seen)
    seen.that(seen["on"] == [True, True, True, False] * 2, reused)
    seen.that(seen["dtypes"] == ["torch.bfloat16", "torch.float32"], f"The dtypes are {seen['dtypes']}.", stage="dtype")

    test.hidden("float32 switches both off; other dtypes are refused")
    seen = observe_scenario(on_cpu, make_amp, "cpu", torch.float32)
    float32 = "dtype=torch.float32 means: autocast disabled, scaler disabled."
    seen.expecting(mistake(float32, when=lambda seen: bool(seen.error_text)))
    judge_kinds(seen)
    seen.that(seen["inside"] == "torch.float32" and not seen["on"] and not seen["scaler"]["on"], float32)
    seen.warned_nothing()
    seen = observe_scenario(on_gpu, make_amp, True, "cuda", torch.float32)
    seen.expecting(mistake(float32, when=lambda seen: bool(seen.error_text)))
    judge_kinds(seen)
    seen.that(not seen["inside"][0] and not seen["scaler"]["on"], float32)
    seen.warned_nothing()
    for device, dtype in (("cpu", torch.float64), ("cpu", torch.int64), ("cuda", torch.float8_e5m2)):
        seen = observe_scenario(refused, make_amp, True, device, dtype)
        seen.that(
            "ValueError" in seen.value[0],
            "Only float16, bfloat16 and float32 make sense: raise ValueError for others.",
            stage="raised",
        )
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 8.4 · mat1 and mat2 must have the same dtype
#
# debug · solid · 12 min · 2 points
#
# The backbone is meant to be fast, the head to be exact. So the backbone runs under autocast and the head doesn't. But
# the code below stops:
#
#     RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float
#
# **Contract**
#
# - `forward_mixed(backbone, head, x)` runs `backbone` under CPU autocast in bfloat16 and `head` in true float32: every
#   matrix product of the head takes and gives float32. Both also hold when the caller is inside an autocast region of
#   any kind.
# - It returns float32. Gradients reach x and all parameters; no parameter changes its dtype or its values.
# - Each of the two is run once. The autocast state of the caller is the same afterwards.
#
# <details><summary>Hint 1</summary>
#
# What dtype does h have when the block ends, and does leaving the block convert anything? What would the head do if
# someone else had switched autocast on around your function?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Convert h with `.float()` and run the head in a nested `torch.autocast("cpu", enabled=False)` region.
#
# </details>


# %% answer="mixed-region-error"
def forward_mixed(backbone: nn.Module, head: nn.Module, x: Tensor) -> Tensor:
    """head(backbone(x)), the backbone under bfloat16 autocast, the head in float32.

    x: (B, D) float32; returns what head returns, in float32.
    """
    ### BEGIN SOLUTION
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # with torch.autocast("cpu", dtype=torch.bfloat16):
    #     h = backbone(x)
    # return head(h)
    ### END GIVEN


# %% check="mixed-region-error" points=2
"""The dtype of every product, the result, the gradients; also inside other autocast regions."""
with check("mixed-region-error") as test:

    class Products(TorchDispatchMode):
        """Notes the matrix products that run while it is on: [part of the model, dtypes that go in, dtype out]."""

        def __init__(self):
            super().__init__()
            self.found, self.part, self.runs = [], "", []

        @classmethod
        def _should_skip_dynamo(cls):
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.split("::")[-1]
            if name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "mkldnn_linear"):
                dtypes = sorted({str(a.dtype) for a in args if isinstance(a, Tensor)})
                self.found.append([self.part, dtypes, str(out.dtype)])
            return out

    class Part(nn.Module):
        """A backbone or a head that says when it runs."""

        def __init__(self, name, products, *layers):
            super().__init__()
            self.name, self.products, self.layers = name, products, nn.Sequential(*layers)

        def forward(self, x):
            self.products.part = self.name
            self.products.runs.append(self.name)
            out = self.layers(x)
            self.products.part = "between"
            return out

    def parts(products):
        """The backbone and the head with fixed weights."""
        backbone = Part("backbone", products, nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
        head = Part("head", products, nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        with torch.no_grad():
            for shift, p in enumerate([*backbone.parameters(), *head.parameters()]):
                p.copy_((torch.arange(p.numel()) * 37 % 101 / 101 - 0.45 + shift / 64).reshape(p.shape))
        return backbone, head

    def state():
        """Whether autocast is on, and in which dtype."""
        return [torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu"))]

    def named_parameters(*modules):
        """Every parameter of the backbone and the head under a name."""
        return {f"{module.name}.{name}": p for module in modules for name, p in module.named_parameters()}

    def told(forward_mixed, x, surroundings, evaluating):
        """Run it in the given surroundings; note the products, the result, the gradients and what has changed."""
        products = Products()
        backbone, head = parts(products)
        if evaluating:
            backbone.eval(), head.eval()
        parameters = named_parameters(backbone, head)
        before = {name: p.detach().clone() for name, p in parameters.items()}
        x.requires_grad_()
        with ExitStack() as outer:
            if surroundings:
                outer.enter_context(torch.autocast("cpu", **surroundings))
            states = [state()]
            with products:
                out = forward_mixed(backbone, head, x)
            states.append(state())
        now = named_parameters(backbone, head)
        facts = {
            "products": products.found,
            "runs": products.runs,
            "states": states,
            "recast": [f"{name}: {p.dtype}" for name, p in now.items() if p.dtype != torch.float32],
            "changed": [name for name in before if name not in now or not torch.equal(now[name], before[name])],
            "kind": type(out).__name__ if not isinstance(out, Tensor) else "Tensor",
        }
        if not isinstance(out, Tensor):
            return facts
        facts |= {"out": out.detach().clone(), "tracked": out.requires_grad}
        if out.requires_grad:
            out.float().square().sum().backward()
        grads = {"x": x.grad} | {name: p.grad for name, p in now.items()}
        return facts | {"grads": {name: None if g is None else g.float() for name, g in grads.items()}}

    def reference(x):
        """The result and the gradients: bfloat16 by hand in the backbone, float32 in the head."""
        backbone, head = parts(Products())
        x = x.clone().requires_grad_()
        h = x
        for layer in backbone.layers:
            if isinstance(layer, nn.Linear):
                h = F.linear(h.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16())
            else:
                h = layer(h)
        out = head.layers(h.float())
        out.square().sum().backward()
        grads = {"x": x.grad} | {name: p.grad for name, p in named_parameters(backbone, head).items()}
        return out.detach(), grads

    still_error = "h leaves the region as bfloat16 and nothing converts it; the float32 head cannot multiply it."
    head_low = (
        "The head ran in bfloat16: its products rounded to 8 significant bits. Casting the result to float32 "
        "afterwards does not bring the digits back."
    )
    weights_cast = "The {part}'s parameters changed dtype: convert the activation, not the weights."
    backbone_full = "The backbone no longer runs in bfloat16."
    no_gradient = "The backbone gets no gradient: you detached h."

    def dtypes_of(seen, part):
        """The dtypes that went into and came out of the products of a part."""
        return {dtype for where, into, out in seen["products"] if where == part for dtype in [*into, out]}

    def judge_precision(seen, *mistakes):
        """The parameters' dtypes first, then those of the products, then of the result."""
        seen.expecting(*mistakes, mistake(still_error, raises="same dtype.* (BFloat16|Half) and Float"))
        recast = ", ".join(seen["recast"])
        cast = weights_cast.replace("{part}", "head" if "head" in recast else "backbone")
        seen.that(not recast, f"{cast} ({recast})", stage="dtype")
        runs = seen["runs"]
        for part in ("backbone", "head"):
            seen.that(runs.count(part) > 0, f"The {part} itself was never called.", stage="rule")
        seen.that(dtypes_of(seen, "backbone") == {"torch.bfloat16"}, backbone_full, stage="dtype")
        seen.that(dtypes_of(seen, "head") == {"torch.float32"}, head_low, stage="dtype")
        seen.that(
            seen["kind"] == "Tensor",
            f"Return the head's result, a tensor; not a value of type {seen['kind']}.",
            stage="type",
        )
        seen.that(seen["out"].dtype == torch.float32, "Return float32.", stage="dtype")

    def judge_rest(seen, expected, gradients):
        """Values, gradients, and what must be as it was."""
        seen.that(
            seen["out"].shape == expected.shape,
            f"The result has the wrong shape, {tuple(seen['out'].shape)}.",
            stage="shape",
        )
        seen.that(
            torch.allclose(seen["out"], expected, rtol=1e-4, atol=1e-4),
            "The result is not that of the backbone in bfloat16 and the head in float32.",
        )
        changed = ", ".join(seen["changed"])
        seen.that(not changed, f"Parameters were changed: {changed}.", stage="arguments")
        missing = [name for name, gradient in seen["grads"].items() if gradient is None]
        words = no_gradient if any(n.startswith("backbone") for n in missing) else "No gradient reaches some tensors"
        seen.that(not missing, f"{words} (without: {', '.join(missing)})", stage="gradient")
        off = [n for n, g in seen["grads"].items() if not torch.allclose(g, gradients[n], rtol=0.05, atol=0.05)]
        seen.that(not off, f"The gradient is wrong: {', '.join(off)}.", stage="gradient")

    test("every product has the right dtype, and the result is float32")
    some_x = torch.arange(24.0).reshape(4, 6) * 7 % 11 / 4 - 1.2
    expected, gradients = reference(some_x)
    seen = observe_scenario(told, forward_mixed, some_x, {}, False)
    judge_precision(seen)

    test("the values; gradients reach x and the backbone; the parameters are as they were")
    judge_rest(seen, expected, gradients)

    ### BEGIN HIDDEN TESTS
    def judge_state(seen):
        """The caller's autocast state."""
        before, after = seen["states"]
        seen.that(before == after, "The autocast state of the caller was changed.", stage="rule")

    outer_region = mistake(
        "Called inside someone's autocast region the head runs in bfloat16 again: .float() is not enough, autocast "
        "casts it back. Disable autocast for the head.",
        when=lambda seen: dtypes_of(seen, "head") != {"torch.float32"},
    )
    test.hidden("inside someone's bfloat16 region")
    seen = observe_scenario(told, forward_mixed, some_x, {"dtype": torch.bfloat16}, False)
    judge_precision(seen, outer_region)
    judge_rest(seen, expected, gradients)
    judge_state(seen)

    test.hidden("inside a region that is switched off, and inside a float16 region")
    own_dtype = mistake(
        "Inside a float16 region the backbone ran in float16: torch.autocast without a dtype takes the one that is set "
        "at that moment. Name bfloat16.",
        when=lambda seen: "torch.float16" in dtypes_of(seen, "backbone"),
    )
    in_float16 = mistake(
        "Inside a float16 region the head did not run in float32: disable autocast for it.",
        when=lambda seen: dtypes_of(seen, "head") != {"torch.float32"},
    )
    for surroundings in ({"enabled": False}, {"dtype": torch.float16}):
        seen = observe_scenario(told, forward_mixed, some_x, surroundings, False)
        judge_precision(seen, own_dtype, in_float16)
        judge_rest(seen, expected, gradients)
        judge_state(seen)

    test.hidden("each part runs once, in eval mode, too; nothing is left switched on")
    seen = observe_scenario(told, forward_mixed, some_x, {}, True)
    judge_precision(seen)
    judge_rest(seen, expected, gradients)
    judge_state(seen)
    seen.that(seen["runs"] == ["backbone", "head"], "Each of the two parts must be run once.", stage="rule")
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 8.5 · How much gradient does fp16 lose, and which scale saves it?
#
# measure · solid · 20 min · 3 points
#
# Before you trust a loss scale, measure. How much of the gradient becomes zero in a 16-bit format, what is the largest
# scale that lets nothing overflow, and how much is lost then?
#
# **Contract**
#
# - `scale_window(grads, dtype)` gets float32 gradients of any shapes and returns a dict with three floats. dtype is
#   `torch.float16` or `torch.bfloat16`.
# - `lost`: the share of the non-zero entries that become exactly 0 when cast to dtype.
# - `scale`: the largest power of two s (it may be below 1) for which every `s * g` is still finite in dtype.
# - `lost_scaled`: the same share after multiplying by that s.
# - Shares are over all entries of all tensors together. The product must not overflow before the cast: s may be larger
#   than any float32.
# - No entry, no non-zero entry or an entry that is inf or nan: ValueError. The tensors are not changed.
#
# **Rule** The cast decides: what counts is what really becomes 0 or inf, rounding included. At either end the edge is
# not `torch.finfo`'s `tiny` or `max`.
#
# <details><summary>Hint 1</summary>
#
# Is every number below `finfo.tiny` lost? Is 65519 too big for float16? What does the cast itself say?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Concatenate as float64, take the largest magnitude, start from `2**floor(log2(max/amax))` and move up or down by
# testing `isfinite((amax * s).to(dtype))`; count zeros after the cast among entries that were not zero.
#
# </details>


# %% answer="scale-window"
def scale_window(grads: Sequence[Tensor], dtype: torch.dtype = torch.float16) -> dict[str, float]:
    """The share of gradient that a format loses, the largest power of two as scale, and what is lost with it.

    grads: float32 tensors of any shapes; returns {"lost", "scale", "lost_scaled"}.
    """
    ### BEGIN SOLUTION
    flat = torch.cat([g.detach().double().flatten() for g in grads]) if len(grads) else torch.empty(0)
    if not flat.isfinite().all() or not flat.any():
        raise ValueError("there must be a gradient, not all of it zero, and all of it finite")
    flat = flat[flat != 0]
    largest = flat.abs().max()

    def fits(exponent: int) -> bool:
        return bool((largest * 2.0**exponent).to(dtype).isfinite())

    exponent = math.floor(math.log2(torch.finfo(dtype).max / largest))  # this one fits for sure
    while fits(exponent + 1):
        exponent += 1

    def lost(scale: float) -> float:
        return (flat * scale).to(dtype).eq(0).double().mean().item()

    return {"lost": lost(1.0), "scale": 2.0**exponent, "lost_scaled": lost(2.0**exponent)}
    ### END SOLUTION


# %% check="scale-window" points=3
"""The share that is lost, the largest scale that fits, the share lost with it; edges included."""
with check("scale-window") as test:
    zeros_counted = "Entries that were 0 before are not lost; divide by the number of non-zero ones."
    tiny = "Numbers below finfo.tiny are not lost yet: subnormals reach down to about 6e-8 in float16. Cast and look."
    not_power = "The scale must be a power of two (multiplying by it changes no digits)."
    too_large = "With this scale the largest entry becomes inf."
    after_cast = "Multiply before casting: what has become 0 stays 0 whatever you multiply it by."
    per_tensor = "Average over all entries, not over tensors of different size."
    invalid = "Empty, all-zero or non-finite gradients must raise ValueError."

    def judge(seen, expected, *mistakes):
        """The keys and types, then the scale, then the shares."""
        came = seen.value
        seen.that(
            isinstance(came, dict) and set(came) == {"lost", "scale", "lost_scaled"},
            "Return a dict with the keys lost, scale and lost_scaled.",
            stage="type",
        )
        odd = [name for name, value in came.items() if type(value) not in (int, float) or abs(value) > 2**1000]
        seen.that(not odd, f"The numbers must be finite Python floats; not so: {', '.join(odd)}.", stage="type")
        scale, right = came["scale"], expected["scale"]
        seen.that(
            abs(scale - right) <= 1e-6 * right,
            "The scale is not the largest power of two that fits.",
            *mistakes,
            mistake(not_power, when=lambda seen: scale > 0 and not math.log2(scale).is_integer()),
            mistake(too_large, when=lambda seen: scale > right),
            mistake("A larger power of two still fits.", when=lambda seen: scale < right),
        )
        for name in ("lost", "lost_scaled"):
            seen.that(abs(came[name] - expected[name]) <= 1e-6, f"The share `{name}` is wrong.", *mistakes)

    def shares(lost, lost_scaled):
        """A condition: these two shares came (None: any)."""
        wanted = {"lost": lost, "lost_scaled": lost_scaled}
        return lambda seen: all(v is None or abs(seen[k] - v) <= 1e-6 for k, v in wanted.items())

    test("two tensors in float16: 3 of 7 non-zero entries are lost, none after scaling")
    # 3e-5 is below finfo.tiny (6.1e-5) and stays; 2e-8 and below become 0; 2**18 * 0.2 = 52428.8 fits, 2**19 * 0.2 not
    some_grads = [torch.tensor([[0.2, 0.0, -1e-8], [3e-5, 0.0, 2e-8]]), torch.tensor([-0.03, 1e-9, 1e-3])]
    seen = observe(scale_window, some_grads)
    expected = {"lost": 3 / 7, "scale": 2.0**18, "lost_scaled": 0.0}
    judge(
        seen,
        expected,
        mistake(zeros_counted, when=shares(3 / 9, None)),
        mistake(zeros_counted, when=shares(5 / 9, None)),
        mistake(zeros_counted, when=shares(5 / 7, None)),
        mistake("A share is what is lost; yours is what is kept.", when=shares(4 / 7, 1.0)),
        mistake(tiny, when=shares(4 / 7, None)),
        mistake(after_cast, when=shares(3 / 7, 3 / 7)),
        mistake(per_tensor, when=shares((2 / 4 + 1 / 3) / 2, None)),
    )
    seen.leaves_arguments_alone()

    test("the same gradients in bfloat16: nothing is lost")
    # 2**130 * 0.2 = 2.7e38 fits below bfloat16's largest, 3.39e38
    seen = observe(scale_window, some_grads, torch.bfloat16)
    overflow = "s * g overflowed in float32 before the cast; form the product in float64."
    judge(
        seen,
        {"lost": 0.0, "scale": 2.0**130, "lost_scaled": 0.0},
        mistake(overflow, when=lambda seen: seen["scale"] in (2.0**126, 2.0**127, 2.0**128, 2.0**129)),
    )

    test("no entry, zeros only, inf or nan")
    for refused in (
        [],
        [torch.empty(0)],
        [torch.zeros(3)],
        [torch.tensor([0.5, math.inf])],
        [torch.tensor([0.5]), torch.tensor([math.nan, 1.0])],
        [torch.tensor([[0.5, 2.0]]), torch.tensor(-math.inf)],
    ):
        observe(scale_window, refused).raises(ValueError, because=invalid)

    ### BEGIN HIDDEN TESTS
    def by_trying(grads, dtype=torch.float16):
        """The truth, by trying powers of two from above."""
        flat = torch.cat([g.double().flatten() for g in grads])
        nonzero = flat[flat != 0]
        start = math.frexp(torch.finfo(dtype).max)[1] - math.frexp(nonzero.abs().max().item())[1] + 3
        scale = next(s for k in range(start, -400, -1) if (nonzero * (s := 2.0**k)).to(dtype).isfinite().all())
        shares = [((nonzero * s).to(dtype) == 0).double().mean().item() for s in (1.0, scale)]
        return {"lost": shares[0], "scale": scale, "lost_scaled": shares[1]}

    too_small = mistake(
        "A larger power of two still fits: the rounding of the cast allows a little more than finfo.max.",
        when=lambda seen: 0 < seen["scale"] < expected["scale"],
    )
    zero_edge = mistake(tiny + " The edge is rounded, too.", when=lambda seen: seen["scale"] == expected["scale"])
    test.hidden("the largest magnitude is negative; a range too wide for any scale")
    some_grads = [torch.tensor([3e-2, -700.0, 5e-7]), torch.tensor([[2e-12], [-5e-13], [4e-9]])]
    expected = by_trying(some_grads)
    judge(
        observe(scale_window, some_grads),
        expected,
        mistake(
            "The largest MAGNITUDE decides: a large negative entry overflows as well.",
            when=lambda seen: seen["scale"] > expected["scale"],
        ),
        mistake(after_cast, when=shares(expected["lost"], expected["lost"])),
        mistake(zeros_counted, when=shares(expected["lost"], 0.0)),
        mistake(tiny, when=shares(None, 4 / 6)),
    )
    some_grads = [torch.tensor([-3.0, -1e-9]), torch.tensor(-2e-3)]  # nothing positive at all
    expected = by_trying(some_grads)
    judge(
        observe(scale_window, some_grads),
        expected,
        mistake(
            "The largest MAGNITUDE decides, not the largest number.",
            when=lambda seen: seen["scale"] != expected["scale"],
        ),
    )

    test.hidden("huge gradients need a scale below 1")
    for some_grads in ([torch.tensor([3e7, -4e5, 1e-4])], [torch.tensor([-2e37, 5e30]), torch.tensor([[1e3]])]):
        expected = by_trying(some_grads)
        seen = observe(scale_window, some_grads)
        judge(
            seen,
            expected,
            mistake(
                "The scale may be below 1: large gradients need scaling down.",
                when=lambda seen: seen["scale"] >= 1,
            ),
        )

    test.hidden("the edge of overflow: 65519 fits, 65520 does not")
    for largest in (65519.0, 65520.0, 65504.0, 65505.0, 32760.0, 32759.99, -65519.0, -65520.0):
        some_grads = [torch.tensor([1.0, largest, 1e-3])]
        expected = by_trying(some_grads)
        judge(observe(scale_window, some_grads, torch.float16), expected, too_small)
    bf16_edge = torch.tensor(3.3961e38)  # above bfloat16's largest, but rounded down to it
    for largest in (bf16_edge, bf16_edge / 2.0**90, torch.tensor(3.4e38)):
        some_grads = [largest[None], torch.tensor([1.0])]
        expected = by_trying(some_grads, torch.bfloat16)
        judge(observe(scale_window, some_grads, torch.bfloat16), expected, too_small)

    test.hidden("tiny gradients: the scale itself is larger than any float32")
    for some_grads, low in (
        ([torch.tensor([1e-8, -3e-20, 2e-30])], torch.bfloat16),
        ([torch.tensor([1e-38, -3e-40, 2e-44])], torch.bfloat16),
        ([torch.tensor([2e-37, 1e-44])], torch.float16),
    ):
        expected = by_trying(some_grads, low)
        judge(observe(scale_window, some_grads, low).expecting(mistake(overflow, stage=("raised", "value"))), expected)

    test.hidden("tensors of very different size; entries at the limit of 2**-25")
    limit = torch.tensor(2.0**-25)
    above, below = (torch.nextafter(limit, torch.tensor(end)) for end in (1.0, 0.0))
    some_grads = [torch.full((300,), 0.25), torch.stack([limit, above, below, -limit]), below.expand(200).clone()]
    expected = by_trying(some_grads)
    judge(
        observe(scale_window, some_grads),
        expected,
        mistake(per_tensor, when=shares((0 + 3 / 4 + 1) / 3, None)),
        zero_edge,
    )
    some_grads = [torch.tensor([4.0]), torch.tensor([2.0**-39, 2.0**-40, -(2.0**-39) * 1.001, 2.0**-38])]
    expected = by_trying(some_grads)
    judge(observe(scale_window, some_grads), expected, zero_edge)

    test.hidden("gradients of a deep network; shapes () and (0,) among them")
    layers = [layer for _ in range(9) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
    network = nn.Sequential(*layers, nn.Linear(8, 1))
    grads = torch.autograd.grad(network(torch.randn(16, 8)).square().mean(), list(network.parameters()))
    some_grads = [*grads, torch.tensor(-0.5), torch.empty(0), torch.tensor(0.0)]
    for low in (torch.float16, torch.bfloat16):
        expected = by_trying(some_grads, low)
        seen = observe(scale_window, some_grads, dtype=low)
        judge(seen, expected)
        seen.leaves_arguments_alone()
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 8.6 · Accumulate, unscale, clip: in that order
#
# fix · long · 25 min · 3 points
#
# A batch that does not fit into memory is cut into micro-batches, whose gradients are accumulated; before the step they
# are clipped; and all of that under a loss scaler. Each part is easy, but the order is wrong in the code below, and it
# is not the only fault.
#
# **Contract**
#
# - `train_accumulated` makes one optimizer step per group of `accum` consecutive micro-batches (all of equal size); a
#   last, shorter group is stepped, too.
# - The gradient of a group is that of the MEAN of its micro-batch losses, clipped to total norm `max_norm`. Gradients
#   left over from before the call do not leak in.
# - It returns a list with one float per step: the true (unscaled) norm before clipping.
# - With the scaler enabled or disabled the weights are the same up to rounding. Forward pass and loss run under
#   `autocast()`.
# - A group whose gradients overflow is skipped, the scale shrinks and training goes on; its norm is reported as inf or
#   nan.
#
# <details><summary>Hint 1</summary>
#
# In which unit are the gradients between `backward` and `step`, and what does `max_norm` mean in that unit? How many
# losses does a group average?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Per group: `zero_grad`; for each micro-batch `scale(loss / size of this group).backward()`; then ONCE `unscale_`,
# clip, `step`, `update`.
#
# </details>


# %% answer="accumulate-and-clip"
def train_accumulated(
    model: nn.Module,
    optimizer: Optimizer,
    scaler: torch.amp.GradScaler,
    micro_batches: Sequence[tuple[Tensor, Tensor]],
    accum: int,
    max_norm: float,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    autocast: Callable[[], AbstractContextManager],
) -> list[float]:
    """One clipped step per group of micro-batches; returns the norms before clipping, one per step."""
    ### BEGIN SOLUTION
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return norms
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # norms = []
    # for i, (x, y) in enumerate(micro_batches):
    #     with autocast():
    #         loss = loss_fn(model(x), y)
    #     scaler.scale(loss).backward()
    #     norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
    #     scaler.unscale_(optimizer)  # RuntimeError: unscale_() has already been called
    #     if (i + 1) % accum == 0:
    #         scaler.step(optimizer)
    #         optimizer.zero_grad()
    # scaler.update()
    # return norms
    ### END GIVEN


# %% check="accumulate-and-clip" points=3
"""Norms and weights as in plain float32, scaled or not; the last group, old gradients, an overflow."""
with check("accumulate-and-clip") as test:

    class PlainSGD(Optimizer):
        """SGD and nothing else: weights minus lr times gradient."""

        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr})
            self.steps = 0

        def add_param_group(self, group):
            self.param_groups.append(self.defaults | group)

        def parameters(self):
            return [p for group in self.param_groups for p in group["params"]]

        def zero_grad(self, set_to_none=True):
            for p in self.parameters():
                p.grad = None if set_to_none or p.grad is None else torch.zeros_like(p.grad)

        def step(self, closure=None):
            self.steps += 1
            with torch.no_grad():
                for p in self.parameters():
                    if p.grad is not None:
                        p -= self.defaults["lr"] * p.grad

    def small_net():
        """Two Linear layers with fixed weights."""
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        with torch.no_grad():
            for shift, p in enumerate(net.parameters()):
                p.copy_((torch.arange(p.numel()) * 7 % 11 / 8 + shift / 16 - 0.6).reshape(p.shape))
        return net

    def data(count, broken=None):
        """Micro-batches of four samples; in the broken one the targets are so large that gradients overflow."""
        pairs = []
        for k in range(count):
            x = (torch.arange(12.0) * (5 + k) % 13 / 6 - 1 + k / 10).reshape(4, 3)
            y = (torch.arange(8.0) * (3 + k) % 7 / 2 - 1.7 - k / 5).reshape(4, 2)
            pairs.append((x, y * 1e36 if k == broken else y))
        return pairs

    def unrecorded(answer, *args):
        """What an answer returns, without a record of every operation: that would cost more than the operations."""
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return answer(*args)

    def trained(train_accumulated, count, accum, max_norm, options):
        """Train; note the norms, the weights, the scale, and what was on in the forward pass and the loss."""
        net, on, lossy = small_net(), [], []
        net.register_forward_pre_hook(lambda *args: on.append(torch.is_autocast_enabled("cpu")))
        optimizer = PlainSGD(net.parameters(), 0.5)
        scaler = torch.amp.GradScaler("cpu", enabled=options.get("enabled", True))
        for p in net.parameters():
            p.grad = torch.full_like(p, options["old"]) if "old" in options else None

        def loss_fn(out, y):
            lossy.append(torch.is_autocast_enabled("cpu"))
            return F.mse_loss(out, y)

        def autocast():
            return torch.autocast("cpu", torch.bfloat16) if options.get("low") else nullcontext()

        pairs = data(count, options.get("broken"))
        settings = (pairs, accum, max_norm, loss_fn, autocast)
        norms = unrecorded(train_accumulated, net, optimizer, scaler, *settings)
        kinds = sorted({type(n).__name__ for n in norms}) if isinstance(norms, (list, tuple)) else []
        facts = {"norms": norms, "type": type(norms).__name__, "kinds": kinds, "steps": optimizer.steps}
        facts |= {"on": on, "lossy": lossy, "scale": scaler.get_scale()}
        return facts | {"weights": torch.cat([p.detach().flatten() for p in net.parameters()])}

    def by_hand(pairs, accum, max_norm, divide=None, low=False, keep=False, drop=False, old=0.0):
        """(norms, weights) of plain training in float32; the options are misconceptions."""
        net, norms = small_net(), []
        parameters = list(net.parameters())
        left = [torch.full_like(p, old) for p in parameters]
        for start in range(0, len(pairs), accum):
            group = pairs[start : start + accum]
            if drop and len(group) < accum:
                break
            grads = left if keep or start == 0 else [torch.zeros_like(p) for p in parameters]
            for x, y in group:
                with torch.autocast("cpu", torch.bfloat16, enabled=low):
                    loss = (net(x) - y).square().mean()
                new = torch.autograd.grad(loss / (divide or len(group)), parameters)
                grads = [a + b for a, b in zip(grads, new, strict=True)]
            norm = sum(g.double().square().sum() for g in grads).sqrt().item()
            norms.append(norm)
            left = [g * min(1.0, max_norm / norm) for g in grads]
            with torch.no_grad():
                for p, g in zip(parameters, left, strict=True):
                    p -= 0.5 * g
        return norms, torch.cat([p.detach().flatten() for p in parameters])

    def near(a, b, tolerance=1e-4):
        """Whether two lists of numbers agree."""
        if len(a) != len(b):
            return False
        a, b = (torch.as_tensor(v, dtype=torch.float64) for v in (a, b))
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance / 10)

    clip_scaled = (
        "You clipped SCALED gradients: with scale 65536 the clipped step is about 65536 times too small (the weights "
        "hardly move). unscale_ first."
    )
    no_update = "scaler.update() belongs after every step; without it the next step raises and the scale never adapts."
    mean_not_sum = (
        "The gradient is the sum over the group, not the mean: divide each loss by the number of micro-batches in the "
        "group."
    )
    stale = (
        "Gradients from before the call (or from the previous group) leaked in: zero_grad at the start of each group."
    )
    known = [
        mistake(
            "unscale_ may be called once per optimizer between updates: do it after the last micro-batch of the group.",
            raises=r"unscale_\(\) has already been called",
        ),
        mistake(
            "unscale_ was called after a step, with no update in between: unscale_ belongs before the step, and "
            "scaler.update() after every step.",
            raises=r"unscale_\(\) is being called after step",
        ),
        mistake(no_update, raises=r"step\(\) has already been called"),
        mistake(
            "`update` found no step in this iteration: let scaler.step(optimizer) make the step, and call update once, "
            "after it.",
            raises="No inf checks were recorded",
        ),
    ]

    def judge_kinds(seen, steps):
        """One float for each group."""
        seen.expecting(*known)
        named = seen["type"]
        seen.that(named in ("list", "tuple"), f"Return a list of floats, not a value of type {named}.", stage="type")
        every_batch = "There must be one step per group, not one per micro-batch."
        seen.that(
            len(seen["norms"]) == steps,
            f"The list must hold one number per step, here {steps}; yours holds {len(seen['norms'])}.",
            mistake(every_batch, when=lambda seen: seen["steps"] == len(seen["on"]) > steps),
            mistake(
                clip_scaled + " And return one number per step.",
                when=lambda seen: len(seen["norms"]) == len(seen["on"]) and max(seen["norms"]) > 1000,
            ),
            mistake(
                "Return one number per step, not one per micro-batch: clip once, when the group is complete.",
                when=lambda seen: len(seen["norms"]) == len(seen["on"]) > steps,
            ),
            stage="shape",
        )
        odd = [kind for kind in seen["kinds"] if kind not in ("float", "int")]
        seen.that(not odd, f"The norms must be Python floats; some are of type {', '.join(odd)}.", stage="type")

    def judge(seen, expected, max_norm, *wrongs, tolerance=1e-4):
        """The norms, then the weights; wrongs are (sentence, a function for what the misconception gives)."""
        norms, weights = expected
        judge_kinds(seen, len(norms))

        def gives(wrong):
            """Whether the norms are those of a misconception; where these are right, the weights."""
            part = "weights" if near(seen["norms"], norms, tolerance) else "norms"
            return near(seen[part], wrong()[part == "weights"])

        start = torch.cat([p.detach().flatten() for p in small_net().parameters()])
        way = (seen["weights"] - start).norm() / (weights - start).norm()
        named = [
            mistake("The weights did not move: no step was made.", when=lambda seen: way == 0),
            mistake(clip_scaled, when=lambda seen: way < 1e-3 or seen["norms"][0] > 1000 * norms[0]),
            *[mistake(sentence, when=lambda seen, wrong=wrong: gives(wrong)) for sentence, wrong in wrongs],
        ]
        clipped = [min(norm, max_norm) for norm in norms]
        seen.that(
            near(seen["norms"], norms, tolerance),
            "The norms are not those of plain float32 training.",
            *named,
            mistake(
                "Return one number per step: the unscaled norm BEFORE clipping. Yours equal max_norm: measured after "
                "clipping, or each micro-batch was clipped already.",
                when=lambda seen: clipped != norms and max(seen["norms"]) <= 1.01 * max_norm,
            ),
        )
        seen.that(
            near(seen["weights"], weights, tolerance),
            "The norms are right, but the weights are not those of plain float32 training.",
            *named,
        )

    test("6 micro-batches, groups of 3, scaler enabled: norms and weights as in plain float32")
    pairs = data(6)
    right = by_hand(pairs, 3, 0.8)
    wrongs = [
        (mean_not_sum, partial(by_hand, pairs, 3, 0.8, divide=1)),
        (stale, partial(by_hand, pairs, 3, 0.8, keep=True)),
        (
            "The groups are averaged as a whole: one step per group, from the first group on.",
            partial(by_hand, pairs, 6, 0.8),
        ),
        (
            "The step was taken with gradients that were not clipped: clip after unscale_ and before step.",
            partial(by_hand, pairs, 3, math.inf),
        ),
    ]
    seen = observe_scenario(trained, train_accumulated, 6, 3, 0.8, {})
    judge(seen, right, 0.8, *wrongs)
    seen.that(seen["steps"] == 2, f"There must be one step per group; there were {seen['steps']} steps.")

    test("the same with a scaler that is switched off, and a max_norm that nothing reaches")
    right = by_hand(pairs, 3, 100.0)
    wrongs = [
        (mean_not_sum, partial(by_hand, pairs, 3, 100.0, divide=1)),
        (stale, partial(by_hand, pairs, 3, 100.0, keep=True)),
    ]
    seen = observe_scenario(trained, train_accumulated, 6, 3, 100.0, {"enabled": False})
    judge(seen, right, 100.0, *wrongs)

    ### BEGIN HIDDEN TESTS
    last_group = "The last, shorter group was dropped, or divided by accum instead of its own size."
    test.hidden("the last group is shorter")
    for count, accum, switched in ((5, 3, True), (5, 2, False)):
        pairs = data(count)
        right = by_hand(pairs, accum, 0.8)
        wrongs = [(last_group, partial(by_hand, pairs, accum, 0.8, divide=accum))]
        seen = observe_scenario(trained, train_accumulated, count, accum, 0.8, {"enabled": switched})
        fewer = partial(lambda groups, seen: len(seen["norms"]) < groups or seen["steps"] < groups, len(right[0]))
        seen.expecting(mistake(last_group, when=fewer))
        judge(seen, right, 0.8, *wrongs)

    test.hidden("gradients left from before do not leak in")
    pairs = data(4)
    right = by_hand(pairs, 2, 0.8)
    for old, switched in ((3.0, False), (-2.0e5, True)):
        wrongs = [
            (stale, partial(by_hand, pairs, 2, 0.8, old=old / 65536 if switched else old)),
            (stale, partial(by_hand, pairs, 2, 0.8, old=old / 65536 if switched else old, keep=True)),
        ]
        seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"old": old, "enabled": switched})
        judge(seen, right, 0.8, *wrongs)

    test.hidden("the gradients of a group overflow")
    overflow = "An overflowing group must be skipped by scaler.step and must not end the run or touch the weights."
    for broken, kept in ((1, 1), (2, 0)):
        seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"broken": broken})
        seen.expecting(mistake(overflow, when=lambda seen: bool(seen.error_text)))
        judge_kinds(seen, 2)
        pairs = data(4)
        norms, weights = by_hand(pairs[2:] if kept else pairs[:2], 2, 0.8)
        seen.that(seen["weights"].isfinite().all(), overflow)
        seen.that(not math.isfinite(seen["norms"][1 - kept]), "The norm of a group that overflows is inf or nan.")
        seen.that(near([seen["norms"][kept]], norms), "The group that does not overflow has the wrong norm.")
        seen.that(near(seen["weights"], weights), overflow)
        seen.that(seen["scale"] == 32768.0, "After one overflow the scale must have been halved, once.")

    test.hidden("under bfloat16 autocast")
    right = by_hand(data(4), 2, 0.8, low=True)
    seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"low": True})
    judge_kinds(seen, 2)
    forward = "The forward pass and the loss must run under autocast()."
    seen.that(all(seen["on"]) and all(seen["lossy"]), forward, stage="rule")
    judge(seen, right, 0.8, tolerance=0.02)

    test.hidden("groups of one; one group of all")
    for accum in (1, 5):
        seen = observe_scenario(trained, train_accumulated, 3, accum, 0.8, {})
        seen.expecting(mistake(last_group, when=lambda seen: not seen["norms"]))
        wrong = partial(by_hand, data(3), accum, 0.8, divide=accum)
        judge(seen, by_hand(data(3), accum, 0.8), 0.8, (last_group, wrong))
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 8.7 · A gradient penalty under loss scaling
#
# implement · long · 25 min · 3 points
#
# A gradient penalty looks at the gradient before the step does, and differentiates it once more. Under loss scaling
# that needs care twice: what `torch.autograd.grad` returns is scaled and belongs to no optimizer.
#
# **Contract**
#
# - `penalised_step` makes one training step on `mse + lam * |g|`: mse is `F.mse_loss(model(x), y)`, g is its gradient
#   with respect to all parameters together, and `|g|` is the L2 norm of g. The penalty itself is differentiated (double
#   backward). Gradients left over from before don't leak in. The next call works as well.
# - It returns `(mse, |g|)`, two floats: true, unscaled numbers.
# - With the scaler enabled or disabled the step is the same up to rounding.
# - The forward pass runs under `autocast()`; `autograd.grad` and `backward` do not. Where the loss and the penalty are
#   computed, in the region or outside of it, is up to you.
# - With an enabled scaler: if g is not finite the optimizer's step is skipped and the scale shrinks.
#
# **Rule** The first gradient is taken of the SCALED loss (so that it does not underflow in float16) and unscaled by
# hand. The check records what flows back.
#
# <details><summary>Hint 1</summary>
#
# Which optimizer do the tensors returned by `autograd.grad` belong to, and so, will `unscale_` ever see them? What must
# `autograd.grad` keep so that its result can be differentiated again?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `grads = autograd.grad(scaler.scale(loss), params, create_graph=True)`; divide each by `scaler.get_scale()`; under
# autocast form the norm and the total; `scaler.scale(total).backward()`; step; update.
#
# </details>


# %% answer="penalty-under-scaling"
def penalised_step(
    model: nn.Module,
    optimizer: Optimizer,
    scaler: torch.amp.GradScaler,
    x: Tensor,
    y: Tensor,
    lam: float,
    autocast: Callable[[], AbstractContextManager],
) -> tuple[float, float]:
    """One step on mse + lam * |g|; returns (mse, |g|). x: (B, D), y like model(x)."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    with autocast():
        norm = torch.cat([(g / scaler.get_scale()).flatten() for g in scaled]).norm()
        total = mse + lam * norm
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()
    ### END SOLUTION


# %% check="penalty-under-scaling" points=3
"""The two numbers and the step, scaled or not; overflow, autocast, old gradients, lam = 0."""
with check("penalty-under-scaling") as test:

    class PlainSGD(Optimizer):
        """SGD and nothing else: weights minus lr times gradient."""

        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr})

        def add_param_group(self, group):
            self.param_groups.append(self.defaults | group)

        def parameters(self):
            return [p for group in self.param_groups for p in group["params"]]

        def zero_grad(self, set_to_none=True):
            for p in self.parameters():
                p.grad = None if set_to_none or p.grad is None else torch.zeros_like(p.grad)

        def step(self, closure=None):
            with torch.no_grad():
                for p in self.parameters():
                    if p.grad is not None:
                        p -= self.defaults["lr"] * p.grad

    def small_net():
        """Two Linear layers with fixed weights."""
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        with torch.no_grad():
            for shift, p in enumerate(net.parameters()):
                p.copy_((torch.arange(p.numel()) * 7 % 11 / 8 + shift / 16 - 0.6).reshape(p.shape))
        return net

    def weights_of(net):
        """All weights in one vector."""
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    def unrecorded(answer, *args):
        """What an answer returns, without a record of every operation: that would cost more than the operations."""
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return answer(*args)

    def stepped(penalised_step, x, y, lam, options):
        """One step or two; note the numbers, the weights, the scale, and what flowed into the model's output."""
        net, forward, backward = small_net(), [], []

        def watch(module, args, out):
            forward.append([torch.is_autocast_enabled("cpu"), str(out.dtype)])
            if out.requires_grad:
                out.register_hook(
                    lambda g: backward.append([torch.is_autocast_enabled("cpu"), g.detach().double().norm().item()])
                )

        net.register_forward_hook(watch)
        optimizer = PlainSGD(net.parameters(), 0.25)
        scaler = torch.amp.GradScaler(
            "cpu", init_scale=options.get("scale", 65536.0), enabled=options.get("enabled", True)
        )
        for p in net.parameters():
            p.grad = torch.full_like(p, options["old"]) if "old" in options else None

        def autocast():
            return torch.autocast("cpu", torch.bfloat16) if options.get("low") else nullcontext()

        numbers = []
        for _ in range(options.get("calls", 1)):
            numbers.append(unrecorded(penalised_step, net, optimizer, scaler, x, y, lam, autocast))
        last = numbers[-1]
        pair = isinstance(last, (tuple, list)) and len(last) == 2
        facts = {"kinds": [type(n).__name__ for n in last] if pair else [type(last).__name__], "numbers": numbers}
        facts |= {"forward": forward, "backward": backward, "scale": scaler.get_scale()}
        return facts | {"weights": weights_of(net)}

    def by_hand(x, y, lam, calls=1, low=False, old=0.0, constant=False, each=False, power=1):
        """(mse, |g|, weights, norm of the gradient of the output) of plain training; options are misconceptions."""
        net = small_net()
        parameters = list(net.parameters())
        for _ in range(calls):
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                out = net(x)
                mse = (out - y).square().mean()
            grads = torch.autograd.grad(mse, parameters, create_graph=True)
            norms = [g.square().sum().sqrt() for g in grads]
            norm = sum(norms) if each else sum(n.square() for n in norms).sqrt() ** power
            total = mse + lam * (norm.detach() if constant else norm)
            flowed = (2 * (out.detach() - y) / out.numel()).norm().item()
            with torch.no_grad():
                for p, g in zip(parameters, torch.autograd.grad(total, parameters), strict=True):
                    p -= 0.25 * (g + old)
        return mse.item(), norm.item(), weights_of(net), flowed

    def near(a, b, tolerance=1e-4):
        """Whether two numbers or vectors agree."""
        a, b = (torch.as_tensor(v, dtype=torch.float64) for v in (a, b))
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance / 10)

    not_unscaled = (
        "|g| is {times} times too large: the gradients from autograd.grad are still scaled. Divide by "
        "scaler.get_scale()."
    )
    no_graph = (
        "autograd.grad without create_graph=True returns constants and frees the graph: then backward fails with "
        "'Trying to backward through the graph a second time'."
    )
    no_effect = (
        "The penalty has no effect on the update: |g| is a constant there, or is missing. autograd.grad needs "
        "create_graph=True, and |g| must be computed from its result with grad mode on."
    )
    squared = (
        "|g| is the norm over all parameters together: the root of the summed squares, not the sum of the norms, nor "
        "the square."
    )
    double_scale = (
        "The step is far too small or too large: the scale was applied, or divided out, twice or not at all. "
        "scale(total).backward() once, with |g| in true units; then scaler.step, and only then scaler.update."
    )
    returned = "Return (mse, |g|) as Python floats in true units."
    grad_left = "Old contents of .grad leaked into the step: zero_grad first."
    known = [
        mistake(no_graph, raises="second time|does not require grad"),
        mistake(
            "scaler.update() belongs at the end of every step, once, after scaler.step: {detail}.",
            raises=r"No inf checks|has already been called|is being called after step",
        ),
    ]

    def judge(seen, x, y, lam, *mistakes, told=False, tolerance=1e-4, scale=65536.0, **options):
        """The two numbers, then the step."""
        mse, norm, weights, _ = by_hand(x, y, lam, **options)
        seen.expecting(*known)
        words = " and ".join(seen["kinds"])
        seen.that(
            seen["kinds"] in (["float", "float"], ["int", "float"], ["float", "int"]),
            f"{returned} Yours: {words}.",
            stage="type",
        )
        came_mse, came_norm = seen["numbers"][-1]
        seen.that(
            near(came_norm, norm, tolerance),
            "The returned |g| is wrong" + (f": expected {norm:.5g}, got {came_norm:.5g}." if told else "."),
            *mistakes,
            mistake(
                not_unscaled.replace("{times}", f"{scale:g}"),
                when=lambda seen: near(came_norm, scale * norm, tolerance),
            ),
            mistake(
                squared, when=lambda seen: near(came_norm, norm**2) or near(came_norm, by_hand(x, y, 0.0, each=True)[1])
            ),
            mistake(
                "The scale was divided out twice, or out of a gradient that was never scaled.",
                when=lambda seen: near(came_norm * scale, norm) and scale > 1,
            ),
        )
        total = mse + lam * norm
        seen.that(
            near(came_mse, mse, tolerance),
            f"{returned} The first one is wrong" + (f": expected {mse:.5g}, got {came_mse:.5g}." if told else "."),
            *mistakes,
            mistake(
                returned + " Yours is still scaled.",
                when=lambda seen: near(came_mse, scale * mse) or near(came_mse, scale * total),
            ),
            mistake(
                "The first number must be the mse alone, without the penalty.", when=lambda s: near(came_mse, total)
            ),
        )
        start = weights_of(small_net())
        way = (seen["weights"].double() - start).norm() / (weights - start).norm()
        seen.that(
            near(seen["weights"], weights, tolerance),
            "The numbers are right, but the weights are not those of a step on mse + lam * |g|.",
            *mistakes,
            mistake("The weights did not move: no step was made.", when=lambda seen: way == 0),
            mistake(double_scale, when=lambda seen: way < 0.01 or way > 100 or not math.isfinite(way)),
            mistake(
                no_effect, when=lambda seen: near(seen["weights"], by_hand(x, y, lam, **options, constant=True)[2])
            ),
            mistake(squared, when=lambda seen: near(seen["weights"], by_hand(x, y, lam, **options, power=2)[2])),
            mistake(squared, when=lambda seen: near(seen["weights"], by_hand(x, y, lam, **options, each=True)[2])),
        )

    test("an enabled scaler: the numbers and the step are those of plain float32")
    some_x = (torch.arange(12.0) * 5 % 13 / 6 - 1).reshape(4, 3)
    some_y = (torch.arange(8.0) * 3 % 7 / 2 - 1.7).reshape(4, 2)
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {})
    judge(seen, some_x, some_y, 0.75, told=True)

    test("a disabled scaler: the same step")
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"enabled": False})
    judge(seen, some_x, some_y, 0.75, told=True, scale=1.0)

    ### BEGIN HIDDEN TESTS
    test.hidden("the first gradient is taken of the scaled loss")
    unscaled_first = (
        "The first gradient was taken from the unscaled loss: in float16 it underflows. Scale it, then unscale the "
        "result."
    )
    for scale in (65536.0, 1024.0):
        seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"scale": scale})
        judge(seen, some_x, some_y, 0.75, scale=scale)
        flowed = by_hand(some_x, some_y, 0.75)[3]
        first = seen["backward"][0][1] if seen["backward"] else 0.0
        seen.that(near(first, scale * flowed), unscaled_first, stage="rule")

    test.hidden("gradients left from before do not leak in")
    for old, switched in ((3.0, False), (2.0e5, True)):
        leak = old / 65536 if switched else old
        wrong = by_hand(some_x, some_y, 0.75, old=leak)[2]
        seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"old": old, "enabled": switched})
        as_left = mistake(grad_left, when=lambda seen, wrong=wrong: near(seen["weights"], wrong))
        judge(seen, some_x, some_y, 0.75, as_left)

    test.hidden("gradients that are not finite")
    no_skip = "A non-finite gradient must skip the optimizer step and shrink the scale."
    for huge in (some_y * 1e36, some_y * math.inf):
        seen = observe_scenario(stepped, penalised_step, some_x, huge, 0.75, {})
        seen.expecting(mistake(no_skip, when=lambda seen: bool(seen.error_text)))
        seen.that(torch.equal(seen["weights"], weights_of(small_net())), no_skip)
        seen.that(seen["scale"] == 32768.0, no_skip)

    test.hidden("under bfloat16 autocast")
    outside = "The forward pass must run under autocast(), and autograd.grad and backward outside of it."
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"low": True})
    seen.expecting(*known)
    seen.that(all(on and dtype == "torch.bfloat16" for on, dtype in seen["forward"]), outside, stage="rule")
    seen.that(not any(on for on, _ in seen["backward"]), outside, stage="rule")
    judge(seen, some_x, some_y, 0.75, tolerance=0.05, low=True)

    test.hidden("lam = 0; a second call")
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.0, {})
    judge(seen, some_x, some_y, 0.0)
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"calls": 3})
    judge(seen, some_x, some_y, 0.75, calls=3)
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 8.8 · Write your own GradScaler
#
# implement · long · 35 min · 3 points
#
# `torch.amp.GradScaler` is less than it seems: a number, a counter and a note per optimizer. Write it.
#
# **Contract**
#
# - The numbers are those of `torch.amp.GradScaler`, up to rounding.
# - `scale(loss)` returns the loss times the scale. It keeps the graph and does not change `loss`.
# - `unscale_(optimizer)` divides that optimizer's gradients in place, once: a second call before `update` raises
#   RuntimeError, and so does a second `step`. Parameters without a gradient are ignored.
# - `step(optimizer)` unscales if that has not happened, and calls `optimizer.step()` unless any of ITS gradients is inf
#   or nan. It returns True if the optimizer stepped and False if it was skipped.
# - `update()` is called once per iteration, after the steps. If any optimizer met an inf or nan in this iteration, the
#   scale is multiplied by `backoff_factor` and the count of good iterations restarts. Otherwise the count grows by one;
#   after `growth_interval` good iterations in a row the scale is multiplied by `growth_factor` and the count restarts.
# - `state_dict()` returns a dict of plain numbers, with the scale and the count in it; `load_state_dict` puts them back
#   exactly.
#
# **Rule** `torch.amp.GradScaler`, `torch.cuda.amp` and the functions `torch._amp_*` are not used.
#
# <details><summary>Hint 1</summary>
#
# What has to be remembered between `unscale_` and `step`, per optimizer, and what between iterations?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A dict optimizer -> found_inf for this iteration (its presence means: already unscaled), a set of stepped optimizers,
# a counter of good iterations; `update()` looks at the dict, changes scale and counter, then clears both.
#
# </details>


# %% answer="scaler-by-hand"
class LossScaler:
    """Loss scaling for float16 training: scale the loss, unscale gradients, skip bad steps, adapt the scale."""

    ### BEGIN SOLUTION
    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ):
        self._scale, self._good = init_scale, 0
        self._growth, self._backoff, self._interval = growth_factor, backoff_factor, growth_interval
        self._found_inf: dict[Optimizer, bool] = {}  # of those that are unscaled in this iteration
        self._stepped: set[Optimizer] = set()

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        if optimizer in self._found_inf:
            raise RuntimeError("these gradients are unscaled already; call update() first")
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        for grad in grads:
            grad.div_(self._scale)
        self._found_inf[optimizer] = not all(grad.isfinite().all() for grad in grads)

    def step(self, optimizer: Optimizer) -> bool:
        if optimizer in self._stepped:
            raise RuntimeError("this optimizer has stepped already; call update() first")
        if optimizer not in self._found_inf:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        if self._found_inf[optimizer]:
            return False
        optimizer.step()
        return True

    def update(self) -> None:
        if any(self._found_inf.values()):
            self._scale, self._good = self._scale * self._backoff, 0
        else:
            self._good += 1
            if self._good == self._interval:
                self._scale, self._good = self._scale * self._growth, 0
        self._found_inf.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        return self._scale

    def state_dict(self) -> dict[str, float]:
        return {"scale": self._scale, "good": self._good}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._scale, self._good = state["scale"], state["good"]

    ### END SOLUTION
    ### BEGIN GIVEN
    # def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
    #     raise NotImplementedError  # your code here
    #
    # def scale(self, loss: Tensor) -> Tensor: ...
    # def unscale_(self, optimizer: Optimizer) -> None: ...
    # def step(self, optimizer: Optimizer) -> bool: ...  # True if the optimizer really stepped
    # def update(self) -> None: ...
    # def get_scale(self) -> float: ...
    # def state_dict(self) -> dict: ...
    # def load_state_dict(self, state: dict) -> None: ...
    ### END GIVEN


# %% check="scaler-by-hand" points=3
"""Good and bad iterations, second calls, several optimizers, growth and the state."""
with check("scaler-by-hand") as test:

    class PlainSGD(Optimizer):
        """SGD and nothing else: weights minus a quarter of the gradient. Two groups, three parameters."""

        def __init__(self):
            values = [[1.0, -2.0], [0.5], [4.0, 3.0, -1.0]]
            self.weights = [nn.Parameter(torch.tensor(v)) for v in values]
            super().__init__([{"params": self.weights[:1]}, {"params": self.weights[1:]}], {})
            self.steps = 0

        def add_param_group(self, group):
            self.param_groups.append(group)

        def zero_grad(self, set_to_none=True):
            for p in self.weights:
                p.grad = None

        def step(self, closure=None):
            self.steps += 1
            with torch.no_grad():
                for p in self.weights:
                    if p.grad is not None:
                        p -= 0.25 * p.grad

    def numbers(tensors):
        """The numbers of some tensors in one list; None for a missing one."""
        return [None if t is None else t.detach().tolist() for t in tensors]

    def told(LossScaler, settings, story):
        """Do what the story says, command by command: [outcome, scale] after each, and what was noted on the way."""
        scaler = LossScaler(*settings) if isinstance(settings, list) else LossScaler(**settings)
        optimizers = [PlainSGD(), PlainSGD()]
        facts = {"log": [], "notes": [], "scaled": [], "replaced": False, "kinds": [], "state": None}
        held = [scaler, *getattr(scaler, "__dict__", {}).values()]
        facts["library"] = any(isinstance(v, torch.amp.GradScaler) for v in held)
        for command, *rest in story:
            outcome = None
            optimizer = optimizers[rest[0]] if rest and command != "restart" else None
            if command == "begin":
                for each in optimizers:
                    each.zero_grad()
            elif command == "backward":  # so the gradients are these numbers times the scale
                pairs = zip(optimizer.weights, rest[1], strict=True)
                loss = sum(w @ torch.tensor(c) for w, c in pairs if c is not None)
                before = loss.detach().clone()
                scaled = scaler.scale(loss)
                tracked = isinstance(scaled, Tensor) and scaled.requires_grad
                same = torch.equal(before, loss.detach()) or bool(before.isnan())
                value = scaled.item() if isinstance(scaled, Tensor) and scaled.numel() == 1 else None
                facts["scaled"].append([type(scaled).__name__, tracked, same, value])
                if tracked:
                    scaled.backward()
            elif command in ("unscale_", "step"):
                held = [p.grad for p in optimizer.weights]
                try:
                    given = getattr(scaler, command)(optimizer)
                    outcome = given if command == "step" else None
                except NotImplementedError:
                    raise
                except RuntimeError as error:
                    outcome = "raised" if type(error) is RuntimeError else type(error).__name__
                if any(p.grad is not grad for p, grad in zip(optimizer.weights, held, strict=True)):
                    facts["replaced"] = True
            elif command == "update":
                scaler.update()
            elif command == "save":
                facts["state"] = scaler.state_dict()
                if not isinstance(facts["state"], dict):
                    break
            elif command == "restart":
                scaler = LossScaler(**rest[0])
                scaler.load_state_dict(facts["state"])
            elif command == "note":
                facts["notes"].append([numbers(optimizer.weights), numbers(p.grad for p in optimizer.weights)])
            outcome = outcome if outcome is None or type(outcome) in (bool, str) else type(outcome).__name__
            scale = scaler.get_scale()
            if type(scale) not in (int, float):
                facts["kinds"].append(type(scale).__name__)
                scale = 0.0
            facts["log"].append([command, outcome, float(scale)])
        if isinstance(facts["state"], dict):
            facts["state"] = sorted({type(v).__name__ for v in facts["state"].values()})
        return facts | {"steps": [each.steps for each in optimizers]}

    def near(a, b):
        """Whether two numbers or nested lists of numbers agree."""
        if isinstance(b, list):
            return isinstance(a, list) and len(a) == len(b) and all(near(x, y) for x, y in zip(a, b, strict=True))
        if b is None or a is None:
            return a is b
        return a == b or math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5) or (math.isnan(a) and math.isnan(b))

    def outcomes(seen, command):
        """What a command gave, each time."""
        return [outcome for name, outcome, _ in seen["log"] if name == command]

    rule = "That is the library's scaler: write it yourself."
    graph = "`scale` must keep the graph and must not change the loss tensor."
    grad_replaced = "Gradients must be divided in place; others may hold the same tensor."
    returned = "`step` returns True if the optimizer stepped, False if it was skipped."
    no_skip = "The step must be skipped when a gradient is inf or nan."
    no_raise = "A second unscale_ (or step) before update must raise RuntimeError."
    next_iteration = "After update the next iteration must work like the first one."
    twice_unscaled = "The gradients were divided twice: step must not unscale again after unscale_."

    def judge_manners(seen, story=()):
        """The rule, the graph, the kinds of what comes back."""
        with_amp = any(name.startswith("_amp_") for name in seen.op_names())
        seen.expecting(
            mistake(rule, when=lambda seen: any(name.startswith("_amp_") for name in seen.op_names())),
            mistake("A method is missing or can't be called: {detail}.", raises="AttributeError|TypeError.*argument"),
        )
        seen.that(not seen["library"] and not with_amp, rule, stage="rule")
        for kind, tracked, same, _ in seen["scaled"]:
            seen.that(kind == "Tensor" and tracked and same, graph, stage="gradient")
        seen.that(not seen["kinds"], f"get_scale returns a float, not a {(seen['kinds'] or [''])[0]}.", stage="type")
        odd = [o for o in outcomes(seen, "step") if not isinstance(o, bool) and o != "raised"]
        seen.that(not odd, f"{returned} Yours returned {(odd or [''])[0]}.", stage="type")
        seen.that(not seen["replaced"], grad_replaced, stage="aliasing")
        saved = [command for command, *_ in story if command == "save"]
        plain = isinstance(seen["state"], list) and set(seen["state"]) <= {"int", "float"}
        seen.that(plain or not saved, "`state_dict` must return a dict of plain numbers.", stage="type")

    some_grads = [[0.5, -1.0], [2.0], [-0.25, 8.0, 1.5]]
    start = [[1.0, -2.0], [0.5], [4.0, 3.0, -1.0]]
    moved = [[0.875, -1.75], [0.0], [4.0625, 1.0, -1.375]]  # minus a quarter of the gradients

    test("a good iteration: the gradients are unscaled, the step is taken")
    story = [["begin"], ["backward", 0, some_grads], ["note", 0], ["step", 0], ["note", 0], ["update"]]
    seen = observe_scenario(told, LossScaler, {"init_scale": 1024.0}, story)
    judge_manners(seen)
    seen.that(near(seen["scaled"][0][3], 1024.0 * 25.0), "scale(loss) must be the loss times the scale.")
    (_, scaled_grads), (weights, grads) = seen["notes"]
    seen.that(near(scaled_grads, [[1024.0 * g for g in part] for part in some_grads]), graph, stage="gradient")
    seen.that(outcomes(seen, "step") == [True] and seen["steps"] == [1, 0], "A good step must be taken, once.")
    seen.that(
        near(grads, some_grads),
        "After step the gradients must be the unscaled ones.",
        mistake(twice_unscaled, when=lambda seen: near(grads[0][0] * 1024, some_grads[0][0])),
    )
    seen.that(near(weights, moved), "The weights are not those of a step with the unscaled gradients.")
    seen.that(seen["log"][-1][2] == 1024.0, "After one good iteration the scale must still be the same.")

    test("inf, -inf and nan: skipped, False, and the scale is halved")
    story = []
    for bad in (math.inf, -math.inf, math.nan):
        bad_grads = [[0.5, -1.0], [2.0], [-0.25, bad, 1.5]]
        story += [["begin"], ["backward", 0, bad_grads], ["step", 0], ["note", 0], ["update"]]
    seen = observe_scenario(told, LossScaler, {"init_scale": 1024.0}, story)
    judge_manners(seen)
    skipped = [not outcome for outcome in outcomes(seen, "step")]
    seen.that(
        all(skipped) and seen["steps"] == [0, 0],
        no_skip,
        mistake(
            "`isinf` alone misses nan: check `isfinite`.",
            when=lambda seen: seen["steps"] == [1, 0] and near(seen["notes"][1][0], start),
        ),
        mistake(next_iteration, when=lambda seen: "raised" in outcomes(seen, "step")),
    )
    seen.that(near([weights for weights, _ in seen["notes"]], [start] * 3), no_skip)
    scales = [scale for command, _, scale in seen["log"] if command == "update"]
    seen.that(near(scales, [512.0, 256.0, 128.0]), f"The scale must be halved each time; it was {scales}.")

    test("unscale_ before step; the second call of either raises")
    story = [["begin"], ["backward", 0, some_grads], ["unscale_", 0], ["note", 0], ["unscale_", 0], ["step", 0]]
    story += [["note", 0], ["step", 0], ["update"]]
    story += [["begin"], ["backward", 0, some_grads], ["unscale_", 0], ["step", 0], ["note", 0], ["update"]]
    seen = observe_scenario(told, LossScaler, {"init_scale": 1024.0}, story)
    judge_manners(seen)
    seen.that(
        outcomes(seen, "unscale_") == [None, "raised", None] and outcomes(seen, "step") == [True, "raised", True],
        next_iteration,
        mistake(
            no_raise,
            when=lambda seen: outcomes(seen, "unscale_")[1] != "raised" or outcomes(seen, "step")[1] != "raised",
        ),
        stage="raised",
    )
    first, second, third = seen["notes"]
    seen.that(
        near(first, [start, some_grads]),
        "unscale_ must divide the gradients by the scale, and do nothing else.",
    )
    seen.that(
        near(second[1], some_grads),
        "A refused second call, or step after unscale_, has changed the gradients.",
        mistake(twice_unscaled, when=lambda seen: near(second[1][0][0] * 1024, some_grads[0][0])),
    )
    seen.that(near(second[0], moved) and near(third[1], some_grads), "The weights or gradients are wrong.")
    seen.that(seen["steps"] == [2, 0], "Each iteration makes one step.")

    ### BEGIN HIDDEN TESTS
    class Library:
        """torch.amp.GradScaler with the interface of the exercise."""

        def __init__(self, *settings, **named):
            self._inner = torch.amp.GradScaler("cpu", *settings, **named)
            for name in ("scale", "unscale_", "update", "get_scale", "state_dict", "load_state_dict"):
                setattr(self, name, getattr(self._inner, name))

        def step(self, optimizer):
            before = optimizer.steps
            self._inner.step(optimizer)
            return optimizer.steps > before

    at_update = mistake(
        "Gradients must be divided by the scale they were multiplied with: the scale changes only in update().",
        when=lambda seen: any(
            a[2] != b[2]
            for a, b in zip(seen["log"], seen["log"][1:], strict=False)
            if b[0] not in ("update", "restart")
        ),
    )

    def told_quickly(LossScaler, settings, story):
        """The same without a record of every operation, which would cost more than the operations."""
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return told(LossScaler, settings, story)

    as_library = (
        "The gradients or weights are not those of torch.amp.GradScaler: unscale_ divides every gradient of its "
        "optimizer, also where one of them is inf or nan."
    )
    by_how_much = (
        "The scale changes when it should, but not by the right factor: growth_factor and backoff_factor say by how "
        "much."
    )

    def compare(settings, story, words="The numbers differ from those of torch.amp.GradScaler."):
        """Tell the story to the answer and to the library's scaler."""
        seen = observe_scenario(told_quickly, LossScaler, settings, story)
        seen.expecting(
            at_update,
            mistake("Parameters without gradient must simply be ignored.", raises="NoneType|expected Tensor|None"),
        )
        judge_manners(seen, story)
        wanted = told(Library, settings, story)
        alike = [[*came[:2]] == [*want[:2]] for came, want in zip(seen["log"], wanted["log"], strict=True)]
        scales = [[scale for _, _, scale in log] for log in (seen["log"], wanted["log"])]
        seen.that(all(alike) and seen["steps"] == wanted["steps"], words)
        seen.that(near(seen["notes"], wanted["notes"]), as_library)
        ways = [torch.tensor(each).diff().sign().tolist() for each in scales]
        seen.that(near(*scales), words, mistake(by_how_much, when=lambda seen: words == growth and ways[0] == ways[1]))
        return seen

    def iteration(bad, unscaled=False):
        """The commands of one iteration of the first optimizer."""
        first = [[0.5, -1.0], [2.0], [-0.25, math.inf, 1.5]] if bad else some_grads
        return [["begin"], ["backward", 0, first], *[["unscale_", 0]] * unscaled, ["step", 0], ["update"]]

    growth = (
        "The scale must grow only after growth_interval good iterations IN A ROW; a skipped one restarts the count."
    )
    test.hidden("the count of good iterations restarts after a growth and after a skip")
    settings = {"init_scale": 64.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3}
    story = [command for bad in (0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0) for command in iteration(bad)]
    compare(settings, story, words=growth)
    compare({"init_scale": 8.0, "growth_interval": 1}, iteration(False) * 3 + iteration(True), words=growth)

    per_optimizer = (
        "One optimizer's inf must not keep the other from stepping, but it does shrink the scale (once per iteration)."
    )
    bad_grads = [[0.5, -1.0], [math.nan], [-0.25, 8.0, 1.5]]
    after = [["note", 0], ["note", 1], ["update"]]
    both = [["begin"], ["backward", 0, bad_grads], ["backward", 1, some_grads]]
    test.hidden("two optimizers, one of them meets an inf and steps last")
    compare({"init_scale": 16.0}, [*both, ["step", 1], ["step", 0], *after], words=per_optimizer)

    test.hidden("the one with the inf steps first; both are unscaled beforehand; both meet an inf")
    compare({"init_scale": 16.0}, [*both, ["step", 0], ["step", 1], *after], words=per_optimizer)
    unscaled = [["unscale_", 0], ["unscale_", 1], ["step", 0], ["step", 1]]
    compare({"init_scale": 16.0}, [*both, *unscaled, *after], words=per_optimizer)
    two_bad = [["begin"], ["backward", 0, bad_grads], ["backward", 1, bad_grads], ["step", 0], ["step", 1], *after]
    compare({"init_scale": 16.0}, two_bad, words=per_optimizer)

    test.hidden("an inf in one parameter of many; parameters without gradient")
    for holes in (
        [[0.5, -1.0], None, [-0.25, 8.0, 1.5]],
        [None, [2.0], None],
        [None, [2.0], [-0.25, 8.0, -math.inf]],
        [[math.nan, 1.0], None, [-0.25, 8.0, 1.0]],
    ):
        story = [["begin"], ["backward", 0, holes], ["unscale_", 0], ["step", 0], ["note", 0], ["update"]]
        compare({"init_scale": 32.0}, story)

    test.hidden("unscale_ meets an inf, with and without a step; scale twice in one iteration")
    story = iteration(True, unscaled=True) + iteration(False, unscaled=True)
    compare({"init_scale": 32.0}, story)
    seen_only = [["begin"], ["backward", 0, bad_grads], ["unscale_", 0], ["backward", 1, some_grads], ["step", 1]]
    compare({"init_scale": 32.0}, [*seen_only, *after], words=per_optimizer)
    story = [["begin"], ["backward", 0, some_grads], ["backward", 0, [[1.0, 1.0], None, [0.5, 0.5, 2.0]]]]
    compare({"init_scale": 32.0}, [*story, ["step", 0], ["note", 0], ["update"]])

    test.hidden("after a step, taken or skipped, unscale_ and step raise until update")
    for given in (some_grads, bad_grads):
        story = [["begin"], ["backward", 0, given], ["step", 0], ["unscale_", 0], ["step", 0], ["note", 0], ["update"]]
        compare({"init_scale": 32.0}, story + iteration(False), words=no_raise)

    def side_by_side(LossScaler):
        """Two scalers in use at the same time: what their steps give, and their scales."""
        scalers, optimizers = [LossScaler(init_scale=64.0) for _ in range(2)], [PlainSGD(), PlainSGD()]
        for optimizer, value in zip(optimizers, (math.inf, 3.0), strict=True):
            optimizer.weights[1].grad = torch.tensor([value])
        outcomes = [bool(scaler.step(optimizer)) for scaler, optimizer in zip(scalers, optimizers, strict=True)]
        for scaler in reversed(scalers):
            scaler.update()
        return [outcomes, [float(scaler.get_scale()) for scaler in scalers]]

    test.hidden("two scalers side by side")
    seen = observe_scenario(side_by_side, LossScaler)
    seen.that(
        seen.value == [[False, True], [32.0, 64.0]],
        "Each scaler must have a state of its own: what one meets must not change the other.",
    )

    test.hidden("25 random iterations with two optimizers")
    generator = torch.Generator().manual_seed(8)
    story = []
    for _ in range(25):
        bad, early, which, odd = (torch.rand(4, generator=generator) < torch.tensor([0.25, 0.4, 0.5, 0.5])).tolist()
        values = torch.randn(6, generator=generator).tolist()
        fine = [values[:2], values[2:3], values[3:]]
        hurt = [values[:2], [math.nan if odd else math.inf], values[3:]]
        story += [["begin"], ["backward", 0, hurt if bad and which else fine]]
        story += [["backward", 1, hurt if bad and not which else fine]]
        story += [["unscale_", int(odd)]] * early + [["step", 0], ["step", 1], ["update"]]
    settings = [1000.0, 1.5, 0.3, 4]  # by position
    compare(settings, [*story, ["note", 0], ["note", 1]])

    state = "The growth count belongs to the state: after loading, growth must come at the same iteration."
    test.hidden("the state is saved and loaded: growth comes at the same iteration")
    settings = {"init_scale": 65.0, "growth_interval": 4}
    for before in (1, 3):
        story = iteration(True) + iteration(False) * before + [["save"]] + iteration(False) * 2
        story += [["restart", settings | {"init_scale": 7.0}]] + iteration(False) * 5
        compare(settings, story, words=state)

    def by_default(LossScaler):
        """The scale of a new scaler, after a skip, and around the growth. The long way there goes through the state."""
        optimizer, scaler, scales = PlainSGD(), LossScaler(), []

        def good(times):
            for _ in range(times):
                optimizer.weights[1].grad = torch.tensor([2.0])
                scaler.step(optimizer)
                scaler.update()

        scales.append(scaler.get_scale())
        optimizer.weights[1].grad = torch.tensor([math.inf])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        good(3)
        state = dict(scaler.state_dict())
        counts = [name for name, value in state.items() if type(value) in (int, float) and value == 3]
        if len(counts) == 1:
            scaler.load_state_dict(state | {counts[0]: 1998})
        else:
            good(1995)
        scales.append(scaler.get_scale())
        for _ in range(2):
            good(1)
            scales.append(scaler.get_scale())
        return [float(scale) for scale in scales]

    test.hidden("the defaults: growth after 2000 good iterations, not before")
    seen = observe_scenario(by_default, LossScaler)
    seen.that(
        near(seen.value, [65536.0, 32768.0, 32768.0, 32768.0, 65536.0]),
        "The defaults are init_scale 65536, growth_factor 2, backoff_factor 0.5, growth_interval 2000.",
    )
    ### END HIDDEN TESTS

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
