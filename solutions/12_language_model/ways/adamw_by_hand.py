# %% right: fused operations, and the corrections in the step size
# `addcmul_` and `addcdiv_` multiply or divide and add in one call, and both corrections are plain numbers. A step makes
# one new tensor for each parameter, where the author's makes seven. The formula is harder to recognise.
def learning_rate(step, peak, warmup, total, floor):
    """The rate of a step, with the half cosine as the square of a cosine."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * math.cos(math.pi / 2 * progress) ** 2


@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    """One step of AdamW, in place and with few temporary tensors."""
    for index, p in enumerate(params):
        if p.grad is None:
            continue
        own = state.setdefault(index, {"t": 0})
        if not own["t"]:
            own["m"], own["v"] = torch.zeros_like(p), torch.zeros_like(p)
        own["t"] += 1
        first, second = (1 - beta ** own["t"] for beta in betas)
        own["m"].mul_(betas[0]).add_(p.grad, alpha=1 - betas[0])
        own["v"].mul_(betas[1]).addcmul_(p.grad, p.grad, value=1 - betas[1])
        if p.dim() > 1:
            p.mul_(1 - lr * weight_decay)
        root = own["v"].sqrt().div_(math.sqrt(second)).add_(eps)
        p.addcdiv_(own["m"], root, value=-lr / first)


# %% wrong: adds the decay to the gradient
# says: You add the decay to the gradient, as Adam does. AdamW shrinks the weight itself.
# In the gradient, the decay is divided by the root of the second moment, so weights with large gradients hardly decay.
def learning_rate(step, peak, warmup, total, floor):
    """The rate of a step, counted from 0: up to peak, then along half a cosine down to floor."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    """One step of Adam with L2 regularisation."""
    for index, p in enumerate(params):
        if p.grad is None:
            continue
        if index not in state:
            state[index] = {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
        own, grad = state[index], p.grad
        if p.dim() > 1:
            grad = grad + weight_decay * p
        own["t"] += 1
        own["m"].lerp_(grad, 1 - betas[0])
        own["v"].lerp_(grad.square(), 1 - betas[1])
        mean = own["m"] / (1 - betas[0] ** own["t"])
        square = own["v"] / (1 - betas[1] ** own["t"])
        p.sub_(lr * mean / (square.sqrt() + eps))
