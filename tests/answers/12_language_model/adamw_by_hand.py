# corners: members, 0-d
import math

import numpy as np
import torch


def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)


def fresh(p):
    return {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}


def moments(own, g, betas):
    own["t"] += 1
    own["m"].mul_(betas[0]).add_(g, alpha=1 - betas[0])
    own["v"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
    return own["m"] / (1 - betas[0] ** own["t"]), own["v"] / (1 - betas[1] ** own["t"])


def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.mul_(1 - lr * weight_decay)
    p.sub_(lr * m / (v.sqrt() + eps))


# %% right: moments by lerp, decay first
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is None:
            continue
        m, v, t = state.get(i) or (torch.zeros_like(p), torch.zeros_like(p), 0)
        m = m.lerp(p.grad, 1 - betas[0])
        v = v.lerp(p.grad**2, 1 - betas[1])
        state[i] = (m, v, t + 1)
        if p.dim() >= 2:
            p -= lr * weight_decay * p
        p -= lr * m / (1 - betas[0] ** (t + 1)) / ((v / (1 - betas[1] ** (t + 1))).sqrt() + eps)


# %% right: addcmul and addcdiv, the correction in the step size, through .data
def step_of(p, own, lr, betas, eps, weight_decay):
    own["t"] += 1
    first, second = (1 - beta ** own["t"] for beta in betas)
    own["m"].mul_(betas[0]).add_(p.grad.data, alpha=1 - betas[0])
    own["v"].mul_(betas[1]).addcmul_(p.grad.data, p.grad.data, value=1 - betas[1])
    p.data.mul_(1 - lr * weight_decay)
    p.data.addcdiv_(own["m"], own["v"].sqrt().div_(math.sqrt(second)).add_(eps), value=-lr / first)


# %% right: the rate is a climb or a cosine, whichever applies
def learning_rate(step, peak, warmup, total, floor):
    climb = (step + 1) / warmup if warmup else 1.0
    angle = math.radians(180 * max(0, min(step, total) - warmup) / (total - warmup))
    return min(peak * climb, peak) if step < warmup else floor + (peak - floor) * math.cos(angle / 2) ** 2


# %% wrong: step / warmup
# says: The rate of step 0 must be peak / warmup
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * step / warmup
    progress = min(1, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


# %% wrong: the cosine counts from step 0
# says: The cosine starts at peak after the warm-up. Don't count its steps from step 0.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * min(1, step / total)))


# %% wrong: the fall takes total steps
# says: The fall takes total - warmup steps, not total, because it must end in step total.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * min(1, (step - warmup) / total)))


# %% wrong: progress is not limited
# says: After total the rate must stay at floor, but your cosine continues and rises again.
# earns: 1 of 2
# caught: hidden
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


# %% wrong: falls to zero
# says: The cosine must end at floor.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * min(1, (step - warmup) / (total - warmup))))


# %% wrong: falls to zero, cut off at floor
# says: Your cosine falls to zero and is cut off at floor, so it gets there too early. It must end at floor.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return max(floor, peak * 0.5 * (1 + math.cos(math.pi * min(1, (step - warmup) / (total - warmup)))))


# %% wrong: floor is added to the whole cosine
# says: The cosine has the height peak - floor, but yours starts above peak.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return floor + peak * 0.5 * (1 + math.cos(math.pi * min(1, (step - warmup) / (total - warmup))))


# %% wrong: divides by a warm-up of 0
# says: With warmup 0 the rate begins at peak
# earns: 1 of 2
# caught: hidden
def learning_rate(step, peak, warmup, total, floor):
    climb = peak * (step + 1) / warmup
    progress = min(1, max(0, step - warmup) / (total - warmup))
    return climb if step < warmup else floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


# %% wrong: the rate is a tensor
# says: The rate must be a float, not of type Tensor.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = torch.tensor(min(1, (step - warmup) / (total - warmup)))
    return floor + (peak - floor) * 0.5 * (1 + torch.cos(math.pi * progress))


# %% wrong: decay in the gradient
# says: You add the decay to the gradient, as Adam does. AdamW shrinks the weight itself.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad + weight_decay * p, betas)
    p.sub_(lr * m / (v.sqrt() + eps))


# %% wrong: no correction
# says: Moments that start at zero are too small at first. Divide both by 1 - beta ** t.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def step_of(p, own, lr, betas, eps, weight_decay):
    moments(own, p.grad, betas)
    p.mul_(1 - lr * weight_decay)
    p.sub_(lr * own["m"] / (own["v"].sqrt() + eps))


# %% wrong: only the first moment is corrected
# says: Moments that start at zero are too small at first. Divide both by 1 - beta ** t.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, _ = moments(own, p.grad, betas)
    p.mul_(1 - lr * weight_decay)
    p.sub_(lr * m / (own["v"].sqrt() + eps))


# %% wrong: counts from 0
# says: You divide by 0: 1 - beta ** t is 0 for t = 0. The first step counts as t = 1.
# says: This check builds on the first one
# earns: 0 of 2
def fresh(p):
    return {"t": -1, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}


# %% wrong: eps inside the root
# says: Add `eps` after the square root, not inside.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.mul_(1 - lr * weight_decay)
    p.sub_(lr * m / (v + eps).sqrt())


# %% wrong: eps before the correction
# says: Add `eps` last, to the root of the corrected moment. You correct `eps` along with the moment.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    moments(own, p.grad, betas)
    first, second = (1 - beta ** own["t"] for beta in betas)
    p.mul_(1 - lr * weight_decay)
    p.sub_(lr * second**0.5 / first * own["m"] / (own["v"].sqrt() + eps))


# %% wrong: decays everything
# says: Parameters with fewer than two dimensions must not decay.
# says: This check builds on the first one
# earns: 0 of 2
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay)


# %% wrong: decays all but one-dimensional ones
# says: The parameters differ from those of torch.optim.AdamW: a scalar, and three dimensions, in float64.
# earns: 1 of 2
# caught: hidden
# corner: 0-d
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim != 1 else 0.0)


