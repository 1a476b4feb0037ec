# %% [markdown]
# ### Exercise 1.6 · Before the device-side assert: find the labels that do not fit
#
# debug · solid · 10 min · 2 points
#
# A training step on the GPU stops with "CUDA error: device-side assert triggered", reported at `loss.backward()`, three
# lines too late. On the CPU, the same batch raises at the right line: `IndexError: Target 5 is out of bounds.` But
# where in the batch is that label, and is it the only bad one? Write the function that finds out.
#
# **Contract**
#
# - Return the positions of all bad labels: one row per bad label, one column per dimension of `labels`, in the order of
#   the elements (row by row), shape (n, labels.ndim), int64.
# - A label is good if it is one of 0 … num_classes - 1 or equals `ignore_index`, which may be inside or outside that
#   range. Every other label is bad, including other negative numbers. There is at least one class.
# - If nothing is bad, the result has shape (0, labels.ndim). This includes empty labels. The labels are not changed.
# - `labels` may have any shape. Its dtype is int64 or uint8, the two that cross_entropy accepts for a row of labels;
#   other dtypes raise TypeError.
#
# So the result is empty exactly when `F.cross_entropy` on the CPU raises no IndexError for `labels.long()`.
#
# <details><summary>Hint 1</summary>
#
# Which negative label does cross_entropy silently skip, and what decides that?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Build one boolean mask "inside the range OR equal to ignore_index", negate it, and turn it into positions. Beware of
# comparing a uint8 tensor with a Python number that does not fit in uint8.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Convert the labels to int64, compare them with 0 and `num_classes`, and combine the two with `&`. Use `|` to add the
# labels that equal `ignore_index`. What remains after negating is bad, and `nonzero` turns a mask into positions.
# Before that, refuse dtypes other than int64 and uint8.
#
# </details>


# %% answer="find-bad-labels"
def bad_labels(labels: Tensor, num_classes: int, ignore_index: int = -100) -> Tensor:
    """The positions of the labels that F.cross_entropy would refuse.

    labels: any shape, int64 or uint8; returns (n, labels.ndim) int64.
    """
    ### BEGIN SOLUTION
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"cross_entropy takes int64 or uint8 class indices, not {labels.dtype}")
    wide = labels.long()
    good = (wide >= 0) & (wide < num_classes) | (wide == ignore_index)
    return (~good).nonzero()
    ### END SOLUTION


