"""The waist: what observing notes, how judging speaks, and that a verdict shows no more than it should."""

from __future__ import annotations

import linecache
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.nn.modules import module
from torch.optim import optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from tests.notebooks import running
from torchkata.tools.grading.sandbox.messages import decode, encode
from torchkata.verdicts import (
    NotSolvedYet,
    WrongAnswer,
    check,
    incoming_gradient,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)
from torchkata.verdicts.originals import put_back_torch
from torchkata.verdicts.plain import Copier, Other


def verdict(judge) -> WrongAnswer:
    """The verdict of a check cell that holds one test."""
    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        test("an idea")
        judge()
    return caught.value


# ---------------------------------------------------------------- observing


def test_arguments_are_copies_that_keep_their_layout():
    base = torch.arange(12.0).reshape(3, 4)
    seen = observe(
        lambda x, y: (x.stride(), x.storage_offset(), y.data_ptr() - x.data_ptr()), base[1:, ::2], base[1:, 1:]
    )
    assert seen.value == ((4, 2), 4, 4)  # both are copied into one storage, 4 bytes apart


def test_an_in_place_write_is_noted_and_leaves_the_original_alone():
    x = torch.ones(3)
    seen = observe(lambda x: x.add_(1), x)
    assert torch.equal(x, torch.ones(3))
    assert torch.equal(seen.noted.arguments["x"], torch.full((3,), 2.0))
    verdict(seen.leaves_arguments_alone)


@pytest.mark.parametrize("write", [lambda x: x.t_(), lambda x: x.requires_grad_(), lambda x: x.neg_()])
def test_changes_of_layout_and_tracking_are_changes(write):
    verdict(observe(write, torch.ones(2, 3)).leaves_arguments_alone)


@pytest.mark.parametrize(
    "change, given, words",
    [
        (lambda x: x.unsqueeze_(0), torch.ones(3), "x.shape was (3,) and is now (1, 3)"),
        (lambda x: x.t_(), torch.ones(2, 2), "x.stride() was (2, 1) and is now (1, 2)"),
        (lambda x: x.requires_grad_(), torch.ones(3), "x.requires_grad was False and is now True"),
        (lambda x: x.neg_(), torch.ones(3), "the values in x are no longer the same"),
        (lambda x: x.pop("a"), {"a": 1, "b": 2}, "x no longer holds a"),
        (lambda x: x.update(c=3), {"a": 1}, "x no longer holds the same"),
        (lambda x: x.sort(), [2, 1], "x[0] was 2 and is now 1"),
        (lambda x: x.append(0), [2, 1], "x no longer holds the same"),
        (lambda x: x[1].neg_(), [torch.ones(2), torch.ones(2)], "the values in x[1] are no longer the same"),
    ],
)
def test_a_change_of_an_argument_is_named(change, given, words):
    told = str(verdict(observe(change, given).leaves_arguments_alone))
    assert f"Your code changed what the caller passed in: {words}. Work on a copy." in told


def test_arguments_are_also_judged_after_a_call_that_was_to_raise():
    def change_and_raise(x):
        x.neg_()
        raise ValueError("no")

    seen = observe(change_and_raise, torch.ones(3)).raises(ValueError)
    assert "what the caller passed in" in str(verdict(seen.leaves_arguments_alone))
    assert "your code raised" in str(verdict(observe(change_and_raise, torch.ones(3)).leaves_arguments_alone)).lower()


def test_a_missing_return_is_named():
    told = str(verdict(lambda: observe(lambda x: None, 1).returns(1)))
    assert "Nothing came back (None): is a `return` missing? (expected an int, got None)" in told


def test_views_and_copies_are_told_apart():
    x = torch.arange(6.0)
    observe(lambda x: x[2:4], x).shares_memory_with(0)
    verdict(lambda: observe(lambda x: x[2:4].clone(), x).shares_memory_with(0))
    observe(lambda x: x[2:4].clone(), x).owns_its_memory()
    verdict(lambda: observe(lambda x: x[2:4], x).owns_its_memory())
    verdict(lambda: observe(lambda x: torch.ones(1).expand(4), x).owns_its_memory())


def test_gradients_are_compared_for_a_fixed_incoming_gradient():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    observe(lambda x: x * x, x).gives_gradients(lambda x: x**2)

    class IgnoresIncoming(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0]

    verdict(lambda: observe(IgnoresIncoming.apply, x).gives_gradients({0: 2 * x * incoming_gradient(x)}))
    assert "no gradient reaches x" in str(
        verdict(lambda: observe(lambda x: x.detach() * 2, x).gives_gradients(lambda x: 2 * x))
    )


def test_a_learner_may_rename_the_parameters():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    observe(lambda mine: mine[1:], x).shares_memory_with(0).gives_gradients(lambda x: x[1:])
    observe(lambda mine: mine, x).shares_memory_with(0).leaves_arguments_alone()
    verdict(lambda: observe(lambda *all: all[0].detach().clone(), x).shares_memory_with(0))


