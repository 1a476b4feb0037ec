# corners: none
RIGHT = {
    "clip": (1.0, 5.0),
    "residual": ([1.0, -1.0], [1.0, 1.0]),
    "trained": ["weight", "bias"],
    "rows": None,
}


# %% right: other signs, ints, tuples
apart = {"clip": (0, -2), "residual": ((-3,), (-7,)), "trained": ("weight",), "rows": None}


# %% right: the largest numbers, a zero in x
apart = {
    "rows": None,
    "trained": ["bias", "weight"],
    "residual": [[0.0] + [1] * 19, [1.0] * 20],
    "clip": [-1000.0, 1000.0],
}


# %% right: just beyond the limit, a small incoming gradient
apart = RIGHT | {"clip": (0.0, 1.01), "residual": ([-1.0, -2.0], [1e-6, 0.0])}


# %% wrong: x beyond the limit, and not the gradient
# says: clip = (50.0, 0.5): Both functions return tensor(0.5). Here x is beyond the limit, but backward clamps the gradient that comes in. That is factor, whatever x is.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"clip": (50.0, 0.5)}


# %% wrong: a gradient at the limit
# says: Both functions return tensor(-1). The gradient that comes in is factor, and clamping changes nothing here, or too little to show.
# earns: 1.5 of 2
apart = RIGHT | {"clip": (0.5, -1.0)}


# %% wrong: no input for the clamp
# says: There is an input that separates them: if you call forward directly, the clamp in backward never runs.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"clip": None}


# %% wrong: one number
# says: Write a tuple of two Python numbers between -1000 and 1000.
# earns: 1.5 of 2
apart = RIGHT | {"clip": 5.0}


# %% wrong: nan
# says: Write a tuple of two Python numbers between -1000 and 1000.
# earns: 1.5 of 2
apart = RIGHT | {"clip": (0.0, math.nan)}


# %% wrong: positive numbers only
# says: Every number of x is above 0 here, so backward writes no zero into the incoming gradient.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"residual": ([1.0, 2.0, 3.0], [-1.0, 10.0, 100.0])}


# %% wrong: zeros over zeros
# says: The zeros that backward writes replace incoming gradients that are 0 already, or too small to show.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"residual": ([1.0, -2.0], [5.0, 0.0])}


# %% wrong: zeros over a number that is too small to show
# says: The zeros that backward writes replace incoming gradients that are 0 already, or too small to show.
# earns: 1.5 of 2
apart = RIGHT | {"residual": ([1.0, -2.0], [1000.0, 1e-9])}


# %% wrong: no input for the residual
# says: There is an input that separates them: both terms of the sum get the same incoming gradient, and one of them writes zeros into it.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"residual": None}


# %% wrong: lists of different lengths
# says: The two lists must have the same length.
# earns: 1.5 of 2
apart = RIGHT | {"residual": ([-1.0, -1.0], [1.0])}


# %% wrong: x without an incoming gradient
# says: Write a tuple of two lists, each with 1 to 20 Python numbers between -1000 and 1000.
# earns: 1.5 of 2
apart = RIGHT | {"residual": [-1.0, -2.0]}


# %% wrong: all are trained
# says: Here x needs a gradient, so backward computes the gradients of both x and weight.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"trained": ["x", "weight", "bias"]}


# %% wrong: the weight is frozen
# says: Here x needs a gradient, so backward computes the gradients of both x and weight.
# earns: 1.5 of 2
apart = RIGHT | {"trained": ["x"]}


# %% wrong: the bias only
# says: Backward skips the gradients of x and weight, but here neither of the two is trained.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"trained": ["bias"]}


# %% wrong: no list of names
# says: There is a list that separates them: whether backward computes the gradient of weight shouldn't depend on x.
# earns: 1.5 of 2
apart = RIGHT | {"trained": None}


# %% wrong: nothing is trained
# says: Write a list of one to three different names out of "x", "weight" and "bias".
# earns: 1.5 of 2
apart = RIGHT | {"trained": []}


# %% wrong: one name, without a list
# says: Write a list of one to three different names out of "x", "weight" and "bias".
# earns: 1.5 of 2
apart = RIGHT | {"trained": "weight"}


# %% wrong: several rows for a bias
# says: If a gradient is too large, the engine sums it over the dimensions in which its tensor was broadcast. So both functions add up the rows, and no input separates them.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"rows": [[1.0, 10.0, 100.0], [0.1, -2.0, 3.0], [1000.0, 0.25, 0.3]]}


# %% wrong: rows that are longer than the bias
# says: Write 1 to 6 lists of three Python numbers between -1000 and 1000.
# earns: 1.5 of 2
apart = RIGHT | {"rows": [[1.0, 2.0, 3.0, 4.0]]}


# %% wrong: None everywhere
# says: There is an input that separates them
# earns: 0.5 of 2
apart = dict.fromkeys(RIGHT)


# %% wrong: numbers in place of inputs
# says: None of the items is right yet.
# earns: 0 of 2
apart = dict.fromkeys(RIGHT, 1.0)


# %% wrong: one is left open
# says: residual = ...: There is no input yet
# earns: 1.5 of 2
apart = RIGHT | {"residual": ...}
