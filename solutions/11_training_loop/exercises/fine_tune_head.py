# %% [markdown]
# ### Exercise 11.9 · New head, old body, right optimizer
#
# fix · long · 20 min · 2 points
#
# You want to fine-tune a network that somebody else trained for other classes. `prepare` runs, training runs, and the
# accuracy doesn't improve. `prepare` makes several classic mistakes. Find and fix them.
#
# **Contract**
#
# - `model` is a `Backbone` (the class below, which you may change) that `prepare` hasn't seen before, and `state` is
#   the state dict of another `Backbone`. Both have the *old* number of classes.
# - Afterwards the body has the weights and statistics of `state`, and `model.fc` is a new Linear layer with
#   `num_classes` outputs, on the body's device and in its dtype. None of its numbers come from an old head. All
#   parameters keep their names.
# - Return an SGD optimizer with momentum 0.9 over exactly those parameters of the finished model that are trained: the
#   body's with `lr_body`, the head's with `lr_head`.
# - `lr_body == 0` means a frozen body: it gets no gradients and is not in the optimizer. Its batch-norm statistics and
#   its outputs don't change, even in train mode, and even if `model.train()` and `model.eval()` are called later.
# - `state` is not changed and shares no memory with the model. It must fit completely: an extra key, a missing key or a
#   different shape raises RuntimeError.
#
# <details><summary>Hint 1</summary>
#
# After `prepare`, compare the model with what the contract asks for: whose weights does the body have, how many outputs
# does `model.fc` compute, and which tensors does the optimizer update?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each line of `prepare` uses what the model is at that moment, so their order matters. And if the body is frozen, its
# batch norm must be frozen as well: what does `model.train()` do to each child of the model?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# What would `strict=True` have told you? An optimizer keeps the parameter objects that it was given, and a layer's
# `out_features` is only a number that it prints. For a frozen body you need more than `requires_grad_(False)` and
# `eval()`: somebody may call `train()` later. An instance may have its own `train`, and so may your `Backbone`.
#
# </details>


# %% answer="fine-tune-head"
class Backbone(nn.Module):
    """A small network: a body with batch norm, and a head."""

    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x))


def prepare(
    model: Backbone, state: Mapping[str, Tensor], num_classes: int, lr_body: float, lr_head: float
) -> torch.optim.Optimizer:
    """Load the pre-trained weights, put a new head on, and build the optimizer for fine-tuning."""
    ### BEGIN SOLUTION
    model.load_state_dict(state)
    old = model.fc.weight
    model.fc = nn.Linear(model.fc.in_features, num_classes, device=old.device, dtype=old.dtype)
    groups = [{"params": list(model.fc.parameters()), "lr": lr_head}]
    if lr_body == 0:
        model.body.requires_grad_(False)
        model.body.eval()
        model.body.train = lambda mode=True: model.body  # model.train() asks each child
    else:
        groups.append({"params": list(model.body.parameters()), "lr": lr_body})
    return torch.optim.SGD(groups, lr=lr_head, momentum=0.9)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # opt = torch.optim.SGD(model.parameters(), lr=lr_body, momentum=0.9)
    # model.fc.out_features = num_classes
    # model.load_state_dict(state, strict=False)
    # return opt
    ### END GIVEN


# %% helpers="fine-tune-head"
def network(classes, seed, dtype=torch.float32):
    """A network with weights and statistics that come from a seed."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
            self.fc = nn.Linear(16, classes)

        def forward(self, x):
            return self.fc(self.body(x))

    return filled(Network(), seed, dtype)


def filled(model, seed, dtype=torch.float32):
    """The model with weights and statistics that come from a seed."""
    model, g = model.to(dtype), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for t in model.state_dict().values():
            if t.is_floating_point():
                t.copy_(torch.rand(t.shape, generator=g) + 0.25)
    return model


def described(optimizer, model):
    """The parameters of an optimizer by name, with their settings."""
    facts = {"SGD": isinstance(optimizer, torch.optim.SGD), "rates": {}, "strangers": 0, "twice": 0, "other": []}
    names = {id(p): name for name, p in model.named_parameters()}
    for group in optimizer.param_groups if facts["SGD"] else []:
        for p in group["params"]:
            name = names.get(id(p))
            facts["strangers"] += name is None
            facts["twice"] += name in facts["rates"]
            facts["rates"][str(name)] = [float(group["lr"]), float(group["momentum"])]
        settings = {"dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False}
        facts["other"] += [key for key, usual in settings.items() if group[key] != usual]
    return facts


def first_step(model, optimizer, x):
    """Parameters before and after a step, and their gradients."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.zero_grad()
    model(x).square().mean().backward()
    grads = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    after = {name: p.detach().clone() for name, p in model.named_parameters()}
    return {"before": before, "grads": grads, "after": after}


