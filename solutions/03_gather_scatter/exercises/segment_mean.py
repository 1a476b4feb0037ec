# %% [markdown]
# ### Exercise 3.7 · Mean per group
#
# implement · solid · 15 min · 3 points
#
# Pooling the atoms of each molecule, the tokens of each document, the clicks of each user: rows that belong together
# are averaged, in one go, with gradients. Graph networks hardly do anything else.
#
# **Contract**
#
# - `out[s]` is the mean of the rows of `values` whose segment is s. A segment without rows gives 0, without nan in
#   value or gradient. Segments need not be sorted. A nan in a row makes the mean of its own segment nan, and of no
#   other.
# - `values` is (N, ...) with any trailing shape, none included; the result is (num_segments, ...) with the dtype and
#   on the device of `values`. Rows are counted exactly, also where `values` is half precision. The gradient of a row
#   is its segment's gradient divided by the segment's size. The arguments are not changed.
# - A segment number outside 0..num_segments-1 raises IndexError, RuntimeError or ValueError.
#
# **Rule.** No Python loop over rows or segments: the number of operations does not grow with either (it is recorded
# for 5 segments and for 50).
#
# <details><summary>Hint 1</summary>
#
# If every row is added to the row of its segment, what else must be known to turn the sums into means, and what
# happens where it is 0?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two additions by index: one of the rows, one of ones (the sizes); then divide by sizes that are at least 1. With
# `scatter_reduce('mean')` instead, look at `include_self`, and remember that index needs the full shape of values.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The sums are `values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)`. The sizes likewise,
# but in int64, which counts exactly: `segment.new_zeros(num_segments)` gets `torch.ones_like(segment)`. Then
# `.clamp(min=1)`, reshape the sizes to one dimension of size 1 for each trailing dimension of `values`, and divide.
#
# </details>


# %% answer="segment-mean"
def segment_mean(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """The mean of the rows of each segment; zeros for a segment without rows.

    values: (N, ...) floating point; segment: (N,) int64;
    returns (num_segments, ...) in the dtype of values.
    """
    ### BEGIN SOLUTION
    trailing = values.shape[1:]
    sums = values.new_zeros(num_segments, *trailing).index_add(0, segment, values)
    sizes = torch.zeros(num_segments, dtype=torch.int64, device=values.device)
    sizes = sizes.index_add(0, segment, torch.ones_like(segment)).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * len(trailing))
    ### END SOLUTION


# %% check="segment-mean" points=2
"""The mean of the rows of each segment, without a loop."""
with check("segment-mean") as test:
    test("six rows, three unsorted segments of different sizes")
    rows = torch.tensor(
        [[1.0, -2, 9], [4, 6, 1], [7, 3, 5], [8, -1, 2], [3, 10, -4], [2, 4, 7]],
    )
    unsorted = torch.tensor([2, 0, 1, 0, 2, 2])
    means = torch.tensor([[6.0, 2.5, 1.5], [7, 3, 5], [2, 4, 4]])
    sizes = torch.tensor([[2.0], [1.0], [3.0]])
    loose_rows = "A scatter without a reduction keeps one row per segment."
    seen = observe(segment_mean, rows, unsorted, 3)
    seen.returns(
        means,
        mistake(
            "The zeros you started from were averaged in: scatter_reduce counts the target's old value "
            "unless include_self=False.",
            gives=means * sizes / (sizes + 1),
        ),
        mistake("Those are sums: divide by the number of rows in the segment.", gives=means * sizes),
        mistake("You divided by the number of all rows, not by each segment's own.", gives=means * sizes / 6),
        mistake("You divided by the number of segments, not by each segment's size.", gives=means * sizes / 3),
        mistake(loose_rows, gives=torch.stack([rows[3], rows[2], rows[5]])),
        mistake(loose_rows, gives=torch.stack([rows[3], rows[2], rows[5]]) / sizes),
        mistake(loose_rows, gives=torch.stack([rows[1], rows[2], rows[0]])),
        mistake(
            "You assumed sorted segments: the same number may come back later, and only its last run was counted.",
            gives=torch.stack([rows[3], rows[2], rows[4:].mean(0)]),
        ),
        mistake(
            "You assumed sorted segments: every run of equal numbers became a segment of its own.",
            gives=torch.stack([rows[0], rows[1], rows[2], rows[3], rows[4:].mean(0)]),
        ),
        mistake(
            "Only the first column was reduced: scatter does not broadcast an (N, 1) index over the columns, it uses "
            "the corner. Expand the index to the shape of values.",
            when=lambda seen: seen.value[:, 0].ne(0).all() and seen.value[:, 1:].eq(0).all(),
        ),
        mistake(
            "Only the first column was reduced: scatter does not broadcast an (N, 1) index over the columns, it uses "
            "the corner. Expand the index to the shape of values.",
            shape=(3, 1),
        ),
        mistake(
            "A scatter needs an index with as many dimensions as values: expand segment to the shape of values.",
            raises="same number of dimensions",
        ),
    )

    test("as many operations for 50 segments as for 5")
    calls = {}
    for count in (5, 50):
        two_each = torch.arange(count).repeat(2)
        seen = observe(segment_mean, torch.arange(2.0 * count)[:, None] + 1, two_each, count)
        seen.returns(torch.arange(1.0, count + 1)[:, None] + count / 2)
        calls[count] = len(seen.op_names())
    seen.that(
        calls[50] == calls[5],
        f"The number of operations grows with the number of segments: {calls[5]} for 5, {calls[50]} for 50. "
        "One indexed addition handles all of them.",
        stage="rule",
    )

