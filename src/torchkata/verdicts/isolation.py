"""What an answer switches in torch, or leaves behind, ends with its observation: the next one starts clean."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import autograd, overrides
from torch.nn.modules import module
from torch.optim import optimizer
from torch.utils import _python_dispatch as dispatch

_AUTOCAST = {"cpu": torch.bfloat16, "cuda": torch.float16}
_GLOBAL_HOOKS = [
    hooks
    for place in (module, optimizer)
    for name, hooks in vars(place).items()
    if name.startswith("_global_") and isinstance(hooks, dict)
]
_MOST = 1000  # things of one kind that are cleared away


class Switch(NamedTuple):
    """A setting of the whole process: what reads it, what sets it to a value that was read, and the value that answers
    find; None where they find it as it is."""

    read: Callable[[], Any]
    write: Callable[[Any], object]
    default: Any = None


class clean_state:  # used as torch.no_grad is
    """Fixed seeds, one thread and torch's defaults inside, without hooks and modes; afterwards all is as it was.

    That covers random numbers; the default device; grad and inference mode; the switches below; modes, and hooks of all
    modules, of all optimizers and of saved tensors, that were left behind.

    It stands around each of an answer's calls, most of which take less time than it: so it looks before it sets.
    """

    def __enter__(self) -> None:
        self._modes, self._device = _active_modes(), _default_device()
        self._saved_tensors_hooks = _saved_tensors_hooks()
        self._module_hooks = [dict(hooks) for hooks in _GLOBAL_HOOKS] if any(_GLOBAL_HOOKS) else None
        self._nesting = _autocast_nesting()
        self._switches = [switch.read() for switch in SWITCHES.values()]
        self._random_numbers = random.getstate(), torch.default_generator.get_state()
        self._no_inference = torch.inference_mode(False)  # switches gradients on, too
        self._no_inference.__enter__()
        self._set_defaults()

    def __exit__(self, *error: object) -> None:
        self._no_inference.__exit__(*error)
        python, of_torch = self._random_numbers
        random.setstate(python)
        torch.default_generator.set_state(of_torch)
        _leave_autocast(self._nesting)
        for switch, before in zip(SWITCHES.values(), self._switches, strict=True):
            if switch.read() != before:
                switch.write(before)
        _put_back_module_hooks(self._module_hooks)
        _pop_saved_tensors_hooks(self._saved_tensors_hooks)
        _set_modes(self._modes, self._device)

    def _set_defaults(self) -> None:
        torch.default_generator.manual_seed(0)  # torch.manual_seed also walks through all other devices: slow
        random.seed(0)
        for switch, value in zip(SWITCHES.values(), self._switches, strict=True):
            if switch.default is not None and value != switch.default:
                switch.write(switch.default)
        if self._module_hooks:
            for hooks in _GLOBAL_HOOKS:
                hooks.clear()
        _set_modes(([], []), None)


def _switches() -> Iterator[tuple[str, Switch]]:
    future = torch.__future__
    yield "default dtype", Switch(torch.get_default_dtype, torch.set_default_dtype, torch.float32)
    # exercises are small: several threads would wait for each other
    yield "threads", Switch(torch.get_num_threads, torch.set_num_threads, 1)
    yield "deterministic algorithms", Switch(_determinism, _set_determinism, (False, False))
    yield "anomaly mode", Switch(_anomaly_mode, _set_anomaly_mode, (False, True))
    yield "warn always", Switch(torch.is_warn_always_enabled, torch.set_warn_always)  # `every_warning` sets it
    yield "matmul precision", Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")
    yield "recursion limit", Switch(sys.getrecursionlimit, sys.setrecursionlimit)
    yield "autocast cache", Switch(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, True)
    for what in ("overwrite_module_params", "swap_module_params"):
        read, write = (getattr(future, f"{verb}_{what}_on_conversion") for verb in ("get", "set"))
        yield f"{what} on conversion", Switch(read, write, False)
    for device, dtype in _AUTOCAST.items():
        read, write = torch.is_autocast_enabled, torch.set_autocast_enabled
        yield f"autocast, {device}", Switch(partial(read, device), partial(write, device), False)
        read, write = torch.get_autocast_dtype, torch.set_autocast_dtype
        yield f"autocast dtype, {device}", Switch(partial(read, device), partial(write, device), dtype)


def _determinism() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_determinism(wanted: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(wanted[0], warn_only=wanted[1])


def _anomaly_mode() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _set_anomaly_mode(wanted: tuple[bool, bool]) -> None:
    autograd.set_detect_anomaly(*wanted)


SWITCHES: dict[str, Switch] = dict(_switches())


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
