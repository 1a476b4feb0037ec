"""What exports take apart is worked out once; torch's operations are then as they were, and new ones are seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_impls import op_implementations_dict as rules

from tests.exported import bytes_of
from torchkata.quick_exports import quick_exports

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

LAYERS = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.LayerNorm(3)).eval()


def exported(model: nn.Module = LAYERS) -> bytes:
    example, sizes = (torch.ones(2, 4),), ({0: "batch"},)
    return bytes_of(torch.onnx.export(model, example, dynamic_shapes=sizes, verbose=False))


def operations() -> list[OpOverload]:
    packets = [getattr(torch.ops.aten, name) for name in torch.ops.aten]
    return [getattr(packet, name) for packet in packets for name in packet.overloads()]


def test_the_second_export_comes_to_the_same_and_asks_no_more(monkeypatch):
    slow, asked = exported(), []

    def asking(module, name):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **kw: asked.append(name) or real(*args, **kw))

    with quick_exports():
        first = exported()
        asking(torch._decomp, "get_decompositions")
        asking(torch._decomp, "_core_aten_decompositions_post_autograd")
        asking(torch.export.exported_program, "_get_decomp_for_cia")
        second = exported()
    assert first == second == slow
    assert not asked
    exported()
    assert len(asked) > 500, "torch asks for each operation"


def test_operations_are_as_before():
    exported()
    before = {one: (one.py_kernels, one.py_kernels.copy()) for one in operations()}
    ruled = set(rules)
    with quick_exports():
        exported(), exported(), exported()
    assert all(one.py_kernels is own and own == kernels for one, (own, kernels) in before.items())
    assert set(rules) == ruled


def test_a_decomposition_registered_between_two_exports_is_seen(monkeypatch):
    class Own(nn.Module):
        def forward(self, x):
            return torch.ops.katas.thrice(x)

    with quick_exports(), torch.library._scoped_library("katas", "FRAGMENT") as library:
        exported()
        library.define("thrice(Tensor x) -> Tensor")
        library.impl("thrice", torch.empty_like, "CompositeExplicitAutograd")
        with pytest.raises(torch.onnx.errors.OnnxExporterError):
            exported(Own().eval())
        monkeypatch.setitem(torch._decomp.decomposition_table, torch.ops.katas.thrice.default, lambda x: x * 3)
        assert b"Mul" in exported(Own().eval())
