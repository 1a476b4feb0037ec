# corners: none
import numpy as np

from torchkata.instruments import misread_blocks
from torchkata.instruments.blocks import BlockCache


def answer_of(kind):
    """An answer that does what a BlockCache does."""

    class CachingAllocator:
        def __init__(self, device):
            self.cache, self.names = kind(device), {}

        reserved = property(lambda self: self.cache.reserved)
        allocated = property(lambda self: self.cache.allocated)

        def malloc(self, size):
            self.names["last"] = name = f"n{len(self.names)}-{size}"
            block = self.cache.take(name, size)
            self.names[name] = block.address
            return block.address

        def free(self, address):
            for segment in self.cache.segments:
                for block in segment.blocks:
                    if block.address == address and block.name:
                        self.cache.give_back(block.name)
                        return
            raise ValueError(address)

        def empty_cache(self):
            self.cache.empty()

    return CachingAllocator


# %% right: by way of the package's own, whose names differ
CachingAllocator = answer_of(BlockCache)


# %% right: one table of blocks, numbers that are counted along
class CachingAllocator:
    def __init__(self, device):
        self.device, self.table = device, {}  # address: [size, used, segment]
        self.sizes, self.small = {}, {}
        self.reserved = self.allocated = 0

    def malloc(self, size):
        size = (size + 511) // 512 * 512
        small = size <= 1 << 20
        best = None
        for address in sorted(self.table):
            length, used, segment = self.table[address]
            if not used and self.small[segment] is small and length >= size:
                if best is None or length < self.table[best][0]:
                    best = address
        if best is None:
            best = self.segment(size, small)
        length, _, segment = self.table[best]
        rest = length - size
        if (small and rest >= 512) or (not small and rest > 1 << 20):
            self.table[best + size] = [rest, False, segment]
            length = size
        self.table[best] = [length, True, segment]
        self.allocated += length
        return best

    def segment(self, size, small):
        if small:
            want = 2 << 20
        elif size < 10 << 20:
            want = 20 << 20
        else:
            want = (size + (2 << 20) - 1) // (2 << 20) * (2 << 20)
        for attempt in (0, 1):
            try:
                address = self.device.malloc(want)
                break
            except MemoryError:
                if attempt:
                    raise
                self.empty_cache()
        self.table[address] = [want, False, address]
        self.sizes[address], self.small[address] = want, small
        self.reserved += want
        return address

    def free(self, address):
        if address not in self.table or not self.table[address][1]:
            raise ValueError("not in use")
        self.table[address][1] = False
        self.allocated -= self.table[address][0]
        _, _, segment = self.table[address]
        rows = sorted(a for a in self.table if self.table[a][2] == segment)
        for left, right in reversed(list(zip(rows, rows[1:]))):
            if not self.table[left][1] and not self.table[right][1]:
                self.table[left][0] += self.table.pop(right)[0]

    def empty_cache(self):
        for segment in list(self.sizes):
            if not any(used for _, used, s in self.table.values() if s == segment):
                self.device.free(segment)
                self.reserved -= self.sizes.pop(segment)
                self.table = {a: b for a, b in self.table.items() if b[2] != segment}


# %% right: linked blocks and a free list for each pool
class CachingAllocator:
    class Node:
        def __init__(self, address, size, small):
            self.address, self.size, self.small = address, size, small
            self.free, self.left, self.right = True, None, None

    def __init__(self, device):
        self.device, self.pools, self.used, self.heads = device, {True: [], False: []}, {}, []

    @property
    def allocated(self):
        return sum(node.size for node in self.used.values())

    @property
    def reserved(self):
        total = 0
        for head in self.heads:
            while head:
                total, head = total + head.size, head.right
        return total

    def malloc(self, size):
        size = -(-size // 512) * 512
        small = size <= 2**20
        pool = self.pools[small]
        pool.sort(key=lambda node: (node.size, node.address))
        node = next((node for node in pool if node.size >= size), None) or self.fresh(size, small)
        pool = self.pools[small]
        pool.remove(node)
        rest = node.size - size
        if rest >= (512 if small else 2**20 + 1):
            other = self.Node(node.address + size, rest, small)
            other.left, other.right, node.size = node, node.right, size
            if node.right:
                node.right.left = other
            node.right = other
            pool.append(other)
        node.free = False
        self.used[node.address] = node
        return node.address

    def fresh(self, size, small):
        step = 2 * 2**20
        want = step if small else max(-(-size // step) * step, 10 * step if size < 5 * step else 0)
        try:
            address = self.device.malloc(want)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(want)
        node = self.Node(address, want, small)
        self.heads.append(node)
        self.pools[small].append(node)
        return node

    def free(self, address):
        node = self.used.pop(address, None)
        if node is None:
            raise ValueError(address)
        node.free = True
        pool = self.pools[node.small]
        pool.append(node)
        if node.right and node.right.free:
            self.join(node)
        if node.left and node.left.free:
            self.join(node.left)

    def join(self, node):
        gone = node.right
        self.pools[gone.small].remove(gone)
        node.size, node.right = node.size + gone.size, gone.right
        if gone.right:
            gone.right.left = node

    def empty_cache(self):
        for head in list(self.heads):
            if head.free and head.right is None:
                self.device.free(head.address)
                self.heads.remove(head)
                self.pools[head.small].remove(head)


# %% wrong: first fit, in the order of segments
# says: `malloc` must take the smallest free block that is large enough
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.TakesTheFirst)


# %% wrong: the lowest address
# says: `malloc` must take the smallest free block that is large enough
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.TakesTheLowest)


# %% wrong: worst fit
# says: `malloc` must take the smallest free block that is large enough
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.TakesTheLargest)


