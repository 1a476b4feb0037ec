# %% right: asks for the rest of the chain, by the room that is left
# The cheapest plan for the layers from i on depends only on the room that is left, and a cache makes sure that each
# such pair is computed once. The calls nest as deep as the chain is long, so 1,000 layers raise RecursionError, where
# the author's loop finds a plan.
def plan(act, edge, cost, budget):
    """The cheapest segments, by recursion over layers and room."""
    layers, found = len(act), {}

    def cheapest(i, room):
        """The least cost of the layers from i on, and the first decision: where it leads, with what segment."""
        if i == layers:
            return 0, None
        if (i, room) not in found:
            ways = [(math.inf, None)]
            if act[i] <= room:
                ways.append((cheapest(i + 1, room - act[i])[0], (i + 1, room - act[i], [])))
            there, again = 0, 0
            for j in range(i + 1, layers + 1):
                there, again = there + act[j - 1], again + cost[j - 1]
                if there > room:
                    break
                rest = cheapest(j, room - edge[i])[0]
                ways.append((rest + again, (j, room - edge[i], [(i, j)])))
            found[i, room] = min(ways, key=lambda way: way[0])
        return found[i, room]

    if cheapest(0, budget)[0] == math.inf:
        return None
    segments, i, room = [], 0, budget
    while i < layers:
        i, room, segment = cheapest(i, room)[1]
        segments += segment
    return segments


# %% wrong: equal segments, as many as the root of the number of layers
# says: Your plan fits and computes 16 again; 5 is enough.
# The rule of thumb computes every layer twice, even if the budget is nearly enough. The 16 layers of the check keep 1
# each, and the budget is 12.
def plan(act, edge, cost, budget):
    """Segments of equal length over the whole chain."""
    layers = len(act)
    if sum(act) <= budget:
        return []
    step = math.ceil(layers / round(math.sqrt(layers)))
    segments = [(start, min(start + step, layers)) for start in range(0, layers, step)]
    kept, worst = 0, 0
    for start, stop in segments:
        worst = max(worst, kept + sum(act[start:stop]))
        kept += edge[start]
    return segments if worst <= budget else None
