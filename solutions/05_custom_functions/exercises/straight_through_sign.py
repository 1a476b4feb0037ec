# %% [markdown]
# ### Exercise 5.6 · A gradient for a step function
#
# implement · warm-up · 12 min · 2 points
#
# Networks with binary weights or activations send everything through a step, whose derivative stops all learning. Write
# the step with a *straight-through* gradient (section 5.7): the forward is the step, the backward is that of a
# surrogate. Here the surrogate is x itself, cut off at -1 and 1, with slope 1 in between and 0 outside.
#
# **Contract**
#
# - Forward: exactly +1 where x >= 0 (including -0), exactly -1 where x < 0, nan stays nan. Same shape, dtype and
#   device as x, in new memory.
# - Backward: the incoming gradient where |x| < 1, zero where |x| > 1. A second differentiation works: backward's result
#   depends only on the incoming gradient, so its derivative with respect to x is zero, not an error.
# - x and the incoming gradient are never changed. x may be of any shape and need not require grad. Other uses of x keep
#   their ordinary gradient.
# - If x is changed in place between forward and backward, backward either raises or computes the right gradient.
# - Up to you: the gradient where x is nan, -1 or 1, and where |x| > 1 and the incoming gradient isn't finite.
#
# gradcheck compares with the true derivative of the step, so it fails here by design. The tests compare with the
# gradient of the surrogate.
#
# <details><summary>Hint 1</summary>
#
# The derivative of the step is 0 almost everywhere. Whose derivative do you want instead, and where does that
# derivative depend on x?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Either write a Function whose backward multiplies by the indicator of |x| < 1 (save x), or use arithmetic: the
# surrogate plus a correction that is invisible to autograd.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In forward, select between +1 and -1 by comparing x with 0, bring the result into the dtype of x, and put nan back
# where x is nan, because a comparison with nan is False. Save x properly. In backward, the comparison of |x| with 1
# gives a mask that you can multiply by.
#
# </details>


# %% answer="straight-through-sign"
### BEGIN SOLUTION
class StraightThroughSign(torch.autograd.Function):
    """The sign with 0 counted as positive; its gradient passes between -1 and 1."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)


def ste_sign(x: Tensor) -> Tensor:
    """+1 where x >= 0, -1 where x < 0; the gradient passes between -1 and 1.

    x: (...) float; returns the same shape, dtype and device.
    """
    return StraightThroughSign.apply(x)


### END SOLUTION
### BEGIN GIVEN
# def ste_sign(x: Tensor) -> Tensor:
#     """+1 where x >= 0, -1 where x < 0; the gradient passes between -1 and 1.
#
#     x: (...) float; returns the same shape, dtype and device.
#     """
#     raise NotImplementedError  # your code here
### END GIVEN

