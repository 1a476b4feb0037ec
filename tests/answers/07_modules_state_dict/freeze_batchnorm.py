# corners: second name, members

import types

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase


def norms_of(model, kinds=_BatchNorm, modules=lambda model: model.modules()):
    return [m for m in modules(model) if isinstance(m, kinds)]


def refuse(layer):
    """Freezes one layer for good."""
    layer.eval()
    layer.train = lambda mode=True: layer


def frozen(layers, *steps):
    for layer in layers:
        for step in steps:
            step(layer)
    return len(layers)


def no_grad(layer):
    layer.requires_grad_(False)


# %% right: a forward pre-hook that switches the layer to eval just before it runs
def freeze_batchnorm(model):
    layers = norms_of(model)
    for layer in layers:
        for parameter in layer.parameters():
            parameter.requires_grad = False
        layer.register_forward_pre_hook(lambda module, args: module.eval() and None)
    return len(layers)


# %% right: changes the class of each layer to a subclass whose train() does nothing
def freeze_batchnorm(model):
    count = 0
    for layer in norms_of(model):
        count += 1
        layer.eval().requires_grad_(False)
        kind = type(layer)
        layer.__class__ = type(f"Frozen{kind.__name__}", (kind,), {"train": lambda self, mode=True: self})
    return count


# %% right: a bound method that passes False on
def freeze_batchnorm(model):
    def train(self, mode=True):
        return nn.Module.train(self, False)

    layers = [m for _, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for layer in layers:
        layer.train = types.MethodType(train, layer)
        layer.train()
        if layer.affine:
            layer.weight.requires_grad_(False)
            layer.bias.requires_grad_(False)
    return len(layers)


# %% right: a forward of its own with the running statistics
def freeze_batchnorm(model):
    def forward(layer, x):
        use_batch = layer.running_mean is None
        return torch.nn.functional.batch_norm(
            x, layer.running_mean, layer.running_var, layer.weight, layer.bias, use_batch, 0.0, layer.eps
        )

    layers = norms_of(model)
    for layer in layers:
        layer.requires_grad_(False)
        layer.forward = types.MethodType(forward, layer)
    return len(layers)


# %% wrong: the given code
# says: Freeze exactly the batch norms: BatchNorm1d, 2d, 3d and SyncBatchNorm
# says: Weight and bias of the frozen layers must have requires_grad=False.
# earns: 0 of 2
def freeze_batchnorm(model):
    for m in model.children():
        if isinstance(m, nn.BatchNorm2d):
            m.requires_grad_(False)
            m.eval()


# %% wrong: requires_grad_(False) only
# says: requires_grad=False freezes weight and bias only; the running statistics are buffers and are updated
# says: model.train() switched the layers back: eval() does not last. The layer must
# earns: 0 of 2
# lesson
def freeze_batchnorm(model):
    return frozen(norms_of(model), no_grad)


# %% wrong: eval() once
# says: model.train() switched the layers back: eval() does not last. The layer must refuse train mode.
# earns: 0 of 2
# lesson
def freeze_batchnorm(model):
    return frozen(norms_of(model), no_grad, lambda layer: layer.eval())


# %% wrong: the train method of the model alone is replaced
# says: train() of a part of the model switched its layers back; the model's own train() did not. Each
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    layers = norms_of(model)

    def train(mode=True):
        type(model).train(model, mode)
        for layer in layers:
            nn.Module.train(layer, False)
        return model

    model.train = train
    return frozen(layers, no_grad, lambda layer: layer.eval())


# %% wrong: momentum = 0
# says: The statistics no longer change, but the layer still normalises with those of the batch
# earns: 0 of 2
# lesson
def freeze_batchnorm(model):
    return frozen(norms_of(model), no_grad, lambda layer: setattr(layer, "momentum", 0.0))


# %% wrong: track_running_stats = False
# says: The statistics no longer change, but the layer still normalises with those of the batch
# earns: 0 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model), no_grad, lambda layer: setattr(layer, "track_running_stats", False))


# %% wrong: model.children()
# says: Nested layers were missed: walk modules().
# says: Weight and bias of the frozen layers must have requires_grad=False.
# earns: 0 of 2
# lesson
def freeze_batchnorm(model):
    return frozen(norms_of(model, modules=lambda model: model.children()), no_grad, refuse)


# %% wrong: isinstance BatchNorm2d
# says: Freeze exactly the batch norms: BatchNorm1d, 2d, 3d and SyncBatchNorm, but not InstanceNorm
# says: Weight and bias of the frozen layers must have requires_grad=False.
# earns: 0 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model, nn.BatchNorm2d), no_grad, refuse)


# %% wrong: 1d and 2d only
# says: Freeze exactly the batch norms: BatchNorm1d, 2d, 3d and SyncBatchNorm
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    return frozen(norms_of(model, (nn.BatchNorm1d, nn.BatchNorm2d)), no_grad, refuse)


# %% wrong: without SyncBatchNorm
# says: Freeze exactly the batch norms: BatchNorm1d, 2d, 3d and SyncBatchNorm
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    return frozen(norms_of(model, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)), no_grad, refuse)


