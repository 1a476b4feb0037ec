# %% [markdown]
# ### Exercise 5.4 · SwiGLU that keeps two tensors, not three
#
# measure · solid · 18 min · 2 points
#
# The feed-forward block of most language models multiplies `silu(a) = a · sigmoid(a)` by a gate `b`. In every layer,
# `F.silu(a) * b` keeps three tensors for backward where two would be enough. Write the lean version.
#
# **Contract**
#
# - `swiglu(a, b)` has the values and gradients of `F.silu(a) * b`. a and b have equal shapes; unequal shapes raise
#   ValueError (no broadcasting).
# - For backward it keeps exactly the two inputs: `saved_tensors_hooks` see the storages of a and of b and no other, and
#   no other tensor is kept as an attribute of `ctx` or of the class.
# - gradcheck and gradgradcheck pass. If a or b is changed in place between forward and backward, backward raises.
# - The dtype is kept (including bfloat16). The arguments and the incoming gradient are never changed. a and b need not
#   require grad.
#
# <details><summary>Hint 1</summary>
#
# Measure first: which tensors does the plain formula save, and which of them can you recompute from the others in
# backward?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# silu keeps a, and the product keeps both of its factors, silu(a) and b. Which of the three can you compute from the
# other two? Write a Function that saves only those two, with save_for_backward, and computes the rest in backward with
# ordinary operations, so that backward can be differentiated.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Save a and b, and compute the sigmoid again in backward. The product rule gives both gradients: that of b is g times
# silu(a), and that of a is g times b times the derivative of silu, which `LeanSwish` in section 5.1 has worked out.
# Compare the shapes in `swiglu`, before the Function is applied.
#
# </details>


