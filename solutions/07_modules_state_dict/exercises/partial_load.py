# %% [markdown]
# ### Exercise 7.6 · Load what fits and say what did not
#
# implement · solid · 15 min · 3 points
#
# You put a pretrained body under a new head: most of the checkpoint fits, some of it doesn't. `load_state_dict` has a
# flag for that, but it doesn't forgive everything, and it doesn't tell you enough. Write a loader that loads what fits
# and reports the rest.
#
# **Contract**
#
# - "The model" means the entries of `model.state_dict()`: parameters and persistent buffers. Every entry of the
#   checkpoint whose name *and shape* fit is copied into the model, in place: the parameter objects stay the same, and
#   dtype and device stay the model's. Everything else in the model keeps its values.
# - Returns a LoadReport: `loaded`, `missing` (in the model, not in the checkpoint), `unexpected` (in the checkpoint,
#   not in the model) and `mismatched` (a dict from the name to a pair: the checkpoint's shape, the model's shape).
#   Lists and dict are sorted by name; each name is in exactly one group.
# - The checkpoint `state` is not changed, neither its keys nor its tensors, and shares no memory with the model
#   afterwards.
#
# <details><summary>Hint 1</summary>
#
# Which of the three problems does `strict=False` forgive: missing, unexpected, or wrong shape?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compare the checkpoint with `model.state_dict()` by name and shape, build a filtered dict, and pass only that to
# `load_state_dict(strict=False)`. Take `missing` from the comparison, not from what load_state_dict returns.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Filter the checkpoint first: keep an entry if its name is in the model and the shapes are equal. The keys of a dict
# support set operations, so `missing` and `unexpected` are the two differences between the keys of model and
# checkpoint. `mismatched` are the names in both that the filter did not keep.
#
# </details>


# %% answer="partial-load"
class LoadReport(NamedTuple):
    loaded: list[str]
    missing: list[str]  # in the model, not in the checkpoint
    unexpected: list[str]  # in the checkpoint, not in the model
    mismatched: dict[str, tuple[torch.Size, torch.Size]]  # name -> shapes in (checkpoint, model)


def load_matching(model: nn.Module, state: Mapping[str, Tensor]) -> LoadReport:
    """Copy the entries of state that fit by name and shape into the model; report on all names."""
    ### BEGIN SOLUTION
    own = model.state_dict()
    known = {name: tensor for name, tensor in state.items() if name in own}
    fitting = {name: tensor for name, tensor in known.items() if own[name].shape == tensor.shape}
    model.load_state_dict(fitting, strict=False)
    return LoadReport(
        loaded=sorted(fitting),
        missing=sorted(own.keys() - state.keys()),
        unexpected=sorted(state.keys() - own.keys()),
        mismatched={
            name: (state[name].shape, own[name].shape)
            for name in sorted(own.keys() & state.keys())
            if name not in fitting
        },
    )
    ### END SOLUTION


# %% helpers="partial-load"
def body_and_head(classes, width=3):
    """A body with batch norm, and a head; fixed values that depend on the number of classes."""
    net = nn.Sequential(OrderedDict(body=nn.Linear(2, width), norm=nn.BatchNorm1d(width)))
    net.add_module("head", nn.Linear(width, classes))
    return filled(net, classes)


# the names of its entries without the head's, sorted
body = [
    *("body.bias", "body.weight"),
    *("norm.bias", "norm.num_batches_tracked", "norm.running_mean", "norm.running_var", "norm.weight"),
]


def filled(net, shift):
    """The net, its entries filled with numbers that depend on name, place and shift."""
    with torch.no_grad():
        for place, tensor in enumerate(net.state_dict().values()):
            numbers = torch.arange(tensor.numel()) * 7 % 11 + 16 * place + 128 * shift + 1
            tensor.copy_(numbers.reshape(tensor.shape))
    return net


