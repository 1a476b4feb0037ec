# corners: empty
import math


def lanes(
    calls,
    depth=math.inf,
    each=False,
    sync=True,
    side=False,
    early=False,
    from_start=False,
    before=False,
    launch_stalls=False,
    shift=0,
    over=max,
    zero_kernels=False,
):
    """What the answers below change in places."""
    now = free = idle = stalled = 0
    ends = []
    for launch, work, waits in calls:
        pending = [end for end in ends if end > now]
        if len(pending) >= depth + shift:
            to = pending[len(pending) - int(depth + shift)]
            stalled, now = stalled + to - now, to
        begin = now
        now += launch
        stalled += launch if launch_stalls else 0
        if before and waits and free > now:
            stalled, now = stalled + free - now, free
        if work or zero_kernels:
            start = (begin if early else now) if side else max(begin if early else now, free)
            if ends or from_start:
                idle += max(0, start - free)
            free = max(free, start + work)
            ends.append(free)
        if not before and (waits or each) and (work or sync) and free > now:
            stalled, now = stalled + free - now, free
    return {"total": over(now, free), "idle": idle, "stalled": stalled}


# %% right: spans, more keys, floats
def two_lanes(calls, depth=math.inf):
    from torchkata.instruments import lanes as package

    sums = package.totals(package.lanes(calls, depth))
    return {"total": float(sums.total), "idle": float(sums.idle), "stalled": float(sums.stalled), "calls": len(calls)}


# %% right: tick by tick
def two_lanes(calls, depth=math.inf):
    todo, queue = list(calls), []
    time = free = launched = stalled = busy = 0
    first = last = None
    current, waiting = None, False
    while True:
        if current and launched == time:
            _, work, waiting = current
            current = None
            if work:
                queue.append(work)
        if queue and free <= time:
            work = queue.pop(0)
            first = time if first is None else first
            free = last = time + work
            busy += work
        gpu = bool(queue) or free > time
        if waiting and not gpu:
            waiting = False
        if current is None and not waiting and todo and len(queue) + (free > time) < depth:
            current = todo.pop(0)
            launched = time + current[0]
            if launched == time:
                continue
        elif current is None and (waiting or todo):
            stalled += 1
        if not (todo or current or waiting or gpu):
            return {"total": time, "idle": (last - first - busy) if first is not None else 0, "stalled": stalled}
        time += 1


# %% right: the shared one as it is
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth)


# %% wrong: Python waits for every kernel
# says: Python doesn't wait for a kernel unless the call says so
# earns: 0 of 1
# lesson
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, each=True)


# %% wrong: all times added up
# says: Python doesn't wait for a kernel unless the call says so
# earns: 0 of 1
# lesson
def two_lanes(calls, depth=math.inf):
    return {"total": sum(a + b for a, b, _ in calls), "idle": 0, "stalled": 0}


# %% wrong: the larger of two sums
# says: A kernel can't begin before its call has been made
# earns: 0 of 1
# lesson
def two_lanes(calls, depth=math.inf):
    return {"total": max(sum(a for a, _, _ in calls), sum(b for _, b, _ in calls)), "idle": 0, "stalled": 0}


# %% wrong: the larger of two sums and the first launch
# says: Two sums are not enough
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    python, gpu = sum(a for a, _, _ in calls), sum(b for _, b, _ in calls)
    return {"total": max(python, gpu + calls[0][0] if calls and gpu > python else 0), "idle": 0, "stalled": 0}


# %% wrong: idle from the start
# says: The time before the first kernel is not idle time
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, from_start=True)


# %% wrong: a wait without work waits for nothing
# says: A call without work that waits (synchronize) waits for everything that was queued before it.
# earns: 0 of 1
# caught: hidden
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, sync=False)


# %% wrong: kernels side by side
# says: Kernels run one after the other, in the order in which they were queued.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, side=True)


# %% wrong: total is Python's
# says: The program is over when both are done, Python and the GPU.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, over=lambda python, gpu: python)


# %% wrong: total is the GPU's
# says: The program is over when both are done, Python and the GPU.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, over=lambda python, gpu: gpu)


# %% wrong: waits before it queues
# says: A call that waits first queues its own kernel, and then also waits for that kernel.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, before=True)


