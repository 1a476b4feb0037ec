# corners: caller's modes, second name
import copy


# %% right: detaches the output of the target
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% right: a detached view and detached parameters
def agreement_loss(online, target, log_scale, view_a, view_b):
    constants = {name: p.detach() for name, p in target.named_parameters()}
    t = torch.func.functional_call(target, constants, (view_b.detach(),))
    agreement = F.cosine_similarity(online(view_a), t, dim=-1)
    return torch.exp(log_scale) * (1 - agreement).mean() - log_scale


# %% right: a decorated inner function
def agreement_loss(online, target, log_scale, view_a, view_b):
    @torch.no_grad()
    def constant():
        return F.normalize(target(view_b), dim=-1)

    p = F.normalize(online(view_a), dim=-1)
    per_sample = torch.exp(log_scale) * (1 - (p * constant()).sum(-1)) - log_scale
    return per_sample.sum() / len(per_sample)


# %% right: a copy of the target that doesn't require grad
def agreement_loss(online, target, log_scale, view_a, view_b):
    frozen = copy.deepcopy(target).requires_grad_(False)
    t = F.normalize(frozen(view_b.detach()), dim=-1)
    p = F.normalize(online(view_a), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% right: grad mode switched off and back by hand
def agreement_loss(online, target, log_scale, view_a, view_b):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    t = F.normalize(target(view_b), dim=-1)
    torch.set_grad_enabled(before)
    p = F.normalize(online(view_a), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% right: the output of the target as .data, which nobody writes to
def agreement_loss(online, target, log_scale, view_a, view_b):
    p, t = online(view_a), target(view_b).data
    return (log_scale.exp() * (1 - F.cosine_similarity(p, t)) - log_scale).mean()


# %% right: inference_mode, and a clone outside
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.inference_mode():
        t = F.normalize(target(view_b), dim=-1)
    p = F.normalize(online(view_a), dim=-1)
    return (log_scale.exp() * (1 - (p * t.clone()).sum(-1)) - log_scale).mean()


# %% right: Python's numbers for the target, which is the constant
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = online(view_a)
    t = torch.tensor(target(view_b).tolist(), dtype=p.dtype)
    cosine = torch.einsum("bd,bd->b", p, t) / p.norm(dim=1) / t.norm(dim=1)
    return (math.e**log_scale * (1 - cosine) - log_scale).mean()


# %% wrong: adds zero times the target's output
# says: The target learns: the loss leads back to view_b, target.weight, target.bias.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1)
    loss = (log_scale.exp() * (1 - (p * t.detach()).sum(-1)) - log_scale).mean()
    return loss + 0 * t.sum()


# %% wrong: the given code
# says: The loss is a new leaf: torch.tensor(….tolist()) copies numbers
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        p = F.normalize(online(view_a), dim=-1)
        t = F.normalize(target(view_b), dim=-1)
    scale = math.exp(log_scale.item())
    per_sample = scale * (1 - (p * t).sum(-1)) - log_scale.data
    loss = torch.tensor(per_sample.tolist()).mean()
    return loss.requires_grad_()


# %% wrong: takes online out of no_grad, leaves the new tensor
# says: The loss is a new leaf: torch.tensor(….tolist()) copies numbers
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    per_sample = log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale
    return torch.tensor(per_sample.tolist()).mean().requires_grad_()


# %% wrong: drops the new tensor only, so that nothing is recorded
# says: The loss is a leaf: nothing was recorded on the way to it
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        p = F.normalize(online(view_a), dim=-1)
        t = F.normalize(target(view_b), dim=-1)
    scale = math.exp(log_scale.item())
    per_sample = scale * (1 - (p * t).sum(-1)) - log_scale.data
    return per_sample.mean().requires_grad_()


# %% wrong: the loss under no_grad, and no requires_grad_
# says: The loss is not tracked: every way back to online and log_scale is cut.
# says: This check builds on the first one
# earns: 0 of 2
@torch.no_grad()
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: repairs all but the no_grad
# says: No gradient reaches online: its forward runs under no_grad.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        p = F.normalize(online(view_a), dim=-1)
        t = F.normalize(target(view_b), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: detaches both outputs
# says: No gradient reaches online, although its forward was recorded: its output was cut later
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1).detach()
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: leaves .item() and .data
# says: log_scale gets no gradient, or half of it: no_grad, .item(), .data, detach and float() leave the graph.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    scale = math.exp(log_scale.item())
    return (scale * (1 - (p * t).sum(-1)) - log_scale.data).mean()


# %% wrong: leaves .data
# says: log_scale gets no gradient, or half of it
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale.data).mean()


# %% wrong: leaves .item()
# says: log_scale gets no gradient, or half of it
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (math.exp(log_scale.item()) * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: a gradient for log_scale with the other sign
# says: The gradient of log_scale is not that of the formula.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    mirrored = 2 * log_scale.detach() - log_scale
    return (mirrored.exp() * (1 - (p * t).sum(-1)) - mirrored).mean()


# %% wrong: removes every cut
# says: The target learns: the loss leads back to view_b, target.weight, target.bias. Its forward must be under no_grad
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: detaches view_b in place of the target's output
# says: The target learns: the loss leads back to target.weight, target.bias.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b.detach()), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: leaves out the target's parameters, and keeps its way back to view_b
# says: The target's parameters are left out, but its way back to view_b is not
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    constants = {name: p.detach() for name, p in target.named_parameters()}
    t = torch.func.functional_call(target, constants, (view_b,))
    agreement = F.cosine_similarity(online(view_a), t, dim=-1)
    return (log_scale.exp() * (1 - agreement) - log_scale).mean()


# %% wrong: a hook that sends zeros to the target
# says: The target learns: the loss leads back to view_b, target.weight, target.bias.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1)
    if t.requires_grad:
        t.register_hook(torch.zeros_like)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: detaches view_a too
# says: view_a gets no gradient: it was cut on its way in.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a.detach()), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: the target under inference_mode
# says: A result of inference_mode can't be kept for backward. Use no_grad, or detach.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    with torch.inference_mode():
        t = F.normalize(target(view_b), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: detaches the lengths of the vectors
# says: The gradients of online are not those of the formula with the output of target as a constant.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p, t = online(view_a), target(view_b).detach()
    lengths = (p.norm(dim=-1) * t.norm(dim=-1)).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1) / lengths) - log_scale).mean()


