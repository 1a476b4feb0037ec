"""Which calls would make Python wait for a GPU."""

import pytest
import torch
import torch.nn.functional as F

from torchkata.instruments.waits import waits

X = torch.tensor([1.0, -2.0, 3.0])
LABELS = torch.tensor([0, 2, 1])


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (lambda: X.sum().item(), {"item": 1}),
        (lambda: 1 if X.sum() > 0 else 0, {"item": 1}),
        (lambda: float(X[0]), {"item": 1}),
        (lambda: X.tolist(), {"tolist": 1}),
        (lambda: f"{X[0]:.2f}", {"__format__": 1}),
        (lambda: repr(X), {"__repr__": 1}),
        (lambda: X.cpu(), {"cpu": 1}),
        (lambda: X.numpy(), {"numpy": 1}),
        (lambda: X.to("cpu"), {"to cpu": 1}),
        (lambda: X.to(device="cpu:0", non_blocking=True), {"to cpu": 1}),
        (lambda: torch.as_tensor(X, device="cpu"), {"as_tensor": 1}),
        (lambda: X.nonzero(), {"nonzero": 1}),
        (lambda: X[X > 0], {"x[mask]": 1}),
        (lambda: X.masked_select(X > 0), {"masked_select": 1}),
        (lambda: X.unique(), {"_unique2": 1}),
        (lambda: torch.equal(X, X), {"equal": 1}),
        (lambda: F.one_hot(LABELS), {"one_hot": 1}),
        (lambda: torch.repeat_interleave(LABELS), {"repeat_interleave": 1}),
    ],
)
def test_what_waits_is_counted_once(call, seen):
    assert dict(waits(call)[1]) == seen


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.where(X > 0, X, 0.0).sum(),
        lambda: X.masked_fill(X > 0, 1.0),
        lambda: F.cross_entropy(torch.eye(3), LABELS, ignore_index=-100),
        lambda: F.one_hot(LABELS, 3),
        lambda: X.to(torch.device("cpu")),
        lambda: X.clone().index_put_([LABELS], X),
        lambda: X.clone().__setitem__(X > 0, 1.0),
        lambda: torch.tensor([1.0, 2.0]),
        lambda: (X.shape, X.dtype, len(X)),
    ],
)
def test_what_does_not_wait_is_not_counted(call):
    assert not waits(call)[1]


def test_a_mask_waits_again_in_backward():
    logits = torch.randn(4, 3, requires_grad=True)
    keep = torch.tensor([True, False, True, True])
    _, seen = waits(lambda: F.cross_entropy(logits[keep], torch.zeros(3, dtype=torch.int64)).backward())
    assert dict(seen) == {"x[mask]": 1, "x[mask] = tensor": 1}


def test_the_result_comes_back():
    assert waits(lambda: 7)[0] == 7
