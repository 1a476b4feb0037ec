# corners: none
TRUE = {
    "sizes 5, 6, 7, 8": 2,
    "sizes 5, 6, 1, 0, 9": 4,
    "an argument s: 2, 3, 4, 5": 2,
    "self.k of a module: 2, 3, 4, 5": 4,
    "an argument s: 'a', 'b', 'a'": 2,
    "a list of 1, 2, 3 tensors": 3,
    "float32, float64, float32": 2,
    "with grad, under no_grad, with grad": 2,
    "Linear and ReLU: train(), eval(), train()": 1,
    "five steps of training": 1,
}


# %% right: floats
graphs = {name: float(number) for name, number in TRUE.items()}


# %% right: NumPy numbers, in another order
graphs = {name: __import__("numpy").int64(number) for name, number in reversed(TRUE.items())}


# %% wrong: every size compiles
# says: The second size makes a graph with a symbol for the size, and 7 and 8 fit that one.
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"sizes 5, 6, 7, 8": 4}


# %% wrong: a symbol from the first size on
# says: The first size is a number, not a symbol.
# earns: 1.8 of 2
graphs = TRUE | {"sizes 5, 6, 7, 8": 1}


# %% wrong: 0 and 1 fit the symbol
# says: 1 and 0 each need a graph of their own.
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"sizes 5, 6, 1, 0, 9": 2}


# %% wrong: 0 and 1 share a graph
# says: 1 and 0 are two cases
# earns: 1.8 of 2
graphs = TRUE | {"sizes 5, 6, 1, 0, 9": 3}


# %% wrong: 9 compiles again
# says: 9 fits the graph that the 6 has made.
# earns: 1.8 of 2
graphs = TRUE | {"sizes 5, 6, 1, 0, 9": 5}


# %% wrong: every int compiles
# says: An int argument is treated like a size
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"an argument s: 2, 3, 4, 5": 4}


# %% wrong: an int is never a constant
# says: At first the int is a constant.
# earns: 1.8 of 2
graphs = TRUE | {"an argument s: 2, 3, 4, 5": 1}


# %% wrong: an int of a module is a symbol
# says: An int of a module is a constant, not a symbol
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"self.k of a module: 2, 3, 4, 5": 2}


# %% wrong: an int of a module is not guarded
# says: forward reads self.k
# earns: 1.8 of 2
graphs = TRUE | {"self.k of a module: 2, 3, 4, 5": 1}


# %% wrong: only the length of a string counts
# says: A string is guarded by its value
# earns: 1.8 of 2
graphs = TRUE | {"an argument s: 'a', 'b', 'a'": 1}


# %% wrong: forgets the first string
# says: The graph for 'a' is still in the cache when
# earns: 1.8 of 2
graphs = TRUE | {"an argument s: 'a', 'b', 'a'": 3}


# %% wrong: a length becomes a symbol
# says: The length of a list never becomes a symbol
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"a list of 1, 2, 3 tensors": 2}


# %% wrong: lengths are not guarded
# says: The length of a list is guarded.
# earns: 1.8 of 2
graphs = TRUE | {"a list of 1, 2, 3 tensors": 1}


# %% wrong: forgets the first dtype
# says: The graph for float32 is still in the cache.
# earns: 1.8 of 2
graphs = TRUE | {"float32, float64, float32": 3}


# %% wrong: a dtype is not guarded
# says: The dtype is guarded.
# earns: 1.8 of 2
graphs = TRUE | {"float32, float64, float32": 1}


# %% wrong: no_grad is no guard
# says: The grad mode is part of the global state
# earns: 1.8 of 2
graphs = TRUE | {"with grad, under no_grad, with grad": 1}


# %% wrong: forgets the grad mode
# says: The first graph is still in the cache
# earns: 1.8 of 2
graphs = TRUE | {"with grad, under no_grad, with grad": 3}


# %% wrong: eval() compiles again
# says: never read self.training
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"Linear and ReLU: train(), eval(), train()": 2}


# %% wrong: every step compiles
# says: Parameters are inputs of the graph
# earns: 1.8 of 2
# lesson
graphs = TRUE | {"five steps of training": 5}


# %% wrong: backward is a graph
# says: backward() runs outside of the compiled function
# earns: 1.8 of 2
graphs = TRUE | {"five steps of training": 2}


# %% wrong: some other number
# says: It is 1. Parameters are inputs
# earns: 1.8 of 2
graphs = TRUE | {"five steps of training": 4}


# %% wrong: two are left open
# says: There is no prediction yet
# says: There is no prediction yet
# earns: 1.6 of 2
graphs = TRUE | {"sizes 5, 6, 7, 8": ..., "five steps of training": ...}


# %% wrong: a number in quotes
# says: Write a plain number of graphs in place of '2', such as 7.
# earns: 1.8 of 2
graphs = TRUE | {"sizes 5, 6, 7, 8": "2"}


# %% wrong: some other numbers
# says: It is 2.
# says: The second size makes the graph again, with a symbol
# says: An int of a module is a constant, and each value needs a graph.
# says: Lists are unrolled, and their length is guarded
# says: The dtype is guarded, and the graph for float32 is still in the cache.
# earns: 1.2 of 2
graphs = TRUE | {
    "sizes 5, 6, 7, 8": 3,
    "self.k of a module: 2, 3, 4, 5": 5,
    "a list of 1, 2, 3 tensors": 4,
    "float32, float64, float32": 4,
}
