# corners: nan, half precision, empty, equal values
import copy
import math
from collections import OrderedDict
from contextlib import ExitStack

import torch
from torch.utils._pytree import tree_leaves


def floats_of(output):
    return [t.detach() for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def rms(output):
    parts = [t.float().flatten() for t in floats_of(output)]
    values = torch.cat(parts) if parts else torch.empty(0)
    return values.square().mean().sqrt().item() if values.numel() else 0.0


def leaves(model):
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


def sizes_of(model, x, size=rms, modules=leaves):
    """(name, size) of every output in the order of the run."""
    found = []

    def watching(name):
        return lambda module, args, output: found.append((name, size(output)))

    handles = [module.register_forward_hook(watching(name)) for name, module in modules(model)]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


def first(found, limit):
    return next(((name, size) for name, size in found if not size <= limit), None)


# %% right: hooks on modules without children, the first entry
def first_exploding(model, x, limit):
    return first(sizes_of(model, x), limit)


# %% right: a nonlocal, inference_mode, an ExitStack
def first_exploding(model, x, limit):
    hit = None

    def hook(module, args, output):
        nonlocal hit
        parts = floats_of(output)
        count = sum(t.numel() for t in parts)
        if hit is None and count:
            size = math.sqrt(sum(float(torch.linalg.vector_norm(t.double())) ** 2 for t in parts) / count)
            if size > limit or not math.isfinite(size):
                hit = names[module], size

    names = {module: name for name, module in model.named_modules() if len(list(module.children())) == 0}
    with ExitStack() as stack, torch.inference_mode():
        for module in names:
            stack.callback(module.register_forward_hook(hook).remove)
        model(x)
    return hit


# %% right: one global hook with a table of names
def first_exploding(model, x, limit):
    names = {module: name for name, module in leaves(model)}
    hits = []

    def hook(module, args, output):
        if module in names and not rms(output) <= limit:
            hits.append((names[module], rms(output)))

    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return hits[0] if hits else None


# %% wrong: size > limit
# says: Your code didn't notice a nan, because every comparison with nan is False. Check `not size <= limit`.
# earns: 1 of 2
# lesson
# corner: nan
def first_exploding(model, x, limit):
    return next(((name, size) for name, size in sizes_of(model, x) if size > limit), None)


# %% wrong: the last hit
# says: You return the last output over the limit, not the first.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def first_exploding(model, x, limit):
    return first(sizes_of(model, x)[::-1], limit)


# %% wrong: the order of named_modules
# says: You went through the layers in the order of registration, but this model runs them in a different order.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found = dict(sizes_of(model, x))
    return first([(name, found[name]) for name, _ in leaves(model) if name in found], limit)


# %% wrong: containers too, the shortest name
# says: Name the layer without children, not the container around it.
# says: This check builds on the first one
# earns: 0 of 2
def first_exploding(model, x, limit):
    hits = [hit for hit in sizes_of(model, x, modules=lambda m: m.named_modules()) if not hit[1] <= limit]
    return min(hits, key=lambda hit: len(hit[0]), default=None)


# %% wrong: mean of the values
# says: In a mean (or sum) the values cancel. The size is the root of the mean SQUARE.
# says: This check builds on the first one
# earns: 0 of 2
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, lambda out: abs(out.float().mean().item())), limit)


# %% wrong: the largest value
# says: You return the largest value, but one outlier is no explosion here. The size is the root mean square.
# says: This check builds on the first one
# earns: 0 of 2
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, lambda out: out.abs().max().item()), limit)


# %% wrong: the norm
# says: A norm grows with the number of values. The size is the root of the MEAN square.
# says: This check builds on the first one
# earns: 0 of 2
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, lambda out: out.norm().item()), limit)


# %% wrong: without the root
# says: You return the mean square. The size is its root.
# says: This check builds on the first one
# earns: 0 of 2
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, lambda out: out.square().mean().item()), limit)


# %% wrong: squares in float16
# says: Squares overflow in float16. Compute in float32.
# earns: 1 of 2
# caught: hidden
# corner: half precision
def first_exploding(model, x, limit):
    def size(output):
        parts = [t.flatten() for t in floats_of(output) if t.numel()]
        return torch.cat(parts).square().mean().sqrt().item() if parts else 0.0

    return first(sizes_of(model, x, size), limit)


# %% wrong: tensors only
# says: An output may be a tuple, list or dict. Its size is that of all its floating-point numbers together:
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, lambda out: rms(out) if isinstance(out, torch.Tensor) else 0.0), limit)


# %% wrong: the largest size of a nested output
# says: An output may be a tuple, list or dict. Its size is that of all its floating-point numbers together:
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    def size(output):
        sizes = [rms(t) for t in floats_of(output)]
        return next((s for s in sizes if math.isnan(s)), max(sizes, default=0.0))

    return first(sizes_of(model, x, size), limit)


