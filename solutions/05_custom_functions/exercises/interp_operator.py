# %% [markdown]
# ### Exercise 5.9 · The table of the opening, as an operator
#
# implement · long · 40 min · 3 points
#
# A calibration curve, a tone curve and a learned activation have something in common: each is a table of points with
# straight lines between them. `np.interp` reads such a table, but neither autograd nor the compiler can look into
# NumPy's code. Write it as an operator, so that gradients reach the inputs x and the table's values fp, and
# `torch.compile` accepts it as one step.
#
# **Contract**
#
# - `interp(x, xp, fp)` is the operator `kata::interp`, so `torch.ops.kata.interp(x, xp, fp)` is the same. The values
#   are those of `np.interp`: straight lines through the K ≥ 2 points of the table (xp increases), constant outside.
# - x has any shape, and may be transposed. The result has the shape and dtype of x and is contiguous; no argument is
#   changed. Each of x, xp and fp is float32 or float64, independently of the others.
# - The gradient of x is the slope of its segment, and 0 outside the table. At a point of the table (a *knot*) the slope
#   to the right counts, which is 0 at the last knot. The gradient of fp: each `fp[k]` collects, over all x, the weight
#   that it had in the result. xp gets none. x and fp may both require grad, or only one of them. Away from the knots
#   gradcheck passes.
# - On the device "meta", where tensors have no numbers, it returns a tensor with the shape, dtype and strides of the
#   real result. `torch.library.opcheck` passes, and `torch.compile(…, fullgraph=True)` accepts a function that uses it,
#   forward and backward, including with dynamic shapes.
#
# **Rule.** The operator's own body may use NumPy; its backward consists of torch operations, because the compiler goes
# through it.
#
# <details><summary>Hint 1</summary>
#
# The compiler can't look into NumPy. Which three things must you tell it about such code: what the result is for real
# numbers, what the result is if there are no numbers, and …?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Write three functions beside the operator, as in section 5.9. The function for tensors without numbers needs one line;
# `new_empty` gives a contiguous tensor where `empty_like` copies the strides of x. `register_autograd` calls
# `setup_context(ctx, inputs, output)` with these names, and `backward(ctx, g)` returns three values. In backward,
# `torch.searchsorted` with `right=True` finds the segment of every x. From that you can compute how far along its
# segment each x is, from 0 to 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Watch two things in the operator: NumPy returns a plain number, not an array, for a 0-d x, and its dtype may not be
# that of x. In backward, work in float64. Limit the segment number so that both of its ends are in the table, and limit
# the fraction along the segment to 0 … 1; then the same formulas also work outside. The gradient of x is g times the
# segment's slope, and 0 for an x outside the table or at its last knot. For fp, split each g between the two ends of
# its segment, according to the fraction, and add up the parts at the places of the ends with `index_add`.
#
# </details>


# %% answer="interp-operator"
### BEGIN SOLUTION
@torch.library.custom_op("kata::interp", mutates_args=())
def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """np.interp(x, xp, fp), contiguous, in shape and dtype of x.

    x: (...) float; xp and fp: (K,) float.
    """
    return torch.as_tensor(np.interp(x.numpy(), xp.numpy(), fp.numpy()), dtype=x.dtype)


