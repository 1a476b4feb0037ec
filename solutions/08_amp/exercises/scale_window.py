# %% [markdown]
# ### Exercise 8.7 · How much gradient does fp16 lose, and which scale saves it?
#
# measure · solid · 25 min · 2 points
#
# Before you trust a loss scale, measure. How much of the gradient becomes zero in a 16-bit format? What is the largest
# scale at which nothing overflows, and how much is lost then?
#
# **Contract**
#
# - `scale_window(grads, dtype)` takes float32 gradients of any shapes and returns a dict with three floats. dtype is
#   `torch.float16` or `torch.bfloat16`.
# - `lost`: the share of the non-zero entries that become exactly 0 when cast to dtype.
# - `scale`: the largest power of two s (it may be below 1) for which every `s * g` is still finite in dtype.
# - `lost_scaled`: the same share after multiplying by that s.
# - Shares are over all entries of all tensors together. The product must not overflow before the cast: s may be larger
#   than any float32.
# - Raise ValueError if all entries are 0, if there are none, or if one is inf or nan. The tensors are not changed.
#
# **Rule.** The cast decides: what counts is what really becomes 0 or inf, including the effect of rounding. The limits
# are not `torch.finfo`'s `tiny` and `max`.
#
# <details><summary>Hint 1</summary>
#
# Is every number below `finfo.tiny` lost? Is 65519 too large for float16? What does the cast itself do with them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The largest magnitude decides the scale. Which power of two brings it just below the largest number of the format, and
# how do you find out whether the next power still fits, including the effect of rounding?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Work in float64, with all entries in one tensor. Logarithms give you a first guess for the power of two; then double
# or halve it and test with a real cast whether the largest magnitude stays finite. For the shares, count the zeros
# after the cast among the entries that were not zero before.
#
# </details>


# %% answer="scale-window"
def scale_window(grads: Sequence[Tensor], dtype: torch.dtype = torch.float16) -> dict[str, float]:
    """The share of gradient that a format loses, without a scale and with the largest that fits.

    grads: float32 tensors of any shapes; returns {"lost", "scale", "lost_scaled"}.
    """
    ### BEGIN SOLUTION
    flat = torch.cat([torch.empty(0), *(g.detach().double().flatten() for g in grads)])
    if not flat.isfinite().all() or not flat.any():
        raise ValueError("there must be a gradient, not all of it zero, and all of it finite")
    flat = flat[flat != 0]
    largest = flat.abs().max()

    def fits(exponent: int) -> bool:
        return bool((largest * 2.0**exponent).to(dtype).isfinite())

    exponent = math.floor(math.log2(torch.finfo(dtype).max / largest))  # this one fits for sure
    while fits(exponent + 1):
        exponent += 1

    def lost(scale: float) -> float:
        return (flat * scale).to(dtype).eq(0).double().mean().item()

    return {"lost": lost(1.0), "scale": 2.0**exponent, "lost_scaled": lost(2.0**exponent)}
    ### END SOLUTION


# %% helpers="scale-window"
zeros_counted = "Entries that were 0 before are not lost; divide by the number of non-zero ones."
tiny = "Numbers below finfo.tiny are not lost yet: subnormals reach down to about 6e-8 in float16. Cast and look."
not_power = "The scale must be a power of two (multiplying by it changes no digits)."
too_large = "With this scale the largest entry becomes inf."
after_cast = "Multiply before casting: what has become 0 stays 0 whatever you multiply it by."
per_tensor = "Average over all entries, not over tensors of different size."


def judge(seen, expected, *mistakes):
    """The keys and types, then the scale, then the shares."""
    came = seen.value
    seen.that(
        isinstance(came, dict) and set(came) == {"lost", "scale", "lost_scaled"},
        "Return a dict with the keys lost, scale and lost_scaled.",
        stage="type",
    )
    odd = [name for name, value in came.items() if type(value) not in (int, float) or abs(value) > 2**1000]
    seen.that(not odd, f"The numbers must be finite Python floats; these are not: {', '.join(odd)}.", stage="type")
    scale, right = came["scale"], expected["scale"]
    seen.that(
        abs(scale - right) <= 1e-6 * right,
        "A larger power of two still fits.",
        *mistakes,
        mistake(not_power, when=lambda seen: scale > 0 and not math.log2(scale).is_integer()),
        mistake(too_large, when=lambda seen: scale > right),
    )
    for name in ("lost", "lost_scaled"):
        seen.that(abs(came[name] - expected[name]) <= 1e-6, f"The share `{name}` is wrong.", *mistakes)


def shares(lost, lost_scaled):
    """A condition: these two shares came (None: any)."""
    wanted = {"lost": lost, "lost_scaled": lost_scaled}
    return lambda seen: all(v is None or abs(seen[k] - v) <= 1e-6 for k, v in wanted.items())


overflow = "s * g overflowed in float32 before the cast; form the product in float64."
float32_ends = (2.0**126, 2.0**127, 2.0**128, 2.0**129)  # where a scale ends that is a float32