# %% check="find-bad-labels" points=1
"""All positions of labels that cross_entropy would refuse, and no others."""
with check("find-bad-labels") as test:

    def where(labels, is_bad):
        """The positions at which a condition holds, as the contract wants them."""
        found = [[]]
        for size in labels.shape:
            found = [[*position, i] for position in found for i in range(size)]
        rows = [row for row, label in zip(found, labels.flatten().tolist(), strict=True) if is_bad(label)]
        return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), labels.dim())

    def reference(labels, num_classes, ignore_index=-100):
        """The contract, label by label."""
        return where(labels, lambda label: not (0 <= label < num_classes or label == ignore_index))

    def if_bad(rule):
        """What comes out when the labels for which `rule` holds are reported."""

        def positions(labels, num_classes, ignore_index=-100):
            return where(labels, lambda label: rule(label, num_classes, ignore_index))

        return positions

    def values(labels, num_classes, ignore_index=-100):
        """The bad labels themselves."""
        return torch.stack([labels[tuple(row)] for row in reference(labels, num_classes, ignore_index)])

    def flat(labels, num_classes, ignore_index=-100):
        """Positions in the flattened tensor."""
        return reference(labels.flatten(), num_classes, ignore_index)

    the_positions = "You returned the bad values; asked for are their positions."
    coordinates = (
        "Positions must be coordinates in the shape of the labels (one column per dimension), not numbers in the "
        "flattened tensor."
    )
    skips = "You reported labels equal to ignore_index: cross_entropy skips them, they are good."
    by_argument = "-100 is only the default: which label is skipped is decided by the argument ignore_index."
    first = "You returned the first bad position only."
    known = (
        mistake("The labels belong to the caller: they must stay as they are.", stage="arguments"),
        mistake(
            "Your function returned None. If nothing is bad, return an empty tensor of shape (0, ndim).",
            when=lambda seen: seen.value is None and len(reference(*seen.args, **seen.kwargs)) == 0,
        ),
        mistake("Your function returned None, but it must return the positions.", when=lambda seen: seen.value is None),
        mistake("Positions are int64, as from nonzero: {detail}.", stage="dtype"),
        mistake(
            "Your function must report all bad labels, while cross_entropy itself stops at the first one: {detail}.",
            raises=r"Target -?\d+ is out of bounds",
        ),
        mistake(the_positions, gives=values),
        mistake(the_positions, gives=lambda *call, **named: values(*call, **named)[:, None]),
        mistake(
            "nonzero(as_tuple=True) and torch.where give one tensor per dimension; stack them as columns.",
            when=lambda seen: isinstance(seen.value, tuple) and len(seen.value) == seen.args[0].dim(),
        ),
        mistake(
            "You returned a mask; asked for are the positions where it is true.",
            when=lambda seen: seen.value.dtype == torch.bool,
        ),
        mistake(
            "With one dimension there is one column: the result has shape (n, 1).",
            gives=lambda *call, **named: reference(*call, **named).squeeze(1),
            when=lambda seen: seen.args[0].dim() == 1,
        ),
        mistake(coordinates, gives=flat, when=lambda seen: seen.args[0].dim() != 1),
        mistake(
            coordinates,
            gives=lambda *call, **named: flat(*call, **named).squeeze(1),
            when=lambda seen: seen.args[0].dim() != 1,
        ),
        mistake(
            "Your result has one column for each bad label, but it must have one row for each.",
            gives=lambda *call, **named: reference(*call, **named).t(),
        ),
        mistake(
            "Negative labels other than ignore_index are also out of bounds: -1 does not mean 'last class' here.",
            gives=if_bad(lambda label, classes, ignored: label >= classes and label != ignored),
        ),
        mistake(
            "Labels that are too large are also out of bounds.",
            gives=if_bad(lambda label, classes, ignored: label < 0 and label != ignored),
        ),
        mistake(
            "With num_classes = C the last legal label is C-1; you let C pass.",
            gives=if_bad(lambda label, classes, ignored: not 0 <= label <= classes and label != ignored),
        ),
        mistake(
            "With num_classes = C the last legal label is C-1: it is good.",
            gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes - 1 and label != ignored),
        ),
        mistake(
            "Label 0 is the first class: it is good.",
            gives=if_bad(lambda label, classes, ignored: not 0 < label < classes and label != ignored),
        ),
        mistake(
            "You reported the good labels; asked for are the bad ones.",
            gives=if_bad(lambda label, classes, ignored: 0 <= label < classes or label == ignored),
        ),
        mistake(skips, gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes)),
        mistake(by_argument, gives=lambda labels, num_classes, ignore_index: reference(labels, num_classes, -100)),
        mistake(
            by_argument,
            gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes and label not in (ignored, -100)),
        ),
        mistake(
            "ignore_index may lie inside the range as well: then that label is skipped, and it is good.",
            gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes or label == ignored),
        ),
        mistake(first, gives=lambda *call, **named: reference(*call, **named)[:1]),
        mistake(first, gives=lambda *call, **named: reference(*call, **named)[0]),
        mistake(
            "These are the positions, but not in the order of the elements, row by row.",
            stage="value",
            when=lambda seen: sorted(seen.value.tolist()) == reference(*seen.args, **seen.kwargs).tolist(),
        ),
        mistake(
            "Fewer positions came out than there are bad labels: {detail}.",
            stage="shape",
            when=lambda seen: (
                seen.value.shape[1:] == (seen.args[0].dim(),)
                and len(seen.value) < len(reference(*seen.args, **seen.kwargs))
            ),
        ),
        mistake(
            "More positions came out than there are bad labels: {detail}.",
            stage="shape",
            when=lambda seen: (
                seen.value.shape[1:] == (seen.args[0].dim(),)
                and len(seen.value) > len(reference(*seen.args, **seen.kwargs))
            ),
        ),
    )

    def judge(labels, *more, **named):
        """Judge the positions in these labels."""
        seen = observe(bad_labels, labels, *more, **named).expecting(*known)
        seen.returns(reference(labels, *more, **named))
        seen.leaves_arguments_alone()

    test("[0, 5, 2, -1, 3, 1, -7] with 3 classes: positions 1, 3, 4 and 6")
    seen = observe(bad_labels, torch.tensor([0, 5, 2, -1, 3, 1, -7]), 3).expecting(*known)
    seen.returns(torch.tensor([[1], [3], [4], [6]]))
    seen.leaves_arguments_alone()

    test("nothing is bad")
    observe(bad_labels, torch.tensor([2, 0, 1]), 3).expecting(*known).returns(torch.empty(0, 1, dtype=torch.int64))

    test("labels of shape (2, 2, 3) with -100 in them")
    some_labels = torch.tensor([[[0, -100, 2], [1, 4, -100]], [[-100, 3, 3], [0, -2, 1]]])
    seen = observe(bad_labels, some_labels, 4).expecting(*known)
    seen.returns(torch.tensor([[0, 1, 1], [1, 1, 1]]))
    seen.leaves_arguments_alone()

    test("ignore_index=255, ignore_index=-1, and one inside the range")
    some_labels = torch.tensor([[255, 2, 0], [-1, -100, 1]])
    seen = observe(bad_labels, some_labels, 3, 255).expecting(*known)
    seen.returns(torch.tensor([[1, 0], [1, 1]]))
    seen = observe(bad_labels, some_labels, 3, ignore_index=-1).expecting(*known)
    seen.returns(torch.tensor([[0, 0], [1, 1]]))
    seen = observe(bad_labels, some_labels, 3, ignore_index=1).expecting(*known)
    seen.returns(torch.tensor([[0, 0], [1, 0], [1, 1]]))

    ### BEGIN HIDDEN TESTS
    test.hidden("no labels at all")
    empty = mistake(
        "labels.min()/max() of an empty tensor raises: an empty batch has no bad labels.",
        raises="numel|empty|no elements",
    )
    for size in ((0,), (0, 3), (2, 0), (2, 0, 3)):
        seen = observe(bad_labels, torch.empty(size, dtype=torch.int64), 3).expecting(empty, *known)
        seen.returns(torch.empty(0, len(size), dtype=torch.int64))

    test.hidden("a single label without a dimension")
    no_dims = mistake(
        "A 0-d label has no coordinates: a bad one gives shape (1, 0), a good one (0, 0).", stage=("raised", "shape")
    )
    for label in (4, 2, -100):
        seen = observe(bad_labels, torch.tensor(label), 3).expecting(no_dims, *known)
        seen.returns(torch.empty(int(label == 4), 0, dtype=torch.int64))

    test.hidden("labels that are not contiguous")
    judge(torch.tensor([[0, 7, 1], [-5, 2, 3]]).t(), 3)
    judge(torch.arange(-6, 12).reshape(3, 6)[:, ::2], 4)

    test.hidden("all labels ignored, all labels bad, a single class, an ignore_index that is num_classes")
    judge(torch.full((2, 3), -100), 3)
    judge(torch.full((2, 2), 9), 3)
    judge(torch.tensor([0, 1, 0, -100, -99]), 1)
    judge(torch.full((3,), 7), 3, ignore_index=7)
    judge(torch.tensor([[0, 6, 2], [5, 7, 6]]), 6, ignore_index=6)

    test.hidden("four dimensions, and huge labels")
    judge(torch.arange(-8, 16).reshape(2, 3, 2, 2), 12, ignore_index=-3)
    huge = torch.tensor([2**40, -(2**40), 2**32 + 1, 1])
    seen = observe(bad_labels, huge, 3).expecting(
        mistake(
            "A huge label was cut to 32 bits, where it looks like a small one: compare in int64.",
            stage="shape",
            when=lambda seen: len(seen.value) < 3,
        ),
        *known,
    )
    seen.returns(reference(huge, 3))
    for ignored in (2**24, 2**53):
        seen = observe(bad_labels, torch.tensor([ignored + 1, 1, ignored]), 3, ignore_index=ignored).expecting(
            mistake(
                "A label next to ignore_index was taken for ignore_index itself: a float format rounds large integers. "
                "Compare in int64.",
                stage="shape",
                when=lambda seen: len(seen.value) == 0,
            ),
            *known,
        )
        seen.returns(torch.tensor([[0]]))

    test.hidden("random labels")
    g = torch.Generator().manual_seed(7)
    for classes, ignored in ((6, -100), (6, -1), (5, 2), (6, 6)):
        judge(torch.randint(-2, classes + 2, (8, 2), generator=g), classes, ignored)
    ### END HIDDEN TESTS

