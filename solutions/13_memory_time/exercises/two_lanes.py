# %% [markdown]
# ### Exercise 13.9 · Who waits for whom?
#
# implement · solid · 20 min · 1 point
#
# When does a program that queues work for a GPU finish, and which of the two waits for the other? Compute it from a
# list of calls.
#
# **Contract**
#
# - A call is a tuple (launch, work, waits): Python needs `launch` to make the call, and then the GPU has `work` to do.
#   A call whose work is 0 queues no kernel. All times are ints of one unit, and `launch` is at least 1.
# - Kernels run one at a time, in the order in which they were queued. A kernel begins as soon as its call has been
#   made, which is when `launch` is over, and the kernel before it has ended.
# - If `waits` is true, Python continues after its launch only when everything that has been queued has ended, including
#   the work of this call.
# - `depth` is an int of at least 1, or `math.inf`. As long as `depth` kernels are queued or running, Python doesn't
#   begin the next call, whatever that call is.
# - The result is a dict of plain Python numbers. `"total"` is when both are done. `"stalled"` is how long Python was
#   blocked, by `waits` or by `depth`. `"idle"` is how long the GPU had nothing to do between the start of its first
#   kernel and the end of its last. Without calls all three are 0.
#
# <details><summary>Hint 1</summary>
#
# You need two clocks: where Python is, and when the GPU will be free. What does a call do to each of them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each call moves Python's clock by its launch. Its kernel starts at the later of the two clocks and moves the GPU's
# clock to its end. At which of these places do "idle" and "stalled" grow?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# "idle" grows by the start of a kernel minus the end of the kernel before, if there was one. A call that waits moves
# Python's clock to the GPU's if that is later. For `depth`, keep a list of ends. Before a call, while the ends later
# than Python's clock are `depth` or more, move that clock to the earliest of them.
#
# </details>


# %% answer="two-lanes"
def two_lanes(calls: list[tuple[int, int, bool]], depth: float = math.inf) -> dict:
    """When both are done, how long the GPU is idle, how long Python stands still.

    calls: (launch, work, waits). Returns {"total": …, "idle": …, "stalled": …}.
    """
    ### BEGIN SOLUTION
    now = free = idle = stalled = 0
    ends: list[int] = []
    for launch, work, waits_for_all in calls:
        pending = [end for end in ends if end > now]
        if len(pending) >= depth:
            go_on = pending[len(pending) - int(depth)]
            stalled += go_on - now
            now = go_on
        now += launch
        if work:
            start = max(now, free)
            idle += start - free if ends else 0
            free = start + work
            ends.append(free)
        if waits_for_all and free > now:
            stalled += free - now
            now = free
    return {"total": max(now, free), "idle": idle, "stalled": stalled}
    ### END SOLUTION


