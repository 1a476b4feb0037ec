"""A training step as torch.cuda.memory recorded it on a GPU, and how to record it anew.

`python -m torchkata.instruments.snapshot` writes recorded_step.json on a machine with a CUDA device. Of each entry it
keeps what the chapter reads, of the frames those of the program and of torch, and of their paths nothing of the
machine.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from torchkata.instruments.blocks import mib

RECORDING = "recorded_step.json"
SCRIPT = "/home/ada/pets/train.py"  # where the recorded program is said to lie
PACKAGES = "/home/ada/venv/lib/python3.12/site-packages/"
PROGRAM = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(1024, 512).cuda(), torch.randn(1024, 512).cuda()


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
ENTRY = ("action", "addr", "size", "stream", "frames")


@cache
def _recorded() -> str:
    return (files("torchkata.instruments") / RECORDING).read_text(encoding="utf-8")


def recorded_step() -> dict[str, Any]:
    """The snapshot of one training step: "segments" and "device_traces" as torch writes them.

    "recorded" says on what: device, torch, and max_memory_allocated() above what was there before the step.
    """
    return json.loads(_recorded())


def program_at_the_peak(snapshot: dict[str, Any]) -> str:
    """The recorded program, and beside each line what it holds at the peak of the step, in words."""
    held = _held_at_the_peak(snapshot["device_traces"][0])
    told = [f"{mib(held[number]) if number in held else '':>10}  {line}".rstrip() for number, line in _lines()]
    return "\n".join([*told, f"{mib(held[0]):>10}  (blocks without a frame of this program)"])


def _lines() -> list[tuple[int, str]]:
    """The numbered lines of the program, from its first function on."""
    numbered = list(enumerate(PROGRAM.splitlines(), 1))
    return numbered[[line for _, line in numbered].index("def forward(x):") :]


def _held_at_the_peak(trace: list[dict[str, Any]]) -> dict[int, int]:
    """Bytes by line of the program, 0 for none of its lines, at the first moment at which most is allocated."""
    alive: dict[int, dict[str, Any]] = {}
    peak, then = 0, list[dict[str, Any]]()
    for entry in trace:
        if entry["action"] == "alloc":
            alive[entry["addr"]] = entry
        elif entry["action"] == "free_completed":
            alive.pop(entry["addr"], None)
        size = sum(block["size"] for block in alive.values())
        if size > peak:
            peak, then = size, list(alive.values())
    held = {0: 0}
    for block in then:
        line = next((frame["line"] for frame in block["frames"] if frame["filename"] == SCRIPT), 0)
        held[line] = held.get(line, 0) + block["size"]
    return held


def step_on_the_cpu() -> Callable[[], float]:
    """The step of PROGRAM on the CPU. Adam works on lists of parameters there as well, as it does on a GPU."""
    space: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(PROGRAM.replace(".cuda()", "").replace("lr=1e-3", "lr=1e-3, foreach=True"), space)
    return space["step"]


def record() -> dict[str, Any]:
    """Run the first step of PROGRAM on a GPU, in which the optimizer makes its state, and record it.

    Forward and backward have run once before, so that libraries have taken their workspaces.
    """
    space: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(compile(PROGRAM, SCRIPT, "exec"), space)
    space["forward"](space["x"]).sum().backward()
    space["optimizer"].zero_grad()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    try:
        space["step"]()
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    trace = [{key: entry[key] for key in ENTRY if key in entry} for entry in snapshot["device_traces"][0]]
    return {
        "recorded": {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "max_memory_allocated": torch.cuda.max_memory_allocated() - before,
        },
        "segments": _told(snapshot["segments"]),
        "device_traces": [_told(trace)],
    }


def _told(value: Any) -> Any:
    """A part of a snapshot with the frames that a reader needs."""
    if isinstance(value, dict):
        return {key: _frames(inner) if key == "frames" else _told(inner) for key, inner in value.items()}
    return [_told(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _frames(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the recorded program and of torch, innermost first."""
    told = []
    for frame in frames:
        _, inside, place = frame["filename"].replace("\\", "/").rpartition("site-packages/torch/")
        if inside or place == SCRIPT:
            file = f"{PACKAGES}torch/{place}" if inside else SCRIPT
            told.append({"filename": file, "line": frame["line"], "name": frame["name"]})
    return told


if __name__ == "__main__":
    target = Path(__file__).with_name(RECORDING)
    target.write_text(json.dumps(record(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{target}: {target.stat().st_size} bytes")
