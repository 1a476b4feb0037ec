# %% [markdown]
# ### Exercise 13.4 · A caching allocator
#
# implement · long · 40 min · 3 points
#
# Write the allocator of this section, which works between the tensors and the driver, in plain Python and without
# torch. The driver is given: `Device(capacity)` has `malloc(size)`, which returns an address or raises MemoryError, and
# `free(address)`. A device never moves anything and never uses an address twice.
#
# **Contract**
#
# - `CachingAllocator(device)` has `malloc(size)`, which returns the address of a block, `free(address)` and
#   `empty_cache()`, and two byte counts: `reserved`, the sizes of all segments, and `allocated`, the sizes of all
#   blocks in use.
# - A request of 1 byte or more is rounded up to a multiple of 512 bytes. Up to 1 MiB (rounded) it belongs to the small
#   pool, otherwise to the large pool. The pools share nothing.
# - `malloc` takes the smallest free block of its pool that is large enough, and among equal ones the one at the lowest
#   address. If there is none, it asks the driver for a new segment: 2 MiB in the small pool; in the large pool 20 MiB
#   for requests under 10 MiB (rounded), otherwise the size rounded up to a multiple of 2 MiB. The new block is at the
#   segment's beginning.
# - If 512 bytes or more of the block would be left over in the small pool, or more than 1 MiB in the large pool, the
#   block is split and the request gets the lower part. Otherwise the request gets the whole block.
# - If the driver raises MemoryError, all segments of both pools without a block in use are given back to it, and it is
#   asked once more. If it raises again, the error propagates, and the allocator is as it was before the request, but
#   without those segments.
# - `free` gives nothing back to the driver. The block merges with free neighbours in its own segment, on both sides. An
#   address that isn't in use raises ValueError.
# - `empty_cache` gives back every segment without a block in use, in any order.
#
# <details><summary>Hint 1</summary>
#
# Draw a segment as a row of blocks, each with an address, a size, and whether it is in use. What happens to the row in
# `malloc`, and what in `free`?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# What do you have to know of a segment besides its blocks? In which order do you look at free blocks, so that the first
# that fits is the right one? And when a block is freed, which two blocks can it merge with, and where are they in your
# row?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The driver may raise, so think about what you may have changed before that. A split makes two blocks out of one, and a
# merge makes one out of two, of three if both neighbours are free. The two byte counts can't get out of step if you add
# them up whenever somebody asks.
#
# </details>


# %% answer="caching-allocator"
### BEGIN SOLUTION
MIB = 2**20


