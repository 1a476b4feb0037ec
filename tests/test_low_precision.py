"""Whether bfloat16 pays on this processor."""

import torch

from torchkata.low_precision import bfloat16_speedup


def test_the_speed_of_bfloat16_is_measured_once_and_leaves_the_threads_as_they_are():
    before = torch.get_num_threads()
    first = bfloat16_speedup()
    assert 0 < first < 1000 and bfloat16_speedup() == first and torch.get_num_threads() == before
