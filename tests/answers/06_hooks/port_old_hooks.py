# corners: caller's modes, equal values

import contextlib
import copy

import torch


def leaves_of(model):
    return {n: m for n, m in model.named_modules() if not list(m.children()) and list(m.parameters())}


def noting(entry):
    def hook(module, grad_input, grad_output):
        entry["output"], entry["input"] = grad_output[0], grad_input[0]

    return hook


def reported(model, x, loss_fn, layers=None, backward=None, hook=noting):
    """A right answer with parts to replace; without `backward` the parameters' gradients come from autograd.grad."""
    layers = leaves_of(model) if layers is None else layers
    report = {name: {} for name in layers}
    with contextlib.ExitStack() as stack:
        for name, layer in layers.items():
            stack.enter_context(layer.register_full_backward_hook(hook(report[name])))
        loss = loss_fn(model(x))
        if backward:
            grads = backward(loss)
        else:
            wanted = [*model.parameters(), *[x] * x.requires_grad]
            grads = dict(zip(wanted, torch.autograd.grad(loss, wanted), strict=True))
    for name, layer in layers.items():
        weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
        report[name] |= {"weight": grads.get(weight), "bias": grads.get(bias)}
    return report


# %% right: full hooks; .grad stashed and put back
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    report, handles = {name: {} for name in layers}, []
    owners = [x, *model.parameters()]
    stash = [tensor.grad for tensor in owners]
    try:
        for name, layer in layers.items():
            handles.append(layer.register_full_backward_hook(noting(report[name])))
        for tensor in owners:
            tensor.grad = None
        loss_fn(model(x)).backward()
        for name, layer in layers.items():
            report[name]["weight"] = layer.weight.grad
            bias = getattr(layer, "bias", None)
            report[name]["bias"] = None if bias is None else bias.grad
    finally:
        for tensor, grad in zip(owners, stash, strict=True):
            tensor.grad = grad
        for handle in handles:
            handle.remove()
    return report


# %% right: forward hooks that hang tensor hooks on outputs and inputs; autograd.grad for the parameters
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    report = {name: dict.fromkeys(("output", "input", "weight", "bias")) for name in layers}

    with contextlib.ExitStack() as stack:

        def watch(entry):
            def hook(module, args, output):
                if args[0].requires_grad:
                    handle = args[0].register_hook(lambda grad: entry.update(input=grad.detach().clone()))
                    stack.callback(handle.remove)
                output.register_hook(lambda grad: entry.update(output=grad.detach().clone()))

            return hook

        for name, layer in layers.items():
            stack.enter_context(layer.register_forward_hook(watch(report[name])))
        loss = loss_fn(model(x))
        names, parameters = zip(*model.named_parameters(), strict=True)
        wanted = [*parameters, x] if x.requires_grad else parameters
        grads = torch.autograd.grad(loss, wanted)
    for name, grad in zip(names, grads, strict=False):
        owner, _, kind = name.rpartition(".")
        report[owner][kind] = grad
    return report


# %% right: forward hooks keep inputs and outputs, one autograd.grad over all of them
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    wanted = {}

    def keeping(name):
        def hook(module, args, output):
            wanted[name, "output"], wanted[name, "input"] = output, args[0]
            wanted[name, "weight"], wanted[name, "bias"] = module.weight, getattr(module, "bias", None)

        return hook

    handles = [layer.register_forward_hook(keeping(name)) for name, layer in layers.items()]
    try:
        loss = loss_fn(model(x))
    finally:
        for handle in handles:
            handle.remove()
    tracked = {place: tensor for place, tensor in wanted.items() if tensor is not None and tensor.requires_grad}
    grads = dict(zip(tracked, torch.autograd.grad(loss, list(tracked.values())), strict=True))
    report = {}
    for name, what in wanted:
        report.setdefault(name, {})[what] = grads.get((name, what))
    return report


