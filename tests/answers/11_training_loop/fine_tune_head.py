import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x))


def stay_in_eval(body):
    body.requires_grad_(False)
    for module in body.modules():
        module.eval()
        module.train = lambda mode=True, module=module: module


def new_head(model, classes):
    weight = model.fc.weight
    return nn.Linear(weight.shape[1], classes).to(weight)


def optimizer_of(model, lr_body, lr_head):
    groups = [{"params": model.fc.parameters(), "lr": lr_head}]
    if lr_body:
        groups.append({"params": model.body.parameters(), "lr": lr_body})
    return torch.optim.SGD(groups, momentum=0.9)


def with_parts(load=None, replace=None, freeze=None, optimizer=None):
    """prepare with other parts."""

    def prepare(model, state, num_classes, lr_body, lr_head):
        (load or nn.Module.load_state_dict)(model, state)
        model.fc = (replace or new_head)(model, num_classes)
        if lr_body == 0:
            (freeze or stay_in_eval)(model.body)
        return (optimizer or optimizer_of)(model, lr_body, lr_head)

    return prepare


# corners: members


# %% right: the class of batch norm is swapped, the head set by name
class FrozenNorm(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(False)


def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(dict(state), strict=True)
    weight = next(model.body.parameters())
    head = nn.Linear(16, num_classes).to(weight.device, weight.dtype)
    setattr(model, "fc", head)
    if lr_body == 0:
        for module in model.body.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.__class__ = FrozenNorm
                module.train()
        for p in model.body.parameters():
            p.requires_grad = False
    body = [p for p in model.body.parameters() if p.requires_grad]
    groups = [{"params": body, "lr": lr_body}, {"params": list(head.parameters()), "lr": lr_head}]
    return torch.optim.SGD(groups, lr=lr_head, momentum=0.9)


# %% right: loads the body only after checking all keys; a hook keeps batch norm in eval
def prepare(model, state, num_classes, lr_body, lr_head):
    own = model.state_dict()
    if {k: v.shape for k, v in own.items()} != {k: v.shape for k, v in state.items()}:
        raise RuntimeError("this checkpoint belongs to another model")
    model.body.load_state_dict({k[len("body.") :]: v for k, v in state.items() if k.startswith("body.")})
    model.fc = new_head(model, num_classes)
    optimizer = torch.optim.SGD(model.fc.parameters(), lr=lr_head, momentum=0.9)
    if lr_body == 0:
        model.body.requires_grad_(False)
        for module in model.body.modules():
            if isinstance(module, _BatchNorm):
                module.register_forward_pre_hook(lambda module, args: module.eval() and None)
    else:
        optimizer.add_param_group({"params": model.body.parameters(), "lr": lr_body})
    return optimizer


# %% right: the statistics without updates, used in train mode, too
def freeze(body):
    for p in body.parameters():
        p.requires_grad_(False)
    for module in body.modules():
        if isinstance(module, _BatchNorm):
            module.forward = lambda x, m=module: nn.functional.batch_norm(
                x, m.running_mean, m.running_var, m.weight, m.bias, False, 0.0, m.eps
            )


prepare = with_parts(freeze=freeze)


# %% right: a head of zeros, a rate for each parameter, the model's train() replaced
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(copy.deepcopy(state))
    model.fc = new_head(model, num_classes)
    for p in model.fc.parameters():
        nn.init.normal_(p, std=0.01)
    if lr_body == 0:
        model.body.eval().requires_grad_(False)

        def train(mode=True):
            type(model).train(model, mode)
            model.body.eval()
            return model

        model.train = train
    rates = {p: lr_head if name.startswith("fc") else lr_body for name, p in model.named_parameters()}
    return torch.optim.SGD([{"params": [p], "lr": lr} for p, lr in rates.items() if lr], lr=1.0, momentum=0.9)


# %% wrong: the given code
# says: Setting out_features changes a number in the repr, not the weight. Make a new Linear.
# says: model.fc does not have as many outputs as there are new classes.
# earns: 0 of 2
# lesson
def prepare(model, state, num_classes, lr_body, lr_head):
    opt = torch.optim.SGD(model.parameters(), lr=lr_body, momentum=0.9)
    model.fc.out_features = num_classes
    model.load_state_dict(state, strict=False)
    return opt


# %% wrong: the optimizer is built before the head is replaced
# says: The optimizer still has the parameters of the head that you replaced. Build it after you replace the
# earns: 0 of 2
# lesson
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    optimizer = optimizer_of(model, lr_body, lr_head)
    model.fc = new_head(model, num_classes)
    if lr_body == 0:
        stay_in_eval(model.body)
    return optimizer


# %% wrong: sets out_features
# says: Setting out_features changes a number in the repr, not the weight. Make a new Linear.
# says: model.fc does not have as many outputs as there are new classes.
# earns: 0 of 2
# lesson
def replace(model, classes):
    model.fc.out_features = classes
    return model.fc


prepare = with_parts(replace=replace)


# %% wrong: never loads
# says: The body doesn't have the pre-trained weights.
# says: The body doesn't have the pre-trained weights and statistics.
# earns: 0 of 2
prepare = with_parts(load=lambda model, state: None)


# %% wrong: loads the parameters, not the statistics
# says: The body doesn't have the pre-trained weights.
# says: The body doesn't have the pre-trained weights and statistics.
# earns: 0 of 2
# corner: members
def load(model, state):
    nn.Module.load_state_dict(copy.deepcopy(model), state)
    for name, p in model.named_parameters():
        p.data.copy_(state[name])


prepare = with_parts(load=load)


# %% wrong: strict=False
# says: strict=False hides a checkpoint that does not fit. Load strictly, before you replace the head, so that
# earns: 1 of 2
# caught: hidden
prepare = with_parts(load=lambda model, state: model.load_state_dict(state, strict=False))


# %% wrong: loads what belongs to the body, whatever else there is
# says: strict=False hides a checkpoint that does not fit. Load strictly, before you replace the head, so that
# earns: 1 of 2
# caught: hidden
def load(model, state):
    model.body.load_state_dict({k.removeprefix("body."): v for k, v in state.items() if k.startswith("body.")})


prepare = with_parts(load=load)


# %% wrong: KeyError for a checkpoint that does not fit
# says: strict=False hides a checkpoint that does not fit. Load strictly, before you replace the head, so that
# earns: 1 of 2
# caught: hidden
def load(model, state):
    if set(state) != set(model.state_dict()):
        raise KeyError("other keys")
    model.load_state_dict(state)


prepare = with_parts(load=load)


# %% wrong: replaces the head before loading
# says: You load after you replace the head, so its shape doesn't fit. Load first.
# earns: 0 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.fc = new_head(model, num_classes)
    model.load_state_dict(state)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: the rates are exchanged
# says: The rates are swapped or missing. The body has lr_body, the head lr_head.
# earns: 1 of 2
def optimizer(model, lr_body, lr_head):
    if lr_body == 0:
        return optimizer_of(model, lr_body, lr_head)
    return optimizer_of(model, lr_head, lr_body)


prepare = with_parts(optimizer=optimizer)


# %% wrong: one rate for everything
# says: The rates are swapped or missing. The body has lr_body, the head lr_head.
# says: If the body is frozen, the optimizer must have the parameters of the new head, and nothing else.
# earns: 0 of 2
prepare = with_parts(optimizer=lambda model, lr_body, lr_head: torch.optim.SGD(model.parameters(), lr_head, 0.9))


# %% wrong: no momentum
# says: The momentum must be 0.9 for all parameters, and all other settings must be SGD's defaults.
# says: The head must be trained with lr_head and momentum 0.9.
# earns: 0 of 2
def optimizer(model, lr_body, lr_head):
    right = optimizer_of(model, lr_body, lr_head)
    return torch.optim.SGD([{"params": group["params"], "lr": group["lr"]} for group in right.param_groups])


prepare = with_parts(optimizer=optimizer)


# %% wrong: Nesterov's momentum
# says: The momentum must be 0.9 for all parameters, and all other settings must be SGD's defaults.
# says: The first step does not move the head by its rate times its gradient.
# earns: 0 of 2
def optimizer(model, lr_body, lr_head):
    right = optimizer_of(model, lr_body, lr_head)
    groups = [{"params": group["params"], "lr": group["lr"]} for group in right.param_groups]
    return torch.optim.SGD(groups, momentum=0.9, nesterov=True)


prepare = with_parts(optimizer=optimizer)


# %% wrong: the optimizer holds the head only
# says: Some trainable parameters are in no group.
# earns: 1 of 2
prepare = with_parts(optimizer=lambda model, lr_body, lr_head: optimizer_of(model, 0, lr_head))


# %% wrong: Adam
# says: Return a torch.optim.SGD optimizer.
# earns: 0 of 2
prepare = with_parts(optimizer=lambda model, lr_body, lr_head: torch.optim.Adam(model.fc.parameters(), lr=lr_head))


# %% wrong: returns nothing
# says: Return a torch.optim.SGD optimizer.
# earns: 0 of 2
prepare = with_parts(optimizer=lambda model, lr_body, lr_head: None)


# %% wrong: body with lr 0, nothing frozen
# says: With a rate of 0 alone, gradients (and momentum) are still computed. Call requires_grad_(False).
# earns: 1 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    groups = [{"params": model.fc.parameters(), "lr": lr_head}, {"params": model.body.parameters(), "lr": lr_body}]
    return torch.optim.SGD(groups, momentum=0.9)


# %% wrong: batch norm in eval, gradients are computed
# says: With a rate of 0 alone, gradients (and momentum) are still computed. Call requires_grad_(False).
# earns: 1 of 2
def freeze(body):
    stay_in_eval(body)
    body.requires_grad_(True)


prepare = with_parts(freeze=freeze)


# %% wrong: requires_grad_(False), batch norm untouched
# says: The frozen body drifts, because in train mode batch norm updates its statistics whatever requires_grad
# earns: 1 of 2
# lesson
prepare = with_parts(freeze=lambda body: body.requires_grad_(False))


# %% wrong: eval() once
# says: The frozen body drifts, because in train mode batch norm updates its statistics whatever requires_grad
# earns: 1 of 2
# lesson
prepare = with_parts(freeze=lambda body: body.eval().requires_grad_(False))


# %% wrong: train() is refused, but the body was in train mode
# says: The frozen body drifts, because in train mode batch norm updates its statistics whatever requires_grad
# earns: 1 of 2
def freeze(body):
    body.requires_grad_(False)
    body.train = lambda mode=True: body


prepare = with_parts(freeze=freeze)


# %% wrong: train() is refused from the first call on, not before
# says: The frozen body drifts, because in train mode batch norm updates its statistics whatever requires_grad
# earns: 1 of 2
# caught: hidden
def freeze(body):
    body.requires_grad_(False)
    body.train = lambda mode=True: nn.Sequential.train(body, False)


prepare = with_parts(freeze=freeze)


# %% wrong: momentum 0, so that the statistics stay, but those of the batch are used
# says: The running mean and variance of the frozen body stay as they are, but in train mode batch norm normalises
# earns: 1 of 2
def freeze(body):
    body.requires_grad_(False)
    body[1].momentum = 0.0


prepare = with_parts(freeze=freeze)


# %% wrong: statistics are not tracked any more, those of the batch are used
# says: The outputs of the frozen body differ from its outputs in eval mode with the checkpoint's statistics.
# earns: 1 of 2
def freeze(body):
    body.requires_grad_(False)
    norm = body[1]
    norm.forward = lambda x: nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, True, 0.0, norm.eps)


