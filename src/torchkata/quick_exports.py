"""Exports to ONNX in half of the time: torch 2.13 works out anew for each of them what does not change between two."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any


def quicken_exports() -> None:
    """From now on, exports share the list of translations, their signatures, and a look at all of torch's operations.

    All of this is torch's own business and may move; then exports take as long as they do without it.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from torch.onnx._internal._lazy_import import onnxscript_apis

        if "get_torchlib_ops" not in vars(onnxscript_apis):
            onnxscript_apis.get_torchlib_ops = _read_once(onnxscript_apis)


def _read_once(apis: Any) -> Callable[[], Any]:
    """The list of all translations. The first export asks for it when it has loaded what else there is to quicken."""

    @functools.cache
    def get_torchlib_ops() -> tuple:
        for quicken in (_keep_signatures, _look_once):
            with contextlib.suppress(ImportError, AttributeError):
                quicken()
        return tuple(type(apis).__getattr__(apis, "get_torchlib_ops")())

    return get_torchlib_ops


def _keep_signatures() -> None:
    """Of each translation."""
    from torch.onnx._internal.exporter import _schemas

    schemas: Any = _schemas
    if not hasattr(schemas.op_signature_from_function, "__wrapped__"):
        schemas.op_signature_from_function = functools.lru_cache(maxsize=4096)(schemas.op_signature_from_function)


def _look_once() -> None:
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
            user._collect_all_valid_cia_ops = collect_with_one_look
