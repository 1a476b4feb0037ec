# %% [markdown]
# ### Exercise 3.6 · The votes that got lost
#
# fix · solid · 10 min · 2 points
#
# Calibration curves, token counts per expert and energy per atom all add weighted votes into bins. This version loses
# votes:
#
#     weighted_histogram(torch.tensor([0, 1, 1]), torch.tensor([1.0, 2.0, 4.0]), 3)
#     # tensor([1., 4., 0.]): where is the 2?
#
# Fix it.
#
# **Contract**
#
# - `out[b]` is the sum of the weights whose bin is b; empty bins are 0. `bins` and `weights` have equal shapes, with
#   any number of dimensions (including 0-d); the result has shape (n,).
# - The result has the dtype and device of `weights`: float64 stays float64, integers are summed as integers. It is
#   differentiable with respect to `weights` (each weight gets the gradient of its bin). The arguments are not changed.
# - A bin outside 0..n-1, including a negative one, raises IndexError, RuntimeError or ValueError. Don't use a
#   deprecated call.
# - The weights are finite. You may add in their dtype, although section 3.4 shows what that costs in half precision;
#   the rounding errors of a running sum over all weights are accepted.
#
# <details><summary>Hint 1</summary>
#
# `h[bins] += w` reads `h[bins]`, adds, and writes back. What do the two reads for bin 1 return, and which write
# survives?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You need an operation that adds into its target once per entry, duplicates included. There are several (along dim 0
# of a flat target); the target must have the dtype of `weights`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `index_add` is such an operation. Start from zeros with the dtype and device of the weights, and add along dim 0, with
# `bins` and `weights` both flattened. It adds up duplicates, raises for a bin outside 0..n-1, and passes gradients on
# to the weights.
#
# </details>


# %% answer="weighted-histogram"
def weighted_histogram(bins: Tensor, weights: Tensor, n: int) -> Tensor:
    """The sum of the weights in each of n bins.

    bins: (...) int64; weights: (...); returns (n,) in the dtype of weights.
    """
    ### BEGIN SOLUTION
    return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # h = torch.zeros(n)
    # h[bins] += weights
    # return h
    ### END GIVEN


# %% check="weighted-histogram" points=1
"""The weights of a bin add up, and no vote gets lost."""
with check("weighted-histogram") as test:
    lost = (
        "Repeated bins lost weights: `h[bins] += w` (and index_put_ without accumulate) reads once and writes back, "
        "so only one of the weights of a bin survives."
    )

    test("repeated bins add up; an empty bin is 0")
    seen = observe(weighted_histogram, torch.tensor([3, 1, 0, 1]), torch.tensor([8.0, 2, 1, 4]), 5)
    mistakes = {
        lost: [torch.tensor([1.0, 4, 0, 8, 0]), torch.tensor([1.0, 2, 0, 8, 0])],
        "Those are counts; the weights are not used.": torch.tensor([1.0, 2, 0, 1, 0]),
        "The weights of a bin are summed, not averaged.": torch.tensor([1.0, 3, 0, 8, 0]),
        "Your result is a mean that includes the zero you started from, but it should be the sum.": torch.tensor(
            [0.5, 2, 0, 4, 0]
        ),
        "There must be n bins, empty ones at the end included: {detail}": {"stage": "shape"},
    }
    seen.returns(torch.tensor([1.0, 6, 0, 8, 0]), *known(mistakes))

