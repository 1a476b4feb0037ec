# %% [markdown]
# ### Exercise 15.4 · Softmax in one pass
#
# implement · long · 30 min · 3 points
#
# Attention over many keys never needs all scores at once. Go through the keys block by block, carry what the blocks so
# far have told you, and return the output together with the logarithm of each query's normaliser, the sum that softmax
# divides by. With this second number the results of two devices, or of two parts of a cache, can be merged later.
#
# **Contract**
#
# - `q` is (B, H, Q, D), `k` is (B, H, K, D) and `v` is (B, H, K, E), all of one dtype. `keep` is (Q, K) bool, and True
#   means that the query may look at the key. The function returns a tuple of two tensors.
# - The first one is (B, H, Q, E) in the dtype of `q`: for each query the mean of the values, with the weights softmax(q
#   · k / √D) over the keys that it may see. The second one is (B, H, Q), float64 if `q` is and float32 otherwise: the
#   logsumexp of these scaled scores.
# - A query may see no key in the first blocks and some later. A query that may see no key at all gets zeros and -inf.
# - Keys are taken `block` at a time; the last block may be smaller. A `block` below 1 raises ValueError, one larger
#   than K is fine, and K may be 0. The arguments are not changed. Gradients are not asked for.
# - Half precision is computed in float32 and rounded once, at the end.
# - No result is nan as long as all scores, and the values and their weighted sums, are finite. Scores of 1e4 and -1e4
#   work, whether the key is hidden or not. In float32, the output may lose as many digits as the logsumexp of large
#   scores does (at 1e4, three are left).
#
# **Rule.** No tensor that your code makes has more elements than the largest of `q`, `k`, `v`, the output and the
# scores of one block, B·H·Q·block. If K is much larger than `block` and E, all of these tensors together never hold as
# many numbers as there are scores. The number of operations depends on the number of blocks, not on B, H or Q.
# `scaled_dot_product_attention` isn't called. (All of this is recorded.)
#
# <details><summary>Hint 1</summary>
#
# Take a single query and two blocks of keys. Which numbers and which vector must you carry from the first block to the
# second, so that the result is the softmax over both?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Carry the largest score so far, the sum of exp(score - largest) and the sum of these exponentials times their values.
# What happens to both sums when a block brings a larger score?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Everything added up so far is relative to the old maximum, so one factor, made from the old and the new maximum,
# brings both sums up to date. A query that has seen no key yet has the maximum -inf: subtract a finite number there
# instead, so that exp gives 0. Divide at the end, where there is something to divide by.
#
# </details>


# %% answer="blockwise-attention"
def blockwise_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor,
    block: int,
) -> tuple[Tensor, Tensor]:
    """Attention over `block` keys at a time: the output, and the log of each query's normaliser.

    q: (B, H, Q, D), k: (B, H, K, D), v: (B, H, K, E) floating point; keep: (Q, K) bool, True where
    a query may look; returns (B, H, Q, E) in the dtype of q and (B, H, Q) in float32 or float64.
    """
    ### BEGIN SOLUTION
    if block < 1:
        raise ValueError(f"a block has at least 1 key, not {block}")
    wide = torch.promote_types(q.dtype, torch.float32)
    scaled = q.to(wide) / math.sqrt(q.shape[-1])
    largest = scaled.new_full((*q.shape[:3], 1), -torch.inf)
    total = torch.zeros_like(largest)
    out = scaled.new_zeros(*q.shape[:3], v.shape[-1])
    for start in range(0, k.shape[2], block):
        keys = slice(start, start + block)
        scores = scaled @ k[:, :, keys].to(wide).mT
        scores = scores.masked_fill(~keep[:, keys], -torch.inf)
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        base = new.masked_fill(new == -torch.inf, 0.0)
        weights, shift = (scores - base).exp(), (largest - base).exp()
        total = total * shift + weights.sum(-1, keepdim=True)
        out = out * shift + weights @ v[:, :, keys].to(wide)
        largest = new
    out = out / total.masked_fill(total == 0, 1.0)
    return out.to(q.dtype), (largest + total.log()).squeeze(-1)
    ### END SOLUTION


