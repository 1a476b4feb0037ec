# %% [markdown]
# # A small language model, by hand
#
# In this chapter you build one thing, section by section, and run it at the end: a language model of 0.6 million
# weights. You train it on your own machine on Python's language reference, and then it writes in the style of that
# text. After this chapter you can
#
# - build a GPT-like model from tensors up, and say which chapter each part comes from;
# - prove two things about it: no output depends on a later byte, and two processes compute the same gradient as one;
# - export it from Python and generate text with it.
#
# You will also see how to find out whether a good loss comes from a leak or a copy.
#
# **40 minutes to read, 240 minutes to practise, 20 points.** You need chapters 2 to 11; each exercise says which of
# them it builds on. The last run takes a few minutes on one core, and you can stop and resume it.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why. Each
# exercise is checked alone, with the course's own parts around it, so you may leave one out and come back.

# %% setup=true
import copy
import gc
import math
import os
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from textwrap import fill

import onnxruntime as ort
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from torchkata.demos import error_of
from torchkata.exporting import quiet_exporter
from torchkata.facts import folklore, prove
from torchkata.own_model import finish, long_run, own_folder, write_own_model
from torchkata.pictures.attention_map import attention_explorer
from torchkata.processes import run_on_ranks
from torchkata.small_lm import (
    Block,
    SmallLM,
    as_ids,
    as_text,
    held_out_loss,
    reference_ids,
    reference_paragraphs,
    reference_topics,
    stored_model,
    table_losses,
    train_a_while,
)
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    incoming_gradient,
    mistake,
    needs,
    noting_calls,
    observe,
    observe_scenario,
    opinions,
)

quiet_exporter()

# %% [markdown]
# Here is where the chapter ends. We ask a smaller version of your model, which was trained for a minute and is stored
# with the course, to continue two words:

# %%
small = stored_model()
print(sum(parameter.numel() for parameter in small.parameters()), "weights")

ids = as_ids("The statement ")
dice = torch.Generator().manual_seed(1)
with torch.no_grad():
    for _ in range(200):
        logits = small(ids[None, -small.length :])[0, -1]
        ids = torch.cat([ids, torch.multinomial((logits / 0.5).softmax(0), 1, generator=dice)])
print(fill(as_text(ids), 90))

# %% [markdown]
# Nobody told this model what a word is. It has read 200 kilobytes, one byte at a time, and learnt to guess the next
# byte. Little in it is new to you, because nearly every part rests on an exercise of chapters 2 to 11. What is new is
# that the parts have to work together, and that you must be able to say whether a good number is an honest one.
#
# ## 12.1 What should it read?
#
# Every full Python installation includes the text of its language reference; `help("yield")` shows a page of it. The
# course uses its paragraphs of prose and leaves out tables and code.

# %%
paragraphs = reference_paragraphs()
text, rest = reference_ids()
count = len(text) + len(rest)
print(len(paragraphs), "paragraphs,", count, "bytes;", text.dtype, tuple(text.shape))
print(fill(paragraphs[100], 90))

# %% [markdown]
# A byte is a number from 0 to 255, so the model has 256 classes and needs no tokenizer. A tenth of the text, here
# `rest`, is *held out*: we never train on it, we only measure on it. But which tenth should that be?
#
# **Predict.** If every tenth page is held out, what share of its 64-byte stretches appears verbatim on the other pages:
# one in a thousand, one in a hundred, or one in ten?


# %% facts=["12-held-out-pages-are-unseen"]
def seen_before(train: list[str], held_out: list[str], length: int = 64) -> str:
    """The share of held-out stretches that also appear in the training text."""
    known, new = "\n".join(train), "\n".join(held_out)
    stretches = {known[i : i + length] for i in range(len(known) - length)}
    found = sum(new[i : i + length] in stretches for i in range(len(new) - length))
    return f"{found / len(new):.1%}"


