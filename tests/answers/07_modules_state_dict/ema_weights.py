# corners: members, second name, half precision

import copy

import torch
from torch import nn


class Base(nn.Module):
    """A right EMA with parts to replace."""

    def __init__(self, model, decay=0.999):
        super().__init__()
        self.decay = decay
        self.names = self.names_of(model)
        for k, name in enumerate(self.names):
            self.keep(k, self.first(model.state_dict()[name]))

    def names_of(self, model):
        return list(model.state_dict())

    def first(self, tensor):
        return tensor.detach().clone()

    def keep(self, k, tensor):
        self.register_buffer(f"b{k}", tensor)

    def look(self, k):
        return getattr(self, f"b{k}")

    def average(self):
        return {name: self.look(k) for k, name in enumerate(self.names)}

    def step(self, average, current):
        average.mul_(self.decay).add_(current.to(average.dtype), alpha=1 - self.decay)

    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for k, name in enumerate(self.names):
            average = self.look(k)
            if average.is_floating_point():
                self.step(average, state[name])
            else:
                average.copy_(state[name])

    @torch.no_grad()
    def copy_to(self, model):
        model.load_state_dict(self.average())


# %% right: numbered buffers, lerp_ in the dtype of the averages, load_state_dict
class EMA(Base):
    def step(self, average, current):
        average.lerp_(current.to(average.dtype), 1 - self.decay)


# %% right: a deep copy of the model without gradients, each tensor once
class EMA(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.decay = decay
        self.copy = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        current, seen = model.state_dict(), set()
        for name, average in self.copy.state_dict().items():
            if average.data_ptr() in seen:
                continue
            seen.add(average.data_ptr())
            if average.is_floating_point():
                average.lerp_(current[name].to(average), 1 - self.decay)
            else:
                average.copy_(current[name])

    def average(self):
        return self.copy.state_dict()

    def copy_to(self, model):
        model.load_state_dict(self.copy.state_dict())


# %% right: buffers under names with the dot written as a rare character sequence; new tensors in each update
class EMA(nn.Module):
    DOT = "<dot>"

    def __init__(self, model, decay=0.999):
        super().__init__()
        self.decay = decay
        for name, tensor in model.state_dict().items():
            self.register_buffer(name.replace(".", self.DOT), tensor.clone())

    def update(self, model):
        for name, tensor in model.state_dict().items():
            key = name.replace(".", self.DOT)
            old = self._buffers[key]
            if old.is_floating_point():
                new = self.decay * old + (1 - self.decay) * tensor.to(old.dtype)
            else:
                new = tensor.clone()
            setattr(self, key, new)

    def average(self):
        return {key.replace(self.DOT, "."): tensor.clone() for key, tensor in self._buffers.items()}

    def copy_to(self, model):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.average()[name])
            for name, buffer in model.named_buffers():
                buffer.copy_(self.average()[name])


# %% right: frozen Parameters and buffers in a module of the same shape
class EMA(Base):
    def keep(self, k, tensor):
        if tensor.is_floating_point():
            self.register_parameter(f"b{k}", nn.Parameter(tensor, requires_grad=False))
        else:
            self.register_buffer(f"b{k}", tensor)


# %% wrong: starts without a clone
# says: The average follows the model exactly: it shares memory with the parameter. Clone at construction.
# earns: 0 of 3
# lesson
class EMA(Base):
    def first(self, tensor):
        return tensor


# %% wrong: starts from zeros
# says: The EMA starts at the model's current values.
# says: After 50 small updates the average is not that of the formula.
# earns: 0 of 3
class EMA(Base):
    def first(self, tensor):
        return torch.zeros_like(tensor)


# %% wrong: weights exchanged
# says: Decay and 1 - decay are exchanged: the average moved almost all the way.
# says: After copy_to one more update does not give what the formula says.
# says: After load_state_dict, update() must go on from the averages that were loaded.
# earns: 0 of 3
class EMA(Base):
    def step(self, average, current):
        average.lerp_(current.to(average.dtype), self.decay)