# %% check="scale-window" points=1
"""The share that is lost, the largest scale that fits, the share lost with it."""
with check("scale-window") as test:
    test("two tensors in float16: 3 of 7 non-zero entries are lost, none after scaling")
    # 3e-5 is below finfo.tiny (6.1e-5) and stays; 2e-8 and below become 0; 2**18 * 0.2 = 52428.8 fits, 2**19 * 0.2 not
    some_grads = [torch.tensor([[0.2, 0.0, -1e-8], [3e-5, 0.0, 2e-8]]), torch.tensor([-0.03, 1e-9, 1e-3])]
    seen = observe(scale_window, some_grads)
    expected = {"lost": 3 / 7, "scale": 2.0**18, "lost_scaled": 0.0}
    judge(
        seen,
        expected,
        mistake(zeros_counted, when=shares(3 / 9, None)),
        mistake(zeros_counted, when=shares(5 / 9, None)),
        mistake(zeros_counted, when=shares(5 / 7, None)),
        mistake("A share says how much is lost; yours says how much is kept.", when=shares(4 / 7, 1.0)),
        mistake(tiny, when=shares(4 / 7, None)),
        mistake(after_cast, when=shares(3 / 7, 3 / 7)),
        mistake(per_tensor, when=shares((2 / 4 + 1 / 3) / 2, None)),
    )
    seen.leaves_arguments_alone()

    test("the same gradients in bfloat16: nothing is lost")
    # 2**130 * 0.2 = 2.7e38 fits below bfloat16's largest, 3.39e38
    seen = observe(scale_window, some_grads, torch.bfloat16)
    judge(
        seen,
        {"lost": 0.0, "scale": 2.0**130, "lost_scaled": 0.0},
        mistake(overflow, when=lambda seen: seen["scale"] in float32_ends),
    )


