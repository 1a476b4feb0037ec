# %% [markdown]
# ### Exercise 6.8 · Per-sample gradient norms from one backward
#
# implement · long · 30 min · 3 points
#
# How much would each single sample change the model? Training with differential privacy clips this number, and it helps
# to find wrongly labelled samples. `.grad` contains only the sum over the batch, but hooks can give you all the norms
# from one backward pass.
#
# **Contract**
#
# - `loss_fn(model(x), y)` gives one loss per sample, shape (N,). For each sample, return the L2 norm of the gradient of
#   *its* loss with respect to all trainable parameters together: shape (N,), dtype of the loss, detached. Frozen
#   parameters don't count, whether a whole layer is frozen or a single bias.
# - You may assume that all trainable parameters belong to nn.Linear layers (or layers of a derived class), each called
#   once with an input of shape (N, D) or (N, T, D), that no two layers share a parameter, and that nothing works in
#   place. A layer may have no bias, the loss may be float64 while the model is float32, and x may require grad.
# - No `.grad` changes, neither a parameter's nor that of x, and when your function returns, no hook is left.
#
# **Rule.** The model runs once, in the mode that it is in, backward runs once, and there is no loop over samples.
#
# <details><summary>Hint 1</summary>
#
# For one sample of a Linear, which two vectors multiply to give the weight gradient? What is the norm of an outer
# product, and what changes if a sample has T rows?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In a forward hook, keep each Linear's input a (detached) and its output. One `torch.autograd.grad` of `losses.sum()`
# with respect to the kept outputs gives all output gradients g and doesn't write to any `.grad`. Row n of a and g
# belongs to sample n alone. Squared norms add up over weight and bias and over layers; norms don't.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Hook only the Linears that have a trainable parameter. Bring a and g to (N, T, D), with T = 1 for (N, D). The weight
# gradient of one sample sums the outer products of g and a over T, and its bias gradient sums g over T. Square both and
# sum them per sample, but only for parameters that require grad, and add this up over the layers in the dtype of the
# loss. Take the square root at the end.
#
# </details>


# %% answer="per-sample-grad-norms"
def per_sample_grad_norms(
    model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> Tensor:
    """The norm of the gradient of each sample's loss, (N,); loss_fn(model(x), y) is (N,)."""
    ### BEGIN SOLUTION
    ends: dict[nn.Linear, tuple[Tensor, Tensor]] = {}

    def keep(layer: nn.Linear, args: tuple, output: Tensor) -> None:
        ends[layer] = args[0].detach(), output

    handles = [
        layer.register_forward_hook(keep)
        for layer in model.modules()
        if isinstance(layer, nn.Linear) and any(p.requires_grad for p in layer.parameters())
    ]
    try:
        losses = loss_fn(model(x), y)
    finally:
        for handle in handles:
            handle.remove()

    outputs = [output for _, output in ends.values()]
    grads = torch.autograd.grad(losses.sum(), outputs)
    squares = torch.zeros_like(losses)
    for (layer, (a, _)), g in zip(ends.items(), grads, strict=True):
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))  # (N, T, D), T is 1 for (N, D)
        if layer.weight.requires_grad:
            squares += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            squares += g.sum(1).square().sum(1)
    return squares.sqrt()
    ### END SOLUTION


# %% helpers="per-sample-grad-norms"
class Pool(nn.Module):
    """The mean over T: (N, T, D) becomes (N, D)."""

    def forward(self, x):
        return x.mean(1)


class Narrow(nn.Linear):
    """A class derived from nn.Linear."""


class Doubles(nn.Module):
    """Doubles what comes in training mode, and passes it on in eval mode."""

    def forward(self, x):
        return 2 * x if self.training else x


def numbers(shape, shift=0.0):
    """Fixed numbers of all sizes."""
    count = torch.Size(shape).numel()
    return torch.tensor([k * 7 % 11 / 8 + shift - 0.6 for k in range(count)]).reshape(shape)


