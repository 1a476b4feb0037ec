# %% right: the maximum is subtracted by hand
# This is what logsumexp does inside; afterwards no exponential is larger than 1. The maximum is detached, because the
# result doesn't depend on what is subtracted. It is exact even for logits of 1e4, but keeps one more tensor of their
# size for backward.
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    """The mean cross entropy, from shifted logits."""
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError("expected (N, C) and (N,)")
    if target.is_floating_point():
        raise TypeError("targets are class indices")
    kept = target != ignore_index
    z, y = logits[kept], target[kept]
    if ((y < 0) | (y >= z.shape[1])).any():
        raise IndexError("a target is none of the classes")
    if len(z):
        z = z - z.amax(1, keepdim=True).detach()
    log_sum = z.exp().sum(1).log()
    losses = log_sum - z.gather(1, y[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses + label_smoothing * (log_sum - z.mean(1))
    return losses.mean()


# %% wrong: the logarithm of a softmax
# says: The result is inf, nan or a bounded number for large logits
# If a logit is 104 or more below the largest, its probability is 0 in float32, and the logarithm is -inf.
def cross_entropy(logits, target, *, label_smoothing=0.0, ignore_index=-100):
    """Right until a probability underflows."""
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError("expected (N, C) and (N,)")
    if target.is_floating_point():
        raise TypeError("targets are class indices")
    kept = target != ignore_index
    logits, target = logits[kept], target[kept]
    if ((target < 0) | (target >= logits.shape[1])).any():
        raise IndexError("a target is none of the classes")
    log_p = logits.softmax(1).log()
    losses = -log_p.gather(1, target[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    return losses.mean()