# %% wrong: the base class that InstanceNorm shares
# says: but not InstanceNorm, which shares their base class.
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    return frozen(norms_of(model, _NormBase), no_grad, refuse)


# %% wrong: everything with running statistics
# says: but not InstanceNorm, which shares their base class.
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    return frozen([m for m in model.modules() if hasattr(m, "running_mean")], no_grad, refuse)


# %% wrong: every normalisation and dropout layer
# says: Other layers must still follow train() and eval(): only the batch norms are frozen.
# earns: 1 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model, (_NormBase, nn.Dropout)), no_grad, refuse)


# %% wrong: the layer norm, too
# says: Only the batch norms are frozen: other parameters must still require grad.
# earns: 1 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model, (_BatchNorm, nn.LayerNorm)), no_grad, refuse)


# %% wrong: the whole model is frozen
# says: Only the batch norms are frozen: other parameters must still require grad.
# earns: 1 of 2
def freeze_batchnorm(model):
    layers = norms_of(model)
    head = model.head if hasattr(model, "head") else None
    model.requires_grad_(False)
    if head is not None:
        head.requires_grad_(True)
    return frozen(layers, refuse)


# %% wrong: the model refuses train mode
# says: Other layers must still follow train() and eval()
# earns: 1 of 2
def freeze_batchnorm(model):
    layers = norms_of(model)
    frozen(layers, no_grad)
    refuse(model)
    return frozen(layers, refuse)


# %% wrong: leaves weight and bias trainable
# says: Weight and bias of the frozen layers must have requires_grad=False.
# earns: 1 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model), refuse)


# %% wrong: leaves bias trainable
# says: Weight and bias of the frozen layers must have requires_grad=False.
# earns: 1 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model), lambda layer: layer.affine and layer.weight.requires_grad_(False), refuse)


# %% wrong: stumbles over a layer without weight
# says: A layer may have no weight and bias, or no running statistics.
# earns: 1 of 2
# corner: members
# caught: hidden
def freeze_batchnorm(model):
    def step(layer):
        layer.weight.requires_grad = False
        layer.bias.requires_grad = False

    return frozen(norms_of(model), step, refuse)


# %% wrong: resets the running statistics
# says: The layers were replaced or their state changed: keys and values of state_dict must stay.
# earns: 0 of 2
def freeze_batchnorm(model):
    return frozen(norms_of(model), lambda layer: layer.reset_running_stats(), no_grad, refuse)


# %% wrong: puts Identity in the place of the layers
# says: The layers were replaced or their state changed: keys and values of state_dict must stay.
# earns: 0 of 2
def freeze_batchnorm(model):
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(module, name, nn.Identity())
                count += 1
    return count


