# corners: none
RIGHT = {
    "mean": ([1.0, 1.0, 4.0], 2),
    "unused": [1.0, None],
    "clip": [1.0, 100.0],
    "place": None,
}


# %% right: other lengths, ints, tuples
inputs = {
    "mean": ((5, 1, 1, 1, 0), 3),
    "unused": (2, None, None, -1),
    "clip": (1000, 1),
    "place": None,
}


# %% right: many losses, unused in between, signs that change
inputs = {
    "place": None,
    "clip": [0.5, -3.0, 2.0],
    "unused": [None, 1.0, None, 1.0],
    "mean": ([0.5] * 16 + [2.5], 16),
}


# %% wrong: batches of the same length
# says: All batches have the same length here, so every sample has the same weight in both.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"mean": ([1.0, 2.0, 3.0, 4.0], 2)}


# %% wrong: one batch
# says: There is only one batch here, so its mean is the mean over the samples.
# earns: 1.5 of 2
inputs = RIGHT | {"mean": ([1.0, 2.0, 3.0, 4.0], 8)}


# %% wrong: a short batch with the same mean
# says: Both functions return 2.0. The last batch is short, but the means of the batches hide it.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"mean": ([1.0, 3.0, 2.0], 2)}


# %% wrong: no input for the means
# says: There is an input that separates the means: what does a sample weigh in a short last batch?
# earns: 1.5 of 2
inputs = RIGHT | {"mean": None}


# %% wrong: losses only
# says: Write a tuple of the losses and of batch_size, an int of at least 1.
# earns: 1.5 of 2
inputs = RIGHT | {"mean": [1.0, 1.0, 4.0]}


# %% wrong: batches of no samples
# says: Write a tuple of the losses and of batch_size, an int of at least 1.
# earns: 1.5 of 2
inputs = RIGHT | {"mean": ([1.0, 1.0, 4.0], 0)}


# %% wrong: used in every step
# says: Every step uses w here, so backward adds to a fresh gradient, None or 0, in both.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"unused": [1.0, 2.0, 3.0]}


# %% wrong: a gradient of 0 for an unused weight
# says: Every step uses w here, so backward adds to a fresh gradient, None or 0, in both.
# earns: 1.5 of 2
inputs = RIGHT | {"unused": [1.0, 0.0]}


# %% wrong: unused before there is any momentum
# says: Both functions return tensor(-1). step() skips a parameter whose gradient is None, but if the gradient is 0 its momentum moves it on. Here it has none at that time, or too little to show.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"unused": [None, 1.0]}


# %% wrong: no input for the unused weight
# says: There is an input that separates them: step() skips a parameter whose gradient is None, but not one whose gradient is 0.
# earns: 1.5 of 2
inputs = RIGHT | {"unused": None}


# %% wrong: never used
# says: Write a list with at least one number; the other entries may be None.
# earns: 1.5 of 2
inputs = RIGHT | {"unused": [None, None]}


# %% wrong: one large gradient
# says: Adam's first step is about lr, however large the gradient is, clipped or not.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"clip": [500.0]}


# %% wrong: nothing to clip
# says: No gradient is above max_norm here, so nothing is clipped.
# earns: 1.5 of 2
inputs = RIGHT | {"clip": [0.5, 0.01, -0.9]}


# %% wrong: large gradients of one size
# says: Clipping scales all gradients that matter here by about the same factor, and Adam divides it out again.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"clip": [500.0, 500.0, -500.0]}


# %% wrong: no input for clipping
# says: There is an input that separates them: Adam divides by a mean over several gradients, and clipping changes the large ones only.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"clip": None}


# %% wrong: an input for the two places of zero_grad
# says: In both, the gradient is cleared between a step and the next backward, and the first backward finds none to add to. So no input separates them.
# earns: 1.5 of 2
# lesson
inputs = RIGHT | {"place": [1.0, 2.0, -3.0]}


# %% wrong: an infinite gradient
# says: The entries of the list are Python numbers between -1000 and 1000.
# earns: 1.5 of 2
inputs = RIGHT | {"clip": [1.0, float("inf")]}


# %% wrong: a nan
# says: The entries of the list are Python numbers between -1000 and 1000.
# earns: 1.5 of 2
inputs = RIGHT | {"place": [float("nan")]}


# %% wrong: no list
# says: Write a list with 1 to 20 entries.
# earns: 1.5 of 2
inputs = RIGHT | {"clip": 500.0}


# %% wrong: numbers in place of inputs
# says: None of the items is right yet.
# earns: 0 of 2
inputs = dict.fromkeys(RIGHT, 1.0)


# %% wrong: two are left open
# says: clip = ...: There is no input yet
# earns: 1 of 2
inputs = RIGHT | {"clip": ..., "unused": ...}
