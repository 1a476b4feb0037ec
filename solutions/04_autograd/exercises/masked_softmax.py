# %% [markdown]
# ### Exercise 4.10 · The nan that torch.where did not stop
#
# fix · solid · 15 min · 2 points
#
# This function is used for attention over a padded batch. For ordinary scores it returns the right probabilities in
# every row, because `torch.where` blanks rows without any valid entry. But after the first batch with such a row, every
# parameter of the model is nan. Fix it. (In chapter 12 it comes back twice: in the attention of 12.2, in the loss of
# 12.4.)
#
# **Contract**
#
# - Softmax over the last dimension among the entries whose mask is True; the others get exactly 0. A row without any
#   True is all 0.
# - There is no nan in the result or in the gradient, whatever the masked scores are, including inf and nan. Masked
#   entries get gradient 0, and a masked score that is larger than all valid scores makes no difference.
# - The result has the dtype and the precision of `scores`; float16 and bfloat16 work. `mask` may broadcast against
#   `scores`, for example with shape (B, 1, T) or (T,). The arguments are not changed.
# - Valid scores are finite and above the lowest number of their dtype; 1e4 and -1e4 are fine.
#
# <details><summary>Hint 1</summary>
#
# Which value does softmax's backward multiply by the zero gradient that `torch.where` sends back for the empty row? And
# what is `nan + -inf`?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Don't let nan arise at all: replace masked scores with a harmless value by *selection*, not by adding. Let rows
# without a valid entry go through the softmax with ordinary numbers, and blank the result afterwards.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The harmless value should be finite and no larger than any valid score: the lowest number of the dtype, which
# `torch.finfo` knows. In a row without a valid entry all scores are then equal, and softmax turns them into ordinary
# numbers. A second selection with the same mask puts 0 at every masked place.
#
# </details>


