# corners: members, zeros

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def linears(model):
    return [m for m in model.modules() if isinstance(m, nn.Linear)]


def trained(layer):
    return [p for p in (layer.weight, layer.bias) if p is not None and p.requires_grad]


def ends_of(model, loss_fn, x, y, reduce=torch.sum):
    """For each trained Linear its input and its output's gradient, and the losses."""
    kept, handles = {}, []

    def keep(layer, args, output):
        kept[layer] = args[0].detach(), output

    for layer in linears(model):
        if trained(layer):
            handles.append(layer.register_forward_hook(keep))
    losses = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    grads = torch.autograd.grad(reduce(losses), [output for _, output in kept.values()])
    return {layer: (a, g) for (layer, (a, _)), g in zip(kept.items(), grads, strict=True)}, losses.detach()


def square_of(layer, a, g):
    """The squared norm of each sample's gradient for a layer."""
    a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))
    total = 0
    if layer.weight.requires_grad:
        total = total + torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
    if layer.bias is not None and layer.bias.requires_grad:
        total = total + g.sum(1).square().sum(1)
    return total


def loss_dtype(model, loss_fn, x, y):
    """The dtype of the loss, without running the model."""
    out = torch.zeros(len(x), 2, dtype=x.dtype)
    if y.is_floating_point():
        out = torch.zeros(y.shape, dtype=x.dtype)
    return loss_fn(out, y).dtype


# %% right: forward and full backward hooks; outer products by einsum
def per_sample_grad_norms(model, loss_fn, x, y):
    inputs, squares, handles = {}, [], []

    def remember(layer, args, output):
        inputs[layer] = args[0].detach()

    def collect(layer, grad_input, grad_output):
        squares.append(square_of(layer, inputs[layer], grad_output[0]))

    for layer in linears(model):
        if trained(layer):
            handles += [layer.register_forward_hook(remember), layer.register_full_backward_hook(collect)]
    try:
        losses = loss_fn(model(x), y)
        wanted = [p for p in model.parameters() if p.requires_grad] + [x] * x.requires_grad
        torch.autograd.grad(losses.sum(), wanted)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(squares).sum(0).sqrt().to(losses.dtype)


# %% right: keeps inputs and outputs in a forward hook, then one autograd.grad for the outputs
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    parts = torch.stack([square_of(layer, a, g).sqrt() for layer, (a, g) in ends.items()])
    return torch.linalg.vector_norm(parts, dim=0).to(losses)


# %% right: for sequences the trace of (a aT)(g gT)
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        if layer.weight.requires_grad:
            total += ((a @ a.mT) * (g @ g.mT)).sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            total += g.sum(1).square().sum(1)
    return total.clamp(min=0) ** 0.5


# %% right: plain backward, .grad stashed and put back
def per_sample_grad_norms(model, loss_fn, x, y):
    owners = [x, *model.parameters()]
    stash = [tensor.grad for tensor in owners]
    inputs, grads, handles = {}, {}, []
    for layer in linears(model):
        if trained(layer):
            handles.append(layer.register_forward_hook(lambda m, args, out: inputs.update({m: args[0]})))
            handles.append(layer.register_full_backward_hook(lambda m, gi, go: grads.update({m: go[0]})))
    for tensor in owners:
        tensor.grad = None
    losses = loss_fn(model(x), y)
    losses.sum().backward()
    for handle in handles:
        handle.remove()
    for tensor, old in zip(owners, stash, strict=True):
        tensor.grad = old
    with torch.no_grad():
        total = sum(square_of(layer, inputs[layer], g) for layer, g in grads.items())
    return total.sqrt().to(losses.dtype)


# %% right: torch.func, without any hook
def per_sample_grad_norms(model, loss_fn, x, y):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss_of(parameters, one_x, one_y):
        out = functional_call(model, parameters, (one_x[None],))
        return loss_fn(out, one_y[None]).sum()

    grads = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, x.detach(), y)
    squares = sum(g.flatten(1).square().sum(1) for g in grads.values())
    return squares.sqrt().to(loss_dtype(model, loss_fn, x, y))


