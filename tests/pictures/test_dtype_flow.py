"""Which dtypes flow under autocast: torch is asked."""

import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import dtype_flow


def net_of_four():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))


def test_dtype_trace():
    net = net_of_four()
    trace = dtype_flow.dtype_trace(net, torch.ones(2, 4))
    assert [stage.node for stage in trace] == ["x", "Linear", "LayerNorm", "ReLU", "Linear", "mse_loss"]
    assert [stage.forward for stage in trace] == ["float32", *["bfloat16"] * 4, "float32"]
    assert [stage.backward for stage in trace] == ["float32", *["bfloat16"] * 4, "float32"]
    assert {(stage.weight, stage.weight_grad) for stage in trace} == {("", ""), ("float32", "float32")}
    assert all(parameter.grad is None for parameter in net.parameters())


def test_dtype_trace_asks_torch():
    trace = dtype_flow.dtype_trace(
        nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), torch.ones(2, 4), "cpu", torch.float16
    )
    assert [stage.forward for stage in trace] == ["float32", "float16", "float16", "float32"]


GALLERY = drawn.Gallery({"flow": lambda: dtype_flow.dtype_flow(net_of_four(), torch.ones(2, 4))})


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "Linear: forward bfloat16, gradient bfloat16; weight float32" in GALLERY["flow"].alt
