import copy

import torch
from torch import nn

NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
)


def groups_of(model, weight_decay, is_plain):
    """Two groups; is_plain(name, parameter, owner) says what is not decayed."""
    decayed, others = [], []
    for name, p in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        if p.requires_grad:
            (others if is_plain(name, p, owner) else decayed).append(p)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def right(name, p, owner):
    return p.ndim < 2 or isinstance(owner, NORMS)


# corners: members, second name, empty, 0-d


# %% right: walks through the modules, sorted back into order
def decay_groups(model, weight_decay):
    seen, place = {}, {id(p): n for n, p in enumerate(model.parameters())}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if p.requires_grad and id(p) not in seen:
                seen[id(p)] = (place[id(p)], p, p.dim() < 2 or isinstance(module, NORMS))
    ordered = sorted(seen.values(), key=lambda item: item[0])
    return [
        {"params": [p for _, p, plain in ordered if not plain], "weight_decay": weight_decay},
        {"params": [p for _, p, plain in ordered if plain], "weight_decay": 0.0},
    ]


# %% right: one pass over the names, with the owner of each
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, right)


# %% right: a set of parameters, a tuple of dicts with more keys
def decay_groups(model, weight_decay):
    plain = set()
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)):
            plain |= set(module._parameters.values())
    trainable = [p for p in model.parameters() if p.requires_grad]
    plain |= {p for p in trainable if len(p.shape) <= 1}
    decayed = dict(params=[p for p in trainable if p not in plain], weight_decay=weight_decay, name="decayed")
    return [decayed, dict(params=[p for p in trainable if p in plain], weight_decay=0, name="plain")]


# %% wrong: bias or norm in the name
# says: You can't tell a norm layer by its name: in a Sequential it may be called '1'. Check the module's type.
# earns: 0 of 2
# lesson
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: "bias" in name or "norm" in name)


# %% wrong: by name or dimensions
# says: A norm layer over two dimensions, such as LayerNorm((2, 3)), has a weight with two dimensions, and your
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or "norm" in name)


# %% wrong: the norms by type, the rest by name
# says: must not be decayed
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: "bias" in name or isinstance(owner, NORMS))


# %% wrong: everything called bias is left out
# says: A parameter with two or more dimensions that belongs to no norm layer must be decayed, whatever its name.
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: right(name, p, owner) or "bias" in name)


# %% wrong: less than two dimensions only
# says: A norm layer over two dimensions, such as LayerNorm((2, 3)), has a weight with two dimensions, and your
# earns: 0 of 2
# lesson
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2)


# %% wrong: norm layers only
# says: Biases (and other 1-D parameters) must not be decayed.
# earns: 0 of 2
# lesson
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: isinstance(owner, NORMS))


# %% wrong: names that end in bias, scales are decayed
# says: Biases (and other 1-D parameters) must not be decayed.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: name.endswith("bias") or isinstance(owner, NORMS))


# %% wrong: one dimension exactly
# says: A scalar parameter has fewer than two dimensions, so it is not decayed.
# earns: 1 of 2
# caught: hidden
# corner: 0-d
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim == 1 or isinstance(owner, NORMS))


# %% wrong: the exact type
# says: A class derived from a norm layer is also a norm layer. Use isinstance instead of comparing types or
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or type(owner) in NORMS)


# %% wrong: Norm in the name of the class
# says: A parameter with two or more dimensions that belongs to no norm layer must be decayed
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    return groups_of(
        model, weight_decay, lambda name, p, owner: right(name, p, owner) or "Norm" in type(owner).__name__
    )


# %% wrong: no RMSNorm over two dimensions
# says: A norm layer over two dimensions, such as LayerNorm((2, 3)), has a weight with two dimensions, and your
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or isinstance(owner, nn.LayerNorm))


# %% wrong: every name of a tied weight
# says: A tied weight is listed twice; the optimizer would refuse it (or step it twice).
# earns: 1 of 2
# corner: second name
def decay_groups(model, weight_decay):
    found = [[], []]
    for name, p in model.named_parameters(remove_duplicate=False):
        if p.requires_grad:
            found[right(name, p, model.get_submodule(name.rpartition(".")[0]))].append(p)
    return [{"params": found[0], "weight_decay": weight_decay}, {"params": found[1], "weight_decay": 0.0}]


# %% wrong: frozen parameters included
# says: Frozen parameters do not belong in the groups.
# earns: 1 of 2
# corner: members
def decay_groups(model, weight_decay):
    flags = [(p, p.requires_grad) for p in model.parameters()]
    model.requires_grad_(True)
    groups = groups_of(model, weight_decay, right)
    for p, flag in flags:
        p.requires_grad_(flag)
    return groups


