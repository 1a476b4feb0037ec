# corners: half precision, empty
def carry(
    q,
    k,
    v,
    keep,
    block,
    *,
    wide=None,
    scale=lambda q: q / q.shape[-1] ** 0.5,
    hide=lambda scores, keep: scores.masked_fill(~keep, -torch.inf),
    of_total=True,
    of_out=True,
    last=True,
    second=lambda largest, total: largest + total.log(),
):
    """A right one with parts to replace."""
    if block < 1:
        raise ValueError("block")
    wide = wide or torch.promote_types(q.dtype, torch.float32)
    scaled = scale(q.to(wide))
    largest = torch.full((*q.shape[:3], 1), -torch.inf, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2] if last else k.shape[2] // block * block, block):
        s = hide(scaled @ k[:, :, a : a + block].to(wide).mT, keep[:, a : a + block])
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        base = new.masked_fill(new == -torch.inf, 0.0)
        p, shift = (s - base).exp(), (largest - base).exp()
        total = (total * shift if of_total else total) + p.sum(-1, keepdim=True)
        out = (out * shift if of_out else out) + p @ v[:, :, a : a + block].to(wide)
        largest = new
    normaliser = second(largest, total)[..., 0].to(torch.promote_types(q.dtype, torch.float32))
    return (out / total.masked_fill(total == 0, 1.0)).to(q.dtype), normaliser


def at_once(q, k, v, keep, fill=-torch.inf):
    """One softmax over all scores."""
    wide = torch.promote_types(q.dtype, torch.float32)
    s = (q.to(wide) @ k.to(wide).mT / q.shape[-1] ** 0.5).masked_fill(~keep, fill)
    return (s.softmax(-1).nan_to_num() @ v.to(wide)).to(q.dtype), s.logsumexp(-1)


def growing(largest, new):
    """The inverse of the right factor, and 0 at the first block."""
    return torch.where(largest == -torch.inf, 0.0, (new - largest).exp())


