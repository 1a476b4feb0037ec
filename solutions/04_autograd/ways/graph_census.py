# %% right: level by level, with sets
# Each round takes all nodes that the last round leads to, less those that are known. Sets do the bookkeeping.
def census(t):
    """Nodes by name, found one level after the other."""
    level, seen = {t.grad_fn} - {None}, set()
    while level:
        seen |= level
        level = {node for one in level for node, _ in one.next_functions if node} - seen
    return Counter(type(node).__name__ for node in seen)


# %% right: a list that grows while it is walked through
# This is the shortest answer. `not in` walks through the list each time, so a graph of 10,000 nodes takes 10,000
# times as long as a graph of 100.
def census(t):
    """Nodes by name, in the order in which they are found."""
    nodes = [t.grad_fn] if t.grad_fn else []
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None and following not in nodes:
                nodes.append(following)
    return Counter(type(node).__name__ for node in nodes)


# %% wrong: counts a node once for each path
# says: You counted paths, not nodes
# In a chain both are the same. With x * x there are two paths to the node of x.
def census(t):
    """Nodes by name, as often as a path leads to them."""
    counts, stack = Counter(), [t.grad_fn] if t.grad_fn else []
    while stack:
        node = stack.pop()
        counts[type(node).__name__] += 1
        stack += [following for following, _ in node.next_functions if following]
    return counts
