# %% right: merges the finished results of two parts
# Each block is a separate attention with an output and a logsumexp, and `logaddexp` says how much each of two parts
# counts. The results of two devices can be merged in the same way. `nan_to_num` is there for queries without a key, but
# it also turns the output for a nan key into 0, where the author's is nan.
def blockwise_attention(q, k, v, keep, block):
    """Attention block by block, merged with what came before."""
    if block < 1:
        raise ValueError(f"a block has at least 1 key, not {block}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scaled = q.to(wide) / math.sqrt(q.shape[-1])
    out = scaled.new_zeros(*q.shape[:3], v.shape[-1])
    normaliser = scaled.new_full(q.shape[:3], -torch.inf)
    for start in range(0, k.shape[2], block):
        keys = slice(start, start + block)
        scores = (scaled @ k[:, :, keys].to(wide).mT).masked_fill(~keep[:, keys], -torch.inf)
        of_block = scores.softmax(-1).nan_to_num(0.0) @ v[:, :, keys].to(wide)
        new = scores.logsumexp(-1)
        both = torch.logaddexp(normaliser, new)
        share, new_share = ((part - both).exp().nan_to_num(0.0)[..., None] for part in (normaliser, new))
        out, normaliser = out * share + of_block * new_share, both
    return out.to(q.dtype), normaliser


# %% right: two passes, first the maxima, then the sums
# If the maximum of all scores is known, nothing has to be rescaled. But the scores of every block are computed twice,
# so there are three matrix products for each block instead of two.
def blockwise_attention(q, k, v, keep, block):
    """Attention with the maximum of each query found beforehand."""
    if block < 1:
        raise ValueError(f"a block has at least 1 key, not {block}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scaled = q.to(wide) / math.sqrt(q.shape[-1])
    blocks = [slice(start, start + block) for start in range(0, k.shape[2], block)]

    def scores(keys):
        return (scaled @ k[:, :, keys].to(wide).mT).masked_fill(~keep[:, keys], -torch.inf)

    largest = scaled.new_full((*q.shape[:3], 1), -torch.inf)
    for keys in blocks:
        largest = torch.maximum(largest, scores(keys).amax(-1, keepdim=True))
    base = largest.masked_fill(largest == -torch.inf, 0.0)
    total, out = torch.zeros_like(base), scaled.new_zeros(*q.shape[:3], v.shape[-1])
    for keys in blocks:
        weights = (scores(keys) - base).exp()
        total = total + weights.sum(-1, keepdim=True)
        out = out + weights @ v[:, :, keys].to(wide)
    out = out / total.masked_fill(total == 0, 1.0)
    return out.to(q.dtype), (base + total.log()).squeeze(-1)


# %% wrong: averages the outputs of the blocks
# says: Your output is the average of the blocks' outputs.
# It would be right if the normalisers of all blocks were equal. A block with large scores must count for more.
def blockwise_attention(q, k, v, keep, block):
    """The mean of the blocks' own attentions."""
    if block < 1:
        raise ValueError(f"a block has at least 1 key, not {block}")
    wide = torch.promote_types(q.dtype, torch.float32)
    outs, normalisers = [], []
    for start in range(0, k.shape[2], block):
        keys = slice(start, start + block)
        scores = q.to(wide) @ k[:, :, keys].to(wide).mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~keep[:, keys], -torch.inf)
        outs.append(scores.softmax(-1).nan_to_num(0.0) @ v[:, :, keys].to(wide))
        normalisers.append(scores.logsumexp(-1))
    return torch.stack(outs).mean(0).to(q.dtype), torch.stack(normalisers).logsumexp(0)