# %% answer="masked-softmax"
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension among the entries where mask is True; 0 elsewhere.

    scores: (..., T); mask: bool, broadcastable to scores; returns (..., T) in the dtype of scores.
    """
    ### BEGIN SOLUTION
    smallest = torch.finfo(scores.dtype).min  # finite, so that no row becomes nan
    harmless = torch.where(mask, scores, smallest)
    return torch.where(mask, harmless.softmax(-1), 0.0)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # bias = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))  # the mask, to be added
    # p = (scores + bias).softmax(-1)
    # # rows without any valid entry: 0 in place of nan
    # return torch.where(mask.any(-1, keepdim=True), p, 0.0)
    ### END GIVEN


# %% helpers="masked-softmax"
def softmax_gradient(p):
    """The gradient of the scores, from the probabilities: p_i times (v_i minus the mean of v under p)."""
    v = incoming_gradient(p)
    return p * (v - (p * v).sum(-1, keepdim=True))


def probabilities(scores, mask):
    """Softmax over what is valid, in float64."""
    powers = torch.where(mask, scores.detach().double(), -torch.inf).softmax(-1)
    return powers.nan_to_num(0.0)


def others(seen):
    """Whether the probabilities are others than those of softmax over what is valid."""
    expected = probabilities(*seen.args)
    return seen.value.shape != expected.shape or not torch.allclose(seen.value.double(), expected, atol=1e-2)


values_first = mistake(
    "The probabilities are not right yet, and so the gradient is not: see the check above.", when=others
)
written = mistake(
    "`scores` was changed in place, and autograd refuses that for a leaf: make a new tensor ({detail}).",
    raises="a leaf Variable that requires grad",
)
nan_below_right_output = mistake(
    "The output is right, the gradient is nan: in the empty row softmax produced nan, and its backward multiplies "
    "the zero gradient by that nan. Selecting afterwards is too late; keep nan from arising.",
    when=lambda seen: seen.value.isfinite().all() and seen.gradient(0).isnan().any(),
)
off = "Masked entries must get gradient 0, valid ones the softmax gradient: {detail}."


def row_by_row(scores, mask):
    """Each row by Python floats: exponentials of what is valid, divided by their sum."""
    rows = []
    valid = mask.expand(scores.shape).reshape(-1, scores.shape[-1]).tolist()
    for row, kept in zip(scores.double().reshape(-1, scores.shape[-1]).tolist(), valid, strict=True):
        largest = max((s for s, k in zip(row, kept, strict=True) if k), default=0.0)
        powers = [math.exp(s - largest) if k else 0.0 for s, k in zip(row, kept, strict=True)]
        rows.append([p / (sum(powers) or 1.0) for p in powers])
    return torch.tensor(rows, dtype=torch.float64).reshape(scores.shape).to(scores.dtype)


# %% check="masked-softmax" points=0.5
"""The probabilities of ordinary scores: 0 where masked, a row without valid entries is 0."""
with check("masked-softmax") as test:
    test("four columns; rows with four valid entries, three, one and none")
    some_scores = torch.tensor([[1.0, 2, 4, 3], [2, 6, 5, 1], [5, 3, 2, 7], [1, 8, 2, 3]]).log()  # exp gives them back
    some_mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        torch.tensor([[0.1, 0.2, 0.4, 0.3], [2 / 9, 6 / 9, 0, 1 / 9], [0, 0, 1, 0], [0, 0, 0, 0]]),
        mistake("A mask of True means valid.", when=lambda seen: not seen.value[0].any() and seen.value[3].any()),
        mistake(
            "A row without valid entries must be all 0; yours is not (a large negative number shifts all entries of "
            "the row equally).",
            when=lambda seen: (
                torch.allclose(seen.value[:3].sum(-1), torch.ones(3))
                and seen.value[3].any()
                and seen.value[3].isfinite().all()
            ),
        ),
        mistake(
            "The valid entries of a row must sum to 1: you blanked entries of an ordinary softmax without "
            "renormalising.",
            when=lambda seen: torch.allclose(seen.value[1], torch.tensor([2 / 14, 6 / 14, 0, 1 / 14])),
        ),
        mistake(
            "Softmax goes over the last dimension: each row with a valid entry sums to 1. Here the columns do.",
            when=lambda seen: torch.allclose(seen.value.sum(0)[[0, 1, 3]], torch.ones(3)),
        ),
        mistake(
            "One row without valid entries has blanked the rows that have some.",
            when=lambda seen: not seen.value.any(),
        ),
        mistake(
            "The rows sum to 1, but these are not the probabilities of softmax: exp of the scores, divided by the sum "
            "over the valid entries. Was something scaled, or taken twice?",
            when=lambda seen: torch.allclose(seen.value[:3].sum(-1), torch.ones(3)) and not seen.value[3].any(),
        ),
        mistake("There is nan in the output: {detail}.", when=lambda seen: seen.value.isnan().any()),
    )
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    test.hidden("random scores and masks")
    generator = torch.Generator().manual_seed(9)
    some_scores, some_mask = torch.randn(6, 5, generator=generator), torch.rand(6, 5, generator=generator) < 0.5
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(row_by_row, because="The probabilities are not those of softmax over the valid entries.")
    seen.leaves_arguments_alone()
    ### END HIDDEN TESTS

# %% check="masked-softmax" points=1
"""The gradient: no nan from a row without valid entries, 0 where masked, softmax's gradient elsewhere."""
with check("masked-softmax") as test:
    test("rows with three valid entries, one and none")
    some_scores = torch.tensor([[1.0, 2, 4, 3], [2, 6, 5, 1], [5, 3, 2, 7], [1, 8, 2, 3]]).log()
    some_mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores.requires_grad_(), some_mask)
    some_probs = torch.tensor([[0.1, 0.2, 0.4, 0.3], [2 / 9, 6 / 9, 0, 1 / 9], [0, 0, 1, 0], [0, 0, 0, 0]])
    seen.gives_gradients({0: softmax_gradient(some_probs)}, written, nan_below_right_output, values_first, because=off)

    ### BEGIN HIDDEN TESTS
    test.hidden("random scores and masks")
    generator = torch.Generator().manual_seed(10)
    some_scores = torch.randn(6, 5, generator=generator, requires_grad=True)
    some_mask = torch.rand(6, 5, generator=generator) < 0.5
    seen = observe(masked_softmax, some_scores, some_mask)
    wanted = softmax_gradient(probabilities(some_scores, some_mask)).to(some_scores.dtype)
    seen.gives_gradients({0: wanted}, written, nan_below_right_output, values_first, because=off, rtol=1e-4, atol=1e-5)
    ### END HIDDEN TESTS

