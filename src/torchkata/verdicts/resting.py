"""While a kernel is at rest it loads what checks need: then nobody waits a second for their first verdict."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchkata.loading import loading
from torchkata.processes import get_ready
from torchkata.quick_exports import export_once, refuse_once
from torchkata.verdicts.cells import shell_here
from torchkata.verdicts.showing import somebody_looks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

REST = 0.4  # seconds without a cell, after which it begins
BREATH = 0.1  # seconds between two steps, in which a cell can come

# By the name that a chapter's first cell imports, what its checks will need. One step takes up to a second, and a cell
# that is run meanwhile waits for it; so they are done one at a time.
_STEPS: dict[str, tuple[str | Callable[[], object], ...]] = {
    "run_on_ranks": (get_ready,),
    "check": ("sympy", "torch._dynamo"),  # any optimizer loads them
    "quiet_exporter": ("onnx", "onnxscript", "onnxruntime", export_once, refuse_once, "sympy.physics.units"),
}


def load_at_rest() -> None:
    """From now on, in a kernel that somebody looks at, load what is missing whenever no cell has run for a while.

    In a kernel, the collector of garbage no longer looks at what the chapter's first cell has loaded before, torch
    above all: that took a quarter of a second each time, in whichever check it fell. Nothing there is a learner's yet.
    """
    shell = shell_here()
    loop = getattr(getattr(shell, "kernel", None), "io_loop", None)
    if shell is None or loop is None:
        return
    gc.freeze()
    done: set[object] = set()
    coming: list[Any] = []  # the call of `go_on` that is to come, if any

    def wait(*_: object) -> None:
        for call in coming:
            loop.remove_timeout(call)
        coming[:] = [loop.call_later(REST, go_on)] if somebody_looks() else []

    def go_on() -> None:
        coming.clear()
        if (step := _next_step(shell, done)) is not None:
            done.add(step)
            _do(step)
            coming.append(loop.call_later(BREATH, go_on))

    shell.events.register("post_run_cell", wait)


def _next_step(shell: InteractiveShell, done: set[object]) -> str | Callable[[], object] | None:
    wanted = [step for name, steps in _STEPS.items() if name in shell.user_ns for step in steps]
    return next((step for step in wanted if step not in done), None)


def _do(step: str | Callable[[], object]) -> None:
    """In silence; where it fails, the check that needs it tells why. What has been loaded by a learner's cell is left
    alone, and with it the objects that this cell has made."""
    if step in sys.modules:
        return
    with loading(), contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if callable(step):
            step()
        else:
            import_module(step)