# %% wrong: decays matrices only
# says: The parameters differ from those of torch.optim.AdamW: a scalar, and three dimensions, in float64.
# earns: 1 of 2
# caught: hidden
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim == 2 else 0.0)


# %% wrong: the decay after the step
# says: The decay must come before the step and use the old weight.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.sub_(lr * m / (v.sqrt() + eps))
    p.mul_(1 - lr * weight_decay)


# %% wrong: the decay without lr
# says: The decay of a step is lr * weight_decay, not weight_decay alone.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.mul_(1 - weight_decay)
    p.sub_(lr * m / (v.sqrt() + eps))


# %% wrong: no decay
# says: The matrix does not decay.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.sub_(lr * m / (v.sqrt() + eps))


# %% wrong: one count for all
# says: Each parameter has its own step count. Don't correct a skipped parameter as if it had taken that step.
# earns: 1 of 2
# caught: hidden
# corner: members
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    count = state["t"] = state.get("t", 0) + 1
    for i, p in enumerate(params):
        if p.grad is not None:
            own = state.setdefault(i, fresh(p))
            own["t"] = count - 1
            step_of(p, own, lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)


# %% wrong: decays parameters without gradient
# says: A parameter whose .grad is None must not change, not even by decay.
# earns: 1 of 2
# caught: hidden
# corner: members
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.ndim >= 2:
            p.mul_(1 - lr * weight_decay)
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, 0.0)


# %% wrong: a missing gradient is one of zeros
# says: A missing gradient is not a gradient of zeros. Skip the parameter.
# earns: 1 of 2
# caught: hidden
# corner: members
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        missing = p.grad is None
        if missing:
            p.grad = torch.zeros_like(p)
        step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)
        if missing:
            p.grad = None


# %% wrong: does not ask whether there is a gradient
# says: A parameter whose .grad is None is skipped
# earns: 1 of 2
# caught: hidden
# corner: members
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)


# %% wrong: without no_grad
# says: Update the parameters in place, under no_grad.
# earns: 0 of 2
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)


# %% wrong: .data without no_grad, moments that keep a graph
# says: The tensors in state belong to a graph, which grows in each step. Update under no_grad.
# earns: 1 of 2
# caught: hidden
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            m, v, t = state.get(i, (0.0, 0.0, 0))
            m, v, t = betas[0] * m + (1 - betas[0]) * p.grad, betas[1] * v + (1 - betas[1]) * p.grad**2, t + 1
            state[i] = m, v, t
            if p.ndim >= 2:
                p.data.mul_(1 - lr * weight_decay)
            root = (v / (1 - betas[1] ** t)).sqrt()
            p.data.sub_((lr * m / (1 - betas[0] ** t) / (root + eps)).detach())


