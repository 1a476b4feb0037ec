"""Recording which torch operations ran: names as Python calls them, and ATen operations with what they touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS_VALUES = ("item", "tolist")  # Python-level calls that read values
# ATen operations that take a tensor only for its storage, shape, dtype or device
READS_NOTHING = frozenset(
    ["detach", "set_"]
    + [f"{kind}_like" for kind in ("empty", "zeros", "ones", "full", "rand", "randn", "randint")]
    + [f"new_{kind}" for kind in ("empty", "empty_strided", "zeros", "ones", "full")]
)


class Recorder:
    """Notes operations, each as a plain dict: name, level ("python" or "aten"), phase ("forward" or "backward"), view,
    device (of what it produced), elements (of its largest product), reads (watched tensors whose values it read)."""

    def __init__(self, watched: dict[str, Tensor]):
        self.ops: list[dict] = []
        self.phase = "forward"
        self._watched = {t.untyped_storage()._cdata: name for name, t in watched.items()}

    @contextmanager
    def recording(self, phase: str) -> Iterator[None]:
        self.phase = phase
        with _PythonCalls(self), _AtenCalls(self):
            yield

    def note(self, name: str, level: str, *, view: bool, out: object, reads: list[str]) -> None:
        tensors = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.ops.append(
            {
                "name": name,
                "level": level,
                "phase": self.phase,
                "view": view,
                "device": tensors[0].device.type if tensors else None,
                "elements": max((t.numel() for t in tensors), default=0),
                "reads": reads,
            }
        )

    def touched(self, *inputs: object) -> list[str]:
        found = []
        for leaf in tree_leaves(inputs):
            if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
                name = self._watched.get(leaf.untyped_storage()._cdata)
                if name is not None and name not in found:
                    found.append(name)
        return found


class _PythonCalls(TorchFunctionMode):
    def __init__(self, recorder: Recorder):
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = _python_name(func)
        reads = self.recorder.touched(args) if name in READS_VALUES else []
        self.recorder.note(name, "python", view=False, out=None, reads=reads)
        return out


def _python_name(func: object) -> str:
    name = getattr(func, "__name__", "?")
    if name in ("__get__", "__set__"):  # a property, such as Tensor.shape
        return getattr(getattr(func, "__self__", None), "__name__", name)
    return name


class _AtenCalls(TorchDispatchMode):
    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: to skip it, torch would import torch._dynamo, which takes a second, at the first observation."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        reads = [] if func.is_view or name in READS_NOTHING else self.recorder.touched(args, kwargs)
        self.recorder.note(name, "aten", view=func.is_view, out=out, reads=reads)
        return out
