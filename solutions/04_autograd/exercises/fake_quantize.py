# %% [markdown]
# ### Exercise 4.6 · Round, and let the gradient through
#
# implement · solid · 15 min · 2 points
#
# If a model will run with 8-bit weights, it is best to train it as if it already had them. In forward, each weight is
# rounded to a grid of a few values; in backward, the rounding is ignored (*straight through*). `round` alone would stop
# all learning.
#
# **Contract**
#
# - Values: k · step, where k is `x / step` rounded to the nearest integer (halves go to the even integer, as in
#   `torch.round`) and limited to -limit … limit. An infinite x becomes ±limit · step, and nan stays nan.
# - Gradient: the incoming gradient where |x / step| < limit, and 0 where |x / step| > limit. (Much code in use compares
#   the rounded number, so that the gradient still passes half a step beyond the limit. Yours must not.) The gradient
#   doesn't depend on x, and can itself be differentiated with respect to the incoming gradient. If x doesn't require
#   grad, neither does the result.
# - x may have no dimensions or no elements, may be float16 or bfloat16, and is not changed. If step <= 0 or limit < 1,
#   raise ValueError.
# - You may compute `x / step` in the dtype of x or a wider one, and a value may differ from k · step by rounding in the
#   dtype of x, not by more. You may multiply the gradient by step and divide it again; where |x / step| equals limit,
#   and for nan, any gradient from 0 to the incoming one is fine. The dtype of x can represent limit · step (float16
#   ends at 65504).
#
# **Rule.** Use plain tensor operations and a cut: no `torch.autograd.Function`, no hook, none of torch's own
# `fake_quantize` functions. (Chapter 5 does such things with a Function.)
#
# <details><summary>Hint 1</summary>
#
# Write y = x + something. What must the something be so that y is the rounded number, and what must you do to it so
# that it doesn't count in the gradient?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Beyond the limit the gradient is 0, so x itself is not quite the right starting point. Which function is x inside the
# limits, and constant outside?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Start from the clamped x, whose gradient is already right, and add a correction: the difference between the quantized
# number and the clamped x. Cut the correction so that it counts only in the value. The clamp also makes an infinite x
# finite before you subtract anything.
#
# </details>


# %% answer="fake-quantize"
def fake_quantize(x: Tensor, step: float, limit: int) -> Tensor:
    """x on the grid of multiples of step, at most limit steps away from 0.

    x: (...) of any float dtype; returns a tensor of the same shape, dtype and device.
    The gradient passes within the limits.
    """
    ### BEGIN SOLUTION
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    on_grid = (x / step).round().clamp(-limit, limit) * step
    tracked = x.clamp(-limit * step, limit * step)  # slope 1 within the limits, 0 beyond
    return tracked + (on_grid - tracked).detach()
    ### END SOLUTION


# %% helpers="fake-quantize"
def passes_by_k(seen):
    """Whether the gradient passes where the rounded number lies within the limit."""
    x, step, limit = seen.args
    return torch.allclose(seen.gradient(0), incoming_gradient(x) * ((x / step).round().abs() <= limit))


nothing_arrives = mistake(
    "x gets no gradient: the whole result is cut off from it.",
    when=lambda seen: not seen.error_text and (not seen.noted.tracked or seen.gradient(0) is None),
)
beyond = mistake(
    "Your gradient also passes beyond the limit. There the result no longer depends on x, so its gradient is 0.",
    when=lambda seen: torch.equal(seen.gradient(0), incoming_gradient(seen.args[0])),
)
half_a_step = mistake(
    "Your gradient passes half a step beyond the limit: the rounded number was compared with it. Compare x / step.",
    when=passes_by_k,
)
off = "Within the limits the incoming gradient arrives unchanged, beyond them 0: {detail}."


