# corners: none

import math

import torch

right = {
    "same_label": False,
    "index_7": False,
    "gpu": True,
    "dropped_to": "cpu",
    "module_to": "meta",
    "noop_to": True,
    "int_literal": "int64",
    "bf16_513": 512.0,
    "half_70000": math.inf,
    "cpu_0": False,
}


# %% right: dtypes and infinity in other spellings
answers = right | {"int_literal": torch.int64, "half_70000": float("inf")}


# %% right: a whole number as int, the dtype with its prefix, infinity as text
answers = right | {"bf16_513": 512, "int_literal": "torch.int64", "half_70000": "inf"}


# %% right: numbers as tensors, an extra item
answers = right | {"bf16_513": torch.tensor(512.0), "half_70000": torch.tensor(70000.0).half(), "notes": "easy"}


# %% wrong: cuda and cuda:0 are the same label
# says: same_label = True: torch.device("cuda") has index None, "cuda:0" has index 0: as labels they differ
# earns: 1.8 of 2
# lesson
answers = right | {"same_label": True}


# %% wrong: a label is refused when there is no such card
# says: index_7 = True: A device object is only a label: torch.device("cuda:7") is built without asking
# earns: 1.8 of 2
answers = right | {"index_7": True}


# %% wrong: gpu is a device type
# says: gpu = False: "gpu" is no device type. The name is "cuda"
# earns: 1.8 of 2
answers = right | {"gpu": False}


# %% wrong: Tensor.to works in place
# says: dropped_to = 'meta': Tensor.to returns a new tensor and leaves x where it was; here the result was dropped.
# earns: 1.8 of 2
# lesson
answers = right | {"dropped_to": "meta"}


# %% wrong: a device object for its type
# says: The item asks for the device's `.type`, which is a string.
# earns: 1.8 of 2
answers = right | {"dropped_to": torch.device("cpu")}


# %% wrong: Module.to returns a moved copy
# says: module_to = 'cpu': Module.to moves the parameters of the module itself (in place) and returns the module
# earns: 1.8 of 2
answers = right | {"module_to": "cpu"}


# %% wrong: to always copies
# says: noop_to = False: When device and dtype already match, Tensor.to returns the very same object, no copy.
# earns: 1.8 of 2
answers = right | {"noop_to": False}


# %% wrong: whole numbers follow the default dtype
# says: int_literal = 'float64': The default dtype concerns floating point creation only
# earns: 1.8 of 2
answers = right | {"int_literal": "float64"}


# %% wrong: ints are 32 bits
# says: int_literal = torch.int32: Python ints become int64 tensors.
# earns: 1.8 of 2
answers = right | {"int_literal": torch.int32}


# %% wrong: bfloat16 holds 513
# says: bf16_513 = 513.0: bfloat16 stores 7 fraction bits: between 512 and 1024 it has only multiples of 4
# earns: 1.8 of 2
# lesson
answers = right | {"bf16_513": 513.0}


# %% wrong: the step of the power of two below
# says: Between 256 and 512 bfloat16 has the even numbers; at 512 the step doubles.
# earns: 1.8 of 2
answers = right | {"bf16_513": 514.0}


# %% wrong: rounds 513 up
# says: 513 is nearer to 512 than to 516.
# earns: 1.8 of 2
answers = right | {"bf16_513": 516}


# %% wrong: text for a number
# says: bf16_513 = '512': The item asks for a number, and this is text.
# earns: 1.8 of 2
answers = right | {"bf16_513": "512"}


# %% wrong: bfloat16 overflows like an 8-bit number
# says: bfloat16 has the range of float32; what it lacks is digits.
# earns: 1.8 of 2
answers = right | {"bf16_513": math.inf}


# %% wrong: float16 clamps
# says: half_70000 = 65504.0: float16 ends at 65504, so 70000 overflows to infinity (it is not clamped).
# earns: 1.8 of 2
answers = right | {"half_70000": 65504.0}


# %% wrong: float16 has the range of bfloat16
# says: half_70000 = 70144: That is what bfloat16 makes of it.
# earns: 1.8 of 2
answers = right | {"half_70000": 70144}


# %% wrong: overflow gives nan
# says: half_70000 = nan: Too large a number becomes infinity.
# earns: 1.8 of 2
answers = right | {"half_70000": math.nan}


# %% wrong: a CPU tensor keeps the index of its label
# says: cpu_0 = True: The device of a tensor is concrete, and a CPU tensor says `cpu`
# earns: 1.8 of 2
# lesson
answers = right | {"cpu_0": True}


# %% wrong: a word for a question
# says: gpu = 'yes': The question is answered by True or False.
# earns: 1.8 of 2
answers = right | {"gpu": "yes"}


# %% wrong: one item left as ...
# says: same_label = ...: There is no prediction yet
# earns: 1.8 of 2
answers = right | {"same_label": ...}


# %% wrong: one item is missing
# says: noop_to = ...: There is no prediction yet
# earns: 1.8 of 2
answers = {name: value for name, value in right.items() if name != "noop_to"}


# %% wrong: a list of values
# says: must be a dict from item names
# earns: 0 of 2
answers = list(right.values())


# %% wrong: nothing is right
# says: None of the items is right yet.
# earns: 0 of 2
answers = {name: None for name in right}
