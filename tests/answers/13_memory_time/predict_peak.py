# corners: none
TRUE = {
    "no_grad": 2,
    "exp": 4,
    "times": 1,
    "sigmoid_of_sin": 2,
    "row": 1,
    "square": 2,
    "twice": 5,
    "twice_del": 3,
}


# %% right: floats
mib_alive = {name: float(number) for name, number in TRUE.items()}


# %% right: NumPy numbers, in another order
mib_alive = {name: __import__("numpy").int64(number) for name, number in reversed(TRUE.items())}


# %% right: one after the other
mib_alive = {}
mib_alive["no_grad"], mib_alive["exp"], mib_alive["times"], mib_alive["row"] = 2, 4, 1, 1
mib_alive["sigmoid_of_sin"] = mib_alive["square"] = 2
mib_alive["twice"], mib_alive["twice_del"] = 5, 3


# %% wrong: no_grad keeps all four
# says: no_grad = 4: Without a graph nothing refers to the earlier results
# earns: 0.875 of 1
# lesson
mib_alive = TRUE | {"no_grad": 4}


# %% wrong: no_grad, all four and x
# says: no_grad = 5: Without a graph nothing refers to the earlier results
# earns: 0.875 of 1
mib_alive = TRUE | {"no_grad": 5}


# %% wrong: no_grad, the output alone
# says: no_grad = 1: While an operation runs, its input and its output are both alive.
# earns: 0.875 of 1
mib_alive = TRUE | {"no_grad": 1}


# %% wrong: no_grad, with x
# says: no_grad = 3: x existed before and doesn't count. Besides it there are one input and one output.
# earns: 0.875 of 1
mib_alive = TRUE | {"no_grad": 3}


# %% wrong: exp keeps nothing
# says: exp = 1: exp needs its own result for backward
# earns: 0.875 of 1
# lesson
mib_alive = TRUE | {"exp": 1}


# %% wrong: exp as without a graph
# says: exp = 2: That is the peak without a graph.
# earns: 0.875 of 1
mib_alive = TRUE | {"exp": 2}


# %% wrong: exp with x
# says: exp = 5: x existed before and doesn't count.
# earns: 0.875 of 1
mib_alive = TRUE | {"exp": 5}


# %% wrong: every multiplication keeps its input
# says: times = 4: The gradient of a multiplication by a number needs that number and no tensor
# earns: 0.875 of 1
# lesson
mib_alive = TRUE | {"times": 4}


# %% wrong: every sin keeps its result
# says: sigmoid_of_sin = 3: sin keeps its INPUT
# earns: 0.875 of 1
mib_alive = TRUE | {"sigmoid_of_sin": 3}


# %% wrong: sum keeps what it adds up
# says: sigmoid_of_sin = 4: sum keeps a shape and no tensor.
# earns: 0.875 of 1
mib_alive = TRUE | {"sigmoid_of_sin": 4}


# %% wrong: only the last operation keeps something
# says: sigmoid_of_sin = 1: sin keeps its input. The second sin therefore keeps the result of the first.
# earns: 0.875 of 1
mib_alive = TRUE | {"sigmoid_of_sin": 1}


# %% wrong: a row is small
# says: row = 0: A row is a view, and a view keeps the whole storage alive.
# earns: 0.875 of 1
# lesson
mib_alive = TRUE | {"row": 0}


# %% wrong: a row as a fraction
# says: row = 0.001953125: y is one row, a view of the whole result
# earns: 0.875 of 1
mib_alive = TRUE | {"row": 1 / 512}


# %% wrong: square's input is what exp keeps
# says: square = 1: square keeps its input, which is a new tensor
# earns: 0.875 of 1
mib_alive = TRUE | {"square": 1}


# %% wrong: square keeps its result too
# says: square = 3: The result of square is not kept
# earns: 0.875 of 1
mib_alive = TRUE | {"square": 3}


# %% wrong: twice is once
# says: twice = 3: The name y refers to the old result
# earns: 0.875 of 1
# lesson
mib_alive = TRUE | {"twice": 3}


# %% wrong: twice, two of one turn
# says: twice = 2: The name y refers to the old result
# earns: 0.875 of 1
mib_alive = TRUE | {"twice": 2}


# %% wrong: twice without exp's input
# says: While exp runs, its input is alive too.
# earns: 0.875 of 1
mib_alive = TRUE | {"twice": 4}


# %% wrong: twice three
# says: twice = 6: Two tensors of the old graph are left, not three
# earns: 0.875 of 1
mib_alive = TRUE | {"twice": 6}


# %% wrong: del changes nothing
# says: twice_del = 5: del y drops the old graph before the new one is built.
# earns: 0.875 of 1
mib_alive = TRUE | {"twice_del": 5}


# %% wrong: del, without exp's input
# says: twice_del = 2: While exp runs, its input is alive too.
# earns: 0.875 of 1
mib_alive = TRUE | {"twice_del": 2}


# %% wrong: one is left open
# says: row = ...: There is no prediction yet
# earns: 0.875 of 1
mib_alive = TRUE | {"row": ...}


# %% wrong: words and None in place of numbers
# says: Write a plain number of MiB in place of '2 MB', such as 7.
# says: Write a plain number of MiB in place of None, such as 7.
# says: Write a plain number of MiB in place of [2], such as 7.
# says: Write a plain number of MiB in place of True, such as 7.
# earns: 0.5 of 1
mib_alive = TRUE | {"no_grad": "2 MB", "exp": None, "times": True, "square": [2]}


# %% wrong: bytes in place of MiB
# says: None of the items is right yet.
# earns: 0 of 1
mib_alive = {name: number * 2**20 for name, number in TRUE.items()}

# %% wrong: del frees nothing until the line has run
# says: After del y nothing of the first iteration is alive, so the peak is that of one iteration.
# earns: 0.875 of 1
mib_alive = TRUE | {"twice_del": 4}