# %% check="fake-quantize" points=1
"""Values on the grid, limited; the gradient passes within the limits and nowhere else."""
with check("fake-quantize") as test:
    test("step 0.5, limit 3: the values")
    x = torch.tensor([-4.0, -1.3, -0.2, 0.1, 0.4, 1.1, 1.4, 2.75])
    seen = observe(fake_quantize, x, 0.5, 3)
    seen.returns(
        torch.tensor([-1.5, -1.5, 0.0, 0.0, 0.5, 1.0, 1.5, 1.5]),
        mistake("These are the numbers k; the values are k * step.", gives=torch.tensor([-3.0, -3, 0, 0, 1, 2, 3, 3])),
        mistake("Beyond the limit the value is ±limit * step.", gives=torch.tensor([-4.0, -1.5, 0, 0, 0.5, 1, 1.5, 3])),
        mistake(
            "The limit counts steps: the values go up to limit * step.",
            gives=torch.tensor([-3.0, -1.5, 0, 0, 0.5, 1, 1.5, 2.5]),
        ),
        mistake(
            "The limit counts steps: the values go up to limit * step.",
            gives=torch.tensor([-3.0, -1.5, 0, 0, 0.5, 1, 1.5, 3]),
        ),
        mistake("Round to the nearest multiple, not down.", gives=torch.tensor([-1.5, -1.5, -0.5, 0, 0, 1, 1, 1.5])),
        mistake("Round to the nearest multiple, not towards 0.", gives=torch.tensor([-1.5, -1, 0, 0, 0, 1, 1, 1.5])),
    )
    seen.leaves_arguments_alone()

    test("step 0.5, limit 3: the gradient arrives at all but the first and the last number")
    seen = observe(fake_quantize, x.clone().requires_grad_(), 0.5, 3)
    inside = torch.tensor([False, True, True, True, True, True, True, False])

    def times_something(seen):
        """Whether all that arrives is the incoming gradient times one number."""
        factors = (seen.gradient(0) / incoming_gradient(seen.args[0]))[inside]
        return factors[0] != 0 and torch.allclose(factors, factors[0].expand(6))

    seen.gives_gradients(
        {0: incoming_gradient(x) * inside},
        nothing_arrives,
        mistake(
            "The gradient is 0 everywhere: round has slope 0, and what is added and subtracted again cancels unless "
            "one of the two is cut. The *value* must come from round, the *gradient* from x.",
            when=lambda seen: not seen.gradient(0).any(),
        ),
        beyond,
        mistake(
            "The gradient is multiplied by something: x must appear exactly once on the tracked side, and unscaled.",
            when=times_something,
        ),
        because=off,
    )

    def own_nodes(fake_quantize, x, step, limit):
        """Look at the nodes behind the result: which come from classes of Python, and has one got a hook?"""
        called, before = set(), sys.getprofile()
        sys.setprofile(lambda frame, event, arg: called.add(arg.__name__) if event == "c_call" else None)
        try:
            out = fake_quantize(x.requires_grad_(), step, limit)
        finally:
            sys.setprofile(before)
        found, waiting, known = [], [getattr(out, "grad_fn", None)], {None}
        while waiting:
            node = waiting.pop()
            if node not in known:
                known.add(node)
                found += [type(node).__name__] if isinstance(node, torch.autograd.function.BackwardCFunction) else []
                waiting += [following for following, _ in node.next_functions]
        return {"nodes": found, "hooks": sorted({"register_hook", "register_prehook"} & called)}

    test("plain operations and a cut")
    seen.avoided("register_hook", because="No hook here: it works with detach alone.")
    built_in = any("fake_quant" in name for name in seen.op_names())
    seen.that(not built_in, "That is torch's own fake_quantize: write it yourself.", stage="rule")
    own = observe_scenario(own_nodes, fake_quantize, x, 0.5, 3)
    own.that(not own["hooks"], "No hook here: it works with detach alone.", stage="rule")
    own.that(not own["nodes"], "No Function here: it works with detach alone.", stage="rule")

    ### BEGIN HIDDEN TESTS
    test.hidden("a hundred other numbers")
    x = torch.randn(100, generator=torch.Generator().manual_seed(2)) * 3
    k = (x / 0.75).round()
    seen = observe(fake_quantize, x.clone().requires_grad_(), 0.75, 4)
    seen.returns(k.clamp(-4, 4) * 0.75, because="The values are not those of the grid.", rtol=1e-5, atol=1e-6)
    passing = incoming_gradient(x) * ((x / 0.75).abs() < 4)
    seen.gives_gradients({0: passing}, nothing_arrives, beyond, half_a_step, because=off)
    ### END HIDDEN TESTS

