# corners: none
RIGHT = {
    "a_leaf": True,
    "b_leaf": False,
    "c_leaf": True,
    "d_leaf": False,
    "e_leaf": True,
    "f_req": False,
    "g_req": True,
    "w_fn": True,
    "w_grad": [4.0, 4.0, 4.0],
    "x_grad": True,
    "param": True,
    "late": True,
}


# %% right: a tensor in place of a list
answers = RIGHT | {"w_grad": torch.full((3,), 4.0)}


# %% right: a tuple of ints
answers = RIGHT | {"w_grad": (4, 4, 4)}


# %% right: built in another order
answers = dict(reversed(RIGHT.items()))


# %% wrong: a_leaf
# says: a_leaf = False: a was computed, but from tensors that nobody tracks: everything with requires_grad=False counts as a leaf.
# earns: 0.9167 of 1
answers = RIGHT | {"a_leaf": False}


# %% wrong: b_leaf
# says: b is the result of a recorded operation on w: it has a grad_fn and is not a leaf.
# earns: 0.9167 of 1
# lesson
answers = RIGHT | {"b_leaf": True}


# %% wrong: c_leaf
# says: detach() starts anew: no history, requires_grad=False, hence a leaf.
# earns: 0.9167 of 1
answers = RIGHT | {"c_leaf": False}


# %% wrong: d_leaf
# says: d is not a leaf any more, its .grad will stay empty and an optimizer refuses it.
# earns: 0.9167 of 1
# lesson
answers = RIGHT | {"d_leaf": True}


# %% wrong: e_leaf
# says: float32 to float32 changes nothing: .to returns w itself, which is a leaf.
# earns: 0.9167 of 1
answers = RIGHT | {"e_leaf": False}


# %% wrong: f_req
# says: Results computed under no_grad do not require grad.
# earns: 0.9167 of 1
answers = RIGHT | {"f_req": True}


# %% wrong: g_req
# says: no_grad concerns results of operations; a tensor created with requires_grad=True inside keeps its flag.
# earns: 0.9167 of 1
answers = RIGHT | {"g_req": False}


# %% wrong: w_fn
# says: A leaf has no grad_fn, requires_grad or not: nobody computed it.
# earns: 0.9167 of 1
answers = RIGHT | {"w_fn": False}


# %% wrong: the last pass only
# says: w_grad = [2.0, 2.0, 2.0]: backward adds to .grad: two passes of [2, 2, 2] give [4, 4, 4].
# earns: 0.9167 of 1
# lesson
answers = RIGHT | {"w_grad": [2.0, 2.0, 2.0]}


# %% wrong: the factor 2 forgotten
# says: The slope of w * 2 * x is 2 * x, that is 2.
# earns: 0.9167 of 1
answers = RIGHT | {"w_grad": [1.0, 1.0, 1.0]}


# %% wrong: w_grad as None
# says: w is a leaf that requires grad: backward fills its .grad.
# earns: 0.9167 of 1
answers = RIGHT | {"w_grad": None}


# %% wrong: one number for the three
# says: a list of three numbers
# earns: 0.9167 of 1
answers = RIGHT | {"w_grad": 4.0}


# %% wrong: x_grad
# says: x does not require grad: backward leaves its .grad at None.
# earns: 0.9167 of 1
# lesson
answers = RIGHT | {"x_grad": False}


# %% wrong: param
# says: nn.Parameter takes the data only, not the history: the parameter is a fresh leaf.
# earns: 0.9167 of 1
answers = RIGHT | {"param": False}


# %% wrong: late
# says: h is an intermediate result: backward passed its gradient on and kept nothing.
# earns: 0.9167 of 1
answers = RIGHT | {"late": False}


# %% wrong: one item left open
# says: a_leaf = ...: There is no prediction yet
# earns: 0.9167 of 1
answers = RIGHT | {"a_leaf": ...}


# %% wrong: one item deleted
# says: late = ...: There is no prediction yet
# earns: 0.9167 of 1
answers = {name: value for name, value in RIGHT.items() if name != "late"}


# %% wrong: words in place of True and False
# says: The question is answered by True or False.
# earns: 0.9167 of 1
answers = RIGHT | {"b_leaf": "no"}


# %% wrong: no dict
# says: The answer must be a dict
# earns: 0 of 1
answers = list(RIGHT.values())
