# corners: caller's modes
# %% right: a queue, names from .name()
def census(t):
    counts = Counter()
    if t.grad_fn is None:
        return counts
    queue, seen = [t.grad_fn], {t.grad_fn}
    while queue:
        node = queue.pop(0)
        counts[node.name().split("::")[-1]] += 1
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                queue.append(after)
    return counts


# %% right: sets of nodes, level by level
def census(t):
    level, seen = {t.grad_fn} - {None}, set()
    while level:
        seen |= level
        level = {f for node in level for f, _ in node.next_functions if f} - seen
    return Counter(node.__class__.__name__ for node in seen)


# %% right: marks a node when it is taken from the stack
def census(t):
    result, seen, stack = Counter(), {None}, [t.grad_fn]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        result.update([type(node).__name__])
        stack.extend(f for f, _ in node.next_functions)
    return result


# %% right: remembers ids, and keeps the nodes alive
def census(t):
    if not t.requires_grad or t.is_leaf:
        return Counter()
    nodes = {id(t.grad_fn): t.grad_fn}
    todo = [t.grad_fn]
    while todo:
        for f, _ in todo.pop().next_functions:
            if f is not None and id(f) not in nodes:
                nodes[id(f)] = f
                todo.append(f)
    return Counter(map(lambda f: type(f).__name__, nodes.values()))


# %% right: a list in place of the set
def census(t):
    nodes = [t.grad_fn] if t.grad_fn else []
    for node in nodes:
        for f, _ in node.next_functions:
            if f is not None and f not in nodes:
                nodes.append(f)
    return Counter(type(f).__name__ for f in nodes)


# %% wrong: counts a node once per path
# says: You counted paths, not nodes: a node that is used twice (here by x * x) must be counted once. Remember which nodes you have seen.
# says: You counted paths, not nodes
# earns: 0 of 1
# lesson
def census(t):
    counts, stack = Counter(), [t.grad_fn] if t.grad_fn else []
    while stack:
        node = stack.pop()
        counts[type(node).__name__] += 1
        stack += [f for f, _ in node.next_functions if f]
    return counts


# %% wrong: once per path, recursive
# says: You counted paths, not nodes: a node that is used twice (here by x * x) must be counted once. Remember which nodes you have seen.
# says: You counted paths, not nodes
# earns: 0 of 1
# lesson
def census(t):
    def count(node):
        if node is None:
            return Counter()
        return Counter([type(node).__name__]) + sum((count(f) for f, _ in node.next_functions), Counter())

    return count(t.grad_fn)


# %% wrong: recursive with visited set
# says: Recursion is limited to about 1000 levels; graphs are deeper. Use a list as a stack.
# earns: 0.5 of 1
# caught: hidden
def census(t):
    seen = set()

    def visit(node):
        if node is None or node in seen:
            return
        seen.add(node)
        for f, _ in node.next_functions:
            visit(f)

    visit(t.grad_fn)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: marks names, not nodes, as seen
# says: Different nodes may have the same name: mark nodes as seen, not names.
# says: different nodes may have the same name
# earns: 0 of 1
# lesson
def census(t):
    counts, stack = Counter(), [t.grad_fn] if t.grad_fn else []
    while stack:
        node = stack.pop()
        name = type(node).__name__
        if name in counts:
            continue
        counts[name] += 1
        stack += [f for f, _ in node.next_functions if f]
    return counts


# %% wrong: counts None edges
# says: An edge to None (an input that is not tracked) is no node.
# earns: 0 of 1
def census(t):
    if t.grad_fn is None:
        return Counter()
    seen, stack = {t.grad_fn}, [t.grad_fn]
    while stack:
        for f, _ in getattr(stack.pop(), "next_functions", ()):
            if f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: does not expect None edges
# says: An edge to None (an input that is not tracked) is no node: your code raised AttributeError
# says: Neither an edge to None nor a tensor
# earns: 0 of 1
def census(t):
    if t.grad_fn is None:
        return Counter()
    seen, stack = {t.grad_fn}, [t.grad_fn]
    while stack:
        for f, _ in stack.pop().next_functions:
            if f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: starts at next_functions