# %% wrong: known layer types only
# says: Parameters of layers of other types are in no group.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    known = (nn.Linear, nn.Conv2d, nn.Embedding, *NORMS)
    groups = groups_of(model, weight_decay, right)
    mine = {id(p) for m in model.modules() if isinstance(m, known) for p in m.parameters()}
    return [group | {"params": [p for p in group["params"] if id(p) in mine]} for group in groups]


# %% wrong: generators
# says: A generator is empty after the first use, so the groups must contain lists.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    groups = groups_of(model, weight_decay, right)
    return [group | {"params": (p for p in group["params"])} for group in groups]


# %% wrong: filters
# says: A generator is empty after the first use, so the groups must contain lists.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    groups = groups_of(model, weight_decay, right)
    return [group | {"params": filter(None.__ne__, group["params"])} for group in groups]


# %% wrong: the groups in the other order
# says: The decayed group must come first, and the parameters must be in the order of model.parameters().
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, right)[::-1]


# %% wrong: parameters in another order
# says: The decayed group must come first, and the parameters must be in the order of model.parameters().
# earns: 1 of 2
def decay_groups(model, weight_decay):
    return [group | {"params": group["params"][::-1]} for group in groups_of(model, weight_decay, right)]


# %% wrong: the same decay for both
# says: The first group's weight_decay must be the given one, and the second group's 0.0.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return [group | {"weight_decay": weight_decay} for group in groups_of(model, weight_decay, right)]


# %% wrong: no decay given for the second group
# says: The first group's weight_decay must be the given one, and the second group's 0.0.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    first, second = groups_of(model, weight_decay, right)
    return [first, {"params": second["params"]}]


# %% wrong: empty groups are left out
# says: Return a list of two dicts, each with params and weight_decay.
# earns: 1 of 2
# caught: hidden
# corner: empty
def decay_groups(model, weight_decay):
    return [group for group in groups_of(model, weight_decay, right) if group["params"]]


# %% wrong: a dict
# says: Return a list of two dicts, each with params and weight_decay.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return dict(zip(("decayed", "others"), groups_of(model, weight_decay, right)))


# %% wrong: an optimizer
# says: Return a list of two dicts
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return torch.optim.AdamW(groups_of(model, weight_decay, right))


# %% wrong: names in place of parameters
# says: The params of a group
# earns: 0 of 2
def decay_groups(model, weight_decay):
    names = {id(p): name for name, p in model.named_parameters()}
    groups = groups_of(model, weight_decay, right)
    return [group | {"params": {names[id(p)]: p for p in group["params"]}} for group in groups]


# %% wrong: freezes what is not decayed
# says: The model was changed
# earns: 1 of 2
def decay_groups(model, weight_decay):
    groups = groups_of(model, weight_decay, right)
    for p in groups[1]["params"]:
        p.requires_grad_(False)
    return groups


# %% right: the owners of every parameter first, dicts of a class of their own
class Group(dict):
    pass


def decay_groups(model, weight_decay):
    owners = {}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            owners.setdefault(p, []).append(module)
    found = [Group(params=[], weight_decay=weight_decay), Group(params=[], weight_decay=0.0)]
    for p in filter(lambda p: p.requires_grad, model.parameters()):
        plain = p.dim() <= 1 or any(isinstance(owner, NORMS) for owner in owners[p])
        found[plain]["params"].append(p)
    return found


# %% wrong: LayerNorm and RMSNorm only
# says: No parameter of a norm layer is decayed, not even a parameter that a class derived from GroupNorm, batch
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    norms = (nn.LayerNorm, nn.RMSNorm)
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or isinstance(owner, norms))


# %% wrong: the parameters of a copy
# says: The groups must contain the model's own parameters, not copies, names or pairs.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    return groups_of(copy.deepcopy(model), weight_decay, right)


# %% wrong: pairs of name and parameter
# says: The groups must contain the model's own parameters, not copies, names or pairs.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    names = {id(p): name for name, p in model.named_parameters()}
    groups = groups_of(model, weight_decay, right)
    return [group | {"params": [(names[id(p)], p) for p in group["params"]]} for group in groups]


# %% wrong: puts the model into train mode
# says: The model was changed: a parameter, its flag or the mode of a module.
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    return groups_of(model.train(), weight_decay, right)


# %% wrong: dimensions of size 1 do not count
# says: A parameter with two or more dimensions that belongs to no norm layer must be decayed
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    return groups_of(model, weight_decay, lambda name, p, owner: p.squeeze().ndim < 2 or isinstance(owner, NORMS))