def prepared(prepare, Backbone, old, classes, lr_body, lr_head, dtype, x, saved=None):
    """Prepare a Backbone of `old` classes for `classes`, then train it for one step.

    saved: the dtype of the checkpoint, if it is another than the model's.
    """
    model, pretrained = filled(Backbone(old), 1, dtype), network(old, 2, saved or dtype)
    names = list(dict(model.named_parameters()))
    state = {name: t.clone() for name, t in pretrained.state_dict().items()}
    old_rows = torch.cat([model.fc.weight.detach().clone(), state["fc.weight"]])
    old_fc = model.fc
    old_biases = torch.cat([model.fc.bias.detach().clone(), state["fc.bias"]])
    optimizer = prepare(model, state, classes, lr_body, lr_head)
    torch.set_grad_enabled(True)
    fc, now = model.fc, model.state_dict()
    facts = {"linear": isinstance(fc, nn.Linear), "names": names == list(dict(model.named_parameters()))}
    if not (facts["linear"] and facts["names"]):
        return facts
    rows, biases = fc.weight.detach().double(), fc.bias.detach().double()
    if saved is not None:
        dtype = model.body[0].weight.dtype
    facts |= {
        "out_features": fc.out_features,
        "shapes": [tuple(fc.weight.shape), tuple(fc.bias.shape)],
        "dtypes": [fc.weight.dtype, fc.bias.dtype],
        "body's dtype": dtype,
        "flags": [p.requires_grad for p in model.parameters()],
        "same fc": fc is old_fc,
        "old rows": rows.shape[1] == 16 and bool((rows[:, None] == old_rows.double()).all(2).any()),
        "old biases": bool(torch.isin(biases, old_biases.double()).any()),
        "loaded": all(
            torch.equal(now[k], t if saved is None else t.to(now[k].dtype))
            for k, t in pretrained.state_dict().items()
            if k.startswith("body")
        ),
        "optimizer": described(optimizer, model),
        "stats": None,
        "step": None,
    }
    places = {t.data_ptr() for t in state.values()}
    facts["shared"] = any(t.data_ptr() in places for t in now.values())
    if facts["optimizer"]["SGD"] and fc.weight.shape == (classes, 16) and fc.weight.dtype == dtype:
        model.train()
        facts["step"] = first_step(model, optimizer, x.to(dtype))
        facts["stats"] = [model.body[1].num_batches_tracked.item(), model.body[1].training]
    same_keys = list(state) == list(pretrained.state_dict())
    facts["state"] = same_keys and all(torch.equal(state[k], t) for k, t in pretrained.state_dict().items())
    return facts


size = mistake(
    "You load after you replace the head, so its shape doesn't fit. Load first.",
    raises="size mismatch|Error\\(s\\) in loading",
)


