# %% right: walks through the modules itself
# `recurse=False` gives each module's own tensors, and a set of ids does what parameters() does for you: a shared tensor
# counts once.
def param_report(model):
    """Numbers of elements and bytes, module by module."""
    seen, report = set(), dict.fromkeys(("trainable", "frozen", "buffers", "bytes"), 0)
    for module in model.modules():
        parameters = [(p, "trainable" if p.requires_grad else "frozen") for p in module.parameters(recurse=False)]
        for tensor, kind in [*parameters, *((b, "buffers") for b in module.buffers(recurse=False))]:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                report[kind] += tensor.numel()
                report["bytes"] += tensor.nbytes
    return report


# %% wrong: takes everything from state_dict()
# says: A shared weight was counted under each of its names: state_dict() lists both, and `.to('meta')` unties them.
# A state_dict is about names. It also lacks buffers that are not persistent.
def param_report(model):
    """Counts each name."""
    state = model.state_dict(keep_vars=True).values()
    parameters = [t for t in state if isinstance(t, nn.Parameter)]
    buffers = [t for t in state if not isinstance(t, nn.Parameter)]
    return {
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "frozen": sum(p.numel() for p in parameters if not p.requires_grad),
        "buffers": sum(b.numel() for b in buffers),
        "bytes": sum(t.nbytes for t in parameters + buffers),
    }