pages = reference_topics()
kept = [p for n, page in enumerate(pages) for p in page if n % 10]
held_out = [p for page in pages[::10] for p in page]
in_order = [p for page in pages for p in page]
tenth = len(in_order) // 10
print("every tenth page:               ", seen_before(kept, held_out))
print("the last tenth:                 ", seen_before(in_order[:-tenth], in_order[-tenth:]))
tenth = len(paragraphs) // 10
print("the same, no paragraph twice:   ", seen_before(paragraphs[:-tenth], paragraphs[-tenth:]))

# %% [markdown]
# One stretch in eight does, because pages of the reference quote each other, and if you hold out the last tenth of the
# pages, it is still one in eleven. On such text a model can score by remembering. The held-out part is new only if each
# paragraph is kept once. Check this for every split, because data that look separate rarely are.
#
# What is a good loss? Before you train any network, count. A table of pairs says how often each byte follows each other
# byte, a table of triples looks at the two bytes before, and so on. Here is the loss of such tables on the held-out
# text, in nats per byte (a nat is what a natural logarithm gives, as in `cross_entropy`):

# %% facts=["12-transformer-beats-counting"]
print(f"knowing nothing: log 256 = {math.log(256):.2f}")
for context, loss in enumerate(table_losses(text, rest, longest=6)):
    print(f"table with {context} bytes of context: {loss:.2f}")

# %% [markdown]
# These tables are the baselines. If the model's loss is below 2.50, it uses more than one byte of context. If it is
# below
# 1.45, the model is better than the best of these tables. (The last table gets worse because there is too little text
# for it.)
#
# A model trains on *windows*: pieces of the text, each paired with the same piece shifted by one byte. As copies,
# windows of 64 bytes would need 128 times the memory of the text. You know from chapter 2 that they need no memory at
# all.
#
# **Now you know.** Hold out text that is really new, and count first, because a loss means something only next to a
# baseline.

# %% exercise="text-windows"

# %% [markdown]
# ## 12.2 Looking back only
#
# At each position the model predicts the next byte from the bytes up to that position. *Attention* is a weighted mean
# over these bytes, and a *mask* says which positions it may look at.
#
# We train two small models for the same 200 steps. (`SmallLM` is a ready-made version of the model that you build in
# this chapter.) The second model may look one byte ahead.
#
# **Predict.** We then change the last of 32 bytes and mark with an X each position whose logits change. Which positions
# are that in the first model, and which in the second, if information moves one byte back in each block?

# %% facts=["12-low-loss-is-good"]
torch.set_num_threads(1)  # a model this small doesn't need more


def moved_by_last_byte(model: nn.Module, ids: Tensor) -> str:
    """Mark the positions whose logits change when the last byte changes."""
    changed = ids.clone()
    changed[-1] = (changed[-1] + 1) % 256
    with torch.no_grad():
        same = (model(ids[None]) == model(changed[None])).all(-1)[0]
    return "".join("." if still else "X" for still in same)


for diagonal in (0, 1):
    torch.manual_seed(0)
    model = SmallLM(width=48, layers=2, length=32)
    model.mask.copy_(torch.ones(32, 32).tril(diagonal))
    train_a_while(model, text, 200)
    print(
        f"tril({diagonal}): held-out loss {held_out_loss(model, rest, 32):.1f}, ",
        moved_by_last_byte(model, rest[:32]),
    )

# %% [markdown]
# In the first model only the last position changes, in the second the last three, because its two blocks pass the
# answer back one byte each. With one diagonal too many in its mask, the model sees the byte that it should predict, and
# so its loss is far below that of the best table. Change a byte and see which outputs change: in a *causal* model, no
# output before that byte does. The test costs two forward passes and needs no training. The leaking model's loss is
# this low even on *held-out* text, so held-out text doesn't protect you. The model still writes nonsense, because while
# it writes there is no next byte to look at.
#
# A mask has a second trap. Sequences of different length are padded, and the mask also covers the padding. Then a row
# may have nothing left to look at.

