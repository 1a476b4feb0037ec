# corners: members

import io
from collections import OrderedDict

import torch
from torch import nn


def nbytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def saving(model, step):
    """Run step() and return its result and the tensors that were saved, without those of parameters."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = []

    def pack(t):
        if t.untyped_storage().data_ptr() not in parameters:
            kept.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = step()
    return result, kept


def distinct(tensors):
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def state_of(optimizer):
    return [v for entry in optimizer.state.values() for v in entry.values() if torch.is_tensor(v)]


def grads_of(model):
    return [p.grad for p in model.parameters() if p.grad is not None]


def report(model, optimizer, kept, /, **other):
    found = {
        "parameters": nbytes(model.parameters()),
        "gradients": nbytes(grads_of(model)),
        "optimizer": nbytes(state_of(optimizer)),
        "activations": distinct(kept),
    }
    return found | other


# %% right: walks through the graph and reads the saved attributes
def training_memory(model, optimizer, loss_fn, x, y):
    loss = loss_fn(model(x), y)
    kept, nodes, seen = [], [loss.grad_fn], set()
    for node in nodes:
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_"):
                value = getattr(node, name)
                kept += [v for v in (value if isinstance(value, (tuple, list)) else [value]) if torch.is_tensor(v)]
        nodes += [following for following, _ in node.next_functions]
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    activations = distinct([t for t in kept if t.untyped_storage().data_ptr() not in parameters])
    del kept, nodes, seen
    loss.backward()
    optimizer.step()
    return report(model, optimizer, [], activations=activations)


# %% right: nbytes, collects first and counts later, reads the optimizer through its state_dict, more keys
def training_memory(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in kept}
    for p in model.parameters():
        storages.pop(p.untyped_storage()._cdata, None)
    state = optimizer.state_dict()["state"].values()
    return {
        "activations": sum(s.nbytes() for s in storages.values()),
        "optimizer": sum(v.nbytes for entry in state for v in entry.values() if isinstance(v, torch.Tensor)),
        "gradients": sum(g.nbytes for g in grads_of(model)),
        "parameters": sum(p.nbytes for p in model.parameters()),
        "loss": loss.item(),
    }


# %% right: everything inside the hooks, clears the gradients afterwards
def training_memory(model, optimizer, loss_fn, x, y):
    def step():
        loss_fn(model(x), y).backward()
        optimizer.step()

    _, kept = saving(model, step)
    found = report(model, optimizer, kept)
    model.zero_grad()
    return found


# %% wrong: reads the optimizer's state before step()
# says: The optimizer has no state before its first step (state is created lazily).
# earns: 2 of 3
# lesson
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    found = report(model, optimizer, kept)
    optimizer.step()
    return found


# %% wrong: assumes two tensors per parameter
# says: The optimizer's state depends on the optimizer (Adam: two tensors per parameter plus a step counter
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, optimizer=2 * nbytes(model.parameters()))


# %% wrong: knows Adam's state only
# says: The optimizer's state depends on the optimizer
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    size = sum(entry[k].nbytes for entry in optimizer.state.values() for k in entry if k in ("exp_avg", "step"))
    return report(model, optimizer, kept, optimizer=size)


# %% wrong: counts saved weights as activations
# says: Saved weights are parameters, already counted there: leave the parameters' storages out of the activations.
# says: The check of the activations above is not passed yet
# earns: 1 of 3
# lesson
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(nn.Module(), lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: leaves out what is a Parameter, but Linear saves a transposed weight
# says: Saved weights are parameters, already counted there: leave the parameters' storages out of the activations.
# says: The check of the activations above is not passed yet
# earns: 1 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(nn.Module(), lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, [t for t in kept if not isinstance(t, nn.Parameter)])


# %% wrong: tells the parameters by where they begin
# says: Storages of parameters are left out, also where the parameter, or what is saved of it, is only a part
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(nn.Module(), lambda: loss_fn(model(x), y))
    parameters = {p.data_ptr() for p in model.parameters()}
    kept = [t for t in kept if t.data_ptr() not in parameters]
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: takes everything in the optimizer's state for a tensor
# says: An optimizer's state may hold other things than tensors: count the tensors only.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept) | {
        "optimizer": sum(v.nbytes for entry in optimizer.state.values() for v in entry.values())
    }


# %% wrong: adds up every saved tensor, shared storages repeatedly
# says: The same storage was counted more than once: a ReLU's output and the next layer's input are one tensor
# says: The check of the activations above is not passed yet
# earns: 1 of 3
# lesson
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, [], activations=nbytes(kept))


# %% wrong: counts elements
# says: You counted elements, not bytes: multiply by element_size().
# says: The check of the activations above is not passed yet
# earns: 0 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    found = report(model, optimizer, [], activations=sum({t.data_ptr(): t.numel() for t in kept}.values()))
    return {k: v if k == "activations" else v // 4 for k, v in found.items()}


# %% wrong: multiplies elements by 4
# says: Count the storage that is kept alive, not the elements
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return {
        "parameters": sum(p.numel() * 4 for p in model.parameters()),
        "gradients": sum(g.numel() * 4 for g in grads_of(model)),
        "optimizer": sum(v.numel() * 4 for v in state_of(optimizer)),
        "activations": sum({t.data_ptr(): t.numel() * 4 for t in kept}.values()),
    }


# %% wrong: 4 bytes for the activations only
# says: You assumed 4 bytes per element; this model is in another dtype.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // t.element_size() for t in kept}
    return report(model, optimizer, [], activations=4 * sum(storages.values()))


# %% wrong: adds up the outputs of all layers
# says: You added up layer outputs. Autograd keeps what the backward formulas need, which is something else
# says: The check of the activations above is not passed yet
# earns: 1 of 3
# lesson
def training_memory(model, optimizer, loss_fn, x, y):
    outs = []
    handles = [m.register_forward_hook(lambda m, i, out: outs.append(out.nbytes)) for m in model.children()]
    loss_fn(model(x), y).backward()
    optimizer.step()
    for handle in handles:
        handle.remove()
    return report(model, optimizer, [], activations=sum(outs))


# %% wrong: counts .grad after zero_grad
# says: The gradients were cleared before you counted them
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return report(model, optimizer, kept)


# %% wrong: assumes one gradient per parameter
# says: Gradients are not always as big as the parameters: frozen or unused parameters have none.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, gradients=nbytes(model.parameters()))


# %% wrong: one gradient per parameter that requires grad
# says: Gradients are not always as big as the parameters: frozen or unused parameters have none.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, gradients=nbytes([p for p in model.parameters() if p.requires_grad]))


# %% wrong: counts the trained parameters only
# says: Frozen parameters also take memory, so count all parameters.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, parameters=nbytes([p for p in model.parameters() if p.requires_grad]))


# %% wrong: asks the optimizer for the gradients
# says: The gradients are those of the model; the optimizer may have fewer parameters.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return report(model, optimizer, kept, gradients=nbytes([p.grad for p in parameters if p.grad is not None]))


# %% wrong: never calls step()
# says: Run the complete step: the parameters did not change.
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    return report(model, optimizer, kept)


# %% wrong: runs two steps, the first one to fill the optimizer's state
# says: Exactly one step is asked for, but it ran forward 2 times, loss 2 times, step 2 times.
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    for _ in range(2):
        optimizer.zero_grad()
        loss, kept = saving(model, lambda: loss_fn(model(x), y))
        loss.backward()
        optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: runs forward a second time for the activations
# says: Exactly one step is asked for, but it ran forward 2 times, loss 2 times.
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss_fn(model(x), y).backward()
    optimizer.step()
    _, kept = saving(model, lambda: loss_fn(model(x), y))
    return report(model, optimizer, kept)


# %% wrong: calls backward twice
# says: The parameters are not those after one complete step.
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward(retain_graph=True)
    loss.backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.add_(0.5)
    optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: counts the elements of a saved view, not its storage
# says: Count the storage that is kept alive, not the elements of the view that was saved
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    sizes = {t.untyped_storage().data_ptr(): t.nbytes for t in kept}
    return report(model, optimizer, [], activations=sum(sizes.values()))


# %% wrong: tells tensors apart by where they begin, not by their storage
# says: count each storage once
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    sizes = {t.data_ptr(): t.untyped_storage().nbytes() for t in kept}
    return report(model, optimizer, [], activations=sum(sizes.values()))


# %% wrong: computes the loss outside the hooks
# says: The loss function also saves tensors, so it must run inside the hooks.
# says: The check of the activations above is not passed yet
# earns: 1 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    out, kept = saving(model, lambda: model(x))
    loss_fn(out, y).backward()
    optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: leaves the batch out
# says: The batch also counts if it is saved: the first layer needs x for the gradient of its weight, the lo
# says: The check of the activations above is not passed yet
# earns: 1 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    batch = {t.untyped_storage().data_ptr() for t in (x, y)}
    return report(model, optimizer, [t for t in kept if t.untyped_storage().data_ptr() not in batch])


# %% wrong: leaves the labels out
# says: The labels are also saved for backward.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, [t for t in kept if t.is_floating_point()])


# %% wrong: a missing number
# says: The dict has no optimizer.
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    found = report(model, optimizer, kept)
    del found["optimizer"]
    return found


# %% wrong: prints, returns nothing
# says: A dict is asked for, not None.
# says: a dict is asked for, not None
# says: The check of the activations above is not passed yet
# earns: 0 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    print(report(model, optimizer, kept))


# %% right: a dict of its own class, sizes as floats
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return OrderedDict((name, float(size)) for name, size in report(model, optimizer, kept).items())


# %% wrong: in KiB
# says: The sizes are asked for in bytes.
# says: The size is asked for in bytes
# says: The check of the activations above is not passed yet
# earns: 0 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return {name: size / 1024 for name, size in report(model, optimizer, kept).items()}


# %% wrong: takes the state_dict for the parameters
# says: A parameter that two layers share is one parameter: count it once.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, parameters=nbytes(model.state_dict().values()))


# %% wrong: counts buffers as parameters
# says: Buffers are not parameters; the state_dict contains both.
# earns: 2 of 3
# corner: members
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, parameters=nbytes([*model.parameters(), *model.buffers()]))


# %% wrong: sizes as text
# says: The sizes must be numbers.
# says: the dict has no number under "activations"
# says: The check of the activations above is not passed yet
# earns: 0 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return {name: f"{size} bytes" for name, size in report(model, optimizer, kept).items()}


# %% wrong: a frozen weight is no parameter
# says: A frozen weight is also a parameter.
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(nn.Module(), lambda: loss_fn(model(x), y))
    trained = {p.untyped_storage().data_ptr() for p in model.parameters() if p.requires_grad}
    kept = [t for t in kept if t.untyped_storage().data_ptr() not in trained]
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: three steps of the optimizer, the first two undone
# says: Exactly one step is asked for, but it ran
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    before = [p.detach().clone() for p in model.parameters()]

    def step():
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

    step()
    with torch.no_grad():
        for parameter, old in zip(model.parameters(), before):
            parameter.copy_(old)
    optimizer.zero_grad()
    _, kept = saving(model, step)
    return report(model, optimizer, kept)


# %% wrong: parameters and gradients are one number
# says: : expected
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, parameters=nbytes(model.parameters()) + nbytes(grads_of(model)))


# %% wrong: no activations
# says: No activations were reported:
# says: The check of the activations above is not passed yet, and this one goes on from there: begin with that one.
# earns: 1 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    found = report(model, optimizer, kept)
    del found["activations"]
    return found


# %% wrong: activations are counted twice, for forward and for backward
# says: The activations are
# says: The check of the activations above is not passed yet, and this one goes on from there: begin with that one.
# earns: 1 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, activations=2 * distinct(kept))


# %% wrong: the batch counts in any case
# says: A frozen layer needs no gradient of its weight, so its input is not saved: ask autograd, don't guess.
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept, activations=distinct([*kept, x, y]))


# %% wrong: frozen parameters count as half a gradient
# says: These sizes are off:
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad) * 4
    return report(model, optimizer, kept, gradients=nbytes(grads_of(model)) + frozen // 2)


# %% wrong: leaves out what is a Parameter or a view of one
# says: A detached parameter still has the parameter's storage
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(nn.Module(), lambda: loss_fn(model(x), y))
    kept = [t for t in kept if not isinstance(t if t._base is None else t._base, nn.Parameter)]
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept)


# %% wrong: asks the optimizer's state for the model's parameters
# says: You left out a tensor in the optimizer's state that isn't stored under a parameter
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    state = [v for p in model.parameters() for v in optimizer.state[p].values() if torch.is_tensor(v)]
    return report(model, optimizer, kept, optimizer=nbytes(state))


# %% wrong: runs the step as a closure
# says: You called step() with an argument
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    kept = []

    def closure():
        optimizer.zero_grad()
        loss, tensors = saving(model, lambda: loss_fn(model(x), y))
        kept.extend(tensors)
        loss.backward()
        return loss

    optimizer.step(closure)
    return report(model, optimizer, kept)


# %% wrong: packs a clone, so that a storage is freed and its address used again
# says: If a storage that you counted is freed before the loss is computed, a later tensor may get its address
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    own, saved = {p.untyped_storage().data_ptr() for p in model.parameters()}, {}

    def pack(t):
        if t.untyped_storage().data_ptr() not in own:
            saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t.detach().clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return report(model, optimizer, [], activations=sum(saved.values()))


# %% wrong: packs bytes, as if they were saved to disk
# says: If a storage that you counted is freed before the loss is computed, a later tensor may get its address
# earns: 2 of 3
def training_memory(model, optimizer, loss_fn, x, y):
    saved = {}

    def pack(t):
        saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        file = io.BytesIO()
        torch.save(t.detach().clone(), file)
        return file.getvalue()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda data: torch.load(io.BytesIO(data))):
        loss = loss_fn(model(x), y)
    loss.backward()
    for p in model.parameters():
        saved.pop(p.untyped_storage().data_ptr(), None)
    optimizer.step()
    return report(model, optimizer, [], activations=sum(saved.values()))


# %% wrong: switches to eval mode first
# says: That is what is saved in eval mode
# earns: 2 of 3
# caught: hidden
def training_memory(model, optimizer, loss_fn, x, y):
    model.eval()
    loss, kept = saving(model, lambda: loss_fn(model(x), y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, kept)


# %% right: a compiled forward pass
def training_memory(model, optimizer, loss_fn, x, y):
    compiled = torch.compile(lambda x, y: loss_fn(model(x), y), backend="eager")
    loss, kept = saving(model, lambda: compiled(x, y))
    loss.backward()
    optimizer.step()
    return report(model, optimizer, [t.detach() for t in kept])
