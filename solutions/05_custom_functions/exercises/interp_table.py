# %% [markdown]
# ### Exercise 5.9 · A differentiable look-up table around numpy.interp
#
# implement · long · 25 min · 3 points
#
# A calibration curve, a tone curve, a learned activation: a table of points with straight lines between them. NumPy has
# `np.interp` for that, and autograd cannot see into it. Write `interp` so that both the places x and the entries of the
# table can be learned.
#
# **Contract**
#
# - The values are those of `np.interp(x, xp, fp)`: piecewise linear through the K >= 2 points (xp increases), constant
#   outside. NumPy may be used or not.
# - The gradient of x is the slope of its segment, 0 outside. At a knot the slope to the right counts, which at the last
#   knot is 0.
# - The gradient of fp: each `fp[k]` collects, over all x that used it, the weight that it had in the result. xp gets no
#   gradient. Away from the knots gradcheck passes, in x and fp.
# - x has any shape; the result has the same, in dtype and on the device of x, whatever the dtype of the table (float32
#   or float64, as that of x).
# - An xp that does not strictly increase, unequal lengths of xp and fp, and fewer than 2 points raise ValueError. The
#   arguments are not changed.
#
# <details><summary>Hint 1</summary>
#
# np.interp refuses a tensor that requires grad, outside of a Function. Inside of one, where is it allowed, and what
# must you write yourself then?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Find the segment k of every x (searchsorted, limited to 0..K-2) and its fraction t. The value is a mix of fp[k] and
# fp[k+1]; so are their gradients, and several x may share a knot: they must be *added*. Outside, t is cut to 0 or 1 and
# the slope is 0.
#
# </details>


