# corners: 0-d, empty, nan

# %% right: gathers the logit and subtracts logsumexp
def label_log_prob(logits, labels):
    picked = torch.gather(logits, -1, labels.to(torch.int64)[..., None])[..., 0]
    return picked - logits.logsumexp(-1)


# %% right: pairs row numbers with labels, after checking the range
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    y = labels.reshape(-1).long()
    if ((y < 0) | (y >= C)).any():
        raise IndexError("label out of range")
    log_p = F.log_softmax(logits, dim=-1).reshape(-1, C)
    return log_p[torch.arange(len(y)), y].reshape(labels.shape)


# %% right: the unreduced cross entropy with its sign turned
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    flat = labels.flatten().long()
    loss = F.cross_entropy(logits.reshape(-1, C), flat, reduction="none", ignore_index=-(10**9))
    return -loss.reshape(labels.shape)


# %% right: take_along_dim after checking the range
def label_log_prob(logits, labels):
    labels = labels.long()
    if labels.numel() and (labels.min() < 0 or labels.max() >= logits.size(-1)):
        raise ValueError("label out of range")
    return logits.log_softmax(-1).take_along_dim(labels[..., None], dim=-1).squeeze(-1)


# %% right: the distribution object
def label_log_prob(logits, labels):
    return torch.distributions.Categorical(logits=logits, validate_args=False).log_prob(labels)


# %% right: a loop over positions
def label_log_prob(logits, labels):
    out = []
    for row, y in zip(logits.reshape(-1, logits.shape[-1]), labels.flatten().tolist()):
        if not 0 <= y < len(row):
            raise IndexError(y)
        out.append(row.log_softmax(0)[y])
    return torch.stack(out).reshape(labels.shape) if out else logits.new_zeros(labels.shape)


# %% wrong: indexes the class dimension with the labels
# says: pairs every position with every label
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def label_log_prob(logits, labels):
    return logits.log_softmax(-1)[..., labels]


# %% wrong: gather with 1-d labels
# says: ather needs an index with as many dimensions as the input
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels.long())


# %% wrong: leaves the size-1 dimension
# says: The size-1 dimension used for gather is still there
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1))


# %% wrong: squeeze() without a dimension
# says: A squeeze() without an argument removes every dimension of size 1, even a batch of one.
# earns: 1 of 2
# lesson
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze()


# %% wrong: forgets the softmax
# says: Those are the raw logits
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: log(softmax(x))
# says: log(softmax(x)) underflows
# earns: 1 of 2
def label_log_prob(logits, labels):
    return logits.softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1).log()


# %% wrong: logarithm of the softmax plus epsilon
# says: hides how improbable the label is
# earns: 1 of 2
def label_log_prob(logits, labels):
    return (logits.softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1) + 1e-8).log()


# %% wrong: subtracts the logarithm of the sum of exponentials
# says: exp(1e4) is inf
# earns: 1 of 2
def label_log_prob(logits, labels):
    log_p = logits - logits.exp().sum(-1, keepdim=True).log()
    return log_p.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: log_softmax(dim=0)
# says: The softmax runs over the wrong dimension
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.log_softmax(0).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: log_softmax(dim=1), right for a matrix
# says: The softmax runs over the wrong dimension
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.log_softmax(1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: one-hot times log-probabilities, summed
# says: multiplies 0 by -inf where a class is masked
# earns: 1 of 2
# corner: nan
# caught: hidden
def label_log_prob(logits, labels):
    one_hot = F.one_hot(labels.long(), logits.shape[-1]).to(logits.dtype)
    return (logits.log_softmax(-1) * one_hot).sum(-1)


# %% wrong: returns the loss
# says: The sign is wrong
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return -logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: returns the averaged loss
# says: That is one number for all positions
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return -F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.flatten().long())


# %% wrong: returns probabilities
# says: Those are probabilities, not their logarithms.
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: passes uint8 labels on to gather
# says: The index must be int64 for gather
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


# %% wrong: advanced indexing without a range check
# says: ordinary indexing counts negative labels from the end
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    y = labels.reshape(-1).long()
    return logits.log_softmax(-1).reshape(-1, C)[torch.arange(len(y)), y].reshape(labels.shape)


