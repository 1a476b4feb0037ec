"""What a recorder can't see is noticed; what it sees, and what torch does by itself, is not."""

from __future__ import annotations

import copy
import os
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from torchkata.verdicts import observe
from torchkata.verdicts.judging import Failed, Seen
from torchkata.verdicts.observing import run_answer

LABELS = torch.tensor([2, 0, 1])


def in_a_thread(labels):
    got = []
    thread = threading.Thread(target=lambda: got.append(F.one_hot(labels, 4)))
    thread.start()
    thread.join()
    return got[0]


def in_a_child(labels):
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return labels


def without_modes(labels):
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return labels + 1


def below_the_dispatcher(labels):
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Python)):
        return labels + 1


def without_the_profiler(labels):
    torch._C._autograd._disable_profiler()
    return labels + 1


HIDDEN = [in_a_thread, without_modes, below_the_dispatcher, without_the_profiler]
if hasattr(os, "fork"):
    HIDDEN.append(in_a_child)


@pytest.mark.parametrize("answer", HIDDEN)
def test_what_a_recorder_can_not_see_is_noticed(answer: Callable):
    with pytest.raises(Failed, match="can't watch") as failed:
        observe(answer, LABELS).avoided("eye")
    assert "`" not in failed.value.guarded, "which operation it was could carry data"


def test_it_costs_nothing_where_nobody_asks_for_operations():
    """The check cell decides: this test's file names operations, so it is asked for here."""
    assert run_answer(in_a_thread, (LABELS,), {}, recorded=False).lost == []


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def net(x):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout())
    optimizer = torch.optim.AdamW(model.parameters())
    F.cross_entropy(model(x.repeat(4, 1)), torch.tensor([0, 1, 2, 0])).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return model(x.repeat(4, 1))


def shown(x):
    return [repr(x), f"{x} {x[0]:.2f}", str(x.sum())] * 1 and x * 2


def by_numpy(x):
    array = x.detach().numpy() * 2
    out = torch.empty(3)
    out.numpy()[:] = array
    return torch.from_numpy(array) + out + torch.tensor(array.tolist()) + torch.as_tensor(np.arange(3))


def written(x):
    out = torch.zeros(3, 3)
    out[0, 1], out[[1, 2]], out[out > 0] = 2, 1.0, 3
    torch.add(x, 1, out=out[0])
    out.data.add_(1)
    return copy.deepcopy(out)


SEEN: list[Callable] = [net, shown, by_numpy, written, Doubled.apply, torch.vmap(torch.sin), torch.func.grad(torch.sum)]


@pytest.mark.parametrize("answer", SEEN, ids=lambda one: getattr(one, "__name__", "apply"))
def test_what_it_can_see_is_not_lost(answer: Callable):
    noted = run_answer(answer, (torch.tensor([0.5, -1.0, 2.0], requires_grad=answer is Doubled.apply),), {})
    assert noted.raised is None and noted.lost == []


# ---------------------------------------------------------------- what a result comes from


def kept_for_show(labels):
    torch.zeros(3).scatter_(0, labels, 1.0)
    return (labels[:, None] == torch.arange(3)).float()


def by_scatter(labels):
    return torch.zeros(3, 3).scatter_(1, labels[:, None], 1.0).to(torch.float64).contiguous().t()


def seen_by(answer: Callable) -> Seen:
    return observe(answer, LABELS)


def test_a_result_must_come_from_the_operation_that_is_asked_for():
    seen_by(by_scatter).used("scatter_")
    with pytest.raises(Failed, match="doesn't depend on it"):
        seen_by(kept_for_show).used("scatter_")
    with pytest.raises(Failed, match="not used"):
        seen_by(kept_for_show).used("gather")


def test_what_makes_no_tensor_is_asked_to_have_run():
    observe(lambda x: x.tolist(), LABELS).used("tolist")
    observe(lambda x: torch.tensor(x.tolist()), LABELS).used("tolist")


def test_a_name_that_the_dispatcher_takes_apart_is_known():
    with pytest.raises(Failed, match="used one_hot"):
        observe(lambda labels: torch.ops.aten.one_hot(labels, 3), LABELS).avoided("one_hot")


@pytest.mark.skipif(sys.platform != "linux", reason="asks for open files")
def test_the_profiler_is_quiet(capfd: pytest.CaptureFixture):
    seen_by(by_scatter).used("scatter_")
    assert capfd.readouterr() == ("", "")