def test_incoming_gradient_hides_nothing():
    g = incoming_gradient(torch.empty(4, 5))
    assert g.unique().numel() == g.numel()
    assert (g.abs() > 0.2).all() and (g < 0).any()


def test_operations_are_recorded_in_forward_and_backward():
    x = torch.randn(3, 4, requires_grad=True)
    seen = observe(lambda x: x.gather(1, torch.zeros(3, 1, dtype=torch.int64)), x)
    seen.used("gather").avoided("index_select")
    assert "gather" in seen.op_names("forward", "python")
    assert any("scatter_add" in name for name in seen.op_names("backward", "aten"))
    verdict(lambda: seen.used("take_along_dim"))
    verdict(lambda: seen.avoided("gather"))
    F = nn.functional
    verdict(lambda: observe(lambda y: F.one_hot(y, 3), torch.tensor([0, 2])).avoided("one_hot"))


def test_reading_values_is_told_from_looking_at_the_layout():
    t = torch.arange(6.0).reshape(2, 3)
    assert observe(lambda t: (t.stride(), t.storage_offset(), t[1, 2].data_ptr() - t.data_ptr()), t).reads == []
    assert observe(lambda t: torch.zeros(6).as_strided(t.shape, t.stride()), t).reads == []
    for in_place in (lambda t: t[:].t_().unsqueeze_(0).squeeze_(0), lambda t: t[:].as_strided_((3, 2), (1, 3))):
        assert observe(in_place, t).reads == []
    for reader in (lambda t: t + 1, lambda t: t.tolist(), lambda t: t[0, 0].item(), lambda t: t.clone()):
        assert observe(reader, t).reads


def test_recording_is_no_call_on_a_subclass_of_tensor():
    calls = []

    class Diary(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def item(x):
        diary = x.as_subclass(Diary)
        calls.clear()
        return diary.item()

    assert observe(item, torch.tensor(2.0)).reads
    assert calls == ["item"]


def test_a_backward_pass_of_an_answer_that_moved_the_default_device():
    def moves(x):
        torch.set_default_device("meta")
        return x

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    observe(moves, x).returns(torch.tensor([1.0, 2.0])).gives_gradients(lambda x: x * 1)


def test_gradients_in_a_scenario_count_its_plain_arguments():
    def twice(answer, x, y):
        return answer(x) * y

    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 5.0], requires_grad=True)
    seen = observe_scenario(twice, lambda x: x * x, x, y)
    seen.gives_gradients(lambda answer, x, y: x * x * y)
    seen.gives_gradients({1: (x * x).detach() * incoming_gradient(x)})
    with pytest.raises(AssertionError, match="gradient of y"):
        raise verdict(lambda: seen.gives_gradients(lambda answer, x, y: x * x * y + y))


@pytest.mark.parametrize(
    ("asks", "recorded"),
    [
        ("seen.op_names()", True),
        ("[op for op in seen.noted.ops]", True),
        ("seen.avoided('cumsum')", True),
        ("seen.value.used", True),
        ("torch.overrides._pop_mode_temporarily()", True),
        ("seen.value", False),
        ("'op_names'", False),
    ],
)
def test_operations_of_a_scenario_are_recorded_where_its_cell_asks_for_them(asks: str, recorded: bool):
    space = {"answer": lambda x: x.exp(), "torch": torch, "observe_scenario": observe_scenario}
    story = "def story(answer, x):\n    return answer(x).sum()\n"
    running.run_cell(
        f"{story}seen = observe_scenario(story, answer, torch.ones(2))\nlambda: {asks}", space, f"<{asks}>"
    )
    names = [op["name"] for op in space["seen"].noted.ops if op["level"] == "aten"]
    assert names == (["exp", "sum"] if recorded else [])
    in_a_file = observe_scenario(lambda answer, x: answer(x), space["answer"], torch.ones(2))  # this one names them
    assert in_a_file.op_names(level="aten") == ["exp"]


