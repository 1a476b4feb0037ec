# %% right: logsumexp minus the logit of the target
# It gathers from the logits, so there is no tensor of all log-probabilities. But it subtracts two large numbers, which
# costs digits: for logits of 1000, 1001 and 1002, the loss of the last one is 0.40759 instead of 0.40761.
def token_loss(logits, targets, ignore=-100):
    """Minus the log-probability of each target, without log_softmax."""
    skipped = targets == ignore
    if logits.dtype != torch.float64:
        logits = logits.float()
    logits = logits.masked_fill(skipped[..., None], 0.0)
    own = logits.gather(-1, targets.masked_fill(skipped, 0)[..., None])[..., 0]
    return (logits.logsumexp(-1) - own).masked_fill(skipped, 0.0)


# %% right: computes the counted positions only
# Indexing with a mask copies the rows that count, so nothing is computed for padding, and nothing of it has to be
# hidden. How many rows there are depends on the data, so it can't run on the device `meta`, which has no data.
def token_loss(logits, targets, ignore=-100):
    """Minus the log-probability of each target that counts, in a tensor of zeros."""
    counts = targets != ignore
    rows, own = logits[counts], targets[counts]
    if logits.dtype != torch.float64:
        rows = rows.float()
    loss = torch.zeros(targets.shape, dtype=rows.dtype, device=rows.device)
    loss[counts] = -rows.log_softmax(-1).gather(-1, own[:, None])[:, 0]
    return loss


# %% wrong: gathers with the ignored targets
# says: `gather` can't use `ignore` as an index. Replace it with a valid id first.
# The selection afterwards comes too late, because gather looks up every index, even those that nobody needs.
def token_loss(logits, targets, ignore=-100):
    """Minus the log-probability, if no target is ignored."""
    if logits.dtype != torch.float64:
        logits = logits.float()
    picked = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    return torch.where(targets != ignore, -picked, 0.0)