# %% facts=["12-minus-1e9-is-minus-inf", "12-nan-to-num-repairs-softmax"]
scores = torch.zeros(3, requires_grad=True)
nothing = torch.tensor([True, True, True])

print("-inf: ", scores.masked_fill(nothing, -torch.inf).softmax(0))
print("-1e9: ", scores.masked_fill(nothing, -1e9).softmax(0))

weights = (scores + torch.full((3,), -torch.inf)).softmax(0).nan_to_num(0)
weights.sum().backward()
print("nan_to_num:", weights.detach(), "gradient", scores.grad)

query, rows = torch.ones(1, 4, requires_grad=True), torch.ones(3, 4)
out = F.scaled_dot_product_attention(query, rows, rows, attn_mask=~nothing[None])
out.sum().backward()
print("scaled_dot_product_attention:", out.detach(), "gradient", query.grad)

# %% [markdown]
# With -inf the softmax is 0 / 0. With -1e9 it is a mean over all forbidden positions, including the future. And
# `nan_to_num` afterwards fixes the output, but the gradient is still nan (section 4.8 had the same trap with `where`).
# The gradient stays clean only if the -inf is put there by selection, as `masked_fill` does, because backward then puts
# a zero in the same place. PyTorch's own attention returns zeros for such a row, with a gradient of zero. If you write
# attention yourself, find such rows and handle them separately.
#
# How does attention know the position of a byte? The model below rotates queries and keys by angles that grow with the
# position, so that their product depends on the distance ([RoFormer](https://arxiv.org/abs/2104.09864)). We give you
# that part, `Block` in `torchkata.small_lm`.
#
# [Chapter 15](../15_attention/attention.ipynb) is about everything else that a mask can do, and about attention without
# a matrix of scores.
#
# **Now you know.** A model is causal if its outputs don't change when later inputs change. Test that, and don't trust
# the loss.

# %% exercise="causal-attention"

# %% [markdown]
# ## 12.3 One weight, two places
#
# The table that turns bytes into vectors can also turn vectors into bytes: the head shares its weight with the
# embedding. *Tied* means that both use the same Parameter, not that their numbers are equal.
#
# **Predict.** Here are three ways to tie the weights. How many parameters does the optimizer get in each, and which
# pairs share memory, before and after `copy.deepcopy`?


# %% facts=["12-data-ties-weights"]
def tied_by(way: str) -> nn.ModuleDict:
    model = nn.ModuleDict({"emb": nn.Embedding(256, 8), "head": nn.Linear(8, 256, bias=False)})
    if way == "head.weight = emb.weight":
        model["head"].weight = model["emb"].weight
    elif way == "head.weight.data = emb.weight.data":
        model["head"].weight.data = model["emb"].weight.data
    else:
        model["head"].load_state_dict(model["emb"].state_dict())
    return model


def same_memory(model: nn.ModuleDict) -> bool:
    return model["emb"].weight.data_ptr() == model["head"].weight.data_ptr()


for way in ("head.weight = emb.weight", "head.weight.data = emb.weight.data", "load_state_dict"):
    model = tied_by(way)
    parameters, copied = len(list(model.parameters())), copy.deepcopy(model)
    shared, still = same_memory(model), same_memory(copied)
    print(f"{way:36}{parameters} parameters, same memory {shared!s:6}after deepcopy {still}")

# %% [markdown]
# The first way gives the optimizer one parameter, and only this pair still shares memory in the copy. The second way
# looks tied and isn't. Two Parameters share one memory, so the optimizer steps it twice, and the next copy separates
# them. The third way only copies the numbers. Assign the Parameter itself.
#
# The shared weight has a second consequence. `nn.Embedding` draws its weights from N(0, 1). Used as a head, such a
# table compares each byte's vector with the output, which still contains that very vector. So the logit of the byte
# that was just read is about as large as the width, here 128:

