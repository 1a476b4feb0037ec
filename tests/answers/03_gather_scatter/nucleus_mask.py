# corners: equal values, empty, maximum, nan

import numpy as np


def checked(p):
    if not 0 < p <= 1:
        raise ValueError(f"p = {p}")


# %% right: gathers with the argsort of the order
def nucleus_mask(logits, p):
    checked(p)
    probs = torch.softmax(logits.detach(), dim=-1)
    values, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    keep = (values.cumsum(-1) - values) < p
    return keep.gather(-1, order.argsort(-1))


# %% right: Python loop per row
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be in (0, 1]")
    mask = torch.zeros(logits.shape, dtype=torch.bool)
    with torch.no_grad():
        for position in range(mask.numel() // mask.shape[-1]):
            row = logits.reshape(-1, logits.shape[-1])[position].double().softmax(0).tolist()
            total = 0.0
            for token in sorted(range(len(row)), key=lambda v: -row[v]):
                if total >= p:
                    break
                mask.view(-1, len(row))[position, token] = True
                total += row[token]
    return mask


# %% right: sums, for each token, the probabilities of all tokens ranked before it by comparison (no sort)
def nucleus_mask(logits, p):
    checked(p)
    probs = logits.detach().softmax(-1)
    mine, other = probs[..., :, None], probs[..., None, :]
    v = torch.arange(logits.shape[-1], device=logits.device)
    first = (other > mine) | ((other == mine) & (v[None, :] < v[:, None]))
    return (other * first).sum(-1) < p


# %% right: the usual 'shift the removal mask right by one' recipe
@torch.no_grad()
def nucleus_mask(logits, p):
    checked(p)
    sorted_logits, order = torch.sort(logits, dim=-1, descending=True, stable=True)
    remove = F.softmax(sorted_logits, dim=-1).cumsum(-1) >= p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return ~remove.scatter(-1, order, remove)


# %% right: an exclusive sum by cat, written back with indices
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(probs[..., :1]), probs.cumsum(-1)[..., :-1]], dim=-1)
    mask = torch.empty_like(order, dtype=torch.bool)
    return mask.scatter_(-1, order, before < p)


# %% wrong: returns the mask of ranks
# says: The mask is still in sorted order
# says: This check builds on the first one
# earns: 0 of 4
# lesson
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return probs.cumsum(-1) - probs < p


# %% wrong: gathers with the sort order
# says: You read with the sort order (gather) where you had to write with it (scatter)
# says: This check builds on the first one
# earns: 0 of 4
# lesson
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return (probs.cumsum(-1) - probs < p).gather(-1, order)


# %% wrong: keeps while the sum including the token is <= p
# says: The token that carries the sum across p is missing
# says: This check builds on the first one
# earns: 0 of 4
# lesson
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) <= p)


# %% wrong: the same, with the best token forced in
# says: The token that carries the sum across p is missing
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    keep = probs.cumsum(-1) <= p
    keep[..., 0] = True
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, keep)


# %% wrong: shifts a mask that needs no shift
# says: One token too many
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    keep = probs.cumsum(-1) - probs < p
    keep[..., 1:] = keep[..., :-1].clone()
    keep[..., 0] = True
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, keep)


# %% wrong: sorts ascending
# says: You summed from the least probable token up.
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: returns what is dropped
# says: Those are the tokens to drop
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs >= p)


# %% wrong: cumulates logits
# says: The sums run over raw logits
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    values, order = logits.detach().sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, values.cumsum(-1) - values < p)


# %% wrong: cumulates logits, the token included
# says: The sums run over raw logits
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    values, order = logits.detach().sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, values.cumsum(-1) <= p)


