# %% [markdown]
# ### Exercise 6.5 · A layer that reverses gradients
#
# implement · solid · 15 min · 3 points
#
# Domain-adversarial training puts a layer between the features and a domain classifier. Forward, the layer does
# nothing; backward, it reverses the gradient, so that the features learn to *hide* the domain. The label classifier
# uses the same features, and its gradient must not change. Chapter 5 writes this layer as a custom Function. Here the
# question is where to attach a hook and what it sees. You may use any kind of hook.
#
# **Contract**
#
# - Forward returns the values of x. Backward multiplies the gradient that passes through this module by `-lambda_`;
#   other uses of the same x are not affected. No gradient is changed in place.
# - `self.lambda_` may be set to another number between two training steps, and the new value is used from then on.
#   Every module uses its own value, and so does a deep copy, whenever it is made.
# - The module may be called several times, both within one graph and in successive training steps. It works under
#   `no_grad` and for an x that needs no gradient, as in the first layer of a network. The dtype is kept.
# - It has no parameters, and its state_dict is empty.
# - You may assume that x and `(1 + lambda_) * x` are finite, and that nobody changes x or the output in place. Forward
#   may be off by the rounding of numbers of that size. (Exercise 5.7 asks for more: bit for bit, inf included.)
#
# <details><summary>Hint 1</summary>
#
# If you register a hook on x itself, which paths does it see? And how many hooks are there after the second forward?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Either register one full backward hook in `__init__` and let it use its `module` argument, or put the tensor hook on a
# new view of x that you make in forward.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# With the first way, `__init__` stores lambda_ and registers the hook, and forward returns x. The hook returns a tuple
# with a new tensor, minus lambda_ times the gradient of the input. It must read lambda_ from its `module` argument when
# it runs, because `self` would still be the original module in a deep copy.
#
# </details>


# %% answer="gradient-reversal"
class GradientReversal(nn.Module):
    """Passes x on; multiplies the gradient that comes back by -lambda_."""

    lambda_: float

    def __init__(self, lambda_: float = 1.0):
        super().__init__()
        ### BEGIN SOLUTION
        self.lambda_ = lambda_

        def reverse(module: nn.Module, grad_input: tuple, grad_output: tuple) -> tuple:
            return (-module.lambda_ * grad_input[0],)

        self.register_full_backward_hook(reverse)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """The values of x."""
        ### BEGIN SOLUTION
        return x
        ### END SOLUTION