# %%
x, y = text[None, :64], text[None, 1:65]
for spread in (1.0, 0.02):
    torch.manual_seed(0)
    model = SmallLM()
    nn.init.normal_(model.emb.weight, std=spread)
    with torch.no_grad():
        loss = F.cross_entropy(model(x)[0], y[0])
    print(f"spread {spread}: first loss {loss:.2f}, log 256 = {math.log(256):.2f}")

# %% [markdown]
# With a spread of 1 the model is sure that every byte repeats the one before, and pays for it with a loss of 116. This
# is the first number to look at, from section 11.1: a model that knows nothing should start near log 256. The blocks
# add their results to one *stream*, which runs from the embedding to the head. The matrices that write into the stream
# get an even smaller spread, 0.02 / √(2 · layers), so that the sum of all blocks doesn't grow with their number.
#
# **Now you know.** Count `parameters()` before you trust a tie, and look at the first loss before you train.

# %% exercise="tied-model"

# %% [markdown]
# ## 12.4 How wrong, and where
#
# A mean hides what the model knows. If you keep one loss per position, you can print it under the text. Here is the
# stored model's loss as a digit of nats, with 9 for nine or more.
#
# **Predict.** Where in a word are the large digits?

# %% facts=["12-loss-is-even"]
start = as_text(rest).index("\n", 2000) + 1
pieces = rest[start:].unfold(0, small.length + 1, small.length)[:3]
with torch.no_grad():
    logits = small(pieces[:, :-1]).transpose(1, 2)
    losses = F.cross_entropy(logits, pieces[:, 1:], reduction="none")
for piece, loss in zip(pieces, losses, strict=True):
    print("\n" + as_text(piece[1:]))
    print("".join(str(min(int(nats), 9)) for nats in loss))
print(f"mean {losses.mean():.1f}, median {losses.median():.1f}")

# %% [markdown]
# At the beginning of a word the digits rise, and towards its end they fall to 0: after a blank almost anything can
# follow, but the end of a word is nearly certain. The largest digits are where a piece begins, because there the model
# has no context, and inside the rare name `tb_frame`. Half of all bytes cost less than half of the mean, and a few cost
# nine nats.
#
# If the pieces have different lengths, they are padded, and the padding must not count, neither in the sum nor in the
# gradient, whatever its logits are.
#
# **Now you know.** Keep the loss of each position as long as you can, and take the mean last.

# %% exercise="token-loss"

# %% [markdown]
# ## 12.5 Remember less
#
# For backward, a block keeps what its operations need (section 5.6). It can also forget all of that and keep only its
# input. When the gradient arrives, it computes the rest again. This is called *checkpointing*.


