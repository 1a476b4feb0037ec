# %% [markdown]
# ### Exercise 13.6 · Who filled it?
#
# measure · solid · 20 min · 2 points
#
# Somebody sends you a snapshot of a run that nearly filled the GPU. Write the function that reads it: how much memory
# was allocated at the worst moment, and which lines of the program had requested it?
#
# **Contract**
#
# - `trace` is one list of a snapshot's `device_traces`. An entry is a dict with `"action"`, `"addr"`, `"size"` and
#   `"frames"`. Entries with the actions `"oom"` and `"snapshot"` may lack some of these. The trace is not changed.
# - A block exists from its `"alloc"` to its `"free_completed"`, which has the same size. An address may be allocated
#   again later, but there is no `"alloc"` of an address that is still allocated. A `"free_completed"` of an address
#   that isn't allocated in the recording belongs to a block from before, which never counts. All other actions neither
#   allocate nor free.
# - Return a pair. The first item is the peak in bytes, an int: the largest sum of the sizes that are allocated at one
#   time. The second is a list of pairs (place, bytes): which places had these bytes when the peak was first reached. A
#   trace without allocations gives `(0, [])`.
# - The place of a block is `"file.py:line"`: file name (what comes after the last `/`) and line of the first frame
#   whose filename doesn't contain `/torch/`, exactly these seven characters. Frames begin with the innermost. If there
#   is no such frame, the place is `"torch"`.
# - The bytes of one place are added up. The list is sorted by bytes, largest first, and equal ones by place, as
#   strings.
#
# <details><summary>Hint 1</summary>
#
# Go through the entries once and keep a dict from address to (size, place). When do you have to take a copy of it?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Whenever the sum reaches a new maximum, copy the dict. A "free_completed" removes its address, which may be unknown.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# After each "alloc", add the size, and if the sum is larger than the peak, keep the sum and a copy. At the end add up
# the copy by place, and sort by bytes, largest first, and then by place. To find the place of a block, look for the
# first frame that fits, with `"torch"` if there is none, and cut the folders off its filename.
#
# </details>


# %% answer="peak-owners"
def peak_owners(trace: list[dict]) -> tuple[int, list[tuple[str, int]]]:
    """The largest number of bytes allocated in a trace, and who held them then.

    Returns (peak, [(place, bytes), ...]), the largest first.
    """
    ### BEGIN SOLUTION
    blocks: dict[int, tuple[int, str]] = {}
    total, peak, picture = 0, 0, {}
    for entry in trace:
        if entry["action"] == "alloc":
            own = (f for f in entry.get("frames", []) if "/torch/" not in f["filename"])
            frame = next(own, None)
            place = f"{frame['filename'].rsplit('/', 1)[-1]}:{frame['line']}" if frame else "torch"
            blocks[entry["addr"]] = (entry["size"], place)
            total += entry["size"]
            if total > peak:
                peak, picture = total, dict(blocks)
        elif entry["action"] == "free_completed":
            total -= blocks.pop(entry["addr"], (0, ""))[0]
    held: dict[str, int] = {}
    for size, place in picture.values():
        held[place] = held.get(place, 0) + size
    return peak, sorted(held.items(), key=lambda one: (-one[1], one[0]))
    ### END SOLUTION


# %% helpers="peak-owners"
def entry(action, address, size, *frames):
    """One entry of a trace; a frame is "file:line"."""
    places = [frame.rpartition(":") for frame in frames]
    told = [{"filename": file, "line": int(line), "name": "f"} for file, _, line in places]
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": told}


inside = "/usr/lib/python3/site-packages/torch/nn/modules/linear.py:134"
largest_first = "The list begins with the largest owner; equal ones are in the order of their places, as strings."