# %% right: one batched backward
def per_sample_grad_norms(model, loss_fn, x, y):
    losses = loss_fn(model(x), y)
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = torch.eye(len(losses), dtype=losses.dtype)
    grads = torch.autograd.grad(losses, parameters, rows, is_grads_batched=True)
    return sum(g.flatten(1).square().sum(1) for g in grads).sqrt().to(losses.dtype)


# %% right: the mean times N; tensor hooks on the outputs
def per_sample_grad_norms(model, loss_fn, x, y):
    inputs, grads, handles = {}, {}, []

    def watch(layer, args, output):
        inputs[layer] = args[0].detach()
        output.register_hook(lambda g: grads.update({layer: g}))

    for layer in linears(model):
        if trained(layer):
            handles.append(layer.register_forward_hook(watch))
    try:
        losses = loss_fn(model(x), y)
    finally:
        for handle in handles:
            handle.remove()
    torch.autograd.grad(losses.mean() * len(losses), [p for p in model.parameters() if p.requires_grad])
    return sum(square_of(layer, inputs[layer], g) for layer, g in grads.items()).sqrt().to(losses.dtype)


# %% wrong: backward of the mean loss
# says: Your norms are N times too small: backward of the mean divides each sample's gradient by N. Sum the losses.
# earns: 1 of 3
# lesson
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y, reduce=torch.mean)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: forgets the bias
# says: The bias gradients are missing from the norm.
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        if layer.weight.requires_grad:
            total += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
    return total.sqrt()


# %% wrong: adds norms over layers
# says: Norms of layers do not add; their squares do.
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a, g).sqrt() for layer, (a, g) in ends.items()).to(losses.dtype)


# %% wrong: adds norms of weights and biases
# says: Norms of layers do not add; their squares do.
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for _, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        total += torch.einsum("nto,nti->noi", g, a).flatten(1).norm(dim=1) + g.sum(1).norm(dim=1)
    return total


# %% wrong: forgets the root
# says: These are squares: the root is missing.
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).to(losses.dtype)


# %% wrong: the product of norms also for sequences
# says: For (N, T, D) the norm of a sum of outer products is not the product of norms: sum over T first.
# earns: 2 of 3
# lesson
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        if layer.weight.requires_grad:
            total += a.square().sum((1, 2)) * g.square().sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            total += g.sum(1).square().sum(1)
    return total.sqrt()


# %% wrong: knows only (N, D)
# says: (N, T, D) is allowed, too; here it raised: your code raised RuntimeError:
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        if layer.weight.requires_grad:
            total += torch.einsum("no,ni->noi", g, a).square().sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            total += g.square().sum(1)
    return total.sqrt()


# %% wrong: a row of a sequence is a sample
# says: For (N, T, D) the gradient of a sample is a sum over its T rows
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        each = torch.zeros_like(losses)
        if layer.weight.requires_grad:
            each += (a.square().sum(2) * g.square().sum(2)).sum(1)
        if layer.bias is not None and layer.bias.requires_grad:
            each += g.square().sum((1, 2))
        total += each
    return total.sqrt()


# %% wrong: reads grad_input
# says: Did you multiply the input with the gradient of the layer's OUTPUT (grad_output), not with grad_input?
# says: For (N, T, D) the gradient of a sample is a sum over its T rows: of outer
# earns: 1 of 3
# lesson
def per_sample_grad_norms(model, loss_fn, x, y):
    x = x.detach().requires_grad_()
    inputs, squares, handles = {}, [], []
    for layer in linears(model):
        handles.append(layer.register_forward_hook(lambda m, args, out: inputs.update({m: args[0].detach()})))
        handles.append(
            layer.register_full_backward_hook(lambda m, gi, go: squares.append(square_of(m, inputs[m], gi[0])))
        )
    losses = loss_fn(model(x), y)
    torch.autograd.grad(losses.sum(), [x, *model.parameters()])
    for handle in handles:
        handle.remove()
    return sum(squares).sqrt()


