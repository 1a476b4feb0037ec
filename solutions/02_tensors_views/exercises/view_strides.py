# %% [markdown]
# ### Exercise 2.4 · The rule of view
#
# implement · solid · 25 min · 3 points
#
# `view` either finds strides for the new shape or refuses. Write the part that decides: from the shape and strides of a
# tensor and the new shape, compute the strides that `x.view(new_shape)` has.
#
# **Contract**
#
# - `view_strides(shape, stride, new_shape)` returns a tuple with one int for each dimension of `new_shape`: the strides
#   that visit the same cells in the same order. A single -1 in `new_shape` stands for the size that fits.
# - It returns `None` if the number of elements is right, but no strides give that order. (`x.view` would raise, and
#   `x.reshape` would copy.)
# - It raises `ValueError`, whatever the strides, if `new_shape` has another number of elements, two -1, a negative size
#   other than -1, or a -1 for which no size fits or every size would (next to a 0).
# - A tensor without elements can be viewed with every shape that has no elements. Shapes without dimensions are allowed
#   on both sides.
# - For a dimension of size 1, and in a tensor without elements, you may return any int, because these strides are never
#   used.
# - The arguments are tuples or lists of ints, which may be larger than any memory, and are not changed. `shape` and
#   `stride` have the same length and contain nothing negative.
#
# **Rule.** Numbers only: create no tensor and no array, not even on `meta`. The check can't see NumPy arrays, so please
# keep to the rule there.
#
# <details><summary>Hint 1</summary>
#
# Read shape and stride from the right. When does dimension d-1 simply continue dimension d, so that both together are
# one long dimension? What can you then do with that long dimension?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Count first: compute the -1, refuse a different number of elements, and return at once if there are none. Then drop
# sizes of 1 and merge: while stride[d-1] == size[d] \* stride[d], d-1 and d become one run, with the product of the
# sizes and the stride of the inner one. A view exists exactly if the new sizes, read from the right, fill run after
# run.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For each run from the right, take new sizes from the right while their product is smaller than the run's size. The
# first gets the run's stride, and each further one gets the stride before it times the size before it. If the product
# isn't exactly the run's size in the end, return None. New sizes of 1 fit anywhere, with any stride. You find the
# strides from right to left, so reverse them.
#
# </details>