# %% right: full hooks on a deep copy of the model
def gradient_report(model, x, loss_fn):
    model, x = copy.deepcopy(model), x.detach().clone().requires_grad_(x.requires_grad)
    model.zero_grad()
    report = {}
    for name, layer in leaves_of(model).items():
        report[name] = {}
        layer.register_full_backward_hook(noting(report[name]))
    loss_fn(model(x)).backward()
    for name, layer in leaves_of(model).items():
        report[name] |= {"weight": layer.weight.grad, "bias": getattr(getattr(layer, "bias", None), "grad", None)}
    return report


# %% right: a process-wide hook that notes every module; sorted out afterwards
def gradient_report(model, x, loss_fn):
    noted = {}

    def note(module, grad_input, grad_output):
        noted[module] = {"output": grad_output[0], "input": grad_input[0]}

    handle = torch.nn.modules.module.register_module_full_backward_hook(note)
    try:
        loss = loss_fn(model(x))
        wanted = [*model.parameters(), x] if x.requires_grad else list(model.parameters())
        grads = {id(t): grad for t, grad in zip(wanted, torch.autograd.grad(loss, wanted), strict=True)}
    finally:
        handle.remove()
    report = {name: noted[layer] for name, layer in leaves_of(model).items()}
    for name, layer in leaves_of(model).items():
        for what in ("weight", "bias"):
            report[name][what] = grads.get(id(getattr(layer, what, None)))
    return report


# %% right: pre-hooks for the outputs, retain_grad for the inputs
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    report = {name: dict.fromkeys(("output", "input", "weight", "bias")) for name in layers}
    stash, handles, inputs = [(t, t.grad) for t in (x, *model.parameters())], [], {}

    def watch(name):
        def output(module, grad_output):
            report[name]["output"] = grad_output[0].clone()

        def keep_input(module, args):
            inputs[name] = args[0]
            if args[0].requires_grad and not args[0].is_leaf:
                args[0].retain_grad()

        handles.append(layers[name].register_full_backward_pre_hook(output))
        handles.append(layers[name].register_forward_pre_hook(keep_input))

    try:
        for name in layers:
            watch(name)
        for tensor, _ in stash:
            tensor.grad = None
        loss_fn(model(x)).backward()
        for name, layer in layers.items():
            report[name] |= {what: parameter.grad for what, parameter in layer.named_parameters()}
            report[name]["input"] = inputs[name].grad
    finally:
        for tensor, grad in stash:
            tensor.grad = grad
        for handle in handles:
            handle.remove()
    return report


# %% right: copies of the parameters, by functional_call
def gradient_report(model, x, loss_fn):
    layers, kept = leaves_of(model), {}
    copies = {name: parameter.detach().clone().requires_grad_() for name, parameter in model.named_parameters()}
    x = x.detach().clone().requires_grad_(x.requires_grad)
    with contextlib.ExitStack() as stack:
        for name, layer in layers.items():
            hook = lambda module, args, output, name=name: kept.update({name: (output, args[0])})  # noqa: E731
            stack.enter_context(layer.register_forward_hook(hook))
        loss = loss_fn(torch.func.functional_call(model, copies, (x,)))

    def grad(tensor):
        tracked = tensor is not None and tensor.requires_grad
        return torch.autograd.grad(loss, tensor, retain_graph=True)[0] if tracked else None

    return {
        name: {
            "output": grad(kept[name][0]),
            "input": grad(kept[name][1]),
            "weight": grad(copies[f"{name}.weight"]),
            "bias": grad(copies.get(f"{name}.bias")),
        }
        for name in layers
    }


# %% wrong: the code as given
# says: FutureWarning: you still register the non-full hook.
# says: A full hook's grad_input has one entry for each input and none for parameters:
# earns: 0 of 3
# lesson
def gradient_report(model, x, loss_fn):
    report = {}
    for name, layer in model.named_children():

        def hook(mod, grad_input, grad_output):
            report[name] = {
                "bias": grad_input[0],
                "input": grad_input[1],
                "weight": grad_input[2].t(),
                "output": grad_output[0],
            }

        layer.register_backward_hook(hook)
    loss_fn(model(x)).backward()
    return report