prepare = with_parts(freeze=freeze)


# %% wrong: the body is frozen at any rate
# says: With a rate above 0, body and head are trained, so all parameters must require grad.
# earns: 1 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    stay_in_eval(model.body)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: the statistics are frozen at any rate
# says: With a rate above 0 the body is not frozen, so its batch norm must follow model.train().
# earns: 1 of 2
# caught: hidden
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    stay_in_eval(model.body)
    model.body.requires_grad_(lr_body != 0)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: the whole model is frozen
# says: The head is trained, so it must require grad.
# earns: 1 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    if lr_body == 0:
        stay_in_eval(model.body)
        model.requires_grad_(False)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: the whole forward runs without a graph
# says: The weights of the head require grad, but its output has no graph, so the head gets no gradient.
# earns: 1 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    if lr_body == 0:
        stay_in_eval(model.body)
        model.forward = torch.no_grad()(model.forward)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: the head is cut from the old one
# says: The head must be new, not a slice of the old head.
# earns: 1 of 2
def replace(model, classes):
    head = new_head(model, classes)
    rows = min(classes, len(model.fc.weight))
    with torch.no_grad():
        head.weight[:rows] = model.fc.weight[:rows]
    return head


prepare = with_parts(replace=replace)


# %% wrong: a new head only for another number of classes
# says: The head must be new, not a slice of the old head.
# earns: 1 of 2
prepare = with_parts(replace=lambda model, n: model.fc if n == len(model.fc.weight) else new_head(model, n))


