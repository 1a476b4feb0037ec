# %% [markdown]
# ### Exercise 8.2 · When does autocast make a difference?
#
# separate · warm-up · 10 min · 1 point
#
# Here are four pairs of functions. For some inputs the two functions of a pair return the same result. Find an input
# for which they don't, or write `None` if there is none.
#
# ```python
# region = torch.autocast("cpu", dtype=torch.bfloat16)
#
# @region
# def product_1(a, b):  # two matrices of the same dtype
#     return a @ b
#
# def product_2(a, b):
#     return a.bfloat16() @ b.bfloat16()
#
# @region
# def loss_1(y, x):  # two tensors of the same shape, each float32 or bfloat16
#     return F.mse_loss(y, x)
#
# @region
# def loss_2(y, x):
#     return (y - x).square().mean()
#
# @region
# def sum_1(y):  # a bfloat16 tensor
#     return y.sum().float()
#
# @region
# def sum_2(y):
#     return y.float().sum()
#
# @region
# def softmax_1(y):  # a tensor with one dimension, float32 or bfloat16
#     return y.softmax(0)
#
# def softmax_2(y):
#     return y.softmax(0)
# ```
#
# **Contract**
#
# - `inputs` is a dict with the keys "product", "loss", "sum" and "softmax". Each value is a tuple of the arguments, or
#   `None` if no input separates the two functions of the pair.
# - The arguments are as the comments above say, and neither call may fail. Each tensor is dense and has 1 to 1000
#   numbers, all of them finite. Matrices contain floating-point numbers or integers.
# - Two results are different if their dtypes differ, or their values by more than float32's rounding.
# - Each pair is worth a quarter of the point.
#
# <details><summary>Hint 1</summary>
#
# For each pair, what does autocast do to a float32 input in each of the two functions? Mind that `loss_2` and `sum_2`
# run under autocast as well. Then ask the same for other dtypes.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Which dtypes does autocast leave alone? When is `y - x` a float32 tensor although `y` isn't? Which whole numbers does
# bfloat16 skip? And is softmax on one of autocast's lists for the CPU?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the product, which dtype is neither float32 nor one of the 16-bit ones? For the loss, only `mse_loss` must have a
# reason to cast, so what may `y - x` not be? For the sum, which total needs more than 8 binary digits?
#
# </details>

# %% answer="autocast-apart"
### BEGIN SOLUTION
inputs = {
    "product": (torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64)),
    "loss": (torch.tensor([1.0, 2.0]).bfloat16(), torch.tensor([0.0, 4.0]).bfloat16()),
    "sum": (torch.ones(257).bfloat16(),),
    "softmax": None,
}
### END SOLUTION
### BEGIN GIVEN
# inputs = {
#     "product": ...,  # such as (torch.ones(2, 3), torch.ones(3, 2))
#     "loss": ...,  # such as (torch.ones(4), torch.zeros(4))
#     "sum": ...,  # such as (torch.ones(4).bfloat16(),)
#     "softmax": ...,  # such as (torch.ones(4),)
# }
### END GIVEN

# %% check="autocast-apart" points=1
"""Each pair is run with its input; every right item earns its share."""
with check("autocast-apart") as test:
    region = torch.autocast("cpu", dtype=torch.bfloat16)

    @region
    def product_1(a, b):
        return a @ b

    def product_2(a, b):
        return a.bfloat16() @ b.bfloat16()

    @region
    def loss_1(y, x):
        return F.mse_loss(y, x)

    @region
    def loss_2(y, x):
        return (y - x).square().mean()

    @region
    def sum_1(y):
        return y.sum().float()

    @region
    def sum_2(y):
        return y.float().sum()

    @region
    def softmax_1(y):
        return y.softmax(0)

    def softmax_2(y):
        return y.softmax(0)

    def is_dense(one):
        return torch.is_tensor(one) and one.layout == torch.strided

    def has_wrong_form(given, number):
        """What is wrong with a tuple of so many tensors, or ""."""
        if not isinstance(given, tuple) or len(given) != number or not all(map(is_dense, given)):
            return f"Write a tuple with as many dense tensors as the functions have arguments, here {number}."
        wide = [tensor.to(torch.complex128) for tensor in given]  # float8 has no isfinite
        if not all(1 <= tensor.numel() <= 1000 and tensor.isfinite().all() for tensor in wide):
            return "Each tensor has 1 to 1000 numbers, all of them finite."
        return ""

    def of_product(given):
        if wrong := has_wrong_form(given, 2):
            return wrong
        if any(tensor.dim() != 2 or tensor.is_complex() or tensor.dtype == torch.bool for tensor in given):
            return "Both arguments are matrices of floating-point numbers or of integers."
        return "" if given[0].dtype == given[1].dtype else "The two matrices have the same dtype."

    def of_loss(given):
        if wrong := has_wrong_form(given, 2):
            return wrong
        if not {tensor.dtype for tensor in given} <= {torch.float32, torch.bfloat16}:
            return "Each of the two tensors is float32 or bfloat16."
        return "" if given[0].shape == given[1].shape else "The two tensors have the same shape."

    def of_sum(given):
        if wrong := has_wrong_form(given, 1):
            return wrong
        return "" if given[0].dtype == torch.bfloat16 else "The tensor is bfloat16."

    def of_softmax(given):
        if wrong := has_wrong_form(given, 1):
            return wrong
        right = given[0].dim() == 1 and given[0].dtype in (torch.float32, torch.bfloat16)
        return "" if right else "The tensor has one dimension, and is float32 or bfloat16."

    def unpacked(*functions):
        """The functions, each of a tuple of arguments."""
        return [lambda given, function=function: function(*given) for function in functions]

    def have(dtype):
        """Whether all tensors of an input have a dtype."""
        return lambda given: all(tensor.dtype == dtype for tensor in given)

    test("both functions of each pair are run with your input")
    test.points = observe_value(inputs).separates(
        {
            "product": separation(
                *unpacked(product_1, product_2),
                (have(torch.float32), "Autocast casts two float32 matrices to bfloat16, just as the second does."),
                contract=of_product,
                same="Autocast multiplies these in bfloat16, just as the second function does. Which dtypes does it "
                "leave alone?",
                exists="There is an input that separates the products: autocast doesn't cast every dtype.",
            ),
            "loss": separation(
                *unpacked(loss_1, loss_2),
                (have(torch.float32), "Two float32 tensors need no cast, so both losses are computed in float32."),
                contract=of_loss,
                same="One of these is float32, so y - x is also float32, and so are both losses.",
                exists="There is an input that separates the losses: only mse_loss is on the float32 list, not the "
                "same formula written by hand.",
            ),
            "sum": separation(
                *unpacked(sum_1, sum_2),
                contract=of_sum,
                same="Both functions return {result}, which bfloat16 can hold as it is. Which sum needs more than 8 "
                "significant bits?",
                exists="There is an input that separates the sums: on the CPU, sum keeps the dtype of its input and "
                "has to round the total to it.",
            ),
            "softmax": separation(
                *unpacked(softmax_1, softmax_2),
                contract=of_softmax,
                no_input="Softmax is on none of autocast's lists for the CPU, so autocast changes nothing here, "
                "whatever the dtype of the input. (On CUDA it casts to float32.)",
            ),
        },
        points=1,
    )
test.points
