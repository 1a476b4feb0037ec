# %% right: one hook for all modules of the process
# `register_module_forward_hook` calls the hook after every module, and the hook keeps what was asked for. There is one
# handle to remove, but the hook also runs for all other modules, even those of another model. It runs before a module's
# own hooks, so if one of them replaces the output, the feature is the old output, where the author keeps the new one.
def capture_features(model, names, *args, **kwargs):
    """The output and the features, from one global hook."""
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}

    def hook(module, args, output):
        for name, wanted in chosen.items():
            if module is wanted:
                features[name].append(output.detach().clone())

    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        return model(*args, **kwargs), features
    finally:
        handle.remove()


# %% right: wraps the forward of each module
# An instance attribute `forward` hides the method of the class, so no hook is used at all. Like a global hook, it keeps
# what `forward` returns, not what another hook makes of it. You have to put back what was there before.
def capture_features(model, names, *args, **kwargs):
    """The output and the features, noted by wrappers around forward."""
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}

    def noting(forward, kept):
        def noted(*args, **kwargs):
            output = forward(*args, **kwargs)
            kept.append(output.detach().clone())
            return output

        return noted

    before = [(module, dict(vars(module))) for module in chosen.values()]
    try:
        for name, module in chosen.items():
            module.forward = noting(module.forward, features[name])
        return model(*args, **kwargs), features
    finally:
        for module, attributes in before:
            vars(module).pop("forward", None)  # a module with two names comes here twice
            vars(module).update(attributes)


# %% wrong: detaches without a copy
# says: The captured tensor changed after you stored it: the next layer works in place and detach() shares memory.
# `detach` cuts the graph, but the result shares its memory with the output. If the next layer works in place, such as
# `nn.ReLU(inplace=True)`, the feature is what that layer made of it.
def capture_features(model, names, *args, **kwargs):
    """The output, and features that may change afterwards."""
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}

    def storing(kept):
        def hook(module, args, output):
            kept.append(output.detach())

        return hook

    handles = []
    try:
        for name, module in chosen.items():
            handles.append(module.register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()
