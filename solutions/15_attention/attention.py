# %% [markdown]
# # Attention that fits
#
# We looked through 23 widely used training codebases. 20 of them call `scaled_dot_product_attention` or flash
# attention, and 12 have a cache of keys and values. Mistakes in these calls usually raise no error. After this chapter
# you can
#
# - say for any attention call which query sees which key, and write one mask for causality, windows, packed documents
#   and padding;
# - compute attention without ever holding all its scores, and write a backward that doesn't keep them either;
# - say what a cache of keys and values costs, and write one whose memory is allocated once;
# - turn positions into angles without losing precision, and carry weights over to the other pairing;
# - feed a sequence in pieces of any length, as in writing text, and get the numbers of the whole.
#
# **50 minutes to read, 205 minutes to practise, 20 points.** You need [chapter
# 2](../02_tensors_views/tensors_views.ipynb) (views), [4](../04_autograd/autograd.ipynb) and
# [5](../05_custom_functions/custom_functions.ipynb) (what is kept for backward, and Functions),
# [8](../08_amp/amp.ipynb) (autocast, bfloat16) and [section 12.2](../12_language_model/language_model.ipynb) (causal
# attention by hand). Everything runs on the CPU.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import gc
import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.flop_counter import FlopCounterMode

from torchkata.demos import error_of, every_warning, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.instruments.cached_writer import (
    written,
    written_with_cache,
    written_with_naive_cache,
)
from torchkata.instruments.ledger import measured
from torchkata.pictures.angle_dials import dials_explorer
from torchkata.pictures.cache_fills import kv_cache_explorer
from torchkata.pictures.kept_bytes import kept_bars
from torchkata.pictures.one_pass import one_pass_explorer
from torchkata.pictures.who_sees import packed_documents, who_sees_explorer
from torchkata.small_lm import stored_model
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    incoming_gradient,
    known,
    mistake,
    noting_calls,
    noting_operations,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)

# %% [markdown]
# The small language model of chapter 12 writes. At each step it chooses the likeliest next byte, and for that it
# computes the whole text again. Somebody has made it faster: it stores the keys and values of the bytes that it has
# already seen, and each step computes only the newest byte.

# %%
model, prompt = stored_model(), "The stat"
print("without a cache:", written(model, prompt, 24))
print("with a cache:   ", written_with_naive_cache(model, prompt, 24))

# %% [markdown]
# The fast version runs, and it raises no error. It also writes nonsense. Two lines of it are wrong, and both look like
# lines that are right during training. Section 15.7 corrects them. To find such lines you have to know who sees whom
# and where a position begins, so this is where we start.
#
# ## 15.1 Who sees whom
#
# `scaled_dot_product_attention(q, k, v)` computes softmax(q · k / √D) · v. `q` is (B, H, Q, D), `k` is (B, H, K, D) and
# `v` is (B, H, K, E), for B rows, H heads, Q queries and K keys. Each query gets a weighted mean of the values.
#
# You can make the weights visible. Set all scores to 0 and take the identity matrix as the values: then the output *is*
# the matrix of weights.
#
# **Predict.** The boolean mask below is True at (0, 0), (1, 0) and (1, 1). It is passed to
# `scaled_dot_product_attention` and to `nn.MultiheadAttention`. Which weights does query 0 get from each of them?


# %% facts=["15-sdpa-true-may-look"]
def weights_for(queries: int, keys: int, **options: object) -> Tensor:
    """The weights of a call, (queries, keys), if all scores are 0."""
    q, k = torch.zeros(1, 1, queries, 4), torch.zeros(1, 1, keys, 4)
    return F.scaled_dot_product_attention(q, k, torch.eye(keys)[None, None], **options)[0, 0]


mask = torch.ones(2, 2, dtype=torch.bool).tril()
layer, x = nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 2, 4)
print("the function:", weights_for(2, 2, attn_mask=mask).tolist())
print("the module:  ", layer(x, x, x, attn_mask=~mask)[1][0].tolist(), "with ~mask")
print("the module:  ", layer(x, x, x, attn_mask=mask)[1][0, 0].tolist(), "for query 0, with mask")

# %% [markdown]
# The function returns `[1, 0]` for query 0: it sees key 0. For the module, True means *hidden*, so it needs `~mask`.
# With the same mask as the function, query 0 sees key 1, which is its future. In the module's `key_padding_mask`, True
# also means hidden.
#
# **Predict.** A mask of numbers, `torch.ones(3, 3).tril()`, has 1 where a query should look and 0 where it shouldn't.
# What does it hide?

