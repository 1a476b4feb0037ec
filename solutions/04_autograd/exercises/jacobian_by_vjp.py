# %% [markdown]
# ### Exercise 4.4 · A Jacobian, row by row
#
# implement · solid · 15 min · 2 points
#
# One backward pass with a vector v gives v times the Jacobian. With the right vectors, you can build the whole matrix
# from such passes.
#
# **Contract**
#
# - `J[i..., j...]` is the derivative of `fn(x)[i...]` with respect to `x[j...]`. Its shape is the shape of the output,
#   followed by the shape of x, and its dtype is that of x. J has no graph.
# - Outputs and inputs may have any shape, including 0-d and empty. Whatever doesn't depend on x has derivative zero,
#   even if it is the whole output.
# - x may or may not require grad, and it may be the result of other operations. Afterwards, `x.requires_grad` and every
#   `.grad` (that of x, those of parameters inside fn) are what they were.
# - fn is called once. The caller has grad mode on.
#
# **Rule.** Build it by hand: `torch.autograd.functional` and the transforms of `torch.func` (jacrev, vjp, grad, …) are
# not allowed; `torch.autograd.grad`, `backward` and `torch.vmap` are.
#
# <details><summary>Hint 1</summary>
#
# backward on a result with several elements needs a vector v and computes v times J. Which v gives row i?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A vector with a single 1, in the shape of the output, gives the row of that output element. Compute `fn` once, on a
# tensor with x's data that requires grad, and call `torch.autograd.grad` once for each element. What must happen to the
# graph between these calls? And what do you get for an input that was not used?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Number the output elements from 0 on. For each number, make a flat vector of zeros with a 1 there, bring it into the
# shape of the output, and pass it to `torch.autograd.grad`, which must keep the graph and return zeros for an unused
# input (section 4.3 shows how). Collect the gradients as rows and give the result its final shape at the end. If the
# output doesn't require grad, every row is zero.
#
# </details>