def model_for(kind):
    """The model of a setting, with fixed weights."""
    bias = kind != "no bias"
    width = 3 if kind == "square" else 4
    layers = [nn.Linear(3, width, bias=bias), nn.Tanh(), nn.Linear(width, width, bias=bias), nn.Tanh()]
    layers.append(nn.Linear(width, 2))
    if kind == "pooled":
        layers.insert(3, Pool())
    if kind == "derived":
        layers[0] = Narrow(3, width)
    if kind == "training":
        layers.insert(2, Doubles())
    if kind == "nested":
        layers = [nn.Sequential(*layers[:2]), nn.Sequential(nn.Sequential(*layers[2:]))]
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for shift, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers(parameter.shape, shift / 16))
    if kind == "frozen first":
        model[0].requires_grad_(False)
    if kind == "frozen middle":
        model[2].requires_grad_(False)
    if kind == "frozen last":
        model[4].requires_grad_(False)
    if kind == "biases":
        model.requires_grad_(False)
        model[0].bias.requires_grad_()
        model[4].bias.requires_grad_()
    if kind == "weights":
        model[2].bias.requires_grad_(False)
    return model.double() if kind == "float64" else model


def data_for(kind):
    """x and y of a setting."""
    size = {"one sample": 1, "500 samples": 500}.get(kind, 5)
    if kind in ("sequence", "pooled", "one step"):
        x = numbers((size, 1 if kind == "one step" else 6, 3))
        return x, numbers((size, 2) if kind == "pooled" else (*x.shape[:2], 2), 0.25)
    x = numbers((size, 3))
    if kind in ("classes", "one sample", "500 samples", "nested"):
        return x, torch.arange(size) % 2
    if kind == "tracked x":
        x.requires_grad_()
    return (x.double() if kind == "float64" else x), numbers((size, 2), 0.25)


def losses_for(kind, out, y):
    """The losses of a setting, one for each sample."""
    if not y.is_floating_point():
        return nn.functional.cross_entropy(out, y, reduction="none")
    if kind == "wide loss":
        out = out.double()
    squares = (out - y).square().flatten(1).mean(1)
    return (squares - 0.9).relu() if kind == "no gradient" else squares


def measured(measure, kind):
    """The norms, and how often the first Linear and the backward pass of the output ran."""
    model, (x, y) = model_for(kind), data_for(kind)
    calls, backwards = [], []
    first = next(module for module in model.modules() if isinstance(module, nn.Linear))

    def count_call(module, args):
        calls.append(1)

    def count_backward(module, args, output):
        with suppress(RuntimeError):  # inside of torch.func no hook can be registered
            output.register_hook(lambda grad: backwards.append(1))

    first.register_forward_pre_hook(count_call)
    model.register_forward_hook(count_backward)
    norms = measure(model, lambda out, y: losses_for(kind, out, y), x, y)
    return {"norms": norms, "calls": len(calls), "backwards": len(backwards)}


def one_by_one(kind):
    """For each sample the norms of the gradients of all trainable parameters, by a backward pass of its own."""
    model, (x, y) = model_for(kind), data_for(kind)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    rows = []
    for i in range(len(x)):
        loss = losses_for(kind, model(x[i : i + 1]), y[i : i + 1]).sum()
        grads = torch.autograd.grad(loss, list(parameters.values()))
        rows.append({name: grad.norm() for name, grad in zip(parameters, grads, strict=True)})
    return rows


def together(rows, keep=lambda name: True):
    """The norm of some parameters' gradients together, for each sample."""
    return torch.stack([torch.stack([n for name, n in row.items() if keep(name)]).norm() for row in rows])


