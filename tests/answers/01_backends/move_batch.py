# corners: members

import copy
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary


def rest(batch, device, move):
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% right: a pytree helper
def move(batch, device):
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, Tensor) else leaf, batch)


# %% right: dispatches on the type, _make, refills a shallow copy of the dict, non_blocking
def move(value, where):
    match value:
        case Tensor():
            return value.to(where, non_blocking=True)
        case dict():
            moved = copy.copy(value)
            for key in moved:
                moved[key] = move(moved[key], where)
            return moved
        case list():
            return [move(item, where) for item in value]
        case tuple():
            items = (move(item, where) for item in value)
            return value._make(items) if hasattr(value, "_make") else tuple(items)
    return value


# %% right: a class; structures without a tensor come back as they are
class Mover:
    def __call__(self, batch, device):
        if torch.is_tensor(batch):
            return batch if batch.device == torch.device(device) else batch.to(device=device)
        if isinstance(batch, Mapping):
            items = {key: self(value, device) for key, value in batch.items()}
            return type(batch)(items) if batch else batch
        if isinstance(batch, tuple) and hasattr(batch, "_replace"):
            return batch._replace(**{name: self(getattr(batch, name), device) for name in batch._fields})
        if isinstance(batch, (list, tuple)) and batch:
            return type(batch)(map(self, batch, [device] * len(batch)))
        return batch


move = Mover()


# %% wrong: calls t.to(device) and returns t
# says: The tensor did not move: Tensor.to returns a new tensor, and its result was not used.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def move(batch, device):
    if isinstance(batch, Tensor):
        batch.to(device)
        return batch
    if isinstance(batch, dict):
        return {key: move(value, device) for key, value in batch.items()}
    return [move(item, device) for item in batch] if isinstance(batch, (list, tuple)) else batch


# %% wrong: assigns the moved tensors into the caller's dict
# says: You wrote the moved tensors into the caller's own structure. Build a new one.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        for key, value in batch.items():
            batch[key] = move(value, device)
        return batch
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: assigns into the caller's lists
# says: You wrote the moved tensors into the caller's own structure.
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, list):
        batch[:] = [move(item, device) for item in batch]
        return batch
    if isinstance(batch, tuple):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return batch


# %% wrong: rebuilds every tuple from one iterable
# says: A namedtuple must come back as the same namedtuple (batch.x must still work)
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    return type(batch)(move(item, device) for item in batch) if isinstance(batch, (list, tuple)) else batch


# %% wrong: a namedtuple comes back as a tuple
# says: A namedtuple must come back as the same namedtuple (batch.x must still work)
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, tuple):
        return tuple(move(item, device) for item in batch)
    return [move(item, device) for item in batch] if isinstance(batch, list) else batch


# %% wrong: returns lists for tuples
# says: The container type changed: types: batch[0]: expected 'tuple', got 'list'.
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    return [move(item, device) for item in batch] if isinstance(batch, (list, tuple)) else batch


# %% wrong: returns a plain dict for any mapping
# says: An OrderedDict is a dict too
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: move(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: treats everything iterable as a sequence
# says: A string is iterable, but it is a leaf here: pass it through as it is.
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, Iterable):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: makes lists of strings
# says: A string is iterable, but it is a leaf here: pass it through as it is.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, str):
        return list(batch)
    return rest(batch, device, move)


# %% wrong: forces a copy
# says: The tensor was on that device already, yet you made a copy
# earns: 2 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device, copy=True)
    return rest(batch, device, move)


# %% wrong: moves t.detach()
# says: The moved tensor left the autograd graph
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch if batch.device.type == torch.device(device).type else batch.detach().to(device)
    return rest(batch, device, move)


# %% wrong: moves t.data and sets requires_grad again
# says: The moved tensor left the autograd graph
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        if batch.device == torch.device(device):
            return batch
        return batch.data.to(device).requires_grad_(batch.requires_grad)
    return rest(batch, device, move)


# %% wrong: under no_grad
# says: The moved tensor left the autograd graph
# earns: 2 of 3
# caught: hidden
@torch.no_grad()
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    return rest(batch, device, move)


# %% wrong: an empty tensor of the same shape
# says: The moved tensor left the autograd graph
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch if batch.device.type == torch.device(device).type else torch.empty_like(batch, device=device)
    return rest(batch, device, move)


