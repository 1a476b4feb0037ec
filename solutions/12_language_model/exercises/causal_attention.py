# %% [markdown]
# ### Exercise 12.2 · Attention that never sees the future and never gives nan
#
# fix · solid · 20 min · 2 points
#
# This attention runs, a model with it trains, and its loss is splendid. But several things are wrong with it. Fix it.
# You need chapters 2 (broadcasting) and 4 (nan in backward).
#
# **Contract**
#
# - `q`, `k`, `v` are (B, H, T, D), and may be views such as those that `transpose` makes. `valid` is (B, T) bool, and
#   False marks padding. The result is (B, H, T, D) in the dtype of q. The *keys* of position t are the valid positions
#   s <= t, including t itself if it is valid. Row t of the result is the mean of v over these keys, weighted by the
#   softmax of q[t] · k[s] / √D over them.
# - Padding only affects keys: no query attends to a padded position, but the query of a padded position is computed
#   like any other.
# - If a query has no key, its row is exactly zero.
# - The values in padded rows of k and v, even nan and inf, reach no output and no gradient. All other numbers are
#   finite, and no gradient of q, k or v may be nan or infinite.
# - Scores of 1e5 and -1e5 work. float64 is not rounded to float32, and bfloat16 works (it may be computed in float32).
#   The arguments are not changed.
#
# **Rule.** Do not call `scaled_dot_product_attention`.
#
# <details><summary>Hint 1</summary>
#
# If you change the last token, which outputs may change? What is the softmax of a row that is all -inf, and what is its
# gradient?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Make one boolean mask that says which query (row) may look at which key (column): `tril()` of ones for the order,
# `valid[:, None, None, :]` for the padding. Then find the rows of the mask that have no True at all.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put zeros into the padded rows of k and v before any product, because 0 · nan is nan, also in backward. Fill masked
# scores by selection, and only in rows that have a key. At the end, put zeros into the rows that have none.
#
# </details>


