# %% [markdown]
# ### Exercise 2.11 · Drop the k smallest, keep the order
#
# implement · solid · 12 min · 1 point
#
# When you prune weights, trim outliers or drop the easiest samples of a batch, you remove k values, and the others must
# keep their order.
#
# **Contract**
#
# - `drop_lowest(x, k)` returns the 1-d tensor x without its k smallest values, with the others in their original order:
#   (N,) becomes (N - k,).
# - Exactly k elements are removed. Among equal values, those that come first are removed first; nan counts as the
#   largest value.
# - Dtype and device are kept, x is not changed, and gradients reach the remaining elements and only those.
# - k = 0 keeps everything (x itself may come back), k = N gives an empty tensor; k < 0 or k > N raises `ValueError`.
#
# <details><summary>Hint 1</summary>
#
# Which tools give you the *positions* of the smallest values, not only the values? And what does a tool that returns a
# sorted copy do to the order?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A stable argsort lists all positions, that of the smallest value first; among equal values the earlier position comes
# first, and nan comes last. Which of these positions are removed? And how do you read the others in their old order?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Start with a mask that is True everywhere, set it to False at the first k of those positions, and index x with the
# mask; `torch.where` with a fill value would only replace. Before all that, refuse a k outside 0..N, because a slice
# with a k of -1 raises no error.
#
# </details>


# %% answer="drop-lowest"
def drop_lowest(x: Tensor, k: int) -> Tensor:
    """x without its k smallest values, in the original order: (N,) -> (N - k,).

    Raises ValueError when k is not in 0..N.
    """
    ### BEGIN SOLUTION
    if not 0 <= k <= len(x):
        raise ValueError(f"can't drop {k} of {len(x)} elements")
    keep = torch.ones_like(x, dtype=torch.bool)
    keep[x.argsort(stable=True)[:k]] = False
    return x[keep]
    ### END SOLUTION


# %% check="drop-lowest" points=0.5
"""The k smallest values go, and the others stay in their order."""
with check("drop-lowest") as test:
    test("4, 1, 3, 2, 5 without the 2 smallest")
    five = torch.tensor([4.0, 1, 3, 2, 5])
    seen = observe(drop_lowest, five, 2)
    seen.returns(
        torch.tensor([4.0, 3, 5]),
        mistake(
            "torch.where never removes anything: the dropped elements were replaced, the length stayed. "
            "Index with a mask instead.",
            when=lambda seen: seen.value.shape == (5,) and seen.value[[0, 2, 4]].tolist() == [4, 3, 5],
        ),
        mistake("You dropped the first k positions, not the k smallest values.", gives=torch.tensor([3, 2, 5])),
        mistake(
            "The values are right, but their order is not: sorting (or topk) loses where they came from. Keep"
            " the positions.",
            stage="value",
            when=lambda seen: sorted(seen.value.tolist()) == [3, 4, 5],
        ),
        mistake("You dropped the largest.", when=lambda seen: sorted(seen.value.tolist()) == [1, 2, 3]),
        mistake("T[i+1:-1] ends before the last element; the slice to the end is T[i+1:].", gives=torch.tensor([4, 3])),
        mistake("These are the values to be dropped.", when=lambda seen: sorted(seen.value.tolist()) == [1, 2]),
        mistake("These are positions; asked for are the values that stay.", gives=torch.tensor([0, 2, 4])),
        mistake("The values that stay have the dtype of x: {detail}.", stage="dtype"),
    )

    test("negative numbers are smaller than positive ones")
    observe(drop_lowest, torch.tensor([3.0, -5, 1, -2]), 2).returns(
        torch.tensor([3.0, 1]),
        mistake("You used the absolute values, but -5 is the smallest of these.", gives=torch.tensor([3.0, -5])),
    )