# %% facts=["12-checkpointing-is-free"]
def bytes_kept(call: Callable[[], Tensor], module: nn.Module) -> int:
    """Bytes that autograd saves while call runs, each storage once, without module's parameters."""
    memory = {}

    def keep(t: Tensor) -> Tensor:
        memory[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t.detach()  # t itself would keep its graph, and the graph would keep t (section 1.5)

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        call()
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    return sum(size for place, size in memory.items() if place not in own)


torch.manual_seed(0)
block, mask = Block(128), torch.ones(64, 64, dtype=torch.bool).tril()
x = torch.randn(16, 64, 128, requires_grad=True)
print(f"plain:        {bytes_kept(lambda: block(x, mask), block) / x.nbytes:.0f} times the input")
lean = bytes_kept(lambda: checkpoint(block, x, mask, use_reentrant=False), block)
print(f"checkpointed: {lean / x.nbytes:.0f} times the input")


class Watched(nn.BatchNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        print("the block runs; autocast is on:", torch.is_autocast_enabled("cpu"))
        return super().forward(x)


norm = Watched(4)
with torch.autocast("cpu", torch.bfloat16):
    out = checkpoint(norm, torch.randn(8, 4, requires_grad=True), use_reentrant=False)
out.sum().backward()
print("batches that the norm has counted:", norm.num_batches_tracked.item())

# %% [markdown]
# The price is a second forward pass, up to a third more arithmetic. And the second run must compute the same as the
# first, or the gradient belongs to a different function. If the block has dropout, it must drop the same places again.
# If the first run was under autocast, the second must be too, even though backward is called outside the region.
# `torch.utils.checkpoint` does both (the last lines show it for autocast), and on a GPU it also restores [the state of
# the GPU's own generator](https://docs.pytorch.org/docs/stable/checkpoint.html). If you write the second run yourself,
# you must do all of it yourself. Nothing takes care of what the block *writes*: a BatchNorm counts the batch twice.
# [Section 13.5](../13_memory_time/memory_time.ipynb) plans which parts of a model are worth checkpointing.
#
# **Now you know.** You can choose what to do for backward: keep results in memory, or compute them again.

# %% exercise="remember-less"

# %% [markdown]
# ## 12.6 When it explodes
#
# With plain SGD and a learning rate of 1000 the model doesn't learn. Hooks on every layer record the size of its
# output, the root of the mean square, in every step:

# %% facts=["12-last-layer-is-the-culprit"]
torch.manual_seed(0)
model = SmallLM(width=48, layers=2, length=32)
optimizer = torch.optim.SGD(model.parameters(), lr=1000.0)
stretches = text.unfold(0, 33, 1)
sizes = {}
for name, module in model.named_modules():
    if not list(module.children()):
        module.register_forward_hook(
            lambda m, i, out, name=name: sizes.update({name: out.square().mean().sqrt().item()})
        )

watched = ("emb", "blocks.0.out", "blocks.0.down", "blocks.1.down", "head")
print("step " + "".join(f"{name:>15}" for name in watched) + f"{'loss':>10}")
for step in range(6):
    batch = stretches[torch.arange(16) * 1000 + step]
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    row = "".join(f"{sizes[name]:15.2g}" for name in watched)
    print(f"{step:4} {row}{loss.item():10.3g}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# Where would you look first? Don't start at the head, although the loss comes from there, because the head only passes
# on what it gets. Go through the layers in the order in which they *run*, and start at the first whose output is too
# large. That layer need not be the cause. In step 1 it is `emb`, which did nothing wrong: one step with a rate of 1000
# threw *all* weights far away, and `emb` is merely the first layer to run with its new weights. A single layer is the
# cause only if no other layer's weights changed in this way.
#
# **Predict.** A monitor checks `if size > 10` and stays silent, although the loss is nan. Why?

# %%
size = float("nan")
print(size > 10, size <= 10, not size <= 10)

# %% [markdown]
# Every comparison with nan is False, so `size > 10` is False as well. Write the condition that must hold, and negate
# it.
#
# **Now you know.** Look first at the first layer, in running order, whose output is too large. And make sure that your
# monitor notices nan.

# %% exercise="find-exploder"

# %% [markdown]
# ## 12.7 The step
#
# AdamW divides a running mean of gradients by the root of a running mean of their squares (section 11.5). In the first
# step, neither mean has seen anything before:

# %% facts=["12-first-adam-step-is-small"]
for gradient in (1e-10, 1e-6, 1.0, 1e6):
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.AdamW([p], lr=0.01, weight_decay=0.0)
    p.grad = torch.full_like(p, gradient)
    optimizer.step()
    print(f"gradient {gradient:g}: the first step is {p.item():.4f}")

# %% [markdown]
# Nearly every weight moves by the full rate, whatever the size of its gradient. (The first line shows the limit. AdamW
# adds `eps`, 1e-8, to the root before it divides, so far smaller gradients make smaller steps.) The first steps are as
# large as any, but AdamW knows the least then. So the rate *warms up*: it climbs over the first steps, then falls along
# half a cosine. You can try in the run of 12.13 whether a model as small as ours needs this.
#
# **Predict.** A warm-up of four steps is written as `peak * step / warmup`. How large is the first step, and which step
# uses the peak rate?

# %%
peak, warmup = 0.01, 4
print("step:    ", [peak * min(1, step / warmup) for step in range(5)])
print("step + 1:", [peak * min(1, (step + 1) / warmup) for step in range(5)])

# %% [markdown]
# The first step is zero, so step 0 is wasted, and the rate reaches `peak` one step late, in the fifth step. `peak *
# (step + 1) / warmup` starts above zero and reaches the peak in the fourth step.
#
# **Now you know.** AdamW's rate is a distance, and the first step moves nearly every weight that far.

# %% exercise="adamw-by-hand"

# %% [markdown]
# ## 12.8 More text than memory
#
# You can compute a large batch in parts and add up the gradients (section 11.1). If the texts have different lengths,
# the parts have different numbers of targets. What does a mean of means do then?

# %% facts=["12-mean-of-means"]
losses = [torch.full((5,), 4.0), torch.full((24,), 1.0)]  # nats of 5 and of 24 targets
print("mean of the two means:  ", (losses[0].mean() + losses[1].mean()).item() / 2)
print("mean over all targets:  ", round(torch.cat(losses).mean().item(), 2))

# %% [markdown]
# The five targets count as much as the twenty-four. Count the targets of *all* parts first, then divide each part's sum
# by that number.
#
# The forward pass may run in bfloat16, but the loss should not. Here are the small model's logits for one window under
# autocast, and the loss computed from them:

# %%
piece = rest[:33]
with torch.no_grad():
    exact = small(piece[None, :-1])[0]
    with torch.autocast("cpu", torch.bfloat16):
        half = small(piece[None, :-1])[0]
print("logits:", half.dtype, f"largest difference {(half - exact).abs().max():.2f}")
print(f"loss of the exact logits:       {F.cross_entropy(exact, piece[1:]).item():.3f}")
print(f"loss of these, in float32:      {F.cross_entropy(half.float(), piece[1:]).item():.3f}")
print(f"loss of these, in bfloat16:     {F.cross_entropy(half, piece[1:]).item():.3f}")
nats = F.cross_entropy(exact, piece[1:]).item()
print(f"{nats:.3f} nats = {nats / math.log(2):.3f} bits per byte = perplexity {math.exp(nats):.1f}")

# %% [markdown]
# The logits lose a little precision. Their loss in float32 hardly changes, because the noise of many logits averages
# out. A loss computed in bfloat16 has only three digits and changes more. So run the forward pass under autocast, and
# call `.float()` on the logits before the loss. (The last line has the units used in papers. A loss in nats divided by
# log 2 is in bits, and e to the loss in nats is the *perplexity*, here per byte.)
#
# **Now you know.** Divide by the number of all targets in the batch, once. Clip the finished gradient, once. And call
# `.float()` on the logits before the loss: inside autocast `cross_entropy` does that for you, outside it computes in
# the dtype that it gets.

# %% exercise="token-accumulation"

# %% [markdown]
# ## 12.9 Equal to the last bit, or close
#
# Section 11.8 listed the five states of a run. Here they are the weights, AdamW's moments and counts, the step (the
# rate follows from it), torch's random numbers, and the generator that draws the windows.
#
# **Predict.** Here are two claims. A run that is stopped and resumed ends with the same weights as a run that never
# stopped. The gradient of a batch is the sum of the gradients of its four quarters. Which claim holds to the last bit?

# %% facts=["12-halves-add-up-exactly"]
torch.manual_seed(0)
model = SmallLM(width=48, layers=2, length=32)
batch = stretches[torch.arange(16) * 1000]


def gradient(rows: Tensor) -> Tensor:
    model.zero_grad()
    logits = model(rows[:, :-1]).flatten(0, 1)
    F.cross_entropy(logits, rows[:, 1:].flatten(), reduction="sum").backward()
    return model.blocks[0].qkv.weight.grad.clone()


whole, quarters = gradient(batch), sum(gradient(rows) for rows in batch.split(4))
print("the same batch twice: equal", torch.equal(whole, gradient(batch)))
print("four quarters:        equal", torch.equal(whole, quarters))
print("close:", torch.allclose(whole, quarters, rtol=1e-4, atol=1e-5))

# %% [markdown]
# Only the first claim holds to the last bit. A resumed run does the same operations in the same order, so every bit can
# agree. (In the cell, the same batch twice stands in for it.) Test for exactly that, because no weaker test finds every
# forgotten state. Four quarters, or four processes, add in a different order, and floating-point sums depend on the
# order, so compare them with a tolerance. (You wrote such a resume in Exercises 7.9 and 11.10. The run of section 12.13
# uses the course's `save_run` and `load_run`, which work in the same way.)
#
# The test of section 12.2 also compared bits. Is that right for every causal model? A softmax may subtract any number
# from all scores. Here it subtracts the largest, and the second time a later score is larger than the three that count:

# %%
seen = torch.tensor([0.1, 0.7, 0.3])
for later in (0.0, 5.0):
    powers = (seen - max(seen.max().item(), later)).exp()
    print([f"{weight:.9f}" for weight in powers / powers.sum()])

# %% [markdown]
# The later score has no weight, yet the last digits change with it, because other numbers are rounded. So a test for
# leaks also needs a tolerance, one that is larger than rounding and smaller than any leak.
#
# **Now you know.** If the operations and their order are the same, test for equality. If the order differs, test with a
# tolerance, and say how large it is.

# %% exercise="keeps-the-past"

# %% exercise="two-equal-one"

# %% [markdown]
# ## 12.10 The loop
#
# The loop puts windows, model, loss, rate and step together. You write it for a smaller model, so that the check takes
# seconds. The check measures the loss itself, on bytes that your function never saw, and it tests whether the model is
# still causal. This chapter's leak and its copies show why.
#
# **Now you know.** When you see a low loss, ask which text it was measured on, whether the mask leaks, and what a
# simple baseline gets.

# %% exercise="train-it"

# %% [markdown]
# ## 12.11 Out of Python
#
# A trained model should run where PyTorch isn't installed. The exporter of chapter 9 turns the sizes of its example
# into constants unless you tell it otherwise.
#
# Here the example is 2 texts of 5 bytes, and only `batch` is dynamic. We then give the file 9 bytes:

# %%
example, batch_only = (torch.zeros(2, 5, dtype=torch.int64),), ({0: "batch"},)
program = torch.onnx.export(small.eval(), example, dynamic_shapes=batch_only, verbose=False)
file = program.model_proto.SerializeToString()
session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
error_of(lambda: session.run(None, {name: torch.zeros(2, 9, dtype=torch.int64).numpy()}))

# %% [markdown]
# The file refuses them, because the 5 is a constant in it. A model that writes needs every length from 1 to its
# longest. And the exporter needs eval mode, but *your* model should not be left in eval mode.

# %% exercise="export-lm"

# %% [markdown]
# ## 12.12 It writes
#
# To write, draw the next byte from the model's distribution, append it, and ask again. First divide the logits by a
# *temperature*; below 1, likely bytes become likelier. (This writer computes everything again for each byte.
# [Chapter 15](../15_attention/attention.ipynb) keeps what doesn't change.)


# %% facts=["12-temperature-zero"]
def go_on(prompt: str, count: int, temperature: float, seed: int) -> str:
    """The stored model's text after a prompt, drawn from the whole distribution."""
    ids, dice = as_ids(prompt), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _ in range(count):
            logits = small(ids[None, -small.length :])[0, -1]
            probabilities = (logits / temperature).softmax(0)
            ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=dice)])
    return as_text(ids)