# %% facts=["15-float-mask-is-added"]
print(weights_for(3, 3, attn_mask=torch.ones(3, 3).tril()))
error_of(lambda: weights_for(3, 3, attn_mask=torch.ones(3, 3).tril().long()), lines=1)

# %% [markdown]
# It hides nothing. A float mask is *added* to the scores, so ones and zeros only shift them. A float mask that hides
# has -inf where the key is hidden and 0 elsewhere. Integers raise an error.
#
# **Predict.** `is_causal=True` is the mask for training. How many of five keys does a single query see with it? And how
# many do two queries see?

# %% facts=["15-is-causal-upper-left", "15-no-mask-needed-with-cache"]
options = {
    "is_causal=True": {"is_causal": True},
    "causal_lower_right": {"attn_mask": causal_lower_right(2, 5)},
    "no mask": {},
}
print("one query, is_causal=True:", weights_for(1, 5, is_causal=True).tolist())
for name, option in options.items():
    print(f"two queries, {name}:", (weights_for(2, 5, **option) > 0).sum(-1).tolist(), "keys")

# %% [markdown]
# The single query sees one key, the *first*, and the two queries see one and two. `is_causal` aligns the first query
# with the first key, the upper left corner of the matrix. If the queries are the newest of a longer text, the last
# query belongs to the last key. That is the lower right corner, and `causal_lower_right(Q, K)` describes it. Without a
# mask, the last query sees the right keys, but the one before it looks one key into its future. So a single new query
# needs no mask, and several do.
#
# **Predict.** The module below is in eval mode. Are its two results the same? Then heads and positions are exchanged,
# and four query heads meet two key heads, with `enable_gqa=True` or with repeated keys. Which calls do you expect to
# raise?


# %% facts=["15-dropout-ignores-eval", "15-layout-heads-first", "15-gqa-neighbours-share"]
class Dropping(nn.Module):
    """Attention with dropout."""

    def forward(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)


torch.manual_seed(0)
module, x = Dropping().eval(), torch.randn(2, 5, 3, 8)  # B, T, H, D
print("eval mode, twice the same:", torch.equal(module(x), module(x)))

swapped = F.scaled_dot_product_attention(x, x, x)
right = F.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3).transpose(1, 2)
print("(B, T, H, D), same shape:  ", swapped.shape == right.shape)
print("(B, T, H, D), same numbers:", torch.allclose(swapped, right))

q, k = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)  # 4 query heads, 2 key heads
grouped = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
for name, keys in {
    "repeat_interleave": k.repeat_interleave(2, 1),
    "repeat": k.repeat(1, 2, 1, 1),
}.items():
    close = torch.allclose(F.scaled_dot_product_attention(q, keys, keys), grouped, atol=1e-6)
    print(f"{name:17} as enable_gqa:", close)

# %% [markdown]
# None of them raises. A function doesn't know which module calls it, so `dropout_p` acts whenever it isn't 0; write
# `dropout_p=self.p if self.training else 0.0`. The positions are always the second-to-last dimension. With (B, T, H,
# D), the heads of each position attend to each other, and the shape comes out as expected. And if several query heads
# share a key head (*grouped queries*, GQA), it is *neighbours* that share. `enable_gqa=True` does that without a copy.
#
# In the explorer, choose a kind of mask and move the sliders. A hidden cell has a letter that says why it is hidden,
# and above the cells you see the code. With *is_causal*, what does the last query see? And with *causal_lower_right*?

# %%
who_sees_explorer()

# %% [markdown]
# With *is_causal* and fewer queries than keys, the last query misses the newest keys. With *causal_lower_right* it sees
# all of them.
#
# **Now you know.** In `scaled_dot_product_attention` True means *may look*, numbers are added, and `is_causal` starts
# in the upper left corner. Look at the weights of a call before you trust it.

# %% [markdown]
# ## 15.2 Masks from positions
#
# A triangle belongs to one shape. Positions belong to every shape: a query may look at a key if the key's position
# isn't after its own.
#
# **Predict.** A text has positions 0 to 5. The last two of them are fed in a later call, as queries. Which rows of the
# mask do they get?

# %%
positions = torch.arange(6)
triangle = positions[:, None] >= positions
print(triangle.int())
print("the last two:", torch.equal(positions[4:, None] >= positions, triangle[4:]))

