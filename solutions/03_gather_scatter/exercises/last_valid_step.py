# %% [markdown]
# ### Exercise 3.2 · The last real time step of every sequence
#
# debug · solid · 15 min · 3 points
#
# A recurrent network returns an output for every time step, and a batch is padded to its longest sequence. To classify
# a sequence you need the output of its last real step. Of the two attempts below, the first raises, and the second runs
# but is wrong, which is worse. Write it so that it is right.
#
# **Contract**
#
# - `out[b] = h[b, lengths[b] - 1]`; a sequence of length 0 gives a row of zeros (with zero gradient).
# - Padding (positions >= length) never affects the result, in value or gradient; it may contain nan or inf. Only the
#   chosen step gets a gradient.
# - `lengths` is int64 or int32 and is not changed. A length above T or below 0 raises IndexError, RuntimeError or
#   ValueError.
# - `h` is floating point, and its dtype is kept. B may be 0, and so may T (then all lengths are 0); D is at least 1.
#
# <details><summary>Hint 1</summary>
#
# The output of gather has the shape of its index. Which shape must the index have to fetch D numbers per sequence?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# gather does not broadcast, so the index must really have the shape (B, 1, D), with a position for each of the D
# numbers. At the end, remove dimension 1 and no other. And for a length of 0, which step of `h` may gather read, and
# how do you get zeros from it, since nan times 0 is nan?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Concatenate a step of zeros in front of `h`, along the time dimension. Now a sequence of length n ends at position n;
# the positions 0 to T are legal, and gather refuses all others. So the lengths themselves, as int64, are the index.
# Give them two more dimensions, expand the last one to D, gather along dim 1, and squeeze that dimension.
#
# </details>


# %% answer="last-valid-step"
def last_step(h: Tensor, lengths: Tensor) -> Tensor:
    """The output of each sequence's last real time step; zeros for a sequence of length 0.

    h: (B, T, D); lengths: (B,) int64 or int32; returns (B, D) in the dtype of h.
    """
    ### BEGIN SOLUTION
    batch, _, features = h.shape
    # with a row of zeros in front, a sequence of length n ends at position n
    padded = torch.cat([h.new_zeros(batch, 1, features), h], dim=1)
    index = lengths.long()[:, None, None].expand(batch, 1, features)
    return padded.gather(1, index).squeeze(1)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # return h.gather(1, lengths - 1)
    # # RuntimeError: Index tensor must have the same number of dimensions as input tensor
    #
    # # second try: no error any more, but every row of the result has one number instead of D
    # # return h.gather(1, (lengths - 1)[:, None, None]).squeeze()
    ### END GIVEN


# %% check="last-valid-step" points=2
"""All the numbers of each sequence's own last step."""
with check("last-valid-step") as test:
    test("h (3, 5, 4), lengths 5, 1, 3")
    some_h = (torch.arange(1.0, 61) * 37 % 61).reshape(3, 5, 4)
    seen = observe(last_step, some_h, torch.tensor([5, 1, 3]))
    mistakes = {
        "gather needs an index with as many dimensions as h (3): give lengths two more.": "same number of dimensions",
        "Gather does not broadcast: an index of shape (B, 1, 1) fetches one number per sequence, "
        "the first feature. Expand it to (B, 1, D).": lambda seen: (
            seen.value.flatten().tolist() == [h[0].item() for h in (some_h[0, 4], some_h[1, 0], some_h[2, 2])]
        ),
        "A length counts, positions start at 0: the last step of a sequence of length n is n - 1.": [
            "index 5 is out of bounds",
            lambda seen: seen.value[1:].equal(torch.stack([some_h[1, 1], some_h[2, 3]])),
        ],
        "Indexing h[:, lengths - 1] gives (B, B, D): every sequence at every length.": (3, 3, 4),
        "The time dimension of size 1 is still there: remove it at the end.": (3, 1, 4),
        "That is the last padded position of all sequences, not each one's own last step.": {"gives": some_h[:, -1]},
        "Those are averages over the valid steps; asked for is the last one.": torch.stack(
            [some_h[0].mean(0), some_h[1, 0], some_h[2, :3].mean(0)]
        ),
        "Those are sums over the valid steps; asked for is the last one.": torch.stack(
            [some_h[0].sum(0), some_h[1, 0], some_h[2, :3].sum(0)]
        ),
    }
    seen.returns(torch.stack([some_h[0, 4], some_h[1, 0], some_h[2, 2]]), *known(mistakes))

