# corners: members, second name

import copy
from collections import OrderedDict

import torch
from torch import nn


def report_of(parameters, buffers, size=lambda t: t.numel() * t.element_size()):
    """A right report on given lists of tensors."""
    parameters, buffers = list(parameters), list(buffers)
    return {
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "frozen": sum(p.numel() for p in parameters if not p.requires_grad),
        "buffers": sum(b.numel() for b in buffers),
        "bytes": sum(size(t) for t in parameters + buffers),
    }


# %% right: walks modules(), own parameters only, remembers what it has seen
def param_report(model):
    seen, report = set(), dict.fromkeys(("trainable", "frozen", "buffers", "bytes"), 0)
    for module in model.modules():
        for tensor in module.parameters(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                report["trainable" if tensor.requires_grad else "frozen"] += tensor.numel()
                report["bytes"] += tensor.numel() * tensor.element_size()
        for tensor in module.buffers(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                report["buffers"] += tensor.numel()
                report["bytes"] += tensor.nbytes
    return report


# %% right: collects the tensors by id from the two named iterators, then sums nbytes
def param_report(model):
    parameters = {id(p): p for _, p in model.named_parameters(remove_duplicate=False)}
    buffers = {id(b): b for _, b in model.named_buffers(remove_duplicate=False)}
    return report_of(parameters.values(), buffers.values(), size=lambda t: t.nbytes)


# %% right: recursion over children, shapes and itemsize; an OrderedDict
def param_report(model):
    parameters, buffers = {}, {}

    def walk(module):
        parameters.update({id(p): p for p in module._parameters.values() if p is not None})
        buffers.update({id(b): b for b in module._buffers.values() if b is not None})
        for child in module.children():
            walk(child)

    walk(model)

    def size(tensor):
        return tensor.shape.numel() * tensor.dtype.itemsize

    return OrderedDict(report_of(parameters.values(), buffers.values(), size))


# %% right: the four numbers in another order, with a generator
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    return dict(reversed(report.items()))


# %% wrong: sums parameters() over modules()
# says: Counted over modules() with their own parameters(): every nested parameter is counted once per level.
# earns: 0 of 1
# lesson
def param_report(model):
    return report_of([p for m in model.modules() for p in m.parameters()], model.buffers())


# %% wrong: counts every name
# says: A shared weight was counted under each of its names
# earns: 0 of 1
# lesson
# corner: second name
def param_report(model):
    parameters = [p for _, p in model.named_parameters(remove_duplicate=False)]
    return report_of(parameters, [b for _, b in model.named_buffers(remove_duplicate=False)])


# %% wrong: takes everything from state_dict()
# says: A shared weight was counted under each of its names: state_dict() lists both, and `.to('meta')` unties them.
# earns: 0 of 1
# lesson
def param_report(model):
    state = model.state_dict(keep_vars=True)
    parameters = [t for t in state.values() if isinstance(t, nn.Parameter)]
    return report_of(parameters, [t for t in state.values() if not isinstance(t, nn.Parameter)])


# %% wrong: takes buffers from state_dict()
# says: Non-persistent buffers also take memory, although state_dict() does not list them.
# earns: 0 of 1
# corner: members
def param_report(model):
    state = model.state_dict(keep_vars=True)
    buffers = {id(t): t for t in state.values() if not isinstance(t, nn.Parameter)}
    return report_of(model.parameters(), buffers.values())


# %% wrong: asks for certain layers by type
# says: Only direct attributes or certain layer types were counted; walk the whole tree.
# earns: 0 of 1
def param_report(model):
    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, nn.BatchNorm1d))]
    parameters = {id(p): p for m in layers for p in m.parameters()}
    return report_of(parameters.values(), model.buffers())


# %% wrong: direct attributes only
# says: Only direct attributes or certain layer types were counted; walk the whole tree.
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(recurse=False), model.buffers(recurse=False))


# %% wrong: one level of children
# says: Only direct attributes or certain layer types were counted; walk the whole tree.
# earns: 0 of 1
def param_report(model):
    return report_of([p for c in model.children() for p in c.parameters(recurse=False)], model.buffers())


# %% wrong: everything counted as parameter
# says: Buffers belong in `buffers` and `bytes`, not in trainable or frozen.
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(), model.buffers()) | {
        "trainable": sum(p.numel() for p in model.parameters() if p.requires_grad)
        + sum(b.numel() for b in model.buffers())
    }


# %% wrong: buffers counted as frozen
# says: Buffers belong in `buffers` and `bytes`, not in trainable or frozen.
# earns: 0 of 1
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    return report | {"frozen": report["frozen"] + report["buffers"]}


# %% wrong: 4 bytes per element
# says: Not every element takes 4 bytes: use element_size() of each tensor.
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(), model.buffers(), size=lambda t: 4 * t.numel())


# %% wrong: elements in place of bytes
# says: Not every element takes 4 bytes
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(), model.buffers(), size=lambda t: t.numel())


# %% wrong: bytes of parameters only
# says: `bytes` is the memory of all parameters and buffers.
# earns: 0 of 1
# lesson
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    return report | {"bytes": sum(p.nbytes for p in model.parameters())}


# %% wrong: the element size of the first parameter for all
# says: Not every element takes 4 bytes
# earns: 0 of 1
def param_report(model):
    size = next(model.parameters()).element_size()
    return report_of(model.parameters(), model.buffers(), size=lambda t: size * t.numel())


# %% wrong: ignores requires_grad
# says: Frozen parameters must be separated by requires_grad.
# earns: 0 of 1
# corner: members
# caught: hidden
def param_report(model):
    trainable = sum(p.numel() for p in model.parameters())
    return report_of(model.parameters(), model.buffers()) | {"trainable": trainable, "frozen": 0}