for temperature in (0.05, 0.7, 1.5):
    print(f"{temperature}: {go_on('A function ', 80, temperature, seed=0)}\n")

# %% [markdown]
# At a temperature near zero the model writes what is likeliest. At a high temperature it draws bytes that were unlikely
# for good reasons. The usual remedy is the *nucleus* of chapter 3: draw only among the fewest bytes that together have,
# say, 90 per cent.
#
# **Predict.** A function calls `generator.manual_seed(0)` before it draws each byte, so that its text can be repeated.
# What will the text look like?

# %%
for prompt in ("A function ", "The statement "):
    ids, dice = as_ids(prompt), torch.Generator()
    with torch.no_grad():
        for _ in range(60):
            chances = small(ids[None, -small.length :])[0, -1].softmax(0)
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=dice.manual_seed(0))])
    print(as_text(ids))

# %% [markdown]
# It can be repeated, but it is useless. Every byte is drawn with the same random numbers, so the same few bytes are
# favoured in each draw, and the text soon runs in a circle. Seed once, outside the loop.

# %% exercise="write-on"

# %% [markdown]
# ## 12.13 Your own model
#
# Now you put everything together, in a larger model: 3 blocks, a width of 128, 64 bytes of context. The next cell
# writes `my_model/my_model.py`. It uses your answers where their checks have passed and the course's parts elsewhere,
# and says which parts are yours.

