# %% [markdown]
# ### Exercise 4.9 · A distance whose gradient survives zero
#
# implement · solid · 12 min · 1 point
#
# Contrastive losses, spread penalties and particle models all push points apart by their distances, and every point has
# distance 0 to itself. Compute the distances so that their gradient stays finite.
#
# **Contract**
#
# - `out[i, j]` is the Euclidean distance between rows i and j: exactly 0 on the diagonal and for equal rows. For any
#   other pair it is accurate to 1e-6 (relative, in float64), even for points that are 1e-7 apart and far from the
#   origin, unless the squared distance underflows.
# - The gradient is finite everywhere: pairs at distance 0 contribute 0, and all other pairs contribute their exact
#   gradient (unit vectors times the incoming gradient).
# - float32 and float64 keep their dtype. N = 0, N = 1 and D = 0 work. x is not changed. You may use an intermediate
#   tensor of shape (N, N, D).
#
# <details><summary>Hint 1</summary>
#
# What is the derivative of the square root at 0, and what is 0 times infinity? Does it help to fix the *output* at
# those places?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Fixing the result is too late: the zeros must not reach the root at all. Replace them with a harmless number before
# the root, and put a 0 in the same places after it.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Compute the squared distances from the differences of all pairs of rows. Select twice with the same condition, "the
# square is greater than 0": before the root, to use a 1 wherever the condition is false, and after the root, to put the
# 0 back there.
#
# </details>


# %% answer="distance-gradient"
def pairwise_distance(x: Tensor) -> Tensor:
    """Euclidean distances of all pairs of rows, (N, D) to (N, N); gradient 0 at distance 0."""
    ### BEGIN SOLUTION
    squares = (x[:, None] - x[None, :]).square().sum(-1)
    apart = squares > 0
    roots = torch.where(apart, squares, 1.0).sqrt()
    return torch.where(apart, roots, 0.0)
    ### END SOLUTION


# %% helpers="distance-gradient"
def pulls(x):
    """The gradient that the rows get: each pair pulls along the line between its points; equal rows don't pull."""
    weights, rows = incoming_gradient(torch.empty(len(x), len(x), dtype=x.dtype)).tolist(), x.tolist()
    gradient = torch.zeros_like(x)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            length = math.dist(a, b)
            if length > 0:
                gradient[i] += torch.tensor([weights[i][j] * (p - q) / length for p, q in zip(a, b, strict=True)])
                gradient[j] -= torch.tensor([weights[i][j] * (p - q) / length for p, q in zip(a, b, strict=True)])
    return gradient


def is_nan(seen):
    return seen.gradient(0).isnan().any()


at_zero = mistake(
    "The value is right, but the gradient is nan: at distance 0 the root has slope infinity, and 0 * inf is nan. "
    "Selecting or replacing after the root can't undo it; the zeros must not reach it.",
    when=is_nan,
)
missing = (
    mistake("No gradient reaches x.", when=lambda seen: not seen.error_text and seen.gradient(0) is None),
    mistake(
        "A result that backward needs was changed in place (section 4.7), such as that of the root. Make a new tensor.",
        raises="modified by an inplace operation",
    ),
    mistake("{detail}.", when=lambda seen: seen.noted.backward_raised is not None),
)
wrong_pull = "Pairs at a distance above 0 must keep their exact gradient, and the others contribute 0: {detail}."