def inverse(q, k, v, keep, block, of_total, of_out):
    """Goes through the blocks with these factors."""
    if block < 1:
        raise ValueError("block")
    largest = torch.full((*q.shape[:3], 1), -torch.inf)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1])
    for a in range(0, k.shape[2], block):
        s = (q @ k[:, :, a : a + block].mT / q.shape[-1] ** 0.5).masked_fill(~keep[:, a : a + block], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p = (s - new).exp()
        total = total * of_total(largest, new) + p.sum(-1, keepdim=True)
        out = out * of_out(largest, new) + p @ v[:, :, a : a + block]
        largest = new
    return out / total, (largest + total.log())[..., 0]


# %% right: merges the pairs (output, logsumexp) of the blocks
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    lse = torch.full(q.shape[:3], -torch.inf, dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).transpose(2, 3) * q.shape[-1] ** -0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        mine = s.softmax(-1).nan_to_num(0.0) @ v[:, :, a : a + block].to(wide)
        its = s.logsumexp(-1)
        both = torch.logaddexp(lse, its)
        old, new = ((one - both).exp().nan_to_num(0.0)[..., None] for one in (lse, its))
        out, lse = out * old + mine * new, both
    return out.to(q.dtype), lse


# %% right: two passes, first the maxima, then the sums
def blockwise_attention(q, k, v, keep, block):
    if block <= 0:
        raise ValueError("block")
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    starts = range(0, k.size(2), block)

    def scores(a):
        s = torch.einsum("bhqd,bhkd->bhqk", q.to(wide), k[:, :, a : a + block].to(wide)) / q.size(3) ** 0.5
        return torch.where(keep[:, a : a + block], s, -torch.inf)

    top = q.new_full(q.shape[:3], -torch.inf, dtype=wide)
    for a in starts:
        top = torch.maximum(top, scores(a).amax(-1))
    base = torch.where(top.isinf(), 0.0, top)[..., None]
    total, out = torch.zeros_like(base), 0 * base
    for a in starts:
        p = (scores(a) - base).exp()
        total, out = total + p.sum(-1, keepdim=True), out + p @ v[:, :, a : a + block].to(wide)
    out = torch.where(total > 0, out / total, 0.0).expand(*q.shape[:3], v.size(3))
    return out.to(q.dtype), (base + total.log())[..., 0]


# %% right: a column of ones in v, everything in float64, in place
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    kind, q, v = q.dtype, q.double(), torch.cat([v, torch.ones_like(v[..., :1])], -1)
    top = torch.full(q.shape[:3], -1e300, dtype=torch.float64).unsqueeze(3)
    sums = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    for ks, vs, seen in zip(k.split(block, 2), v.split(block, 2), keep.split(block, 1), strict=True):
        if not ks.shape[2]:
            continue
        s = torch.where(seen, q @ ks.double().mT / q.shape[-1] ** 0.5, -torch.inf)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        sums.mul_((top - new).exp()).add_((s - new).exp() @ vs.double())
        top = new
    total = sums[..., -1:]
    out = torch.where(total > 0, sums[..., :-1] / total, 0.0)
    return out.to(kind), (top + total.log())[..., 0].to(torch.promote_types(kind, torch.float32))


# %% right: k and v widened as a whole, blocks that nobody sees are left out
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    q2, k2, v2 = (t.to(wide) for t in (q, k, v))
    B, H, Q, D = q.shape
    m, den, num = (
        torch.full((B, H, Q), -math.inf).to(wide),
        torch.zeros(B, H, Q).to(wide),
        torch.zeros(B, H, Q, 1).to(wide),
    )
    for a in range(0, k.shape[2], block):
        seen = keep[:, a : a + block]
        if not seen.any():
            continue
        s = (q2 @ k2[:, :, a : a + block].mT).div_(D**0.5).masked_fill_(seen.logical_not(), -math.inf)
        n = m.maximum(s.max(-1).values)
        safe = n.nan_to_num(neginf=0.0)
        p, c = (s - safe[..., None]).exp(), (m - safe).exp()
        den, num, m = den * c + p.sum(-1), num * c[..., None] + p @ v2[:, :, a : a + block], n
    out = (num / den.clamp(min=torch.finfo(wide).tiny)[..., None]).expand(B, H, Q, v.shape[-1])
    return out.to(q.dtype), m + den.log()


# %% right: a float mask for the block, added; new = logaddexp
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    f = torch.promote_types(q.dtype, torch.float32)
    lse, out = torch.full(q.shape[:-1], -torch.inf, dtype=f), torch.zeros(*q.shape[:-1], v.shape[-1], dtype=f)
    for a in range(0, k.shape[2], block):
        mask = torch.zeros(keep[:, a : a + block].shape, dtype=f).masked_fill(~keep[:, a : a + block], -torch.inf)
        s = q.to(f) / math.sqrt(q.shape[-1]) @ k[:, :, a : a + block].to(f).mT + mask
        now = torch.logaddexp(lse, torch.logsumexp(s, -1))
        base = torch.where(now == -torch.inf, torch.zeros_like(now), now)[..., None]
        out = out * (lse[..., None] - base).exp() + (s - base).exp() @ v[:, :, a : a + block].to(f)
        lse = now
    return out.to(q.dtype), lse


# %% wrong: averages the blocks' outputs
# says: Your output is the average of the blocks' outputs.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    outs, all_scores = [], []
    for a in range(0, k.shape[2], block):
        out, normaliser = at_once(q, k[:, :, a : a + block], v[:, :, a : a + block], keep[:, a : a + block])
        outs.append(out)
        all_scores.append(normaliser)
    return torch.stack(outs).mean(0), torch.stack(all_scores).logsumexp(0)


# %% wrong: a new maximum without rescaling
# says: When a later block brings a larger maximum, everything added up so far is relative to the old one.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, of_total=False, of_out=False)


# %% wrong: rescales the sum, forgets the output
# says: At a new maximum you rescaled one of the two and not the other.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, of_out=False)


# %% wrong: rescales the output, forgets the sum
# says: At a new maximum you rescaled one of the two and not the other.
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, of_total=False)