# %% wrong: casts everything to float32 on the way
# says: Moving must not change the dtype (integer labels stay integers)
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device, torch.float32)
    return rest(batch, device, move)


# %% wrong: floats become float32
# says: Every tensor moves, and its dtype, shape and requires_grad stay
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device, torch.float32) if batch.is_floating_point() else batch.to(device)
    return rest(batch, device, move)


# %% wrong: moves only the tensors directly in a list
# says: A tensor deeper in the structure did not move
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((k, v.to(device) if isinstance(v, Tensor) else v) for k, v in batch.items())
    if isinstance(batch, list):
        return [item.to(device) if isinstance(item, Tensor) else item for item in batch]
    return batch


# %% wrong: does not look into tuples
# says: A tensor deeper in the structure did not move
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    return [move(item, device) for item in batch] if isinstance(batch, list) else batch


# %% wrong: moves whatever has a .to
# says: Only tensors are moved: a module, or an object with a `.to` of its own, is passed through unchanged.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if hasattr(batch, "to"):
        return batch.to(device)
    return rest(batch, device, move)


# %% wrong: sorts the keys
# says: The keys and their order must stay
# says: What came back is not the batch that went in
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict) and all(isinstance(key, str) for key in batch):
        return type(batch)((key, move(batch[key], device)) for key in sorted(batch, key=lambda k: k[:1] in "xyzm"))
    return rest(batch, device, move)


# %% wrong: copies every other object
# says: Objects that are neither tensors nor structures must come back as they are.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, (dict, list, tuple, str, int, float)) or batch is None:
        return rest(batch, device, move)
    try:
        return copy.deepcopy(batch)
    except TypeError:
        return batch


# %% wrong: moves the first tensor's storage in place and returns nothing
# says: Your function returned nothing, but it must return the moved batch.
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        batch.to(device)


# %% wrong: drops None and empty things
# says: Numbers, strings and None are passed through as they are: types: missing: batch[0][2].
# says: This check builds on the first one
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch if item is not None]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% right: hands back a structure in which nothing moved
def move(batch: Any, device: torch.device | str) -> Any:
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        new = type(batch)((key, move(value, device)) for key, value in batch.items())
        return batch if all(new[key] is batch[key] for key in batch) else new
    if isinstance(batch, (list, tuple)):
        items = [move(item, device) for item in batch]
        if all(a is b for a, b in zip(items, batch)):
            return batch
        return batch._make(items) if hasattr(batch, "_make") else type(batch)(items)
    return batch


# %% wrong: moves the inputs, not the labels
# says: A float tensor moved, but this integer tensor did not.
# says: This check builds on the first one
# earns: 0 of 3
def move(batch: Any, device: torch.device | str) -> Any:
    if isinstance(batch, Tensor):
        return batch.to(device) if batch.is_floating_point() else batch
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: compares types, so that an OrderedDict is no dict
# says: An OrderedDict is a dict too
# earns: 2 of 3
# caught: hidden
def move(batch: Any, device: torch.device | str) -> Any:
    if type(batch) is Tensor:
        return batch.to(device)
    if type(batch) is dict:
        return {key: move(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: makes tensors of numbers
# says: Numbers, strings and None are passed through as they are
# says: This check builds on the first one
# earns: 0 of 3
def move(batch: Any, device: torch.device | str) -> Any:
    if isinstance(batch, (int, float)):
        return torch.tensor(batch, device=device)
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: moves to meta, whatever is asked for
# says: These tensors came back on another device than the one that was asked for.
# earns: 2 of 3
def move(batch: Any, device: torch.device | str) -> Any:
    if isinstance(batch, Tensor):
        return batch.to("meta")
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: a batch must be a structure
# says: A batch may be a single thing
# earns: 2 of 3
# caught: hidden
def move(batch: Any, device: torch.device | str, inside: bool = False) -> Any:
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device, True)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device, True) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    if not inside:
        raise TypeError("neither a tensor nor a structure")
    return batch


# %% wrong: turns arrays into tensors
# says: An array of NumPy's is no tensor
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if type(batch).__name__ == "ndarray":
        batch = torch.from_numpy(batch)
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: plain tensors only
# says: A parameter, or another subclass of Tensor, is also a tensor (isinstance says so), so it must move.
# earns: 2 of 3
# corner: members
# caught: hidden
def move(batch, device):
    if type(batch) is Tensor:
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


