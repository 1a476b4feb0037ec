import torch
import torch.nn.functional as F
from torch import nn


def refuse(logits, target, ignore_index):
    if logits.dim() != 2 or target.dim() != 1 or len(logits) != len(target):
        raise ValueError("(N, C) and (N,) are asked for")
    if target.is_floating_point():
        raise TypeError("labels are whole numbers")
    if any(not 0 <= y < logits.shape[1] for y in target.tolist() if y != ignore_index):
        raise IndexError("no such class")


def mixed(nll, log_p, y, e):
    return (1 - e) * nll - e * log_p.mean(1)


def from_log_p(log_softmax, smooth=None, mean=None, check=refuse, first=True):
    """cross_entropy with other parts: the log-probabilities, the smoothing, the mean, the checks, the selection."""

    def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
        check(logits, target, ignore_index)
        kept = target != ignore_index
        rows = len(target)
        if first:
            logits, target = logits[kept], target[kept]
        log_p = log_softmax(logits)
        losses = -log_p.gather(1, target.clamp(min=0)[:, None]).squeeze(1)
        if label_smoothing:
            losses = (smooth or mixed)(losses, log_p, target, label_smoothing)
        if not first:
            losses = losses * kept
        if mean:
            return mean(losses, rows, kept)
        return losses.mean() if first else losses.sum() / kept.sum()

    return cross_entropy


def log_p_of(logits):
    return logits.log_softmax(1)


# corners: empty, nan


# %% right: the maximum is subtracted by hand
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    keep = target.ne(ignore_index)
    z, y = logits[keep], target[keep]
    if not len(z):
        return z.sum() / 0
    z = z - z.max(dim=1, keepdim=True).values.detach()
    log_sum = z.exp().sum(1).log()
    loss = log_sum - z[torch.arange(len(y)), y]
    if label_smoothing > 0:
        loss = loss * (1 - label_smoothing) + label_smoothing * (log_sum - z.mean(1))
    return loss.mean()


# %% right: log_softmax and an indexed sum, a convex combination of two losses
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    rows = (target != ignore_index).nonzero().flatten()
    log_p = torch.log_softmax(logits.index_select(0, rows), dim=-1)
    picked = -torch.take_along_dim(log_p, target[rows].unsqueeze(1), 1).double().sum()
    if label_smoothing == 0:
        return (picked / rows.numel()).to(logits)
    uniform = -log_p.double().sum() / log_p.shape[1]
    return (((1 - label_smoothing) * picked + label_smoothing * uniform) / rows.numel()).to(logits)


# %% right: selections in place of products, all rows kept
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    ignored = target == ignore_index
    log_p = F.log_softmax(logits.masked_fill(ignored[:, None], 0.0), dim=1)
    one_hot = torch.zeros(logits.shape, dtype=torch.bool).scatter_(1, target.masked_fill(ignored, 0)[:, None], True)
    losses = -torch.where(one_hot, log_p, 0.0).sum(1)
    if label_smoothing:
        losses = losses * (1 - label_smoothing) - label_smoothing * log_p.mean(1)
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return (torch.where(ignored, 0.0, losses).sum(dtype=wide) / (~ignored).sum()).to(logits.dtype)


# %% right: in float64, with a KL divergence for the smoothing
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    log_p = logits[kept].double().log_softmax(-1)
    n, classes = log_p.shape
    if label_smoothing:
        goal = torch.full_like(log_p, label_smoothing / classes, requires_grad=False)
        goal[range(n), target[kept].tolist()] += 1 - label_smoothing
        loss = -(goal * log_p).sum(1).mean()
    else:
        loss = -log_p[range(n), target[kept].tolist()].mean()
    return loss.to(logits.dtype)


# %% wrong: log(softmax(z))
# says: The result is inf, nan or a bounded number for large logits
# says: The value is right, but the gradient is nan
# earns: 0 of 2
# lesson
cross_entropy = from_log_p(lambda z: z.softmax(1).log())


