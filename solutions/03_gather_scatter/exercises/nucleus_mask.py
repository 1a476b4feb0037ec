# %% [markdown]
# ### Exercise 3.8 · Top-p: sort, decide, put back
#
# implement · long · 20 min · 4 points
#
# Every language model that samples with top-p (nucleus sampling) does this: it sorts the tokens, decides by rank, and
# brings the decision back to the tokens. The last step is where it usually goes wrong.
#
# **Contract**
#
# - In each row, rank the tokens by probability (softmax over the last dimension), highest first, equal ones in the
#   order of their position. Keep a token if the probabilities of the tokens ranked *before* it sum to less than p. So
#   you keep the smallest leading set with a total of at least p, and always at least one token. (Llama's sampling code
#   differs if the sum is exactly p: it also keeps that token. Hugging Face's code doesn't say which of several equal
#   tokens it keeps.)
# - The mask has the shape of `logits`, in the order of the *tokens* (`mask[..., v]` belongs to `logits[..., v]`). It is
#   bool, on the device of `logits`, and has no graph.
# - `logits` is (..., V), and leading sizes may be 0. It may contain -inf, but every row has a finite logit. `logits` is
#   not changed.
# - A p outside (0, 1] raises ValueError; nan counts as outside.
# - Where rounding decides whether a sum is below p (in the dtype that you add in) or whether two probabilities are
#   equal (in softmax), either answer is accepted. But it is better to add in float32, because in bfloat16 the sum over
#   a long tail of tokens is off by far more.
#
# <details><summary>Hint 1</summary>
#
# After sorting you know which *ranks* are kept. Which tensor knows which token had which rank, and do you put the ranks
# back by reading or by writing?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# sort returns (values, order): token `order[r]` has rank r. Write the decision for rank r to position `order[r]`, which
# is the inverse permutation. For the decision itself, use the cumulative sum *without* the token's own probability.
# (`sort` accepts `stable=True` only together with `dim=` as a keyword.)
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# First refuse p, with a comparison that is also False for nan. Take the softmax of the detached logits, in float32 if
# they are in half precision (`softmax` takes a dtype). Sort it stably, highest first. The cumulative sum minus the
# probability itself is the sum before each rank; compare it with p. Scatter this decision with `order` into a bool
# tensor of the same shape.
#
# </details>


# %% answer="nucleus-mask"
def nucleus_mask(logits: Tensor, p: float) -> Tensor:
    """Which tokens belong to the smallest set of most probable ones whose total reaches p.

    logits: (..., V) floating point; returns bool of the same shape.
    Raises ValueError for p outside (0, 1].
    """
    ### BEGIN SOLUTION
    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], it is {p}")
    wide = torch.promote_types(logits.dtype, torch.float32)  # half precision is added in float32
    probs = logits.detach().softmax(-1, dtype=wide)
    probs, order = probs.sort(dim=-1, descending=True, stable=True)
    before = probs.cumsum(-1) - probs
    return torch.zeros_like(order, dtype=torch.bool).scatter_(-1, order, before < p)
    ### END SOLUTION


# %% helpers="nucleus-mask"


def reference(logits, p):
    probs, order = logits.detach().double().softmax(-1).sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, probs.cumsum(-1) - probs < p)