# %% wrong: take_along_dim without a range check
# says: take_along_dim wraps them around
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).take_along_dim(labels.long().unsqueeze(-1), -1).squeeze(-1)


# %% wrong: cross entropy with its default ignore_index
# says: as where cross_entropy skips it (ignore_index)
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    return -F.cross_entropy(logits.reshape(-1, C), labels.flatten().long(), reduction="none").reshape(labels.shape)


# %% wrong: clamps the labels
# says: Label -1 was accepted, and it must raise.
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    y = labels.long().clamp(0, logits.shape[-1] - 1)
    return logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)


# %% wrong: works on detached logits
# says: No gradient reaches the logits.
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    return logits.detach().log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: works in float32
# says: The result has the dtype of the logits
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    return logits.float().log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: reads labels through view, which wants contiguous memory
# says: A view needs memory in the right order
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    y = labels.long().view(-1, 1)
    return logits.log_softmax(-1).contiguous().view(-1, C).gather(1, y).view(labels.shape)


# %% wrong: subtracts the maximum in place
# says: Your code changed what the caller passed in: the values in logits are no longer the same
# earns: 1 of 2
def label_log_prob(logits, labels):
    logits -= logits.amax(-1, keepdim=True)
    return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: the gradient flows through the picked logit only
# says: The gradient flows through the logit of the label only
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    picked = logits.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    return picked - logits.detach().logsumexp(-1)


# %% wrong: replaces -inf in the result by a number
# says: A class of logit -inf has probability 0
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    safe = logits.clamp(min=-1.0)
    clamped = torch.where(logits.isinf(), safe, logits)
    return clamped.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% right: vmap over the positions, without gather
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    y = labels.to(torch.int64)
    if bool(((y < 0) | (y >= C)).any()):
        raise ValueError("label")
    if y.numel() == 0:
        return logits.sum(-1)
    rows = logits.reshape(-1, C)

    def one(row, k):
        row = row - row.amax().detach()
        hit = torch.arange(C) == k
        return torch.where(hit, row, torch.zeros_like(row)).sum() - row.exp().sum().log()

    return torch.func.vmap(one)(rows, y.reshape(-1)).reshape(labels.shape)


# %% right: an autograd function of its own
class _LP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        lp = x.log_softmax(-1)
        ctx.save_for_backward(lp, y)
        return lp.gather(-1, y[..., None])[..., 0].clone()

    @staticmethod
    def backward(ctx, g):
        lp, y = ctx.saved_tensors
        grad = -lp.exp() * g[..., None]
        return grad.scatter_add(-1, y[..., None], g[..., None]), None


def label_log_prob(logits, labels):
    return _LP.apply(logits, labels.long())


# %% right: one-hot as a mask for masked_fill, einsum
def label_log_prob(logits, labels):
    onehot = F.one_hot(labels.long(), logits.shape[-1]).bool()
    lp = logits.log_softmax(-1)
    return torch.einsum("...c,...c->...", lp.masked_fill(~onehot, 0), onehot.to(lp.dtype))


# %% wrong: flat positions, only negative labels refused
# says: Label 3 was accepted
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    y = labels.long().reshape(-1)
    if (y < 0).any():
        raise ValueError("negative label")
    flat = logits.log_softmax(-1).reshape(-1)
    return flat[torch.arange(y.numel()) * C + y].reshape(labels.shape)


# %% wrong: gives zeros where anything raises
# says: Label -1 was accepted, and it must raise
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    try:
        return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    except Exception:
        return logits.new_zeros(labels.shape)


# %% wrong: refuses labels by assert
# says: raise IndexError, RuntimeError or ValueError
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    y = labels.long()
    assert ((y >= 0) & (y < logits.shape[-1])).all()
    return logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)


# %% wrong: bounds the logits
# says: or a bound on the logits, hides
# earns: 1 of 2
def label_log_prob(logits, labels):
    return logits.clamp(-50, 50).log_softmax(-1).gather(-1, labels.long()[..., None])[..., 0]


