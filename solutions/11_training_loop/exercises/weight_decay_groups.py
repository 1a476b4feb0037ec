# %% [markdown]
# ### Exercise 11.7 · Decay the weights, not the norms
#
# implement · solid · 15 min · 2 points
#
# Weight decay pulls every parameter of its group towards zero. For biases and for the scales of a normalisation layer
# that makes no sense, so most training scripts begin with a function such as this.
#
# **Contract**
#
# - Return a list of two parameter groups for an optimizer, dicts with `params` and `weight_decay`. The first group has
#   the parameters that are decayed, with `weight_decay`; the second has the others, with 0.0.
# - These parameters are not decayed: parameters with fewer than two dimensions, and all parameters of a normalisation
#   layer itself (not those of layers inside it), whatever their shape. Normalisation layers are LayerNorm, GroupNorm,
#   RMSNorm, batch norm, instance norm, and classes derived from these.
# - For every other parameter, including a bare `nn.Parameter` of a custom module, the number of dimensions decides.
# - The groups contain only trainable parameters, each object once (think of tied weights), in the order of
#   `model.parameters()`. `params` is a list and may be empty. The model is not changed.
#
# Many scripts, such as nanoGPT's, look only at the number of dimensions. They would decay the weight of `LayerNorm((2,
# 3))`, because it has two.
#
# In Exercise 12.7 you write the step that uses these groups.
#
# <details><summary>Hint 1</summary>
#
# Does the name tell you what a parameter is? (What is `1.weight` in an nn.Sequential?) How often do you meet a tied
# weight when you walk through the modules?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `modules()` tells you which module owns a parameter, and `model.parameters()` gives you the order. So go through the
# model twice, and remember parameters by `id` in between.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Collect the ids of all parameters that norm modules own directly. Then make one pass over all parameters of the model:
# skip those that don't require grad, and sort the others by their number of dimensions and by whether their id was
# collected.
#
# </details>


# %% answer="weight-decay-groups"
def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two parameter groups: decayed, and not decayed (norms, and less than two dimensions)."""
    ### BEGIN SOLUTION
    batch_and_instance_norm = nn.modules.batchnorm._NormBase
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, batch_and_instance_norm)
    norms = [module for module in model.modules() if isinstance(module, kinds)]
    of_norms = {id(p) for norm in norms for p in norm.parameters(recurse=False)}
    decayed, others = [], []
    for p in model.parameters():
        if p.requires_grad:
            (others if p.ndim < 2 or id(p) in of_norms else decayed).append(p)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    ### END SOLUTION


# %% helpers="weight-decay-groups"
def described(groups, names):
    """The groups with names in place of parameters."""
    found = []
    for group in groups:
        params = group.get("params")
        is_list = isinstance(params, (list, tuple))
        own = [names.get(id(p), "unknown") for p in params] if is_list else []
        facts = {"kind": type(params).__name__, "list": is_list, "names": own}
        decay = group.get("weight_decay")
        found.append(facts | {"decay": decay if isinstance(decay, (int, float)) else None})
    return found


def state_of(model):
    """What must not change: values, flags and objects of the parameters, modes of the modules."""
    values = [(p.detach().clone(), p.requires_grad) for p in model.parameters()]
    return values, [(id(p), id(p.grad)) for p in model.parameters()], [m.training for m in model.modules()]


def same_state(a, b):
    """Whether the model is as before."""
    same = len(a[0]) == len(b[0]) and a[1:] == b[1:]
    return same and all(
        (x[0].is_meta or torch.equal(x[0], y[0])) and x[1] == y[1] for x, y in zip(a[0], b[0], strict=True)
    )


def examined(decay_groups, model, weight_decay, times=1):
    """The groups of a model, by the names of the parameters."""
    names = {id(p): name for name, p in model.named_parameters()}
    before = state_of(model)
    for _ in range(times):
        groups = decay_groups(model, weight_decay)
    is_pair = isinstance(groups, (list, tuple)) and [isinstance(g, dict) for g in groups] == [True, True]
    same = same_state(before, state_of(model))
    facts = {"pair": is_pair, "groups": described(groups, names) if is_pair else [], "same": same}
    return facts | {"meta": any(p.is_meta for p in model.parameters())}


class Mixed(nn.Module):
    """An embedding, norms of every kind, bare parameters."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 4)
        self.parts = nn.ModuleList(
            [nn.GroupNorm(2, 4), nn.RMSNorm(4), nn.BatchNorm1d(4), nn.InstanceNorm1d(4, affine=True)]
        )
        self.wide = nn.LayerNorm((3, 4))
        self.scale, self.mix = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(2, 4))
        self.head = nn.Linear(4, 5)