@interp.register_fake
def interp_without_numbers(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """Shape, dtype and strides of the result."""
    return x.new_empty(x.shape)


def keep_arguments(ctx, inputs: tuple, output: Tensor) -> None:
    """Save all three for backward."""
    ctx.save_for_backward(*inputs)


def interp_backward(ctx, g: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
    """The slope of its segment for each x, the sum of its weights for each entry of the table."""
    x, xp, fp = (saved.double() for saved in ctx.saved_tensors)
    of_x, of_fp = ctx.needs_input_grad[0], ctx.needs_input_grad[2]
    k = torch.searchsorted(xp, x.contiguous(), right=True).clamp(1, len(xp) - 1)
    width = xp[k] - xp[k - 1]
    grad_x = grad_fp = None
    if of_x:
        inside = (x >= xp[0]) & (x < xp[-1])
        grad_x = (g * torch.where(inside, (fp[k] - fp[k - 1]) / width, 0.0)).to(g.dtype)
    if of_fp:
        t = ((x - xp[k - 1]) / width).clamp(0, 1)
        shares, places = torch.stack([g * (1 - t), g * t]), torch.stack([k - 1, k])
        sums = torch.zeros_like(fp).index_add(0, places.flatten(), shares.flatten())
        grad_fp = sums.to(ctx.saved_tensors[2].dtype)
    return grad_x, None, grad_fp


interp.register_autograd(interp_backward, setup_context=keep_arguments)
### END SOLUTION
### BEGIN GIVEN
# def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
#     """np.interp(x, xp, fp), contiguous, in shape and dtype of x.
#
#     x: (...) float; xp and fp: (K,) float.
#     """
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="interp-operator"
def called(interp, x, xp, fp):
    """Call interp, then run the backward pass."""
    return interp(x, xp, fp)


no_operator = "`interp` is no custom operator: a call does not arrive at torch.ops.kata.interp."
nothing_may_alias = mistake(
    "The result must be new memory: an operator with mutates_args=() may neither return nor change an input.",
    raises="may not alias|custom operator.*mutat",
)
known = [
    nothing_may_alias,
    mistake(
        "There is no gradient: register_autograd is missing, or setup_context saved nothing.",
        raises="no autograd formula was registered|not enough values to unpack .*got 0|element 0 of tensors does",
    ),
    mistake(
        "`register_autograd` calls setup_context by the names of its parameters, which are ctx, inputs and output.",
        raises="unexpected keyword argument '(inputs|output|ctx)'",
    ),
    mistake(
        "`backward` returns one value for each argument: x, None for xp, fp. {detail}",
        raises="incorrect number of gradients|Expected the .*backward.* to return",
    ),
]


def goes_through_the_operator(seen):
    """Judge that the call arrived at an operator named interp."""
    seen.expecting(mistake(no_operator, stage="rule", when=lambda seen: "interp" not in seen.op_names(level="aten")))
    seen.that("interp" in seen.op_names(level="aten"), no_operator, stage="rule")


def weights(x, xp):
    """One row for each x: the weights of the entries of the table in its result."""
    rows = []
    for one in x.flatten().tolist():
        row, places = [0.0] * len(xp), xp.tolist()
        if one <= places[0]:
            row[0] = 1.0
        elif one >= places[-1]:
            row[-1] = 1.0
        else:
            k = max(k for k, place in enumerate(places) if place <= one)
            row[k + 1] = (one - places[k]) / (places[k + 1] - places[k])
            row[k] = 1 - row[k + 1]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, len(xp))


def by_hand(x, xp, fp):
    """Values and slopes, one by one, in float64."""
    xs, places, entries = (t.detach().double().flatten().tolist() for t in (x, xp, fp))
    values, slopes = [], []
    for one in xs:
        later = [k for k, place in enumerate(places) if place > one]
        k = later[0] - 1 if later else len(places) - 1
        if k < 0 or k == len(places) - 1:
            values.append(entries[max(k, 0)])
            slopes.append(0.0)
        else:
            slopes.append((entries[k + 1] - entries[k]) / (places[k + 1] - places[k]))
            values.append(entries[k] + slopes[-1] * (one - places[k]))
    return [torch.tensor(numbers, dtype=torch.float64).reshape(x.shape) for numbers in (values, slopes)]


def has_gradients(seen, *mistakes, **tolerance):
    """Judge the gradients of those of x and fp that require grad."""
    x, xp, fp = seen.args[1:]
    g, expected = incoming_gradient(x), {}
    if x.requires_grad:
        expected[0] = (g * by_hand(x, xp, fp)[1]).to(x.dtype)
    if fp.requires_grad:
        expected[2] = (weights(x, xp).T @ g.flatten().double()).to(fp.dtype)
    seen.gives_gradients(expected, *mistakes, because="The gradients are not those of np.interp: {detail}", **tolerance)


# %% check="interp-operator" points=1
"""The values of np.interp, from an operator, with the gradients of x and fp."""
with check("interp-operator") as test:
    xp = torch.tensor([0.0, 1.0, 3.0, 4.0], dtype=torch.float64)
    fp = torch.tensor([0.0, 2.0, 1.0, 4.0], dtype=torch.float64)

    def called_by_name(interp, x, xp, fp):
        """Call torch.ops.kata.interp."""
        return torch.ops.kata.interp(x, xp, fp)

    test("inside, at knots and outside of the table (0, 0), (1, 2), (3, 1), (4, 4)")
    x = torch.tensor([-1.0, 0.0, 0.25, 1.0, 2.0, 3.0, 3.5, 4.0, 6.0], dtype=torch.float64)
    values = torch.tensor([0.0, 0.0, 0.5, 2.0, 1.5, 1.0, 2.5, 4.0, 4.0], dtype=torch.float64)
    extrapolated = torch.tensor([-2.0, 0.0, 0.5, 2.0, 1.5, 1.0, 2.5, 4.0, 10.0], dtype=torch.float64)
    seen = observe_scenario(called, interp, x, xp, fp).expecting(*known)
    seen.leaves_arguments_alone(
        because="The result must be new memory: an operator with mutates_args=() may neither return nor change an "
        "input. {detail}"
    )
    seen.returns(
        values,
        mistake("Outside the table the values are constant; you extrapolated the last segment.", gives=extrapolated),
        mistake(
            "That is the nearest (or previous) entry, not the interpolated value.",
            when=lambda seen: torch.isin(seen.value.double(), fp).all(),
        ),
    )
    goes_through_the_operator(seen)
    missing = mistake(no_operator, raises="no attribute 'interp'|has no attribute 'kata'")
    observe_scenario(called_by_name, interp, x, xp, fp).returns(values, missing)

    def last_one_stays(x, xp):
        """The gradient of fp where contributions are assigned by index, twice, in place of being added."""
        table, both = weights(x, xp), torch.zeros(2, len(xp), dtype=torch.float64)
        for row, g in zip(table, incoming_gradient(x).flatten(), strict=True):
            k = min(int((row > 0).nonzero()[0]), len(xp) - 2)
            both[0, k], both[1, k + 1] = row[k] * g, row[k + 1] * g
        return both.sum(0)

    def of_ends(beyond):
        """The gradient of fp where weights go on beyond the ends of the table, or (0) end with it."""

        def wrong(x, xp, fp):
            table, ends = weights(x, xp), [(0, 1), (-1, -2)]
            for row, one in zip(table, x.tolist(), strict=True):
                for end, inner in ends:
                    too_far = (xp[end] - one) / (xp[inner] - xp[end])
                    if too_far > 0:
                        row[end], row[inner] = beyond * (1 + too_far), -beyond * too_far
            return table.T @ incoming_gradient(x)

        return wrong

    def gradient_is(argument, wrong):
        """Whether the gradient of this argument is what the function makes of the observed call's x, xp and fp."""
        return lambda seen: torch.allclose(seen.gradient(argument), wrong(*seen.args[1:]))

    gradients_are_off = [
        mistake(
            "No gradient reaches x: what NumPy computes is a constant for autograd.",
            stage="gradient",
            when=lambda seen: seen.gradient(0) is None and not seen.noted.backward_raised,
        ),
        mistake(
            "`fp` must also get a gradient, so that the table can be learned.",
            stage="gradient",
            when=lambda seen: seen.gradient(2) is None and not seen.noted.backward_raised,
        ),
        mistake(
            "The gradient of x is its slope times the incoming gradient; yours is only the slope.",
            when=gradient_is(0, lambda x, xp, fp: by_hand(x, xp, fp)[1]),
        ),
        mistake(
            "The gradient of fp ignores the incoming gradient: every weight is multiplied by the gradient of its "
            "result.",
            when=gradient_is(2, lambda x, xp, fp: weights(x, xp).sum(0)),
        ),
        mistake(
            "Several x share an entry of the table: their gradients must be added (index_add), but yours overwrite "
            "each other.",
            when=gradient_is(2, lambda x, xp, fp: last_one_stays(x, xp)),
        ),
        mistake(
            "Outside of the table the slope is 0.",
            when=lambda seen: seen.gradient(0)[(seen.args[1] < xp[0]) | (seen.args[1] > xp[-1])].ne(0).any(),
        ),
        mistake(
            "Outside of the table the end entry has the whole weight, no more and no less.",
            when=lambda seen: gradient_is(2, of_ends(0))(seen) or gradient_is(2, of_ends(1))(seen),
        ),
    ]
    test("slopes 2, -0.5 and 3 inside, 0 outside; several x share the entries of the table")
    x = torch.tensor([0.25, 0.5, 2.0, 2.5, -1.0, 3.5, 6.0, 0.875], dtype=torch.float64, requires_grad=True)
    seen = observe_scenario(called, interp, x, xp, fp.clone().requires_grad_()).expecting(*known)
    has_gradients(seen, *gradients_are_off)

    ### BEGIN HIDDEN TESTS
    places = torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64)
    entries = torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64)
    test.hidden("other places, away from the knots")
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 2
    pair = x.clone().requires_grad_(), entries.clone().requires_grad_()
    seen = observe_scenario(called, interp, pair[0], places, pair[1]).expecting(*known)
    seen.returns(by_hand(x, places, entries)[0], rtol=1e-7, atol=1e-9)
    has_gradients(seen, rtol=1e-7, atol=1e-9)

    def checked(interp, x, xp, fp):
        """Run gradcheck on interp."""
        return gradcheck(interp, (x, xp, fp), raise_exception=False)

    test.hidden("gradcheck in x and fp, away from the knots")
    far = torch.tensor([[-3.1, -1.6, 0.2], [0.6, 2.5, 3.9]], dtype=torch.float64, requires_grad=True)
    seen = observe_scenario(checked, interp, far, places, entries.clone().requires_grad_()).expecting(*known)
    seen.returns(True, because="gradcheck in x and fp fails.")
    ### END HIDDEN TESTS