# %% wrong: the new head in float32
# says: The new head must have the body's dtype and device.
# earns: 1 of 2
# caught: hidden
prepare = with_parts(replace=lambda model, classes: nn.Linear(16, classes))


# %% wrong: the new head in the dtype of the checkpoint
# says: The new head has the dtype of the checkpoint, not the body's. `load_state_dict` copies the values into the
# earns: 1 of 2
# caught: hidden
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = nn.Linear(16, num_classes).to(state["body.0.weight"])
    if lr_body == 0:
        stay_in_eval(model.body)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: pops the head from the checkpoint
# says: The checkpoint was changed.
# earns: 1 of 2
def load(model, state):
    model.load_state_dict(state)
    state.pop("fc.weight")
    state.pop("fc.bias")


prepare = with_parts(load=load)


# %% wrong: the checkpoint's tensors become the parameters
# says: The model's tensors share memory with the checkpoint.
# earns: 1 of 2
# caught: hidden
prepare = with_parts(load=lambda model, state: model.load_state_dict(state, assign=True))


# %% wrong: the old parameters, resized
# says: model.fc is still the old layer. Make a new Linear.
# earns: 1 of 2
def replace(model, classes):
    model.fc.weight.data = torch.randn(classes, 16, dtype=model.fc.weight.dtype)
    model.fc.bias.data = torch.zeros(classes, dtype=model.fc.weight.dtype)
    return model.fc


