# corners: none
import math


def cheapest(act, edge, cost, budget, fits=lambda a, b: a <= b, kept_of=None, there_of=None, price=None, single=False):
    """The plan, with places to change it."""
    n = len(act)
    kept_of = kept_of or (lambda i, j: edge[i])
    there_of = there_of or (lambda i, j: sum(act[i:j]))
    price = price or (lambda i, j: sum(cost[i:j]))
    known = {}

    def go(i, kept):
        if i == n:
            return 0, ()
        if (i, kept) in known:
            return known[i, kept]
        best = None
        if fits(kept + act[i], budget):
            rest = go(i + 1, kept + act[i])
            if rest is not None:
                best = rest
        for j in range(i + 1, (i + 1 if single else n) + 1):
            if not fits(kept + there_of(i, j), budget):
                break
            rest = go(j, kept + kept_of(i, j))
            if rest is not None and (best is None or rest[0] + price(i, j) < best[0]):
                best = (rest[0] + price(i, j), ((i, j), *rest[1]))
        known[i, kept] = best
        return best

    found = go(0, 0)
    return None if found is None else list(found[1])


def worst(segments, act, edge):
    inside = {layer: s for s in segments for layer in range(*s)}
    kept = most = layer = 0
    while layer < len(act):
        start, stop = inside.get(layer, (layer, layer + 1))
        most = max(most, kept + sum(act[start:stop]))
        kept += edge[layer] if layer in inside else act[layer]
        layer = stop
    return most


def even(n, parts):
    cuts = [round(n * k / parts) for k in range(parts + 1)]
    return [(a, b) for a, b in zip(cuts, cuts[1:]) if a < b]


# %% right: memoised by what is kept
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget)


# %% right: pairs that nothing beats, segments as lists
def plan(act, edge, cost, budget):
    fronts = [[] for _ in range(len(act) + 1)]
    fronts[0] = [(0, 0, [])]
    for i in range(len(act)):
        front, low = [], math.inf
        for kept, spent, way in sorted(fronts[i], key=lambda one: one[:2]):
            if spent < low:
                low = spent
                front.append((kept, spent, way))
        for kept, spent, way in front:
            if kept + act[i] <= budget:
                fronts[i + 1].append((kept + act[i], spent, way))
            for j in range(i + 1, len(act) + 1):
                if kept + sum(act[i:j]) > budget:
                    break
                fronts[j].append((kept + edge[i], spent + sum(cost[i:j]), [*way, [i, j]]))
    found = sorted(fronts[-1], key=lambda one: one[1])
    return found[0][2] if found else None


# %% right: from the end, by the room that is left
def plan(act, edge, cost, budget):
    import functools

    sums = [0]
    for a in act:
        sums.append(sums[-1] + a)

    @functools.cache
    def from_(i, room):
        if i == len(act):
            return 0, None
        ways = []
        if act[i] <= room:
            ways.append((from_(i + 1, room - act[i])[0], (i + 1, room - act[i], None)))
        j = i + 1
        while j <= len(act) and sums[j] - sums[i] <= room:
            ways.append((from_(j, room - edge[i])[0] + sum(cost[i:j]), (j, room - edge[i], (i, j))))
            j += 1
        return min(ways, key=lambda way: way[0], default=(math.inf, None))

    if from_(0, budget)[0] == math.inf:
        return None
    segments, place, room = [], 0, budget
    while place < len(act):
        place, room, segment = from_(place, room)[1]
        segments += [segment] if segment else []
    return segments


# %% right: for each cost, the least that is kept
def plan(act, edge, cost, budget):
    n = len(act)
    least = [{} for _ in range(n + 1)]  # by the cost so far: the least that is kept, and the segments
    least[0][0] = (0, [])
    for i in range(n):
        for spent, (kept, way) in least[i].items():
            steps = [(i + 1, spent, kept + act[i], way)] if kept + act[i] <= budget else []
            for j in range(i + 1, n + 1):
                if kept + sum(act[i:j]) > budget:
                    break
                steps.append((j, spent + sum(cost[i:j]), kept + edge[i], [*way, (i, j)]))
            for j, cost_there, kept_there, way_there in steps:
                if cost_there not in least[j] or kept_there < least[j][cost_there][0]:
                    least[j][cost_there] = (kept_there, way_there)
    return least[n][min(least[n])][1] if least[n] else None


# %% right: in whole quarters
def plan(act, edge, cost, budget):
    return cheapest([int(4 * a) for a in act], [int(4 * e) for e in edge], cost, int(4 * budget))


