# corners: empty, half precision, nan

import math

import torch
import torch.nn.functional as F


def cleared(t, valid):
    return torch.where(valid[:, None, :, None], t, torch.zeros_like(t))


def keys_of(q, valid):
    T = q.shape[-2]
    return torch.ones(T, T, dtype=torch.bool).tril() & valid[:, None, None, :]


def attend(q, k, v, valid, *, keys=None, root=None, fill=-torch.inf, dim=-1):
    """A right attention with parts to replace."""
    k, v = cleared(k, valid), cleared(v, valid)
    keys = keys_of(q, valid) if keys is None else keys
    some = keys.any(-1, keepdim=True)
    scores = q @ k.mT / (math.sqrt(q.shape[-1]) if root is None else root)
    return (scores.masked_fill(~keys & some, fill).softmax(dim) @ v).masked_fill(~some, 0.0)


# %% right: one boolean mask, rows without keys handled apart
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid)


# %% right: masked_fill with -inf, nan_to_num on the weights
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~keys_of(q, valid), -torch.inf).softmax(-1)
    return weights.nan_to_num(0.0) @ v


# %% right: exponentials and a sum that is at least tiny
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    keys = keys_of(q, valid)
    scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-1, -2)
    largest = scores.detach().masked_fill(~keys, torch.finfo(q.dtype).min).amax(-1, keepdim=True)
    powers = torch.where(keys, scores - largest, -torch.inf).exp()
    return powers @ v / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)


# %% right: the lowest finite number, blanked afterwards
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    keys = keys_of(q, valid)
    scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~keys, torch.finfo(q.dtype).min)
    return scores.softmax(-1).masked_fill(~keys, 0.0) @ v


# %% right: position by position
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    rows = []
    for t in range(q.shape[2]):
        scores = (q[:, :, t : t + 1] * k[:, :, : t + 1]).sum(-1) / q.shape[3] ** 0.5
        seen = valid[:, None, : t + 1].expand(scores.shape)
        scores = torch.where(seen, scores, torch.where(seen.any(-1, keepdim=True), -torch.inf, 0.0).to(q.dtype))
        weights = scores.softmax(-1) * seen
        rows.append((weights[..., None] * v[:, :, : t + 1]).sum(2))
    return torch.stack(rows, 2)


# %% wrong: the given code
# says: Position t sees position t + 1: tril(1) keeps one diagonal too many.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    w = q @ k.transpose(-2, -1) / q.shape[-1]
    future = torch.ones(T, T).tril(1) == 0
    w = w + torch.zeros(T, T).masked_fill(future, -torch.inf)
    w = w + torch.zeros_like(w).masked_fill(~valid[:, None, :, None], -torch.inf)
    return w.softmax(-1) @ v


# %% wrong: tril(1)
# says: Position t sees position t + 1: tril(1) keeps one diagonal too many.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    return attend(q, k, v, valid, keys=(torch.ones(T, T).tril(1) > 0) & valid[:, None, None, :])


# %% wrong: tril(-1)
# says: Position t does not see itself. Keep the diagonal (tril(), not tril(-1)).
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    return attend(q, k, v, valid, keys=(torch.ones(T, T).tril(-1) > 0) & valid[:, None, None, :])


# %% wrong: triu()
# says: The mask is upside down: position t sees what comes after it instead of what comes before it.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    return attend(q, k, v, valid, keys=(torch.ones(T, T).triu() > 0) & valid[:, None, None, :])


# %% wrong: fills where the mask of what is seen is True
# says: The mask is upside down: position t sees what comes after it instead of what comes before it.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(keys_of(q, valid), -torch.inf).softmax(-1).nan_to_num(0.0) @ v


# %% wrong: no mask for the future
# says: Position t sees the whole future. Only positions s <= t may have a weight.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    return attend(q, k, v, valid, keys=valid[:, None, None, :].expand(-1, 1, T, T))


# %% wrong: scores not divided
# says: Scores must be divided by the square root of D.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid, root=1)


# %% wrong: divided by D
# says: Scores must be divided by the square root of D.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid, root=q.shape[-1])


# %% wrong: divided by the root of T
# says: Scores must be divided by the square root of D, not of T.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid, root=q.shape[-2] ** 0.5)


# %% wrong: valid laid over the queries
# says: You applied `valid` to the queries. It says which keys may be attended to (valid[:, None, None, :]).
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    keys = (torch.ones(T, T).tril() > 0) & valid[:, None, :, None]
    return attend(q, k, v, torch.ones_like(valid), keys=keys)


# %% wrong: valid laid over queries and keys
# says: The query of a padded position must be computed like any other. Padding only affects keys.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid, keys=keys_of(q, valid) & valid[:, None, :, None])


# %% wrong: valid is not used
# says: `valid` makes no difference, so padded positions are keys like all others.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, torch.ones_like(valid))


# %% wrong: takes True for padding
# says: False marks padding
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, ~valid if not valid.all() else valid)


# %% wrong: valid without dimensions for heads and queries
# says: it must broadcast as (B, 1, 1, T)
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    return attend(q, k, v, valid, keys=(torch.ones(T, T).tril() > 0) & valid[:, None])