# %% wrong: keeps register_backward_hook, indices adjusted
# says: FutureWarning: you still register the non-full hook.
# says: A parameter's .grad differs after the call: restore it, or use autograd.grad,
# earns: 0 of 3
# lesson
def gradient_report(model, x, loss_fn):
    report, handles = {}, []

    def hook_for(name):
        def hook(mod, grad_input, grad_output):
            if len(grad_input) == 3:
                bias, before, weight = grad_input
            else:
                bias, (before, weight) = None, grad_input
            report[name] = {"output": grad_output[0], "input": before, "weight": weight.t(), "bias": bias}

        return hook

    for name, layer in leaves_of(model).items():
        handles.append(layer.register_backward_hook(hook_for(name)))
    loss_fn(model(x)).backward()
    for handle in handles:
        handle.remove()
    return report


# %% wrong: full hooks, but the loop variable is looked up late
# says: All reports overwrite each other under one name: bind the loop variable when defining the hook.
# says: A parameter's .grad differs after the call: restore it, or use autograd.grad,
# earns: 0 of 3
# lesson
def gradient_report(model, x, loss_fn):
    report, handles = {}, []
    for name, layer in leaves_of(model).items():

        def hook(mod, grad_input, grad_output):
            report[name] = {"output": grad_output[0], "input": grad_input[0]}

        handles.append(layer.register_full_backward_hook(hook))
    loss_fn(model(x)).backward()
    for handle in handles:
        handle.remove()
    return report


# %% wrong: the loop variable of named_modules, looked up late
# says: All reports overwrite each other under one name
# says: A parameter's .grad differs after the call: restore it, or use autograd.grad,
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    report, handles = {}, []
    for name, layer in model.named_modules():
        if list(layer.parameters(recurse=False)):

            def hook(mod, grad_input, grad_output):
                report[name] = {"output": grad_output[0], "input": grad_input[0], "weight": mod.weight.grad}

            handles.append(layer.register_full_backward_hook(hook))
    loss_fn(model(x)).backward()
    for handle in handles:
        handle.remove()
    return report


# %% wrong: full hooks with the old indices
# says: A full hook's grad_input has one entry for each input and none for parameters
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    def hook(entry):
        def take(mod, grad_input, grad_output):
            entry.update(bias=grad_input[0], input=grad_input[1], weight=grad_input[2].t())

        return take

    return reported(model, x, loss_fn, hook=hook)


# %% wrong: loops over named_children
# says: Layers inside a container are missing: named_children() is one level deep.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    layers = {n: m for n, m in model.named_children() if not list(m.children()) and list(m.parameters())}
    return reported(model, x, loss_fn, layers)


# %% wrong: loops over named_children, containers included
# says: Layers inside a container are missing: named_children() is one level deep.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x, loss_fn, {n: m for n, m in model.named_children() if list(m.parameters())})


# %% wrong: reports every module
# says: Containers or layers without parameters are listed; only leaf modules with parameters belong in the report.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x, loss_fn, dict(model.named_modules()))


# %% wrong: reports leaves without parameters
# says: Containers or layers without parameters are listed
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x, loss_fn, {n: m for n, m in model.named_modules() if not list(m.children())})


# %% wrong: reports containers that hold parameters
# says: Containers or layers without parameters are listed
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x, loss_fn, {n: m for n, m in model.named_modules() if list(m.parameters())})


# %% wrong: one entry for each parameter
# says: Your report lists the parameters of a layer one by one, but an entry is for a layer, such as 'enc.0'
# says: No entry of the report holds anything, so there was nothing to clean up.
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss_fn(model(x)), parameters), strict=True))


