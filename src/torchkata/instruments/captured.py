"""What torch.compile makes of calls: how many graphs, and how often they run. Nothing is timed, and no C++ compiler is
needed."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import fx

_MODULES = (torch._dynamo.config, torch._functorch.config)
_LOGS = ("torch._dynamo", "torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


def _settings(module: Any) -> dict[str, Any]:
    """The settings of a module, without those that are deprecated: reading these warns."""
    kept = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        for name, value in module.get_config_copy().items():
            with suppress(FutureWarning):
                getattr(module, name)
                kept[name] = value
    return kept


_SETTINGS = [_settings(module) for module in _MODULES]  # before a learner's code has run


_watching: list[set[str]] = []


@contextmanager
def instruments_used() -> Iterator[set[str]]:
    """Collect the names of the chapter's instruments that are used inside. Some exercises ask for one of your own."""
    used = set[str]()
    _watching.append(used)
    try:
        yield used
    finally:
        _watching.pop()


def note_use(instrument: str) -> None:
    """An instrument of this name is being used."""
    for used in _watching:
        used.add(instrument)


class Counting:
    """A backend for torch.compile that changes nothing. It keeps the graphs that it gets and counts how often they run.

    graphs: the graph modules, in the order in which they were made. runs: how often one of them ran.
    """

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.runs = 0

    def __call__(self, graph: fx.GraphModule, examples: list) -> Callable[..., Any]:
        note_use("Counting")
        self.graphs.append(graph)

        def run(*args: object) -> Any:
            self.runs += 1
            return graph(*args)

        return run


@contextmanager
def fresh_compiler() -> Iterator[None]:
    """Inside, nothing has been compiled, all settings of the compiler are as at the chapter's beginning, and nothing is
    written to stderr. Afterwards settings, stance and logs are as before, and nothing has been compiled."""
    with ExitStack() as stack:
        stack.callback(torch._dynamo.reset)
        for module, settings in zip(_MODULES, _SETTINGS, strict=True):
            stack.enter_context(module.patch(settings))
        for name in _LOGS:
            stack.callback(logging.getLogger(name).setLevel, logging.getLogger(name).level)
            logging.getLogger(name).setLevel(logging.CRITICAL)
        stack.enter_context(torch.compiler.set_stance("default"))
        stack.enter_context(redirect_stderr(io.StringIO()))
        torch._dynamo.reset()
        yield


def settings_changed() -> list[str]:
    """The names of the compiler's settings that are not as at the chapter's beginning."""
    return [
        name
        for module, settings in zip(_MODULES, _SETTINGS, strict=True)
        for name, value in module.get_config_copy().items()
        if name in settings and settings[name] != value
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


class _Noting(logging.Handler):
    """Keeps the messages that it gets."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """Collect what one of torch's loggers says inside, in place of showing it on stderr."""
    logger, messages = logging.getLogger(name), list[str]()
    before, handler = (logger.level, logger.propagate), _Noting(messages)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def recompiles() -> Iterator[list[str]]:
    """Collect why functions are compiled again inside: what `TORCH_LOGS=recompiles` shows."""
    torch._logging.set_logs(recompiles=True)
    try:
        with logged("torch._dynamo.guards.__recompiles") as messages:
            yield messages
    finally:
        torch._logging.set_logs()


def reasons(messages: list[str]) -> list[str]:
    """Of each message on a recompile the guards that failed, one for each entry of the cache that was asked."""
    entries = [re.findall(r"^ *- (\d+/\d+: [^#\n]*[^#\s])", message, re.M) for message in messages]
    return ["; ".join(found) for found in entries]