# %% helpers="blockwise-attention"
def numbers(seed, B, H, Q, K, D, E, dtype=torch.float32):
    """Queries, keys and values of these sizes."""
    g = torch.Generator().manual_seed(seed)
    sizes = ((B, H, Q, D), (B, H, K, D), (B, H, K, E))
    return [torch.randn(size, generator=g, dtype=torch.float64).to(dtype) for size in sizes]


def scores_of(q, k, keep, root=0.5):
    """(B, H, Q, K): the scaled scores in float64, -inf where a key is hidden."""
    return (q.double() @ k.double().mT / q.shape[-1] ** root).masked_fill(~keep, -torch.inf)


def whole(q, k, v, keep, block=None, root=0.5):
    """Both results at once, from all scores in float64."""
    scores = scores_of(q, k, keep, root)
    normaliser = scores.logsumexp(-1)
    weights = (scores - normaliser.masked_fill(normaliser == -torch.inf, 0.0)[..., None]).exp()
    return (weights @ v.double()).to(q.dtype), normaliser.to(torch.promote_types(q.dtype, torch.float32))


def rescaling(total, out):
    """The output if, at a new maximum, sum and output are multiplied by these powers of the factor."""

    def output(q, k, v, keep, block):
        scores, v = scores_of(q, k, keep), v.double()
        old = torch.full_like(scores[..., :1], -torch.inf)
        sum_so_far, so_far = torch.zeros_like(old), torch.zeros_like(old @ v[:, :, :1])
        for start in range(0, k.shape[2], block):
            part = slice(start, start + block)
            new = torch.maximum(old, scores[..., part].amax(-1, keepdim=True))
            weights, shift = (scores[..., part] - new).exp(), (old - new).exp().masked_fill(old == -torch.inf, 1.0)
            sum_so_far = sum_so_far * shift**total + weights.sum(-1, keepdim=True)
            so_far = so_far * shift**out + weights @ v[:, :, part]
            old = new
        return so_far / sum_so_far

    return output


def averaged(q, k, v, keep, block):
    """The mean of the blocks' own outputs."""
    parts = [slice(start, start + block) for start in range(0, k.shape[2], block)]
    outs = [whole(q, k[:, :, part], v[:, :, part], keep[:, part])[0] for part in parts]
    return torch.stack(outs).mean(0)


def undivided(q, k, v, keep, block, top=1):
    """The sum of the values, each times exp(score - `top` times the largest score)."""
    scores = scores_of(q, k, keep)
    return (scores - top * scores.amax(-1, keepdim=True)).exp() @ v.double()


def full_blocks(q, k, v, keep, block):
    """The output for the keys of full blocks only."""
    end = k.shape[2] // block * block
    return whole(q, k[:, :, :end], v[:, :, :end], keep[:, :end])[0]


def is_output(wrong):
    """A condition: the first result is what this function of the arguments gives."""

    def asked(seen):
        return torch.allclose(seen.value[0].double(), wrong(*seen.args).double(), rtol=1e-3, atol=1e-4)

    return asked


def is_second(wrong):
    """A condition: the first result is right, and the second is what this function of the arguments gives."""

    def asked(seen):
        first, second = seen.value
        right = torch.allclose(first, whole(*seen.args)[0], rtol=1e-3, atol=1e-4)
        return right and torch.allclose(second.double(), wrong(*seen.args).double(), rtol=1e-3, atol=1e-4)

    return asked


