# corners: none
import torch

right = {
    "grad_mode": False,
    "req": True,
    "apply": 5.0,
    "forward": 2.0,
    "dtype": torch.float32,
    "node": "TwiceBackward",
    "keyword": torch.__version__ < (2, 13),
    "plain": False,
    "list": False,
    "too_few": True,
}


# %% right: the dtype itself, ints for whole floats
answers = right | {"apply": 5, "forward": 2}


# %% right: a 0-d tensor, the name of the dtype with its prefix
answers = right | {"apply": torch.tensor(5.0), "forward": torch.tensor(2), "dtype": "torch.float32"}


# %% right: the short name of the dtype, items in another order, one too many
answers = dict(reversed((right | {"dtype": "float32", "note": "done"}).items()))


# %% wrong: recording is on inside forward
# says: grad_mode = True: forward runs with grad mode off: nothing computed in it is recorded, and backward gives the gradient.
# earns: 1.8 of 2
# lesson
answers = right | {"grad_mode": True}


# %% wrong: forward gets a detached tensor
# says: The argument is the original tensor with its flag; only the recording is off.
# earns: 1.8 of 2
answers = right | {"req": False}


# %% wrong: the true derivative
# says: autograd does not check your formula: what backward returns is the gradient, 5 here.
# earns: 1.8 of 2
# lesson
answers = right | {"apply": 2.0}


# %% wrong: both derivatives multiplied
# says: backward replaces the derivative of forward, it is not multiplied by it.
# earns: 1.8 of 2
answers = right | {"apply": 10.0}


# %% wrong: some other gradient
# says: What backward returns is the gradient, whatever forward computes.
# earns: 1.8 of 2
answers = right | {"apply": 1.0}


# %% wrong: forward is the same as apply
# says: and your backward is never called.
# earns: 1.8 of 2
# lesson
answers = right | {"forward": 5.0}


# %% wrong: forward gives another number
# says: forward is an ordinary function here
# earns: 1.8 of 2
answers = right | {"forward": 0.0}


# %% wrong: the dtype that backward returned
# says: The engine casts a returned gradient to the dtype of the input: float32.
# earns: 1.8 of 2
answers = right | {"dtype": "float64"}


# %% wrong: the dtype that backward returned, as a dtype
# says: The engine casts a returned gradient to the dtype of the input: float32.
# earns: 1.8 of 2
answers = right | {"dtype": torch.float64}


# %% wrong: the name of the class
# says: The node is called after the class with Backward appended.
# earns: 1.8 of 2
answers = right | {"node": "Twice"}


# %% wrong: the name with a number
# says: A number at the end is what nodes of built-in operations have
# earns: 1.8 of 2
answers = right | {"node": "TwiceBackward0"}


# %% wrong: what another torch does with keyword arguments
# says: Before torch 2.13, apply raised on keyword arguments; since then it takes them.
# earns: 1.8 of 2
answers = right | {"keyword": not right["keyword"]}


# %% wrong: the output is always tracked
# says: Without a tensor input that requires grad the output does not require grad, and backward is never called.
# earns: 1.8 of 2
answers = right | {"plain": True}


# %% wrong: lists are searched
# says: Only tensors that are direct arguments are seen: a list hides them, the output is not tracked.
# earns: 1.8 of 2
# lesson
answers = right | {"list": True}


# %% wrong: a missing value is taken as None
# says: backward must return one value per argument of forward (None for k): returning fewer raises when backward runs.
# earns: 1.8 of 2
answers = right | {"too_few": False}


# %% wrong: a number for a question
# says: The question is answered by True or False.
# earns: 1.8 of 2
answers = right | {"plain": 0}


# %% wrong: one item left as ...
# says: grad_mode = ...: There is no prediction yet
# earns: 1.8 of 2
answers = right | {"grad_mode": ...}


# %% wrong: no dict
# says: The answer must be a dict from item names to predictions
# earns: 0 of 2
answers = list(right.values())


# %% wrong: nothing is right
# says: None of the items is right yet.
# earns: 0 of 2
answers = dict.fromkeys(right, "?")

# %% wrong: the gradient is rounded to float16
# says: The engine casts a returned gradient to the dtype of the input.
# earns: 1.8 of 2
answers = right | {"dtype": "float16"}

# %% wrong: the node is called backward
# says: The node is called after the class, with one word appended.
# earns: 1.8 of 2
answers = right | {"node": "backward"}
