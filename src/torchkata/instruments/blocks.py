"""A caching allocator, told as rows of blocks: the rules of PyTorch's native allocator on CUDA, simulated.

One stream and default settings; left out are max_split_size, rounding to powers of two, private pools and expandable
segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torchkata.instruments.driver import Device

KIB, MIB = 1 << 10, 1 << 20
SMALL = MIB  # the largest request of the small pool
Event = Sequence[Any]  # ("alloc", name, MiB), ("free", name) or ("empty_cache",)


@dataclass(eq=False)
class Block:
    """A piece of a segment; `name` says who uses it, "" for nobody. asked: the bytes of the request."""

    address: int
    size: int
    name: str = ""
    asked: int = 0


@dataclass(eq=False)
class Segment:
    """What the driver gave at once, cut into blocks that lie side by side."""

    small: bool
    blocks: list[Block]

    @property
    def address(self) -> int:
        return self.blocks[0].address

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    @property
    def is_free(self) -> bool:
        return not any(block.name for block in self.blocks)


class BlockCache:
    """The segments of a device, from which blocks are taken by name and given back by name."""

    def __init__(self, device: Device):
        self.device = device
        self.segments: list[Segment] = []

    @property
    def reserved(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def allocated(self) -> int:
        return sum(block.size for segment in self.segments for block in segment.blocks if block.name)

    @property
    def largest_free(self) -> int:
        return max((b.size for segment in self.segments for b in segment.blocks if not b.name), default=0)

    def take(self, name: str, size: int) -> Block:
        """A block of `size` bytes (1 or more) in use under a name. MemoryError, with nothing changed but the segments
        that were free, if the device has no room."""
        rounded = self.rounded(size)
        small = self.is_small(rounded)
        segment, block = self._best_fit(rounded, small) or self._of_new_segment(rounded, small)
        if self.is_split(block.size - rounded, small):
            place = segment.blocks.index(block) + 1
            segment.blocks.insert(place, Block(block.address + rounded, block.size - rounded))
            block.size = rounded
        block.name, block.asked = name, size
        return block

    def give_back(self, name: str) -> Block:
        """Free the block of this name and melt it with its free neighbours. Returns it as it was; KeyError for a name
        that is not in use."""
        segment, block = self._found(name)
        was = Block(block.address, block.size, block.name, block.asked)
        block.name, block.asked = "", 0
        self.melt(segment, segment.blocks.index(block))
        return was

    def empty(self) -> int:
        """Give every segment without a used block back to the driver; returns how many bytes that were."""
        return self._return([segment for segment in self.segments if segment.is_free])

    # ------------------------------------------------ the rules

    def rounded(self, size: int) -> int:
        return -(-size // 512) * 512

    def is_small(self, rounded: int) -> bool:
        return rounded <= SMALL

    def segment_size(self, rounded: int, small: bool) -> int:
        if small:
            return 2 * MIB
        return 20 * MIB if rounded < 10 * MIB else -(-rounded // (2 * MIB)) * 2 * MIB

    def is_split(self, rest: int, small: bool) -> bool:
        return rest >= 512 if small else rest > MIB

    def order(self, block: Block) -> tuple[int, ...]:
        """Of the free blocks that are large enough, the one with the smallest order is taken."""
        return block.size, block.address

    def melt(self, segment: Segment, place: int) -> None:
        """Join a free block with its free neighbours."""
        self.melt_right(segment, place)
        if place and not segment.blocks[place - 1].name:
            self.melt_right(segment, place - 1)

    def melt_right(self, segment: Segment, place: int) -> None:
        if place + 1 < len(segment.blocks) and not segment.blocks[place + 1].name:
            segment.blocks[place].size += segment.blocks.pop(place + 1).size

    def make_room(self, wanted: int, small: bool) -> None:
        """The driver has refused `wanted` bytes."""
        self.empty()

    # ------------------------------------------------ steps

    def _found(self, name: str) -> tuple[Segment, Block]:
        for segment in self.segments:
            for block in segment.blocks:
                if name and block.name == name:
                    return segment, block
        raise KeyError(name)

    def _best_fit(self, size: int, small: bool) -> tuple[Segment, Block] | None:
        segments = [segment for segment in self.segments if segment.small == small]
        fits = [(s, block) for s in segments for block in s.blocks if not block.name and block.size >= size]
        return min(fits, key=lambda pair: self.order(pair[1]), default=None)

    def _of_new_segment(self, size: int, small: bool) -> tuple[Segment, Block]:
        wanted = self.segment_size(size, small)
        try:
            address = self.device.malloc(wanted)
        except MemoryError:
            self.make_room(wanted, small)
            address = self.device.malloc(wanted)
        segment = Segment(small, [Block(address, wanted)])
        self.segments.append(segment)
        return segment, segment.blocks[0]

    def _return(self, segments: Sequence[Segment]) -> int:
        for segment in segments:
            self.device.free(segment.address)
        self.segments = [segment for segment in self.segments if segment not in segments]
        return sum(segment.size for segment in segments)


@dataclass(frozen=True)
class Stage:
    """How the blocks lie after an event.

    rows: for each segment, small first or not, its blocks as (bytes, name). driver: what the driver was asked, in
    words. failed: the event found no room.
    """

    event: str
    rows: tuple[tuple[tuple[int, str], ...], ...] = ()
    allocated: int = 0
    reserved: int = 0
    largest_free: int = 0
    driver: tuple[str, ...] = field(default=())
    failed: bool = False


def blocks_after(trace: Sequence[Event], count: int, capacity: int = 100 * MIB) -> Stage:
    """Run the first `count` events of a trace and tell how the blocks lie then. After a failure nothing more runs.

    Raises KeyError for an event of another kind, and for a name that is not there to be freed.
    """
    cache = BlockCache(Device(capacity))
    told, driver, failed = "nothing has been asked for", tuple[str, ...](), False
    for event in trace[:count]:
        before = len(cache.device.log)
        told = spelled(event)
        try:
            _run(cache, event)
        except MemoryError:
            failed = True
        driver = tuple(f"{what} {mib(size)}" for what, size in cache.device.log[before:])
        if failed:
            break
    rows = tuple(tuple((block.size, block.name) for block in segment.blocks) for segment in cache.segments)
    return Stage(told, rows, cache.allocated, cache.reserved, cache.largest_free, driver, failed)


def _run(cache: BlockCache, event: Event) -> None:
    kind, *rest = event
    if kind == "alloc":
        cache.take(rest[0], round(rest[1] * MIB))
    elif kind == "free":
        cache.give_back(rest[0])
    elif kind == "empty_cache":
        cache.empty()
    else:
        raise KeyError(kind)


def spelled(event: Event) -> str:
    """An event in words."""
    kind, *rest = event
    if kind == "alloc":
        return f"{rest[0]} asks for {mib(round(rest[1] * MIB))}"
    return f"{rest[0]} is freed" if kind == "free" else "empty_cache()"


def mib(size: int) -> str:
    """A number of bytes as people say it."""
    if size < 512 * KIB:
        return f"{size / KIB:g} KiB" if size >= KIB else f"{size} bytes"
    return f"{round(size / MIB, 2):g} MiB"