# %% check="distance-gradient" points=0.5
"""The distances, and a gradient that is finite although every point has distance 0 to itself."""
with check("distance-gradient") as test:

    def between(x):
        """All differences of two rows."""
        return x[:, None] - x

    def lifted(seen):
        """Whether a distance that must be 0 is positive."""
        diagonal = seen.value.diagonal()
        return diagonal.isfinite().all() and diagonal.max() > 0

    known = (
        mistake("Those are squared distances.", gives=lambda x: between(x).square().sum(-1)),
        mistake("That is the sum of absolute differences.", gives=lambda x: between(x).abs().sum(-1)),
        mistake(
            "The squares are added up over the columns; you took their mean.",
            gives=lambda x: between(x).square().mean(-1).sqrt(),
        ),
        mistake(
            "Only one half of the matrix is filled: out[i, j] and out[j, i] are the same distance.",
            when=lambda seen: not seen.value.tril(-1).any() or not seen.value.triu(1).any(),
        ),
        mistake("All pairs make an (N, N) matrix: {detail}.", stage="shape"),
        mistake("The result is nan somewhere.", when=lambda seen: seen.value.isnan().any()),
        mistake(
            "Equal rows get a positive distance, and it must be 0: an eps added inside the root, or a bound from "
            "below, keeps zeros away from the root but changes the values.",
            stage="value",
            when=lifted,
        ),
    )

    three_points = torch.tensor([[0.0, 0], [3, 4], [0, 12]])
    test("(0, 0), (3, 4) and (0, 12): the distances")
    seen = observe(pairwise_distance, three_points)
    expected = torch.tensor([[0, 5, 12], [5, 0, 73**0.5], [12, 73**0.5, 0]])
    seen.returns(expected, *known, rtol=1e-6, atol=0)
    seen.leaves_arguments_alone()

    test("(0, 0), (3, 4) and (0, 12): the gradient")
    seen = observe(pairwise_distance, three_points.clone().requires_grad_())
    seen.gives_gradients({0: pulls(three_points)}, *missing, at_zero, because=wrong_pull)

    ### BEGIN HIDDEN TESTS
    def norms(x):
        """The distances by norms of the differences."""
        return torch.stack([torch.stack([(a - b).abs().square().sum() ** 0.5 for b in x]) for a in x])

    test.hidden("seven points in three dimensions")
    some_points = torch.randn(7, 3, generator=torch.Generator().manual_seed(8))
    seen = observe(pairwise_distance, some_points.clone().requires_grad_())
    seen.returns(norms(some_points), *known, rtol=1e-4, atol=0)
    seen.gives_gradients({0: pulls(some_points)}, *missing, at_zero, because=wrong_pull, rtol=1e-3, atol=1e-4)
    ### END HIDDEN TESTS

