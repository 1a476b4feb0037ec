# %% right: walks through the graph and reads what its nodes saved
# Each node of the graph offers what it saved under names such as `_saved_self`, so no hook has to be set before the
# forward pass. These names are private, and a custom Function has none, so what such a Function saves isn't counted.
def training_memory(model, optimizer, loss_fn, x, y):
    """One step, with the saved tensors read from the graph."""
    loss = loss_fn(model(x), y)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved, nodes = {}, [loss.grad_fn]
    for node in nodes:
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else ()
            for tensor in value if isinstance(value, tuple) else (value,):
                if isinstance(tensor, Tensor):
                    saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        nodes += [below for below, _ in node.next_functions if below is not None and below not in nodes]
    loss.backward()
    optimizer.step()

    parameters = list(model.parameters())
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    return {
        "parameters": sum(p.nbytes for p in parameters),
        "gradients": sum(p.grad.nbytes for p in parameters if p.grad is not None),
        "optimizer": sum(value.nbytes for value in state if isinstance(value, Tensor)),
        "activations": sum(size for place, size in saved.items() if place not in own),
    }


# %% wrong: leaves out what is an nn.Parameter
# says: Saved weights are parameters, already counted there: leave the parameters' storages out of the activations.
# A linear layer saves its weight as a transposed view. The view is a plain tensor, but its storage is the parameter's.
def training_memory(model, optimizer, loss_fn, x, y):
    """One step, with the views of weights among the activations."""
    saved = {}

    def pack(tensor):
        if not isinstance(tensor, nn.Parameter):
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()

    parameters = list(model.parameters())
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    return {
        "parameters": sum(p.nbytes for p in parameters),
        "gradients": sum(p.grad.nbytes for p in parameters if p.grad is not None),
        "optimizer": sum(value.nbytes for value in state if isinstance(value, Tensor)),
        "activations": sum(saved.values()),
    }
