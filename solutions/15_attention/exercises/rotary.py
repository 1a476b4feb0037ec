# %% [markdown]
# ### Exercise 15.8 · Positions as angles
#
# implement · solid · 25 min · 2 points
#
# Turn queries and keys by their positions, and carry weights over from a model that pairs other numbers.
#
# **Contract**
#
# - `rotate(x, positions, base)`: x is (B, H, T, D) with an even D. Entry i of the first half of a head and entry i of
#   its second half (i = 0 … D/2 - 1) are a pair (a, b). For a token at position p, the pair is turned by the angle
#   p · base^(-2i/D): it becomes (a cos - b sin, a sin + b cos).
# - `positions` is (T,) for all rows or (B, T), one row of positions for each row of x, int32 or int64, from 0 to
#   100,000 and in any order.
# - Positions, angles, cos, sin and the products are float32, whatever the dtype of x is and whether autocast is on or
#   not. The result has the dtype of x and is rounded once, at the end. For a float64 x, float32 is enough.
# - Gradients reach x.
# - `to_halves(weight, heads)`: some models pair the neighbours 2i and 2i + 1 of a head. The function takes the weight
#   of a query or key projection, (heads * D, E), that was trained for such a model. It returns the weight with its rows
#   reordered within each head, so that after `rotate` all scores q · k are what they were there. A bias (heads * D,) is
#   reordered in the same way.
# - Neither function changes its arguments.
#
# <details><summary>Hint 1</summary>
#
# Write it for D = 2 first: which two numbers form the pair, and what is the angle? Which part changes if D is 4?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A position and a pair make an angle, so there is one more dimension behind the positions. Between rows and positions,
# x has a dimension for the heads, and the angles need one as well. Autocast lets a product of two numbers stay in
# float32, but computes matrix products in bfloat16.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In `rotate`, widen x before the first product and narrow the result after the last one. In `to_halves`, the rows of a
# head are pairs of neighbours: see them as (D/2, 2), exchange these two dimensions, and all first entries of the pairs
# stand before all second ones.
#
# </details>