# %% wrong: of equal ones that at the highest address
# says: `malloc` must take the smallest free block that is large enough
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.TakesTheHighestOfEquals)


# %% wrong: the request gets the upper part of a block that is split
# says: When a block is split, the request gets the lower part
# says: This check builds on the first one
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.TakesTheUpperPart)


# %% wrong: never splits
# says: A block that is much larger than the request is split
# says: This check builds on the first one
# earns: 0 of 3
# lesson
CachingAllocator = answer_of(misread_blocks.NeverSplits)


# %% wrong: splits off every rest in the large pool
# says: In the large pool a rest of 1 MiB or less is not split off
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.SplitsAlways)


# %% wrong: splits off a rest of exactly 1 MiB
# says: In the large pool a rest of 1 MiB or less is not split off
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.SplitsOffJustOneMiB)


# %% wrong: keeps a rest of exactly 512 bytes
# says: In the small pool even a rest of 512 bytes is split off.
# earns: 2 of 3
# caught: hidden
CachingAllocator = answer_of(misread_blocks.KeepsJust512)


# %% wrong: never merges
# says: A block that becomes free merges with its free neighbours on both sides
# earns: 0 of 3
# lesson
CachingAllocator = answer_of(misread_blocks.NeverMelts)


# %% wrong: merges to the right only
# says: A block that becomes free merges with its free neighbours on both sides
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.MeltsToTheRight)


# %% wrong: merges to the left only
# says: A block that becomes free merges with its free neighbours on both sides
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.MeltsToTheLeft)


# %% wrong: merges across segments
# says: Two segments are two pieces of memory
# earns: 2 of 3
# caught: hidden
CachingAllocator = answer_of(misread_blocks.MeltsAcrossSegments)


# %% wrong: one pool
# says: There are two pools
# says: This check builds on the first one
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.OnePool)


# %% wrong: 1 MiB is large
# says: There are two pools
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.OneMiBIsLarge)


# %% wrong: a small request may take from the large pool
# says: There are two pools
# earns: 2 of 3
# caught: hidden
CachingAllocator = answer_of(misread_blocks.LooksIntoBothPools)


# %% wrong: no rounding
# says: A request is rounded up to a multiple of 512 bytes
# says: This check builds on the first one
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.DoesNotRound)


# %% wrong: rounds to powers of two
# says: A request is rounded up to a multiple of 512 bytes
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.RoundsToPowersOfTwo)


# %% wrong: segments as large as the request
# says: A new segment has 2 MiB in the small pool
# says: This check builds on the first one
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.SegmentsAsAsked)


# %% wrong: 10 MiB gets a segment of 20
# says: A new segment has 2 MiB in the small pool
# earns: 2 of 3
# caught: hidden
CachingAllocator = answer_of(misread_blocks.TenMiBGetTwenty)


# %% wrong: large segments are not rounded up
# says: A new segment has 2 MiB in the small pool
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.LargeOnesAsAsked)


# %% wrong: free gives back to the driver
# says: gives nothing back to the driver
# earns: 0 of 3
# lesson
CachingAllocator = answer_of(misread_blocks.FreesToTheDriver)


# %% wrong: no second try
# says: When the driver has no room, all segments without a used block
# earns: 0 of 3
# lesson
CachingAllocator = answer_of(misread_blocks.AsksOnce)


# %% wrong: the second try frees its own pool only
# says: When the driver has no room, all segments without a used block
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.EmptiesItsOwnPool)


# %% wrong: gives back only as much as is needed
# says: When the driver has no room, all segments without a used block
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.EmptiesAsMuchAsNeeded)


# %% wrong: gives back only where that helps
# says: When the driver has no room, all segments without a used block
# earns: 2 of 3
# caught: hidden
CachingAllocator = answer_of(misread_blocks.EmptiesIfThatHelps)


# %% wrong: empties the cache before each new segment
# says: The free segments go back to the driver only when it has no room
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.EmptiesBeforeEachSegment)


# %% wrong: gives back segments in use
# says: A segment with a used block can't be given back.
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.GivesBackUsedSegments)


# %% wrong: empty_cache frees the large pool only
# says: gives back every segment without a used block, of both pools
# says: When the driver has no room, all segments without a used block
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.EmptiesLargeOnesOnly)


