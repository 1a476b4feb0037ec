# corners: caller's modes, members

import copy
import weakref

import torch


def measured(model, x, size, key=lambda t: t.untyped_storage().data_ptr(), own=None, count=None):
    """Watch what is saved; the sum of the sizes, one for each key, without the model's own keys."""
    kept, tensors = {}, []

    def pack(tensor):
        kept.setdefault(key(tensor), size(tensor))
        tensors.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    own = [*model.parameters(), *model.buffers()] if own is None else own
    keys = {key(tensor) for tensor in own}
    return sum(n for k, n in kept.items() if k not in keys)


def storage_bytes(tensor):
    return tensor.untyped_storage().nbytes()


# %% right: a dictionary by data_ptr of the storage
def activation_bytes(model, x):
    return measured(model, x, storage_bytes)


# %% right: one tensor for each storage, by the identity of the storage, added up at the end
def activation_bytes(model, x):
    own = {t.untyped_storage()._cdata for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        if tensor.untyped_storage()._cdata not in own:
            kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)
    total = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del out
    return total


# %% right: a class with pack and unpack, storages in a list
class Instrument:
    def __init__(self, model):
        self.storages = []
        self.own = [t.untyped_storage() for t in (*model.parameters(), *model.buffers())]

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if all(storage.data_ptr() != other.data_ptr() for other in self.storages + self.own):
            self.storages.append(storage)
        return tensor.detach()

    def unpack(self, packed):
        return packed


def activation_bytes(model, x):
    instrument = Instrument(model)
    with torch.autograd.graph.saved_tensors_hooks(instrument.pack, instrument.unpack):
        model(x)
    return sum(storage.size() for storage in instrument.storages)


# %% right: every saved tensor in a list, packed as its place
def activation_bytes(model, x):
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return len(saved) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, saved.__getitem__):
        model(x)
    counted = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    total = 0
    for tensor in saved:
        storage = tensor.untyped_storage()
        if storage._cdata not in counted:
            counted.add(storage._cdata)
            total += storage.nbytes()
    return total


# %% right: an expression as pack; a float
def activation_bytes(model, x):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        out = model(x)  # noqa: F841
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
    own = {t.untyped_storage().data_ptr() for _, t in (*model.named_parameters(), *model.named_buffers())}
    return float(sum(size for place, size in sizes.items() if place not in own))


# %% right: a deep copy of the model is measured
def activation_bytes(model, x):
    return measured(copy.deepcopy(model), x, storage_bytes)


# %% wrong: nothing is excluded
# says: Your count includes parameters or buffers.
# earns: 0 of 2
# lesson
def activation_bytes(model, x):
    return measured(model, x, storage_bytes, own=[])