# %% wrong: whole numbers count
# says: An output may be a tuple, list or dict. Its size is that of all its floating-point numbers together:
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    def size(output):
        parts = [t.float().flatten() for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.numel()]
        return torch.cat(parts).square().mean().sqrt().item() if parts else 0.0

    return first(sizes_of(model, x, size), limit)


# %% wrong: fails where there is nothing to measure
# says: An output without floating-point numbers never explodes: your code raised ValueError
# earns: 1 of 2
# caught: hidden
# corner: empty
def first_exploding(model, x, limit):
    def size(output):
        return torch.cat([t.float().flatten() for t in floats_of(output)]).square().mean().sqrt().item()

    return first(sizes_of(model, x, size), limit)


# %% wrong: the mean of no number is nan
# says: An output without floating-point numbers never explodes
# earns: 1 of 2
# caught: hidden
# corner: empty
def first_exploding(model, x, limit):
    def size(output):
        parts = [t.float().flatten() for t in floats_of(output)]
        return torch.cat(parts).square().mean().sqrt().item() if parts else 0.0

    return first(sizes_of(model, x, size), limit)


# %% wrong: hooks are never removed
# says: Your function left hooks behind. Remove every handle in `finally`, so that none is left after an
# earns: 0 of 2
def first_exploding(model, x, limit):
    found = []
    for name, module in leaves(model):
        module.register_forward_hook(lambda module, args, output, name=name: found.append((name, rms(output))))
    with torch.no_grad():
        model(x)
    return first(found, limit)


# %% wrong: removed, but not in finally
# says: Your function left hooks behind. Remove every handle in `finally`, so that none is left after an
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found, handles = [], []
    for name, module in leaves(model):
        handles.append(
            module.register_forward_hook(lambda module, args, output, name=name: found.append((name, rms(output))))
        )
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return first(found, limit)


# %% wrong: clears all hooks
# says: Your function removed somebody else's hook. Remove only your own handles.
# earns: 1 of 2
def first_exploding(model, x, limit):
    found = sizes_of(model, x)
    for module in model.modules():
        module._forward_hooks.clear()
    return first(found, limit)


# %% wrong: with a graph
# says: Run the model without a graph, because nothing here needs a gradient.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    class Recording:
        def __init__(self, model):
            self.named_modules = model.named_modules
            self.model = model

        def __call__(self, x):
            with torch.enable_grad():
                return self.model(x)

    return first(sizes_of(Recording(model), x), limit)


# %% wrong: in eval mode
# says: The training flags were changed, during the run or afterwards. Leave them alone.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first(sizes_of(model.eval(), x), limit)


# %% wrong: judges the outputs after the run
# says: A later layer changed this output in place before you read it. Judge it in the hook.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first([(name, rms(out)) for name, out in sizes_of(model, x, lambda out: out)], limit)


# %% wrong: keeps the last run of each layer
# says: You return the last output over the limit, not the first.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first(dict(sizes_of(model, x)).items(), limit)


# %% wrong: keeps the first run of each layer
# says: Judge a layer each time it runs.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found = {}
    for name, size in sizes_of(model, x):
        found.setdefault(name, size)
    return first(found.items(), limit)


# %% wrong: leaves out the model itself
# says: The model itself may be a module without children. Its name is then the empty string:
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, modules=lambda m: [(n, child) for n, child in leaves(m) if n]), limit)


# %% wrong: at the limit is beyond the limit
# says: Only a size above the limit explodes. Here the sizes are equal to it:
# earns: 1 of 2
# caught: hidden
# corner: equal values
def first_exploding(model, x, limit):
    return next(((name, size) for name, size in sizes_of(model, x) if not size < limit), None)


# %% wrong: swallows the model's exception
# says: The model's exception must reach the caller.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    try:
        return first(sizes_of(model, x), limit)
    except ArithmeticError:
        return None


# %% wrong: gradients stay switched off
# says: Your function changed whether gradients are recorded.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found = first(sizes_of(model, x), limit)
    torch.set_grad_enabled(False)
    return found


# %% wrong: hooks on all modules
# says: Module 0 has a child: only modules without children are named, here the next one that runs. Put no
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first(sizes_of(model, x, modules=lambda model: list(model.named_modules())), limit)


# %% wrong: set_grad_enabled(True) in finally
# says: The caller had turned gradients off, and now they are on. `with torch.no_grad():` restores the caller's
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    try:
        return first(sizes_of(model, x), limit)
    finally:
        torch.set_grad_enabled(True)


# %% right: torch's own mean in float64
def first_exploding(model, x, limit):
    def size(output):
        t = floats_of(output)
        if not sum(p.numel() for p in t):
            return 0.0
        return torch.cat([p.double().flatten() for p in t]).pow(2).mean().sqrt().item()

    found = sizes_of(model, x, size)
    return next(((n, s) for n, s in found if s > limit or not math.isfinite(s)), None)