# %% wrong: reads grad_input, which is None in the first layer
# says: The first layer's input needs no gradient, so grad_input is None there.
# earns: 0 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    inputs, squares, handles = {}, [], []
    for layer in linears(model):
        handles.append(layer.register_forward_hook(lambda m, args, out: inputs.update({m: args[0].detach()})))
        handles.append(
            layer.register_full_backward_hook(lambda m, gi, go: squares.append(square_of(m, inputs[m], gi[0])))
        )
    losses = loss_fn(model(x), y)
    torch.autograd.grad(losses.sum(), list(model.parameters()))
    for handle in handles:
        handle.remove()
    return sum(squares).sqrt()


# %% wrong: one forward and backward per sample
# says: The model ran more than once: get all samples from one forward and one backward.
# says: Backward ran more than once.
# earns: 1 of 3
# lesson
def per_sample_grad_norms(model, loss_fn, x, y):
    parameters = [p for p in model.parameters() if p.requires_grad]
    norms = []
    for i in range(len(x)):
        grads = torch.autograd.grad(loss_fn(model(x[i : i + 1]), y[i : i + 1]).sum(), parameters)
        norms.append(torch.stack([g.norm() for g in grads]).norm())
    return torch.stack(norms).to(loss_dtype(model, loss_fn, x, y))


# %% wrong: one forward, a backward per sample
# says: Backward ran 5 times: get all samples from one backward, without a loop over samples.
# says: Backward ran more than once.
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    parameters = [p for p in model.parameters() if p.requires_grad]
    losses = loss_fn(model(x), y)
    norms = []
    for loss in losses:
        grads = torch.autograd.grad(loss, parameters, retain_graph=True)
        norms.append(torch.stack([g.norm() for g in grads]).norm())
    return torch.stack(norms).to(losses.dtype)


# %% wrong: plain backward, .grad not restored
# says: .grad of the parameters changed
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    inputs, squares, handles = {}, [], []
    for layer in linears(model):
        if trained(layer):
            handles.append(layer.register_forward_hook(lambda m, args, out: inputs.update({m: args[0].detach()})))
            handles.append(
                layer.register_full_backward_hook(lambda m, gi, go: squares.append(square_of(m, inputs[m], go[0])))
            )
    losses = loss_fn(model(x), y)
    losses.sum().backward()
    for handle in handles:
        handle.remove()
    return sum(squares).sqrt().to(losses.dtype)


# %% wrong: plain backward, then zero_grad
# says: .grad of the parameters changed
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    inputs, squares, handles = {}, [], []
    for layer in linears(model):
        if trained(layer):
            handles.append(layer.register_forward_hook(lambda m, args, out: inputs.update({m: args[0].detach()})))
            handles.append(
                layer.register_full_backward_hook(lambda m, gi, go: squares.append(square_of(m, inputs[m], go[0])))
            )
    losses = loss_fn(model(x), y)
    losses.sum().backward()
    model.zero_grad()
    for handle in handles:
        handle.remove()
    return sum(squares).sqrt().to(losses.dtype)


# %% wrong: restores the parameters' .grad, writes x.grad
# says: x.grad changed: it belongs to the caller.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    inputs, squares, handles = {}, [], []
    stash = [p.grad for p in model.parameters()]
    for layer in linears(model):
        if trained(layer):
            handles.append(layer.register_forward_hook(lambda m, args, out: inputs.update({m: args[0].detach()})))
            handles.append(
                layer.register_full_backward_hook(lambda m, gi, go: squares.append(square_of(m, inputs[m], go[0])))
            )
    model.zero_grad()
    losses = loss_fn(model(x), y)
    losses.sum().backward()
    for parameter, old in zip(model.parameters(), stash, strict=True):
        parameter.grad = old
    for handle in handles:
        handle.remove()
    return sum(squares).sqrt().to(losses.dtype)


# %% wrong: handles not removed
# says: Hooks stayed on the model
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    kept = {}
    for layer in linears(model):
        if trained(layer):
            layer.register_forward_hook(lambda m, args, out: kept.update({m: (args[0].detach(), out)}))
    losses = loss_fn(model(x), y)
    grads = torch.autograd.grad(losses.sum(), [out for _, out in kept.values()])
    squares = [square_of(layer, a, g) for (layer, (a, _)), g in zip(kept.items(), grads, strict=True)]
    return sum(squares).sqrt().to(losses.dtype)


