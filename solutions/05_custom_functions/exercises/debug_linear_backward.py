# %% [markdown]
# ### Exercise 5.2 · returned an invalid gradient at index 1
#
# debug · solid · 15 min · 2 points
#
# A colleague has written a linear layer as a Function:
#
#     LinearFn.apply(x, w, b).sum().backward()          # x: (5, 4), w: (3, 4), b: (3,)
#
#     RuntimeError: Function LinearFnBackward returned an invalid gradient at index 1 -
#     got [4, 3] but expected shape compatible with [3, 4]
#
# With a square weight there is no error at all, and the layer learns nonsense. Find out why, and fix what else the
# contract asks for.
#
# **Contract**
#
# - `LinearFn.apply(x, weight, bias)` equals `F.linear`. x has the shape (…, n_in), with any number of leading
#   dimensions, including none. The bias may be left out or None: `apply(x, w)`, `apply(x, w, None)`.
# - LinearFn stays an `autograd.Function` with its own backward. The gradients of x, weight and bias pass gradcheck and
#   gradgradcheck.
# - A gradient that nobody needs is not computed: with a frozen weight, backward runs no product for the weight; with a
#   frozen x, none for x; with a frozen bias, no sum. (The check records these operations.)
# - If x or weight is changed in place between forward and backward, backward raises if a gradient depends on the
#   changed tensor, as with built-in operations. The incoming gradient is never changed.
#
# <details><summary>Hint 1</summary>
#
# Which shape must a gradient have, and why does a square weight hide the mistake? And what is `.t()` of a tensor with
# three dimensions?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Everything but the last dimension is "batch": flatten it for the weight gradient. Every row's g belongs to the bias
# (autograd itself sums a gradient over broadcast dimensions, but say what you mean). `ctx.needs_input_grad` says which
# of the three gradients are needed; it has as many entries as `apply` got arguments.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Flatten g and x to matrices, one row per sample. The weight's gradient is a product of the two that has the shape
# (n_out, n_in) of the weight, the bias gets the sum over the rows, and the gradient of x needs no flattening. Return
# None for each gradient that isn't needed. The entry for the bias may be missing from `ctx.needs_input_grad`, so unpack
# it in a way that works for two and for three arguments; you may return a third value that is None in any case.
#
# </details>


# %% answer="debug-linear-backward"
### BEGIN SOLUTION
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias.

    x: (..., n_in), weight: (n_out, n_in), bias: (n_out,) or None; returns (..., n_out).
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = x @ weight.t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, *needs_bias = ctx.needs_input_grad
        rows = g.reshape(-1, g.shape[-1])
        grad_x = g @ weight if needs_x else None
        grad_weight = rows.t() @ x.reshape(-1, x.shape[-1]) if needs_weight else None
        grad_bias = rows.sum(0) if any(needs_bias) else None
        return grad_x, grad_weight, grad_bias


### END SOLUTION
### BEGIN GIVEN
# class LinearFn(torch.autograd.Function):
#     """x @ weight.T + bias.
#
#     x: (..., n_in), weight: (n_out, n_in), bias: (n_out,) or None; returns (..., n_out).
#     """
#
#     @staticmethod
#     def forward(ctx, x, weight, bias=None):
#         raise NotImplementedError  # fix the code below, then delete this line
#         ctx.save_for_backward(x, weight)
#         out = x @ weight.t()
#         return out if bias is None else out + bias
#
#     @staticmethod
#     def backward(ctx, g):
#         x, weight = ctx.saved_tensors
#         return g @ weight, x.t() @ g, g
### END GIVEN


# %% helpers="debug-linear-backward"
def applied(LinearFn, x, weight, bias):
    """Call `LinearFn.apply` with x, weight and bias, then run the backward pass."""
    return LinearFn.apply(x, weight, bias)


