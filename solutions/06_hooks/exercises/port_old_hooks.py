# %% [markdown]
# ### Exercise 6.4 · Port a gradient report from the old hooks
#
# fix · solid · 20 min · 3 points
#
# This function is from 2018. It was meant to report the gradients of every layer. Today it raises, and it has five
# faults. Rewrite it.
#
# **Contract**
#
# - Run `loss_fn(model(x))` and return a dict with one entry for each *leaf* module inside the model that owns
#   parameters, under its dotted name.
# - Each entry is a dict with `output` and `input` (the gradients of the module's output and input) and `weight` and
#   `bias` (the gradients of this loss, whatever `.grad` already contains). `input` is None if the input needs no
#   gradient, and `bias` is None if there is no bias.
# - All tensors are detached and have the shape of the tensor whose gradient they are. There is no `FutureWarning`.
# - Afterwards, even if the loss raises, no hook is left, `x` and its `requires_grad` are unchanged, and the `.grad` of
#   every parameter, and of `x`, is the same object (or None) with the same values as before.
# - You may assume that each of these modules is called once, with one tensor that nothing else uses, that no other
#   module owns parameters, that all parameters require grad, that x is a leaf, and that nothing works in place.
#
# <details><summary>Hint 1</summary>
#
# What does grad_input of a full hook contain, and what does it no longer contain? Where are weight gradients stored,
# and what was in there before you started?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Loop over named_modules() and keep modules that have parameters but no children. Bind the name. Get the gradients of
# weight and bias from `torch.autograd.grad`, which doesn't write to `.grad`. Also ask it for x if x requires grad,
# because it computes only what you ask for. Remove the handles in a `finally`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Each layer's hook only stores the first entry of grad_output and of grad_input in the dict of its layer, which a small
# factory binds. Collect all parameters of these layers in one list, append x if it requires grad, and call
# `torch.autograd.grad` once for the whole list. Its results are in the order of the list, so you can look up the
# gradient of each weight and each bias there.
#
# </details>


# %% answer="port-old-hooks"
def gradient_report(
    model: nn.Module, x: Tensor, loss_fn: Callable[[Tensor], Tensor]
) -> dict[str, dict[str, Tensor | None]]:
    """The gradients of output, input, weight and bias of each leaf module that owns parameters."""
    ### BEGIN SOLUTION
    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    report: dict[str, dict[str, Tensor | None]] = {name: {} for name in layers}

    def noting(entry: dict) -> Callable:
        def hook(module: nn.Module, grad_input: tuple, grad_output: tuple) -> None:
            entry.update(output=grad_output[0], input=grad_input[0])

        return hook

    handles = []
    try:
        for name, layer in layers.items():
            handles.append(layer.register_full_backward_hook(noting(report[name])))
        loss = loss_fn(model(x))
        wanted = [parameter for layer in layers.values() for parameter in layer.parameters()]
        wanted += [x] * x.requires_grad
        grads = dict(zip(wanted, torch.autograd.grad(loss, wanted), strict=True))
    finally:
        for handle in handles:
            handle.remove()

    for name, layer in layers.items():
        bias = getattr(layer, "bias", None)
        report[name].update(weight=grads[layer.weight], bias=grads.get(bias))
    return report
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # report = {}
    # for name, layer in model.named_children():
    #
    #     def hook(mod, grad_input, grad_output):
    #         report[name] = {
    #             "bias": grad_input[0],
    #             "input": grad_input[1],
    #             "weight": grad_input[2].t(),
    #             "output": grad_output[0],
    #         }
    #
    #     layer.register_backward_hook(hook)
    # loss_fn(model(x)).backward()
    # return report
    ### END GIVEN


# %% helpers="port-old-hooks"
def nested_net(width=4):
    """enc.0, enc.1 (no parameters), enc.2 (no bias), head and last (no parameters), with fixed weights."""
    net = nn.Sequential()
    encoder = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width, bias=False))
    net.add_module("enc", encoder)
    net.add_module("head", nn.Linear(width, 3))
    net.add_module("last", nn.Tanh())
    with torch.no_grad():
        for shift, parameter in enumerate(net.parameters()):
            numbers = torch.arange(parameter.numel()) * 7 % 11 / 8 + shift / 16 - 0.6
            parameter.copy_(numbers.reshape(parameter.shape))
    return net


