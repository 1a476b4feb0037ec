import torch

right = {
    "rank 0": [0, 2, 4],
    "rank 1": [1, 3, 0],
    "rank 1, drop_last": [1, 3],
    "orders": 1,
    "all_reduce": 3.0,
    "weights equal": True,
    "grad": 1.5,
    "rows": 4,
    "key": "module.weight",
    "global batch": 64,
}

# corners: none


# %% right: tuples, integers for floats
answers = right | {"rank 0": (0, 2, 4), "rank 1": (1, 3, 0), "all_reduce": 3}


# %% right: floats for counts, tensors
answers = right | {"orders": 1.0, "rows": 4.0, "rank 1": torch.tensor([1, 3, 0]), "grad": torch.tensor(1.5)}


# %% wrong: contiguous blocks
# says: The shares are interleaved
# earns: 0.9 of 1
answers = right | {"rank 0": [0, 1, 2]}


# %% wrong: contiguous blocks on rank 1
# says: The shares are interleaved
# earns: 0.9 of 1
answers = right | {"rank 1": [3, 4]}


# %% wrong: nothing is repeated
# says: 5 samples do not divide by 2: one is repeated so that both ranks take equally many steps.
# earns: 0.9 of 1
# lesson
answers = right | {"rank 1": [1, 3]}


# %% wrong: drop_last repeats
# says: drop_last cuts the tail instead of repeating samples.
# earns: 0.9 of 1
answers = right | {"rank 1, drop_last": [1, 3, 0]}


# %% wrong: a new order each time
# says: All three passes use the same seed and the same epoch, so the order is the same.
# earns: 0.9 of 1
# lesson
answers = right | {"orders": 3}


# %% wrong: all_reduce averages
# says: all_reduce sums by default, and in place, so each of the two calls doubles t.
# earns: 0.9 of 1
# lesson
answers = right | {"all_reduce": 0.75}


# %% wrong: the second all_reduce averages, or isn't in place
# says: all_reduce sums by default, and in place, so each of the two calls doubles t.
# earns: 0.9 of 1
answers = right | {"all_reduce": 1.5}


# %% wrong: samples in place of indices
# says: A sampler yields indices, 0 to 4, and not samples: the DataLoader looks the samples up.
# earns: 0.9 of 1
answers = right | {"rank 0": [10, 12, 14]}


# %% wrong: the weights differ
# says: DDP broadcasts rank 0's parameters when it is built, so what rank 1 has loaded is gone.
# earns: 0.9 of 1
answers = right | {"weights equal": False}


# %% wrong: gradients are summed
# says: DDP averages the local gradients, however many rows are behind each of them: (1 + 2) / 2.
# earns: 0.9 of 1
answers = right | {"grad": 3.0}


# %% wrong: each rank keeps its own gradient
# says: DDP averages the local gradients, however many rows are behind each of them: (1 + 2) / 2.
# earns: 0.9 of 1
answers = right | {"grad": 1.0}


# %% wrong: each row counts the same
# says: DDP averages the local gradients, however many rows are behind each of them: (1 + 2) / 2.
# earns: 0.9 of 1
answers = right | {"grad": 1.75}


# %% wrong: DDP splits the input
# says: DDP does not split the input (DataParallel does). Each rank gets back the rows it passed.
# earns: 0.9 of 1
# lesson
answers = right | {"rows": 2}


# %% wrong: the key of the bare model
# says: The wrapper is a module with one child called `module`, so keys start with `module.`.
# earns: 0.9 of 1
answers = right | {"key": "weight"}


# %% wrong: one batch for each step
# says: Both ranks accumulate two batches of 16 rows each, and nothing splits a batch: 2 · 2 · 16.
# earns: 0.9 of 1
answers = right | {"global batch": 32}


# %% right: the tensor itself for its value
answers = right | {"all_reduce": torch.tensor([3.0]), "grad": torch.tensor([[1.5]])}