# %% wrong: everything inside of a norm layer
# says: A layer inside a norm layer is not a norm layer, but `norm.parameters()` also lists its weights. Use
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    inside = {id(p) for m in model.modules() if isinstance(m, NORMS) for p in m.parameters()}
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or id(p) in inside)


# %% wrong: norms without RMSNorm
# says: nn.RMSNorm is also a norm layer, but it isn't derived from LayerNorm.
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)
    own = {id(p) for m in model.modules() if isinstance(m, kinds) for p in m.parameters(recurse=False)}
    params = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in params if p.dim() >= 2 and id(p) not in own], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() < 2 or id(p) in own], "weight_decay": 0.0},
    ]


# %% wrong: all that is inside a norm
# says: A layer inside a norm layer is not a norm layer, but `norm.parameters()` also lists its weights. Use
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
    own = {id(p) for m in model.modules() if isinstance(m, kinds) for p in m.parameters()}
    params = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in params if p.dim() >= 2 and id(p) not in own], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() < 2 or id(p) in own], "weight_decay": 0.0},
    ]


# %% wrong: nanoGPT's rule
# says: A norm layer over two dimensions, such as LayerNorm((2, 3)), has a weight with two dimensions, and your
# earns: 0 of 2
def decay_groups(model, weight_decay):
    param_dict = {pn: p for pn, p in model.named_parameters() if p.requires_grad}
    decay = [p for n, p in param_dict.items() if p.dim() >= 2]
    nodecay = [p for n, p in param_dict.items() if p.dim() < 2]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": nodecay, "weight_decay": 0.0}]


# %% wrong: timm's order, the group without decay first
# says: The decayed group must come first, and the parameters must be in the order of model.parameters().
# earns: 0 of 2
def decay_groups(model, weight_decay):
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
    own = {id(p) for m in model.modules() if isinstance(m, kinds) for p in m.parameters(recurse=False)}
    params = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in params if p.dim() < 2 or id(p) in own], "weight_decay": 0.0},
        {"params": [p for p in params if p.dim() >= 2 and id(p) not in own], "weight_decay": weight_decay},
    ]


# %% wrong: Hugging Face's names
# says: You can't tell a norm layer by its name: in a Sequential it may be called '1'. Check the module's type.
# earns: 0 of 2
def decay_groups(model, weight_decay):
    no_decay = ["bias", "LayerNorm.weight"]
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [p for n, p in named if not any(nd in n for nd in no_decay)], "weight_decay": weight_decay},
        {"params": [p for n, p in named if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ]


# %% wrong: what has the attributes of a norm is a norm
# says: A custom module may also have an attribute called `num_groups` or `normalized_shape`, as wav2vec's quantizer
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    traits = "normalized_shape", "num_groups", "track_running_stats"

    def is_plain(name, p, owner):
        return p.ndim < 2 or any(hasattr(owner, trait) for trait in traits)

    return groups_of(model, weight_decay, is_plain)


# %% wrong: recognises the parameters of norms by their address
# says: This model is on the meta device, where the data_ptr() of every parameter is 0, and your first group is empty.
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    places = {p.data_ptr() for m in model.modules() if isinstance(m, NORMS) for p in m.parameters(recurse=False)}
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or p.data_ptr() in places)


# %% wrong: norms without SyncBatchNorm
# says: nn.SyncBatchNorm is also batch norm, but it isn't derived from BatchNorm1d, 2d or 3d.
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    kinds = tuple(kind for kind in NORMS if kind is not nn.SyncBatchNorm)
    return groups_of(model, weight_decay, lambda name, p, owner: p.ndim < 2 or isinstance(owner, kinds))


# %% wrong: a rate of zero for what is decayed
# says: After a step with zero gradients these have changed:
# earns: 1 of 2
def decay_groups(model, weight_decay):
    groups = groups_of(model, weight_decay, right)
    return [{**groups[0], "lr": 0.0}, groups[1]]


# %% wrong: asks only the children, so the model itself is no norm
# says: The model is a norm layer itself here, and your code decays its parameters. `modules()` begins with the model
# earns: 1 of 2
# caught: hidden
def decay_groups(model, weight_decay):
    def walk(module, plain):
        for child in module.children():
            walk(child, isinstance(child, (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)))
        of_norms.update(id(p) for p in module.parameters(recurse=False) if plain)

    of_norms, groups = set(), ([], [])
    walk(model, False)
    for p in model.parameters():
        if p.requires_grad:
            groups[p.ndim < 2 or id(p) in of_norms].append(p)
    return [{"params": groups[0], "weight_decay": weight_decay}, {"params": groups[1], "weight_decay": 0.0}]
