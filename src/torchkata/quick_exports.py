"""Exports to ONNX in a quarter of the time: torch 2.13 works out anew for each what does not change between two.

This is for checks, where somebody waits for a verdict. A learner's own exports are torch's, in all that can be seen,
timed or stepped through.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any

from torchkata.quick_decompositions import keep_decompositions
from torchkata.quick_fakes import look_at_one_of_a_kind

Replace = Callable[[Any, str, Any], None]  # in a module or a class, under a name, by something quicker


@contextlib.contextmanager
def quick_exports() -> Iterator[None]:
    """Inside, exports share the list of translations, their signatures, and a look at all of torch's operations; they
    don't note from which line of code a node comes; and nobody looks for garbage, of which an export makes little.
    Afterwards everything in torch is its own again.

    All of this is torch's own business and may move; then exports take as long as they do without it.
    """
    with ExitStack() as afterwards:
        if gc.isenabled():
            gc.disable()
            afterwards.callback(gc.enable)
        with contextlib.suppress(ImportError, AttributeError):
            from torch.onnx._internal._lazy_import import onnxscript_apis

            if "get_torchlib_ops" not in vars(onnxscript_apis):  # there it is quick already
                onnxscript_apis.get_torchlib_ops = _quick_list(onnxscript_apis, afterwards)
                afterwards.callback(vars(onnxscript_apis).pop, "get_torchlib_ops", None)
        yield


def export_once() -> None:
    """Load what exports need, and what they share, by one that has a little of all that is common in models: layers, a
    choice, sums, powers, a product over time, numbers made in forward, and two sizes that may change."""
    import torch
    from torch import nn

    class Common(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
            lags = (steps[:, None] - steps).clamp(min=0)
            weights = 0.5 * (0.5**lags).tril() * (steps / steps[-1].clamp(min=1)).softmax(0)
            h = self.layers((weights @ x).relu().sum(1))
            return torch.where(h.mean() > 0, h.clamp(min=1e-6).log(), (1 - h) / 2)

    with _without_logs():
        _export_some(Common, ({0: "batch", 1: "time"},))


def refuse_once() -> None:
    """Load what it takes to refuse a model."""
    from torch import nn

    class OnValues(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x

    with contextlib.suppress(Exception), _without_logs(), _without_output():
        _export_some(OnValues, ({0: "batch"},))


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """torch 2.14 logs that torchvision is missing, and a refusal beside its exception."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _export_some(make: Callable, sizes: tuple) -> None:
    import torch

    with quick_exports(), torch.random.fork_rng(devices=[]):
        torch.onnx.export(make().eval(), (torch.ones(2, 4, 3),), dynamic_shapes=sizes, verbose=False)


def _quick_list(apis: Any, afterwards: ExitStack) -> Callable[[], tuple]:
    """What gives the list of all translations. An export asks for it when it has loaded what else there is to quicken:
    to load that earlier would take seconds from those who export nothing."""

    to_do = [_keep_signatures, _look_once, _register_without_types, _note_no_lines]
    to_do += [keep_decompositions, look_at_one_of_a_kind]
    replace = functools.partial(_replace, afterwards)

    def get_torchlib_ops() -> tuple:
        while to_do:
            with contextlib.suppress(ImportError, AttributeError):
                to_do.pop(0)(replace)
        return _translations(apis)

    return get_torchlib_ops


@functools.cache
def _translations(apis: Any) -> tuple:
    return tuple(type(apis).__getattr__(apis, "get_torchlib_ops")())


def _keep_signatures(replace: Replace) -> None:
    """Of each translation."""
    from torch.onnx._internal.exporter import _schemas

    schemas: Any = _schemas
    replace(schemas, "op_signature_from_function", _with_memory(schemas.op_signature_from_function))


@functools.cache
def _with_memory(function: Callable) -> Callable:
    return functools.lru_cache(maxsize=4096)(function)


def _look_once(replace: Replace) -> None:
    """At torch's operations when it collects those that can be taken apart: it would look once for each of 27 groups.
    Not once for all exports: somebody may register an operation between two."""
    from torch._export import utils as torchs_utils
    from torch.export import decomp_utils, exported_program

    utils: Any = torchs_utils
    users: list[Any] = [decomp_utils, exported_program]
    collect, look = utils._collect_all_valid_cia_ops, utils._materialize_cpp_cia_ops

    @functools.wraps(collect)
    def collect_with_one_look() -> set:
        look()
        utils._materialize_cpp_cia_ops = lambda: None
        try:
            return collect()
        finally:
            utils._materialize_cpp_cia_ops = look

    for user in users:
        if user._collect_all_valid_cia_ops is collect:
            replace(user, "_collect_all_valid_cia_ops", collect_with_one_look)


def _register_without_types(replace: Replace) -> None:
    """Kernels of operations: an export takes down twelve thousand, and torch works out a type annotation for each."""
    from torch._ops import OperatorBase

    replace(OperatorBase, "py_impl", _without_types(OperatorBase.py_impl))


@functools.cache
def _without_types(register: Callable) -> Callable:
    from torch._C import DispatchKey

    @functools.wraps(register)
    def py_impl(operation: Any, key: object) -> Callable:
        def inner(kernel):  # type: ignore[no-untyped-def] # this is what takes torch so long
            if type(key) is not DispatchKey or key == DispatchKey.Python or key in operation.py_kernels:
                return register(operation, key)(kernel)
            operation.py_kernels[key] = kernel
            operation._dispatch_cache.clear()
            return kernel

        return inner

    return py_impl


def _note_no_lines(replace: Replace) -> None:
    """Of code: for each node torch would put the whole stack into words."""
    from torch.fx import config

    replace(config, "do_not_emit_stack_traces", True)


def _replace(afterwards: ExitStack, module: Any, name: str, quick: Any) -> None:
    afterwards.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, quick)
