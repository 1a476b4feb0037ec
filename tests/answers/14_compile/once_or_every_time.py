# corners: none
TRUE = {
    "print in f": 3,
    "log.append in f, log is a list from outside": 3,
    "log.append in a function under assume_constant_result": 1,
    "log.append in the backend": 1,
    "log.append in what the backend returns": 3,
    "a forward hook, registered before the first call": 3,
    "a forward hook, registered after the first call": 0,
    "a hook on lin.weight, registered after the first call": 3,
    "different numbers from random.randint in f": 3,
    "log.append in f, under `if not torch.compiler.is_compiling():`": 0,
}


# %% right: floats
times = {name: float(number) for name, number in TRUE.items()}


# %% right: NumPy numbers, in another order
times = {name: __import__("numpy").int64(number) for name, number in reversed(TRUE.items())}


# %% wrong: prints while tracing only
# says: The graph breaks at print
# earns: 0.9 of 1
# lesson
times = TRUE | {"print in f": 1}


# %% wrong: never prints
# says: The graph breaks at print
# earns: 0.9 of 1
times = TRUE | {"print in f": 0}


# %% wrong: appends while tracing only
# says: done again after every run of the graph
# earns: 0.9 of 1
# lesson
times = TRUE | {"log.append in f, log is a list from outside": 1}


# %% wrong: a promise is kept in every call
# says: The decorator is a promise
# earns: 0.9 of 1
times = TRUE | {"log.append in a function under assume_constant_result": 3}


# %% wrong: the backend runs in each call
# says: The backend is called once for each graph
# earns: 0.9 of 1
# lesson
times = TRUE | {"log.append in the backend": 3}


# %% wrong: the backend's callable runs once
# says: What the backend returns runs in every call.
# earns: 0.9 of 1
# lesson
times = TRUE | {"log.append in what the backend returns": 1}


# %% wrong: hooks are skipped
# says: A hook that is there at the first call is part
# earns: 0.9 of 1
times = TRUE | {"a forward hook, registered before the first call": 0}


# %% wrong: a hook is traced once
# says: A hook that is there at the first call is part
# earns: 0.9 of 1
times = TRUE | {"a forward hook, registered before the first call": 1}


# %% wrong: late hooks work
# says: hooks of modules are not guarded
# earns: 0.9 of 1
# lesson
times = TRUE | {"a forward hook, registered after the first call": 3}


# %% wrong: late hooks of weights are overlooked
# says: A hook on a tensor sits where autograd
# earns: 0.9 of 1
times = TRUE | {"a hook on lin.weight, registered after the first call": 0}


# %% wrong: the same number each time
# says: called again before every run
# earns: 0.9 of 1
# lesson
times = TRUE | {"different numbers from random.randint in f": 1}


# %% wrong: is_compiling is asked in each call
# says: is_compiling() is True while the function is traced
# earns: 0.9 of 1
# lesson
times = TRUE | {"log.append in f, under `if not torch.compiler.is_compiling():`": 3}


# %% wrong: is_compiling is False after the first call
# says: is_compiling() is True while the function is traced
# earns: 0.9 of 1
times = TRUE | {"log.append in f, under `if not torch.compiler.is_compiling():`": 2}


# %% wrong: one is left open
# says: There is no prediction yet
# earns: 0.9 of 1
times = TRUE | {"print in f": ...}


# %% wrong: words
# says: Write a plain number in place of 'always', such as 7.
# earns: 0.9 of 1
times = TRUE | {"print in f": "always"}