# %% check="fake-quantize" points=1
"""Exact values in four dtypes, infinities and nan, any shape, a second derivative, refusals."""
with check("fake-quantize") as test:
    test("the numbers of the first check; x that doesn't require grad gives a result that doesn't")
    x = torch.tensor([-4.0, -1.3, -0.2, 0.1, 0.4, 1.1, 1.4, 2.75])
    on_grid = torch.tensor([-1.5, -1.5, 0.0, 0.0, 0.5, 1.0, 1.5, 1.5])
    seen = observe(fake_quantize, x.clone().requires_grad_(), 0.5, 3)
    seen.returns(on_grid, FIRST_CHECK_FIRST)
    seen.gives_gradients({0: incoming_gradient(x) * torch.tensor([0.0, 1, 1, 1, 1, 1, 1, 0])}, FIRST_CHECK_FIRST)
    seen = observe(fake_quantize, x, 0.5, 3)
    seen.returns(on_grid)
    seen.leaves_arguments_alone()
    seen.is_untracked(because="x doesn't require grad here, so the result must not.")

    test("no dimension, no element")
    any_shape = mistake("x may have no dimension or no element: {detail}.", stage=("raised", "type", "shape"))
    seen = observe(fake_quantize, torch.tensor(1.3, requires_grad=True), 0.5, 2)
    seen.returns(torch.tensor(1.0), any_shape)
    seen.gives_gradients({0: torch.tensor(0.0)}, any_shape, because=off)
    observe(fake_quantize, torch.empty(0, 3, requires_grad=True), 0.5, 2).returns(torch.empty(0, 3), any_shape)

    ### BEGIN HIDDEN TESTS
    test.hidden("halves go to the even neighbour")
    halves = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
    observe(fake_quantize, halves, 1.0, 3).returns(
        torch.tensor([-2.0, -2, 0, 0, 2, 2, 3]),
        because="Halves go to the even neighbour, as in torch.round: 0.5 to 0, 1.5 and 2.5 to 2.",
    )

    same_dtype = mistake("The dtype of x must be kept: {detail}.", stage="dtype")

    test.hidden("infinities and nan")
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.9])
    seen = observe(fake_quantize, special, 0.25, 6)
    seen.returns(
        torch.tensor([1.5, -1.5, torch.nan, 1.0]),
        mistake(
            "Here inf - inf or inf * 0 gave nan: clamp or select before you subtract or multiply.",
            when=lambda seen: seen.value[:2].isnan().any(),
        ),
        mistake("A nan must stay nan.", when=lambda seen: not seen.value[2].isnan()),
        because="An infinite x becomes ±limit * step, and nan stays nan.",
    )
    seen = observe(fake_quantize, special[[0, 1, 3]].requires_grad_(), 0.25, 6)
    seen.gives_gradients(
        {0: incoming_gradient(torch.empty(3)) * torch.tensor([0.0, 0, 1])},
        mistake(
            "Here inf - inf or inf * 0 gave nan: clamp or select before you subtract or multiply.",
            when=lambda seen: seen.gradient(0).isnan().any(),
        ),
        because="For an infinite x the gradient is 0.",
    )

    test.hidden("float16, and limit * step is 40000")
    seen = observe(fake_quantize, torch.tensor([39000.0, -50000.0, 12000.0], dtype=torch.float16), 10000.0, 4)
    seen.returns(
        torch.tensor([40000.0, -40000.0, 10000.0], dtype=torch.float16),
        same_dtype,
        mistake(
            "The result is infinite, although limit * step fits into the dtype. The sum of the quantized number and x "
            "does not: subtract before you add.",
            when=lambda seen: seen.value.isinf().any(),
        ),
    )

    test.hidden("a limit of 50000: k is a large number")
    x, k = torch.tensor([1.5, -1.9, 5.0, 400.0]), torch.tensor([150.0, -190.0, 500.0, 40000.0])
    observe(fake_quantize, x, 0.01, 50_000).returns(
        k * 0.01,
        same_dtype,
        because="A whole number of steps has wrapped around or was cut off, as in an integer dtype that is too small. "
        "limit may be any number, and the numbers can stay in the dtype of x.",
        rtol=1e-6,
        atol=0,
    )

    def digits_of_float32(seen, x, step, limit):
        """Whether float64 numbers are right to seven digits, and not to ten."""
        exact = (x.double() / step).round().clamp(-limit, limit) * step
        near, exactly = (torch.allclose(seen.value, exact.to(x.dtype), rtol=rtol, atol=0) for rtol in (1e-6, 1e-10))
        return x.dtype == torch.float64 and near and not exactly

    generator = torch.Generator().manual_seed(3)
    many = torch.randn(4000, generator=generator, dtype=torch.float64) * 2
    for dtype, step, limit in [
        (torch.float32, 0.1, 127),
        (torch.float64, 0.3, 15),
        (torch.float16, 0.3, 7),
        (torch.bfloat16, 0.7, 3),
    ]:
        test.hidden(f"the exact values of random numbers, {dtype}, step {step}")
        x = many.to(dtype)
        places = x.double() / step  # those near a half or a limit may go either way in low precision
        clear = ((places - places.floor() - 0.5).abs() > 0.1) & ((places.abs() - limit).abs() > 0.1)
        x = x[clear & (places.abs() < 1.3 * limit)][:1000]
        k = (x.double() / step).round().clamp(-limit, limit).to(dtype)
        seen = observe(fake_quantize, x.clone().requires_grad_(), step, limit)
        seen.returns(
            k * step,
            same_dtype,
            mistake(
                "The values have only the digits of float32, and x is float64: {detail}. Divide and round in the dtype "
                "of x.",
                when=lambda seen: digits_of_float32(seen, *seen.args),
            ),
            because="The values are not exactly those of the grid: what is added on the tracked side must cancel "
            "to the last digit.",
            rtol=torch.finfo(dtype).eps,
            atol=0,
        )
        passing = incoming_gradient(x) * (x.double().abs() / step < limit)
        seen.gives_gradients({0: passing}, nothing_arrives, beyond, half_a_step, because=off)

    test.hidden("float64, close to the middle between two steps of 0.1")
    x = (torch.arange(-100, 100, dtype=torch.float64) + 0.5) * 0.1
    observe(fake_quantize, x, 0.1, 127).returns(
        (x / 0.1).round() * 0.1,
        because="Close to the middle between two steps some numbers are a whole step off. k is x / step, rounded; "
        "x * (1 / step) is another number, because 1 / step is rounded first.",
    )

    test.hidden("a transposed x")
    x = many[:12].float().reshape(3, 4).t()
    seen = observe(fake_quantize, x, 0.5, 3)
    seen.returns((x / 0.5).round().clamp(-3, 3) * 0.5)
    seen.leaves_arguments_alone()

    def twice(fake_quantize, x):
        """Differentiate the sum of the squares of the result, then the sum of that gradient times x."""
        (first,) = torch.autograd.grad(fake_quantize(x, 0.5, 3).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * x).sum(), x)
        return [first.detach(), second]

    test.hidden("differentiate twice")
    x = torch.tensor([-4.0, -1.2, 0.4, 1.1], dtype=torch.float64, requires_grad=True)
    first = torch.tensor([0.0, -2.0, 1.0, 2.0], dtype=torch.float64)
    inside = torch.tensor([0.0, 1, 1, 1], dtype=torch.float64)
    observe_scenario(twice, fake_quantize, x).returns(
        [first, first + 2 * x.detach() * inside],
        because="The second derivative of the result is 0: its gradient must not depend on x.",
    )

    test.hidden("a limit of 1: three values")
    x = torch.tensor([-1.4, -0.6, -0.4, 0.1, 0.9, 7.0])
    seen = observe(fake_quantize, x.clone().requires_grad_(), 1.0, 1)
    seen.returns(
        torch.tensor([-1.0, -1, 0, 0, 1, 1]), mistake("A limit of 1 is allowed: {detail}.", raises="ValueError")
    )
    seen.gives_gradients({0: incoming_gradient(x) * (x.abs() < 1)}, nothing_arrives, beyond, because=off)

    test.hidden("refusals")
    for step, limit in [(0.0, 3), (-0.5, 3), (0.5, 0), (0.5, -2)]:
        observe(fake_quantize, torch.ones(2), step, limit).raises(
            ValueError, because="A step <= 0 and a limit < 1 are refused with ValueError."
        )
    ### END HIDDEN TESTS
