# %% [markdown]
# ### Exercise 7.8 · Freeze batch norm so that it stays frozen
#
# fix · solid · 15 min · 2 points
#
# When you fine-tune on small batches, the batch-norm layers of a pretrained model should stay as they are. Somebody
# wrote this function for it, and yet the statistics drift from epoch to epoch. Fix it, for every model and for good.
#
# **Contract**
#
# - Freezes every batch-norm layer (BatchNorm1d, 2d, 3d, SyncBatchNorm and classes derived from them, which keep their
#   forward and contain no other layers) at any depth, including the model itself, and returns how many there are. A
#   layer with several names is one layer.
# - A frozen layer never changes its running statistics and num_batches_tracked, and always normalises with the running
#   statistics, even after later calls of `train()` on the model or on any part of it. Its weight and bias have
#   requires_grad False. Its `train(mode=True)` and `eval()` still return the layer. A layer without running statistics
#   is also counted and frozen; it goes on normalising with its batch. A layer without weight and bias is fine.
# - All other layers (including LayerNorm, InstanceNorm and Dropout) behave as before and still follow train() and
#   eval().
# - The keys and values of the state_dict stay the same. A checkpoint can still be loaded, and the layers then use it.
#   Calling the function twice is harmless.
#
# <details><summary>Hint 1</summary>
#
# What undoes your eval() at the start of the next epoch? Does momentum=0 change what the layer divides by?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `modules()` finds layers at every depth, including the model itself. Check for the four classes by name, since
# InstanceNorm shares a base class with them. `requires_grad_(False)` lasts, but `eval()` doesn't: `model.train()` calls
# `train` of each child, and so on down the tree. So which of a layer's methods would have to change?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# After you have called `eval()` once, each frozen layer must refuse train mode. Its method can be replaced on the
# instance, by a function that leaves the flag alone and returns the layer; take care that each function returns its own
# layer and not the last one of the loop. (A forward pre-hook that sets the flag and returns nothing also works.)
#
# </details>


# %% answer="freeze-batchnorm"
def freeze_batchnorm(model: nn.Module) -> int:
    """Freeze all batch-norm layers of a model, for good; return how many."""
    ### BEGIN SOLUTION
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.requires_grad_(False)
        layer.eval()
        layer.train = lambda mode=True, layer=layer: layer
    return len(layers)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # for m in model.children():
    #     if isinstance(m, nn.BatchNorm2d):
    #         m.requires_grad_(False)
    #         m.eval()
    ### END GIVEN


# %% helpers="freeze-batchnorm"
def small_net():
    """Three batch norms, one of them in a container, with statistics of their own; layer norm and dropout."""
    block = nn.Sequential(OrderedDict(leak=nn.LeakyReLU(0.5), mix=nn.Linear(2, 2), norm=nn.BatchNorm2d(2)))
    layers = {"mix": nn.Linear(3, 2), "norm": nn.BatchNorm2d(2, eps=0.25), "block": block}
    layers |= {"flat": nn.Flatten(), "last_norm": nn.BatchNorm1d(8), "layer_norm": nn.LayerNorm(8)}
    net = nn.Sequential(OrderedDict(layers, drop=nn.Dropout(0.5), head=nn.Linear(8, 2)))
    with torch.no_grad():
        for shift, (name, tensor) in enumerate(net.state_dict().items()):
            if "norm" in name and "layer_norm" not in name:
                tensor.copy_((torch.arange(tensor.numel()) * 7 % 5 / 8 + shift / 4 + 0.5).reshape(tensor.shape))
    return net


def copies_of(net):
    """Copies of all that is in the state_dict."""
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


