"""The caching allocator as rows of blocks, the driver below it, and each rule misread."""

import random
from itertools import pairwise

import pytest

from torchkata.instruments import misread_blocks
from torchkata.instruments.blocks import MIB, BlockCache, blocks_after, mib
from torchkata.instruments.driver import Device
from torchkata.instruments.misread_blocks import history


def variants():
    found = vars(misread_blocks).values()
    return [v for v in found if isinstance(v, type) and issubclass(v, BlockCache) and v is not BlockCache]


def plain_events(seed):
    """Requests, frees of what is there, and an empty_cache now and then."""
    dice, alive, events, cache = random.Random(seed), [], [], BlockCache(Device(120 * MIB))
    sizes = [300, 512, 5000, 400_000, MIB - 512, MIB, 2 * MIB, 5 * MIB, 9 * MIB, 10 * MIB, 19 * MIB, 25 * MIB - 9]
    for number in range(300):
        roll = dice.random()
        if roll < 0.04:
            events.append(("empty_cache",))
            cache.empty()
        elif alive and roll < 0.5:
            name = alive.pop(dice.randrange(len(alive)))
            events.append(("free", name))
            cache.give_back(name)
        else:
            events.append(("malloc", f"t{number}", dice.choice(sizes)))
            try:
                cache.take(*events[-1][1:])
                alive.append(f"t{number}")
            except MemoryError:
                pass
    return events


def test_a_small_request_takes_512_bytes_of_2_mib():
    stage = blocks_after([("alloc", "x", 4 / MIB)], 1)
    assert (stage.allocated, stage.reserved) == (512, 2 * MIB)
    assert stage.driver == ("malloc 2 MiB",) and stage.rows == (((512, "x"), (2 * MIB - 512, "")),)


def test_a_device_hands_out_and_takes_back():
    device = Device(100)
    first, second = device.malloc(40), device.malloc(60)
    assert second == first + 40 and device.used == 100
    with pytest.raises(MemoryError, match="1 bytes, 0 left"):
        device.malloc(1)
    device.free(first)
    assert device.used == 60 and device.malloc(40) == second + 60
    assert device.log == [("malloc", 40), ("malloc", 60), ("free", 40), ("malloc", 40)]


def test_the_sums_are_those_of_the_rows():
    trace = [("alloc", "a", 3), ("alloc", "b", 30), ("alloc", "c", 0.2), ("free", "a"), ("free", "b"), ("empty_cache",)]
    for count in range(len(trace) + 1):
        stage = blocks_after(trace, count)
        blocks = [block for row in stage.rows for block in row]
        assert stage.reserved == sum(size for size, _ in blocks)
        assert stage.allocated == sum(size for size, name in blocks if name)
        assert stage.largest_free == max((size for size, name in blocks if not name), default=0)


def test_58_reserved_and_2_alive_and_no_room_for_57():
    trace = [("alloc", "a", 58), ("free", "a"), ("alloc", "stays", 2), ("alloc", "b", 57)]
    failed = blocks_after(trace, 4)
    assert failed.failed and (failed.allocated, failed.reserved) == (2 * MIB, 58 * MIB)
    early = [*trace[:2], ("empty_cache",), *trace[2:]]
    late = [*trace[:3], ("empty_cache",), *trace[3:]]
    assert not blocks_after(early, 5).failed and blocks_after(late, 5).failed


@pytest.mark.parametrize("event", [("grow", "a", 1), ("free", "a")])
def test_an_event_that_makes_no_sense_is_refused(event):
    with pytest.raises(KeyError):
        blocks_after([event], 1)


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_never_both_free_and_nothing_overlaps(seed):
    cache, alive = BlockCache(Device(120 * MIB)), {}
    for what, *rest in plain_events(seed):
        if what == "malloc":
            try:
                alive[rest[0]] = cache.take(*rest)
            except MemoryError:
                continue
        elif what == "free":
            cache.give_back(rest[0])
            del alive[rest[0]]
        else:
            cache.empty()
        for segment in cache.segments:
            ends = [block.address + block.size for block in segment.blocks]
            assert [block.address for block in segment.blocks[1:]] == ends[:-1]
            free = [not block.name for block in segment.blocks]
            assert not any(a and b for a, b in pairwise(free))
        assert cache.allocated >= sum(block.asked for block in alive.values())


@pytest.mark.parametrize("variant", variants(), ids=lambda variant: variant.__name__)
def test_each_misread_rule_shows_in_some_history(variant):
    limits = [
        ("malloc", "a", 10 * MIB),
        ("malloc", "b", 2 * MIB - 512),
        ("malloc", "c", MIB),
        ("malloc", "d", MIB - 512),
    ]
    two = [
        ("malloc", "a", 20 * MIB),
        ("malloc", "b", 20 * MIB),
        ("free", "a"),
        ("free", "b"),
        ("malloc", "c", 30 * MIB),
    ]
    one = [("malloc", "a", 30 * MIB), ("free", "a"), ("malloc", "b", 29 * MIB)]
    equal = [("malloc", n, 4 * MIB) for n in "abcde"] + [("free", "a"), ("free", "c"), ("malloc", "f", 4 * MIB)]
    traces = [limits, two, one, equal, *map(plain_events, range(3))]
    assert any(history(variant, 120 * MIB, t) != history(BlockCache, 120 * MIB, t) for t in traces)


def test_sizes_are_told_as_people_say_them():
    assert [mib(size) for size in (4, 1024, 20 * MIB, 3 * MIB // 2)] == ["4 bytes", "1 KiB", "20 MiB", "1.5 MiB"]
