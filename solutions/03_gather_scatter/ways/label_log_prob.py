# %% right: gathers the logit and subtracts logsumexp
# logsumexp gives one number for each row. For backward, log_softmax keeps a tensor as large as the logits; this
# answer keeps the logits, which are there anyway, and those numbers. It is less exact, because it subtracts large
# numbers: for logits around 100 in bfloat16 it gives -1.5 where log_softmax gives -1.406.
def label_log_prob(logits, labels):
    """The label's logit, less the logarithm of the sum of all exponentials."""
    picked = logits.gather(-1, labels.long()[..., None]).squeeze(-1)
    return picked - logits.logsumexp(-1)


# %% right: the negative of the unreduced cross entropy
# The loss that you train with is the mean of these numbers, negated. `cross_entropy` expects the classes in dimension
# 1, so the positions are flattened first. It skips the label `ignore_index`, which is -100 by default, instead of
# refusing it. Here it is -10**9, which no data set uses as a label, but that label would be accepted.
def label_log_prob(logits, labels):
    """Minus the cross entropy of each position."""
    flat = labels.flatten().long()
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, reduction="none", ignore_index=-(10**9))
    return -loss.reshape(labels.shape)


# %% wrong: squeeze() without a dimension
# says: A squeeze() without an argument removes every dimension of size 1, even a batch of one.
# It works until a dimension of the labels has size 1, for example when a single row is left for the last batch of an
# epoch.
def label_log_prob(logits, labels):
    """Removes one dimension too many for a batch of one."""
    return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze()