# says: t.grad_fn itself is missing.
# says: One node is missing in every graph
# earns: 0 of 1
def census(t):
    if t.grad_fn is None:
        return Counter()
    seen, stack = set(), [t.grad_fn]
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: stops after one level
# says: The walk stops too early: the nodes in next_functions have next_functions of their own.
# says: Nodes are missing: from t.grad_fn all entries of next_functions are followed
# earns: 0 of 1
def census(t):
    if t.grad_fn is None:
        return Counter()
    nodes = {t.grad_fn, *(f for f, _ in t.grad_fn.next_functions if f is not None)}
    return Counter(type(node).__name__ for node in nodes)


# %% wrong: drops AccumulateGrad
# says: The AccumulateGrad nodes (the leaves) are missing.
# says: One node is missing in every graph
# earns: 0 of 1
def census(t):
    seen = {t.grad_fn} - {None}
    stack = list(seen)
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen and not hasattr(f, "variable"):
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: follows the first input only
# says: Whole branches are missing: a node has one entry in next_functions per input
# says: Nodes are missing: from t.grad_fn
# earns: 0 of 1
def census(t):
    counts, node = Counter(), t.grad_fn
    while node is not None:
        counts[type(node).__name__] += 1
        node = node.next_functions[0][0] if node.next_functions else None
    return counts


# %% wrong: fails for a tensor without grad_fn
# says: A leaf has no grad_fn: the answer is an empty Counter (your code raised AttributeError
# earns: 0.5 of 1
def census(t):
    seen, stack = {t.grad_fn}, [t.grad_fn]
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: None for a tensor without grad_fn
# says: A tensor without grad_fn gives an empty Counter.
# earns: 0.5 of 1
def census(t):
    if t.grad_fn is None:
        return None
    seen, stack = {t.grad_fn}, [t.grad_fn]
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: a leaf counts itself
# says: A tensor without grad_fn gives an empty Counter.
# earns: 0.5 of 1
def census(t):
    if t.grad_fn is None:
        return Counter(AccumulateGrad=1)
    seen, stack = {t.grad_fn}, [t.grad_fn]
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: counts before it checks whether the node was seen
# says: You counted paths, not nodes: a node that is used twice (here by x * x) must be counted once. Remember which nodes you have seen.
# says: You counted paths, not nodes
# earns: 0 of 1
def census(t):
    counts, seen, stack = Counter(), set(), [t.grad_fn] if t.grad_fn else []
    while stack:
        node = stack.pop()
        counts[type(node).__name__] += 1
        if node in seen:
            continue
        seen.add(node)
        stack += [f for f, _ in node.next_functions if f]
    return counts


# %% right: remembers ids only
def census(t):
    counts, seen, stack = Counter(), set(), [t.grad_fn] if t.grad_fn else []
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        counts[type(node).__name__] += 1
        stack += [f for f, _ in node.next_functions if f]
    return counts


# %% wrong: runs backward on the way
# says: Counting must not run backward or fill .grad.
# earns: 0.5 of 1
# caught: hidden
def census(t):
    seen = {t.grad_fn} - {None}
    if seen:
        t.sum().backward(retain_graph=True)
    stack = list(seen)
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: collects all paths first and removes duplicates at the end
# says: The number of visits explodes: 30 times `y = y + y` is 31 nodes but a billion paths.
# earns: 0.5 of 1
# caught: hidden
def census(t):
    found, stack = [], [t.grad_fn] if t.grad_fn else []
    while stack:
        node = stack.pop()
        found.append(node)
        stack += [f for f, _ in node.next_functions if f]
    return Counter(type(node).__name__ for node in set(found))


# %% wrong: a plain dict
# says: The result must be a Counter; yours is of type dict.
# says: A tensor without grad_fn gives an empty Counter
# earns: 0 of 1
def census(t):
    seen = {t.grad_fn} - {None}
    stack = list(seen)
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return dict(Counter(type(node).__name__ for node in seen))


# %% wrong: the number of nodes only
# says: The result must be a Counter; yours is of type int.
# says: A tensor without grad_fn gives an empty Counter
# earns: 0 of 1
def census(t):
    return len(str(t.grad_fn))


# %% right: reads the explorer's graph
def census(t):
    return Counter(node.label for node in graph_of(t, {}).nodes)