# %% check="two-lanes" points=1
"""Python ahead, the GPU ahead, waits in the middle; synchronize, a queue with an end, random programs."""
with check("two-lanes") as test:

    def judge_lanes(seen, total, idle, stalled, *mistakes):
        """The three numbers."""
        value = seen.value
        seen.that(
            isinstance(value, dict) and {"total", "idle", "stalled"} <= set(value),
            'Return a dict with the keys "total", "idle" and "stalled".',
            stage="type",
        )
        came = [value[name] for name in ("total", "idle", "stalled")]
        seen.that(
            all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in came),
            "The three values must be plain Python numbers.",
            stage="type",
        )
        seen.that(
            came == [total, idle, stalled],
            f"total, idle and stalled are {total}, {idle} and {stalled}, not {came[0]}, {came[1]} and {came[2]}.",
            *mistakes,
        )

    def has(**numbers):
        """A condition: these numbers came."""
        return lambda seen: all(seen.value[name] == number for name, number in numbers.items())

    both = "Two sums are not enough: it matters WHEN kernels are queued and when Python waits."
    order = "Kernels run one after the other, in the order in which they were queued."
    test("Python queues faster than the GPU works: four calls of 2, four kernels of 5")
    seen = observe(two_lanes, [(2, 5, False)] * 4)
    judge_lanes(
        seen,
        22,
        0,
        0,
        mistake(
            "Python doesn't wait for a kernel unless the call says so: it queues the kernel and continues.",
            when=has(total=28),
        ),
        mistake("A kernel can't begin before its call has been made: launch comes first.", when=has(total=20, idle=0)),
        mistake(both, when=has(total=20)),
        mistake(order, when=has(total=13)),
        mistake("The program is over when both are done, Python and the GPU.", when=has(total=8)),
        mistake(
            "The time before the first kernel is not idle time: idle is between kernels.", when=has(total=22, idle=2)
        ),
        mistake("Queueing is work. Stalled is the time in which Python is blocked.", when=has(total=22, stalled=8)),
    )

    test("the GPU works faster than Python queues: three calls of 5, three kernels of 2")
    seen = observe(two_lanes, [(5, 2, False)] * 3)
    judge_lanes(
        seen,
        17,
        6,
        0,
        mistake(both, when=has(total=15)),
        mistake("The time before the first kernel is not idle time: idle is between kernels.", when=has(idle=11)),
    )

    test("a wait in the middle, and Python's own work after it")
    seen = observe(two_lanes, [(1, 10, False), (1, 4, True), (6, 0, False), (2, 3, False), (7, 0, False)])
    judge_lanes(
        seen,
        30,
        8,
        13,
        mistake(
            "A call that waits first queues its own kernel, and then also waits for that kernel.", when=has(stalled=9)
        ),
        mistake("The program is over when both are done, Python and the GPU.", when=has(total=26)),
        mistake(
            "A call without work has no kernel, so it can't end an idle time of the GPU.", when=has(total=30, idle=2)
        ),
        mistake(
            "A call without work queues no kernel, so the time after the last kernel is not idle time.",
            when=has(total=30, idle=12, stalled=13),
        ),
    )

    ### BEGIN HIDDEN TESTS
    all_before = "A call without work that waits (synchronize) waits for everything that was queued before it."
    test.hidden("synchronize()")
    seen = observe(two_lanes, [(1, 9, False), (1, 0, True), (3, 2, False)])
    judge_lanes(seen, 15, 3, 8, mistake(all_before, when=lambda seen: seen.value["stalled"] < 8))
    test.hidden("nothing to do")
    judge_lanes(observe(two_lanes, []), 0, 0, 0)
    judge_lanes(observe(two_lanes, [(4, 0, True), (2, 0, False)]), 6, 0, 0)

    full = (
        "While `depth` kernels are queued and haven't ended (the running one counts), Python waits before the next "
        "call until the oldest of them has ended."
    )
    test.hidden("a queue of two")
    calls = [(1, 10, False), (1, 10, False), (1, 10, False), (1, 0, False), (1, 4, False)]
    at_depth = "At `depth` unfinished kernels Python must already wait."
    judge_lanes(
        observe(two_lanes, calls, 2),
        35,
        0,
        18,
        mistake(at_depth, when=has(total=35, idle=0, stalled=8)),
        mistake("A call without work queues no kernel.", when=has(total=36, stalled=27)),
        mistake(full, when=lambda seen: True),
    )
    test.hidden("a queue of two, and the third kernel has to wait")
    calls = [(1, 10, False), (1, 10, False), (1, 10, False)]
    judge_lanes(observe(two_lanes, calls, 2), 31, 0, 9, mistake(at_depth, when=has(total=31, idle=0, stalled=0)))

    def step_by_step(calls, depth):
        """The three numbers, one unit of time after another."""
        todo, queue, time, free_at, held = list(calls), [], 0, 0, 0
        busy, python_until, waiting, first, last = [], 0, False, None, 0
        launching = None
        while todo or launching or waiting or queue or free_at > time:
            if launching and python_until == time:
                _, work, waiting = launching
                launching = None
                if work:
                    queue.append(work)
            if queue and free_at <= time:
                free_at = time + queue.pop(0)
                first = time if first is None else first
                last = free_at
                busy.append(free_at - time)
            if waiting and not queue and free_at <= time:
                waiting = False
            if not waiting and not launching and todo and len(queue) + (free_at > time) < depth:
                launching = todo.pop(0)
                python_until = time + launching[0]
            elif not launching and (waiting or todo):
                held += 1
            time += 1
        return max(python_until, last), last - (first or 0) - sum(busy), held

    for depth, idea in ((math.inf, "thirty random programs"), (3, "thirty random programs with a queue of three")):
        test.hidden(idea)
        dice = random.Random(9)
        for _ in range(30):
            calls = [(dice.randint(1, 5), dice.choice([0, 1, 3, 9, 14]), dice.random() < 0.15) for _ in range(12)]
            judge_lanes(observe(two_lanes, calls, depth), *step_by_step(calls, depth))
    ### END HIDDEN TESTS
