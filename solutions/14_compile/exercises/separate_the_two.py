# %% [markdown]
# ### Exercise 14.10 · Equal results, unequal graphs
#
# implement · solid · 12 min · 1 point
#
# Here are three pairs of functions. Without a compiler, the two of a pair return equal results for all arguments that
# both take. Find calls after which they have different numbers of graphs.
#
# ```python
# def long_1(x):  # x has the shape (N,)
#     return x.flip(0) if x.shape[0] > 8 else x.flip(-1)
#
# def long_2(x):
#     return x.flip(0)
#
# def power_1(x, n):  # n is an int from 0 to 50, x holds whole numbers
#     return x * n
#
# def power_2(x, n):
#     total = torch.zeros_like(x)
#     for _ in range(n):
#         total = total + x
#     return total
#
# def option_1(x, options):  # options is a dict with a number under "shift"
#     return x + options["shift"]
#
# def option_2(x, options):
#     return x + sum(v for k, v in options.items() if k == "shift")
# ```
#
# **Contract**
#
# - `calls` is a dict with the keys "long", "power" and "option". Each value is a list of one to four calls, and a call
#   is a tuple of arguments.
# - Both functions of a pair are compiled with default settings from an empty cache and called with these arguments, one
#   call after the other. At the end the two have different numbers of graphs.
# - Without a compiler, both functions return equal results for each of these calls. `x` is a tensor with one dimension,
#   `n` is an int from 0 to 50, and under "shift" there is an int or a float.
# - Each pair earns a third of the point.
#
# <details><summary>Hint 1</summary>
#
# Which value does one of the two functions read that the other one does not?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A branch on a size, a loop over an int, all keys of a dict.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the first two pairs, three calls are enough. After two calls, one function has a graph that fits every third call,
# and the other one has a condition that the third call fails. For the options, two calls will do.
#
# </details>

# %% answer="separate-the-two"
### BEGIN SOLUTION
calls = {
    "long": [(torch.ones(4),), (torch.ones(5),), (torch.ones(9),)],
    "power": [(torch.ones(2), 2), (torch.ones(2), 3), (torch.ones(2), 4)],
    "option": [(torch.ones(2), {"shift": 1.0}), (torch.ones(2), {"shift": 1.0, "other": 2.0})],
}
### END SOLUTION
### BEGIN GIVEN
# calls = {
#     "long": ...,  # such as [(torch.ones(4),), (torch.ones(5),)]
#     "power": ...,  # such as [(torch.ones(2), 2), (torch.ones(2), 3)]
#     "option": ...,  # such as [(torch.ones(2), {"shift": 1.0}), (torch.ones(2), {"shift": 1.0})]
# }
### END GIVEN

# %% check="separate-the-two" points=1
"""Equal results without a compiler, different numbers of graphs with one; a third of the point each."""
with check("separate-the-two") as test:

    def long_1(x):
        return x.flip(0) if x.shape[0] > 8 else x.flip(-1)

    def long_2(x):
        return x.flip(0)

    def power_1(x, n):
        return x * n

    def power_2(x, n):
        total = torch.zeros_like(x)
        for _ in range(n):
            total = total + x
        return total

    def option_1(x, options):
        return x + options["shift"]

    def option_2(x, options):
        return x + sum(v for k, v in options.items() if k == "shift")

    PAIRS = {"long": (long_1, long_2), "power": (power_1, power_2), "option": (option_1, option_2)}

    def in_words(name, of_pair):
        """What is wrong with the calls of a pair, or None."""
        one, other = PAIRS[name]
        if not isinstance(of_pair, (list, tuple)) or not all(isinstance(call, tuple) for call in of_pair):
            return "Write a list of tuples, each with the arguments of one call."
        if not 1 <= len(of_pair) <= 4:
            return "Write one call at least and four at most."
        if name == "power" and not all(type(n) is int and 0 <= n <= 50 for call in of_pair for n in call[1:]):
            return "n is an int from 0 to 50."
        shifts = (
            [call[1]["shift"] for call in of_pair if len(call) > 1 and "shift" in call[1]] if name == "option" else []
        )
        if not all(type(shift) in (int, float) for shift in shifts):
            return 'options is a dict with an int or a float under "shift".'
        if not all(call and torch.is_tensor(call[0]) and call[0].dim() == 1 for call in of_pair):
            return "The first argument of each call is a tensor with one dimension."
        try:
            results = [[torch.as_tensor(function(*call)) for call in of_pair] for function in (one, other)]
            counts = [graphs_after(function, *of_pair)[-1] for function in (one, other)]
        except Exception as error:
            return f"A call fails ({type(error).__name__}: {error})."
        if any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(*results, strict=True)):
            return "For one of these calls the two functions return different results without a compiler."
        if counts[0] == counts[1]:
            return (
                f"After these calls both functions have the same number of graphs, {counts[0]}. Which of the two "
                "asks for something that the other one does not need to know?"
            )
        return None

    test("equal results, and different numbers of graphs")
    seen = observe_value(calls)
    given = seen.value if isinstance(seen.value, dict) else {}
    wrong = {name: in_words(name, given[name]) for name in PAIRS if given.get(name, ...) is not ...}
    test.points = seen.predicts(
        {
            name: prediction(given[name])
            if wrong.get(name, "") is None
            else prediction("", because=wrong.get(name, ""))
            for name in PAIRS
        },
        points=1,
    )
test.points
