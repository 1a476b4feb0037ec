# corners: none
RIGHT = {
    "float": torch.ones(3, dtype=torch.float64),
    "unused": -1.0,
    "absolute": 0.0,
    "passes": None,
}


# %% right: other dtypes, ints
apart = {"float": torch.zeros(1, 2, dtype=torch.bfloat16), "unused": 0, "absolute": 0, "passes": None}


# %% right: a zero with a sign, a number, zeros of two dtypes
apart = {"passes": None, "absolute": -0.0, "unused": -1000, "float": torch.tensor(1.0).half()}


# %% right: made by other calls
apart = RIGHT | {"float": torch.linspace(-1000, 1000, 20).double().view(4, 5), "unused": 0.0}


# %% wrong: float32 already
# says: Your tensor is float32, so .float() has nothing to convert and returns the tensor itself. So w is the marked leaf in both.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"float": torch.tensor([1.0, -2.0, 3.0])}


# %% wrong: no tensor for the conversion
# says: There is a tensor that separates them: .float() is a recorded operation if it has something to convert.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"float": None}


# %% wrong: a tensor of ints
# says: Write a dense tensor of 1 to 20 numbers, of dtype float16, bfloat16, float32 or float64.
# earns: 0.75 of 1
apart = RIGHT | {"float": torch.tensor([1, 2, 3])}


# %% wrong: a sparse tensor
# says: Write a dense tensor of 1 to 20 numbers, of dtype float16, bfloat16, float32 or float64.
# earns: 0.75 of 1
apart = RIGHT | {"float": torch.ones(3, dtype=torch.float64).to_sparse()}


# %% wrong: a tensor that is marked already
# says: Write a tensor that doesn't require grad.
# earns: 0.75 of 1
apart = RIGHT | {"float": torch.ones(3, dtype=torch.float64, requires_grad=True)}


# %% wrong: too many numbers
# says: Write a tensor of 1 to 20 numbers between -1000 and 1000.
# earns: 0.75 of 1
apart = RIGHT | {"float": torch.ones(21).double()}


# %% wrong: so many numbers that the check doesn't get them
# says: Write a dense tensor of 1 to 20 numbers, of dtype float16, bfloat16, float32 or float64.
# earns: 0.75 of 1
apart = RIGHT | {"float": torch.ones(10**7, dtype=torch.float64)}


# %% wrong: an infinite number
# says: Write a tensor of 1 to 20 numbers between -1000 and 1000.
# earns: 0.75 of 1
apart = RIGHT | {"float": torch.tensor([math.inf], dtype=torch.float64)}


# %% wrong: w is used
# says: unused = 3.0: Both functions return tensor(3). In both calls w takes part in y, so the graph leads to it.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"unused": 3.0}


# %% wrong: no number for the unused weight
# says: There is a number that separates them: a leaf that the graph doesn't lead to keeps its None, and None isn't 0.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"unused": None}


# %% wrong: on the left of the corner
# says: Both functions return tensor(-1). Your number isn't 0, and there the branch that max takes has the slope of abs.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"absolute": -1e-3}


# %% wrong: no number for the absolute value
# says: There is a number that separates them: the values always agree, but the graph of max contains only the branch that it took.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"absolute": None}


# %% wrong: a nan
# says: Write a Python number between -1000 and 1000.
# earns: 0.75 of 1
apart = RIGHT | {"absolute": math.nan}


# %% wrong: a tensor for a number
# says: Write a Python number between -1000 and 1000.
# earns: 0.75 of 1
apart = RIGHT | {"unused": torch.tensor(-1.0)}


# %% wrong: a list for the passes
# says: backward adds to .grad, so the passes add up the gradients of the single losses. That is the gradient of their sum, so no input separates the two.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"passes": [100, -99, 98, 3, -100]}


# %% wrong: floats for the passes
# says: Write a list of 1 to 20 ints from -100 to 100.
# earns: 0.75 of 1
apart = RIGHT | {"passes": [0.1, 0.2]}


# %% wrong: None everywhere
# says: There is a tensor that separates them
# earns: 0.25 of 1
apart = dict.fromkeys(RIGHT)


# %% wrong: numbers in place of inputs
# says: None of the items is right yet.
# earns: 0 of 1
apart = dict.fromkeys(RIGHT, 1.0)


# %% wrong: one is left open
# says: absolute = ...: There is no input yet
# earns: 0.75 of 1
apart = RIGHT | {"absolute": ...}