# %% check="distance-gradient" points=0.5
"""Equal rows, close points, any shape and dtype: values and gradient."""
with check("distance-gradient") as test:

    def pair_by_pair(x):
        """The distances by Python's math.dist, in the dtype of x."""
        rows = x.tolist()
        return torch.tensor([[math.dist(a, b) for b in rows] for a in rows], dtype=x.dtype)

    def far_off(seen):
        """Whether distances are wrong by more than rounding, eps and the like."""
        expected = torch.linalg.vector_norm(seen.args[0].detach()[:, None] - seen.args[0].detach(), dim=-1)
        return seen.value.shape != expected.shape or not torch.allclose(seen.value, expected, rtol=1e-2, atol=1e-4)

    values_first = mistake("The distances themselves are not right yet: see the check above.", when=far_off)

    def lifted(seen):
        """Whether a distance that must be 0 is positive."""
        diagonal = seen.value.diagonal()
        return len(diagonal) and diagonal.isfinite().all() and diagonal.max() > 0

    positive = mistake("Equal rows get a positive distance, and it must be 0.", stage="value", when=lifted)

    test("five points in three dimensions, float64; two of them are equal")
    some_points = torch.tensor(
        [[0.5, -1.25, 2.0], [1.5, 0.75, -0.5], [-2.0, 0.25, 1.0], [1.5, 0.75, -0.5], [3.0, -1.5, 0.1]]
    ).double()
    seen = observe(pairwise_distance, some_points.clone().requires_grad_())
    keeps_dtype = mistake("The distances have the dtype of x: {detail}.", stage="dtype")
    seen.returns(pair_by_pair(some_points), keeps_dtype, values_first, positive, rtol=1e-6, atol=0)
    seen.gives_gradients(
        {0: pulls(some_points)},
        *missing,
        mistake(
            "The diagonal is treated, other equal rows are not: {detail}.",
            when=lambda seen: is_nan(seen) and not seen.gradient(0)[[0, 2, 4]].isnan().any(),
        ),
        at_zero,
        because=wrong_pull,
    )
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    expanded = mistake(
        "The formula a^2 + b^2 - 2ab loses all digits for close points; torch.cdist computes like that by default from "
        "26 rows on (compute_mode). Subtract first.",
        when=lambda seen: (seen.value - pair_by_pair(seen.args[0])).abs().max() > 1e-12,
    )
    generator = torch.Generator().manual_seed(7)
    close = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    close = torch.cat([close, close + torch.tensor([1e-7, 0, 0]).double()])
    tiny = mistake(
        "Small distances became 0: only distance 0 itself is special.",
        when=lambda seen: not seen.value.diagonal(20).any(),
    )
    shifted = mistake(
        "Small distances are off by a constant: an eps inside the root must not be seen in the result.",
        when=lambda seen: seen.value.diagonal(20).std() < 1e-3 * seen.value.diagonal(20).mean(),
    )
    tiny_steps = torch.cat([close[:20] * 0, close[:20] * 0 + torch.tensor([1e-11, 0, 0]).double()])
    for idea, some_points in [
        ("points 1e-7 apart", close),
        ("points 1e-7 apart, far from the origin", close + 1000),
        ("points 1e-11 apart", tiny_steps),
        ("points 1e-7 apart, float32", (tiny_steps * 1e4).float()),
    ]:
        test.hidden(idea)
        seen = observe(pairwise_distance, some_points)
        seen.returns(pair_by_pair(some_points), tiny, shifted, expanded, rtol=1e-6, atol=0)

    test.hidden("40 rows, float32: 0 on the diagonal, symmetric")
    some_points = torch.randn(40, 3, generator=generator)
    seen = observe(pairwise_distance, some_points)
    seen.returns(pair_by_pair(some_points), values_first, rtol=1e-5, atol=0)

    for idea, some_points in [
        ("no rows", torch.empty(0, 3)),
        ("one row", torch.tensor([[1.5, 2.5]])),
        ("no columns", torch.empty(3, 0)),
        ("one column", torch.tensor([[1.0], [4.0], [-2.5]])),
        ("all rows equal", torch.tensor([[0.1, 0.7, 1.3]]).expand(4, 3).clone()),
        ("not contiguous", torch.randn(3, 4, generator=generator).t()),
    ]:
        test.hidden(idea)
        any_shape = mistake(f"It must also work for {idea}: {{detail}}.", stage=("raised", "shape"))
        seen = observe(pairwise_distance, some_points)
        n = len(some_points)
        expected = pair_by_pair(some_points) if some_points.numel() else torch.zeros(n, n)
        seen.returns(expected, any_shape, values_first)
        seen.leaves_arguments_alone()

    generator = torch.Generator().manual_seed(8)
    close = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    for idea, some_points in [
        ("seven points in float64", torch.randn(7, 3, generator=generator, dtype=torch.float64)),
        ("points 1e-7 apart", torch.cat([close, close + torch.tensor([1e-7, 0, 0]).double()])),
        ("40 rows, far from the origin", torch.randn(40, 2, generator=generator, dtype=torch.float64) + 100),
        ("all rows equal", torch.tensor([[0.1, 0.7, 1.3]]).expand(4, 3).clone()),
        ("one row", torch.tensor([[1.5, 2.5]])),
        ("one column", torch.tensor([[1.0], [4.0], [-2.5], [4.0]])),
        ("not contiguous", torch.randn(3, 4, generator=generator).t()),
    ]:
        test.hidden(idea)
        seen = observe(pairwise_distance, some_points.requires_grad_())
        seen.gives_gradients({0: pulls(some_points.detach())}, *missing, at_zero, because=wrong_pull)

    test.hidden("no rows, and no columns")
    seen = observe(pairwise_distance, torch.empty(0, 3))
    seen.that(
        "_pdist_forward" not in seen.op_names(),
        "For an x without rows, PyTorch's backward of F.pdist ends the whole process. Return early there.",
        stage="gradient",
    )
    for size in ((0, 3), (3, 0)):
        seen = observe(pairwise_distance, torch.empty(size, requires_grad=True))
        seen.returns(torch.zeros(size[0], size[0]))
        seen.that(seen.noted.backward_raised is None, "Backward raised for an empty x.", stage="gradient")
    ### END HIDDEN TESTS
