# corners: members

import copy
import io

import torch


# %% right: deep copy of the state_dict
def snapshot(model):
    return copy.deepcopy(model.state_dict())


# %% right: fills freshly allocated tensors
def snapshot(model):
    out = {}
    for name, value in model.state_dict().items():
        out[name] = torch.empty_like(value)
        out[name].copy_(value)
    return out


# %% right: detaches and clones the live parameters
def snapshot(model):
    live = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: live[name].detach().clone() for name in model.state_dict()}


# %% right: saves to memory and loads again
def snapshot(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return torch.load(file)


# %% right: clones under no_grad
@torch.no_grad()
def snapshot(model):
    return {name: torch.clone(value) for name, value in model.state_dict(keep_vars=True).items()}


# %% right: the state_dict of a deep copy of the model
def snapshot(model):
    return {name: value.detach() for name, value in copy.deepcopy(model).state_dict().items()}


# %% right: another name of the parameter; to with copy=True
def snapshot(net):
    return {name: value.to(value.device, copy=True) for name, value in net.state_dict().items()}


# %% right: replaces the entries of the state_dict by copies
def snapshot(model):
    state = model.state_dict()
    for name in state:
        state[name] = state[name].clone()
    return state


# %% right: the named parameters and the persistent buffers
def snapshot(model):
    taken = {name: value.detach().clone() for name, value in model.named_parameters()}
    return taken | {name: value.clone() for name, value in model.named_buffers() if name in model.state_dict()}


# %% wrong: the code as given, detach()
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def snapshot(model):
    return {name: value.detach() for name, value in model.state_dict().items()}


# %% wrong: copies the dict only
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def snapshot(model):
    return dict(model.state_dict())


# %% wrong: shallow copy
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return copy.copy(model.state_dict())


# %% wrong: contiguous() as a copy
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def snapshot(model):
    return {name: value.contiguous() for name, value in model.state_dict().items()}


# %% wrong: .to('cpu') on a CPU model
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return {name: value.to("cpu") for name, value in model.state_dict().items()}


# %% wrong: .data
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return {name: value.data for name, value in model.state_dict().items()}


# %% wrong: through NumPy with as_tensor
# says: The snapshot changed when the model was trained, because it has other names for the same memory and
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return {name: torch.as_tensor(value.numpy()) for name, value in model.state_dict().items()}


# %% wrong: clones the parameters only, keeps names for the buffers
# says: not copies (1.running_mean, 1.running_var, 1.num_batches_tracked)
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    names = dict(model.named_parameters())
    return {n: v.clone() if n in names else v for n, v in model.state_dict().items()}


# %% wrong: clones the parameters, forgets buffers
# says: Buffers are missing (1.running_mean, 1.running_var, 1.num_batches_tracked, 1.visible)
# says: This check builds on the first one
# earns: 0 of 1
# lesson
def snapshot(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


# %% wrong: takes the floats only
# says: Entries are missing: 1.num_batches_tracked, 1.visible.
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}


# %% wrong: takes non-persistent buffers too
# says: Keys that state_dict() does not have: scratch. Non-persistent buffers do not belong in it.
# earns: 0.5 of 1
# corner: members
def snapshot(model):
    out = {name: value.detach().clone() for name, value in model.named_parameters()}
    return out | {name: value.clone() for name, value in model.named_buffers()}


# %% wrong: clones without leaving the graph
# says: A snapshot that requires grad keeps the graph (and its memory) alive
# earns: 0.5 of 1
# caught: hidden
def snapshot(model):
    return {name: value.clone() for name, value in model.state_dict(keep_vars=True).items()}


# %% wrong: clones that require grad
# says: A snapshot that requires grad keeps the graph
# earns: 0.5 of 1
# caught: hidden
def snapshot(model):
    out = {name: value.clone() for name, value in model.state_dict().items()}
    return {name: v.requires_grad_() if v.is_floating_point() else v for name, v in out.items()}


# %% wrong: goes through Python lists
# says: A snapshot must keep dtypes: scale is torch.float64, got torch.float32.
# earns: 0.5 of 1
def snapshot(model):
    return {name: torch.tensor(value.tolist()) for name, value in model.state_dict().items()}


# %% wrong: v + 0 as a copy
# says: Arithmetic such as `v + 0` or `v * 1` makes numbers of bools.
# earns: 0.5 of 1
def snapshot(model):
    return {name: value + 0 for name, value in model.state_dict().items()}


# %% wrong: one copy for each address
# says: On the meta device some entries have the shape of another entry.
# earns: 0.5 of 1
# caught: hidden
def snapshot(model):
    copies = {}
    state = model.state_dict()
    for value in state.values():
        copies.setdefault(value.data_ptr(), value.clone())
    return {name: copies[value.data_ptr()] for name, value in state.items()}


# %% wrong: float() as a copy
# says: A snapshot must keep dtypes
# earns: 0.5 of 1
def snapshot(model):
    return {name: value.clone().float() for name, value in model.state_dict().items()}


# %% wrong: switches requires_grad off in the model on the way
# says: Taking the snapshot changed the model itself: requires_grad
# earns: 0.5 of 1
def snapshot(model):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return {name: value.clone() for name, value in model.state_dict().items()}


# %% wrong: switches the model to eval mode
# says: Taking the snapshot changed the model itself: training
# earns: 0.5 of 1
def snapshot(model):
    model.eval()
    return {name: value.clone() for name, value in model.state_dict().items()}


# %% wrong: clears the gradients
# says: Taking the snapshot changed the model itself: gradients
# earns: 0.5 of 1
# caught: hidden
def snapshot(model):
    model.zero_grad()
    return {name: value.clone() for name, value in model.state_dict().items()}


# %% wrong: replaces the parameters and keeps the old ones
# says: Taking the snapshot changed the model itself: parameters or buffers got other memory
# earns: 0.5 of 1
def snapshot(model):
    old = model.state_dict()
    model.load_state_dict(copy.deepcopy(old), assign=True)
    return old


# %% wrong: one dict for all snapshots
# says: A later snapshot changed an earlier one.
# earns: 0.5 of 1
# caught: hidden
best = {}


def snapshot(model):
    for name, value in model.state_dict().items():
        if name in best:
            best[name].copy_(value)
        else:
            best[name] = value.clone()
    return dict(best)


# %% wrong: remembers the first snapshot
# says: The second snapshot does not hold the model's later weights.
# earns: 0.5 of 1
# caught: hidden
known = {}


def snapshot(model):
    if id(model) not in known:
        known[id(model)] = (model, {name: value.clone() for name, value in model.state_dict().items()})
    return known[id(model)][1]


# %% wrong: moves the copies to the CPU
# says: The copies must stay on the devices of the originals
# earns: 0.5 of 1
# caught: hidden
def snapshot(model):
    return {name: value.cpu().clone() for name, value in model.state_dict().items()}


# %% wrong: zeroes the gradients in place
# says: Taking the snapshot changed the model itself: gradients
# earns: 0.5 of 1
# caught: hidden
def snapshot(model):
    model.zero_grad(set_to_none=False)
    return {name: value.clone() for name, value in model.state_dict().items()}


# %% wrong: a deep copy of the model instead of a dict
# says: The snapshot must be a dict from names to tensors; found: Sequential.
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return copy.deepcopy(model)


# %% wrong: NumPy arrays
# says: The snapshot must be a dict from names to tensors; found: ndarray.
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return {name: value.numpy().copy() for name, value in model.state_dict().items()}


# %% wrong: returns nothing
# says: The snapshot must be a dict from names to tensors; found: None.
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    model.best = {name: value.clone() for name, value in model.state_dict().items()}


# %% wrong: keeps the memory and gives the model a copy
# says: Taking the snapshot changed the model itself: parameters or buffers got other memory
# earns: 0.5 of 1
def snapshot(model):
    taken = {name: value.clone() for name, value in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        taken[name] = parameter.data
        parameter.data = parameter.data.clone()
    return taken


# %% wrong: gives the model new buffers
# says: Taking the snapshot changed the model itself: parameters or buffers got other memory
# earns: 0.5 of 1
def snapshot(model):
    taken = model.state_dict()
    for module in model.modules():
        for name, value in list(module._buffers.items()):
            module._buffers[name] = value.clone()
    return {name: value.clone() for name, value in taken.items()}


# %% wrong: other keys
# says: Entries are missing: scale, 0.weight
# says: This check builds on the first one
# earns: 0 of 1
def snapshot(model):
    return {"best." + name: value.clone() for name, value in model.state_dict().items()}


# %% wrong: loses precision on the way
# says: Entry scale was not copied as it is
# earns: 0.5 of 1
def snapshot(model):
    return {name: value.half().to(value.dtype) for name, value in model.state_dict().items()}


# %% wrong: parameters, without buffers
# says: ): a model with batch norm is not restored by its parameters alone.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 1
def snapshot(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


# %% wrong: leaves a hook that keeps the model as it is
# says: Loading the snapshot does not restore the old outputs.
# earns: 0.5 of 1
def snapshot(model):
    taken = {name: value.clone() for name, value in model.state_dict().items()}
    model.register_load_state_dict_pre_hook(lambda module, state, *args: state.update(module.state_dict()))
    return taken


# %% wrong: notes in a default argument what it has copied already
# says: It was right in the first check and is wrong here: does your code keep something from one call to the next?
# earns: 0.5 of 1
def snapshot(model, copied=set()):
    taken = {name: value.clone() for name, value in model.state_dict().items() if name not in copied}
    copied.update(taken)
    return taken


# %% wrong: all entries through one float64 vector
# says: Entry 1.num_batches_tracked was not copied as it is
# earns: 0.5 of 1
def snapshot(model):
    state = model.state_dict()
    flat = torch.cat([value.flatten().double() for value in state.values()])
    parts = flat.split([value.numel() for value in state.values()])
    return {name: part.view_as(value).to(value.dtype) for (name, value), part in zip(state.items(), parts)}