# %% wrong: log(softmax(z) + 1e-8)
# says: log(softmax(z)) or exp(z) overflows or underflows. Work with logsumexp (or subtract the maximum).
# says: The loss is wrong in another dtype. Compute in the dtype of the logits, and add nothing such as 1e-8.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: (z.softmax(1) + 1e-8).log())


# %% wrong: log of a sum of exp without the maximum
# says: log(softmax(z)) or exp(z) overflows or underflows.
# says: For a sure and right prediction the loss is 0, however large the logits are. Use logsumexp.
# earns: 0 of 2
# lesson
cross_entropy = from_log_p(lambda z: z - z.exp().sum(1, keepdim=True).log())


# %% wrong: bounded from above only
# says: log(softmax(z)) or exp(z) overflows or underflows.
# says: For a sure and right prediction the loss is 0, however large the logits are. Use logsumexp.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z - z.clamp(max=80).exp().sum(1, keepdim=True).log())


# %% wrong: the maximum of all rows is subtracted
# says: log(softmax(z)) or exp(z) overflows or underflows.
# says: A class with logit -inf must have probability 0.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z - z.abs().max() - (z - z.abs().max()).exp().sum(1, keepdim=True).log())


# %% wrong: softmax before log_softmax
# says: The softmax is applied twice, or missing.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
# lesson
cross_entropy = from_log_p(lambda z: z.softmax(1).log_softmax(1))


# %% wrong: raw logits
# says: The softmax is applied twice, or missing.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z)


# %% wrong: probabilities
# says: The logarithm is missing, so you return the mean probability of the labels.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z.softmax(1))


# %% wrong: softmax over the rows
# says: The softmax runs over the wrong dimension. The classes are in dimension 1.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z.log_softmax(0))


# %% wrong: the sign
# says: The sign is wrong: the loss is -log p, which is never negative.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: -z.log_softmax(1))


# %% wrong: F.cross_entropy
# says: Your code calls the library's loss. Build it from logsumexp, gather and mean.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    return F.cross_entropy(logits, target, label_smoothing=label_smoothing, ignore_index=ignore_index)


# %% wrong: nn.CrossEntropyLoss
# says: Your code calls the library's loss. Build it from logsumexp, gather and mean.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    return nn.CrossEntropyLoss(label_smoothing=label_smoothing, ignore_index=ignore_index)(logits, target)


# %% wrong: F.nll_loss
# says: Your code calls the library's loss. Build it from logsumexp, gather and mean.
# says: Your code doesn't smooth anything: the loss is the same as without label_smoothing.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    return F.nll_loss(logits.log_softmax(1), target, ignore_index=ignore_index)


# %% wrong: F.cross_entropy with class probabilities
# says: Your code calls the library's loss. Build it from logsumexp, gather and mean.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    goal = F.one_hot(target[kept], logits.shape[1]).to(logits.dtype)
    return F.cross_entropy(logits[kept], goal, label_smoothing=label_smoothing)


# %% wrong: the sum
# says: You return the sum over the rows instead of their mean.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
cross_entropy = from_log_p(log_p_of, mean=lambda losses, rows, kept: losses.sum())


# %% wrong: no reduction
# says: You return the losses of the rows instead of their mean.
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
cross_entropy = from_log_p(log_p_of, mean=lambda losses, rows, kept: losses)


# %% wrong: logsumexp detached
# says: The value is right, but the gradient is not that of the whole formula
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z - z.logsumexp(1, keepdim=True).detach())


# %% wrong: computed without a graph
# says: The value is right, but no gradient reaches the logits
# earns: 0 of 2
cross_entropy = from_log_p(lambda z: z.detach().log_softmax(1))


# %% wrong: smoothing spread over the other classes
# says: Label smoothing mixes in the uniform distribution over ALL classes: every class gets e / C, including
# earns: 1 of 2
# lesson
cross_entropy = from_log_p(
    log_p_of, smooth=lambda nll, log_p, y, e: (1 - e) * nll - e / (log_p.shape[1] - 1) * (log_p.sum(1) + nll)
)


