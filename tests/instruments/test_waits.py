"""Which calls would make Python wait for a GPU."""

from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from torchkata.instruments.waits import waits

X = torch.tensor([1.0, -2.0, 3.0])
LABELS = torch.tensor([0, 2, 1])
PARAMETER = torch.nn.Parameter(torch.ones(2))
PARAMETER.grad = torch.ones(2)
ADAM = torch.optim.Adam([PARAMETER], lr=0.0)


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
        (lambda: X.to(device="cpu:0"), {"to cpu": 1}),
        (lambda: (X * 2).to(torch.device("cpu")), {"to cpu": 1}),
        (lambda: (X * 2).to(X.device), {}),
        (lambda: np.from_dlpack(X * 2), {"__dlpack__": 1}),
        (lambda: X.cpu().numpy(), {"cpu": 1}),
        (lambda: [number.item() for number in X.cpu() * 2], {"cpu": 1}),
        (lambda: X.to("cpu", non_blocking=True).tolist(), {"tolist": 1}),
        (lambda: torch.tensor([X[0], X[1]]), {"tensor": 2}),
        (lambda: torch.tensor(1.0, device=X.device), {"tensor": 1}),
        (lambda: torch.tensor(1.0).to(X.device), {"to the GPU": 1}),
        (lambda: torch.empty(3).copy_(X), {"copy to cpu": 1}),
        (lambda: torch.empty(3).__setitem__(slice(None), X), {"copy to cpu": 1}),
        (lambda: torch.zeros(()).fill_(X[0]), {"copy to cpu": 1}),
        (lambda: X.clone().copy_(torch.zeros(3)), {"copy to the GPU": 1}),
        (lambda: X[[0, 2]], {"x[list]": 1}),
        (lambda: X[torch.tensor([0, 2])], {"x[index on cpu]": 1}),
        (lambda: X[np.array([0, 2])], {"x[list]": 1}),
        (lambda: X.clone().__setitem__(LABELS, torch.tensor(1.0)), {"x[index] = number": 1}),
        (lambda: X.clone().__setitem__(0, torch.ones(1)), {"x[index] = number": 1}),
        (lambda: X.new_tensor([1.0]), {"new_tensor": 1}),
        (lambda: X.masked_fill(X > 0, X[0]), {"masked_fill with a tensor": 1}),
        (lambda: torch.where(X > 0, X, torch.tensor(0.0)), {"where with a tensor on the cpu": 1}),
        (lambda: X.clone().__setitem__(LABELS, 1.0), {"x[index] = number": 1}),
        (lambda: X.clone().__setitem__(X > 0, X[0]), {"x[mask] = tensor": 1}),
        (lambda: torch.linspace(0, X[0], 3), {"linspace": 1}),
        (lambda: X.histc(3), {"histc": 1}),
        (lambda: torch.linalg.inv(X.diag()), {"_linalg_check_errors": 1}),
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
        lambda: X.masked_fill(X > 0, torch.tensor(1.0)),
        lambda: torch.minimum(X, torch.ones(())),
        lambda: X[torch.tensor([True, False, True])],
        lambda: X.clone().__setitem__(0, torch.tensor(1.0)),
        lambda: F.cross_entropy(torch.eye(3), LABELS, ignore_index=-100),
        lambda: F.one_hot(LABELS, 3),
        lambda: X.to(torch.device("cpu")),
        lambda: X.clone().index_put_([LABELS], X),
        lambda: X.clone().__setitem__(X > 0, 1.0),
        lambda: torch.tensor([1.0, 2.0]),
        lambda: torch.tensor([1.0, 2.0]).tolist(),
        lambda: torch.as_tensor(X),
        lambda: torch.zeros(3, device=X.device).add_(1.0),
        lambda: X.to("cpu", non_blocking=True),
        lambda: X.clone().copy_(torch.zeros(3), non_blocking=True),
        lambda: X.clone().masked_scatter_(X > 0, X),
        lambda: X.quantile(0.5),
        lambda: X.histc(3, 0, 1),
        lambda: deepcopy(X),
        lambda: ADAM.step(),
        lambda: (X.shape, X.dtype, len(X)),
    ],
)
def test_what_does_not_wait_is_not_counted(call):
    assert not waits(call)[1]


def test_a_sum_on_the_cpu_that_took_in_numbers_of_the_gpu_is_read_from_there():
    def read():
        total = torch.zeros(2)
        total[0].add_(X[0])
        return total.tolist()

    assert dict(waits(read)[1]) == {"tolist": 1}


def test_a_copy_to_the_cpu_is_another_tensor():
    copies = waits(lambda: (X.cpu(), X.to("cpu"), X.to(torch.float32)))[0]
    assert [one is X for one in copies] == [False, False, True]


def test_a_mask_waits_again_in_backward():
    logits = torch.randn(4, 3, requires_grad=True)
    keep = torch.tensor([True, False, True, True])
    _, seen = waits(lambda: F.cross_entropy(logits[keep], torch.zeros(3, dtype=torch.int64)).backward())
    assert dict(seen) == {"x[mask]": 1, "x[mask] = tensor": 1}


def test_the_result_comes_back():
    assert waits(lambda: 7)[0] == 7