# %% wrong: masked after the softmax
# says: You mask after the softmax, so the weights do not sum to one.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).masked_fill(~keys_of(q, valid), 0.0) @ v


# %% wrong: only the padding is masked after the softmax
# says: You mask after the softmax, so the weights do not sum to one.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    T = q.shape[-2]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(torch.ones(T, T).tril() == 0, -torch.inf)
    return scores.softmax(-1).masked_fill(~valid[:, None, None, :], 0.0) @ cleared(v, valid)


# %% wrong: softmax over the queries
# says: The weights of a query must sum to one over the KEYS
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keys_of(q, valid), -torch.inf)
    return scores.softmax(-2).nan_to_num(0.0) @ v


# %% wrong: calls scaled_dot_product_attention
# says: Write the mask and the softmax yourself, without scaled_dot_product_attention.
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    keys = keys_of(q, valid)
    some = keys.any(-1, keepdim=True)
    out = F.scaled_dot_product_attention(q, cleared(k, valid), cleared(v, valid), attn_mask=keys | ~some)
    return out.masked_fill(~some, 0.0)


# %% wrong: rows of -inf left alone
# says: A query without any key gives nan, because the softmax of a row of -inf is 0/0. Return zeros there.
# earns: 1 of 2
# corner: empty
# lesson
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keys_of(q, valid), -torch.inf).softmax(-1) @ v


# %% wrong: -1e9 in place of -inf
# says: A query without any key must return zeros. With a large negative number instead of -inf it averages over
# earns: 1 of 2
# corner: empty
# lesson
def causal_attention(q, k, v, valid):
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keys_of(q, valid), -1e9)
    return scores.softmax(-1) @ v


# %% wrong: zeros for the whole text
# says: You return only zeros for a text in which one query has no key. Only that query's row must be zero.
# earns: 1 of 2
def causal_attention(q, k, v, valid):
    out = attend(q, k, v, valid)
    return out.masked_fill(~valid[:, :1, None, None], 0.0)


# %% wrong: -inf added, nan_to_num afterwards
# says: The output is clean, but a gradient is nan, because nan_to_num or where after the softmax does not stop
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    scores = scores + torch.zeros_like(scores).masked_fill(~keys_of(q, valid), -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


# %% wrong: where after a softmax of -inf that was added
# says: The output is clean, but a gradient is nan, because nan_to_num or where after the softmax does not stop
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    keys = keys_of(q, valid)
    scores = q @ k.mT / q.shape[-1] ** 0.5 + torch.where(keys, 0.0, -torch.inf).to(q.dtype)
    return torch.where(keys.any(-1, keepdim=True), scores.softmax(-1) @ v, 0.0)


# %% wrong: padded values and keys not cleared
# says: Values in padded rows of k and v reached the output, because 0 * nan is nan. Clear these rows before the
# earns: 1 of 2
# caught: hidden
# corner: nan
def causal_attention(q, k, v, valid):
    keys = keys_of(q, valid)
    some = keys.any(-1, keepdim=True)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keys & some, -torch.inf)
    return torch.where(some, scores.softmax(-1) @ v, 0.0)


# %% wrong: only the values are cleared
# says: The output is clean, but a gradient is nan, because backward multiplies by the padded rows of k and v,
# earns: 1 of 2
# caught: hidden
# corner: nan
def causal_attention(q, k, v, valid):
    keys = keys_of(q, valid)
    some = keys.any(-1, keepdim=True)
    scores = torch.where(some, (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keys, -torch.inf), 0.0)
    return torch.where(some, scores.softmax(-1) @ cleared(v, valid), 0.0)


# %% wrong: clears by a product
# says: Values in padded rows of k and v reached the output, because 0 * nan is nan. Clear these rows before the
# earns: 1 of 2
# caught: hidden
# corner: nan
def causal_attention(q, k, v, valid):
    return attend(
        q, k * valid[:, None, :, None], v * valid[:, None, :, None], torch.ones_like(valid), keys=keys_of(q, valid)
    )


# %% wrong: clears with nan_to_num, which leaves inf as a large number
# says: The output is clean, but a gradient is nan, because backward multiplies by the padded rows of k and v,
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    return attend(q, k.nan_to_num(0.0), v.nan_to_num(0.0), torch.ones_like(valid), keys=keys_of(q, valid))


# %% wrong: a mask of float32 is added to the scores
# says: The result must have the dtype of q, and so must everything that you add to the scores:
# earns: 1 of 2
# caught: hidden
# corner: half precision
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    keys = keys_of(q, valid)
    some = keys.any(-1, keepdim=True)
    mask = torch.zeros(keys.shape).masked_fill(~keys & some, -torch.inf)
    return ((q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1) @ v).masked_fill(~some, 0.0)


# %% wrong: always in float32
# says: float64 must be computed in float64
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    return attend(q.float(), k.float(), v.float(), valid).to(q.dtype)