# %% wrong: forgets to normalise the target
# says: The value of the loss has changed. It was right; only the cuts are wrong.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = target(view_b).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: returns the losses of the samples
# says: The loss is a mean: 0-d, not of shape (3,).
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale


# %% wrong: returns nothing
# says: Nothing came back: is a `return` missing? Return the loss.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean().backward()


# %% wrong: returns a number
# says: The loss must be a tensor.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean().item()


# %% wrong: runs backward itself and returns the loss
# says: Your agreement_loss runs backward itself
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    loss = (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()
    loss.backward()
    return loss


# %% wrong: switches requires_grad of the target's parameters off for good
# says: You changed a requires_grad flag, or the mode of a network, at least for a moment.
# earns: 1 of 2
# corner: second name
def agreement_loss(online, target, log_scale, view_a, view_b):
    target.requires_grad_(False)
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b.detach()), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: switches them off and on again
# says: You changed a requires_grad flag, or the mode of a network, at least for a moment.
# earns: 1 of 2
# corner: second name
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    target.requires_grad_(False)
    t = F.normalize(target(view_b.detach()), dim=-1)
    target.requires_grad_(True)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: puts the target into eval mode and back into train mode
# says: You changed a requires_grad flag, or the mode of a network, at least for a moment.
# earns: 1 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    target.eval()
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    target.train()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: sets the target's gradients to None
# says: The .grad of target.weight, target.bias is not what it was before the call.
# earns: 1 of 2
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    if target is not online:
        target.zero_grad()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: fills the target's gradients with zeros
# says: The .grad of target.weight, target.bias is not what it was before the call.
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    for parameter in target.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: makes the loss float32
# says: The loss must have the dtype of the networks, torch.float64; yours is torch.float32.
# earns: 1 of 2
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean().float()


# %% wrong: enable_grad around everything but the target
# says: In the caller's no_grad the loss is tracked: you switched grad mode on by force.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    with torch.enable_grad():
        p = F.normalize(online(view_a), dim=-1)
        return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: grad mode is switched on after the target, whatever it was
# says: In the caller's no_grad the loss is tracked: you switched grad mode on by force.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    torch.set_grad_enabled(False)
    t = F.normalize(target(view_b), dim=-1)
    torch.set_grad_enabled(True)
    p = F.normalize(online(view_a), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: grad mode is switched on at the very end, whatever it was
# says: Grad mode is not what it was before the call.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a), dim=-1)
    torch.set_grad_enabled(False)
    t = F.normalize(target(view_b), dim=-1)
    torch.set_grad_enabled(p.requires_grad)
    loss = (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()
    torch.set_grad_enabled(True)
    return loss


# %% wrong: marks view_a, so that gradients arrive
# says: You changed a requires_grad flag, or the mode of a network, at least for a moment.
# earns: 1 of 2
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    p = F.normalize(online(view_a.requires_grad_()), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: log_scale's exponential stays under no_grad
# says: or half of it: no_grad
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
        scale = log_scale.exp()
    p = F.normalize(online(view_a), dim=-1)
    return (scale * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: the target runs on detached parameters, and view_b is tracked
# says: its way back to view_b is not
# says: This check builds on the first one
# earns: 0 of 2
def agreement_loss(online, target, log_scale, view_a, view_b):
    constants = {name: p.detach() for name, p in target.named_parameters()}
    t = F.normalize(torch.func.functional_call(target, constants, (view_b,)), dim=-1)
    p = F.normalize(online(view_a), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: a scale that is bounded, as in CLIP
# says: The value of the loss has changed. It was right; only the cuts are wrong.
# earns: 1 of 2
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    p = F.normalize(online(view_a), dim=-1)
    return (log_scale.exp().clamp(max=100) * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% wrong: something small beside the norm
# says: The value of the loss has changed a little.
# earns: 1 of 2
# caught: hidden
def agreement_loss(online, target, log_scale, view_a, view_b):
    def unit(v):
        return v / (v.norm(dim=-1, keepdim=True) + 1e-5)

    with torch.no_grad():
        t = unit(target(view_b))
    return (log_scale.exp() * (1 - (unit(online(view_a)) * t).sum(-1)) - log_scale).mean()


# %% right: torch's own cosine, which bounds the norms
def agreement_loss(online, target, log_scale, view_a, view_b):
    with torch.no_grad():
        t = target(view_b)
    p = online(view_a)
    return torch.exp(log_scale) * (1 - F.cosine_similarity(p, t, dim=-1)).mean() - log_scale