# %% wrong: both weights are decay
# says: The average is not decay * average + (1 - decay) * current
# says: After copy_to one more update does not give what the formula says.
# says: After load_state_dict, update() must go on from the averages that were loaded.
# earns: 0 of 3
class EMA(Base):
    def step(self, average, current):
        average.mul_(self.decay).add_(current, alpha=self.decay)


# %% wrong: update outside no_grad on live parameters
# says: The averages require grad (or grow a graph): update under no_grad, from detached values.
# earns: 0 of 3
class EMA(Base):
    def update(self, model):
        state = model.state_dict(keep_vars=True)
        for k, name in enumerate(self.names):
            old = self.look(k)
            new = self.decay * old + (1 - self.decay) * state[name] if old.is_floating_point() else state[name].clone()
            setattr(self, f"b{k}", new)


# %% wrong: averages in a plain dict
# says: ema.state_dict() (or ema.to()) does not reach the averages
# earns: 1 of 3
# lesson
class EMA(Base):
    def keep(self, k, tensor):
        self.__dict__.setdefault("plain", {})[k] = tensor

    def look(self, k):
        return self.plain[k]


# %% wrong: averages as plain attributes
# says: plain attributes and dicts are neither saved nor moved. Use buffers.
# earns: 1 of 3
class EMA(Base):
    def keep(self, k, tensor):
        setattr(self, f"b{k}", tensor)


# %% wrong: a deep copy of the model in a list
# says: does not reach the averages
# earns: 1 of 3
class EMA(Base):
    def __init__(self, model, decay=0.999):
        nn.Module.__init__(self)
        self.decay, self.names = decay, list(model.state_dict())
        self.copies = [copy.deepcopy(model).requires_grad_(False)]

    def look(self, k):
        return self.copies[0].state_dict()[self.names[k]]


# %% wrong: non-persistent buffers
# says: The averages are buffers with persistent=False, which ema.state_dict() leaves out: register them as
# earns: 2 of 3
class EMA(Base):
    def keep(self, k, tensor):
        self.register_buffer(f"b{k}", tensor, persistent=False)


# %% wrong: averages parameters() only
# says: Batch-norm statistics must also be averaged: walk state_dict(), not parameters().
# says: average() must have the names of model.state_dict().
# earns: 0 of 3
# lesson
class EMA(Base):
    def names_of(self, model):
        return [name for name, _ in model.named_parameters()]


# %% wrong: copies the statistics in place of averaging them
# says: Batch-norm statistics must also be averaged: walk state_dict(), not parameters().
# earns: 1 of 3
class EMA(Base):
    def update(self, model):
        super().update(model)
        for k, name in enumerate(self.names):
            if name not in dict(model.named_parameters(remove_duplicate=False)):
                self.look(k).copy_(model.state_dict()[name])


# %% wrong: averages the integer counter too
# says: Integer entries cannot be averaged: copy them.
# earns: 0 of 3
# lesson
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for k, name in enumerate(self.names):
            self.step(self.look(k), state[name])


# %% wrong: turns the integer counter into a float
# says: Integer entries cannot be averaged: copy them
# says: A second copy_to must copy the averages of that moment into the model.
# earns: 0 of 3
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for k, name in enumerate(self.names):
            setattr(self, f"b{k}", self.decay * self.look(k) + (1 - self.decay) * state[name])


# %% wrong: leaves the integer counter where it started
# says: Each update must copy the integer entries; yours stay what they were at the start.
# says: After load_state_dict, update() must go on from the averages that were loaded.
# earns: 1 of 3
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for k, name in enumerate(self.names):
            if self.look(k).is_floating_point():
                self.step(self.look(k), state[name])


# %% wrong: without the integer entries
# says: All entries of the state_dict belong in average(), including the integer entries.
# says: average() must have the names of model.state_dict().
# earns: 0 of 3
class EMA(Base):
    def names_of(self, model):
        return [name for name, tensor in model.state_dict().items() if tensor.is_floating_point()]


# %% wrong: uses dotted names for buffers
# says: A buffer name must not contain a dot (KeyError): encode the dots and decode them in average().
# earns: 0 of 3
class EMA(Base):
    def keep(self, k, tensor):
        self.register_buffer(self.names[k], tensor)