prepare = with_parts(replace=replace)


# %% wrong: another layer behind the old head
# says: model.fc must be a Linear layer.
# says: model.fc must be a Linear layer with a bias.
# earns: 0 of 2
prepare = with_parts(replace=lambda model, classes: nn.Sequential(model.fc, nn.Linear(model.fc.out_features, classes)))


# %% wrong: the new head on the CPU
# says: The new head must have the body's dtype and device.
# earns: 1 of 2
# caught: hidden
prepare = with_parts(replace=lambda model, classes: nn.Linear(16, classes, dtype=model.fc.weight.dtype))


# %% right: the model gets a class of its own
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    if lr_body == 0:

        class Frozen(type(model)):
            def train(self, mode=True):
                super().train(mode)
                self.body.eval()
                return self

        model.__class__ = Frozen
        model.train(model.training)
        model.body.requires_grad_(False)
    return optimizer_of(model, lr_body, lr_head)


# %% right: the body's forward runs in eval mode and without a graph, the head starts at zero
def freeze(body):
    forward = body.forward

    def run(x):
        body.eval()
        with torch.no_grad():
            return forward(x)

    body.forward = run
    body.requires_grad_(False)


def replace(model, classes):
    head = new_head(model, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


prepare = with_parts(replace=replace, freeze=freeze)


# %% wrong: the old biases are kept
# says: The head must be new, not a slice of the old head.
# earns: 1 of 2
def replace(model, classes):
    head = new_head(model, classes)
    count = min(classes, len(model.fc.bias))
    with torch.no_grad():
        head.bias[:count] = model.fc.bias[:count]
    return head


prepare = with_parts(replace=replace)


# %% wrong: a head without biases
# says: model.fc must be a Linear layer with a bias.
# says: The names of the parameters have changed. They must stay the same.
# earns: 0 of 2
prepare = with_parts(replace=lambda model, classes: nn.Linear(16, classes, bias=False, dtype=model.fc.weight.dtype))


# %% wrong: the frozen body stays in the optimizer, with rate 0
# says: If the body is frozen, the optimizer must have the parameters of the new head, and nothing else.
# earns: 1 of 2
def optimizer(model, lr_body, lr_head):
    groups = [{"params": model.fc.parameters(), "lr": lr_head}, {"params": model.body.parameters(), "lr": lr_body}]
    return torch.optim.SGD(groups, momentum=0.9)


prepare = with_parts(optimizer=optimizer)


# %% wrong: the parameters of batch norm are forgotten
# says: Some trainable parameters are in no group.
# earns: 1 of 2
def optimizer(model, lr_body, lr_head):
    groups = [{"params": model.fc.parameters(), "lr": lr_head}]
    if lr_body:
        groups.append({"params": model.body[0].parameters(), "lr": lr_body})
    return torch.optim.SGD(groups, momentum=0.9)


prepare = with_parts(optimizer=optimizer)


# %% wrong: small rates freeze, too
# says: Some trainable parameters are in no group.
# earns: 1 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    return with_parts()(model, state, num_classes, lr_body if lr_body > 0.05 else 0, lr_head)


# %% wrong: statistics are not tracked, and so the batch's are used
# says: The outputs of the frozen body differ from its outputs in eval mode with the checkpoint's statistics.
# earns: 1 of 2
def freeze(body):
    body.requires_grad_(False)
    body[1].track_running_stats = False


prepare = with_parts(freeze=freeze)


# %% wrong: weight decay
# says: The momentum must be 0.9 for all parameters, and all other settings must be SGD's defaults.
# earns: 1 of 2
def optimizer(model, lr_body, lr_head):
    right = optimizer_of(model, lr_body, lr_head)
    for group in right.param_groups:
        group["weight_decay"] = 1e-4
    return right


prepare = with_parts(optimizer=optimizer)


# %% right: the Backbone itself refuses to train a frozen body
class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)
        self.is_frozen = False

    def train(self, mode=True):
        super().train(mode)
        if self.is_frozen:
            self.body.eval()
        return self

    def forward(self, x):
        return self.fc(self.body(x))