# %% wrong: excludes parameters by object identity
# says: Your count includes parameters or buffers.
# earns: 0 of 2
# lesson
def activation_bytes(model, x):
    own = {id(tensor) for tensor in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        if id(tensor) not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    return sum(kept.values())


# %% wrong: excludes by the address of the first element
# says: Your count includes parameters or buffers.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    own = {tensor.data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    return sum(kept.values())


# %% wrong: excludes nn.Parameter by type
# says: Your count includes parameters or buffers.
# earns: 0 of 2
def activation_bytes(model, x):
    kept = {}

    def pack(tensor):
        if not isinstance(tensor, torch.nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    return sum(kept.values())


# %% wrong: forgets to exclude buffers
# says: Your count includes the model's buffers, such as the running statistics of a batch norm.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    return measured(model, x, storage_bytes, own=list(model.parameters()))


# %% wrong: excludes the state_dict, which lacks some buffers
# says: Your count includes the model's buffers, such as the running statistics of a batch norm.
# earns: 1 of 2
# corner: members
# caught: hidden
def activation_bytes(model, x):
    return measured(model, x, storage_bytes, own=list(model.state_dict().values()))


# %% wrong: excludes what the model itself holds, not its children
# says: Your count includes parameters or buffers.
# earns: 0 of 2
def activation_bytes(model, x):
    return measured(model, x, storage_bytes, own=[*model.parameters(recurse=False), *model.buffers()])


# %% wrong: adds up every packed tensor
# says: A storage that is saved through two views, or twice, was counted twice.
# says: Autograd keeps 1600 bytes here; your instrument says 2880.
# earns: 0 of 2
# lesson
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    total = 0

    def pack(tensor):
        nonlocal total
        if tensor.untyped_storage().data_ptr() not in own:
            total += tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return total


# %% wrong: distinct tensors by the address of their first element
# says: was counted twice.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    kept, own = {}, {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    return sum(kept.values())


# %% wrong: sums numel
# says: That is the number of elements, not bytes; half precision takes two bytes each.
# earns: 0 of 2
def activation_bytes(model, x):
    return measured(model, x, torch.numel)


# %% wrong: four bytes for each element
# says: That is the number of elements, not bytes; half precision takes two bytes each.
# earns: 0 of 2
def activation_bytes(model, x):
    return measured(model, x, lambda tensor: 4 * tensor.numel())


# %% wrong: numel times element_size of the saved view
# says: You counted the size of the view. What is kept alive is the whole storage behind it
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    return measured(model, x, lambda tensor: tensor.numel() * tensor.element_size())


# %% wrong: nbytes of the saved view
# says: You counted the size of the view.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    return measured(model, x, lambda tensor: tensor.nbytes)


# %% wrong: calls backward at the end
# says: The model or x was changed (gradients).
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)
    if out.requires_grad:
        out.sum().backward()
    return sum(n for address, n in kept.items() if address not in own)


# %% wrong: makes x require grad
# says: The model or x was changed (requires_grad).
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    total = measured(model, x, storage_bytes)
    if x.is_leaf:
        x.requires_grad_()
    return total


# %% wrong: trains what is frozen
# says: Autograd keeps 0 bytes here
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    model.requires_grad_()
    return measured(model, x, storage_bytes)


# %% wrong: switches to training mode
# says: The number is wrong because the model was switched to another mode
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    return measured(model.train(), x, storage_bytes)


# %% wrong: switches gradients on
# says: Autograd keeps 0 bytes here
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def activation_bytes(model, x):
    with torch.enable_grad():
        return measured(model, x, storage_bytes)


# %% wrong: forward hooks that sum the sizes of the outputs
# says: You summed the layers' outputs. Not every output is saved
# says: Autograd keeps 1600 bytes here; your instrument says 2880.
# earns: 0 of 2
# lesson
def activation_bytes(model, x):
    total, handles = 0, []

    def hook(module, args, output):
        nonlocal total
        total += output.untyped_storage().nbytes()

    for module in model.modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return total


# %% wrong: forward hooks on containers too
# says: You summed the layers' outputs. Not every output is saved
# says: Autograd keeps 1600 bytes here; your instrument says 3520.
# earns: 0 of 2
def activation_bytes(model, x):
    total, handles = 0, []

    def hook(module, args, output):
        nonlocal total
        total += output.nbytes

    for module in model.modules():
        handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return total


# %% wrong: x is left out
# says: x is missing: a layer saves its input
# earns: 0 of 2
def activation_bytes(model, x):
    return measured(model, x, storage_bytes, own=[x, *model.parameters(), *model.buffers()])


# %% wrong: counts without the distinct storages of half precision, by sys.getsizeof
# says: Autograd keeps 960 bytes here
# says: Autograd keeps 1600 bytes here; your instrument says
# earns: 0 of 2
def activation_bytes(model, x):
    import sys

    return measured(model, x, sys.getsizeof)


# %% wrong: runs the model first without the hooks
# says: model(x) must run once.
# earns: 0 of 2
def activation_bytes(model, x):
    model(x)
    return measured(model, x, storage_bytes)


# %% wrong: returns a tensor
# says: The result must be a number of bytes, an int.
# earns: 0 of 2
def activation_bytes(model, x):
    return torch.tensor(measured(model, x, storage_bytes))


# %% wrong: returns nothing
# says: The result must be a number of bytes, an int.
# earns: 0 of 2
def activation_bytes(model, x):
    measured(model, x, storage_bytes)


# %% wrong: pack returns nothing
# says: Storages are missing. Whatever pack neither returns nor keeps is freed during forward, and its addre
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    return sum(n for address, n in kept.items() if address not in own)


# %% wrong: counts each shape once
# says: Two storages of one shape are two storages.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.shape] = storage_bytes(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(kept.values())


# %% wrong: distinct tensors by their identity
# says: was counted twice.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[id(tensor)] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(map(storage_bytes, kept.values()))


# %% wrong: subtracts the size of the parameters
# says: Autograd keeps 960 bytes here; your instrument says 364.
# says: Autograd keeps 1600 bytes here; your instrument says 1440.
# earns: 0 of 2
def activation_bytes(model, x):
    return measured(model, x, storage_bytes, own=[]) - sum(p.nbytes for p in model.parameters())


# %% wrong: counts in unpack
# says: Nothing was counted.
# earns: 0 of 2
def activation_bytes(model, x):
    sizes = []

    def unpack(tensor):
        sizes.append(storage_bytes(tensor))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        model(x)
    return sum(sizes)


# %% wrong: runs the model before the block
# says: Nothing was counted.
# earns: 0 of 2
def activation_bytes(model, x):
    sizes = []
    model(x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(storage_bytes(t)) or t, lambda t: t):
        pass
    return sum(sizes)


# %% wrong: runs under no_grad
# says: Nothing was counted.
# earns: 0 of 2
def activation_bytes(model, x):
    with torch.no_grad():
        return measured(model, x, storage_bytes)


# %% wrong: enters the hooks and never leaves
# says: The hooks of saved tensors are still on after the call.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor).__enter__()
    model(x)
    return sum(storage_bytes(tensor) for place, tensor in kept.items() if place not in own)


# %% wrong: from the shapes of three layers
# says: model(x) must run once.
# says: Autograd keeps 1600 bytes here; your instrument says 960.
# earns: 0 of 2
def activation_bytes(model, x):
    return x.nbytes * 3


# %% wrong: counts copies
# says: was counted twice.
# says: Autograd keeps 1600 bytes here; your instrument says 2880.
# earns: 0 of 2
def activation_bytes(model, x):
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    copies = []

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            copies.append(tensor.clone())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(map(storage_bytes, copies))


# %% wrong: inputs of Linear layers only
# says: x is missing
# says: Autograd keeps 320 bytes here; your instrument says 1600.
# earns: 0 of 2
def activation_bytes(model, x):
    kept, handles = {}, []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            hook = lambda m, args, out: kept.update({args[0].data_ptr(): storage_bytes(args[0])})  # noqa: E731
            handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return sum(kept.values())


# %% wrong: leaves out only what is trained
# says: Your count includes frozen parameters.
# earns: 1 of 2
# corner: members
# caught: hidden
def activation_bytes(model, x):
    own = [tensor for tensor in [*model.parameters(), *model.buffers()] if tensor.requires_grad]
    return measured(model, x, storage_bytes, own=own)


# %% wrong: floating tensors only
# says: Your count leaves out a saved mask.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    return measured(model, x, lambda t: storage_bytes(t) if t.is_floating_point() else 0)


# %% wrong: leaves the hooks on if the model raises
# says: The model raised, and your hooks of saved tensors are still on.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    kept = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.detach()) or t.detach(), lambda t: t)
    hooks.__enter__()
    model(x)
    hooks.__exit__()
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    sizes = {t.untyped_storage().data_ptr(): storage_bytes(t) for t in kept}
    return sum(size for place, size in sizes.items() if place not in own)


# %% wrong: counts what is alive after forward
# says: Your count leaves out what a branch saved whose result is dropped.
# earns: 1 of 2
# caught: hidden
def activation_bytes(model, x):
    saved = {}

    def pack(tensor):
        packed = tensor.detach()
        saved[tensor.untyped_storage().data_ptr()] = weakref.ref(packed), storage_bytes(tensor)
        return packed

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)  # noqa: F841
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    return sum(size for place, (packed, size) in saved.items() if packed() is not None and place not in own)
