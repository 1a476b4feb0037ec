# %% [markdown]
# ### Exercise 6.3 · Two error messages from one backward hook
#
# debug · solid · 12 min · 2 points
#
# To give everything before a certain layer a lower learning rate, you can use a hook that shrinks the gradient which
# the layer passes back. This attempt raises, and with another layer or another batch size it raises something else. Fix
# it.
#
# **Contract**
#
# - For each call of the module while the hook is registered, the gradient that the module passes back to its positional
#   tensor inputs is multiplied by `factor`, which may be any number, including 0.
# - Nothing else changes: not the module's outputs (to the last bit), not the gradients of its own parameters, and not
#   what reaches the same tensors by another path.
# - It works for one or several inputs. Inputs that need no gradient, and inputs that are not tensors, are left alone.
#   No gradient is changed in place.
# - Return the handle. Calls of the module after `handle.remove()` are no longer scaled. Earlier calls whose backward is
#   still to come may be scaled or not (a full backward hook scales them).
# - You may assume that the module returns a tensor or a tuple of tensors, and that no layer works in place. The outputs
#   need not be exact if an input that requires grad contains inf, nan or -0.0.
#
# <details><summary>Hint 1</summary>
#
# Is grad_input a tensor or a tuple? How many entries must a replacement have, and what is the entry of an input that
# has no gradient?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Where do the 4 and the 1 of the first message come from? What a hook returns replaces grad_input, which has one entry
# per positional input; a bare tensor is split along its first dimension. And for which entry was `factor * …` applied
# to None?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Return a tuple as long as grad_input. For each entry, it contains a new scaled tensor, or None where grad_input has
# None. Don't scale in place, because that would change a tensor that others still need.
#
# </details>


# %% answer="scale-input-grads"
def scale_input_grads(module: nn.Module, factor: float) -> RemovableHandle:
    """Scale the gradient that the module passes back to its inputs, until the handle is removed."""
    ### BEGIN SOLUTION

    def hook(module: nn.Module, grad_input: tuple, grad_output: tuple) -> tuple:
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    #
    # def hook(module, grad_input, grad_output):
    #     return factor * grad_input[0]
    #
    # return module.register_full_backward_hook(hook)
    #
    # # On a Linear in the middle of a net, with a batch of 4:
    # # RuntimeError: Backward hook returned an invalid number of grad_input, got 4, but expected 1
    # # The same with a batch of 1:
    # # RuntimeError: hook 'hook' has changed the size of value
    # # On the first Linear of a net, with data that needs no gradient:
    # # TypeError: unsupported operand type(s) for *: 'float' and 'NoneType'
    ### END GIVEN