# %% answer="interp-table"
### BEGIN SOLUTION
class Interp(torch.autograd.Function):
    """np.interp, with gradients for x and fp."""

    @staticmethod
    def forward(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
        values = np.interp(x.cpu().numpy(), xp.cpu().numpy(), fp.cpu().numpy())
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        x, xp, fp = (saved.double() for saved in ctx.saved_tensors)
        k = torch.searchsorted(xp, x.contiguous(), right=True).clamp(1, len(xp) - 1) - 1
        width = xp[k + 1] - xp[k]
        grad_x = grad_fp = None
        if ctx.needs_input_grad[0]:
            inside = (x >= xp[0]) & (x < xp[-1])
            grad_x = g * torch.where(inside, (fp[k + 1] - fp[k]) / width, 0.0)
        if ctx.needs_input_grad[2]:
            t = ((x - xp[k]) / width).clamp(0, 1)
            shares, places = torch.stack([g * (1 - t), g * t]), torch.stack([k, k + 1])
            grad_fp = torch.zeros_like(fp).index_add(0, places.flatten(), shares.flatten())
        return grad_x, None, grad_fp


def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """np.interp(x, xp, fp), differentiable in x and fp. x: (...), xp and fp: (K,); returns (...), dtype of x."""
    if len(xp) != len(fp) or len(xp) < 2:
        raise ValueError(f"{len(xp)} places and {len(fp)} entries: equal lengths of 2 or more are needed")
    if not (xp[1:] > xp[:-1]).all():
        raise ValueError("xp must strictly increase")
    return Interp.apply(x, xp, fp)


### END SOLUTION
### BEGIN GIVEN
# def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
#     """np.interp(x, xp, fp), differentiable in x and fp. x: (...), xp and fp: (K,); returns (...), dtype of x."""
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="interp-table"
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
    return torch.tensor(rows, dtype=xp.dtype).reshape(-1, len(xp))


known = [
    mistake(
        "NumPy cannot take a tensor that is being recorded: inside a Function's forward recording is off, "
        "elsewhere detach first (and write backward).",
        raises="numpy\\(\\) on Tensor that requires grad",
    )
]
disconnected = mistake(
    "No gradient reaches x: what NumPy computes is a constant for autograd.",
    stage="gradient",
    when=lambda seen: seen.gradient(0) is None,
)
slope_is_off = "The gradient of x is wrong: {detail}"


# %% check="interp-table" points=1
"""The values of np.interp and the gradient of x: its slope, inside and outside of the table."""
with check("interp-table") as test:
    xp = torch.tensor([0.0, 1.0, 3.0, 4.0], dtype=torch.float64)
    fp = torch.tensor([0.0, 2.0, 1.0, 4.0], dtype=torch.float64)

    def as_came(seen, numbers):
        """Numbers in the dtype of what came: which one is asked for is checked further down."""
        dtype = getattr(seen.noted.result, "dtype", None)
        return torch.tensor(numbers, dtype=dtype if dtype == torch.float32 else torch.float64)

    test("inside, at knots and outside of the table (0, 0), (1, 2), (3, 1), (4, 4)")
    x = torch.tensor([-1.0, 0.0, 0.25, 1.0, 2.0, 3.0, 3.5, 4.0, 6.0], dtype=torch.float64)
    seen = observe(interp, x, xp, fp).expecting(*known)
    seen.leaves_arguments_alone()
    seen.returns(
        as_came(seen, [0.0, 0.0, 0.5, 2.0, 1.5, 1.0, 2.5, 4.0, 4.0]),
        mistake(
            "Outside the table the end values continue; you extrapolated the last segment.",
            gives=torch.tensor([-2.0, 0.0, 0.5, 2.0, 1.5, 1.0, 2.5, 4.0, 10.0], dtype=torch.float64),
        ),
        mistake(
            "That is the nearest (or previous) entry, not the interpolated value.",
            when=lambda seen: torch.isin(
                seen.value.double(), torch.tensor([0.0, 2.0, 1.0, 4.0], dtype=torch.float64)
            ).all(),
        ),
    )

    test("slopes 2, -0.5 and 3 inside, 0 outside")
    x = torch.tensor([0.25, 0.75, 2.0, 3.5, -1.0, 6.0], dtype=torch.float64, requires_grad=True)
    seen = observe(interp, x, xp, fp).expecting(*known)
    seen.gives_gradients(
        {0: incoming_gradient(x) * torch.tensor([2.0, 2.0, -0.5, 3.0, 0.0, 0.0], dtype=torch.float64)},
        disconnected,
        mistake(
            "The gradient of x is the slope times the incoming gradient; that is the slope alone.",
            when=lambda seen: torch.equal(
                seen.gradient(0), torch.tensor([2.0, 2.0, -0.5, 3.0, 0.0, 0.0], dtype=torch.float64)
            ),
        ),
        mistake(
            "Outside the table the result is constant: slope 0.", when=lambda seen: seen.gradient(0)[4:].ne(0).any()
        ),
        mistake(
            "The slope is the difference of two entries divided by the width of the segment: {detail}",
            when=lambda seen: torch.allclose(
                seen.gradient(0),
                incoming_gradient(seen.args[0]) * torch.tensor([2.0, 2.0, -1.0, 3.0, 0.0, 0.0], dtype=torch.float64),
            ),
        ),
        because=slope_is_off,
    )
    seen.returns(as_came(seen, [0.5, 1.5, 1.5, 2.5, 0.0, 4.0]))

    ### BEGIN HIDDEN TESTS
    def by_hand(x, xp, fp):
        """Values and slopes, one by one, in float64."""
        xs, places, entries = x.double().flatten().tolist(), xp.double().tolist(), fp.double().tolist()
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
        return torch.tensor(values).to(x), torch.tensor(slopes).to(x)

    test.hidden("random places, away from the knots")
    places, entries = (
        torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64),
        torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64),
    )
    x = torch.randn(20, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 2
    values, slopes = by_hand(x, places, entries)
    seen = observe(interp, x.clone().requires_grad_(), places, entries).expecting(*known)
    seen.returns(as_came(seen, values.tolist()), rtol=1e-4, atol=1e-5)
    grads = {0: incoming_gradient(values) * slopes}
    seen.gives_gradients(grads, disconnected, because=slope_is_off, rtol=1e-4, atol=1e-5)
    ### END HIDDEN TESTS

# %% check="interp-table" points=1
"""The gradient of fp: each entry adds up the weights that it had, times the incoming gradients."""
with check("interp-table") as test:

    def last_one_stays(x, xp):
        """The gradient of fp where contributions are assigned by index, twice, in place of being added."""
        table, both = weights(x, xp), torch.zeros(2, len(xp), dtype=xp.dtype)
        for row, g in zip(table, incoming_gradient(x).flatten(), strict=True):
            k = min(int((row > 0).nonzero()[0]), len(xp) - 2)
            both[0, k], both[1, k + 1] = row[k] * g, row[k + 1] * g
        return both.sum(0)

    fp_is_off = [
        mistake(
            "`fp` must get a gradient too: a look-up table that can be learned.",
            stage="gradient",
            when=lambda seen: seen.gradient(2) is None,
        ),
        mistake(
            "Several x in one segment share its knots; their contributions must be added. An assignment by index keeps "
            "only one.",
            when=lambda seen: torch.allclose(seen.gradient(2), last_one_stays(*seen.args[:2]).to(seen.gradient(2))),
        ),
        mistake(
            "The gradient of fp ignores the incoming gradient: every weight is multiplied by the gradient of its "
            "result.",
            when=lambda seen: torch.allclose(seen.gradient(2), weights(*seen.args[:2]).sum(0).to(seen.gradient(2))),
        ),
    ]

    def has_gradient_of_fp(seen, **tolerance):
        """Judge the gradient of the entries."""
        x, xp, fp = seen.args
        expected = weights(x, xp).T @ incoming_gradient(x).flatten().to(xp.dtype)
        because = "The gradient of fp is wrong: {detail}"
        seen.gives_gradients({2: expected.to(fp.dtype)}, *fp_is_off, because=because, **tolerance)

    test("several x in one segment, and some outside: the weights add up")
    xp = torch.tensor([0.0, 1.0, 3.0, 4.0], dtype=torch.float64)
    fp = torch.tensor([0.0, 2.0, 1.0, 4.0], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([0.25, 0.5, 2.0, 2.5, -1.0, 6.0, 0.875], dtype=torch.float64)
    seen = observe(interp, x, xp, fp).expecting(*known)
    has_gradient_of_fp(seen)

    ### BEGIN HIDDEN TESTS
    torch.manual_seed(5)
    places = torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64)
    entries = torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64)
    some_x = torch.randn(20, dtype=torch.float64) * 2
    test.hidden("twenty random places")
    has_gradient_of_fp(observe(interp, some_x, places, entries.clone().requires_grad_()), rtol=1e-4, atol=1e-4)
    ### END HIDDEN TESTS

