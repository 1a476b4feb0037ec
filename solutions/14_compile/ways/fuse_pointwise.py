# %% right: each call points to its reader
# A call that joins its reader points to it, and the pointers lead to the last call of the group. The calls may be
# visited in any order, but the way to the end is walked again for each of them: a chain of 1,000 calls takes 499,500
# steps.
def fuse(graph, pointwise, size):
    """Groups of calls that lead to the same last call."""
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    reader_of = {}
    for node in calls:
        if len(node.users) == 1:
            (reader,) = node.users
            if reader.op != "output" and node.target in pointwise and reader.target in pointwise:
                reader_of[node] = reader

    groups = {}
    for node in calls:
        last = node
        while last in reader_of:
            last = reader_of[last]
        groups.setdefault(last, []).append(node)

    def moved(members):
        read = {arg for node in members for arg in node.all_input_nodes}.difference(members)
        return size[members[-1].name] + sum(size[node.name] for node in read)

    before = sum(moved([node]) for node in calls)
    after = sum(moved(members) for members in groups.values())
    return [[node.name for node in members] for members in groups.values()], before, after


# %% wrong: joins if any of the readers is pointwise
# says: up is also read by product, outside of its group.
# A result that has a second reader must be written in any case, so fusing it with the first one doesn't save that.
def fuse(graph, pointwise, size):
    """Groups that hide results which others need."""
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    last = {}
    for node in reversed(calls):
        readers = [reader for reader in node.users if reader.target in pointwise and reader in last]
        last[node] = last[readers[-1]] if readers and node.target in pointwise else node
    groups = {}
    for node in calls:
        groups.setdefault(last[node], []).append(node)

    def moved(members):
        read = {arg for node in members for arg in node.all_input_nodes} - set(members)
        return size[members[-1].name] + sum(size[node.name] for node in read)

    before, after = sum(moved([node]) for node in calls), sum(map(moved, groups.values()))
    return [[node.name for node in members] for members in groups.values()], before, after