# %% check="last-valid-step" points=1
"""Padding that is nan, length 0, other sizes and dtypes; impossible lengths are refused."""
with check("last-valid-step") as test:

    def nan_leaked(where):
        """The sentence for nan that came through a product with a mask."""
        return (
            f"A nan in the padding leaked into the {where}: multiplying by a 0/1 mask does not remove nan "
            "(0 * nan is nan), and a sum over the steps doesn't either. Select instead."
        )

    def has_nan(seen):
        return seen.value.isnan().any()

    test("h (3, 5, 4), lengths 5, 1, 3; the arguments are not changed")
    some_h = (torch.arange(1.0, 61) * 37 % 61).reshape(3, 5, 4)
    seen = observe(last_step, some_h, torch.tensor([5, 1, 3]))
    seen.returns(torch.stack([some_h[0, 4], some_h[1, 0], some_h[2, 2]]), FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone()

    test("nan in the padding does not reach the result")
    some_h = (torch.arange(1.0, 31) * 7 % 31).reshape(3, 5, 2)
    some_h[0, 2:] = some_h[1, 4:] = some_h[2, 1:] = torch.nan
    seen = observe(last_step, some_h, torch.tensor([2, 4, 1]))
    seen.returns(
        torch.stack([some_h[0, 1], some_h[1, 3], some_h[2, 0]]),
        mistake(nan_leaked("result"), when=has_nan),
    )

    test("length 0 gives zeros")
    some_h = (torch.arange(1.0, 25) * 7 % 29).reshape(3, 4, 2)
    expected_steps = torch.stack([some_h[0, 1], torch.zeros(2), some_h[2, 3]])
    mistakes = {
        "Length 0 must give a row of zeros; index -1 silently picked the last position (or raised).": [
            "-1",
            lambda seen: seen.value[1].equal(some_h[1, -1]),
        ],
        "Length 0 must give a row of zeros; a clamped index picked the first position.": lambda seen: seen.value[
            1
        ].equal(some_h[1, 0]),
    }
    observe(last_step, some_h, torch.tensor([2, 0, 4])).returns(expected_steps, *known(mistakes))

    test("length 0 gives zeros where its padding is nan, too")
    some_h[1] = torch.nan
    seen = observe(last_step, some_h, torch.tensor([2, 0, 4]))
    seen.returns(expected_steps, mistake(nan_leaked("result"), when=has_nan))

    ### BEGIN HIDDEN TESTS
    def reference(h, lengths):
        steps = [row[n - 1] if n else torch.zeros_like(h[0, 0]) for row, n in zip(h, lengths.tolist(), strict=True)]
        return torch.stack(steps)

    squeezed = mistake(
        "A squeeze() without a dimension also removed a batch (or feature) dimension of size 1: name the dimension.",
        when=lambda seen: seen.value.shape == torch.empty(seen.args[0].shape[::2]).squeeze().shape,
    )
    g = torch.Generator().manual_seed(4)
    for idea, size, lengths in [
        ("a batch of one", (1, 4, 3), [3]),
        ("one feature", (3, 4, 1), [2, 4, 1]),
        ("one time step", (2, 1, 3), [1, 0]),
        ("one of each", (1, 1, 1), [1]),
        ("as many sequences as steps and features", (4, 4, 4), [2, 4, 1, 3]),
    ]:
        test.hidden(idea)
        some_h = torch.randn(size, generator=g)
        observe(last_step, some_h, torch.tensor(lengths)).returns(reference, squeezed)

    test.hidden("an empty batch, and sequences without any step")
    observe(last_step, torch.empty(0, 5, 4), torch.empty(0, dtype=torch.int64)).returns(torch.empty(0, 4))
    observe(last_step, torch.empty(2, 0, 3), torch.tensor([0, 0])).returns(
        torch.zeros(2, 3),
        mistake("Where T is 0 there is no position to read from: all rows are zeros.", stage="raised"),
    )

    test.hidden("int32 lengths")
    some_h = torch.randn(3, 5, 4, generator=g)
    seen = observe(last_step, some_h, torch.tensor([5, 2, 4], dtype=torch.int32))
    seen.returns(reference, mistake("Lengths of dtype int32 must work: convert the index.", stage="raised"))
    seen.leaves_arguments_alone()

    test.hidden("float64 and bfloat16, and h that is not contiguous")
    for dtype in (torch.float64, torch.bfloat16):
        some_h = torch.randn(4, 5, 3, generator=g, dtype=torch.float64).to(dtype).permute(2, 1, 0)
        observe(last_step, some_h, torch.tensor([5, 0, 4])).returns(
            reference,
            mistake("The result has the dtype of h: {detail}.", stage="dtype"),
            mistake(
                "A view needs memory in the right order, which a transposed tensor has not: use flatten or reshape.",
                raises="view",
            ),
        )

    test.hidden("inf in the padding, nan and inf in a chosen step")
    some_h = torch.randn(3, 4, 2, generator=g)
    some_h[0, 3:] = torch.inf
    some_h[1, 2:] = -torch.inf
    some_h[1, 1] = torch.tensor([torch.nan, torch.inf])
    some_h[2] = torch.inf
    observe(last_step, some_h, torch.tensor([3, 2, 0])).returns(
        reference,
        mistake(
            "A nan or inf in the chosen step itself must be kept; only the padding should be ignored.",
            when=lambda seen: seen.value.isfinite().all(),
        ),
        mistake(
            "An inf in the padding leaked into the result: multiplying by a 0/1 mask makes it nan. Select instead.",
            when=lambda seen: seen.value[[0, 2]].isnan().any(),
        ),
    )

    test.hidden("nan and inf in a real step that is not the last one")
    some_h = torch.randn(3, 4, 2, generator=g)
    some_h[0, 1] = torch.tensor([torch.nan, torch.inf])
    some_h[2, 0] = -torch.inf
    observe(last_step, some_h, torch.tensor([3, 2, 4])).returns(
        reference,
        mistake(
            "A nan or inf in an earlier step reached the result: a difference of running sums does not take it out "
            "again. Only the last real step counts.",
            when=has_nan,
        ),
    )

    test.hidden("lengths that can't be are refused")
    wrong_kind = mistake(
        "A length that can't be raised another kind of exception: raise IndexError, RuntimeError or ValueError.",
        raises=".",
    )
    for length in (6, -1, -5, 9):  # in the middle, so that a flattened h has rows on both sides
        seen = observe(last_step, torch.randn(3, 5, 3, generator=g), torch.tensor([2, length, 4]))
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Length {length} must raise (clamping or wrapping hides a data error).",
            mistakes=[wrong_kind],
        )
        seen.leaves_arguments_alone(
            because="What you change and put back stays changed when the call raises. Work on a copy of lengths."
        )

    test.hidden("a length of 1 where there is no step")
    observe(last_step, torch.empty(2, 0, 3), torch.tensor([0, 1])).raises(
        IndexError,
        RuntimeError,
        ValueError,
        because="Where T is 0, a length of 1 is above T and must raise: check the lengths before you return.",
    )

    some_h = torch.randn(3, 4, 2, generator=g)
    corner = corners(test, last_step, reference, "h")
    corner.keeps_first_result("result", some_h, some_h + 1, torch.tensor([2, 4, 1]))

    test.hidden("only the chosen step gets a gradient, whatever the padding holds")
    some_h = torch.randn(4, 5, 3, generator=g)
    for fill in (0.5, torch.nan):
        some_h[0, 2:] = some_h[1] = some_h[2, 3:] = fill
        seen = observe(last_step, some_h.requires_grad_(), torch.tensor([2, 0, 3, 5]))
        seen.returns(reference)
        seen.gives_gradients(
            reference,
            mistake(
                nan_leaked("gradient"),
                when=lambda seen: seen.gradient(0).isnan().any(),
            ),
            because="The gradient must flow to the chosen step: {detail}",
        )
        some_h = some_h.detach()

    test.hidden("300 steps in bfloat16")
    some_h = torch.rand(2, 300, 2, generator=g).add(1).to(torch.bfloat16)
    observe(last_step, some_h, torch.tensor([258, 259])).returns(
        reference,
        mistake(
            "Steps 257 and 258 were asked for. bfloat16 can't tell 257 from 256, so keep positions in int64.",
            stage="value",
        ),
    )
    ### END HIDDEN TESTS
