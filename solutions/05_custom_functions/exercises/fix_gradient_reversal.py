# %% [markdown]
# ### Exercise 5.7 · Three bugs in a gradient reversal layer
#
# fix · warm-up · 10 min · 2 points
#
# A gradient reversal layer passes its input on unchanged and reverses the gradient: the layers after it learn to do
# well, the layers before it learn to make that hard. This one has three bugs, and lacks a check that the contract asks
# for. Fix it.
#
# **Contract**
#
# - Forward: bit for bit the values of x, in the same dtype and shape; it may return a view or a copy.
# - Backward: `-lam` times the incoming gradient, up to rounding in its dtype, for any number `lam >= 0` in the range of
#   that dtype (0.3, 0, 1, …). For `lam = 0` it is zero, not None, wherever the incoming gradient is finite.
# - A negative `lam` raises ValueError; the default is 1.
# - Only uses of the *result* are reversed: if x is also used elsewhere, it gets its ordinary gradient from there.
# - The incoming gradient and x are never changed. x need not require grad. A second differentiation works.
#
# <details><summary>Hint 1</summary>
#
# One bug raises for lam = 0.5, one raises in backward, one raises nothing and spoils the gradient of a neighbour. Which
# is which?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# backward must return one value per argument of forward, and may not write into its own argument. The contract asks for
# one more thing that the code does not do at all.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The assertion allows too little, so remove it. backward should compute a new tensor, and also return a value for the
# argument that isn't a tensor. Test for a negative `lam` in `grad_reverse`, before the Function is applied.
#
# </details>


# %% answer="fix-gradient-reversal"
### BEGIN SOLUTION
class GradReverse(torch.autograd.Function):
    """The identity; backward multiplies the incoming gradient by -lam."""

    @staticmethod
    def forward(ctx, x: Tensor, lam: float) -> Tensor:
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * -ctx.lam, None


def grad_reverse(x: Tensor, lam: float = 1.0) -> Tensor:
    """x: (...) float, unchanged; its gradient is -lam times the incoming one, lam >= 0."""
    if lam < 0:
        raise ValueError(f"lam must not be negative, it is {lam}")
    return GradReverse.apply(x, lam)


### END SOLUTION
### BEGIN GIVEN
# class GradReverse(torch.autograd.Function):
#     """The identity; backward multiplies the incoming gradient by -lam."""
#
#     @staticmethod
#     def forward(ctx, x, lam):
#         assert isinstance(lam, int)
#         ctx.lam = lam
#         return x.view_as(x)
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         return grad_output.neg_().mul_(ctx.lam)
#
#
# def grad_reverse(x: Tensor, lam: float = 1) -> Tensor:
#     """x: (...) float, unchanged; its gradient is -lam times the incoming one, lam >= 0."""
#     raise NotImplementedError  # fix the code above and below, then delete this line
#     return GradReverse.apply(x, lam)
### END GIVEN

# %% helpers="fix-gradient-reversal"
scale = "The sign or the factor is wrong, the gradient is -lam times the incoming one: {detail}"
spoilt = (
    "The incoming gradient was modified in place, in `backward` or in a hook: another branch of the graph received the "
    "same tensor and got a wrong gradient, without an error."
)
only_tensors = mistake(
    "`save_for_backward` takes tensors only; lam is a number, so keep it as `ctx.lam`.",
    raises="save_for_backward can only save",
)
unchanged = mistake(
    "The gradient comes through unchanged: the code that should multiply it is never called, or its result is not "
    "returned. PyTorch calls the `backward` of an autograd.Function, not that of an nn.Module, and uses what a hook "
    "returns.",
    stage="gradient",
    when=lambda seen: (
        seen.kwargs.get("lam", seen.args[-1]) in (0.5, 2)
        and torch.equal(seen.gradient(0), incoming_gradient(seen.args[0]))
    ),
)