# %% wrong: average() with internal names
# says: average() must have the names of model.state_dict().
# earns: 0 of 3
class EMA(Base):
    def average(self):
        return dict(self.named_buffers())


# %% wrong: dots become underscores, and back
# says: average() must have the names of model.state_dict().
# earns: 0 of 3
class EMA(Base):
    def keep(self, k, tensor):
        self.register_buffer(self.names[k].replace(".", "_"), tensor)

    def look(self, k):
        return getattr(self, self.names[k].replace(".", "_"))

    def average(self):
        return {name.replace("_", "."): tensor for name, tensor in self.named_buffers()}


# %% wrong: dots become underscores, with the list of names
# says: Names that differ only in dots and underscores have become one.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def keep(self, k, tensor):
        self.register_buffer(self.names[k].replace(".", "_"), tensor)

    def look(self, k):
        return getattr(self, self.names[k].replace(".", "_"))

    def average(self):
        return {name: self.look(k).clone() for k, name in enumerate(self.names)}


# %% wrong: dots become two underscores, and back
# says: average() must have the names of model.state_dict().
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def keep(self, k, tensor):
        self.register_buffer(self.names[k].replace(".", "__"), tensor)

    def look(self, k):
        return getattr(self, self.names[k].replace(".", "__"))

    def average(self):
        return {name.replace("__", "."): tensor for name, tensor in self.named_buffers()}


# %% wrong: averages as nn.Parameter
# says: ema.parameters() holds trainable parameters: an optimizer would train the average.
# earns: 1 of 3
class EMA(Base):
    def keep(self, k, tensor):
        if tensor.is_floating_point():
            self.register_parameter(f"b{k}", nn.Parameter(tensor))
        else:
            self.register_buffer(f"b{k}", tensor)

    def average(self):
        return {name: self.look(k).detach() for k, name in enumerate(self.names)}


# %% wrong: keeps the model itself as a child
# says: The EMA keeps the model itself: a module that you assign to self is registered, so ema.parameters()
# earns: 0 of 3
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(model, decay)
        self.model = model


# %% wrong: a deep copy of the model that stays trainable
# says: ema.parameters() holds trainable parameters
# earns: 1 of 3
class EMA(Base):
    def __init__(self, model, decay=0.999):
        nn.Module.__init__(self)
        self.decay, self.names = decay, list(model.state_dict())
        self.copied = copy.deepcopy(model)

    def look(self, k):
        return self.copied.state_dict()[self.names[k]]


# %% wrong: a tied weight averaged twice
# says: A weight with two names was averaged twice: state_dict() lists it under both.
# earns: 2 of 3
# corner: second name
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.999):
        nn.Module.__init__(self)
        self.decay, self.names = decay, list(model.state_dict())
        self.copied = copy.deepcopy(model).requires_grad_(False)

    def look(self, k):
        return self.copied.state_dict()[self.names[k]]


# %% wrong: named_parameters() and named_buffers(), which list a shared weight once
# says: average() must have the names of model.state_dict().
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def names_of(self, model):
        return [name for name, _ in [*model.named_parameters(), *model.named_buffers()]]

    def copy_to(self, model):
        model.load_state_dict(self.average(), strict=False)


# %% wrong: works in place on the model's tensors
# says: update() changed the model
# earns: 0 of 3
class EMA(Base):
    def step(self, average, current):
        current.mul_(1 - self.decay)
        average.mul_(self.decay).add_(current)


# %% wrong: writes the averages into the model at once
# says: update() changed the model
# earns: 0 of 3
class EMA(Base):
    def update(self, model):
        super().update(model)
        self.copy_to(model)


# %% wrong: update does nothing
# says: Not updated: 0.weight, 0.bias, 1.weight, 1.bias, 1.running_mean, 1.running_var.
# says: update() did not move the averages.
# says: After load_state_dict, update() must go on from the averages that were loaded.
# earns: 0 of 3
class EMA(Base):
    def step(self, average, current):
        average * self.decay + (1 - self.decay) * current


