# %% right: detaches the output of the target
# The target's forward is recorded, and the record is dropped at the end of the same line. The author's `no_grad`
# records nothing, which needs less memory while the target runs.
def agreement_loss(online, target, log_scale, view_a, view_b):
    """The loss, with the target's output as a constant."""
    p = F.normalize(online(view_a), dim=-1)
    t = F.normalize(target(view_b), dim=-1).detach()
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale).mean()


# %% right: calls the target with constants for its parameters
# `functional_call` puts other tensors in the place of a module's parameters for one call. Here they are detached, and
# so is `view_b`, so autograd records nothing, even with grad mode on. The author's `no_grad` does the same in one
# line.
def agreement_loss(online, target, log_scale, view_a, view_b):
    """The loss, with a target that has no parameters of its own."""
    constants = {name: p.detach() for name, p in target.named_parameters()}
    t = torch.func.functional_call(target, constants, (view_b.detach(),))
    agreement = F.cosine_similarity(online(view_a), t, dim=-1)
    return log_scale.exp() * (1 - agreement).mean() - log_scale


# %% wrong: leaves .data in one place
# says: log_scale gets no gradient, or half of it
# A gradient arrives, the loss falls, and the scale is pulled in one direction only.
def agreement_loss(online, target, log_scale, view_a, view_b):
    """Half of the scale's gradient."""
    p = F.normalize(online(view_a), dim=-1)
    with torch.no_grad():
        t = F.normalize(target(view_b), dim=-1)
    return (log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale.data).mean()
