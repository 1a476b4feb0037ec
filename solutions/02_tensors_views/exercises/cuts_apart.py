# %% [markdown]
# ### Exercise 2.10 · Cuts that are nearly the same
#
# separate · warm-up · 8 min · 1 point
#
# Tensors are cut into parts for attention heads or for several devices, and a cut that isn't the one you meant often
# raises no error. Here are four pairs of functions. For many inputs the two functions of a pair return the same result.
# Find an input for which they don't, or write `None` if there is none.
#
# ```python
# def sizes_1(length, n):
#     return [len(part) for part in torch.arange(length).chunk(n)]
#
# def sizes_2(length, n):
#     return [len(part) for part in torch.arange(length).tensor_split(n)]
#
# def count_1(length, n):
#     return len(torch.arange(length).chunk(n))
#
# def count_2(length, n):
#     return n
#
# def ceil_1(length, n):
#     return [len(part) for part in torch.arange(length).chunk(n)]
#
# def ceil_2(length, n):
#     return [len(part) for part in torch.arange(length).split(math.ceil(length / n))]
#
# def whole_1(length, a, b):
#     return torch.cat(torch.arange(length).tensor_split([a, b])).tolist()
#
# def whole_2(length, a, b):
#     return list(range(length))
# ```
#
# **Contract**
#
# - `inputs` is a dict with the keys "sizes", "count", "ceil" and "whole". Each value is a tuple of the arguments, or
#   `None` if no input separates the two functions of the pair.
# - All arguments are ints. `length` is from 1 to 100, `n` from 1 to `length`, and `a` and `b` are from -200 to 200.
# - Each pair is worth a quarter of the point.
#
# <details><summary>Hint 1</summary>
#
# For each call, is the number a size, a count, or a position to cut at?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `chunk(n)` divides the length by n, rounds up, and cuts parts of that size until nothing is left. How far can this be
# from n parts that are as equal as possible? With two positions, `tensor_split` returns `v[:a]`, `v[a:b]` and `v[b:]`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the sizes, n parts of the rounded-up size must hold at least two elements more than there are. For the count, they
# must hold so many that nothing is left for the last part. What does `tensor_split` return if `a` doesn't come before
# `b`? And one pair says the same in two ways.
#
# </details>

# %% answer="cuts-apart"
### BEGIN SOLUTION
inputs = {
    "sizes": (10, 4),
    "count": (10, 6),
    "ceil": None,
    "whole": (10, 7, 3),
}
### END SOLUTION
### BEGIN GIVEN
# inputs = {
#     "sizes": ...,  # such as (10, 2)
#     "count": ...,  # such as (10, 2)
#     "ceil": ...,  # such as (10, 2)
#     "whole": ...,  # such as (10, 3, 7)
# }
### END GIVEN

# %% check="cuts-apart" points=1
"""Both functions of each pair are run with your input; every right item earns its share."""
with check("cuts-apart") as test:

    def sizes_1(length, n):
        return [len(part) for part in torch.arange(length).chunk(n)]

    def sizes_2(length, n):
        return [len(part) for part in torch.arange(length).tensor_split(n)]

    def count_1(length, n):
        return len(torch.arange(length).chunk(n))

    def count_2(length, n):
        return n

    def ceil_1(length, n):
        return [len(part) for part in torch.arange(length).chunk(n)]

    def ceil_2(length, n):
        return [len(part) for part in torch.arange(length).split(-(-length // n))]

    def whole_1(length, a, b):
        return torch.cat(torch.arange(length).tensor_split([a, b])).tolist()

    def whole_2(length, a, b):
        return list(range(length))

    def ints_in(given, number):
        """Whether an input is a tuple of so many ints, the first of which is a length."""
        form = isinstance(given, (tuple, list)) and len(given) == number and all(type(one) is int for one in given)
        return form and 1 <= given[0] <= 100

    def of_count(given):
        """What is wrong with a length and a count, or ""."""
        if not ints_in(given, 2):
            return "Write a tuple of two ints, the length (from 1 to 100) and n."
        return "" if 1 <= given[1] <= given[0] else "n is an int from 1 to the length."

    def of_places(given):
        if not ints_in(given, 3):
            return "Write a tuple of three ints, the length (from 1 to 100), a and b."
        return "" if max(map(abs, given)) <= 200 else "a and b are from -200 to 200."

    def unpacked(*functions):
        """The functions, each of a tuple of arguments."""
        return [lambda given, function=function: function(*given) for function in functions]

    divides = (
        lambda given: given[0] % given[1] == 0,
        "Here n divides the length, so chunk makes n equal parts, as tensor_split does.",
    )
    test("both functions of each pair are run with your input")
    test.points = observe_value(inputs).separates(
        {
            "sizes": separation(
                *unpacked(sizes_1, sizes_2),
                divides,
                contract=of_count,
                same="Both cut parts of these sizes: {result}. With chunk, all that is missing is missing from the "
                "last parts. Here that is one element, and tensor_split's last part is shorter by one, too.",
                exists="There is an input that separates the sizes: tensor_split makes parts that differ by one "
                "element at most, and chunk doesn't.",
            ),
            "count": separation(
                *unpacked(count_1, count_2),
                divides,
                contract=of_count,
                same="chunk makes {result} parts here, as many as asked for: parts of ceil(length / n) elements leave "
                "something for the last one. When don't they?",
                exists="There is an input that separates the counts: chunk cuts parts of ceil(length / n) elements "
                "until nothing is left, and may need fewer than n.",
            ),
            "ceil": separation(
                *unpacked(ceil_1, ceil_2),
                contract=of_count,
                no_input="chunk(n) cuts parts of ceil(length / n) elements, and split is given just that size. So no "
                "input separates them.",
            ),
            "whole": separation(
                *unpacked(whole_1, whole_2),
                contract=of_places,
                same="The parts make up the whole here. Each begins where the one before it ends, because the second "
                "place isn't before the first. (A place beyond an end counts as that end.)",
                exists="There is an input that separates them: the parts are the slices v[:a], v[a:b] and v[b:], "
                "wherever the two places are.",
            ),
        },
        points=1,
    )
test.points
