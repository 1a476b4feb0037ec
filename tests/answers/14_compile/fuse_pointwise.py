# corners: none
from torch import fx


def fusing(
    graph,
    pointwise,
    size,
    readers_of=lambda node: list(node.users),
    may_join=lambda node, reader, pointwise: node.target in pointwise and reader.target in pointwise,
    inputs_of=lambda node: node.all_input_nodes,
    is_call=lambda node: node.op in ("call_function", "call_method"),
    limit=lambda members: True,
    order=lambda members: members,
    after_of=None,
):
    """What most answers below change in one place."""
    calls = [node for node in graph.nodes if is_call(node)]
    groups = {node: [node] for node in calls}
    for node in reversed(calls):
        readers = readers_of(node)
        if len(readers) == 1 and readers[0] in groups and may_join(node, readers[0], pointwise):
            if limit(groups[readers[0]]):
                groups[readers[0]].append(node)
                groups[node] = groups[readers[0]]
    found, seen = [], set()
    for node in calls:
        if id(groups[node]) not in seen:
            seen.add(id(groups[node]))
            found.append(sorted(groups[node], key=calls.index))

    def moved(members):
        read = {one for node in members for one in inputs_of(node)} - set(members)
        return size[members[-1].name] + sum(size[one.name] for one in read)

    before = sum(size[node.name] + sum(size[one.name] for one in inputs_of(node)) for node in calls)
    after = sum(map(after_of or moved, found))
    return [[node.name for node in order(members)] for members in found], before, after


# %% right: union-find
def fuse(graph, pointwise, size):
    calls = [node for node in graph.nodes if node.op.startswith("call_")]
    parent = {node: node for node in calls}

    def root(node):
        return node if parent[node] is node else root(parent[node])

    for node in calls:
        if len(node.users) == 1:
            (reader,) = node.users
            if reader in parent and node.target in pointwise and reader.target in pointwise:
                parent[root(node)] = root(reader)
    groups = {}
    for node in calls:
        groups.setdefault(root(node), []).append(node)
    before = sum(size[n.name] + sum(size[a.name] for a in n.all_input_nodes) for n in calls)
    after = 0
    for members in groups.values():
        outside = {a for n in members for a in n.all_input_nodes if a not in members}
        after += size[members[-1].name] + sum(size[a.name] for a in outside)
    return [[n.name for n in members] for members in groups.values()], before, after


# %% right: grows from each last node, groups in another order
def fuse(graph, pointwise, size):
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    place = {node: number for number, node in enumerate(calls)}
    free, groups = set(calls), []
    for last in reversed(calls):
        if last not in free:
            continue
        members, todo = [], [last]
        while todo:
            node = todo.pop()
            members.append(node)
            free.discard(node)
            if node.target in pointwise:
                todo += [
                    a for a in node.all_input_nodes if a in free and a.target in pointwise and list(a.users) == [node]
                ]
        groups.append(sorted(members, key=place.get))
    before = after = 0
    for members in groups:
        before += sum(size[n.name] + sum(size[a.name] for a in n.all_input_nodes) for n in members)
        read = set().union(*[n.all_input_nodes for n in members]).difference(members)
        after += sum(size[a.name] for a in read) + size[members[-1].name]
    return tuple([node.name for node in members] for members in groups), before, after


# %% right: the shared one
fuse = fusing


# %% wrong: fuses over a second reader
# says: up is also read by product, outside of its group.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    def readers_of(node):
        return [reader for reader in node.users if reader.target in pointwise][-1:] or list(node.users)

    return fusing(graph, pointwise, size, readers_of=readers_of)


# %% wrong: does not see the output as a reader
# says: a is also read by the output, outside of its group.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, readers_of=lambda node: [r for r in node.users if r.op != "output"])


# %% wrong: fuses into the product
# says: are in one group, but not all of it is pointwise.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, may_join=lambda node, reader, pointwise: node.target in pointwise)


# %% wrong: the product is fused with what follows
# says: product, shifted, kept, square are in one group, but not all of it is pointwise.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, may_join=lambda node, reader, pointwise: reader.target in pointwise)


# %% wrong: everything in one
# says: but not all of it is pointwise.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    _, before, after = fusing(graph, pointwise, size)
    return [[node.name for node in calls]], before, after


# %% wrong: neighbours in the list, not in the graph
# says: It must be written, so it ends its group.
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    groups = []
    for node in graph.nodes:
        if node.op not in ("call_function", "call_method"):
            continue
        if groups and node.target in pointwise and groups[-1][-1].target in pointwise:
            groups[-1].append(node)
        elif groups and node.target in pointwise and len(groups) > 1 and groups[-2][-1].target in pointwise:
            groups[-2].append(node)
        else:
            groups.append([node])
    _, before, after = fusing(graph, pointwise, size)
    return [[node.name for node in members] for members in groups], before, after


# %% wrong: functions only
# says: more can be fused.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(
        graph,
        pointwise,
        size,
        may_join=lambda n, r, p: {n.target, r.target} <= p and n.op == r.op == "call_function",
    )


# %% wrong: chains of one input only
# says: more can be fused.
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    return fusing(
        graph,
        pointwise,
        size,
        may_join=lambda n, r, p: {n.target, r.target} <= p and len(n.all_input_nodes) == 1,
    )


# %% wrong: pairs only
# says: more can be fused. shifted, kept, square are one group.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, limit=lambda members: len(members) < 2)


