"""What torch.compile makes of calls: how many graphs, and how often they run. Nothing is timed, and no C++ compiler is
needed."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import fx

_MODULES = (torch._dynamo.config, torch._functorch.config)
_SETTINGS = [module.get_config_copy() for module in _MODULES]  # before a learner's code has run
_LOGS = ("torch._dynamo", "torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


class Counting:
    """A backend for torch.compile that changes nothing. It keeps the graphs that it gets and counts how often they run.

    graphs: the graph modules, in the order in which they were made. runs: how often one of them ran.
    """

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.runs = 0

    def __call__(self, graph: fx.GraphModule, examples: list) -> Callable[..., Any]:
        self.graphs.append(graph)

        def run(*args: object) -> Any:
            self.runs += 1
            return graph(*args)

        return run


@contextmanager
def fresh_compiler() -> Iterator[None]:
    """Inside, nothing has been compiled, all settings of the compiler are as at the chapter's beginning, and nothing
    is written to stderr. Afterwards settings, stance and logs are as before, and nothing has been compiled."""
    before = [module.get_config_copy() for module in _MODULES]
    levels = [logging.getLogger(name).level for name in _LOGS]
    torch._dynamo.reset()
    try:
        _set(_SETTINGS)
        for name in _LOGS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with torch.compiler.set_stance("default"), redirect_stderr(io.StringIO()):
            yield
    finally:
        for name, level in zip(_LOGS, levels, strict=True):
            logging.getLogger(name).setLevel(level)
        _set(before)
        torch._dynamo.reset()


def _set(wanted: list[dict[str, Any]]) -> None:
    for module, settings in zip(_MODULES, wanted, strict=True):
        now = module.get_config_copy()
        for name, value in settings.items():
            if now[name] != value:
                setattr(module, name, value)


def settings_changed() -> list[str]:
    """The names of the compiler's settings that are not as at the chapter's beginning."""
    return [
        name
        for module, settings in zip(_MODULES, _SETTINGS, strict=True)
        for name, value in module.get_config_copy().items()
        if settings[name] != value
    ]


def graphs_after(function: Callable[..., Any], *calls: tuple, **options: Any) -> list[int]:
    """How many graphs have been made after each call of a function that is compiled anew.

    calls: the arguments of each call. options: for torch.compile.
    """
    with fresh_compiler():
        backend, counts = Counting(), []
        compiled = torch.compile(function, backend=backend, **options)
        for args in calls:
            compiled(*args)
            counts.append(len(backend.graphs))
    return counts
