# %% [markdown]
# ### Exercise 11.3 · Cross entropy that survives large logits
#
# implement · solid · 20 min · 2 points
#
# Write the loss function of nearly every classifier. The formula, -log softmax(z)[label], takes one line, and that line
# breaks as soon as one logit is 200 above the others.
#
# **Contract**
#
# - Return the mean of -log p[target], with p = softmax(logits), over the rows whose target is not `ignore_index`. With
#   label smoothing e, the target distribution is 1 - e on the target *plus* e / C on every class.
# - The result is a differentiable 0-d tensor in the dtype of `logits`, and float64 is not rounded to float32.
# - Large logits neither overflow nor underflow. In float32 the loss is right to 0.001 at logits of 1e4. In float16 the
#   sum of many losses doesn't overflow.
# - A logit of -inf gives its class probability 0. Without smoothing, the loss and gradient are finite if that
#   class isn't the target.
# - Ignored rows affect neither the value nor the gradient, whatever their logits are, even nan. If no row is left, the
#   result is nan, and `backward()` still runs.
# - A target outside 0 … C-1 that is not `ignore_index` raises IndexError. Shapes other than (N, C) and (N,) raise
#   ValueError. Floating-point targets raise TypeError. The arguments are not changed.
#
# **Rule.** Do not run `F.cross_entropy`, `nn.CrossEntropyLoss` or `F.nll_loss` (`log_softmax` is allowed). The check
# records operations.
#
#
# <details><summary>Hint 1</summary>
#
# What does `log(softmax(z))` return when one logit is 200 above the others? By how many rows do you divide?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# First select the rows that count. Then log p = z - logsumexp(z); logsumexp subtracts the maximum for you. (At logits
# of 1e4, `z - logsumexp(z)` loses up to 0.0005. `log_softmax` subtracts the maximum from z first and loses nothing.)
# Gather the target's entry. Smoothing mixes two losses: 1 - e times the loss of the target, and e times the mean of
# -log p over the classes.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Index with a mask to drop the ignored rows before anything else, so that they reach neither the value nor the
# gradient. Compute the log-probabilities of what is left, and pick the target's entry in each row. Add the smoothing
# term only if e isn't 0, because 0 times the -inf of an impossible class is nan. The mean of no rows is already nan.
#
# </details>


# %% answer="cross-entropy-from-logits"
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
) -> Tensor:
    """The mean cross entropy of the rows that are not ignored.

    logits: (N, C) floating point; target: (N,) int64; returns a 0-d tensor in the dtype of logits.
    """
    ### BEGIN SOLUTION
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        shapes = f"{tuple(logits.shape)} and {tuple(target.shape)}"
        raise ValueError(f"expected (N, C) and (N,), got {shapes}")
    if target.is_floating_point():
        raise TypeError("targets are class indices")
    kept = target != ignore_index
    logits, target = logits[kept], target[kept]
    if ((target < 0) | (target >= logits.shape[1])).any():
        raise IndexError("a target is none of the classes")
    log_p = logits - logits.logsumexp(1, keepdim=True)
    losses = -log_p.gather(1, target[:, None]).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    return losses.mean()
    ### END SOLUTION


# %% helpers="cross-entropy-from-logits"
own = "Your code calls the library's loss. Build it from logsumexp, gather and mean."
gradient = [
    mistake(
        "The value is right, but no gradient reaches the logits: they were detached, or the loss was computed under "
        "no_grad.",
        stage="gradient",
        when=lambda seen: not seen.noted.tracked,
    ),
    mistake(
        "The value is right, but the gradient is nan: somewhere 0 is multiplied by inf or nan on the way back. Leave "
        "out what must not count before you compute with it.",
        stage="gradient",
        when=lambda seen: seen.gradient(0).isnan().any(),
    ),
    mistake(
        "The value is right, but the gradient is not that of the whole formula: a part of it was detached, such as the "
        "logsumexp.",
        stage="gradient",
    ),
]
ignored_mean = "Ignored rows must count neither in the sum nor in the divisor."