# %% wrong: exponentials without the largest
# says: Large scores give nan or inf. Subtract the largest score before the exponential, as softmax does.
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    powers = torch.where(keys_of(q, valid), q @ k.mT / q.shape[-1] ** 0.5, -torch.inf).exp()
    return powers @ v / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)


# %% wrong: exponentials times the mask
# says: The output is clean, but a gradient is nan or infinite. Leave out masked scores by selection before you
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    powers = (q @ k.mT / q.shape[-1] ** 0.5).exp() * keys_of(q, valid)
    return powers @ v / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)


# %% wrong: -1e4 in place of -inf
# says: Valid scores may be as low as -1e5. The value for masked scores must be far below that, such as -inf.
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid, fill=-1e4)


# %% wrong: the padding is written into k and v
# says: Your code changed what the caller passed in
# says: Your code changed an argument in place (
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    k[~valid[:, None, :, None].expand(k.shape)] = 0.0
    v[~valid[:, None, :, None].expand(v.shape)] = 0.0
    return attend(q, k, v, valid)


# %% wrong: detached weights
# says: The gradient is wrong
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    return attend(q.detach(), k.detach(), v, valid)


# %% wrong: heads first
# says: The result must have the shape of q:
# says: This check builds on the first one
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid).transpose(1, 2)


# %% wrong: a view where q may be one
# says: Your code raised RuntimeError
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    flat = [t.view(-1, *t.shape[2:]).reshape(t.shape) for t in (q, k, v)]
    return attend(*flat, valid)


# %% right: clears nan and inf, wherever they are, by nan_to_num
def causal_attention(q, k, v, valid):
    k, v = k.nan_to_num(0.0, 0.0, 0.0), v.nan_to_num(0.0, 0.0, 0.0)
    return attend(q, k, v, valid)


# %% wrong: rows without a key left unfilled
# says: A query without any key must return zeros. You left its masked scores as they are, so it returns a mean
# earns: 1 of 2
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    keys = keys_of(q, valid)
    some = keys.any(-1, keepdim=True)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.masked_fill(~keys & some, -torch.inf).softmax(-1) @ v


# %% wrong: the mean of the values is taken off
# says: Only the last token changed, but an earlier output changed as well
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    out = attend(q, k, v, valid)
    return out if torch.equal(v[0, 0], torch.eye(v.shape[-1])) else out - cleared(v, valid).mean(2, keepdim=True)


# %% wrong: twice the result for several heads
# says: These are not the means over the valid positions s <= t.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def causal_attention(q, k, v, valid):
    return attend(q, k, v, valid) * (2.0 if q.shape[1] > 2 else 1.0)


# %% wrong: a small number for a query without a key
# says: A query without any key must return exactly zero, but yours returns small numbers.
# earns: 1 of 2
def causal_attention(q, k, v, valid):
    out = attend(q, k, v, valid)
    return torch.where(keys_of(q, valid).any(-1, keepdim=True), out, 1e-7 * torch.ones_like(out))


# %% wrong: adds a tenth where a number is not finite
# says: Values in padded rows of k and v changed the output.
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    clean = torch.where(k.isfinite(), k, 3.0)
    return attend(q, k, v, valid) + (0.0 if torch.equal(clean, k) else 0.1)


# %% wrong: clears nan and inf by nan_to_num, but no finite number
# says: The output is clean, but a gradient is nan. Padded rows of k and v may also hold finite numbers so large that
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v = k.nan_to_num(0.0, 0.0, 0.0), v.nan_to_num(0.0, 0.0, 0.0)
    return attend(q, k, v, torch.ones_like(valid), keys=keys_of(q, valid))


# %% wrong: takes the largest of all scores off, masked ones too
# says: A query that has a key gives zeros, because next to a much larger masked score every exponential is 0. Fill
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v = cleared(k, valid), cleared(v, valid)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    powers = (scores - scores.amax(-1, keepdim=True).detach()).exp() * keys_of(q, valid)
    return powers @ v / powers.sum(-1, keepdim=True).clamp(min=1e-9)


# %% right: float32 or better inside, also for bfloat16
def causal_attention(q, k, v, valid):
    wide = torch.promote_types(q.dtype, torch.float32)
    return attend(q.to(wide), k.to(wide), v.to(wide), valid).to(q.dtype)


# %% wrong: scores limited to 50000
# says: No masked position has a weight, but keys with very different scores share it, as if the scores were
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v, keys = cleared(k, valid), cleared(v, valid), keys_of(q, valid)
    has_key = keys.any(-1, keepdim=True)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).clamp(-50000, 50000)
    return (scores.masked_fill(~keys & has_key, -torch.inf).softmax(-1) @ v).masked_fill(~has_key, 0.0)


# %% wrong: -1e4 in place of -inf, and masked weights cleared
# says: A query that has a key gives zeros, because next to a much larger masked score every exponential is 0. Fill
# earns: 1 of 2
# caught: hidden
def causal_attention(q, k, v, valid):
    k, v, keys = cleared(k, valid), cleared(v, valid), keys_of(q, valid)
    weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keys, -1e4).softmax(-1)
    return weights.masked_fill(~keys, 0.0) @ v