# %% wrong: empty_cache works only when nothing is in use
# says: When the driver has no room, all segments without a used block
# earns: 2 of 3
# caught: hidden
CachingAllocator = answer_of(misread_blocks.EmptiesWhenNothingIsUsed)


# %% wrong: allocated is what was asked for
# says: Allocated adds up the blocks that are in use as they are
# says: This check builds on the first one
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.CountsWhatWasAsked)


# %% wrong: allocated is what was asked for, rounded
# says: In the large pool a rest of 1 MiB or less is not split off
# earns: 0 of 3
CachingAllocator = answer_of(misread_blocks.CountsWhatWasRounded)


# %% wrong: freeing twice is silent
# says: Freeing an address that isn't in use is a ValueError.
# earns: 2 of 3
# caught: hidden
Right = answer_of(BlockCache)


class CachingAllocator(Right):
    def free(self, address):
        try:
            super().free(address)
        except ValueError:
            pass


# %% wrong: a KeyError for what is not in use
# says: Freeing an address that isn't in use is a ValueError.
# earns: 2 of 3
# caught: hidden
Right = answer_of(BlockCache)


class CachingAllocator(Right):
    def free(self, address):
        try:
            super().free(address)
        except ValueError as error:
            raise KeyError(address) from error


# %% wrong: None when there is no room
# says: `malloc` must return the address of a block, an int.
# earns: 0 of 3
Right = answer_of(BlockCache)


class CachingAllocator(Right):
    def malloc(self, size):
        try:
            return super().malloc(size)
        except MemoryError:
            return None


# %% wrong: counts the failed request
# says: After event 6
# says: After a MemoryError the allocator must work as if the request had never been made.
# earns: 0 of 3
Right = answer_of(BlockCache)


class CachingAllocator(Right):
    extra = 0
    reserved = property(lambda self: self.cache.reserved + self.extra)

    def malloc(self, size):
        try:
            return super().malloc(size)
        except MemoryError:
            self.extra += size
            raise


# %% wrong: no numbers
# says: Reserved and allocated must be numbers of bytes.
# says: This check builds on the first one
# earns: 0 of 3
Right = answer_of(BlockCache)


class CachingAllocator(Right):
    reserved = allocated = None


# %% right: errors of its own, and NumPy's numbers
Right = answer_of(BlockCache)


class NotInUse(ValueError):
    pass


class OutOfMemory(MemoryError):
    pass


class CachingAllocator(Right):
    reserved = property(lambda self: np.int64(self.cache.reserved))
    allocated = property(lambda self: np.int64(self.cache.allocated))

    def malloc(self, size):
        try:
            return super().malloc(size)
        except MemoryError as error:
            raise OutOfMemory(size) from error

    def free(self, address):
        try:
            super().free(address)
        except ValueError as error:
            raise NotInUse(address) from error


# %% wrong: frees the block around an address
# says: Freeing an address that isn't in use is a ValueError.
# earns: 2 of 3
# caught: hidden
Right = answer_of(BlockCache)


class CachingAllocator(Right):
    def free(self, address):
        for segment in self.cache.segments:
            for block in segment.blocks:
                if block.name and block.address <= address < block.address + block.size:
                    self.cache.give_back(block.name)
                    return
        raise ValueError(address)


# %% wrong: the rest is what the unrounded size leaves
# says: In the large pool a rest of 1 MiB or less is not split off
# earns: 2 of 3
# caught: hidden
class RestOfUnrounded(BlockCache):
    def take(self, name, size):
        self.more = self.rounded(size) - size
        return super().take(name, size)

    def is_split(self, rest, small):
        return super().is_split(rest + self.more, small)


CachingAllocator = answer_of(RestOfUnrounded)


# %% wrong: the segment is chosen by the unrounded size
# says: in the large one it has 20 MiB for requests under 10 MiB
# earns: 2 of 3
# caught: hidden
class SegmentOfUnrounded(BlockCache):
    def take(self, name, size):
        self.less = self.rounded(size) - size
        return super().take(name, size)

    def segment_size(self, rounded, small):
        return super().segment_size(rounded - self.less, small)


CachingAllocator = answer_of(SegmentOfUnrounded)


# %% wrong: of three free neighbours, the last is lost
# says: After event 8 (malloc f 12 MiB), the outcome must be the first block's address +0 bytes
# says: After event 6 (malloc c 2000 bytes), the outcome must be the first block's address +0 bytes
# earns: 0 of 3
class LosesTheLast(BlockCache):
    def melt(self, segment, place):
        before = place and not segment.blocks[place - 1].name
        if before and place + 1 < len(segment.blocks) and not segment.blocks[place + 1].name:
            segment.blocks[place + 1].name = "lost"
        super().melt(segment, place)


class CachingAllocator(answer_of(LosesTheLast)):
    allocated = property(lambda self: sum(b.size for s in self.cache.segments for b in s.blocks if b.asked))
