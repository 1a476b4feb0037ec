"""The recorded step: its format, what the program holds at its peak, and that the ledger foretells it on the CPU."""

import json

import pytest
import torch
from torch.cuda import _memory_viz

from torchkata.instruments.blocks import MIB
from torchkata.instruments.ledger import measured
from torchkata.instruments.snapshot import (
    PACKAGES,
    SCRIPT,
    program_at_the_peak,
    record,
    recorded_step,
    step_on_the_cpu,
)


def test_the_ledger_gives_the_recorded_peak_on_the_cpu():
    alive, peak = {}, 0
    for entry in recorded_step()["device_traces"][0]:
        if entry["action"] == "alloc":
            alive[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            alive.pop(entry["addr"], None)
        peak = max(peak, sum(alive.values()))
    assert measured(step_on_the_cpu())[1] == peak
    assert 0 <= recorded_step()["recorded"]["max_memory_allocated"] - peak < 512 * len(alive)


def test_torch_reads_the_segments():
    snapshot = recorded_step()
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    assert used == sum(segment["allocated_size"] for segment in snapshot["segments"])
    assert sum(segment["total_size"] for segment in snapshot["segments"]) == 126 * MIB
    assert "total_reserved: 126.0MiB" in _memory_viz.segsum(snapshot)


def test_frames_begin_with_the_innermost_and_backward_has_none():
    entries = [e for e in recorded_step()["device_traces"][0] if e["action"] == "alloc"]
    assert "/torch/" in entries[0]["frames"][0]["filename"]
    assert entries[0]["frames"][-1]["filename"] == SCRIPT
    assert sum(not e["frames"] for e in entries) > 5


def test_no_path_of_the_machine_is_left():
    def names(value):
        if isinstance(value, dict):
            yield from ([value["filename"]] if "filename" in value else [])
            value = list(value.values())
        if isinstance(value, list):
            for inner in value:
                yield from names(inner)

    assert {name.startswith((f"{PACKAGES}torch/", SCRIPT)) for name in names(recorded_step())} == {True}


def test_each_line_says_what_it_holds():
    told = [line for line in program_at_the_peak(recorded_step()).splitlines() if "MiB" in line]
    assert told == [
        "     2 MiB      return model[2](hidden)",
        " 24.03 MiB      optimizer.step()",
        "  8.01 MiB  (blocks without a frame of this program)",
    ]


def test_every_call_gets_a_snapshot_of_its_own():
    recorded_step()["segments"].clear()
    assert recorded_step()["segments"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_can_be_recorded_anew():
    assert json.loads(json.dumps(record()))["device_traces"][0]
