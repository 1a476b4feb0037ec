# %% [markdown]
# ### Exercise 13.10 · The FLOPs of a step
#
# implement · solid · 25 min · 2 points
#
# How many FLOPs does a training step of the GPT above take, if some of its blocks are frozen? Compute it from the sizes
# alone, as you would before renting the machine.
#
# **Contract**
#
# - The network is the `GPT` whose code is shown above, with `len(trained)` blocks. `heads` divides `width`. The batch
#   contains `batch` texts of `length` tokens.
# - A FLOP is a multiplication or an addition. Only matrix products count, as FlopCounterMode counts them; the mask
#   saves nothing.
# - A step is forward and backward. Backward begins with the gradient of all logits. The gradient of a product with
#   respect to one of its factors is computed only if that factor needs a gradient.
# - `trained[i]` says whether the parameters of block i are trained, including its norms. `train_read` says the same of
#   the embedding. The head is always trained. A frozen parameter needs no gradient, and neither does anything that
#   depends on no trained parameter.
# - The result is an int, computed from numbers only: the function builds no network and runs no operation of torch.
#   It is exact for sizes of any magnitude.
#
# <details><summary>Hint 1</summary>
#
# List the products of one block: how many rows, which inner size, how many columns? For each product ask twice: does
# the left factor need a gradient, and does the right one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A product takes 2 * rows * inner * columns FLOPs forward, and as much again for each factor that needs a gradient. In
# attention both factors are activations.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Go through the blocks with a flag: has anything before been trained? A trained block takes 3 times all its products:
# its norm is trained, so the input of its first product needs a gradient. A frozen block takes, with the flag set, 2
# times its linear layers and 3 times attention; without the flag, everything once. The head takes 3 or 2.
#
# </details>


# %% answer="step-flops"
def step_flops(
    vocab: int,
    width: int,
    heads: int,
    hidden: int,
    length: int,
    batch: int,
    trained: Sequence[bool],
    train_read: bool,
) -> int:
    """FLOPs of the matrix products of one training step of the GPT above.

    trained: for each block, whether its parameters are; train_read: the same of the embedding.
    """
    ### BEGIN SOLUTION
    tokens = batch * length
    linear = 2 * tokens * (width * 3 * width + width * width + 2 * width * hidden)
    attention = 2 * (2 * batch * length * length * width)
    total, before = 0, train_read
    for block in trained:
        if block:
            total += 3 * (linear + attention)
            before = True
        elif before:
            total += 2 * linear + 3 * attention
        else:
            total += linear + attention
    head = 2 * tokens * width * vocab
    return total + (3 if before else 2) * head
    ### END SOLUTION


# %% helpers="step-flops"
def counted(vocab, width, heads, hidden, length, batch, trained, train_read):
    """What FlopCounterMode counts: its formulas, for the products that really run."""
    model, ids = GPT(vocab, width, heads, hidden, len(trained)), torch.zeros(batch, length, dtype=torch.int64)
    model.read.requires_grad_(train_read)
    for block, flag in zip(model.blocks, trained, strict=True):
        block.requires_grad_(flag)
    with ProductCounter() as counter:
        logits = model(ids)
        logits.backward(torch.ones_like(logits))
    return counter.flops


def judge_huge(seen, right):
    """An int, and the right one, for sizes that no machine can hold."""
    no_machine = "No machine has memory for these sizes. Compute the FLOPs from numbers only: build no network."
    seen.expecting(mistake(no_machine, stage="raised", raises="RuntimeError|MemoryError|OverflowError"))
    seen.that(isinstance(seen.value, int) and not isinstance(seen.value, bool), "Return an int.", stage="type")
    seen.that(
        seen.value == right,
        f"With these sizes, a step takes {right:,} FLOPs; you say {seen.value:,}.",
        mistake(
            "For large sizes your result is off in its last digits, because a float keeps only about 16 of them. "
            "Compute in ints: `//` instead of `/`.",
            when=lambda seen: abs(seen.value - right) < right * 1e-12,
        ),
    )


def judge_flops(seen, sizes, *mistakes):
    """An int, computed from numbers only, and the right one."""
    seen.that(isinstance(seen.value, int) and not isinstance(seen.value, bool), "Return an int.", stage="type")
    right = counted(*sizes)
    seen.that(seen.value == right, f"FlopCounterMode counts {right:,} FLOPs; you say {seen.value:,}.", *mistakes)
    seen.that(
        not seen.op_names(),
        "Compute it from numbers only: build no network, and run no operation of torch.",
        stage="rule",
    )