# %% wrong: copy_to sets new Parameters
# says: copy_to must write in place; the model's parameter objects were replaced.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def copy_to(self, model):
        for name, tensor in self.average().items():
            owner, _, kind = name.rpartition(".")
            module = model.get_submodule(owner)
            old = getattr(module, kind)
            if isinstance(old, nn.Parameter):
                setattr(module, kind, nn.Parameter(tensor.to(old.dtype).clone(), old.requires_grad))
            else:
                old.copy_(tensor)


# %% wrong: copy_to assigns the averages
# says: copy_to must write in place; the model's parameter objects were replaced.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def copy_to(self, model):
        model.load_state_dict(self.average(), assign=True)


# %% wrong: copy_to assigns .data
# says: After copy_to the model still shares memory with the averages: an update changes it.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def copy_to(self, model):
        for name, tensor in model.state_dict(keep_vars=True).items():
            tensor.data = self.average()[name].to(tensor.dtype)


# %% wrong: copy_to without the buffers
# says: After copy_to the model must hold the averages, parameters and buffers.
# earns: 2 of 3
class EMA(Base):
    @torch.no_grad()
    def copy_to(self, model):
        for name, parameter in model.named_parameters():
            parameter.copy_(self.average()[name])


# %% wrong: copy_to freezes the model
# says: copy_to must leave requires_grad alone.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def copy_to(self, model):
        model.requires_grad_(False)
        super().copy_to(model)


# %% wrong: copy_to does nothing
# says: copy_to wrote nothing.
# earns: 2 of 3
class EMA(Base):
    def copy_to(self, model):
        return self.average()


# %% wrong: lerp_ without a cast
# says: After a cast of the EMA update() must go on, whatever the model's dtype: cast the current values.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def step(self, average, current):
        average.lerp_(current, 1 - self.decay)


# %% wrong: computed in the model's dtype
# says: Small steps are lost: compute in the dtype of the averages.
# earns: 2 of 3
# corner: half precision
# caught: hidden
class EMA(Base):
    def step(self, average, current):
        average.copy_(self.decay * average.to(current.dtype) + (1 - self.decay) * current)


# %% wrong: takes over the model's dtype
# says: update() must keep the dtype that the averages have.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for k, name in enumerate(self.names):
            old, current = self.look(k).to(state[name].dtype), state[name].clone()
            new = self.decay * old + (1 - self.decay) * current if old.is_floating_point() else current
            setattr(self, f"b{k}", new)


# %% wrong: the default decay is 0.99
# says: The average is not decay * average + (1 - decay) * current
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.99):
        super().__init__(model, decay)


# %% wrong: a decay that warms up
# says: The average is not decay * average + (1 - decay) * current
# says: After copy_to one more update does not give what the formula says.
# says: After load_state_dict, update() must go on from the averages that were loaded.
# earns: 0 of 3
class EMA(Base):
    def step(self, average, current):
        self.steps = getattr(self, "steps", 0) + 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        average.mul_(decay).add_(current.to(average.dtype), alpha=1 - decay)


# %% wrong: average() returns a list
# says: average() must return a dict from names to tensors.
# earns: 0 of 3
class EMA(Base):
    def average(self):
        return [self.look(k) for k in range(len(self.names))]

    def copy_to(self, model):
        pass


# %% wrong: no module
# says: EMA must be a module.
# earns: 0 of 3
class EMA:
    def __init__(self, model, decay=0.999):
        self.decay, self.values = decay, {name: t.clone() for name, t in model.state_dict().items()}

    def update(self, model):
        for name, tensor in model.state_dict().items():
            self.values[name] = self.decay * self.values[name] + (1 - self.decay) * tensor

    def average(self):
        return self.values

    def copy_to(self, model):
        model.load_state_dict(self.values)


# %% right: frozen Parameters in a ParameterList
class EMA(Base):
    def keep(self, k, tensor):
        setattr(self, f"b{k}", nn.Parameter(tensor, requires_grad=False))


# %% right: a dict that moves by _apply and is saved as extra state
class EMA(Base):
    def keep(self, k, tensor):
        self.__dict__.setdefault("kept", []).append(tensor)

    def look(self, k):
        return self.kept[k]

    def _apply(self, fn, recurse=True):
        self.kept = [fn(tensor) for tensor in self.kept]
        return super()._apply(fn, recurse)

    def get_extra_state(self):
        return [tensor.clone() for tensor in self.kept]

    def set_extra_state(self, state):
        self.kept = [tensor.clone() for tensor in state]


