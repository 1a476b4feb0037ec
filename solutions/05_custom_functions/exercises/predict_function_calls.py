# %% [markdown]
# ### Exercise 5.1 · What does apply do with it?
#
# predict · warm-up · 10 min · 2 points
#
# Here are ten questions about this class. Its backward is wrong on purpose, 5 instead of 2, so that you can tell whose
# gradient you are looking at.
#
#     seen = {}
#
#     class Twice(torch.autograd.Function):
#         @staticmethod
#         def forward(x, k=1.0):
#             seen["grad mode"], seen["requires_grad"] = torch.is_grad_enabled(), x.requires_grad
#             return x * 2 * k
#
#         @staticmethod
#         def setup_context(ctx, inputs, output):
#             pass
#
#         @staticmethod
#         def backward(ctx, g):
#             return g.double() * 5, None
#
#     x = torch.tensor(1.0, requires_grad=True)
#
# **Contract**
#
# - Replace each `...`: with True or False for questions, a number, a dtype, or a name as a string.
# - The check runs the snippets and compares each item with their results; every right item earns a tenth of the points.
#   An item left open counts as wrong, so guess if you don't know.
#
# <details><summary>Hint 1</summary>
#
# Who calls backward, and what does autograd know about how forward computed its result?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# forward runs with recording off but sees the original tensor. Autograd trusts whatever backward returns, casts it to
# the dtype of the input, and looks only at tensors that are direct arguments.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `apply` switches recording off and passes your own x on. The gradient contains backward's 5, in the dtype of x. If you
# call forward directly, it is ordinary code with recording on, and your backward is never called. The node has the name
# of the class with "Backward" appended. `apply` accepts keywords since torch 2.13 and doesn't look into lists; the
# number of gradients is counted when backward runs.
#
# </details>

# %% answer="predict-function-calls"
### BEGIN SOLUTION
answers = {
    "grad_mode": False,  # torch.is_grad_enabled() inside forward, called through apply
    "req": True,  # x.requires_grad inside forward, called through apply
    "apply": 5.0,  # x.grad after Twice.apply(x).backward()
    "forward": 2.0,  # x.grad after Twice.forward(x).backward(); x.grad was None before
    # x.grad.dtype after Twice.apply(x).backward(), although backward returns float64
    "dtype": torch.float32,
    "node": "TwiceBackward",  # type(Twice.apply(x).grad_fn).__name__
    "keyword": torch.__version__ < (2, 13),  # does Twice.apply(x, k=3.0) raise? Not since 2.13
    "plain": False,  # Twice.apply(torch.tensor(1.0)).requires_grad
    "list": False,  # ListSum.apply([x]).requires_grad, where forward(xs) of ListSum returns sum(xs)
    # a backward returns one value, forward(x, k) got two arguments: does the backward pass raise?
    "too_few": True,
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "grad_mode": ...,  # torch.is_grad_enabled() inside forward, called through apply
#     "req": ...,  # x.requires_grad inside forward, called through apply
#     "apply": ...,  # x.grad after Twice.apply(x).backward()
#     "forward": ...,  # x.grad after Twice.forward(x).backward(); x.grad was None before
#     # x.grad.dtype after Twice.apply(x).backward(), although backward returns float64
#     "dtype": ...,
#     "node": ...,  # type(Twice.apply(x).grad_fn).__name__
#     "keyword": ...,  # does Twice.apply(x, k=3.0) raise?
#     "plain": ...,  # Twice.apply(torch.tensor(1.0)).requires_grad
#     "list": ...,  # ListSum.apply([x]).requires_grad, where forward(xs) of ListSum returns sum(xs)
#     # a backward returns one value, forward(x, k) got two arguments: does the backward pass raise?
#     "too_few": ...,
# }
### END GIVEN

# %% check="predict-function-calls" points=2
"""Each item against what its snippet really gives; every right item earns its share."""
with check("predict-function-calls") as test:
    inside = {}

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(x, k=1.0):
            inside["grad mode"], inside["requires_grad"] = torch.is_grad_enabled(), x.requires_grad
            return x * 2 * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g.double() * 5, None

    class ListSum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, xs):
            return sum(xs)

        @staticmethod
        def backward(ctx, g):
            return g

    class TooFew(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g

    def gradient_after(function):
        """The gradient of a fresh x after function(x).backward()."""
        fresh = torch.tensor(1.0, requires_grad=True)
        function(fresh).backward()
        return fresh.grad

    def does_raise(function):
        """Whether function() raises."""
        try:
            function()
        except (RuntimeError, TypeError):
            return True
        return False

    test("every item is compared with what its snippet gives")
    one = torch.tensor(1.0, requires_grad=True)
    name_of_node = type(Twice.apply(one).grad_fn).__name__
    grad_mode, req = inside["grad mode"], inside["requires_grad"]
    test.points = observe_value(answers).predicts(
        {
            "grad_mode": prediction(
                grad_mode,
                because="forward runs with grad mode off: nothing computed in it is recorded, and backward gives the "
                "gradient.",
            ),
            "req": prediction(
                req,
                because="The argument is the original tensor with its flag; only the recording is off. "
                "(To ask whether a gradient is needed use ctx.needs_input_grad.)",
            ),
            "apply": prediction(
                gradient_after(Twice.apply).item(),
                (2.0, "autograd does not check your formula: what backward returns is the gradient, 5 here."),
                (10.0, "backward replaces the derivative of forward, it is not multiplied by it."),
                because="What backward returns is the gradient, whatever forward computes.",
            ),
            "forward": prediction(
                gradient_after(Twice.forward).item(),
                (
                    5.0,
                    "Calling forward directly bypasses the Function: the multiplication is recorded as ordinary "
                    "operations, gradient 2, and your backward is never called.",
                ),
                because="forward is an ordinary function here: it is recorded, and your backward is never called.",
            ),
            "dtype": prediction(
                gradient_after(Twice.apply).dtype,
                ("float64", "The engine casts a returned gradient to the dtype of the input: float32."),
                because="The engine casts a returned gradient to the dtype of the input.",
            ),
            "node": prediction(
                name_of_node,
                ("Twice", "The node is called after the class with Backward appended."),
                (
                    "TwiceBackward0",
                    "A number at the end is what nodes of built-in operations have, such as MulBackward0; "
                    "the node of a custom Function has none.",
                ),
                because="The node is called after the class, with one word appended.",
            ),
            "keyword": prediction(
                does_raise(lambda: Twice.apply(torch.tensor(1.0, requires_grad=True), k=3.0)),
                because="Before torch 2.13, apply raised on keyword arguments; since then it takes them.",
            ),
            "plain": prediction(
                Twice.apply(torch.tensor(1.0)).requires_grad,
                because="Without a tensor input that requires grad the output does not require grad, "
                "and backward is never called.",
            ),
            "list": prediction(
                ListSum.apply([one]).requires_grad,
                because="Only tensors that are direct arguments are seen: a list hides them, "
                "the output is not tracked.",
            ),
            "too_few": prediction(
                does_raise(lambda: gradient_after(lambda x: TooFew.apply(x, 2.0))),
                because="backward must return one value per argument of forward (None for k): "
                "returning fewer raises when backward runs.",
            ),
        },
        points=2,
    )
test.points
