# corners: none
RIGHT = {
    "gradient": ([1.0], [2.0, 3.0]),
    "accuracy": [0, 1, 1],
    "weights": None,
}


# %% right: whole numbers, a wrong sample at the end
inputs = {
    "gradient": ([1, 2, 3, 4], [0]),
    "accuracy": [1, 1, 0],
    "weights": None,
}


# %% right: more rows on rank 0, many samples
inputs = {
    "weights": None,
    "accuracy": [1, 0, 0, 0, 1, 0, 0, 0, 1],
    "gradient": ([-50.0, 50.0, 3.0], [2.0, 2.0]),
}


# %% right: floats and truth values
inputs = RIGHT | {"accuracy": [True, False, False]}


# %% wrong: as many rows on both ranks
# says: Both ranks have the same number of rows here, so the mean of their two gradients is the gradient of all rows.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"gradient": ([1.0, 2.0], [30.0, 40.0])}


# %% wrong: different numbers of rows with equal means
# says: Both gradients are tensor([[2]]). The ranks have different numbers of rows, but their gradients are equal, so it doesn't matter how they are weighted.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"gradient": ([2.0], [1.0, 3.0])}


# %% wrong: no input for the gradients
# says: There is an input that separates the gradients: DDP averages over the ranks, however many rows each of them has.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"gradient": None}


# %% wrong: a rank without rows
# says: Each rank has 1 to 12 rows, numbers between -100 and 100.
# earns: 0.6667 of 1
inputs = RIGHT | {"gradient": ([], [1.0, 2.0])}


# %% wrong: one list
# says: Write a tuple of two lists, the rows of rank 0 and those of rank 1.
# earns: 0.6667 of 1
inputs = RIGHT | {"gradient": [1.0, 2.0, 3.0]}


# %% wrong: an even number of samples
# says: Two ranks share this number of samples evenly, so the sampler repeats none.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"accuracy": [0, 1, 1, 1]}


# %% wrong: all are right
# says: Both accuracies are 1.0. The sampler repeats the first sample, which changes the mean only if it isn't the mean already.
# earns: 0.6667 of 1
inputs = RIGHT | {"accuracy": [1, 1, 1]}


# %% wrong: no input for the accuracies
# says: There is an input that separates the accuracies: the sampler gives both ranks the same number of samples, and repeats one if it must.
# earns: 0.6667 of 1
inputs = RIGHT | {"accuracy": None}


# %% wrong: a share of right ones
# says: Write a list of 1 to 12 zeros and ones.
# earns: 0.6667 of 1
inputs = RIGHT | {"accuracy": [0.5, 1, 1]}


# %% wrong: another weight on rank 1
# says: When DDP is built, it broadcasts the parameters of rank 0. So both ranks have the first weight, whatever the second one was.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"weights": (0.1, 5.0)}


# %% wrong: one weight
# says: Write a tuple of two numbers between -100 and 100, the weights of rank 0 and rank 1.
# earns: 0.6667 of 1
inputs = RIGHT | {"weights": (0.5,)}


# %% wrong: an infinite weight
# says: Write a tuple of two numbers between -100 and 100, the weights of rank 0 and rank 1.
# earns: 0.6667 of 1
inputs = RIGHT | {"weights": (float("inf"), 0.5)}


# %% wrong: numbers in place of inputs
# says: None of the items is right yet.
# earns: 0 of 1
inputs = dict.fromkeys(RIGHT, 2)


# %% wrong: one is left open
# says: accuracy = ...: There is no input yet
# earns: 0.6667 of 1
inputs = RIGHT | {"accuracy": ...}
