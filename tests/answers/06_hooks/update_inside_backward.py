# corners: members, second name

import contextlib
import weakref
from functools import partial

import torch
from torch import nn


def detaching(handles):
    return lambda: [handle.remove() for handle in handles]


# %% right: one torch.optim.SGD for each parameter, stepped and cleared in its hook
def attach_sgd(model, lr):
    optimizers = {p: torch.optim.SGD([p], lr) for p in model.parameters() if p.requires_grad}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(hook) for p in optimizers]
    return lambda: [handle.remove() for handle in handles]


# %% right: an update through .data
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad.data
        p.grad = None

    handles = []
    for p in model.parameters():
        if p.requires_grad:
            handles.append(p.register_post_accumulate_grad_hook(hook))

    def detach():
        while handles:
            handles.pop().remove()

    return detach


# %% right: a class with two methods
class Stepper:
    def __init__(self, model, lr):
        self.lr, self.handles = lr, {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.handles[name] = parameter.register_post_accumulate_grad_hook(self.update)

    def update(self, parameter):
        with torch.no_grad():
            parameter.add_(parameter.grad, alpha=-self.lr)
        del parameter.grad

    def detach(self):
        for handle in self.handles.values():
            handle.remove()


def attach_sgd(model, lr):
    return Stepper(model, lr).detach


# %% right: every name of a shared parameter, but a freed gradient is skipped
def attach_sgd(model, lr):
    def hook(parameter):
        if parameter.grad is not None:
            parameter.data = parameter.data - lr * parameter.grad
            parameter.grad = None

    parameters = [p for m in model.modules() for p in m.parameters(recurse=False) if p.requires_grad]
    handles = [p.register_post_accumulate_grad_hook(hook) for p in parameters]

    def detach():
        for handle in handles:
            handle.remove()

    return detach


# %% right: one optimizer over all parameters, stepped and cleared in each hook
def attach_sgd(model, lr):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr)

    def hook(p):
        optimizer.step()
        optimizer.zero_grad()

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in parameters])


# %% right: the gradient is scaled in place; grad mode is off within the hook anyway
def attach_sgd(model, lr):
    def hook(p):
        p -= p.grad.mul_(lr)
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% right: a partial, and an ExitStack for the handles
def attach_sgd(model, lr):
    def hook(lr, p):
        with torch.no_grad():
            p.copy_(p - lr * p.grad)
        p.grad = None

    stack = contextlib.ExitStack()
    for p in model.parameters():
        if p.requires_grad:
            stack.callback(p.register_post_accumulate_grad_hook(partial(hook, lr)).remove)
    return stack.close


# %% wrong: hooks on nodes that only the returned function keeps
# says: The updates end when the caller drops the function that you return
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    nodes, handles = [], []
    for parameter in model.parameters():
        if parameter.requires_grad:
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]

            def hook(*args, parameter=parameter):
                parameter.data.sub_(parameter.grad, alpha=lr)
                parameter.grad = None

            nodes.append(node)
            handles.append(node.register_hook(hook))

    def detach():
        nodes.clear()
        for handle in handles:
            handle.remove()

    return detach


# %% wrong: a tensor hook that reads p.grad
# says: In a tensor hook .grad is not filled yet (None, or the previous value)
# earns: 0 of 2
# lesson
def attach_sgd(model, lr):
    def hook_for(p):
        def hook(grad):
            p.data -= lr * p.grad
            p.grad = None

        return hook

    return detaching([p.register_hook(hook_for(p)) for p in model.parameters() if p.requires_grad])


# %% wrong: a tensor hook that reads p.grad where there is one
# says: In a tensor hook .grad is not filled yet (None, or the previous value).
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook_for(p):
        def hook(grad):
            if p.grad is not None:
                p.data -= lr * p.grad
                p.grad = None

        return hook

    return detaching([p.register_hook(hook_for(p)) for p in model.parameters() if p.requires_grad])


# %% wrong: a tensor hook that uses its argument; .grad stays
# says: After backward .grad still holds tensors
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook_for(p):
        def hook(grad):
            p.data -= lr * grad
            p.grad = None

        return hook

    return detaching([p.register_hook(hook_for(p)) for p in model.parameters() if p.requires_grad])


