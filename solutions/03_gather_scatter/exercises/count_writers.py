# %% [markdown]
# ### Exercise 3.5 · Who writes where? Find the race
#
# measure · solid · 12 min · 2 points
#
# Before you trust a `scatter_`, count how many numbers arrive at each cell of its target. If no cell gets more than
# one, the call is well defined; if two arrive at a cell, they race.
#
# **Contract**
#
# - Entry c of the result is the number of positions of `index` that `torch.empty(shape).scatter_(dim, index, src)`
#   would write to cell c. The result is int64 and has the shape `shape`.
# - `index` is int64 or int32 with at most 2**24 elements, and is not changed. It may be longer than `shape` along
#   `dim`, and smaller in the other dimensions (then only that corner is written). `dim` may be negative, and `index`
#   0-d or empty.
# - An index value outside 0..shape[dim]-1 raises IndexError, RuntimeError or ValueError.
#
# <details><summary>Hint 1</summary>
#
# If every position of index writes the number 1, what should happen to two ones that arrive at the same cell?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# It is a scatter of ones in which duplicates are *added*. The target starts at zero and has the given shape; src must
# be at least as large as index and have the target's dtype.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Counts are int64, while `index` may be int32, so convert it first. Both the zeros of the target and the ones of src
# can be made from the converted index, and then have its dtype and device. The call that adds duplicates refuses values
# outside the target by itself.
#
# </details>


# %% answer="count-writers"
def count_writers(index: Tensor, dim: int, shape: tuple[int, ...]) -> Tensor:
    """How many positions of index a scatter_ along dim writes to each cell of its target.

    index: integer tensor (int64 or int32); shape: the target's; returns int64 of shape `shape`.
    """
    ### BEGIN SOLUTION
    index = index.long()
    return index.new_zeros(shape).scatter_add_(dim, index, torch.ones_like(index))
    ### END SOLUTION