# %% check="step-flops" points=1
"""Everything is trained, for a short text and a long one; the counter's own numbers."""
with check("step-flops") as test:
    half = "This is half of the right number: a multiplication and an addition are two FLOPs."
    rule = (
        "6 times parameters times tokens is a good rule of thumb. But the embedding is looked up and not multiplied, "
        "and attention has two products without parameters."
    )
    attention = (
        "Attention multiplies twice without any weights: queries with keys, and the scores with the values. Each "
        "takes 2 * batch * length * length * width FLOPs. The mask saves nothing: the whole product is computed."
    )
    heads = (
        "With more heads each head is narrower. Together they are as wide as the model, so the count stays the same."
    )
    backward = "Backward costs twice as much as forward: one product for the gradient of each factor."
    head = "The product with the vocabulary also counts."
    look_up = "The embedding is looked up, which is not a product."
    tokens = "There are batch * length tokens."
    four = "`hidden` is given; it need not be four times the width."

    test("everything is trained: 3 blocks of width 8, 2 heads, hidden 20, vocab 11, 5 texts of 6 tokens")
    sizes = (11, 8, 2, 20, 6, 5, [True] * 3, True)
    judge_flops(
        observe(step_flops, *sizes),
        sizes,
        *[
            mistake(sentence, gives=number)
            for number, sentence in (
                (189_360, half),
                (392_400, rule),
                (342_720, rule),
                (326_880, attention),
                (352_800, attention),
                (337_248, attention),
                (430_560, heads),
                (252_480, backward),
                (126_240, backward),
                (362_880, head),
                (384_000, look_up),
                (394_560, look_up),
                (389_280, look_up),
                (106_320, tokens),
                (117_216, tokens),
                (482_400, four),
            )
        ],
    )

    test("a long text: 2 blocks of width 4, hidden 7, vocab 9, one text of 64 tokens")
    sizes = (9, 4, 1, 7, 64, 1, [True, True], True)
    judge_flops(observe(step_flops, *sizes), sizes, mistake(attention, when=lambda seen: True))

    test("2 blocks that no machine can hold: their number of FLOPs is still an exact int")
    sizes = (10**12 + 39, 12_297, 3, 49_155, 2_047, 10**9 + 7, [True, True], True)
    judge_huge(observe(step_flops, *sizes), 151_031_800_853_524_141_716_110_801_994)


# %% check="step-flops" points=1
"""The first or the last blocks are frozen; only the head is trained; no block; random networks."""
with check("step-flops") as test:
    not_yet = mistake(
        "This check builds on the first one, which doesn't pass yet. Fix that first.", when=lambda seen: True
    )

    test("everything is trained")
    sizes = (11, 8, 2, 20, 6, 5, [True] * 3, True)
    judge_flops(observe(step_flops, *sizes).expecting(not_yet), sizes)
    sizes = (2**40, 2**13, 2, 2**15, 2**11, 2**38, [True, True], True)
    judge_huge(observe(step_flops, *sizes).expecting(not_yet), 402_653_259 * 2**76)

    test("the first blocks are frozen, and the embedding too")
    forward = "A frozen block is still run forward."
    norm = (
        "The norm of a trained block is also trained, so the input of its first product needs a gradient even if "
        "nothing before the block does."
    )
    nothing_before = (
        "A frozen block needs no backward if nothing before it is trained: what it computes then needs no gradient. "
        "Here the embedding is frozen as well (`train_read` is False)."
    )
    sizes = (11, 8, 2, 20, 6, 5, [False, False, True], False)
    seen = observe(step_flops, *sizes)
    judge_flops(
        seen,
        sizes,
        mistake(
            "`trained` changes nothing in your result.",
            when=lambda seen: seen.value == counted(*sizes[:-2], [True] * 3, True),
        ),
        mistake(forward, when=lambda seen: seen.value == counted(*sizes[:-2], [True], False)),
        mistake(nothing_before, when=lambda seen: seen.value > counted(*sizes)),
        mistake(norm, when=lambda seen: seen.value == counted(*sizes) - 2 * 30 * 8 * 24),
    )

    test("the last blocks are frozen")
    passes_on = (
        "A frozen block after something trained passes the gradient on: it saves the products for its own weights, "
        "and no others. In attention both factors are activations, so nothing is saved there."
    )
    sizes = (11, 8, 2, 20, 6, 5, [True, False, False], True)
    judge_flops(observe(step_flops, *sizes), sizes, mistake(passes_on, when=lambda seen: True))

    test("the embedding is trained, the first blocks are frozen")
    from_read = (
        "The embedding is trained here (`train_read` is True), so everything after it needs a gradient: a frozen "
        "block passes that gradient on, and the head computes the one of its input."
    )
    sizes = (11, 8, 2, 20, 6, 5, [False, False, True], True)
    as_frozen = mistake(from_read, when=lambda seen: seen.value == counted(*sizes[:-1], False))
    judge_flops(observe(step_flops, *sizes), sizes, as_frozen, mistake(passes_on, when=lambda seen: True))

    ### BEGIN HIDDEN TESTS
    test.hidden("only the head is trained; no block")
    only = "If nothing before the head is trained, its input needs no gradient. That is one product less."
    for sizes in (
        (11, 8, 2, 20, 6, 5, [False, False], False),
        (13, 6, 3, 5, 4, 2, [], False),
        (13, 6, 3, 5, 4, 2, [], True),
    ):
        judge_flops(
            observe(step_flops, *sizes),
            sizes,
            mistake(only, when=lambda seen, sizes=sizes: seen.value > counted(*sizes)),
            mistake(from_read, when=lambda seen, sizes=sizes: sizes[-1]),
        )
    test.hidden("a frozen embedding before a trained block: its norm is trained")
    sizes = (11, 8, 2, 20, 6, 5, [True, True], False)
    judge_flops(observe(step_flops, *sizes), sizes, mistake(norm, when=lambda seen: seen.value < counted(*sizes)))
    test.hidden("twelve random networks")
    dice = random.Random(10)
    for _ in range(12):
        n = dice.randint(1, 3)
        heads = dice.randint(1, 3)
        flags = [dice.random() < 0.5 for _ in range(dice.randint(1, 4))]
        sizes = (dice.randint(5, 20), heads * n * 2, heads, dice.randint(3, 20), dice.randint(2, 9), dice.randint(1, 4))
        sizes = (*sizes, flags, dice.random() < 0.5)
        judge_flops(observe(step_flops, *sizes), sizes)
    ### END HIDDEN TESTS
