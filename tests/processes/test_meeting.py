"""Where ranks find each other: a store like torch's own, in which nobody waits for the next look."""

from __future__ import annotations

import gc
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from torchkata.processes import run_on_ranks
from torchkata.processes.meeting import LATEST, meeting_place


@pytest.fixture
def places(tmp_path: Path) -> list[dist.Store]:
    """What two ranks hold."""
    return [meeting_place(tmp_path / "store", 2, timedelta(seconds=0.2)) for _ in range(2)]


def test_one_rank_reads_what_another_writes(places: list[dist.Store]):
    first, second = (dist.PrefixStore("ranks", place) for place in places)  # as torch asks: from its native half
    first.set("a", "1")
    assert second.get("a") == b"1"
    assert [first.add("n", 2), second.add("n", 3)] == [2, 5]
    assert second.compare_set("a", "1", "2") == b"2"
    assert first.check(["a", "n"])
    assert not first.check(["b"])
    assert second.clone().get("a") == b"2"
    assert first.num_keys() == 3  # torch counts one of its own
    assert second.delete_key("a")
    assert not first.check(["a"])


def test_who_waits_hears_at_once(places: list[dist.Store]):
    writer = threading.Timer(0.004, places[0].set, ("late", "x"))
    begun = time.perf_counter()
    writer.start()
    places[1].wait(["late"])
    assert time.perf_counter() - begun < 0.1
    writer.join()


@pytest.mark.parametrize("wait", [lambda s: s.get("never"), lambda s: s.wait(["never"], timedelta(seconds=0.1))])
def test_who_waits_in_vain_hears_that_and_has_used_little(wait, places: list[dist.Store]):
    used = time.process_time()
    with pytest.raises(RuntimeError, match="Wait timeout"):
        wait(places[0])
    assert time.process_time() - used < 0.1
    assert LATEST == 0.01  # as often as torch itself looks: a hang is told by how little ranks compute


def test_a_group_in_the_group_finds_the_place_again():
    def story(rank: int, world: int) -> list[int]:
        gc.collect()  # torch itself keeps only its own half of the place
        sizes = [dist.new_group([0, 1]).size(), dist.new_group(backend="gloo").size()]
        dist.monitored_barrier()
        return sizes

    assert run_on_ranks(story, stall=5.0) == [[2, 2]] * 2