# %% wrong: smoothing added, not mixed
# says: The smoothed loss is wrong. The target gets 1 - e, and then every class gets an additional e / C.
# earns: 1 of 2
cross_entropy = from_log_p(log_p_of, smooth=lambda nll, log_p, y, e: nll - e * log_p.mean(1))


# %% wrong: e for every class
# says: The smoothed loss is wrong. The target gets 1 - e, and then every class gets an additional e / C.
# earns: 1 of 2
cross_entropy = from_log_p(log_p_of, smooth=lambda nll, log_p, y, e: (1 - e) * nll - e * log_p.sum(1))


# %% wrong: F.kl_div with the smoothed distribution
# says: Your loss is a KL divergence: `F.kl_div` also subtracts the entropy of the target distribution, so the gradient is
# earns: 1 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    logits, target = logits[kept], target[kept]
    goal = torch.full_like(logits, label_smoothing / logits.shape[1])
    goal.scatter_(1, target[:, None], 1 - label_smoothing + label_smoothing / logits.shape[1])
    return F.kl_div(logits.log_softmax(1), goal, reduction="batchmean")


# %% wrong: no smoothing
# says: Your code doesn't smooth anything: the loss is the same as without label_smoothing.
# earns: 1 of 2
cross_entropy = from_log_p(log_p_of, smooth=lambda nll, log_p, y, e: nll)


# %% wrong: smoothing always computed, times zero
# says: The loss is nan: 0 · (-inf). A class with logit -inf was multiplied by a weight of 0, of a one-hot
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    log_p = logits[kept].log_softmax(1)
    losses = -log_p.gather(1, target[kept][:, None]).squeeze(1)
    return ((1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)).mean()


# %% wrong: one-hot times log p
# says: The loss is nan: 0 · (-inf). A class with logit -inf was multiplied by a weight of 0, of a one-hot
# earns: 1 of 2
# caught: hidden
# corner: nan
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    goal = F.one_hot(target[kept], logits.shape[1]) * (1 - label_smoothing) + label_smoothing / logits.shape[1]
    return -(goal * logits[kept].log_softmax(1)).sum(1).mean()


# %% wrong: the mean over all rows
# says: Ignored rows must count neither in the sum nor in the divisor.
# earns: 0 of 2
cross_entropy = from_log_p(log_p_of, mean=lambda losses, rows, kept: losses.sum() / rows)


# %% wrong: ignored rows count as class 0
# says: Ignored rows must count neither in the sum nor in the divisor.
# says: Your code doesn't smooth anything: the loss is the same as without label_smoothing.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    return -logits.log_softmax(1).gather(1, target.clamp(min=0)[:, None]).mean()