def frozen_by(answer, net, times):
    """Freeze; the number that came back, and whether batch norms elsewhere are as they were."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    kinds += tuple(kinds[0].__mro__[1:-1])  # what they inherit from, nn.Module included
    kept = [(kind, dict(vars(kind))) for kind in kinds]
    bystander = nn.BatchNorm1d(2)
    x = torch.tensor([[3.0, 1.0], [5.0, -2.0]])
    try:
        for _ in range(times):
            count = answer(net)
        modes = [bystander.eval().training, bystander.train().training]
        bystander(x)
        moved = bool(bystander.running_mean.any()) and bystander.training
    finally:
        for kind, attributes in kept:
            for name in [name for name in vars(kind) if vars(kind)[name] is not attributes.get(name)]:
                if name in attributes:
                    setattr(kind, name, attributes[name])
                elif not name.startswith("__"):
                    delattr(kind, name)
    return count, modes == [False, True] and moved


def woken(net, way):
    """Call train() in some way."""
    if way == "train":
        net.train()
    if way == "eval and train":
        net.eval()
        net.train(True)
    if way == "parts":
        for module in net.children():
            module.train()
        net.block.norm.train(True)
    if way == "apply":
        net.apply(lambda module: module.train())


def story(answer, ways, times=1, loads=False):
    """Freeze a model, then try to wake it in each of these ways, run it and take a step; has a batch norm changed?"""
    net = small_net()
    before = copies_of(net)
    count, alone = frozen_by(answer, net, times)
    facts = {"count": count, "alone": alone, "before": before, "after freezing": copies_of(net), "steps": []}
    if loads:
        loaded = {n: t + 1 if "norm" in n else t for n, t in before.items()}
        net.load_state_dict(loaded)
        facts["before"] = facts["after freezing"] = loaded
    norms = {name: net.get_submodule(name) for name in ("norm", "block.norm", "last_norm")}
    for step, way in enumerate(ways):
        woken(net, way)
        passed = {}

        def noting(name, passed=passed):
            def note(module, args, output):
                passed[name] = [args[0].detach().clone(), output.detach().clone()]

            return note

        handles = [module.register_forward_hook(noting(name)) for name, module in norms.items()]
        out = net(torch.arange(48.0).reshape(4, 2, 2, 3) * (7 + 4 * step) % 11 - 3 + step)
        for handle in handles:
            handle.remove()
        facts["steps"].append({"passed": passed, "state": copies_of(net)})
    out.square().sum().backward()
    named = dict(net.named_parameters())
    facts["flags"] = {name: parameter.requires_grad for name, parameter in named.items()}
    facts["no gradient"] = [n for n, p in named.items() if p.requires_grad and (p.grad is None or not p.grad.any())]
    facts["modes"] = {}
    for mode in (False, True):
        net.train(mode)
        others = [name for name, module in net.named_modules() if name not in norms and module.training != mode]
        facts["modes"][str(mode)] = others
    net.train()
    ones = torch.ones(1, 100)
    facts["drops"] = bool((net.drop(ones) == 0).any())
    net.eval()
    facts["drops in eval"] = bool((net.drop(ones) == 0).any())
    return facts


def normalised(x, state, name):
    """What batch norm makes of x with the running statistics in a state."""
    shape = (1, -1) + (1,) * (x.dim() - 2)
    mean, var, weight, bias = (
        state[f"{name}.{key}"].reshape(shape) for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (var + (0.25 if name == "norm" else 1e-5)).sqrt() * weight + bias


sentences = {
    "drift": "requires_grad=False freezes weight and bias only; the running statistics are buffers and are updated "
    "in every train-mode forward.",
    "thawed": "model.train() switched the layers back: eval() does not last. The layer must refuse train mode.",
    "batch": "The statistics no longer change, but the layer still normalises with those of the batch (momentum=0 "
    "or track_running_stats=False does that). It must use the running statistics.",
    "children": "Nested layers were missed: walk modules().",
    "types": "Freeze exactly the batch norms: BatchNorm1d, 2d, 3d and SyncBatchNorm, but not InstanceNorm, which "
    "shares their base class.",
    "count": "Return the number of frozen batch-norm layers - those and no others.",
    "affine": "weight and bias of the frozen layers must have requires_grad=False.",
    "state": "The layers were replaced or their state changed: keys and values of state_dict must stay.",
    "others": "Other layers must still follow train() and eval(): only the batch norms are frozen.",
}


hooked = mistake(
    "A batch-norm layer got a module as its input. What a forward pre-hook returns replaces the input, and `eval()` "
    "returns the layer: switch the flag in the hook, and return nothing.",
    raises="BatchNorm.* has no attribute 'dim'",
)


def same_state(came, state):
    """Whether two states agree, name by name."""
    return came.keys() == state.keys() and all(torch.equal(came[name], state[name]) for name in state)


def drifted_in(step, before):
    """The layers whose running statistics have changed."""
    state = step["state"]
    names = [name for name in before if name.endswith(("running_mean", "running_var"))]
    return {name.rpartition(".")[0] for name in names if name in state and not torch.equal(state[name], before[name])}


def judge(seen, *woken, first=()):
    """Judge state, outputs, statistics; mistakes in `woken` are for layers that came back to life."""
    before = seen.expecting(hooked)["before"]
    elsewhere = "You also froze the batch norms of another model: change the layers of this model, not their class."
    seen.that(seen["alone"], elsewhere, stage="rule")
    seen.that(same_state(seen["after freezing"], before), sentences["state"])
    for way, step in zip(seen.args[1], seen["steps"], strict=True):
        drifted = drifted_in(step, before)
        wrong = {
            name
            for name, (x, out) in step["passed"].items()
            if not torch.allclose(out, normalised(x, before, name), rtol=1e-4, atol=1e-4)
        }
        alive = drifted | wrong
        seen.that(
            not alive,
            "Batch-norm layers do not normalise with their running statistics, or change them.",
            *first,
            mistake(sentences["children"], when=lambda seen, alive=alive: alive == {"block.norm"}),
            mistake(sentences["types"], when=lambda seen, alive=alive: "last_norm" in alive and len(alive) < 3),
            mistake(sentences["batch"], when=lambda seen, drifted=drifted: not drifted),
            mistake(
                "train() of a part of the model switched its layers back; the model's own train() did not. Each "
                "batch-norm layer must itself refuse train mode, whatever calls its train().",
                when=lambda seen, way=way, step=step: way in ("parts", "apply") and step is not seen["steps"][0],
            ),
            *woken,
        )
    last = seen["steps"][-1]["state"]
    counters = [name for name in before if "tracked" in name and name in last]
    counted = any(int(last[name]) != int(before[name]) for name in counters)
    seen.that(not counted, "num_batches_tracked still counts: a frozen layer changes none of its buffers.")
    seen.that(same_state(last, before), sentences["state"])


# %% check="freeze-batchnorm" points=1
"""Frozen layers normalise with their running statistics and keep them, also after train()."""
with check("freeze-batchnorm") as test:
    test("in train mode, right after freezing, the layers normalise with their running statistics")
    judge(
        observe_scenario(story, freeze_batchnorm, ["not at all"]),
        mistake(sentences["drift"], when=lambda seen: not any(on for n, on in seen["flags"].items() if "norm.w" in n)),
        mistake(sentences["drift"], when=lambda seen: not seen["flags"]["norm.weight"]),
    )

    test("the statistics stay after train(), a forward pass, train(), a forward pass; three layers are frozen")
    thawed = mistake(sentences["thawed"], stage="value")
    seen = observe_scenario(story, freeze_batchnorm, ["train", "train"])
    judge(seen, thawed)


# %% check="freeze-batchnorm" points=1
"""Flags and modes of all layers; the number; norms of all kinds, checkpoints, single samples."""
with check("freeze-batchnorm") as test:

    def judge_rest(seen):
        """Judge flags, gradients, modes and the number."""
        flags = seen["flags"]
        frozen = [name for name in flags if "norm." in name and "layer_norm" not in name]
        seen.that(not any(flags[name] for name in frozen), sentences["affine"], stage="gradient")
        kept = all(on for name, on in flags.items() if name not in frozen)
        seen.that(kept, "Only the batch norms are frozen: other parameters must still require grad.", stage="gradient")
        stuck = ", ".join(seen["no gradient"])
        seen.that(
            not stuck, f"No gradient reaches {stuck}: the layers before a frozen one are trained.", stage="gradient"
        )
        follow = not seen["modes"]["True"] and not seen["modes"]["False"]
        seen.that(follow, sentences["others"], stage="rule")
        seen.that(seen["drops"] and not seen["drops in eval"], sentences["others"], stage="rule")
        number = seen["count"]
        seen.that(type(number) is int and number == 3, sentences["count"])

    seen = observe_scenario(story, freeze_batchnorm, ["train", "train"]).expecting(hooked)

    test("weight and bias don't require grad; all other parameters are trained; other layers follow train and eval")
    judge_rest(seen)

    ### BEGIN HIDDEN TESTS
    thawed = mistake(sentences["thawed"], stage="value")

    test.hidden("eval() and train() in turn, train() of the parts, train() by apply")
    seen = observe_scenario(story, freeze_batchnorm, ["eval and train", "parts", "apply"])
    judge(seen, thawed)
    judge_rest(seen)

    test.hidden("frozen twice")
    seen = observe_scenario(story, freeze_batchnorm, ["train"], 2)
    judge(seen, thawed)
    judge_rest(seen)

    test.hidden("a checkpoint is loaded after freezing")
    later = mistake("Frozen layers must use the statistics of a checkpoint that is loaded.", stage="value")
    judge(observe_scenario(story, freeze_batchnorm, ["train"], 1, True), thawed, first=[later])

    class Norm(nn.BatchNorm1d):
        """A batch norm under another name."""

    def kinds_of_norm(answer):
        """Freeze a model that holds norm layers of all kinds."""
        layers = {
            "derived": (Norm(2), (3, 2)),
            "batch 1d": (nn.BatchNorm1d(2), (3, 2)),
            "batch 3d": (nn.BatchNorm3d(2), (3, 2, 2, 1, 2)),
            "sync": (nn.SyncBatchNorm(2), (3, 2, 4)),
            "instance": (nn.InstanceNorm1d(2, affine=True, track_running_stats=True), (3, 2, 4)),
            "instance 2d": (nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (3, 2, 2, 2)),
            "group": (nn.GroupNorm(1, 2), (3, 2)),
            "layer": (nn.LayerNorm(2), (3, 2)),
        }
        net = nn.ModuleDict({name: layer for name, (layer, _) in layers.items()})
        net["again"] = nn.Sequential(net["batch 1d"])
        count = answer(net)
        net.train()
        facts = {"count": count, "drifted": [], "in train mode": [], "trained": []}
        for name, (_, shape) in layers.items():
            before = copies_of(net[name])
            out = net[name](torch.arange(math.prod(shape)).reshape(shape) * 7 % 11 + 1.0)
            if not same_state(copies_of(net[name]), before):
                facts["drifted"].append(name)
            if out.mean().abs() < 0.01:
                facts["in train mode"].append(name)
            facts["trained"] += [name for p in net[name].parameters(recurse=False) if p.requires_grad][:1]
        return facts

    test.hidden("batch norms of all kinds, and norms that are no batch norms")
    seen = observe_scenario(kinds_of_norm, freeze_batchnorm).expecting(
        mistake(sentences["types"], raises="SyncBatchNorm")
    )
    others = ["instance", "instance 2d", "group", "layer"]
    asleep = mistake(sentences["thawed"], when=lambda seen: {"batch 1d", "batch 3d", "sync"} <= {*seen["drifted"]})
    derived = mistake(
        "A layer whose class is derived from nn.BatchNorm1d is a batch norm, whatever its class is called; yours "
        "was not frozen. Use isinstance.",
        when=lambda seen: seen["drifted"] == ["derived", *others[:2]],
    )
    seen.that(seen["drifted"] == others[:2], sentences["types"], derived, asleep)
    seen.that(seen["in train mode"] == others, sentences["types"])
    seen.that(seen["trained"] == others, sentences["types"], stage="gradient")
    again = mistake(
        "You counted a layer more than once because it is in several places of the model. `modules()` lists every "
        "layer once; recursion over `children()`, which `apply()` also does, comes to it again.",
        when=lambda seen: type(seen["count"]) is int and seen["count"] == 5,
    )
    seen.that(seen["count"] == 4, sentences["count"], again)

    def without_parts(answer):
        """Freeze a batch norm without weight and bias, and one without running statistics; then run both."""
        net = nn.Sequential(nn.BatchNorm1d(2, affine=False), nn.BatchNorm1d(2, track_running_stats=False), nn.Tanh())
        count = answer(net)
        net.train()
        before = copies_of(net)
        out = net(torch.tensor([[3.0, 1.0], [5.0, -2.0], [4.0, 0.0]]))
        same = same_state(copies_of(net), before)
        return {
            "count": count,
            "same": same,
            "first": net[0](torch.full((2, 2), 7.0)),
            "finite": bool(out.isfinite().all()),
        }

    test.hidden("without weight and bias, without running statistics")
    seen = observe_scenario(without_parts, freeze_batchnorm).expecting(
        mistake("A layer may have no weight and bias, or no running statistics.", raises="NoneType|Attribute|Type")
    )
    seen.that(seen["count"] == 2, sentences["count"])
    seen.that(seen["same"] and seen["finite"], sentences["state"])
    seen.that(torch.allclose(seen["first"], torch.full((2, 2), 7.0), atol=1e-3), sentences["batch"])

    def single_sample(answer, mode):
        """Freeze a model that is itself a batch norm, then give it one sample in train mode."""
        net = nn.BatchNorm1d(2)
        count = answer(net)
        net.train(mode)
        try:
            out = net(torch.tensor([[3.0, 1.0]])).detach().clone()
        except ValueError:  # batch norm in train mode needs more than one value per channel
            out = None
        return {"count": count, "out": out}

    test.hidden("a single sample in train mode; the model itself is a batch norm")
    seen = observe_scenario(single_sample, freeze_batchnorm, True)
    itself = mistake("The model itself may be a batch norm: modules() lists it.", when=lambda seen: seen["count"] == 0)
    seen.that(seen["count"] == 1, sentences["count"], itself)
    seen.that(seen["out"] is not None, sentences["thawed"])
    seen.that(torch.allclose(seen["out"], torch.tensor([[3.0, 1.0]]), atol=1e-3), sentences["batch"])

    def nothing_to_freeze(answer):
        """Freeze a model that has no batch norm."""
        net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2), nn.Dropout())
        count = answer(net)
        return {"count": count, "flags": all(p.requires_grad for p in net.parameters()), "mode": net[2].training}

    def calls_of(layer):
        """What the calls of train() and eval() return."""
        return layer.train(), layer.train(mode=True), layer.train(mode=False), layer.eval()

    def what_comes_back(answer):
        """Freeze two layers, then ask what their train(), train(mode=True) and eval() return."""
        net = nn.Sequential(nn.BatchNorm1d(2), nn.Tanh(), nn.BatchNorm1d(2))
        answer(net)
        returned = [(layer, back) for layer in net for back in calls_of(layer)]
        return ["itself" if back is layer else "nothing" if back is None else "another one" for layer, back in returned]

    test.hidden("train() and eval() of a frozen layer return the layer")
    seen = observe_scenario(what_comes_back, freeze_batchnorm).expecting(
        mistake(
            "`layer.train(mode=True)` raises TypeError: the function that you put in the place of `train` has no "
            "parameter called `mode`.",
            raises="unexpected keyword argument 'mode'",
        )
    )
    other = next((kind for kind in seen.value if kind != "itself"), "")
    seen.that(not other, f"train() and eval() of a layer must return the layer itself; yours returns {other}.")

    test.hidden("a model without batch norm: 0")
    seen = observe_scenario(nothing_to_freeze, freeze_batchnorm)
    seen.that(type(seen["count"]) is int and seen["count"] == 0, sentences["count"])
    seen.that(seen["flags"] and seen["mode"], sentences["others"], stage="rule")
    ### END HIDDEN TESTS
