"""The kinds of tensors that are alive in a training step, and FLOPs of products."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from torchkata.instruments.counted_gpt import GPT
from torchkata.instruments.products import ProductCounter
from torchkata.instruments.step_film import KINDS, OPTIMIZERS, memory_film, peak_of

PARAMETERS = 8 * (128 * 128 + 128) * 4


def test_a_small_batch_peaks_in_the_step_and_a_large_one_in_backward():
    small, large = memory_film(16), memory_film(1024)
    assert small[peak_of(small)].phase == "step"
    assert large[peak_of(large)].phase == "backward"


def test_checkpointing_helps_the_large_batch_only():
    def peak(batch, segments):
        film = memory_film(batch, segments)
        return film[peak_of(film)].total

    assert peak(1024, 4) < peak(1024, 0) and peak(16, 4) == peak(16, 0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_parameters_gradients_and_state_are_what_they_should_be(optimizer):
    last = memory_film(16, 0, optimizer)[-1]
    assert set(last.bytes) == set(KINDS)
    assert last.bytes["parameters"] == last.bytes["gradients"] == PARAMETERS
    assert 0 <= last.bytes["state"] - (0 if optimizer == "SGD" else 2 * PARAMETERS) <= 64
    assert last.bytes["activations"] == 0


def test_the_phases_come_in_order():
    phases = [frame.phase for frame in memory_film(16)]
    assert phases == sorted(phases, key=["forward", "backward", "step"].index)


def test_the_products_are_those_of_flop_counter_mode():
    model, ids = GPT(11, 8, 2, 20, 2), torch.zeros(5, 6, dtype=torch.int64)
    model.blocks[0].requires_grad_(False)
    counted = {}
    for name, counter in (("ours", ProductCounter()), ("torch's", FlopCounterMode(display=False))):
        with counter:
            out = model(ids)
            out.backward(torch.ones_like(out))
        counted[name] = counter.flops if name == "ours" else counter.get_total_flops()
    assert counted["ours"] == counted["torch's"] > 0


def test_what_is_no_product_counts_nothing():
    with ProductCounter() as counter:
        nn.Embedding(10, 4)(torch.tensor([1, 2])).exp().sum().backward()
    assert counter.flops == 0