RESCALE = (
    "When a later block brings a larger maximum, everything added up so far is relative to the old one. Multiply both "
    "the sum and the output by exp(old - new) before you add the block."
)
SECOND = "the logarithm of Σ exp(score), which is the largest score plus the logarithm of the sum."
FORM = "The function returns a tuple of two tensors, the output and the logarithm of the normaliser: {detail}."
known_mistakes = known(
    {
        FORM: [{"stage": "type"}],
        "A size is wrong. The results are (B, H, Q, E) and (B, H, Q): {detail}.": [{"stage": "shape"}],
        "A dtype is wrong. The output has the dtype of `q`, and the second result is float32, or float64 if `q` is "
        "float64: {detail}.": [{"stage": "dtype"}],
        "Your output is the average of the blocks' outputs. A block with large scores must have more weight, so keep "
        "the weighted sum of values and the sum of weights apart until the end.": [is_output(averaged)],
        "Your output is the weighted sum of the values. Divide it at the end by the sum of the weights, which the "
        "blocks have added up in the same way.": [
            is_output(undivided),
            is_output(lambda *args: undivided(*args, top=0)),
        ],
        RESCALE: [is_output(rescaling(total=0, out=0))],
        "At a new maximum you multiplied by exp(new - old). What has been added up is relative to the old maximum, "
        "which is smaller, so it must shrink: the factor is exp(old - new).": [
            is_output(rescaling(total=total, out=out)) for total, out in ((-1, -1), (1, -1), (-1, 1))
        ],
        "Every number of your output is nan. Look at the first block, before which the maximum is -inf: the factor "
        "exp(old - new) is 0 there, but exp(new - old) is inf, and inf · 0 is nan, as 0 / 0 is.": [
            lambda seen: seen.value[0].isnan().all()
        ],
        "At a new maximum you rescaled one of the two and not the other. The sum of weights and the output so far both "
        "belong to the old maximum, so both need the factor exp(old - new).": [
            is_output(rescaling(total=1, out=0)),
            is_output(rescaling(total=0, out=1)),
        ],
        "Your scores have another scale. They are q · k divided by √D, where D is the last size of `q`.": [
            is_output(lambda *args: whole(*args, root=0.0)[0]),
            is_output(lambda *args: whole(*args, root=1.0)[0]),
            is_output(lambda q, k, v, *rest: whole(q * (q.shape[-1] / v.shape[-1]) ** 0.5, k, v, *rest)[0]),
        ],
        "Your output leaves out the keys behind the last full block. Here K is no multiple of `block`, so the last "
        "block is smaller than the others.": [is_output(full_blocks)],
        "`keep` makes no difference to your output: queries see keys that are hidden from them.": [
            is_output(lambda q, k, v, keep, block: whole(q, k, v, torch.ones_like(keep))[0])
        ],
        "`keep` is inverted in your output: True means that the query may look at the key.": [
            is_output(lambda q, k, v, keep, block: whole(q, k, v, ~keep)[0])
        ],
        f"Your second result is the largest score alone, but it should be {SECOND}": [
            is_second(lambda q, k, v, keep, block: scores_of(q, k, keep).amax(-1))
        ],
        f"Your second result lacks the largest score. It should be {SECOND}": [
            is_second(lambda q, k, v, keep, block: whole(q, k, v, keep)[1].double() - scores_of(q, k, keep).amax(-1))
        ],
        f"Your output is right, but the second result isn't. It should be {SECOND}": [
            lambda seen: torch.allclose(seen.value[0], whole(*seen.args)[0], rtol=1e-4, atol=1e-5),
        ],
    }
)


def judge_both(seen, *mistakes, rtol=1e-4, atol=1e-5):
    """Both results are those of one softmax, and the arguments stay as they are."""
    seen.returns(whole, *mistakes, *known_mistakes, rtol=rtol, atol=atol)
    return seen.leaves_arguments_alone()


def living(blockwise_attention, q, k, v, keep, block):
    """Call the function, and note after each operation how many numbers its tensors hold together."""
    given = {tensor.untyped_storage()._cdata for tensor in (q, k, v, keep)}
    made, held = {}, [0]

    def note(func, args, out):
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage())._cdata not in given:
                made[storage._cdata] = StorageWeakRef(storage), storage.nbytes() // tensor.element_size()
        for place in [place for place, (storage, _) in made.items() if storage.expired()]:
            del made[place]
        held.append(sum(count for _, count in made.values()))

    with noting_operations(note) as lost:
        blockwise_attention(q, k, v, keep, block)
    return {"together": max(held), "lost": lost}