def weighted_loss(out):
    """A loss that treats every output differently."""
    weights = torch.arange(1.0, out.numel() + 1, dtype=out.dtype).reshape(out.shape)
    return (weights * out.square()).sum()


def report_of(answer, x):
    """The report on the nested net."""
    return answer(nested_net(), x, weighted_loss)


def by_hand(net, steps, x):
    """The report, layer after layer, with one torch.autograd.grad for each entry."""
    ends = {}
    for name in steps:
        before, x = x, net.get_submodule(name)(x)
        ends[name] = (x, before)
    loss, report = weighted_loss(x), {}
    for name, (output, before) in ends.items():
        layer = net.get_submodule(name)
        if list(layer.parameters()):
            belongings = (output, before, layer.weight, getattr(layer, "bias", None))
            report[name] = {}
            for what, tensor in zip(("output", "input", "weight", "bias"), belongings, strict=True):
                tracked = tensor is not None and tensor.requires_grad
                grad = torch.autograd.grad(loss, tensor, retain_graph=True)[0] if tracked else None
                report[name][what] = grad
    return report


def filled(seen):
    """The names of entries that hold something."""
    return [name for name, entry in seen.value.items() if entry]


never_ran = mistake(
    "The hook of a layer never ran, so its entry is missing. If x requires grad, a full hook runs only if you"
    " ask for the gradient of x, so also ask torch.autograd.grad for x.",
    raises="KeyError",
    when=lambda seen: any(isinstance(arg, Tensor) and arg.requires_grad for arg in seen.args),
)
not_recorded = mistake(
    "The loss has no graph to go back through, because the model ran under no_grad or on detached tensors ({detail}).",
    raises="does not require grad and does not have",
)
known = [
    mistake(
        "FutureWarning: you still register the non-full hook. Its grad_input lists the inputs of the last autograd "
        "node, not of the layer.",
        when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
    ),
    mistake(
        "All reports overwrite each other under one name: bind the loop variable when defining the hook.",
        when=lambda seen: (
            filled(seen) in ([name] for name in ("enc", "enc.2", "last"))
            or (filled(seen) == ["head"] and seen.value["head"]["output"].shape != (2, 3))
        ),
    ),
    mistake(
        "Layers inside a container are missing: named_children() is one level deep.",
        when=lambda seen: (
            "head" in filled(seen)
            and not any(str(name).startswith("enc.") for name in seen.value)
            and set(filled(seen)) <= {"enc", "head", "last"}
        ),
    ),
    mistake(
        "Containers or layers without parameters are listed; only leaf modules with parameters belong in the report.",
        when=lambda seen: {"", "enc", "enc.1", "last"} & set(seen.value),
    ),
    mistake(
        "Your report lists the parameters of a layer one by one, but an entry is for a layer, such as 'enc.0'.",
        when=lambda seen: "enc.0.weight" in seen.value,
    ),
    mistake(
        "A full hook's grad_input has one entry for each input and none for parameters: read the gradients of "
        "weight and bias elsewhere.",
        raises="IndexError: tuple index out of range",
    ),
    mistake(
        "A layer without a bias has None there; here it raised: {detail}", raises="'NoneType' object has no .*grad"
    ),
    not_recorded,
    mistake(
        "grad_input and grad_output are tuples: an entry of the report is the tensor in it.",
        when=lambda seen: isinstance(seen.value["head"]["output"], tuple),
    ),
    mistake(
        "All gradients are half of what they must be for these two rows: the loss is loss_fn(model(x)) as it is, "
        "without a mean over the batch.",
        when=lambda seen: torch.allclose(
            seen.value["head"]["bias"] * 2,
            by_hand(nested_net(), ["enc.0", "enc.1", "enc.2", "head", "last"], seen.args[1])["head"]["bias"],
        ),
    ),
]
no_input_gradient = [
    mistake(
        "The first layer's input needs no gradient: report None, not zeros - "
        "and do not switch on requires_grad for the caller's tensor.",
        when=lambda seen: not seen.value["enc.0"]["input"].any(),
    ),
    mistake(
        "The first layer's input needs no gradient: report None, and do not switch on requires_grad to get one.",
        when=lambda seen: isinstance(seen.value["enc.0"]["input"], Tensor),
    ),
]