# %% wrong: frozen parameters are left out
# says: Not updated: head.bias.
# earns: 2 of 3
# corner: members
# caught: hidden
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
        before = {name: average.clone() for name, average in self.average().items()}
        super().update(model)
        for name in frozen:
            self.average()[name].copy_(before[name])


# %% wrong: the first update copies
# says: An update copied the model's values as they are.
# says: After a cast of the EMA an update does not give decay * average + (1 - decay) * current.
# earns: 0 of 3
class EMA(Base):
    def update(self, model):
        decay = self.decay
        self.decay, self.begun = (decay if hasattr(self, "begun") else 0.0), True
        super().update(model)
        self.decay = decay


# %% wrong: the ready-made one, whose first update copies
# says: An update copied the model's values as they are.
# says: After a cast of the EMA an update does not give decay * average +
# says: ema.parameters() holds trainable parameters: an optimizer would train the
# earns: 0 of 3
class EMA(torch.optim.swa_utils.AveragedModel):
    def __init__(self, model, decay=0.999):
        super().__init__(model, avg_fn=lambda old, new, count: decay * old + (1 - decay) * new, use_buffers=True)

    def update(self, model):
        self.update_parameters(model)

    def average(self):
        return self.module.state_dict()

    def copy_to(self, model):
        model.load_state_dict(self.module.state_dict())


# %% wrong: the parameters alone are updated
# says: No buffer was updated: batch-norm statistics must also be averaged, and their counter copied. Walk
# says: After copy_to one more update does not give what the formula says.
# says: After load_state_dict, update() must go on from the averages that were loaded.
# earns: 0 of 3
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        current = dict(model.named_parameters(remove_duplicate=False))
        for k, name in enumerate(self.names):
            if name in current:
                self.step(self.look(k), current[name])


# %% wrong: buffers that are not persistent
# says: The averages are buffers with persistent=False, which ema.state_dict() leaves out: register them as
# earns: 2 of 3
class EMA(Base):
    def keep(self, k, tensor):
        self.register_buffer(f"b{k}", tensor, persistent=False)


# %% wrong: keeps the model beside right buffers
# says: The EMA keeps the model itself: a module that you assign to self is registered, so ema.parameters()
# earns: 0 of 3
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(model, decay)
        self.model = model