# %% answer="rotary"
### BEGIN SOLUTION
def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Queries or keys (B, H, T, D) turned by the angles of their positions; same shape and dtype.

    positions: (T,) or (B, T), integers.
    """
    D = x.shape[-1]
    frequencies = base ** (-torch.arange(0, D, 2, dtype=torch.float32) / D)
    angles = positions[..., None, :, None].float() * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


def to_halves(weight: Tensor, heads: int) -> Tensor:
    """A projection (heads * D, E), or its bias (heads * D,), from neighbours to halves."""
    pairs = weight.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


### END SOLUTION
### BEGIN GIVEN
# def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
#     """Queries or keys (B, H, T, D) turned by the angles of their positions; same shape and dtype.
#
#     positions: (T,) or (B, T), integers.
#     """
#     raise NotImplementedError  # your code here
#
#
# def to_halves(weight: Tensor, heads: int) -> Tensor:
#     """A projection (heads * D, E), or its bias (heads * D,), from neighbours to halves."""
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="rotary"
def some(seed, *size):
    """Random numbers of this size."""
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def turned(x, positions, base=10000.0, *, pairs="halves", way=1, exponent=2, first=0, dtype=torch.float64):
    """x turned by its positions, with the angles in a dtype; by default the right thing, in float64."""
    D = x.shape[-1]
    index = torch.arange(first, D // 2 + first, dtype=torch.float64)
    positions = positions[:, None, :, None] if positions.dim() == 2 else positions[:, None]
    frequencies = float(base) ** (-exponent * index / D)
    angles = (positions.to(dtype) * frequencies.to(dtype)).double() * way
    a, b = x.double().chunk(2, -1) if pairs == "halves" else (x.double()[..., 0::2], x.double()[..., 1::2])
    a, b = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.cat([a, b], -1) if pairs == "halves" else torch.stack([a, b], -1).flatten(-2)


def close(came, wanted, atol):
    """Whether a tensor has this shape and these values."""
    same_shape = isinstance(came, Tensor) and came.shape == wanted.shape
    return same_shape and torch.allclose(came.double(), wanted.double(), rtol=0, atol=atol)


def judge_turned(seen, x, positions, base=10000.0, *mistakes, because=""):
    """x is as it was, and the result is x turned by its positions."""
    seen.that(isinstance(seen.value, Tensor), "`rotate` must return a tensor.", stage="type")
    seen.leaves_arguments_alone(
        because="`rotate` changed x in place ({detail}). For float32, `x.float()` is x itself and no copy."
    )
    variants = {
        "You paired the neighbours 2i and 2i + 1 of a head. Here entry i of the first half goes with entry i of the "
        "second half.": [{"pairs": "neighbours"}],
        "You turned the other way round: (a, b) must become (a cos - b sin, a sin + b cos).": [{"way": -1}],
        "Your angles are too close to each other: the angle of pair i is p · base^(-2i/D), with the 2 in the "
        "exponent.": [{"exponent": 1}],
        "Your pairs are counted from 1, so the first one turns too slowly: i goes from 0 to D/2 - 1.": [{"first": 1}],
        "`base` makes no difference in your result. It is an argument, and 10000 only its default.": [
            {"base": 10000.0}
        ],
    }
    seen.that(
        close(seen.value, turned(x, positions, base), 1e-4),
        because
        or "The result is not x with each pair turned by the angle p · base^(-2i/D): entry i of the first half with "
        "entry i of the second half.",
        *mistakes,
        *[
            mistake(
                sentence,
                when=lambda seen, how=how: close(seen.value, turned(x, positions, **({"base": base} | how)), 1e-4),
            )
            for sentence, ways in variants.items()
            for how in ways
        ],
    )
    seen.that(
        seen.value.dtype == x.dtype, "The result must have the dtype of x: {detail}.", stage="dtype",
        detail=f"x is {x.dtype}, and your result {seen.value.dtype}",
    )  # fmt: skip


# %% check="rotary" points=1
"""`rotate`: the pairs, the angles, positions for each row, and the gradient."""
with check("rotary") as test:
    test("one row of six positions, two heads of eight numbers")
    x = some(1, 1, 2, 6, 8)
    judge_turned(observe(rotate, x, torch.arange(6)), x, torch.arange(6))

    test("another base, and positions in another order")
    positions = torch.tensor([7, 0, 3, 12, 1, 2])
    judge_turned(observe(rotate, x, positions, 100.0), x, positions, 100.0)

    test("two rows with positions of their own")
    x, positions = some(2, 2, 3, 4, 6), torch.tensor([[0, 1, 2, 3], [9, 10, 11, 40]])
    rows = mistake(
        "`positions` is (B, T) here, with other positions for each row of the batch, and x is (B, H, T, D). The angles "
        "need a dimension for the heads between the two: (B, 1, T, D/2). {detail}.",
        raises="must match the|broadcast",
    )
    every = mistake(
        "You turned both rows of the batch by the positions of one row. Here each row has its own.",
        when=lambda seen: any(close(seen.value, turned(x, row), 1e-4) for row in positions),
    )
    heads = mistake(
        "Each row of the batch must be turned by its own positions, and all heads of a row by the same ones.",
        stage="value",
    )
    judge_turned(observe(rotate, x, positions).expecting(rows), x, positions, 10000.0, every, heads)

    test("as many rows as heads, so that a forgotten dimension doesn't raise")
    x = some(3, 2, 2, 4, 6)
    every = mistake(
        "You turned both rows of the batch by the positions of one row. Here each row has its own.",
        when=lambda seen: any(close(seen.value, turned(x, row), 1e-4) for row in positions),
    )
    by_head = mistake(
        "With as many rows as heads, head j was turned by the positions of row j: the angles need a dimension for the "
        "heads, (B, 1, T, D/2).",
        when=lambda seen: close(seen.value, turned(x.transpose(0, 1), positions).transpose(0, 1), 1e-4),
    )
    judge_turned(observe(rotate, x, positions), x, positions, 10000.0, every, by_head)

    test("the gradient of x")
    x = some(4, 1, 2, 5, 4).requires_grad_()
    seen = observe(rotate, x, torch.arange(5))
    judge_turned(seen, x.detach(), torch.arange(5))
    seen.gives_gradients(
        lambda x, positions: turned(x, positions).float(),
        because="The result is right, but no gradient reaches x, or a wrong one. Compute with x itself, not with "
        "detached copies.",
        rtol=1e-3,
        atol=1e-4,
    )

# %% check="rotary" points=1
"""Half precision, autocast, long positions; weights of a model that pairs neighbours."""
with check("rotary") as test:
    test("one row of six positions, two heads of eight numbers")
    x = some(1, 1, 2, 6, 8)
    seen = observe(rotate, x, torch.arange(6)).expecting(FIRST_CHECK_FIRST)
    judge_turned(seen, x, torch.arange(6), 10000.0, FIRST_CHECK_FIRST)

    def by_index(weight, heads, order):
        """The rows of a weight in another order, given for one head."""
        D = weight.shape[0] // heads
        return weight[torch.cat([order(D) + head * D for head in range(heads)])]

    def halves(D):
        """Even rows, then odd ones."""
        return torch.cat([torch.arange(0, D, 2), torch.arange(1, D, 2)])

    test("to_halves: two heads of six numbers")
    weight = some(5, 12, 5)
    seen = observe(to_halves, weight, 2)
    seen.that(isinstance(seen.value, Tensor), "`to_halves` must return a tensor.", stage="type")
    seen.leaves_arguments_alone(because="`to_halves` changed the weight in place ({detail}). Return a new tensor.")
    right = by_index(weight, 2, halves)
    seen.that(
        close(seen.value, right, 0),
        "Row 2i of a head must go to place i of that head, and row 2i + 1 to place D/2 + i. Then `rotate`, which pairs "
        "i and D/2 + i, turns the same two numbers by the same angle.",
        mistake("The weight came back as it was. Its rows must be reordered.", gives=weight),
        mistake(
            "You reordered across the heads: all even rows of the whole weight stand before all odd ones. Reorder "
            "within each head, D rows at a time.",
            gives=by_index(weight, 1, halves),
        ),
        mistake(
            "That is the way back, from halves to neighbours. Here place i of a head gets its row 2i.",
            gives=by_index(weight, 2, lambda D: halves(D).argsort()),
        ),
        mistake(
            "You reordered the columns. The rows of a projection belong to the numbers of its result, and these are to "
            "be paired otherwise.",
            when=lambda seen: seen.value.shape == weight.shape and close(seen.value.sum(1), weight.sum(1), 1e-5),
        ),
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("bfloat16 and float16 at positions around 4000")
    few = (
        "The angles are computed in too few digits. bfloat16 can't tell position 256 from 257, so positions, angles, "
        "cos and sin must be float32, whatever the dtype of x is."
    )
    positions = torch.tensor([3999, 256, 257, 4001, 1, 0])
    for dtype in (torch.bfloat16, torch.float16):
        x = some(8, 2, 4, 6, 32).to(dtype)
        seen = observe(rotate, x, positions)
        truth = turned(x, positions)
        seen.that(
            isinstance(seen.value, Tensor) and seen.value.shape == x.shape, "The result must have the shape of x."
        )
        seen.that(close(seen.value, truth, 0.05), few)
        seen.that(
            seen.value.dtype == dtype,
            "The result must have the dtype of x: {detail}.",
            stage="dtype",
            detail=f"x is {dtype}, and your result {seen.value.dtype}",
        )

    test.hidden("bfloat16 and float16, rounded once")
    for dtype in (torch.bfloat16, torch.float16):
        x = some(8, 2, 4, 6, 32).to(dtype)
        seen = observe(rotate, x, torch.arange(6))
        right = turned(x, torch.arange(6))
        seen.that(
            torch.allclose(seen.value.double(), right.double(), rtol=0.05, atol=0.05),
            "Your result isn't x, turned by the angles of the positions 0 to 5. These angles must come from the "
            "positions of this call, not from an earlier one.",
        )
        nearest = (seen.value == right.to(dtype)).double().mean().item()
        seen.that(
            nearest > 0.97,
            "Your result is rounded more than once: many of its numbers are not the nearest ones to the float32 "
            "result. cos and sin, or the products with them, were rounded to the dtype of x. Widen x first, and "
            "narrow the result at the end.",
        )

    def under_autocast(rotate, x, positions):
        """Call rotate under autocast to bfloat16 on the CPU."""
        with torch.autocast("cpu", torch.bfloat16):
            return rotate(x, positions)

    test.hidden("under autocast")
    x = some(9, 1, 2, 6, 16)
    seen = observe_scenario(under_autocast, rotate, x, positions)
    seen.that(
        close(seen.value, turned(x, positions), 5e-3),
        "Under autocast, your angles are computed in bfloat16. A matrix product (`@`, einsum) is cast there, "
        "a product of numbers that broadcasts isn't. Position 257 becomes 256.",
        mistake(
            "Under autocast your angles are right, but the turned numbers have only two or three digits. A matrix "
            "product (`@`, einsum) is cast to bfloat16 there, a product of numbers that broadcasts isn't. So multiply "
            "by cos and sin number by number.",
            when=lambda seen: close(seen.value, turned(x, positions), 0.1),
        ),
    )
    seen.that(
        seen.value.dtype == torch.float32,
        "Under autocast too, the result must have the dtype of x: {detail}.",
        stage="dtype",
        detail=f"x is float32, and your result {seen.value.dtype}",
    )

    test.hidden("positions up to 100,000, with another base")
    positions = torch.tensor([100_000, 65_537, 4096, 70_000, 99_999])
    x = some(10, 2, 1, 5, 8)
    for base in (10000.0, 500000.0):
        seen = observe(rotate, x, positions, base)
        seen.expecting(
            mistake(
                "At positions up to 100,000 your code raised an exception. A table that is made for fewer positions "
                "is too short: compute the angles of the positions that are given.",
                stage="raised",
            )
        )
        seen.that(
            close(seen.value, turned(x, positions, base), 0.02),
            "At positions up to 100,000 the result is wrong, although it is right at small ones. Don't cut positions "
            "off, and multiply them as float32.",
            FIRST_CHECK_FIRST,
        )

    def in_turn(rotate, x):
        """Call rotate for the first positions, and then for later ones, with the same sizes."""
        first = torch.arange(x.shape[2])
        return [rotate(x, first), rotate(x, first + 50), rotate(x, first + 50, 100.0), rotate(x.double(), first)]

    test.hidden("the same sizes again, with other positions, another base and float64")
    x = some(11, 1, 1, 3, 4)
    seen = observe_scenario(in_turn, rotate, x)
    first = torch.arange(3)
    wanted = [(first, 10000.0), (first + 50, 10000.0), (first + 50, 100.0), (first, 10000.0)]
    seen.that(
        all(close(came, turned(x, *how), 1e-4) for came, how in zip(seen.value, wanted, strict=True)),
        "Called again with the same sizes, your `rotate` gave angles of an earlier call. What you keep between calls "
        "must not depend on other positions or another base.",
    )
    seen.that(
        seen.value[3].dtype == torch.float64, "The result must have the dtype of x: {detail}.", stage="dtype",
        detail=f"x is float64, and your result {seen.value[3].dtype}",
    )  # fmt: skip

    test.hidden("to_halves: one head, four heads, a bias; scores as in the other model")
    for weight, heads in ((some(12, 8, 3), 1), (some(13, 16, 4), 4), (some(14, 16), 4), (some(15, 4), 2)):
        seen = observe(to_halves, weight, heads)
        a_bias = mistake(
            "A bias has one dimension, (heads * D,). Reorder the first dimension, whatever follows it.",
            when=lambda seen, weight=weight: weight.dim() == 1,
        )
        seen.leaves_arguments_alone(
            mistake("A bias must not be changed in place. Return a new tensor.", stage="arguments"), a_bias
        )
        seen.that(
            close(seen.value, by_index(weight, heads, halves), 0),
            "With another number of heads, the rows are not those that `rotate` pairs: row 2i of each head must go to "
            "its place i, and row 2i + 1 to place D/2 + i.",
            a_bias,
        )
    ### END HIDDEN TESTS
