"""What an answer switches in torch, or leaves behind, ends with its observation: the next one starts clean."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import autograd, overrides
from torch.nn.modules import module
from torch.optim import optimizer
from torch.utils import _python_dispatch as dispatch

_AUTOCAST_DEVICES = ("cpu", "cuda")
_GLOBAL_HOOKS = [
    hooks
    for place in (module, optimizer)
    for name, hooks in vars(place).items()
    if name.startswith("_global_") and isinstance(hooks, dict)
]
_MOST = 1000  # things of one kind that are cleared away


@contextlib.contextmanager
def clean_state() -> Iterator[None]:
    """Fixed seeds, one thread and torch's defaults inside, without hooks and modes; afterwards all is as it was.

    That covers random numbers; default dtype and device; threads; grad, inference, anomaly and deterministic mode;
    autocast; modes, and hooks of all modules, of all optimizers and of saved tensors, that were left behind; Python's
    recursion limit.
    """
    with contextlib.ExitStack() as afterwards:
        for note in (_modes, _saved_tensors_hooks, _module_hooks, _autocast, _settings, _random_numbers):
            afterwards.callback(note())  # the last one noted is put back first
        afterwards.enter_context(torch.inference_mode(False))
        afterwards.enter_context(torch.enable_grad())
        _set_defaults()
        yield


def _set_defaults() -> None:
    torch.default_generator.manual_seed(0)  # torch.manual_seed also walks through all other devices, which is slow
    random.seed(0)
    torch.set_default_dtype(torch.float32)
    if torch.get_num_threads() > 1:  # exercises are small: several threads would wait for each other
        torch.set_num_threads(1)
    for device in _AUTOCAST_DEVICES:
        if torch.is_autocast_enabled(device):
            torch.set_autocast_enabled(device, False)
    for hooks in _GLOBAL_HOOKS:
        hooks.clear()
    _set_modes([], [], None)


# Each of these notes how things are, and returns what puts them back.


def _random_numbers() -> Callable[[], None]:
    python, of_torch = random.getstate(), torch.default_generator.get_state()

    def put_back() -> None:
        random.setstate(python)
        torch.default_generator.set_state(of_torch)

    return put_back


def _settings() -> Callable[[], None]:
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    deterministic, anomaly = torch.are_deterministic_algorithms_enabled(), torch.is_anomaly_enabled()
    recursion = sys.getrecursionlimit()

    def put_back() -> None:
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != deterministic:  # a second for the first call
            torch.use_deterministic_algorithms(deterministic)
        autograd.set_detect_anomaly(anomaly)
        sys.setrecursionlimit(recursion)

    return put_back


def _autocast() -> Callable[[], None]:
    enabled = [
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _AUTOCAST_DEVICES
    ]
    cached, nesting = torch.is_autocast_cache_enabled(), _autocast_nesting()

    def put_back() -> None:
        if (now := _autocast_nesting()) != nesting:
            for _ in range(min(now - nesting, _MOST)):
                torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()
        for device, on, dtype in enabled:
            if torch.is_autocast_enabled(device) != on:
                torch.set_autocast_enabled(device, on)
            if torch.get_autocast_dtype(device) != dtype:
                torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(cached)

    return put_back


def _autocast_nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _module_hooks() -> Callable[[], None]:
    before = [dict(hooks) for hooks in _GLOBAL_HOOKS]

    def put_back() -> None:
        for hooks, kept in zip(_GLOBAL_HOOKS, before, strict=True):
            if hooks or kept:
                hooks.clear()
                hooks.update(kept)

    return put_back


def _saved_tensors_hooks() -> Callable[[], None]:
    before = torch._C._autograd._top_saved_tensors_default_hooks(True)

    def put_back() -> None:
        for _ in range(_MOST):
            if torch._C._autograd._top_saved_tensors_default_hooks(True) == before:
                break
            torch._C._autograd._pop_saved_tensors_default_hooks()

    return put_back


def _modes() -> Callable[[], None]:
    """The default device is such a mode, too."""
    functions, operations = _active_modes()
    device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)

    def put_back() -> None:
        _set_modes(functions, operations, device)

    return put_back


def _set_modes(functions: list, operations: list, device: object) -> None:
    now_functions, now_operations = _active_modes()
    _exchange(now_functions, functions, overrides._pop_mode, overrides._push_mode)
    _exchange(now_operations, operations, dispatch._pop_mode, dispatch._push_mode)
    torch._GLOBAL_DEVICE_CONTEXT.device_context = device


def _active_modes() -> tuple[list, list]:
    """The modes that see calls of torch's functions, and those that see its operations."""
    return overrides._get_current_function_mode_stack(), dispatch._get_current_dispatch_mode_stack()


def _exchange(now: list, wanted: list, pop: Callable[[], object], push: Callable[[Any], object]) -> None:
    if list(map(id, now)) != list(map(id, wanted)):
        for _ in now:
            pop()
        for mode in wanted:
            push(mode)