# %% wrong: reads .grad after backward without clearing it first
# says: The weight gradient includes what was in .grad before the call, because backward() adds.
# says: A parameter's .grad differs after the call: restore it, or use autograd.grad,
# earns: 1 of 3
# lesson
def gradient_report(model, x, loss_fn):
    def backward(loss):
        loss.backward()
        return {p: p.grad for p in model.parameters()}

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: zero_grad before, nothing restored
# says: A parameter's .grad differs after the call: restore it, or use autograd.grad, which does not write it.
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def gradient_report(model, x, loss_fn):
    def backward(loss):
        model.zero_grad()
        loss.backward()
        return {p: p.grad.clone() for p in model.parameters()}

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: zero_grad before and after
# says: A parameter's .grad differs after the call
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    def backward(loss):
        model.zero_grad()
        loss.backward()
        grads = {p: p.grad for p in model.parameters()}
        model.zero_grad()
        return grads

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: puts copies of .grad back
# says: A parameter's .grad differs after the call
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def gradient_report(model, x, loss_fn):
    def backward(loss):
        stash = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        loss.backward()
        grads = {p: p.grad for p in model.parameters()}
        for parameter, grad in zip(model.parameters(), stash, strict=True):
            parameter.grad = grad
        return grads

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: zeroes the stashed gradients in place
# says: A parameter's .grad differs after the call
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    def backward(loss):
        stash = [p.grad for p in model.parameters()]
        model.zero_grad(set_to_none=False)
        loss.backward()
        grads = {p: p.grad.clone() for p in model.parameters()}
        for parameter, grad in zip(model.parameters(), stash, strict=True):
            parameter.grad = grad
        return grads

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: restores the parameters, writes x.grad
# says: x.grad was written: it belongs to the caller.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    def backward(loss):
        stash = [p.grad for p in model.parameters()]
        model.zero_grad()
        loss.backward()
        grads = {p: p.grad for p in model.parameters()}
        for parameter, grad in zip(model.parameters(), stash, strict=True):
            parameter.grad = grad
        return grads

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: fills a missing input gradient with zeros
# says: The first layer's input needs no gradient: report None, not zeros
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    for entry in report.values():
        if entry["input"] is None:
            entry["input"] = torch.zeros_like(x)
    return report


# %% wrong: calls x.requires_grad_() to get an input gradient
# says: You changed x.requires_grad on the caller's tensor.
# says: The first layer's input needs no gradient: report None, and do not switch on requires_grad to get one.
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x.requires_grad_(), loss_fn)


# %% wrong: a copy of x that requires grad
# says: The first layer's input needs no gradient: report None, and do not switch on requires_grad to get one.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x.detach().clone().requires_grad_(), loss_fn)


# %% wrong: keeps the .t() of the old code
# says: the weight's own shape (out, in); the transpose belonged to the old hook.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    for entry in report.values():
        entry["weight"] = entry["weight"].t()
    return report


# %% wrong: transposes square weights
# says: A weight gradient is transposed
# earns: 2 of 3
# corner: equal values
# caught: hidden
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    for name, entry in report.items():
        if entry["weight"].shape == (3, 3) and name == "head":
            entry["weight"] = entry["weight"].t()
    return report


# %% wrong: handles are never removed
# says: Your hooks are still registered after the call, so each further report would also run all earlier on
# earns: 2 of 3
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    report = {name: {} for name in layers}
    for name, layer in layers.items():
        layer.register_full_backward_hook(noting(report[name]))
    wanted = [*model.parameters(), *[x] * x.requires_grad]
    grads = dict(zip(wanted, torch.autograd.grad(loss_fn(model(x)), wanted), strict=True))
    for name, layer in layers.items():
        report[name] |= {"weight": grads[layer.weight], "bias": grads.get(getattr(layer, "bias", None))}
    return report


# %% wrong: handles are removed on success only
# says: When the loss raised, your hooks stayed. Removal belongs into `finally`.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    report = {name: {} for name in layers}
    handles = [layer.register_full_backward_hook(noting(report[name])) for name, layer in layers.items()]
    wanted = [*model.parameters(), *[x] * x.requires_grad]
    grads = dict(zip(wanted, torch.autograd.grad(loss_fn(model(x)), wanted), strict=True))
    for name, layer in layers.items():
        report[name] |= {"weight": grads[layer.weight], "bias": grads.get(getattr(layer, "bias", None))}
    for handle in handles:
        handle.remove()
    return report