# %% check="port-old-hooks" points=1
"""One entry for each leaf module with parameters, with the right gradients."""
with check("port-old-hooks") as test:
    in_out = [
        mistake(
            "weight gradients have the weight's own shape (out, in); the transpose belonged to the old hook.",
            when=lambda seen: seen.value["enc.0"]["weight"].shape == (3, 4),
        ),
        mistake(
            "`input` and `output` are swapped: grad_input belongs to what goes into the layer.",
            when=lambda seen: torch.equal(seen.value["head"]["input"], wanted["head"]["output"]),
        ),
    ]

    test("the names: leaf modules with parameters, dotted")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    steps = ["enc.0", "enc.1", "enc.2", "head", "last"]
    wanted = by_hand(nested_net(), steps, x)
    seen = observe_scenario(report_of, gradient_report, x).expecting(*known)
    names = list(seen.value) if isinstance(seen.value, dict) else []
    seen.that(isinstance(seen.value, dict), "The report must be a dict from names to dicts.", stage="type")
    seen.that(
        sorted(map(str, names)) == ["enc.0", "enc.2", "head"],
        f"The names of the report should be enc.0, enc.2 and head; they are: {', '.join(map(str, names)) or 'none'}.",
        stage="shape",
    )

    test("the gradients, compared with torch.autograd.grad")
    seen.returns(wanted, *in_out, *no_input_gradient)
    grads = {f"{name}: {what}": grad for name in wanted for what, grad in seen[name].items() if grad is not None}
    tracked = ", ".join(place for place, grad in grads.items() if grad.requires_grad)
    seen.that(not tracked, f"A gradient in the report carries a graph ({tracked}): detach it.", stage="gradient")
    old_hook = any(category == "FutureWarning" for category, _ in seen.noted.warned)
    seen.that(not old_hook, known[0].sentence, stage="rule")


