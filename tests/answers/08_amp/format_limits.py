# corners: none

RIGHT = {
    "fp16(70000)": math.inf,
    "fp16(1e-8)": 0.0,
    "fp16(2049)": 2048.0,
    "bf16(70000)": 70144.0,
    "bf16(257)": 256.0,
    "bf16(1e-8) == 0": False,
    "bf16(1) - 0.001": 1.0,
    "fp16(1) - 0.001 < 1": True,
    "e5m2(61440)": math.inf,
    "e4m3(500)": 448.0,
}


# %% right: integers, in another order
survivors = dict(
    reversed((RIGHT | {"fp16(1e-8)": 0, "fp16(2049)": 2048, "bf16(1) - 0.001": 1, "e4m3(500)": 448}).items())
)


# %% right: numbers, inf and truth values written as strings
survivors = {name: str(value) for name, value in RIGHT.items()} | {"e5m2(61440)": "math.inf"}


# %% right: tensors computed in the notebook
bf16_one, fp16_one = torch.tensor(1.0).bfloat16(), torch.tensor(1.0).half()
survivors = {
    "fp16(70000)": torch.tensor(70000.0).half(),
    "fp16(1e-8)": torch.tensor(1e-8).half(),
    "fp16(2049)": torch.tensor(2049.0).half(),
    "bf16(70000)": torch.tensor(70000.0).bfloat16(),
    "bf16(257)": torch.tensor(257.0).bfloat16(),
    "bf16(1e-8) == 0": torch.tensor(1e-8).bfloat16() == 0,
    "bf16(1) - 0.001": bf16_one - 0.001,
    "fp16(1) - 0.001 < 1": fp16_one - 0.001 < 1,
    "e5m2(61440)": torch.tensor(61440.0).to(torch.float8_e5m2),
    "e4m3(500)": torch.tensor(500.0).to(torch.float8_e4m3fn),
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


# %% wrong: fp16 keeps 1e-8
# says: The smallest positive fp16 number is about 6e-8; 1e-8 is below half of it and becomes 0.
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"fp16(1e-8)": 1e-8}


# %% wrong: 1e-8 becomes the smallest positive number
# says: 1e-8 is below half of it and becomes 0
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(1e-8)": 2**-24}


# %% wrong: fp16 keeps 2049
# says: fp16 has 11 significant bits: odd integers above 2048 do not exist.
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(2049)": 2049.0}


# %% wrong: 2049 is rounded up
# says: rounded to the neighbour whose last bit is 0.
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(2049)": 2050.0}


# %% wrong: bf16 has the range of fp16, above
# says: bf16(70000) = inf: bf16 has the exponent of float32: neither 70000 nor 1e-8 leaves its range.
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(70000)": math.inf}


# %% wrong: bf16 keeps 70000
# says: bf16(70000) = 70000.0: bf16 has 8 significant bits: neighbours of 257 are 256 and 258
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(70000)": 70000.0}


# %% wrong: bf16 keeps 257
# says: bf16(257) = 257.0: bf16 has 8 significant bits
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"bf16(257)": 257.0}


# %% wrong: 257 is rounded up
# says: the even one if both are equally near
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(257)": 258.0}


# %% wrong: bf16 has the range of fp16, below
# says: bf16(1e-8) == 0 = True: bf16 has the exponent of float32
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(1e-8) == 0": True}


# %% wrong: the update arrives in bf16
# says: bf16(1) - 0.001 = 0.999: Just below 1 bf16 moves in steps of 1/256: a step of 0.001 is lost entirely.
# earns: 1.8 of 2
# lesson
survivors = RIGHT | {"bf16(1) - 0.001": 0.999}


# %% wrong: the update is lost in fp16, too
# says: fp16 just below 1 has spacing 1/2048, so 0.001 does survive (rounded).
# earns: 1.8 of 2
survivors = RIGHT | {"fp16(1) - 0.001 < 1": False}


# %% wrong: e5m2 keeps 61440
# says: e5m2 has an inf above 57344 (61440 rounds up)
# earns: 1.8 of 2
survivors = RIGHT | {"e5m2(61440)": 61440.0}


# %% wrong: e5m2 saturates
# says: e5m2 has an inf above 57344 (61440 rounds up)
# earns: 1.8 of 2
survivors = RIGHT | {"e5m2(61440)": 57344.0}


# %% wrong: e4m3 has an inf
# says: e4m3(500) = inf: e5m2 has an inf above 57344 (61440 rounds up); e4m3fn has no inf
# earns: 1.8 of 2
survivors = RIGHT | {"e4m3(500)": math.inf}


# %% wrong: a number where True or False is asked for
# says: The question is answered by True or False.
# earns: 1.8 of 2
survivors = RIGHT | {"bf16(1e-8) == 0": 0}


# %% wrong: one line left open
# says: There is no prediction yet
# earns: 1.8 of 2
survivors = RIGHT | {"e4m3(500)": ...}


# %% wrong: a list in place of the dict
# says: The answer must be a dict from item names to predictions
# earns: 0 of 2
survivors = list(RIGHT.values())


# %% wrong: nothing right
# says: None of the items is right yet.
# earns: 0 of 2
survivors = dict.fromkeys(RIGHT, "no idea")