# %% check="drop-lowest" points=0.5
"""Equal values and nan, k at its ends and beyond, other dtypes, gradients."""
with check("drop-lowest") as test:
    test("4, 1, 3, 2, 5 without the 2 smallest; x is not changed")
    five = torch.tensor([4.0, 1, 3, 2, 5])
    seen = observe(drop_lowest, five, 2)
    seen.returns(torch.tensor([4.0, 3, 5]), FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone(mistake("x itself was changed.", stage="arguments"))
    observe(drop_lowest, torch.tensor([3.0, -5, 1, -2]), 2).returns(torch.tensor([3.0, 1]), FIRST_CHECK_FIRST)

    test("equal values at the threshold: exactly k elements go")
    ties = (
        "With equal values at the threshold you dropped too many or too few: a comparison with a threshold "
        "(or removing by value) cannot tell equal elements apart."
    )
    observe(drop_lowest, torch.tensor([5.0, 2, 2, 3, 1]), 2).returns(
        torch.tensor([5.0, 2, 3]), mistake(ties, stage="shape")
    )

    for k in (-1, 6):
        test(f"k = {k} of five elements")
        seen = observe(drop_lowest, five, k)
        seen.raises(ValueError, because="k outside 0..N must raise ValueError: {detail}.")

    ### BEGIN HIDDEN TESTS
    def by_sorting(x, k):
        """Sorts the positions in Python, with nan at the end, and indexes with those that stay."""
        key = {i: (1, 0, i) if value != value else (0, value, i) for i, value in enumerate(x.tolist())}
        return x[torch.tensor(sorted(sorted(key, key=key.get)[k:]), dtype=torch.int64)]

    def later_first(x, k):
        """The same, but among equal values the later ones are dropped first."""
        return by_sorting(x.flip(0), k).flip(0)

    not_first = (
        "Among equal values the first ones are dropped first; your sort is not stable or breaks ties the other way."
    )

    def has_ties(seen):
        """Whether some of the values were equal."""
        return len(seen.args[0].unique()) < len(seen.args[0])

    def other_ties(seen):
        """Whether the right values stay, in their order, and only others went of those that are equal."""
        x, k = seen.args
        places = iter(x.tolist())
        in_order = all(value in places for value in seen.value.tolist())
        return has_ties(seen) and in_order and torch.equal(seen.value.sort().values, by_sorting(x, k).sort().values)

    def compared_as(dtype, x, k):
        """The same, where values are compared in this dtype."""
        return x[x.to(dtype).argsort(stable=True)[k:].sort().values]

    def by_negatives(x, k):
        """The same, where the smallest values are those with the largest negatives."""
        return x[(-x).argsort(descending=True, stable=True)[k:].sort().values]

    known = [
        mistake(
            "Too many elements stayed. If you write the maximum over each element that you remove, then in the end all "
            "that is left equals the maximum, and an element that you have removed already is found again.",
            stage="shape",
            when=lambda seen: has_ties(seen) and seen.args[0].dtype == torch.int64 and len(seen.value) > 1,
        ),
        mistake(
            "Count in int64: bfloat16 can't tell 257 from 256, so the number of equal values comes out wrong there.",
            stage="shape",
            when=lambda seen: has_ties(seen) and seen.args[0].dtype == torch.bfloat16 and len(seen.value) > 0,
        ),
        mistake(
            "The negatives of unsigned integers are not in the opposite order: as uint8, -0 is 0 and -5 is 251.",
            gives=by_negatives,
            when=lambda seen: seen.args[0].dtype == torch.uint8,
        ),
        mistake(not_first, gives=later_first, stage="value", when=has_ties),
        mistake(not_first, stage="value", when=other_ties),
        mistake(ties, stage="shape", when=has_ties),
        mistake(
            "k = N is allowed: nothing stays.", raises="ValueError", when=lambda seen: seen.args[1] == len(seen.args[0])
        ),
        mistake(
            "Nothing stays, but in the dtype of x: {detail}", stage="dtype", when=lambda seen: not seen.value.numel()
        ),
        mistake("The values that stay have the dtype of x: {detail}.", stage="dtype"),
        mistake(
            "Values that differ were taken for equal ones, or in the wrong order: compare them in their own dtype.",
            stage="value",
            when=lambda seen: (
                seen.args[0].dtype == torch.float64
                or any(torch.equal(seen.value, compared_as(dtype, *seen.args)) for dtype in (torch.float32, torch.half))
            ),
        ),
        mistake(
            "NumPy has no bfloat16, so a tensor of that dtype can't go there: {detail}.",
            raises="unsupported ScalarType",
        ),
        mistake(
            "A value of 0 stays as well as any other: an index of those that are not 0 loses it.",
            stage="shape",
            when=lambda seen: not has_ties(seen) and len(seen.value) == len(seen.args[0]) - seen.args[1] - 1,
        ),
    ]
    g = torch.Generator().manual_seed(9)
    twelve = torch.randn(12, generator=g)
    for idea, x, k in [
        ("which of the equal values went", torch.tensor([2.0, 1, 2, 3, 2, 4]), 2),
        ("many equal values", torch.randint(3, (40,), generator=g).float(), 17),
        ("two equal values, the threshold above both", torch.tensor([2.0, 7, 2, 5]), 2),
        ("k = 0", twelve, 0),
        ("k = 1", twelve, 1),
        ("k = N - 1", twelve, 11),
        ("k = N", twelve, 12),
        ("k = N, int64", torch.tensor([3, 1, 2]), 3),
        ("an empty tensor", torch.empty(0), 0),
        ("int64, with negative numbers", torch.tensor([-3, 8, -7, 0, 5]), 3),
        ("int64 that float32 can't hold", torch.tensor([2**24 + 1, 2**24, 7]), 2),
        ("int64 that float64 can't hold", torch.tensor([2**53 + 1, 2**53, 7]), 2),
        ("float64 that float32 can't hold", torch.tensor([1 + 1e-12, 1.0, 3.0], dtype=torch.float64), 1),
        ("bfloat16", torch.tensor([2.0, -1.0, 0.5], dtype=torch.bfloat16), 1),
        ("bfloat16 that float16 can't hold", torch.tensor([2e5, 1e5], dtype=torch.bfloat16), 1),
        ("600 equal bfloat16 values", torch.full((600,), 2.0, dtype=torch.bfloat16), 300),
        ("uint8, with a 0", torch.tensor([0, 5, 3], dtype=torch.uint8), 1),
        ("k = N - 1, equal int64 values", torch.tensor([3, 9, 9, 9]), 3),
        ("not contiguous", torch.randn(8, 3, generator=g)[:, 1], 3),
        ("infinities", torch.tensor([1.0, -torch.inf, torch.inf, 0.0, -torch.inf]), 3),
    ]:
        test.hidden(idea)
        seen = observe(drop_lowest, x, k).expecting(*known)
        seen.returns(by_sorting, rtol=0.0, atol=0.0)
        seen.leaves_arguments_alone(mistake("x itself was changed.", stage="arguments"))

    nan_is_largest = mistake(
        "A nan counts as the largest value, larger than inf, as in torch.sort: {detail} (A comparison with nan is "
        "always False, and argmin takes nan for the smallest value.)",
        stage=("shape", "value"),
    )
    for values, k in [([torch.nan, 1, 2], 2), ([2, torch.nan, 1, torch.inf], 3), ([3, torch.nan, 1, torch.nan, 2], 4)]:
        test.hidden("nan is the largest value")
        observe(drop_lowest, torch.tensor(values), k).returns(by_sorting, nan_is_largest)

    left_graph = "The result left the autograd graph (through detach, .data, NumPy or .tolist())."
    for idea, values, k in [
        ("gradients reach the kept elements and only those", [0.5, -1.0, 2.0, 1.5, -0.5], 2),
        ("gradients reach all elements for k = 0", [0.5, -1.0, 2.0], 0),
        ("gradients tell which of the equal values went", [5.0, 2, 2, 3, 1], 2),
        ("gradients of a hundred equal values", [2.0] * 100, 37),
        ("gradients tell which nan went", [torch.nan, 1, torch.nan, 2, torch.nan], 3),
    ]:
        test.hidden(idea)
        seen = observe(drop_lowest, torch.tensor(values, requires_grad=True), k)
        seen.expecting(
            mistake(left_graph, raises="requires grad"),
            mistake(left_graph, stage="gradient", when=lambda seen: not seen.noted.tracked),
            mistake(
                not_first,
                stage="gradient",
                when=lambda seen: has_ties(seen) and bool(seen.noted.gradients),
            ),
        )
        seen.returns(by_sorting)
        seen.gives_gradients(by_sorting)
    ### END HIDDEN TESTS