def as_lists(report, field):
    """One field of a report in plain data, or None."""
    value = getattr(report, field, None)
    if field != "mismatched":
        return [str(name) for name in value] if isinstance(value, (list, tuple)) else None
    if not isinstance(value, dict):
        return None
    pairs = [(str(name), pair if isinstance(pair, (tuple, list)) else [pair]) for name, pair in value.items()]
    return [[name, *[list(s) if isinstance(s, (tuple, list)) else str(s) for s in pair]] for name, pair in pairs]


def story(answer, model, state):
    """Load a checkpoint; note the report, what the model holds, and what became of the checkpoint."""
    objects = {name: (id(tensor), tensor.dtype) for name, tensor in model.named_parameters()}
    objects |= {name: (0, tensor.dtype) for name, tensor in model.named_buffers()}
    flags = [parameter.requires_grad for parameter in model.parameters()]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    given = {name: (tensor, tensor.detach().clone()) for name, tensor in state.items()}
    order = list(state)
    report = answer(model, state)
    now = dict(model.named_parameters())
    changed = [
        name
        for name, (tensor, values) in given.items()
        if name in state and (state[name] is not tensor or not torch.equal(tensor.detach(), values))
    ]
    facts = {
        "kind": type(report).__name__,
        "report": {field: as_lists(report, field) for field in ("loaded", "missing", "unexpected", "mismatched")},
        "before": before,
        "after": {name: tensor.detach().clone() for name, tensor in model.state_dict().items()},
        "replaced": [name for name in now if objects.get(name, (0,))[0] != id(now[name])],
        "cast": [n for n, t in [*now.items(), *model.named_buffers()] if objects.get(n, (0, 0))[1] != t.dtype],
        "flags same": [parameter.requires_grad for parameter in model.parameters()] == flags,
        "keys same": list(state) == order,
        "changed": changed,
    }
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.add_(1)
    facts["shared"] = [n for n, (tensor, values) in given.items() if not torch.equal(tensor.detach(), values)]
    facts["shared"] = [name for name in facts["shared"] if name not in changed]
    return facts


refuses = mistake(
    "strict=False does not forgive a wrong shape: load_state_dict still raises. Filter before loading.",
    raises="size mismatch",
)
through_numpy = mistake(
    "NumPy has no bfloat16, so a checkpoint in that dtype can't pass through it. Copy from tensor to tensor: `copy_` "
    "converts the dtype.",
    raises="unsupported ScalarType",
)
unfit = mistake("Names and tensors must fit: {detail}.", raises="must match the (size|existing size)")
squeezed = mistake(
    "Same number of elements is not the same shape: (2, 6) or (4, 3) must not be squeezed into (3, 4).",
    when=lambda seen: (
        seen.args[1] == "same number"
        and "same number.weight" in seen["report"]["loaded"]
        and not torch.equal(seen["before"]["same number.weight"], seen["after"]["same number.weight"])
    ),
)


def same_numbers(a, b):
    """Whether two tensors agree, dtype and all."""
    return a.dtype == b.dtype and torch.equal(a, b)


def new_head(answer, state):
    """Load a checkpoint into a model that has another head."""
    return story(answer, body_and_head(classes=4), state)