# %% check="straight-through-sign" points=1
"""The forward is the step; the gradient passes between -1 and 1, and nowhere else."""
with check("straight-through-sign") as test:
    test("the step at -2, -0.5, 0.25, 0.5, 2")
    five = torch.tensor([-2.0, -0.5, 0.25, 0.5, 2.0])
    seen = observe(ste_sign, five)
    seen.returns(
        torch.tensor([-1.0, -1, 1, 1, 1]),
        mistake("Your values are 0 and 1; they must be -1 and +1.", gives=torch.tensor([0.0, 0, 1, 1, 1])),
        mistake(
            "Nothing came back: what the function computes must be returned.",
            when=lambda seen: seen.value is None,
        ),
        mistake("Apply the step to every element: the result has the shape of x.", stage="shape"),
    )

    def incoming(seen):
        """The gradient that the observed backward pass started from."""
        return incoming_gradient(seen.args[0])

    passes_everywhere = mistake(
        "Your gradient also passes for |x| > 1, but the surrogate is flat there.",
        when=lambda seen: torch.equal(seen.gradient(0), incoming(seen)),
    )
    not_connected = mistake(
        "The output is not connected to x, so x gets no gradient.",
        stage="gradient",
        when=lambda seen: seen.gradient(0) is None,
    )
    gradient_is_off = "Between -1 and 1 the incoming gradient passes unchanged, outside nothing does: {detail}"

    test("the gradient passes at -0.5, 0.25 and 0.5, not at -2 and 2")
    seen = observe(ste_sign, five.clone().requires_grad_())
    seen.gives_gradients(
        {0: incoming(seen) * torch.tensor([0.0, 1, 1, 1, 0])},
        not_connected,
        mistake(
            "The gradient is zero everywhere: that is the true derivative of a step, with which nothing would be "
            "learned. "
            "Replace it in backward.",
            when=lambda seen: not seen.gradient(0).any(),
        ),
        passes_everywhere,
        mistake(
            "The mask was used as the gradient: multiply the incoming gradient by it.",
            when=lambda seen: torch.equal(seen.gradient(0), (seen.args[0].abs() <= 1).float()),
        ),
        mistake(
            "The gradient that passes is multiplied by x: between -1 and 1 the surrogate is x itself, its slope is 1.",
            when=lambda seen: torch.allclose(
                seen.gradient(0), incoming(seen) * seen.args[0] * (seen.args[0].abs() <= 1)
            ),
        ),
        mistake(
            "You cut off the incoming gradient at -1 and 1. Whether it passes depends on x: save x, and test |x| < 1.",
            when=lambda seen: torch.allclose(seen.gradient(0), incoming(seen).clamp(-1, 1)),
        ),
        mistake(
            "That is the slope of tanh; use that of x itself, cut off at -1 and 1.",
            when=lambda seen: torch.allclose(seen.gradient(0), incoming(seen) * (1 - seen.args[0].tanh() ** 2)),
        ),
        because=gradient_is_off,
    )

    test("it passes at -0.99 and 0.99, not at -1.01 and 1.01")
    seen = observe(ste_sign, torch.tensor([-1.01, -0.99, 0.99, 1.01, -3], requires_grad=True))
    seen.gives_gradients(
        {0: incoming(seen) * torch.tensor([0.0, 1, 1, 0, 0])}, passes_everywhere, because=gradient_is_off
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("a thousand random numbers")
    many = torch.randn(1000, generator=torch.Generator().manual_seed(1)) * 1.5
    seen = observe(ste_sign, many.clone().requires_grad_())
    seen.returns(torch.where(many >= 0, 1.0, -1.0), because="The step must be +1 where x >= 0, and -1 where x < 0.")
    seen.gives_gradients({0: incoming(seen) * (many.abs() < 1)}, not_connected, because=gradient_is_off)
    ### END HIDDEN TESTS

# %% check="straight-through-sign" points=1
"""Special numbers, any shape and dtype; other gradients stay as they are; differentiable twice."""
with check("straight-through-sign") as test:
    keep_dtype = mistake("The dtype must be kept: {detail}", stage="dtype")
    x_changed = "x was changed in place."
    own_memory = "The result must have its own memory: {detail}"
    values_first = mistake("The step itself is not right yet: see the check above.", stage=("type", "shape", "value"))

    test("x is left as it is; the result has memory of its own, and the dtype of x")
    for dtype in (torch.float32, torch.float64):
        seen = observe(ste_sign, torch.tensor([-2.0, 0.5, 2.0], dtype=dtype))
        seen.leaves_arguments_alone(because=x_changed)
        seen.returns(torch.tensor([-1.0, 1, 1], dtype=dtype), keep_dtype, values_first)
        seen.owns_its_memory(because=own_memory)

    test("0 and -0 count as positive")
    seen = observe(ste_sign, torch.tensor([-1.5, -0.0, 0.0, 1.5]))
    seen.returns(
        torch.tensor([-1.0, 1, 1, 1]),
        mistake("torch.sign(0) is 0; here 0 counts as positive.", gives=torch.tensor([-1.0, 0, 0, 1])),
        mistake("0 counts as positive: the comparison must be >=.", gives=torch.tensor([-1.0, -1, -1, 1])),
        mistake(
            "-0 counts as positive, like 0: test x >= 0, not the sign bit.",
            gives=torch.tensor([-1.0, -1, 1, 1]),
        ),
        values_first,
    )

    def used_twice(ste_sign, x):
        """Compute `ste_sign(x) + x` for a leaf x, and `ste_sign(h) + h` for h = x * 2."""
        h = x * 2
        return torch.stack([ste_sign(x) + x, ste_sign(h) + h])

    test("ste_sign(x) + x: the gradient of x that is used directly is not masked")
    alone = torch.tensor([-3.0, 0.2, 1.7, -0.6], requires_grad=True)
    observe(ste_sign, alone).gives_gradients(
        {0: incoming_gradient(alone) * torch.tensor([0.0, 1, 0, 1])},
        because="The gradient of the step itself is not right yet: see the check above.",
    )
    some_x = torch.tensor([-3.0, 0.2, 1.7, -0.6], requires_grad=True)
    seen = observe_scenario(used_twice, ste_sign, some_x)
    of_x, of_h = incoming_gradient(torch.empty(2, 4))

    def both(passing_x, passing_h):
        """The gradient of x, where so much of it passes through the step of x and of h."""
        return of_x * (1 + torch.tensor(passing_x)) + 2 * of_h * (1 + torch.tensor(passing_h))

    right = both([0.0, 1, 0, 1], [0.0, 1, 0, 0])
    through_nowhere, through_all = both([0.0] * 4, [0.0] * 4), both([1.0] * 4, [1.0] * 4)
    seen.gives_gradients(
        {0: right},
        mistake(
            "The gradient of the step itself is not right yet: see the check above.",
            when=lambda seen: any(torch.allclose(seen.gradient(0), g) for g in (through_nowhere, through_all)),
        ),
        mistake(
            "x is also used directly, and that gradient was changed: there is a hook on x itself, or `backward` "
            "changes its incoming gradient in place, and other branches of the graph got the same tensor.",
            when=lambda seen: not torch.allclose(seen.gradient(0)[[0, 2]], right[[0, 2]]),
        ),
        because="The gradient of ste_sign(x) + x is not the sum of the two: {detail}",
    )

    ### BEGIN HIDDEN TESTS
    def shared(ste_sign, a, b):
        """Add `ste_sign(a)` to b: on the way back both get the same tensor as incoming gradient."""
        return b.exp() + ste_sign(a)

    def started_from(ste_sign, a, g):
        """Start the backward pass from g, then look at g again."""
        torch.autograd.grad(ste_sign(a), a, g)
        return g

    in_place = (
        "`backward` changed its incoming gradient in place: another branch of the graph received the same tensor "
        "and got a wrong gradient, silently."
    )
    test.hidden("two branches of a sum get the same incoming gradient")
    a = torch.tensor([-3.0, 0.2, 1.7, -0.4], requires_grad=True)
    b = torch.tensor([0.5, -1, 0.3, 0.1], requires_grad=True)
    of_b = (incoming_gradient(a) * b.exp()).detach()
    observe_scenario(shared, ste_sign, a, b).gives_gradients({1: of_b}, because=in_place)
    for dtype in (torch.float32, torch.bfloat16):
        some_x = torch.tensor([-3.0, 0.2, 1.7, -0.4], dtype=dtype, requires_grad=True)
        given = torch.tensor([3.0, -2, 5, 0.5], dtype=dtype)
        observe_scenario(started_from, ste_sign, some_x, given).returns(given, because=in_place)

    def reference(x):
        """The step, written with assignments."""
        step = torch.ones_like(x, requires_grad=False)
        step[x < 0] = -1
        step[x.isnan()] = torch.nan
        return step.detach()

    rounds = mistake(
        "The values must be exactly +1 and -1, and some of these are only close to it.",
        when=lambda seen: (seen.value - reference(seen.args[0])).abs().max() < 0.1,
    )
    zero = mistake(
        "Where x is 0 or -0 the result must be +1.", when=lambda seen: (seen.value[seen.args[0] == 0] != 1).any()
    )
    infinite = mistake(
        "Where x is infinite the result is nan: inf - inf is nan, and so is 0 * inf.",
        when=lambda seen: seen.value[seen.args[0].isinf()].isnan().any(),
    )
    nan_stays = mistake(
        "`nan` must stay nan (a comparison with nan is False).",
        when=lambda seen: seen.args[0].isnan().any() and not seen.value[seen.args[0].isnan()].isnan().all(),
    )
    many = torch.randn(10_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        test.hidden(f"exactly +1 and -1 for 10,000 random numbers, {dtype}")
        seen = observe(ste_sign, many.to(dtype))
        seen.returns(reference, keep_dtype, zero, rounds, rtol=0, atol=0)
        test.hidden(f"zeros, nan, infinities and the smallest numbers, {dtype}")
        tiny, inf = torch.finfo(dtype).smallest_normal, torch.inf
        seen = observe(ste_sign, torch.tensor([-0.0, 0.0, tiny, -tiny, inf, -inf, torch.nan, 1, -1], dtype=dtype))
        seen.returns(reference, keep_dtype, zero, infinite, nan_stays, rtol=0, atol=0)
        seen.leaves_arguments_alone(because=x_changed)
    for idea, some_x in [
        ("an empty x", torch.empty(0, 3)),
        ("a 0-d x", torch.tensor(-0.3)),
        ("a row that is expanded", torch.tensor([[-0.5, 0.0, 3.0]]).expand(2, 3)),
        ("a transposed x", many[:12].reshape(3, 4).t()),
    ]:
        test.hidden(idea)
        any_shape = mistake(f"x may be of any shape, here {idea}: {{detail}}", stage=("raised", "shape"))
        seen = observe(ste_sign, some_x)
        seen.returns(reference, keep_dtype, any_shape)
        seen.leaves_arguments_alone(because=x_changed)
        seen.owns_its_memory(because=own_memory)

    test.hidden("x on another device: the result is there too")
    seen = observe(ste_sign, torch.empty(2, 3, device="meta"))
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(2, 3, device="meta"),
            mistake("The result must be on the device of x: {detail}", stage=("raised", "device")),
        )

    test.hidden("the gradient in other shapes and dtypes")
    places = many[:1000] * 1.5
    for some_x in (places, places.reshape(20, 50).t(), torch.tensor(0.4), torch.empty(0, 2), places[:100].half()):
        some_x = some_x.masked_fill(some_x.abs() == 1, 0.5).requires_grad_()
        seen = observe(ste_sign, some_x)
        seen.gives_gradients(
            {0: incoming_gradient(some_x) * (some_x.abs() < 1)},
            because="Between -1 and 1 the incoming gradient passes unchanged, outside nothing does: {detail}",
        )
        seen.leaves_arguments_alone(because=x_changed)

    def changed_between(ste_sign, x, g):
        """Change x in place between forward and backward: what gradient comes, or which error?"""
        h = x * 1
        out = ste_sign(h)
        h.add_(7)
        try:
            return torch.autograd.grad(out, x, g)[0]
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            return g * (x.detach().abs() <= 1)

    test.hidden("x is changed in place between forward and backward")
    some_x = torch.tensor([-3.0, 0.2, 1.7, -0.6], requires_grad=True)
    given = torch.tensor([3.0, -2.0, 5.0, 0.5])
    observe_scenario(changed_between, ste_sign, some_x, given).returns(
        given * torch.tensor([0.0, 1, 0, 1]),
        mistake(
            "x was changed in place between forward and backward, and the gradient is that of the new x, without an "
            "error: store x itself with ctx.save_for_backward, neither x.data nor an attribute of ctx.",
            gives=torch.zeros(4),
        ),
    )

    def twice(ste_sign, x, g):
        """Differentiate `ste_sign(x)` for the incoming gradient g, then the gradient times x once more."""
        (first,) = torch.autograd.grad(ste_sign(x), x, g, create_graph=True)
        by_x, by_g = torch.autograd.grad((first * x).sum(), (x, g), materialize_grads=True)
        return {"first": first.detach(), "by x": by_x, "by g": by_g}

    test.hidden("differentiate twice: the gradient times x has the mask as its derivative")
    some_x = torch.tensor([-1.5, -0.7, 0.3, 0.9, 2.5], dtype=torch.float64, requires_grad=True)
    given = torch.tensor([2.0, -3, 5, 0.5, 7], dtype=torch.float64, requires_grad=True)
    passing = torch.tensor([0.0, 1, 1, 1, 0], dtype=torch.float64)
    observe_scenario(twice, ste_sign, some_x, given).returns(
        {
            "first": (given * passing).detach(),
            "by x": (given * passing).detach(),
            "by g": (some_x * passing).detach(),
        },
        mistake("Differentiating twice must work: {detail}", stage=("raised", "value")),
        rtol=1e-9,
        atol=1e-12,
    )
    ### END HIDDEN TESTS
