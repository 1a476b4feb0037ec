"""While no cell runs, a kernel loads what would make the first verdict a second late: torch's compiler, which any
optimizer loads, what its partitioner needs, and the process that ranks are forked from."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Container
from importlib import import_module

from torchkata.base.editor import shell_here, somebody_looks
from torchkata.processes import get_ready

REST = 0.4  # seconds without a cell, after which it begins

# By a name that the chapter's first cell imports. The second time, a step has nothing left to do.
_STEPS: dict[str, Callable[[], object]] = {
    "run_on_ranks": get_ready,
    "check": lambda: import_module("torch._dynamo"),
    "min_cut_rematerialization_partition": lambda: import_module("torch._inductor.lowering"),
}


def load_at_rest() -> None:
    """From now on, in a kernel that somebody looks at, load what is missing whenever no cell has run for a while."""
    if (shell := shell_here()) is None:
        return
    coming: list[asyncio.TimerHandle] = []  # the call that is to come, if any

    def wait(*_: object) -> None:
        for call in coming:
            call.cancel()
        coming[:] = [asyncio.get_running_loop().call_later(REST, _load, shell.user_ns)] if somebody_looks() else []

    shell.events.register("post_run_cell", wait)


def _load(names: Container[str]) -> None:
    """In silence; if a step fails, the check that needs it tells why."""
    for name, step in _STEPS.items():
        if name in names:
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step()