# %% check="count-writers" points=1
"""How many numbers arrive at each cell of the target."""
with check("count-writers") as test:
    test("repeated indices, along dim 1")
    index = torch.tensor([[0, 0, 2], [1, 1, 1], [2, 0, 1]])
    mistakes = {
        "Duplicates overwrote each other: you see whether a cell is written, "
        "not how often. Let the ones add up.": torch.tensor([[1, 0, 1], [0, 1, 0], [1, 1, 1]]),
        "You counted the entries of index as positions in the flattened target: they are positions along dim, and the "
        "other coordinates are their own.": torch.tensor([[3, 4, 2], [0, 0, 0], [0, 0, 0]]),
        "All lanes were counted together: every 1-d lane along dim is its own little scatter.": lambda seen: (
            seen.value.flatten().tolist() in ([3, 4, 2], [3, 4, 2] * 3)
        ),
        "The counts belong to another dim: index replaces coordinate `dim`, the other coordinates stay.": torch.tensor(
            [[1, 2, 0], [1, 1, 2], [1, 0, 1]]
        ),
        "The cells without a writer must be 0.": torch.tensor([[3, 1, 2], [1, 4, 1], [2, 2, 2]]),
        "Counts are int64: {detail}": {"stage": "dtype"},
    }
    seen = observe(count_writers, index, 1, (3, 3)).expecting(*known(mistakes))
    seen.returns(torch.tensor([[2, 0, 1], [0, 3, 0], [1, 1, 1]]))

    test("no index is repeated within a row: one writer at most")
    seen = observe(count_writers, torch.tensor([[3, 0, 1], [2, 1, 3]]), 1, (2, 4))
    seen.returns(torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1]]))

    test("dim 0: a (1, 4) index touches a corner of a (3, 5) target")
    corner = torch.tensor([[0, 1, 2, 0]])
    expected = torch.tensor([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    observe(count_writers, corner, 0, (3, 5)).returns(
        expected,
        mistake("The result must have the shape of the target, not of index: {detail}", shape=(1, 4)),
    )

# %% check="count-writers" points=1
"""Values outside are refused; other dimensions, dtypes and sizes of index."""
with check("count-writers") as test:
    test("repeated indices, along dim 1 and along dim 0; index is not changed")
    index = torch.tensor([[0, 0, 2], [1, 1, 1], [2, 0, 1]])
    seen = observe(count_writers, index, 1, (3, 3))
    seen.returns(
        torch.tensor([[2, 0, 1], [0, 3, 0], [1, 1, 1]]),
        mistake(
            "The count of the first check is still in the target: start from a new one in each call.",
            gives=torch.tensor([[4, 0, 2], [0, 6, 0], [2, 2, 2]]),
        ),
        FIRST_CHECK_FIRST,
    )
    seen.leaves_arguments_alone()
    corner = torch.tensor([[0, 1, 2, 0]])
    expected = torch.tensor([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    observe(count_writers, corner, 0, (3, 5)).returns(expected, FIRST_CHECK_FIRST)

    test("values outside the target are refused")
    for value in (3, -1):
        outside = torch.tensor([[0, value]])
        seen = observe(count_writers, outside, 1, (1, 3))
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Value {value} is outside the target and must raise (so must negative values).",
        )

    ### BEGIN HIDDEN TESTS
    def by_hand(index, dim, shape):
        """Counts with a plain loop."""
        count = torch.zeros(shape, dtype=torch.int64)
        places = torch.cartesian_prod(*(torch.arange(n) for n in index.shape)).reshape(-1, index.dim())
        for cell, value in zip(places.tolist(), index.flatten().tolist(), strict=True):
            cell[dim] = value
            count[tuple(cell)] += 1
        return count

    def in_all_lanes(index, dim, shape):
        """Counts as if index were repeated over the other dimensions."""
        return by_hand(index.expand([n if d == dim else shape[d] for d, n in enumerate(index.shape)]), dim, shape)

    corner_only = mistake(
        "Index covers only a corner of the target: lanes outside it receive nothing.", gives=in_all_lanes
    )
    small_src = mistake(
        "The src of a scatter must be at least as large as index, which may be longer than the target along dim.",
        raises="no larger size than src",
    )
    two_only = mistake(
        "Index may have any number of dimensions, 0 and 1 included: {detail}.", stage=("raised", "shape")
    )
    g = torch.Generator().manual_seed(3)
    for idea, shape, dim, size in [
        ("a negative dim", (3, 4), -1, (3, 2)),
        ("an index longer than the target along dim", (2, 3), 0, (5, 3)),
        ("three dimensions", (3, 2, 4), 1, (2, 6, 3)),
        ("one lane of many", (4, 3), 1, (1, 5)),
        ("one dimension", (4,), 0, (7,)),
        ("a negative dim that is not the last", (3, 2, 4), -2, (2, 3, 3)),
    ]:
        test.hidden(idea)
        index = torch.randint(shape[dim], size, generator=g)
        observe(count_writers, index, dim, shape).returns(by_hand(index, dim, shape), corner_only, small_src, two_only)

    test.hidden("40,001 writers to one cell")  # a number that half precision doesn't have
    observe(count_writers, torch.zeros(40_001, dtype=torch.int64), 0, (2,)).returns(
        torch.tensor([40_001, 0]),
        mistake("A small dtype cannot hold a large count: count in int64.", stage="value"),
    )

    test.hidden("an int32 index that is not contiguous")
    index = torch.tensor([[0, 2], [2, 1], [2, 2]], dtype=torch.int32).t()
    observe(count_writers, index, 1, (2, 3)).returns(
        by_hand(index, 1, (2, 3)), mistake("Counts are int64, whatever the dtype of index: {detail}", stage="dtype")
    )

    test.hidden("an empty index and a 0-d index")
    observe(count_writers, torch.empty(0, 2, dtype=torch.int64), 0, (3, 2)).returns(
        torch.zeros(3, 2, dtype=torch.int64),
        mistake("An empty index is legal, and nobody writes: {detail}.", stage="raised"),
    )
    observe(count_writers, torch.tensor(0), 0, ()).returns(torch.tensor(1), two_only)
    observe(count_writers, torch.tensor(0), -1, ()).returns(torch.tensor(1), two_only)

    test.hidden("what lies outside along dim is refused, whatever the other dimensions allow")
    for value, rows, shape, dim in (
        (3, [[0, 3]], (2, 5), 0),
        (2, [[0, 2]], (2, 5), -2),
        (4, [[0, 4]], (5, 2), 1),
        (-1, [[0, -1]], (5, 2), 0),
        (-1, [[0], [-1]], (2, 5), 1),  # on a flattened target, this would be a cell of the first row
        (5, [[5], [0]], (2, 5), 1),  # and this one of the second
    ):
        seen = observe(count_writers, torch.tensor(rows), dim, shape)
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Value {value} is outside the target and must raise (so must negative values).",
        )

    test.hidden("50 random indices")

    def counts_of_all(answer, indices):
        return [answer(index, 1, (2, 6)) for index in indices]

    indices = [torch.randint(6, (2, 2), generator=g) for _ in range(50)]
    seen = observe_scenario(counts_of_all, count_writers, indices)
    seen.returns([by_hand(index, 1, (2, 6)) for index in indices])
    ### END HIDDEN TESTS