# %% check="gradient-reversal" points=2
"""The values of x forward; the gradient times -lambda_ backward, of this path only."""
with check("gradient-reversal") as test:

    def two_branches(answer, x, lambda_):
        """A domain branch through the layer and a label branch around it, in three training steps."""
        layer, steps = answer(lambda_=lambda_), []
        for _ in range(3):
            features = 2 * x
            passed = layer(features)
            if not isinstance(passed, Tensor) or passed.shape != features.shape:
                return [{"odd": True}]
            domain = (passed * torch.tensor([1.0, 10.0])).sum()
            label = (features * torch.tensor([100.0, 1000.0])).sum()
            (grad,) = torch.autograd.grad(domain + label, x)
            steps.append({"passed": passed.detach(), "gradient": grad})
        return steps

    def first_is(*row):
        """Whether the gradient of the first training step is this row."""
        return lambda seen: torch.allclose(seen[0]["gradient"], torch.tensor(row))

    late = mistake(
        "The first call is not reversed, but the next one is. A module hook that is registered inside forward"
        " works only from the next call on. Register it in __init__.",
        when=lambda seen: first_is(202.0, 2020.0)(seen) and not first_is(202.0, 2020.0)([seen[1]]),
    )
    old_hook = mistake(
        "You registered the old, non-full hook: it reports the inputs of an autograd node, not those of the module.",
        raises="incorrect number of values",
    )
    no_tuple = mistake(
        "A full backward hook returns a tuple with one entry for each input.",
        raises="invalid number of grad_input|has changed the size of value",
    )

    test("x feeds two branches, only one is reversed")
    x = torch.tensor([3.0, -5.0], requires_grad=True)
    seen = observe_scenario(two_branches, GradientReversal, x, 0.5).expecting(old_hook, no_tuple)
    seen.that("odd" not in seen[0], "Forward must return a tensor: the values of x.", stage="type")
    kept = "Forward must return the values of x; only the gradient is reversed."
    seen.that(torch.equal(seen[0]["passed"], torch.tensor([6.0, -10.0])), kept)
    seen.that(
        torch.allclose(
            seen[0]["gradient"], torch.tensor([199.0, 1990.0])
        ),  # 2 * (100 - 0.5 * 1), 2 * (1000 - 0.5 * 10)
        "The gradient of x is wrong: that of the label branch as it is, that of the domain branch times -lambda_.",
        mistake(
            "The label branch also got a reversed gradient. The hook is on x itself, so it sees the sum over "
            "all consumers.",
            when=first_is(-101.0, -1010.0),
        ),
        late,
        mistake(
            "The gradient is unchanged, because what should reverse it is never called, or its result is not "
            "returned. PyTorch never calls a module's method `backward`, and uses only what a hook returns.",
            when=first_is(202.0, 2020.0),
        ),
        mistake("The sign is right but lambda_ is not applied.", when=first_is(198.0, 1980.0)),
        mistake("The size is right, but the sign is not reversed.", when=first_is(201.0, 2010.0)),
        mistake("No gradient comes through the module: x is detached on the way.", when=first_is(200.0, 2000.0)),
        stage="gradient",
    )

    def alone(answer, x, *lambda_):
        """Call the layer alone, and run backward."""
        layer = answer(*lambda_)
        passed = layer(x)
        incoming = incoming_gradient(passed)
        (grad,) = torch.autograd.grad(passed, x, incoming)
        return {"passed": passed.detach(), "gradient": grad, "lambda_": layer.lambda_}

    def times(came, incoming, factor):
        """Whether a gradient is factor times the incoming one, in dtype and shape too."""
        same_kind = (came.dtype, came.shape) == (incoming.dtype, incoming.shape)
        return same_kind and torch.allclose(came, factor * incoming)

    test("values kept, gradient -lambda_ times; lambda_ is 1 where none is given")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], requires_grad=True)
    for given, factor in (([], -1.0), ([0.25], -0.25), ([3.0], -3.0)):
        seen = observe_scenario(alone, GradientReversal, x, *given)
        seen.that(torch.equal(seen["passed"], x.detach()), kept)
        seen.that(
            times(seen["gradient"], incoming_gradient(x), factor),
            f"The gradient must be {factor:g} times the one that came in.",
            mistake(
                "The sign is right but lambda_ is not applied.",
                when=lambda seen: times(seen["gradient"], incoming_gradient(x), -1.0),
            ),
            stage="gradient",
        )
        seen.that(seen["lambda_"] == -factor, "The module must keep lambda_ as its attribute.")