def numbers(*size, start=0):
    """A float64 tensor without zeros, equal values or symmetry, that requires grad."""
    k = torch.arange(start, start + torch.Size(size).numel(), dtype=torch.float64)
    return ((k * 29 % 67 - 30.5) / 20).reshape(size).requires_grad_()


def by_autograd(*inputs):
    """The value of F.linear, and its gradients for the incoming gradient of an observed backward pass."""
    out = F.linear(*inputs)
    tracked = {place: t for place, t in enumerate(inputs) if t is not None and t.requires_grad}
    grads = torch.autograd.grad(out, list(tracked.values()), incoming_gradient(out))
    return out.detach(), dict(zip(tracked, grads, strict=True))


def like_linear(seen, *inputs, **tolerance):
    """Judge value and gradients."""
    value, grads = by_autograd(*inputs)
    seen.returns(value, because="The forward differs from F.linear: {detail}", **tolerance)
    seen.gives_gradients(
        grads,
        mistake(
            "Your backward multiplies by the transposed weight: with out = x Wᵀ the gradient of x is g W.",
            when=lambda seen: torch.allclose(seen.gradient(0), incoming_gradient(value) @ inputs[1].T),
        ),
        because="The gradients differ from those of F.linear: {detail}",
        **tolerance,
    )


transposed = mistake(
    "The weight gradient is transposed: its shape must be (n_out, n_in). With a square weight nothing raises "
    "and the numbers are wrong.",
    raises="invalid gradient at index 1",
)
returned = mistake(
    "`backward` must return one value per argument passed to apply (three when a bias is given).",
    raises="incorrect number of gradients",
)


def node(LinearFn, x, weight, bias):
    """Call `LinearFn.apply` and ask the result for its `grad_fn`."""
    return {
        "function": issubclass(LinearFn, torch.autograd.Function),
        "own node": type(LinearFn.apply(x, weight, bias).grad_fn).__name__ == f"{LinearFn.__name__}Backward",
    }


# %% check="debug-linear-backward" points=1
"""Value and gradients as in F.linear, for a matrix, a square weight and a batch of sequences."""
with check("debug-linear-backward") as test:
    of_square = mistake(
        "The weight gradient is transposed: its shape must be (n_out, n_in). With a square weight nothing raises "
        "and the numbers are wrong.",
        when=lambda seen: torch.allclose(seen.gradient(1).T, by_autograd(*seen.args[1:])[1][1]),
    )
    no_apply = mistake(
        "LinearFn must stay a class with apply, an autograd.Function: {detail}.",
        raises="has no attribute 'apply'",
    )

    test("x (5, 4), weight (3, 4), bias (3,)")
    inputs = numbers(5, 4), numbers(3, 4, start=7), numbers(3, start=40)
    seen = observe_scenario(applied, LinearFn, *inputs).expecting(transposed, returned, no_apply)
    like_linear(seen, *inputs)
    seen.leaves_arguments_alone()

    test("a square weight (4, 4)")
    inputs = numbers(5, 4), numbers(4, 4, start=7), numbers(4, start=40)
    seen = observe_scenario(applied, LinearFn, *inputs).expecting(of_square)
    like_linear(seen, *inputs)

    test("a batch of sequences: x (2, 5, 4)")
    inputs = numbers(2, 5, 4), numbers(3, 4, start=7), numbers(3, start=40)
    matrices_only = mistake(
        "It works for matrices only: {detail}. Flatten the leading dimensions (g.t() has no meaning for three).",
        raises=r"t\(\) expects|<= 2 dimensions|must match the size|cannot be multiplied|invalid gradient|2D|matri",
    )
    seen = observe_scenario(applied, LinearFn, *inputs).expecting(matrices_only)
    like_linear(seen, *inputs)

    test("LinearFn is a Function, and its own backward is used")
    observe_scenario(node, LinearFn, *inputs).returns(
        {"function": True, "own node": True},
        because="LinearFn must stay a Function whose apply leads to its own backward: {detail}",
    )

    ### BEGIN HIDDEN TESTS
    for idea, x_size, out in [
        ("four leading dimensions", (2, 1, 3, 2, 4), 3),
        ("one output", (5, 4), 1),
        ("a square weight, a batch of square matrices", (2, 4, 4), 4),
    ]:
        inputs = numbers(*x_size), numbers(out, x_size[-1], start=7), numbers(out, start=40)
        test.hidden(idea)
        seen = observe_scenario(applied, LinearFn, *inputs).expecting(of_square, matrices_only)
        like_linear(seen, *inputs)
    ### END HIDDEN TESTS