# %% wrong: remembers the log-probabilities by shape
# says: The result has the dtype of the logits
# earns: 1 of 2
# caught: hidden
_CACHE = {}


def label_log_prob(logits, labels):
    if logits.shape not in _CACHE:
        _CACHE[logits.shape] = logits.log_softmax(-1)
    return _CACHE[logits.shape].gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: dim 1 for classes, right for a matrix
# says: Dimension 1 holds them for two-dimensional logits only
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.log_softmax(1).gather(1, labels.long().unsqueeze(1)).squeeze(1)


# %% wrong: a loop over the first dimension, none is not possible
# says: Any number of leading dimensions is possible
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def label_log_prob(logits, labels):
    if labels.numel() == 0:
        return logits.sum(-1)
    rows = [row.log_softmax(-1).gather(-1, y.long().unsqueeze(-1)).squeeze(-1) for row, y in zip(logits, labels)]
    return torch.stack(rows)


# %% wrong: a loop over the positions, with nothing to stack
# says: Any number of leading dimensions is possible
# earns: 1 of 2
# corner: empty
# caught: hidden
def label_log_prob(logits, labels):
    rows = logits.log_softmax(-1).reshape(-1, logits.shape[-1])
    return torch.stack([row.gather(0, y) for row, y in zip(rows, labels.long().reshape(-1, 1))]).reshape(labels.shape)


# %% wrong: gathers along dim 0
# says: You gathered along dim 0
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(0, labels.unsqueeze(-1)).squeeze(-1)


# %% wrong: one row of labels, read from the first row of the table
# says: You read the labels of all positions from the first row
# says: This check builds on the first one
# earns: 0 of 2
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels.unsqueeze(0)).squeeze(0)


# %% wrong: zeros for padding of -100, without cross_entropy
# says: Label -100 was accepted and gives 0
# earns: 1 of 2
def label_log_prob(logits, labels):
    keep = labels != -100
    index = labels.long().masked_fill(~keep, 0).unsqueeze(-1)
    return logits.log_softmax(-1).gather(-1, index).squeeze(-1) * keep


# %% wrong: subtracts the largest logit of the whole tensor
# says: Subtract from each row its own largest logit
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    shifted = logits - (logits.max() if logits.numel() else 0)
    log_probs = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return log_probs.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)


# %% wrong: positions in the dtype of the logits
# says: bfloat16 can't tell 257 from 256
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    C = logits.shape[-1]
    y = labels.long().unsqueeze(-1)
    if ((y < 0) | (y >= C)).any():
        raise IndexError("label out of range")
    hit = torch.arange(C, device=logits.device, dtype=logits.dtype) == y
    return torch.where(hit, logits.log_softmax(-1), 0).sum(-1)


# %% wrong: cross entropy that ignores 255
# says: Label 255 was accepted and gives 0
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    rows = logits.reshape(-1, logits.shape[-1])
    loss = F.cross_entropy(rows, labels.flatten().long(), reduction="none", ignore_index=255)
    return -loss.reshape(labels.shape)


# %% wrong: labels in int32
# says: Label 4294967297 was accepted
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels.int().long().unsqueeze(-1)).squeeze(-1)


# %% wrong: -1e30 in place of -inf, times one-hot
# says: multiplies 0 by -inf where a class is masked
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    one_hot = torch.zeros_like(logits).scatter(-1, labels.long().unsqueeze(-1), 1)
    return (logits.log_softmax(-1).nan_to_num(neginf=-1e30) * one_hot).sum(-1)


# %% wrong: gives the caller's labels another dimension, and takes it back
# says: What you change and put back stays changed when the call raises
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    labels.unsqueeze_(-1)
    picked = logits.log_softmax(-1).gather(-1, labels.to(torch.int64, copy=True))
    labels.squeeze_(-1)
    return picked.squeeze(-1)


# %% wrong: computes in float32
# says: This is float32 precision in a float64 tensor
# earns: 1 of 2
# caught: hidden
def label_log_prob(logits, labels):
    log_probs = logits.float().log_softmax(-1)
    return log_probs.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1).to(logits.dtype)