def test_an_answer_runs_on_one_thread():
    """Notebook and `torchkata grade` alike: several threads would wait for each other."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        observe(lambda: torch.get_num_threads()).returns(1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_whatever_an_answer_switches_is_put_back():
    def rude(x):
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.manual_seed(99)
        random.seed(99)
        torch.use_deterministic_algorithms(True)
        torch.set_default_device("meta")
        return x

    torch.manual_seed(5)
    random.seed(5)
    expected = (torch.rand(1).item(), random.random())
    torch.manual_seed(5)
    random.seed(5)
    observe(rude, torch.ones(2))
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled() and not torch.are_deterministic_algorithms_enabled()
    assert torch.get_default_device() == torch.device("cpu")
    assert (torch.rand(1).item(), random.random()) == expected


def test_each_call_of_an_answer_draws_the_same_random_numbers():
    def draws(x):
        return x + torch.rand(2), random.random()

    first = observe(draws, torch.zeros(2)).noted.result
    torch.rand(3), random.random()
    second = observe(draws, torch.zeros(2)).noted.result
    assert first[0].equal(second[0]) and first[1] == second[1]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_a_mode_around_a_check_cell_goes_on_after_it(mode):
    with mode():
        observe(torch.neg, torch.ones(2))
        assert not torch.is_grad_enabled()
        assert torch.is_inference_mode_enabled() == (mode is torch.inference_mode)


left_open = []  # keeps what an answer opened from being closed by the garbage collector


def _opens(context):
    left_open.append(context)
    context.__enter__()


def test_a_cast_that_an_answer_left_in_the_cache_is_not_used_again():
    weight = torch.ones(2, 2, requires_grad=True)

    def casts(x):
        _opens(torch.autocast("cpu", torch.bfloat16))
        return x @ weight

    observe(casts, torch.ones(2, 2))
    with torch.no_grad():
        weight.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        assert not (torch.ones(2, 2) @ weight).any()


class _Calls(torch.overrides.TorchFunctionMode):
    pass


class _Operations(TorchDispatchMode):
    pass


@pytest.mark.parametrize(
    "leave_behind",
    [
        lambda: _opens(torch.inference_mode()),
        lambda: _opens(torch.autocast("cpu", torch.bfloat16)),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.set_autocast_cache_enabled(False),
        lambda: _opens(torch.autograd.graph.saved_tensors_hooks(lambda t: t * 0, lambda t: t)),
        lambda: _opens(_Calls()),
        lambda: _opens(_Operations()),
        lambda: _opens(torch.device("meta")),
        lambda: torch.set_default_device("meta"),
        lambda: torch.set_default_device("cpu"),
        lambda: module.register_module_forward_hook(lambda module, args, out: out * 0),
        lambda: module.register_module_full_backward_hook(lambda module, gin, gout: (gin[0] * 0,)),
        lambda: register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: optimizer.zero_grad()),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: sys.setrecursionlimit(500),
    ],
    ids=[
        "inference mode", "autocast", "autocast dtype", "autocast cache", "saved tensors hooks", "function mode",
        "dispatch mode", "device", "default device", "default device named", "forward hook", "backward hook",
        "optimizer hook", "anomaly mode", "recursion limit",
    ],
)  # fmt: skip
def test_what_an_answer_leaves_behind_does_not_reach_the_next(leave_behind):
    layer, x = nn.Linear(2, 1), torch.ones(1, 2, requires_grad=True)

    def state():
        out = layer(x)
        (grad,) = torch.autograd.grad((out * out).sum(), x)
        hooks = len(optimizer._global_optimizer_pre_hooks)
        modes = len(torch.overrides._get_current_function_mode_stack())
        torch.autocast_increment_nesting()
        nesting = torch.autocast_decrement_nesting()
        dtype, cached = torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
        autocast = torch.is_autocast_enabled("cpu"), nesting, dtype, cached
        settings = torch.is_anomaly_enabled(), sys.getrecursionlimit(), autocast, modes, hooks
        return out.tolist(), str(out.device), out.is_inference(), grad.tolist(), settings

    before = state()
    seen = observe(leave_behind)
    assert seen.noted.raised is None
    assert state() == before
    assert observe(lambda: torch.ones(2)).value.tolist() == [1, 1]
    observe(lambda: torch.set_default_device("meta"))
    assert state() == before


own_threads = torch.get_num_threads()


@pytest.mark.parametrize(
    "switch, is_switched, back",
    [
        (
            lambda: torch.set_grad_enabled(False),
            lambda: not torch.is_grad_enabled(),
            lambda: torch.set_grad_enabled(True),
        ),
        (
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.get_default_dtype() == torch.float64,
            lambda: torch.set_default_dtype(torch.float32),
        ),
        (
            lambda: torch.set_default_device("meta"),
            lambda: torch.ones(1).device.type == "meta",
            lambda: torch.set_default_device(None),
        ),
        (
            lambda: _opens(torch.inference_mode()),
            torch.is_inference_mode_enabled,
            lambda: left_open[-1].__exit__(None, None, None),
        ),
        (
            lambda: _opens(torch.autocast("cpu")),
            lambda: torch.is_autocast_enabled("cpu"),
            lambda: left_open[-1].__exit__(None, None, None),
        ),
        (
            lambda: torch.set_num_threads(own_threads + 1),
            lambda: torch.get_num_threads() > own_threads,
            lambda: torch.set_num_threads(own_threads),
        ),
        (
            lambda: left_open.append(module.register_module_forward_hook(lambda m, i, out: out * 0)),
            lambda: len(module._global_forward_hooks) == 1,
            lambda: left_open[-1].remove(),
        ),
    ],
    ids=["no grad", "float64", "default device", "inference mode", "autocast", "threads", "forward hook"],
)
def test_what_the_notebook_has_switched_does_not_reach_a_check_cell(switch, is_switched, back):
    layer = nn.Linear(2, 2)
    switch()
    try:
        assert is_switched()
        with check("an-exercise") as test:
            test("torch's defaults")
            assert not is_switched()
            x = torch.tensor([[1.0, 2.0]], requires_grad=True)
            seen = observe(lambda x: x @ x.t() * 2, x)
            seen.returns(torch.tensor([[10.0]])).gives_gradients(lambda x: x @ x.t() * 2)
            assert layer(x).abs().sum() > 0
        assert is_switched(), "what the notebook has switched stays switched"
    finally:
        back()
    assert not is_switched()


def test_torch_is_put_back_before_the_next_check(capsys):
    forward, cat = nn.Linear.forward, torch.cat

    def patches(x):
        nn.Linear.forward = lambda self, x: x
        nn.Linear.__call__ = lambda self, x: x
        torch.optim.SGD.step = torch.utils.data.DataLoader.__iter__ = None
        torch.cat = torch.autograd.grad = None
        Tensor.sum = 7
        return x

    with check("an-exercise") as test:
        test("the first")
        observe(patches, torch.ones(1))
    assert capsys.readouterr().out.splitlines()[0] == "Your code has replaced parts of torch. The originals are back."
    assert callable(torch.optim.SGD.step) and callable(torch.utils.data.DataLoader.__iter__)
    assert nn.Linear.forward is forward and torch.cat is cat and torch.ones(2).sum() == 2
    assert nn.Linear(2, 3)(torch.ones(2)).shape == (3,)
    torch.cat = None
    Tensor.shape = 7
    nn.modules.batchnorm._BatchNorm.train = nn.LSTM.eval = None
    with check("an-exercise") as test:
        test("the second")
        observe(lambda x: torch.cat([x, x]), torch.ones(1)).returns(torch.ones(2))
    assert " and others. The original is back: the checks need it." in capsys.readouterr().out
    assert torch.cat is cat and nn.BatchNorm1d(2).train().training and not nn.LSTM(1, 1).eval().training


def test_what_torch_itself_replaces_is_nobodys_fault():
    """torch._dynamo wraps torch.manual_seed, and optimizers their step; an own process shows it, for here that may have
    happened already."""
    code = (
        "from torchkata.verdicts.originals import put_back_torch; import torch, torch._dynamo\n"
        "for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam):\n"
        "    kind([torch.nn.Parameter(torch.ones(1))]).step(); print(put_back_torch())\n"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)); print(put_back_torch())"  # nn.Module.__init__
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n" * 4


def test_a_function_of_torchs_in_the_place_of_another_is_put_back():
    softmax, F.softmax = F.softmax, F.log_softmax
    assert put_back_torch() == ["torch.nn.functional.softmax"] and F.softmax is softmax


def test_what_torch_itself_replaces_is_looked_at_once():
    """In an own process: here SGD's step may have been wrapped before."""
    code = (
        "import torch; from torchkata.verdicts import originals; asked, scans = originals.Asked(['step']), []\n"
        "torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]).step()\n"
        "whole = originals.put_back_torch; originals.put_back_torch = lambda: scans.append(1) or whole()\n"
        "print(*(asked.put_back() for _ in range(3)), len(scans)); torch.optim.SGD.step = None\n"
        "print(asked.put_back(), callable(torch.optim.SGD.step)); scans.clear()\n"
        "torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]).step()\n"
        "print(*(originals.put_back_what_shows() for _ in range(3)), len(scans))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert said == "[] [] [] 1\n['torch.optim.SGD.step'] True\n[] [] [] 1\n"


def test_the_default_device_of_the_notebook_stays():
    torch.set_default_device("meta")
    try:
        observe(lambda: torch.set_default_device("cpu"))
        assert torch.get_default_device().type == torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"


def test_results_nested_in_themselves_and_errors_without_a_message():
    endless = []
    endless.append(endless)
    assert "expected a tensor, got" in str(verdict(lambda: observe(lambda: endless).returns(torch.ones(1))))

    class Mute(Exception):
        def __str__(self):
            return 1 / 0

    def raises():
        raise Mute

    assert "Mute: its message can't be read" in str(verdict(lambda: observe(raises).returns(1)))


def test_an_answer_can_not_end_the_notebook(capsys):
    def leave():
        raise SystemExit(0)

    assert "SystemExit" in str(verdict(lambda: observe(leave).returns(1)))
    with pytest.raises(KeyboardInterrupt):
        observe(lambda: (_ for _ in ()).throw(KeyboardInterrupt)).returns(1)
    observe(lambda: print("x" * 10**6))
    assert len(capsys.readouterr().out) < 20_000


def test_warnings_are_facts_and_do_not_spill():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = observe(lambda x: warnings.warn("old", FutureWarning, stacklevel=1), torch.ones(1))
    assert seen.noted.warned == [["FutureWarning", "old"]]
    assert "FutureWarning: old" in str(verdict(seen.warned_nothing))


def test_warnings_that_torch_gives_once_are_noted_each_time():
    def old(x):
        return x.scatter_(0, torch.tensor([0]), torch.ones(1), reduce="add")

    for deprecated in (old, lambda x: x.storage()):
        for _ in range(2):
            assert len(observe(deprecated, torch.zeros(2)).noted.warned) == 1


@pytest.mark.parametrize("answer", [None, 3, "text", torch.ones(2)])
def test_an_answer_that_is_no_function(answer):
    assert "no function or class" in str(verdict(lambda: observe(answer, torch.ones(1)).returns(1)))


@pytest.mark.parametrize(
    "result", [None, object(), [1, object()], {1: lambda: 0}, nn.Linear(1, 1), torch.ones(2).to_sparse()]
)
def test_results_of_any_kind_are_noted(result):
    seen = observe(lambda: result)
    encode(seen.noted.as_plain())
    verdict(lambda: seen.returns(torch.ones(2)))


# ---------------------------------------------------------------- judging


@pytest.mark.parametrize(
    "came, words",
    [
        (None, "expected a tensor, got None"),
        ([1.0, 2.0], "expected a tensor, got a list"),
        (torch.ones(1, 2), "expected shape (2,), got (1, 2)"),
        (torch.tensor([1.0, 2.0]).double(), "expected torch.float32, got torch.float64"),
        (torch.tensor([1.0, 2.0], device="meta"), "expected device cpu, got meta"),
        (torch.tensor([1.0, 2.5]), "1 of 2 values differ"),
        (torch.tensor([1.0, float("nan")]), "1 of 2 values differ"),
    ],
)
def test_stages_speak_in_order(came, words: str):
    assert words in str(verdict(lambda: observe(lambda: came).returns(torch.tensor([1.0, 2.0]))))


def test_nothing_but_equal_is_equal():
    observe(lambda: {"a": [1, torch.tensor(True)]}).returns({"a": [1, torch.tensor(True)]})
    for came, expected in [
        (True, 1),
        (1, True),
        ([1], (1,)),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"b": 1, "a": 1}, {"a": 1}),
    ]:
        verdict(lambda came=came, expected=expected: observe(lambda: came).returns(expected))
    observe(lambda: float("nan")).returns(float("nan"))