def prepare(model, state, num_classes, lr_body, lr_head):
    assert isinstance(model, Backbone)
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    if lr_body == 0:
        model.is_frozen = True
        model.body.requires_grad_(False)
        model.train(model.training)
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: frozen by requires_grad alone, torchvision's tutorial
# says: The new head must have the body's dtype and device.
# says: The frozen body drifts, because in train mode batch norm updates its statistics whatever requires_grad
# earns: 0 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    if lr_body == 0:
        for param in model.parameters():
            param.requires_grad = False
    num_ftrs = model.fc.in_features
    model.fc = nn.Linear(num_ftrs, num_classes)
    groups = [{"params": model.fc.parameters(), "lr": lr_head}]
    if lr_body:
        groups.append({"params": model.body.parameters(), "lr": lr_body})
    return torch.optim.SGD(groups, momentum=0.9)


# %% wrong: copies the rows of the old head
# says: The head must be new, not a slice of the old head.
# earns: 1 of 2
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    old = model.fc
    model.fc = nn.Linear(old.in_features, num_classes, dtype=old.weight.dtype, device=old.weight.device)
    with torch.no_grad():
        n = min(num_classes, old.out_features)
        model.fc.weight[:n] = old.weight[:n]
    groups = [{"params": model.fc.parameters(), "lr": lr_head}]
    if lr_body:
        groups.append({"params": model.body.parameters(), "lr": lr_body})
    else:
        model.body.requires_grad_(False)
        model.body.eval()
        model.body.train = lambda mode=True: model.body
    return torch.optim.SGD(groups, momentum=0.9)


# %% wrong: one class more
# says: The weights of model.fc don't have the shapes that the new classes need.
# says: model.fc does not have as many outputs as there are new classes.
# earns: 0 of 2
prepare = with_parts(replace=lambda model, classes: new_head(model, classes + 1))


# %% wrong: a hook that halves the first gradient
# says: The first step of training does not move a parameter by its rate times its gradient.
# says: The first step does not move the head by its rate times its gradient.
# earns: 0 of 2
def optimizer(model, lr_body, lr_head):
    found = optimizer_of(model, lr_body, lr_head)
    found.register_step_pre_hook(
        lambda optimizer, args, kwargs: [p.grad.mul_(0.5) for p in model.fc.parameters()] and None
    )
    return found


prepare = with_parts(optimizer=optimizer)


# %% wrong: a parameter of the head is in the body's group too
# says: A parameter is in two groups.
# earns: 1 of 2
def twice(model, lr_body, lr_head):
    optimizer = optimizer_of(model, lr_body, lr_head)
    if lr_body:
        optimizer.param_groups[-1]["params"].append(model.fc.bias)
    return optimizer


prepare = with_parts(optimizer=twice)


# %% wrong: the class gets another train()
# says: Another model was frozen before, and now the batch norm of this one doesn't learn, although its body is trained
# earns: 1 of 2
# caught: hidden
def prepare(model, state, num_classes, lr_body, lr_head):
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    if lr_body == 0:
        model.body.requires_grad_(False)

        def train(self, mode=True):
            nn.Module.train(self, mode)
            self.body.eval()
            return self

        type(model).train = train
        model.train()
    return optimizer_of(model, lr_body, lr_head)


# %% wrong: the class says whether the body is frozen
# says: The frozen model drifts as soon as another one has been prepared with a rate above 0. What you set on a class
# earns: 1 of 2
# caught: hidden
class Backbone(nn.Module):
    frozen = False

    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def train(self, mode=True):
        super().train(mode)
        if Backbone.frozen:
            self.body.eval()
        return self

    def forward(self, x):
        return self.fc(self.body(x))


def prepare(model, state, num_classes, lr_body, lr_head):
    Backbone.frozen = lr_body == 0
    model.load_state_dict(state)
    model.fc = new_head(model, num_classes)
    model.body.requires_grad_(not Backbone.frozen)
    model.train()
    return optimizer_of(model, lr_body, lr_head)