of_parts = [f"parts.{n}.{name}" for n in range(4) for name in ("weight", "bias") if (n, name) != (1, "bias")]
others_of_mixed = ["scale", *of_parts, "wide.weight", "wide.bias", "head.bias"]
in_order = "The decayed group must come first, and the parameters must be in the order of model.parameters()."


def judge(seen, decayed, others, weight_decay, norms_2d=()):
    """The first group holds these decayed parameters, and the second the others.

    norms_2d: the parameters of norms over two dimensions, whose ndim alone does not give them away.
    """
    seen.that(seen["pair"], "Return a list of two dicts, each with params and weight_decay.", stage="type")
    first, second = seen["groups"]
    kinds = {first["kind"], second["kind"]}
    seen.that(
        first["list"] and second["list"],
        "The params of a group must be a list.",
        mistake(
            "A generator is empty after the first use, so the groups must contain lists.",
            when=lambda seen: kinds & {"generator", "filter", "map"},
        ),
        stage="type",
    )
    names, known = first["names"] + second["names"], [*decayed, *others]
    own = "The groups must contain the model's own parameters, not copies, names or pairs."
    seen.that("unknown" not in names, own, stage="type")
    tied = "A tied weight is listed twice; the optimizer would refuse it (or step it twice)."
    seen.that(len(set(names)) == len(names), tied)
    seen.that(set(names) <= set(known), "Frozen parameters do not belong in the groups.")
    seen.that(set(names) >= set(known), "Parameters of layers of other types are in no group.")
    turned = set(first["names"]) == set(others) and set(second["names"]) == set(decayed)
    seen.that(not turned or not decayed, in_order)
    extra = set(first["names"]) - set(decayed)
    seen.that(
        not extra,
        "You can't tell a norm layer by its name: in a Sequential it may be called '1'. Check the module's type.",
        mistake(
            "A class derived from a norm layer is also a norm layer. Use isinstance instead of comparing "
            "types or names.",
            when=lambda seen: "a.weight" in extra and "deep.0.0.weight" not in extra,
        ),
        mistake(
            "nn.RMSNorm is also a norm layer, but it isn't derived from LayerNorm.",
            when=lambda seen: extra and all(name.startswith("deep.0.0.") for name in extra),
        ),
        mistake(
            "The model is a norm layer itself here, and your code decays its parameters. `modules()` begins with the "
            "model; `children()` doesn't.",
            when=lambda seen: extra == {"weight", "bias"},
        ),
        mistake(
            "A norm layer over two dimensions, such as LayerNorm((2, 3)), has a weight with two dimensions, "
            "and your code decays it. No parameter of a norm layer is decayed.",
            when=lambda seen: extra & set(norms_2d) and all(n in norms_2d or n.endswith(".mix") for n in extra),
        ),
        mistake(
            "nn.SyncBatchNorm is also batch norm, but it isn't derived from BatchNorm1d, 2d or 3d. All of them are "
            "derived from nn.modules.batchnorm._BatchNorm.",
            when=lambda seen: extra == {"mixing.3.mix"},
        ),
        mistake(
            "No parameter of a norm layer is decayed, not even a parameter that a class derived from "
            "GroupNorm, batch norm or instance norm has added.",
            when=lambda seen: all(name.endswith(".mix") for name in extra),
        ),
        mistake(
            "A scalar parameter has fewer than two dimensions, so it is not decayed.",
            when=lambda seen: extra == {"noise.temperature"},
        ),
        mistake(
            "Biases (and other 1-D parameters) must not be decayed.",
            when=lambda seen: any(name.endswith("bias") for name in extra) or extra == {"scale"},
        ),
    )
    seen.that(
        set(first["names"]) == set(decayed),
        "A parameter with two or more dimensions that belongs to no norm layer must be decayed, whatever its name.",
        mistake(
            "This model is on the meta device, where the data_ptr() of every parameter is 0, and your first group is "
            "empty. Recognise a parameter by its id.",
            when=lambda seen: seen["meta"] and not first["names"],
        ),
        mistake(
            "A custom module may also have an attribute called `num_groups` or `normalized_shape`, as wav2vec's "
            "quantizer has. That doesn't make it a norm layer: check the module's type with isinstance.",
            when=lambda seen: set(decayed) - set(first["names"]) == {"codes.table"},
        ),
        mistake(
            "A layer inside a norm layer is not a norm layer, but `norm.parameters()` also lists its "
            "weights. Use parameters(recurse=False).",
            when=lambda seen: set(decayed) - set(first["names"]) == {"gated.gate.weight"},
        ),
    )
    seen.that(
        [first["decay"], second["decay"]] == [weight_decay, 0.0],
        "The first group's weight_decay must be the given one, and the second group's 0.0.",
    )


