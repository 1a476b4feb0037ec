"""Exports of checks share what does not change between two, and come to the same; a learner's own are torch's."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from torch import nn

from tests.exported import bytes_of
from torchkata import quick_decompositions
from torchkata.quick_exports import export_once, quick_exports, refuse_once

pytest.importorskip("onnx")
onnxscript = pytest.importorskip("onnxscript")


def exported(**options: object) -> bytes:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.LayerNorm(3)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bytes_of(torch.onnx.export(model, (torch.ones(2, 4),), verbose=False, **options))


@pytest.fixture
def modules():
    """Those of torch in which something is replaced; afterwards they hold what they held before."""
    from torch._export import utils
    from torch.export import decomp_utils, exported_program
    from torch.fx import config
    from torch.onnx._internal._lazy_import import onnxscript_apis
    from torch.onnx._internal.exporter import _decomp, _schemas

    every = utils, decomp_utils, exported_program, _decomp, config, _schemas, onnxscript_apis
    exported()  # it loads more
    before = [dict(vars(module)) for module in every]
    yield every
    for module, names in zip(every, before, strict=True):
        now = vars(module)
        assert now.keys() == names.keys() and all(now[name] is names[name] for name in names), module


def test_exports_come_to_the_same_and_work_less(modules, monkeypatch):
    utils, *_, schemas, _ = modules
    quick_decompositions._kept.cache_clear()  # whatever was exported before
    looks = []
    look = utils._materialize_cpp_cia_ops
    with monkeypatch.context() as patch:
        patch.setattr(utils, "_materialize_cpp_cia_ops", lambda: looks.append(look()))
        slow = exported()
        looks_of_torch, looks[:] = len(looks), []
        with quick_exports():
            first = exported()
        with quick_exports(), quick_exports():
            second = exported()
            signatures = schemas.op_signature_from_function
    assert [first, second] == [slow] * 2
    assert signatures.cache_info().hits >= signatures.cache_info().misses > 100, "the second export finds them"
    assert looks_of_torch > 10 * len(looks) / 2 > 0
    assert not hasattr(inspect.unwrap(signatures), "cache_info"), "quickened once"


def test_a_translation_of_ones_own_is_found(modules):
    def own_gelu(x: onnxscript.FLOAT, approximate: str = "none"):
        return onnxscript.opset18.Softsign(x)

    with quick_exports():
        own = exported(custom_translation_table={torch.ops.aten.gelu.default: own_gelu})
        assert b"Gelu" in exported() and b"Gelu" not in own and b"Softsign" in own


def test_an_export_that_is_refused_leaves_nothing_behind(modules):
    class OnValues(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with quick_exports(), warnings.catch_warnings(), pytest.raises(torch.onnx.errors.OnnxExporterError):
        warnings.simplefilter("ignore")
        torch.onnx.export(OnValues(), (torch.ones(2),), verbose=False)


def test_the_exports_that_load_everything_leave_nothing_else_behind(modules, capfd):
    torch.manual_seed(3)
    dice = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export_once()
        refuse_once()
    assert torch.equal(torch.get_rng_state(), dice) and capfd.readouterr() == ("", "")