# %% answer="view-strides"
def view_strides(
    shape: Sequence[int],
    stride: Sequence[int],
    new_shape: Sequence[int],
) -> tuple[int, ...] | None:
    """The strides that x.view(new_shape) has, for an x with this shape and these strides.

    None where such a view is impossible; ValueError where new_shape can't have as many elements
    as shape.
    """
    ### BEGIN SOLUTION
    count, known = math.prod(shape), math.prod(size for size in new_shape if size != -1)
    sizes = [count // known if size == -1 and known else size for size in new_shape]
    if list(new_shape).count(-1) > 1 or min(sizes, default=0) < 0 or math.prod(sizes) != count:
        raise ValueError(f"{count} elements can't have the shape {tuple(new_shape)}")
    if count == 0:
        return (0,) * len(sizes)
    runs: list[list[int]] = []  # [size, stride], from the right
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        elif size != 1:
            runs.append([size, step])
    found, left, step = [], 1, 1
    for size in reversed(sizes):
        if left == 1 and size != 1:
            left, step = runs.pop(0)
        if left % size:
            return None
        found.append(step)
        left, step = left // size, step * size
    return tuple(reversed(found))
    ### END SOLUTION


# %% helpers="view-strides"
def judge(seen, expected, because, *mistakes):
    """Judge what came: None, or a tuple of ints; `...` stands for a stride that is never walked. Then the rule."""
    seen.expecting(*mistakes)
    came = seen.value
    seen.that(came is None or isinstance(came, tuple), "Return a tuple of ints, or None.", stage="type")
    seen.that(all(type(s) is int for s in came or ()), "The strides must be Python ints.", stage="type")
    if came is not None and expected is not None:
        seen.that(len(came) == len(expected), "Return one stride for each dimension of new_shape.", stage="shape")
    if expected is None or ... not in expected:
        seen.returns(expected, because=because)  # shows what came
    seen.that(agree(came, expected), because)
    only_numbers(seen)


def agree(came, expected):
    """Whether both are None, or the strides are the same wherever one walks."""
    if came is None or expected is None:
        return came is expected
    return all(step in (s, ...) for s, step in zip(came, expected, strict=True))


def only_numbers(seen):
    """Judge the rule: no tensor was made."""
    made = ", ".join(dict.fromkeys(seen.op_names()))
    built = "You built a tensor and asked it ({detail}). Work with the numbers."
    seen.that(not made, built, stage="rule", detail=made)


merging = (
    "Two neighbours merge when one step in the outer one is as far as walking through the inner one: "
    "stride[d] == size[d+1] * stride[d+1]."
)


far = 10**20


def layouts(count, factors, steps):
    """Random shapes with strides that merge in places, each with a shape that has as many elements. Every other one has
    strides that no tensor has room for."""
    numbers = torch.randint(2**30, (count * 64,), generator=torch.Generator().manual_seed(2)).tolist()

    def grouped(parts):
        """Products of one, two or three neighbours among the parts."""
        sizes, parts = [], list(parts)
        while parts:
            several = 1 + numbers.pop() % 3
            sizes.append(math.prod(parts[:several]))
            del parts[:several]
        return sizes

    cases = []
    for _ in range(count):
        parts = [factors[numbers.pop() % len(factors)] for _ in range(1 + numbers.pop() % 6)]
        shape, stride, step = grouped(parts), [], 1 + numbers.pop() % 3
        for size in reversed(shape):
            stride.insert(0, step)
            step = steps[numbers.pop() % len(steps)](size * step)
        if numbers.pop() % 4 == 0:
            parts.reverse()
        new = grouped(parts)
        if numbers.pop() % 3 == 0:  # dimensions exchanged, as t() and permute do
            shape, stride = shape[1:] + shape[:1], stride[1:] + stride[:1]
        cases.append([shape, [step * far if len(cases) % 2 else step for step in stride], new])
    return cases


def in_torch(shape, stride, new):
    """The strides of the view that torch makes, or None; `...` where nobody walks."""
    unit = far if max(stride, default=0) >= far else 1
    try:
        view = torch.empty_strided(shape, [step // unit for step in stride], device="meta").view(new)
    except RuntimeError:
        return None
    sizes = view.shape if view.numel() else [1] * view.dim()
    return tuple(step * unit if size != 1 else ... for size, step in zip(sizes, view.stride(), strict=True))


def plain_layouts():
    """A thousand layouts with sizes of 2 and more and positive strides."""
    longer = [lambda n: n, lambda n: n, lambda n: n, lambda n: 2 * n, lambda n: n + 1, lambda n: 1]
    return layouts(1000, (2, 3, 2, 5), longer)


def of_many(view_strides, cases):
    """Ask for the strides of many random layouts."""
    return [view_strides(tuple(shape), tuple(stride), tuple(new)) for shape, stride, new in cases]


def judge_many(seen, cases):
    """Judge the answers for the random layouts by torch's."""
    for came, case in zip(seen.value, cases, strict=True):
        right = in_torch(*case)
        plain = came is None or (isinstance(came, tuple) and all(type(s) is int for s in came))
        seen.that(plain, "The answer is a tuple of Python ints, or None.", stage="type")
        seen.that(came is None or right is not None, "You gave strides where view refuses. " + merging)
        seen.that(came is not None or right is None, "You said None where there is a view.")
        same_length = came is None or len(came) == len(right)
        seen.that(same_length, "Return one stride for each dimension of new_shape.", stage="shape")
        seen.that(agree(came, right), "There is a view, but with other strides than yours.")
    only_numbers(seen)


# %% check="view-strides" points=2
"""Splitting, merging, regrouping across seams: the strides, or None."""
with check("view-strides") as test:
    test("splitting: always possible")
    exchanged = (
        "You exchanged the two parts: the inner one keeps the stride, one step in the outer one passes it whole."
    )
    fresh = (
        "These are the strides of a *fresh* tensor of that shape. The cells stay where they are: the new strides must "
        "come from the old ones."
    )
    splitting = "Size 6 with stride s can be split into (2, 3) with strides (3 * s, s)."
    observed = observe(view_strides, (6,), (1,), (2, 3))
    no_return = mistake(
        "None means that a copy would be needed, but this is a plain split. (Or is a `return` missing?)",
        when=lambda seen: seen.value is None,
    )
    judge(observed, (3, 1), splitting, no_return, mistake(exchanged, gives=(1, 2)))
    observed = observe(view_strides, (6,), (5,), (2, 3))
    not_contiguous = mistake(
        "A non-contiguous tensor can also have views: splitting a dimension is always possible, merging only "
        "needs neighbours that continue each other.",
        when=lambda seen: seen.value is None,
    )
    known = [not_contiguous, mistake(fresh, gives=(3, 1)), mistake(exchanged, gives=(5, 10))]
    judge(observed, (15, 5), splitting, *known)
    observed = observe(view_strides, (4, 6), (1, 4), (4, 2, 3))
    glued = mistake(merging + " Here 1 is not 6 * 4.", gives=(24, 12, 4))
    known = [not_contiguous, glued, mistake(fresh, gives=(6, 3, 1)), mistake(exchanged, gives=(1, 4, 8))]
    judge(observed, (1, 12, 4), splitting + " The 4 keeps its stride.", *known)

    test("merging: rows of a fresh (3, 4), every second cell of a (3, 8), the left half of a (3, 8)")
    outer = "What has merged takes steps as short as those of the inner dimension."
    judge(observe(view_strides, (3, 4), (4, 1), (12,)), (1,), merging, mistake(outer, gives=(4,)))
    known = [mistake(outer, gives=(8,)), mistake(fresh, gives=(1,))]
    judge(observe(view_strides, (3, 4), (8, 2), (12,)), (2,), merging, *known)
    refused = mistake(
        "None means that a copy would be needed. ValueError is for another number of elements, and these are as many.",
        raises="ValueError",
    )
    judge(observe(view_strides, (3, 4), (8, 1), (12,)), None, merging + " 8 is not 4 * 1: None.", refused)
    judge(observe(view_strides, (3, 4), (4, 3), (12,)), None, merging + " 4 is not 4 * 3: None.", refused)
    judge(observe(view_strides, (4, 3), (1, 4), (12,)), None, merging + " 1 is not 3 * 4: None.", refused)

    test("regrouping: across a seam that merges, and across one that doesn't")
    not_whole = mistake(
        "A new dimension need not be a whole number of old ones: (4, 6) can be seen as (2, 12) when the two merge "
        "first.",
        when=lambda seen: seen.value is None,
    )
    both = "First merge, then split. "
    judge(observe(view_strides, (4, 6), (6, 1), (2, 12)), (12, 1), both + merging, not_whole)
    judge(observe(view_strides, (4, 6), (12, 2), (8, 3)), (6, 2), both + merging, not_whole)
    judge(observe(view_strides, (4, 6), (8, 1), (2, 2, 6)), (16, 8, 1), "The 4 is split, the 6 stays.")
    judge(observe(view_strides, (4, 6), (8, 1), (8, 3)), None, merging + " 8 is not 6 * 1: None.", refused)
    judge(observe(view_strides, (2, 3, 4), (24, 4, 1), (2, 6, 2)), (24, 2, 1), both + merging, not_whole)
    judge(observe(view_strides, (2, 3, 4), (24, 4, 1), (4, 6)), None, merging + " 24 is not 3 * 4: None.", refused)

    test("strides as long as no memory is: the numbers are enough")
    asked = mistake("Numbers as large as these fit into no tensor and no array. Work with the numbers.", stage="raised")
    judge(observe(view_strides, (4, 6), (6 * 10**30, 10**30), (8, 3)), (3 * 10**30, 10**30), merging, asked)
    judge(observe(view_strides, (4, 6), (10**30, 1), (8, 3)), None, merging, asked)

    ### BEGIN HIDDEN TESTS
    test.hidden("a thousand random layouts: sizes of 2 and more, all strides positive")
    cases = plain_layouts()
    judge_many(observe_scenario(of_many, view_strides, cases), cases)
    ### END HIDDEN TESTS

# %% check="view-strides" points=1
"""The number of elements, -1, sizes of 1 and 0, stride 0, no dimensions; the arguments stay."""
with check("view-strides") as test:
    test("(4, 6) as (8, 3) and (2, 2, 6), the left half of a (3, 8), which doesn't merge, and long strides")
    judge(observe(view_strides, (4, 6), (12, 2), (8, 3)), (6, 2), merging, FIRST_CHECK_FIRST)
    judge(observe(view_strides, (4, 6), (8, 1), (2, 2, 6)), (16, 8, 1), merging, FIRST_CHECK_FIRST)
    judge(observe(view_strides, (3, 4), (8, 1), (12,)), None, merging, FIRST_CHECK_FIRST)
    judge(observe(view_strides, (4, 6), (6 * 10**30, 10**30), (8, 3)), (3 * 10**30, 10**30), merging, FIRST_CHECK_FIRST)
    judge(observe(view_strides, (4, 6), (10**30, 1), (8, 3)), None, merging, FIRST_CHECK_FIRST)

    test("another number of elements: ValueError, whether the dimensions merge or not")
    no_none = mistake(
        "A different number of elements is no question of strides: ValueError, not None.",
        when=lambda seen: seen.value is None,
    )
    for stride in [(4, 1), (8, 1)]:
        for new_shape in [(4,), (13,), (2, 5), (3, 8)]:
            seen = observe(view_strides, (3, 4), stride, new_shape)
            because = "12 elements can't have this shape: {detail}."
            seen.raises(ValueError, because=because, mistakes=[no_none])

    test("-1 is the size that fits")
    fits = "-1 stands for the size that fits: work it out from the number of elements."
    size_of_minus = mistake(fits, stage=("raised", "type", "shape", "value"))
    judge(observe(view_strides, (4, 6), (12, 2), (-1, 3)), (6, 2), fits, size_of_minus)
    judge(observe(view_strides, (4, 6), (8, 1), (2, -1, 6)), (16, 8, 1), fits, size_of_minus)
    judge(observe(view_strides, (3, 4), (8, 1), (-1,)), None, fits, size_of_minus)
    seen = observe(view_strides, (4, 6), (6, 1), (-1, 5))
    seen.raises(ValueError, because="No size fits: 24 is no multiple of 5: {detail}.")

    test("lists are as good as tuples, and stay as they are")
    seen = observe(view_strides, [4, 6], [12, 2], [-1, 3])
    judge(seen, (6, 2), "", mistake("A shape may be a list: {detail}.", stage="raised"))
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    test.hidden("the thousand layouts of the first check")
    cases = plain_layouts()
    judge_many(observe_scenario(of_many, view_strides, cases).expecting(FIRST_CHECK_FIRST), cases)

    test.hidden("sizes whose product no int64 holds")
    wide = 2**40
    walked = mistake(
        "The sizes may be larger than any memory: work with sizes and strides, don't go through the elements.",
        raises="MemoryError|OverflowError",
    )
    too_narrow = mistake(
        "The sizes may be larger than any memory. np.prod counts in int64 and overflows silently; math.prod does not.",
        stage=("raised", "value", "type"),
    )
    judge(observe(view_strides, (wide, wide), (wide, 1), (wide * wide,)), (1,), "", walked, too_narrow)
    halves = (wide * wide // 2, 1)
    judge(observe(view_strides, (wide, wide), (wide, 1), (2, wide * wide // 2)), halves, "", walked, too_narrow)

    test.hidden("sizes of 1, with strides that nobody walks")
    no_step = (
        "A dimension of size 1 is never walked; its stride may be any number and must not stop a merge, and a new size "
        "of 1 fits anywhere."
    )
    ones = mistake(no_step, stage=("raised", "type", "shape", "value"))
    for shape, stride, new_shape, expected in [
        ((3, 1, 4), (4, 99, 1), (12,), (1,)),
        ((3, 4, 1), (4, 1, 7), (2, 6), (6, 1)),
        ((1, 6), (1, 2), (6,), (2,)),
        ((3, 1, 4), (8, 4, 1), (12,), None),
        ((4, 6), (6, 1), (1, 4, 1, 2, 3, 1), (..., 6, ..., 3, 1, ...)),
        ((3, 4), (8, 1), (3, 1, 4), (8, ..., 1)),
        ((1, 1), (5, 3), (1,), (...,)),
    ]:
        judge(observe(view_strides, shape, stride, new_shape), expected, no_step, ones)

    test.hidden("expanded dimensions")
    same_rule = "Stride 0 obeys the same rule: it merges with what 0 steps continue, and splits into strides of 0."
    dividing = mistake(
        "An expanded dimension has stride 0: compare products, don't divide by a stride.", raises="ZeroDivision"
    )
    for shape, stride, new_shape, expected in [
        ((3, 4), (0, 1), (12,), None),
        ((3, 4), (1, 0), (12,), None),
        ((3, 4), (0, 0), (12,), (0,)),
        ((6,), (0,), (2, 3), (0, 0)),
        ((5, 2, 3), (0, 3, 1), (5, 6), (0, 1)),
    ]:
        judge(observe(view_strides, shape, stride, new_shape), expected, same_rule, dividing)

    test.hidden("no dimensions, on either side")
    one_element = "A shape without dimensions has one element: {detail}"
    without = mistake(one_element, stage=("raised", "shape"))
    for shape, new_shape in [((), ()), ((), (1, 1)), ((1, 1), ()), ((), (-1,))]:
        seen = observe(view_strides, shape, (3, 2)[: len(shape)], new_shape)
        judge(seen, (...,) * len(new_shape), "One element can be viewed with any number of dimensions.", without)

    test.hidden("no elements")
    nothing = "With no elements there is nothing to walk: every shape with 0 elements is a view."
    empty = [
        mistake(
            "There are 0 elements, and the sizes beside -1 have another product: so -1 stands for 0 here.",
            when=lambda seen: -1 in seen.args[2],
        ),
        mistake(nothing, stage=("raised", "type", "shape", "value")),
    ]
    for shape, stride, new_shape in [
        ((0, 3), (3, 1), (3, 0)),
        ((2, 0), (5, 7), (0,)),
        ((0,), (1,), (5, 0, 2)),
        ((3, 0, 4), (9, 8, 1), (12, 0)),
        ((0, 3), (3, 1), (-1, 3)),
        ((4, 0), (1, 1), (2, -1)),
    ]:
        judge(observe(view_strides, shape, stride, new_shape), (...,) * len(new_shape), nothing, *empty)
    because = "No elements on one side, some on the other: {detail}."
    observe(view_strides, (0, 3), (3, 1), (4,)).raises(ValueError, because=because, mistakes=[no_none])
    observe(view_strides, (4,), (1,), (0, 3)).raises(ValueError, because=because, mistakes=[no_none])

    for idea, because, pairs in [
        (
            "-1 beside a size of 0",
            "With a product of 0 beside it, -1 could be anything and is refused: {detail}.",
            [((0, 3), (0, -1)), ((0,), (-1, 0, 2)), ((6,), (-1, 0))],
        ),
        (
            "two -1",
            "At most one size may be -1: {detail}.",
            [((6,), (-1, -1)), ((1,), (-1, -1)), ((2, 3), (-1, 6, -1))],
        ),
        (
            "negative sizes",
            "No size but -1 may be negative, even if the product is right: {detail}.",
            [((6,), (-2, -3)), ((6,), (-6,)), ((6,), (-1, -6)), ((0,), (-2, 0))],
        ),
    ]:
        test.hidden(idea)
        for shape, new_shape in pairs:
            seen = observe(view_strides, shape, (1,) * len(shape), new_shape)
            seen.raises(ValueError, because=because)

    test.hidden("numbers of elements that no float holds")
    whole = "Sizes are whole numbers: use // and %, for a float holds integers up to 2**53 only."
    rounded = mistake(whole, stage=("raised", "type", "value"))
    judge(observe(view_strides, (3**35, 5), (5, 1), (-1, 5)), (5, 1), whole, walked, rounded)
    judge(observe(view_strides, (3**40,), (1,), (3**19, 3**19, 9)), (3**21, 9, 1), whole, walked, rounded)

    test.hidden("a thousand random layouts: sizes of 1 and 0, strides of 0, and -1")
    longer = [lambda n: n, lambda n: n, lambda n: n + 2, lambda n: 0]
    cases = layouts(1000, (1, 2, 3, 1, 2, 3, 2, 0), longer)
    for number, (shape, stride, new) in enumerate(cases):
        stride[:] = [step if size != 1 else number % 7 for size, step in zip(shape, stride, strict=True)]
        place = number % len(new)
        if number % 3 == 0 and math.prod(new[:place] + new[place + 1 :]):
            new[place] = -1
    judge_many(observe_scenario(of_many, view_strides, cases), cases)
    ### END HIDDEN TESTS