# %% wrong: tries plan after plan, and gives up those that cost too much
# says: For 24 layers your function has added numbers a million times, and it isn't done.
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    best = [math.inf, None]

    def go(layer, kept, spent, segments):
        if spent >= best[0]:
            return
        if layer == len(act):
            best[:] = spent, segments
            return
        if kept + act[layer] <= budget:
            go(layer + 1, kept + act[layer], spent, segments)
        for stop in range(layer + 1, len(act) + 1):
            if kept + sum(act[layer:stop]) > budget:
                break
            go(stop, kept + edge[layer], spent + sum(cost[layer:stop]), [*segments, (layer, stop)])

    go(0, 0, 0, [])
    return best[1]


# %% wrong: the root of n equal segments, all of them
# says: Your plan fits and computes
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def plan(act, edge, cost, budget):
    if sum(act) <= budget:
        return []
    segments = even(len(act), round(math.sqrt(len(act)))) if act else []
    return segments if worst(segments, act, edge) <= budget else None


# %% wrong: the root of n, the last one kept
# says: Your plan fits and computes
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    if sum(act) <= budget:
        return []
    segments = even(len(act), round(math.sqrt(len(act))))[:-1] if act else []
    return segments if worst(segments, act, edge) <= budget else None


# %% wrong: every layer on its own
# says: There is a plan that fits, with cost 5. You said None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    if sum(act) <= budget:
        return []
    segments = [(i, i + 1) for i in range(len(act))]
    return segments if worst(segments, act, edge) <= budget else None


# %% wrong: the best number of equal segments, always all
# says: Everything fits: nothing has to be computed again.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    for parts in range(1, len(act) + 1):
        segments = even(len(act), parts)
        if worst(segments, act, edge) <= budget:
            return segments
    return None if act else []


# %% wrong: single layers only
# says: There is a plan that fits, with cost 5. You said None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget, single=True)


# %% wrong: one segment from the front
# says: There is a plan that fits, with cost 10. You said None.
# says: There is a plan that fits, with cost 16. You said None.
# earns: 0 of 2
def plan(act, edge, cost, budget):
    found = [[]] + [[(i, j)] for i in range(len(act)) for j in range(i + 1, len(act) + 1)]
    found = [s for s in found if worst(s, act, edge) <= budget]
    return min(found, key=lambda s: sum(sum(cost[a:b]) for a, b in s), default=None)


# %% wrong: cheapest per byte first
# says: There is a plan that fits, with cost 5. You said None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    order = sorted(range(len(act)), key=lambda i: cost[i] / (act[i] - edge[i] + 1e-9))
    chosen = []
    while worst(chosen, act, edge) > budget:
        if not order:
            return None
        i = order.pop(0)
        chosen = sorted([*chosen, (i, i + 1)])
    return chosen


# %% wrong: only what is kept at the end of forward
# says: At its worst moment your plan needs
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def plan(act, edge, cost, budget):
    found, n = None, len(act)

    def go(i, kept, spent, way):
        nonlocal found
        if kept > budget or (found and spent >= found[0]):
            return
        if i == n:
            found = spent, way
            return
        go(i + 1, kept + act[i], spent, way)
        for j in range(n, i, -1):
            go(j, kept + edge[i], spent + sum(cost[i:j]), [*way, (i, j)])

    if n > 16:
        return []
    go(0, 0, 0, [])
    return found and found[1]


# %% wrong: forgets that a segment keeps its input
# says: At its worst moment your plan needs
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget, kept_of=lambda i, j: 0)


# %% wrong: a segment keeps the inputs of all its layers
# says: There is a plan that fits, with cost 5. You said None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget, kept_of=lambda i, j: sum(edge[i:j]))


# %% wrong: a segment keeps its input while its layers are there, too
# says: Your plan fits and computes
# says: There is a plan that fits, with cost 16. You said None.
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget, there_of=lambda i, j: sum(act[i:j]) + edge[i])


# %% wrong: less than the budget
# says: A plan that needs exactly the budget fits, and [] is the plan that computes nothing again.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    if not act:
        return []
    if sum(act) == budget:
        return None
    return cheapest(act, edge, cost, budget, fits=lambda a, b: a < b)


# %% wrong: the lowest peak
# says: Everything fits: nothing has to be computed again.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    low, step = max(act, default=0), 0.25
    while low <= budget:
        found = cheapest(act, edge, cost, low)
        if found is not None:
            return found
        low += step
    return None


# %% wrong: [] where nothing fits
# says: No plan fits here, so the answer is None.
# says: No plan fits here, so the answer is None.
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget) or []