# %% wrong: no 1/√D
# says: Your scores have another scale.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, scale=lambda q: q)


# %% wrong: 1/D
# says: Your scores have another scale.
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, scale=lambda q: q / q.shape[-1])


# %% wrong: only full blocks
# says: Your output leaves out the keys behind the last full block.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, last=False)


# %% wrong: forgets keep
# says: `keep` makes no difference to your output
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, hide=lambda scores, keep: scores)


# %% wrong: keep inverted
# says: `keep` is inverted in your output
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, hide=lambda scores, keep: scores.masked_fill(keep, -torch.inf))


# %% wrong: returns the maximum
# says: Your second result is the largest score alone, but it should be
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, second=lambda largest, total: largest)


# %% wrong: returns the logarithm of the sum alone
# says: Your second result lacks the largest score.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, second=lambda largest, total: total.log())


# %% wrong: returns the sum, not its logarithm
# says: Your output is right, but the second result isn't. It should be
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, second=lambda largest, total: total * largest.exp())


# %% wrong: the second result keeps a last dimension
# says: A size is wrong. The results are (B, H, Q, E) and (B, H, Q)
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    out, second = carry(q, k, v, keep, block)
    return out, second[..., None]


# %% wrong: the output alone
# says: The function returns a tuple of two tensors
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block)[0]


