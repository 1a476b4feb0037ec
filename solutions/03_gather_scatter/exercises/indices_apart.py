# %% [markdown]
# ### Exercise 3.4 · Index code that nearly agrees
#
# separate · warm-up · 12 min · 2 points
#
# Wrong index code often passes its first test, because the numbers in the test hide the mistake. Here are four pairs of
# functions. For many inputs, the two functions of a pair return the same. Find an input for which they don't, or write
# `None` if there is none.
#
# ```python
# def marks_1(index):  # nested lists: up to 6 rows of up to 3 columns
#     return torch.zeros(3, 3).scatter(0, torch.tensor(index), 1.0)
#
# def marks_2(index):
#     index = torch.tensor(index)
#     return torch.zeros(3, 3).scatter_add(0, index, torch.ones(index.shape))
#
# def last_1(lengths):  # how many steps are valid in each of three rows
#     steps = torch.arange(12).reshape(3, 4)
#     return steps[torch.arange(3), torch.tensor(lengths) - 1]
#
# def last_2(lengths):
#     steps = torch.arange(12).reshape(3, 4)
#     places = torch.tensor(lengths).unsqueeze(1) - 1
#     return steps.gather(1, places.clamp(min=0)).squeeze(1)
#
# def largest_1(index, src, include_self=True):
#     index, src = torch.tensor(index), torch.tensor(src, dtype=torch.float32)
#     return torch.zeros(3).scatter_reduce(0, index, src, "amax", include_self=include_self)
#
# def largest_2(index, src):
#     return largest_1(index, src, include_self=False)
#
# def slopes_1(index, factors, write=torch.scatter):
#     src = torch.ones(len(index), requires_grad=True)
#     cells = write(torch.zeros(3), 0, torch.tensor(index), src)
#     (cells * torch.tensor(factors)).sum().backward()
#     return src.grad
#
# def slopes_2(index, factors):
#     return slopes_1(index, factors, write=torch.scatter_add)
# ```
#
# **Contract**
#
# - `apart` is a dict with the keys "marks", "last", "largest" and "slopes". If no input separates the two functions of
#   a pair, its value is `None`.
# - "marks": nested lists, 1 to 6 rows of equal length with 1 to 3 ints from 0 to 2. "last": a list of three ints from 0
#   to 4.
# - "largest": a tuple `(index, src)` of two lists of the same length. "slopes": a tuple `(index, factors)`, where
#   `factors` has three numbers. In both, `index` has 1 to 20 ints from 0 to 2, and the other list has Python numbers
#   between -1000 and 1000.
# - Two results are different if they differ by more than float32's rounding. Each pair is worth half a point.
#
# <details><summary>Hint 1</summary>
#
# For each pair, write down how each of the two functions computes one number of its result.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In which direction must two equal numbers of `index` be for their writers to meet, along dim 0? Which place do you
# read if a length is 0? When is the zero that a cell starts with its largest number? And how does the gradient of
# `src` depend on which writer won?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For "marks", repeat a number within a column. For "last", one row has no valid step. For "largest", one cell must get
# negative numbers only. And section 3.4 prints the gradients of both calls for three writers to one cell: what do they
# have in common?
#
# </details>

# %% answer="indices-apart"
### BEGIN SOLUTION
apart = {
    "marks": [[0, 1], [0, 2]],
    "last": [4, 0, 2],
    "largest": ([0, 0, 1], [-1.0, -2.0, 3.0]),
    "slopes": None,
}
### END SOLUTION
### BEGIN GIVEN
# apart = {
#     "marks": ...,  # such as [[0, 1, 2]]
#     "last": ...,  # such as [4, 1, 2]
#     "largest": ...,  # such as ([0, 0, 1], [1.0, 2.0, 3.0])
#     "slopes": ...,  # such as ([0, 2, 1], [1.0, 10.0, 100.0])
# }
### END GIVEN