# %% wrong: clears all backward and forward hooks
# says: Someone else's hook disappeared: remove your own handles only.
# earns: 2 of 3
def gradient_report(model, x, loss_fn):
    try:
        return reported(model, x, loss_fn)
    finally:
        for module in model.modules():
            module._backward_hooks.clear()
            module._forward_hooks.clear()


# %% wrong: asks autograd.grad for the parameters only
# says: If x requires grad, the first layer must also be reported.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    def backward(loss):
        parameters = list(model.parameters())
        return dict(zip(parameters, torch.autograd.grad(loss, parameters), strict=True))

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: reports gradients with a graph
# says: A gradient in the report carries a graph
# says: The report doesn't contain the gradients that torch.autograd.grad gives for this loss.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    def backward(loss):
        parameters = list(model.parameters())
        return dict(zip(parameters, torch.autograd.grad(loss, parameters, create_graph=True), strict=True))

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: no gradient of x where x requires grad
# says: Where x requires grad, the first layer's input has a gradient, and the report must tell it.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    return reported(model, x.detach(), loss_fn)


# %% wrong: input and output swapped
# says: `input` and `output` are swapped
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    return {name: entry | {"input": entry["output"], "output": entry["input"]} for name, entry in report.items()}


# %% wrong: layer.bias.grad without looking
# says: A layer without a bias has None there
# says: A parameter's .grad differs after the call: restore it, or use autograd.grad,
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    def backward(loss):
        loss.backward()
        return {p: p.grad for p in model.parameters()}

    report = reported(model, x, loss_fn, backward=backward)
    for name, layer in leaves_of(model).items():
        report[name]["bias"] = layer.bias.grad
    return report


# %% wrong: expects every layer to have an attribute bias
# says: A layer may have no attribute `bias` at all.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    for name, layer in leaves_of(model).items():
        if layer.bias is None:
            report[name]["bias"] = None
    return report


# %% wrong: leaves the bias out where there is none
# says: missing: bias
# says: The report doesn't contain the gradients that torch.autograd.grad gives for this loss.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    return {name: {k: v for k, v in entry.items() if k != "bias" or v is not None} for name, entry in report.items()}


# %% wrong: swallows the exception of the loss
# says: The exception of the loss must reach the caller.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    try:
        return reported(model, x, loss_fn)
    except ArithmeticError:
        return {}


# %% wrong: returns nothing
# says: The report must be a dict from names to dicts.
# says: No entry of the report holds anything, so there was nothing to clean up.
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    reported(model, x, loss_fn)


# %% wrong: a tensor hook stays on x
# says: Your hooks are still registered after the call, so each further report would also run all earlier on
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    if x.requires_grad:
        x.register_hook(lambda grad: None)
    return reported(model, x, loss_fn)


# %% wrong: post-accumulate hooks stay on the parameters
# says: Your hooks are still registered after the call, so each further report would also run all earlier on
# earns: 2 of 3
def gradient_report(model, x, loss_fn):
    layers = leaves_of(model)
    report, stash = {name: {"bias": None} for name in layers}, [(t, t.grad) for t in (x, *model.parameters())]

    def watch(parameter, entry, what):
        parameter.register_post_accumulate_grad_hook(lambda parameter: entry.update({what: parameter.grad}))

    with contextlib.ExitStack() as stack:
        for name, layer in layers.items():
            stack.enter_context(layer.register_full_backward_hook(noting(report[name])))
            for what, parameter in layer.named_parameters():
                watch(parameter, report[name], what)
        for tensor, _ in stash:
            tensor.grad = None
        loss_fn(model(x)).backward()
    for tensor, grad in stash:
        tensor.grad = grad
    return report


# %% wrong: a process-wide hook stays
# says: Your hooks are still registered after the call, so each further report would also run all earlier on
# earns: 2 of 3
def gradient_report(model, x, loss_fn):
    torch.nn.modules.module.register_module_full_backward_hook(lambda *args: None)
    return reported(model, x, loss_fn)