# %% wrong: runs over dim 0
# says: Each row is its own distribution
# says: This check builds on the first one
# earns: 0 of 4
# lesson
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(0).sort(dim=0, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(0, order, probs.cumsum(0) - probs < p)


# %% wrong: softmax over dim 0
# says: Each row is its own distribution
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(0).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: softmax over dim 1, right for vectors and matrices
# says: Each row is its own distribution
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(min(1, logits.dim() - 1)).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: keeps ceil(p V) tokens
# says: p is a probability mass, not a share of the vocabulary
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    order = logits.detach().argsort(dim=-1, descending=True, stable=True)
    keep = torch.arange(logits.shape[-1]) < -(-logits.shape[-1] * p // 1)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, keep.expand_as(order))


# %% wrong: keeps every probability >= that of the last kept rank
# says: Equal probabilities: they are ranked by position
# earns: 3 of 4
# corner: equal values
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs = logits.detach().softmax(-1)
    ranked = probs.sort(dim=-1, descending=True).values
    kept = (ranked.cumsum(-1) - ranked < p).sum(-1, keepdim=True)
    return probs >= ranked.gather(-1, kept - 1)


# %% wrong: an unstable sort
# says: Equal probabilities: they are ranked by position
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs = logits.detach().softmax(-1)
    order = torch.sort(probs.flip(-1), dim=-1, descending=True, stable=True).indices
    order = logits.shape[-1] - 1 - order
    ranked = probs.gather(-1, order)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, ranked.cumsum(-1) - ranked < p)


# %% wrong: removes from the least probable token up to 1 - p
# says: Equal probabilities: they are ranked by position
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, stable=True)
    keep = probs.cumsum(-1) > 1 - p
    keep[..., -1] = True
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, keep)


# %% wrong: the shift recipe with > p
# says: A token whose predecessors sum to exactly p is dropped
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    remove = probs.cumsum(-1) > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, ~remove)


# %% wrong: accepts any p
# says: must raise ValueError
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: checks p by assert
# says: p = 0.0 must raise ValueError
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    assert 0 < p <= 1
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: refuses p = 1
# says: p = 1 is allowed
# earns: 3 of 4
# corner: maximum
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p < 1:
        raise ValueError(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: returns 0/1 floats
# says: The mask must be bool
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(probs).scatter_(-1, order, (probs.cumsum(-1) - probs < p).to(probs.dtype))


# %% wrong: returns the kept tokens
# says: not the list of kept tokens
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return order[probs.cumsum(-1) - probs < p]


# %% wrong: lets the mask require grad
# says: The mask must not carry a graph.
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.softmax(-1).sort(dim=-1, descending=True, stable=True)
    mask = torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)
    return mask * logits.softmax(-1) if logits.requires_grad else mask


# %% wrong: masks the caller's logits
# says: Your code changed what the caller passed in: the values in logits are no longer the same
# earns: 3 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    mask = torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)
    logits.masked_fill_(~mask, -torch.inf)
    return mask


# %% wrong: stable as a keyword, dim not
# says: stable is accepted only when dim is given as a keyword
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: a sum that is off by a small number
# says: A token whose predecessors sum to exactly p is dropped
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) < p + probs + 1e-6)