# %% check="debug-linear-backward" points=1
"""With and without bias, any leading dimensions; differentiable twice; no needless product."""
with check("debug-linear-backward") as test:

    def applied_to_two(LinearFn, x, weight):
        """Call `LinearFn.apply` with x and weight only, then run the backward pass."""
        return LinearFn.apply(x, weight)

    def checked(LinearFn, x, weight, bias):
        """Run gradcheck on `LinearFn.apply`."""
        return gradcheck(LinearFn.apply, (x, weight, bias), raise_exception=False)

    third = mistake(
        "`apply(x, w)` got two arguments: a third value that backward returns must be None.",
        raises="expected 2, got 3",
    )
    optional = mistake("The bias may be left out or None: {detail}", raises=".", stage=("raised", "gradient"))

    test("apply(x, w) and apply(x, w, None)")
    inputs = numbers(5, 4), numbers(3, 4, start=7)
    seen = observe_scenario(applied_to_two, LinearFn, *inputs).expecting(transposed, third, returned, optional)
    like_linear(seen, *inputs)
    seen = observe_scenario(applied, LinearFn, *inputs, None).expecting(transposed, third, returned, optional)
    like_linear(seen, *inputs, None)

    torch.manual_seed(2)
    x, weight = torch.randn(5, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)

    test("LinearFn is a Function, and its own backward is used (this must also hold here)")
    observe_scenario(node, LinearFn, *inputs, None).returns(
        {"function": True, "own node": True},
        because="LinearFn must stay a Function whose apply leads to its own backward: {detail}",
    )

    test("gradcheck for x (3, 2) and a square weight (2, 2)")
    trio = [t.clone().requires_grad_() for t in (x[:3, :2], weight[:2, :2], bias[:2])]
    seen = observe_scenario(checked, LinearFn, *trio)
    seen.returns(True, because="`gradcheck` fails: the gradients are not those of the forward.")

    ### BEGIN HIDDEN TESTS
    def twice(LinearFn, x, weight, bias, g):
        """Differentiate `LinearFn.apply` for the incoming gradient g, then differentiate these gradients once more."""
        inputs = (x, weight, bias)
        firsts = torch.autograd.grad(LinearFn.apply(*inputs), inputs, g, create_graph=True)
        total = sum((first.sin() * torch.arange(1.0, first.numel() + 1).reshape(first.shape)).sum() for first in firsts)
        return list(torch.autograd.grad(total, (*inputs, g), materialize_grads=True))

    class Plain:
        apply = staticmethod(F.linear)

    in_place = mistake("`backward` changes its incoming gradient in place.", raises="used in an in-place operation")
    again = mistake(
        "The second derivative is wrong or missing: {detail}. The backward must consist of differentiable operations "
        "on x and weight themselves, saved as they are: x.data, x.detach() and a copy that contiguous() has made in "
        "forward aren't connected to them.",
        stage=("raised", "type", "value"),
    )
    for idea, some_x, some_weight in [
        ("a matrix", x[:2], weight),
        ("an x with three dimensions", x[:4].reshape(2, 2, 4), weight),
        ("x transposed", x[:2].t().contiguous().t(), weight),
        ("weight transposed", x[:2], weight.t().contiguous().t()),
    ]:
        test.hidden(f"the second derivatives: {idea}")
        trio = [t.clone().requires_grad_() for t in (some_x, some_weight, bias)]
        seen = observe_scenario(applied, LinearFn, *trio)
        like_linear(seen.expecting(mistake("The first derivative already fails: {detail}", raises=".")), *trio)
        g = torch.randn(*some_x.shape[:-1], 3, dtype=torch.float64)
        four = [t.clone().requires_grad_() for t in (some_x, some_weight, bias, g)]
        seen = observe_scenario(twice, LinearFn, *four)
        seen.returns(twice(Plain, *four), in_place, again, rtol=1e-8, atol=1e-10)

    def checked_twice(LinearFn, x, weight, bias):
        """Run gradcheck and gradgradcheck on `LinearFn.apply`."""
        inputs = (x, weight, bias)
        return [check(LinearFn.apply, inputs, raise_exception=False) for check in (gradcheck, gradgradcheck)]

    test.hidden("gradcheck and gradgradcheck, for an x with three dimensions")
    trio = [t.clone().requires_grad_() for t in (x[:2, :2].reshape(2, 1, 2), weight[:1, :2], bias[:1])]
    observe_scenario(checked_twice, LinearFn, *trio).returns([True, True], again)

    products = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "matmul", "linear")

    def products_of(seen):
        """The backward's products that are as large as a gradient of x or weight, or as all outer products together."""
        ops = [op for op in seen.noted.ops if op["phase"] == "backward" and op["level"] == "aten"]
        named = [op for op in ops if op["name"] in products and op["elements"] in (12, 20, 60)]
        return named + [op for op in ops if op["name"] == "mul" and op["elements"] == 60]

    def sums_of(seen):
        """The backward's sums that are as large as the bias."""
        return [
            op for op in seen.noted.ops if op["phase"] == "backward" and op["name"] == "sum" and op["elements"] == 3
        ]

    for frozen, needed in (("weight",), 1), (("x",), 1), (("x", "weight"), 0), (("bias",), 2):
        test.hidden(f"frozen: {' and '.join(frozen)}")
        trio = [t.clone() for t in (x, weight, bias)]
        for name, tensor in zip(("x", "weight", "bias"), trio, strict=True):
            tensor.requires_grad_(name not in frozen)
        seen = observe_scenario(applied, LinearFn, *trio)
        out = F.linear(*trio)
        tracked = {place: t for place, t in enumerate(trio) if t.requires_grad}
        grads = torch.autograd.grad(out, list(tracked.values()), incoming_gradient(out))
        seen.gives_gradients(dict(zip(tracked, grads, strict=True)))
        count = len(products_of(seen))
        seen.that(
            count <= needed,
            f"You computed a product for a gradient that nobody needs: {count} products where {needed} would be "
            f"enough, with "
            f"{' and '.join(frozen)} frozen. Check ctx.needs_input_grad.",
            stage="rule",
        )
        seen.that(
            "bias" not in frozen or not sums_of(seen),
            "You computed the gradient of a frozen bias, which nobody needs. That there is a bias doesn't mean that it "
            "needs a gradient: check the third entry of ctx.needs_input_grad, where there is one.",
            stage="rule",
        )

    def changed_between(LinearFn, which, x, weight, bias):
        """Change x or weight in place between forward and backward; does backward raise?"""
        layer_in = {"x": x.clone(), "weight": weight.clone()}
        out = LinearFn.apply(layer_in["x"], layer_in["weight"], bias)
        with torch.no_grad():
            layer_in[which].mul_(2)
        try:
            torch.autograd.grad(out, weight if which == "x" else x, torch.ones_like(out))
        except RuntimeError as error:
            return str(error)
        return "nothing was raised"

    for which in ("x", "weight"):
        test.hidden(f"{which}.mul_(2) between forward and backward")
        trio = [t.clone().requires_grad_() for t in (x, weight, bias)]
        seen = observe_scenario(changed_between, LinearFn, which, *trio)
        seen.that(
            "modified by an inplace operation" in seen.value,
            f"An in-place change of {which} between forward and backward went unnoticed: store inputs with "
            "ctx.save_for_backward, not as ctx.x.",
        )

    single = mistake("A single vector (n_in,) must work: {detail}", raises=".", stage=("raised", "gradient"))
    for idea, x_size, out in [
        ("a single vector", (4,), 3),
        ("an empty batch", (0, 4), 3),
        ("an empty batch of sequences", (2, 0, 4), 3),
        ("one output, a batch of sequences", (2, 3, 4), 1),
        ("one row", (1, 4), 3),
        ("one input", (3, 1), 2),
    ]:
        inputs = numbers(*x_size), numbers(out, x_size[-1], start=7), numbers(out, start=40)
        known = single if len(x_size) == 1 else mistake(f"It must also work for {idea}: {{detail}}", raises=".")
        test.hidden(idea)
        seen = observe_scenario(applied, LinearFn, *inputs).expecting(known)
        like_linear(seen, *inputs)
        seen.leaves_arguments_alone()
        test.hidden(f"{idea}, no bias")
        seen = observe_scenario(applied_to_two, LinearFn, *inputs[:2]).expecting(known, optional)
        like_linear(seen, *inputs[:2])
        seen = observe_scenario(applied, LinearFn, *inputs[:2], None).expecting(known, optional)
        like_linear(seen, *inputs[:2], None)

    test.hidden("a bias whose gradient alone is wanted")
    inputs = numbers(2, 5, 4).detach(), numbers(3, 4, start=7).detach(), numbers(3, start=40)
    like_linear(observe_scenario(applied, LinearFn, *inputs), *inputs)

    test.hidden("float32, x and weight transposed")
    inputs = [
        t.detach().float().mT.contiguous().mT.requires_grad_() for t in (numbers(2, 5, 4), numbers(3, 4, start=7))
    ]
    inputs.append(numbers(3, start=40).detach().float().requires_grad_())
    by_view = mistake(
        "x need not be contiguous, and view refuses it: use reshape. ({detail})", raises="view size is not"
    )
    like_linear(observe_scenario(applied, LinearFn, *inputs).expecting(by_view), *inputs, rtol=1e-4, atol=1e-5)

    def then_transposed(LinearFn, x, weight, bias):
        """Transpose the result of `LinearFn.apply`, then go back: the incoming gradient is not contiguous."""
        return LinearFn.apply(x, weight, bias).transpose(0, 1)

    test.hidden("the result is transposed: the incoming gradient is not contiguous")
    trio = numbers(2, 5, 4), numbers(3, 4, start=7), numbers(3, start=40)
    plain = F.linear(*trio).transpose(0, 1)
    of_trio = torch.autograd.grad(plain, trio, incoming_gradient(plain))
    seen = observe_scenario(then_transposed, LinearFn, *trio)
    seen.gives_gradients(
        dict(enumerate(of_trio)),
        mistake("g need not be contiguous, and view refuses it: use reshape. ({detail})", raises="view size is not"),
        because="The gradients differ from those of F.linear: {detail}",
    )

    def started_from(LinearFn, x, weight, bias, g):
        """Start the backward pass from g, then look at g again."""
        torch.autograd.grad(LinearFn.apply(x, weight, bias), (x, weight, bias), g)
        return g

    test.hidden("the incoming gradient stays as it is")
    given = numbers(2, 5, 3).detach()
    observe_scenario(started_from, LinearFn, *trio, given).returns(
        given,
        because="`backward` changed its incoming gradient in place: it may belong to another branch of the graph.",
    )

    test.hidden("nothing requires grad")
    inputs = [t.detach() for t in inputs]
    seen = observe_scenario(applied, LinearFn, *inputs)
    seen.returns(F.linear(*inputs), because="The forward differs from F.linear: {detail}", rtol=1e-4, atol=1e-5)
    seen.is_untracked()
    ### END HIDDEN TESTS