def test_the_first_mistake_that_matches_speaks():
    rows = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    known = [
        mistake("Summed over columns.", gives=lambda x: x.sum(0)),
        mistake("Summed everything: {detail}", shape=()),
        mistake("Does not fit.", gives=lambda x: x @ torch.ones(99)),
        mistake("No such method.", raises="AttributeError.*summ"),
        mistake("Counted in floats: {detail}", stage="dtype"),
    ]

    def says(answer) -> str:
        return str(verdict(lambda: observe(answer, rows).returns(torch.tensor([3.0, 8.0]), *known)))

    assert "Summed over columns." in says(lambda x: x.sum(0))
    assert "Summed everything: expected shape (2,), got ()" in says(lambda x: x.sum())
    assert "No such method." in says(lambda x: x.summ(1))
    assert "Counted in floats" in says(lambda x: x.sum(1).double())
    assert "The values are wrong" in says(lambda x: x.mean(1))


def test_mistakes_that_read_the_result_of_an_answer_that_raised():
    def broken(x):
        raise KeyError("gone")

    known = [mistake(f"Number {n}.", when=lambda seen: seen.value.sum() == 0) for n in range(8)]
    seen = observe(broken, 1).expecting(*known)
    assert "Your code raised KeyError" in str(verdict(lambda: seen.returns(torch.ones(1))))