# %% wrong: forgets the device
# says: The mask must be on the device of logits
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros(logits.shape, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% right: NumPy in double
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p")
    x = logits.detach().double().numpy()
    if x.size == 0:
        return torch.zeros(logits.shape, dtype=torch.bool)
    e = np.exp(x - x.max(-1, keepdims=True))
    q = e / e.sum(-1, keepdims=True)
    order = np.argsort(-q, axis=-1, kind="stable")
    s = np.take_along_axis(q, order, -1)
    keep = np.cumsum(s, -1) - s < p
    out = np.zeros(x.shape, bool)
    np.put_along_axis(out, order, keep, -1)
    return torch.from_numpy(out)


# %% right: sorts logits in place of probabilities
def nucleus_mask(logits, p):
    if not (p > 0 and p <= 1):
        raise ValueError
    with torch.no_grad():
        v, order = torch.sort(logits, dim=-1, descending=True, stable=True)
        q = v.softmax(-1)
        removed = (q.cumsum(-1) - q) >= p
        return torch.empty_like(removed).scatter_(-1, order, ~removed)


# %% right: writes back by indices, rows flattened
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    flat = (
        logits.detach().reshape(-1, logits.shape[-1])
        if logits.numel()
        else logits.detach().reshape(0, logits.shape[-1])
    )
    q, order = flat.softmax(1).sort(dim=1, descending=True, stable=True)
    out = torch.zeros_like(flat, dtype=torch.bool)
    out[torch.arange(len(flat))[:, None], order] = q.cumsum(1).sub(q).lt(p)
    return out.reshape(logits.shape)


# %% right: who is ahead of whom, as a table
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    q = logits.detach().softmax(-1, dtype=torch.float64)
    i = torch.arange(q.shape[-1], device=q.device)
    ahead = (q[..., None, :] > q[..., :, None]) | ((q[..., None, :] == q[..., :, None]) & (i[None] < i[:, None]))
    return torch.einsum("...vu,...u->...v", ahead.double(), q) < p


# %% wrong: as many tokens in each row as in the first
# says: Each row decides for itself
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    q, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    k = q.cumsum(-1) - q < p
    if k.dim() > 1 and k.shape[0]:
        k = k[:1].expand_as(k)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, k)


# %% wrong: a token whose predecessors have exactly p is kept
# says: predecessors sum to exactly p
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    q, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, q.cumsum(-1) - q <= p)


# %% wrong: ties by last position
# says: ranked by position
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    q, order = logits.detach().softmax(-1).flip(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, q.cumsum(-1) - q < p).flip(-1)


# %% wrong: an ascending stable sort, flipped
# says: ranked by position
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    q, order = logits.detach().softmax(-1).sort(dim=-1, stable=True)
    q, order = q.flip(-1), order.flip(-1)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, q.cumsum(-1) - q < p)


# %% wrong: detaches the logits of the caller
# says: Your code changed what the caller passed in: logits was changed
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    q, order = logits.detach_().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, q.cumsum(-1) - q < p)


# %% wrong: p above 1 means 1
# says: p = 1.5 must raise ValueError
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    if p <= 0:
        raise ValueError
    p = min(p, 1)
    q, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, q.cumsum(-1) - q < p)


# %% wrong: centres logits on their mean
# says: A logit of -inf is a probability of 0
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError
    x = logits.detach()
    x = x - x.mean(-1, keepdim=True)
    q, order = x.softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, q.cumsum(-1) - q < p)


# %% wrong: lets a p of nan through
# says: p = nan must raise ValueError
# earns: 3 of 4
# corner: nan
# caught: hidden
def nucleus_mask(logits, p):
    if p <= 0 or p > 1:
        raise ValueError("p must be in (0, 1]")
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: the token's own probability counted, and gathered with the sort order
# says: Two mistakes at once
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return (probs.cumsum(-1) < p).gather(-1, order)


# %% wrong: loops over rows, with nothing to stack
# says: An empty batch has an empty mask
# earns: 3 of 4
# corner: empty
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    masks = []
    for row in logits.detach().reshape(-1, logits.shape[-1]):
        probs, order = row.softmax(-1).sort(dim=-1, descending=True, stable=True)
        masks.append(torch.zeros_like(row, dtype=torch.bool).scatter(-1, order, probs.cumsum(-1) - probs < p))
    return torch.stack(masks).reshape(logits.shape)


# %% wrong: a shortcut for p = 1 keeps every token, impossible ones too
# says: The tokens before it already have the whole probability
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    if p == 1:
        return torch.ones_like(logits, dtype=torch.bool)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% right: half precision is added in float32
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError(p)
    wide = torch.promote_types(logits.dtype, torch.float32)
    probs, order = logits.detach().softmax(-1, dtype=wide).sort(dim=-1, descending=True, stable=True)
    keep = torch.arange(logits.shape[-1], device=logits.device) <= (probs.cumsum(-1) < p).sum(-1, keepdim=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, keep)