# %% [markdown]
# They get the last two rows of the same triangle. One comparison serves training, a piece of a prompt and a single new
# byte. Other rules are further comparisons, joined by `&`: a *window* (not too far back), *documents* (several short
# texts packed into one row, where each may see only itself) and *padding* (filled-in keys that nobody may see).
#
# **Predict.** Two documents are packed into one row under a causal mask, and the first one ends with an end token. Does
# the second document get the same output as it would alone?

# %% facts=["15-packed-documents"]
torch.manual_seed(0)
q, k, v = (torch.randn(1, 1, 6, 8) for _ in range(3))
document = torch.tensor([0, 0, 1, 1, 1, 1])
alone = F.scaled_dot_product_attention(q[:, :, 2:], k[:, :, 2:], v[:, :, 2:], is_causal=True)
for name, mask in {
    "causal": triangle,
    "causal, same document": triangle & (document[:, None] == document),
}.items():
    packed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    print(f"{name}:", torch.allclose(packed[:, :, 2:], alone, atol=1e-6))

# %% [markdown]
# It gets the same output only with the second mask. A token hides nothing; the mask must compare document numbers. The
# picture shows such a mask.

# %%
packed_documents()

# %% [markdown]
# A mask can leave a query without any key. Section 12.2 showed what a softmax by hand makes of that.
#
# **Predict.** Query 1 may see nothing. A softmax by hand, `scaled_dot_product_attention` and `nn.MultiheadAttention`
# (asked for weights, and not) get such a mask, and a softmax by hand also gets one with the least finite number in
# place of -inf. Which of the five give nan?

# %% facts=["15-no-key-gives-zeros", "15-finfo-min-is-not-minus-inf"]
mask = torch.ones(3, 3, dtype=torch.bool).tril()
mask[1] = False
least = torch.zeros(3, 3).masked_fill(~mask, torch.finfo(torch.float32).min)
layer, x = nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 3, 4)
by_hand = torch.zeros(3, 3).masked_fill(~mask, -math.inf).softmax(-1)
with_weights = layer(x, x, x, attn_mask=~mask)[0]
without = layer(x, x, x, attn_mask=~mask, need_weights=False)[0]

print("softmax by hand: ", by_hand[1].tolist())
print("the function:    ", weights_for(3, 3, attn_mask=mask)[1].tolist())
print("least finite:    ", [round(w, 2) for w in weights_for(3, 3, attn_mask=least)[1].tolist()])
print("the module:       nan:", with_weights[0, 1].isnan().any().item())
print("no weights asked: nan:", without[0, 1].isnan().any().item())

# %% [markdown]
# The softmax by hand and the module give nan, the module only if it returns weights. The function gives zeros. And with
# the least finite number in place of -inf, the query that should see nothing sees the mean of everything, because all
# its scores are equal again.
#
# **Predict.** A key is hidden, and its value is nan. Can that nan reach the output?

# %% facts=["15-masked-nan-comes-through"]
for keys in (2, 512, 1024):
    q = torch.zeros(1, 1, keys, 4)
    v = torch.ones(1, 1, keys, 4)
    v[..., -1, :] = torch.nan  # only the last query may see it
    by_flag = F.scaled_dot_product_attention(q, q, v, is_causal=True)
    triangle = torch.ones(keys, keys, dtype=torch.bool).tril()
    by_mask = F.scaled_dot_product_attention(q, q, v, attn_mask=triangle)
    flags = [out[0, 0, 0].isnan().any().item() for out in (by_flag, by_mask)]
    print(f"{keys:4} keys, query 0 is nan: is_causal {flags[0]}, mask {flags[1]}")

# %% [markdown]
# It can. The weight is exactly 0, and 0 times nan is nan. With `is_causal` and 1,024 keys it doesn't arrive, because
# PyTorch then goes through the matrix in blocks and skips those that are hidden entirely. Don't rely on either: keep
# the values of padding finite.

# %% [markdown]
# **Now you know.** Compare positions, not shapes. A mask hides scores, not values.

# %% exercise="predict-masks"
# %% exercise="keep-mask"
# %% exercise="where-they-differ"

# %% [markdown]
# ## 15.3 Softmax in one pass
#
# For 4 heads and 512 positions there are about a million scores, which take 4.2 MB. The cell counts what a call
# allocates, and how much of it is alive afterwards: the output, and what is kept for backward besides `q`, `k` and `v`.
# MATH is the plain formula, made of PyTorch's own operations. FLASH_ATTENTION is a *fused* kernel, a single function
# that does all of it.
#
# **Predict.** How many MB will each of the two keep?