# %% check="interp-operator" points=1
"""The result without numbers; opcheck; torch.compile, forward and backward."""
with check("interp-operator") as test:
    xp = torch.tensor([0.0, 1.0, 3.0, 4.0], dtype=torch.float64)
    fp = torch.tensor([0.0, 2.0, 1.0, 4.0], dtype=torch.float64)
    x = torch.tensor([[0.25, 2.0, 3.5], [-1.0, 0.5, 6.0]], dtype=torch.float64)

    def without_numbers(interp, x, xp, fp):
        """Call torch.ops.kata.interp on tensors of the device meta."""
        out = torch.ops.kata.interp(x.to("meta"), xp.to("meta"), fp.to("meta"))
        return {"device": out.device.type, "shape": list(out.shape), "dtype": str(out.dtype)}

    no_fake = (
        "There is no fake (or it reads numbers): return x.new_empty(x.shape), which has the shape and dtype of the "
        "result, and nothing else."
    )
    disagree = "Fake and real result disagree in dtype or shape: the result has those of x, whatever the table's."

    test("a case of the first check")
    pair = x.clone().requires_grad_(), fp.clone().requires_grad_()
    seen = observe_scenario(called, interp, pair[0], xp, pair[1])
    seen.expecting(mistake(no_operator, raises="numpy\\(\\) on Tensor that requires grad"), FIRST_CHECK_FIRST)
    seen.returns(torch.tensor([[0.5, 1.5, 2.5], [0.0, 1.0, 4.0]], dtype=torch.float64))
    seen.leaves_arguments_alone()
    seen.that("interp" in seen.op_names(level="aten"), no_operator, mistake(no_operator, stage="rule"), stage="rule")
    seen.that(not seen.noted.backward_raised, "No gradient arrives.")

    test("a float64 x and a float32 table on the device meta")
    seen = observe_scenario(without_numbers, interp, x, xp.float(), fp.float())
    seen.expecting(mistake(no_fake, raises="."))
    seen.that(seen["device"] == "meta", no_fake)
    seen.that([seen["shape"], seen["dtype"]] == [[2, 3], "torch.float64"], disagree)

    def opchecked(interp, x, xp, fp):
        """Let torch.library.opcheck look at the operator."""
        verdicts = torch.library.opcheck(torch.ops.kata.interp.default, (x, xp, fp), raise_exception=False)
        return {name: verdict if isinstance(verdict, str) else str(verdict) for name, verdict in verdicts.items()}

    test("opcheck, with an x and an fp that require grad")
    seen = observe_scenario(opchecked, interp, pair[0], xp, pair[1])
    failed = [name for name, verdict in seen.value.items() if verdict != "SUCCESS"]
    returns_itself = mistake(
        "`opcheck` refuses an operation that may return its own argument, such as contiguous or double, in the "
        "operator or in setup_context: only save in setup_context, and compute in backward.",
        when=lambda seen: " is input" in seen.value["test_schema"],
    )
    of_schema = seen.value["test_schema"].partition("\n")[0]
    seen.that("test_schema" not in failed, f"`opcheck`, test_schema: {of_schema}", nothing_may_alias, returns_itself)
    seen.that("test_faketensor" not in failed, disagree)
    through_numpy = mistake(
        "The compiler also goes through backward, with tensors without numbers, so backward must consist of torch "
        "operations.",
        when=lambda seen: any(word in str(seen.value) for word in ("numpy", "fake tensor", "data-dependent", "item")),
    )
    said = [seen.value[name].partition("\n")[0] for name in failed]
    seen.that(
        not failed,
        f"`opcheck` runs forward and backward as the compiler does, and fails in {', '.join(failed)}: {' '.join(said)}",
        through_numpy,
    )

    ### BEGIN HIDDEN TESTS
    def compiled(interp, x, xp, fp, dynamic):
        """Compile a function that uses interp; value and gradients, as it is and compiled."""

        torch.compiler.reset()  # what was compiled for another answer or another size counts towards a limit
        operator, found = torch.ops.kata.interp.default, {"as it is": [], "compiled": []}

        def used(x, xp, fp):
            return operator(2 * x, xp, fp) + 1

        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            graph = torch.compile(used, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            for some_x in (x, torch.cat([x, x + 0.125])):
                for kind, function in (("as it is", used), ("compiled", graph)):
                    out = function(some_x, xp, fp)
                    grads = torch.autograd.grad((out * (some_x + 5)).sum(), (x, fp), materialize_grads=True)
                    found[kind].append([out.detach().clone(), *grads])
        return found

    for dynamic in (False, True):
        test.hidden(f"torch.compile with fullgraph=True, dynamic={dynamic}, forward and backward, for two sizes")
        seen = observe_scenario(compiled, interp, pair[0], xp, pair[1], dynamic)
        seen.expecting(
            *known,
            mistake("torch.compile doesn't accept it as one graph, forward and backward: {detail}", stage="raised"),
        )
        as_it_is = seen["as it is"]
        seen.returns({"as it is": as_it_is, "compiled": as_it_is})
    ### END HIDDEN TESTS

# %% check="interp-operator" points=1
"""Knots, dtypes and shapes; one tracked argument alone; the layout of the result."""
with check("interp-operator") as test:
    of_numbers = mistake(
        "`np.interp` of a 0-d x gives a NumPy scalar, not an array: torch.from_numpy refuses it, torch.as_tensor "
        "accepts both.",
        raises="expected np.ndarray",
    )
    wrong_dtype = [
        mistake(
            "NumPy computes in float64: convert back, {detail}.",
            stage="dtype",
            when=lambda seen: torch.float64 not in (arg.dtype for arg in seen.args[1:]),
        ),
        mistake("The result must have the dtype of x: {detail}.", stage="dtype"),
    ]

    def like_np_interp(seen, *mistakes):
        """Judge value and gradients."""
        seen.expecting(*known, of_numbers)
        x, xp, fp = seen.args[1:]
        single = torch.float32 in (x.dtype, xp.dtype, fp.dtype)
        tolerance = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 1e-7, "atol": 1e-9}
        seen.returns(
            by_hand(x, xp, fp)[0].to(x.dtype),
            *mistakes,
            *wrong_dtype,
            mistake("The result has the shape of x: {detail}", stage=("shape", "type")),
            mistake("The values are not those of np.interp: {detail}", stage="value"),
            **tolerance,
        )
        seen.leaves_arguments_alone()
        goes_through_the_operator(seen)
        has_gradients(seen, *mistakes, **tolerance)

    places = torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64)
    entries = torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64)
    some_x = torch.randn(3, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 2

    for dtype in (torch.float32, torch.float64):
        test(f"a float32 x with a {dtype} table")
        pair = some_x.float().requires_grad_(), entries.to(dtype, copy=True).requires_grad_()
        any_dtype = mistake("x and the table may each have any float dtype: {detail}", raises="dtype|scalar type")
        like_np_interp(observe_scenario(called, interp, pair[0], places.to(dtype), pair[1]), *known, any_dtype)

    test("at inner knots: the slope of the segment on the right")
    slopes = (entries[1:] - entries[:-1]) / (places[1:] - places[:-1])
    of_the_left = mistake(
        "At an inner knot the slope of the segment on its *right* counts: {detail}",
        stage="gradient",
        when=lambda seen: torch.allclose(seen.gradient(0), incoming_gradient(slopes[:-1]) * slopes[:-1]),
    )
    pair = places[1:-1].clone().requires_grad_(), entries.clone().requires_grad_()
    like_np_interp(observe_scenario(called, interp, pair[0], places, pair[1]), of_the_left)

    def layouts(interp, x, xp, fp):
        """Call interp on a transposed x, and on the same on the device meta; strides of both results."""
        real = list(interp(x.t(), xp, fp).stride())
        try:
            fake = list(torch.ops.kata.interp(x.t().to("meta"), xp.to("meta"), fp.to("meta")).stride())
        except Exception:
            fake = None
        return {"real": real, "fake": fake}

    test("a transposed x: the result is contiguous, and on the device meta it has the same strides")
    like_np_interp(observe_scenario(called, interp, some_x.t(), places, entries))
    seen = observe_scenario(layouts, interp, some_x, places, entries)
    seen.that(seen["real"] == [3, 1], "For a transposed x the result is not contiguous.", stage="aliasing")
    seen.that(
        seen["fake"] in (None, [3, 1]),  # that there is a fake is what the second check asks
        "For a transposed x the strides of the fake and of the result differ: torch.empty_like keeps those of x, "
        "x.new_empty(x.shape) is contiguous.",
        stage="aliasing",
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("at the first knot the first slope, at the last one 0")
    at_the_ends = mistake(
        "At the first knot the first slope counts, at the last one 0 (what follows is constant): {detail}",
        stage="gradient",
    )
    pair = places[[0, -1]].clone().requires_grad_(), entries.clone().requires_grad_()
    like_np_interp(observe_scenario(called, interp, pair[0], places, pair[1]), at_the_ends)

    for idea, x, table in [
        ("one place, 0-d", torch.tensor(0.6, dtype=torch.float64), (places, entries)),
        ("a 0-d place outside", torch.tensor(-7.0, dtype=torch.float64), (places, entries)),
        ("no places at all", torch.empty(0, 3, dtype=torch.float64), (places, entries)),
        ("places that are not contiguous", some_x.t()[:, ::2], (places, entries)),
        ("a table of two points", some_x, (places[1:3], entries[1:3])),
        ("a table that is not contiguous", some_x, (places[::2], entries[::2])),
        ("a falling table", some_x, (places, entries.sort(descending=True).values)),
        ("all outside", torch.tensor([-9.0, 8.0, 4.0, -3.0], dtype=torch.float64), (places, entries)),
        ("float32", some_x.float(), (places.float(), entries.float())),
        ("a float64 x, a float32 table", some_x, (places.float(), entries.float())),
        ("float32 entries alone", some_x, (places, entries.float())),
    ]:
        test.hidden(idea)
        refuses = mistake(f"x and the table may be of any shape and float dtype, here {idea}: {{detail}}.", raises=".")
        for of_x, of_fp in ((False, False), (True, True)):
            trio = [x.clone().requires_grad_(of_x), table[0], table[1].clone().requires_grad_(of_fp)]
            like_np_interp(observe_scenario(called, interp, *trio), of_numbers, refuses)

    test.hidden("a float32 x, a float64 table with knots that float32 can't tell apart")
    of_close_knots = mistake(
        "The table was cast to float32, the dtype of x, where the knots 1 and 1 + 1e-9 are the same number. Compute in "
        "float64, and convert the result.",
        stage=("value", "gradient"),
    )
    close = torch.tensor([0.0, 1.0, 1.0 + 1e-9, 2.0], dtype=torch.float64)
    pair = torch.tensor([0.25, 1.0, 1.5]).requires_grad_(), torch.tensor([0.0, 1, 5, 6]).double().requires_grad_()
    like_np_interp(observe_scenario(called, interp, pair[0], close, pair[1]), of_close_knots)

    alone = mistake(
        "With only one of x and fp tracked, the other must get None, and nothing may raise: {detail}",
        raises=".",
        stage="gradient",
    )
    for of_x in (False, True):
        test.hidden(f"{'x' if of_x else 'fp'} alone requires grad")
        trio = [some_x.clone().requires_grad_(of_x), places, entries.clone().requires_grad_(not of_x)]
        like_np_interp(observe_scenario(called, interp, *trio), alone)

    def transposed(interp, x, xp, fp):
        """Call interp and transpose the result: on the way back, the incoming gradient is not contiguous."""
        return interp(x, xp, fp).t()

    test.hidden("an incoming gradient that is not contiguous")
    pair = some_x.clone().requires_grad_(), entries.clone().requires_grad_()
    seen = observe_scenario(transposed, interp, pair[0], places, pair[1]).expecting(*known)
    of_view = mistake("The incoming gradient need not be contiguous, and view refuses it: use reshape.", raises="view")
    g = incoming_gradient(some_x.t()).t()
    grads = g * by_hand(some_x, places, entries)[1], weights(some_x, places).T @ g.flatten()
    seen.gives_gradients({0: grads[0], 2: grads[1]}, of_view, because="The gradients are wrong: {detail}")

    test.hidden("xp gets no gradient")
    trio = [t.clone().requires_grad_() for t in (some_x, places, entries)]
    seen = observe_scenario(called, interp, *trio)
    like_np_interp(seen)
    of_places = seen.gradient(1)
    seen.that(
        of_places is None or not of_places.any(), "`xp` gets no gradient: the places are given.", stage="gradient"
    )
    ### END HIDDEN TESTS