# %% wrong: takes no size below 1e30 for an explosion
# says: A layer exploded here, but you return None.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def first_exploding(model, x, limit):
    found = sizes_of(model, x)
    return first(found[-1:], 1e30)


# %% wrong: another name for the layer
# says: You don't return (dotted name, root mean square) of the first output over the limit:
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def first_exploding(model, x, limit):
    found = first(sizes_of(model, x), limit)
    return found and (found[0].replace(".", "/"), found[1])


# %% wrong: the size before nan
# says: The first output that holds nan or inf is that of body.1:
# says: An output may be a tuple, list or dict. Its size is that of all its floating-point numbers together:
# earns: 0 of 2
def first_exploding(model, x, limit):
    found = first(sizes_of(model, x), limit)
    return found and (found[0], found[1] if math.isfinite(found[1]) else 0.0)


# %% wrong: the largest size where nothing explodes
# says: Nothing exceeds the limit here: return None.
# says: An output without floating-point numbers never explodes:
# earns: 0 of 2
def first_exploding(model, x, limit):
    found = sizes_of(model, x)
    return first(found, limit) or max(found, key=lambda one: one[1])


# %% wrong: the sum over the runs of a layer
# says: The first output over the limit is that of layer 0 when it runs again:
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found = sizes_of(model, x)
    hit = first(found, limit)
    return hit and (hit[0], sum(size for name, size in found[: found.index(hit) + 1] if name == hit[0]))


# %% wrong: runs the model a second time to be sure
# says: Run the model exactly once.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    first(sizes_of(model, x), limit)
    return first(sizes_of(model, x), limit)


# %% wrong: replaces each forward for a while
# says: While the model ran, its forward or __call__ was not its own. Use hooks, and leave its code alone.
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found, changed = [], [module for _, module in leaves(model)]

    def noting(name, forward):
        def noted(*args, **kwargs):
            output = forward(*args, **kwargs)
            found.append((name, rms(output)))
            return output

        return noted

    for name, module in leaves(model):
        module.forward = noting(name, module.forward)
    try:
        with torch.no_grad():
            model(x)
    finally:
        for module in changed:
            del module.forward
    return first(found, limit)


# %% wrong: also judges what goes into a layer
# says: The sum in module 0 is too large, and the first module without children whose output shows it is 1
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    found = []

    def watching(name):
        def hook(module, args, output):
            found.extend((name, rms(values)) for values in (args, output))

        return hook

    handles = [module.register_forward_hook(watching(name)) for name, module in leaves(model)]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return first(found, limit)


# %% wrong: goes through the layers in the order of their first runs
# says: You name layer 0, because it ran first. But its first output was not over the limit: layer 1 exploded
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    groups = {}
    for name, size in sizes_of(model, x):
        groups.setdefault(name, []).append((name, size))
    return first([one for group in groups.values() for one in group], limit)


# %% right: stops the run at the first explosion, by an exception of its own
class Found(Exception):
    pass


def first_exploding(model, x, limit):
    hits, handles = [], []

    def watching(name):
        def hook(module, args, output):
            size = rms(output)
            if not size <= limit:
                hits.append((name, size))
                raise Found

        return hook

    try:
        for name, module in leaves(model):
            handles.append(module.register_forward_hook(watching(name)))
        with torch.no_grad():
            model(x)
    except Found:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return hits[0] if hits else None


# %% wrong: removes the hooks in except Exception
# says: Your function left hooks behind. Remove every handle in `finally`, so that none is left after an exception
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    hits, handles = [], []
    for name, module in model.named_modules():
        if not list(module.children()):

            def hook(module, args, output, name=name):
                if floats_of(output) and not rms(output) <= limit:
                    hits.append((name, rms(output)))

            handles.append(module.register_forward_hook(hook))
    try:
        with torch.no_grad():
            model(x)
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return hits[0] if hits else None


# %% wrong: runs a copy of the model
# says: The model that you got hasn't run, because you ran a copy of it. Put the hooks on the model itself, and remove
# earns: 1 of 2
# caught: hidden
def first_exploding(model, x, limit):
    return first(sizes_of(copy.deepcopy(model), x), limit)


# %% wrong: takes the hooks of others off for the run
# says: While your function ran the model, somebody else's hook was not called. Leave other hooks in place.
# earns: 1 of 2
def first_exploding(model, x, limit):
    kept = {module: module._forward_hooks for _, module in leaves(model)}
    for module in kept:
        module._forward_hooks = OrderedDict()
    try:
        return first(sizes_of(model, x), limit)
    finally:
        for module, hooks in kept.items():
            module._forward_hooks = hooks