class CachingAllocator:
    """Hands out blocks of segments that it takes from a device."""

    def __init__(self, device: Device):
        self.device = device
        self.segments: list[tuple[bool, list[list]]] = []  # small? blocks [address, size, used]

    @property
    def reserved(self) -> int:
        return sum(size for _, blocks in self.segments for _, size, _ in blocks)

    @property
    def allocated(self) -> int:
        return sum(size for _, blocks in self.segments for _, size, used in blocks if used)

    def malloc(self, size: int) -> int:
        """The address of a block of at least `size` bytes."""
        size = -(-size // 512) * 512
        small = size <= MIB
        fits = [
            (block[1], block[0], blocks, block)
            for pool, blocks in self.segments
            for block in blocks
            if pool == small and not block[2] and block[1] >= size
        ]
        if fits:
            _, _, blocks, block = min(fits, key=lambda fit: fit[:2])
        else:
            blocks = self._new_segment(size, small)
            block = blocks[0]
        rest = block[1] - size
        if (rest >= 512) if small else (rest > MIB):
            blocks.insert(blocks.index(block) + 1, [block[0] + size, rest, False])
            block[1] = size
        block[2] = True
        return block[0]

    def free(self, address: int) -> None:
        """Mark a block as free, and merge it with its free neighbours."""
        for _, blocks in self.segments:
            for place, block in enumerate(blocks):
                if block[0] == address and block[2]:
                    block[2] = False
                    self._merge(blocks, place)
                    if place:
                        self._merge(blocks, place - 1)
                    return
        raise ValueError(f"{address} is not in use")

    def empty_cache(self) -> None:
        """Give the segments without a used block back to the device."""
        kept = []
        for small, blocks in self.segments:
            if any(used for _, _, used in blocks):
                kept.append((small, blocks))
            else:
                self.device.free(blocks[0][0])
        self.segments = kept

    def _new_segment(self, size: int, small: bool) -> list[list]:
        step = 2 * MIB
        large = 20 * MIB if size < 10 * MIB else -(-size // step) * step
        wanted = step if small else large
        try:
            address = self.device.malloc(wanted)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(wanted)
        self.segments.append((small, [[address, wanted, False]]))
        return self.segments[-1][1]

    @staticmethod
    def _merge(blocks: list[list], place: int) -> None:
        """Join a block with its right neighbour, if both are free."""
        if place + 1 < len(blocks) and not blocks[place][2] and not blocks[place + 1][2]:
            blocks[place][1] += blocks.pop(place + 1)[1]


### END SOLUTION
### BEGIN GIVEN
# class CachingAllocator:
#     """Hands out blocks of segments that it takes from a device."""
#
#     # two byte counts: self.reserved, self.allocated
#
#     def __init__(self, device: Device):
#         raise NotImplementedError  # your code here
#
#     def malloc(self, size: int) -> int:
#         """The address of a block of at least `size` bytes."""
#         raise NotImplementedError  # your code here
#
#     def free(self, address: int) -> None:
#         """Mark a block as free, and merge it with its free neighbours."""
#         raise NotImplementedError  # your code here
#
#     def empty_cache(self) -> None:
#         """Give the segments without a used block back to the device."""
#         raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="caching-allocator"
def run_events(CachingAllocator, mebibytes, events):
    """Run requests one after the other on a new device; note addresses, errors, both numbers, and the driver's log."""

    def address_of(name):
        """What "a" was given, or "a + 512", 512 bytes behind that; for what was given nothing, an unknown address."""
        base, _, offset = name.partition(" + ")
        address = names.get(base)
        return address + int(offset or 0) if isinstance(address, int) else 12345

    def plain(number):
        """NumPy's ints and floats as Python's."""
        return number.tolist() if type(number).__module__ == "numpy" else number

    kinds = (MemoryError, ValueError, KeyError, IndexError, AssertionError)
    device = Device(mebibytes * 2**20)
    allocator, names, told = CachingAllocator(device), {}, []
    for what, *rest in events:
        asked, outcome = len(device.log), None
        try:
            if what == "malloc":
                outcome = names[rest[0]] = plain(allocator.malloc(rest[1]))
            elif what == "free":
                allocator.free(address_of(rest[0]))
            else:
                allocator.empty_cache()
        except kinds as error:
            outcome = next(kind.__name__ for kind in kinds if isinstance(error, kind))
        numbers = [plain(getattr(allocator, name, None)) for name in ("reserved", "allocated")]
        told.append([outcome, *numbers, sorted(list(entry) for entry in device.log[asked:])])
    return told


def size_told(size):
    """A size in words."""
    return f"{size / 2**20:g} MiB" if size >= 2**19 else f"{size} bytes"


def judge_events(seen, mebibytes, events, sentence="", about=()):
    """Compare with what an allocator by the rules does, and name the rule that was misread.

    The sentence is said if the first difference is at one of the events that it is about, which are given by number.
    """
    right = history(BlockCache, mebibytes * 2**20, events)
    came = seen.value
    is_number = [isinstance(n, (int, float)) and not isinstance(n, bool) for _, *two, _ in came for n in two]
    seen.that(all(is_number), "reserved and allocated must be numbers of bytes.", stage="type")
    mallocs = [one[0] for event, one in zip(events, came, strict=True) if event[0] == "malloc"]
    seen.that(
        all(isinstance(outcome, (int, str)) for outcome in mallocs),
        "`malloc` must return the address of a block, an int.",
        stage="type",
    )
    place = next((n for n, pair in enumerate(zip(came, right, strict=True)) if pair[0] != pair[1]), 0)
    event = " ".join(size_told(part) if isinstance(part, int) else str(part) for part in events[place])
    what = ("the outcome", "reserved", "allocated", "what the driver was asked for")
    off = next((n for n in range(4) if came[place][n] != right[place][n]), 0)
    first = next((one[0] for one in right if isinstance(one[0], int)), 0)
    said = [
        f"the first block's address {value - first:+,} bytes" if off == 0 and isinstance(value, int) else value
        for value in (right[place][off], came[place][off])
    ]
    told = f"After event {place} ({event}), {what[off]} must be {said[0]}, not {said[1]}."
    named = [
        mistake(words, when=lambda seen, variant=variant: seen.value == history(variant, mebibytes * 2**20, events))
        for words, variants in misread.items()
        for variant in variants
    ]
    seen.that(came == right, f"{sentence} {told}" if place in about else told, *named)


misread = {
    "`malloc` must take the smallest free block that is large enough, and of equal blocks the one at the lowest "
    "address.": [
        misread_blocks.TakesTheFirst,
        misread_blocks.TakesTheLowest,
        misread_blocks.TakesTheLargest,
        misread_blocks.TakesTheHighestOfEquals,
    ],
    "A block that is much larger than the request is split, and the rest becomes a free block.": [
        misread_blocks.NeverSplits
    ],
    "When a block is split, the request gets the lower part, and the rest comes after it.": [
        misread_blocks.TakesTheUpperPart
    ],
    "In the large pool a rest of 1 MiB or less is not split off: the request gets the whole block, and allocated "
    "counts all "
    "of it.": [
        misread_blocks.SplitsAlways,
        misread_blocks.SplitsOffJustOneMiB,
    ],
    "In the small pool even a rest of 512 bytes is split off.": [misread_blocks.KeepsJust512],
    "A block that becomes free merges with its free neighbours on both sides, in the same segment.": [
        misread_blocks.NeverMelts,
        misread_blocks.MeltsToTheRight,
        misread_blocks.MeltsToTheLeft,
    ],
    "Two segments are two pieces of memory, even if their addresses touch. They never merge into one.": [
        misread_blocks.MeltsAcrossSegments
    ],
    "There are two pools: requests up to 1 MiB use small segments of 2 MiB, larger requests never do, and neither "
    "pool takes from the other.": [
        misread_blocks.OnePool,
        misread_blocks.OneMiBIsLarge,
        misread_blocks.LooksIntoBothPools,
    ],
    "A request is rounded up to a multiple of 512 bytes, no more and no less.": [
        misread_blocks.DoesNotRound,
        misread_blocks.RoundsToPowersOfTwo,
    ],
    "A new segment has 2 MiB in the small pool; in the large one it has 20 MiB for requests under 10 MiB, else the "
    "size rounded up to a multiple of 2 MiB.": [
        misread_blocks.SegmentsAsAsked,
        misread_blocks.TenMiBGetTwenty,
        misread_blocks.LargeOnesAsAsked,
    ],
    "free() gives nothing back to the driver: the block stays reserved and is used again. That is what the cache is "
    "for.": [misread_blocks.FreesToTheDriver],
    "When the driver has no room, all segments without a used block, of both pools, go back to it, and it is asked "
    "once more. Only then is it out of memory.": [
        misread_blocks.AsksOnce,
        misread_blocks.EmptiesItsOwnPool,
        misread_blocks.EmptiesAsMuchAsNeeded,
        misread_blocks.EmptiesIfThatHelps,
    ],
    "The free segments go back to the driver only when it has no room, not before each new segment.": [
        misread_blocks.EmptiesBeforeEachSegment
    ],
    "A segment with a used block can't be given back.": [misread_blocks.GivesBackUsedSegments],
    "empty_cache() gives back every segment without a used block, of both pools, whatever else is in use.": [
        misread_blocks.EmptiesLargeOnesOnly,
        misread_blocks.EmptiesWhenNothingIsUsed,
    ],
    "allocated adds up the blocks that are in use as they are, with what rounding adds and with an unsplit rest.": [
        misread_blocks.CountsWhatWasAsked,
        misread_blocks.CountsWhatWasRounded,
    ],
}


# %% check="caching-allocator" points=2
"""Small requests, sizes of segments, reuse, splitting, merging, and a driver without room."""
with check("caching-allocator") as test:
    for idea, mebibytes, events in (
        (
            "three small requests lie side by side in one segment",
            100,
            [("malloc", "a", 100), ("malloc", "b", 512), ("malloc", "c", 700), ("malloc", "d", 2**20 - 511)],
        ),
        (
            "two pools, and the sizes of segments",
            200,
            [
                ("malloc", "a", 1000),
                ("malloc", "b", 2 * 2**20),
                ("malloc", "c", 21 * 2**20),
                ("malloc", "d", 3000),
                ("free", "b"),
                ("malloc", "e", 5000),
                ("malloc", "f", 30 * 2**20 + 100),
            ],
        ),
        (
            "a freed block is used again: split if it is much too large, else as it is",
            200,
            [
                ("malloc", "a", 30 * 2**20),
                ("free", "a"),
                ("malloc", "b", 59 * 2**19),
                ("free", "b"),
                ("malloc", "c", 20 * 2**20),
                ("malloc", "d", 9 * 2**20),
            ],
        ),
        (
            "free neighbours merge, and the smallest block that fits is taken",
            200,
            [
                *[("malloc", name, 4 * 2**20) for name in "abcde"],
                ("free", "a"),
                ("free", "c"),
                ("free", "b"),
                ("malloc", "f", 12 * 2**20),
                ("malloc", "g", 15 * 2**20),
                ("free", "f"),
                ("free", "d"),
                ("free", "g"),
                ("malloc", "h", 13 * 2**20),
                ("malloc", "i", 3 * 2**20),
                ("malloc", "j", 2 * 2**20),
            ],
        ),
        (
            "the smallest free block that is large enough is taken",
            200,
            [
                *[("malloc", name, 4 * 2**20) for name in "abcde"],
                ("free", "a"),
                ("free", "b"),
                ("free", "d"),
                ("malloc", "f", 4 * 2**20),
            ],
        ),
        (
            "the driver has no room: give back what is free, and ask again",
            42,
            [
                ("malloc", "a", 20 * 2**20),
                ("malloc", "s", 100),
                ("free", "a"),
                ("free", "s"),
                ("malloc", "b", 30 * 2**20),
                ("malloc", "c", 200),
                ("malloc", "d", 20 * 2**20),
                ("malloc", "e", 9 * 2**20),
            ],
        ),
    ):
        test(idea)
        seen = observe_scenario(run_events, CachingAllocator, mebibytes, events)
        judge_events(seen, mebibytes, events)


# %% check="caching-allocator" points=1
"""Limits, segments side by side, errors, empty_cache, and random histories."""
with check("caching-allocator") as test:
    not_yet = mistake(
        "This check builds on the first one, which doesn't pass yet. Fix that first.", when=lambda seen: True
    )

    test("three small requests lie side by side in one segment")
    events = [("malloc", "a", 100), ("malloc", "b", 512), ("malloc", "c", 700)]
    seen = observe_scenario(run_events, CachingAllocator, 100, events).expecting(not_yet)
    seen.that(seen.value == history(BlockCache, 100 * 2**20, events), "")

    ### BEGIN HIDDEN TESTS
    mib = 2**20
    test.hidden("the limits: 1 MiB, 10 MiB, a rest of 512 bytes, a rest of just 1 MiB")
    events = [
        ("malloc", "a", mib),
        ("malloc", "b", mib + 1),
        ("malloc", "c", mib - 512),
        ("malloc", "d", 10 * mib),
        ("malloc", "e", 10 * mib - 512),
        ("free", "d"),
        ("malloc", "f", 9 * mib),
        ("free", "a"),
        ("malloc", "g", mib - 512),
    ]
    judge_events(observe_scenario(run_events, CachingAllocator, 200, events), 200, events)

    test.hidden("the limits are those of rounded sizes")
    events = [("malloc", "a", 10 * mib - 100), ("malloc", "b", 19 * mib - 100), ("malloc", "c", mib - 100)]
    judge_events(observe_scenario(run_events, CachingAllocator, 200, events), 200, events)

    test.hidden("two segments side by side")
    events = [
        ("malloc", "a", 20 * mib),
        ("malloc", "b", 20 * mib),
        ("free", "a"),
        ("free", "b"),
        ("malloc", "c", 30 * mib),
    ]
    judge_events(observe_scenario(run_events, CachingAllocator, 200, events), 200, events)

    test.hidden("freeing twice, and what never was")
    events = [
        ("malloc", "a", 300),
        ("malloc", "b", 300),
        ("free", "a"),
        ("free", "a"),
        ("free", "never"),
        ("free", "b"),
        ("malloc", "c", 2000),
        ("free", "c + 512"),
    ]
    judge_events(
        observe_scenario(run_events, CachingAllocator, 100, events),
        100,
        events,
        "Freeing an address that isn't in use is a ValueError.",
        about=(3, 4, 7),
    )

    test.hidden("after a MemoryError it goes on")
    events = [
        ("malloc", "a", 20 * mib),
        ("malloc", "b", 3 * mib),
        ("free", "a"),
        ("malloc", "c", 90 * mib),
        ("malloc", "d", 40 * mib),
        ("malloc", "e", 2 * mib),
    ]
    judge_events(
        observe_scenario(run_events, CachingAllocator, 60, events),
        60,
        events,
        "After a MemoryError the allocator must work as if the request had never been made.",
        about=(3, 4, 5),
    )

    test.hidden("empty_cache with one segment in use, a free one and a free small one")
    events = [
        ("malloc", "a", 20 * mib),
        ("malloc", "b", 30 * mib),
        ("malloc", "s", 100),
        ("free", "b"),
        ("free", "s"),
        ("empty_cache",),
        ("malloc", "c", 100),
        ("free", "a"),
        ("empty_cache",),
    ]
    judge_events(observe_scenario(run_events, CachingAllocator, 200, events), 200, events)

    def random_history(seed):
        """Two hundred events."""
        dice, alive, events, cache = random.Random(seed), [], [], BlockCache(Device(120 * mib))
        sizes = [300, 512, 5000, 400_000, mib, 2 * mib, 3 * mib + 77, 5 * mib, 9 * mib, 10 * mib, 19 * mib, 24 * mib]
        for number in range(200):
            roll = dice.random()
            if roll < 0.03:
                events.append(("empty_cache",))
                cache.empty()
            elif alive and roll < 0.48:
                events.append(("free", alive.pop(dice.randrange(len(alive)))))
                cache.give_back(events[-1][1])
            else:
                events.append(("malloc", f"t{number}", dice.choice(sizes)))
                with contextlib.suppress(MemoryError):
                    cache.take(*events[-1][1:])
                    alive.append(f"t{number}")
        return events

    for seed in range(4):
        test.hidden(f"a random history of 200 events, the {('first', 'second', 'third', 'fourth')[seed]}")
        events = random_history(seed)
        judge_events(observe_scenario(run_events, CachingAllocator, 120, events), 120, events)
    ### END HIDDEN TESTS
