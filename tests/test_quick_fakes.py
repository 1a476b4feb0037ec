"""Of tensors without numbers that are alike, torch makes a second one once; what is remembered is the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.exported import bytes_of
from torchkata.quick_exports import quick_exports

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")


class Weighted(nn.Module):
    def forward(self, x):
        steps = torch.arange(x.shape[1]).to(x)
        return ((steps[:, None] - steps).clamp(min=0).softmax(1).tril() @ x).transpose(0, 1)


class Chosen(nn.Module):
    """How many come out depends on the numbers."""

    def forward(self, x):
        return (x[x > 0] * 2).exp().sum()


def exported(model: nn.Module) -> bytes:
    example, sizes = (torch.ones(2, 4, 3),), ({0: "batch", 1: "time"},)
    return bytes_of(torch.onnx.export(model, example, dynamic_shapes=sizes, verbose=False))


@pytest.mark.parametrize("model", [Weighted().eval(), Chosen().eval()])
def test_the_file_is_the_same(model, monkeypatch):
    made, slow = [], exported(model)
    note = FakeTensorMode._get_output_info_for_cache_entry
    make = FakeTensorMode._output_from_cache_entry
    monkeypatch.setattr(FakeTensorMode, "_output_from_cache_entry", lambda *args: made.append(0) or make(*args))
    assert exported(model) == slow
    by_torch = len(made)
    with quick_exports():
        assert exported(model) == slow
        made.clear()
        assert exported(model) == slow
    assert len(made) < by_torch or isinstance(model, Chosen)
    with torch.inference_mode(), quick_exports():
        assert exported(model)
    assert FakeTensorMode._get_output_info_for_cache_entry is note