@pytest.mark.parametrize(
    "body, words",
    [
        ("pass", "The check can't go on from what your code gave it: is a `return` missing"),
        ("return 'text'", "The check can't go on from what your code gave it"),
        ("return x.summ()", "Your code raised AttributeError: 'Tensor' object has no attribute 'summ'."),
        ("return torch.ones(9)", "Your code raised RuntimeError: The size of tensor a"),
    ],
)
def test_where_a_scenario_stumbles_the_answer_did_not_raise(body: str, words: str):
    """Python's error on None in the check's own line says nothing of the learner's code; an error in a learner's line,
    and torch's on values, are told as they came."""

    def story(answer, x):
        return (x + answer(x).detach()).tolist()

    space = {"__name__": "__main__", "torch": torch}
    exec(compile(f"def answer(x):\n    {body}", "<a learner's>", "exec"), space)
    wrong = verdict(lambda: observe_scenario(story, space["answer"], torch.ones(3)).returns([2.0] * 3))
    assert words in str(wrong)
    assert "NoneType" not in wrong.lines[1]
    exec(compile("def answer():\n    pass", "<a learner's>", "exec"), space)
    wrong = verdict(lambda: observe_scenario(story, space["answer"], torch.ones(3)).returns([2.0] * 3))
    assert "Your code raised TypeError: answer() takes 0 positional arguments" in str(wrong)


@pytest.mark.parametrize("sentence", ["Yours is of type NoneType.", "Yours is a NoneType.", "Yours is NoneType."])
def test_none_is_called_none(sentence: str):
    def told(words: str) -> str:
        return verdict(lambda: observe(lambda: None).that(False, words)).lines[1].strip()

    assert told(sentence) == "Yours is None."
    python = "Python says: 'NoneType' object is not callable."
    assert told(python) == python


def test_a_tensor_of_one_element_is_its_number():
    guess = {"a": torch.tensor([3.0]), "b": torch.tensor([[4]]), "c": torch.tensor([2.0]), "d": torch.tensor([2])}
    items = {"a": prediction(3.0), "b": prediction(4), "c": prediction([2.0]), "d": prediction([2, 2])}
    assert observe_value(guess).predicts(items, 4) == 3


