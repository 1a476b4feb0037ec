# corners: empty, half precision, maximum, nan

import torch
import torch.nn.functional as F


def wide(logits):
    return logits if logits.dtype == torch.float64 else logits.float()


def minus_log_probs(logits, targets, ignore, log_softmax=lambda x: x.log_softmax(-1)):
    """The right losses, with the logarithm as a part to replace."""
    counts = targets != ignore
    table = -log_softmax(wide(logits).masked_fill(~counts.unsqueeze(-1), 0.0))
    return table.gather(2, targets.masked_fill(~counts, 0).unsqueeze(2)).squeeze(2).masked_fill(~counts, 0.0)


# %% right: where, log_softmax, gather, where
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = torch.where(counts[:, :, None], wide(logits), torch.zeros(()))
    picked = x.log_softmax(2).take_along_dim(torch.where(counts, targets, 0)[:, :, None], 2)
    return torch.where(counts, -picked.squeeze(2), torch.zeros((), dtype=picked.dtype))


# %% right: logsumexp minus the logit that was picked
def token_loss(logits, targets, ignore=-100):
    skip = targets == ignore
    x = wide(logits).masked_fill(skip.unsqueeze(-1), 0.0)
    own = torch.gather(x, -1, targets.masked_fill(skip, 0).unsqueeze(-1)).squeeze(-1)
    return (x.logsumexp(-1) - own).masked_fill(skip, 0.0)


# %% right: only the counted rows are computed
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    rows, own = wide(logits[counts]), targets[counts]
    loss = torch.zeros(targets.shape, dtype=rows.dtype)
    loss[counts] = -rows.log_softmax(-1).gather(-1, own[:, None])[:, 0]
    return loss


# %% right: the largest is subtracted by hand
def token_loss(logits, targets, ignore=-100):
    def log_softmax(x):
        x = x - x.amax(-1, keepdim=True)
        return x - x.exp().sum(-1, keepdim=True).log()

    return minus_log_probs(logits, targets, ignore, log_softmax)


# %% wrong: gathers with -100
# says: `gather` can't use `ignore` as an index. Replace it with a valid id first.
# earns: 0 of 1
# lesson
def token_loss(logits, targets, ignore=-100):
    loss = -wide(logits).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    return torch.where(targets != ignore, loss, 0.0)


# %% wrong: clamps the index, keeps the loss
# says: Ignored positions still have a loss. Set it to zero where the target is `ignore`.
# earns: 0 of 1
# lesson
def token_loss(logits, targets, ignore=-100):
    return -wide(logits).log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]


# %% wrong: clamps the index below only
# says: `gather` can't use `ignore` as an index. Replace it with a valid id first.
# earns: 0 of 1
# caught: hidden
# corner: maximum
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = torch.where(counts[..., None], wide(logits), 0.0)
    return -x.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0] * counts


# %% wrong: -100 hard-coded
# says: The ignored value is the argument, not always -100.
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, -100)


# %% wrong: whatever is below 0 is ignored
# says: The ignored value is the argument, not always -100.
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, torch.where(targets < 0, -100, targets), -100)


# %% wrong: softmax, then the logarithm
# says: Large logits give inf or nan, because exp(1000) is inf and log(softmax) underflows. Use log_softmax.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore, lambda x: x.softmax(-1).log())


# %% wrong: a small number added to the probability
# says: A small number added to the probability
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore, lambda x: (x.softmax(-1) + 1e-12).log())


# %% wrong: no minus
# says: The loss is MINUS the log-probability.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return -minus_log_probs(logits, targets, ignore)


# %% wrong: the probability itself
# says: You return the probability, not minus its logarithm.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return -minus_log_probs(logits, targets, ignore, lambda x: x.softmax(-1))


# %% wrong: the raw logit
# says: You return raw logits. They must be normalised over the last dimension.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore, lambda x: x)


# %% wrong: mean over the counted ones
# says: Return one value per position, without any mean.
# earns: 0 of 1
# lesson
def token_loss(logits, targets, ignore=-100):
    loss = minus_log_probs(logits, targets, ignore)
    return loss.sum() / (targets != ignore).sum()