# %% wrong: softmax in half precision
# says: in half precision they are equal
# earns: 3 of 4
# corner: equal values
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError(p)
    probs, order = logits.detach().half().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: sums without sorting
# says: You summed the probabilities in the order of the tokens
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError(p)
    probs = logits.detach().softmax(-1)
    return probs.cumsum(-1) - probs < p


# %% wrong: the token numbers to drop, without their rows
# says: has lost its rows
# says: This check builds on the first one
# earns: 0 of 4
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    drop = probs.cumsum(-1) - probs >= p
    mask = torch.ones_like(drop)
    mask[..., order[drop]] = False
    return mask


# %% wrong: keeps a token whose predecessors have exactly p, as Llama's code does
# says: predecessors sum to exactly p is dropped
# earns: 3 of 4
# corner: equal values
# caught: hidden
def nucleus_mask(logits, p):
    if not 0 < p <= 1:
        raise ValueError(p)
    probs, order = torch.sort(torch.softmax(logits.detach(), dim=-1), dim=-1, descending=True, stable=True)
    mask = torch.cumsum(probs, dim=-1) - probs > p
    return ~torch.zeros_like(mask).scatter(-1, order, mask)


# %% wrong: subtracts the largest logit of the whole batch
# says: A row has no token left, because exp underflows
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    x = logits.detach().float()
    e = (x - (x.max() if x.numel() else 0)).exp()
    probs, order = (e / e.sum(-1, keepdim=True)).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: only the best 1024 tokens
# says: Every token of the vocabulary can be kept
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1, dtype=torch.float32).sort(dim=-1, descending=True, stable=True)
    probs, order = probs[..., :1024], order[..., :1024]
    mask = torch.zeros_like(logits, dtype=torch.bool)
    return mask.scatter(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: -1e9 in place of -inf
# says: A number in place of -inf can be larger than a finite logit
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    x = logits.detach().float().nan_to_num(neginf=-1e9)
    probs, order = x.softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: no logit below -1e4
# says: A number in place of -inf can be larger than a finite logit
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().clamp(min=-1e4).softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, probs.cumsum(-1) - probs < p)


# %% wrong: flattens the leading dimensions by view
# says: A view needs memory in the right order
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    rows = logits.detach().view(-1, logits.shape[-1])
    probs, order = rows.softmax(-1).sort(dim=-1, descending=True, stable=True)
    keep = probs.cumsum(-1) - probs < p
    return torch.zeros_like(keep).scatter(1, order, keep).view(logits.shape)


# %% wrong: ranks in the dtype of the logits
# says: bfloat16 can't tell 299 from 300
# earns: 3 of 4
# caught: hidden
def nucleus_mask(logits, p):
    checked(p)
    x = logits.detach()
    probs, order = x.softmax(-1, dtype=torch.promote_types(x.dtype, torch.float32)).sort(
        dim=-1, descending=True, stable=True
    )
    kept = (probs.cumsum(-1) - probs < p).sum(-1, keepdim=True)
    ranks = torch.arange(x.shape[-1], device=x.device).to(x.dtype)
    return torch.zeros_like(x).scatter(-1, order, ranks.expand_as(x)) < kept


# %% wrong: one mask for all calls of a shape
# says: the first result changed
# earns: 3 of 4
# caught: hidden
MASKS = {}


def nucleus_mask(logits, p):
    checked(p)
    probs, order = logits.detach().softmax(-1).sort(dim=-1, descending=True, stable=True)
    mask = MASKS.setdefault((logits.shape, logits.device), torch.zeros_like(logits, dtype=torch.bool))
    return mask.scatter_(-1, order, probs.cumsum(-1) - probs < p)