# %% helpers="scale-input-grads"
def two_layers():
    """Two Linear layers with fixed weights."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    with torch.no_grad():
        for shift, parameter in enumerate(net.parameters()):
            numbers = torch.arange(parameter.numel()) * 7 % 5 + shift / 4 - 1.5
            parameter.copy_(numbers.reshape(parameter.shape))
    return net


def same(came, expected):
    """Whether two gradients agree; None agrees with None only."""
    if came is None or expected is None:
        return came is expected
    same_kind = came.shape == expected.shape and came.dtype == expected.dtype
    rtol, atol = (1e-10, 1e-12) if came.dtype == torch.float64 else (1e-4, 1e-5)
    return same_kind and torch.allclose(came, expected, rtol=rtol, atol=atol)


dropped_none = (
    "You left out the None entries, so the tuple got shorter than the list of inputs. Keep one entry per input."
)


# %% check="scale-input-grads" points=1
"""What flows back to the inputs is scaled, and nothing else, until the handle is removed."""
with check("scale-input-grads") as test:

    def gradients_of(net, x):
        """The output of the net, and all gradients of the sum of its squares."""
        out = net(x)
        out.square().sum().backward()
        grads = {name: parameter.grad for name, parameter in net.named_parameters()}
        return {"output": out.detach(), "x": x.grad} | grads

    def hooked(scale, layer, x):
        """Run the net with a hook on one of its layers."""
        net = two_layers()
        scale(net[layer], 3.0)
        return gradients_of(net, x)

    known = [
        mistake(
            "You returned a bare tensor, which PyTorch splits along its first dimension. Return a tuple with "
            "one entry per positional input.",
            raises="invalid number of grad_input, got 4, but expected 1",
        ),
        mistake(
            "What the hook returned doesn't fit. Return a tuple with an entry of the same shape for each "
            "entry of grad_input.",
            raises="has changed the size of value",
        ),
        mistake(
            "An input that needs no gradient appears as None; multiplying None is the TypeError you saw. "
            "Pass it through.",
            raises="NoneType",
        ),
        mistake(
            'Refused ("should always return None or None for all gradients"): a list in place of a tuple, or a tensor '
            "where grad_input has None.",
            raises="should always return None or None for all gradients",
        ),
        mistake(dropped_none, raises="invalid number of grad_input"),
        mistake(
            "The gradient that your hook returned has another dtype than the one it got. Keep the dtype.",
            raises="changed the type of value",
        ),
        mistake(
            "Inputs that are no tensors, such as a number, must be left in peace: {detail}.",
            raises="'(int|float)' object",
        ),
        mistake(
            "You can't register a tensor hook on a tensor that needs no gradient. Leave such an input alone.",
            raises="cannot register a hook on a tensor that doesn't require gradient",
        ),
        mistake(
            "After your function the grad mode is off, so there is no backward pass: leave it as it is.",
            raises="element 0 of tensors does not require grad",
        ),
        mistake(
            "You registered the old, non-full hook. Its grad_input lists the inputs of the last autograd node, "
            "not those of the module.",
            when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
        ),
    ]

    def judge(seen, facts, plain, larger):
        """Judge what a run with the hook gave: the named gradients three times as large, the others unchanged."""
        seen.that(same(facts["output"], plain["output"]), "The output of the module must stay as it is.")
        for name in [name for name in plain if name not in larger]:
            seen.that(
                same(facts[name], plain[name]),
                f"The gradient of {name} must not change. The hook should scale only what the module passes "
                "back to its inputs.",
                *known,
                mistake(
                    "The module's own weight gradient was also scaled, because you changed grad_output (on "
                    "the way in) and not grad_input (on the way out).",
                    when=lambda seen, name=name: same(facts[name], 3 * plain[name]),
                ),
                stage="gradient",
            )
        for name in larger:
            seen.that(
                same(facts[name], 3 * plain[name]),
                f"The gradient of {name} must be factor times what it is without the hook.",
                mistake(
                    f"The gradient of {name} is what it is without the hook: what a hook returns replaces grad_input, "
                    "and None replaces nothing.",
                    when=lambda seen, name=name: same(facts[name], plain[name]),
                ),
                mistake(
                    f"No gradient reaches {name} any more: the inputs must not be detached on their way into the "
                    "module.",
                    when=lambda seen, name=name: facts[name] is None,
                ),
                *known,
                stage="gradient",
            )

    for idea, x in [
        ("a Linear in the middle, a batch of 4", torch.tensor([[0.5, -1.0], [2.0, 1.5], [-0.25, 3.0], [1.0, 0.75]])),
        ("a Linear in the middle, a batch of 1", torch.tensor([[0.5, -1.0]])),
    ]:
        test(idea)
        plain = gradients_of(two_layers(), x.clone().requires_grad_())
        seen = observe_scenario(hooked, scale_input_grads, 1, x.clone().requires_grad_()).expecting(*known)
        judge(seen, seen.value, plain, larger=["x", "0.weight", "0.bias"])

    test("the first layer, with data that needs no gradient")
    seen = observe_scenario(hooked, scale_input_grads, 0, x).expecting(*known)
    judge(seen, seen.value, gradients_of(two_layers(), x), larger=[])

    def then_removed(scale, x):
        """Run the net twice with the hook and again after its removal."""
        net = two_layers()
        handle = scale(net[1], 3.0)
        if not callable(getattr(handle, "remove", None)):
            return {"handle": type(handle).__name__}
        runs = []
        for run in range(3):
            x.grad = None
            net.zero_grad()
            if run == 2:
                handle.remove()
            runs.append(gradients_of(net, x))
        return {"handle": None, "runs": runs}

    test("after handle.remove() nothing is scaled")
    seen = observe_scenario(then_removed, scale_input_grads, x.clone().requires_grad_())
    seen.that(
        seen["handle"] is None,
        "Your function must return the handle, so that the caller can remove the hook.",
        stage="type",
    )
    first, second, later = seen["runs"]
    judge(seen, first, plain, larger=["x", "0.weight", "0.bias"])
    again = all(same(second[name], first[name]) for name in plain)
    seen.that(again, "The second pass must be scaled like the first: the hook stays until remove().", stage="gradient")
    still = [name for name in plain if not same(later[name], plain[name])]
    seen.that(not still, "After handle.remove() gradients are still scaled.", stage="gradient")


# %% check="scale-input-grads" points=1
"""Several inputs; other paths to them; gradients that share memory; a module used several times."""
with check("scale-input-grads") as test:
    one_entry = (
        "You handed back one entry, and this module has three positional inputs: return as many as grad_input has, "
        "None where it has None. (It is grad_output that has one entry for each output.)"
    )
    known = [
        mistake(
            "You returned a bare tensor, which PyTorch splits along its first dimension. Return a tuple with "
            "one entry per positional input.",
            raises="invalid number of grad_input, got 4, but expected 1",
        ),
        mistake(
            "What the hook returned doesn't fit. Return a tuple with an entry of the same shape for each "
            "entry of grad_input.",
            raises="has changed the size of value",
        ),
        mistake(
            "An input that needs no gradient appears as None; multiplying None is the TypeError you saw. "
            "Pass it through.",
            raises="NoneType",
        ),
        mistake(
            'Refused ("should always return None or None for all gradients"): a list in place of a tuple, or a tensor '
            "where grad_input has None.",
            raises="should always return None or None for all gradients",
        ),
        mistake(dropped_none, raises="invalid number of grad_input, got 2, but expected 3"),
        mistake(one_entry, raises="invalid number of grad_input, got 1"),
        mistake(
            "The gradient that your hook returned has another dtype than the one it got. Keep the dtype.",
            raises="changed the type of value",
        ),
        mistake(
            "Inputs that are no tensors, such as a number, must be left in peace: {detail}.",
            raises="'(int|float)' object",
        ),
        mistake(
            "You can't register a tensor hook on a tensor that needs no gradient. Leave such an input alone.",
            raises="cannot register a hook on a tensor that doesn't require gradient",
        ),
        mistake(
            "After your function the grad mode is off, so there is no backward pass: leave it as it is.",
            raises="element 0 of tensors does not require grad",
        ),
        mistake(
            "You registered the old, non-full hook. Its grad_input lists the inputs of the last autograd node, "
            "not those of the module.",
            when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
        ),
    ]

    def scaled(x, factor):
        """The values of x; the gradient is multiplied by factor."""
        return factor * x + (1 - factor) * x.detach()

    class Mixed(nn.Module):
        """Two tensors and a number between them."""

        def forward(self, a, power, b):
            return a.pow(power) * (b + 0.5 * a)

    def several_inputs(scale, a, b):
        """Hook a module with two inputs and a number between them: the gradients of both inputs."""
        module = Mixed()
        scale(module, 3.0)
        out = module(a, 2, b)
        out.sum().backward()
        return {"output": out.detach(), "a": a.grad, "b": b.grad}

    first_only = "Only the first input's gradient was scaled; grad_input has one entry for each positional input."
    a, b = torch.tensor([1.5, -2.0, 0.5]), torch.tensor([2.0, 0.75, -3.0])
    for idea, needs_a, needs_b in [
        ("two inputs and a number between them", True, True),
        ("the second input needs no gradient", True, False),
        ("the first input needs no gradient", False, True),
    ]:
        test(idea)
        inputs = [a.clone().requires_grad_(needs_a), b.clone().requires_grad_(needs_b)]
        seen = observe_scenario(several_inputs, scale_input_grads, *inputs).expecting(*known)
        out = Mixed()(scaled(inputs[0], 3), 2, scaled(inputs[1], 3))
        out.sum().backward()
        seen.that(torch.allclose(seen["output"], out), "The output of the module must stay as it is.")
        unscaled = [
            tensor.grad is None or same(seen[name], tensor.grad / 3) for name, tensor in zip("ab", inputs, strict=True)
        ]
        seen.that(
            not all(unscaled),
            "Nothing was scaled, because one entry is None. Let that one pass, and scale the others.",
            stage="gradient",
        )
        half = needs_a and needs_b and same(seen["a"], inputs[0].grad) and same(seen["b"], inputs[1].grad / 3)
        seen.that(not half, first_only, stage="gradient")
        for name, tensor in zip("ab", inputs, strict=True):
            seen.that(
                same(seen[name], tensor.grad), f"The gradient of an input is wrong where {idea}.", stage="gradient"
            )

    ### BEGIN HIDDEN TESTS
    def around(scale, x):
        """Hook a module in eval mode; x goes through it and past it."""
        layer = two_layers()[0].eval()
        scale(layer, 3.0)
        h = 2 * x
        (layer(h).square().sum() + h.pow(3).sum() + x.square().sum()).backward()
        return {"x": x.grad, "weight": layer.weight.grad}

    test.hidden("x is used once through the module, in eval mode, and once around it")
    x = torch.tensor([[0.5, -1.0], [2.0, 1.5]], requires_grad=True)
    seen = observe_scenario(around, scale_input_grads, x).expecting(*known)
    (through,) = torch.autograd.grad(two_layers()[0](2 * x).square().sum(), x)
    (beside,) = torch.autograd.grad((2 * x).pow(3).sum() + x.square().sum(), x)
    seen.that(
        not same(seen["x"], through + beside),
        "In eval mode the gradient that the module passes back was not scaled. A hook also runs in eval mode, so it "
        "must not ask for module.training.",
        stage="gradient",
    )
    seen.that(
        same(seen["x"], 3 * through + beside),
        "A gradient that reaches x around the module was also scaled. Hook the module, not the input tensor.",
        stage="gradient",
    )

    in_place = (
        "You changed grad_input in place. That memory may be shared with another input or with an expanded gradient; "
        "return new tensors."
    )

    class Plus(nn.Module):
        """Hands the same gradient tensor to both inputs."""

        def forward(self, a, b):
            return a + b

    class AsItIs(nn.Module):
        """Hands back the very gradient that came in."""

        def forward(self, x):
            return x.view_as(x)

    class Total(nn.Module):
        """Hands back a gradient whose entries share one cell."""

        def forward(self, x):
            return x.sum()

    def masked(scale, a, mask):
        """Hook a module that adds a mask to its input: the output."""
        module = Plus()
        scale(module, 3.0)
        return module(a, mask).detach()

    test.hidden("a mask of 0 and -inf, which needs no gradient")
    mask = torch.tensor([0.0, -torch.inf, 0.0])
    seen = observe_scenario(masked, scale_input_grads, a.clone().requires_grad_(), mask).expecting(*known)
    seen.that(
        torch.equal(seen.value, a + mask),
        "An input that needs no gradient, here a mask with -inf, did not reach the module as it was: you compute with "
        "it. Leave alone every input whose requires_grad is False.",
    )

    def shared_gradients(scale, a, b):
        """Three modules whose gradients share memory with others."""
        plus, as_it_is, total = Plus(), AsItIs(), Total()
        for module in (plus, as_it_is, total):
            scale(module, 3.0)
        grads = torch.autograd.grad(plus(a, b), [a, b], torch.tensor([1.0, 10.0, 100.0]))
        beside = 2 * b
        incoming = torch.tensor([1.0, 10.0, 100.0])
        past = torch.autograd.grad(as_it_is(a) + beside, [a, b], incoming)
        return {"plus": grads, "as it is": past, "incoming": incoming, "total": torch.autograd.grad(total(a), a)}

    test.hidden("gradients that share their memory with others")
    seen = observe_scenario(shared_gradients, scale_input_grads, a.clone().requires_grad_(), b.clone().requires_grad_())
    seen.expecting(mistake(in_place, raises="single memory location"), *known)
    ones = torch.tensor([1.0, 10.0, 100.0])
    found = [*seen["plus"], *seen["as it is"], seen["incoming"], *seen["total"]]
    expected = [3 * ones, 3 * ones, 3 * ones, 2 * ones, ones, torch.full((3,), 3.0)]
    seen.that(
        all(map(same, found, expected)),
        "Where an addition, a view or a sum hands its gradient on, what arrives at the inputs is wrong.",
        mistake(first_only, when=lambda seen: same(found[1], ones)),
        mistake(in_place, when=lambda seen: same(found[0], 9 * ones) or same(found[3], 6 * ones)),
        mistake(in_place, when=lambda seen: same(found[4], 3 * ones)),
        stage="gradient",
    )

    def square_layer():
        """A Linear in float64."""
        layer = nn.Linear(2, 2, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 3.0]]))
        return layer

    def repeated(scale, x, factor):
        """The module is used three times in a row, then once more under no_grad; the factor is given."""
        layer = square_layer()
        scale(layer, factor)
        out = layer(layer(layer(x)))
        out.square().sum().backward()
        with torch.no_grad():
            again = layer(x)
        return {"output": out.detach(), "x": x.grad, "weight": layer.weight.grad, "again": again}

    for idea, factor in (
        ("a module used three times; float64; a negative factor; no_grad", -0.5),
        ("a large factor: the outputs stay the same to the last bit", 1001.0),
    ):
        test.hidden(idea)
        x = torch.tensor([[0.1, -1.3], [2.7, 1.9]], dtype=torch.float64, requires_grad=True)
        seen = observe_scenario(repeated, scale_input_grads, x, factor).expecting(*known)
        layer = square_layer()
        layer(scaled(layer(scaled(layer(scaled(x, factor)), factor)), factor)).square().sum().backward()
        seen.that(same(seen["x"], x.grad), "Each use of the module scales once, by any factor.", stage="gradient")
        seen.that(
            same(seen["weight"], layer.weight.grad),
            "The gradient of the module's own weight must be as it is without the hook.",
            stage="gradient",
        )
        quiet = same(seen["again"], layer(x)) and not seen["again"].requires_grad
        seen.that(quiet, "Under no_grad nothing may change.")
        seen.that(
            torch.equal(seen["output"], layer(layer(layer(x)))),
            "The outputs of the module must be the same to the last bit. The sum of `factor * x` and "
            "`(1 - factor) * x` is x only up to rounding, which grows with the factor. Scale in a hook on a view of x, "
            "or in a full backward hook.",
        )

    def to_nothing(scale, x):
        """Hook a Linear with factor 0."""
        net = two_layers()
        scale(net[1], 0.0)
        return gradients_to_x(net, x)

    def gradients_to_x(net, x):
        """The gradient of x for the sum of the squares of the output."""
        net(x).square().sum().backward()
        return x.grad

    test.hidden("a factor of 0")
    unscaled = gradients_to_x(two_layers(), torch.tensor([[0.5, -1.0], [2.0, 1.5]], requires_grad=True))
    seen = observe_scenario(to_nothing, scale_input_grads, torch.tensor([[0.5, -1.0], [2.0, 1.5]], requires_grad=True))
    seen.expecting(*known)
    seen.that(
        isinstance(seen.value, Tensor) and not seen.value.any(),
        "With a factor of 0 the gradient of the inputs is a tensor of zeros.",
        mistake(
            "With a factor of 0 the gradient came back unscaled. A condition such as `if factor` is False for 0, and "
            "a hook that returns None or the old gradients changes nothing.",
            when=lambda seen: same(seen.value, unscaled),
        ),
        stage="gradient",
    )
    ### END HIDDEN TESTS
