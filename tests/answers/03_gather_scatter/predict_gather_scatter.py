# corners: none

right = {
    "gather_dim1": [[1, 1], [4, 3]],
    "gather_dim0": [[3, 2]],
    "no_broadcast": (1, 1),
    "index_twice": (4, 4),
    "minus_one": True,
    "corner": 10.0,
    "scatter_dim1": [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    "add": [[0.0, 6.0, 0.0]],
    "guaranteed": False,
    "mean_self": [[3.0, 5.0, 5.0]],
}


# %% right: tensors in place of nested lists
answers = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in right.items()}


# %% right: lists for tuples, ints for whole floats
answers = right | {"no_broadcast": [1, 1], "index_twice": torch.Size([4, 4]), "corner": 10, "add": ((0, 6, 0),)}


# %% wrong: gather along the other dim
# says: gather_dim1 = [[1, 2], [3, 2]]: That is the result for the other dim
# earns: 1.8 of 2
# lesson
answers = right | {"gather_dim1": [[1, 2], [3, 2]]}


# %% wrong: gather along the other dim, second item
# says: gather_dim0 = [[2, 1]]: That is the result for the other dim
# earns: 1.8 of 2
# lesson
answers = right | {"gather_dim0": [[2, 1]]}


# %% wrong: gather along dim 0 broadcasts
# says: gather does not broadcast and its output has the shape of index
# earns: 1.8 of 2
answers = right | {"gather_dim0": [[3, 2], [3, 2]]}


# %% wrong: gather chooses whole rows
# says: gather does not broadcast and its output has the shape of index
# earns: 1.8 of 2
answers = right | {"gather_dim0": [[3, 4], [1, 2]]}


# %% wrong: one column of every row
# says: no_broadcast = (3, 1): gather does not broadcast
# earns: 1.8 of 2
answers = right | {"no_broadcast": (3, 1)}


# %% wrong: one logit per row
# says: a table, not one value per row
# earns: 1.8 of 2
# lesson
answers = right | {"index_twice": (4,)}


# %% wrong: minus one counts from the end
# says: gather and scatter do not take negative indices
# earns: 1.8 of 2
# lesson
answers = right | {"minus_one": False}


# %% wrong: all of src is written
# says: Only the corner of src that index covers is written: four numbers here.
# earns: 1.8 of 2
answers = right | {"corner": 55.0}


# %% wrong: the first row of src is written
# says: four numbers here, 1 to 4
# earns: 1.8 of 2
answers = right | {"corner": 15.0}


# %% wrong: scatter along the other dim
# says: scatter_dim1 = [[0, 1, 0], [0, 0, 1]]: That is the result for the other dim
# earns: 1.8 of 2
answers = right | {"scatter_dim1": [[0, 1, 0], [0, 0, 1]]}


# %% wrong: the last one stays
# says: it does not add them; scatter_add_ adds.
# earns: 1.8 of 2
# lesson
answers = right | {"add": [[0, 3, 0]]}


# %% wrong: the last write is guaranteed
# says: Which duplicate wins is documented as undefined
# earns: 1.8 of 2
answers = right | {"guaranteed": True}


# %% wrong: the mean of what is written
# says: include_self defaults to True: the 5 that was there is part of the mean.
# earns: 1.8 of 2
answers = right | {"mean_self": [[2, 5, 5]]}


# %% wrong: zeros where nothing is written
# says: the others keep what was there
# earns: 1.8 of 2
answers = right | {"mean_self": [[3, 0, 0]]}


# %% wrong: a number for a question
# says: The question is answered by True or False.
# earns: 1.8 of 2
answers = right | {"minus_one": 1}


# %% wrong: one item left as ...
# says: gather_dim1 = ...: There is no prediction yet
# earns: 1.8 of 2
answers = right | {"gather_dim1": ...}


# %% wrong: a list of values
# says: must be a dict from item names
# earns: 0 of 2
answers = list(right.values())