# %% check="segment-mean" points=1
"""Segments without rows, zeros, nan, gradients, shapes and dtypes; wrong segments are refused."""
with check("segment-mean") as test:
    not_yet = mistake(
        "The first check is not passed yet, and this one goes on from there: begin with that one.",
        when=lambda seen: True,
    )

    test("six rows, three unsorted segments; the arguments are not changed")
    rows = torch.tensor(
        [[1.0, -2, 9], [4, 6, 1], [7, 3, 5], [8, -1, 2], [3, 10, -4], [2, 4, 7]],
    )
    seen = observe(segment_mean, rows, torch.tensor([2, 0, 1, 0, 2, 2]), 3)
    seen.returns(torch.tensor([[6.0, 2.5, 1.5], [7, 3, 5], [2, 4, 4]]), not_yet)
    seen.leaves_arguments_alone()

    zeros_count = "A zero is a value like any other: count the rows of a segment, not the values that are not 0."

    test("zeros count: the mean of 0 and 2 is 1, and a row of zeros is a row")
    seen = observe(segment_mean, torch.tensor([[0.0, 8], [2, 0], [0, 0], [0, 4]]), torch.tensor([0, 0, 1, 1]), 2)
    seen.returns(
        torch.tensor([[1.0, 4], [0, 2]]),
        mistake(zeros_count, gives=torch.tensor([[2.0, 8], [0, 4]])),
        mistake(zeros_count, gives=torch.tensor([[1.0, 4], [0, 4]])),
    )

    test("segments without rows give 0")
    gaps = torch.tensor([3, 1, 1, 3, 3, 1])
    seen = observe(segment_mean, rows, gaps, 6)
    seen.returns(
        torch.stack(
            [torch.zeros(3), rows[[1, 2, 5]].mean(0), torch.zeros(3), rows[[0, 3, 4]].mean(0), *torch.zeros(2, 3)]
        ),
        mistake(
            "A segment without rows gives 0 / 0: {detail}. Divide by sizes of at least 1.",
            when=lambda seen: not seen.value.isfinite().all(),
        ),
        mistake("Segments without rows must be there too (as zeros): {detail}", stage="shape"),
    )

    test("the gradient of a row is its segment's gradient divided by the size")
    seen = observe(segment_mean, rows.clone().requires_grad_(), gaps, 6)
    upstream = incoming_gradient(torch.zeros(6, 3))
    seen.gives_gradients(
        {0: torch.stack([upstream[s] / 3 for s in gaps.tolist()])},
        mistake(
            "A segment without rows put nan into the gradient: divide by sizes of at least 1.",
            when=lambda seen: seen.gradient(0).isnan().any(),
        ),
        mistake(
            "No gradient reaches the values: something on the way cuts the graph, or has no derivative.",
            when=lambda seen: seen.gradient(0) is None,
        ),
        mistake(
            "That is the gradient of the sum: a row of a segment of size 3 gets a third of it.",
            when=lambda seen: torch.allclose(seen.gradient(0), torch.stack([upstream[s] for s in gaps.tolist()])),
        ),
    )

    ### BEGIN HIDDEN TESTS
    def reference(values, segment, num_segments):
        """Means by a loop over the segments."""
        rows_of = [values[segment == s] for s in range(num_segments)]
        return torch.stack([rows.mean(0) if len(rows) else values.new_zeros(values.shape[1:]) for rows in rows_of])

    def slightly_less(seen):
        """Whether all means are a little too near to zero."""
        true = reference(*seen.args)
        return torch.allclose(seen.value, true, rtol=1e-3) and bool((seen.value.abs() <= true.abs()).all())

    g = torch.Generator().manual_seed(7)
    more = torch.rand(6, 2, 3, generator=g) + 0.5
    any_shape = mistake(
        "The rows may have any trailing shape, none included: the sizes need as many dimensions as values, all but the "
        "first of size 1.",
        raises=r"Dimension out of range|tuple index out of range|must match|shape mismatch",
    )
    for idea, some_values, some_segments, count in [
        ("values (N,)", torch.rand(6, generator=g) + 1, [2, 0, 1, 0, 2, 2], 4),
        ("values (N, 2, 3)", more, [2, 0, 1, 0, 2, 2], 4),
        ("values that are not contiguous", more.permute(2, 1, 0), [3, 0, 3], 5),
        ("one segment only", more, [2] * 6, 4),
        ("a single segment", more, [0] * 6, 1),
        ("every row its own segment", more, [5, 1, 4, 0, 3, 2], 6),
        ("a segment that comes back after another one", more, [1, 1, 0, 0, 1, 1], 2),
    ]:
        test.hidden(idea)
        seen = observe(segment_mean, some_values, torch.tensor(some_segments), count)
        seen.returns(reference, any_shape)
        seen.leaves_arguments_alone()

    test.hidden("no rows at all")
    seen = observe(segment_mean, torch.empty(0, 3), torch.empty(0, dtype=torch.int64), 2)
    seen.returns(torch.zeros(2, 3))

    test.hidden("float64 to its full precision, float16 and bfloat16 kept")
    for dtype, rtol in ((torch.float64, 1e-13), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
        some_values = (torch.rand(7, 3, generator=g, dtype=torch.float64) + 0.5).to(dtype)
        seen = observe(segment_mean, some_values, torch.tensor([2, 0, 1, 0, 2, 2, 4]), 5)
        seen.returns(
            reference,
            mistake("The result must have the dtype of values: {detail}", stage="dtype"),
            mistake("The result must have the dtype of values: {detail}", raises="dtype|scalar type"),
            mistake(
                "Adding a small number to the sizes makes every mean slightly wrong: clamp the sizes instead.",
                when=slightly_less,
            ),
            mistake(
                "This is float32 precision in a float64 tensor: compute in the dtype of values.",
                when=lambda seen: seen.looks_like(reference) and seen.value.dtype == torch.float64,
            ),
            rtol=rtol,
            atol=0,
        )

    test.hidden("a nan row makes its own segment nan, and only that; so does inf")
    for bad in (torch.nan, torch.inf):
        some_values = torch.rand(5, 2, generator=g) + 0.5
        some_values[1] = bad
        seen = observe(segment_mean, some_values, torch.tensor([0, 2, 3, 2, 0]), 5)
        seen.returns(
            reference,
            mistake(
                "A nan that was in the data has disappeared: repair the empty segments, not every nan.",
                when=lambda seen: seen.value.isfinite().all(),
            ),
            mistake(
                "A nan in one segment spoiled the others: 0 * nan is nan, so a product with a 0/1 membership matrix "
                "does not keep segments apart.",
                when=lambda seen: seen.value[0].isnan().all() and seen.value[3].isnan().all(),
            ),
            mistake(
                "A nan or inf in one segment spoiled another: it stays in a running sum, and a difference of two "
                "sums does not take it out again.",
                when=lambda seen: seen.value[3].isnan().all(),
            ),
        )

    test.hidden("segments that do not exist are refused")
    wrong_kind = mistake(
        "A segment that does not exist raised another kind of exception: raise IndexError, RuntimeError or ValueError.",
        raises=".",
    )
    for number in (-1, 4, -4, 7):
        seen = observe(segment_mean, more, torch.tensor([0, 1, number, 1, 3, 0]), 4)
        seen.raises(
            IndexError, RuntimeError, ValueError, because=f"Segment {number} must raise.", mistakes=[wrong_kind]
        )

    test.hidden("the gradient for more dimensions")
    some_segments = torch.tensor([4, 0, 1, 0, 4, 4])
    seen = observe(segment_mean, more.clone().requires_grad_(), some_segments, 6)
    seen.gives_gradients(reference)

    test.hidden("the gradient where the rows of a segment sum to 0")
    cancelling = torch.cat([more[:3], -more[1:2], more[4:]]).requires_grad_()
    seen = observe(segment_mean, cancelling, some_segments, 6)
    seen.returns(reference)
    seen.gives_gradients(
        reference, because="A segment whose rows sum to 0 is not an empty one: ask for its size, not for its sum."
    )

    test.hidden("values on another device: the means are there too")
    seen = observe(segment_mean, torch.empty(3, 2, device="meta"), torch.zeros(3, dtype=torch.int64, device="meta"), 4)
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(4, 2, device="meta"),
            mistake("The result must be on the device of values: {detail}", stage=("raised", "device")),
        )  # (an answer that reads values raises something else: meta has none, and it is not judged here)

    test.hidden("2500 rows of half precision, all zero but one")
    for dtype in (torch.bfloat16, torch.float16):
        some_values = torch.zeros(5000, 2, dtype=dtype)
        some_values[0] = 4096
        seen = observe(segment_mean, some_values, torch.arange(5000) % 2, 2)
        seen.returns(
            torch.tensor([[4096 / 2500] * 2, [0.0] * 2]).to(dtype),
            mistake(
                "The rows of a segment were counted in half precision, where adding 1 stops at 256 (bfloat16) or 2048 "
                "(float16): count in int64.",
                when=lambda seen: seen.value[0, 0] > 1.8,
            ),
            rtol=2e-2,
            atol=0,
        )
    ### END HIDDEN TESTS
