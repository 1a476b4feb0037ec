# %% [markdown]
# ### Exercise 3.1 · The label's log-probability, per position
#
# implement · warm-up · 10 min · 2 points
#
# Scoring a text, policy gradients and distillation need one number per position, the log-probability that the model
# gave to the label. A loss function averages these numbers away; here you pick them yourself.
#
# **Contract**
#
# - `out[...] = log_softmax(logits, over the last dimension)[..., labels[...]]` for any number of leading dimensions
#   (sizes of 0 included), and for none: (C,) with a 0-d label gives a 0-d result.
# - Logits as large as 1e4 must not overflow or underflow, whatever the other rows contain, and other classes may have a
#   logit of -inf.
# - The result has the dtype and device of `logits` and is differentiable with respect to `logits`. The arguments are
#   not changed.
# - `labels` may be int64, int32 or uint8. A label outside 0..C-1, including a negative one, raises IndexError,
#   RuntimeError or ValueError.
# - The result may be off by the rounding of the logits: at 1e4, neighbouring float32 numbers are 0.001 apart.
#
# <details><summary>Hint 1</summary>
#
# What are the shapes of the log-probabilities and of `labels`? What must be added to `labels` so that gather accepts
# them, and what has to be removed afterwards?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# gather needs an index with as many dimensions as its input, and fetches one number per entry of that index. You want
# one number per position, so which size must the last dimension of the index have? And gather refuses uint8 as an
# index, so convert the labels first.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Take the log_softmax over the last dimension. Give the labels, as int64, one extra dimension of size 1 at the end, and
# gather along that dimension. Then remove exactly that dimension, because a squeeze without a number also removes
# leading dimensions that happen to have size 1.
#
# </details>


