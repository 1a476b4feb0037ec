# %% right: a subclass whose train() does nothing
# Each layer gets a class of its own whose `train` leaves the flag alone. In a deep copy, `train` returns the copied
# layer, where the author's function still returns the original one. Neither answer lets you pickle the whole model.
def freeze_batchnorm(model):
    """Freeze all batch-norm layers, by a class of their own."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.eval().requires_grad_(False)
        kind = type(layer)
        layer.__class__ = type(f"Frozen{kind.__name__}", (kind,), {"train": lambda self, mode=True: self})
    return len(layers)


# %% right: a forward pre-hook
# Right before each forward the hook switches its layer to eval, whatever model.train() has done to it. In between,
# `training` may be True.
def freeze_batchnorm(model):
    """Freeze all batch-norm layers, by a hook."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.requires_grad_(False)
        layer.register_forward_pre_hook(lambda module, args: module.eval() and None)
    return len(layers)


# %% wrong: momentum = 0
# says: The statistics no longer change, but the layer still normalises with those of the batch
# A momentum of 0 stops the update of the running statistics. In train mode nobody reads them.
def freeze_batchnorm(model):
    """Stops the statistics only."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.requires_grad_(False)
        layer.momentum = 0.0
    return len(layers)