# %% wrong: treats the hook's argument as the gradient
# says: The weights shrank by a factor: the hook receives the PARAMETER, not its gradient; read p.grad.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
# lesson
def attach_sgd(model, lr):
    def hook_for(p):
        def hook(grad):
            p.data -= lr * grad
            p.grad = None

        return hook

    return detaching([p.register_post_accumulate_grad_hook(hook_for(p)) for p in model.parameters() if p.requires_grad])


# %% wrong: never clears .grad
# says: After backward .grad still holds tensors
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
# lesson
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: fills .grad with zeros
# says: After backward .grad still holds tensors
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad.zero_()

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: waits for the last hook, then steps all
# says: All gradients were alive at the same time: step and free each one in its own hook.
# says: Here it raised (a layer that the loss does not need stays as it is): your code
# earns: 0 of 2
# lesson
def attach_sgd(model, lr):
    parameters = [p for p in model.parameters() if p.requires_grad]
    ready = []

    def hook(p):
        ready.append(p)
        if len(ready) == len(parameters):
            for q in ready:
                q.data -= lr * q.grad
                q.grad = None
            ready.clear()

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in parameters])


# %% wrong: takes the gradients away and steps all at the end
# says: A parameter was not yet updated when the next gradient arrived: step each one in its own hook.
# says: A parameter that the loss does not need gets no gradient; don't wait for it.
# earns: 0 of 2
def attach_sgd(model, lr):
    parameters = [p for p in model.parameters() if p.requires_grad]
    grads = {}

    def hook(p):
        grads[p] = p.grad
        p.grad = None
        if len(grads) == len(parameters):
            for q in parameters:
                q.data -= lr * grads.pop(q)

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in parameters])


# %% wrong: steps all when the hook of the first parameter fires
# says: All gradients were alive at the same time
# says: A parameter that the loss does not need gets no gradient; don't wait for it.
# earns: 0 of 2
def attach_sgd(model, lr):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr)

    def hook(p):
        if all(q.grad is not None for q in parameters):
            optimizer.step()
            optimizer.zero_grad()

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in parameters])


# %% wrong: an optimizer over all parameters steps in each hook
# says: Nothing was updated.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr)

    def hook(p):
        optimizer.zero_grad()
        optimizer.step()

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: registers on frozen parameters
# says: A frozen parameter has no gradient to hook: skip requires_grad=False (registering raises).
# earns: 1 of 2
# corner: members
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters()])


# %% wrong: makes frozen parameters require grad
# says: The weights are not those of plain SGD
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    return detaching([p.requires_grad_().register_post_accumulate_grad_hook(hook) for p in model.parameters()])


# %% wrong: registers once per name, tied weights twice
# says: A shared parameter was updated more than once: it appears under two names. parameters() lists it once.
# earns: 1 of 2
# corner: second name
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    named = model.named_parameters(remove_duplicate=False)
    return detaching([p.register_post_accumulate_grad_hook(hook) for _, p in named if p.requires_grad])


# %% wrong: tied weights are stepped twice, then freed
# says: A shared parameter was updated more than once
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    named = [p for _, p in model.named_parameters(remove_duplicate=False) if p.requires_grad]

    def step(p):
        p.data -= lr * p.grad

    def free(p):
        p.grad = None

    handles = [p.register_post_accumulate_grad_hook(step) for p in named]
    return detaching(handles + [p.register_post_accumulate_grad_hook(free) for p in named])


# %% wrong: hooks every parameter once for each module above it
# says: and hook each parameter once, since a second hook finds a gradient that the first one has freed.
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    parameters = [p for m in model.modules() for p in m.parameters() if p.requires_grad]
    return detaching([p.register_post_accumulate_grad_hook(hook) for p in parameters])


# %% wrong: detach() removes only the first handle
# says: After detach() the parameters still change
# earns: 1 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    handles = [p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad]
    return handles[0].remove


# %% wrong: detach() removes only the last handle
# says: After detach() the parameters still change
# earns: 1 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    for p in model.parameters():
        if p.requires_grad:
            handle = p.register_post_accumulate_grad_hook(hook)
    return lambda: handle.remove()