# %% check="gradient-reversal" points=1
"""Called again and again, with another lambda_, as a copy, for an x that needs no gradient."""
with check("gradient-reversal") as test:

    def gradient_through(layer, x):
        """The gradient of x for the incoming gradient (1, 10); zeros if what comes out is no such tensor."""
        passed = layer(2 * x)
        if not isinstance(passed, Tensor) or passed.shape != x.shape:
            return torch.zeros(2)
        (grad,) = torch.autograd.grad(passed, x, torch.tensor([1.0, 10.0]))
        return grad / 2

    def again(answer, x):
        """Send the same x through the layer three times, and run backward each time."""
        layer = answer(0.5)
        return [gradient_through(layer, x) for _ in range(3)]

    test("called again: same result")
    x, rows = torch.tensor([3.0, -5.0], requires_grad=True), torch.tensor([1.0, 10.0])
    seen = observe_scenario(again, GradientReversal, x).expecting(
        mistake(
            "The old, non-full hook reports the inputs of an autograd node, not those of the module.",
            raises="incorrect number of values",
        ),
        mistake(
            "A full backward hook returns a tuple with one entry for each input.",
            raises="invalid number of grad_input|has changed the size of value",
        ),
        mistake(
            "No gradient comes through the module: x is detached on the way.",
            raises="appears to not have been used|does not require grad",
        ),
    )
    for grad in seen.value:
        seen.that(
            torch.allclose(grad, -0.5 * rows),
            "The gradient must be -lambda_ times the one that came in, each time.",
            mistake(
                "The first call is reversed, but a later one isn't. The hook must stay registered.",
                when=lambda seen: torch.allclose(seen[0], -0.5 * rows) and torch.allclose(seen[2], rows),
            ),
            mistake(
                "The first call is not reversed, but the next one is. A module hook that is registered inside"
                " forward works only from the next call on. Register it in __init__.",
                when=lambda seen: (
                    torch.allclose(seen[0], rows)
                    and torch.allclose(seen[1], -0.5 * rows)
                    and torch.allclose(seen[2], -0.5 * rows)
                ),
            ),
            mistake(
                "The second call has the wrong sign or size: a new hook is added in each forward.",
                when=lambda seen: not torch.allclose(seen[1], seen[2]),
            ),
            stage="gradient",
        )

    ### BEGIN HIDDEN TESTS
    def two_calls(answer, x):
        """Two calls side by side and one after the other, in one graph."""
        layer = answer(0.5)
        h = 2 * x
        once, other = layer(h), layer(3 * h)
        twice = layer(layer(h))
        rows = torch.tensor([1.0, 10.0], dtype=x.dtype)
        out = (once * rows).sum() + 100 * (other * rows).sum() + 10000 * (twice * rows).sum()
        (grad,) = torch.autograd.grad(out, x)
        return {"gradient": grad, "dtypes": [str(once.dtype), str(grad.dtype)]}

    test.hidden("several calls in one graph; float64 is kept")
    for dtype in (torch.float32, torch.float64):
        seen = observe_scenario(two_calls, GradientReversal, torch.tensor([3.0, -5.0], dtype=dtype, requires_grad=True))
        seen.that(seen["dtypes"] == [str(dtype)] * 2, "The dtype of values and gradients must stay.", stage="dtype")
        expected = 2 * (-0.5 - 100 * 3 * 0.5 + 10000 * 0.25) * torch.tensor([1.0, 10.0], dtype=dtype)
        seen.that(
            torch.allclose(seen["gradient"], expected),
            "Each call multiplies the gradient that comes through it once by -lambda_.",
            stage="gradient",
        )

    def beside_others(answer, x):
        """A sum hands one gradient to the layer and to a neighbour; then a gradient of the caller's own."""
        layer = answer(0.5)
        neighbour = 2 * x
        incoming = torch.tensor([1.0, 10.0])
        (shared,) = torch.autograd.grad(layer(x.view_as(x)) + neighbour, x, incoming)
        (own,) = torch.autograd.grad(layer(x), x, incoming)
        wide = torch.autograd.grad(layer(x).sum(), x)[0]
        return {"shared": shared, "own": own, "wide": wide, "incoming": incoming}

    test.hidden("the incoming gradient is not changed in place")
    seen = observe_scenario(beside_others, GradientReversal, torch.tensor([3.0, -5.0], requires_grad=True))
    in_place = (
        "The gradient that came in was changed in place. Its memory may be shared with other consumers; "
        "return a new tensor."
    )
    seen.expecting(mistake(in_place, raises="single memory location"))
    ones = torch.tensor([1.0, 10.0])
    seen.that(torch.equal(seen["incoming"], ones), in_place, stage="gradient")
    seen.that(torch.allclose(seen["shared"], (2 - 0.5) * ones), in_place, stage="gradient")
    seen.that(
        torch.allclose(seen["own"], -0.5 * ones), "The gradient must be multiplied by -lambda_.", stage="gradient"
    )
    seen.that(torch.allclose(seen["wide"], torch.full((2,), -0.5)), "The gradient of a sum is wrong.", stage="gradient")

    def state_of(answer):
        """Make the layer, and list what it has registered."""
        layer = answer(0.5)
        if not isinstance(layer, nn.Module):
            return {"kind": type(layer).__name__}
        return {"kind": "a module", "parameters": len(list(layer.parameters())), "state": list(layer.state_dict())}

    test.hidden("no parameters, an empty state_dict")
    seen = observe_scenario(state_of, GradientReversal)
    seen.that(seen["kind"] == "a module", "GradientReversal must be an nn.Module.", stage="type")
    seen.that(seen["parameters"] == 0, "lambda_ is no parameter: the optimizer would train it.")
    seen.that(seen["state"] == [], f"The state_dict must be empty, but it contains {', '.join(seen['state'])}.")

    def schedule(answer, x):
        """lambda_ changes during training; at last in eval mode."""
        layer = answer(0.5)
        grads = [gradient_through(layer, x)]
        for lambda_ in (0.75, -1.5, 0.0, 2.0):
            layer.lambda_ = lambda_
            grads.append(gradient_through(layer, x))
        return [*grads, gradient_through(layer.eval(), x)]

    test.hidden("lambda_ changed after construction; eval mode")
    seen = observe_scenario(schedule, GradientReversal, x).expecting(
        mistake(
            "`layer.lambda_` could not be set to a number, because you registered it as a buffer or a parameter, and "
            "such a name takes tensors only. Make it a plain attribute.",
            raises="cannot assign",
        )
    )
    for lambda_, grad in zip((0.5, 0.75, -1.5, 0.0, 2.0, 2.0), seen.value, strict=True):
        seen.that(
            torch.allclose(grad, -lambda_ * rows),
            "lambda_ was changed, and the gradient does not follow.",
            mistake(
                "lambda_ was read once at construction; the schedule model.lambda_ = 0.3 has no effect.",
                when=lambda seen: all(torch.allclose(came, seen[0]) for came in seen.value),
            ),
            mistake(
                "In eval mode the gradient must also be reversed.",
                when=lambda seen: torch.allclose(seen[4], -2 * rows) and not torch.allclose(seen[5], -2 * rows),
            ),
            stage="gradient",
        )

    def neighbours(answer, x):
        """Two layers, alone and one after the other."""
        one, other = answer(0.5), answer(3.0)
        return [gradient_through(layer, x) for layer in (one, other, nn.Sequential(one, other))]

    test.hidden("two layers, each with its own lambda_")
    seen = observe_scenario(neighbours, GradientReversal, x)
    for factor, grad in zip((-0.5, -3.0, 1.5), seen.value, strict=True):
        seen.that(
            torch.allclose(grad, factor * rows),
            "Where there are two layers, each must go by its own lambda_ and touch nothing else.",
            stage="gradient",
        )

    def copied(answer, x):
        """A step, then a deep copy of the net with the layer; the copy's, then the original's lambda_ is changed."""
        net = nn.Sequential(answer(0.5), nn.Identity())
        gradient_through(net, x)
        twin = copy.deepcopy(net)
        twin[0].lambda_ = 0.25
        before = [gradient_through(net, x), gradient_through(twin, x)]
        net[0].lambda_ = 4.0
        return [*before, gradient_through(net, x), gradient_through(twin, x)]

    test.hidden("a deepcopy goes by its own lambda_")
    seen = observe_scenario(copied, GradientReversal, x).expecting(
        mistake(
            "The layer keeps a tensor of an earlier forward. A tensor with a graph can't be deep-copied, so the layer "
            "can't either ({detail}). Don't store what goes through it.",
            raises="support the deepcopy protocol",
        )
    )
    for lambda_, grad in zip((0.5, 0.25, 4.0, 0.25), seen.value, strict=True):
        seen.that(
            torch.allclose(grad, -lambda_ * rows),
            "In a deepcopy the hook still reads the ORIGINAL module's lambda_: use the module argument of the hook, "
            "not a closure over self.",
            stage="gradient",
        )

    def without_gradient(answer, x, weight):
        """Use it as the first layer of a net, for plain data; and under no_grad."""
        net = nn.Sequential(answer(0.5), nn.Linear(2, 1, bias=False))
        with torch.no_grad():
            net[1].weight.copy_(weight)
            quiet = net[0](weight.clone().requires_grad_())
        return {"out": net(x).detach(), "quiet": quiet, "plain": net[0](x)}

    test.hidden("an x that needs no gradient; no_grad; the first layer of a net")
    x, weight = torch.tensor([3.0, -5.0]), torch.tensor([[2.0, 0.5]])
    refused = "x that needs no gradient must simply pass: register_hook raises on it."
    seen = observe_scenario(without_gradient, GradientReversal, x, weight).expecting(
        mistake(refused, raises="cannot register a hook on a tensor that doesn't require gradient")
    )
    seen.that(
        torch.allclose(seen["out"], torch.tensor([3.5])),
        "The output of a net that begins with the layer is wrong.",
    )
    for name, values in (("quiet", weight), ("plain", x)):
        seen.that(torch.equal(seen[name], values), "Where nothing needs a gradient, x must pass as it is.")
    seen.that(not seen["plain"].requires_grad, "For an x that needs no gradient the result needs none.")
    ### END HIDDEN TESTS
