# corners: none
import torch


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


RIGHT = {
    "product": (ones(2, 2, dtype=torch.float64), ones(2, 2, dtype=torch.float64)),
    "loss": (torch.tensor([1.0, 2.0]).bfloat16(), torch.tensor([0.0, 4.0]).bfloat16()),
    "sum": (torch.ones(257).bfloat16(),),
    "softmax": None,
}


# %% right: integers, scalars, one number that rounds away another
inputs = {
    "product": (ones(1, 3, dtype=torch.int64), ones(3, 2, dtype=torch.int64)),
    "loss": (torch.tensor(1.0).bfloat16(), torch.tensor(1.0).bfloat16()),
    "sum": (torch.tensor([256.0, 1.0]).bfloat16(),),
    "softmax": None,
}


# %% right: matrices of targets, small numbers, in another order
inputs = {
    "softmax": None,
    "sum": (torch.full((3, 3), 0.1).bfloat16(),),
    "loss": (torch.randn(2, 3).bfloat16(), torch.randn(2, 3).bfloat16()),
    "product": (torch.randn(3, 3).double(), torch.randn(3, 3).double()),
}


# %% right: negative numbers, a view
inputs = RIGHT | {"sum": (torch.tensor([[-512.0, 0.0], [-1.0, 0.0]]).bfloat16()[:, 0],)}


# %% wrong: the product of float32
# says: product = (tensor([[1, 1], [1, 1]]), tensor([[1, 1], [1, 1]])): Autocast casts two float32 matrices to bfloat16, just as the second does.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"product": (ones(2, 2), ones(2, 2))}


# %% wrong: the product of float16
# says: Autocast multiplies these in bfloat16, just as the second function does.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"product": (ones(2, 2).half(), ones(2, 2).half())}


# %% wrong: no input for the product
# says: There is an input that separates the products: autocast doesn't cast every dtype.
# earns: 0.75 of 1
inputs = RIGHT | {"product": None}


# %% wrong: matrices of two dtypes
# says: The two matrices have the same dtype.
# earns: 0.75 of 1
inputs = RIGHT | {"product": (ones(2, 2), ones(2, 2, dtype=torch.float64))}


# %% wrong: matrices that don't fit
# says: A call fails (RuntimeError
# earns: 0.75 of 1
inputs = RIGHT | {"product": (ones(2, 3, dtype=torch.float64), ones(2, 3, dtype=torch.float64))}


# %% wrong: vectors
# says: Both arguments are matrices of floating-point numbers or of integers.
# earns: 0.75 of 1
inputs = RIGHT | {"product": (ones(2, dtype=torch.float64), ones(2, dtype=torch.float64))}


# %% wrong: matrices of truth values
# says: Both arguments are matrices of floating-point numbers or of integers.
# earns: 0.75 of 1
inputs = RIGHT | {"product": (torch.eye(2, dtype=torch.bool), torch.eye(2, dtype=torch.bool))}


# %% wrong: the loss of float32
# says: Two float32 tensors need no cast, so both losses are computed in float32.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"loss": (ones(3), torch.zeros(3))}


# %% wrong: the loss of bfloat16 against a float32 target
# says: One of these is float32, so y - x is also float32, and so are both losses.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"loss": (ones(3).bfloat16(), torch.zeros(3))}


# %% wrong: no input for the loss
# says: only mse_loss is on the float32 list, not the same formula written by hand.
# earns: 0.75 of 1
inputs = RIGHT | {"loss": None}


# %% wrong: the loss of float64
# says: Each of the two tensors is float32 or bfloat16.
# earns: 0.75 of 1
inputs = RIGHT | {"loss": (ones(3, dtype=torch.float64), ones(3, dtype=torch.float64))}


# %% wrong: the loss of two shapes
# says: The two tensors have the same shape.
# earns: 0.75 of 1
inputs = RIGHT | {"loss": (ones(3).bfloat16(), ones(1).bfloat16())}


# %% wrong: a sum that bfloat16 contains
# says: Both functions return tensor(256), which bfloat16 can hold as it is.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"sum": (ones(256).bfloat16(),)}


# %% wrong: no input for the sum
# says: on the CPU, sum keeps the dtype of its input and has to round the total to it.
# earns: 0.75 of 1
inputs = RIGHT | {"sum": None}


# %% wrong: a float32 sum
# says: The tensor is bfloat16.
# earns: 0.75 of 1
inputs = RIGHT | {"sum": (ones(257),)}


# %% wrong: too many numbers
# says: Each tensor has 1 to 1000 numbers, all of them finite.
# earns: 0.75 of 1
inputs = RIGHT | {"sum": (ones(1001).bfloat16(),)}


# %% wrong: an infinite number
# says: Each tensor has 1 to 1000 numbers, all of them finite.
# earns: 0.75 of 1
inputs = RIGHT | {"sum": (torch.tensor([torch.inf]).bfloat16(),)}


# %% wrong: softmax by the CUDA table
# says: Softmax is on none of autocast's lists for the CPU, so autocast changes nothing here, whatever the dtype of the input. (On CUDA it casts to float32.)
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"softmax": (torch.arange(4.0).bfloat16(),)}


# %% wrong: softmax of a matrix
# says: The tensor has one dimension, and is float32 or bfloat16.
# earns: 0.75 of 1
inputs = RIGHT | {"softmax": (ones(2, 2),)}


# %% wrong: float8, which autocast casts
# says: Autocast multiplies these in bfloat16, just as the second function does.
# earns: 0.75 of 1
inputs = RIGHT | {"product": (ones(2, 2).to(torch.float8_e4m3fn), ones(2, 2).to(torch.float8_e4m3fn))}


# %% wrong: sparse matrices
# says: Write a tuple with as many dense tensors as the functions have arguments, here 2.
# earns: 0.75 of 1
inputs = RIGHT | {"product": (torch.eye(2).double().to_sparse(), torch.eye(2).double().to_sparse())}


# %% wrong: tensors without tuples
# says: None of the items is right yet.
# earns: 0 of 1
inputs = {name: torch.ones(2) for name in RIGHT}


# %% wrong: no tuple
# says: Write a tuple with as many dense tensors as the functions have arguments, here 1.
# earns: 0.75 of 1
inputs = RIGHT | {"sum": torch.ones(257).bfloat16()}


# %% wrong: one is left open
# says: sum = ...: There is no input yet
# earns: 0.75 of 1
inputs = RIGHT | {"sum": ...}