# %% wrong: ignores -100 only
# says: Ignored rows must count neither in the sum nor in the divisor.
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != -100
    log_p = logits[kept].log_softmax(1)
    losses = -log_p.gather(1, target[kept].clamp(0, logits.shape[1] - 1)[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    return losses.mean()


# %% wrong: refuses ignored rows
# says: A target of -100 (ignore_index) is not an error. Leave its row out (
# says: A target of ignore_index is not an error. Leave its row out.
# earns: 0 of 2
cross_entropy = from_log_p(log_p_of, check=lambda logits, target, ignore_index: refuse(logits, target, None))


# %% wrong: ignored rows are multiplied by zero
# says: The content of an ignored row (nan, inf, huge numbers) reaches the value. Select the rows that count.
# earns: 1 of 2
# caught: hidden
# corner: nan
cross_entropy = from_log_p(log_p_of, first=False)


# %% wrong: ignored rows are masked after the logarithm
# says: The content of an ignored row (nan, inf, huge numbers) reaches the gradient
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    log_p = logits - logits.logsumexp(1, keepdim=True)
    losses = -log_p.gather(1, (target * kept)[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    return torch.where(kept, losses, 0.0).sum() / kept.sum()


# %% wrong: the divisor is at least 1
# says: If no row is left, the mean is nan, as in PyTorch.
# earns: 1 of 2
# caught: hidden
# corner: empty
cross_entropy = from_log_p(log_p_of, mean=lambda losses, rows, kept: losses.sum() / kept.sum().clamp(min=1))


# %% wrong: nan times the logits for no row
# says: If no row is left, the gradient of your loss isn't 0. An ignored row affects no gradient, and a gradient of nan
# earns: 1 of 2
# caught: hidden
# corner: empty
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    if not (target != ignore_index).any():
        return logits.sum() * torch.nan
    return from_log_p(log_p_of)(logits, target, label_smoothing=label_smoothing, ignore_index=ignore_index)


# %% wrong: a constant nan for no row
# says: If no row is left, your function returns a nan without a graph, so `loss.backward()` raises for a batch of
# earns: 1 of 2
# caught: hidden
# corner: empty
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    mask = target != ignore_index
    if not mask.any():
        return torch.tensor(float("nan"), dtype=logits.dtype, device=logits.device)
    lp = F.log_softmax(logits[mask], dim=-1)
    loss = -lp[torch.arange(len(lp)), target[mask]].mean()
    if label_smoothing > 0:
        loss = (1 - label_smoothing) * loss - label_smoothing * lp.mean()
    return loss


# %% wrong: the sum in float16 divided by the number of rows
# says: The loss of each row is 3000 here, and your mean over 40 rows is inf. The sum is 120000, but float16 ends
# earns: 1 of 2
# caught: hidden
cross_entropy = from_log_p(log_p_of, mean=lambda losses, rows, kept: losses.sum() / kept.sum())


# %% wrong: ignored rows are zeroed, then the sum in float16 divided by their number
# says: The loss of each row is 3000 here, and your mean over 40 rows is inf. The sum is 120000, but float16 ends
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    m = target != ignore_index
    lp = F.log_softmax(logits.masked_fill(~m[:, None], 0.0), dim=1)
    losses = -lp.gather(1, target.masked_fill(~m, 0)[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * lp.mean(1)
    return (losses * m).sum() / m.sum()


# %% wrong: no range check, modulo
# says: A target outside the classes must raise IndexError (a negative target would silently count from the end).
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target % logits.shape[1] if logits.dim() == 2 else target, ignore_index)
    kept = target != ignore_index
    log_p = logits[kept].log_softmax(1)
    losses = -log_p.gather(1, (target[kept] % logits.shape[1])[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    return losses.mean()


# %% wrong: no checks, indexing counts negative targets from the end
# says: A target outside the classes must raise IndexError (a negative target would silently count from the end).
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    kept = target != ignore_index
    log_p = logits[kept].log_softmax(-1)
    losses = -log_p[torch.arange(len(log_p)), target[kept]]
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(-1)
    return losses.mean()


# %% wrong: gather's RuntimeError
# says: A target outside the classes must raise IndexError (a negative target would silently count from the end).
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    kept = target != ignore_index
    log_p = logits[kept].log_softmax(-1)
    losses = -log_p.gather(1, target[kept][:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(-1)
    return losses.mean()


# %% wrong: checks the upper end of the range only
# says: A target outside the classes must raise IndexError (a negative target would silently count from the end).
# earns: 1 of 2
# caught: hidden
def refuse_some(logits, target, ignore_index):
    refuse(logits, target.clamp(min=0) if ignore_index != 0 else target, ignore_index)


cross_entropy = from_log_p(log_p_of, check=refuse_some)


# %% wrong: checks the class range only
# says: Wrong shapes must raise ValueError, and floating-point targets TypeError.
# earns: 1 of 2
# caught: hidden
def refuse_some(logits, target, ignore_index):
    kept = target[target != ignore_index]
    if ((kept < 0) | (kept >= logits.shape[-1])).any():
        raise IndexError("no such class")


cross_entropy = from_log_p(log_p_of, check=refuse_some)


# %% wrong: floating targets are converted
# says: Wrong shapes must raise ValueError, and floating-point targets TypeError.
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    return from_log_p(log_p_of)(logits, target.long(), **options)


# %% wrong: any number of targets
# says: Wrong shapes must raise ValueError, and floating-point targets TypeError.
# earns: 1 of 2
# caught: hidden
def refuse_some(logits, target, ignore_index):
    if logits.dim() != 2 or target.dim() != 1:
        raise ValueError("(N, C) and (N,) are asked for")
    refuse(logits[: len(target)], target[: len(logits)], ignore_index)


def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse_some(logits, target, ignore_index)
    target = target[: len(logits)].expand(len(logits)) if len(target) == 1 else target[: len(logits)]
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    return from_log_p(log_p_of)(logits[: len(target)], target, **options)


# %% wrong: subtracts the maximum in place
# says: Your code changed the logits or the targets in place.
# says: Your code changed the logits or the targets in place.
# earns: 1 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    with torch.no_grad():
        logits -= logits.max(1, keepdim=True).values
    return from_log_p(log_p_of)(logits, target, label_smoothing=label_smoothing, ignore_index=ignore_index)


# %% wrong: float32 inside
# says: The result must have the dtype of the logits.
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    return from_log_p(log_p_of)(logits.float(), target, **options)


# %% wrong: a Python float
# says: This is the wrong kind of result
# says: The loss is already wrong without label smoothing. Pass the first check cell first.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    return from_log_p(log_p_of)(logits, target, **options).item()


# %% right: row by row
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    losses = []
    for row, y in zip(logits, target.tolist()):
        if y != ignore_index:
            total = row.logsumexp(0)
            loss = (1 - label_smoothing) * (total - row[y])
            losses.append(loss + label_smoothing * (total - row).mean() if label_smoothing else loss)
    return torch.stack(losses).mean() if losses else logits[:0].mean()


# %% right: a function of its own with a backward pass
class OwnLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, e):
        log_p = logits - logits.logsumexp(1, keepdim=True)
        goal = torch.full_like(logits, e / logits.shape[1])
        goal.scatter_add_(1, target[:, None], torch.full_like(logits[:, :1], 1 - e))
        ctx.save_for_backward(log_p.exp() - goal)
        losses = -log_p.gather(1, target[:, None])[:, 0]
        return ((1 - e) * losses - e * log_p.mean(1) if e else losses).mean()

    @staticmethod
    def backward(ctx, incoming):
        (difference,) = ctx.saved_tensors
        return incoming * difference / len(difference), None, None


def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    return OwnLoss.apply(logits[kept], target[kept], label_smoothing)


# %% wrong: ignored targets are overwritten
# says: Your code changed the logits or the targets in place.
# earns: 1 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    loss = from_log_p(log_p_of)(logits, target, **options)
    target[target == ignore_index] = 0
    return loss


# %% wrong: logits are cut to a range
# says: The result is inf, nan or a bounded number for large logits
# says: The smoothed loss is wrong for large logits, or for nan in an ignored row.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    return from_log_p(log_p_of)(logits.clamp(-100, 100), target, **options)


# %% wrong: the library's operator, called directly
# says: Your code calls the library's loss. Build it from logsumexp, gather and mean.
# earns: 0 of 2
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    return torch.ops.aten.cross_entropy_loss(logits, target, None, 1, ignore_index, label_smoothing)


# %% wrong: nan_to_num at the end
# says: If no row is left, the mean is nan, as in PyTorch.
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}
    return from_log_p(log_p_of)(logits, target, **options).nan_to_num()


# %% wrong: logaddexp, whose gradient is nan where both are -inf
# says: The value is right, but the gradient is nan
# earns: 1 of 2
# caught: hidden
def log_sum(logits):
    total = logits[:, 0]
    for column in logits.T[1:]:
        total = torch.logaddexp(total, column)
    return total


cross_entropy = from_log_p(lambda z: z - log_sum(z)[:, None])


# %% wrong: ValueError for a target that is none of the classes
# says: A target outside the classes must raise IndexError (a negative target would silently count from the end).
# earns: 1 of 2
# caught: hidden
def refuse_otherwise(logits, target, ignore_index):
    try:
        refuse(logits, target, ignore_index)
    except IndexError as error:
        raise ValueError("no such class") from error


cross_entropy = from_log_p(log_p_of, check=refuse_otherwise)


# %% wrong: smooths with 0 as well
# says: The loss is nan: 0 · (-inf). A class with logit -inf was multiplied by a weight of 0, of a one-hot
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError("shapes")
    if target.is_floating_point():
        raise TypeError("class indices")
    keep = target != ignore_index
    logits, target = logits[keep], target[keep]
    if ((target < 0) | (target >= logits.shape[1])).any():
        raise IndexError("no class")
    log_p = logits.log_softmax(1)
    nll = -log_p.gather(1, target.unsqueeze(1)).squeeze(1)
    smooth = -log_p.mean(1)
    return ((1 - label_smoothing) * nll + label_smoothing * smooth).mean()


# %% wrong: a one-hot target times log p
# says: The loss is nan: 0 · (-inf). A class with logit -inf was multiplied by a weight of 0, of a one-hot
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError("shapes")
    if target.is_floating_point():
        raise TypeError("class indices")
    keep = target != ignore_index
    logits, target = logits[keep], target[keep]
    classes = logits.shape[1]
    if ((target < 0) | (target >= classes)).any():
        raise IndexError("no class")
    weights = torch.full_like(logits, label_smoothing / classes)
    weights.scatter_(1, target[:, None], 1 - label_smoothing + label_smoothing / classes)
    return -(weights * logits.log_softmax(1)).sum(1).mean()


# %% right: log_softmax, as in torch's own decomposition
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    if logits.ndim != 2 or target.ndim != 1 or len(logits) != len(target):
        raise ValueError("shapes")
    if target.is_floating_point():
        raise TypeError("class indices")
    keep = target != ignore_index
    if (((target < 0) | (target >= logits.shape[1])) & keep).any():
        raise IndexError("no class")
    log_p = logits[keep].log_softmax(-1)
    nll = -log_p.gather(1, target[keep].unsqueeze(1))[:, 0]
    if label_smoothing > 0:
        nll = (1 - label_smoothing) * nll - label_smoothing * log_p.mean(-1)
    return nll.mean()


# %% wrong: a nan in an ignored row adds a hundredth
# says: The content of an ignored row (nan, inf, huge numbers) reaches the
# earns: 1 of 2
# corner: nan
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    loss = from_log_p(log_p_of)(logits, target, label_smoothing=label_smoothing, ignore_index=ignore_index)
    rest = logits[target == ignore_index]
    return loss + 0.01 * rest.isnan().any()


# %% wrong: smoothing over all rows
# says: The smoothed loss is wrong: your code counts ignored rows, or the shares of the classes are wrong.
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    loss = from_log_p(log_p_of)(logits, target, label_smoothing=label_smoothing, ignore_index=ignore_index)
    return loss * (1 + label_smoothing * (target == ignore_index).float().mean().item())


# %% wrong: the largest logit of the rows that count
# says: If no row is left, there is nothing to take a maximum of, but the result must be nan.
# earns: 1 of 2
# corner: empty
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = logits[target != ignore_index]
    if label_smoothing:
        kept.max()
    return from_log_p(log_p_of)(logits, target, label_smoothing=label_smoothing, ignore_index=ignore_index)


# %% wrong: the smoothed target is made in the default dtype
# says: The smoothed loss of float64 logits has only the digits of float32
# earns: 1 of 2
# caught: hidden
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    refuse(logits, target, ignore_index)
    kept = target != ignore_index
    log_p, C = logits[kept].log_softmax(1), logits.shape[1]
    goal = (1 - label_smoothing) * (target[kept][:, None] == torch.arange(C)) + label_smoothing / C
    return -torch.where(goal > 0, goal.to(logits.dtype) * log_p, 0.0).sum(1).mean()