# %% wrong: Linear layers only
# says: Every leaf module that owns parameters belongs in the report, whatever its class.
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    layers = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    return reported(model, x, loss_fn, layers=layers)


# %% wrong: tuples in place of tensors
# says: grad_input and grad_output are tuples: an entry of the report is the tensor in it.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    def hook(entry):
        return lambda module, grad_input, grad_output: entry.update(output=grad_output, input=grad_input)

    return reported(model, x, loss_fn, hook=hook)


# %% wrong: the mean over the batch
# says: All gradients are half of what they must be for these two rows
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return reported(model, x, lambda out: loss_fn(out) / len(out))


# %% wrong: takes a step with the parameters
# says: Something was changed that is not yours
# earns: 2 of 3
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.01)
    return report


# %% wrong: runs under no_grad
# says: The loss has no graph to go back through, because the model ran under no_grad or on detached tensors
# earns: 0 of 3
def gradient_report(model, x, loss_fn):
    with torch.no_grad():
        return reported(model, x, loss_fn)


# %% wrong: never asks for the gradient of x
# says: The hook of a layer never ran, so its entry is missing.
# earns: 1 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    ends, handles = {}, []

    def noting(name):
        def hook(module, grad_input, grad_output):
            ends[name] = grad_input[0], grad_output[0]

        return hook

    try:
        for name, layer in layers.items():
            handles.append(layer.register_full_backward_hook(noting(name)))
        loss = loss_fn(model(x))
        wanted = [parameter for layer in layers.values() for parameter in layer.parameters()]
        grads = dict(zip(wanted, torch.autograd.grad(loss, wanted), strict=True))
    finally:
        for handle in handles:
            handle.remove()
    return {
        name: {
            "output": ends[name][1],
            "input": ends[name][0],
            "weight": grads[layer.weight],
            "bias": grads.get(getattr(layer, "bias", None)),
        }
        for name, layer in layers.items()
    }


# %% wrong: names with a dash
# says: The names of the report should be enc.0, enc.2 and head; they are:
# says: The report doesn't contain the gradients that torch.autograd.grad gives for this loss.
# earns: 1 of 3
def gradient_report(model, x, loss_fn):
    return {name.replace(".", "-"): entry for name, entry in reported(model, x, loss_fn).items()}


# %% wrong: what is in .grad counts as the gradient
# says: The report contains what was in .grad before the call. Report the gradients of this loss only.
# earns: 2 of 3
def gradient_report(model, x, loss_fn):
    report = reported(model, x, loss_fn)
    for name, layer in leaves_of(model).items():
        if layer.weight.grad is not None:
            report[name]["weight"] = layer.weight.grad.clone()
    return report


# %% right: puts .grad back on the leaf modules only
def gradient_report(model, x, loss_fn):
    def backward(loss):
        tensors = [p for layer in leaves_of(model).values() for p in layer.parameters()] + [x]
        stash = [tensor.grad for tensor in tensors]
        for tensor in tensors:
            tensor.grad = None
        loss.backward()
        grads = {tensor: tensor.grad for tensor in tensors}
        for tensor, grad in zip(tensors, stash, strict=True):
            tensor.grad = grad
        return grads

    return reported(model, x, loss_fn, backward=backward)


# %% wrong: takes .grad away first, and puts it back only if nothing raises
# says: When the loss raised, the .grad of a parameter
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    tensors = [*model.parameters(), x]
    stash = [tensor.grad for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None

    def backward(loss):
        loss.backward()
        return {tensor: tensor.grad for tensor in tensors}

    report = reported(model, x, loss_fn, backward=backward)
    for tensor, grad in zip(tensors, stash, strict=True):
        tensor.grad = grad
    return report


# %% wrong: reports in eval mode
# says: The model was in training mode and must run in it
# earns: 2 of 3
# caught: hidden
def gradient_report(model, x, loss_fn):
    was = model.training
    model.eval()
    try:
        return reported(model, x, loss_fn)
    finally:
        model.train(was)