# %% wrong: clears all forward hooks
# says: Someone else's hook disappeared: remove your own handles only.
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    for module in model.modules():
        module._forward_hooks.clear()
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: includes frozen layers
# says: Frozen parameters must not count, not even beside a trained bias.
# earns: 2 of 3
# corner: members
def per_sample_grad_norms(model, loss_fn, x, y):
    flags = [p.requires_grad for p in model.parameters()]
    model.requires_grad_()
    ends, losses = ends_of(model, loss_fn, x, y)
    total = sum(square_of(layer, a, g) for layer, (a, g) in ends.items())
    for parameter, flag in zip(model.parameters(), flags, strict=True):
        parameter.requires_grad_(flag)
    return total.sqrt().to(losses.dtype)


# %% wrong: looks at the weight only to see whether a layer is frozen
# says: A trained bias was left out.
# earns: 2 of 3
# corner: members
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        if layer.weight.requires_grad:
            total += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
            if layer.bias is not None:
                total += g.sum(1).square().sum(1)
    return total.sqrt()


# %% wrong: every layer has a bias
# says: A Linear may have no bias.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        if layer.weight.requires_grad:
            total += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias.requires_grad:
            total += g.sum(1).square().sum(1)
    return total.sqrt()


# %% wrong: the children only
# says: Layers inside containers also belong to the model.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()

        def modules(self):
            return model.children()

        def __call__(self, x):
            return model(x)

    ends, losses = ends_of(Flat(), loss_fn, x, y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: the dtype of the weights
# says: The norms have the dtype of the loss, here float64.
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, _ = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt()


# %% wrong: divides by the norm and multiplies again
# says: A sample whose loss has no gradient has norm 0, not nan.
# earns: 2 of 3
# corner: zeros
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    squares = sum(square_of(layer, a, g) for layer, (a, g) in ends.items())
    return (squares / squares.sqrt()).to(losses.dtype)


# %% wrong: the norms carry a graph
# says: The norms carry a graph: detach them.
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    scale = sum(p.sum() for p in model.parameters() if p.requires_grad) * 0 + 1
    return (sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt() * scale).to(losses.dtype)


# %% wrong: the norm of the whole batch's gradient
# says: The result must have shape (5,), one norm for each sample, not ().
# says: The result must be a tensor with one norm for each sample.
# earns: 0 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    grads = torch.autograd.grad(loss_fn(model(x), y).sum(), [p for p in model.parameters() if p.requires_grad])
    return torch.stack([g.norm() for g in grads]).norm()


# %% wrong: a column
# says: The result must have shape (5,), one norm for each sample, not (5, 1).
# says: The result must be a tensor with one norm for each sample.
# earns: 0 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype).unsqueeze(1)


# %% wrong: a list
# says: The result must be a tensor with one norm for each sample.
# earns: 0 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().tolist()


# %% wrong: makes x require grad
# says: Values or requires_grad were changed: x.
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x.requires_grad_(), y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: one backward, then a loop over samples
# says: For 500 samples there are 500 torch calls or more
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    norms = []
    for n in range(len(losses)):
        squares = [square_of(layer, a[n : n + 1], g[n : n + 1]) for layer, (a, g) in ends.items()]
        norms.append(sum(squares).sqrt())
    return torch.cat(norms).to(losses.dtype)


# %% wrong: post-accumulate hooks stay on the parameters
# says: Hooks stayed on the model (a tensor).
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda p: None)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: a process-wide hook stays
# says: Hooks stayed on the model (all modules).
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    kept = {}

    def keep(module, args, output):
        if isinstance(module, nn.Linear) and trained(module):
            kept[module] = args[0].detach(), output

    nn.modules.module.register_module_forward_hook(keep)
    losses = loss_fn(model(x), y)
    grads = torch.autograd.grad(losses.sum(), [output for _, output in kept.values()])
    squares = [square_of(layer, a, g) for (layer, (a, _)), g in zip(kept.items(), grads, strict=True)]
    return sum(squares).sqrt().to(losses.dtype)