# %% facts=["15-flash-saves-no-scores"]
q, k, v = (torch.randn(1, 4, 512, 64, requires_grad=True) for _ in range(3))
for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(backend):
        out, peak, kept = measured(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    print(f"{backend.name:15} peak {peak / 1e6:4.1f} MB, kept {kept / 1e6:.2f} MB")
print(f"the output alone     {out.nbytes / 1e6:.2f} MB")

# %% [markdown]
# The fused kernel never has all the scores. It holds one block of them at a time, in a small workspace of its own
# that this count doesn't see. Besides its output, it keeps one number for each query.
#
# How can a softmax be computed without all its scores? A softmax first needs the largest score. If it isn't subtracted
# before `exp`, this happens:

# %% facts=["15-softmax-needs-the-maximum"]
large = torch.tensor([100.0, 99.0])
print("without the maximum:", (large.exp() / large.exp().sum()).tolist())
print("with the maximum:   ", [round(w, 4) for w in large.softmax(0).tolist()])
print("exp(88.8) in float32:", torch.tensor(88.8).exp().item())
print("exp(11.1) in float16:", torch.tensor(11.1, dtype=torch.float16).exp().item())

# %% [markdown]
# The largest score of all is known only at the end. But suppose you have worked with the largest score *so far*, and a
# larger one comes. Everything that you have added up is then too large by the same factor, exp(new − old), and one
# multiplication corrects it. So you carry three things for each query from block to block: the largest score so far,
# the sum of exp(score − largest), and the sum of exp(score − largest) · value.
#
# The explorer does it for nine scores, three at a time. It opens where a larger score has just come. Press *next
# block*, then switch *forget to rescale* on. Which numbers are wrong now, and why?

# %%
one_pass_explorer()

# %% [markdown]
# Without rescaling, the sum and the output still contain weights that were measured against an older, smaller maximum,
# and those count too much.
#
# The maximum and the sum together say how much a block weighs. The sum of all exp(score), by which a softmax divides,
# is called its *normaliser*. Its logarithm is the *logsumexp* of the scores, and `torch.logsumexp` computes it without
# overflow. With it, two results can be merged that were computed separately.
#
# **Predict.** Ten keys are split into four and six. Is the mean of the two outputs the output over all ten?


# %% facts=["15-softmax-merges", "15-outputs-cannot-be-averaged"]
def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Output and logsumexp of each query."""
    scores = q @ k.T / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


torch.manual_seed(0)
q, k, v = torch.randn(3, 8), torch.randn(10, 8), torch.randn(10, 5)
whole, _ = attend(q, k, v)
(first, log_first), (second, log_second) = attend(q, k[:4], v[:4]), attend(q, k[4:], v[4:])
log_both = torch.logaddexp(log_first, log_second)
shares = [(log - log_both).exp()[:, None] for log in (log_first, log_second)]

print("share of the first four:", [round(share, 2) for share in shares[0][:, 0].tolist()])
print(f"mean of the two: off by {((first + second) / 2 - whole).abs().max():.2f}")
merged = first * shares[0] + second * shares[1]
print("merged by shares: the same:", torch.allclose(merged, whole, atol=1e-6))

# %% [markdown]
# The mean is wrong. The part with the larger scores must weigh more, and the outputs alone don't say which part that
# is. With the logsumexp of each part, the merge is exact. The same merge is used to split one long text over several
# machines (*ring attention*: the keys travel round in a ring, and each machine merges what arrives), or one query over
# many cached keys that are worked on at the same time.
#
# **Predict.** Flash attention computes softmax in this way, in float32. How far from the result in float64 do you
# expect it to be, compared with the plain formula?

# %% facts=["15-flash-is-exact"]
torch.manual_seed(1)
q, k, v = (torch.randn(1, 1, 256, 64, dtype=torch.float64) for _ in range(3))
exact = (q @ k.mT / 8).softmax(-1) @ v
for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    print(f"{backend.name}: within 2e-6 of float64:", ((out - exact).abs().max() < 2e-6).item())

# %% [markdown]
# Flash attention is not an approximation. Both kernels differ from the float64 result only by rounding.

# %% [markdown]
# **Now you know.** Nothing of size queries × keys has to exist. A running maximum, a sum and an output are enough, and
# a new maximum rescales the other two.

# %% exercise="blockwise-attention"

# %% [markdown]
# ## 15.4 Backward without the weights
#
# Backward needs the weights. [Chapter 5](../05_custom_functions/custom_functions.ipynb) called a Function *lean* if it
# keeps its inputs and computes the rest again, and the same works here. A weight is exp(score − logsumexp), so one
# number for each query, kept from forward, gives a whole row of weights back.
#
# That matters because the weights grow with the square of the length. The bars show what each of the two kernels keeps,
# measured, with `q`, `k`, `v` and the output where they are kept.

# %%
kept_bars()

# %% [markdown]
# If the length doubles, the fused kernel keeps twice as much. What the plain one keeps grows more than threefold, and
# closer to fourfold the longer the text is.
#
# You only have this advantage if a fused kernel runs. PyTorch chooses among those that can do what you ask for.
#
# **Predict.** Which of these four calls fall back to plain operations, on the CPU?

# %% facts=["15-which-kernel-runs"] shows_warning="UserWarning"
q, k, v = (torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3))
bias = torch.zeros(8, 8)
for name, options in {
    "is_causal=True": {"is_causal": True},
    "a float mask": {"attn_mask": bias},
    "a mask that learns": {"attn_mask": bias.clone().requires_grad_()},
    "dropout": {"dropout_p": 0.1},
}.items():
    print(f"{name:19}", F.scaled_dot_product_attention(q, k, v, **options).grad_fn.name())


def demanded() -> None:
    """Dropout, and no other kernel than the fused one."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)


warning_of(lambda: error_of(demanded), lines=1)

# %% [markdown]
# The last two calls fall back. Nothing warns you, but the name of `grad_fn` tells which operation came last in forward.
# With `sdpa_kernel` and a single backend, PyTorch raises an error instead of falling back, and its warnings give the
# reason.
#
# A GPU has other fused kernels. On an H200 the flash kernel took no mask tensor; `is_causal` reached it if there were
# as many queries as keys, and `causal_lower_right` also with more keys. A section at the end of the chapter compares
# these kernels.
#
# The backward of a fused kernel can't be differentiated again:

# %% facts=["15-no-second-derivative", "15-flops-of-fused-kernel"] varies="FLOPs: counted since torch 2.15"
for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(backend), FlopCounterMode(display=False) as counter:
        out = F.scaled_dot_product_attention(q, k, v)
    (gradient,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    print(backend.name, counter.get_total_flops(), "FLOPs")
    if backend is SDPBackend.MATH:
        gradient.square().sum().backward()
    else:
        error_of(lambda g=gradient: g.square().sum().backward(), lines=1)

# %% [markdown]
# A gradient penalty therefore needs the plain kernel. In a Function of your own, a backward that takes kept results for
# constants gives a *wrong* second derivative. [Section 5.6](../05_custom_functions/custom_functions.ipynb) showed how
# `once_differentiable` turns that into an error, and when it doesn't.
#
# The counter says 0 for the fused kernel. It knows kernels by name, and torch 2.13 has no formula for this one
# ([chapter 13](../13_memory_time/memory_time.ipynb) met it too). Zero FLOPs don't mean that nothing was computed.
#
# **Now you know.** Keep q, k, v, the output and one number for each query; backward can compute the weights again.

# %% exercise="lean-attention"

# %% [markdown]
# ## 15.5 The cache
#
# When a model writes, what does a step need from the bytes before it? Their queries are never used again. Their keys
# and values are, in every layer, and they don't change when the text goes on, because in causal attention nothing
# depends on a later byte. So they can be stored. For each row (each text of the batch), a cache takes this many bytes:
#
# > 2 (keys and values) · layers · key-value heads · numbers a head · positions · bytes of a number
#
# **Predict.** A model has 32 layers, 32 query heads, 8 key-value heads and 128 numbers a head, in bfloat16. How large
# is the cache of one row of 8,192 positions? And with as many key-value heads as query heads?


# %% facts=["15-cache-heads"]
def gibibytes(kv_heads: int, rows: int = 1) -> float:
    """The size of the cache for 8,192 positions."""
    return 2 * 32 * kv_heads * 128 * 8192 * rows * 2 / 2**30


print(f"8 key-value heads {gibibytes(8):.0f} GiB, 32 {gibibytes(32):.0f} GiB")
print(f"16 rows, 8 key-value heads: {gibibytes(8, rows=16):.0f} GiB")

# %% [markdown]
# The cache takes 1 GiB with 8 key-value heads, and 4 GiB with 32. That is why models share key heads. Sixteen
# conversations at once fill 16 GiB, about as much as the weights of a model with eight billion parameters in bfloat16.
#
# The explorer fills the cache of another model. Choose 24 *kv heads*, and move *tokens* until the memory no longer fits
# on the card. What helps?

# %%
kv_cache_explorer()

# %% [markdown]
# With 24 key-value heads, 24,576 tokens don't fit. Fewer key-value heads help, and so does a window. If the memory is
# taken once, all of it is occupied from the first token on.
#
# How should the cache grow? The obvious line is `k = torch.cat([k, new], 2)`.
#
# **Predict.** How many positions does it write in 100 steps?

# %% facts=["15-cat-is-quadratic", "15-empty-slots-have-weight"]
cache, written_by_cat, moved = torch.empty(1, 1, 0, 8), 0, 0
for _ in range(100):
    before = cache
    cache = torch.cat([cache, torch.ones(1, 1, 1, 8)], 2)
    moved += cache.data_ptr() != before.data_ptr()
    written_by_cat += cache.shape[2]
print("cat writes", written_by_cat, "positions, in new memory", moved, "times")

torch.manual_seed(0)
room = torch.zeros(16, 8)  # allocated once; only 4 positions are filled
room[:4] = torch.randn(4, 8)
query = torch.randn(1, 8)
weights = (query @ room.T / 8**0.5).softmax(-1)
print(f"weight of the 12 empty positions: {weights[0, 4:].sum():.2f}")

# %% [markdown]
# It writes 5,050 positions, because each step copies everything: n steps write n (n + 1) / 2. If the memory is
# allocated once, for the longest text, n steps write n positions. But then the empty positions must be cut off. A key
# of zeros has the score 0, and exp(0) is 1, so here the empty positions get most of the weight. The slice `room[:4]` is
# a view and copies nothing.

# %% [markdown]
# A cache must also be able to go back and to change its rows. Two ways of generating text need that. *Speculative
# decoding* lets a small model propose several bytes, has the large model judge them all in one call, and forgets the
# ones that it rejects. *Beam search* follows several continuations of a text at once, one in each row, and after every
# step keeps the best of them, so that row 0 may go on from what row 2 was.
#
# **Now you know.** A cache holds keys and values and nothing else. Allocate it once, write in place, and return views
# of the filled part.

# %% exercise="cache-bytes"
# %% exercise="kv-cache"

# %% [markdown]
# ## 15.6 Positions as angles
#
# Attention itself doesn't know where a key is. A *rotary embedding* turns each query and each key by angles that grow
# with its position. Two numbers at a time are a *pair*, a point in the plane, and each pair is turned at its own speed.
# The dot product of two points that are turned by angles α and β depends only on α − β. So a score depends on the
# distance of two positions.
#
# With complex numbers this is short: turning is a multiplication by e^(iα). The function below computes the scores of
# turned queries and keys. `first` and `second` say which entries form the pairs.
#
# **Predict.** All positions are moved by 1,000. What happens to the scores? And what does a cache of turned keys have
# to do when a new key arrives?


# %% facts=["15-rotary-is-relative", "15-rotary-two-pairings"]
def turned_scores(q: Tensor, k: Tensor, positions: Tensor, first: list, second: list) -> Tensor:
    """The scores of (T, D) queries and keys that were turned by their positions."""
    speeds = 10000.0 ** (-torch.arange(len(first)) / len(first))
    angles = positions[:, None] * speeds
    turn = torch.polar(torch.ones_like(angles), angles)
    turned_q, turned_k = (torch.complex(x[:, first], x[:, second]) * turn for x in (q, k))
    return (turned_q @ turned_k.conj().T).real


torch.manual_seed(0)
q, k, positions = torch.randn(6, 8), torch.randn(6, 8), torch.arange(6.0)
even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
halves = [0, 1, 2, 3], [4, 5, 6, 7]
neighbours = turned_scores(q, k, positions, even, odd)
moved = turned_scores(q, k, positions + 1000, even, odd)
print("moved by 1,000, same scores:", torch.allclose(moved, neighbours, atol=1e-3))

other = turned_scores(q, k, positions, *halves)
print("other pairs, same scores:   ", torch.allclose(other, neighbours, atol=1e-2))
order = even + odd
reordered = turned_scores(q[:, order], k[:, order], positions, *halves)
print("and entries reordered:      ", torch.allclose(reordered, neighbours, atol=1e-5))

# %% [markdown]
# The scores stay the same. So a key is turned once, by its own position, and stored turned. Nothing has to be done to
# it when the text goes on.
#
# There are two conventions for the pairs. Some models pair neighbours, entries 2i and 2i + 1. Others pair the halves,
# entries i and i + D/2. Both work, but weights that were trained for one give other scores with the other, and no
# shape tells. If you reorder the entries of queries and keys, the scores agree. Entries come from rows of the query and
# key projections, so it is enough to reorder those rows once, head by head.
#
# **Predict.** How many different positions are left of 4,096 if they are rounded to bfloat16?

# %% facts=["15-bfloat16-positions", "15-autocast-and-angles"]
positions = torch.arange(4096)
print("257 in bfloat16:", torch.tensor(257).bfloat16().item())
print("different positions:", len(positions.bfloat16().unique()), "of", len(positions))

column, frequencies = torch.arange(4.0)[:, None], torch.ones(1, 3)
with torch.autocast("cpu", torch.bfloat16):
    print("under autocast, column @ frequencies:", (column @ frequencies).dtype)
    print("under autocast, column * frequencies:", (column * frequencies).dtype)

buffers = nn.Module()
buffers.register_buffer("frequencies", torch.ones(3))
print("after to(bfloat16):", buffers.to(torch.bfloat16).frequencies.dtype)

# %% [markdown]
# Only 769 different positions are left. bfloat16 has 8 significant bits, so from 256 on it can't count by ones, and
# neighbours get the same angle. Angles belong in float32, and two things can take them out of it without a word. Under
# autocast a matrix product is computed in bfloat16, while a broadcast product isn't. And `model.to(torch.bfloat16)`
# also casts floating buffers.
#
# The explorer shows the angles of eight pairs at position 257, in both formats. Move *position* on. Which pairs are
# off, and which never are?

# %%
dials_explorer()

# %% [markdown]
# At 257, pair 0 is off by 57 degrees, a whole radian, because 257 has become 256. The last three pairs turn so slowly
# that they hardly differ.
#
# The constant 10,000 is called `base`. A larger one makes all pairs but the first turn more slowly; models for long
# texts use that.
#
# **Now you know.** A key is turned once and stored turned. Compute angles in float32, whatever the dtype of the model.

# %% exercise="rotary"

# %% [markdown]
# ## 15.7 The same answer in pieces
#
# Back to the opening. In the fast version, two lines were written for a text that begins at position 0 and has as many
# keys as queries. Now you know both:
#
# 1. *Where does a piece begin?* Every new byte was turned by the angles of position 0.
# 2. *Which corner does the mask start from?* `is_causal=True` showed each new byte only the very first key.
#
# **Predict.** Correct only the positions, and then only the mask. One of the two changes not a single byte. Which one?

# %% facts=["15-cache-is-exact"]
print("without a cache:    ", written(model, prompt, 24))
for name, positions_right, mask_right in (
    ("both wrong", False, False),
    ("positions corrected", True, False),
    ("mask corrected", False, True),
    ("both corrected", True, True),
):
    right = {"positions_go_on": positions_right, "last_sees_all": mask_right}
    text = written_with_cache(model, prompt, 24, **right)
    print(f"{name + ':':20} {text}")

# %% [markdown]
# With only the positions corrected, the text stays as it was: a query that sees a single key gives it the weight 1,
# whatever the angle between them. With both corrected, the text is the one that the model writes without a cache.
#
# Are the numbers also the same? In exact arithmetic they are, for any way of cutting the text into pieces. On a
# computer they are the same up to rounding, because a product of one row and a product of many rows may add in another
# order.

# %% varies="how a processor adds"
torch.manual_seed(0)
x, w = torch.randn(64, 512), torch.randn(512, 512)
together, single = (x @ w)[0], x[:1] @ w
print("same bits:", torch.equal(together, single[0]))
print(f"largest difference: {(together - single).abs().max():.1e}")

# %% [markdown]
# The numbers are about 20 in size, so the difference is in the last digits. It has one consequence. If two bytes are
# almost equally likely, the choice of the likeliest can flip, and from there the texts differ. So don't test a cache by
# comparing texts. Compare outputs, with a tolerance, and cut the sequence in several ways: whole, one by one, in pieces
# of three.
#
# **Now you know.** A cache is right if every way of cutting gives the numbers of the whole.

# %% exercise="decode-in-pieces"

# %% [markdown]
# ## 15.8 Further
#
# **Rows of different length.** A batch of prompts is padded to one length. If you pad on the *left*, all rows end at
# the same place, and one `length` serves the whole cache. Then each row has its own positions (counted from its first
# real token) and its own `valid` keys. Positions in the padding may be anything, since nobody looks there.
#
# **Windows.** A layer that looks back only 1,024 positions needs only 1,024 places if positions come one at a time:
# position p is written to place p % 1024, over a key that nobody will look at again. A piece of n positions needs n - 1
# more places, because its first query still sees old keys when its last key is written. Such a *ring buffer* keeps its
# keys out of order, which is one more reason to compare positions and not places.
#
# **Masks as functions.** `flex_attention` takes functions instead of a mask tensor.


# %% facts=["15-flex-attention-eager"] shows_warning="UserWarning"
def windowed(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """A score inside a causal window of three positions, else -inf."""
    return torch.where((query >= key) & (query - key < 3), score, -math.inf)


torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
warning_of(lambda: print(flex_attention(q, k, v, score_mod=windowed).shape), lines=1)

# %% [markdown]
# Compiled (chapter 14), such functions become part of one kernel. Called as it is, `flex_attention` creates the whole
# matrix of scores, and says so.
#
# **No padding at all.** Nested tensors (`layout=torch.jagged`) hold rows of different length without padding;
# with `is_causal=True` torch 2.13 finds no kernel for them on the CPU. `torch.nn.attention.varlen.varlen_attn` takes
# all rows one after another and the places where they begin; it needs a GPU.
#
# ## On a GPU
#
# A GPU has three fused kernels for attention. The cell runs each of them, and the plain formula, forward and backward,
# in bfloat16 and for three lengths: first with `is_causal=True`, then with the same mask as a tensor. It prints the
# time of a pass and the memory that the pass needs besides q, k and v. Without a GPU it shows a recorded run. No
# exercise needs it.


# %% varies="a CUDA device changes what is shown"
@cuda_demo("15_attention")
def kernels_and_lengths() -> None:
    """Time and memory of attention by kernel and length, and why a kernel refuses a mask."""
    lengths = (512, 2048, 8192)
    print(f"{'':20}", *(f"{length:>14,} positions" for length in lengths))
    refused = {}
    for masked in (False, True):
        for name in ("MATH", "EFFICIENT_ATTENTION", "FLASH_ATTENTION", "CUDNN_ATTENTION"):
            cells = []
            for length in lengths:
                shape = (3, 1, 16, length, 64)
                q, k, v = torch.randn(shape, dtype=torch.bfloat16, device="cuda").requires_grad_()
                places = torch.ones(length, length, dtype=torch.bool, device="cuda")
                how = {"attn_mask": places.tril()} if masked else {"is_causal": True}
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                try:
                    with every_warning() as warned, sdpa_kernel(getattr(SDPBackend, name)):
                        for step in range(25):
                            if step == 5:
                                torch.cuda.synchronize()
                                start = time.perf_counter()
                            out = F.scaled_dot_product_attention(q, k, v, **how)
                            torch.autograd.grad(out.sum(), (q, k, v))
                            del out
                        torch.cuda.synchronize()
                except RuntimeError:
                    refused[name] = [str(one.message).partition(" (Trig")[0] for one in warned]
                    cells.append(f"{'no kernel':>24}")
                    continue
                milliseconds = (time.perf_counter() - start) / 20 * 1000
                peak = (torch.cuda.max_memory_allocated() - before) / 2**20
                cells.append(f"{milliseconds:8.2f} ms {peak:8,.0f} MiB")
            print(f"{'mask' if masked else 'is_causal':9} {name.partition('_')[0]:10}", *cells)
    for name, reasons in refused.items():
        print(f"{name}:", *(reason for reason in reasons if "support" in reason))


kernels_and_lengths()

# %% [markdown]
# Look at the last two lengths. With `is_causal`, the plain formula needs sixteen times the memory for four times the
# length, and a fused kernel four times. The mask tensor rules out one kernel and makes the other two half or a third as
# fast: they read the mask, and can't skip the keys that lie in the future. Left to itself, PyTorch 2.11 chose cuDNN's
# kernel for bfloat16 on this GPU, with and without a mask, and the memory-efficient one for float32.
#
# ## Folklore, checked
#
# The table lists what people say about attention and caches, and whether it is true. Each row has a proof that you can
# expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("15_attention")

# %%
prove("15-is-causal-upper-left")

# %% [markdown]
# ## Where to read on
#
# - PyTorch's pages on
#   [scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html),
#   [torch.nn.attention](https://docs.pytorch.org/docs/stable/nn.attention.html) and
#   [flex_attention](https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html).
# - [FlashAttention](https://arxiv.org/abs/2205.14135) and [FlashAttention-2](https://arxiv.org/abs/2307.08691): softmax
#   in one pass, and a backward that computes the weights again.
# - [GQA](https://arxiv.org/abs/2305.13245): why query heads share key heads.
# - [RoFormer](https://arxiv.org/abs/2104.09864): positions as angles.
#
# This was the last chapter. Your progress, and what to review, is on [the start page](../start.ipynb).