# %% wrong: a new tensor in place of the parameter
# says: The parameters haven't changed, because `p = p - …` makes a new tensor.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p = p * (1 - lr * weight_decay)
    p = p - lr * m / (v.sqrt() + eps)


# %% wrong: new memory for the parameter
# says: The parameters have different memory, or are no longer leaves that require grad. Update them in place.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.data = p.data * (1 - lr * weight_decay) - lr * m / (v.sqrt() + eps)


# %% wrong: state outside of state
# says: A copy of params and state must continue like the original, and without it. Keep everything that the
# earns: 1 of 2
# caught: hidden
kept_by_name = {}


@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for p in params:
        if p.grad is not None:
            own = kept_by_name.setdefault(p, fresh(p))
            step_of(p, own, lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)


# %% wrong: changes the gradient
# says: Your code changed a gradient. Only read gradients.
# says: This check builds on the first one
# earns: 0 of 2
def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad, betas)
    p.grad.zero_()
    p.mul_(1 - lr * weight_decay)
    p.sub_(lr * m / (v.sqrt() + eps))


# %% wrong: torch.optim
# says: Write AdamW yourself, without torch.optim.
# says: This check builds on the first one
# earns: 0 of 2
def adamw_step(params, state, lr, betas, eps, weight_decay):
    if "it" not in state:
        groups = [{"params": [p], "weight_decay": weight_decay if p.dim() > 1 else 0.0} for p in params]
        state["it"] = torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps)
    state["it"].step()


# %% wrong: the function of torch.optim
# says: Write AdamW yourself, without torch.optim.
# says: This check builds on the first one
# earns: 0 of 2
def kept(own, p):
    names = ("m", "v", "t")
    made = (torch.zeros_like(p), torch.zeros_like(p), torch.tensor(0.0))
    return [[own.setdefault(name, one)] for name, one in zip(names, made)]


@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    from torch.optim.adamw import adamw

    how = {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps}
    for i, p in enumerate(params):
        if p.grad is not None:
            m, v, t = kept(state.setdefault(i, {}), p)
            decay = weight_decay if p.ndim >= 2 else 0.0
            adamw([p], [p.grad], m, v, [], t, weight_decay=decay, amsgrad=False, maximize=False, **how)


# %% wrong: the function of torch.optim, under other globals
# says: Write AdamW yourself, without torch.optim.
# says: This check builds on the first one
# earns: 0 of 2
def kept(own, p):
    names = ("m", "v", "t")
    made = (torch.zeros_like(p), torch.zeros_like(p), torch.tensor(0.0))
    return [[own.setdefault(name, one)] for name, one in zip(names, made)]


@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    from types import FunctionType

    from torch.optim.adam import _single_tensor_adam as adam

    flags = ("amsgrad", "has_complex", "maximize", "capturable", "differentiable")
    how = {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps, "decoupled_weight_decay": True}
    mine = FunctionType(adam.__code__, {**adam.__globals__, "__name__": "mine"})
    for i, p in enumerate(params):
        if p.grad is not None:
            m, v, t = kept(state.setdefault(i, {}), p)
            decay = weight_decay if p.ndim >= 2 else 0.0
            mine([p], [p.grad], m, v, [], t, None, None, weight_decay=decay, **how, **dict.fromkeys(flags, False))


# %% wrong: the function of torch.optim, where nobody looks at calls any more
# says: Write AdamW yourself, without torch.optim.
# says: This check builds on the first one
# earns: 0 of 2
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    import sys

    from torch.optim.adamw import adamw

    sys.setprofile(None)
    how = {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps}
    for i, p in enumerate(params):
        if p.grad is not None:
            own = state.setdefault(i, [[torch.zeros_like(p)], [torch.zeros_like(p)], [], [torch.tensor(0.0)]])
            decay = weight_decay if p.ndim >= 2 else 0.0
            adamw([p], [p.grad], *own, weight_decay=decay, amsgrad=False, maximize=False, **how)


# %% wrong: one count, by the first parameter
# says: Each parameter has its own step count. Don't correct a skipped parameter as if it had taken that step.
# earns: 1 of 2
# caught: hidden
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    state.setdefault("t", 0)
    for i, p in enumerate(params):
        if p.grad is None:
            continue
        state["t"] += i == 0
        own = state.setdefault(i, fresh(p))
        own["t"] = max(state["t"], 1) - 1
        step_of(p, own, lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)