# %% check="weight-decay-groups" points=1
"""Weights, biases and norms of every kind; a step of an optimizer with the groups."""
with check("weight-decay-groups") as test:

    def model_of(kind):
        """One of the models, all of its parameters filled with 1."""
        if kind == "sequential":
            model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        else:
            model = Mixed()
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(1.0)
        return model

    def grouped(decay_groups, kind, weight_decay):
        """Sort the parameters of a model of this kind into groups."""
        return examined(decay_groups, model_of(kind), weight_decay)

    def stepped(decay_groups, kind):
        """Give the groups to SGD and take a step with zero gradients."""
        model = model_of(kind)
        optimizer = torch.optim.SGD(decay_groups(model, 0.5), lr=0.5)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        return {name: p.detach().flatten()[0].item() for name, p in model.named_parameters()}

    test("Linear and LayerNorm in a Sequential")
    seen = observe_scenario(grouped, decay_groups, "sequential", 0.25)
    judge(seen, ["0.weight", "3.weight"], ["0.bias", "1.weight", "1.bias", "3.bias"], 0.25)

    test("norms of every kind, and bare parameters")
    seen = observe_scenario(grouped, decay_groups, "mixed", 0.125)
    judge(seen, ["mix", "emb.weight", "head.weight"], others_of_mixed, 0.125, norms_2d=["wide.weight", "wide.bias"])

    test("an optimizer takes the groups; with zero gradients only the weights shrink")
    seen = observe_scenario(stepped, decay_groups, "sequential")
    shrunk = [name for name, value in seen.value.items() if value != 1.0]
    seen.that(shrunk == ["0.weight", "3.weight"], f"After a step with zero gradients these have changed: {shrunk}.")


