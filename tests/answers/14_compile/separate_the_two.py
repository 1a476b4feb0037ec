# corners: none
import torch


def ones(n):
    return torch.ones(n)


RIGHT = {
    "long": [(ones(4),), (ones(5),), (ones(9),)],
    "power": [(ones(2), 2), (ones(2), 3), (ones(2), 4)],
    "option": [(ones(2), {"shift": 1.0}), (ones(2), {"shift": 1.0, "other": 2.0})],
}


# %% right: long ones first, other numbers, a key in front
calls = {
    "long": ([ones(12)], [ones(10)], [ones(3)]),
    "power": [],
    "option": [],
}
calls["long"] = [(ones(12),), (ones(10),), (ones(3),)]
calls["power"] = [(torch.arange(3.0), 5), (torch.arange(3.0), 9), (torch.arange(3.0), 7)]
calls["option"] = [(ones(3), {"shift": 2}), (ones(3), {"more": 1, "shift": 2})]


# %% right: four calls, tuples
calls = {
    "long": tuple((ones(n),) for n in (4, 5, 9, 10)),
    "power": [(ones(2), n) for n in (2, 3, 4, 6)],
    "option": [(ones(2), {"shift": 1.0, str(n): n}) for n in range(3)],
}


# %% wrong: one call each
# says: None of the items is right yet.
# earns: 0 of 1
# lesson
calls = {name: some[:1] for name, some in RIGHT.items()}


# %% wrong: sizes on one side of 8
# says: the same number of graphs, 2.
# earns: 0.67 of 1
# lesson
calls = RIGHT | {"long": [(ones(4),), (ones(5),), (ones(6),)]}


# %% wrong: both sides of 8, but two calls only
# says: the same number of graphs, 2.
# earns: 0.67 of 1
# lesson
calls = RIGHT | {"long": [(ones(4),), (ones(9),)]}


# %% wrong: twice the same n
# says: the same number of graphs, 1.
# earns: 0.67 of 1
calls = RIGHT | {"power": [(ones(2), 2), (ones(2), 2)]}


# %% wrong: two values of n
# says: the same number of graphs, 2.
# earns: 0.67 of 1
# lesson
calls = RIGHT | {"power": [(ones(2), 2), (ones(2), 3)]}


# %% wrong: the same keys, other values
# says: the same number of graphs
# earns: 0.67 of 1
# lesson
calls = RIGHT | {"option": [(ones(2), {"shift": 1.0}), (ones(2), {"shift": 2.0})]}


# %% wrong: another dtype
# says: the same number of graphs, 2.
# earns: 0.67 of 1
calls = RIGHT | {"option": [(ones(2), {"shift": 1.0}), (ones(2).double(), {"shift": 1.0})]}


# %% wrong: another size with the same keys
# says: the same number of graphs, 2.
# earns: 0.67 of 1
calls = RIGHT | {"option": [(ones(2), {"shift": 1.0}), (ones(3), {"shift": 1.0})]}


# %% wrong: n is no multiple for numbers that are not whole
# says: For one of these calls the two functions return different results without a compiler.
# earns: 0.67 of 1
calls = RIGHT | {"power": [(torch.full((2,), 0.1), n) for n in (2, 3, 10)]}


# %% wrong: a matrix
# says: The first argument of each call is a tensor with one dimension.
# earns: 0.67 of 1
calls = RIGHT | {"long": [(torch.arange(6.0).reshape(2, 3),), (torch.arange(30.0).reshape(10, 3),)]}


# %% wrong: no such key
# says: A call fails (KeyError
# earns: 0.67 of 1
calls = RIGHT | {"option": [(ones(2), {"shift": 1.0}), (ones(2), {"other": 1.0})]}


# %% wrong: five calls
# says: Write one call at least and four at most.
# earns: 0.67 of 1
calls = RIGHT | {"long": [(ones(n),) for n in (4, 5, 9, 10, 11)]}


# %% wrong: not tuples
# says: Write a list of tuples, each with the arguments of one call.
# earns: 0.67 of 1
calls = RIGHT | {"long": [ones(4), ones(5), ones(9)]}


# %% wrong: a very large n
# says: n is an int from 0 to 50.
# earns: 0.67 of 1
calls = RIGHT | {"power": [(ones(2), 2), (ones(2), 3), (ones(2), 100000)]}


# %% wrong: n is a tensor
# says: n is an int from 0 to 50.
# earns: 0.67 of 1
calls = RIGHT | {"power": [(ones(2), 2), (ones(2), 3), (ones(2), torch.tensor([4, 5]))]}


# %% wrong: the shift is a tensor
# says: options is a dict with an int or a float under "shift".
# earns: 0.67 of 1
calls = RIGHT | {
    "option": [(ones(2), {"shift": torch.tensor(1.0)}), (ones(2), {"shift": torch.tensor(1.0), "other": None})]
}


# %% wrong: one is left open
# says: There is no input yet
# earns: 0.67 of 1
calls = RIGHT | {"long": ...}
