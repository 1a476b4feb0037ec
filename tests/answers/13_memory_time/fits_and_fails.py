# corners: none
import numpy as np

TRACE = [
    ("alloc", "first", 30),
    ("free", "first"),
    ("alloc", "stays", 2),
    ("alloc", "second", 30),
    ("free", "second"),
    ("alloc", "filler", 28),
    ("alloc", "stays too", 2),
    ("free", "filler"),
    ("alloc", "last", 44),
]


# %% right: floats, segments that are rounded up, tuples and lists
pieces = {
    "trace": (
        ["alloc", "a", 30.5],
        ["free", "a"],
        ["alloc", "s", 1.5],
        ["alloc", "b", 31.5],
        ["free", "b"],
        ["alloc", "f", 30],
        ["alloc", "t", 1.25],
        ["free", "f"],
        ["alloc", "c", 43],
    ),
    "empty_at": 2,
}


# %% right: empty_cache after the second has been freed
pieces = {"trace": list(TRACE), "empty_at": 5}


# %% right: more keys, built by a loop
pieces = {"trace": [event for event in TRACE], "empty_at": 2, "because": "a segment is free there"}


# %% wrong: fill and free everything, then ask for more
# says: when the driver had no room, it got back the segments that were entirely free
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
# lesson
pieces = {
    "trace": [
        *[("alloc", n, 9.5) for n in "abcde"],
        *[("free", n) for n in "abcde"],
        ("alloc", "big", 50),
    ],
    "empty_at": 10,
}


# %% wrong: ten blocks, every second is freed, then a large one
# says: MiB are in use or requested at once. That is more than half of the device
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {
    "trace": [
        *[("alloc", str(n), 10) for n in range(7)],
        *[("free", str(n)) for n in (0, 2, 4)],
        ("alloc", "x", 12),
    ],
    "empty_at": 9,
}


# %% wrong: one segment with a long-lived block
# says: the driver always had enough room for a new segment
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {
    "trace": [("alloc", "a", 48), ("free", "a"), ("alloc", "s", 2), ("alloc", "b", 47)],
    "empty_at": 2,
}


# %% wrong: asks for more than half
# says: With event 0, 60 MiB are in use or requested at once.
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [("alloc", "a", 60), ("alloc", "b", 50)], "empty_at": 0}


# %% wrong: the second long-lived block goes into the rest of the first
# says: when the driver had no room, it got back the segments that were entirely free
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
# lesson
pieces = {
    "trace": [
        ("alloc", "a", 30),
        ("free", "a"),
        ("alloc", "s", 2),
        ("alloc", "b", 30),
        ("free", "b"),
        ("alloc", "t", 2),
        ("alloc", "c", 44),
    ],
    "empty_at": 2,
}


# %% wrong: too many events
# says: The trace is a list of 1 to 12 events
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [*TRACE[:-1], *[("alloc", "x", 1), ("free", "x")] * 2, TRACE[-1]], "empty_at": 2}


# %% wrong: fails before the end
# says: It runs out of memory at event 8 already
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [*TRACE, ("free", "stays")], "empty_at": 2}


# %% wrong: frees a name twice
# says: Event 2 frees a name that isn't there, or allocates a name that is there already.
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [("alloc", "a", 30), ("free", "a"), ("free", "a"), *TRACE[2:]], "empty_at": 2}


# %% wrong: a name twice
# says: Event 1 frees a name that isn't there, or allocates a name that is there already.
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [("alloc", "a", 10), ("alloc", "a", 10), ("free", "a"), *TRACE[:8]], "empty_at": 2}


# %% wrong: small blocks only
# says: the driver always had enough room for a new segment
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [("alloc", str(n), 1) for n in range(12)], "empty_at": 2}


# %% wrong: bytes for MiB
# says: With event 0, 3.14573e+07 MiB are in use or requested at once.
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [(kind, name, *[n * 2**20 for n in size]) for kind, name, *size in TRACE], "empty_at": 2}


# %% wrong: sizes as texts
# says: The trace is a list of 1 to 12 events
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [(kind, name, *[f"{n} MiB" for n in size]) for kind, name, *size in TRACE], "empty_at": 2}


# %% wrong: NumPy's ints
# says: sizes are plain numbers above 0, not NumPy's.
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [(kind, name, *[np.int64(n) for n in size]) for kind, name, *size in TRACE], "empty_at": 2}


# %% wrong: NumPy's floats
# says: sizes are plain numbers above 0, not NumPy's.
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [(kind, name, *[np.float64(n) for n in size]) for kind, name, *size in TRACE], "empty_at": 2}


# %% wrong: a name that is a list
# says: The trace is a list of 1 to 12 events
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [("alloc", ["a"], 30), ("free", ["a"])], "empty_at": 0}


# %% wrong: the example
# says: the driver always had enough room for a new segment
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
# lesson
pieces = {"trace": [("alloc", "a", 10), ("free", "a")], "empty_at": 1}


# %% wrong: empty_cache in the trace
# says: The trace is a list of 1 to 12 events
# says: This check needs a trace that keeps the contract and fails at its last event.
# earns: 0 of 2
pieces = {"trace": [*TRACE[:2], ("empty_cache",), *TRACE[2:]], "empty_at": 2}


# %% wrong: empty_cache before the request that fails
# says: right before the request that fails changes nothing
# earns: 1 of 2
# lesson
pieces = {"trace": TRACE, "empty_at": 8}


# %% wrong: empty_cache when something lives in each segment
# says: With empty_cache() before event 7, event 8 still finds no room.
# earns: 1 of 2
pieces = {"trace": TRACE, "empty_at": 7}


# %% wrong: empty_cache at the start
# says: With empty_cache() before event 0, event 8 still finds no room.
# earns: 1 of 2
pieces = {"trace": TRACE, "empty_at": 0}


# %% wrong: empty_at is a place behind the end
# says: empty_at is the number of an event, an int
# earns: 1 of 2
pieces = {"trace": TRACE, "empty_at": 9}


# %% wrong: empty_at is left open
# says: empty_at is the number of an event, an int
# earns: 1 of 2
pieces = {"trace": TRACE, "empty_at": ...}


# %% wrong: empty_at counts from the end
# says: empty_at is the number of an event, an int
# earns: 1 of 2
pieces = {"trace": TRACE, "empty_at": -7}