# %% check="blockwise-attention" points=2
"""The numbers of one softmax, a few keys at a time; no matrix of scores."""
with check("blockwise-attention") as test:
    keep = torch.ones(5, 9, dtype=torch.bool).tril(4)

    test("five queries over nine keys, two, four and three keys at a time")
    for block in (2, 4, 3):
        judge_both(observe(blockwise_attention, *numbers(1, 2, 2, 5, 9, 4, 3), keep, block))

    test("200 queries over 256 keys, 16 at a time: no tensor with all scores")
    B, H, Q, K, D, block = 2, 3, 200, 256, 8, 16
    args = [*numbers(2, B, H, Q, K, D, D), torch.ones(Q, K, dtype=torch.bool), block]
    seen = judge_both(observe(blockwise_attention, *args))
    done_for_you = (
        "Your code calls `scaled_dot_product_attention`, or the kernel behind it. Here you write what that kernel does."
    )
    kernels = ("scaled_dot_product", "flash_attention", "flex_attention", "efficient_attention")
    used = [name for name in (*seen.op_names(), *seen.noted.called) if any(kernel in name for kernel in kernels)]
    seen.that(not used, done_for_you, stage="rule")
    most = max(op["elements"] for op in seen.ops if not op["view"])
    allowed = max(B * H * Q * block, B * H * K * D)
    seen.that(
        most <= allowed,
        f"Your code made a tensor of {most:,} elements, and the rule allows {allowed:,} here. Use the part of `k`, `v` "
        "and `keep` that belongs to the block, and no tensor with another dimension of size D.",
        mistake(
            f"Your code made a tensor of {B * H * Q * K:,} elements, a number for each pair of a query and a key in "
            "each head. That is the matrix that this function avoids: compute the scores of one block at a time.",
            when=lambda seen: most == B * H * Q * K,
        ),
        mistake(
            f"Your code made a tensor of {Q * K:,} elements, as many as `keep` has. Take the block's columns of `keep` "
            "first, and invert or convert only these.",
            when=lambda seen: most == Q * K,
        ),
        stage="rule",
    )

    test("the numbers that all tensors hold together at any moment")

    seen, scores = observe_scenario(living, blockwise_attention, *args), B * H * Q * K
    out_of_sight = "Part of your code's work ran where the check can't watch it. Do all of it in the call itself."
    seen.that(not seen["lost"], out_of_sight)
    together = seen["together"]
    seen.that(
        together < scores,
        f"At some moment the tensors of your code held {together:,} numbers together, more than the {scores:,} scores. "
        "Keep no scores or weights of earlier blocks: the largest score, the sum and the output so far are enough.",
    )

    test("the number of operations: by blocks, not by keys, queries, heads or rows")
    calls = {}
    for B, H, Q, block in ((1, 1, 2, 16), (3, 4, 30, 16), (1, 1, 2, 64)):
        seen = observe(blockwise_attention, *numbers(3, B, H, Q, 128, 4, 4), torch.ones(Q, 128) > 0, block)
        calls[Q, block] = len(seen.op_names())
    few, many, fewest = calls.values()
    seen.that(
        many <= 2 * few,
        f"Your code ran {few} operations for 2 queries in one head, and {many} for 30 queries, 4 heads and 3 rows. A "
        "block's scores of all queries, heads and rows are one product of matrices.",
        stage="rule",
    )
    seen.that(
        few > 2 * fewest,
        f"Your code ran {few} operations for 128 keys in 8 blocks, and {fewest} for the same keys in 2 blocks. With a "
        "fourth of the blocks there should be about a fourth of the work: take `block` keys at a time.",
        stage="rule",
    )