def judge_owners(seen, peak, owners, *mistakes):
    """A pair (peak, owners), whose form comes first."""
    value = seen.value
    seen.that(
        isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[1], (list, tuple)),
        "Return a pair: the peak in bytes, and a list of pairs (place, bytes).",
        stage="type",
    )
    pairs = all(isinstance(one, (tuple, list)) and len(one) == 2 for one in value[1])
    is_number = isinstance(value[0], int) and not isinstance(value[0], bool)
    seen.that(
        pairs and is_number, "Return a pair: the peak in bytes, and a list of pairs (place, bytes).", stage="type"
    )
    came = [list(one) for one in value[1]]
    right = [list(one) for one in owners]
    named = [
        *mistakes,
        mistake(
            largest_first, when=lambda seen: value[0] == peak and sorted(map(str, came)) == sorted(map(str, right))
        ),
    ]
    seen.that(value[0] == peak, f"The peak is {peak} bytes, not {value[0]}.", *named)
    seen.that(came == right, f"At the peak the owners are {owners}, not {[tuple(one) for one in came]}.", *named)
    seen.leaves_arguments_alone(because="The trace must be left as it was.")


# %% check="peak-owners" points=1
"""A few entries by hand, a block that another stream uses, and the recorded step."""
with check("peak-owners") as test:
    adds_all = "Everything that was ever allocated is added up. The peak is what is allocated at one moment."

    at_the_end = "This is what is allocated at the end of the recording, not at the peak."

    not_completed = (
        'A block is there until "free_completed". After "free_requested" another stream may still be using it.'
    )

    driver = (
        '"segment_alloc" and "segment_free" are what the driver was asked for: reserved memory, not allocated memory.'
    )

    which_frame = (
        "Frames begin with the innermost. The place is the first frame whose filename doesn't contain /torch/; that "
        "needn't be the first frame or the last."
    )

    def gives(peak, *owners):
        """A condition: this is what came."""
        return lambda seen: (
            seen.value[0] == peak and (not owners or [list(one) for one in seen.value[1]] == list(owners))
        )

    test("seven entries: two blocks are there at the peak, and a third comes later")
    trace = [
        entry("segment_alloc", 4096, 9000, inside, "/home/eva/net.py:7", "/home/eva/main.py:3"),
        entry("alloc", 4096, 3000, inside, "/home/eva/net.py:7", "/home/eva/main.py:3"),
        entry("alloc", 8192, 5000, "/home/eva/loss.py:20", "/home/eva/main.py:4"),
        entry("free_requested", 4096, 3000),
        entry("free_completed", 4096, 3000),
        entry("alloc", 4096, 2000, inside, "/home/eva/net.py:9", "/home/eva/main.py:3"),
        entry("alloc", 9000, 400, inside, inside, "/home/eva/net.py:9", "/home/eva/main.py:3"),
    ]
    seen = observe(peak_owners, trace)
    judge_owners(
        seen,
        8000,
        [("loss.py:20", 5000), ("net.py:7", 3000)],
        mistake(adds_all, when=gives(10400)),
        mistake(at_the_end, when=gives(7400)),
        mistake(at_the_end, when=gives(8000, ["loss.py:20", 5000], ["net.py:9", 2400])),
        mistake(driver, when=lambda seen: seen.value[0] in (17000, 19400, 16400)),
        mistake(which_frame, when=gives(8000, ["loss.py:20", 5000], ["linear.py:134", 3000])),
        mistake(which_frame, when=gives(8000, ["main.py:4", 5000], ["main.py:3", 3000])),
        mistake("The place is the file's name without its folders.", when=lambda seen: "/" in str(seen.value[1])),
    )

    test("a block is still used by another stream, and one place holds two blocks")
    trace = [
        entry("alloc", 512, 700, inside, "/srv/a/step.py:11"),
        entry("alloc", 2048, 900, "/srv/a/step.py:12"),
        entry("free_requested", 512, 700),
        entry("alloc", 4096, 800, inside, "/srv/a/step.py:11"),
        entry("free_completed", 512, 700),
        entry("alloc", 512, 100, "/srv/a/step.py:14"),
    ]
    judge_owners(
        observe(peak_owners, trace),
        2400,
        [("step.py:11", 1500), ("step.py:12", 900)],
        mistake(not_completed, when=lambda seen: seen.value[0] in (1700, 1800, 1000)),
        mistake(
            "One place may hold several blocks, and its bytes are added up.",
            when=lambda seen: len(seen.value[1]) == 3 or len({place for place, _ in seen.value[1]}) == 2,
        ),
    )

    test("the recorded step of section 13.4")
    right = [("train.py:19", 25196544), ("torch", 8398848), ("train.py:12", 2097152), ("train.py:17", 4)]
    judge_owners(
        observe(peak_owners, recorded_step()["device_traces"][0]),
        35692548,
        right,
        mistake(
            'An allocation without a frame of your own, as in backward, belongs to "torch".',
            when=lambda seen: "torch" not in [one[0] for one in seen.value[1]],
        ),
    )