# %% right: an object that can be called, a subclass of Counter
class Census:
    class Names(Counter):
        pass

    def __call__(self, t):
        frontier, done = {t.grad_fn} - {None}, set()
        while frontier:
            done |= frontier
            frontier = {node for seen in frontier for node, _ in seen.next_functions if node} - done
        return self.Names(type(node).__name__ for node in done)


census = Census()


# %% right: recursion with a higher limit
def census(t):
    sys.setrecursionlimit(50_000)
    counts, seen = Counter(), set()

    def walk(node):
        if node is not None and node not in seen:
            seen.add(node)
            counts[type(node).__name__] += 1
            for following, _ in node.next_functions:
                walk(following)

    walk(t.grad_fn)
    return counts


# %% wrong: a set that lives from call to call
# says: The same graph, counted again, gives another number: something is kept from call to call
# says: Something is kept from call to call
# earns: 0 of 1
def census(t, seen=set()):
    counts, waiting = Counter(), [t.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            counts[type(node).__name__] += 1
            waiting += [following for following, _ in node.next_functions]
    return counts


# %% wrong: a counter that lives from call to call
# says: The same graph, counted again, gives another number: something is kept from call to call
# says: A tensor without grad_fn gives an empty Counter
# earns: 0 of 1
counts = Counter()


def census(t):
    seen, waiting = set(), [t.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            counts[type(node).__name__] += 1
            waiting += [following for following, _ in node.next_functions]
    return counts


# %% wrong: counts types
# says: Count by the name of each node's type, a text such as 'MulBackward0': type(node).__name__.
# earns: 0.5 of 1
def census(t):
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node) for node in seen)


# %% wrong: shortens the names
# says: Count by the name of each node's type, a text such as 'MulBackward0': type(node).__name__.
# earns: 0.5 of 1
def census(t):
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node).__name__.removesuffix("Backward0") for node in seen)


# %% wrong: marks edges, node and input number, as seen
# says: a node that is used twice (here by two of its outputs) must be counted once.
# earns: 0.5 of 1
# caught: hidden
def census(t):
    counts, seen, waiting = Counter(), set(), [(t.grad_fn, 0)]
    while waiting:
        edge = waiting.pop()
        if edge[0] is not None and edge not in seen:
            seen.add(edge)
            counts[type(edge[0]).__name__] += 1
            waiting += edge[0].next_functions
    return counts


# %% wrong: a leaf counts for itself
# says: A tensor without grad_fn gives an empty Counter.
# earns: 0.5 of 1
def census(t):
    if t.is_leaf:
        return Counter(["AccumulateGrad"])
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: switches recording off
# says: Gradient recording was switched off and not on again.
# earns: 0.5 of 1
# corner: caller's modes
# caught: hidden
def census(t):
    torch.set_grad_enabled(False)
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: returns how many nodes there are
# says: The result must be a Counter; yours is of type
# says: The result must be a Counter.
# earns: 0 of 1
def census(t):
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return len(seen) if seen else Counter()


# %% wrong: the node of t alone
# says: The counts are wrong. There are
# says: 1 of SumBackward0, you counted 0
# says: Nodes are missing: from t.grad_fn all entries of next_functions are followed, then those of the
# earns: 0 of 1
def census(t):
    return Counter() if t.grad_fn is None else Counter([type(t.grad_fn).__name__])


# %% wrong: a thousand nodes at most
# says: The chain has 3000 AddBackward0 and one AccumulateGrad.
# earns: 0.5 of 1
# caught: hidden
def census(t):
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting and len(seen) < 1000:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node).__name__ for node in seen)


# %% wrong: a cache of all tensors
# says: The census of a tensor, taken again after an operation in place, is the old one
# earns: 0.5 of 1
# caught: hidden
taken_before = {}


def census(t):
    if t not in taken_before:
        counts, seen, waiting = Counter(), set(), [t.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                counts[type(node).__name__] += 1
                waiting += [after for after, _ in node.next_functions]
        taken_before[t] = counts
    return taken_before[t]


# %% wrong: follows the saved tensors, too
# says: You read what the nodes have saved, and after a backward that is freed.
# earns: 0.5 of 1
# caught: hidden
def census(t):
    counts, seen, waiting = Counter(), set(), [t.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            counts[type(node).__name__] += 1
            waiting += [saved.grad_fn for saved in getattr(node, "saved_tensors", ()) if saved is not None]
            waiting += [after for after, _ in node.next_functions]
    return counts