def judge(seen, state, loaded, missing, unexpected, mismatched):
    """Judge report, values, objects and the checkpoint."""
    seen.expecting(refuses, through_numpy, squeezed, unfit)
    report = seen["report"]
    for field, came in report.items():
        seen.that(
            came is not None,
            f"Return a LoadReport; its field {field} must be a {'dict' if field == 'mismatched' else 'list'}.",
            mistake("Return the LoadReport.", when=lambda seen: seen["kind"] == "NoneType"),
            stage="type",
        )
    expected = {"loaded": loaded, "missing": missing, "unexpected": unexpected, "mismatched": mismatched}
    names = {field: [row[0] for row in rows] if field == "mismatched" else rows for field, rows in report.items()}
    wanted = {field: [row[0] for row in rows] if field == "mismatched" else rows for field, rows in expected.items()}
    seen.that(
        sorted(names["missing"]) == sorted(missing) and sorted(names["unexpected"]) == sorted(unexpected),
        "`missing` or `unexpected` is not right.",
        squeezed,
        mistake(
            "Buffers (running_mean ...) are also part of a checkpoint.",
            when=lambda seen: (
                any("running" in name for name in wanted["loaded"])
                and not any("running" in name for name in names["loaded"])
            ),
        ),
        mistake(
            "A mismatched name must not also appear under missing or unexpected.",
            when=lambda seen: set(wanted["mismatched"]) & {*names["missing"], *names["unexpected"]},
        ),
        mistake(
            "missing and unexpected are exchanged: missing names are in the model and not in the checkpoint.",
            when=lambda seen: (
                sorted(names["missing"]) == sorted(unexpected) and sorted(names["unexpected"]) == sorted(missing)
            ),
        ),
        mistake(
            "A non-persistent buffer is not in model.state_dict(): it can't be missing, nor be loaded.",
            when=lambda seen: any("mask" in name for name in (*names["missing"], *names["loaded"])),
        ),
        mistake(
            "load_state_dict supplies num_batches_tracked on its own when an old checkpoint lacks it, and does not "
            "list it; the report must.",
            when=lambda seen: set(missing) - set(names["missing"]) == {"norm.num_batches_tracked"},
        ),
    )
    doubled = "A name is in exactly one group; here one is in two, or in none."
    same_names = all(sorted(names[field]) == sorted(wanted[field]) for field in wanted)
    spread = [
        name
        for name, given, own in mismatched
        if math.prod(given) < math.prod(own)
        and not torch.equal(seen["before"][name], seen["after"][name])
        and name in names["loaded"]
    ]
    seen.that(
        same_names,
        doubled,
        squeezed,
        mistake(
            f"copy_ broadcasts: a smaller tensor was spread over {', '.join(spread)}, without an error. Compare "
            "the shapes before you copy.",
            when=lambda seen: bool(spread),
        ),
        mistake(
            "Mismatched entries belong under `mismatched` only.",
            when=lambda seen: set(names["loaded"]) & set(wanted["mismatched"]),
        ),
    )
    seen.that(report == expected, "Names sorted, shapes as (checkpoint, model).", stage="value")
    seen.that(not seen["cast"], f"The dtype must stay the model's: {', '.join(seen['cast'])}.", stage="dtype")
    before, after = seen["before"], seen["after"]
    differ = ", ".join(n for n in loaded if not same_numbers(after[n], state[n].detach().to(before[n].dtype)))
    seen.that(not differ, f"Not loaded, although name and shape fit: {differ}.")
    touched = ", ".join(n for n in before if n not in loaded and not same_numbers(after[n], before[n]))
    seen.that(not touched, f"What does not fit must keep its values; changed: {touched}.")
    seen.that(
        not seen["replaced"],
        "The Parameter objects were replaced: an optimizer that was built before still has the old ones. Copy in "
        "place.",
        stage="aliasing",
    )
    seen.that(seen["flags same"], "requires_grad of the model's parameters must not change.", stage="gradient")
    mutated = seen["keys same"] and not seen["changed"]
    seen.that(mutated, "The checkpoint dict was changed; work on a copy.", stage="arguments")
    shared = "Model and checkpoint now share memory: training would change the checkpoint."
    seen.that(not seen["shared"], shared, stage="aliasing")


# %% check="partial-load" points=2
"""What fits is loaded, the rest keeps its values, and the report names every entry once."""
with check("partial-load") as test:
    test("another head: the body is loaded, the head is reported and keeps its values")
    state = body_and_head(classes=5).state_dict()
    judge(
        observe_scenario(new_head, load_matching, state),
        state,
        loaded=body,
        missing=[],
        unexpected=[],
        mismatched=[["head.bias", [5], [4]], ["head.weight", [5, 3], [4, 3]]],
    )

    test("names that are missing, and names that nobody expects")
    state = {name.replace("head", "classifier"): tensor for name, tensor in state.items() if name != "norm.weight"}
    judge(
        observe_scenario(new_head, load_matching, state),
        state,
        loaded=body[:-1],
        missing=["head.bias", "head.weight", "norm.weight"],
        unexpected=["classifier.bias", "classifier.weight"],
        mismatched=[],
    )


