# corners: none
def owners_of(
    trace,
    opens=("alloc",),
    closes=("free_completed",),
    mine=lambda frame: "/torch/" not in frame["filename"],
    pick=lambda frames: frames[0],
    order=lambda pair: (-pair[1], pair[0]),
    later=False,
    none="torch",
    unknown=0,
    at_end=False,
):
    """What the answers below change in places."""
    blocks, total, best, picture = {}, 0, 0, {}
    for e in trace:
        if e["action"] in opens:
            frames = [f for f in e["frames"] if mine(f)]
            f = pick(frames) if frames else None
            blocks[e["addr"]] = (e["size"], f"{f['filename'].split('/')[-1]}:{f['line']}" if f else none)
            total += e["size"]
            if total > best or (later and total == best):
                best, picture = total, dict(blocks)
        elif e["action"] in closes:
            total -= blocks.pop(e["addr"], (unknown and e["size"], ""))[0]
    held = {}
    for size, place in (blocks if at_end else picture).values():
        held[place] = held.get(place, 0) + size
    return best, sorted(((p, n) for p, n in held.items() if p is not None), key=order)


# %% right: two passes, lists in place of tuples
def peak_owners(trace):
    totals, sizes = [0], {}
    for e in trace:
        if e["action"] == "alloc":
            sizes[e["addr"]] = e["size"]
        elif e["action"] == "free_completed":
            sizes.pop(e["addr"], None)
        totals.append(sum(sizes.values()))
    stop = totals.index(max(totals))
    alive = {}
    for e in trace[:stop]:
        if e["action"] == "alloc":
            alive[e["addr"]] = e
        if e["action"] == "free_completed" and e["addr"] in alive:
            del alive[e["addr"]]
    held = {}
    for e in alive.values():
        place = "torch"
        for f in reversed(e["frames"]):
            if "/torch/" not in f["filename"]:
                place = f["filename"].rpartition("/")[2] + ":" + str(f["line"])
        held[place] = held.get(place, 0) + e["size"]
    return [max(totals), [[p, n] for p, n in sorted(held.items(), key=lambda x: (-x[1], x[0]))]]


# %% right: pairs spans
def peak_owners(trace):
    from collections import Counter
    from pathlib import PurePosixPath

    spans, open_ = [], {}
    for when, e in enumerate(trace):
        if e["action"] == "alloc":
            open_[e["addr"]] = len(spans)
            spans.append([when, len(trace), e])
        if e["action"] == "free_completed" and e["addr"] in open_:
            spans[open_.pop(e["addr"])][1] = when
    peak, at = 0, -1
    for start, _, _ in spans:
        size = sum(e["size"] for a, b, e in spans if a <= start < b)
        if size > peak:
            peak, at = size, start
    held = Counter()
    for a, b, e in spans:
        if a <= at < b:
            own = [f for f in e["frames"] if "/torch/" not in f["filename"]]
            held[f"{PurePosixPath(own[0]['filename']).name}:{own[0]['line']}" if own else "torch"] += e["size"]
    return peak, sorted(sorted(held.items()), key=lambda x: x[1], reverse=True)


# %% right: the shared one as it is
def peak_owners(trace):
    return owners_of(trace)


# %% right: subtracts the size that the entry of the free names
def peak_owners(trace):
    known, total, totals = {}, 0, []
    for e in trace:
        if e["action"] == "alloc":
            known[e["addr"]] = e
            total += e["size"]
        elif e["action"] == "free_completed" and known.pop(e["addr"], None):
            total -= e["size"]
        totals.append(total)
    peak = max(totals, default=0)
    if not peak:
        return 0, []
    return peak, owners_of(trace[: totals.index(peak) + 1])[1]


# %% wrong: adds everything up
# says: Everything that was ever allocated is added up.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def peak_owners(trace):
    return owners_of(trace, closes=())


# %% wrong: what is there at the end
# says: This is what is allocated at the end of the recording, not at the peak.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def peak_owners(trace):
    _, held = owners_of(trace, at_end=True)
    return sum(n for _, n in held), held


# %% wrong: peak, but owners at the end
# says: This is what is allocated at the end of the recording, not at the peak.
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, at_end=True)


# %% wrong: free_requested frees
# says: A block is there until "free_completed".
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, closes=("free_requested",))


# %% wrong: either frees
# says: A block is there until "free_completed".
# earns: 1 of 2
# lesson
def peak_owners(trace):
    return owners_of(trace, closes=("free_requested", "free_completed"))


# %% wrong: segments count
# says: "segment_alloc" and "segment_free" are what the driver was asked for
# says: "segment_free", "segment_unmap" and "segment_map" are about reserved memory.
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, opens=("alloc", "segment_alloc"), closes=("free_completed", "segment_free"))


# %% wrong: the innermost frame
# says: Frames begin with the innermost.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: True)


# %% wrong: the outermost frame
# says: Frames begin with the innermost.
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, pick=lambda frames: frames[-1])


# %% wrong: the last of equal peaks
# says: The peak is reached more than once. The first time counts.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, later=True)


# %% wrong: KeyError for unknown blocks
# says: A block from before the recording is freed in it.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    known = set()
    for e in trace:
        if e["action"] == "alloc":
            known.add(e["addr"])
        if e["action"] == "free_completed":
            known.remove(e["addr"])
    return owners_of(trace)


# %% wrong: unknown blocks are taken off
# says: A block from before the recording is freed in it.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, unknown=1)