def judge(seen, kind, *mistakes):
    """Judge shape, dtype and values of the norms."""
    came, rows = seen["norms"], one_by_one(kind)
    expected = together(rows)
    if kind == "wide loss":
        expected = expected.double()
    seen.that(isinstance(came, Tensor), "The result must be a tensor with one norm for each sample.", stage="type")
    seen.that(
        came.shape == expected.shape,
        f"The result must have shape {tuple(expected.shape)}, one norm for each sample, not {tuple(came.shape)}.",
        stage="shape",
    )
    seen.that(
        came.dtype == expected.dtype,
        f"The result must have the dtype of the loss, {expected.dtype}; it has {came.dtype}.",
        stage="dtype",
    )

    def looks_like(norms):
        return torch.allclose(came, norms.to(came.dtype), rtol=1e-4, atol=1e-6)

    size = len(expected)
    owners = {name.rpartition(".")[0] for name in rows[0]}
    of_layers = [together(rows, lambda name, owner=owner: name.rpartition(".")[0] == owner) for owner in owners]
    of_parameters = [together(rows, lambda name, one=one: name == one) for one in rows[0]]
    biased = any("bias" in name for name in rows[0])
    seen.that(
        looks_like(expected),
        "The norms differ from one backward per sample. Did you multiply the input with the gradient of the "
        "layer's OUTPUT (grad_output), not with grad_input?",
        *mistakes,
        mistake(
            "Your norms are N times too small: backward of the mean divides each sample's gradient by N. "
            "Sum the losses.",
            when=lambda seen: looks_like(expected / size),
        ),
        mistake(
            "The bias gradients are missing from the norm.",
            when=lambda seen: biased and looks_like(together(rows, lambda name: "bias" not in name)),
        ),
        mistake(
            "Norms of layers do not add; their squares do.",
            when=lambda seen: looks_like(sum(of_layers)) or looks_like(sum(of_parameters)),
        ),
        mistake("These are squares: the root is missing.", when=lambda seen: looks_like(expected.square())),
    )
    seen.that(not came.requires_grad, "The norms carry a graph: detach them.", stage="gradient")


first_layer = mistake(
    "The first layer's input needs no gradient, so grad_input is None there. Multiply the input with the gradient of "
    "the layer's OUTPUT (grad_output), not with grad_input.",
    raises="NoneType",
)
loop = "The model ran more than once: get all samples from one forward and one backward."


# %% check="per-sample-grad-norms" points=1
"""The norms that one backward pass for each sample would give, from a single forward and backward."""
with check("per-sample-grad-norms") as test:
    test("an MLP with cross entropy, compared with one backward for each sample")
    seen = observe_scenario(measured, per_sample_grad_norms, "classes").expecting(first_layer)
    judge(seen, "classes")

    test("one forward, one backward")
    seen.that(seen["calls"] == 1, loop, stage="rule")
    seen.that(
        seen["backwards"] <= 1,
        f"Backward ran {seen['backwards']} times: get all samples from one backward, without a loop over samples.",
        stage="rule",
    )

    test("no loop over samples: fewer torch calls than samples")
    larger = observe_scenario(measured, per_sample_grad_norms, "500 samples")
    judge(larger, "500 samples")
    larger.that(
        len(larger.op_names(level="python")) < 500,
        "For 500 samples there are 500 torch calls or more: work on all samples at once, without a loop.",
        stage="rule",
    )