# %% wrong: weight and bias become buffers under other names
# says: The layers were replaced or their state changed: keys and values of state_dict must stay.
# earns: 0 of 2
def freeze_batchnorm(model):
    def step(layer):
        weight = layer.weight.detach().clone()
        del layer.weight
        layer.register_buffer("frozen_weight", weight)
        layer.weight = weight

    return frozen([layer for layer in norms_of(model) if layer.affine], step, no_grad, refuse)


# %% wrong: keeps the statistics of the moment of freezing
# says: Frozen layers must use the statistics of a checkpoint that is loaded.
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    def step(layer):
        if layer.running_mean is None:
            return refuse(layer)
        mean, var = layer.running_mean.clone(), layer.running_var.clone()
        layer.forward = lambda x: torch.nn.functional.batch_norm(
            x, mean, var, layer.weight, layer.bias, False, 0.0, layer.eps
        )

    return frozen(norms_of(model), no_grad, step)


# %% wrong: no gradient passes the frozen layers
# says: the layers before a frozen one are trained
# earns: 1 of 2
def freeze_batchnorm(model):
    def step(layer):
        layer.register_forward_hook(lambda module, args, output: output.detach())

    return frozen(norms_of(model), no_grad, refuse, step)


# %% wrong: statistics are put back after each forward
# says: still normalises with those of the batch
# earns: 0 of 2
def freeze_batchnorm(model):
    def step(layer):
        saved = {name: buffer.clone() for name, buffer in layer.named_buffers()}

        def restore(module, args, output):
            with torch.no_grad():
                for name, buffer in module.named_buffers():
                    buffer.data.copy_(saved[name])

        layer.register_forward_hook(restore)

    return frozen(norms_of(model), no_grad, step)


# %% wrong: no return value
# says: Return the number of frozen batch-norm layers - those and no others.
# earns: 1 of 2
def freeze_batchnorm(model):
    frozen(norms_of(model), no_grad, refuse)


# %% wrong: counts the parameters
# says: Return the number of frozen batch-norm layers - those and no others.
# earns: 1 of 2
def freeze_batchnorm(model):
    layers = norms_of(model)
    frozen(layers, no_grad, refuse)
    return sum(len(list(layer.parameters())) for layer in layers)


# %% wrong: counts a layer with two names twice
# says: You counted a layer more than once because it is in several places of the model.
# earns: 1 of 2
# corner: second name
# caught: hidden
def freeze_batchnorm(model):
    modules = [m for _, m in model.named_modules(remove_duplicate=False)]
    return frozen(norms_of(model, modules=lambda model: modules), no_grad, refuse)


# %% wrong: returns the layers
# says: Return the number of frozen batch-norm layers - those and no others.
# earns: 1 of 2
def freeze_batchnorm(model):
    layers = norms_of(model)
    frozen(layers, no_grad, refuse)
    return layers


# %% wrong: a forward in eval mode that counts the batches
# says: num_batches_tracked still counts
# earns: 0 of 2
def freeze_batchnorm(model):
    def step(layer):
        def count(module, args):
            if module.num_batches_tracked is not None:
                module.num_batches_tracked += 1

        layer.register_forward_pre_hook(count)

    return frozen(norms_of(model), no_grad, refuse, step)


# %% right: a class in which training is always False
class Off:
    training = property(lambda self: False, lambda self, value: None)


def freeze_batchnorm(model):
    layers = norms_of(model)
    for layer in layers:
        layer.requires_grad_(False)
        if not isinstance(layer, Off):
            layer.__class__ = type(type(layer).__name__, (Off, type(layer)), {})
    return len(layers)


# %% wrong: changes the class, for every model
# says: You also froze the batch norms of another model: change the layers of this model, not their class.
# earns: 0 of 2
def freeze_batchnorm(model):
    _BatchNorm.train = lambda self, mode=True: self
    return frozen(norms_of(model), no_grad, lambda layer: setattr(layer, "training", False))