# %% check="find-bad-labels" points=1
"""Labels that are stored as uint8 are judged by their number; other dtypes raise TypeError."""
with check("find-bad-labels") as test:

    def judge(labels, num_classes, ignored, rows):
        """Judge the positions that are found in labels of dtype uint8."""
        wraps = (
            "uint8 labels: a Python number that does not fit into uint8 wraps around in the comparison (300 becomes "
            "44, -1 becomes 255). Convert the labels to int64 before comparing."
        )
        seen = observe(bad_labels, torch.tensor(labels, dtype=torch.uint8), num_classes, ignore_index=ignored)
        seen.expecting(
            mistake(wraps, raises="overflow|converted|out of bounds for"),
            mistake("cross_entropy takes labels of dtype uint8 as well: {detail}.", stage="raised"),
            mistake(wraps, stage=("shape", "value"), when=lambda seen: max(num_classes, -ignored, ignored) > 255),
            mistake(wraps, stage=("shape", "value"), when=lambda seen: ignored < 0 and 256 + ignored in labels),
        )
        seen.returns(torch.tensor(rows, dtype=torch.int64).reshape(len(rows), 1))
        seen.leaves_arguments_alone()

    test("[0, 5, 2, -1, 3, 1, -7] with 3 classes, and ignored labels, as in the first check")
    first = observe(bad_labels, torch.tensor([0, 5, 2, -1, 3, 1, -7]), 3)
    first.returns(torch.tensor([[1], [3], [4], [6]]), FIRST_CHECK_FIRST)
    some_labels = torch.tensor([[255, 2, 0], [-1, -100, 1]])
    observe(bad_labels, some_labels, 3, 255).returns(torch.tensor([[1, 0], [1, 1]]), FIRST_CHECK_FIRST)
    observe(bad_labels, some_labels, 3, ignore_index=1).returns(
        torch.tensor([[0, 0], [1, 0], [1, 1]]), FIRST_CHECK_FIRST
    )
    observe(bad_labels, torch.tensor([2, 0, 1]), 3).returns(torch.empty(0, 1, dtype=torch.int64), FIRST_CHECK_FIRST)

    test("[0, 5, 2, 255, 3] in uint8 with 3 classes: positions 1, 3 and 4")
    judge([0, 5, 2, 255, 3], 3, -100, [[1], [3], [4]])

    ### BEGIN HIDDEN TESTS
    test.hidden("uint8 labels with 300 classes")
    judge([0, 44, 50, 255], 300, -100, [])

    test.hidden("uint8 labels, 255 against ignore_index=-1")
    judge([0, 255, 2, 1], 3, -1, [[1]])

    test.hidden("uint8 labels, 156 against ignore_index=-100")
    judge([156, 1, 2, 200], 3, -100, [[0], [3]])

    test.hidden("uint8 labels, ignore_index=255")
    judge([255, 1, 2, 200], 3, 255, [[3]])

    test.hidden("uint8 labels, ignore_index=300")
    judge([44, 1, 2], 3, 300, [[0]])

    test.hidden("uint8 labels, 256 classes")
    judge([0, 255, 128], 256, -100, [])

    test.hidden("other dtypes raise TypeError")
    for dtype in (torch.int32, torch.int16, torch.int8, torch.float32, torch.float64, torch.bool):
        observe(bad_labels, torch.tensor([0, 1, 1]).to(dtype), 3).raises(
            TypeError, because=f"cross_entropy takes int64 or uint8 class indices; {dtype} must raise TypeError."
        )
    observe(bad_labels, torch.empty(0, dtype=torch.int32), 3).raises(
        TypeError, because="cross_entropy takes int64 or uint8 class indices; empty labels of another dtype raise too."
    )
    ### END HIDDEN TESTS