# %% wrong: the last layer only
# says: The norms differ from one backward per sample.
# says: For (N, T, D) the gradient of a sample is a sum over its T rows: of outer
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    layer, (a, g) = list(ends.items())[-1]
    return square_of(layer, a, g).sqrt().to(losses.dtype)


# %% wrong: the gradient with respect to x
# says: The norms differ from one backward per sample.
# says: For (N, T, D) the gradient of a sample is a sum over its T rows: of outer
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    x = x.detach().clone().requires_grad_()
    losses = loss_fn(model(x), y)
    (g,) = torch.autograd.grad(losses.sum(), x)
    return g.flatten(1).norm(dim=1).to(losses.dtype)


# %% wrong: something small under the root
# says: A sample whose loss has no gradient has norm 0, exactly.
# earns: 2 of 3
# corner: zeros
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return (sum(square_of(layer, a, g) for layer, (a, g) in ends.items()) + 1e-9).sqrt().to(losses.dtype)


# %% wrong: the mean over the rows of a sequence
# says: For (N, T, D) the gradient of a sample is a sum over its T rows
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    ends = {m: (a.mean(1) if a.dim() == 3 else a, g.sum(1) if g.dim() == 3 else g) for m, (a, g) in ends.items()}
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: backward of the losses without a sum
# says: grad can be implicitly created only for scalar outputs
# earns: 0 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y, reduce=lambda losses: losses)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt()


# %% wrong: full hooks and autograd.grad for the parameters
# says: The norms differ if x requires grad.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    layers = [
        m for m in model.modules() if isinstance(m, torch.nn.Linear) and any(p.requires_grad for p in m.parameters())
    ]
    inputs, grads, handles = {}, {}, []
    for layer in layers:
        handles.append(layer.register_forward_hook(lambda m, args, out: inputs.__setitem__(m, args[0].detach())))
        handles.append(layer.register_full_backward_hook(lambda m, gi, go: grads.__setitem__(m, go[0].detach())))
    try:
        losses = loss_fn(model(x), y)
        torch.autograd.grad(losses.sum(), [p for p in model.parameters() if p.requires_grad])
    finally:
        for handle in handles:
            handle.remove()
    squares = torch.zeros_like(losses)
    for layer, g in grads.items():
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (inputs[layer], g))
        if layer.weight.requires_grad:
            squares += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            squares += g.sum(1).square().sum(1)
    return squares.sqrt().detach()


# %% wrong: a loop of fixed length over the samples, beside the hooks that count
# says: For 500 samples there are 500 torch calls or more
# earns: 2 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    model(x)
    tables = [table for m in model.modules() for table in (m._forward_pre_hooks, m._forward_hooks)]
    kept = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    ours, norms = [p for p in model.parameters() if p.requires_grad], []
    for i in range(max(len(x), 20)):
        row = slice(i % len(x), i % len(x) + 1)
        loss = loss_fn(model(x[row]), y[row]).sum()
        grads = torch.autograd.grad(loss, ours) if loss.requires_grad else [loss.new_zeros(1)]
        norms.append(torch.stack([g.norm().to(loss.dtype) for g in grads]).norm())
    for table, hooks in zip(tables, kept, strict=True):
        table.update(hooks)
    return torch.stack(norms[: len(x)]).detach()


# %% wrong: norms in float64, whatever the loss is
# says: The result must have the dtype of the loss,
# earns: 1 of 3
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).sqrt().double()


# %% wrong: expects a bias in each layer
# says: Here it raised:
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    squares = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))
        if layer.weight.requires_grad:
            squares += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias.requires_grad:
            squares += g.sum(1).square().sum(1)
    return squares.sqrt()


# %% wrong: counts each bias of a layer that is trained
# says: Frozen parameters must not count, not even in a layer that is trained.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    squares = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))
        if layer.weight.requires_grad:
            squares += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias is not None:
            squares += g.sum(1).square().sum(1)
    return squares.sqrt()