def test_predictions_may_be_numpys_numbers():
    guess = {"a": np.float32(1.5), "b": np.arange(2), "c": np.bool_(True), "d": np.array(2)}
    items = {"a": prediction(1.5), "b": prediction([0, 1]), "c": prediction(True), "d": prediction(2)}
    assert observe_value(guess).predicts(items, 4) == 4


@pytest.mark.parametrize(
    "guess", [10**400, pytest.param(10**5000, id="long"), float("nan"), float("-inf"), "3.0", None, [3.0], {}]
)
def test_an_odd_prediction_is_wrong_not_an_error(guess, capsys):
    assert observe_value({"a": guess, "b": 4}).predicts({"a": prediction(3.0), "b": prediction(4)}, 2) == 1
    assert capsys.readouterr().out.startswith("✗ a = ")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_and_a_very_long_int_are_judged_too():
    nested = torch.nested.as_nested_tensor([torch.ones(2)])
    assert observe_value([nested]).value == [Other("Tensor")]
    assert "got an int of 16610 bits" in str(verdict(lambda: observe(lambda: 10**5000).returns(1)))


@pytest.mark.parametrize("guess", [torch.ones(1, device="meta"), [torch.ones(2, device="meta")]])
def test_a_tensor_without_numbers_is_a_wrong_prediction(guess):
    assert observe_value({"a": guess, "b": 4}).predicts({"a": prediction(1.0), "b": prediction(4)}, 2) == 1


def test_a_look_alike_that_equals_the_truth_explains_nothing():
    known = mistake("Reversed.", gives=lambda x: x.flip(0))
    palindrome = torch.tensor([1.0, 2.0, 1.0])
    shown = str(verdict(lambda: observe(lambda x: x.double(), palindrome).returns(palindrome, known)))
    assert "Reversed." not in shown and "float64" in shown


CELLS = {
    "setup": "import torch\nfrom torchkata.verdicts import check, observe, observe_scenario",
    "check": """
with check("names") as test:
    test("the names of the check cell")
    number, helper = 5, None
    def reference(x):
        return x + 8
    def again(answer, x):
        return reference(answer(x))
    observe(answer, 1).returns(9)
    observe_scenario(again, answer, 1).returns(17)
""",
}


def test_a_check_stopped_by_hand_tells_where_the_answer_was():
    space = {"__name__": "__main__"}
    exec(CELLS["setup"], space)
    source = "def answer(x):\n    while x:\n        raise KeyboardInterrupt"
    linecache.cache["<loop>"] = (len(source), None, source.splitlines(keepends=True), "<loop>")
    exec(compile(source, "<loop>", "exec"), space)
    with pytest.raises(KeyboardInterrupt) as caught:
        exec(CELLS["check"], space)
    assert caught.value.lines == [
        "✗ names, test: the names of the check cell",
        "  Interrupted. Your code was still running:",
        "    line 3 of your code, in answer:  raise KeyboardInterrupt",
    ]


def test_a_condition_may_be_a_tensor():
    known = mistake("There is a nan.", when=lambda seen: seen.value.isnan().any())
    assert "There is a nan." in str(
        verdict(lambda: observe(lambda: torch.tensor([torch.nan])).returns(torch.ones(1), known))
    )
    assert "There is a nan." not in str(verdict(lambda: observe(lambda: torch.zeros(1)).returns(torch.ones(1), known)))


def test_a_mistake_needs_a_condition_that_exists():
    with pytest.raises(ValueError, match="needs a condition"):
        mistake("Always.")
    with pytest.raises(ValueError, match="unknown stage"):
        mistake("Never.", stage="vaules")


def test_raises_wants_the_right_exception():
    def refuse(x):
        raise ValueError("no")

    observe(refuse, 1).raises(ValueError).raises(RuntimeError, Exception)
    assert "must raise IndexError, but it raised ValueError" in str(
        verdict(lambda: observe(refuse, 1).raises(IndexError))
    )
    assert "but it returned 1" in str(verdict(lambda: observe(lambda x: x, 1).raises(IndexError)))


def test_a_stub_is_not_solved_yet_but_torchs_own_error_is_an_error():
    def stub(x):
        raise NotImplementedError

    for judge in (lambda s: s.returns(1), lambda s: s.raises(ValueError), lambda s: s.leaves_arguments_alone()):
        with pytest.raises(NotSolvedYet, match="not solved yet"), check("an-exercise") as test:
            test("an idea")
            judge(observe(stub, 1))
    verdict(lambda: observe(lambda: torch.ones(1, device="meta").item()).returns(1))


def test_a_hidden_test_tells_its_idea_and_no_data():
    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        test.hidden("a number that nobody can guess")
        observe(lambda x: x, torch.tensor([271828.0])).returns(torch.tensor([314159.0]))
    shown = "\n".join([*caught.value.lines, str(caught.value)])
    assert "a number that nobody can guess" in shown
    assert "314159" not in shown and "271828" not in shown