# %% check="blockwise-attention" points=1
"""Queries without keys, large scores, half precision, any block; a block below 1 is refused."""
with check("blockwise-attention") as test:
    q, k, v = numbers(1, 2, 2, 5, 9, 4, 3)
    keep = torch.ones(5, 9, dtype=torch.bool).tril(4)

    test("five queries over nine keys, two keys at a time")
    judge_both(observe(blockwise_attention, q, k, v, keep, 2), FIRST_CHECK_FIRST)

    test("a block of 1, of all keys, and of more keys than there are; a block below 1")
    for block in (1, 9, 20):
        judge_both(observe(blockwise_attention, q, k, v, keep, block))
    another_kind = mistake("Another kind of exception came: {detail}. Raise ValueError.", stage="raised", raises=".")
    for block in (0, -2):
        observe(blockwise_attention, q, k, v, keep, block).raises(
            ValueError,
            because="Your code takes a `block` below 1, with which the loop over the keys never ends or never begins. "
            "Raise ValueError.",
            mistakes=[another_kind],
        )

    test("query 0 sees no key, query 1 none in the first two blocks")
    some = torch.tensor([[0] * 9, [0, 0, 0, 0, 0, 1, 0, 1, 1], [1, 1] + [0] * 7, [1] * 9, [0] * 8 + [1]]) > 0

    def unseeing(seen):
        """The two results of the query without keys."""
        return seen.value[0][:, :, ~seen.args[3].any(1)], seen.value[1][:, :, ~seen.args[3].any(1)]

    nan = mistake(
        "Your result holds nan. A query that has seen no key so far has the maximum -inf and the sum 0, and both -inf "
        "- (-inf) and 0 / 0 are nan. Put a finite number in place of such a maximum before you subtract, and don't "
        "divide by a sum of 0.",
        when=lambda seen: seen.value[0].isnan().any() or seen.value[1].isnan().any(),
    )
    blind = [
        nan,
        mistake(
            "A query that may see no key must get zeros, but yours gets values that are hidden from it. A finite "
            "number in place of -inf is the largest score of such a query, so its weight is exp(0) = 1.",
            when=lambda seen: unseeing(seen)[0].any(),
        ),
        mistake(
            "The second result of a query without keys must be -inf, the logarithm of a sum without terms. Yours is "
            "another number, as if there were a key.",
            when=lambda seen: bool((unseeing(seen)[1] != -torch.inf).any()),
        ),
    ]
    late = mistake(
        "A query that sees its first key in a later block gets zeros or -inf, as if it saw none. If its first block "
        "has made nan, that spoils everything that is added later; to replace nan at the end comes too late.",
        when=lambda seen: bool((~seen.value[0].any(-1) | seen.value[1].isinf())[:, :, seen.args[3].any(1)].any()),
    )
    for block in (2, 3, 9):
        judge_both(observe(blockwise_attention, q, k, v, some, block), *blind, late)

    ### BEGIN HIDDEN TESTS
    test.hidden("nobody sees anything; no key at all")
    judge_both(observe(blockwise_attention, q, k, v, torch.zeros_like(keep), 4), *blind)
    judge_both(observe(blockwise_attention, q, k[:, :, :0], v[:, :, :0], keep[:, :0], 4), *blind)

    test.hidden("scores of 1e4 and -1e4; a later block with a much larger score")
    overflow = mistake(
        "Large scores give nan or inf, because exp of a score overflows. Subtract the largest score before exp, in "
        "each block.",
        when=lambda seen: not (seen.value[0].isfinite().all() and seen.value[1].isfinite().all()),
    )
    rising = k * torch.tensor([1.0, 1, 1, 1, 300, 1, 1, 5000, 1])[:, None]
    for keys in (k * 1e4, rising, rising.flip(2)):
        judge_both(observe(blockwise_attention, q, keys, v, torch.ones_like(keep), 2), overflow, rtol=1e-3)

    test.hidden("a hidden key with the largest score of all, by 300 and by 1e4")
    for size in (300.0, 2e4):
        one = torch.ones(1, 1, 1, 1)
        keys, values = torch.tensor([0.0, 1, size, -1]).view(1, 1, 4, 1), torch.tensor([1.0, 2, 5, 3]).view(1, 1, 4, 1)
        hidden = mistake(
            "A hidden key with a very large score has set the maximum, and measured from it every visible key has the "
            "weight 0. Hide scores before you look for the maximum.",
            when=lambda seen: not seen.value[0].any() or seen.value[0].isnan().any(),
        )
        for block in (4, 2, 1):
            visible = torch.tensor([[True, True, False, True]])
            judge_both(observe(blockwise_attention, one, keys, values, visible, block), hidden)

    test.hidden("all scores are far below 0")
    low, lower = q.abs() + 0.5, -(k.abs() + 0.5) * 3000
    underflow = mistake(
        "All scores are far below 0 here, and your output is 0, or the second result -inf. The largest score so far "
        "must start at -inf: measured from a larger start, such as 0, or with no maximum at all, every exp is 0.",
        when=lambda seen: not seen.value[0].any(-1).all() or bool((seen.value[1] == -torch.inf).any()),
    )
    finite = mistake(
        "Hidden keys have weight here. The scores of the visible keys are lower than the finite number that you put "
        "in place of the hidden ones: take -inf.",
        when=lambda seen: seen.value[0].isfinite().all(),
    )
    for some_keep in (torch.ones_like(keep), keep):
        judge_both(observe(blockwise_attention, low, lower, v, some_keep, 2), nan, underflow, finite, rtol=1e-3)
    one_key, far = torch.tensor([[True, False]]).expand(5, 2), torch.full_like(k[:, :, :2], -1e12)
    for block in (2, 1):
        seen = observe(blockwise_attention, q.abs() + 0.5, far, v[:, :, :2], one_key, block)
        judge_both(seen, nan, underflow, finite, rtol=1e-3)

    test.hidden("200 queries over 512 keys, 4 at a time: what all tensors hold together")
    args = [*numbers(5, 1, 1, 200, 512, 4, 16), torch.ones(200, 512, dtype=torch.bool), 4]
    seen, scores = observe_scenario(living, blockwise_attention, *args), 200 * 512
    together = seen["together"]
    seen.that(
        together < 2 * scores,
        f"Here values have 16 numbers and blocks 4 keys, and at some moment the tensors of your code held {together:,} "
        f"numbers together, more than twice the {scores:,} scores. An output of each block is as large as the output "
        "of all keys: add a block to what came before as soon as it is computed, and keep nothing of it.",
        stage="rule",
    )

    test.hidden("bfloat16 and float16: computed in float32, rounded once")
    in_half = (
        "Your result for bfloat16 or float16 has more than one rounding. Convert `q`, `k` and `v` to float32 before "
        "anything is computed, so that scores, weights and sums are float32 as well, and round the output at the end."
    )
    halves = [
        (torch.bfloat16, 16, 1.0, 1.0),
        (torch.bfloat16, 6, 3.0, 3.0),
        (torch.float16, 8, 1.0, 1.0),
        (torch.float16, 8, 30.0, 30.0),
        (torch.float16, 8, 300.0, 300.0),
    ]
    for dtype, D, of_q, of_k in halves:
        q16, k16, v16 = numbers(4, 2, 2, 24, 40, D, 8)
        args = (
            (q16 * of_q).to(dtype),
            (k16 * of_k).to(dtype),
            v16.to(dtype),
            torch.ones(24, 40, dtype=torch.bool).tril(16),
        )
        first, second = whole(*args)
        seen = observe(blockwise_attention, *args, 8).expecting(mistake(in_half, stage="value"), *known_mistakes)
        seen.returns((first, second), *known_mistakes[:3], rtol=0.1, atol=0.1)
        seen.that(torch.allclose(seen.value[1], second, rtol=2e-6, atol=2e-4), in_half)
        seen.that(bool((seen.value[0] == first).float().mean() > 0.97), in_half)

    test.hidden("float64 to its full precision")
    wide = numbers(5, 1, 2, 6, 10, 5, 3, torch.float64)
    single = mistake(
        "For float64 your results have only the digits of float32. Compute in the dtype of `q` there, with "
        "constants of full precision.",
        when=lambda seen: all(
            torch.allclose(a, b, rtol=1e-3) for a, b in zip(seen.value, whole(*seen.args), strict=True)
        ),
    )
    seen = observe(blockwise_attention, *wide, torch.ones(6, 10, dtype=torch.bool).tril(4), 3)
    judge_both(seen, single, rtol=1e-11, atol=1e-12)

    test.hidden("q, k and v as views")
    turned = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (q, k, v)]
    judge_both(observe(blockwise_attention, *turned, keep.T.contiguous().T, 4))
    ### END HIDDEN TESTS