# %% check="peak-owners" points=1
"""Blocks from before, odd frames, oom, equal peaks and owners, random recordings."""
with check("peak-owners") as test:
    not_yet = mistake(
        "This check builds on the first one, which doesn't pass yet. Fix that first.", when=lambda seen: True
    )

    test("two blocks, of which one is freed")
    trace = [
        entry("alloc", 512, 700, inside, "/srv/a/step.py:11", "/srv/a/main.py:2"),
        entry("alloc", 2048, 900, "/srv/a/step.py:12", "/srv/a/main.py:2"),
        entry("free_completed", 512, 700),
        entry("alloc", 4096, 50, "/srv/a/step.py:13", "/srv/a/main.py:2"),
    ]
    judge_owners(observe(peak_owners, trace), 1600, [("step.py:12", 900), ("step.py:11", 700)], not_yet)

    ### BEGIN HIDDEN TESTS
    test.hidden("blocks from before the recording are freed in it")
    before = "A block from before the recording is freed in it. It was never counted, so nothing may be subtracted."
    trace = [
        entry("free_completed", 131072, 600),
        entry("alloc", 512, 700, "/srv/a/step.py:1"),
        entry("free_requested", 65536, 300),
        entry("free_completed", 65536, 300),
        entry("alloc", 2048, 200, "/srv/a/step.py:2"),
    ]
    seen = observe(peak_owners, trace).expecting(mistake(f"{before} ({{detail}})", raises="KeyError"))
    judge_owners(seen, 900, [("step.py:1", 700), ("step.py:2", 200)], mistake(before, when=lambda seen: True))

    test.hidden("oom and snapshot entries allocate nothing, and lack some keys")
    trace = [
        entry("alloc", 512, 700, "/srv/a/step.py:1"),
        {
            "action": "oom",
            "size": 9000,
            "stream": 0,
            "device_free": 10,
            "frames": [{"filename": "x.py", "line": 1, "name": "f"}],
        },
        {"action": "snapshot"},
        entry("alloc", 2048, 200, "/srv/a/step.py:2"),
        entry("segment_free", 512, 700),
    ]
    nothing = "An entry with the action oom or snapshot allocates nothing, and may lack addr, size or frames."
    seen = observe(peak_owners, trace).expecting(mistake(f"{nothing} ({{detail}})", raises="KeyError"))
    judge_owners(seen, 900, [("step.py:1", 700), ("step.py:2", 200)], mistake(nothing, when=lambda seen: True))

    test.hidden("what is torch's own: /torch/ in the filename, and nothing else")
    trace = [
        entry("alloc", 512, 10, "/home/me/torch_train.py:1", "/home/me/main.py:9"),
        entry("alloc", 1024, 20, "/srv/torch/x.py:2", "/srv/y.py:3"),
        entry("alloc", 1536, 30),
        entry("alloc", 2048, 40, "/usr/lib/site-packages/timm/net.py:5", "/home/me/main.py:9"),
        entry("alloc", 2560, 50, inside, "/opt/app/z.py:6"),
        entry("alloc", 3072, 60, inside),
        entry("alloc", 3584, 70, "plain.py:8", "/home/me/main.py:9"),
        entry("alloc", 4096, 100, "/home/me/pytorch/train.py:1", "/home/me/main.py:9"),
        entry("alloc", 4608, 110, "torch/own.py:4", "/home/me/main.py:9"),
        entry("alloc", 5120, 120, "/srv/Torch/big.py:5", "/home/me/main.py:9"),
    ]
    owners = [
        ("big.py:5", 120),
        ("own.py:4", 110),
        ("train.py:1", 100),
        ("torch", 90),
        ("plain.py:8", 70),
        ("z.py:6", 50),
        ("net.py:5", 40),
        ("y.py:3", 20),
        ("torch_train.py:1", 10),
    ]
    seen = observe(peak_owners, trace)
    own_rule = (
        "A frame belongs to torch only if its filename contains exactly /torch/, with both slashes and in lower case."
    )
    empty = 'A block whose frames are empty, or all torch\'s own, belongs to "torch".'
    seen.expecting(mistake(f"{empty} ({{detail}})", raises="IndexError|StopIteration|KeyError|TypeError"))
    judge_owners(seen, 610, owners, mistake(own_rule, when=lambda seen: seen.value[0] == 610))

    no_block = (
        '"segment_free", "segment_unmap" and "segment_map" are about reserved memory. They free or make no block.'
    )
    for action in ("segment_free", "segment_unmap", "segment_map"):
        test.hidden(f"{action} neither frees nor makes a block")
        trace = [
            entry("alloc", 512, 700, "/srv/a/step.py:1"),
            entry(action, 512 if action != "segment_map" else 8192, 4096),
            entry("alloc", 2048, 200, "/srv/a/step.py:2"),
        ]
        seen = observe(peak_owners, trace)
        judge_owners(
            seen,
            900,
            [("step.py:1", 700), ("step.py:2", 200)],
            mistake(no_block, when=lambda seen: seen.value[0] != 900),
        )

    test.hidden("equal peaks and equal owners; nothing at all")
    trace = [
        entry("alloc", 512, 300, "b.py:9"),
        entry("alloc", 1024, 300, "b.py:10"),
        entry("free_completed", 512, 300),
        entry("alloc", 512, 300, "a.py:1"),
    ]
    first = "The peak is reached more than once. The first time counts."
    judge_owners(
        observe(peak_owners, trace),
        600,
        [("b.py:10", 300), ("b.py:9", 300)],
        mistake(first, when=lambda seen: "a.py:1" in str(seen.value)),
    )
    trace = [entry("alloc", 512, 3 * 2**30, "/a/run:1"), entry("alloc", 1024, 3 * 2**30, "/a/run.py:1")]
    large = "A block of 3 GiB has 3,221,225,472 bytes, which doesn't fit into 32 bits. Use Python's ints or int64."
    seen = observe(peak_owners, trace).expecting(mistake(large, raises="OverflowError"))
    judge_owners(
        seen,
        6 * 2**30,
        [("run.py:1", 3 * 2**30), ("run:1", 3 * 2**30)],
        mistake(large, when=lambda seen: seen.value[0] != 6 * 2**30),
        mistake(
            "Equal owners are sorted by the whole place, as a string. Yours are sorted by the file's name first. "
            "run.py:1 comes before run:1, because the dot comes before the colon.",
            when=lambda seen: [one[0] for one in seen.value[1]] == ["run:1", "run.py:1"],
        ),
    )
    for trace in ([], [entry("segment_alloc", 512, 300), entry("free_completed", 512, 300)]):
        judge_owners(observe(peak_owners, trace), 0, [])

    def expected(trace):
        """The pair, for a recording without odd entries."""
        alive, best = {}, (0, {})
        for one in trace:
            if one["action"] == "alloc":
                alive[one["addr"]] = one
                size = sum(block["size"] for block in alive.values())
                if size > best[0]:
                    best = size, dict(alive)
            elif one["action"] == "free_completed":
                del alive[one["addr"]]
        held = {}
        for block in best[1].values():
            names = [
                f"{f['filename'].split('/')[-1]}:{f['line']}" for f in block["frames"] if "/torch/" not in f["filename"]
            ]
            place = names[0] if names else "torch"
            held[place] = held.get(place, 0) + block["size"]
        return best[0], sorted(held.items(), key=lambda pair: (-pair[1], pair[0]))

    test.hidden("twenty random recordings in which addresses are used again")
    for seed in range(20):
        dice, alive, trace = random.Random(seed), {}, []
        for _ in range(40):
            if alive and dice.random() < 0.45:
                address = list(alive)[dice.randrange(len(alive))]
                size = alive.pop(address)
                trace += [entry("free_requested", address, size), entry("free_completed", address, size)]
            else:
                address = dice.choice([a * 512 for a in range(1, 60) if a * 512 not in alive])
                frames = [inside] * dice.randrange(2) + [
                    f"/a/p{dice.randrange(3)}.py:{dice.randrange(9)}"
                ] * dice.randrange(2)
                alive[address] = dice.randrange(1, 5) * 100
                trace.append(entry("alloc", address, alive[address], *frames))
        judge_owners(observe(peak_owners, trace), *expected(trace))
    ### END HIDDEN TESTS