@pytest.mark.parametrize("carrier", ["message", "class name", "type", "key", "list", "shape", "items", "function"])
def test_an_answer_can_not_carry_hidden_data_into_the_verdict(carrier: str):
    def spy(x):
        secret = str(x.item())
        if carrier == "message":
            raise ValueError(secret)
        if carrier == "class name":
            raise type(secret, (RuntimeError,), {})()
        if carrier == "function":
            exec(f"def n{secret}(): raise ValueError\nn{secret}()", {"__name__": "__main__"})
        plain = {"type": type(secret, (), {})(), "key": {secret: 1}, "list": [secret], "items": [0] * int(secret)}
        return (plain | {"shape": torch.empty(0, int(secret))})[carrier]

    expected = {"key": {"a": 1}, "items": [0]}.get(carrier, torch.ones(1))
    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        test.hidden("a number")
        observe(spy, torch.tensor(271828)).returns(expected, mistake("It is {detail}", stage="type"))
    assert "271828" not in "\n".join([*caught.value.lines, str(caught.value)])


def test_what_an_answer_prints_in_a_hidden_test_is_not_shown(capsys):
    with check("an-exercise") as test:
        test("seen")
        observe(print, "in sight").returns(None)
        test.hidden("unseen")
        observe(print, "a secret").returns(None)
        test("seen again")
        observe(print, "back again").returns(None)
    shown = capsys.readouterr().out
    assert "in sight" in shown and "back again" in shown and "3 tests passed" in shown
    assert "a secret" not in shown


def test_a_hidden_test_keeps_data_out_of_sentences_too():
    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        test.hidden("values")
        seen = observe(lambda x: x, torch.tensor([271828.0]))
        seen.returns(torch.tensor([314159.0]), mistake("Off: {detail}", stage="value"))
    assert "314159" not in str(caught.value) and "Off: the values differ" in str(caught.value)


@pytest.mark.parametrize("hidden", [False, True])
def test_words_that_the_answer_chose_are_withheld_in_a_hidden_test(hidden: bool):
    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        (test.hidden if hidden else test)("operations")
        seen = observe(lambda x: [x.sin, x.cos][int(x)](), torch.tensor(1.0))
        made = ", ".join(seen.op_names("forward", "aten")[-1:])
        seen.that(not made, "These ran: {detail}.", stage="rule", detail=made)
    shown = "\n".join([*caught.value.lines, str(caught.value)])
    assert "These ran: " in shown and ("cos" in shown) is not hidden


def test_a_verdict_renders_as_its_own_lines():
    error = verdict(lambda: observe(lambda x: x + 1, torch.tensor([1.0])).returns(torch.tensor([1.0])))
    assert error._render_traceback_() == error.lines
    long = WrongAnswer("an-exercise", "", "word " * 50, [])._render_traceback_()
    assert len(long) > 3 and all(len(line) <= 100 for line in long) and long[2].startswith("  word")
    assert error.lines[0] == "✗ an-exercise, test: an idea"
    assert any("asked:" in line for line in error.lines)


def test_an_undefined_answer_is_explained():
    with pytest.raises(WrongAnswer, match="Run the cell of your answer first"), check("an-exercise") as test:
        test("an idea")
        observe(not_defined_anywhere, 1)  # noqa: F821

    def judge():
        observe(not_defined_anywhere, 1)  # noqa: F821

    with pytest.raises(WrongAnswer, match="Run the cell of your answer first"), check("an-exercise") as test:
        test("an idea")
        judge()


def test_an_authors_own_error_is_not_dressed_up():
    with pytest.raises(ZeroDivisionError), check("an-exercise") as test:
        test("an idea")
        1 / 0  # noqa: B018
    with pytest.raises(ValueError, match="holds no test"), check("an-exercise"):
        pass


def test_scenarios_return_facts():
    def story(make, start):
        made = make(start)
        start.add_(1)
        return {"made": made, "start": start}

    seen = observe_scenario(story, lambda x: x[1:], torch.arange(3.0))
    assert torch.equal(seen["made"], torch.tensor([2.0, 3.0]))
    assert seen["made"].untyped_storage().data_ptr() == seen["start"].untyped_storage().data_ptr()
    assert "ZeroDivisionError" in str(
        verdict(lambda: observe_scenario(story, lambda x: 1 / 0, torch.ones(1)).returns(1))
    )


# ---------------------------------------------------------------- predictions

ITEMS = {
    "stride": prediction((1, 6), ((8, 48), "Those are byte strides.")),
    "dtype": prediction(torch.int64),
    "raises": prediction(True),
    "value": prediction(float("inf")),
}


def predicts(answers) -> float:
    with check("an-exercise") as test:
        test("items")
        test.points = observe_value(answers).predicts(ITEMS, points=2)
    return test.points


@pytest.mark.parametrize("stride", [(1, 6), [1, 6], torch.Size((1, 6)), torch.tensor([1, 6]), (1.0, 6.0)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.long, "int64", "torch.int64"])
@pytest.mark.parametrize("value", [float("inf"), "inf", "Inf"])
def test_any_spelling_counts(stride, dtype, value):
    assert predicts({"stride": stride, "dtype": dtype, "raises": True, "value": value}) == 2