# %% check="interp-table" points=1
"""Knots, shapes and dtypes; bad tables are refused; xp gets no gradient; gradcheck."""
with check("interp-table") as test:
    known_at_corners = [
        mistake(
            "NumPy cannot take a tensor that is being recorded: inside a Function's forward recording is off, "
            "elsewhere detach first (and write backward).",
            raises="numpy\\(\\) on Tensor that requires grad",
        ),
        mistake(
            "np.interp of a 0-d x gives a NumPy number, not an array, and torch.from_numpy refuses it; torch.as_tensor "
            "takes both.",
            raises="expected np.ndarray",
        ),
    ]
    wrong_dtype = [
        mistake(
            "NumPy computes in float64: convert back, {detail}.",
            stage="dtype",
            when=lambda seen: seen.value.dtype == torch.float64 != seen.args[2].dtype,
        ),
        mistake("The result must have the dtype of x: {detail}.", stage="dtype"),
    ]

    def by_hand(x, xp, fp):
        """Values and slopes, one by one, in float64."""
        xs, places, entries = x.double().flatten().tolist(), xp.double().tolist(), fp.double().tolist()
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
        return torch.tensor(values).reshape(x.shape), torch.tensor(slopes).reshape(x.shape)

    def like_np_interp(seen, *mistakes):
        """Judge the value, and the gradient of x where it is wanted."""
        x, xp, fp = seen.args
        with torch.no_grad():
            values, slopes = (t.to(x.dtype) for t in by_hand(x, xp, fp))
        seen.returns(
            values,
            *wrong_dtype,
            mistake("The result has the shape of x: {detail}", stage=("shape", "type")),
            mistake("The values are not those of np.interp: {detail}", stage="value"),
            rtol=1e-5,
            atol=1e-5,
        )
        if x.requires_grad:
            grads = {0: incoming_gradient(values) * slopes}
            seen.gives_gradients(grads, *mistakes, disconnected, because=slope_is_off, rtol=1e-5, atol=1e-5)
        seen.leaves_arguments_alone()

    torch.manual_seed(5)
    places = torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64)
    entries = torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64)
    some_x = torch.randn(3, 4, dtype=torch.float64) * 2
    test("at inner knots: the slope of the segment on the right")
    for dtype in (torch.float64, torch.float32):
        x, table = places[1:-1].to(dtype).requires_grad_(), (places.to(dtype), entries.to(dtype))
        slopes = (table[1][1:] - table[1][:-1]) / (table[0][1:] - table[0][:-1])
        of_the_left = mistake(
            "At an inner knot the slope of the segment on its *right* counts: {detail}",
            stage="gradient",
            when=lambda seen, left=slopes[:-1]: torch.allclose(seen.gradient(0), incoming_gradient(left) * left),
        )
        like_np_interp(observe(interp, x, *table).expecting(*known_at_corners), of_the_left)

    ### BEGIN HIDDEN TESTS
    for dtype in (torch.float64, torch.float32):
        table = places.to(dtype), entries.to(dtype)
        test.hidden("at the first knot the first slope, at the last one 0")
        at_the_ends = mistake(
            "At the first knot the first slope counts, at the last one 0 (what follows is constant): {detail}",
            stage="gradient",
        )
        x = places[[0, -1]].to(dtype).requires_grad_()
        like_np_interp(observe(interp, x, *table).expecting(*known_at_corners), at_the_ends)

    for idea, x, table in [
        ("a matrix of random places", some_x, (places, entries)),
        ("0-d places", torch.tensor(0.6, dtype=torch.float64), (places, entries)),
        ("a 0-d place outside", torch.tensor(-7.0, dtype=torch.float64), (places, entries)),
        ("no places at all", torch.empty(0, 3, dtype=torch.float64), (places, entries)),
        ("places that are not contiguous", some_x.t()[:, ::2], (places, entries)),
        ("a table of two points", some_x, (places[1:3], entries[1:3])),
        ("a table that is not contiguous", some_x, (places[::2], entries[::2])),
        ("float32", some_x.float(), (places.float(), entries.float())),
        ("float32 places, a float64 table", some_x.float(), (places, entries)),
        ("float64 places, a float32 table", some_x, (places.float(), entries.float())),
        ("a falling table", some_x, (places, entries.sort(descending=True).values)),
    ]:
        test.hidden(idea)
        refuses = mistake(f"x and the table may be of any shape and float dtype, here {idea}: {{detail}}.", raises=".")
        like_np_interp(observe(interp, x, *table).expecting(*known_at_corners, refuses))
        like_np_interp(observe(interp, x.clone().requires_grad_(), *table).expecting(*known_at_corners, refuses))

    test.hidden("xp gets no gradient, x does")
    trio = [t.clone().requires_grad_() for t in (some_x, places, entries)]
    seen = observe(interp, *trio).expecting(*known_at_corners)
    like_np_interp(seen)
    of_places = seen.gradient(1)
    seen.that(
        of_places is None or not of_places.any(), "`xp` gets no gradient: the places are given.", stage="gradient"
    )

    test.hidden("bad tables are refused")
    for idea, table in [
        ("An xp that falls", ([0.0, 2.0, 1.0], [0.0, 1.0, 2.0])),
        ("An xp that falls at the end", ([0.0, 1.0, 2.0, 1.5], [0.0, 1.0, 2.0, 3.0])),
        ("An xp with two equal knots", ([0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0])),
        ("A table of one point", ([1.0], [2.0])),
        ("A table without points", ([], [])),
        ("An xp longer than fp", ([0.0, 1.0, 2.0], [0.0, 1.0])),
        ("An xp shorter than fp", ([0.0, 1.0], [0.0, 1.0, 2.0])),
    ]:
        for x in (torch.tensor([0.5, 0.7]), torch.tensor([0.5, 0.7], requires_grad=True)):
            wrong_kind = mistake(f"{idea} must raise ValueError: {{detail}}", raises=".")
            observe(interp, x, *map(torch.tensor, table)).raises(
                ValueError, because=f"{idea} must raise ValueError.", mistakes=[wrong_kind]
            )

    def has_gradient_of_fp(seen, **tolerance):
        """Judge the gradient of the entries."""
        x, xp, fp = seen.args
        expected = weights(x, xp).T @ incoming_gradient(x).flatten().to(xp.dtype)
        because = "The gradient of fp is wrong: {detail}"
        seen.gives_gradients({2: expected.to(fp.dtype)}, because=because, **tolerance)
        seen.leaves_arguments_alone()

    for idea, x, table in [
        ("a matrix of random places", some_x, (places, entries)),
        ("at the knots", places, (places, entries)),
        ("all outside", torch.tensor([-9.0, 8.0, 4.0, -3.0, 5.0], dtype=torch.float64), (places, entries)),
        ("a 0-d place", torch.tensor(0.6, dtype=torch.float64), (places, entries)),
        ("no places at all", torch.empty(0, 3, dtype=torch.float64), (places, entries)),
        ("places that are not contiguous", some_x.t()[:, ::2], (places, entries)),
        ("a table of two points", some_x, (places[1:3], entries[1:3])),
        ("float32", some_x.float(), (places.float(), entries.float())),
        ("float32 places, a float64 table", some_x.float(), (places, entries)),
        ("float64 places, a float32 table", some_x, (places.float(), entries.float())),
    ]:
        test.hidden(f"the gradient of fp: {idea}")
        single = torch.float32 in (x.dtype, table[0].dtype)
        tolerance = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 1e-7, "atol": 1e-9}
        has_gradient_of_fp(
            observe(interp, x, table[0], table[1].clone().requires_grad_()).expecting(*known_at_corners), **tolerance
        )
        if "knots" not in idea and not single:
            both = x.clone().requires_grad_(), table[0], table[1].clone().requires_grad_()
            has_gradient_of_fp(observe(interp, *both).expecting(*known_at_corners), **tolerance)

    def checked(interp, x, xp, fp):
        """Run gradcheck on `interp`."""
        return gradcheck(lambda x, fp: interp(x, xp, fp), (x, fp), raise_exception=False)

    test.hidden("gradcheck in x and fp, away from the knots")
    far = [x for x in (torch.rand(40, dtype=torch.float64) * 7 - 3).tolist() if (places - x).abs().min() > 0.01][:6]
    pair = torch.tensor(far, dtype=torch.float64).reshape(2, 3).requires_grad_(), entries.clone().requires_grad_()
    observe_scenario(checked, interp, pair[0], places, pair[1]).expecting(*known_at_corners).returns(
        True, because="gradcheck in x and fp fails."
    )
    ### END HIDDEN TESTS
