"""Exports share what does not change between two of them, and come to the same."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from torch import nn

from torchkata.quick_exports import quicken_exports

pytest.importorskip("onnx")
onnxscript = pytest.importorskip("onnxscript")


def exported(**options: object) -> bytes:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.LayerNorm(3)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(model, (torch.ones(2, 4),), verbose=False, **options).model_proto.SerializeToString()


@pytest.fixture(scope="module")
def modules():
    """Those of torch in which something is replaced, as torch has them; afterwards all is as it was."""
    from torch._export import utils
    from torch.export import decomp_utils, exported_program
    from torch.onnx._internal._lazy_import import onnxscript_apis
    from torch.onnx._internal.exporter import _schemas

    every = utils, decomp_utils, exported_program, onnxscript_apis, _schemas
    before = [dict(vars(module)) for module in every]
    vars(onnxscript_apis).pop("get_torchlib_ops", None)
    for user in (decomp_utils, exported_program):
        user._collect_all_valid_cia_ops = inspect.unwrap(user._collect_all_valid_cia_ops)
    _schemas.op_signature_from_function = inspect.unwrap(_schemas.op_signature_from_function)
    yield every
    for module, names in zip(every, before, strict=True):
        for name in vars(module).keys() - names.keys():
            delattr(module, name)
        vars(module).update(names)


def test_exports_come_to_the_same_and_work_less(modules, monkeypatch):
    utils, *_, schemas = modules
    looks = []
    look = utils._materialize_cpp_cia_ops
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: looks.append(look()))
    slow = exported()
    looks_of_torch, looks[:] = len(looks), []
    quicken_exports()
    quicken_exports()
    quick = [exported() for _ in range(2)]
    assert quick == [slow] * 2
    signatures = schemas.op_signature_from_function
    assert signatures.cache_info().hits >= signatures.cache_info().misses > 100, "the second export finds them"
    assert looks_of_torch > 10 * len(looks) / len(quick) > 0
    assert not hasattr(inspect.unwrap(signatures), "cache_info"), "quickened once"


def test_a_translation_of_ones_own_is_found(modules):
    quicken_exports()

    def own_gelu(x: onnxscript.FLOAT, approximate: str = "none"):
        return onnxscript.opset18.Softsign(x)

    own = exported(custom_translation_table={torch.ops.aten.gelu.default: own_gelu})
    assert b"Gelu" in exported() and b"Gelu" not in own and b"Softsign" in own