# %% wrong: only the counted losses
# says: The loss must have one number for each position:
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore)[targets != ignore]


# %% wrong: the last dimension stays
# says: You kept the dimension that gather needed:
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore)[..., None]


# %% wrong: stays in bfloat16
# says: Compute in float32, because bfloat16 keeps only three digits of the loss. Convert the logits, not the
# earns: 0 of 1
# caught: hidden
# corner: half precision
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = logits.masked_fill(~counts[..., None], 0.0).log_softmax(-1)
    return -x.gather(-1, targets.masked_fill(~counts, 0)[..., None])[..., 0].masked_fill(~counts, 0.0)


# %% wrong: computes in bfloat16, returns float32
# says: Compute in float32, because bfloat16 keeps only three digits of the loss. Convert the logits, not the
# earns: 0 of 1
# caught: hidden
# corner: half precision
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = wide(logits.masked_fill(~counts[..., None], 0.0).log_softmax(-1))
    return -x.gather(-1, targets.masked_fill(~counts, 0)[..., None])[..., 0].masked_fill(~counts, 0.0)


# %% wrong: float64 as float32
# says: The dtype must be float32, or float64 for float64:
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits.float(), targets, ignore)


# %% wrong: float64 computed in float32
# says: float64 is computed in float64
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits.float(), targets, ignore).to(wide(logits).dtype)


# %% wrong: multiplied by the mask
# says: An inf or nan in the logits of an ignored position makes the loss or a gradient nan, because 0 * inf is
# earns: 0 of 1
# caught: hidden
# corner: nan
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    return -wide(logits).log_softmax(-1).gather(-1, (targets * counts)[..., None])[..., 0] * counts


# %% wrong: where only afterwards
# says: An inf or nan in the logits of an ignored position makes the loss or a gradient nan, because 0 * inf is
# earns: 0 of 1
# caught: hidden
# corner: nan
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    loss = -wide(logits).log_softmax(-1).gather(-1, torch.where(counts, targets, 0)[..., None])[..., 0]
    return torch.where(counts, loss, 0.0)


# %% wrong: nan_to_num before
# says: An inf or nan in the logits of an ignored position makes the loss or a gradient nan, because 0 * inf is
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = wide(logits) * counts[..., None]
    return torch.where(counts, -x.log_softmax(-1).gather(-1, (targets * counts)[..., None])[..., 0], 0.0)


# %% wrong: log_softmax over positions
# says: Probabilities are over the last dimension, the V ids.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore, lambda x: x.log_softmax(1))


# %% wrong: F.cross_entropy without a mean
# says: Pick the number with gather, without cross_entropy, nll_loss or one_hot.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = torch.where(counts[..., None], wide(logits), 0.0)
    return F.cross_entropy(x.transpose(1, 2), targets, ignore_index=ignore, reduction="none")


# %% wrong: nll_loss
# says: Pick the number with gather, without cross_entropy, nll_loss or one_hot.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    x = torch.where((targets != ignore)[..., None], wide(logits), 0.0).log_softmax(-1)
    return F.nll_loss(x.flatten(0, 1), targets.flatten(), ignore_index=ignore, reduction="none").view_as(targets)


# %% wrong: indexes with three tensors
# says: Pick the number with gather, without cross_entropy, nll_loss or one_hot.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = torch.where(counts[..., None], wide(logits), 0.0).log_softmax(-1)
    b, t = targets.shape
    return torch.where(counts, -x[torch.arange(b)[:, None], torch.arange(t), torch.where(counts, targets, 0)], 0.0)


# %% wrong: result cut from the graph
# says: No gradient reaches the logits, because the loss is detached from the graph.
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits.detach(), targets, ignore)


# %% wrong: the normaliser cut from the graph
# says: The loss is right, but its gradient is wrong. It should be the softmax, minus 1 at the target, and zero
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore, lambda x: x - x.detach().logsumexp(-1, keepdim=True))


