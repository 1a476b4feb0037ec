"""The constructed snapshot: its format, and that the run still gives it."""

import pytest
import torch
from torch.cuda import _memory_viz

from torchkata.instruments.blocks import MIB, BlockCache
from torchkata.instruments.driver import Device
from torchkata.instruments.snapshot import PROGRAM, SCRIPT, Recorder, record, recorded_step


def bare(entries):
    return [(entry["action"], entry["addr"], entry["size"]) for entry in entries]


def test_a_run_gives_the_stored_recording_but_for_lines_in_torch():
    now, stored = record(), recorded_step()
    assert bare(now["device_traces"][0]) == bare(stored["device_traces"][0])

    def own(entries):
        return [[f["line"] for f in entry["frames"] if f["filename"] == SCRIPT] for entry in entries]

    assert own(now["device_traces"][0]) == own(stored["device_traces"][0])


def test_the_segments_hold_what_the_trace_leaves():
    snapshot = recorded_step()
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert sum(s["total_size"] for s in snapshot["segments"]) == 62 * MIB
    assert sum(b["size"] for b in blocks if b["state"] == "active_allocated") == sum(
        s["allocated_size"] for s in snapshot["segments"]
    )
    text = _memory_viz.segsum(snapshot)
    assert "total_reserved: 62.0MiB" in text


def test_frames_begin_with_the_innermost_and_backward_has_none():
    entries = [e for e in recorded_step()["device_traces"][0] if e["action"] == "alloc"]
    assert "/torch/" in entries[0]["frames"][0]["filename"]
    assert entries[0]["frames"][-1]["filename"] == SCRIPT
    assert sum(not e["frames"] for e in entries) > 5
    lines = {f["line"] for e in entries for f in e["frames"] if f["filename"] == SCRIPT}
    assert PROGRAM.splitlines()[18].strip() == "optimizer.step()" and 19 in lines


def test_every_call_gets_a_snapshot_of_its_own():
    recorded_step()["segments"].clear()
    assert recorded_step()["segments"]


def test_no_room_is_an_error():
    recorder = Recorder(BlockCache(Device(2 * MIB)))
    with pytest.raises(MemoryError), recorder:
        torch.zeros(2 * MIB)
