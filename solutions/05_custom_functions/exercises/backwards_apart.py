# %% [markdown]
# ### Exercise 5.1 · Backwards that are nearly right
#
# separate · warm-up · 12 min · 2 points
#
# A wrong backward seldom raises, so you find it only with an input that shows the mistake. Here are four pairs of
# functions that return gradients. For many inputs, the two functions of a pair return the same. Find an input for which
# they don't, or write `None` if there is none.
#
# ```python
# class Clip(Function):
#     @staticmethod
#     def forward(x):
#         return x.clone()
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         pass
#
#     @staticmethod
#     def backward(ctx, g):
#         return g.clamp(-1, 1)
#
# def clip_1(x, factor, call=Clip.apply):  # two numbers
#     x = torch.tensor(float(x), requires_grad=True)
#     (factor * call(x)).backward()
#     return x.grad
#
# def clip_2(x, factor):
#     return clip_1(x, factor, call=Clip.forward)
#
# class Relu(Function):
#     @staticmethod
#     def forward(ctx, x, in_place):
#         ctx.save_for_backward(x)
#         ctx.in_place = in_place
#         return x.clamp(min=0)
#
#     @staticmethod
#     def backward(ctx, g):
#         (x,) = ctx.saved_tensors
#         if not ctx.in_place:
#             g = g.clone()
#         g[x <= 0] = 0
#         return g, None
#
# def residual_1(x, incoming, in_place=True):  # two lists of numbers
#     x, incoming = torch.tensor(x).float(), torch.tensor(incoming).float()
#     x.requires_grad_()
#     (x + Relu.apply(x, in_place)).backward(incoming)
#     return x.grad
#
# def residual_2(x, incoming):
#     return residual_1(x, incoming, in_place=False)
#
# class Affine(Function):
#     @staticmethod
#     def forward(ctx, x, weight, bias):
#         ctx.save_for_backward(x, weight)
#         return x * weight + bias
#
#     @staticmethod
#     def backward(ctx, g):
#         x, weight = ctx.saved_tensors
#         grad_x = grad_weight = None
#         if ctx.needs_input_grad[0]:
#             grad_x, grad_weight = g * weight, g * x
#         return grad_x, grad_weight, g
#
# def trained_1(names, call=Affine.apply):  # a list of "x", "weight" and "bias"
#     values = {"x": 2.0, "weight": 3.0, "bias": 4.0}
#     tensors = [torch.tensor(values[name], requires_grad=name in names) for name in values]
#     call(*tensors).backward()
#     return [tensor.grad for tensor in tensors]
#
# def trained_2(names):
#     return trained_1(names, call=lambda x, weight, bias: x * weight + bias)
#
# class AddBias(Function):
#     @staticmethod
#     def forward(ctx, x, bias, add_up):
#         ctx.add_up = add_up
#         return x + bias
#
#     @staticmethod
#     def backward(ctx, g):
#         return g, g.sum(0) if ctx.add_up else g, None
#
# def rows_1(incoming, add_up=True):  # rows of three numbers
#     incoming = torch.tensor(incoming).float()
#     bias = torch.zeros(3, requires_grad=True)
#     AddBias.apply(torch.zeros(incoming.shape), bias, add_up).backward(incoming)
#     return bias.grad
#
# def rows_2(incoming):
#     return rows_1(incoming, add_up=False)
# ```
#
# **Contract**
#
# - `apart` is a dict with the keys "clip", "residual", "trained" and "rows". If no input separates the two functions of
#   a pair, its value is `None`.
# - "clip": a tuple `(x, factor)` of two numbers. "residual": a tuple `(x, incoming)` of two lists of the same length,
#   with 1 to 20 numbers each. "rows": a list of 1 to 6 lists of three numbers. All of them are Python numbers between
#   -1000 and 1000.
# - "trained": a list of one to three different names out of "x", "weight" and "bias".
# - Two results are different if they differ by more than float32's rounding, or if only one of them is None. Each pair
#   is worth half a point.
#
# <details><summary>Hint 1</summary>
#
# For each pair, say which line of a backward is run in one function and not in the other, or never at all. For which
# inputs does that line change anything?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# What does the clamp of "clip" look at: `x`, or the gradient that comes in? Who else gets the tensor that `Relu` writes
# to? Which of the three arguments does `needs_input_grad[0]` belong to? And what does the engine do with a gradient
# that is larger than its tensor?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For "clip", let the incoming gradient be beyond the limit. For "residual", write zeros over a gradient that the other
# branch of the sum also needs. For "trained", freeze the argument that backward asks about, but not its neighbour. And
# the engine saves one mistake from being one.
#
# </details>

# %% answer="backwards-apart"
### BEGIN SOLUTION
apart = {
    "clip": (1.0, 5.0),
    "residual": ([1.0, -1.0], [1.0, 1.0]),
    "trained": ["weight", "bias"],
    "rows": None,
}
### END SOLUTION
### BEGIN GIVEN
# apart = {
#     "clip": ...,  # such as (1.0, 0.5)
#     "residual": ...,  # such as ([1.0, 2.0], [1.0, 10.0])
#     "trained": ...,  # such as ["x", "weight"]
#     "rows": ...,  # such as [[1.0, 2.0, 3.0]]
# }
### END GIVEN

