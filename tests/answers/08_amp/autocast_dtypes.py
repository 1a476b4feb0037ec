# corners: none

RIGHT = {
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
SHORT = {torch.bfloat16: "bf16", torch.float32: "fp32"}


# %% right: names of dtypes
dtypes = {name: str(dtype).removeprefix("torch.") for name, dtype in RIGHT.items()}


# %% right: names with torch., in another order
dtypes = {name: str(dtype) for name, dtype in reversed(RIGHT.items())}


# %% right: short names
dtypes = {name: SHORT[dtype] for name, dtype in RIGHT.items()}


# %% right: other names of the same dtypes
dtypes = {name: torch.float if dtype is torch.float32 else dtype for name, dtype in RIGHT.items()}


# %% wrong: sum by the CUDA table
# says: y.sum() = torch.float32: That is the CUDA table: there sum and softmax go to float32.
# earns: 0.9167 of 1
# lesson
dtypes = RIGHT | {"y.sum()": torch.float32}


# %% wrong: softmax by the CUDA table
# says: y.softmax(-1) = torch.float32: That is the CUDA table: there sum and softmax go to float32.
# earns: 0.9167 of 1
dtypes = RIGHT | {"y.softmax(-1)": torch.float32}


# %% wrong: sum in float64
# says: On CPU sum and softmax keep the dtype of their input
# earns: 0.9167 of 1
dtypes = RIGHT | {"y.sum()": torch.float64}


# %% wrong: a Python number promotes
# says: A Python number promotes nothing within the floating-point dtypes: y + 1.0 keeps the bfloat16 of y.
# earns: 0.9167 of 1
dtypes = RIGHT | {"y + 1.0": torch.float32}


# %% wrong: a product of a float32 result stays float32
# says: y + x is float32, but a matrix product casts float32 inputs to bfloat16, whatever made them.
# earns: 0.9167 of 1
# lesson
dtypes = RIGHT | {"(y + x) @ e": torch.float32}


# %% wrong: a loss written by hand is float32
# says: Only losses such as F.mse_loss are on the float32 list, not the same formula written by hand.
# earns: 0.9167 of 1
# lesson
dtypes = RIGHT | {"(y @ e).square().mean()": torch.float32}


# %% wrong: cross_entropy keeps its input's dtype
# says: F.cross_entropy(y, t) = torch.bfloat16: cross_entropy is on the float32 list
# earns: 0.9167 of 1
dtypes = RIGHT | {"F.cross_entropy(y, t)": torch.bfloat16}


# %% wrong: cat takes the lower dtype
# says: cat is on autocast's promote list
# earns: 0.9167 of 1
dtypes = RIGHT | {"torch.cat([y, x])": torch.bfloat16}


# %% wrong: what comes from float64 is left alone
# says: d.float() is float32, so autocast casts it for the product. Only float64 is left alone.
# earns: 0.9167 of 1
dtypes = RIGHT | {"d.float() @ e": torch.float64}


# %% wrong: the in-place variant is cast
# says: Autocast leaves in-place and out= variants alone
# earns: 0.9167 of 1
dtypes = RIGHT | {"x.addmm_(x, e)": torch.bfloat16}


# %% wrong: the weight is converted
# says: lin.weight = torch.bfloat16: autocast casts copies of the weights on the way into the op
# earns: 0.9167 of 1
# lesson
dtypes = RIGHT | {"lin.weight": torch.bfloat16}


# %% wrong: the gradient of the weight is bfloat16
# says: lin.weight.grad = torch.bfloat16: autocast casts copies of the weights
# earns: 0.9167 of 1
dtypes = RIGHT | {"lin.weight.grad": torch.bfloat16}


# %% wrong: Linear stays in float32
# says: Linear is the textbook case: float32 inputs are cast to bfloat16, and the result is bfloat16.
# earns: 0.9167 of 1
dtypes = RIGHT | {"lin(x)": torch.float32}


# %% wrong: float16, as on CUDA
# says: Linear is the textbook case
# earns: 0.8333 of 1
dtypes = RIGHT | {"lin(x)": "half", "y + 1.0": "fp16"}


# %% wrong: one line left open
# says: lin.weight.grad = ...: There is no prediction yet
# earns: 0.9167 of 1
dtypes = RIGHT | {"lin.weight.grad": ...}


# %% wrong: a list in place of the dict
# says: The answer must be a dict from item names to predictions
# earns: 0 of 1
dtypes = list(RIGHT.values())


# %% wrong: everything is float16
# says: None of the items is right yet.
# earns: 0 of 1
dtypes = dict.fromkeys(RIGHT, torch.float16)
