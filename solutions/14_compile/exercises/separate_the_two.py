# %% [markdown]
# ### Exercise 14.10 · Equal results, unequal graphs
#
# separate · solid · 12 min · 1 point
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

    def without_compiler(function, calls):
        return [torch.as_tensor(function(*call)) for call in calls]

    def contract(calls, name, one, other):
        """What is wrong with the calls of a pair, or ""."""
        if not isinstance(calls, (list, tuple)) or not all(isinstance(call, tuple) for call in calls):
            return "Write a list of tuples, each with the arguments of one call."
        if not 1 <= len(calls) <= 4:
            return "Write one call at least and four at most."
        if name == "power" and not all(type(n) is int and 0 <= n <= 50 for call in calls for n in call[1:]):
            return "n is an int from 0 to 50."
        shifts = (
            [call[1]["shift"] for call in calls if len(call) > 1 and "shift" in call[1]] if name == "option" else []
        )
        if not all(type(shift) in (int, float) for shift in shifts):
            return 'options is a dict with an int or a float under "shift".'
        if not all(call and torch.is_tensor(call[0]) and call[0].dim() == 1 for call in calls):
            return "The first argument of each call is a tensor with one dimension."
        results = zip(without_compiler(one, calls), without_compiler(other, calls), strict=True)
        if not all(a.shape == b.shape and torch.equal(a, b) for a, b in results):
            return "For one of these calls the two functions return different results without a compiler."
        return ""

    def by_graphs(name, one, other):
        """The pair, of which the results are the numbers of graphs."""
        return separation(
            lambda calls: graphs_after(one, *calls)[-1],
            lambda calls: graphs_after(other, *calls)[-1],
            contract=lambda calls: contract(calls, name, one, other),
            same="After these calls both functions have the same number of graphs, {result}. Which of the two asks for "
            "something that the other one does not need to know?",
            exists="Write a list of tuples, each with the arguments of one call.",
        )

    test("equal results, and different numbers of graphs")
    test.points = observe_value(calls).separates(
        {
            "long": by_graphs("long", long_1, long_2),
            "power": by_graphs("power", power_1, power_2),
            "option": by_graphs("option", option_1, option_2),
        },
        points=1,
    )
test.points
