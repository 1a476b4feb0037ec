# %% [markdown]
# ### Exercise 8.2 · Which dtype comes out?
#
# predict · warm-up · 10 min · 1 point
#
# Here is a small program under CPU autocast, and twelve expressions in it. Which dtype does each of them have? Answer
# before you run it.
#
#     lin, x, e = nn.Linear(4, 4), torch.randn(4, 4), torch.eye(4)
#     d = x.double()
#     t = torch.arange(4)
#     with torch.autocast("cpu", dtype=torch.bfloat16):
#         y = lin(x)
#         ...  # here: the first ten expressions
#     F.mse_loss(y.float(), x).backward()
#     ...  # here: lin.weight and its gradient
#
# **Contract**
#
# - Replace each `...` with a dtype, such as `torch.bfloat16`, or with its name, such as `"bfloat16"` or `"bf16"`.
# - The check runs the program and compares; every right item earns a twelfth of the point.
#
# <details><summary>Hint 1</summary>
#
# Is the operation on a list of autocast (lower precision, or float32), or does it simply keep the dtype of its input?
# And are you thinking of the CPU table?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sort the twelve first. Which is a matrix product of float32 numbers, which is a loss, which mixes two dtypes, which
# writes into an existing tensor, and which is no result of an operation at all?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Lower precision: matrix products of float32 inputs. Float32 on the CPU: most losses and `prod`, but not `sum` or
# `softmax`. Everything else keeps or promotes, and a Python number promotes nothing; in-place operations and float64
# are left alone; parameters and their gradients stay float32.
#
# </details>

# %% answer="autocast-dtypes"
### BEGIN SOLUTION
dtypes = {
    "lin(x)": torch.bfloat16,
    "y + 1.0": torch.bfloat16,
    "(y + x) @ e": torch.bfloat16,
    "y.sum()": torch.bfloat16,
    "y.softmax(-1)": torch.bfloat16,
    "(y @ e).square().mean()": torch.bfloat16,
    "F.cross_entropy(y, t)": torch.float32,
    "torch.cat([y, x])": torch.float32,
    "d.float() @ e": torch.bfloat16,
    "x.addmm_(x, e)": torch.float32,
    "lin.weight": torch.float32,
    "lin.weight.grad": torch.float32,
}
### END SOLUTION
### BEGIN GIVEN
# dtypes = {
#     "lin(x)": ...,
#     "y + 1.0": ...,
#     "(y + x) @ e": ...,
#     "y.sum()": ...,
#     "y.softmax(-1)": ...,
#     "(y @ e).square().mean()": ...,
#     "F.cross_entropy(y, t)": ...,
#     "torch.cat([y, x])": ...,
#     "d.float() @ e": ...,
#     "x.addmm_(x, e)": ...,
#     "lin.weight": ...,
#     "lin.weight.grad": ...,
# }
### END GIVEN

# %% check="autocast-dtypes" points=1
"""Each item against what the program really gives; every right item earns its share."""
with check("autocast-dtypes") as test:
    test("every item is compared with what the program gives")
    lin, x, e = nn.Linear(4, 4), torch.randn(4, 4), torch.eye(4)
    d, t = x.double(), torch.arange(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = lin(x)
        came = {
            "lin(x)": y,
            "y + 1.0": y + 1.0,
            "(y + x) @ e": (y + x) @ e,
            "y.sum()": y.sum(),
            "y.softmax(-1)": y.softmax(-1),
            "(y @ e).square().mean()": (y @ e).square().mean(),
            "F.cross_entropy(y, t)": F.cross_entropy(y, t),
            "torch.cat([y, x])": torch.cat([y, x]),
            "d.float() @ e": d.float() @ e,
            "x.addmm_(x, e)": x.clone().addmm_(x, e),
        }
    F.mse_loss(y.float(), x).backward()
    came |= {"lin.weight": lin.weight, "lin.weight.grad": lin.weight.grad}

    linear = "Linear is the textbook case: float32 inputs are cast to bfloat16, and the result is bfloat16."
    keeps = "A Python number promotes nothing within the floating-point dtypes: y + 1.0 keeps the bfloat16 of y."
    promotes = "A bfloat16 tensor and a float32 tensor give float32: cat is on autocast's promote list."
    cuda_table = (
        "That is the CUDA table: there sum and softmax go to float32. On CPU they keep the dtype of their input."
    )
    keeps_input = "On CPU sum and softmax keep the dtype of their input, here the bfloat16 result of lin."
    losses = "cross_entropy is on the float32 list, so that the loss keeps range and precision."
    weights = (
        "autocast casts copies of the weights on the way into the op; the parameter and its gradient stay float32."
    )
    sentences = {
        "lin(x)": linear,
        "y + 1.0": keeps,
        "(y + x) @ e": "y + x is float32, but a matrix product casts float32 inputs to bfloat16, whatever made them.",
        "y.sum()": keeps_input,
        "y.softmax(-1)": keeps_input,
        "(y @ e).square().mean()": (
            "square and mean keep the bfloat16 of the product. Only losses such as F.mse_loss are on the float32 list, "
            "not the same formula written by hand."
        ),
        "F.cross_entropy(y, t)": losses,
        "torch.cat([y, x])": promotes,
        "d.float() @ e": "d.float() is float32, so autocast casts it for the product. Only float64 is left alone.",
        "x.addmm_(x, e)": "Autocast leaves in-place and out= variants alone: they write into an existing tensor.",
        "lin.weight": weights,
        "lin.weight.grad": weights,
    }
    known = {"y.sum()": [(torch.float32, cuda_table)], "y.softmax(-1)": [(torch.float32, cuda_table)]}
    short = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
    short |= {"half": "float16", "float": "float32", "double": "float64"}

    def in_full(given):
        """The full name of a dtype that was written as a string; anything else as it is."""
        if not isinstance(given, str):
            return given
        given = given.strip().removeprefix("torch.")
        return short.get(given, given)

    seen = observe_value(dtypes)
    if isinstance(seen.noted.result, dict):
        seen.noted.result.update({name: in_full(given) for name, given in seen.noted.result.items()})
    test.points = seen.predicts(
        {
            name: prediction(tensor.dtype, *known.get(name, []), because=sentences[name])
            for name, tensor in came.items()
        },
        points=1,
    )
test.points