# %% varies="parts are yours where you have solved the exercise"
folder = own_folder()
my_model = write_own_model(folder, globals())

# %% [markdown]
# **Predict.** In 900 steps of 16 windows, the model reads each byte of the text four or five times. Where among the
# tables of section 12.1 will its held-out loss end?
#
# The cell trains for a few minutes on one core (or on a GPU, if there is one). It draws the curve as it trains, a point
# for each round of 50 steps. The square button stops it; run the cell again, and it continues from the last save. On a
# processor without instructions for bfloat16, where the same steps would take twenty minutes, it trains in float32 and
# says so. (`python my_model/my_model.py` in a terminal does the same.) The curve that you see before you run the cell
# is that of a test run of 20 steps.

# %% varies="the run is yours"
run = long_run(my_model, folder)

# %% [markdown]
# Compare the last number with the tables. A run with the course's own parts ended at 1.27, which is better than the
# best of these tables. Then compare it with your own next idea: change WIDTH, LAYERS or PEAK in a copy of the file.

# %% [markdown]
# ### What is yours now
#
# The last cell exports the model, lets it continue three prompts, and writes `my_model/my_model.html` with the curve,
# the attention of one head, and the three texts with their seeds. It is a single file that you can send to a friend.
# After the 20 steps of the course's own tests the model writes noise. After 900 steps it writes words and almost
# sentences; ours continued "The statement" like this: *The statement statement is the operation object as not constand
# "\_\_all\_\_()" and "\_\_del\_\_()" is called in the or an inverses are specifiers*.