# %% wrong: a hook of all modules
# says: You also froze the batch norms of another model
# earns: 0 of 2
def freeze_batchnorm(model):
    def hook(module, args):
        if isinstance(module, _BatchNorm):
            module.training = False

    nn.modules.module.register_module_forward_pre_hook(hook)
    return frozen(norms_of(model), no_grad)


# %% wrong: a hook of the whole model only
# says: model.train() switched the layers back
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    layers = norms_of(model)
    if type(model) is nn.Sequential:
        model.register_forward_pre_hook(lambda module, args: [layer.eval() for layer in layers] and None)
    return frozen(layers, no_grad)


# %% wrong: counts on from call to call
# says: Return the number of frozen batch-norm layers - those and no others.
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    model.__dict__["count"] = model.__dict__.get("count", 0) + frozen(norms_of(model), no_grad, refuse)
    return model.__dict__["count"]


# %% wrong: without the model itself
# says: The model itself may be a batch norm: modules() lists it.
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    return frozen([layer for layer in norms_of(model) if layer is not model], no_grad, refuse)


# %% wrong: a lambda that sees the loop's last layer
# says: must return the layer itself; yours returns another one
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    layers = norms_of(model)
    for layer in layers:
        layer.requires_grad_(False)
        layer.eval()
        layer.train = lambda mode=True: layer
    return len(layers)


# %% wrong: a train method that returns nothing
# says: must return the layer itself; yours returns nothing
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    layers = norms_of(model)
    for layer in layers:
        layer.requires_grad_(False)
        layer.eval()
        layer.train = lambda mode=True: None
    return len(layers)


# %% wrong: train() of the whole model is overridden
# says: train() of a part of the model switched its layers back; the model's own train() did not. Each
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = norms_of(model, kinds)
    train = type(model).train

    def switched(mode=True):
        train(model, mode)
        for layer in layers:
            layer.training = False
        return model

    if model not in layers:
        model.train = switched
    for layer in layers:
        no_grad(layer)
        layer.training = False
        if layer is model:
            refuse(layer)
    return len(layers)


# %% wrong: sets requires_grad of the layers, which means nothing
# says: Batch-norm layers do not normalise with their running statistics, or change them.
# says: Weight and bias of the frozen layers must have requires_grad=False.
# earns: 0 of 2
def freeze_batchnorm(model):
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.requires_grad = False
    return len(layers)


# %% wrong: apply() and a counter
# says: You counted a layer more than once because it is in several places of the model.
# earns: 1 of 2
# corner: second name
# caught: hidden
def freeze_batchnorm(model):
    found = []

    def freeze(layer):
        if isinstance(layer, _BatchNorm):
            found.append(layer)
            frozen([layer], no_grad, refuse)

    model.apply(freeze)
    return len(found)


# %% wrong: recursion over children() adds up
# says: You counted a layer more than once because it is in several places of the model.
# earns: 1 of 2
# corner: second name
# caught: hidden
def freeze_batchnorm(model):
    if isinstance(model, _BatchNorm):
        return frozen([model], no_grad, refuse)
    return sum(map(freeze_batchnorm, model.children()))


# %% wrong: looks for the name of the class
# says: A layer whose class is derived from nn.BatchNorm1d is a batch norm, whatever its class is called
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    return frozen([m for m in model.modules() if "BatchNorm" in type(m).__name__], no_grad, refuse)


# %% wrong: a forward pre-hook that returns the module
# says: A batch-norm layer got a module as its input. What a forward pre-hook returns replaces the input
# earns: 0 of 2
def freeze_batchnorm(model):
    layers = norms_of(model)
    for layer in layers:
        layer.register_forward_pre_hook(lambda module, args: module.eval())
    return frozen(layers, no_grad)


# %% wrong: a lambda that takes no mode
# says: `layer.train(mode=True)` raises TypeError
# earns: 1 of 2
# caught: hidden
def freeze_batchnorm(model):
    layers = norms_of(model)
    for layer in layers:
        layer.eval().requires_grad_(False)
        layer.train = lambda *args, layer=layer: layer
    return len(layers)
