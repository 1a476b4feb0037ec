# %% [markdown]
# ### Exercise 1.5 · Which float format can hold this tensor?
#
# implement · solid · 12 min · 2 points
#
# Before you store weights or features in 16 bits, you want to know whether they survive. `finfo` can't tell you,
# because it knows the format and not your numbers.
#
# **Contract**
#
# - Return the first of float16, bfloat16, float32, float64 (in this order) that can represent x: converting x there and
#   back changes no finite element by more than `rtol * |element|`, keeps finite elements finite, and leaves inf and nan
#   as they are.
# - So a nonzero element that becomes zero has a relative error of 1, and a zero has none. `rtol = 0` means exactly the
#   same values. Empty tensors fit float16.
# - x is float16, bfloat16, float32 or float64, of any shape, and may require grad; it is not modified. Integer, bool
#   and complex tensors raise TypeError.
#
# <details><summary>Hint 1</summary>
#
# Two things can go wrong when a number is stored in 16 bits. Which of them is float16's weakness, and which is
# bfloat16's?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Really convert the numbers there and back, then compare element by element in float64: `|back - x| <= rtol * |x|`
# where x is finite. Written as a product, it needs no division by zero.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Try the dtypes in order. For each, convert x there and back, and compare in float64. Where x is finite, two things
# must be true: the result is finite, and the inequality of hint 2 is true. Return the first dtype for which every
# element passes. float64 always does.
#
# </details>


# %% answer="smallest-float"
def smallest_float(x: Tensor, rtol: float) -> torch.dtype:
    """The first of float16, bfloat16, float32, float64 that holds every element of x within rtol.

    x: any shape, floating point; returns a dtype.
    """
    ### BEGIN SOLUTION
    if not x.is_floating_point():
        raise TypeError(f"only real floating tensors, not {x.dtype}")
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        error = (wide.to(dtype).double() - wide).abs()
        if ((error <= rtol * wide.abs()) | ~wide.isfinite()).all():
            return dtype
    return torch.float64
    ### END SOLUTION


# %% helpers="smallest-float"
def probes():
    """Numbers and tolerances, by name."""
    return {
        "[70000] at 1e-2": ([70000.0], 1e-2),
        "[65504] at 0": ([65504.0], 0.0),
        "[257] at 0": ([257.0], 0.0),
        "[1.0001] at 1e-5": ([1.0001], 1e-5),
        "[1.9999] at 1e-5": ([1.9999], 1e-5),
        "[0.1] at 1e-3": ([0.1], 1e-3),
        "[1000.3] at 1e-3": ([1000.3], 1e-3),
        "[70000, 257] at 3e-3": ([70000.0, 257.0], 3e-3),
        "[0, 0.5] at 1e-3": ([0.0, 0.5], 1e-3),
        "[1e-30] at 1e-2": ([1e-30], 1e-2),
    }


def bank(smallest_float):
    """What is returned for each of the probes."""
    return {name: smallest_float(torch.tensor(numbers), rtol) for name, (numbers, rtol) in probes().items()}