# %% check="port-old-hooks" points=1
"""No hook remains; x, its requires_grad and all .grad are as they were."""
with check("port-old-hooks") as test:

    def small_net():
        """Two Linear layers, one of them in a container."""
        return nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 2))

    def squares(out):
        """A loss."""
        return out.square().sum()

    def hooks_on(model, *tensors):
        """Every hook of the model's modules, of all modules and of some tensors, with its place."""
        places = [(name or "the model", vars(module)) for name, module in model.named_modules()]
        places.append(("all modules", vars(nn.modules.module)))
        for tensor in tensors:
            kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
            places.append(("a tensor", {kind: getattr(tensor, kind) for kind in kinds}))
        return [
            (place, kind, key, hook)
            for place, attributes in places
            for kind, hooks in attributes.items()
            if kind.endswith("_hooks") and isinstance(hooks, dict)
            for key, hook in hooks.items()
        ]

    def traces(answer, x, old_gradients):
        """What a report leaves behind: on x, on the parameters, in the hook dictionaries."""
        net = small_net()
        net[1].register_forward_hook(lambda *args: None)
        tensors = {"x": x} | dict(net.named_parameters())
        if old_gradients:
            for shift, tensor in enumerate(tensors.values()):
                tensor.grad = torch.full_like(tensor, 5.0 + shift) if tensor.requires_grad else None
        was = {name: [tensor, tensor.grad, tensor.requires_grad, tensor.tolist()] for name, tensor in tensors.items()}
        values = {name: None if tensor.grad is None else tensor.grad.tolist() for name, tensor in tensors.items()}
        before = hooks_on(net)
        report = answer(net, x, squares)
        after = hooks_on(net, *tensors.values())
        entries = [e for e in report.values() if isinstance(e, dict) and e] if isinstance(report, dict) else []
        now = {"x": x} | dict(net.named_parameters())
        return {
            "entries": len(entries),
            "came": [hook[0] for hook in after if hook not in before],
            "went": [hook[0] for hook in before if hook not in after],
            "requires_grad": [name for name, tensor in now.items() if tensor.requires_grad != was[name][2]],
            "values": [name for name, t in now.items() if t is not was[name][0] or t.tolist() != was[name][3]],
            "other grad": [name for name, tensor in now.items() if tensor.grad is not was[name][1]],
            "changed grad": [name for name, t in now.items() if t.grad is not None and t.grad.tolist() != values[name]],
        }

    def judge_values(seen):
        """Judge that x and the parameters are as they were."""
        seen.that(
            "x" not in seen["requires_grad"], "You changed x.requires_grad on the caller's tensor.", stage="arguments"
        )
        frozen = ", ".join(seen["requires_grad"])
        seen.that(not frozen, f"requires_grad of a parameter was changed: {frozen}.", stage="arguments")
        changed = ", ".join(seen["values"])
        seen.that(not changed, f"Something was changed that is not yours: {changed}.", stage="arguments")

    def judge_hooks(seen, sentence):
        """Judge that the hooks are those that were there before."""
        seen.that(not seen["went"], "Someone else's hook disappeared: remove your own handles only.", stage="rule")
        seen.that(not seen["came"], sentence, stage="rule")

    test("x keeps its requires_grad flag")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    seen = observe_scenario(traces, gradient_report, x, False).expecting(
        mistake(
            "A full hook's grad_input has one entry for each input and none for parameters: read the gradients of "
            "weight and bias elsewhere.",
            raises="IndexError: tuple index out of range",
        ),
        not_recorded,
    )
    judge_values(seen)

    test("no hooks afterwards")
    judge_hooks(
        seen, "Your hooks are still registered after the call, so each further report would also run all earlier ones."
    )
    seen.that(seen["entries"] > 0, "No entry of the report holds anything, so there was nothing to clean up.")

    ### BEGIN HIDDEN TESTS
    touched = "A parameter's .grad differs after the call: restore it, or use autograd.grad, which does not write it."
    of_x = mistake(
        "x.grad was written: it belongs to the caller.",
        when=lambda seen: {*seen["other grad"], *seen["changed grad"]} == {"x"},
    )
    for idea, some_x, old_gradients in [
        (".grad is None before, and afterwards too", x, False),
        (".grad is the same object with the same values as before", x, True),
        ("an x that requires grad: x.grad stays None", x.clone().requires_grad_(), False),
        ("an x that requires grad: x.grad stays as it was", x.clone().requires_grad_(), True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(traces, gradient_report, some_x, old_gradients).expecting(never_ran)
        differs = [*seen["other grad"], *seen["changed grad"]]
        seen.that(not differs, touched, of_x, stage="arguments")
        judge_values(seen)
        judge_hooks(
            seen,
            "Your hooks are still registered after the call, so each further report would also run all earlier ones.",
        )

    def raising_loss(out):
        """A loss that raises."""
        raise ArithmeticError("no loss today")

    def loss_raises(answer, x):
        """The hooks and the gradients after a loss that raises."""
        net, raised = small_net(), "nothing"
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, 5.0)
        grads = [parameter.grad for parameter in net.parameters()]
        try:
            answer(net, x, raising_loss)
        except Exception as error:
            raised = type(error).__name__
        kept = [p.grad is grad and bool(grad.eq(5).all()) for p, grad in zip(net.parameters(), grads, strict=True)]
        return {"raised": raised, "came": len(hooks_on(net)), "kept": all(kept)}

    test.hidden("a loss that raises leaves no hooks and loses no .grad")
    seen = observe_scenario(loss_raises, gradient_report, x)
    stayed = "When the loss raised, your hooks stayed. Removal belongs into `finally`."
    seen.that(seen["came"] == 0, stayed, stage="rule")
    seen.that(seen["raised"] == "ArithmeticError", "The exception of the loss must reach the caller.", stage="raised")
    seen.that(
        seen["kept"],
        "When the loss raised, the .grad of a parameter was not what it had been. Put it back in `finally`, or use "
        "autograd.grad, which does not write it.",
        stage="arguments",
    )
    ### END HIDDEN TESTS


# %% check="port-old-hooks" points=1
"""The gradients of this loss, whatever .grad holds; square and other layers; x that requires grad."""
with check("port-old-hooks") as test:
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    steps = ["enc.0", "enc.1", "enc.2", "head", "last"]
    wanted = by_hand(nested_net(), steps, x)

    def report_with_old_gradients(answer, x):
        """The report on a net whose parameters hold gradients already."""
        net = nested_net()
        for shift, parameter in enumerate(net.parameters()):
            parameter.grad = torch.full_like(parameter, 100.0 + shift)
        return answer(net, x, weighted_loss)

    in_out = [
        mistake(
            "weight gradients have the weight's own shape (out, in); the transpose belonged to the old hook.",
            when=lambda seen: seen.value["enc.0"]["weight"].shape == (3, 4),
        ),
        mistake(
            "`input` and `output` are swapped: grad_input belongs to what goes into the layer.",
            when=lambda seen: torch.equal(seen.value["head"]["input"], wanted["head"]["output"]),
        ),
    ]

    as_autograd = "The report doesn't contain the gradients that torch.autograd.grad gives for this loss."

    test("the parameters hold gradients already")
    old = dict(nested_net().named_parameters())
    added = {name: 100.0 + shift for shift, name in enumerate(old)}
    seen = observe_scenario(report_with_old_gradients, gradient_report, x).expecting(*known)
    seen.returns(
        wanted,
        mistake(
            "The weight gradient includes what was in .grad before the call, because backward() adds. Report "
            "the gradient of this loss only.",
            when=lambda seen: torch.allclose(seen["head"]["weight"], wanted["head"]["weight"] + added["head.weight"]),
        ),
        mistake(
            "The report contains what was in .grad before the call. Report the gradients of this loss only.",
            when=lambda seen: (seen["head"]["weight"] == added["head.weight"]).all(),
        ),
        *in_out,
        *no_input_gradient,
        mistake("The report must be a dict from names to dicts.", when=lambda seen: not isinstance(seen.value, dict)),
        because=as_autograd,
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("an x that requires grad")
    seen = observe_scenario(report_of, gradient_report, x.clone().requires_grad_()).expecting(*known, never_ran)
    seen.returns(
        by_hand(nested_net(), steps, x.clone().requires_grad_()),
        mistake(
            "If x requires grad, the first layer must also be reported. torch.autograd.grad computes only "
            "what leads to the tensors you ask for, and a hook elsewhere doesn't fire.",
            when=lambda seen: "input" not in seen["enc.0"],
        ),
        mistake(
            "Where x requires grad, the first layer's input has a gradient, and the report must tell it.",
            when=lambda seen: seen["enc.0"].get("input") is None,
        ),
        because=as_autograd,
    )

    def report_on_squares(answer, x):
        """The report on a net of square layers."""
        return answer(nested_net(width=3), x, weighted_loss)

    test.hidden("square layers: the shape alone cannot tell a transposed gradient")
    wanted = by_hand(nested_net(width=3), steps, x)
    seen = observe_scenario(report_on_squares, gradient_report, x).expecting(*known)
    seen.returns(
        wanted,
        mistake(
            "A weight gradient is transposed: it has the weight's own layout (out, in).",
            when=lambda seen: torch.allclose(seen["head"]["weight"], wanted["head"]["weight"].t()),
        ),
        *no_input_gradient,
        because=as_autograd,
    )

    def other_layers():
        """A convolution, a batch norm in training mode, a layer whose class knows no bias, a norm, in float64."""
        torch.manual_seed(2)
        layers = [nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.PReLU(2), nn.Flatten(), nn.LayerNorm(8)]
        return nn.Sequential(*layers, nn.Linear(8, 2, bias=False)).double()

    def report_on_others(answer, x):
        """The report on other kinds of layers."""
        return answer(other_layers(), x, weighted_loss)

    test.hidden("other layers: a convolution, norms, one that has no bias at all; training mode; float64")
    x = torch.arange(18.0, dtype=torch.float64).reshape(2, 1, 3, 3) * 7 % 5 - 2
    seen = observe_scenario(report_on_others, gradient_report, x).expecting(known[0])
    in_eval_mode = by_hand(other_layers().eval(), ["0", "1", "2", "3", "4", "5"], x)
    seen.returns(
        by_hand(other_layers(), ["0", "1", "2", "3", "4", "5"], x),
        mistake(
            "The model was in training mode and must run in it; in eval mode a batch norm gives other values and other "
            "gradients.",
            when=lambda seen: torch.allclose(seen["5"]["weight"], in_eval_mode["5"]["weight"]),
        ),
        mistake(
            "A layer may have no attribute `bias` at all. Report its bias as None.",
            raises="has no attribute 'bias'|'NoneType'",
        ),
        mistake(
            "Every leaf module that owns parameters belongs in the report, whatever its class.",
            when=lambda seen: list(seen.value) == ["5"],
        ),
        because=as_autograd,
    )
    ### END HIDDEN TESTS