# %% wrong: linear fall
# says: Your rate falls along a straight line. It should fall along half a cosine: slowly at first, fastest in
# earns: 1 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    return floor + (peak - floor) * (1 - min(1, (step - warmup) / (total - warmup)))


# %% wrong: nanoGPT's warm-up
# says: You divide by warmup + 1, so the climb ends one step too late. The rate must be peak in step warmup - 1.
# says: This check builds on the first one
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = min(1, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


# %% wrong: returns the parameters
# says: Return nothing: the parameters change in place.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            step_of(p, state.setdefault(i, fresh(p)), lr, betas, eps, weight_decay if p.ndim >= 2 else 0.0)
    return params


# %% wrong: a step half as long
# says: The parameters differ from those of torch.optim.AdamW.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is not None:
            own = state.setdefault(i, fresh(p))
            p.mul_(1 - lr * (weight_decay if p.ndim >= 2 else 0.0))
            m, v = moments(own, p.grad, betas)
            p.sub_(0.5 * lr * m / (v.sqrt() + eps))


# %% wrong: climbs along a square
# says: In steps 0 to 3 the rate is 0.2, 0.4, 0.6, 0.8, but you return
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * ((step + 1) / warmup) ** 2
    progress = min(1, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


# %% wrong: falls along a square
# says: In steps
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def learning_rate(step, peak, warmup, total, floor):
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1, (step - warmup) / (total - warmup))
    return peak - (peak - floor) * progress**2


# %% wrong: nothing is left after the last step
# says: After total the rate must stay at floor.
# earns: 1 of 2
# caught: hidden
def learning_rate(step, peak, warmup, total, floor):
    if step > total:
        return 0.0
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


# %% wrong: the rate shrinks where a gradient is missing
# says: If gradients are missing, the parameters differ from those of torch.optim.AdamW.
# earns: 1 of 2
# caught: hidden
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    missing = sum(p.grad is None for p in params)
    for i, p in enumerate(params):
        if p.grad is not None:
            decay = weight_decay if p.ndim >= 2 else 0.0
            step_of(p, state.setdefault(i, fresh(p)), lr / (1 + missing), betas, eps, decay)


# %% wrong: counts after the step, from 0, but divides by no zero
# says: Your count is one too small. The first step counts as t = 1.
# says: This check builds on the first one
# earns: 0 of 2
@torch.no_grad()
def adamw_step(params, state, lr, betas, eps, weight_decay):
    for i, p in enumerate(params):
        if p.grad is None:
            continue
        own = state.setdefault(i, fresh(p))
        own["m"].lerp_(p.grad, 1 - betas[0])
        own["v"].lerp_(p.grad.square(), 1 - betas[1])
        t = max(own["t"], 1)
        own["t"] += 1
        p.mul_(1 - lr * weight_decay * (p.ndim >= 2))
        root = (own["v"] / (1 - betas[1] ** t)).sqrt()
        p.sub_(lr * own["m"] / (1 - betas[0] ** t) / (root + eps))


# %% right: the rate out of a NumPy schedule
def learning_rate(step, peak, warmup, total, floor):
    climb = peak * np.arange(1, warmup + 1) / max(warmup, 1)
    fall = floor + (peak - floor) * (1 + np.cos(np.linspace(0, np.pi, total - warmup + 1))) / 2
    return np.concatenate([climb, fall])[min(step, total)]


# %% wrong: moments in float32 for every dtype
# says: The parameters differ from those of torch.optim.AdamW: float64 gradients of 1e25, whose squares are inf in
# earns: 1 of 2
# caught: hidden
def fresh(p):
    return {"t": 0, "m": torch.zeros_like(p).float(), "v": torch.zeros_like(p).float()}


def step_of(p, own, lr, betas, eps, weight_decay):
    m, v = moments(own, p.grad.float(), betas)
    p.mul_(1 - lr * weight_decay)
    p.sub_((lr * m / (v.sqrt() + eps)).to(p.dtype))


# %% wrong: a state that can't be copied
# says: `copy.deepcopy(state)` raises an exception. Keep tensors, numbers and plain dicts or lists in `state`.
# earns: 1 of 2
# caught: hidden
class Slot(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def fresh(p):
    return Slot(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