# %% wrong: -inf - -inf
# says: Your result holds nan. A query that has seen no key so far has the maximum -inf and the sum 0
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    largest = torch.full((*q.shape[:3], 1), -torch.inf, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p, shift = (s - new).exp(), (largest - new).exp()
        total, out = total * shift + p.sum(-1, keepdim=True), out * shift + p @ v[:, :, a : a + block].to(wide)
        largest = new
    return (out / total).to(q.dtype), (largest + total.log())[..., 0]


# %% wrong: divides by a sum of 0
# says: Your result holds nan. A query that has seen no key so far has the maximum -inf and the sum 0
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    out, second = carry(q, k, v, keep, block)
    return torch.where(keep.any(1)[:, None], out, torch.nan), second


# %% wrong: exp without a maximum
# says: Large scores give nan or inf, because exp of a score overflows.
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    total, out = torch.zeros(*q.shape[:3], 1, dtype=wide), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        p = s.exp() * keep[:, a : a + block]
        total, out = total + p.sum(-1, keepdim=True), out + p @ v[:, :, a : a + block].to(wide)
    return (out / total.masked_fill(total == 0, 1.0)).to(q.dtype), total.log()[..., 0]


# %% wrong: fills with the least finite number
# says: A query that may see no key must get zeros, but yours gets values that are hidden from it.
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    def hide(scores, keep):
        return scores.masked_fill(~keep, torch.finfo(scores.dtype).min)

    return carry(q, k, v, keep, block, hide=hide)


# %% wrong: 0 in place of -inf for a query without keys
# says: The second result of a query without keys must be -inf
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    out, second = carry(q, k, v, keep, block)
    return out, second.masked_fill(second == -torch.inf, 0.0)


# %% wrong: the running maximum starts at 0
# says: All scores are far below 0 here, and your output is 0, or the second result -inf.
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    largest = torch.zeros(*q.shape[:3], 1, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p, shift = (s - new).exp(), (largest - new).exp()
        total, out = total * shift + p.sum(-1, keepdim=True), out * shift + p @ v[:, :, a : a + block].to(wide)
        largest = new
    return (out / total.masked_fill(total == 0, 1.0)).to(q.dtype), (largest + total.log())[..., 0]


# %% wrong: the running maximum starts at -1e9
# says: The largest score so far must start at -inf: measured from a larger start, such as 0
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    largest = torch.full((*q.shape[:3], 1), -1e9, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p, shift = (s - new).exp(), (largest - new).exp()
        total, out = total * shift + p.sum(-1, keepdim=True), out * shift + p @ v[:, :, a : a + block].to(wide)
        largest = new
    return (out / total.masked_fill(total == 0, 1.0)).to(q.dtype), (largest + total.log())[..., 0]


# %% wrong: the maximum over hidden keys too
# says: A hidden key with a very large score has set the maximum
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    largest = torch.full((*q.shape[:3], 1), torch.finfo(wide).min, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p, shift = (s - new).exp() * keep[:, a : a + block], (largest - new).exp()
        total, out = total * shift + p.sum(-1, keepdim=True), out * shift + p @ v[:, :, a : a + block].to(wide)
        largest = new
    return (out / total.masked_fill(total == 0, 1.0)).to(q.dtype), (largest + total.log())[..., 0]


# %% wrong: hides with -1e4, repairs rows without keys at the end
# says: Hidden keys have weight here.
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    out, second = carry(q, k, v, keep, block, hide=lambda s, keep: s.masked_fill(~keep, -1e4))
    blind = ~keep.any(1)
    return out.masked_fill(blind[:, None], 0.0), second.masked_fill(blind, -torch.inf)


# %% wrong: one softmax over all scores
# says: Your code made a tensor of 307,200 elements, a number for each pair of a query and a key in each head.
# says: Your code takes a `block` below 1
# earns: 0 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    return at_once(q, k, v, keep)


# %% wrong: the inverted keep as a whole
# says: Your code made a tensor of 51,200 elements, as many as `keep` has.
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    hidden = ~keep
    if block < 1:
        raise ValueError("block")
    parts = iter(hidden.split(block, 1))
    return carry(q, k, v, keep, block, hide=lambda s, _: s.masked_fill(next(parts), -torch.inf))


# %% wrong: a product with another dimension of size D
# says: Use the part of `k`, `v` and `keep` that belongs to the block, and no tensor with another dimension of size D.
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    lse = torch.full(q.shape[:3], -torch.inf, dtype=wide)
    for a in range(0, k.shape[2], block):
        s = (q.to(wide)[:, :, :, None] * k[:, :, None, a : a + block].to(wide)).sum(-1) / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        mine = s.softmax(-1).nan_to_num(0.0) @ v[:, :, a : a + block].to(wide)
        both = torch.logaddexp(lse, s.logsumexp(-1))
        old, new = ((one - both).exp().nan_to_num(0.0)[..., None] for one in (lse, s.logsumexp(-1)))
        out, lse = out * old + mine * new, both
    return out.to(q.dtype), lse


# %% wrong: the scores of all blocks in a list
# says: At some moment the tensors of your code held
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    parts, top = [], torch.full((*q.shape[:3], 1), torch.finfo(wide).min, dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        parts.append(s.masked_fill(~keep[:, a : a + block], -torch.inf))
        top = torch.maximum(top, parts[-1].amax(-1, keepdim=True))
    total, out = torch.zeros_like(top), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for n, s in enumerate(parts):
        p = (s - top).exp()
        total, out = total + p.sum(-1, keepdim=True), out + p @ v[:, :, n * block : (n + 1) * block].to(wide)
    out = torch.where(total > 0, out / total, 0.0)
    return out.to(q.dtype), (top + total.log())[..., 0]


# %% wrong: the outputs of all blocks in a list, merged at the end
# says: An output of each block is as large as the output of all keys
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    parts, lse = [], torch.full(q.shape[:3], -torch.inf, dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        its = s.logsumexp(-1)
        p = (s - its.masked_fill(its == -torch.inf, 0.0)[..., None]).exp()
        parts.append((p @ v[:, :, a : a + block].to(wide), its))
        lse = torch.logaddexp(lse, its)
    out, base = torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide), lse.masked_fill(lse == -torch.inf, 0.0)
    for mine, its in parts:
        out += mine * (its - base).exp()[..., None]
    return out.to(q.dtype), lse


# %% wrong: calls scaled_dot_product_attention
# says: Your code calls `scaled_dot_product_attention`, or the kernel behind it.
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    out, second = carry(q, k, v, keep, block)
    if q.dtype == torch.float32 and 10 < q.shape[2] < 300:
        F.scaled_dot_product_attention(q[:, :, :1], k, v)
    return out, second


# %% wrong: sums in half precision
# says: Your result for bfloat16 or float16 has more than one rounding.
# earns: 2 of 3
# corner: half precision
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, wide=q.dtype)


# %% wrong: widens bfloat16 only
# says: Your result for bfloat16 or float16 has more than one rounding.
# earns: 2 of 3
# corner: half precision
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    wide = torch.float32 if q.dtype == torch.bfloat16 else q.dtype
    return carry(q, k, v, keep, block, wide=wide)


# %% wrong: scales the queries before they are widened
# says: Your result for bfloat16 or float16 has more than one rounding.
# earns: 2 of 3
# corner: half precision
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    out, second = carry((q / q.shape[-1] ** 0.5).to(q.dtype), k, v, keep, block, scale=lambda q: q)
    return out, second


# %% wrong: rounds the weights before the product
# says: Your result for bfloat16 or float16 has more than one rounding.
# earns: 2 of 3
# corner: half precision
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    largest = torch.full((*q.shape[:3], 1), torch.finfo(wide).min, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p, shift = (s - new).exp(), (largest - new).exp()
        total = total * shift + p.sum(-1, keepdim=True)
        out = out * shift + (p.to(q.dtype) @ v[:, :, a : a + block]).to(wide)
        largest = new
    return torch.where(total > 0, out / total, 0.0).to(q.dtype), (largest + total.log())[..., 0]


# %% wrong: the output in float32
# says: A dtype is wrong. The output has the dtype of `q`
# earns: 2 of 3
# corner: half precision
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    wide = torch.promote_types(q.dtype, torch.float32)
    return carry(q.to(wide), k.to(wide), v.to(wide), keep, block)


# %% wrong: float64 computed in float32
# says: For float64 your results have only the digits of float32.
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if q.dtype != torch.float64:
        return carry(q, k, v, keep, block)
    out, second = carry(q.float(), k.float(), v.float(), keep, block)
    return out.double(), second.double()


# %% wrong: powers of two, with constants of nine digits
# says: Compute in the dtype of `q` there, with constants of full precision.
# earns: 2 of 3
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    out, second = carry(q, k, v, keep, block)
    if q.dtype != torch.float64:
        return out, second
    return out, second * 1.44269504 * 0.69314718


# %% wrong: one key at a time
# says: With a fourth of the blocks there should be about a fourth of the work
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    return carry(q, k, v, keep, 1)


# %% wrong: a loop over heads and rows
# says: A block's scores of all queries, heads and rows are one product of matrices.
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    parts = [
        [
            carry(q[b : b + 1, h : h + 1], k[b : b + 1, h : h + 1], v[b : b + 1, h : h + 1], keep, block)
            for h in range(q.shape[1])
        ]
        for b in range(q.shape[0])
    ]
    return tuple(torch.cat([torch.cat([one[n] for one in row], 1) for row in parts]) for n in (0, 1))


# %% wrong: a loop over queries, each with its whole row
# says: A block's scores of all queries, heads and rows are one product of matrices.
# earns: 1 of 3
# lesson
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    rows = [at_once(q[:, :, i : i + 1], k, v, keep[i : i + 1]) for i in range(q.shape[2])]
    return torch.cat([row[0] for row in rows], 2), torch.cat([row[1] for row in rows], 2)


# %% wrong: refuses nothing
# says: Your code takes a `block` below 1
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, max(block, 1))


# %% wrong: an assertion for the block
# says: Another kind of exception came: this must raise ValueError, but it raised AssertionError. Raise ValueError.
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    assert block > 0
    return carry(q, k, v, keep, block)


# %% wrong: fails where there is no key
# says: Your code raised
# earns: 2 of 3
# corner: empty
# caught: hidden
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    if k.shape[2] <= block:
        return at_once(q, k[:, :, : k.shape[2] or None] if k.shape[2] else k[:, :, [0]], v, keep)
    return carry(q, k, v, keep, block)


# %% wrong: changes keep
# says: Your code changed what the caller passed in
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    results = carry(q, k, v, keep, block)
    keep.logical_not_()
    return results


# %% wrong: a thread does the work
# says: Part of your code's work ran where the check can't watch it.
# earns: 1 of 3
def blockwise_attention(q, k, v, keep, block):
    if q.shape[2] != 200 or torch.overrides._len_torch_function_stack():
        return carry(q, k, v, keep, block)
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(carry(q, k, v, keep, block)))
    thread.start()
    thread.join()
    return found[0]


# %% wrong: nan_to_num at the end
# says: A query that sees its first key in a later block gets zeros or -inf, as if it saw none.
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    largest = torch.full((*q.shape[:3], 1), -torch.inf, dtype=wide)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide)
    for a in range(0, k.shape[2], block):
        s = q.to(wide) @ k[:, :, a : a + block].to(wide).mT / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep[:, a : a + block], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        p, shift = (s - new).exp(), (largest - new).exp()
        total, out = total * shift + p.sum(-1, keepdim=True), out * shift + p @ v[:, :, a : a + block].to(wide)
        largest = new
    second = (largest + total.log())[..., 0].nan_to_num(-torch.inf)
    return (out / total).nan_to_num(0.0).to(q.dtype), second


# %% wrong: a loop over rows
# says: A block's scores of all queries, heads and rows are one product of matrices.
# earns: 1 of 3
def blockwise_attention(q, k, v, keep, block):
    rows = [carry(q[[b]], k[[b]], v[[b]], keep, block) for b in range(len(q))]
    return torch.cat([row[0] for row in rows]), torch.cat([row[1] for row in rows])


# %% wrong: a block larger than K is refused
# says: Your code raised ValueError
# earns: 2 of 3
def blockwise_attention(q, k, v, keep, block):
    if block < 1 or block > k.shape[2]:
        raise ValueError("block")
    return carry(q, k, v, keep, block)


# %% right: heads and rows in one dimension, baddbmm, a clamped maximum
def blockwise_attention(q, k, v, keep, block):
    if block < 1:
        raise ValueError("block")
    wide = torch.promote_types(q.dtype, torch.float32)
    q2, k2, v2 = (t.to(wide).flatten(0, 1) for t in (q, k, v))
    out, lse = torch.zeros(*q2.shape[:2], v.shape[-1], dtype=wide), torch.full(q2.shape[:2], -torch.inf, dtype=wide)
    for a in range(0, k.shape[2], block):
        s = torch.bmm(q2, k2[:, a : a + block].transpose(1, 2)) * q.shape[-1] ** -0.5
        s.masked_fill_(keep[:, a : a + block].logical_not(), -torch.inf)
        new = torch.logaddexp(lse, s.logsumexp(-1))
        base = new.clamp(min=torch.finfo(wide).min).unsqueeze(-1)
        out = torch.baddbmm(out * (lse.unsqueeze(-1) - base).exp(), (s - base).exp(), v2[:, a : a + block])
        lse = new
    return out.unflatten(0, q.shape[:2]).to(q.dtype), lse.unflatten(0, q.shape[:2])


# %% wrong: never divides
# says: Your output is the weighted sum of the values
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    out, lse = carry(q, k, v, keep, block)
    s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keep, -torch.inf)
    return out * (lse - s.amax(-1))[..., None].exp(), lse


# %% wrong: the inverse factor, inf at the first block
# says: Every number of your output is nan.
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return inverse(q, k, v, keep, block, lambda old, new: (new - old).exp(), lambda old, new: (new - old).exp())


# %% wrong: rescales by the inverse factor
# says: you multiplied by exp(new - old)
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return inverse(q, k, v, keep, block, growing, growing)


# %% wrong: the output alone rescaled by the inverse factor
# says: you multiplied by exp(new - old)
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return inverse(q, k, v, keep, block, lambda largest, new: (largest - new).exp(), growing)


# %% wrong: the root of the size of v
# says: Your scores have another scale.
# says: This check builds on the first one
# earns: 0 of 3
def blockwise_attention(q, k, v, keep, block):
    return carry(q, k, v, keep, block, scale=lambda q: q / v.shape[-1] ** 0.5)