# %% wrong: removes the hooks that step, not those that free
# says: After detach() gradients are still freed
# earns: 1 of 2
def attach_sgd(model, lr):
    def step(p):
        p.data -= lr * p.grad

    def free(p):
        p.grad = None

    parameters = [p for p in model.parameters() if p.requires_grad]
    handles = [p.register_post_accumulate_grad_hook(step) for p in parameters]
    for p in parameters:
        p.register_post_accumulate_grad_hook(free)
    return detaching(handles)


# %% wrong: returns the list of handles
# says: Return a function that removes the hooks.
# earns: 1 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    return [p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad]


# %% wrong: returns nothing
# says: Return a function that removes the hooks.
# earns: 1 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)


# %% wrong: sets a new Parameter on the module
# says: The parameter object was replaced
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook_for(name):
        owner, _, kind = name.rpartition(".")

        def hook(p):
            setattr(model.get_submodule(owner), kind, nn.Parameter(p.detach() - lr * p.grad))

        return hook

    return detaching(
        [
            p.register_post_accumulate_grad_hook(hook_for(name))
            for name, p in model.named_parameters()
            if p.requires_grad
        ]
    )


# %% wrong: divides by the number of parameters
# says: After one backward pass the weights are not those of plain SGD.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    count = len(list(model.parameters()))

    def hook(p):
        p.data -= lr * p.grad / count
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: goes uphill
# says: The sign is wrong: a step goes against the gradient.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data += lr * p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: switches requires_grad off for the update
# says: A parameter must stay a leaf that requires grad
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.requires_grad_(False)
        p -= lr * p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: one list of handles for all models
# says: detach() ended the updates of another model: remove the handles of this call only.
# earns: 1 of 2
# caught: hidden
all_handles = []


def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    all_handles.extend(p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad)
    return detaching(all_handles)


# %% wrong: one rate for all models
# says: Each model must use its own rate.
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    attach_sgd.rate = lr

    def hook(p):
        p.data -= attach_sgd.rate * p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: momentum
# says: The first step is right, but a later one is not that of plain SGD.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    momentum = {}

    def hook(p):
        momentum[p] = 0.9 * momentum[p] + p.grad if p in momentum else p.grad.clone()
        p.data -= lr * momentum[p]
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: a switch in place of remove()
# says: After detach() hooks are still registered
# earns: 1 of 2
def attach_sgd(model, lr):
    on = [True]

    def hook(p):
        if on:
            p.data -= lr * p.grad
            p.grad = None

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)
    return on.clear


# %% wrong: full backward hooks on the modules
# says: A hook found no gradient.
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(module, grad_input, grad_output):
        for p in module.parameters(recurse=False):
            p.data -= lr * p.grad
            p.grad = None

    return detaching([module.register_full_backward_hook(hook) for module in model.modules()])


# %% wrong: full backward hooks on the modules, that skip a missing gradient
# says: After one backward pass the weights are not those of plain SGD.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(module, grad_input, grad_output):
        for p in module.parameters(recurse=False):
            if p.grad is not None:
                p.data -= lr * p.grad
                p.grad = None

    return detaching([module.register_full_backward_hook(hook) for module in model.modules()])


# %% wrong: the direct children only
# says: Parameters can be at any depth; parameters() finds all of them.
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    own = {p: None for m in model.children() for p in m.parameters(recurse=False) if p.requires_grad}
    return detaching([p.register_post_accumulate_grad_hook(hook) for p in own])


# %% wrong: weights only
# says: After one backward pass the weights are not those of plain SGD.
# says: A frozen parameter has no gradient to hook: skip requires_grad=False
# earns: 0 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    named = model.named_parameters()
    return detaching([p.register_post_accumulate_grad_hook(hook) for name, p in named if "weight" in name])


# %% wrong: every hook works once
# says: The first step is right, but a later one is not that of plain SGD.
# says: The weights are not those of plain SGD (frozen layers are skipped).
# earns: 0 of 2
def attach_sgd(model, lr):
    done = set()

    def hook(p):
        if p not in done:
            p.data -= lr * p.grad
            p.grad = None
            done.add(p)

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: a string
# says: Nothing was updated.
# says: Return a function that removes the hooks.
# earns: 0 of 2
def attach_sgd(model, lr):
    return "attached"