# %% check="partial-load" points=1
"""An optimizer made before trains on; shapes, dtypes and names of all kinds."""
with check("partial-load") as test:

    def trained_after(answer, state):
        """Make an optimizer, load the checkpoint, take two steps; then look at the checkpoint."""
        torch.default_generator.manual_seed(3)
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        parameters = list(net.parameters())
        copies = {name: tensor.clone() for name, tensor in state.items()}
        answer(net, state)
        loaded = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        x = torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]])
        for _ in range(2):
            for parameter in parameters:
                parameter.grad = None
            net(x).square().sum().backward()
            with torch.no_grad():
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
        now = net.state_dict()
        return {
            "same objects": all(a is b for a, b in zip(parameters, net.parameters(), strict=True)),
            "loaded": [name for name in state if name in loaded and torch.equal(loaded[name], copies[name])],
            "trained": [name for name in now if not torch.equal(now[name], loaded[name])],
            "checkpoint same": all(torch.equal(tensor, copies[name]) for name, tensor in state.items()),
            "keys": len(state),
        }

    test("after loading, the optimizer's parameters are still the model's, and the checkpoint stays as it is")
    state = {
        "0.weight": torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 0.25]]),
        "0.bias": torch.tensor([0.5, 1.0, 1.5]),
        "1.weight": torch.tensor([1.0, 2.0, 3.0]),
        "1.running_mean": torch.tensor([4.0, 5.0, 6.0]),
        "2.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "3.weight": torch.tensor([1.0]),
    }
    seen = observe_scenario(trained_after, load_matching, state).expecting(refuses, unfit)
    fitting = ["0.weight", "0.bias", "1.weight", "1.running_mean"]
    left = ", ".join(name for name in fitting if name not in seen["loaded"])
    seen.that(not left, f"Not loaded, although name and shape fit: {left}.")
    seen.that(
        seen["same objects"],
        "The Parameter objects were replaced: an optimizer that was built before still has the old ones. Copy in "
        "place.",
        stage="aliasing",
    )
    still = [name for name in ("0.weight", "1.weight", "2.weight") if name not in seen["trained"]]
    seen.that(not still, f"After loading, a step of training changes nothing in {', '.join(still)}.", stage="gradient")
    seen.that(seen["keys"] == 6, "The checkpoint dict was changed; work on a copy.", stage="arguments")
    shared = "Model and checkpoint now share memory: training would change the checkpoint."
    seen.that(seen["checkpoint same"], shared, stage="aliasing")

    ### BEGIN HIDDEN TESTS
    def special_model(kind):
        """A model of a certain kind."""
        if kind in ("same number", "other"):
            return filled(nn.ModuleDict({"same number": nn.Linear(4, 3), "other": nn.Linear(2, 2)}), 3)
        if kind == "scalar":
            net = nn.Module()
            net.scale, net.shift = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.ones(1))
            return filled(net, 3)
        if kind == "tied":
            net = nn.ModuleDict({"embedding": nn.Embedding(4, 3), "head": nn.Linear(3, 4)})
            net.head.weight = net.embedding.weight
            net.register_buffer("mask", torch.ones(3), persistent=False)
            return filled(net, 3)
        net = body_and_head(classes=4)
        if kind == "frozen":
            net.body.requires_grad_(False)
        return net.to(torch.bfloat16) if kind == "half" else net

    def on_special(answer, kind, state):
        """Load a checkpoint into a model of this kind."""
        return story(answer, special_model(kind), state)

    test.hidden("the same number of elements in another shape")
    net = filled(nn.ModuleDict({"same number": nn.Linear(6, 2), "other": nn.Linear(2, 2)}), 4)
    state = net.state_dict() | {"other.bias": torch.ones(2, 1)}
    state["other.weight"] = state["other.weight"].t()[:, :1]
    judge(
        observe_scenario(on_special, load_matching, "same number", state),
        state,
        loaded=[],
        missing=[],
        unexpected=[],
        mismatched=[
            ["other.bias", [2, 1], [2]],
            ["other.weight", [2, 1], [2, 2]],
            ["same number.bias", [2], [3]],
            ["same number.weight", [2, 6], [3, 4]],
        ],
    )

    test.hidden("a shape the other way round")
    state = {"same number.weight": torch.arange(12.0).reshape(4, 3), "other.bias": torch.tensor([7.0, 8.0])}
    judge(
        observe_scenario(on_special, load_matching, "same number", state),
        state,
        loaded=["other.bias"],
        missing=["other.weight", "same number.bias"],
        unexpected=[],
        mismatched=[["same number.weight", [4, 3], [3, 4]]],
    )

    test.hidden("a single number is not a list of one")
    state = {"shift": torch.tensor(5.0), "scale": torch.tensor([7.0])}
    judge(
        observe_scenario(on_special, load_matching, "scalar", state),
        state,
        loaded=[],
        missing=[],
        unexpected=[],
        mismatched=[["scale", [1], []], ["shift", [], [1]]],
    )

    test.hidden("a transposed weight that fits by its shape; names in another order than that of the alphabet")
    square = filled(nn.ModuleDict({"same number": nn.Linear(4, 3), "other": nn.Linear(2, 2)}), 5).state_dict()
    state = {"same number.weight": square["same number.weight"].flip(0), "other.weight": square["other.weight"].t()}
    judge(
        observe_scenario(on_special, load_matching, "other", state),
        state,
        loaded=["other.weight", "same number.weight"],
        missing=["other.bias", "same number.bias"],
        unexpected=[],
        mismatched=[],
    )

    test.hidden("a checkpoint of float64 and one bfloat16 entry, a model in bfloat16, an integer counter")
    wide = body_and_head(classes=4).double()
    with torch.no_grad():
        wide.body.weight += 0.37
    state = wide.state_dict()
    state["norm.weight"] = state["norm.weight"].to(torch.bfloat16)
    judge(
        observe_scenario(on_special, load_matching, "half", state),
        state,
        loaded=sorted(state),
        missing=[],
        unexpected=[],
        mismatched=[],
    )

    test.hidden("tied weights load under both names; a non-persistent buffer is no entry")
    state = special_model("tied").state_dict()
    state = {name: tensor + 1 for name, tensor in state.items()} | {"mask": torch.zeros(3)}
    judge(
        observe_scenario(on_special, load_matching, "tied", state),
        state,
        loaded=["embedding.weight", "head.bias", "head.weight"],
        missing=[],
        unexpected=["mask"],
        mismatched=[],
    )
    del state["mask"]
    judge(
        observe_scenario(on_special, load_matching, "tied", state),
        state,
        loaded=["embedding.weight", "head.bias", "head.weight"],
        missing=[],
        unexpected=[],
        mismatched=[],
    )

    test.hidden("an old checkpoint without num_batches_tracked")
    state = {name: t for name, t in body_and_head(classes=6).state_dict().items() if "tracked" not in name}
    judge(
        observe_scenario(on_special, load_matching, "plain", state),
        state,
        loaded=[name for name in body if "tracked" not in name],
        missing=["norm.num_batches_tracked"],
        unexpected=[],
        mismatched=[["head.bias", [6], [4]], ["head.weight", [6, 3], [4, 3]]],
    )

    test.hidden("a checkpoint of parameters that require grad; a frozen layer")
    other = body_and_head(classes=7)
    state = dict(other.named_parameters())
    judge(
        observe_scenario(on_special, load_matching, "frozen", state),
        state,
        loaded=["body.bias", "body.weight", "norm.bias", "norm.weight"],
        missing=["norm.num_batches_tracked", "norm.running_mean", "norm.running_var"],
        unexpected=[],
        mismatched=[["head.bias", [7], [4]], ["head.weight", [7, 3], [4, 3]]],
    )

    test.hidden("an empty checkpoint")
    judge(
        observe_scenario(new_head, load_matching, {}),
        {},
        loaded=[],
        missing=[*body[:1], "body.weight", "head.bias", "head.weight", *body[2:]],
        unexpected=[],
        mismatched=[],
    )
    ### END HIDDEN TESTS