# %% check="fix-gradient-reversal" points=1
"""The identity in forward, -lam times the gradient in backward; other gradients stay as they are."""
with check("fix-gradient-reversal") as test:
    known = [
        only_tensors,
        unchanged,
        mistake("`lam` may be any number >= 0; the formula doesn't need an integer.", raises="^AssertionError"),
        mistake(
            "`backward` must return two values, one per argument of forward: None for lam.",
            raises="incorrect number of gradients",
        ),
        mistake("No gradient reaches x: the result is not connected to it.", raises="element 0 of tensors does not"),
        mistake(
            "No gradient reaches x: the result is not connected to it.",
            stage="gradient",
            when=lambda seen: seen.gradient(0) is None,
        ),
    ]
    identity = [
        mistake("Nothing came back: what apply gives must be returned.", when=lambda seen: seen.value is None),
        mistake("The forward must be the identity; only the gradient is scaled.", stage="value"),
    ]

    test("lam = 0.5: the result is x, its gradient -0.5 times the incoming one")
    x = torch.tensor([[0.1, -0.7, 1.3], [2.9, -3.1, 0.3]], requires_grad=True)
    seen = observe(grad_reverse, x, 0.5).expecting(*known)
    seen.returns(x.detach(), *identity)
    seen.gives_gradients({0: -0.5 * incoming_gradient(x)}, because=scale)
    seen.leaves_arguments_alone()

    test("lam = 2, an int, by name")
    seen = observe(grad_reverse, x, lam=2).expecting(*known)
    seen.returns(x.detach(), *identity)
    seen.gives_gradients({0: -2 * incoming_gradient(x)}, because=scale)

    def shared(grad_reverse, a, b):
        """Compute `b.exp() + grad_reverse(a, 0.5)`: on the way back both parts get the same tensor."""
        return b.exp() + grad_reverse(a, 0.5)

    test("exp(b) + grad_reverse(a, 0.5): the gradient of b is right")
    a, b = torch.tensor([1.5, -2.0, 0.7], requires_grad=True), torch.tensor([0.5, -1.0, 0.3], requires_grad=True)
    seen = observe_scenario(shared, grad_reverse, a, b).expecting(*known)
    of_b = (incoming_gradient(b) * b.exp()).detach()
    seen.gives_gradients(
        {0: -0.5 * incoming_gradient(a), 1: of_b},
        mistake(spoilt, when=lambda seen: not torch.allclose(seen.gradient(1), of_b)),
        because=scale,
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("a matrix of random numbers, lam = 0.3")
    x = torch.randn(20, 30, generator=torch.Generator().manual_seed(3), requires_grad=True)
    seen = observe(grad_reverse, x, 0.3).expecting(*known)
    seen.returns(x.detach(), *identity)
    seen.gives_gradients({0: -0.3 * incoming_gradient(x)}, because=scale)
    ### END HIDDEN TESTS

# %% check="fix-gradient-reversal" points=1
"""Bit for bit, the default, lam = 0 and below; other uses of x; differentiable twice."""
with check("fix-gradient-reversal") as test:
    known = [
        only_tensors,
        unchanged,
        mistake("`lam` may be any number >= 0; the formula doesn't need an integer.", raises="^AssertionError"),
        mistake(
            "`backward` must return two values, one per argument of forward: None for lam.",
            raises="incorrect number of gradients",
        ),
        mistake("`x` need not require grad: {detail}", raises="hook on a tensor that doesn't require grad"),
        mistake(
            "The gradient of lam = 0 is a tensor of zeros (not None, not an error).",
            stage="gradient",
            when=lambda seen: seen.gradient(0) is None and seen.args[1] == 0,
        ),
        mistake(
            "`lam` = 0 is allowed, only negative numbers are refused: {detail}.",
            raises="^ValueError",
            when=lambda seen: seen.args[1] == 0,
        ),
        mistake("No gradient reaches x: the result is not connected to it.", raises="element 0 of tensors does not"),
        mistake(
            "No gradient reaches x: the result is not connected to it.",
            stage="gradient",
            when=lambda seen: seen.gradient(0) is None,
        ),
    ]
    identity = [
        mistake("Nothing came back: what apply gives must be returned.", when=lambda seen: seen.value is None),
        mistake(
            "Where x is infinite the result is nan: inf - inf is nan, and so is 0 * inf.",
            when=lambda seen: seen.value[seen.args[0].isinf()].isnan().any(),
        ),
        mistake(
            "The forward must be the identity; only the gradient is scaled.",
            when=lambda seen: not torch.allclose(seen.value, seen.args[0], rtol=1e-2, atol=1e-2, equal_nan=True),
        ),
        mistake(
            "The forward is not bit for bit x: arithmetic like x * (-lam) + (1 + lam) * x.detach() rounds. ({detail})",
            stage="value",
        ),
    ]
    x = torch.tensor([[0.1, -0.7, 1.3], [2.9, -3.1, 0.3]], requires_grad=True)

    test("the result is bit for bit x")
    seen = observe(grad_reverse, x, 2).expecting(*known)
    seen.returns(x.detach(), *identity, rtol=0, atol=0)

    def one_negative_factor(seen):
        """Whether the gradient is some other multiple of the incoming one, with the sign turned."""
        factors = seen.gradient(0) / incoming_gradient(seen.args[0])
        return factors.std() < 1e-3 and (factors < 0).all()

    test("the default is lam = 1")
    seen = observe(grad_reverse, x).expecting(*known)
    seen.returns(x.detach(), *identity)
    seen.gives_gradients(
        {0: -incoming_gradient(x)},
        mistake(
            "The default of lam is wrong: the gradient of grad_reverse(x) is -1 times the incoming one.",
            when=one_negative_factor,
        ),
        because=scale,
    )

    test("lam = 0: the gradient is zero")
    seen = observe(grad_reverse, x, 0).expecting(*known)
    seen.returns(x.detach(), *identity)
    seen.gives_gradients({0: torch.zeros(2, 3)}, because="The gradient of lam = 0 is zero: {detail}")

    test("a negative lam is refused")
    observe(grad_reverse, x, -0.5).raises(ValueError, because="A negative lam must raise ValueError.")

    ### BEGIN HIDDEN TESTS
    def used_twice(grad_reverse, x, weight):
        """Compute `grad_reverse(x, 0.5) * weight + x` for a leaf x, and the like for a tensor in the graph."""
        h = x * 3
        return torch.stack([grad_reverse(x, 0.5) * weight + x, grad_reverse(h, 0.25) * weight + h])

    test.hidden("x is used a second time, directly: that gradient is not reversed")
    x = torch.tensor([1.5, -2.0, 0.7], requires_grad=True)
    weight = torch.tensor([3.0, 0.5, -2.0])
    seen = observe_scenario(used_twice, grad_reverse, x, weight).expecting(*known)
    with torch.no_grad():
        seen.returns(torch.stack([x * weight + x, 3 * x * weight + 3 * x]))
        first, second = incoming_gradient(torch.empty(2, 3))
        right = first * (1 - 0.5 * weight) + second * 3 * (1 - 0.25 * weight)
        second_lam = right + first * 0.25 * weight
        by_hook_on_x = -0.5 * (1 + weight) * (first - 0.75 * second)
    seen.gives_gradients(
        {0: right},
        mistake(
            "Of two calls with different lam, the first used the lam of the second in backward: store lam in ctx, "
            "not in the class or a global name.",
            when=lambda seen: torch.allclose(seen.gradient(0), second_lam),
        ),
        mistake(
            "x's other uses were also reversed: the hook is on x itself, not on the result.",
            when=lambda seen: torch.allclose(seen.gradient(0), by_hook_on_x),
        ),
        because=scale,
    )

    def started_from(grad_reverse, x, g):
        """Start the backward pass from g, then look at g again."""
        torch.autograd.grad(grad_reverse(x, 0.5), x, g)
        return g

    test.hidden("the incoming gradient stays as it is")
    given = torch.tensor([3.0, -2.0, 5.0])
    observe_scenario(started_from, grad_reverse, x, given).expecting(*known).returns(given, because=spoilt)

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        test.hidden(f"large, tiny and special numbers, {dtype}")
        most, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
        special = [most, -most, least, -least, 0.0, -0.0, torch.inf, -torch.inf, torch.nan, 0.1, 1 / 3, -1000.7]
        special = torch.tensor(special, dtype=dtype).requires_grad_()
        for lam in (0.1, 1e3):
            seen = observe(grad_reverse, special, lam).expecting(*known)
            seen.returns(special.detach(), *identity, rtol=0, atol=0)
            seen.that(
                torch.equal(seen.value.signbit()[:-4], special.signbit()[:-4]),
                "The forward is not bit for bit x: a zero has lost its sign.",
            )
            seen.gives_gradients({0: incoming_gradient(special) * -lam}, because=scale)

    test.hidden("lam = 0.0")
    seen = observe(grad_reverse, x, 0.0).expecting(*known)
    seen.returns(x.detach(), *identity, rtol=0, atol=0)
    seen.gives_gradients({0: torch.zeros(3)}, because="The gradient of lam = 0 is zero: {detail}")

    test.hidden("an x that does not require grad")
    seen = observe(grad_reverse, weight, 0.3).expecting(*known)
    seen.returns(weight, *identity, rtol=0, atol=0)
    seen.is_untracked(because="x does not require grad, and so the result must not: {detail}")
    seen.leaves_arguments_alone()

    def left_as_it_was(grad_reverse, x):
        """Call grad_reverse twice; is x still the tensor that it was, and does it differentiate as before?"""
        grad_reverse(x, 0.5)
        grad_reverse(x, 3.0).sum()
        (gradient,) = torch.autograd.grad((x * 2).sum(), x)
        return {"gradient": gradient, "requires_grad": x.requires_grad, "is leaf": x.is_leaf}

    test.hidden("x itself is left as it was")
    observe_scenario(left_as_it_was, grad_reverse, x).expecting(*known).returns(
        {"gradient": torch.full((3,), 2.0), "requires_grad": True, "is leaf": True},
        because="x's other uses were also reversed: the hook (or the change) is on x itself, not on the result.",
    )

    for idea, some_x in [
        ("a 0-d x", torch.tensor(0.3)),
        ("an empty x", torch.empty(0, 2)),
        ("a transposed x", torch.arange(6.0).reshape(2, 3).t()),
    ]:
        test.hidden(idea)
        seen = observe(grad_reverse, some_x.clone().requires_grad_(), 0.3).expecting(*known)
        seen.returns(some_x, *identity, rtol=0, atol=0)
        seen.gives_gradients({0: incoming_gradient(some_x) * -0.3}, because=scale)

    test.hidden("float64: -lam times the gradient to all digits")
    some_x = torch.tensor([1.0, -2.5, 1 / 3], dtype=torch.float64, requires_grad=True)
    for lam in (0.3, 0.1):
        observe(grad_reverse, some_x, lam).expecting(*known).gives_gradients(
            {0: incoming_gradient(some_x) * -lam},
            mistake(
                "The gradient has only the digits of float32: torch.tensor(lam) rounds lam to float32. Keep lam as the "
                "Python number that it is.",
                when=lambda seen: torch.allclose(
                    seen.gradient(0), incoming_gradient(seen.args[0]) * -seen.args[1], rtol=1e-6
                ),
            ),
            because=scale,
            rtol=1e-12,
            atol=0,
        )

    test.hidden("a negative lam is refused")
    for lam in (-0.5, -1):
        for some_x in (x, weight):
            observe(grad_reverse, some_x, lam).raises(ValueError, because="A negative lam must raise ValueError.")

    def twice(grad_reverse, x, g, lam):
        """The gradient of (reverse(x) ** 2 * g).sum(), and the gradients of that one."""
        (first,) = torch.autograd.grad((grad_reverse(x, lam) ** 2 * g).sum(), x, create_graph=True)
        by_x, by_g = torch.autograd.grad(first.sum(), (x, g), materialize_grads=True)
        return {"first": first.detach(), "by x": by_x, "by g": by_g}

    test.hidden("the gradient of the gradient")
    g = torch.tensor([2.0, 0.5, -3.0], requires_grad=True)
    for lam in (0.5, 3):
        expected = {"first": -2 * lam * x * g, "by x": 2 * lam**2 * g, "by g": -2 * lam * x}
        observe_scenario(twice, grad_reverse, x, g, lam).expecting(*known).returns(
            {name: value.detach() for name, value in expected.items()},
            mistake("Differentiating twice must work: {detail}", stage=("raised", "type", "value")),
        )
    ### END HIDDEN TESTS
