# corners: caller's modes, second name

import contextlib
import copy
from collections import defaultdict

import torch


def storing(kept, store=lambda o: o.detach().clone()):
    def hook(module, inputs, output):
        kept.append(store(output))

    return hook


def captured(model, names, args, kwargs, store=lambda o: o.detach().clone(), run=None, give=lambda o, f: (o, f)):
    """A right answer with parts to replace."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for name in names:
        if name not in modules:
            raise KeyError(name)
    features, handles = {name: [] for name in names}, []

    try:
        for name in names:
            handles.append(modules[name].register_forward_hook(storing(features[name], store)))
        return give(run(*args, **kwargs) if run else model(*args, **kwargs), features)
    finally:
        for handle in handles:
            handle.remove()


# %% right: closures with bound names, handles removed in finally
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    if missing := [name for name in names if name not in modules]:
        raise KeyError(f"no such submodule: {missing}")
    features = {name: [] for name in names}
    handles = [
        modules[name].register_forward_hook(
            lambda module, inputs, output, name=name: features[name].append(output.clone().detach())
        )
        for name in names
    ]
    try:
        out = model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return out, features


# %% right: handles as context managers, an instance of a class as hook
class Keeper:
    def __init__(self):
        self.kept = []

    def __call__(self, module, inputs, output):
        with torch.no_grad():
            self.kept.append(output.clone())


def capture_features(model, names, *args, **kwargs):
    modules = {}
    for name in names:
        try:
            modules[name] = model.get_submodule(name)
        except AttributeError:
            raise KeyError(name) from None
    keepers = {name: Keeper() for name in names}
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(modules[name].register_forward_hook(keepers[name]))
        out = model(*args, **kwargs)
    return out, {name: keeper.kept for name, keeper in keepers.items()}


# %% right: one process-wide hook that filters by identity
def capture_features(model, names, *args, **kwargs):
    everything = dict(model.named_modules(remove_duplicate=False))
    wanted = [(name, everything[name]) for name in names]
    features = {name: [] for name in names}

    def note(module, inputs, output):
        for name in [name for name, chosen in wanted if chosen is module]:
            features[name].append(torch.empty_like(output).copy_(output).detach())

    handle = torch.nn.modules.module.register_module_forward_hook(note)
    try:
        return model(*args, **kwargs), features
    finally:
        handle.remove()


# %% right: hooks with keyword arguments, through .data
def capture_features(model, names, *args, **kwargs):
    found = {name: module for name, module in model.named_modules(remove_duplicate=False) if name in names}
    for name in names:
        found[name]
    features = {name: [] for name in names}
    handles = []

    def register(name):
        def hook(module, inputs, keywords, output):
            features[name].append(output.data.clone())

        handles.append(found[name].register_forward_hook(hook, with_kwargs=True, prepend=True))

    try:
        for name in found:
            register(name)
        out = model(*args, **kwargs)
    finally:
        while handles:
            handles.pop().remove()
    return out, features


# %% right: wraps forward of the chosen modules, and unwraps it
def wrap(module, kept):
    inner = module.forward

    def forward(*args, **kwargs):
        output = inner(*args, **kwargs)
        kept.append(output.detach().clone())
        return output

    module.forward = forward


def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}
    try:
        for name, module in chosen.items():
            wrap(module, features[name])
        return model(*args, **kwargs), features
    finally:
        for module in chosen.values():
            vars(module).pop("forward", None)


# %% right: hooks that are always called and return the output, in a defaultdict
def capture_features(model, names, *args, **kwargs):
    modules, features, handles = dict(model.named_modules(remove_duplicate=False)), defaultdict(list), []
    for name in names:
        modules[name], features[name]

    def keeping(name):
        def hook(module, inputs, output):
            if output is not None:
                features[name].append(output.detach().clone())
            return output

        return hook

    try:
        for name in names:
            handles.append(modules[name].register_forward_hook(keeping(name), always_call=True))
        out = model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return out, features


# %% right: one with inside the other
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    if unknown := set(names) - set(modules):
        raise KeyError(*unknown)
    features = {}

    def run(rest):
        if not rest:
            return model(*args, **kwargs)
        kept = features[rest[0]] = []
        with modules[rest[0]].register_forward_hook(lambda m, i, output: kept.append(torch.clone(output).detach_())):
            return run(rest[1:])

    return run(list(names)), features


# %% wrong: closure over the loop variable, lists made before
# says: Every feature landed under one name
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
# lesson
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    features = {name: [] for name in names}
    handles = []
    for name in names:
        handles.append(modules[name].register_forward_hook(lambda m, i, o: features[name].append(o.detach().clone())))
    try:
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: closure over the loop variable of named_modules
# says: Every feature landed under one name
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    features, handles = {}, []
    for name, module in model.named_modules(remove_duplicate=False):
        if name in names:
            hook = lambda m, i, o: features.setdefault(name, []).append(o.detach().clone())  # noqa: E731
            handles.append(module.register_forward_hook(hook))
    try:
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: closure over the loop variable, and assigns
# says: Every feature landed under one name
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    features, handles = {}, []
    for name in names:

        def hook(module, inputs, output):
            features[name] = [output.detach().clone()]

        handles.append(model.get_submodule(name).register_forward_hook(hook))
    out = model(*args, **kwargs)
    for handle in handles:
        handle.remove()
    return out, features


# %% wrong: looks names up in named_children
# says: Your function finds only direct children, and 'body.0' is deeper.
# says: A name was not found. '' means the model itself, and a dotted name may be deeper than named_children
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_children())
    features, handles = {name: [] for name in names}, []
    try:
        for name in names:
            handles.append(modules[name].register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: loops over named_children and skips the rest
# says: Your function finds only direct children, and 'body.0' is deeper.
# says: Hooks on the model itself did not fire
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    features, handles = {name: [] for name in names}, []
    try:
        for name, module in model.named_children():
            if name in names:
                handles.append(module.register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: getattr with a dotted name
# says: Your function finds only direct children, and 'body.0' is deeper.
# says: A name was not found. '' means the model itself, and a dotted name may be deeper than named_children
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    features, handles = {name: [] for name in names}, []
    try:
        for name in names:
            handles.append(getattr(model, name).register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: calls model.forward
# says: Hooks on the model itself did not fire
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, run=model.forward)


# %% wrong: stores the output with its graph
# says: The stored feature still requires grad, so it keeps the whole graph alive.
# says: The captured tensor changed after you stored it: the next layer works in place
# earns: 1 of 3
# lesson
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, store=lambda output: output)


# %% wrong: clones, but does not detach
# says: The stored feature still requires grad, so it keeps the whole graph alive.
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, store=lambda output: output.clone())


# %% wrong: detaches but does not copy
# says: The captured tensor changed after you stored it
# earns: 2 of 3
# lesson
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, store=lambda output: output.detach())


# %% wrong: copies at the end
# says: The captured tensor changed after you stored it
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs, store=lambda output: output.detach())
    return out, {name: [entry.clone() for entry in entries] for name, entries in features.items()}


# %% wrong: copies by contiguous
# says: The captured tensor changed after you stored it
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, store=lambda output: output.detach().contiguous())


# %% wrong: never removes the handles
# says: Hooks are still registered after the call; the next forward would go on collecting.
# earns: 2 of 3
# lesson
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    features = {name: [] for name in names}
    for name in names:
        if name not in modules:
            raise KeyError(name)
    for name in names:
        modules[name].register_forward_hook(storing(features[name]))
    return model(*args, **kwargs), features


# %% wrong: a process-wide hook that stays
# says: Hooks are still registered after the call
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    wanted = [(name, model.get_submodule(name)) for name in names]
    features = {name: [] for name in names}

    def note(module, inputs, output):
        for name in [name for name, chosen in wanted if chosen is module]:
            features[name].append(output.detach().clone())

    torch.nn.modules.module.register_module_forward_hook(note)
    return model(*args, **kwargs), features


# %% wrong: removes the last handle only
# says: Hooks are still registered after the call
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    features = {name: [] for name in names}
    for name in names:
        handle = model.get_submodule(name).register_forward_hook(storing(features[name]))
    out = model(*args, **kwargs)
    handle.remove()
    return out, features


# %% wrong: removes the handles only on success
# says: When forward raised, your hooks stayed. Removal belongs into `finally`.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    for name in names:
        if name not in modules:
            raise KeyError(name)
    features = {name: [] for name in names}
    handles = [modules[name].register_forward_hook(storing(features[name])) for name in names]
    out = model(*args, **kwargs)
    for handle in handles:
        handle.remove()
    return out, features


# %% wrong: clears the modules' hook dictionaries
# says: A hook that isn't yours disappeared
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    for name in names:
        if name not in modules:
            raise KeyError(name)
    features = {name: [] for name in names}
    for name in names:
        modules[name].register_forward_hook(storing(features[name]))
    try:
        return model(*args, **kwargs), features
    finally:
        for name in names:
            modules[name]._forward_hooks.clear()


# %% wrong: silently skips unknown names
# says: An unknown name must raise KeyError with that name before anything runs
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    known = dict(model.named_modules(remove_duplicate=False))
    return captured(model, [name for name in names if name in known], args, kwargs)


# %% wrong: an unknown name raises AttributeError
# says: An unknown name must raise KeyError; it raised AttributeError.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    for name in names:
        model.get_submodule(name)
    return captured(model, names, args, kwargs)


# %% wrong: looks a name up when it registers, outside of try
# says: The unknown name was refused, but hooks for the other names were left behind.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    features = {name: [] for name in names}
    handles = [modules[name].register_forward_hook(storing(features[name])) for name in names]
    try:
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: misses a name after the forward pass
# says: The model ran before the unknown name was refused.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    known = dict(model.named_modules(remove_duplicate=False))
    out, features = captured(model, [name for name in names if name in known], args, kwargs)
    return out, {name: features[name] for name in names}


# %% wrong: a KeyError without the name
# says: The KeyError must name the unknown name.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    known = dict(model.named_modules(remove_duplicate=False))
    if any(name not in known for name in names):
        raise KeyError("unknown submodule")
    return captured(model, names, args, kwargs)


# %% wrong: a parameter counts as a known name
# says: An unknown name must raise KeyError
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    known, parameters = dict(model.named_modules(remove_duplicate=False)), dict(model.named_parameters())
    for name in names:
        if name not in known and name not in parameters:
            raise KeyError(name)
    return captured(model, [name for name in names if name in known], args, kwargs)


# %% wrong: assigns instead of appending
# says: A layer used twice must give two entries; a plain assignment keeps only the last.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name: entries[-1:] for name, entries in features.items()}


# %% wrong: keeps the first call only
# says: A layer used twice must give two entries
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name: entries[:1] for name, entries in features.items()}


# %% wrong: the newest call first
# says: The entries must be in the order of the calls.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name: entries[::-1] for name, entries in features.items()}


# %% wrong: no key for a layer that was not called
# says: The name of a layer that was not called must still be a key of the dict, with an empty list.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name: entries for name, entries in features.items() if entries}


# %% wrong: a tensor in place of a list
# says: Every name has a list, with one entry for each call; you stored the tensor itself.
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name: entries[0] for name, entries in features.items()}


# %% wrong: returns the features only
# says: Return the model's output and the dict of features, in this order.
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs)[1]


# %% wrong: returns the features first
# says: Return the model's output and the dict of features, in this order.
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs)[::-1]


# %% wrong: forgets the output
# says: The features are there, but the output is missing
# says: Return the model's output and the dict of features, in this order.
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    return None, captured(model, names, args, kwargs)[1]


# %% wrong: detaches the returned output too
# says: The returned output has lost its graph, so it can't train the model
# says: The model's output may be of any kind, here a dict: return it as it is.
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, give=lambda out, features: (out.detach(), features))


# %% wrong: runs the model under no_grad
# says: The returned output has lost its graph, so it can't train the model
# says: The returned output has lost its graph.
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    with torch.no_grad():
        return captured(model, names, args, kwargs)


# %% wrong: the hook returns the detached copy and so replaces the output
# says: gives another gradient for body.0.weight than without your hooks.
# says: The captured tensor changed after you stored it: the next layer works in place
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    features = {name: [] for name in names}
    modules = dict(model.named_modules(remove_duplicate=False))
    if unknown := [name for name in names if name not in modules]:
        raise KeyError(*unknown)

    def storing(kept):
        def hook(module, inputs, output):
            kept.append(output.detach().clone())
            return kept[-1] if module is not model else None

        return hook

    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(modules[name].register_forward_hook(storing(features[name])))
        return (model(*args, **kwargs) + 0 * sum(p.sum() for p in model.parameters()), features)


# %% wrong: stores the input of each layer
# says: Those are the layers' inputs; a feature is what a layer gives out.
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        for name, module in chosen.items():
            hook = storing(features[name], store=lambda inputs: inputs[0].detach().clone())
            stack.enter_context(module.register_forward_hook(lambda m, i, o, hook=hook: hook(m, o, i)))
        return model(*args, **kwargs), features


# %% wrong: switches to eval mode
# says: Something of the model was changed: the training modes.
# says: The model was in training mode and must run in it; a norm or a dropout gives
# earns: 1 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    model.eval()
    return captured(model, names, args, kwargs)


# %% wrong: evaluates, then trains everything
# says: Something of the model was changed: the training modes.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    try:
        return captured(model, names, args, kwargs)
    finally:
        model.train()


# %% wrong: freezes the model
# says: Something of the model was changed: requires_grad
# says: The returned output does not train this model: no gradient reaches its
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    result = captured(model, names, args, kwargs)
    model.requires_grad_(False)
    return result


# %% wrong: runs the model a second time for the output
# says: The model must run once, and the hooks of others fire in it as usual.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    features = captured(model, names, args, kwargs)[1]
    return model(*args, **kwargs), features


# %% wrong: does not pass keyword arguments on
# says: All arguments of the call must reach the model, including keyword arguments.
# earns: 2 of 3
def capture_features(model, names, *args):
    return captured(model, names, args, {})


# %% wrong: swallows the exception of forward
# says: The model's own exception must reach the caller
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    try:
        return captured(model, names, args, kwargs)
    except ArithmeticError:
        return None, {}


# %% wrong: records every module
# says: The keys of the dict must be exactly the names that were asked for; item 1: not asked for
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, [name for name, _ in model.named_modules(remove_duplicate=False)], args, kwargs)


# %% wrong: returns nothing
# says: Return the model's output and the dict of features, in this order.
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    model(*args, **kwargs)


# %% wrong: exits
# says: Your code raised SystemExit
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    raise SystemExit


# %% wrong: runs a deep copy of the model
# says: no gradient reaches its parameters. Run the model itself, not a copy.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(copy.deepcopy(model), names, args, kwargs)


# %% wrong: runs in eval mode, then restores every mode
# says: The model was in training mode and must run in it
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modes = [module.training for module in model.modules()]
    model.eval()
    try:
        return captured(model, names, args, kwargs)
    finally:
        for module, mode in zip(model.modules(), modes, strict=True):
            module.training = mode


# %% wrong: compares the last part of the names
# says: Layers 'left.1' and 'right.1' are two different layers.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    known = dict(model.named_modules(remove_duplicate=False))
    features, handles = {name: [] for name in names if known[name] is not None}, []
    for place, module in known.items():
        for name in names:
            if place.split(".")[-1] == name.split(".")[-1]:
                handles.append(module.register_forward_hook(storing(features[name])))
    try:
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: compares the beginning of the names
# says: The name '' is the model itself and no other module.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    known = dict(model.named_modules(remove_duplicate=False))
    features, handles = {name: [] for name in names if known[name] is not None}, []
    for place, module in known.items():
        for name in names:
            if place.startswith(name):
                handles.append(module.register_forward_hook(storing(features[name])))
    try:
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: other keys
# says: The keys of the dict must be exactly the names that were asked for
# earns: 1 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name.replace(".", "_"): entries for name, entries in features.items()}


# %% wrong: one stacked tensor for a name
# says: Every name has a list, with one entry for each call
# says: Each name has a list: the outputs of its layer, one for each call, as they were
# says: Two layers were asked for, and they were not both captured, once each.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    out, features = captured(model, names, args, kwargs)
    return out, {name: torch.stack(entries) if entries else None for name, entries in features.items()}


# %% wrong: stores float32 whatever comes
# says: A feature has the dtype of the output: item 1: cell: item 0: expected
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, store=lambda output: output.detach().clone().float())


# %% wrong: leaves the grad mode off
# says: After the call the grad mode is off
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    result = captured(model, names, args, kwargs)
    torch.set_grad_enabled(False)
    return result


# %% wrong: takes the hooks of others away while the model runs
# says: and the hooks of others fire in it as usual.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    others = {module: module._forward_hooks.copy() for module in model.modules()}
    for module in others:
        module._forward_hooks.clear()
    try:
        return captured(model, names, args, kwargs)
    finally:
        for module, hooks in others.items():
            module._forward_hooks.update(hooks)


# %% wrong: removes the handles only where it raised
# says: Hooks are still registered after the call
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}
    handles = [module.register_forward_hook(storing(features[name])) for name, module in chosen.items()]
    try:
        return model(*args, **kwargs), features
    except Exception:
        for handle in handles:
            handle.remove()
        raise


# %% wrong: leaves a process-wide hook that raises
# says: Hooks are still registered after the call
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    result = captured(model, names, args, kwargs)

    def raising(module, inputs, output):
        raise ValueError

    torch.nn.modules.module.register_module_forward_hook(raising)
    return result


# %% wrong: calls itself for ever
# says: Your code raised RecursionError
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    return capture_features(model, names, *args, **kwargs)


# %% wrong: a string
# says: Return the model's output and the dict of features, in this order.
# says: The model must run once, and the hooks of others fire in it as usual.
# earns: 0 of 3
def capture_features(model, names, *args, **kwargs):
    return "features"


# %% wrong: the second name of a shared layer is unknown
# says: named_modules() lists an object once.
# earns: 2 of 3
# corner: second name
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules())
    features, handles = {name: [] for name in names}, []
    chosen = {name: modules[name] for name in names}
    try:
        for name, module in chosen.items():
            handles.append(module.register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: switches gradients on for the forward pass
# says: Called under no_grad, the grad mode was on in the forward pass or afterwards:
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    def run(*args, **kwargs):
        with torch.enable_grad():
            return model(*args, **kwargs)

    return captured(model, names, args, kwargs, run=run)


# %% wrong: gradients off while a feature is stored, and on afterwards
# says: Called under no_grad, the grad mode was on in the forward pass or afterwards:
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    def store(output):
        torch.set_grad_enabled(False)
        try:
            return output.clone()
        finally:
            torch.set_grad_enabled(True)

    return captured(model, names, args, kwargs, store)


# %% wrong: copies outputs of layers, not that of the model
# says: A feature changed when the returned output was changed in place. Every feature needs its own memory.
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    output, features = captured(model, names, args, kwargs)
    if "" in features:
        features[""] = [output.detach()]
    return output, features


# %% wrong: features in float32
# says: A feature has the dtype of the output:
# earns: 2 of 3
def capture_features(model, names, *args, **kwargs):
    return captured(model, names, args, kwargs, store=lambda o: o.detach().clone().float())


# %% wrong: takes '' for no name
# says: The name '' is the model itself; here it raised:
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    if "body" in names and "" in names:
        raise ValueError("'' is no name")
    return captured(model, names, args, kwargs)


# %% wrong: one call for each name of a layer
# says: A layer with two names is called under both of them: each has all of its calls.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    output, features = captured(model, names, args, kwargs)
    modules = list(model.named_modules(remove_duplicate=False))
    for name in features:
        same = [other for other, module in modules if module is dict(modules)[name]]
        if len(same) > 1:
            features[name] = features[name][same.index(name) :: len(same)]
    return output, features


# %% wrong: a table from modules to names
# says: The layer has two names, and only one of them has entries.
# earns: 2 of 3
# corner: second name
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    name_of = {modules[name]: name for name in names}
    features, handles = {name: [] for name in names}, []
    try:
        for module in name_of:
            hook = lambda module, inputs, output: features[name_of[module]].append(output.detach().clone())  # noqa: E731
            handles.append(module.register_forward_hook(hook))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: one copy for both names of a layer
# says: The two names of the layer share one copy
# earns: 2 of 3
# corner: second name
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    names_of = defaultdict(list)
    for name in names:
        names_of[modules[name]].append(name)
    features = {name: [] for name in names}

    def hook(module, inputs, output):
        kept = output.detach().clone()
        for name in names_of[module]:
            features[name].append(kept)

    handles = [module.register_forward_hook(hook) for module in names_of]
    try:
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: looks up and registers name by name
# says: Hooks for the other names were registered before the unknown name was refused.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    features, handles = {name: [] for name in names}, []
    try:
        for name in names:
            try:
                module = model.get_submodule(name)
            except AttributeError:
                raise KeyError(name) from None
            handles.append(module.register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()


# %% wrong: removes the handles for an Exception, and not for an interrupt
# says: When forward raised, your hooks stayed.
# earns: 2 of 3
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}
    features = {name: [] for name in names}
    handles = [module.register_forward_hook(storing(features[name])) for name, module in chosen.items()]
    try:
        output = model(*args, **kwargs)
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return output, features


# %% wrong: one dict for all calls
# says: The second call of your function changed what the first one had returned
# earns: 2 of 3
# caught: hidden
found = {}


def capture_features(model, names, *args, **kwargs):
    output, features = captured(model, names, args, kwargs)
    found.clear()
    found.update(features)
    return output, found


# %% wrong: a dict of the class, which is cleared by each call
# says: The second call of your function changed what the first one had returned
# earns: 2 of 3
# caught: hidden
class Extractor:
    features = {}

    def __init__(self, model, names):
        modules = dict(model.named_modules(remove_duplicate=False))
        layers = {name: modules[name] for name in names}
        self.features.clear()
        self.features.update({name: [] for name in names})
        self.handles = [layer.register_forward_hook(storing(self.features[name])) for name, layer in layers.items()]

    def __enter__(self):
        return self.features

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


def capture_features(model, names, *args, **kwargs):
    with Extractor(model, names) as features:
        return model(*args, **kwargs), features


# %% wrong: clones under inference_mode
# says: The features are inference tensors
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def capture_features(model, names, *args, **kwargs):
    def store(output):
        with torch.inference_mode():
            return output.clone()

    return captured(model, names, args, kwargs, store=store)