# %% check="backwards-apart" points=2
"""Both functions of each pair are run with your input; every right item earns its share."""
with check("backwards-apart") as test:

    class Clip(Function):
        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g.clamp(-1, 1)

    def clip_1(x, factor, call=Clip.apply):
        x = torch.tensor(float(x), requires_grad=True)
        (factor * call(x)).backward()
        return x.grad

    def clip_2(x, factor):
        return clip_1(x, factor, call=Clip.forward)

    class Relu(Function):
        @staticmethod
        def forward(ctx, x, in_place):
            ctx.save_for_backward(x)
            ctx.in_place = in_place
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if not ctx.in_place:
                g = g.clone()
            g[x <= 0] = 0
            return g, None

    def residual_1(x, incoming, in_place=True):
        x, incoming = torch.tensor(x).float(), torch.tensor(incoming).float()
        x.requires_grad_()
        (x + Relu.apply(x, in_place)).backward(incoming)
        return x.grad

    def residual_2(x, incoming):
        return residual_1(x, incoming, in_place=False)

    class Affine(Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            return x * weight + bias

        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            grad_x = grad_weight = None
            if ctx.needs_input_grad[0]:
                grad_x, grad_weight = g * weight, g * x
            return grad_x, grad_weight, g

    def trained_1(names, call=Affine.apply):
        values = {"x": 2.0, "weight": 3.0, "bias": 4.0}
        tensors = [torch.tensor(values[name], requires_grad=name in names) for name in values]
        call(*tensors).backward()
        return [tensor.grad for tensor in tensors]

    def trained_2(names):
        return trained_1(names, call=lambda x, weight, bias: x * weight + bias)

    class AddBias(Function):
        @staticmethod
        def forward(ctx, x, bias, add_up):
            ctx.add_up = add_up
            return x + bias

        @staticmethod
        def backward(ctx, g):
            return g, g.sum(0) if ctx.add_up else g, None

    def rows_1(incoming, add_up=True):
        incoming = torch.tensor(incoming).float()
        bias = torch.zeros(3, requires_grad=True)
        AddBias.apply(torch.zeros(incoming.shape), bias, add_up).backward(incoming)
        return bias.grad

    def rows_2(incoming):
        return rows_1(incoming, add_up=False)

    def are_numbers(given, shortest, longest):
        """Whether an input is a list of so many numbers."""
        form = isinstance(given, (list, tuple)) and shortest <= len(given) <= longest
        return form and all(type(one) in (int, float) and abs(one) <= 1000 for one in given)

    def of_clip(given):
        """What is wrong with an input for "clip", or ""."""
        return "" if are_numbers(given, 2, 2) else "Write a tuple of two Python numbers between -1000 and 1000."

    def of_residual(given):
        form = isinstance(given, (list, tuple)) and len(given) == 2
        if not form or not all(are_numbers(one, 1, 20) for one in given):
            return "Write a tuple of two lists, each with 1 to 20 Python numbers between -1000 and 1000."
        return "" if len(given[0]) == len(given[1]) else "The two lists must have the same length."

    def of_trained(given):
        fits = isinstance(given, (list, tuple)) and 1 <= len(given) <= 3
        fits = fits and all(type(name) is str and name in ("x", "weight", "bias") for name in given)
        fits = fits and len(set(given)) == len(given)
        return "" if fits else 'Write a list of one to three different names out of "x", "weight" and "bias".'

    def of_rows(given):
        fits = isinstance(given, (list, tuple)) and 1 <= len(given) <= 6
        fits = fits and all(are_numbers(row, 3, 3) for row in given)
        return "" if fits else "Write 1 to 6 lists of three Python numbers between -1000 and 1000."

    def unpacked(*functions):
        """The functions, each of a tuple of arguments."""
        return [lambda given, function=function: function(*given) for function in functions]

    test("both functions of each pair are run with your input")
    test.points = observe_value(apart).separates(
        {
            "clip": separation(
                *unpacked(clip_1, clip_2),
                (
                    lambda given: abs(given[0]) > 1,
                    "Both functions return {result}. Here x is beyond the limit, but backward clamps the gradient that "
                    "comes in. That is factor, whatever x is.",
                ),
                contract=of_clip,
                same="Both functions return {result}. The gradient that comes in is factor, and clamping changes "
                "nothing here, or too little to show.",
                exists="There is an input that separates them: if you call forward directly, the clamp in backward "
                "never runs.",
            ),
            "residual": separation(
                *unpacked(residual_1, residual_2),
                (
                    lambda given: torch.tensor(given[0]).float().min() > 0,
                    "Every number of x is above 0 here, so backward writes no zero into the incoming gradient.",
                ),
                contract=of_residual,
                same="Both functions return {result}. The zeros that backward writes replace incoming gradients that "
                "are 0 already, or too small to show.",
                exists="There is an input that separates them: both terms of the sum get the same incoming gradient, "
                "and one of them writes zeros into it.",
            ),
            "trained": separation(
                trained_1,
                trained_2,
                (
                    lambda given: "x" in given,
                    "Here x needs a gradient, so backward computes the gradients of both x and weight.",
                ),
                contract=of_trained,
                same="Both functions return {result}. Backward skips the gradients of x and weight, but here neither "
                "of the two is trained.",
                exists="There is a list that separates them: whether backward computes the gradient of weight "
                "shouldn't depend on x.",
            ),
            "rows": separation(
                rows_1,
                rows_2,
                contract=of_rows,
                no_input="If a gradient is too large, the engine sums it over the dimensions in which its tensor was "
                "broadcast. So both functions add up the rows, and no input separates them.",
            ),
        },
        points=2,
    )
test.points
