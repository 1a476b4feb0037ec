# %% right: gathers the logit and subtracts logsumexp
# logsumexp reduces each row to one number. log_softmax keeps a tensor as large as the logits for backward; this keeps
# the logits themselves, which are there anyway, and the sums.
def label_log_prob(logits, labels):
    """The label's logit, less the logarithm of the sum of all exponentials."""
    picked = logits.gather(-1, labels.long()[..., None]).squeeze(-1)
    return picked - logits.logsumexp(-1)


# %% right: the unreduced cross entropy with its sign turned
# The loss that you train with is this number, negated. It wants the classes in dimension 1, so the positions are
# flattened first. Its default `ignore_index` of -100 would accept a label that doesn't exist.
def label_log_prob(logits, labels):
    """Minus the cross entropy of each position."""
    flat = labels.flatten().long()
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, reduction="none", ignore_index=-(10**9))
    return -loss.reshape(labels.shape)


# %% wrong: squeeze() without a dimension
# says: A squeeze() without an argument removes every dimension of size 1, even a batch of one.
# It works for each batch but the one that has a single row, and that one comes at the end of an epoch.
def label_log_prob(logits, labels):
    """Removes one dimension too many for a batch of one."""
    return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze()