# %% wrong: stops where nothing counts
# says: Your code raised ValueError
# earns: 0 of 1
# caught: hidden
# corner: empty
def token_loss(logits, targets, ignore=-100):
    if not (targets != ignore).any():
        raise ValueError("no target")
    return minus_log_probs(logits, targets, ignore)


# %% wrong: writes into the targets
# says: Your code changed what the caller passed in
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    targets[~counts] = 0
    x = torch.where(counts[..., None], wide(logits), 0.0).log_softmax(-1)
    return torch.where(counts, -x.gather(-1, targets[..., None])[..., 0], 0.0)


# %% wrong: nan_to_num in place of masking
# says: A logit of -inf is a probability of 0, and must stay at positions that count. Clear only the logits of
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = wide(logits).nan_to_num(0.0, 0.0, 0.0)
    x = torch.where(counts[..., None], x, 0.0)
    lp = x.log_softmax(-1)
    picked = lp.gather(-1, torch.where(counts, targets, 0)[..., None])[..., 0]
    return torch.where(counts, -picked, 0.0)


# %% wrong: multiplies what gather gives by 0
# says: The result stays the same when `gather` gives other numbers, so another part of your code computes it.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    x = wide(logits).masked_fill(~counts.unsqueeze(-1), 0.0)
    ids = torch.arange(x.shape[-1])
    own = ids == targets.masked_fill(~counts, 0).unsqueeze(-1)
    loss = x.logsumexp(-1) - x.masked_fill(~own, 0.0).sum(-1)
    asked = x.gather(-1, targets.masked_fill(~counts, 0).unsqueeze(-1)).squeeze(-1)
    return (loss + 0 * asked).masked_fill(~counts, 0.0)


# %% wrong: the loss in float16
# says: The loss must be at least float32: expected torch.float32, got torch.float16.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore).half()


# %% wrong: in bits
# says: Your result is not minus the log-probability of each target.
# earns: 0 of 1
def token_loss(logits, targets, ignore=-100):
    return minus_log_probs(logits, targets, ignore) / torch.tensor(2.0).log()


# %% wrong: logits limited to 10000
# says: Your loss of a target far below has an upper limit, but log_softmax needs none: it works for logits of any
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    counts = targets != ignore
    logits = logits if logits.dtype == torch.float64 else logits.float()
    log_probs = torch.where(counts[..., None], logits, 0.0).clamp(-1e4, 1e4).log_softmax(-1)
    return torch.where(counts, -log_probs.gather(-1, torch.where(counts, targets, 0)[..., None])[..., 0], 0.0)


# %% wrong: nan_to_num of all logits
# says: You replace inf or nan among logits that count, so a forbidden target gets a finite loss, and a broken model
# earns: 0 of 1
# caught: hidden
# corner: nan
def token_loss(logits, targets, ignore=-100):
    skip = targets == ignore
    log_probs = F.log_softmax(torch.nan_to_num(wide(logits)), -1)
    return -log_probs.gather(-1, targets.masked_fill(skip, 0)[..., None])[..., 0].masked_fill(skip, 0.0)


# %% wrong: the largest logit of all is subtracted
# says: One position has a loss of inf, because its logits are far below those of another one, and exp gives 0 for each.
# earns: 0 of 1
# caught: hidden
# corner: maximum
def token_loss(logits, targets, ignore=-100):
    def log_softmax(x):
        x = x - x.max().detach()
        return x - x.exp().sum(-1, keepdim=True).log()

    return minus_log_probs(logits, targets, ignore, log_softmax)


# %% wrong: the largest logit of each text is subtracted
# says: One position has a loss of inf, because its logits are far below those of another one, and exp gives 0 for each.
# earns: 0 of 1
# caught: hidden
def token_loss(logits, targets, ignore=-100):
    def log_softmax(x):
        x = x - x.amax(dim=(1, 2), keepdim=True)
        return x - x.exp().sum(-1, keepdim=True).log()

    return minus_log_probs(logits, targets, ignore, log_softmax)