# %% check="per-sample-grad-norms" points=1
"""No .grad is written or changed, and no hook stays."""
with check("per-sample-grad-norms") as test:

    def distances(out, y):
        """One loss for each sample."""
        return (out - y).square().sum(1)

    def hooks_on(model, *tensors):
        """Every hook of the model's modules, of all modules and of some tensors, with its place."""
        places = [(f"module {name}".strip(), vars(module)) for name, module in model.named_modules()]
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

    def traces(measure, x, old_gradients):
        """What measuring leaves behind, on a net of square layers."""
        torch.default_generator.manual_seed(3)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        net[0].register_forward_hook(lambda *args: None)
        tensors = {"x": x} | dict(net.named_parameters())
        for shift, tensor in enumerate(tensors.values()):
            if old_gradients and tensor.requires_grad:
                tensor.grad = torch.full_like(tensor, 5.0 + shift)
        flags = {name: tensor.requires_grad for name, tensor in tensors.items()}
        values = {name: tensor.tolist() for name, tensor in tensors.items()}
        grads = {name: tensor.grad for name, tensor in tensors.items()}
        numbers = {name: None if grad is None else grad.tolist() for name, grad in grads.items()}
        before = hooks_on(net)
        norms = measure(net, distances, x, torch.tensor([[0.5, 1.0, -2.0], [1.5, -0.25, 0.75]]))
        after, now = hooks_on(net, *tensors.values()), {"x": x} | dict(net.named_parameters())
        return {
            "size": len(norms) if isinstance(norms, Tensor) and norms.dim() == 1 else 0,
            "came": [hook[0] for hook in after if hook not in before],
            "went": [hook[0] for hook in before if hook not in after],
            "grad": [
                name
                for name, tensor in now.items()
                if (tensor.grad is None) != (grads[name] is None)
                or (tensor.grad is not None and tensor.grad.tolist() != numbers[name])
            ],
            "changed": [
                name for name, t in now.items() if t.requires_grad != flags[name] or t.tolist() != values[name]
            ],
        }

    def judge_model(seen):
        """Judge that nothing is left behind."""
        seen.that(not seen["went"], "Someone else's hook disappeared: remove your own handles only.", stage="rule")
        places = ", ".join(dict.fromkeys(seen["came"]))
        seen.that(not seen["came"], f"Hooks stayed on the model ({places}).", stage="rule")
        written = ", ".join(seen["grad"])
        seen.that(
            not written,
            f".grad of the parameters changed ({written}): use autograd.grad, or save and restore.",
            mistake("x.grad changed: it belongs to the caller.", when=lambda seen: seen["grad"] == ["x"]),
            stage="arguments",
        )
        changed = ", ".join(seen["changed"])
        seen.that(not changed, f"Values or requires_grad were changed: {changed}.", stage="arguments")

    test("no hooks and no .grad left")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    seen = observe_scenario(traces, per_sample_grad_norms, x, False).expecting(first_layer)
    judge_model(seen)
    seen.that(seen["size"] == 2, "The result must be a tensor with one norm for each sample.", stage="shape")

    ### BEGIN HIDDEN TESTS
    for idea, some_x, old_gradients in [
        ("gradients that are there already stay", x, True),
        ("an x that requires grad is accepted and left alone", x.clone().requires_grad_(), False),
        ("the gradient of x stays", x.clone().requires_grad_(), True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(traces, per_sample_grad_norms, some_x, old_gradients)
        judge_model(seen)
        seen.that(seen["size"] == 2, "The result must be a tensor with one norm for each sample.", stage="shape")
    ### END HIDDEN TESTS


# %% check="per-sample-grad-norms" points=1
"""Sequences, other layers and losses, parameters that are not trained."""
with check("per-sample-grad-norms") as test:

    def products_of_norms(kind):
        """What the product of norms would give for sequences, all layers and their biases together."""
        model, (x, y) = model_for(kind), data_for(kind)
        total, h, kept = 0, x, []
        for layer in model:
            out = layer(h)
            if isinstance(layer, nn.Linear):
                kept.append((h, out))
            h = out
        grads = torch.autograd.grad(losses_for(kind, h, y).sum(), [out for _, out in kept])
        for (a, _), g in zip(kept, grads, strict=True):
            a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))
            total = total + (g.square().sum((1, 2)) * a.square().sum((1, 2))) + g.sum(1).square().sum(1)
        return total.sqrt()

    for idea, kind in [
        ("x of shape (N, T, D)", "sequence"),
        ("some layers see (N, T, D), others (N, D)", "pooled"),
    ]:
        test(idea)
        seen = observe_scenario(measured, per_sample_grad_norms, kind).expecting(
            first_layer,
            mistake(
                "For (N, T, D) the gradient of a sample is a sum over its T rows: of outer products for the weight, "
                "of g for the bias.",
                stage="value",
            ),
            mistake("(N, T, D) is allowed, too; here it raised: {detail}", stage="raised"),
        )
        wrong_norms = products_of_norms(kind)
        judge(
            seen,
            kind,
            mistake(
                "For (N, T, D) the norm of a sum of outer products is not the product of norms: sum over T first.",
                when=lambda seen, norms=wrong_norms: torch.allclose(seen["norms"], norms, rtol=1e-3),
            ),
        )
        seen.that(seen["backwards"] <= 1, "Backward ran more than once.", stage="rule")

    skipped = mistake(
        "A trained bias was left out. A layer counts if any of its parameters requires grad, the weight or the bias.",
        when=lambda seen: not seen["norms"].any(),
    )
    for idea, kind, sentence in [
        ("a float64 loss over a float32 model", "wide loss", "The norms have the dtype of the loss, here float64."),
        ("only two biases are trained", "biases", "Frozen parameters must not count, not even beside a trained bias."),
    ]:
        test(idea)
        seen = observe_scenario(measured, per_sample_grad_norms, kind).expecting(
            skipped,
            mistake(sentence, stage=("value", "dtype")),
            mistake(sentence + " Here it raised: {detail}", stage="raised"),
        )
        judge(seen, kind)

    ### BEGIN HIDDEN TESTS
    for idea, kind, sentence in [
        ("layers without a bias", "no bias", "A Linear may have no bias."),
        ("float64", "float64", "The norms differ where the model and the loss are float64."),
        ("a batch of one", "one sample", "The norms differ for a batch of one."),
        ("layers inside of containers", "nested", "Layers inside containers also belong to the model."),
        ("a frozen first layer", "frozen first", "Frozen layers must not count."),
        ("a frozen layer in the middle", "frozen middle", "Frozen layers must not count."),
        ("a frozen last layer", "frozen last", "Frozen layers must not count."),
        ("one bias is frozen", "weights", "Frozen parameters must not count, not even in a layer that is trained."),
        ("square layers", "square", "The norms differ for square layers."),
        (
            "an x that requires grad",
            "tracked x",
            "The norms differ if x requires grad. torch.autograd.grad computes only what leads to the tensors"
            " you ask for, so the first layer's full hook doesn't fire unless you also ask for x.",
        ),
        ("a sequence of one step", "one step", "The norms differ for x of shape (N, 1, D)."),
        (
            "a class derived from nn.Linear",
            "derived",
            "A layer of a class derived from nn.Linear also counts. isinstance() finds it.",
        ),
        (
            "a layer that does something in training mode only",
            "training",
            "The model was in training mode and must run in it; a dropout does nothing in eval mode.",
        ),
    ]:
        test.hidden(idea)
        seen = observe_scenario(measured, per_sample_grad_norms, kind).expecting(mistake(sentence, stage="value"))
        seen.expecting(mistake(sentence + " Here it raised: {detail}", stage="raised"))
        judge(seen, kind)
        seen.that(seen["calls"] == 1, loop, stage="rule")

    test.hidden("samples whose loss has no gradient")
    seen = observe_scenario(measured, per_sample_grad_norms, "no gradient")
    judge(
        seen,
        "no gradient",
        mistake(
            "A sample whose loss has no gradient has norm 0, not nan.", when=lambda seen: seen["norms"].isnan().any()
        ),
        mistake("A sample whose loss has no gradient has norm 0, exactly.", when=lambda seen: seen["norms"].all()),
    )

    test.hidden("float64, to ten digits")
    seen = observe_scenario(measured, per_sample_grad_norms, "float64")
    judge(seen, "float64")
    seen.that(
        torch.allclose(seen["norms"], together(one_by_one("float64")), rtol=1e-10),
        "Model and loss are float64, and the norms are right to the seven digits of float32 only. Keep the dtype.",
    )

    def cancelling(measure):
        """Measure one Linear layer on 64 sequences: the rows of a sequence are equal, their loss gradients sum to 0."""
        generator = torch.Generator().manual_seed(8)
        model, x = nn.Linear(8, 4), torch.randn(64, 1, 8, generator=generator).repeat(1, 6, 1)
        with torch.no_grad():
            model.weight.copy_(numbers(model.weight.shape))
        y = torch.randn(64, 6, 4, generator=generator)
        return measure(model, lambda out, y: (out * y).sum((1, 2)), x, y - y.mean(1, keepdim=True))

    test.hidden("sequences whose rows cancel: the norms are 0, up to rounding")
    seen = observe_scenario(cancelling, per_sample_grad_norms)
    seen.that(
        isinstance(seen.value, Tensor), "The result must be a tensor with one norm for each sample.", stage="type"
    )
    seen.that(
        (seen.value.abs() < 1e-2).all(),
        "The gradients of a sample's rows cancel here, so its norm is 0 up to rounding, and some of yours are not. A "
        "sum of products that should be 0 can come out just below 0, and then its root is nan. Clamp the square at 0 "
        "before you take the root.",
    )
    ### END HIDDEN TESTS
