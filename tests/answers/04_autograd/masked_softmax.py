# corners: nan, half precision, empty
# %% right: -inf by where, rows without valid entries blanked
def masked_softmax(scores, mask):
    mask = mask.expand(scores.shape)
    p = torch.where(mask, scores, -torch.inf).softmax(dim=-1)
    return p.masked_fill(~mask.any(-1, keepdim=True), 0)


# %% right: fills with finfo(dtype).min, multiplies the finite result by the mask
def masked_softmax(scores, mask):
    filled = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    return F.softmax(filled, dim=-1) * mask


# %% right: shifted exponentials, selected, divided by a sum that is 1 for empty rows
def masked_softmax(scores, mask):
    low = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    e = torch.where(mask, torch.exp(low - low.amax(-1, keepdim=True).detach()), 0)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1, total)


# %% right: empty rows get ordinary numbers, computed in float32
def masked_softmax(scores, mask):
    mask = mask.broadcast_to(scores.shape)
    empty = ~mask.any(dim=-1, keepdim=True)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    safe = torch.where(mask, wide, torch.where(empty, 0.0, -torch.inf).to(wide.dtype))
    return torch.where(empty, 0.0, torch.softmax(safe, -1)).to(scores.dtype)


# %% wrong: the code as given
# says: The output is right, the gradient is nan: in the empty row softmax produced nan, and its backward multiplies the zero gradient by that nan.
# says: A masked score leaked into the result
# earns: 0.5 of 2
# lesson
def masked_softmax(scores, mask):
    bias = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    p = (scores + bias).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), p, 0.0)


# %% wrong: repairs the output with nan_to_num
# says: Selecting afterwards is too late; keep nan from arising.
# says: A masked nan or inf has spoilt its whole row
# earns: 0.5 of 2
# lesson
def masked_softmax(scores, mask):
    bias = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    return (scores + bias).softmax(-1).nan_to_num()


# %% wrong: adds -1e9 in place of -inf
# says: A row without valid entries must be all 0; yours is not (a large negative number shifts all entries of the row equally).
# says: The probabilities are not right yet
# says: A masked score leaked into the result
# earns: 0 of 2
def masked_softmax(scores, mask):
    return (scores + torch.zeros(mask.shape).masked_fill(~mask, -1e9)).softmax(-1)


# %% wrong: adds -1e9 and blanks afterwards
# says: A masked score leaked into the result: adding -inf (or multiplying by 0) does not remove nan or inf.
# earns: 1.5 of 2
def masked_softmax(scores, mask):
    p = (scores + torch.zeros(mask.shape).masked_fill(~mask, -1e9)).softmax(-1)
    return torch.where(mask, p, 0.0)


# %% wrong: fills with -1e9 and blanks afterwards
# says: The number -1e9 does not exist in float16: use -inf or torch.finfo(dtype).min.
# earns: 1.5 of 2
# corner: half precision
# caught: hidden
def masked_softmax(scores, mask):
    p = scores.masked_fill(~mask, -1e9).softmax(-1)
    return torch.where(mask, p, 0.0)


# %% wrong: blanks an ordinary softmax
# says: The valid entries of a row must sum to 1: you blanked entries of an ordinary softmax without renormalising.
# says: The probabilities are not right yet
# says: A masked score leaked into the result
# earns: 0 of 2
def masked_softmax(scores, mask):
    return torch.where(mask, scores.softmax(-1), 0.0)


# %% wrong: ordinary softmax, blanked and renormalised
# says: A masked score that is larger than the valid ones makes them underflow to 0 before you renormalise: mask before the exponential.
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    clean = torch.where(mask, scores, scores.detach().nan_to_num(0.0, 0.0, 0.0))
    p = torch.where(mask, clean.softmax(-1), 0.0)
    total = p.sum(-1, keepdim=True)
    return p / torch.where(total == 0, 1.0, total)


# %% wrong: exponentials without subtracting the maximum
# says: Subtract the row's maximum before the exponential
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    e = torch.where(mask, torch.where(mask, scores, 0.0).exp(), 0.0)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


# %% wrong: multiplies the scores by the mask and adds a large negative number to the others
# says: A masked score leaked into the result: adding -inf (or multiplying by 0) does not remove nan or inf.
# earns: 1.5 of 2
# corner: nan
def masked_softmax(scores, mask):
    p = (scores * mask + ~mask * torch.finfo(scores.dtype).min).softmax(-1)
    return p * mask


