# corners: none

RIGHT = {
    "lin(x)": torch.bfloat16,
    "relu(y)": torch.bfloat16,
    "y + x": torch.float32,
    "y.sum()": torch.bfloat16,
    "y.softmax(-1)": torch.bfloat16,
    "F.mse_loss(y, x)": torch.float32,
    "F.cross_entropy(y, t)": torch.float32,
    "torch.cat([y, x])": torch.float32,
    "d @ d": torch.float64,
    "x.addmm_(x, e)": torch.float32,
    "lin.weight": torch.float32,
    "lin.weight.grad": torch.float32,
}
SHORT = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}


# %% right: names of dtypes
dtypes = {name: str(dtype).removeprefix("torch.") for name, dtype in RIGHT.items()}


# %% right: names with torch., in another order
dtypes = {name: str(dtype) for name, dtype in reversed(RIGHT.items())}


# %% right: short names
dtypes = {name: SHORT[dtype] for name, dtype in RIGHT.items()}


# %% right: other names of the same dtypes
dtypes = {name: torch.float if dtype is torch.float32 else dtype for name, dtype in RIGHT.items()}
dtypes["d @ d"] = torch.double


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


# %% wrong: relu goes to float32
# says: relu is on no list: it keeps the dtype of its input, here the bfloat16 result of lin.
# earns: 0.9167 of 1
dtypes = RIGHT | {"relu(y)": torch.float32}


# %% wrong: a sum of two dtypes is the lower one
# says: A bfloat16 tensor and a float32 tensor give float32: ordinary type promotion
# earns: 0.9167 of 1
# lesson
dtypes = RIGHT | {"y + x": torch.bfloat16}


# %% wrong: mse_loss keeps its input's dtype
# says: F.mse_loss(y, x) = torch.bfloat16: mse_loss and cross_entropy are on the float32 list
# earns: 0.9167 of 1
# lesson
dtypes = RIGHT | {"F.mse_loss(y, x)": torch.bfloat16}


# %% wrong: cross_entropy keeps its input's dtype
# says: F.cross_entropy(y, t) = torch.bfloat16: mse_loss and cross_entropy are on the float32 list
# earns: 0.9167 of 1
dtypes = RIGHT | {"F.cross_entropy(y, t)": torch.bfloat16}


# %% wrong: cat takes the lower dtype
# says: cat is even on autocast's promote list
# earns: 0.9167 of 1
dtypes = RIGHT | {"torch.cat([y, x])": torch.bfloat16}


# %% wrong: float64 is cast
# says: autocast never touches float64 or integer tensors.
# earns: 0.9167 of 1
dtypes = RIGHT | {"d @ d": torch.bfloat16}


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
dtypes = RIGHT | {"lin(x)": "half", "relu(y)": "fp16"}


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
