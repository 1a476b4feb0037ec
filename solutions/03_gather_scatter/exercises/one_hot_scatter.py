# %% [markdown]
# ### Exercise 3.3 · Smoothed targets with holes
#
# implement · warm-up · 12 min · 2 points
#
# Losses that compare distributions (distillation, mixup, soft cross entropy) need targets as rows of probabilities,
# with label smoothing, and with zeros where a pixel or token should be ignored. Build them with scatter.
#
# **Contract**
#
# - The row of a label y contains `smooth / C` everywhere, plus `1 - smooth` at class y, so rows sum to 1.
# - Rows of labels equal to `ignore_index` are all zero. `ignore_index` may be inside or outside 0..C-1; None means that
#   there is none. Any other label outside 0..C-1 raises IndexError, RuntimeError or ValueError.
# - `labels` is int64, has any number of dimensions (including 0-d), and is not changed. The result has one dimension
#   more, of size C; it is on the device of `labels` and has the given dtype.
#
# **Rule.** Use `scatter` or `scatter_`; `F.one_hot` and `torch.eye` are not allowed.
# The check also changes what `scatter` gives, and then the result must change.
#
# <details><summary>Hint 1</summary>
#
# Which dimension of the result does a label address, and what must index look like so that it has as many dimensions as
# the result?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Start from a tensor filled with `smooth / C`, scatter the label's value along the last dimension with labels as a
# column, then set the ignored rows to zero. For the ignored rows, give scatter a harmless legal index, but don't write
# into `labels`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Make a mask of the ignored labels; without an `ignore_index` it is False everywhere. For the index, replace the
# ignored labels in a copy by a legal class and add a last dimension. scatter replaces the old value, so the number to
# write is the whole value at class y, with its share of the smoothing. `torch.full` takes a dtype and a device.
#
# </details>