# %% wrong: takes True for masked
# says: A mask of True means valid.
# says: The probabilities are not right yet
# says: A masked score leaked into the result
# earns: 0 of 2
def masked_softmax(scores, mask):
    p = scores.masked_fill(mask, -torch.inf).softmax(-1)
    return torch.where(mask, 0.0, p)


# %% wrong: demands a mask of the same shape
# says: The mask may broadcast against scores
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    filled = scores.clone()
    filled[~mask] = torch.finfo(scores.dtype).min
    return filled.softmax(-1) * mask


# %% wrong: blanks by indexing with the mask
# says: The mask may broadcast against scores
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    p = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    out = torch.zeros_like(p)
    out[mask] = p[mask]
    return out


# %% wrong: computes and returns float32
# says: The dtype of scores must be kept
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    p = scores.float().masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.where(mask, p, 0.0)


# %% wrong: cuts the graph to get rid of the nan
# says: Masked entries must get gradient 0, valid ones the softmax gradient
# earns: 0.5 of 2
# lesson
def masked_softmax(scores, mask):
    p = scores.detach().masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.where(mask, p, 0.0)


# %% wrong: blanks the empty rows only by a product
# says: nan in the output
# says: a row without valid entries is nan: softmax of nothing but -inf
# earns: 1 of 2
def masked_softmax(scores, mask):
    p = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return p * mask.any(-1, keepdim=True)


# %% wrong: writes the fill into scores
# says: Your code changed what the caller passed in
# says: was changed in place, and autograd refuses
# earns: 0 of 2
def masked_softmax(scores, mask):
    p = scores.masked_fill_(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return torch.where(mask, p, 0.0)


# %% wrong: softmax over the first dimension
# says: Here the columns do.
# says: The probabilities are not right yet
# earns: 0 of 2
def masked_softmax(scores, mask):
    p = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(0)
    return torch.where(mask, p, 0.0)


# %% wrong: a hook that repairs the gradient of the empty row, nothing else
# says: A masked score leaked into the result
# earns: 1.5 of 2
def masked_softmax(scores, mask):
    s = scores * 1
    if s.requires_grad:
        s.register_hook(torch.nan_to_num)
    p = (s + torch.zeros_like(s).masked_fill(~mask, -torch.inf)).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), p, 0.0)


# %% right: row by row, over the valid entries alone
def masked_softmax(scores, mask):
    valid = mask.expand(scores.shape).reshape(-1, scores.shape[-1])
    rows = []
    for row, kept in zip(scores.reshape(-1, scores.shape[-1]), valid, strict=True):
        blank = torch.zeros_like(row)
        rows.append(blank.masked_scatter(kept, row[kept].softmax(0)) if kept.any() else blank)
    return torch.stack(rows).view(scores.shape) if rows else torch.zeros_like(scores)


# %% right: logsumexp
def masked_softmax(scores, mask):
    kept = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    return torch.where(mask, (kept - kept.logsumexp(-1, keepdim=True)).exp(), 0.0)


# %% right: an extra column for empty rows
def masked_softmax(scores, mask):
    kept = torch.where(mask, scores, -torch.inf)
    sink = torch.where(mask.expand(scores.shape).any(-1, keepdim=True), -torch.inf, 0.0).to(scores.dtype)
    return torch.cat([kept, sink], -1).softmax(-1)[..., :-1]


# %% wrong: fills with -1e4
# says: Masked places took part in a row's maximum or sum: valid scores may be as low as -1e4.
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    return torch.where(mask, scores, -1e4).softmax(-1) * mask


# %% wrong: subtracts a maximum that counts masked places as 0
# says: Masked places took part in a row's maximum or sum: valid scores may be as low as -1e4.
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    kept = torch.where(mask, scores, 0.0)
    powers = (kept - kept.amax(-1, keepdim=True)).exp() * mask
    return powers / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


# %% wrong: torch.masked.softmax gives nan for empty rows
# says: There is nan in the output
# says: a row without valid entries is nan: softmax of nothing but -inf
# earns: 1 of 2
def masked_softmax(scores, mask):
    return torch.masked.softmax(scores, -1, mask=mask.expand(scores.shape))