# %% wrong: a tuple inside of a list becomes a list
# says: The container type changed:
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple) and not hasattr(batch, "_fields"):
        return [move(item, device) for item in batch]
    return rest(batch, device, move)


# %% wrong: leaves out lists in lists
# says: Not everything came back, or too much:
# says: An OrderedDict is a dict too (isinstance says so), and comes back as one, its tensors moved.
# earns: 0 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, list):
        batch = [item for item in batch if not isinstance(item, list)]
    return rest(batch, device, move)


# %% wrong: looks into lists and plain tuples only
# says: A namedtuple is a tuple (isinstance says so): its tensors move.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    return batch if hasattr(batch, "_fields") else rest(batch, device, move)


# %% wrong: keys become text
# says: Containers, keys and all that is no tensor stay as they are:
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((str(key), move(value, device)) for key, value in batch.items())
    return rest(batch, device, move)


# %% wrong: switches off the gradient of the caller's leaf
# says: A tensor of the caller was changed: it no longer requires grad.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.requires_grad_(False).to(device) if batch.is_leaf else batch.to(device)
    return rest(batch, device, move)


# %% wrong: only what is trained goes on beside a result
# says: These are not the four tensors that went in:
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, list) and any(isinstance(item, Tensor) and item.requires_grad for item in batch):
        batch = [item for item in batch if not isinstance(item, Tensor) or item.requires_grad or item.ndim != 1]
    return rest(batch, device, move)


# %% wrong: a namedtuple of a new class with the same name
# says: A namedtuple must come back as the same namedtuple, with all its fields.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if hasattr(batch, "_fields"):
        return namedtuple(type(batch).__name__, batch._fields)(*(move(item, device) for item in batch))
    return rest(batch, device, move)


# %% wrong: the device must be a text
# says: The device may also be a torch.device.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to("cuda:0" if device.strip() == "cuda" else device)
    return rest(batch, device, move)


# %% wrong: a moved parameter is a new parameter
# says: The moved Parameter is a new one, a leaf of its own
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, torch.nn.Parameter) and batch.device != torch.device(device):
        return torch.nn.Parameter(batch.to(device), batch.requires_grad)
    if isinstance(batch, Tensor):
        return batch.to(device)
    return rest(batch, device, move)


# %% wrong: lists of one shape are moved as one tensor
# says: The tensor was on that device already, yet you made a copy
# earns: 2 of 3
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, list) and batch and all(isinstance(item, Tensor) for item in batch):
        if len({item.shape for item in batch}) == 1:
            return list(torch.stack(batch).to(device))
    return rest(batch, device, move)


# %% wrong: lists of one shape are moved as one tensor, if they have to move
# says: This tensor came back with another dtype or shape
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, list) and batch and all(isinstance(item, Tensor) for item in batch):
        if len({item.shape for item in batch}) == 1 and batch[0].device != torch.device(device):
            return list(torch.stack(batch).to(device))
    return rest(batch, device, move)


# %% wrong: dicts are built from keyword arguments
# says: Keys need not be strings: build the dict from pairs, not with `**`.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)(**{key: move(value, device) for key, value in batch.items()})
    return rest(batch, device, move)


# %% wrong: refuses what it does not know
# says: An array of NumPy's is no tensor: it is passed through as it is.
# earns: 2 of 3
# caught: hidden
def move(batch, device):
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, (dict, list, tuple, str, int, float)) or batch is None:
        return rest(batch, device, move)
    raise TypeError(f"cannot move {type(batch)}")


# %% wrong: one tensor for all that begin at the same address
# says: In place of a tensor, another one of the batch came back
# earns: 2 of 3
def move(batch, device, cache=None):
    cache = {} if cache is None else cache
    if isinstance(batch, Tensor):
        return cache.setdefault(batch.data_ptr(), batch.to(device))
    return rest(batch, device, lambda item, device: move(item, device, cache))


# %% wrong: each tensor is moved once, and its copy is kept as long as it lives
# says: A tensor was moved, then it was set to require grad, and was moved once more. The result is the one of the first
# earns: 2 of 3
# caught: hidden
kept = {}


def move(batch, device):
    if isinstance(batch, Tensor):
        copies = kept.setdefault(str(device), WeakTensorKeyDictionary())
        if batch not in copies and batch.device != torch.device(device):
            copies[batch] = batch.to(device)
        return copies.get(batch, batch)
    return rest(batch, device, move)
