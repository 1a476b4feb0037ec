"""What autocast does with an operation: torch is asked, and its state stays as it was."""

import pytest
import torch
import torch.nn.functional as F

from torchkata.casting import kind_of

SQUARE = (4, 4)


@pytest.mark.parametrize(
    ("device", "call", "shapes", "kind"),
    [
        ("cpu", torch.matmul, (SQUARE, SQUARE), "lower"),
        ("cpu", torch.sum, (SQUARE,), "keeps"),
        ("cpu", torch.prod, (SQUARE,), "float32"),
        ("cpu", torch.add, (SQUARE, SQUARE), "promotes"),
        ("cpu", torch.dot, ((4,), (4,)), "keeps"),
        ("cuda", torch.sum, (SQUARE,), "float32"),
        ("cuda", torch.mv, (SQUARE, (4,)), "lower"),
        ("cuda", torch.dot, ((4,), (4,)), "promotes"),
        ("cuda", F.binary_cross_entropy, (SQUARE, SQUARE), "refused"),
    ],
)
def test_kinds(device, call, shapes, kind):
    assert kind_of(device, call, *shapes) == kind


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_callers_region_stays(device):
    for before in (False, True):
        torch.set_autocast_enabled(device, before)
        try:
            kind_of(device, torch.matmul, SQUARE, SQUARE)
            assert torch.is_autocast_enabled(device) is before
        finally:
            torch.set_autocast_enabled(device, False)