# %% wrong: frozen layer by layer
# says: Frozen parameters must be separated by requires_grad.
# earns: 0 of 1
# caught: hidden
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    report["trainable"] = report["frozen"] = 0
    seen = set()
    for module in model.modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen.update(map(id, own))
        if own:
            report["trainable" if own[0].requires_grad else "frozen"] += sum(p.numel() for p in own)
    return report


# %% wrong: trainable by training mode
# says: Frozen parameters must be separated by requires_grad.
# earns: 0 of 1
# caught: hidden
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    number = sum(p.numel() for p in model.parameters())
    return report | {"trainable": number * model.training, "frozen": number * (not model.training)}


# %% wrong: the bytes of the storage behind a view
# says: the larger memory behind a view does not count
# earns: 0 of 1
# caught: hidden
def param_report(model):
    return report_of(model.parameters(), model.buffers(), size=lambda t: t.untyped_storage().nbytes())


# %% wrong: the report of a copy
# says: Tensors of the model's size were made: count, don't copy.
# earns: 0 of 1
# caught: hidden
def param_report(model):
    model = copy.deepcopy(model)
    return report_of(model.parameters(), model.buffers())


# %% wrong: measures by copying to one vector
# says: Tensors of the model's size were made: count, don't copy.
# earns: 0 of 1
# caught: hidden
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    if all(p.device.type == "cpu" for p in model.parameters()):
        torch.cat([torch.zeros(0), *[p.detach().float().flatten() for p in model.parameters()]]).numel()
    return report


# %% wrong: looks at every entry, None too
# says: A name may be registered with None
# earns: 0 of 1
def param_report(model):
    parameters = {id(p): p for m in model.modules() for p in m._parameters.values()}
    return report_of(parameters.values(), model.buffers())


# %% wrong: switches the model to eval mode
# says: The report changed the model.
# earns: 0 of 1
def param_report(model):
    model.eval()
    return report_of(model.parameters(), model.buffers())


# %% wrong: freezes the model while counting
# says: The report changed the model.
# earns: 0 of 1
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    model.requires_grad_(False)
    return report


# %% wrong: tensors in place of ints
# says: The four numbers must be plain ints.
# earns: 0 of 1
def param_report(model):
    return {key: torch.tensor(number) for key, number in report_of(model.parameters(), model.buffers()).items()}


# %% wrong: bytes as a float
# says: The four numbers must be plain ints.
# earns: 0 of 1
def param_report(model):
    report = report_of(model.parameters(), model.buffers())
    return report | {"bytes": float(report["bytes"])}


# %% wrong: another key
# says: Return a dict with the keys trainable, frozen, buffers and bytes.
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(), model.buffers()) | {"total": 1}


# %% wrong: prints and returns nothing
# says: Return a dict with the keys trainable, frozen, buffers and bytes.
# earns: 0 of 1
def param_report(model):
    print(report_of(model.parameters(), model.buffers()))


# %% right: on stand-ins of the meta device; sums of small tensors
def param_report(model):
    parameters = [torch.empty_like(p, device="meta").requires_grad_(p.requires_grad) for p in model.parameters()]
    buffers = [torch.empty_like(b, device="meta") for b in model.buffers()]
    report = report_of(parameters, buffers)
    return {name: int(torch.tensor([0, number]).sum()) for name, number in report.items()}


# %% wrong: told apart by their addresses
# says: every address is 0
# earns: 0 of 1
# caught: hidden
def param_report(model):
    parameters = {p.data_ptr(): p for p in model.parameters()}
    return report_of(parameters.values(), model.buffers())


# %% wrong: the buffers of the children only
# says: The buffers of the model itself were not counted
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(), [b for child in model.children() for b in child.buffers()])


# %% wrong: a shared buffer twice
# says: A shared buffer was counted under each of its names: buffers() lists it once.
# earns: 0 of 1
def param_report(model):
    parameters = list(model.parameters())
    buffers = [b for m in model.modules() for b in m.buffers(recurse=False)]
    return report_of(parameters, buffers)


# %% wrong: bits
# says: ` should be
# earns: 0 of 1
def param_report(model):
    return report_of(model.parameters(), model.buffers(), size=lambda t: t.numel() * t.element_size() * 8)


# %% wrong: sizes from a table of dtypes
# says: Not every element takes 4 bytes: use element_size() of each tensor.
# earns: 0 of 1
# caught: hidden
def param_report(model):
    sizes = {torch.float32: 4, torch.float64: 8, torch.float16: 2, torch.bfloat16: 2, torch.int64: 8, torch.bool: 1}
    return report_of(model.parameters(), model.buffers(), size=lambda t: t.numel() * sizes.get(t.dtype, 4))


# %% wrong: the bits of finfo and iinfo
# says: torch.finfo and torch.iinfo know no complex dtypes
# earns: 0 of 1
# caught: hidden
def param_report(model):
    def size(tensor):
        info = torch.finfo if tensor.is_floating_point() else torch.iinfo
        return tensor.numel() * (1 if tensor.dtype == torch.bool else info(tensor.dtype).bits // 8)

    return report_of(model.parameters(), model.buffers(), size=size)


# %% wrong: the report of a copy on the meta device
# says: A shared weight was counted under each of its names: state_dict() lists both, and `.to('meta')` unties them.
# earns: 0 of 1
# corner: second name
def param_report(model):
    twin = copy.deepcopy(model).to("meta")
    return report_of(twin.parameters(), twin.buffers())