# %% wrong: fuses nothing
# says: more can be fused. shifted, kept, square are one group.
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, may_join=lambda node, reader, pointwise: False)


# %% wrong: reads r twice in r * r
# says: before fusing, 7640 bytes move, not 8440.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    def inputs_of(node):
        return [one for one in [*node.args, *node.kwargs.values()] if isinstance(one, fx.Node)]

    return fusing(graph, pointwise, size, inputs_of=inputs_of)


# %% wrong: overlooks keywords
# says: Two arms and a keyword: before fusing
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, inputs_of=lambda node: {a for a in node.args if isinstance(a, fx.Node)})


# %% wrong: overlooks lists
# says: Arguments in a list: before fusing, 300 bytes move, not 100.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(
        graph,
        pointwise,
        size,
        inputs_of=lambda node: {a for a in [*node.args, *node.kwargs.values()] if isinstance(a, fx.Node)},
    )


# %% wrong: pointwise by name
# says: Functions and methods of one name
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    names = {getattr(target, "__name__", target) for target in pointwise}

    def is_pointwise(node):
        return getattr(node.target, "__name__", node.target) in names

    return fusing(graph, pointwise, size, may_join=lambda n, r, p: is_pointwise(n) and is_pointwise(r))


# %% wrong: pointwise by the node's label
# says: more can be fused
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    names = {getattr(target, "__name__", target) for target in pointwise}

    def is_pointwise(node):
        return node.name.split("_")[0] in names

    return fusing(graph, pointwise, size, may_join=lambda n, r, p: is_pointwise(n) and is_pointwise(r))


# %% wrong: a call that nobody reads is an error
# says: IndexError
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    def readers_of(node):
        return [list(node.users)[0]] if len(node.users) < 2 else list(node.users)

    return fusing(graph, pointwise, size, readers_of=readers_of)


# %% wrong: eliminates dead code
# says: A call that nobody reads: every call belongs to exactly one group
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    graph.eliminate_dead_code()
    return fusing(graph, pointwise, size)


# %% wrong: writes every intermediate
# says: after fusing, 4440 bytes move, not 6040.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    def after_of(members):
        read = {one for node in members for one in node.all_input_nodes} - set(members)
        return sum(size[one.name] for one in [*members, *read])

    return fusing(graph, pointwise, size, after_of=after_of)


# %% wrong: reads what stays inside
# says: after fusing
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def fuse(graph, pointwise, size):
    def after_of(members):
        read = {one for node in members for one in node.all_input_nodes}
        return size[members[-1].name] + sum(size[one.name] for one in read)

    return fusing(graph, pointwise, size, after_of=after_of)


# %% wrong: leaves other calls out
# says: every call belongs to exactly one group, alone if it must
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    groups, before, after = fusing(graph, pointwise, size)
    return [one for one in groups if len(one) > 1], before, after


# %% wrong: inputs in groups of their own
# says: x is in a group, although it isn't a call.
# earns: 0 of 3
def fuse(graph, pointwise, size):
    groups, before, after = fusing(graph, pointwise, size)
    return [*groups, *([node.name] for node in graph.nodes if node.op == "placeholder")], before, after


# %% wrong: before is after
# says: before fusing, 7640 bytes move, not
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    groups, before, after = fusing(graph, pointwise, size)
    return groups, after, after


# %% wrong: the last first
# says: within a group the names are in the order of the graph.
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, order=lambda members: members[::-1])


# %% wrong: nodes instead of names
# says: a list of lists of node names, and two ints.
# says: This check builds on the first one
# earns: 0 of 3
def fuse(graph, pointwise, size):
    calls = {node.name: node for node in graph.nodes}
    groups, before, after = fusing(graph, pointwise, size)
    return [[calls[name] for name in one] for one in groups], before, after


# %% wrong: fuses over two readers of one group
# says: in one group, although not each of them is read by the next only.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    last = {}
    for node in reversed(calls):
        ends = {last.get(reader) for reader in node.users}
        joins = len(ends) == 1 and None not in ends and {node.target, *(r.target for r in node.users)} <= pointwise
        last[node] = ends.pop() if joins else node
    groups = {}
    for node in calls:
        groups.setdefault(last[node], []).append(node)
    _, before, after = fusing(graph, pointwise, size)
    return [[node.name for node in members] for members in groups.values()], before, after


# %% wrong: tidies the graph up at the end
# says: the graph was changed. It must be left as it is.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    found = fusing(graph, pointwise, size)
    graph.eliminate_dead_code()
    return found


# %% wrong: overlooks slices
# says: An argument in a slice, x[:n]: before fusing, 158 bytes move, not 150.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    from torch.utils._pytree import tree_leaves

    def inputs_of(node):
        return {a for a in tree_leaves((node.args, node.kwargs)) if isinstance(a, fx.Node)}

    return fusing(graph, pointwise, size, inputs_of=inputs_of)


# %% wrong: takes an attribute for a call
# says: weight is in a group, although it isn't a call.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, is_call=lambda node: node.op not in ("placeholder", "output"))


# %% wrong: takes an input with the name of a method for a call
# says: exp is in a group, although it isn't a call.
# earns: 1 of 3
# caught: hidden
def fuse(graph, pointwise, size):
    return fusing(graph, pointwise, size, is_call=lambda node: node.op.startswith("call_") or node.target in pointwise)