# %% answer="causal-attention"
def causal_attention(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    """Each position's weighted mean over the valid ones up to its own; zeros where there is none.

    q, k, v: (B, H, T, D) floating point; valid: (B, T) bool, False marks padding;
    returns (B, H, T, D).
    """
    ### BEGIN SOLUTION
    T, D = q.shape[-2:]
    padded = ~valid[:, None, :, None]
    k, v = k.masked_fill(padded, 0.0), v.masked_fill(padded, 0.0)
    keys = torch.ones(T, T, dtype=torch.bool, device=q.device).tril() & valid[:, None, None, :]
    has_key = keys.any(-1, keepdim=True)
    scores = q @ k.transpose(-2, -1) / D**0.5
    weights = scores.masked_fill(~keys & has_key, -torch.inf).softmax(-1)
    return torch.where(has_key, weights @ v, 0.0)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # T = q.shape[-2]
    # w = q @ k.transpose(-2, -1) / q.shape[-1]
    # future = torch.ones(T, T).tril(1) == 0
    # w = w + torch.zeros(T, T).masked_fill(future, -torch.inf)
    # w = w + torch.zeros_like(w).masked_fill(~valid[:, None, :, None], -torch.inf)
    # return w.softmax(-1) @ v
    ### END GIVEN


# %% helpers="causal-attention"
def by_position(q, k, v, valid, root=0.5):
    """The result position by position, in float64: for each query only the keys that it has are looked at."""
    q, k, v = q.double(), k.double(), v.double()
    rows = []
    for b, t in [(b, t) for b in range(len(q)) for t in range(q.shape[2])]:
        keys = [s for s in range(t + 1) if valid[b, s]]
        scores = (k[b, :, keys] * q[b, :, None, t]).sum(-1) / q.shape[-1] ** root  # (H, keys)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        rows.append((weights[..., None] * v[b, :, keys]).sum(1))  # the sum of nothing is zero
    return torch.stack(rows).unflatten(0, (len(q), -1)).transpose(1, 2)


def some(seed, *size):
    """Queries, keys and values of this size."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator) for _ in range(3)]


def like(came, wanted, rows=slice(None)):
    """Whether these rows (of the time) are alike."""
    return torch.allclose(came[:, :, rows].double(), wanted[:, :, rows].double(), rtol=1e-3, atol=1e-4)


# %% check="causal-attention" points=1
"""Each position looks at the valid positions up to its own, with weights that sum to one."""
with check("causal-attention") as test:
    forbidden = "Write the mask and the softmax yourself, without scaled_dot_product_attention."

    def weights_are(ask):
        """A condition on the weights of the first test, (4, 4), nan where there are none."""

        def asked(seen):
            return bool(ask(seen.value[0, 0]))

        return asked

    def sums(w, dim):
        """Whether the weights sum to one along a dimension."""
        return torch.allclose(w.nansum(dim), torch.ones(4), atol=1e-3)

    above, below = torch.ones(4, 4).triu(1) > 0, torch.ones(4, 4).tril(-1) > 0
    first_above = above & (torch.ones(4, 4).tril(1) > 0)
    known = (
        mistake(
            "The mask is upside down: position t sees what comes after it instead of what comes before it.",
            when=weights_are(lambda w: not w[below].nan_to_num().any() and w[above].any()),
        ),
        mistake(
            "Position t sees position t + 1: tril(1) keeps one diagonal too many. Such a model trains to a loss near "
            "zero and writes nonsense.",
            when=weights_are(lambda w: w[first_above].all() and not w[above & ~first_above].any()),
        ),
        mistake(
            "Position t does not see itself. Keep the diagonal (tril(), not tril(-1)).",
            when=weights_are(lambda w: not w.diagonal()[1:].any() and w[1:][below[1:]].all()),
        ),
        mistake(
            "You mask after the softmax, so the weights do not sum to one.",
            when=weights_are(lambda w: not w[above].any() and sums(w[3:].expand(4, 4), 1) and not sums(w, 1)),
        ),
        mistake(
            "The weights of a query must sum to one over the KEYS, the last dimension of the scores. Yours sum to one "
            "over the queries.",
            when=weights_are(lambda w: sums(w, 0) and not sums(w, 1)),
        ),
        mistake(
            "Position t sees the whole future. Only positions s <= t may have a weight.",
            when=weights_are(lambda w: w[above].all()),
        ),
        mistake(
            "Scores must be divided by the square root of D.",
            when=lambda seen: any(like(seen.value, by_position(*seen.args, root=root)) for root in (0, 1)),
        ),
        mistake("The result must have the shape of q: {detail}.", stage="shape"),
    )

    test("v is the unit matrix, so that the weights themselves come back; every position is valid")
    unit = torch.eye(4)[None, None]
    q, k, _ = some(1, 1, 1, 4, 4)
    everything = torch.ones(1, 4, dtype=torch.bool)
    seen = observe(causal_attention, 2 * q, k, unit, everything)
    seen.returns(by_position(2 * q, k, unit, everything).float(), *known, rtol=1e-4, atol=1e-5)
    seen.that(not any("scaled_dot_product" in name for name in seen.op_names()), forbidden, stage="rule")

    test("the last token is changed: only the last output may move")

    def moved(attention, q, k, v, valid):
        """Change the last row of q, k and v, and say of each position whether its output moves."""
        before = attention(q, k, v, valid)
        changed = [torch.cat([tensor[:, :, :-1], tensor[:, :, -1:] + 1], 2) for tensor in (q, k, v)]
        return ((attention(*changed, valid) - before).abs() > 1e-5).any(-1).any(1)[0].tolist()

    q, k, v = some(2, 1, 2, 6, 3)
    seen = observe_scenario(moved, causal_attention, q, k, v, torch.ones(1, 6, dtype=torch.bool))
    seen.that(
        seen.value == [False] * 5 + [True],
        "Only the last token changed, but an earlier output changed as well, so it depends on what follows it.",
    )

    test("two texts, three heads; padding at the end and inside")
    q, k, v = some(3, 2, 3, 5, 4)
    valid = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1]]) > 0
    seen = observe(causal_attention, q, k, v, valid)

    def of_valid(tensor):
        """Its rows at valid positions."""
        return tensor.double().transpose(1, 2)[valid]

    def without_padding(q, k, v, valid):
        """What comes if all positions are valid."""
        return by_position(q, k, v, torch.ones_like(valid))

    expected = by_position(q, k, v, valid)
    seen.returns(
        expected.float(),
        mistake("`valid` makes no difference, so padded positions are keys like all others.", gives=without_padding),
        mistake(
            "You applied `valid` to the queries. It says which keys may be attended to (valid[:, None, None, :]).",
            when=lambda seen: torch.allclose(of_valid(seen.value), of_valid(without_padding(*seen.args)), atol=1e-4),
        ),
        mistake(
            "The query of a padded position must be computed like any other. Padding only affects keys.",
            when=lambda seen: torch.allclose(of_valid(seen.value), of_valid(expected), atol=1e-4),
        ),
        mistake(
            "You mask after the softmax, so the weights do not sum to one.",
            gives=lambda q, k, v, valid: without_padding(q, k, v * valid[:, None, :, None], valid),
        ),
        mistake(
            "False marks padding: you left out the valid keys.",
            when=lambda seen: like(seen.value, by_position(q, k, v, ~valid), slice(2, None)),
        ),
        mistake(
            "`valid` is (B, T) and the scores are (B, H, T, T): it must broadcast as (B, 1, 1, T). {detail}.",
            raises="must match|broadcast",
        ),
        mistake(
            "Scores must be divided by the square root of D, not of T.",
            gives=lambda q, k, v, valid: by_position(q * 2 / 5**0.5, k, v, valid),
        ),
        because="These are not the means over the valid positions s <= t.",
        rtol=1e-4,
        atol=1e-5,
    )
    seen.that(not any("scaled_dot_product" in name for name in seen.op_names()), forbidden, stage="rule")
    seen.leaves_arguments_alone()

# %% check="causal-attention" points=1
"""Queries without a key give zeros; no nan from padding or in gradients; dtypes, large scores."""
with check("causal-attention") as test:
    empty_row = mistake(
        "A query without any key gives nan, because the softmax of a row of -inf is 0/0. Return zeros there.",
        when=lambda seen: seen.value.isnan().any(),
    )
    averages = mistake(
        "A query without any key must return zeros. With a large negative number instead of -inf it averages "
        "over everything, including the future.",
        when=lambda seen: (
            seen.value[1, :, :2].any()
            and seen.value.isfinite().all()
            and torch.allclose(seen.value[1, :, 0], seen.value[1, :, 1], rtol=1e-2, atol=1e-3)
        ),
    )
    unfilled = mistake(
        "A query without any key must return zeros. You left its masked scores as they are, so it returns a mean "
        "of keys that it may not look at.",
        when=lambda seen: seen.value[1, :, :2].any() and seen.value.isfinite().all(),
    )

    test("two texts, three heads; padding at the end and inside")
    q, k, v = some(3, 2, 3, 5, 4)
    valid = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1]]) > 0
    seen = observe(causal_attention, q, k, v, valid)
    seen.returns(by_position(q, k, v, valid).float(), FIRST_CHECK_FIRST, rtol=1e-4, atol=1e-5)
    by_hand = not any("scaled_dot_product" in name for name in seen.op_names())
    seen.that(by_hand, "", FIRST_CHECK_FIRST, stage="rule")

    test("padding in front: the first queries of the second text have no key, and give zeros")
    in_front = torch.tensor([[1, 1, 0, 1, 1], [0, 0, 1, 1, 0]]) > 0
    seen = observe(causal_attention, q, k, v, in_front)
    seen.returns(
        by_position(q, k, v, in_front).float(),
        empty_row,
        averages,
        unfilled,
        mistake(
            "You return only zeros for a text in which one query has no key. Only that query's row must be zero.",
            when=lambda seen: not seen.value[1].any(),
        ),
        rtol=1e-4,
        atol=1e-5,
    )
    exactly = "A query without any key must return exactly zero, but yours returns small numbers."
    seen.that(not seen.value[1, :, :2].any(), exactly)

    ### BEGIN HIDDEN TESTS
    def infinite(seen):
        """Whether a gradient is not finite."""
        found = [seen.gradient(n) for n in range(3)]
        return any(gradient is not None and not gradient.isfinite().all() for gradient in found)

    in_place = mistake("Your code changed an argument in place ({detail}). Make new tensors.", raises="a leaf Variable")

    def judge_gradients(seen, nan):
        """Judge the gradients of q, k and v."""
        seen.gives_gradients(
            lambda q, k, v, valid: by_position(q, k, v, valid).float(),
            mistake(nan, when=lambda seen: infinite(seen) and {"softmax", "_softmax"} & set(seen.op_names())),
            mistake(
                "The output is clean, but a gradient is nan or infinite. Leave out masked scores by selection "
                "before you divide by the sum. A product with 0 is too late, because backward also divides.",
                when=infinite,
            ),
            rtol=1e-3,
            atol=1e-4,
        )

    after = (
        "The output is clean, but a gradient is nan, because nan_to_num or where after the softmax does not stop "
        "its backward pass. No row that is all -inf may enter the softmax."
    )
    for idea, valid in [
        ("gradients with padding in front", in_front),
        ("gradients where one text has none", torch.tensor([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0]]) > 0),
    ]:
        test.hidden(idea)
        leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
        seen = observe(causal_attention, *leaves, valid).expecting(in_place)
        seen.returns(by_position(q, k, v, valid).float(), empty_row, averages, unfilled, rtol=1e-4, atol=1e-5)
        judge_gradients(seen, after)

    for idea, number in [
        ("nan in padded keys and values", torch.nan),
        ("inf in padded keys and values", torch.inf),
        ("huge numbers in padded keys and values", 3e38),
    ]:
        test.hidden(idea)
        dirty = [tensor.masked_fill(~in_front[:, None, :, None], number).requires_grad_() for tensor in (k, v)]
        seen = observe(causal_attention, q.clone().requires_grad_(), *dirty, in_front)
        seen.returns(
            by_position(q, *dirty, in_front).float(),
            mistake(
                "Values in padded rows of k and v reached the output, because 0 * nan is nan. Clear these rows "
                "before the products.",
                when=lambda seen, number=number: number != 3e38 and not seen.value.isfinite().all(),
            ),
            because="Values in padded rows of k and v changed the output.",
            rtol=1e-4,
            atol=1e-5,
        )
        dirt = (
            "The output is clean, but a gradient is nan, because backward multiplies by the padded rows of k and "
            "v, and 0 * nan is nan. Clear both before the products."
        )
        if number == 3e38:
            dirt = (
                "The output is clean, but a gradient is nan. Padded rows of k and v may also hold finite numbers so "
                "large that their sums are inf, and 0 * inf is nan. Clear the rows by `valid`, not by what is in them."
            )
        judge_gradients(seen, dirt)

    for dtype, rtol, atol in [(torch.float64, 1e-9, 1e-10), (torch.bfloat16, 5e-2, 2e-2)]:
        test.hidden(f"{dtype}".removeprefix("torch."))
        arguments = [tensor.to(dtype) for tensor in (q, k, v)]
        seen = observe(causal_attention, *arguments, in_front)
        seen.returns(
            by_position(*arguments, in_front).to(dtype),
            mistake(
                "The result must have the dtype of q, and so must everything that you add to the scores: {detail}.",
                stage=("dtype", "raised"),
            ),
            mistake(
                "float64 must be computed in float64: this is less exact.",
                when=lambda seen: seen.looks_like(lambda q, k, v, valid: by_position(q, k, v, valid)),
            ),
            empty_row,
            averages,
            unfilled,
            unfilled,
            rtol=rtol,
            atol=atol,
        )

    test.hidden("one position")
    one = [tensor[:, :, :1] for tensor in (q, k, v)]
    seen = observe(causal_attention, *one, in_front[:, :1])
    seen.returns(by_position(*one, in_front[:, :1]).float(), empty_row, rtol=1e-4, atol=1e-5)

    for idea, factor in [("large scores", 1e5), ("large negative scores", -1e5)]:
        test.hidden(idea)
        large = q.abs() * factor, k.abs(), v
        seen = observe(causal_attention, *large, in_front)
        seen.returns(
            by_position(*large, in_front).float(),
            mistake(
                "Large scores give nan or inf. Subtract the largest score before the exponential, as softmax does.",
                when=lambda seen: not seen.value[0].isfinite().all(),
            ),
            mistake(
                "A query that has a key gives zeros, because next to a much larger masked score every exponential is "
                "0. Fill masked scores with -inf before the softmax, or before you look for the largest score to "
                "subtract. A number such as -1e4 may be above the scores of the keys.",
                when=lambda seen: seen.value[0, :, 0].eq(0).all(-1).any(),
            ),
            mistake(
                "Valid scores may be as low as -1e5. The value for masked scores must be far below that, such as -inf.",
                when=lambda seen: seen.value.isfinite().all() and not like(seen.value[:1], v[:1], slice(1)),
            ),
            mistake(
                "No masked position has a weight, but keys with very different scores share it, as if the scores were "
                "limited to some size. Leave them as they are: softmax works for scores of any size.",
                when=lambda seen: seen.value.isfinite().all(),
            ),
            rtol=1e-3,
            atol=1e-3,
        )

    test.hidden("q, k and v as views")
    turned = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (q, k, v)]
    seen = observe(causal_attention, *turned, in_front)
    seen.returns(by_position(*turned, in_front).float(), rtol=1e-4, atol=1e-5)
    seen.leaves_arguments_alone()
    ### END HIDDEN TESTS
