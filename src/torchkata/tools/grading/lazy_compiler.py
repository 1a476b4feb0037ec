"""torch's compiler stays unloaded until something is compiled.

torch marks functions that its compiler must not look into, all optimizers' and many of those that work on meta tensors.
The first call of one loads the compiler (`torch._dynamo`, a second of work), only to tell it so (`torch/_compile.py`).
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

from torch import _compile

COMPILER = "torch._dynamo"


def load_compiler(now: bool) -> None:
    """Load it now, or else only when something needs it."""
    if now:
        import_module(COMPILER)
    else:
        keep_compiler_unloaded()


def keep_compiler_unloaded() -> None:
    """Marked functions of all modules that are loaded by now are called as they are, as long as there is no compiler.
    Once it is loaded, by whatever needs it, they are kept from it as ever. Where torch marks otherwise than expected,
    nothing changes."""
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        marks = _compile._disable_dynamo(lambda: None).__code__
        place = marks.co_freevars.index("fn")
        for marked in [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__ is marks]:
            _keep_from_loading(marked, (marked.__closure__ or ())[place].cell_contents)


def _keep_from_loading(marked: Callable, function: Any) -> None:
    if not hasattr(function, "__dynamo_disable"):
        with contextlib.suppress(AttributeError):  # no function of Python's
            function.__dynamo_disable = _without_compiler(marked, function)


def _without_compiler(marked: Callable, function: Any) -> Callable:
    """What torch finds in the place of what the compiler would have made of the function."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if COMPILER not in sys.modules:
            return function(*args, **kwargs)
        function.__dict__.pop("__dynamo_disable", None)
        return marked(*args, **kwargs)

    return call
