# corners: none

RIGHT = {
    "fp16(4e-8) == 0": False,
    "fp16(2051)": 2052.0,
    "bf16(259)": 260.0,
    "bf16(1e-8) == 0": False,
    "bf16(1) - 0.003": 0.99609375,
}


# %% right: integers, in another order
survivors = dict(reversed((RIGHT | {"fp16(2051)": 2052, "bf16(259)": 260, "bf16(1) - 0.003": 255 / 256}).items()))


# %% right: numbers and truth values written as strings, and an item that is no longer asked for
survivors = {name: str(value) for name, value in RIGHT.items()} | {"e5m2(61440)": "math.inf"}


# %% right: tensors computed in the notebook
survivors = {
    "fp16(4e-8) == 0": torch.tensor(4e-8).half() == 0,
    "fp16(2051)": torch.tensor(2051.0).half(),
    "bf16(259)": torch.tensor(259.0).bfloat16(),
    "bf16(1e-8) == 0": torch.tensor(1e-8).bfloat16() == 0,
    "bf16(1) - 0.003": torch.tensor(1.0).bfloat16() - 0.003,
}


# %% wrong: everything below the smallest number becomes 0
# says: 4e-8 is nearer to it than to 0; only what is at most half of it becomes 0.
# earns: 0.8 of 1
# lesson
survivors = RIGHT | {"fp16(4e-8) == 0": True}


# %% wrong: fp16 keeps 2051
# says: fp16 has 11 significant bits: odd integers above 2048 do not exist.
# earns: 0.8 of 1
survivors = RIGHT | {"fp16(2051)": 2051.0}


# %% wrong: 2051 is rounded down
# says: 2051 is half-way between 2050 and 2052, and is rounded to the neighbour whose last bit is 0.
# earns: 0.8 of 1
survivors = RIGHT | {"fp16(2051)": 2050.0}


# %% wrong: bf16 keeps 259
# says: bf16(259) = 259.0: bf16 has 8 significant bits
# earns: 0.8 of 1
# lesson
survivors = RIGHT | {"bf16(259)": 259.0}


# %% wrong: 259 is rounded down
# says: the even one if both are equally near
# earns: 0.8 of 1
survivors = RIGHT | {"bf16(259)": 258.0}


# %% wrong: bf16 has the range of fp16, below
# says: bf16(1e-8) == 0 = True: bf16 has the exponent of float32
# earns: 0.8 of 1
survivors = RIGHT | {"bf16(1e-8) == 0": True}


# %% wrong: the update arrives in bf16
# says: bf16(1) - 0.003 = 0.997: Just below 1 bf16 moves in steps of 1/256, nearly 0.004.
# earns: 0.8 of 1
# lesson
survivors = RIGHT | {"bf16(1) - 0.003": 0.997}


# %% wrong: the update is lost in bf16
# says: 0.003 is more than half a step, so it becomes a whole one
# earns: 0.8 of 1
survivors = RIGHT | {"bf16(1) - 0.003": 1.0}


# %% wrong: a number where True or False is asked for
# says: The question is answered by True or False.
# earns: 0.8 of 1
survivors = RIGHT | {"bf16(1e-8) == 0": 0}


# %% wrong: one line left open
# says: There is no prediction yet
# earns: 0.8 of 1
survivors = RIGHT | {"bf16(259)": ...}


# %% wrong: a list in place of the dict
# says: The answer must be a dict from item names to predictions
# earns: 0 of 1
survivors = list(RIGHT.values())


# %% wrong: nothing right
# says: None of the items is right yet.
# earns: 0 of 1
survivors = dict.fromkeys(RIGHT, "no idea")
