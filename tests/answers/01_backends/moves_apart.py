# corners: none
import torch

RIGHT = {"move": torch.ones(2), "label": ("cuda", "cuda:0"), "absent": None, "literal": 1.5, "digits": 257}


# %% right: a view, the CPU's index, a list, a large number
inputs = {
    "move": torch.arange(6.0).reshape(2, 3).t(),
    "label": ["cpu:0", "cpu"],
    "absent": None,
    "literal": [1, 2.0],
    "digits": 999,
}


# %% right: one element, two indices, infinity
inputs = {
    "digits": 513,
    "literal": float("inf"),
    "absent": None,
    "label": ("cuda:1", "cuda:3"),
    "move": torch.tensor(-3.0),
}


# %% wrong: a tensor of integers
# says: This tensor isn't float32, so `.to` makes a new one in both functions, and x stays as it was.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"move": torch.tensor([1, 2])}


# %% wrong: float64
# says: This tensor isn't float32, so `.to` makes a new one in both functions
# earns: 1.6 of 2
inputs = RIGHT | {"move": torch.ones(2, dtype=torch.float64)}


# %% wrong: zeros
# says: x contains only zeros here, so zero_() changes nothing, wherever it writes.
# earns: 1.6 of 2
inputs = RIGHT | {"move": torch.zeros(3)}


# %% wrong: no tensor separates the moves
# says: There is an input that separates them: `.to` returns the tensor itself if nothing has to change.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"move": None}


# %% wrong: a list for a tensor
# says: Write a dense tensor on the CPU with 1 to 100 elements, which doesn't require grad.
# earns: 1.6 of 2
inputs = RIGHT | {"move": [1.0, 2.0]}


# %% wrong: a leaf that needs a gradient
# says: Write a dense tensor on the CPU with 1 to 100 elements, which doesn't require grad.
# earns: 1.6 of 2
inputs = RIGHT | {"move": torch.ones(2, requires_grad=True)}


# %% wrong: two types
# says: The types of these two labels differ, so both functions return False.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"label": ("cpu", "cuda")}


# %% wrong: the same label twice
# says: These two labels have the same type and the same index, so both functions return True.
# earns: 1.6 of 2
inputs = RIGHT | {"label": ("cuda:0", "cuda:0")}


# %% wrong: no labels separate them
# says: There is an input that separates them: labels are equal only if their indices are, and an index that is left out is none.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"label": None}


# %% wrong: no such type
# says: A call fails (RuntimeError
# earns: 1.6 of 2
inputs = RIGHT | {"label": ("gpu", "gpu:0")}


# %% wrong: devices in place of texts
# says: Write a tuple of two texts, such as ('cpu', 'meta').
# earns: 1.6 of 2
inputs = RIGHT | {"label": (torch.device("cuda"), torch.device("cuda:0"))}


# %% wrong: a GPU that isn't there
# says: A device is only a label. Building it asks no driver, so no number is refused here.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"absent": 7}


# %% wrong: a number above 100
# says: Write an int from 0 to 100.
# earns: 1.6 of 2
inputs = RIGHT | {"absent": 300}


# %% wrong: whole numbers
# says: Both return tensor([1, 2]). The default dtype is only for floating-point numbers.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"literal": [1, 2]}


# %% wrong: no number separates the literals
# says: There is an input that separates them: Python floats get the default dtype.
# earns: 1.6 of 2
inputs = RIGHT | {"literal": None}


# %% wrong: a text
# says: Write an int, a float, True or False, or a list of 1 to 10 of them.
# earns: 1.6 of 2
inputs = RIGHT | {"literal": "1.5"}


# %% wrong: a number of few digits
# says: bfloat16 contains 512.0, because this number has no more than 8 significant bits.
# earns: 1.6 of 2
# lesson
inputs = RIGHT | {"digits": 512}


# %% wrong: an even number with 8 digits
# says: bfloat16 contains 510.0
# earns: 1.6 of 2
inputs = RIGHT | {"digits": 510}


# %% wrong: no number has too many digits
# says: There is such a number: bfloat16 keeps 8 significant bits, so it skips whole numbers above 256.
# earns: 1.6 of 2
inputs = RIGHT | {"digits": None}


# %% wrong: too large
# says: Write an int from 0 to 1000.
# earns: 1.6 of 2
inputs = RIGHT | {"digits": 70000}


# %% wrong: texts in place of inputs
# says: None of the items is right yet.
# earns: 0 of 2
inputs = dict.fromkeys(RIGHT, "float32")


# %% wrong: two are left open
# says: digits = ...: There is no input yet
# earns: 1.2 of 2
inputs = RIGHT | {"digits": ..., "label": ...}
