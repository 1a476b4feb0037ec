# %% [markdown]
# ### Exercise 12.4 · The loss of every position
#
# implement · solid · 12 min · 1 point
#
# A loss that is a single number can't be printed under a text. This function returns a loss for each position and
# leaves out padding. You need chapter 3, and what section 4.8 says about nan in backward.
#
# **Contract**
#
# - `logits` is (B, T, V), `targets` is (B, T) int64. Entry (b, t) of the result, (B, T), is minus the log-probability
#   that the logits give to target (b, t), in nats. Nothing is averaged. If the target's logit is -inf and another is
#   finite, the loss is inf. A nan among the logits of a position that counts makes its loss nan.
# - Where the target equals `ignore`, the loss is exactly 0, and so is the gradient of those logits, whatever they are,
#   even inf and nan. `ignore` may be any integer, even an id between 0 and V - 1.
# - Compute and return the result in float32, also for bfloat16 and float16; float64 stays float64. Logits of 1000 work.
#   The arguments are not changed, and the loss is differentiable with respect to the logits.
#
# **Rule.** Pick the number with `gather` (or `take_along_dim`); do not use `cross_entropy`, `nll_loss` or `one_hot`.
# The check also changes what `gather` returns, and then your result must change.
#
# <details><summary>Hint 1</summary>
#
# What does `gather` do with an index of -100? And what is 0 · inf?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Replace before you compute: ignored targets with an id that exists, ignored logits with harmless numbers. Replace by
# selection, not by multiplication.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A boolean mask says which targets count. Select with it twice: before the log-softmax, so that neither `gather` nor
# the gradient meets anything bad, and at the end, so that ignored positions are exactly 0. `gather` needs an index with
# as many dimensions as the logits.
#
# </details>


# %% answer="token-loss"
def token_loss(logits: Tensor, targets: Tensor, ignore: int = -100) -> Tensor:
    """Minus the log-probability of each position's target, 0 where the target is `ignore`.

    logits: (B, T, V) floating point; targets: (B, T) int64;
    returns (B, T) float32 (float64 for float64).
    """
    ### BEGIN SOLUTION
    counts = targets != ignore
    if logits.dtype != torch.float64:
        logits = logits.float()
    log_probs = torch.where(counts[..., None], logits, 0.0).log_softmax(-1)
    picked = log_probs.gather(-1, torch.where(counts, targets, 0)[..., None])[..., 0]
    return torch.where(counts, -picked, 0.0)
    ### END SOLUTION


