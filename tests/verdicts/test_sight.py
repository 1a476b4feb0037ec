"""What a recorder can't see is noticed; what it sees, and what torch does by itself, is not."""

from __future__ import annotations

import copy
import linecache
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile, record_function
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from torchkata.verdicts import observe, observe_scenario, sight
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


POOL = ThreadPoolExecutor(1)
POOL.submit(int).result()  # its thread runs before anybody watches


def in_a_thread_of_before(labels):
    return POOL.submit(F.one_hot, labels, 4).result()


def under_names_of_the_watchers(labels):
    def work():
        with record_function("torchkata: known"), record_function("PythonDispatchMode"):
            return labels + 1

    return POOL.submit(work).result()


def with_a_profiler_of_its_own(labels):
    torch._C._autograd._disable_profiler()
    out = POOL.submit(torch.add, labels, 1).result()
    profile(use_kineto=True).__enter__()
    return out


@torch.library.custom_op("torchkata_tests::pick", mutates_args=())
def pick(labels: Tensor) -> Tensor:
    return F.one_hot(labels, 4)


def in_an_operation_of_its_own(labels):
    return pick(labels)


class Lazy(Tensor):
    """One that does other work than it is asked for."""

    @staticmethod
    def __new__(cls, labels):
        lazy = Tensor._make_wrapper_subclass(cls, labels.shape, dtype=labels.dtype)
        lazy.labels = labels
        return lazy

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return F.one_hot(args[0].labels, 4)


def in_a_class_of_its_own(labels):
    return Lazy(labels) + 1


class Instead(TorchDispatchMode):
    """One that does other work than it is asked for."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with _disable_current_modes():
            return F.one_hot(args[0], 4)


def in_a_mode_of_its_own(labels):
    with Instead():
        return labels + 1


HIDDEN = [in_a_thread, without_modes, below_the_dispatcher, without_the_profiler]
HIDDEN += [in_a_thread_of_before, under_names_of_the_watchers, with_a_profiler_of_its_own]
HIDDEN += [in_an_operation_of_its_own, in_a_class_of_its_own, in_a_mode_of_its_own]
if hasattr(os, "fork"):
    HIDDEN.append(in_a_child)


@pytest.mark.parametrize("answer", HIDDEN)
def test_what_a_recorder_can_not_see_is_noticed(answer: Callable):
    with pytest.raises(Failed, match="can't watch") as failed:
        observe(answer, LABELS).avoided("eye")
    assert "`" not in failed.value.guarded, "which operation it was could carry data"


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_an_operation_of_torch_that_does_something_else_is_noticed():
    with torch.library._scoped_library("aten", "IMPL") as added:
        added.impl("trace", lambda square: F.one_hot(square[0], 4), "CPU")
        with pytest.raises(Failed, match="an operation of torch was replaced"):
            observe(lambda labels: torch.trace(labels.expand(3, 3)), LABELS).avoided("eye")
    observe(lambda labels: labels + 1, LABELS).avoided("eye")


def test_an_operation_that_a_check_asks_for_need_not_be_seen():
    source = "def asked(labels):\n    return torch.ops.{}.pick(labels)\n".format("torchkata_tests")
    space: dict = {"torch": torch}
    linecache.cache["<check>"] = (0, None, source.splitlines(keepends=True), "<check>")
    exec(compile(source, "<check>", "exec"), space)
    observe_scenario(space["asked"], LABELS).used("pick")
    linecache.cache["<check>"] = (0, None, ["x.ops"], "<check>")
    with pytest.raises(Failed, match="can't watch"):
        observe_scenario(space["asked"], LABELS).used("pick")


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


def by_numpy_behind_it(labels):
    out = torch.zeros(3, 3).scatter_(1, labels[:, None], 0.0)
    out.numpy()[[0, 1, 2], labels.numpy()] = 1
    return out


def by_numpy_before_it(labels):
    out = torch.zeros(3, 3)
    array = np.asarray(out)
    out.scatter_(1, labels[:, None], 0.0)
    array[[0, 1, 2], labels.numpy()] = 1
    return out.clone()


def in_memory_of_numpy(labels):
    array = np.zeros((3, 3), dtype=np.float32)
    out = torch.from_numpy(array).scatter_(1, labels[:, None], 0.0)
    array[[0, 1, 2], labels.numpy()] = 1
    return out + 0


def byte_by_byte(labels):
    out = torch.zeros(3, 3, dtype=torch.uint8).scatter_(1, labels[:, None], 0)
    for row, label in enumerate(labels.tolist()):
        out.untyped_storage()[3 * row + label] = 1
    return out


@pytest.mark.parametrize("answer", [by_numpy_behind_it, by_numpy_before_it, in_memory_of_numpy, byte_by_byte])
def test_what_somebody_else_may_have_written_comes_from_no_operation(answer: Callable):
    with pytest.raises(Failed, match="NumPy could write into it"):
        seen_by(answer).used("scatter_")


def test_memory_that_is_looked_at_by_others_may_come_into_it():
    observe(lambda x: torch.zeros(3, 3).scatter_(1, torch.from_numpy(x.numpy() * 1)[:, None], 1.0), LABELS).used(
        "scatter_"
    )


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


@pytest.mark.parametrize("told", [True, False], ids=["the profiler tells of it", "the profiler leaves it out"])
def test_what_an_operation_in_python_calls_is_its_work(told: bool):
    """Since torch 2.15 the profiler doesn't tell of an operation that is written in Python."""
    watcher = sight.Sight()
    copying = SimpleNamespace(name="aten::clone", children=[SimpleNamespace(name="aten::copy_", children=[])])
    own = SimpleNamespace(name="kata::own", children=[copying])
    marker = SimpleNamespace(name=f"{watcher._called} kata::own", children=[own if told else copying])
    watcher._look_below([marker], "")
    assert watcher.lost == [sight.unseen("own")]
    assert watcher.called == ["own", "clone", "copy_"]