# %% check="smallest-float" points=1
"""The first format in which no element is off by more than rtol, relative to itself."""
with check("smallest-float") as test:
    formats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

    def first_that(fits, among=formats):
        """The rule that returns the first format for which fits(x, x there and back, rtol, finfo) holds."""

        def rule(x, rtol):
            for dtype in among:
                if bool(fits(x, x.to(dtype).to(x.dtype), rtol, torch.finfo(dtype))):
                    return dtype
            return torch.float64

        return rule

    def largest(x):
        """The largest magnitude of the finite elements."""
        return max([abs(v) for v in x.flatten().tolist() if math.isfinite(v)], default=0.0)

    def smallest(x):
        """The smallest magnitude of the elements that are not zero."""
        return min([abs(v) for v in x.flatten().tolist() if v != 0], default=1.0)

    by_range = "The range fits, but the precision does not: {detail}. Convert, and look at the relative error."
    by_eps = (
        "You decided by machine epsilon without looking at the numbers: overflow or exactly representable values are "
        "missed ({detail})."
    )
    by_absolute = (
        "The error must be relative to the element: 1e-3 is nothing for 1000 and everything for 0.001 ({detail})."
    )
    by_zero = "Zeros are exact in every format: the relative error 0/0 must not count as an error ({detail})."
    by_hidden_atol = (
        "A small number that becomes 0 has lost everything (relative error 1). An absolute tolerance (torch.allclose "
        "has one by default) hides it: {detail}."
    )
    by_largest = "Every element must fit; you looked at the average, or at the largest one ({detail})."
    by_inf = (
        "Infinity and nan are allowed in x and exist in every format; a finite number turning into inf is what counts "
        "({detail})."
    )
    by_sign = "An error has no sign: a number that was rounded down is off as well ({detail})."
    by_negative = (
        "The error is relative to the element's magnitude, `|element|`: there are negative elements ({detail})."
    )
    by_float32 = "You compared in too low a precision: the difference itself was rounded away ({detail})."
    strict = (
        "An error of exactly rtol · |element| is allowed, and so is an error of 0 where the element or rtol is 0: "
        "compare with <=, not with < ({detail})."
    )
    wrong_rules = [
        (strict, first_that(lambda x, back, rtol, info: ((back - x).abs() < rtol * x.abs())[x.isfinite()].all())),
        (by_sign, first_that(lambda x, back, rtol, info: (back - x <= rtol * x.abs())[x.isfinite()].all())),
        (by_negative, first_that(lambda x, back, rtol, info: ((back - x).abs() <= rtol * x)[x.isfinite()].all())),
        (by_range, first_that(lambda x, back, rtol, info: largest(x) <= info.max)),
        (by_range, first_that(lambda x, back, rtol, info: largest(x) <= info.max and smallest(x) >= info.tiny)),
        (
            by_range,
            first_that(
                lambda x, back, rtol, info: largest(x) <= info.max and smallest(x) >= info.smallest_normal / 1024
            ),
        ),
        (by_range, first_that(lambda x, back, rtol, info: (back.isfinite() == x.isfinite()).all())),
        (by_eps, first_that(lambda x, back, rtol, info: info.eps <= rtol)),
        (by_eps, first_that(lambda x, back, rtol, info: info.eps / 2 <= rtol)),
        (by_eps, first_that(lambda x, back, rtol, info: info.eps <= rtol and largest(x) <= info.max)),
        (by_absolute, first_that(lambda x, back, rtol, info: not ((back - x).abs() > rtol).any())),
        (by_absolute, first_that(lambda x, back, rtol, info: ((back - x).abs() <= rtol).all())),
        (by_hidden_atol, first_that(lambda x, back, rtol, info: torch.allclose(back, x, rtol=rtol))),
        (
            by_hidden_atol,
            first_that(lambda x, back, rtol, info: torch.allclose(back, x, rtol=rtol, equal_nan=True)),
        ),
        (by_zero, first_that(lambda x, back, rtol, info: ((back - x).abs() / x.abs() <= rtol).all())),
        (
            "A finite number that turns into inf does not fit; you left it out of the comparison ({detail}).",
            first_that(
                lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs())[back.isfinite() & x.isfinite()].all()
            ),
        ),
        (
            by_inf,
            first_that(lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs()).all()),
        ),
        (
            by_float32,
            first_that(lambda x, back, rtol, info: ((back.float() - x.float()).abs() <= rtol * x.float().abs()).all()),
        ),
        (
            "bfloat16 was skipped: the candidates are float16, bfloat16, float32, float64 in this order ({detail}).",
            first_that(
                lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs()).all(), (torch.float16, torch.float32)
            ),
        ),
        (
            "float16 comes before bfloat16 ({detail}).",
            first_that(
                lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs()).all(),
                (torch.bfloat16, torch.float16, torch.float32),
            ),
        ),
        (by_largest, first_that(lambda x, back, rtol, info: (back - x).abs().mean() <= rtol * x.abs().mean())),
        (by_largest, first_that(lambda x, back, rtol, info: (back - x).abs().max() <= rtol * x.abs().max())),
        (by_largest, first_that(lambda x, back, rtol, info: ((back - x).abs() / x.abs()).nan_to_num().mean() <= rtol)),
    ]

    no_name = mistake(
        "A torch.dtype is asked for, not its name.",
        stage="type",
        when=lambda seen: any(
            isinstance(v, str) for v in (seen.value.values() if isinstance(seen.value, dict) else [seen.value])
        ),
    )

    test("ten probes, in float32")
    observe_scenario(bank, smallest_float).returns(
        {
            "[70000] at 1e-2": torch.bfloat16,
            "[65504] at 0": torch.float16,
            "[257] at 0": torch.float16,
            "[1.0001] at 1e-5": torch.float32,
            "[1.9999] at 1e-5": torch.float32,
            "[0.1] at 1e-3": torch.float16,
            "[1000.3] at 1e-3": torch.float16,
            "[70000, 257] at 3e-3": torch.float32,
            "[0, 0.5] at 1e-3": torch.float16,
            "[1e-30] at 1e-2": torch.bfloat16,
        },
        no_name,
        *[
            mistake(
                sentence, gives={name: rule(torch.tensor(numbers), rtol) for name, (numbers, rtol) in probes().items()}
            )
            for sentence, rule in wrong_rules
        ],
        because="Another format is the first that holds this: {detail}.",
    )

    ### BEGIN HIDDEN TESTS
    known = [
        mistake("The tensor belongs to the caller: it must stay as it is.", stage="arguments"),
        *[mistake(sentence, gives=rule) for sentence, rule in wrong_rules],
    ]

    def judge(x, rtol, expected, *mistakes):
        """Judge the format for one tensor."""
        seen = observe(smallest_float, x, rtol).expecting(*mistakes, *known)
        seen.returns(expected, because="Another format is the first that holds this tensor.")
        seen.leaves_arguments_alone()

    test.hidden("the error is relative to the element")
    judge(torch.tensor([1.0031e-4]), 1e-6, torch.float32, mistake(by_absolute, gives=torch.float16))
    judge(torch.tensor([3e-9]), 1e-2, torch.bfloat16, mistake(by_hidden_atol, gives=torch.float16))
    judge(torch.tensor([3000.3, -70000.0]), 1e-2, torch.bfloat16)
    judge(torch.tensor([-1.0001]), 1e-5, torch.float32)
    judge(torch.tensor([-1000.3]), 1e-3, torch.float16)

    test.hidden("every element must fit")
    one_bad = torch.ones(1001)
    one_bad[437] = 1.001
    judge(one_bad, 1e-5, torch.float32, mistake(by_largest, gives=torch.float16))
    judge(torch.tensor([1000.0, 1.0001, 0.5]), 1e-5, torch.float32, mistake(by_largest, gives=torch.float16))
    judge(torch.tensor([[1.5, 70000.0], [0.0, 2.0]]), 1e-2, torch.bfloat16)

    test.hidden("finite numbers stay finite")
    judge(torch.tensor([3.4e38]), 1e-2, torch.float32)
    judge(torch.tensor([-3.4e38, 1.0]), 1.0, torch.float32)
    judge(torch.tensor([65520.0]), 1e-2, torch.bfloat16)
    judge(torch.tensor([65519.0]), 1e-2, torch.float16)

    test.hidden("float64 numbers")
    double = torch.float64
    last = mistake("float64 is a candidate too: float32 does not hold this tensor.", gives=torch.float32)
    nothing = mistake("float64 is a candidate too: nothing else holds this tensor. {detail}.", stage=("raised", "type"))
    judge(torch.tensor([1 + 1e-12], dtype=double), 0.0, double, mistake(by_float32, gives=torch.float16), last, nothing)
    judge(torch.tensor([1 + 1e-12], dtype=double), 1e-9, torch.float16)
    judge(torch.tensor([1 + 1e-6], dtype=double), 1e-12, double, last)
    judge(torch.tensor([1e300], dtype=double), 1e-3, double, last)
    hidden_tiny = mistake(by_hidden_atol, when=lambda seen: seen.value in (torch.float16, torch.bfloat16))
    judge(torch.tensor([1e-300], dtype=double), 1e-3, double, hidden_tiny, last)
    judge(torch.tensor([1 / 3], dtype=double), 1e-7, torch.float32)
    judge(torch.tensor([0.5, -2.0, 65504.0], dtype=double), 0.0, torch.float16)
    judge(torch.tensor([2.0**127, 1.0], dtype=double), 0.0, torch.bfloat16)

    test.hidden("float16 and bfloat16 numbers")
    subnormal = mistake(
        "float16 holds numbers far below its smallest normal one, 6.1e-5: convert and look.",
        gives=torch.bfloat16,
        when=lambda seen: seen.args[0].abs().lt(6.1e-5).any(),
    )
    subnormal_too = mistake(subnormal.sentence, gives=torch.float32, when=subnormal.when)
    asks_again = mistake(
        "A tensor that is already bfloat16 may fit float16, which comes first. Go through the list for it as "
        "for any other.",
        gives=torch.bfloat16,
    )
    judge(torch.tensor([0.1, 65504.0, 6e-8], dtype=torch.float16), 0.0, torch.float16, subnormal, subnormal_too)
    judge(torch.tensor([70000.0], dtype=torch.bfloat16), 0.0, torch.bfloat16)
    judge(torch.tensor([1.5, 1e-30], dtype=torch.bfloat16), 1e-3, torch.bfloat16)
    judge(torch.tensor([1.0078125, 0.0], dtype=torch.bfloat16), 0.0, torch.float16, asks_again)
    own_dtype = mistake(by_float32, gives=torch.float16)  # 0.00774 times x, in bfloat16, is rounded up
    judge(torch.tensor([(1 + 2**-7) * 2**-20], dtype=torch.bfloat16), 0.00774, torch.bfloat16, own_dtype)

    test.hidden("a tolerance that is just met, and just not")
    judge(torch.tensor([257.0, 70000.0]), 1 / 256, torch.bfloat16)
    judge(torch.tensor([1 + 2**-12], dtype=double), 2.0**-12, torch.float16)
    judge(torch.tensor([1 + 2**-12], dtype=double), 2.0**-13, torch.float32)

    test.hidden("an element that grows: the error counts relative to the element itself")
    converted = mistake(
        "The error was taken relative to the converted number, which is larger here. torch.allclose(a, b) and its kin "
        "measure against b: there goes x itself.",
        gives=torch.float16,
    )
    judge(torch.tensor([1.5 * 2**-25]), 0.3, torch.bfloat16, converted)

    test.hidden("a tolerance of 2: a number may become zero, but not inf")
    no_more = mistake(
        "A number that becomes 0 has a relative error of 1, and a tolerance of 2 lets it become 0.",
        gives=torch.bfloat16,
    )
    judge(torch.tensor([1e-30]), 2.0, torch.float16, no_more)
    judge(torch.tensor([70000.0]), 2.0, torch.bfloat16)
    ### END HIDDEN TESTS