# %% wrong: asks for norms in float32
# says: The norms differ where the model and the loss are float64.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    norms = torch.stack([square_of(layer, a, g).sqrt() for layer, (a, g) in ends.items()])
    return torch.linalg.vector_norm(norms, dim=0, dtype=torch.float32).to(losses.dtype)


# %% wrong: squeezes what goes in and comes back
# says: The norms differ for a batch of one.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = sum(square_of(layer, a.squeeze(0), g.squeeze(0)) for layer, (a, g) in ends.items())
    return total.sqrt().to(losses.dtype)


# %% wrong: a frozen layer beside trained ones counts
# says: Frozen layers must not count.
# earns: 2 of 3
# corner: members
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    flags = [p.requires_grad for p in model.parameters()]
    whole = [layer for layer in linears(model) if len(trained(layer)) == len(list(layer.parameters()))]
    for layer in linears(model) if whole else []:
        if not trained(layer):
            layer.requires_grad_()
    ends, losses = ends_of(model, loss_fn, x, y)
    total = sum(square_of(layer, a, g) for layer, (a, g) in ends.items())
    for parameter, flag in zip(model.parameters(), flags, strict=True):
        parameter.requires_grad_(flag)
    return total.sqrt().to(losses.dtype)


# %% wrong: takes (N, 1, D) for one text of N tokens
# says: The norms differ for x of shape (N, 1, D).
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        if a.dim() == 3 and a.shape[1] == 1:
            a, g = a.transpose(0, 1), g.transpose(0, 1)
        total += square_of(layer, a, g)
    return total.sqrt()


# %% wrong: keeps what goes into a layer by the shape of its weight
# says: The norms differ for square layers.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends = {}

    def keep(layer, args, output):
        ends[layer.weight.shape] = layer, args[0].detach(), output

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    trained = [layer for layer in layers if any(p.requires_grad for p in layer.parameters())]
    handles = [layer.register_forward_hook(keep) for layer in trained]
    losses = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    grads = torch.autograd.grad(losses.sum(), [output for *_, output in ends.values()])
    squares = torch.zeros_like(losses)
    for (layer, a, _), g in zip(ends.values(), grads):
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))
        if layer.weight.requires_grad:
            squares += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            squares += g.sum(1).square().sum(1)
    return squares.sqrt().detach()


# %% wrong: the root of a sum of products, which rounding can take below 0
# says: The gradients of a sample's rows cancel here
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    total = torch.zeros_like(losses)
    for layer, (a, g) in ends.items():
        a, g = a.reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
        if layer.weight.requires_grad:
            total += ((a @ a.mT) * (g @ g.mT)).sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            total += g.sum(1).square().sum(1)
    return total.sqrt()


# %% wrong: sums in float32 and casts at the end
# says: Model and loss are float64, and the norms are right to the seven digits of float32 only.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    ends, losses = ends_of(model, loss_fn, x, y)
    return sum(square_of(layer, a.float(), g.float()) for layer, (a, g) in ends.items()).sqrt().to(losses.dtype)


# %% wrong: asks for the very class Linear
# says: A layer of a class derived from nn.Linear also counts.
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    kept = {}

    def keep(layer, args, output):
        kept[layer] = args[0].detach(), output

    handles = [m.register_forward_hook(keep) for m in model.modules() if type(m) is nn.Linear and trained(m)]
    losses = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    grads = torch.autograd.grad(losses.sum(), [output for _, output in kept.values()])
    squares = torch.zeros_like(losses)
    for (layer, (a, _)), g in zip(kept.items(), grads, strict=True):
        squares += square_of(layer, a, g)
    return squares.sqrt().detach()


# %% wrong: runs the model in eval mode
# says: The model was in training mode and must run in it
# earns: 2 of 3
# caught: hidden
def per_sample_grad_norms(model, loss_fn, x, y):
    was = model.training
    model.eval()
    ends, losses = ends_of(model, loss_fn, x, y)
    model.train(was)
    return sum(square_of(layer, a, g) for layer, (a, g) in ends.items()).to(losses.dtype).sqrt()
