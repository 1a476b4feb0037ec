# %% right: forward hooks, and one autograd.grad for all tensors
# The hooks note the input and the output of each layer, and one call returns all gradients. No backward hook has to
# run, so x is no special case. All these outputs are kept until the end, even those that backward doesn't need.
def gradient_report(model, x, loss_fn):
    """The gradients of output, input, weight and bias, asked for by tensor."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    tensors = {}

    def noting(name):
        def hook(layer, args, output):
            tensors[name, "output"], tensors[name, "input"] = output, args[0]
            tensors[name, "weight"], tensors[name, "bias"] = layer.weight, getattr(layer, "bias", None)

        return hook

    handles = [layer.register_forward_hook(noting(name)) for name, layer in layers.items()]
    try:
        loss = loss_fn(model(x))
    finally:
        for handle in handles:
            handle.remove()
    tracked = {place: t for place, t in tensors.items() if t is not None and t.requires_grad}
    grads = dict(zip(tracked, torch.autograd.grad(loss, list(tracked.values())), strict=True))
    return {name: {what: grads.get((name, what)) for what in ("output", "input", "weight", "bias")} for name in layers}


# %% right: full hooks on a deep copy
# `backward` fills the gradients of the copy, which begin as None, so nothing has to be kept or put back. It takes the
# memory of a second model, and a batch norm updates the running statistics of the copy only.
def gradient_report(model, x, loss_fn):
    """The report on a copy of the model."""
    model, x = copy.deepcopy(model), x.detach().clone().requires_grad_(x.requires_grad)
    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    report = {name: {} for name in layers}

    def noting(entry):
        def hook(layer, grad_input, grad_output):
            entry.update(output=grad_output[0], input=grad_input[0])

        return hook

    for name, layer in layers.items():
        layer.register_full_backward_hook(noting(report[name]))
    loss_fn(model(x)).backward()
    for name, layer in layers.items():
        bias = getattr(layer, "bias", None)
        report[name].update(weight=layer.weight.grad, bias=None if bias is None else bias.grad)
    return report


# %% wrong: reads .grad after backward
# says: The weight gradient includes what was in .grad before the call, because backward() adds.
# It is right for a fresh model. In a training loop, `.grad` may still contain the gradients of the step before.
def gradient_report(model, x, loss_fn):
    """The report, with the parameters' gradients as backward leaves them."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    report = {name: {} for name in layers}

    def noting(entry):
        def hook(layer, grad_input, grad_output):
            entry.update(output=grad_output[0], input=grad_input[0])

        return hook

    handles = [layer.register_full_backward_hook(noting(report[name])) for name, layer in layers.items()]
    loss_fn(model(x)).backward()
    for handle in handles:
        handle.remove()
    for name, layer in layers.items():
        bias = getattr(layer, "bias", None)
        report[name].update(weight=layer.weight.grad, bias=None if bias is None else bias.grad)
    return report