# %% check="indices-apart" points=2
"""Both functions of each pair are run with your input; every right item earns its share."""
with check("indices-apart") as test:

    def marks_1(index):
        return torch.zeros(3, 3).scatter(0, torch.tensor(index), 1.0)

    def marks_2(index):
        index = torch.tensor(index)
        return torch.zeros(3, 3).scatter_add(0, index, torch.ones(index.shape))

    def last_1(lengths):
        steps = torch.arange(12).reshape(3, 4)
        return steps[torch.arange(3), torch.tensor(lengths) - 1]

    def last_2(lengths):
        steps = torch.arange(12).reshape(3, 4)
        places = torch.tensor(lengths).unsqueeze(1) - 1
        return steps.gather(1, places.clamp(min=0)).squeeze(1)

    def largest_1(index, src, include_self=True):
        index, src = torch.tensor(index), torch.tensor(src, dtype=torch.float32)
        return torch.zeros(3).scatter_reduce(0, index, src, "amax", include_self=include_self)

    def largest_2(index, src):
        return largest_1(index, src, include_self=False)

    def slopes_1(index, factors, write=torch.scatter):
        src = torch.ones(len(index), requires_grad=True)
        cells = write(torch.zeros(3), 0, torch.tensor(index), src)
        (cells * torch.tensor(factors)).sum().backward()
        return src.grad

    def slopes_2(index, factors):
        return slopes_1(index, factors, write=torch.scatter_add)

    def is_list(given, shortest, longest):
        return isinstance(given, (list, tuple)) and shortest <= len(given) <= longest

    def are_ints(given, largest):
        return all(type(one) is int and 0 <= one <= largest for one in given)

    def are_numbers(given):
        return all(type(one) in (int, float) and abs(one) <= 1000 for one in given)

    def of_marks(given):
        """What is wrong with an input for "marks", or ""."""
        rows = is_list(given, 1, 6) and all(is_list(row, 1, 3) and are_ints(row, 2) for row in given)
        if not rows or len(set(map(len, given))) > 1:
            return "Write nested lists of ints from 0 to 2, with 1 to 6 rows of the same length, 1 to 3."
        return ""

    def of_last(given):
        return "" if is_list(given, 3, 3) and are_ints(given, 4) else "Write a list of three ints from 0 to 4."

    def of_index(given):
        """What is wrong with a pair of an index and a list, or ""."""
        lists = is_list(given, 2, 2) and all(isinstance(one, (list, tuple)) for one in given)
        if not lists or not is_list(given[0], 1, 20) or not are_ints(given[0], 2):
            return "Write a tuple of two lists, and in the first of them 1 to 20 ints from 0 to 2."
        return ""

    def of_second(given):
        return "" if are_numbers(given[1]) else "Write Python numbers between -1000 and 1000 in the second list."

    def of_largest(given):
        if outside := of_index(given):
            return outside
        return of_second(given) if len(given[0]) == len(given[1]) else "The two lists must have the same length."

    def of_slopes(given):
        if outside := of_index(given):
            return outside
        return of_second(given) if len(given[1]) == 3 else "Write three factors, one for each cell."

    def unpacked(*functions):
        """The functions, each of a tuple of arguments."""
        return [lambda given, function=function: function(*given) for function in functions]

    test("both functions of each pair are run with your input")
    test.points = observe_value(apart).separates(
        {
            "marks": separation(
                marks_1,
                marks_2,
                (
                    lambda given: any(len(set(row)) < len(row) for row in given),
                    "Your index repeats a number within a row. But along dim 0 the lanes are the columns, and no "
                    "column contains a number twice, so no two writers meet.",
                ),
                contract=of_marks,
                same="Both functions return {result}. Every cell has at most one writer here, and for one writer it "
                "makes no difference whether its 1 replaces a 0 or is added to it.",
                exists="There is an index that separates them: one keeps a 1 where two writers meet, and the other "
                "adds them up.",
            ),
            "last": separation(
                last_1,
                last_2,
                contract=of_last,
                same="Both functions return {result}. Each row has a valid step here, so length - 1 is a place from 0 "
                "to 3, which means the same to indexing and to gather.",
                exists="There are lengths that separate them: what does each function read for a length of 0?",
            ),
            "largest": separation(
                *unpacked(largest_1, largest_2),
                (
                    lambda given: min(given[1]) >= 0,
                    "No number is negative here, so the zero that a cell starts with is never larger than what "
                    "arrives.",
                ),
                contract=of_largest,
                same="Both functions return {result}. Every cell that gets a negative number here also gets one that "
                "is at least 0, or the largest of its numbers is too close to 0 to show.",
                exists="There is an input that separates them: the zero that a cell starts with can be larger than "
                "all numbers that arrive.",
            ),
            "slopes": separation(
                *unpacked(slopes_1, slopes_2),
                contract=of_slopes,
                no_input="The backward of both calls gives each number the gradient of the cell that it was written "
                "to, whoever won. For scatter that is wrong where writers meet, but it is the same, so no input "
                "separates the two.",
            ),
        },
        points=2,
    )
test.points