# %% check="weighted-histogram" points=1
"""The gradient, dtypes and shapes; bins that do not exist are refused; no deprecated call."""
with check("weighted-histogram") as test:
    no_gradient = mistake(
        "No gradient reaches the weights: something on the way cuts the graph, or has no derivative.",
        stage="gradient",
        when=lambda seen: seen.gradient(1) is None,
    )

    test("repeated bins; the arguments are not changed, and nothing is deprecated")
    seen = observe(weighted_histogram, torch.tensor([3, 1, 0, 1]), torch.tensor([8.0, 2, 1, 4]), 5)
    seen.returns(torch.tensor([1.0, 6, 0, 8, 0]), FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone()
    deprecated = [
        message
        for category, message in seen.noted.warned
        if category in ("DeprecationWarning", "FutureWarning") or "deprecated" in message
    ]
    seen.that(
        not deprecated,
        f"A deprecated call was used: {deprecated}.",
        mistake(
            "The call scatter_(..., reduce=) with a tensor is deprecated: "
            "use scatter_add_ / scatter_reduce_ / index_add_.",
            when=lambda seen: any("scatter" in message for message in deprecated),
        ),
        stage="rule",
    )

    test("each weight gets the gradient of its bin")
    some_weights = torch.tensor([8.0, 2, 1, 4], requires_grad=True)
    seen = observe(weighted_histogram, torch.tensor([3, 1, 0, 1]), some_weights, 5)
    bin_gradient = incoming_gradient(torch.zeros(5))
    seen.gives_gradients(
        {1: torch.stack([bin_gradient[3], bin_gradient[1], bin_gradient[0], bin_gradient[1]])}, no_gradient
    )

    test("bins n and -1 raise")
    for bad in (5, -1):
        seen = observe(weighted_histogram, torch.tensor([3, bad, 0]), torch.tensor([8.0, 2, 1]), 5)
        wrapped = mistake(
            f"Bin {bad} was accepted: advanced indexing counts negative bins from the end, "
            "the out-of-range weight ends up in a wrong bin.",
            gives=torch.tensor([1.0, 0, 0, 8, 2]),
            when=lambda seen: seen.args[0][1] == -1,
        )
        dropped = mistake(
            "Weights of out-of-range bins were dropped silently; they must raise.",
            gives=torch.tensor([1.0, 0, 0, 8, 0]),
        )
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            mistakes=[wrapped, dropped],
            because=f"Bin {bad} of 5 must raise IndexError, RuntimeError or ValueError.",
        )

    ### BEGIN HIDDEN TESTS
    def reference(bins, weights, n):
        return weights.new_zeros(n).index_add(0, bins.flatten(), weights.flatten())

    flat = mistake(
        "Arguments bins and weights may have more than one dimension, or none: flatten them first.",
        raises="vector|same number of dimensions|1-d",
    )
    by_view = mistake(
        "A view needs memory in the right order, which a transposed tensor has not: use flatten or reshape.",
        raises="view",
    )
    crossed = mistake(
        "Bins and weights were flattened in different orders: each weight belongs to the bin at its own position.",
        when=lambda seen: seen.looks_like(reference(seen.args[0], seen.args[1].mT.reshape(-1), seen.args[2])),
    )
    g = torch.Generator().manual_seed(6)
    for idea, bins, weights, n in [
        ("two dimensions", torch.tensor([[0, 2, 2], [1, 0, 2]]), torch.randn(2, 3, generator=g), 4),
        ("a single vote", torch.tensor(2), torch.tensor(0.5), 3),
        ("no votes", torch.empty(0, dtype=torch.int64), torch.empty(0), 3),
        ("one bin", torch.tensor([0, 0, 0]), torch.tensor([0.5, 0.25, 2.0]), 1),
        ("not contiguous", torch.tensor([[0, 2, 2], [1, 0, 2]]).t(), torch.randn(2, 3, generator=g).t(), 4),
        ("weights not contiguous", torch.tensor([[0, 2], [2, 1], [0, 1]]), torch.randn(2, 3, generator=g).t(), 3),
        ("many more bins than votes", torch.tensor([7, 2, 7]), torch.randn(3, generator=g), 100),
    ]:
        test.hidden(idea)
        observe(weighted_histogram, bins, weights, n).returns(reference, flat, by_view, crossed)

    test.hidden("float64, float16 and integer weights keep their dtype")
    wants_dtype = "The result must have the dtype of weights: {detail}"
    for dtype in (torch.float64, torch.float16, torch.int64, torch.int32):
        some_weights = torch.tensor([2, 1, 4, 9]).to(dtype) / (8 if dtype.is_floating_point else 1)
        mistakes = {wants_dtype: [{"stage": "dtype"}, "dtype|scalar type|can't be cast"]}
        observe(weighted_histogram, torch.tensor([1, 1, 0, 1]), some_weights.to(dtype), 3).returns(
            reference, *known(mistakes)
        )

    test.hidden("300 bins in bfloat16")
    some_weights = torch.tensor([2.0, 1, 4, 9], dtype=torch.bfloat16)
    observe(weighted_histogram, torch.tensor([257, 3, 299, 257]), some_weights, 300).returns(
        reference,
        mistake(
            "There are weights in bin 257. bfloat16 can't tell 257 from 256, so keep bin numbers in int64.",
            stage="value",
        ),
    )

    corner = corners(test, weighted_histogram, reference, "weights")
    some_bins = torch.tensor([1, 1, 0, 1])
    corner.keeps_first_result("sums", some_bins, some_bins + 1, torch.tensor([2.0, 1, 4, 9]), 3)

    test.hidden("integers are summed as integers, large ones too; float64 keeps its precision")
    for some_weights in (torch.tensor([2**24, 1, 2, 2**53 + 1]), torch.tensor([1.0, 1e-9, 0.5, 3.0]).double()):
        observe(weighted_histogram, torch.tensor([1, 1, 1, 0]), some_weights, 2).returns(
            reference,
            mistake("The sums went through a dtype of lower precision than that of weights.", stage="value"),
            rtol=1e-14 if some_weights.is_floating_point() else 0,
            atol=0,
        )

    test.hidden("the gradient for 20 votes in 4 bins, in two dimensions")
    some_weights = torch.randn(5, 4, generator=g, dtype=torch.float64).requires_grad_()
    some_bins = torch.randint(4, (5, 4), generator=g)
    seen = observe(weighted_histogram, some_bins, some_weights, 4)
    seen.returns(reference)
    seen.gives_gradients(reference, no_gradient)
    seen.leaves_arguments_alone()

    corner.keeps_device(torch.empty(4), torch.zeros(3, dtype=torch.int64), torch.empty(3), 4)

    test.hidden("bad bins raise among many dimensions, too")
    for bad in (4, -4, 6):
        some_bins = torch.tensor([[0, 1], [bad, 3]])
        seen = observe(weighted_histogram, some_bins, torch.ones(2, 2), 4)
        seen.raises(IndexError, RuntimeError, ValueError, because=f"Bin {bad} of 4 must raise.")
    ### END HIDDEN TESTS
