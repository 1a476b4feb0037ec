# %% [markdown]
# ### Exercise 4.1 · Gradients that nearly agree
#
# separate · warm-up · 10 min · 1 point
#
# Two pieces of code can compute the same values and yet leave different gradients behind. Here are four pairs of
# functions. For many inputs, the two functions of a pair return the same. Find an input for which they don't, or write
# `None` if there is none.
#
# ```python
# def float_1(x):  # a tensor
#     w = x.clone().requires_grad_().float()
#     (w * w).sum().backward()
#     return w.grad
#
# def float_2(x):
#     w = x.clone().float().requires_grad_()
#     (w * w).sum().backward()
#     return w.grad
#
# def unused_1(x):  # a number
#     w, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
#     y = w * x + b if x > 0 else b
#     y.backward()
#     return w.grad
#
# def unused_2(x):
#     w, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
#     y = w * max(x, 0.0) + b
#     y.backward()
#     return w.grad
#
# def absolute_1(x):  # a number
#     w = torch.tensor(float(x), requires_grad=True)
#     max(w, -w).backward()  # Python's max
#     return w.grad
#
# def absolute_2(x):
#     w = torch.tensor(float(x), requires_grad=True)
#     w.abs().backward()
#     return w.grad
#
# def passes_1(xs):  # a list of ints
#     w = torch.tensor(1.0, requires_grad=True)
#     for x in xs:
#         ((w * x - 1) ** 2).backward()
#     return w.grad
#
# def passes_2(xs):
#     w = torch.tensor(1.0, requires_grad=True)
#     sum((w * x - 1) ** 2 for x in xs).backward()
#     return w.grad
# ```
#
# **Contract**
#
# - `apart` is a dict with the keys "float", "unused", "absolute" and "passes". If no input separates the two functions
#   of a pair, its value is `None`.
# - "float": a tensor of 1 to 20 numbers between -1000 and 1000, of dtype float16, bfloat16, float32 or float64, which
#   doesn't require grad. "unused" and "absolute": a Python number between -1000 and 1000. "passes": a list of 1 to 20
#   ints from -100 to 100.
# - Two results are different if they differ by more than float32's rounding, or if only one of them is None. Each pair
#   is worth a quarter of the point.
#
# <details><summary>Hint 1</summary>
#
# For each function, draw the graph that the call records. Which leaves does it lead to, and is `w` one of them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# When is `.float()` a recorded operation? What is the `.grad` of a leaf that backward never reaches? Which branch does
# `max` take if both are equally large? And what does backward do with a `.grad` that is already there?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For "float", give `.float()` something to convert. For "unused", take a number for which the graph doesn't lead to
# `w`. For "absolute", abs has a corner. And the gradient of a sum is the sum of the gradients.
#
# </details>

# %% answer="gradients-apart"
### BEGIN SOLUTION
apart = {
    "float": torch.ones(3, dtype=torch.float64),
    "unused": -1.0,
    "absolute": 0.0,
    "passes": None,
}
### END SOLUTION
### BEGIN GIVEN
# apart = {
#     "float": ...,  # such as torch.ones(3)
#     "unused": ...,  # such as 2.0
#     "absolute": ...,  # such as 2.0
#     "passes": ...,  # such as [1, 2]
# }
### END GIVEN

# %% check="gradients-apart" points=1
"""Both functions of each pair are run with your input; every right item earns its share."""
with check("gradients-apart") as test:

    def float_1(x):
        w = x.clone().requires_grad_().float()
        (w * w).sum().backward()
        with warnings.catch_warnings():  # that w is no leaf
            warnings.simplefilter("ignore")
            return w.grad

    def float_2(x):
        w = x.clone().float().requires_grad_()
        (w * w).sum().backward()
        return w.grad

    def unused_1(x):
        w, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
        y = w * x + b if x > 0 else b
        y.backward()
        return w.grad

    def unused_2(x):
        w, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
        y = w * max(x, 0.0) + b
        y.backward()
        return w.grad

    def absolute_1(x):
        w = torch.tensor(float(x), requires_grad=True)
        max(w, -w).backward()
        return w.grad

    def absolute_2(x):
        w = torch.tensor(float(x), requires_grad=True)
        w.abs().backward()
        return w.grad

    def passes_1(xs):
        w = torch.tensor(1.0, requires_grad=True)
        for x in xs:
            ((w * x - 1) ** 2).backward()
        return w.grad

    def passes_2(xs):
        w = torch.tensor(1.0, requires_grad=True)
        sum((w * x - 1) ** 2 for x in xs).backward()
        return w.grad

    def of_float(given):
        """What is wrong with an input for "float", or ""."""
        dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if not torch.is_tensor(given) or given.dtype not in dtypes or given.layout != torch.strided:
            return "Write a dense tensor of 1 to 20 numbers, of dtype float16, bfloat16, float32 or float64."
        if given.requires_grad:
            return "Write a tensor that doesn't require grad."
        if not 1 <= given.numel() <= 20 or not given.abs().le(1000).all():
            return "Write a tensor of 1 to 20 numbers between -1000 and 1000."
        return ""

    def of_number(given):
        fits = type(given) in (int, float) and abs(given) <= 1000
        return "" if fits else "Write a Python number between -1000 and 1000."

    def of_passes(given):
        fits = isinstance(given, (list, tuple)) and 1 <= len(given) <= 20
        fits = fits and all(type(x) is int and abs(x) <= 100 for x in given)
        return "" if fits else "Write a list of 1 to 20 ints from -100 to 100."

    test("both functions of each pair are run with your input")
    test.points = observe_value(apart).separates(
        {
            "float": separation(
                float_1,
                float_2,
                contract=of_float,
                same="Both functions return {result}. Your tensor is float32, so .float() has nothing to convert and "
                "returns the tensor itself. So w is the marked leaf in both.",
                exists="There is a tensor that separates them: .float() is a recorded operation if it has something "
                "to convert.",
            ),
            "unused": separation(
                unused_1,
                unused_2,
                contract=of_number,
                same="Both functions return {result}. In both calls w takes part in y, so the graph leads to it.",
                exists="There is a number that separates them: a leaf that the graph doesn't lead to keeps its None, "
                "and None isn't 0.",
            ),
            "absolute": separation(
                absolute_1,
                absolute_2,
                contract=of_number,
                same="Both functions return {result}. Your number isn't 0, and there the branch that max takes has "
                "the slope of abs.",
                exists="There is a number that separates them: the values always agree, but the graph of max contains "
                "only the branch that it took.",
            ),
            "passes": separation(
                passes_1,
                passes_2,
                contract=of_passes,
                no_input="backward adds to .grad, so the passes add up the gradients of the single losses. That is "
                "the gradient of their sum, so no input separates the two.",
            ),
        },
        points=1,
    )
test.points