# %% check="scale-window" points=1
"""What must be refused; both edges of a format; scales of every size."""
with check("scale-window") as test:
    invalid = "Empty, all-zero or non-finite gradients must raise ValueError."

    test("no entry, zeros only, inf or nan")
    for refused in (
        [],
        [torch.empty(0)],
        [torch.zeros(3)],
        [torch.tensor([0.5, math.inf])],
        [torch.tensor([0.5]), torch.tensor([math.nan, 1.0])],
        [torch.tensor([[0.5, 2.0]]), torch.tensor(-math.inf)],
    ):
        observe(scale_window, refused).raises(ValueError, because=invalid)

    ### BEGIN HIDDEN TESTS
    expected = {"lost": 3 / 7, "scale": 2.0**18, "lost_scaled": 0.0}

    def by_trying(grads, dtype=torch.float16):
        """The truth, by trying powers of two from above."""
        flat = torch.cat([g.double().flatten() for g in grads])
        nonzero = flat[flat != 0]
        start = math.frexp(torch.finfo(dtype).max)[1] - math.frexp(nonzero.abs().max().item())[1] + 3
        scale = next(s for k in range(start, -400, -1) if (nonzero * (s := 2.0**k)).to(dtype).isfinite().all())
        shares = [((nonzero * s).to(dtype) == 0).double().mean().item() for s in (1.0, scale)]
        return {"lost": shares[0], "scale": scale, "lost_scaled": shares[1]}

    rounded = (
        "You compared with the smallest number of the dtype. The cast rounds, so anything above half of that number "
        "becomes it and is not lost. Cast and look."
    )
    at_half = (
        "The cast rounds exactly half of the smallest number of the dtype to 0, so that is also lost. Cast and look."
    )

    def misread(grads, dtype=torch.float16):
        """What each of the misconceptions of the first check makes of these gradients."""
        flat = torch.cat([g.double().flatten() for g in grads])
        nonzero, right = flat[flat != 0], by_trying(grads, dtype)
        least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps  # the smallest subnormal number

        def both(lost):
            """A condition: both shares are those of a wrong way to count."""
            counted = [lost(s) for s in (1.0, right["scale"])]
            return lambda seen: shares(*counted)(seen) and counted != [right["lost"], right["lost_scaled"]]

        def zeros(numbers, s):
            return (numbers * s).to(dtype).eq(0).double()

        def in_each(s):
            found = [zeros(one[one != 0], s).mean() for one in (g.double() for g in grads) if one.any()]
            return torch.stack(found).mean().item()

        return (
            mistake(zeros_counted, when=both(lambda s: (zeros(nonzero, s).sum() / len(flat)).item())),
            mistake(zeros_counted, when=both(lambda s: zeros(flat, s).mean().item())),
            mistake(
                "A share says how much is lost; yours says how much is kept.",
                when=both(lambda s: 1 - zeros(nonzero, s).mean().item()),
            ),
            mistake(at_half, when=both(lambda s: ((nonzero * s).abs() < least / 2).double().mean().item())),
            mistake(rounded, when=both(lambda s: ((nonzero * s).abs() < least).double().mean().item())),
            mistake(tiny, when=both(lambda s: ((nonzero * s).abs() < torch.finfo(dtype).tiny).double().mean().item())),
            mistake(per_tensor, when=both(in_each)),
            mistake(after_cast, when=both(lambda s: right["lost"])),
        )

    too_small = mistake(
        "A larger power of two still fits: the rounding of the cast allows a little more than finfo.max.",
        when=lambda seen: 0 < seen["scale"] < expected["scale"],
    )
    test.hidden("the largest magnitude is negative; a range too wide for any scale")
    some_grads = [torch.tensor([3e-2, -700.0, 5e-7]), torch.tensor([[2e-12], [-5e-13], [4e-9]])]
    expected = by_trying(some_grads)
    judge(
        observe(scale_window, some_grads),
        expected,
        mistake(
            "The largest MAGNITUDE decides: a large negative entry also overflows.",
            when=lambda seen: seen["scale"] == 2.0**21,  # what fits the largest positive entry, 0.03
        ),
        mistake(after_cast, when=shares(expected["lost"], expected["lost"])),
        mistake(zeros_counted, when=shares(expected["lost"], 0.0)),
        mistake(tiny, when=shares(None, 4 / 6)),
        *misread(some_grads),
    )
    some_grads = [torch.tensor([-3.0, -1e-9]), torch.tensor(-2e-3)]  # nothing positive at all
    expected = by_trying(some_grads)
    judge(
        observe(scale_window, some_grads),
        expected,
        mistake(
            "The largest MAGNITUDE decides: a large negative entry also overflows.",
            when=lambda seen: not 0.1 < seen["scale"] / expected["scale"] < 10,
        ),
    )

    test.hidden("huge gradients need a scale below 1")
    for some_grads in ([torch.tensor([3e7, -4e5, 1e-4])], [torch.tensor([-2e37, 5e30]), torch.tensor([[1e3]])]):
        expected = by_trying(some_grads)
        seen = observe(scale_window, some_grads)
        judge(
            seen,
            expected,
            mistake(
                "The scale may be below 1: large gradients need scaling down.",
                when=lambda seen: seen["scale"] >= 1,
            ),
            *misread(some_grads),
        )

    test.hidden("the edge of overflow: 65519 fits, 65520 does not")
    for largest in (65519.0, 65520.0, 65504.0, 65505.0, 32760.0, 32759.99, -65519.0, -65520.0):
        some_grads = [torch.tensor([1.0, largest, 1e-3])]
        expected = by_trying(some_grads)
        judge(observe(scale_window, some_grads, torch.float16), expected, too_small, *misread(some_grads))
    bf16_edge = torch.tensor(3.3961e38)  # above bfloat16's largest, but rounded down to it
    for largest in (bf16_edge, bf16_edge / 2.0**90, torch.tensor(3.4e38)):
        some_grads = [largest[None], torch.tensor([1.0])]
        expected = by_trying(some_grads, torch.bfloat16)
        judge(observe(scale_window, some_grads, torch.bfloat16), expected, too_small)

    test.hidden("tiny gradients: the scale itself is larger than any float32")
    for some_grads, low in (
        ([torch.tensor([1e-8, -3e-20, 2e-30])], torch.bfloat16),
        ([torch.tensor([1e-38, -3e-40, 2e-44])], torch.bfloat16),
        ([torch.tensor([2e-37, 1e-44])], torch.float16),
    ):
        expected = by_trying(some_grads, low)
        seen = observe(scale_window, some_grads, low).expecting(
            *misread(some_grads, low),
            mistake(overflow, stage="raised"),
            mistake(
                overflow,
                stage="value",
                when=lambda seen, right=expected["scale"]: seen["scale"] in (*float32_ends, right),
            ),
        )
        judge(seen, expected)

    test.hidden("tensors of very different size; entries at the limit of 2**-25")
    limit = torch.tensor(2.0**-25)
    above, below = (torch.nextafter(limit, torch.tensor(end)) for end in (1.0, 0.0))
    some_grads = [torch.full((300,), 0.25), torch.stack([limit, above, below, -limit]), below.expand(200).clone()]
    expected = by_trying(some_grads)
    judge(
        observe(scale_window, some_grads),
        expected,
        mistake(per_tensor, when=shares((0 + 3 / 4 + 1) / 3, None)),
        *misread(some_grads),
    )
    some_grads = [torch.tensor([4.0]), torch.tensor([2.0**-39, 2.0**-40, -(2.0**-39) * 1.001, 2.0**-38])]
    expected = by_trying(some_grads)
    judge(observe(scale_window, some_grads), expected, *misread(some_grads))

    test.hidden("gradients of a deep network; shapes () and (0,) among them")
    layers = [layer for _ in range(9) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
    network = nn.Sequential(*layers, nn.Linear(8, 1))
    grads = torch.autograd.grad(network(torch.randn(16, 8)).square().mean(), list(network.parameters()))
    some_grads = [*grads, torch.tensor(-0.5), torch.empty(0), torch.tensor(0.0)]
    for low in (torch.float16, torch.bfloat16):
        expected = by_trying(some_grads, low)
        seen = observe(scale_window, some_grads, dtype=low)
        judge(seen, expected, *misread(some_grads, low))
        seen.leaves_arguments_alone()
    ### END HIDDEN TESTS