# %% check="masked-softmax" points=0.5
"""nan and inf at masked places, large scores, any mask shape and dtype: values and gradients."""
with check("masked-softmax") as test:
    leaked = mistake(
        "A masked score leaked into the result: adding -inf (or multiplying by 0) does not remove nan or inf. Replace "
        "masked scores by selection.",
        when=lambda seen: not seen.value.isfinite().all(),
    )

    empty_row = mistake(
        "Masked scores don't leak, but a row without valid entries is nan: softmax of nothing but -inf is 0 / 0. "
        "Such a row must be all 0.",
        when=lambda seen: torch.equal(seen.value.isnan(), ~seen.args[1].any(-1, keepdim=True).expand_as(seen.value)),
    )

    nan_from_masked = mistake(
        "The gradient is nan: masked scores took part in the computation and were multiplied by 0, or selected away, "
        "afterwards. Replace them before anything is computed from them.",
        when=lambda seen: seen.gradient(0).isnan().any(),
    )

    values_wrong = "The probabilities are not those of softmax over the valid entries: {detail}."
    test("nan and inf at masked places: the probabilities")
    some_scores = torch.tensor([[0.0, torch.nan, 0], [torch.inf, 0, 0], [0, torch.nan, -torch.inf], [torch.nan] * 3])
    some_mask = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        torch.tensor([[0.5, 0, 0.5], [0, 0.5, 0.5], [1, 0, 0], [0, 0, 0]]),
        empty_row,
        leaked,
        mistake(
            "A masked nan or inf has spoilt its whole row, which was then blanked. Fixing the result is too "
            "late. Replace masked scores by selection.",
            when=lambda seen: not seen.value.any(),
        ),
        mistake("The probabilities are not right yet: see the first check.", stage="value"),
    )
    seen.leaves_arguments_alone()

    test("nan and inf at masked places: the gradient")
    some_scores = torch.tensor([[0.0, torch.nan, 0], [torch.inf, 0, 0], [0, torch.nan, -torch.inf], [torch.nan] * 3])
    some_mask = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores.requires_grad_(), some_mask)
    some_probs = torch.tensor([[0.5, 0, 0.5], [0, 0.5, 0.5], [1, 0, 0], [0, 0, 0]])
    seen.gives_gradients({0: softmax_gradient(some_probs)}, written, nan_from_masked, values_first, because=off)

    ### BEGIN HIDDEN TESTS
    small_fill = mistake(
        "The number -1e9 does not exist in float16: use -inf or torch.finfo(dtype).min. {detail}.",
        raises="without overflow|cannot be converted",
    )
    broadcast = "The mask may broadcast against scores: {detail}."
    generator = torch.Generator().manual_seed(9)

    test.hidden("valid scores of 1e4 and -1e4")
    some_mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 0]]) > 0
    some_scores = torch.tensor([[1e4, 9999, 3, -1e4], [-1e4, -1e4, -9999, -1e4], [-1e4, -9990, -1e4, -1e4]])
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        row_by_row,
        mistake(
            "Subtract the row's maximum before the exponential: exp(1e4) is inf.",
            when=lambda seen: not seen.value.isfinite().all() and not {"softmax", "_softmax"} & set(seen.op_names()),
        ),
        mistake(
            "Masked places took part in a row's maximum or sum: valid scores may be as low as -1e4. The number that "
            "stands in for a masked score must be far below all of them, such as torch.finfo(dtype).min.",
            when=lambda seen: seen.value.isfinite().all() and (seen.value.sum(-1) < 0.99).any(),
        ),
        because=values_wrong,
        rtol=5e-3,  # logsumexp keeps only three digits of scores this large
        atol=1e-6,
    )

    test.hidden("a masked score 1e4 above the valid ones")
    some_scores = torch.tensor([[1.0, 2, 1e4, 3], [2, 1e4, 1, 0.5], [9e3, 2, 1e4, 8e3]])
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        row_by_row,
        mistake(
            "A masked score that is larger than the valid ones makes them underflow to 0 before you renormalise: "
            "mask before the exponential.",
            when=lambda seen: (seen.value.sum(-1) < 0.5).any(),
        ),
    )

    for idea, size, mask_size in [
        ("a mask (T,)", (2, 3, 4), (4,)),
        ("a mask (B, 1, T)", (2, 3, 4), (2, 1, 4)),
        ("a mask (B, H, 1): whole rows", (3, 4, 2), (3, 4, 1)),
        ("one row of scores, 1-d", (5,), (5,)),
        ("four dimensions", (2, 3, 4, 5), (2, 1, 1, 5)),
        ("T = 1", (3, 1), (3, 1)),
        ("no rows", (0, 4), (0, 4)),
    ]:
        test.hidden(idea)
        words = "It must work for" if mask_size == size else "The mask may broadcast against scores, here"
        some_scores = torch.randn(size, generator=generator) * 3
        some_mask = torch.rand(mask_size, generator=generator) < 0.6
        seen = observe(masked_softmax, some_scores, some_mask)
        seen.returns(
            row_by_row,
            mistake(f"{words} {idea}: {{detail}}.", raises="."),
            because=broadcast if mask_size != size else values_wrong,
        )
        seen.leaves_arguments_alone()

    test.hidden("a single True, a single False")
    for single in (torch.tensor(True), torch.tensor([False])):
        seen = observe(masked_softmax, torch.tensor([[1.0, 2, 0.5], [0, 0, 3]]), single)
        seen.returns(
            row_by_row, mistake("A single True or False must also work: {detail}.", raises="."), because=broadcast
        )

    test.hidden("an expanded mask, scores that are not contiguous")
    some_mask = torch.tensor([True, False, True, True]).expand(2, 3, 4)
    seen = observe(masked_softmax, torch.randn(4, 3, 2, generator=generator).permute(2, 1, 0), some_mask)
    seen.returns(
        row_by_row,
        mistake("An expanded mask and scores that are not contiguous must also work: {detail}.", raises="."),
        because=values_wrong,
    )
    seen.leaves_arguments_alone()

    def near(seen, rtol):
        """Whether float64 probabilities are right up to this relative error."""
        return seen.value.dtype == torch.float64 and torch.allclose(seen.value, row_by_row(*seen.args), rtol=rtol)

    test.hidden("float64, float16 and bfloat16 keep their dtype")
    some_mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [0, 0, 0, 0]]) > 0
    for dtype, rtol, atol in [(torch.float64, 1e-9, 0), (torch.float16, 5e-3, 1e-4), (torch.bfloat16, 3e-2, 1e-3)]:
        some_scores = torch.tensor([[0.5, -1.25, 3, 2], [1.5, 0.25, -0.75, 1], [1, 2, 3, 4]], dtype=dtype)
        seen = observe(masked_softmax, some_scores, some_mask)
        seen.returns(
            row_by_row,
            small_fill,
            mistake("The dtype of scores must be kept: {detail}.", stage="dtype"),
            mistake(
                "Your float64 probabilities have only the digits of float32. Compute in the dtype of scores, or wider.",
                when=lambda seen: near(seen, 1e-4) and torch.equal(seen.value.float().double(), seen.value),
            ),
            mistake(
                "The probabilities of a row don't sum to 1 in all digits of float64. If you add a small number to the "
                "sum that you divide by, leave it out, and select where the sum is 0.",
                when=lambda seen: near(seen, 1e-4) and (seen.value.sum(-1)[:2] - 1).abs().max() > 1e-9,
            ),
            mistake("The probabilities are not right yet: see the first check.", stage="value"),
            rtol=rtol,
            atol=atol,
        )

    test.hidden("float64: a valid score far below all numbers of float32")
    some_scores = torch.tensor([[-1e300, 5, 7], [2, -1e300, 3]], dtype=torch.float64)
    lowest = (
        "In float64 valid scores may lie below all numbers of float32, and a masked place with such a number then "
        "counts for more than they do: fill with torch.finfo(scores.dtype).min, or with -inf."
    )
    seen = observe(masked_softmax, some_scores, torch.tensor([[True, False, False], [True, True, False]]))
    seen.returns(row_by_row, because=lowest)

    overflow = mistake(
        "Result and gradient contain nan: exp(1e4) is inf. Subtract the row's maximum before the exponential.",
        when=lambda seen: seen.gradient(0).isnan().any() and not {"softmax", "_softmax"} & set(seen.op_names()),
    )
    generator = torch.Generator().manual_seed(10)
    some_large = torch.tensor([[1e4, 9999, 3, -1e4], [1, 2, 1e4, 3], [5, -1e4, 1e4, 1]])
    some_mask = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0]]) > 0
    for idea, some_scores, mask in [
        ("large scores, valid and masked", some_large, some_mask),
        ("float64, three dimensions, a mask (B, 1, T)", None, torch.tensor([[[1, 0, 1]], [[0, 0, 0]]]) > 0),
        ("a mask (T,)", None, torch.tensor([True, False, True])),
        ("all valid", None, torch.tensor(True)),
        ("nothing valid", None, torch.tensor(False)),
    ]:
        test.hidden(idea)
        if some_scores is None:
            some_scores = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
        seen = observe(masked_softmax, some_scores.requires_grad_(), mask)
        wanted = softmax_gradient(probabilities(some_scores, mask)).to(some_scores.dtype)
        rtol, atol = (5e-3, 1e-3) if some_scores is some_large else (1e-6, 1e-9)
        if mask.any() or seen.noted.tracked or seen.error_text:  # without a valid entry, a constant is fine, too
            nan = overflow if some_scores is some_large else nan_from_masked
            seen.gives_gradients(
                {0: wanted},
                small_fill,
                nan_below_right_output,
                nan,
                nan_from_masked,
                values_first,
                because=off,
                rtol=rtol,
                atol=atol,
            )

    test.hidden("float16 and bfloat16")
    for dtype, rtol, atol in [(torch.float16, 1e-2, 2e-3), (torch.bfloat16, 5e-2, 1e-2)]:
        some_scores = torch.tensor([[0.5, -1.25, 3, 2], [1.5, 0.25, -0.75, 1], [1, 2, 3, 4]], dtype=dtype)
        seen = observe(masked_softmax, some_scores.requires_grad_(), some_mask)
        wanted = softmax_gradient(probabilities(some_scores, some_mask)).to(dtype)
        seen.gives_gradients(
            {0: wanted}, small_fill, nan_below_right_output, values_first, because=off, rtol=rtol, atol=atol
        )
    ### END HIDDEN TESTS