# %% check="token-loss" points=1
"""One loss for each position, 0 where the target is ignored; gradients, large logits, dtypes."""
with check("token-loss") as test:

    def some(probs):
        """Logits with these probabilities, (B, T, V), each position shifted by another number."""
        return probs.log() + torch.arange(probs.shape[1])[:, None] * 1.5 - 1

    def picked(table, seen):
        """The entry of each position's target, 0 where it is ignored."""
        _, targets, *ignore = seen.args
        left_out = ignore[0] if ignore else -100
        rows = [
            [0.0 if int(y) == left_out else float(row[int(y)]) for row, y in zip(rows, line, strict=True)]
            for rows, line in zip(table.double(), targets, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.float64)

    def is_like(table):
        """Whether the result is what this function of the logits has at the targets."""

        def ask(seen):
            logits, targets, *ignore = seen.args
            cleared = logits.masked_fill((targets == (ignore[0] if ignore else -100))[..., None], 0.0)
            found = [picked(table(x.double()), seen) for x in (logits, cleared)]
            return any(torch.allclose(seen.value.double(), one, atol=1e-4) for one in found)

        return ask

    def judge(seen, expected, *known, rtol=1e-5, atol=1e-5):
        """Judge the losses, and how they were picked."""
        seen.returns(
            expected,
            *known,
            mistake(
                "`gather` can't use `ignore` as an index. Replace it with a valid id first.",
                raises="out of bounds|index .* is out of|out of range|Index tensor|selecting index",
            ),
            mistake(
                "Return one value per position, without any mean.",
                shape=(),
            ),
            mistake("You kept the dimension that gather needed: {detail}.", shape=(*expected.shape, 1)),
            mistake("The loss must have one number for each position: {detail}.", stage="shape"),
            mistake("The loss is MINUS the log-probability.", gives=-expected),
            mistake("You return the probability, not minus its logarithm.", when=is_like(lambda x: x.softmax(-1))),
            mistake(
                "Probabilities are over the last dimension, the V ids.",
                when=lambda seen: any(is_like(lambda x, dim=dim: -x.log_softmax(dim))(seen) for dim in (0, 1)),
            ),
            mistake(
                "You return raw logits. They must be normalised over the last dimension.",
                when=lambda seen: is_like(lambda x: -x)(seen) or is_like(lambda x: x)(seen),
            ),
            mistake(
                "Ignored positions still have a loss. Set it to zero where the target is `ignore`.",
                when=lambda seen: (
                    torch.allclose(seen.value[expected != 0], expected[expected != 0], atol=1e-3)
                    and seen.value[expected == 0].isfinite().all()
                ),
            ),
            mistake(
                "The loss must be at least float32: {detail}.",
                stage="dtype",
                when=lambda seen: seen.value.dtype in (torch.bfloat16, torch.float16),
            ),
            mistake("The dtype must be float32, or float64 for float64: {detail}.", stage="dtype"),
            because="Your result is not minus the log-probability of each target.",
            rtol=rtol,
            atol=atol,
        )
        names = "cross_entropy", "nll_loss", "one_hot", "nll_loss_forward", "nll_loss2d_forward"
        because = "Pick the number with gather, without cross_entropy, nll_loss or one_hot."
        seen.avoided(*names, because=because)
        seen.used("gather", "take_along_dim", because=because)
        seen.leaves_arguments_alone()

    test("two texts of three positions, one of them ignored")
    probs = torch.tensor(
        [
            [[0.1, 0.2, 0.3, 0.4], [0.25, 0.05, 0.6, 0.1], [0.3, 0.15, 0.35, 0.2]],
            [[0.7, 0.1, 0.15, 0.05], [0.02, 0.9, 0.03, 0.05], [0.45, 0.25, 0.1, 0.2]],
        ]
    )
    targets = torch.tensor([[3, 0, 1], [2, -100, 1]])
    wanted = 0 - torch.tensor([[0.4, 0.25, 0.15], [0.15, 1.0, 0.25]]).log()
    judge(observe(token_loss, some(probs), targets), wanted)

    def changed_gather(token_loss, logits, targets):
        """Call it twice, the second time with other numbers in place of what gather gives; does the result change?"""
        return needs(["gather"], token_loss, logits, targets)

    seen = observe_scenario(changed_gather, token_loss, some(probs), targets)
    not_needed = (
        "The result stays the same when `gather` gives other numbers, so another part of your code computes it."
    )
    seen.that(seen.value, not_needed, stage="rule")

    test("logits of 1000: a target far below has a loss of 1000, not inf")
    seen = observe(token_loss, torch.tensor([[[1000.0, 0, 3], [2, -5, 1000]]]), torch.tensor([[1, 2]]))
    large = mistake(
        "Large logits give inf or nan, because exp(1000) is inf and log(softmax) underflows. Use log_softmax.",
        when=lambda seen: not seen.value.isfinite().all(),
    )
    hidden_below = mistake(
        "A small number added to the probability hides how improbable the target is. Use log_softmax.",
        when=lambda seen: seen.value[0, 0] < 900,
    )
    judge(seen, torch.tensor([[1000.0, 0.0]]), large, hidden_below)

    ### BEGIN HIDDEN TESTS
    def losses(logits, targets, ignore):
        """The losses, position by position, in float64."""
        rows = [
            row.new_zeros(()) if int(y) == ignore else row.logsumexp(0) - row[int(y)]
            for row, y in zip(logits.double().flatten(0, 1), targets.flatten(), strict=True)
        ]
        return torch.stack(rows).reshape(targets.shape)

    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(2, 4, 5, generator=generator) * 2
    for idea, targets, ignore in [
        ("another id is ignored", torch.tensor([[2, 0, 1, 2], [4, 2, 3, 1]]), 2),
        ("the id 0 is ignored", torch.tensor([[2, 0, 1, 0], [0, 2, 3, 4]]), 0),
        ("an id beyond V is ignored", torch.tensor([[2, 255, 1, 0], [4, 2, 255, 255]]), 255),
        ("the last id is ignored", torch.tensor([[2, -1, 4, 0], [4, -1, 3, 1]]), -1),
        ("nothing is ignored", torch.tensor([[2, 0, 4, 1], [3, 2, 0, 4]]), -100),
        ("a whole text is ignored", torch.tensor([[2, 0, 4, 1], [7, 7, 7, 7]]), 7),
        ("all is ignored", torch.full((2, 4), -100), -100),
    ]:
        test.hidden(idea)
        seen = observe(token_loss, logits, targets, ignore)
        hard_coded = mistake(
            "The ignored value is the argument, not always -100.",
            when=lambda seen: seen.args[2] != -100 and seen.value[seen.args[1] == seen.args[2]].any(),
        )
        judge(seen, losses(logits, targets, ignore).float(), hard_coded)

    test.hidden("a forbidden id: a logit of -inf where the target is another one")
    seen = observe(token_loss, torch.tensor([[[0.0, -torch.inf, 1.5], [2.0, 0.5, -torch.inf]]]), torch.tensor([[0, 0]]))
    forbidden = mistake(
        "A logit of -inf is a probability of 0, and must stay at positions that count. Clear only the logits of "
        "ignored positions.",
        stage="value",
    )
    judge(seen, torch.tensor([[1.7014133, 0.2014133]]), forbidden)

    test.hidden("logits of 100000")
    seen = observe(token_loss, torch.tensor([[[1e5, 0, 3], [2, -5, 1e5]]]), torch.tensor([[1, 2]]))
    limited = mistake(
        "Your loss of a target far below has an upper limit, but log_softmax needs none: it works for logits of any "
        "size. Leave the logits that count as they are.",
        when=lambda seen: seen.value.isfinite().all() and seen.value[0, 0] < 99_000,
    )
    judge(seen, torch.tensor([[1e5, 0.0]]), large, limited)

    test.hidden("logits of 1000 in one position, small ones in the next")
    seen = observe(token_loss, torch.tensor([[[1000.0, 0, 3], [2, -1, 0.5]]]), torch.tensor([[1, 0]]))
    of_all = mistake(
        "One position has a loss of inf, because its logits are far below those of another one, and exp gives 0 for "
        "each. Subtract the largest logit of each position, not of all.",
        when=lambda seen: seen.value[0, 1].isinf(),
    )
    judge(seen, torch.tensor([[1000.0, 0.2413113]]), of_all)

    test.hidden("a target with a logit of -inf, and nan among logits that count")
    counted = torch.tensor([[[0.0, -torch.inf, 1.5], [2.0, torch.nan, 0.5], [2.0, 0.5, 1.0]]])
    seen = observe(token_loss, counted, torch.tensor([[1, 0, 0]]))
    replaced = mistake(
        "You replace inf or nan among logits that count, so a forbidden target gets a finite loss, and a broken model "
        "looks healthy. Clear only the logits of ignored positions.",
        when=lambda seen: seen.value[0, 0].isfinite() or seen.value[0, 1].isfinite(),
    )
    judge(seen, torch.tensor([[torch.inf, torch.nan, 0.4643688]]), replaced)

    some_targets = torch.tensor([[2, -100, 4, 0], [4, 1, -100, 3]])
    for dtype, rtol in [(torch.bfloat16, 1e-5), (torch.float16, 1e-5), (torch.float64, 1e-10)]:
        test.hidden(f"{dtype}".removeprefix("torch."))
        seen = observe(token_loss, logits.to(dtype), some_targets)
        wanted = losses(logits.to(dtype), some_targets, -100)
        low = mistake(
            "Compute in float32, because bfloat16 keeps only three digits of the loss. Convert the logits, not "
            "the loss.",
            when=lambda seen: seen.args[0].dtype in (torch.bfloat16, torch.float16),
            stage=("value", "dtype"),
        )
        exact = mistake("float64 is computed in float64: this is less exact.", stage="value")
        judge(seen, wanted if dtype == torch.float64 else wanted.float(), low, exact, rtol=rtol, atol=rtol)

    spoilt = (
        "An inf or nan in the logits of an ignored position makes the loss or a gradient nan, because 0 * inf is "
        "nan. Use where, before and after."
    )
    for idea, number in [
        ("the gradient", 0.5),
        ("inf in ignored logits", torch.inf),
        ("-inf in ignored logits", -torch.inf),
        ("nan in ignored logits", torch.nan),
    ]:
        test.hidden(idea)
        dirty = logits.clone()
        dirty[0, 1, 2:], dirty[1, 2, 0] = number, number
        seen = observe(token_loss, dirty.requires_grad_(), some_targets)
        judge(
            seen,
            losses(dirty.detach(), some_targets, -100).float(),
            mistake(spoilt, when=lambda seen: not seen.value.isfinite().all()),
        )
        counts = (some_targets != -100)[..., None]
        gradient = dirty.detach().softmax(-1)
        gradient[torch.arange(2)[:, None], torch.arange(4), some_targets.clamp(min=0)] -= 1
        gradient = torch.where(counts, gradient, 0.0) * incoming_gradient(some_targets.float())[..., None]
        seen.gives_gradients(
            {0: gradient},
            mistake(
                "No gradient reaches the logits, because the loss is detached from the graph.",
                when=lambda seen: not seen.noted.tracked,
            ),
            mistake(spoilt, when=lambda seen: not seen.gradient(0).isfinite().all()),
            because=(
                "The loss is right, but its gradient is wrong. It should be the softmax, minus 1 at the target, and "
                "zero at ignored positions."
            ),
            rtol=1e-4,
            atol=1e-5,
        )
    ### END HIDDEN TESTS