# %% check="smallest-float" points=1
"""Any shape, empty ones, inf and nan in them; integers, bools and complex numbers are refused."""
with check("smallest-float") as test:

    def judge(x, rtol, expected, *mistakes):
        """Judge the format for one tensor."""
        seen = observe(smallest_float, x, rtol).expecting(
            mistake("The tensor belongs to the caller: it must stay as it is.", stage="arguments"), *mistakes
        )
        seen.returns(expected, because="Another format is the first that holds this tensor.")
        seen.leaves_arguments_alone()

    test("ten probes, in float32, as in the first check")
    observe_scenario(bank, smallest_float).returns(
        {
            "[70000] at 1e-2": torch.bfloat16,
            "[65504] at 0": torch.float16,
            "[257] at 0": torch.float16,
            "[1.0001] at 1e-5": torch.float32,
            "[1.9999] at 1e-5": torch.float32,
            "[0.1] at 1e-3": torch.float16,
            "[1000.3] at 1e-3": torch.float16,
            "[70000, 257] at 3e-3": torch.float32,
            "[0, 0.5] at 1e-3": torch.float16,
            "[1e-30] at 1e-2": torch.bfloat16,
        },
        FIRST_CHECK_FIRST,
    )

    test("two dimensions, and none")
    judge(torch.tensor([[1.5, 70000.0], [0.5, 2.0]]), 1e-2, torch.bfloat16)
    judge(torch.tensor(70000.0), 1e-2, torch.bfloat16)

    ### BEGIN HIDDEN TESTS
    test.hidden("inf and nan stay what they are")
    allowed = mistake(
        "Infinity and nan are allowed in x and exist in every format; a finite number turning into inf is what counts.",
        stage="value",
    )
    judge(torch.tensor([math.inf, 1.5, math.nan, -math.inf]), 0.0, torch.float16, allowed)
    judge(torch.tensor([math.nan]), 1e-3, torch.float16, allowed)
    judge(torch.tensor([math.inf]), 1e-3, torch.float16, allowed)
    judge(torch.tensor([math.inf, 1.0001]), 1e-5, torch.float32)
    judge(torch.tensor([math.nan, 70000.0]), 1e-2, torch.bfloat16)

    test.hidden("empty and not contiguous tensors")
    empty = mistake("An empty tensor fits float16.", stage=("raised", "value"))
    judge(torch.empty(0), 1e-3, torch.float16, empty)
    judge(torch.empty(2, 0, dtype=torch.float64), 0.0, torch.float16, empty)
    judge(torch.tensor([[1.5, 70000.0], [0.5, 3.0]]).t()[0], 0.0, torch.float16)
    judge(torch.tensor([70000.0, 1.5, 2.0, 0.5])[1::2], 0.0, torch.float16)

    test.hidden("tensors that require grad")
    tracked = mistake("x may require grad, and here it does: {detail}.", stage="raised")
    judge(torch.tensor([1000.3, 0.5]).requires_grad_(), 1e-3, torch.float16, tracked)
    judge(torch.tensor(1.0001).requires_grad_(), 1e-5, torch.float32)

    test.hidden("integer, bool and complex tensors raise TypeError")
    for dtype in (torch.int64, torch.uint8, torch.bool, torch.complex64):
        for numbers in ([1, 0], []):
            observe(smallest_float, torch.tensor(numbers, dtype=dtype), 1e-3).raises(
                TypeError, because=f"Only real floating tensors make sense here; {dtype} must raise TypeError."
            )
    ### END HIDDEN TESTS