# %% wrong: names without their dots
# says: Names that differ only in dots and underscores have become one.
# earns: 2 of 3
# caught: hidden
class EMA(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.decay = decay
        self.m_name2s_name = {}
        for name, p in model.state_dict().items():
            s_name = name.replace(".", "")
            self.m_name2s_name[name] = s_name
            self.register_buffer(s_name, p.clone().detach())

    @torch.no_grad()
    def update(self, model):
        shadow = dict(self.named_buffers())
        for name, value in model.state_dict().items():
            own = shadow[self.m_name2s_name[name]]
            if own.is_floating_point():
                own.mul_(self.decay).add_(value.to(own), alpha=1 - self.decay)
            else:
                own.copy_(value)

    def average(self):
        return {name: self.get_buffer(own) for name, own in self.m_name2s_name.items()}

    @torch.no_grad()
    def copy_to(self, model):
        model.load_state_dict(self.average())


# %% wrong: no super().__init__()
# says: Call super().__init__() first in __init__.
# says: cannot assign buffer before Module.__init__() call
# earns: 0 of 3
class EMA(Base):
    def __init__(self, model, decay=0.999):
        for k, tensor in enumerate(model.state_dict().values()):
            self.keep(k, tensor.clone())


# %% wrong: takes the tensors of a loaded state over
# says: Two EMAs share their averages after load_state_dict.
# earns: 2 of 3
class EMA(Base):
    def load_state_dict(self, state, *args, **kwargs):
        return super().load_state_dict(state, assign=True)


# %% wrong: computes in the dtype of the model
# says: Small steps are lost: compute in the dtype of the averages.
# earns: 2 of 3
# corner: half precision
# caught: hidden
class EMA(Base):
    def step(self, average, current):
        average.copy_(average.to(current.dtype) * self.decay + current * (1 - self.decay))


# %% wrong: entries with the same address are one
# says: Two entries of different shapes have become one. Tensors without elements all have the address 0
# earns: 2 of 3
# caught: hidden
class EMA(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.decay, self.place = decay, {}
        places = {}
        for name, tensor in model.state_dict().items():
            self.place[name] = places.setdefault(tensor.data_ptr(), f"b{len(places)}")
            if self.place[name] not in self._buffers:
                self.register_buffer(self.place[name], tensor.clone())

    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for buffer, name in {buffer: name for name, buffer in self.place.items()}.items():
            average = self.get_buffer(buffer)
            if average.is_floating_point():
                average.mul_(self.decay).add_(state[name].to(average), alpha=1 - self.decay)
            else:
                average.copy_(state[name])

    def average(self):
        return {name: self.get_buffer(buffer) for name, buffer in self.place.items()}

    @torch.no_grad()
    def copy_to(self, model):
        for name, tensor in model.state_dict().items():
            tensor.copy_(self.get_buffer(self.place[name]))


# %% wrong: knows integers by the name num_batches_tracked
# says: Integer entries cannot be averaged: copy them, with their dtype (
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    @torch.no_grad()
    def update(self, model):
        for name, current in model.state_dict().items():
            average = self.average()[name]
            if not name.endswith("num_batches_tracked"):
                current = self.decay * average + (1 - self.decay) * current.to(average)
            average.copy_(current)


# %% wrong: decay as a buffer
# says: After `ema.to(torch.bfloat16)` an update with decay 0.999 from 0 towards 1000 changes nothing
# earns: 2 of 3
# corner: half precision
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(model)
        del self.decay
        self.register_buffer("decay", torch.tensor(decay))

    def step(self, average, current):
        average.mul_(self.decay).add_(current.to(average.dtype) * (1 - self.decay))


# %% wrong: decay as a float32 tensor that nothing casts
# says: After `ema.to(torch.float64)` an update with decay 0.999 from 0 towards 1000 has only the digits of float32.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(model, torch.tensor(decay))

    def step(self, average, current):
        average.mul_(self.decay).add_(current.to(average.dtype) * (1 - self.decay))


# %% wrong: a deep copy of the model in eval mode, which was the model itself
# says: EMA(model) switched train/eval flags of the model that is trained
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(copy.deepcopy(model.eval()), decay)


# %% wrong: eval mode for the time of the update, then train(was)
# says: update() changed train/eval flags of the model.
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def update(self, model):
        was = model.training
        model.eval()
        super().update(model)
        model.train(was)


# %% right: copy_to gives the same objects new memory
class EMA(Base):
    def copy_to(self, model):
        for name, tensor in model.state_dict(keep_vars=True).items():
            tensor.data = self.average()[name].to(tensor, copy=True)


# %% wrong: entries with the same address are one, if they have elements
# says: Two entries of different shapes have become one. A view of the first rows has the same `data_ptr()`
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(model, decay)
        first = {}
        self.places = [first.setdefault(t.data_ptr() or -k, k) for k, t in enumerate(model.state_dict().values())]

    def look(self, k):
        return getattr(self, f"b{self.places[k]}")

    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for k in {*self.places}:
            average, current = self.look(k), state[self.names[k]]
            self.step(average, current) if average.is_floating_point() else average.copy_(current)


# %% wrong: entries with the same address are one, and get the values of the last of them
# says: Two entries of different shapes have become one. A view of the first rows has the same `data_ptr()`
# earns: 2 of 3
# caught: hidden
class EMA(Base):
    def __init__(self, model, decay=0.999):
        super().__init__(model, decay)
        first = {}
        self.places = [first.setdefault(t.data_ptr() or -k, k) for k, t in enumerate(model.state_dict().values())]

    def look(self, k):
        return getattr(self, f"b{self.places[k]}")

    @torch.no_grad()
    def update(self, model):
        state = model.state_dict()
        for place, name in dict(zip(self.places, self.names, strict=True)).items():
            average, current = self.look(place), state[name]
            self.step(average, current) if average.is_floating_point() else average.copy_(current)
