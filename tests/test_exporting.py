"""What the chapter on ONNX uses to keep the exporter quiet and to show its refusals and warnings."""

import io
import logging
import warnings

import pytest
import torch
from torch import nn

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from torchkata.exporting import LOGGERS, export_warnings_of, quiet_exporter, refusal_of


@pytest.fixture(autouse=True)
def levels():
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    with warnings.catch_warnings():
        yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


class OnValues(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x * 3


def export(model, **options):
    return torch.onnx.export(model, (torch.ones(2, 3),), **{"verbose": False} | options)


def test_a_quiet_export_says_nothing_and_finds_its_translations_again(capfd):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet_exporter()
        quiet_exporter()
        programs = [export(nn.Linear(3, 2).eval()) for _ in range(2)]
    assert not caught
    assert capfd.readouterr() == ("", "")
    assert [[node.op_type for node in program.model_proto.graph.node] for program in programs] == [["Gemm"]] * 2


def test_a_refusal_is_told_with_its_causes_and_nothing_else(capfd):
    quiet_exporter()
    refusal_of(lambda: export(OnValues().eval()), lines=1)
    out, err = capfd.readouterr()
    assert out.startswith("TorchExportError: Failed to export the model")
    assert "\ncaused by GuardOnDataDependentSymNode: Could not guard" in out
    assert "def forward" not in out and "\x1b" not in out and err == ""
    assert max(map(len, out.splitlines())) <= 96


def test_warnings_about_the_model_are_told_and_torchs_own_is_not(capsys):
    export_warnings_of(lambda: export(nn.Dropout()))
    export_warnings_of(lambda: export(nn.Linear(3, 2).eval(), f=io.BytesIO(), dynamo=False))
    out = capsys.readouterr().out
    assert out.startswith("UserWarning: Exporting a model while it is in training mode.")
    assert "\nDeprecationWarning: You are using the legacy TorchScript-based ONNX export." in out
    assert "LeafSpec" not in out


def test_what_was_expected_and_did_not_come_is_an_error():
    with pytest.raises(AssertionError, match="an error was expected"):
        refusal_of(lambda: None)
    with pytest.raises(AssertionError, match="a warning was expected"):
        export_warnings_of(lambda: None)
