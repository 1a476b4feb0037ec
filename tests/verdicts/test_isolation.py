"""Settings of the whole process: an answer finds torch's defaults, and what it sets ends with its observation."""

import pytest
import torch

from torchkata.verdicts import observe
from torchkata.verdicts.isolation import SWITCHES, Switch

OTHER = {
    "default dtype": torch.float64,
    "threads": 2,
    "deterministic algorithms": (True, True),
    "anomaly mode": (True, False),
    "warn always": True,
    "matmul precision": "medium",
    "recursion limit": 1234,
    "autocast cache": False,
    "overwrite_module_params on conversion": True,
    "swap_module_params on conversion": True,
    "autocast, cpu": True,
    "autocast dtype, cpu": torch.float16,
    "autocast, cuda": True,
    "autocast dtype, cuda": torch.bfloat16,
}


def test_there_is_another_value_for_each_switch():
    assert OTHER.keys() == SWITCHES.keys()


@pytest.mark.parametrize("name, switch", SWITCHES.items(), ids=SWITCHES)
def test_a_setting_neither_reaches_an_answer_nor_outlives_it(name: str, switch: Switch):
    before, other = switch.read(), OTHER[name]

    def answer() -> bool:
        found = switch.read()
        switch.write(other)
        return found == switch.default or switch.default is None

    try:
        observe(answer).returns(True)
        assert switch.read() == before
        switch.write(other)
        observe(answer).returns(True)
        assert switch.read() == other
    finally:
        switch.write(before)