# %% check="nucleus-mask" points=2
"""A token is kept if those ranked before it sum to less than p."""
with check("nucleus-mask") as test:
    six_probs = torch.tensor([0.1, 0.35, 0.05, 0.3, 0.15, 0.05])
    six_logits = six_probs.log() + 1.5
    not_bool = mistake("The mask must be bool: {detail}", stage="dtype")

    test("probabilities .1 .35 .05 .3 .15 .05 and p = 0.6: .35 and .3 are kept")
    seen = observe(nucleus_mask, six_logits, 0.6)
    mistakes = {
        "The mask is still in sorted order: it must be brought back to the order of the tokens.": torch.tensor(
            [1, 1, 0, 0, 0, 0]
        ),
        "You read with the sort order (gather) where you had to write with it (scatter): that applies the "
        "permutation again in place of undoing it.": torch.tensor([1, 0, 0, 1, 0, 0]),
        "The token that carries the sum across p is missing (where the best token alone exceeds p, nothing would "
        "be left): decide by the sum *before* it.": torch.tensor([0, 1, 0, 0, 0, 0]),
        "You summed the probabilities in the order of the tokens: sum them in sorted order.": torch.tensor(
            [1, 1, 1, 1, 0, 0]
        ),
        "One token too many: a token whose predecessors already reach p is dropped.": torch.tensor([0, 1, 0, 1, 1, 0]),
        "You summed from the least probable token up.": torch.tensor([1, 0, 1, 1, 1, 1]),
        "Those are the tokens to drop: the most probable ones are kept.": torch.tensor([1, 0, 1, 0, 1, 1]),
        "The sums run over raw logits: turn them into probabilities first.": [
            torch.tensor([1, 1, 1, 1, 0, 1]),
            torch.tensor([1, 1, 1, 0, 1, 1]),
        ],
        "Here p is a probability mass, not a share of the vocabulary.": torch.tensor([1, 1, 0, 1, 1, 0]),
        "Asked for is a mask with one entry per token, not the list of kept tokens: {detail}": (2,),
        "With sort, stable is accepted only when dim is given as a "
        "keyword: sort(dim=-1, stable=True, ...).": r"sort\(\) (takes from 1 to 0|.*int, (stable|descending)=bool)",
        "Two mistakes at once: the token that carries the sum across p is missing (decide by the sum *before* it), "
        "and you read with the sort order (gather) where you had to write with it (scatter).": torch.tensor(
            [0, 0, 0, 1, 0, 0]
        ),
    }
    seen.returns(torch.tensor([False, True, False, True, False, False]), not_bool, *known(mistakes))

    test("p = 0.7 keeps .15 too, p = 0.3 keeps .35 only")
    seen = observe(nucleus_mask, six_logits, 0.7)
    seen.returns(torch.tensor([False, True, False, True, True, False]))
    seen = observe(nucleus_mask, six_logits, 0.3)
    seen.returns(torch.tensor([False, True, False, False, False, False]))

    test("two rows with different winners")
    two_rows = torch.stack([six_logits, torch.tensor([0.5, 0.05, 0.25, 0.1, 0.05, 0.05]).log() - 0.5])
    each_row = "Each row is its own distribution: softmax, sort and cumsum run over the last dimension."
    seen = observe(nucleus_mask, two_rows, 0.6)
    mistakes = {each_row: [torch.ones(2, 6), torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0]])]}
    seen.returns(
        torch.tensor([[False, True, False, True, False, False], [True, False, True, False, False, False]]),
        *known(mistakes),
        mistake(each_row, gives=torch.tensor([[0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]])),
        mistake(
            "A token that was dropped in one row is dropped in both: `order[drop]` is a flat list of token numbers and "
            "has lost its rows. Write with scatter, row by row.",
            gives=torch.zeros(2, 6),
        ),
    )

    test("the best token alone exceeds p: it is kept")
    seen = observe(nucleus_mask, torch.tensor([0.06, 0.9, 0.04]).log(), 0.5)
    seen.returns(torch.tensor([False, True, False]))

    test("the same rows, p = 0.7: three tokens of the first, two of the second")
    seen = observe(nucleus_mask, two_rows, 0.7)
    seen.returns(
        torch.tensor([[False, True, False, True, True, False], [True, False, True, False, False, False]]),
        mistake(
            "Each row decides for itself how many tokens it keeps.",
            when=lambda seen: seen.value[0].sum() == seen.value[1].sum(),
        ),
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("a sort order that is not its own inverse, and 50 random rows")
    seen = observe(nucleus_mask, torch.tensor([0.2, 0.5, 0.3]).log(), 0.6)
    seen.returns(torch.tensor([False, True, True]))
    g = torch.Generator().manual_seed(8)
    fifty_rows = torch.randn(50, 9, generator=g) * 2
    seen = observe(nucleus_mask, fifty_rows, 0.8)
    seen.returns(reference)
    ### END HIDDEN TESTS

# %% check="nucleus-mask" points=1
"""Equal probabilities, logits of -inf, and p from one end of its range to the other."""
with check("nucleus-mask") as test:
    two_rows = torch.tensor([[0.1, 0.35, 0.05, 0.3, 0.15, 0.05], [0.5, 0.05, 0.25, 0.1, 0.05, 0.05]]).log()
    two_rows += torch.tensor([[1.5], [-0.5]])

    test("two rows with different winners")
    observe(nucleus_mask, two_rows, 0.7).returns(
        torch.tensor([[False, True, False, True, True, False], [True, False, True, False, False, False]]),
        FIRST_CHECK_FIRST,
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("equal probabilities are ranked by position")
    by_position = mistake(
        "Equal probabilities: they are ranked by position; a threshold on the probability keeps all or none of them, "
        "an unstable sort any.",
        stage="value",
    )
    exactly_p = mistake(
        "A token whose predecessors sum to exactly p is dropped: it is kept for less than p only.",
        when=lambda seen: seen.value.sum() == 3 and seen.args[1] == 0.5,
    )
    for p, kept in ((0.45, 2), (0.5, 2), (0.55, 3)):
        seen = observe(nucleus_mask, torch.full((4,), -0.7), p)
        seen.returns(torch.arange(4) < kept, exactly_p, by_position)
    seen = observe(nucleus_mask, torch.full((2, 64), 1.3), 0.5)
    seen.returns((torch.arange(64) < 32).expand(2, 64), by_position)
    two_levels = torch.tensor([0.125, 0.25, 0.125, 0.25, 0.125, 0.125]).log()
    seen = observe(nucleus_mask, two_levels, 0.6)
    seen.returns(torch.tensor([True, True, False, True, False, False]), by_position)

    test.hidden("tokens of logit -inf")
    masked = torch.tensor([[1.0, -torch.inf, 2.0, 0.0, -torch.inf], [-torch.inf, 3.0, -torch.inf, -torch.inf, 0.0]])
    for p in (0.3, 0.9, 0.97):
        observe(nucleus_mask, masked, p).returns(
            reference,
            mistake(
                "A logit of -inf is a probability of 0; the other tokens share the whole.",
                when=lambda seen: (seen.value & seen.args[0].isneginf()).any() or not seen.value.any(-1).all(),
            ),
        )

    test.hidden("logits that are nearly equal")
    observe(nucleus_mask, torch.tensor([1.0, 1.0001, 0.5]), 0.1).returns(
        torch.tensor([False, True, False]),
        mistake(
            "The second logit is larger by 0.0001, and the first was kept: in half precision they are equal. Don't "
            "convert the logits to a smaller dtype.",
            gives=torch.tensor([True, False, False]),
        ),
    )

    test.hidden("finite logits far below zero beside -inf")
    observe(nucleus_mask, torch.tensor([-2e30, -1e30, -torch.inf]), 0.5).returns(
        torch.tensor([False, True, False]),
        mistake(
            "A number in place of -inf can be larger than a finite logit, and a lower bound on the logits makes "
            "different ones equal. softmax accepts -inf as it is.",
            stage="value",
        ),
    )

    test.hidden("p = 1 keeps all that is possible, a tiny p keeps the best token")
    allowed = mistake("p = 1 is allowed, and every token that is possible is kept: {detail}.", stage="raised")
    observe(nucleus_mask, two_rows[:, :4], 1.0).returns(torch.ones(2, 4, dtype=torch.bool), allowed)
    observe(nucleus_mask, two_rows[:, :4], 1).returns(torch.ones(2, 4, dtype=torch.bool), allowed)
    observe(nucleus_mask, two_rows, 1e-6).returns(reference)

    test.hidden("p = 1 and a logit of -inf")
    observe(nucleus_mask, torch.tensor([-torch.inf, 0.5, 0.5]), 1.0).returns(
        torch.tensor([False, True, True]),
        mistake(
            "The tokens before it already have the whole probability, 1, and that is not less than p: a logit of -inf "
            "is dropped, with p = 1 too.",
            gives=torch.ones(3, dtype=torch.bool),
        ),
    )

    test.hidden("300 equal logits in bfloat16, p = 1")
    observe(nucleus_mask, torch.zeros(300, dtype=torch.bfloat16), 1.0).returns(
        torch.ones(300, dtype=torch.bool),
        mistake(
            "With p = 1 all 300 tokens are kept, and some are missing. bfloat16 can't tell 299 from 300, so keep "
            "ranks and their number in int64.",
            when=lambda seen: 250 < seen.value.sum() < 300,
        ),
    )

    test.hidden("a vocabulary of 3000 tokens")
    observe(nucleus_mask, torch.zeros(3000), 0.90017).returns(  # half-way between the sums of two tokens
        torch.arange(3000) <= 2700,
        mistake(
            "Every token of the vocabulary can be kept, however many that are: here 2701 of 3000 equal ones.",
            when=lambda seen: seen.value.sum() < 2690,
        ),
    )

    test.hidden("a p outside (0, 1] is refused")
    for p in (0.0, -0.1, 1.5, 0, math.nan):
        observe(nucleus_mask, two_rows, p).raises(ValueError, because=f"p = {p} must raise ValueError.")
    ### END HIDDEN TESTS

# %% check="nucleus-mask" points=1
"""Any shape and dtype; logits stay as they are, and the mask carries no graph."""
with check("nucleus-mask") as test:
    two_rows = torch.tensor([[0.1, 0.35, 0.05, 0.3, 0.15, 0.05], [0.5, 0.05, 0.25, 0.1, 0.05, 0.05]]).log()
    two_rows += torch.tensor([[1.5], [-0.5]])

    test("two rows with different winners; the logits are not changed")
    seen = observe(nucleus_mask, two_rows, 0.7)
    seen.returns(
        torch.tensor([[False, True, False, True, True, False], [True, False, True, False, False, False]]),
        FIRST_CHECK_FIRST,
    )
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    def elsewhere(dim, last):
        """The mask by a softmax over another dimension, sorted there or along the last."""

        def mask(logits, p):
            probs, order = logits.softmax(dim).sort(dim=last, descending=True, stable=True)
            return torch.zeros_like(order, dtype=torch.bool).scatter(last, order, probs.cumsum(last) - probs < p)

        return mask

    g = torch.Generator().manual_seed(8)
    corner = corners(test, nucleus_mask, reference, "logits", what="mask")
    mistakes = {
        "An empty batch has an empty mask: {detail}.": {
            "stage": ("raised", "shape"),
            "when": lambda seen: seen.args[0].numel() == 0,
        },
        "Each row is its own distribution: softmax, sort and cumsum run over the last dimension.": lambda seen: any(
            seen.looks_like(elsewhere(dim, last)) for dim in range(seen.args[0].dim() - 1) for last in (dim, -1)
        ),
    }
    by_view = "A view needs memory in the right order, which a transposed tensor has not: use flatten or reshape."
    below = (
        "A row has no token left, because exp underflows far below the largest logit of the batch. Subtract from each "
        "row its own largest logit, as softmax does."
    )
    mistakes[by_view] = "view"
    mistakes[below] = lambda seen: seen.args[0].min() < -150 and not seen.value.any(-1).all()
    some_logits = {
        "a vocabulary of one token": torch.randn(3, 1, generator=g),
        "three dimensions": torch.randn(2, 3, 5, generator=g) * 2,
        "as many rows as tokens": torch.randn(5, 5, generator=g) * 2,
        "an empty batch": torch.empty(0, 5),
        "logits that are not contiguous": (torch.randn(5, 4, 3, generator=g) * 2).permute(2, 1, 0),
        "float64": torch.randn(4, 6, generator=g, dtype=torch.float64) * 2,
        "a row 200 below the other": two_rows - torch.tensor([[0.0], [200.0]]),
    }
    corner.each({idea: (logits, 0.75) for idea, logits in some_logits.items()}, *known(mistakes))

    test.hidden("bfloat16 and float16")
    for dtype in (torch.bfloat16, torch.float16):
        observe(nucleus_mask, torch.tensor([[3.0, 1, 0, -1, 2], [0, 2, 5, 4, 1]], dtype=dtype), 0.8).returns(reference)

    test.hidden("logits that require grad: the mask carries no graph")
    graph = mistake("The mask must not carry a graph.", when=lambda seen: seen.noted.tracked)
    seen = observe(nucleus_mask, two_rows.clone().requires_grad_(), 0.6).expecting(graph)
    seen.returns(reference)
    seen.is_untracked()
    seen.leaves_arguments_alone()

    corner.keeps_first_result("mask", two_rows, two_rows.flip(0), 0.7)

    corner.keeps_device(torch.empty(2, 5, dtype=torch.bool), torch.empty(2, 5), 0.5)
    ### END HIDDEN TESTS