# %% answer="lean-swiglu"
### BEGIN SOLUTION
class LeanSwiGLU(torch.autograd.Function):
    """silu(a) * b, which keeps a and b only."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return F.silu(a) * b

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a)
        grad_a = g * b * (s * (1 + a * (1 - s))) if ctx.needs_input_grad[0] else None
        grad_b = g * (a * s) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    """silu(a) * b for a and b of one shape, (...) float; keeps only a and b for backward."""
    if a.shape != b.shape:
        raise ValueError(f"a and b have different shapes: {tuple(a.shape)} and {tuple(b.shape)}")
    return LeanSwiGLU.apply(a, b)


### END SOLUTION
### BEGIN GIVEN
# def swiglu(a: Tensor, b: Tensor) -> Tensor:
#     """silu(a) * b for a and b of one shape, (...) float; keeps only a and b for backward."""
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="lean-swiglu"
def kept(swiglu, a, b):
    """Call swiglu and count the bytes that it keeps for backward.

    All that saved-tensor hooks see, what of it is neither a's nor b's, and what hangs on the graph's nodes otherwise.
    """
    saved, held, beside = {}, [], {}
    own = {tensor.untyped_storage().data_ptr() for tensor in (a, b)}

    def note(tensor):
        held.append(tensor.detach())  # the storage without the graph, which would hold itself
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return held[-1]

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = swiglu(a, b)
    nodes, values = [out.grad_fn], []
    for node in nodes:
        nodes += [other for other, _ in node.next_functions if other is not None and other not in nodes]
        values += getattr(node, "__dict__", {}).values()
        values += vars(getattr(type(node), "_forward_cls", object)).values()
    for value in values:
        if isinstance(value, (list, tuple)):
            values += value
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, Tensor) and value.untyped_storage().data_ptr() not in saved:
            beside[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    foreign = sum(size for storage, size in saved.items() if storage not in own)
    return {"saved": sum(saved.values()), "foreign": foreign, "beside": sum(beside.values())}


# %% check="lean-swiglu" points=1
"""Values and gradients of silu(a) * b; only a and b are kept for backward."""
with check("lean-swiglu") as test:

    def plain(a, b):
        """The formula, with three tensors kept."""
        return a * torch.sigmoid(a) * b

    k = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    a, b = ((k * 7 % 12 - 5.25) / 3).requires_grad_(), ((k * 5 % 13 - 4.75) / 2).requires_grad_()

    test("value and gradients for two (3, 4) matrices")
    seen = observe(swiglu, a, b)
    seen.returns(plain(a, b).detach(), because="The value is not silu(a) * b: {detail}")
    of_a, of_b = torch.autograd.grad(plain(a, b), (a, b), incoming_gradient(a))
    seen.gives_gradients(
        {0: of_a, 1: of_b},
        mistake(
            "The gradients of a and b are exchanged.",
            when=lambda seen: torch.allclose(seen.gradient(0), of_b) and torch.allclose(seen.gradient(1), of_a),
        ),
        because="The gradients are not those of silu(a) * b: {detail}",
    )
    seen.leaves_arguments_alone()

    test("what is kept for backward: a and b, of 96 bytes each")
    seen = observe_scenario(kept, swiglu, a, b)
    saved, foreign, beside = seen["saved"], seen["foreign"], seen["beside"]
    recompute = (
        "where the two inputs would be enough: you also save an intermediate result (silu or sigmoid). Recompute it."
    )
    seen.that(saved <= 192, f"{saved} bytes are kept for backward {recompute}")
    seen.that(
        foreign == 0,
        f"Of the {saved} bytes that are kept for backward, {foreign} are neither a's nor b's: another tensor was made "
        "and saved (a copy, a conversion or an intermediate result). Save a and b themselves; they exist anyway.",
    )
    seen.that(
        saved == 192 and beside == 0,
        f"Autograd's saved tensors hold {'only ' * (saved < 192)}{saved} bytes: something was stored as an attribute "
        "(such as ctx.a = a). Autograd doesn't notice in-place changes of an attribute, and saved-tensor hooks don't "
        "see it: use save_for_backward.",
    )

    def checked(swiglu, a, b):
        """Run gradcheck on `swiglu`; what does it say?"""
        try:
            gradcheck(swiglu, (a, b))
        except RuntimeError as error:
            return str(error).partition("\n")[0]
        return ""

    test("gradcheck in float64")
    pair = [t.detach()[:2, :2].clone().requires_grad_() for t in (a, b)]
    seen = observe_scenario(checked, swiglu, *pair)
    seen.that(not seen.value, f"`gradcheck` fails: {seen.value}")

    ### BEGIN HIDDEN TESTS
    test.hidden("many random numbers")
    torch.manual_seed(4)
    pair = [torch.randn(40, 50, requires_grad=True), torch.randn(40, 50, requires_grad=True)]
    seen = observe(swiglu, *pair)
    seen.returns(plain, because="The value is not silu(a) * b: {detail}")
    seen.gives_gradients(plain, because="The gradients are not those of silu(a) * b: {detail}")

    test.hidden("what is kept by a (64, 32) pair of float32 inputs, and by 3-d ones")
    for size in ((64, 32), (2, 3, 5)):
        pair = [torch.ones(size, requires_grad=True), torch.full(size, 0.5, requires_grad=True)]
        observe_scenario(kept, swiglu, *pair).returns(
            {"saved": 2 * pair[0].nbytes, "foreign": 0, "beside": 0},
            because="Keep exactly a and b for backward: {detail}",
        )
    ### END HIDDEN TESTS

# %% check="lean-swiglu" points=1
"""Any shapes, large numbers and bfloat16; differentiable twice; changes in place are noticed."""
with check("lean-swiglu") as test:
    torch.manual_seed(4)
    a, b = torch.randn(3, 4, dtype=torch.float64, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    b = (b.detach() + 0.5).double().requires_grad_()

    test("only a and b are kept for backward (this must also hold here)")
    observe_scenario(kept, swiglu, a, b).returns(
        {"saved": a.nbytes + b.nbytes, "foreign": 0, "beside": 0},
        because="Keep exactly a and b for backward: {detail}",
    )

    test("the gradients of a and b (they must also be right here)")
    of_a, of_b = torch.autograd.grad(a * torch.sigmoid(a) * b, (a, b), incoming_gradient(a))
    observe(swiglu, a, b).gives_gradients(
        {0: of_a, 1: of_b}, because="The gradients are not those of silu(a) * b: {detail}"
    )

    test("unequal shapes, (3, 4) and (4,), are refused")
    wrong_kind = mistake("Unequal shapes must raise ValueError: {detail}", raises=".")
    observe(swiglu, a.detach(), b.detach()[0]).raises(
        ValueError, because="Unequal shapes must raise ValueError.", mistakes=[wrong_kind]
    )

    ### BEGIN HIDDEN TESTS
    def reference(a, b):
        return F.silu(a) * b

    torch.manual_seed(4)
    wide, gate = torch.randn(40, 50), torch.randn(40, 50)
    overflows = mistake(
        "`exp` overflows for large numbers: torch.sigmoid and F.silu are safe. {detail}",
        stage=("value", "gradient"),
        when=lambda seen: seen.args[0].numel() == 9,
    )
    by_view = mistake(
        "The inputs need not be contiguous, and view refuses such a tensor: use reshape. ({detail})",
        raises="view size is not",
    )
    extreme = torch.tensor([-1e4, -200.0, -100, -30, 30, 100, 200, 1e4, 0])
    for idea, some_a, some_b in [
        ("inputs that are not contiguous", wide[:6, ::5].t(), gate[::4][:10, 3:9]),
        (
            "permuted inputs with three dimensions",
            wide[:24].reshape(4, 6, 50).transpose(0, 1),
            gate[:24].reshape(6, 50, 4).mT,
        ),
        ("0-d inputs", torch.tensor(0.7), torch.tensor(-1.3)),
        ("empty inputs", torch.empty(0, 3), torch.empty(0, 3)),
        ("large numbers", extreme, torch.arange(1.0, 10)),
        ("large numbers, float64", extreme.double(), torch.arange(1.0, 10).double()),
    ]:
        test.hidden(idea)
        pair = [t.clone().requires_grad_() for t in (some_a, some_b)]
        seen = observe(swiglu, *pair).expecting(by_view)
        seen.returns(reference, overflows, because="The value is not silu(a) * b: {detail}")
        seen.gives_gradients(reference, overflows, because="The gradients are not those of silu(a) * b: {detail}")
        seen.leaves_arguments_alone()

    test.hidden("what is kept of inputs that are not contiguous")
    pair = [t[:3, :5].t().double().requires_grad_() for t in (wide, gate)]
    observe_scenario(kept, swiglu, *pair).returns(
        {"saved": 2 * pair[0].nbytes, "foreign": 0, "beside": 0},
        because="Of inputs that are not contiguous you keep copies, not a and b themselves. Autograd doesn't notice "
        "an in-place change of the originals.",
    )

    test.hidden("bfloat16")
    pair = [t[:5].bfloat16().requires_grad_() for t in (wide, gate)]
    seen = observe(swiglu, *pair)
    seen.returns(reference, mistake("The dtype must be kept: {detail}", stage="dtype"), rtol=3e-2, atol=1e-2)
    seen.gives_gradients(reference, rtol=3e-2, atol=2e-2)
    seen = observe_scenario(kept, swiglu, *pair)
    seen.that(
        seen["foreign"] == 0 and seen["beside"] == 0,
        "For bfloat16 you keep tensors other than a and b, such as float32 copies of them: they take more bytes, and "
        "autograd doesn't notice an in-place change of a or b. Save a and b themselves, and convert in backward.",
    )

    test.hidden("only one of the two requires grad")
    for place in (0, 1):
        pair = [wide[:3].clone(), gate[:3].clone()]
        pair[place].requires_grad_()
        seen = observe(swiglu, *pair)
        seen.returns(reference)
        seen.gives_gradients(reference)

    test.hidden("nothing requires grad")
    seen = observe(swiglu, wide, gate)
    seen.returns(reference)
    seen.is_untracked()
    seen.leaves_arguments_alone()

    test.hidden("unequal shapes are refused")
    for sizes in (((3, 4), (4,)), ((3, 4), (3, 1)), ((), (2,)), ((2, 6), (3, 4)), ((3,), (4,)), ((1, 3), (3,))):
        pair = [torch.ones(size) for size in sizes]
        observe(swiglu, *pair).raises(
            ValueError, because="Unequal shapes must raise ValueError.", mistakes=[wrong_kind]
        )

    def twice(function, a, b, g):
        """Differentiate swiglu for the incoming gradient g, then differentiate these gradients once more."""
        by_a, by_b = torch.autograd.grad(function(a, b), (a, b), g, create_graph=True)
        weights = torch.arange(1.0, a.numel() + 1, dtype=a.dtype).reshape(a.shape)
        total = (by_a * weights).sum() + (by_b * weights.sin()).sum()
        return list(torch.autograd.grad(total, (a, b, g), materialize_grads=True))

    in_place = mistake("The incoming gradient was changed in place.", raises="used in an in-place operation")
    once = mistake(
        "The second derivatives are 0 even for the incoming gradient: the gradients aren't connected to anything. "
        "`once_differentiable` does this, whatever backward computes, so leave it out.",
        when=lambda seen: not any(t.any() for t in seen.value),
    )
    again = mistake(
        "`gradgradcheck` fails: {detail}. The backward must compute from the saved *inputs* with differentiable "
        "operations; a saved intermediate is a constant to it. Save a and b themselves: a.data and a.detach() are "
        "tensors without a graph.",
        stage=("raised", "type", "value"),
    )
    test.hidden("the second derivatives")
    g = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    second = twice(reference, a, b, g)
    single = mistake(
        "For float64 the gradients have only the digits of float32: {detail}. Compute in the dtype of a and b.",
        when=lambda seen: seen.looks_like(second),
    )
    observe_scenario(twice, swiglu, a, b, g).returns(second, in_place, single, once, again, rtol=1e-8, atol=1e-10)

    test.hidden("the second derivatives for large numbers")
    large = torch.tensor([-1000.0, -100, -30, 30, 1000], dtype=torch.float64)
    trio = [t.clone().requires_grad_() for t in (large, large.sin(), large.cos())]
    observe_scenario(twice, swiglu, *trio).returns(
        twice(reference, *trio),
        mistake(
            "The second derivative is nan where a is a large negative number: exp(-a) is inf there, and the derivative "
            "of 1 / (1 + exp(-a)) divides inf by inf. torch.sigmoid is safe.",
            when=lambda seen: any(t.isnan().any() for t in seen.value),
        ),
        again,
        rtol=1e-8,
        atol=1e-10,
    )

    def checked_twice(swiglu, a, b):
        """Run gradcheck and gradgradcheck on `swiglu`."""
        return [check(swiglu, (a, b), raise_exception=False) for check in (gradcheck, gradgradcheck)]

    test.hidden("gradcheck and gradgradcheck")
    pair = [t.detach()[0, :2].clone().requires_grad_() for t in (a, b)]
    observe_scenario(checked_twice, swiglu, *pair).returns([True, True], again)

    def shared(swiglu, a, b, c):
        """Add swiglu of a and b to c: on the way back both get the same tensor as incoming gradient."""
        return c.exp() + swiglu(a, b)

    def started_from(swiglu, a, b, g):
        """Start the backward pass from g, then look at g again."""
        torch.autograd.grad(swiglu(a, b), (a, b), g)
        return g

    test.hidden("c.exp() + swiglu(a, b): the neighbour's gradient")
    changed = "The incoming gradient was changed in place."
    c = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    seen = observe_scenario(shared, swiglu, a, b, c)
    seen.gives_gradients({2: (incoming_gradient(c) * c.exp()).detach()}, because=changed)
    given = torch.arange(1.0, 13, dtype=torch.float64).reshape(3, 4)
    observe_scenario(started_from, swiglu, a, b, given).returns(given, because=changed)

    def changed_between(swiglu, which, a, b):
        """Multiply a or b in place between forward and backward; what does backward say?"""
        pair = {"a": a * 1, "b": b * 1}
        out = swiglu(pair["a"], pair["b"])
        pair[which].mul_(2)
        try:
            torch.autograd.grad(out.sum(), (a, b))
        except RuntimeError as error:
            return str(error)
        return "nothing was raised"

    for which in ("a", "b"):
        test.hidden(f"{which}.mul_(2) between forward and backward")
        seen = observe_scenario(changed_between, swiglu, which, a, b)
        seen.that(
            "modified by an inplace operation" in seen.value,
            "An in-place change between forward and backward went unnoticed and would give wrong gradients.",
        )
    ### END HIDDEN TESTS