# %% wrong: the failed request counts
# says: An entry with the action oom or snapshot allocates nothing
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of([e if e["action"] != "oom" else {**e, "action": "alloc", "addr": -1} for e in trace])


# %% wrong: reads the address of every entry
# says: An entry with the action oom or snapshot allocates nothing, and may lack addr, size or frames. (
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    addresses = {e["addr"] for e in trace}
    return owners_of(trace) if addresses or not trace else (0, [])


# %% wrong: leaves torch's own out
# says: An allocation without a frame of your own, as in backward, belongs to "torch".
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, none=None)


# %% wrong: blocks are not added up
# says: One place may hold several blocks, and its bytes are added up.
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 0 of 2
def peak_owners(trace):
    best, _ = owners_of(trace)
    alive, total = {}, 0
    for e in trace:
        if e["action"] == "alloc":
            alive[e["addr"]] = e
            total += e["size"]
            if total == best:
                break
        elif e["action"] == "free_completed":
            total -= alive.pop(e["addr"], {"size": 0})["size"]
    rows = [owners_of([e])[1][0] for e in alive.values()]
    return best, sorted(rows, key=lambda pair: (-pair[1], pair[0]))


# %% wrong: in the order of allocation
# says: The list begins with the largest owner
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, order=lambda pair: 0)


# %% wrong: smallest first
# says: The list begins with the largest owner
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, order=lambda pair: (pair[1], pair[0]))


# %% wrong: equal ones as they came
# says: The list begins with the largest owner
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, order=lambda pair: -pair[1])


# %% wrong: lines sorted as numbers
# says: The list begins with the largest owner
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    def order(pair):
        file, _, line = pair[0].partition(":")
        return -pair[1], file, int(line or 0)

    return owners_of(trace, order=order)


# %% wrong: changes the trace
# says: The trace must be left as it was.
# says: The trace must be left as it was.
# earns: 0 of 2
def peak_owners(trace):
    result = owners_of(trace)
    trace.sort(key=lambda e: e["action"])
    return result


# %% wrong: whole paths
# says: The place is the file's name without its folders.
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    best, held = owners_of(trace)
    paths = {
        f"{f['filename'].split('/')[-1]}:{f['line']}": f"{f['filename']}:{f['line']}"
        for e in trace
        for f in e.get("frames", ())
    }
    return best, [(paths.get(place, place), size) for place, size in held]


# %% wrong: torch by its name alone
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: "torch" not in frame["filename"])


# %% wrong: site-packages
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: "site-packages" not in frame["filename"])


# %% wrong: what lies below /home
# says: At the peak the owners are [('step.py:11', 1500), ('step.py:12', 900)], not [('torch', 2400)].
# says: This check builds on the first one
# earns: 0 of 2
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: frame["filename"].startswith("/home"))


# %% wrong: the first frame, without looking whether there is one
# says: A block whose frames are empty, or all torch's own, belongs to "torch". (
# says: Your code raised IndexError
# earns: 0 of 2
def peak_owners(trace):
    for e in trace:
        if e["action"] == "alloc":
            e["frames"][0]["filename"]
    return owners_of(trace)


# %% wrong: a dict in place of pairs
# says: Return a pair: the peak in bytes, and a list of pairs (place, bytes).
# says: Return a pair: the peak in bytes, and a list of pairs (place, bytes).
# earns: 0 of 2
def peak_owners(trace):
    best, held = owners_of(trace)
    return best, dict(held)


# %% wrong: MiB in place of bytes
# says: Return a pair: the peak in bytes, and a list of pairs (place, bytes).
# says: Return a pair: the peak in bytes, and a list of pairs (place, bytes).
# earns: 0 of 2
def peak_owners(trace):
    best, held = owners_of(trace)
    return best / 2**20, [(place, size / 2**20) for place, size in held]


# %% wrong: torch without the slash before it
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: "torch/" not in frame["filename"])


# %% wrong: torch as a part of the path
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: "torch" not in frame["filename"].split("/"))


# %% wrong: torch in any case
# says: A frame belongs to torch only if its filename contains exactly /torch/
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, mine=lambda frame: "/torch/" not in frame["filename"].lower())


# %% wrong: segment_free frees a block
# says: "segment_free", "segment_unmap" and "segment_map" are about reserved memory.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, closes=("free_completed", "segment_free"))


# %% wrong: segment_unmap frees a block
# says: "segment_free", "segment_unmap" and "segment_map" are about reserved memory.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, closes=("free_completed", "segment_unmap"))


# %% wrong: segment_map makes a block
# says: "segment_free", "segment_unmap" and "segment_map" are about reserved memory.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, opens=("alloc", "segment_map"))


# %% wrong: the peak with a block of 512 bytes for the recording
# says: bytes, not
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
def peak_owners(trace):
    peak, owners = owners_of(trace)
    return peak + 512, owners


# %% wrong: a curve in int32
# says: A block of 3 GiB has 3,221,225,472 bytes, which doesn't fit into 32 bits.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    import numpy as np

    sizes = [e["size"] if e["action"] == "alloc" else 0 for e in trace]
    np.array(sizes, dtype=np.int32)
    return owners_of(trace)


# %% wrong: equal owners by file, then by line as a string
# says: Equal owners are sorted by the whole place, as a string.
# earns: 1 of 2
# caught: hidden
def peak_owners(trace):
    return owners_of(trace, order=lambda pair: (-pair[1], pair[0].rpartition(":")[0], pair[0]))