# %% check="cross-entropy-from-logits" points=1
"""Value and gradient of the plain loss: random and large logits, ignored rows."""
with check("cross-entropy-from-logits") as test:

    def each(logits, target, ignore_index=-100):
        """The losses of the rows that count, one by one (good enough for small numbers)."""
        rows = [(row, y) for row, y in zip(logits, target.tolist(), strict=True) if y != ignore_index]
        return torch.stack([row.exp().sum().log() - row[y] for row, y in rows])

    def plain(logits, target, ignore_index=-100):
        """Their mean."""
        return each(logits, target, ignore_index).mean()

    library = ("cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward", "nll_loss2d")
    known = (
        mistake("The softmax is applied twice, or missing.", gives=lambda z, y: plain(z.softmax(1), y)),
        mistake(
            "The softmax is applied twice, or missing.",
            gives=lambda z, y: -z.gather(1, y[:, None]).mean(),
        ),
        mistake(
            "The logarithm is missing, so you return the mean probability of the labels.",
            gives=lambda z, y: -z.softmax(1).gather(1, y[:, None]).mean(),
        ),
        mistake("The sign is wrong: the loss is -log p, which is never negative.", gives=lambda z, y: -plain(z, y)),
        mistake("You return the sum over the rows instead of their mean.", gives=lambda z, y: each(z, y).sum()),
        mistake("You return the losses of the rows instead of their mean.", gives=each),
        mistake(
            "The softmax runs over the wrong dimension. The classes are in dimension 1.",
            gives=lambda z, y: -z.softmax(0).gather(1, y[:, None]).log().mean(),
        ),
    )

    test("random logits (5, 3): the value, then the gradient")
    some_logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    seen = observe(cross_entropy, some_logits, torch.tensor([2, 0, 1, 1, 2])).expecting(*known)
    seen.returns(plain)
    seen.avoided(*library, because=own)
    seen.gives_gradients(plain, *gradient)

    test("logits of 1e4 and of -1e4")
    some_logits = torch.tensor([[1e4, 0.0, 3.0], [2.0, -5.0, 1e4]], requires_grad=True)
    unstable = mistake(
        "The result is inf, nan or a bounded number for large logits: log(softmax(z)) or exp(z) overflows or "
        "underflows. Work with logsumexp (or subtract the maximum).",
        when=lambda seen: not (seen.value.isfinite().all() and seen.value > 2000),
    )
    seen = observe(cross_entropy, some_logits, torch.tensor([1, 2]))
    seen.returns(torch.tensor(5000.0), unstable)
    wanted = torch.tensor([[0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]) * incoming_gradient(torch.tensor(0.0))
    seen.gives_gradients({0: wanted}, *gradient)
    some_logits = torch.tensor([[1.0, 3.0, 0.5, 1.5]])
    seen = observe(cross_entropy, some_logits - 1e4, torch.tensor([2]))
    seen.returns(plain(some_logits, torch.tensor([2])), unstable, rtol=1e-3, atol=1e-3)

    test("ignored rows")
    some_logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    counted = mistake(ignored_mean, gives=lambda z, y: each(z, y).sum() / len(y))
    as_class_0 = mistake(ignored_mean, gives=lambda z, y: plain(z, y.clamp(min=0)))
    refused = mistake("A target of -100 (ignore_index) is not an error. Leave its row out ({detail}).", stage="raised")
    seen = observe(cross_entropy, some_logits, torch.tensor([2, -100, 1, -100, 0]))
    seen.expecting(counted, as_class_0, refused, *known).returns(plain, because=ignored_mean)
    seen.gives_gradients(plain, *gradient)

# %% check="cross-entropy-from-logits" points=1
"""Label smoothing; masked classes, nan in ignored rows, no row left, dtypes; which inputs raise."""
with check("cross-entropy-from-logits") as test:

    def mixed(logits, target, label_smoothing, on_target=1.0, on_others=1.0, classes=0):
        """The smoothed loss row by row, with other shares of e for the target and for the other classes."""
        total = 0.0
        for row, y in zip(logits, target.tolist(), strict=True):
            minus_log_p, n = row.exp().sum().log() - row, len(row) + classes
            for c in range(len(row)):
                e = label_smoothing / n
                total += ((1 - label_smoothing) + on_target * e if c == y else on_others * e) * minus_log_p[c]
        return total / len(target)

    library = ("cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward", "nll_loss2d")
    all_classes = (
        "Label smoothing mixes in the uniform distribution over ALL classes: every class gets e / C, including "
        "the target."
    )

    test("label smoothing 0.3")
    some_logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(4)).requires_grad_()
    unsmoothed = observe(cross_entropy, some_logits, torch.tensor([2, 0, 1, 1]))
    without = mixed(some_logits, torch.tensor([2, 0, 1, 1]), 0.0).detach()
    seen = observe(cross_entropy, some_logits, torch.tensor([2, 0, 1, 1]), label_smoothing=0.3)
    entropy = -(0.8 * math.log(0.8) + 2 * 0.1 * math.log(0.1))  # of the smoothed distribution: 0.8, 0.1, 0.1
    seen.returns(
        mixed,
        mistake(
            "The loss is already wrong without label smoothing. Pass the first check cell first.",
            when=lambda seen: not unsmoothed.looks_like(without),
        ),
        mistake(
            "Your code doesn't smooth anything: the loss is the same as without label_smoothing.",
            gives=lambda z, y, label_smoothing: mixed(z, y, 0.0),
        ),
        mistake(all_classes, gives=lambda z, y, label_smoothing: mixed(z, y, label_smoothing, 0.0, 1.0, -1)),
        mistake(all_classes, gives=lambda z, y, label_smoothing: mixed(z, y, label_smoothing, 0.0, 1.0)),
        mistake(
            "Your loss is a KL divergence: `F.kl_div` also subtracts the entropy of the target distribution, so the "
            "gradient is right and the value isn't. Return the mean of -(q * log p).sum(1), where q is that "
            "distribution.",
            gives=lambda z, y, label_smoothing: mixed(z, y, label_smoothing) - entropy,
        ),
        mistake(
            "The smoothed loss is wrong. The target gets 1 - e, and then every class gets an additional e / C.",
            stage="value",
        ),
    )
    seen.avoided(*library, because=own)
    seen.gives_gradients(mixed, *gradient)

    not_refused = mistake("A target of ignore_index is not an error. Leave its row out.", raises="IndexError")

    test("the arguments stay as they are")
    changed = "Your code changed the logits or the targets in place."
    seen = observe(cross_entropy, torch.tensor([[0.5, 2.0, -1.0], [3.0, 0.0, 1.0]]), torch.tensor([1, -100]))
    seen.expecting(not_refused).leaves_arguments_alone(because=changed)

    ### BEGIN HIDDEN TESTS
    def reference(logits, target, label_smoothing=0.0, ignore_index=-100):
        kept = target != ignore_index
        rows = logits[kept].double()
        log_p = rows - rows.logsumexp(1, keepdim=True)
        losses = -log_p[torch.arange(len(log_p)), target[kept]]
        if label_smoothing:
            losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
        return losses.mean().to(logits.dtype)

    g = torch.Generator().manual_seed(3)
    masked = "A class with logit -inf must have probability 0."
    zero_times_inf = mistake(
        "The loss is nan: 0 · (-inf). A class with logit -inf was multiplied by a weight of 0, of a one-hot target or "
        "of a label_smoothing of 0. Gather the target's entry, and smooth only where label_smoothing isn't 0.",
        when=lambda seen: seen.value.isnan().all() and seen.gradient(0).isfinite().all(),
    )
    test.hidden("masked classes: a logit of -inf")
    some_logits = torch.tensor([[0.5, -torch.inf, 1.0], [-torch.inf, -torch.inf, 2.0]], requires_grad=True)
    seen = observe(cross_entropy, some_logits, torch.tensor([2, 2]))
    seen.returns(reference, zero_times_inf, because=masked)
    seen.gives_gradients(reference, *gradient)

    test.hidden("ignored rows may hold nan, inf or huge logits")
    some_logits = torch.randn(6, 3, generator=g)
    some_logits[1, 0], some_logits[2], some_logits[4, 1], some_logits[5] = torch.nan, 1e30, torch.inf, -torch.inf
    some_logits.requires_grad_()
    poisoned = "The content of an ignored row (nan, inf, huge numbers) reaches the {}. Select the rows that count."
    seen = observe(cross_entropy, some_logits, torch.tensor([1, -100, -100, 2, -100, -100]))
    over_all = mistake(ignored_mean, gives=lambda z, y: reference(z, y) * (y != -100).sum() / len(y))
    seen.expecting(not_refused).returns(reference, over_all, because=poisoned.format("value"))
    seen.gives_gradients(reference, because=poisoned.format("gradient"))

    test.hidden("no row is left")
    constant = (
        "If no row is left, your function returns a nan without a graph, so `loss.backward()` raises for a batch of "
        "nothing but padding. Return what the mean of no rows gives: that nan still depends on the logits."
    )
    not_zero = (
        "If no row is left, the gradient of your loss isn't 0. An ignored row affects no gradient, and a gradient of "
        "nan would make every weight nan in the next step. Return the mean of the losses that are left, which are none."
    )
    for size, labels in (((3, 4), [-100, -100, -100]), ((1, 2), [-100]), ((0, 3), [])):
        some_logits = torch.randn(size, generator=g).requires_grad_()
        seen = observe(cross_entropy, some_logits, torch.tensor(labels, dtype=torch.int64))
        seen.returns(torch.tensor(torch.nan), because="If no row is left, the mean is nan, as in PyTorch.")
        seen.that(seen.noted.tracked, constant, stage="gradient")
        seen.that(seen.gradient(0).eq(0).all(), not_zero, stage="gradient")

    test.hidden("another ignore_index")
    for ignore_index in (-1, 255, 1, 0):
        some_logits = torch.randn(6, 3, generator=g).requires_grad_()
        some_labels = torch.tensor([1, ignore_index, 2, 0, ignore_index, 2])
        seen = observe(cross_entropy, some_logits, some_labels, ignore_index=ignore_index)
        seen.returns(reference, because=ignored_mean)
        seen.gives_gradients(reference, *gradient)

    test.hidden("one row, one class, as many rows as classes, layouts that are not contiguous")
    for size in ((1, 4), (5, 1), (3, 3), (7, 2)):
        some_logits = torch.randn(size, generator=g).requires_grad_()
        seen = observe(cross_entropy, some_logits, torch.randint(size[1], size[:1], generator=g))
        seen.returns(reference)
        seen.avoided(*library, because=own)
        seen.gives_gradients(reference, *gradient)
    spread = torch.randint(3, (4, 2), generator=g)[:, 0]
    observe(cross_entropy, torch.randn(3, 4, generator=g).t(), spread).returns(reference)

    exact = "The loss is wrong in another dtype. Compute in the dtype of the logits, and add nothing such as 1e-8."
    test.hidden("other dtypes")
    for dtype, rtol in ((torch.float64, 1e-12), (torch.bfloat16, 4e-2), (torch.float16, 1e-2)):
        some_logits = torch.randn(6, 4, generator=g).mul(2).to(dtype).requires_grad_()
        seen = observe(cross_entropy, some_logits, torch.tensor([1, 3, -100, 0, 2, 1]))
        seen.expecting(mistake("The result must have the dtype of the logits.", stage="dtype"))
        seen.returns(reference, because=exact, rtol=rtol, atol=rtol / 10)
        seen.gives_gradients(reference, *gradient, rtol=rtol * 2, atol=rtol / 10)

    test.hidden("the loss of a sure and right prediction is 0")
    some_logits = torch.tensor([[1e4, 0.0], [-3e4, 500.0]], requires_grad=True)
    seen = observe(cross_entropy, some_logits, torch.tensor([0, 1]))
    sure = "For a sure and right prediction the loss is 0, however large the logits are. Use logsumexp."
    seen.returns(torch.tensor(0.0), because=sure, rtol=0.0, atol=1e-3)
    seen.gives_gradients(reference, *gradient)

    g = torch.Generator().manual_seed(5)
    test.hidden("smoothing, with ignored rows and another ignore_index")
    for e, ignore_index in ((0.1, -100), (0.25, -1), (1.0, 7)):
        some_logits = torch.randn(5, 4, generator=g).requires_grad_()
        some_labels = torch.tensor([3, ignore_index, 0, 2, ignore_index])
        seen = observe(cross_entropy, some_logits, some_labels, label_smoothing=e, ignore_index=ignore_index)
        seen.returns(
            reference,
            because=(
                "The smoothed loss is wrong: your code counts ignored rows, or the shares of the classes are wrong."
            ),
        )
        seen.avoided(*library, because=own)
        seen.gives_gradients(reference, *gradient)
    nothing_left = mistake(
        "If no row is left, there is nothing to take a maximum of, but the result must be nan.", stage="raised"
    )
    seen = observe(cross_entropy, torch.randn(2, 3, generator=g), torch.tensor([-100, -100]), label_smoothing=0.5)
    seen.expecting(nothing_left).returns(
        torch.tensor(torch.nan), because="If no row is left, the mean is nan, as in PyTorch."
    )

    test.hidden("smoothing with large logits, with nan in an ignored row")
    some_logits = torch.tensor([[1e4, -2.0, 3.0], [torch.nan, 1.0, torch.inf], [1.0, 300.0, 2.0]], requires_grad=True)
    seen = observe(cross_entropy, some_logits, torch.tensor([1, -100, 1]), label_smoothing=0.5)
    seen.returns(reference, because="The smoothed loss is wrong for large logits, or for nan in an ignored row.")
    seen.gives_gradients(reference, *gradient)

    test.hidden("losses in float16 whose sum is too large for float16")
    too_large = mistake(
        "The loss of each row is 3000 here, and your mean over 40 rows is inf. The sum is 120000, but float16 ends at "
        "65504. `sum()` rounds its result to float16, while `mean()` divides before it rounds. Use `mean()`, or add in "
        "float32.",
        when=lambda seen: seen.value.isinf().all(),
    )
    some_logits = torch.tensor([[3000.0, 0.0, 0.0]] * 40, dtype=torch.float16)
    seen = observe(cross_entropy, some_logits[:1], torch.ones(1, dtype=torch.int64))
    seen.returns(reference, because=exact, rtol=1e-2)
    seen = observe(cross_entropy, some_logits, torch.ones(40, dtype=torch.int64))
    seen.returns(reference, too_large, because=exact, rtol=1e-2)

    test.hidden("smoothing keeps the dtype")
    some_logits = torch.randn(4, 3, generator=g, dtype=torch.float64).requires_grad_()
    seen = observe(cross_entropy, some_logits, torch.tensor([0, 2, 1, 1]), label_smoothing=0.2)
    like = reference(some_logits.detach(), torch.tensor([0, 2, 1, 1]), 0.2)
    in_float32 = mistake(
        "The smoothed loss of float64 logits has only the digits of float32, so part of your code computes in float32. "
        "A tensor that you make yourself has this dtype unless you name another.",
        stage="value",
        when=lambda seen: torch.allclose(seen.value, like, rtol=1e-6, atol=0.0),
    )
    seen.returns(reference, in_float32, rtol=1e-12, atol=0.0)

    test.hidden("targets that are none of the classes")
    no_class = (
        "A target outside the classes must raise IndexError (a negative target would silently count from the end)."
    )
    for label, options in [
        (3, {}),
        (4, {}),
        (255, {}),
        (-1, {}),
        (-3, {}),
        (-4, {"label_smoothing": 0.1}),
        (3, {"label_smoothing": 0.1}),
        (-100, {"ignore_index": -1}),
        (-2, {"ignore_index": -1}),
    ]:
        labels = [0, label, 2] if label % 2 else [0, 1, label]
        seen = observe(cross_entropy, torch.randn(3, 3, generator=g), torch.tensor(labels), **options)
        seen.raises(IndexError, because=no_class)

    test.hidden("shapes other than (N, C) and (N,)")
    refused = "Wrong shapes must raise ValueError, and floating-point targets TypeError."
    for size, labels in [
        ((3,), 1),
        ((3,), [1]),
        ((3,), [0, 1, 1]),
        ((4, 3), [1]),
        ((4, 3), [1, 2, 0]),
        ((4, 3), [1, 2, 0, 1, 1]),
        ((1, 3), 1),
        ((4, 3), [[1], [2], [0], [1]]),
        ((1, 3), [[1]]),
        ((4, 3), [[1, 2, 0, 1]]),
        ((2, 3, 2), [1, 0]),
        ((2, 3, 2), [[1, 0], [2, 1]]),
    ]:
        seen = observe(cross_entropy, torch.randn(size, generator=g), torch.tensor(labels))
        seen.raises(ValueError, because=refused)

    test.hidden("floating targets")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        seen = observe(cross_entropy, torch.randn(3, 3, generator=g), torch.tensor([0, 2, 1], dtype=dtype))
        seen.raises(TypeError, because=refused)
    ### END HIDDEN TESTS