def test_a_share_for_each_right_item(capsys):
    answers = {"stride": (8, 48), "dtype": torch.int32, "raises": 1, "value": "inf"}
    assert predicts(answers) == 0.5
    shown = capsys.readouterr().out
    assert "✗ stride = (8, 48): Those are byte strides." in shown
    assert "✗ raises = 1: The question is answered by True or False." in shown


def test_an_open_item_counts_as_wrong_and_the_others_count(capsys):
    assert predicts({"stride": (1, 6), "dtype": torch.int64, "raises": True, "value": ...}) == 1.5
    assert capsys.readouterr().out.startswith("✗ value = ...: There is no prediction yet")
    assert predicts({"stride": (1, 6)}) == 0.5


def test_open_items_and_no_items():
    with pytest.raises(NotSolvedYet):
        predicts(dict.fromkeys(ITEMS, ...))
    with pytest.raises(WrongAnswer, match="None of the items"):
        predicts({"stride": ..., "dtype": torch.int32, "raises": ..., "value": ...})
    with pytest.raises(WrongAnswer, match="None of the items"):
        predicts(dict.fromkeys(ITEMS, "?"))
    for broken in (None, [1, 2], "text"):
        with pytest.raises(WrongAnswer, match=r"must be a dict .*, but it is (None|a list|a str)"):
            predicts(broken)


# ---------------------------------------------------------------- plain data


def tensors() -> list[Tensor]:
    base = torch.arange(24.0).reshape(2, 3, 4)
    return [
        base,
        base.transpose(0, 2),
        base[1, :, ::2],
        torch.ones(2, 1).expand(2, 5),
        torch.tensor(3, dtype=torch.int8),
        torch.empty(0, 3),
        torch.tensor([1 + 2j, 3j]),
        torch.tensor([1.5, float("nan"), float("-inf")], dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.ones(3, requires_grad=True),
        nn.Parameter(torch.ones(2)),
        torch.empty(4, 5, device="meta").t(),
        torch.arange(10.0).unfold(0, 4, 2),
        torch.ones(3).as_strided((1, 3), (99, 1)),  # contiguous, with a stride that nobody needs
        torch.ones(5)[:3],
        torch.ones(0),
    ]


@pytest.mark.parametrize("tensor", tensors(), ids=lambda t: f"{tuple(t.shape)}-{t.dtype}")
@pytest.mark.parametrize("way", [lambda t: Copier().copy(t), lambda t: decode(encode(t))], ids=["copy", "bytes"])
def test_tensors_keep_values_and_layout(tensor: Tensor, way):
    other = way(tensor)
    assert (other.shape, other.stride(), other.storage_offset()) == (
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
    )
    assert (other.dtype, other.device, other.requires_grad) == (tensor.dtype, tensor.device, tensor.requires_grad)
    assert isinstance(other, nn.Parameter) == isinstance(tensor, nn.Parameter)
    if tensor.device.type == "cpu":
        torch.testing.assert_close(other, tensor, rtol=0, atol=0, equal_nan=True)
        assert other.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr() or tensor.numel() == 0


@pytest.mark.parametrize("way", [lambda v: Copier().copy(v), lambda v: decode(encode(v))], ids=["copy", "bytes"])
def test_aliasing_survives(way):
    x = torch.arange(6.0)
    a, b, c = way([x, x[2:], x.clone()])
    a[2] = 99
    assert b[0] == 99 and c[2] == 2
    b, a = way([x[2:], x])
    a[2] = 99
    assert b[0] == 99


def test_a_copy_is_a_plain_tensor():
    """Whatever class of tensor an answer returns."""

    class Own(Tensor):
        pass

    with FakeTensorMode():
        fake = torch.ones(3)
    for tensor, device in ((torch.ones(3).as_subclass(Own), "cpu"), (fake, "meta")):
        copy = Copier().copy(tensor)
        assert type(copy) is Tensor and copy.device.type == device
        assert decode(encode(copy)).shape == (3,)


def test_a_tensor_elsewhere_says_where_it_is():
    with FakeTensorMode():
        fake = torch.ones(3, device="cuda")
    assert Copier().copy([fake]) == [Other("FakeTensor on cuda")]


def test_plain_values_survive():
    value = {
        "nothing": None,
        "numbers": [True, 1, 2.5, float("inf"), 1j],
        ("a", 1): (b"bytes", "text", ...),
        "kinds": [torch.float32, torch.device("meta"), Other("Linear")],
    }
    assert decode(encode(value)) == value
    assert repr(decode(encode([float("nan"), -0.0]))) == repr([float("nan"), -0.0])
    with pytest.raises(TypeError):
        encode(object())


def test_operations_on_symbolic_sizes_are_noted():
    def doubled(x):
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(x, static_shapes=False)
        return str(type((fake * 2).numel()))

    seen = observe(doubled, torch.ones(4, 3))
    assert "SymInt" in seen.value and "mul" in seen.op_names()