# %% varies="the model is yours"
finish(run, my_model.PROMPTS, folder)

# %% [markdown]
# And here you can look into the model. Choose a head and move through the text. In our run one head gave half of its
# weight to the byte before, and another head gave six tenths to the last blank, where the word begins. Nobody told them
# to.

# %% varies="the model is yours"
attention_explorer(run.model)

# %% [markdown]
# ## Folklore, checked
#
# These are common beliefs about small language models and what we found. Each row unfolds a proof: a few lines that run
# without an error only if the statement on the right is true.

# %%
folklore("12_language_model")

# %% [markdown]
# You can run a proof by its name.

# %%
prove("12-minus-1e9-is-minus-inf")

# %% [markdown]
# ## Where to read on
#
# - Andrej Karpathy's [nanoGPT](https://github.com/karpathy/nanoGPT) and his lecture [Let's build GPT: from
#   scratch, in code, spelled out](https://www.youtube.com/watch?v=kCc8FmEb1nY): the same plan at a larger scale.
# - [Attention Is All You Need](https://arxiv.org/abs/1706.03762), where it began, and
#   [RoFormer](https://arxiv.org/abs/2104.09864), on rotating queries and keys.
# - [The Curious Case of Neural Text Degeneration](https://arxiv.org/abs/1904.09751): why generation needs a nucleus.
# - PyTorch's pages on
#   [scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
#   and on [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html).
#
# **Next:** chapter 13, [Where memory and time go](../13_memory_time/memory_time.ipynb).