# %% check="fine-tune-head" points=1
"""The body is loaded, the head is new for any number of classes, and both have their own rates."""
with check("fine-tune-head") as test:

    def judge(old, classes, lr_body, lr_head, dtype=torch.float32, saved=None):
        """Everything about a model whose body and head are trained."""
        x = ((torch.arange(48) * 29 % 53) / 26 - 1).reshape(8, 6)
        seen = observe_scenario(prepared, prepare, Backbone, old, classes, lr_body, lr_head, dtype, x, saved)
        seen.expecting(size)
        seen.that(seen["linear"], "model.fc must be a Linear layer.", stage="type")
        seen.that(seen["names"], "The names of the parameters have changed. They must stay the same.", stage="rule")
        seen.that(
            seen["shapes"] == [(classes, 16), (classes,)],
            "The weights of model.fc don't have the shapes that the new classes need.",
            mistake(
                "Setting out_features changes a number in the repr, not the weight. Make a new Linear.",
                when=lambda seen: seen["out_features"] == classes,
            ),
            stage="shape",
        )
        body = "The new head must have the body's dtype and device."
        of_checkpoint = mistake(
            "The new head has the dtype of the checkpoint, not the body's. `load_state_dict` copies the values into "
            "the model's tensors, which keep their dtype and device.",
            when=lambda seen: saved is not None and seen["dtypes"] == [saved, saved],
        )
        seen.that(seen["dtypes"] == [seen["body's dtype"]] * 2, body, of_checkpoint, stage="dtype")
        seen.that(seen["loaded"], "The body doesn't have the pre-trained weights.")
        copied = "The head must be new, not a slice of the old head."
        seen.that(not seen["old rows"] and not seen["old biases"], copied, stage="aliasing")
        seen.that(not seen["same fc"], "model.fc is still the old layer. Make a new Linear.", stage="aliasing")
        optimizer = seen["optimizer"]
        seen.that(optimizer["SGD"], "Return a torch.optim.SGD optimizer.", stage="type")
        seen.that(
            not optimizer["strangers"],
            "The optimizer still has the parameters of the head that you replaced. Build it after you replace "
            "the head.",
        )
        wanted = {f"body.{n}.{kind}": lr_body for n in (0, 1) for kind in ("weight", "bias")}
        wanted |= {"fc.weight": lr_head, "fc.bias": lr_head}
        rates = optimizer["rates"]
        seen.that(all(name in rates for name in wanted), "Some trainable parameters are in no group.")
        seen.that(
            all(seen["flags"]), "With a rate above 0, body and head are trained, so all parameters must require grad."
        )
        seen.that(not optimizer["twice"], "A parameter is in two groups.")
        exchanged = "The rates are swapped or missing. The body has lr_body, the head lr_head."
        seen.that(all(rates[name][0] == lr for name, lr in wanted.items()), exchanged)
        seen.that(
            all(momentum == 0.9 for _, momentum in rates.values()) and not optimizer["other"],
            "The momentum must be 0.9 for all parameters, and all other settings must be SGD's defaults.",
        )
        step = seen["step"]
        for name, lr in wanted.items():
            before, grad, after = step["before"][name], step["grads"][name], step["after"][name]
            moved = grad is not None and torch.allclose(before - lr * grad, after, rtol=1e-4, atol=1e-6)
            seen.that(moved, "The first step of training does not move a parameter by its rate times its gradient.")
        return seen

    test("5 classes become 3: shapes, loaded body, both parts are trained at their own rate")
    judge(5, 3, 0.01, 0.5)

    test("as many classes as before: the head is new all the same")
    seen = judge(4, 4, 0.01, 0.5)

    ### BEGIN HIDDEN TESTS
    test.hidden("the batch norm of a body that is trained goes on learning")
    seen.that(
        seen["stats"] == [1, True],
        "With a rate above 0 the body is not frozen, so its batch norm must follow model.train().",
        stage="rule",
    )

    def two_models(prepare, Backbone, x):
        """Freeze one Backbone, then prepare another with a rate above 0; whose statistics move in train mode?"""

        def moves(model):
            old = model.body[1].running_mean.clone()
            model.train()
            model(x)
            return not torch.equal(old, model.body[1].running_mean)

        one, other, state = filled(Backbone(4), 1), filled(Backbone(4), 3), network(4, 2).state_dict()
        prepare(one, dict(state), 3, 0, 0.25)
        alone = moves(one)
        prepare(other, dict(state), 3, 0.125, 0.25)
        return {"frozen alone": alone, "frozen": moves(one), "trained": moves(other)}

    test.hidden("two models, one frozen and one not")
    seen = observe_scenario(two_models, prepare, Backbone, torch.arange(48.0).reshape(8, 6) / 24)
    seen.that(
        seen["trained"],
        "Another model was frozen before, and now the batch norm of this one doesn't learn, although its body is "
        "trained. What you set on a class holds for all of its instances: freeze one model alone.",
    )
    seen.that(
        seen["frozen alone"] or not seen["frozen"],
        "The frozen model drifts as soon as another one has been prepared with a rate above 0. What you set on a class "
        "holds for all of its instances: freeze one model alone.",
    )

    test.hidden("more classes, a single class, other rates")
    for old, classes in ((4, 7), (3, 1), (1, 2)):
        judge(old, classes, 0.25, 0.125)

    test.hidden("a body in float64")
    judge(5, 3, 0.01, 0.5, torch.float64)

    test.hidden("a model in float64, a checkpoint in float32")
    judge(5, 3, 0.01, 0.5, torch.float64, saved=torch.float32)

    def elsewhere(prepare, Backbone, lr_body):
        """Prepare a Backbone that lies on the meta device; where is its new head?"""
        model = filled(Backbone(4), 1).to("meta")
        prepare(model, {name: t.clone() for name, t in model.state_dict().items()}, 3, lr_body, 0.1)
        return [p.device.type for p in model.fc.parameters()]

    test.hidden("a body on another device")
    for lr_body in (0.1, 0.0):
        seen = observe_scenario(elsewhere, prepare, Backbone, lr_body)
        on_device = "The new head must have the body's dtype and device."
        seen.that(seen.value == ["meta", "meta"], on_device, stage="device")
    ### END HIDDEN TESTS


