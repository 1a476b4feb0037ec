"""A run on the CPU, told in the format of torch.cuda.memory._snapshot(): constructed, no GPU is involved.

Every storage that an operation makes is asked for from the caching allocator of `blocks`. Order and sizes are those of
the run; the addresses are invented. On a GPU some operations need workspaces that a run on the CPU does not show, and
others make no intermediate results. There, backward runs in a thread of its own without Python frames, so the entries
of backward have none here either.

`python -m torchkata.instruments.snapshot` writes recorded_step.json anew.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchkata.instruments.blocks import BlockCache
from torchkata.instruments.driver import Device

RECORDING = "recorded_step.json"
SCRIPT = "/home/ada/pets/train.py"  # where the recorded program is said to lie
PACKAGES = "/home/ada/venv/lib/python3.12/site-packages/"
PROGRAM = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(1024, 512), torch.randn(1024, 512)


def forward(x):
    hidden = model[0](x)
    hidden = model[1](hidden)
    return model[2](hidden)


def step():
    out = forward(x)
    loss = (out - y).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()
"""


@cache
def _recorded() -> str:
    return (files("torchkata.instruments") / RECORDING).read_text(encoding="utf-8")


def recorded_step() -> dict[str, Any]:
    """The constructed snapshot of one training step: "segments" and "device_traces" as torch writes them."""
    return json.loads(_recorded())


class Recorder(TorchDispatchMode):
    """Inside its `with` block, storages are asked for from an allocator; `entries` are those of a device trace.

    known: tensors that are there before the recording begins.
    """

    def __init__(self, cache: BlockCache, *known: Tensor):
        super().__init__()
        self.cache = cache
        self.entries: list[dict[str, Any]] = []
        self._live: dict[int, tuple[StorageWeakRef, int, list[dict[str, Any]]]] = {}
        for tensor in known:
            self._made(tensor, [], note=False)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.sweep()
        out = func(*args, **(kwargs or {}))
        where = _frames()
        for value in tree_leaves(out):
            if isinstance(value, Tensor):
                self._made(value, where)
        return out

    def sweep(self) -> None:
        """Free what nobody holds any more."""
        for key, (reference, size, _) in list(self._live.items()):
            if reference.expired():
                del self._live[key]
                block = self.cache.give_back(str(key))
                for action in ("free_requested", "free_completed"):  # one stream: nobody else uses it
                    self._note(action, block.address, size, [])

    def snapshot(self) -> dict[str, Any]:
        """All segments with their blocks, and the trace."""
        self.sweep()
        frames = {str(key): where for key, (_, _, where) in self._live.items()}
        return {
            "segments": [_segment(segment, frames) for segment in self.cache.segments],
            "device_traces": [self.entries],
        }

    def _made(self, tensor: Tensor, where: list[dict[str, Any]], note: bool = True) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata in self._live or not storage.nbytes():
            return
        asked = len(self.cache.device.log)
        block = self.cache.take(str(storage._cdata), storage.nbytes())
        if note:
            for what, size in self.cache.device.log[asked:]:
                self._note("segment_alloc" if what == "malloc" else "segment_free", block.address, size, where)
            self._note("alloc", block.address, storage.nbytes(), where)
        self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes(), where)

    def _note(self, action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames})


def _segment(segment: Any, frames: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    blocks = [
        {
            "address": block.address,
            "size": block.size,
            "requested_size": block.asked,
            "state": "active_allocated" if block.name else "inactive",
            "frames": frames.get(block.name, []),
        }
        for block in segment.blocks
    ]
    used = sum(block.size for block in segment.blocks if block.name)
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(block.asked for block in segment.blocks),
        "stream": 0,
        "segment_type": "small" if segment.small else "large",
        "segment_pool_id": [0, 0],
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _frames() -> list[dict[str, Any]]:
    """The Python frames of the recorded program and of torch, innermost first; none in backward."""
    frame: FrameType | None = sys._getframe(2)
    found: list[dict[str, Any]] = []
    while frame is not None:
        file = frame.f_code.co_filename.replace("\\", "/")
        if file.endswith("torch/autograd/__init__.py") and frame.f_code.co_name == "backward":
            return []
        if file == SCRIPT or "/torch/" in file:
            inside = file.rpartition("site-packages/")[2]
            place = file if file == SCRIPT else PACKAGES + inside
            found.append({"filename": place, "line": frame.f_lineno, "name": frame.f_code.co_name})
        frame = frame.f_back
    return found


def record() -> dict[str, Any]:
    """Run the first step of PROGRAM, in which the optimizer makes its state, and record it."""
    space: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(compile(PROGRAM, SCRIPT, "exec"), space)
    known = [*space["model"].parameters(), space["x"], space["y"]]
    recorder = Recorder(BlockCache(Device(1 << 30)), *known)
    with recorder:
        space["step"]()
    return recorder.snapshot()


if __name__ == "__main__":
    target = Path(__file__).with_name(RECORDING)
    target.write_text(json.dumps(record(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{target}: {target.stat().st_size} bytes")