# %% answer="one-hot-scatter"
def soft_targets(
    labels: Tensor,
    num_classes: int,
    smooth: float = 0.0,
    ignore_index: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Rows of target probabilities: smoothed, and all zero where a label is to be ignored.

    labels: (...) int64; returns (..., num_classes) of the given dtype, on the device of labels.
    """
    ### BEGIN SOLUTION
    ignored = torch.zeros_like(labels, dtype=torch.bool)
    if ignore_index is not None:
        ignored = labels == ignore_index
    index = labels.masked_fill(ignored, 0).unsqueeze(-1)  # a legal index, whatever ignore_index is
    spread = smooth / num_classes
    targets = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    targets.scatter_(-1, index, 1 - smooth + spread)
    return targets.masked_fill(ignored.unsqueeze(-1), 0)
    ### END SOLUTION


# %% helpers="one-hot-scatter"
def follows_the_rule(seen):
    """Judge that the result was built by scatter."""
    rule = "The result must be built with scatter / scatter_, without one_hot and eye: {detail}"
    seen.avoided("one_hot", "eye", because=rule)
    seen.used("scatter", "scatter_", because=rule)


def changed_scatter(soft_targets, labels, num_classes):
    """Call it twice, the second time with other numbers in place of what scatter gives; does the result change?"""
    return needs(["scatter", "scatter_"], soft_targets, labels, num_classes)


not_needed = "The result stays the same when `scatter` gives other numbers, so another part of your code computes it."


dimensions = mistake(
    "Scatter needs an index with as many dimensions as the target: labels needs one more (of size 1).",
    raises="same number of dimensions",
)


# %% check="one-hot-scatter" points=1
"""Each row is marked at its label, sums to 1, and was built by scatter."""
with check("one-hot-scatter") as test:
    test("labels 2, 0, 1, 2 of 5 classes")
    four_labels = torch.tensor([2, 0, 1, 2])
    plain_rows = torch.tensor([[0.0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    along_rows = "You scattered along dim 0: that marks row y of column 0.. instead of column y of each row."
    seen = observe(soft_targets, four_labels, 5)
    mistakes = {
        along_rows: [
            torch.tensor([[1.0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]),
            torch.tensor([[0.0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]]),
        ],
        "Classes are the last dimension of the result: {detail}": (5, 4),
    }
    seen.returns(plain_rows, dimensions, *known(mistakes))
    follows_the_rule(seen)
    seen = observe_scenario(changed_scatter, soft_targets, four_labels, 5)
    seen.that(seen.value, not_needed, stage="rule")

    test("smooth = 0.1: every row sums to 1")
    seen = observe(soft_targets, four_labels, 5, smooth=0.1)
    mistakes = {
        "`smooth` was not used, but every class should get smooth / C.": plain_rows,
        "You spread the smoothing over the C-1 other classes, but here it goes over all C, so the label also "
        "gets its share, as in cross_entropy.": torch.where(plain_rows == 1, 0.9, 0.025),
        "The rows must sum to 1: the label gets 1 - smooth on top of smooth / C.": lambda seen: (
            not seen.value.sum(-1).sub(1).abs().lt(1e-4).all()
        ),
    }
    seen.returns(torch.where(plain_rows == 1, 0.92, 0.02), *known(mistakes))

# %% check="one-hot-scatter" points=1
"""Ignored rows are zero; any shape, dtype and device; wrong labels are refused."""
with check("one-hot-scatter") as test:

    def ignored_rows(seen):
        """What the result holds where the label is ignored."""
        return seen.value[seen.args[0] == seen.kwargs["ignore_index"]]

    test("labels 2, 0, 1 of 4 classes, smooth = 0.2; the labels are not changed")
    seen = observe(soft_targets, torch.tensor([2, 0, 1]), 4, smooth=0.2)
    seen.returns(
        torch.tensor([[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05], [0.05, 0.85, 0.05, 0.05]]), FIRST_CHECK_FIRST
    )
    seen.leaves_arguments_alone()
    seen.avoided("one_hot", "eye", mistakes=[FIRST_CHECK_FIRST])
    seen.used("scatter", "scatter_", mistakes=[FIRST_CHECK_FIRST])
    seen = observe_scenario(changed_scatter, soft_targets, torch.tensor([2, 0, 1]), 4)
    seen.that(seen.value, not_needed, FIRST_CHECK_FIRST, stage="rule")

    test("ignore_index = -100: rows of zeros")
    some_labels = torch.tensor([2, -100, 0, 3])
    seen = observe(soft_targets, some_labels, 4, ignore_index=-100)
    mistakes = {
        "The ignore_index may be outside 0..C-1, so scatter must never see it.": "out of bounds",
        "The ignored rows carry a 1: the harmless index you used for them must be blanked afterwards.": lambda seen: (
            ignored_rows(seen).eq(1).any()
        ),
        "Only the ignored rows are to be blanked; a label of 0 is an ordinary class.": torch.tensor(
            [[0.0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
        ),
    }
    seen.returns(torch.tensor([[0.0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]), *known(mistakes))
    overwritten = "The tensor labels was changed (the ignored labels were overwritten in place)."
    seen.leaves_arguments_alone(because=overwritten)

    test("ignore_index = 0, a class like any other")
    seen = observe(soft_targets, torch.tensor([2, 0, 1, 0]), 3, ignore_index=0)
    seen.returns(
        torch.tensor([[0.0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]),
        mistake(
            "The rows of ignore_index must also be zero if it is a legal class. (Is 0 taken for 'no "
            "ignore_index'? Only None means that.)",
            gives=torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]),
        ),
    )
    seen.leaves_arguments_alone(because=overwritten)

    test("ignored and smoothed")
    seen = observe(soft_targets, torch.tensor([-1, 1, 2, -1]), 4, smooth=0.2, ignore_index=-1)
    seen.returns(
        torch.tensor([[0.0, 0, 0, 0], [0.05, 0.85, 0.05, 0.05], [0.05, 0.05, 0.85, 0.05], [0, 0, 0, 0]]),
        mistake(
            "Ignored rows must be zero everywhere, smoothing included.",
            when=lambda seen: ignored_rows(seen).ne(0).any(),
        ),
    )

    ### BEGIN HIDDEN TESTS
    def reference(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
        rows = []
        for y in labels.flatten().tolist():
            row = [smooth / num_classes if y != ignore_index else 0.0] * num_classes
            if y != ignore_index:
                row[y] += 1 - smooth
            rows.append(row)
        return torch.tensor(rows, dtype=torch.float64).reshape(*labels.shape, num_classes).to(dtype)

    g = torch.Generator().manual_seed(5)
    pixels = torch.randint(4, (2, 3, 5), generator=g)
    for idea, some_labels, classes, asked in [
        ("labels (B, H, W)", pixels, 4, {"smooth": 0.3}),
        ("labels (B, H, W), one class ignored", pixels, 4, {"smooth": 0.3, "ignore_index": 2}),
        ("labels that are not contiguous", pixels.permute(2, 0, 1), 6, {"smooth": 0.1}),
        ("a 0-d label", torch.tensor(2), 3, {"smooth": 0.1}),
        ("a 0-d label, ignored", torch.tensor(-1), 3, {"ignore_index": -1}),
        ("a single class", torch.tensor([0, 0, -5]), 1, {"smooth": 0.1, "ignore_index": -5}),
        ("all labels ignored", torch.tensor([[7, 7, 7]]), 4, {"smooth": 0.1, "ignore_index": 7}),
        ("ignore_index = C", torch.tensor([3, 0, 2]), 3, {"ignore_index": 3}),
        ("ignore_index = 255", torch.tensor([[255, 20], [0, 255]]), 21, {"smooth": 0.1, "ignore_index": 255}),
        ("an ignore_index that does not occur", torch.tensor([1, 2]), 3, {"smooth": 0.1, "ignore_index": -100}),
        ("everything smoothed away", torch.tensor([1, 3]), 4, {"smooth": 1.0}),
    ]:
        test.hidden(idea)
        seen = observe(soft_targets, some_labels, classes, **asked)
        seen.returns(
            reference,
            dimensions,
            mistake(
                "Dimension 1 holds the classes only where labels has one dimension; they are always the last one "
                "({detail}).",
                raises="out of bounds|no larger than self",
                when=lambda seen: seen.args[0].dim() > 1 and seen.kwargs.get("ignore_index", 0) in range(seen.args[1]),
            ),
            mistake("The ignore_index may be outside 0..C-1, so scatter must never see it.", raises="out of bounds"),
        )
        seen.leaves_arguments_alone()
        follows_the_rule(seen)

    test.hidden("no labels at all")
    for size in ((0,), (2, 0)):
        observe(soft_targets, torch.empty(size, dtype=torch.int64), 3, smooth=0.1).returns(torch.empty(*size, 3))

    test.hidden("other dtypes")
    for dtype, rtol in ((torch.float64, 1e-12), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        seen = observe(soft_targets, torch.tensor([2, -1, 0]), 3, smooth=0.1, ignore_index=-1, dtype=dtype)
        mistakes = {
            "The result must have the requested dtype: {detail}": [{"stage": "dtype"}, "dtype"],
            "This is float32 precision in a float64 tensor: compute in the requested dtype.": lambda seen: (
                seen.looks_like(reference) and seen.value.dtype == torch.float64
            ),
        }
        seen.returns(
            reference,
            *known(mistakes),
            rtol=rtol,
            atol=0,
        )

    corner = corners(test, soft_targets, reference, "labels")
    corner.keeps_device(torch.empty(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), 4, smooth=0.1)

    test.hidden("other labels outside the classes are refused")
    wrong_kind = mistake(
        "A wrong label raised another kind of exception: raise IndexError, RuntimeError or ValueError.", raises="."
    )
    for label, ignored in (
        (-1, None),
        (3, None),
        (-100, None),
        (255, None),
        (2**32 + 1, None),  # which int32 takes for 1
        (9, None),
        (-2, -1),
        (3, -1),
        (3, 255),
        (4, 3),
        (-1, 0),
        (-100, 0),
    ):
        seen = observe(
            soft_targets, torch.tensor([0, label, 2 if ignored is None else ignored]), 3, ignore_index=ignored
        )
        seen.raises(
            IndexError,
            RuntimeError,
            ValueError,
            because=f"Label {label} was accepted. Clamping or taking the remainder hides wrong labels; "
            "only ignore_index may be outside.",
            mistakes=[wrong_kind],
        )
        seen.leaves_arguments_alone(
            because="What you change and put back stays changed when the call raises. Work on a copy of labels."
        )

    corner.keeps_first_result("targets", torch.tensor([2, 0, 1]), torch.tensor([1, 3, 2]), 4)
    ### END HIDDEN TESTS