# %% answer="label-log-prob"
def label_log_prob(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of each position's own label.

    logits: (..., C) floating point; labels: (...) int64, int32 or uint8;
    returns (...) in the dtype of logits.
    """
    ### BEGIN SOLUTION
    log_probs = logits.log_softmax(-1)
    return log_probs.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    ### END SOLUTION


# %% check="label-log-prob" points=1
"""One log-probability for each position: that of its own label."""
with check("label-log-prob") as test:

    def pick(table, labels):
        """table[..., y] for the label y of each position, by a plain loop."""
        rows = table.reshape(-1, table.shape[-1])
        picked = [row[int(y)] for row, y in zip(rows, labels.flatten(), strict=True)]
        return torch.stack(picked).reshape(labels.shape)

    def normalised(logits, dim):
        """Logits minus the logarithm of their sum of exponentials (good enough for small numbers)."""
        return logits - logits.exp().sum(dim, keepdim=True).log()

    slips = known(
        {
            "Gather needs an index with as many dimensions as the input: "
            "labels needs one more (of size 1).": "same number of dimensions",
            "The size-1 dimension used for gather is still there: remove it at the end.": lambda seen: (
                seen.value.shape == (*seen.args[1].shape, 1)
            ),
            "You gathered along dim 0: that reads row `labels[i]` of the first column. The classes are the last "
            "dimension, so gather along that one.": {
                "gives": lambda logits, labels: normalised(logits, -1).gather(0, labels[:, None])[:, 0]
            },
            "You read the labels of all positions from the first row: an index of shape (1, N) has one row. The new "
            "dimension of size 1 comes last, so that each position has a row.": {
                "gives": lambda logits, labels: normalised(logits, -1)[0, labels]
            },
            "Those are the raw logits: they must be normalised (log_softmax) over the classes.": {"gives": pick},
            "The softmax runs over the wrong dimension: classes are last.": lambda seen: any(
                seen.looks_like(lambda logits, labels, dim=dim: pick(normalised(logits, dim), labels))
                for dim in range(seen.args[1].dim())
            ),
            "The sign is wrong: that is the loss (negative log-probability).": {
                "gives": lambda logits, labels: -pick(normalised(logits, -1), labels)
            },
            "Those are probabilities, not their logarithms.": {
                "gives": lambda logits, labels: pick(normalised(logits, -1), labels).exp()
            },
        }
    )

    test("logits (4, 3), labels (4,)")
    some_probs = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.4, 0.35, 0.25], [0.7, 0.05, 0.25]])
    some_logits = some_probs.log() + torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    observe(label_log_prob, some_logits, torch.tensor([2, 0, 1, 1])).expecting(*slips).returns(
        torch.tensor([0.5, 0.1, 0.35, 0.05]).log(),
        mistake(
            "You got a table: indexing the class dimension with all labels pairs every position with every label. "
            "Each position needs its own label only.",
            shape=(4, 4),
        ),
        mistake("That is one number for all positions: each position needs its own (reduction='none').", shape=()),
    )

    test("logits (2, 5, 7), labels (2, 5)")
    some_logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    some_labels = torch.tensor([[6, 0, 3, 3, 1], [2, 5, 0, 4, 6]])
    observe(label_log_prob, some_logits, some_labels).expecting(*slips).returns(
        pick(normalised(some_logits, -1), some_labels),
        mistake(
            "The classes are the last dimension. Dimension 1 holds them for two-dimensional logits only.",
            raises="out of bounds",
        ),
    )

# %% check="label-log-prob" points=1
"""Huge logits, other shapes and dtypes, the gradient; labels that do not exist are refused."""
with check("label-log-prob") as test:

    def by_loop(logits, labels):
        """The log-probabilities by a plain loop, good enough for small numbers."""
        rows = [row - row.exp().sum().log() for row in logits.flatten(0, -2)]
        picked = [row[int(y)] for row, y in zip(rows, labels.flatten(), strict=True)]
        return torch.stack(picked).reshape(labels.shape)

    test("logits (2, 5, 7), labels (2, 5); the arguments are not changed")
    some_logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1))
    seen = observe(label_log_prob, some_logits, torch.tensor([[6, 0, 3, 3, 1], [2, 5, 0, 4, 6]]))
    seen.returns(by_loop, FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone()

    squeezed = mistake(
        "A squeeze() without an argument removes every dimension of size 1, even a batch of one. Name the dimension.",
        when=lambda seen: seen.value.shape == seen.args[1].squeeze().shape != seen.args[1].shape,
    )

    test("a batch of one: logits (1, 3), labels (1,)")
    seen = observe(label_log_prob, torch.tensor([[0.2, 0.3, 0.5]]).log(), torch.tensor([2]))
    seen.returns(torch.tensor([0.5]).log(), squeezed)

    test("logits of 1e4: the improbable label has log-probability -10000, not -inf")
    seen = observe(label_log_prob, torch.tensor([[1e4, 0.0, 3.0], [2.0, -5.0, 1e4]]), torch.tensor([1, 2]))
    mistakes = {
        "Here log(softmax(x)) underflows: a small probability becomes 0 and "
        "its logarithm -inf. Use log_softmax.": lambda seen: seen.value.tolist() == [-torch.inf, 0.0],
        "Here exp(1e4) is inf, and what follows is inf or nan. log_softmax "
        "subtracts the largest logit first.": lambda seen: not seen.value.isfinite().all(),
        "A small number added to the probability, or a bound on the logits, hides how improbable the label is: "
        "{detail}. Use log_softmax.": lambda seen: -1000 < seen.value[0].item() < -5,
    }
    seen.returns(torch.tensor([-1e4, 0.0]), *known(mistakes))

    ### BEGIN HIDDEN TESTS
    test.hidden("a row of huge logits beside a row of small ones")
    seen = observe(label_log_prob, torch.tensor([[1e4, 0.0, 3.0], [0.0] * 3, [1.0] * 3]), torch.tensor([1, 2, 0]))
    seen.returns(
        torch.tensor([-1e4, -math.log(3), -math.log(3)]),
        mistake(
            "Subtract from each row its own largest logit: with the largest of the whole tensor, exp underflows in the "
            "other rows.",
            when=lambda seen: not seen.value[1].isfinite(),
        ),
    )

    def reference(logits, labels):
        return logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)

    g = torch.Generator().manual_seed(2)
    shapes = mistake(
        "Any number of leading dimensions is possible: none at all, and some of size 0, too ({detail}).",
        stage=("raised", "shape"),
    )
    for idea, size in [
        ("sequences of length one", (4, 1, 5)),
        ("no leading dimension", (5,)),
        ("an empty batch", (0, 3)),
        ("a single class", (4, 1)),
        ("as many positions as classes", (3, 3, 3)),
        ("four dimensions", (2, 3, 2, 5)),
    ]:
        test.hidden(idea)
        some_logits = torch.randn(size, generator=g) + 2
        some_labels = torch.randint(size[-1], size[:-1], generator=g)
        observe(label_log_prob, some_logits, some_labels).returns(reference, squeezed, shapes)

    test.hidden("logits and labels that are not contiguous")
    some_logits = torch.randn(5, 3, 4, generator=g).permute(2, 1, 0)
    some_labels = torch.randint(5, (3, 4), generator=g).t()
    observe(label_log_prob, some_logits, some_labels).returns(
        reference,
        mistake(
            "A view needs memory in the right order, which a transposed tensor has not: use reshape or flatten.",
            raises="view",
        ),
    )

    test.hidden("float64, float16 and bfloat16 logits keep their dtype")
    for dtype, rtol in ((torch.float64, 1e-10), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
        some_logits = torch.tensor([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]], dtype=dtype)
        seen = observe(label_log_prob, some_logits, torch.tensor([1, 2]))
        seen.returns(
            reference,
            mistake("The result has the dtype of the logits: {detail}.", stage="dtype"),
            mistake(
                "This is float32 precision in a float64 tensor: compute in the dtype of the logits.",
                when=lambda seen: seen.looks_like(reference) and seen.value.dtype == torch.float64,
            ),
            rtol=rtol,
            atol=0,
        )

    test.hidden("300 classes in bfloat16")
    some_logits = torch.arange(600).remainder(7).div(2).reshape(2, 300).to(torch.bfloat16)
    observe(label_log_prob, some_logits, torch.tensor([257, 259])).returns(
        reference,
        mistake(
            "Labels 257 and 259 were asked for. bfloat16 can't tell 257 from 256, so keep class numbers in int64.",
            stage="value",
        ),
        rtol=3e-2,
        atol=0,
    )

    test.hidden("a class with logit -inf that is not the label")
    masked = torch.tensor([[0.5, -torch.inf, 1.0], [-torch.inf, -torch.inf, 2.0]], requires_grad=True)
    seen = observe(label_log_prob, masked, torch.tensor([0, 2]))
    products = mistake(
        "One-hot times log-probabilities multiplies 0 by -inf where a class is masked: nan. "
        "Pick the value instead of summing products.",
        when=lambda seen: seen.value.isnan().all(),
    )
    whole = "A class of logit -inf has probability 0, and the other classes share the whole."
    seen.returns(reference, products, because=whole)
    observe(label_log_prob, masked.detach().half(), torch.tensor([0, 2])).returns(reference, products, because=whole)
    detached = mistake("No gradient reaches the logits.", when=lambda seen: not seen.noted.tracked)
    normaliser = mistake(
        "The gradient flows through the logit of the label only. The normaliser (logsumexp) depends on all logits: "
        "don't detach it.",
        stage="gradient",
        when=lambda seen: (seen.gradient(0).count_nonzero(-1) <= 1).all(),
    )
    seen.gives_gradients(reference, detached, normaliser)

    test.hidden("labels of other integer dtypes")
    for dtype in (torch.int32, torch.uint8):
        some_logits = torch.randn(4, 200, generator=g)
        seen = observe(label_log_prob, some_logits, torch.tensor([3, 199, 0, 150], dtype=dtype))
        seen.returns(
            reference,
            mistake(
                "The index must be int64 for gather: convert labels ({detail}).",
                raises="dtype|tensors used as indices|to be Long|shape of the mask",
            ),
        )
        seen.leaves_arguments_alone()

    test.hidden("labels that do not exist are refused")
    some_logits = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.2, -0.4], [-0.5, 0.1, 0.7]])
    wrong_kind = mistake(
        "A label that does not exist raised another kind of exception: raise IndexError, RuntimeError or ValueError.",
        raises=".",
    )
    for label in (-1, -100, 3, 5, 255, 2**32 + 1):
        skipped = mistake(
            f"Label {label} was accepted and gives 0, as where cross_entropy skips it (ignore_index); it must raise.",
            when=lambda seen: seen.args[1][1] in (-100, 255) and seen.value[1] == 0,
        )
        wrapped = mistake(
            f"Label {label} was accepted: ordinary indexing counts negative labels from the end and "
            "take_along_dim wraps them around; gather refuses them.",
            gives=lambda logits, labels: reference(logits, labels % 3),
        )
        seen = observe(label_log_prob, some_logits, torch.tensor([0, label, 2]))  # in the middle: rows on both sides
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Label {label} was accepted, and it must raise.",
            mistakes=[skipped, wrapped, wrong_kind],
        )
        seen.leaves_arguments_alone(
            because="What you change and put back stays changed when the call raises. Work on a copy of labels."
        )

    test.hidden("the gradient: one-hot minus softmax, times the incoming gradient")
    for size in ((4, 3), (2, 3, 5)):
        some_logits = torch.randn(size, generator=g, requires_grad=True)
        some_labels = torch.randint(size[-1], size[:-1], generator=g)
        seen = observe(label_log_prob, some_logits, some_labels)
        seen.gives_gradients(reference, detached, normaliser)
    ### END HIDDEN TESTS