# %% wrong: None where nothing has to be computed again
# says: There is a plan that fits, with cost 0. You said None.
# says: A plan that needs exactly the budget fits, and [] is the plan that computes nothing again.
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget) or None


# %% wrong: the fewest layers
# says: Your plan fits and computes
# says: Your plan fits and computes
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return cheapest(act, edge, cost, budget, price=lambda i, j: j - i)


# %% wrong: as if all segments were there at once
# says: There is a plan that fits, with cost 5. You said None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    return [] if sum(act) <= budget else None


# %% wrong: stop included
# says: At its worst moment your plan needs
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    found = cheapest(act, edge, cost, budget)
    return found and [(a, b - 1) for a, b in found if b - 1 > a]


# %% wrong: numbers of layers in place of pairs
# says: A plan is a list of pairs (start, stop) of plain ints, or None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    found = cheapest(act, edge, cost, budget)
    return found and [i for a, b in found for i in range(a, b)]


# %% wrong: segments from the end
# says: The segments must be in order, without overlap
# says: The segments must be in order, without overlap
# earns: 0 of 2
def plan(act, edge, cost, budget):
    found = cheapest(act, edge, cost, budget)
    return found and found[::-1]


# %% wrong: empties the lists
# says: The lists must be left as they were.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    found = cheapest(list(act), list(edge), list(cost), budget)
    act.clear()
    return found


# %% wrong: rounds to whole numbers
# says: At its worst moment your plan needs
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    return cheapest([int(a) for a in act], [int(e) for e in edge], cost, int(budget))


# %% wrong: an index into an empty chain
# says: Your code raised IndexError
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    act[0]
    return cheapest(act, edge, cost, budget)


# %% wrong: at most three segments
# says: There is a plan that fits
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    found = cheapest(act, edge, cost, budget)
    return None if found and len(found) > 3 else found


# %% wrong: NumPy's ints
# says: A plan is a list of pairs (start, stop) of plain ints, or None.
# says: This check builds on the first one
# earns: 0 of 2
def plan(act, edge, cost, budget):
    import numpy as np

    found = cheapest(act, edge, cost, budget)
    return found and [(np.int64(start), np.int64(stop)) for start, stop in found]


# %% wrong: segments of at most six layers
# says: There is a plan that fits, with cost 24. You said None.
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    def there_of(i, j):
        return sum(act[i:j]) if j - i <= 6 else math.inf

    return cheapest(act, edge, cost, budget, there_of=there_of)


# %% wrong: a dict from start to stop
# says: A plan is a list of pairs (start, stop), or None.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
def plan(act, edge, cost, budget):
    found = cheapest(act, edge, cost, budget)
    return found and dict(found)


# %% wrong: only the thirty cheapest ways to reach a layer
# says: There is a plan that fits, with cost 240.25. You said None.
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    ways = [[] for _ in range(len(act) + 1)]
    ways[0] = [(0, 0, ())]
    for i in range(len(act)):
        front, low = [], math.inf
        for spent, kept, way in sorted(ways[i]):
            if kept < low:
                low = kept
                front.append((spent, kept, way))
        for spent, kept, way in front[:30]:
            if kept + act[i] <= budget:
                ways[i + 1].append((spent, kept + act[i], way))
            for j in range(i + 1, len(act) + 1):
                if kept + sum(act[i:j]) > budget:
                    break
                ways[j].append((spent + sum(cost[i:j]), kept + edge[i], (*way, (i, j))))
    return list(min(ways[-1])[2]) if ways[-1] else None


# %% wrong: segments of at most ten layers
# says: There is a plan that fits, with cost 24. You said None.
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    def there_of(i, j):
        return sum(act[i:j]) if j - i <= 10 else math.inf

    return cheapest(act, edge, cost, budget, there_of=there_of)


# %% wrong: rounds what is kept to one decimal
# says: Your plan fits and computes 240.75 again; 240.25 is enough.
# earns: 1 of 2
# caught: hidden
def plan(act, edge, cost, budget):
    ways = [[] for _ in range(len(act) + 1)]
    ways[0] = [(0, 0, ())]
    for i in range(len(act)):
        front, low = [], math.inf
        for spent, kept, way in sorted(ways[i]):
            if kept < low:
                low = kept
                front.append((spent, kept, way))
        for spent, kept, way in front:
            if kept + act[i] <= budget:
                ways[i + 1].append((spent, kept + act[i], way))
            for j in range(i + 1, len(act) + 1):
                if kept + sum(act[i:j]) > budget:
                    break
                ways[j].append((spent + sum(cost[i:j]), round(kept + edge[i], 1), (*way, (i, j))))
    return list(min(ways[-1])[2]) if ways[-1] else None
