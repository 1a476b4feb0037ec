# corners: none
RIGHT = {
    "leaf": True,
    "leaf_no_grad": False,
    "scaled": [2.0, 8.0, 8.0],
    "assigned": [0.0, 2.0, 2.0],
    "copy": [2.0, 2.0, 2.0],
    "written_back": [10.0, 10.0, 2.0],
    "detached": [2.0, 2.0, 2.0],
    "node": "CopySlices",
    "unbind": True,
    "saved": True,
}


# %% right: tensors and tuples in place of lists
answers = RIGHT | {"scaled": torch.tensor([2.0, 8.0, 8.0]), "assigned": (0, 2, 2)}


# %% right: computed with torch
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = w * 2
h[1:] *= 4
h.sum().backward()
answers = RIGHT | {"scaled": w.grad, "node": type(h.grad_fn).__name__}


# %% right: in another order, with spaces
answers = dict(reversed(RIGHT.items())) | {"node": " CopySlices "}


# %% wrong: leaf
# says: w[1:] is a view of the leaf: a write to it is a write to the leaf, and is refused while autograd records.
# earns: 0.9 of 1
# lesson
answers = RIGHT | {"leaf": False}


# %% wrong: leaf_no_grad
# says: Under no_grad you may write to a leaf, even through a view. Optimizers do that in every step.
# earns: 0.9 of 1
answers = RIGHT | {"leaf_no_grad": True}


# %% wrong: the write through a slice has no effect
# says: The write through the view is recorded in h: its history is rewritten (CopySlices).
# earns: 0.9 of 1
# lesson
answers = RIGHT | {"scaled": [2.0, 2.0, 2.0]}


# %% wrong: the factor alone
# says: h[1] was 2 * w[1] before the write. d/dw[1] is 2 * 4
# earns: 0.9 of 1
answers = RIGHT | {"scaled": [2.0, 4.0, 4.0]}


# %% wrong: the factor for all
# says: A slice is a view, and the write is recorded. d/dw[1] is 2 * 4
# earns: 0.9 of 1
answers = RIGHT | {"scaled": [8.0, 8.0, 8.0]}


# %% wrong: an assignment is not noticed
# says: h[0] is 7 now and no longer comes from w[0]: no gradient arrives there.
# earns: 0.9 of 1
answers = RIGHT | {"assigned": [2.0, 2.0, 2.0]}


# %% wrong: the constant as a slope
# says: 7 is a constant, not a factor
# earns: 0.9 of 1
answers = RIGHT | {"assigned": [7.0, 2.0, 2.0]}


# %% wrong: nothing but zeros after an assignment
# says: the others are as before
# earns: 0.9 of 1
answers = RIGHT | {"assigned": [0.0, 0.0, 0.0]}


# %% wrong: a list of indices gives a view
# says: Indexing with a list gives a copy: mul_ changed the copy, and h is as it was.
# earns: 0.9 of 1
# lesson
answers = RIGHT | {"copy": [10.0, 10.0, 2.0]}


# %% wrong: zeros for the copied places
# says: Indexing with a list gives a copy: h is as it was, twice w.
# earns: 0.9 of 1
answers = RIGHT | {"copy": [0.0, 0.0, 2.0]}


# %% wrong: the product is not written back
# says: reads, multiplies and *writes back* (__setitem__): h changes, and autograd knows.
# earns: 0.9 of 1
# lesson
answers = RIGHT | {"written_back": [2.0, 2.0, 2.0]}


# %% wrong: what is written back has lost its factor
# says: h[0] was 2 * w[0] before the write: the slope is 2 * 5.
# earns: 0.9 of 1
answers = RIGHT | {"written_back": [5.0, 5.0, 2.0]}


# %% wrong: what is written back is a constant
# says: writes the product back into h, recorded
# earns: 0.9 of 1
answers = RIGHT | {"written_back": [0.0, 0.0, 2.0]}


# %% wrong: a hidden write is known to autograd
# says: The value of h changes, but autograd doesn't learn of it: the gradient is still that of w * 2.
# earns: 0.9 of 1
# lesson
answers = RIGHT | {"detached": [0.0, 2.0, 2.0]}


# %% wrong: a hidden write cuts everything
# says: Autograd doesn't learn of the write: the gradient is still that of w * 2.
# earns: 0.9 of 1
answers = RIGHT | {"detached": [0.0, 0.0, 0.0]}


# %% wrong: the node of the multiplication
# says: The multiplication is no longer the last thing that happened to h
# earns: 0.9 of 1
answers = RIGHT | {"node": "MulBackward0"}


# %% wrong: the node of the addition
# says: add_ was applied to a view of h.
# earns: 0.9 of 1
answers = RIGHT | {"node": "AddBackward0"}


# %% wrong: the node of the view
# says: h is now the result of copying a changed slice into the old h, which gives the node its name.
# earns: 0.9 of 1
answers = RIGHT | {"node": "ViewBackward0"}


# %% wrong: unbind
# says: unbind gives several views at once, as split does: writing to one of them is refused.
# earns: 0.9 of 1
answers = RIGHT | {"unbind": False}


# %% wrong: saved
# says: exp keeps its result for backward, and a write through a view is a new version of the whole.
# earns: 0.9 of 1
# lesson
answers = RIGHT | {"saved": False}


# %% wrong: words in place of True and False
# says: The question is answered by True or False.
# earns: 0.9 of 1
answers = RIGHT | {"leaf": "raises"}


# %% wrong: one item left open
# says: There is no prediction yet
# earns: 0.9 of 1
answers = RIGHT | {"saved": ...}


# %% wrong: views are copies, and nothing is refused
# says: w[1:] is a view of the leaf
# says: The write through the view is recorded in h
# says: h[0] is 7 now and no longer comes from w[0]
# says: reads, multiplies and *writes back*
# says: The multiplication is no longer the last thing
# says: unbind gives several views at once
# says: exp keeps its result for backward
# earns: 0.3 of 1
# lesson
answers = dict.fromkeys(RIGHT, [2.0, 2.0, 2.0]) | {
    "leaf": False,
    "leaf_no_grad": False,
    "node": "MulBackward0",
    "unbind": False,
    "saved": False,
}


# %% wrong: no dict
# says: The answer must be a dict
# earns: 0 of 1
answers = list(RIGHT.values())
