"""What an answer switches in torch, or leaves behind, ends with its observation: the next one starts clean."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
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


class clean_state:  # used as torch.no_grad is
    """Fixed seeds, one thread and torch's defaults inside, without hooks and modes; afterwards all is as it was.

    That covers random numbers; default dtype and device; threads; grad, inference, anomaly and deterministic mode;
    autocast; modes, and hooks of all modules, of all optimizers and of saved tensors, that were left behind; Python's
    recursion limit.

    It stands around each of an answer's calls, most of which take less time than it: so it looks before it sets.
    """

    def __enter__(self) -> None:
        self._modes, self._device = _active_modes(), _default_device()
        self._saved_tensors_hooks = _saved_tensors_hooks()
        self._module_hooks = [dict(hooks) for hooks in _GLOBAL_HOOKS] if any(_GLOBAL_HOOKS) else None
        self._nesting = _autocast_nesting()
        self._switches = [read() for read, _ in _SWITCHES]
        self._random_numbers = random.getstate(), torch.default_generator.get_state()
        self._no_inference = torch.inference_mode(False)  # switches gradients on, too
        self._no_inference.__enter__()
        _set_defaults()

    def __exit__(self, *error: object) -> None:
        self._no_inference.__exit__(*error)
        python, of_torch = self._random_numbers
        random.setstate(python)
        torch.default_generator.set_state(of_torch)
        _leave_autocast(self._nesting)
        for (read, write), before in zip(_SWITCHES, self._switches, strict=True):
            if read() != before:
                write(before)
        _put_back_module_hooks(self._module_hooks)
        _pop_saved_tensors_hooks(self._saved_tensors_hooks)
        _set_modes(self._modes, self._device)


def _set_defaults() -> None:
    torch.default_generator.manual_seed(0)  # torch.manual_seed also walks through all other devices, which is slow
    random.seed(0)
    if torch.get_default_dtype() != torch.float32:
        torch.set_default_dtype(torch.float32)
    if torch.get_num_threads() > 1:  # exercises are small: several threads would wait for each other
        torch.set_num_threads(1)
    for device in _AUTOCAST_DEVICES:
        if torch.is_autocast_enabled(device):
            torch.set_autocast_enabled(device, False)
    if any(_GLOBAL_HOOKS):
        for hooks in _GLOBAL_HOOKS:
            hooks.clear()
    _set_modes(([], []), None)


# each with what reads it and what sets it
_SWITCHES: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.is_anomaly_enabled, autograd.set_detect_anomaly),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
]
for _device in _AUTOCAST_DEVICES:
    _SWITCHES += [
        (partial(torch.is_autocast_enabled, _device), partial(torch.set_autocast_enabled, _device)),
        (partial(torch.get_autocast_dtype, _device), partial(torch.set_autocast_dtype, _device)),
    ]


def _leave_autocast(nesting: int) -> None:
    if (now := _autocast_nesting()) != nesting:
        for _ in range(min(now - nesting, _MOST)):
            torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()


def _autocast_nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _put_back_module_hooks(before: list[dict] | None) -> None:
    if before is None and not any(_GLOBAL_HOOKS):
        return
    for hooks, kept in zip(_GLOBAL_HOOKS, before or [{}] * len(_GLOBAL_HOOKS), strict=True):
        hooks.clear()
        hooks.update(kept)


def _saved_tensors_hooks() -> object:
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def _pop_saved_tensors_hooks(before: object) -> None:
    for _ in range(_MOST):
        if _saved_tensors_hooks() == before:
            break
        torch._C._autograd._pop_saved_tensors_default_hooks()


Modes = tuple[list, list]


def _active_modes() -> Modes:
    """The modes that see calls of torch's functions, and those that see its operations."""
    return overrides._get_current_function_mode_stack(), dispatch._get_current_dispatch_mode_stack()


def _default_device() -> object:
    """A mode, too."""
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _set_modes(wanted: Modes, device: object) -> None:
    (now_functions, now_operations), (functions, operations) = _active_modes(), wanted
    if now_functions or functions:
        _exchange(now_functions, functions, overrides._pop_mode, overrides._push_mode)
    if now_operations or operations:
        _exchange(now_operations, operations, dispatch._pop_mode, dispatch._push_mode)
    torch._GLOBAL_DEVICE_CONTEXT.device_context = device


def _exchange(now: list, wanted: list, pop: Callable[[], object], push: Callable[[Any], object]) -> None:
    if list(map(id, now)) != list(map(id, wanted)):
        for _ in now:
            pop()
        for mode in wanted:
            push(mode)
