"""The caching allocator with one rule misread, so that a check can say which one an answer has misread."""

from __future__ import annotations

from collections.abc import Sequence

from torchkata.instruments.blocks import MIB, Block, BlockCache, Segment
from torchkata.instruments.driver import Device

Did = list[object]


def history(kind: type[BlockCache], capacity: int, events: Sequence[tuple]) -> list[Did]:
    """What an allocator does: for each event [address or name of an error, reserved, allocated, of the driver].

    Events: ("malloc", name, bytes), ("free", name), ("empty_cache",). What the driver was asked is sorted.
    """
    device = Device(capacity)
    cache = kind(device)
    found: list[Did] = []
    for what, *rest in events:
        asked = len(device.log)
        outcome: object = None
        try:
            if what == "malloc":
                outcome = cache.take(*rest).address
            elif what == "free":
                cache.give_back(*rest)
            else:
                cache.empty()
        except MemoryError:
            outcome = "MemoryError"
        except KeyError:
            outcome = "ValueError"
        found.append([outcome, cache.reserved, cache.allocated, sorted(map(list, device.log[asked:]))])
    return found


class TakesTheFirst(BlockCache):
    def order(self, block: Block) -> tuple[int, ...]:
        return (0,)


class TakesTheLowest(BlockCache):
    def order(self, block: Block) -> tuple[int, ...]:
        return (block.address,)


class TakesTheLargest(BlockCache):
    def order(self, block: Block) -> tuple[int, ...]:
        return -block.size, block.address


class TakesTheHighestOfEquals(BlockCache):
    def order(self, block: Block) -> tuple[int, ...]:
        return block.size, -block.address


class TakesTheUpperPart(BlockCache):
    def take(self, name: str, size: int) -> Block:
        block = super().take(name, size)
        blocks = self._found(name)[0].blocks
        place = blocks.index(block)
        if place + 1 < len(blocks) and not blocks[place + 1].name:  # it was split off just now
            rest = blocks.pop(place + 1)
            rest.address, block.address = block.address, block.address + rest.size
            blocks.insert(place, rest)
        return block


class NeverSplits(BlockCache):
    def is_split(self, rest: int, small: bool) -> bool:
        return False


class SplitsAlways(BlockCache):
    def is_split(self, rest: int, small: bool) -> bool:
        return rest >= 512


class SplitsOffJustOneMiB(BlockCache):
    def is_split(self, rest: int, small: bool) -> bool:
        return rest >= 512 if small else rest >= MIB


class KeepsJust512(BlockCache):
    def is_split(self, rest: int, small: bool) -> bool:
        return rest > 512 if small else rest > MIB


class NeverMelts(BlockCache):
    def melt(self, segment: Segment, place: int) -> None:
        pass


class MeltsToTheRight(BlockCache):
    def melt(self, segment: Segment, place: int) -> None:
        self.melt_right(segment, place)


class MeltsToTheLeft(BlockCache):
    def melt(self, segment: Segment, place: int) -> None:
        if place and not segment.blocks[place - 1].name:
            self.melt_right(segment, place - 1)


class MeltsAcrossSegments(BlockCache):
    def give_back(self, name: str) -> Block:
        was = super().give_back(name)
        for one in self.segments:
            for other in self.segments:
                touch = one.address + one.size == other.address and one.small == other.small
                if touch and not one.blocks[-1].name and not other.blocks[0].name:
                    one.blocks[-1].size += other.blocks.pop(0).size
                    one.blocks += other.blocks
                    self.segments = [segment for segment in self.segments if segment is not other]
                    return was
        return was


class OnePool(BlockCache):
    def is_small(self, rounded: int) -> bool:
        return False


class OneMiBIsLarge(BlockCache):
    def is_small(self, rounded: int) -> bool:
        return rounded < MIB


class LooksIntoBothPools(BlockCache):
    def _best_fit(self, size: int, small: bool) -> tuple[Segment, Block] | None:
        return super()._best_fit(size, small) or super()._best_fit(size, not small)


class DoesNotRound(BlockCache):
    def rounded(self, size: int) -> int:
        return size


class RoundsToPowersOfTwo(BlockCache):
    def rounded(self, size: int) -> int:
        return max(512, 1 << (size - 1).bit_length())


class SegmentsAsAsked(BlockCache):
    def segment_size(self, rounded: int, small: bool) -> int:
        return rounded


class TenMiBGetTwenty(BlockCache):
    def segment_size(self, rounded: int, small: bool) -> int:
        return 20 * MIB if rounded == 10 * MIB else super().segment_size(rounded, small)


class LargeOnesAsAsked(BlockCache):
    def segment_size(self, rounded: int, small: bool) -> int:
        return rounded if rounded >= 10 * MIB else super().segment_size(rounded, small)


class FreesToTheDriver(BlockCache):
    def give_back(self, name: str) -> Block:
        was = super().give_back(name)
        self.empty()
        return was


class AsksOnce(BlockCache):
    def make_room(self, wanted: int, small: bool) -> None:
        pass


class EmptiesItsOwnPool(BlockCache):
    def make_room(self, wanted: int, small: bool) -> None:
        self._return([s for s in self.segments if s.is_free and s.small == small])


class EmptiesAsMuchAsNeeded(BlockCache):
    def make_room(self, wanted: int, small: bool) -> None:
        for segment in [s for s in self.segments if s.is_free]:
            if self.device.used + wanted > self.device.capacity:
                self._return([segment])


class EmptiesIfThatHelps(BlockCache):
    def make_room(self, wanted: int, small: bool) -> None:
        free = sum(s.size for s in self.segments if s.is_free)
        if self.device.used - free + wanted <= self.device.capacity:
            self.empty()


class EmptiesBeforeEachSegment(BlockCache):
    def _of_new_segment(self, size: int, small: bool) -> tuple[Segment, Block]:
        self.empty()
        return super()._of_new_segment(size, small)


class GivesBackUsedSegments(BlockCache):
    def empty(self) -> int:
        return self._return(list(self.segments))


class EmptiesLargeOnesOnly(BlockCache):
    def empty(self) -> int:
        return self._return([s for s in self.segments if s.is_free and not s.small])


class EmptiesWhenNothingIsUsed(BlockCache):
    def empty(self) -> int:
        return 0 if self.allocated else super().empty()


class CountsWhatWasAsked(BlockCache):
    @property
    def allocated(self) -> int:
        return sum(block.asked for segment in self.segments for block in segment.blocks)


class CountsWhatWasRounded(BlockCache):
    @property
    def allocated(self) -> int:
        return sum(self.rounded(block.asked) for segment in self.segments for block in segment.blocks if block.asked)