# %% wrong: nothing but zeros as soon as one row is empty
# says: One row without valid entries has blanked the rows that have some
# says: The probabilities are not right yet
# says: A masked nan or inf has spoilt its whole row
# earns: 0 of 2
def masked_softmax(scores, mask):
    p = torch.where(mask, scores, -torch.inf).softmax(-1)
    return p if mask.any(-1).all() else torch.zeros_like(p)


# %% wrong: leaves the even distribution in empty rows
# says: A row without valid entries must be all 0
# says: The probabilities are not right yet
# earns: 1 of 2
def masked_softmax(scores, mask):
    return torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1)


# %% wrong: softmax taken twice
# says: The rows sum to 1, but these are not the probabilities of softmax
# says: The probabilities are not right yet
# says: Masked entries must get gradient 0
# earns: 0 of 2
def masked_softmax(scores, mask):
    p = torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1)
    return torch.where(mask, torch.where(mask, p, -torch.inf).softmax(-1), 0.0)


# %% wrong: scores divided by the root of T
# says: The rows sum to 1, but these are not the probabilities of softmax
# says: The probabilities are not right yet
# says: Masked entries must get gradient 0
# earns: 0 of 2
def masked_softmax(scores, mask):
    scores = scores / scores.shape[-1] ** 0.5
    return torch.where(mask, torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1), 0.0)


# %% wrong: stacks the rows, and there may be none
# says: It must work for no rows
# earns: 1.5 of 2
# corner: empty
# caught: hidden
def masked_softmax(scores, mask):
    kept = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    p = torch.stack([row.softmax(-1) for row in kept.reshape(-1, kept.shape[-1])])
    return torch.where(mask, p.view(scores.shape), 0.0)


# %% wrong: selection with -inf, and the row without valid entries is nan
# says: There is nan in the output
# says: a row without valid entries is nan: softmax of nothing but -inf
# earns: 1 of 2
# corner: empty
def masked_softmax(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


# %% right: selection with -inf, the row without valid entries repaired afterwards
def masked_softmax(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0)


# %% wrong: fills with the lowest number of float32, whatever the dtype
# says: In float64 valid scores may lie below all numbers of float32
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    kept = torch.where(mask, scores, torch.finfo(torch.float32).min)
    return torch.where(mask, kept.softmax(-1), 0.0)


# %% wrong: scores below 0 count as 0
# says: The probabilities are not those of softmax over the valid entries.
# says: The probabilities are not right yet, and so the gradient is not: see the check above.
# says: The probabilities are not those of softmax over the valid entries:
# earns: 0 of 2
# caught: hidden
def masked_softmax(scores, mask):
    positive = torch.where(scores < 0, 0.0, scores)
    kept = torch.where(mask, positive, torch.finfo(scores.dtype).min)
    return torch.where(mask, kept.softmax(-1), 0.0)


# %% wrong: exponentials of all scores, selected afterwards
# says: The gradient is nan: masked scores took part in the computation and were multiplied by 0, or
# earns: 1.5 of 2
def masked_softmax(scores, mask):
    largest = torch.where(mask, scores, -torch.inf).amax(-1, keepdim=True).detach().nan_to_num(neginf=0.0)
    powers = torch.where(mask, (scores - largest).exp(), 0.0)
    total = powers.sum(-1, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


# %% wrong: asks for the mask's last dimension
# says: A single True or False must also work:
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    mask = mask.expand(*scores.shape[:-1], mask.shape[-1])
    kept = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    return torch.where(mask, kept.softmax(-1), 0.0)


# %% wrong: a view of the scores, which need not be contiguous
# says: An expanded mask and scores that are not contiguous must also work:
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    rows = scores.view(-1, scores.shape[-1])
    mask = mask.expand(scores.shape).reshape(rows.shape)
    kept = torch.where(mask, rows, torch.finfo(scores.dtype).min)
    return torch.where(mask, kept.softmax(-1), 0.0).view(scores.shape)


# %% wrong: in float32, whatever the dtype
# says: Your float64 probabilities have only the digits of float32
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    logits = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    logp = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    return (logp.exp() * mask).to(scores.dtype)


# %% wrong: a small number in the sum
# says: The probabilities of a row don't sum to 1 in all digits of float64.
# earns: 1.5 of 2
# caught: hidden
def masked_softmax(scores, mask):
    s = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    e = (s - s.max(dim=-1, keepdim=True)[0]).exp().masked_fill(~mask, 0)
    return e / (e.sum(dim=-1, keepdim=True) + 1e-6)
