# %% [markdown]
# ### Exercise 13.5 · Half of the memory is free, and yet
#
# separate · solid · 20 min · 2 points
#
# Build an out-of-memory error with half of the memory free. You don't write a function but a short program for the
# allocator of Exercise 13.4, as a list of events; the check runs it on the course's own allocator. Then find the place
# where one `empty_cache()` would have saved the run.
#
# **Contract**
#
# - `pieces` is a dict. `pieces["trace"]` is a list of at most 12 events for a device of 100 MiB: `("alloc", name,
#   MiB)` or `("free", name)`. Names are strings. A name is allocated before it is freed, and isn't allocated while it
#   is in use. Sizes are ints or floats above 0.
# - Never more than 50 MiB are in use at once, including the failing request. So the driver alone could serve all
#   requests.
# - The caching allocator fails at the last event and at no other.
# - `pieces["empty_at"]` is the number of an event, 0 for the first. If `empty_cache()` is called once, right before
#   that event, the same trace runs to its end.
# - All numbers are plain Python numbers, not NumPy's. The trace is worth one point, the place the other.
#
# <details><summary>Hint 1</summary>
#
# The allocator itself gives free segments back before it fails. So what must be true of every large segment at the end?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# One small block that stays in each of two large segments is enough. But a small request takes the smallest free block
# that fits. How do you get the second one into the second segment?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Let a block of 30 MiB come and go, and put 2 MiB in its place. Let another 30 come and go. Then fill the rest of the
# first segment for a moment, so that the next 2 MiB have to go into the second one. And where was a segment entirely
# free, just before something small was placed in it?
#
# </details>

# %% answer="fits-and-fails"
### BEGIN SOLUTION
pieces = {
    "trace": [
        ("alloc", "first", 30),
        ("free", "first"),
        ("alloc", "stays", 2),
        ("alloc", "second", 30),
        ("free", "second"),
        ("alloc", "filler", 28),
        ("alloc", "stays too", 2),
        ("free", "filler"),
        ("alloc", "last", 44),
    ],
    "empty_at": 2,
}
### END SOLUTION
### BEGIN GIVEN
# pieces = ...  # such as {"trace": [("alloc", "a", 10), ("free", "a")], "empty_at": 1}
### END GIVEN


# %% helpers="fits-and-fails"
def trace_in(value):
    """The events of an answer, or None where its form is wrong."""
    events = value.get("trace") if isinstance(value, dict) else None
    if not isinstance(events, (list, tuple)) or not 0 < len(events) <= 12:
        return None
    for event in events:
        if not isinstance(event, (list, tuple)) or len(event) not in (2, 3) or not isinstance(event[1], str):
            return None
        number = event[2] if len(event) == 3 else None
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool) and 0 < number < 10**12
        if event[0] != ("alloc" if len(event) == 3 else "free") or (len(event) == 3 and not is_number):
            return None
    return [tuple(event) for event in events]


def faulty_event(events):
    """The number of the first event that frees what is not there, or allocates what is there already; or None."""
    alive = set()
    for number, (kind, name, *_) in enumerate(events):
        if (name in alive) == (kind == "alloc"):
            return number
        alive ^= {name}
    return None


def too_much(events):
    """The first event with which more than half of the device is asked for, and how much that is; or None."""
    alive = {}
    for number, (kind, name, *size) in enumerate(events):
        if kind == "alloc":
            alive[name] = size[0]
        else:
            del alive[name]
        if sum(alive.values()) > 50:
            return number, sum(alive.values())
    return None


def failing_event(events, empty_at=None):
    """The number of the event for which the allocator finds no room; None if it serves them all."""
    cache = BlockCache(Device(100 * 2**20))
    for number, (kind, name, *size) in enumerate(events):
        if number == empty_at:
            cache.empty()
        try:
            if kind == "alloc":
                cache.take(name, max(1, round(size[0] * 2**20)))
            else:
                cache.give_back(name)
        except MemoryError:
            return number
    return None


# %% check="fits-and-fails" points=1
"""At most half of the device is asked for, and yet the last request of the trace finds no room."""
with check("fits-and-fails") as test:

    def story_of(events):
        """What the allocator did with a trace that it served: its largest free block, and what it gave back."""
        cache, returned = BlockCache(Device(100 * 2**20)), 0
        for kind, name, *size in events:
            if kind == "alloc":
                cache.take(name, max(1, round(size[0] * 2**20)))
            else:
                cache.give_back(name)
        returned = sum(size for what, size in cache.device.log if what == "free")
        return cache.largest_free / 2**20, (100 * 2**20 - cache.device.used) / 2**20, returned / 2**20

    test("half of the memory is enough, and yet it fails")
    seen = observe_value(pieces)
    events = trace_in(seen.value)
    seen.that(
        events is not None,
        "The trace is a list of 1 to 12 events, ('alloc', name, MiB) or ('free', name). Names are strings, and sizes "
        "are plain numbers above 0, not NumPy's.",
        stage="type",
    )
    wrong = faulty_event(events)
    seen.that(
        wrong is None,
        f"Event {wrong} frees a name that isn't there, or allocates a name that is there already.",
    )
    number, asked = too_much(events) or (-1, 0)
    seen.that(
        number < 0,
        f"With event {number}, {asked:g} MiB are in use or requested at once. That is more than half of the device: "
        "use at most 50 MiB.",
    )
    fails = failing_event(events)
    seen.that(
        fails is not None,
        "The caching allocator serves every request: the driver always had enough room for a new segment. Your "
        "large segments must add up to more.",
        mistake(
            "The caching allocator serves every request: when the driver had no room, it got back the segments that "
            "were entirely free. Something small must stay in each large segment.",
            when=lambda seen: story_of(events)[2] > 0,
        ),
    )
    seen.that(
        fails == len(events) - 1, f"It runs out of memory at event {fails} already; only the last event may fail."
    )


# %% check="fits-and-fails" points=1
"""One empty_cache() at the right place, and the same trace runs to its end."""
with check("fits-and-fails") as test:

    def is_pieces(value):
        """Whether an answer's trace keeps all of the first part."""
        events = trace_in(value)
        return (
            events is not None
            and faulty_event(events) is None
            and too_much(events) is None
            and failing_event(events) == len(events) - 1
        )

    test("one empty_cache at the right place")
    seen = observe_value(pieces)
    seen.that(
        is_pieces(seen.value),
        "This check needs a trace that keeps the contract and fails at its last event. Fix the first part first.",
    )
    events, place = trace_in(seen.value), seen.value.get("empty_at")
    seen.that(
        isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(events),
        "empty_at is the number of an event, an int; 0 is the first. empty_cache() is called right before that event.",
        stage="type",
    )
    still = failing_event(events, place)
    seen.that(
        still is None,
        f"With empty_cache() before event {place}, event {still} still finds no room.",
        mistake(
            "empty_cache() right before the request that fails changes nothing: the allocator has just done the same "
            "by itself. It must come while a segment is entirely free, BEFORE a block that stays is placed in it.",
            when=lambda seen: place == len(events) - 1,
        ),
    )
