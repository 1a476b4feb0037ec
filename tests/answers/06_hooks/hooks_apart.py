# corners: none
RIGHT = {
    "calls": ["a", "a"],
    "kept": [1.0, -1.0],
    "clamp": [0.75, 0.75],
    "removed": None,
}


# %% right: longer ones, ints, tuples
apart = {
    "calls": ("a", "b", "a", "b"),
    "kept": (-3, 2),
    "clamp": (5, 1, -2),
    "removed": None,
}


# %% right: tiny and large ones
apart = {
    "removed": None,
    "clamp": [1000, 1000.0],
    "kept": [-1e-30],
    "calls": ["b"] * 10,
}


# %% right: a small number beside a large one
apart = RIGHT | {"kept": [-0.01, 1000.0], "clamp": [1.0, 1e-5]}


# %% right: a gradient that comes back
apart = RIGHT | {"clamp": [2.0, -2.0, 1.0, -3.0, 0.5], "kept": [-1000]}


# %% wrong: each layer once
# says: Both functions return 2. No layer is called twice here, so a layer's hook runs as often as its weight's hook.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"calls": ["a", "b"]}


# %% wrong: no input for the calls
# says: There is an input that separates them: a layer's hook runs for each call of the layer, its weight's hook once
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"calls": None}


# %% wrong: layers instead of names
# says: Write a list with 1 to 10 of the names "a" and "b".
# earns: 0.75 of 1
apart = RIGHT | {"calls": [1, 1]}


# %% wrong: no calls
# says: Write a list with 1 to 10 of the names "a" and "b".
# earns: 0.75 of 1
apart = RIGHT | {"calls": []}


# %% wrong: no negative number
# says: The ReLU writes into the memory of the detached tensor, but no number is negative here
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"kept": [0.0, 1.0, 2.0]}


# %% wrong: a negative number beside a very large one
# says: The negative numbers here are too small to make a difference.
# earns: 0.75 of 1
apart = RIGHT | {"kept": [1000.0, -1e-9]}


# %% wrong: no input for the kept output
# says: There is an input that separates them: a detached tensor shares its memory with the output
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"kept": None}


# %% wrong: one backward
# says: There is only one backward here, so .grad is the gradient itself, and both hooks clamp the same number.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"clamp": [100.0]}


# %% wrong: small gradients with a small sum
# says: No gradient and no sum of gradients leaves the range here, so nothing is clamped.
# earns: 0.75 of 1
apart = RIGHT | {"clamp": [0.5, 0.25, -1.0]}


# %% wrong: gradients that make up for each other
# says: Both functions return tensor(0). One clamps each gradient before it is added, and the other the sum so far.
# earns: 0.75 of 1
apart = RIGHT | {"clamp": [5.0, -1.0]}


# %% wrong: no input for clamping
# says: There is an input that separates them: a tensor hook gets the gradient of one backward
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"clamp": None}


# %% wrong: an input for the hook that is removed
# says: A full backward hook puts a node into the graph in forward, and the node keeps the hooks that the module had then.
# earns: 0.75 of 1
# lesson
apart = RIGHT | {"removed": [1.0, -2.0]}


# %% wrong: a number
# says: Write a list with 1 to 20 numbers.
# earns: 0.75 of 1
apart = RIGHT | {"clamp": 2.0}


# %% wrong: a nan
# says: Write Python numbers between -1000 and 1000 into the list.
# earns: 0.75 of 1
apart = RIGHT | {"removed": [float("nan")]}


# %% wrong: booleans
# says: Write Python numbers between -1000 and 1000 into the list.
# earns: 0.75 of 1
apart = RIGHT | {"kept": [True, False]}


# %% wrong: tensors in place of lists
# says: None of the items is right yet.
# earns: 0 of 1
apart = dict.fromkeys(RIGHT, 1.0)


# %% wrong: two are left open
# says: clamp = ...: There is no input yet
# earns: 0.5 of 1
apart = RIGHT | {"clamp": ..., "removed": ...}