# %% check="weight-decay-groups" points=1
"""Tied and frozen parameters, the order, empty groups, derived norms, names that mislead."""
with check("weight-decay-groups") as test:

    class TiedAndFrozen(Mixed):
        """The embedding's weight is also the last layer's; another layer is frozen."""

        def __init__(self):
            super().__init__()
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.head.weight = self.emb.weight

    def grouped(decay_groups, weight_decay):
        """Sort the parameters of a model with a tied weight and a frozen layer into groups."""
        return examined(decay_groups, TiedAndFrozen(), weight_decay)

    def judge_all(seen, decayed, others, weight_decay, norms_2d=()):
        """The groups as above; the order within them, and the model as before."""
        judge(seen, decayed, others, weight_decay, norms_2d)
        names = [group["names"] for group in seen["groups"]]
        seen.that(names == [decayed, others], in_order)
        changed = "The model was changed: a parameter, its flag or the mode of a module."
        seen.that(seen["same"], changed, stage="arguments")

    test("a tied embedding, norms of every kind, bare parameters, a frozen layer")
    seen = observe_scenario(grouped, decay_groups, 0.125)
    judge_all(seen, ["mix", "emb.weight"], others_of_mixed, 0.125, norms_2d=["wide.weight", "wide.bias"])

    ### BEGIN HIDDEN TESTS
    def custom_model():
        """Norms in custom modules, names that mislead, a layer that is used twice."""

        class Scaled(nn.LayerNorm):
            """A class derived from a norm layer."""

        def mixing(kind, *options):
            """A norm layer of a class derived from `kind`, with a parameter of two dimensions more."""

            class Mixing(kind):
                def __init__(self):
                    super().__init__(*options)
                    self.mix = nn.Parameter(torch.ones(2, 2))

            return Mixing()

        class Gated(nn.LayerNorm):
            """A norm layer with another layer inside."""

            def __init__(self):
                super().__init__(3)
                self.gate = nn.Linear(3, 3)

        class NormalNoise(nn.Module):
            """No norm layer, in spite of its name."""

            def __init__(self):
                super().__init__()
                self.norm_bias = nn.Parameter(torch.ones(3, 3))
                self.temperature = nn.Parameter(torch.tensor(1.0))

        class Codes(nn.Module):
            """No norm layer, in spite of its attributes."""

            def __init__(self):
                super().__init__()
                self.num_groups, self.normalized_shape, self.num_features = 2, (3,), 3
                self.table = nn.Parameter(torch.ones(1, 2, 3))

        class Custom(nn.Module):
            """Norms in custom modules, names that mislead, a layer that is used twice."""

            def __init__(self):
                super().__init__()
                self.bias = nn.Parameter(torch.ones(2, 3, 4))
                self.a = Scaled((2, 3))
                self.noise = NormalNoise()
                self.norm = nn.Linear(3, 3)
                self.again = self.norm
                self.conv = nn.Conv2d(2, 3, 3)
                self.table = nn.ModuleDict({"b2": nn.BatchNorm2d(3), "b3": nn.BatchNorm3d(2), "s": nn.SyncBatchNorm(2)})
                self.inst = nn.Sequential(
                    nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm3d(2, affine=True), nn.PReLU()
                )
                self.deep = nn.Sequential(nn.Sequential(nn.RMSNorm((2, 2)), nn.BatchNorm1d(3, affine=False)))
                self.frozen_norm = nn.LayerNorm((2, 2)).requires_grad_(False)
                self.thin = nn.LayerNorm(3, bias=False)
                self.lstm = nn.LSTM(2, 2)
                self.gated = Gated()
                self.mixing = nn.ModuleList(
                    [
                        mixing(nn.GroupNorm, 1, 2),
                        mixing(nn.BatchNorm2d, 2),
                        mixing(nn.InstanceNorm1d, 2),
                        mixing(nn.SyncBatchNorm, 2),
                    ]
                )
                self.codes = Codes()

        return Custom()

    def other_grouped(decay_groups, kind, weight_decay, times):
        """Sort the parameters of a model of this kind into groups, so many times."""
        if kind == "no norm":
            model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Tanh(), nn.Linear(3, 1, bias=False))
        elif kind == "frozen":
            model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)).requires_grad_(False)
        elif kind == "only norms":
            model = nn.Sequential(nn.LayerNorm((2, 3)), nn.GroupNorm(1, 2)).eval()
        elif kind == "a norm":
            model = nn.LayerNorm((3, 2))
        elif kind == "meta":
            with torch.device("meta"):
                model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm((2, 3)))
        elif kind == "no parameter":
            model = nn.ReLU()
        else:
            model = custom_model()
        return examined(decay_groups, model, weight_decay, times)

    both = ["0.weight", "0.bias", "1.weight", "1.bias"]
    for idea, kind, decayed, others, norms_2d in [
        ("no norm, no bias: the second group is empty", "no norm", ["0.weight", "2.weight"], [], []),
        ("everything frozen: both groups are empty", "frozen", [], [], []),
        ("nothing but norms: the first group is empty", "only norms", [], both, ["0.weight", "0.bias"]),
        ("the model is a norm", "a norm", [], ["weight", "bias"], ["weight", "bias"]),
        ("no parameter at all", "no parameter", [], [], []),
        ("a model on the meta device", "meta", ["0.weight"], ["0.bias", "1.weight", "1.bias"], ["1.weight", "1.bias"]),
    ]:
        test.hidden(idea)
        for weight_decay, times in ((0.1, 1), (0.0, 2)):
            seen = observe_scenario(other_grouped, decay_groups, kind, weight_decay, times)
            judge_all(seen, decayed, others, weight_decay, norms_2d)

    test.hidden("custom modules, scalars, names that mislead, called twice")
    decayed = ["bias", "noise.norm_bias", "norm.weight", "conv.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0"]
    decayed += ["gated.gate.weight", "codes.table"]
    others = ["a.weight", "a.bias", "noise.temperature", "norm.bias", "conv.bias"]
    others += [f"table.{n}.{name}" for n in ("b2", "b3", "s") for name in ("weight", "bias")]
    others += ["inst.0.weight", "inst.0.bias", "inst.1.weight", "inst.1.bias", "inst.2.weight"]
    others += ["deep.0.0.weight", "thin.weight", "lstm.bias_ih_l0", "lstm.bias_hh_l0"]
    others += ["gated.weight", "gated.bias", "gated.gate.bias"]
    others += [f"mixing.{n}.{name}" for n in (0, 1) for name in ("weight", "bias", "mix")]
    others += ["mixing.2.mix", "mixing.3.weight", "mixing.3.bias", "mixing.3.mix"]
    seen = observe_scenario(other_grouped, decay_groups, "custom", 0.05, 2)
    judge_all(seen, decayed, others, 0.05, norms_2d=["a.weight", "a.bias", "deep.0.0.weight"])
    ### END HIDDEN TESTS
