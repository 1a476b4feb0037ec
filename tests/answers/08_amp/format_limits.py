# corners: none

RIGHT = {
    "fp16(70000)": math.inf,
    "fp16(4e-8) == 0": False,
    "fp16(2051)": 2052.0,
    "bf16(70000)": 70144.0,
    "bf16(259)": 260.0,
    "bf16(1e-8) == 0": False,
    "bf16(1) - 0.003": 0.99609375,
    "fp16(1) - 0.001 < 1": True,
    "e5m2(61440)": math.inf,
    "e4m3(17)": 16.0,
}


# %% right: integers, in another order
survivors = dict(
    reversed((RIGHT | {"fp16(2051)": 2052, "bf16(259)": 260, "bf16(1) - 0.003": 255 / 256, "e4m3(17)": 16}).items())
)


# %% right: numbers, inf and truth values written as strings
survivors = {name: str(value) for name, value in RIGHT.items()} | {"e5m2(61440)": "math.inf"}


# %% right: tensors computed in the notebook
bf16_one, fp16_one = torch.tensor(1.0).bfloat16(), torch.tensor(1.0).half()
survivors = {
    "fp16(70000)": torch.tensor(70000.0).half(),
    "fp16(4e-8) == 0": torch.tensor(4e-8).half() == 0,
    "fp16(2051)": torch.tensor(2051.0).half(),
    "bf16(70000)": torch.tensor(70000.0).bfloat16(),
    "bf16(259)": torch.tensor(259.0).bfloat16(),
    "bf16(1e-8) == 0": torch.tensor(1e-8).bfloat16() == 0,
    "bf16(1) - 0.003": bf16_one - 0.003,
    "fp16(1) - 0.001 < 1": fp16_one - 0.001 < 1,
    "e5m2(61440)": torch.tensor(61440.0).to(torch.float8_e5m2),
    "e4m3(17)": torch.tensor(17.0).to(torch.float8_e4m3fn),
}


# %% wrong: fp16 has the range of float32
# says: fp16(70000) = 70000.0: fp16 ends at 65504; above (from 65520 on, after rounding) it is inf.
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"fp16(70000)": 70000.0}


# %% wrong: fp16 saturates
# says: fp16(70000) = 65504: fp16 ends at 65504; above (from 65520 on, after rounding) it is inf.
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(70000)": 65504}


# %% wrong: everything below the smallest number becomes 0
# says: 4e-8 is nearer to it than to 0; only what is below half of it becomes 0.
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"fp16(4e-8) == 0": True}


# %% wrong: fp16 keeps 2051
# says: fp16 has 11 significant bits: odd integers above 2048 do not exist.
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(2051)": 2051.0}


# %% wrong: 2051 is rounded down
# says: 2051 is half-way between 2050 and 2052, and is rounded to the neighbour whose last bit is 0.
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(2051)": 2050.0}


# %% wrong: bf16 has the range of fp16, above
# says: bf16(70000) = inf: bf16 has the exponent of float32: neither 70000 nor 1e-8 leaves its range.
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(70000)": math.inf}


# %% wrong: bf16 keeps 70000
# says: bf16(70000) = 70000.0: bf16 has 8 significant bits: neighbours of 259 are 258 and 260
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(70000)": 70000.0}


# %% wrong: bf16 keeps 259
# says: bf16(259) = 259.0: bf16 has 8 significant bits
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"bf16(259)": 259.0}


# %% wrong: 259 is rounded down
# says: the even one if both are equally near
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(259)": 258.0}


# %% wrong: bf16 has the range of fp16, below
# says: bf16(1e-8) == 0 = True: bf16 has the exponent of float32
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(1e-8) == 0": True}


# %% wrong: the update arrives in bf16
# says: bf16(1) - 0.003 = 0.997: Just below 1 bf16 moves in steps of 1/256, nearly 0.004.
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"bf16(1) - 0.003": 0.997}


# %% wrong: the update is lost in bf16
# says: 0.003 is more than half a step, so it becomes a whole one
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(1) - 0.003": 1.0}


# %% wrong: the update is lost in fp16, too
# says: fp16 just below 1 has spacing 1/2048, so 0.001 does survive (rounded).
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(1) - 0.001 < 1": False}


# %% wrong: e5m2 keeps 61440
# says: e5m2 ends at 57344, and after it comes inf. 61440 is half-way to the next number, 65536, and rounds up.
# earns: 1.8 of 2
survivors = RIGHT | {"e5m2(61440)": 61440.0}


# %% wrong: e5m2 saturates
# says: e5m2 ends at 57344, and after it comes inf. 61440 is half-way to the next number, 65536, and rounds up.
# earns: 1.8 of 2
survivors = RIGHT | {"e5m2(61440)": 57344.0}


# %% wrong: e4m3 keeps 17
# says: e4m3(17) = 17: e4m3 has 3 fraction bits, so above 16 its numbers are 2 apart.
# earns: 1.8 of 2
survivors = RIGHT | {"e4m3(17)": 17}


# %% wrong: 17 is rounded up
# says: 17 is half-way between 16 and 18, and is rounded to the neighbour whose last bit is 0.
# earns: 1.8 of 2
survivors = RIGHT | {"e4m3(17)": 18}


# %% wrong: a number where True or False is asked for
# says: The question is answered by True or False.
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(1e-8) == 0": 0}


# %% wrong: one line left open
# says: There is no prediction yet
# earns: 1.8 of 2
survivors = RIGHT | {"e4m3(17)": ...}


# %% wrong: a list in place of the dict
# says: The answer must be a dict from item names to predictions
# earns: 0 of 2
survivors = list(RIGHT.values())


# %% wrong: nothing right
# says: None of the items is right yet.
# earns: 0 of 2
survivors = dict.fromkeys(RIGHT, "no idea")
