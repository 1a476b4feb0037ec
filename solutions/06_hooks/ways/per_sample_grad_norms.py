# %% right: two tables of T × T for each layer
# The squared norm of a sum of outer products is the sum of (a · a')(g · g') over all pairs of steps. Each table has
# N · T · T numbers, where the author makes N times the weight: for a weight of 512 × 512 and T = 4, 16,384 times as
# many. But terms of opposite sign cancel: for two nearly opposite steps, float32 gave 0 where 0.00048 was right.
def per_sample_grad_norms(model, loss_fn, x, y):
    """The norms of each sample's gradient, from products of its steps."""
    ends = {}

    def keep(layer, args, output):
        ends[layer] = args[0].detach(), output

    handles = [
        layer.register_forward_hook(keep)
        for layer in model.modules()
        if isinstance(layer, nn.Linear) and any(p.requires_grad for p in layer.parameters())
    ]
    try:
        losses = loss_fn(model(x), y)
    finally:
        for handle in handles:
            handle.remove()

    grads = torch.autograd.grad(losses.sum(), [output for _, output in ends.values()])
    squares = torch.zeros_like(losses)
    for (layer, (a, _)), g in zip(ends.items(), grads, strict=True):
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))  # (N, T, D)
        if layer.weight.requires_grad:
            squares += ((a @ a.mT) * (g @ g.mT)).sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            squares += g.sum(1).square().sum(1)
    return squares.clamp(min=0).sqrt()


# %% right: torch.func, without any hook
# `grad` differentiates the loss of one sample, and `vmap` runs it for all samples. It also works for other layers, such
# as LayerNorm and convolutions, but raises for BatchNorm and Dropout in train mode. The gradients of all parameters
# for all samples are in memory at the same time; the author makes those of one layer after the other.
def per_sample_grad_norms(model, loss_fn, x, y):
    """The norms of each sample's gradient, by vmap over the samples."""
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss_of(parameters, one_x, one_y):
        out = torch.func.functional_call(model, parameters, (one_x[None],))
        loss = loss_fn(out, one_y[None]).sum()
        return loss, loss

    each = torch.func.vmap(torch.func.grad(loss_of, has_aux=True), in_dims=(None, 0, 0))
    grads, losses = each(trained, x.detach(), y)
    squares = sum(grad.flatten(1).square().sum(1) for grad in grads.values())
    return squares.sqrt().to(losses.dtype)


# %% wrong: the product of two norms, for sequences as well
# says: For (N, T, D) the norm of a sum of outer products is not the product of norms: sum over T first.
# For one step, |g aᵀ| is |g| · |a|. The gradient of a sequence is a sum of such products, and they may cancel.
def per_sample_grad_norms(model, loss_fn, x, y):
    """Norms that are right for inputs of shape (N, D)."""
    ends = {}

    def keep(layer, args, output):
        ends[layer] = args[0].detach(), output

    handles = [
        layer.register_forward_hook(keep)
        for layer in model.modules()
        if isinstance(layer, nn.Linear) and any(p.requires_grad for p in layer.parameters())
    ]
    try:
        losses = loss_fn(model(x), y)
    finally:
        for handle in handles:
            handle.remove()

    grads = torch.autograd.grad(losses.sum(), [output for _, output in ends.values()])
    squares = torch.zeros_like(losses)
    for (layer, (a, _)), g in zip(ends.items(), grads, strict=True):
        if layer.weight.requires_grad:
            squares += a.flatten(1).square().sum(1) * g.flatten(1).square().sum(1)
        if layer.bias is not None and layer.bias.requires_grad:
            squares += g.reshape(len(g), -1, g.shape[-1]).sum(1).square().sum(1)
    return squares.sqrt()