# %% wrong: launching counts as stalled
# says: Queueing is work. Stalled is the time in which Python is blocked.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, launch_stalls=True)


# %% wrong: depth off by one
# says: At `depth` unfinished kernels Python must already wait.
# earns: 0 of 1
# caught: hidden
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, shift=1)


# %% wrong: no depth
# says: While `depth` kernels are queued and haven't ended (the running one counts)
# earns: 0 of 1
# caught: hidden
def two_lanes(calls, depth=math.inf):
    return lanes(calls)


# %% wrong: depth holds up only calls with work
# says: While `depth` kernels are queued and haven't ended (the running one counts)
# earns: 0 of 1
# caught: hidden
def two_lanes(calls, depth=math.inf):
    now = free = idle = stalled = 0
    ends = []
    for launch, work, waits in calls:
        pending = [end for end in ends if end > now]
        if work and len(pending) >= depth:
            to = pending[len(pending) - int(depth)]
            stalled, now = stalled + to - now, to
        now += launch
        if work:
            start = max(now, free)
            idle += start - free if ends else 0
            free = start + work
            ends.append(free)
        if waits and free > now:
            stalled, now = stalled + free - now, free
    return {"total": max(now, free), "idle": idle, "stalled": stalled}


# %% wrong: kernels begin with the call
# says: A kernel can't begin before its call has been made
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, early=True)


# %% wrong: a kernel for each call
# says: A call without work has no kernel, so it can't end an idle time of the GPU.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    now = free = idle = stalled = 0
    for number, (launch, work, waits) in enumerate(calls):
        now += launch
        start = max(now, free)
        idle += (start - free) if number and work else 0
        free = start + work
        if waits and free > now:
            stalled, now = stalled + free - now, free
    return {"total": max(now, free), "idle": idle, "stalled": stalled}


# %% wrong: fails without calls
# says: Your code raised IndexError
# earns: 0 of 1
# corner: empty
# caught: hidden
def two_lanes(calls, depth=math.inf):
    calls[0]
    return lanes(calls, depth)


# %% wrong: a tuple
# says: Return a dict with the keys "total", "idle" and "stalled".
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return tuple(lanes(calls, depth).values())


# %% wrong: idle after the last kernel counts
# says: A call without work queues no kernel, so the time after the last kernel is not idle time.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    found = lanes(calls, depth)
    gpu = lanes(calls, depth, over=lambda python, gpu: gpu)["total"]
    return found | {"idle": found["idle"] + found["total"] - gpu}


# %% wrong: a kernel of length 0 for a call without work
# says: A call without work queues no kernel, so the time after the last kernel is not idle time.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return lanes(calls, depth, zero_kernels=True)


# %% wrong: a call without work has a place in the queue
# says: A call without work queues no kernel.
# earns: 0 of 1
# caught: hidden
def two_lanes(calls, depth=math.inf):
    now = free = idle = stalled = 0
    ends = []
    worked = False
    for launch, work, waits in calls:
        pending = [end for end in ends if end > now]
        if len(pending) >= depth:
            to = pending[len(pending) - int(depth)]
            stalled, now = stalled + to - now, to
        now += launch
        if work:
            start = max(now, free)
            idle += start - free if worked else 0
            free, worked = start + work, True
        ends.append(free)
        if waits and free > now:
            stalled, now = stalled + free - now, free
    return {"total": max(now, free), "idle": idle, "stalled": stalled}


# %% wrong: waits only for more kernels than depth
# says: At `depth` unfinished kernels Python must already wait.
# earns: 0 of 1
# caught: hidden
def two_lanes(calls, depth=math.inf):
    now = free = idle = stalled = 0
    ends = []
    for launch, work, waits in calls:
        pending = [end for end in ends if end > now]
        if len(pending) > depth:
            to = pending[len(pending) - int(depth)]
            stalled, now = stalled + to - now, to
        now += launch
        if work:
            start = max(now, free)
            idle += start - free if ends else 0
            free = start + work
            ends.append(free)
        if waits and free > now:
            stalled, now = stalled + free - now, free
    return {"total": max(now, free), "idle": idle, "stalled": stalled}


# %% wrong: numbers as texts
# says: The three values must be plain Python numbers.
# earns: 0 of 1
def two_lanes(calls, depth=math.inf):
    return {name: str(number) for name, number in lanes(calls, depth).items()}