# %% wrong: tensor hooks
# says: A tensor hook runs before the gradient is stored
# says: After backward .grad still holds tensors
# earns: 0 of 2
def attach_sgd(model, lr):
    def stepping(parameter):
        def step(grad):
            with torch.no_grad():
                parameter.sub_(lr * grad)

        return step

    handles = [p.register_hook(stepping(p)) for p in model.parameters() if p.requires_grad]

    def detach():
        for handle in handles:
            handle.remove()

    return detach


# %% wrong: what ends it makes all parameters trainable
# says: requires_grad of a parameter was changed, here or by detach()
# earns: 1 of 2
# corner: members
# caught: hidden
def attach_sgd(model, lr):
    @torch.no_grad()
    def step(parameter):
        parameter.sub_(lr * parameter.grad)
        parameter.grad = None

    handles = [p.register_post_accumulate_grad_hook(step) for p in model.parameters() if p.requires_grad]

    def detach():
        for handle in handles:
            handle.remove()
        model.requires_grad_(True)

    return detach


# %% wrong: freezes what has been updated twice
# says: A parameter was replaced or switched.
# says: requires_grad of a parameter was changed, here or by detach().
# earns: 0 of 2
def attach_sgd(model, lr):
    counts = {}

    def hook(p):
        p.data -= lr * p.grad
        p.grad = None
        counts[p] = counts.get(p, 0) + 1
        p.requires_grad_(counts[p] < 2)

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: keeps the newest gradient only after detach()
# says: After detach() gradients must accumulate as usual: two backward passes add up.
# earns: 1 of 2
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    trained = [p for p in model.parameters() if p.requires_grad]
    handles = [p.register_post_accumulate_grad_hook(hook) for p in trained]

    def detach():
        sums = {}

        def newest(p):
            total = p.grad.clone()
            p.grad -= sums.get(p, 0)
            sums[p] = total - sums.get(p, 0) if p in sums else total

        for p, handle in zip(trained, handles):
            handle.remove()
            p.register_post_accumulate_grad_hook(newest)

    return detach


# %% wrong: every child but Tanh has a weight and a bias
# says: Here it raised (
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    layers = [layer for layer in model if not isinstance(layer, nn.Tanh)]
    found = {p: None for layer in layers for p in (layer.weight, layer.bias) if p.requires_grad}
    return detaching([p.register_post_accumulate_grad_hook(hook) for p in found])


# %% wrong: the first rate of a model stays
# says: After attaching again the new rate must count, once.
# earns: 1 of 2
# caught: hidden
RATES = weakref.WeakKeyDictionary()


def attach_sgd(model, lr):
    rate = RATES.setdefault(model, lr)

    def hook(p):
        p.data -= rate * p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: detach() of a model works once
# says: After the second detach() the parameters still change.
# earns: 1 of 2
# caught: hidden
DETACHED = weakref.WeakSet()


def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    handles = [p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad]

    def detach():
        if model not in DETACHED:
            DETACHED.add(model)
            detaching(handles)()

    return detach


# %% wrong: updates in float32
# says: The dtype must stay:
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data = p.data.float() - lr * p.grad.float()
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: clears everybody's hooks
# says: A hook that isn't yours disappeared
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        p.data -= lr * p.grad
        p.grad = None

    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.register_post_accumulate_grad_hook(hook)
    return lambda: [p._post_accumulate_grad_hooks.clear() for p in trained]


# %% wrong: keeps each gradient for a report
# says: Every .grad is None in time, and still more than two gradients were alive at the same time
# earns: 1 of 2
def attach_sgd(model, lr):
    last = {}

    def hook(p):
        p.data -= lr * p.grad
        last[p] = p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])


# %% wrong: updates in training mode only
# says: In eval mode too, each backward pass makes a step
# earns: 1 of 2
# caught: hidden
def attach_sgd(model, lr):
    def hook(p):
        if model.training:
            p.data -= lr * p.grad
        p.grad = None

    return detaching([p.register_post_accumulate_grad_hook(hook) for p in model.parameters() if p.requires_grad])