# %% answer="jacobian-by-vjp"
def jacobian(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """All derivatives of fn at x: shape (*fn(x).shape, *x.shape), dtype of x, no graph."""
    ### BEGIN SOLUTION
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(x)
    rows = x.new_zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            v = v.view(y.shape)
            (row,) = torch.autograd.grad(y, x, v, retain_graph=True, allow_unused=True)
            if row is not None:
                rows[i] = row
    return rows.view(y.shape + x.shape)
    ### END SOLUTION


# %% helpers="jacobian-by-vjp"
class OtherShape(BaseException):
    """fn was called with a tensor of another shape than x has."""


def is_ready_made(module, name):
    """Whether a function belongs to torch.autograd.functional or is a transform of torch.func."""
    of_func = module == "torch._functorch.eager_transforms"
    of_func |= module == "torch._functorch.apis" and name in ("grad", "grad_and_value")
    return of_func or module == "torch.autograd.functional"


def by_hand(jacobian, fn, x):
    """Call it without the ready-made ones, and note what it did to x and how often it called fn."""
    calls, ready_made, dtypes = [], [], set()

    def note(module, name):
        """Note one call."""
        if is_ready_made(module, name):
            ready_made.append(name)

    def counted(v):
        calls.append(type(v).__name__)
        dtypes.update({str(v.dtype)} if isinstance(v, Tensor) else ())
        if isinstance(v, Tensor) and v.shape != x.shape:
            raise OtherShape(f"{tuple(v.shape)}, and x has {tuple(x.shape)}")
        return fn(v)

    before = [x.requires_grad, x.detach().clone(), None if x.grad is None else x.grad.clone()]
    try:
        with noting_calls(note) as unseen:
            result = jacobian(counted, x)
    except OtherShape as other:
        return {"by hand": not ready_made, "unseen": unseen, "other shape": str(other)}
    facts = {
        "by hand": not ready_made,
        "unseen": unseen,
        "calls": len(calls),
        "type": type(result).__name__,
        "recording": torch.is_grad_enabled(),
        "other dtype": ", ".join(dtypes - {str(x.dtype)}),
    }
    facts["flag"] = [before[0], x.requires_grad]
    with_grad = x.grad if x.is_leaf else None
    facts["x"] = [before[1], x.detach().clone()]
    facts["x.grad"] = [before[2], None if with_grad is None else with_grad.clone()]
    if isinstance(result, Tensor):
        facts |= {"tracked": result.requires_grad, "jacobian": result.detach().clone()}
    return facts


def judge_form(seen, expected, *mistakes, raised=()):
    """By hand, with x as it is, a tensor of the right shape, which is returned.

    mistakes: known by the tensor that came; raised: by the error.
    """
    seen.expecting(
        mistake(
            "The graph was freed after the first row: all but the last call need retain_graph=True.",
            raises="backward through the graph a second time",
        ),
        mistake(
            "On an output with several elements backward and grad need the vector (grad_outputs); by default they "
            "only know scalars.",
            raises="implicitly created only for scalar outputs",
        ),
        *raised,
    )
    seen.in_sight().that(
        seen["by hand"] and not seen["unseen"],
        "This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.",
        stage="rule",
    )
    other = seen.value.get("other shape")
    seen.that(not other, f"Your code called fn with a tensor of shape {other}. fn takes x as it is.", stage="shape")
    came = seen.value.get("jacobian")
    sparse = seen["type"] in ("Tensor", "Parameter")
    words = "Return an ordinary tensor, not a sparse one." if sparse else f"Return a tensor, not a {seen['type']}."
    seen.that(isinstance(came, Tensor), words, stage="type")
    shape = f"expected {tuple(expected.shape)}, got {tuple(came.shape)}."
    seen.that(
        came.shape == expected.shape,
        f"The Jacobian has the shape of the output followed by the shape of x: {shape}",
        *mistakes,
        stage="shape",
    )
    return came


# %% check="jacobian-by-vjp" points=1
"""Every row of J, in its place: the output's dimensions first, then those of x; by hand."""
with check("jacobian-by-vjp") as test:

    def judge(seen, expected, *mistakes, shown=True):
        """Shape and values."""
        came = judge_form(seen, expected, *mistakes)
        seen.that(
            torch.allclose(came.to(expected), expected, rtol=1e-5, atol=1e-6),
            f"The derivatives are wrong. Expected {expected.tolist()}, got {came.tolist()}."
            if shown
            else "The derivatives are wrong.",
            *mistakes,
        )

    def looks(wrong):
        """Whether the Jacobian that came has these values, in whatever shape."""
        return lambda seen: (
            seen["jacobian"].numel() == len(wrong)
            and torch.allclose(seen["jacobian"].double().flatten(), torch.tensor(wrong).double())
        )

    def two_of_three(jacobian):
        """The Jacobian of a function from three numbers to two."""
        return by_hand(
            jacobian, lambda v: torch.stack([v[0] * v[1], v[2] ** 2 + 3 * v[0]]), torch.tensor([2.0, 5.0, 7.0])
        )

    test("three inputs, two outputs: x0 * x1 and x2 ** 2 + 3 * x0, at 2, 5, 7")
    summed = "You differentiated the sum of the outputs: one row in place of one row per output."
    judge(
        observe_scenario(two_of_three, jacobian),
        torch.tensor([[5.0, 2.0, 0.0], [3.0, 0.0, 14.0]]),
        mistake(
            "Rows contain the sum of all rows before: .grad accumulates. Use torch.autograd.grad, or clear .grad "
            "between rows.",
            when=looks([5.0, 2, 0, 8, 2, 14]),
        ),
        mistake(
            "Rows and columns are exchanged: output dimensions come first, then those of x.",
            when=looks([5.0, 3, 2, 0, 0, 14]),
        ),
        mistake(summed, when=looks([8.0, 2, 14])),
        mistake(summed, when=looks([8.0, 2, 14, 8, 2, 14])),
    )

    def transposed(jacobian):
        """The Jacobian of a function that turns (2, 3) into (3, 2), each element times 10."""
        return by_hand(jacobian, lambda v: v.t() * 10, torch.arange(6.0).reshape(2, 3))

    test("(2, 3) to (3, 2)")
    times_ten = torch.zeros(3, 2, 2, 3)
    for i in range(2):
        for j in range(3):
            times_ten[j, i, i, j] = 10
    judge(observe_scenario(transposed, jacobian), times_ten, shown=False)

    ### BEGIN HIDDEN TESTS
    def products(jacobian):
        """The Jacobian of a function from (2,) to (2, 2), by products and sums."""
        return by_hand(jacobian, lambda v: (v[:, None] * v).cumsum(0), torch.tensor([1.5, -2.0]))

    test.hidden("(2,) to (2, 2) by products and sums")
    judge(
        observe_scenario(products, jacobian),
        torch.tensor([[[3.0, 0.0], [-2.0, 1.5]], [[1.0, 1.5], [-2.0, -2.5]]]),
        shown=False,
    )
    ### END HIDDEN TESTS

# %% check="jacobian-by-vjp" points=1
"""Any shapes and dtypes, outputs without x; nothing else is touched; fn is called once."""
with check("jacobian-by-vjp") as test:
    independent = mistake(
        "An output that does not use x has derivative zero: allow it (allow_unused), and replace None by "
        "zeros ({detail}).",
        raises="not have been used|does not require grad and does not have a grad_fn|NoneType(?!.*callable)",
    )

    def judge(seen, expected, idea="these", shown=False):
        """The values first, then what the call left behind."""
        any_shape = mistake(f"Outputs and inputs may have any shape, here {idea}: {{detail}}.", raises=".")
        came = judge_form(seen, expected, raised=[independent, any_shape])
        seen.that(
            came.dtype == expected.dtype,
            f"The Jacobian has the dtype of x: expected {expected.dtype}, got {came.dtype}.",
            stage="dtype",
        )
        seen.that(
            torch.allclose(came, expected, rtol=1e-5, atol=1e-6),
            f"The derivatives are wrong. Expected {expected.tolist()}, got {came.tolist()}."
            if shown
            else f"The derivatives are wrong for {idea}.",
            mistake(
                "For the identity your rows are all 0: there grad returns the very vector v that you pass in. If you "
                "overwrite v for the next row, the rows that you have change with it. Make a new v for each row, or "
                "clone the row.",
                when=lambda seen: "itself" in seen.args and not seen["jacobian"].any(),
            ),
        )
        seen.that(
            not seen["other dtype"],
            f"Your code called fn with a tensor of {seen['other dtype']}, and x has {expected.dtype}. fn takes x as it "
            "is: a layer with weights in the dtype of x would raise.",
            stage="dtype",
        )
        seen.that(not seen["tracked"], "The result must not carry a graph: it requires grad.", stage="gradient")
        seen.that(seen["flag"][0] == seen["flag"][1], "x.requires_grad was changed.", stage="arguments")
        seen.that(torch.equal(*seen["x"]), "The values of x were changed.", stage="arguments")
        old, new = seen["x.grad"]
        same = new is old if old is None or new is None else torch.equal(old, new)
        seen.that(
            same,
            "The .grad of x was changed: backward fills every leaf it reaches. "
            "torch.autograd.grad returns the gradient and touches nothing.",
            stage="arguments",
        )
        seen.that(seen["calls"] == 1, f"Your code called fn {seen['calls']} times; one call is enough.", stage="rule")
        seen.that(seen["recording"], "Gradient recording was switched off and not on again.", stage="rule")

    def to_one_number(jacobian):
        """The Jacobian of a function from (3,) to a 0-d output."""
        return by_hand(jacobian, lambda v: (v * v).sum(), torch.tensor([1.0, 2, 3], dtype=torch.float64))

    test("three inputs to one number, in float64")
    judge(
        observe_scenario(to_one_number, jacobian),
        torch.tensor([2.0, 4, 6]).double(),
        "an output without dimensions",
        shown=True,
    )

    def unused(jacobian, kind):
        """The Jacobian where one output element is made without x; all of them; all, but with a parameter."""
        p = torch.tensor([3.0, 4], dtype=torch.float64, requires_grad=True)
        functions = {
            "one element": lambda v: torch.stack([v[0] * v[1], p[0], v[1] ** 2]),
            "no graph": lambda v: torch.tensor([1.0, 2, 3], dtype=torch.float64),
            "another graph": lambda v: p * p,
        }
        return by_hand(jacobian, functions[kind], torch.tensor([2.0, 5], dtype=torch.float64))

    test("an output element, or a whole output, that does not depend on x")
    judge(
        observe_scenario(unused, jacobian, "one element"),
        torch.tensor([[5.0, 2], [0, 0], [0, 10]]).double(),
        shown=True,
    )
    judge(observe_scenario(unused, jacobian, "another graph"), torch.zeros(2, 2).double(), shown=True)
    judge(observe_scenario(unused, jacobian, "no graph"), torch.zeros(3, 2).double(), shown=True)

    ### BEGIN HIDDEN TESTS
    def with_gradients(jacobian, kind):
        """A parameter inside fn, and x, have gradients already; or x is the result of other operations."""
        p = torch.tensor([[1.0, 2, 3], [4, 5, 6]], requires_grad=True)
        base = torch.tensor([0.5, 1.5, -1], requires_grad=True)
        p.grad = torch.full((2, 3), 7.0)
        x = base * 2 if kind == "result" else base
        if kind == "leaf":
            base.grad = torch.tensor([8.0, 9, 10])
        old = None if base.grad is None else base.grad.clone()
        facts = by_hand(jacobian, lambda v: (p * v.exp()).sum(1), x)
        torch.set_grad_enabled(True)
        kept = torch.equal(p.grad, torch.full((2, 3), 7.0))
        kept &= base.grad is None if old is None else base.grad is not None and torch.equal(base.grad, old)
        facts |= {"kept": kept, "flags": [p.requires_grad, base.requires_grad], "usable": True}
        if kind == "result":
            try:
                x.exp().sum().backward()
            except RuntimeError:
                facts["usable"] = False
        return facts

    rows = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    for idea, kind, place in [
        ("a parameter inside fn and x have gradients already", "leaf", [0.5, 1.5, -1.0]),
        ("x is the result of other operations", "result", [1.0, 3.0, -2.0]),
    ]:
        test.hidden(idea)
        seen = observe_scenario(with_gradients, jacobian, kind)
        judge(seen, rows * torch.tensor(place).exp())
        seen.that(
            seen["kept"],
            "The .grad of a parameter inside fn, or of x, was changed: backward fills every leaf it reaches. "
            "torch.autograd.grad returns the gradient and touches nothing.",
            stage="arguments",
        )
        seen.that(seen["flags"] == [True, True], "Somebody's requires_grad was changed.", stage="arguments")
        seen.that(seen["usable"], "The graph that leads to x was freed: x can't be used any more.", stage="arguments")

    def shaped(v, name):
        """Functions with inputs and outputs of many shapes."""
        if name in ("itself", "0-d"):
            return v
        if name == "a copy":
            copy = v.clone()
            copy[0] *= 3
            return copy.mul_(copy.detach() + v)
        if name == "nothing":
            return v[:0].exp()
        if name == "wider":
            return v.double() * 3
        if name == "rows":
            return torch.stack([v, v * v, v.sin()])
        return (v[..., None] * v).cumsum(0)

    def shaped_call(jacobian, name, x):
        return by_hand(jacobian, lambda v: shaped(v, name), x)

    some = torch.tensor([[0.5, 1.5, -1.0], [2.0, 0.25, 3.0]])
    for idea, name, x in [
        ("the identity", "itself", torch.tensor([1.0, 2, 3])),
        ("an output and an x without dimensions", "0-d", torch.tensor(2.0)),
        ("an empty input", "rows", torch.empty(0, dtype=torch.float64)),
        ("an empty output", "nothing", torch.tensor([1.0, 2, 3], dtype=torch.float64)),
        ("a 0-d input, three outputs", "rows", torch.tensor(2.0)),
        ("a function that works in place on a copy", "a copy", torch.tensor([1.0, 2, 3])),
        ("(2, 3) to (2, 3, 3) by products and sums", "products", torch.tensor([1.5, -2.0])),
        ("float64", "rows", some.double()),
        ("float32 in, float64 out", "wider", torch.tensor([1.0, 2])),
        ("a view, not contiguous", "rows", some.t()[1:]),
    ]:
        test.hidden(idea)
        expected = torch.zeros(shaped(x, name).shape + x.shape, dtype=x.dtype)
        if expected.numel():
            expected = torch.autograd.functional.jacobian(lambda v, name=name: shaped(v, name), x)
        judge(observe_scenario(shaped_call, jacobian, name, x), expected, idea)
    ### END HIDDEN TESTS