# %% check="fine-tune-head" points=1
"""With lr_body = 0 nothing in the body changes; the checkpoint doesn't change, and must fit."""
with check("fine-tune-head") as test:

    def frozen(prepare, Backbone, classes, actions, x, dtype=torch.float32):
        """Prepare a Backbone with lr_body = 0, then do these actions; has its body moved?"""
        model, pretrained = filled(Backbone(4), 1, dtype), network(4, 2, dtype).eval()
        x = x.to(dtype)
        state = {name: t.clone() for name, t in pretrained.state_dict().items()}
        optimizer = prepare(model, state, classes, 0, 0.25)
        torch.set_grad_enabled(True)
        fc = model.fc
        linear = isinstance(fc, nn.Linear) and fc.bias is not None
        facts = {"SGD": isinstance(optimizer, torch.optim.SGD), "linear": linear, "rows": 0, "dtype": False}
        if facts["linear"]:
            facts |= {"rows": len(fc.weight), "dtype": fc.weight.dtype == dtype}
        then, now = pretrained.state_dict(), model.state_dict()
        facts["loaded"] = all(name in now and torch.equal(now[name], t) for name, t in then.items() if "body" in name)
        if not (facts["SGD"] and linear and facts["dtype"] and facts["loaded"] and facts["rows"] == classes):
            return facts
        names = {id(p): name for name, p in model.named_parameters()}
        facts["in optimizer"] = [names.get(id(p), "unknown") for g in optimizer.param_groups for p in g["params"]]
        facts["settings"] = [[float(g["lr"]), float(g["momentum"])] for g in optimizer.param_groups if g["params"]]
        facts |= {"gradients": [], "off": 0.0, "head off": 0.0, "frozen head": False, "no graph": False}
        with torch.no_grad():
            features = pretrained.body(x)
        for action in actions:
            if action in ("train", "eval"):
                getattr(model, action)()
                continue
            out = model(x)
            with torch.no_grad():
                facts["off"] = max(facts["off"], (out - F.linear(features, fc.weight, fc.bias)).abs().max().item())
            if action == "step":
                facts["frozen head"] |= not (out.requires_grad and fc.weight.requires_grad and fc.bias.requires_grad)
                if facts["frozen head"]:
                    facts["no graph"] = fc.weight.requires_grad and fc.bias.requires_grad
                    break
                optimizer.zero_grad()
                out.square().mean().backward()
                got = [name for name, p in model.named_parameters() if p.grad is not None]
                facts["gradients"] += [name for name in got if name.startswith("body")]
                before, grad = fc.weight.detach().clone(), fc.weight.grad.clone()
                optimizer.step()
                if action == actions[-1] and actions.count("step") == 1:
                    facts["head off"] = (before - 0.25 * grad - fc.weight.detach()).abs().max().item()
        now, then = model.state_dict(), pretrained.state_dict()
        same = {name: name in now and torch.equal(now[name], t) for name, t in then.items() if name.startswith("body")}
        facts["moved"] = [name for name, is_same in same.items() if not is_same]
        facts["state"] = all(torch.equal(state[name], t) for name, t in then.items() if name in state)
        return facts | {"state": facts["state"] and len(state) == len(then)}

    def judge_frozen(classes, actions, dtype=torch.float32):
        """A frozen body does not move, whatever is done."""
        x = ((torch.arange(48) * 29 % 53) / 26 - 1).reshape(8, 6)
        seen = observe_scenario(frozen, prepare, Backbone, classes, actions, x, dtype)
        seen.expecting(
            mistake(
                "You load after you replace the head, so its shape doesn't fit. Load first.", raises="size mismatch"
            )
        )
        seen.that(seen["linear"], "model.fc must be a Linear layer with a bias.", stage="type")
        seen.that(
            seen["rows"] == classes, "model.fc does not have as many outputs as there are new classes.", stage="shape"
        )
        seen.that(seen["dtype"], "The new head must have the body's dtype and device.", stage="dtype")
        seen.that(seen["loaded"], "The body doesn't have the pre-trained weights and statistics.")
        seen.that(seen["SGD"], "Return a torch.optim.SGD optimizer.", stage="type")
        seen.that(
            not seen["gradients"],
            "With a rate of 0 alone, gradients (and momentum) are still computed. Call requires_grad_(False).",
            stage="gradient",
        )
        statistics = (
            "The frozen body drifts, because in train mode batch norm updates its statistics whatever requires_grad is."
        )
        of_batch = mistake(
            "The running mean and variance of the frozen body stay as they are, but in train mode batch norm "
            "normalises with those of the batch, so the outputs change. Keep it in eval mode.",
            when=lambda seen: seen["off"] >= 1e-4 and seen["moved"] == ["body.1.num_batches_tracked"],
        )
        seen.that(not seen["moved"], statistics, of_batch)
        seen.that(
            seen["off"] < 1e-4,
            "The outputs of the frozen body differ from its outputs in eval mode with the checkpoint's statistics.",
        )
        without_graph = mistake(
            "The weights of the head require grad, but its output has no graph, so the head gets no gradient. Only the "
            "body may run under no_grad.",
            when=lambda seen: seen["no graph"],
        )
        head = "The head is trained, so it must require grad."
        seen.that(not seen["frozen head"], head, without_graph, stage="gradient")
        seen.that(
            sorted(seen["in optimizer"]) == ["fc.bias", "fc.weight"],
            "If the body is frozen, the optimizer must have the parameters of the new head, and nothing else.",
            mistake(
                "The optimizer still has the parameters of the head that you replaced. Build it after you "
                "replace the head.",
                when=lambda seen: "unknown" in seen["in optimizer"],
            ),
        )
        seen.that(
            seen["settings"] == [[0.25, 0.9]] * len(seen["settings"]),
            "The head must be trained with lr_head and momentum 0.9.",
        )
        seen.that(seen["head off"] < 1e-5, "The first step does not move the head by its rate times its gradient.")
        seen.that(seen["state"], "The checkpoint was changed.", stage="arguments")

    test("model.train(), then a step: nothing of the body moves, no gradients for it")
    judge_frozen(3, ["train", "step"])

    ### BEGIN HIDDEN TESTS
    test.hidden("a forward right after prepare, before any call of train()")
    judge_frozen(3, ["forward"])
    judge_frozen(3, ["step"])

    test.hidden("many switches between train() and eval()")
    judge_frozen(5, ["train", "step", "eval", "forward", "train", "step", "train", "forward", "eval", "eval", "step"])
    judge_frozen(4, ["eval", "forward", "train", "forward", "forward", "step", "step"])

    test.hidden("the checkpoint stays as it is, and shares no memory with the model")
    x = ((torch.arange(48) * 29 % 53) / 26 - 1).reshape(8, 6)
    for old, classes in ((4, 3), (4, 4), (3, 1)):
        seen = observe_scenario(prepared, prepare, Backbone, old, classes, 0.25, 0.125, torch.float32, x)
        seen.expecting(size).that(seen["linear"] and seen["names"], "", FIRST_CHECK_FIRST)
        seen.that(not seen["shared"], "The model's tensors share memory with the checkpoint.", stage="aliasing")
        seen.that(seen["state"], "The checkpoint was changed.", stage="arguments")

    def misfitting(prepare, Backbone, kind, lr_body):
        """Prepare a Backbone with a checkpoint that does not fit; what is raised?"""
        model, state = filled(Backbone(4), 1), dict(network(4, 2).state_dict())
        if kind == "other classes":
            state = dict(network(3, 2).state_dict())
        elif kind == "no statistics":
            del state["body.1.running_mean"]
        elif kind == "no bias":
            del state["body.0.bias"]
        elif kind == "no head":
            state = {name: t for name, t in state.items() if name.startswith("body")}
        elif kind == "one key more":
            state["body.3.weight"] = torch.ones(2)
        elif kind == "a head of another model":
            state["classifier.weight"] = state.pop("fc.weight")
        elif kind == "other names":
            state = {f"module.{name}": t for name, t in state.items()}
        elif kind == "another width":
            state["body.0.weight"] = torch.ones(16, 5)
        elif kind == "a transposed head":
            state["fc.weight"] = state["fc.weight"].t()
        try:
            prepare(model, state, 3, lr_body, 0.1)
        except RuntimeError:
            return "RuntimeError"
        return "nothing"

    test.hidden("a checkpoint that does not fit is refused")
    strict = (
        "strict=False hides a checkpoint that does not fit. Load strictly, before you replace the head, so that "
        "the shapes agree."
    )
    kinds = ["no statistics", "no bias", "no head", "one key more", "a head of another model", "other names"]
    kinds += ["other classes", "another width", "a transposed head"]
    for n, kind in enumerate(kinds):
        seen = observe_scenario(misfitting, prepare, Backbone, kind, 0.1 * (n % 2))
        seen.expecting(mistake(strict, stage="raised")).that(seen.value == "RuntimeError", strict)
    ### END HIDDEN TESTS
